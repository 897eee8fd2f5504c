//! Reads the `credentials` of a call into what a token can be made from.
//!
//! Every failure is a fixed text: parsers of JSON and of keys quote their input in their errors, some of them as
//! decimal bytes, and their input is the secret.

use std::sync::Arc;

use acp_core::{Credentials, Error, Identity, Result, Secret};
use acp_protocol::JsonObject;
use gcp_auth::CustomServiceAccount;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::endpoints::Endpoints;
use crate::redact::{Secrets, clean};

/// Numbers below this are seconds: as milliseconds they would be in 1973.
const SECONDS_BELOW: i64 = 100_000_000_000;

/// Credentials for Google, read and checked for form but not yet shown to Google.
#[derive(Clone, Debug)]
pub struct GoogleCredentials {
    kind: Kind,
    principal: Option<String>,
    project: Option<String>,
    quota_project: Option<String>,
    identity: Identity,
    secrets: Secrets,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    ServiceAccount(Arc<ServiceAccount>),
    OAuth(OAuth),
}

/// A key with which assertions are signed.
pub(crate) struct ServiceAccount {
    pub(crate) key: CustomServiceAccount,
    pub(crate) email: String,
    pub(crate) key_id: Option<String>,
    pub(crate) token_uri: String,
}

impl std::fmt::Debug for ServiceAccount {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServiceAccount").field("email", &self.email).finish_non_exhaustive()
    }
}

/// Tokens of a person: at least one of the two.
#[derive(Clone, Debug, Default)]
pub(crate) struct OAuth {
    pub(crate) access_token: Option<Secret<String>>,
    /// When the access token ends, if that is known.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) refresh: Option<Refresh>,
}

/// What a new access token is made from.
#[derive(Clone, Debug)]
pub(crate) struct Refresh {
    pub(crate) refresh_token: Secret<String>,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret<String>,
    pub(crate) token_uri: String,
}

impl GoogleCredentials {
    /// Reads the `credentials` of a call: `service_account`, `oauth` or `google_oauth`. Keys it doesn't know are
    /// ignored, since hosts send more than a schema lists. `ACP_CREDENTIALS_INVALID` says what to correct and never
    /// quotes a value.
    pub fn read(credentials: &Credentials, endpoints: &Endpoints) -> Result<Self> {
        let values = credentials.values().expose();
        let is_file = ["private_key", "installed", "web"].iter().any(|key| values.contains_key(*key));
        let read = match text(values, "type") {
            // The file itself, as Google's console and command line write it.
            Some("service_account") | None if is_file => read_file(values, endpoints)?,
            Some("authorized_user" | "external_account" | "impersonated_service_account") => {
                read_file(values, endpoints)?
            }
            Some("service_account") => read_key_field(values, endpoints)?,
            Some("oauth" | "google_oauth") => read_oauth(values, endpoints)?,
            Some("portal_oauth") => {
                return Err(invalid(
                    "A portal_oauth reference is not a token: the host must exchange it for one (type oauth) before \
                     it calls.",
                ));
            }
            _ => return Err(invalid("type must be service_account, oauth or google_oauth.")),
        };
        Ok(Self { identity: credentials.identity().clone(), ..read })
    }

    /// Whose credentials these are, for messages: the e-mail address of the service account or of the person.
    pub fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// The identity of the whole credential, for cache keys.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The Cloud project to which a service account belongs, as its key says.
    pub fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The project that is charged with the requests of a person who uses Google's own command line client.
    pub(crate) fn quota_project(&self) -> Option<&str> {
        self.quota_project.as_deref()
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn new(kind: Kind, principal: Option<&str>, secrets: Secrets) -> Self {
        Self {
            kind,
            principal: principal.map(|principal| clean(principal, 200)),
            project: None,
            quota_project: None,
            identity: Identity::anonymous(),
            secrets,
        }
    }
}

fn invalid(message: &str) -> Error {
    Error::credentials_invalid(message)
}

/// A text with something in it, without the white space that pasting adds.
fn text<'a>(values: &'a JsonObject, key: &str) -> Option<&'a str> {
    values.get(key)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

