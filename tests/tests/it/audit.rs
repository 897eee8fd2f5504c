//! The audit log: a line for every call, and what must never be in it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::rules::files_below;
use crate::server::{Ended, Server, Setup};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn toy(title: &str) -> Setup {
    Setup::toy(title).variable("ACP_AUDIT_LOG", "$ROOT/audit.jsonl")
}

fn log_of(root: &Path) -> PathBuf {
    root.join("audit.jsonl")
}

/// The records in a file; each is a line of its own.
fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the log");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is cut");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Ends the server, which also looks for credentials in everything it wrote, and gives its records.
fn finish(server: Server) -> (Ended, Vec<Value>) {
    let ended = server.finish_well();
    let records = records(&log_of(ended.root.path()));
    (ended, records)
}

fn meta(key: &str, extra: &Value) -> Value {
    let mut meta = json!({"credentials": {"type": "api_key", "api_key": key}});
    meta.as_object_mut().expect("an object").extend(extra.as_object().cloned().unwrap_or_default());
    meta
}

fn names(record: &Value) -> Vec<&str> {
    record.as_object().expect("a record").keys().map(String::as_str).collect()
}

#[test]
fn without_the_variable_nothing_is_written() {
    let mut server = Setup::toy("no audit log").start();
    server.call("peek", json!({}), Value::Null);
    let ended = server.finish_well();
    assert!(!log_of(ended.root.path()).exists());
    let mut server = Setup::toy("an empty variable is none").variable("ACP_AUDIT_LOG", "").start();
    server.call("peek", json!({}), Value::Null);
    server.finish_well();
}

#[test]
fn every_call_has_its_record() {
    let mut server = toy("a record for each call").start();
    let host = json!({"row_limit": 2, "call_id": "call-1", "session_id": "s-1", "conversation_id": "c".repeat(2000)});
    let mut params =
        crate::server::call_params("rows", &json!({"resource_id": "acc_7", "n": 5}), &meta("KEY-A-CANARY-1", &host));
    params["_meta"]["traceparent"] = json!(TRACE);
    params["_meta"]["tracestate"] = json!("toy=1");
    let id = server.begin("tools/call", params);
    server.answer_of_call(&id, "rows");
    server.call("autocontext", json!({"resource_id": "acc_7"}), meta("KEY-A-CANARY-1", &json!({})));
    server.call("autocontext_data", json!({}), Value::Null);
    server.call("boom", json!({"kind": "500"}), meta("KEY-B-CANARY-2", &json!({})));
    server.call("boom", json!({"kind": "panic"}), meta("KEY-B-CANARY-2", &json!({})));
    server.call("rows", json!({"resource_id": "acc_7", "n": 1}), Value::Null);
    server.call("no_such_tool", json!({"n": 1}), Value::Null);
    server.call("rows", json!({"n": 1}), meta("KEY-A-CANARY-1", &json!({"row_limit": -1})));
    let (_, records) = finish(server);
    let kinds: Vec<&str> = records.iter().map(|record| record["kind"].as_str().expect("a kind")).collect();
    assert_eq!(
        kinds,
        ["extraction", "autocontext", "autocontext_data", "error", "error", "error", "error", "error"],
        "{records:#?}"
    );
    let first = &records[0];
    let expected = json!({
        "time": "2026-10-12T10:16:30.000Z", "connector": "toy", "version": "1.0.0", "transport": "stdio",
        "session_id": "s-1", "call_id": "call-1", "protocol_version": "2025-11-25", "trace": {"traceparent": TRACE, "tracestate": "toy=1"},
        "tool": "rows", "kind": "extraction", "resource_id": "acc_7",
        "arguments": {"n": 5, "start_date": "2026-09-14", "end_date": "2026-10-11"},
        "row_limit": 2, "cost_limit_usd": 0, "cost_estimate_usd": 0, "cost_actual_usd": 0,
        "total_rows": 5, "returned_rows": 2,
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&first[name], value, "{name}");
    }
    assert_eq!(names(first).len(), expected.as_object().map_or(0, serde_json::Map::len) + 3, "{first:#}");
    let conversation = first["conversation_id"].as_str().expect("the conversation");
    assert!(conversation.starts_with("ccc") && conversation.len() < 600, "{conversation}");
    assert!(first["duration_ms"].is_u64());
    let identity = first["identity"].as_str().expect("who asked");
    assert!(identity.len() == 16 && identity.bytes().all(|byte| byte.is_ascii_hexdigit()), "{identity}");
    assert_eq!(records[1]["identity"], identity, "the same key is the same identity");
    assert_ne!(records[3]["identity"], identity);
    assert_eq!(records[7]["identity"], identity, "also where its settings are refused");
    assert_eq!(records[2].get("identity"), None);
    let errors: Vec<Value> = records[3..].iter().map(|record| record["error"].clone()).collect();
    let error = |code: i32, name: &str| json!({"code": code, "name": name});
    assert_eq!(
        errors,
        [
            error(-32018, "ACP_UPSTREAM_ERROR"),
            error(-32018, "ACP_UPSTREAM_ERROR"),
            error(-32011, "ACP_CREDENTIALS_MISSING"),
            error(-32017, "ACP_INVALID_ARGUMENTS"),
            error(-32016, "ACP_INVALID_LIMIT"),
        ]
    );
    assert_eq!(records[6]["tool"], "no_such_tool");
}

