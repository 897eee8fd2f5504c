//! What goes wrong at Google, whatever the API, and what must come of it: the right error, few attempts, soon, and never a
//! short table that looks complete. What is peculiar to one API is in the suites of its connector, which play their cases here.

use std::io::Write;
use std::net::TcpListener;
use std::ops::{Range, RangeInclusive};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::raw::{self, RawGoogle};
use super::source::{Refusal, Source, each, html, status, with_header};
use super::{Answer, Connector, Google};
use crate::server::clip;

/// What must come of a call.
pub(crate) enum Outcome {
    /// The rows of the real answer.
    Real,
    /// So many rows of the pages that a fault made up.
    MadeUp(u64),
    /// This error, with these words in its message.
    Error(i64, Vec<&'static str>),
}

use Outcome::{Error, MadeUp, Real};

/// Faults, what must come of them, how often rows may be asked for, pages that arrive included, and within how many seconds.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) faults: Vec<Value>,
    pub(crate) outcome: Outcome,
    pub(crate) asked: RangeInclusive<usize>,
    pub(crate) seconds: u64,
}

/// A case for one source.
pub(crate) fn case(name: &'static str, faults: Vec<Value>, outcome: Outcome, asked: RangeInclusive<usize>) -> Case {
    Case { name, faults, outcome, asked, seconds: 5 }
}

