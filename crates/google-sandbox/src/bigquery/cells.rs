//! Rows as the REST API writes them: `{"f": [{"v": "1"}, {"v": null}, {"v": {"f": […]}}, {"v": [{"v": "a"}]}]}`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::sql::{Row, text};
use super::value::Value;
use crate::clock::MICROS;

/// How timestamps are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimestampFormat {
    /// Seconds since 1970 as a float, with an exponent from ten million on: loses digits, and is the default.
    #[default]
    Float,
    /// Microseconds since 1970.
    Int64,
    /// `YYYY-MM-DDTHH:MM:SS.FFFFFFFFFFFFZ`.
    Iso8601,
}

/// Appends a row.
pub(crate) fn push_row(out: &mut String, row: &[Value], format: TimestampFormat) {
    out.push_str("{\"f\":[");
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_cell(out, value, format);
    }
    out.push_str("]}");
}

/// Rows from an iterator until `bytes` or `count` would be exceeded (but at least one row): a JSON array, and how many.
pub(crate) fn page(
    rows: impl Iterator<Item = Row>,
    count: u64,
    bytes: usize,
    format: TimestampFormat,
) -> (String, u64) {
    let mut out = String::from("[");
    let mut written = 0;
    let mut one = String::new();
    for row in rows.take(usize::try_from(count).unwrap_or(usize::MAX)) {
        one.clear();
        push_row(&mut one, &row, format);
        if written > 0 && out.len() + one.len() > bytes {
            break;
        }
        if written > 0 {
            out.push(',');
        }
        out.push_str(&one);
        written += 1;
    }
    out.push(']');
    (out, written)
}

fn push_cell(out: &mut String, value: &Value, format: TimestampFormat) {
    out.push_str("{\"v\":");
    match value {
        Value::Null => out.push_str("null"),
        Value::Struct(fields) => push_row(out, fields, format),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_cell(out, element, format);
            }
            out.push(']');
        }
        Value::String(text) => push_text(out, text),
        scalar => push_text(out, &scalar_text(scalar, format)),
    }
    out.push('}');
}

fn push_text(out: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

fn scalar_text(value: &Value, format: TimestampFormat) -> String {
    match value {
        Value::Float64(number) => float(*number),
        Value::Bytes(bytes) => STANDARD.encode(bytes),
        Value::DateTime(micros) => with_micros(*micros, |whole| text::of_datetime(whole, 'T')),
        Value::Time(micros) => with_micros(*micros, text::of_time),
        Value::Timestamp(micros) => timestamp(*micros, format),
        Value::Range(bounds) => {
            let bound = |value: &Value| match value {
                Value::Null => "UNBOUNDED".to_owned(),
                value => scalar_text(value, format),
            };
            format!("[{}, {})", bound(&bounds[0]), bound(&bounds[1]))
        }
        other => other.to_text(),
    }
}

/// A time with no digits of a second, or with six of them.
fn with_micros(micros: i64, whole: impl Fn(i64) -> String) -> String {
    let rest = micros.rem_euclid(MICROS);
    let text = whole(micros - rest);
    if rest == 0 { text } else { format!("{text}.{rest:06}") }
}

fn timestamp(micros: i64, format: TimestampFormat) -> String {
    match format {
        // The nearest float: what loses the last digits of times far from 1970.
        TimestampFormat::Float => float(micros as f64 / MICROS as f64),
        TimestampFormat::Int64 => micros.to_string(),
        TimestampFormat::Iso8601 => {
            let whole = micros.div_euclid(MICROS) * MICROS;
            format!("{}.{:06}000000Z", text::of_datetime(whole, 'T'), micros.rem_euclid(MICROS))
        }
    }
}

/// As Java writes a double: always a point, and an exponent below 0.001 and from ten million on.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = number.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{number:?}");
    }
    let scientific = format!("{number:E}");
    match scientific.split_once('E') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
        _ => scientific,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn cell(value: Value) -> String {
        let mut out = String::new();
        push_cell(&mut out, &value, TimestampFormat::Float);
        out
    }

    #[test]
    fn floats_are_written_as_java_does() {
        let texts = [1.0, 0.1 + 0.2, 1e7, -12_345_678.5, 1e-3, 5e-324, f64::MAX, -0.0].map(float);
        let wanted = [
            "1.0",
            "0.30000000000000004",
            "1.0E7",
            "-1.23456785E7",
            "0.001",
            "5.0E-324",
            "1.7976931348623157E308",
            "-0.0",
        ];
        assert_eq!(texts, wanted);
        assert_eq!(cell(Value::Float64(f64::NEG_INFINITY)), r#"{"v":"-Infinity"}"#);
    }

    #[test]
    fn timestamps_have_three_forms() {
        let micros = -19_954_383_398_377_106;
        assert_eq!(timestamp(micros, TimestampFormat::Float), "-1.9954383398377106E10");
        assert_eq!(timestamp(micros, TimestampFormat::Int64), "-19954383398377106");
        assert_eq!(timestamp(micros, TimestampFormat::Iso8601), "1337-09-02T11:43:21.622894000000Z");
        assert_eq!(timestamp(0, TimestampFormat::Float), "0.0");
    }

    #[test]
    fn times_have_no_digits_or_six() {
        assert_eq!(cell(Value::Time(3_600_500_000)), r#"{"v":"01:00:00.500000"}"#);
        assert_eq!(cell(Value::DateTime(-1)), r#"{"v":"1969-12-31T23:59:59.999999"}"#);
        assert_eq!(cell(Value::DateTime(0)), r#"{"v":"1970-01-01T00:00:00"}"#);
    }

    #[test]
    fn nested_values() {
        let numbers = Value::array([Value::Int64(1), Value::Int64(2)]);
        let record = Value::record([Value::Bool(true), Value::Null, numbers]);
        assert_eq!(cell(record), r#"{"v":{"f":[{"v":"true"},{"v":null},{"v":[{"v":"1"},{"v":"2"}]}]}}"#);
        let range = Value::Range(Arc::new([Value::Date(0), Value::Null]));
        assert_eq!(cell(range), r#"{"v":"[1970-01-01, UNBOUNDED)"}"#);
        assert_eq!(cell(Value::Bytes([255, 0].as_slice().into())), r#"{"v":"/wA="}"#);
        assert_eq!(cell(Value::from("a\"b\n")), r#"{"v":"a\"b\n"}"#);
    }

    #[test]
    fn a_page_ends_at_its_bytes() {
        let rows = (0..100).map(|n| vec![Value::Int64(n)]);
        let (text, written) = page(rows.clone(), 1_000, 200, TimestampFormat::Float);
        assert!(text.len() <= 201 && written > 1 && written < 100, "{written}: {text}");
        assert_eq!(page(rows, 3, 1, TimestampFormat::Float).1, 1, "at least one row");
    }
}
