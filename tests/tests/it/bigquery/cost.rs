//! The cost rule can't be broken: the sandbox's ledger is the judge.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::bench::{ANALYTICS, BigQuery, Bq, Google};

const TIB: f64 = (1_u64 << 40) as f64;

fn usd(bytes: i64, price: f64) -> f64 {
    bytes as f64 / TIB * price
}

/// S-9.2-01, S-9.2-03, V-343: over the limit nothing is inserted but the dry run, and the numbers say why.
#[test]
fn over_the_limit_nothing_runs() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let sql = format!("SELECT event_name, COUNT(*) AS n FROM `{ANALYTICS}.events_*` GROUP BY 1");
    let answer = bq.query_with(&sql, &json!({"cost_limit_usd": 0.000001}));
    let message = answer.refused(-32010);
    assert!(message.starts_with("The query would cost about $") && message.contains("Narrow the query"), "{message}");
    let data = &answer.acp()["error"]["data"];
    let bytes = data["total_bytes_processed"].as_i64().expect("bytes");
    assert!(bytes > 0);
    assert_eq!(data["price_per_tib_usd"], 6.25);
    assert_eq!(data["statement_type"], "SELECT");
    assert!((data["estimate_usd"].as_f64().unwrap() - usd(bytes, 6.25)).abs() < 1e-5, "{data}");
    assert_eq!(data["limit_usd"], 0.000001);
    assert_eq!(answer.info()["cost_actual_usd"], 0);
    assert!(google.jobs().is_empty() && google.dry_runs().len() == 1);
    bq.end_well();
}

/// V-344, S-9.2-05: the cap comes from the limit, not from the estimate.
#[test]
fn the_cap_is_the_limit() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let answer = bq.query_with("SELECT city FROM order_lines", &json!({"cost_limit_usd": 1})).ok();
    let jobs = google.jobs();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].maximum_bytes_billed, Some(175_921_860_444));
    let source = &answer.info()["source"];
    for field in ["job_id", "location", "total_bytes_billed"] {
        assert!(!source[field].is_null(), "{source}");
    }
    assert_eq!(source["total_bytes_billed"], jobs[0].bytes_billed);
    let extra = &answer.model()["extra"];
    assert!(extra["bytes_processed"].is_u64() && extra["cache_hit"] == false, "{extra}");
    assert!((answer.info()["cost_actual_usd"].as_f64().unwrap() - usd(jobs[0].bytes_billed, 6.25)).abs() < 1e-6);
    assert_eq!(jobs[0].labels["acp_tool"], "execute_query");
    bq.end_well();
}

/// S-9.2-07: 0 lets through what costs nothing, and never as "no cap".
#[test]
fn a_limit_of_zero_runs_what_is_free() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    bq.query_with("SELECT 1 AS one", &json!({"cost_limit_usd": 0})).ok();
    assert_eq!(google.jobs()[0].maximum_bytes_billed, Some(1));
    let message = bq.query_with("SELECT city FROM order_lines", &json!({"cost_limit_usd": 0})).refused(-32010);
    assert!(message.contains("limit is $0.00"), "{message}");
    assert_eq!(google.jobs().len(), 1);
    bq.end_well();
}

/// Small queries are billed with 10 MiB for a table: a limit between the two is refused before, not by Google.
#[test]
fn what_is_billed_at_least_counts() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let answer = bq.query_with("SELECT city FROM order_lines", &json!({"cost_limit_usd": 0.00001}));
    let message = answer.refused(-32010);
    assert!(message.contains("at least 10 MB"), "{message}");
    assert!(google.jobs().is_empty());
    bq.end_well();
}

/// What can't be estimated is refused, and with a person's permission only capped.
#[test]
fn what_can_not_be_estimated_is_refused_or_capped() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (table, reason) in [("access_logs", "external"), ("salaries", "row_level_security")] {
        let sql = format!("SELECT * FROM {table}");
        let answer = bq.query_with(&sql, &json!({"cost_limit_usd": 5}));
        let message = answer.refused(-32010);
        assert!(message.contains("can't be known"), "{message}");
        assert_eq!(answer.acp()["error"]["data"]["unestimable"], json!([reason]), "{table}");
    }
    assert!(google.jobs().is_empty());
    let allowed = json!({"cost_limit_usd": 5, "config": {"allow_unestimated": true}});
    let answer = bq.query_with("SELECT name FROM salaries", &allowed).ok();
    assert!(answer.warnings().iter().any(|warning| warning.contains("capped at $5.00")), "{:?}", answer.warnings());
    let cap = google.jobs()[0].maximum_bytes_billed.expect("a cap");
    assert!(usd(cap, 6.25) <= 5.0 && cap > 1 << 39);
    bq.end_well();
}

/// Functions whose cost is elsewhere are refused by name.
#[test]
fn what_costs_elsewhere_is_refused() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let meta = json!({"cost_limit_usd": 5});
    for (sql, part) in [
        ("SELECT * FROM EXTERNAL_QUERY('p.eu.c', 'DELETE FROM x')", "EXTERNAL_QUERY"),
        ("SELECT AI.GENERATE('hi')", "AI.GENERATE"),
        ("SELECT `AI.GENERATE`('hi')", "AI.GENERATE"),
        ("SELECT * FROM ML.GENERATE_TEXT(MODEL d.m, TABLE d.t)", "ML.GENERATE_TEXT"),
        ("SELECT warehouse.classify(city) FROM order_lines", "PYTHON"),
    ] {
        let message = bq.query_with(sql, &meta).refused(-32010);
        assert!(message.contains(part) && message.contains("no limit would hold"), "{message}");
    }
    assert!(google.jobs().is_empty());
    bq.end_well();
}

