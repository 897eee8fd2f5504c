//! One Google and one connector for it per test, and what the tests ask of their answers. The suites beside it are about every
//! connector for Google; a [`Source`](source::Source) tells what they need to know of one.

pub(crate) mod faults;
pub(crate) mod raw;
pub(crate) mod secrets;
pub(crate) mod source;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use google_sandbox::{LoggedRequest, Sandbox};
use jiff::ToSpan;
use jiff::civil::Date;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::rules;
use crate::server::{acp_client, binary_of, call_params, clip};

/// How long a call may take unless a test says otherwise. Builds beside a test slow it down.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How long the process may take to end after its input has ended.
const END: Duration = Duration::from_secs(10);

/// A Google in this process.
pub(crate) struct Google {
    runtime: Runtime,
    sandbox: Option<Sandbox>,
    facts: Value,
    folder: TempDir,
}

impl Google {
    pub(crate) fn start() -> Self {
        Self::with_latency(Duration::ZERO)
    }

    pub(crate) fn with_latency(latency: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the credentials");
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
        let options = google_sandbox::Options { latency, ..google_sandbox::Options::in_dir(folder.path()) };
        let sandbox = runtime.block_on(google_sandbox::start(options)).expect("the sandbox");
        let facts = sandbox.facts();
        Self { runtime, sandbox: Some(sandbox), facts, folder }
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().expect("Google was stopped")
    }

    /// Closes the port.
    pub(crate) fn stop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            self.runtime.block_on(sandbox.shutdown());
        }
    }

    /// What was planted.
    pub(crate) fn facts(&self) -> &Value {
        &self.facts
    }

    /// A credential: `full`, `limited` or `oauth`.
    pub(crate) fn credentials(&self, who: &str) -> Value {
        let text = std::fs::read_to_string(self.folder.path().join(format!("{who}.json"))).expect("credentials");
        serde_json::from_str(&text).expect("credentials are JSON")
    }

    /// The key inside the credential `full`.
    pub(crate) fn key(&self) -> Value {
        let credentials = self.credentials("full");
        serde_json::from_str(credentials["service_account"].as_str().expect("a key")).expect("a key is JSON")
    }

    /// The full credential as somebody else's: another identity for the connector, the same account for Google.
    pub(crate) fn another(&self, who: &str, number: usize) -> Value {
        let mut credentials = self.credentials(who);
        credentials["note"] = json!(format!("copy {number}"));
        credentials
    }

    /// The first property of a kind.
    pub(crate) fn property(&self, kind: &str) -> &Value {
        let properties = self.facts["properties"].as_array().expect("properties");
        properties.iter().find(|property| property["kind"] == kind).unwrap_or_else(|| panic!("no {kind} property"))
    }

    pub(crate) fn id(&self, kind: &str) -> &str {
        self.property(kind)["id"].as_str().expect("an id")
    }

    /// A day of the main property's calendar, so many days before today.
    pub(crate) fn day(&self, ago: i64) -> String {
        day_of(self.property("main"), ago)
    }

    pub(crate) fn fault(&self, fault: &Value) {
        self.sandbox().faults().add_json(fault).unwrap_or_else(|why| panic!("{fault}: {why}"));
    }

    /// Forgets faults and requests.
    pub(crate) fn calm(&self) {
        self.sandbox().faults().clear();
        self.sandbox().clear_log();
    }

    /// The requests whose path ends so.
    pub(crate) fn asked(&self, end: &str) -> Vec<LoggedRequest> {
        self.sandbox().log().into_iter().filter(|request| request.path.ends_with(end)).collect()
    }

    pub(crate) fn reports(&self) -> usize {
        self.asked(":runReport").len()
    }

    /// What Google answers to a request in the name of the person, asked without a connector.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let login = self.credentials("oauth");
        let field = |name: &str| encoded(login[name].as_str().unwrap_or_default());
        let form = format!(
            "grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
            field("client_id"),
            field("client_secret"),
            field("refresh_token")
        );
        let granted = self.send("POST", "/token", "Content-Type: application/x-www-form-urlencoded\r\n", &form);
        let granted: Value = serde_json::from_str(&granted).unwrap_or_else(|error| panic!("{error}: {granted}"));
        let token = granted["access_token"].as_str().unwrap_or_else(|| panic!("{granted}"));
        let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        self.send(method, path, &headers, body)
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let address = self.sandbox().url().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).expect("the sandbox");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let text = String::from_utf8(answer).expect("text");
        text.split_once("\r\n\r\n").expect("a body").1.to_owned()
    }
}

