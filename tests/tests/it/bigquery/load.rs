//! Loading: where it is allowed, whole, once, and never by guessing.

use serde_json::{Value, json};

use super::bench::{BigQuery, Bq, Google, PLENTY};

const TARGET: &str = "acp-sandbox.loads.new_table";

fn adding() -> Value {
    json!({"config": {"access_mode": "readAndOnlyAdd"}, "cost_limit_usd": PLENTY})
}

fn table(rows: usize) -> Value {
    let rows: Vec<Value> = (0..rows)
        .map(|index| {
            json!({"Día": format!("2026-09-{:02}", index % 28 + 1), "big": 9_007_199_254_740_993_i64 + index as i64, "price": 1.5,
                   "ok": index % 2 == 0, "at": "2026-09-01T10:00:00Z", "tags": ["a", "b"], "note": null})
        })
        .collect();
    json!({"headers": [
        {"name": "Día", "type": "date"}, {"name": "big", "type": "integer"}, {"name": "price", "type": "number"},
        {"name": "ok", "type": "boolean"}, {"name": "at", "type": "datetime"}, {"name": "tags", "type": "json"}, {"name": "note", "type": "string"},
    ], "format": "inline", "row_count": rows.len(), "table": rows})
}

/// Calls `load_rows` and hands over this table when it is asked for.
fn load(bq: &mut Bq, table: &Value, arguments: &Value, meta: &Value) -> super::bench::Answer {
    let mut arguments = arguments.clone();
    arguments["table_ref"] = json!("ds_1");
    arguments["resource_id"] = Value::Null;
    let id = bq.begin_call("load_rows", &arguments, meta);
    bq.hand_over(id, table);
    bq.answer(id, "load_rows", &arguments)
}

/// V-346, S-10.6-05: nothing is written unless a person allowed it.
#[test]
fn loading_is_off_unless_allowed() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let answer = load(&mut bq, &table(1), &json!({"destination": TARGET}), &json!({}));
    assert!(answer.refused(-32019).contains("access mode"));
    assert!(google.jobs().is_empty());
    // A rule opens one dataset.
    let rules =
        json!({"config": {"table_rules": r#"[{"pattern": "^acp-sandbox\\.loads\\.", "mode": "readAndOnlyAdd"}]"#}});
    load(&mut bq, &table(1), &json!({"destination": TARGET}), &rules).ok();
    load(&mut bq, &table(1), &json!({"destination": "acp-sandbox.loads_eu.x"}), &rules).refused(-32019);
    bq.end_well();
}

#[test]
fn rows_arrive_whole_typed_and_once() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let mut meta = adding();
    meta["call_id"] = json!("call-1");
    let arguments = json!({"destination": TARGET});
    let answer = load(&mut bq, &table(500), &arguments, &meta).ok().model();
    assert_eq!((&answer["loaded"], &answer["rows"]), (&json!(true), &json!(500)), "{answer}");
    let rows = bq.query(&format!("SELECT COUNT(*) AS n, MAX(big) AS big, MIN(D_a) AS day FROM `{TARGET}`")).ok().rows();
    assert_eq!(rows, [json!({"n": 500, "big": 9_007_199_254_740_993_i64 + 499, "day": "2026-09-01"})]);
    // The host repeats the call, since it did not get its answer: nothing is there twice.
    google.calm();
    let append = json!({"destination": TARGET, "mode": "append"});
    meta["call_id"] = json!("call-2");
    // The names of the columns are found again, as they were made.
    for _ in 0..2 {
        load(&mut bq, &table(3), &append, &meta).ok();
    }
    let count = bq.query(&format!("SELECT COUNT(*) AS n, 1 AS again FROM `{TARGET}`")).ok().rows();
    assert_eq!(count[0]["n"], 503);
    // A new table of that name is refused.
    load(&mut bq, &table(1), &arguments, &adding()).refused(-32017);
    bq.end_well();
}

/// What does not fit is listed before anything is sent.
#[test]
fn what_does_not_fit_is_listed_and_nothing_sent() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let rows = json!({"headers": [{"name": "a", "type": "string"}, {"name": "b", "type": "datetime"}], "format": "inline", "row_count": 3, "table": [
        {"a": "1", "b": "2026-09-01T10:00:00Z"}, {"a": "x", "b": "2026-09-01T10:00:00"}, {"a": "y", "b": "yesterday"}]});
    let arguments = json!({"destination": TARGET, "types": {"a": "INT64"}});
    let message = load(&mut bq, &rows, &arguments, &adding()).refused(-32017);
    for part in ["row 2, column \"a\"", "row 3, column \"a\"", "row 3, column \"b\"", "1 without"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(google.jobs().is_empty());
    bq.end_well();
}

#[test]
fn a_plan_loads_nothing() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let plan = load(&mut bq, &table(10), &json!({"destination": TARGET, "plan": true}), &json!({})).ok().model();
    assert_eq!((&plan["loaded"], &plan["would_load"], &plan["rows"]), (&json!(false), &json!(false), &json!(10)));
    assert!(plan["refused"].as_str().is_some_and(|text| text.contains("access_mode")), "{plan}");
    let kinds: Vec<&str> =
        plan["columns"].as_array().unwrap().iter().filter_map(|column| column["type"].as_str()).collect();
    assert_eq!(kinds, ["DATE", "INT64", "FLOAT64", "BOOL", "TIMESTAMP", "JSON", "STRING"]);
    assert!(google.jobs().is_empty());
    bq.end_well();
}

/// A confirmation that the settings want and the client can't ask for.
#[test]
fn without_a_person_to_ask_nothing_is_loaded() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let meta = json!({"config": {"access_mode": "readAndOnlyAdd", "confirm_loads": true}});
    let message = load(&mut bq, &table(1), &json!({"destination": TARGET}), &meta).refused(-32019);
    assert!(message.contains("confirmation"), "{message}");
    assert!(google.jobs().is_empty());
    bq.end_well();
}
