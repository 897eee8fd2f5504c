//! One SELECT of SQLite over the datasets that it names (16.4, 16.6). The database is in memory and lives for one query; it
//! holds only the columns that the query reads.
//!
//! How cells become values: an empty field is NULL; integers are 64-bit integers and numbers are 64-bit floats, but a column
//! with a value that these would round is text, digit for digit, and the answer says so; booleans are 1 and 0; dates, times
//! and JSON are text.
//!
//! Nothing but reading passes: the first word is looked at, SQLite's authorizer refuses whatever is no SELECT, and SQLite
//! itself says whether the statement would write.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use acp_host::datasets::{self, Dataset, DatasetError};
use acp_host::foreign::{self, common_type, is_exact_float, is_plain_name, type_of, unique_names};
use acp_host::store::{self, DatasetMeta, NewDataset};
use acp_protocol::error::{ErrorCode, ErrorPayload};
use acp_protocol::result::{ColumnType, ExtractionModelResponse, Header};
use jiff::ZonedDateTime;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// Rows of a result that the model sees (16.4).
pub(crate) const SHOWN: usize = 50;
/// Most bytes of one value.
const VALUE_MAX: i32 = 64 * 1024 * 1024;
/// Steps of SQLite's machine between two looks at the clock.
const STEPS: i32 = 10_000;
/// Rows loaded between two looks at the clock.
const ROWS: u64 = 4096;
/// Names that an error offers.
const OFFERED: usize = 8;

/// What a query may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// From the first row that is loaded to the last that is written.
    pub(crate) time: Duration,
    /// Bytes of memory for SQLite: what is loaded, and what sorting and grouping hold. The process shares it.
    pub(crate) memory: u64,
    /// Bytes of the result as CSV.
    pub(crate) result: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), memory: 1 << 30, result: 512 << 20 }
    }
}

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryError {
    /// The kind, one of 12.1.
    pub(crate) code: ErrorCode,
    /// What to change.
    pub(crate) message: String,
}

impl QueryError {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// As tools answer it (12.1).
    pub(crate) fn payload(&self) -> ErrorPayload {
        ErrorPayload {
            code: self.code.code().into(),
            name: self.code.name().to_owned(),
            message: self.message.clone(),
            data: None,
        }
    }
}

impl std::fmt::Display for QueryError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for QueryError {}

/// What a query gave.
#[derive(Debug)]
pub(crate) struct Answer {
    /// For the model: the first rows.
    pub(crate) response: ExtractionModelResponse,
    /// The dataset that holds the whole result; `None` where it has no rows and no name was asked for.
    pub(crate) stored: Option<Box<DatasetMeta>>,
}

/// Runs a query over the datasets of an `acp-data` folder and stores its result there, as `save_as` or under a new id. Blocks,
/// so call it where blocking is allowed; `cancel` ends it.
pub(crate) fn query(
    folder: &Path,
    sql: &str,
    save_as: Option<&str>,
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<Answer, QueryError> {
    check_name(folder, save_as)?;
    check_first_word(sql)?;
    let stop = Stop { deadline: Instant::now() + limits.time, limits: *limits, cancel: cancel.clone() };
    let guard = Guard::default();
    let connection = connect(&stop, &guard).map_err(|error| stop.explain(&error))?;
    let query = Query { connection: &connection, guard: &guard, stop: &stop, sql };
    let mut tables = query.name_tables(folder)?;
    for table in &mut tables {
        table.load(&query)?;
    }
    let mut answer = query.run(folder, save_as)?;
    let mut warnings: Vec<String> = tables.iter().filter_map(Table::text_note).collect();
    warnings.extend(answer.response.warnings.take().unwrap_or_default());
    answer.response.warnings = Some(warnings).filter(|warnings| !warnings.is_empty());
    Ok(answer)
}

/// A name for a result must need no quotes, and may only replace another result.
fn check_name(folder: &Path, save_as: Option<&str>) -> Result<(), QueryError> {
    let Some(name) = save_as else { return Ok(()) };
    if !is_plain_name(name) || name.len() > 100 {
        return Err(invalid(
            "save_as must be a name of lower-case letters, digits and _ that starts with a letter and is no word of SQL.",
        ));
    }
    match datasets::find(folder, name) {
        Ok(dataset) if dataset.meta.origin == store::ORIGIN_QUERY => Ok(()),
        Err(DatasetError::NotFound(_)) => Ok(()),
        // What can't be read may be worth more than a result.
        _ => Err(invalid(format!(
            "There is a dataset {name} that is no result of acp_query, so it can't be replaced. Choose another save_as."
        ))),
    }
}

fn check_first_word(sql: &str) -> Result<(), QueryError> {
    let word = first_word(sql);
    match word.to_ascii_lowercase().as_str() {
        "select" | "with" | "values" => Ok(()),
        "" if sql.trim().is_empty() => Err(invalid("sql is empty. Write one SELECT.")),
        _ => Err(read_only(None)),
    }
}

/// The first word behind spaces and comments.
fn first_word(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        let behind = match rest.as_bytes() {
            [b'-', b'-', ..] => rest.split_once('\n').map(|(_, behind)| behind),
            [b'/', b'*', ..] => rest[2..].split_once("*/").map(|(_, behind)| behind),
            _ => break,
        };
        rest = behind.unwrap_or_default().trim_start();
    }
    rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default()
}

