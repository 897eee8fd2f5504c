//! What goes wrong at Google, and what must come of it: the right error, few attempts, soon, and never a short table
//! that looks complete.

use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bench::{Ga4, Google};
use super::raw::{self, RawGoogle, page};
use crate::server::clip;

/// What must come of a call.
enum Outcome {
    /// These rows.
    Rows(Rows),
    /// This error, with these words in its message.
    Error(i64, &'static [&'static str]),
}

enum Rows {
    /// The report of the real property.
    Real,
    /// So many of the pages that a fault made up.
    MadeUp(u64),
}

use Outcome::Error;
const REAL: Outcome = Outcome::Rows(Rows::Real);

/// A fault, what must come of it, how many reports may be asked for, and within how many seconds.
struct Case {
    name: &'static str,
    faults: Vec<Value>,
    outcome: Outcome,
    reports: RangeInclusive<usize>,
    seconds: u64,
}

fn case(name: &'static str, faults: Vec<Value>, outcome: Outcome, reports: RangeInclusive<usize>) -> Case {
    Case { name, faults, outcome, reports, seconds: 5 }
}

/// A fault on reports: so many of them from the nth on.
fn on_reports(nth: u64, times: u64, action: Value) -> Value {
    json!({"path": ":runReport$", "nth": nth, "times": times, "action": action})
}

fn once(action: Value) -> Vec<Value> {
    vec![on_reports(1, 1, action)]
}

fn always(action: Value) -> Vec<Value> {
    vec![on_reports(1, 99, action)]
}

fn status(code: u16, body: &str) -> Value {
    json!({"status": {"code": code, "body": body}})
}

fn google_error(code: u16, status_name: &str, message: &str, reason: &str) -> Value {
    let mut error = json!({"code": code, "message": message, "status": status_name});
    if !reason.is_empty() {
        error["details"] = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
            "metadata": {"activationUrl": "https://console.developers.google.com/apis/api/analyticsdata.googleapis.com/overview?project=1"}}]);
    }
    status(code, &json!({"error": error}).to_string())
}

fn with_header(mut action: Value, name: &str, value: &str) -> Value {
    action["status"]["headers"][name] = json!(value);
    action
}

fn html(code: u16) -> Value {
    with_header(
        status(code, "<!DOCTYPE html><title>Error (Sorry)</title><p>That is an error."),
        "Content-Type",
        "text/html",
    )
}

/// A page that a fault makes up.
fn made_up(nth: u64, rows: std::ops::Range<u64>, row_count: u64) -> Value {
    on_reports(nth, 1, status(200, &page(rows, row_count).to_string()))
}

fn quota(message: &str) -> Value {
    google_error(429, "RESOURCE_EXHAUSTED", message, "")
}

