//! Access tokens: made from a key or a refresh token, kept in memory until they end, made once for all who wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_core::{Error, Result, Secret};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use moka::future::Cache;
use moka::ops::compute::{CompResult, Op};
use moka::policy::Expiry;
use reqwest::Response;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::credentials::{GoogleCredentials, Kind, OAuth, ServiceAccount};
use crate::error::{BodyKind, Context, Failure, GoogleError, TransportKind};
use crate::google::Shared;
use crate::http::{SMALL, within};
use crate::redact::{Secrets, clean};
use crate::retry::backoff;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The longest life Google gives an assertion.
const ASSERTION_SECONDS: i64 = 3600;
/// A token is not used in its last minute: the request that carries it may take that long to arrive.
const MARGIN: Duration = Duration::from_secs(60);
/// How long a token of unknown end is kept. Google tells by a 401 if it ended before.
const UNKNOWN_LIFE: Duration = Duration::from_secs(3600);
/// Tries after the first when the endpoint can't be reached or fails.
const RETRIES: u32 = 2;
/// Tokens in memory. Beyond it the ones used least go.
const CAPACITY: u64 = 1_000;
/// Characters of Google's own words.
const WORDS: usize = 200;

/// Which token: a hash of the credential's identity, the scopes and the token endpoint.
pub(crate) type Key = [u8; 32];

/// The tokens of this process. They are never written anywhere.
#[derive(Debug)]
pub(crate) struct Tokens(Cache<Key, Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) value: Secret<String>,
    usable_for: Duration,
}

struct UntilItEnds;

impl Expiry<Key, Token> for UntilItEnds {
    fn expire_after_create(&self, _: &Key, token: &Token, _: Instant) -> Option<Duration> {
        Some(token.usable_for)
    }

    fn expire_after_update(&self, _: &Key, token: &Token, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(token.usable_for)
    }
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self(Cache::builder().max_capacity(CAPACITY).expire_after(UntilItEnds).build())
    }

    /// The key of the token for these credentials and scopes.
    pub(crate) fn key(credentials: &GoogleCredentials, scopes: &[&str], endpoint: &str) -> Key {
        let mut hash = Sha256::new();
        let parts = [credentials.identity().as_str(), endpoint].into_iter().chain(scopes.iter().copied());
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().into()
    }
}

/// What a token is asked for with.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) credentials: &'a GoogleCredentials,
    pub(crate) scopes: &'a [&'a str],
    pub(crate) key: Key,
}

/// A form for the token endpoint.
struct Grant {
    uri: String,
    fields: Vec<(&'static str, Secret<String>)>,
    secrets: Secrets,
    /// Whether it is signed with a key, for the wording of a refusal.
    signed: bool,
}

/// A failed try.
struct Failed {
    error: Error,
    /// Whether another try may help.
    passing: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, passing: false }
    }
}

