//! `run_realtime_report`: the last minutes, with the few fields they have.

use serde_json::{Value, json};

use super::bench::{Answer, Ga4, Google};

fn realtime(ga4: &mut Ga4, arguments: &Value) -> Answer {
    ga4.call("run_realtime_report", arguments, &json!({}))
}

/// An answer of Google's with the columns that the arguments below ask for.
fn pages(rows: Value, count: u64, totals: Value) -> Value {
    json!({"status": {"code": 200, "body": {
        "dimensionHeaders": [{"name": "unifiedScreenName"}, {"name": "minutesAgo"}],
        "metricHeaders": [{"name": "activeUsers", "type": "TYPE_INTEGER"}, {"name": "keyEvents", "type": "TYPE_FLOAT"}],
        "rows": rows, "rowCount": count, "totals": [{"dimensionValues": [{}, {}], "metricValues": totals}],
        "propertyQuota": {"tokensPerDay": {"consumed": 2, "remaining": 9}}, "kind": "analyticsData#runRealtimeReport",
    }}})
}

fn row(page: &str, minute: &str, users: &str, events: &str) -> Value {
    json!({"dimensionValues": [{"value": page}, {"value": minute}], "metricValues": [{"value": users}, {"value": events}]})
}

#[test]
fn rows_are_typed_and_totals_are_googles() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let rows = json!([row("Home", "00", "3", "0.25"), row("", "29", "1", "0")]);
    google.fault(
        &json!({"path": ":runRealtimeReport$", "action": pages(rows, 2, json!([{"value": "3"}, {"value": "0.25"}]))}),
    );
    let asked = json!({"metrics": ["users", "keyEvents"], "dimensions": ["unifiedScreenName", "minutes_ago"]});
    let answer = realtime(&mut ga4, &asked).ok();
    assert_eq!(answer.info()["arguments"]["metrics"], json!(["activeUsers", "keyEvents"]));
    assert_eq!(
        (&answer.info()["arguments"]["start_minutes_ago"], &answer.info()["arguments"]["end_minutes_ago"]),
        (&json!(29), &json!(0))
    );
    let types =
        ["unifiedScreenName", "minutesAgo", "activeUsers", "keyEvents"].map(|name| answer.header(name)["type"].clone());
    assert_eq!(types, ["string", "integer", "integer", "number"]);
    assert_eq!(
        answer.rows()[0],
        json!({"unifiedScreenName": "Home", "minutesAgo": 0, "activeUsers": 3, "keyEvents": 0.25})
    );
    assert_eq!(answer.model()["totals"], json!({"activeUsers": 3, "keyEvents": 0.25}), "users are not added up");
    assert_eq!(answer.model()["extra"]["quota"]["tokensPerDay"]["remaining"], 9);
    assert_eq!(answer.model()["dates"], json!([google.day(0)]));
    assert_eq!(answer.info()["source"]["api"], "analyticsdata.v1beta.runRealtimeReport");
    ga4.end_well();
}

/// The sandbox counts minutes as Google does; a minute may end between two calls.
#[test]
fn it_is_what_happened_in_these_minutes() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let count = |ga4: &mut Ga4, from: u64, to: u64| {
        let asked = json!({"metrics": ["eventCount"], "start_minutes_ago": from, "end_minutes_ago": to});
        realtime(ga4, &asked).ok().sum("eventCount")
    };
    let agrees = (0..5).any(|_| {
        let before = count(&mut ga4, 29, 0);
        let parts = count(&mut ga4, 9, 0) + count(&mut ga4, 29, 10);
        let after = count(&mut ga4, 29, 0);
        before == after && before == parts
    });
    assert!(agrees, "two parts of the half hour are the whole");
    let sent = google.asked(":runRealtimeReport").len();
    let by_event = realtime(&mut ga4, &json!({"metrics": ["eventCount"], "dimensions": ["eventName"]})).ok();
    assert_eq!(google.asked(":runRealtimeReport").len(), sent + 1, "one request, and it has no date range or offset");
    assert!(by_event.rows().iter().all(|row| row["eventCount"].as_i64() > Some(0)));
    let filtered = json!({"metrics": ["eventCount"], "dimension_filters": [{"field": "eventName", "matchType": "exact", "value": "nothing"}]});
    assert_eq!(realtime(&mut ga4, &filtered).ok().sum("eventCount"), 0.0);
    ga4.end_well();
}

