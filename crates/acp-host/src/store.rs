//! An extraction becomes a dataset in an `acp-data` folder (11.3, 16.6).

use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use acp_protocol::JsonObject;
use acp_protocol::result::Header;
use jiff::ZonedDateTime;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::client::ToolAnswer;
use crate::table::{Cell, Table, TableError};

/// Longest part of an id that comes from a name, so that file names stay within what file systems allow.
const NAME_MAX: usize = 60;

/// Why a write stopped that was told to.
pub(crate) const CANCELLED: &str = "the call was cancelled";

/// Why nothing was stored.
#[derive(Debug)]
pub enum StoreError {
    /// The table can't be read or differs from its announcement.
    Table(TableError),
    /// The dataset can't be written.
    Io(io::Error),
    /// The answer is no extraction.
    NoData,
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Table(error) => write!(formatter, "{error}"),
            Self::Io(error) => write!(formatter, "the dataset can't be written: {error}"),
            Self::NoData => formatter.write_str("the answer holds no system_data"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<TableError> for StoreError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

/// What became of one table.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// It is a dataset now.
    Dataset {
        /// Name of the table, where the answer had several.
        table: Option<String>,
        /// The CSV file.
        csv: PathBuf,
        /// What the dataset is, as its `meta.json` says.
        meta: Box<DatasetMeta>,
    },
    /// It has no rows: there is no dataset, only something to mention (11.3).
    Empty {
        /// Name of the table, where the answer had several.
        table: Option<String>,
    },
}

/// Content of `<id>.meta.json` (16.6).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatasetMeta {
    /// Name of the dataset, also of its SQL table.
    pub id: String,
    /// [`ORIGIN_ACP`], [`ORIGIN_QUERY`] or [`ORIGIN_CSV`].
    pub origin: String,
    /// The source's name at the host; of an extraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The server; of an extraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp: Option<String>,
    /// The tool; of an extraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The statement; of a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// The resource.
    #[serde(default)]
    pub resource_id: Option<String>,
    /// The arguments in force, dates resolved: with the resource, enough to repeat the call.
    #[serde(default)]
    pub arguments: JsonObject,
    /// The arguments with the date markers of 8.9 and the window that stood for them, where the call had markers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<JsonObject>,
    /// Which table of the extraction it is, where there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// What the datasets of one extraction of several tables share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction: Option<String>,
    /// Title for people.
    #[serde(default)]
    pub title: Option<String>,
    /// How the data were obtained.
    #[serde(default)]
    pub description: Option<String>,
    /// Key dates.
    #[serde(default)]
    pub dates: Vec<String>,
    /// Typed columns.
    pub headers: Vec<Header>,
    /// Number of rows.
    pub row_count: u64,
    /// When it was stored, ISO 8601 in UTC.
    pub created_at: String,
}

/// Origin of an extraction.
pub const ORIGIN_ACP: &str = "acp";
/// Origin of what a query over datasets returned.
pub const ORIGIN_QUERY: &str = "query";
/// Origin of a file that a person put into the folder.
pub const ORIGIN_CSV: &str = "csv";

/// What the host knows about a call besides its answer.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The name that the host gave to the source.
    pub source: &'a str,
    /// The arguments with date markers and their window, where there were any (8.9).
    pub template: Option<&'a JsonObject>,
    /// When it was.
    pub now: &'a ZonedDateTime,
    /// Set by another thread to stop: nothing of the table that is being written is left.
    pub stop: &'a AtomicBool,
}

/// Stores the whole extraction of an answer: one dataset per table with rows. Needs no memory for the rows of a file. Nothing
/// is left behind by a table that fails; when it is one of several, those before it are removed again. Blocks, so call it
/// where blocking is allowed.
pub fn store(folder: &Path, asked: &Asked<'_>, answer: &ToolAnswer) -> Result<Vec<Stored>, StoreError> {
    let mut stored = Vec::new();
    for (name, table, meta) in tables(asked, answer)? {
        match store_table(folder, asked, name, table, meta) {
            Ok(table) => stored.push(table),
            Err(error) => {
                stored.iter().for_each(take_back);
                return Err(error);
            }
        }
    }
    Ok(stored)
}

