//! The bridge (section 16): an MCP client that knows nothing of ACP, the program `acp bridge`, and connectors below it.
//!
//! What a person sets up lies in a [`Place`], outside of the folder of the session, where the secrets of `sources.json` may
//! not turn up.

mod command_line;
mod data;
mod failures;
mod google;
mod hostile;
mod session;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rules;
use crate::server::{Ended, Message, PATIENCE, Server, Setup, binary_of, clip};

/// Two holders: whatever the toy answers to one of them says whose it is.
const KEYS: [&str; 2] = ["ID-71-KEY-A-CANARY", "ID-72-KEY-B-CANARY"];

/// The folder with `acps` and `sources.json`.
struct Place(TempDir);

impl Place {
    /// With the toy installed, and these sources.
    fn new(sources: &Value) -> Self {
        let place = Self(tempfile::tempdir().expect("a folder"));
        place.install("toy", "Toy", &binary_of("acp-toy"), &[]);
        place.write_sources(&sources.to_string());
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn sources(&self) -> PathBuf {
        self.path().join("sources.json")
    }

    fn write_sources(&self, text: &str) {
        std::fs::write(self.sources(), text).expect("sources.json");
    }

    /// A connector whose program lies elsewhere.
    fn install(&self, id: &str, name: &str, program: &Path, arguments: &[&str]) {
        self.install_with(id, name, program, arguments, &json!({}));
    }

    fn install_with(&self, id: &str, name: &str, program: &Path, arguments: &[&str], env: &Value) {
        let folder = self.path().join("acps").join(id);
        std::fs::create_dir_all(&folder).expect("the folder of a connector");
        let manifest = json!({
            "acp_version": "1.0", "id": id, "name": name, "version": "1.0.0", "description": "For tests.",
            "transport": {"type": "stdio", "command": program, "args": arguments, "env": env},
        });
        std::fs::write(folder.join("acp.json"), manifest.to_string()).expect("acp.json");
    }

    /// A connector that is a script of `sh`.
    #[cfg(unix)]
    fn install_script(&self, id: &str, script: &str) {
        self.install(id, id, Path::new("/bin/sh"), &["-c", script]);
    }

    /// The toy with everything that it is sent written to a file.
    #[cfg(unix)]
    fn install_recorded(&self, id: &str, arguments: &str) -> PathBuf {
        let log = self.path().join(format!("{id}.log"));
        let toy = binary_of("acp-toy");
        self.install_script(id, &format!("tee -a '{}' | '{}' {arguments}", log.display(), toy.display()));
        log
    }

    fn setup(&self, title: &str) -> Setup {
        let root = self.path().to_string_lossy().into_owned();
        let sources = self.sources().to_string_lossy().into_owned();
        Setup::program(binary_of("acp"), title)
            .arguments(&["bridge"])
            .arguments(&["--root", &root])
            .arguments(&["--sources", &sources])
            .variable("ACP_BRIDGE_PROJECT", "$ROOT/project")
            .variable("HOME", "$ROOT/home")
    }

    fn start(self, title: &str) -> Bridge {
        self.start_with(title, |setup| setup)
    }

    fn start_with(self, title: &str, change: impl FnOnce(Setup) -> Setup) -> Bridge {
        let setup = change(self.setup(title));
        let root = Arc::new(tempfile::tempdir().expect("a folder for the session"));
        for folder in ["cwd", "os-tmp", "home", "project"] {
            std::fs::create_dir(root.path().join(folder)).expect("a folder of the session");
        }
        Bridge { server: setup.start_in(root), place: self }
    }
}

/// A source of the toy.
fn source(id: &str, key: &str) -> Value {
    json!({
        "id": id, "acp": "toy", "label": format!("The {id}"), "default_resource_id": "acc_20",
        "credentials": {"type": "api_key", "api_key": key},
    })
}

/// A bridge with the source `shop` of the toy.
fn shop(title: &str) -> Bridge {
    Place::new(&json!({"sources": [source("shop", KEYS[0])]})).start(title)
}

/// A running bridge and its client.
struct Bridge {
    server: Server,
    place: Place,
}

/// What the model gets.
#[derive(Debug)]
struct Reply {
    texts: Vec<String>,
    pictures: usize,
    failed: bool,
    line: String,
}

impl Reply {
    fn of(message: &Message) -> Self {
        let result = &message.json["result"];
        assert!(result.is_object(), "no result: {}", clip(&message.text));
        assert!(result["_meta"]["acp"].is_null(), "_meta.acp reached the client: {}", clip(&message.text));
        assert!(result.get("structuredContent").is_none(), "{}", clip(&message.text));
        let blocks = result["content"].as_array().expect("content");
        let texts = blocks.iter().filter(|block| block["type"] == "text");
        Self {
            texts: texts.map(|block| block["text"].as_str().expect("a text").to_owned()).collect(),
            pictures: blocks.iter().filter(|block| block["type"] == "image").count(),
            failed: result["isError"] == true,
            line: message.text.clone(),
        }
    }

