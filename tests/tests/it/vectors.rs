//! The vectors: what is sent and what must come back, as data in `vectors/*.txt`.
//!
//! A vector begins with its id, the requirements it covers and a sentence. Lines at the margin set it up or send
//! something; indented lines say what must hold of the answer. A vector is a session of its own.
//!
//! Every vector runs over stdio and over HTTP (S-2-02). `only stdio WHY` or `only http WHY` says that it is about one of them, and
//! a line that begins with `stdio: ` or `http: ` counts over that one alone, as do the indented lines below it.
//!
//! Setup: `client C0|C1|CN|CM|CH|CA|{…}` (default C1), `toy FLAG VALUE`, `env NAME=VALUE` (`$ROOT` is the session's
//! folder), `unset NAME`, `header NAME VALUE` (of every request over HTTP), `by-hand` (no handshake).
//!
//! Steps: `host "REF" REPLY` (what the host says to `acp/read_table`: JSON, `error CODE MESSAGE`, `silence` or `line TEXT`,
//! where `$ID` is the request's id), `file PATH TEXT` (writes a file of the host below `$ROOT`), `conf PARAMS`,
//! `call TOOL ARGUMENTS META`, `rpc METHOD PARAMS`, `initialize` (the answer that the session began with), `raw LINE` (the
//! next message is the answer), `silent LINE` (there is no answer), `restart FLAG VALUE`, `session NAME` (what follows is
//! in another session of the same server over HTTP; the first one is `A`), `http METHOD PATH HEADERS BODY` (HEADERS is an
//! object; null leaves one out). META is `auth`, `auth+{…}` or an object; without it there is no `_meta`.
//!
//! Expectations: `error CODE|CODE` (a tool error), `rpc-error CODE` (a JSON-RPC error), or `PATH OPERATOR VALUE`.
//! Without an error expectation the answer must be a success. Paths start at `MR`, `SI`, `SD`, `eff`, `cap`, `err`,
//! `result`, `id`, `line`, `status` and `header.NAME` (of HTTP), `asked` (what the host was asked in this step), `refused`
//! (how many answers of the host HTTP refused with a status; unless it is expected there must be none),
//! `tool.NAME`, `files.FOLDER`, or at the exact texts `table` and `rows`; `*` is every item.
//! `-> name` keeps a value as `$name` for the lines below.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_protocol::result::{ExtractionModelResponse, ResultMeta};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::host::Host;
use crate::http::Reply;
use crate::rules;
use crate::server::{Message, Server, Setup, Transport, acp_client, call_params, clip, write_down};

macro_rules! sections {
    ($($name:ident)*) => {
        const SECTIONS: &[&str] = &[$(include_str!(concat!("../../vectors/", stringify!($name), ".txt"))),*];
        mod stdio {
            $(
                #[test]
                fn $name() {
                    super::run_all(include_str!(concat!("../../vectors/", stringify!($name), ".txt")), super::Transport::Stdio);
                }
            )*
        }
        mod http {
            $(
                #[test]
                fn $name() {
                    super::run_all(include_str!(concat!("../../vectors/", stringify!($name), ".txt")), super::Transport::Http);
                }
            )*
        }
    };
}

sections! {
    s01_handshake s02_configure s03_precedence s04_credentials s05_resources s06_autocontext s07_first_call
    s08_extraction s09_delivery s10_types s11_tables s12_catalogue s13_host_tables s14_cost s15_errors s16_http s17_versions s19_other messages revisions
}

/// Threads per section: a session mostly waits.
const THREADS: usize = 4;

