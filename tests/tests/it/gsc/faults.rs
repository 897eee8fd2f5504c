//! What goes wrong at Search Console alone; what can go wrong at any API of Google's is in [`crate::google::faults`].

use serde_json::{Value, json};

use super::bench::{Google, Gsc, SearchConsole, assert_same};
use crate::google::faults::{Case, Outcome, case, error, run};
use crate::google::source::{GSC, Refusal, html, listed_error, status};

const LIMITS: &str = "Learn about usage limits: https://developers.google.com/webmaster-tools/v3/limits.";

/// A fault on questions: so many of them from the nth on.
fn on_searches(nth: u64, times: u64, action: &Value) -> Value {
    json!({"path": "/searchAnalytics/query$", "nth": nth, "times": times, "action": action})
}

fn question(google: &Google) -> Value {
    json!({"dimensions": ["query"], "start_date": google.final_day(9), "end_date": google.final_day(0)})
}

/// Quota that comes as 403, and answers that are none, though they are JSON.
#[test]
fn failures_are_typed_and_never_an_empty_table() {
    let load = listed_error(403, "quotaExceeded", &format!("Search Analytics load quota exceeded. {LIMITS}"));
    let qps = listed_error(403, "quotaExceeded", &format!("Search Analytics QPS quota exceeded. {LIMITS}"));
    let counted = listed_error(400, "invalidParameter", "'BY_PROPERTY' is not a valid aggregation type");
    let keys = r#"{"rows": [{"keys": ["a", "b"], "clicks": 1.0}], "responseAggregationType": "byProperty"}"#;
    let none = r#"{"rows": [7], "responseAggregationType": "byProperty"}"#;
    let wrong = |name, action: &Value, code, words: &[&'static str]| {
        case(name, vec![GSC.on_rows(1, 99, action)], error(code, words), 1..=1)
    };
    let too_fast = Case { seconds: 35, ..wrong("403, too fast for ever", &qps, -32018, &["too many requests"]) };
    run(
        &GSC,
        &[
            wrong("counted in another way", &counted, -32017, &["BY_PROPERTY"]),
            wrong("403, load", &load, -32018, &["15 minutes"]),
            wrong("nothing in it", &status(200, "{}"), -32018, &["not one to a search analytics question"]),
            wrong("rows of another kind", &status(200, keys), -32018, &["dimensions"]),
            wrong("rows that are none", &status(200, none), -32018, &["can't read"]),
            Case { asked: 2..=7, ..too_fast },
        ],
    );
}

/// Complaint 58: quota that comes as 403 is no missing right. A rate passes by itself.
#[test]
fn what_passes_by_itself_is_tried_again() {
    let qps = format!("Search Analytics QPS quota exceeded. {LIMITS}");
    let once = |name, action: &Value| case(name, vec![GSC.on_rows(1, 1, action)], Outcome::Real, 2..=2);
    run(
        &GSC,
        &[
            once("403, QPS", &listed_error(403, "quotaExceeded", &qps)),
            once("403, rate", &listed_error(403, "rateLimitExceeded", "Rate Limit Exceeded")),
            once("429, QPS", &listed_error(429, "rateLimitExceeded", &qps)),
        ],
    );
}

