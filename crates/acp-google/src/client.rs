//! Authorised requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use acp_core::{Error, Result, Secret};
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::credentials::GoogleCredentials;
use crate::endpoints::Endpoints;
use crate::error::{Context, Failure, GoogleError};
use crate::google::{Google, Timing};
use crate::http::{SMALL, WHOLE};
use crate::lanes::{Lanes, Turn};
use crate::redact::{Secrets, clean};
use crate::retry::{Waits, backoff, retry_after};
use crate::rows::RowSplitter;
use crate::token::{Ask, Key, Token, Tokens};

/// Bytes of a streamed answer, after decompression: far more than any page of any API, and an end for a stream that
/// has none.
const STREAM: u64 = 2 << 30;
/// How the resumable protocol says that it wants more of a file.
const PARTIAL: StatusCode = StatusCode::PERMANENT_REDIRECT;
/// Characters of an unexpected answer that are shown.
const SHOWN: usize = 200;

/// What one call may ask Google, in the name of one credential. Cheap to clone.
///
/// All requests are retried as the policy of this crate says, so each must be safe to repeat.
#[derive(Clone, Debug)]
pub struct Session {
    google: Google,
    credentials: Arc<GoogleCredentials>,
    scopes: &'static [&'static str],
    key: Key,
    lanes: Option<Lanes>,
    server_errors: Option<ServerErrors>,
}

/// Server errors that requests of all clones have met together: for APIs that count them, and refuse all requests after too many.
/// Once there were so many, no request that fails with one is tried again.
#[derive(Clone, Debug)]
pub struct ServerErrors {
    met: Arc<AtomicU32>,
    most: u32,
}

impl ServerErrors {
    /// None met yet, and at most so many.
    pub fn at_most(most: u32) -> Self {
        Self { met: Arc::default(), most }
    }

    /// Counts one, and says whether it was the last that may be met.
    fn is_last(&self) -> bool {
        self.met.fetch_add(1, Ordering::Relaxed) + 1 >= self.most
    }
}

/// A request, ready to be sent more than once.
pub(crate) struct Outgoing {
    method: Method,
    url: Url,
    /// JSON, or a part of a file.
    content: Option<Bytes>,
    headers: Vec<(&'static str, String)>,
}

impl Outgoing {
    pub(crate) fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl Session {
    pub(crate) fn new(google: Google, credentials: GoogleCredentials, scopes: &'static [&'static str]) -> Self {
        let key = Tokens::key(&credentials, scopes, google.endpoints().token());
        Self { google, credentials: Arc::new(credentials), scopes, key, lanes: None, server_errors: None }
    }

    /// The same session, whose requests share a bound on how many are on their way at once.
    #[must_use]
    pub fn in_lanes(self, lanes: Lanes) -> Self {
        Self { lanes: Some(lanes), ..self }
    }

    /// The same session, whose requests count their server errors together.
    #[must_use]
    pub fn counting(self, server_errors: ServerErrors) -> Self {
        Self { server_errors: Some(server_errors), ..self }
    }

    /// Where the APIs are.
    pub fn endpoints(&self) -> &Endpoints {
        self.google.endpoints()
    }

    /// The credentials as they were read.
    pub fn credentials(&self) -> &GoogleCredentials {
        &self.credentials
    }

    /// The context of errors about `resource` for whoever these credentials belong to.
    pub fn context(&self, resource: impl Into<String>) -> Context {
        Context::new(resource).principal(self.credentials.principal())
    }

    /// Gets JSON, at most 64 MiB.
    pub async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, Failure> {
        parse(&self.whole(&self.outgoing(Method::GET, url, None)?).await?)
    }

    /// Posts JSON and reads JSON, at most 64 MiB.
    pub async fn post<T: DeserializeOwned>(&self, url: &str, body: &impl Serialize) -> Result<T, Failure> {
        let content = to_json(body)?;
        parse(&self.whole(&self.outgoing(Method::POST, url, Some(content))?).await?)
    }

    /// Posts JSON and reads JSON whose body is handed over as it arrives.
    pub async fn post_stream(&self, url: &str, body: &impl Serialize) -> Result<Body, Failure> {
        let content = to_json(body)?;
        let mut waits = Waits::new(&self.google.shared().http.timing);
        self.open(&self.outgoing(Method::POST, url, Some(content))?, &mut waits).await
    }

