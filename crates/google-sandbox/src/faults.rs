//! Scripted faults: what goes wrong, on which request, how often.

use std::sync::Mutex;

use regex::Regex;
use serde_json::{Map, Value};

use crate::lock;

/// What a fault does to the request it hits.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultAction {
    /// Answer with this status, these headers and this body instead of the real answer.
    Status {
        /// HTTP status.
        code: u16,
        /// Response headers.
        headers: Vec<(String, String)>,
        /// Response body.
        body: String,
    },
    /// Wait, then answer as usual.
    Delay(u64),
    /// Send the usual answer, framed for its full length, and close the connection after so many bytes of the body.
    CutAfterBytes(u64),
    /// Send the body in small pieces with this pause (milliseconds) between them.
    Drip(u64),
    /// Close the connection with a TCP reset.
    Reset,
    /// Kill the token this request carries and answer 401, as Google does for a token that has expired.
    ExpireToken,
}

/// One scripted fault.
///
/// As JSON: `{"method": "POST", "path": ":runReport$", "body": "\"country\"", "nth": 2, "times": 1, "action": {"status": {"code":
/// 429, "headers": {"Retry-After": "1"}, "body": "..."}}}`. Other actions: `{"delay_ms": 500}`, `{"cut_after_bytes": 100}`,
/// `{"drip_ms": 20}`, `"reset"`, `"expire_token"`. Several faults may hit one request.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Only requests with this method; any when absent.
    pub method: Option<String>,
    /// Matched against the path, without the query.
    pub path: Regex,
    /// Matched against the body; any when absent.
    pub body: Option<regex::bytes::Regex>,
    /// The first matching request that is hit, counted from 1.
    pub nth: u64,
    /// How many consecutive matching requests are hit.
    pub times: u64,
    /// What happens to them.
    pub action: FaultAction,
}

impl Fault {
    /// Reads a fault from the JSON that `POST /__sandbox/faults` takes.
    ///
    /// # Errors
    /// A text that says which part isn't understood.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let fault = value.as_object().ok_or("a fault is a JSON object")?;
        known_keys(fault, &["method", "path", "body", "nth", "times", "action"], "fault")?;
        let path = fault.get("path").and_then(Value::as_str).ok_or("`path` (a regular expression) is required")?;
        Ok(Self {
            method: optional_string(fault, "method")?.map(|m| m.to_ascii_uppercase()),
            path: Regex::new(path).map_err(|e| format!("`path`: {e}"))?,
            body: optional_string(fault, "body")?
                .map(|body| regex::bytes::Regex::new(&body))
                .transpose()
                .map_err(|e| format!("`body`: {e}"))?,
            nth: positive(fault, "nth")?,
            times: positive(fault, "times")?,
            action: action(fault.get("action").ok_or("`action` is required")?)?,
        })
    }
}

fn known_keys(map: &Map<String, Value>, known: &[&str], what: &str) -> Result<(), String> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key `{key}` in {what}; known: {}", known.join(", "))),
        None => Ok(()),
    }
}