/// Read by OpenTelemetry's own types of OTLP, which are not ours.
#[test]
fn records_as_opentelemetry_has_them() {
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData};

    let mut server = toy("OTLP").arguments(&["--audit-format", "otel"]).start();
    let mut params = crate::server::call_params(
        "rows",
        &json!({"resource_id": "acc_7", "n": 5}),
        &meta("KEY-A-CANARY-1", &json!({"call_id": "call-1", "conversation_id": "c-1"})),
    );
    params["_meta"]["traceparent"] = json!(TRACE);
    let id = server.begin("tools/call", params);
    server.answer_of_call(&id, "rows");
    server.call("boom", json!({"kind": "500"}), meta("KEY-B-CANARY-2", &json!({})));
    server.request("acp/configure", json!({"row_limit": 3}));
    let (_, lines) = finish(server);

    let text = |record: &LogRecord, key: &str| {
        let found = record.attributes.iter().find(|attribute| attribute.key == key)?;
        match found.value.clone()?.value? {
            Any::StringValue(text) => Some(text),
            Any::IntValue(number) => Some(number.to_string()),
            Any::KvlistValue(list) => Some(format!("{} fields", list.values.len())),
            other => Some(format!("{other:?}")),
        }
    };
    let mut records = Vec::new();
    for line in &lines {
        let data: LogsData = serde_json::from_value(line.clone()).unwrap_or_else(|error| panic!("{error}: {line}"));
        let [resource] = data.resource_logs.as_slice() else { panic!("{line}") };
        let about: Vec<&str> =
            resource.resource.iter().flat_map(|about| &about.attributes).map(|a| a.key.as_str()).collect();
        assert_eq!(about, ["service.name", "service.version"]);
        let [scope] = resource.scope_logs.as_slice() else { panic!("{line}") };
        let [record] = scope.log_records.as_slice() else { panic!("{line}") };
        assert_eq!(record.time_unix_nano, 1_791_800_190_000_000_000, "the toy's clock stands");
        records.push(record.clone());
    }
    let [call, failed, configured] = records.as_slice() else { panic!("{lines:#?}") };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(format!("00-{}-{}-01", hex(&call.trace_id), hex(&call.span_id)), TRACE);
    for (record, key, value) in [
        (call, "mcp.method.name", "tools/call"),
        (call, "mcp.protocol.version", "2025-11-25"),
        (call, "network.transport", "pipe"),
        (call, "gen_ai.operation.name", "execute_tool"),
        (call, "gen_ai.tool.name", "rows"),
        (call, "gen_ai.tool.call.id", "call-1"),
        (call, "gen_ai.tool.call.arguments", "3 fields"),
        (call, "gen_ai.conversation.id", "c-1"),
        (call, "acp.resource_id", "acc_7"),
        (call, "acp.total_rows", "5"),
        (failed, "error.type", "ACP_UPSTREAM_ERROR"),
        (failed, "rpc.response.status_code", "-32018"),
        (configured, "mcp.method.name", "acp/configure"),
    ] {
        assert_eq!(text(record, key).as_deref(), Some(value), "{key}: {record:#?}");
    }
    assert_eq!(text(call, "error.type"), None);
    assert_eq!(text(configured, "gen_ai.operation.name"), None);
    let severities: Vec<i32> = records.iter().map(|record| record.severity_number).collect();
    assert_eq!(severities, [9, 17, 9]);
}

