//! Tables with every type in every mode, and with the values that clients bend.

use std::sync::Arc;

use serde_json::json;

use crate::bigquery::schema::{Field, Type};
use crate::bigquery::sql::Row;
use crate::bigquery::value::{Interval, Value};
use crate::clock::MICROS;

/// Rows of [`rows`]: row 1 is null wherever it may be.
const ROWS: usize = 8;

/// 2^53: the next integer is none that a 64-bit float has.
const EXACT: i64 = 9_007_199_254_740_992;

/// 0001-01-01 and 9999-12-31, in days since 1970.
const FIRST_DAY: i32 = -719_162;
const LAST_DAY: i32 = 2_932_896;

const DAY_MICROS: i64 = 86_400 * MICROS;
/// 0001-01-01T00:00:00 and 9999-12-31T23:59:59.999999.
const FIRST_MICROS: i64 = FIRST_DAY as i64 * DAY_MICROS;
const LAST_MICROS: i64 = (LAST_DAY as i64 + 1) * DAY_MICROS - 1;

/// Name and type of each scalar, as columns use them.
fn scalars() -> Vec<(&'static str, Type)> {
    let range = |element| Type::Range(Arc::new(element));
    vec![
        ("bool", Type::Bool),
        ("int64", Type::Int64),
        ("float64", Type::Float64),
        ("numeric", Type::Numeric),
        ("bignumeric", Type::BigNumeric),
        ("string", Type::String),
        ("bytes", Type::Bytes),
        ("date", Type::Date),
        ("datetime", Type::DateTime),
        ("time", Type::Time),
        ("timestamp", Type::Timestamp),
        ("interval", Type::Interval),
        ("geography", Type::Geography),
        ("json", Type::Json),
        ("range_date", range(Type::Date)),
        ("range_datetime", range(Type::DateTime)),
        ("range_timestamp", range(Type::Timestamp)),
    ]
}

fn decimals(texts: [&str; ROWS], wrap: fn(Arc<bigdecimal::BigDecimal>) -> Value) -> [Value; ROWS] {
    texts.map(|text| text.parse().map_or(Value::Null, |number| wrap(Arc::new(number))))
}

fn range(start: Value, end: Value) -> Value {
    Value::Range(Arc::new([start, end]))
}

