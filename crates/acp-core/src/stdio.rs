//! The stdio transport: one JSON-RPC message a line, in both directions (3.2).
//!
//! MCP's library ignores what it can't read, so that a caller waits for ever. Here every malformed message gets the
//! error that JSON-RPC has for it, with its id where it has one.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use acp_protocol::METHOD_CONFIGURE;
use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorData, GetMeta, JsonRpcMessage, ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use crate::envelope::{self, Envelope, MAX_MESSAGE_BYTES, Refusal};
use crate::host_tables;
use crate::outgoing::{AnswerTables, OutgoingTables};
use crate::revisions;

/// A line that needed more is not kept as a buffer for the next ones.
const KEPT_BUFFER_BYTES: usize = 1024 * 1024;

/// Lines in, lines out.
pub(crate) struct Lines<R, W> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The revisions of MCP that the server announces.
    revisions: Cow<'static, [ProtocolVersion]>,
    /// The rest of an overlong line is being skipped.
    skipping: bool,
    /// Whether the session has begun, by `initialize` or, where the revision has none, by its first request.
    begun: bool,
    /// Whether the revision that was agreed on has batches.
    has_batches: bool,
    /// Messages of a batch that were not read yet.
    queued: VecDeque<(Bytes, Option<BatchNumber>)>,
    /// Batches that are not answered yet.
    batches: HashMap<BatchNumber, Batch>,
    next_batch: BatchNumber,
    /// Requests without an answer, and the batch that they came in. The library answers only one of two with the same
    /// id.
    open: HashMap<RequestId, Option<BatchNumber>>,
    writer: Arc<Mutex<Option<W>>>,
    /// An `acp/configure` without an answer. What follows it must find it in force, and the library runs requests side
    /// by side, so nothing more is read until then.
    configuring: Option<RequestId>,
    /// An answer of the transport itself that is being written. It lives here because the library drops a read that
    /// has not ended whenever something else happens, and half an answer must not stay half.
    answering: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    tables: Arc<OutgoingTables>,
}

type BatchNumber = u64;

/// The answers of a batch, which leave together.
#[derive(Default)]
struct Batch {
    /// Messages that are not read, or not answered.
    pending: usize,
    /// Each as the pieces of its text.
    answers: Vec<Vec<Bytes>>,
    tables: Vec<AnswerTables>,
}

/// What to do with a line.
enum Line {
    /// Hand it to the session.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// Answer it here.
    Answer(Refusal),
    /// Say nothing: an answer or a notification that can't be used.
    Ignore,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    pub(crate) fn new(
        reader: R,
        writer: W,
        tables: Arc<OutgoingTables>,
        revisions: Cow<'static, [ProtocolVersion]>,
    ) -> Self {
        Self {
            revisions,
            reader: BufReader::with_capacity(64 * 1024, reader),
            line: Vec::new(),
            skipping: false,
            begun: false,
            has_batches: false,
            queued: VecDeque::new(),
            batches: HashMap::new(),
            next_batch: 0,
            open: HashMap::new(),
            configuring: None,
            writer: Arc::new(Mutex::new(Some(writer))),
            answering: None,
            tables,
        }
    }

