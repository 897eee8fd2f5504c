//! What must be refused, with which code, and before Google is asked for a report.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::bench::{Ga4, Google};
use crate::server::clip;

/// Something nobody may repeat.
const CANARY: &str = "CANARY-4711-ARGUMENT";

/// Arguments, error, and what the message must say so that the caller knows what to do.
const ARGUMENTS: &[(&str, i64, &str)] = &[
    // Neither metrics nor dimensions.
    (r#"{}"#, -32017, "at least one metric"),
    (r#"{"metrics": [], "dimensions": []}"#, -32017, "at least one metric"),
    (r#"{"metrics": null}"#, -32017, "at least one metric"),
    // Wrong types.
    (r#"{"metrics": 5}"#, -32017, "metrics"),
    (r#"{"metrics": {"name": "sessions"}}"#, -32017, "metrics"),
    (r#"{"metrics": [{"name": "sessions"}]}"#, -32017, "metrics[0]"),
    (r#"{"metrics": ["sessions", 7]}"#, -32017, "metrics[1]"),
    (r#"{"metrics": ["sessions"], "start_date": 20260901}"#, -32017, "start_date"),
    (r#"{"metrics": ["sessions"], "start_date": ["2026-09-01"]}"#, -32017, "start_date"),
    (r#"{"metrics": ["sessions"], "limit": "ten"}"#, -32017, "limit"),
    (r#"{"metrics": ["sessions"], "limit": 2.5}"#, -32017, "limit"),
    (r#"{"metrics": ["sessions"], "limit": true}"#, -32017, "limit"),
    (r#"{"metrics": ["sessions"], "keep_empty_rows": "perhaps"}"#, -32017, "keep_empty_rows"),
    (r#"{"metrics": ["sessions"], "currency_code": 978}"#, -32017, "currency_code"),
    (r#"{"metrics": ["sessions"], "dimension_filters": "country = Germany"}"#, -32017, "dimension_filters"),
    (r#"{"metrics": ["sessions"], "order_by": [["sessions", true]]}"#, -32017, "order_by"),
    (r#"{"metrics": ["sessions"], "resource_id": 310000001}"#, -32017, "resource_id"),
    // Limits out of range.
    (r#"{"metrics": ["sessions"], "limit": 0}"#, -32017, "limit"),
    (r#"{"metrics": ["sessions"], "limit": -1}"#, -32017, "limit"),
    (r#"{"metrics": ["sessions"], "limit": 99999999999999999999999}"#, -32017, "limit"),
    (
        r#"{"metrics": ["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17","18","19","20","21","22","23","24","25","26","27","28","29","30","31","32","33","34","35","36","37","38","39","40","41"]}"#,
        -32017,
        "at most 40",
    ),
    // Periods to compare with.
    (r#"{"metrics": ["sessions"], "compare_ranges": [{}]}"#, -32017, "start_date"),
    (r#"{"metrics": ["sessions"], "compare_ranges": [{"start_date": "2026-09-01"}]}"#, -32017, "end_date"),
    (
        r#"{"metrics": ["sessions"], "compare_ranges": [{"start_date": "soon", "end_date": "today"}]}"#,
        -32017,
        "compare_ranges, entry 1: start_date",
    ),
    (
        r#"{"metrics": ["sessions"], "compare_ranges": [{"start_date": "2026-09-05", "end_date": "2026-09-01"}]}"#,
        -32017,
        "after end_date",
    ),
    (
        r#"{"metrics": ["sessions"], "compare_ranges": [{"start_date": "2026-09-01", "end_date": "2026-09-05", "name": "current"}]}"#,
        -32017,
        "Two ranges are called current",
    ),
    (
        r#"{"metrics": ["sessions"], "compare_ranges": [{"start_date": "2026-09-01", "end_date": "2026-09-05", "name": "a\nb"}]}"#,
        -32017,
        "letters",
    ),
    (
        r#"{"metrics": ["sessions"], "compare_ranges": [{"start_date": "1daysAgo", "end_date": "today"}, {"start_date": "1daysAgo", "end_date": "today"}, {"start_date": "1daysAgo", "end_date": "today"}, {"start_date": "1daysAgo", "end_date": "today"}]}"#,
        -32017,
        "at most 3",
    ),
    // Days put together, and days filled in.
    (r#"{"metrics": ["sessions"], "split": "hour"}"#, -32017, "split"),
    (
        r#"{"metrics": ["eventCount", "totalUsers"], "dimensions": ["pagePath"], "split": "day"}"#,
        -32017,
        "totalUsers does not add up over days",
    ),
    (r#"{"metrics": ["eventCount"], "dimensions": ["nthDay"], "split": "day"}"#, -32017, "nthDay counts from"),
    (
        r#"{"metrics": ["eventCount"], "dimensions": ["pagePath"], "split": "day", "metric_filters": [{"field": "eventCount", "match_type": "GREATER_THAN", "value": 5}]}"#,
        -32017,
        "would see the days",
    ),
    (
        r#"{"metrics": ["eventCount"], "dimensions": ["country"], "split": "day", "start_date": "2024-01-01", "end_date": "2026-01-01"}"#,
        -32017,
        "at most 400",
    ),
    (r#"{"metrics": ["sessions"], "fill_days": true}"#, -32017, "dimensions: [\"date\"]"),
    (r#"{"metrics": ["sessions"], "dimensions": ["date"], "fill_days": true, "limit": 5}"#, -32017, "fill_days"),
    (
        r#"{"metrics": ["sessions"], "dimensions": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]}"#,
        -32017,
        "at most 9",
    ),
    // Names nobody knows: nothing is dropped in silence.
    (r#"{"metrics": ["sessions"], "metricAggregations": ["TOTAL"]}"#, -32017, "Unknown argument"),
    (r#"{"metrics": ["sessions"], "date_ranges": [{}]}"#, -32017, "Unknown argument"),
    (r#"{"metrics": ["sessions"], "offset": 10}"#, -32017, "Unknown argument"),
    (r#"{"metrics": ["sessions"], "order_by": [{"field": "sessions", "direction": "asc"}]}"#, -32017, "direction"),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "EXACT", "value": "x", "operator": "OR"}]}"#,
        -32017,
        "operator",
    ),
    (r#"{"metrics": ["sessions"], "start_date": "yesterday", "startDate": "today"}"#, -32017, "twice"),
    // What only the host sets.
    (r#"{"metrics": ["sessions"], "row_limit": 5000}"#, -32017, "set by the host"),
    (r#"{"metrics": ["sessions"], "cost_limit_usd": 100}"#, -32017, "set by the host"),
    (
        r#"{"metrics": ["sessions"], "credentials": {"type": "oauth", "access_token": "CANARY-4711-ARGUMENT"}}"#,
        -32017,
        "set by the host",
    ),
    (r#"{"metrics": ["sessions"], "access_token": "CANARY-4711-ARGUMENT"}"#, -32017, "set by the host"),
    (r#"{"metrics": ["sessions"], "config": {"secret": "CANARY-4711-ARGUMENT"}}"#, -32017, "set by the host"),
    (
        r#"{"metrics": ["sessions"], "_meta": {"acp": {"row_limit": 1, "x": "CANARY-4711-ARGUMENT"}}}"#,
        -32017,
        "set by the host",
    ),
    // Values of a wrong form are not repeated either: a model may have put a key there.
    (r#"{"metrics": ["sessions"], "limit": "CANARY-4711-ARGUMENT"}"#, -32017, "limit"),
    (r#"{"metrics": ["sessions"], "start_date": "CANARY-4711-ARGUMENT"}"#, -32017, "start_date"),
    (r#"{"metrics": ["sessions"], "resource_id": "CANARY-4711-ARGUMENT"}"#, -32014, "resource_id"),
    // Days that are none.
    (r#"{"metrics": ["sessions"], "start_date": "2026-02-30"}"#, -32017, "does not exist"),
    (r#"{"metrics": ["sessions"], "end_date": "2026-13-01"}"#, -32017, "end_date"),
    (r#"{"metrics": ["sessions"], "start_date": "2026-09-05", "end_date": "2026-09-01"}"#, -32017, "after end_date"),
    (r#"{"metrics": ["sessions"], "start_date": "yesterday", "end_date": "7daysAgo"}"#, -32017, "after end_date"),
    (r#"{"metrics": ["sessions"], "start_date": "2015-08-13", "end_date": "2026-09-01"}"#, -32017, "2015-08-14"),
    (r#"{"metrics": ["sessions"], "start_date": "99999daysAgo"}"#, -32017, "start_date"),
    (r#"{"metrics": ["sessions"], "start_date": "2026-09-01", "end_date": "9999-12-31"}"#, -32017, "2999"),
    (r#"{"metrics": ["sessions"], "start_date": "last week"}"#, -32017, "YYYY-MM-DD"),
    (r#"{"metrics": ["sessions"], "start_date": "{{start_date}}"}"#, -32017, "start_date"),
    (r#"{"metrics": ["sessions"], "start_date": ""}"#, -32017, "start_date"),
    (r#"{"metrics": ["sessions"], "start_date": "2026-09-01T00:00:00Z"}"#, -32017, "YYYY-MM-DD"),
    (r#"{"metrics": ["sessions"], "start_date": "-3daysAgo"}"#, -32017, "start_date"),
    // What is no property.
    (r#"{"metrics": ["sessions"], "resource_id": "G-ABC123XYZ"}"#, -32014, "measurement id"),
    (r#"{"metrics": ["sessions"], "resource_id": "UA-12345-1"}"#, -32014, "Universal Analytics"),
    (r#"{"metrics": ["sessions"], "resource_id": "GT-ABC123"}"#, -32014, "autocontext"),
    (r#"{"metrics": ["sessions"], "resource_id": "accounts/100200300"}"#, -32014, "autocontext"),
    (r#"{"metrics": ["sessions"], "resource_id": "properties/1:runReport"}"#, -32014, "numeric"),
    (r#"{"metrics": ["sessions"], "resource_id": "../1"}"#, -32014, "numeric"),
    (
        r#"{"metrics": ["sessions"], "resource_id": "https://analytics.google.com.example.com/analytics/web/#/p1"}"#,
        -32014,
        "numeric",
    ),
    // Names the property does not have.
    (r#"{"metrics": ["sesions"]}"#, -32017, "Did you mean sessions"),
    (r#"{"metrics": ["sessions"], "dimensions": ["pageTitel"]}"#, -32017, "pageTitle"),
    (r#"{"metrics": ["zzzzqqqq"]}"#, -32017, "Do not retry"),
    (r#"{"metrics": ["purchase"]}"#, -32017, "keyEvents:purchase"),
    (r#"{"metrics": ["sessions"], "dimensions": ["eventParameter:plan"]}"#, -32017, "Did you mean customEvent:plan"),
    (r#"{"metrics": ["sessions, totalUsers"]}"#, -32017, "no comma"),
    (r#"{"metrics": ["sessions"], "dimensions": ["totalUsers"]}"#, -32017, "is a metric, not a dimension"),
    (r#"{"metrics": ["country"]}"#, -32017, "is a dimension, not a metric"),
    (r#"{"metrics": ["conversions[purchase]"]}"#, -32017, "not a metric"),
    (r#"{"metrics": ["eventCount/totalUsers"]}"#, -32017, "not a metric"),
    (r#"{"metrics": [""]}"#, -32017, "not a metric"),
    (r#"{"metrics": ["sessions", "sessions"]}"#, -32017, "twice"),
    (r#"{"metrics": ["totalUsers", "users"]}"#, -32017, "twice"),
    (r#"{"metrics": ["sessions"], "dimensions": ["deviceCategory", "device"]}"#, -32017, "twice"),
    // Filters that say nothing, or something impossible.
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "EXACT"}]}"#,
        -32017,
        "needs a value",
    ),
    (r#"{"metrics": ["sessions"], "dimension_filters": [{"match_type": "EXACT", "value": "x"}]}"#, -32017, "field"),
    (r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "value": "x"}]}"#, -32017, "match_type"),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "LIKE", "value": "x"}]}"#,
        -32017,
        "PARTIAL_REGEXP",
    ),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "IN_LIST", "values": []}]}"#,
        -32017,
        "IN_LIST",
    ),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "EMPTY", "value": "x"}]}"#,
        -32017,
        "EMPTY",
    ),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "PARTIAL_REGEXP", "value": "(Ger"}]}"#,
        -32017,
        "country is not valid",
    ),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "FULL_REGEXP", "value": "^(?!Germany).*$"}]}"#,
        -32017,
        "look-around",
    ),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "FULL_REGEXP", "value": "(a)\\1"}]}"#,
        -32017,
        "back-references",
    ),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "country", "match_type": "FULL_REGEXP", "value": "(a{1000}){1000}"}]}"#,
        -32017,
        "country",
    ),
    (
        r#"{"metrics": ["sessions"], "dimension_filters": [{"field": "sessions", "match_type": "EXACT", "value": "1"}]}"#,
        -32017,
        "is a metric",
    ),
    (
        r#"{"metrics": ["sessions"], "metric_filters": [{"field": "country", "match_type": "EQUAL", "value": 1}]}"#,
        -32017,
        "is a dimension",
    ),
    (
        r#"{"metrics": ["sessions"], "metric_filters": [{"field": "sessions", "match_type": "BETWEEN", "values": [9, 1]}]}"#,
        -32017,
        "lowest, highest",
    ),
    (
        r#"{"metrics": ["sessions"], "metric_filters": [{"field": "sessions", "match_type": "BETWEEN", "value": 9}]}"#,
        -32017,
        "BETWEEN",
    ),
    (
        r#"{"metrics": ["sessions"], "metric_filters": [{"field": "sessions", "match_type": "GREATER_THAN"}]}"#,
        -32017,
        "one value",
    ),
    (
        r#"{"metrics": ["sessions"], "metric_filters": [{"field": "sessions", "match_type": "GREATER_THAN", "value": "many"}]}"#,
        -32017,
        "value",
    ),
    // Orders and currencies.
    (
        r#"{"metrics": ["sessions"], "dimensions": ["country"], "order_by": [{"field": "totalUsers"}]}"#,
        -32017,
        "sessions, country",
    ),
    (r#"{"metrics": ["sessions"], "order_by": [{"field": "nonsense"}]}"#, -32017, "Order by one of"),
    (r#"{"metrics": ["sessions"], "order_by": [{"desc": true}]}"#, -32017, "field"),
    (r#"{"metrics": ["totalRevenue"], "currency_code": "EURO"}"#, -32017, "three letters"),
    (r#"{"metrics": ["totalRevenue"], "currency_code": "€"}"#, -32017, "three letters"),
    (r#"{"metrics": ["totalRevenue"], "currency_code": ""}"#, -32017, "three letters"),
];

#[test]
fn bad_arguments_are_refused_before_a_report_is_asked_for() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let mut wrong = Vec::new();
    for (arguments, code, needle) in ARGUMENTS {
        google.calm();
        let answer = ga4.report(&serde_json::from_str(arguments).expect("arguments"));
        let asked = google.reports();
        match answer.error() {
            Some((found, message)) if found == *code && message.contains(needle) && asked == 0 => {
                let echoed = message.contains(CANARY) || answer.model().to_string().contains(CANARY);
                if echoed {
                    wrong.push(format!("{arguments}: the value is repeated: {message}"));
                }
            }
            Some((found, message)) => {
                wrong.push(format!(
                    "{arguments}: {found} {message:?} after {asked} reports; expected {code} with {needle:?}"
                ));
            }
            None => wrong.push(format!("{arguments}: expected {code} with {needle:?}, got {}", clip(&answer.text))),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ARGUMENTS.len(), wrong.join("\n"));
    ga4.report(&json!({"metrics": ["sessions"]})).ok();
    ga4.end_well();
}

/// Harmless differences are repaired instead: the call means one thing only.
#[test]
fn harmless_differences_are_repaired() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let plain = json!({
        "metrics": ["sessions"], "dimensions": ["country"], "limit": 5,
        "dimension_filters": [{"field": "country", "match_type": "EXACT", "value": "Germany", "case_sensitive": true}],
    });
    let expected = ga4.report(&plain).ok();
    for other in [
        json!({"metrics": "sessions", "dimensions": "country", "limit": 5.0, "dimension_filters": plain["dimension_filters"][0]}),
        json!({"metrics": "[\"sessions\"]", "dimensions": ["country"], "limit": 5, "dimensionFilters": plain["dimension_filters"], "order_by": null}),
    ] {
        let answer = ga4.report(&other).ok();
        assert_eq!(answer.rows(), expected.rows(), "{other}");
        assert_eq!(answer.info()["arguments"], expected.info()["arguments"], "{other}");
    }
}

/// Google's own refusals reach the model in words it can act on.
#[test]
fn what_only_google_can_know_is_passed_on() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for arguments in [
        json!({"metrics": ["sessions", "itemRevenue"], "dimensions": ["itemName", "sessionSource"]}),
        json!({"metrics": ["itemsViewed"], "dimensions": ["sessionDefaultChannelGroup", "itemName"]}),
    ] {
        google.calm();
        let message = ga4.report(&arguments).refused(-32017);
        assert!(message.contains("remove") && message.contains("incompatible"), "{arguments}: {message}");
        assert_eq!(google.reports(), 1, "a 400 is not tried again: {arguments}");
    }
}

/// Changes the key inside the credential.
fn with_key(google: &Google, change: impl FnOnce(&mut Value)) -> Value {
    let mut key = google.key();
    change(&mut key);
    json!({"type": "service_account", "service_account": key.to_string()})
}

fn pem(google: &Google) -> String {
    google.key()["private_key"].as_str().expect("a PEM").to_owned()
}

#[test]
fn malformed_credentials_are_refused_without_a_request() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    // Somewhere an assertion must never be sent.
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a port");
    elsewhere.set_nonblocking(true).expect("a listener that does not wait");
    let trap = format!("http://127.0.0.1:{}/token", elsewhere.local_addr().expect("an address").port());
    let token_uri = |uri: &str| {
        let uri = json!(uri);
        with_key(&google, move |key| key["token_uri"] = uri)
    };
    let oauth = |change: Value| {
        let mut credentials = google.credentials("oauth");
        for (name, value) in change.as_object().expect("changes") {
            credentials[name] = value.clone();
        }
        credentials
    };
    let pem = pem(&google);
    let middle = pem.lines().nth(3).expect("a line").to_owned();
    let cases: Vec<(&str, Value, i64, &str)> = vec![
        ("no credentials", Value::Null, -32011, "host's settings"),
        ("an empty object", json!({}), -32011, "host's settings"),
        ("a string", json!("secret"), -32012, "object"),
        ("no type", json!({"access_token": "x"}), -32012, "type"),
        ("an unknown type", json!({"type": "api_key", "api_key": "x"}), -32012, "type"),
        (
            "a reference of a portal",
            json!({"type": "portal_oauth", "email": "a@example.com", "scopes": "s"}),
            -32012,
            "host must exchange",
        ),
        ("no key", json!({"type": "service_account"}), -32012, "service_account"),
        ("an empty key", json!({"type": "service_account", "service_account": ""}), -32012, "service_account"),
        ("a blank key", json!({"type": "service_account", "service_account": " \n"}), -32012, "service_account"),
        (
            "a key that is no JSON",
            json!({"type": "service_account", "service_account": "my key"}),
            -32012,
            "valid JSON",
        ),
        ("a PEM instead of JSON", json!({"type": "service_account", "service_account": pem}), -32012, "valid JSON"),
        (
            "half a key file",
            json!({"type": "service_account", "service_account": google.key().to_string()[..700]}),
            -32012,
            "valid JSON",
        ),
        ("a list", json!({"type": "service_account", "service_account": "[]"}), -32012, "valid JSON"),
        (
            "no client_email",
            with_key(&google, |key| drop(key.as_object_mut().map(|key| key.remove("client_email")))),
            -32012,
            "client_email",
        ),
        (
            "no private_key",
            with_key(&google, |key| drop(key.as_object_mut().map(|key| key.remove("private_key")))),
            -32012,
            "private_key",
        ),
        ("a truncated PEM", with_key(&google, |key| key["private_key"] = json!(pem[..900])), -32012, "PKCS#8"),
        (
            "a PEM with a line missing",
            with_key(&google, |key| key["private_key"] = json!(pem.replace(&format!("{middle}\n"), ""))),
            -32012,
            "PKCS#8",
        ),
        (
            "a PEM without its frame",
            with_key(&google, |key| {
                key["private_key"] = json!(pem.lines().filter(|line| !line.starts_with('-')).collect::<String>())
            }),
            -32012,
            "PKCS#8",
        ),
        (
            "a PKCS#1 PEM",
            with_key(&google, |key| key["private_key"] = json!(pem.replace("PRIVATE KEY", "RSA PRIVATE KEY"))),
            -32012,
            "PKCS#1",
        ),
        (
            "an encrypted PEM",
            with_key(&google, |key| key["private_key"] = json!(pem.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"))),
            -32012,
            "PKCS#8",
        ),
        (
            "the file of an OAuth client",
            json!({"type": "service_account", "service_account": r#"{"installed": {"client_id": "x"}}"#}),
            -32012,
            "OAuth client",
        ),
        ("a token_uri elsewhere", token_uri(&trap), -32012, "token_uri"),
        ("a token_uri of the metadata server", token_uri("http://169.254.169.254/token"), -32012, "token_uri"),
        (
            "a token_uri that begins like Google's",
            token_uri("https://oauth2.googleapis.com/token@127.0.0.1/"),
            -32012,
            "token_uri",
        ),
        (
            "a token_uri that ends like the sandbox's",
            token_uri(&format!("{}/token/../x", ga4.url())),
            -32012,
            "token_uri",
        ),
        ("a token_uri that is no URI", token_uri("not a uri"), -32012, "token_uri"),
        ("a token_uri that is a number", with_key(&google, |key| key["token_uri"] = json!(7)), -32012, "token_uri"),
        ("oauth with nothing", json!({"type": "oauth"}), -32012, "access_token"),
        ("oauth, expired, no refresh token", oauth(json!({"refresh_token": null})), -32012, "sign in again"),
        ("oauth, expired, no client", oauth(json!({"client_id": "", "client_secret": ""})), -32012, "sign in again"),
        ("oauth with a token_uri elsewhere", oauth(json!({"token_uri": trap})), -32012, "token_uri"),
        (
            "oauth with a line break in the token",
            oauth(json!({"access_token": "ya29.a\r\nX-Injected: 1"})),
            -32012,
            "access_token",
        ),
        ("oauth with an expiry that is none", oauth(json!({"expiry_date": "soon"})), -32012, "expiry_date"),
    ];
    let mut wrong = Vec::new();
    google.calm();
    for (name, credentials, code, needle) in &cases {
        for tool in ["run_report", "autocontext"] {
            let answer = ga4.call(
                tool,
                &if tool == "run_report" { json!({"metrics": ["sessions"]}) } else { json!({}) },
                &json!({"credentials": credentials}),
            );
            match answer.error() {
                Some((found, message)) if found == *code && message.contains(needle) => {}
                other => wrong.push(format!("{tool} with {name}: {other:?}; expected {code} with {needle:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(google.sandbox().log(), [], "Google was asked");
    assert!(elsewhere.accept().is_err(), "a connection to the key's own token_uri");
    ga4.report(&json!({"metrics": ["sessions"]})).ok();
    ga4.end_well();
}

/// What pasting does to a key is repaired, and everything that hosts send beside the schema is ignored.
#[test]
fn credentials_that_were_only_wrapped_or_pasted_work() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let key = google.key();
    let pem = pem(&google);
    let oauth = |name: &str, value: Value| {
        let mut credentials = google.credentials("oauth");
        credentials[name] = value;
        credentials
    };
    for (name, credentials) in [
        ("encoded twice", json!({"type": "service_account", "service_account": json!(key.to_string()).to_string()})),
        ("with a byte order mark", json!({"type": "service_account", "service_account": format!("\u{feff}{key}\n")})),
        (
            "pretty printed",
            json!({"type": "service_account", "service_account": serde_json::to_string_pretty(&key).expect("JSON")}),
        ),
        ("with backslash-n", with_key(&google, |key| key["private_key"] = json!(pem.replace('\n', "\\n")))),
        ("with Windows line ends", with_key(&google, |key| key["private_key"] = json!(pem.replace('\n', "\r\n")))),
        ("without a line break at the end", with_key(&google, |key| key["private_key"] = json!(pem.trim_end()))),
        (
            "with Google's own token_uri",
            with_key(&google, |key| key["token_uri"] = json!("https://oauth2.googleapis.com/token")),
        ),
        ("without a token_uri", with_key(&google, |key| drop(key.as_object_mut().map(|key| key.remove("token_uri"))))),
        ("with fields nobody knows", with_key(&google, |key| key["x"] = json!({"y": [1]}))),
        ("oauth, expired by number", google.credentials("oauth")),
        ("oauth, expired by text", oauth("expiry_date", json!("2020-01-01T00:00:00Z"))),
        ("oauth, expired by digits", oauth("expiry_date", json!("1577836800000"))),
        ("oauth with an access token of nobody", oauth("access_token", json!("ya29.nobodys"))),
        ("oauth by its other name", oauth("type", json!("google_oauth"))),
    ] {
        let answer = ga4.report_as(&credentials, &json!({"metrics": ["sessions"]}));
        assert!(answer.error().is_none(), "{name}: {:?}", answer.error());
    }
}

#[test]
fn a_property_out_of_sight_is_named_with_who_may_not_see_it() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let limited = google.credentials("limited");
    let email = google.facts()["identities"]["limited"]["email"].as_str().expect("an address").to_owned();
    let hidden = google.id("bulk");
    for (credentials, who, id) in [
        (&limited, email.as_str(), hidden),
        (&limited, email.as_str(), "999999999"),
        (&google.credentials("full"), "reports-full@", "999999999"),
        (&google.credentials("oauth"), "analyst@", "1"),
    ] {
        google.calm();
        let answer = ga4.report_as(credentials, &json!({"resource_id": id, "metrics": ["sessions"]}));
        let message = answer.refused(-32014);
        for part in [id, who, "Viewer", "403"] {
            assert!(message.contains(part), "{part} is missing: {message}");
        }
        assert_eq!(google.reports(), 0, "known from the metadata");
        let asked = google.sandbox().log().iter().filter(|request| request.path != "/token").count();
        assert!(asked <= 1, "a 403 is not tried again: {:?}", google.sandbox().log());
    }
    // Every block of such a property fails, which is not a failure of the credentials.
    let answer = ga4.call("autocontext", &json!({"resource_id": hidden}), &json!({"credentials": limited})).ok();
    let model = answer.model();
    assert!(
        model
            .as_array()
            .expect("blocks")
            .iter()
            .all(|block| block["error"].as_str().is_some_and(|why| why.contains("403"))),
        "{model}"
    );
    assert!(answer.info()["warnings"].to_string().contains("15 of 15"), "{}", answer.info());
    // The same property is there for those who may see it: nothing was cached across.
    ga4.report(&json!({"resource_id": hidden, "metrics": ["sessions"]})).ok();
}

#[test]
fn settings_and_tools_that_do_not_exist_are_refused() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    for (meta, code) in [
        (json!({"row_limit": -1}), -32016),
        (json!({"row_limit": 5001}), -32016),
        (json!({"row_limit": "all"}), -32016),
        (json!({"cost_limit_usd": -1}), -32016),
        (json!({"inline_max_bytes": -1}), -32016),
    ] {
        // The limits come before the arguments (AMB-18).
        let answer = ga4.call("run_report", &json!({"nonsense": true}), &meta);
        answer.refused(code);
    }
    let message = ga4.call("run_pivot_report", &json!({}), &json!({})).refused(-32017);
    assert!(message.contains("run_report") && message.contains("autocontext"), "{message}");
    for (arguments, code) in [
        (json!({"request_data": ["nothing"]}), -32015),
        (json!({"request_data": 5}), -32017),
        (json!({"query": 5, "resource_id": null}), -32017),
        (json!({"resource_id": "G-1"}), -32014),
        (json!({"force_refresh": true}), -32017),
    ] {
        ga4.call("autocontext", &arguments, &json!({})).refused(code);
    }
    assert_eq!(google.sandbox().log(), []);
    ga4.assert_alive("all of it");
}
