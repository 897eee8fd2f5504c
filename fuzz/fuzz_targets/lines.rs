//! The stdio transport: whatever the pieces in which lines arrive, each request is handed on once or refused once, every
//! answer leaves whole and once, and nothing else is written.
#![no_main]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use acp_core::fuzzing;
use acp_fuzz::{Dice, Fields, Message, depth, is_json, mutate};
use futures::FutureExt;
use futures::future::BoxFuture;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, CustomRequest, CustomResult, ErrorCode, ErrorData, InitializeResult,
    JsonRpcMessage, RequestId, ServerCapabilities, ServerRequest, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// How sessions begin. Without these a fuzzer would take long to find what lies behind them.
const BEGINNINGS: [&str; 4] = [
    "",
    concat!(
        r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"#,
        r#""clientInfo":{"name":"f","version":"1"}}}"#,
        "\n",
    ),
    concat!(
        r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"#,
        r#""clientInfo":{"name":"f","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
    ),
    concat!(
        r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"#,
        r#""clientInfo":{"name":"f","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
    ),
];

fuzz_target!(|input: &[u8]| {
    let beginning = BEGINNINGS[input.first().map_or(0, |byte| usize::from(byte % 4))];
    let (mut dice, lines) = Dice::take(input);
    let text = [beginning.as_bytes(), lines].concat();
    let newest = *dice.pick(&REVISIONS);
    // What the session does is the same in both runs; how its lines arrive and leave is not.
    let decisions = dice.fork();
    let lines = text.split_inclusive(|byte| *byte == b'\n').flat_map(|line| {
        let pieces = dice.cut(line);
        pieces.into_iter().enumerate().map(|(place, piece)| (place == 0, piece)).collect::<Vec<_>>()
    });
    let lines = lines.collect();
    let log = play(&mut dice, decisions.clone(), newest, lines);
    let (messages, answers) = essence(&log);
    Account::new(log, newest).settle(&text);

    let pieces = dice.cut(&text).into_iter().map(|piece| (false, piece)).collect();
    let log = play(&mut dice, decisions, newest, pieces);
    assert_eq!(essence(&log), (messages, answers), "it depends on the pieces");
});

/// The messages that the session got, and every line that was written.
fn essence(log: &[Event]) -> (Vec<String>, Vec<String>) {
    let messages = log.iter().filter(|event| event.is_message()).map(|event| format!("{event:?}")).collect();
    let line = |event: &Event| match event {
        Event::Wrote(Value::Array(answers)) => {
            let mut answers: Vec<String> = answers.iter().map(Value::to_string).collect();
            answers.sort();
            Some(answers.join(","))
        }
        Event::Wrote(line) => Some(line.to_string()),
        _ => None,
    };
    let mut lines: Vec<String> = log.iter().filter_map(line).collect();
    lines.sort();
    (messages, lines)
}

const WORDS: [&str; 30] = [
    "jsonrpc",
    "2.0",
    "id",
    "i",
    "method",
    "params",
    "result",
    "error",
    "code",
    "message",
    "initialize",
    "ping",
    "tools/call",
    "tools/list",
    "acp/configure",
    "server/discover",
    "notifications/initialized",
    "notifications/cancelled",
    "x/y",
    "requestId",
    "name",
    "arguments",
    "_meta",
    "acp",
    "protocolVersion",
    "2025-03-26",
    "2025-11-25",
    "capabilities",
    "clientInfo",
    "version",
];

fuzz_mutator!(|input: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut dice = Dice(seed.into());
    let (head, text) = input[..size].split_at(size.min(2));
    let mut lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let place = dice.roll(lines.len());
    match (dice.roll(8), serde_json::from_slice::<Value>(&lines[place])) {
        (0 | 1, _) => return fuzzer_mutate(input, size, max_size),
        (2, _) => _ = lines.remove(place),
        (3, _) => lines.insert(place, lines[dice.roll(lines.len())].clone()),
        (4, _) => {
            let end = (place + 1 + dice.roll(4)).min(lines.len());
            let batch = lines.splice(place..end, []).collect::<Vec<_>>().join(&b',');
            lines.insert(place, [b"[", batch.as_slice(), b"]"].concat());
        }
        (_, Ok(mut message)) => {
            mutate(&mut message, &WORDS, &mut dice);
            lines[place] = message.to_string().into_bytes();
        }
        _ => return fuzzer_mutate(input, size, max_size),
    }
    let text = [head, lines.join(&b'\n').as_slice()].concat();
    if text.len() > max_size {
        return size;
    }
    input[..text.len()].copy_from_slice(&text);
    text.len()
});

