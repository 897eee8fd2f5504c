//! Conversions between types: which are implicit, and what each gives.

use std::str::FromStr;
use std::sync::Arc;

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, RoundingMode, ToPrimitive};
use jiff::tz::TimeZone;

use super::datetime::{self, checked_micros};
use super::error::SqlError;
use super::text::{self, DAY};
use crate::bigquery::schema::Type;
use crate::bigquery::value::Value;

/// How wide a number is: values go from narrower to wider without a cast.
fn width(kind: &Type) -> Option<u8> {
    Some(match kind {
        Type::Int64 => 1,
        Type::Numeric => 2,
        Type::BigNumeric => 3,
        Type::Float64 => 4,
        _ => return None,
    })
}

/// Whether values of a type become another's without a cast.
pub(super) fn is_implicit(from: &Type, to: &Type) -> bool {
    match (width(from), width(to)) {
        (Some(from), Some(to)) => from <= to,
        _ => is_alike(from, to),
    }
}

/// Whether two types differ by nothing but the names of fields.
pub(super) fn is_alike(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Array(left), Type::Array(right)) => is_alike(left, right),
        (Type::Struct(left), Type::Struct(right)) => {
            left.len() == right.len()
                && left.iter().zip(right.iter()).all(|(left, right)| is_alike(&left.kind, &right.kind))
        }
        _ => left == right,
    }
}

/// Whether a literal of a type becomes another's without a cast.
pub(super) fn is_implicit_for_literal(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::String, Type::Date | Type::DateTime | Type::Time | Type::Timestamp) => true,
        (Type::Float64, Type::Numeric | Type::BigNumeric) => true,
        (Type::Array(from), Type::Array(to)) => is_implicit_for_literal(from, to),
        (Type::Struct(from), Type::Struct(to)) => {
            from.len() == to.len()
                && from.iter().zip(to.iter()).all(|(from, to)| is_implicit_for_literal(&from.kind, &to.kind))
        }
        _ => is_implicit(from, to),
    }
}

/// Whether `CAST` knows the way.
pub(super) fn is_possible(from: &Type, to: &Type) -> bool {
    use Type::{
        Array, BigNumeric, Bool, Bytes, Date, DateTime, Float64, Geography, Int64, Interval, Json, Numeric, Range,
        String, Struct, Time, Timestamp,
    };
    match (from, to) {
        (Struct(from), Struct(to)) => {
            from.len() == to.len() && from.iter().zip(to.iter()).all(|(from, to)| is_possible(&from.kind, &to.kind))
        }
        (Array(from), Array(to)) => is_possible(from, to),
        (from, to) if from == to => true,
        (Int64 | Float64 | Numeric | BigNumeric, Int64 | Float64 | Numeric | BigNumeric) => true,
        (Bool, Int64) | (Int64, Bool) => true,
        (String, Geography | Json | Range(_) | Interval) => false,
        (String, Array(_) | Struct(_)) | (Array(_) | Struct(_) | Geography | Json, String) => false,
        (_, String) | (String, _) => !matches!(to, Bytes) || matches!(from, String),
        (Date, DateTime | Timestamp) | (DateTime | Timestamp, Date | Time) => true,
        (DateTime, Timestamp) | (Timestamp, DateTime) => true,
        _ => false,
    }
}

/// Digits after the point of a decimal type, and its largest value.
fn limits(kind: &Type) -> (i64, BigDecimal) {
    if *kind == Type::Numeric {
        (9, BigDecimal::new(BigInt::from(10).pow(38) - 1, 9))
    } else {
        (38, BigDecimal::new((BigInt::from(1) << 255) - 1, 38))
    }
}

