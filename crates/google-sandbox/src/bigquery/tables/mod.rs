//! The tables themselves: rows that are made when they are first read, and how large they are.

pub(crate) mod analytics;
pub(crate) mod bulk;
pub(crate) mod every_type;
pub(crate) mod search;
pub(crate) mod shop;

use std::ops::Range;
use std::sync::OnceLock;

use super::schema::Field;
use super::sql::{Partitioning, Row, Table, TableId};
use super::value::Value;

type Make = Box<dyn Fn() -> Vec<Row> + Send + Sync>;

/// A table whose rows are kept in memory, once they have been made.
pub(crate) struct RowsTable {
    id: TableId,
    schema: Vec<Field>,
    make: Make,
    rows: OnceLock<Vec<Row>>,
    count: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
    partitions: Option<PartitionBy>,
}

/// The column that cuts a table into partitions; its rows are in the order of that column.
#[derive(Clone, Copy)]
struct PartitionBy {
    column: usize,
    require_filter: bool,
}

impl RowsTable {
    /// A table of these columns.
    pub(crate) fn new(id: TableId, schema: Vec<Field>, make: impl Fn() -> Vec<Row> + Send + Sync + 'static) -> Self {
        Self { id, schema, make: Box::new(make), rows: OnceLock::new(), count: None, partitions: None }
    }

    /// A table of rows that are there already.
    pub(crate) fn of(id: TableId, schema: Vec<Field>, rows: Vec<Row>) -> Self {
        let table = Self::new(id, schema, Vec::new);
        let _ = table.rows.set(rows);
        table
    }

    /// Says how many rows there are without making them.
    pub(crate) fn counted(mut self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.count = Some(Box::new(count));
        self
    }

    /// Cuts it into partitions: rows must be sorted by that column.
    pub(crate) fn partitioned_by(mut self, column: usize, require_filter: bool) -> Self {
        self.partitions = Some(PartitionBy { column, require_filter });
        self
    }

    /// All rows.
    pub(crate) fn all(&self) -> &[Row] {
        self.rows.get_or_init(&self.make)
    }

    fn slice(&self, rows: Range<u64>) -> &[Row] {
        let all = self.all();
        let bound = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(all.len());
        let (start, end) = (bound(rows.start), bound(rows.end));
        &all[start..end.max(start)]
    }
}

impl Table for RowsTable {
    fn id(&self) -> &TableId {
        &self.id
    }

    fn schema(&self) -> &[Field] {
        &self.schema
    }

    fn row_count(&self) -> u64 {
        match (&self.count, self.rows.get()) {
            (Some(count), None) => count(),
            _ => self.all().len() as u64,
        }
    }

    fn column_bytes(&self, column: usize, rows: Range<u64>) -> u64 {
        self.slice(rows).iter().map(|row| logical_bytes(&row[column])).sum()
    }

    fn rows(&self, rows: Range<u64>, columns: Vec<usize>) -> Box<dyn Iterator<Item = Row> + '_> {
        let wanted = move |row: &Row| columns.iter().map(|column| row[*column].clone()).collect();
        Box::new(self.slice(rows).iter().map(wanted))
    }

    fn partitioning(&self) -> Option<Partitioning> {
        let by = self.partitions?;
        let mut partitions: Vec<(Value, Range<u64>)> = Vec::new();
        for (index, row) in self.all().iter().enumerate() {
            let index = index as u64;
            let value = &row[by.column];
            match partitions.last_mut() {
                Some((last, rows)) if last == value => rows.end = index + 1,
                _ => partitions.push((value.clone(), index..index + 1)),
            }
        }
        Some(Partitioning { column: by.column, partitions, require_filter: by.require_filter })
    }
}

/// The logical size of a value, by which queries are billed: nulls are free, texts have two bytes more than their UTF-8.
pub(crate) fn logical_bytes(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int64(_)
        | Value::Float64(_)
        | Value::Date(_)
        | Value::DateTime(_)
        | Value::Time(_)
        | Value::Timestamp(_) => 8,
        Value::Numeric(_) | Value::Interval(_) | Value::Range(_) => 16,
        Value::BigNumeric(_) => 32,
        Value::String(text) => 2 + text.len() as u64,
        Value::Bytes(bytes) => 2 + bytes.len() as u64,
        // 16 bytes and 24 for each vertex: the vertices of well-known text are one more than its commas.
        Value::Geography(text) => 16 + 24 * (1 + text.matches(',').count() as u64),
        Value::Json(json) => json.to_string().len() as u64,
        Value::Struct(fields) => fields.iter().map(logical_bytes).sum(),
        Value::Array(elements) => elements.iter().map(logical_bytes).sum(),
    }
}