/// What happened, in order.
#[derive(Debug)]
enum Event {
    /// The first piece of a line was read, and everything before it.
    Line,
    /// A request that the session got, with the number that its answer carries.
    Request { id: RequestId, method: String, number: usize },
    /// A notification that the session got, and the request that it cancels.
    Notification { cancelled: Option<RequestId> },
    /// An answer that the session got.
    Answer,
    /// The session agreed on a revision.
    Agreed { batches: bool },
    /// The session began to answer the request of this number.
    Answered(usize),
    /// A line was written.
    Wrote(Value),
    /// There are no more lines to read.
    End,
}

impl Event {
    /// Whether the session got a message.
    fn is_message(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Notification { .. } | Self::Answer)
    }
}

type Log = Arc<Mutex<Vec<Event>>>;

/// Delivers its pieces one by one, with pauses. Those that begin a line are noted.
struct Reader {
    pieces: VecDeque<(bool, Vec<u8>)>,
    log: Log,
    dice: Dice,
}

impl AsyncRead for Reader {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.dice.roll(4) == 0 {
            return Poll::Pending;
        }
        if let Some((begins_line, piece)) = self.pieces.pop_front() {
            if begins_line {
                self.log.lock().expect("one thread").push(Event::Line);
            }
            into.put_slice(&piece);
        }
        Poll::Ready(Ok(()))
    }
}

/// Takes a part of what it is given, with pauses, and logs each line.
struct Writer {
    line: Vec<u8>,
    log: Log,
    dice: Dice,
}

impl AsyncWrite for Writer {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, text: &[u8]) -> Poll<io::Result<usize>> {
        let taken = match self.dice.roll(8) {
            0 => return Poll::Pending,
            1 => 1 + self.dice.roll(text.len()),
            _ => text.len(),
        };
        for byte in &text[..taken] {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    let line = serde_json::from_slice(&line).expect("a line is a message");
                    self.log.lock().expect("one thread").push(Event::Wrote(line));
                }
                _ => self.line.push(*byte),
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.dice.roll(8) == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        assert!(self.line.is_empty() || std::thread::panicking(), "half a line was written");
    }
}

/// What MCP's library does with a transport: it drops a read whenever something else happens, answers in any order, and
/// never answers what was cancelled.
struct Session {
    decisions: Dice,
    dice: Dice,
    log: Log,
    /// Requests to answer.
    open: Vec<(usize, RequestId)>,
    numbers: usize,
    sending: Vec<BoxFuture<'static, io::Result<()>>>,
}

/// More turns than any input of a fuzzer takes.
const MANY_TURNS: usize = 1_000_000;

fn play(dice: &mut Dice, decisions: Dice, newest: &str, pieces: Vec<(bool, &[u8])>) -> Vec<Event> {
    let log = Log::default();
    let pieces = pieces.into_iter().map(|(begins_line, piece)| (begins_line, piece.to_vec())).collect();
    let reader = Reader { pieces, log: log.clone(), dice: dice.fork() };
    let writer = Writer { line: Vec::new(), log: log.clone(), dice: dice.fork() };
    let mut transport = fuzzing::lines(reader, writer, newest);
    let (open, sending) = (Vec::new(), Vec::new());
    let mut session = Session { decisions, dice: dice.fork(), log: log.clone(), open, numbers: 0, sending };
    let mut turns = 0..MANY_TURNS;
    loop {
        turns.next().expect("it hangs");
        session.send_some();
        match transport.receive().now_or_never() {
            None => {}
            Some(None) => break,
            Some(Some(message)) => session.take(message, &mut transport),
        }
    }
    session.note(Event::End);
    while !session.open.is_empty() {
        session.answer_one(&mut transport);
    }
    while !session.sending.is_empty() {
        turns.next().expect("an answer hangs");
        session.send_some();
    }
    while transport.close().now_or_never().is_none() {
        turns.next().expect("closing hangs");
    }
    drop(transport);
    std::mem::take(&mut *log.lock().expect("one thread"))
}

impl Session {
    fn note(&self, event: Event) {
        self.log.lock().expect("one thread").push(event);
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
        transport: &mut impl Transport<RoleServer, Error = io::Error>,
    ) {
        self.sending.push(transport.send(message).boxed());
    }

    fn send_some(&mut self) {
        let dice = &mut self.dice;
        self.sending.retain_mut(|sending| match dice.roll(2) {
            0 => true,
            _ => sending.now_or_never().map(|sent| sent.expect("a pipe that is open")).is_none(),
        });
    }

