//! One pair of streams: lines out in order, lines in to whoever waits for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot, watch};

use super::message::{self, Incoming, ProgressParams, RpcError};
use super::{ClientError, OnProgress, ReadTable};
use crate::StderrTail;

/// Lines waiting to be written before a sender has to wait.
const QUEUE: usize = 64;
/// How long the server's last words are waited for once its output has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

type Outcome = Result<Box<RawValue>, ClientError>;

pub(super) struct Settings {
    pub(super) line_max: usize,
    pub(super) read_table: Option<ReadTable>,
    pub(super) stderr: Option<StderrTail>,
}

/// The shared state of a session. The writing task owns the server's input, so a dropped call can't leave half a line.
pub(super) struct Connection {
    next_id: AtomicU64,
    state: Mutex<State>,
    /// Why the session ended, once it has.
    ended: watch::Sender<Option<ClientError>>,
}

struct State {
    out: Option<mpsc::Sender<Vec<u8>>>,
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
    progress: HashMap<u64, OnProgress>,
}

impl Connection {
    pub(super) fn open<R, W>(reader: R, writer: W, settings: Settings) -> Arc<Self>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (out, lines) = mpsc::channel(QUEUE);
        let connection = Arc::new(Self {
            next_id: AtomicU64::new(1),
            state: Mutex::new(State { out: Some(out), waiting: HashMap::new(), progress: HashMap::new() }),
            ended: watch::Sender::new(None),
        });
        tokio::spawn(write_lines(writer, lines));
        tokio::spawn(read_lines(BufReader::with_capacity(64 * 1024, reader), Arc::clone(&connection), settings));
        connection
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn expect_progress(&self, token: u64, receiver: OnProgress) {
        self.state().progress.insert(token, receiver);
    }

    pub(super) async fn send_request(
        self: &Arc<Self>,
        id: u64,
        method: &str,
        params: &impl Serialize,
        cancellable: bool,
    ) -> Result<Pending, ClientError> {
        let line = message::request(id, method, params)?;
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            if let Some(ended) = &*self.ended.borrow() {
                return Err(ended.clone());
            }
            state.waiting.insert(id, sender);
        }
        let pending =
            Pending { id, method: method.to_owned(), cancellable, connection: Arc::clone(self), receiver, done: false };
        self.send(line).await?;
        Ok(pending)
    }

    pub(super) async fn send(&self, line: Vec<u8>) -> Result<(), ClientError> {
        let out = self.state().out.clone();
        let sent = match out {
            Some(out) => out.send(line).await.is_ok(),
            None => false,
        };
        if sent { Ok(()) } else { Err(self.why_ended().await) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.ended.borrow().is_none() && self.state().out.is_some()
    }

    pub(super) fn close_input(&self) {
        self.state().out = None;
    }

    /// Its output may have ended just now, and its last words be on their way.
    async fn why_ended(&self) -> ClientError {
        let mut ended = self.ended.subscribe();
        let reason = tokio::time::timeout(2 * LAST_WORDS, ended.wait_for(Option::is_some)).await;
        let reason = reason.ok().and_then(|ended| ended.ok()?.clone());
        reason.unwrap_or(ClientError::Closed { stderr: Vec::new() })
    }

    /// Takes a request out of the list; the server hears that nobody waits for it any more.
    fn abandon(&self, id: u64, cancellable: bool) {
        let mut state = self.state();
        state.progress.remove(&id);
        if state.waiting.remove(&id).is_none() || !cancellable {
            return;
        }
        let params = json!({"requestId": id, "reason": "the host no longer waits for it"});
        if let (Some(out), Ok(line)) = (&state.out, message::notification("notifications/cancelled", &params)) {
            // A full queue means the server doesn't read: it won't miss this line.
            let _ = out.try_send(line);
        }
    }

    fn settle(&self, id: u64, outcome: Outcome) {
        let mut state = self.state();
        state.progress.remove(&id);
        if let Some(waiting) = state.waiting.remove(&id) {
            let _ = waiting.send(outcome);
        }
    }

    fn end(&self, reason: ClientError) {
        let mut state = self.state();
        state.out = None;
        state.progress.clear();
        for (_, waiting) in state.waiting.drain() {
            let _ = waiting.send(Err(reason.clone()));
        }
        self.ended.send_replace(Some(reason));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request on its way; dropping it abandons it.
pub(super) struct Pending {
    id: u64,
    method: String,
    cancellable: bool,
    connection: Arc<Connection>,
    receiver: oneshot::Receiver<Outcome>,
    done: bool,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pending").field("id", &self.id).field("method", &self.method).finish_non_exhaustive()
    }
}

impl Pending {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) async fn answer(mut self, patience: Duration) -> Outcome {
        match tokio::time::timeout(patience, &mut self.receiver).await {
            Ok(outcome) => {
                self.done = true;
                match outcome {
                    Ok(outcome) => outcome,
                    Err(_) => Err(self.connection.why_ended().await),
                }
            }
            Err(_) => Err(ClientError::Timeout { method: self.method.clone(), after: patience }),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.done {
            self.connection.abandon(self.id, self.cancellable);
        }
    }
}

async fn write_lines(mut writer: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if writer.write_all(&line).await.is_err() || writer.flush().await.is_err() {
            break;
        }
    }
    let _ = writer.shutdown().await;
}

