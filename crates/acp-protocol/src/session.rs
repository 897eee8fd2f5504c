//! What the host says about itself and about a call: `acp/configure` and `_meta.acp` (section 5), and
//! `acp/read_table` (8.8).
//!
//! These are the types a host writes. A server reads the same objects value by value, since every field has
//! its own error (5.1).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::JsonObject;
use crate::result::{Header, TableFormat};

/// Parameters of `acp/configure`: an absent field keeps its value (5.1). The outer `Option` is "absent", the
/// inner one JSON's `null`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigureParams {
    /// Rows the model sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_limit: Option<u32>,
    /// The most a call may cost, in USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_limit_usd: Option<f64>,
    /// Fields per row in tables with a model view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_limit: Option<u32>,
    /// Selection from the table catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<String>>,
    /// Credentials of the source; `null` removes them.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Option<JsonObject>>,
    /// Settings of the source, merged key by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<JsonObject>,
    /// Resource for tools called without one; `null` removes it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub default_resource_id: Option<Option<String>>,
}

/// Credentials must not reach a log by way of `{:?}`.
impl std::fmt::Debug for ConfigureParams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ConfigureParams")
            .field("row_limit", &self.row_limit)
            .field("cost_limit_usd", &self.cost_limit_usd)
            .field("field_limit", &self.field_limit)
            .field("tables", &self.tables)
            .field("has_credentials", &matches!(self.credentials, Some(Some(_))))
            .field("default_resource_id", &self.default_resource_id)
            .finish_non_exhaustive()
    }
}

fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// The answer of `acp/configure` (5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigureResult {
    /// Always `true`; a failure is a JSON-RPC error.
    pub ok: bool,
    /// What now holds for the session.
    pub effective: Effective,
}

/// The values in force in a session. Credentials are only said to be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effective {
    /// Rows the model sees.
    pub row_limit: u32,
    /// The most a call may cost, in USD.
    #[serde(serialize_with = "crate::number::amount")]
    pub cost_limit_usd: f64,
    /// Fields per row in tables with a model view.
    pub field_limit: u32,
    /// Selection from the table catalogue, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<String>>,
    /// Whether the session has credentials.
    pub has_credentials: bool,
    /// Resource for tools called without one.
    pub default_resource_id: Option<String>,
}

/// Which rows the model sees of a table that is longer than `row_limit` (5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// The first rows.
    #[default]
    Head,
    /// Rows spread evenly, the first and the last among them.
    Spread,
}

/// `params._meta.acp` of a `tools/call` (5.2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallMeta {
    /// Values of `acp/configure` for this call alone.
    #[serde(flatten)]
    pub session: ConfigureParams,
    /// The host's conversation, for autocontext on the first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The host's conversation; informative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// Whether the model already has the autocontext.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocontext_delivered: Option<bool>,
    /// Blocks to attach on the first call; empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocontext_blocks: Option<Vec<String>>,
    /// How rows are chosen for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Tables above this many bytes go to a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_max_bytes: Option<u64>,
    /// Id the server repeats in `acp/read_table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// Parameters of `acp/read_table`, sent by the server (8.8).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadTableParams {
    /// The id the model passed, opaque to the server.
    #[serde(rename = "ref")]
    pub reference: String,
    /// `call_id` of the call, if the host sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// The host's answer to `acp/read_table` (8.8).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostTable {
    /// Where the rows are.
    pub format: TableFormat,
    /// Number of rows.
    pub row_count: u64,
    /// Typed columns.
    pub headers: Vec<Header>,
    /// The rows, a JSON array of objects, when `format` is inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Box<RawValue>>,
    /// Where the JSON file is, when `format` is file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_uri: Option<String>,
}