fn connect(stop: &Stop, guard: &Guard) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    connection.execute_batch(&format!(
        "PRAGMA hard_heap_limit = {}; PRAGMA temp_store = MEMORY; PRAGMA journal_mode = OFF;",
        stop.limits.memory
    ))?;
    // A misspelt column in double quotes must be an error, not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    let (stop, guard) = (stop.clone(), guard.clone());
    connection.progress_handler(STEPS, Some(move || stop.now()))?;
    connection.authorizer(Some(move |context: AuthContext<'_>| guard.allow(&context)))?;
    Ok(connection)
}

/// When to give up.
#[derive(Clone)]
struct Stop {
    deadline: Instant,
    limits: Limits,
    cancel: CancellationToken,
}

impl Stop {
    fn now(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() >= self.deadline
    }

    /// The failure, where it is time to give up.
    fn check(&self) -> Result<(), QueryError> {
        if self.now() { Err(self.failure()) } else { Ok(()) }
    }

    fn failure(&self) -> QueryError {
        if self.cancel.is_cancelled() {
            return QueryError::new(ErrorCode::UpstreamError, "The query was cancelled.");
        }
        invalid(format!(
            "The query took more than {} s and was stopped. Read fewer rows or columns, filter before joining, and give \
             WITH RECURSIVE an end.",
            self.limits.time.as_secs_f64()
        ))
    }

    /// An error of SQLite in words that say what to change.
    fn explain(&self, error: &rusqlite::Error) -> QueryError {
        use rusqlite::ffi::ErrorCode as Sqlite;
        match error.sqlite_error_code() {
            Some(Sqlite::OperationInterrupted) => self.failure(),
            Some(Sqlite::OutOfMemory) => invalid(format!(
                "The query needs more than {} MiB of memory. Name the columns instead of *, aggregate or filter earlier, or \
                 split it.",
                self.limits.memory >> 20
            )),
            Some(Sqlite::AuthorizationForStatementDenied) => read_only(None),
            _ => invalid(format!("SQLite: {}.", message(error))),
        }
    }
}

/// What SQLite says, without the statement.
fn message(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } | rusqlite::Error::SqliteFailure(_, Some(msg)) => msg.clone(),
        other => other.to_string(),
    }
}

/// Lets a statement read, and notes what it reads and what was refused.
#[derive(Clone, Default)]
struct Guard(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// Whether it is the query that is prepared, not what fills the tables.
    watching: bool,
    /// Table and column; a column without name stands for the rows alone, as in `count(*)`.
    read: BTreeSet<(String, String)>,
    refused: Option<&'static str>,
}

impl Guard {
    fn watch(&self, watching: bool) {
        self.seen().watching = watching;
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allow(&self, context: &AuthContext<'_>) -> Authorization {
        let mut seen = self.seen();
        if !seen.watching {
            return Authorization::Allow;
        }
        let refused = match context.action {
            AuthAction::Select | AuthAction::Recursive => return Authorization::Allow,
            AuthAction::Read { table_name, column_name } => {
                seen.read.insert((table_name.to_ascii_lowercase(), column_name.to_lowercase()));
                return Authorization::Allow;
            }
            AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
                return Authorization::Allow;
            }
            AuthAction::Function { .. } => "load_extension",
            AuthAction::Attach { .. } | AuthAction::Detach { .. } => "ATTACH",
            AuthAction::Pragma { .. } => "PRAGMA",
            AuthAction::Insert { .. } => "INSERT",
            AuthAction::Update { .. } => "UPDATE",
            AuthAction::Delete { .. } => "DELETE",
            _ => "such a statement",
        };
        seen.refused.get_or_insert(refused);
        Authorization::Deny
    }

    fn refused(&self) -> Option<&'static str> {
        self.seen().refused
    }

    fn reads(&self, table: &str, column: &str) -> bool {
        self.seen().read.contains(&(table.to_owned(), column.to_lowercase()))
    }
}

struct Query<'a> {
    connection: &'a Connection,
    guard: &'a Guard,
    stop: &'a Stop,
    sql: &'a str,
}

