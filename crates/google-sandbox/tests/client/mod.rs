//! A small HTTP/1.1 client: one request for each connection, so that faults show as they are on the wire.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use google_sandbox::{Options, Sandbox};
use rsa::pkcs1v15::SigningKey;
use rsa::pkcs8::DecodePrivateKey;
use rsa::sha2::Sha256;
use rsa::signature::{SignatureEncoding, Signer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const READONLY: &str = "https://www.googleapis.com/auth/analytics.readonly";

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body is as long as its framing said.
    pub(crate) complete: bool,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Sends a request and reads until the server closes the connection.
pub(crate) async fn send(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await?;
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await?;
    Ok(parse(&raw))
}

fn parse(raw: &[u8]) -> Response {
    let split = raw.windows(4).position(|w| w == b"\r\n\r\n").expect("a response head");
    let head = String::from_utf8(raw[..split].to_vec()).unwrap();
    let rest = &raw[split + 4..];
    let status = head[9..12].parse().unwrap();
    let mut response = Response { status, head, body: Vec::new(), complete: false };
    if response.header("transfer-encoding") == Some("chunked") {
        (response.body, response.complete) = dechunk(rest);
    } else {
        let length: usize = response.header("content-length").map_or(0, |n| n.parse().unwrap());
        response.body = rest.to_vec();
        response.complete = rest.len() == length;
    }
    response
}

fn dechunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, true);
        }
        let take = size.min(rest.len());
        body.extend_from_slice(&rest[..take]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}

/// A running sandbox with the tools to talk to it.
pub(crate) struct Bench {
    pub(crate) sandbox: Sandbox,
    pub(crate) facts: Value,
    _dir: TempDir,
}

impl Bench {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = google_sandbox::start(Options::in_dir(dir.path())).await.unwrap();
        let facts = sandbox.facts();
        Self { sandbox, facts, _dir: dir }
    }

    pub(crate) fn url(&self) -> &str {
        self.sandbox.url()
    }

    /// The id of the property of that kind.
    pub(crate) fn property(&self, kind: &str) -> String {
        self.facts["properties"].as_array().unwrap().iter().find(|p| p["kind"] == kind).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The service account key in a credential file.
    pub(crate) fn key(&self, limited: bool) -> Value {
        let files = self.sandbox.credentials();
        let path = if limited { &files.limited } else { &files.full };
        let credentials: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(credentials["type"], "service_account");
        serde_json::from_str(credentials["service_account"].as_str().unwrap()).unwrap()
    }

    /// A token that the account signed itself, as Google's client libraries do.
    pub(crate) fn self_signed(&self, key: &Value, changes: &Value) -> String {
        sign(key, changes)
    }

    /// Exchanges claims signed with a key; `changes` replace the usual claims.
    pub(crate) async fn exchange(&self, key: &Value, changes: Value) -> Response {
        let assertion = sign(key, &changes);
        self.token_form(&[
            ("grant_type", "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"),
            ("assertion", &assertion),
        ])
        .await
    }

    pub(crate) async fn token_form(&self, fields: &[(&str, &str)]) -> Response {
        let body: Vec<String> = fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        send(self.url(), "POST", "/token", &headers, body.join("&").as_bytes()).await.unwrap()
    }

    pub(crate) async fn token(&self, limited: bool) -> String {
        let answer = self.exchange(&self.key(limited), json!({})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["access_token"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Response {
        let bearer = format!("Bearer {token}");
        send(self.url(), "GET", path, &[("Authorization", &bearer)], b"").await.unwrap()
    }

    pub(crate) async fn try_post(&self, token: &str, path: &str, body: &Value) -> io::Result<Response> {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        send(self.url(), "POST", path, &headers, body.to_string().as_bytes()).await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: &Value) -> Response {
        self.try_post(token, path, body).await.unwrap()
    }

    /// A report that must succeed.
    pub(crate) async fn report(&self, token: &str, property: &str, body: &Value) -> Value {
        let path = format!("/v1beta/properties/{property}:runReport");
        let answer = self.post(token, &path, body).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// The message of a report that must be refused with 400.
    pub(crate) async fn refusal(&self, token: &str, property: &str, body: &Value) -> String {
        let path = format!("/v1beta/properties/{property}:runReport");
        let answer = self.post(token, &path, body).await;
        assert_eq!(answer.status, 400, "{}", String::from_utf8_lossy(&answer.body));
        let error = answer.json();
        assert_eq!(error["error"]["status"], "INVALID_ARGUMENT");
        error["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// Claims signed with a key; a number among the changes is a shift from now.
fn sign(key: &Value, changes: &Value) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({
        "iss": key["client_email"], "scope": READONLY, "aud": key["token_uri"], "iat": now, "exp": now + 3600,
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = match value.as_i64() {
            Some(shift) => json!(now as i64 + shift),
            None => value.clone(),
        };
    }
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": key["private_key_id"]});
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let pem = key["private_key"].as_str().unwrap();
    let signer = SigningKey::<Sha256>::new(rsa::PrivateKey::from_pkcs8_pem(pem).unwrap());
    let signature = URL_SAFE_NO_PAD.encode(signer.sign(signed.as_bytes()).to_bytes());
    format!("{signed}.{signature}")
}

/// A report body over the last 28 whole days.
pub(crate) fn body(dimensions: &[&str], metrics: &[&str], more: Value) -> Value {
    let named = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    let mut body = json!({
        "dateRanges": [{"startDate": "28daysAgo", "endDate": "yesterday"}],
        "dimensions": named(dimensions),
        "metrics": named(metrics),
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// Texts of a column of a report: `dimensionValues` or `metricValues`.
pub(crate) fn column(report: &Value, rows: &str, kind: &str, index: usize) -> Vec<String> {
    report[rows]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| row[kind][index]["value"].as_str().unwrap_or_default().to_owned())
        .collect()
}

pub(crate) fn numbers(report: &Value, rows: &str, index: usize) -> Vec<f64> {
    column(report, rows, "metricValues", index).iter().map(|text| text.parse().unwrap()).collect()
}
