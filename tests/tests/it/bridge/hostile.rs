//! Servers and files that mean no good: a clear error each, and the bridge lives.

#![cfg(unix)]

use serde_json::json;

use super::{Bridge, KEYS, Place, shop, source};

/// A server in `sh` that answers as MCP asks, but for calls: what it says to one is `answer`, where `$id` is its id.
fn server(answer: &str) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"bad","version":"1.0.0"},"capabilities":{"experimental":{"acp":{"version":"1.0","defaults":{"row_limit":25,"cost_limit_usd":0},"credentials_schema":{"type":"object","properties":{}},"resource_id":{"description":"d","format":"none","examples":[]},"autocontext":{"cache_ttl_s":1,"delivery":["suggest"]},"cost":{"currency":"USD","model":"free","description":"d"},"extraction_tools":["go"]}}}}}"#;
    let tools = r#"{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}}"#;
    format!(
        r#"while read -r line; do
  id=${{line#*\"id\":}}; id=${{id%%,*}}
  case $line in
  *'"initialize"'*) printf '{hello}\n' "$id" ;;
  *'"tools/list"'*) printf '{tools}\n' "$id" ;;
  *'"tools/call"'*) {answer} ;;
  esac
done"#
    )
}

/// The answer of a call with a table as `_meta.acp.system_data`.
fn extraction(data: &str) -> String {
    let info = r#"{"acp":"bad","acp_version":"1.0","tool":"go","kind":"extraction","resource_id":null,"arguments":{},"row_limit":25,"cost_limit_usd":0,"cost_estimate_usd":0,"cost_actual_usd":0,"duration_ms":1,"fetched_at":"2026-10-12T08:16:30.000Z","autocontext_attached":false,"messages":[],"warnings":[]}"#;
    format!(
        r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{{"content":[{{"type":"text","text":"{{}}"}}],"_meta":{{"acp":{{"version":"1.0","kind":"extraction","system_info":{info},"system_data":{data}}}}}}}}}\n' "$id""#
    )
}

fn with_bad(title: &str, script: &str) -> Bridge {
    let place = Place::new(&json!({"sources": [source("shop", KEYS[0]), {"id": "bad", "acp": "bad"}]}));
    place.install_script("bad", script);
    place.start(title)
}

/// Servers that break while they answer, or answer with what they did not announce.
#[test]
fn answers_that_can_not_be_used_are_errors() {
    for (title, answer, needle) in [
        ("crash", "exit 3".to_owned(), "ended"),
        (
            "half a line",
            r#"printf '{"jsonrpc":"2.0","id":%s,"result":{' "$id"; exit 0"#.to_owned(),
            "ended before it answered",
        ),
        ("not JSON", "echo hello".to_owned(), "JSON-RPC"),
        (
            "no _meta.acp",
            r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$id""#.to_owned(),
            "_meta.acp",
        ),
        ("endless", "yes | tr -d '\\n'".to_owned(), "line of more than"),
        (
            "too few rows",
            extraction(
                r#"{"format":"inline","row_count":2,"headers":[{"name":"a","type":"integer"}],"table":[{"a":1}]}"#,
            ),
            "2 were announced",
        ),
        (
            "another column",
            extraction(
                r#"{"format":"inline","row_count":1,"headers":[{"name":"a","type":"integer"}],"table":[{"b":1}]}"#,
            ),
            "no column",
        ),
        (
            "a file that is not there",
            extraction(
                r#"{"format":"file","row_count":1,"headers":[{"name":"a","type":"integer"}],"table_uri":"file:///nowhere/x.json"}"#,
            ),
            "can",
        ),
        (
            "a file elsewhere",
            extraction(
                r#"{"format":"file","row_count":1,"headers":[{"name":"a","type":"integer"}],"table_uri":"https://example.com/x"}"#,
            ),
            "https",
        ),
    ] {
        let mut bridge = with_bad(title, &server(&answer));
        let message = bridge.call("bad__go", json!({})).error("ACP_UPSTREAM_ERROR");
        assert!(message.contains(needle), "{title}: {message}");
        assert!(bridge.files().is_empty(), "{title}: {:?}", bridge.files());
        bridge.call("shop__peek", json!({})).ok();
        bridge.end();
    }
}

