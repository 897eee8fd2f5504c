//! Autocontext for a right first query: it fits, it says what day it is and what the figures can bear, and it needs no Admin API.

use serde_json::{Value, json};

use super::bench::{Ga4, Google};

fn block<'a>(model: &'a Value, id: &str) -> &'a Value {
    let found = model.as_array().into_iter().flatten().find(|block| block["id"] == id);
    &found.unwrap_or_else(|| panic!("no block {id}"))["data"]
}

#[test]
fn health_annotations_and_links_are_told() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let ask = json!({"request_data": ["property_settings", "data_health", "annotations", "links"]});
    let model = ga4.call("autocontext", &ask, &json!({})).ok().model();
    let health = block(&model, "data_health");
    assert_eq!(health["last_day_with_data"], google.day(1));
    assert_eq!((&health["days_without_data"], &health["settled_until"]), (&json!(0), &json!(google.day(3))));
    assert!(health.get("revenue").is_none() && health.get("notices").is_none(), "{health}");
    assert_eq!(
        *block(&model, "annotations"),
        json!([{"from": google.day(21), "title": "Checkout relaunched", "description": "New payment page"}])
    );
    let links = block(&model, "links");
    assert_eq!(links["bigquery"][0]["dataset"], format!("analytics_{}", google.id("main")));
    assert_eq!(
        (&links["bigquery"][0]["project"], &links["google_ads"][0]["customer_id"]),
        (&json!("123456789012"), &json!("1112223333"))
    );
    let settings = block(&model, "property_settings");
    assert_eq!(
        (&settings["today"], &settings["service_level"]),
        (&json!(google.day(0)), &json!("GOOGLE_ANALYTICS_STANDARD"))
    );
    assert_eq!(settings["data_retention"]["eventDataRetention"], "FOURTEEN_MONTHS");
    // Revenue that nobody may see is not revenue of nothing.
    let ask = json!({"resource_id": google.id("revenue_restricted"), "request_data": ["data_health"]});
    let model = ga4.call("autocontext", &ask, &json!({})).ok().model();
    let health = block(&model, "data_health");
    assert!(
        health["revenue"].as_str().unwrap().contains("not measured")
            && health["notices"][0].as_str().unwrap().contains("totalRevenue")
    );
    ga4.end_well();
}

/// A property with more of everything than fits.
#[test]
fn all_blocks_fit_whatever_the_property_has() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let long = |number: usize| format!("{number:03} {}", "ü long name ".repeat(14));
    let list = |key: &str, entry: &dyn Fn(usize) -> Value| json!({(key): (0..150).map(entry).collect::<Vec<_>>()});
    let rows: Vec<Value> = (0..50).map(|n| json!({"dimensionValues": [{"value": long(n)}], "metricValues": [{"value": "123456789"}, {"value": "123456789"}, {"value": "0.123456"}]})).collect();
    let report = json!({"kind": "analyticsData#runReport", "rows": rows, "rowCount": 50, "metadata": {"timeZone": "Europe/Berlin", "dataLossFromOtherRow": true, "subjectToThresholding": true}});
    let field = |n: usize| json!({"apiName": format!("customEvent:parameter_{n}"), "uiName": long(n), "description": long(n), "customDefinition": true});
    for (path, body) in [
        (":runReport$", report),
        (
            "/metadata$",
            json!({"dimensions": (0..150).map(field).collect::<Vec<_>>(), "metrics": [{"apiName": "sessions"}]}),
        ),
        (
            "/keyEvents$",
            list("keyEvents", &|n| json!({"eventName": format!("event_{n}"), "countingMethod": "ONCE_PER_EVENT"})),
        ),
        (
            "/customMetrics$",
            list(
                "customMetrics",
                &|n| json!({"parameterName": format!("p{n}"), "displayName": long(n), "description": long(n)}),
            ),
        ),
        (
            "/calculatedMetrics$",
            list(
                "calculatedMetrics",
                &|n| json!({"calculatedMetricId": format!("c{n}"), "displayName": long(n), "formula": long(n)}),
            ),
        ),
        (
            "/channelGroups$",
            list("channelGroups", &|n| json!({"displayName": long(n), "groupingRule": [{"displayName": "Paid"}]})),
        ),
        (
            "/reportingDataAnnotations$",
            list(
                "reportingDataAnnotations",
                &|n| json!({"title": long(n), "description": long(n), "annotationDate": {"year": 2999, "month": 1, "day": 1}}),
            ),
        ),
        ("/googleAdsLinks$", list("googleAdsLinks", &|n| json!({"customerId": long(n)}))),
        ("/bigQueryLinks$", list("bigqueryLinks", &|n| json!({"project": long(n)}))),
    ] {
        google.fault(&json!({"path": path, "times": 99, "action": {"status": {"code": 200, "body": body}}}));
    }
    let answer = ga4.call("autocontext", &json!({}), &json!({})).ok();
    let text = answer.json["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.chars().count() <= 16_000, "{} characters", text.chars().count());
    let model = answer.model();
    assert!(model.as_array().unwrap().iter().all(|block| block.get("error").is_none()), "{text}");
    for id in ["key_events", "custom_dimensions", "top_events"] {
        let entries = block(&model, id).as_array().unwrap();
        assert!(entries.len() > 3 && entries.last().unwrap()["left_out"].as_u64() > Some(0), "{id}: {entries:?}");
    }
    ga4.end_well();
}
