//! Statements on tables: what they read, what they leave out, what they cost.

use super::{NOW, Stored, Tables, error, prepare_with, prepared, rows_of, run};
use crate::bigquery::schema::{Field, Type};
use crate::bigquery::sql::{Parameters, Partitioning, Prepared, Reason, Row, TableId};
use crate::bigquery::value::Value;
use std::ops::Range;
use std::sync::Arc;

fn params() -> Type {
    let value = [
        ("string_value", Type::String),
        ("int_value", Type::Int64),
        ("float_value", Type::Float64),
        ("double_value", Type::Float64),
    ];
    let value = Type::record(value.into_iter().map(|(name, kind)| Field::new(name, kind)));
    Type::record([Field::new("key", Type::String), Field::new("value", value)]).array()
}

fn param(key: &str, text: Option<&str>, number: Option<i64>) -> Value {
    Value::record([key.into(), Value::record([text.into(), number.into(), Value::Null, Value::Null])])
}

fn strings(names: &[&str]) -> Type {
    Type::record(names.iter().map(|name| Field::new(name, Type::String)))
}

/// Columns that the export of Analytics has, and two that people believe it has.
fn event_fields() -> Vec<(&'static str, Type)> {
    let device = Type::record([
        Field::new("category", Type::String),
        Field::new("operating_system", Type::String),
        Field::new("language", Type::String),
        Field::new("web_info", strings(&["browser"])),
    ]);
    let last_click = Type::record([Field::new("manual_campaign", strings(&["source", "medium", "campaign_name"]))]);
    vec![
        ("event_date", Type::String),
        ("event_timestamp", Type::Int64),
        ("event_name", Type::String),
        ("event_params", params()),
        ("event_value_in_usd", Type::Float64),
        ("user_id", Type::String),
        ("user_properties", params()),
        ("user_pseudo_id", Type::String),
        ("device", device),
        ("traffic_source", strings(&["name", "medium", "source"])),
        ("session_traffic_source_last_click", last_click),
        ("country", Type::String),
        ("city", Type::String),
    ]
}

/// Users 0, 1 and 2 see a page each at every full minute; each third event buys.
fn events(day: i64, count: i64) -> Vec<Row> {
    let start = 1_704_067_200_000_000 + day * 86_400_000_000;
    let row = |index: i64| {
        let session = 1000 + index % 3;
        let page = format!("https://shop.example/p{}?q=1", index % 5);
        let nulls = |count: usize| Value::record(vec![Value::Null; count]);
        vec![
            format!("2024010{}", day + 1).into(),
            Value::Int64(start + index * 60_000_000),
            (if index % 3 == 2 { "purchase" } else { "page_view" }).into(),
            Value::array([param("page_location", Some(&page), None), param("ga_session_id", None, Some(session))]),
            if index % 3 == 2 { Value::Float64(2.5) } else { Value::Null },
            Value::Null,
            Value::array([]),
            format!("u{}", index % 3).into(),
            Value::record(["mobile".into(), "Android".into(), "de".into(), Value::record(["Chrome".into()])]),
            Value::record(["(direct)".into(), "(none)".into(), "(direct)".into()]),
            Value::record([nulls(3)]),
            "Germany".into(),
            Value::Null,
        ]
    };
    (0..count).map(row).collect()
}

fn export() -> Tables {
    let fields = event_fields();
    let tables = Tables::default()
        .with("analytics_1.events_20240101", &fields, events(0, 9))
        .with("analytics_1.events_20240102", &fields, events(1, 6))
        .with("analytics_1.events_20240103", &fields, events(2, 3))
        .with("analytics_1.events_intraday_20240104", &fields, events(3, 30));
    tables.with(
        "d.t",
        &[("x", Type::Int64), ("y", Type::String)],
        vec![vec![1.into(), "a".into()], vec![2.into(), "b".into()]],
    )
}

fn shards(prepared: &Prepared) -> Vec<&str> {
    prepared.tables[0].scans.iter().map(|scan| &*scan.table.id().table).collect()
}

