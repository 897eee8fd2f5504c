//! Reports that take several requests: many metrics, several periods, day by day; and pages that are asked for ahead.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::{Answer, Ga4, Google, PATIENCE, day_of};

/// Fourteen, of which some add up and some do not.
const METRICS: [&str; 14] = [
    "sessions",
    "totalUsers",
    "newUsers",
    "eventCount",
    "screenPageViews",
    "ecommercePurchases",
    "totalRevenue",
    "activeUsers",
    "engagedSessions",
    "keyEvents",
    "bounceRate",
    "engagementRate",
    "averageSessionDuration",
    "keyEvents:purchase",
];

fn by_key(rows: Vec<Value>, key: &str) -> BTreeMap<String, Value> {
    rows.into_iter().map(|row| (row[key].as_str().expect("a text").to_owned(), row)).collect()
}

fn says(answer: &Answer, words: &str) -> bool {
    answer.warnings().iter().any(|warning| warning.contains(words))
}

/// A report of Google's by country, made up.
fn made_up(metrics: &[&str], rows: &[(&str, &str)], flag: &str) -> Value {
    let cells = |text: &str| vec![json!({"value": text}); metrics.len()];
    let rows: Vec<Value> = rows
        .iter()
        .map(|(country, value)| json!({"dimensionValues": [{"value": country}], "metricValues": cells(value)}))
        .collect();
    let mut report = json!({
        "kind": "analyticsData#runReport", "dimensionHeaders": [{"name": "country"}], "rowCount": rows.len(), "rows": rows,
        "metricHeaders": metrics.iter().map(|name| json!({"name": name, "type": "TYPE_INTEGER"})).collect::<Vec<_>>(),
        "totals": [{"dimensionValues": [{"value": "RESERVED_TOTAL"}], "metricValues": cells("100")}],
        "metadata": {"currencyCode": "EUR", "timeZone": "Europe/Berlin"},
    });
    if !flag.is_empty() {
        report["metadata"][flag] = json!(true);
    }
    json!({"status": {"code": 200, "body": report}})
}

#[test]
fn more_metrics_than_google_takes_are_joined() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let ask = |metrics: &[&str]| json!({"metrics": metrics, "dimensions": ["country"]});
    let (one, two) = (ga4.report(&ask(&METRICS[..10])).ok(), ga4.report(&ask(&METRICS[10..])).ok());
    google.calm();
    let all = ga4.report(&ask(&METRICS)).ok();
    assert_eq!(google.reports(), 2);
    assert_eq!(all.warnings(), Vec::<String>::new());
    assert_eq!(all.column("country"), one.column("country"), "in the order of one report");
    let (one_rows, two_rows) = (by_key(one.rows(), "country"), by_key(two.rows(), "country"));
    for row in all.rows() {
        let country = row["country"].as_str().unwrap();
        for (place, name) in METRICS.iter().enumerate() {
            let truth = if place < 10 { &one_rows[country][name] } else { &two_rows[country][name] };
            assert_eq!(row[name], *truth, "{country} {name}");
        }
    }
    let totals = all.model()["totals"].clone();
    for (place, name) in METRICS.iter().enumerate() {
        let truth = if place < 10 { one.model()["totals"][name].clone() } else { two.model()["totals"][name].clone() };
        assert_eq!(totals[name], truth, "{name}");
    }
    assert_eq!(all.model()["extra"]["requests"], 2);
    assert_eq!(all.info()["source"]["property_quota"], all.model()["extra"]["quota"]);

    // Ordered by a metric of the second request, and cut.
    let mut ordered = ask(&METRICS);
    ordered["order_by"] = json!([{"field": "keyEvents:purchase"}, {"field": "country", "desc": true}]);
    ordered["limit"] = json!(5);
    let cut = ga4.report(&ordered).ok();
    let sorted = cut.column("keyEvents:purchase");
    assert!(sorted.windows(2).all(|pair| pair[0].as_f64() >= pair[1].as_f64()), "{sorted:?}");
    assert_eq!((sorted.len(), cut.model()["totals"].clone()), (5, totals));
    assert!(says(&cut, "limit cut the report"), "{:?}", cut.warnings());
    // Each request is checked as a whole before anything is asked.
    let checked = ga4.call("validate_report", &json!({"arguments": ask(&METRICS)}), &json!({})).ok().model();
    assert_eq!(checked["valid"], true, "{checked}");
    assert_eq!(google.asked(":checkCompatibility").len(), 2);
    ga4.end_well();
}

