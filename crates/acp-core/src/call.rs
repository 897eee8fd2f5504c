//! What a tool may use while it runs.

use std::sync::Mutex;

use acp_protocol::JsonObject;
use acp_protocol::result::Header;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::RESOURCE_ID;
use crate::clock::Clock;
use crate::connector::Resource;
use crate::credentials::{Credentials, Identity};
use crate::error::{Error, Result};
use crate::table::{ObjectTable, TableSettings, TableWriter};

/// One call of a tool: its resource, credentials and settings, and where to report.
#[derive(Debug)]
pub struct Call {
    pub(crate) resource: Option<Resource>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) config: JsonObject,
    pub(crate) clock: Clock,
    pub(crate) tables: TableSettings,
    pub(crate) reports: Mutex<Reports>,
    pub(crate) progress: Mutex<Progress>,
}

/// What a tool said while it ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    /// The arguments in force.
    pub(crate) arguments: JsonObject,
    /// What was not fatal.
    pub(crate) warnings: Vec<String>,
}

/// How far a call is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: String,
}

impl Call {
    /// The resource of the call. Tools that declare `resource: true` always have one.
    pub fn resource(&self) -> Result<&Resource> {
        self.resource
            .as_ref()
            .ok_or_else(|| Error::upstream("This tool was called without a resource it did not declare."))
    }

    /// The credentials of the call. Tools that declare `credentials: true` always have them.
    pub fn credentials(&self) -> Result<&Credentials> {
        self.credentials.as_ref().ok_or_else(missing_credentials)
    }

    /// Who the call acts for, to key caches with.
    pub fn identity(&self) -> Identity {
        self.credentials.as_ref().map_or_else(Identity::anonymous, |credentials| credentials.identity().clone())
    }

    /// Under what fetched data may be kept: the same credentials and the same settings, since settings can decide what
    /// a source answers.
    pub(crate) fn cache_scope(&self) -> Identity {
        self.identity().under(&self.config)
    }

    /// The settings of the source, with the defaults of `config_schema` filled in.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_value(Value::Object(self.config.clone())).map_err(|_| {
            Error::invalid_arguments("The settings of this source can't be read. The person has to check them.")
        })
    }

    /// The server's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Today in the machine's time zone; sources with a zone of their own use [`Clock::today`].
    pub fn today(&self) -> Date {
        self.clock.today(&TimeZone::system())
    }

    /// Starts a table with declared columns.
    pub fn table(&self, headers: Vec<Header>) -> Result<TableWriter> {
        TableWriter::new(headers, self.tables.clone())
    }

    /// Starts a table of JSON objects; columns that are not declared get the type that holds their values.
    pub fn object_table(&self, declared: Vec<Header>) -> ObjectTable {
        ObjectTable::new(declared, self.tables.clone())
    }

    /// Replaces the arguments that the answer reports: defaults filled in, dates resolved, names corrected, so that
    /// the host can repeat the extraction (8.4). Absent values and the resource are left out.
    pub fn set_arguments(&self, arguments: &impl Serialize) {
        if let Ok(Value::Object(mut arguments)) = serde_json::to_value(arguments) {
            arguments.retain(|name, value| name != RESOURCE_ID && !value.is_null());
            lock(&self.reports).arguments = arguments;
        }
    }

    /// Says something that the model should know before it trusts the numbers. The same sentence is kept once.
    pub fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let warnings = &mut lock(&self.reports).warnings;
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Reports how far the call is; cheap, so it can be called for every batch of rows. Clients that asked for
    /// progress hear of it a few times a second.
    pub fn progress(&self, done: u64, total: Option<u64>, message: impl Into<String>) {
        *lock(&self.progress) =
            Progress { done: done as f64, total: total.map(|total| total as f64), message: message.into() };
    }
}

/// The error of a call without credentials (10.3).
pub(crate) fn missing_credentials() -> Error {
    Error::new(
        acp_protocol::error::ErrorCode::CredentialsMissing,
        "This source needs credentials and none were set. The person has to add them in the host's settings of this source; they can't be passed as arguments.",
    )
}

/// A lock that outlives a panic of another holder: the values behind it are replaced whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
