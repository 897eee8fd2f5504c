//! Errors: their reasons, words and places; and statements that are only classified.

use proptest::prelude::*;

use super::{Tables, error, prepared};
use crate::bigquery::schema::Type;
use crate::bigquery::sql::Reason;
use crate::bigquery::sql::error::Position;

fn tables() -> Tables {
    Tables::default().with("d.t", &[("page_location", Type::String), ("clicks", Type::Int64)], Vec::new())
}

#[test]
fn errors_say_where() {
    for (sql, message) in [
        ("SELECT page_locatoin\nFROM d.t", "Unrecognized name: page_locatoin; Did you mean page_location? at [1:8]"),
        ("SELECT 1\nFROM d.t\nWHERE  t.click > 1", "Name click not found inside t at [3:10]"),
        (
            "SELECT page_location, COUNT(*) FROM d.t",
            "SELECT list expression references column page_location which is neither grouped nor aggregated at [1:8]",
        ),
        ("SELECT LOWR(page_location) FROM d.t", "Function not found: LOWR; Did you mean lower? at [1:8]"),
        (
            "SELECT LOWER(clicks) FROM d.t",
            "No matching signature for function LOWER\n  Argument types: INT64\n  Signature: LOWER(STRING)\n    Argument 1: Unable to coerce type INT64 to expected type STRING at [1:8]",
        ),
        (
            "SELECT clicks FROM d.t WHERE clicks = 'a'",
            "No matching signature for operator =\n  Argument types: INT64, STRING\n  Unable to find common supertype for templated argument <T1>\n    Input types for <T1>: {INT64, STRING} at [1:30]",
        ),
        ("SELECT SELECT", "Syntax error: Unexpected keyword SELECT at [1:8]"),
        ("SELECT clicks FROM d.t WHERE", "Syntax error: Unexpected end of statement at [1:29]"),
        ("SELECT 'abc", "Syntax error: Unclosed string literal at [1:8]"),
        ("SELECT\t`abc", "Syntax error: Unclosed identifier literal at [1:9]"),
        ("SELECT clicks FROM t", "Table \"t\" must be qualified with a dataset (e.g. dataset.table). at [1:20]"),
        ("SELECT SUM(SUM(clicks)) FROM d.t", "Aggregations of aggregations are not allowed at [1:12]"),
        (
            "SELECT clicks, clicks FROM d.t",
            "Duplicate column names in the result are not supported. Found duplicate(s): clicks",
        ),
        (
            "SELECT clicks FROM d.t UNION SELECT 1",
            "Syntax error: Expected keyword ALL or keyword DISTINCT after UNION at [1:1]",
        ),
        ("", "Syntax error: Unexpected end of statement at [1:1]"),
    ] {
        let found = error(sql, &tables());
        assert_eq!(found.message, message, "{sql}");
        assert_eq!(found.reason, Reason::InvalidQuery, "{sql}");
    }
    assert_eq!(error("SELECT 1,\n  nope", &tables()).position, Some(Position { line: 2, column: 3 }));
}

#[test]
fn what_is_left_out_is_said() {
    for sql in [
        "FROM d.t |> WHERE clicks > 1",
        "SELECT * FROM d.t TABLESAMPLE SYSTEM (10 PERCENT)",
        "SELECT * FROM (SELECT 1 AS a, 'x' AS k) PIVOT(SUM(a) FOR k IN ('x'))",
        "SELECT * FROM d.INFORMATION_SCHEMA.COLUMNS",
        "SELECT SOUNDEX('x')",
        "SELECT NET.REG_DOMAIN('x')",
        "SELECT ML.PREDICT(1)",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM d.t",
        "SELECT x FROM (SELECT [1] AS xs) AS t, t.xs AS x WITH OFFSET AS o",
        "SELECT 1 << 2",
        "SELECT @@project_id",
        "SELECT CAST(1 AS STRING FORMAT '9')",
        "SELECT FORMAT_DATE('%O', DATE '2024-01-01')",
        "SELECT * FROM EXTERNAL_QUERY('p.us.conn', 'DELETE FROM x')",
        "SELECT * FROM ML.PREDICT(MODEL `p.d.m`, TABLE d.t)",
    ] {
        let found = error(sql, &tables());
        assert_eq!(found.reason, Reason::Unsupported, "{sql}: {found}");
        assert!(found.message.starts_with("sandbox: not supported"), "{sql}: {found}");
    }
}

#[test]
fn tables_that_are_not_there() {
    let found = error("SELECT 1 FROM d.nope", &tables());
    assert_eq!((found.reason, found.message.as_str()), (Reason::NotFound, "Not found: Table p:d.nope was not found"));
    let found = error("SELECT 1 FROM `d.nope_*`", &tables());
    assert_eq!((found.reason, found.message.as_str()), (Reason::NotFound, "p:d.nope_* does not match any table."));
}

