//! Every type of Appendix A reads a message and writes the same message.

#![allow(clippy::unwrap_used)]

use acp_protocol::autocontext::{BlockDescriptor, BlockResult, ResourceListResponse};
use acp_protocol::capability::{ClientCapability, ServerCapability};
use acp_protocol::manifest::PackageManifest;
use acp_protocol::result::{ExtractionModelResponse, MultiTableModelResponse, ResultMeta, SystemData};
use acp_protocol::session::{CallMeta, ConfigureParams, ConfigureResult, HostTable, ReadTableParams};
use serde::{Serialize, de::DeserializeOwned};

/// The text must survive reading and writing to the letter: key order, raw digits and absent fields included.
fn round_trip<T: Serialize + DeserializeOwned>(text: &str) {
    let typed: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(serde_json::to_string(&typed).unwrap(), text);
}

#[test]
fn capabilities() {
    round_trip::<ClientCapability>(r#"{"version":"1.0","stores_system_data":true}"#);
    round_trip::<ClientCapability>(
        r#"{"version":"1.0","stores_system_data":false,"autocontext_delivery":"on_first_call","multi_table":true,"host_tables":true}"#,
    );
    round_trip::<ServerCapability>(concat!(
        r#"{"version":"1.0","defaults":{"row_limit":25,"cost_limit_usd":0},"credentials_schema":{"type":"object","properties":{}},"#,
        r#""resource_id":{"description":"d","format":"<a>","examples":["1"]},"autocontext":{"cache_ttl_s":60,"delivery":["inject","suggest"]},"#,
        r#""cost":{"currency":"USD","model":"free","description":"d"},"extraction_tools":["rows"]}"#
    ));
    round_trip::<ServerCapability>(concat!(
        r#"{"version":"1.0","defaults":{"row_limit":25,"cost_limit_usd":0.5,"field_limit":20,"tables":["a"]},"#,
        r#""credentials_schema":{"oneOf":[{"title":"K","type":"object","properties":{"type":{"type":"string","const":"k"}},"required":["type"]},"#,
        r#"{"title":"L","type":"object","x-acp-login":{"provider":"google","scopes":["s"]},"properties":{"type":{"type":"string","const":"l"},"#,
        r#""token":{"type":"string","title":"T","writeOnly":true,"x-acp-filled":true}}}]},"#,
        r#""config_schema":{"type":"object","properties":{"z":{"type":"number","title":"Z","default":6.25,"minimum":0},"a":{"type":"string","title":"A","enum":["x"],"enumNames":["X"]}},"required":[]},"#,
        r#""resource_id":{"title":"T","description":"d","format":"<a>","separators":["."],"examples":[]},"#,
        r#""autocontext":{"cache_ttl_s":60,"delivery":[]},"cost":{"currency":"USD","model":"per_byte","description":"d"},"extraction_tools":[],"#,
        r#""table_catalog":[{"name":"a","title":"A","description":"d","group":"g","required":true,"tools":["t"]},{"name":"b","title":"B"}]}"#
    ));
}

#[test]
fn absent_and_null_stay_apart() {
    round_trip::<ConfigureParams>("{}");
    round_trip::<ConfigureParams>(r#"{"credentials":null,"default_resource_id":null}"#);
    round_trip::<CallMeta>(concat!(
        r#"{"row_limit":3,"cost_limit_usd":0.5,"field_limit":2,"tables":[],"credentials":{"type":"k"},"config":{"a":1},"default_resource_id":"r","#,
        r#""session_id":"s","conversation_id":"c","autocontext_delivered":false,"autocontext_blocks":[],"sampling":"spread","inline_max_bytes":0,"call_id":"i"}"#
    ));
    round_trip::<ConfigureResult>(
        r#"{"ok":true,"effective":{"row_limit":25,"cost_limit_usd":0,"field_limit":20,"has_credentials":false,"default_resource_id":null}}"#,
    );
}

#[test]
fn credentials_are_not_in_the_debug_text() {
    let params: ConfigureParams =
        serde_json::from_str(r#"{"credentials":{"api_key":"CANARY"},"config":{"x":"CANARY"}}"#).unwrap();
    assert!(!format!("{params:?}").contains("CANARY"));
}

#[test]
fn resources_and_blocks() {
    round_trip::<ResourceListResponse>(
        r#"{"notice":"n","total_available":1,"resources":[{"resource_id":"1","name":"n","description":"d","group":"g","recent":true},{"resource_id":"2","name":"m"}]}"#,
    );
    round_trip::<Vec<BlockDescriptor>>(
        r#"[{"id":"a","description":"d"},{"id":"b","description":"d","applies_to":["table"]}]"#,
    );
    round_trip::<Vec<BlockResult>>(
        r#"[{"id":"a","description":"d","data":[]},{"id":"b","description":"d","error":"e"}]"#,
    );
}

#[test]
fn results_keep_every_digit() {
    round_trip::<ExtractionModelResponse>(
        r#"{"notice":"n","description":"d","dates":["2026-01-01"],"total_rows":1,"returned_rows":1,"truncated":false,"columns":["a"],"rows":[{"a":12345678901234567890123456789012345678}],"totals":{"a":0.10},"extra":{},"warnings":[],"autocontext":[]}"#,
    );
    round_trip::<MultiTableModelResponse>(concat!(
        r#"{"notice":"n","description":"d","dates":[],"manifest":{"p":1},"tables":{"b":{"title":"B","notice":"n","total_rows":0,"returned_rows":0,"fields":[],"fields_total":0,"rows":[],"description":"d","dates":[]}},"#,
        r#""not_extracted":{"c":9},"extra":1,"warnings":["w"],"autocontext":[]}"#
    ));
    round_trip::<SystemData>(
        r#"{"format":"inline","row_count":1,"headers":[{"name":"a","type":"integer","role":"metric","description":"d"}],"table":[{"a":99999999999999999999}]}"#,
    );
    round_trip::<SystemData>(concat!(
        r#"{"format":"tables","row_count":1,"headers":[],"tables":[{"name":"t","title":"T","format":"file","row_count":1,"headers":[{"name":"a","type":"json"}],"#,
        r#""table_uri":"file:///t.json","model_view":{"fields":["a"],"max_value_chars":5,"max_rows":0}}]}"#
    ));
    round_trip::<ResultMeta>(concat!(
        r#"{"version":"1.0","kind":"error","system_info":{"acp":"toy","acp_version":"1.0","tool":"t","kind":"error","resource_id":null,"arguments":{},"title":"T","#,
        r#""total_rows":1,"returned_rows":1,"truncated":false,"row_limit":25,"cost_limit_usd":0,"cost_estimate_usd":3.836,"cost_actual_usd":null,"duration_ms":1,"#,
        r#""fetched_at":"2026-01-01T00:00:00Z","autocontext_attached":false,"cached":true,"messages":[],"warnings":[],"source":{},"field_limit":20,"#,
        r#""tables":[{"name":"t","total_rows":1,"returned_rows":1,"fields_total":1,"fields_shown":1}],"tables_selected":["t"]},"#,
        r#""error":{"code":-32010,"name":"ACP_COST_LIMIT_EXCEEDED","message":"m","data":{"limit_usd":1}}}"#
    ));
}

#[test]
fn host_tables_and_manifests() {
    round_trip::<ReadTableParams>(r#"{"ref":"ds 1/é","call_id":"c"}"#);
    round_trip::<ReadTableParams>(r#"{"ref":"ds"}"#);
    round_trip::<HostTable>(
        r#"{"format":"inline","row_count":1,"headers":[{"name":"a","type":"date"}],"table":[{"a":"2026-01-01"}]}"#,
    );
    round_trip::<HostTable>(r#"{"format":"file","row_count":1,"headers":[],"table_uri":"file:///t.json"}"#);
    round_trip::<PackageManifest>(
        r#"{"acp_version":"1.0","id":"a","name":"A","version":"1.0.0","publisher":"p","description":"d","icon":"i.svg","transport":{"type":"stdio","command":"sh","args":["s"],"env":{"A":"b"}},"http":{"args":["--http"]}}"#,
    );
    round_trip::<PackageManifest>(
        r#"{"acp_version":"1.0","id":"a","name":"A","version":"1.0.0","description":"d","transport":{"type":"http","url":"u","headers":{"A":"b"}}}"#,
    );
}
