//! A session over a pipe, with the test in the place of the server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_host::StderrTail;
use acp_host::client::{Client, ClientError, ClientOptions, RpcError, ToolCall};
use acp_protocol::JsonObject;
use acp_protocol::result::TableFormat;
use acp_protocol::session::{CallMeta, ConfigureParams, HostTable};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

struct Peer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

fn session(options: ClientOptions) -> (Client, Peer) {
    let (host, server) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(host);
    let (server_reader, server_writer) = tokio::io::split(server);
    let lines = BufReader::new(server_reader).lines();
    (Client::start(reader, writer, options), Peer { lines, writer: server_writer })
}

impl Peer {
    async fn read(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn write(&mut self, line: &str) {
        // The client hangs up on a line that is too long.
        let _ = self.writer.write_all(format!("{line}\n").as_bytes()).await;
    }

    async fn answer(&mut self, request: &Value, result: &str) {
        self.write(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"])).await;
    }
}

const CAPABILITY: &str = r#"{"version":"1.0","defaults":{"row_limit":25,"cost_limit_usd":0},
    "credentials_schema":{"type":"object","properties":{}},"resource_id":{"description":"d","format":"none","examples":[]},
    "autocontext":{"cache_ttl_s":1,"delivery":["suggest"]},"cost":{"currency":"USD","model":"free","description":"d"},
    "extraction_tools":["rows"]}"#;

fn extraction(rows: &str) -> String {
    format!(
        r#"{{"content":[{{"type":"text","text":"{{\"notice\":\"n\"}}"}}],"_meta":{{"acp":{{"version":"1.0","kind":"extraction",
        "system_info":{{"acp":"toy","acp_version":"1.0","tool":"rows","kind":"extraction","resource_id":null,"arguments":{{}},
        "row_limit":25,"cost_limit_usd":0,"cost_estimate_usd":0,"cost_actual_usd":null,"duration_ms":1,
        "fetched_at":"2026-10-12T08:16:30.000Z","autocontext_attached":false,"messages":[],"warnings":[]}},
        "system_data":{{"format":"inline","row_count":1,"headers":[{{"name":"n","type":"number"}}],"table":{rows}}}}}}}}}"#
    )
    .replace('\n', " ")
}

