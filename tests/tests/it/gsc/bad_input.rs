//! What models send that can't be answered: refused before anything is asked, with what to change.

use serde_json::{Value, json};

use super::bench::{Google, Gsc, SearchConsole};

/// Arguments that are refused with -32017, and a word of the fix.
const REFUSED: &[(&str, &str)] = &[
    // Research 2.3 and 2.4.
    (r#"{"dimensions": ["query", "query"]}"#, "once"),
    (r#"{"dimensions": ["searchAppearance", "date"]}"#, "alone"),
    (r#"{"dimensions": ["date", "hour"]}"#, "hour alone"),
    (r#"{"dimensions": ["hour"], "data_state": "final"}"#, "hourly_all"),
    (r#"{"dimensions": ["hour"], "data_state": "all"}"#, "hourly_all"),
    (r#"{"dimensions": ["date"], "data_state": "hourly_all"}"#, "Add hour"),
    (r#"{"dimensions": ["query"], "search_type": "discover"}"#, "no queries"),
    (r#"{"dimensions": ["query"], "search_type": "googleNews"}"#, "no queries"),
    (r#"{"dimensions": ["device"], "search_type": "discover"}"#, "device"),
    (r#"{"dimensions": ["page"], "aggregation": "byProperty"}"#, "Leave aggregation out"),
    (
        r#"{"filters": [{"dimension": "page", "operator": "contains", "expression": "/a"}], "aggregation": "byProperty"}"#,
        "Leave aggregation out",
    ),
    (r#"{"dimensions": ["date"], "search_type": "discover", "aggregation": "byProperty"}"#, "Leave aggregation out"),
    (r#"{"dimensions": ["date"], "aggregation": "byNewsShowcasePanel"}"#, "discover and googleNews"),
    (r#"{"dimensions": ["date"], "search_type": "googleNews", "aggregation": "byNewsShowcasePanel"}"#, "NEWS_SHOWCASE"),
    // Research 2.6.
    (
        r#"{"filters": [{"dimension": "query", "operator": "includingRegex", "expression": "^(?!nordwind)"}]}"#,
        "look-around",
    ),
    (r#"{"filters": [{"dimension": "query", "operator": "excludingRegex", "expression": "(a)\\1"}]}"#, "RE2"),
    (r#"{"filters": [{"dimension": "query", "operator": "includingRegex", "expression": "("}]}"#, "RE2"),
    (r#"{"filters": [{"dimension": "country", "expression": "Atlantis"}]}"#, "esp"),
    (r#"{"filters": [{"dimension": "device", "expression": "watch"}]}"#, "TABLET"),
    (r#"{"filters": [{"dimension": "page", "expression": "/blog/"}]}"#, "contains"),
    (r#"{"filters": [{"dimension": "searchAppearance", "operator": "contains", "expression": "VIDEO"}]}"#, "equals"),
    (r#"{"filters": [{"dimension": "searchAppearance", "operator": "notEquals", "expression": "VIDEO"}]}"#, "compare"),
    (r#"{"filters": [{"dimension": "date", "expression": "2026-01-01"}]}"#, "one of query, page"),
    (r#"{"filters": [{"dimension": "query", "expression": ""}]}"#, "empty"),
    // The order and the metrics.
    (r#"{"dimensions": ["query"], "order_by": [{"field": "page"}]}"#, "query, clicks"),
    (r#"{"dimensions": ["query"], "order_by": [{"field": "clicks"}, {"field": "clicks"}]}"#, "twice"),
    (r#"{"metric_filters": [{"metric": "query", "operator": "equals", "value": 1}]}"#, "clicks, impressions"),
    // Dates.
    (r#"{"start_date": "2026-02-30"}"#, "does not exist"),
    (r#"{"end_date": "last week"}"#, "end_date"),
    (r#"{"start_date": "yesterday", "end_date": "10daysAgo"}"#, "after"),
    (r#"{"start_date": "2019-01-01", "end_date": "2019-02-01"}"#, "16 months"),
    (r#"{"start_date": "2999-01-01", "end_date": "2999-02-01"}"#, "future"),
    (r#"{"start_date": "{{start_date}}"}"#, "marker"),
    // Names.
    (r#"{"dimensions": ["keyword"]}"#, "query, page"),
    (r#"{"rowLimit": 10}"#, "rowLimit"),
    (r#"{"search_type": "maps"}"#, "discover"),
    (r#"{"walk_days": "weekly"}"#, "auto"),
];

#[test]
fn what_can_not_be_answered_is_refused_before_it_is_sent() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    gsc.search(&json!({"dimensions": ["device"]})).ok();
    google.calm();
    for (arguments, fix) in REFUSED {
        let arguments: Value = serde_json::from_str(arguments).expect("arguments");
        let message = gsc.search(&arguments).refused(-32017);
        assert!(message.contains(fix), "{arguments}: {message}");
        assert_eq!(google.searches(), 0, "{arguments}");
    }
    gsc.assert_alive("arguments that can't be answered");
}

/// The days that Google keeps are told, not left to an answer that looks complete.
#[test]
fn a_window_is_cut_to_what_there_is() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let answer =
        gsc.search(&json!({"dimensions": ["device"], "start_date": "2020-01-01", "end_date": "30daysAgo"})).ok();
    assert_eq!(answer.info()["arguments"]["start_date"], google.fact("oldest"));
    assert!(answer.warnings().iter().any(|warning| warning.contains("16 months")), "{:?}", answer.warnings());
    let answer = gsc
        .search(
            &json!({"dimensions": ["date"], "start_date": "5daysAgo", "end_date": "2999-01-01", "data_state": "all"}),
        )
        .ok();
    assert_eq!(answer.info()["arguments"]["end_date"], google.fact("today"));
}

/// `tools/list` is paid for in every conversation.
#[test]
fn the_published_tools_are_small_and_described() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let tools = gsc.request("tools/list", &json!({})).json["result"]["tools"].clone();
    let tools = tools.as_array().expect("tools");
    let bytes: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
    for tool in tools {
        let mut schemas = vec![tool["inputSchema"].clone()];
        while let Some(schema) = schemas.pop() {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(property["description"].is_string(), "{}: {name} is not described", tool["name"]);
                schemas.extend([property.clone(), property["items"].clone()]);
            }
        }
    }
    assert!(bytes <= 1_500 * tools.len(), "{bytes} bytes for {} tools", tools.len());
    let search = tools.iter().find(|tool| tool["name"] == "search_analytics").expect("the tool");
    assert_eq!(search["inputSchema"]["properties"]["start_date"]["x-acp-date"], "start", "S-8.9-01");
    assert!(search["inputSchema"]["properties"]["resource_id"]["x-acp-url"].is_array(), "S-8.11-01");
}
