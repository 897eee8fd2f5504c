//! What holds for every tool of the connector.

use serde_json::{Value, json};

use super::bench::{Ga4, Google};
use super::refusals;
use crate::google::source::{GA4, Refusal, html, status, with_header};
use crate::server::clip;

/// An extraction with small arguments, and the path of the requests that it can't do without.
type Extraction = (&'static str, Value, &'static str);

/// Every way in which a tool asks Google for figures.
fn extractions() -> [Extraction; 7] {
    let report = |more: Value| {
        let mut arguments = json!({"metrics": ["eventCount"], "dimensions": ["country"], "start_date": "2daysAgo"});
        arguments.as_object_mut().expect("arguments").extend(more.as_object().cloned().unwrap_or_default());
        arguments
    };
    let clusters = json!({"dimension": "pagePath", "metrics": ["eventCount"], "clusters": [{"name": "blog", "pattern": "^/blog/"}]});
    let mut exact = clusters.clone();
    exact["mode"] = json!("exact");
    exact["metrics"] = json!(["totalUsers"]);
    let before = json!({"start_date": "4daysAgo", "end_date": "3daysAgo"});
    let reports = "v1beta/.*:runReport$";
    [
        ("run_report", report(json!({})), reports),
        ("run_report", report(json!({"compare_ranges": [before]})), reports),
        ("run_report_by_regex_cluster", clusters, reports),
        ("run_report_by_regex_cluster", exact, reports),
        ("compare_conversion_models", json!({"key_events": ["purchase"]}), reports),
        ("run_realtime_report", json!({"metrics": ["eventCount"], "dimensions": ["platform"]}), ":runRealtimeReport$"),
        ("run_funnel_report", json!({"steps": [{"event": "view_item"}, {"event": "purchase"}]}), ":runFunnelReport$"),
    ]
}

