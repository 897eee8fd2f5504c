//! What is read and what is written, when a session answers every request at once.

use rmcp::model::{CustomResult, InitializeResult, ServerCapabilities};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::*;
use crate::revisions::Revisions;

/// The messages that the session gets out of a text, and the lines that answer them.
async fn play(text: &str) -> (Vec<Value>, Vec<Value>) {
    let (writer, mut written) = tokio::io::duplex(1024 * 1024);
    let revisions = Revisions::default().all().into();
    let mut lines = Lines::new(text.as_bytes(), writer, Arc::default(), revisions);
    let mut messages = Vec::new();
    while let Some(message) = lines.receive().await {
        messages.push(serde_json::to_value(&message).unwrap());
        let JsonRpcMessage::Request(request) = message else { continue };
        let result = match request.request {
            ClientRequest::InitializeRequest(initialize) => {
                let result = InitializeResult::new(ServerCapabilities::default());
                ServerResult::InitializeResult(result.with_protocol_version(initialize.params.protocol_version))
            }
            _ => ServerResult::CustomResult(CustomResult(json!({}))),
        };
        lines.send(JsonRpcMessage::response(result, request.id)).await.unwrap();
    }
    lines.close().await.unwrap();
    let mut answers = String::new();
    written.read_to_string(&mut answers).await.unwrap();
    (messages, answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn initialize(revision: &str) -> String {
    let client = json!({"name": "c", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params}))
}

#[tokio::test]
async fn notifications_are_never_answered() {
    let methods = ["initialize", "acp/configure", "ping", "tools/call", "notifications/cancelled", "x/y"];
    let params = ["", r#","params":{}"#, r#","params":[]"#, r#","params":null"#, r#","params":{"requestId":{}}"#];
    for revision in ["2025-03-26", "2025-11-25"] {
        for notification in methods
            .iter()
            .flat_map(|method| params.map(|params| format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#)))
        {
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            let begin = initialize(revision);
            let (_, answers) = play(&format!("{notification}\n{begin}{notification}\n{ping}\n")).await;
            let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
            assert_eq!(ids, [json!("i"), json!(1)], "{notification}");
            if revision == "2025-03-26" {
                let (_, answers) = play(&format!("{begin}[{notification},{ping}]\n[{notification}]\n")).await;
                assert_eq!(answers.len(), 2, "{notification}");
                assert_eq!(answers[1], json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]), "{notification}");
            }
        }
    }
}

/// What is trimmed from a line is trimmed from every line, the last one and batches too.
#[tokio::test]
async fn white_space_around_a_line_does_not_count() {
    let begin = initialize("2025-03-26");
    for line in [r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
        let (messages, answers) = play(&format!("{begin}{line}")).await;
        for space in [" ", "\t", "\r", "\x0c", " \x0c\r"] {
            for text in [format!("{space}{line}"), format!("{line}{space}"), format!("{space}{line}{space}")] {
                for end in ["", "\n"] {
                    let played = play(&format!("{begin}{text}{end}")).await;
                    assert_eq!(played, (messages.clone(), answers.clone()), "{text:?}");
                }
            }
        }
    }
}
