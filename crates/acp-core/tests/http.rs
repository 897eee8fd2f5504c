//! The example `minimal` as a process that serves HTTP: its command line, its logs and its end.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Built together with the tests of this crate.
fn minimal() -> Command {
    let tests = std::env::current_exe().expect("a test has a path");
    let folder = tests.parent().and_then(|folder| folder.parent()).expect("tests are in target/<profile>/deps");
    let path: PathBuf = folder.join("examples").join(format!("minimal{}", std::env::consts::EXE_SUFFIX));
    let mut command = Command::new(path);
    command.env_remove("ACP_PORT").env_remove("ACP_HTTP_TOKEN").env_remove("ACP_LOG").stdin(Stdio::null());
    command
}

fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let output = minimal().args(arguments).envs(environment.iter().copied()).output().expect("run minimal");
    assert!(output.stdout.is_empty());
    output
}

/// A process that is killed when the test ends.
struct Server {
    process: Child,
    url: String,
    log: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run minimal");
        let mut lines = BufReader::new(process.stderr.take().expect("stderr"));
        let (mut text, mut line) = (String::new(), String::new());
        let url = loop {
            line.clear();
            assert!(lines.read_line(&mut line).expect("stderr") > 0, "it ended: {text}");
            text.push_str(&line);
            if let Some(url) = line.trim().strip_prefix("listening on ") {
                break url.to_owned();
            }
        };
        let log = Arc::new(Mutex::new(text));
        let written = log.clone();
        let reading = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                written.lock().expect("log").push_str(&(line + "\n"));
            }
        });
        Self { process, url, log, reading: Some(reading) }
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().expect("kill").success());
    }

    /// The exit code, and everything that was written to stdout and stderr.
    #[cfg(unix)]
    fn end(mut self) -> (Option<i32>, String, String) {
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = self.process.try_wait().expect("wait") {
                break status.code();
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut stdout = String::new();
        self.process.stdout.take().expect("stdout").read_to_string(&mut stdout).expect("stdout");
        self.reading.take().expect("once").join().expect("stderr");
        let log = self.log.lock().expect("log").clone();
        (code, stdout, log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn post(url: &str, body: String) -> reqwest::RequestBuilder {
    static PROVIDER: std::sync::OnceLock<()> = std::sync::OnceLock::new();
    PROVIDER.get_or_init(|| _ = rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().build().expect("client");
    client
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(body)
}

fn initialize() -> String {
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
        "capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#
        .to_owned()
}

#[test]
fn what_would_be_open_or_wrong_does_not_start() {
    for (arguments, environment, said) in [
        (&["--http", "--bind", "0.0.0.0"][..], &[][..], "ACP_HTTP_TOKEN"),
        (&["--http", "--bind", "::"], &[], "ACP_HTTP_TOKEN"),
        (&["--http"], &[("ACP_HTTP_TOKEN", "")], "ACP_HTTP_TOKEN is empty"),
        (&["--http"], &[("ACP_PORT", "seven")], "ACP_PORT"),
        (&["--http", "--port", "70000"], &[], "--port"),
        (&["--http", "--bind", "example.com"], &[], "--bind"),
        (&["--port", "1"], &[], "--http"),
        (&["--bind", "127.0.0.1"], &[], "--http"),
        (&["--http", "--tls-cert", "a.pem"], &[], "--tls-key"),
        (&["--http", "--tls-cert", "a.pem", "--tls-key", "b.pem"], &[], "a.pem"),
    ] {
        let output = refused(arguments, environment);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains("error:") && told.contains(said), "{arguments:?}: {told}");
    }
    // Over stdio, what belongs to HTTP does not matter.
    let output = refused(&[], &[("ACP_PORT", "seven"), ("ACP_HTTP_TOKEN", "")]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn a_port_that_is_taken_is_no_usage_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = taken.local_addr().expect("address").port().to_string();
    for (arguments, environment) in
        [(vec!["--http", "--port", &port], vec![]), (vec!["--http"], vec![("ACP_PORT", &*port)])]
    {
        assert_eq!(refused(&arguments, &environment).status.code(), Some(1));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn it_serves_until_it_is_told_to_stop_and_keeps_secrets() {
    let mut command = minimal();
    command.args(["--http", "--port", "0"]);
    let environment =
        [("ACP_PORT", "1"), ("ACP_HTTP_TOKEN", "TOKEN-CANARY"), ("ACP_LOG", "trace"), ("RUST_LOG", "trace")];
    let folder = tempfile::tempdir().expect("folder");
    let audit = folder.path().join("audit");
    let server = Server::start(command.envs(environment).env("ACP_AUDIT_LOG", &audit));
    assert!(server.url.starts_with("http://127.0.0.1:") && server.url.ends_with("/mcp"), "{}", server.url);
    let first = post(&server.url, initialize()).bearer_auth("TOKEN-CANARY").send().await.expect("answer");
    assert_eq!(first.status(), 200);
    let session = first.headers()["mcp-session-id"].to_str().expect("id").to_owned();
    let configure = |id: u32, end: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"acp/configure","params":{{"credentials":{{"k":"KEY-CANARY"}}{end}"#
        )
    };
    for (body, status) in [(configure(2, "}}"), 200), (configure(3, ""), 400), (configure(4, "},\"x\":[}}"), 400)] {
        let request = post(&server.url, body).bearer_auth("TOKEN-CANARY").header("mcp-session-id", &session);
        let answer = request.send().await.expect("answer");
        assert_eq!(answer.status(), status);
        assert!(!answer.text().await.expect("text").contains("CANARY"));
    }
    let refused = post(&server.url, configure(5, "}}")).bearer_auth("WRONG-CANARY").send().await.expect("answer");
    assert_eq!(refused.status(), 401);
    server.signal("-TERM");
    let (code, stdout, log) = server.end();
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert!(!log.contains("CANARY"), "{log}");
    let audit = std::fs::read_to_string(audit).expect("the audit log");
    let records: Vec<serde_json::Value> =
        audit.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let [record] = &records[..] else { panic!("one request was understood: {audit}") };
    assert_eq!((&record["kind"], &record["transport"]), (&"configure".into(), &"http".into()));
    assert!(!audit.contains("CANARY"), "{audit}");
}

#[cfg(unix)]
#[tokio::test]
async fn beyond_this_machine_it_warns_without_tls_and_serves_with_the_token() {
    let mut command = minimal();
    let server = Server::start(command.args(["--http", "--port", "0", "--bind", "0.0.0.0"]).env("ACP_HTTP_TOKEN", "t"));
    assert!(server.log.lock().expect("log").contains("warning:"));
    let url = server.url.replace("0.0.0.0", "127.0.0.1");
    let ask = |token: &str, host: &str| {
        let request = post(&url, initialize()).header("host", host);
        if token.is_empty() { request } else { request.bearer_auth(token) }
    };
    assert_eq!(ask("", "acp.example").send().await.expect("answer").status(), 401);
    assert_eq!(ask("t", "acp.example").send().await.expect("answer").status(), 200);
    let page = ask("t", "acp.example").header("origin", "https://acp.example");
    assert_eq!(page.send().await.expect("answer").status(), 403);
    server.signal("-INT");
    assert_eq!(server.end().0, Some(0));
}
