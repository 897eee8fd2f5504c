//! A server under test: a process that speaks JSON-RPC over stdin and stdout, or over Streamable HTTP.
//!
//! A test says over what with [`Setup::over`]; all the rest is the same. Over HTTP each message that is sent is a POST of
//! its own, `unclaimed` messages can come on any stream, and [`Server::another`] is a further session of the same process.
//! Everything the server writes is kept, since the rules about secrets and about stdout hold for all of it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderName};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Client, Reply};
use crate::process::{Output, Process, Started};

/// How long anything may take. Builds beside a test slow it down.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A client that knows ACP and keeps the data.
pub(crate) fn acp_client() -> Value {
    json!({"version": "1.0", "stores_system_data": true})
}

/// The built binary of another package, which lies beside the toy's.
pub(crate) fn binary_of(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_BIN_EXE_acp-toy")).with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{name} is not built: run `cargo xtask test`, which builds it first");
    path
}

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Lines of stdin and stdout.
    Stdio,
    /// Streamable HTTP on a free port of this machine.
    Http,
}

impl Transport {
    /// For tests of what does not depend on it.
    pub(crate) const BOTH: [Self; 2] = [Self::Stdio, Self::Http];

    /// Its name in vectors and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// How to start a server, and what its client says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Variables; the text `$ROOT` in a value is the folder of the session.
    variables: Vec<(String, String)>,
    /// `capabilities.experimental.acp` of the client; `None`: a client that does not know ACP.
    client: Option<Value>,
    handshake: bool,
    transport: Transport,
    /// Headers of every request over HTTP, beyond those of MCP.
    headers: HeaderMap,
    /// Whether HTTP is served over TLS, with a certificate made for the session.
    tls: bool,
    /// What a failure is named after.
    title: String,
}

impl Setup {
    /// The toy, with the clock of the vectors and a client that knows ACP.
    pub(crate) fn toy(title: &str) -> Self {
        Self {
            program: PathBuf::from(env!("CARGO_BIN_EXE_acp-toy")),
            arguments: ["--clock", "2026-10-12T10:16:30Z"].map(OsString::from).to_vec(),
            // All logs, so that every test is one of what they hold.
            variables: [("ACP_TMP_DIR", "$ROOT/tmp"), ("ACP_LOG", "trace"), ("RUST_LOG", "trace")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            client: Some(acp_client()),
            handshake: true,
            transport: Transport::Stdio,
            headers: HeaderMap::new(),
            tls: false,
            title: title.to_owned(),
        }
    }

    /// Another program, and a client that does not know ACP.
    pub(crate) fn program(program: PathBuf, title: &str) -> Self {
        Self { program, arguments: Vec::new(), client: None, ..Self::toy(title) }
    }

    /// Adds arguments; a repeated flag replaces the earlier one.
    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Self {
        if let [flag, _] = arguments
            && let Some(place) = self.arguments.iter().position(|known| known == flag)
        {
            self.arguments.drain(place..place + 2);
        }
        self.arguments.extend(arguments.iter().map(OsString::from));
        self
    }

    /// Sets a variable.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a variable out.
    pub(crate) fn without_variable(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// Sets what the client says about ACP.
    pub(crate) fn client(mut self, client: Option<Value>) -> Self {
        self.client = client;
        self
    }

    /// Leaves the handshake to the test.
    pub(crate) fn without_handshake(mut self) -> Self {
        self.handshake = false;
        self
    }

    /// Sets what carries the messages.
    pub(crate) fn over(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets a header of every request over HTTP.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("the name of a header");
        self.headers.insert(name, value.parse().expect("the value of a header"));
        self
    }

    /// Serves HTTP over TLS.
    pub(crate) fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts it in a new folder.
    pub(crate) fn start(self) -> Server {
        let root = Arc::new(tempfile::tempdir().expect("a folder for the session"));
        for folder in ["tmp", "cache", "cwd", "os-tmp"] {
            std::fs::create_dir(root.path().join(folder)).expect("a folder of the session");
        }
        std::fs::write(root.path().join("file"), "not a folder").expect("a file of the session");
        Server::start(self, root)
    }

    /// Starts it in the folder of another session.
    pub(crate) fn start_in(self, root: Arc<TempDir>) -> Server {
        Server::start(self, root)
    }
}

/// A session with a running server.
pub(crate) struct Server {
    setup: Setup,
    process: Arc<Process>,
    wire: Wire,
    messages: Receiver<Incoming>,
    /// Messages that nobody waited for yet.
    unclaimed: VecDeque<Message>,
    /// What `initialize` answered.
    pub(crate) hello: Message,
    next_id: u64,
    /// The messages that came over HTTP, a line each.
    received: Vec<u8>,
    /// All bytes that came over HTTP.
    kept: Arc<Mutex<Vec<u8>>>,
}

enum Wire {
    /// What is still to be written; a server that does not read must not stop the test.
    Stdio(Sender<Vec<u8>>),
    Http(Client, Option<String>),
    Closed,
}

/// A text that came from the server.
pub(crate) struct Incoming {
    /// A line, the data of an event, or a body.
    pub(crate) text: String,
    /// The status of the HTTP response it was in.
    pub(crate) status: Option<u16>,
}

/// One message of the server. The text is kept, because a parsed number may have lost digits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    /// The line, or what came over HTTP.
    pub(crate) text: String,
    /// The text as JSON; `null` where HTTP refuses something with another text.
    pub(crate) json: Value,
    /// The status of HTTP.
    pub(crate) status: Option<u16>,
}

impl Message {
    /// Whether it answers the request of this id.
    pub(crate) fn answers(&self, id: &Value) -> bool {
        self.json.get("method").is_none() && self.json.get("id") == Some(id)
    }

