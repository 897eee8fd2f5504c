//! The autocontext blocks: from metadata alone, small, and true.

use serde_json::{Value, json};

use super::bench::{ANALYTICS, BigQuery, Bq, Google, PLENTY, WAREHOUSE};
use crate::google::block_data as data;

/// Characters that all blocks together may have: they go into a prompt.
const CHARACTERS: usize = 32_000;

/// V-341, S-7.2-03: which blocks a level has.
#[test]
fn levels_have_their_blocks() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (resource, has, lacks) in [
        ("acp-sandbox", vec!["datasets", "access"], vec!["tables", "table_schemas"]),
        (WAREHOUSE, vec!["tables", "table_schemas", "views", "access"], vec!["datasets"]),
        ("acp-sandbox.warehouse.orders", vec!["table_schemas", "partitioning"], vec!["tables", "datasets"]),
    ] {
        let answer = bq.call("autocontext_data", &json!({"resource_id": resource}), &json!({})).ok().model();
        let ids: Vec<&str> = answer.as_array().unwrap().iter().filter_map(|block| block["id"].as_str()).collect();
        assert!(has.iter().all(|id| ids.contains(id)), "{resource}: {ids:?}");
        assert!(!lacks.iter().any(|id| ids.contains(id)), "{resource}: {ids:?}");
    }
    bq.end_well();
}

/// No block runs a query, whatever the resource is.
#[test]
fn no_block_runs_a_query() {
    let google = Google::start();
    google.switch(&json!({"forbid_jobs": true}));
    let mut bq = Bq::start(&google);
    for resource in [
        "acp-sandbox",
        WAREHOUSE,
        ANALYTICS,
        "acp-sandbox.searchconsole",
        "acp-sandbox.many",
        "acp-sandbox.sharding",
        "acp-sandbox.empty",
        "acp-sandbox.warehouse.wide",
        "acp-sandbox.analytics_310000001.events_*",
        "nordwind.example:archive",
    ] {
        let blocks = bq.blocks(resource);
        for block in &blocks {
            assert!(block["error"].is_null(), "{resource}: {block}");
        }
        let characters = json!(blocks).to_string().chars().count();
        assert!(characters < CHARACTERS, "{resource}: {characters}");
    }
    assert_eq!(google.sandbox().bigquery().forbidden(), 0);
    assert!(google.jobs().is_empty());
    bq.end_well();
}

#[test]
fn shards_are_grouped_and_their_gaps_told() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let blocks = bq.blocks(ANALYTICS);
    let tables = data(&blocks, "tables").as_array().expect("tables");
    let events = tables.iter().find(|table| table["table"] == format!("{ANALYTICS}.events_*")).expect("events");
    let facts = &google.facts()["bigquery"]["ga4_export"];
    let shard = |day: &Value| format!("events_{}", day.as_str().unwrap().replace('-', ""));
    assert_eq!(events["latest_shard"], shard(&facts["last"]));
    assert_eq!(events["first_shard"], shard(&facts["first"]));
    assert_eq!(events["missing_days"], json!([facts["gap"]]));
    assert_eq!(
        events["query_hint"],
        format!("FROM `{ANALYTICS}.events_*` WHERE _TABLE_SUFFIX BETWEEN 'YYYYMMDD' AND 'YYYYMMDD'")
    );
    let schemas = data(&blocks, "table_schemas").as_array().expect("schemas");
    let columns = schemas.iter().find(|table| table["table"] == "events_*").expect("events")["columns"].to_string();
    for name in ["event_date", "event_params", "user_pseudo_id"] {
        assert!(columns.contains(name), "{columns}");
    }
    let export = data(&blocks, "ga4_export");
    assert_eq!((&export["recognised"], &export["property_id"]), (&json!(true), &facts["property"]));
    bq.end_well();
}

/// A table of 937 fields fits into 16,000 characters.
#[test]
fn wide_tables_are_compact() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let blocks = bq.blocks("acp-sandbox.warehouse.wide");
    let schema = data(&blocks, "table_schemas");
    assert!(schema.to_string().chars().count() < 16_000, "{}", schema.to_string().len());
    let described = bq.call("describe_table", &json!({"table": "wide"}), &json!({})).ok().model();
    assert!(described["columns_in_all"].as_i64().is_some_and(|count| count >= 937), "{described}");
    assert!(described.to_string().chars().count() < 16_000);
    bq.end_well();
}

/// The queries that the blocks offer run as they are.
#[test]
fn the_snippets_work() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (resource, block) in [(ANALYTICS, "ga4_export"), ("acp-sandbox.searchconsole", "gsc_export")] {
        let blocks = bq.blocks(resource);
        let export = data(&blocks, block);
        assert_eq!(export["recognised"], true, "{resource}");
        let snippets = export["snippets"].as_array().expect("snippets");
        assert!(snippets.len() >= 6, "{}", snippets.len());
        for snippet in snippets {
            let sql = snippet["sql"].as_str().expect("sql");
            let arguments = json!({"resource_id": resource, "query": sql});
            let answer = bq.call("execute_query", &arguments, &json!({"cost_limit_usd": PLENTY})).ok();
            assert!(answer.data()["row_count"].as_i64().is_some_and(|rows| rows > 0), "{sql}");
        }
    }
    bq.end_well();
}

#[test]
fn a_missing_right_is_named() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let meta = json!({"config": {"billing_project": "nordwind-data"}});
    let answer = bq.call("autocontext", &json!({"resource_id": WAREHOUSE, "request_data": ["access"]}), &meta).ok();
    let access = &answer.model()[0]["data"];
    assert_eq!(access["can_run_queries"], false);
    assert!(access["missing"].to_string().contains("roles/bigquery.jobUser"), "{access}");
    bq.end_well();
}