impl<'a> Query<'a> {
    /// Prepares the statement, with nothing allowed but reading.
    fn prepare(&self) -> Result<Statement<'a>, rusqlite::Error> {
        self.guard.watch(true);
        self.connection.prepare(self.sql)
    }

    /// Does what the guard would refuse.
    fn unguarded<T>(&self, work: impl FnOnce(&'a Connection) -> rusqlite::Result<T>) -> Result<T, QueryError> {
        self.guard.watch(false);
        work(self.connection).map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &rusqlite::Error) -> QueryError {
        match (self.guard.refused(), error) {
            (Some(refused), _) => read_only(Some(refused)),
            (None, rusqlite::Error::MultipleStatement) => {
                invalid("There is more than one statement. Write one SELECT, without anything behind its semicolon.")
            }
            (None, rusqlite::Error::Empty) => invalid("There is no statement. Write one SELECT."),
            (None, error) => self.stop.explain(error),
        }
    }

    /// Creates an empty table for each dataset that the statement names: SQLite says which one it misses next.
    fn name_tables(&self, folder: &Path) -> Result<Vec<Table>, QueryError> {
        let mut tables: Vec<Table> = Vec::new();
        loop {
            let error = match self.prepare() {
                Ok(statement) => {
                    self.check_statement(&statement)?;
                    return Ok(tables);
                }
                Err(error) => error,
            };
            let text = message(&error);
            if let Some(name) = text.strip_prefix("no such table: ") {
                let name = name.strip_prefix("main.").unwrap_or(name).to_lowercase();
                let table = Table::of(dataset(folder, &name)?);
                if tables.iter().any(|other| other.dataset.meta.id == table.dataset.meta.id) {
                    return Err(unknown_dataset(folder, &name));
                }
                self.unguarded(|connection| connection.execute_batch(&table.create()))?;
                tables.push(table);
                continue;
            }
            if let Some(name) = text.strip_prefix("no such column: ") {
                return Err(unknown_column(&tables, name));
            }
            return Err(self.explain(&error));
        }
    }

    fn check_statement(&self, statement: &Statement<'_>) -> Result<(), QueryError> {
        if !statement.readonly() || statement.is_explain() != 0 || statement.column_count() == 0 {
            return Err(read_only(None));
        }
        Ok(())
    }

    /// Writes every row to a new dataset and keeps the first ones.
    fn run(&self, folder: &Path, save_as: Option<&str>) -> Result<Answer, QueryError> {
        let mut statement = self.prepare().map_err(|error| self.explain(&error))?;
        self.check_statement(&statement)?;
        let names = statement.column_names().map(str::to_owned);
        let (names, renamed) = unique_names(names);
        let mut columns: Vec<ResultColumn> =
            statement.columns().zip(names).map(|(column, name)| ResultColumn::new(name, column.decl_type())).collect();
        let now = ZonedDateTime::now();
        let mut file = new_dataset(folder, save_as, &headers_of(&columns), &now)?;
        let (mut shown, mut bytes) = (Vec::new(), 0);
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(|error| self.explain(&error))? {
            let mut cells = Vec::with_capacity(columns.len());
            for (place, column) in columns.iter_mut().enumerate() {
                cells.push(column.take(row.get_ref(place).map_err(|error| self.explain(&error))?)?);
            }
            for cell in &cells {
                file.field(&cell.text).map_err(unwritable)?;
                bytes += cell.text.len() as u64 + 1;
            }
            file.end_row().map_err(unwritable)?;
            if shown.len() < SHOWN {
                shown.push(as_json(&columns, &cells));
            }
            if bytes > self.stop.limits.result {
                return Err(invalid(format!(
                    "The result is larger than {} MiB. Aggregate, filter, or take fewer columns.",
                    self.stop.limits.result >> 20
                )));
            }
        }
        drop(rows);
        let mut warnings = renamed;
        warnings.extend(columns.iter().filter_map(ResultColumn::infinite_note));
        let headers = headers_of(&columns);
        let count = file.row_count();
        let stored = match (count, save_as) {
            (0, None) => None,
            _ => {
                let meta = self.describe(file.id(), headers.clone(), count, &now);
                file.finish(&meta).map_err(unwritable)?;
                Some(Box::new(meta))
            }
        };
        let returned = shown.len() as u64;
        let notice = match (count, returned) {
            (0, _) => "The query returned no rows.".to_owned(),
            (count, returned) if count == returned => format!("Showing all {count} rows."),
            (count, returned) => format!("Showing {returned} of {count} rows."),
        };
        let response = ExtractionModelResponse {
            notice,
            description: "Result of SQL over datasets of acp-data.".to_owned(),
            dates: Vec::new(),
            total_rows: count,
            returned_rows: returned,
            truncated: returned < count,
            columns: headers.into_iter().map(|header| header.name).collect(),
            rows: shown,
            totals: None,
            extra: None,
            warnings: Some(warnings),
            autocontext: None,
        };
        Ok(Answer { response, stored })
    }

    fn describe(&self, id: &str, headers: Vec<Header>, row_count: u64, now: &ZonedDateTime) -> DatasetMeta {
        DatasetMeta {
            id: id.to_owned(),
            origin: store::ORIGIN_QUERY.to_owned(),
            sql: Some(self.sql.to_owned()),
            headers,
            row_count,
            created_at: store::utc(now),
            ..DatasetMeta::default()
        }
    }
}

fn new_dataset(
    folder: &Path,
    save_as: Option<&str>,
    headers: &[Header],
    now: &ZonedDateTime,
) -> Result<NewDataset, QueryError> {
    match save_as {
        Some(id) => NewDataset::replacing(folder, id, headers),
        None => NewDataset::create(folder, &store::dataset_id("acp", "query", None, now), headers),
    }
    .map_err(unwritable)
}

fn headers_of(columns: &[ResultColumn]) -> Vec<Header> {
    columns.iter().map(ResultColumn::header).collect()
}

