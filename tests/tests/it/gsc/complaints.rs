//! What people complained about elsewhere and no other suite looks at. `docs/complaints.md` says what shows the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::{BULK, DOMAIN, Google, Gsc, NOTHING, SHOP, SearchConsole, assert_same};
use crate::google::PATIENCE;

/// Days of it are absent when nobody saw it.
const QUIET: &str = "sc-domain:xn--mbel-5qa.example";

fn asked(google: &Google, dimensions: &[&str], days: i64) -> Value {
    json!({"dimensions": dimensions, "start_date": google.final_day(days - 1), "end_date": google.final_day(0)})
}

fn with(mut arguments: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("arguments") {
        arguments[name] = value.clone();
    }
    arguments
}

/// The same question without the connector.
fn question(google: &Google, dimensions: &[&str], days: i64) -> Value {
    json!({"dimensions": dimensions, "startDate": google.final_day(days - 1), "endDate": google.final_day(0)})
}

fn fault(google: &Google, nth: u64, times: u64, code: u16, body: &Value) {
    let action = json!({"status": {"code": code, "body": body.to_string()}});
    google.fault(&json!({"path": "/searchAnalytics/query$", "nth": nth, "times": times, "action": action}));
}

/// A short page is not the end, and the next one begins where it ended.
#[test]
fn short_pages_are_not_the_end() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let dimensions = ["date", "query", "page"];
    gsc.search(&asked(&google, &["device"], 20)).ok();
    google.calm();
    let answer = gsc.search(&with(asked(&google, &dimensions, 20), &json!({"walk_days": "always"}))).ok();
    assert!(google.searches() > 2 * 20 + 1, "some day came in more than one page: {}", google.searches());
    assert_same(&answer.rows(), &google.truth(DOMAIN, &question(&google, &dimensions, 20)), &dimensions, "");
    assert!(answer.column("clicks").contains(&json!(0)), "rows without a click are rows");
    gsc.end_well();
}

#[test]
fn an_empty_day_is_no_rows() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let days = google.truth(QUIET, &question(&google, &["date"], 28));
    assert!(!days.is_empty() && days.len() < 28, "{} of 28 days have rows", days.len());
    let always = json!({"resource_id": QUIET, "walk_days": "always"});
    let answer = gsc.search(&with(asked(&google, &["date", "query"], 28), &always)).ok();
    let truth = google.truth(QUIET, &question(&google, &["date", "query"], 28));
    assert_same(&answer.rows(), &truth, &["date", "query"], "");
    assert!(!answer.warnings().iter().any(|warning| warning.contains("PARTIAL")), "{:?}", answer.warnings());
    let nothing = json!({"resource_id": NOTHING, "walk_days": "always"});
    assert!(gsc.search(&with(asked(&google, &["query"], 9), &nothing)).ok().rows().is_empty());
    gsc.end_well();
}

/// A day that Google refuses is an error, not a day without rows.
#[test]
fn a_failure_within_a_walk_is_no_hole() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let walk = with(asked(&google, &["date", "query"], 10), &json!({"walk_days": "always"}));
    gsc.search(&walk).ok();
    for (code, reason, expected) in [
        (400, "invalidParameter", -32017),
        (403, "forbidden", -32014),
        (404, "notFound", -32014),
        (500, "backendError", -32018),
    ] {
        google.calm();
        let error = json!({"error": {"code": code, "message": "No", "errors": [{"domain": "global", "reason": reason, "message": "No"}]}});
        fault(&google, 9, 999, code, &error);
        gsc.search(&walk).refused(expected);
    }
    gsc.end_well();
}

