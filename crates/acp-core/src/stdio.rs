//! The stdio transport: one JSON-RPC message a line, in both directions (3.2).
//!
//! MCP's library ignores what it can't read, so that a caller waits for ever. Here every malformed message gets the
//! error that JSON-RPC has for it, with its id where it has one.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use acp_protocol::METHOD_CONFIGURE;
use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use crate::envelope::{Envelope, MAX_MESSAGE_BYTES, Refusal};
use crate::outgoing::OutgoingTables;

/// A line that needed more is not kept as a buffer for the next ones.
const KEPT_BUFFER_BYTES: usize = 1024 * 1024;

/// Lines in, lines out.
pub(crate) struct Lines<R, W> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The rest of an overlong line is being skipped.
    skipping: bool,
    /// Whether `initialize` was seen.
    initialized: bool,
    /// Requests without an answer. The library answers only one of two with the same id.
    open: HashSet<RequestId>,
    writer: Arc<Mutex<Option<W>>>,
    /// An `acp/configure` without an answer. What follows it must find it in force, and the library runs requests side
    /// by side, so nothing more is read until then.
    configuring: Option<RequestId>,
    /// An answer of the transport itself that is being written. It lives here because the library drops a read that
    /// has not ended whenever something else happens, and half an answer must not stay half.
    answering: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    tables: Arc<OutgoingTables>,
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

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(crate) fn new(reader: R, writer: W, tables: Arc<OutgoingTables>) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, reader),
            line: Vec::new(),
            skipping: false,
            initialized: false,
            open: HashSet::new(),
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
            if self.line.len() > MAX_MESSAGE_BYTES {
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

    fn read(&mut self, line: &[u8]) -> Line {
        let envelope = match Envelope::read(line) {
            Ok(envelope) => envelope,
            Err(refusal) => return Line::Answer(refusal),
        };
        if let Some(refusal) = self.refuse_before_initialize(&envelope) {
            return refusal;
        }
        match serde_json::from_slice(line) {
            Ok(JsonRpcMessage::Request(request)) if !self.open.insert(request.id.clone()) => {
                Line::Answer(Refusal::still_open(request.id))
            }
            Ok(message) => {
                self.close_cancelled(&message);
                match envelope.method.as_deref() {
                    Some("initialize") if is_initialize(&message) => self.initialized = true,
                    // Params that can't be read make it a request of no known kind.
                    Some("initialize") => return Line::Answer(Refusal::invalid_params(envelope.id)),
                    Some(METHOD_CONFIGURE) => self.configuring = envelope.id,
                    _ => {}
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

    /// A cancelled request gets no answer.
    fn close_cancelled(&mut self, message: &RxJsonRpcMessage<RoleServer>) {
        if let JsonRpcMessage::Notification(notification) = message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(request) = &cancelled.params.request_id
        {
            self.open.remove(request);
        }
    }

    /// Before `initialize` only a ping and a probe for another revision are requests.
    fn refuse_before_initialize(&mut self, envelope: &Envelope) -> Option<Line> {
        match envelope.method.as_deref() {
            _ if self.initialized => None,
            Some("initialize") if envelope.id.is_some() => None,
            Some("ping" | "server/discover") => None,
            Some(_) if envelope.id.is_some() => {
                Some(Line::Answer(Refusal::invalid(envelope.id.clone(), "Invalid Request: send initialize first.")))
            }
            _ => Some(Line::Ignore),
        }
    }
}

fn is_initialize(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

async fn write<W: AsyncWrite + Unpin>(writer: &Mutex<Option<W>>, pieces: Vec<Bytes>) -> io::Result<()> {
    let mut guard = writer.lock().await;
    let writer = guard.as_mut().ok_or(io::ErrorKind::NotConnected)?;
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
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        if let Some(answered) = &answered {
            self.open.remove(answered);
            self.configuring.take_if(|configuring| configuring == answered);
        }
        let mut tables = self.tables.take(answered.as_ref());
        async move {
            let text = serde_json::to_vec(&message)?;
            write(&writer, tables.splice(text)?).await?;
            tables.sent();
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
            let line = match self.next_line().await? {
                Ok(line) if line.trim_ascii().is_empty() => continue,
                Ok(line) => self.read(line.trim_ascii()),
                Err(()) => Line::Answer(Refusal::invalid(None, "Invalid Request: the line is longer than 64 MiB.")),
            };
            match line {
                Line::Message(message) => return Some(*message),
                Line::Ignore => {}
                Line::Answer(refusal) => {
                    let writer = self.writer.clone();
                    self.answering = Some(Box::pin(async move {
                        // The caller is gone when this fails; the next read finds the end of input.
                        let _ = write(&writer, vec![refusal.to_text().into()]).await;
                    }));
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.finish_answering().await;
        self.writer.lock().await.take();
        Ok(())
    }
}
