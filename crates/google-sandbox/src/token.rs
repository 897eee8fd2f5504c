//! The token endpoint: service account assertions and refresh tokens, with Google's own refusals.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::clock::now_seconds;
use crate::identities::{Identities, Identity};

/// Scopes that give an access token.
const SCOPES: [&str; 9] = [
    "https://www.googleapis.com/auth/analytics",
    "https://www.googleapis.com/auth/analytics.readonly",
    "https://www.googleapis.com/auth/analytics.edit",
    "https://www.googleapis.com/auth/webmasters",
    "https://www.googleapis.com/auth/webmasters.readonly",
    "https://www.googleapis.com/auth/bigquery",
    "https://www.googleapis.com/auth/bigquery.readonly",
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/cloud-platform.read-only",
];

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// How far a clock may be off.
const DRIFT_SECONDS: i64 = 300;

const BAD_TIMES: &str = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. \
                         Check your iat and exp values in the JWT claim.";

/// Assertions come with and without padding: common libraries pad them and Google accepts that.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

struct Refusal {
    status: u16,
    error: &'static str,
    description: String,
}

fn refuse(error: &'static str, description: impl Into<String>) -> Refusal {
    Refusal { status: if error == "invalid_client" { 401 } else { 400 }, error, description: description.into() }
}

/// Answers `POST /token`.
pub(crate) fn answer(identities: &Identities, token_uri: &str, content_type: &str, body: &[u8]) -> Answer {
    let fields = fields(content_type, body);
    let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let granted = match field("grant_type") {
        JWT_BEARER => assertion(identities, token_uri, field("assertion")),
        "refresh_token" => identities
            .person(field("client_id"), field("client_secret"), field("refresh_token"))
            .map(|identity| (identity, SCOPES.map(str::to_owned).to_vec()))
            .map_err(|(error, description)| refuse(error, description)),
        "" => Err(refuse("invalid_request", "Required parameter is missing: grant_type")),
        other => Err(refuse("unsupported_grant_type", format!("Invalid grant_type: {other}"))),
    };
    match granted {
        Ok((identity, scopes)) => grant(identities, identity, &scopes, token_uri),
        Err(refusal) => {
            Answer::json(refusal.status, &json!({"error": refusal.error, "error_description": refusal.description}))
        }
    }
}

/// Form and JSON bodies both work.
fn fields(content_type: &str, body: &[u8]) -> Map<String, Value> {
    if content_type.starts_with("application/json") {
        return serde_json::from_slice(body).unwrap_or_default();
    }
    let text = String::from_utf8_lossy(body);
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (form_decode(name), Value::String(form_decode(value))))
        .collect()
}

fn form_decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

fn grant(identities: &Identities, identity: Identity, scopes: &[String], token_uri: &str) -> Answer {
    let known: Vec<String> = scopes.iter().filter(|s| SCOPES.contains(&s.as_str())).cloned().collect();
    if known.is_empty() {
        // An unknown scope is read as an audience: Google answers 200 with an identity token and no access token.
        return Answer::json(200, &json!({"id_token": id_token(&identity, scopes, token_uri)}));
    }
    let scope = known.join(" ");
    match identities.issue(identity, known) {
        Ok(token) => Answer::json(
            200,
            &json!({"access_token": token, "expires_in": 3599, "scope": scope, "token_type": "Bearer"}),
        ),
        Err(_) => Answer::json(500, &json!({"error": "internal_failure"})),
    }
}

fn id_token(identity: &Identity, scopes: &[String], issuer: &str) -> String {
    let now = now_seconds();
    let header = LENIENT.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let claims = json!({
        "iss": issuer, "aud": scopes.join(" "), "email": identity.email, "iat": now, "exp": now + 3600,
    });
    format!("{header}.{}.", LENIENT.encode(claims.to_string()))
}

