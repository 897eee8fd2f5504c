//! The Streamable HTTP transport: one endpoint, many sessions (3.2).
//!
//! MCP's library keeps the sessions and writes the event streams. Around it stand the checks that come before a session
//! ([`access`]), the tables in the answers ([`body`]), and what the process knows about its sessions ([`sessions`]): how
//! many there are, which are idle, and what has to end before the process does.

mod access;
mod body;
mod sessions;
mod settings;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use axum_server::{Handle, Server as HttpServer};
use futures::{Stream, StreamExt};
use rmcp::ServerHandler;
use rmcp::model::{ProtocolVersion, RequestId};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::envelope::{self, Envelope, MAX_MESSAGE_BYTES, Refusal};
use crate::host_tables;
use crate::links::{LINK_TTL, LinkMaker, Links};
use crate::outgoing::{Handover, Outbox};
use crate::revisions;
use crate::server::{Server, Shared};

use access::Access;
use sessions::Sessions;
pub(crate) use settings::{Environment, HttpFlags, Settings};

const ENDPOINT: &str = "/mcp";
const LINKS: &str = "/tables/";
/// The header that names the revision of MCP.
const REVISION: &str = "mcp-protocol-version";
/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// How long a client may take until its first request is there.
const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// How long a connection may be idle between requests, or take to send the head of the next one.
const NEXT_REQUEST: Duration = Duration::from_secs(120);
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);
/// A table whose answer was not sent this long after it was ready belongs to a client that went away.
const UNSENT_TTL: Duration = Duration::from_secs(600);
/// How often is looked for what is too old.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How long answers that are written may take to leave the process at its end.
const FLUSH: Duration = Duration::from_secs(2);

/// Bounds that tests make smaller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Sessions at a time.
    pub(crate) sessions: usize,
    /// A session without an open request this long is ended.
    pub(crate) idle: Duration,
    /// How long the end of the process waits for open requests.
    pub(crate) drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 1000, idle: Duration::from_secs(3600), drain: Duration::from_secs(30) }
    }
}

/// A server that is bound to its address.
pub(crate) struct Listening<S> {
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    app: Arc<App<S>>,
    url: String,
}

struct App<S> {
    access: Access,
    service: StreamableHttpService<S, LocalSessionManager>,
    sessions: Arc<Sessions>,
    outbox: Arc<Outbox>,
    links: Arc<Links>,
    large: LargeTables,
    limits: Limits,
    revisions: Vec<ProtocolVersion>,
    beginning: Mutex<()>,
    ending: AtomicBool,
    stop: Box<dyn Fn() + Send + Sync>,
}

/// Where tables beyond the inline limit go: what [`Handover`] will be for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LargeTables {
    /// To a file: this machine's host gave a folder for it.
    File,
    /// To a link, since it can be protected.
    Link,
    /// Into the answer.
    Inline,
}

impl Listening<Server> {
    /// Serves a connector.
    pub(crate) async fn of_connector(shared: Arc<Shared>, settings: Settings, limits: Limits) -> io::Result<Self> {
        let outbox = Arc::<Outbox>::default();
        let tables = outbox.clone();
        Self::of(move || Server::in_outbox(shared.clone(), tables.clone()), outbox, settings, limits).await
    }
}