#[test]
fn a_suffix_leaves_tables_out_before_they_are_read() {
    let tables = export();
    let sql = "SELECT event_name, COUNT(*) AS n FROM `p.analytics_1.events_*`
        WHERE _TABLE_SUFFIX BETWEEN FORMAT_DATE('%Y%m%d', DATE '2024-01-02') AND '20240103' GROUP BY event_name ORDER BY n DESC";
    let prepared = prepared(sql, &tables).expect("prepared");
    assert_eq!(prepared.statement_type, "SELECT");
    assert_eq!(prepared.tables[0].id, TableId::new("p", "analytics_1", "events_*"));
    assert_eq!(shards(&prepared), ["events_20240102", "events_20240103"]);
    // Nine rows, one column.
    assert_eq!(prepared.bytes(), 9 * 8);
    assert_eq!(run(sql, &tables), ["(page_view, 6)", "(purchase, 3)"]);
}

#[test]
fn an_open_suffix_reads_intraday_tables_too() {
    let tables = export();
    let all = prepared("SELECT COUNT(*) FROM `analytics_1.events_*` WHERE _TABLE_SUFFIX > '20240102'", &tables)
        .expect("prepared");
    assert_eq!(shards(&all), ["events_20240103", "events_intraday_20240104"]);
    assert_eq!(all.bytes(), 0, "counting rows reads no column");
    // What depends on rows or on a subquery leaves nothing out.
    for filter in ["_TABLE_SUFFIX = event_date", "_TABLE_SUFFIX = (SELECT '20240101')", "event_date = '20240101'"] {
        let prepared = prepared(&format!("SELECT COUNT(*) FROM `analytics_1.events_*` WHERE {filter}"), &tables)
            .expect("prepared");
        assert_eq!(shards(&prepared).len(), 4, "{filter}");
    }
}

#[test]
fn only_columns_that_the_result_needs_are_read() {
    let tables = export();
    let read = |sql: &str| {
        let prepared = prepared(sql, &tables).expect("prepared");
        let scan = &prepared.tables[0].scans[0];
        scan.columns.iter().map(|column| scan.table.schema()[*column].name.to_string()).collect::<Vec<_>>()
    };
    let table = "`p.analytics_1.events_20240101`";
    assert_eq!(read(&format!("SELECT x FROM (SELECT *, event_name AS x FROM {table})")), ["event_name"]);
    assert_eq!(
        read(&format!("WITH e AS (SELECT * FROM {table}) SELECT MAX(user_pseudo_id) FROM e WHERE event_name = 'x'")),
        ["event_name", "user_pseudo_id"]
    );
    assert_eq!(read(&format!("SELECT * EXCEPT (event_params, device, traffic_source, session_traffic_source_last_click, user_properties, country, city) FROM {table}")).len(), 6);
    assert_eq!(
        read(&format!(
            "SELECT (SELECT value.int_value FROM UNNEST(event_params) WHERE key = 'a') AS a FROM {table} ORDER BY event_timestamp"
        )),
        ["event_timestamp", "event_params"]
    );
    assert_eq!(read(&format!("SELECT device.web_info.browser FROM {table}")), ["device"]);
    assert_eq!(read(&format!("SELECT COUNT(*) FROM {table}, UNNEST(event_params)")), ["event_params"]);
}

#[test]
fn sessions_are_counted() {
    let tables = export();
    let sql = "SELECT COUNT(DISTINCT CONCAT(user_pseudo_id, CAST((SELECT value.int_value FROM UNNEST(event_params)
        WHERE key = 'ga_session_id') AS STRING))) AS sessions, SUM(event_value_in_usd) AS revenue FROM `analytics_1.events_2024*`";
    assert_eq!(run(sql, &tables), ["(3, 15)"]);
    let pages =
        "SELECT p.value.string_value AS page, COUNT(*) AS n FROM `analytics_1.events_2024*` AS e, e.event_params AS p
        WHERE p.key = 'page_location' GROUP BY page ORDER BY n DESC, page LIMIT 1";
    assert_eq!(run(pages, &tables), ["(https://shop.example/p0?q=1, 5)"]);
}

#[test]
fn a_result_without_rows_has_a_schema() {
    let tables = export();
    let prepared = prepared("SELECT x, y AS name, [x] AS xs, STRUCT(x, y) AS s, 1.5 FROM d.t WHERE FALSE", &tables)
        .expect("prepared");
    let schema: Vec<String> = prepared
        .schema
        .iter()
        .map(|field| format!("{} {} {}", field.name, field.kind.schema_name(), field.mode()))
        .collect();
    assert_eq!(
        schema,
        [
            "x INTEGER NULLABLE",
            "name STRING NULLABLE",
            "xs INTEGER REPEATED",
            "s RECORD NULLABLE",
            "f0_ FLOAT NULLABLE"
        ]
    );
    assert!(rows_of(&prepared).expect("rows").is_empty());
}

