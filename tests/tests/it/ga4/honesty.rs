//! What a figure is and is not: columns and warnings that keep a model from a wrong conclusion.

use serde_json::{Value, json};

use super::bench::{Answer, Ga4, Google};

fn says(answer: &Answer, words: &str) -> bool {
    answer.warnings().iter().any(|warning| warning.contains(words))
}

#[test]
fn columns_say_what_adds_up_and_what_is_an_estimate() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let answer = ga4
        .report(&json!({"metrics": ["eventCount", "totalUsers", "sessions", "bounceRate"], "dimensions": ["country"]}))
        .ok();
    let description = |name: &str| answer.header(name)["description"].as_str().expect("a description").to_owned();
    assert!(description("eventCount").ends_with("; adds up"));
    assert!(description("totalUsers").contains("estimate (HyperLogLog++), does not add up"));
    assert!(description("sessions").contains("estimate (HyperLogLog++), does not add up"));
    assert!(
        description("bounceRate").ends_with("; does not add up") && !description("bounceRate").contains("estimate")
    );
    // A session that goes past midnight is one of both days, and one of the whole.
    let days = ga4.report(&json!({"metrics": ["sessions"], "dimensions": ["date"]})).ok();
    assert!(days.sum("sessions") > days.model()["totals"]["sessions"].as_f64().expect("sessions"));
    ga4.end_well();
}

/// Google processes data for two days; older figures are told without a word.
#[test]
fn figures_that_may_still_change_are_named() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let mut from = |start: i64, end: i64| {
        let answer = ga4
            .report(&json!({"metrics": ["sessions"], "start_date": google.day(start), "end_date": google.day(end)}))
            .ok();
        let told = answer.model()["extra"]["may_change_from"].clone();
        let described = answer.model()["description"].as_str().unwrap().contains("May still change: from");
        assert_eq!(described, told.is_string());
        told
    };
    assert_eq!(from(28, 1), json!(google.day(2)));
    assert_eq!(from(1, 1), json!(google.day(1)));
    assert_eq!(from(28, 3), Value::Null);
    // What is asked again is asked of Google again.
    let today = json!({"metrics": ["sessions"], "start_date": "today", "end_date": "today"});
    let early = json!({"kind": "analyticsData#runReport", "metricHeaders": [{"name": "sessions"}], "rowCount": 1,
        "rows": [{"metricValues": [{"value": "3"}]}], "metadata": {"timeZone": "Europe/Berlin", "currencyCode": "EUR"}});
    for sessions in ["3", "17"] {
        let body = early.to_string().replace(r#""3""#, &format!("\"{sessions}\""));
        google.calm();
        google.fault(&json!({"path": ":runReport$", "action": {"status": {"code": 200, "body": body}}}));
        assert_eq!(ga4.report(&today).ok().column("sessions")[0].to_string(), sessions);
    }
    ga4.end_well();
}

#[test]
fn ranges_before_the_property_or_its_retention_are_said() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let mut report = |start: &str| {
        ga4.report(&json!({"metrics": ["sessions"], "start_date": start, "end_date": google.day(1)})).ok()
    };
    let early = report("2020-01-01");
    assert!(says(&early, "the property was made on 2024-02-01"), "{:?}", early.warnings());
    let kept = report(&google.day(500));
    assert!(says(&kept, "keeps single events for 14 months"), "{:?}", kept.warnings());
    assert_eq!(report(&google.day(100)).warnings(), Vec::<String>::new());
    // The Admin API may be off: then nothing is known, and nothing said.
    let off = json!({"status": {"code": 403, "body": {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "Disabled."}}}});
    google
        .fault(&json!({"path": "^/v1(alpha|beta)/properties/\\d+(/[a-zA-Z]+Settings)?$", "times": 99, "action": off}));
    let somebody = google.another("full", 1);
    let answer = ga4
        .report_as(&somebody, &json!({"metrics": ["sessions"], "start_date": "2020-01-01", "end_date": google.day(1)}))
        .ok();
    assert_eq!(answer.warnings(), Vec::<String>::new());
    ga4.end_well();
}

/// Each period is asked for alone, and so are its notices.
#[test]
fn notices_name_the_range_that_they_are_about() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let arguments = json!({
        "resource_id": google.id("sampled"), "metrics": ["totalUsers"], "dimensions": ["country"], "start_date": "7daysAgo", "end_date": "yesterday",
        "compare_ranges": [{"start_date": "14daysAgo", "end_date": "8daysAgo", "name": "before"}],
    });
    let answer = ga4.report(&arguments).ok();
    for name in ["current", "before"] {
        assert!(
            says(&answer, &format!("Range {name}: The report is an estimate from a sample of 41.3 %")),
            "{:?}",
            answer.warnings()
        );
    }
    let revenue = json!({
        "resource_id": google.id("revenue_restricted"), "metrics": ["totalRevenue"],
        "compare_ranges": [{"start_date": "56daysAgo", "end_date": "29daysAgo"}],
    });
    assert!(says(&ga4.report(&revenue).ok(), "totalRevenue reads 0, which is not its value"));
    ga4.end_well();
}

/// A metric that nothing feeds reads 0, which looks like a figure.
#[test]
fn a_metric_that_nothing_feeds_is_no_zero() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let asked = |more: Value| {
        let mut arguments = json!({"metrics": ["sessions", "publisherAdClicks", "advertiserAdClicks"], "dimensions": ["sessionCampaignName"]});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let before = json!({"start_date": "56daysAgo", "end_date": "29daysAgo"});
    for more in [json!({}), json!({"compare_ranges": [before]})] {
        let answer = ga4.report(&asked(more)).ok();
        assert!(answer.column("publisherAdClicks").iter().all(|clicks| *clicks == 0));
        assert!(answer.sum("advertiserAdClicks") > 0.0);
        let warnings = answer.warnings();
        assert!(
            warnings.len() == 1 && warnings[0].contains("publisherAdClicks is 0 in all of the report"),
            "{warnings:?}"
        );
        assert!(warnings[0].contains("AdMob"), "{warnings:?}");
    }
    // On a single day, or of some rows only, nothing is no surprise.
    assert_eq!(
        ga4.report(&asked(json!({"start_date": google.day(3), "end_date": google.day(3)}))).ok().warnings(),
        Vec::<String>::new()
    );
    let one = json!([{"field": "country", "match_type": "EXACT", "value": "Germany"}]);
    assert_eq!(ga4.report(&asked(json!({"dimension_filters": one}))).ok().warnings(), Vec::<String>::new());
    ga4.end_well();
}

#[test]
fn a_range_that_has_not_begun_is_said() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let answer =
        ga4.report(&json!({"metrics": ["sessions"], "start_date": google.day(-2), "end_date": google.day(-9)})).ok();
    assert_eq!(answer.rows(), Vec::<Value>::new());
    assert!(says(&answer, &format!("begins after today, which is {}", google.day(0))), "{:?}", answer.warnings());
    let funnel = json!({"steps": [{"event": "purchase"}], "start_date": google.day(-2), "end_date": google.day(-9)});
    let answer = ga4.call("run_funnel_report", &funnel, &json!({})).ok();
    assert!(says(&answer, "begins after today"), "{:?}", answer.warnings());
    ga4.end_well();
}
