//! What can go wrong with a request, and how Google's errors become ACP errors.

use std::time::Duration;

use acp_core::Error;
use acp_protocol::error::ErrorCode;
use serde_json::Value;

use crate::redact::{Secrets, clean};

/// Characters of Google's own words in a message.
const WORDS: usize = 500;
/// How long Search Console asks to wait when its load quota is used up.
const LOAD_QUOTA: Duration = Duration::from_secs(15 * 60);

/// Why a request failed. Connectors that know more about an error look at it before they turn it into an ACP error
/// with [`into_acp`](Self::into_acp).
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The API answered with an error.
    Google(Box<GoogleError>),
    /// There was no answer, or only a part of it.
    Transport(Transport),
    /// Anything whose ACP error doesn't depend on the resource: credentials, answers that can't be read.
    Acp(Error),
}

/// A request without a whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// At which point it failed.
    pub kind: TransportKind,
    cause: String,
}

/// At which point a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// No connection: name, network, proxy, certificate.
    Connect,
    /// The connection ended before the answer began.
    NoAnswer,
    /// Nothing came for too long.
    Timeout,
    /// The answer broke off. What was read of it is not complete; a page may be asked for again.
    Broken,
}

/// What an error message needs to know about the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    resource: String,
    principal: Option<String>,
    grant: Option<String>,
}

/// What kind of body an error came with. Google's APIs answer in JSON; HTML means that something else answered, or
/// that the path does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyKind {
    /// JSON.
    #[default]
    Json,
    /// A page for people.
    Html,
    /// Other text.
    Text,
    /// Nothing.
    Empty,
}

/// An error of a Google API, in the shape all of them share.
///
/// `errors` is the older list (`reason`, `location`), `details` the newer one (`ErrorInfo`, `RetryInfo`,
/// `BadRequest`). An answer has none, one or both, and only the reason tells a missing permission from a used up
/// quota: both are a 403.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoogleError {
    /// Status of the HTTP answer.
    pub http_status: u16,
    /// Google's canonical code, for example `PERMISSION_DENIED`.
    pub status: Option<String>,
    /// Google's words as they came, at most 64 KiB. For people use [`text`](Self::text).
    pub message: String,
    /// The entries of `errors`.
    pub errors: Vec<Value>,
    /// The entries of `details`.
    pub details: Vec<Value>,
    /// When to try again, from `Retry-After` or `RetryInfo`.
    pub retry_after: Option<Duration>,
    /// What the body was.
    pub body: BodyKind,
}

impl Context {
    /// For messages about `resource`, worded as it reads after "on": `GA4 property 123`.
    pub fn new(resource: impl Into<String>) -> Self {
        Self { resource: resource.into(), ..Self::default() }
    }

    /// Who asks: the e-mail address to which access would have to be given.
    #[must_use]
    pub fn principal(self, principal: Option<&str>) -> Self {
        Self { principal: principal.map(str::to_owned), ..self }
    }

    /// One sentence that says where access to the resource is given.
    #[must_use]
    pub fn grant(self, sentence: impl Into<String>) -> Self {
        Self { grant: Some(sentence.into()), ..self }
    }

    fn resource(&self) -> &str {
        if self.resource.is_empty() { "this resource" } else { &self.resource }
    }

    fn whose(&self) -> String {
        match &self.principal {
            Some(principal) => format!("the credentials of {principal}"),
            None => "these credentials".to_owned(),
        }
    }

    fn who(&self) -> &str {
        self.principal.as_deref().unwrap_or("these credentials")
    }
}

impl Failure {
    /// A body that broke off.
    pub(crate) fn broken(cause: &str) -> Self {
        Self::transport(TransportKind::Broken, cause)
    }

    pub(crate) fn transport(kind: TransportKind, cause: &str) -> Self {
        Self::Transport(Transport { kind, cause: clean(cause, 200) })
    }

