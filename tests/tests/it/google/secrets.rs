//! Nothing that a connector writes, anywhere, holds a piece of a credential.

use std::path::Path;

use serde_json::{Value, json};

use super::source::{Call, Source, each};
use super::{Answer, Connector, Ended, Google};
use crate::rules::files_below;

const ACCESS: &str = "ya29.CANARY-ACCESS-q8Zr2LmX0tVbN5cKdJ7w";
const REFRESH: &str = "1//0gCANARY-REFRESH-h3Yp9QkWs6RzT1vUxM4a";
const CLIENT_SECRET: &str = "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TyUi";
const KEY_ID: &str = "cafe0canary0key0id0b7d19e3a5c84f206";
/// The body of a PEM that is no key.
const KEY: &str = "MIIEvCANARYPRIVATEKEYa9Sd8Fg7Hj6Kl5Qw4Er3Ty2Ui1OpZxCvBnM";

/// The texts to look for: each secret, half of it, and both as decimal bytes, which is how some parsers print a key.
pub(crate) struct Needles(Vec<(String, String)>);

impl Needles {
    /// What is secret in the credentials of a Google.
    pub(crate) fn of(google: &Google) -> Self {
        let (key, oauth) = (google.key(), google.credentials("oauth"));
        let line = |number: usize| {
            key["private_key"].as_str().and_then(|pem| pem.lines().nth(number)).expect("a line").to_owned()
        };
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let secrets = [
            line(1),
            line(12),
            line(26),
            text(&key["private_key_id"]),
            text(&oauth["refresh_token"]),
            text(&oauth["client_secret"]),
            text(&oauth["access_token"]),
        ];
        Self::new(&secrets.each_ref().map(String::as_str))
    }

    fn new(secrets: &[&str]) -> Self {
        let mut needles = vec![
            ("an access token".to_owned(), "ya29.".to_owned()),
            ("an assertion".to_owned(), "eyJhbGciOi".to_owned()),
            ("a PEM".to_owned(), "-----BEGIN".to_owned()),
            ("a PEM as bytes".to_owned(), "45, 45, 45, 45, 45".to_owned()),
            ("a PEM as bytes".to_owned(), "45,45,45,45,45".to_owned()),
        ];
        for secret in secrets {
            let part = |text: &str| {
                let bytes: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
                [text.to_owned(), bytes.join(", "), bytes.join(",")]
            };
            let name = format!("{}…", &secret[..12.min(secret.len())]);
            let middle = secret.len() / 2;
            for piece in [&secret[..middle], &secret[middle..]] {
                needles.extend(part(piece).map(|needle| (name.clone(), needle)));
            }
        }
        Self(needles)
    }

    fn find(&self, place: &str, text: &str, found: &mut Vec<String>) {
        for (name, needle) in &self.0 {
            if let Some(at) = text.find(needle.as_str()) {
                let from = text.floor_char_boundary(at.saturating_sub(200));
                let to = text.ceil_char_boundary((at + 100).min(text.len()));
                found.push(format!("{place} holds {name}: …{}…", &text[from..to]));
            }
        }
    }

    /// Looks through everything a process left.
    pub(crate) fn assert_absent(&self, ended: &Ended) {
        let mut found = Vec::new();
        self.find("stdout", &ended.stdout, &mut found);
        self.find("stderr", &ended.stderr, &mut found);
        for path in files_below(ended.root.path()) {
            self.find("the name of a file", &path.to_string_lossy(), &mut found);
            let bytes = std::fs::read(&path).expect("a file");
            self.find(&path.display().to_string(), &String::from_utf8_lossy(&bytes), &mut found);
        }
        assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
    }
}

/// Variables that make a connector say as much as it can.
pub(crate) const TALKATIVE: &[(&str, &str)] = &[("ACP_LOG", "trace"), ("RUST_LOG", "trace"), ("RUST_BACKTRACE", "1")];

fn start(source: &Source, google: &Google) -> Connector {
    source.start(google, TALKATIVE)
}

