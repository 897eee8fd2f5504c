//! A record of the audit log as OpenTelemetry has it: one `LogsData` of OTLP/JSON, with a single log record, which the
//! collector's receiver `otlp_json_file` loads as it is.
//!
//! Names come from the semantic conventions for MCP and for generative AI where these have one (both in development), and
//! begin with `acp.` where they have none. The set is an interface with the version [`VERSION`].

use acp_protocol::JsonObject;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The instrumentation scope, and the version of the attributes: a change of their names or meaning changes it.
const SCOPE: &str = "acp-core/audit";
const VERSION: &str = "1.0.0";

/// Severities of the logs data model.
const INFO: (u8, &str) = (9, "INFO");
const ERROR: (u8, &str) = (17, "ERROR");

/// What our fields are called there. What is not here keeps its name behind `acp.`.
const NAMES: [(&str, &str); 6] = [
    ("tool", "gen_ai.tool.name"),
    ("call_id", "gen_ai.tool.call.id"),
    ("arguments", "gen_ai.tool.call.arguments"),
    ("conversation_id", "gen_ai.conversation.id"),
    ("protocol_version", "mcp.protocol.version"),
    ("session_id", "acp.session.id"),
];

/// Fields that are said in another place than the attributes.
const ELSEWHERE: [&str; 6] = ["time", "connector", "version", "transport", "trace", "error"];

/// The record as `LogsData`.
pub(super) fn logs_data(record: &JsonObject) -> Value {
    let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_call = record.contains_key("tool");
    let method = if is_call { "tools/call" } else { "acp/configure" };
    let mut attributes = vec![attribute("mcp.method.name", &json!(method))];
    if is_call {
        attributes.push(attribute("gen_ai.operation.name", &json!("execute_tool")));
    }
    let (transport, protocol) = if text("transport") == "http" { ("tcp", Some("http")) } else { ("pipe", None) };
    attributes.push(attribute("network.transport", &json!(transport)));
    attributes.extend(protocol.map(|name| attribute("network.protocol.name", &json!(name))));
    for (name, value) in record.iter().filter(|(name, _)| !ELSEWHERE.contains(&name.as_str())) {
        match NAMES.iter().find(|(ours, _)| ours == name) {
            Some((_, theirs)) => attributes.push(attribute(theirs, value)),
            None => attributes.push(attribute(&format!("acp.{name}"), value)),
        }
    }
    let error = record.get("error").filter(|error| !error.is_null());
    if let Some(error) = error {
        attributes.push(attribute("error.type", &error["name"]));
        attributes.push(attribute("rpc.response.status_code", &json!(error["code"].to_string())));
    }
    let (number, severity) = if error.is_some() { ERROR } else { INFO };
    let body = if is_call { format!("{method} {}", text("tool")) } else { method.to_owned() };
    let mut log = json!({
        "timeUnixNano": nanoseconds(text("time")),
        "observedTimeUnixNano": nanoseconds(text("time")),
        "severityNumber": number,
        "severityText": severity,
        "body": any_value(&json!(body)),
    });
    if let Some(trace) = record.get("trace").filter(|trace| trace.is_object()) {
        // Of the W3C form, which was checked when the call came.
        let parent = trace["traceparent"].as_str().unwrap_or_default();
        if let [_, trace_id, span_id, flags, ..] = parent.split('-').collect::<Vec<_>>().as_slice() {
            log["traceId"] = json!(trace_id);
            log["spanId"] = json!(span_id);
            log["flags"] = json!(u32::from_str_radix(flags, 16).unwrap_or_default());
        }
        if let Some(state) = trace.get("tracestate") {
            attributes.push(attribute("acp.tracestate", state));
        }
    }
    log["attributes"] = json!(attributes);
    json!({"resourceLogs": [{
        "resource": {"attributes": [
            attribute("service.name", &json!(text("connector"))),
            attribute("service.version", &json!(text("version"))),
        ]},
        "scopeLogs": [{"scope": {"name": SCOPE, "version": VERSION}, "logRecords": [log]}],
    }]})
}

fn attribute(key: &str, value: &Value) -> Value {
    json!({"key": key, "value": any_value(value)})
}

/// OTLP's `AnyValue`. Whole numbers are texts there, as JSON's protobuf mapping has 64-bit ones.
fn any_value(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => json!({"intValue": whole.to_string()}),
            None => json!({"doubleValue": number}),
        },
        Value::String(text) => json!({"stringValue": text}),
        Value::Array(values) => json!({"arrayValue": {"values": values.iter().map(any_value).collect::<Vec<_>>()}}),
        Value::Object(fields) => {
            let fields: Vec<Value> = fields.iter().map(|(key, value)| attribute(key, value)).collect();
            json!({"kvlistValue": {"values": fields}})
        }
    }
}

fn nanoseconds(time: &str) -> String {
    time.parse::<Timestamp>().map_or(0, Timestamp::as_nanosecond).to_string()
}
