//! What goes wrong at Analytics alone; what can go wrong at any API of Google's is in [`crate::google::faults`].

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bench::{Ga4, Google};
use crate::google::faults::{Case, case, error, run};
use crate::google::raw::{self, RawGoogle};
use crate::google::source::{GA4, google_error, html, report_page as page, status};

fn once(action: &Value) -> Vec<Value> {
    vec![GA4.on_rows(1, 1, action)]
}

/// A page that a fault makes up.
fn made_up(nth: u64, rows: std::ops::Range<u64>, row_count: u64) -> Value {
    GA4.on_rows(nth, 1, &status(200, &page(rows, row_count).to_string()))
}

fn quota(message: &str) -> Value {
    google_error(429, "RESOURCE_EXHAUSTED", message, "")
}

fn answers_that_fail() -> Vec<Case> {
    let quota = |name, message, words: &[&'static str]| case(name, once(&quota(message)), error(-32018, words), 1..=1);
    vec![
        quota(
            "tokens of the hour",
            "Exhausted property tokens for a project per hour. These quota tokens will return in under an hour.",
            &["within an hour", "quota"],
        ),
        quota(
            "tokens of the day",
            "Exhausted property tokens per day. These quota tokens will return in under 24 hours.",
            &["24 hours"],
        ),
        quota("thresholded requests", "Exhausted potentially thresholded requests quota.", &["hour"]),
        quota(
            "client errors",
            "Exhausted client errors quota. This quota will return in under 15 minutes.",
            &["15 minutes"],
        ),
        case(
            "500 that is a quota",
            once(&google_error(500, "INTERNAL", "Exhausted property tokens per day.", "")),
            error(-32018, &["quota"]),
            1..=1,
        ),
        // Ten of them lock a property for an hour.
        case(
            "500 always",
            GA4.always(&google_error(500, "INTERNAL", "Internal error encountered.", "")),
            error(-32018, &["500", "fewer fields"]),
            2..=3,
        ),
        case(
            "403, the account is gone",
            once(&google_error(403, "PERMISSION_DENIED", "The account is disabled.", "ACCOUNT_STATE_INVALID")),
            error(-32012, &["disabled"]),
            1..=1,
        ),
    ]
}

fn answers_that_break() -> Vec<Case> {
    let text = page(0..4, 4).to_string();
    let row = |row: &str| {
        let rest = page(0..0, 1).to_string().replace(r#""rows":[],"rowCount":1,"#, "");
        format!("{{\"rows\": [{row}], \"rowCount\": 1, {}", &rest[1..])
    };
    let wrong =
        |name, words: &[&'static str], body: &str| case(name, once(&status(200, body)), error(-32018, words), 1..=4);
    vec![
        wrong("an empty object", &["not a report"], "{}"),
        wrong("the rows twice", &["twice"], &format!("{{\"rows\": [], {}", &text[1..])),
        wrong("a row without a metric", &[], &row(r#"{"dimensionValues": [{"value": "A"}]}"#)),
        wrong("a row without its dimension", &[], &row(r#"{"metricValues": [{"value": "1"}]}"#)),
        wrong("a row whose cells moved", &[], &row(r#"{"metricValues": [{"value": "1"}, {"value": "2"}]}"#)),
        wrong(
            "a row with too many cells",
            &[],
            &row(r#"{"dimensionValues": [{"value": "A"}, {"value": "B"}], "metricValues": [{"value": "1"}]}"#),
        ),
        wrong(
            "another column than the one asked for",
            &["columns"],
            &text.replace(r#"{"name":"country"}"#, r#"{"name":"city"}"#),
        ),
        wrong(
            "totals of other metrics",
            &["totals"],
            &text.replace(r#"{"value":"4711"}"#, r#"{"value":"1"},{"value":"2"}"#),
        ),
        wrong("a negative count", &[], &text.replace(r#""rowCount":4"#, r#""rowCount":-4"#)),
    ]
}

/// Rows are counted, so that every page that does not fit is found out.
fn pages() -> Vec<Case> {
    let twice = || error(-32018, &["twice"]);
    let uncounted = |rows, nth, count| {
        let text = page(rows, count).to_string();
        GA4.on_rows(nth, 1, &status(200, &text.replace(&format!(r#""rowCount":{count},"#), "")))
    };
    let stuck = |rows, text: fn(&str) -> &str| GA4.on_rows(2, 99, &status(200, text(&page(rows, 4).to_string())));
    vec![
        case("page 1 again", vec![made_up(1, 0..2, 4), made_up(2, 0..2, 4)], twice(), 2..=2),
        case(
            "page 1 for ever",
            vec![GA4.on_rows(1, 99, &status(200, &page(0..2, 1_000_000).to_string()))],
            twice(),
            2..=4,
        ),
        case(
            "page 2 again as page 3",
            vec![made_up(1, 0..2, 6), made_up(2, 2..4, 6), made_up(3, 2..4, 6)],
            twice(),
            3..=4,
        ),
        case(
            "page 1 again as page 3",
            vec![made_up(1, 0..2, 6), made_up(2, 2..4, 6), made_up(3, 0..2, 6)],
            error(-32018, &[]),
            3..=4,
        ),
        case(
            "an empty page 2",
            vec![made_up(1, 0..2, 4), made_up(2, 2..2, 4)],
            error(-32018, &["stopped after 2"]),
            2..=2,
        ),
        case(
            "a page 2 with a row too few, and no more",
            vec![
                made_up(1, 0..2, 4),
                made_up(2, 2..3, 4),
                GA4.on_rows(3, 99, &status(200, &page(3..3, 4).to_string())),
            ],
            error(-32018, &["stopped after 3"]),
            3..=3,
        ),
        case(
            "a page 2 with a row too many",
            vec![made_up(1, 0..2, 4), made_up(2, 2..5, 4)],
            error(-32018, &["sent 5"]),
            2..=2,
        ),
        case(
            "more rows announced on page 2",
            vec![made_up(1, 0..2, 4), made_up(2, 2..4, 5)],
            error(-32018, &["changed from 4 to 5"]),
            2..=3,
        ),
        case(
            "fewer rows announced on page 2",
            vec![made_up(1, 0..2, 4), made_up(2, 2..3, 3)],
            error(-32018, &["changed from 4 to 3"]),
            2..=2,
        ),
        case(
            "no count on page 2",
            vec![made_up(1, 0..2, 4), uncounted(2..4, 2, 4)],
            error(-32018, &["changed"]),
            2..=2,
        ),
        case("rows and no count", vec![uncounted(0..2, 1, 2)], error(-32018, &["sent 2"]), 1..=1),
        case(
            "page 2 breaks in the middle, well framed",
            vec![made_up(1, 0..2, 4), stuck(2..4, |page| &page[..200])],
            error(-32018, &["answer"]),
            2..=6,
        ),
    ]
}

#[test]
fn quotas_are_told_apart() {
    run(&GA4, &answers_that_fail());
}

#[test]
fn reports_that_do_not_fit_the_request_are_refused() {
    run(&GA4, &answers_that_break());
}

#[test]
fn pages_that_do_not_add_up_fail() {
    run(&GA4, &pages());
}

fn report(google: &Google) -> Value {
    (GA4.question)(google)
}

/// Other requests than reports fail too: fields and time zone before the report, blocks beside it.
#[test]
fn what_is_asked_beside_the_report_fails_as_well() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let relative = json!({"metrics": ["sessions"]});
    // The Admin API may be off; the report says the zone too.
    google.fault(&json!({"path": "^/v1beta/properties/\\d+$", "times": 9, "action": google_error(403, "PERMISSION_DENIED", "Disabled.", "SERVICE_DISABLED")}));
    let answer = ga4.report(&relative).ok();
    assert_eq!(answer.info()["arguments"]["end_date"], google.day(1));
    google.calm();

    for (number, (action, expected, needle)) in [
        (status(200, "{"), -32018, "read"),
        (status(200, "{}"), -32018, "fields"),
        (html(200), -32018, "proxy"),
        (google_error(500, "INTERNAL", "Internal error encountered.", ""), -32018, "500"),
        (
            google_error(403, "PERMISSION_DENIED", "Google Analytics Data API has not been used.", "SERVICE_DISABLED"),
            -32018,
            "Enable",
        ),
        (quota("Exhausted property tokens per day."), -32018, "24 hours"),
    ]
    .into_iter()
    .enumerate()
    {
        google.calm();
        google.fault(&json!({"path": "/metadata$", "times": 9, "action": action}));
        let credentials = google.another("full", 100 + number);
        let message = ga4.report_as(&credentials, &relative).refused(expected);
        assert!(message.contains(needle), "{action}: {message}");
        assert_eq!(google.reports(), 0, "{action}");
        assert!(google.asked("/metadata").len() <= 3, "{action}: {:?}", google.sandbox().log());
        google.calm();
        // The failure was not cached.
        ga4.report_as(&credentials, &relative).ok();
    }
    for action in [status(200, "{}"), status(200, r#"{"accountSummaries": {}}"#), html(200), json!("reset")] {
        google.calm();
        google.fault(&json!({"path": "accountSummaries", "times": 9, "action": action}));
        let answer = ga4.call(
            "autocontext",
            &json!({"resource_id": null}),
            &json!({"credentials": google.another("full", 200)}),
        );
        if action == status(200, "{}") {
            assert_eq!(answer.ok().model()["total_available"], 0);
            break;
        }
        answer.refused(-32018);
    }
    // A list that never ends.
    google.calm();
    google.fault(&json!({"path": "accountSummaries", "times": 9999, "action": status(200, r#"{"accountSummaries": [], "nextPageToken": "again"}"#)}));
    let answer =
        ga4.call("autocontext", &json!({"resource_id": null}), &json!({"credentials": google.another("full", 201)}));
    let message = answer.refused(-32018);
    assert!(message.contains("does not end"), "{message}");
    assert!(google.asked("accountSummaries").len() <= 200);
}

/// The sandbox's own quota: the report that empties it is the last that is sent.
#[test]
fn a_used_up_quota_is_not_asked_again() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let email = google.facts()["identities"]["full"]["email"].as_str().expect("an address").to_owned();
    ga4.report(&report(&google)).ok();
    google.sandbox().set_remaining_tokens(&email, google.id("main"), 0);
    google.calm();
    let started = Instant::now();
    let message = ga4.report(&report(&google)).refused(-32018);
    assert!(message.contains("within an hour") && message.contains("do not retry"), "{message}");
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(google.reports(), 1);
    // Another property has its own.
    ga4.report(&json!({"resource_id": google.id("slice"), "metrics": ["sessions"]})).ok();
}

/// A real page of 250,000 rows is cut, and so is the next one: rows are resumed where it broke, none twice, none lost.
#[test]
fn a_real_report_survives_cuts_on_both_pages() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let bulk = google.property("bulk").clone();
    let on_reports = |nth: u64, action: &Value| json!({"path": ":runReport$", "nth": nth, "action": action});
    google.fault(&on_reports(1, &json!({"cut_after_bytes": 3_000_000})));
    google.fault(&on_reports(3, &json!({"cut_after_bytes": 1_000_000})));
    google.fault(&on_reports(4, &json!("expire_token")));
    let arguments = json!({
        "resource_id": bulk["id"], "metrics": ["eventCount"], "dimensions": ["customEvent:item_id"],
        "start_date": super::bench::day_of(&bulk, 12), "end_date": super::bench::day_of(&bulk, 1),
    });
    let id = ga4.begin_call("run_report", &arguments, &json!({}));
    let answer = ga4.wait(id, super::bench::PATIENCE).ok();
    let table = std::fs::read_to_string(&ga4.files("tmp")[0]).expect("the table");
    let items: std::collections::HashSet<&str> = table.split('"').filter(|text| text.starts_with("SKU-")).collect();
    assert_eq!(items.len(), 300_000);
    assert_eq!(table.matches("SKU-").count(), 300_000, "none twice");
    let sum: u64 =
        table.split("\"eventCount\":").skip(1).filter_map(|rest| rest.split('}').next()?.parse::<u64>().ok()).sum();
    assert_eq!(answer.model()["totals"]["eventCount"], sum);
    assert!((4..=6).contains(&google.reports()), "{:?}", google.sandbox().log());
}

/// Every page brings one new row of a million that are announced: each costs quota, so somebody must stop it.
#[test]
fn pages_of_one_row_do_not_go_on_for_ever() {
    let sandbox = Google::start();
    let google = RawGoogle::start(&GA4, &sandbox, |_, body| {
        let offset = body["offset"].as_u64().unwrap_or(0);
        raw::ok(&page(offset..offset + 1, 1_000_000))
    });
    let mut ga4 = Ga4::start_with(&sandbox, &[("ACP_GOOGLE_SANDBOX", &google.url)], None);
    let credentials = raw::credentials(&sandbox);
    let arguments = json!({"metrics": ["sessions"], "dimensions": ["country"], "start_date": "2026-09-01", "end_date": "2026-09-02"});
    let id = ga4.begin_call("run_report", &arguments, &json!({"credentials": credentials}));
    let started = Instant::now();
    while google.asked() < 500
        && started.elapsed() < Duration::from_secs(10)
        && ga4.listen(Duration::from_millis(50)).is_empty()
    {}
    assert!(
        google.asked() < 500,
        "call {id}: {} pages of one row were asked for, with no end in sight",
        google.asked()
    );
}
