//! Our statements with the answers of Google's own SQL engine, which `cargo xtask interop sql` writes.

use serde_json::{Value as Json, json};

use super::{Tables, prepared, rows_of};
use crate::bigquery::schema::Type;
use crate::bigquery::sql::text;
use crate::bigquery::value::Value;

const ANSWERS: &str = include_str!("../goldens/answers.json");

/// As `xtask/interop/sql_goldens.py` writes a value.
fn plain(value: &Value, kind: &Type) -> Json {
    match (value, kind) {
        // As BigQuery does it: a null array is one without elements.
        (Value::Null, Type::Array(_)) => json!([]),
        (Value::Null, _) => Json::Null,
        (Value::Bool(truth), _) => json!(truth),
        (Value::Float64(number), _) if number.is_nan() => json!("NaN"),
        (Value::Float64(number), _) if number.is_infinite() => {
            json!(if *number > 0.0 { "Infinity" } else { "-Infinity" })
        }
        (Value::Bytes(bytes), _) => json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        (Value::DateTime(micros), _) => json!(padded(text::of_datetime(*micros, 'T'))),
        (Value::Time(micros), _) => json!(padded(text::of_time(*micros))),
        (Value::Struct(values), Type::Struct(fields)) => {
            values.iter().zip(fields.iter()).map(|(value, field)| plain(value, &field.kind)).collect()
        }
        (Value::Array(values), Type::Array(element)) => values.iter().map(|value| plain(value, element)).collect(),
        (value, _) => json!(text::of_value(value)),
    }
}

/// Six digits after the point, if there is one.
fn padded(text: String) -> String {
    match text.split_once('.') {
        Some((seconds, fraction)) => format!("{seconds}.{fraction:0<6}"),
        None => text,
    }
}

/// Floats are compared as numbers, to the last two of seventeen digits; all else exactly.
fn same(ours: &Json, theirs: &Json, kind: &Type) -> bool {
    match (ours, theirs, kind) {
        (Json::Array(ours), Json::Array(theirs), Type::Array(element)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs, element))
        }
        (Json::Array(ours), Json::Array(theirs), Type::Struct(fields)) => {
            let fields = fields.iter().map(|field| &field.kind);
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).zip(fields).all(|((ours, theirs), kind)| same(ours, theirs, kind))
        }
        (Json::String(ours), Json::String(theirs), Type::Float64) => {
            let [ours, theirs]: [f64; 2] = [ours, theirs].map(|text| text.parse().expect("a float"));
            ours == theirs || ours.is_nan() && theirs.is_nan() || ((ours - theirs) / theirs).abs() < 1e-15
        }
        _ => ours == theirs,
    }
}

fn differs(golden: &Json) -> Option<String> {
    let sql = golden["sql"].as_str().expect("a statement");
    let outcome = prepared(sql, &Tables::default()).and_then(|prepared| Ok((rows_of(&prepared)?, prepared)));
    let (rows, prepared) = match (outcome, golden["error"].as_str()) {
        (Ok((rows, prepared)), None) => (rows, prepared),
        (Err(error), None) => return Some(format!("{error}")),
        (Ok((rows, _)), Some(theirs)) => return Some(format!("no error but {rows:?}\n  theirs {theirs}")),
        (Err(ours), Some(theirs)) => {
            // The engine's errors have a code in front, and no position.
            let theirs = theirs.split_once("] ").map_or(theirs, |(_, message)| message);
            let position = ours.position.map(|at| format!(" at [{}:{}]", at.line, at.column)).unwrap_or_default();
            let ours = ours.message.strip_suffix(&position).unwrap_or(&ours.message);
            let ours = ours.lines().next().unwrap_or_default();
            return (ours != theirs).then(|| format!("ours   {ours}\n  theirs {theirs}"));
        }
    };
    let columns = golden["columns"].as_array().expect("columns");
    let kinds: Vec<String> = prepared.schema.iter().map(|field| field.kind.to_string()).collect();
    let theirs: Vec<&str> = columns.iter().filter_map(|column| column[1].as_str()).collect();
    if kinds != theirs {
        return Some(format!("ours   {kinds:?}\n  theirs {theirs:?}"));
    }
    for (field, column) in prepared.schema.iter().zip(columns) {
        let theirs = column[0].as_str().unwrap_or_default();
        if *field.name != *theirs && !theirs.is_empty() {
            return Some(format!("the column {} is {theirs} there", field.name));
        }
    }
    let encode = |row: &Vec<Value>| -> Vec<Json> {
        row.iter().zip(&prepared.schema).map(|(value, field)| plain(value, &field.kind)).collect()
    };
    let mut ours: Vec<Vec<Json>> = rows.iter().map(encode).collect();
    let mut theirs: Vec<Vec<Json>> =
        golden["rows"].as_array().expect("rows").iter().map(|row| row.as_array().expect("a row").clone()).collect();
    if !sql.contains("ORDER BY") {
        ours.sort_by_cached_key(|row| format!("{row:?}"));
        theirs.sort_by_cached_key(|row| format!("{row:?}"));
    }
    let equal = ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(ours, theirs)| {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(theirs)
                    .zip(&prepared.schema)
                    .all(|((ours, theirs), field)| same(ours, theirs, &field.kind))
        });
    (!equal).then(|| format!("ours   {}\n  theirs {}", json!(ours), json!(theirs)))
}

#[test]
fn answers_are_googles() {
    let goldens: Vec<Json> = serde_json::from_str(ANSWERS).expect("JSON");
    assert!(goldens.len() >= 120, "{} statements", goldens.len());
    let wrong: Vec<String> = goldens
        .iter()
        .filter_map(|golden| Some(format!("{}\n  {}", golden["sql"].as_str()?, differs(golden)?)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), goldens.len(), wrong.join("\n"));
}