/// The values of a scalar type: an ordinary one, null, the lowest, the highest, and four that tend to break.
fn values(kind: &Type) -> [Value; ROWS] {
    let json = |value: serde_json::Value| Value::Json(Arc::new(value));
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
    let interval = |months, days, micros| Value::Interval(Interval { months, days, micros });
    let place = |text: &str| Value::Geography(text.into());
    let mut values = match kind {
        Type::Bool => [true, false, false, true, true, false, true, false].map(Value::Bool),
        Type::Int64 => [42, 0, i64::MIN, i64::MAX, EXACT - 1, EXACT, EXACT + 1, -EXACT - 1].map(Value::Int64),
        Type::Float64 => {
            [1.5, 0.0, f64::MIN, f64::MAX, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1 + 0.2].map(Value::Float64)
        }
        Type::Numeric => decimals(
            [
                "1.25",
                "0",
                "-99999999999999999999999999999.999999999",
                "99999999999999999999999999999.999999999",
                "9007199254740993",
                "0.000000001",
                "123456789.987654321",
                "-0.5",
            ],
            Value::Numeric,
        ),
        Type::BigNumeric => decimals(
            [
                "1.25",
                "0",
                "-578960446186580977117854925043439539266.34992332820282019728792003956564819968",
                "578960446186580977117854925043439539266.34992332820282019728792003956564819967",
                "9007199254740993.00000000000000000000000000000000000001",
                "0.00000000000000000000000000000000000001",
                "100000000000000000000",
                "-0.1",
            ],
            Value::BigNumeric,
        ),
        Type::String => [
            "plain",
            "",
            "",
            "Föhr 椅子 🪑 \u{2028} e\u{301}",
            "line\nbreak\ttab\r",
            "\"quoted\" \\ 'back' </script>",
            "null",
            "control \u{1} \u{1f}",
        ]
        .map(Value::from),
        Type::Bytes => [
            bytes(b"bytes"),
            Value::Null,
            bytes(b""),
            bytes(&[0xff; 5]),
            bytes(&[0]),
            bytes(&[0xfb, 0xff, 0xfe]),
            bytes("Föhr".as_bytes()),
            bytes(&[0x80, 0x0a]),
        ],
        Type::Date => [20_721, 0, FIRST_DAY, LAST_DAY, 0, -1, 19_782, 11_016].map(Value::Date),
        Type::DateTime => micros().map(Value::DateTime),
        Type::Timestamp => micros().map(Value::Timestamp),
        Type::Time => {
            [45_296_789_012, 0, 0, DAY_MICROS - 1, 43_200 * MICROS, 1, 3_600 * MICROS + 500_000, 86_399 * MICROS]
                .map(Value::Time)
        }
        Type::Interval => [
            interval(14, 3, 14_706_789_000),
            Value::Null,
            interval(-120_000, -3_660_000, -87_840_000 * 3_600 * MICROS),
            interval(120_000, 3_660_000, 87_840_000 * 3_600 * MICROS),
            interval(0, 0, 0),
            interval(-14, 3, -1),
            interval(0, -1, 1),
            interval(1, 0, 0),
        ],
        Type::Geography => [
            place("POINT(8.3 54.9)"),
            Value::Null,
            place("POINT(-180 -90)"),
            place("POLYGON((0 0, 10 0, 10 10, 0 10, 0 0))"),
            place("GEOMETRYCOLLECTION EMPTY"),
            place("LINESTRING(1.5 2.25, 3.125 4)"),
            place("MULTIPOINT(1 1, 2 2)"),
            place("POINT(0.1 -0.2)"),
        ],
        Type::Json => [
            json(json!({"a": 1, "b": [true, null, "x"], "c": {"d": 1.5}})),
            Value::Null,
            json(json!(null)),
            json(json!({"big": EXACT + 1, "text": "Föhr \"🪑\""})),
            json(json!([])),
            json(json!("text")),
            json(json!(12.25)),
            json(json!(true)),
        ],
        Type::Range(element) => {
            let [a, _, low, high, b, c, d, e] = values(element);
            [
                range(low.clone(), a.clone()),
                Value::Null,
                range(low.clone(), high.clone()),
                range(Value::Null, high),
                range(low, Value::Null),
                range(Value::Null, Value::Null),
                range(c.clone(), b.clone()),
                range(if e_before(&e, &d) { e } else { c }, d),
            ]
        }
        Type::Struct(_) | Type::Array(_) => [const { Value::Null }; ROWS],
    };
    values[1] = Value::Null;
    values
}

/// Whether a range may start at one value and end at the other.
fn e_before(start: &Value, end: &Value) -> bool {
    match (start, end) {
        (Value::Date(a), Value::Date(b)) => a < b,
        (Value::DateTime(a), Value::DateTime(b)) | (Value::Timestamp(a), Value::Timestamp(b)) => a < b,
        _ => false,
    }
}

/// Moments, in microseconds: the fourth from the end is the epoch, the one after it before the epoch and exact to the
/// microsecond, then one that a float of seconds can't hold.
fn micros() -> [i64; ROWS] {
    [
        1_790_339_696_789_012,
        0,
        FIRST_MICROS,
        LAST_MICROS,
        0,
        -19_954_383_398_377_106,
        1_709_210_096_000_001,
        951_782_400_500_000,
    ]
}

/// For each scalar a column in each mode (`_null`, `_required`, `_repeated`), then all of them in a record and in a
/// repeated record, whose inner record repeats too.
pub(crate) fn schema() -> Vec<Field> {
    let mut fields = vec![required(Field::new("id", Type::Int64))];
    for (name, kind) in scalars() {
        fields.push(Field::new(&format!("{name}_null"), kind.clone()));
        fields.push(required(Field::new(&format!("{name}_required"), kind.clone())));
        fields.push(Field::new(&format!("{name}_repeated"), kind.array()));
    }
    fields.push(Field::new("record_null", record()));
    fields.push(Field::new("record_repeated", record().array()));
    fields
}

fn required(mut field: Field) -> Field {
    field.required = true;
    field
}

fn record() -> Type {
    let mut fields: Vec<Field> = scalars().into_iter().map(|(name, kind)| Field::new(name, kind)).collect();
    let inner = Type::record([Field::new("key", Type::String), Field::new("numbers", Type::Int64.array())]);
    fields.push(Field::new("inner", inner.array()));
    Type::record(fields)
}

/// A record of the values of a row: row 1 has nulls only.
fn record_of(row: usize) -> Value {
    let scalars = scalars().into_iter().map(|(_, kind)| values(&kind)[row].clone());
    let inner = |key: &str, numbers: &[i64]| {
        Value::record([Value::from(key), Value::array(numbers.iter().copied().map(Value::Int64))])
    };
    let inner = match row {
        1 => Value::array([]),
        _ => Value::array([inner("a", &[1, EXACT + 1]), inner("", &[])]),
    };
    Value::record(scalars.chain([inner]))
}

