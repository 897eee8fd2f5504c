//! `compare_conversion_models`: each model's own figures, and no model that is not there.

use serde_json::{Value, json};

use super::bench::{Answer, Ga4, Google};

const MODELS: [&str; 5] = ["first_user", "session", "event", "data_driven", "last_click"];

fn compare(ga4: &mut Ga4, arguments: &Value) -> Answer {
    ga4.call("compare_conversion_models", arguments, &json!({}))
}

/// What `run_report` says is credited to a value.
fn credited(ga4: &mut Ga4, dimension: &str, value: &Value, metric: &str) -> Value {
    let asked = json!({"metrics": [metric], "dimensions": [dimension]});
    let rows = ga4.report(&asked).ok().rows();
    rows.iter().find(|row| row[dimension] == *value).map_or(json!(0), |row| row[metric].clone())
}

#[test]
fn each_column_is_googles_report_of_that_model() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let answer = compare(&mut ga4, &json!({"key_events": ["purchase", "conversions:sign_up"]})).ok();
    assert_eq!(answer.info()["arguments"]["key_events"], json!(["purchase", "sign_up"]));
    let rows = answer.rows();
    assert!(rows.len() > 12, "{} rows", rows.len());
    let dimensions = ["firstUserDefaultChannelGroup", "sessionDefaultChannelGroup", "defaultChannelGroup"];
    for row in rows.iter().filter(|row| row["channel"] == "Email" || row["channel"] == "Direct") {
        let metric = format!("keyEvents:{}", row["key_event"].as_str().unwrap());
        for (model, dimension) in MODELS.into_iter().zip(dimensions) {
            let truth = credited(&mut ga4, dimension, &row["channel"], &metric);
            assert_eq!(row[model].as_f64(), truth.as_f64(), "{model} {row}");
        }
        assert_eq!(row["data_driven"], row["event"], "the property reports data-driven: {row}");
    }
    assert!(rows.iter().any(|row| row["event"].as_f64().unwrap().fract() != 0.0), "credit is split");
    assert!(rows.iter().all(|row| row["last_click"].as_f64().unwrap().fract() == 0.0), "a click gets all or nothing");
    assert!(rows.iter().any(|row| row["event"] != row["last_click"] && row["session"] != row["first_user"]));
    for model in MODELS {
        assert_eq!(answer.header(model)["type"], "number", "{model}");
        let total = answer.model()["totals"][model].as_f64().unwrap();
        assert!((answer.sum(model) - total).abs() < 1e-6, "{model}");
        assert_eq!(Some(total), answer.model()["totals"]["event"].as_f64(), "all models credit every key event once");
    }
    assert!(answer.warnings().is_empty(), "{:?}", answer.warnings());
    ga4.end_well();
}

/// Digits are Google's, and differences have no noise of binary fractions.
#[test]
fn differences_are_exact() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for by in ["channel", "source_medium", "source", "medium", "campaign"] {
        let answer = compare(&mut ga4, &json!({"by": by})).ok();
        let rows = answer.rows();
        assert!(rows.len() > 3 && rows.iter().all(|row| row[by].is_string()), "{by}");
        assert!(rows.iter().all(|row| row["key_event"] == "(all key events)"), "{by}");
        for (name, one, two) in [
            ("session_minus_first_user", "session", "first_user"),
            ("event_minus_session", "event", "session"),
            ("data_driven_minus_last_click", "data_driven", "last_click"),
        ] {
            for row in &rows {
                let tenths = |name: &str| (row[name].as_f64().unwrap() * 10.0).round();
                assert_eq!(tenths(name), tenths(one) - tenths(two), "{name} {row}");
                let digits = row[name].to_string();
                assert!(digits.split_once('.').is_none_or(|(_, fraction)| fraction.len() == 1), "{digits}");
            }
        }
        let order: Vec<f64> = rows.iter().map(|row| row["event"].as_f64().unwrap()).collect();
        assert!(order.is_sorted_by(|one, two| one >= two), "{by}: {order:?}");
    }
    ga4.end_well();
}

#[test]
fn the_propertys_attribution_settings_are_told() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let answer = compare(&mut ga4, &json!({})).ok();
    let attribution = &answer.model()["extra"]["attribution"];
    assert_eq!(attribution["reporting_model"], "paid and organic channels data driven");
    assert_eq!(
        (&attribution["acquisition_lookback"], &attribution["other_lookback"]),
        (&json!("30 days"), &json!("90 days"))
    );
    let description = answer.model()["description"].as_str().unwrap().to_owned();
    assert!(description.contains("data driven") && description.contains("90 days"), "{description}");
    assert!(answer.header("event")["description"].as_str().unwrap().contains("data driven"));

    let other = compare(&mut ga4, &json!({"resource_id": google.id("revenue_restricted")})).ok();
    assert_eq!(other.model()["extra"]["attribution"]["reporting_model"], "paid and organic channels last click");
    assert!(
        other.column("event").iter().all(|credit| credit.as_f64().unwrap().fract() == 0.0),
        "credit is not split there"
    );

    google.fault(&json!({"path": "attributionSettings$", "times": 99, "action": {"status": {"code": 403, "body": {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "no"}}}}}));
    let answer = compare(&mut ga4, &json!({})).ok();
    assert!(answer.model()["extra"]["attribution"].is_null());
    assert!(
        answer.warnings().iter().any(|warning| warning.contains("attribution settings")),
        "{:?}",
        answer.warnings()
    );
    assert!(!answer.rows().is_empty(), "the Admin API does not stop a report");
    ga4.end_well();
}

