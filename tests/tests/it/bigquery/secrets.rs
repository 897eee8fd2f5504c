//! No tool leaves a piece of a credential anywhere; what all connectors do is in [`crate::google::secrets`].

use serde_json::{Value, json};

use super::bench::{BigQuery, Bq, Google, PLENTY, until};
use crate::google::secrets::{Needles, TALKATIVE};

/// S-10.1-04, S-10.2-01: every tool, in a key's name and in a person's, with what goes well and what does not.
#[test]
fn no_tool_leaves_a_trace_of_a_credential() {
    let google = Google::start();
    let mut bq = Bq::start_with(&google, &json!({}), TALKATIVE);
    for who in ["full", "oauth"] {
        let config = json!({"allow_preview": true, "access_mode": "readAndOnlyAdd"});
        let meta = json!({"credentials": google.credentials(who), "cost_limit_usd": PLENTY, "config": config, "inline_max_bytes": 0});
        let answer = bq.call("execute_query", &json!({"query": "SELECT city FROM order_lines"}), &meta).ok();
        let job = answer.info()["source"]["job_id"].clone();
        bq.call("get_job", &json!({"job_id": job}), &meta).ok();
        bq.call("get_job", &json!({"job_id": "acp_nobodys"}), &meta).refused(-32014);
        bq.call("validate_query", &json!({"query": "SELECT citty FROM order_lines"}), &meta).ok();
        bq.call("describe_table", &json!({"table": "orders"}), &meta).ok();
        bq.call("preview_table", &json!({"table": "customers"}), &meta).ok();
        for (destination, words) in
            [(format!("acp-sandbox.loads.by_{who}"), "ok"), ("acp-sandbox.warehouse.x".to_owned(), "refused")]
        {
            let arguments = json!({"table_ref": "ds_1", "destination": destination, "resource_id": null});
            let table = json!({"headers": [{"name": "a", "type": "integer"}], "format": "inline", "row_count": 1, "table": [{"a": 1}]});
            let id = bq.begin_call("load_rows", &arguments, &meta);
            bq.hand_over(id, &table);
            let answer = bq.answer(id, "load_rows", &arguments);
            assert_eq!(answer.error().is_none(), words == "ok", "{destination}: {}", answer.text);
        }
        // A job that is left in the middle.
        google.switch(&json!({"pending_polls": 1_000_000}));
        google.fault(&json!({"path": "/queries/", "times": 1_000_000, "action": {"delay_ms": 50}}));
        let before = google.jobs().len();
        let id = bq.begin_call("execute_query", &json!({"query": "SELECT day FROM order_lines"}), &meta);
        until("the job", || google.jobs().len() > before);
        bq.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
        bq.assert_alive("a cancelled query");
        google.calm();
        google.sandbox().bigquery().clear();
    }
    assert!(!bq.files("tmp").is_empty(), "there is something to search");
    let ended = bq.into_inner().end_well();
    assert!(ended.stderr.len() > 500, "the log says something: {}", ended.stderr);
    Needles::of(&google).assert_absent(&ended);
    let queries: Vec<Value> = google.jobs().iter().map(|job| json!(job.query)).collect();
    assert!(queries.len() >= 6, "{queries:?}");
}
