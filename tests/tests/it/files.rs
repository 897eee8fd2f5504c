//! Files that a server leaves, and those it must not leave.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rules::files_below;
use crate::server::{PATIENCE, Setup};

fn auth(extra: Value) -> Value {
    let mut meta = json!({"credentials": {"type": "api_key", "api_key": "KEY-A-CANARY-1"}});
    meta.as_object_mut().expect("an object").extend(extra.as_object().cloned().unwrap_or_default());
    meta
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_tables_and_caches() {
    use std::os::unix::fs::PermissionsExt;
    let mut server = Setup::toy("V-364, AMB-24 [S-7.4-05]").variable("ACP_CACHE_DIR", "$ROOT/cache").start();
    server.call("autocontext", json!({"resource_id": "acc_1"}), auth(json!({})));
    server.call("rows", json!({"resource_id": "acc_1", "n": 3}), auth(json!({"inline_max_bytes": 0})));
    server.call("snap", json!({}), Value::Null);
    let mut files = files_below(&server.root().join("tmp"));
    files.extend(files_below(&server.root().join("cache")));
    assert!(files.len() >= 5, "a table, a picture, three blocks and what was used: {files:?}");
    for file in files {
        let mode = file.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "AMB-24: {}", file.display());
    }
    server.finish_well();
}

#[test]
fn a_table_outlives_the_server_for_the_host_to_read() {
    let mut server = Setup::toy("V-202 [S-8.5-07]").start();
    let answer = server.call("rows", json!({"resource_id": "acc_1", "n": 2}), auth(json!({"inline_max_bytes": 0})));
    let uri = answer.json["result"]["_meta"]["acp"]["system_data"]["table_uri"].as_str().expect("a file").to_owned();
    let _root = server.finish_well().root;
    let path = crate::rules::path_of(&uri).expect("a path");
    let rows: Value = serde_json::from_slice(&std::fs::read(path).expect("V-202: the file")).expect("JSON");
    assert_eq!(rows, json!([{"i": 0, "name": "r0"}, {"i": 1, "name": "r1"}]));
}

#[test]
fn a_table_without_an_answer_leaves_no_file() {
    let mut server = Setup::toy("[S-8.5-07] a cancelled extraction").start();
    let arguments = json!({"resource_id": "acc_1", "n": 200_000});
    let id = server.begin_call("rows", &arguments, &auth(json!({"inline_max_bytes": 0})));
    wait_for_file(&server.root().join("tmp"));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    server.call("peek", json!({}), Value::Null);
    let answered = loop {
        match server.next_within(Duration::from_millis(1500)) {
            Some(message) if message.json["id"] == id => break true,
            Some(_) => {}
            None => break false,
        }
    };
    let left = files_below(&server.root().join("tmp")).len();
    assert_eq!(left, usize::from(answered), "the file stays exactly when its answer was sent");
    server.finish_well();
}

fn wait_for_file(folder: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while files_below(folder).is_empty() {
        assert!(Instant::now() < deadline, "no file came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_large_table_travels_inline() {
    let mut server = Setup::toy("[S-8.5-01] 4 MiB inline").start();
    let answer = server.call("rows", json!({"resource_id": "acc_1", "n": 150_000}), auth(json!({})));
    let data = &answer.json["result"]["_meta"]["acp"]["system_data"];
    assert_eq!(data["format"], "inline");
    assert!(answer.text.len() > 4 * 1024 * 1024, "{} bytes", answer.text.len());
    let rows: Vec<Value> = (0..110_000).map(|row| json!({"row": row, "text": "0123456789 é \n"})).collect();
    let rows = Value::from(rows).to_string();
    assert!(rows.len() > 4 * 1024 * 1024, "{} bytes", rows.len());
    let answer = server.call("raw", json!({"rows_json": rows}), json!({}));
    let data = &answer.json["result"]["_meta"]["acp"]["system_data"];
    assert_eq!((&data["format"], &data["row_count"]), (&json!("inline"), &json!(110_000)));
    assert_eq!(data["table"], serde_json::from_str::<Value>(&rows).expect("JSON"));
    server.finish_well();
}

#[test]
fn a_spoiled_cache_is_as_good_as_none() {
    for garbage in ["", "{", "[]", "null", "{\"expires\":\"2030-01-01T00:00:00Z\"}", "\u{0}\u{1}"] {
        let mut server = Setup::toy("[S-7.4-05] a spoiled cache").variable("ACP_CACHE_DIR", "$ROOT/cache").start();
        server.call("autocontext", json!({"resource_id": "acc_1"}), auth(json!({})));
        server.call("rows", json!({"resource_id": "acc_80", "n": 3}), auth(json!({})));
        let files = files_below(&server.root().join("cache"));
        assert!(files.len() >= 4, "{files:?}");
        for file in files {
            std::fs::write(file, garbage).expect("a spoiled file");
        }
        let mut server = server.restart(|setup| setup);
        let answer = server.call("autocontext", json!({"resource_id": "acc_1"}), auth(json!({}))).text;
        assert!(answer.contains(r#"\"account\":\"acc_1\""#), "{garbage:?}: {answer}");
        server.call("autocontext", json!({}), auth(json!({})));
        let peek = server.call("peek", json!({}), Value::Null).text;
        assert!(peek.contains(r#"\"blocks\":3"#), "{garbage:?}: {peek}");
        server.finish_well();
    }
}