/// A text as a part of an address.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A day of a property's calendar, so many days before its today.
pub(crate) fn day_of(property: &Value, ago: i64) -> String {
    let today: Date = property["today"].as_str().and_then(|day| day.parse().ok()).expect("a day");
    today.checked_sub(ago.days()).expect("a day").to_string()
}

/// The connector, running.
pub(crate) struct Connector {
    /// Its program and the name it gives itself.
    name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Messages nobody waited for yet.
    unclaimed: Vec<Answer>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
    root: Arc<TempDir>,
    next_id: u64,
    url: String,
    credentials: Value,
    /// The resource of calls that name none.
    resource: String,
}

/// What is left of a connector.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) took: Duration,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) root: Arc<TempDir>,
}

impl Connector {
    /// Starts it in a folder of its own; calls use the full credential and this resource unless they say otherwise.
    pub(crate) fn start(
        name: &'static str,
        google: &Google,
        resource: &str,
        variables: &[(&str, &str)],
        root: Option<Arc<TempDir>>,
    ) -> Self {
        Self::start_for(&json!({"experimental": {"acp": acp_client()}}), name, google, resource, variables, root)
    }

    /// The same for a client with these capabilities.
    pub(crate) fn start_for(
        capabilities: &Value,
        name: &'static str,
        google: &Google,
        resource: &str,
        variables: &[(&str, &str)],
        root: Option<Arc<TempDir>>,
    ) -> Self {
        let root = root.unwrap_or_else(|| {
            let root = tempfile::tempdir().expect("a folder for the connector");
            for folder in ["tmp", "cache", "cwd", "home", "os-tmp"] {
                std::fs::create_dir(root.path().join(folder)).expect("a folder");
            }
            Arc::new(root)
        });
        let mut command = Command::new(binary_of(name));
        command.current_dir(root.path().join("cwd")).env_clear();
        for kept in ["PATH", "SystemRoot", "LLVM_PROFILE_FILE"] {
            command.envs(std::env::var_os(kept).map(|value| (kept, value)));
        }
        for (name, folder) in [
            ("ACP_TMP_DIR", "tmp"),
            ("ACP_CACHE_DIR", "cache"),
            ("HOME", "home"),
            ("TMPDIR", "os-tmp"),
            ("TEMP", "os-tmp"),
            ("TMP", "os-tmp"),
        ] {
            command.env(name, root.path().join(folder));
        }
        let url = google.sandbox().url().to_owned();
        command.env("ACP_GOOGLE_SANDBOX", &url).env("TZ", "UTC").envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the connector starts");
        let (sender, lines) = channel();
        let (stdout, stderr) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let mut out = BufReader::with_capacity(1 << 20, child.stdout.take().expect("stdout"));
        let mut err = child.stderr.take().expect("stderr");
        let (kept_out, kept_err) = (stdout.clone(), stderr.clone());
        let readers = vec![
            std::thread::spawn(move || {
                let mut line = Vec::new();
                while out.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    kept_out.lock().expect("stdout").extend(&line);
                    let _ = sender.send(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
                    line.clear();
                }
            }),
            std::thread::spawn(move || {
                let mut chunk = [0; 8192];
                while let Ok(read @ 1..) = err.read(&mut chunk) {
                    kept_err.lock().expect("stderr").extend(&chunk[..read]);
                }
            }),
        ];
        let stdin = child.stdin.take();
        let mut connector = Self {
            name,
            child,
            stdin,
            lines,
            unclaimed: Vec::new(),
            stdout,
            stderr,
            readers,
            root,
            next_id: 0,
            url,
            credentials: google.credentials("full"),
            resource: resource.to_owned(),
        };
        let hello = connector.request(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "tests", "version": "1"}}),
        );
        assert_eq!(hello.json["result"]["serverInfo"]["name"], name, "{}", clip(&hello.text));
        connector.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        connector
    }

    /// The address of the Google it was started with.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        // A process that has ended is found when its answer is missing.
        let _ = stdin.write_all(format!("{message}\n").as_bytes()).and_then(|()| stdin.flush());
    }

    pub(crate) fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}));
        self.next_id
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Answer {
        let id = self.begin(method, params);
        self.wait(id, PATIENCE)
    }

    /// Sends a call. Arguments without a `resource_id` are about the usual one (`null`: about none), a `_meta.acp`
    /// without `credentials` has the full ones.
    pub(crate) fn begin_call(&mut self, tool: &str, arguments: &Value, meta: &Value) -> u64 {
        let params = self.params(tool, arguments, meta);
        self.begin("tools/call", &params)
    }

    /// As [`begin_call`](Self::begin_call), with progress under the call's own id.
    pub(crate) fn begin_call_with_progress(&mut self, tool: &str, arguments: &Value, meta: &Value) -> u64 {
        let mut params = self.params(tool, arguments, meta);
        params["_meta"]["progressToken"] = json!(self.next_id + 1);
        self.begin("tools/call", &params)
    }

    fn params(&self, tool: &str, arguments: &Value, meta: &Value) -> Value {
        let mut arguments = arguments.clone();
        match arguments.get("resource_id") {
            None => arguments["resource_id"] = json!(self.resource),
            Some(Value::Null) => drop(arguments.as_object_mut().expect("arguments").remove("resource_id")),
            Some(_) => {}
        }
        let mut meta = meta.clone();
        if meta.get("credentials").is_none() {
            meta["credentials"] = self.credentials.clone();
        }
        call_params(tool, &arguments, &meta)
    }

    /// Calls a tool and checks the rules that hold for every answer.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value, meta: &Value) -> Answer {
        let id = self.begin_call(tool, arguments, meta);
        self.answer(id, tool, arguments)
    }

    /// All autocontext blocks of a resource.
    pub(crate) fn blocks(&mut self, resource: &str) -> Vec<Value> {
        let answer = self.call("autocontext", &json!({"resource_id": resource}), &json!({})).ok();
        answer.model().as_array().expect("blocks").clone()
    }

    /// The answer to a call, with the general rules checked.
    pub(crate) fn answer(&mut self, id: u64, tool: &str, arguments: &Value) -> Answer {
        let answer = self.wait(id, PATIENCE);
        if let Err(problem) = rules::check(&answer.text, self.name, tool, false) {
            panic!("{tool} {arguments}: {problem}\n{}", clip(&answer.text));
        }
        answer.about(format!("{tool} {arguments}"))
    }

    /// Hands over a table of the host when the call asks for it; a call that is answered first does not get it.
    pub(crate) fn hand_over(&mut self, call: u64, table: &Value) {
        self.reply(call, "acp/read_table", table);
    }

    /// Answers what a call asks its client for; one that is answered first is not asked. Gives what it asked.
    pub(crate) fn reply(&mut self, call: u64, method: &str, result: &Value) -> Option<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(place) = self.unclaimed.iter().position(|message| message.json["method"] == method) {
                let asked = self.unclaimed.remove(place).json;
                self.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
                return Some(asked["params"].clone());
            }
            let answers = |message: &Answer| message.json.get("method").is_none() && message.json["id"] == call;
            if self.unclaimed.iter().any(answers) {
                return None;
            }
            self.receive(deadline).unwrap_or_else(|why| panic!("{method} was not asked for: {why}"));
        }
    }

    /// Waits for the answer to a request.
    pub(crate) fn wait(&mut self, id: u64, patience: Duration) -> Answer {
        let deadline = Instant::now() + patience;
        let answers = |message: &Answer| message.json.get("method").is_none() && message.json["id"] == id;
        loop {
            if let Some(place) = self.unclaimed.iter().position(answers) {
                return self.unclaimed.remove(place);
            }
            if let Err(why) = self.receive(deadline) {
                panic!("request {id} got no answer within {patience:?} ({why}); stderr: {}", self.stderr());
            }
        }
    }

    /// Takes in what comes until the time is up, and gives all that nobody waited for.
    pub(crate) fn listen(&mut self, time: Duration) -> Vec<Answer> {
        let deadline = Instant::now() + time;
        while self.receive(deadline).is_ok() {}
        std::mem::take(&mut self.unclaimed)
    }

    fn receive(&mut self, deadline: Instant) -> Result<(), &'static str> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(text) => {
                let json = serde_json::from_str(&text)
                    .unwrap_or_else(|error| panic!("stdout is not JSON-RPC ({error}): {}", clip(&text)));
                self.unclaimed.push(Answer { text, json, what: String::new() });
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Err("time is up"),
            Err(RecvTimeoutError::Disconnected) => Err("the process closed stdout"),
        }
    }

    /// Whether it still answers.
    pub(crate) fn assert_alive(&mut self, after: &str) {
        let id = self.begin("ping", &json!({}));
        let pong = self.wait(id, PATIENCE);
        assert!(pong.json.get("result").is_some(), "after {after}: {}", pong.text);
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("stderr")).into_owned()
    }

    /// The folder with `tmp`, `cache`, `cwd` and `home`.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// What is in one of its folders.
    pub(crate) fn files(&self, folder: &str) -> Vec<PathBuf> {
        rules::files_below(&self.root().join(folder))
    }

    /// The most memory it has had, in bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Closes its input and waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        self.stdin.take();
        self.ended()
    }

    /// Asks it to end by a signal, with its input still open, and waits for the end.
    #[cfg(unix)]
    pub(crate) fn terminate(self) -> Ended {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(asked.is_ok_and(|status| status.success()), "it has ended before it was asked to");
        self.ended()
    }

    fn ended(mut self) -> Ended {
        let started = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("the state of the process") {
                Some(status) => break status,
                None if started.elapsed() < END => std::thread::sleep(Duration::from_millis(5)),
                None => panic!("the process did not end within {END:?}"),
            }
        };
        let took = started.elapsed();
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader");
        }
        let stdout = std::mem::take(&mut *self.stdout.lock().expect("stdout"));
        if let Err(problem) = rules::check_stdout(&stdout) {
            panic!("{problem}");
        }
        let stderr = self.stderr();
        assert!(!stderr.contains("panicked"), "the process panicked: {stderr}");
        Ended { status, took, stdout: String::from_utf8_lossy(&stdout).into_owned(), stderr, root: self.root.clone() }
    }

    /// As [`end`](Self::end), which must go well.
    pub(crate) fn end_well(self) -> Ended {
        let ended = self.end();
        assert!(ended.status.success(), "it ended with {}: {}", ended.status, ended.stderr);
        ended
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a block says; it must be no error.
pub(crate) fn block_data<'a>(blocks: &'a [Value], id: &str) -> &'a Value {
    let block = blocks.iter().find(|block| block["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    assert!(block["error"].is_null(), "{block}");
    &block["data"]
}

/// One message of the connector, usually the answer to a call.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) json: Value,
    /// What was sent, for messages about it.
    what: String,
}