/// A table whose rows are made when they are read, and counts how many were.
struct Endless {
    id: TableId,
    fields: Vec<Field>,
    made: std::sync::atomic::AtomicU64,
}

impl crate::bigquery::sql::Table for Endless {
    fn id(&self) -> &TableId {
        &self.id
    }

    fn schema(&self) -> &[Field] {
        &self.fields
    }

    fn row_count(&self) -> u64 {
        3_000_000
    }

    fn column_bytes(&self, _column: usize, rows: Range<u64>) -> u64 {
        8 * (rows.end - rows.start)
    }

    fn rows(&self, rows: Range<u64>, columns: Vec<usize>) -> Box<dyn Iterator<Item = Row> + '_> {
        Box::new(rows.map(move |row| {
            self.made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            columns.iter().map(|column| Value::Int64(row as i64 * 10 + *column as i64)).collect()
        }))
    }
}

#[test]
fn a_plain_projection_is_read_from_any_row() {
    let fields = ["a", "b", "c"].map(|name| Field::new(name, Type::Int64)).to_vec();
    let table = Arc::new(Endless { id: TableId::new("p", "d", "bulk"), fields, made: Default::default() });
    let mut tables = Tables::default();
    tables.tables.insert("d.bulk".to_owned(), table.clone());
    let rows =
        prepared("SELECT c, a FROM d.bulk LIMIT 2999999 OFFSET 1", &tables).expect("prepared").run().expect("rows");
    assert_eq!(rows.len(), 2_999_999);
    let page: Vec<Row> = rows.from(2_999_997).collect();
    assert_eq!(
        page,
        [
            vec![Value::Int64(29_999_982), Value::Int64(29_999_980)],
            vec![Value::Int64(29_999_992), Value::Int64(29_999_990)]
        ]
    );
    assert!(rows.from(2_999_999).next().is_none());
    assert!(rows.from(u64::MAX).next().is_none());
    assert_eq!(table.made.load(std::sync::atomic::Ordering::Relaxed), 2);
    // A limit ends the reading.
    assert_eq!(run("SELECT a + 1 FROM d.bulk WHERE a > 50 LIMIT 2", &tables), ["(61)", "(71)"]);
    assert!(table.made.load(std::sync::atomic::Ordering::Relaxed) < 20);
}

#[test]
fn partitions_that_a_filter_rules_out_are_not_read() {
    let fields = vec![Field::new("day", Type::Date), Field::new("n", Type::Int64)];
    let rows = (0..6).map(|n| vec![Value::Date(19_723 + n / 2), Value::Int64(n.into())]).collect();
    let partitions = (0..3).map(|day| (Value::Date(19_723 + day), day as u64 * 2..day as u64 * 2 + 2)).collect();
    let partitioning = Some(Partitioning { column: 0, partitions, require_filter: true });
    let mut tables = Tables::default();
    tables.tables.insert(
        "d.parts".to_owned(),
        Arc::new(Stored { id: TableId::new("p", "d", "parts"), fields, rows, partitioning }),
    );
    let filtered = prepared("SELECT n FROM d.parts WHERE day >= '2024-01-02' AND n < 5", &tables).expect("prepared");
    assert_eq!(filtered.tables[0].scans[0].rows, [2..4, 4..6]);
    assert_eq!(filtered.bytes(), 2 * 4 * 8);
    assert_eq!(run("SELECT n FROM d.parts WHERE day = '2024-01-02' ORDER BY n", &tables), ["(2)", "(3)"]);
    let refused = error("SELECT n FROM d.parts WHERE n = 1", &tables);
    assert_eq!(
        refused.message,
        "Cannot query over table 'p.d.parts' without a filter over column(s) 'day' that can be used for partition elimination"
    );
}

#[test]
fn views_show_their_tables() {
    let mut tables = export();
    tables.views.insert("d.v".to_owned(), "SELECT x * 2 AS z, y FROM `p.d.t`".to_owned());
    let view = prepared("SELECT z FROM d.v", &tables).expect("prepared");
    assert_eq!(view.views, [TableId::new("p", "d", "v")]);
    assert_eq!(view.tables[0].id, TableId::new("p", "d", "t"));
    assert!(view.tables[0].through_view);
    assert_eq!(view.bytes(), 2 * 8);
    assert_eq!(run("SELECT z FROM d.v ORDER BY z", &tables), ["(2)", "(4)"]);
}