impl<S: ServerHandler> Listening<S> {
    /// Serves whatever `session` makes, once for each session. Its answers may hold marks for tables of `outbox`.
    pub(crate) async fn of(
        session: impl Fn() -> S + Send + Sync + 'static,
        outbox: Arc<Outbox>,
        settings: Settings,
        limits: Limits,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.address).await?;
        let address = listener.local_addr()?;
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let large = match (&settings.tls, address.ip().is_loopback() && settings.host_gave_folder) {
            (Some(_), _) => LargeTables::Link,
            (None, true) => LargeTables::File,
            (None, false) => LargeTables::Inline,
        };
        // Host and Origin are checked before anything else, and the idle timer of the library ends sessions whose calls
        // are silent.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES);
        let cancel = config.cancellation_token.clone();
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = None;
        let manager = Arc::new(manager);
        let revisions = session().supported_protocol_versions().into_owned();
        let app = App {
            access: Access::new(address.ip(), settings.token),
            service: StreamableHttpService::new(move || Ok(session()), manager.clone(), config),
            sessions: Arc::new(Sessions::new(manager)),
            outbox,
            links: Arc::default(),
            large,
            limits,
            revisions,
            beginning: Mutex::new(()),
            ending: AtomicBool::new(false),
            stop: Box::new(move || cancel.cancel()),
        };
        let tls = settings.tls.map(RustlsConfig::from_config);
        Ok(Self { listener, tls, app: Arc::new(app), url: format!("{scheme}://{address}{ENDPOINT}") })
    }

    /// Where clients find it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Serves until the first item of `stop`, then lets open requests end, but not longer than until the next.
    pub(crate) async fn run(self, stop: impl Stream<Item = ()>) -> io::Result<()> {
        let Self { listener, tls, app, .. } = self;
        let handle = Handle::<SocketAddr>::new();
        let mut server = HttpServer::<SocketAddr>::from_listener(listener)
            .handle(handle.clone())
            .first_request_timeout(FIRST_REQUEST);
        server.http_builder().http1().header_read_timeout(NEXT_REQUEST);
        let service = Router::new().fallback(answer::<S>).with_state(app.clone()).into_make_service();
        // Events are small. Without this each waits until the client has acknowledged the one before, which takes it 40 ms.
        let undelayed = NoDelayAcceptor::new();
        let serving = async move {
            match tls {
                None => server.acceptor(undelayed).serve(service).await,
                Some(tls) => server.acceptor(RustlsAcceptor::new(tls).acceptor(undelayed)).serve(service).await,
            }
        };
        let ending = async {
            let mut stop = std::pin::pin!(stop);
            stop.next().await;
            app.ending.store(true, Ordering::SeqCst);
            tokio::select! {
                () = app.sessions.all_answered() => {}
                () = tokio::time::sleep(app.limits.drain) => tracing::warn!("calls were cut off by the end of the process"),
                _ = stop.next() => {}
            }
            (app.stop)();
            handle.graceful_shutdown(Some(FLUSH));
            std::future::pending::<()>().await;
        };
        let sweeping = async {
            let mut ticks = tokio::time::interval(SWEEP_EVERY.min(app.limits.idle));
            loop {
                ticks.tick().await;
                app.sessions.end_idle(app.limits.idle).await;
                app.outbox.drop_older(UNSENT_TTL);
                app.links.drop_older(LINK_TTL);
            }
        };
        tokio::select! {
            ended = serving => ended?,
            () = ending => {}
            () = sweeping => {}
        }
        app.outbox.drop_older(Duration::ZERO);
        app.links.drop_older(Duration::ZERO);
        Ok(())
    }
}

/// Every request: who may ask, then what is asked for.
async fn answer<S: ServerHandler>(State(app): State<Arc<App<S>>>, request: Request) -> Response {
    if let Err(refusal) = app.access.check(request.uri(), request.headers()) {
        return refusal.into_response();
    }
    let path = request.uri().path();
    match (path.strip_prefix(LINKS), request.method()) {
        _ if path == ENDPOINT => match *request.method() {
            Method::POST => app.post(request).await,
            _ => app.other(request).await,
        },
        (Some(secret), &Method::GET) => app.table(secret),
        (Some(_), _) => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")]).into_response(),
        (None, _) => StatusCode::NOT_FOUND.into_response(),
    }
}

impl<S: ServerHandler> App<S> {
    /// The refusal of a request of a revision that is not announced. Clients of the oldest one don't say theirs.
    fn wrong_revision(&self, headers: &HeaderMap, id: Option<&RequestId>) -> Option<Refusal> {
        let named = String::from_utf8_lossy(headers.get(REVISION)?.as_bytes());
        let announced = self.revisions.iter().any(|revision| revision.as_str() == named);
        (!announced).then(|| Refusal::revision(id.cloned(), &named, &self.revisions))
    }

