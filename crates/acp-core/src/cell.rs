//! One value of a table: from what a source sent to the JSON text of its column's type (8.6).
//!
//! Numbers are copied digit by digit and never pass through a float, so a 38-digit decimal arrives as it left.

use std::borrow::Cow;

use acp_protocol::result::ColumnType;

/// Levels of a value in a JSON column. Readers of a whole answer have bounds of their own, 127 levels often, and one
/// cell beyond them would make the answer unreadable.
const MAX_DEPTH: usize = 64;

/// A value as the source gave it. Texts are borrowed: a row can go from the network buffer to the table without
/// an allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A text; in a column of another type it is read as that type, since many APIs send every value as text.
    Text(&'a str),
    /// A whole number.
    Integer(i64),
    /// A number; NaN and infinities become `null`.
    Number(f64),
    /// A truth value.
    Boolean(bool),
    /// Any value as JSON text. It must be valid JSON.
    Json(&'a str),
}

/// What writing a cell came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The value, or a `null` that was `null` before.
    Value,
    /// A number with a fraction, in a column declared integer.
    Fraction {
        /// Whether a 64-bit float can't hold it exactly.
        inexact: bool,
    },
    /// A number that a 64-bit float can't hold exactly.
    Inexact,
    /// `null`, because the value is not of the column's type.
    NotOfType,
}

/// Appends the cell as JSON text of the column's type.
pub(crate) fn write(out: &mut Vec<u8>, column_type: ColumnType, cell: Cell<'_>) -> Written {
    let start = out.len();
    let written = match column_type {
        ColumnType::String => write_string(out, cell),
        ColumnType::Integer => write_number(out, cell, true),
        ColumnType::Number => write_number(out, cell, false),
        ColumnType::Boolean => write_boolean(out, cell),
        ColumnType::Date => write_text_as(out, cell, date),
        ColumnType::Datetime => write_text_as(out, cell, datetime),
        ColumnType::Json => write_json(out, cell),
    };
    written.unwrap_or_else(|| {
        out.truncate(start);
        out.extend_from_slice(b"null");
        Written::NotOfType
    })
}

fn null(out: &mut Vec<u8>) -> Option<Written> {
    out.extend_from_slice(b"null");
    Some(Written::Value)
}

/// Appends a text as a JSON string.
pub(crate) fn write_escaped(out: &mut Vec<u8>, text: &str) {
    // Writing into memory can't fail.
    let _ = serde_json::to_writer(&mut *out, text);
}

