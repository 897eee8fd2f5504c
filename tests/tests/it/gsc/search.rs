//! `search_analytics` and the blocks: the right numbers, the right types, and said what has to be said.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::bench::{Answer, BLOG, BULK, DOMAIN, Google, Gsc, NOTHING, SHOP, SearchConsole, assert_same};

fn sum(rows: &[Value], metric: &str) -> f64 {
    rows.iter().map(|row| row[metric].as_f64().unwrap_or_default()).sum()
}

/// V-338: what was not said is echoed, and columns have their types.
#[test]
fn defaults_are_echoed_and_columns_typed() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let answer = gsc.search(&json!({"dimensions": ["query"]})).ok();
    assert_example(&answer);
    assert_eq!(answer.info()["arguments"]["end_date"], google.fact("last_final"));
    assert!(answer.info()["arguments"]["start_date"].is_string());
    gsc.end_well();
}

/// The parts of the example of 15.2 that do not depend on its filter.
fn assert_example(answer: &Answer) {
    assert_eq!(answer.info()["arguments"]["search_type"], "web");
    let headers: Vec<_> = answer.data()["headers"]
        .as_array()
        .expect("headers")
        .iter()
        .map(|header| (header["name"].clone(), header["type"].clone(), header["role"].clone()))
        .collect();
    let expected = [
        ("query", "string", "dimension"),
        ("clicks", "integer", "metric"),
        ("impressions", "integer", "metric"),
        ("ctr", "number", "metric"),
        ("position", "number", "metric"),
    ];
    assert_eq!(headers, expected.map(|(name, kind, role)| (json!(name), json!(kind), json!(role))));
    assert_eq!(answer.header("ctr")["description"], "Fraction 0-1");
    assert_eq!(answer.header("position")["description"], "Average position weighted by impressions");
}

/// The example of 15.2, in all its parts.
#[test]
fn the_example_of_the_specification() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    google.switch(&json!({"today": "2026-09-25"}));
    let facts = google.sandbox().facts()["search_console"].clone();
    let asked = json!({"dimensions": ["query"], "filters": [{"dimension": "page", "operator": "contains", "expression": "/blog/"}]});
    let meta = json!({"session_id": "conv-8f2c", "autocontext_blocks": ["available_date_range", "position_clusters"]});
    // The process runs by the machine's clock, so its defaults are those of today.
    google.switch(&json!({"today": null}));
    let answer = gsc.call("search_analytics", &asked, &meta).ok();
    let info = answer.info();
    assert_eq!(info["resource_id"], DOMAIN);
    let (start, end) = (&info["arguments"]["start_date"], &info["arguments"]["end_date"]);
    assert_eq!(*end, google.fact("last_final"), "S-8.4-05");
    assert_eq!(
        info["arguments"].as_object().expect("arguments").keys().collect::<Vec<_>>(),
        ["dimensions", "filters", "start_date", "end_date", "search_type"]
    );
    assert_eq!(answer.model()["dates"], json!([start, end]));
    let day = |text: &Value| text.as_str().and_then(|day| day.parse::<jiff::civil::Date>().ok()).expect("a day");
    assert_eq!(
        day(start),
        day(end).saturating_sub(jiff::Span::new().months(1)),
        "one calendar month, both ends included"
    );

    assert_example(&answer);
    let question = json!({"startDate": start, "endDate": end, "dimensions": ["query"], "dimensionFilterGroups": [{"filters": [{"dimension": "page", "operator": "contains", "expression": "/blog/"}]}]});
    assert_same(&answer.rows(), &google.truth(DOMAIN, &question), &["query"], "");
    assert!(!answer.rows().is_empty());
    let mut whole = question.clone();
    whole["dimensions"] = json!([]);
    whole["aggregationType"] = json!("byPage");
    let totals = &google.truth(DOMAIN, &whole)[0];
    for metric in ["clicks", "impressions", "ctr", "position"] {
        assert_eq!(
            answer.model()["totals"][metric].as_f64(),
            totals[metric].as_f64(),
            "8.2: by the source, counted as the rows are: {metric}"
        );
    }

    let blocks = answer.model()["autocontext"].clone();
    assert_eq!(info["autocontext_attached"], true);
    assert_eq!(blocks[0]["description"], "Queryable date range (16 months) and the latest day with reliable data.");
    assert_eq!(
        blocks[0]["data"],
        json!({"first_date": google.fact("oldest"), "last_reliable_date": google.fact("last_final"),
            "note": "Search Console keeps 16 months of data and publishes it with a 2-3 day delay."})
    );
    assert_eq!(
        blocks[1]["description"],
        "Queries grouped by position cluster (Top-3, Top-10, Top-30, Top-100, Out) over the last 3 months."
    );
    let names: Vec<&Value> =
        blocks[1]["data"].as_array().expect("clusters").iter().map(|entry| &entry["clusterPosition"]).collect();
    assert_eq!(names, ["Top-3", "Top-10", "Top-30", "Top-100", "Out"]);
    assert_eq!(
        blocks[1]["data"][0].as_object().expect("a cluster").keys().collect::<Vec<_>>(),
        ["clusterPosition", "clicks", "impressions"]
    );

    let again = gsc.call("search_analytics", &asked, &meta).ok();
    assert_eq!(again.info()["autocontext_attached"], false, "S-X-07");
    assert!(again.model().get("autocontext").is_none(), "S-X-07");
    assert!(facts["oldest"].is_string());
    gsc.end_well();
}