/// The usual call, in somebody's name.
fn extract(connector: &mut Connector, source: &Source, credentials: &Value) -> Answer {
    connector.call(source.tool, &(source.dateless)(), &json!({"credentials": credentials}))
}

/// Calls every tool there is in somebody's name, and gives what came of it.
fn call_all(connector: &mut Connector, source: &Source, google: &Google, meta: &Value) -> Vec<(Call, Answer)> {
    let listed = connector.request("tools/list", &json!({})).json["result"]["tools"].clone();
    let autocontext = ["autocontext", "autocontext_data"].map(|tool| (tool, json!({}), None));
    let calls: Vec<Call> = (source.tools)(google).into_iter().chain(autocontext).collect();
    for tool in listed.as_array().expect("tools") {
        assert!(
            calls.iter().any(|(name, ..)| tool["name"] == *name),
            "{}: nothing calls {}",
            source.name,
            tool["name"]
        );
    }
    calls
        .into_iter()
        .map(|call| {
            let answer = connector.call(call.0, &call.1, meta);
            (call, answer)
        })
        .collect()
}

fn planted_oauth() -> Value {
    json!({
        "type": "oauth", "access_token": ACCESS, "refresh_token": REFRESH, "client_id": "client", "client_secret": CLIENT_SECRET,
        "expiry_date": 4_102_444_800_000_i64, "email": "person@example.com",
    })
}

/// S-10.1-04, S-10.2-01: a service account and a person.
#[test]
fn good_credentials_leave_no_trace() {
    each(good_credentials);
}

fn good_credentials(source: &Source) {
    let google = Google::start();
    let mut connector = start(source, &google);
    let question = (source.question)(&google);
    for who in ["full", "limited", "oauth"] {
        let credentials = google.credentials(who);
        let meta = json!({"credentials": credentials});
        connector.call(source.tool, &question, &meta).ok();
        let by_file = json!({"credentials": credentials, "inline_max_bytes": 0, "session_id": "s"});
        connector.call(source.tool, &question, &by_file).ok();
        for ((tool, arguments, code), answer) in call_all(&mut connector, source, &google, &meta) {
            let found = answer.error().map(|(code, _)| code);
            assert_eq!(found, code, "{who}: {tool} {arguments}: {:?}", answer.error());
        }
        connector.call("autocontext", &json!({"resource_id": null}), &meta).ok();
        let mut elsewhere = question.clone();
        elsewhere["resource_id"] = json!(source.unknown);
        connector.call(source.tool, &elsewhere, &meta).refused(-32014);
        let configured = connector.request("acp/configure", &json!({"credentials": credentials}));
        assert_eq!(configured.json["result"]["effective"]["has_credentials"], true, "{}", configured.text);
    }
    let written = !connector.files("cache").is_empty() && !connector.files("tmp").is_empty();
    assert!(written, "there is something to search");
    let ended = connector.end_well();
    assert!(ended.stderr.len() > 500, "the log says something: {}", ended.stderr);
    Needles::of(&google).assert_absent(&ended);
}

/// Whatever is wrong with a credential, its error does not quote it.
#[test]
fn malformed_credentials_leave_no_trace() {
    each(malformed_credentials);
}

