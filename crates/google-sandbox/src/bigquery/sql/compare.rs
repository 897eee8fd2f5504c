//! When values are equal, and which comes first. Both sides always have the same type.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::plan::Comparison;
use crate::bigquery::value::{Interval, Value};
use crate::clock::MICROS;

/// In the order of `ORDER BY`: nulls first, then NaN.
pub(super) fn order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Int64(left), Value::Int64(right)) => left.cmp(right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Float64(left), Value::Float64(right)) => {
            left.partial_cmp(right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
        }
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Numeric(left) | Value::BigNumeric(left), Value::Numeric(right) | Value::BigNumeric(right)) => {
            left.cmp(right)
        }
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Date(left), Value::Date(right)) => left.cmp(right),
        (Value::DateTime(left), Value::DateTime(right))
        | (Value::Time(left), Value::Time(right))
        | (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
        (Value::Interval(left), Value::Interval(right)) => length(left).cmp(&length(right)),
        (Value::Struct(left), Value::Struct(right)) | (Value::Array(left), Value::Array(right)) => {
            let pairs = left.iter().zip(right.iter()).map(|(left, right)| order(left, right));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Range(left), Value::Range(right)) => {
            // An unbounded start is before every start, an unbounded end after every end.
            let end = |left: &Value, right: &Value| match (left.is_null(), right.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => order(left, right),
            };
            order(&left[0], &right[0]).then_with(|| end(&left[1], &right[1]))
        }
        (Value::Geography(left), Value::Geography(right)) => left.cmp(right),
        _ => Ordering::Equal,
    }
}

/// Months have 30 days and days 24 hours when intervals are compared.
fn length(interval: &Interval) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * 86_400 * i128::from(MICROS) + i128::from(interval.micros)
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Float64(number) if number.is_nan())
}

/// Whether two values are equal; none where a null decides.
pub(super) fn equal(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Struct(left), Value::Struct(right)) | (Value::Array(left), Value::Array(right)) => {
            if left.len() != right.len() {
                return Some(false);
            }
            let mut all = Some(true);
            for (left, right) in left.iter().zip(right.iter()) {
                match equal(left, right) {
                    Some(false) => return Some(false),
                    None => all = None,
                    Some(true) => {}
                }
            }
            all
        }
        _ if is_nan(left) || is_nan(right) => Some(false),
        _ => Some(order(left, right).is_eq()),
    }
}

/// The result of a comparison.
pub(super) fn compare(operator: Comparison, left: &Value, right: &Value) -> Value {
    match operator {
        Comparison::Distinct => return Value::Bool(!same(left, right)),
        Comparison::NotDistinct => return Value::Bool(same(left, right)),
        Comparison::Equal => return equal(left, right).into(),
        Comparison::NotEqual => return equal(left, right).map(|equal| !equal).into(),
        _ => {}
    }
    if left.is_null() || right.is_null() {
        return Value::Null;
    }
    if is_nan(left) || is_nan(right) {
        return Value::Bool(false);
    }
    let order = order(left, right);
    Value::Bool(match operator {
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        _ => order.is_ge(),
    })
}

/// Whether two values are one for `GROUP BY` and `DISTINCT`: nulls are, and so are NaNs.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Struct(left), Value::Struct(right)) | (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(left, right)| same(left, right))
        }
        _ => order(left, right).is_eq(),
    }
}

/// A row, or a part of one, that is equal to another as `GROUP BY` sees it.
#[derive(Clone, Debug)]
pub(super) struct Key(pub(super) Vec<Value>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(left, right)| same(left, right))
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|value| hash(value, state));
    }
}

fn hash<H: Hasher>(value: &Value, state: &mut H) {
    match value {
        Value::Null | Value::Json(_) => 0.hash(state),
        Value::Bool(truth) => truth.hash(state),
        Value::Int64(number) | Value::DateTime(number) | Value::Time(number) | Value::Timestamp(number) => {
            number.hash(state)
        }
        Value::Float64(number) if number.is_nan() => u64::MAX.hash(state),
        // Zero has two signs.
        Value::Float64(number) => (number + 0.0).to_bits().hash(state),
        Value::Numeric(number) | Value::BigNumeric(number) => number.hash(state),
        Value::String(text) | Value::Geography(text) => text.hash(state),
        Value::Bytes(bytes) => bytes.hash(state),
        Value::Date(day) => day.hash(state),
        Value::Interval(interval) => length(interval).hash(state),
        Value::Range(bounds) => bounds.iter().for_each(|value| hash(value, state)),
        Value::Struct(values) | Value::Array(values) => values.iter().for_each(|value| hash(value, state)),
    }
}