/// Runs every vector of a text that is for this transport, or those that `ACP_VECTOR` names, and reports all failures
/// together. `ACP_SUITE_NOTES` names a file that gets a line of JSON for each.
fn run_all(text: &str, transport: Transport) {
    let wanted = std::env::var("ACP_VECTOR").unwrap_or_default();
    let all = parse(text, transport);
    assert!(!all.is_empty(), "there are no vectors");
    let vectors: Vec<Vector> =
        all.into_iter().filter(|vector| vector.title.starts_with(&wanted) && vector.is_for(transport)).collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(vectors.len()) {
            scope.spawn(|| {
                while let Some(vector) = vectors.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = vector.run_caught();
                    write_down(&json!({"vector": vector.id(), "transport": transport.name(), "pass": outcome.is_ok()}));
                    if let Err(failure) = outcome {
                        failures.lock().expect("failures").push(failure);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("failures");
    failures.sort();
    assert!(failures.is_empty(), "{} of {} vectors fail:\n\n{}", failures.len(), vectors.len(), failures.join("\n\n"));
}

struct Vector {
    /// Id, requirements and sentence.
    title: String,
    setup: Setup,
    /// The one transport it is about.
    only: Option<Transport>,
    steps: Vec<Step>,
}

struct Step {
    text: String,
    expected: Vec<String>,
}

/// The vectors as they are over one transport.
fn parse(text: &str, transport: Transport) -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    // Whether the last line at the margin is one of the other transport.
    let mut elsewhere = false;
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if rules::regex(r"^[A-Z]+-\d+[a-z]? \[").is_match(line) {
            let setup = Setup::toy(line).over(transport);
            vectors.push(Vector { title: line.to_owned(), setup, only: None, steps: Vec::new() });
            continue;
        }
        let vector = vectors.last_mut().unwrap_or_else(|| panic!("a line before the first vector: {line}"));
        let (indented, text) = line.strip_prefix("  ").map_or((false, line), |text| (true, text.trim()));
        let (other, text) = match (text.strip_prefix("stdio: "), text.strip_prefix("http: ")) {
            (Some(text), _) => (transport != Transport::Stdio, text),
            (_, Some(text)) => (transport != Transport::Http, text),
            _ => (false, text),
        };
        if !indented {
            elsewhere = other;
            if !other {
                vector.line(text);
            }
        } else if !other && !elsewhere {
            let step = vector.steps.last_mut().unwrap_or_else(|| panic!("{}: nothing was sent", vector.title));
            step.expected.push(text.to_owned());
        }
    }
    vectors
}

impl Vector {
    fn id(&self) -> &str {
        self.title.split(' ').next().unwrap_or_default()
    }

    fn is_for(&self, transport: Transport) -> bool {
        self.only.is_none_or(|only| only == transport)
    }

    fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let setup = self.setup.clone();
        self.setup = match word {
            "client" => setup.client(client(rest)),
            "toy" => setup.arguments(&rest.split(' ').collect::<Vec<_>>()),
            "env" => {
                let (name, value) = rest.split_once('=').unwrap_or_else(|| panic!("{}: {line}", self.title));
                setup.variable(name, value)
            }
            "unset" => setup.without_variable(rest),
            "header" => {
                let (name, value) = rest.split_once(' ').unwrap_or_else(|| panic!("{}: {line}", self.title));
                setup.header(name, value)
            }
            "by-hand" => setup.without_handshake(),
            "only" => {
                let (transport, why) = rest.split_once(' ').unwrap_or((rest, ""));
                assert!(!why.is_empty(), "{}: it does not say why", self.title);
                self.only = Some(match transport {
                    "stdio" => Transport::Stdio,
                    "http" => Transport::Http,
                    other => panic!("{}: there is no transport {other}", self.title),
                });
                setup
            }
            _ => {
                self.steps.push(Step { text: line.to_owned(), expected: Vec::new() });
                setup
            }
        };
    }

    /// A failure in the server's driver is a panic; here it becomes one of several failures.
    fn run_caught(&self) -> Result<(), String> {
        std::panic::catch_unwind(AssertUnwindSafe(|| self.run())).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
        })
    }

    fn run(&self) -> Result<(), String> {
        let server = self.setup.clone().start();
        let root = server.root().to_string_lossy().replace('\\', "/");
        let mut names = names();
        names.insert("ROOT".to_owned(), root);
        let mut session = Session {
            server: Some(server),
            others: BTreeMap::new(),
            name: "A".to_owned(),
            host: Host::default(),
            names,
        };
        for step in &self.steps {
            session.run(step).map_err(|problem| format!("{}\n  at: {}\n  {problem}", self.title, step.text))?;
        }
        let mut unclaimed: Vec<Message> =
            std::mem::take(&mut session.others).into_values().flat_map(Server::leave).collect();
        let server = session.server.take().ok_or("the session has no server")?;
        unclaimed.extend(server.finish_well().unclaimed);
        match unclaimed.first() {
            None => Ok(()),
            Some(message) => Err(format!("{}\n  nobody asked for {}", self.title, clip(&message.text))),
        }
    }
}

