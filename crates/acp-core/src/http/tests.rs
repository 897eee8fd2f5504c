//! Over real sockets: a fixture connector, and a client that looks at the bytes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use acp_protocol::autocontext::ResourceSummary;
use acp_protocol::capability::{AutocontextDelivery, CostModel, ResourceIdInfo};
use acp_protocol::result::{ColumnType, Header};
use acp_protocol::setup::CredentialsSchema;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use axum::body::Body;

use super::body::with_tables;
use super::{Environment, HttpFlags, Limits, Listening, REVISION, Settings};
use crate::connector::{About, Connector, Resource, Source};
use crate::outgoing::{Outbox, OutgoingTables, Text};
use crate::revisions::Revisions;
use crate::server::{Folders, Shared};
use crate::tool::{Extraction, Hints, Info, Tool, ToolSpec};
use crate::{Call, Cell, Error, Result};

const DECIMAL: &str = "1234567890123456789012345678.9012345678";

#[derive(Clone, Default)]
struct Fixture {
    /// Calls of `wait` that began.
    begun: Arc<AtomicUsize>,
    /// Calls of `wait` that were dropped before they were done.
    dropped: Arc<AtomicUsize>,
    go: Arc<Notify>,
}

impl Source for Fixture {
    fn resource(&self, id: &str) -> Result<Resource> {
        Ok(Resource { id: id.to_owned(), level: "thing" })
    }

    async fn resources(&self, _: &Call) -> Result<Vec<ResourceSummary>> {
        Ok(Vec::new())
    }
}

const fn spec(name: &'static str, credentials: bool) -> ToolSpec {
    ToolSpec { name, title: name, resource: false, credentials, hints: Hints::READS_LOCAL }
}

/// Rows with a decimal of 38 digits and a number of their own.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Rows {
    /// How many.
    count: u32,
    /// The number in the first row.
    #[serde(default)]
    first: u32,
    /// Whether to wait until it may go on.
    #[serde(default)]
    wait: bool,
}

impl Tool for Rows {
    type Source = Fixture;
    type Answer = Extraction;
    const SPEC: ToolSpec = spec("rows", false);

    async fn run(self, source: &Fixture, call: &Call) -> Result<Extraction> {
        if self.wait {
            source.go.notified().await;
        }
        let column = |name: &str, column_type| Header { name: name.into(), column_type, role: None, description: None };
        let columns = [("i", ColumnType::Integer), ("d", ColumnType::Number), ("t", ColumnType::String)];
        let mut table = call.table(columns.map(|(name, kind)| column(name, kind)).to_vec())?;
        for row in self.first..self.first + self.count {
            table.push(&[Cell::Integer(row.into()), Cell::Json(DECIMAL), Cell::Text("line\nbreak \"acp-table-\"")])?;
        }
        Ok(Extraction::new(table, "Rows."))
    }
}

fn table(first: u32, count: u32) -> String {
    let rows: Vec<String> = (first..first + count)
        .map(|row| format!(r#"{{"i":{row},"d":{DECIMAL},"t":"line\nbreak \"acp-table-\""}}"#))
        .collect();
    format!("[{}]", rows.join(","))
}

/// Waits until it may go on.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Wait {}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Tool for Wait {
    type Source = Fixture;
    type Answer = Info;
    const SPEC: ToolSpec = spec("wait", false);

    async fn run(self, source: &Fixture, _: &Call) -> Result<Info> {
        let dropped = Dropped(source.dropped.clone());
        source.begun.fetch_add(1, Ordering::SeqCst);
        source.go.notified().await;
        std::mem::forget(dropped);
        Ok(Info(json!({"waited": true})))
    }
}

/// Panics.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Boom {}

impl Tool for Boom {
    type Source = Fixture;
    type Answer = Info;
    const SPEC: ToolSpec = spec("boom", false);

    async fn run(self, _: &Fixture, _: &Call) -> Result<Info> {
        panic!("boom")
    }
}

/// Says who asks.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Who {}

impl Tool for Who {
    type Source = Fixture;
    type Answer = Info;
    const SPEC: ToolSpec = spec("who", true);

    async fn run(self, _: &Fixture, call: &Call) -> Result<Info> {
        let known = call.credentials().is_ok();
        known.then_some(Info(json!({"known": known}))).ok_or_else(|| Error::upstream("nobody"))
    }
}

/// Counts the rows of a host's table.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Count {
    /// Which table.
    #[schemars(extend("x-acp-input" = "table_ref"))]
    table_ref: String,
}

