//! The error codes of 12.1 and the shape in which they travel.

use serde::{Deserialize, Serialize};

use crate::JsonObject;

/// The thirteen codes of ACP 1.0. The same numbers mean other things in newer revisions of MCP itself, so a
/// reader compares [`name`](Self::name) as well wherever both can occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The estimate exceeds `cost_limit_usd`.
    CostLimitExceeded,
    /// The tool needs credentials and there are none.
    CredentialsMissing,
    /// The source rejects the credentials, or they are not well formed.
    CredentialsInvalid,
    /// No `resource_id` and no default resource.
    ResourceRequired,
    /// The resource does not exist, or these credentials may not see it.
    ResourceNotFound,
    /// `request_data` names a block that does not exist.
    UnknownBlock,
    /// `row_limit`, `cost_limit_usd` or another limit is not valid.
    InvalidLimit,
    /// Arguments do not meet the schema, or the tool is unknown.
    InvalidArguments,
    /// The source failed; also the code of anything unexpected.
    UpstreamError,
    /// Something tried to modify data.
    ReadOnlyViolation,
    /// The tool needs `acp/read_table` and the client does not offer it.
    HostTablesUnsupported,
    /// The host does not resolve that reference.
    TableNotFound,
    /// The host only holds a sample of that table.
    TableTruncated,
}

impl ErrorCode {
    /// Every code, in the order of 12.1.
    pub const ALL: [Self; 13] = [
        Self::CostLimitExceeded,
        Self::CredentialsMissing,
        Self::CredentialsInvalid,
        Self::ResourceRequired,
        Self::ResourceNotFound,
        Self::UnknownBlock,
        Self::InvalidLimit,
        Self::InvalidArguments,
        Self::UpstreamError,
        Self::ReadOnlyViolation,
        Self::HostTablesUnsupported,
        Self::TableNotFound,
        Self::TableTruncated,
    ];

    /// The JSON-RPC number.
    pub const fn code(self) -> i32 {
        -32010 - self as i32
    }

    /// The stable name that travels beside the number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CostLimitExceeded => "ACP_COST_LIMIT_EXCEEDED",
            Self::CredentialsMissing => "ACP_CREDENTIALS_MISSING",
            Self::CredentialsInvalid => "ACP_CREDENTIALS_INVALID",
            Self::ResourceRequired => "ACP_RESOURCE_REQUIRED",
            Self::ResourceNotFound => "ACP_RESOURCE_NOT_FOUND",
            Self::UnknownBlock => "ACP_UNKNOWN_BLOCK",
            Self::InvalidLimit => "ACP_INVALID_LIMIT",
            Self::InvalidArguments => "ACP_INVALID_ARGUMENTS",
            Self::UpstreamError => "ACP_UPSTREAM_ERROR",
            Self::ReadOnlyViolation => "ACP_READ_ONLY_VIOLATION",
            Self::HostTablesUnsupported => "ACP_HOST_TABLES_UNSUPPORTED",
            Self::TableNotFound => "ACP_TABLE_NOT_FOUND",
            Self::TableTruncated => "ACP_TABLE_TRUNCATED",
        }
    }

    /// The code with this number, if it is one of ACP's.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|known| i64::from(known.code()) == code)
    }
}

/// A typed error, the same in `content` and in `_meta.acp.error` (12.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorPayload {
    /// One of [`ErrorCode`], or the server's own at or below -32051.
    pub code: i64,
    /// The name of the code.
    pub name: String,
    /// What went wrong and what to do next.
    pub message: String,
    /// Details for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<JsonObject>,
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn numbers_run_from_32010_to_32022_and_read_back() {
        for (place, code) in ErrorCode::ALL.into_iter().enumerate() {
            assert_eq!(code.code(), -32010 - place as i32);
            assert_eq!(ErrorCode::from_code(code.code().into()), Some(code));
            assert!(code.name().starts_with("ACP_"));
        }
        assert_eq!(ErrorCode::from_code(-32023), None);
    }
}