/// Google leaves rare queries out of long windows; that is said, and days by themselves have more.
#[test]
fn a_long_window_says_what_it_leaves_out() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let mut search = |walk: &str| {
        let more = json!({"resource_id": SHOP, "walk_days": walk});
        gsc.search(&with(asked(&google, &["query"], 120), &more)).ok()
    };
    let is_told = |warnings: Vec<String>| warnings.iter().any(|warning| warning.contains("rare queries"));
    let (whole, days) = (search("auto"), search("always"));
    assert!(is_told(whole.warnings()) && !is_told(days.warnings()));
    assert!(whole.rows().len() < days.rows().len());
    assert!(whole.sum("impressions") < days.sum("impressions"));
    assert_eq!(whole.model()["totals"], days.model()["totals"]);
    let covered = |answer: &Value| answer["extra"]["coverage"]["impressions"]["share_in_rows"].as_f64();
    assert!(covered(&whole.model()) < covered(&days.model()), "what is left out is counted");
    gsc.end_well();
}

#[test]
fn totals_do_not_depend_on_the_dimensions() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let whole = |counted: &str| {
        google.truth(DOMAIN, &with(question(&google, &[], 28), &json!({"aggregationType": counted})))[0].clone()
    };
    for (dimensions, counted) in [
        (&[][..], "byProperty"),
        (&["date"], "byProperty"),
        (&["query"], "byProperty"),
        (&["query", "country", "device"], "byProperty"),
        (&["page"], "byPage"),
        (&["date", "query", "page", "country", "device"], "byPage"),
    ] {
        let answer = gsc.search(&asked(&google, dimensions, 28)).ok();
        let (totals, truth) = (answer.model()["totals"].clone(), whole(counted));
        for metric in ["clicks", "impressions", "ctr", "position"] {
            assert_eq!(totals[metric].as_f64(), truth[metric].as_f64(), "{metric} by {dimensions:?}");
        }
        assert_eq!(answer.model()["extra"]["aggregation"], counted, "{dimensions:?}");
    }
    gsc.end_well();
}

/// A comparison and a plain question about the same days have the same figures.
#[test]
fn a_comparison_has_the_totals_of_plain_questions() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let compared = gsc.call("compare_periods", &asked(&google, &["device"], 7), &json!({})).ok().model();
    for (suffix, from, to) in [("", 6, 0), ("_before", 13, 7)] {
        let dates = json!({"start_date": google.final_day(from), "end_date": google.final_day(to)});
        let plain = gsc.search(&dates).ok().model()["totals"].clone();
        for metric in ["clicks", "impressions", "ctr", "position"] {
            let one = &compared["totals"][format!("{metric}{suffix}")];
            assert!(one.is_number() && *one == plain[metric], "{metric}{suffix}: {one} and {plain}");
        }
    }
    gsc.end_well();
}

/// Positions are judged of whole rows, not of their days.
#[test]
fn metric_filters_see_merged_rows() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let near = json!({"walk_days": "always", "metric_filters": [{"metric": "position", "operator": "lessThanOrEqual", "value": 6}]});
    let dimensions = ["query", "device"];
    let all = gsc.search(&with(asked(&google, &dimensions, 12), &json!({"walk_days": "always"}))).ok();
    let filtered = gsc.search(&with(asked(&google, &dimensions, 12), &near)).ok();
    let expected: Vec<Value> = all.rows().into_iter().filter(|row| row["position"].as_f64() <= Some(6.0)).collect();
    assert_same(&filtered.rows(), &expected, &dimensions, "");
    let by_day = gsc.search(&with(asked(&google, &["date", "query", "device"], 12), &near)).ok();
    assert_ne!(filtered.sum("impressions"), by_day.sum("impressions"), "it makes a difference");
    assert!(filtered.model()["description"].as_str().is_some_and(|text| text.contains("metric_filters")));
    gsc.end_well();
}