/// The rows of [`schema`].
pub(crate) fn rows() -> Vec<Row> {
    (0..ROWS)
        .map(|row| {
            let mut cells = vec![Value::Int64(row as i64)];
            for (_, kind) in scalars() {
                let values = values(&kind);
                let some = if row == 1 { &values[0] } else { &values[row] };
                let repeated = match row {
                    1 => Vec::new(),
                    0 => values.iter().filter(|value| !value.is_null()).cloned().collect(),
                    _ => vec![some.clone(); row % 3],
                };
                cells.extend([values[row].clone(), some.clone(), Value::array(repeated)]);
            }
            // Row 1: no record; row 2: a record whose fields are all null.
            cells.push(match row {
                1 => Value::Null,
                2 => record_of(1),
                _ => record_of(row),
            });
            let repeated = (0..row % 3).map(|offset| record_of((row + offset) % ROWS));
            cells.push(Value::array(repeated));
            cells
        })
        .collect()
}

/// Column names that need backticks.
pub(crate) fn flexible_names() -> (Vec<Field>, Vec<Row>) {
    let fields = vec![
        Field::new("Umsatz (€)", Type::Float64),
        Field::new("日付", Type::Date),
        Field::new("with space", Type::String),
        Field::new("a-b", Type::Int64),
        Field::new("größe", Type::record([Field::new("länge in cm", Type::Int64)])),
        Field::new("select", Type::Bool),
    ];
    let row = |n: i64| {
        vec![
            Value::Float64(n as f64 + 0.5),
            Value::Date(20_700 + i32::try_from(n).unwrap_or(0)),
            Value::from(format!("row {n}")),
            Value::Int64(-n),
            Value::record([Value::Int64(n * 10)]),
            Value::Bool(n % 2 == 0),
        ]
    };
    (fields, (0..5).map(row).collect())
}

/// Leaf fields of [`wide`].
pub(crate) const WIDE_LEAVES: usize = 937;

/// 33 columns with 937 leaf fields in all: a number, and 32 records with 29 or 30 leaves, six of them a level deeper.
pub(crate) fn wide() -> Vec<Field> {
    let mut fields = vec![Field::new("id", Type::Int64)];
    for number in 0..32 {
        let leaves = if number < 8 { 30 } else { 29 };
        let kinds = [Type::String, Type::Int64, Type::Float64, Type::Timestamp, Type::Bool];
        let leaf = |n: usize| {
            let mut field = Field::new(&format!("field_{number:02}_{n:02}"), kinds[n % kinds.len()].clone());
            field.description =
                Some(format!("Measure {n} of group {number}, as the upstream system reports it.").into());
            field
        };
        let deeper = Type::record((leaves - 6..leaves).map(leaf));
        let inner = Field::new("detail", if number % 4 == 0 { deeper.array() } else { deeper });
        let record = Type::record((0..leaves - 6).map(leaf).chain([inner]));
        fields.push(Field::new(&format!("group_{number:02}"), if number % 5 == 0 { record.array() } else { record }));
    }
    fields
}

/// Rows of [`wide`]: everything but the number is empty.
pub(crate) fn wide_rows() -> Vec<Row> {
    let blank = |field: &Field| if field.mode() == "REPEATED" { Value::array([]) } else { Value::Null };
    (0..3).map(|n| std::iter::once(Value::Int64(n)).chain(wide()[1..].iter().map(blank)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_table_has_as_many_leaves_as_it_says() {
        fn leaves(kind: &Type) -> usize {
            match kind.element().unwrap_or(kind) {
                Type::Struct(fields) => fields.iter().map(|field| leaves(&field.kind)).sum(),
                _ => 1,
            }
        }
        let fields = wide();
        assert_eq!(fields.len(), 33);
        assert_eq!(fields.iter().map(|field| leaves(&field.kind)).sum::<usize>(), WIDE_LEAVES);
    }

    #[test]
    fn rows_fit_the_schema() {
        let fields = schema();
        for row in rows() {
            assert_eq!(row.len(), fields.len());
            for (cell, field) in row.iter().zip(&fields) {
                assert!(!field.required || !cell.is_null(), "{}", field.name);
                assert_eq!(field.mode() == "REPEATED", matches!(cell, Value::Array(_)), "{}", field.name);
            }
        }
    }
}
