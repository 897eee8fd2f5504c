//! Tokens, retries and error mapping against a scripted server.
#![allow(clippy::unwrap_used)]

mod fake;

use std::io::Write;
use std::time::{Duration, Instant};

use acp_core::Error;
use acp_google::{Endpoints, Failure, Google, GoogleCredentials, Lanes, Options, Session};
use acp_protocol::error::ErrorCode;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fake::{Answer, Fake, SCOPES, credentials, google_error, issue, json, key_file, login, raw, service_account};
use rsa::pkcs1v15::{Signature, VerifyingKey};
use rsa::signature::Verifier;
use serde_json::{Value, json};
use sha2::Sha256;

fn session(fake: &Fake) -> Session {
    fake.google().session(&service_account(), SCOPES).unwrap()
}

fn acp(session: &Session, failure: Failure) -> Error {
    failure.into_acp(&session.context("GA4 property 123").grant("Grant Viewer."))
}

async fn get(fake: &Fake) -> Result<Value, Failure> {
    session(fake).get(&fake.url()).await
}

/// What a failing request to this server becomes, and how many requests it took.
async fn failing(api: impl Fn(usize, &fake::Request) -> Answer + Send + Sync + 'static) -> (Error, usize) {
    let fake = Fake::start(api).await;
    let session = session(&fake);
    let failure = session.get::<Value>(&fake.url()).await.unwrap_err();
    (acp(&session, failure), fake.calls())
}

/// What a refusal of the token endpoint becomes, and how many exchanges it took.
async fn refused(token: impl Fn(usize, &fake::Request) -> Answer + Send + Sync + 'static) -> (Error, usize) {
    let fake = Fake::with_token(token, |_, _| json(200, json!({}))).await;
    let session = session(&fake);
    let failure = session.get::<Value>(&fake.url()).await.unwrap_err();
    (acp(&session, failure), fake.exchanges())
}

