//! The command line of a host: the program `acp`, started as a person starts it, with connectors below it.
//!
//! What a connector is sent is what the duties of a host are about (sections 4 to 13), so connectors here write down all
//! that they receive: the toy behind `tee`, or a [`Scripted`] server whose answers are files.

mod calls;
mod data;
mod doctor;
#[cfg(unix)]
mod killed;
mod packages;
mod remote;
mod scripted;
mod sources;
#[cfg(target_os = "linux")]
mod terminal;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{PATIENCE, binary_of, clip};

/// Stands in every secret of these tests; no output may hold it.
const CANARY: &str = "CANARY";
/// A key that the toy takes.
const KEY: &str = "KEY-A-CANARY";

/// A person's folders: the root with connectors and sources, a project, and a home.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a folder"));
        for folder in ["root/acps", "project", "home", "cwd"] {
            std::fs::create_dir_all(home.path().join(folder)).expect("a folder");
        }
        home
    }

    /// With the toy installed behind `tee`.
    fn with_toy(arguments: &str) -> Self {
        let home = Self::new();
        home.install_toy("toy", arguments);
        home
    }

    /// With the toy and the source `shop`.
    fn with_shop(arguments: &str) -> Self {
        let home = Self::with_toy(arguments);
        home.write_sources(&json!({"sources": [home.shop()]}));
        home
    }

    fn shop(&self) -> Value {
        json!({
            "id": "shop", "acp": "toy", "label": "The shop", "default_resource_id": "acc_1",
            "credentials": {"type": "api_key", "api_key": KEY},
        })
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn acps(&self) -> PathBuf {
        self.path().join("root/acps")
    }

    fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    fn data(&self) -> PathBuf {
        self.project().join("acp-data")
    }

    fn sources_file(&self) -> PathBuf {
        self.path().join("root/sources.json")
    }

    fn write_sources(&self, sources: &Value) {
        std::fs::write(self.sources_file(), sources.to_string()).expect("sources.json");
    }

    fn read_sources(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.sources_file()).expect("sources.json")).expect("JSON")
    }

    /// A connector that is a script of `sh`, in this folder.
    fn install(folder: &Path, id: &str, version: &str, script: &str) -> PathBuf {
        let folder = folder.join(id);
        std::fs::create_dir_all(&folder).expect("the folder of a connector");
        std::fs::write(folder.join("acp.json"), manifest(id, version)).expect("acp.json");
        std::fs::write(folder.join("start.sh"), script).expect("start.sh");
        folder
    }

    /// The toy, which writes down what it is sent in `received`, beside the folders of connectors.
    fn install_toy(&self, id: &str, arguments: &str) {
        let (log, toy) = (self.log(id), binary_of("acp-toy"));
        let script = format!("tee -a '{}' | '{}' {arguments}\n", log.display(), toy.display());
        Self::install(&self.acps(), id, "1.0.0", &script);
    }

    fn log(&self, id: &str) -> PathBuf {
        self.path().join(format!("{id}.received"))
    }

    /// The messages that a connector was sent, oldest first.
    fn received(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log(id)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
    }

    /// The parameters of every message of this method.
    fn params(&self, id: &str, method: &str) -> Vec<Value> {
        self.received(id)
            .into_iter()
            .filter(|message| message["method"] == method)
            .map(|message| message["params"].clone())
            .collect()
    }

    /// `_meta.acp` of the last call.
    fn last_meta(&self, id: &str) -> Value {
        self.params(id, "tools/call").pop().expect("a call")["_meta"]["acp"].clone()
    }

    /// The program with the root of this home, and no project.
    fn acp_without_project(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary_of("acp"));
        command
            .args(["--root".as_ref(), self.path().join("root").as_os_str()])
            .args(arguments)
            .current_dir(self.path().join("cwd"))
            .env_clear()
            .env("HOME", self.path().join("home"))
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for kept in ["PATH", "SystemRoot", "LLVM_PROFILE_FILE"] {
            command.envs(std::env::var_os(kept).map(|value| (kept, value)));
        }
        command
    }

    fn acp(&self, arguments: &[&str]) -> Command {
        let mut command = self.acp_without_project(arguments);
        command.args(["--project".as_ref(), self.project().as_os_str()]);
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.acp(arguments), "")
    }

    /// Runs it with these lines as its input.
    fn answer(&self, arguments: &[&str], lines: &str) -> Ran {
        Ran::of(&mut self.acp(arguments), lines)
    }

    /// Runs it with `--json`, requires success, and gives what it printed.
    fn json(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(arguments);
        self.run(&all).ends_with(0).json()
    }

    /// A call of a tool of `shop`.
    fn call(&self, tool: &str, arguments: &Value) -> Ran {
        self.run(&["--json", "call", "shop", tool, &arguments.to_string()])
    }

    /// Names of the files in the folder of the datasets, sorted, hidden ones too.
    fn stored(&self) -> Vec<String> {
        names(&self.data())
    }

    /// The only dataset: id, CSV text and meta.
    fn only_dataset(&self) -> (String, String, Value) {
        let files = self.stored();
        let [csv, meta] = files.as_slice() else { panic!("{files:?}") };
        let id = csv.strip_suffix(".csv").expect("a CSV").to_owned();
        assert_eq!(*meta, format!("{id}.meta.json"));
        let read = |name: &str| std::fs::read_to_string(self.data().join(name)).expect("a file");
        (id, read(csv), serde_json::from_str(&read(meta)).expect("JSON"))
    }
}