/// A join must neither lose a row that only one of the requests has nor make up what the other would say.
#[test]
fn rows_that_differ_between_requests_are_noticed_and_kept() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let arguments = json!({"metrics": &METRICS[..12], "dimensions": ["country"]});
    ga4.report(&arguments).ok();
    google.calm();
    google.fault(&json!({"path": ":runReport$", "nth": 1, "action": made_up(&METRICS[..10], &[("Germany", "60"), ("Atlantis", "40"), ("Nowhere", "0")], "")}));
    google.fault(&json!({"path": ":runReport$", "nth": 2, "action": made_up(&METRICS[10..12], &[("Germany", "1"), ("Utopia", "2"), ("Nowhere", "0")], "")}));
    let answer = ga4.report(&arguments).ok();
    assert_eq!(answer.column("country"), ["Germany", "Atlantis", "Utopia"], "rows of zeros are not kept");
    assert_eq!(answer.column("sessions"), [json!(60), json!(40), Value::Null]);
    assert_eq!(answer.column("bounceRate"), [json!(1), Value::Null, json!(2)]);
    assert!(says(&answer, "2 rows came with some of the metrics only"), "{:?}", answer.warnings());
    // Nothing of one kind is not nothing: sessions of 0 beside events are a row.
    google.calm();
    let quiet = |value| [("Quiet", value)];
    google.fault(&json!({"path": ":runReport$", "nth": 1, "action": made_up(&METRICS[..10], &quiet("0"), "")}));
    google.fault(&json!({"path": ":runReport$", "nth": 2, "action": made_up(&METRICS[10..12], &quiet("5"), "")}));
    let answer = ga4.report(&arguments).ok();
    assert_eq!((answer.column("sessions"), answer.column("bounceRate")), (vec![json!(0)], vec![json!(5)]));
    // The same row twice is no report.
    google.calm();
    google.fault(&json!({"path": ":runReport$", "nth": 2, "action": made_up(&METRICS[10..12], &[("Germany", "1"), ("Germany", "1")], "")}));
    assert!(ga4.report(&arguments).refused(-32018).contains("twice"));
    ga4.end_well();
}

#[test]
fn compared_ranges_are_googles_and_never_confused() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let day = |ago: i64| google.day(ago);
    let single = |start: i64, end: i64| json!({"metrics": ["sessions", "totalUsers"], "dimensions": ["country", "deviceCategory"], "start_date": day(start), "end_date": day(end)});
    let periods = [(7, 1), (14, 8), (371, 365)];
    let truths: Vec<Answer> = periods.iter().map(|(start, end)| ga4.report(&single(*start, *end)).ok()).collect();
    google.calm();
    let mut arguments = single(7, 1);
    arguments["compare_ranges"] = json!([
        {"start_date": "14daysAgo", "end_date": "8daysAgo", "name": "week before"},
        {"start_date": day(371), "end_date": day(365)},
    ]);
    let answer = ga4.report(&arguments).ok();
    assert_eq!(google.reports(), 3);
    assert_eq!(answer.warnings(), Vec::<String>::new());
    let rows = answer.rows();
    for (name, truth) in ["current", "week before", "range_3"].into_iter().zip(&truths) {
        let mine: Vec<Value> = rows
            .iter()
            .filter(|row| row["dateRange"] == name)
            .map(|row| {
                let mut row = row.clone();
                row.as_object_mut().unwrap().remove("dateRange");
                row
            })
            .collect();
        let sorted = |mut rows: Vec<Value>| {
            rows.sort_by_key(Value::to_string);
            rows
        };
        assert_eq!(sorted(mine), sorted(truth.rows()), "{name}");
        assert_eq!(answer.model()["extra"]["totals_by_range"][name], truth.model()["totals"], "{name}");
    }
    assert_eq!(answer.model()["totals"], truths[0].model()["totals"]);
    // What belongs together stands together, so that the few rows a model sees can be compared.
    let key = |row: &Value| format!("{} {}", row["country"], row["deviceCategory"]);
    let mut seen: Vec<String> = rows.iter().map(key).collect();
    seen.dedup();
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count);
    assert_eq!(key(&rows[0]), key(&rows[1]));
    // The answer repeats it, with days and names in place.
    let told = answer.info()["arguments"].clone();
    assert_eq!(told["compare_ranges"][0]["start_date"], day(14));
    assert_eq!(told["compare_ranges"][1]["name"], "range_3");
    assert_eq!(answer.model()["dates"], json!([day(7), day(1), day(14), day(8), day(371), day(365)]));
    assert_eq!(ga4.report(&told).ok().rows(), rows);
    // A limit counts what is compared: no row loses the one that it is compared with.
    arguments["limit"] = json!(2);
    let cut = ga4.report(&arguments).ok();
    assert_eq!(
        cut.rows(),
        rows.iter().filter(|row| [key(&rows[0]), key(&rows[3])].contains(&key(row))).cloned().collect::<Vec<_>>()
    );
    assert!(says(&cut, "each with a row for every range"), "{:?}", cut.warnings());
    ga4.end_well();
}

