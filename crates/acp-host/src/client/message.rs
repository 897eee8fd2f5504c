//! The messages of JSON-RPC and MCP that a client writes and reads.

use acp_protocol::capability::ServerCapability;
use acp_protocol::result::ResultMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{ClientError, PlainAnswer, Progress, ToolAnswer, Welcome};

/// A JSON-RPC error, of either side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// Its number.
    pub code: i64,
    /// What went wrong.
    pub message: String,
    /// Details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} (error {})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

/// A tool as `tools/list` publishes it.
#[derive(Clone, Debug, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// What the model reads about it.
    #[serde(default)]
    pub description: Option<String>,
    /// JSON schema of its arguments, with ACP's annotations.
    #[serde(rename = "inputSchema")]
    pub input_schema: Value,
    /// MCP's hints.
    #[serde(default)]
    pub annotations: Option<Value>,
    /// Its `_meta`.
    #[serde(rename = "_meta", default)]
    pub meta: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolPage {
    pub(super) tools: Vec<Tool>,
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
}

/// Any line a server may write. The parts that belong to a method stay text until it is known what they are.
#[derive(Deserialize)]
pub(super) struct Incoming<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) error: Option<RpcError>,
}

/// `notifications/progress`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProgressParams {
    pub(super) progress_token: Value,
    pub(super) progress: f64,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    message: Option<String>,
}

impl From<ProgressParams> for Progress {
    fn from(params: ProgressParams) -> Self {
        Self { progress: params.progress, total: params.total, message: params.message }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
    #[serde(default)]
    capabilities: Capabilities,
    server_info: ServerInfo,
    #[serde(default)]
    instructions: Option<String>,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    #[serde(default)]
    experimental: Experimental,
}

#[derive(Default, Deserialize)]
struct Experimental {
    #[serde(default)]
    acp: Option<Box<RawValue>>,
}

/// What every version of ACP announces.
#[derive(Deserialize)]
struct AnyCapability {
    version: String,
}

#[derive(Deserialize)]
struct ServerInfo {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct CallResult {
    #[serde(default)]
    content: Vec<Content>,
    #[serde(rename = "isError", default)]
    is_error: bool,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    acp: Option<ResultMeta>,
}

pub(super) fn welcome(raw: Box<RawValue>) -> Result<Welcome, ClientError> {
    let result: InitializeResult = read("initialize", &raw)?;
    let announced = result.capabilities.experimental.acp.filter(|acp| acp.get() != "null");
    let version = match &announced {
        Some(acp) => Some(read::<AnyCapability>("initialize", acp)?.version),
        None => None,
    };
    // What another major version announces has another meaning, if not another form.
    let spoken = announced.filter(|_| version.as_deref().is_some_and(acp_protocol::compatible));
    let acp: Option<ServerCapability> = spoken.map(|acp| read("initialize", &acp)).transpose()?;
    Ok(Welcome {
        protocol_version: result.protocol_version,
        server_name: result.server_info.name,
        server_version: result.server_info.version,
        instructions: result.instructions,
        acp,
        acp_version: version,
        raw,
    })
}

pub(super) fn tool_answer(raw: &RawValue) -> Result<ToolAnswer, ClientError> {
    let result: CallResult = read("tools/call", raw)?;
    let Some(meta) = result.meta.and_then(|meta| meta.acp) else {
        return Err(ClientError::Protocol("the answer of tools/call has no _meta.acp".to_owned()));
    };
    let Some(model_text) = result.content.into_iter().next().and_then(|content| content.text) else {
        return Err(ClientError::Protocol("the answer of tools/call has no text in content[0]".to_owned()));
    };
    Ok(ToolAnswer { model_text, is_error: result.is_error, meta })
}

pub(super) fn plain_answer(raw: &RawValue) -> Result<PlainAnswer, ClientError> {
    #[derive(Deserialize)]
    struct PlainResult {
        #[serde(default)]
        content: Vec<Value>,
        #[serde(rename = "isError", default)]
        is_error: bool,
    }
    let result: PlainResult = read("tools/call", raw)?;
    Ok(PlainAnswer { content: result.content, is_error: result.is_error })
}

/// Reads a result; the message of a failure names the place, not the content.
pub(super) fn read<T: DeserializeOwned>(method: &str, raw: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(raw.get())
        .map_err(|error| ClientError::Protocol(format!("the answer of {method} can't be read: {error}")))
}

pub(super) fn value(content: &impl Serialize) -> Result<Value, ClientError> {
    serde_json::to_value(content).map_err(unwritable)
}

pub(super) fn request(id: u64, method: &str, params: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": value(params)?}))
}

pub(super) fn notification(method: &str, params: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": value(params)?}))
}

pub(super) fn answer(id: &RawValue, outcome: Result<&impl Serialize, RpcError>) -> Result<Vec<u8>, ClientError> {
    #[derive(Serialize)]
    struct Answer<'a, T> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<T>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<RpcError>,
    }
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    line(&Answer { jsonrpc: "2.0", id, result, error })
}

fn line(message: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    let mut line = serde_json::to_vec(message).map_err(unwritable)?;
    // Raw values may hold line breaks between tokens; inside a string JSON escapes them.
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.push(b'\n');
    Ok(line)
}

fn unwritable(error: serde_json::Error) -> ClientError {
    ClientError::Protocol(format!("a message can't be written as JSON: {error}"))
}