/// A fault, how often it comes, and the error that must come of it; none where the call gets over it.
struct Fault {
    name: &'static str,
    action: Value,
    times: u64,
    error: Option<(i64, &'static str)>,
}

/// What can happen to any request. What is wrong with the pages of a report is in [`super::faults`].
fn faults() -> Vec<Fault> {
    let passing = |name, action| Fault { name, action, times: 1, error: None };
    let lasting = |name, action, code, words| Fault { name, action, times: 999, error: Some((code, words)) };
    let refusal = GA4.refusal;
    let typed = |text: &str, kind: &str| with_header(status(200, text), "Content-Type", kind);
    vec![
        passing("401 once", refusal(Refusal::Unauthenticated)),
        passing("a token that ends", json!("expire_token")),
        passing("500 once", refusal(Refusal::Internal)),
        passing("503 once", refusal(Refusal::Unavailable)),
        passing("a reset", json!("reset")),
        passing("a cut", json!({"cut_after_bytes": 60})),
        passing("nothing once", status(200, "")),
        passing("slow headers", json!({"delay_ms": 300})),
        passing("429 with Retry-After", with_header(status(429, "{}"), "Retry-After", "0")),
        lasting("400", refusal(Refusal::BadRequest), -32017, "Please remove X"),
        lasting("401 always", refusal(Refusal::Unauthenticated), -32012, "401"),
        lasting("404", refusal(Refusal::NotFound), -32014, "404"),
        lasting("404 as a page", html(404), -32018, "404"),
        lasting("409", refusal(Refusal::Conflict), -32018, "409"),
        lasting("418", status(418, "short and stout"), -32018, "418"),
        lasting("429 for an hour", with_header(status(429, "{}"), "Retry-After", "3600"), -32018, "3600"),
        lasting("500 always", refusal(Refusal::Internal), -32018, "500"),
        lasting("a redirect", with_header(status(302, ""), "Location", "https://example.com/"), -32018, "redirect"),
        lasting("a page", html(200), -32018, "proxy"),
        lasting("text", typed("hello", "text/plain"), -32018, "text/plain"),
        lasting("no JSON", status(200, "hello"), -32018, ""),
        lasting("half the JSON", status(200, r#"{"kind": "analyticsData#runReport", "rows": [{"#), -32018, ""),
        lasting("a list", status(200, "[1, 2]"), -32018, ""),
        lasting("an empty object", status(200, "{}"), -32018, ""),
        lasting("no report", status(200, r#"{"rows": [], "rowCount": 0}"#), -32018, ""),
        lasting(
            "another report",
            status(200, r#"{"kind": "analyticsData#batchRunReports", "reports": []}"#),
            -32018,
            "",
        ),
    ]
}

/// Refusals in all of Google's words: 403 of each kind and 429 of each bucket.
fn refused() -> Vec<Fault> {
    let fault = |(code, message, reason, outcome, _): &refusals::Case| Fault {
        name: message,
        action: refusals::refusal(*code, message, reason),
        times: if outcome.is_ok() { 1 } else { 999 },
        error: outcome.err(),
    };
    refusals::CASES.iter().map(fault).collect()
}

/// S-12.1: each fault at each way of asking. A call gets over it with the whole answer, or it has a code, says what to do, and comes
/// without rows; and who was not refused goes on.
#[test]
fn every_fault_is_met_by_every_tool() {
    each_meets(faults);
}

#[test]
fn every_refusal_is_met_by_every_tool() {
    each_meets(refused);
}

fn each_meets(faults: fn() -> Vec<Fault>) {
    let wrong = std::thread::scope(|scope| {
        let running = extractions().map(|extraction| scope.spawn(move || problems(&extraction, faults())));
        running.map(|suite| suite.join().expect("a suite ends")).concat()
    });
    assert!(wrong.is_empty(), "{} problems:\n{}", wrong.len(), wrong.join("\n"));
}

fn problems((tool, arguments, path): &Extraction, faults: Vec<Fault>) -> Vec<String> {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let steady = *tool != "run_realtime_report";
    let real = ga4.call(tool, arguments, &json!({})).ok().rows();
    let mut wrong = Vec::new();
    for (number, fault) in faults.into_iter().enumerate() {
        let mut problem = |what: String| wrong.push(format!("{tool} {arguments}, {}: {what}", fault.name));
        // What Google refuses is remembered for whom it refused.
        let meta = json!({"credentials": google.another("full", number), "inline_max_bytes": 0});
        google.calm();
        google.fault(&json!({"path": path, "times": fault.times, "action": fault.action}));
        let answer = ga4.call(tool, arguments, &meta);
        match (fault.error, answer.error()) {
            (None, None) if !steady || answer.rows() == real => {}
            (Some((code, words)), Some((found, message)))
                if code == found && message.contains(words) && message.len() > 40 && answer.data().is_null() => {}
            (expected, found) => problem(format!("expected {expected:?}, got {found:?}: {}", clip(&answer.text))),
        }
    }
    google.calm();
    let after = ga4.call(tool, arguments, &json!({})).ok();
    assert!(!steady || after.rows() == real, "{tool} {arguments}");
    ga4.end_well();
    wrong
}

/// 8.4: the arguments of an answer repeat it, with names, days and defaults in place.
#[test]
fn the_arguments_of_every_answer_repeat_it() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for (tool, arguments, _) in extractions() {
        let first = ga4.call(tool, &arguments, &json!({})).ok();
        let told = first.info()["arguments"].clone();
        let again = ga4.call(tool, &told, &json!({})).ok();
        assert_eq!(again.info()["arguments"], told, "{tool}");
        if tool != "run_realtime_report" {
            assert_eq!(told["end_date"], google.day(1), "{tool}");
            assert_eq!(again.rows(), first.rows(), "{tool}");
        }
    }
    ga4.end_well();
}

/// The Admin API tells the time zone and the attribution settings, and nothing stops without it.
#[test]
fn nothing_stops_without_the_admin_api() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    google.fault(
        &json!({"path": "^/v1(alpha|beta)/(properties/\\d+(/[a-zA-Z]+Settings)?|accountSummaries)$", "times": 999,
        "action": refusals::refusal(403, "no", "")}),
    );
    for (tool, arguments, _) in extractions() {
        let answer = ga4.call(tool, &arguments, &json!({})).ok();
        if tool != "run_realtime_report" {
            assert_eq!(answer.info()["arguments"]["end_date"], google.day(1), "{tool}: days of the property's zone");
        }
    }
    for (tool, arguments) in [
        ("search_fields", json!({"query": "users"})),
        ("validate_report", json!({"arguments": {"metrics": ["sessions"]}})),
    ] {
        ga4.call(tool, &arguments, &json!({})).ok();
    }
    ga4.end_well();
}

/// A property that the credentials don't see is named, whatever the tool.
#[test]
fn a_property_out_of_sight_is_refused_by_every_tool() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let others = [
        ("search_fields", json!({"query": "users"}), ""),
        ("validate_report", json!({"arguments": {"metrics": ["sessions"]}}), ""),
    ];
    for (tool, mut arguments, _) in extractions().into_iter().chain(others) {
        arguments["resource_id"] = json!(google.id("bulk"));
        let message =
            ga4.call(tool, &arguments, &json!({"credentials": google.credentials("limited")})).refused(-32014);
        assert!(message.contains(google.id("bulk")), "{tool}: {message}");
    }
    ga4.end_well();
}