/// A server that does not start is told by acp_sources; the tools of others are there.
#[test]
fn servers_that_do_not_start_are_told() {
    for (title, script) in
        [("ends", "exit 1"), ("speaks in words", "echo hello; cat >/dev/null"), ("lists", "echo '[]'; cat >/dev/null")]
    {
        let mut bridge = with_bad(title, script);
        let names: Vec<String> = bridge.tools().iter().map(|tool| tool["name"].to_string()).collect();
        assert!(
            names.iter().any(|name| name.contains("shop__rows")) && !names.iter().any(|name| name.contains("bad__"))
        );
        let state = bridge.source("bad")["state"].as_str().unwrap().to_owned();
        assert!(state.contains("bad"), "{state}");
        bridge.call("bad__go", json!({})).error("ACP_UPSTREAM_ERROR");
        bridge.call("shop__rows", json!({"n": 2})).ok();
        bridge.end();
    }
}

/// Silence, and answers to what nobody asked: other calls go on, and the client can give up.
#[test]
fn silence_holds_nobody_else_up() {
    for (title, answer) in
        [("silence", ":"), ("a wrong id", r#"printf '{"jsonrpc":"2.0","id":99%s,"result":{}}\n' "$id""#)]
    {
        let mut bridge = with_bad(title, &server(answer));
        let silent = bridge.begin("bad__go", &json!({}));
        bridge.call("shop__rows", json!({"n": 2})).ok();
        bridge
            .server
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": silent}}));
        bridge.call("shop__peek", json!({})).ok();
        bridge.end();
    }
    // Not even a word at the start.
    let mut bridge = with_bad("silent start", "cat >/dev/null");
    let silent = bridge.begin("bad__go", &json!({}));
    bridge.call("shop__peek", json!({})).ok();
    bridge
        .server
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": silent}}));
    bridge.call("shop__peek", json!({})).ok();
    bridge.end();
}

/// Files that are no tables, whatever they are called.
#[test]
fn hostile_files_are_told() {
    let mut bridge = shop("hostile files");
    bridge.put("binary.csv", &[0, 0xff, 0xfe, b'\n', 1, 2]);
    bridge.put("quote.csv", b"a,b\n1,\"never closed\n2,3\n");
    bridge.put("empty.csv", b"");
    bridge.put("ragged.csv", b"a,b\n1,2,3\n");
    bridge.put("wide.csv", vec![b','; 3000].as_slice());
    bridge.put("half.meta.json", b"{}");
    bridge.put("bad.csv", b"a\n1\n");
    bridge.put("bad.meta.json", b"{\"id\": \"other\"}");
    bridge.put("..csv", b"a\n1\n");
    std::fs::create_dir(bridge.data().join("folder.csv")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", bridge.data().join("link.csv")).unwrap();
    let listed = bridge.call("acp_datasets", json!({})).ok().model();
    let ids: Vec<&str> =
        listed["datasets"].as_array().unwrap().iter().map(|dataset| dataset["id"].as_str().unwrap()).collect();
    assert_eq!(ids, Vec::<&str>::new(), "{listed}");
    for (file, needle) in [
        ("binary", "UTF-8"),
        ("quote", "never closed"),
        ("empty", "empty"),
        ("ragged", "3 fields"),
        ("wide", "columns"),
        ("bad", "meta"),
    ] {
        let problem =
            listed["unusable"].as_array().unwrap().iter().find(|entry| entry["file"] == format!("acp-data/{file}.csv"));
        assert!(
            problem.unwrap_or_else(|| panic!("{file}: {listed}"))["problem"].as_str().unwrap().contains(needle),
            "{listed}"
        );
        let reply = bridge.call("acp_query", json!({"sql": format!("SELECT * FROM {file}")}));
        assert!(reply.failed && reply.model()["error"]["message"].as_str().unwrap().contains(needle), "{}", reply.line);
    }
    let link = bridge.call("acp_query", json!({"sql": "SELECT * FROM link"}));
    assert!(link.failed && !link.line.contains("root:"), "{}", link.line);
    bridge.end();
}
