//! The session of 16.7 with Google's three sources, on the sandbox: what acp_query adds up is what Google says.

use serde_json::{Value, json};

use super::{Bridge, Place, Reply};
use crate::google::Google;
use crate::rules;
use crate::server::binary_of;

/// What a query may cost, in USD; the sandbox's tables are small.
const LIMIT: f64 = 1.0;
const SITE: &str = "sc-domain:nordwind.example";

fn start(google: &Google) -> Bridge {
    let place = Place::new(&json!({}));
    let env = json!({"ACP_GOOGLE_SANDBOX": google.sandbox().url()});
    for id in ["ga4", "gsc", "bigquery"] {
        place.install_with(id, id, &binary_of(id), &[], &env);
    }
    std::fs::write(place.path().join("key.json"), google.key().to_string()).expect("the key");
    let key = json!({"type": "service_account", "service_account": {"file": "key.json"}});
    place.write_sources(
        &json!({"sources": [
            {"id": "ga4", "acp": "ga4", "label": "Shop", "credentials": key, "default_resource_id": google.id("main")},
            {"id": "gsc", "acp": "gsc", "credentials": key, "default_resource_id": SITE},
            {"id": "bq", "acp": "bigquery", "credentials": key, "cost_limit_usd": LIMIT},
        ]})
        .to_string(),
    );
    place.start("Google's sources")
}

/// The sum of a column of what was stored.
fn sum(bridge: &mut Bridge, dataset: &str, column: &str) -> Value {
    bridge.query(&format!("SELECT SUM({column}) AS s FROM {dataset}"))[0]["s"].clone()
}

/// B-16.7-02, B-16.1-04: three sources, one session, and the key nowhere but in the connectors.
#[test]
fn what_is_added_up_is_what_google_says() {
    let google = Google::start();
    let mut bridge = start(&google);
    let mut replies: Vec<Reply> = vec![bridge.call("acp_sources", json!({})).ok()];
    assert!(replies[0].model()["sources"].as_array().unwrap().iter().all(|source| source["state"] == "ok"));

    // Events add up over days and countries; sessions, which may span two days, don't.
    let arguments = json!({
        "start_date": google.day(20), "end_date": google.day(7), "dimensions": ["date", "country"], "metrics": ["eventCount"],
    });
    let report = bridge.call("ga4__run_report", arguments).ok();
    let total = report.model()["totals"]["eventCount"].clone();
    assert!(total.as_u64().is_some_and(|total| total > 0), "{}", report.line);
    assert_eq!(sum(&mut bridge, &report.dataset(), "eventCount"), total);

    let search = bridge.call("gsc__search_analytics", json!({"dimensions": ["date"]})).ok();
    let clicks = search.model()["totals"]["clicks"].clone();
    assert!(clicks.as_u64().is_some_and(|clicks| clicks > 0), "{}", search.line);
    assert_eq!(sum(&mut bridge, &search.dataset(), "clicks"), clicks);

    // The same events, counted in the export.
    let export = &google.sandbox().facts()["bigquery"]["ga4_export"];
    let table = format!("acp-sandbox.{}.events_*", export["dataset"].as_str().unwrap());
    let last = export["last"].as_str().unwrap().to_owned();
    let first: jiff::civil::Date = last.parse::<jiff::civil::Date>().unwrap().saturating_sub(jiff::Span::new().days(6));
    let first = first.to_string();
    let sql = format!(
        "SELECT event_date, COUNT(*) AS events FROM `{table}` WHERE event_name = 'page_view' AND _TABLE_SUFFIX BETWEEN \
         REPLACE('{{{{start_date}}}}', '-', '') AND REPLACE('{{{{end_date}}}}', '-', '') GROUP BY 1"
    );
    let dates = json!({"query": sql, "start_date": first, "end_date": last, "resource_id": table.trim_end_matches(".events_*")});
    let counted = bridge.call("bq__execute_query", dates).ok();
    let arguments = json!({
        "start_date": first, "end_date": last, "metrics": ["eventCount"], "dimensions": ["date"],
        "dimension_filters": [{"field": "eventName", "match_type": "EXACT", "value": "page_view"}],
    });
    let reported = bridge.call("ga4__run_report", arguments).ok();
    // The export writes its days as text.
    let joined = bridge.query(&format!(
        "SELECT COUNT(*) AS days, SUM(b.events = a.eventCount) AS equal, SUM(b.events) AS events FROM {} AS b JOIN {} AS a ON b.event_date = replace(a.date, '-', '')",
        counted.dataset(),
        reported.dataset()
    ));
    assert_eq!((&joined[0]["days"], &joined[0]["equal"]), (&json!(7), &json!(7)), "{joined}");
    assert_eq!(joined[0]["events"], reported.model()["totals"]["eventCount"]);

    replies.extend([report, search, counted, reported]);
    let key = google.key();
    let secrets: Vec<&str> = key["private_key"].as_str().unwrap().lines().filter(|line| line.len() > 40).collect();
    let root = bridge.server.process().root.clone();
    let ended = bridge.end();
    let mut seen: Vec<String> = replies.into_iter().map(|reply| reply.line).collect();
    seen.push(ended.stderr.clone());
    seen.extend(
        rules::files_below(root.path())
            .iter()
            .map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned()),
    );
    for text in seen {
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "a piece of the key is in {text:.200}");
    }
}

/// Refused credentials are told with who can mend them, and nothing is stored.
#[test]
fn credentials_that_google_refuses_are_told() {
    let google = Google::start();
    let mut bridge = start(&google);
    let refusal = r#"{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}"#;
    google.fault(&json!({"path": "^/token$", "times": 9, "action": {"status": {"code": 400, "body": refusal}}}));
    let refused = bridge.call("ga4__run_report", json!({"metrics": ["sessions"]}));
    refused.error("ACP_CREDENTIALS_INVALID");
    assert!(refused.notes().contains("sources.json"), "{}", refused.line);
    assert!(bridge.files().is_empty());
    bridge.end();
}