    /// Posts JSON and reads the whole answer, at most 64 MiB, with its top-level array `array` taken apart. For pages that
    /// are asked for ahead of whoever reads them. One that breaks off is asked for again.
    pub async fn post_rows(&self, url: &str, body: &impl Serialize, array: &str) -> Result<Rows, Failure> {
        self.rows(&self.outgoing(Method::POST, url, Some(to_json(body)?))?, array).await
    }

    /// Like [`post_rows`](Self::post_rows), for a method that is asked with GET.
    pub async fn get_rows(&self, url: &str, array: &str) -> Result<Rows, Failure> {
        self.rows(&self.outgoing(Method::GET, url, None)?, array).await
    }

    /// Like [`get`](Self::get), for something that was just made: that it is not found is no answer for some seconds.
    pub async fn get_once_there<T: DeserializeOwned>(&self, url: &str) -> Result<T, Failure> {
        let timing = &self.google.shared().http.timing;
        parse(&self.whole_after(&self.outgoing(Method::GET, url, None)?, Waits::until_there(timing)).await?)
    }

    /// Asks for something again and again, with growing waits, until it is done. `each` sees every answer.
    pub async fn get_until<T: DeserializeOwned>(
        &self,
        url: &str,
        done: impl Fn(&T) -> bool,
        mut each: impl FnMut(&T),
    ) -> Result<T, Failure> {
        let mut asked = 0;
        loop {
            let answer: T = self.get_once_there(url).await?;
            each(&answer);
            if done(&answer) {
                return Ok(answer);
            }
            tokio::time::sleep(backoff(self.timing(), asked)).await;
            asked = asked.saturating_add(1);
        }
    }

    /// A token for a client of Google's own that sends its requests itself. `ACP_CREDENTIALS_INVALID` when Google
    /// gives none.
    pub async fn access_token(&self) -> Result<Secret<String>> {
        Ok(self.ask().token().await?.value)
    }

    fn ask(&self) -> Ask<'_> {
        Ask { shared: self.google.shared(), credentials: &self.credentials, scopes: self.scopes, key: self.key }
    }

    pub(crate) fn timing(&self) -> &Timing {
        &self.google.shared().http.timing
    }

    pub(crate) fn outgoing(&self, method: Method, url: &str, content: Option<Bytes>) -> Result<Outgoing, Failure> {
        let url = Url::parse(url).ok().filter(|url| self.endpoints().trusts(url)).ok_or_else(|| {
            // A connector's own mistake; the token stays here whatever it built the address from.
            Error::upstream("The request was not sent: its address is not one of Google's APIs. Report this error.")
        })?;
        Ok(Outgoing { method, url, content, headers: Vec::new() })
    }

    async fn rows(&self, outgoing: &Outgoing, array: &str) -> Result<Rows, Failure> {
        let mut waits = Waits::new(&self.google.shared().http.timing);
        loop {
            match self.open(outgoing, &mut waits).await?.rows(array).await {
                Ok(rows) => return Ok(rows),
                Err(failure) => waits.pause(failure).await?,
            }
        }
    }

    /// The whole body. One that breaks off is asked for again, and so is one that does not even begin.
    async fn whole(&self, outgoing: &Outgoing) -> Result<Vec<u8>, Failure> {
        self.whole_after(outgoing, Waits::new(&self.google.shared().http.timing)).await
    }

