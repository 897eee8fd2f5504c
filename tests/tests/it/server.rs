//! A server under test: a process that speaks JSON-RPC over stdin and stdout.
//!
//! Everything it writes is kept, since the rules about secrets and about stdout hold for all of it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A client that knows ACP and keeps the data.
pub(crate) fn acp_client() -> Value {
    json!({"version": "1.0", "stores_system_data": true})
}

/// The built binary of another package, which lies beside the toy's.
#[expect(dead_code, reason = "the connectors' suites need it")]
pub(crate) fn binary_of(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_BIN_EXE_acp-toy")).with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{name} is not built: run `cargo xtask test`, which builds it first");
    path
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
            title: title.to_owned(),
        }
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

    /// Starts it in a new folder.
    pub(crate) fn start(self) -> Server {
        let root = Arc::new(tempfile::tempdir().expect("a folder for the session"));
        for folder in ["tmp", "cache", "cwd", "os-tmp"] {
            std::fs::create_dir(root.path().join(folder)).expect("a folder of the session");
        }
        std::fs::write(root.path().join("file"), "not a folder").expect("a file of the session");
        Server::start(self, root)
    }
}

/// A running server.
pub(crate) struct Server {
    setup: Setup,
    root: Arc<TempDir>,
    child: Child,
    /// What is still to be written; a server that does not read must not stop the test.
    stdin: Option<Sender<Vec<u8>>>,
    lines: Receiver<String>,
    /// Messages that nobody waited for yet.
    unclaimed: VecDeque<Message>,
    /// What `initialize` answered.
    pub(crate) hello: Message,
    next_id: u64,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

/// One line of the server. The text is kept, because a parsed number may have lost digits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    /// The line.
    pub(crate) text: String,
    /// The line as JSON.
    pub(crate) json: Value,
}

impl Message {
    /// Whether it answers the request of this id.
    pub(crate) fn answers(&self, id: &Value) -> bool {
        self.json.get("method").is_none() && self.json.get("id") == Some(id)
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
        let mut command = Command::new(&setup.program);
        command.args(&setup.arguments).current_dir(root.path().join("cwd")).env_clear();
        for kept in ["PATH", "SystemRoot", "LLVM_PROFILE_FILE"] {
            command.envs(std::env::var_os(kept).map(|value| (kept, value)));
        }
        for folder in ["TMPDIR", "TEMP", "TMP"] {
            command.env(folder, root.path().join("os-tmp"));
        }
        command.env("TZ", "UTC");
        for (name, value) in &setup.variables {
            command.env(name, value.replace("$ROOT", &root.path().to_string_lossy()));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", setup.program.display()));
        let (sender, lines) = channel();
        let (stdout, stderr) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let out = BufReader::new(child.stdout.take().expect("stdout"));
        let mut err = child.stderr.take().expect("stderr");
        let (kept_out, kept_err) = (stdout.clone(), stderr.clone());
        let readers = vec![
            std::thread::spawn(move || read_lines(out, &kept_out, |line| sender.send(line).is_ok())),
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = err.read_to_end(&mut bytes);
                kept_err.lock().expect("stderr").extend(bytes);
            }),
        ];
        let stdin = Some(write_all(child.stdin.take().expect("stdin")));
        let mut server = Self {
            setup,
            root,
            child,
            stdin,
            lines,
            unclaimed: VecDeque::new(),
            hello: Message::default(),
            next_id: 0,
            stdout,
            stderr,
            readers,
        };
        if server.setup.handshake {
            server.shake_hands();
        }
        server
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
    }

    /// What a failure is named after.
    pub(crate) fn title(&self) -> &str {
        &self.setup.title
    }

    /// The folder of the session.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // A server that has ended is found when its answer is missing.
        let _ = self.stdin.as_ref().expect("stdin is open").send(bytes.to_vec());
    }

    /// Writes one line.
    pub(crate) fn write_line(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
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
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(text) => {
                let json = serde_json::from_str(&text).unwrap_or_else(|error| {
                    panic!("{}: stdout is not JSON-RPC ({error}): {}", self.title(), clip(&text))
                });
                Ok(Message { text, json })
            }
            Err(RecvTimeoutError::Timeout) => Err("time is up"),
            Err(RecvTimeoutError::Disconnected) => Err("the server closed stdout"),
        }
    }

    /// Checks that the server says nothing to what was sent so far: the next message answers a ping.
    pub(crate) fn expect_silence(&mut self) {
        let ping = self.begin("ping", json!({}));
        let next = self.next();
        assert!(next.answers(&ping), "{}: expected silence, got {}", self.title(), clip(&next.text));
    }

    /// Closes stdin and waits for the end, then checks everything the server wrote.
    pub(crate) fn finish(mut self) -> Ended {
        self.stdin.take();
        let status = self.wait();
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader");
        }
        while let Ok(message) = self.receive(Instant::now() + PATIENCE) {
            self.unclaimed.push_back(message);
        }
        let stdout = std::mem::take(&mut *self.stdout.lock().expect("stdout"));
        let stderr = std::mem::take(&mut *self.stderr.lock().expect("stderr"));
        let checked = crate::rules::check_stdout(&stdout)
            .and_then(|()| crate::rules::check_secrets(&stdout, &stderr, self.root.path()))
            .and_then(|()| crate::rules::check_own_folder(&self.root.path().join("cwd")));
        if let Err(problem) = checked {
            panic!("{}: {problem}", self.title());
        }
        Ended {
            status,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            unclaimed: self.unclaimed.drain(..).collect(),
            root: self.root.clone(),
        }
    }

    /// As `finish`, with the exit code that the end of input has.
    pub(crate) fn finish_well(self) -> Ended {
        let title = self.title().to_owned();
        let ended = self.finish();
        assert!(ended.status.success(), "{title}: the server ended with {}: {}", ended.status, ended.stderr);
        ended
    }

    /// Ends the server and starts another in the same folder, with the setup changed.
    pub(crate) fn restart(self, change: impl FnOnce(Setup) -> Setup) -> Self {
        let setup = change(self.setup.clone());
        let ended = self.finish_well();
        Self::start(setup, ended.root)
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().expect("the state of the server") {
                Some(status) => return status,
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                None => panic!("{}: the server did not end after its input ended", self.title()),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

fn read_lines(mut from: impl BufRead, kept: &Mutex<Vec<u8>>, mut each: impl FnMut(String) -> bool) {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        kept.lock().expect("stdout").extend(&line);
        let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
        line.clear();
        if !each(text) {
            return;
        }
    }
}
