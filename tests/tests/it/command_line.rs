//! What a connector does besides serving.

use std::io::Write;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{PATIENCE, Setup};

fn toy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acp-toy")).args(arguments).stdin(Stdio::null()).output().expect("the toy")
}

fn printed(arguments: &[&str]) -> String {
    let output = toy(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn it_prints_what_it_publishes() {
    let mut server = Setup::toy("[S-4.2-20] the command line and the protocol say the same").start();
    let capability: Value = serde_json::from_str(&printed(&["capability"])).expect("JSON");
    assert_eq!(Some(&capability), server.hello.json.pointer("/result/capabilities/experimental/acp"));
    let tools: Value = serde_json::from_str(&printed(&["tools", "--json"])).expect("JSON");
    assert_eq!(Some(&tools), server.request("tools/list", json!({})).json.pointer("/result/tools"));
    server.finish_well();
    assert!(printed(&["tools"]).contains("rows(resource_id, n, start_date"));
    assert_eq!(printed(&["--version"]), "toy 1.0.0\n");
    assert!(printed(&["--help"]).contains("ACP_TMP_DIR"));
}

#[test]
fn a_wrong_command_line_ends_with_2_and_says_why_on_stderr() {
    for wrong in [&["--nope"][..], &["nope"], &["--variant", "nope"], &["--clock", "noon"], &["--variant"]] {
        let output = toy(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{wrong:?}: {output:?}");
    }
}

/// S-3.3-02: a host that dies takes both pipes with it, in any order.
#[test]
fn a_host_that_no_longer_reads_does_not_crash_it() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp-toy"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the toy");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("stdin");
    for id in 0..100 {
        // The pipe may close while we write; that is one way to end.
        let _ = writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    }
    drop(stdin);
    let status = ended(&mut child);
    assert!(status.code().is_some(), "ended by a signal: {status}");
}

fn ended(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().expect("the state of the toy") {
            Some(status) => return status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                panic!("the server did not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A whole session as text.
const SESSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"peek","arguments":{}}}
"#;

fn check_session(answers: &str) {
    assert_eq!(crate::rules::check_stdout(answers.as_bytes()), Ok(()));
    let lines: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3, "{answers}");
    for id in 1..=3 {
        assert!(lines.iter().any(|line| line["id"] == id && line.get("result").is_some()), "no answer {id}: {answers}");
    }
}

/// S-3.2-01: stdin and stdout need not be pipes; here they are files.
#[test]
fn it_serves_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::write(&input, SESSION).expect("the session");
    let (stdin, stdout) = (std::fs::File::open(&input).expect("in"), std::fs::File::create(&output).expect("out"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp-toy"));
    let mut child = command.stdin(stdin).stdout(stdout).stderr(Stdio::null()).spawn().expect("the toy");
    assert!(ended(&mut child).success());
    check_session(&std::fs::read_to_string(&output).expect("answers"));
    let empty = toy(&[]);
    assert!(empty.status.success() && empty.stdout.is_empty(), "without any input: {empty:?}");
}

/// S-3.2-01: Node gives its children sockets as stdin and stdout.
#[cfg(unix)]
#[test]
fn it_serves_sockets() {
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    let (mut ours_in, stdin) = UnixStream::pair().expect("sockets");
    let (mut ours_out, stdout) = UnixStream::pair().expect("sockets");
    ours_out.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp-toy"));
    command.stdin(OwnedFd::from(stdin)).stdout(OwnedFd::from(stdout)).stderr(Stdio::null());
    let mut child = command.spawn().expect("the toy");
    // The command still holds our copies of the child's ends.
    drop(command);
    ours_in.write_all(SESSION.as_bytes()).expect("the session");
    ours_in.shutdown(std::net::Shutdown::Both).expect("the end of input");
    let mut answers = String::new();
    ours_out.read_to_string(&mut answers).expect("answers");
    check_session(&answers);
    assert!(ended(&mut child).success());
}

/// S-3.2-01: a host that first writes everything and then reads must not wait for ever.
#[test]
fn it_goes_on_reading_while_nobody_reads() {
    const REQUESTS: usize = 2_000;
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp-toy"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the toy");
    let mut stdin = child.stdin.take().expect("stdin");
    let (done, written) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = SESSION.to_owned();
        for id in 0..REQUESTS {
            let list = json!({"jsonrpc": "2.0", "id": format!("list {id}"), "method": "tools/list"});
            text.push_str(&format!("{list}\n"));
        }
        let _ = stdin.write_all(text.as_bytes());
        let _ = done.send(());
    });
    let all_written = written.recv_timeout(PATIENCE).is_ok();
    if !all_written {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("answers");
    assert!(all_written, "the server stopped reading");
    assert_eq!(crate::rules::check_stdout(&output.stdout), Ok(()));
    let answers = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(answers, REQUESTS + 3);
}
