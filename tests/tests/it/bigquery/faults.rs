//! What goes wrong at BigQuery alone; what can go wrong at any API of Google's is in [`crate::google::faults`].
//!
//! Every failure has its code, says what to do, comes soon and after few tries, and tells what it cost: the ledger of the
//! sandbox is the judge of that.

use std::ops::RangeInclusive;
use std::time::Instant;

use serde_json::{Value, json};

use super::bench::{Answer, BigQuery, Bq, Google, PLENTY};
use crate::google::faults::{Outcome, case, error, run, write_down};
use crate::google::source::{BIGQUERY, listed_error, status};
use crate::server::clip;

const LINES: &str = "SELECT city FROM order_lines";
/// USD for a TiB, unless the settings say otherwise.
const PRICE: f64 = 6.25;

/// A failure that waits for jobs, and what must come of it.
struct Trial {
    name: &'static str,
    switches: Value,
    sql: &'static str,
    config: Value,
    code: i64,
    words: Vec<&'static str>,
    /// Insertions, and dry runs that are refused.
    inserted: RangeInclusive<usize>,
}

fn trial(name: &'static str, switches: Value, code: i64, words: &[&'static str]) -> Trial {
    Trial { name, switches, sql: LINES, config: json!({}), code, words: words.to_vec(), inserted: 1..=1 }
}

/// A reason that all jobs fail with, where they are inserted or when they have run.
fn refuse(reason: &str, at: &str) -> Value {
    json!({"refuse": {"reason": reason, "times": 99, "at": at}})
}

/// Requests that insert jobs, without the dry runs that went well.
fn insertions(google: &Google) -> usize {
    let log = google.sandbox().log();
    let posted = log.iter().filter(|request| request.method == "POST" && request.path.ends_with("/jobs")).count();
    posted - google.dry_runs().len()
}

fn looks_at_results(google: &Google) -> usize {
    google.sandbox().log().iter().filter(|request| request.path.contains("/queries/")).count()
}

/// What an answer says its call cost is what the ledger says.
#[track_caller]
fn assert_cost(answer: &Answer, google: &Google, name: &str) {
    let billed: i64 = google.jobs().iter().map(|job| job.bytes_billed).sum();
    let cost = answer.info()["cost_actual_usd"].as_f64().unwrap_or_else(|| panic!("{name}: no cost: {}", answer.text));
    let paid = billed as f64 / (1_u64 << 40) as f64 * PRICE;
    assert!((cost - paid).abs() < 1e-6, "{name}: {cost}, and {billed} bytes were billed");
}

