//! From BigQuery's rows to typed tables: which column has which type, and how a value travels.
//!
//! Values arrive as texts, nested as `{"f": [{"v": …}]}` (REST reference, "Query results"). Numbers keep every digit.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

use acp_core::{Call, Cell, Error, Result, TableWriter};
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use google_cloud_bigquery_v2::model::TableFieldSchema;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

/// How a value of a field is written.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// As it comes: text, and whatever has no type of its own in a table.
    Text,
    /// Digits, of any number.
    Number,
    /// Digits, or one of three words for what is no number.
    Float,
    Boolean,
    Timestamp,
    /// Text that is JSON.
    Json,
    /// `[start, end)`.
    Range {
        timestamps: bool,
    },
    Record(Vec<Field>),
}

/// A field of a schema.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    /// Its name, unique among its siblings.
    name: String,
    kind: Kind,
    repeated: bool,
}

/// The columns of a result, and what was found in them that the model should know.
#[derive(Debug)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    headers: Vec<Header>,
    notes: Vec<Notes>,
}

#[derive(Clone, Debug, Default)]
struct Notes {
    /// NaN and infinities.
    not_finite: u64,
    /// JSON texts that are neither an object nor an array.
    scalars: u64,
    /// Numbers inside records that a 64-bit float can't hold.
    inexact: bool,
}

/// A value, still in its place in the page if it could be left there.
enum Value<'a> {
    Null,
    Text(Cow<'a, str>),
    Json(String),
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    f: Vec<Slot<'a>>,
}

#[derive(Deserialize)]
struct Slot<'a> {
    #[serde(borrow)]
    v: Option<&'a RawValue>,
}

impl Columns {
    /// The columns of a schema. Types are fixed here, before the first row.
    pub(crate) fn of(schema: &[TableFieldSchema], call: &Call) -> Self {
        let mut unknown = Vec::new();
        let fields = fields(schema, &mut unknown);
        if !unknown.is_empty() {
            call.warn(format!("Columns of types that this version does not know are texts: {}.", unknown.join(", ")));
        }
        let headers = fields.iter().zip(schema).map(|(field, schema)| header(field, schema)).collect();
        Self { notes: vec![Notes::default(); fields.len()], fields, headers }
    }

    pub(crate) fn headers(&self) -> Vec<Header> {
        self.headers.clone()
    }

    /// Adds a row, as the bytes of the answer have it.
    pub(crate) fn push(&mut self, row: &[u8], table: &mut TableWriter) -> Result<()> {
        let row: Row<'_> = serde_json::from_slice(row).map_err(|_| unreadable())?;
        if row.f.len() != self.fields.len() {
            return Err(unreadable());
        }
        let mut values = Vec::with_capacity(row.f.len());
        for ((slot, field), notes) in row.f.iter().zip(&self.fields).zip(&mut self.notes) {
            values.push(value(field, slot.v, notes)?);
        }
        let cells: Vec<Cell<'_>> = values.iter().map(Value::cell).collect();
        table.push(&cells)
    }

    /// Says what was found.
    pub(crate) fn report(&self, call: &Call) {
        for (header, notes) in self.headers.iter().zip(&self.notes) {
            let name = &header.name;
            if notes.not_finite > 0 {
                call.warn(format!(
                    "Column {name}: {} value(s) are NaN or infinite, which JSON has no form for; they are null.",
                    notes.not_finite
                ));
            }
            if notes.scalars > 0 {
                call.warn(format!(
                    "Column {name}: {} JSON value(s) are no object and no array, and became null. Select TO_JSON_STRING({name}) to get them as texts.",
                    notes.scalars
                ));
            }
            if notes.inexact {
                call.warn(format!(
                    "Column {name} has numbers with more digits than a 64-bit float holds inside its records; they are delivered exactly. CAST identifiers AS STRING."
                ));
            }
        }
    }
}

impl Value<'_> {
    fn cell(&self) -> Cell<'_> {
        match self {
            Self::Null => Cell::Null,
            Self::Text(text) => Cell::Text(text),
            Self::Json(json) => Cell::Json(json),
        }
    }
}

fn unreadable() -> Error {
    Error::upstream(
        "A row of BigQuery's answer does not have the form of its schema. Run the query again; if it happens again, update the connector.",
    )
}

