//! The other data sets: one table for each thing that BigQuery does differently, and data sets that are large, empty, far
//! away or closed.

use std::sync::Arc;

use serde_json::json;

use super::{RowsTable, bulk, every_type};
use crate::bigquery::catalogue::{self, DATA_PROJECT, DOMAIN_PROJECT, Dataset, Days, Entry, Kind, PROJECT};
use crate::bigquery::schema::{Field, Type};
use crate::bigquery::sql::Row;
use crate::bigquery::value::Value;
use crate::clock::{MICROS, date_of};
use crate::events::mix;

/// Tables of the data set `many`.
pub(crate) const MANY_TABLES: usize = 1_200;

/// Days in the partitioned tables.
const DAYS: i32 = 30;
/// Rows of each of these days.
const ORDERS_A_DAY: u64 = 40;

/// 2026-01-01, when tables without a history of their own were made.
const CREATED: i64 = 1_767_225_600_000;

const CITIES: [&str; 6] = ["Berlin", "Hamburg", "Wien", "Zürich", "Paris", "Amsterdam"];

/// All of them, as they are on a day.
pub(crate) fn datasets(seed: u64, today: i32) -> Vec<Dataset> {
    let mut warehouse = warehouse(seed, today);
    special(&mut warehouse, seed, today);
    let mut regional = Dataset::new(PROJECT, "regional", "europe-west3", "Neither US nor EU");
    regional.add(customers(&regional, seed, 50));
    let mut restricted = Dataset::new(PROJECT, "restricted", "US", "Nobody here may read it");
    restricted.add(customers(&restricted, seed, 5));
    let mut legacy = Dataset::new(DOMAIN_PROJECT, "legacy", "EU", "In a project of a domain");
    legacy.add(customers(&legacy, seed, 20));
    let mut open = Dataset::new(DATA_PROJECT, "open", "US", "Data only: jobs run and are paid elsewhere");
    open.add(customers(&open, seed, 100));
    let mut hidden = Dataset::new(PROJECT, "_hidden", "US", "In no list without all=true");
    hidden.add(customers(&hidden, seed, 5));
    vec![
        warehouse,
        sharding(today),
        many(),
        Dataset::new(PROJECT, "empty", "US", "No tables"),
        Dataset::new(PROJECT, "loads", "US", "Load jobs may write here"),
        Dataset::new(PROJECT, "loads_eu", "EU", "Load jobs may write here, in the EU"),
        regional,
        restricted,
        legacy,
        open,
        hidden,
    ]
}

fn warehouse(seed: u64, today: i32) -> Dataset {
    let mut dataset = Dataset::new(PROJECT, "warehouse", "US", "One table for each thing that is different");
    let entry =
        Entry::new(RowsTable::new(dataset.table_id("every_type"), every_type::schema(), every_type::rows), CREATED);
    dataset.add(entry.described("Every type in every mode, with the values that clients bend"));
    let (fields, rows) = every_type::flexible_names();
    dataset.add(Entry::new(RowsTable::of(dataset.table_id("flexible_names"), fields, rows), CREATED));
    let wide = RowsTable::new(dataset.table_id("wide"), every_type::wide(), every_type::wide_rows);
    dataset.add(Entry::new(wide, CREATED).described("937 leaf fields"));
    for (name, rows) in [("bulk", bulk::ROWS), ("bulk_100k", 100_000), ("bulk_1m", 1_000_000)] {
        dataset.add(Entry::new(bulk::BulkTable::new(dataset.table_id(name), seed, rows), CREATED));
    }
    let empty = RowsTable::of(dataset.table_id("empty_table"), order_schema(), Vec::new());
    dataset.add(Entry::new(empty, CREATED));

    let orders = RowsTable::new(dataset.table_id("orders"), order_schema(), move || order_rows(seed, today));
    let mut entry = Entry::new(orders.partitioned_by(0, true), CREATED);
    entry.days = Some(Days { field: Some("day".into()), require_filter: true });
    entry.labels = json!({"team": "shop", "cost_centre": "4711"});
    dataset.add(entry.described("Partitioned by day; a query without a filter on day is refused"));
    let lines = RowsTable::new(dataset.table_id("order_lines"), order_schema(), move || order_rows(seed, today));
    let mut entry = Entry::new(lines.partitioned_by(0, false), CREATED);
    entry.days = Some(Days { field: Some("day".into()), require_filter: false });
    dataset.add(entry.described("Partitioned by day"));

    let mut clustered = customers(&dataset, seed, 20_000);
    clustered.clustering = vec!["city".into(), "customer_id".into()];
    dataset.add(clustered.described("Clustered: an estimate is an upper bound"));

    dataset.add(ingested(&dataset, seed, today));
    dataset
}