    /// Whether HTTP refused a message that has no answer, such as a notification or a host's answer.
    fn is_refusal(&self) -> bool {
        self.status.is_some_and(|status| status >= 400) && self.json.get("id").is_none_or(Value::is_null)
    }

    /// Whether the server wants something of the client.
    pub(crate) fn is_request(&self) -> bool {
        self.json.get("method").is_some() && self.json.get("id").is_some()
    }
}

/// What is left when a server has ended.
pub(crate) struct Ended {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// All of stderr.
    pub(crate) stderr: String,
    /// Messages that nobody waited for.
    pub(crate) unclaimed: Vec<Message>,
    /// The folder of the session, for another server.
    pub(crate) root: Arc<TempDir>,
}

impl Server {
    fn start(setup: Setup, root: Arc<TempDir>) -> Self {
        let mut arguments = setup.arguments.clone();
        let mut certificate = None;
        if setup.transport == Transport::Http {
            arguments.extend(["--http", "--port", "0"].map(OsString::from));
            if setup.tls {
                let (made, flags) = certificate_in(root.path());
                certificate = Some(made);
                arguments.extend(flags);
            }
        }
        note(setup.transport);
        let Started { process, stdin, lines, listening } =
            Process::start(&setup.program, &arguments, &setup.variables, root);
        let process = Arc::new(process);
        match setup.transport {
            Transport::Stdio => Self::session(setup, process, Wire::Stdio(write_all(stdin)), lines, Arc::default()),
            Transport::Http => {
                let title = &setup.title;
                let url = listening
                    .recv_timeout(PATIENCE)
                    .unwrap_or_else(|_| panic!("{title}: the server does not say where it listens"));
                Self::over_http(setup, process, &url, certificate)
            }
        }
    }

    fn over_http(setup: Setup, process: Arc<Process>, url: &str, certificate: Option<String>) -> Self {
        let ((sender, messages), kept) = (channel(), Arc::default());
        let client = Client::new(url, certificate.as_deref(), setup.headers.clone(), sender, Arc::clone(&kept));
        Self::session(setup, process, Wire::Http(client, certificate), messages, kept)
    }

