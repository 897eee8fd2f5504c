//! What a person sets for a BigQuery source: the form (5.5) and its values.

use acp_core::{AccessMode, Call, Error, Result};
use acp_protocol::setup::SetupSchema;
use regex::Regex;
use serde::Deserialize;
use serde_json::json;

/// List price of a tebibyte in the United States, in USD. Other regions differ, and it changes.
pub(crate) const PRICE_PER_TIB_USD: f64 = 6.25;
/// The longest that BigQuery lets a query run, in seconds.
const TIMEOUT_MAX: u64 = 6 * 3600;
const TIMEOUT: u64 = 600;

/// The settings of a call.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where jobs run; `None`: where the data is.
    pub(crate) location: Option<String>,
    /// Who pays; `None`: the project of the key, else that of the resource.
    pub(crate) billing_project: Option<String>,
    pub(crate) price_per_tib_usd: f64,
    pub(crate) allow_routines: Routines,
    pub(crate) allow_preview: bool,
    pub(crate) allow_unestimated: bool,
    /// The most that one conversation may spend; `None`: no bound but that of each call.
    pub(crate) session_cost_limit_usd: Option<f64>,
    /// Columns that nobody may read, by their names.
    pub(crate) denied_columns: Option<Regex>,
    /// Seconds a job may run.
    pub(crate) timeout_s: u64,
    /// Whether loading asks the person first, where the client can ask.
    pub(crate) confirm_loads: bool,
}

/// Which functions that are stored in BigQuery, or run outside of it, a query may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Routines {
    /// None.
    None,
    /// Functions in SQL and JavaScript: the price of the bytes is all they cost.
    #[default]
    SqlAndJs,
    /// Also those that cost money elsewhere, which no estimate counts: remote functions, Python, models, other databases.
    All,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    location: String,
    #[serde(default)]
    billing_project: String,
    price_per_tib_usd: Option<f64>,
    // Read by `Access`; here only checked.
    #[serde(default, rename = "access_mode")]
    _access_mode: AccessMode,
    #[serde(default)]
    allow_routines: Routines,
    #[serde(default)]
    allow_preview: bool,
    #[serde(default)]
    allow_unestimated: bool,
    session_cost_limit_usd: Option<f64>,
    #[serde(default)]
    denied_columns: String,
    timeout_s: Option<u64>,
    #[serde(default)]
    confirm_loads: bool,
}

impl Settings {
    /// Reads the settings of a call.
    pub(crate) fn of(call: &Call) -> Result<Self> {
        let raw: Raw = call.config()?;
        let text = |value: String| Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        let denied_columns = match text(raw.denied_columns) {
            None => None,
            Some(pattern) => Some(
                Regex::new(&format!("(?i){pattern}"))
                    .map_err(|_| wrong("denied_columns must be a regular expression, such as ^(email|phone)$"))?,
            ),
        };
        let price = raw.price_per_tib_usd.unwrap_or(PRICE_PER_TIB_USD);
        // Without a price every query would be free, and no limit would hold.
        if !price.is_finite() || price < 0.01 {
            return Err(wrong("price_per_tib_usd must be at least 0.01"));
        }
        if raw.session_cost_limit_usd.is_some_and(|limit| !limit.is_finite() || limit < 0.0) {
            return Err(wrong("session_cost_limit_usd must not be negative"));
        }
        Ok(Self {
            location: text(raw.location),
            billing_project: text(raw.billing_project),
            price_per_tib_usd: price,
            allow_routines: raw.allow_routines,
            allow_preview: raw.allow_preview,
            allow_unestimated: raw.allow_unestimated,
            session_cost_limit_usd: raw.session_cost_limit_usd,
            denied_columns,
            timeout_s: raw.timeout_s.unwrap_or(TIMEOUT).clamp(1, TIMEOUT_MAX),
            confirm_loads: raw.confirm_loads,
        })
    }
}

fn wrong(what: &str) -> Error {
    Error::invalid_arguments(format!("The setting {what}. The person has to correct it in the settings of the source."))
}

/// The form.
pub(crate) fn schema() -> Option<SetupSchema> {
    let schema = json!({
        "type": "object",
        "title": "BigQuery settings",
        "properties": {
            "location": {
                "type": "string", "title": "Location",
                "description": "Where queries run, such as EU or europe-west1. Empty: where the data is.",
                "examples": ["EU"]
            },
            "billing_project": {
                "type": "string", "title": "Billing project",
                "description": "Project that pays for queries. Empty: the project of the key, else that of the data. It needs the role BigQuery Job User.",
                "examples": ["my-billing-project"]
            },
            "price_per_tib_usd": {
                "type": "number", "title": "Price per TiB (USD)", "default": PRICE_PER_TIB_USD, "minimum": 0.01,
                "description": "On-demand price of your region, from which every estimate and every limit is computed."
            },
            "session_cost_limit_usd": {
                "type": "number", "title": "Cost limit per conversation (USD)", "minimum": 0,
                "description": "The most that all queries of one conversation may cost together. Empty: only the limit of each call counts."
            },
            "allow_unestimated": {
                "type": "boolean", "title": "Allow queries without an estimate", "default": false,
                "description": "External tables and row-level security hide how much will be read. Such queries are then run with the cost limit as a cap."
            },
            "allow_routines": {
                "type": "string", "title": "Functions that queries may call", "default": "sql_and_js",
                "enum": ["none", "sql_and_js", "all"],
                "enumNames": ["None", "SQL and JavaScript", "All, also those that cost extra (remote, Python, AI models, EXTERNAL_QUERY)"]
            },
            "allow_preview": {
                "type": "boolean", "title": "Allow free previews", "default": false,
                "description": "Lets preview_table read rows without a query and without cost. Rows may hold personal data."
            },
            "denied_columns": {
                "type": "string", "title": "Columns nobody may read",
                "description": "Regular expression on column names. Queries that name or return one are refused.",
                "examples": ["^(email|phone)$"]
            },
            "timeout_s": {
                "type": "integer", "title": "Longest run of a query (seconds)", "default": TIMEOUT, "minimum": 1, "maximum": TIMEOUT_MAX,
                "description": "Then the job is cancelled."
            },
            "access_mode": {
                "type": "string", "title": "Access mode", "default": "onlyRead",
                "enum": ["onlyRead", "readAndOnlyAdd"], "enumNames": ["Read only", "Read, create tables and add rows"]
            },
            "table_rules": {
                "type": "string", "title": "Exceptions by table", "contentMediaType": "application/json",
                "description": "JSON list of {\"pattern\": \"<regex on project.dataset.table>\", \"mode\": \"onlyRead|readAndOnlyAdd\"}; the first that matches counts.",
                "examples": ["[{\"pattern\": \"\\\\.staging\\\\.\", \"mode\": \"readAndOnlyAdd\"}]"]
            },
            "confirm_loads": {
                "type": "boolean", "title": "Ask before loading rows", "default": false,
                "description": "load_rows asks for a confirmation, where the client can ask."
            }
        }
    });
    serde_json::from_value(schema).ok()
}
