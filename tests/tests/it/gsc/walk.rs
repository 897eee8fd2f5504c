//! Day by day: more rows than Google gives for several days, in order, merged, and never with a hole in silence.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::{BULK, DOMAIN, Google, Gsc, SearchConsole, assert_same};
use crate::google::raw::{self, RawGoogle};
use crate::google::source::GSC;

fn asked(google: &Google, site: &str, dimensions: &[&str], days: i64, walk: &str) -> Value {
    json!({"resource_id": site, "dimensions": dimensions, "walk_days": walk,
        "start_date": google.final_day(days - 1), "end_date": google.final_day(0)})
}

/// The rows of each day, asked for without the connector and merged by hand.
fn merged(google: &Google, site: &str, dimensions: &[&str], days: i64) -> Vec<Value> {
    let mut rows: BTreeMap<String, [f64; 3]> = BTreeMap::new();
    for before in (0..days).rev() {
        let day = google.final_day(before);
        for row in google.truth(site, &json!({"startDate": day, "endDate": day, "dimensions": dimensions})) {
            let number = |name: &str| row[name].as_f64().expect("a number");
            let sums = rows.entry(row["keys"].to_string()).or_default();
            sums[0] += number("clicks");
            sums[1] += number("impressions");
            sums[2] += number("position") * number("impressions");
        }
    }
    rows.into_iter()
        .map(|(keys, [clicks, impressions, weighted])| {
            let keys: Value = serde_json::from_str(&keys).expect("keys");
            json!({"keys": keys, "clicks": clicks, "impressions": impressions, "ctr": clicks / impressions, "position": weighted / impressions})
        })
        .collect()
}

/// Complaints 6, 7, 11, 23, 26: every day whole, merged by key, positions weighted, ctr computed anew.
#[test]
fn days_are_merged_by_key() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    for dimensions in [&["query", "page"][..], &["page"], &["query", "country", "device"]] {
        let answer = gsc.search(&asked(&google, DOMAIN, dimensions, 12, "always")).ok();
        assert_same(
            &answer.rows(),
            &merged(&google, DOMAIN, dimensions, 12),
            dimensions,
            format_args!("{dimensions:?}"),
        );
        assert_eq!(answer.model()["extra"]["walked_days"], true);
        let clicks: Vec<Option<i64>> = answer.column("clicks").iter().map(Value::as_i64).collect();
        assert!(clicks.is_sorted_by(|one, two| one >= two), "most clicks first, as Google has it");
    }
    // Days without traffic are days with no rows.
    let quiet = gsc.search(&asked(&google, "https://www.amrum.example/", &["date", "query"], 9, "always")).ok();
    let days: Vec<Value> = quiet.column("date");
    assert!(days.is_sorted_by(|one, two| one.as_str() <= two.as_str()) && !days.is_empty(), "{days:?}");
    let whole = gsc.search(&asked(&google, "https://www.amrum.example/", &["date", "query"], 9, "never")).ok();
    assert_same(&quiet.rows(), &whole.rows(), &["date", "query"], "");
    gsc.end_well();
}

/// The bound of a window is found by reaching it, and then days are asked for by themselves.
#[test]
fn auto_walks_where_google_leaves_rows_out() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let dimensions = ["query", "page"];
    let never = gsc.search(&asked(&google, BULK, &dimensions, 3, "never")).ok();
    assert_eq!(never.model()["total_rows"], 50_000);
    assert!(never.warnings().iter().any(|warning| warning.contains("walk_days always")), "{:?}", never.warnings());
    let auto = gsc.search(&asked(&google, BULK, &dimensions, 3, "auto")).ok();
    // 10,000 pairs are on every day, 40,000 on each of three.
    assert_eq!(auto.model()["total_rows"], 130_000);
    assert_eq!(auto.model()["extra"]["walked_days"], true);
    assert!(auto.warnings().iter().any(|warning| warning.contains("3 day(s)")), "{:?}", auto.warnings());
    let coverage = auto.model()["extra"]["coverage"].clone();
    assert_eq!(coverage["clicks"]["in_rows"].as_f64(), Some(auto.sum("clicks")));
    assert!(coverage["clicks"]["not_in_rows"].as_i64() > Some(0), "{coverage}");
    // Where no bound is near, one question is enough: its rows, their end, and the totals. The first one about a property
    // also asks for its last reliable day.
    gsc.search(&asked(&google, DOMAIN, &["device"], 3, "auto")).ok();
    google.calm();
    let small = gsc.search(&asked(&google, DOMAIN, &dimensions, 3, "auto")).ok();
    assert_eq!(small.model()["extra"]["walked_days"], false);
    assert_eq!(google.searches(), 3);
}