#[test]
fn ranges_that_are_hard_to_compare_are_said() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let mut warned = |start: i64, end: i64| {
        let other = json!({"start_date": google.day(start), "end_date": google.day(end)});
        let answer = ga4.report(&json!({"metrics": ["sessions"], "start_date": google.day(7), "end_date": google.day(1), "compare_ranges": [other]})).ok();
        assert_eq!(answer.column("dateRange"), ["current", "previous"]);
        (says(&answer, "current has 7 days, previous has"), says(&answer, "overlap"))
    };
    assert_eq!(warned(14, 8), (false, false));
    assert_eq!(warned(15, 8), (true, false));
    assert_eq!(warned(10, 4), (false, true));
    // Names are the person's own.
    let named = json!({"metrics": ["sessions"], "compare_ranges": [{"start_date": "56daysAgo", "end_date": "29daysAgo", "name": "früher"}]});
    assert_eq!(ga4.report(&named).ok().column("dateRange"), ["current", "früher"]);
    ga4.end_well();
}

/// A long range loses rows that a short one has; users are never added up to get them back.
#[test]
fn a_report_that_lost_rows_is_asked_for_day_by_day() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let id = google.id("high_cardinality");
    let ask = |metrics: Value, more: Value| {
        let mut arguments = json!({"resource_id": id, "metrics": metrics, "dimensions": ["pagePath"], "start_date": "5daysAgo", "end_date": "yesterday"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let rolled = ga4.report(&ask(json!(["eventCount", "totalRevenue"]), json!({"split": "never"}))).ok();
    assert!(rolled.column("pagePath").contains(&json!("(other)")) && says(&rolled, "(other)"));
    google.calm();
    let whole = ga4.report(&ask(json!(["eventCount", "totalRevenue"]), json!({}))).ok();
    assert_eq!(google.reports(), 6, "the whole and five days");
    assert!(!whole.column("pagePath").contains(&json!("(other)")));
    assert!(says(&whole, "day by day (5 requests)") && !says(&whole, "incomplete"), "{:?}", whole.warnings());
    assert!(whole.rows().len() > rolled.rows().len());
    assert_eq!(whole.model()["totals"], rolled.model()["totals"]);
    assert_eq!(Some(whole.sum("eventCount")), whole.model()["totals"]["eventCount"].as_f64());
    assert_eq!(whole.model()["extra"]["split"], "day");
    // Asked for, it is the same without the first of them.
    let days = ga4.report(&ask(json!(["eventCount", "totalRevenue"]), json!({"split": "day"}))).ok();
    assert_eq!((days.rows(), days.model()["totals"].clone()), (whole.rows(), whole.model()["totals"].clone()));
    // Each row is the sum of its days.
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for ago in 1..=5 {
        let day = day_of(google.property("high_cardinality"), ago);
        let one = ga4.report(&ask(json!(["eventCount"]), json!({"start_date": day, "end_date": day}))).ok();
        for row in one.rows() {
            *sums.entry(row["pagePath"].as_str().unwrap().to_owned()).or_default() +=
                row["eventCount"].as_f64().unwrap();
        }
    }
    for (path, row) in by_key(whole.rows(), "pagePath") {
        assert_eq!(row["eventCount"].as_f64(), sums.remove(&path), "{path}");
    }
    assert!(sums.is_empty(), "{sums:?}");
    // Users would count twice.
    google.calm();
    let users = ga4.report(&ask(json!(["eventCount", "totalUsers"]), json!({"split": "auto"}))).ok();
    assert_eq!(google.reports(), 1);
    assert!(users.column("pagePath").contains(&json!("(other)")));
    assert!(says(&users, "totalUsers does not add up over days") && says(&users, "(other)"), "{:?}", users.warnings());
    // Rows that tell their day are not added up.
    let mut dated = ask(json!(["eventCount", "totalUsers"]), json!({}));
    dated["dimensions"] = json!(["date", "pagePath"]);
    let dated = ga4.report(&dated).ok();
    assert!(says(&dated, "day by day") && !dated.column("pagePath").contains(&json!("(other)")));
    assert_eq!(
        dated.model()["totals"]["totalUsers"],
        users.model()["totals"]["totalUsers"],
        "Google's, over the whole range"
    );
    ga4.end_well();
}

#[test]
fn a_sample_is_avoided_day_by_day_and_what_is_left_is_counted() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let sampled = json!({"resource_id": google.id("sampled"), "metrics": ["eventCount"], "dimensions": ["country"], "start_date": "3daysAgo", "end_date": "yesterday"});
    let answer = ga4.report(&sampled).ok();
    assert!(!says(&answer, "sample") && says(&answer, "day by day"), "{:?}", answer.warnings());
    assert_eq!(Some(answer.sum("eventCount")), answer.model()["totals"]["eventCount"].as_f64());

    let dated = json!({"metrics": ["eventCount"], "dimensions": ["country"], "start_date": google.day(3), "end_date": google.day(1), "split": "day"});
    ga4.report(&dated).ok();
    google.calm();
    google.fault(&json!({"path": ":runReport$", "nth": 3, "times": 2, "action": made_up(&["eventCount"], &[("(other)", "5")], "dataLossFromOtherRow")}));
    let answer = ga4.report(&dated).ok();
    assert!(says(&answer, "2 of 3 daily reports still have a row \"(other)\""), "{:?}", answer.warnings());
    assert_eq!(by_key(answer.rows(), "country")["(other)"]["eventCount"], 10);
    ga4.end_well();
}

/// A quota that is nearly used up must not break a report off in the middle.
#[test]
fn many_requests_are_not_begun_without_the_quota_for_them() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let dated = json!({"metrics": ["eventCount"], "dimensions": ["country"], "start_date": google.day(20), "end_date": google.day(1), "split": "day"});
    ga4.report(&dated).ok();
    let email = google.facts()["identities"]["full"]["email"].as_str().expect("an address").to_owned();
    google.sandbox().set_remaining_tokens(&email, google.id("main"), 8);
    google.calm();
    let message = ga4.report(&dated).refused(-32018);
    assert!(message.contains("19 more requests") && message.contains("split never"), "{message}");
    assert_eq!(google.reports(), 2, "the whole and the first day");
    ga4.end_well();
}