/// Google does not count rows, and repeats some: each counts once, with the figures it came with first.
#[test]
fn rows_that_come_again_count_once() {
    let page = |nth, rows| GSC.on_rows(nth, 1, &status(200, &(GSC.page)(rows, 0).to_string()));
    let end = |nth| GSC.on_rows(nth, 1, &status(200, r#"{"responseAggregationType": "byProperty"}"#));
    let changed = (GSC.page)(1..4, 0).to_string().replace(r#""impressions":1.0"#, r#""impressions":9.0"#);
    assert!(changed.contains("9.0"));
    let pages = |name, pages, rows, asked| case(name, pages, Outcome::MadeUp(rows), asked);
    run(
        &GSC,
        &[
            pages("a row again", vec![page(1, 0..2), page(2, 1..4), end(3)], 4, 2..=2),
            pages("page 1 again", vec![page(1, 0..2), page(2, 0..2), page(3, 2..4), end(4)], 4, 3..=3),
            pages("other figures", vec![page(1, 0..2), GSC.on_rows(2, 1, &status(200, &changed)), end(3)], 4, 2..=2),
        ],
    );
}

/// Totals that can't be read are missing, and it is said; the rows are whole.
#[test]
fn a_failure_of_the_totals_alone_is_told() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let whole = gsc.search(&question(&google)).ok();
    for refusal in [Refusal::Quota, Refusal::NoPermission, Refusal::Internal] {
        google.calm();
        // Only totals are asked for with one row.
        let totals = json!({"path": "/searchAnalytics/query$", "body": r#""rowLimit":1[,}]"#, "times": 9, "action": (GSC.refusal)(refusal)});
        google.fault(&totals);
        let answer = gsc.search(&question(&google)).ok();
        assert_same(&answer.rows(), &whole.rows(), &["query"], "");
        assert!(answer.model().get("totals").is_none());
        let told = |warning: &String| warning.contains("totals are missing");
        assert!(answer.warnings().iter().any(told), "{:?}", answer.warnings());
        assert!(answer.model()["extra"]["coverage"].is_null());
    }
    gsc.end_well();
}

/// What holds for `search_analytics` holds for the tools that extract as it does: an error, never a short table.
#[test]
fn tools_that_join_and_group_fail_as_a_whole() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let tools = [
        ("compare_periods", json!({"dimensions": ["query"]})),
        ("search_analytics_by_regex_cluster", json!({"brand": "nordwind"})),
        ("query_page_overlap", json!({})),
    ];
    for (tool, arguments) in &tools {
        gsc.call(tool, arguments, &json!({})).ok();
        let asked = {
            google.calm();
            gsc.call(tool, arguments, &json!({})).ok();
            google.searches() as u64
        };
        for (name, action, code) in [
            ("400", listed_error(400, "invalidParameter", "No"), -32017),
            ("401", listed_error(401, "authError", "Invalid Credentials"), -32012),
            ("403", listed_error(403, "forbidden", "No"), -32014),
            ("403, load", listed_error(403, "quotaExceeded", "Search Analytics load quota exceeded."), -32018),
            ("404 as a page", html(404), -32018),
            ("200 with nothing in it", status(200, "{}"), -32018),
            ("cut", status(200, "{\"rows\": [{\"keys\": "), -32018),
            ("500", listed_error(500, "backendError", "Internal error"), -32018),
        ] {
            google.calm();
            google.fault(&on_searches(1, 99, &action));
            gsc.call(tool, arguments, &json!({})).refused(code);
            assert!(google.searches() <= 12, "{tool}, {name}: {} attempts", google.searches());
        }
        // Whichever request it meets, the answer is an error or says that totals are missing.
        for nth in 1..=asked {
            google.calm();
            google.fault(&on_searches(nth, 1, &listed_error(403, "forbidden", "No")));
            let answer = gsc.call(tool, arguments, &json!({}));
            let told = || answer.warnings().iter().any(|warning| warning.contains("totals are missing"));
            assert!(answer.error().is_some_and(|(code, _)| code == -32014) || told(), "{tool}, request {nth}");
        }
    }
    google.calm();
    for (tool, arguments) in &tools {
        gsc.call(tool, arguments, &json!({})).ok();
    }
    gsc.end_well();
}

/// A server that sends the same page for ever, or never an empty one.
#[test]
fn an_answer_without_an_end_ends() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let page = json!({"rows": [{"keys": ["a"], "clicks": 1.0, "impressions": 2.0, "ctr": 0.5, "position": 1.0}], "responseAggregationType": "byProperty"});
    for walk in ["never", "always"] {
        google.calm();
        google.fault(&on_searches(1, 9_999, &status(200, &page.to_string())));
        let mut asked = question(&google);
        asked["walk_days"] = json!(walk);
        let message = gsc.search(&asked).refused(-32018);
        assert!(message.contains("again and again") || message.contains("does not end"), "{walk}: {message}");
        assert!(google.searches() < 100, "{walk}: {}", google.searches());
    }
}