    fn session(
        setup: Setup,
        process: Arc<Process>,
        wire: Wire,
        messages: Receiver<Incoming>,
        kept: Arc<Mutex<Vec<u8>>>,
    ) -> Self {
        let mut server = Self {
            setup,
            process,
            wire,
            messages,
            unclaimed: VecDeque::new(),
            hello: Message::default(),
            next_id: 0,
            received: Vec::new(),
            kept,
        };
        if server.setup.handshake {
            server.shake_hands();
        }
        server
    }

    /// A further session over HTTP of the same process. It ends with [`Server::leave`], the last one with
    /// [`Server::finish`].
    pub(crate) fn another(&self, change: impl FnOnce(Setup) -> Setup) -> Self {
        let Wire::Http(client, certificate) = &self.wire else { panic!("stdio has one session") };
        Self::over_http(change(self.setup.clone()), self.process.clone(), client.url(), certificate.clone())
    }

    fn shake_hands(&mut self) {
        let experimental = self.setup.client.clone().map_or(json!({}), |acp| json!({"experimental": {"acp": acp}}));
        self.hello = self.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": experimental,
                "clientInfo": {"name": "vectors", "version": "1"},
            }),
        );
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        if let Wire::Http(client, _) = &self.wire {
            client.listen();
        }
    }

    /// What a failure is named after.
    pub(crate) fn title(&self) -> &str {
        &self.setup.title
    }

    /// The id of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Where it is found over HTTP.
    pub(crate) fn url(&self) -> &str {
        let Wire::Http(client, _) = &self.wire else { panic!("{}: this is about HTTP", self.title()) };
        client.url()
    }

    /// The folder of the session.
    pub(crate) fn root(&self) -> &Path {
        self.process.root.path()
    }

    /// Its process.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Where it listens, as host and port.
    pub(crate) fn address(&self) -> &str {
        let Wire::Http(client, _) = &self.wire else { panic!("{}: this is about HTTP", self.title()) };
        let url = client.url();
        url.split('/').nth(2).unwrap_or(url)
    }

    /// Writes bytes as they are; over HTTP they are the body of a POST.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        match &self.wire {
            // A server that has ended is found when its answer is missing.
            Wire::Stdio(stdin) => _ = stdin.send(bytes.to_vec()),
            Wire::Http(client, _) => client.post(bytes),
            Wire::Closed => panic!("{}: the session is closed", self.title()),
        }
    }

    /// Writes one line; over HTTP the body of a POST.
    pub(crate) fn write_line(&mut self, line: &str) {
        match self.wire {
            Wire::Http(..) => self.write(line.as_bytes()),
            _ => self.write(format!("{line}\n").as_bytes()),
        }
    }

    /// A request over HTTP that is no message of MCP, or a wrong one; see [`Client::ask`].
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &Value, body: &str) -> Reply {
        let Wire::Http(client, _) = &self.wire else { panic!("{}: this is about HTTP", self.title()) };
        client.ask(method, path, headers, body)
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.write_line(&message.to_string());
    }

    /// Sends a request and gives its id.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Message {
        let id = self.begin(method, params);
        self.answer(&id)
    }

    /// Sends a call of a tool and gives its id; the answer is not checked.
    pub(crate) fn begin_call(&mut self, tool: &str, arguments: &Value, meta: &Value) -> Value {
        self.begin("tools/call", call_params(tool, arguments, meta))
    }

    /// Calls a tool and checks the general rules on the answer.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value, meta: Value) -> Message {
        let id = self.begin_call(tool, &arguments, &meta);
        self.answer_of_call(&id, tool)
    }

    /// The answer to a call, with the general rules checked.
    pub(crate) fn answer_of_call(&mut self, id: &Value, tool: &str) -> Message {
        let answer = self.answer(id);
        if let Err(problem) = self.check_answer(&answer, tool) {
            panic!("{}: {tool}: {problem}\n{}", self.title(), clip(&answer.text));
        }
        answer
    }

    /// Checks the general rules on the answer to a call.
    pub(crate) fn check_answer(&self, answer: &Message, tool: &str) -> Result<(), String> {
        let name = self.hello.json.pointer("/result/serverInfo/name").and_then(Value::as_str).unwrap_or_default();
        crate::rules::check(&answer.text, name, tool, self.client_says("multi_table"))
    }

    /// Whether the client declared something, such as `host_tables`.
    pub(crate) fn client_says(&self, field: &str) -> bool {
        self.setup.client.as_ref().is_some_and(|client| client[field] == true)
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: &Value) -> Message {
        self.wait_for(&format!("the answer to request {id}"), |message| message.answers(id))
    }

    /// Waits for the next message of any kind.
    pub(crate) fn next(&mut self) -> Message {
        self.wait_for("a message", |_| true)
    }

    /// The next message that nobody waited for, if it comes soon.
    pub(crate) fn next_within(&mut self, time: Duration) -> Option<Message> {
        self.unclaimed.pop_front().or_else(|| self.receive(Instant::now() + time).ok())
    }

    /// Takes what HTTP refused of what was sent so far and has no answer, and gives their number.
    pub(crate) fn refusals(&mut self) -> usize {
        while let Ok(message) = self.receive(Instant::now()) {
            self.unclaimed.push_back(message);
        }
        let before = self.unclaimed.len();
        self.unclaimed.retain(|message| !message.is_refusal());
        before - self.unclaimed.len()
    }

    /// Waits for a message.
    pub(crate) fn wait_for(&mut self, what: &str, wanted: impl Fn(&Message) -> bool) -> Message {
        if let Some(place) = self.unclaimed.iter().position(&wanted) {
            return self.unclaimed.remove(place).expect("it was just found");
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.receive(deadline) {
                Ok(message) if wanted(&message) => return message,
                Ok(message) => self.unclaimed.push_back(message),
                Err(why) => {
                    let seen: Vec<&str> = self.unclaimed.iter().map(|message| clip(&message.text)).collect();
                    panic!("{}: {what} did not come ({why}); came instead: {seen:?}", self.setup.title);
                }
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<Message, &'static str> {
        match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Incoming { text, status }) => {
                let json = match serde_json::from_str(&text) {
                    Ok(json) => json,
                    Err(_) if status.is_some_and(|status| status != 200) => Value::Null,
                    Err(error) => panic!("{}: this is not JSON-RPC ({error}): {}", self.title(), clip(&text)),
                };
                if status.is_some() && !json.is_null() {
                    self.received.extend_from_slice(text.as_bytes());
                    self.received.push(b'\n');
                }
                Ok(Message { text, json, status })
            }
            Err(RecvTimeoutError::Timeout) => Err("time is up"),
            Err(RecvTimeoutError::Disconnected) => Err("nothing more can come"),
        }
    }

    /// Checks that the server says nothing to what was sent so far: the next message answers a ping.
    pub(crate) fn expect_silence(&mut self) {
        let ping = self.begin("ping", json!({}));
        let next = self.next();
        assert!(next.answers(&ping), "{}: expected silence, got {}", self.title(), clip(&next.text));
    }

    /// Closes stdin, or ends the HTTP session and then asks the process to end; waits for the end, then checks everything
    /// the server wrote.
    pub(crate) fn finish(mut self) -> Ended {
        if self.close() == Transport::Http {
            assert_eq!(Arc::strong_count(&self.process), 1, "{}: other sessions have to leave before", self.title());
            self.process.ask_to_end();
        }
        let Output { status, stdout, stderr } = self.process.output(self.title());
        self.collect();
        let messages = match self.setup.transport {
            Transport::Stdio => &stdout,
            Transport::Http => &self.received,
        };
        let kept = std::mem::take(&mut *self.kept.lock().expect("kept"));
        let silent = match self.setup.transport {
            Transport::Http if !stdout.is_empty() => Err("[S-3.2-02] it wrote to stdout".to_owned()),
            _ => Ok(()),
        };
        let checked = silent
            .and_then(|()| crate::rules::check_stdout(messages))
            .and_then(|()| crate::rules::check_secrets(messages, &stderr, self.root()))
            .and_then(|()| crate::rules::check_secrets(&kept, b"", self.root()))
            .and_then(|()| crate::rules::check_own_folder(&self.root().join("cwd")));
        if let Err(problem) = checked {
            panic!("{}: {problem}", self.title());
        }
        Ended {
            status,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            unclaimed: self.unclaimed.drain(..).collect(),
            root: self.process.root.clone(),
        }
    }

    /// Ends this session over HTTP while the process goes on; gives the messages that nobody waited for.
    pub(crate) fn leave(mut self) -> Vec<Message> {
        self.close();
        self.collect();
        let kept = std::mem::take(&mut *self.kept.lock().expect("kept"));
        let checked = crate::rules::check_stdout(&self.received)
            .and_then(|()| crate::rules::check_secrets(&kept, b"", self.root()));
        if let Err(problem) = checked {
            panic!("{}: {problem}", self.title());
        }
        self.unclaimed.drain(..).collect()
    }

    fn close(&mut self) -> Transport {
        match std::mem::replace(&mut self.wire, Wire::Closed) {
            Wire::Http(client, _) => {
                let status = client.end();
                assert!(status.is_none_or(|status| status < 300), "{}: DELETE got {status:?}", self.title());
                Transport::Http
            }
            _ => Transport::Stdio,
        }
    }

    /// What is still on its way once nothing more is sent.
    fn collect(&mut self) {
        while let Ok(message) = self.receive(Instant::now() + PATIENCE) {
            self.unclaimed.push_back(message);
        }
    }

    /// As `finish`, with the exit code that a clean end has.
    pub(crate) fn finish_well(self) -> Ended {
        let title = self.title().to_owned();
        // Without signals the end of a server over HTTP is not a clean one.
        let clean = self.setup.transport == Transport::Stdio || cfg!(unix);
        let ended = self.finish();
        assert!(ended.status.success() || !clean, "{title}: the server ended with {}: {}", ended.status, ended.stderr);
        ended
    }

    /// Ends the server and starts another in the same folder, with the setup changed.
    pub(crate) fn restart(self, change: impl FnOnce(Setup) -> Setup) -> Self {
        let setup = change(self.setup.clone());
        let ended = self.finish_well();
        Self::start(setup, ended.root)
    }
}