#[test]
fn statements_are_classified() {
    for (sql, kind) in [
        ("SELECT 1;", "SELECT"),
        ("  -- x\n(SELECT 1)", "SELECT"),
        ("WITH a AS (SELECT 1 AS x) SELECT x FROM a", "SELECT"),
        ("SELECT 1; DROP TABLE d.t", "SCRIPT"),
        ("DECLARE x INT64 DEFAULT 1; SELECT x", "SCRIPT"),
        ("SET @@location = 'EU'", "SCRIPT"),
        ("LOOP SELECT 1; BREAK; END LOOP", "SCRIPT"),
        ("BEGIN TRANSACTION; SELECT 1; COMMIT TRANSACTION", "SCRIPT"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "SCRIPT"),
        (
            "CREATE TEMP FUNCTION f(x FLOAT64) RETURNS FLOAT64 LANGUAGE js AS r\"\"\"return x*2; /* ; */\"\"\"; SELECT f(1)",
            "SCRIPT",
        ),
        ("INSERT INTO d.t (a) SELECT 1", "INSERT"),
        ("WITH a AS (SELECT 1) DELETE FROM d.t WHERE TRUE", "DELETE"),
        ("FROM d.t |> INSERT INTO d.u", "INSERT"),
        ("MERGE d.t T USING d.s S ON T.id=S.id WHEN MATCHED THEN UPDATE SET a=1", "MERGE"),
        ("CREATE OR REPLACE TABLE d.t AS SELECT 1 x", "CREATE_TABLE_AS_SELECT"),
        ("create temp table t (x INT64)", "CREATE_TABLE"),
        ("CREATE OR REPLACE MATERIALIZED VIEW d.v AS SELECT 1", "CREATE_MATERIALIZED_VIEW"),
        ("CREATE ROW ACCESS POLICY x ON d.t GRANT TO ('a') FILTER USING (TRUE)", "CREATE_ROW_ACCESS_POLICY"),
        ("DROP TABLE IF EXISTS d.t", "DROP_TABLE"),
        ("ALTER TABLE d.t ADD COLUMN x INT64", "ALTER_TABLE"),
        ("TRUNCATE TABLE d.t", "TRUNCATE_TABLE"),
        ("EXPORT DATA OPTIONS(uri='gs://b/*.csv', format='CSV') AS SELECT * FROM d.t", "EXPORT_DATA"),
        ("LOAD DATA INTO d.t FROM FILES(format='CSV', uris=['gs://b/x.csv'])", "LOAD_DATA"),
        ("GRANT `roles/bigquery.dataViewer` ON SCHEMA d TO \"user:a@b.c\"", "GRANT"),
        ("CALL d.p()", "CALL"),
        ("ASSERT 1 = 1 AS 'x'", "ASSERT"),
        // Quotes and comments end where they do for Google.
        ("SELECT r'a\\'; DROP TABLE d.t; SELECT '", "SELECT"),
        ("SELECT 1 /* /* */ ; DROP TABLE d.t /* */", "SCRIPT"),
        ("SELECT 1 -- a\r; DROP TABLE d.t", "SCRIPT"),
        ("SELECT 1 -- x\u{2028}; DROP TABLE d.t", "SELECT"),
        ("SELECT\u{a0}1", "SELECT"),
        ("SELECT 1 # x\n; SELECT 2", "SCRIPT"),
    ] {
        let found = prepared(sql, &tables()).map(|prepared| prepared.statement_type);
        assert_eq!(found.as_ref().ok(), Some(&kind), "{sql}: {found:?}");
    }
    let refused = error("DROP TABLE d.t", &tables());
    assert_eq!(refused.message, "sandbox: not supported: running a statement of type DROP_TABLE");
}

#[test]
fn quotes_that_only_others_know() {
    for (sql, message) in [
        (
            "SELECT 'a''; DROP TABLE d.t; --'",
            "Syntax error: concatenated string literals must be separated by whitespace or comments at [1:11]",
        ),
        ("SELECT $$ ; DROP TABLE d.t ; $$", "Syntax error: Illegal input character \"$\" at [1:8]"),
        ("SELECT `a``b`", "Unrecognized name: a at [1:8]"),
        ("SELECT E'\\', ' ", "Syntax error: Expected end of input but got string literal \"', \""),
    ] {
        assert_eq!(error(sql, &tables()).message, message, "{sql}");
    }
}

#[test]
fn deep_statements_are_refused() {
    let deep = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(error(&deep, &tables()).reason, Reason::Unsupported);
    let long = format!("SELECT {}", vec!["clicks"; 2_000].join(" + ")) + " AS total FROM d.t";
    assert_eq!(error(&long, &tables()).reason, Reason::Unsupported);
    let nested = format!("SELECT {}1{}", "(".repeat(40), ")".repeat(40));
    assert_eq!(super::run(&nested, &tables()), ["(1)"]);
    let enough = format!("SELECT {} AS total", vec!["1"; 900].join(" + "));
    assert_eq!(super::run(&enough, &tables()), ["(900)"]);
}

const WORDS: [&str; 40] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "d.t",
    "clicks",
    "page_location",
    "COUNT(*)",
    "SUM(",
    ")",
    "(",
    ",",
    "*",
    "1",
    "'a'",
    "AS",
    "x",
    "UNNEST(",
    "[",
    "]",
    "JOIN",
    "ON",
    "=",
    "AND",
    "NOT",
    "NULL",
    "WITH",
    "OVER (",
    "LIMIT",
    "UNION ALL",
    "CASE",
    "WHEN",
    "THEN",
    "END",
    "IN",
    "STRUCT(",
    "@p",
    ".",
    "`",
];

proptest! {
    /// Whatever the text, there is an answer.
    #[test]
    fn no_text_is_a_panic(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..25)) {
        let sql = words.join(" ");
        if let Ok(prepared) = prepared(&sql, &tables()) {
            let _ = prepared.run().map(|rows| rows.from(0).take(10).count());
        }
    }

    #[test]
    fn no_query_is_a_panic(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12), end in "[ -~]{0,6}") {
        let sql = format!("SELECT {} FROM d.t {end}", words.join(" "));
        if let Ok(prepared) = prepared(&sql, &tables()) {
            let _ = prepared.run().map(|rows| rows.from(0).take(10).count());
        }
    }
}