#[test]
fn parameters_have_values_and_types() {
    let tables = export();
    let given = Parameters::Named(vec![
        ("xs".into(), Type::Int64.array(), Value::array([Value::Int64(2)])),
        ("s".into(), Type::record([Field::new("k", Type::String)]), Value::record(["b".into()])),
        ("day".into(), Type::String, "2024-01-01".into()),
    ]);
    let sql = "SELECT x, @s.k, DATE_ADD(@DAY, INTERVAL 1 DAY) FROM d.t WHERE x IN UNNEST(@xs) AND y = @s.k";
    let rows = rows_of(&prepare_with(sql, &tables, &given).expect("prepared")).expect("rows");
    assert_eq!(rows, [vec![Value::Int64(2), "b".into(), Value::Date(19_724)]]);
    let given = Parameters::Positional(vec![(Type::Int64, Value::Int64(1)), (Type::String, "a".into())]);
    let rows = rows_of(&prepare_with("SELECT x FROM d.t WHERE x = ? AND y = ?", &tables, &given).expect("prepared"))
        .expect("rows");
    assert_eq!(rows, [vec![Value::Int64(1)]]);
}

#[test]
fn parameters_without_values_are_listed_with_their_types() {
    let tables = export();
    let sql = "SELECT COUNT(*) FROM d.t WHERE x > @least AND y = @name AND x IN UNNEST(@xs) AND DATE '2024-01-01' < @day LIMIT @rows";
    let dry = prepared(sql, &tables).expect("prepared");
    let undeclared: Vec<String> = dry.undeclared.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    assert_eq!(undeclared, ["least INT64", "name STRING", "xs ARRAY<INT64>", "day DATE", "rows INT64"]);
    assert_eq!(error("SELECT x FROM d.t WHERE x > @least", &tables).message, "Query parameter 'least' not found");
    let dry =
        prepare_with("SELECT x FROM d.t WHERE x > ?", &tables, &Parameters::Positional(Vec::new())).expect("prepared");
    assert_eq!(dry.undeclared, [(String::new(), Type::Int64)]);
}

#[test]
fn the_clock_is_the_sandboxs() {
    let tables = Tables::default();
    let sql = "SELECT CURRENT_DATE(), CURRENT_TIMESTAMP(), CURRENT_DATE('Pacific/Auckland'), CURRENT_DATETIME('Europe/Berlin')";
    assert_eq!(run(sql, &tables), ["(2026-11-20, 2026-11-20 09:30:00+00, 2026-11-20, 2026-11-20 10:30:00)"]);
    assert!(!prepared(sql, &tables).expect("prepared").deterministic);
    assert!(prepared("SELECT 1", &tables).expect("prepared").deterministic);
    assert_eq!(NOW % 86_400_000_000, 34_200_000_000);
}

#[test]
fn routines_are_found_but_not_run() {
    let tables = export();
    let dry = prepared("SELECT d.remote_fn(x) AS score FROM d.t", &tables).expect("prepared");
    assert_eq!(dry.routines, [TableId::new("p", "d", "remote_fn")]);
    assert_eq!(dry.schema[0].kind, Type::Float64);
    assert_eq!(error("SELECT d.remote_fn(1)", &tables).reason, Reason::Unsupported);
    assert_eq!(error("SELECT d.other(1)", &tables).message, "Function not found: d.other at [1:8]");
}

#[test]
fn null_elements_can_not_leave_a_query() {
    let message = error("SELECT [1, NULL] AS xs", &Tables::default()).message;
    assert_eq!(message, "Array cannot have a null element; error in writing field xs");
}

#[test]
fn dots_and_colons_in_names() {
    let mut tables = export();
    let fields = vec![Field::new("x", Type::Int64)];
    let id = TableId::new("example.com:shop", "d", "t");
    tables
        .tables
        .insert("d.odd".to_owned(), Arc::new(Stored { id, fields, rows: vec![vec![7.into()]], partitioning: None }));
    for name in [
        "`example.com:shop.d.odd`",
        "`example.com:shop`.d.odd",
        "p.d.odd",
        "`p`.`d`.`odd`",
        "my-project-1.d.odd",
        "d.odd",
    ] {
        assert_eq!(run(&format!("SELECT x FROM {name}"), &tables), ["(7)"], "{name}");
    }
    let name = prepared("SELECT x FROM `example.com:shop.d.odd`", &tables).expect("prepared").tables[0].id.clone();
    assert_eq!(name, TableId::new("example.com:shop", "d", "odd"));
}
