//! The listener: connections, routing, faults, latency, the log.

use std::any::Any;
use std::io;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::answer::{Answer, BodyFaults, Content, SandboxBody};
use crate::exchanges::Exchanges;
use crate::faults::{Fault, FaultAction, Faults};
use crate::google_error::GoogleError;
use crate::identities::{Identities, Identity, Refused};
use crate::quota::Ledger;
use crate::request_log::{LoggedRequest, RequestLog};
use crate::search_console::{self, SearchConsole};
use crate::world::World;
use crate::{analytics_admin, analytics_data, bigquery, facts, token};

/// The largest request body that is read.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// The largest body of an upload to BigQuery.
const MAX_UPLOAD: usize = 128 * 1024 * 1024;

/// Smaller answers aren't worth compressing.
const GZIP_FROM: usize = 1024;

/// What every connection shares.
pub(crate) struct Shared {
    /// Base URL.
    pub(crate) url: String,
    /// Added to every answer.
    pub(crate) latency: Duration,
    /// Who exists.
    pub(crate) identities: Identities,
    /// What exists.
    pub(crate) world: Arc<World>,
    /// What goes wrong.
    pub(crate) faults: Faults,
    /// What was asked.
    pub(crate) log: Arc<RequestLog>,
    /// What was asked and answered, word for word, while somebody wants it.
    pub(crate) exchanges: Exchanges,
    /// What was spent.
    pub(crate) ledger: Arc<Ledger>,
    /// Search Console: its sites, its searches, its switches.
    pub(crate) search_console: Arc<SearchConsole>,
    /// BigQuery: its jobs, what they billed, its switches.
    pub(crate) bigquery: bigquery::BigQuery,
}

impl Shared {
    /// What was spent: Analytics tokens, and bytes that BigQuery billed.
    pub(crate) fn ledger_json(&self) -> Value {
        let jobs = &self.bigquery.switches.ledger;
        json!({"analytics": self.ledger.to_json(), "bigquery": jobs.to_json(), "bytes_billed": jobs.bytes_billed()})
    }

    /// The identity behind a request whose token has one of `scopes`, or Google's refusal.
    pub(crate) fn authorize(
        &self,
        request: &ApiRequest,
        scopes: &[&str],
        service: &str,
        method: &str,
    ) -> Result<Identity, GoogleError> {
        self.identities.authorize(request.bearer.as_deref(), scopes).map_err(|refused| match refused {
            Refused::Missing => GoogleError::credentials_missing(service, method),
            Refused::Invalid => GoogleError::invalid_credentials(),
            Refused::Scope => GoogleError::insufficient_scope(service, method),
        })
    }
}

/// A request with its body read.
pub(crate) struct ApiRequest {
    /// HTTP method.
    pub(crate) method: String,
    /// Path, percent-encoded as it came, without the query.
    pub(crate) path: String,
    /// Query, without the question mark.
    pub(crate) query: String,
    /// Bearer token.
    pub(crate) bearer: Option<String>,
    /// What the client calls itself.
    pub(crate) user_agent: String,
    /// `Content-Type`, as it came.
    pub(crate) content_type: String,
    /// `Content-Range`.
    pub(crate) content_range: Option<String>,
    accepts_gzip: bool,
    /// Body.
    pub(crate) body: Bytes,
}

impl ApiRequest {
    /// A query parameter, decoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then(|| {
                percent_encoding::percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned()
            })
        })
    }
}

/// Accepts connections until told to stop; then closes all of them.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&shared)));
                }
                // Out of file descriptors, for instance: pause instead of spinning.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = stopped.changed() => break,
        }
    }
    connections.shutdown().await;
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Connection { stream, reset: Arc::clone(&reset) });
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        let reset = Arc::clone(&reset);
        async move { handle(&shared, request, &reset).await }
    });
    // An error here is a client that went away, or a fault doing its work.
    let _ = http1::Builder::new().timer(TokioTimer::new()).serve_connection(io, service).await;
}