#[tokio::test]
async fn an_assertion_is_what_google_asks_for() {
    let fake = Fake::start(|_, _| json(200, json!({"ok": true}))).await;
    assert_eq!(get(&fake).await.unwrap(), json!({"ok": true}));
    let exchange = &fake.requests(true)[0];
    assert_eq!(exchange.headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(exchange.field("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let assertion = exchange.field("assertion");
    assert!(!assertion.contains('='));
    let [header, claims, signature] = assertion.split('.').collect::<Vec<_>>()[..] else { panic!("{assertion}") };
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let read = |part: &str| serde_json::from_slice::<Value>(&decode(part)).unwrap();
    assert_eq!(read(header), json!({"alg": "RS256", "typ": "JWT", "kid": "abc123"}));
    let claims_json = read(claims);
    assert_eq!(claims_json["iss"], fake::EMAIL);
    assert_eq!(claims_json["aud"], format!("{}/token", fake.base));
    assert_eq!(claims_json["scope"], SCOPES.join(" "));
    assert_eq!(claims_json["exp"].as_i64().unwrap() - claims_json["iat"].as_i64().unwrap(), 3600);
    VerifyingKey::<Sha256>::new(fake::KEY.to_public_key())
        .verify(format!("{header}.{claims}").as_bytes(), &Signature::try_from(&decode(signature)[..]).unwrap())
        .unwrap();

    let call = &fake.requests(false)[0];
    assert_eq!(call.bearer(), "ya29.issued-0");
    assert_eq!((call.method.as_str(), call.target.as_str()), ("GET", "/v1/report?secret=no"));
    assert!(call.headers["user-agent"].starts_with("acp-connectors/"));
    assert!(call.headers["accept-encoding"].contains("gzip"));
}

#[tokio::test]
async fn keys_that_were_encoded_twice_or_lost_their_line_breaks_work() {
    let fake = Fake::start(|_, _| json(200, json!({}))).await;
    let google = fake.google();
    let twice = serde_json::to_string(&key_file().to_string()).unwrap();
    let mut flat = key_file();
    flat["private_key"] = fake::pem().replace('\n', "\\n").into();
    for text in [twice, flat.to_string(), format!("\u{feff} {}", key_file())] {
        let values = credentials(json!({"type": "service_account", "service_account": text}));
        let session = google.session(&values, SCOPES).unwrap();
        assert_eq!(session.credentials().principal(), Some(fake::EMAIL));
        session.get::<Value>(&fake.url()).await.unwrap();
    }
    assert_eq!(fake.exchanges(), 3, "each credential has its own token");
}

#[tokio::test]
async fn ten_calls_at_a_time_make_one_exchange() {
    let fake = Fake::start(|_, _| json(200, json!({}))).await;
    let google = fake.google();
    let calls = (0..10).map(|_| {
        let session = google.session(&service_account(), SCOPES).unwrap();
        let url = fake.url();
        tokio::spawn(async move { session.get::<Value>(&url).await.map(drop) })
    });
    for call in futures::future::join_all(calls).await {
        call.unwrap().unwrap();
    }
    assert_eq!((fake.exchanges(), fake.calls()), (1, 10));
    let other: &[&str] = &["https://www.googleapis.com/auth/webmasters.readonly"];
    google.session(&service_account(), other).unwrap().get::<Value>(&fake.url()).await.unwrap();
    assert_eq!(fake.exchanges(), 2, "other scopes are another token");
}

#[tokio::test]
async fn a_401_gets_a_new_token_once_for_all_who_met_it() {
    let fake = Fake::start(|_, request| match request.bearer() {
        "ya29.issued-0" => google_error(401, "authError", "Invalid Credentials"),
        _ => json(200, json!({})),
    })
    .await;
    let google = fake.google();
    let session = google.session(&service_account(), SCOPES).unwrap();
    let url = fake.url();
    let calls = (0..5).map(|_| session.get::<Value>(&url));
    for result in futures::future::join_all(calls).await {
        result.unwrap();
    }
    assert_eq!(fake.exchanges(), 2);
    assert_eq!(fake.calls(), 10);
}

#[tokio::test]
async fn a_second_401_is_for_the_person() {
    let (error, calls) = failing(|_, _| google_error(401, "authError", "Invalid Credentials")).await;
    assert_eq!((error.code(), calls), (ErrorCode::CredentialsInvalid, 2));
    assert!(error.message().contains(fake::EMAIL) && error.message().contains("Invalid Credentials"), "{error}");
}

#[tokio::test]
async fn a_login_uses_its_token_until_it_ends_and_then_refreshes() {
    let fake = Fake::start(|_, request| match request.bearer() {
        "ya29.revoked" => google_error(401, "authError", "Invalid Credentials"),
        _ => json(200, json!({})),
    })
    .await;
    let google = fake.google();
    let later = jiff::Timestamp::now().as_millisecond() + 3_600_000;
    let soon = jiff::Timestamp::now().as_millisecond() + 30_000;
    for (values, bearer, exchanges) in [
        (login(Some("ya29.given"), json!(later)), "ya29.given", 0),
        (login(Some("ya29.given"), json!(null)), "ya29.given", 0),
        (login(Some("ya29.old"), json!(soon)), "ya29.issued-0", 1),
        (login(None, json!(null)), "ya29.issued-1", 2),
        (login(Some("ya29.revoked"), json!(later)), "ya29.issued-2", 3),
        (login(Some("ya29.revoked"), json!(later)), "ya29.issued-2", 3),
    ] {
        google.session(&values, SCOPES).unwrap().get::<Value>(&fake.url()).await.unwrap();
        assert_eq!(fake.requests(false).last().unwrap().bearer(), bearer);
        assert_eq!(fake.exchanges(), exchanges, "{bearer}");
    }
    let exchange = &fake.requests(true)[0];
    assert_eq!(exchange.field("grant_type"), "refresh_token");
    assert_eq!(exchange.field("refresh_token"), "1//refresh-refresh");
    assert_eq!(exchange.field("client_id"), "id.apps.test");
    assert_eq!(exchange.field("client_secret"), "GOCSPX-secret");
}

#[tokio::test]
async fn a_token_that_ended_without_a_refresh_asks_to_sign_in() {
    let fake = Fake::start(|_, _| google_error(401, "authError", "Invalid Credentials")).await;
    let google = fake.google();
    for (expiry, calls) in [(json!("2020-01-01T00:00:00Z"), 0), (json!(null), 1)] {
        let values = credentials(json!({"type": "oauth", "access_token": "ya29.given", "expiry_date": expiry,
            "email": "ana@x.test"}));
        let session = google.session(&values, SCOPES).unwrap();
        let failure = session.get::<Value>(&fake.url()).await.unwrap_err();
        let error = acp(&session, failure);
        assert_eq!((error.code(), fake.calls()), (ErrorCode::CredentialsInvalid, calls));
        assert!(error.message().to_lowercase().contains("sign in again"), "{error}");
        assert!(error.message().contains("ana@x.test"), "{error}");
    }
    assert_eq!(fake.exchanges(), 0);
}

#[tokio::test]
async fn an_authorized_user_file_refreshes_and_names_its_quota_project() {
    let fake = Fake::start(|_, _| json(200, json!({}))).await;
    let file = json!({"type": "authorized_user", "client_id": "i", "client_secret": "secret-s",
        "refresh_token": "1//rrrrrr", "quota_project_id": "my-project", "account": ""});
    let values = credentials(json!({"type": "service_account", "service_account": file.to_string()}));
    fake.google().session(&values, SCOPES).unwrap().get::<Value>(&fake.url()).await.unwrap();
    assert_eq!(fake.requests(true)[0].field("refresh_token"), "1//rrrrrr");
    assert_eq!(fake.requests(false)[0].headers["x-goog-user-project"], "my-project");
}

#[tokio::test]
async fn refusals_of_the_token_endpoint() {
    let (error, exchanges) =
        refused(|_, _| json(400, json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."})))
            .await;
    assert_eq!((error.code(), exchanges), (ErrorCode::CredentialsInvalid, 1));
    assert!(error.message().contains("Google said: invalid_grant: Invalid JWT Signature."), "{error}");
    assert!(error.message().contains(fake::EMAIL) && error.message().contains("new JSON key"), "{error}");

    let (error, _) = refused(|_, _| {
        json(
            400,
            json!({"error": "invalid_grant", "error_description":
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."}),
        )
        .header("date", "Tue, 01 Jan 2019 00:00:00 GMT")
    })
    .await;
    assert!(error.message().contains("clock is off (") && error.message().contains("min ahead)"), "{error}");

    let (error, _) = refused(|_, _| json(200, json!({"id_token": "ey.ey.ey"}))).await;
    assert_eq!(error.code(), ErrorCode::CredentialsInvalid);
    assert!(error.message().contains(SCOPES[0]), "{error}");

    let (error, exchanges) = refused(|_, _| json(503, json!({"error": "backend"}))).await;
    assert_eq!((error.code(), exchanges), (ErrorCode::UpstreamError, 3));
    let (error, exchanges) = refused(|_, _| Answer::Hangup).await;
    assert_eq!((error.code(), exchanges), (ErrorCode::UpstreamError, 3));
    let (error, exchanges) = refused(|_, _| Answer::Silence).await;
    assert_eq!((error.code(), exchanges), (ErrorCode::UpstreamError, 1));
    let (error, exchanges) = refused(|_, _| raw(403, "text/html", "<html><title>Blocked</title>")).await;
    assert_eq!((error.code(), exchanges), (ErrorCode::UpstreamError, 1));
    assert!(error.message().contains("Blocked"), "{error}");
    let (error, exchanges) = refused(|_, _| raw(200, "text/html", "<html>")).await;
    assert_eq!((error.code(), exchanges), (ErrorCode::UpstreamError, 1));
    let (error, _) = refused(|_, _| raw(302, "text/html", "").header("location", "http://127.0.0.1:1/")).await;
    assert_eq!(error.code(), ErrorCode::UpstreamError);
}

#[tokio::test]
async fn a_failed_exchange_is_not_remembered() {
    let fake = Fake::with_token(
        |number, request| match number {
            0 => json(400, json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."})),
            _ => issue(number, request),
        },
        |_, _| json(200, json!({})),
    )
    .await;
    let session = session(&fake);
    assert!(session.get::<Value>(&fake.url()).await.is_err());
    assert!(session.get::<Value>(&fake.url()).await.is_ok());
}

#[tokio::test]
async fn quotas_and_permissions_are_not_tried_again() {
    for (status, reason, message, code) in [
        (429, "", "Exhausted property tokens per day. These quota tokens return in under 24 hours.", "midnight"),
        (429, "", "Exhausted property tokens for a project per hour.", "within an hour"),
        (403, "quotaExceeded", "Quota exceeded", "Do not retry"),
        (403, "forbidden", "User does not have sufficient permissions", "Grant Viewer."),
        (400, "badRequest", "Did you mean city?", "Did you mean city?"),
        (404, "notFound", "Not found", "GA4 property 123"),
    ] {
        let (error, calls) = failing(move |_, _| google_error(status, reason, message)).await;
        assert_eq!(calls, 1, "{message}");
        assert!(error.message().contains(code), "{error}");
    }
}

#[tokio::test]
async fn what_passes_by_itself_is_tried_again() {
    for fault in [
        || google_error(429, "rateLimitExceeded", "Too fast"),
        || google_error(403, "userRateLimitExceeded", "Too fast"),
        || google_error(429, "", "Exhausted concurrent requests quota."),
        || google_error(500, "backendError", "Internal error encountered."),
        || raw(502, "text/html", "<html>"),
        || google_error(503, "", "Unavailable"),
        || Answer::Hangup,
        || Answer::Cut { body: b"{\"a\":".to_vec(), missing: 10 },
        || raw(200, "application/json", " \n"),
    ] {
        let fake = Fake::start(move |number, _| if number == 0 { fault() } else { json(200, json!({"n": 1})) }).await;
        assert_eq!(get(&fake).await.unwrap(), json!({"n": 1}));
        assert_eq!(fake.calls(), 2);
    }
    for (status, calls) in [(500, 2), (503, 4)] {
        let (error, count) = failing(move |_, _| google_error(status, "", "Down")).await;
        assert_eq!((error.code(), count), (ErrorCode::UpstreamError, calls));
        assert_eq!(error.data().unwrap()["http_status"], status);
    }
}

#[tokio::test]
async fn retry_after_is_waited_for() {
    let fake = Fake::start(|number, _| match number {
        0 => google_error(429, "", "Busy").header("retry-after", "1"),
        _ => json(200, json!({})),
    })
    .await;
    let start = Instant::now();
    get(&fake).await.unwrap();
    assert!((0.9..3.0).contains(&start.elapsed().as_secs_f64()), "{:?}", start.elapsed());

    let start = Instant::now();
    let (error, calls) = failing(|_, _| google_error(429, "", "Busy").header("retry-after", "3600")).await;
    assert_eq!(calls, 1);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(error.message().contains("3600 seconds"), "{error}");
    assert_eq!(error.data().unwrap()["retry_after_s"], 3600);
}

#[tokio::test]
async fn answers_that_are_not_an_apis() {
    let page = "<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>";
    let (error, calls) = failing(move |_, _| raw(404, "text/html", page)).await;
    assert_eq!((error.code(), calls), (ErrorCode::UpstreamError, 1));
    let (error, _) = failing(move |_, _| raw(200, "text/html", "<html>Sign in to the hotel's network")).await;
    assert_eq!(error.code(), ErrorCode::UpstreamError);
    assert!(error.message().contains("text/html (200): <html>Sign in"), "{error}");
    // Nothing at all is an answer that broke off.
    for (body, most) in [(&b"{\"a\":"[..], 1), (b"", 4), (b"{\"a\":\"\xff\"}", 1)] {
        let (error, calls) = failing(move |_, _| raw(200, "application/json", body)).await;
        assert_eq!((error.code(), calls), (ErrorCode::UpstreamError, most));
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Fake::start(|_, _| json(200, json!({}))).await;
    for status in [301, 302, 307, 308] {
        let location = other.url();
        let (error, calls) = failing(move |_, _| raw(status, "text/html", "").header("location", &location)).await;
        assert_eq!((error.code(), calls), (ErrorCode::UpstreamError, 1));
        assert!(error.message().contains("redirects"), "{error}");
    }
    assert_eq!(other.calls(), 0);
}

#[tokio::test]
async fn tokens_are_not_sent_to_other_hosts() {
    let fake = Fake::start(|_, _| json(200, json!({}))).await;
    let other = Fake::start(|_, _| json(200, json!({}))).await;
    let session = session(&fake);
    for url in [other.url(), "https://example.com/".to_owned(), "no address".to_owned()] {
        assert!(session.get::<Value>(&url).await.is_err());
    }
    assert_eq!((other.calls(), fake.exchanges()), (0, 0));
}

/// A connector may hand its work to another thread.
#[tokio::test]
async fn streams_can_be_read_in_a_task() {
    let fake = Fake::start(|_, _| json(200, json!({"rows": [1, 2]}))).await;
    let (session, url) = (session(&fake), fake.url());
    let rows = tokio::spawn(async move {
        let mut rows = 0;
        let body = session.post_stream(&url, &json!({})).await?;
        body.split::<Value>("rows", |_| {
            rows += 1;
            Ok(())
        })
        .await?;
        Ok::<_, Failure>(rows)
    });
    assert_eq!(rows.await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn silence_ends_in_time() {
    let start = Instant::now();
    let (error, calls) = failing(|_, _| Answer::Silence).await;
    assert_eq!((error.code(), calls), (ErrorCode::UpstreamError, 1));
    assert!(error.message().contains("in time"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn nobody_there_is_an_upstream_error() {
    let values = credentials(json!({"type": "oauth", "access_token": "ya29.given"}));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let google = Google::new(Options { endpoints: Endpoints::sandbox(&base).unwrap(), ..Options::default() }).unwrap();
    let session = google.session(&values, SCOPES).unwrap();
    let failure = session.get::<Value>(&format!("{base}/x?secret=no")).await.unwrap_err();
    let error = acp(&session, failure);
    assert_eq!(error.code(), ErrorCode::UpstreamError);
    assert!(error.message().contains("refused") && !error.message().contains("secret"), "{error}");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn rows_stream_out_of_a_compressed_answer() {
    let rows: Vec<Value> = (0..20_000).map(|number| json!({"v": number.to_string()})).collect();
    let body = gzip(&json!({"rows": rows, "rowCount": 20_000}).to_string());
    let fake = Fake::start(move |_, request| {
        assert_eq!(request.body, br#"{"limit":20000}"#);
        raw(200, "application/json", body.clone()).header("content-encoding", "gzip")
    })
    .await;
    let body = session(&fake).post_stream(&fake.url(), &json!({"limit": 20_000})).await.unwrap();
    let mut next = 0;
    let rest: Value = body
        .split("rows", |row| {
            assert_eq!(row, format!("{{\"v\":\"{next}\"}}").as_bytes());
            next += 1;
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((next, rest), (20_000, json!({"rows": [], "rowCount": 20_000})));
}

#[tokio::test]
async fn a_stream_that_breaks_off_says_so() {
    let whole = r#"{"rows":[{"v":"1"},{"v":"2"}]}"#;
    let cut = gzip(&whole.repeat(200))[..40].to_vec();
    for number in 0..3 {
        let cut = cut.clone();
        let fake = Fake::start(move |_, _| match number {
            0 => Answer::Cut { body: whole[..20].into(), missing: 11 },
            1 => raw(200, "application/json", &whole.as_bytes()[..20]),
            _ => raw(200, "application/json", cut.clone()).header("content-encoding", "gzip"),
        })
        .await;
        let session = session(&fake);
        let body = session.post_stream(&fake.url(), &json!({})).await.unwrap();
        let failure = body.split::<Value>("rows", |_| Ok(())).await.unwrap_err();
        assert!(failure.is_broken(), "{failure:?}");
        assert_eq!(acp(&session, failure).code(), ErrorCode::UpstreamError);
        assert_eq!(fake.calls(), 1);
    }
}

#[tokio::test]
async fn what_is_too_large_is_not_read() {
    let bomb = gzip(&format!("\"{}\"", " ".repeat(70 << 20)));
    let (error, calls) =
        failing(move |_, _| raw(200, "application/json", bomb.clone()).header("content-encoding", "gzip")).await;
    assert_eq!((error.code(), calls), (ErrorCode::UpstreamError, 1));
    assert!(error.message().contains("larger than 64 MiB"), "{error}");
    let (error, _) = failing(|_, _| raw(400, "text/plain", "x".repeat(1 << 20))).await;
    assert!(error.message().chars().count() < 800);
}

/// No error may hold the key, as text or as the decimal bytes by which a PEM parser quotes its input.
#[tokio::test]
async fn no_error_holds_a_piece_of_the_credentials() {
    let secret_line = fake::pem().lines().nth(3).unwrap().to_owned();
    let leaks = |text: &str| {
        [secret_line.as_str(), "PRIVATE KEY", "45, 45, 45, 45, 45", "PLANTED", "ya29."]
            .iter()
            .any(|secret| text.contains(secret))
    };
    let mut errors = Vec::new();
    let pem = fake::pem();
    let mut broken = key_file();
    broken["private_key"] = pem.replace('\n', "\\n").replacen("\\n", "\\n\n", 1).into();
    let mut cut = key_file();
    cut["private_key"] = pem[..400].into();
    let mut typed = key_file();
    typed["private_key"] = json!([pem]);
    let twice = serde_json::to_string(&serde_json::to_string(&key_file().to_string()).unwrap()).unwrap();
    for text in [
        broken.to_string(),
        cut.to_string(),
        typed.to_string(),
        serde_json::to_string(&twice).unwrap(),
        pem.clone(),
        format!("{}x", key_file()),
        serde_json::to_string(&pem).unwrap(),
    ] {
        let values = credentials(json!({"type": "service_account", "service_account": text}));
        let error = GoogleCredentials::read(&values, &Endpoints::google()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::CredentialsInvalid);
        errors.push(format!("{error} {error:?}"));
    }
    let values = credentials(json!({"type": "PLANTED", "access_token": "PLANTED"}));
    errors.push(format!("{:?}", GoogleCredentials::read(&values, &Endpoints::google()).unwrap_err()));
    errors.push(format!("{:?}", GoogleCredentials::read(&service_account(), &Endpoints::google()).unwrap()));

    let (error, _) = refused(|_, request| {
        json(400, json!({"error": "invalid_grant", "error_description": request.field("assertion")}))
    })
    .await;
    errors.push(format!("{error} {error:?}"));
    let (error, _) = failing(|_, request| google_error(400, "x", &format!("Bad token {}", request.bearer()))).await;
    errors.push(format!("{error} {error:?}"));
    let (error, _) = failing(|_, request| raw(200, "text/plain", request.bearer().to_owned())).await;
    errors.push(format!("{error} {error:?}"));
    let (error, _) = refused(|_, _| json(200, json!({"access_token": ["ya29.PLANTED"]}))).await;
    errors.push(format!("{error} {error:?}"));

    let fake = Fake::start(|_, _| json(200, json!({}))).await;
    let session = session(&fake);
    let body = session.post_stream(&fake.url(), &json!({})).await.unwrap();
    errors.push(format!("{session:?} {body:?} {:?}", session.access_token().await.unwrap()));
    for error in errors {
        assert!(!leaks(&error), "{error}");
        assert!(!error.contains("eyJ"), "{error}");
    }
}

/// Everything that any crate logs, at the finest level.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_line_holds_a_secret_or_a_query() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // For the whole process: a subscriber of one thread misses what tests beside this one have settled nobody hears.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let fake = Fake::start(|number, _| match number {
        0 => google_error(503, "", "Down"),
        1 => google_error(401, "", "Invalid Credentials"),
        _ => json(200, json!({"rows": ["PLANTED"]})),
    })
    .await;
    let google = fake.google();
    for values in [service_account(), login(None, json!(null))] {
        google.session(&values, SCOPES).unwrap().post::<Value>(&fake.url(), &json!({"q": "PLANTED"})).await.unwrap();
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("/v1/report") && log.contains("503") && log.contains("token exchange"), "{log}");
    for secret in ["ya29.", "eyJ", "PRIVATE KEY", "1//refresh", "GOCSPX", "PLANTED", "secret=no", "45, 45, 45"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

#[tokio::test]
async fn rows_are_found_in_an_answer_that_is_held() {
    let rows: Vec<Value> = (0..5_000).map(|number| json!({"keys": [number.to_string()]})).collect();
    let body = gzip(&json!({"rows": rows, "kind": "k"}).to_string());
    let fake = Fake::start(move |number, _| match number {
        // A body that breaks off is asked for again, and nothing of it is kept.
        0 => Answer::Cut { body: br#"{"rows":[{"keys":["7"]},{"keys":"#.to_vec(), missing: 10 },
        _ => raw(200, "application/json", body.clone()).header("content-encoding", "gzip"),
    })
    .await;
    let rows = session(&fake).post_rows(&fake.url(), &json!({}), "rows").await.unwrap();
    assert_eq!((fake.calls(), rows.len(), rows.is_empty()), (2, 5_000, false));
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row, format!("{{\"keys\":[\"{number}\"]}}").as_bytes());
    }
    assert_eq!(rows.rest::<Value>().unwrap(), json!({"rows": [], "kind": "k"}));

    let fake = Fake::start(|_, _| json(200, json!({"kind": "k"}))).await;
    let none = session(&fake).post_rows(&fake.url(), &json!({}), "rows").await.unwrap();
    assert!(none.is_empty() && none.iter().next().is_none());
}

/// Search Console's burst limit comes as `quotaExceeded`: it is waited for, and fewer requests are sent at once.
#[tokio::test]
async fn a_burst_limit_closes_lanes_and_loses_nothing() {
    let fake = Fake::start(|number, _| match number {
        0 | 1 => google_error(403, "quotaExceeded", "Search Analytics QPS quota exceeded. Learn about usage limits."),
        _ => json(200, json!({"rows": [number]})),
    })
    .await;
    let lanes = Lanes::new(3);
    let session = session(&fake).in_lanes(lanes.clone());
    let url = fake.url();
    let asked = (0..6).map(|_| session.post_rows(&url, &Value::Null, "rows"));
    for rows in futures::future::join_all(asked).await {
        assert_eq!(rows.unwrap().len(), 1);
    }
    assert_eq!((fake.calls(), lanes.open()), (8, 1));

    let (error, calls) =
        failing(|_, _| google_error(403, "quotaExceeded", "Search Analytics load quota exceeded.")).await;
    assert_eq!((error.code(), calls), (ErrorCode::UpstreamError, 1), "a load is not tried again");
    assert_eq!(error.data().unwrap()["retry_after_s"], 900);
}