/// The text of a JSON string value, unescaped.
fn unescape(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

fn write_string(out: &mut Vec<u8>, cell: Cell<'_>) -> Option<Written> {
    match cell {
        Cell::Null | Cell::Json("null") => return null(out),
        Cell::Text(text) => write_escaped(out, text),
        Cell::Integer(number) => write_escaped(out, &number.to_string()),
        Cell::Number(number) if number.is_finite() => write_escaped(out, &number.to_string()),
        Cell::Number(_) => return None,
        Cell::Boolean(value) => write_escaped(out, if value { "true" } else { "false" }),
        Cell::Json(json) if json.starts_with('"') => out.extend_from_slice(whole_characters(json).as_bytes()),
        Cell::Json(json) => write_escaped(out, &compact(json)),
    }
    Some(Written::Value)
}

fn write_number(out: &mut Vec<u8>, cell: Cell<'_>, integer: bool) -> Option<Written> {
    match cell {
        Cell::Null | Cell::Json("null") => null(out),
        Cell::Text(text) => write_digits(out, text, integer),
        Cell::Integer(number) => write_digits(out, &number.to_string(), integer),
        Cell::Number(number) if number.is_finite() => write_digits(out, &number.to_string(), integer),
        Cell::Json(json) if json.starts_with('"') => write_digits(out, &unescape(json)?, integer),
        Cell::Json(json) => write_digits(out, json, integer),
        Cell::Number(_) | Cell::Boolean(_) => None,
    }
}

/// Copies a number in text form, made to fit JSON's grammar: no `+`, no leading zeros, a digit on both sides of the
/// point. A whole number written with a zero fraction (`3.0`) is written without it in an integer column.
fn write_digits(out: &mut Vec<u8>, text: &str, integer: bool) -> Option<Written> {
    let text = text.trim();
    // The usual case, a short whole number, needs no further look.
    let bytes = text.as_bytes();
    if (1..=15).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit) && (bytes[0] != b'0' || bytes.len() == 1)
    {
        out.extend_from_slice(bytes);
        return Some(Written::Value);
    }
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(unsigned) => (text.starts_with('-'), unsigned),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if digits.is_empty() || digits.len() > 4 || !all_digits(digits) {
            return None;
        }
    }
    let whole = whole.trim_start_matches('0');
    // Readers have bounds too, and one number beyond them would make the whole answer unreadable.
    let large = exponent.is_some() || whole.len() > f64::MAX_10_EXP as usize;
    if large && !unsigned.parse().is_ok_and(f64::is_finite) {
        return None;
    }
    if let Some(written_out) = exponent.filter(|_| integer).and_then(|exponent| write_out(whole, fraction, exponent)) {
        let sign = if negative { "-" } else { "" };
        return write_digits(out, &format!("{sign}{written_out}"), integer);
    }
    let has_fraction = fraction.bytes().any(|byte| byte != b'0');
    if negative && (!whole.is_empty() || has_fraction) {
        out.push(b'-');
    }
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole.as_bytes() });
    if !fraction.is_empty() && (has_fraction || !integer) {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
    if let Some(exponent) = exponent {
        out.push(b'e');
        out.extend_from_slice(exponent.as_bytes());
    }
    let long = exponent.is_some() || whole.len() + fraction.len() > 15;
    let inexact = long && !fits_a_float(unsigned, whole, fraction);
    Some(match inexact {
        _ if integer && (has_fraction || exponent.is_some()) => Written::Fraction { inexact },
        true => Written::Inexact,
        false => Written::Value,
    })
}

/// The digits of a number with an exponent, if it is whole.
fn write_out(whole: &str, fraction: &str, exponent: &str) -> Option<String> {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let length = usize::try_from(whole.len() as i64 + exponent.parse::<i64>().ok()?).ok()?;
    (digits.len() <= length).then(|| format!("{digits:0<length$}"))
}

/// Whether a reader that uses 64-bit floats gets the digits of a number back. For numbers inside JSON values; those of
/// columns are looked after by the table.
pub fn is_exact_as_float(number: &str) -> bool {
    let unsigned = number.trim_start_matches(['-', '+']);
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    unsigned.len() <= 15 || fits_a_float(unsigned, whole.trim_start_matches('0'), fraction)
}

/// Whether a reader that uses 64-bit floats gets these digits back.
fn fits_a_float(number: &str, whole: &str, fraction: &str) -> bool {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_matches('0');
    let Ok(value) = number.parse::<f64>() else { return false };
    // Some sources print floats with 17 digits where fewer would do. 17 tell every float apart.
    let printed = match digits.len() {
        0 => return true,
        count @ 1..=17 => format!("{value:.*e}", count - 1),
        _ => format!("{value:e}"),
    };
    let mantissa = printed.split('e').next().unwrap_or_default().replace('.', "");
    digits == mantissa.trim_end_matches('0')
}

fn write_boolean(out: &mut Vec<u8>, cell: Cell<'_>) -> Option<Written> {
    let value = match cell {
        Cell::Null | Cell::Json("null") => return null(out),
        Cell::Boolean(value) => value,
        Cell::Text(text) | Cell::Json(text) => {
            let text = text.trim().trim_matches('"');
            if text.eq_ignore_ascii_case("true") {
                true
            } else if text.eq_ignore_ascii_case("false") {
                false
            } else {
                return None;
            }
        }
        Cell::Integer(_) | Cell::Number(_) => return None,
    };
    out.extend_from_slice(if value { b"true" } else { b"false" });
    Some(Written::Value)
}