#[test]
fn what_bigquery_refuses_comes_with_its_reason_and_advice() {
    let quota = ["quota", "Do not try again soon", "the project acp-sandbox"];
    let trials = [
        trial("a free quota", refuse("quotaExceeded", "insert"), -32018, &quota),
        trial("a quota of one's own", refuse("usageQuotaExceeded", "insert"), -32018, &quota),
        trial("a quota, as a job", refuse("quotaExceeded", "job"), -32018, &quota),
        Trial {
            inserted: 2..=2,
            ..trial("too fast, as a job", refuse("jobRateLimitExceeded", "job"), -32018, &["in a minute"])
        },
        trial("no billing", refuse("billingNotEnabled", "insert"), -32018, &["no billing account", "billing_project"]),
        trial("no billing, as a job", refuse("billingNotEnabled", "job"), -32018, &["no billing account"]),
        trial("blocked", refuse("blocked", "insert"), -32018, &["support"]),
        trial("too large", refuse("responseTooLarge", "job"), -32018, &["Leave out ORDER BY"]),
        trial("too heavy", refuse("resourcesExceeded", "job"), -32018, &["too heavy", "Filter before joining"]),
        trial("too heavy, at once", refuse("resourcesExceeded", "insert"), -32018, &["too heavy"]),
        trial("too much work", refuse("billingTierLimitExceeded", "job"), -32018, &["too heavy"]),
        trial("not now", refuse("tableUnavailable", "job"), -32018, &["in some minutes"]),
        trial("too long", refuse("timeout", "job"), -32018, &["timeout_s"]),
        trial("stopped by somebody", refuse("stopped", "job"), -32018, &["was cancelled"]),
        trial("not built", refuse("notImplemented", "job"), -32017, &["in another way"]),
        trial("no right, as a job", refuse("accessDenied", "job"), -32014, &["reports-full@", "Data Viewer"]),
        Trial {
            inserted: 2..=2,
            ..trial("inside, always", refuse("jobInternalError", "job"), -32018, &["make the query simpler"])
        },
        Trial {
            config: json!({"billing_project": "nordwind-data"}),
            inserted: 1..=1,
            ..trial("no jobs.create", json!({}), -32012, &["nordwind-data", "roles/bigquery.jobUser", "reports-full@"])
        },
        Trial {
            sql: "SELECT * FROM targets_sheet",
            inserted: 1..=1,
            ..trial("a sheet", json!({}), -32014, &["Google Drive", "share the file with reports-full@"])
        },
        Trial {
            sql: "SELECT * FROM people",
            inserted: 1..=1,
            ..trial("a policy tag", json!({}), -32014, &["policy tag", "EXCEPT(salary)"])
        },
        Trial {
            sql: "SELECT * FROM salaries",
            inserted: 0..=0,
            ..trial("row access policies", json!({}), -32010, &["row-level security hides", "allow"])
        },
        Trial {
            sql: "SELECT * FROM `acp-sandbox.restricted.customers`",
            inserted: 1..=1,
            ..trial("perhaps it is not there", json!({}), -32014, &["or it does not exist", "Check the name"])
        },
        Trial {
            sql: "SELECT warehouse.remote_score(1.0)",
            inserted: 0..=0,
            ..trial("a remote function", json!({}), -32010, &["remote function acp-sandbox.warehouse.remote_score"])
        },
        Trial {
            sql: "SELECT warehouse.classify('x')",
            inserted: 0..=0,
            ..trial("a Python function", json!({}), -32010, &["PYTHON function", "charged where it runs"])
        },
        Trial {
            sql: "SELECT warehouse.add_tax(1.0)",
            config: json!({"allow_routines": "none"}),
            inserted: 0..=0,
            ..trial("any function", json!({}), -32010, &["acp-sandbox.warehouse.add_tax"])
        },
        Trial {
            sql: "SELECT COUNT(*) AS n FROM order_lines CROSS JOIN `acp-sandbox.analytics_310000001.events_20261130`",
            inserted: 2..=2,
            ..trial("two regions", json!({}), -32017, &["in EU", "in US", "one location at a time"])
        },
    ];
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let mut wrong = Vec::new();
    for Trial { name, switches, sql, config, code, words, inserted } in trials {
        google.calm();
        google.sandbox().bigquery().clear();
        google.sandbox().bigquery().clear_jobs();
        google.switch(&switches);
        let meta = json!({"cost_limit_usd": PLENTY, "config": config, "inline_max_bytes": 0});
        let started = Instant::now();
        let answer = bq.query_with(sql, &meta);
        write_down("bigquery", &format!("job: {name}"), &answer, insertions(&google), started.elapsed());
        match answer.error() {
            Some((found, message)) if found == code && words.iter().all(|word| message.contains(word)) => {
                if !message.ends_with('.') {
                    wrong.push(format!("{name}: {message}"));
                }
            }
            other => wrong.push(format!("{name}: {other:?}, expected {code} with {words:?}: {}", clip(&answer.text))),
        }
        let found = insertions(&google);
        if !inserted.contains(&found) {
            wrong.push(format!("{name}: {found} insertions, expected {inserted:?}"));
        }
        assert_cost(&answer, &google, name);
        assert!(bq.files("tmp").is_empty(), "{name}");
    }
    google.sandbox().bigquery().clear();
    bq.query(LINES).ok();
    assert!(wrong.is_empty(), "{} problems:\n{}", wrong.len(), wrong.join("\n"));
    bq.end_well();
}