impl Tool for Count {
    type Source = Fixture;
    type Answer = Info;
    const SPEC: ToolSpec = spec("count", false);

    async fn run(self, _: &Fixture, call: &Call) -> Result<Info> {
        let mut rows = 0;
        call.read_table(&self.table_ref).await?.for_each(|_| {
            rows += 1;
            Ok(())
        })?;
        Ok(Info(json!({"rows": rows})))
    }
}

fn connector(fixture: Fixture) -> Connector {
    let credentials: CredentialsSchema = serde_json::from_value(json!({"oneOf": [{
        "type": "object", "title": "Key", "required": ["type", "key"],
        "properties": {"type": {"type": "string", "const": "key"}, "key": {"type": "string", "writeOnly": true}},
    }]}))
    .unwrap();
    let about = About {
        name: "fixture",
        title: "Fixture",
        version: "1.0.0",
        instructions: "",
        row_limit: 2,
        cost_limit_usd: 0.0,
        credentials,
        config: None,
        resource_id: ResourceIdInfo {
            title: None,
            description: "A thing".into(),
            format: "none".into(),
            separators: None,
            examples: Vec::new(),
        },
        resource_urls: &[],
        cache_ttl: Duration::from_secs(60),
        delivery: &[AutocontextDelivery::Inject],
        cost_model: CostModel::Free,
        cost_description: "Free.",
    };
    Connector::builder(about, fixture)
        .tool::<Rows>()
        .tool::<Wait>()
        .tool::<Boom>()
        .tool::<Who>()
        .tool::<Count>()
        .build()
}

struct Running {
    fixture: Fixture,
    url: String,
    stop: Arc<Notify>,
    ended: tokio::task::JoinHandle<std::io::Result<()>>,
    folder: tempfile::TempDir,
}

#[derive(Default)]
struct Start<'a> {
    token: Option<&'a str>,
    /// Whether the host gave the folder for tables.
    folder: bool,
    tls: Option<(PathBuf, PathBuf)>,
    limits: Limits,
    revisions: Revisions,
}

async fn start(how: Start<'_>) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::default();
    let folders = Folders { cache: None, tmp: Some(folder.path().join("tables")) };
    let mut shared = Shared::new(connector(fixture.clone()), folders);
    shared.announce(how.revisions);
    let shared = Arc::new(shared);
    let environment = Environment { port: Some("0".into()), token: how.token.map(Into::into), tmp_dir: how.folder };
    let flags = match &how.tls {
        None => HttpFlags::default(),
        Some((certificate, key)) => HttpFlags::with_tls(certificate.clone(), key.clone()),
    };
    let settings = Settings::new(flags, &environment).unwrap_or_else(|error| panic!("{error}"));
    let listening = Listening::of_connector(shared, settings, how.limits).await.unwrap();
    let url = listening.url().to_owned();
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let ended = tokio::spawn(async move {
        listening
            .run(futures::stream::once(async move { stopped.notified().await }).chain(futures::stream::pending()))
            .await
    });
    Running { fixture, url, stop, ended, folder }
}

impl Running {
    fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("tables")).map_or(0, Iterator::count)
    }

    fn client(&self) -> Client {
        Client::new(&self.url)
    }
}

/// Compiling the tests of a TLS client needs a provider, whether TLS is used or not.
fn http() -> reqwest::ClientBuilder {
    static PROVIDER: OnceLock<()> = OnceLock::new();
    PROVIDER.get_or_init(|| _ = rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().no_proxy()
}

#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
    session: Option<String>,
    revision: &'static str,
}

struct Reply {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Reply {
    fn messages(&self) -> impl Iterator<Item = &str> {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start);
        data.filter(|data| !data.is_empty())
    }

    /// The message with this id, as text.
    fn message(&self, id: u64) -> &str {
        let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
        self.messages().find(|data| data.starts_with(&start)).unwrap_or_else(|| panic!("{} {}", self.status, self.text))
    }

