//! Refusals in Google's own words: 403 of each kind, 429 of each bucket; and rows that change while pages are read.

use serde_json::{Value, json};

use super::bench::{Ga4, Google};

pub(super) fn refusal(code: u16, message: &str, reason: &str) -> Value {
    let mut error = json!({"code": code, "message": message, "status": if code == 403 { "PERMISSION_DENIED" } else { "RESOURCE_EXHAUSTED" }});
    if !reason.is_empty() {
        error["details"] = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
            "metadata": {"activationUrl": "https://console.developers.google.com/apis/api/analyticsdata.googleapis.com/overview?project=7"}}]);
    }
    json!({"status": {"code": code, "body": {"error": error}}})
}

/// What Google says, why, what must come of it, and how often it may be asked.
pub(super) type Case = (u16, &'static str, &'static str, Result<(), (i64, &'static str)>, usize);

pub(super) const CASES: [Case; 14] = [
    (403, "User does not have sufficient permissions for this property.", "", Err((-32014, "Viewer role")), 1),
    (
        403,
        "Google Analytics Data API has not been used in project 7 before or it is disabled.",
        "SERVICE_DISABLED",
        Err((-32018, "overview?project=7")),
        1,
    ),
    (
        403,
        "Request had insufficient authentication scopes.",
        "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
        Err((-32012, "scopes")),
        1,
    ),
    (
        403,
        "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'.",
        "RATE_LIMIT_EXCEEDED",
        Ok(()),
        2,
    ),
    (
        403,
        "Caller does not have required permission to use project 7.",
        "USER_PROJECT_DENIED",
        Err((-32018, "project 7")),
        1,
    ),
    (403, "The account is disabled.", "ACCOUNT_STATE_INVALID", Err((-32012, "Sign in again")), 1),
    (
        429,
        "Exhausted property tokens for a project per hour. These quota tokens will return in under an hour.",
        "",
        Err((-32018, "within an hour")),
        1,
    ),
    (
        429,
        "Exhausted property tokens per hour. These quota tokens will return in under an hour.",
        "",
        Err((-32018, "within an hour")),
        1,
    ),
    (
        429,
        "Exhausted property tokens per day. These quota tokens will return in under 24 hours.",
        "",
        Err((-32018, "midnight Pacific")),
        1,
    ),
    (
        429,
        "Exhausted potentially thresholded requests quota. This quota will return in under an hour.",
        "",
        Err((-32018, "within an hour")),
        1,
    ),
    (
        429,
        "Exhausted client errors quota. This quota will return in under 15 minutes.",
        "",
        Err((-32018, "15 minutes")),
        1,
    ),
    (
        429,
        "Exhausted server errors quota. This quota will return in under an hour.",
        "",
        Err((-32018, "within an hour")),
        1,
    ),
    (429, "Exhausted concurrent requests quota. Please send fewer requests concurrently.", "", Ok(()), 2),
    (429, "Too many requests.", "", Err((-32018, "429")), 1),
];

#[test]
fn each_refusal_has_its_meaning() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let report = json!({"metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    for (number, (code, message, reason, outcome, asked)) in CASES.into_iter().enumerate() {
        let somebody = google.another("full", number);
        ga4.report_as(&somebody, &report).ok();
        google.calm();
        google.fault(&json!({"path": ":runReport$", "times": 1, "action": refusal(code, message, reason)}));
        let answer = ga4.report_as(&somebody, &report);
        match outcome {
            Ok(()) => drop(answer.ok()),
            Err((error, words)) => {
                let told = answer.refused(error);
                assert!(told.contains(words), "{message}: {told}");
                assert!(answer.data().is_null(), "{message}");
            }
        }
        assert_eq!(google.reports(), asked, "{message}");
        // One refusal is no lasting one.
        google.calm();
        ga4.report_as(&somebody, &report).ok();
    }
    ga4.end_well();
}

/// A page of a report by country, made up.
fn page(rows: &[(&str, u64)], row_count: u64, total: u64) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|(country, events)| json!({"dimensionValues": [{"value": country}], "metricValues": [{"value": events.to_string()}]}))
        .collect();
    json!({"status": {"code": 200, "body": {
        "kind": "analyticsData#runReport", "dimensionHeaders": [{"name": "country"}], "metricHeaders": [{"name": "eventCount", "type": "TYPE_INTEGER"}],
        "rows": rows, "rowCount": row_count, "totals": [{"dimensionValues": [{"value": "RESERVED_TOTAL"}], "metricValues": [{"value": total.to_string()}]}],
        "metadata": {"currencyCode": "EUR", "timeZone": "Europe/Berlin"},
    }}})
}

