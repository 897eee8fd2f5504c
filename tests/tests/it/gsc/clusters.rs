//! `search_analytics_by_regex_cluster`: groups that add up to Google's totals.

use regex::Regex;
use serde_json::{Value, json};

use super::bench::{Answer, DOMAIN, Google, Gsc, SHOP, SearchConsole};

fn clusters(gsc: &mut Gsc, arguments: &Value) -> Answer {
    gsc.call("search_analytics_by_regex_cluster", arguments, &json!({}))
}

/// Count, clicks, impressions and weighted position of rows.
fn figures<'a>(rows: impl Iterator<Item = &'a Value>) -> (i64, i64, i64, Option<f64>) {
    let (mut count, mut clicks, mut impressions, mut weighted) = (0, 0.0, 0.0, 0.0);
    for row in rows {
        let shown = row["impressions"].as_f64().expect("impressions");
        count += 1;
        clicks += row["clicks"].as_f64().expect("clicks");
        impressions += shown;
        weighted += row["position"].as_f64().unwrap_or_default() * shown;
    }
    (count, clicks as i64, impressions as i64, (impressions > 0.0).then(|| weighted / impressions))
}

fn assert_group(row: &Value, plural: &str, (count, clicks, impressions, position): (i64, i64, i64, Option<f64>)) {
    assert_eq!(row[plural], count, "{row}");
    assert_eq!((&row["clicks"], &row["impressions"]), (&json!(clicks), &json!(impressions)), "{row}");
    let close = match (row["position"].as_f64(), position) {
        (Some(one), Some(two)) => (one - two).abs() < 1e-6,
        (one, two) => one == two,
    };
    assert!(close, "{row}: the position is {position:?}");
}

#[test]
fn each_query_counts_once_and_the_groups_add_up_to_googles_totals() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let (start, end) = (google.final_day(27), google.final_day(0));
    let question = json!({"startDate": start, "endDate": end, "dimensions": ["query"]});
    let truth = google.truth(DOMAIN, &question);
    let patterns = [("brand", "nord ?wind"), ("chairs", "CHAIR|stuhl"), ("prices", "price|chair"), ("none", "zzzz")];
    let asked = json!({
        "brand": patterns[0].1, "start_date": start, "end_date": end,
        "clusters": patterns[1..].iter().map(|(name, pattern)| json!({"name": name, "pattern": pattern})).collect::<Vec<_>>(),
    });
    let answer = clusters(&mut gsc, &asked).ok();
    let rows = answer.rows();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["cluster"].as_str()).collect();
    assert_eq!(names, ["brand", "chairs", "prices", "none", "(other)", "(not in rows)"]);
    let regexes = patterns.map(|(_, pattern)| Regex::new(&format!("(?i){pattern}")).unwrap());
    let places = |row: &Value| -> Vec<usize> {
        let query = row["keys"][0].as_str().unwrap();
        (0..regexes.len()).filter(|place| regexes[*place].is_match(query)).collect()
    };
    for (place, group) in rows.iter().enumerate().take(regexes.len() + 1) {
        let first = |row: &&Value| places(row).first().copied().unwrap_or(regexes.len()) == place;
        assert_group(group, "queries", figures(truth.iter().filter(first)));
        if place < regexes.len() {
            let later = |row: &&Value| places(row).iter().skip(1).any(|later| *later == place);
            let (count, _, impressions, _) = figures(truth.iter().filter(later));
            assert_eq!((&group["overlap"], &group["overlap_impressions"]), (&json!(count), &json!(impressions)));
        }
    }
    assert!(rows[2]["overlap"].as_i64() > Some(0), "chairs are also prices");
    assert_eq!(rows[3]["clicks"], 0);
    assert_eq!((&rows[3]["position"], &rows[3]["ctr"]), (&Value::Null, &Value::Null), "nothing has no position");
    assert!(
        answer.warnings().iter().any(|warning| warning.contains("\"none\" matches nothing")),
        "{:?}",
        answer.warnings()
    );

    let totals = google.truth(DOMAIN, &json!({"startDate": start, "endDate": end}));
    for metric in ["clicks", "impressions"] {
        assert_eq!(answer.sum(metric), totals[0][metric].as_f64().unwrap(), "{metric}: the groups are the whole");
        assert_eq!(answer.model()["totals"][metric].as_f64(), totals[0][metric].as_f64());
    }
    assert!(rows[5]["clicks"].as_i64() > Some(0), "some queries are anonymised");
    let non_brand = &answer.model()["extra"]["non_brand"];
    assert_group(non_brand, "queries", figures(truth.iter().filter(|row| !places(row).contains(&0))));
    gsc.end_well();
}

