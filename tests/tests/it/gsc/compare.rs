//! `compare_periods`: a full outer join of two periods, with Google's totals for both.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::bench::{Answer, BULK, DOMAIN, Google, Gsc, NOTHING, SearchConsole};

fn compare(gsc: &mut Gsc, arguments: &Value) -> Answer {
    gsc.call("compare_periods", arguments, &json!({}))
}

/// The rows of a question by their key.
fn by_key(google: &Google, site: &str, [start, end]: [&str; 2], dimensions: &[&str]) -> BTreeMap<String, Value> {
    let question = json!({"startDate": start, "endDate": end, "dimensions": dimensions});
    google
        .truth(site, &question)
        .into_iter()
        .map(|row| (json!(row["keys"].as_array().cloned().unwrap_or_default()).to_string(), row))
        .collect()
}

fn key(row: &Value, dimensions: &[&str]) -> String {
    json!(dimensions.iter().map(|name| row[*name].clone()).collect::<Vec<_>>()).to_string()
}

#[test]
fn every_row_of_both_periods_is_there_once_with_nulls_where_it_was_not_shown() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let (now, before) = ([google.final_day(6), google.final_day(0)], [google.final_day(13), google.final_day(7)]);
    let (now, before) = ([now[0].as_str(), now[1].as_str()], [before[0].as_str(), before[1].as_str()]);
    for dimensions in [&["query"][..], &["query", "page"], &["country", "device"], &[]] {
        let answer =
            compare(&mut gsc, &json!({"dimensions": dimensions, "start_date": now[0], "end_date": now[1]})).ok();
        assert_eq!(answer.model()["dates"], json!([now[0], now[1], before[0], before[1]]));
        let (one, two) = (by_key(&google, DOMAIN, now, dimensions), by_key(&google, DOMAIN, before, dimensions));
        let rows = answer.rows();
        let both = one.keys().filter(|key| two.contains_key(*key)).count();
        assert_eq!(rows.len(), one.len() + two.len() - both, "{dimensions:?}");
        let mut statuses = BTreeMap::<&str, usize>::new();
        for row in &rows {
            let (one, two) = (one.get(&key(row, dimensions)), two.get(&key(row, dimensions)));
            let status = match (one, two) {
                (Some(_), Some(_)) => "both",
                (Some(_), None) => "new",
                (None, Some(_)) => "lost",
                (None, None) => panic!("nobody asked for {row}"),
            };
            assert_eq!(row["status"], status, "{row}");
            *statuses.entry(status).or_default() += 1;
            for metric in ["clicks", "impressions", "ctr", "position"] {
                let value = |side: Option<&Value>| side.and_then(|side| side[metric].as_f64());
                let cell = |suffix: &str| row[format!("{metric}{suffix}")].as_f64();
                assert_eq!((cell(""), cell("_before")), (value(one), value(two)), "{metric} of {row}");
                let diff = value(one).zip(value(two)).map(|(one, two)| one - two);
                let close =
                    cell("_diff").zip(diff).map_or(cell("_diff") == diff, |(one, two)| (one - two).abs() < 1e-9);
                assert!(close, "{metric} of {row}");
            }
            let share = one.zip(two).map(|(one, two)| {
                let (one, two) = (one["clicks"].as_f64().unwrap(), two["clicks"].as_f64().unwrap());
                if two > 0.0 { json!((one - two) / two * 100.0) } else { Value::Null }
            });
            assert_eq!(row["clicks_pct"].as_f64(), share.and_then(|share| share.as_f64()), "{row}");
        }
        let varied = !dimensions.contains(&"query") || statuses.len() == 3;
        assert!(varied, "{dimensions:?}: {statuses:?}");

        let counted = if dimensions.contains(&"page") { "byPage" } else { "byProperty" };
        let total = |[start, end]: [&str; 2]| {
            let question = json!({"startDate": start, "endDate": end, "aggregationType": counted});
            google.truth(DOMAIN, &question)[0].clone()
        };
        let (one, two, totals) = (total(now), total(before), answer.model()["totals"].clone());
        assert_eq!((&totals["clicks"], &totals["clicks_before"]), (&whole(&one["clicks"]), &whole(&two["clicks"])));
        assert_eq!(
            totals["impressions_diff"],
            whole(&json!(number(&one, "impressions") - number(&two, "impressions")))
        );
        assert_eq!(answer.model()["extra"]["aggregation"], counted);
    }
    gsc.end_well();
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

fn whole(number: &Value) -> Value {
    json!(number.as_f64().expect("a number") as i64)
}

#[test]
fn the_usual_period_is_four_weeks_and_the_year_before_begins_on_the_same_weekday() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let day = |text: &Value| text.as_str().unwrap().parse::<jiff::civil::Date>().unwrap();
    for (compare_to, back) in [(Value::Null, 28), (json!("previous"), 28), (json!("year"), 364)] {
        let answer = compare(&mut gsc, &json!({"dimensions": ["device"], "compare_to": compare_to})).ok();
        let dates = answer.model()["dates"].clone();
        assert_eq!(dates[1], google.fact("last_final"));
        assert_eq!((day(&dates[1]) - day(&dates[0])).get_days(), 27);
        for (later, earlier) in [(0, 2), (1, 3)] {
            assert_eq!((day(&dates[later]) - day(&dates[earlier])).get_days(), back);
            assert_eq!(day(&dates[later]).weekday(), day(&dates[earlier]).weekday());
        }
        // S-8.9: what the host needs to repeat it.
        let arguments = &answer.info()["arguments"];
        assert_eq!((&arguments["start_date"], &arguments["end_date"]), (&dates[0], &dates[1]));
    }
    gsc.end_well();
}