fn answers_that_fail() -> Vec<Case> {
    let denied =
        google_error(403, "PERMISSION_DENIED", "User does not have sufficient permissions for this property.", "");
    let busy =
        google_error(403, "PERMISSION_DENIED", "Quota exceeded for quota metric 'Requests'", "RATE_LIMIT_EXCEEDED");
    vec![
        case(
            "400",
            once(google_error(400, "INVALID_ARGUMENT", "Please remove X to make the request compatible.", "")),
            Error(-32017, &["Please remove X"]),
            1..=1,
        ),
        case(
            "401 once: a new token helps",
            once(google_error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.", "")),
            REAL,
            2..=2,
        ),
        case(
            "401 always",
            always(google_error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.", "")),
            Error(-32012, &["reports-full@", "401"]),
            1..=2,
        ),
        case("403, no permission", once(denied), Error(-32014, &["reports-full@", "Viewer"]), 1..=1),
        case(
            "403, the API is off",
            once(google_error(
                403,
                "PERMISSION_DENIED",
                "Google Analytics Data API has not been used in project 1 before or it is disabled.",
                "SERVICE_DISABLED",
            )),
            Error(-32018, &["https://console.developers.google.com/apis/api/analyticsdata", "Enable"]),
            1..=1,
        ),
        case(
            "403, another scope",
            once(google_error(
                403,
                "PERMISSION_DENIED",
                "Request had insufficient authentication scopes.",
                "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
            )),
            Error(-32012, &["scope"]),
            1..=1,
        ),
        case("403, too fast once", once(busy), REAL, 2..=2),
        case(
            "403, the account is gone",
            once(google_error(403, "PERMISSION_DENIED", "The account is disabled.", "ACCOUNT_STATE_INVALID")),
            Error(-32012, &["disabled"]),
            1..=1,
        ),
        case("403 as a page", once(html(403)), Error(-32018, &["403"]), 1..=1),
        case("403 with nothing", once(status(403, "")), Error(-32018, &["403"]), 1..=1),
        case(
            "404",
            once(google_error(404, "NOT_FOUND", "Requested entity was not found.", "")),
            Error(-32014, &["404"]),
            1..=1,
        ),
        case("404 as a page", once(html(404)), Error(-32018, &["404"]), 1..=1),
        case(
            "409",
            once(google_error(409, "ABORTED", "The operation was aborted.", "")),
            Error(-32018, &["409"]),
            1..=1,
        ),
        case("418", once(status(418, "short and stout")), Error(-32018, &["418"]), 1..=1),
        case(
            "429, tokens of the hour",
            once(quota(
                "Exhausted property tokens for a project per hour. These quota tokens will return in under an hour.",
            )),
            Error(-32018, &["within an hour", "quota"]),
            1..=1,
        ),
        case(
            "429, tokens of the day",
            once(quota("Exhausted property tokens per day. These quota tokens will return in under 24 hours.")),
            Error(-32018, &["24 hours"]),
            1..=1,
        ),
        case(
            "429, thresholded requests",
            once(quota("Exhausted potentially thresholded requests quota.")),
            Error(-32018, &["hour"]),
            1..=1,
        ),
        case(
            "429, client errors",
            once(quota("Exhausted client errors quota. This quota will return in under 15 minutes.")),
            Error(-32018, &["15 minutes"]),
            1..=1,
        ),
        case("429, too many at once, once", once(quota("Exhausted concurrent requests quota.")), REAL, 2..=2),
        case(
            "429 with Retry-After once",
            once(with_header(quota("Too many requests."), "Retry-After", "1")),
            REAL,
            2..=2,
        ),
        case(
            "429 with a long Retry-After",
            once(with_header(quota("Too many requests."), "Retry-After", "3600")),
            Error(-32018, &["3600"]),
            1..=1,
        ),
        case("429 without Retry-After", once(quota("Too many requests.")), Error(-32018, &["429"]), 1..=4),
        case(
            "429 with a Retry-After that is none",
            once(with_header(quota("Too many requests."), "Retry-After", "soon")),
            Error(-32018, &["429"]),
            1..=4,
        ),
        case("500 once", once(google_error(500, "INTERNAL", "Internal error encountered.", "")), REAL, 2..=2),
        // Ten of them lock a property for an hour.
        case(
            "500 always",
            always(google_error(500, "INTERNAL", "Internal error encountered.", "")),
            Error(-32018, &["500", "fewer fields"]),
            2..=3,
        ),
        case(
            "500 that is a quota",
            once(google_error(500, "INTERNAL", "Exhausted property tokens per day.", "")),
            Error(-32018, &["quota"]),
            1..=1,
        ),
        case("502 as a page once", once(html(502)), REAL, 2..=2),
        case(
            "503 once",
            once(google_error(503, "UNAVAILABLE", "The service is currently unavailable.", "")),
            REAL,
            2..=2,
        ),
        case(
            "503 always",
            always(google_error(503, "UNAVAILABLE", "The service is currently unavailable.", "")),
            Error(-32018, &["503"]),
            2..=4,
        ),
        case(
            "503 with a long Retry-After",
            once(with_header(google_error(503, "UNAVAILABLE", "Down.", ""), "Retry-After", "3600")),
            Error(-32018, &["503"]),
            1..=1,
        ),
    ]
}

fn answers_that_break() -> Vec<Case> {
    let text = page(0..4, 4).to_string();
    let row = |row: &str| {
        format!(
            "{{\"rows\": [{row}], \"rowCount\": 1, {}",
            &page(0..0, 1).to_string().replace(r#""rows":[],"rowCount":1,"#, "")[1..]
        )
    };
    let half = &text[..text.len() / 2];
    let after_rows = &text[..text.find("],\"rowCount\"").expect("rows") + 1];
    vec![
        case("slow headers", once(json!({"delay_ms": 1500})), REAL, 1..=1),
        case("slow body", once(json!({"drip_ms": 20})), REAL, 1..=1),
        case("cut in the rows once", once(json!({"cut_after_bytes": 400})), REAL, 2..=2),
        case("cut before the first byte once", once(json!({"cut_after_bytes": 0})), REAL, 2..=2),
        case("cut always", always(json!({"cut_after_bytes": 400})), Error(-32018, &["broke off"]), 2..=6),
        case("reset once", once(json!("reset")), REAL, 2..=2),
        case("reset always", always(json!("reset")), Error(-32018, &["connection"]), 2..=4),
        case(
            "another type",
            once(with_header(status(200, "<html>Please log in</html>"), "Content-Type", "text/html")),
            Error(-32018, &["proxy"]),
            1..=1,
        ),
        case(
            "text",
            once(with_header(status(200, &text), "Content-Type", "text/plain")),
            Error(-32018, &["text/plain"]),
            1..=1,
        ),
        case("nothing once", once(status(200, "")), REAL, 2..=2),
        case("nothing always", always(status(200, "")), Error(-32018, &[]), 1..=4),
        case("an empty object", once(status(200, "{}")), Error(-32018, &["not a report"]), 1..=1),
        case("no JSON", once(status(200, "hello")), Error(-32018, &[]), 1..=4),
        case("half the JSON, well framed", always(status(200, half)), Error(-32018, &["answer"]), 1..=4),
        case("the rows and no end, well framed", always(status(200, after_rows)), Error(-32018, &["answer"]), 1..=4),
        case("JSON of another form", once(status(200, "[1, 2]")), Error(-32018, &[]), 1..=4),
        case(
            "rows of another form",
            once(status(200, r#"{"rows": ["a", 1], "rowCount": 2}"#)),
            Error(-32018, &["row"]),
            1..=4,
        ),
        case(
            "rows that are no list",
            once(status(200, r#"{"rows": {"a": 1}, "rowCount": 1}"#)),
            Error(-32018, &[]),
            1..=4,
        ),
        case(
            "the rows twice",
            once(status(200, &format!("{{\"rows\": [], {}", &text[1..]))),
            Error(-32018, &["twice"]),
            1..=4,
        ),
        case(
            "a lone surrogate",
            once(status(
                200,
                r#"{"rows": [{"dimensionValues": [{"value": "\ud800"}], "metricValues": [{"value": "1"}]}], "rowCount": 1}"#,
            )),
            Error(-32018, &[]),
            1..=4,
        ),
        case("something after the end", once(status(200, &format!("{text} {text}"))), Error(-32018, &[]), 1..=4),
        case(
            "a row without a metric",
            once(status(200, &row(r#"{"dimensionValues": [{"value": "A"}]}"#))),
            Error(-32018, &[]),
            1..=4,
        ),
        case(
            "a row without its dimension",
            once(status(200, &row(r#"{"metricValues": [{"value": "1"}]}"#))),
            Error(-32018, &[]),
            1..=4,
        ),
        case(
            "a row whose cells moved",
            once(status(200, &row(r#"{"metricValues": [{"value": "1"}, {"value": "2"}]}"#))),
            Error(-32018, &[]),
            1..=4,
        ),
        case(
            "a row with too many cells",
            once(status(
                200,
                &row(r#"{"dimensionValues": [{"value": "A"}, {"value": "B"}], "metricValues": [{"value": "1"}]}"#),
            )),
            Error(-32018, &[]),
            1..=4,
        ),
        case(
            "another column than the one asked for",
            once(status(200, &text.replace(r#"{"name":"country"}"#, r#"{"name":"city"}"#))),
            Error(-32018, &["columns"]),
            1..=4,
        ),
        case(
            "totals of other metrics",
            once(status(200, &text.replace(r#"{"value":"4711"}"#, r#"{"value":"1"},{"value":"2"}"#))),
            Error(-32018, &["totals"]),
            1..=4,
        ),
        case(
            "a negative count",
            once(status(200, &text.replace(r#""rowCount":4"#, r#""rowCount":-4"#))),
            Error(-32018, &[]),
            1..=4,
        ),
    ]
}

/// Reports of several pages, made up, so that they can be small: 250,000 rows fill a real one.
fn pages() -> Vec<Case> {
    let tail = |nth: u64, action: Value| vec![made_up(1, 0..2, 4), on_reports(nth, 99, action)];
    vec![
        case("two pages", vec![made_up(1, 0..2, 4), made_up(2, 2..4, 4)], Outcome::Rows(Rows::MadeUp(4)), 2..=2),
        case(
            "a token that ends between the pages",
            vec![made_up(1, 0..2, 4), on_reports(2, 1, json!("expire_token")), made_up(3, 2..4, 4)],
            Outcome::Rows(Rows::MadeUp(4)),
            3..=3,
        ),
        case(
            "500 between the pages once",
            vec![made_up(1, 0..2, 4), on_reports(2, 1, google_error(500, "INTERNAL", "x", "")), made_up(3, 2..4, 4)],
            Outcome::Rows(Rows::MadeUp(4)),
            3..=3,
        ),
        case(
            "a cut in page 2 once",
            vec![
                made_up(1, 0..2, 4),
                made_up(2, 2..4, 4),
                on_reports(2, 1, json!({"cut_after_bytes": 150})),
                made_up(3, 2..4, 4),
            ],
            Outcome::Rows(Rows::MadeUp(4)),
            3..=3,
        ),
        case(
            "a cut in page 2 always",
            vec![
                made_up(1, 0..2, 4),
                on_reports(2, 99, status(200, &page(2..4, 4).to_string())),
                on_reports(2, 99, json!({"cut_after_bytes": 150})),
            ],
            Error(-32018, &["broke off"]),
            3..=6,
        ),
        case(
            "500 on page 2 always",
            tail(2, google_error(500, "INTERNAL", "Internal error encountered.", "")),
            Error(-32018, &["500"]),
            3..=4,
        ),
        case(
            "quota on page 2",
            tail(2, quota("Exhausted property tokens for a project per hour.")),
            Error(-32018, &["within an hour"]),
            2..=2,
        ),
        case(
            "no permission on page 2",
            tail(
                2,
                google_error(
                    403,
                    "PERMISSION_DENIED",
                    "User does not have sufficient permissions for this property.",
                    "",
                ),
            ),
            Error(-32014, &["403"]),
            2..=2,
        ),
        case("page 1 again", vec![made_up(1, 0..2, 4), made_up(2, 0..2, 4)], Error(-32018, &["twice"]), 2..=2),
        case(
            "page 1 for ever",
            vec![on_reports(1, 99, status(200, &page(0..2, 1_000_000).to_string()))],
            Error(-32018, &["twice"]),
            2..=4,
        ),
        case(
            "page 2 again as page 3",
            vec![made_up(1, 0..2, 6), made_up(2, 2..4, 6), made_up(3, 2..4, 6)],
            Error(-32018, &["twice"]),
            3..=4,
        ),
        case(
            "page 1 again as page 3",
            vec![made_up(1, 0..2, 6), made_up(2, 2..4, 6), made_up(3, 0..2, 6)],
            Error(-32018, &[]),
            3..=4,
        ),
        case(
            "an empty page 2",
            vec![made_up(1, 0..2, 4), made_up(2, 2..2, 4)],
            Error(-32018, &["stopped after 2"]),
            2..=2,
        ),
        case(
            "a page 2 with a row too few, and no more",
            vec![made_up(1, 0..2, 4), made_up(2, 2..3, 4), on_reports(3, 99, status(200, &page(3..3, 4).to_string()))],
            Error(-32018, &["stopped after 3"]),
            3..=3,
        ),
        case(
            "a page 2 with a row too many",
            vec![made_up(1, 0..2, 4), made_up(2, 2..5, 4)],
            Error(-32018, &["sent 5"]),
            2..=2,
        ),
        case(
            "more rows announced on page 2",
            vec![made_up(1, 0..2, 4), made_up(2, 2..4, 5)],
            Error(-32018, &["changed from 4 to 5"]),
            2..=3,
        ),
        case(
            "fewer rows announced on page 2",
            vec![made_up(1, 0..2, 4), made_up(2, 2..3, 3)],
            Error(-32018, &["changed from 4 to 3"]),
            2..=2,
        ),
        case(
            "no count on page 2",
            vec![
                made_up(1, 0..2, 4),
                on_reports(2, 1, status(200, &page(2..4, 4).to_string().replace(r#""rowCount":4,"#, ""))),
            ],
            Error(-32018, &["changed"]),
            2..=2,
        ),
        case(
            "rows and no count",
            once(status(200, &page(0..2, 2).to_string().replace(r#""rowCount":2,"#, ""))),
            Error(-32018, &["sent 2"]),
            1..=1,
        ),
        case(
            "page 2 breaks in the middle, well framed",
            vec![made_up(1, 0..2, 4), on_reports(2, 99, status(200, &page(2..4, 4).to_string()[..200]))],
            Error(-32018, &["answer"]),
            2..=6,
        ),
    ]
}

fn report(google: &Google) -> Value {
    json!({"metrics": ["sessions"], "dimensions": ["country"], "start_date": google.day(20), "end_date": google.day(1)})
}

/// Runs cases on one connector, one after the other, and reports all that fail.
fn run(cases: &[Case]) {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let arguments = report(&google);
    // By file, so that a failed call could leave one behind.
    let meta = json!({"inline_max_bytes": 0, "row_limit": 3});
    let real = ga4.call("run_report", &arguments, &meta).ok().rows();
    let mut wrong = Vec::new();
    for case in cases {
        clear(&ga4);
        google.calm();
        case.faults.iter().for_each(|fault| google.fault(fault));
        let started = Instant::now();
        let answer = ga4.call("run_report", &arguments, &meta);
        let (took, asked) = (started.elapsed(), google.reports());
        let mut problem = |what: String| wrong.push(format!("{}: {what}", case.name));
        match (&case.outcome, answer.error()) {
            (Error(code, needles), Some((found, message))) => {
                if found != *code || needles.iter().any(|needle| !message.contains(needle)) {
                    problem(format!("{found} {message:?}, expected {code} with {needles:?}"));
                }
                if !message.ends_with('.') || message.len() < 40 {
                    problem(format!("the message does not say what to do: {message:?}"));
                }
                let left = ga4.files("tmp");
                if !left.is_empty() {
                    problem(format!("a failed call leaves {left:?}"));
                }
            }
            (Outcome::Rows(rows), None) => {
                let found = answer.rows();
                let right = match rows {
                    Rows::Real => found == real,
                    Rows::MadeUp(count) => {
                        found.len() as u64 == *count
                            && found.iter().enumerate().all(|(place, row)| row["sessions"] == place)
                    }
                };
                if !right || answer.data()["row_count"] != found.len() {
                    problem(format!("the table is not the right one: {}", clip(&json!(found).to_string())));
                }
            }
            (Error(code, _), None) => {
                problem(format!(
                    "expected {code}, got a table of {} rows: {}",
                    answer.rows().len(),
                    clip(&answer.text)
                ));
            }
            (Outcome::Rows(_), Some(error)) => problem(format!("expected a table, got {error:?}")),
        }
        if !case.reports.contains(&asked) {
            problem(format!("{asked} reports were asked for, expected {:?}", case.reports));
        }
        if took > Duration::from_secs(case.seconds) {
            problem(format!("it took {took:?}"));
        }
        google.calm();
        let after = ga4.call("run_report", &arguments, &meta);
        if after.error().is_some() || after.rows() != real {
            problem(format!("the next call fails: {:?}", after.error()));
        }
    }
    assert!(wrong.is_empty(), "{} problems in {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    ga4.end_well();
}

fn clear(ga4: &Ga4) {
    ga4.files("tmp").iter().for_each(|file| std::fs::remove_file(file).expect("a file can be removed"));
}

#[test]
fn errors_of_google_become_errors_with_advice() {
    run(&answers_that_fail());
}

#[test]
fn broken_answers_are_never_taken_for_whole_ones() {
    run(&answers_that_break());
}

#[test]
fn pages_are_put_together_or_the_call_fails() {
    run(&pages());
}

/// Its waits are long, so it has a connector of its own.
#[test]
fn too_fast_for_ever_ends_within_the_budget() {
    let busy = google_error(429, "RESOURCE_EXHAUSTED", "Exhausted concurrent requests quota.", "");
    let mut case = case("429, too many at once, always", always(busy), Error(-32018, &["429"]), 2..=7);
    case.seconds = 35;
    run(&[case]);
}

#[test]
fn a_retry_after_that_does_not_end_is_bounded() {
    let busy = with_header(quota("Too many requests."), "Retry-After", "1");
    run(&[case("429 with Retry-After always", always(busy), Error(-32018, &["429"]), 2..=4)]);
}

/// A redirect would carry the token to wherever it points.
#[test]
fn redirects_are_not_followed() {
    let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
    trap.set_nonblocking(true).expect("a listener that does not wait");
    let elsewhere = format!("http://127.0.0.1:{}/v1beta/x", trap.local_addr().expect("an address").port());
    let cases: Vec<Case> = [("301", 301), ("302", 302), ("303", 303), ("307", 307), ("308", 308)]
        .into_iter()
        .map(|(name, code)| {
            case(name, once(with_header(status(code, ""), "Location", &elsewhere)), Error(-32018, &["redirect"]), 1..=1)
        })
        .collect();
    run(&cases);
    assert!(trap.accept().is_err(), "the redirect was followed");
}

/// Name, credential, fault, how often it comes, error with a word of its message, exchanges.
type TokenCase = (&'static str, &'static str, Value, u64, Option<(i64, &'static str)>, RangeInclusive<usize>);

/// The token endpoint's failures, each with credentials that have no token yet.
#[test]
fn failures_of_the_token_endpoint_are_told_apart() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let arguments = report(&google);
    let oauth_error = |error: &str, description: &str| {
        status(400, &json!({"error": error, "error_description": description}).to_string())
    };
    let cases: Vec<TokenCase> = vec![
        (
            "a refused key",
            "full",
            oauth_error("invalid_grant", "Invalid JWT Signature."),
            9,
            Some((-32012, "Invalid JWT Signature")),
            1..=1,
        ),
        (
            "an account that is gone",
            "full",
            oauth_error("invalid_grant", "Invalid grant: account not found"),
            9,
            Some((-32012, "account not found")),
            1..=1,
        ),
        (
            "a clock that is wrong",
            "full",
            oauth_error(
                "invalid_grant",
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.",
            ),
            9,
            Some((-32012, "clock")),
            1..=1,
        ),
        (
            "a refused refresh",
            "oauth",
            oauth_error("invalid_grant", "Token has been expired or revoked."),
            9,
            Some((-32012, "sign in")),
            1..=1,
        ),
        (
            "a client that is gone",
            "oauth",
            status(401, r#"{"error": "invalid_client", "error_description": "The OAuth client was not found."}"#),
            9,
            Some((-32012, "client")),
            1..=1,
        ),
        ("an identity token only", "full", status(200, r#"{"id_token": "e.y.J"}"#), 9, Some((-32012, "scope")), 1..=1),
        ("nothing", "full", status(200, "{}"), 9, Some((-32012, "no access token")), 1..=1),
        (
            "a token with a line break",
            "full",
            status(200, r#"{"access_token": "ya29.a\nb", "expires_in": 3599}"#),
            9,
            Some((-32012, "no access token")),
            1..=1,
        ),
        ("a page", "full", html(200), 9, Some((-32018, "proxy")), 1..=1),
        ("404 as a page", "full", html(404), 9, Some((-32018, "404")), 1..=1),
        ("500 once", "full", status(500, ""), 1, None, 2..=2),
        ("500 always", "full", status(500, ""), 9, Some((-32018, "500")), 2..=3),
        ("429", "full", status(429, ""), 9, Some((-32018, "429")), 1..=3),
        ("a reset once", "full", json!("reset"), 1, None, 2..=2),
        ("a reset always", "full", json!("reset"), 9, Some((-32018, "token endpoint")), 2..=3),
        ("a cut once", "full", json!({"cut_after_bytes": 20}), 1, None, 2..=2),
        ("slow", "full", json!({"delay_ms": 1500}), 1, None, 1..=1),
        (
            "a token that is refused at once",
            "full",
            status(200, r#"{"access_token": "ya29.nobodys", "expires_in": 3599}"#),
            1,
            None,
            2..=2,
        ),
        (
            "tokens that are refused always",
            "full",
            status(200, r#"{"access_token": "ya29.nobodys", "expires_in": 3599}"#),
            9,
            Some((-32012, "401")),
            1..=2,
        ),
    ];
    let mut wrong = Vec::new();
    for (number, (name, who, action, times, expected, exchanges)) in cases.into_iter().enumerate() {
        google.calm();
        google.fault(&json!({"path": "^/token$", "times": times, "action": action}));
        let credentials = google.another(who, number);
        let answer = ga4.report_as(&credentials, &arguments);
        let asked = google.asked("/token").len();
        match (expected, answer.error()) {
            (None, None) => {}
            (Some((code, needle)), Some((found, message))) if code == found && message.contains(needle) => {}
            (expected, found) => wrong.push(format!("{name}: {found:?}, expected {expected:?}")),
        }
        if !exchanges.contains(&asked) {
            wrong.push(format!("{name}: {asked} exchanges, expected {exchanges:?}"));
        }
        // A failure is not remembered.
        google.calm();
        if let Some(error) = ga4.report_as(&credentials, &arguments).error() {
            wrong.push(format!("{name}: the next call fails: {error:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} problems:\n{}", wrong.len(), wrong.join("\n"));
}

/// V-354, S-5.5.5-03: what a host stored of a person's login long ago still works, with one renewal.
#[test]
fn a_person_whose_token_is_old_is_renewed() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let (arguments, mut person) = (report(&google), google.credentials("oauth"));
    person["access_token"] = json!("ended-long-ago");
    person["expiry_date"] = json!(1_600_000_000_000_u64);
    ga4.report_as(&person, &arguments).ok();
    assert_eq!(google.asked("/token").len(), 1);
    ga4.report_as(&person, &arguments).ok();
    assert_eq!(google.asked("/token").len(), 1, "the new one is kept");
}

/// A person whose token was revoked between two calls, with a refresh that no longer works either.
#[test]
fn a_refused_refresh_in_the_middle_names_the_person() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let (arguments, person) = (report(&google), google.credentials("oauth"));
    ga4.report_as(&person, &arguments).ok();
    google.calm();
    google.fault(&on_reports(1, 1, json!("expire_token")));
    google.fault(&json!({"path": "^/token$", "times": 9, "action": status(400, r#"{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}"#)}));
    let message = ga4.report_as(&person, &arguments).refused(-32012);
    assert!(message.contains("analyst@") && message.to_lowercase().contains("sign in"), "{message}");
    assert_eq!((google.reports(), google.asked("/token").len()), (1, 1));
    google.calm();
    ga4.report_as(&person, &arguments).ok();
}

/// Other requests than reports fail too: fields and time zone before the report, blocks beside it.
#[test]
fn what_is_asked_beside_the_report_fails_as_well() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let relative = json!({"metrics": ["sessions"]});
    // The Admin API may be off; the report says the zone too.
    google.fault(&json!({"path": "^/v1beta/properties/\\d+$", "times": 9, "action": google_error(403, "PERMISSION_DENIED", "Disabled.", "SERVICE_DISABLED")}));
    let answer = ga4.report(&relative).ok();
    assert_eq!(answer.info()["arguments"]["end_date"], google.day(1));
    google.calm();

    for (number, (action, expected, needle)) in [
        (status(200, "{"), -32018, "read"),
        (status(200, "{}"), -32018, "fields"),
        (html(200), -32018, "proxy"),
        (google_error(500, "INTERNAL", "Internal error encountered.", ""), -32018, "500"),
        (
            google_error(403, "PERMISSION_DENIED", "Google Analytics Data API has not been used.", "SERVICE_DISABLED"),
            -32018,
            "Enable",
        ),
        (quota("Exhausted property tokens per day."), -32018, "24 hours"),
    ]
    .into_iter()
    .enumerate()
    {
        google.calm();
        google.fault(&json!({"path": "/metadata$", "times": 9, "action": action}));
        let credentials = google.another("full", 100 + number);
        let message = ga4.report_as(&credentials, &relative).refused(expected);
        assert!(message.contains(needle), "{action}: {message}");
        assert_eq!(google.reports(), 0, "{action}");
        assert!(google.asked("/metadata").len() <= 3, "{action}: {:?}", google.sandbox().log());
        google.calm();
        // The failure was not cached.
        ga4.report_as(&credentials, &relative).ok();
    }
    for action in [status(200, "{}"), status(200, r#"{"accountSummaries": {}}"#), html(200), json!("reset")] {
        google.calm();
        google.fault(&json!({"path": "accountSummaries", "times": 9, "action": action}));
        let answer = ga4.call(
            "autocontext",
            &json!({"resource_id": null}),
            &json!({"credentials": google.another("full", 200)}),
        );
        if action == status(200, "{}") {
            assert_eq!(answer.ok().model()["total_available"], 0);
            break;
        }
        answer.refused(-32018);
    }
    // A list that never ends.
    google.calm();
    google.fault(&json!({"path": "accountSummaries", "times": 9999, "action": status(200, r#"{"accountSummaries": [], "nextPageToken": "again"}"#)}));
    let answer =
        ga4.call("autocontext", &json!({"resource_id": null}), &json!({"credentials": google.another("full", 201)}));
    let message = answer.refused(-32018);
    assert!(message.contains("does not end"), "{message}");
    assert!(google.asked("accountSummaries").len() <= 200);
}

/// The sandbox's own quota: the report that empties it is the last that is sent.
#[test]
fn a_used_up_quota_is_not_asked_again() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let email = google.facts()["identities"]["full"]["email"].as_str().expect("an address").to_owned();
    ga4.report(&report(&google)).ok();
    google.sandbox().set_remaining_tokens(&email, google.id("main"), 0);
    google.calm();
    let started = Instant::now();
    let message = ga4.report(&report(&google)).refused(-32018);
    assert!(message.contains("within an hour") && message.contains("do not retry"), "{message}");
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(google.reports(), 1);
    // Another property has its own.
    ga4.report(&json!({"resource_id": google.id("slice"), "metrics": ["sessions"]})).ok();
}

#[test]
fn no_google_at_all() {
    let mut google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let arguments = report(&google);
    ga4.report(&arguments).ok();
    let stranger = google.another("full", 1);
    google.stop();
    for credentials in [&stranger, &google.credentials("full")] {
        let started = Instant::now();
        let message = ga4.report_as(credentials, &arguments).refused(-32018);
        assert!(message.contains("network"), "{message}");
        assert!(!message.contains("127.0.0.1"), "no addresses: {message}");
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }
    assert!(ga4.files("tmp").is_empty());
    ga4.assert_alive("Google was gone");
    ga4.end_well();
}

/// A real page of 250,000 rows is cut, and so is the next one: rows are resumed where it broke, none twice, none lost.
#[test]
fn a_real_report_survives_cuts_on_both_pages() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let bulk = google.property("bulk").clone();
    google.fault(&on_reports(1, 1, json!({"cut_after_bytes": 3_000_000})));
    google.fault(&on_reports(3, 1, json!({"cut_after_bytes": 1_000_000})));
    google.fault(&on_reports(4, 1, json!("expire_token")));
    let arguments = json!({
        "resource_id": bulk["id"], "metrics": ["eventCount"], "dimensions": ["customEvent:item_id"],
        "start_date": super::bench::day_of(&bulk, 12), "end_date": super::bench::day_of(&bulk, 1),
    });
    let id = ga4.begin_call("run_report", &arguments, &json!({}));
    let answer = ga4.wait(id, super::bench::PATIENCE).ok();
    let table = std::fs::read_to_string(&ga4.files("tmp")[0]).expect("the table");
    let items: std::collections::HashSet<&str> = table.split('"').filter(|text| text.starts_with("SKU-")).collect();
    assert_eq!(items.len(), 300_000);
    assert_eq!(table.matches("SKU-").count(), 300_000, "none twice");
    let sum: u64 =
        table.split("\"eventCount\":").skip(1).filter_map(|rest| rest.split('}').next()?.parse::<u64>().ok()).sum();
    assert_eq!(answer.model()["totals"]["eventCount"], sum);
    assert!((4..=6).contains(&google.reports()), "{:?}", google.sandbox().log());
}

/// Answers that no web server gives. Each must fail, quickly, and without filling the memory.
#[test]
fn bytes_that_are_no_answer() {
    let json = page(0..2, 2).to_string();
    let mut invalid = json.clone().into_bytes();
    let place = json.find("country 1").expect("a cell");
    invalid[place] = 0xff;
    let chunked = |body: &str| {
        raw::framed(200, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", body.as_bytes())
    };
    let length = |length: usize, body: &[u8]| {
        raw::framed(200, &format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"), body)
    };
    let gzip = |body: &[u8]| {
        raw::framed(
            200,
            &format!("Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n", body.len()),
            body,
        )
    };
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("invalid UTF-8 in a cell", raw::answer(200, "application/json", &invalid)),
        (
            "invalid UTF-8 in an error",
            raw::answer(400, "application/json", b"{\"error\": {\"message\": \"\xff\xfe\"}}"),
        ),
        ("a body shorter than its length", length(json.len() + 10, json.as_bytes())),
        ("a body longer than its length, cut by it", length(json.len() - 20, json.as_bytes())),
        ("chunks without an end", chunked(&format!("{:x}\r\n{json}\r\n", json.len()))),
        ("chunks of nonsense", chunked("zz\r\nhello\r\n")),
        ("gzip that is none", gzip(json.as_bytes())),
        ("gzip that is cut", gzip(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xaa, 0x56])),
        ("no HTTP", b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
        ("nothing", Vec::new()),
        ("half a head", b"HTTP/1.1 200 OK\r\nContent-Ty".to_vec()),
        ("a head without end", [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 2_000_000]].concat()),
        (
            "a row without end",
            raw::answer(200, "application/json", format!("{{\"rows\": [\"{}\"", "x".repeat(20_000_000)).as_bytes()),
        ),
        ("depth without end", raw::answer(200, "application/json", "{\"a\":".repeat(100_000).as_bytes())),
        (
            "depth in a row",
            raw::answer(200, "application/json", format!("{{\"rows\": [{}", "[".repeat(100_000)).as_bytes()),
        ),
    ];
    let sandbox = Google::start();
    let mut wrong = Vec::new();
    for (name, bytes) in answers {
        let google = RawGoogle::start(move |_, _| bytes.clone());
        let mut ga4 = Ga4::start_with(&sandbox, &[("ACP_GOOGLE_SANDBOX", &google.url)], None);
        let started = Instant::now();
        let credentials = raw::credentials(&sandbox);
        let arguments = json!({"metrics": ["sessions"], "dimensions": ["country"], "start_date": "2026-09-01", "end_date": "2026-09-02"});
        let answer = ga4.call("run_report", &arguments, &json!({"credentials": credentials, "inline_max_bytes": 0}));
        match answer.error() {
            Some((-32018 | -32017, message)) if message.len() > 40 => {}
            other => wrong.push(format!("{name}: {other:?}: {}", clip(&answer.text))),
        }
        if started.elapsed() > Duration::from_secs(10) || google.reports() > 4 || !ga4.files("tmp").is_empty() {
            wrong.push(format!(
                "{name}: {:?}, {} reports, {:?}",
                started.elapsed(),
                google.reports(),
                ga4.files("tmp")
            ));
        }
        ga4.end_well();
    }
    assert!(wrong.is_empty(), "{} problems:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every page brings one new row of a million that are announced: each costs quota, so somebody must stop it.
#[test]
fn pages_of_one_row_do_not_go_on_for_ever() {
    let google = RawGoogle::start(|_, body| {
        let offset = body["offset"].as_u64().unwrap_or(0);
        raw::ok(&page(offset..offset + 1, 1_000_000))
    });
    let sandbox = Google::start();
    let mut ga4 = Ga4::start_with(&sandbox, &[("ACP_GOOGLE_SANDBOX", &google.url)], None);
    let credentials = raw::credentials(&sandbox);
    let arguments = json!({"metrics": ["sessions"], "dimensions": ["country"], "start_date": "2026-09-01", "end_date": "2026-09-02"});
    let id = ga4.begin_call("run_report", &arguments, &json!({"credentials": credentials}));
    let started = Instant::now();
    while google.reports() < 500
        && started.elapsed() < Duration::from_secs(10)
        && ga4.listen(Duration::from_millis(50)).is_empty()
    {}
    assert!(
        google.reports() < 500,
        "call {id}: {} pages of one row were asked for, with no end in sight",
        google.reports()
    );
}