fn write_text_as(out: &mut Vec<u8>, cell: Cell<'_>, convert: fn(&str, &mut Vec<u8>) -> Option<()>) -> Option<Written> {
    let owned;
    let text = match cell {
        Cell::Null | Cell::Json("null") => return null(out),
        Cell::Text(text) => text,
        Cell::Json(json) if json.starts_with('"') => {
            owned = unescape(json)?;
            &owned
        }
        _ => return None,
    };
    out.push(b'"');
    convert(text, out)?;
    out.push(b'"');
    Some(Written::Value)
}

fn write_json(out: &mut Vec<u8>, cell: Cell<'_>) -> Option<Written> {
    let owned;
    let cell = match cell {
        Cell::Json(json) if json.starts_with('"') => {
            owned = unescape(json)?;
            Cell::Text(&owned)
        }
        cell => cell,
    };
    let json = match cell {
        Cell::Null | Cell::Json("null") => return null(out),
        Cell::Json(json) => json,
        Cell::Text(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => text,
        _ => return None,
    };
    let json = whole_characters(json);
    if !json.trim_start().starts_with(['{', '[']) || !is_readable(&json) {
        return None;
    }
    out.extend_from_slice(compact(&json).as_bytes());
    Some(Written::Value)
}

/// JSON text in which every `\u` escape is a character. Sources that cut texts leave half of a surrogate pair behind,
/// and one such half makes a whole answer unreadable; it becomes U+FFFD.
pub(crate) fn whole_characters(json: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(found) = json[at..].find('\\') {
        let escape = at + found;
        at = (escape + 2).min(json.len());
        let Some(first) = surrogate(json, escape) else {
            // A step over the escaped character, which need not be one byte long.
            while !json.is_char_boundary(at) {
                at += 1;
            }
            continue;
        };
        let second = surrogate(json, escape + 6);
        if first < 0xdc00 && second.is_some_and(|second| second >= 0xdc00) {
            at = escape + 12;
        } else {
            repaired.push_str(&json[done..escape]);
            repaired.push_str("\\ufffd");
            at = escape + 6;
            done = at;
        }
    }
    if done == 0 {
        return json.into();
    }
    repaired.push_str(&json[done..]);
    repaired.into()
}

/// The surrogate that is escaped at this place.
fn surrogate(json: &str, at: usize) -> Option<u32> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok().filter(|code| (0xd800..0xe000).contains(code))
}

/// Whether readers with the usual bounds can read a JSON text: how deep it is nested, how large its numbers are.
fn is_readable(json: &str) -> bool {
    let (mut depth, mut string, mut escaped, mut digits, mut large) = (0_usize, false, false, 0, false);
    for byte in json.bytes() {
        large |= digits > f64::MAX_10_EXP || (digits > 0 && matches!(byte, b'e' | b'E'));
        digits = if byte.is_ascii_digit() && !string { digits + 1 } else { 0 };
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            b'{' | b'[' if !string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return false;
                }
            }
            b'}' | b']' if !string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    // Such numbers are rare, so only then it is worth to read them.
    !large || serde_json::from_str::<serde_json::Value>(json).is_ok()
}

/// JSON text on one line: a raw line break in valid JSON is white space, and rows are told apart by line breaks.
fn compact(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json.into() }
}

/// `YYYY-MM-DD` or `YYYYMMDD` as `YYYY-MM-DD`, when that day exists.
fn date(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let bytes = text.as_bytes();
    let (year, month, day) = match bytes.len() {
        10 if bytes[4] == b'-' && bytes[7] == b'-' => (&bytes[..4], &bytes[5..7], &bytes[8..]),
        8 => (&bytes[..4], &bytes[4..6], &bytes[6..]),
        _ => return None,
    };
    if !day_exists(number(year)?, number(month)?, number(day)?) {
        return None;
    }
    for (place, part) in [year, month, day].into_iter().enumerate() {
        if place > 0 {
            out.push(b'-');
        }
        out.extend_from_slice(part);
    }
    Some(())
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0')))
}