#[test]
fn what_realtime_does_not_have_is_refused_with_what_it_has() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for (arguments, fix) in [
        (json!({"metrics": ["sessions"]}), "activeUsers, eventCount, keyEvents, screenPageViews"),
        (json!({"metrics": ["eventCount"], "dimensions": ["pagePath"]}), "unifiedScreenName"),
        (json!({"dimensions": ["sessionSource"]}), "realtime reports"),
        (json!({"dimensions": ["activeUsers"]}), "is a metric"),
        (json!({"dimensions": ["country", "country"]}), "twice"),
        (json!({"start_minutes_ago": 3, "end_minutes_ago": 5}), "older end"),
        (json!({"start_minutes_ago": 60}), "start_minutes_ago"),
        (json!({"start_minutes_ago": 45}), "29"),
        (json!({"dimension_filters": [{"field": "country"}]}), "match_type"),
        (json!({"dimension_filters": [{"field": "country", "match_type": "PARTIAL_REGEXP", "value": "("}]}), "RE2"),
        (json!({"offset": 5}), "offset"),
    ] {
        let message = realtime(&mut ga4, &arguments).refused(-32017);
        assert!(message.contains(fix), "{arguments}: {message}");
    }
    ga4.end_well();
}

/// There is no second page, so fewer rows than announced are no table.
#[test]
fn a_report_that_is_not_whole_fails() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let asked = json!({"metrics": ["activeUsers", "keyEvents"], "dimensions": ["unifiedScreenName", "minutesAgo"]});
    let one = json!([row("Home", "00", "3", "0")]);
    let short = json!([{"dimensionValues": [{"value": "Home"}], "metricValues": [{"value": "3"}]}]);
    let totals = json!([{"value": "3"}, {"value": "0"}]);
    for action in [
        pages(one.clone(), 2, totals.clone()),
        pages(json!([]), 1, totals.clone()),
        pages(short, 1, totals.clone()),
        pages(json!(["x"]), 1, totals),
        json!({"status": {"code": 200, "body": {}}}),
        json!({"status": {"code": 200, "body": {"kind": "analyticsData#runReport"}}}),
        json!({"status": {"code": 200, "body": {"kind": "analyticsData#runRealtimeReport"}}}),
    ] {
        google.calm();
        google.fault(&json!({"path": ":runRealtimeReport$", "action": action}));
        realtime(&mut ga4, &asked).refused(-32018);
    }
    let two = json!([row("Home", "00", "3", "0")]);
    google.calm();
    google.fault(
        &json!({"path": ":runRealtimeReport$", "action": pages(two, 7, json!([{"value": "9"}, {"value": "0"}]))}),
    );
    let mut cut = asked;
    cut["limit"] = json!(1);
    let answer = realtime(&mut ga4, &cut).ok();
    assert!(answer.warnings().iter().any(|warning| warning.contains("7 rows")), "{:?}", answer.warnings());
    ga4.end_well();
}

/// Realtime has a quota of its own: a property whose reports are used up still tells what happens now.
#[test]
fn a_used_up_quota_of_reports_does_not_stop_it() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    google.sandbox().set_remaining_tokens(google_sandbox::FULL_EMAIL, google.id("main"), 0);
    ga4.report(&json!({"metrics": ["sessions"]})).refused(-32018);
    realtime(&mut ga4, &json!({"metrics": ["users"], "dimensions": ["event_name"]})).ok();
    let custom = json!({"dimensions": ["customUser:tier"]});
    realtime(&mut ga4, &custom).refused(-32018);
    google.sandbox().set_remaining_tokens(google_sandbox::FULL_EMAIL, google.id("main"), 9);
    // Two refusals are remembered, for whom they were.
    let meta = json!({"credentials": google.another("full", 1)});
    ga4.call("run_realtime_report", &custom, &meta).ok();
    ga4.end_well();
}
