//! The session of 16.7, with the toy for a source.

use serde_json::json;

use super::{KEYS, Place, shop, source};
use crate::server::binary_of;

/// B-16.7-01, B-16.7-02, B-16.1-02, B-16.1-03, B-16.1-06, B-16.5-05, B-16.8-01: an extraction with a window, a tool of another
/// source that reads it by its id, and totals over all of it.
#[test]
fn extract_hand_over_and_add_up() {
    let place = Place::new(&json!({}));
    place.install("paid", "Paid", &binary_of("acp-toy"), &["--variant", "paid"]);
    place.install("copies", "Copies", &binary_of("acp-toy"), &["--variant", "nores"]);
    let mut sales = source("ventas", KEYS[0]);
    sales["acp"] = json!("paid");
    sales["row_limit"] = json!(5);
    place.write_sources(&json!({"sources": [sales, {"id": "copies", "acp": "copies"}]}).to_string());
    let mut bridge = place.start("session");

    // 1: dates are put into the text, resolved, and don't reach the connector as arguments.
    let arguments = json!({
        "query": "SELECT a, b FROM t WHERE d BETWEEN {{start_date}} AND {{end_date}} AND word IN (x, y, z)",
        "start_date": "2026-07-01", "end_date": "2026-09-28",
    });
    let seen = bridge.call("ventas__run_sql", arguments).ok();
    let model = seen.model();
    let total = model["total_rows"].as_u64().unwrap();
    assert_eq!((&model["returned_rows"], model["rows"].as_array().unwrap().len()), (&json!(5), 5));
    let dataset = seen.dataset();
    assert_eq!(
        seen.texts[1].split(" Query it").next().unwrap(),
        format!(
            "The full extraction was saved as dataset \"{dataset}\" in acp-data/{dataset}.csv. You saw 5 of {total} rows."
        )
    );
    let meta = bridge.meta(&dataset);
    assert!(meta["arguments"]["query"].as_str().unwrap().contains("BETWEEN 2026-07-01 AND 2026-09-28"), "{meta}");
    assert!(meta["arguments"].get("start_date").is_none());
    assert_eq!(bridge.csv(&dataset).lines().count() as u64, total + 1);

    // 2: a tool of another source gets the whole table by its id, in each of the three ways to write it.
    for reference in [dataset.clone(), format!("{dataset}.csv"), format!("acp-data/{dataset}.csv")] {
        let copied = bridge.call("copies__copy_table", json!({"table_ref": reference})).ok();
        assert_eq!(copied.model()["total_rows"], total);
        assert!(copied.dataset().starts_with("copies_copy_table_"));
    }
    for outside in ["../sources", "/etc/passwd", "..\\x", "C:\\x", "nothing_of_the_kind"] {
        let message = bridge.call("copies__copy_table", json!({"table_ref": outside})).error("ACP_TABLE_NOT_FOUND");
        assert!(message.contains("acp-data"), "{message}");
    }

    // 3: what the model saw was a part; the query counts all.
    let counted = bridge.query(&format!("SELECT COUNT(*) AS n, MIN(word) AS first FROM {dataset}"));
    assert_eq!(counted[0]["n"], total);
    bridge.end();
}

/// The window of 16.4: words for days are resolved, and a marker without a day, or an impossible one, is told.
#[test]
fn words_for_days_are_resolved() {
    let mut bridge = shop("days");
    let sql =
        |start: &str| json!({"query": "SELECT {{start_date}}, {{end_date}}", "start_date": start, "end_date": "today"});
    for start in ["7daysAgo", "yesterday", "today", "2026-01-31"] {
        bridge.call("shop__run_sql", sql(start)).ok();
    }
    for start in ["tomorrow", "2026-02-30", "31/01/2026", "Yesterday"] {
        let message = bridge.call("shop__run_sql", sql(start)).error("ACP_INVALID_ARGUMENTS");
        assert!(message.contains("start_date") && message.contains("NdaysAgo"), "{message}");
    }
    bridge.call("shop__run_sql", json!({"query": "SELECT {{start_date}}"})).error("ACP_INVALID_ARGUMENTS");
    bridge.end();
}

/// B-16.5-06: a picture is attached.
#[test]
fn pictures_are_attached() {
    let mut bridge = shop("pictures");
    let seen = bridge.call("shop__snap", json!({})).ok();
    assert_eq!(seen.pictures, 1, "{}", seen.line);
    bridge.end();
}

/// B-16.5-07: errors come as the connector words them; who can mend them is said beside.
#[test]
fn errors_say_who_can_mend_them() {
    let place = Place::new(&json!({"sources": [source("shop", KEYS[0]), {"id": "keyless", "acp": "toy"}]}));
    place.install("paid", "Paid", &binary_of("acp-toy"), &["--variant", "paid"]);
    place.write_sources(
        &json!({"sources": [source("shop", KEYS[0]), {"id": "keyless", "acp": "toy"}, {"id": "paid", "acp": "paid"}]})
            .to_string(),
    );
    let mut bridge = place.start("errors");
    for (tool, arguments, name, note) in [
        ("shop__boom", json!({"kind": "403auth"}), "ACP_CREDENTIALS_INVALID", Some("shop")),
        ("keyless__rows", json!({"resource_id": "acc_1", "n": 1}), "ACP_CREDENTIALS_MISSING", Some("keyless")),
        (
            "paid__run_sql",
            json!({"query": "SELECT 1 /* bytes=1099511627776 */"}),
            "ACP_COST_LIMIT_EXCEEDED",
            Some("paid"),
        ),
        ("shop__boom", json!({"kind": "404"}), "ACP_RESOURCE_NOT_FOUND", None),
        ("shop__boom", json!({"kind": "500"}), "ACP_UPSTREAM_ERROR", None),
        ("shop__boom", json!({"kind": "panic"}), "ACP_UPSTREAM_ERROR", None),
        ("shop__boom", json!({"kind": "echo"}), "ACP_UPSTREAM_ERROR", None),
    ] {
        let seen = bridge.call(tool, arguments);
        seen.error(name);
        assert!(seen.model()["error"]["code"].is_i64());
        match note {
            Some(source) => {
                assert!(seen.notes().contains("sources.json") && seen.notes().contains(source), "{}", seen.line);
            }
            None => assert_eq!(seen.texts.len(), 1, "{}", seen.line),
        }
    }
    let cost = bridge.call("paid__run_sql", json!({"query": "SELECT 1 /* bytes=1099511627776 */"})).model();
    assert_eq!(cost["error"]["data"]["limit_usd"], 0.0, "{cost}");
    bridge.end();
}