/// An error with words of its message.
pub(crate) fn error(code: i64, words: &[&'static str]) -> Outcome {
    Error(code, words.to_vec())
}

/// Runs cases on one connector, one after the other, and reports all that fail.
pub(crate) fn run(source: &Source, cases: &[Case]) {
    let google = Google::start();
    let mut connector = source.start(&google, &[]);
    let arguments = (source.question)(&google);
    // By file, so that a failed call could leave one behind.
    let meta = json!({"inline_max_bytes": 0, "row_limit": 3});
    let real = connector.call(source.tool, &arguments, &meta).ok().rows();
    assert!(!real.is_empty(), "{}: there is nothing to lose", source.name);
    let mut wrong = Vec::new();
    for case in cases {
        clear(&connector);
        google.calm();
        case.faults.iter().for_each(|fault| google.fault(fault));
        let started = Instant::now();
        let answer = connector.call(source.tool, &arguments, &meta);
        let (took, asked) = (started.elapsed(), source.asked(&google));
        write_down(source.name, case.name, &answer, asked, took);
        let mut problem = |what: String| wrong.push(format!("{}: {what}", case.name));
        match (&case.outcome, answer.error()) {
            (Error(code, words), Some((found, message))) => {
                if found != *code || words.iter().any(|word| !message.contains(word)) {
                    problem(format!("{found} {message:?}, expected {code} with {words:?}"));
                }
                if !message.ends_with('.') || message.len() < 40 {
                    problem(format!("the message does not say what to do: {message:?}"));
                }
                let left = connector.files("tmp");
                if !left.is_empty() {
                    problem(format!("a failed call leaves {left:?}"));
                }
            }
            (Real | MadeUp(_), None) => {
                let found = answer.rows();
                let right = match case.outcome {
                    MadeUp(count) => {
                        found.len() as u64 == count
                            && found.iter().enumerate().all(|(place, row)| row[source.number] == place)
                    }
                    _ => found == real,
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
            (Real | MadeUp(_), Some(error)) => problem(format!("expected a table, got {error:?}")),
        }
        // Beside the rows there is what a call asks anyway, and the page that ends the rows.
        let more = match case.outcome {
            Error(..) => source.beside,
            Real | MadeUp(_) => source.usual - 1,
        };
        if !(case.asked.start() + more..=case.asked.end() + more).contains(&asked) {
            problem(format!("{asked} requests, expected {:?} and {more}", case.asked));
        }
        if took > Duration::from_secs(case.seconds) {
            problem(format!("it took {took:?}"));
        }
        google.calm();
        let after = connector.call(source.tool, &arguments, &meta);
        if after.error().is_some() || after.rows() != real {
            problem(format!("the next call fails: {:?}", after.error()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}: {} problems in {} cases:\n{}",
        source.name,
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    connector.end_well();
}

/// For docs/faults.md: what a fault came to.
pub(crate) fn write_down(connector: &str, fault: &str, answer: &Answer, requests: usize, took: Duration) {
    let error = answer.error();
    crate::server::write_down(&json!({
        "connector": connector,
        "fault": fault,
        "code": error.as_ref().map(|(code, _)| code),
        "message": error.as_ref().map(|(_, message)| message),
        "requests": requests,
        "milliseconds": took.as_millis() as u64,
    }));
}

fn clear(connector: &Connector) {
    connector.files("tmp").iter().for_each(|file| std::fs::remove_file(file).expect("a file can be removed"));
}

impl Source {
    fn once(&self, action: &Value) -> Vec<Value> {
        vec![self.on_rows(1, 1, action)]
    }

    pub(crate) fn always(&self, action: &Value) -> Vec<Value> {
        vec![self.on_rows(1, 99, action)]
    }

    fn refuses(&self, refusal: Refusal) -> Value {
        (self.refusal)(refusal)
    }

    fn answers_that_fail(&self) -> Vec<Case> {
        let refuse = |refusal| self.refuses(refusal);
        let busy = || refuse(Refusal::Unavailable);
        let account = "reports-full@";
        vec![
            case("400", self.once(&refuse(Refusal::BadRequest)), error(-32017, &["Please remove X"]), 1..=1),
            case("401 once: a new token helps", self.once(&refuse(Refusal::Unauthenticated)), Real, 2..=2),
            case("401 always", self.always(&refuse(Refusal::Unauthenticated)), error(-32012, &[account, "401"]), 1..=2),
            case(
                "403, no permission",
                self.once(&refuse(Refusal::NoPermission)),
                error(-32014, &[account, self.grant]),
                1..=1,
            ),
            case(
                "403, the API is off",
                self.once(&refuse(Refusal::ApiOff)),
                error(-32018, &["https://console.developers.google.com/apis/api/", "Enable"]),
                1..=1,
            ),
            case("403, another scope", self.once(&refuse(Refusal::Scope)), error(-32012, &["scope"]), 1..=1),
            case("403, too fast once", self.once(&refuse(Refusal::TooFast)), Real, 2..=2),
            case("429, too fast once", self.once(&refuse(Refusal::TooFast429)), Real, 2..=2),
            case("a quota", self.once(&refuse(Refusal::Quota)), error(-32018, &[self.returns, "quota"]), 1..=1),
            case("403 as a page", self.once(&html(403)), error(-32018, &["403"]), 1..=1),
            case("403 with nothing", self.once(&status(403, "")), error(-32018, &["403"]), 1..=1),
            case("404", self.once(&refuse(Refusal::NotFound)), error(-32014, &["404"]), 1..=1),
            case("404 as a page", self.once(&html(404)), error(-32018, &["404"]), 1..=1),
            case("409", self.once(&refuse(Refusal::Conflict)), error(-32018, &["409"]), 1..=1),
            case("418", self.once(&status(418, "short and stout")), error(-32018, &["418"]), 1..=1),
            case(
                "429 with Retry-After once",
                self.once(&with_header(status(429, "{}"), "Retry-After", "1")),
                Real,
                2..=2,
            ),
            case(
                "429 with a long Retry-After",
                self.once(&with_header(status(429, "{}"), "Retry-After", "3600")),
                error(-32018, &["3600"]),
                1..=1,
            ),
            case("429 without Retry-After", self.once(&status(429, "{}")), error(-32018, &["429"]), 1..=4),
            case(
                "429 with a Retry-After that is none",
                self.once(&with_header(status(429, "{}"), "Retry-After", "soon")),
                error(-32018, &["429"]),
                1..=4,
            ),
            case("500 once", self.once(&refuse(Refusal::Internal)), Real, 2..=2),
            // Ten of them lock an Analytics property for an hour.
            case("500 always", self.always(&refuse(Refusal::Internal)), error(-32018, &["500"]), 2..=3),
            case("502 as a page once", self.once(&html(502)), Real, 2..=2),
            case("503 once", self.once(&busy()), Real, 2..=2),
            case("503 always", self.always(&busy()), error(-32018, &["503"]), 2..=4),
            case(
                "503 with a long Retry-After",
                self.once(&with_header(busy(), "Retry-After", "3600")),
                error(-32018, &["503"]),
                1..=1,
            ),
        ]
    }

    fn answers_that_break(&self) -> Vec<Case> {
        let page = (self.page)(0..4, 4);
        let text = page.to_string();
        let half = &text[..text.len() / 2];
        let rows = format!("\"rows\":{}", page["rows"]);
        let only_rows = format!("{{{rows}");
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut page = page.clone();
            change(&mut page);
            status(200, &page.to_string())
        };
        let wrong = |name, action: Value| case(name, self.once(&action), error(-32018, &[]), 1..=4);
        vec![
            case("slow headers", self.once(&json!({"delay_ms": 1500})), Real, 1..=1),
            case("slow body", self.once(&json!({"drip_ms": 20})), Real, 1..=1),
            case("cut in the rows once", self.once(&json!({"cut_after_bytes": 400})), Real, 2..=2),
            case("cut before the first byte once", self.once(&json!({"cut_after_bytes": 0})), Real, 2..=2),
            case("cut always", self.always(&json!({"cut_after_bytes": 400})), error(-32018, &["broke off"]), 2..=6),
            case("reset once", self.once(&json!("reset")), Real, 2..=2),
            case("reset always", self.always(&json!("reset")), error(-32018, &["connection"]), 2..=4),
            case(
                "another type",
                self.once(&with_header(status(200, "<html>Please log in</html>"), "Content-Type", "text/html")),
                error(-32018, &["proxy"]),
                1..=1,
            ),
            case(
                "text",
                self.once(&with_header(status(200, &text), "Content-Type", "text/plain")),
                error(-32018, &["text/plain"]),
                1..=1,
            ),
            case("nothing once", self.once(&status(200, "")), Real, 2..=2),
            case("nothing always", self.always(&status(200, "")), error(-32018, &[]), 1..=4),
            wrong("an empty object", status(200, "{}")),
            wrong("no JSON", status(200, "hello")),
            case("half the JSON, well framed", self.always(&status(200, half)), error(-32018, &["answer"]), 1..=4),
            case(
                "the rows and no end, well framed",
                self.always(&status(200, &only_rows)),
                error(-32018, &["answer"]),
                1..=4,
            ),
            wrong("JSON of another form", status(200, "[1, 2]")),
            wrong("rows of another form", changed(&|page| page["rows"] = json!(["a", 1]))),
            wrong("rows that are no list", changed(&|page| page["rows"] = json!({"a": 1}))),
            wrong("rows that are a text", changed(&|page| page["rows"] = json!("none"))),
            wrong("the rows twice", status(200, &format!("{{\"rows\": [], {}", &text[1..]))),
            wrong("a lone surrogate", status(200, &text.replace("value 0", "\\ud800"))),
            wrong("something after the end", status(200, &format!("{text} {text}"))),
        ]
    }

    /// Pages that a fault makes up, so that they can be small, and what comes between them: each step is one request.
    fn steps(&self, steps: &[Step]) -> Vec<Value> {
        // Where the last step is no page, there are rows that never come.
        let missing = if matches!(steps.last(), Some(Step::Page(_))) { 0 } else { 2 };
        let count = steps.iter().filter_map(Step::last_row).max().unwrap_or(0) + missing;
        let page = |rows: &Range<u64>| status(200, &(self.page)(rows.clone(), count).to_string());
        let mut faults = Vec::new();
        for (nth, step) in (1..).zip(steps) {
            match step {
                Step::Page(rows) => faults.push(self.on_rows(nth, 1, &page(rows))),
                Step::Forever(rows) => faults.push(self.on_rows(nth, 9_999, &page(rows))),
                Step::Cut(rows) | Step::CutForever(rows) => {
                    let times = if matches!(step, Step::Cut(_)) { 1 } else { 99 };
                    faults.push(self.on_rows(nth, times, &page(rows)));
                    faults.push(self.on_rows(nth, times, &json!({"cut_after_bytes": 90})));
                }
                Step::Fault(action) => faults.push(self.on_rows(nth, 1, action)),
                Step::FaultForever(action) => faults.push(self.on_rows(nth, 99, action)),
            }
        }
        if let (Some(end), Some(Step::Page(_))) = (self.end, steps.last()) {
            faults.push(self.on_rows(steps.len() as u64 + 1, 1, &status(200, &end().to_string())));
        }
        faults
    }

    fn pages(&self) -> Vec<Case> {
        use Step::{Cut, CutForever, Fault, FaultForever, Forever, Page};
        let refuse = |refusal| self.refuses(refusal);
        vec![
            case("two pages", self.steps(&[Page(0..2), Page(2..4)]), MadeUp(4), 2..=2),
            // What is on its way beside the rows may have to renew its token too.
            case(
                "a token that ends between the pages",
                self.steps(&[Page(0..2), Fault(json!("expire_token")), Page(2..4)]),
                MadeUp(4),
                3..=4,
            ),
            case(
                "500 between the pages once",
                self.steps(&[Page(0..2), Fault(refuse(Refusal::Internal)), Page(2..4)]),
                MadeUp(4),
                3..=3,
            ),
            case("a cut in page 2 once", self.steps(&[Page(0..2), Cut(2..4), Page(2..4)]), MadeUp(4), 3..=3),
            case(
                "a cut in page 2 always",
                self.steps(&[Page(0..2), CutForever(2..4)]),
                error(-32018, &["broke off"]),
                3..=6,
            ),
            case(
                "500 on page 2 always",
                self.steps(&[Page(0..2), FaultForever(refuse(Refusal::Internal))]),
                error(-32018, &["500"]),
                3..=4,
            ),
            case(
                "a quota on page 2",
                self.steps(&[Page(0..2), FaultForever(refuse(Refusal::Quota))]),
                error(-32018, &[self.returns]),
                2..=2,
            ),
            case(
                "no permission on page 2",
                self.steps(&[Page(0..2), FaultForever(refuse(Refusal::NoPermission))]),
                error(-32014, &["403"]),
                2..=2,
            ),
            case("page 1 for ever", self.steps(&[Forever(0..2)]), error(-32018, &["again"]), 2..=8),
        ]
    }
}

/// What one request gets.
enum Step {
    Page(Range<u64>),
    /// The same page, whatever is asked for.
    Forever(Range<u64>),
    /// A page that breaks off.
    Cut(Range<u64>),
    CutForever(Range<u64>),
    Fault(Value),
    FaultForever(Value),
}

impl Step {
    fn last_row(&self) -> Option<u64> {
        match self {
            Self::Page(rows) | Self::Forever(rows) | Self::Cut(rows) | Self::CutForever(rows) => Some(rows.end),
            Self::Fault(_) | Self::FaultForever(_) => None,
        }
    }
}

#[test]
fn errors_of_google_become_errors_with_advice() {
    each(|source| run(source, &source.answers_that_fail()));
}

#[test]
fn broken_answers_are_never_taken_for_whole_ones() {
    each(|source| run(source, &source.answers_that_break()));
}

#[test]
fn pages_are_put_together_or_the_call_fails() {
    each(|source| run(source, &source.pages()));
}

/// Its waits are long, so it has a connector of its own.
#[test]
fn too_fast_for_ever_ends_within_the_budget() {
    each(|source| {
        let busy = source.always(&source.refuses(Refusal::TooFast429));
        let case = Case { seconds: 35, ..case("too fast, always", busy, error(-32018, &["429"]), 2..=7) };
        run(source, &[case]);
    });
}

#[test]
fn a_retry_after_that_does_not_end_is_bounded() {
    each(|source| {
        let busy = source.always(&with_header(status(429, "{}"), "Retry-After", "1"));
        run(source, &[case("429 with Retry-After always", busy, error(-32018, &["429"]), 2..=4)]);
    });
}

/// A redirect would carry the token to wherever it points.
#[test]
fn redirects_are_not_followed() {
    each(|source| {
        let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
        trap.set_nonblocking(true).expect("a listener that does not wait");
        let elsewhere = format!("http://127.0.0.1:{}/v1beta/x", trap.local_addr().expect("an address").port());
        let redirect = |(name, code)| {
            let action = with_header(status(code, ""), "Location", &elsewhere);
            case(name, source.once(&action), error(-32018, &["redirect"]), 1..=1)
        };
        let codes = [("301", 301), ("302", 302), ("303", 303), ("307", 307), ("308", 308)];
        run(source, &codes.map(redirect));
        assert!(trap.accept().is_err(), "the redirect was followed");
    });
}

/// Name, credential, fault, how often it comes, error with a word of its message, exchanges.
type TokenCase = (&'static str, &'static str, Value, u64, Option<(i64, &'static str)>, RangeInclusive<usize>);

/// The token endpoint's failures, each with credentials that have no token yet.
#[test]
fn failures_of_the_token_endpoint_are_told_apart() {
    each(tokens);
}

fn tokens(source: &Source) {
    let google = Google::start();
    let mut connector = source.start(&google, &[]);
    let arguments = (source.question)(&google);
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
        let started = Instant::now();
        let answer = ask(&mut connector, source, &credentials, &arguments);
        let asked = google.asked("/token").len();
        write_down(source.name, &format!("token endpoint: {name}"), &answer, asked, started.elapsed());
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
        if let Some(error) = ask(&mut connector, source, &credentials, &arguments).error() {
            wrong.push(format!("{name}: the next call fails: {error:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}: {} problems:\n{}", source.name, wrong.len(), wrong.join("\n"));
}

fn ask(connector: &mut Connector, source: &Source, credentials: &Value, arguments: &Value) -> Answer {
    connector.call(source.tool, arguments, &json!({"credentials": credentials}))
}

/// V-354, S-5.5.5-03: what a host stored of a person's login long ago still works, with one renewal.
#[test]
fn a_person_whose_token_is_old_is_renewed() {
    each(|source| {
        let google = Google::start();
        let mut connector = source.start(&google, &[]);
        let (arguments, mut person) = ((source.question)(&google), google.credentials("oauth"));
        person["access_token"] = json!("ended-long-ago");
        person["expiry_date"] = json!(1_600_000_000_000_u64);
        ask(&mut connector, source, &person, &arguments).ok();
        assert_eq!(google.asked("/token").len(), 1);
        ask(&mut connector, source, &person, &arguments).ok();
        assert_eq!(google.asked("/token").len(), 1, "the new one is kept");
    });
}

/// A person whose token was revoked between two calls, with a refresh that no longer works either.
#[test]
fn a_refused_refresh_in_the_middle_names_the_person() {
    each(|source| {
        let google = Google::start();
        let mut connector = source.start(&google, &[]);
        let (arguments, person) = ((source.question)(&google), google.credentials("oauth"));
        ask(&mut connector, source, &person, &arguments).ok();
        google.calm();
        google.fault(&source.on_rows(1, 1, &json!("expire_token")));
        let revoked = r#"{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}"#;
        google.fault(&json!({"path": "^/token$", "times": 9, "action": status(400, revoked)}));
        let message = ask(&mut connector, source, &person, &arguments).refused(-32012);
        assert!(message.contains("analyst@") && message.to_lowercase().contains("sign in"), "{message}");
        // What is asked beside the rows may find the token dead as well.
        assert!(source.asked(&google) <= 1 + source.beside, "{:?}", google.sandbox().log());
        assert!((1..=1 + source.beside).contains(&google.asked("/token").len()), "{:?}", google.sandbox().log());
        google.calm();
        ask(&mut connector, source, &person, &arguments).ok();
    });
}

#[test]
fn no_google_at_all() {
    each(|source| {
        let mut google = Google::start();
        let mut connector = source.start(&google, &[]);
        let arguments = (source.question)(&google);
        connector.call(source.tool, &arguments, &json!({})).ok();
        let (stranger, known) = (google.another("full", 1), google.credentials("full"));
        google.stop();
        for credentials in [&stranger, &known] {
            let started = Instant::now();
            let message = ask(&mut connector, source, credentials, &arguments).refused(-32018);
            assert!(message.contains("network"), "{message}");
            assert!(!message.contains("127.0.0.1"), "no addresses: {message}");
            assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        }
        assert!(connector.files("tmp").is_empty());
        connector.assert_alive("Google was gone");
        connector.end_well();
    });
}

/// The most that a connector may take for an answer that makes no sense; a bomb has twice as much.
#[cfg(target_os = "linux")]
const MEMORY: u64 = 128 << 20;

/// 256 MiB after this beginning, in about a megabyte.
fn bomb(beginning: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(beginning.as_bytes()).expect("memory");
    let piece = [b'x'; 1 << 20];
    (0..256).for_each(|_| packed.write_all(&piece).expect("memory"));
    packed.finish().expect("memory")
}

/// Answers that no web server gives. Each must fail, quickly, and without filling the memory.
#[test]
fn bytes_that_are_no_answer() {
    each(bytes_of);
}

fn bytes_of(source: &'static Source) {
    let json = (source.page)(0..2, 2).to_string();
    let mut invalid = json.clone().into_bytes();
    let place = json.find("value 1").expect("a cell");
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
        ("a gzip bomb in a row", gzip(&bomb("{\"rows\": [\""))),
        ("a gzip bomb beside the rows", gzip(&bomb("{\"rows\": [], \"x\": \""))),
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
        let google = RawGoogle::start(source, &sandbox, move |_, _| bytes.clone());
        let mut connector = source.start(&sandbox, &[("ACP_GOOGLE_SANDBOX", &google.url)]);
        let started = Instant::now();
        let credentials = raw::credentials(&sandbox);
        let meta = json!({"credentials": credentials, "inline_max_bytes": 0});
        let answer = connector.call(source.tool, &(source.dateless)(), &meta);
        match answer.error() {
            Some((-32018 | -32017, message)) if message.len() > 40 => {}
            other => wrong.push(format!("{name}: {other:?}: {}", clip(&answer.text))),
        }
        if started.elapsed() > Duration::from_secs(10) || google.asked() > 4 || !connector.files("tmp").is_empty() {
            wrong.push(format!(
                "{name}: {:?}, {} requests, {:?}",
                started.elapsed(),
                google.asked(),
                connector.files("tmp")
            ));
        }
        #[cfg(target_os = "linux")]
        if connector.peak_memory() > MEMORY {
            wrong.push(format!("{name}: {} MiB", connector.peak_memory() >> 20));
        }
        connector.end_well();
    }
    assert!(wrong.is_empty(), "{}: {} problems:\n{}", source.name, wrong.len(), wrong.join("\n"));
}