/// A table of an extraction: its name where there are several, its rows, and what its dataset will say.
pub(crate) type Described<'a> = (Option<String>, Table<'a>, DatasetMeta);

/// The tables of an answer.
pub(crate) fn tables<'a>(asked: &Asked<'_>, answer: &'a ToolAnswer) -> Result<Vec<Described<'a>>, StoreError> {
    let Some(data) = &answer.meta.system_data else { return Err(StoreError::NoData) };
    let words = Words::of(&answer.model_text);
    if let Some(table) = Table::of_data(data) {
        let meta = describe(asked, answer, &words, None, &table);
        return Ok(vec![(None, table, meta)]);
    }
    let extraction = uuid::Uuid::new_v4().to_string();
    let described = data.tables.iter().flatten().map(|part| {
        let table = Table::of_table(part);
        let mut meta = describe(asked, answer, &words, Some(&part.name), &table);
        meta.extraction = Some(extraction.clone());
        meta.title = match (meta.title, &part.title) {
            (Some(all), Some(own)) => Some(format!("{all} · {own}")),
            (all, own) => all.or_else(|| own.clone()),
        };
        (Some(part.name.clone()), table, meta)
    });
    Ok(described.collect())
}

/// Half of an extraction is not the extraction.
fn take_back(stored: &Stored) {
    if let Stored::Dataset { csv, .. } = stored {
        let _ = std::fs::remove_file(csv);
        let _ = std::fs::remove_file(csv.with_extension("meta.json"));
    }
}

/// An id for a dataset (16.6): lower case, and valid as a SQL table name without quotes.
pub fn dataset_id(source: &str, tool: &str, table: Option<&str>, now: &ZonedDateTime) -> String {
    let names: Vec<String> = [Some(source), Some(tool), table].into_iter().flatten().map(plain).collect();
    let id = format!("{}_{}", names.join("_"), now.strftime("%Y%m%d_%H%M%S"));
    if id.starts_with(|first: char| first.is_ascii_lowercase()) { id } else { format!("d{id}") }
}

/// What the model reads about the extraction and the dataset keeps.
#[derive(Default, Deserialize)]
struct Words {
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    dates: Vec<String>,
    #[serde(default)]
    tables: std::collections::HashMap<String, Words>,
}

impl Words {
    fn of(model_text: &str) -> Self {
        serde_json::from_str(model_text).unwrap_or_default()
    }
}

fn describe(
    asked: &Asked<'_>,
    answer: &ToolAnswer,
    words: &Words,
    name: Option<&str>,
    table: &Table<'_>,
) -> DatasetMeta {
    let info = &answer.meta.system_info;
    let own = name.and_then(|name| words.tables.get(name)).unwrap_or(words);
    DatasetMeta {
        id: dataset_id(asked.source, &info.tool, name, asked.now),
        origin: ORIGIN_ACP.to_owned(),
        source: Some(asked.source.to_owned()),
        acp: Some(info.acp.clone()),
        tool: Some(info.tool.clone()),
        sql: None,
        resource_id: info.resource_id.clone(),
        arguments: info.arguments.clone(),
        template: asked.template.cloned(),
        table: name.map(str::to_owned),
        extraction: None,
        title: info.title.clone(),
        description: own.description.clone(),
        dates: own.dates.clone(),
        headers: table.headers().to_vec(),
        row_count: table.row_count(),
        created_at: utc(asked.now),
    }
}

