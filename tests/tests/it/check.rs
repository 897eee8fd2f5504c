//! `check`: what is wrong with credentials, step by step, with the fix and an exit code. For every connector of a Google API.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::google::Google;
use crate::server::binary_of;

/// A connector, a resource that the full account reads, one that it does not, a text that is none, and the requests that
/// show whether its APIs are enabled.
const CONNECTORS: [(&str, &str, &str, &str, &[&str]); 3] = [
    ("ga4", "310000001", "999999999", "G-ABC", &["/properties/0/metadata$", "/accountSummaries$"]),
    ("gsc", "sc-domain:nordwind.example", "https://nobody.example/", "not a property", &["/webmasters/v3/sites$"]),
    ("bigquery", "acp-sandbox.warehouse", "acp-sandbox.restricted", "not a resource", &["/bigquery/v2/projects$"]),
];

/// Files of credentials and the command.
struct Bench {
    google: Google,
    /// Stays when the Google is stopped.
    address: String,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let google = Google::start();
        let address = google.sandbox().url().to_owned();
        Self { google, address, folder: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    fn full(&self) -> PathBuf {
        self.file("full.json", &self.google.credentials("full").to_string())
    }

    fn check(&self, connector: &str, file: &Path, more: &[&str]) -> Checked {
        let mut command = Command::new(binary_of(connector));
        command.arg("check").arg("--credentials").arg(file).args(more).stdin(Stdio::null());
        command.env("ACP_GOOGLE_SANDBOX", &self.address);
        Checked::of(command.output().expect("the connector"))
    }
}

/// What a check printed, and how it ended.
struct Checked {
    code: Option<i32>,
    lines: Vec<String>,
    all: String,
}

impl Checked {
    fn of(output: Output) -> Self {
        let text = String::from_utf8(output.stdout).expect("text");
        let all = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        Self { code: output.status.code(), lines: text.lines().map(str::to_owned).collect(), all }
    }

    /// The steps with their verdicts.
    fn steps(&self) -> Vec<(&str, &str)> {
        self.lines
            .iter()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                words.next().zip(words.next())
            })
            .collect()
    }

    #[track_caller]
    fn ends(&self, code: i32, failed: &[&str], words: &[&str]) {
        let steps = self.steps();
        let found: Vec<&str> = steps.iter().filter(|(verdict, _)| *verdict == "FAIL").map(|(_, step)| *step).collect();
        assert_eq!((self.code, found.as_slice()), (Some(code), failed), "{}", self.all);
        for word in words {
            assert!(self.all.contains(word), "{word}: {}", self.all);
        }
        assert!(!self.all.contains("PRIVATE") && !self.all.contains("ya29."), "{}", self.all);
    }
}

fn error(code: u16, message: &str, reason: &str, metadata: &Value) -> Value {
    let details =
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "metadata": metadata}]);
    let body = json!({"error": {"code": code, "message": message, "status": "PERMISSION_DENIED", "details": details}});
    json!({"status": {"code": code, "body": body.to_string()}})
}

#[test]
fn good_credentials_pass_every_step() {
    let bench = Bench::new();
    for (name, resource, ..) in CONNECTORS {
        let oauth = bench.file("oauth.json", &bench.google.credentials("oauth").to_string());
        // The file of Google's console, as it is, with the mark that some editors put in front.
        let key = bench.file("key.json", &format!("\u{feff}{}", bench.google.key()));
        for file in [bench.full(), oauth, key] {
            let checked = bench.check(name, &file, &["--resource", resource]);
            checked.ends(0, &[], &[resource]);
            let steps: Vec<&str> = checked.steps().iter().map(|(_, step)| *step).collect();
            let apis = steps.iter().filter(|step| **step == "API").count();
            assert_eq!(
                steps.iter().filter(|step| **step != "API").collect::<Vec<_>>(),
                [&"key", &"token", &"clock", &"scopes", &"resource"]
            );
            assert_eq!(apis, if name == "ga4" { 2 } else { 1 });
        }
        bench.check(name, &bench.full(), &[]).ends(0, &[], &["are listed", "reports-full@"]);
    }
}

