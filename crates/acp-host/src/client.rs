//! Calls to a server, and its questions to the host: JSON-RPC over lines, as an ACP client (sections 4, 5 and 8.8).
//!
//! Answers are read from the text of the line straight into their types, so that numbers in raw JSON keep every digit.

mod connection;
mod message;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use acp_protocol::capability::{ClientCapability, ServerCapability};
use acp_protocol::result::{ResultKind, ResultMeta};
use acp_protocol::session::{CallMeta, ConfigureParams, ConfigureResult, HostTable, ReadTableParams};
use acp_protocol::{JsonObject, KEY, METHOD_CONFIGURE, PROTOCOL_VERSION};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::StderrTail;
use connection::{Connection, Pending};
pub use message::{RpcError, Tool};

/// Newest MCP revision that has sessions, which `acp/configure` and `acp/read_table` need.
const MCP_VERSION: &str = "2025-11-25";
/// Longest line accepted from a server.
const LINE_MAX: usize = 256 * 1024 * 1024;
/// How long a request that is no tool call may take, and a tool call unless it says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
const CALL_PATIENCE: Duration = Duration::from_secs(600);

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub enum ClientError {
    /// The server can't be started.
    Start(String),
    /// The server ended, or closed its output, before it answered. Its last words on standard error.
    Closed {
        /// Last lines of its standard error, oldest first.
        stderr: Vec<String>,
    },
    /// The server answered with a JSON-RPC error.
    Rpc(RpcError),
    /// No answer in time; the server was told that the call is cancelled.
    Timeout {
        /// What was asked.
        method: String,
        /// How long was waited.
        after: Duration,
    },
    /// The server answered, but not as MCP or ACP ask.
    Protocol(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(reason) => formatter.write_str(reason),
            Self::Closed { stderr } if stderr.is_empty() => {
                formatter.write_str("the server ended before it answered, without a word on standard error")
            }
            Self::Closed { stderr } => {
                write!(formatter, "the server ended before it answered; it wrote last:")?;
                stderr.iter().try_for_each(|line| write!(formatter, "\n  {line}"))
            }
            Self::Rpc(error) => write!(formatter, "{error}"),
            Self::Timeout { method, after } => write!(formatter, "no answer to {method} in {after:?}"),
            Self::Protocol(reason) => write!(formatter, "the server breaks the protocol: {reason}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Answers `acp/read_table` (8.8). Failures are JSON-RPC errors with the codes of 8.8.1.
pub type ReadTable =
    Arc<dyn Fn(ReadTableParams) -> Pin<Box<dyn Future<Output = Result<HostTable, RpcError>> + Send>> + Send + Sync>;

/// Receives the progress of one call.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// One `notifications/progress`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// How far it is.
    pub progress: f64,
    /// How far it will go, when known.
    #[serde(default)]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default)]
    pub message: Option<String>,
}

/// How a client introduces itself and what it bears.
#[derive(Clone)]
pub struct ClientOptions {
    name: String,
    protocol_version: String,
    capability: Option<ClientCapability>,
    read_table: Option<ReadTable>,
    patience: Duration,
    line_max: usize,
    stderr: Option<StderrTail>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            name: "acp-host".to_owned(),
            protocol_version: MCP_VERSION.to_owned(),
            capability: Some(ClientCapability {
                version: PROTOCOL_VERSION.to_owned(),
                stores_system_data: true,
                autocontext_delivery: None,
                multi_table: None,
                host_tables: None,
            }),
            read_table: None,
            patience: PATIENCE,
            line_max: LINE_MAX,
            stderr: None,
        }
    }
}

impl ClientOptions {
    /// Name in `clientInfo`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// MCP revision to ask for.
    pub fn protocol_version(mut self, version: impl Into<String>) -> Self {
        self.protocol_version = version.into();
        self
    }

    /// What is announced as `capabilities.experimental.acp`; `None` makes it a plain MCP client.
    pub fn capability(mut self, capability: Option<ClientCapability>) -> Self {
        self.capability = capability;
        self
    }

