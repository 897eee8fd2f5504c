//! Values of GoogleSQL. Cheap to clone: what is long is shared.

use std::sync::Arc;

use bigdecimal::BigDecimal;

/// A value. Its type is known beside it, never from it: a null has none, an array without elements has one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int64(i64),
    Float64(f64),
    /// Exact, with at most 9 digits after the point.
    Numeric(Arc<BigDecimal>),
    /// Exact, with at most 38 digits after the point.
    BigNumeric(Arc<BigDecimal>),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01T00:00:00, of no time zone.
    DateTime(i64),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    Interval(Interval),
    /// Start (included) and end (excluded); a null is unbounded.
    Range(Arc<[Value; 2]>),
    /// Well-known text.
    Geography(Arc<str>),
    Json(Arc<serde_json::Value>),
    /// Fields in the order of the type.
    Struct(Arc<[Value]>),
    /// Elements. A null array is no array without elements inside a query, but is one in a result.
    Array(Arc<[Value]>),
}

/// Three parts that don't mix, each with its own sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Interval {
    pub(crate) months: i64,
    pub(crate) days: i64,
    pub(crate) micros: i64,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int64(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float64(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Value {
    /// An array of these elements.
    pub(crate) fn array(elements: impl IntoIterator<Item = Value>) -> Self {
        Self::Array(elements.into_iter().collect())
    }

    /// A struct of these fields.
    pub(crate) fn record(fields: impl IntoIterator<Item = Value>) -> Self {
        Self::Struct(fields.into_iter().collect())
    }

    /// Whether it is null.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The text that `CAST(x AS STRING)` gives. The REST API writes the same for all scalars but floats, bytes, datetimes and
    /// timestamps, which have forms of their own there. Empty for null.
    pub(crate) fn to_text(&self) -> String {
        super::sql::text::of_value(self)
    }
}