/// A model that is shown 25 rows is told how many there are, and small rows are all of the table that it reads.
#[test]
fn what_is_shown_is_not_what_there_is() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let by_day = json!({"order_by": [{"field": "date"}]});
    let bulk = json!({"resource_id": BULK, "start_date": google.final_day(0)});
    for (asked, days) in [
        (with(asked(&google, &["date", "query"], 10), &by_day), 10),
        (with(asked(&google, &["date", "query", "page"], 1), &bulk), 1),
    ] {
        let answer = gsc.search(&asked).ok();
        let (model, rows) = (answer.model(), answer.rows());
        let dates: BTreeSet<&str> = rows.iter().filter_map(|row| row["date"].as_str()).collect();
        assert_eq!(dates.len(), days, "{asked}");
        assert!(rows.len() > 500, "{asked}: {}", rows.len());
        assert_eq!((&model["total_rows"], &model["returned_rows"]), (&json!(rows.len()), &json!(25)));
        assert_eq!(model["truncated"], true);
        let notice = format!("Showing 25 of {} extracted rows.", rows.len());
        assert!(model.to_string().contains(&notice), "{asked}: {model}");
        assert!(model.to_string().len() < 16_000, "{asked}: {} bytes", model.to_string().len());
    }
    gsc.end_well();
}

/// Impressions are counted by page as soon as a filter is on pages; the answer says so.
#[test]
fn a_filter_on_pages_says_that_pages_are_counted() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let host = "https://help.nordwind.example/";
    let on_pages = json!({"filters": [{"dimension": "page", "operator": "contains", "expression": host}]});
    for (more, counted) in [(json!({}), "byProperty"), (on_pages.clone(), "byPage")] {
        let answer = gsc.search(&with(asked(&google, &["query"], 28), &more)).ok();
        assert_eq!(answer.model()["extra"]["aggregation"], counted);
        let description = answer.model()["description"].to_string();
        assert!(description.contains(&format!("counted {counted}")), "{description}");
    }
    // One host of a domain property, which mixes them, and the property that holds that host alone.
    let pages = gsc.search(&with(asked(&google, &["page"], 28), &on_pages)).ok().column("page");
    assert!(!pages.is_empty() && pages.iter().all(|page| page.as_str().is_some_and(|page| page.starts_with(host))));
    let blocks = gsc.call("autocontext", &json!({"request_data": ["property_info"]}), &json!({})).ok().model();
    assert!(blocks[0]["data"]["same_site"].to_string().contains(host), "{blocks}");
    gsc.end_well();
}

#[test]
fn an_unknown_country_can_be_asked_for() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let unknown = json!({"filters": [{"dimension": "country", "expression": "zzz"}]});
    let countries = gsc.search(&with(asked(&google, &["country"], 80), &unknown)).ok().column("country");
    assert_eq!(countries, ["zzz"]);
    gsc.end_well();
}

/// Appearances stand alone; what one of them is made of is a second question, with the value as it was given.
#[test]
fn an_appearance_is_looked_at_in_two_steps() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let appearances = gsc.search(&asked(&google, &["searchAppearance"], 28)).ok().column("searchAppearance");
    assert!(appearances.len() > 1, "{appearances:?}");
    for appearance in appearances {
        let filter = json!({"dimension": "searchAppearance", "operator": "equals", "expression": appearance});
        let answer = gsc.search(&with(asked(&google, &["page"], 28), &json!({"filters": [filter]}))).ok();
        let filters = json!({"dimensionFilterGroups": [{"filters": [filter]}]});
        let truth = google.truth(DOMAIN, &with(question(&google, &["page"], 28), &filters));
        assert!(!truth.is_empty(), "{appearance}");
        assert_same(&answer.rows(), &truth, &["page"], &appearance);
    }
    gsc.end_well();
}

/// An address that Google stores with parameters is not found by the address without them, and the answer says why.
#[test]
fn addresses_have_parameters() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let slug = format!("{SHOP}jobs");
    let mut search = |operator: &str, expression: &str| {
        let filter = json!({"dimension": "page", "operator": operator, "expression": expression});
        gsc.search(&with(asked(&google, &["page"], 80), &json!({"filters": [filter]}))).ok()
    };
    for (operator, expression) in [("contains", slug.as_str()), ("includingRegex", r"/jobs(\?|$)")] {
        let pages = search(operator, expression).column("page");
        assert!(pages.iter().any(|page| page.as_str().is_some_and(|page| page.contains("?utm_"))), "{pages:?}");
    }
    let none = search("equals", &slug);
    assert!(none.rows().is_empty());
    assert!(none.warnings().iter().any(|warning| warning.contains("whole address")), "{:?}", none.warnings());
    gsc.end_well();
}