fn read_key_field(values: &JsonObject, endpoints: &Endpoints) -> Result<GoogleCredentials> {
    let key = match values.get("service_account") {
        Some(Value::String(text)) if !text.trim().is_empty() => parse(text)?,
        Some(Value::Object(key)) => key.clone(),
        None | Some(Value::Null | Value::String(_)) => {
            return Err(invalid("service_account is missing: paste the whole key file."));
        }
        Some(_) => return Err(invalid("service_account must be the text of the key file.")),
    };
    read_file(&key, endpoints)
}

/// Reads the content of a credentials file of Google's.
fn read_file(key: &JsonObject, endpoints: &Endpoints) -> Result<GoogleCredentials> {
    match text(key, "type") {
        Some("authorized_user") => read_authorized_user(key, endpoints),
        Some(
            "external_account"
            | "external_account_authorized_user"
            | "impersonated_service_account"
            | "gdch_service_account",
        ) => Err(invalid(
            "This kind of credentials file is not supported: paste the key file of a service account, or the \
             authorized_user file.",
        )),
        _ if key.contains_key("installed") || key.contains_key("web") => Err(invalid(
            "This is the file of an OAuth client, not of an account: paste the key file of a service account.",
        )),
        _ => read_key(key, endpoints),
    }
}

/// Parses the text of a key file. A host that encodes it twice sends a JSON string which holds the JSON.
fn parse(text: &str) -> Result<JsonObject> {
    let mut value = Value::String(text.to_owned());
    for _ in 0..3 {
        match value {
            Value::String(text) => {
                value = serde_json::from_str(text.trim_start_matches('\u{feff}').trim()).map_err(|_| not_json())?;
            }
            Value::Object(key) => return Ok(key),
            _ => break,
        }
    }
    match value {
        Value::Object(key) => Ok(key),
        _ => Err(not_json()),
    }
}

fn not_json() -> Error {
    invalid("The service account key is not valid JSON: paste the whole key file.")
}

fn read_key(key: &JsonObject, endpoints: &Endpoints) -> Result<GoogleCredentials> {
    let email = text(key, "client_email")
        .ok_or_else(|| invalid("The service account key has no client_email: paste the whole key file."))?;
    let private_key = text(key, "private_key")
        .ok_or_else(|| invalid("The service account key has no private_key: paste the whole key file."))?;
    let private_key = with_line_breaks(private_key);
    let token_uri = token_uri(key, endpoints)?;
    let mut secrets = Secrets::default();
    secrets.add(&private_key);
    let account = ServiceAccount {
        key: signer(&private_key, email, &token_uri)?,
        email: email.to_owned(),
        key_id: text(key, "private_key_id").map(str::to_owned),
        token_uri,
    };
    Ok(GoogleCredentials {
        // Some tools write keys with other texts here; what is no project is none.
        project: project(key, "project_id").unwrap_or_default(),
        ..GoogleCredentials::new(Kind::ServiceAccount(Arc::new(account)), Some(email), secrets)
    })
}

/// Keys that went through an environment variable or a form often have backslash-n in place of line breaks.
fn with_line_breaks(private_key: &str) -> String {
    if private_key.contains("\\n") && !private_key.contains('\n') {
        private_key.replace("\\r", "").replace("\\n", "\n")
    } else {
        private_key.to_owned()
    }
}

fn signer(private_key: &str, email: &str, token_uri: &str) -> Result<CustomServiceAccount> {
    if private_key.contains("BEGIN RSA PRIVATE KEY") {
        return Err(invalid(
            "private_key is not a PKCS#8 PEM but a PKCS#1 one: create a JSON key in the Google Cloud console and \
             paste its whole file.",
        ));
    }
    // Only what has been checked is handed on, and nothing of the error comes back: it may quote the key.
    let checked = json!({"private_key": private_key, "client_email": email, "token_uri": token_uri}).to_string();
    CustomServiceAccount::from_json(&checked)
        .map_err(|_| invalid("private_key is not a PKCS#8 PEM of an RSA key: paste the whole key file, unchanged."))
}

fn token_uri(key: &JsonObject, endpoints: &Endpoints) -> Result<String> {
    let named = match key.get("token_uri") {
        None | Some(Value::Null) => None,
        Some(Value::String(uri)) => Some(uri.as_str()),
        Some(_) => Some("not a text"),
    };
    endpoints.token_for(named).map(str::to_owned).ok_or_else(|| {
        invalid(
            "token_uri of the key is not Google's token endpoint (https://oauth2.googleapis.com/token): use the key \
             file as Google made it.",
        )
    })
}