impl Answer {
    fn about(mut self, what: String) -> Self {
        self.what = what;
        self
    }

    /// `_meta.acp`.
    pub(crate) fn acp(&self) -> &Value {
        &self.json["result"]["_meta"]["acp"]
    }

    pub(crate) fn info(&self) -> &Value {
        &self.acp()["system_info"]
    }

    pub(crate) fn data(&self) -> &Value {
        &self.acp()["system_data"]
    }

    /// What the model reads.
    pub(crate) fn model(&self) -> Value {
        let text = self.json["result"]["content"][0]["text"].as_str().unwrap_or_default();
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, clip(&self.text)))
    }

    /// Itself, if it is no error.
    pub(crate) fn ok(self) -> Self {
        assert!(self.json["result"].is_object() && self.error().is_none(), "{}: {}", self.what, clip(&self.text));
        self
    }

    /// Code and message, if it is an error.
    pub(crate) fn error(&self) -> Option<(i64, String)> {
        let error = match self.acp().get("error") {
            Some(error) => error,
            None => self.json.get("error")?,
        };
        Some((error["code"].as_i64()?, error["message"].as_str()?.to_owned()))
    }

    /// The message of an error that must have this code.
    pub(crate) fn refused(&self, code: i64) -> String {
        match self.error() {
            Some((found, message)) if found == code => message,
            other => panic!("{}: expected the error {code}, got {other:?}: {}", self.what, clip(&self.text)),
        }
    }

    /// Every row of the table, wherever it is.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let data = self.data();
        let text = match data["table_uri"].as_str() {
            Some(uri) => {
                let path = rules::path_of(uri).unwrap_or_else(|problem| panic!("{}: {problem}", self.what));
                std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", self.what))
            }
            None => data["table"].to_string(),
        };
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, clip(&self.text)))
    }

    /// One column of the table.
    pub(crate) fn column(&self, name: &str) -> Vec<Value> {
        self.rows().iter().map(|row| row[name].clone()).collect()
    }

    /// A numeric column, added up.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.column(name).iter().map(|cell| cell.as_f64().unwrap_or_default()).sum()
    }

    /// The header of a column.
    pub(crate) fn header(&self, name: &str) -> &Value {
        let headers = self.data()["headers"].as_array().map_or(&[][..], Vec::as_slice);
        headers.iter().find(|header| header["name"] == name).unwrap_or(&Value::Null)
    }

    /// The warnings for the model.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let model = self.model();
        let warnings = model["warnings"].as_array().cloned().unwrap_or_default();
        warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}