/// A filter that is not understood is refused, not left out.
#[test]
fn a_filter_that_is_not_understood_is_refused() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    for (arguments, word) in [
        (json!({"filters": [{"dimension": "query", "operator": "like", "expression": "oak"}]}), "contains"),
        (json!({"filters": [{"dimension": "keyword", "expression": "oak"}]}), "query"),
        (json!({"filters": [{"dimension": "query", "value": "oak"}]}), "expression"),
        (json!({"filters": [{"dimension": "query", "expression": "oak", "negate": true}]}), "negate"),
        (json!({"filters": ["query contains oak"]}), "filters"),
        (json!({"dimensionFilterGroups": [{"filters": []}]}), "dimensionFilterGroups"),
    ] {
        let message = gsc.search(&arguments).refused(-32017);
        assert!(message.contains(word), "{arguments}: {message}");
    }
    assert_eq!(google.searches(), 0);
    gsc.end_well();
}

/// Counts are doubles on the wire; a number of 32 bits would lose these, and rounding the others. The position is one whose last
/// digit changes where a fraction is not read to its nearest double.
#[test]
fn every_digit_is_kept() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let figures = json!({"clicks": 16_777_217.0, "impressions": 3_000_000_001.0, "ctr": 0.005_592_405_664, "position": 14.695_238_095_238_095});
    fault(&google, 1, 9, 200, &json!({"rows": [figures], "responseAggregationType": "byProperty"}));
    let dates = json!({"start_date": google.final_day(20), "end_date": google.final_day(10)});
    let answer = gsc.search(&dates).ok();
    let expected = json!({"clicks": 16_777_217, "impressions": 3_000_000_001_i64, "ctr": 0.005_592_405_664, "position": 14.695_238_095_238_095});
    assert_eq!((&answer.rows()[0], &answer.model()["totals"]), (&expected, &expected));
    gsc.end_well();
}

/// `http://`, `https://` and the domain are three properties: nothing that is kept for one is given for another.
#[test]
fn properties_of_one_host_are_not_mixed_up() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    for _ in 0..2 {
        for site in ["https://amrum.example/", "http://amrum.example/", SHOP, DOMAIN, "https://help.nordwind.example/"]
        {
            let truth = google.truth(site, &question(&google, &["page"], 28));
            let answer = gsc.search(&with(asked(&google, &["page"], 28), &json!({"resource_id": site}))).ok();
            assert_same(&answer.rows(), &truth, &["page"], site);
            let blocks = json!({"resource_id": site, "request_data": ["top_pages"]});
            let block = gsc.call("autocontext", &blocks, &json!({})).ok().model()[0]["data"].clone();
            let clicks = |rows: &[Value]| rows.iter().filter_map(|row| row["clicks"].as_f64()).fold(0.0, f64::max);
            let block = block.as_array().expect("pages");
            assert_eq!((block.len(), clicks(block)), (truth.len().min(15), clicks(&truth)), "{site}");
        }
    }
    gsc.end_well();
}

/// What bounds the requests about a property bounds those of all calls together.
#[test]
fn calls_share_the_bound_of_a_property() {
    let google = Google::with_latency(Duration::from_millis(60));
    let mut gsc = Gsc::start(&google);
    gsc.search(&asked(&google, &["device"], 3)).ok();
    google.calm();
    let walk = with(asked(&google, &["date", "query"], 8), &json!({"walk_days": "always"}));
    let calls = [(); 3].map(|()| gsc.begin_call("search_analytics", &walk, &json!({})));
    for call in calls {
        assert!(gsc.wait(call, PATIENCE).ok().data().is_object());
    }
    assert_eq!(google.sandbox().max_in_flight(), 3);
    gsc.end_well();
}