/// Views, external tables, protected rows and columns, routines.
fn special(dataset: &mut Dataset, seed: u64, today: i32) {
    let sql = format!(
        "SELECT day, city, COUNT(*) AS orders, SUM(amount) AS amount FROM `{PROJECT}.warehouse.order_lines` GROUP BY day, city"
    );
    let columns = vec![
        Field::new("day", Type::Date),
        Field::new("city", Type::String),
        Field::new("orders", Type::Int64),
        Field::new("amount", Type::Float64),
    ];
    dataset.add(catalogue::view(dataset.table_id("orders_by_city"), columns.clone(), &sql, false, CREATED));
    let legacy = format!("SELECT day, city FROM [{PROJECT}:warehouse.order_lines]");
    dataset.add(catalogue::view(dataset.table_id("orders_legacy"), columns[..2].to_vec(), &legacy, true, CREATED));

    for (name, format, uri) in [
        ("targets_sheet", "GOOGLE_SHEETS", "https://docs.google.com/spreadsheets/d/1sandbox"),
        ("access_logs", "NEWLINE_DELIMITED_JSON", "gs://nordwind-logs/access/*.json"),
    ] {
        let table = RowsTable::new(dataset.table_id(name), order_schema(), move || order_rows(seed, today));
        let mut entry = Entry::new(table, CREATED);
        entry.kind = Kind::External { format, uri };
        dataset.add(entry);
    }

    let salaries = |rows: Vec<Row>| RowsTable::of(dataset.table_id("salaries"), salary_schema(), rows);
    let mut entry = Entry::new(salaries(salary_rows()), CREATED);
    let through: Vec<Row> = salary_rows().into_iter().filter(|row| row[1] == Value::from("Berlin")).collect();
    entry.let_through = Some(Arc::new(salaries(through)));
    dataset.add(entry.described("Row access policies let the rows of Berlin through"));

    let mut people = salary_schema();
    people[2].policy_tags = vec!["projects/acp-sandbox/locations/us/taxonomies/1/policyTags/2".into()];
    let people = RowsTable::new(dataset.table_id("people"), people, salary_rows);
    dataset.add(Entry::new(people, CREATED).described("The column salary is protected by a policy tag"));

    let connection = "projects/acp-sandbox/locations/us/connections/functions";
    let routines = [
        catalogue::routine(
            dataset,
            "add_tax",
            "SQL",
            Type::Float64,
            json!({"definitionBody": "x * 1.19", "determinismLevel": "DETERMINISTIC"}),
        ),
        catalogue::routine(
            dataset,
            "slugify",
            "JAVASCRIPT",
            Type::String,
            json!({"definitionBody": "return String(x);"}),
        ),
        catalogue::routine(
            dataset,
            "classify",
            "PYTHON",
            Type::String,
            json!({"definitionBody": "def classify(x): ..."}),
        ),
        catalogue::routine(
            dataset,
            "remote_score",
            "",
            Type::Float64,
            json!({"remoteFunctionOptions": {"endpoint": "https://score.nordwind.example/", "connection": connection}}),
        ),
    ];
    dataset.routines.extend(routines);
}

fn order_schema() -> Vec<Field> {
    let mut fields = vec![
        Field::new("day", Type::Date),
        Field::new("order_id", Type::Int64),
        Field::new("city", Type::String),
        Field::new("amount", Type::Float64),
        Field::new("ordered_at", Type::Timestamp),
        Field::new(
            "lines",
            Type::record([Field::new("sku", Type::String), Field::new("quantity", Type::Int64)]).array(),
        ),
    ];
    fields[1].required = true;
    fields[3].description = Some("Gross amount in EUR".into());
    fields
}

fn order_rows(seed: u64, today: i32) -> Vec<Row> {
    let days = today - DAYS..today;
    days.flat_map(|day| (0..ORDERS_A_DAY).map(move |number| order(seed, day, number))).collect()
}

fn order(seed: u64, day: i32, number: u64) -> Row {
    let luck = mix(seed ^ 0x0DE5, u64::from(day.unsigned_abs()) * ORDERS_A_DAY + number);
    let second = (luck >> 20) % 86_400;
    let lines = 1 + luck % 3;
    let line = |n: u64| {
        Value::record([Value::from(format!("SKU-{:04}", 1_000 + (luck >> n) % 32)), Value::Int64((1 + n) as i64)])
    };
    vec![
        Value::Date(day),
        Value::Int64(i64::from(day) * 1_000 + number as i64),
        Value::from(CITIES[(luck >> 8) as usize % CITIES.len()]),
        Value::Float64((1_000 + (luck >> 12) % 50_000) as f64 / 100.0),
        Value::Timestamp((i64::from(day) * 86_400 + second as i64) * MICROS),
        Value::array((0..lines).map(line)),
    ]
}

