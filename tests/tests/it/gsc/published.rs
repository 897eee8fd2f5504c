//! What the connector says about itself: small schemas, every argument described, and a check that asks nobody.

use serde_json::{Value, json};

use super::bench::{Google, Gsc};

/// Bytes a tool may have on average: a model reads all of them at every turn.
const TOOL_BYTES: usize = 1_500;

#[test]
fn tools_are_small_described_and_portable() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let tools = gsc.request("tools/list", &json!({})).json["result"]["tools"].clone();
    let tools = tools.as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "search_analytics",
            "compare_periods",
            "search_analytics_by_regex_cluster",
            "query_page_overlap",
            "inspect_urls",
            "list_sitemaps",
            "validate_query",
            "autocontext",
            "autocontext_data"
        ],
        "the first is the default tool"
    );
    crate::published::assert_small_and_described(tools, TOOL_BYTES);
    gsc.end_well();
}

fn validate(gsc: &mut Gsc, arguments: &Value) -> Value {
    let asked = json!({"resource_id": null, "arguments": arguments});
    gsc.call("validate_query", &asked, &json!({"credentials": null})).ok().model()
}

#[test]
fn a_question_is_checked_without_google_and_without_credentials() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let all = validate(
        &mut gsc,
        &json!({
            "dimensions": ["query", "query"], "search_type": "discover", "aggregation": "byProperty",
            "filters": [{"dimension": "query", "operator": "includingRegex", "expression": "("}, {"dimension": "country", "expression": "Atlantis"}],
            "start_date": "2020-01-01", "end_date": "2020-01-02",
        }),
    );
    assert_eq!(all["valid"], false);
    let problems: Vec<&str> = all["problems"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let expected = ["RE2", "country", "once", "no queries", "Leave aggregation out", "16 months"];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, word) in problems.iter().zip(expected) {
        assert!(problem.contains(word), "{problem}");
    }
    for (arguments, word) in [
        (json!({"dimensions": ["keyword"]}), "searchAppearance"),
        (json!({"dimensions": 5}), "list"),
        (json!({"dimensions": ["hour"], "data_state": "final"}), "hourly_all"),
        (json!({"start_date": "soon"}), "start_date"),
        (json!({"dimension": ["query"]}), "Unknown argument"),
        (json!({"order_by": [{"field": "visits"}]}), "Order by one of"),
    ] {
        let answer = validate(&mut gsc, &arguments);
        assert!(
            answer["valid"] == false && answer["problems"][0].as_str().unwrap().contains(word),
            "{arguments}: {answer}"
        );
    }
    let good = validate(
        &mut gsc,
        &json!({
            "resource_id": "sc-domain:x.example", "dimensions": ["query", "page"], "order_by": [{"field": "clicks"}],
            "filters": [{"dimension": "country", "expression": "Spain"}],
        }),
    );
    assert_eq!((&good["valid"], &good["impressions_counted"]), (&json!(true), &json!("byPage")));
    assert_eq!(good["filters_sent"][0]["expression"], "esp");
    let notes = good["notes"].to_string();
    assert!(notes.contains("counted by page") && notes.contains("anonymised"), "{notes}");
    assert_eq!(good["repairs"], json!([]));
    assert_eq!(validate(&mut gsc, &json!({"dimensions": ["hour"]}))["valid"], true, "hour brings its data_state");
    assert!(google.sandbox().log().is_empty(), "nobody was asked");
    gsc.end_well();
}

/// What a call would repair is told, and the call does repair it.
#[test]
fn repairs_are_told() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let asked = json!({
        "dimensions": "device", "searchType": "IMAGE", "end_date": null,
        "filters": r#"[{"dimension": "country", "expression": "deu"}]"#,
    });
    let answer = validate(&mut gsc, &asked);
    assert_eq!(answer["valid"], true, "{answer}");
    let expected = [
        r#"dimensions is read as ["device"]."#,
        r#"searchType is read as search_type, search_type is read as "image"."#,
        r#"filters is read as [{"dimension":"country","expression":"deu"}]."#,
    ];
    assert_eq!(answer["repairs"], json!(expected));
    let arguments = gsc.search(&asked).ok().info()["arguments"].clone();
    assert_eq!((&arguments["dimensions"], &arguments["search_type"]), (&json!(["device"]), &json!("image")));
    // Whatever else is wrong, the repairs are told.
    let wrong = validate(&mut gsc, &json!({"dimensions": "query", "searchType": "discover"}));
    assert_eq!((&wrong["valid"], wrong["repairs"].as_array().map(Vec::len)), (&json!(false), Some(2)), "{wrong}");
    gsc.end_well();
}

/// What `validate_query` lets through Google answers, and what Google refuses it refuses.
#[test]
fn the_check_agrees_with_google() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let dimensions = [
        json!([]),
        json!(["query"]),
        json!(["page", "device"]),
        json!(["searchAppearance"]),
        json!(["searchAppearance", "date"]),
        json!(["hour"]),
        json!(["date", "hour"]),
    ];
    for dimensions in &dimensions {
        for search_type in ["web", "news", "discover", "googleNews"] {
            for aggregation in ["auto", "byProperty", "byPage"] {
                let asked = json!({"dimensions": dimensions, "search_type": search_type, "aggregation": aggregation});
                let valid = validate(&mut gsc, &asked)["valid"] == true;
                let answer = gsc.search(&asked);
                assert_eq!(answer.error().is_none(), valid, "{asked}: {:?}", answer.error());
            }
        }
    }
    gsc.end_well();
}

/// Skills must not name what is not there: tools, arguments, columns and blocks are looked up in what the connector publishes
/// and answers.
#[test]
fn skills_name_real_tools_arguments_and_columns() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let mut known = gsc.request("tools/list", &json!({})).text;
    for (tool, arguments) in [
        ("search_analytics", json!({"dimensions": ["date"], "data_state": "all"})),
        ("compare_periods", json!({"dimensions": ["device"]})),
        ("search_analytics_by_regex_cluster", json!({"brand": "x"})),
        ("query_page_overlap", json!({})),
        ("inspect_urls", json!({"urls": ["https://www.nordwind.example/"]})),
        ("list_sitemaps", json!({})),
        ("autocontext_data", json!({"resource_id": null})),
    ] {
        known.push_str(&gsc.call(tool, &arguments, &json!({})).ok().text);
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/gsc/skills");
    let mut seen = 0;
    for skill in ["gsc-performance", "gsc-indexing", "gsc-opportunities"] {
        let text = std::fs::read_to_string(folder.join(skill).join("SKILL.md")).expect("a skill");
        seen += crate::published::assert_names_are_known(skill, &text, &known);
    }
    assert!(seen > 40, "{seen} names");
    gsc.end_well();
}