    fn acp(&self, id: u64) -> Value {
        serde_json::from_str::<Value>(self.message(id)).unwrap()["result"]["_meta"]["acp"].take()
    }

    fn error(&self) -> Value {
        serde_json::from_str::<Value>(&self.text).unwrap_or_else(|_| panic!("{} {}", self.status, self.text))["error"]
            .take()
    }

    /// The table as it was written.
    fn table(&self, id: u64) -> &str {
        let (_, rest) = self.message(id).split_once("\"table\":").unwrap();
        let end = rest.rfind("}]").unwrap() + 2;
        &rest[..end]
    }
}

impl Client {
    fn new(url: &str) -> Self {
        Self { http: http().build().unwrap(), url: url.to_owned(), token: None, session: None, revision: "2025-11-25" }
    }

    fn post(&self, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        self.with_session(self.http.post(&self.url))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body)
    }

    fn with_session(&self, mut request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        request
    }

    async fn send(&self, body: impl Into<reqwest::Body>) -> Reply {
        reply(self.post(body)).await
    }

    async fn request(&self, id: u64, method: &str, params: Value) -> Reply {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await
    }

    async fn call(&self, id: u64, tool: &str, arguments: Value, acp: Value) -> Reply {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"acp": acp}});
        self.request(id, "tools/call", params).await
    }

    async fn initialize(&mut self) -> Reply {
        let acp = json!({"version": "1.0", "stores_system_data": true, "host_tables": true});
        let params = json!({"protocolVersion": self.revision, "clientInfo": {"name": "test", "version": "1"},
            "capabilities": {"experimental": {"acp": acp}}});
        let answer = self.request(0, "initialize", params).await;
        if let Some(session) = answer.headers.get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
            let begun = self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
            assert_eq!(begun.status, 202);
        }
        answer
    }

    async fn begun(mut self) -> Self {
        assert_eq!(self.initialize().await.status, 200);
        self
    }
}

async fn reply(request: reqwest::RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Reply { status, headers, text: response.text().await.unwrap() }
}

