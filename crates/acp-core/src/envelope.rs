//! What every JSON-RPC message has, and the error that a malformed one gets, whatever the transport.

use std::borrow::Cow;

use acp_protocol::METHOD_CONFIGURE;
use bytes::Bytes;
use rmcp::model::{ProtocolVersion, RequestId};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::MCP_METHODS;

/// The longest message: room for a table that a host sends in an answer, and a bound on what a peer can make us hold.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
/// MCP's own code of 2026-07-28, which ACP uses for another thing inside tool errors.
const UNSUPPORTED_REVISION: i32 = -32022;

/// Nested levels of a message; what reads it has the same bound.
const MAX_DEPTH: usize = 127;
/// Values of a message. A table in the answer of a host counts as one, and is bounded by its bytes.
const MAX_VALUES: usize = 200_000;

/// Messages of a batch, all of which may be worked on at once.
const MAX_BATCH: usize = 1000;

/// The error that answers a message which does not reach the session.
#[derive(Debug)]
pub(crate) struct Refusal {
    id: Option<RequestId>,
    code: i32,
    message: Cow<'static, str>,
    data: Option<Box<Value>>,
}

impl Refusal {
    pub(crate) fn invalid(id: Option<RequestId>, message: impl Into<Cow<'static, str>>) -> Self {
        Self { id, code: INVALID_REQUEST, message: message.into(), data: None }
    }

    /// For a revision of MCP that the server does not announce.
    pub(crate) fn revision(id: Option<RequestId>, requested: &str, supported: &[ProtocolVersion]) -> Self {
        let data = json!({"requested": requested, "supported": supported});
        Self {
            id,
            code: UNSUPPORTED_REVISION,
            message: "Unsupported protocol version".into(),
            data: Some(Box::new(data)),
        }
    }

    pub(crate) fn invalid_params(id: Option<RequestId>) -> Self {
        let message = "Invalid params: they do not have the form that MCP asks for.".into();
        Self { id, code: INVALID_PARAMS, message, data: None }
    }

    /// For a request whose id is that of another one without an answer.
    pub(crate) fn still_open(id: RequestId) -> Self {
        Self::invalid(Some(id), "Invalid Request: a request with this id is still open.")
    }

    /// For a request that is right, but can't be served now.
    pub(crate) fn unavailable(id: Option<RequestId>, message: &'static str) -> Self {
        Self { id, code: INTERNAL_ERROR, message: message.into(), data: None }
    }

