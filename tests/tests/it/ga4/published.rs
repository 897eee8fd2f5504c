//! What the connector says about itself: small schemas, every argument described, fields by words, a check before a report, and skills
//! that name what is there.

use std::process::Command;

use serde_json::{Value, json};

use super::bench::{Ga4, Google};
use crate::server::binary_of;

/// Bytes a tool may have on average: a model reads all of them at every turn.
const TOOL_BYTES: usize = 1_500;

#[test]
fn tools_are_small_described_and_portable() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let tools = ga4.request("tools/list", &json!({})).json["result"]["tools"].clone();
    let tools = tools.as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "run_report",
            "run_report_by_regex_cluster",
            "compare_conversion_models",
            "run_realtime_report",
            "run_funnel_report",
            "search_fields",
            "validate_report",
            "autocontext",
            "autocontext_data"
        ],
        "the first is the default tool"
    );
    crate::published::assert_small_and_described(tools, TOOL_BYTES);
    ga4.end_well();
}

/// Whatever way a person gives the connector access, no more than reading is asked for.
#[test]
fn the_right_to_read_is_all_that_is_asked_for() {
    let output = Command::new(binary_of("ga4")).arg("capability").output().expect("the connector");
    let capability: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ways = capability["credentials_schema"]["oneOf"].as_array().expect("ways");
    let scopes: Vec<&Value> =
        ways.iter().map(|way| &way["x-acp-login"]["scopes"]).filter(|scopes| !scopes.is_null()).collect();
    assert!(scopes.len() >= 2, "{scopes:?}");
    assert!(
        scopes.iter().all(|scopes| **scopes == json!(["https://www.googleapis.com/auth/analytics.readonly"])),
        "{scopes:?}"
    );
}

fn search(ga4: &mut Ga4, arguments: &Value) -> Value {
    ga4.call("search_fields", arguments, &json!({})).ok().model()
}

fn names(found: &Value) -> Vec<&str> {
    found["fields"].as_array().expect("fields").iter().filter_map(|field| field["name"].as_str()).collect()
}

#[test]
fn fields_are_found_by_what_people_call_them() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for (query, kind, first) in [
        ("session source medium", None, "sessionSourceMedium"),
        ("conversions", None, "keyEvents"),
        ("conversions:purchase", None, "keyEvents:purchase"),
        ("isConversionEvent", None, "isKeyEvent"),
        ("pageviews", Some("metric"), "screenPageViews"),
        ("Total revenue", None, "totalRevenue"),
        ("first user campaign", Some("dimension"), "firstUserCampaignName"),
        ("form name", None, "customEvent:form_name"),
        ("tier", Some("dimension"), "customUser:tier"),
        ("bounce", None, "bounceRate"),
        ("total_users", None, "totalUsers"),
        ("contry", None, "country"),
        ("averageEngagementTime", None, "userEngagementDuration"),
    ] {
        let mut asked = json!({"query": query});
        if let Some(kind) = kind {
            asked["kind"] = json!(kind);
        }
        let found = search(&mut ga4, &asked);
        assert_eq!(names(&found).first(), Some(&first), "{query}: {found}");
        assert!(names(&found).len() <= 10, "{query}");
    }
    let found = search(&mut ga4, &json!({"query": "keyEvents:purchase"}));
    let field = &found["fields"][0];
    assert_eq!(
        (&field["kind"], &field["unit"], &field["adds_up"], &field["custom"]),
        (&json!("metric"), &json!("integer"), &json!(true), &json!(true))
    );
    assert_eq!(search(&mut ga4, &json!({"query": "dateHour"}))["fields"][0]["type"], "datetime");
    assert_eq!(field["old_names"], json!(["conversions:purchase"]));
    let scope = |ga4: &mut Ga4, query: &str| search(ga4, &json!({"query": query}))["fields"][0]["scope"].clone();
    for (name, expected) in [
        ("customUser:tier", "user"),
        ("sessionSource", "session"),
        ("firstUserSource", "user, first touch"),
        ("itemName", "item"),
        ("customEvent:plan", "event"),
    ] {
        assert_eq!(scope(&mut ga4, name), expected, "{name}");
    }
    assert!(scope(&mut ga4, "defaultChannelGroup").as_str().unwrap().contains("attribution"));
    assert_eq!(search(&mut ga4, &json!({"query": "total users", "kind": "metric"}))["fields"][0]["adds_up"], false);
    let nothing = search(&mut ga4, &json!({"query": "zzzz"}));
    assert_eq!((&nothing["found"], nothing["advice"].is_string()), (&json!(0), true));
    ga4.call("search_fields", &json!({"query": " "}), &json!({})).refused(-32017);
    assert_eq!(google.reports(), 0);
    assert_eq!(google.asked("/metadata").len(), 1, "the property's fields are asked for once");
    let blocked = search(&mut ga4, &json!({"resource_id": google.id("revenue_restricted"), "query": "totalRevenue"}));
    assert_eq!(blocked["fields"][0]["blocked"], json!(["NO_REVENUE_METRICS"]));
    ga4.end_well();
}

