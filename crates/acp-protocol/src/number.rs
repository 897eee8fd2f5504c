//! How amounts of money are written.

use serde::Serializer;

/// Writes a whole amount without a fraction: `0`, not `0.0`, as the specification's examples do.
pub(crate) fn amount<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// [`amount`] for a cost that may be unknown.
pub(crate) fn optional_amount<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => amount(value, serializer),
        None => serializer.serialize_none(),
    }
}