    /// Reads up to the next line break; `None` at the end of input. It can be cancelled at any await: what was read
    /// is in `self`.
    async fn next_line(&mut self) -> Option<Result<Vec<u8>, ()>> {
        loop {
            let Ok(available) = self.reader.fill_buf().await else { return None };
            if available.is_empty() {
                // A last line without a line break counts, as from `printf`.
                let last = std::mem::take(&mut self.line);
                return (!last.is_empty() && !std::mem::take(&mut self.skipping)).then_some(Ok(last));
            }
            let (taken, complete) = match available.iter().position(|byte| *byte == b'\n') {
                Some(place) => (place + 1, true),
                None => (available.len(), false),
            };
            if !self.skipping {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.reader.consume(taken);
            if self.line.len() > MAX_MESSAGE_BYTES + usize::from(complete) {
                self.line = Vec::new();
                self.skipping = true;
            }
            if complete {
                if std::mem::take(&mut self.skipping) {
                    return Some(Err(()));
                }
                let mut line = std::mem::take(&mut self.line);
                if line.capacity() <= KEPT_BUFFER_BYTES {
                    self.line = Vec::with_capacity(line.len().min(KEPT_BUFFER_BYTES));
                }
                line.truncate(line.trim_ascii_end().len());
                return Some(Ok(line));
            }
        }
    }

    async fn finish_answering(&mut self) {
        if let Some(answering) = &mut self.answering {
            answering.await;
            self.answering = None;
        }
    }

    fn read(&mut self, message: &[u8], batch: Option<BatchNumber>) -> Line {
        let envelope = match Envelope::read(message) {
            Ok(envelope) => envelope,
            Err(refusal) => return Line::Answer(refusal),
        };
        let kept = envelope.is_answer().then(|| host_tables::keep_text(message)).flatten();
        let message = kept.as_deref().unwrap_or(message);
        if envelope.is_answer() && envelope::has_too_many_values(message) {
            return Self::unreadable_answer(envelope.id);
        }
        let parsed: Result<RxJsonRpcMessage<RoleServer>, _> = serde_json::from_slice(message);
        if !self.begun
            && let Some(instead) = self.before_the_session(&envelope, parsed.as_ref().ok())
        {
            return instead;
        }
        match parsed {
            Ok(JsonRpcMessage::Request(request)) if self.open.contains_key(&request.id) => {
                Line::Answer(Refusal::still_open(request.id))
            }
            Ok(message) => {
                // Notifications get no answer, whatever their method.
                match envelope.method.as_deref().filter(|_| envelope.is_request()) {
                    Some("initialize") if batch.is_some() => {
                        return Line::Answer(Refusal::invalid(
                            envelope.id,
                            "Invalid Request: initialize can't be part of a batch.",
                        ));
                    }
                    Some("initialize") if is_initialize(&message) => self.begun = true,
                    // Params that can't be read make it a request of no known kind.
                    Some("initialize") => return Line::Answer(Refusal::invalid_params(envelope.id)),
                    Some(METHOD_CONFIGURE) => self.configuring.clone_from(&envelope.id),
                    _ => {}
                }
                if let JsonRpcMessage::Request(request) = &message {
                    self.open.insert(request.id.clone(), batch);
                }
                Line::Message(Box::new(message))
            }
            Err(_) if envelope.is_answer() => Self::unreadable_answer(envelope.id),
            Err(_) => envelope.unreadable().map_or(Line::Ignore, Line::Answer),
        }
    }

    /// Whoever waits for an answer that can't be read need not wait until time is up.
    fn unreadable_answer(id: Option<RequestId>) -> Line {
        let Some(id) = id else { return Line::Ignore };
        let error = ErrorData::internal_error("The answer can't be read.", None);
        Line::Message(Box::new(JsonRpcMessage::error(error, Some(id))))
    }

    /// What to say instead of handing a message on: before the session only a ping and the question for its revisions
    /// are requests, and since 2026-07-28 whatever says itself which revision it is of.
    fn before_the_session(
        &mut self,
        envelope: &Envelope,
        message: Option<&RxJsonRpcMessage<RoleServer>>,
    ) -> Option<Line> {
        let sessionless = self.revisions.iter().any(|revision| !revision.has_initialize());
        match envelope.method.as_deref() {
            // As a notification each of them would end the session before it begins.
            Some("initialize" | "ping" | "server/discover") if envelope.id.is_some() => None,
            Some(_) if envelope.id.is_some() => {
                let meta = match message {
                    Some(JsonRpcMessage::Request(request)) if sessionless => request.request.get_meta(),
                    _ => {
                        let refusal = Refusal::invalid(envelope.id.clone(), "Invalid Request: send initialize first.");
                        return Some(Line::Answer(refusal));
                    }
                };
                // The library has answers of its own for what is missing here.
                self.begun = meta.missing_required_keys(&ProtocolVersion::NO_INITIALIZE).is_empty()
                    && meta.protocol_version().is_some_and(|revision| self.revisions.contains(&revision));
                None
            }
            _ => Some(Line::Ignore),
        }
    }

    /// The id of the request that a notification cancels. It gets no answer.
    fn cancelled(message: &RxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
        match message {
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.as_ref(),
                _ => None,
            },
            _ => None,
        }
    }

    /// Begins to write an answer of the transport itself. The ones before were written: reading waits for them.
    fn answer(&mut self, pieces: Vec<Bytes>, tables: Vec<AnswerTables>) {
        let (writer, before) = (self.writer.clone(), self.answering.take());
        self.answering = Some(Box::pin(async move {
            if let Some(before) = before {
                before.await;
            }
            // The caller is gone when this fails; the next read finds the end of input.
            if write(&writer, pieces).await.is_ok() {
                tables.into_iter().for_each(AnswerTables::sent);
            }
        }));
    }

    fn settle_and_answer(&mut self, number: BatchNumber, answer: Option<Vec<Bytes>>) {
        if let Some(mut batch) = self.settle(number, answer) {
            self.answer(batch.pieces(), batch.tables);
        }
    }

    /// Queues what a line holds: one message, or those of a batch.
    fn unpack(&mut self, line: Bytes) -> Option<Refusal> {
        let line = line.slice_ref(line.trim_ascii());
        match envelope::batch(&line).filter(|_| self.has_batches) {
            None => self.queued.push_back((line, None)),
            Some(Err(refusal)) => return Some(refusal),
            Some(Ok(messages)) => {
                let number = self.next_batch;
                self.next_batch += 1;
                self.batches.insert(number, Batch { pending: messages.len(), ..Batch::default() });
                self.queued.extend(messages.into_iter().map(|message| (message, Some(number))));
            }
        }
        None
    }