    async fn whole_after(&self, outgoing: &Outgoing, mut waits: Waits<'_>) -> Result<Vec<u8>, Failure> {
        loop {
            let body = self.open(outgoing, &mut waits).await?;
            match body.whole().await {
                Ok(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => {
                    waits.pause(Failure::broken("it is empty")).await?;
                }
                Ok(bytes) => return Ok(bytes),
                Err(failure) => waits.pause(failure).await?,
            }
        }
    }

    /// Sends until there is an answer that says it worked, or a failure that stays.
    pub(crate) async fn open(&self, outgoing: &Outgoing, waits: &mut Waits<'_>) -> Result<Body, Failure> {
        let ask = self.ask();
        let mut token = ask.token().await?;
        let mut renewed = false;
        loop {
            let turn = match &self.lanes {
                Some(lanes) => lanes.turn().await,
                None => None,
            };
            let failure = match self.attempt(outgoing, &token).await {
                Ok(body) => return Ok(Body { _turn: turn, ..body }),
                Err(failure) => failure,
            };
            if let (Some(turn), Some(error)) = (turn, failure.google().filter(|error| error.is_rate_limit())) {
                let timing = &self.google.shared().http.timing;
                let wait = error.retry_after.filter(|wait| *wait <= timing.longest_retry_after);
                turn.objected(wait.unwrap_or_else(|| backoff(timing, waits.retries())));
            }
            let is_server_error = failure.google().is_some_and(|error| error.http_status >= 500);
            if is_server_error && self.server_errors.as_ref().is_some_and(ServerErrors::is_last) {
                return Err(failure);
            }
            let unauthorised = failure.google().is_some_and(|error| error.http_status == 401);
            if !unauthorised {
                waits.pause(failure).await?;
                continue;
            }
            // The token may have been revoked or have ended early; a new one tells whether the credential is good.
            if renewed {
                return Err(failure);
            }
            match ask.another(&token.value).await? {
                Some(another) => (token, renewed) = (another, true),
                None => return Err(failure),
            }
        }
    }

    async fn attempt(&self, outgoing: &Outgoing, token: &Token) -> Result<Body, Failure> {
        let http = &self.google.shared().http;
        let mut request = http
            .client()?
            .request(outgoing.method.clone(), outgoing.url.clone())
            // Not as a plain header: this one is marked as a secret, so no Debug output shows it.
            .bearer_auth(token.value.expose());
        if let Some(project) = self.credentials.quota_project() {
            request = request.header("x-goog-user-project", project);
        }
        if let Some(body) = &outgoing.content {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        for (name, value) in &outgoing.headers {
            request = request.header(*name, value);
        }
        let started = Instant::now();
        let sent = http.send(request, http.timing.headers).await;
        let status = sent.as_ref().ok().map(|response| response.status().as_u16());
        let ms = started.elapsed().as_millis() as u64;
        tracing::debug!(method = %outgoing.method, path = outgoing.url.path(), status, ms, "request");
        let response = sent?;
        // Of an upload, that more of the file is wanted.
        let partial = outgoing.method == Method::PUT && response.status() == PARTIAL;
        if !response.status().is_success() && !partial {
            return Err(self.failed(response, token).await.into());
        }
        // The steps of an upload say all they say in their headers; what type their empty body has means nothing.
        let headers_only = partial || response.headers().contains_key(LOCATION);
        let body = Body { google: self.google.clone(), response, received: 0, _turn: None };
        if headers_only || body.is_json() { Ok(body) } else { Err(body.not_json(&self.secrets(token)).await) }
    }

    fn secrets(&self, token: &Token) -> Secrets {
        let mut secrets = self.credentials.secrets().clone();
        secrets.add(token.value.expose());
        secrets
    }

    async fn failed(&self, mut response: Response, token: &Token) -> GoogleError {
        let http = &self.google.shared().http;
        let body = tokio::time::timeout(http.timing.idle, http.beginning(&mut response, SMALL));
        let body = body.await.unwrap_or_default();
        let header = header(response.headers(), RETRY_AFTER);
        let mut error = GoogleError::parse(response.status().as_u16(), &body, header.and_then(retry_after));
        error.redact(&self.secrets(token));
        error
    }
}

/// The body of an answer that said it worked, as it arrives.
pub struct Body {
    google: Google,
    response: Response,
    received: u64,
    /// The request's place among those that are on their way.
    _turn: Option<Turn>,
}

/// An answer that is held as a whole, with the elements of one array found.
#[derive(Debug, Default)]
pub struct Rows {
    elements: Vec<u8>,
    /// Where each element ends.
    ends: Vec<usize>,
    rest: Vec<u8>,
}

impl Rows {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The elements, each as the bytes it had in the answer.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.elements[start..*end])
    }

    /// The answer without the elements.
    pub fn rest<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        parse(&self.rest)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Body").field("received", &self.received).finish_non_exhaustive()
    }
}