/// Writes down over what a test starts a server, for who collects that (see `ACP_SUITE_NOTES` in `vectors.rs`).
fn note(transport: Transport) {
    let test = std::thread::current().name().map(str::to_owned);
    if let Some(test) = test.filter(|name| name.contains("::")) {
        write_down(&json!({"test": test, "transport": transport.name()}));
    }
}

/// Adds a line to the file that `ACP_SUITE_NOTES` names.
pub(crate) fn write_down(note: &Value) {
    let Some(path) = std::env::var_os("ACP_SUITE_NOTES") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // One write, so that processes don't mix their lines.
    let line = format!("{note}\n");
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file of ACP_SUITE_NOTES");
}

/// Makes a certificate for this machine; gives it as PEM, and the flags that name its files.
fn certificate_in(root: &Path) -> (String, [OsString; 4]) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (certificate, key) = (root.join("cert.pem"), root.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("a certificate");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a key");
    (made.cert.pem(), ["--tls-cert".into(), certificate.into(), "--tls-key".into(), key.into()])
}

/// The params of a call; `null` is no `_meta`.
pub(crate) fn call_params(tool: &str, arguments: &Value, meta: &Value) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments});
    if !meta.is_null() {
        params["_meta"] = json!({"acp": meta});
    }
    params
}

/// The beginning of a text, for messages.
pub(crate) fn clip(text: &str) -> &str {
    match text.char_indices().nth(1500) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Writes what it is sent, and closes stdin after the last.
fn write_all(mut stdin: ChildStdin) -> Sender<Vec<u8>> {
    let (sender, pieces) = channel::<Vec<u8>>();
    std::thread::spawn(move || pieces.into_iter().try_for_each(|piece| stdin.write_all(&piece)));
    sender
}
