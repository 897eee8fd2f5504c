//! Values as text.

use std::fmt::Write;

use bigdecimal::BigDecimal;
use jiff::civil::Date;

use crate::bigquery::value::{Interval, Value};
use crate::clock::{MICROS, date_of};

/// Microseconds in a day.
pub(super) const DAY: i64 = 86_400 * MICROS;

/// As `CAST(value AS STRING)`; structs and arrays as their literals.
pub(in crate::bigquery) fn of_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::Float64(number) => of_float(*number),
        Value::Numeric(number) | Value::BigNumeric(number) => of_decimal(number),
        Value::String(text) | Value::Geography(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Date(day) => of_date(date_of(*day)),
        Value::DateTime(micros) => of_datetime(*micros, ' '),
        Value::Time(micros) => of_time(*micros),
        Value::Timestamp(micros) => format!("{}+00", of_datetime(*micros, ' ')),
        Value::Interval(interval) => of_interval(interval),
        Value::Range(bounds) => {
            let bound = |value: &Value| if value.is_null() { "UNBOUNDED".to_owned() } else { of_value(value) };
            format!("[{}, {})", bound(&bounds[0]), bound(&bounds[1]))
        }
        Value::Json(json) => json.to_string(),
        Value::Struct(fields) => format!("({})", joined(fields)),
        Value::Array(elements) => format!("[{}]", joined(elements)),
    }
}

fn joined(values: &[Value]) -> String {
    values.iter().map(of_value).collect::<Vec<_>>().join(", ")
}

/// The shortest of 15 to 17 digits that reads back as the same number, with an exponent where C's `%g` has one.
pub(in crate::bigquery) fn of_float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    let digits = (15..17).find(|digits| format!("{number:.*e}", digits - 1).parse() == Ok(number)).unwrap_or(17);
    of_float_digits(number, digits)
}

/// A finite number with so many digits, as C's `%g` writes it.
pub(super) fn of_float_digits(number: f64, digits: usize) -> String {
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
        text.to_owned()
    };
    if (-4..digits as i32).contains(&exponent) {
        let places = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
        return trimmed(&format!("{number:.places$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Without an exponent and without zeros at the end.
pub(in crate::bigquery) fn of_decimal(number: &BigDecimal) -> String {
    let number = number.normalized();
    if number.fractional_digit_count() < 0 { number.with_scale(0).to_plain_string() } else { number.to_plain_string() }
}

/// `YYYY-MM-DD`.
pub(super) fn of_date(date: Date) -> String {
    format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day())
}

/// `HH:MM:SS`, with three or six digits of a second if there are any.
pub(in crate::bigquery) fn of_time(micros: i64) -> String {
    let seconds = micros / MICROS;
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    push_fraction(&mut text, micros % MICROS);
    text
}

/// Date and time of day with `between` between them.
pub(in crate::bigquery) fn of_datetime(micros: i64, between: char) -> String {
    let day = i32::try_from(micros.div_euclid(DAY)).unwrap_or(0);
    format!("{}{between}{}", of_date(date_of(day)), of_time(micros.rem_euclid(DAY)))
}

fn push_fraction(text: &mut String, micros: i64) {
    match micros {
        0 => {}
        micros if micros % 1_000 == 0 => _ = write!(text, ".{:03}", micros / 1_000),
        micros => _ = write!(text, ".{micros:06}"),
    }
}

/// `Y-M D H:M:S.F`.
pub(super) fn of_interval(interval: &Interval) -> String {
    let Interval { months, days, micros } = *interval;
    let sign = |negative: bool| if negative { "-" } else { "" };
    let (months_abs, micros_abs) = (months.unsigned_abs(), micros.unsigned_abs());
    let seconds = micros_abs / MICROS as u64;
    let mut text = format!(
        "{}{}-{} {days} {}{}:{}:{}",
        sign(months < 0),
        months_abs / 12,
        months_abs % 12,
        sign(micros < 0),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    push_fraction(&mut text, (micros_abs % MICROS as u64) as i64);
    text
}