impl Body {
    /// The next bytes, decompressed; `None` at the end. A body that breaks off is a failure whose
    /// [`is_broken`](Failure::is_broken) is true, and what came before must not be taken for all of it.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let chunk = self.google.shared().http.chunk(&mut self.response).await?;
        self.received += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        if self.received > STREAM {
            return Err(too_large(STREAM >> 20));
        }
        Ok(chunk)
    }

    /// Hands each element of the top-level array `array` to `on_row` as soon as it is complete, and reads the rest
    /// of the document, with that array empty, into `T`. See [`RowSplitter`].
    pub async fn split<T: DeserializeOwned>(
        mut self,
        array: &str,
        mut on_row: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<T, Failure> {
        let mut splitter = RowSplitter::new(array);
        while let Some(chunk) = self.chunk().await? {
            splitter.push(&chunk, &mut on_row)?;
        }
        parse(&splitter.finish()?)
    }

    async fn rows(mut self, array: &str) -> Result<Rows, Failure> {
        let mut rows = Rows::default();
        let mut splitter = RowSplitter::new(array);
        while let Some(chunk) = self.chunk().await? {
            if self.received > WHOLE as u64 {
                return Err(too_large((WHOLE as u64) >> 20));
            }
            splitter.push(&chunk, |row| {
                rows.elements.extend_from_slice(row);
                rows.ends.push(rows.elements.len());
                Ok::<(), Failure>(())
            })?;
        }
        rows.rest = splitter.finish()?;
        // Several of these are held at a time, and doubling leaves up to half of each unused.
        rows.elements.shrink_to_fit();
        Ok(rows)
    }

    /// A header of the answer, as text.
    pub(crate) fn header(&self, name: HeaderName) -> Option<String> {
        header(self.response.headers(), name).map(str::to_owned)
    }

    /// Whether more of a file is wanted.
    pub(crate) fn is_partial(&self) -> bool {
        self.response.status() == PARTIAL
    }

    pub(crate) async fn whole(mut self) -> Result<Vec<u8>, Failure> {
        let body = self.google.shared().http.whole(&mut self.response, WHOLE).await?;
        body.ok_or_else(|| too_large((WHOLE as u64) >> 20))
    }

    fn is_json(&self) -> bool {
        header(self.response.headers(), CONTENT_TYPE).is_none_or(|kind| kind.to_ascii_lowercase().contains("json"))
    }

    async fn not_json(mut self, secrets: &Secrets) -> Failure {
        let kind = header(self.response.headers(), CONTENT_TYPE).unwrap_or_default();
        let kind = clean(kind, 60);
        let status = self.response.status().as_u16();
        let http = &self.google.shared().http;
        let beginning = http.beginning(&mut self.response, 4 * SHOWN);
        let beginning = tokio::time::timeout(http.timing.idle, beginning).await.unwrap_or_default();
        let shown = clean(&secrets.withhold(&String::from_utf8_lossy(&beginning)), SHOWN);
        Error::upstream(format!(
            "Instead of JSON came {kind} ({status}): {shown}. A proxy or a network filter may have answered in \
             Google's place."
        ))
        .with_data("http_status", status)
        .into()
    }
}

fn header(headers: &HeaderMap, name: reqwest::header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn too_large(mebibytes: u64) -> Failure {
    Error::upstream(format!("Google's answer is larger than {mebibytes} MiB: ask for fewer rows or fields.")).into()
}

pub(crate) fn to_json(body: &impl Serialize) -> Result<Bytes, Failure> {
    let json = serde_json::to_vec(body).map_err(|error| {
        Error::upstream(format!("The request can't be written as JSON: {error}. Report this error."))
    })?;
    Ok(json.into())
}

/// Reads an answer, which is always an object. The parser's own words are not passed on, because they quote the answer,
/// and whoever answers may repeat a token.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let unreadable = |what: &str| -> Failure {
        Error::upstream(format!("Google's answer can't be read: {what}. Try again, and report this if it stays."))
            .into()
    };
    match body.trim_ascii_start().first() {
        None => return Err(unreadable("it is empty")),
        // Derived types would take a list for an object, field by field.
        Some(first) if *first != b'{' => return Err(unreadable("it is not a JSON object")),
        Some(_) => {}
    }
    serde_json::from_slice(body).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Eof => "it ends too early",
            serde_json::error::Category::Data => "a value is not of the expected type",
            _ => "it is not valid JSON",
        };
        unreadable(&format!("{what}, at line {} column {}", error.line(), error.column()))
    })
}
