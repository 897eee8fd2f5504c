//! GoogleSQL: a statement is prepared, which finds its errors, its types and what it reads (all that a dry run tells), and
//! then run. Only queries run; other statements are classified.
//!
//! What isn't in the subset is an error that says so ([`Reason::Unsupported`]), never a guess.

mod aggregate;
mod bind;
mod call;
mod cast;
mod catalog;
mod compare;
mod datetime;
mod error;
mod expr;
mod functions;
mod json;
mod lexer;
mod parse;
mod plan;
mod run;
mod scope;
mod statement;
#[cfg(test)]
mod tests;
pub(in crate::bigquery) mod text;
mod usage;
mod window;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use catalog::{Catalog, Partitioning, Row, Source, Table, TableId};
pub(crate) use error::{Reason, SqlError};

use super::schema::{Field, Type};
use super::value::Value;
use plan::{Body, Expr, From, Statement};
use run::Run;

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

/// A table that a statement reads, or the tables of a wildcard. A table that is named twice is there twice.
pub(crate) struct ReferencedTable {
    /// The name in the statement, made full; a wildcard ends with `*`.
    pub(crate) id: TableId,
    /// The table, or the tables of the wildcard that `_TABLE_SUFFIX` leaves over.
    pub(crate) scans: Vec<TableScan>,
    /// Whether this came in through a view.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests look at it"))]
    pub(crate) through_view: bool,
}

/// What is read of one table.
pub(crate) struct TableScan {
    pub(crate) table: Arc<dyn Table>,
    /// The rows: all, or those of the partitions that the filter leaves over.
    pub(crate) rows: Vec<Range<u64>>,
    /// Indexes of the top-level columns.
    pub(crate) columns: BTreeSet<usize>,
}

impl ReferencedTable {
    /// Logical bytes of the columns in the rows that are read.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |scan: &TableScan| {
            let pairs = scan.rows.iter().flat_map(|rows| scan.columns.iter().map(move |column| (rows, column)));
            pairs.map(|(rows, column)| scan.table.column_bytes(*column, rows.clone())).sum::<u64>()
        };
        self.scans.iter().map(of).sum()
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
    plan: Option<Arc<Statement>>,
}

/// A result. Rows are read from any index; those of a plain projection of one table are made when they are read.
pub(crate) struct Rows(Origin);

enum Origin {
    Made(Arc<[Row]>),
    Scan { statement: Arc<Statement>, skip: u64, count: u64 },
}

impl Rows {
    /// How many rows there are.
    pub(crate) fn len(&self) -> u64 {
        match &self.0 {
            Origin::Made(rows) => rows.len() as u64,
            Origin::Scan { count, .. } => *count,
        }
    }

    /// The rows from an index on.
    pub(crate) fn from(&self, index: u64) -> Box<dyn Iterator<Item = Row> + '_> {
        match &self.0 {
            Origin::Made(rows) => {
                let index = usize::try_from(index).unwrap_or(usize::MAX).min(rows.len());
                Box::new(rows[index..].iter().cloned())
            }
            Origin::Scan { statement, skip, count } => {
                let left = usize::try_from(count.saturating_sub(index)).unwrap_or(usize::MAX);
                Box::new(projected(statement, skip.saturating_add(index)).take(left))
            }
        }
    }
}

/// The block and the scan of a statement whose rows are its table's, in the same order.
fn plain_projection(statement: &Statement) -> Option<(&plan::Select, &plan::Scan, usize)> {
    let Body::Select(select) = &statement.query.body else { return None };
    let Some(From::Scan { scan, first }) = &select.from else { return None };
    let plain = select.filter.is_none()
        && select.group.is_none()
        && select.windows.is_empty()
        && !select.distinct
        && statement.query.order.is_empty()
        && select.outputs.iter().all(is_path);
    plain.then(|| (&**select, &statement.scans[*scan], *first))
}

fn is_path(expr: &Expr) -> bool {
    match expr {
        Expr::Column { .. } | Expr::Constant(_) => true,
        Expr::Field(record, _) => is_path(record),
        _ => false,
    }
}

fn follow(expr: &Expr, row: &[Value]) -> Value {
    match expr {
        Expr::Constant(value) => value.clone(),
        Expr::Column { slot, .. } => row[*slot].clone(),
        Expr::Field(record, index) => match follow(record, row) {
            Value::Struct(fields) => fields[*index].clone(),
            _ => Value::Null,
        },
        _ => Value::Null,
    }
}

/// The rows of a plain projection from one of its table's rows on.
fn projected(statement: &Statement, mut skip: u64) -> Box<dyn Iterator<Item = Row> + '_> {
    let Some((select, scan, first)) = plain_projection(statement) else { return Box::new(std::iter::empty()) };
    let mut ranges = Vec::new();
    for part in &scan.parts {
        for rows in &part.rows {
            let length = rows.end - rows.start;
            let skipped = skip.min(length);
            skip -= skipped;
            if skipped < length {
                ranges.push((part, rows.start + skipped..rows.end));
            }
        }
    }
    Box::new(ranges.into_iter().flat_map(move |(part, rows)| {
        part.rows(scan, rows).map(move |row| {
            let mut frame = vec![Value::Null; select.slots];
            part.place(scan, row, &mut frame[first..]);
            select.outputs.iter().map(|expr| follow(expr, &frame)).collect()
        })
    }))
}

