//! Pages: of lists by count, of rows by count and bytes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value as Json, json};

use super::cells::TimestampFormat;
use super::failure::Failure;
use crate::answer::Answer;
use crate::events::mix;
use crate::server::ApiRequest;

/// Entries of a list when the request doesn't say how many.
const LIST: u64 = 50;
/// Entries of a list at most.
const LIST_AT_MOST: u64 = 1_000;

/// A page of rows.
pub(crate) struct Page {
    /// A JSON array; none when there are no rows.
    pub(crate) rows: Option<String>,
    pub(crate) token: Option<String>,
}

impl Page {
    /// The answer with this page, after the other fields.
    pub(crate) fn answer(self, head: Json) -> Answer {
        let mut text = head.to_string();
        text.pop();
        if let Some(token) = self.token {
            text.push_str(&format!(",\"pageToken\":\"{token}\""));
        }
        if let Some(rows) = self.rows {
            text.push_str(",\"rows\":");
            text.push_str(&rows);
        }
        text.push('}');
        Answer::raw(200, "application/json; charset=UTF-8", text)
    }
}

fn salt(what: &str) -> u64 {
    what.bytes().fold(0x7063, |sum, byte| mix(sum, u64::from(byte)))
}

/// The token of the page that starts there; it fits nothing else.
pub(crate) fn token(what: &str, start: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("{:016x}:{start}", salt(what)))
}

fn parse(what: &str, token: &str) -> Option<u64> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (salted, start) = text.split_once(':')?;
    if salted == format!("{:016x}", salt(what)) { start.parse().ok() } else { None }
}

/// A query parameter that is a whole number, written as one.
pub(crate) fn number(request: &ApiRequest, name: &str) -> Result<Option<u64>, Failure> {
    match request.parameter(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| Failure::invalid(format!("Invalid value for {name}: {text} is not a valid value"))),
    }
}

/// Where the requested page starts: `pageToken`, or `startIndex`.
pub(crate) fn start(request: &ApiRequest, what: &str) -> Result<u64, Failure> {
    match request.parameter("pageToken").filter(|token| !token.is_empty()) {
        Some(token) => parse(what, &token).ok_or_else(|| Failure::invalid("Invalid page token.")),
        None => Ok(number(request, "startIndex")?.unwrap_or(0)),
    }
}

/// `formatOptions` of a body.
pub(crate) fn format_of(options: &Json) -> Result<TimestampFormat, Failure> {
    let name = match &options["timestampOutputFormat"] {
        Json::Number(number) => number.to_string(),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    format(&name, options["useInt64Timestamp"].as_bool().unwrap_or(false))
}

/// `formatOptions.*` of a query.
pub(crate) fn format_of_parameters(request: &ApiRequest) -> Result<TimestampFormat, Failure> {
    let name = request.parameter("formatOptions.timestampOutputFormat").unwrap_or_default();
    let int64 = request.parameter("formatOptions.useInt64Timestamp").unwrap_or_default();
    format(&name, int64.eq_ignore_ascii_case("true") || int64 == "1")
}

fn format(name: &str, int64: bool) -> Result<TimestampFormat, Failure> {
    match (name, int64) {
        ("" | "TIMESTAMP_OUTPUT_FORMAT_UNSPECIFIED" | "0", true) => Ok(TimestampFormat::Int64),
        ("" | "TIMESTAMP_OUTPUT_FORMAT_UNSPECIFIED" | "0" | "FLOAT64" | "1", false) => Ok(TimestampFormat::Float),
        ("INT64" | "2", false) => Ok(TimestampFormat::Int64),
        ("ISO8601_STRING" | "3", false) => Ok(TimestampFormat::Iso8601),
        (_, true) => Err(Failure::invalid(
            "Only one of formatOptions.useInt64Timestamp and formatOptions.timestampOutputFormat can be set.",
        )),
        (name, false) => Err(Failure::invalid(format!(
            "Invalid value for formatOptions.timestampOutputFormat: {name} is not a valid value"
        ))),
    }
}

/// A page of a list. Without entries the answer lacks their key.
pub(crate) fn list<T>(
    request: &ApiRequest,
    kind: &str,
    key: &str,
    entries: &[T],
    show: impl Fn(&T) -> Json,
) -> Result<Answer, Failure> {
    Ok(Answer::json(200, &list_body(request, kind, key, entries, show)?))
}

/// The body of [`list`].
pub(crate) fn list_body<T>(
    request: &ApiRequest,
    kind: &str,
    key: &str,
    entries: &[T],
    show: impl Fn(&T) -> Json,
) -> Result<Json, Failure> {
    let start = usize::try_from(start(request, &request.path)?).unwrap_or(usize::MAX).min(entries.len());
    let count = number(request, "maxResults")?.unwrap_or(LIST).clamp(1, LIST_AT_MOST);
    let end = start.saturating_add(usize::try_from(count).unwrap_or(usize::MAX)).min(entries.len());
    let mut body = json!({"kind": kind, "etag": "sandbox"});
    if end < entries.len() {
        body["nextPageToken"] = json!(token(&request.path, end as u64));
    }
    if end > start {
        body[key] = entries[start..end].iter().map(show).collect();
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_one_list_only() {
        assert_eq!(parse("a", &token("a", 7)), Some(7));
        assert_eq!(parse("b", &token("a", 7)), None);
        assert_eq!(parse("a", "rubbish"), None);
    }
}