#[tokio::test]
async fn a_session_starts_as_an_acp_client_and_lists_every_page_of_tools() {
    let (client, mut peer) = session(ClientOptions::default().name("test"));
    let host = tokio::spawn(async move {
        let welcome = client.initialize().await.unwrap();
        let tools = client.list_tools().await.unwrap();
        let configured = client.configure(&ConfigureParams { credentials: Some(None), ..Default::default() }).await;
        (welcome, tools, configured)
    });
    let request = peer.read().await;
    assert_eq!(request["method"], "initialize");
    assert_eq!(request["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(
        request["params"]["capabilities"],
        json!({"experimental": {"acp": {"version": "1.0", "stores_system_data": true}}})
    );
    let capability = CAPABILITY.replace('\n', "");
    peer.answer(
        &request,
        &format!(
            r#"{{"protocolVersion":"2025-11-25","serverInfo":{{"name":"toy","version":"1.2.3"}},"capabilities":{{"experimental":{{"acp":{capability}}}}}}}"#
        ),
    )
    .await;
    assert_eq!(peer.read().await["method"], "notifications/initialized");
    let request = peer.read().await;
    peer.answer(&request, r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"2"}"#).await;
    let request = peer.read().await;
    assert_eq!(request["params"]["cursor"], "2");
    peer.answer(&request, r#"{"tools":[{"name":"b","inputSchema":{"type":"object"}}]}"#).await;
    let request = peer.read().await;
    assert_eq!((&request["method"], &request["params"]), (&json!("acp/configure"), &json!({"credentials": null})));
    peer.answer(
        &request,
        r#"{"ok":true,"effective":{"row_limit":25,"cost_limit_usd":0,"field_limit":20,"has_credentials":false,"default_resource_id":null}}"#,
    )
    .await;
    let (welcome, tools, configured) = host.await.unwrap();
    assert_eq!((welcome.server_version.as_str(), welcome.acp.is_some()), ("1.2.3", true));
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(configured.unwrap().ok);
}

#[tokio::test]
async fn calls_run_side_by_side_and_numbers_keep_every_digit() {
    let (client, mut peer) = session(ClientOptions::default());
    let progress = Arc::new(Mutex::new(Vec::new()));
    let seen = progress.clone();
    let meta = CallMeta { call_id: Some("c1".into()), ..CallMeta::default() };
    let first = client
        .begin(
            ToolCall::new("rows", JsonObject::new())
                .meta(meta)
                .on_progress(move |progress| seen.lock().unwrap().push(progress.message)),
        )
        .await
        .unwrap();
    let second = client.begin(ToolCall::new("rows", JsonObject::new())).await.unwrap();
    let (one, two) = (peer.read().await, peer.read().await);
    assert_eq!(one["params"]["_meta"], json!({"acp": {"call_id": "c1"}, "progressToken": first.id()}));
    assert!(two["params"].get("_meta").is_none());
    for token in [first.id(), 999] {
        peer.write(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"message":"half"}}}}"#
        ))
        .await;
    }
    peer.answer(&two, &extraction(r#"[{"n":2}]"#)).await;
    peer.answer(&one, &extraction(r#"[{"n":123456789012345678901234567890.50}]"#)).await;
    second.answer().await.unwrap();
    let answer = first.answer().await.unwrap();
    assert_eq!((answer.model_text.as_str(), answer.is_error), (r#"{"notice":"n"}"#, false));
    let table = answer.meta.system_data.unwrap().table.unwrap();
    assert_eq!(table.get(), r#"[{"n":123456789012345678901234567890.50}]"#);
    assert_eq!(*progress.lock().unwrap(), [Some("half".to_owned())]);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    let (client, mut peer) = session(ClientOptions::default().patience(Duration::from_millis(20)));
    let call = client.begin(ToolCall::new("rows", JsonObject::new())).await.unwrap();
    let id = call.id();
    assert_eq!(peer.read().await["id"], id);
    drop(call);
    let cancelled = peer.read().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(id))
    );

    let slow = ToolCall::new("rows", JsonObject::new()).patience(Duration::from_millis(20));
    assert!(matches!(client.call(slow).await, Err(ClientError::Timeout { .. })));
    assert_eq!(peer.read().await["method"], "tools/call");
    assert_eq!(peer.read().await["method"], "notifications/cancelled");

    // MCP forbids to cancel `initialize`: the next line is the ping.
    assert!(matches!(client.initialize().await, Err(ClientError::Timeout { .. })));
    let _ = client.ping().await;
    assert_eq!(peer.read().await["method"], "initialize");
    assert_eq!(peer.read().await["method"], "ping");
}

#[tokio::test]
async fn the_server_may_ask_for_tables_and_pings() {
    let options = ClientOptions::default().read_table(Arc::new(|params| {
        Box::pin(async move {
            if params.reference != "known" {
                return Err(RpcError { code: -32021, message: "unknown".into(), data: None });
            }
            let table = serde_json::value::RawValue::from_string("[{\"n\":\n1.10}]".into()).unwrap();
            Ok(HostTable {
                format: TableFormat::Inline,
                row_count: 1,
                headers: vec![],
                table: Some(table),
                table_uri: None,
            })
        })
    }));
    let (client, mut peer) = session(options);
    let mut lines = Vec::new();
    for (id, method, params) in [
        ("1", "ping", "{}"),
        ("\"a\"", "acp/read_table", r#"{"ref":"known"}"#),
        ("2", "acp/read_table", r#"{"ref":"other"}"#),
        ("3", "acp/read_table", "{}"),
        ("4", "roots/list", "{}"),
    ] {
        peer.write(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)).await;
        lines.push(peer.lines.next_line().await.unwrap().unwrap());
    }
    assert_eq!(lines[0], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert!(lines[1].contains(r#""id":"a""#) && lines[1].contains(r#"[{"n": 1.10}]"#), "{}", lines[1]);
    for (line, code) in lines[2..].iter().zip([-32021, -32602, -32601]) {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["error"]["code"], code, "{line}");
    }
    let _ = client.notify("notifications/initialized", &json!({})).await;
    assert_eq!(peer.read().await["method"], "notifications/initialized");

    let (_client, mut peer) = session(ClientOptions::default());
    peer.write(r#"{"jsonrpc":"2.0","id":1,"method":"acp/read_table","params":{"ref":"known"}}"#).await;
    assert_eq!(peer.read().await["error"]["code"], -32601);
}

#[tokio::test]
async fn a_server_that_dies_is_reported_with_its_last_words() {
    let stderr = StderrTail::follow(std::io::Cursor::new(b"starting\nout of luck\n".to_vec()), false);
    let (client, mut peer) = session(ClientOptions::default().stderr(stderr));
    let pending = tokio::spawn({
        let client = client.clone();
        async move { client.ping().await }
    });
    peer.read().await;
    drop(peer);
    let error = pending.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("out of luck"), "{error}");
    assert!(matches!(client.ping().await, Err(ClientError::Closed { .. })));
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    for (line, needle) in [
        ("hello", "no JSON-RPC"),
        ("[1,null]", "a list"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "neither result nor error"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such tool"}}"#, "no such tool"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#, "_meta.acp"),
        (r#"{"jsonrpc":"2.0","id":1,"result":3}"#, "can't be read"),
        (&"x".repeat(5000), "more than 4000"),
    ] {
        let (client, mut peer) = session(ClientOptions::default().line_max(4000));
        let call = client.begin(ToolCall::new("rows", JsonObject::new())).await.unwrap();
        peer.read().await;
        peer.write(line).await;
        let error = call.answer().await.unwrap_err().to_string();
        assert!(error.contains(needle), "{line}: {error}");
    }
}

#[tokio::test]
async fn closing_ends_the_servers_input_and_leaves_running_calls_their_answers() {
    let (client, mut peer) = session(ClientOptions::default());
    let call = client.begin(ToolCall::new("rows", JsonObject::new())).await.unwrap();
    client.close();
    let request = peer.read().await;
    assert_eq!(peer.lines.next_line().await.unwrap(), None);
    peer.answer(&request, &extraction(r#"[{"n":1}]"#)).await;
    call.answer().await.unwrap();
    assert!(client.ping().await.is_err());

    let (client, mut peer) = session(ClientOptions::default());
    let clone = client.clone();
    drop(client);
    clone.notify("notifications/initialized", &json!({})).await.unwrap();
    drop(clone);
    assert_eq!(peer.read().await["method"], "notifications/initialized");
    assert_eq!(peer.lines.next_line().await.unwrap(), None, "dropping the last clone closes the input");
}

/// Its output ends before its last words have arrived, and only then is it called.
#[tokio::test]
async fn a_call_to_a_server_that_has_just_ended_tells_its_last_words() {
    let (mut words, stderr) = tokio::io::duplex(1024);
    let (client, peer) = session(ClientOptions::default().stderr(StderrTail::follow(stderr, false)));
    drop(peer);
    while client.is_open() {
        tokio::task::yield_now().await;
    }
    let said = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        words.write_all(b"no such library\n").await.unwrap();
        drop(words);
    };
    let (error, ()) = tokio::join!(client.ping(), said);
    assert!(error.unwrap_err().to_string().contains("no such library"));
}