/// What a run of the program left.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
    arguments: String,
}

impl Ran {
    fn of(command: &mut Command, input: &str) -> Self {
        if !input.is_empty() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().expect("acp");
        if let Some(mut stdin) = child.stdin.take() {
            // It may end before it has read everything.
            let _ = stdin.write_all(input.as_bytes());
        }
        Self::wait(child, format!("{:?}", command.get_args().collect::<Vec<_>>()))
    }

    /// Waits for the end. No output holds a secret, whatever a test is about.
    fn wait(child: Child, arguments: String) -> Self {
        let watch = Watch::over(child.id());
        let output = child.wait_with_output().expect("acp");
        watch.end(&arguments);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let ran = Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr), arguments };
        for stream in [&ran.out, &ran.err] {
            assert!(!stream.contains(CANARY), "a secret got out: {ran:?}");
        }
        ran
    }

    /// Itself, if it ended with this code.
    fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Itself, if a person reads all of this.
    fn says(self, parts: &[&str]) -> Self {
        let all = format!("{}{}", self.out, self.err);
        for part in parts {
            assert!(all.contains(part), "{part:?} is missing in {}: {}", self.arguments, clip(&all));
        }
        self
    }

    /// The notes of a call that was run with `--json`.
    fn notes(&self) -> String {
        let notes = self.json()["notes"].clone();
        notes.as_array().expect("notes").iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Kills a process that takes too long, so that a test fails and doesn't hang.
struct Watch(std::sync::mpsc::Sender<()>, std::thread::JoinHandle<bool>);

impl Watch {
    fn over(id: u32) -> Self {
        let (ended, end) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let late = end.recv_timeout(PATIENCE).is_err();
            if late {
                kill(id, "-KILL");
            }
            late
        });
        Self(ended, thread)
    }

    fn end(self, what: &str) {
        let _ = self.0.send(());
        assert!(!self.1.join().expect("the watch"), "{what} took too long");
    }
}

/// Sends a signal.
fn kill(id: u32, signal: &str) {
    let _ = Command::new("kill").args([signal, &id.to_string()]).status();
}

/// Waits until something holds.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn manifest(id: &str, version: &str) -> String {
    json!({
        "acp_version": "1.0", "id": id, "name": format!("The {id}"), "version": version, "description": "For tests.",
        "transport": {"type": "stdio", "command": "sh", "args": ["start.sh"]},
    })
    .to_string()
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("Unicode")).collect();
    names.sort();
    names
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}