    fn take(
        &mut self,
        message: RxJsonRpcMessage<RoleServer>,
        transport: &mut impl Transport<RoleServer, Error = io::Error>,
    ) {
        let text = serde_json::to_value(&message).expect("a message");
        let method = text["method"].as_str().unwrap_or_default().to_owned();
        match message {
            JsonRpcMessage::Request(request) => {
                let number = self.numbers;
                self.numbers += 1;
                self.note(Event::Request { id: request.id.clone(), method: method.clone(), number });
                match request.request {
                    ClientRequest::InitializeRequest(initialize) => {
                        let version = initialize.params.protocol_version;
                        self.note(Event::Agreed { batches: version.as_str() == "2025-03-26" });
                        self.note(Event::Answered(number));
                        let result = InitializeResult::new(ServerCapabilities::default())
                            .with_protocol_version(version)
                            .with_instructions(number.to_string());
                        let result = ServerResult::InitializeResult(result);
                        self.send(JsonRpcMessage::response(result, request.id), transport);
                    }
                    _ => self.open.push((number, request.id)),
                }
                if method == "acp/configure" {
                    for _ in 0..self.dice.roll(20) {
                        assert!(transport.receive().now_or_never().is_none(), "it went on before the configuration");
                    }
                    let last = self.open.len() - 1;
                    self.answer(last, transport);
                }
            }
            JsonRpcMessage::Notification(notification) => {
                let cancelled = match notification.notification {
                    ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id,
                    _ => None,
                };
                self.open.retain(|(_, id)| Some(id) != cancelled.as_ref());
                self.note(Event::Notification { cancelled });
            }
            _ => self.note(Event::Answer),
        }
        while self.decisions.roll(3) == 0 && !self.open.is_empty() {
            self.answer_one(transport);
        }
        if self.decisions.roll(8) == 0 {
            // A request of the server's own may have the id of one of the client.
            let id = self.open.first().map_or(RequestId::Number(0), |(_, id)| id.clone());
            let request = ServerRequest::CustomRequest(CustomRequest::new("acp/read_table", None));
            self.send(JsonRpcMessage::request(request, id), transport);
        }
    }

    fn answer_one(&mut self, transport: &mut impl Transport<RoleServer, Error = io::Error>) {
        let place = self.decisions.roll(self.open.len());
        self.answer(place, transport);
    }

    fn answer(&mut self, place: usize, transport: &mut impl Transport<RoleServer, Error = io::Error>) {
        let (number, id) = self.open.swap_remove(place);
        self.note(Event::Answered(number));
        let message = match self.decisions.roll(2) {
            0 => JsonRpcMessage::response(ServerResult::CustomResult(CustomResult(json!({"number": number}))), id),
            _ => JsonRpcMessage::error(ErrorData::new(ErrorCode(1), "refused", Some(json!(number))), Some(id)),
        };
        self.send(message, transport);
    }
}

/// The number of the request that a line answers.
fn number_of(line: &Value) -> Option<usize> {
    let instructions = || line["result"]["instructions"].as_str()?.parse().ok();
    line["result"]["number"]
        .as_u64()
        .or_else(|| line["error"]["data"].as_u64().filter(|_| line["error"]["code"] == 1))
        .map(|number| number as usize)
        .or_else(instructions)
}

/// What became of a message.
enum Fate {
    /// It was refused, with this id, and with this code where only one is right.
    Refused(Value, Option<i64>),
    /// The session got it, a request of this number.
    HandedOn(usize),
    /// Nobody waits for anything.
    Done,
}

/// Goes through the lines and through what happened, and finds each in the other.
struct Account {
    log: VecDeque<Event>,
    sessionless: bool,
    begun: bool,
    batches: bool,
    /// Requests without an answer.
    open: HashMap<RequestId, usize>,
    /// Which requests were answered, by number, and how often their answers were written.
    answers: BTreeMap<usize, usize>,
    /// What each batch should be answered, and what was written together.
    deserved: Vec<Vec<String>>,
    together: Vec<Vec<String>>,
}

impl Account {
    fn new(log: Vec<Event>, newest: &str) -> Self {
        let answered = |event: &Event| match event {
            Event::Answered(number) => Some((*number, 0)),
            _ => None,
        };
        Self {
            answers: log.iter().filter_map(answered).collect(),
            log: log.into(),
            sessionless: newest == "2026-07-28",
            begun: false,
            batches: false,
            open: HashMap::new(),
            deserved: Vec::new(),
            together: Vec::new(),
        }
    }