/// Rounds a number to a decimal type.
///
/// # Errors
/// When it is too large.
pub(super) fn decimal(number: &BigDecimal, kind: &Type) -> Result<Value, SqlError> {
    let (scale, largest) = limits(kind);
    let rounded = number.with_scale_round(scale, RoundingMode::HalfUp).normalized();
    if rounded.abs() > largest {
        let name = if *kind == Type::Numeric { "numeric" } else { "BIGNUMERIC" };
        return Err(SqlError::query(format!("{name} out of range: {}", text::of_decimal(&rounded))));
    }
    let rounded = Arc::new(rounded);
    Ok(if *kind == Type::Numeric { Value::Numeric(rounded) } else { Value::BigNumeric(rounded) })
}

/// A number as a float; zero for what is none.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int64(number) => *number as f64,
        Value::Float64(number) => *number,
        Value::Numeric(number) | Value::BigNumeric(number) => number.to_f64().unwrap_or(f64::NAN),
        _ => 0.0,
    }
}

fn bad(kind: &str, text: &str) -> SqlError {
    SqlError::query(format!("Bad {kind} value: {text}"))
}

fn int_from_text(text: &str) -> Result<Value, SqlError> {
    let trimmed = text.trim();
    let (sign, digits) = match trimmed.split_at_checked(1) {
        Some(("-", digits)) => ("-", digits),
        Some(("+", digits)) => ("", digits),
        _ => ("", trimmed),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (digits, 10),
    };
    let valid = digits.starts_with(|digit: char| digit.is_digit(radix));
    let number = valid.then(|| i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()).flatten();
    number.map(Value::Int64).ok_or_else(|| bad("int64", text))
}

fn float_from_text(text: &str) -> Result<Value, SqlError> {
    let lower = text.trim().to_ascii_lowercase();
    let number = match lower.trim_start_matches(['+', '-']) {
        "inf" | "infinity" => Some(if lower.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        "nan" => Some(f64::NAN),
        _ => lower.parse().ok(),
    };
    number.map(Value::Float64).ok_or_else(|| bad("double", text))
}

fn int_from_float(number: f64) -> Result<Value, SqlError> {
    let rounded = number.round();
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        return Ok(Value::Int64(rounded as i64));
    }
    let shown = text::of_value(&Value::Float64(number));
    Err(SqlError::query(if number.is_finite() {
        format!("int64 out of range: {shown}")
    } else {
        format!("Illegal conversion of non-finite floating point number to an integer: {shown}")
    }))
}

