//! A small HTTP/1.1 server whose answers are scripted, and credentials that go with it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use acp_core::Credentials;
use acp_google::{Endpoints, Google, Options, Timing};
use rsa::PrivateKey;
use rsa::pkcs8::{EncodePrivateKey, LineEnding};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const SCOPES: &[&str] = &["https://www.googleapis.com/auth/analytics.readonly"];
pub(crate) const EMAIL: &str = "robot@project.iam.gserviceaccount.com";

/// One key for all tests of a binary: making it takes a while.
pub(crate) static KEY: LazyLock<PrivateKey> =
    LazyLock::new(|| PrivateKey::new(&mut rand::rngs::SysRng, 2048).expect("a key"));

pub(crate) fn pem() -> String {
    KEY.to_pkcs8_pem(LineEnding::LF).expect("a PEM").to_string()
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn bearer(&self) -> &str {
        self.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
    }

    /// A field of a form.
    pub(crate) fn field(&self, name: &str) -> String {
        url::form_urlencoded::parse(&self.body)
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
            .unwrap_or_default()
    }
}

pub(crate) enum Answer {
    Http {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// Ends the connection without a word.
    Hangup,
    /// Says that the body has this many bytes more than it sends.
    Cut {
        body: Vec<u8>,
        missing: usize,
    },
    /// Never answers.
    Silence,
}

pub(crate) fn json(status: u16, body: Value) -> Answer {
    raw(status, "application/json; charset=UTF-8", body.to_string())
}

pub(crate) fn raw(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Answer {
    Answer::Http { status, headers: vec![("content-type", kind.to_owned())], body: body.into() }
}

pub(crate) fn google_error(status: u16, reason: &str, message: &str) -> Answer {
    json(status, json!({"error": {"code": status, "message": message, "errors": [{"reason": reason}]}}))
}

impl Answer {
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Http { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

type Handler = dyn Fn(usize, &Request) -> Answer + Send + Sync;

pub(crate) struct Fake {
    pub(crate) base: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Fake {
    /// `token` answers the token endpoint, `api` everything else; each gets the number of its request, from 0.
    pub(crate) async fn with_token(
        token: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static,
        api: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let handlers: Arc<(Box<Handler>, Box<Handler>)> = Arc::new((Box::new(token), Box::new(api)));
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, handlers.clone(), seen.clone()));
            }
        });
        Self { base, requests }
    }

    /// A token endpoint that gives `ya29.issued-0`, `ya29.issued-1`, and so on.
    pub(crate) async fn start(api: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::with_token(issue, api).await
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/v1/report?secret=no", self.base)
    }

    pub(crate) fn google(&self) -> Google {
        Google::new(Options {
            endpoints: Endpoints::sandbox(&self.base).expect("a loopback address"),
            ca_file: None,
            timing: Timing {
                headers: Duration::from_millis(700),
                idle: Duration::from_millis(700),
                token: Duration::from_millis(700),
                first_wait: Duration::from_millis(2),
                longest_wait: Duration::from_millis(20),
                ..Timing::default()
            },
        })
        .expect("a client")
    }

    pub(crate) fn requests(&self, token_endpoint: bool) -> Vec<Request> {
        let requests = self.requests.lock().expect("a lock");
        requests.iter().filter(|request| is_token(request) == token_endpoint).cloned().collect()
    }

    pub(crate) fn exchanges(&self) -> usize {
        self.requests(true).len()
    }

    pub(crate) fn calls(&self) -> usize {
        self.requests(false).len()
    }
}

pub(crate) fn issue(number: usize, _: &Request) -> Answer {
    json(200, json!({"access_token": format!("ya29.issued-{number}"), "expires_in": 3599, "token_type": "Bearer"}))
}

fn is_token(request: &Request) -> bool {
    request.target.starts_with("/token")
}

async fn serve(
    mut stream: TcpStream,
    handlers: Arc<(Box<Handler>, Box<Handler>)>,
    seen: Arc<Mutex<Vec<Request>>>,
) -> Option<()> {
    let request = read(&mut stream).await?;
    let token = is_token(&request);
    let number = {
        let mut seen = seen.lock().expect("a lock");
        seen.push(request.clone());
        seen.iter().filter(|other| is_token(other) == token).count() - 1
    };
    let answer = if token { (handlers.0)(number, &request) } else { (handlers.1)(number, &request) };
    let (status, headers, body, missing) = match answer {
        Answer::Http { status, headers, body } => (status, headers, body, 0),
        Answer::Cut { body, missing } => (200, vec![("content-type", "application/json".to_owned())], body, missing),
        Answer::Hangup => return Some(()),
        Answer::Silence => {
            tokio::time::sleep(Duration::from_secs(5)).await;
            return Some(());
        }
    };
    let mut head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n", body.len() + missing);
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
    stream.shutdown().await.ok()
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut start = lines.next()?.split(' ');
    let (method, target) = (start.next()?.to_owned(), start.next()?.to_owned());
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request { method, target, headers, body })
}

pub(crate) fn credentials(values: Value) -> Credentials {
    Credentials::new(values.as_object().expect("an object").clone())
}

pub(crate) fn key_file() -> Value {
    json!({
        "type": "service_account", "project_id": "p", "private_key_id": "abc123", "private_key": pem(),
        "client_email": EMAIL, "client_id": "1", "token_uri": "https://oauth2.googleapis.com/token",
    })
}

pub(crate) fn service_account() -> Credentials {
    credentials(json!({"type": "service_account", "service_account": key_file().to_string()}))
}

/// A login whose access token may be given or not.
pub(crate) fn login(access_token: Option<&str>, expiry_date: Value) -> Credentials {
    credentials(json!({"type": "google_oauth", "access_token": access_token, "expiry_date": expiry_date,
        "refresh_token": "1//refresh-refresh", "client_id": "id.apps.test", "client_secret": "GOCSPX-secret",
        "email": "ana@x.test"}))
}
