//! Every type in every mode, as the REST API has it and as the connector delivers it, compared digit by digit. What a cell must
//! be is worked out here from Google's own answer in another form than the connector asks for: moments as microseconds.

use indexmap::IndexMap;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::bench::{Answer, Bq, Google, PLENTY};

/// A row as it stands in a file: each cell with all its digits.
type Row = IndexMap<String, Box<RawValue>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Field {
    name: String,
    r#type: String,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    fields: Vec<Self>,
    range_element_type: Option<Element>,
}

#[derive(Deserialize)]
struct Element {
    r#type: String,
}

/// The schema and the rows of a table, from tables.get and tabledata.list.
fn truth(google: &Google, table: &str) -> (Vec<Field>, Vec<Value>) {
    let path = format!("/bigquery/v2/projects/acp-sandbox/datasets/warehouse/tables/{table}");
    let about: Value = serde_json::from_str(&google.ask("GET", &path, "")).expect("a table");
    let fields = serde_json::from_value(about["schema"]["fields"].clone()).expect("fields");
    let data: Value =
        serde_json::from_str(&google.ask("GET", &format!("{path}/data?formatOptions.useInt64Timestamp=true"), ""))
            .expect("rows");
    assert!(data["pageToken"].is_null(), "one page has them all");
    (fields, data["rows"].as_array().expect("rows").clone())
}

/// What a cell must be, as JSON text.
fn expected(field: &Field, value: &Value, nested: bool) -> String {
    if field.mode == "REPEATED" {
        let items = value.as_array().map_or(&[][..], Vec::as_slice);
        let items: Vec<String> = items.iter().map(|item| single(field, &item["v"], true)).collect();
        return format!("[{}]", items.join(","));
    }
    single(field, value, nested)
}

fn single(field: &Field, value: &Value, nested: bool) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    if field.r#type == "RECORD" {
        let cells = value["f"].as_array().expect("fields of a record");
        assert_eq!(cells.len(), field.fields.len());
        let parts = cells
            .iter()
            .zip(&field.fields)
            .map(|(cell, field)| format!("{}:{}", json!(field.name), expected(field, &cell["v"], true)));
        return format!("{{{}}}", parts.collect::<Vec<_>>().join(","));
    }
    let text = value.as_str().unwrap_or_else(|| panic!("{}: {value}", field.name));
    match field.r#type.as_str() {
        "INTEGER" | "NUMERIC" | "BIGNUMERIC" | "BOOLEAN" => text.to_owned(),
        "FLOAT" if ["NaN", "Infinity", "-Infinity"].contains(&text) => "null".to_owned(),
        "FLOAT" => text.to_owned(),
        "TIMESTAMP" => json!(moment(text)).to_string(),
        // A table has a type for objects and arrays, not for whatever JSON may be; inside of one anything may stand.
        "JSON" if nested || text.starts_with(['{', '[']) => text.to_owned(),
        "JSON" => "null".to_owned(),
        "RANGE" => {
            let element = &field.range_element_type.as_ref().expect("an element").r#type;
            let (start, end) =
                text.strip_prefix('[').and_then(|text| text.strip_suffix(')')?.split_once(", ")).expect("a range");
            let bound = |text: &str| match text {
                "UNBOUNDED" => Value::Null,
                text if element == "TIMESTAMP" => json!(moment(text)),
                text => json!(text),
            };
            format!("{{\"start\":{},\"end\":{}}}", bound(start), bound(end))
        }
        _ => json!(text).to_string(),
    }
}

/// Microseconds since 1970 as a moment in UTC.
fn moment(micros: &str) -> String {
    let micros: i64 = micros.parse().expect("microseconds");
    let civil = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(SignedDuration::from_micros(micros));
    format!("{:.6}Z", civil.expect("a moment"))
}