fn validate(ga4: &mut Ga4, arguments: &Value) -> Value {
    ga4.call("validate_report", &json!({"arguments": arguments}), &json!({})).ok().model()
}

fn problems(answer: &Value) -> Vec<&str> {
    answer["problems"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn all_problems_of_a_report_are_named_at_once_without_asking_for_it() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let answer = validate(
        &mut ga4,
        &json!({
            "metrics": ["sesions", "totalUsers", "totalUsers"], "dimensions": ["pageTitel", "sessions"], "currency_code": "EURO",
            "dimension_filters": [{"field": "contry", "match_type": "PARTIAL_REGEXP", "value": "(?!x)"}],
            "order_by": [{"field": "city"}], "start_date": "soon",
        }),
    );
    assert_eq!(answer["valid"], false);
    let found = problems(&answer);
    let expected = [
        "currency_code",
        "look-around",
        "sessions",
        "asked for twice",
        "pageTitle",
        "is a metric",
        "country",
        "order_by names",
        "start_date",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (problem, word) in found.iter().zip(expected) {
        assert!(problem.contains(word), "{problem}");
    }
    for (arguments, word) in [
        (json!({}), "at least one metric"),
        (json!({"metric": ["sessions"]}), "Unknown argument"),
        (json!({"metrics": (0..41).map(|n| format!("m{n}")).collect::<Vec<_>>()}), "at most 40"),
        (json!({"metrics": ["sessions"], "start_date": "today", "end_date": "yesterday"}), "after"),
    ] {
        let answer = validate(&mut ga4, &arguments);
        assert!(answer["valid"] == false && problems(&answer)[0].contains(word), "{arguments}: {answer}");
    }
    assert!(google.asked(":checkCompatibility").is_empty(), "nothing that is wrong already is worth a token");

    let good = validate(
        &mut ga4,
        &json!({"resource_id": "1", "metrics": ["users", "eventCount"], "dimensions": "date", "startDate": "7daysAgo"}),
    );
    assert_eq!((&good["valid"], &good["do_not_add_up"]), (&json!(true), &json!(["totalUsers"])));
    assert_eq!(good["arguments"]["metrics"], json!(["totalUsers", "eventCount"]));
    assert_eq!(good["dates"], json!([google.day(7), google.day(1)]));
    assert!(good["notes"][0].as_str().unwrap().contains("'users' mapped to 'totalUsers'"), "{good}");
    assert_eq!(google.asked(":checkCompatibility").len(), 1);
    let early = validate(
        &mut ga4,
        &json!({"metrics": ["eventCount"], "start_date": google.day(-3), "end_date": google.day(-4)}),
    );
    assert!(early["notes"][0].as_str().is_some_and(|note| note.contains("begins after today")), "{early}");
    let restricted = ga4
        .call(
            "validate_report",
            &json!({"resource_id": google.id("revenue_restricted"), "arguments": {"metrics": ["totalRevenue"]}}),
            &json!({}),
        )
        .ok()
        .model();
    assert!(restricted["notes"].to_string().contains("reads 0"), "{restricted}");
    assert_eq!(google.reports(), 0, "no report was asked for");
    ga4.end_well();
}

/// Fields that do not go together are found before a report is spent on them; and the check and the report agree.
#[test]
fn the_check_agrees_with_google() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for dimension in ["date", "itemName", "eventName", "sessionSource", "source", "isKeyEvent"] {
        for metric in ["sessions", "itemRevenue", "sessionKeyEventRate", "totalUsers", "eventCount"] {
            let asked = json!({"metrics": [metric], "dimensions": [dimension], "start_date": "2daysAgo"});
            let answer = validate(&mut ga4, &asked);
            let report = ga4.report(&asked);
            assert_eq!(answer["valid"] == true, report.error().is_none(), "{asked}: {answer}");
            if answer["valid"] == false {
                assert!(problems(&answer)[0].contains("Please remove"), "{answer}");
            }
        }
    }
    ga4.end_well();
}

/// Complaints 70 and 71: Google's advice is passed on, and that its check is not the last word.
#[test]
fn what_google_advises_is_passed_on() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let message = "Please add sessionCampaignName to make the request compatible for example. The request's dimensions & metrics are incompatible.";
    let body = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}});
    google.fault(&json!({"path": ":checkCompatibility$", "action": {"status": {"code": 400, "body": body}}}));
    let answer = validate(&mut ga4, &json!({"metrics": ["sessions"], "dimensions": ["date"]}));
    assert!(problems(&answer)[0].contains("Please add sessionCampaignName"), "{answer}");
    assert!(answer["checked_with_google"].as_str().unwrap().contains("can disagree"), "{answer}");
    ga4.report(&json!({"metrics": ["sessions"], "dimensions": ["date"]})).ok();
    ga4.end_well();
}

