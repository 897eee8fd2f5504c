//! What the connector says about itself.

use serde_json::{Value, json};

use super::bench::{Bq, Google};

/// Bytes a tool may have on average: a model reads all of them at every turn.
const TOOL_BYTES: usize = 1_500;

#[test]
fn tools_are_small_and_described() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let tools = bq.request("tools/list", &json!({})).json["result"]["tools"].clone();
    let tools = tools.as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "execute_query",
            "validate_query",
            "describe_table",
            "preview_table",
            "get_job",
            "load_rows",
            "autocontext",
            "autocontext_data"
        ],
        "the first is the default tool"
    );
    let bytes: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
    assert!(bytes <= TOOL_BYTES * tools.len(), "{} bytes a tool", bytes / tools.len());
    for tool in tools {
        for (name, property) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{name} of {tool}");
        }
        assert_eq!(tool["annotations"]["readOnlyHint"], json!(tool["name"] != "load_rows"), "{tool}");
    }
    let query = &tools[0]["inputSchema"]["properties"]["query"];
    assert_eq!((&query["contentMediaType"], &query["x-acp-date"]), (&json!("application/sql"), &json!("template")));
    bq.end_well();
}

/// Every form of a resource means the same.
#[test]
fn resources_have_many_names() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for id in [
        "acp-sandbox.warehouse",
        "acp-sandbox/warehouse",
        "`acp-sandbox.warehouse`",
        "acp-sandbox:warehouse",
        "https://console.cloud.google.com/bigquery?project=other&ws=!1m4!1m3!3m2!1sacp-sandbox!2swarehouse",
    ] {
        let answer = bq.call("autocontext", &json!({"resource_id": id, "request_data": ["tables"]}), &json!({})).ok();
        assert_eq!(answer.info()["resource_id"], "acp-sandbox.warehouse", "{id}");
    }
    bq.call("autocontext", &json!({"resource_id": "not a resource"}), &json!({})).refused(-32014);
    let list: Value = bq.call("autocontext", &json!({"resource_id": null}), &json!({})).ok().model();
    assert!(list["resources"].to_string().contains("nordwind.example:archive"), "{list}");
    bq.end_well();
}

/// Previews are a person's decision.
#[test]
fn previews_are_off_unless_allowed() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    bq.call("preview_table", &json!({"table": "customers"}), &json!({})).refused(-32019);
    let allowed = json!({"config": {"allow_preview": true}});
    let answer = bq.call("preview_table", &json!({"table": "customers", "limit": 7}), &allowed).ok();
    assert_eq!(
        (&answer.data()["row_count"], &answer.model()["extra"]["rows_in_the_table"]),
        (&json!(7), &json!(20_000))
    );
    for table in ["orders_by_city", "access_logs"] {
        bq.call("preview_table", &json!({"table": table}), &allowed).refused(-32017);
    }
    bq.end_well();
}