fn malformed_credentials(source: &Source) {
    let google = Google::start();
    let mut connector = start(source, &google);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{KEY}\n{KEY}\n-----END PRIVATE KEY-----\n");
    let real = google.key()["private_key"].as_str().expect("a PEM").to_owned();
    let key = |private_key: &str| {
        json!({"type": "service_account", "project_id": "p", "private_key_id": KEY_ID, "private_key": private_key,
            "client_email": "a@b.iam.gserviceaccount.com", "token_uri": format!("{}/token", google.sandbox().url())})
    };
    let wrapped = |text: String| json!({"type": "service_account", "service_account": text});
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = key(&pem);
        change(&mut value);
        wrapped(value.to_string())
    };
    let cases = vec![
        wrapped(key(&pem).to_string()),
        wrapped(json!(key(&pem).to_string()).to_string()),
        wrapped(json!(json!(json!(key(&pem).to_string()).to_string()).to_string()).to_string()),
        wrapped(key(&pem.replace('\n', "\\n")).to_string()),
        wrapped(key(&pem.replace('\n', "\\\\n")).to_string()),
        wrapped(key(&pem.replace('\n', " ")).to_string()),
        wrapped(key(&pem.replace("PRIVATE KEY", "RSA PRIVATE KEY")).to_string()),
        wrapped(key(&pem.replace("PRIVATE KEY", "EC PRIVATE KEY")).to_string()),
        wrapped(key(&pem.replace("-----END", "----END")).to_string()),
        wrapped(key(&pem[..60]).to_string()),
        wrapped(key(KEY).to_string()),
        wrapped(key(&format!("{real}{KEY}")).to_string()),
        wrapped(key(&format!("{KEY}\n{real}")).to_string()),
        wrapped(pem.clone()),
        wrapped(format!("{}garbage {KEY}", key(&pem))),
        wrapped(key(&pem).to_string()[..250].to_owned()),
        wrapped(format!("[{}]", key(&pem))),
        wrapped(json!([pem]).to_string()),
        json!({"type": "service_account", "service_account": key(&pem)}),
        json!({"type": "service_account", "service_account": [KEY]}),
        json!({"type": "service_account", "service_account": "", "private_key": pem}),
        json!({"type": KEY}),
        json!({"type": ACCESS, "access_token": ACCESS}),
        json!(pem),
        json!([ACCESS]),
        changed(&|key| key["private_key"] = json!([KEY])),
        changed(&|key| key["private_key"] = json!({"key": KEY})),
        changed(&|key| key["client_email"] = json!(null)),
        changed(&|key| key["client_email"] = json!([KEY])),
        changed(&|key| key["token_uri"] = json!(format!("https://example.com/{KEY}"))),
        changed(&|key| key["token_uri"] = json!([KEY])),
        changed(&|key| key["type"] = json!("external_account")),
        changed(&|key| key["type"] = json!("authorized_user")),
        changed(&|key| key["quota_project_id"] = json!(format!("x {KEY}"))),
        wrapped(json!({"type": "authorized_user", "refresh_token": REFRESH, "client_id": "c", "client_secret": CLIENT_SECRET, "quota_project_id": format!("x {REFRESH}")}).to_string()),
        wrapped(json!({"installed": {"client_secret": CLIENT_SECRET}}).to_string()),
        json!({"type": "oauth", "access_token": format!("{ACCESS}\r\nX: y"), "refresh_token": REFRESH}),
        json!({"type": "oauth", "access_token": [ACCESS]}),
        json!({"type": "oauth", "access_token": ACCESS, "expiry_date": REFRESH}),
        json!({"type": "oauth", "access_token": ACCESS, "expiry_date": 1000, "refresh_token": REFRESH}),
        json!({"type": "oauth", "access_token": ACCESS, "expiry_date": 1000, "refresh_token": REFRESH, "client_id": "c", "client_secret": CLIENT_SECRET}),
        json!({"type": "oauth", "access_token": {"token": ACCESS}}),
        json!({"type": "portal_oauth", "email": "a@b.c", "scopes": "s", "access_token": ACCESS, "refresh_token": REFRESH}),
        json!({"type": "oauth", "access_token": ACCESS, "token_uri": format!("https://example.com/{REFRESH}"), "refresh_token": REFRESH, "client_id": "c", "client_secret": CLIENT_SECRET}),
    ];
    for credentials in &cases {
        for (tool, arguments) in [(source.tool, (source.dateless)()), ("autocontext", json!({}))] {
            let answer = connector.call(tool, &arguments, &json!({"credentials": credentials}));
            assert!(answer.error().is_some(), "{credentials} works");
        }
        connector.request("acp/configure", &json!({"credentials": credentials}));
        extract(&mut connector, source, &Value::Null).refused(-32011);
    }
    // A key in the wrong place.
    for meta in [
        json!({"row_limit": pem}),
        json!({"config": {"key": KEY}}),
        json!({"config": KEY}),
        json!({"sampling": ACCESS}),
        json!({"session_id": "s", "autocontext_blocks": [KEY]}),
    ] {
        connector.call(source.tool, &(source.dateless)(), &meta);
    }
    for (name, value) in [("service_account", pem.as_str()), ("dimensions", ACCESS)] {
        let mut arguments = (source.dateless)();
        arguments[name] = json!({"key": value});
        connector.call(source.tool, &arguments, &json!({})).refused(-32017);
    }
    Needles::new(&[ACCESS, REFRESH, CLIENT_SECRET, KEY_ID, KEY])
        .assert_absent(&without_echoed_arguments(connector.end_well()));
}