/// A burst limit slows a walk down; no day is lost.
#[test]
fn no_day_is_lost_under_a_burst_limit() {
    let google = Google::with_latency(Duration::from_millis(30));
    let mut gsc = Gsc::start(&google);
    let dimensions = ["date", "query", "page"];
    let free = gsc.search(&asked(&google, DOMAIN, &dimensions, 10, "always")).ok();
    assert_eq!(google.sandbox().max_in_flight(), 3, "as many as are asked at once where nobody objects");
    for (number, limit) in [
        json!({"in_flight": 2}),
        json!({"in_flight": 1, "for_ms": 300, "refusal": "rate_403"}),
        json!({"per_second": 10, "refusal": "qps_429"}),
        json!({"per_second": 3, "refusal": "rate"}),
    ]
    .into_iter()
    .enumerate()
    {
        // Each limit meets a process that nothing was objected to yet.
        let mut gsc = Gsc::start(&google);
        let mut limit = limit;
        limit["site"] = json!(DOMAIN);
        google.calm();
        google.switch(&json!({"limit": limit}));
        let answer = gsc.search(&asked(&google, DOMAIN, &dimensions, 10, "always")).ok();
        assert!(google.sandbox().search_console().refused(DOMAIN) > 0, "{limit}: the limit was never met");
        assert_same(&answer.rows(), &free.rows(), &dimensions, format_args!("{limit}"));
        assert!(!answer.warnings().iter().any(|warning| warning.contains("PARTIAL")), "{:?}", answer.warnings());
        google.sandbox().search_console().clear();
        if number == 0 {
            // Once Google has objected, fewer are on their way at once.
            google.calm();
            gsc.search(&asked(&google, DOMAIN, &dimensions, 3, "always")).ok();
            assert!(google.sandbox().max_in_flight() < 3, "{}", google.sandbox().max_in_flight());
        }
    }
}

/// A load quota ends a walk: what is there is whole days, and the rest is named.
#[test]
fn a_quota_stop_says_that_the_table_is_partial() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let dimensions = ["date", "query"];
    let whole = gsc.search(&asked(&google, DOMAIN, &dimensions, 10, "always")).ok();
    google.calm();
    google.switch(&json!({"limit": {"site": DOMAIN, "requests": 12}}));
    let answer = gsc.search(&asked(&google, DOMAIN, &dimensions, 10, "always")).ok();
    let partial = answer.model()["extra"]["partial"].clone();
    let missing = partial["missing_from"].as_str().expect("a day").to_owned();
    assert_eq!(partial["missing_to"], google.final_day(0));
    assert_eq!(partial["retry_after_s"], 900);
    let expected: Vec<Value> =
        whole.rows().into_iter().filter(|row| row["date"].as_str() < Some(missing.as_str())).collect();
    assert!(!expected.is_empty() && expected.len() < whole.rows().len(), "{partial}");
    assert_same(&answer.rows(), &expected, &dimensions, "whole days");
    assert!(
        answer
            .warnings()
            .iter()
            .any(|warning| warning.contains("PARTIAL") && warning.contains(&missing) && warning.contains("15 minutes")),
        "{:?}",
        answer.warnings()
    );
    assert!(answer.model()["extra"]["coverage"].is_null());

    // Nothing at all is an error and no empty table.
    google.sandbox().search_console().clear();
    google.switch(&json!({"limit": {"site": DOMAIN, "requests": 0}}));
    let error = gsc.search(&asked(&google, DOMAIN, &dimensions, 10, "always"));
    assert!(error.refused(-32018).contains("15 minutes"));
    assert_eq!(error.acp()["error"]["data"]["retry_after_s"], 900);
}

/// Days are asked for ahead of the reader, three at most: a wait for Google is shared by all of them.
#[test]
fn days_are_asked_for_ahead() {
    let google = Google::with_latency(Duration::from_millis(100));
    let mut gsc = Gsc::start(&google);
    gsc.search(&asked(&google, DOMAIN, &["device"], 3, "never")).ok();
    google.calm();
    gsc.search(&asked(&google, DOMAIN, &["query", "page"], 12, "always")).ok();
    assert_eq!(google.sandbox().max_in_flight(), 3);
    assert!(google.searches() > 24, "each day to its empty page, and the totals: {}", google.searches());
}

#[test]
fn progress_is_in_days() {
    let google = Google::with_latency(Duration::from_millis(60));
    let mut gsc = Gsc::start(&google);
    let arguments = asked(&google, DOMAIN, &["date", "query"], 30, "always");
    let id = gsc.begin_call_with_progress("search_analytics", &arguments, &json!({}));
    gsc.answer(id, "search_analytics", &arguments).ok();
    let told: Vec<Value> =
        gsc.listen(Duration::from_millis(1)).iter().map(|message| message.json["params"].clone()).collect();
    assert!(
        told.iter().any(|params| params["total"] == 30.0
            && params["message"].as_str().is_some_and(|text| text.contains("of 30 days"))),
        "{told:?}"
    );
}

