//! What a command says in the end, for people and as JSON, and its exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use acp_host::client::ClientError;
use acp_host::datasets::DatasetError;
use acp_host::host::HostError;
use acp_host::install::InstallError;
use acp_host::sources::SourcesError;
use acp_protocol::error::{ErrorCode, ErrorPayload};
use acp_protocol::visible;
use serde_json::{Value, json};

/// Exit codes, the same as those of connectors.
const USAGE: u8 = 2;
const CREDENTIALS: u8 = 3;
const UNREACHABLE: u8 = 4;
pub(crate) const SOURCE: u8 = 5;
/// What shells give a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// What a command did.
pub(crate) struct Report {
    /// For people.
    pub(crate) text: String,
    /// For programs.
    pub(crate) value: Value,
    code: u8,
}

impl Report {
    pub(crate) fn new(text: impl Into<String>, value: Value) -> Self {
        Self { text: text.into(), value, code: 0 }
    }

    /// The command did what it was asked, and what it found is no success.
    pub(crate) fn failing(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    name: Option<String>,
    message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Failure {
    /// Something to change about the command, or about the files it reads.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, name: None, message: message.into() }
    }

    /// A tool failed; `besides` is what else there is to say.
    pub(crate) fn of_tool(error: &ErrorPayload, besides: &str) -> Self {
        Self { code: code_of(error), name: Some(error.name.clone()), message: format!("{} {besides}", error.message) }
    }

    pub(crate) fn interrupted() -> Self {
        Self { code: INTERRUPTED, name: None, message: "cancelled".to_owned() }
    }
}

/// The exit code for an error of a tool.
pub(crate) fn code_of(error: &ErrorPayload) -> u8 {
    match ErrorCode::from_code(error.code) {
        Some(ErrorCode::CredentialsMissing | ErrorCode::CredentialsInvalid) => CREDENTIALS,
        Some(ErrorCode::InvalidArguments | ErrorCode::TableNotFound) => USAGE,
        _ => SOURCE,
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let code = match &error {
            HostError::Server { .. } => UNREACHABLE,
            HostError::Sources(_) | HostError::NotInstalled { .. } => USAGE,
            other => code_of(&other.payload()),
        };
        let name = if let HostError::Tool(error) = &error { Some(error.name.clone()) } else { None };
        Self { code, name, message: error.to_string() }
    }
}

impl From<SourcesError> for Failure {
    fn from(error: SourcesError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        HostError::Dataset(error).into()
    }
}

impl From<InstallError> for Failure {
    fn from(error: InstallError) -> Self {
        let code = match &error {
            InstallError::Server(ClientError::Protocol(_))
            | InstallError::Archive(_)
            | InstallError::Destination(_) => USAGE,
            InstallError::Server(_) => UNREACHABLE,
            InstallError::Io(_) => SOURCE,
        };
        Self { code, name: None, message: error.to_string() }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { code: SOURCE, name: None, message: error.to_string() }
    }
}

/// Writes what a command has to say and gives the exit code. Texts of servers and files are in it, which a terminal must not
/// obey. Failures go to standard error, or as JSON to standard output.
pub(crate) fn finish(outcome: Result<Report, Failure>, as_json: bool) -> ExitCode {
    let (written, code) = match outcome {
        Ok(report) => {
            let text = if as_json { format!("{:#}", report.value) } else { visible(&report.text).into_owned() };
            let text = text.trim_end();
            (if text.is_empty() { Ok(()) } else { writeln!(io::stdout(), "{text}") }, report.code)
        }
        Err(failure) if as_json => {
            let error = json!({"error": {"name": failure.name, "message": failure.message}});
            (writeln!(io::stdout(), "{error:#}"), failure.code)
        }
        Err(failure) => (writeln!(io::stderr(), "error: {}", visible(&failure.message)), failure.code),
    };
    // A reader that has gone, such as `head`, is no failure of the command.
    let _ = written;
    ExitCode::from(code)
}