#[test]
fn no_row_no_total_no_message_no_secret() {
    let mut server = toy("what the log must not hold").start();
    let secret = meta("KEY-A-CANARY-1", &json!({"config": {"zone": "SETTING-VALUE"}}));
    server.request(
        "acp/configure",
        json!({
            "credentials": {"type": "oauth", "access_token": "TOK-CANARY-9"}, "row_limit": 3,
            "config": {"zone": "SETTING-VALUE", "undeclared": "x"}, "PRIVKEY-CANARY": 1,
        }),
    );
    // Cut off by limit, so that there is a warning.
    server.call("rows", json!({"resource_id": "acc_1", "n": 50, "limit": 40}), secret.clone());
    server.call("boom", json!({"kind": "echo"}), secret.clone());
    server.call("boom", json!({"kind": "panic"}), secret.clone());
    // Where credentials do not belong. The answers repeat what is known by name, so these are not checked for it.
    for arguments in
        [json!({"query": {"api_key": "SECRET-IN-ARGUMENTS"}}), json!({"query": "SELECT 1", "SECRET-IN-ARGUMENTS": 1})]
    {
        let id = server.begin_call("run_sql", &arguments, &Value::Null);
        server.answer(&id);
    }
    let (ended, records) = finish(server);
    let text = std::fs::read_to_string(log_of(ended.root.path())).expect("the log");
    for forbidden in
        ["r0", "1225", "780", "limit cut", "SETTING-VALUE", "SECRET-IN-ARGUMENTS", "undeclared", "message", "redacted"]
    {
        assert!(!text.contains(forbidden), "{forbidden} is in {text}");
    }
    assert_eq!(records[0]["kind"], "configure");
    assert_eq!(records[0]["fields"], json!(["row_limit", "credentials", "config", "config.zone"]));
    assert_eq!(records[0]["identity"].as_str().map(str::len), Some(16));
    assert_eq!(records[4]["arguments"], json!({}));
}

#[test]
fn a_secret_that_a_model_writes_into_an_argument_is_left_out() {
    let mut server = toy("a secret in a text that may hold anything").variable("ACP_AUDIT_SQL", "1").start();
    let secret = json!({"credentials": {"type": "api_key", "api_key": "hush-hush-hush"}});
    for (tool, arguments) in [
        ("run_sql", json!({"query": "SELECT 'hush-hush-hush'"})),
        ("raw", json!({"rows_json": "[{\"a\":\"hush-hush-hush\"}]"})),
        ("hush-hush-hush", json!({})),
    ] {
        let id = server.begin_call(tool, &arguments, &secret);
        server.answer(&id);
    }
    let (ended, records) = finish(server);
    let text = std::fs::read_to_string(log_of(ended.root.path())).expect("the log");
    assert!(!text.contains("hush"), "{text}");
    assert_eq!(records[0]["arguments"]["query"], json!({"omitted": true}));
}

