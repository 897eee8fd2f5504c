//! A server that already runs somewhere, over Streamable HTTP: to the client it looks like a pair of streams of lines.
//!
//! Each line out is a POST of its own; what comes back, as JSON or as events, are lines in. A failure of HTTP becomes the
//! JSON-RPC error of the request that it concerns.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use url::Url;

use crate::client::{Client, ClientError, ClientOptions};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const CONNECT_PATIENCE: Duration = Duration::from_secs(20);
/// How long a notification, an answer of the host's or the end of a session may take.
const BRIEF: Duration = Duration::from_secs(30);
/// Bytes on their way between the client and this module.
const PIPE: usize = 64 * 1024;
/// Answers that wait to be read.
const QUEUE: usize = 16;
/// Longest event or body; the client refuses longer lines too.
const MESSAGE_MAX: usize = 256 * 1024 * 1024;
/// Of the body of a refusal, what a person gets to see.
const REFUSAL_MAX: usize = 300;

/// The connection to a remote server.
pub(crate) struct Remote {
    /// Speaks to it.
    pub(crate) client: Client,
    /// Whether it runs on this computer, so that its files can be read.
    pub(crate) local: bool,
    /// Ends when everything is said and the session is ended, once the client's input is closed.
    pub(crate) session: JoinHandle<()>,
}

/// Connects to a remote server. The address must be `https`, or `http` on this computer: credentials travel over it.
pub(crate) fn connect(
    url: &str,
    headers: Option<&BTreeMap<String, String>>,
    options: ClientOptions,
) -> Result<Remote, ClientError> {
    let refuse = |reason: &str| ClientError::Start(format!("the address of the server in acp.json {reason}"));
    let url = Url::parse(url).map_err(|_| refuse("is no URL"))?;
    if !(url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url)) {
        return Err(refuse("must begin with https, or with http on this computer"));
    }
    let mut all = HeaderMap::new();
    for (name, value) in headers.into_iter().flatten() {
        let name: HeaderName = name.parse().map_err(|_| refuse("comes with a header that is none"))?;
        let mut value: HeaderValue = value.parse().map_err(|_| refuse("comes with a header that is none"))?;
        value.set_sensitive(true);
        all.insert(name, value);
    }
    // An error means that the process has a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .default_headers(all)
        // A redirect would carry credentials to another host.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_PATIENCE);
    let local = is_loopback(&url);
    if local {
        builder = builder.no_proxy();
    }
    let http =
        builder.build().map_err(|error| ClientError::Start(format!("secure connections can't be set up: {error}")))?;
    let (near, far) = tokio::io::duplex(PIPE);
    let (reader, writer) = tokio::io::split(near);
    let (from_client, to_client) = tokio::io::split(far);
    let (lines, mut queue) = mpsc::channel::<Vec<u8>>(QUEUE);
    let poster = Arc::new(Poster { http, url, session: Mutex::default(), lines });
    tokio::spawn(async move {
        let mut to_client = to_client;
        while let Some(line) = queue.recv().await {
            if to_client.write_all(&line).await.is_err() {
                break;
            }
        }
    });
    let session = tokio::spawn(poster.serve(BufReader::new(from_client)));
    Ok(Remote { client: Client::start(reader, writer, options), local, session })
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

struct Poster {
    http: reqwest::Client,
    url: Url,
    session: Mutex<Session>,
    lines: mpsc::Sender<Vec<u8>>,
}

/// What every request repeats once `initialize` is answered.
#[derive(Clone, Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// The parts of a message that say how to send it.
#[derive(Deserialize)]
struct Outgoing<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
}

impl Poster {
    async fn serve(self: Arc<Self>, mut from_client: impl AsyncBufReadExt + Unpin) {
        let mut open = tokio::task::JoinSet::new();
        let mut line = String::new();
        while from_client.read_line(&mut line).await.is_ok_and(|count| count > 0) {
            let message = std::mem::take(&mut line);
            let Ok(outgoing) = serde_json::from_str::<Outgoing<'_>>(&message) else { continue };
            let request = outgoing.id.filter(|_| outgoing.method.is_some()).map(ToOwned::to_owned);
            let initialize = outgoing.method.as_deref() == Some("initialize");
            match request {
                Some(id) if initialize => {
                    self.request(id, message, true).await;
                    let listening = Arc::clone(&self);
                    open.spawn(async move { listening.listen().await });
                }
                Some(id) => {
                    let asking = Arc::clone(&self);
                    open.spawn(async move { asking.request(id, message, false).await });
                }
                // In order: a cancellation, for one, must not overtake what it cancels by much.
                None => _ = tokio::time::timeout(BRIEF, self.post(message).send()).await,
            }
            while open.try_join_next().is_some() {}
        }
        open.shutdown().await;
        if self.session().id.is_some() {
            let _ = tokio::time::timeout(BRIEF, self.with_session(self.http.delete(self.url.clone())).send()).await;
        }
    }