/// Checks a signed assertion: its form, its account, its signature, its audience, its times, its scope.
fn assertion(identities: &Identities, token_uri: &str, assertion: &str) -> Result<(Identity, Vec<String>), Refusal> {
    let (signed, claims, signature) = decode(assertion).ok_or_else(|| refuse("invalid_request", "Bad Request"))?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
    let account =
        identities.account(text("iss")).ok_or_else(|| refuse("invalid_grant", "Invalid grant: account not found"))?;
    if !account.verifies(signed.as_bytes(), &signature) {
        return Err(refuse("invalid_grant", "Invalid JWT Signature."));
    }
    if text("aud") != token_uri {
        return Err(refuse("invalid_grant", "Invalid JWT: Failed audience check."));
    }
    let time = |name: &str| claims.get(name).and_then(Value::as_i64);
    match (time("iat"), time("exp")) {
        (Some(issued), Some(expires)) if reasonable(issued, expires, now_seconds()) => {}
        _ => return Err(refuse("invalid_grant", BAD_TIMES)),
    }
    let scopes: Vec<String> = text("scope").split_whitespace().map(str::to_owned).collect();
    if scopes.is_empty() {
        return Err(refuse("invalid_scope", "Invalid OAuth scope or ID token audience provided."));
    }
    Ok((account.identity.clone(), scopes))
}

/// A service account may also sign its own access token instead of fetching one: Google's client libraries do. Such a token
/// names its scopes, or the service as its audience, which stands for the scopes of that service.
pub(crate) fn self_signed(identities: &Identities, bearer: &str) -> Option<(Identity, Vec<String>)> {
    let (signed, claims, signature) = decode(bearer)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let account = identities.account(text("iss")?)?;
    let time = |name: &str| claims.get(name).and_then(Value::as_i64);
    let (issued, expires, now) = (time("iat")?, time("exp")?, now_seconds());
    if expires <= now || !reasonable(issued, expires, now) || !account.verifies(signed.as_bytes(), &signature) {
        return None;
    }
    let scopes = match (text("scope"), text("aud")) {
        (Some(scope), _) => scope.split_whitespace().map(str::to_owned).collect(),
        (None, Some(_)) => SCOPES.map(str::to_owned).to_vec(),
        (None, None) => return None,
    };
    Some((account.identity.clone(), scopes))
}

/// At most an hour long, not over, and no further from now than a clock may drift.
fn reasonable(issued: i64, expires: i64, now: i64) -> bool {
    let length = expires.saturating_sub(issued);
    (1..=3600).contains(&length)
        && issued <= now.saturating_add(DRIFT_SECONDS)
        && expires >= now.saturating_sub(DRIFT_SECONDS)
        && issued >= now.saturating_sub(3600 + DRIFT_SECONDS)
}

fn decode(assertion: &str) -> Option<(&str, Map<String, Value>, Vec<u8>)> {
    let (signed, signature) = assertion.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let header: Value = serde_json::from_slice(&LENIENT.decode(header).ok()?).ok()?;
    if header.get("alg").and_then(Value::as_str) != Some("RS256") {
        return None;
    }
    let claims = serde_json::from_slice(&LENIENT.decode(claims).ok()?).ok()?;
    Some((signed, claims, LENIENT.decode(signature).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_must_be_reasonable() {
        assert!(reasonable(1000, 4600, 1000));
        assert!(reasonable(1000, 4600, 800));
        assert!(!reasonable(1000, 4601, 1000), "longer than an hour");
        assert!(!reasonable(1000, 4600, 600), "from the future");
        assert!(!reasonable(1000, 4600, 5000), "over");
        assert!(!reasonable(i64::MIN, i64::MAX, 0));
    }

    #[test]
    fn forms_and_json_give_the_same_fields() {
        let form = fields("application/x-www-form-urlencoded", b"a=b%2Bc+d&e=");
        assert_eq!(form["a"], "b+c d");
        assert_eq!(form["e"], "");
        let json = fields("application/json; charset=utf-8", br#"{"a":"b"}"#);
        assert_eq!(json["a"], "b");
    }
}
