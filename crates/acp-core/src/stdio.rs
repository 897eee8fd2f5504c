//! The stdio transport: one JSON-RPC message a line, in both directions (3.2).
//!
//! MCP's library ignores what it can't read, so that a caller waits for ever. Here every malformed message gets the
//! error that JSON-RPC has for it, with its id where it has one.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use acp_protocol::METHOD_CONFIGURE;
use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use crate::outgoing::OutgoingTables;
use crate::server::MCP_METHODS;

/// The longest line: room for a table that a host sends in an answer, and a bound on what a peer can make us hold.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// A line that needed more is not kept as a buffer for the next ones.
const KEPT_BUFFER_BYTES: usize = 1024 * 1024;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

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
    Answer { id: Option<RequestId>, code: i32, message: &'static str },
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
            if self.line.len() > MAX_LINE_BYTES {
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
            Err(refusal) => return refusal,
        };
        if let Some(refusal) = self.refuse_before_initialize(&envelope) {
            return refusal;
        }
        match serde_json::from_slice(line) {
            Ok(JsonRpcMessage::Request(request)) if !self.open.insert(request.id.clone()) => Line::Answer {
                id: Some(request.id),
                code: INVALID_REQUEST,
                message: "Invalid Request: a request with this id is still open.",
            },
            Ok(message) => {
                self.close_cancelled(&message);
                match envelope.method.as_deref() {
                    Some("initialize") if is_initialize(&message) => self.initialized = true,
                    // Params that can't be read make it a request of no known kind.
                    Some("initialize") => return Self::invalid_params(envelope.id),
                    Some(METHOD_CONFIGURE) => self.configuring = envelope.id,
                    _ => {}
                }
                Line::Message(Box::new(message))
            }
            Err(_) if envelope.is_answer() => Self::unreadable_answer(envelope.id),
            Err(_) if envelope.id.is_none() => Line::Ignore,
            Err(_) if !envelope.method_is_known() => {
                Line::Answer { id: envelope.id, code: METHOD_NOT_FOUND, message: "Method not found" }
            }
            Err(_) => Self::invalid_params(envelope.id),
        }
    }

    /// Whoever waits for an answer that can't be read need not wait until time is up.
    fn unreadable_answer(id: Option<RequestId>) -> Line {
        let Some(id) = id else { return Line::Ignore };
        let error = ErrorData::internal_error("The answer can't be read.", None);
        Line::Message(Box::new(JsonRpcMessage::error(error, Some(id))))
    }

    fn invalid_params(id: Option<RequestId>) -> Line {
        let message = "Invalid params: they do not have the form that MCP asks for.";
        Line::Answer { id, code: INVALID_PARAMS, message }
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
            Some(_) if envelope.id.is_some() => Some(Line::Answer {
                id: envelope.id.clone(),
                code: INVALID_REQUEST,
                message: "Invalid Request: send initialize first.",
            }),
            _ => Some(Line::Ignore),
        }
    }
}

fn is_initialize(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

/// What every JSON-RPC message has, read without looking at the params.
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
    answer: bool,
}

#[derive(Deserialize)]
struct RawEnvelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Tells `null` from absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Envelope {
    fn read(line: &[u8]) -> Result<Self, Line> {
        let refuse = |id: Option<RequestId>, code: i32, message: &'static str| Line::Answer { id, code, message };
        // A full parse finds broken texts and too deep nesting wherever they are. A number that is too large for its
        // field is valid JSON.
        let parsed = serde_json::from_slice::<serde_json::Value>(line);
        if parsed.is_err_and(|error| !error.to_string().starts_with("number out of range")) {
            return Err(refuse(
                None,
                PARSE_ERROR,
                "Parse error: the line is not valid JSON, or it is nested deeper than 127 levels.",
            ));
        }
        let raw: RawEnvelope<'_> = match line.first() {
            Some(b'[') => {
                return Err(refuse(
                    None,
                    INVALID_REQUEST,
                    "Invalid Request: batches are not supported; send one message a line.",
                ));
            }
            _ => serde_json::from_slice(line).map_err(|_| {
                refuse(None, INVALID_REQUEST, "Invalid Request: a message is a JSON object, each key once.")
            })?,
        };
        let answer = raw.method.is_none() && (raw.result.is_some() || raw.error.is_some());
        let id = raw.id.and_then(|id| serde_json::from_str::<RequestId>(id.get()).ok());
        let method = raw.method.and_then(|method| serde_json::from_str::<String>(method.get()).ok());
        if answer {
            return Ok(Self { id, method: None, answer });
        }
        if raw.id.is_some() && id.is_none() {
            return Err(refuse(None, INVALID_REQUEST, "Invalid Request: the id must be a string or a whole number."));
        }
        if raw.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return Err(refuse(id, INVALID_REQUEST, "Invalid Request: jsonrpc must be \"2.0\"."));
        }
        if method.is_none() {
            return Err(refuse(id, INVALID_REQUEST, "Invalid Request: there is no method."));
        }
        Ok(Self { id, method, answer })
    }

    fn is_answer(&self) -> bool {
        self.answer
    }

    fn method_is_known(&self) -> bool {
        self.method.as_deref().is_some_and(|method| method == METHOD_CONFIGURE || MCP_METHODS.contains(&method))
    }
}

async fn write<W: AsyncWrite + Unpin>(writer: &Mutex<Option<W>>, pieces: Vec<Vec<u8>>) -> io::Result<()> {
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
            write(&writer, tables.splice(text)).await?;
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
                Err(()) => Line::Answer {
                    id: None,
                    code: INVALID_REQUEST,
                    message: "Invalid Request: the line is longer than 64 MiB.",
                },
            };
            match line {
                Line::Message(message) => return Some(*message),
                Line::Ignore => {}
                Line::Answer { id, code, message } => {
                    let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
                    let writer = self.writer.clone();
                    self.answering = Some(Box::pin(async move {
                        // The caller is gone when this fails; the next read finds the end of input.
                        let _ = write(&writer, vec![answer.to_string().into_bytes()]).await;
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