    /// The JSON-RPC message.
    pub(crate) fn to_text(&self) -> String {
        let Self { id, code, message, data } = self;
        let mut error = json!({"code": code, "message": message});
        if let Some(data) = data {
            error["data"] = (**data).clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
    }
}

/// What every JSON-RPC message has, read without looking at the params.
#[derive(Debug)]
pub(crate) struct Envelope {
    /// Its id, where it has one that JSON-RPC allows.
    pub(crate) id: Option<RequestId>,
    /// Its method; an answer has none.
    pub(crate) method: Option<String>,
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
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Tells `null` from absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The messages of a batch, as slices of its text. `None` where it is none: it may be a message, or not JSON.
pub(crate) fn batch(text: &Bytes) -> Option<Result<Vec<Bytes>, Refusal>> {
    if !text.trim_ascii_start().starts_with(b"[") {
        return None;
    }
    match size(std::str::from_utf8(text).ok()?) {
        (_, depth) if depth > MAX_DEPTH => return None,
        (values, _) if values > MAX_VALUES => {
            return Some(Err(Refusal::invalid(None, "Invalid Request: the batch has more than 200,000 values.")));
        }
        _ => {}
    }
    let messages: Vec<&RawValue> = serde_json::from_slice(text).ok()?;
    Some(match messages.len() {
        0 => Err(Refusal::invalid(None, "Invalid Request: the batch is empty.")),
        1..=MAX_BATCH => Ok(messages.iter().map(|message| text.slice_ref(message.get().as_bytes())).collect()),
        _ => Err(Refusal::invalid(None, "Invalid Request: the batch has more than 1,000 messages.")),
    })
}

/// About how many values a JSON text has, and how deep it is nested.
fn size(text: &str) -> (usize, usize) {
    let (mut values, mut depth, mut deepest) = (1, 0_usize, 0);
    let (mut string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            _ if string => {}
            b',' => values += 1,
            b'{' | b'[' => {
                values += 1;
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (values, deepest)
}

/// Whether an answer has more values than MCP's library should make a tree of. The table of a host is one value: see
/// [`crate::host_tables::keep_text`].
pub(crate) fn has_too_many_values(answer: &[u8]) -> bool {
    std::str::from_utf8(answer).is_ok_and(|text| size(text).0 > MAX_VALUES)
}

/// How deep a JSON text is nested.
pub(crate) fn nesting(text: &str) -> usize {
    size(text).1
}

impl Envelope {
    /// Reads a message without looking at its params.
    pub(crate) fn read(text: &[u8]) -> Result<Self, Refusal> {
        let not_json = || Refusal {
            id: None,
            code: PARSE_ERROR,
            message: "Parse error: the message is not valid JSON, or it is nested deeper than 127 levels.".into(),
            data: None,
        };
        let text = std::str::from_utf8(text).map_err(|_| not_json())?;
        let (values, depth) = size(text);
        if depth > MAX_DEPTH {
            return Err(not_json());
        }
        let refuse = |what: &'static str| match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Refusal::invalid(None, what),
            Err(_) => not_json(),
        };
        // Derived types would take a list for an object, field by field.
        if text.trim_start().starts_with('[') {
            return Err(refuse(
                "Invalid Request: only revision 2025-03-26 of MCP has batches, and not in a batch; send one message at a time.",
            ));
        }
        // This reads all of the text, but keeps nothing of what it skips.
        let raw: RawEnvelope<'_> = serde_json::from_str(text)
            .map_err(|_| refuse("Invalid Request: a message is a JSON object, each key once."))?;
        let answer = raw.method.is_none() && (raw.result.is_some() || raw.error.is_some());
        let id = raw.id.and_then(|id| serde_json::from_str::<RequestId>(id.get()).ok());
        let method = raw.method.and_then(|method| serde_json::from_str::<String>(method.get()).ok());
        if answer {
            return Ok(Self { id, method: None, answer });
        }
        if raw.id.is_some() && id.is_none() {
            return Err(Refusal::invalid(None, "Invalid Request: the id must be a string or a whole number."));
        }
        let version = raw.jsonrpc.and_then(|version| serde_json::from_str::<String>(version.get()).ok());
        if version.as_deref() != Some("2.0") {
            return Err(Refusal::invalid(id, "Invalid Request: jsonrpc must be \"2.0\"."));
        }
        if method.is_none() {
            return Err(Refusal::invalid(id, "Invalid Request: there is no method."));
        }
        // MCP's library holds a message as trees of values, each of which takes many times its text.
        if values > MAX_VALUES {
            return Err(Refusal::invalid(id, "Invalid Request: the message has more than 200,000 values."));
        }
        let envelope = Self { id, method, answer };
        let list = raw.params.is_some_and(|params| params.get().starts_with('['));
        match envelope.unreadable() {
            Some(refusal) if list => Err(refusal),
            _ => Ok(envelope),
        }
    }

    /// The answer to a message whose envelope is right and that MCP still can't read; none where nobody waits for one.
    pub(crate) fn unreadable(&self) -> Option<Refusal> {
        if self.answer {
            return None;
        }
        let id = Some(self.id.clone()?);
        let method = self.method.as_deref();
        let known = method.is_some_and(|method| method == METHOD_CONFIGURE || MCP_METHODS.contains(&method));
        match known {
            true => Some(Refusal::invalid_params(id)),
            false => Some(Refusal { id, code: METHOD_NOT_FOUND, message: "Method not found".into(), data: None }),
        }
    }

    /// Whether it answers a request of ours.
    pub(crate) fn is_answer(&self) -> bool {
        self.answer
    }

    /// Whether an answer is expected.
    pub(crate) fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }
}