fn fields(schema: &[TableFieldSchema], unknown: &mut Vec<String>) -> Vec<Field> {
    let mut taken: HashSet<String> = HashSet::new();
    let mut fields = Vec::with_capacity(schema.len());
    for (index, field) in schema.iter().enumerate() {
        // Structs may have fields without a name, and names twice.
        let stem = if field.name.is_empty() { format!("f{index}_") } else { field.name.clone() };
        let mut name = stem.clone();
        let mut copy = 0;
        while !taken.insert(name.clone()) {
            copy += 1;
            name = format!("{stem}_{copy}");
        }
        let kind = match field.r#type.as_str() {
            "STRING" | "BYTES" | "DATE" | "DATETIME" | "TIME" | "GEOGRAPHY" | "INTERVAL" => Kind::Text,
            "INTEGER" | "INT64" | "NUMERIC" | "BIGNUMERIC" => Kind::Number,
            "FLOAT" | "FLOAT64" => Kind::Float,
            "BOOLEAN" | "BOOL" => Kind::Boolean,
            "TIMESTAMP" => Kind::Timestamp,
            "JSON" => Kind::Json,
            "RANGE" => {
                let element = field.range_element_type.as_ref().map_or("", |element| element.r#type.as_str());
                Kind::Range { timestamps: element == "TIMESTAMP" }
            }
            "RECORD" | "STRUCT" => Kind::Record(self::fields(&field.fields, unknown)),
            other => {
                unknown.push(format!("{name} ({other})"));
                Kind::Text
            }
        };
        fields.push(Field { name, kind, repeated: field.mode == "REPEATED" });
    }
    fields
}

fn header(field: &Field, schema: &TableFieldSchema) -> Header {
    let source = schema.r#type.as_str();
    let column_type = match (&field.kind, source) {
        _ if field.repeated => ColumnType::Json,
        (Kind::Record(_) | Kind::Json | Kind::Range { .. }, _) => ColumnType::Json,
        (_, "INTEGER" | "INT64") => ColumnType::Integer,
        (Kind::Number | Kind::Float, _) => ColumnType::Number,
        (Kind::Boolean, _) => ColumnType::Boolean,
        (_, "DATE") => ColumnType::Date,
        (_, "DATETIME" | "TIMESTAMP") => ColumnType::Datetime,
        _ => ColumnType::String,
    };
    let role = match column_type {
        ColumnType::Json => ColumnRole::Attribute,
        ColumnType::Integer | ColumnType::Number => ColumnRole::Metric,
        _ => ColumnRole::Dimension,
    };
    Header { name: field.name.clone(), column_type, role: Some(role), description: Some(description(field, schema)) }
}

/// What the type was in BigQuery, as far as the table's own type does not say it, and what is written about the column.
fn description(field: &Field, schema: &TableFieldSchema) -> String {
    let mut text = match schema.r#type.as_str() {
        "INTEGER" => "INT64".to_owned(),
        "FLOAT" => "FLOAT64".to_owned(),
        "BOOLEAN" => "BOOL".to_owned(),
        "RECORD" => "STRUCT".to_owned(),
        "BYTES" => "BYTES, base64".to_owned(),
        "DATETIME" => "DATETIME, without a time zone".to_owned(),
        "TIMESTAMP" => "TIMESTAMP, UTC".to_owned(),
        "GEOGRAPHY" => "GEOGRAPHY, well-known text".to_owned(),
        other => other.to_owned(),
    };
    if field.repeated {
        text = format!("ARRAY of {text}");
    }
    if let Some(about) = schema.description.as_deref().map(str::trim).filter(|about| !about.is_empty()) {
        text.push_str(": ");
        text.extend(about.chars().filter(|mark| !mark.is_control()).take(200));
    }
    text
}

/// What a JSON string says; borrowed where it has no escapes.
fn text(raw: &RawValue) -> Result<Cow<'_, str>> {
    let json = raw.get();
    match json.strip_prefix('"').and_then(|json| json.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Ok(plain.into()),
        Some(_) => serde_json::from_str(json).map(Cow::Owned).map_err(|_| unreadable()),
        // Some servers write numbers and truth values without quotes.
        None if !json.starts_with(['{', '[']) => Ok(json.into()),
        None => Err(unreadable()),
    }
}

fn value<'a>(field: &Field, raw: Option<&'a RawValue>, notes: &mut Notes) -> Result<Value<'a>> {
    if field.repeated || matches!(field.kind, Kind::Record(_)) {
        let Some(raw) = raw else {
            return Ok(if field.repeated { Value::Json("[]".to_owned()) } else { Value::Null });
        };
        let mut json = String::new();
        nested(&mut json, field, Some(raw), notes)?;
        return Ok(Value::Json(json));
    }
    let Some(raw) = raw else { return Ok(Value::Null) };
    let text = text(raw)?;
    Ok(match &field.kind {
        Kind::Float if is_not_finite(&text) => {
            notes.not_finite += 1;
            Value::Null
        }
        Kind::Boolean => Value::Text(truth(text)),
        Kind::Timestamp => Value::Text(timestamp(text)),
        Kind::Json if is_scalar(&text) => {
            notes.scalars += u64::from(text.trim() != "null");
            Value::Null
        }
        Kind::Json => Value::Json(text.into_owned()),
        Kind::Range { timestamps } => match range(&text, *timestamps) {
            Some(json) => Value::Json(json),
            None => return Err(unreadable()),
        },
        _ => Value::Text(text),
    })
}

