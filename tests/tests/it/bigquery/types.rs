//! Every type, digit by digit.

use serde_json::{Value, json};

use super::bench::{Bq, Google};

/// V-347: values of every type arrive as what they are.
#[test]
fn literals_of_every_type_arrive_as_they_are() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (sql, kind, value) in [
        ("41", "integer", json!(41)),
        ("0.5", "number", json!(0.5)),
        ("TRUE", "boolean", json!(true)),
        ("'á'", "string", json!("á")),
        ("DATE '2026-09-01'", "date", json!("2026-09-01")),
        ("CAST(NULL AS INT64)", "integer", Value::Null),
        ("[1, 2]", "json", json!([1, 2])),
        ("STRUCT(1 AS a, 'x' AS b)", "json", json!({"a": 1, "b": "x"})),
        ("CAST('NaN' AS FLOAT64)", "number", Value::Null),
    ] {
        let answer = bq.query_with(&format!("SELECT {sql} AS v"), &json!({})).ok();
        assert_eq!(answer.header("v")["type"], kind, "{sql}");
        assert_eq!(answer.rows()[0]["v"], value, "{sql}");
    }
    bq.end_well();
}

/// What can't be seen is shown to the model as a mark, and stays in the host's table.
#[test]
fn hidden_characters_are_for_the_host_alone() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let hidden = "a\u{202e}b\u{2066}c\u{e0041}d\u{7}e";
    let answer = bq.query_with(&format!("SELECT '{hidden}' AS v"), &json!({})).ok();
    assert_eq!(answer.model()["rows"][0]["v"], "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e");
    assert_eq!(answer.rows()[0]["v"], hidden);
    bq.end_well();
}

/// The exact text of a cell: a parser would round it.
fn cell_text(answer: &super::bench::Answer, column: &str) -> String {
    let table = &answer.text;
    let key = format!("\"{column}\":");
    let at = table.rfind(&key).expect("the column") + key.len();
    table[at..].chars().take_while(|mark| !matches!(mark, ',' | '}')).collect()
}

#[test]
fn digits_beyond_a_float_are_kept_and_warned_about() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (sql, kind, text) in [
        ("9007199254740993", "integer", "9007199254740993"),
        ("-9223372036854775808", "integer", "-9223372036854775808"),
        ("NUMERIC '99999999999999999999999999999.999999999'", "number", "99999999999999999999999999999.999999999"),
    ] {
        let answer = bq.query_with(&format!("SELECT {sql} AS v"), &json!({})).ok();
        assert_eq!(answer.header("v")["type"], kind, "{sql}");
        assert_eq!(cell_text(&answer, "v"), text, "{sql}");
        assert!(answer.warnings().iter().any(|warning| warning.contains("CAST AS STRING")), "{:?}", answer.warnings());
    }
    bq.end_well();
}