#[test]
fn configuring_is_recorded_also_when_it_fails() {
    let mut server = toy("acp/configure").start();
    for params in [json!({"row_limit": "many"}), json!({"default_resource_id": "acc_1"}), json!({})] {
        server.request("acp/configure", params);
    }
    let (_, records) = finish(server);
    let seen: Vec<(&Value, &Value)> = records.iter().map(|record| (&record["fields"], &record["error"])).collect();
    let failure = json!({"code": -32016, "name": "ACP_INVALID_LIMIT"});
    assert_eq!(
        seen,
        [
            (&json!(["row_limit"]), &failure),
            (&json!(["default_resource_id"]), &Value::Null),
            (&json!([]), &Value::Null)
        ]
    );
}

#[test]
fn sql_is_in_it_only_when_asked_for() {
    let query = format!("SELECT '{}' -- {{{{start_date}}}}", "x".repeat(700));
    for asked in [false, true] {
        let mut setup = toy("SQL");
        if asked {
            setup = setup.variable("ACP_AUDIT_SQL", "1");
        }
        let mut server = setup.start();
        server.call("run_sql", json!({"query": query}), Value::Null);
        server.call("run_sql", json!({"query": "DROP TABLE personal_data"}), Value::Null);
        let (ended, records) = finish(server);
        if asked {
            assert_eq!(records[0]["arguments"]["query"], query);
            continue;
        }
        let text = std::fs::read_to_string(log_of(ended.root.path())).expect("the log");
        assert!(!text.contains("SELECT") && !text.contains("DROP"), "{text}");
        let shown = &records[0]["arguments"]["query"];
        assert_eq!((&shown["omitted"], &shown["length"]), (&json!(true), &json!(query.chars().count())));
        assert!(crate::rules::regex("^[0-9a-f]{64}$").is_match(shown["sha256"].as_str().expect("a hash")));
        assert_eq!(records[1]["error"]["name"], "ACP_READ_ONLY_VIOLATION");
    }
}

#[test]
fn long_texts_are_clipped() {
    let mut server = toy("a long argument").start();
    let rows = format!("[{}]", vec!["{\"a\":\"é\"}"; 2000].join(","));
    server.call("raw", json!({"rows_json": rows}), Value::Null);
    let (_, records) = finish(server);
    let shown = records[0]["arguments"]["rows_json"].as_str().expect("a text");
    assert!(
        shown.chars().count() < 530 && shown.ends_with(&format!("… ({} characters)", rows.chars().count())),
        "{shown}"
    );
}

#[test]
fn traces_of_another_form_are_left_out() {
    let mut server = toy("trace context").start();
    let cases = [
        (json!(TRACE), json!("a=1"), json!({"traceparent": TRACE, "tracestate": "a=1"})),
        (json!(TRACE), json!("not a state"), json!({"traceparent": TRACE})),
        (json!(TRACE), Value::Null, json!({"traceparent": TRACE})),
        (json!(TRACE.to_uppercase()), json!("a=1"), Value::Null),
        (json!(TRACE.replace("4bf9", "KEY-")), json!("a=1"), Value::Null),
        (json!({"traceparent": TRACE}), json!("a=1"), Value::Null),
        (Value::Null, json!("a=1"), Value::Null),
    ];
    for (parent, state, _) in &cases {
        let id = server.begin(
            "tools/call",
            json!({"name": "peek", "arguments": {}, "_meta": {"traceparent": parent, "tracestate": state}}),
        );
        server.answer_of_call(&id, "peek");
    }
    let (_, records) = finish(server);
    for ((.., expected), record) in cases.iter().zip(&records) {
        assert_eq!(&record["trace"], expected);
    }
    assert_eq!(records.len(), cases.len());
}