#[test]
fn days_without_data_are_filled_only_on_request_and_marked() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let rare = json!([{"field": "city", "match_type": "EXACT", "value": "Salzburg"}, {"field": "eventName", "match_type": "EXACT", "value": "purchase"}]);
    let mut arguments = json!({"metrics": ["eventCount", "bounceRate"], "dimensions": ["date"], "dimension_filters": rare, "order_by": [{"field": "date"}], "end_date": "2daysAhead"});
    arguments["end_date"] = json!(google.day(-3));
    let plain = ga4.report(&arguments).ok();
    arguments["fill_days"] = json!(true);
    let filled = ga4.report(&arguments).ok();
    let there: Vec<Value> = plain.column("date");
    assert!(there.len() < 29, "no day is missing: {there:?}");
    let mut kept = arguments.clone();
    kept.as_object_mut().unwrap().remove("fill_days");
    kept["keep_empty_rows"] = json!(true);
    assert_eq!(ga4.report(&kept).ok().column("date"), there, "rows of zeros are no days without rows");
    assert!(plain.header("filled").is_null());
    let days: Vec<String> = (0..=28).rev().map(|ago| google.day(ago)).collect();
    assert_eq!(filled.column("date"), days, "up to today, not beyond");
    for row in filled.rows() {
        match plain.rows().iter().find(|known| known["date"] == row["date"]) {
            Some(known) => assert_eq!((&row["eventCount"], &row["filled"]), (&known["eventCount"], &json!(false))),
            None => assert_eq!(
                (&row["eventCount"], &row["bounceRate"], &row["filled"]),
                (&json!(0), &Value::Null, &json!(true))
            ),
        }
    }
    assert!(says(&filled, "days have no data and were filled in"), "{:?}", filled.warnings());
    assert_eq!(filled.header("filled")["type"], "boolean");
    assert_eq!(filled.model()["totals"], plain.model()["totals"]);
    // A day without sessions has events all the same.
    let day = google.day(1);
    let body = json!({"kind": "analyticsData#runReport", "dimensionHeaders": [{"name": "date"}], "rowCount": 1,
        "metricHeaders": [{"name": "sessions"}, {"name": "eventCount"}],
        "rows": [{"dimensionValues": [{"value": day.replace('-', "")}], "metricValues": [{"value": "0"}, {"value": "7"}]}],
        "metadata": {"currencyCode": "EUR", "timeZone": "Europe/Berlin"}});
    google.calm();
    google.fault(&json!({"path": ":runReport$", "action": {"status": {"code": 200, "body": body}}}));
    let quiet = json!({"metrics": ["sessions", "eventCount"], "dimensions": ["date"], "fill_days": true, "start_date": google.day(2), "end_date": day});
    let days = by_key(ga4.report(&quiet).ok().rows(), "date");
    assert_eq!((&days[&day]["eventCount"], &days[&day]["filled"]), (&json!(7), &json!(false)));
    assert_eq!((&days[&google.day(2)]["eventCount"], &days[&google.day(2)]["filled"]), (&json!(0), &json!(true)));
    ga4.end_well();
}