/// Complaint 32: days that are not finished look like a fall.
#[test]
fn a_period_ends_with_the_last_reliable_day() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let asked = json!({"start_date": google.final_day(3), "end_date": "today", "dimensions": ["device"]});
    let answer = compare(&mut gsc, &asked).ok();
    let dates = [google.final_day(3), google.final_day(0), google.final_day(7), google.final_day(4)];
    assert_eq!(answer.model()["dates"], json!(dates));
    assert!(
        answer.warnings().iter().any(|warning| warning.contains("the period ends there")),
        "{:?}",
        answer.warnings()
    );
    let message = compare(&mut gsc, &json!({"start_date": "today"})).refused(-32017);
    assert!(message.contains(&google.fact("last_final")), "{message}");
    gsc.end_well();
}

#[test]
fn periods_that_do_not_compare_are_refused_before_anything_is_searched() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    compare(&mut gsc, &json!({})).ok();
    google.calm();
    let (start, end) = (google.final_day(6), google.final_day(0));
    for (arguments, fix) in [
        (
            json!({"start_date": start, "end_date": end, "compare_start_date": google.final_day(30), "compare_end_date": google.final_day(20)}),
            google.final_day(24),
        ),
        (
            json!({"start_date": start, "end_date": end, "compare_start_date": google.final_day(8)}),
            "must end before".to_owned(),
        ),
        (json!({"start_date": "400daysAgo", "end_date": "200daysAgo", "compare_to": "year"}), "16 months".to_owned()),
        (json!({"dimensions": ["date"]}), "searchAppearance".to_owned()),
        (json!({"dimensions": ["searchAppearance", "page"]}), "alone".to_owned()),
        (
            json!({"filters": [{"dimension": "query", "operator": "includingRegex", "expression": "(?!a)"}]}),
            "look-around".to_owned(),
        ),
    ] {
        let message = compare(&mut gsc, &arguments).refused(-32017);
        assert!(message.contains(&fix), "{arguments}: {message}");
    }
    assert_eq!(google.searches(), 0);
    gsc.end_well();
}

/// A row that is missing below Google's bound is not lost.
#[test]
fn nothing_is_new_or_lost_against_a_period_that_is_not_complete() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let bulk = google.facts()["search_console"]["bulk"]["last"].as_str().unwrap().to_owned();
    let asked = json!({"resource_id": BULK, "dimensions": ["query", "page"], "start_date": bulk, "end_date": bulk});
    let answer = compare(&mut gsc, &asked).ok();
    let statuses = answer.column("status");
    assert!(statuses.iter().any(|status| status.is_null()) && statuses.iter().any(|status| status == "both"));
    assert!(
        !statuses.iter().any(|status| status == "new" || status == "lost"),
        "both days have more rows than Google gives"
    );
    assert_eq!(answer.model()["extra"]["period"]["complete"], false);
    assert!(
        answer.warnings().iter().any(|warning| warning.contains("below Google's bound")),
        "{:?}",
        answer.warnings()
    );
    // A property without anything has nothing that could be missing.
    let answer = compare(&mut gsc, &json!({"resource_id": NOTHING, "dimensions": ["query"]})).ok();
    assert!(answer.rows().is_empty());
    assert_eq!(answer.model()["extra"]["period"]["complete"], true);
    gsc.end_well();
}

#[test]
fn the_order_is_over_all_rows() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let change = |row: &Value| row["clicks"].as_i64().unwrap_or(0) - row["clicks_before"].as_i64().unwrap_or(0);
    for (order, key) in [
        (json!(null), Box::new(|change: i64| -change.abs()) as Box<dyn Fn(i64) -> i64>),
        (json!("gains"), Box::new(|change: i64| -change)),
        (json!("losses"), Box::new(|change: i64| change)),
    ] {
        let answer = compare(&mut gsc, &json!({"dimensions": ["query"], "order": order})).ok();
        let keys: Vec<i64> = answer.rows().iter().map(|row| key(change(row))).collect();
        assert!(keys.is_sorted(), "{order}");
        assert!(keys[0] < 0, "{order}: something changed");
    }
    gsc.end_well();
}

/// Half a comparison would be read as a fall.
#[test]
fn a_quota_in_the_second_period_fails_the_whole() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let asked = json!({"dimensions": ["query"], "start_date": google.final_day(6), "end_date": google.final_day(0), "walk_days": "always"});
    compare(&mut gsc, &asked).ok();
    let needed = google.searches() as u64;
    google.switch(&json!({"limit": {"site": DOMAIN, "requests": needed - 6}}));
    let message = compare(&mut gsc, &asked).refused(-32018);
    assert!(message.contains("15 minutes"), "{message}");
    gsc.end_well();
}