#[test]
fn cancelled_calls_are_recorded() {
    let mut server = toy("cancelled calls").start();
    let id = server.begin_call("slow", &json!({"seconds": 30}), &json!({"call_id": "by the client"}));
    std::thread::sleep(Duration::from_millis(100));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    server.call("peek", json!({}), Value::Null);
    server.begin_call("slow", &json!({"seconds": 31}), &json!({"call_id": "by the end of input"}));
    std::thread::sleep(Duration::from_millis(100));
    let (_, records) = finish(server);
    assert_eq!(records.len(), 3, "{records:#?}");
    for (call, seconds) in [("by the client", 30), ("by the end of input", 31)] {
        let record = records.iter().find(|record| record["call_id"] == call).expect(call);
        assert_eq!((&record["kind"], &record["tool"]), (&json!("cancelled"), &json!("slow")), "{record:#}");
        assert_eq!(record["arguments"], json!({"seconds": seconds}));
        assert!(record["duration_ms"].as_u64() >= Some(50) && record.get("error").is_none(), "{record:#}");
    }
}

#[test]
fn parallel_calls_and_processes_write_whole_lines() {
    const CALLS: usize = 60;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let start = |name: &str| {
        let setup = Setup::toy(name).variable("ACP_AUDIT_LOG", &path.to_string_lossy());
        setup.variable("ACP_AUDIT_MAX_BYTES", "20000").variable("ACP_AUDIT_MODE", "strict").start()
    };
    let mut servers = [start("one of two on one log"), start("two of two on one log")];
    let mut ids = Vec::new();
    for call in 0..CALLS {
        for (place, server) in servers.iter_mut().enumerate() {
            let meta = meta("KEY-A-CANARY-1", &json!({"call_id": format!("{place}-{call}")}));
            ids.push((place, server.begin_call("rows", &json!({"resource_id": "acc_1", "n": 2}), &meta)));
        }
    }
    for (place, id) in ids {
        servers[place].answer_of_call(&id, "rows");
    }
    servers.into_iter().for_each(|server| drop(server.finish_well()));
    let files = files_below(folder.path());
    assert!((2..=6).contains(&files.len()), "{files:?}");
    for file in &files {
        assert!(file.metadata().expect("a file").len() <= 20_000, "{}", file.display());
    }
    let all: Vec<Value> = files.iter().flat_map(|file| records(file)).collect();
    let calls: HashSet<String> = all.iter().map(|record| record["call_id"].to_string()).collect();
    assert_eq!((all.len(), calls.len()), (2 * CALLS, 2 * CALLS));
}

