//! Messages that are malformed or hostile, from `vectors/hostile.txt`, over stdio and over HTTP, and connections that do not
//! behave. Each gets what it deserves, the process lives and answers, and what it took for them it gives back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::footprint::Footprint;
use crate::rules::files_below;
use crate::server::{Message, Server, Setup, Transport, clip};
use crate::wire::{Wire, head, post};

/// How long an answer may take. Tests are built without optimisation, and a long message on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(120);

const CORPUS: &str = include_str!("../../vectors/hostile.txt");

/// What comes back for a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// A result, with the id of the request.
    Result,
    /// A result that is the error of a tool.
    Tool(i64),
    /// A JSON-RPC error, with the id of the request.
    Error(i64),
    /// A JSON-RPC error, with no id.
    ErrorWithoutId(i64),
    /// Nothing.
    Silence,
}

/// One message.
struct Case {
    /// Its line in the file.
    source: &'static str,
    bytes: Vec<u8>,
    /// The id that its answer must have, if any.
    id: Value,
    stdio: Vec<Outcome>,
    http: Vec<Outcome>,
}

fn corpus() -> Vec<Case> {
    let lines = CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.enumerate().map(|(place, line)| case(line, 1_000_000 + place as u64)).collect()
}

fn case(source: &'static str, number: u64) -> Case {
    let (outcomes, text) = source.split_once(": ").unwrap_or_else(|| panic!("OUTCOME: MESSAGE, not {source}"));
    let (stdio, http) = outcomes.split_once(" / ").unwrap_or((outcomes, outcomes));
    let text = text.replace("$ID", &number.to_string());
    let whole = |kind: &str, id: &str| {
        let (method, params) = kind.split_once(' ').unwrap_or((kind, ""));
        let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
        format!(r#"{{"jsonrpc":"2.0"{id},"method":"{method}"{params}}}"#)
    };
    let text = match text.split_once(' ') {
        Some(("request", rest)) => whole(rest, &format!(r#","id":{number}"#)),
        Some(("notify", rest)) => whole(rest, ""),
        _ => text,
    };
    let bytes = expand(&text);
    // Where a message can be read, its own id counts, whatever it looks like.
    let own = serde_json::from_slice::<Value>(&bytes).ok().and_then(|message| message.get("id").cloned());
    let outcomes = |text: &str| text.split('|').map(|text| outcome(text, source)).collect();
    Case { source, bytes, id: own.unwrap_or(json!(number)), stdio: outcomes(stdio), http: outcomes(http) }
}

fn outcome(text: &str, source: &str) -> Outcome {
    let code = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} is no outcome: {source}"));
    match text.split_once(' ') {
        None if text == "result" => Outcome::Result,
        None if text == "silence" => Outcome::Silence,
        None => Outcome::Error(code(text)),
        Some(("tool", text)) => Outcome::Tool(code(text)),
        Some((text, "null")) => Outcome::ErrorWithoutId(code(text)),
        Some(_) => panic!("{text} is no outcome: {source}"),
    }
}

/// Replaces `<<N*TEXT>>` and `<<c3 28>>`.
fn expand(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<<") {
        let (inside, after) = after.split_once(">>").unwrap_or_else(|| panic!("<<, but no >>: {text}"));
        bytes.extend_from_slice(before.as_bytes());
        match inside.split_once('*') {
            Some((count, part)) => bytes.extend_from_slice(part.repeat(count.parse().expect("a count")).as_bytes()),
            None => bytes.extend(inside.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("a byte"))),
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// What an answer is, given the id that it should have.
fn outcome_of(message: &Message, id: &Value) -> Result<Outcome, String> {
    let answer = &message.json;
    let with_id = match answer.get("id") {
        Some(Value::Null) => false,
        Some(found) if found == id => true,
        _ => return Err(format!("the id is not {id}")),
    };
    if answer["jsonrpc"] != "2.0" || answer.get("error").is_some() == answer.get("result").is_some() {
        return Err("it is no answer of JSON-RPC".to_owned());
    }
    if let Some(error) = answer.get("error") {
        let code = error["code"].as_i64().ok_or("the error has no code")?;
        error["message"].as_str().filter(|text| !text.is_empty()).ok_or("the error has no message")?;
        // Over HTTP what is refused before it reaches the session has a status that says so.
        if !matches!(message.status, None | Some(200 | 400)) {
            return Err(format!("the status is {:?}", message.status));
        }
        return Ok(if with_id { Outcome::Error(code) } else { Outcome::ErrorWithoutId(code) });
    }
    if !with_id {
        return Err("a result without an id".to_owned());
    }
    match answer.pointer("/result/_meta/acp/error/code").and_then(Value::as_i64) {
        Some(code) if answer["result"]["isError"] == true => Ok(Outcome::Tool(code)),
        Some(_) => Err("an error that is not marked as one".to_owned()),
        None => Ok(Outcome::Result),
    }
}

impl Case {
    /// What is wrong with an answer, or with the lack of one.
    fn judge(&self, answer: Option<&Message>, expected: &[Outcome]) -> Result<(), String> {
        let found = answer.map_or(Ok(Outcome::Silence), |answer| outcome_of(answer, &self.id));
        if found.as_ref().is_ok_and(|found| expected.contains(found)) {
            return Ok(());
        }
        let answer = answer.map(|answer| answer.text.as_str()).unwrap_or_default();
        Err(format!("{}\n  expected {expected:?}, found {found:?}: {}", clip(self.source), clip(answer)))
    }
}

/// The toy, with an allocator that does not keep more the more cores there are.
fn toy(title: &str) -> Setup {
    Setup::toy(title).variable("MALLOC_ARENA_MAX", "2")
}

fn report(failures: &[String], of: usize) {
    assert!(failures.is_empty(), "{} of {of} messages fail:\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn there_are_enough_messages_and_each_is_there_once() {
    let cases = corpus();
    let distinct: BTreeSet<&str> = cases.iter().map(|case| case.source).collect();
    assert_eq!(distinct.len(), cases.len(), "a line is there twice");
    assert!(cases.len() >= 300, "{} messages", cases.len());
}

/// The judge is worth what it finds.
#[test]
fn wrong_answers_are_found() {
    let ping = case("result: request ping", 7);
    for wrong in [
        r#"{"jsonrpc":"2.0","id":8,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"isError":true,"_meta":{"acp":{"error":{"code":-32017}}}}}"#,
    ] {
        let answer = Message { text: wrong.to_owned(), json: serde_json::from_str(wrong).expect("JSON"), status: None };
        assert!(ping.judge(Some(&answer), &ping.stdio).is_err(), "{wrong}");
    }
    assert!(ping.judge(None, &ping.stdio).is_err());
    let refused = case("-32600: {\"jsonrpc\":\"2.0\",\"id\":$ID}", 7);
    for wrong in [
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#,
    ] {
        let answer = Message { text: wrong.to_owned(), json: serde_json::from_str(wrong).expect("JSON"), status: None };
        assert!(refused.judge(Some(&answer), &refused.stdio).is_err(), "{wrong}");
    }
}

/// What came until the server answered a ping that was sent after it all.
fn until_ping(server: &mut Server, what: &str) -> Vec<Message> {
    let id = server.begin("ping", json!({}));
    let mut came = Vec::new();
    loop {
        let message = server.next_within(PATIENCE);
        let message = message.unwrap_or_else(|| panic!("{}: no answer to a ping after {what}", server.title()));
        if message.answers(&id) {
            assert_eq!(message.json["result"], json!({}), "{}: after {what}", server.title());
            return came;
        }
        came.push(message);
    }
}

/// Sends a message, and a ping behind it; gives what comes besides the answer to the ping.
fn ask(server: &mut Server, message: &[u8], transport: Transport, expected: &[Outcome], what: &str) -> Vec<Message> {
    server.write(message);
    if transport == Transport::Stdio {
        server.write(b"\n");
    }
    let mut came = until_ping(server, what);
    // Requests run side by side, so that the answer may come after that to the ping.
    if came.is_empty() && !expected.contains(&Outcome::Silence) {
        came.extend(server.next_within(PATIENCE));
    }
    came
}

fn each_message_gets_its_answer(transport: Transport) {
    let title = format!("[S-12.1-01, S-14.1-01] hostile messages over {transport:?}");
    let mut server = toy(&title).over(transport).start();
    let before = Footprint::of(server.pid());
    let cases = corpus();
    let mut failures = Vec::new();
    for case in &cases {
        let expected = if transport == Transport::Http { &case.http } else { &case.stdio };
        let came = ask(&mut server, &case.bytes, transport, expected, case.source);
        if let [_, unexpected, ..] = &came[..] {
            failures.push(format!("{}\n  one answer too many: {}", clip(case.source), clip(&unexpected.text)));
        }
        failures.extend(case.judge(came.first(), expected).err());
    }
    report(&failures, cases.len());
    ends_as_it_began(server, before);
}

/// The end of a batch: the process is as small as before, it left no file, and said nothing that nobody asked for.
fn ends_as_it_began(server: Server, before: Option<Footprint>) {
    Footprint::came_back(before, server.pid(), server.title());
    ends_without_files(server);
}

fn ends_without_files(server: Server) {
    let files: Vec<_> = ["tmp", "os-tmp"].iter().flat_map(|folder| files_below(&server.root().join(folder))).collect();
    assert!(files.is_empty(), "{}: it left {files:?}", server.title());
    let title = server.title().to_owned();
    let unclaimed = server.finish_well().unclaimed;
    assert!(unclaimed.is_empty(), "{title}: {unclaimed:?}");
}

#[test]
fn each_message_gets_its_answer_over_stdio() {
    each_message_gets_its_answer(Transport::Stdio);
}

#[test]
fn each_message_gets_its_answer_over_http() {
    each_message_gets_its_answer(Transport::Http);
}

/// The same messages with no regard to where one write ends: all in one, byte by byte, and in pieces of all sizes.
#[test]
fn neither_split_nor_merged_lines_change_an_answer() {
    let cases: Vec<Case> = corpus().into_iter().filter(|case| case.bytes.len() < 20_000).collect();
    let mut stream = Vec::new();
    for case in &cases {
        stream.extend_from_slice(&case.bytes);
        stream.push(b'\n');
    }
    let sizes: [&dyn Fn(usize) -> usize; 3] = [&|_| usize::MAX, &|_| 1, &|place| 1 + place * 7919 % 97];
    for size in sizes {
        let mut server = toy("[S-3.2-01] hostile messages in other pieces").start();
        let (mut rest, mut place) = (&stream[..], 0);
        while !rest.is_empty() {
            let piece;
            (piece, rest) = rest.split_at(size(place).min(rest.len()));
            server.write(piece);
            place += 1;
        }
        let mut came = until_ping(&mut server, "the end");
        came.extend(server.finish_well().unclaimed);
        let mut by_id: BTreeMap<String, Vec<Message>> = BTreeMap::new();
        for message in came {
            by_id.entry(message.json["id"].to_string()).or_default().push(message);
        }
        let mut failures = Vec::new();
        let mut without_id = Vec::new();
        for case in &cases {
            match &case.stdio[..] {
                [outcome @ Outcome::ErrorWithoutId(_)] => without_id.push(outcome.clone()),
                // Whatever has no id can't be told from the errors above; there may not be more of them.
                [Outcome::Silence] if case.id.is_null() => {}
                expected => {
                    let answers = by_id.get_mut(&case.id.to_string());
                    let answer = answers.and_then(|answers| (!answers.is_empty()).then(|| answers.remove(0)));
                    failures.extend(case.judge(answer.as_ref(), expected).err());
                }
            }
        }
        report(&failures, cases.len());
        let refused = by_id.remove("null").unwrap_or_default();
        let mut refused: Vec<Outcome> =
            refused.iter().filter_map(|answer| outcome_of(answer, &Value::Null).ok()).collect();
        refused.sort();
        without_id.sort();
        assert_eq!(refused, without_id);
        by_id.retain(|_, answers| !answers.is_empty());
        assert!(by_id.is_empty(), "nobody asked for {by_id:?}");
    }
}

/// Before `initialize` only a ping has a result, and a message that is refused does not begin the session.
#[test]
fn nothing_of_it_begins_a_session_over_stdio() {
    let mut server = toy("[S-12.3-01] hostile messages before initialize").without_handshake().start();
    let cases: Vec<Case> = corpus().into_iter().filter(|case| case.bytes.len() < 20_000).collect();
    let mut failures = Vec::new();
    for case in &cases {
        let mut expected = case.stdio.clone();
        let message = serde_json::from_slice::<Value>(&case.bytes).unwrap_or_default();
        if !matches!(message["method"].as_str(), Some("ping" | "initialize")) {
            expected.retain(|outcome| !matches!(outcome, Outcome::Result | Outcome::Tool(_)));
            if *expected != [Outcome::Silence] {
                expected.push(Outcome::Error(-32600));
            }
        }
        let came = ask(&mut server, &case.bytes, Transport::Stdio, &expected, case.source);
        failures.extend(case.judge(came.first(), &expected).err());
    }
    report(&failures, cases.len());
    let hello = server.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "late", "version": "1"},
        }),
    );
    assert_eq!(hello.json["result"]["serverInfo"]["name"], "toy");
    server.hello = hello;
    server.call("peek", json!({}), Value::Null);
    server.finish_well();
}

