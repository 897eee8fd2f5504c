//! The three-part result of a tool call (section 8): what the model reads, what the host learns about the call,
//! and the whole table.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::JsonObject;
use crate::autocontext::BlockResult;
use crate::error::ErrorPayload;

/// What an answer is (8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// Resources or blocks.
    Autocontext,
    /// Block descriptors.
    AutocontextData,
    /// A table.
    Extraction,
    /// Anything else that succeeded.
    Info,
    /// A failure.
    Error,
}

/// Type of a column (8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// Text.
    String,
    /// Whole number of any size.
    Integer,
    /// Number of any size and precision.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `YYYY-MM-DD`.
    Date,
    /// ISO 8601 text.
    Datetime,
    /// Object or array.
    Json,
}

/// What a column is for (8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnRole {
    /// Something to group by.
    Dimension,
    /// A measure.
    Metric,
    /// Anything else.
    Attribute,
}

/// A typed column (8.6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Unique name.
    pub name: String,
    /// Type of every value that is not `null`.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ColumnRole>,
    /// What it holds, units included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl Header {
    /// A column to group by.
    pub fn dimension(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self { name: name.into(), column_type, role: Some(ColumnRole::Dimension), description: None }
    }

    /// A measure.
    pub fn metric(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self { name: name.into(), column_type, role: Some(ColumnRole::Metric), description: None }
    }
}

/// What the model reads of an extraction of one table (8.2). `rows` and `totals` are raw JSON, so that no digit
/// is lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExtractionModelResponse {
    /// Rows seen and rows in all.
    pub notice: String,
    /// How the data were obtained.
    pub description: String,
    /// Key dates, `YYYY-MM-DD`, resolved.
    pub dates: Vec<String>,
    /// Rows in `system_data`.
    pub total_rows: u64,
    /// Rows in `rows`.
    pub returned_rows: u64,
    /// Whether `returned_rows` is less than `total_rows`.
    pub truncated: bool,
    /// Column names in order.
    pub columns: Vec<String>,
    /// The sample, objects with exactly the keys of `columns`.
    pub rows: Vec<Box<RawValue>>,
    /// Totals the source computed over all rows: one object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<Box<RawValue>>,
    /// The tool's own information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    /// What to know before trusting the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
    /// Blocks attached on the first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocontext: Option<Vec<BlockResult>>,
}

/// Which fields of a table the model sees (8.2.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelView {
    /// Fields in order.
    pub fields: Vec<String>,
    /// Characters of a value; absent: [`crate::MODEL_VIEW_MAX_VALUE_CHARS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_value_chars: Option<u32>,
    /// Rows; absent: the cap of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rows: Option<u32>,
}

/// One table in [`MultiTableModelResponse`] (8.2.1).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelTable {
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Rows and fields seen, and how many there are.
    pub notice: String,
    /// Rows in `system_data`.
    pub total_rows: u64,
    /// Rows in `rows`.
    pub returned_rows: u64,
    /// Fields shown.
    pub fields: Vec<String>,
    /// Fields of the whole table.
    pub fields_total: u64,
    /// The sample.
    pub rows: Vec<Box<RawValue>>,
    /// How the data were obtained.
    pub description: String,
    /// Key dates.
    pub dates: Vec<String>,
}

/// What the model reads of an extraction of several tables (8.2.1).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MultiTableModelResponse {
    /// Which tables have data.
    pub notice: String,
    /// How the data were obtained.
    pub description: String,
    /// Key dates.
    pub dates: Vec<String>,
    /// Information for the model alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Value>,
    /// Every table, empty ones included.
    pub tables: indexmap::IndexMap<String, ModelTable>,
    /// Rows of catalogue tables nobody asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_extracted: Option<indexmap::IndexMap<String, u64>>,
    /// The tool's own information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    /// What to know before trusting the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
    /// Blocks attached on the first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocontext: Option<Vec<BlockResult>>,
}

/// Summary of one table in [`SystemInfo`] (8.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Name of the table.
    pub name: String,
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Rows in `system_data`.
    pub total_rows: u64,
    /// Rows the model sees.
    pub returned_rows: u64,
    /// Fields of the whole table.
    pub fields_total: u64,
    /// Fields the model sees.
    pub fields_shown: u64,
}

/// What the host learns about a call; complete in every answer, errors included (8.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemInfo {
    /// Name of the server.
    pub acp: String,
    /// ACP version of the server.
    pub acp_version: String,
    /// The tool that was called.
    pub tool: String,
    /// What the answer is.
    pub kind: ResultKind,
    /// The resource in force, normalised.
    pub resource_id: Option<String>,
    /// The arguments in force, defaults included, without `resource_id`: enough to repeat the call.
    pub arguments: JsonObject,
    /// Title for a dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Rows extracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_rows: Option<u64>,
    /// Rows the model sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_rows: Option<u64>,
    /// Whether the model sees fewer rows than there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// `row_limit` in force.
    pub row_limit: u32,
    /// `cost_limit_usd` in force.
    #[serde(serialize_with = "crate::number::amount")]
    pub cost_limit_usd: f64,
    /// Cost estimated before running, in USD.
    #[serde(serialize_with = "crate::number::amount")]
    pub cost_estimate_usd: f64,
    /// Cost in USD; `null` when the source does not tell.
    #[serde(serialize_with = "crate::number::optional_amount")]
    pub cost_actual_usd: Option<f64>,
    /// Time in the server, in milliseconds.
    pub duration_ms: u64,
    /// When the answer was made, ISO 8601 in UTC.
    pub fetched_at: String,
    /// Whether autocontext was attached.
    pub autocontext_attached: bool,
    /// Whether all data came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<bool>,
    /// Sentences for the system; in extractions the notice.
    pub messages: Vec<String>,
    /// What was not fatal.
    pub warnings: Vec<String>,
    /// Details of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<JsonObject>,
    /// `field_limit` in force, for several tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_limit: Option<u32>,
    /// Per table, for several tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<TableInfo>>,
    /// Tables selected from the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables_selected: Option<Vec<String>>,
}

/// Where one table is (8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableFormat {
    /// In the message.
    Inline,
    /// In a JSON file.
    File,
}

/// Where the data are (8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataFormat {
    /// One table, in the message.
    Inline,
    /// One table, in a JSON file.
    File,
    /// Several tables.
    Tables,
}

/// The whole extraction (8.5).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SystemData {
    /// Where the data are.
    pub format: DataFormat,
    /// Rows in all.
    pub row_count: u64,
    /// Typed columns; empty for several tables.
    pub headers: Vec<Header>,
    /// The rows, a JSON array of objects, when inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Box<RawValue>>,
    /// Where the JSON file is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_uri: Option<String>,
    /// Several tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<SystemTable>>,
}

/// One of several tables (8.5).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SystemTable {
    /// Name of the table.
    pub name: String,
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where the rows are.
    pub format: TableFormat,
    /// Number of rows.
    pub row_count: u64,
    /// Typed columns.
    pub headers: Vec<Header>,
    /// The rows, when inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Box<RawValue>>,
    /// Where the JSON file is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_uri: Option<String>,
    /// What the model saw of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_view: Option<ModelView>,
}

/// `_meta.acp` of a result (8).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultMeta {
    /// ACP version of the server.
    pub version: String,
    /// What the answer is.
    pub kind: ResultKind,
    /// About the call.
    pub system_info: SystemInfo,
    /// The whole extraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_data: Option<SystemData>,
    /// The failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorPayload>,
}