fn day_exists(year: u32, month: u32, day: u32) -> bool {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    year > 0 && (1..=days).contains(&day)
}

/// ISO 8601 with a `T`: from `YYYY-MM-DD`, `YYYY-MM-DD[T ]HH:MM[:SS[.f]]` with `Z`, ` UTC`, an offset or nothing, and
/// from Analytics' `YYYYMMDDHH` and `YYYYMMDDHHMM`, which are local times and stay without a zone.
fn datetime(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let bytes = text.as_bytes();
    if bytes.iter().all(u8::is_ascii_digit) && matches!(bytes.len(), 10 | 12) {
        date(&text[..8], out)?;
        let minute = if bytes.len() == 12 { &bytes[10..] } else { b"00" };
        return clock(&bytes[8..10], minute, b"00", out);
    }
    date(text.get(..10)?, out)?;
    let Some(rest) = text.get(10..).filter(|rest| !rest.is_empty()) else {
        out.extend_from_slice(b"T00:00:00.000Z");
        return Some(());
    };
    let rest = rest.strip_prefix(['T', 't', ' '])?.as_bytes();
    if rest.len() < 5 || rest[2] != b':' {
        return None;
    }
    let (second, rest_at) = if rest.get(5) == Some(&b':') { (rest.get(6..8)?, 8) } else { (&b"00"[..], 5) };
    clock(&rest[..2], &rest[3..5], second, out)?;
    let mut tail = &rest[rest_at..];
    if let Some(fraction) = tail.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        out.extend_from_slice(&tail[..=digits]);
        tail = &fraction[digits..];
    }
    zone(std::str::from_utf8(tail).ok()?.trim(), out)
}

fn clock(hour: &[u8], minute: &[u8], second: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // 60 is a leap second.
    (number(hour)? < 24 && number(minute)? < 60 && number(second)? <= 60).then_some(())?;
    for (mark, part) in [(b'T', hour), (b':', minute), (b':', second)] {
        out.push(mark);
        out.extend_from_slice(part);
    }
    Some(())
}

fn zone(text: &str, out: &mut Vec<u8>) -> Option<()> {
    match text {
        "" => {}
        "Z" | "z" | "UTC" => out.push(b'Z'),
        offset => {
            let (sign, time) = offset.split_at_checked(1)?;
            let (hour, minute) = time.split_at_checked(2)?;
            let minute = if minute.is_empty() { "00" } else { minute.strip_prefix(':').unwrap_or(minute) };
            let valid = matches!(sign, "+" | "-")
                && minute.len() == 2
                && number(hour.as_bytes())? < 24
                && number(minute.as_bytes())? < 60;
            valid.then_some(())?;
            out.extend_from_slice(format!("{sign}{hour}:{minute}").as_bytes());
        }
    }
    Some(())
}

/// The type of an undeclared value, or of a column of them (8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inferred {
    /// Only `null` so far.
    Unknown,
    /// Values of one type.
    Known(ColumnType),
}

impl Inferred {
    /// The type of one JSON value.
    pub(crate) fn of(json: &str) -> Self {
        let known = match json.as_bytes().first() {
            Some(b'n') | None => return Self::Unknown,
            Some(b't' | b'f') => ColumnType::Boolean,
            Some(b'{' | b'[') => ColumnType::Json,
            Some(b'"') => match unescape(json) {
                Some(text) => text_type(&text),
                None => ColumnType::String,
            },
            Some(_) => match write_digits(&mut Vec::new(), json, true) {
                Some(Written::Fraction { .. }) | None => ColumnType::Number,
                Some(_) => ColumnType::Integer,
            },
        };
        Self::Known(known)
    }

