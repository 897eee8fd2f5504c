//! What a tool may use while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_protocol::JsonObject;
use acp_protocol::error::ErrorCode;
use acp_protocol::result::Header;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rmcp::model::{ElicitRequestParams, ElicitationAction, ElicitationSchema};
use rmcp::{Peer, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answer::Cost;
use crate::arguments::RESOURCE_ID;
use crate::cleanup::Cleanup;
use crate::clock::Clock;
use crate::connector::Resource;
use crate::credentials::{Credentials, Identity};
use crate::error::{Error, Result};
use crate::host_tables::{Host, HostTable};
use crate::table::{ObjectTable, TableSettings, TableWriter};
use crate::tables::Selection;

/// How long a person may take to answer.
const PERSON_PATIENCE: Duration = Duration::from_secs(300);

/// One call of a tool: its resource, credentials and settings, and where to report.
#[derive(Debug)]
pub struct Call {
    pub(crate) resource: Option<Resource>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) config: JsonObject,
    pub(crate) clock: Clock,
    pub(crate) tables: TableSettings,
    pub(crate) reports: Mutex<Reports>,
    pub(crate) progress: Arc<Mutex<Progress>>,
    pub(crate) cost_limit_usd: f64,
    pub(crate) selection: Option<Selection>,
    pub(crate) host: Option<Host>,
    pub(crate) conversation: Option<String>,
    pub(crate) call_id: Option<String>,
    /// The client, where it can ask a person.
    pub(crate) asks: Option<Peer<RoleServer>>,
    pub(crate) cleanup: Cleanup,
}

/// What a tool said while it ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    /// The arguments in force.
    pub(crate) arguments: JsonObject,
    /// What was not fatal.
    pub(crate) warnings: Vec<String>,
    pub(crate) cost: Cost,
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

    /// Whether anybody wants this table of the catalogue; a tool that makes several need not make the others. Tables that
    /// are not in the catalogue are always wanted.
    pub fn wants_table(&self, name: &str) -> bool {
        self.selection.as_ref().is_none_or(|selection| selection.wants(name))
    }

    /// Gets a table of the host by the id that the model wrote into an argument marked `x-acp-input: table_ref`.
    pub async fn read_table(&self, reference: &str) -> Result<HostTable> {
        if reference.is_empty() {
            return Err(Error::invalid_arguments(
                "table_ref must not be empty. Use the id of a dataset or report of the host.",
            ));
        }
        match &self.host {
            Some(host) => host.read_table(reference).await,
            None => Err(crate::host_tables::unsupported(true)),
        }
    }

    /// The host's conversation in which the call is made, if it says (`conversation_id`, else `session_id`); to keep
    /// count of something with, never to trust.
    pub fn conversation(&self) -> Option<&str> {
        self.conversation.as_deref()
    }

    /// The host's id of this call: the same when it repeats a call whose answer it did not get.
    pub fn call_id(&self) -> Option<&str> {
        self.call_id.as_deref()
    }

    /// Asks the person a question through the client, and waits some minutes. `None` when the client can't ask; anything but
    /// a yes is a no. Never a way around what the settings forbid.
    pub async fn confirm(&self, question: &str) -> Option<bool> {
        let peer = self.asks.as_ref()?;
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: question.to_owned(),
            requested_schema: ElicitationSchema::new(BTreeMap::new()),
        };
        let answer = peer.create_elicitation_with_timeout(params, Some(PERSON_PATIENCE)).await;
        Some(answer.is_ok_and(|answer| answer.action == ElicitationAction::Accept))
    }

    /// A file for what a tool has to put aside, in the folder of the tables. It has no name and is gone when it is closed.
    pub fn temporary_file(&self) -> Result<std::fs::File> {
        self.tables.files.unnamed().map_err(|error| {
            Error::upstream(format!(
                "No temporary file could be made in {}: {error}. The person who runs this server has to make room there or set ACP_TMP_DIR to another folder.",
                self.tables.files.directory.display()
            ))
        })
    }

    /// For work that has to be done at the source even when the call is cancelled or the process ends.
    pub fn cleanup(&self) -> Cleanup {
        self.cleanup.clone()
    }

    /// The most this call may cost, in USD. A source that can bound its own cost should be given this as well.
    pub fn cost_limit_usd(&self) -> f64 {
        self.cost_limit_usd
    }

    /// Says what the call will cost, in USD, before anything is run that costs money. Above the limit that a person set, it
    /// is an error that tells the model how to ask for less (9.2). `advice` names the ways this source has, such as
    /// `fewer columns, shorter date range`.
    pub fn check_cost(&self, estimate_usd: f64, advice: &str) -> Result<()> {
        if !is_amount(estimate_usd) {
            return Err(Error::upstream(
                "The estimate of the cost is not an amount of money, so nothing was run. Run the call again; if it happens again, report it.",
            ));
        }
        let allowed = estimate_usd <= self.cost_limit_usd;
        // Rounding must not make an estimate look as if it were within the limit.
        let rounded = micros(estimate_usd);
        let estimate = if !allowed && rounded <= self.cost_limit_usd { estimate_usd } else { rounded };
        lock(&self.reports).cost = Cost { estimate, actual: Some(0.0) };
        if allowed {
            return Ok(());
        }
        let (cost, limit) = (dollars(estimate_usd), dollars(self.cost_limit_usd));
        let message = format!(
            "The query would cost about {cost} and the limit is {limit}. Narrow the query ({advice}) or ask the user to raise the limit."
        );
        Err(Error::new(ErrorCode::CostLimitExceeded, message)
            .with_data("estimate_usd", amount(estimate))
            .with_data("limit_usd", amount(self.cost_limit_usd)))
    }

    /// Says what the call did cost, in USD; `None` when the source does not tell, and so is what can't be an amount.
    pub fn set_cost(&self, actual_usd: Option<f64>) {
        lock(&self.reports).cost.actual = actual_usd.filter(|actual| is_amount(*actual)).map(micros);
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

fn is_amount(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// An amount with six decimals; `-0` is `0`.
fn micros(amount: f64) -> f64 {
    let rounded = (amount * 1e6).round() / 1e6;
    if rounded.is_finite() { rounded + 0.0 } else { amount }
}

/// An amount as JSON: `1`, not `1.0`, as the specification's examples have it.
fn amount(value: f64) -> Value {
    if value.fract() == 0.0 && value < 1e15 { (value as i64).into() } else { value.into() }
}

/// An amount as people read it: cents, or two digits that say something below a cent.
fn dollars(amount: f64) -> String {
    if amount <= 0.0 || amount >= 0.01 {
        return format!("${amount:.2}");
    }
    let digits = (-amount.log10()).ceil() as usize + 1;
    format!("${amount:.digits$}")
}

/// The error of a call without credentials (10.3).
pub(crate) fn missing_credentials() -> Error {
    Error::new(
        ErrorCode::CredentialsMissing,
        "This source needs credentials and none were set. The person has to add them in the host's settings of this source; they can't be passed as arguments.",
    )
}

/// A lock that outlives a panic of another holder: the values behind it are replaced whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
