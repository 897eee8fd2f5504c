//! Cells of declared and of inferred columns: JSON of the column's type with every digit, or `null` and a warning.
#![no_main]

use acp_core::{Cell, fuzzing};
use acp_fuzz::{Fields, depth, is_json};
use acp_protocol::result::{ColumnType, Header};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;

const TYPES: [ColumnType; 7] = [
    ColumnType::String,
    ColumnType::Integer,
    ColumnType::Number,
    ColumnType::Boolean,
    ColumnType::Date,
    ColumnType::Datetime,
    ColumnType::Json,
];

// The first byte says which column, the rest is its cells with a bar between them.
fuzz_target!(|input: &[u8]| {
    let Some((choice, texts)) = input.split_first() else { return };
    let Ok(texts) = std::str::from_utf8(texts) else { return };
    let texts: Vec<&str> = texts.split('|').collect();
    match TYPES.get(usize::from(choice % 8)) {
        Some(column_type) => texts.into_iter().for_each(|text| declared(*column_type, text)),
        None => inferred(&texts),
    }
});

/// What a source gave: its text, and whether it is a value in JSON or a text of its own.
#[derive(Clone, Copy, Debug)]
struct Given<'a> {
    text: &'a str,
    json: bool,
}

impl Given<'_> {
    fn is_null(self) -> bool {
        self.json && self.text == "null"
    }

    /// The text that is meant; `None` where it can't be read.
    fn plain(self) -> Option<String> {
        match self.json && self.text.starts_with('"') {
            true => serde_json::from_str(self.text).ok(),
            false => Some(self.text.to_owned()),
        }
    }
}

fn declared(column_type: ColumnType, text: &str) {
    let given = Given { text, json: false };
    check_declared(column_type, given, Cell::Text(text));
    if is_json(text) && text.trim() == text {
        check_declared(column_type, Given { text, json: true }, Cell::Json(text));
    }
    if let Ok(number) = text.parse::<i64>() {
        let text = number.to_string();
        check_declared(column_type, Given { text: &text, json: true }, Cell::Integer(number));
    }
    if let Ok(number) = text.parse::<f64>() {
        let text = number.to_string();
        check_declared(column_type, Given { text: &text, json: number.is_finite() }, Cell::Number(number));
    }
    if let Ok(value) = text.parse::<bool>() {
        check_declared(column_type, Given { text, json: true }, Cell::Boolean(value));
    }
}

fn check_declared(column_type: ColumnType, given: Given<'_>, cell: Cell<'_>) {
    let header = Header { name: "c".to_owned(), column_type, role: None, description: None };
    let mut table = fuzzing::table(vec![header]).expect("one column");
    table.push(&[cell]).expect("one cell");
    let (headers, rows, warnings) = fuzzing::finish(table).expect("a table in memory");
    let rows = read(&rows);
    let [out] = rows.as_slice() else { panic!("{rows:?}") };
    let says = |what: &str| warnings.iter().any(|warning| warning.contains(what));
    assert_eq!(says("became null"), *out == "null" && !given.is_null(), "{given:?} {out}");
    match column_type {
        ColumnType::Integer => assert!(matches!(headers[0].column_type, ColumnType::Integer | ColumnType::Number)),
        _ => assert_eq!(headers[0].column_type, column_type),
    }
    check_value(headers[0].column_type, given, out);
    if matches!(column_type, ColumnType::Integer | ColumnType::Number) && *out != "null" {
        assert_eq!(says("more digits"), !fits_a_float(out), "{out}");
    }
    if matches!(cell, Cell::Text(_)) && column_type == ColumnType::String {
        assert_eq!(serde_json::from_str::<String>(out).expect("a text"), given.text);
    }
}

fn inferred(texts: &[&str]) {
    let mut table = fuzzing::object_table(Vec::new());
    let mut cells = Vec::new();
    for text in texts {
        if table.push(text).is_ok() {
            // An object of its own: what is in it is somebody else's row.
            assert!(text.trim_start().starts_with('{') && is_json(text), "{text}");
            return;
        }
        if is_json(text) {
            table.push(&format!("{{\"c\":{text}}}")).expect("a row");
            cells.push(Given { text: text.trim_matches([' ', '\t', '\r', '\n']), json: true });
        }
    }
    let table = table.into_table().expect("a table in memory");
    let (headers, rows, _) = fuzzing::finish(table).expect("a table in memory");
    let rows = read(&rows);
    assert_eq!((rows.len(), headers.len()), (cells.len(), usize::from(!cells.is_empty())));
    for (given, out) in cells.into_iter().zip(rows) {
        check_value(headers[0].column_type, given, &out);
        let readable = match given.text.as_bytes()[0] {
            b'{' | b'[' if headers[0].column_type == ColumnType::Json => {
                depth(given.text) <= 64 && serde_json::from_str::<Value>(given.text).is_ok()
            }
            b'-' | b'0'..=b'9' => Decimal::of(given.text).is_some_and(|decimal| decimal.is_finite()),
            _ => true,
        };
        assert!(out != "null" || given.is_null() || !readable, "{given:?}");
    }
}

/// The values of the only column, as they are written.
fn read(rows: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(rows).expect("text");
    serde_json::from_str::<Value>(text).expect("a strict reader takes it");
    assert!(!text.contains(['\n', '\r']));
    let rows: Vec<&RawValue> = serde_json::from_str(text).expect("a list");
    let value = |row: &RawValue| {
        let fields = Fields::of(row.get()).expect("an object").0;
        let [(name, value)] = fields.as_slice() else { panic!("{row}") };
        assert_eq!(name, "c");
        value.get().to_owned()
    };
    rows.into_iter().map(value).collect()
}