#[test]
fn what_is_no_credential_never_reaches_google() {
    let bench = Bench::new();
    for (name, resource, _, no_resource, _) in CONNECTORS {
        let missing = bench.folder.path().join("missing.json");
        bench.check(name, &missing, &[]).ends(2, &["file"], &["can't be read"]);
        bench.check(name, &bench.full(), &["--resource", no_resource]).ends(2, &["resource"], &[]);
        let nothing = Command::new(binary_of(name)).arg("check").output();
        assert_eq!(nothing.expect("the connector").status.code(), Some(2), "--credentials is needed");
        for (content, words) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{\"private_key\": \"CANARYPRIVATE", "not a JSON object"),
            ("{}", "type must be"),
            (r#"{"type": "service_account", "private_key": "CANARYPRIVATE", "client_email": "a@b.c"}"#, "PKCS#8"),
            (r#"{"installed": {"client_secret": "CANARYPRIVATE"}}"#, "OAuth client"),
            (r#"{"type": "external_account"}"#, "not supported"),
        ] {
            let file = bench.file("bad.json", content);
            bench.check(name, &file, &["--resource", resource]).ends(3, &["key"], &[words]);
        }
    }
    assert!(bench.google.sandbox().log().is_empty());
}

#[test]
fn a_token_that_is_refused_is_told_from_a_clock_that_is_off() {
    let bench = Bench::new();
    let ahead = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(20);
    let date = ahead.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let refused = |words: &str| json!({"error": "invalid_grant", "error_description": words}).to_string();
    let timeframe = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.";
    for (name, resource, ..) in CONNECTORS {
        let check = |action: Value| {
            bench.google.calm();
            bench.google.fault(&json!({"path": "^/token$", "times": 9, "action": action}));
            bench.check(name, &bench.full(), &["--resource", resource])
        };
        check(json!({"status": {"code": 400, "body": refused("Invalid JWT Signature.")}})).ends(
            3,
            &["token"],
            &["deleted or the file was altered"],
        );
        check(json!({"status": {"code": 400, "headers": {"Date": date}, "body": refused(timeframe)}})).ends(
            3,
            &["token", "clock"],
            &["19 min behind", "Set it"],
        );
        check(json!({"status": {"code": 503, "body": "busy"}})).ends(5, &["token"], &["token endpoint failed"]);
        check(json!("reset")).ends(4, &["token"], &["can't be reached"]);
        bench.google.calm();
    }
}

#[test]
fn scopes_and_apis_are_told_apart() {
    let bench = Bench::new();
    let link = "https://console.developers.google.com/apis/api/x.googleapis.com/overview?project=1";
    for (name, resource, _, _, probes) in CONNECTORS {
        let check = |path: &str, action: &Value| {
            bench.google.calm();
            bench.google.fault(&json!({"path": path, "times": 9, "action": action}));
            bench.check(name, &bench.full(), &["--resource", resource])
        };
        let off = error(
            403,
            "The API has not been used in project 1 before.",
            "SERVICE_DISABLED",
            &json!({"activationUrl": link}),
        );
        for probe in probes {
            check(probe, &off).ends(5, &["API"], &[link, "Enable the API"]);
            let scope = error(
                403,
                "Request had insufficient authentication scopes.",
                "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
                &json!({}),
            );
            let checked = check(probe, &scope);
            checked.ends(3, &["scopes"], &["https://www.googleapis.com/auth/"]);
            check(probe, &json!({"status": {"code": 404, "headers": {"Content-Type": "text/html"}, "body": "<title>404</title>"}}))
                .ends(5, &["API"], &["web page"]);
        }
        let revoked = json!({"status": {"code": 401, "body": "{\"error\": {\"code\": 401, \"message\": \"Invalid Credentials\"}}"}});
        check(probes[0], &revoked).ends(3, &["token"], &["401"]);
        check(probes[0], &json!("reset")).ends(4, &["API"], &["ended the connection"]);
    }
}

#[test]
fn a_resource_that_can_not_be_seen_is_the_last_step() {
    let mut bench = Bench::new();
    for (name, _, hidden, ..) in CONNECTORS {
        bench.check(name, &bench.full(), &["--resource", hidden]).ends(5, &["resource"], &[]);
    }
    let unverified = bench.check("gsc", &bench.full(), &["--resource", "sc-domain:harbour.example"]);
    unverified.ends(5, &["resource"], &["unverified"]);
    let full = bench.full();
    bench.google.stop();
    for (name, resource, ..) in CONNECTORS {
        bench.check(name, &full, &["--resource", resource]).ends(4, &["token"], &["can't be reached"]);
    }
}
