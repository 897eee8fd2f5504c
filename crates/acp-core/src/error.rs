//! The error every layer speaks: one ACP code, one sentence that says what to do next.

use acp_protocol::JsonObject;
use acp_protocol::error::{ErrorCode, ErrorPayload};
use serde_json::Value;

/// Result of anything that can fail with an ACP error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A typed failure (12.1).
///
/// `message` reaches the model (or, for credentials, the person): it says what was wrong and what to do next, and
/// never holds a secret. `data` is for the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    code: ErrorCode,
    message: String,
    data: Option<JsonObject>,
}

impl Error {
    /// An error with any code. The shorthands below read better where they fit.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Arguments that the model can correct.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArguments, message)
    }

    /// A limit the host set wrongly.
    pub fn invalid_limit(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidLimit, message)
    }

    /// Credentials that are malformed or that the source rejects; the person has to act.
    pub fn credentials_invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::CredentialsInvalid, message)
    }

    /// A resource that does not exist or that these credentials may not see.
    pub fn resource_not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ResourceNotFound, message)
    }

    /// The source failed.
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::UpstreamError, message)
    }

    /// Adds one detail for the host.
    #[must_use]
    pub fn with_data(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.get_or_insert_default().insert(key.to_owned(), value.into());
        self
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The details for the host.
    pub fn data(&self) -> Option<&JsonObject> {
        self.data.as_ref()
    }

    /// The form in which it travels.
    pub fn payload(&self) -> ErrorPayload {
        ErrorPayload {
            code: self.code.code().into(),
            name: self.code.name().to_owned(),
            message: self.message.clone(),
            data: self.data.clone(),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
