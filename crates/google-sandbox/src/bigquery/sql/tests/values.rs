//! Properties of values, and of statements over any data.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use bigdecimal::BigDecimal;
use proptest::prelude::*;
use serde_json::json;

use super::{Tables, prepare_with, rows_of};
use crate::bigquery::schema::{Field, Type};
use crate::bigquery::sql::compare::{Key, order, same};
use crate::bigquery::sql::datetime::{self, Part, Zoned};
use crate::bigquery::sql::{Parameters, cast, lexer, text};
use crate::bigquery::value::Value;

/// The first and the last day of the calendar.
const DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<f64>().prop_map(Value::Float64),
        prop::sample::select(&[f64::NAN, 0.0, -0.0, 1.0, f64::INFINITY][..]).prop_map(Value::Float64),
    ]
}

fn hash_of(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    Key(vec![value.clone()]).hash(&mut hasher);
    hasher.finish()
}

proptest! {
    #[test]
    fn the_order_is_total(a in scalar(), b in scalar(), c in scalar()) {
        prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
        if order(&a, &b) != Ordering::Greater && order(&b, &c) != Ordering::Greater {
            prop_assert_ne!(order(&a, &c), Ordering::Greater);
        }
        prop_assert_eq!(same(&a, &b), order(&a, &b).is_eq());
        if same(&a, &b) {
            prop_assert_eq!(hash_of(&a), hash_of(&b));
        }
    }

    #[test]
    fn floats_read_back(number in any::<f64>()) {
        let read = cast::from_text(&text::of_float(number), &Type::Float64).expect("a number");
        prop_assert!(same(&read, &Value::Float64(number)), "{} {:?}", number, read);
    }

    #[test]
    fn decimals_read_back(digits in any::<i64>(), scale in 0i64..9) {
        let number = BigDecimal::new(digits.into(), scale);
        let Value::Numeric(read) = cast::from_text(&text::of_decimal(&number), &Type::Numeric).expect("a number") else {
            return Err(TestCaseError::fail("no NUMERIC"));
        };
        prop_assert_eq!(&*read, &number);
    }

    #[test]
    fn times_read_back(day in DAYS, micros in 0i64..86_400_000_000) {
        let civil = i64::from(day) * 86_400_000_000 + micros;
        let shown = text::of_datetime(civil, ' ');
        prop_assert_eq!(datetime::parse_datetime(&shown), Some(civil));
        prop_assert_eq!(datetime::parse_timestamp(&format!("{shown}+00"), &jiff::tz::TimeZone::UTC), Some(civil));
        let formatted = datetime::format("%E4Y-%m-%d %H:%M:%E6S", &Zoned::civil(civil)).expect("formatted");
        let (parsed, _) = datetime::parse("%E4Y-%m-%d %H:%M:%E6S", &formatted, true, true).expect("parsed");
        prop_assert_eq!(parsed, civil);
    }

    #[test]
    fn parts_begin_before_and_stay(day in -719_000i32..=2_932_896, weekday in 0u8..7) {
        for part in [Part::Week(weekday), Part::IsoWeek, Part::Month, Part::Quarter, Part::Year, Part::IsoYear] {
            let start = datetime::truncate_day(day, part).expect("a day");
            prop_assert!(start <= day && day - start < 371);
            prop_assert_eq!(datetime::truncate_day(start, part).expect("a day"), start);
            prop_assert_eq!(datetime::days_between(day, start, part).expect("a number"), 0);
            prop_assert_eq!(datetime::days_between(start, start - 1, part).expect("a number"), 1);
        }
    }

    #[test]
    fn tokens_never_panic(sql in "\\PC{0,40}") {
        let _ = lexer::tokens(&sql);
    }

    #[test]
    fn sums_of_groups_are_the_sum(values in prop::collection::vec((0i64..5, -1000i64..1000), 0..40), limit in 0usize..6, skip in 0usize..6) {
        let kind = Type::record([Field::new("k", Type::Int64), Field::new("v", Type::Int64)]).array();
        let array = Value::array(values.iter().map(|(k, v)| Value::record([Value::Int64(*k), Value::Int64(*v)])));
        let parameters = Parameters::Named(vec![("t".into(), kind, array)]);
        let rows = |sql: &str| {
            let prepared = prepare_with(sql, &Tables::default(), &parameters).expect("prepared");
            rows_of(&prepared).expect("rows")
        };
        let mut sums: BTreeMap<i64, i64> = BTreeMap::new();
        values.iter().for_each(|(k, v)| *sums.entry(*k).or_default() += v);
        let expected: Vec<Vec<Value>> = sums.iter().map(|(k, v)| vec![Value::Int64(*k), Value::Int64(*v)]).collect();
        prop_assert_eq!(rows("SELECT k, SUM(v) FROM UNNEST(@t) GROUP BY k ORDER BY k"), expected.clone());
        let joined = rows("WITH t AS (SELECT k, v FROM UNNEST(@t)), g AS (SELECT k, SUM(v) AS s FROM t GROUP BY k)
            SELECT DISTINCT t.k, g.s FROM t JOIN g USING (k) ORDER BY 1");
        prop_assert_eq!(joined, expected.clone());
        let windows = rows("SELECT DISTINCT k, SUM(v) OVER (PARTITION BY k) FROM UNNEST(@t) ORDER BY k");
        prop_assert_eq!(windows, expected.clone());
        let page = rows(&format!("SELECT k, SUM(v) FROM UNNEST(@t) GROUP BY k ORDER BY k LIMIT {limit} OFFSET {skip}"));
        prop_assert_eq!(page, expected.into_iter().skip(skip).take(limit).collect::<Vec<_>>());
    }
}

#[test]
fn schemas_read_back() {
    let schema = json!({
        "name": "params", "type": "RECORD", "mode": "REPEATED", "description": "What came along.",
        "fields": [
            {"name": "key", "type": "STRING", "mode": "REQUIRED"},
            {"name": "price", "type": "FLOAT", "mode": "NULLABLE", "policyTags": {"names": ["projects/p/locations/eu/taxonomies/1/policyTags/2"]}},
            {"name": "valid", "type": "RANGE", "mode": "NULLABLE", "rangeElementType": {"type": "DATE"}},
        ],
    });
    let field = Field::from_json(&schema).expect("a field");
    assert_eq!(field.kind.to_string(), "ARRAY<STRUCT<key STRING, price FLOAT64, valid RANGE<DATE>>>");
    let mut written = field.to_json();
    assert_eq!(written["fields"].as_array().map(Vec::len), Some(3));
    // The order of an object's members says nothing.
    written.sort_all_objects();
    let mut schema = schema;
    schema.sort_all_objects();
    assert_eq!(written, schema);
    let kind = field.kind.to_parameter_json();
    assert_eq!(Type::from_parameter_json(&kind), Ok(field.kind));
    for wrong in [
        json!({"name": "x", "type": "WORD"}),
        json!({"type": "STRING"}),
        json!({"name": "x", "type": "RECORD"}),
        json!({"name": "x", "type": "STRING", "mode": "SOMETIMES"}),
    ] {
        assert!(Field::from_json(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn texts_are_those_of_a_cast() {
    for (value, text) in [
        (Value::Float64(1e16), "1e+16"),
        (Value::Float64(f64::NAN), "nan"),
        (Value::Float64(-0.0), "0"),
        (Value::Timestamp(1_000), "1970-01-01 00:00:00.001+00"),
        (Value::DateTime(-1), "1969-12-31 23:59:59.999999"),
        (Value::Range([Value::Date(0), Value::Null].into()), "[1970-01-01, UNBOUNDED)"),
        (Value::Null, ""),
    ] {
        assert_eq!(value.to_text(), text);
    }
}