const MIB: usize = 1024 * 1024;

/// A ping with so many bytes of text in its params.
fn long_ping(id: &Value, bytes: usize) -> Vec<u8> {
    let (before, after) = (format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"a":""#), r#""}}"#);
    let mut message = before.into_bytes();
    message.resize(message.len() + bytes, b'x');
    message.extend_from_slice(after.as_bytes());
    message
}

const TOO_MANY_VALUES_IN_AN_ANSWER: &str = "1 MiB of values in an answer that nobody asked for";

/// What a long message is, what it gets, and how it is made for an id.
type Long = (&'static str, Outcome, Box<dyn Fn(&Value) -> Vec<u8>>);

/// Messages near the bound of 64 MiB and beyond, and what each gets. They are made one after the other, for the sake of our
/// own memory.
fn long_messages() -> Vec<Long> {
    let list = |id: &Value, before: &str, item: &str, count: usize| {
        let mut message = format!(r#"{{"jsonrpc":"2.0","id":{id},{before}"a":[1"#).into_bytes();
        message.extend_from_slice(item.repeat(count).as_bytes());
        message.extend_from_slice(b"]}}");
        message
    };
    vec![
        ("60 MiB of text", Outcome::Result, Box::new(|id| long_ping(id, 60 * MIB))),
        (
            "64 MiB, all that is allowed",
            Outcome::Result,
            Box::new(|id| {
                let rest = long_ping(id, 0).len();
                long_ping(id, 64 * MIB - rest)
            }),
        ),
        (
            "one byte more",
            Outcome::ErrorWithoutId(-32600),
            Box::new(|id| {
                let rest = long_ping(id, 0).len();
                long_ping(id, 64 * MIB - rest + 1)
            }),
        ),
        ("70 MiB of text", Outcome::ErrorWithoutId(-32600), Box::new(|id| long_ping(id, 70 * MIB))),
        ("60 MiB of garbage", Outcome::ErrorWithoutId(-32700), Box::new(|_| vec![b'x'; 60 * MIB])),
        ("60 MiB of brackets", Outcome::ErrorWithoutId(-32700), Box::new(|_| vec![b'['; 60 * MIB])),
        ("60 MiB of bytes that are no text", Outcome::ErrorWithoutId(-32700), Box::new(|_| vec![0xff; 60 * MIB])),
        (
            "60 MiB of values",
            Outcome::Error(-32600),
            Box::new(move |id| list(id, r#""method":"ping","params":{"#, ",1", 30 * MIB)),
        ),
        (
            "200,000 values",
            Outcome::Result,
            Box::new(move |id| list(id, r#""method":"ping","params":{"#, ",1", 199_990)),
        ),
        (
            "200,001 values",
            Outcome::Error(-32600),
            Box::new(move |id| list(id, r#""method":"ping","params":{"#, ",1", 200_001)),
        ),
        (TOO_MANY_VALUES_IN_AN_ANSWER, Outcome::Silence, Box::new(move |id| list(id, r#""result":{"#, ",1", MIB / 2))),
        (
            "60 MiB of text in an answer that nobody asked for",
            Outcome::Silence,
            Box::new(|id| {
                let text = String::from_utf8(long_ping(id, 60 * MIB)).expect("text");
                text.replace(r#""method":"ping","params""#, r#""result""#).into_bytes()
            }),
        ),
    ]
}

#[test]
fn long_lines_are_answered_and_given_back() {
    let mut server = toy("[S-12.1-01, S-14.1-01] long lines").start();
    let before = Footprint::of(server.pid());
    for (what, expected, make) in long_messages() {
        let id = json!(what);
        let came = ask(&mut server, &make(&id), Transport::Stdio, std::slice::from_ref(&expected), what);
        let found = came.first().map_or(Ok(Outcome::Silence), |message| outcome_of(message, &id));
        assert_eq!(found, Ok(expected), "{what}");
        Footprint::came_back(before, server.pid(), what);
    }
    ends_as_it_began(server, before);
}

/// What was begun and not ended is as good as a message that is cut off.
#[test]
fn the_end_of_input_in_the_middle_of_a_message() {
    let long = long_ping(&json!(1), 30 * MIB);
    let cut: [(&str, &[u8]); 9] = [
        ("a bracket", b"{"),
        ("in a key", b"{\"jsonr"),
        ("in an escape", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\\u00"),
        ("in a character", b"{\"jsonrpc\":\"2.0\",\"id\":\"\xf0\x9f"),
        ("in a number", b"{\"jsonrpc\":\"2.0\",\"id\":12"),
        ("before the last bracket", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\""),
        ("NUL", b"\0"),
        ("deep", &[b'['; 1000]),
        ("long", &long[..long.len() - 1]),
    ];
    for (what, bytes) in cut {
        let mut server = toy(&format!("[S-3.3-02] the end of input: {what}")).start();
        server.write(bytes);
        let unclaimed = server.finish_well().unclaimed;
        let found: Vec<_> = unclaimed.iter().map(|message| outcome_of(message, &json!(1))).collect();
        assert_eq!(found, [Ok(Outcome::ErrorWithoutId(-32700))], "{what}");
    }
    for nothing in [&b""[..], b"\n\n", b"  ", b"\r\n\t\r"] {
        let mut server = toy("[S-3.3-02] the end of input after nothing").start();
        server.write(nothing);
        let unclaimed = server.finish_well().unclaimed;
        assert!(unclaimed.is_empty(), "{nothing:?}: {unclaimed:?}");
    }
}

// HTTP as bytes.

const HTTP_CORPUS: &str = include_str!("../../vectors/hostile_http.txt");

/// The bytes of a request: a good one with changes.
fn changed(changes: &str, session: &str) -> Vec<u8> {
    let mut line = "POST /mcp HTTP/1.1".to_owned();
    let mut headers: Vec<String> = vec![
        "Host: localhost".to_owned(),
        "Content-Type: application/json".to_owned(),
        "Accept: application/json, text/event-stream".to_owned(),
        format!("Mcp-Session-Id: {session}"),
        "Content-Length: $LENGTH".to_owned(),
        "Connection: close".to_owned(),
    ];
    let mut body = br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#.to_vec();
    let named =
        |header: &String, name: &str| header.split(':').next().is_some_and(|known| known.eq_ignore_ascii_case(name));
    let text = |text: &str| text.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t");
    for change in changes.split(" && ") {
        match change.split_once(' ').unwrap_or((change, "")) {
            ("raw", request) => return expand(&text(request).replace("$SESSION", session)),
            ("=", other) => line = text(other),
            ("-", name) => headers.retain(|header| !named(header, name)),
            ("+", more) => headers.push(text(more)),
            ("body", other) => body = expand(&text(other)),
            (name, _) => {
                headers.retain(|header| !named(header, name.trim_end_matches(':')));
                headers.push(text(change));
            }
        }
    }
    let head = format!("{line}\r\n{}\r\n\r\n", headers.join("\r\n"));
    let mut request = expand(&head.replace("$LENGTH", &body.len().to_string()));
    request.extend(body);
    request
}

#[test]
fn requests_that_are_no_good_http_are_refused() {
    let server = toy("[S-3.2-01, S-14.1-01] requests that are no good HTTP").over(Transport::Http).start();
    let mut alive = Wire::to(&server);
    let session = alive.begin().expect("a session");
    let before = Footprint::of(server.pid());
    let lines: Vec<&str> = HTTP_CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut failures = Vec::new();
    for line in &lines {
        let (expected, changes) = line.split_once(": ").expect("STATUS: CHANGES");
        let mut wire = Wire::to(&server);
        wire.write(&changed(changes, &session));
        let found = wire.reply().map_or("closed".to_owned(), |reply| reply.status.to_string());
        if !expected.split('|').any(|status| status == found) {
            failures.push(format!("{}\n  found {found}", clip(line)));
        }
        let reply = alive.post(&session, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        assert_eq!(reply.answer().map(|answer| answer["result"].clone()), Some(json!({})), "after {}", clip(line));
    }
    report(&failures, lines.len());
    assert!(alive.end(&session));
    drop(alive);
    ends_as_it_began(server, before);
}

/// Bodies in chunks that end anywhere are the same messages.
#[test]
fn chunks_do_not_change_an_answer() {
    let server = toy("[S-3.2-01] hostile messages in chunks").over(Transport::Http).start();
    let mut wire = Wire::to(&server);
    let session = wire.begin().expect("a session");
    let cases: Vec<Case> = corpus().into_iter().filter(|case| case.bytes.len() < 20_000).collect();
    let mut failures = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        let mut request = head(&session, &[("Transfer-Encoding", "chunked")]);
        for chunk in case.bytes.chunks(1 + place % 7) {
            request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            request.extend_from_slice(chunk);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
        wire.write(&request);
        let reply = wire.reply().unwrap_or_else(|error| panic!("{}: {error}", case.source));
        failures.extend(case.judge(reply.message().as_ref(), &case.http).err());
    }
    report(&failures, cases.len());
    server.finish_well();
}

/// Without a session nothing is done and no session begins, however often it is tried.
#[test]
fn nothing_of_it_begins_a_session_over_http() {
    let server = toy("[S-12.3-01] hostile messages without a session").over(Transport::Http).start();
    let before = Footprint::of(server.pid());
    let mut wire = Wire::to(&server);
    let cases: Vec<Case> = corpus().into_iter().filter(|case| case.bytes.len() < 20_000).collect();
    for case in cases.iter().chain(&cases) {
        let reply = wire.post("", &case.bytes);
        assert!(reply.header("mcp-session-id").is_none(), "a session began: {}", case.source);
        assert!((400..500).contains(&reply.status), "{}: {reply:?}", case.source);
    }
    let session = wire.begin().expect("a session");
    assert!(wire.end(&session));
    drop(wire);
    ends_as_it_began(server, before);
}

#[test]
fn many_requests_in_one_write_are_answered_in_their_order() {
    let server = toy("[S-3.2-01] pipelined requests").over(Transport::Http).start();
    let mut wire = Wire::to(&server);
    let session = wire.begin().expect("a session");
    let mut requests = Vec::new();
    for id in 0..100 {
        let body = match id % 10 {
            3 => "not json".to_owned(),
            7 => json!({"jsonrpc": "2.0", "method": "notifications/nope"}).to_string(),
            _ => json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string(),
        };
        requests.extend(post(&session, body.as_bytes()));
    }
    wire.write(&requests);
    for id in 0..100 {
        let reply = wire.reply().unwrap_or_else(|error| panic!("request {id}: {error}"));
        match id % 10 {
            3 => assert_eq!(reply.status, 400, "request {id}"),
            7 => assert_eq!(reply.status, 202, "request {id}"),
            _ => assert_eq!(reply.answer().map(|answer| answer["id"].clone()), Some(json!(id))),
        }
    }
    server.finish_well();
}

/// Beginnings of requests, none of which goes on.
fn beginnings(session: &str) -> Vec<Vec<u8>> {
    let whole = post(session, br#"{"jsonrpc":"2.0","id":"half","method":"ping"}"#);
    let chunked = head(session, &[("Transfer-Encoding", "chunked")]);
    let head_only = head(session, &[("Content-Length", "1000")]);
    vec![
        Vec::new(),
        b"\r\n\r\n".to_vec(),
        b"POST /mcp HTTP/1.1\r\nHost: localh".to_vec(),
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n".to_vec(),
        head_only.clone(),
        whole[..whole.len() - 1].to_vec(),
        [&head_only[..], br#"{"jsonrpc":"2.0","id":"half""#].concat(),
        chunked.clone(),
        [&chunked[..], b"5\r\n{\"js"].concat(),
        [&chunked[..], b"2\r\n{}\r\n"].concat(),
        [&whole[..], &whole[..20]].concat(),
    ]
}

/// Clients that stop in the middle hold up nobody, whether they stay or go.
#[test]
fn half_open_connections_hold_up_nobody() {
    let server = toy("[S-14.1-01] half-open connections").over(Transport::Http).start();
    let before = Footprint::of(server.pid());
    let mut alive = Wire::to(&server);
    let session = alive.begin().expect("a session");
    let mut ping = |what: &str| {
        let reply = alive.post(&session, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        assert_eq!(reply.answer().map(|answer| answer["result"].clone()), Some(json!({})), "{what}");
    };
    let mut open = Vec::new();
    for beginning in beginnings(&session) {
        for _ in 0..5 {
            let mut wire = Wire::to(&server);
            wire.write(&beginning);
            ping(&String::from_utf8_lossy(&beginning));
            open.push(wire);
        }
        // One that goes at once, and one that only says that it has ended.
        let mut gone = Wire::to(&server);
        gone.write(&beginning);
        drop(gone);
        let mut ended = Wire::to(&server);
        ended.write(&beginning);
        ended.half_close();
        ping("after the end of a connection");
        assert!(ended.is_closed_within(PATIENCE), "{}", String::from_utf8_lossy(&beginning));
    }
    // A head that comes byte by byte is read as long as it goes on.
    let whole = post(&session, br#"{"jsonrpc":"2.0","id":"slow","method":"ping"}"#);
    let mut slow: Vec<Wire> = (0..5).map(|_| Wire::to(&server)).collect();
    for byte in whole {
        slow.iter_mut().for_each(|wire| wire.write(&[byte]));
        ping("while others are slow");
    }
    for mut wire in slow {
        // Its id is in use by the others, so that it may be refused.
        let reply = wire.reply().expect("a reply");
        assert!(matches!(reply.status, 200 | 400), "{reply:?}");
    }
    drop(open);
    assert!(alive.end(&session));
    drop(alive);
    ends_as_it_began(server, before);
}

/// What does not become a request in time is closed by the server, so that half-open connections can't pile up.
#[test]
fn connections_without_a_first_request_are_closed() {
    let server = toy("[S-14.1-01] connections without a request").over(Transport::Http).start();
    let mut beginnings = beginnings("x")[..4].to_vec();
    beginnings.push(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec());
    let mut open: Vec<Wire> = beginnings
        .iter()
        .map(|beginning| {
            let mut wire = Wire::to(&server);
            wire.write(beginning);
            wire
        })
        .collect();
    for wire in &mut open {
        assert!(wire.is_closed_within(PATIENCE));
    }
    server.finish_well();
}

/// Clients that leave in the middle of an answer leave nothing behind.
#[test]
fn clients_that_leave_during_an_answer_leave_nothing() {
    let server = toy("[S-14.1-01] clients that leave").over(Transport::Http).start();
    let before = Footprint::of(server.pid());
    for round in 0..20 {
        let mut wire = Wire::to(&server);
        let session = wire.begin().expect("a session");
        let rows: Vec<Value> = (0..2_000).map(|row| json!({"row": row, "text": "x".repeat(100)})).collect();
        let arguments = match round % 2 {
            0 => json!({"name": "raw", "arguments": {"rows_json": json!(rows).to_string()}, "_meta": {"acp": {}}}),
            _ => json!({"name": "slow", "arguments": {"seconds": 60}}),
        };
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments});
        let mut caller = Wire::to(&server);
        caller.write(&post(&session, call.to_string().as_bytes()));
        drop(caller);
        // The session is still there, and the call too, unless it is done.
        let ping = wire.post(&session, br#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
        assert_eq!(ping.status, 200, "{ping:?}");
        assert!(wire.end(&session));
    }
    ends_as_it_began(server, before);
}

#[test]
fn long_bodies_are_answered_and_given_back() {
    let server = toy("[S-12.1-01, S-14.1-01] long bodies").over(Transport::Http).start();
    let before = Footprint::of(server.pid());
    for (what, expected, make) in long_messages() {
        let id = json!(what);
        // What is too large to be read is refused where there is a status to say so.
        let refused = what == TOO_MANY_VALUES_IN_AN_ANSWER;
        let expected = if refused { Outcome::ErrorWithoutId(-32600) } else { expected };
        let mut wire = Wire::to(&server);
        let session = wire.begin().expect("a session");
        let message = make(&id);
        let reply = wire.try_post(&session, &message);
        match (reply, message.len() > 64 * MIB) {
            // The server answers before it has read everything, and the answer may be lost when it closes.
            (Err(_), true) => {}
            (Ok(reply), true) => assert_eq!(reply.status, 413, "{what}"),
            (Err(error), false) => panic!("{what}: {error}"),
            (Ok(reply), false) => {
                let message = reply.message();
                let found = message.map_or(Ok(Outcome::Silence), |message| outcome_of(&message, &id));
                assert_eq!(found, Ok(expected), "{what}: {}", clip(&reply.text()));
            }
        }
        let mut wire = Wire::to(&server);
        assert!(wire.end(&session), "{what}");
        drop(wire);
    }
    ends_as_it_began(server, before);
}

/// As many sessions as the server has room for, a few more, and all of them gone again.
#[test]
fn sessions_are_bounded() {
    const MOST: usize = 1000;
    let server = toy("[S-3.2-01, S-14.1-01] as many sessions as there may be").over(Transport::Http).start();
    let before = Footprint::of(server.pid());
    let mut wire = Wire::to(&server);
    // The harness has one.
    let sessions: Vec<String> = (1..MOST).map(|number| begin(&mut wire, number)).collect();
    for _ in 0..10 {
        let refused = wire.begin().expect_err("a session too many");
        let code = refused.answer().map(|answer| answer["error"]["code"].clone());
        assert_eq!((refused.status, code), (503, Some(json!(-32603))), "{refused:?}");
    }
    for session in sessions.iter().step_by(97) {
        let reply = wire.post(session, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    for session in &sessions {
        assert!(wire.end(session));
    }
    let again = wire.begin().expect("room for a session");
    assert!(wire.end(&again));
    drop(wire);
    // Their memory serves the next sessions; between it lies what goes on, so that the system does not have all of it back.
    Footprint::came_back_within(before, 160, server.pid(), server.title());
    ends_without_files(server);
}

/// Sessions that end make room for others: many of them, one after the other, take no more than a few.
#[test]
fn sessions_that_ended_take_no_memory() {
    let server = toy("[S-14.1-01] sessions come and go").over(Transport::Http).start();
    let mut wire = Wire::to(&server);
    let mut round = || {
        let sessions: Vec<String> = (0..100).map(|number| begin(&mut wire, number)).collect();
        for session in &sessions {
            assert!(wire.end(session));
        }
    };
    (0..3).for_each(|_| round());
    let before = Footprint::of(server.pid());
    (0..17).for_each(|_| round());
    Footprint::came_back_within(before, 16, server.pid(), server.title());
    ends_without_files(server);
}

fn begin(wire: &mut Wire, number: usize) -> String {
    wire.begin().unwrap_or_else(|reply| panic!("session {number}: {reply:?}"))
}
