//! `run_report_by_regex_cluster`: what adds up is added up, what does not is asked for.

use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};

use super::bench::{Answer, Ga4, Google, PATIENCE};

fn clusters(ga4: &mut Ga4, arguments: &Value) -> Answer {
    ga4.call("run_report_by_regex_cluster", arguments, &json!({}))
}

fn cluster(name: &str, pattern: &str) -> Value {
    json!({"name": name, "pattern": pattern})
}

/// Sections of the shop; "chairs" is also in "products".
fn sections() -> Value {
    json!([
        cluster("products", "^/products/"),
        cluster("chairs", "CHAIR"),
        cluster("blog", "/blog/|/zzz"),
        cluster("none", "zzzz")
    ])
}

fn sum<'a>(rows: impl Iterator<Item = &'a Value>, metric: &str) -> f64 {
    rows.map(|row| row[metric].as_f64().expect("a number")).sum()
}

#[test]
fn each_value_counts_once_and_the_groups_add_up_to_googles_total() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let metrics = json!(["eventCount", "keyEvents", "totalRevenue", "newUsers"]);
    let truth = ga4.report(&json!({"metrics": metrics, "dimensions": ["pagePath"]})).ok();
    google.calm();
    let answer =
        clusters(&mut ga4, &json!({"dimension": "page_path", "clusters": sections(), "metrics": metrics})).ok();
    assert_eq!(google.reports(), 1, "one report tells it all");
    assert_eq!(answer.column("cluster"), ["products", "chairs", "blog", "none", "(unmatched)"]);
    let regexes = ["^/products/", "(?i)CHAIR", "/blog/|/zzz", "zzzz"].map(|pattern| Regex::new(pattern).unwrap());
    let places = |row: &Value| -> Vec<usize> {
        let path = row["pagePath"].as_str().unwrap();
        (0..regexes.len()).filter(|place| regexes[*place].is_match(path)).collect()
    };
    let all = truth.rows();
    for (place, group) in answer.rows().iter().enumerate() {
        let mine: Vec<&Value> =
            all.iter().filter(|row| places(row).first().copied().unwrap_or(regexes.len()) == place).collect();
        assert_eq!(group["values"], mine.len(), "{group}");
        for metric in ["eventCount", "keyEvents", "totalRevenue", "newUsers"] {
            let expected = sum(mine.iter().copied(), metric);
            assert!((group[metric].as_f64().unwrap() - expected).abs() < 1e-6, "{metric} {expected}: {group}");
        }
        let later: Vec<&Value> =
            all.iter().filter(|row| places(row).iter().skip(1).any(|later| *later == place)).collect();
        if place < regexes.len() {
            assert_eq!(group["overlap"], later.len(), "{group}");
            assert_eq!(group["overlap_eventCount"].as_f64(), Some(sum(later.into_iter(), "eventCount")), "{group}");
        }
    }
    assert!(answer.rows()[1]["overlap"].as_i64() > Some(0), "chairs are also products");
    for metric in ["eventCount", "newUsers"] {
        assert_eq!(Some(answer.sum(metric)), answer.model()["totals"][metric].as_f64(), "{metric}");
        assert_eq!(answer.header(metric)["type"], "integer", "{metric}");
    }
    let share = answer.rows()[4]["eventCount"].as_f64().unwrap() / answer.sum("eventCount");
    let told = answer.model()["extra"]["unmatched_share"]["eventCount"].as_f64().unwrap();
    assert!((told - share).abs() < 1e-5, "{told} {share}");
    assert!(
        answer.warnings().iter().any(|warning| warning.contains("\"none\" matches nothing")),
        "{:?}",
        answer.warnings()
    );
    assert_eq!(answer.info()["arguments"]["dimension"], "pagePath");
    assert_eq!(answer.info()["arguments"]["mode"], "rows");
    assert_eq!(answer.model()["dates"], json!([google.day(28), google.day(1)]));
    ga4.end_well();
}

/// Sums of fractions have no binary noise: attribution splits key events into tenths.
#[test]
fn fractions_are_added_digit_by_digit() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let asked = json!({"dimension": "source", "clusters": [cluster("google", "google"), cluster("mail", "newsletter")], "metrics": ["keyEvents:purchase"]});
    let answer = clusters(&mut ga4, &asked).ok();
    let text = answer.data()["table"].to_string();
    assert_eq!(answer.header("keyEvents:purchase")["type"], "number");
    let cells = answer.column("keyEvents:purchase");
    assert!(cells.iter().any(|cell| cell.as_f64().is_some_and(|number| number.fract() != 0.0)), "{cells:?}");
    for cell in &cells {
        let digits = cell.to_string();
        assert!(digits.split_once('.').is_none_or(|(_, fraction)| fraction.len() <= 1), "{digits} in {text}");
    }
    ga4.end_well();
}

