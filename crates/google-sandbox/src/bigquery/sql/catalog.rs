//! What a statement reads: the tables, views and routines that someone may see.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::error::SqlError;
use crate::bigquery::schema::Field;
use crate::bigquery::value::Value;

/// The full name of a table, a view or a routine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TableId {
    /// May hold a domain: `example.com:project`.
    pub(crate) project: Arc<str>,
    pub(crate) dataset: Arc<str>,
    pub(crate) table: Arc<str>,
}

impl TableId {
    /// The name of these parts.
    pub(crate) fn new(project: &str, dataset: &str, table: &str) -> Self {
        Self { project: project.into(), dataset: dataset.into(), table: table.into() }
    }
}

/// `project.dataset.table`; error messages write `project:dataset.table`.
impl fmt::Display for TableId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.project, self.dataset, self.table)
    }
}

/// What a name stands for.
pub(crate) enum Source {
    Table(Arc<dyn Table>),
    /// A view of GoogleSQL. Names in it have no default data set.
    View {
        sql: String,
    },
}

/// What `_TABLE_SUFFIX` is in a table of a wildcard, and the table.
pub(crate) type Shard = (String, Arc<dyn Table>);

/// The tables, views and routines that the asker may read. What they may not read is an error with its reason.
pub(crate) trait Catalog: Sync {
    /// What that name stands for.
    ///
    /// # Errors
    /// `notFound` (of the table, or of its data set), `accessDenied`, or what queries on it answer: a legacy view.
    fn find(&self, id: &TableId) -> Result<Source, SqlError>;

    /// The tables of a data set whose names start with `prefix`, in the order of their names, for a wildcard. The suffix
    /// is the rest of the name.
    ///
    /// # Errors
    /// As in [`Catalog::find`], and when the prefix matches a view.
    fn find_all(&self, project: &str, dataset: &str, prefix: &str) -> Result<Vec<Shard>, SqlError>;

    /// The routine of that name: its result's type. A statement that calls one can be prepared, but not run.
    ///
    /// # Errors
    /// `accessDenied`.
    fn routine(&self, id: &TableId) -> Result<Option<crate::bigquery::schema::Type>, SqlError>;
}

/// A row, or the wanted columns of one.
pub(crate) type Row = Vec<Value>;

/// A table whose rows are read by index.
pub(crate) trait Table: Send + Sync {
    fn id(&self) -> &TableId;

    /// The columns.
    fn schema(&self) -> &[Field];

    fn row_count(&self) -> u64;

    /// The logical size of one top-level column in these rows, as a dry run counts it.
    fn column_bytes(&self, column: usize, rows: Range<u64>) -> u64;

    /// These rows, with only the wanted top-level columns, in the order of `columns` (which may be empty).
    fn rows(&self, rows: Range<u64>, columns: Vec<usize>) -> Box<dyn Iterator<Item = Row> + '_>;

    /// How it is cut into partitions, if it is.
    fn partitioning(&self) -> Option<Partitioning> {
        None
    }
}

/// Partitions by the values of a column: a statement whose `WHERE` rules out a value doesn't read its rows. Only dates and integers
/// rule out; partitions of timestamps are read whole.
#[derive(Clone, Debug)]
pub(crate) struct Partitioning {
    /// Index of the column.
    pub(crate) column: usize,
    /// The value that a partition's rows have (the start of the day, for timestamps), and its rows.
    pub(crate) partitions: Vec<(Value, Range<u64>)>,
    /// A statement without a filter on the column is refused.
    pub(crate) require_filter: bool,
}