/// The dataset that a name of the statement stands for.
fn dataset(folder: &Path, name: &str) -> Result<Dataset, QueryError> {
    match datasets::find(folder, name) {
        Ok(dataset) if dataset.meta.id == name => Ok(dataset),
        Ok(_) | Err(DatasetError::NotFound(_) | DatasetError::Outside(_)) => Err(unknown_dataset(folder, name)),
        Err(error) => Err(QueryError::new(ErrorCode::UpstreamError, error.to_string())),
    }
}

/// A dataset as a table of the database.
struct Table {
    dataset: Dataset,
    /// Names that SQL can tell apart.
    names: Vec<String>,
    types: Vec<ColumnType>,
    /// Columns whose values numbers would round.
    as_text: Vec<usize>,
}

impl Table {
    fn of(dataset: Dataset) -> Self {
        let headers = &dataset.meta.headers;
        let (names, _) = unique_names(headers.iter().map(|header| header.name.clone()));
        let types = headers.iter().map(|header| header.column_type).collect();
        Self { dataset, names, types, as_text: Vec::new() }
    }

    fn create(&self) -> String {
        let columns: Vec<String> = self
            .names
            .iter()
            .zip(&self.types)
            .map(|(name, of)| format!("{} {}", quoted(name), declared(*of)))
            .collect();
        format!("CREATE TABLE {} ({})", quoted(&self.dataset.meta.id), columns.join(", "))
    }

    /// Loads the columns that the query reads. Where a column turns out to hold what numbers would round, once more with
    /// it as text.
    fn load(&mut self, query: &Query<'_>) -> Result<(), QueryError> {
        let id = &self.dataset.meta.id;
        let everything = joins_by_name(query.sql);
        let used: Vec<usize> =
            (0..self.names.len()).filter(|place| everything || query.guard.reads(id, &self.names[*place])).collect();
        let rounded = self.fill(query, &used)?;
        if rounded.is_empty() {
            return Ok(());
        }
        for place in &rounded {
            self.types[*place] = ColumnType::String;
        }
        self.as_text = rounded;
        query.unguarded(|connection| {
            connection.execute_batch(&format!("DROP TABLE {}; {}", quoted(id), self.create()))
        })?;
        self.fill(query, &used).map(drop)
    }

    /// Reads the whole file into the table; which columns have values that were not what their type says.
    fn fill(&self, query: &Query<'_>, used: &[usize]) -> Result<Vec<usize>, QueryError> {
        let meta = &self.dataset.meta;
        let table = quoted(&meta.id);
        let insert = match used {
            [] => format!("INSERT INTO {table} DEFAULT VALUES"),
            _ => {
                let names: Vec<String> = used.iter().map(|place| quoted(&self.names[*place])).collect();
                format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), vec!["?"; used.len()].join(", "))
            }
        };
        query.unguarded(|connection| connection.execute_batch("BEGIN"))?;
        let mut insert = query.unguarded(|connection| connection.prepare(&insert))?;
        let mut rounded = BTreeSet::new();
        let (mut rows, mut failure) = (0_u64, None);
        let read = self.dataset.read(|record| {
            let bound = used.iter().enumerate().try_for_each(|(parameter, place)| {
                let text = &record[*place];
                let value = value(text, self.types[*place]).unwrap_or_else(|| {
                    rounded.insert(*place);
                    ValueRef::Text(text.as_bytes())
                });
                insert.raw_bind_parameter(parameter + 1, ToSqlOutput::Borrowed(value))
            });
            rows += 1;
            let done = bound.and_then(|()| insert.raw_execute().map(drop)).map_err(|error| query.explain(&error));
            let done = if rows % ROWS == 0 { done.and_then(|()| query.stop.check()) } else { done };
            done.map_err(|error| {
                let message = error.message.clone();
                failure = Some(error);
                message
            })
        });
        match (failure, read) {
            (Some(failure), _) => return Err(failure),
            (None, Err(error)) => return Err(QueryError::new(ErrorCode::UpstreamError, error.to_string())),
            (None, Ok(())) => {}
        }
        drop(insert);
        query.unguarded(|connection| connection.execute_batch("COMMIT"))?;
        Ok(rounded.into_iter().collect())
    }

    fn text_note(&self) -> Option<String> {
        let names: Vec<&str> = self.as_text.iter().map(|place| self.names[*place].as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "In {} these columns are text, since they hold numbers with more digits than SQLite's: {}. CAST rounds them.",
                self.dataset.meta.id,
                names.join(", ")
            )
        })
    }
}

/// The type in a table's declaration. SQLite takes the affinity from it: numbers compare as numbers, whatever the query
/// writes, and dates stay text. It also tells the type of a result that is a plain column.
const fn declared(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Integer => "INTEGER",
        ColumnType::Number => "REAL",
        ColumnType::Boolean => "BOOLEAN",
        ColumnType::String => "TEXT",
        ColumnType::Date => "DATE_TEXT",
        ColumnType::Datetime => "DATETIME_TEXT",
        ColumnType::Json => "JSON_TEXT",
    }
}