/// `system_info.arguments` repeats what the host itself sent, to the host alone: that is not a leak of the connector.
fn without_echoed_arguments(mut ended: Ended) -> Ended {
    let lines = ended.stdout.lines().map(|line| {
        let mut message: Value = serde_json::from_str(line).expect("a message");
        if let Some(arguments) = message.pointer_mut("/result/_meta/acp/system_info/arguments") {
            *arguments = Value::Null;
        }
        format!("{message}\n")
    });
    ended.stdout = lines.collect();
    ended
}

/// A server, or whatever stands before it, that repeats what it was sent.
#[test]
fn answers_that_echo_a_secret_are_not_passed_on() {
    each(echoes);
}

fn echoes(source: &Source) {
    let google = Google::start();
    let mut connector = start(source, &google);
    let echoes = |secret: &str| -> Vec<Value> {
        let html = |text: String| json!({"headers": {"Content-Type": "text/html"}, "body": text});
        let error = |code: u16, mut fields: Value| {
            fields["code"] = json!(code);
            json!({"code": code, "body": json!({"error": fields}).to_string()})
        };
        let with_code = |code: u16, mut action: Value| {
            action["code"] = json!(code);
            action
        };
        vec![
            error(400, json!({"message": format!("Invalid token {secret}."), "status": "INVALID_ARGUMENT"})),
            error(
                400,
                json!({"message": format!("Invalid token {}…", &secret[..secret.len() - 8]), "status": "INVALID_ARGUMENT"}),
            ),
            error(403, json!({"message": "No.", "status": secret})),
            error(403, json!({"message": "No.", "errors": [{"reason": secret, "message": secret}]})),
            error(
                403,
                json!({"message": "No.", "details": [{"reason": "SERVICE_DISABLED", "metadata": {"activationUrl": format!("https://example.com/?token={secret}")}}]}),
            ),
            error(404, json!({"message": secret, "status": "NOT_FOUND"})),
            error(500, json!({"message": format!("Exhausted {secret}"), "status": "INTERNAL"})),
            json!({"code": 418, "body": format!("you sent Authorization: Bearer {secret}")}),
            json!({"code": 502, "body": format!("<html><title>Bad {secret}</title>"), "headers": {"Content-Type": "text/html"}}),
            with_code(200, html(format!("<html>Authorization: Bearer {secret}</html>"))),
            with_code(200, html(format!("{}{secret}", "x".repeat(190)))),
            json!({"code": 200, "body": json!(secret).to_string()}),
            json!({"code": 200, "body": json!([secret]).to_string()}),
            json!({"code": 200, "body": json!({"rows": secret, "rowCount": secret, "dimensions": secret, "accountSummaries": secret, "timeZone": [secret], "keyEvents": secret, "siteEntry": secret, "responseAggregationType": secret, "sitemap": [secret]}).to_string()}),
            json!({"code": 200, "body": format!("{{\"error\": {secret}")}),
            json!({"code": 302, "body": "", "headers": {"Location": format!("https://example.com/?t={secret}")}}),
        ]
    };
    for secret in [ACCESS, REFRESH, CLIENT_SECRET] {
        for (number, action) in echoes(secret).into_iter().enumerate() {
            // Those are tried again, which takes its time: once is enough.
            if secret != ACCESS && action["code"].as_u64() >= Some(500) {
                continue;
            }
            // On every API: fields, reports, settings and lists.
            google.calm();
            google.fault(&json!({"path": "^/(v1|webmasters|bigquery)", "times": 99, "action": {"status": action}}));
            let mut credentials = planted_oauth();
            credentials["note"] = json!(format!("{number} of {}", secret.len()));
            let meta = json!({"credentials": credentials});
            extract(&mut connector, source, &credentials);
            connector.call("autocontext", &json!({}), &meta);
            connector.call("autocontext", &json!({"resource_id": null}), &meta);
            // Only on what gives rows, so that rows are what fails.
            let only_on = |path: &str, times: u64| {
                google.calm();
                google.fault(&json!({"path": path, "times": times, "action": {"status": action}}));
                for (path, answer) in (source.others)(&google) {
                    google.fault(&json!({"path": path, "times": times, "action": {"status": {"code": 200, "body": answer.to_string()}}}));
                }
            };
            only_on(source.path, 99);
            credentials["note"] = json!(format!("{number} of {}, rows", secret.len()));
            extract(&mut connector, source, &credentials);
            // And for each tool, on whatever it asks: one answer of each kind.
            if secret == ACCESS && action["code"].as_u64() < Some(500) && number % 3 == 0 {
                only_on(source.paths, 999);
                credentials["note"] = json!(format!("{number} of {}, tools", secret.len()));
                call_all(&mut connector, source, &google, &json!({"credentials": credentials}));
            }
        }
    }
    // The token endpoint, too.
    for secret in [REFRESH, CLIENT_SECRET, ACCESS] {
        for body in [
            json!({"error": "invalid_grant", "error_description": format!("Bad token {secret}")}).to_string(),
            json!({"error": secret, "error_description": "no"}).to_string(),
            json!({"error": {"message": secret, "status": secret}}).to_string(),
            format!("refresh_token={secret}"),
            format!("<title>{secret}</title>"),
            json!(secret).to_string(),
        ] {
            for code in if secret == REFRESH { [200, 400, 401, 500] } else { [200, 400, 401, 429] } {
                google.calm();
                google.fault(
                    &json!({"path": "^/token$", "times": 99, "action": {"status": {"code": code, "body": body}}}),
                );
                let mut credentials = planted_oauth();
                credentials["expiry_date"] = json!(1000);
                extract(&mut connector, source, &credentials);
            }
            // A key's own secret.
            google.calm();
            let key = google.key();
            let line = key["private_key"].as_str().and_then(|pem| pem.lines().nth(2)).expect("a line").to_owned();
            let echo = body.replace(secret, &line);
            google.fault(&json!({"path": "^/token$", "times": 99, "action": {"status": {"code": 400, "body": echo}}}));
            let answer = extract(&mut connector, source, &google.another("full", 9));
            assert!(!answer.text.contains(&line), "{}", answer.text);
        }
    }
    Needles::new(&[ACCESS, REFRESH, CLIENT_SECRET]).assert_absent(&connector.end_well());
}

