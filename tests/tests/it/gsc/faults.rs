//! What goes wrong at Google, and what must come of it: the right error, few attempts, and never a short table that looks
//! complete.

use serde_json::{Value, json};

use super::bench::{DOMAIN, Google, Gsc, SearchConsole, assert_same};

fn status(code: u16, body: &str) -> Value {
    json!({"status": {"code": code, "body": body}})
}

fn google_error(code: u16, reason: &str, message: &str) -> Value {
    let errors = json!([{"domain": "global", "reason": reason, "message": message}]);
    status(code, &json!({"error": {"code": code, "message": message, "errors": errors}}).to_string())
}

fn html(code: u16) -> Value {
    json!({"status": {"code": code, "headers": {"Content-Type": "text/html"}, "body": "<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>"}})
}

/// A fault on questions: so many of them from the nth on.
fn on_searches(nth: u64, times: u64, action: &Value) -> Value {
    json!({"path": "/searchAnalytics/query$", "nth": nth, "times": times, "action": action})
}

fn question(google: &Google) -> Value {
    json!({"dimensions": ["query"], "start_date": google.final_day(9), "end_date": google.final_day(0)})
}

#[test]
fn failures_are_typed_and_never_an_empty_table() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let load = "Search Analytics load quota exceeded. Learn about usage limits: https://developers.google.com/webmaster-tools/v3/limits.";
    let qps = "Search Analytics QPS quota exceeded. Learn about usage limits: https://developers.google.com/webmaster-tools/v3/limits.";
    gsc.search(&question(&google)).ok();
    for (name, action, code, needles, most) in [
        (
            "400",
            google_error(400, "invalidParameter", "'BY_PROPERTY' is not a valid aggregation type"),
            -32017,
            &["BY_PROPERTY"][..],
            2,
        ),
        ("401", google_error(401, "authError", "Invalid Credentials"), -32012, &["401"], 4),
        (
            "403, forbidden",
            google_error(403, "forbidden", "User does not have sufficient permission for site 'x'."),
            -32014,
            &[DOMAIN, "Users and permissions"],
            2,
        ),
        ("403, load", google_error(403, "quotaExceeded", load), -32018, &["15 minutes"], 2),
        (
            "403, the API is off",
            google_error(403, "accessNotConfigured", "Google Search Console API has not been used in project 1"),
            -32018,
            &["Enable the API"],
            2,
        ),
        (
            "403, another scope",
            google_error(403, "insufficientPermissions", "Request had insufficient authentication scopes."),
            -32012,
            &["scopes"],
            2,
        ),
        ("404", google_error(404, "notFound", "not found"), -32014, &["404"], 2),
        ("404 as a page", html(404), -32018, &["web page"], 2),
        ("200 as a page", html(200), -32018, &["Instead of JSON"], 2),
        ("200 with nothing in it", status(200, "{}"), -32018, &["not one to a search analytics question"], 2),
        ("a list", status(200, "[]"), -32018, &["can't be read"], 2),
        ("no JSON", status(200, "{\"rows\": [{\"keys\": "), -32018, &["broke off"], 10),
        (
            "rows of another kind",
            status(200, r#"{"rows": [{"keys": ["a", "b"], "clicks": 1.0}], "responseAggregationType": "byProperty"}"#),
            -32018,
            &["dimensions"],
            2,
        ),
        (
            "rows that are none",
            status(200, r#"{"rows": [7], "responseAggregationType": "byProperty"}"#),
            -32018,
            &["can't read"],
            2,
        ),
        ("500 always", google_error(500, "backendError", "Internal error"), -32018, &["500"], 6),
        ("403, too fast and no end of it", google_error(403, "quotaExceeded", qps), -32018, &["too many requests"], 20),
    ] {
        if name.ends_with("no end of it") {
            // It takes all its waits, which other tests measure.
            continue;
        }
        google.calm();
        google.fault(&on_searches(1, 99, &action));
        let message = gsc.search(&question(&google)).refused(code);
        for needle in needles {
            assert!(message.contains(needle), "{name}: {message}");
        }
        assert!(google.searches() <= most, "{name}: {} attempts", google.searches());
    }
    google.calm();
    gsc.search(&question(&google)).ok();
    gsc.end_well();
}

/// Complaint 58: quota that comes as 403 is no missing right. A rate passes by itself.
#[test]
fn what_passes_by_itself_is_tried_again() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let whole = gsc.search(&question(&google)).ok();
    for (name, action) in [
        (
            "403, QPS",
            google_error(403, "quotaExceeded", "Search Analytics QPS quota exceeded. Learn about usage limits."),
        ),
        ("403, rate", google_error(403, "rateLimitExceeded", "Rate Limit Exceeded")),
        ("429, rate", google_error(429, "rateLimitExceeded", "Rate Limit Exceeded")),
        ("401", google_error(401, "authError", "Invalid Credentials")),
        ("500", google_error(500, "backendError", "Internal error")),
        ("503", google_error(503, "backendError", "Unavailable")),
        ("reset", json!("reset")),
        ("a body that is cut", json!({"cut_after_bytes": 700})),
        ("a token that ended", json!("expire_token")),
    ] {
        google.calm();
        google.fault(&on_searches(1, 1, &action));
        let answer = gsc.search(&question(&google)).ok();
        assert_same(&answer.rows(), &whole.rows(), &["query"], format_args!("{name}"));
        assert_eq!(answer.model()["totals"], whole.model()["totals"], "{name}");
    }
}

/// Totals that can't be read are missing, and it is said; the rows are whole.
#[test]
fn a_failure_of_the_totals_alone_is_told() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let whole = gsc.search(&question(&google)).ok();
    // A question without dimensions is told apart by its order alone, and rows, their end and totals go out in any order: so until
    // the fault meets the totals.
    let mut told = 0;
    for nth in (1..=3).cycle().take(60) {
        google.calm();
        google.fault(&on_searches(
            nth,
            1,
            &google_error(403, "quotaExceeded", "Search Analytics load quota exceeded."),
        ));
        let answer = gsc.search(&question(&google));
        if answer.error().is_some() {
            continue;
        }
        told += 1;
        assert_same(&answer.rows(), &whole.rows(), &["query"], "");
        assert!(answer.model().get("totals").is_none());
        assert!(
            answer.warnings().iter().any(|warning| warning.contains("totals are missing")),
            "{:?}",
            answer.warnings()
        );
        assert!(answer.model()["extra"]["coverage"].is_null());
        if told == 2 {
            return;
        }
    }
    panic!("the fault never met the totals");
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
            ("400", google_error(400, "invalidParameter", "No"), -32017),
            ("401", google_error(401, "authError", "Invalid Credentials"), -32012),
            ("403", google_error(403, "forbidden", "No"), -32014),
            ("403, load", google_error(403, "quotaExceeded", "Search Analytics load quota exceeded."), -32018),
            ("404 as a page", html(404), -32018),
            ("200 with nothing in it", status(200, "{}"), -32018),
            ("cut", status(200, "{\"rows\": [{\"keys\": "), -32018),
            ("500", google_error(500, "backendError", "Internal error"), -32018),
        ] {
            google.calm();
            google.fault(&on_searches(1, 99, &action));
            gsc.call(tool, arguments, &json!({})).refused(code);
            assert!(google.searches() <= 12, "{tool}, {name}: {} attempts", google.searches());
        }
        // Whichever request it meets, the answer is an error or says that totals are missing.
        for nth in 1..=asked {
            google.calm();
            google.fault(&on_searches(nth, 1, &google_error(403, "forbidden", "No")));
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