    /// Answers `acp/read_table` with `handler` and announces `host_tables`.
    pub fn read_table(mut self, handler: ReadTable) -> Self {
        if let Some(capability) = &mut self.capability {
            capability.host_tables = Some(true);
        }
        self.read_table = Some(handler);
        self
    }

    /// How long a request other than a tool call may take; one minute unless set.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Longest line accepted from the server; 256 MiB unless set.
    pub fn line_max(mut self, bytes: usize) -> Self {
        self.line_max = bytes;
        self
    }

    /// Where the server's last words are, for the message about a server that ended.
    pub fn stderr(mut self, stderr: StderrTail) -> Self {
        self.stderr = Some(stderr);
        self
    }
}

/// A session with one server. Clones share it, and calls run side by side. When the last clone is dropped, the server's
/// input is closed.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
    options: Arc<ClientOptions>,
    _input: Arc<OpenInput>,
}

/// Keeps the server's input open; the reading task, which holds the connection too, must not.
struct OpenInput(Arc<Connection>);

impl Drop for OpenInput {
    fn drop(&mut self) {
        self.0.close_input();
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("name", &self.options.name).finish_non_exhaustive()
    }
}

/// The server's side of `initialize`.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// MCP revision in force.
    pub protocol_version: String,
    /// `serverInfo.name`.
    pub server_name: String,
    /// `serverInfo.version`.
    pub server_version: String,
    /// Instructions for the model.
    pub instructions: Option<String>,
    /// `capabilities.experimental.acp`; absent for a plain MCP server, and for one of another major version, which is
    /// used as a plain one (4.3).
    pub acp: Option<ServerCapability>,
    /// The version it announced, whether or not this host can speak it.
    pub acp_version: Option<String>,
    /// The whole result.
    pub raw: Box<RawValue>,
}

/// One tool call.
#[derive(Clone)]
pub struct ToolCall {
    name: String,
    arguments: JsonObject,
    meta: Option<CallMeta>,
    on_progress: Option<OnProgress>,
    patience: Duration,
}

impl ToolCall {
    /// A call of `tool` with `arguments`.
    pub fn new(tool: impl Into<String>, arguments: JsonObject) -> Self {
        Self { name: tool.into(), arguments, meta: None, on_progress: None, patience: CALL_PATIENCE }
    }

    /// Values for this call alone, sent as `_meta.acp` (5.2).
    pub fn meta(mut self, meta: CallMeta) -> Self {
        self.meta = Some(meta);
        self
    }

    /// Asks for progress and passes it on.
    pub fn on_progress(mut self, receiver: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(receiver));
        self
    }

    /// How long the call may take; ten minutes unless set.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

/// What a tool answered: for the model, and for the host (section 8).
#[derive(Clone, Debug)]
pub struct ToolAnswer {
    /// `content[0].text`, the only part that may reach the model.
    pub model_text: String,
    /// Whether the tool failed.
    pub is_error: bool,
    /// `_meta.acp`: about the call, and the whole extraction.
    pub meta: ResultMeta,
}

impl ToolAnswer {
    /// Whether it holds tables to store.
    pub fn is_extraction(&self) -> bool {
        self.meta.kind == ResultKind::Extraction && self.meta.system_data.is_some()
    }
}

/// What a tool of a plain MCP server answered.
#[derive(Clone, Debug)]
pub struct PlainAnswer {
    /// Its content blocks.
    pub content: Vec<Value>,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl Client {
    /// Speaks to a server over its output and input. Must be called inside a tokio runtime.
    pub fn start<R, W>(reader: R, writer: W, options: ClientOptions) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let connection = Connection::open(
            reader,
            writer,
            connection::Settings {
                line_max: options.line_max,
                read_table: options.read_table.clone(),
                stderr: options.stderr.clone(),
            },
        );
        let input = Arc::new(OpenInput(Arc::clone(&connection)));
        Self { connection, options: Arc::new(options), _input: input }
    }

