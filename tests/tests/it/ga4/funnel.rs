//! `run_funnel_report`: users through steps, as Google counts them.

use serde_json::{Value, json};

use super::bench::{Answer, Ga4, Google};

fn funnel(ga4: &mut Ga4, arguments: &Value) -> Answer {
    ga4.call("run_funnel_report", arguments, &json!({}))
}

fn shop() -> Value {
    json!([{"event": "view_item"}, {"event": "add_to_cart"}, {"event": "purchase", "name": "Bought"}])
}

fn with(more: Value) -> Value {
    let mut arguments = json!({"steps": shop()});
    arguments.as_object_mut().expect("arguments").extend(more.as_object().cloned().unwrap_or_default());
    arguments
}

fn users(answer: &Answer) -> Vec<i64> {
    answer.column("activeUsers").iter().map(|users| users.as_i64().expect("users")).collect()
}

#[test]
fn a_closed_funnel_narrows_and_its_rates_are_googles() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let answer = funnel(&mut ga4, &with(json!({}))).ok();
    assert_eq!(
        (answer.column("step"), answer.column("step_name")),
        (vec![json!(1), json!(2), json!(3)], vec![json!("view_item"), json!("add_to_cart"), json!("Bought")])
    );
    let reached = users(&answer);
    assert!(reached.is_sorted_by(|one, two| one > two) && reached[2] > 0, "{reached:?}");
    let viewers = json!({"metrics": ["totalUsers"], "dimension_filters": [{"field": "eventName", "match_type": "EXACT", "value": "view_item"}]});
    assert_eq!(ga4.report(&viewers).ok().rows()[0]["totalUsers"], reached[0], "everybody who saw an item");
    let rows = answer.rows();
    for (place, row) in rows.iter().enumerate().take(2) {
        assert_eq!(row["funnelStepAbandonments"].as_i64(), Some(reached[place] - reached[place + 1]), "{row}");
        let rate = row["funnelStepCompletionRate"].as_f64().unwrap();
        assert!((rate - reached[place + 1] as f64 / reached[place] as f64).abs() < 1e-9, "{row}");
        assert!((rate + row["funnelStepAbandonmentRate"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{row}");
    }
    for name in ["funnelStepCompletionRate", "funnelStepAbandonments", "funnelStepAbandonmentRate"] {
        assert!(rows[2][name].is_null(), "nothing follows the last step");
    }
    assert_eq!(answer.header("funnelStepCompletionRate")["type"], "number");
    assert_eq!(answer.model()["dates"], json!([google.day(28), google.day(1)]));
    assert_eq!(answer.info()["source"]["api"], "analyticsdata.v1alpha.runFunnelReport");
    assert!(answer.model()["extra"]["quota"]["tokensPerDay"].is_object());
    assert!(answer.model().get("totals").is_none_or(Value::is_null), "steps have no total");
    ga4.end_well();
}

#[test]
fn open_within_and_directly_change_who_counts() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let closed = users(&funnel(&mut ga4, &with(json!({}))).ok());
    let open = users(&funnel(&mut ga4, &with(json!({"open": true}))).ok());
    assert!(open[0] == closed[0] && open[1] >= closed[1] && open[2] >= closed[2], "{open:?} {closed:?}");
    let mut steps = shop();
    steps[1]["within_seconds"] = json!(30);
    let quick = users(&funnel(&mut ga4, &json!({"steps": steps})).ok());
    assert!(quick[0] == closed[0] && quick[1] < closed[1] && quick[1] > 0, "{quick:?}");
    let mut steps = shop();
    steps[2]["directly"] = json!(true);
    let direct = users(&funnel(&mut ga4, &json!({"steps": steps})).ok());
    assert_eq!(direct, [closed[0], closed[1], 0], "begin_checkout comes in between");
    let wrong_way = json!({"steps": [{"event": "purchase"}, {"event": "first_visit"}]});
    assert_eq!(users(&funnel(&mut ga4, &wrong_way).ok())[1], 0, "order matters");
    ga4.end_well();
}

#[test]
fn filters_narrow_a_step() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let product = json!({"field": "page_path", "matchType": "begins_with", "value": "/products/chair"});
    let steps = json!([{"event": "view_item", "filters": [product]}, {"filters": [{"field": "eventName", "match_type": "IN_LIST", "values": ["purchase", "sign_up"]}]}]);
    let answer = funnel(&mut ga4, &json!({"steps": steps})).ok();
    assert_eq!(answer.column("step_name"), ["view_item", "eventName"]);
    assert_eq!(answer.info()["arguments"]["steps"][0]["filters"][0]["field"], "pagePath");
    let truth = json!({"metrics": ["totalUsers"], "dimension_filters": [product,
        {"field": "eventName", "match_type": "EXACT", "value": "view_item"}]});
    assert_eq!(ga4.report(&truth).ok().rows()[0]["totalUsers"], users(&answer)[0]);
    let again = funnel(&mut ga4, &answer.info()["arguments"]).ok();
    assert_eq!(again.rows(), answer.rows(), "the arguments repeat it");
    ga4.end_well();
}