/// Today's data move while pages are read. What can be seen of it fails the call or is said; nothing passes for a whole report.
#[test]
fn rows_that_change_between_pages_are_noticed() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let days = json!({"metrics": ["eventCount"], "start_date": google.day(3), "end_date": google.day(1)});
    let with = |more: Value| {
        let mut arguments = days.clone();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    // As it comes, held in memory, and put into groups.
    let before = json!({"start_date": google.day(6), "end_date": google.day(4)});
    let tools = [
        ("run_report", with(json!({"dimensions": ["country"]}))),
        ("run_report", with(json!({"dimensions": ["country"], "compare_ranges": [before]}))),
        (
            "run_report_by_regex_cluster",
            with(json!({"dimension": "country", "clusters": [{"name": "all", "pattern": "."}]})),
        ),
    ];
    let first = page(&[("A", 50), ("B", 30)], 4, 100);
    for (second, outcome) in [
        (page(&[("C", 15), ("D", 5)], 4, 100), [None; 3]),
        (page(&[("C", 15), ("D", 5)], 5, 110), [Some(Err("changed from 4 to 5 rows")); 3]),
        (page(&[("C", 15)], 3, 95), [Some(Err("changed from 4 to 3 rows")); 3]),
        (page(&[("C", 15), ("D", 5), ("E", 1)], 4, 100), [Some(Err("announced 4 rows and sent 5")); 3]),
        (
            page(&[("A", 50), ("B", 30)], 4, 100),
            [Some(Err("the same page twice")), Some(Err("sent a row twice")), Some(Err("the same page twice"))],
        ),
        (page(&[], 4, 100), [Some(Err("stopped after 2")); 3]),
        // A row comes twice and another never: only the total tells.
        (
            page(&[("B", 30), ("D", 5)], 4, 100),
            [
                Some(Ok("add up to 115 eventCount and Google's total is 100")),
                Some(Err("sent a row twice")),
                Some(Ok("add up to more eventCount than Google's total")),
            ],
        ),
    ] {
        for (place, (tool, arguments)) in tools.iter().enumerate() {
            google.calm();
            google.fault(&json!({"path": ":runReport$", "nth": 1, "action": first}));
            google.fault(&json!({"path": ":runReport$", "nth": 2, "action": second}));
            let answer = ga4.call(tool, arguments, &json!({}));
            match outcome[place] {
                Some(Err(words)) => {
                    let message = answer.refused(-32018);
                    assert!(message.contains(words) && message.contains("end it yesterday"), "{words}: {message}");
                }
                Some(Ok(words)) => {
                    let warnings = answer.ok().warnings();
                    assert!(warnings.len() == 1 && warnings[0].contains(words), "{warnings:?}");
                }
                None => assert_eq!(answer.ok().warnings(), Vec::<String>::new(), "{tool}"),
            }
        }
    }
    ga4.end_well();
}

/// One day fell to a fiftieth while the total was right, and nothing said so.
#[test]
fn rows_that_do_not_add_up_to_the_total_are_said() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let report = json!({"metrics": ["eventCount"], "dimensions": ["country"], "start_date": google.day(3), "end_date": google.day(1)});
    ga4.report(&report).ok();
    for (rows, says) in [(vec![("A", 2_u64), ("B", 30)], true), (vec![("A", 70), ("B", 30)], false), (vec![], true)] {
        google.calm();
        google.fault(&json!({"path": ":runReport$", "nth": 1, "action": page(&rows, rows.len() as u64, 100)}));
        let warnings = ga4.report(&report).ok().warnings();
        assert_eq!(warnings.iter().any(|warning| warning.contains("Google's total is 100")), says, "{warnings:?}");
    }
    // A limit or a filter on rows takes rows away, which is no surprise.
    for more in [
        json!({"limit": 1}),
        json!({"metric_filters": [{"field": "eventCount", "match_type": "GREATER_THAN", "value": 40}]}),
    ] {
        google.calm();
        let mut arguments = report.clone();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let warnings = ga4.report(&arguments).ok().warnings();
        assert!(warnings.iter().all(|warning| !warning.contains("The rows add up")), "{warnings:?}");
    }
    ga4.end_well();
}
