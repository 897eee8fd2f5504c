//! GoogleSQL: a statement is prepared, which finds its errors, its types and what it reads (all that a dry run tells), and
//! then run. Only queries run; other statements are classified.
//!
//! What isn't in the subset is an error that says so ([`Reason::Unsupported`]), never a guess.

mod catalog;
mod error;
pub(in crate::bigquery) mod text;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use catalog::{Catalog, Partitioning, Row, Source, Table, TableId};
pub(crate) use error::{Position, Reason, SqlError};

use super::schema::{Field, Type};
use super::value::Value;

/// What a statement is prepared with.
pub(crate) struct Session<'a> {
    pub(crate) catalog: &'a dyn Catalog,
    /// The project of names without one.
    pub(crate) project: &'a str,
    /// Project and data set of names without a data set.
    pub(crate) default_dataset: Option<(&'a str, &'a str)>,
    pub(crate) parameters: &'a Parameters,
    /// What `CURRENT_TIMESTAMP()` gives, in microseconds since 1970.
    pub(crate) now: i64,
}

/// Query parameters with their types and values: the values fit the types.
#[derive(Clone, Debug)]
pub(crate) enum Parameters {
    /// For `@name`; names are compared without case.
    Named(Vec<(String, Type, Value)>),
    /// For `?`.
    Positional(Vec<(Type, Value)>),
}

/// A table that a statement reads, or the tables of a wildcard.
pub(crate) struct ReferencedTable {
    /// The name in the statement, made full; a wildcard ends with `*`.
    pub(crate) id: TableId,
    /// The tables whose rows are read, and which rows: what `_TABLE_SUFFIX` or the partitioning column leave over.
    pub(crate) scans: Vec<(Arc<dyn Table>, Vec<Range<u64>>)>,
    /// Indexes of the top-level columns that are read.
    pub(crate) columns: BTreeSet<usize>,
    /// Whether this came in through a view.
    pub(crate) through_view: bool,
}

impl ReferencedTable {
    /// Logical bytes of the columns in the rows that are read.
    pub(crate) fn bytes(&self) -> u64 {
        let ranges = self.scans.iter().flat_map(|(table, ranges)| ranges.iter().map(move |rows| (table, rows)));
        let bytes = ranges
            .flat_map(|(table, rows)| self.columns.iter().map(|column| table.column_bytes(*column, rows.clone())));
        bytes.sum()
    }
}

/// A statement whose names and types are known.
pub(crate) struct Prepared {
    /// As `statistics.query.statementType`: `SELECT`, `SCRIPT`, `INSERT`, …
    pub(crate) statement_type: &'static str,
    /// The result's columns; empty unless it is a `SELECT`.
    pub(crate) schema: Vec<Field>,
    pub(crate) tables: Vec<ReferencedTable>,
    /// Views that are named in the statement or in other views.
    pub(crate) views: Vec<TableId>,
    pub(crate) routines: Vec<TableId>,
    /// Parameters without a value, and the types they would need. The name is empty for `?`.
    pub(crate) undeclared: Vec<(String, Type)>,
    /// Whether the same text gives the same result tomorrow, so that it may come out of a cache.
    pub(crate) deterministic: bool,
}

/// A result. Rows are read from any index; those of a plain projection of one table are made when they are read.
pub(crate) struct Rows {
    rows: Arc<[Row]>,
}

impl Rows {
    pub(crate) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The rows from an index on.
    pub(crate) fn from(&self, index: u64) -> Box<dyn Iterator<Item = Row> + '_> {
        let index = usize::try_from(index).unwrap_or(usize::MAX).min(self.rows.len());
        Box::new(self.rows[index..].iter().cloned())
    }
}

/// Prepares a statement.
///
/// # Errors
/// What BigQuery would answer, for a dry run as for a real one.
pub(crate) fn prepare(_sql: &str, _session: &Session<'_>) -> Result<Prepared, SqlError> {
    Err(SqlError::unsupported("statements"))
}

impl Prepared {
    /// Runs a `SELECT` to its result.
    ///
    /// # Errors
    /// When a value doesn't fit an operation, a parameter has no value, or the statement is no `SELECT`.
    pub(crate) fn run(&self) -> Result<Rows, SqlError> {
        Err(SqlError::unsupported("statements"))
    }
}