/// A time as `created_at` has it.
pub fn utc(now: &ZonedDateTime) -> String {
    now.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

pub(crate) fn store_table(
    folder: &Path,
    asked: &Asked<'_>,
    name: Option<String>,
    table: Table<'_>,
    mut meta: DatasetMeta,
) -> Result<Stored, StoreError> {
    if table.row_count() == 0 {
        // Also checks that it is as empty as it says.
        table.read(|_| Ok(()))?;
        return Ok(Stored::Empty { table: name });
    }
    let mut dataset = NewDataset::create(folder, &meta.id, table.headers())?;
    write_rows(&table, &mut dataset, asked.stop)?;
    meta.id = dataset.id().to_owned();
    let csv = dataset.finish(&meta)?;
    Ok(Stored::Dataset { table: name, csv, meta: Box::new(meta) })
}

/// Writes the rows of a table behind those that a dataset has already.
pub(crate) fn write_rows(table: &Table<'_>, dataset: &mut NewDataset, stop: &AtomicBool) -> Result<(), StoreError> {
    let mut text = String::new();
    table.read(|cells| {
        if stop.load(Ordering::Relaxed) {
            return Err(CANCELLED.to_owned());
        }
        for cell in cells {
            csv_text(cell, &mut text)?;
            dataset.field(&text).map_err(|error| error.to_string())?;
        }
        dataset.end_row().map_err(|error| error.to_string())
    })?;
    Ok(())
}

/// A dataset while it is written: it shows up, whole, with [`finish`](Self::finish). Dropping it before leaves nothing.
pub struct NewDataset {
    id: String,
    csv: csv::Writer<BufWriter<File>>,
    rows: u64,
    reserved: Reserved,
}

impl NewDataset {
    /// A new dataset with this id, or the first one free with `_2`, `_3` … behind it. Creates the folder.
    pub fn create(folder: &Path, id: &str, headers: &[Header]) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut free = id.to_owned();
        let mut number = 1;
        loop {
            if let Some((reserved, part)) = Reserved::take(folder, &free)?
                && !reserved.files.csv.exists()
                && !reserved.files.meta.exists()
            {
                return Self::begin(free, reserved, part, headers);
            }
            number += 1;
            free = format!("{id}_{number}");
        }
    }

    /// A dataset with exactly this id, in place of the one that has it. Fails while another process writes it.
    pub fn replacing(folder: &Path, id: &str, headers: &[Header]) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let Some((reserved, part)) = Reserved::take(folder, id)? else {
            let text = format!("the dataset {id} is being written already; try again when that is done");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        };
        Self::begin(id.to_owned(), reserved, part, headers)
    }

    fn begin(id: String, reserved: Reserved, part: File, headers: &[Header]) -> io::Result<Self> {
        let file = BufWriter::with_capacity(256 * 1024, part);
        let csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(file);
        let mut dataset = Self { id, csv, rows: 0, reserved };
        for header in headers {
            dataset.field(&header.name)?;
        }
        dataset.csv.write_record(None::<&[u8]>).map_err(io::Error::other)?;
        Ok(dataset)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Rows written so far.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// Adds a cell to the row, as CSV has it: `null` is empty, objects and arrays are JSON.
    pub fn field(&mut self, text: &str) -> io::Result<()> {
        self.csv.write_field(text).map_err(io::Error::other)
    }

    /// Ends the row.
    pub fn end_row(&mut self) -> io::Result<()> {
        self.rows += 1;
        self.csv.write_record(None::<&[u8]>).map_err(io::Error::other)
    }

    /// Gives the files their names. `meta` must have the id and the number of rows of what was written. Returns the CSV
    /// file.
    pub fn finish(self, meta: &DatasetMeta) -> io::Result<PathBuf> {
        debug_assert!(meta.id == self.id && meta.row_count == self.rows);
        let mut text = serde_json::to_vec_pretty(meta).map_err(io::Error::other)?;
        text.push(b'\n');
        let mut part = File::create(&self.reserved.files.meta_part)?;
        part.write_all(&text)?;
        part.sync_all()?;
        let mut file = self.csv.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        file.flush()?;
        file.get_ref().sync_all()?;
        self.reserved.publish()
    }
}

/// End of the name of a dataset's table.
pub(crate) const CSV: &str = ".csv";
/// End of the name of a dataset's description.
const META: &str = ".meta.json";
/// Behind the name of a hidden file that is not published yet.
const PART: &str = ".part";