    /// The type that holds both: equal types stay, integer and number make number, date and datetime make datetime,
    /// anything else makes string.
    pub(crate) fn and(self, other: Self) -> Self {
        use ColumnType::{Date, Datetime, Integer, Number, String};
        match (self, other) {
            (Self::Unknown, known) | (known, Self::Unknown) => known,
            (Self::Known(one), Self::Known(two)) => Self::Known(match (one, two) {
                _ if one == two => one,
                (Integer | Number, Integer | Number) => Number,
                (Date | Datetime, Date | Datetime) => Datetime,
                _ => String,
            }),
        }
    }

    /// The column's type; a column without values is text.
    pub(crate) fn column_type(self) -> ColumnType {
        match self {
            Self::Unknown => ColumnType::String,
            Self::Known(known) => known,
        }
    }
}

fn text_type(text: &str) -> ColumnType {
    let mut scratch = Vec::new();
    if text.len() == 10 && text.as_bytes()[4] == b'-' && date(text, &mut scratch).is_some() {
        ColumnType::Date
    } else if text.len() > 10 && text.as_bytes().get(4) == Some(&b'-') && datetime(text, &mut scratch).is_some() {
        ColumnType::Datetime
    } else {
        ColumnType::String
    }
}

#[cfg(test)]
mod tests {
    use ColumnType::{Boolean, Date, Datetime, Integer, Json, Number, String as Text};
    use proptest::prelude::*;

    use super::*;

    fn written(column_type: ColumnType, cell: Cell<'_>) -> (String, Written) {
        let mut out = Vec::new();
        let outcome = write(&mut out, column_type, cell);
        let text = String::from_utf8(out).unwrap();
        serde_json::from_str::<serde::de::IgnoredAny>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (text, outcome)
    }

    #[test]
    fn texts_become_the_declared_type() {
        for (column_type, text, expected) in [
            (Integer, "1830", "1830"),
            (Integer, "-0", "0"),
            (Integer, "+7", "7"),
            (Integer, "007", "7"),
            (Integer, "3.000", "3"),
            (Integer, "1.8E3", "1800"),
            (Integer, "-12000e-3", "-12"),
            (Integer, ".5e1", "5"),
            (Integer, "1e20", "100000000000000000000"),
            (Integer, "0e9", "0"),
            (Integer, "-0.0e-9", "0"),
            (Number, "0.0421", "0.0421"),
            (Number, "3.10", "3.10"),
            (Number, ".5", "0.5"),
            (Number, "5.", "5"),
            (Number, "1e-7", "1e-7"),
            (Number, ".5e3", "0.5e3"),
            (Number, "+007.E+2", "7e+2"),
            (Number, "-0.5", "-0.5"),
            (Boolean, "TRUE", "true"),
            (Date, "20260901", "\"2026-09-01\""),
            (Date, "2024-02-29", "\"2024-02-29\""),
            (Datetime, "2026-09-01", "\"2026-09-01T00:00:00.000Z\""),
            (Datetime, "2026-09-01 10:15:00 UTC", "\"2026-09-01T10:15:00Z\""),
            (Datetime, "2026-09-01T10:15:00.123456+02", "\"2026-09-01T10:15:00.123456+02:00\""),
            (Datetime, "2026-09-01 10:15 -0530", "\"2026-09-01T10:15:00-05:30\""),
            (Datetime, "2026-09-01T10:15+05:45", "\"2026-09-01T10:15:00+05:45\""),
            (Datetime, "2026090110", "\"2026-09-01T10:00:00\""),
            (Datetime, "202609011059", "\"2026-09-01T10:59:00\""),
            (Json, "{\"a\":\n1}", "{\"a\": 1}"),
            (Json, "[1e300,\"1e400\",true]", "[1e300,\"1e400\",true]"),
            (Text, "a\"b\n", "\"a\\\"b\\n\""),
        ] {
            assert_eq!(written(column_type, Cell::Text(text)), (expected.to_owned(), Written::Value), "{text}");
        }
    }