/// Appends a value as JSON text.
fn nested(out: &mut String, field: &Field, raw: Option<&RawValue>, notes: &mut Notes) -> Result<()> {
    if !field.repeated {
        return one(out, field, raw, notes);
    }
    // BigQuery does not tell an array that is NULL from one that is empty.
    let slots: Vec<Slot<'_>> = match raw {
        Some(raw) => serde_json::from_str(raw.get()).map_err(|_| unreadable())?,
        None => Vec::new(),
    };
    out.push('[');
    for (index, slot) in slots.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        one(out, field, slot.v, notes)?;
    }
    out.push(']');
    Ok(())
}

/// Appends a single value, or an element of an array.
fn one(out: &mut String, field: &Field, raw: Option<&RawValue>, notes: &mut Notes) -> Result<()> {
    let Some(raw) = raw else {
        out.push_str("null");
        return Ok(());
    };
    if let Kind::Record(fields) = &field.kind {
        let row: Row<'_> = serde_json::from_str(raw.get()).map_err(|_| unreadable())?;
        if row.f.len() != fields.len() {
            return Err(unreadable());
        }
        out.push('{');
        for (index, (slot, field)) in row.f.iter().zip(fields).enumerate() {
            if index > 0 {
                out.push(',');
            }
            quoted(out, &field.name);
            out.push(':');
            nested(out, field, slot.v, notes)?;
        }
        out.push('}');
        return Ok(());
    }
    let text = text(raw)?;
    match &field.kind {
        Kind::Float if is_not_finite(&text) => {
            notes.not_finite += 1;
            out.push_str("null");
        }
        Kind::Number | Kind::Float => number(out, &text, notes)?,
        Kind::Boolean => out.push_str(&truth(text)),
        Kind::Timestamp => quoted(out, &timestamp(text)),
        Kind::Json => match serde_json::from_str::<&RawValue>(&text) {
            Ok(json) => out.push_str(json.get()),
            Err(_) => return Err(unreadable()),
        },
        Kind::Range { timestamps } => out.push_str(&range(&text, *timestamps).ok_or_else(unreadable)?),
        _ => quoted(out, &text),
    }
    Ok(())
}

fn number(out: &mut String, text: &str, notes: &mut Notes) -> Result<()> {
    // The text is a number of JSON's grammar, or it is no number.
    serde_json::from_str::<serde_json::Number>(text).map_err(|_| unreadable())?;
    notes.inexact |= !acp_core::is_exact_as_float(text);
    out.push_str(text);
    Ok(())
}

