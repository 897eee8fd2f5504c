//! What client and server declare in `initialize` under `capabilities.experimental.acp` (section 4).

use serde::{Deserialize, Serialize};

use crate::setup::{CredentialsSchema, SetupSchema};

/// How a host wants autocontext to reach the model (7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutocontextDelivery {
    /// The host asks for it and puts it into the prompt.
    Inject,
    /// Tool descriptions ask the model to call `autocontext` first.
    Suggest,
    /// The server attaches it to the first extraction.
    OnFirstCall,
}

/// The client's side (4.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientCapability {
    /// ACP version of the client, `MAJOR.MINOR`.
    pub version: String,
    /// Whether the host keeps `system_data`. Required by 4.1; a client that leaves it out is taken to keep it.
    #[serde(default = "yes")]
    pub stores_system_data: bool,
    /// Preferred delivery; for information only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocontext_delivery: Option<AutocontextDelivery>,
    /// Whether the host can store extractions of several tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_table: Option<bool>,
    /// Whether the host answers `acp/read_table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_tables: Option<bool>,
}

fn yes() -> bool {
    true
}

/// The server's side: with `tools/list`, the only source of truth about a connector (4.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerCapability {
    /// ACP version of the server.
    pub version: String,
    /// Limits that hold when nobody sets others.
    pub defaults: Defaults,
    /// The form of `credentials`.
    pub credentials_schema: CredentialsSchema,
    /// The form of `config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_schema: Option<SetupSchema>,
    /// What a `resource_id` is.
    pub resource_id: ResourceIdInfo,
    /// How autocontext is cached and delivered.
    pub autocontext: AutocontextInfo,
    /// What calls cost.
    pub cost: CostInfo,
    /// Tools that return tables; the first is the default tool.
    pub extraction_tools: Vec<String>,
    /// Tables that tools of several tables can make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_catalog: Option<Vec<TableCatalogEntry>>,
}

/// Default limits (4.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Defaults {
    /// Rows the model sees, 0 to [`crate::MAX_ROW_LIMIT`].
    pub row_limit: u32,
    /// The most a call may cost in USD; 0 where the source is free.
    #[serde(serialize_with = "crate::number::amount")]
    pub cost_limit_usd: f64,
    /// Fields per row in tables with a model view; absent: [`crate::DEFAULT_FIELD_LIMIT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_limit: Option<u32>,
    /// Catalogue tables extracted when nobody asks for others; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<String>>,
}

/// What identifies a resource of this source (6.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceIdInfo {
    /// Short name for a user interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What an id identifies.
    pub description: String,
    /// Readable template, for example `<project>.<dataset>`; `none` where no tool needs a resource.
    pub format: String,
    /// Separators of compound ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separators: Option<Vec<String>>,
    /// Valid examples.
    pub examples: Vec<String>,
}

impl ResourceIdInfo {
    /// Ids of one part, with an example.
    pub fn new(title: &str, description: &str, format: &str, example: &str) -> Self {
        Self {
            title: Some(title.to_owned()),
            description: description.to_owned(),
            format: format.to_owned(),
            separators: None,
            examples: vec![example.to_owned()],
        }
    }
}

/// How autocontext is cached and delivered (4.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AutocontextInfo {
    /// How long a block is kept, in seconds, unless the block says otherwise.
    pub cache_ttl_s: u64,
    /// Modes the server supports.
    pub delivery: Vec<AutocontextDelivery>,
}

/// What calls cost (9.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostInfo {
    /// Always `USD`.
    pub currency: String,
    /// How the source charges.
    pub model: CostModel,
    /// How a cost comes about, for people.
    pub description: String,
}

/// How a source charges (9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostModel {
    /// Nothing is charged.
    Free,
    /// A price per query.
    PerQuery,
    /// A price per byte read.
    PerByte,
    /// A price per row.
    PerRow,
}

/// One table of the catalogue (8.7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableCatalogEntry {
    /// Name, `^[a-z0-9_]+$`.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// What it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Heading in a user interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Always part of the selection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Tools that make it; absent: every extraction tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}
