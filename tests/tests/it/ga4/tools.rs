//! What holds for every tool of the connector.

use serde_json::{Value, json};

use super::bench::{Ga4, Google};

/// Every tool that asks Google for figures, with small arguments and the path that it asks.
fn extractions() -> [(&'static str, Value, &'static str); 6] {
    let clusters = json!({"dimension": "pagePath", "metrics": ["eventCount"], "clusters": [{"name": "blog", "pattern": "^/blog/"}]});
    let mut exact = clusters.clone();
    exact["mode"] = json!("exact");
    exact["metrics"] = json!(["totalUsers"]);
    [
        ("run_report", json!({"metrics": ["sessions"], "dimensions": ["date"]}), "v1beta/.*:runReport$"),
        ("run_report_by_regex_cluster", clusters, "v1beta/.*:runReport$"),
        ("run_report_by_regex_cluster", exact, "v1beta/.*:runReport$"),
        ("compare_conversion_models", json!({"key_events": ["purchase"]}), "v1beta/.*:runReport$"),
        ("run_realtime_report", json!({"metrics": ["eventCount"]}), ":runRealtimeReport$"),
        ("run_funnel_report", json!({"steps": [{"event": "view_item"}, {"event": "purchase"}]}), ":runFunnelReport$"),
    ]
}

fn refusal(code: u16, status: &str, message: &str) -> Value {
    json!({"status": {"code": code, "body": {"error": {"code": code, "status": status, "message": message}}}})
}

/// S-12.1: each failure has its code and says what to do, and none comes with rows.
#[test]
fn failures_of_google_are_typed_for_every_tool() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    ga4.report(&json!({"metrics": ["sessions"]})).ok();
    let disabled = json!({"status": {"code": 403, "body": {"error": {"code": 403, "status": "PERMISSION_DENIED",
        "message": "Google Analytics Data API has not been used in project 7 before or it is disabled.",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED",
            "metadata": {"activationUrl": "https://console.developers.google.com/apis/api/analyticsdata.googleapis.com/overview?project=7"}}]}}}});
    let faults = [
        (
            refusal(400, "INVALID_ARGUMENT", "Please remove X to make the request compatible for example."),
            -32017,
            "Please remove X",
        ),
        (
            refusal(403, "PERMISSION_DENIED", "User does not have sufficient permissions for this property."),
            -32014,
            "Viewer",
        ),
        (disabled, -32018, "https://console.developers.google.com/apis/api/analyticsdata"),
        (
            refusal(
                429,
                "RESOURCE_EXHAUSTED",
                "Exhausted property tokens per day. These quota tokens will return in under 24 hours.",
            ),
            -32018,
            "24 hours",
        ),
        (
            json!({"status": {"code": 404, "headers": {"content-type": "text/html"}, "body": "<html>404</html>"}}),
            -32018,
            "",
        ),
        (
            json!({"status": {"code": 200, "headers": {"content-type": "text/html"}, "body": "<html>sign in</html>"}}),
            -32018,
            "proxy",
        ),
        (json!({"status": {"code": 200, "body": {"rows": [], "rowCount": 0}}}), -32018, ""),
    ];
    for (number, (action, code, words)) in faults.into_iter().enumerate() {
        // What Google refuses is remembered for whom it refused.
        let meta = json!({"credentials": google.another("full", number)});
        for (tool, arguments, path) in extractions() {
            google.calm();
            google.fault(&json!({"path": path, "times": 99, "action": action}));
            let answer = ga4.call(tool, &arguments, &meta);
            let message = answer.refused(code);
            assert!(message.contains(words), "{tool} {action}: {message}");
            assert!(answer.data().is_null(), "{tool} {action}: {}", answer.text);
        }
    }
    google.calm();
    for (tool, arguments, _) in extractions() {
        ga4.call(tool, &arguments, &json!({})).ok();
    }
    ga4.end_well();
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
        "action": refusal(403, "PERMISSION_DENIED", "no")}),
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