fn read_authorized_user(key: &JsonObject, endpoints: &Endpoints) -> Result<GoogleCredentials> {
    let refresh = read_refresh(key, endpoints)?.ok_or_else(|| {
        invalid("The authorized_user file has no refresh_token, client_id or client_secret: paste the whole file.")
    })?;
    let mut secrets = Secrets::default();
    secrets.add(refresh.refresh_token.expose());
    secrets.add(refresh.client_secret.expose());
    let oauth = OAuth { refresh: Some(refresh), ..OAuth::default() };
    Ok(GoogleCredentials {
        quota_project: project(key, "quota_project_id")?,
        ..GoogleCredentials::new(Kind::OAuth(oauth), text(key, "account"), secrets)
    })
}

fn project(key: &JsonObject, field: &str) -> Result<Option<String>> {
    let Some(project) = text(key, field) else { return Ok(None) };
    let id = project.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    if id { Ok(Some(project.to_owned())) } else { Err(invalid(&format!("{field} is not the id of a project."))) }
}

fn read_oauth(values: &JsonObject, endpoints: &Endpoints) -> Result<GoogleCredentials> {
    let refresh = read_refresh(values, endpoints)?;
    let access_token = text(values, "access_token");
    if access_token.is_none() && refresh.is_none() {
        return Err(invalid(
            "access_token is missing: give one, or refresh_token together with client_id and client_secret.",
        ));
    }
    if access_token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(invalid("access_token holds characters that no token has: paste it again."));
    }
    let mut secrets = Secrets::default();
    for secret in ["access_token", "refresh_token", "client_secret"] {
        secrets.add(text(values, secret).unwrap_or_default());
    }
    let oauth = OAuth {
        access_token: access_token.map(|token| Secret::new(token.to_owned())),
        expires: expiry(values.get("expiry_date"))?,
        refresh,
    };
    Ok(GoogleCredentials::new(Kind::OAuth(oauth), text(values, "email"), secrets))
}

/// A refresh takes all three values; without one of them there is none.
fn read_refresh(values: &JsonObject, endpoints: &Endpoints) -> Result<Option<Refresh>> {
    let (Some(refresh_token), Some(client_id), Some(client_secret)) =
        (text(values, "refresh_token"), text(values, "client_id"), text(values, "client_secret"))
    else {
        return Ok(None);
    };
    Ok(Some(Refresh {
        refresh_token: Secret::new(refresh_token.to_owned()),
        client_id: client_id.to_owned(),
        client_secret: Secret::new(client_secret.to_owned()),
        token_uri: token_uri(values, endpoints)?,
    }))
}

/// When an access token ends: milliseconds since 1970, as a number or as digits, or an ISO 8601 date with its zone.
fn expiry(value: Option<&Value>) -> Result<Option<Timestamp>> {
    let wrong = || invalid("expiry_date must be milliseconds since 1970 or an ISO 8601 date with a time zone.");
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => match text.trim().parse::<i64>() {
            Ok(number) => from_number(number).ok_or_else(wrong).map(Some),
            Err(_) => text.trim().parse().map(Some).map_err(|_| wrong()),
        },
        Some(Value::Number(number)) => {
            let number = number.as_i64().or_else(|| number.as_f64().map(|number| number as i64));
            number.and_then(from_number).ok_or_else(wrong).map(Some)
        }
        Some(_) => Err(wrong()),
    }
}