    /// Whether the answer began and broke off, so that what was read of it must not be taken for all of it.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Transport(Transport { kind: TransportKind::Broken, .. }))
    }

    /// Google's error, if it is one.
    pub fn google(&self) -> Option<&GoogleError> {
        match self {
            Self::Google(error) => Some(error),
            _ => None,
        }
    }

    /// The ACP error: what happened, then what to do next.
    pub fn into_acp(self, context: &Context) -> Error {
        match self {
            Self::Google(error) => error.into_acp(context),
            Self::Transport(transport) => transport.into_acp(),
            Self::Acp(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Acp(error)
    }
}

impl From<GoogleError> for Failure {
    fn from(error: GoogleError) -> Self {
        Self::Google(Box::new(error))
    }
}

impl Transport {
    pub(crate) fn cause(&self) -> &str {
        &self.cause
    }

    /// Whether the other side's certificate is not trusted here.
    pub(crate) fn is_certificate(&self) -> bool {
        self.kind == TransportKind::Connect && self.cause.contains("certificate")
    }

    fn into_acp(self) -> Error {
        let cause = &self.cause;
        Error::upstream(match self.kind {
            _ if self.is_certificate() => format!(
                "Can't make a secure connection to Google: {cause}. If this network inspects traffic, start the \
                 server with --ca-file and the network's certificate."
            ),
            TransportKind::Connect => {
                format!("Can't connect to Google: {cause}. Check the network and the proxy settings, then try again.")
            }
            TransportKind::NoAnswer => {
                format!("Google ended the connection without an answer: {cause}. Try again in a minute.")
            }
            TransportKind::Timeout => {
                format!("Google did not answer in time: {cause}. Ask for fewer rows or days, or try again later.")
            }
            TransportKind::Broken => format!("Google's answer broke off: {cause}. Try again."),
        })
    }
}

impl GoogleError {
    /// Reads the body of an answer whose status says that it failed.
    pub fn parse(http_status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let mut error = Self { http_status, retry_after, ..Self::default() };
        match serde_json::from_slice::<Value>(body) {
            // BigQuery and batch methods wrap the object in a list.
            Ok(Value::Array(items)) => error.read(items.into_iter().next().unwrap_or_default()),
            Ok(value) => error.read(value),
            Err(_) => error.read_text(&String::from_utf8_lossy(body)),
        }
        error.retry_after = error.retry_after.or_else(|| error.retry_info());
        error
    }

    fn read(&mut self, mut body: Value) {
        let description = text_at(&body, "error_description");
        match body.get_mut("error").map(Value::take) {
            Some(Value::Object(mut object)) => {
                self.message = object.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
                self.status = object.get("status").and_then(Value::as_str).map(str::to_owned);
                self.errors = list(object.remove("errors"));
                self.details = list(object.remove("details"));
            }
            Some(Value::String(code)) => {
                self.message = description.unwrap_or_else(|| code.clone());
                self.status = Some(code);
            }
            _ => self.message = description.or_else(|| text_at(&body, "message")).unwrap_or_default(),
        }
    }

    fn read_text(&mut self, body: &str) {
        let text = body.trim();
        self.body = match text.chars().next() {
            None => BodyKind::Empty,
            Some('<') => BodyKind::Html,
            Some(_) => BodyKind::Text,
        };
        self.message = match self.body {
            BodyKind::Html => title(text).unwrap_or_default().to_owned(),
            _ => clean(text, WORDS),
        };
    }

    fn retry_info(&self) -> Option<Duration> {
        let delay = self.details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
        let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Takes out whatever quotes a secret.
    pub(crate) fn redact(&mut self, secrets: &Secrets) {
        self.message = secrets.withhold(&self.message);
        self.status = self.status.take().filter(|status| !secrets.appear_in(status));
        secrets.withhold_values(&mut self.errors);
        secrets.withhold_values(&mut self.details);
    }

    /// Every reason the answer gives, the newer ones first.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.details.iter().chain(&self.errors).filter_map(|entry| entry.get("reason")?.as_str())
    }

    /// The reason that counts: that of `ErrorInfo`, else the first of `errors`.
    pub fn reason(&self) -> Option<&str> {
        self.reasons().next()
    }

    /// Whether it gives one of these reasons.
    pub fn has_reason(&self, wanted: &[&str]) -> bool {
        self.reasons().any(|reason| wanted.contains(&reason))
    }

    /// A value of the metadata of `ErrorInfo`.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.details.iter().find_map(|detail| detail.get("metadata")?.get(key)?.as_str())
    }

    /// Google's words on one line, at most 500 characters; never empty.
    pub fn text(&self) -> String {
        let text = clean(&self.message, WORDS);
        if !text.is_empty() {
            return text;
        }
        match self.status.as_deref().map(|status| clean(status, 60)).filter(|status| !status.is_empty()) {
            Some(status) => status,
            None => "no explanation".to_owned(),
        }
    }

    /// Whether it says that requests come too fast, so that a wait of seconds helps.
    pub fn is_rate_limit(&self) -> bool {
        let reasons = ["rateLimitExceeded", "userRateLimitExceeded", "jobRateLimitExceeded", "RATE_LIMIT_EXCEEDED"];
        let concurrent = self.message.contains("concurrent requests quota");
        (self.has_reason(&reasons) || concurrent || self.is_search_rate()) && !self.is_long_quota()
    }

    /// Whether it says that a quota is used up, so that a wait of seconds does not help.
    pub fn is_quota(&self) -> bool {
        let exhausted = self.message.contains("Exhausted") && !self.message.contains("concurrent requests quota");
        let exceeded = self.has_reason(&["quotaExceeded", "dailyLimitExceeded"]) && !self.is_search_rate();
        exhausted || self.is_long_quota() || exceeded
    }

    /// Whether its reason says that the same request can't work, whatever its status: BigQuery refuses with a 500 what would
    /// cost more than allowed.
    pub fn is_final(&self) -> bool {
        self.has_reason(&["accessDenied", "bytesBilledLimitExceeded", "billingNotEnabled", "responseTooLarge"])
    }

    /// Search Console has one reason, `quotaExceeded`, for all its limits; only its words tell requests that come too
    /// fast from a load that is used up.
    fn is_search_rate(&self) -> bool {
        self.message.contains("QPS quota exceeded") || self.message.contains("QPM quota exceeded")
    }

    /// Search Console's bound on how much its answers cost it, counted in parts of ten minutes.
    fn is_search_load(&self) -> bool {
        self.message.contains("load quota exceeded")
    }

    /// After how long another try makes sense: as the answer says, or as the quota is documented.
    pub fn wait(&self) -> Option<Duration> {
        self.retry_after.or(self.is_search_load().then_some(LOAD_QUOTA))
    }

    /// A limit per day can come under the reason of a rate limit; only its unit or name tells.
    fn is_long_quota(&self) -> bool {
        let daily = |key: &str, mark: &str| self.metadata(key).is_some_and(|value| value.contains(mark));
        self.has_reason(&["dailyLimitExceeded"]) || daily("quota_limit", "PerDay") || daily("quota_unit", "1/d/")
    }

    /// Whether the API is not switched on in the Cloud project of the credentials.
    pub fn is_api_disabled(&self) -> bool {
        self.has_reason(&["SERVICE_DISABLED", "accessNotConfigured"])
    }

    pub(crate) fn lacks_scope(&self) -> bool {
        self.has_reason(&["ACCESS_TOKEN_SCOPE_INSUFFICIENT", "insufficientScopes"])
            || self.message.contains("insufficient authentication scopes")
    }

    pub(crate) fn is_authentication(&self) -> bool {
        self.has_reason(&[
            "ACCESS_TOKEN_EXPIRED",
            "ACCESS_TOKEN_TYPE_UNSUPPORTED",
            "ACCOUNT_STATE_INVALID",
            "API_KEY_INVALID",
            "CONSUMER_INVALID",
            "CONSUMER_SUSPENDED",
            "CREDENTIALS_MISSING",
            "SESSION_COOKIE_INVALID",
            "USER_BLOCKED_BY_ADMIN",
            "accountDeleted",
            "accountDisabled",
            "accountUnverified",
            "authError",
            "expired",
            "keyExpired",
            "keyInvalid",
            "userDisabled",
        ])
    }

    fn is_billing(&self) -> bool {
        self.has_reason(&["BILLING_DISABLED", "billingNotEnabled", "accountBilling"])
            || self.reasons().any(|reason| reason.starts_with("billing"))
    }

    /// The ACP error. `context` words the resource, who asks, and where access to it is given.
    pub fn into_acp(&self, context: &Context) -> Error {
        let (code, message) = self.explain(context);
        let mut error = Error::new(code, message).with_data("http_status", self.http_status);
        for (key, value) in [("status", self.status.as_deref()), ("reason", self.reason())] {
            if let Some(value) = value {
                error = error.with_data(key, clean(value, 100));
            }
        }
        if let Some(wait) = self.wait() {
            error = error.with_data("retry_after_s", wait.as_secs());
        }
        error
    }

    fn explain(&self, context: &Context) -> (ErrorCode, String) {
        let json = self.body == BodyKind::Json;
        match self.http_status {
            401 => (ErrorCode::CredentialsInvalid, self.unauthenticated(context)),
            403 if json => self.forbidden(context),
            404 if json => (
                ErrorCode::ResourceNotFound,
                format!(
                    "Google found nothing for {} (404): {}. Check the id, and that {} can see it.",
                    context.resource(),
                    self.sentence(),
                    context.who()
                ),
            ),
            400 if json && self.is_authentication() => (ErrorCode::CredentialsInvalid, self.unauthenticated(context)),
            400 if json => (
                ErrorCode::InvalidArguments,
                format!("Google rejects the request (400): {}. Correct the arguments and try again.", self.sentence()),
            ),
            429 => (ErrorCode::UpstreamError, self.limited()),
            500..=599 if self.is_quota() => (ErrorCode::UpstreamError, self.limited()),
            408 | 500..=599 => (ErrorCode::UpstreamError, self.failed()),
            300..=399 => (
                ErrorCode::UpstreamError,
                format!(
                    "The answer redirects to another address ({}), which is not followed because credentials would \
                     go there. Check the proxy and the network.",
                    self.http_status
                ),
            ),
            status if !json => (ErrorCode::UpstreamError, self.not_an_api(status)),
            status => (ErrorCode::UpstreamError, format!("Google answered {status}: {}.", self.sentence())),
        }
    }

    fn forbidden(&self, context: &Context) -> (ErrorCode, String) {
        let words = self.sentence();
        let who = context.who();
        if self.is_api_disabled() {
            let link = self.metadata("activationUrl").map(|url| clean(url, 300));
            let place = link.unwrap_or_else(|| "the Google Cloud console under APIs & Services".to_owned());
            let message = format!(
                "The API is not enabled in the Cloud project of these credentials (403): {words}. Enable the API at \
                 {place}, wait a minute and try again."
            );
            return (ErrorCode::UpstreamError, message);
        }
        if self.is_rate_limit() || self.is_quota() {
            return (ErrorCode::UpstreamError, self.limited());
        }
        if self.is_billing() {
            let next = "Enable billing for the Cloud project in the Google Cloud console.";
            return (ErrorCode::UpstreamError, format!("Google asks for billing (403): {words}. {next}"));
        }
        if self.has_reason(&["USER_PROJECT_DENIED", "responseTooLarge"]) {
            return (ErrorCode::UpstreamError, format!("Google refuses the request (403): {words}."));
        }
        if self.lacks_scope() {
            let message = format!(
                "The authorisation of {who} does not cover this API (403): {words}. Sign in again and allow the \
                 scopes this server asks for."
            );
            return (ErrorCode::CredentialsInvalid, message);
        }
        if self.is_authentication() {
            return (ErrorCode::CredentialsInvalid, self.unauthenticated(context));
        }
        let grant = match &context.grant {
            Some(sentence) => sentence.clone(),
            None => "Give this account access to it, or use another account.".to_owned(),
        };
        let message = format!("No permission on {} for {who} (403): {words}. {grant}", context.resource());
        (ErrorCode::ResourceNotFound, message)
    }

    fn unauthenticated(&self, context: &Context) -> String {
        format!(
            "Google does not accept {} ({}): {}. Sign in again, or paste a new key or token.",
            context.whose(),
            self.http_status,
            self.sentence()
        )
    }

    fn limited(&self) -> String {
        let what = if self.is_quota() { "a quota is used up" } else { "too many requests" };
        format!("Google refuses for now, {what} ({}): {}. {}", self.http_status, self.sentence(), self.when())
    }

    /// When the quota is back, as far as the answer says so.
    fn when(&self) -> String {
        let text = self.message.as_str();
        let seconds = self.retry_after.map(|wait| wait.as_secs().max(1));
        if text.contains("15 minutes") || self.is_search_load() {
            "Do not retry before 15 minutes have passed.".to_owned()
        } else if ["per hour", "under an hour", "thresholded requests"].iter().any(|part| text.contains(part)) {
            "It is back within an hour; do not retry before.".to_owned()
        } else if text.contains("per day") || text.contains("24 hours") || self.is_long_quota() {
            "It is back at midnight Pacific time, within 24 hours; do not retry before.".to_owned()
        } else if let Some(seconds) = seconds {
            format!("Do not retry before {seconds} seconds have passed.")
        } else if self.is_rate_limit() {
            "Do not retry before a minute has passed.".to_owned()
        } else {
            "Do not retry soon; the quota page of the Google Cloud console shows when it is back.".to_owned()
        }
    }

    fn failed(&self) -> String {
        format!(
            "Google's service failed ({}): {}. Try again in a few minutes; if the same request keeps failing, ask \
             for fewer fields or a shorter period.",
            self.http_status,
            self.sentence()
        )
    }

    fn not_an_api(&self, status: u16) -> String {
        let what = match self.body {
            BodyKind::Html => "a web page",
            BodyKind::Empty => "nothing",
            _ => "a text",
        };
        let next = match status {
            404 => "There is no such method at this address",
            _ => "A proxy or a network filter may have answered in Google's place",
        };
        format!("Instead of an API answer came {what} ({status}): {}. {next}.", self.sentence())
    }

    /// Google's words without the full stop, to be put into a sentence.
    fn sentence(&self) -> String {
        let mut text = self.text();
        text.truncate(text.trim_end_matches(['.', ' ']).len());
        text
    }
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn text_at(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

/// The title of a page, which is all a person needs from it.
fn title(html: &str) -> Option<&str> {
    let lower = html.to_ascii_lowercase();
    let start = lower.find("<title>")? + "<title>".len();
    let end = lower[start..].find("</title>")? + start;
    html.get(start..end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn acp(status: u16, body: Value) -> Error {
        GoogleError::parse(status, body.to_string().as_bytes(), None).into_acp(
            &Context::new("GA4 property 123").principal(Some("robot@x.test")).grant("Grant Viewer in GA4 Admin."),
        )
    }

    fn with_reason(status: u16, reason: &str, message: &str) -> Value {
        json!({"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}})
    }

    #[test]
    fn a_403_is_told_apart_by_its_reason() {
        use ErrorCode::{CredentialsInvalid, ResourceNotFound, UpstreamError};
        for (reason, message, code, part) in [
            ("forbidden", "User does not have sufficient permission.", ResourceNotFound, "robot@x.test"),
            ("accessDenied", "Access Denied", ResourceNotFound, "Grant Viewer in GA4 Admin."),
            (
                "insufficientPermissions",
                "Request had insufficient authentication scopes.",
                CredentialsInvalid,
                "scopes",
            ),
            ("rateLimitExceeded", "Quota exceeded", UpstreamError, "minute"),
            ("quotaExceeded", "Quota exceeded", UpstreamError, "Do not retry"),
            ("dailyLimitExceeded", "Daily Limit", UpstreamError, "midnight"),
            ("billingNotEnabled", "Enable billing", UpstreamError, "billing"),
            ("accountDisabled", "disabled", CredentialsInvalid, "Sign in again"),
            ("accessNotConfigured", "not enabled", UpstreamError, "Enable the API"),
        ] {
            let error = acp(403, with_reason(403, reason, message));
            assert_eq!(error.code(), code, "{reason}");
            assert!(error.message().contains(part), "{}", error.message());
            assert_eq!(error.data().unwrap()["reason"], reason);
            assert_eq!(error.data().unwrap()["http_status"], 403);
        }
    }

    #[test]
    fn a_disabled_api_comes_with_its_link() {
        let error = acp(
            403,
            json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "API has not been used.",
                "errors": [{"reason": "accessNotConfigured"}],
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED",
                    "metadata": {"activationUrl": "https://console.developers.google.com/x"}}]}}),
        );
        assert_eq!(error.code(), ErrorCode::UpstreamError);
        assert!(error.message().contains("https://console.developers.google.com/x"), "{}", error.message());
        assert_eq!(error.data().unwrap()["reason"], "SERVICE_DISABLED");
        assert_eq!(error.data().unwrap()["status"], "PERMISSION_DENIED");
    }

    #[test]
    fn permission_names_the_resource_and_the_account() {
        let error = acp(403, json!({"error": {"code": 403, "message": "No.\nSee x.", "status": "PERMISSION_DENIED"}}));
        assert_eq!(
            error.message(),
            "No permission on GA4 property 123 for robot@x.test (403): No. See x. Grant Viewer in GA4 Admin."
        );
    }

    #[test]
    fn other_statuses() {
        use ErrorCode::{CredentialsInvalid, InvalidArguments, ResourceNotFound, UpstreamError};
        let body = json!({"error": {"message": "Did you mean city?"}});
        for (status, code) in [
            (400, InvalidArguments),
            (401, CredentialsInvalid),
            (404, ResourceNotFound),
            (409, UpstreamError),
            (429, UpstreamError),
            (500, UpstreamError),
            (503, UpstreamError),
            (302, UpstreamError),
        ] {
            let error = acp(status, body.clone());
            assert_eq!(error.code(), code, "{status}");
            assert!(status == 302 || error.message().contains("Did you mean city?"), "{}", error.message());
        }
    }

    #[test]
    fn pages_and_texts_are_not_answers_of_an_api() {
        let html = b"<!DOCTYPE html><html><TITLE>Error 404 (Not Found)!!1</TITLE>...";
        for (status, body) in [(404, &html[..]), (403, &html[..]), (400, b"nope"), (404, b"")] {
            let error = GoogleError::parse(status, body, None).into_acp(&Context::new("x"));
            assert_eq!(error.code(), ErrorCode::UpstreamError, "{status}");
        }
        let error = GoogleError::parse(404, html, None);
        assert_eq!((error.body, error.text().as_str()), (BodyKind::Html, "Error 404 (Not Found)!!1"));
        assert_eq!(GoogleError::parse(502, b"\xff\xfe", None).body, BodyKind::Text);
    }

    #[test]
    fn quotas_say_when_they_are_back() {
        for (message, part) in [
            ("Exhausted property tokens for a project per hour. They return in under an hour.", "within an hour"),
            ("Exhausted property tokens per day. These return in under 24 hours.", "midnight Pacific"),
            ("Exhausted client errors quota. It returns in under 15 minutes.", "15 minutes"),
            ("Exhausted potentially thresholded requests quota.", "within an hour"),
            ("Exhausted concurrent requests quota.", "minute"),
        ] {
            let error = acp(429, json!({"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}}));
            assert!(error.message().contains(part), "{}", error.message());
        }
        let error = GoogleError::parse(429, b"{}", Some(Duration::from_secs(7)));
        let error = error.into_acp(&Context::default());
        assert!(error.message().contains("before 7 seconds"), "{}", error.message());
        assert_eq!(error.data().unwrap()["retry_after_s"], 7);
    }

    #[test]
    fn search_console_has_one_reason_for_two_limits() {
        let body = |what: &str| {
            with_reason(
                403,
                "quotaExceeded",
                &format!("Search Analytics {what} quota exceeded. Learn about usage limits."),
            )
        };
        let load = acp(403, body("load"));
        assert_eq!(load.code(), ErrorCode::UpstreamError);
        assert!(load.message().contains("15 minutes") && load.message().contains("used up"), "{}", load.message());
        assert_eq!(load.data().unwrap()["retry_after_s"], 900);
        let rate = acp(403, body("QPS"));
        assert!(rate.message().contains("too many") && rate.message().contains("minute"), "{}", rate.message());
        assert_eq!(rate.data().unwrap().get("retry_after_s"), None);
    }

    #[test]
    fn old_shapes_and_retry_info_are_read() {
        let error = GoogleError::parse(400, br#"{"error":"invalid_grant","error_description":"Bad"}"#, None);
        assert_eq!((error.status.as_deref(), error.message.as_str()), (Some("invalid_grant"), "Bad"));
        let error = GoogleError::parse(429, br#"[{"error":{"message":"m","details":[{"retryDelay":"1.5s"}]}}]"#, None);
        assert_eq!((error.message.as_str(), error.retry_after), ("m", Some(Duration::from_millis(1500))));
    }

    #[test]
    fn quoted_secrets_are_taken_out() {
        let mut secrets = Secrets::default();
        secrets.add("ya29.PLANTEDPLANTED");
        let body = json!({"error": {"message": "Bad ya29.PLANTEDPLANTED", "status": "ya29.PLANTEDPLANTED",
            "errors": [{"reason": "ya29.PLANTEDPLANTED"}], "details": [{"x": ["ya29.PLANTEDPLANTED"]}]}});
        let mut error = GoogleError::parse(400, body.to_string().as_bytes(), None);
        error.redact(&secrets);
        assert!(!format!("{error:?}").contains("PLANTED"), "{error:?}");
    }
}