#[test]
fn what_does_not_add_up_is_refused_with_the_way_out() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for metric in [
        "totalUsers",
        "activeUsers",
        "sessions",
        "engagementRate",
        "averageSessionDuration",
        "calcMetric:value_per_session",
        "averageCustomEvent:score",
    ] {
        let asked = json!({"dimension": "pagePath", "clusters": sections(), "metrics": ["eventCount", metric]});
        let message = clusters(&mut ga4, &asked).refused(-32017);
        assert!(message.contains(metric) && message.contains("mode exact") && message.contains("here 7"), "{message}");
    }
    assert_eq!(google.reports(), 0);
    ga4.end_well();
}

/// Complaints 1 to 5: users of several rows are one user.
#[test]
fn exact_asks_google_for_each_group_so_that_users_count_once() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let metrics = json!(["totalUsers", "sessions", "engagementRate", "eventCount"]);
    let asked = json!({"dimension": "pagePath", "clusters": sections(), "metrics": metrics, "mode": "exact",
        "dimension_filters": [{"field": "country", "match_type": "EXACT", "value": "Germany"}]});
    let by_rows = clusters(
        &mut ga4,
        &json!({"dimension": "pagePath", "clusters": sections(), "metrics": ["eventCount"],
        "dimension_filters": asked["dimension_filters"]}),
    )
    .ok();
    google.calm();
    let answer = clusters(&mut ga4, &asked).ok();
    assert_eq!(google.reports(), 7, "four clusters, everything, the rest, (other)");
    assert_eq!(answer.model()["extra"]["requests"], 7);
    assert_eq!(answer.column("cluster"), ["products", "chairs", "blog", "none", "(unmatched)"]);
    assert_eq!(answer.column("eventCount"), by_rows.column("eventCount"), "both modes put each value into one group");
    let filter = |match_type: &str, value: &str, not: bool| json!({"field": "pagePath", "match_type": match_type, "value": value, "not": not});
    let germany = asked["dimension_filters"][0].clone();
    for (place, filters) in [
        (0, json!([germany, filter("PARTIAL_REGEXP", "^/products/", false)])),
        (1, json!([germany, filter("PARTIAL_REGEXP", "chair", false), filter("PARTIAL_REGEXP", "^/products/", true)])),
    ] {
        let truth = ga4.report(&json!({"metrics": metrics, "dimension_filters": filters})).ok();
        for metric in ["totalUsers", "sessions", "engagementRate", "eventCount"] {
            assert_eq!(answer.rows()[place][metric], truth.rows()[0][metric], "{place} {metric}");
        }
    }
    let totals = &answer.model()["totals"];
    assert!(answer.sum("totalUsers") > totals["totalUsers"].as_f64().unwrap(), "somebody is in two groups");
    assert_eq!(Some(answer.sum("eventCount")), totals["eventCount"].as_f64());
    let empty = &answer.rows()[3];
    assert_eq!(
        (&empty["totalUsers"], &empty["sessions"], &empty["engagementRate"]),
        (&json!(0), &json!(0), &Value::Null)
    );
    ga4.end_well();
}

/// What it takes is said while the first answers come.
#[test]
fn exact_says_how_many_requests_and_tokens_it_takes() {
    let google = Google::with_latency(Duration::from_millis(250));
    let mut ga4 = Ga4::start(&google);
    let asked = json!({"dimension": "pagePath", "clusters": sections(), "metrics": ["totalUsers"], "mode": "exact"});
    let id = ga4.begin_call_with_progress("run_report_by_regex_cluster", &asked, &json!({}));
    ga4.wait(id, PATIENCE).ok();
    let heard = ga4.listen(Duration::from_millis(100));
    let messages: Vec<&str> = heard.iter().filter_map(|one| one.json["params"]["message"].as_str()).collect();
    assert!(messages.iter().any(|message| message.contains("of 7 requests, about 7 tokens")), "{messages:?}");
    ga4.end_well();
}

/// Nothing is begun that the quota would break off, and what it would take is said.
#[test]
fn exact_stops_before_the_quota_does() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    ga4.report(&json!({"metrics": ["sessions"]})).ok();
    google.sandbox().set_remaining_tokens(google_sandbox::FULL_EMAIL, google.id("main"), 5);
    google.calm();
    let asked = json!({"dimension": "pagePath", "clusters": sections(), "metrics": ["totalUsers"], "mode": "exact"});
    let message = clusters(&mut ga4, &asked).refused(-32018);
    assert!(message.contains("6 more requests of about 1 tokens") && message.contains("4 tokens"), "{message}");
    assert_eq!(google.reports(), 1);
    ga4.end_well();
}

