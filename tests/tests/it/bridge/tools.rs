//! What the client is offered (16.4), and what connectors receive (16.5).

use serde_json::{Value, json};

use super::{KEYS, Place, eventually, shop, source};
use crate::server::binary_of;

/// B-16.1-01, B-16.4-04: each tool of each source, under the source's name, beside the bridge's own three.
#[test]
fn each_source_publishes_its_tools() {
    let mut bridge =
        Place::new(&json!({"sources": [source("shop", KEYS[0]), source("other-shop", KEYS[1])]})).start("tools");
    let tools = bridge.tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["acp_sources", "acp_datasets", "acp_query"]);
    for name in ["shop__rows", "shop__autocontext", "shop__autocontext_data", "other-shop__rows"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let of = |id: &str| names.iter().filter(|name| name.starts_with(id)).count();
    assert_eq!(of("shop__"), of("other-shop__"));
    for tool in &tools {
        let hints = tool["annotations"].as_object().unwrap();
        assert_eq!(hints.len(), 4, "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object");
    }
    bridge.end();
}

/// B-16.4-05: what the bridge says in descriptions and adds to schemas.
#[test]
fn descriptions_say_what_the_bridge_does() {
    let mut bridge = shop("descriptions");
    for tool in bridge.tools().iter().skip(3) {
        assert!(tool["description"].as_str().unwrap().starts_with("[The shop · Toy] "), "{tool}");
    }
    let rows = bridge.tool("shop__rows");
    assert!(rows["description"].as_str().unwrap().contains("the whole table is stored in acp-data"), "{rows}");
    assert!(!bridge.tool("shop__peek")["description"].as_str().unwrap().contains("acp-data"));
    let copy = bridge.tool("shop__copy_table");
    let asked = copy["inputSchema"]["properties"]["table_ref"]["description"].as_str().unwrap();
    assert!(asked.contains("id of a dataset of acp-data"), "{asked}");
    let sql = bridge.tool("shop__run_sql")["inputSchema"].clone();
    for bound in ["start_date", "end_date"] {
        assert_eq!(sql["properties"][bound]["type"], "string", "{sql}");
    }
    assert_eq!(sql["required"], json!(["query"]));
    bridge.end();
}

/// B-16.4-01: sources and their state, never their credentials; connectors without a source; what is wrong.
#[test]
fn acp_sources_tells_the_state_of_each() {
    let mut good = source("shop", KEYS[0]);
    good["row_limit"] = json!(7);
    let keyless = json!({"id": "keyless", "acp": "toy"});
    let unset =
        json!({"id": "unset", "acp": "toy", "credentials": {"type": "api_key", "api_key": {"env": "NOT_SET_HERE"}}});
    let missing = json!({"id": "missing", "acp": "nowhere"});
    let place =
        Place::new(&json!({"defaults": {"row_limit": 9}, "sources": [good, keyless, unset, missing], "colour": "red"}));
    place.install("spare", "Spare", &binary_of("acp-toy"), &[]);
    let mut bridge = place.start("acp_sources");
    let shop = bridge.source("shop");
    assert_eq!(
        (&shop["state"], &shop["has_credentials"], &shop["label"]),
        (&json!("ok"), &json!(true), &json!("The shop"))
    );
    assert_eq!((&shop["limits"]["row_limit"], &shop["default_resource_id"]), (&json!(7), &json!("acc_20")));
    assert!(shop["tools"].as_array().unwrap().contains(&json!("shop__rows")));
    let keyless = bridge.source("keyless");
    assert_eq!((&keyless["has_credentials"], &keyless["limits"]["row_limit"]), (&json!(false), &json!(9)));
    assert!(bridge.source("unset")["state"].as_str().unwrap().contains("NOT_SET_HERE"));
    assert!(bridge.source("missing")["state"].as_str().unwrap().contains("not installed"));
    let state = bridge.call("acp_sources", json!({})).ok().model();
    assert_eq!(state["installed_without_source"][0]["id"], "spare");
    assert!(state["problems"].to_string().contains("colour"), "{state}");
    bridge.end();
}

/// A name that clients refuse is told with the longest id that fits.
#[test]
fn names_that_are_too_long_are_told() {
    let long = "a".repeat(40);
    let mut bridge = Place::new(&json!({"sources": [source(&long, KEYS[0])]})).start("long names");
    let told = bridge.source(&long)["problem"].as_str().expect("a problem").to_owned();
    // acp + __ + autocontext_data
    assert!(told.contains("at most 39 characters"), "{told}");
    bridge.end();
}