fn check_value(column_type: ColumnType, given: Given<'_>, out: &str) {
    let about = || format!("{given:?} as {column_type:?} became {out}");
    let value: Value = serde_json::from_str(out).expect("JSON");
    let plain = given.plain();
    let expected = plain.as_deref().unwrap_or_default();
    let null = value.is_null();
    match column_type {
        ColumnType::String => {
            assert!(value.is_string() || null, "{}", about());
            // Half of a surrogate pair becomes U+FFFD, so such texts are not compared.
            let surrogates = given.text.to_ascii_lowercase().contains("\\ud");
            if let Some(text) = value.as_str().filter(|_| given.json && plain.is_some() && !surrogates) {
                // Outside strings, line breaks are white space.
                let on_one_line =
                    if given.text.starts_with('"') { expected } else { &expected.replace(['\n', '\r'], " ") };
                assert_eq!(text, on_one_line);
            }
        }
        ColumnType::Integer | ColumnType::Number => {
            let decimal = Decimal::of(expected).filter(Decimal::is_finite);
            assert!(value.is_number() || null, "{}", about());
            assert_eq!(Decimal::of(out), decimal, "{}", about());
            let whole = out.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
            assert!(null || whole || column_type == ColumnType::Number, "{}", about());
        }
        ColumnType::Boolean => {
            let meant = ["true", "false"].iter().find(|word| expected.trim().eq_ignore_ascii_case(word));
            match meant {
                Some(word) => assert_eq!(out, *word, "{}", about()),
                None => assert!(null || expected.contains('"'), "{}", about()),
            }
        }
        ColumnType::Date => {
            let digits: String = expected.chars().filter(char::is_ascii_digit).collect();
            match value.as_str() {
                Some(text) => {
                    text.parse::<jiff::civil::Date>().expect("a day that exists");
                    assert_eq!((text.len(), text.replace('-', "")), (10, digits), "{}", about());
                }
                None => assert!(null && !(expected.len() == 10 && exists(expected)), "{}", about()),
            }
        }
        ColumnType::Datetime => match value.as_str() {
            Some(text) => check_datetime(text, expected),
            None => assert!(null && !(expected.len() == 10 && exists(expected)), "{}", about()),
        },
        ColumnType::Json => {
            let meant = plain.filter(|text| is_json(text) && text.trim_start().starts_with(['{', '[']));
            match meant.filter(|text| depth(text) <= 64).map(|text| serde_json::from_str::<Value>(&text)) {
                Some(Ok(meant)) => assert_eq!(value, meant, "{}", about()),
                Some(Err(error)) if error.to_string().starts_with("number out of range") => {
                    assert!(null, "{}", about())
                }
                // Half a pair of surrogates, which is replaced; what follows it was not read.
                Some(Err(_)) => assert!(null || value.is_object() || value.is_array(), "{}", about()),
                None => assert!(null, "{}", about()),
            }
        }
    }
}

/// Whether a text is a day, written with hyphens.
fn exists(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes[4] == b'-' && bytes[7] == b'-' && !text.starts_with("0000") && text.parse::<jiff::civil::Date>().is_ok()
}

fn check_datetime(text: &str, given: &str) {
    // More digits of a second than jiff reads are still digits.
    let (start, end) = text.split_at(text.len().min(19));
    let fraction: String = end.chars().take_while(|mark| matches!(mark, '.' | '0'..='9')).collect();
    let zone = &end[fraction.len()..];
    let short: String = fraction.chars().take(10).collect();
    let readable = format!("{start}{short}{zone}");
    jiff::fmt::temporal::Pieces::parse(&readable).unwrap_or_else(|error| panic!("{given:?} became {text}: {error}"));
    assert_eq!(text.as_bytes()[10], b'T');
    // Nothing in it but what was given, and zeros for what was not.
    let mut left = given.chars().filter(char::is_ascii_digit).peekable();
    for digit in text.chars().filter(char::is_ascii_digit) {
        assert!(left.next_if_eq(&digit).is_some() || digit == '0', "{given:?} became {text}");
    }
    assert_eq!(left.next(), None, "{given:?} became {text}");
}

/// A number as its digits, without zeros at both ends, and the power of ten of the last one.
#[derive(Debug, PartialEq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let power = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let numeric = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !numeric(&all) || !numeric(power) || power.len() > 4 {
            return None;
        }
        let trimmed = all.trim_end_matches('0');
        let digits = trimmed.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let exponent: i64 = exponent.trim_start_matches('+').parse().ok()?;
        let exponent = exponent - fraction.len() as i64 + (all.len() - trimmed.len()) as i64;
        Some(Self { negative: text.starts_with('-'), digits, exponent })
    }

    /// Whether readers with 64-bit floats have a number for it.
    fn is_finite(&self) -> bool {
        format!("{}e{}", if self.digits.is_empty() { "0" } else { &self.digits }, self.exponent)
            .parse::<f64>()
            .is_ok_and(f64::is_finite)
    }
}

/// Whether a reader with 64-bit floats gets a number's digits back: the fewest that tell it apart, or 17.
fn fits_a_float(text: &str) -> bool {
    let Some(decimal) = Decimal::of(text) else { return false };
    let float: f64 = text.parse().expect("a number");
    let printed = match decimal.digits.len() {
        count @ 1..=17 => format!("{float:.*e}", count - 1),
        _ => format!("{float:e}"),
    };
    Decimal::of(&printed) == Some(decimal)
}