/// What passes by itself is tried again: the insertion under the same id, a job that failed under another.
#[test]
fn what_passes_by_itself_is_tried_again() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (number, (reason, at, jobs)) in [
        ("rateLimitExceeded", "insert", 1),
        ("jobRateLimitExceeded", "insert", 1),
        ("backendError", "insert", 1),
        ("internalError", "insert", 1),
        ("jobRateLimitExceeded", "job", 2),
        ("jobBackendError", "job", 2),
    ]
    .into_iter()
    .enumerate()
    {
        google.sandbox().bigquery().clear_jobs();
        google.switch(&json!({"refuse": {"reason": reason, "times": 1, "at": at}}));
        let answer = bq.query(&format!("SELECT city, {number} AS n FROM order_lines")).ok();
        assert_eq!((google.jobs().len(), &answer.data()["row_count"]), (jobs, &json!(1200)), "{reason}, {at}");
        assert_cost(&answer, &google, reason);
    }
    bq.end_well();
}

/// The project lets queries read far away, which copies data and costs extra: refused, and nothing runs.
#[test]
fn queries_over_regions_are_refused() {
    let google = Google::start();
    google.switch(&json!({"global_queries": true}));
    let mut bq = Bq::start(&google);
    let last = google.facts()["bigquery"]["ga4_export"]["last"].as_str().expect("a day").replace('-', "");
    let sql = format!(
        "SELECT COUNT(*) AS n FROM order_lines AS l JOIN `acp-sandbox.analytics_310000001.events_{last}` AS e ON l.city = e.event_name"
    );
    let message = bq.query(&sql).refused(-32017);
    assert!(message.contains("between regions") && message.contains("one region at a time"), "{message}");
    assert!(google.jobs().is_empty());
    bq.end_well();
}

/// Rows that a policy hides: the answer says that no rows does not mean no data.
#[test]
fn hidden_rows_are_told() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let allowed = json!({"cost_limit_usd": PLENTY, "config": {"allow_unestimated": true}});
    let answer = bq.query_with("SELECT name FROM salaries WHERE city = 'Paris'", &allowed).ok();
    assert_eq!(answer.data()["row_count"], 0);
    assert!(answer.warnings().iter().any(|warning| warning.contains("Row access policies")), "{:?}", answer.warnings());
    // How much was read is hidden, so what it cost is not known, and not said to be nothing.
    assert_eq!(answer.info()["cost_actual_usd"], Value::Null);
    bq.end_well();
}