async fn read_lines(mut reader: impl AsyncBufRead + Unpin, connection: Arc<Connection>, settings: Settings) {
    let mut line = Vec::new();
    let reason = loop {
        line.clear();
        // One long line must not hold its memory for the rest of the session.
        line.shrink_to(1024 * 1024);
        match read_line(&mut reader, &mut line, settings.line_max).await {
            Ok(true) => {}
            Ok(false) => {
                // Its last words may take a moment; whoever looks meanwhile must not take it for open.
                connection.close_input();
                break None;
            }
            Err(reason) => break Some(reason),
        }
        if !line.trim_ascii().is_empty()
            && let Err(reason) = receive(&connection, &line, &settings)
        {
            // A line without its end is what a server leaves that ends while it writes.
            break line.ends_with(b"\n").then_some(reason);
        }
    };
    let reason = match reason {
        Some(reason) => reason,
        None => closed(settings.stderr.as_ref()).await,
    };
    connection.end(reason);
}

async fn closed(stderr: Option<&StderrTail>) -> ClientError {
    let Some(stderr) = stderr else { return ClientError::Closed { stderr: Vec::new() } };
    stderr.settled(LAST_WORDS).await;
    ClientError::Closed { stderr: stderr.lines() }
}

/// Reads one line of at most `max` bytes; `false` at the end of the stream.
async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    max: usize,
) -> Result<bool, ClientError> {
    loop {
        // A stream that breaks has ended, as far as calls are concerned.
        let Ok(chunk) = reader.fill_buf().await else { return Ok(false) };
        if chunk.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(chunk.len(), |end| end + 1);
        if line.len() + count > max {
            return Err(ClientError::Protocol(format!("it wrote a line of more than {max} bytes")));
        }
        line.extend_from_slice(&chunk[..count]);
        reader.consume(count);
        if end.is_some() {
            return Ok(true);
        }
    }
}

fn receive(connection: &Arc<Connection>, line: &[u8], settings: &Settings) -> Result<(), ClientError> {
    // A derived type would take a list for an object, field by field.
    if line.trim_ascii_start().starts_with(b"[") {
        return Err(ClientError::Protocol("it wrote a list where a JSON-RPC message is expected".to_owned()));
    }
    let incoming: Incoming<'_> = serde_json::from_slice(line)
        .map_err(|error| ClientError::Protocol(format!("it wrote a line that is no JSON-RPC message: {error}")))?;
    match (incoming.method.as_deref(), incoming.id) {
        (Some(method), Some(id)) => answer_server(connection, method, id, incoming.params, settings),
        (Some("notifications/progress"), None) => pass_progress_on(connection, incoming.params),
        (Some(_), None) => {}
        (None, Some(id)) => {
            if let Ok(id) = id.get().parse() {
                let outcome = match (incoming.result, incoming.error) {
                    (_, Some(error)) => Err(ClientError::Rpc(error)),
                    (Some(result), None) => Ok(result.to_owned()),
                    (None, None) => Err(ClientError::Protocol("it answered with neither result nor error".to_owned())),
                };
                connection.settle(id, outcome);
            }
        }
        // An error without id is about a line that the server couldn't read; nobody waits for it.
        (None, None) => {}
    }
    Ok(())
}

fn pass_progress_on(connection: &Connection, params: Option<&RawValue>) {
    let Some(params) = params.and_then(|raw| serde_json::from_str::<ProgressParams>(raw.get()).ok()) else { return };
    let receiver = params.progress_token.as_u64().and_then(|token| connection.state().progress.get(&token).cloned());
    if let Some(receiver) = receiver {
        receiver(params.into());
    }
}

/// Answers a request of the server in a task of its own, so that a slow table doesn't hold up other answers.
fn answer_server(
    connection: &Arc<Connection>,
    method: &str,
    id: &RawValue,
    params: Option<&RawValue>,
    settings: &Settings,
) {
    let (method, id) = (method.to_owned(), id.to_owned());
    let params = params.map(ToOwned::to_owned);
    let read_table = settings.read_table.clone();
    let connection = Arc::clone(connection);
    tokio::spawn(async move {
        let line = match (method.as_str(), read_table) {
            ("ping", _) => message::answer(&id, Ok(&json!({}))),
            (acp_protocol::METHOD_READ_TABLE, Some(handler)) => {
                let params = params.as_deref().map_or("null", RawValue::get);
                match serde_json::from_str(params) {
                    Ok(params) => match handler(params).await {
                        Ok(table) => message::answer(&id, Ok(&table)),
                        Err(error) => refuse(&id, error),
                    },
                    Err(error) => refuse(&id, rpc_error(INVALID_PARAMS, format!("invalid parameters: {error}"))),
                }
            }
            _ => refuse(&id, rpc_error(METHOD_NOT_FOUND, format!("this host has no method {method}"))),
        };
        if let Ok(line) = line {
            let _ = connection.send(line).await;
        }
    });
}

fn refuse(id: &RawValue, error: RpcError) -> Result<Vec<u8>, ClientError> {
    message::answer(id, Err::<&(), _>(error))
}

fn rpc_error(code: i64, message: String) -> RpcError {
    RpcError { code, message, data: None }
}