#[test]
fn a_breakdown_has_a_row_for_all_values_together() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let plain = users(&funnel(&mut ga4, &with(json!({}))).ok());
    let answer = funnel(&mut ga4, &with(json!({"breakdown": "device", "breakdown_limit": 2}))).ok();
    let rows = answer.rows();
    let all: Vec<&Value> = rows.iter().filter(|row| row["deviceCategory"].is_null()).collect();
    assert_eq!(all.iter().map(|row| row["activeUsers"].as_i64().unwrap()).collect::<Vec<_>>(), plain);
    let values: std::collections::BTreeSet<&str> =
        rows.iter().filter_map(|row| row["deviceCategory"].as_str()).collect();
    assert_eq!(values.len(), 2, "{values:?}");
    assert!(!answer.text.contains("RESERVED_TOTAL"));
    ga4.end_well();
}

#[test]
fn segments_are_told_apart() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let mobile = |not: bool| json!([{"field": "deviceCategory", "match_type": "EXACT", "value": "mobile", "not": not}]);
    let all = users(&funnel(&mut ga4, &with(json!({}))).ok());
    for scope in ["user", "session", "event"] {
        let segments = json!([{"name": "mobile", "scope": scope, "filters": mobile(false)}, {"name": "others", "scope": scope, "filters": mobile(true)}]);
        let answer = funnel(&mut ga4, &with(json!({"segments": segments}))).ok();
        assert_eq!(answer.column("segment"), ["mobile", "mobile", "mobile", "others", "others", "others"], "{scope}");
        let parts = users(&answer);
        assert_eq!(parts[0] + parts[3], all[0], "{scope}: a person has one device");
    }
    let buyers = funnel(&mut ga4, &with(json!({"segments": [{"name": "buyers", "event": "purchase"}]}))).ok();
    let buyers = users(&buyers);
    assert!(buyers[2] == all[2] && buyers[0] < all[0], "{buyers:?}");
    ga4.end_well();
}

#[test]
fn a_trended_funnel_has_days() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let plain = users(&funnel(&mut ga4, &with(json!({"start_date": "7daysAgo"}))).ok());
    let answer = funnel(&mut ga4, &with(json!({"start_date": "7daysAgo", "trended": true}))).ok();
    assert_eq!(answer.header("date")["type"], "date");
    assert!(answer.header("funnelStepCompletionRate").is_null());
    let rows = answer.rows();
    for step in 1..=3_usize {
        let of_step: Vec<&Value> = rows.iter().filter(|row| row["step"] == step).collect();
        assert!(of_step.len() <= 7);
        let sum: i64 = of_step.iter().map(|row| row["activeUsers"].as_i64().unwrap()).sum();
        assert_eq!(sum, plain[step - 1], "step {step}: each user on one day");
    }
    let (first, last) = (google.day(7), google.day(1));
    assert!(rows.iter().all(|row| row["date"].as_str().is_some_and(|day| *first <= *day && *day <= *last)));
    ga4.end_well();
}

/// What follows a step is counted once for each of its users, and the event that takes them to the next step is none of it.
#[test]
fn the_next_action_is_what_users_did_instead() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let plain = users(&funnel(&mut ga4, &with(json!({}))).ok());
    let answer = funnel(&mut ga4, &with(json!({"next_action": "event_name"}))).ok();
    assert_eq!(answer.info()["arguments"]["next_action"], "eventName");
    assert!(answer.header("funnelStepCompletionRate").is_null());
    let rows = answer.rows();
    for step in 1..=3_usize {
        let of_step: Vec<&Value> = rows.iter().filter(|row| row["step"] == step).collect();
        let all: Vec<&&Value> = of_step.iter().filter(|row| row["next_action"].is_null()).collect();
        assert!(all.len() == 1 && all[0]["activeUsers"] == plain[step - 1], "step {step}: {all:?}");
        let actions: i64 = of_step
            .iter()
            .filter(|row| !row["next_action"].is_null())
            .map(|row| row["activeUsers"].as_i64().unwrap())
            .sum();
        assert!(of_step.len() <= 6 && actions > 0 && actions <= plain[step - 1], "step {step}: {of_step:?}");
    }
    assert!(!answer.text.contains("RESERVED_TOTAL"));
    // Whoever put something into the cart directly after looking at it is not among those who did something else.
    let mut steps = shop();
    steps[1]["directly"] = json!(true);
    let answer = funnel(&mut ga4, &json!({"steps": steps, "next_action": "eventName"})).ok();
    let after_view = answer.rows().into_iter().filter(|row| row["step"] == 1 && row["next_action"] == "add_to_cart");
    assert_eq!(after_view.count(), 0);
    let segments =
        json!([{"name": "mobile", "filters": [{"field": "deviceCategory", "match_type": "EXACT", "value": "mobile"}]}]);
    let pages = funnel(&mut ga4, &with(json!({"next_action": "pagePath", "segments": segments}))).ok();
    assert!(pages.rows().iter().all(|row| row["segment"] == "mobile"));
    assert!(pages.column("next_action").iter().any(|page| page.as_str().is_some_and(|page| page.starts_with('/'))));
    // Which dimensions can be one, Google knows.
    let message = funnel(&mut ga4, &with(json!({"next_action": "country"}))).refused(-32017);
    assert!(message.contains("country"), "{message}");
    ga4.end_well();
}