/// A check that could not be made is no good report.
#[test]
fn a_check_that_fails_is_an_error() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let exhausted = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Exhausted property tokens per day. These quota tokens will return in under 24 hours."}});
    for (path, code, body) in [(":checkCompatibility$", 429, exhausted), (":checkCompatibility$", 200, json!([]))] {
        google.calm();
        google.fault(&json!({"path": path, "times": 9, "action": {"status": {"code": code, "body": body}}}));
        ga4.call("validate_report", &json!({"arguments": {"metrics": ["sessions"]}}), &json!({})).refused(-32018);
    }
    ga4.end_well();
}

/// Skills must not name what is not there: tools, arguments, columns and blocks are looked up in what the connector publishes
/// and answers.
#[test]
fn skills_name_real_tools_arguments_and_columns() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let mut known = ga4.request("tools/list", &json!({})).text;
    for (tool, arguments) in [
        ("run_report", json!({"metrics": ["sessions"]})),
        (
            "run_report_by_regex_cluster",
            json!({"dimension": "pagePath", "metrics": ["eventCount"], "clusters": [{"name": "a", "pattern": "a"}]}),
        ),
        ("compare_conversion_models", json!({})),
        ("run_realtime_report", json!({})),
        ("run_funnel_report", json!({"steps": [{"event": "page_view"}, {"event": "purchase"}]})),
        ("search_fields", json!({"query": "revenue"})),
        ("validate_report", json!({"arguments": {"metrics": ["users"]}})),
        ("autocontext", json!({})),
        ("autocontext_data", json!({"resource_id": null})),
    ] {
        known.push_str(&ga4.call(tool, &arguments, &json!({})).ok().text);
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/ga4/skills");
    let field = crate::rules::regex("`[^`]*?\\b([a-z]+(?:[A-Z][a-z]+)+)\\b[^`]*`");
    for skill in ["ga4-reporting", "ga4-attribution", "ga4-data-quality"] {
        let text = std::fs::read_to_string(folder.join(skill).join("SKILL.md")).expect("a skill");
        let seen = crate::published::assert_names_are_known(skill, &text, &known);
        assert!(seen > 10, "{skill} names {seen}");
        for found in field.captures_iter(&text) {
            let name = &found[1];
            let fields = search(&mut ga4, &json!({"query": name}));
            assert!(known.contains(name) || names(&fields).contains(&name), "{skill} speaks of {name}");
        }
    }
    ga4.end_well();
}