fn wait(id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait"}}).to_string()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_begin_are_needed_and_end() {
    // V-314, V-315, V-325.
    let server = start(Start::default()).await;
    let mut client = server.client();
    let without = client.request(1, "tools/list", json!({})).await;
    assert_eq!(without.status, 400);
    let first = client.initialize().await;
    assert_eq!((first.status, client.session.is_some()), (200, true));
    assert!(first.message(0).contains("\"serverInfo\""));
    assert!(client.request(1, "tools/list", json!({})).await.message(1).contains("\"rows\""));
    let unknown = Client { session: Some("unknown".to_owned()), ..client.clone() };
    let answer = unknown.request(1, "tools/list", json!({})).await;
    assert_eq!((answer.status, answer.error()["code"].as_i64()), (404, Some(-32600)));
    for (path, status) in [("", 404), ("mcp/", 404), ("tables", 404), ("tables/abc", 404)] {
        let url = server.url.replace("mcp", path);
        assert_eq!(reply(client.http.get(&url)).await.status, status, "{path}");
    }
    assert_eq!(reply(client.http.get(&server.url)).await.status, 406);
    assert_eq!(reply(client.http.put(&server.url)).await.status, 405);
    assert_eq!(reply(client.with_session(client.http.delete(&server.url))).await.status, 204);
    assert_eq!(client.request(2, "tools/list", json!({})).await.status, 404);
    assert_eq!(reply(client.with_session(client.http.delete(&server.url))).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_share_neither_settings_nor_credentials() {
    let server = start(Start::default()).await;
    let (first, second) = (server.client().begun().await, server.client().begun().await);
    let set = json!({"row_limit": 1, "credentials": {"type": "key", "key": "KEY-A-CANARY"}});
    assert!(first.request(1, "acp/configure", set).await.message(1).contains("\"row_limit\":1"));
    let limit = |reply: Reply| reply.acp(2)["system_info"]["row_limit"].as_u64();
    let rows = json!({"count": 3});
    assert_eq!(limit(first.call(2, "rows", rows.clone(), json!({})).await), Some(1));
    assert_eq!(limit(second.call(2, "rows", rows, json!({})).await), Some(2));
    assert!(first.call(3, "who", json!({}), json!({})).await.message(3).contains("known"));
    assert_eq!(second.call(3, "who", json!({}), json!({})).await.acp(3)["error"]["code"], -32011);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_asked_for_before_a_body_is_read() {
    // V-318, V-319.
    let server = start(Start { token: Some("t"), ..Start::default() }).await;
    let mut client = server.client();
    let refused = client.initialize().await;
    assert_eq!((refused.status, refused.headers["www-authenticate"].to_str().unwrap()), (401, "Bearer"));
    client.token = Some("wrong".to_owned());
    assert_eq!(client.initialize().await.status, 401);
    assert_eq!(reply(client.http.get(server.url.replace("mcp", "tables/x"))).await.status, 401);
    client.token = Some("t".to_owned());
    assert_eq!(client.initialize().await.status, 200);
    assert_eq!(client.call(1, "who", json!({}), json!({})).await.acp(1)["error"]["code"], -32011);
    let address = server.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut raw = tokio::net::TcpStream::connect(address).await.unwrap();
    let head =
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n";
    raw.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    raw.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_origins_and_hosts_are_refused() {
    let server = start(Start { token: Some("t"), ..Start::default() }).await;
    let client = Client { token: Some("t".to_owned()), ..server.client() };
    for (header, value, status) in [
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("host", "evil.example", 403),
        ("origin", "http://localhost:3000", 400),
        ("host", "localhost:1", 400),
    ] {
        let request = client.post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).header(header, value);
        assert_eq!(reply(request).await.status, status, "{header}: {value}");
    }
    let without = reply(server.client().post("").header("origin", "https://evil.example")).await;
    assert_eq!(without.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_get_the_error_they_deserve() {
    let server = start(Start::default()).await;
    let client = server.client().begun().await;
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{}1{}}}",
        "[".repeat(1000),
        "]".repeat(1000)
    );
    let cases: [(&[u8], i64, Value); 13] = [
        (b"", -32700, Value::Null),
        (b"{", -32700, Value::Null),
        (b"\xff", -32700, Value::Null),
        (deep.as_bytes(), -32700, Value::Null),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, Value::Null),
        (b" [1]", -32600, Value::Null),
        (b"[\"2.0\",1,\"ping\"]", -32600, Value::Null),
        (b"[", -32700, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}", -32600, Value::Null),
        (b"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}", -32600, json!(7)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"tools/call\",\"params\":[]}", -32602, json!("x")),
        (b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"acp/configure\",\"params\":[3]}", -32602, json!(2)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"who/knows\",\"params\":7}", -32601, json!(1)),
    ];
    for (body, code, id) in cases {
        let answer = client.send(body.to_vec()).await;
        let shown = String::from_utf8_lossy(body);
        assert_eq!(answer.status, 400, "{shown}: {}", answer.text);
        let value: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!((value["error"]["code"].as_i64(), &value["id"]), (Some(code), &id), "{shown}");
    }
    let kind = client.with_session(client.http.post(&server.url)).header("content-type", "text/plain").body("{}");
    assert_eq!(reply(kind).await.status, 415);
    let long = client.post(vec![b' '; 64 * 1024 * 1024 + 1]).send().await;
    // The server may answer and close before everything is sent.
    assert!(long.map_or(true, |answer| answer.status() == 413));
    assert!(client.request(1, "ping", json!({})).await.message(1).contains("\"result\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_arrive_byte_for_byte() {
    let server = start(Start::default()).await;
    let client = server.client().begun().await;
    // 4 MiB: some from memory, some through a file, all at the same time and each its own.
    let count = 52_000;
    let calls = (1..=6_u32).map(|id| {
        let client = client.clone();
        let count = if id < 4 { count } else { 10 * id };
        let acp = if id % 2 == 0 { json!({"inline_max_bytes": 0}) } else { json!({}) };
        async move {
            let answer = client.call(id.into(), "rows", json!({"count": count, "first": id * 100_000}), acp).await;
            assert!(answer.table(id.into()) == table(id * 100_000, count), "call {id}");
            assert_eq!(answer.acp(id.into())["system_data"]["format"], "inline");
            answer.text.len()
        }
    });
    let lengths = futures::future::join_all(calls).await;
    assert!(lengths[0] > 4 * 1024 * 1024);
    until("files are removed", || server.files() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_on_this_machine_that_gave_a_folder_gets_files() {
    let server = start(Start { folder: true, ..Start::default() }).await;
    let client = server.client().begun().await;
    let answer = client.call(1, "rows", json!({"count": 3}), json!({"inline_max_bytes": 10})).await;
    let uri = answer.acp(1)["system_data"]["table_uri"].as_str().unwrap().to_owned();
    let text = std::fs::read_to_string(uri.strip_prefix("file://").unwrap()).unwrap();
    assert_eq!(text.replace('\n', ""), table(0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_a_link_gives_the_table_once() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path: PathBuf = Path::join(folder.path(), name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (certificate, key) = (write("cert.pem", made.cert.pem()), write("key.pem", made.signing_key.serialize_pem()));
    let server = start(Start { token: Some("t"), tls: Some((certificate, key)), ..Start::default() }).await;
    assert!(server.url.starts_with("https://127.0.0.1:"));
    let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let client =
        Client { http: http().tls_certs_only([root]).build().unwrap(), token: Some("t".to_owned()), ..server.client() };
    let client = client.begun().await;
    let answer = client.call(1, "rows", json!({"count": 3}), json!({"inline_max_bytes": 10})).await;
    let data = answer.acp(1)["system_data"].take();
    assert_eq!((&data["format"], data.get("table")), (&json!("file"), None));
    let link = data["table_uri"].as_str().unwrap();
    assert!(link.starts_with(&server.url.replace("/mcp", "/tables/")), "{link}");
    assert_eq!(reply(client.http.get(link)).await.status, 401);
    assert_eq!(reply(client.with_session(client.http.head(link))).await.status, 405);
    let got = reply(client.with_session(client.http.get(link))).await;
    assert_eq!((got.status, got.headers["content-type"].to_str().unwrap()), (200, "application/json"));
    assert_eq!(got.text.replace('\n', ""), table(0, 3));
    assert_eq!(reply(client.with_session(client.http.get(link))).await.status, 404);
    until("the file is removed", || server.files() == 0).await;
    let small = client.call(2, "rows", json!({"count": 3}), json!({})).await;
    assert_eq!(small.table(2), table(0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_and_sessions_side_by_side() {
    // V-324.
    let server = start(Start::default()).await;
    let client = server.client().begun().await;
    let calls = (1..=50_u64).map(|id| {
        let client = client.clone();
        async move {
            let answer = client.call(id, "rows", json!({"count": 60}), json!({"row_limit": id})).await;
            assert_eq!(answer.acp(id)["system_info"]["row_limit"], id);
        }
    });
    futures::future::join_all(calls).await;
    let sessions = futures::future::join_all((0..100_u32).map(|number| {
        let client = client.clone();
        async move {
            let client = Client { session: None, ..client }.begun().await;
            let answer = client.call(1, "rows", json!({"count": 5, "first": number}), json!({})).await;
            assert_eq!(answer.table(1), table(number, 5));
            client.session.unwrap()
        }
    }));
    assert_eq!(sessions.await.into_iter().collect::<HashSet<_>>().len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_answered_and_an_id_is_used_once() {
    let server = start(Start::default()).await;
    let client = server.client().begun().await;
    assert_eq!(client.call(1, "boom", json!({}), json!({})).await.acp(1)["error"]["code"], -32018);
    let first = client.post(wait(7)).send().await.unwrap();
    let second = client.request(7, "ping", json!({})).await;
    assert_eq!((second.status, second.error()["code"].as_i64()), (400, Some(-32600)));
    server.fixture.go.notify_one();
    assert!(first.text().await.unwrap().contains("waited"));
    assert_eq!(client.request(7, "ping", json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_drops_the_work() {
    let server = start(Start::default()).await;
    let client = server.client().begun().await;
    let response = client.post(wait(5)).send().await.unwrap();
    assert_eq!(client.request(6, "ping", json!({})).await.status, 200);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    assert_eq!(client.send(cancel.to_string()).await.status, 202);
    until("the work is dropped", || server.fixture.dropped.load(Ordering::SeqCst) == 1).await;
    assert!(!response.text().await.unwrap().contains("\"id\":5"), "a cancelled request gets no answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_bounded() {
    let server = start(Start { limits: Limits { sessions: 2, ..Limits::default() }, ..Start::default() }).await;
    let begun = futures::future::join_all((0..10).map(|_| async {
        let mut client = server.client();
        (client.initialize().await, client)
    }));
    let (served, refused): (Vec<_>, Vec<_>) = begun.await.into_iter().partition(|(answer, _)| answer.status == 200);
    assert_eq!(served.len(), 2);
    assert!(refused.iter().all(|(answer, _)| (answer.status, answer.error()["code"].as_i64()) == (503, Some(-32603))));
    let client = &served[0].1;
    assert_eq!(reply(client.with_session(client.http.delete(&server.url))).await.status, 204);
    let begun = Instant::now();
    while server.client().initialize().await.status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sessions_end_but_not_under_a_silent_call() {
    let limits = Limits { idle: Duration::from_secs(1), ..Limits::default() };
    let server = start(Start { limits, ..Start::default() }).await;
    let busy = server.client().begun().await;
    let call = busy.post(wait(1)).send().await.unwrap();
    let idle = server.client().begun().await;
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(idle.request(1, "ping", json!({})).await.status, 404);
    server.fixture.go.notify_one();
    assert!(call.text().await.unwrap().contains("waited"));
    assert_eq!(busy.request(2, "ping", json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_waits_for_open_calls() {
    let server = start(Start::default()).await;
    let client = server.client().begun().await;
    let stream = client.with_session(client.http.get(&server.url)).header("accept", "text/event-stream");
    let stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let call = client.post(wait(5));
    let call = call.send().await.unwrap();
    server.stop.notify_one();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!server.ended.is_finished());
    assert_eq!(client.request(6, "ping", json!({})).await.status, 503);
    server.fixture.go.notify_one();
    assert!(call.text().await.unwrap().contains("waited"));
    tokio::time::timeout(Duration::from_secs(5), server.ended).await.expect("the server ends").unwrap().unwrap();
    assert!(stream.text().await.is_ok());
    assert!(client.http.get(&server.url).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_does_not_wait_for_ever() {
    let limits = Limits { drain: Duration::from_millis(200), ..Limits::default() };
    let server = start(Start { limits, ..Start::default() }).await;
    let client = server.client().begun().await;
    let call = tokio::spawn(async move { client.call(5, "wait", json!({}), json!({})).await.text });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.stop.notify_one();
    tokio::time::timeout(Duration::from_secs(5), server.ended).await.expect("the server ends").unwrap().unwrap();
    let _ = call.await;
}

impl Client {
    /// A request of 2026-07-28, which needs no session.
    fn alone(&self, id: u64, method: &str, params: Value, acp: Value) -> reqwest::RequestBuilder {
        let mut params = params;
        params["_meta"] = json!({
            "acp": acp,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"experimental": {"acp":
                {"version": "1.0", "stores_system_data": true, "host_tables": true}}},
        });
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = self.post(message.to_string()).header(REVISION, "2026-07-28").header("mcp-method", method);
        if name.is_empty() { request } else { request.header("mcp-name", name) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_that_are_not_announced_are_refused() {
    let server = start(Start::default()).await;
    let client = server.client();
    let call = client.alone(1, "tools/call", json!({"name": "rows", "arguments": {"count": 1}}), json!({}));
    let answer = reply(call).await;
    assert_eq!((answer.status, answer.error()["code"].as_i64()), (400, Some(-32022)), "{}", answer.text);
    assert_eq!(answer.error()["data"]["supported"], json!(["2025-03-26", "2025-06-18", "2025-11-25"]));

    let older = start(Start { revisions: Revisions::up_to("2025-06-18").unwrap(), ..Start::default() }).await;
    let client = older.client().begun().await;
    let ping = || client.post(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}).to_string());
    for (revision, status) in [("2025-06-18", 200), ("2025-11-25", 400), ("2024-11-05", 400), ("", 400), ("x", 400)] {
        assert_eq!(reply(ping().header(REVISION, revision)).await.status, status, "{revision}");
    }
    let stream = client.with_session(client.http.get(&older.url)).header(REVISION, "1999-01-01");
    assert_eq!(stream.send().await.unwrap().status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_sessions_everything_comes_with_the_call() {
    let server = start(Start { revisions: Revisions::up_to("2026-07-28").unwrap(), ..Start::default() }).await;
    let client = server.client();
    let discovered = reply(client.alone(1, "server/discover", json!({}), json!({}))).await;
    let discovered: Value = serde_json::from_str(discovered.message(1)).unwrap();
    assert_eq!(discovered["result"]["capabilities"]["experimental"]["acp"]["version"], "1.0");
    assert_eq!(discovered["result"]["supportedVersions"].as_array().unwrap().len(), 4);

    let call = |id, count, limit| {
        let params = json!({"name": "rows", "arguments": {"count": count}});
        reply(client.alone(id, "tools/call", params, json!({"row_limit": limit})))
    };
    let (few, many) = tokio::join!(call(2, 3, 1), call(2, 5000, 3));
    assert_eq!(few.acp(2)["system_info"]["row_limit"], 1);
    assert_eq!(many.acp(2)["system_info"]["row_limit"], 3);
    assert_eq!(many.acp(2)["system_data"]["row_count"], 5000);
    let first =
        reply(client.alone(3, "tools/call", json!({"name": "rows", "arguments": {"count": 1}}), json!({}))).await;
    assert_eq!(first.acp(3)["system_info"]["row_limit"], 2, "nothing stays from the calls before");

    let configure = reply(client.alone(4, "acp/configure", json!({"row_limit": 3}), json!({}))).await;
    assert_eq!((configure.status, configure.error()["code"].as_i64()), (404, Some(-32601)));
    assert!(configure.error()["message"].as_str().unwrap().contains("_meta.acp"));
    let count =
        reply(client.alone(5, "tools/call", json!({"name": "count", "arguments": {"table_ref": "t"}}), json!({})))
            .await;
    assert_eq!(count.acp(5)["error"]["code"], -32020);
    assert_eq!(
        client
            .http
            .get(&server.url)
            .header("accept", "text/event-stream")
            .header(REVISION, "2026-07-28")
            .send()
            .await
            .unwrap()
            .status(),
        405
    );

    // Closing the stream is how such a call is cancelled.
    let waiting = client.alone(6, "tools/call", json!({"name": "wait", "arguments": {}}), json!({}));
    let waiting = tokio::spawn(reply(waiting));
    until("the call runs", || server.fixture.begun.load(Ordering::SeqCst) == 1).await;
    waiting.abort();
    until("its work is dropped", || server.fixture.dropped.load(Ordering::SeqCst) == 1).await;

    // Clients of older revisions have sessions at the same server.
    let older = server.client().begun().await;
    assert!(older.request(7, "acp/configure", json!({"row_limit": 4})).await.message(7).contains("\"row_limit\":4"));
    assert_eq!(older.call(8, "rows", json!({"count": 9}), json!({})).await.acp(8)["system_info"]["row_limit"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_belong_to_the_oldest_revision() {
    let server = start(Start::default()).await;
    let mut client = server.client();
    client.revision = "2025-03-26";
    let client = client.begun().await;
    let call = |id: u64, count: u64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "rows",
            "arguments": {"count": count}, "_meta": {"acp": {"inline_max_bytes": 0}}}})
    };
    let batch = json!([
        call(1, 52_000),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        call(2, 40_000),
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        7,
        {"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 5, "method": "who/knows"},
        [{"jsonrpc": "2.0", "id": 6, "method": "ping"}],
    ]);
    let answer = client.send(batch.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.table(1), table(0, 52_000));
    assert_eq!(answer.table(2), table(0, 40_000));
    assert!(answer.message(3).contains("\"result\":{}"));
    let errors: Vec<(Value, i64)> = answer
        .messages()
        .map(|text| serde_json::from_str::<Value>(text).unwrap())
        .filter_map(|message| Some((message["id"].clone(), message["error"]["code"].as_i64()?)))
        .collect();
    for expected in [(Value::Null, -32600), (json!(4), -32600), (json!(5), -32601)] {
        assert!(errors.contains(&expected), "{expected:?} in {errors:?}");
    }
    assert_eq!(errors.len(), 4, "{errors:?}");

    let silent = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    assert_eq!(client.send(silent.to_string()).await.status, 202);
    let empty = client.send("[]").await;
    assert_eq!((empty.status, empty.error()["code"].as_i64()), (400, Some(-32600)));
    let long = format!("[{}]", vec!["{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"; 1001].join(","));
    assert_eq!(client.send(long).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_lost_its_stream_gets_the_table_on_another() {
    let server = start(Start::default()).await;
    let client = server.client().begun().await;
    let params = json!({"name": "rows", "arguments": {"count": 3, "wait": true}, "_meta": {"acp": {}}});
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
    let mut lost = client.post(call.to_string()).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("\n\n") {
        seen.push_str(std::str::from_utf8(&lost.chunk().await.unwrap().unwrap()).unwrap());
    }
    let event = seen.lines().find_map(|line| line.strip_prefix("id:")).unwrap().trim().to_owned();
    drop(lost);
    let again = client.with_session(client.http.get(&server.url)).header("accept", "text/event-stream");
    let again = again.header("last-event-id", event).send().await.unwrap();
    server.fixture.go.notify_one();
    let reply = Reply { status: 200, headers: again.headers().clone(), text: again.text().await.unwrap() };
    assert_eq!(reply.table(5), table(0, 3));
}

#[tokio::test]
async fn tables_find_their_places_whatever_the_chunks() {
    let outbox = Arc::<Outbox>::default();
    let tables = OutgoingTables::in_outbox(outbox.clone());
    let request = rmcp::model::RequestId::Number(1);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, table(0, 9000).replace("},{", "},\n{").as_bytes()).unwrap();
    let in_file = tables.add_inline(&request, Text::File(file));
    let in_memory = tables.add_inline(&request, Text::Memory(table(5, 2).into_bytes()));
    let text = format!("data: {{\"a\":{in_memory},\"b\":{in_file}}}\n\ndata: \"acp-table-");
    let chunks = text.clone().into_bytes().into_iter().map(|byte| Ok::<_, std::io::Error>(vec![byte]));
    let response = axum::response::Response::new(Body::from_stream(futures::stream::iter(chunks)));
    let body = with_tables(response, outbox, None).into_body();
    let written = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let expected = format!("data: {{\"a\":{},\"b\":{}}}\n\ndata: \"acp-table-", table(5, 2), table(0, 9000));
    assert!(written == expected.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_hosts_come_inline_or_from_the_given_folder() {
    let server = start(Start { folder: true, ..Start::default() }).await;
    let client = server.client().begun().await;
    let header = json!([{"name": "a", "type": "integer"}]);
    let file = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "[{\"a\":1},{\"a\":2}]").unwrap();
        let uri = format!("file://{}", path.display());
        json!({"format": "file", "row_count": 2, "headers": header, "table_uri": uri})
    };
    let inside = file(&server.folder.path().join("tables/given.json"));
    let outside = file(&server.folder.path().join("other.json"));
    let inline = json!({"format": "inline", "row_count": 1, "headers": header, "table": [{"a": 1}]});
    for (number, (table, said)) in
        [(inline, "rows\\\":1"), (inside, "rows\\\":2"), (outside, "ACP_TMP_DIR")].into_iter().enumerate()
    {
        let params = json!({"name": "count", "arguments": {"table_ref": "t"}, "_meta": {"acp": {}}});
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}).to_string();
        let mut answer = client.post(call).send().await.unwrap();
        let mut seen = String::new();
        while !seen.contains("acp/read_table") {
            seen.push_str(std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap());
        }
        let reply = json!({"jsonrpc": "2.0", "id": number, "result": table});
        assert_eq!(client.send(reply.to_string()).await.status, 202);
        let rest = answer.text().await.unwrap();
        assert!(rest.contains(said), "{said}: {rest}");
    }
}