/// Converts a value that isn't null.
///
/// # Errors
/// When the value has no form in the other type.
pub(super) fn cast(value: Value, from: &Type, to: &Type) -> Result<Value, SqlError> {
    if value.is_null() || from == to {
        return Ok(value);
    }
    Ok(match (value, to) {
        (Value::Struct(fields), Type::Struct(types)) => {
            let Type::Struct(old) = from else { return Err(SqlError::unsupported("this cast of a struct")) };
            let pairs = fields.iter().zip(old.iter().zip(types.iter()));
            Value::Struct(
                pairs.map(|(value, (from, to))| cast(value.clone(), &from.kind, &to.kind)).collect::<Result<_, _>>()?,
            )
        }
        (Value::Array(elements), Type::Array(to)) => {
            let from = from.element().unwrap_or(&Type::Int64);
            Value::Array(elements.iter().map(|value| cast(value.clone(), from, to)).collect::<Result<_, _>>()?)
        }
        (Value::String(text), to) => return from_text(&text, to),
        (Value::Bytes(bytes), Type::String) => {
            let text =
                std::str::from_utf8(&bytes).map_err(|_| SqlError::query("Invalid cast of bytes to UTF8 string"))?;
            Value::from(text)
        }
        (value, Type::String) => Value::from(text::of_value(&value)),
        (Value::Int64(number), Type::Float64) => Value::Float64(number as f64),
        (Value::Int64(number), Type::Bool) => Value::Bool(number != 0),
        (Value::Int64(number), to @ (Type::Numeric | Type::BigNumeric)) => decimal(&BigDecimal::from(number), to)?,
        (Value::Bool(truth), Type::Int64) => Value::Int64(i64::from(truth)),
        (Value::Float64(number), Type::Int64) => int_from_float(number)?,
        (Value::Float64(number), to @ (Type::Numeric | Type::BigNumeric)) => {
            let shown = text::of_float(number);
            let parsed = BigDecimal::try_from(number);
            let name = if *to == Type::Numeric { "NUMERIC" } else { "BIGNUMERIC" };
            let illegal = |_| {
                SqlError::query(format!("Illegal conversion of non-finite floating point number to {name}: {shown}"))
            };
            decimal(&parsed.map_err(illegal)?, to)?
        }
        (Value::Numeric(number) | Value::BigNumeric(number), Type::Int64) => {
            let rounded = number.with_scale_round(0, RoundingMode::HalfUp);
            let out = || SqlError::query(format!("int64 out of range: {}", text::of_decimal(&number)));
            Value::Int64(rounded.to_i64().ok_or_else(out)?)
        }
        (value @ (Value::Numeric(_) | Value::BigNumeric(_)), Type::Float64) => Value::Float64(to_float(&value)),
        (Value::Numeric(number) | Value::BigNumeric(number), to @ (Type::Numeric | Type::BigNumeric)) => {
            decimal(&number, to)?
        }
        (Value::Date(day), Type::DateTime) => Value::DateTime(i64::from(day) * DAY),
        (Value::Date(day), Type::Timestamp) => Value::Timestamp(i64::from(day) * DAY),
        (Value::DateTime(micros) | Value::Timestamp(micros), Type::Date) => Value::Date(datetime::day_of(micros)),
        (Value::DateTime(micros) | Value::Timestamp(micros), Type::Time) => Value::Time(micros.rem_euclid(DAY)),
        (Value::DateTime(micros), Type::Timestamp) => Value::Timestamp(micros),
        (Value::Timestamp(micros), Type::DateTime) => Value::DateTime(micros),
        (_, to) => return Err(SqlError::unsupported(format_args!("a cast from {from} to {to}"))),
    })
}

/// Reads a value of a type from text.
///
/// # Errors
/// `Bad int64 value: x` and the like.
pub(super) fn from_text(text: &str, to: &Type) -> Result<Value, SqlError> {
    let invalid = |kind: &str| SqlError::query(format!("Invalid {kind}: '{text}'"));
    Ok(match to {
        Type::String => Value::from(text),
        Type::Bytes => Value::Bytes(text.as_bytes().into()),
        Type::Int64 => int_from_text(text)?,
        Type::Float64 => float_from_text(text)?,
        Type::Bool => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => return Err(bad("bool", text)),
        },
        Type::Numeric | Type::BigNumeric => {
            let name = if *to == Type::Numeric { "NUMERIC" } else { "BIGNUMERIC" };
            let number = BigDecimal::from_str(text.trim())
                .map_err(|_| SqlError::query(format!("Invalid {name} value: {text}")))?;
            decimal(&number, to)?
        }
        Type::Date => Value::Date(datetime::parse_date(text).ok_or_else(|| invalid("date"))?),
        Type::Time => Value::Time(
            datetime::parse_time(text).ok_or_else(|| SqlError::query(format!("Invalid time string \"{text}\"")))?,
        ),
        Type::DateTime => {
            let wrong = || SqlError::query(format!("Invalid datetime string \"{text}\""));
            Value::DateTime(datetime::parse_datetime(text).ok_or_else(wrong)?)
        }
        Type::Timestamp => {
            let micros = datetime::parse_timestamp(text, &TimeZone::UTC).ok_or_else(|| invalid("timestamp"))?;
            Value::Timestamp(checked_micros(micros)?)
        }
        Type::Geography => Value::Geography(text.into()),
        Type::Json => Value::Json(super::json::parse(text)?),
        other => return Err(SqlError::unsupported(format_args!("a cast from STRING to {other}"))),
    })
}