impl Ask<'_> {
    /// A token that is good as far as this process knows. Calls at the same time share one exchange; a failure is
    /// not remembered.
    pub(crate) async fn token(&self) -> Result<Token> {
        let made = self.shared.tokens.0.try_get_with(self.key, self.first());
        made.await.map_err(|error: Arc<Error>| error.as_ref().clone())
    }

    /// Another token, after an API refused `rejected`; `None` when these credentials can't make one. Of many
    /// calls that were refused at the same time only the first asks for it.
    pub(crate) async fn another(&self, rejected: &Secret<String>) -> Result<Option<Token>> {
        if !self.can_exchange() {
            self.shared.tokens.0.invalidate(&self.key).await;
            return Ok(None);
        }
        let entry = self.shared.tokens.0.entry(self.key);
        let outcome = entry
            .and_try_compute_with(async |entry| match entry {
                Some(current) if current.value().value != *rejected => Ok::<_, Error>(Op::Nop),
                _ => Ok(Op::Put(self.exchange().await?)),
            })
            .await?;
        Ok(match outcome {
            CompResult::Inserted(entry) | CompResult::ReplacedWith(entry) | CompResult::Unchanged(entry) => {
                Some(entry.into_value())
            }
            CompResult::Removed(_) | CompResult::StillNone(_) => None,
        })
    }

    fn can_exchange(&self) -> bool {
        match self.credentials.kind() {
            Kind::ServiceAccount(_) => true,
            Kind::OAuth(oauth) => oauth.refresh.is_some(),
        }
    }

    fn who(&self) -> &str {
        self.credentials.principal().unwrap_or("these credentials")
    }

    /// The access token that came with the credentials while it is good, else a new one.
    async fn first(&self) -> Result<Token> {
        let Kind::OAuth(OAuth { access_token: Some(value), expires, refresh }) = self.credentials.kind() else {
            return self.exchange().await;
        };
        let left = match expires {
            Some(end) => Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or_default(),
            None => UNKNOWN_LIFE + MARGIN,
        };
        match left.checked_sub(MARGIN) {
            Some(usable_for) => Ok(Token { value: value.clone(), usable_for }),
            None if refresh.is_some() => self.exchange().await,
            None => Err(Error::credentials_invalid(format!(
                "The access token of {} has expired and there is no refresh token: sign in again.",
                self.who()
            ))),
        }
    }

    async fn exchange(&self) -> Result<Token> {
        let grant = self.grant()?;
        let mut retries = 0;
        loop {
            match self.attempt(&grant).await {
                Ok(token) => return Ok(token),
                Err(failed) if failed.passing && retries < RETRIES => {
                    tokio::time::sleep(backoff(&self.shared.http.timing, retries)).await;
                    retries += 1;
                }
                Err(failed) => return Err(failed.error),
            }
        }
    }

    fn grant(&self) -> Result<Grant> {
        let mut secrets = self.credentials.secrets().clone();
        match self.credentials.kind() {
            Kind::ServiceAccount(account) => {
                let assertion = assertion(account, self.scopes, Timestamp::now())?;
                secrets.add(&assertion);
                let fields = vec![("grant_type", JWT_BEARER.to_owned()), ("assertion", assertion)];
                Ok(Grant { uri: account.token_uri.clone(), fields: in_custody(fields), secrets, signed: true })
            }
            Kind::OAuth(oauth) => {
                let refresh = oauth.refresh.as_ref().ok_or_else(|| {
                    Error::credentials_invalid(format!("There is no refresh token for {}: sign in again.", self.who()))
                })?;
                let fields = vec![
                    ("grant_type", "refresh_token".to_owned()),
                    ("refresh_token", refresh.refresh_token.expose().clone()),
                    ("client_id", refresh.client_id.clone()),
                    ("client_secret", refresh.client_secret.expose().clone()),
                ];
                Ok(Grant { uri: refresh.token_uri.clone(), fields: in_custody(fields), secrets, signed: false })
            }
        }
    }

    async fn attempt(&self, grant: &Grant) -> Result<Token, Failed> {
        let http = &self.shared.http;
        let fields: Vec<_> = grant.fields.iter().map(|(name, value)| (*name, value.expose())).collect();
        let request = http.client()?.post(&grant.uri).form(&fields);
        let started = Instant::now();
        let answer = within(http.timing.token, async {
            let mut response = http.send(request, http.timing.token).await?;
            let body = http.whole(&mut response, SMALL).await?;
            Ok((response, body.unwrap_or_default()))
        });
        let answer = answer.await.and_then(|answer| answer);
        let status = answer.as_ref().ok().map(|(response, _)| response.status().as_u16());
        tracing::debug!(status, ms = started.elapsed().as_millis() as u64, "token exchange");
        match answer {
            Ok((response, body)) if response.status().is_success() => self.read(&body, grant),
            Ok((response, body)) => Err(self.refused(&response, &body, grant)),
            Err(failure) => Err(unreachable(failure)),
        }
    }

    fn read(&self, body: &[u8], grant: &Grant) -> Result<Token, Failed> {
        // The parser's error would quote the token.
        let Ok(Value::Object(body)) = serde_json::from_slice(body) else {
            let message = "Google's token endpoint did not answer in JSON. A proxy or a network filter may have \
                           answered in its place.";
            return Err(Error::upstream(message).into());
        };
        let Some(value) = body.get("access_token").and_then(Value::as_str).filter(|token| is_token(token)) else {
            // Google reads a scope it doesn't know as an audience and answers with an identity token.
            return Err(Error::credentials_invalid(format!(
                "Google gave no access token for {} with the scopes {}: it does not know one of them.",
                self.who(),
                self.scopes.join(" ")
            ))
            .into());
        };
        tracing::debug!(signed = grant.signed, "new access token");
        let seconds = body.get("expires_in").and_then(Value::as_f64).unwrap_or(UNKNOWN_LIFE.as_secs_f64());
        let life = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Ok(Token { value: Secret::new(value.to_owned()), usable_for: life.saturating_sub(MARGIN) })
    }

    fn refused(&self, response: &Response, body: &[u8], grant: &Grant) -> Failed {
        let status = response.status().as_u16();
        let mut error = GoogleError::parse(status, body, None);
        error.redact(&grant.secrets);
        let name = clean(error.status.as_deref().unwrap_or_default(), 60);
        if status >= 500 || status == 429 || error.body != BodyKind::Json || name.is_empty() {
            let said = clean(&error.text(), WORDS);
            let message = format!(
                "Google's token endpoint failed ({status}): {said}. Try again in a minute; if it stays, check the \
                 proxy and the network."
            );
            let error = Error::upstream(message).with_data("http_status", status);
            return Failed { error, passing: status >= 500 };
        }
        let what = Refusal { name: &name, words: &error.message, who: self.who(), signed: grant.signed };
        let said = clean(&error.message, WORDS);
        let said = said.trim_end_matches('.');
        let message =
            format!("{} Google said: {name}: {said}.", what.advice(self.scopes, self.shared.http.clock_error()));
        Error::credentials_invalid(message).with_data("http_status", status).with_data("reason", name).into()
    }
}