/// A Google with so many rows a day, each with values of so many bytes; without a date it has the same rows on and on.
fn wide(google: &Google, rows: usize, bytes: usize) -> RawGoogle {
    RawGoogle::start(&GSC, google, move |number, body| {
        let day = &body["startDate"];
        let dated = body["dimensions"][0] == "date";
        let row = |row: usize| {
            let value = format!("{row:0>bytes$}");
            let keys = if dated { json!([day, value]) } else { json!([value]) };
            json!({"keys": keys, "clicks": 0.0, "impressions": 1.0, "ctr": 0.0, "position": 1.0})
        };
        let rows = match dated {
            true if body.get("startRow").is_some() => Vec::new(),
            true => (0..rows).map(row).collect(),
            false => (rows * number..rows * (number + 1)).map(row).collect(),
        };
        raw::ok(&json!({"rows": rows, "responseAggregationType": "byProperty"}))
    })
}

/// Rows of days by themselves go to the table as they come; what is held is a few days.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_days() {
    let sandbox = Google::start();
    let google = wide(&sandbox, 300, 2_000);
    let mut gsc = GSC.start(&sandbox, &[("ACP_GOOGLE_SANDBOX", &google.url)]);
    let mut peak_of = |days: u64| {
        let asked = json!({"dimensions": ["date", "query"], "walk_days": "always", "start_date": format!("{}daysAgo", 9 + days), "end_date": "10daysAgo"});
        let answer = gsc.call("search_analytics", &asked, &json!({"credentials": raw::credentials(&sandbox)})).ok();
        assert_eq!(answer.model()["total_rows"], 300 * days);
        gsc.peak_memory()
    };
    let (few, many) = (peak_of(5), peak_of(90));
    // The further days have 48 MiB of values. What the allocator keeps of what was given back depends on the load.
    assert!(many < few + (24 << 20), "{} MiB for five days, {} MiB for ninety", few >> 20, many >> 20);
}

/// What has to be held has a bound, in rows and in bytes; beyond it there is an error that says what to do. The other bound is
/// in `cargo xtask bench`, since two million rows take their time.
#[test]
fn more_than_may_be_held_is_an_error() {
    let sandbox = Google::start();
    let google = wide(&sandbox, 1_000, 20_000);
    let mut gsc = GSC.start(&sandbox, &[("ACP_GOOGLE_SANDBOX", &google.url)]);
    let asked = json!({"dimensions": ["query"], "walk_days": "never", "start_date": "40daysAgo", "end_date": "30daysAgo", "order_by": [{"field": "impressions"}]});
    let meta = json!({"credentials": raw::credentials(&sandbox)});
    let id = gsc.begin_call("search_analytics", &asked, &meta);
    let message = gsc.answer(id, "search_analytics", &asked).refused(-32017);
    assert!(message.contains("256 MiB") && message.contains("shorter window"), "{message}");
    assert!((13..=16).contains(&google.asked()), "{} pages of 20 MB", google.asked());
    #[cfg(target_os = "linux")]
    assert!(gsc.peak_memory() < 512 << 20, "{} MiB", gsc.peak_memory() >> 20);
    gsc.assert_alive("a question that was too large");
    assert!(gsc.files("tmp").is_empty());
    gsc.end_well();
}

/// Pages that never end, each with something new: a bound ends them, for a window and for a day.
#[test]
fn new_rows_for_ever_end() {
    let sandbox = Google::start();
    let google = wide(&sandbox, 1, 10);
    let mut gsc = GSC.start(&sandbox, &[("ACP_GOOGLE_SANDBOX", &google.url)]);
    let meta = json!({"credentials": raw::credentials(&sandbox)});
    // A day has two full pages of rows as a rule, a window of all months about a thousand.
    for (walk, most) in [("never", 2_001), ("always", 2_001 + 3 * 21)] {
        let asked =
            json!({"dimensions": ["query"], "walk_days": walk, "start_date": "40daysAgo", "end_date": "30daysAgo"});
        let id = gsc.begin_call("search_analytics", &asked, &meta);
        let message = gsc.answer(id, "search_analytics", &asked).refused(-32018);
        assert!(message.contains("does not end"), "{walk}: {message}");
        assert!(google.asked() <= most, "{walk}: {} requests", google.asked());
    }
    gsc.end_well();
}