    fn post(&self, message: String) -> RequestBuilder {
        self.with_session(self.http.post(self.url.clone()))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message)
    }

    async fn request(&self, id: Box<RawValue>, message: String, initialize: bool) {
        let outcome = match self.post(message).send().await {
            Err(error) => Err(format!("the server can't be reached: {}", without_url(error))),
            Ok(response) => {
                if initialize && let Some(session) = response.headers().get(SESSION) {
                    self.lock().id = Some(session.clone());
                }
                self.receive(response, initialize).await
            }
        };
        if let Err(problem) = outcome {
            let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": problem}});
            self.pass_on(error.to_string().into_bytes(), false).await;
        }
    }

    /// The stream on which a server sends what belongs to no request. Servers need not have one.
    async fn listen(&self) {
        let get = self.with_session(self.http.get(self.url.clone())).header(ACCEPT, "text/event-stream");
        if let Ok(response) = get.send().await
            && response.status().is_success()
            && is_event_stream(&response)
        {
            let _ = self.events(response, false).await;
        }
    }

    async fn receive(&self, mut response: Response, initialize: bool) -> Result<(), String> {
        let status = response.status();
        if !status.is_success() {
            let body = body(&mut response, REFUSAL_MAX).await.unwrap_or_default();
            let words = String::from_utf8_lossy(&body).into_owned();
            return Err(match status {
                StatusCode::NOT_FOUND => "the server no longer knows the session (404)".to_owned(),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    format!("the server asks for other headers in acp.json ({status})")
                }
                _ => format!("the server answered {status}: {words}"),
            });
        }
        if is_event_stream(&response) {
            return self.events(response, initialize).await;
        }
        if status == StatusCode::ACCEPTED {
            return Err("the server accepted a request and gave no answer".to_owned());
        }
        let body = body(&mut response, MESSAGE_MAX).await?;
        self.pass_on(body, initialize).await;
        Ok(())
    }

    /// Passes on the events of a stream, each a message.
    async fn events(&self, mut response: Response, initialize: bool) -> Result<(), String> {
        let (mut line, mut data) = (Vec::new(), Vec::new());
        while let Some(chunk) =
            response.chunk().await.map_err(|error| format!("the stream broke off: {}", without_url(error)))?
        {
            for part in chunk.split_inclusive(|byte| *byte == b'\n') {
                if line.len() + data.len() + part.len() > MESSAGE_MAX {
                    return Err(format!("the server sent an event of more than {MESSAGE_MAX} bytes"));
                }
                line.extend_from_slice(part);
                if line.last() != Some(&b'\n') {
                    continue;
                }
                let text = line.trim_ascii_end();
                if text.is_empty() {
                    if !data.is_empty() {
                        self.pass_on(std::mem::take(&mut data), initialize).await;
                    }
                } else if let Some(value) = text.strip_prefix(b"data:") {
                    data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                    data.push(b' ');
                }
                line.clear();
            }
        }
        Ok(())
    }

    async fn pass_on(&self, mut message: Vec<u8>, initialize: bool) {
        if initialize {
            let version = serde_json::from_slice::<Value>(&message).ok();
            let version = version.as_ref().and_then(|answer| answer["result"]["protocolVersion"].as_str());
            self.lock().version = version.and_then(|version| version.parse().ok());
        }
        // Between tokens a line break is white space, and inside a string JSON escapes it.
        message.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        message.push(b'\n');
        let _ = self.lines.send(message).await;
    }

    fn with_session(&self, request: RequestBuilder) -> RequestBuilder {
        let session = self.session();
        let named = [(SESSION, session.id), (VERSION, session.version)];
        let there = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
        there.fold(request, |request, (name, value)| request.header(name, value))
    }

    fn session(&self) -> Session {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_event_stream(response: &Response) -> bool {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

/// A body of at most `max` bytes.
async fn body(response: &mut Response, max: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| format!("the answer broke off: {}", without_url(error)))?
    {
        if body.len() + chunk.len() > max {
            return Err(format!("the server sent more than {max} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Addresses can hold secrets.
fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