#[test]
fn clusters_are_the_queries_of_three_months() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let blocks = gsc.call("autocontext", &json!({"request_data": ["position_clusters"]}), &json!({})).ok().model();
    let end: jiff::civil::Date = google.fact("last_final").parse().expect("a day");
    let start = end.saturating_sub(jiff::Span::new().months(3));
    let truth = google
        .truth(DOMAIN, &json!({"startDate": start.to_string(), "endDate": end.to_string(), "dimensions": ["query"]}));
    let mut low = 0.0;
    for (entry, high) in
        blocks[0]["data"].as_array().expect("clusters").iter().zip([3.0, 10.0, 30.0, 100.0, f64::INFINITY])
    {
        let inside: Vec<Value> = truth
            .iter()
            .filter(|row| row["position"].as_f64().is_some_and(|position| low < position && position <= high))
            .cloned()
            .collect();
        for metric in ["clicks", "impressions"] {
            assert_eq!(entry[metric].as_f64(), Some(sum(&inside, metric)), "{entry}");
        }
        low = high;
    }
    // Kept for an hour: the second time nothing is asked.
    google.calm();
    gsc.call("autocontext", &json!({"request_data": ["position_clusters", "available_date_range"]}), &json!({})).ok();
    assert_eq!(google.searches(), 0);
}

/// Research 2.4: every combination that Google takes gives the rows that Google has.
#[test]
fn rows_are_googles() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let (start, end) = (google.final_day(9), google.final_day(0));
    for (site, dimensions, more) in [
        (DOMAIN, vec!["query"], json!({})),
        (DOMAIN, vec!["query", "page"], json!({})),
        (SHOP, vec!["date", "query", "page", "country", "device"], json!({})),
        (SHOP, vec!["country", "device"], json!({"aggregation": "byPage"})),
        (BLOG, vec!["page", "date"], json!({})),
        (DOMAIN, vec!["searchAppearance"], json!({})),
        (DOMAIN, vec!["date"], json!({"search_type": "image"})),
        (DOMAIN, vec!["page", "country"], json!({"search_type": "discover"})),
        (DOMAIN, vec!["page"], json!({"search_type": "googleNews"})),
        (DOMAIN, vec!["device"], json!({"search_type": "googleNews"})),
        (DOMAIN, vec![], json!({})),
        (DOMAIN, vec![], json!({"search_type": "discover"})),
        ("https://help.nordwind.example/", vec!["date"], json!({})),
    ] {
        let mut asked = json!({"resource_id": site, "dimensions": dimensions, "start_date": start, "end_date": end});
        let mut question = json!({"startDate": start, "endDate": end, "dimensions": dimensions});
        for (name, value) in more.as_object().expect("arguments") {
            asked[name] = value.clone();
            question[match name.as_str() {
                "aggregation" => "aggregationType",
                _ => "type",
            }] = value.clone();
        }
        let answer = gsc.search(&asked).ok();
        let truth = google.truth(site, &question);
        assert!(!truth.is_empty(), "{asked}");
        assert_same(&answer.rows(), &truth, &dimensions, format_args!("{asked}"));
        let feed = matches!(more["search_type"].as_str(), Some("discover" | "googleNews"));
        for row in answer.rows() {
            assert_eq!(row["position"].is_null(), feed, "complaint 42: {asked}: {row}");
            assert!(row["clicks"].is_u64() && row["impressions"].is_u64(), "doubles on the wire: {row}");
        }
        assert_eq!(answer.model()["totals"]["position"].is_null(), feed, "{asked}");
    }
    gsc.end_well();
}

