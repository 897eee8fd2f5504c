//! Resource lists and autocontext blocks (sections 6 and 7).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One resource a person can choose, ready to be passed as `resource_id` (6.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceSummary {
    /// The id, ready to use as an argument.
    pub resource_id: String,
    /// The name people know it by.
    pub name: String,
    /// One line that tells it from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it belongs to, for example the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `true` when these credentials used it recently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<bool>,
}

impl ResourceSummary {
    /// A resource with nothing but a name.
    pub fn new(resource_id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { resource_id: resource_id.into(), name: name.into(), description: None, group: None, recent: None }
    }
}

/// The answer of `autocontext` without a resource (6.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceListResponse {
    /// How many there are and how many are shown.
    pub notice: String,
    /// All resources these credentials reach, shown or not.
    pub total_available: u64,
    /// At most [`crate::RESOURCE_SUGGESTIONS`], likeliest first.
    pub resources: Vec<ResourceSummary>,
}

/// What a block holds, known without credentials (7.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockDescriptor {
    /// Stable id, `^[a-z][a-z0-9_]*$`.
    pub id: String,
    /// What the block holds.
    pub description: String,
    /// The resource levels it exists for; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applies_to: Option<Vec<String>>,
}

/// One delivered block: `data`, or why there is none (7.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockResult {
    /// The id of the descriptor.
    pub id: String,
    /// The description of the descriptor.
    pub description: String,
    /// The content; absent when `error` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Why the content could not be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether a block id has the form that 7.1 asks for: `^[a-z][a-z0-9_]*$`.
pub fn is_block_id(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
