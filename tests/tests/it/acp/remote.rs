//! Connectors that run elsewhere, over Streamable HTTP (3.2).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Home;
use super::scripted::{capability, extraction, tool};

/// What a server over HTTP was asked: method, session, revision, a header of acp.json, and the message.
#[derive(Clone, Debug)]
struct Asked {
    method: String,
    session: Option<String>,
    version: Option<String>,
    own: Option<String>,
    message: Value,
}

/// A server that answers one request per connection and writes down what it is asked.
fn serve() -> (String, Arc<Mutex<Vec<Asked>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let asked = Arc::<Mutex<Vec<Asked>>>::default();
    let kept = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = kept.clone();
            std::thread::spawn(move || answer(stream, &kept));
        }
    });
    (url, asked)
}

fn answer(mut stream: TcpStream, kept: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut line = String::new();
    let (mut asked, mut length) =
        (Asked { method: String::new(), session: None, version: None, own: None, message: Value::Null }, 0);
    while reader.read_line(&mut line).is_ok_and(|count| count > 0) && !line.trim().is_empty() {
        let text = std::mem::take(&mut line);
        match text.split_once(": ") {
            None => asked.method = text.split(' ').next().unwrap_or_default().to_owned(),
            Some((name, value)) => {
                let value = value.trim().to_owned();
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().expect("a length"),
                    "mcp-session-id" => asked.session = Some(value),
                    "mcp-protocol-version" => asked.version = Some(value),
                    "x-own" => asked.own = Some(value),
                    _ => {}
                }
            }
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    asked.message = serde_json::from_slice(&body).unwrap_or_default();
    kept.lock().expect("asked").push(asked.clone());
    let id = asked.message["id"].clone();
    let result = match asked.message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "fake", "version": "1.0.0"},
            "capabilities": {"experimental": {"acp": capability()}},
        }),
        Some("tools/list") => json!({"tools": [tool("rows", &json!({})), tool("broken", &json!({}))]}),
        Some("tools/call") => extraction(&json!([{"name": "n", "type": "integer"}]), &json!([{"n": 1}]), 1, &json!({})),
        _ => Value::Null,
    };
    let message = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let (status, kind, body) = match (asked.method.as_str(), id.is_null()) {
        ("POST", false) if asked.message["params"]["name"] == "broken" => {
            ("503 Unavailable", "text/plain", "later".to_owned())
        }
        // Events, one with its message over two lines of data.
        ("POST", false) if asked.message["method"] == "tools/call" => {
            let (head, tail) = message.split_at(message.find(',').expect("a comma"));
            let ping = json!({"jsonrpc": "2.0", "id": "s1", "method": "ping"});
            (
                "200 OK",
                "text/event-stream",
                format!(": hello\n\ndata: {ping}\n\nevent: message\r\ndata: {head}\r\ndata:{tail}\r\n\r\n"),
            )
        }
        ("POST", false) => ("200 OK", "application/json", message),
        ("POST", true) => ("202 Accepted", "text/plain", String::new()),
        ("DELETE", _) => ("204 No Content", "text/plain", String::new()),
        _ => ("405 Method Not Allowed", "text/plain", String::new()),
    };
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nMcp-Session-Id: s-1\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

fn install(home: &Home, url: &str) {
    let folder = home.acps().join("far");
    std::fs::create_dir_all(&folder).expect("a folder");
    let manifest = json!({
        "acp_version": "1.0", "id": "far", "name": "Far", "version": "1.0.0", "description": "d",
        "transport": {"type": "http", "url": url, "headers": {"X-Own": "CANARY-header"}},
    });
    std::fs::write(folder.join("acp.json"), manifest.to_string()).expect("acp.json");
    home.write_sources(&json!({"sources": [{"id": "shop", "acp": "far"}]}));
}

/// H-3.2-02: each request repeats the session, answers come as JSON or as events, and the session is ended.
#[test]
fn a_remote_server_is_called_in_one_session() {
    let home = Home::new();
    let (url, asked) = serve();
    install(&home, &url);
    home.call("rows", &json!({})).ends_with(0);
    assert_eq!(home.only_dataset().1, "n\r\n1\r\n");
    let asked = asked.lock().expect("asked").clone();
    assert!(asked.iter().all(|request| request.own.as_deref() == Some("CANARY-header")), "{asked:?}");
    let posts: Vec<_> = asked.iter().filter(|request| request.method == "POST").collect();
    assert_eq!(posts[0].message["method"], "initialize");
    assert!(posts[0].session.is_none() && posts[0].version.is_none());
    for request in asked.iter().filter(|request| request.message["method"] != "initialize") {
        assert_eq!(
            (request.session.as_deref(), request.version.as_deref()),
            (Some("s-1"), Some("2025-11-25")),
            "{request:?}"
        );
    }
    assert_eq!(asked.iter().filter(|request| request.method == "DELETE").count(), 1, "{asked:?}");
}

/// What HTTP refuses is an error of the call; credentials go nowhere unprotected.
#[test]
fn refusals_of_http_are_errors_and_plain_http_stays_here() {
    let home = Home::new();
    let (url, asked) = serve();
    install(&home, &url);
    home.run(&["call", "shop", "broken"]).ends_with(4).says(&["503"]);
    drop(asked);
    for (url, says) in [
        ("http://example.com/mcp", "must begin with https"),
        ("nonsense", "is no URL"),
        ("http://127.0.0.1:9/mcp", "can't be reached"),
    ] {
        install(&home, url);
        home.run(&["call", "shop", "rows"]).ends_with(4).says(&[says]);
    }
}
