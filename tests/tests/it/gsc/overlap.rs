//! `query_page_overlap`: queries for which several pages compete.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::bench::{Answer, DOMAIN, Google, Gsc, NOTHING, SearchConsole};

fn overlap(gsc: &mut Gsc, arguments: &Value) -> Answer {
    gsc.call("query_page_overlap", arguments, &json!({}))
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

#[test]
fn every_contested_query_has_all_its_pages_beside_its_own_figures() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let (start, end) = (google.final_day(27), google.final_day(0));
    let truth = |dimensions: Value| {
        google.truth(DOMAIN, &json!({"startDate": start, "endDate": end, "dimensions": dimensions}))
    };
    let mut queries: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in truth(json!(["query", "page"])).into_iter().filter(|row| number(row, "impressions") >= 10.0) {
        queries.entry(row["keys"][0].as_str().unwrap().to_owned()).or_default().push(row);
    }
    queries.retain(|_, pages| pages.len() > 1);
    let own: BTreeMap<String, Value> =
        truth(json!(["query"])).into_iter().map(|row| (row["keys"][0].as_str().unwrap().to_owned(), row)).collect();

    let answer = overlap(&mut gsc, &json!({"start_date": start, "end_date": end})).ok();
    let rows = answer.rows();
    assert_eq!(rows.len(), queries.values().map(Vec::len).sum::<usize>());
    assert!(!rows.is_empty());
    let (mut together, mut of_queries) = (0.0, 0.0);
    for group in rows.chunk_by(|one, two| one["query"] == two["query"]) {
        let query = group[0]["query"].as_str().unwrap();
        let pages = &queries[query];
        assert_eq!(group.len(), pages.len(), "{query}");
        let shares: f64 = group.iter().map(|row| number(row, "impression_share")).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{query}: {shares}");
        for (rank, row) in (1..).zip(group) {
            let page = pages.iter().find(|page| page["keys"][1] == row["page"]).unwrap_or_else(|| panic!("{row}"));
            assert_eq!((&row["page_rank"], &row["pages"]), (&json!(rank), &json!(pages.len())));
            for metric in ["clicks", "impressions", "ctr", "position"] {
                assert_eq!(number(row, metric), number(page, metric), "{metric} of {row}");
            }
            for metric in ["clicks", "impressions", "position"] {
                assert_eq!(number(row, &format!("query_{metric}")), number(&own[query], metric), "{metric} of {row}");
            }
        }
        assert!(group.is_sorted_by(|one, two| number(one, "clicks") >= number(two, "clicks")), "{query}");
        together += group.iter().map(|row| number(row, "impressions")).sum::<f64>();
        of_queries += number(&group[0], "query_impressions");
    }
    assert!(together > of_queries, "two pages of one search are one impression of its query");
    let extra = answer.model()["extra"].clone();
    assert_eq!(extra["queries_with_several_pages"], queries.len());
    assert_eq!(extra["aggregation"], json!({"pages": "byPage", "queries": "byProperty"}));
    assert!(answer.model()["totals"].is_null(), "there are none of a selection");
    gsc.end_well();
}

#[test]
fn thresholds_and_filters_narrow_it() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let all = overlap(&mut gsc, &json!({"min_impressions": 0})).ok();
    let fewer = overlap(&mut gsc, &json!({"min_impressions": 50})).ok();
    assert!(fewer.rows().len() < all.rows().len());
    assert!(fewer.column("impressions").iter().all(|shown| shown.as_i64() >= Some(50)));
    assert!(overlap(&mut gsc, &json!({"min_pages": 40})).ok().rows().is_empty());
    let mobile = json!({"min_impressions": 0, "filters": [{"dimension": "device", "expression": "mobile"}]});
    assert!(overlap(&mut gsc, &mobile).ok().sum("impressions") < all.sum("impressions"));
    let nothing = overlap(&mut gsc, &json!({"resource_id": NOTHING})).ok();
    assert!(nothing.warnings().iter().any(|warning| warning.contains("no web traffic")), "{:?}", nothing.warnings());
    for (arguments, fix) in [(json!({"min_pages": 1}), "2"), (json!({"search_type": "googleNews"}), "no queries")] {
        let message = overlap(&mut gsc, &arguments).refused(-32017);
        assert!(message.contains(fix), "{message}");
    }
    gsc.end_well();
}