/// 13.3: cache files under `ACP_CACHE_DIR`, tables under `ACP_TMP_DIR`, and nothing anywhere else.
#[test]
fn only_the_given_folders_are_written_to() {
    each(|source| {
        let google = Google::start();
        let mut connector = start(source, &google);
        let question = (source.question)(&google);
        for who in ["full", "oauth"] {
            let meta = json!({"credentials": google.credentials(who), "session_id": who, "inline_max_bytes": 0});
            connector.call(source.tool, &question, &meta).ok();
            connector.call("autocontext", &json!({"resource_id": null}), &meta).ok();
        }
        connector.call(source.tool, &json!({"dimensions": ["nonsense"]}), &json!({})).refused(-32017);
        assert_eq!(connector.files("tmp").len(), 2, "one file for each table");
        for file in connector.files("tmp").iter().chain(&connector.files("cache")) {
            assert_private(file);
        }
        let root = connector.end_well().root;
        for folder in ["cwd", "home", "os-tmp"] {
            let files = files_below(&root.path().join(folder));
            assert!(files.is_empty(), "{files:?}");
        }
        assert_eq!(files_below(root.path()).iter().filter(|path| path.parent() == Some(root.path())).count(), 0);
    });
}

#[cfg(unix)]
fn assert_private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o077, 0, "others can read {}", file.display());
}

#[cfg(not(unix))]
fn assert_private(_: &Path) {}
