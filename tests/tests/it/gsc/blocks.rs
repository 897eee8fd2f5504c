//! The autocontext blocks: small, true, and independent of each other.

use serde_json::{Value, json};

use super::bench::{DOMAIN, Google, Gsc, NOTHING, SHOP, SearchConsole};
use crate::google::block_data as data;

const IDS: [&str; 10] = [
    "available_date_range",
    "position_clusters",
    "property_info",
    "search_types_with_data",
    "top_queries",
    "top_pages",
    "devices_and_countries",
    "search_appearances",
    "sitemaps",
    "not_available",
];
/// Characters that all blocks together may have: they go into a prompt.
const CHARACTERS: usize = 16_000;

#[test]
fn all_blocks_are_there_and_small() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    for resource in [DOMAIN, SHOP, "sc-domain:bulk.example", NOTHING, "sc-domain:xn--mbel-5qa.example"] {
        let blocks = gsc.blocks(resource);
        let ids: Vec<&str> = blocks.iter().filter_map(|block| block["id"].as_str()).collect();
        assert_eq!(ids, IDS, "{resource}");
        for id in IDS {
            assert!(!data(&blocks, id).is_null(), "{id}");
        }
        let characters = json!(blocks).to_string().chars().count();
        assert!(characters < CHARACTERS, "{resource}: {characters}");
    }
    gsc.end_well();
}

#[test]
fn the_figures_are_googles() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let blocks = gsc.blocks(DOMAIN);
    let truth = |question: Value| {
        let mut question = question;
        question["startDate"] = json!(google.final_day(27));
        question["endDate"] = json!(google.final_day(0));
        google.truth(DOMAIN, &question)
    };
    // A long address is cut and ends in an ellipsis.
    let find = |rows: &[Value], key: &Value| {
        let key = key.as_str().expect("a key");
        let is_it = |row: &&Value| {
            let whole = row["keys"][0].as_str().expect("a key");
            key.strip_suffix('…').map_or(whole == key, |start| whole.starts_with(start))
        };
        rows.iter().find(is_it).cloned().unwrap_or_else(|| panic!("no {key}"))
    };
    for (id, place, dimension, most) in [
        ("top_queries", "", "query", 20),
        ("top_pages", "", "page", 15),
        ("devices_and_countries", "/devices", "device", 3),
        ("devices_and_countries", "/countries", "country", 10),
        ("search_appearances", "", "searchAppearance", 12),
    ] {
        let rows = truth(json!({"dimensions": [dimension]}));
        let entries = data(&blocks, id).pointer(place).and_then(Value::as_array).expect("entries");
        assert_eq!(entries.len(), rows.len().min(most), "{id}");
        for entry in entries {
            let row = find(&rows, &entry[dimension]);
            assert_eq!(
                (entry["clicks"].as_f64(), entry["impressions"].as_f64()),
                (row["clicks"].as_f64(), row["impressions"].as_f64()),
                "{id}"
            );
        }
        assert!(entries.is_sorted_by(|one, two| one["clicks"].as_i64() >= two["clicks"].as_i64()), "{id}");
    }
    for entry in data(&blocks, "search_types_with_data").as_array().expect("types") {
        let rows = truth(json!({"type": entry["search_type"]}));
        let clicks = rows.first().and_then(|row| row["clicks"].as_f64()).unwrap_or_default();
        assert_eq!(entry["clicks"].as_f64(), Some(clicks), "{entry}");
    }
    let info = data(&blocks, "property_info");
    assert_eq!((&info["kind"], &info["permission_level"]), (&json!("domain"), &json!("siteOwner")));
    let same: Vec<&str> = info["same_site"].as_array().expect("properties").iter().filter_map(Value::as_str).collect();
    assert!(
        same.contains(&SHOP) && same.contains(&"https://help.nordwind.example/") && !same.contains(&DOMAIN),
        "{same:?}"
    );
    assert!(same.iter().all(|site| site.contains("nordwind.example")), "{same:?}");
    assert_eq!(data(&blocks, "sitemaps")["submitted"], 4);
    gsc.end_well();
}

/// S-7.2: one that fails carries its error, the others come.
#[test]
fn a_failing_block_does_not_stop_the_others() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let forbidden = json!({"status": {"code": 403, "body": json!({"error": {"code": 403, "message": "No", "errors": [{"reason": "forbidden"}]}}).to_string()}});
    google.fault(&json!({"path": "/sitemaps$", "times": 99, "action": forbidden}));
    let answer = gsc.call("autocontext", &json!({"resource_id": DOMAIN}), &json!({})).ok();
    let list = answer.model().as_array().expect("blocks").clone();
    for block in &list {
        assert_eq!(block["error"].is_null(), block["id"] != "sitemaps", "{block}");
    }
    // A type that fails is one entry that failed.
    google.calm();
    google.fault(&json!({"path": "/searchAnalytics/query$", "nth": 2, "times": 1, "action": forbidden}));
    let asked = json!({"resource_id": SHOP, "request_data": ["search_types_with_data"]});
    let types = gsc.call("autocontext", &asked, &json!({})).ok().model()[0]["data"].clone();
    let failed = types.as_array().expect("types").iter().filter(|entry| !entry["error"].is_null()).count();
    assert_eq!((types.as_array().map(Vec::len), failed), (Some(6), 1), "{types}");
    gsc.end_well();
}

/// A block with one failed part must not be kept as if it were whole, and neither is one that failed.
#[test]
fn blocks_are_kept_and_failures_are_not() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let forbidden = json!({"status": {"code": 403, "body": json!({"error": {"code": 403, "message": "No", "errors": [{"reason": "forbidden"}]}}).to_string()}});
    google.fault(&json!({"path": "/sitemaps$", "times": 1, "action": forbidden}));
    let asked = json!({"resource_id": DOMAIN, "request_data": ["sitemaps"]});
    let mut read = || gsc.call("autocontext", &asked, &json!({})).ok().model()[0].clone();
    assert!(!read()["error"].is_null());
    assert!(read()["error"].is_null());
    let asked_for = google.asked("/sitemaps").len();
    read();
    assert_eq!(google.asked("/sitemaps").len(), asked_for, "an hour in the cache");

    let refused =
        json!({"path": "/searchAnalytics/query$", "body": r#""type":"image""#, "times": 1, "action": forbidden});
    google.fault(&refused);
    let asked = json!({"resource_id": DOMAIN, "request_data": ["search_types_with_data"]});
    let mut failed = || {
        let types = gsc.call("autocontext", &asked, &json!({})).ok().model()[0]["data"].clone();
        let failed = types.as_array().expect("types").iter().filter(|entry| !entry["error"].is_null());
        failed.map(|entry| entry["search_type"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((failed(), failed()), (vec![json!("image")], Vec::new()), "the failed type is asked for again");
    let asked_for = google.searches();
    failed();
    assert_eq!(google.searches(), asked_for, "an hour in the cache");
    gsc.end_well();
}