fn from_number(number: i64) -> Option<Timestamp> {
    if number < SECONDS_BELOW { Timestamp::from_second(number).ok() } else { Timestamp::from_millisecond(number).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: Value) -> Result<GoogleCredentials> {
        GoogleCredentials::read(&Credentials::new(values.as_object().unwrap().clone()), &Endpoints::google())
    }

    fn message(values: Value) -> String {
        let error = read(values).unwrap_err();
        assert_eq!(error.code(), acp_protocol::error::ErrorCode::CredentialsInvalid);
        error.message().to_owned()
    }

    fn key(key: Value) -> Value {
        json!({"type": "service_account", "service_account": key.to_string()})
    }

    #[test]
    fn what_is_missing_is_named() {
        for (values, part) in [
            (json!({}), "type must be"),
            (json!({"type": "x"}), "type must be"),
            (json!({"type": "portal_oauth", "email": "a@b.c", "scopes": "s"}), "the host must exchange it"),
            (json!({"type": "service_account"}), "service_account is missing"),
            (json!({"type": "service_account", "service_account": " "}), "service_account is missing"),
            (json!({"type": "service_account", "service_account": 5}), "must be the text"),
            (json!({"type": "service_account", "service_account": "{"}), "not valid JSON: paste the whole key file."),
            (json!({"type": "service_account", "service_account": "[1]"}), "not valid JSON"),
            (json!({"type": "service_account", "service_account": "\"\\\"\\\\\\\"x\\\\\\\"\\\"\""}), "not valid JSON"),
            (key(json!({})), "no client_email"),
            (key(json!({"client_email": "a@b.c"})), "no private_key"),
            (key(json!({"client_email": "a@b.c", "private_key": "x"})), "not a PKCS#8 PEM"),
            (key(json!({"client_email": "a@b.c", "private_key": "-----BEGIN RSA PRIVATE KEY-----"})), "PKCS#1"),
            (key(json!({"type": "external_account"})), "not supported"),
            (key(json!({"installed": {}})), "OAuth client"),
            (key(json!({"type": "authorized_user", "refresh_token": "r"})), "authorized_user file has no"),
            (json!({"type": "oauth"}), "access_token is missing"),
            (json!({"type": "oauth", "refresh_token": "r"}), "access_token is missing"),
            (json!({"type": "oauth", "access_token": "a\nb"}), "characters"),
            (json!({"type": "oauth", "access_token": "a", "expiry_date": "soon"}), "expiry_date"),
            (json!({"type": "oauth", "access_token": "a", "expiry_date": true}), "expiry_date"),
        ] {
            let message = message(values.clone());
            assert!(message.contains(part), "{values}: {message}");
        }
    }

    #[test]
    fn a_key_may_not_send_assertions_elsewhere() {
        for uri in [json!("https://evil.test/token"), json!("http://169.254.169.254/"), json!("not a uri"), json!(5)] {
            let values = key(json!({"client_email": "a@b.c", "private_key": "x", "token_uri": uri}));
            assert!(message(values).contains("token_uri"));
            let user = json!({"type": "authorized_user", "refresh_token": "r", "client_id": "i", "client_secret": "s",
                "token_uri": uri});
            assert!(message(key(user)).contains("token_uri"));
        }
    }

    #[test]
    fn tokens_are_read_with_whatever_comes_along() {
        let read = read(json!({"type": "google_oauth", "access_token": " t ", "email": "a@b.c", "more": {"x": 1},
            "expiry_date": 1_764_500_000_000_i64}))
        .unwrap();
        assert_eq!(read.principal(), Some("a@b.c"));
        let Kind::OAuth(oauth) = read.kind() else { panic!("not tokens") };
        assert_eq!(oauth.access_token.as_ref().map(Secret::expose).map(String::as_str), Some("t"));
        assert_eq!(oauth.expires.unwrap().to_string(), "2025-11-30T10:53:20Z");
        assert!(oauth.refresh.is_none());
    }

    #[test]
    fn an_expiry_has_several_forms() {
        for value in [
            json!(1_764_500_000_000_i64),
            json!(1_764_500_000_000.0),
            json!("1764500000000"),
            json!(1_764_500_000),
            json!("2025-11-30T10:53:20Z"),
            json!("2025-11-30T11:53:20.000+01:00"),
        ] {
            assert_eq!(expiry(Some(&value)).unwrap().unwrap().as_second(), 1_764_500_000, "{value}");
        }
        for value in [json!(null), json!("")] {
            assert_eq!(expiry(Some(&value)).unwrap(), None);
        }
        assert!(expiry(Some(&json!("2025-11-30"))).is_err());
    }

    #[test]
    fn a_refresh_alone_is_enough() {
        let tokens = json!({"refresh_token": "1//rrrr", "client_id": "i", "client_secret": "GOCSPX-s",
            "quota_project_id": "my-project"});
        let mut oauth = tokens.clone();
        oauth["type"] = "oauth".into();
        assert!(matches!(read(oauth).unwrap().kind(), Kind::OAuth(OAuth { refresh: Some(_), .. })));
        let mut user = tokens;
        user["type"] = "authorized_user".into();
        let read = read(key(user)).unwrap();
        assert_eq!(read.quota_project(), Some("my-project"));
        let printed = format!("{read:?}");
        assert!(!printed.contains("1//rrrr") && !printed.contains("GOCSPX"), "{printed}");
    }
}