    /// A message from the client.
    async fn post(&self, request: Request) -> Response {
        if !is_json(request.headers()) {
            let refusal = Refusal::invalid(None, "Invalid Request: Content-Type must be application/json.");
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, &refusal);
        }
        let (parts, body) = request.into_parts();
        let text = match read(&parts.headers, body).await {
            Ok(text) => text,
            Err((status, message)) => return refused(status, &Refusal::invalid(None, message)),
        };
        let batch = match session_of(&parts.headers) {
            Some(session) if self.sessions.has_batches(&session) => envelope::batch(&text),
            _ => None,
        };
        match batch {
            None => self.message(parts, text).await,
            Some(Err(refusal)) => refused(StatusCode::BAD_REQUEST, &refusal),
            Some(Ok(messages)) => {
                let mut answers = Vec::new();
                for message in messages {
                    answers.push(self.message_of_batch(parts.clone(), message).await);
                }
                body::of_batch(answers)
            }
        }
    }

    async fn message_of_batch(&self, parts: Parts, message: Bytes) -> Response {
        match Envelope::read(&message) {
            Ok(Envelope { id: Some(id), method: Some(method), .. }) if method == "initialize" => {
                let refusal = Refusal::invalid(Some(id), "Invalid Request: initialize can't be part of a batch.");
                refused(StatusCode::BAD_REQUEST, &refusal)
            }
            _ => self.message(parts, message).await,
        }
    }

    /// One message, whose body was read.
    async fn message(&self, mut parts: Parts, text: Bytes) -> Response {
        let envelope = match Envelope::read(&text) {
            Ok(envelope) => envelope,
            Err(refusal) => return refused(StatusCode::BAD_REQUEST, &refusal),
        };
        if let Some(refusal) = self.wrong_revision(&parts.headers, envelope.id.as_ref()) {
            return refused(StatusCode::BAD_REQUEST, &refusal);
        }
        let session = session_of(&parts.headers);
        // New sessions begin one after the other, so that their bound is exact.
        let mut beginning = None;
        if let Some(session) = &session {
            if !self.sessions.exists(session).await {
                return unknown_session(envelope.id);
            }
        } else if envelope.method.as_deref() == Some("initialize") {
            beginning = Some(self.beginning.lock().await);
            if self.sessions.count().await >= self.limits.sessions {
                let refusal = Refusal::unavailable(envelope.id, "The server has as many sessions as it can serve.");
                return refused(StatusCode::SERVICE_UNAVAILABLE, &refusal);
            }
        }
        let open = match &envelope.id {
            Some(id) if envelope.is_request() => match self.sessions.open(session, id) {
                Some(open) => Some(open),
                None => return refused(StatusCode::BAD_REQUEST, &Refusal::still_open(id.clone())),
            },
            _ => None,
        };
        // Looked at after the request counts as open, so that the end does not miss it. Answers of hosts still pass:
        // open calls may wait for them.
        if open.is_some() && self.ending.load(Ordering::SeqCst) {
            let refusal = Refusal::unavailable(envelope.id, "The server is shutting down.");
            return refused(StatusCode::SERVICE_UNAVAILABLE, &refusal);
        }
        parts.extensions.insert(self.handover(&parts));
        let batches = beginning.is_some() && agrees_on_batches(&text);
        let begins = envelope.is_request() && envelope.method.as_deref() == Some("initialize");
        let again = envelope.is_answer().then(|| parts.clone());
        let kept = envelope.is_answer().then(|| host_tables::keep_text(&text)).flatten();
        let mut text = kept.map_or(text, Bytes::from);
        if envelope.is_answer() && envelope::has_too_many_values(&text) {
            // Whoever waits for it learns that it can't be read; so does its sender.
            text = Bytes::from_static(b"null");
        }
        let response = self.service.handle(Request::from_parts(parts, Body::from(text))).await;
        if let Some(begun) = session_of(response.headers()).filter(|_| batches) {
            self.sessions.allow_batches(begun);
        }
        drop(beginning);
        let refusal = match response.status() {
            // The library's way to say that it can't read the message.
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                if let (Some(parts), Some(id)) = (again, &envelope.id) {
                    // Whoever waits for an answer that can't be read need not wait until time is up.
                    let error = Refusal::unavailable(Some(id.clone()), "The answer can't be read.");
                    self.service.handle(Request::from_parts(parts, Body::from(error.to_text()))).await;
                }
                let refusal = envelope.unreadable();
                refusal.unwrap_or_else(|| Refusal::invalid(None, "Invalid Request: MCP has no such message."))
            }
            // What it says to an initialize that it can't read, too.
            StatusCode::BAD_REQUEST if begins && !is_json(response.headers()) => Refusal::invalid_params(envelope.id),
            StatusCode::NOT_ACCEPTABLE => Refusal::invalid(
                envelope.id,
                "Invalid Request: Accept must name application/json and text/event-stream.",
            ),
            StatusCode::BAD_REQUEST if !is_json(response.headers()) => Refusal::invalid(
                envelope.id,
                "Invalid Request: send initialize first, and then the Mcp-Session-Id of its answer.",
            ),
            _ => return body::with_tables(response, self.outbox.clone(), open),
        };
        let status = match response.status() {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => StatusCode::BAD_REQUEST,
            status => status,
        };
        refused(status, &refusal)
    }

    /// A stream for what is not an answer, or the end of a session.
    async fn other(&self, request: Request) -> Response {
        if let Some(refusal) = self.wrong_revision(request.headers(), None) {
            return refused(StatusCode::BAD_REQUEST, &refusal);
        }
        let session = session_of(request.headers());
        if let Some(session) = &session
            && !self.sessions.exists(session).await
        {
            return unknown_session(None);
        }
        let (streams, ends) = (*request.method() == Method::GET, *request.method() == Method::DELETE);
        if streams && self.ending.load(Ordering::SeqCst) {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let open = session.filter(|_| streams).map(|session| self.sessions.stream(session));
        let mut response = self.service.handle(request).await;
        if ends && response.status() == StatusCode::ACCEPTED {
            // Clients take anything but "done" for a failure.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        body::with_tables(response, self.outbox.clone(), open)
    }

    /// The table behind a link.
    fn table(&self, secret: &str) -> Response {
        let Some(file) = self.links.take(secret) else { return StatusCode::NOT_FOUND.into_response() };
        let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
        match body::of_file(file) {
            Ok(body) => (headers, body).into_response(),
            Err(error) => {
                tracing::error!(%error, "the file of a table could not be read");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    fn handover(&self, parts: &Parts) -> Handover {
        match (self.large, access::host(&parts.uri, &parts.headers)) {
            (LargeTables::File, _) => Handover::File,
            (LargeTables::Link, Some(host)) => {
                Handover::Link(LinkMaker { base: format!("https://{host}{LINKS}"), links: self.links.clone() })
            }
            (LargeTables::Link, None) | (LargeTables::Inline, _) => Handover::Inline,
        }
    }
}

/// Whether an `initialize` asks for a revision with batches. It is always granted: servers announce all older ones.
fn agrees_on_batches(initialize: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Initialize {
        params: Params,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: ProtocolVersion,
    }
    serde_json::from_slice::<Initialize>(initialize)
        .is_ok_and(|initialize| revisions::has_batches(&initialize.params.protocol_version))
}

fn session_of(headers: &HeaderMap) -> Option<Arc<str>> {
    headers.get(SESSION).and_then(|id| id.to_str().ok()).map(Arc::from)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Reads a body within its bounds.
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, (StatusCode, &'static str)> {
    let too_large = (StatusCode::PAYLOAD_TOO_LARGE, "Invalid Request: the message is longer than 64 MiB.");
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > MAX_MESSAGE_BYTES as u64) {
        return Err(too_large);
    }
    let reading = async {
        let (mut text, mut chunks) = (Vec::new(), body.into_data_stream());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| (StatusCode::BAD_REQUEST, "Invalid Request: the body broke off."))?;
            if chunk.len() > MAX_MESSAGE_BYTES - text.len() {
                return Err(too_large);
            }
            text.extend_from_slice(&chunk);
        }
        Ok(Bytes::from(text))
    };
    let timeout = (StatusCode::REQUEST_TIMEOUT, "Invalid Request: the body did not arrive in time.");
    tokio::time::timeout(BODY_TIMEOUT, reading).await.unwrap_or(Err(timeout))
}

fn refused(status: StatusCode, refusal: &Refusal) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], refusal.to_text()).into_response()
}

/// A client that reads this starts over with `initialize`.
fn unknown_session(id: Option<RequestId>) -> Response {
    refused(StatusCode::NOT_FOUND, &Refusal::invalid(id, "Session not found: it ended or never was. Send initialize."))
}
