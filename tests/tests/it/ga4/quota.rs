//! Quota: what is used up is left alone, server errors are not provoked, and every answer says what is left.

use serde_json::{Value, json};

use super::bench::{Ga4, Google};

fn refusal(code: u16, status: &str, message: &str) -> Value {
    json!({"status": {"code": code, "body": {"error": {"code": code, "status": status, "message": message}}}})
}

fn on_reports(action: &Value) -> Value {
    json!({"path": ":runReport$", "times": 999, "action": action})
}

/// A bucket that refused twice is not asked a third time, by whatever tool; other identities, properties and kinds of report go on.
#[test]
fn a_bucket_that_is_used_up_is_left_alone() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let report = json!({"metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    ga4.report(&report).ok();
    google.calm();
    let exhausted =
        "Exhausted property tokens for a project per hour. These quota tokens will return in under an hour.";
    google.fault(&on_reports(&refusal(429, "RESOURCE_EXHAUSTED", exhausted)));
    for _ in 0..2 {
        assert!(ga4.report(&report).refused(-32018).contains("within an hour"));
    }
    for _ in 0..20 {
        let message = ga4.report(&report).refused(-32018);
        for words in ["Google was not asked", "tokens of this Cloud project", "is back at", "UTC at the latest"] {
            assert!(message.contains(words), "{message}");
        }
    }
    let models = ga4.call("compare_conversion_models", &json!({}), &json!({}));
    assert!(models.refused(-32018).contains("Google was not asked"));
    assert_eq!(google.reports(), 2, "twenty-one calls did not ask");
    ga4.call("run_realtime_report", &json!({}), &json!({})).ok();
    // Somebody else may have another project.
    ga4.report_as(&google.another("full", 1), &report).refused(-32018);
    assert_eq!(google.reports(), 3);
    google.calm();
    let mut elsewhere = report.clone();
    elsewhere["resource_id"] = json!(google.id("slice"));
    ga4.report(&elsewhere).ok();
    ga4.end_well();
}

/// Google allows ten server errors in an hour, and then the property is locked.
#[test]
fn server_errors_are_not_provoked() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let report = json!({"metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    ga4.report(&report).ok();
    for (code, status) in [(500, "INTERNAL"), (503, "UNAVAILABLE")] {
        google.calm();
        google.fault(&on_reports(&refusal(code, status, "Internal error encountered.")));
        ga4.report_as(&google.another("full", usize::from(code)), &report).refused(-32018);
        assert_eq!(google.reports(), 2, "{code}");
    }
    // A call of many requests meets no more of them than one of a single request.
    google.calm();
    google.fault(&on_reports(&refusal(500, "INTERNAL", "Internal error encountered.")));
    let mut days = report.clone();
    days["metrics"] = json!(["eventCount"]);
    days["split"] = json!("day");
    ga4.report_as(&google.another("full", 1), &days).refused(-32018);
    assert_eq!(google.reports(), 2);
    // Nor do blocks, of which each is a call of its own.
    google.calm();
    google.fault(&on_reports(&refusal(500, "INTERNAL", "Internal error encountered.")));
    let somebody = json!({"credentials": google.another("full", 2)});
    let model = ga4.call("autocontext", &json!({}), &somebody).ok().model();
    let failed = model.as_array().expect("blocks").iter().filter(|block| block.get("error").is_some()).count();
    assert!(failed >= 6, "{model}");
    assert!(google.reports() < 10, "{} server errors", google.reports());
    ga4.end_well();
}

/// What is left of the quota comes with every answer, for the model and for the host.
#[test]
fn every_answer_says_what_is_left() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let clusters = json!({"dimension": "pagePath", "metrics": ["eventCount"], "clusters": [{"name": "blog", "pattern": "^/blog/"}]});
    let mut exact = clusters.clone();
    exact["mode"] = json!("exact");
    for (tool, arguments) in [
        ("run_report", json!({"metrics": ["sessions"]})),
        ("run_report", json!({"metrics": ["eventCount"], "split": "day", "start_date": "3daysAgo"})),
        ("run_report_by_regex_cluster", clusters),
        ("run_report_by_regex_cluster", exact),
        ("compare_conversion_models", json!({})),
        ("run_realtime_report", json!({})),
        ("run_funnel_report", json!({"steps": [{"event": "view_item"}, {"event": "purchase"}]})),
    ] {
        let answer = ga4.call(tool, &arguments, &json!({})).ok();
        let quota = answer.model()["extra"]["quota"].clone();
        for bucket in [
            "tokensPerDay",
            "tokensPerHour",
            "tokensPerProjectPerHour",
            "concurrentRequests",
            "serverErrorsPerProjectPerHour",
            "potentiallyThresholdedRequestsPerHour",
        ] {
            assert!(quota[bucket]["remaining"].is_u64(), "{tool} {bucket}: {quota}");
        }
        assert!(
            answer.info()["source"]["property_quota"]["tokensPerDay"]["remaining"].is_u64(),
            "{tool}: {}",
            answer.info()
        );
    }
    ga4.end_well();
}
