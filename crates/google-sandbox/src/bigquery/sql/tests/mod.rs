//! Tests of the SQL engine: against Google's own answers, and on tables of our own.

mod errors;
mod goldens;
mod tables;
mod values;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::{
    Catalog, Parameters, Partitioning, Prepared, Reason, Row, Session, Source, SqlError, Table, TableId, prepare,
};
use crate::bigquery::schema::{Field, Type};
use crate::bigquery::value::Value;

/// 2026-11-20T09:30:00Z.
const NOW: i64 = 1_795_167_000_000_000;

/// Tables by `dataset.table` in the project `p`.
#[derive(Default)]
struct Tables {
    tables: BTreeMap<String, Arc<dyn Table>>,
    views: BTreeMap<String, String>,
}

impl Tables {
    fn with(mut self, name: &str, fields: &[(&str, Type)], rows: Vec<Row>) -> Self {
        let fields = fields.iter().map(|(name, kind)| Field::new(name, kind.clone())).collect();
        let (dataset, table) = name.split_once('.').expect("a data set");
        let id = TableId::new("p", dataset, table);
        self.tables.insert(name.to_owned(), Arc::new(Stored { id, fields, rows, partitioning: None }));
        self
    }
}

struct Stored {
    id: TableId,
    fields: Vec<Field>,
    rows: Vec<Row>,
    partitioning: Option<Partitioning>,
}

impl Table for Stored {
    fn id(&self) -> &TableId {
        &self.id
    }

    fn schema(&self) -> &[Field] {
        &self.fields
    }

    fn row_count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Eight bytes for each value, whatever it is.
    fn column_bytes(&self, _column: usize, rows: Range<u64>) -> u64 {
        8 * (rows.end - rows.start)
    }

    fn rows(&self, rows: Range<u64>, columns: Vec<usize>) -> Box<dyn Iterator<Item = Row> + '_> {
        let rows = &self.rows[rows.start as usize..rows.end as usize];
        Box::new(rows.iter().map(move |row| columns.iter().map(|column| row[*column].clone()).collect()))
    }

    fn partitioning(&self) -> Option<Partitioning> {
        self.partitioning.clone()
    }
}

impl Catalog for Tables {
    fn find(&self, id: &TableId) -> Result<Source, SqlError> {
        let name = format!("{}.{}", id.dataset, id.table);
        if let Some(sql) = self.views.get(&name) {
            return Ok(Source::View { sql: sql.clone() });
        }
        let found = self.tables.get(&name).map(|table| Source::Table(Arc::clone(table)));
        found.ok_or_else(|| {
            SqlError::new(Reason::NotFound, format!("Not found: Table {}:{name} was not found", id.project))
        })
    }

    fn find_all(&self, _project: &str, dataset: &str, prefix: &str) -> Result<Vec<(String, Arc<dyn Table>)>, SqlError> {
        let prefix = format!("{dataset}.{prefix}");
        let found = self
            .tables
            .iter()
            .filter_map(|(name, table)| Some((name.strip_prefix(&prefix)?.to_owned(), Arc::clone(table))));
        Ok(found.collect())
    }

    fn routine(&self, id: &TableId) -> Result<Option<Type>, SqlError> {
        Ok((&*id.table == "remote_fn").then_some(Type::Float64))
    }
}

fn prepare_with(sql: &str, catalog: &Tables, parameters: &Parameters) -> Result<Prepared, SqlError> {
    prepare(sql, &Session { catalog, project: "p", default_dataset: None, parameters, now: NOW })
}

fn prepared(sql: &str, catalog: &Tables) -> Result<Prepared, SqlError> {
    prepare_with(sql, catalog, &Parameters::Named(Vec::new()))
}

fn rows_of(prepared: &Prepared) -> Result<Vec<Row>, SqlError> {
    let rows = prepared.run()?;
    let all: Vec<Row> = rows.from(0).collect();
    assert_eq!(all.len() as u64, rows.len());
    Ok(all)
}

/// The rows of a statement, each as the text of a struct.
fn run(sql: &str, catalog: &Tables) -> Vec<String> {
    let prepared = prepared(sql, catalog).unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let rows = rows_of(&prepared).unwrap_or_else(|error| panic!("{sql}\n{error}"));
    rows.into_iter().map(|row| Value::record(row).to_text()).collect()
}

fn error(sql: &str, catalog: &Tables) -> SqlError {
    let outcome = prepared(sql, catalog).and_then(|prepared| rows_of(&prepared));
    outcome.err().unwrap_or_else(|| panic!("no error: {sql}"))
}