/// Pages of getQueryResults as they should not be: whatever is not the whole result is an error that names the job.
#[test]
fn pages_that_do_not_make_a_whole_are_never_a_table() {
    let changed = |rows, count, change: &dyn Fn(&mut Value)| {
        let mut page = (BIGQUERY.page)(rows, count);
        change(&mut page);
        status(200, &page.to_string())
    };
    let plain = |rows, count| changed(rows, count, &|_| {});
    let first = |action: Value| vec![BIGQUERY.on_rows(1, 1, &action)];
    let both = |one: Value, two: Value| vec![BIGQUERY.on_rows(1, 1, &one), BIGQUERY.on_rows(2, 1, &two)];
    let failed = |words: &[&'static str]| error(-32018, &[words, &["get_job"]].concat());
    let running = status(200, &json!({"kind": "bigquery#getQueryResultsResponse", "jobComplete": false}).to_string());
    run(
        &BIGQUERY,
        &[
            case(
                "fewer rows than announced",
                first(changed(0..2, 2, &|page| page["totalRows"] = json!("4"))),
                failed(&["announced 4 rows and sent 2"]),
                1..=1,
            ),
            case(
                "more rows than announced",
                first(changed(0..4, 4, &|page| page["totalRows"] = json!("2"))),
                failed(&["not complete"]),
                1..=1,
            ),
            case(
                "no total",
                first(changed(0..2, 2, &|page| page["totalRows"] = Value::Null)),
                failed(&["how many rows"]),
                1..=1,
            ),
            case("another total on page 2", both(plain(0..2, 4), plain(2..4, 5)), failed(&["changed"]), 2..=3),
            case("a page without rows in the middle", both(plain(0..0, 2), plain(0..2, 2)), Outcome::MadeUp(2), 2..=2),
            case(
                "no schema",
                first(changed(0..2, 2, &|page| page["schema"] = Value::Null)),
                failed(&["no schema"]),
                1..=1,
            ),
            case(
                "an answer of another kind",
                first(changed(0..2, 2, &|page| page["kind"] = json!("bigquery#job"))),
                error(-32018, &[]),
                1..=1,
            ),
            case(
                "a row that lacks a cell",
                first(changed(0..2, 2, &|page| page["rows"][1] = json!({"f": [{"v": "x"}]}))),
                error(-32018, &["form of its schema"]),
                1..=1,
            ),
            case("a job that still runs, twice", vec![BIGQUERY.on_rows(1, 2, &running)], Outcome::Real, 3..=3),
            case(
                "a 500 that is about money",
                vec![BIGQUERY.on_rows(
                    1,
                    99,
                    &listed_error(
                        500,
                        "bytesBilledLimitExceeded",
                        "Query exceeded limit for bytes billed: 1. 2 or higher required.",
                    ),
                )],
                error(-32018, &["get_job"]),
                1..=1,
            ),
        ],
    );
}

/// The cap, as BigQuery words it, with the price that a person set; not tried again.
#[test]
fn a_reached_cap_costs_nothing_and_is_told_at_the_price_of_the_settings() {
    let google = Google::start();
    google.switch(&json!({"estimate": {"bytes": 20_000_000, "accuracy": "PRECISE", "processed": 1_u64 << 40}}));
    let mut bq = Bq::start(&google);
    let answer = bq.query_with(LINES, &json!({"cost_limit_usd": 0.01, "config": {"price_per_tib_usd": 10}}));
    let message = answer.refused(-32010);
    assert!(message.contains("about $10.00"), "{message}");
    assert_eq!((insertions(&google), looks_at_results(&google)), (1, 1));
    assert_cost(&answer, &google, "a cap");
    bq.end_well();
}

/// Pages that break, for a while or for good, after the job was paid for.
#[test]
fn a_page_that_breaks_is_asked_again_and_never_left_out() {
    let google = Google::start();
    google.switch(&json!({"page_bytes": 20_000}));
    let mut bq = Bq::start(&google);
    let meta = json!({"cost_limit_usd": PLENTY, "inline_max_bytes": 0});
    let whole = bq.query_with("SELECT * FROM order_lines ORDER BY order_id", &meta).ok().rows();
    assert_eq!(whole.len(), 1200);
    for (number, (action, times)) in [
        (json!({"cut_after_bytes": 300}), 1),
        (json!("reset"), 1),
        (status(503, "{}"), 2),
        (json!({"cut_after_bytes": 300}), 99),
        (status(400, "{}"), 99),
    ]
    .into_iter()
    .enumerate()
    {
        google.calm();
        google.sandbox().bigquery().clear_jobs();
        bq.files("tmp").iter().for_each(|file| std::fs::remove_file(file).expect("a file"));
        google.fault(&json!({"path": "/queries/", "nth": 4, "times": times, "action": action}));
        let sql = format!("SELECT * FROM order_lines WHERE {number} = {number} ORDER BY order_id");
        let answer = bq.query_with(&sql, &meta);
        assert_cost(&answer, &google, &format!("{action}"));
        match times {
            99 => {
                let (_, message) =
                    answer.error().unwrap_or_else(|| panic!("{action}: a page is missing and nobody says so"));
                let job = &google.jobs()[0].job_id;
                assert!(message.contains("get_job") && message.contains(job), "{message}");
                assert!(bq.files("tmp").is_empty(), "a part of a table is left");
            }
            _ => assert_eq!(answer.ok().rows(), whole, "{action}"),
        }
    }
    bq.end_well();
}

/// A job that gives its first page and then fails.
#[test]
fn a_job_that_fails_after_paging_began_is_no_table() {
    let google = Google::start();
    google.switch(&json!({"page_bytes": 20_000, "refuse": {"reason": "responseTooLarge", "times": 1, "at": "page"}}));
    let mut bq = Bq::start(&google);
    let answer = bq.query("SELECT * FROM order_lines");
    let (code, message) = answer.error().expect("an error");
    assert!(code == -32018 && message.contains("Response too large"), "{code} {message}");
    let job = answer.acp()["error"]["data"]["job_id"].as_str().expect("a job").to_owned();
    let message = bq.call("get_job", &json!({"job_id": job}), &json!({})).refused(-32018);
    assert!(message.contains("failed") && message.contains("execute_query"), "{message}");
    assert!(bq.files("tmp").is_empty());
    bq.end_well();
}

/// The answer to an insertion is lost, and the job is not found either: what it cost is not known, and it is named.
#[test]
fn an_insertion_that_is_lost_for_good_is_named_and_its_cost_unknown() {
    let google = Google::start();
    google.switch(&json!({"lost_inserts": {"times": 1, "hidden_for": 1000}}));
    let mut bq = Bq::start(&google);
    let answer = bq.query(LINES);
    let message = answer.refused(-32018);
    let job = &google.jobs()[0].job_id;
    assert!(message.contains("may have run") && message.contains(job), "{message}");
    assert_eq!(answer.info()["cost_actual_usd"], Value::Null);
    bq.end_well();
}

/// Results that never come, of a job that ran: its cost is told, since the job tells it.
#[test]
fn results_that_never_come_cost_what_the_job_cost() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    google.fault(&json!({"path": "/queries/", "times": 99, "action": status(503, "{}")}));
    let answer = bq.query(LINES);
    let message = answer.refused(-32018);
    assert!(message.contains("get_job") && google.jobs()[0].bytes_billed > 0, "{message}");
    assert_cost(&answer, &google, "results that never come");
    // Nor does the job: then nobody knows.
    google.calm();
    google.fault(&json!({"path": "/queries/", "times": 99, "action": status(503, "{}")}));
    google.fault(&json!({"path": "/jobs/[^/]+$", "times": 99, "action": status(503, "{}")}));
    let answer = bq.query("SELECT day FROM order_lines");
    answer.refused(-32018);
    assert_eq!(answer.info()["cost_actual_usd"], Value::Null);
    bq.end_well();
}