    #[test]
    fn what_is_not_of_the_type_becomes_null_and_is_said() {
        for (column_type, text) in [
            (Integer, "abc"),
            (Integer, ""),
            (Integer, "1,5"),
            (Integer, "--1"),
            (Integer, "."),
            (Number, "NaN"),
            (Number, "Infinity"),
            (Number, "1e99999"),
            (Number, "1e309"),
            (Integer, "1e309"),
            (Number, "1e"),
            (Boolean, "1"),
            (Date, "(other)"),
            (Date, "2026-02-30"),
            (Date, "20261301"),
            (Date, "0000-01-01"),
            (Date, "2026-9-01"),
            (Datetime, "2026-09-01T25:00"),
            (Datetime, "2026-09-01 10"),
            (Datetime, "2026-09-01T10:00:00."),
            (Datetime, "2026-09-01T10:00:00+99"),
            (Datetime, "2026-09-01T10:00:00+02:60"),
            (Datetime, "2026-09-01T10:00:00+0262"),
            (Datetime, "2026-09-01T10:00:00+:0:2"),
            (Datetime, "2026-09-01T10:00:00+02:"),
            (Datetime, "2026-09-01T10:00:00+é1"),
            (Datetime, "(other)00000"),
            (Datetime, "éééééééééé"),
            (Json, "text"),
            (Json, "3"),
            (Json, "[1e400]"),
            (Json, "{\"a\":[0,-1E+999]}"),
            (Json, &format!("[{}]", "9".repeat(310))),
        ] {
            assert_eq!(written(column_type, Cell::Text(text)), ("null".to_owned(), Written::NotOfType), "{text}");
        }
        assert_eq!(written(Number, Cell::Number(f64::NAN)).1, Written::NotOfType);
        assert_eq!(written(Integer, Cell::Boolean(true)).1, Written::NotOfType);
    }

    #[test]
    fn every_digit_arrives() {
        let long = "12345678901234567890.123456789012345678";
        assert_eq!(written(Number, Cell::Text(long)), (long.to_owned(), Written::Inexact));
        assert_eq!(written(Integer, Cell::Text("9007199254740993")), ("9007199254740993".into(), Written::Inexact));
        assert_eq!(written(Integer, Cell::Text("9007199254740992")), ("9007199254740992".into(), Written::Value));
        for float in
            ["0.47857142857142859", "30467.880000000001", "0.1", "0.10000000000000000", "100000000000000000000"]
        {
            assert_eq!(written(Number, Cell::Text(float)), (float.to_owned(), Written::Value));
        }
        assert_eq!(written(Number, Cell::Json("1e400")).1, Written::NotOfType);
        assert_eq!(written(Integer, Cell::Text(&"9".repeat(308))).1, Written::Inexact);
        assert_eq!(written(Integer, Cell::Text(&"9".repeat(310))).1, Written::NotOfType);
        let close_to_whole = "1000000000000000.0000001e0";
        let fraction = Written::Fraction { inexact: true };
        assert_eq!(written(Integer, Cell::Text(close_to_whole)), (close_to_whole.to_owned(), fraction));
        assert_eq!(written(Integer, Cell::Text("0.12345678901234567890")).1, fraction);
        for inexact in [".12345678901234567890e5", "1.2345678901234567890123e-5", "1e-400"] {
            let (out, outcome) = written(Number, Cell::Text(inexact));
            assert_eq!((out.trim_start_matches('0'), outcome), (inexact.trim_start_matches('0'), Written::Inexact));
        }
        // However a number comes, it is held exactly or not.
        for (number, outcome) in [
            (9_007_199_254_740_993, Written::Inexact),
            (1_000_000_000_000_000_000, Written::Value),
            (i64::MIN, Written::Inexact),
        ] {
            assert_eq!(written(Integer, Cell::Integer(number)), (number.to_string(), outcome));
            assert_eq!(written(Integer, Cell::Text(&number.to_string())), (number.to_string(), outcome));
        }
        assert_eq!(written(Integer, Cell::Text("6346.26")), ("6346.26".into(), Written::Fraction { inexact: false }));
        assert_eq!(written(Text, Cell::Json("99999999999999999999")).0, "\"99999999999999999999\"");
    }