/// The files that a dataset has, and those that it has while it is written.
struct Files {
    csv: PathBuf,
    meta: PathBuf,
    csv_part: PathBuf,
    meta_part: PathBuf,
}

impl Files {
    fn of(folder: &Path, id: &str) -> Self {
        Self {
            csv: folder.join(format!("{id}{CSV}")),
            meta: folder.join(format!("{id}{META}")),
            csv_part: folder.join(format!(".{id}{CSV}{PART}")),
            meta_part: folder.join(format!(".{id}{META}{PART}")),
        }
    }

    /// Whether the CSV has its name already and the meta has not.
    fn half_published(&self) -> bool {
        self.meta_part.exists() && !self.csv_part.exists()
    }

    /// In this order: a meta without the part of its CSV is taken for published.
    fn remove_parts(&self) {
        let _ = std::fs::remove_file(&self.meta_part);
        let _ = std::fs::remove_file(&self.csv_part);
    }
}

/// An id that nobody else may write. Dropping it removes what is not published.
///
/// Whoever writes holds a lock on the CSV's part, so that a part without one was left by a process that ended in the
/// middle. The CSV gets its name first. From then on the part of the meta is the meta, also for a reader that comes before
/// it has its name, and for [`clean`].
struct Reserved {
    files: Files,
    published: bool,
}

impl Reserved {
    /// Reserves an id and gives the locked part of its CSV; `None` while somebody else writes it.
    fn take(folder: &Path, id: &str) -> io::Result<Option<(Self, File)>> {
        let files = Files::of(folder, id);
        let taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let mut created = File::create_new(&files.csv_part);
        if created.as_ref().is_err_and(taken) {
            clean(folder)?;
            created = File::create_new(&files.csv_part);
        }
        let part = match created {
            Err(error) if taken(&error) => return Ok(None),
            created => created?,
        };
        // Somebody who cleans up may have been faster than the lock. Some network folders have no locks at all.
        if matches!(part.try_lock(), Err(TryLockError::WouldBlock)) || !files.csv_part.exists() {
            return Ok(None);
        }
        Ok(Some((Self { files, published: false }, part)))
    }

    fn publish(mut self) -> io::Result<PathBuf> {
        std::fs::rename(&self.files.csv_part, &self.files.csv)?;
        self.published = true;
        match std::fs::rename(&self.files.meta_part, &self.files.meta) {
            // Somebody who cleans up was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.files.meta.exists() => {}
            renamed => renamed?,
        }
        Ok(self.files.csv.clone())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.published {
            self.files.remove_parts();
        }
    }
}

/// The file that holds the meta of a dataset at this moment.
pub(crate) fn meta_path(folder: &Path, id: &str) -> PathBuf {
    let files = Files::of(folder, id);
    if files.half_published() { files.meta_part } else { files.meta }
}