fn customers(dataset: &Dataset, seed: u64, count: u64) -> Entry {
    let fields = vec![
        Field::new("customer_id", Type::Int64),
        Field::new("name", Type::String),
        Field::new("city", Type::String),
        Field::new("since", Type::Date),
    ];
    let row = move |number: u64| {
        let luck = mix(seed ^ 0xC057, number);
        vec![
            Value::Int64(number as i64),
            Value::from(format!("Customer {number:05}")),
            Value::from(CITIES[luck as usize % CITIES.len()]),
            Value::Date(18_000 + i32::try_from(luck >> 8 & 0x7ff).unwrap_or(0)),
        ]
    };
    let table = RowsTable::new(dataset.table_id("customers"), fields, move || (0..count).map(row).collect());
    Entry::new(table, CREATED)
}

fn salary_schema() -> Vec<Field> {
    vec![Field::new("name", Type::String), Field::new("city", Type::String), Field::new("salary", Type::Numeric)]
}

fn salary_rows() -> Vec<Row> {
    (0..60_usize)
        .map(|n| {
            let salary = Value::Numeric(Arc::new(bigdecimal::BigDecimal::from(40_000 + n as i64 * 500)));
            vec![Value::from(format!("Person {n:02}")), Value::from(CITIES[n % CITIES.len()]), salary]
        })
        .collect()
}

/// Its partitions are days of ingestion, which are in no column.
fn ingested(dataset: &Dataset, seed: u64, today: i32) -> Entry {
    let fields = vec![Field::new("page", Type::String), Field::new("hits", Type::Int64)];
    let row = move |n: i32| {
        let luck = mix(seed ^ 0x1297, n.unsigned_abs().into());
        vec![Value::from(format!("/page-{}", luck % 40)), Value::Int64((luck >> 8 & 0xff) as i64)]
    };
    let make = move || ((today - DAYS) * 20..today * 20).map(row).collect();
    let mut entry = Entry::new(RowsTable::new(dataset.table_id("ingested"), fields, make), CREATED);
    entry.days = Some(Days { field: None, require_filter: false });
    entry.described("Partitioned by the time of ingestion")
}

/// Names that look like shards and aren't, and shards that have changed.
fn sharding(today: i32) -> Dataset {
    let mut dataset = Dataset::new(PROJECT, "sharding", "US", "Names with dates at their end");
    let suffix = |day: i32| date_of(day).to_string().replace('-', "");
    let plain = |dataset: &Dataset, name: &str, kind: Type, value: Value| {
        let fields = vec![Field::new("day", Type::Date), Field::new("value", kind)];
        Entry::new(RowsTable::of(dataset.table_id(name), fields, vec![vec![Value::Date(today), value]]), CREATED)
    };
    let number = |n: i32| Value::Int64(i64::from(n));
    // Copies of a table that goes on: no shards.
    dataset.add(plain(&dataset, "report", Type::Int64, number(0)));
    // A column that changed its type: queries over all of them fail.
    for ago in 1..=6 {
        let day = suffix(today - ago);
        dataset.add(plain(&dataset, &format!("report_{day}"), Type::Int64, number(ago)));
        let drifted = match ago {
            5.. => plain(&dataset, &format!("drifted_{day}"), Type::String, Value::from("n/a")),
            _ => plain(&dataset, &format!("drifted_{day}"), Type::Int64, number(ago)),
        };
        dataset.add(drifted);
        dataset.add(plain(&dataset, &format!("visits_{day}"), Type::Int64, number(ago)));
        if ago % 2 == 0 {
            dataset.add(plain(&dataset, &format!("gaps_{day}"), Type::Int64, number(ago)));
        }
    }
    // A view with the same prefix: no wildcard over it works.
    let columns = vec![Field::new("day", Type::Date), Field::new("value", Type::Int64)];
    let sql = format!("SELECT * FROM `{PROJECT}.sharding.visits_{}`", suffix(today - 1));
    dataset.add(catalogue::view(dataset.table_id("visits_latest"), columns, &sql, false, CREATED));
    // No dates, and one date alone.
    for name in ["invoice_20261399", "invoice_20260230", "invoice_12345678", "single_20260101"] {
        dataset.add(plain(&dataset, name, Type::Int64, number(1)));
    }
    dataset
}

/// More tables than a page of a list holds.
fn many() -> Dataset {
    let mut dataset = Dataset::new(PROJECT, "many", "US", "More tables than a page of a list holds");
    for number in 0..MANY_TABLES {
        let fields = vec![Field::new("n", Type::Int64)];
        let rows = vec![vec![Value::Int64(number as i64)]];
        dataset.add(Entry::new(RowsTable::of(dataset.table_id(&format!("t_{number:04}")), fields, rows), CREATED));
    }
    dataset
}
