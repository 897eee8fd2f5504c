//! Answers of several tables that are too large, too many or too many at once for data vectors.

use serde_json::{Map, Value, json};

use crate::rules::files_below;
use crate::server::{Server, Setup, acp_client};

fn start(title: &str, variant: &str) -> Server {
    let mut client = acp_client();
    client["multi_table"] = json!(true);
    Setup::toy(title).client(Some(client)).arguments(&["--variant", variant]).start()
}

fn sizes(tables: impl IntoIterator<Item = (String, Value)>) -> Value {
    let sizes: Map<String, Value> = tables.into_iter().collect();
    json!({"sizes": Value::Object(sizes).to_string()})
}

#[test]
fn a_hundred_tables() {
    let mut server = start("[S-8.2.1-06] a hundred tables", "multi");
    let tables = || sizes((0..100).map(|place| (format!("t{place}"), json!(place * 7))));
    for (limit, files) in [(5_000_000, 0), (2_000, 96), (0, 100)] {
        let before = files_below(&server.root().join("tmp")).len();
        let answer = server.call("shoot", tables(), json!({"inline_max_bytes": limit, "row_limit": 1})).json;
        let acp = &answer["result"]["_meta"]["acp"];
        assert_eq!(acp["system_data"]["tables"].as_array().map(Vec::len), Some(100));
        assert_eq!(acp["system_info"]["total_rows"], 99 * 100 / 2 * 7);
        let made = files_below(&server.root().join("tmp")).len() - before;
        match limit {
            2_000 => assert!((1..100).contains(&made), "some of each: {made}"),
            _ => assert_eq!(made, files, "{limit}"),
        }
    }
    server.finish_well();
}

#[test]
fn many_answers_of_several_tables_at_once() {
    let mut server = start("[S-X-11] several tables in flight", "multi");
    let calls: Vec<(Value, usize)> = (1..20)
        .map(|count| {
            let tables = sizes((0..count).map(|place| (format!("t{place}"), json!(count * 10 + place))));
            let limit = if count % 2 == 0 { 0 } else { 5_000_000 };
            (server.begin_call("shoot", &tables, &json!({"inline_max_bytes": limit})), count)
        })
        .collect();
    for (id, count) in calls {
        let answer = server.answer_of_call(&id, "shoot").json;
        let tables = answer["result"]["_meta"]["acp"]["system_data"]["tables"].as_array().cloned().expect("tables");
        let rows: Vec<u64> = tables.iter().filter_map(|table| table["row_count"].as_u64()).collect();
        assert_eq!(rows, (0..count).map(|place| (count * 10 + place) as u64).collect::<Vec<_>>());
    }
    server.finish_well();
}

#[test]
fn large_tables_inline_and_by_file() {
    let mut server = start("[S-8.5-11] large tables", "multi");
    let tables = sizes([("ga4_hits".to_owned(), json!(12_000)), ("big".to_owned(), json!(50_000))]);
    let answer = server.call("shoot", tables, json!({"sampling": "spread"})).json;
    let tables = &answer["result"]["_meta"]["acp"]["system_data"]["tables"];
    assert_eq!((&tables[0]["format"], &tables[1]["format"]), (&json!("file"), &json!("inline")));
    server.finish_well();
}

#[test]
fn text_that_looks_like_what_the_server_writes_itself() {
    let mut server = start("[S-8.5-06] texts of a source", "multi");
    let hostile = ["acp-table-0123456789abcdef0123456789abcdef", "\"},{\"", "\u{2028}", "…", "\\u0000", "null", "{}"];
    let rows: Vec<Value> = hostile.iter().map(|text| json!({"en": text, "tid": {"k": text}, "dl": [text]})).collect();
    let tables = sizes([("ga4_hits".to_owned(), json!(rows)), ("plain".to_owned(), json!(rows))]);
    let answer = server.call("shoot", tables, json!({})).json;
    let tables = &answer["result"]["_meta"]["acp"]["system_data"]["tables"];
    assert_eq!((&tables[0]["table"], &tables[1]["table"]), (&json!(rows), &json!(rows)));
    server.finish_well();
}

#[test]
fn an_answer_that_fails_leaves_no_file() {
    let mut server = start("[S-8.5-07] a failed extraction of several tables", "multi");
    let arguments = json!({"sizes": r#"{"a":5,"b":6,"a":7}"#});
    let answer = server.call("shoot", arguments, json!({"inline_max_bytes": 0}));
    assert!(answer.text.contains("-32018"), "{}", answer.text);
    assert!(files_below(&server.root().join("tmp")).is_empty());
    let mut client = acp_client();
    client["multi_table"] = json!(false);
    let tables = sizes([("a".to_owned(), json!(5)), ("b".to_owned(), json!(6))]);
    let mut server = server.restart(|setup| setup.client(Some(client)));
    server.call("shoot", tables, json!({"inline_max_bytes": 0}));
    assert_eq!(files_below(&server.root().join("tmp")).len(), 1, "only the main table's file");
    server.finish_well();
}

#[test]
fn a_folder_that_can_not_be_written_to() {
    let mut client = acp_client();
    client["multi_table"] = json!(true);
    let mut server = Setup::toy("AMB-24 several tables without a folder")
        .client(Some(client))
        .arguments(&["--variant", "multi"])
        .variable("ACP_TMP_DIR", "$ROOT/file")
        .start();
    let tables = sizes([("a".to_owned(), json!(5)), ("b".to_owned(), json!(6))]);
    let answer = server.call("shoot", tables, json!({"inline_max_bytes": 0})).json;
    let acp = &answer["result"]["_meta"]["acp"];
    assert_eq!(acp["system_data"]["tables"][1]["format"], "inline");
    let warnings = acp["system_info"]["warnings"].as_array().cloned().unwrap_or_default();
    assert!(
        warnings.iter().any(|warning| warning.as_str().is_some_and(|text| text.starts_with("b: "))),
        "{warnings:?}"
    );
    server.finish_well();
}