    /// Notes that one message of a batch needs nothing any more. The batch, where this was the last one.
    fn settle(&mut self, number: BatchNumber, answer: Option<Vec<Bytes>>) -> Option<Batch> {
        let batch = self.batches.get_mut(&number)?;
        batch.pending -= 1;
        batch.answers.extend(answer);
        if batch.pending > 0 {
            return None;
        }
        self.batches.remove(&number)
    }
}

/// What a message to the client waits for. Text is made where nothing else waits for it.
enum Ready<T> {
    Now(T, AnswerTables),
    /// Its batch, if this was the last answer of it.
    Batch(Option<Batch>),
    Failed(io::Error),
}

impl Batch {
    /// The pieces of its answer: none where nothing in it asked for one.
    fn pieces(&mut self) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        for answer in self.answers.drain(..) {
            pieces.push(Bytes::from_static(if pieces.is_empty() { b"[" } else { b"," }));
            pieces.extend(answer);
        }
        if !pieces.is_empty() {
            pieces.push(Bytes::from_static(b"]"));
        }
        pieces
    }
}

fn is_initialize(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

async fn write<W: AsyncWrite + Unpin>(writer: &Mutex<Option<W>>, pieces: Vec<Bytes>) -> io::Result<()> {
    let mut guard = writer.lock().await;
    let writer = guard.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    if pieces.is_empty() {
        return Ok(());
    }
    for piece in pieces {
        writer.write_all(&piece).await?;
    }
    writer.write_all(b"\n").await?;
    writer.flush().await
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = self.writer.clone();
        let answered = match &message {
            JsonRpcMessage::Response(response) => {
                if let ServerResult::InitializeResult(agreed) = &response.result {
                    self.has_batches = revisions::has_batches(&agreed.protocol_version);
                }
                Some(response.id.clone())
            }
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let mut batch = None;
        if let Some(answered) = &answered {
            batch = self.open.remove(answered).flatten();
            self.configuring.take_if(|configuring| configuring == answered);
        }
        let mut tables = self.tables.take(answered.as_ref());
        let text = move || serde_json::to_vec(&message).map_err(io::Error::from);
        let ready = match batch {
            None => Ready::Now(text, tables),
            Some(number) => match text().and_then(|text| tables.splice(text)) {
                Err(error) => Ready::Failed(error),
                Ok(pieces) => {
                    if let Some(batch) = self.batches.get_mut(&number) {
                        batch.tables.push(tables);
                    }
                    Ready::Batch(self.settle(number, Some(pieces)))
                }
            },
        };
        async move {
            let (pieces, tables) = match ready {
                Ready::Now(text, mut tables) => (tables.splice(text()?)?, vec![tables]),
                Ready::Batch(None) => return Ok(()),
                Ready::Batch(Some(mut batch)) => (batch.pieces(), batch.tables),
                Ready::Failed(error) => return Err(error),
            };
            write(&writer, pieces).await?;
            tables.into_iter().for_each(AnswerTables::sent);
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.finish_answering().await;
            if self.configuring.is_some() {
                // Sending its answer ends this wait: the library asks again after every event.
                std::future::pending::<()>().await;
            }
            let Some((message, batch)) = self.queued.pop_front() else {
                let refusal = match self.next_line().await? {
                    Ok(line) => self.unpack(line.into()),
                    Err(()) => Some(Refusal::invalid(None, "Invalid Request: the line is longer than 64 MiB.")),
                };
                if let Some(refusal) = refusal {
                    self.answer(vec![refusal.to_text().into()], Vec::new());
                }
                continue;
            };
            if message.trim_ascii().is_empty() {
                continue;
            }
            let line = self.read(message.trim_ascii(), batch);
            let (mut settled, mut answer) = (batch, None);
            let message = match line {
                Line::Message(message) => {
                    if matches!(*message, JsonRpcMessage::Request(_)) {
                        settled = None;
                    }
                    Some(message)
                }
                Line::Ignore => None,
                Line::Answer(refusal) => {
                    answer = Some(vec![refusal.to_text().into()]);
                    None
                }
            };
            match settled {
                None => _ = answer.map(|answer| self.answer(answer, Vec::new())),
                Some(number) => self.settle_and_answer(number, answer),
            }
            if let Some(message) = message {
                if let Some(number) =
                    Self::cancelled(&message).and_then(|cancelled| self.open.remove(cancelled)).flatten()
                {
                    self.settle_and_answer(number, None);
                }
                return Some(*message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.finish_answering().await;
        self.writer.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