/// Removes what processes left that ended in the middle of a write, and completes what they had published. Parts of
/// processes that still write are left alone. A folder that doesn't exist is clean.
pub fn clean(folder: &Path) -> io::Result<()> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut metas = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(PART)) else { continue };
        if let Some(id) = name.strip_suffix(CSV) {
            let files = Files::of(folder, id);
            let abandoned = File::options().write(true).open(&files.csv_part).is_ok_and(|part| part.try_lock().is_ok());
            if abandoned {
                files.remove_parts();
            }
        } else if let Some(id) = name.strip_suffix(META) {
            metas.push(Files::of(folder, id));
        }
    }
    for files in metas.into_iter().filter(Files::half_published) {
        let done = if files.csv.exists() {
            std::fs::rename(&files.meta_part, &files.meta)
        } else {
            std::fs::remove_file(&files.meta_part)
        };
        match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A cell as CSV has it: `null` is empty, text is plain, numbers keep their digits, objects and arrays are compact JSON.
pub(crate) fn csv_text(cell: &Cell, text: &mut String) -> Result<(), String> {
    text.clear();
    let raw: &RawValue = cell;
    match raw.get().as_bytes().first() {
        Some(b'n') => {}
        Some(b'"') => {
            let plain: String = serde_json::from_str(raw.get()).map_err(|_| "a text of the table is not Unicode")?;
            text.push_str(&plain);
        }
        Some(b'{' | b'[') => compact(raw.get(), text),
        _ => text.push_str(raw.get()),
    }
    Ok(())
}

/// Leaves out the white space between tokens. Reading and writing again would lose digits.
fn compact(json: &str, text: &mut String) {
    let (mut quoted, mut escaped) = (false, false);
    for character in json.chars() {
        if !quoted && matches!(character, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        match character {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = character == '\\' && !escaped;
        text.push(character);
    }
}

fn plain(name: &str) -> String {
    let name: String = name
        .chars()
        .take(NAME_MAX)
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .collect();
    if name.is_empty() { "x".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> ZonedDateTime {
        "2026-10-12T10:16:30.120+02:00[Europe/Madrid]".parse().unwrap()
    }

    fn keep(folder: &Path, source: &str, answer: &ToolAnswer) -> Result<Vec<Stored>, StoreError> {
        store(folder, &Asked { source, template: None, now: &now(), stop: &AtomicBool::new(false) }, answer)
    }

    fn answer(system_data: &str) -> ToolAnswer {
        let info = r#"{"acp":"databases","acp_version":"1.0","tool":"execute_sql","kind":"extraction","resource_id":"ventas",
            "arguments":{"sql":"SELECT 1"},"title":"SQLite","row_limit":25,"cost_limit_usd":0,"cost_estimate_usd":0,"cost_actual_usd":0,
            "duration_ms":1,"fetched_at":"2026-10-12T08:16:30.000Z","autocontext_attached":false,"messages":[],"warnings":[]}"#;
        let meta =
            format!(r#"{{"version":"1.0","kind":"extraction","system_info":{info},"system_data":{system_data}}}"#);
        ToolAnswer {
            model_text: r#"{"description":"d","dates":["2026-07-01"],"rows":[],"tables":{"two":{"description":"second","dates":[]}}}"#.to_owned(),
            is_error: false,
            meta: serde_json::from_str(&meta).unwrap(),
        }
    }

    fn one_table(rows: &str, row_count: u64) -> ToolAnswer {
        answer(&format!(
            r#"{{"format":"inline","row_count":{row_count},"headers":[{{"name":"día","type":"string"}},{{"name":"n","type":"number"}},{{"name":"j","type":"json"}}],"table":{rows}}}"#
        ))
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_dataset_is_a_csv_and_its_meta() {
        let folder = tempfile::tempdir().unwrap();
        let rows = r#"[{"día":"a \"b\", c\nñ","n":12345678901234567890.10,"j":{"k": [1, "x y\" "]}},{"día":null,"n":-1e3,"j":null},{"día":"","n":true,"j":[]}]"#;
        let stored = keep(folder.path(), "ventas", &one_table(rows, 3)).unwrap();
        let [Stored::Dataset { table: None, csv, meta }] = stored.as_slice() else { panic!("{stored:?}") };
        assert_eq!(meta.id, "ventas_execute_sql_20261012_101630");
        assert_eq!(meta.created_at, "2026-10-12T08:16:30.120Z");
        assert_eq!(
            std::fs::read_to_string(csv).unwrap(),
            "día,n,j\r\n\"a \"\"b\"\", c\nñ\",12345678901234567890.10,\"{\"\"k\"\":[1,\"\"x y\\\"\" \"\"]}\"\r\n,-1e3,\r\n,true,[]\r\n"
        );
        let text = std::fs::read_to_string(folder.path().join(format!("{}.meta.json", meta.id))).unwrap();
        assert_eq!(serde_json::from_str::<DatasetMeta>(&text).unwrap(), **meta);
        let keys: Vec<String> = serde_json::from_str::<JsonObject>(&text).unwrap().keys().cloned().collect();
        assert_eq!(
            keys.join(" "),
            "id origin source acp tool resource_id arguments title description dates headers row_count created_at"
        );
        let again = keep(folder.path(), "ventas", &one_table(rows, 3)).unwrap();
        let [Stored::Dataset { meta, .. }] = again.as_slice() else { panic!("{again:?}") };
        assert_eq!(meta.id, "ventas_execute_sql_20261012_101630_2");
        assert_eq!(names(folder.path()).len(), 4);
    }

    #[test]
    fn what_fails_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        for (rows, row_count) in [
            ("[{\"día\":1,\"n\":2,\"j\":3}]", 2),
            ("[{\"día\":1}]", 1),
            ("[{\"día\":\"\\ud800\",\"n\":2,\"j\":3}]", 1),
            ("[{}]", 0),
        ] {
            assert!(keep(folder.path(), "s", &one_table(rows, row_count)).is_err(), "{rows}");
        }
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn tables_without_rows_are_only_mentioned() {
        let folder = tempfile::tempdir().unwrap();
        let headers = r#""headers":[{"name":"a","type":"integer"}]"#;
        let data = format!(
            r#"{{"format":"tables","row_count":1,"headers":[],"tables":[
                {{"name":"one","format":"inline","row_count":0,{headers},"table":[]}},
                {{"name":"two","title":"Two","format":"inline","row_count":1,{headers},"table":[{{"a":1}}]}}]}}"#
        );
        let stored = keep(folder.path(), "s", &answer(&data)).unwrap();
        let [Stored::Empty { table: Some(empty) }, Stored::Dataset { table: Some(full), meta, .. }] = stored.as_slice()
        else {
            panic!("{stored:?}")
        };
        assert_eq!(
            (empty.as_str(), full.as_str(), meta.id.as_str()),
            ("one", "two", "s_execute_sql_two_20261012_101630")
        );
        assert_eq!((meta.title.as_deref(), meta.description.as_deref()), (Some("SQLite · Two"), Some("second")));
    }

    #[test]
    fn ids_are_plain_names() {
        for (source, id) in [
            ("Ventas España", "ventas_espa_a_t_20261012_101630"),
            ("2026", "d2026_t_20261012_101630"),
            ("", "x_t_20261012_101630"),
            ("ñ", "d__t_20261012_101630"),
        ] {
            assert_eq!(dataset_id(source, "T", None, &now()), id);
        }
        assert!(dataset_id(&"x".repeat(500), "t", None, &now()).len() < 100);
    }

    #[test]
    fn what_ended_in_the_middle_is_removed_or_completed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        // Still being written, by a process that has gone.
        write(".half.csv.part", "a\r\n1");
        write(".half.meta.json.part", "{}");
        // Its table was published, its meta not.
        write("done.csv", "a\r\n1\r\n");
        write("done.meta.json", "old");
        write(".done.meta.json.part", "new");
        // Its table never came.
        write(".lost.meta.json.part", "{}");
        // Being written now.
        let header = Header::metric("a", acp_protocol::result::ColumnType::Integer);
        let live = NewDataset::create(folder.path(), "live", std::slice::from_ref(&header)).unwrap();
        write("mine.csv", "a\r\n");
        assert_eq!(meta_path(folder.path(), "done").file_name().unwrap(), ".done.meta.json.part");
        clean(folder.path()).unwrap();
        assert_eq!(names(folder.path()), [".live.csv.part", "done.csv", "done.meta.json", "mine.csv"]);
        assert_eq!(std::fs::read_to_string(meta_path(folder.path(), "done")).unwrap(), "new");
        assert!(NewDataset::replacing(folder.path(), "live", std::slice::from_ref(&header)).is_err());
        let second = NewDataset::create(folder.path(), "live", std::slice::from_ref(&header)).unwrap();
        assert_eq!(second.id(), "live_2");
        drop((live, second));
        assert_eq!(names(folder.path()), ["done.csv", "done.meta.json", "mine.csv"]);
        clean(&folder.path().join("none")).unwrap();
    }
}