/// Complaints 17 to 22: totals are not the sum of the rows, and how much rows leave out is told.
#[test]
fn totals_are_googles_and_coverage_is_the_difference() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let (start, end) = (google.final_day(27), google.final_day(0));
    let dated = |more: Value| {
        let mut asked = json!({"start_date": start, "end_date": end});
        asked.as_object_mut().expect("arguments").extend(more.as_object().expect("arguments").clone());
        asked
    };
    let answer = gsc.search(&dated(json!({"dimensions": ["query"]}))).ok();
    let planted = &google.facts()["search_console"]["shop"][0];
    let model = answer.model();
    for metric in ["clicks", "impressions"] {
        assert_eq!(model["totals"][metric], planted[metric]);
        let part = &model["extra"]["coverage"][metric];
        let rows = answer.sum(metric) as i64;
        assert_eq!((part["in_rows"].as_i64(), &part["total"]), (Some(rows), &planted[metric]));
        let hidden = part["not_in_rows"].as_i64().expect("a number");
        assert!(hidden > 0 && hidden == planted[metric].as_i64().expect("a number") - rows, "{part}");
        let share = part["share_in_rows"].as_f64().expect("a share");
        assert!(share > 0.0 && share < 1.0, "{part}");
    }
    assert_eq!(model["extra"]["aggregation"], "byProperty");

    // Rows of pages count each page, and so do their totals.
    let pages = gsc.search(&dated(json!({"dimensions": ["page"]}))).ok().model();
    assert_eq!(pages["extra"]["aggregation"], "byPage");
    assert!(pages["totals"]["impressions"].as_i64() > model["totals"]["impressions"].as_i64());
    assert_eq!(pages["extra"]["coverage"]["impressions"]["not_in_rows"], 0);

    for (more, why) in [
        (
            json!({"dimensions": ["query"], "filters": [{"dimension": "query", "operator": "contains", "expression": "oak"}]}),
            "anonymised",
        ),
        (json!({"dimensions": ["searchAppearance"]}), "overlap"),
    ] {
        let model = gsc.search(&dated(more)).ok().model();
        assert!(model["extra"]["coverage"].is_null());
        assert!(model["extra"]["coverage_unknown"].as_str().is_some_and(|reason| reason.contains(why)), "{model}");
    }

    // Filters on metrics are ours: totals and coverage are those of all rows.
    let filtered = gsc.search(&dated(json!({"dimensions": ["query"], "metric_filters": [{"metric": "position", "operator": "lessThanOrEqual", "value": 10}, {"metric": "impressions", "operator": "greaterThan", "value": 20}]}))).ok();
    let expected: Vec<Value> = answer
        .rows()
        .into_iter()
        .filter(|row| row["position"].as_f64() <= Some(10.0) && row["impressions"].as_i64() > Some(20))
        .collect();
    assert_same(&filtered.rows(), &expected, &["query"], "");
    assert_eq!(filtered.model()["totals"], model["totals"]);
    assert_eq!(filtered.model()["extra"]["coverage"], model["extra"]["coverage"]);
    assert!(filtered.warnings().iter().any(|warning| warning.contains("metric_filters")));
}

/// Complaints 35 and 37: an order is over the whole extraction.
#[test]
fn an_order_is_over_all_rows() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let dated = |order: Value| json!({"dimensions": ["query", "page"], "start_date": google.final_day(20), "end_date": google.final_day(0), "order_by": order});
    let plain = gsc.search(&dated(json!([]))).ok();
    for (field, desc) in [("impressions", true), ("position", false), ("ctr", true), ("clicks", true)] {
        let answer = gsc.search(&dated(json!([{"field": field}, {"field": "query"}, {"field": "page"}]))).ok();
        let rows = answer.rows();
        assert_same(&rows, &plain.rows(), &["query", "page"], "the same rows");
        let values: Vec<f64> = rows.iter().map(|row| row[field].as_f64().expect("a number")).collect();
        assert!(
            values.is_sorted_by(|one, two| if desc { one >= two } else { one <= two }),
            "{field}: {:?}",
            &values[..20]
        );
        assert_eq!(answer.model()["rows"][0][field], rows[0][field]);
        assert!(
            rows.windows(2)
                .all(|pair| pair[0][field] != pair[1][field] || pair[0]["query"].as_str() <= pair[1]["query"].as_str())
        );
    }
}