/// A field as a value of its column's type; `None` where it is none that keeps its digits.
fn value(text: &str, column_type: ColumnType) -> Option<ValueRef<'_>> {
    if text.is_empty() {
        return Some(ValueRef::Null);
    }
    match column_type {
        ColumnType::Integer => text.parse().ok().map(ValueRef::Integer),
        ColumnType::Number if is_exact_float(text) => text.parse().ok().map(ValueRef::Real),
        ColumnType::Number => None,
        ColumnType::Boolean if text.eq_ignore_ascii_case("true") => Some(ValueRef::Integer(1)),
        ColumnType::Boolean if text.eq_ignore_ascii_case("false") => Some(ValueRef::Integer(0)),
        ColumnType::Boolean => None,
        ColumnType::String | ColumnType::Date | ColumnType::Datetime | ColumnType::Json => {
            Some(ValueRef::Text(text.as_bytes()))
        }
    }
}

/// Whether a join may compare columns of one name. SQLite's authorizer doesn't hear of those, so all columns are loaded then;
/// that the words may stand in a text does no harm.
fn joins_by_name(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    ["using", "natural"].iter().any(|word| sql.contains(word))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A column of the result.
struct ResultColumn {
    name: String,
    /// What a plain column of a dataset is declared as.
    declared: Option<String>,
    /// What all values so far have in common.
    found: Option<ColumnType>,
    infinite: u64,
}

/// A cell of the result: as CSV has it, and of which type; null has none.
struct ResultCell {
    text: String,
    of: Option<ColumnType>,
}

impl ResultColumn {
    fn new(name: String, declared: Option<&str>) -> Self {
        Self { name, declared: declared.map(str::to_owned), found: None, infinite: 0 }
    }

    fn take(&mut self, value: ValueRef<'_>) -> Result<ResultCell, QueryError> {
        let declared = self.declared.as_deref();
        let (text, of) = match value {
            ValueRef::Null => return Ok(ResultCell { text: String::new(), of: None }),
            ValueRef::Integer(flag @ (0 | 1)) if declared == Some("BOOLEAN") => {
                ((flag == 1).to_string(), ColumnType::Boolean)
            }
            ValueRef::Integer(number) => (number.to_string(), ColumnType::Integer),
            ValueRef::Real(number) => match serde_json::Number::from_f64(number) {
                Some(number) => (number.to_string(), ColumnType::Number),
                None => {
                    self.infinite += 1;
                    return Ok(ResultCell { text: String::new(), of: None });
                }
            },
            ValueRef::Text(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| self.binary())?;
                let of = match (declared, type_of(text)) {
                    (Some("JSON_TEXT"), _) if serde_json::from_str::<&RawValue>(text).is_ok() => ColumnType::Json,
                    (Some("TEXT"), _) => ColumnType::String,
                    (_, Some(of @ (ColumnType::Date | ColumnType::Datetime))) => of,
                    _ => ColumnType::String,
                };
                (text.to_owned(), of)
            }
            ValueRef::Blob(_) => return Err(self.binary()),
        };
        self.found = Some(self.found.map_or(of, |found| common_type(found, of)));
        Ok(ResultCell { text, of: Some(of) })
    }

    fn binary(&self) -> QueryError {
        invalid(format!("The column {:?} of the result holds bytes that are no text. Use hex() for them.", self.name))
    }

    fn header(&self) -> Header {
        let empty = match self.declared.as_deref() {
            Some("INTEGER") => ColumnType::Integer,
            Some("REAL") => ColumnType::Number,
            Some("BOOLEAN") => ColumnType::Boolean,
            Some("DATE_TEXT") => ColumnType::Date,
            Some("DATETIME_TEXT") => ColumnType::Datetime,
            Some("JSON_TEXT") => ColumnType::Json,
            _ => ColumnType::String,
        };
        let column_type = self.found.unwrap_or(empty);
        Header { name: self.name.clone(), column_type, role: None, description: None }
    }

    fn infinite_note(&self) -> Option<String> {
        (self.infinite > 0)
            .then(|| format!("Column {:?} has {} infinite values; they are null here.", self.name, self.infinite))
    }
}

/// A row as the model reads it: a JSON object.
fn as_json(columns: &[ResultColumn], cells: &[ResultCell]) -> Box<RawValue> {
    let mut row = String::from("{");
    for (column, cell) in columns.iter().zip(cells) {
        if row.len() > 1 {
            row.push(',');
        }
        row.push_str(&serde_json::Value::from(column.name.as_str()).to_string());
        row.push(':');
        match cell.of {
            None => row.push_str("null"),
            Some(ColumnType::String | ColumnType::Date | ColumnType::Datetime) => {
                row.push_str(&serde_json::Value::from(cell.text.as_str()).to_string());
            }
            Some(_) => row.push_str(&cell.text),
        }
    }
    row.push('}');
    RawValue::from_string(row).unwrap_or_default()
}

fn unknown_dataset(folder: &Path, name: &str) -> QueryError {
    let listing = datasets::list(folder).unwrap_or_default();
    let ids: Vec<&str> = listing.datasets.iter().map(|dataset| dataset.meta.id.as_str()).collect();
    let unusable = listing.unusable.iter().find(|(path, _)| foreign::id_of(path) == name);
    let hint = match (unusable, ids.is_empty()) {
        (Some((_, reason)), _) => format!(" There is a file of that name, but {reason}."),
        (None, true) => " There are no datasets yet: extract something with a tool of a source first.".to_owned(),
        (None, false) => format!(" Closest: {}. acp_datasets lists them all.", nearest(name, &ids).join(", ")),
    };
    QueryError::new(ErrorCode::TableNotFound, format!("There is no dataset {name}.{hint}"))
}