    /// Itself, where it is no error.
    fn ok(self) -> Self {
        assert!(!self.failed, "{}", clip(&self.line));
        self
    }

    /// The first text, which is JSON.
    fn model(&self) -> Value {
        serde_json::from_str(&self.texts[0]).unwrap_or_else(|error| panic!("{error}: {}", clip(&self.texts[0])))
    }

    /// The error, which has this name.
    fn error(&self, name: &str) -> String {
        let error = &self.model()["error"];
        assert!(self.failed && error["name"] == name, "expected {name}: {}", clip(&self.line));
        error["message"].as_str().expect("a message").to_owned()
    }

    /// What is said beside the first text.
    fn notes(&self) -> String {
        self.texts[1..].join("\n")
    }

    /// The id of the dataset that a note names.
    fn dataset(&self) -> String {
        let found = rules::regex(r#"saved as dataset "([a-z][a-z0-9_]*)" in acp-data/([a-z0-9_]+)\.csv"#);
        let notes = self.notes();
        let found = found.captures(&notes).unwrap_or_else(|| panic!("no dataset: {}", clip(&self.line)));
        assert_eq!(found[1], found[2]);
        found[1].to_owned()
    }
}

impl Bridge {
    fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        let id = self.begin(tool, &arguments);
        self.reply(&id)
    }

    fn begin(&mut self, tool: &str, arguments: &Value) -> Value {
        self.server.begin_call(tool, arguments, &Value::Null)
    }

    fn reply(&mut self, id: &Value) -> Reply {
        Reply::of(&self.server.answer(id))
    }

    fn tools(&mut self) -> Vec<Value> {
        let list = self.server.request("tools/list", json!({}));
        list.json["result"]["tools"].as_array().unwrap_or_else(|| panic!("{}", clip(&list.text))).clone()
    }

    fn tool(&mut self, name: &str) -> Value {
        let tools = self.tools();
        tools.into_iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no tool {name}"))
    }

    /// What `acp_sources` says of one source.
    fn source(&mut self, id: &str) -> Value {
        let state = self.call("acp_sources", json!({})).ok().model();
        let sources = state["sources"].as_array().expect("sources");
        sources.iter().find(|source| source["id"] == id).unwrap_or_else(|| panic!("no {id}: {state}")).clone()
    }

    /// Runs a query and gives its rows.
    fn query(&mut self, sql: &str) -> Value {
        self.call("acp_query", json!({"sql": sql})).ok().model()["rows"].clone()
    }

    fn data(&self) -> PathBuf {
        self.server.root().join("project").join("acp-data")
    }

    /// The names of the files in `acp-data`, sorted.
    fn files(&self) -> Vec<String> {
        let files = rules::files_below(&self.data());
        files.iter().map(|file| file.file_name().expect("a name").to_string_lossy().into_owned()).collect()
    }

    fn csv(&self, id: &str) -> String {
        std::fs::read_to_string(self.data().join(format!("{id}.csv"))).expect("the CSV of a dataset")
    }

    fn meta(&self, id: &str) -> Value {
        let text = std::fs::read_to_string(self.data().join(format!("{id}.meta.json"))).expect("the meta of a dataset");
        serde_json::from_str(&text).expect("meta.json")
    }

    /// Puts a file into `acp-data`, as a person does.
    fn put(&self, name: &str, content: &[u8]) {
        std::fs::create_dir_all(self.data()).expect("acp-data");
        std::fs::write(self.data().join(name), content).expect("a file");
    }

    /// Ends it. All that came out of it and all that it wrote was looked through for secrets then.
    fn end(self) -> Ended {
        self.server.finish_well()
    }
}

/// Waits until something holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Processes whose command line holds a text.
#[cfg(target_os = "linux")]
fn processes(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
    })
    .collect()
}