fn optional_string(map: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` must be a string")),
    }
}

/// `nth` and `times` count from one; 0 and absent both mean 1.
fn positive(map: &Map<String, Value>, key: &str) -> Result<u64, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(1),
        Some(value) => {
            value.as_u64().map(|n| n.max(1)).ok_or_else(|| format!("`{key}` must be a non-negative integer"))
        }
    }
}

fn action(value: &Value) -> Result<FaultAction, String> {
    const NAMES: &str = "status, delay_ms, cut_after_bytes, drip_ms, reset, expire_token";
    let (name, argument) = match value {
        Value::String(name) => (name.as_str(), &Value::Bool(true)),
        Value::Object(map) if map.len() == 1 => {
            map.iter().next().map(|(k, v)| (k.as_str(), v)).ok_or("empty action")?
        }
        _ => return Err(format!("`action` is an object with one of: {NAMES}")),
    };
    let number = || argument.as_u64().ok_or_else(|| format!("`{name}` must be a non-negative integer"));
    let flag = |action: FaultAction| match argument {
        Value::Bool(true) => Ok(action),
        _ => Err(format!("`{name}` must be true")),
    };
    match name {
        "status" => status(argument),
        "delay_ms" => Ok(FaultAction::Delay(number()?)),
        "cut_after_bytes" => Ok(FaultAction::CutAfterBytes(number()?)),
        "drip_ms" => Ok(FaultAction::Drip(number()?)),
        "reset" => flag(FaultAction::Reset),
        "expire_token" => flag(FaultAction::ExpireToken),
        _ => Err(format!("unknown action `{name}`; known: {NAMES}")),
    }
}

fn status(value: &Value) -> Result<FaultAction, String> {
    let map = value.as_object().ok_or("`status` must be an object")?;
    known_keys(map, &["code", "headers", "body"], "status")?;
    let code = map
        .get("code")
        .and_then(Value::as_u64)
        .and_then(|n| u16::try_from(n).ok())
        .filter(|n| (200..=599).contains(n))
        .ok_or("`status.code` must be an HTTP status from 200 to 599")?;
    let mut headers = Vec::new();
    if let Some(given) = map.get("headers") {
        for (name, value) in given.as_object().ok_or("`status.headers` must be an object")? {
            let value = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            headers.push((checked_header(name, &value)?, value));
        }
    }
    let body = match map.get("body") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("Content-Type".into(), "application/json; charset=UTF-8".into()));
    }
    Ok(FaultAction::Status { code, headers, body })
}

fn checked_header(name: &str, value: &str) -> Result<String, String> {
    let known = hyper::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
    if known && hyper::header::HeaderValue::from_str(value).is_ok() {
        Ok(name.to_owned())
    } else {
        Err(format!("`{name}` isn't a valid header"))
    }
}

struct Armed {
    fault: Fault,
    seen: u64,
}

/// The scripted faults of one sandbox.
#[derive(Default)]
pub struct Faults {
    armed: Mutex<Vec<Armed>>,
}

impl Faults {
    /// Adds a fault; it counts matching requests from now on.
    pub fn add(&self, fault: Fault) {
        lock(&self.armed).push(Armed { fault, seen: 0 });
    }

    /// Adds a fault in its JSON form.
    ///
    /// # Errors
    /// As [`Fault::from_json`].
    pub fn add_json(&self, value: &Value) -> Result<(), String> {
        self.add(Fault::from_json(value)?);
        Ok(())
    }

    /// Forgets all faults.
    pub fn clear(&self) {
        lock(&self.armed).clear();
    }

    /// The actions that hit this request. Every matching fault counts it, so scripts don't depend on each other.
    pub(crate) fn hit(&self, method: &str, path: &str, body: &[u8]) -> Vec<FaultAction> {
        let mut hits = Vec::new();
        for armed in lock(&self.armed).iter_mut() {
            let fault = &armed.fault;
            let matches = fault.method.as_deref().is_none_or(|m| m == method)
                && fault.path.is_match(path)
                && fault.body.as_ref().is_none_or(|pattern| pattern.is_match(body));
            if !matches {
                continue;
            }
            armed.seen += 1;
            if armed.seen >= fault.nth && armed.seen - fault.nth < fault.times {
                hits.push(fault.action.clone());
            }
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault(value: Value) -> Result<Fault, String> {
        Fault::from_json(&value)
    }

    #[test]
    fn hits_the_nth_and_so_many_times() {
        let faults = Faults::default();
        faults.add_json(&json!({"path": "/x$", "nth": 2, "times": 2, "action": "reset"})).unwrap();
        let hits: Vec<usize> = (0..5).map(|_| faults.hit("GET", "/x", b"").len()).collect();
        assert_eq!(hits, [0, 1, 1, 0, 0]);
        assert!(faults.hit("GET", "/y", b"").is_empty());
        faults.add_json(&json!({"path": "/z$", "body": "\"page\"", "action": "reset"})).unwrap();
        let hits = [b"{}".as_slice(), b"\xff", br#"["page"]"#].map(|body| faults.hit("POST", "/z", body).len());
        assert_eq!(hits, [0, 0, 1]);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(fault(json!({"path": "(", "action": "reset"})).is_err());
        assert!(fault(json!({"path": "x", "body": "(", "action": "reset"})).is_err());
        assert!(fault(json!({"path": "x", "action": "explode"})).is_err());
        assert!(fault(json!({"path": "x", "action": {"delay_ms": -1}})).is_err());
        assert!(fault(json!({"path": "x", "acton": "reset"})).is_err());
        assert!(fault(json!({"path": "x", "action": {"status": {"code": 9}}})).is_err());
    }
}