/// A model that Google does not offer is named; its column is not there, rather than filled in.
#[test]
fn a_missing_model_is_named_and_never_filled_in() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let check = |answer: &Answer, missing: &[&str]| {
        for model in MODELS {
            let gone = missing.contains(&model);
            assert_eq!(answer.header(model).is_null(), gone, "{model}");
            assert_eq!(
                answer.warnings().iter().any(|warning| warning.starts_with(&format!("{model} is missing"))),
                gone
            );
            assert_eq!(answer.model()["extra"]["missing"][model].is_string(), gone, "{model}");
        }
        assert!(answer.rows().iter().all(|row| row["first_user"].is_number()));
    };
    let elsewhere = compare(&mut ga4, &json!({"resource_id": google.id("slice")})).ok();
    check(&elsewhere, &["data_driven", "last_click"]);
    assert!(elsewhere.model()["description"].as_str().unwrap().contains("Missing models: data_driven, last_click"));
    assert!(elsewhere.header("data_driven_minus_last_click").is_null());

    let refused = json!({"status": {"code": 400, "body": {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "not for you"}}}});
    google.fault(&json!({"path": "^/v1alpha/.*:runReport$", "nth": 1, "times": 1, "action": refused}));
    let half = compare(&mut ga4, &json!({})).ok();
    let missing = half.model()["extra"]["missing"].clone();
    assert_eq!(missing.as_object().map(serde_json::Map::len), Some(1), "{missing}");
    let gone = missing.as_object().unwrap().keys().next().unwrap().clone();
    check(&half, &[gone.as_str()]);
    ga4.end_well();
}

/// Google Ads need not count every key event: what it does not count is neither zero nor part of a total.
#[test]
fn a_key_event_that_is_no_conversion_has_no_credit() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let asked = json!({"resource_id": google.id("high_cardinality"), "key_events": ["PURCHASE", "sign_up"]});
    let answer = compare(&mut ga4, &asked).ok();
    let rows = answer.rows();
    for row in &rows {
        let counts = row["key_event"] == "purchase";
        for model in ["data_driven", "last_click", "data_driven_minus_last_click"] {
            assert_eq!(row[model].is_number(), counts, "{model} {row}");
        }
        assert!(row["event"].is_number(), "{row}");
    }
    assert!(rows.iter().any(|row| row["key_event"] == "sign_up"));
    let totals = &answer.model()["totals"];
    assert!(totals["event"].is_number() && totals.get("data_driven").is_none(), "{totals}");
    let said = answer.warnings().iter().any(|warning| warning.contains("sign_up counts as no conversion"));
    assert!(said, "{:?}", answer.warnings());
    let none = json!({"resource_id": google.id("high_cardinality"), "key_events": ["sign_up"]});
    let none = compare(&mut ga4, &none).ok();
    assert!(none.header("data_driven").is_null());
    assert!(none.model()["extra"]["missing"]["last_click"].as_str().unwrap().contains("none of these key events"));
    ga4.end_well();
}

#[test]
fn what_may_have_been_withheld_is_no_zero() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let id = google.id("thresholded");
    let answer = compare(&mut ga4, &json!({"resource_id": id, "by": "source_medium", "start_date": "90daysAgo"})).ok();
    assert!(answer.warnings().iter().any(|warning| warning.contains("withheld")), "{:?}", answer.warnings());
    let rows = answer.rows();
    let open = rows.iter().find(|row| ["first_user", "session", "event"].iter().any(|model| row[model].is_null()));
    let open = open.unwrap_or_else(|| panic!("each value is in all models: {rows:?}"));
    assert!(open["session_minus_first_user"].is_null() || open["event_minus_session"].is_null(), "{open}");
    ga4.end_well();
}

#[test]
fn key_events_are_checked_against_the_property() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for (arguments, fix) in [
        (json!({"key_events": ["scroll"]}), "purchase, generate_lead, sign_up"),
        (json!({"key_events": ["sessions"]}), "is not a key event"),
        (json!({"key_events": ["purchase", "keyEvents:purchase"]}), "twice"),
        (json!({"key_events": ["a", "b", "c", "d", "e", "f"]}), "5"),
        (json!({"by": "country"}), "source_medium"),
        (json!({"dimension_filters": [{"field": "contry", "match_type": "EXACT", "value": "x"}]}), "country"),
        (json!({"start_date": "2026-02-30"}), "does not exist"),
    ] {
        let message = compare(&mut ga4, &arguments).refused(-32017);
        assert!(message.contains(fix), "{arguments}: {message}");
    }
    assert_eq!(google.reports(), 0);
    let filtered = json!({"dimension_filters": [{"field": "country", "match_type": "EXACT", "value": "Germany"}]});
    let (part, all) = (compare(&mut ga4, &filtered).ok(), compare(&mut ga4, &json!({})).ok());
    for model in MODELS {
        assert!(part.sum(model) > 0.0 && part.sum(model) < all.sum(model), "{model}");
    }
    let empty = compare(&mut ga4, &json!({"resource_id": google.id("empty")})).ok();
    assert!(empty.rows().is_empty());
    ga4.end_well();
}

/// The three models that every property has must all be there.
#[test]
fn a_model_that_fails_fails_the_call() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for (nth, body) in [(1, json!({})), (2, json!({"kind": "analyticsData#runReport", "rowCount": 3})), (3, json!([]))]
    {
        google.calm();
        google.fault(&json!({"path": "^/v1beta/.*:runReport$", "nth": nth, "times": 9, "action": {"status": {"code": 200, "body": body}}}));
        compare(&mut ga4, &json!({"start_date": google.day(9), "end_date": google.day(2)})).refused(-32018);
    }
    ga4.end_well();
}