/// What the client says about ACP.
fn client(name: &str) -> Option<Value> {
    let with = |extra: &[(&str, bool)]| {
        let mut client = acp_client();
        for (field, value) in extra {
            client[*field] = json!(value);
        }
        Some(client)
    };
    match name {
        "C0" => None,
        "C1" => with(&[]),
        "CN" => with(&[("stores_system_data", false)]),
        "CM" => with(&[("multi_table", true)]),
        "CH" => with(&[("host_tables", true)]),
        "CA" => with(&[("multi_table", true), ("host_tables", true)]),
        other => Some(serde_json::from_str(other).unwrap_or_else(|error| panic!("client {other}: {error}"))),
    }
}

/// Credentials that every vector may name.
fn names() -> BTreeMap<String, String> {
    let known = [
        ("KA", r#"{"type":"api_key","api_key":"KEY-A-CANARY-1"}"#),
        ("KB", r#"{"type":"api_key","api_key":"KEY-B-CANARY-2"}"#),
        ("TOKEN", r#"{"type":"oauth","access_token":"TOK-CANARY-1","refresh_token":"TOK-CANARY-2"}"#),
    ];
    known.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

struct Session {
    server: Option<Server>,
    /// Sessions of the same server that are not in use just now.
    others: BTreeMap<String, Server>,
    /// The one that is.
    name: String,
    host: Host,
    /// What `$name` stands for: JSON text.
    names: BTreeMap<String, String>,
}

impl Session {
    fn run(&mut self, step: &Step) -> Result<(), String> {
        let text = self.fill(&step.text);
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        if word == "restart" {
            let server = self.server.take().ok_or("the session has no server")?;
            let flags: Vec<&str> = rest.split(' ').filter(|flag| !flag.is_empty()).collect();
            self.server = Some(server.restart(|setup| if flags.is_empty() { setup } else { setup.arguments(&flags) }));
            return Ok(());
        }
        if word == "session" {
            return self.change_to(rest);
        }
        let server = self.server.as_mut().ok_or("the session has no server")?;
        if word == "silent" {
            server.write_line(rest);
            server.expect_silence();
            return Ok(());
        }
        match word {
            "host" => {
                let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let reference = values.next().ok_or("host \"REF\" REPLY")?.map_err(|error| error.to_string())?;
                return self.host.set(&reference, rest[values.byte_offset()..].trim());
            }
            "file" => {
                let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
                return std::fs::write(server.root().join(path), content).map_err(|error| error.to_string());
            }
            _ => {}
        }
        self.host.asked.clear();
        self.host.refused = 0;
        let answer = match word {
            "http" => Answer::of_http(ask(server, rest)?),
            _ => Answer::new(send(server, &mut self.host, word, rest)?, &self.host),
        };
        if answer.refused > 0 && !step.expected.iter().any(|line| line.starts_with("refused ")) {
            return Err(format!("an answer of the host was refused\n  in: {}", clip(&answer.message.text)));
        }
        answer.is_as_announced(&step.expected)?;
        for expected in &step.expected {
            let filled = self.fill(expected);
            self.expect(&answer, &filled).map_err(|problem| format!("{filled}\n  {problem}"))?;
        }
        Ok(())
    }

    fn change_to(&mut self, name: &str) -> Result<(), String> {
        let current = self.server.take().ok_or("the session has no server")?;
        let next = self.others.remove(name).unwrap_or_else(|| current.another(|setup| setup));
        self.others.insert(std::mem::replace(&mut self.name, name.to_owned()), current);
        self.server = Some(next);
        Ok(())
    }

    fn fill(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
    }

    fn expect(&mut self, answer: &Answer, expected: &str) -> Result<(), String> {
        if expected.starts_with("error ") || expected.starts_with("rpc-error ") {
            return Ok(());
        }
        let (path, rest) = expected.split_once(' ').ok_or("an expectation is PATH OPERATOR VALUE")?;
        let (operator, operand) = rest.split_once(' ').unwrap_or((rest, ""));
        let root = self.server.as_ref().map(Server::root).unwrap_or(std::path::Path::new(""));
        let found = answer.find(path, root)?;
        if operator == "->" {
            let value = found.ok_or("there is no such value")?;
            self.names.insert(operand.to_owned(), value.to_string());
            return Ok(());
        }
        if holds(found.as_ref(), operator, operand)? {
            return Ok(());
        }
        let found = found.map_or("nothing".to_owned(), |value| value.to_string());
        Err(format!("found: {}\n  in: {}", clip(&found), clip(&answer.message.text)))
    }
}

fn send(server: &mut Server, host: &mut Host, word: &str, rest: &str) -> Result<Message, String> {
    match word {
        "initialize" => Ok(server.hello.clone()),
        "raw" => {
            server.write_line(rest);
            let message = server.next();
            if message.json.pointer("/result/serverInfo").is_some() {
                server.hello = message.clone();
            }
            Ok(message)
        }
        "conf" => Ok(server.request("acp/configure", values(rest)?.into_iter().next().unwrap_or(json!({})))),
        "rpc" => {
            let (method, params) = rest.split_once(' ').unwrap_or((rest, "{}"));
            let params = values(params)?.into_iter().next().unwrap_or_default();
            rpc(server, host, method, params)
        }
        "call" => {
            let (tool, rest) = rest.split_once(' ').unwrap_or((rest, "{}"));
            let (arguments, meta) = arguments_and_meta(rest)?;
            rpc(server, host, "tools/call", call_params(tool, &arguments, &meta))
        }
        other => Err(format!("there is no step {other}")),
    }
}

/// A request of HTTP as it is written: `METHOD PATH HEADERS BODY`.
fn ask(server: &Server, text: &str) -> Result<Reply, String> {
    let mut words = text.splitn(3, ' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().ok_or("http METHOD PATH HEADERS BODY")?);
    let rest = words.next().unwrap_or("{}");
    let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let headers = stream.next().unwrap_or(Ok(json!({}))).map_err(|error| format!("{rest}: {error}"))?;
    Ok(server.ask(method, path.trim_matches('"'), &headers, rest[stream.byte_offset()..].trim()))
}

fn rpc(server: &mut Server, host: &mut Host, method: &str, params: Value) -> Result<Message, String> {
    let tool = params["name"].as_str().unwrap_or_default().to_owned();
    let id = server.begin(method, params.clone());
    if method != "tools/call" {
        return Ok(server.answer(&id));
    }
    let answer = server.answer_with(&id, host, &params)?;
    if answer.json.get("result").is_some() {
        server.check_answer(&answer, &tool).map_err(|problem| format!("{problem}\n  in: {}", clip(&answer.text)))?;
    }
    Ok(answer)
}

fn values(text: &str) -> Result<Vec<Value>, String> {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    values.map_err(|error| format!("{text}: {error}"))
}

fn arguments_and_meta(text: &str) -> Result<(Value, Value), String> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let arguments = stream.next().unwrap_or(Ok(json!({}))).map_err(|error| format!("{text}: {error}"))?;
    let rest = text[stream.byte_offset()..].trim();
    let meta = match rest.strip_prefix("auth") {
        Some(more) => {
            let credentials = values(&names()["KA"])?.remove(0);
            let mut meta = values(more.trim_start_matches('+'))?.pop().unwrap_or(json!({}));
            meta["credentials"] = credentials;
            meta
        }
        None => values(rest)?.pop().unwrap_or_default(),
    };
    Ok((arguments, meta))
}

/// An answer and what can be found in it.
struct Answer {
    message: Message,
    /// `content[0].text`, which is JSON.
    model: Value,
    /// What the host was asked meanwhile.
    asked: Vec<Value>,
    /// How many answers of the host HTTP refused.
    refused: usize,
    /// Headers, where a step is about HTTP.
    headers: BTreeMap<String, String>,
}

impl Answer {
    fn of_http(reply: Reply) -> Self {
        let json = serde_json::from_str(&reply.text).unwrap_or_default();
        let message = Message { text: reply.text, json, status: Some(reply.status) };
        let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = reply.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Self { headers, ..Self::new(message, &Host::default()) }
    }

    fn new(message: Message, host: &Host) -> Self {
        let text = message.json.pointer("/result/content/0/text").and_then(Value::as_str);
        let model = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let asked = host.asked.clone();
        Self { message, model, asked, refused: host.refused, headers: BTreeMap::new() }
    }

    /// Whether it is the error that is expected, or a success where none is.
    fn is_as_announced(&self, expected: &[String]) -> Result<(), String> {
        let json = &self.message.json;
        let tool_error = json.pointer("/result/isError") == Some(&json!(true));
        let got = match (json.pointer("/error/code"), self.model.pointer("/error/code")) {
            (Some(code), _) => format!("rpc-error {code}"),
            (None, Some(code)) if tool_error => format!("error {code}"),
            _ => "success".to_owned(),
        };
        let announced = expected.iter().filter(|line| line.starts_with("error ") || line.starts_with("rpc-error "));
        let accepted: Vec<String> = announced
            .flat_map(|line| {
                let (word, codes) = line.split_once(' ').unwrap_or((line, ""));
                codes.split('|').map(move |code| format!("{word} {code}"))
            })
            .collect();
        let wanted = if accepted.is_empty() { "success".to_owned() } else { accepted.join(" or ") };
        match accepted.contains(&got) || (accepted.is_empty() && got == "success") {
            true => Ok(()),
            false => Err(format!("expected {wanted}, got {got}\n  in: {}", clip(&self.message.text))),
        }
    }

    fn find(&self, path: &str, root: &std::path::Path) -> Result<Option<Value>, String> {
        let (start, rest) = path.split_once('.').unwrap_or((path, ""));
        let json = &self.message.json;
        let at = |pointer: &str| json.pointer(pointer).cloned();
        let (value, rest) = match start {
            "MR" => (Some(self.model.clone()), rest),
            "SI" => (at("/result/_meta/acp/system_info"), rest),
            "SD" => (at("/result/_meta/acp/system_data"), rest),
            "eff" => (at("/result/effective"), rest),
            "cap" => (at("/result/capabilities/experimental/acp"), rest),
            "err" => (at("/error").or_else(|| at("/result/_meta/acp/error")), rest),
            "result" | "id" | "error" => (json.get(start).cloned(), rest),
            "asked" => (Some(json!(self.asked)), rest),
            "refused" => (Some(json!(self.refused)), rest),
            "status" => (self.message.status.map(|status| json!(status)), rest),
            "header" => (self.headers.get(rest).map(|value| json!(value)), ""),
            "line" => (Some(json!(self.message.text)), rest),
            "table" => (Some(json!(self.table()?)), rest),
            "rows" => (Some(json!(self.rows()?)), rest),
            "tool" => {
                let (name, rest) = rest.split_once('.').unwrap_or((rest, ""));
                let tools = json.pointer("/result/tools").and_then(Value::as_array);
                (tools.and_then(|tools| tools.iter().find(|tool| tool["name"] == name)).cloned(), rest)
            }
            "files" => {
                let folder = root.join(rest);
                let name = |path: &std::path::PathBuf| path.strip_prefix(&folder).unwrap_or(path).display().to_string();
                (Some(json!(rules::files_below(&folder).iter().map(name).collect::<Vec<_>>())), "")
            }
            other => return Err(format!("there is no {other} in an answer")),
        };
        Ok(value.and_then(|value| walk(&value, rest)))
    }

    /// The table's own text on one line.
    fn table(&self) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Line {
            result: Outcome,
        }
        #[derive(Deserialize)]
        struct Outcome {
            #[serde(rename = "_meta")]
            meta: Meta,
        }
        #[derive(Deserialize)]
        struct Meta {
            acp: ResultMeta,
        }
        let line: Line = serde_json::from_str(&self.message.text).map_err(|error| error.to_string())?;
        let data = line.result.meta.acp.system_data.ok_or("there is no system_data")?;
        Ok(rules::table_text(&data)?.replace('\n', ""))
    }

    /// The text of the rows that the model sees.
    fn rows(&self) -> Result<String, String> {
        let text = self.message.json.pointer("/result/content/0/text").and_then(Value::as_str).unwrap_or_default();
        let model: ExtractionModelResponse = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let rows: Vec<&str> = model.rows.iter().map(|row| row.get()).collect();
        Ok(format!("[{}]", rows.join(",")))
    }
}

/// The value at a path; `*` collects what its rest finds in every item.
fn walk(value: &Value, path: &str) -> Option<Value> {
    if path.is_empty() {
        return Some(value.clone());
    }
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    match (step, value) {
        ("*", Value::Array(items)) => {
            Some(items.iter().map(|item| walk(item, rest).unwrap_or_default()).collect::<Vec<_>>().into())
        }
        ("*", Value::Object(items)) => {
            Some(items.values().map(|item| walk(item, rest).unwrap_or_default()).collect::<Vec<_>>().into())
        }
        ("keys", Value::Object(items)) if rest.is_empty() => Some(json!(items.keys().collect::<Vec<_>>())),
        (_, Value::Array(items)) => walk(items.get(step.parse::<usize>().ok()?)?, rest),
        (_, value) => walk(value.get(step)?, rest),
    }
}

fn holds(found: Option<&Value>, operator: &str, operand: &str) -> Result<bool, String> {
    match (operator, found) {
        ("absent", found) => return Ok(found.is_none()),
        ("present", found) => return Ok(found.is_some()),
        (_, None) => return Ok(false),
        _ => {}
    }
    let found = found.ok_or("there is no such value")?;
    let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    let operand_value = || serde_json::from_str::<Value>(operand).map_err(|error| format!("{operand}: {error}"));
    Ok(match operator {
        "=" => *found == operand_value()?,
        "!=" => *found != operand_value()?,
        "is" => text == operand,
        "~" => rules::regex(operand).is_match(&text),
        "!~" => !rules::regex(operand).is_match(&text),
        "has" => has(found, operand)?,
        "lacks" => !has(found, operand)?,
        "nowhere" => !is_somewhere(found, operand),
        "len" => size(found) == operand.parse::<usize>().ok(),
        "set" => sorted(found) == sorted(&operand_value()?),
        other => return Err(format!("there is no operator {other}")),
    })
}

/// Whether a text has a part, or a list an item.
fn has(found: &Value, operand: &str) -> Result<bool, String> {
    match found {
        Value::String(text) => Ok(text.contains(operand)),
        Value::Array(items) => {
            let item = serde_json::from_str::<Value>(operand).map_err(|error| format!("{operand}: {error}"))?;
            Ok(items.contains(&item))
        }
        other => Ok(other.get(operand).is_some()),
    }
}

/// Whether any object in it has a key.
fn is_somewhere(found: &Value, key: &str) -> bool {
    match found {
        Value::Object(items) => items.contains_key(key) || items.values().any(|item| is_somewhere(item, key)),
        Value::Array(items) => items.iter().any(|item| is_somewhere(item, key)),
        _ => false,
    }
}

fn size(found: &Value) -> Option<usize> {
    match found {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        Value::Object(items) => Some(items.len()),
        _ => None,
    }
}

fn sorted(list: &Value) -> Vec<String> {
    let mut items: Vec<String> = list.as_array().into_iter().flatten().map(Value::to_string).collect();
    items.sort();
    items
}

#[test]
fn every_id_is_there_once() {
    let mut ids = std::collections::BTreeSet::new();
    for vector in SECTIONS.iter().flat_map(|section| parse(section, Transport::Stdio)) {
        let id = vector.title.split(' ').next().unwrap_or_default().to_owned();
        assert!(ids.insert(id), "{} is there twice", vector.title);
    }
}

/// The interpreter is worth what it finds: each of these does not hold, and it must say so.
#[test]
fn what_does_not_hold_is_found() {
    let cases = [
        ("conf {}", "eff.row_limit = 26"),
        ("conf {}", "eff.nothing = 1"),
        ("conf {}", "eff.row_limit absent"),
        ("conf {}", "rpc-error -32016"),
        ("conf {\"row_limit\":-1}", "rpc-error -32017"),
        ("conf {\"row_limit\":-1}", "error -32016"),
        ("call peek {}", "error -32017"),
        ("call nope {}", "SI.row_limit = 25"),
        ("call peek {}", "MR.config.region ~ ^us$"),
        ("call peek {}", "MR.config.region !~ ^eu$"),
        ("call raw {\"rows_json\":\"[{\\\"a\\\":1.0}]\"}", "table is [{\"a\":1.0}]"),
        ("call raw {\"rows_json\":\"[]\"}", "SD.table len 1"),
        ("call raw {\"rows_json\":\"[]\"}", "files.tmp len 1"),
        ("rpc tools/list", "result.tools nowhere inputSchema"),
        ("rpc tools/list", "result.tools.*.name has \"nope\""),
        ("rpc tools/list", "result.tools.*.name lacks \"peek\""),
        ("rpc tools/list", "tool.boom.inputSchema.required set [\"kinds\"]"),
        ("raw {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", "id = 2"),
        ("silent {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", ""),
    ];
    for (step, expected) in cases {
        let vectors = parse(&format!("Z-1 [none] A wrong one.\n{step}\n  {expected}\n"), Transport::Stdio);
        let found = vectors[0].run_caught();
        assert!(found.is_err_and(|problem| problem.contains("Z-1")), "not found: {step}: {expected}");
    }
}