fn quoted(out: &mut String, text: &str) {
    // Writing a text as JSON can't fail.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

fn is_not_finite(text: &str) -> bool {
    ["NaN", "Infinity", "-Infinity", "Inf", "-Inf"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn is_scalar(json: &str) -> bool {
    !json.trim_start().starts_with(['{', '['])
}

fn truth(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.as_ref() {
        "true" | "false" => text,
        other if ["t", "true", "1"].iter().any(|word| other.eq_ignore_ascii_case(word)) => "true".into(),
        other if ["f", "false", "0"].iter().any(|word| other.eq_ignore_ascii_case(word)) => "false".into(),
        _ => text,
    }
}

/// A moment in ISO 8601. BigQuery is asked for that form; answers in the older ones, seconds with a fraction and whole
/// microseconds, are converted without passing through a float. Digits below a microsecond are there only where the column
/// has them.
fn timestamp(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.as_bytes().get(4) == Some(&b'-') {
        let Some((seconds, fraction)) = text.split_once('.') else { return text };
        let digits = fraction.trim_end_matches(|mark: char| !mark.is_ascii_digit());
        return match digits.len() > 6 && digits[6..].bytes().all(|digit| digit == b'0') {
            true => format!("{seconds}.{}{}", &digits[..6], &fraction[digits.len()..]).into(),
            false => text,
        };
    }
    match moment(&text) {
        Some(moment) => format!("{moment:.6}").into(),
        None => text,
    }
}

fn moment(text: &str) -> Option<Timestamp> {
    let micros = match text.contains(['.', 'e', 'E']) {
        false => text.parse::<i64>().ok()?,
        true => {
            let (mantissa, exponent) = match text.split_once(['e', 'E']) {
                Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
                None => (text, 0),
            };
            let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
            let shift = exponent + 6 - i32::try_from(fraction.len()).ok()?;
            let power = 10_i128.checked_pow(shift.unsigned_abs())?;
            let micros = if shift >= 0 { digits.checked_mul(power)? } else { digits / power };
            i64::try_from(micros).ok()?
        }
    };
    Timestamp::from_microsecond(micros).ok()
}

/// `[2026-09-01, UNBOUNDED)` as `{"start": …, "end": null}`.
fn range(text: &str, timestamps: bool) -> Option<String> {
    let (start, end) = text.trim().strip_prefix('[')?.strip_suffix(')')?.split_once(',')?;
    let bound = |text: &str| {
        let text = text.trim();
        match text {
            "UNBOUNDED" | "NULL" => "null".to_owned(),
            text => {
                let text = if timestamps { timestamp(text.into()) } else { text.into() };
                serde_json::to_string(&text).unwrap_or_default()
            }
        }
    };
    let mut json = String::new();
    write!(json, "{{\"start\":{},\"end\":{}}}", bound(start), bound(end)).ok()?;
    Some(json)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(json: serde_json::Value) -> Vec<TableFieldSchema> {
        serde_json::from_value(json).unwrap()
    }

    /// A value of one field, as JSON text.
    fn read(field: serde_json::Value, value: serde_json::Value) -> (String, Notes) {
        let fields = fields(&schema(json!([field])), &mut Vec::new());
        let raw = serde_json::value::to_raw_value(&value).unwrap();
        let mut notes = Notes::default();
        let raw = Some(&*raw).filter(|raw| raw.get() != "null");
        let read = match super::value(&fields[0], raw, &mut notes).unwrap() {
            Value::Null => "null".to_owned(),
            Value::Text(text) => text.into_owned(),
            Value::Json(json) => json,
        };
        (read, notes)
    }

    #[test]
    fn nested_values_keep_digits_names_and_order() {
        let record = json!({"name": "r", "type": "RECORD", "mode": "REPEATED", "fields": [
            {"name": "a", "type": "INTEGER"},
            {"name": "a", "type": "BIGNUMERIC"},
            {"name": "", "type": "STRING"},
            {"name": "t", "type": "TIMESTAMP", "mode": "REPEATED"},
            {"name": "j", "type": "JSON"},
            {"name": "g", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
            {"name": "x", "type": "FLOAT"},
        ]});
        let row = json!([{"v": {"f": [
            {"v": "9007199254740993"}, {"v": "0.10"}, {"v": "é\"\n"}, {"v": [{"v": "2026-09-01T00:00:00.000001Z"}]},
            {"v": "{\"a\": 1}"}, {"v": "[2026-09-01, UNBOUNDED)"}, {"v": "NaN"},
        ]}}]);
        let (json, notes) = read(record, row);
        assert_eq!(
            json,
            r#"[{"a":9007199254740993,"a_1":0.10,"f2_":"é\"\n","t":["2026-09-01T00:00:00.000001Z"],"j":{"a": 1},"g":{"start":"2026-09-01","end":null},"x":null}]"#
        );
        assert!(notes.inexact && notes.not_finite == 1);
    }

    #[test]
    fn arrays_are_never_null_and_records_may_be() {
        let array = json!({"name": "a", "type": "STRING", "mode": "REPEATED"});
        assert_eq!(read(array.clone(), json!(null)).0, "[]");
        assert_eq!(read(array, json!([])).0, "[]");
        assert_eq!(read(json!({"name": "r", "type": "RECORD", "fields": []}), json!(null)).0, "null");
    }

    #[test]
    fn older_forms_of_moments_are_converted_exactly() {
        let field = || json!({"name": "t", "type": "TIMESTAMP"});
        for (text, moment) in [
            ("2026-09-01T12:00:00.123456Z", "2026-09-01T12:00:00.123456Z"),
            ("2026-09-01T12:00:00.123456000000Z", "2026-09-01T12:00:00.123456Z"),
            ("2026-09-01T12:00:00.123456000001Z", "2026-09-01T12:00:00.123456000001Z"),
            ("2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z"),
            ("1788264000.123457", "2026-09-01T12:00:00.123457Z"),
            ("1.788264000123457E9", "2026-09-01T12:00:00.123457Z"),
            ("1788264000123457", "2026-09-01T12:00:00.123457Z"),
            ("-1.0", "1969-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(read(field(), json!(text)).0, moment, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_null_and_counted() {
        for word in ["NaN", "Infinity", "-Infinity"] {
            let (text, notes) = read(json!({"name": "x", "type": "FLOAT"}), json!(word));
            assert_eq!((text.as_str(), notes.not_finite), ("null", 1));
        }
        let (text, notes) = read(json!({"name": "j", "type": "JSON"}), json!("5"));
        assert_eq!((text.as_str(), notes.scalars), ("null", 1));
        let (text, notes) = read(json!({"name": "j", "type": "JSON"}), json!("null"));
        assert_eq!((text.as_str(), notes.scalars), ("null", 0));
    }
}