/// B-16.3-04: a broken sources.json leaves the bridge's own tools, which tell what is wrong; mended, the tools are there,
/// and the client is told.
#[test]
fn an_error_in_sources_json_does_not_stop_it() {
    let place = Place::new(&json!({}));
    place.write_sources(&format!("{{\"sources\": [{{\"id\": \"shop\", \"key\": \"{}\"}},]}}", KEYS[0]));
    let mut bridge = place.start("broken sources");
    assert_eq!(bridge.tools().len(), 3);
    let state = bridge.call("acp_sources", json!({})).ok().model();
    let problem = state["problems"].to_string();
    assert!(problem.contains("sources.json") && problem.contains("line 1"), "{problem}");
    bridge.call("acp_datasets", json!({})).ok();
    let message = bridge.call("shop__rows", json!({})).error("ACP_INVALID_ARGUMENTS");
    assert!(message.contains("sources.json"), "{message}");
    bridge.place.write_sources(&json!({"sources": [source("shop", KEYS[0])]}).to_string());
    bridge.server.wait_for("the news", |message| message.json["method"] == "notifications/tools/list_changed");
    bridge.tool("shop__rows");
    // A connector that is copied into the folder counts too.
    bridge.place.install("spare", "Spare", &binary_of("acp-toy"), &[]);
    bridge.server.wait_for("the news", |message| message.json["method"] == "notifications/tools/list_changed");
    bridge.end();
}

/// B-16.2-03, B-16.2-04, B-16.3-01, B-16.3-02, B-16.3-03, B-16.5-01, B-16.5-02: what a connector receives.
#[cfg(unix)]
#[test]
fn connectors_get_credentials_limits_and_sessions() {
    let place = Place::new(&json!({}));
    let log = place.install_recorded("toy", "");
    std::fs::write(place.path().join("key.txt"), format!("  {}\n", KEYS[1])).unwrap();
    place.write_sources(
        &json!({"defaults": {"row_limit": 4, "field_limit": 30}, "sources": [
            {"id": "one", "acp": "toy", "credentials": {"type": "api_key", "api_key": {"env": "SHOP_KEY"}},
             "default_resource_id": "acc_20", "cost_limit_usd": 0.5, "config": {"zone": {"projectPath": "data/x"}, "region": "us"}},
            {"id": "two", "acp": "toy", "row_limit": 2, "credentials": {"type": "api_key", "api_key": {"file": "key.txt"}}},
        ]})
        .to_string(),
    );
    let mut bridge = place.start_with("connectors", |setup| setup.variable("SHOP_KEY", KEYS[0]));
    let shown = bridge.call("one__rows", json!({"n": 9})).ok();
    assert_eq!(shown.model()["rows"].as_array().unwrap().len(), 4);
    bridge.call("one__peek", json!({})).ok();
    bridge.call("two__rows", json!({"resource_id": "acc_20", "n": 9})).ok();
    let lines = std::fs::read_to_string(log).unwrap();
    bridge.end();
    let sent: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let hello = sent.iter().find(|message| message["method"] == "initialize").unwrap();
    assert_eq!(
        hello["params"]["capabilities"]["experimental"]["acp"],
        json!({"version": "1.0", "stores_system_data": true, "autocontext_delivery": "on_first_call", "multi_table": true,
               "host_tables": true})
    );
    assert!(
        sent.iter().all(|message| message["method"] != "acp/configure"),
        "credentials of two sources can't be the session's"
    );
    let calls: Vec<&Value> = sent.iter().filter(|message| message["method"] == "tools/call").collect();
    let meta = |place: usize| &calls[place]["params"]["_meta"]["acp"];
    assert_eq!(calls.len(), 3);
    assert_eq!(meta(0)["credentials"]["api_key"], KEYS[0]);
    assert_eq!(meta(2)["credentials"]["api_key"], KEYS[1], "the content of the file without white space at its ends");
    assert_eq!((&meta(0)["row_limit"], &meta(2)["row_limit"]), (&json!(4), &json!(2)));
    assert_eq!((&meta(0)["field_limit"], &meta(0)["cost_limit_usd"]), (&json!(30), &json!(0.5)));
    assert_eq!(meta(0)["default_resource_id"], "acc_20");
    assert_eq!(meta(0)["config"]["region"], "us");
    assert!(meta(0)["config"]["zone"].as_str().unwrap().ends_with("/project/data/x"), "{}", meta(0)["config"]);
    for (place, id) in [(0, "one"), (1, "one"), (2, "two")] {
        let session = meta(place)["session_id"].as_str().unwrap();
        assert!(session.starts_with("bridge-") && session.ends_with(&format!(":{id}")), "{session}");
        assert_eq!(meta(place)["conversation_id"], session);
    }
    assert_eq!(meta(0)["session_id"], meta(1)["session_id"]);
}