    /// `initialize` and `notifications/initialized` (4.1, 4.2).
    pub async fn initialize(&self) -> Result<Welcome, ClientError> {
        let experimental = self.options.capability.as_ref().map(|capability| json!({KEY: capability}));
        let capabilities = experimental.map_or_else(|| json!({}), |experimental| json!({"experimental": experimental}));
        let params = json!({
            "protocolVersion": self.options.protocol_version,
            "capabilities": capabilities,
            "clientInfo": {"name": self.options.name, "version": env!("CARGO_PKG_VERSION")},
        });
        let raw = self.request_raw("initialize", &params).await?;
        let welcome = message::welcome(raw)?;
        self.notify("notifications/initialized", &json!({})).await?;
        Ok(welcome)
    }

    /// Sets session values (5.1).
    pub async fn configure(&self, params: &ConfigureParams) -> Result<ConfigureResult, ClientError> {
        self.request(METHOD_CONFIGURE, params).await
    }

    /// Every tool, over all pages of `tools/list`.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let page: message::ToolPage = self.request("tools/list", &params).await?;
            tools.extend(page.tools);
            if page.next_cursor.is_none() || page.next_cursor == cursor {
                return Ok(tools);
            }
            cursor = page.next_cursor;
        }
    }

    /// Calls a tool and waits for its answer. A tool that failed is an answer with `is_error`. When the returned future
    /// is dropped, or the call takes too long, the server is told that it is cancelled.
    pub async fn call(&self, call: ToolCall) -> Result<ToolAnswer, ClientError> {
        self.begin(call).await?.answer().await
    }

    /// Sends a tool call without waiting for its answer.
    pub async fn begin(&self, call: ToolCall) -> Result<RunningCall, ClientError> {
        let id = self.connection.next_id();
        let mut meta = serde_json::Map::new();
        if let Some(acp) = &call.meta {
            meta.insert(KEY.to_owned(), message::value(acp)?);
        }
        if let Some(receiver) = call.on_progress {
            meta.insert("progressToken".to_owned(), id.into());
            self.connection.expect_progress(id, receiver);
        }
        let mut params = json!({"name": call.name, "arguments": call.arguments});
        if !meta.is_empty() {
            params["_meta"] = Value::Object(meta);
        }
        let pending = self.connection.send_request(id, "tools/call", &params, true).await?;
        Ok(RunningCall { pending, patience: call.patience })
    }

    /// `ping`.
    pub async fn ping(&self) -> Result<(), ClientError> {
        self.request_raw("ping", &json!({})).await.map(|_| ())
    }

    /// Any request, with the result read into `T`.
    pub async fn request<T: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> Result<T, ClientError> {
        message::read(method, &self.request_raw(method, params).await?)
    }

    /// Any request, with the result as it was written.
    pub async fn request_raw(&self, method: &str, params: &impl Serialize) -> Result<Box<RawValue>, ClientError> {
        let id = self.connection.next_id();
        // MCP forbids to cancel `initialize`.
        let cancellable = method != "initialize";
        self.connection.send_request(id, method, params, cancellable).await?.answer(self.options.patience).await
    }

    /// Any notification.
    pub async fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), ClientError> {
        self.connection.send(message::notification(method, params)?).await
    }

    /// Whether the server's output is still open, as far as is known: calls after its end fail.
    pub fn is_open(&self) -> bool {
        self.connection.is_open()
    }

    /// Closes the server's input once everything sent so far is written. Calls that still run get their answers.
    pub fn close(&self) {
        self.connection.close_input();
    }
}

/// A tool call on its way. Dropping it cancels it (`notifications/cancelled`).
#[derive(Debug)]
pub struct RunningCall {
    pending: Pending,
    patience: Duration,
}

impl RunningCall {
    /// The id of its JSON-RPC request.
    pub fn id(&self) -> u64 {
        self.pending.id()
    }

    /// Waits for the answer.
    pub async fn answer(self) -> Result<ToolAnswer, ClientError> {
        let raw = self.pending.answer(self.patience).await?;
        message::tool_answer(&raw)
    }

    /// Waits for the answer of a plain MCP server, which has no `_meta.acp`.
    pub async fn plain_answer(self) -> Result<PlainAnswer, ClientError> {
        let raw = self.pending.answer(self.patience).await?;
        message::plain_answer(&raw)
    }
}