/// A limit for a whole conversation, which queries at the same time can't get around.
#[test]
fn a_conversation_has_a_limit_of_its_own() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    // Each query is billed with 10 MiB: about 0.00006 USD.
    let meta = |conversation: &str| json!({"cost_limit_usd": 1, "conversation_id": conversation, "config": {"session_cost_limit_usd": 0.00013}});
    for number in 0..2 {
        bq.query_with(&format!("SELECT city, {number} AS n FROM order_lines"), &meta("a")).ok();
    }
    let message = bq.query_with("SELECT city, 3 AS n FROM order_lines", &meta("a")).refused(-32010);
    assert!(message.contains("This conversation has spent"), "{message}");
    // What is free stays free, and other conversations have their own.
    bq.query_with("SELECT city, 0 AS n FROM order_lines WHERE FALSE AND 1 = 2", &meta("b")).ok();
    assert_eq!(google.jobs().len(), 3);
    bq.end_well();
}

#[derive(Clone, Debug)]
struct Case {
    limit: f64,
    price: f64,
    bytes: i64,
    accuracy: Option<&'static str>,
    /// What is read in the end, however wrong the estimate was.
    processed: i64,
    tables: usize,
    allow_unestimated: bool,
}

fn any_case() -> impl Strategy<Value = Case> {
    let amount = || prop_oneof![Just(0.0), 1e-9_f64..1e-3, 1e-3_f64..1.0, 1.0_f64..1e4];
    let bytes = || prop_oneof![Just(0_i64), 1_i64..100_000_000, 1_i64..(1 << 40), 1_i64..(1 << 50)];
    let accuracy =
        prop::sample::select(vec![Some("PRECISE"), Some("UPPER_BOUND"), Some("LOWER_BOUND"), Some("UNKNOWN"), None]);
    (amount(), 0.01_f64..100.0, bytes(), accuracy, bytes(), 1_usize..4, any::<bool>()).prop_map(
        |(limit, price, bytes, accuracy, processed, tables, allow_unestimated)| Case {
            limit,
            price,
            bytes,
            accuracy,
            processed,
            tables,
            allow_unestimated,
        },
    )
}

/// Random limits, prices, estimates, accuracies and numbers of tables, and answers that read more than was estimated: no
/// job is inserted that could bill more than the limit, and none is billed more.
#[test]
fn no_job_can_bill_more_than_the_limit() {
    let google = Google::start();
    let bq = std::cell::RefCell::new(Bq::start(&google));
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let tables = ["customers", "order_lines", "empty_table"];
    let ran = std::cell::Cell::new(0);
    let count = std::cell::Cell::new(0);
    runner
        .run(&any_case(), |case| {
            google.sandbox().bigquery().clear_jobs();
            google.switch(
                &json!({"estimate": {"bytes": case.bytes, "accuracy": case.accuracy.unwrap_or(""), "processed": case.processed}}),
            );
            count.set(count.get() + 1);
            let from = tables[..case.tables].iter().map(|table| format!("(SELECT COUNT(*) FROM {table})"));
            let sql = format!("SELECT {} AS c{}", from.collect::<Vec<_>>().join(" + "), count.get());
            let meta = json!({"cost_limit_usd": case.limit, "config": {
                "price_per_tib_usd": case.price, "allow_unestimated": case.allow_unestimated}});
            let answer = bq.borrow_mut().query_with(&sql, &meta);
            let jobs = google.jobs();
            let estimable = matches!(case.accuracy, Some("PRECISE" | "UPPER_BOUND"));
            let fits = usd(case.bytes, case.price) <= case.limit;
            for job in &jobs {
                let cap = job.maximum_bytes_billed.expect("a cap");
                prop_assert!(cap >= 1, "0 is no cap");
                prop_assert!(cap == 1 || usd(cap, case.price) <= case.limit, "{job:?}");
                prop_assert!(usd(job.bytes_billed, case.price) <= case.limit, "{job:?}");
                prop_assert!(if estimable { fits } else { case.allow_unestimated }, "{job:?}");
            }
            match answer.error() {
                None => ran.set(ran.get() + 1),
                Some((code, message)) => prop_assert!(code == -32010, "{code} {message}"),
            }
            Ok(())
        })
        .unwrap_or_else(|why| panic!("{why}"));
    assert!(ran.get() > 10, "only {} of the cases ran at all", ran.get());
    bq.into_inner().end_well();
}

/// Only `cost_limit_usd` of the host counts: the model has no argument that touches money.
#[test]
fn the_model_can_not_change_a_limit() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for name in
        ["cost_limit_usd", "maximum_bytes_billed", "maximumBytesBilled", "price_per_tib_usd", "allow_unestimated"]
    {
        let mut arguments = json!({"query": "SELECT city FROM order_lines"});
        arguments[name] = json!(1_000_000);
        bq.call("execute_query", &arguments, &json!({"cost_limit_usd": 0})).refused(-32017);
    }
    let tools = bq.request("tools/list", &Value::Null).json["result"]["tools"].to_string();
    assert!(!tools.contains("billed\":") && !tools.contains("cost_limit_usd\":"));
    assert!(google.jobs().is_empty());
    bq.end_well();
}