#[test]
fn the_log_is_rotated_and_five_older_files_are_kept() {
    let mut server = toy("rotation").variable("ACP_AUDIT_MAX_BYTES", "1024").start();
    for call in 0..40 {
        server.call("peek", json!({}), json!({"call_id": format!("c{call}")}));
    }
    let ended = server.finish_well();
    let log = log_of(ended.root.path());
    let numbered = |number: usize| PathBuf::from(format!("{}.{number}", log.display()));
    assert!(!numbered(6).exists());
    let mut seen = Vec::new();
    for file in (1..=5).rev().map(numbered).chain([log.clone()]) {
        assert!(file.metadata().expect("a file").len() <= 1024, "{}", file.display());
        seen.extend(records(&file).into_iter().map(|record| record["call_id"].as_str().expect("an id").to_owned()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
    }
    let expected: Vec<String> = (40 - seen.len()..40).map(|call| format!("c{call}")).collect();
    assert_eq!(seen, expected, "the newest, in their order");
}

#[test]
fn a_log_is_continued() {
    let mut server = toy("a second start").start();
    server.call("peek", json!({}), Value::Null);
    let mut server = server.restart(|setup| setup);
    server.call("peek", json!({}), Value::Null);
    assert_eq!(finish(server).1.len(), 2);
}

/// Puts a folder where the log was.
fn block(log: &Path) {
    std::fs::remove_file(log).expect("the log");
    std::fs::create_dir(log).expect("a folder in its place");
}

#[test]
fn best_effort_goes_on_without_a_record() {
    let mut server = toy("best effort").variable("ACP_AUDIT_MODE", "best_effort").variable("ACP_LOG", "error").start();
    block(&log_of(server.root()));
    let answer = server.call("rows", json!({"resource_id": "acc_1", "n": 2}), meta("KEY-A-CANARY-1", &json!({})));
    assert_eq!(answer.json["result"]["_meta"]["acp"]["kind"], "extraction");
    let ended = server.finish_well();
    assert!(ended.stderr.contains("ERROR") && ended.stderr.contains("audit log"), "{}", ended.stderr);
}

#[test]
fn strict_gives_no_answer_without_a_record() {
    let mut server = toy("strict").variable("ACP_AUDIT_MODE", "strict").start();
    let log = log_of(server.root());
    let arguments = json!({"resource_id": "acc_1", "n": 30});
    let by_file = meta("KEY-A-CANARY-1", &json!({"inline_max_bytes": 0, "session_id": "s-1"}));
    server.request("acp/configure", json!({"row_limit": 7}));
    block(&log);
    let mut tables = 0;
    for delivery in [&by_file, &meta("KEY-A-CANARY-1", &json!({}))] {
        let answer = server.call("rows", arguments.clone(), delivery.clone());
        let acp = &answer.json["result"]["_meta"]["acp"];
        assert_eq!(acp["error"]["code"], -32018, "{}", answer.text);
        assert!(acp["error"]["message"].as_str().is_some_and(|text| text.contains("audit log")), "{}", answer.text);
        assert!(acp.get("system_data").is_none() && !answer.text.contains("r0"), "{}", answer.text);
        tables += files_below(&server.root().join("tmp")).len();
    }
    assert_eq!(tables, 0, "a table of an answer that was held back");
    let refused = server.request("acp/configure", json!({"row_limit": 9}));
    assert_eq!(refused.json["error"]["code"], -32018, "{}", refused.text);
    std::fs::remove_dir(&log).expect("the folder");
    let answer = server.call("rows", arguments, by_file);
    let info = &answer.json["result"]["_meta"]["acp"]["system_info"];
    assert_eq!(
        (&info["total_rows"], &info["row_limit"]),
        (&json!(30), &json!(7)),
        "it goes on, and nothing was half done"
    );
    assert_eq!(info["autocontext_attached"], true, "what was held back was not delivered");
    assert_eq!(files_below(&server.root().join("tmp")).len(), 1);
    assert_eq!(finish(server).1.len(), 1);
}

#[test]
fn wrong_settings_refuse_to_start() {
    let log = ("ACP_AUDIT_LOG", "$ROOT/audit.jsonl");
    for wrong in [
        &[("ACP_AUDIT_LOG", "$ROOT/missing/audit.jsonl")][..],
        &[("ACP_AUDIT_LOG", "$ROOT/tmp")],
        &[("ACP_AUDIT_LOG", "audit.jsonl")],
        &[("ACP_AUDIT_MODE", "STRICT"), log],
        &[("ACP_AUDIT_SQL", "true"), log],
        &[("ACP_AUDIT_MAX_BYTES", "1MB"), log],
        &[("ACP_AUDIT_MAX_BYTES", "0"), log],
        &[("ACP_AUDIT_MODE", "strict")],
    ] {
        let setup = Setup::toy("a wrong setting of the audit log").without_handshake();
        let setup = wrong.iter().fold(setup, |setup, (name, value)| setup.variable(name, value));
        let ended = setup.start().finish();
        assert_eq!(ended.status.code(), Some(2), "{wrong:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with(&format!("error: {}", wrong[0].0)), "{wrong:?}: {}", ended.stderr);
        assert!(!log_of(ended.root.path()).exists(), "{wrong:?}");
    }
}

/// Nothing is called, so there is nothing to record.
#[test]
fn printing_does_not_touch_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    for printing in ["capability", "tools", "--version"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acp-toy"));
        let output = command.arg(printing).env("ACP_AUDIT_LOG", &log).output().expect("the toy");
        assert!(output.status.success() && !log.exists(), "{printing}: {output:?}");
    }
}