/// Google takes seconds before a page begins: the pages after the first are on their way together.
#[test]
fn pages_are_asked_for_ahead_within_the_propertys_bound() {
    let google = Google::with_latency(Duration::from_millis(400));
    let mut ga4 = Ga4::start(&google);
    let property = google.property("bulk");
    let many = |days: i64| json!({"resource_id": property["id"], "metrics": ["eventCount"], "dimensions": ["customEvent:item_id"], "start_date": day_of(property, days), "end_date": day_of(property, 1)});
    let id = ga4.begin_call("run_report", &many(1), &json!({}));
    ga4.wait(id, PATIENCE).ok();
    google.calm();
    let id = ga4.begin_call("run_report", &many(32), &json!({}));
    let answer = ga4.wait(id, PATIENCE).ok();
    assert_eq!(answer.model()["total_rows"], 800_000);
    assert_eq!(google.reports(), 4);
    assert_eq!(google.sandbox().max_in_flight(), 3, "pages 2, 3 and 4 at once");
    assert!(google.asked(":runReport").iter().all(|request| request.status == 200));
    // A report of one page is one request: nothing is asked for that is not known to be there.
    google.calm();
    let id = ga4.begin_call("run_report", &many(10), &json!({}));
    ga4.wait(id, PATIENCE).ok();
    assert_eq!(google.reports(), 1);
    ga4.end_well();
}