/// Fresh days are marked, in both spellings of the metadata, and never called final.
#[test]
fn fresh_rows_are_marked() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let boundary = google.fact("first_incomplete");
    for site in [DOMAIN, BLOG] {
        let asked = json!({"resource_id": site, "dimensions": ["page", "date"], "data_state": "all", "start_date": google.final_day(3), "end_date": "today"});
        let answer = gsc.search(&asked).ok();
        assert_eq!(answer.model()["extra"]["first_incomplete"], boundary, "{site}");
        let mut marks = BTreeSet::new();
        for row in answer.rows() {
            let fresh = row["date"].as_str() >= Some(boundary.as_str());
            assert_eq!(row["is_incomplete"], fresh, "{row}");
            marks.insert(fresh);
        }
        assert_eq!(marks.len(), 2, "{site}");
        assert_eq!(answer.header("is_incomplete")["type"], "boolean");
        assert!(answer.warnings().iter().any(|warning| warning.contains(&boundary)), "{:?}", answer.warnings());
    }
    // In the evening there are hours of every kind, whenever this test runs.
    google.switch(&json!({"today": google.fact("today")}));
    let hours = gsc.search(&json!({"dimensions": ["hour"]})).ok();
    assert_eq!(hours.header("hour")["type"], "datetime");
    assert_eq!(hours.info()["arguments"]["data_state"], "hourly_all");
    let first = hours.model()["extra"]["first_incomplete"].as_str().expect("an hour").to_owned();
    let rows = hours.rows();
    assert!(
        rows.iter().any(|row| row["is_incomplete"] == true) && rows.iter().any(|row| row["is_incomplete"] == false)
    );
    assert!(rows.iter().all(|row| (row["hour"].as_str() >= Some(first.as_str())) == (row["is_incomplete"] == true)));

    // Final figures have no mark, and what is missing at their end is said.
    let last =
        gsc.search(&json!({"dimensions": ["date"], "start_date": google.final_day(3), "end_date": "yesterday"})).ok();
    assert!(last.header("is_incomplete").is_null());
    assert!(
        last.warnings().iter().any(|warning| warning.contains(&google.fact("last_final"))),
        "{:?}",
        last.warnings()
    );
}

/// Complaint 38: what was sent is what is echoed, and it is what Google finds something with.
#[test]
fn filters_are_sent_in_googles_form() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let dated = |filter: Value| json!({"dimensions": ["page", "country", "device"], "start_date": google.final_day(80), "end_date": google.final_day(0), "filters": filter});
    for (dimension, operator, expression, sent) in [
        ("country", "equals", "DE", "deu"),
        ("country", "equals", "Germany", "deu"),
        ("country", "notEquals", "uk", "gbr"),
        ("device", "equals", "mobile", "MOBILE"),
        ("page", "contains", "/föhr-", "/f%C3%B6hr-"),
        (
            "page",
            "equals",
            "https://help.nordwind.example/aufbau/föhr-🪑",
            "https://help.nordwind.example/aufbau/f%C3%B6hr-%F0%9F%AA%91",
        ),
        ("page", "includingRegex", "/(föhr|aqua)", "/(f%C3%B6hr|aqua)"),
    ] {
        let filter = json!({"dimension": dimension, "operator": operator, "expression": expression});
        let answer = gsc.search(&dated(json!([filter]))).ok();
        assert_eq!(answer.info()["arguments"]["filters"][0]["expression"], sent, "{filter}");
        assert!(!answer.rows().is_empty(), "{filter}: {:?}", answer.warnings());
        assert!(answer.warnings().iter().any(|warning| warning.contains(sent)), "{filter}: {:?}", answer.warnings());
        let mut question = json!({"startDate": google.final_day(80), "endDate": google.final_day(0), "dimensions": ["page", "country", "device"]});
        question["dimensionFilterGroups"] =
            json!([{"filters": [{"dimension": dimension, "operator": operator, "expression": sent}]}]);
        assert_same(
            &answer.rows(),
            &google.truth(DOMAIN, &question),
            &["page", "country", "device"],
            format_args!("{filter}"),
        );
    }
}

/// Nothing is no answer by itself: the reason is looked for with one small question.
#[test]
fn an_empty_answer_is_explained() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let filter = json!([{"dimension": "query", "operator": "equals", "expression": "nobody ever searched for this"}]);
    for (site, more, needle) in [
        (DOMAIN, json!({"filters": filter}), "filters match nothing"),
        (NOTHING, json!({"filters": filter}), "no web traffic"),
        (NOTHING, json!({}), "no web traffic"),
    ] {
        google.calm();
        let mut asked = json!({"resource_id": site, "dimensions": ["query"], "start_date": google.final_day(20), "end_date": google.final_day(10)});
        asked.as_object_mut().expect("arguments").extend(more.as_object().expect("arguments").clone());
        let answer = gsc.search(&asked).ok();
        assert!(answer.rows().is_empty());
        assert!(answer.warnings().iter().any(|warning| warning.contains(needle)), "{asked}: {:?}", answer.warnings());
        assert!(google.searches() <= 3, "rows, totals, and one question more: {}", google.searches());
    }
    // A property without data still has dates to ask for.
    let blocks = gsc.call("autocontext", &json!({"resource_id": NOTHING}), &json!({})).ok().model();
    assert!(blocks[0]["data"]["last_reliable_date"].is_string(), "{blocks}");
}

