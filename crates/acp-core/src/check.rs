//! `check`: whether credentials work, step by step, for the person who sets a source up.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use acp_protocol::JsonObject;
use acp_protocol::error::ErrorCode;
use serde_json::Value;

use crate::connector::Resource;
use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::server::{Server, Shared};

/// Bytes of a file of credentials; real ones have a few thousand.
const FILE: u64 = 1 << 20;
/// Exit code of a wrong command line, an unreadable file or a text that can't be a resource.
const USAGE: u8 = 2;

/// The steps of a check. Each is printed as soon as it is known: what was found, or what is wrong and how to mend it.
#[derive(Debug, Default)]
pub struct Steps {
    failed: Option<Fault>,
}

/// Whose fault it is that a step failed: the exit code of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The credentials: to be replaced, or signed in again.
    Credentials = 3,
    /// The way to the source: network, proxy, certificates.
    Unreachable = 4,
    /// The source: a setting there, a missing right, or a failure.
    Source = 5,
}

impl Fault {
    /// Of an error that says nothing about the network.
    pub fn of(error: &Error) -> Self {
        match error.code() {
            ErrorCode::CredentialsInvalid | ErrorCode::CredentialsMissing => Self::Credentials,
            _ => Self::Source,
        }
    }
}

impl Steps {
    /// A step that is in order.
    pub fn ok(&mut self, step: &str, found: impl Display) {
        print("ok", step, &found);
    }

    /// A step that is no reason for calls to fail now, but may become one.
    pub fn warn(&mut self, step: &str, found: impl Display) {
        print("WARN", step, &found);
    }

    /// A step that makes calls fail: what is wrong, and how to mend it. The first one decides how the check ends.
    pub fn fail(&mut self, step: &str, fault: Fault, why: impl Display) {
        print("FAIL", step, &why);
        self.failed.get_or_insert(fault);
    }

    /// Whether a step failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn exit(&self) -> ExitCode {
        self.failed.map_or(ExitCode::SUCCESS, |fault| ExitCode::from(fault as u8))
    }
}

fn print(verdict: &str, step: &str, what: &dyn Display) {
    // Whoever closed stdout does not want to know.
    let _ = writeln!(std::io::stdout(), "{verdict:<5} {step:<12} {what}");
}

/// What `check` is asked.
#[derive(clap::Args)]
pub(crate) struct CheckFlags {
    /// File with the credentials: as the source gave it, or as a host sends it
    #[arg(long, value_name = "FILE")]
    credentials: PathBuf,
    /// A resource that these credentials should be able to read
    #[arg(long, value_name = "ID")]
    resource: Option<String>,
}

/// Runs the check. Exit codes: 0 when calls will work, 2 for a wrong command line, 3 to 5 as in [`Fault`].
pub(crate) async fn run(shared: Arc<Shared>, flags: CheckFlags) -> ExitCode {
    let source = &shared.connector().source;
    let credentials = match read(&flags.credentials) {
        Ok(credentials) => credentials,
        Err(why) => return refuse("file", &why),
    };
    let resource = match flags.resource.as_deref().map(|id| source.resource(id)).transpose() {
        Ok(resource) => resource,
        Err(error) => return refuse("resource", error.message()),
    };
    let mut steps = Steps::default();
    let Some(credentials) = credentials else {
        steps.fail(
            "key",
            Fault::Credentials,
            "The file is not a JSON object. Use the file as the source gave it, unchanged.",
        );
        return steps.exit();
    };
    let server = Server::new(shared.clone());
    let call = server.call_with(credentials.clone(), None);
    source.check(&call, &mut steps).await;
    if !steps.has_failed() {
        let call = Arc::new(call);
        match resource {
            Some(resource) => see(&server, &shared, credentials, resource, &mut steps).await,
            None => list(&shared, call, &mut steps).await,
        }
    }
    steps.exit()
}

fn refuse(step: &str, why: &str) -> ExitCode {
    print("FAIL", step, &why);
    ExitCode::from(USAGE)
}

/// The credentials in a file; `None` for a file that is no JSON object. Nothing of its content gets into a message.
fn read(path: &Path) -> Result<Option<Credentials>, String> {
    let shown = path.display();
    let readable = |error: std::io::Error| format!("{shown} can't be read: {error}.");
    if std::fs::metadata(path).map_err(readable)?.len() > FILE {
        return Err(format!("{shown} is too large for a file of credentials."));
    }
    let text = std::fs::read(path).map_err(readable)?;
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text);
    let values: Option<JsonObject> = match serde_json::from_slice(text) {
        Ok(Value::Object(values)) => Some(values),
        _ => None,
    };
    Ok(values.map(Credentials::new))
}

async fn see(server: &Server, shared: &Shared, credentials: Credentials, resource: Resource, steps: &mut Steps) {
    let source = &shared.connector().source;
    let call = server.call_with(credentials.clone(), Some(resource.clone()));
    let seen = match source.resolve(&call, &resource).await {
        Ok(resource) => source.see(&server.call_with(credentials, Some(resource))).await,
        Err(error) => Err(error),
    };
    match seen {
        Ok(found) => steps.ok("resource", found),
        Err(error) => steps.fail("resource", Fault::of(&error), error.message()),
    }
}

async fn list(shared: &Shared, call: Arc<crate::Call>, steps: &mut Steps) {
    if !shared.connector().has_resources() {
        return;
    }
    match shared.connector().source.resources(call).await {
        Ok(resources) if resources.is_empty() => steps.fail(
            "resources",
            Fault::Source,
            "These credentials see no resource. Give their account access to one where the source manages users.",
        ),
        Ok(resources) => {
            let some: Vec<&str> = resources.iter().take(3).map(|resource| resource.resource_id.as_str()).collect();
            let more = if resources.len() > some.len() { ", …" } else { "" };
            let found = format!("{} are listed: {}{more}. --resource tries one.", resources.len(), some.join(", "));
            steps.ok("resources", found);
        }
        Err(error) => steps.fail("resources", Fault::of(&error), error.message()),
    }
}
