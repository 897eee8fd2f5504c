//! `--tools`: a connector with some of its tools.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::server::Setup;

fn toy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acp-toy")).args(arguments).stdin(Stdio::null()).output().expect("the toy")
}

#[test]
fn only_the_named_tools_are_published_and_called() {
    // A comma list and a repeated flag; the order is that of the declaration, which says what the default tool is.
    for flags in [&["--tools", "peek,copy_table,raw"][..], &["--tools", "raw,copy_table", "--tools=peek,autocontext"]] {
        let mut server = Setup::toy("[S-2-04] --tools").arguments(flags).start();
        let listed = server.request("tools/list", json!({})).json;
        let names: Vec<&str> = listed["result"]["tools"]
            .as_array()
            .expect("tools")
            .iter()
            .map(|tool| tool["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, ["raw", "copy_table", "peek", "autocontext", "autocontext_data"], "{flags:?}");
        let capability = &server.hello.json["result"]["capabilities"]["experimental"]["acp"];
        assert_eq!(capability["extraction_tools"], json!(["raw", "copy_table"]), "[S-4.2-19] {flags:?}");
        server.call("peek", json!({}), Value::Null);
        server.call("raw", json!({"rows_json": "[]"}), Value::Null);
        server.call("autocontext_data", json!({}), Value::Null);
        server.call("autocontext", json!({}), json!({"credentials": {"type": "api_key", "api_key": "KEY-A-CANARY-1"}}));
        for absent in ["rows", "run_sql"] {
            let answer = server.call(absent, json!({"n": 1}), Value::Null);
            let error = &answer.json["result"]["_meta"]["acp"]["error"];
            assert_eq!(error["name"], "ACP_INVALID_ARGUMENTS", "{}", answer.text);
            let message = error["message"].as_str().expect("a message");
            assert!(message.contains("raw, copy_table, peek, autocontext") && !message.contains("rows,"), "{message}");
        }
        server.finish_well();
    }
}

#[test]
fn a_connector_may_be_left_without_extractions() {
    let server = Setup::toy("[S-4.2-19] no extraction").arguments(&["--tools", "peek"]).start();
    let capability = &server.hello.json["result"]["capabilities"]["experimental"]["acp"];
    assert_eq!(capability["extraction_tools"], json!([]));
    server.finish_well();
}

#[test]
fn the_table_catalogue_shrinks_with_the_tools() {
    for (tool, tables, field_limit) in [
        ("shoot", &["ga4_hits", "datalayer", "cookies", "errors"][..], json!(20)),
        ("capture", &["ga4_hits", "cookies", "errors"], json!(20)),
        ("peek", &[], Value::Null),
    ] {
        let printed = toy(&["--variant", "cat", "--tools", tool, "capability"]).stdout;
        let capability: Value = serde_json::from_slice(&printed).expect("JSON");
        let entries = capability["table_catalog"].as_array().cloned().unwrap_or_default();
        let names: Vec<&Value> = entries.iter().map(|entry| &entry["name"]).collect();
        assert_eq!(names, tables, "[S-4.2-20] {tool}");
        assert!(entries.iter().all(|entry| entry["tools"] == json!([tool])), "{capability}");
        assert_eq!(capability["defaults"]["field_limit"], field_limit, "{tool}");
    }
}

#[test]
fn what_is_printed_is_what_would_be_published() {
    let text = |arguments: &[&str]| String::from_utf8(toy(arguments).stdout).expect("text");
    let tools: Value = serde_json::from_str(&text(&["--tools", "raw", "tools", "--json"])).expect("JSON");
    assert_eq!(tools.as_array().map(Vec::len), Some(3));
    let capability: Value = serde_json::from_str(&text(&["--tools", "raw", "capability"])).expect("JSON");
    assert_eq!(capability["extraction_tools"], json!(["raw"]));
    let help = text(&["--help"]);
    assert!(help.contains("--tools <NAMES>") && help.contains("ACP_AUDIT_LOG"), "{help}");
}

#[test]
fn a_wrong_list_refuses_to_start_and_says_what_there_is() {
    for wrong in ["nope", "rows,nope", "rows,", "", "ROWS", "autocontext", "autocontext,autocontext_data"] {
        let output = toy(&["--tools", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.stdout.is_empty() && stderr.contains("rows, raw, copy_table, load_table, peek"),
            "{wrong:?}: {stderr}"
        );
    }
}
