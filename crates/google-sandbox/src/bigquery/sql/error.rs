//! What goes wrong in a statement.

use std::fmt;

/// A line and a column, both from 1. Columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// The `reason` in an error of the REST API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// 400: the statement, or a value that it met.
    InvalidQuery,
    /// 404: a table, a data set or a routine.
    NotFound,
    /// 403.
    AccessDenied,
    /// 400: what this sandbox leaves out. The message starts with `sandbox:`.
    Unsupported,
}

impl Reason {
    /// The `reason` and the HTTP status that goes with it.
    pub(crate) fn wire(self) -> (&'static str, u16) {
        match self {
            Self::InvalidQuery | Self::Unsupported => ("invalidQuery", 400),
            Self::NotFound => ("notFound", 404),
            Self::AccessDenied => ("accessDenied", 403),
        }
    }
}

/// An error in Google's words. `message` ends with ` at [line:column]` when `position` is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlError {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) position: Option<Position>,
}

impl SqlError {
    /// An error without a place.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), position: None }
    }

    /// What is wrong in the statement, or in a value that it met.
    pub(crate) fn query(message: impl Into<String>) -> Self {
        Self::new(Reason::InvalidQuery, message)
    }

    /// What this sandbox leaves out.
    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(Reason::Unsupported, format!("sandbox: not supported: {what}"))
    }

    /// Says where, unless a place nearer to the cause is known.
    pub(crate) fn at(mut self, position: Option<Position>) -> Self {
        if let (None, Some(at)) = (self.position, position) {
            self.message.push_str(&format!(" at [{}:{}]", at.line, at.column));
            self.position = position;
        }
        self
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}