    #[test]
    fn half_a_surrogate_pair_becomes_the_replacement_character() {
        for (json, expected) in [
            (r#""x\ud83dy""#, r#""x\ufffdy""#),
            (r#""\udc00""#, r#""\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00\ud83d""#, r#""\ufffd\ud83d\ude00\ufffd""#),
            (r#""\\ud83d \" é\u00e9""#, r#""\\ud83d \" é\u00e9""#),
            (r#"{"a\udead":["\uDABC"]}"#, r#"{"a\ufffd":["\ufffd"]}"#),
        ] {
            assert_eq!(whole_characters(json), expected);
            serde_json::from_str::<serde_json::Value>(&whole_characters(json)).unwrap();
        }
    }

    #[test]
    fn undeclared_columns_take_the_type_that_holds_every_value() {
        let infer = |values: &[&str]| {
            values.iter().map(|value| Inferred::of(value)).fold(Inferred::Unknown, Inferred::and).column_type()
        };
        for (values, expected) in [
            (&["1", "2.5"][..], Number),
            (&["3.0"], Integer),
            (&["true", "false"], Boolean),
            (&["\"2026-09-01\""], Date),
            (&["\"2026-09-01\"", "\"2026-09-01T10:15:00Z\""], Datetime),
            (&["1", "\"x\""], Text),
            (&["true", "1"], Text),
            (&["{}", "[1]"], Json),
            (&["{}", "\"x\""], Text),
            (&["null"], Text),
            (&["null", "1"], Integer),
            (&["\"20260901\""], Text),
            (&["\"12\""], Text),
            (&["\"2026-02-30\""], Text),
            (&["1", "null", "true", "2"], Text),
        ] {
            assert_eq!(infer(values), expected, "{values:?}");
        }
    }

    /// A number as its sign, its digits and the power of ten of the last one.
    fn value(text: &str) -> (bool, String, i64) {
        let unsigned = text.trim_start_matches('-');
        let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let exponent = exponent.parse::<i64>().unwrap() - fraction.len() as i64 + (all.len() - digits.len()) as i64;
        match digits.trim_start_matches('0') {
            "" => (false, String::new(), 0),
            digits => (text.starts_with('-'), digits.to_owned(), exponent),
        }
    }

    proptest! {
        /// Whatever arrives, the cell is valid JSON on one line.
        #[test]
        fn any_text_in_any_column_is_json_on_one_line(text in any::<String>(), kind in 0..7_usize) {
            let column_type = [Text, Integer, Number, Boolean, Date, Datetime, Json][kind];
            let (out, _) = written(column_type, Cell::Text(&text));
            prop_assert!(!out.contains(['\n', '\r']));
        }

        #[test]
        fn decimals_keep_their_value(whole in "[0-9]{1,20}", fraction in "[0-9]{0,20}") {
            let text = if fraction.is_empty() { whole.clone() } else { format!("{whole}.{fraction}") };
            let (out, _) = written(Number, Cell::Text(&text));
            let trimmed = text.trim_start_matches('0');
            prop_assert_eq!(out.trim_start_matches('0'), trimmed);
        }

        #[test]
        fn exponents_move_the_point_and_nothing_else(
            negative: bool,
            whole in "[0-9]{0,20}",
            fraction in "[0-9]{1,20}",
            exponent in -30..30_i32,
            integer: bool,
        ) {
            let sign = if negative { "-" } else { "" };
            let text = format!("{sign}{whole}.{fraction}e{exponent}");
            let (out, outcome) = written(if integer { Integer } else { Number }, Cell::Text(&text));
            prop_assert_eq!(value(&out), value(&text));
            let plain = out.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
            let has_fraction = matches!(outcome, Written::Fraction { .. });
            prop_assert!(!integer || plain != has_fraction);
        }
    }
}