/// Prepares a statement.
///
/// # Errors
/// What BigQuery would answer, for a dry run as for a real one.
pub(crate) fn prepare(sql: &str, session: &Session<'_>) -> Result<Prepared, SqlError> {
    on_a_deep_stack(|| prepare_here(sql, session))
}

/// Stack of the thread that prepares or runs a statement. Only what is used of it is ever taken.
const STACK: usize = 256 << 20;

/// Statements nest deeper than the stack of a worker thread.
fn on_a_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, SqlError> + Send) -> Result<T, SqlError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread =
            thread.map_err(|error| SqlError::unsupported(format_args!("no thread for the statement: {error}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn prepare_here(sql: &str, session: &Session<'_>) -> Result<Prepared, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let (statement_type, tokens) = statement::classify(&tokens, parse::end_of(sql))?;
    let mut prepared = Prepared {
        statement_type,
        schema: Vec::new(),
        tables: Vec::new(),
        views: Vec::new(),
        routines: Vec::new(),
        undeclared: Vec::new(),
        deterministic: statement_type == "SELECT",
        plan: None,
    };
    if statement_type != "SELECT" {
        return Ok(prepared);
    }
    let query = parse::query(tokens, parse::end_of(sql))?;
    let (statement, outputs, found) = bind::Binder::new(session).statement(&query)?;
    prepared.schema = columns(outputs)?;
    for (scan, read) in statement.scans.iter().zip(found.reads) {
        let scans = scan.parts.iter().map(|part| {
            let columns = scan.columns.iter().filter_map(|column| part.column(*column)).collect();
            TableScan { table: Arc::clone(&part.table), rows: part.rows.clone(), columns }
        });
        prepared.tables.push(ReferencedTable { id: read.id, scans: scans.collect(), through_view: read.through_view });
    }
    prepared.views = found.views;
    prepared.routines = found.routines.into_iter().collect();
    prepared.undeclared =
        found.undeclared.into_iter().map(|(name, kind)| (name, kind.unwrap_or(Type::Int64))).collect();
    for (name, _) in &mut prepared.undeclared {
        if name.starts_with('?') {
            name.clear();
        }
    }
    prepared.deterministic = !found.changes_with_time && prepared.routines.is_empty();
    prepared.plan = Some(Arc::new(statement));
    Ok(prepared)
}

/// The columns of a result: those without a name get one, those with the same name are refused.
fn columns(outputs: Vec<bind::Output>) -> Result<Vec<Field>, SqlError> {
    let mut unnamed = 0;
    let mut fields: Vec<Field> = Vec::new();
    for output in outputs {
        let name = if output.name.is_empty() { format!("f{unnamed}_") } else { output.name.to_string() };
        unnamed += usize::from(output.name.is_empty());
        if fields.iter().any(|field| field.name.eq_ignore_ascii_case(&name)) {
            return Err(SqlError::query(format!(
                "Duplicate column names in the result are not supported. Found duplicate(s): {name}"
            )));
        }
        fields.push(Field::new(&name, output.kind));
    }
    Ok(fields)
}

impl Prepared {
    /// Logical bytes that the statement reads.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(ReferencedTable::bytes).sum()
    }

    /// Runs a `SELECT` to its result.
    ///
    /// # Errors
    /// When a value doesn't fit an operation, a parameter has no value, or the statement is no `SELECT`.
    pub(crate) fn run(&self) -> Result<Rows, SqlError> {
        let Some(statement) = &self.plan else {
            return Err(SqlError::unsupported(format_args!("running a statement of type {}", self.statement_type)));
        };
        if let Some((_, scan, _)) = plain_projection(statement) {
            let all: u64 = scan.parts.iter().flat_map(|part| &part.rows).map(|rows| rows.end - rows.start).sum();
            let skip = statement.query.offset.min(all);
            let count = (all - skip).min(statement.query.limit.unwrap_or(u64::MAX));
            return Ok(Rows(Origin::Scan { statement: Arc::clone(statement), skip, count }));
        }
        let rows = on_a_deep_stack(|| Run::new(statement).rows())?;
        for (column, field) in self.schema.iter().enumerate().filter(|(_, field)| field.kind.element().is_some()) {
            let has_null =
                |row: &Row| matches!(&row[column], Value::Array(elements) if elements.contains(&Value::Null));
            if rows.iter().any(has_null) {
                let name = &field.name;
                return Err(SqlError::query(format!(
                    "Array cannot have a null element; error in writing field {name}"
                )));
            }
        }
        Ok(Rows(Origin::Made(rows.into())))
    }
}