    fn settle(mut self, text: &[u8]) {
        for line in text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
            assert!(matches!(self.advance(), Some(Event::Line)), "{:?}", self.log);
            self.take();
            if line.is_empty() {
                continue;
            }
            let list = std::str::from_utf8(line)
                .ok()
                .filter(|line| self.batches && line.starts_with('[') && is_json(line) && depth(line) <= 127)
                .map(|line| serde_json::from_str::<Vec<&RawValue>>(line).expect("a list"));
            match list {
                Some(messages) if (1..=1000).contains(&messages.len()) => self.batch(messages),
                Some(_) => self.refusal(&Value::Null, Some(-32600)),
                None => {
                    if let Fate::Refused(id, code) = self.message(line, false) {
                        self.refusal(&id, code);
                    }
                }
            }
        }
        assert!(matches!(self.advance(), Some(Event::End)), "{:?}", self.log);
        self.take();
        assert!(self.advance().is_none(), "{:?}", self.log);
        for (number, times) in &self.answers {
            assert_eq!(*times, 1, "the answer to request {number}");
        }
        self.deserved.retain(|batch| !batch.is_empty());
        self.deserved.sort();
        self.together.sort();
        assert_eq!(self.together, self.deserved);
    }

    fn batch(&mut self, messages: Vec<&RawValue>) {
        let mut deserved = Vec::new();
        for message in messages {
            deserved.extend(match self.message(message.get().as_bytes(), true) {
                Fate::Refused(id, _) => Some(format!("refused {id}")),
                Fate::HandedOn(number) => self.answers.contains_key(&number).then(|| format!("answer {number}")),
                Fate::Done => None,
            });
        }
        deserved.sort();
        self.deserved.push(deserved);
    }

    fn message(&mut self, text: &[u8], in_batch: bool) -> Fate {
        let (wanted, asked) = match Message::of(text) {
            Message::NotJson => return Fate::Refused(Value::Null, Some(-32700)),
            Message::Invalid => return Fate::Refused(Value::Null, Some(-32600)),
            Message::Wrong(id) => {
                return Fate::Refused(id.map_or(Value::Null, RequestId::into_json_value), Some(-32600));
            }
            Message::Notification => {
                if matches!(self.advance(), Some(Event::Notification { .. })) {
                    self.take();
                }
                return Fate::Done;
            }
            Message::Answer => {
                if matches!(self.advance(), Some(Event::Answer)) {
                    self.take();
                }
                return Fate::Done;
            }
            Message::Request(id, method) => (id, method),
        };
        let next = self.advance();
        let handed_on = match next {
            Some(Event::Request { id, method, number }) if *id == wanted && *method == asked => Some(*number),
            _ => None,
        };
        let is_open = self.open.contains_key(&wanted);
        let Some(number) = handed_on else {
            let nothing_else =
                std::str::from_utf8(text).ok().and_then(Fields::of).is_some_and(|fields| fields.0.len() == 3);
            assert!(is_open || asked != "ping" || !nothing_else, "a good request was refused");
            return Fate::Refused(wanted.into_json_value(), None);
        };
        assert!(!is_open, "two requests with one id are open");
        let early = ["initialize", "ping", "server/discover"].contains(&asked.as_str());
        assert!(self.begun || self.sessionless || early, "{asked} before initialize");
        assert!(!in_batch || asked != "initialize", "initialize in a batch");
        self.begun |= asked == "initialize";
        self.take();
        Fate::HandedOn(number)
    }

    fn refusal(&mut self, id: &Value, code: Option<i64>) {
        self.advance();
        let Some(Event::Wrote(line)) = self.log.pop_front() else { panic!("no refusal for {id}: {:?}", self.log) };
        assert_eq!(line["id"], *id);
        let found = line["error"]["code"].as_i64().expect("a code");
        assert!(code.is_none_or(|code| code == found) && (-32700..=-32600).contains(&found), "{found}");
    }

    /// The next message that the session got, the next refusal or the next line.
    fn advance(&mut self) -> Option<&Event> {
        while let Some(event) = self.log.front() {
            match event {
                Event::Answered(number) => self.open.retain(|_, open| open != number),
                Event::Agreed { batches } => self.batches = *batches,
                Event::Wrote(Value::Array(lines)) => {
                    let mut batch = Vec::new();
                    for line in lines {
                        assert_eq!(line["jsonrpc"], "2.0");
                        batch.push(match number_of(line) {
                            Some(number) => {
                                *self.answers.get_mut(&number).expect("it was answered") += 1;
                                format!("answer {number}")
                            }
                            None => format!("refused {}", line["id"]),
                        });
                    }
                    batch.sort();
                    self.together.push(batch);
                }
                Event::Wrote(line) => {
                    assert_eq!(line["jsonrpc"], "2.0");
                    match number_of(line) {
                        Some(number) => *self.answers.get_mut(&number).expect("it was answered") += 1,
                        None if line["method"] == "acp/read_table" => {}
                        None => break,
                    }
                }
                Event::Request { .. } | Event::Notification { .. } | Event::Answer | Event::Line | Event::End => break,
            }
            self.log.pop_front();
        }
        self.log.front()
    }

    /// Takes what `advance` found.
    fn take(&mut self) {
        match self.log.pop_front() {
            Some(Event::Request { id, number, .. }) => _ = self.open.insert(id, number),
            Some(Event::Notification { cancelled: Some(id), .. }) => _ = self.open.remove(&id),
            _ => {}
        }
    }
}