#[test]
fn what_can_not_be_a_funnel_is_refused_with_the_fix() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let step = json!({"event": "view_item"});
    for (arguments, fix) in [
        (json!({"steps": []}), "Give steps"),
        (json!({"steps": [{}]}), "no condition"),
        (json!({"steps": [{"event": ""}]}), "no condition"),
        (json!({"steps": [{"event": "a", "within_seconds": 5}, step]}), "first step"),
        (json!({"steps": [{"event": "a", "directly": true}, step]}), "first step"),
        (json!({"steps": vec![step.clone(); 11]}), "steps"),
        (json!({"steps": [{"filters": [{"field": "city", "match_type": "EMPTY"}]}]}), "(not set)"),
        (
            json!({"steps": [{"filters": [{"field": "city", "match_type": "FULL_REGEXP", "value": "(?!x)"}]}]}),
            "look-around",
        ),
        (json!({"steps": [{"filters": [{"field": "pagePaht", "match_type": "EXACT", "value": "/"}]}]}), "pagePath"),
        (json!({"steps": [{"filters": [{"field": "city", "like": "x"}]}]}), "unknown field"),
        (json!({"steps": [step], "segments": [{"name": "x"}]}), "needs a name"),
        (
            json!({"steps": [step], "segments": [{"name": "x", "event": "a"}, {"name": "x", "event": "b"}]}),
            "name of its own",
        ),
        (json!({"steps": [step], "segments": [{"name": "x", "event": "a", "scope": "day"}]}), "session"),
        (json!({"steps": [step], "breakdown": "devce"}), "deviceCategory"),
        (json!({"steps": [step], "breakdown": "deviceCategory", "trended": true}), "one of these at a time"),
        (json!({"steps": [step], "next_action": "eventName", "trended": true}), "one of these at a time"),
        (json!({"steps": [step], "next_action": "eventNam"}), "eventName"),
        (json!({"steps": [step], "breakdown_limit": 3}), "goes with breakdown"),
        (json!({"steps": [step], "breakdown": "deviceCategory", "breakdown_limit": 16}), "breakdown_limit"),
        (json!({"steps": [step], "start_date": "soon"}), "start_date"),
    ] {
        let message = funnel(&mut ga4, &arguments).refused(-32017);
        assert!(message.contains(fix), "{arguments}: {message}");
    }
    assert!(google.asked(":runFunnelReport").is_empty());
    ga4.end_well();
}

/// An answer that is no funnel is no funnel without users.
#[test]
fn answers_that_are_no_funnel_fail() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let headers = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    let table = |dimensions: &[&str], metrics: &[&str], rows: Value| json!({"kind": "analyticsData#runFunnelReport", "funnelTable": {"dimensionHeaders": headers(dimensions), "metricHeaders": headers(metrics), "rows": rows}});
    let metrics = ["activeUsers", "funnelStepCompletionRate", "funnelStepAbandonments", "funnelStepAbandonmentRate"];
    let row = |step: &str, values: &[&str]| json!({"dimensionValues": [{"value": step}], "metricValues": values.iter().map(|value| json!({"value": value})).collect::<Vec<_>>()});
    for body in [
        json!({}),
        json!({"kind": "analyticsData#runReport"}),
        json!({"kind": "analyticsData#runFunnelReport"}),
        table(&["step"], &metrics, json!([])),
        table(&["funnelStepName"], &metrics[..3], json!([])),
        table(&["funnelStepName"], &metrics, json!([row("view_item", &["1", "1", "0", "0"])])),
        table(&["funnelStepName"], &metrics, json!([row("9. view_item", &["1", "1", "0", "0"])])),
        table(&["funnelStepName"], &metrics, json!([row("1. view_item", &["1"])])),
    ] {
        google.calm();
        google.fault(&json!({"path": ":runFunnelReport$", "action": {"status": {"code": 200, "body": body}}}));
        funnel(&mut ga4, &with(json!({}))).refused(-32018);
    }
    google.calm();
    let body = table(&["funnelStepName"], &metrics, json!([row("1. view_item", &["4", "0", "4", "1"])]));
    google.fault(&json!({"path": ":runFunnelReport$", "action": {"status": {"code": 200, "body": body}}}));
    let answer = funnel(&mut ga4, &with(json!({}))).ok();
    assert_eq!(users(&answer), [4]);
    let missing = answer.warnings().iter().filter(|warning| warning.contains("nobody reached it")).count();
    assert_eq!(missing, 2, "{:?}", answer.warnings());
    let today = funnel(&mut ga4, &with(json!({"end_date": "today"}))).ok();
    assert!(today.warnings().iter().any(|warning| warning.contains("today")), "{:?}", today.warnings());
    ga4.end_well();
}