/// Complaints 3 and 9: what Google leaves out is said.
#[test]
fn googles_own_bounds_are_told() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let day = google.final_day(0);
    for (dimensions, rows, needle) in
        [(vec!["query"], 5_000, "second dimension"), (vec!["query", "page"], 50_000, "sub-folder")]
    {
        let answer = gsc
            .search(&json!({"resource_id": BULK, "dimensions": dimensions, "start_date": day, "end_date": day}))
            .ok();
        assert_eq!(answer.model()["total_rows"], rows, "short pages and repeated rows change nothing");
        let keys: BTreeSet<String> =
            answer.rows().iter().map(|row| format!("{} {}", row["query"], row["page"])).collect();
        assert_eq!(keys.len(), rows, "complaint 12");
        assert!(answer.warnings().iter().any(|warning| warning.contains(needle)), "{:?}", answer.warnings());
    }
}

/// 8.4: the arguments of the answer repeat the extraction.
#[test]
fn the_arguments_of_an_answer_repeat_it() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let asked = json!({"dimensions": ["page", "device"], "startDate": "20daysAgo", "searchType": "IMAGE",
        "filters": {"dimension": "country", "expression": "germany"}, "order_by": [{"field": "impressions"}],
        "metric_filters": [{"metric": "clicks", "operator": "greaterThanOrEqual", "value": 0}]});
    let first = gsc.search(&asked).ok();
    let arguments = first.info()["arguments"].clone();
    assert_eq!(arguments["search_type"], "image");
    assert!(!first.rows().is_empty());
    let again = gsc.search(&arguments).ok();
    assert_eq!(again.info()["arguments"], arguments);
    assert_eq!(again.rows(), first.rows());
    assert_eq!(again.model()["totals"], first.model()["totals"]);
}

/// Anonymised queries are in no sum that is filtered by query; the sum without that filter stands beside it.
#[test]
fn totals_without_filters_on_query_are_told() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let filter = |dimension: &str, expression: &str| json!({"dimension": dimension, "operator": "contains", "expression": expression});
    let (oak, blog) = (filter("query", "oak"), filter("page", "/blog/"));
    let window = json!({"startDate": google.final_day(27), "endDate": google.final_day(0)});
    for (filters, others, counted) in
        [(json!([oak]), json!([]), "byProperty"), (json!([oak, blog]), json!([blog]), "byPage")]
    {
        let asked = json!({"dimensions": ["query"], "filters": filters, "start_date": google.final_day(27)});
        let extra = gsc.search(&asked).ok().model()["extra"].clone();
        let mut question = window.clone();
        question["aggregationType"] = json!(counted);
        if others != json!([]) {
            question["dimensionFilterGroups"] = json!([{"filters": others}]);
        }
        let truth = google.truth(DOMAIN, &question)[0].clone();
        for metric in ["clicks", "impressions", "ctr", "position"] {
            let told = extra["totals_without_query_filters"][metric].as_f64();
            assert_eq!(told, truth[metric].as_f64(), "{metric} of {filters}");
        }
        assert!(extra["coverage"].is_null());
    }
    let plain = gsc.search(&json!({"dimensions": ["query"], "filters": [blog]})).ok();
    assert!(plain.model()["extra"].get("totals_without_query_filters").is_none());
    // A failure of it takes nothing else away.
    google.fault(&json!({"path": "/searchAnalytics/query$", "body": r#"^[^f]*"type":"web"[^f]*"rowLimit":1}"#, "times": 9,
        "action": {"status": {"code": 403, "body": r#"{"error": {"code": 403, "message": "No", "errors": [{"reason": "forbidden"}]}}"#}}}));
    let answer = gsc.search(&json!({"dimensions": ["query"], "filters": [oak]})).ok();
    assert!(answer.model()["totals"]["clicks"].is_number() && !answer.rows().is_empty());
    assert!(answer.model()["extra"]["totals_without_query_filters"].is_null());
    assert!(answer.warnings().iter().any(|warning| warning.contains("without the filters on query are missing")));
    gsc.end_well();
}