/// BigQuery ends a job that runs longer than the settings allow. It is paid for what it read.
#[test]
fn a_job_that_runs_too_long_says_what_to_change_and_what_it_cost() {
    let google = Google::start();
    google.switch(&json!({"pending_polls": 1_000_000}));
    let mut bq = Bq::start(&google);
    let meta = json!({"cost_limit_usd": PLENTY, "config": {"timeout_s": 1}});
    let answer = bq.query_with(LINES, &meta);
    let message = answer.refused(-32018);
    assert!(message.contains("timeout_s") && message.contains("longer than allowed"), "{message}");
    assert!(google.jobs()[0].bytes_billed > 0);
    assert_cost(&answer, &google, "a job that timed out");
    bq.end_well();
}

/// A dry run that fails has no job, so nothing is looked for and nothing cancelled.
#[test]
fn a_dry_run_is_never_looked_for_as_a_job() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    bq.call("validate_query", &json!({"query": LINES}), &json!({})).ok();
    bq.query_with(LINES, &json!({"cost_limit_usd": 0})).refused(-32010);
    let log = google.sandbox().log();
    assert!(
        log.iter().all(|request| !request.path.contains("/jobs/") && !request.path.contains("/queries/")),
        "{log:?}"
    );
    bq.end_well();
}