#[test]
fn brand_alone_splits_in_two_and_case_does_not_matter() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let lower = clusters(&mut gsc, &json!({"brand": "nordwind"})).ok();
    let upper = clusters(&mut gsc, &json!({"brand": "NORDWIND"})).ok();
    assert_eq!(lower.column("cluster"), ["brand", "non-brand", "(not in rows)"]);
    assert_eq!(lower.column("clicks"), upper.column("clicks"));
    assert!(lower.column("clicks")[0].as_i64() > Some(0));
    gsc.end_well();
}

#[test]
fn pages_are_counted_by_page_and_nothing_is_left_over() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let asked = json!({"resource_id": SHOP, "dimension": "page", "clusters": [
        {"name": "blog", "pattern": "/blog/"}, {"name": "products", "pattern": "^https://www\\.nordwind\\.example/products?/"}]});
    let answer = clusters(&mut gsc, &asked).ok();
    assert_eq!(answer.model()["extra"]["aggregation"], "byPage");
    assert_eq!(answer.column("cluster"), ["blog", "products", "(other)", "(not in rows)"]);
    assert_eq!((&answer.rows()[3]["clicks"], &answer.rows()[3]["impressions"]), (&json!(0), &json!(0)));
    assert!(answer.rows()[0]["pages"].as_i64() > Some(1));
    assert_eq!(answer.sum("impressions"), answer.model()["totals"]["impressions"].as_f64().unwrap());
    gsc.end_well();
}

/// Complaint 20: with a filter on query the hidden part is hidden from the totals too.
#[test]
fn what_can_not_be_known_is_not_claimed() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let asked = json!({"brand": "nordwind", "filters": [{"dimension": "query", "operator": "contains", "expression": "chair"}]});
    let answer = clusters(&mut gsc, &asked).ok();
    assert_eq!(answer.column("cluster"), ["brand", "non-brand"]);
    let extra = &answer.model()["extra"];
    assert!(
        extra["coverage"].is_null() && extra["coverage_unknown"].as_str().unwrap().contains("anonymised"),
        "{extra}"
    );
    gsc.end_well();
}

#[test]
fn patterns_that_can_not_be_used_are_refused_with_the_fix() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let cluster = |name: &str, pattern: &str| json!({"name": name, "pattern": pattern});
    for (arguments, fix) in [
        (json!({}), "Give clusters"),
        (json!({"clusters": [cluster("a", "x"), cluster("a", "y")]}), "name of its own"),
        (json!({"clusters": [cluster(" ", "x")]}), "no name"),
        (json!({"clusters": [cluster("(other)", "x")]}), "taken"),
        (json!({"clusters": [cluster("a", "(?=x)")]}), "look-around"),
        (json!({"clusters": [cluster("a", "(")]}), "\"a\""),
        (json!({"clusters": [cluster("a", "")]}), "empty"),
        (json!({"brand": "["}), "\"brand\""),
        (json!({"dimension": "country", "brand": "x"}), "page"),
        (json!({"clusters": (0..51).map(|n| cluster(&format!("c{n}"), "x")).collect::<Vec<_>>()}), "at most 50"),
        (json!({"brand": "x", "search_type": "discover"}), "no queries"),
    ] {
        let message = clusters(&mut gsc, &arguments).refused(-32017);
        assert!(message.contains(fix), "{arguments}: {message}");
    }
    assert_eq!(google.searches(), 0);
    gsc.end_well();
}