fn unknown_column(tables: &[Table], name: &str) -> QueryError {
    let wanted = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
    let names: Vec<&str> = tables.iter().flat_map(|table| table.names.iter().map(String::as_str)).collect();
    let hint = match names.is_empty() {
        true => String::new(),
        false => format!(" Closest: {}.", nearest(wanted, &names).join(", ")),
    };
    invalid(format!("There is no column {name} in what the query reads.{hint} Texts are written in 'single quotes'."))
}

/// The names most like another, best first.
fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let mut ranked: Vec<(f64, &str)> =
        names.iter().map(|name| (strsim::jaro_winkler(&wanted.to_lowercase(), &name.to_lowercase()), *name)).collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0));
    ranked.dedup_by(|one, other| one.1 == other.1);
    ranked.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

fn invalid(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorCode::InvalidArguments, message)
}

fn read_only(refused: Option<&str>) -> QueryError {
    let what = refused.map_or_else(String::new, |refused| format!(" ({refused} is refused)"));
    QueryError::new(
        ErrorCode::ReadOnlyViolation,
        format!("Datasets are read-only: acp_query runs one SELECT or WITH … SELECT and nothing else{what}."),
    )
}

fn unwritable(error: std::io::Error) -> QueryError {
    QueryError::new(ErrorCode::UpstreamError, format!("The result can't be stored in acp-data: {error}."))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A folder of datasets.
    struct Data(tempfile::TempDir);

    impl Data {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            Self(folder)
        }

        fn run(&self, sql: &str) -> Result<Answer, QueryError> {
            self.save(sql, None)
        }

        fn save(&self, sql: &str, save_as: Option<&str>) -> Result<Answer, QueryError> {
            query(self.0.path(), sql, save_as, &Limits::default(), &CancellationToken::new())
        }

        fn rows(&self, sql: &str) -> Value {
            let answer = self.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            answer.response.rows.iter().map(|row| serde_json::from_str::<Value>(row.get()).unwrap()).collect()
        }

        fn refused(&self, sql: &str) -> QueryError {
            self.run(sql).map(|answer| panic!("{sql}: {answer:?}")).unwrap_err()
        }
    }

    fn sales() -> Data {
        Data::new(&[
            (
                "sales.csv",
                "day,units,amount,flag,zip\n2026-07-01,2,1.5,true,08001\n2026-07-02,3,,false,28001\n2026-08-01,5,10,,\n",
            ),
            ("shops.csv", "zip;name\n08001;Rambla\n28001;Sol\n"),
        ])
    }

    #[test]
    fn names_are_datasets_and_values_have_types() {
        let data = sales();
        assert_eq!(
            data.rows("SELECT strftime('%m', day) AS month, SUM(units) AS units, AVG(amount) AS average FROM sales GROUP BY month"),
            json!([{"month": "07", "units": 5, "average": 1.5}, {"month": "08", "units": 5, "average": 10.0}])
        );
        assert_eq!(
            data.rows(
                "SELECT s.name, SALES.units, flag FROM sales JOIN Shops AS s USING (zip) WHERE units > '1' ORDER BY 2"
            ),
            json!([{"name": "Rambla", "units": 2, "flag": true}, {"name": "Sol", "units": 3, "flag": false}])
        );
        assert_eq!(data.rows("SELECT COUNT(*) AS n, COUNT(amount) AS some FROM sales"), json!([{"n": 3, "some": 2}]));
        assert_eq!(
            data.rows("-- a remark\n /* another */ WITH sales AS (SELECT 1 AS x) SELECT * FROM sales;"),
            json!([{"x": 1}])
        );
        assert_eq!(
            data.rows("SELECT a.units, b.units FROM sales a, sales b WHERE a.day < b.day AND b.units = 3"),
            json!([{"units": 2, "units_2": 3}])
        );
    }

    /// Only what a query reads is loaded: columns that are left out would be NULL.
    #[test]
    fn a_column_is_loaded_however_it_is_read() {
        let data = Data::new(&[
            ("a.csv", "k,x,y\n1,10,p\n2,20,q\n"),
            ("b.csv", "k,z\n1,100\n2,200\n"),
            ("c.csv", "code,w\n1,7\n2,8\n"),
            ("d.csv", "only\n20\n"),
        ]);
        for (sql, expected) in [
            ("SELECT z FROM a JOIN b USING (k) WHERE x = 20", json!([{"z": 200}])),
            ("SELECT z FROM a NATURAL JOIN b ORDER BY x DESC LIMIT 1", json!([{"z": 200}])),
            ("WITH e AS (SELECT code AS k FROM c) SELECT SUM(x) AS s FROM a JOIN e USING (k)", json!([{"s": 30}])),
            ("SELECT l.x FROM a AS l JOIN a AS r USING (k) WHERE r.y = 'q'", json!([{"x": 20}])),
            ("SELECT y FROM a WHERE x IN d", json!([{"y": "q"}])),
            ("SELECT y FROM a WHERE (k, x) IN (SELECT k, 20 FROM b)", json!([{"y": "q"}])),
            ("SELECT (SELECT w FROM c WHERE code = a.k) AS w FROM a ORDER BY x DESC LIMIT 1", json!([{"w": 8}])),
            ("SELECT y FROM (SELECT * FROM a ORDER BY x DESC) LIMIT 1", json!([{"y": "q"}])),
            ("SELECT a.* FROM a, b WHERE a.k = b.k AND z = 100", json!([{"k": 1, "x": 10, "y": "p"}])),
            (
                "SELECT y, SUM(x) OVER (ORDER BY k) AS s FROM a WINDOW w AS (ORDER BY k)",
                json!([{"y": "p", "s": 10}, {"y": "q", "s": 30}]),
            ),
            ("SELECT COUNT(*) AS n FROM a GROUP BY y HAVING MAX(x) > 10", json!([{"n": 1}])),
            ("SELECT 1 AS one FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND z > 100)", json!([{"one": 1}])),
            ("SELECT y FROM a UNION SELECT z FROM b ORDER BY 1 LIMIT 1", json!([{"y": 100}])),
            ("SELECT value FROM a, json_each('[' || x || ']') WHERE y = 'q'", json!([{"value": 20}])),
        ] {
            assert_eq!(data.rows(sql), expected, "{sql}");
        }
    }

    /// B-16.6-05: whatever is no SELECT is refused as a write, however it is hidden.
    #[test]
    fn nothing_but_reading_passes() {
        let data = sales();
        let before = std::fs::read(data.0.path().join("sales.csv")).unwrap();
        for sql in [
            "DELETE FROM sales",
            "INSERT INTO nowhere VALUES (1)",
            "DROP TABLE sales",
            "CREATE TABLE x (a)",
            "UPDATE sales SET units = 1",
            "PRAGMA table_info(sales)",
            "ATTACH 'x.db' AS x",
            "VACUUM INTO 'x.db'",
            "EXPLAIN SELECT 1",
            "BEGIN",
            "REPLACE INTO sales VALUES (1)",
            "WITH x AS (SELECT 1) DELETE FROM sales",
            "WITH x AS (SELECT 1) INSERT INTO sales SELECT * FROM x",
            "WITH x AS (SELECT 1) UPDATE sales SET units = 1",
            "SELECT load_extension('x')",
            "REINDEX",
            "ANALYZE",
            "SAVEPOINT x",
            "SELECT * FROM pragma_table_info('sales')",
            "/**/ DELETE FROM sales",
        ] {
            let error = data.refused(sql);
            assert_eq!(error.code, ErrorCode::ReadOnlyViolation, "{sql}: {error}");
        }
        for sql in
            ["SELECT 1; SELECT 2", "SELECT 1; DELETE FROM sales", "", " -- nothing", "SELECT", "SELECT 'never closed"]
        {
            let error = data.refused(sql);
            assert!(matches!(error.code, ErrorCode::InvalidArguments | ErrorCode::ReadOnlyViolation), "{sql}: {error}");
        }
        assert_eq!(std::fs::read(data.0.path().join("sales.csv")).unwrap(), before);
    }

    #[test]
    fn misspelt_names_are_met_with_the_right_ones() {
        let data = sales();
        let error = data.refused("SELECT * FROM sale");
        assert!(error.code == ErrorCode::TableNotFound && error.message.contains("Closest: sales"), "{error}");
        for sql in ["SELECT unit FROM sales", "SELECT sales.unit FROM sales", "SELECT \"unit\" FROM sales"] {
            let error = data.refused(sql);
            assert!(
                error.code == ErrorCode::InvalidArguments && error.message.contains("Closest: units"),
                "{sql}: {error}"
            );
        }
        let error = data.refused("SELECT * FROM a.b");
        assert!(error.message.contains("no dataset a.b"), "{error}");
        let error = Data::new(&[]).refused("SELECT * FROM sales");
        assert!(error.message.contains("no datasets yet"), "{error}");
        let broken = Data::new(&[("sales.csv", "a,b\n1\n")]).refused("SELECT * FROM sales");
        assert!(broken.message.contains("line 2"), "{broken}");
    }

    /// Digits that SQLite's numbers can't hold come back as they were.
    #[test]
    fn numbers_keep_their_digits_or_stay_text() {
        let folder = Data::new(&[]);
        let headers = ["i", "n", "t"].map(|name| Header {
            name: name.to_owned(),
            column_type: if name == "i" { ColumnType::Integer } else { ColumnType::Number },
            role: None,
            description: None,
        });
        let mut file = NewDataset::create(folder.0.path(), "exact", &headers).unwrap();
        for row in [["9223372036854775807", "0.1", "1"], ["1", "1e3", "12345678901234567890.123456789"]] {
            row.iter().for_each(|cell| file.field(cell).unwrap());
            file.end_row().unwrap();
        }
        let stop = Stop {
            deadline: Instant::now() + Duration::from_secs(9),
            limits: Limits::default(),
            cancel: CancellationToken::new(),
        };
        let guard = Guard::default();
        let connection = connect(&stop, &guard).unwrap();
        let query = Query { connection: &connection, guard: &guard, stop: &stop, sql: "" };
        let meta = query.describe("exact", headers.to_vec(), 2, &ZonedDateTime::now());
        file.finish(&meta).unwrap();
        let answer = folder.run("SELECT i, n, t FROM exact ORDER BY n").unwrap();
        let rows: Vec<&str> = answer.response.rows.iter().map(|row| row.get()).collect();
        assert_eq!(
            rows,
            [
                r#"{"i":9223372036854775807,"n":0.1,"t":"1"}"#,
                r#"{"i":1,"n":1000.0,"t":"12345678901234567890.123456789"}"#
            ]
        );
        let warnings = answer.response.warnings.unwrap().join("\n");
        assert!(warnings.contains("exact") && warnings.contains(": t."), "{warnings}");
        assert!(folder.run("SELECT n FROM exact").unwrap().response.warnings.is_none());
    }

    /// B-16.4-03: the whole result is a dataset, typed, and can be queried like any other.
    #[test]
    fn results_are_datasets() {
        let data = sales();
        let sql = "SELECT day, units * 2 AS twice, amount, flag, NULL AS none, zip, units || '' AS text, date(day, '+1 day') AS next FROM sales";
        let stored = data.save(sql, Some("doubled")).unwrap().stored.unwrap();
        let types: Vec<String> =
            stored.headers.iter().map(|header| format!("{}:{:?}", header.name, header.column_type)).collect();
        assert_eq!(
            types.join(" "),
            "day:Date twice:Integer amount:Number flag:Boolean none:String zip:String text:String next:Date"
        );
        assert_eq!((stored.id.as_str(), stored.origin.as_str(), stored.row_count), ("doubled", "query", 3));
        assert_eq!(stored.sql.as_deref(), Some(sql));
        assert_eq!(data.rows("SELECT SUM(twice) AS s FROM doubled WHERE zip = '08001'"), json!([{"s": 4}]));
        data.save("SELECT 7 AS seven", Some("doubled")).unwrap();
        assert_eq!(data.rows("SELECT * FROM doubled"), json!([{"seven": 7}]));
        let emptied = data.save("SELECT 7 AS seven WHERE 0", Some("doubled")).unwrap();
        assert_eq!(
            (emptied.response.notice.as_str(), emptied.stored.unwrap().row_count),
            ("The query returned no rows.", 0)
        );
        assert_eq!(data.rows("SELECT * FROM doubled"), json!([]));
        assert!(data.run("SELECT 1 AS one WHERE 0").unwrap().stored.is_none());
        for name in ["sales", "Sales", "order", "a-b", "../x", "", "1a", "año"] {
            let error = data.save("SELECT 1", Some(name)).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArguments, "{name}: {error}");
        }
    }

    #[test]
    fn the_model_sees_fifty_rows_and_the_file_has_all() {
        let data = Data::new(&[]);
        let sql = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 120) SELECT n FROM c";
        let Answer { response, stored } = data.run(sql).unwrap();
        assert_eq!((response.rows.len(), response.total_rows, response.truncated), (SHOWN, 120, true));
        assert_eq!(response.notice, "Showing 50 of 120 rows.");
        let stored = stored.unwrap();
        assert!(stored.id.starts_with("acp_query_2"), "{}", stored.id);
        let csv = std::fs::read_to_string(data.0.path().join(format!("{}.csv", stored.id))).unwrap();
        assert_eq!(csv.lines().count(), 121);
    }

    #[test]
    fn endless_and_huge_queries_end_with_a_reason() {
        let data = sales();
        let cancel = CancellationToken::new();
        let endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c";
        let quick = Limits { time: Duration::from_millis(50), ..Limits::default() };
        let error = query(data.0.path(), endless, None, &quick, &cancel).unwrap_err();
        assert!(error.message.contains("0.05 s"), "{error}");
        let small = Limits { result: 1000, ..Limits::default() };
        let rows = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c";
        let error = query(data.0.path(), rows, Some("huge"), &small, &cancel).unwrap_err();
        assert!(error.message.contains("larger than"), "{error}");
        let waiting = cancel.clone();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            waiting.cancel();
        });
        let error = query(data.0.path(), endless, None, &Limits::default(), &cancel).unwrap_err();
        assert!(error.message.contains("cancelled"), "{error}");
        canceller.join().unwrap();
        let names: Vec<_> = data.0.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "nothing is left behind: {names:?}");
    }

    #[test]
    fn what_is_no_text_or_number_is_told() {
        let data = sales();
        assert!(data.refused("SELECT x'ff00' AS b").message.contains("hex()"));
        assert!(data.refused("SELECT CAST(x'ff' AS TEXT) AS b").message.contains("hex()"));
        let answer = data.run("SELECT 9e999 AS big").unwrap();
        assert_eq!(answer.response.rows[0].get(), r#"{"big":null}"#);
        assert!(answer.response.warnings.unwrap()[0].contains("1 infinite"));
    }
}
