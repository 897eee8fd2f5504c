//! `acp config`, whose snippet a client starts the bridge from, and `acp query`, which is acp_query without a client.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{Bridge, KEYS, Place, source};
use crate::server::{Setup, binary_of};

fn acp(place: &Place, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary_of("acp"));
    command.args(arguments).current_dir(place.path()).env_clear().env("HOME", place.path().join("home"));
    command.output().expect("acp starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// B-16.2-05: each client starts the bridge from what `acp config` prints, wherever that is and whatever its folders are called.
#[test]
fn clients_start_the_bridge_from_the_snippet() {
    for (client, key) in [("claude", "mcpServers"), ("cursor", "mcpServers"), ("vscode", "servers")] {
        let place = Place::new(&json!({"sources": [source("shop", KEYS[0])]}));
        std::fs::create_dir_all(place.path().join("a project")).expect("a project");
        let printed = acp(&place, &["config", "--client", client, "--root", ".", "--project", "a project"]);
        assert!(printed.status.success(), "{}", text(&printed.stderr));
        let snippet: Value = serde_json::from_slice(&printed.stdout).expect("a snippet");
        let (name, server) = snippet[key].as_object().and_then(|servers| servers.iter().next()).expect("a server");
        assert_eq!((name.as_str(), server.get("type").is_some()), ("acp", client == "vscode"));
        let words: Vec<&str> = server["args"].as_array().expect("args").iter().filter_map(Value::as_str).collect();
        let mut setup = Setup::program(server["command"].as_str().expect("a command").into(), client);
        for word in words {
            setup = setup.arguments(&[word]);
        }
        let mut bridge = Bridge { server: setup.variable("HOME", "$ROOT/os-tmp").start(), place };
        bridge.call("shop__rows", json!({"n": 3})).ok();
        let stored = std::fs::read_dir(bridge.place.path().join("a project/acp-data")).expect("acp-data").count();
        assert_eq!(stored, 2, "a CSV and its meta in the project of the snippet");
        bridge.end();
    }
}

/// The same query on the command line: a table for people, JSON for programs, and limits that can be set.
#[test]
fn acp_query_on_the_command_line() {
    let place = Place::new(&json!({"sources": []}));
    let data = place.path().join("acp-data");
    std::fs::create_dir_all(&data).expect("acp-data");
    std::fs::write(data.join("sales.csv"), "day,units,note\n2026-07-01,2,\"a\u{1b}[31m\nb\"\n2026-08-01,5,\n")
        .expect("a file");
    let query = |arguments: &[&str]| acp(&place, &[&["query"], arguments].concat());
    let shown = query(&["SELECT day, units, note FROM sales ORDER BY day"]);
    let lines = text(&shown.stdout);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    assert!(
        lines.contains("day         units  note") && lines.contains("2026-07-01  2      a\u{fffd}[31m b"),
        "{lines}"
    );
    assert!(lines.contains("Showing all 2 rows.") && lines.contains("Saved as dataset acp_query_2"), "{lines}");
    let shown = query(&["SELECT SUM(units) AS units FROM sales", "--save-as", "total", "--json"]);
    let value: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((&value["rows"][0]["units"], &value["dataset"]), (&json!(7), &json!("total")));
    let refused = query(&["DELETE FROM sales"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("read-only"), "{}", text(&refused.stderr));
    let endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c";
    let stopped = query(&[endless, "--timeout", "0"]);
    assert!(text(&stopped.stderr).contains("more than 0 s"), "{}", text(&stopped.stderr));
    // What has to be sorted has to be held.
    let large = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000000) SELECT COUNT(*) AS n FROM (SELECT n, randomblob(40) AS r FROM c ORDER BY r LIMIT 2000000)";
    let refused = query(&[large, "--memory", "16"]);
    assert!(text(&refused.stderr).contains("more than 16 MiB of memory"), "{}", text(&refused.stderr));
    let missing = query(&["SELECT * FROM sale"]);
    assert!(text(&missing.stderr).contains("Closest: sales"), "{}", text(&missing.stderr));
}
