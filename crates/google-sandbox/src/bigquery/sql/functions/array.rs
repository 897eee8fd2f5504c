//! Arrays.

use super::{Entry, date, elements, error, int, text};
use crate::bigquery::sql::error::SqlError;
use crate::bigquery::sql::{cast, compare, text as shown};
use crate::bigquery::value::{Interval, Value};

type Outcome = Result<Value, SqlError>;

/// An array may not get longer.
const LONGEST: usize = 1_000_000;

pub(super) const FUNCTIONS: &[Entry] = &[
    ("ARRAY_LENGTH", "ARRAY<T> -> INT64", |of| Ok(Value::Int64(elements(&of[0]).len() as i64))),
    ("ARRAY_REVERSE", "ARRAY<T> -> ARRAY<T>", |of| Ok(Value::array(elements(&of[0]).iter().rev().cloned()))),
    ("ARRAY_CONCAT", "ARRAY<T>, ARRAY<T>... -> ARRAY<T>", |of| Ok(Value::array(of.iter().flat_map(elements).cloned()))),
    ("ARRAY_FIRST", "ARRAY<T> -> T", |of| end(of, <[Value]>::first, "ARRAY_FIRST")),
    ("ARRAY_LAST", "ARRAY<T> -> T", |of| end(of, <[Value]>::last, "ARRAY_LAST")),
    ("$offset", "ARRAY<T>, INT64 -> T", |of| element(of, 0, false)),
    ("$ordinal", "ARRAY<T>, INT64 -> T", |of| element(of, 1, false)),
    ("$safe_offset", "ARRAY<T>, INT64 -> T", |of| element(of, 0, true)),
    ("$safe_ordinal", "ARRAY<T>, INT64 -> T", |of| element(of, 1, true)),
    ("GENERATE_ARRAY", "INT64, INT64, [INT64] -> ARRAY<INT64>", |of| {
        let step = of.get(2).map_or(1, int);
        let next = |value: &Value| Ok(int(value).checked_add(step).map_or(Value::Null, Value::Int64));
        sequence(&of[0], &of[1], step.signum(), next)
    }),
    ("GENERATE_ARRAY", "FLOAT64, FLOAT64, [FLOAT64] -> ARRAY<FLOAT64>", |of| {
        let step = of.get(2).map_or(1.0, cast::to_float);
        let next = |value: &Value| Ok(Value::Float64(cast::to_float(value) + step));
        sequence(&of[0], &of[1], if step == 0.0 { 0 } else { step.signum() as i64 }, next)
    }),
    ("GENERATE_DATE_ARRAY", "DATE, DATE, [INTERVAL] -> ARRAY<DATE>", |of| {
        let step = of.get(2).map_or(Interval { days: 1, ..Interval::default() }, date::interval);
        sequence(&of[0], &of[1], direction(&step), |value| date::add_to_date(value, &step))
    }),
    ("GENERATE_TIMESTAMP_ARRAY", "TIMESTAMP, TIMESTAMP, INTERVAL -> ARRAY<TIMESTAMP>", |of| {
        let step = date::interval(&of[2]);
        sequence(&of[0], &of[1], direction(&step), |value| date::add_to_timestamp(value, &step))
    }),
];

pub(super) const NULLABLE: &[Entry] = &[
    ("ARRAY_TO_STRING", "ARRAY<STRING>, STRING, [STRING] -> STRING", |of| {
        if of[0].is_null() || of[1].is_null() {
            return Ok(Value::Null);
        }
        let parts = elements(&of[0]).iter().filter_map(|element| match element {
            Value::Null => of.get(2).filter(|value| !value.is_null()).map(text),
            element => Some(text(element)),
        });
        Ok(Value::from(parts.collect::<Vec<_>>().join(text(&of[1]))))
    }),
    ("$in_array", "T, ARRAY<T> -> BOOL", |of| {
        let mut outcome = Value::Bool(false);
        for element in elements(&of[1]) {
            match compare::equal(&of[0], element) {
                Some(true) => return Ok(Value::Bool(true)),
                None => outcome = Value::Null,
                Some(false) => {}
            }
        }
        Ok(outcome)
    }),
];

fn end<'a>(of: &'a [Value], get: fn(&'a [Value]) -> Option<&'a Value>, name: &str) -> Outcome {
    let element = get(elements(&of[0])).cloned();
    element.ok_or_else(|| SqlError::query(format!("{name} cannot get the element of an empty array")))
}

fn element(of: &[Value], first: i64, safe: bool) -> Outcome {
    let index = usize::try_from(int(&of[1]) - first).ok();
    match index.and_then(|index| elements(&of[0]).get(index)) {
        Some(value) => Ok(value.clone()),
        None if safe => Ok(Value::Null),
        None => error(format!("Array index {} is out of bounds", int(&of[1]))),
    }
}

fn direction(step: &Interval) -> i64 {
    (step.months.signum() + step.days.signum() + step.micros.signum()).signum()
}

/// The values from one to another, both included.
fn sequence(from: &Value, to: &Value, direction: i64, next: impl Fn(&Value) -> Outcome) -> Outcome {
    if direction == 0 {
        return error("Sequence step cannot be 0.");
    }
    let mut all = Vec::new();
    let mut value = from.clone();
    while !value.is_null() && compare::order(&value, to) as i64 * direction <= 0 {
        if all.len() == LONGEST {
            return error(format!(
                "An array from {} to {} has too many elements",
                shown::of_value(from),
                shown::of_value(to)
            ));
        }
        let following = next(&value)?;
        all.push(std::mem::replace(&mut value, following));
    }
    Ok(Value::array(all))
}