/// A TCP stream that can end with a reset instead of a polite close.
struct Connection {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.reset.load(Ordering::SeqCst) {
            // Closing a socket that lingers for zero seconds sends RST.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reset.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Answers one request. An error means: close the connection without an answer.
async fn handle(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    reset: &AtomicBool,
) -> Result<Response<SandboxBody>, io::Error> {
    let started = Instant::now();
    let control = request.uri().path().starts_with("/__sandbox/");
    let running: Option<Box<dyn Any + Send + Sync>> =
        (!control).then(|| Box::new(shared.log.enter()) as Box<dyn Any + Send + Sync>);
    let method = request.method().as_str().to_owned();
    let path = request.uri().path().to_owned();
    let read = read(request).await?;
    if control {
        let answer = read.map_or_else(|error| error.answer(), |request| control_route(shared, &request));
        return Ok(respond(answer, BodyFaults::default(), Vec::new()));
    }
    let log = |status: u16| {
        shared.log.push(LoggedRequest {
            method: method.clone(),
            path: path.clone(),
            status,
            ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    };
    let fate = Fate::of(shared, &method, &path, read.as_ref().ok());
    if fate.reset {
        log(0);
        reset.store(true, Ordering::SeqCst);
        return Err(io::Error::other("reset by a sandbox fault"));
    }
    let answer = match (fate.replacement, read) {
        (Some(answer), _) => answer,
        (None, Err(error)) => error.answer(),
        (None, Ok(request)) => compute(shared, request).await,
    };
    // After the work, not before it: a slow request counts as concurrent while it is slow.
    if !fate.wait.is_zero() {
        tokio::time::sleep(fate.wait).await;
    }
    log(answer.status);
    Ok(respond(answer, fate.body, running.into_iter().collect()))
}

/// What the scripted faults have in store for a request.
struct Fate {
    wait: Duration,
    reset: bool,
    replacement: Option<Answer>,
    body: BodyFaults,
}

impl Fate {
    fn of(shared: &Shared, method: &str, path: &str, request: Option<&ApiRequest>) -> Self {
        let mut fate = Self { wait: shared.latency, reset: false, replacement: None, body: BodyFaults::default() };
        for action in shared.faults.hit(method, path, request.map_or(&[], |request| &request.body)) {
            match action {
                FaultAction::Delay(ms) => fate.wait += Duration::from_millis(ms),
                FaultAction::CutAfterBytes(bytes) => fate.body.cut_after = Some(bytes),
                FaultAction::Drip(ms) => fate.body.drip = Some(Duration::from_millis(ms)),
                FaultAction::Reset => fate.reset = true,
                FaultAction::ExpireToken => {
                    if let Some(token) = request.and_then(|request| request.bearer.as_deref()) {
                        shared.identities.revoke(token);
                    }
                    fate.replacement = Some(GoogleError::invalid_credentials().answer());
                }
                FaultAction::Status { code, headers, body } => {
                    let mut answer = Answer::raw(code, "", body);
                    answer.headers = headers;
                    fate.replacement = Some(answer);
                }
            }
        }
        fate
    }
}

/// Reports are computed off the event loop, so that a slow one delays nobody else.
async fn compute(shared: &Arc<Shared>, request: ApiRequest) -> Answer {
    let shared = Arc::clone(shared);
    let computed = tokio::task::spawn_blocking(move || {
        let answer = shared.exchanges.note(&request, route(&shared, &request));
        let pretty = request.parameter("prettyPrint").is_some_and(|value| value == "true" || value == "1");
        finish(answer, pretty, request.accepts_gzip)
    });
    match computed.await {
        Ok(answer) => answer,
        Err(_) => Answer::json(
            500,
            &json!({"error": {"code": 500, "message": "Internal error encountered.", "status": "INTERNAL"}}),
        ),
    }
}

fn route(shared: &Shared, request: &ApiRequest) -> Answer {
    let path = request.path.as_str();
    if path == "/token" && request.method == "POST" {
        return token::answer(
            &shared.identities,
            &format!("{}/token", shared.url),
            &request.content_type.to_ascii_lowercase(),
            &request.body,
        );
    }
    analytics_data::route(shared, request)
        .or_else(|| analytics_admin::route(shared, request))
        .or_else(|| search_console::route(shared, request))
        .or_else(|| bigquery::route(shared, request))
        .unwrap_or_else(|| Answer::html_not_found(path))
}

/// The sandbox's own routes: what was planted, what was asked, what was spent, what shall go wrong.
fn control_route(shared: &Shared, request: &ApiRequest) -> Answer {
    let done = || Answer::json(200, &json!({}));
    let refused = |why: String| Answer::json(400, &json!({"error": why}));
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/__sandbox/facts") => Answer::json(200, &facts::facts(shared)),
        ("GET", "/__sandbox/log") => Answer::json(200, &shared.log.to_json()),
        ("DELETE", "/__sandbox/log") => {
            shared.log.clear();
            done()
        }
        ("GET", "/__sandbox/exchanges") => Answer::json(200, &shared.exchanges.to_json()),
        ("POST", "/__sandbox/exchanges") => {
            shared.exchanges.start();
            done()
        }
        ("DELETE", "/__sandbox/exchanges") => {
            shared.exchanges.stop();
            done()
        }
        ("GET", "/__sandbox/ledger") => Answer::json(200, &shared.ledger_json()),
        ("DELETE", "/__sandbox/ledger") => {
            shared.ledger.clear();
            shared.bigquery.switches.clear_jobs();
            done()
        }
        ("POST", "/__sandbox/quota") => match set_quota(shared, &request.body) {
            Ok(()) => done(),
            Err(why) => refused(why),
        },
        ("POST", "/__sandbox/search_console") => match set_search_console(shared, &request.body) {
            Ok(()) => done(),
            Err(why) => refused(why),
        },
        ("DELETE", "/__sandbox/search_console") => {
            shared.search_console.switches.clear();
            done()
        }
        ("POST", "/__sandbox/bigquery") => match set_bigquery(shared, &request.body) {
            Ok(()) => done(),
            Err(why) => refused(why),
        },
        ("DELETE", "/__sandbox/bigquery") => {
            shared.bigquery.switches.clear();
            done()
        }
        ("POST", "/__sandbox/faults") => match add_fault(shared, &request.body) {
            Ok(()) => done(),
            Err(why) => refused(why),
        },
        ("DELETE", "/__sandbox/faults") => {
            shared.faults.clear();
            done()
        }
        _ => Answer::html_not_found(&request.path),
    }
}

fn add_fault(shared: &Shared, body: &[u8]) -> Result<(), String> {
    let value: Value = serde_json::from_slice(body).map_err(|e| format!("not JSON: {e}"))?;
    shared.faults.add(Fault::from_json(&value)?);
    Ok(())
}

fn set_search_console(shared: &Shared, body: &[u8]) -> Result<(), String> {
    let value: Value = serde_json::from_slice(body).map_err(|e| format!("not JSON: {e}"))?;
    shared.search_console.switches.set_json(&value)
}

fn set_bigquery(shared: &Shared, body: &[u8]) -> Result<(), String> {
    let value: Value = serde_json::from_slice(body).map_err(|e| format!("not JSON: {e}"))?;
    shared.bigquery.switches.set_json(&value)
}

fn set_quota(shared: &Shared, body: &[u8]) -> Result<(), String> {
    let value: Value = serde_json::from_slice(body).map_err(|e| format!("not JSON: {e}"))?;
    let text = |name: &str| value[name].as_str().ok_or_else(|| format!("`{name}` (a string) is required"));
    let tokens = value["tokens"].as_u64().ok_or("`tokens` (a number) is required")?;
    shared.ledger.set_remaining(text("email")?, text("property")?, tokens);
    Ok(())
}

/// Reads a request; the inner error is an answer to give, the outer one a client that went away.
async fn read(request: Request<Incoming>) -> io::Result<Result<ApiRequest, GoogleError>> {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let bearer = header("authorization").strip_prefix("Bearer ").map(|token| token.trim().to_owned());
    let user_agent = header("user-agent").to_owned();
    let content_type = header("content-type").to_owned();
    let content_range = Some(header("content-range").to_owned()).filter(|range| !range.is_empty());
    let accepts_gzip = header("accept-encoding").contains("gzip");
    let upload = head.uri.path().starts_with("/upload/") || head.uri.path().starts_with("/resumable/upload/");
    let most = if upload { MAX_UPLOAD } else { MAX_BODY };
    let body = match Limited::new(body, most).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Ok(Err(GoogleError::too_large()));
        }
        Err(error) => return Err(io::Error::other(error)),
    };
    Ok(Ok(ApiRequest {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        bearer,
        user_agent,
        content_type,
        content_range,
        accepts_gzip,
        body,
    }))
}

/// Indents and compresses what was asked for; a streamed body is always compact and plain.
fn finish(mut answer: Answer, pretty: bool, gzip: bool) -> Answer {
    let Content::Whole(bytes) = &mut answer.content else {
        return answer;
    };
    if pretty {
        let parsed = serde_json::from_slice::<Value>(bytes);
        if let Some(text) = parsed.ok().and_then(|v| serde_json::to_string_pretty(&v).ok()) {
            *bytes = Bytes::from(text + "\n");
        }
    }
    if gzip && bytes.len() >= GZIP_FROM {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
        if let Ok(packed) = packed {
            *bytes = Bytes::from(packed);
            answer.headers.push(("Content-Encoding".into(), "gzip".into()));
        }
    }
    answer
}

fn respond(answer: Answer, faults: BodyFaults, mut held: Vec<Box<dyn Any + Send + Sync>>) -> Response<SandboxBody> {
    held.extend(answer.held);
    let body = SandboxBody::new(answer.content, faults, held);
    let mut response = Response::new(body);
    if let Ok(status) = hyper::StatusCode::from_u16(answer.status) {
        *response.status_mut() = status;
    }
    for (name, value) in answer.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(&value);
        if let (Ok(name), Ok(value)) = (name, value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