/// Whether two JSON texts say the same with the same digits. A float may be written in another way; then all its bits count.
fn same(one: &str, two: &str) -> bool {
    fn marks(text: &str) -> Vec<String> {
        let mut marks = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let length = match rest.as_bytes()[0] {
                b'"' => {
                    let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                    let text = stream.next().expect("a text").expect("a text");
                    marks.push(format!("{text:?}"));
                    rest = rest[stream.byte_offset()..].trim_start();
                    continue;
                }
                b'-' | b'0'..=b'9' => rest.find(|mark: char| !"+-.eE0123456789".contains(mark)).unwrap_or(rest.len()),
                mark if mark.is_ascii_alphabetic() => {
                    rest.find(|mark: char| !mark.is_ascii_alphabetic()).unwrap_or(rest.len())
                }
                _ => 1,
            };
            let word = &rest[..length];
            marks.push(match word.contains(['e', 'E']) && word.parse::<f64>().is_ok() {
                true => format!("{:x}", word.parse::<f64>().expect("a number").to_bits()),
                false => word.to_owned(),
            });
            rest = rest[length..].trim_start();
        }
        marks
    }
    one == two || marks(one) == marks(two)
}

/// The rows of an answer, as they stand in its file.
fn rows(answer: &Answer) -> Vec<Row> {
    let path = answer.data()["table_uri"].as_str().and_then(|uri| crate::rules::path_of(uri).ok()).expect("a file");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the file")).expect("rows")
}

fn assert_whole(what: &str, answer: &Answer, fields: &[Field], truth: &[Value]) {
    let found = rows(answer);
    assert_eq!(found.len(), truth.len(), "{what}");
    let mut cells = 0;
    for (found, row) in found.iter().zip(truth) {
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), "{what}");
        for ((found, field), cell) in found.values().zip(fields).zip(row["f"].as_array().expect("cells")) {
            let expected = expected(field, &cell["v"], false);
            assert!(same(found.get(), &expected), "{what}, {}: {} and not {expected}", field.name, found.get());
            cells += 1;
        }
    }
    assert_eq!(cells, truth.len() * fields.len());
}

/// What the type of a column must be in the table, whatever its values are.
fn column_type(field: &Field) -> &str {
    match field.r#type.as_str() {
        _ if field.mode == "REPEATED" => "json",
        "RECORD" | "JSON" | "RANGE" => "json",
        "INTEGER" => "integer",
        "FLOAT" | "NUMERIC" | "BIGNUMERIC" => "number",
        "BOOLEAN" => "boolean",
        "DATE" => "date",
        "DATETIME" | "TIMESTAMP" => "datetime",
        _ => "string",
    }
}

/// V-347: each of 17 types as NULLABLE, REQUIRED, REPEATED and inside records, null and at its ends, by a query and by a
/// preview.
#[test]
fn every_value_of_every_type_arrives_digit_by_digit() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let meta = json!({"cost_limit_usd": PLENTY, "inline_max_bytes": 0, "config": {"allow_preview": true}});
    for (table, key) in [("every_type", "id"), ("flexible_names", "`a-b` DESC")] {
        let (fields, truth) = truth(&google, table);
        let sql = format!("SELECT * FROM {table} ORDER BY {key}");
        let query = bq.query_with(&sql, &meta).ok();
        assert_whole(&sql, &query, &fields, &truth);
        let preview = bq.call("preview_table", &json!({"table": table}), &meta).ok();
        assert_whole(&format!("preview of {table}"), &preview, &fields, &truth);
        for field in &fields {
            for answer in [&query, &preview] {
                assert_eq!(answer.header(&field.name)["type"], column_type(field), "{}", field.name);
            }
        }
        if table == "every_type" {
            assert!(fields.len() >= 54 && truth.len() == 8, "{} fields, {} rows", fields.len(), truth.len());
            for answer in [&query, &preview] {
                let warnings = answer.warnings().join("\n");
                for words in
                    ["int64_null", "bignumeric_null", "float64_null: 3 value(s) are NaN", "json_null", "record_null"]
                {
                    assert!(warnings.contains(words), "{words}: {warnings}");
                }
            }
        }
    }
    bq.end_well();
}

/// The comparison itself sees what it has to see.
#[test]
fn a_bent_digit_is_seen() {
    for (one, two) in [("1.0E7", "1e7"), (r#"{"a": [1, "é"]}"#, r#"{"a":[1,"\u00e9"]}"#), ("0.10", "0.10")] {
        assert!(same(one, two), "{one} {two}");
    }
    for (one, two) in [
        ("9007199254740993", "9007199254740992"),
        ("0.10", "0.1"),
        (r#""a""#, r#""b""#),
        ("null", "0"),
        ("[1]", "[1,1]"),
    ] {
        assert!(!same(one, two), "{one} {two}");
    }
}