#[test]
fn rolled_up_rows_are_in_no_cluster() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let wide = json!([cluster("first", "item-00"), cluster("all", ".")]);
    for mode in ["rows", "exact"] {
        let asked = json!({"resource_id": google.id("high_cardinality"), "dimension": "pagePath", "clusters": wide,
            "metrics": ["eventCount"], "mode": mode});
        let answer = clusters(&mut ga4, &asked).ok();
        assert_eq!(answer.column("cluster"), ["first", "all", "(unmatched)", "(other)"], "{mode}");
        assert!(answer.rows()[3]["eventCount"].as_i64() > Some(0), "{mode}");
        assert_eq!(answer.rows()[2]["eventCount"], 0, "{mode}");
        assert_eq!(Some(answer.sum("eventCount")), answer.model()["totals"]["eventCount"].as_f64(), "{mode}");
    }
    let asked = json!({"resource_id": google.id("thresholded"), "dimension": "city", "clusters": [cluster("b", "^b")], "metrics": ["eventCount"]});
    let answer = clusters(&mut ga4, &asked).ok();
    assert_eq!(answer.column("cluster"), ["b", "(unmatched)", "(not in rows)"], "Google withholds small cities");
    assert_eq!(Some(answer.sum("eventCount")), answer.model()["totals"]["eventCount"].as_f64());
    assert!(answer.warnings().iter().any(|warning| warning.contains("(not in rows)")), "{:?}", answer.warnings());
    ga4.end_well();
}

#[test]
fn an_empty_property_gives_empty_groups() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for mode in ["rows", "exact"] {
        let asked = json!({"resource_id": google.id("empty"), "dimension": "pagePath", "clusters": [cluster("a", "a")], "metrics": ["eventCount"], "mode": mode});
        let answer = clusters(&mut ga4, &asked).ok();
        assert_eq!(answer.column("eventCount"), [0, 0], "{mode}");
    }
    ga4.end_well();
}

#[test]
fn patterns_and_names_that_can_not_be_used_are_refused_with_the_fix() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let with = |clusters: Value| json!({"dimension": "pagePath", "metrics": ["eventCount"], "clusters": clusters});
    for (arguments, fix) in [
        (with(json!([])), "Give clusters"),
        (with(json!([cluster("a", "x"), cluster("a", "y")])), "name of its own"),
        (with(json!([cluster(" ", "x")])), "no name"),
        (with(json!([cluster("(unmatched)", "x")])), "taken"),
        (with(json!([cluster("(other)", "x")])), "taken"),
        (with(json!([cluster("a", "(?=x)")])), "look-around"),
        (with(json!([cluster("a", "(")])), "\"a\""),
        (with(json!([cluster("a", "")])), "empty"),
        (with((0..51).map(|n| cluster(&format!("c{n}"), "x")).collect()), "at most 50"),
        (json!({"dimension": "pagePath", "metrics": [], "clusters": [cluster("a", "x")]}), "at least one metric"),
        (json!({"dimension": "pagePaht", "metrics": ["eventCount"], "clusters": [cluster("a", "x")]}), "pagePath"),
        (json!({"dimension": "sessions", "metrics": ["eventCount"], "clusters": [cluster("a", "x")]}), "is a metric"),
        (
            json!({"dimension": "pagePath", "metrics": ["eventCount"], "clusters": [cluster("a", "x")], "mode": "guess"}),
            "rows",
        ),
        (
            json!({"dimension": "pagePath", "metrics": ["eventCount"], "clusters": [cluster("a", "x")], "start_date": "soon"}),
            "start_date",
        ),
    ] {
        let message = clusters(&mut ga4, &arguments).refused(-32017);
        assert!(message.contains(fix), "{arguments}: {message}");
    }
    assert_eq!(google.reports(), 0);
    ga4.end_well();
}

/// Two pages, with 275,000 rows: none is lost, and none is held.
#[test]
fn a_report_of_two_pages_is_classified_whole() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let asked = json!({"resource_id": google.id("bulk"), "dimension": "customEvent:item_id", "metrics": ["eventCount"], "start_date": "11daysAgo",
        "clusters": [cluster("one", "1$"), cluster("even", "[02468]$"), cluster("ends with 11", "11$")]});
    let answer = clusters(&mut ga4, &asked).ok();
    assert_eq!(google.reports(), 2);
    let values: i64 = answer.column("values").iter().filter_map(Value::as_i64).sum();
    assert_eq!(values, 275_000);
    assert_eq!(Some(answer.sum("eventCount")), answer.model()["totals"]["eventCount"].as_f64());
    let rows = answer.rows();
    assert!(rows[2]["values"] == 0 && rows[2]["overlap"].as_i64() > Some(0), "{}", rows[2]);
    assert!(answer.warnings().iter().any(|warning| warning.contains("put it before them")), "{:?}", answer.warnings());
    ga4.end_well();
}

/// A failure in the middle is no smaller table.
#[test]
fn one_group_that_fails_fails_the_call() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    ga4.report(&json!({"metrics": ["sessions"]})).ok();
    for mode in ["rows", "exact"] {
        google.calm();
        let nth = if mode == "rows" { 1 } else { 4 };
        google.fault(
            &json!({"path": ":runReport$", "nth": nth, "times": 99, "action": {"status": {"code": 500, "body": {}}}}),
        );
        let asked = json!({"dimension": "pagePath", "clusters": sections(), "metrics": ["eventCount"], "mode": mode});
        clusters(&mut ga4, &asked).refused(-32018);
    }
    ga4.end_well();
}
