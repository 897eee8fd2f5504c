//! Queries as people ask them: whole, typed, with dates, parameters, limits and errors that help.

use serde_json::{Value, json};

use super::bench::{ANALYTICS, BigQuery, Bq, Google, PLENTY, WAREHOUSE};

fn spend() -> Value {
    json!({"cost_limit_usd": PLENTY})
}

/// V-345: a write is refused with the specification's own sentence.
#[test]
fn a_delete_is_refused_as_in_the_specification() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let message = bq.query("DELETE FROM `mi-proyecto.analytics_123.tmp` WHERE true").refused(-32019);
    assert_eq!(message, "This ACP is read-only: only SELECT statements are executed (the query is DELETE).");
    bq.end_well();
}

/// V-349, S-8.2-04: the days of a query are those that it names.
#[test]
fn the_days_of_the_sql_are_the_days_of_the_answer() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let sql = format!(
        "SELECT COUNT(*) AS n FROM `{ANALYTICS}.events_*` WHERE _TABLE_SUFFIX BETWEEN '20260901' AND '20260907'"
    );
    let answer = bq.query(&sql).ok();
    assert_eq!(answer.model()["dates"], json!(["2026-09-01", "2026-09-07"]));
    bq.end_well();
}

#[test]
fn a_large_result_is_whole_in_order_and_by_pages() {
    let google = Google::start();
    google.switch(&json!({"page_bytes": 100_000}));
    let mut bq = Bq::start(&google);
    let answer = bq.query("SELECT * FROM bulk_100k LIMIT 20000").ok();
    let rows = answer.rows();
    assert_eq!(rows.len(), 20_000);
    assert!(google.asked("/queries").len() < 2, "rows come by getQueryResults");
    let asked = google.sandbox().log().into_iter().filter(|request| request.path.contains("/queries/")).count();
    assert!(asked > 10, "{asked} pages");
    assert_eq!(answer.data()["row_count"], 20_000);
    bq.end_well();
}

#[test]
fn a_limit_stops_the_reading_and_says_so() {
    let google = Google::start();
    google.switch(&json!({"page_bytes": 100_000}));
    let mut bq = Bq::start(&google);
    let arguments = json!({"query": "SELECT * FROM bulk_100k", "limit": 1_500});
    let answer = bq.call("execute_query", &arguments, &spend()).ok();
    assert_eq!(answer.data()["row_count"], 1_500);
    assert_eq!(answer.model()["extra"]["rows_in_the_result"], 100_000);
    assert!(answer.warnings().iter().any(|warning| warning.contains("1500 of 100000")), "{:?}", answer.warnings());
    bq.end_well();
}

#[test]
fn parameters_are_typed_and_missing_ones_named() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let sql = "SELECT @word AS word, @number + 1 AS number, ARRAY_LENGTH(@list) AS items, @day AS day";
    let params =
        json!({"word": "á\"'", "number": 41, "list": ["a", "b"], "day": {"type": "DATE", "value": "2026-09-01"}});
    let answer = bq.call("execute_query", &json!({"query": sql, "params": params}), &spend()).ok();
    assert_eq!(answer.rows(), [json!({"word": "á\"'", "number": 42, "items": 2, "day": "2026-09-01"})]);
    assert_eq!(answer.header("day")["type"], "date");
    let message = bq.query("SELECT * FROM order_lines WHERE city = @city").refused(-32017);
    assert!(message.contains("city") && message.contains("params"), "{message}");
    bq.end_well();
}

/// Errors say where, show the place, and offer names.
#[test]
fn errors_of_sql_help() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let answer = bq.query("SELECT\n  citty\nFROM order_lines");
    let message = answer.refused(-32017);
    assert!(message.contains("(line 2, column 3)") && message.contains("\n  citty\n  ^"), "{message}");
    assert!(message.contains("city"), "{message}");
    assert_eq!(
        (&answer.acp()["error"]["data"]["line"], &answer.acp()["error"]["data"]["column"]),
        (&json!(2), &json!(3))
    );
    let message = bq.query("SELECT 1 FROM order_linez").refused(-32014);
    assert!(message.contains("order_lines"), "{message}");
    let message = bq.query(&format!("SELECT 1 FROM `{WAREHOUSE}x.t`")).refused(-32014);
    assert!(message.contains("warehousex"), "{message}");
    // A required filter, with what to do.
    let message = bq.query("SELECT city FROM orders").refused(-32017);
    assert!(message.contains("without a filter") && message.contains("days written out"), "{message}");
    bq.end_well();
}

