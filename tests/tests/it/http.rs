//! The client's side of one Streamable HTTP session, by hand: what is sent is a POST, and what comes, on any of its
//! streams, is a message like a line of stdout.
//!
//! [`Server`](crate::server::Server) uses it where a setup is [`over`](crate::server::Setup::over) HTTP. A test that is
//! about HTTP itself uses [`Client::ask`].

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use crate::server::{Incoming, PATIENCE};

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";

/// One client and its session.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// The endpoint.
    url: String,
    /// Headers of every request, beyond those of MCP.
    headers: HeaderMap,
    /// What the server gave: the session and the revision, as the headers that say them.
    given: Arc<Mutex<HeaderMap>>,
    /// Whether the session was ended.
    ended: Arc<AtomicBool>,
    messages: Sender<Incoming>,
    /// Everything that came, bodies and headers, for the rules about secrets.
    kept: Arc<Mutex<Vec<u8>>>,
}

/// What one request got.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status code.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body, or the last message of an event stream.
    pub(crate) text: String,
}

impl Client {
    /// A client of `url` that trusts `certificate` (PEM), and puts what comes into `messages` and `kept`.
    pub(crate) fn new(
        url: &str,
        certificate: Option<&str>,
        headers: HeaderMap,
        messages: Sender<Incoming>,
        kept: Arc<Mutex<Vec<u8>>>,
    ) -> Self {
        static PROVIDER: LazyLock<()> =
            LazyLock::new(|| _ = rustls::crypto::ring::default_provider().install_default());
        LazyLock::force(&PROVIDER);
        let mut builder = reqwest::Client::builder().no_proxy();
        if let Some(certificate) = certificate {
            let root = reqwest::Certificate::from_pem(certificate.as_bytes()).expect("a certificate");
            builder = builder.tls_certs_only([root]);
        }
        let http = builder.build().expect("a client");
        Self { http, url: url.to_owned(), headers, given: Arc::default(), ended: Arc::default(), messages, kept }
    }

    /// The endpoint.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a message. When this returns, the server has it, and an answer that is no event stream was read.
    pub(crate) fn post(&self, message: &[u8]) {
        let (client, request) = (self.clone(), self.request(Method::POST, &self.url).body(message.to_vec()));
        wait("the head of an answer", async move {
            let response = request.send().await.expect("an answer to a POST");
            client.receive(response).await;
        });
    }

    /// Opens the stream for what belongs to no request.
    pub(crate) fn listen(&self) {
        let (client, request) = (self.clone(), self.request(Method::GET, &self.url));
        wait("the stream of the session", async move {
            let response = request.send().await.expect("an answer to a GET");
            client.receive(response).await;
        });
    }

    /// Ends the session, where there is one, and gives the status.
    pub(crate) fn end(&self) -> Option<u16> {
        let begun = self.given.lock().expect("given").contains_key(SESSION);
        (begun && !self.ended.load(Ordering::SeqCst)).then(|| self.ask("DELETE", "", &Value::Null, "").status)
    }

    /// A request of any kind: `path` is one of the server (empty: its endpoint) or a whole URL; `headers` are set on top
    /// of those that a message has, and those that are null are left out.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &Value, body: &str) -> Reply {
        let url = match path {
            "" => self.url.clone(),
            path if path.starts_with('/') => self.url.trim_end_matches("/mcp").to_owned() + path,
            url => url.to_owned(),
        };
        let request = self.request(method.parse().expect("a method"), &url).body(body.to_owned());
        let mut request = request.build().expect("a request");
        for (name, value) in headers.as_object().into_iter().flatten() {
            let name: HeaderName = name.parse().expect("the name of a header");
            match value.as_str() {
                Some(value) => _ = request.headers_mut().insert(name, value.parse().expect("the value of a header")),
                None => _ = request.headers_mut().remove(name),
            }
        }
        let (client, what) = (self.clone(), format!("the answer to {method} {url}"));
        let reply = wait(&what, async move {
            let response = client.http.execute(request).await.expect("an answer");
            client.keep_head(&response);
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let text = if is_stream(&response) {
                let mut last = String::new();
                client.events(response, |data| last = data).await;
                last
            } else {
                client.body(response).await
            };
            Reply { status, headers, text }
        });
        if method == "DELETE" && reply.status < 300 {
            self.ended.store(true, Ordering::SeqCst);
        }
        reply
    }

    fn request(&self, method: Method, url: &str) -> RequestBuilder {
        let given = self.given.lock().expect("given").clone();
        let request = self.http.request(method, url).headers(self.headers.clone()).headers(given);
        request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json, text/event-stream")
    }

    /// Hands on what a response holds; an event stream is read on.
    async fn receive(&self, response: Response) {
        self.keep_head(&response);
        if let Some(session) = response.headers().get(SESSION) {
            self.give(SESSION, session.clone());
        }
        let status = response.status().as_u16();
        if is_stream(&response) {
            let client = self.clone();
            runtime().spawn(async move {
                client.events(response, |text| client.hand_on(text, status)).await;
            });
            return;
        }
        let text = self.body(response).await;
        if !(status == 202 && text.is_empty()) {
            self.hand_on(text, status);
        }
    }

    fn hand_on(&self, text: String, status: u16) {
        if !self.given.lock().expect("given").contains_key(REVISION)
            && let Ok(message) = serde_json::from_str::<Value>(&text)
            && let Some(revision) = message.pointer("/result/protocolVersion").and_then(Value::as_str)
        {
            self.give(REVISION, revision.parse().expect("a revision"));
        }
        // A test that has ended does not want it any more.
        let _ = self.messages.send(Incoming { text, status: Some(status) });
    }

    fn give(&self, name: &'static str, value: HeaderValue) {
        self.given.lock().expect("given").insert(name, value);
    }

    /// The data of every event. A stream that breaks off has ended: what is missing then is missed by who waits for it.
    async fn events(&self, mut response: Response, mut each: impl FnMut(String)) {
        let (mut line, mut data) = (Vec::new(), Vec::new());
        while let Ok(Some(chunk)) = response.chunk().await {
            self.keep(&chunk);
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if !line.ends_with(b"\n") {
                    continue;
                }
                let text = String::from_utf8(std::mem::take(&mut line)).expect("events are UTF-8");
                let text = text.trim_end_matches(['\r', '\n']);
                match text.split_once(':') {
                    None if text.is_empty() && data.is_empty() => {}
                    None if text.is_empty() => {
                        let event = std::mem::take(&mut data).join("\n");
                        if !event.is_empty() {
                            each(event);
                        }
                    }
                    Some(("data", value)) => data.push(value.strip_prefix(' ').unwrap_or(value).to_owned()),
                    Some(("" | "id" | "event" | "retry", _)) => {}
                    _ => each(format!("not a line of an event stream: {text}")),
                }
            }
        }
    }

    async fn body(&self, response: Response) -> String {
        let bytes = response.bytes().await.expect("a body");
        self.keep(&bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn keep_head(&self, response: &Response) {
        self.keep(format!("{:?}\n", response.headers()).as_bytes());
    }

    fn keep(&self, bytes: &[u8]) {
        self.kept.lock().expect("kept").extend_from_slice(bytes);
    }
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio")
    });
    &RUNTIME
}

/// Runs `work` to its end, wherever the test runs.
fn wait<T: Send + 'static>(what: &str, work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, result) = channel();
    runtime().spawn(async move {
        let _ = done.send(work.await);
    });
    result.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{what} did not come ({error})"))
}