fn in_custody(fields: Vec<(&'static str, String)>) -> Vec<(&'static str, Secret<String>)> {
    fields.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn unreachable(failure: Failure) -> Failed {
    let Failure::Transport(transport) = &failure else {
        return failure.into_acp(&Context::default()).into();
    };
    if transport.is_certificate() {
        return failure.into_acp(&Context::default()).into();
    }
    // A timeout has taken as long as a person wants to wait.
    let passing = transport.kind != TransportKind::Timeout;
    let message = format!(
        "Google's token endpoint can't be reached: {}. Check the network and the proxy settings, then try again.",
        transport.cause()
    );
    Failed { error: Error::upstream(message), passing }
}

/// A signed statement of who asks for what (RFC 7523), as Google's guide for service accounts describes it.
fn assertion(account: &ServiceAccount, scopes: &[&str], now: Timestamp) -> Result<String> {
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if let Some(key_id) = &account.key_id {
        header["kid"] = Value::from(key_id.as_str());
    }
    let issued = now.as_second();
    let claims = json!({
        "iss": account.email,
        "scope": scopes.join(" "),
        "aud": account.token_uri,
        "iat": issued,
        "exp": issued + ASSERTION_SECONDS,
    });
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = account.key.signer().sign(signed.as_bytes()).map_err(|_| {
        Error::credentials_invalid("private_key can't sign: create a new key and paste its whole file.")
    })?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Why the token endpoint says no, in its words.
struct Refusal<'a> {
    name: &'a str,
    words: &'a str,
    who: &'a str,
    signed: bool,
}

impl Refusal<'_> {
    /// What the person has to do. Google uses `invalid_grant` for half a dozen unlike causes, and people who are
    /// not told that it's the clock make one new key after another.
    fn advice(&self, scopes: &[&str], clock: Option<SignedDuration>) -> String {
        let Self { who, signed, .. } = *self;
        let words = self.words.to_ascii_lowercase();
        let says = |part: &str| words.contains(part);
        match self.name {
            "invalid_grant" if says("reasonable timeframe") || says("short-lived") || says("iat and exp") => {
                format!("This computer's clock is off{}: set it, the key is fine.", clock_text(clock))
            }
            "invalid_grant" if says("signature") => format!(
                "Google does not recognise the key of {who}: it was deleted or the file was altered. Create a new \
                 JSON key in the Google Cloud console (IAM & Admin, Service Accounts, Keys) and paste its whole file."
            ),
            "invalid_grant" | "invalid_request" if says("account not found") || says("deleted") => {
                format!("The account {who} does not exist (any more): use the key or the login of another account.")
            }
            "invalid_grant" | "account_disabled" | "disabled_client" if says("disabled") => {
                format!("The account or client of {who} is disabled: enable it in the Google Cloud console.")
            }
            "invalid_grant" if says("audience") => {
                "token_uri of the key was altered: use the key file as Google made it.".to_owned()
            }
            "invalid_grant" if !signed => {
                format!("The login of {who} has expired or was revoked: sign in again.")
            }
            "invalid_client" | "deleted_client" => {
                "Google does not know this OAuth client: check client_id and client_secret, or sign in again."
                    .to_owned()
            }
            "unauthorized_client" if signed => {
                format!("The service account {who} is not allowed to ask for these scopes: {}.", scopes.join(" "))
            }
            "unauthorized_client" => {
                "This OAuth client may not refresh this login: use the client_id and client_secret \
                 the login was made with, or sign in again."
                    .to_owned()
            }
            "invalid_scope" => {
                format!("Google does not grant {who} the scopes {}: sign in again and allow them.", scopes.join(" "))
            }
            _ if signed => {
                format!("Google does not accept the key of {who}: create a new JSON key and paste its file.")
            }
            _ => format!("Google does not accept the login of {who}: sign in again."),
        }
    }
}

pub(crate) fn clock_text(clock: Option<SignedDuration>) -> String {
    let Some(clock) = clock.filter(|clock| clock.as_secs().abs() >= 60) else { return String::new() };
    let minutes = clock.as_secs().abs() / 60;
    let direction = if clock.is_negative() { "behind" } else { "ahead" };
    format!(" ({minutes} min {direction})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(name: &str, words: &str, signed: bool) -> String {
        Refusal { name, words, who: "a@b.c", signed }.advice(&["s1", "s2"], Some(SignedDuration::from_secs(-700)))
    }

    #[test]
    fn refusals_say_what_to_do() {
        let timeframe = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.";
        for (name, words, signed, part) in [
            ("invalid_grant", timeframe, true, "clock is off (11 min behind)"),
            ("invalid_grant", "Invalid JWT Signature.", true, "deleted or the file was altered"),
            ("invalid_grant", "Invalid grant: account not found", true, "does not exist"),
            ("invalid_grant", "Invalid JWT: Failed audience check.", true, "token_uri"),
            ("invalid_grant", "Token has been expired or revoked.", false, "expired or was revoked: sign in again"),
            ("invalid_grant", "Bad Request", false, "sign in again"),
            ("invalid_grant", "Account disabled", false, "disabled"),
            ("invalid_client", "The OAuth client was not found.", false, "client_id"),
            ("unauthorized_client", "Unauthorized", false, "the login was made with"),
            ("unauthorized_client", "Client is unauthorized", true, "s1 s2"),
            ("invalid_scope", "Bad", true, "s1 s2"),
            ("invalid_request", "Bad Request", true, "create a new JSON key"),
            ("admin_policy_enforced", "No", false, "sign in again"),
        ] {
            let advice = advice(name, words, signed);
            assert!(advice.contains(part), "{name} {words}: {advice}");
        }
        assert_eq!(clock_text(Some(SignedDuration::from_secs(30))), "");
        assert_eq!(clock_text(Some(SignedDuration::from_secs(3600))), " (60 min ahead)");
    }

    #[test]
    fn keys_differ_by_credential_scopes_and_endpoint() {
        let credentials = |token: &str| {
            let values = json!({"type": "oauth", "access_token": token});
            let values = acp_core::Credentials::new(values.as_object().unwrap().clone());
            GoogleCredentials::read(&values, &crate::Endpoints::google()).unwrap()
        };
        let key = Tokens::key(&credentials("a"), &["x", "y"], "e");
        assert_eq!(key, Tokens::key(&credentials("a"), &["x", "y"], "e"));
        for other in [
            Tokens::key(&credentials("b"), &["x", "y"], "e"),
            Tokens::key(&credentials("a"), &["xy"], "e"),
            Tokens::key(&credentials("a"), &["x", "y"], "f"),
        ] {
            assert_ne!(key, other);
        }
    }
}