#[test]
fn the_location_is_found_and_healed_once() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    // The resource is in the US, the data in the EU.
    let sql = format!("SELECT COUNT(*) AS n FROM `{ANALYTICS}.events_20261101`");
    let answer = bq.query(&sql).ok();
    assert_eq!(answer.info()["source"]["location"], "EU");
    // Data in two places.
    let sql = format!("SELECT COUNT(*) AS n FROM order_lines CROSS JOIN `{ANALYTICS}.events_20261101`");
    let message = bq.query(&sql).refused(-32017);
    assert!(
        message.contains("EU") && message.contains("US") && message.contains("one location at a time"),
        "{message}"
    );
    // A person set the wrong one.
    let meta = json!({"cost_limit_usd": PLENTY, "config": {"location": "asia-east1"}});
    let answer = bq.query_with("SELECT city FROM order_lines LIMIT 1", &meta).ok();
    assert_eq!(answer.info()["source"]["location"], "US");
    bq.end_well();
}

/// What people do not may read is named, with the way around it.
#[test]
fn columns_can_be_denied() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let denying = json!({"cost_limit_usd": PLENTY, "config": {"denied_columns": "^(city|email)$"}});
    for sql in
        ["SELECT city FROM order_lines", "SELECT * FROM order_lines", "SELECT MIN(t.city) AS x FROM order_lines AS t"]
    {
        let message = bq.query_with(sql, &denying).refused(-32019);
        assert!(message.contains("EXCEPT(city)"), "{message}");
    }
    bq.query_with("SELECT * EXCEPT(city) FROM order_lines", &denying).refused(-32019);
    bq.query_with("SELECT day FROM order_lines", &denying).ok();
    assert_eq!(google.jobs().len(), 1);
    let message = bq.query_with("SELECT 1", &json!({"config": {"denied_columns": "("}})).refused(-32017);
    assert!(message.contains("denied_columns"), "{message}");
    bq.end_well();
}

/// A repeated query is a new job; BigQuery's cache makes it free, and the answer says so.
#[test]
fn a_repeated_query_is_a_new_job_and_free() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let first = bq.query("SELECT city FROM order_lines").ok();
    let second = bq.query("SELECT city FROM order_lines").ok();
    assert_ne!(first.info()["source"]["job_id"], second.info()["source"]["job_id"]);
    assert_eq!(second.model()["extra"]["cache_hit"], true);
    assert_eq!(second.info()["cost_actual_usd"], 0);
    bq.end_well();
}

/// S-9.2-06: under a reservation nobody pays for bytes.
#[test]
fn the_cost_under_a_reservation_is_not_known() {
    let google = Google::start();
    google.switch(&json!({"reservation": "projects/acp-sandbox/locations/US/reservations/team"}));
    let mut bq = Bq::start(&google);
    let answer = bq.query("SELECT city FROM order_lines").ok();
    assert_eq!(answer.info()["cost_actual_usd"], Value::Null);
    assert!(answer.info()["source"]["reservation"].as_str().is_some_and(|name| name.ends_with("team")));
    bq.end_well();
}

#[test]
fn validation_has_the_fields_of_the_specification() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let sql = format!(
        "SELECT event_name, COUNT(*) AS n FROM `{ANALYTICS}.events_*` WHERE _TABLE_SUFFIX BETWEEN '20261001' AND '20261031' GROUP BY 1"
    );
    let answer = bq.call("validate_query", &json!({"query": sql}), &json!({"cost_limit_usd": 0.00001})).ok();
    let model = answer.model();
    assert_eq!(
        (&model["valid"], &model["statement_type"], &model["read_only"]),
        (&json!(true), &json!("SELECT"), &json!(true))
    );
    assert_eq!(model["within_cost_limit"], false);
    assert_eq!(model["would_run"], false);
    let bytes = model["total_bytes_processed"].as_f64().expect("bytes");
    assert!((model["estimated_cost_usd"].as_f64().unwrap() - bytes / (1_u64 << 40) as f64 * 6.25).abs() < 1e-6);
    assert!(model["human_bytes"].as_str().is_some_and(|text| text.ends_with('B')));
    assert_eq!(
        model["result_schema"],
        json!([{"name": "event_name", "type": "STRING"}, {"name": "n", "type": "INTEGER"}])
    );
    assert!(model["referenced_tables"].to_string().contains("events_"), "{model}");
    let windows = model["windows"].as_array().expect("windows");
    let bytes: Vec<i64> = windows.iter().filter_map(|window| window["total_bytes_processed"].as_i64()).collect();
    assert!(bytes.len() == 3 && bytes.is_sorted() && bytes[0] < bytes[2], "{windows:?}");
    assert_eq!(answer.info()["cost_estimate_usd"], 0, "asking is free");
    assert!(google.jobs().is_empty());
    // What is not valid is an answer, with the reason.
    let wrong = bq.call("validate_query", &json!({"query": "SELECT nope FROM order_lines"}), &spend()).ok().model();
    assert!(wrong["valid"] == false && wrong["problem"].as_str().is_some_and(|text| text.contains("nope")), "{wrong}");
    let write = bq.call("validate_query", &json!({"query": "DROP TABLE t"}), &spend()).ok().model();
    assert!(write["valid"] == false && write["read_only"] == false, "{write}");
    bq.end_well();
}