/// B-16.1-05, B-16.5-03: two accounts of one connector share its process and never their data, and each has its own
/// autocontext, once.
#[cfg(target_os = "linux")]
#[test]
fn two_sources_share_a_process_and_nothing_else() {
    let place = Place::new(&json!({}));
    // An argument that tells this test's toy from those of others.
    let mark = format!("--protocol-version=2025-11-25 --host-patience={}", std::process::id());
    let arguments: Vec<&str> = mark.split(' ').collect();
    place.install("toy", "Toy", &binary_of("acp-toy"), &arguments);
    place.write_sources(&json!({"sources": [source("one", KEYS[0]), source("two", KEYS[1])]}).to_string());
    let mut bridge = place.start("two sources");
    for round in 0..2 {
        for (id, holder) in [("one", "71"), ("two", "72")] {
            let seen = bridge.call(&format!("{id}__rows"), json!({"n": 3})).ok();
            assert!(seen.model()["description"].as_str().unwrap().contains(holder), "{}", seen.line);
            assert_eq!(seen.model().get("autocontext").is_some(), round == 0, "{}", seen.line);
            let dataset = seen.dataset();
            assert!(dataset.starts_with(&format!("{id}_rows_")), "{dataset}");
            assert!(bridge.csv(&dataset).contains(holder));
        }
    }
    assert_eq!(super::processes(&mark).len(), 1);
    let blocks = bridge.call("one__autocontext", json!({"resource_id": "acc_20", "request_data": ["alpha"]})).ok();
    assert!(blocks.model()[0]["data"].to_string().contains("acc_20"), "{}", blocks.line);
    bridge.end();
    eventually("the end of the connector", || super::processes(&mark).is_empty());
}

/// Progress is passed on, and so is a cancellation; the call that was cancelled leaves the connector free.
#[test]
fn progress_and_cancellation_pass_through() {
    let mut bridge = shop("progress");
    let params = json!({"name": "shop__slow", "arguments": {"seconds": 0.6}, "_meta": {"progressToken": "p1"}});
    let id = bridge.server.begin("tools/call", params);
    let step = bridge.server.wait_for("progress", |message| message.json["method"] == "notifications/progress");
    assert_eq!((&step.json["params"]["progressToken"], &step.json["params"]["total"]), (&json!("p1"), &json!(30.0)));
    bridge.reply(&id).ok();
    let params = json!({"name": "shop__slow", "arguments": {"seconds": 60}, "_meta": {"progressToken": "p2"}});
    let id = bridge.server.begin("tools/call", params);
    bridge.server.wait_for("progress", |message| message.json["params"]["progressToken"] == "p2");
    bridge.server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    bridge.call("shop__peek", json!({})).ok();
    // A query that never ends is cancelled too.
    let endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c";
    let id = bridge.begin("acp_query", &json!({"sql": endless}));
    bridge.server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    assert_eq!(bridge.query("SELECT 1 AS one"), json!([{"one": 1}]));
    let ended = bridge.end();
    assert!(ended.unclaimed.iter().all(|message| !message.answers(&id)), "a cancelled call has no answer");
}

/// Arguments that fit no tool are told, whoever they are for.
#[test]
fn mistakes_are_told() {
    let mut bridge = shop("mistakes");
    for (tool, arguments, needle) in [
        ("acp_query", json!({}), "sql"),
        ("acp_query", json!({"sql": 1}), "sql"),
        ("acp_query", json!({"sql": "SELECT 1", "limit": 3}), "limit"),
        ("acp_sources", json!({"x": 1}), "no arguments"),
        ("acp_datasets", json!({"filter": 3}), "filter"),
        ("shop__nothing", json!({}), "rows"),
        ("nobody__rows", json!({}), "acp_sources"),
        ("rows", json!({}), "acp_sources"),
        ("shop__rows", json!({"m": 1}), "m"),
    ] {
        let message = bridge.call(tool, arguments).error("ACP_INVALID_ARGUMENTS");
        assert!(message.contains(needle), "{tool}: {message}");
    }
    bridge.end();
}
