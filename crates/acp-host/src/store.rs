//! An extraction becomes a dataset in an `acp-data` folder (11.3, 16.6).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use acp_protocol::JsonObject;
use acp_protocol::result::Header;
use jiff::ZonedDateTime;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::client::ToolAnswer;
use crate::table::{Cell, Table, TableError};

/// Longest part of an id that comes from a name, so that file names stay within what file systems allow.
const NAME_MAX: usize = 60;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetMeta {
    /// Name of the dataset, also of its SQL table.
    pub id: String,
    /// `acp` for an extraction.
    pub origin: String,
    /// The source's name at the host.
    pub source: String,
    /// The server.
    pub acp: String,
    /// The tool.
    pub tool: String,
    /// The resource.
    pub resource_id: Option<String>,
    /// The arguments in force: with the resource, enough to repeat the call.
    pub arguments: JsonObject,
    /// Title for people.
    pub title: Option<String>,
    /// How the data were obtained.
    pub description: Option<String>,
    /// Key dates.
    pub dates: Vec<String>,
    /// Typed columns.
    pub headers: Vec<Header>,
    /// Number of rows.
    pub row_count: u64,
    /// When it was stored, ISO 8601 in UTC.
    pub created_at: String,
}

/// Stores the whole extraction of an answer: one dataset per table with rows. `source` is the name that the host gave to the
/// source. Needs no memory for the rows of a file. Nothing is left behind by a table that fails; when it is one of
/// several, those before it stay. Blocks, so call it where blocking is allowed.
pub fn store(folder: &Path, source: &str, answer: &ToolAnswer, now: &ZonedDateTime) -> Result<Vec<Stored>, StoreError> {
    let Some(data) = &answer.meta.system_data else { return Err(StoreError::NoData) };
    let words = Words::of(&answer.model_text);
    if let Some(table) = Table::of_data(data) {
        let meta = describe(source, answer, &words, None, &table, now);
        return Ok(vec![store_table(folder, None, table, meta)?]);
    }
    let mut stored = Vec::new();
    for part in data.tables.iter().flatten() {
        let table = Table::of_table(part);
        let mut meta = describe(source, answer, &words, Some(&part.name), &table, now);
        meta.title = match (meta.title, &part.title) {
            (Some(all), Some(own)) => Some(format!("{all} · {own}")),
            (all, own) => all.or_else(|| own.clone()),
        };
        stored.push(store_table(folder, Some(part.name.clone()), table, meta)?);
    }
    Ok(stored)
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
    source: &str,
    answer: &ToolAnswer,
    words: &Words,
    name: Option<&str>,
    table: &Table<'_>,
    now: &ZonedDateTime,
) -> DatasetMeta {
    let info = &answer.meta.system_info;
    let own = name.and_then(|name| words.tables.get(name)).unwrap_or(words);
    DatasetMeta {
        id: dataset_id(source, &info.tool, name, now),
        origin: "acp".to_owned(),
        source: source.to_owned(),
        acp: info.acp.clone(),
        tool: info.tool.clone(),
        resource_id: info.resource_id.clone(),
        arguments: info.arguments.clone(),
        title: info.title.clone(),
        description: own.description.clone(),
        dates: own.dates.clone(),
        headers: table.headers().to_vec(),
        row_count: table.row_count(),
        created_at: now.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    }
}

fn store_table(
    folder: &Path,
    name: Option<String>,
    table: Table<'_>,
    mut meta: DatasetMeta,
) -> Result<Stored, StoreError> {
    if table.row_count() == 0 {
        // Also checks that it is as empty as it says.
        table.read(|_| Ok(()))?;
        return Ok(Stored::Empty { table: name });
    }
    std::fs::create_dir_all(folder)?;
    let files = Files::reserve(folder, &mut meta.id)?;
    write_csv(&table, &files.csv_part)?;
    let mut text = serde_json::to_vec_pretty(&meta).map_err(io::Error::other)?;
    text.push(b'\n');
    std::fs::write(&files.meta_part, text)?;
    let csv = files.publish()?;
    Ok(Stored::Dataset { table: name, csv, meta: Box::new(meta) })
}

/// The files of one dataset while it is written. Dropping them removes what is not published.
struct Files {
    csv: PathBuf,
    meta: PathBuf,
    csv_part: PathBuf,
    meta_part: PathBuf,
}

impl Files {
    /// Reserves the id, or the first one free with `_2`, `_3` … behind it.
    fn reserve(folder: &Path, id: &mut String) -> io::Result<Self> {
        let wanted = id.clone();
        let mut number = 1;
        loop {
            if let Some(files) = Self::try_reserve(folder, id)? {
                return Ok(files);
            }
            number += 1;
            *id = format!("{wanted}_{number}");
        }
    }

    /// Whoever creates the hidden file has the id, also between two processes.
    fn try_reserve(folder: &Path, id: &str) -> io::Result<Option<Self>> {
        let csv_part = folder.join(format!(".{id}.csv.part"));
        match File::create_new(&csv_part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            created => created?,
        };
        let files = Self {
            csv: folder.join(format!("{id}.csv")),
            meta: folder.join(format!("{id}.meta.json")),
            meta_part: folder.join(format!(".{id}.meta.json.part")),
            csv_part,
        };
        let free = !files.csv.exists() && !files.meta.exists();
        Ok(free.then_some(files))
    }

    /// Gives the files their names. The CSV comes last, since a dataset is there when its CSV is.
    fn publish(self) -> io::Result<PathBuf> {
        std::fs::rename(&self.meta_part, &self.meta)?;
        if let Err(error) = std::fs::rename(&self.csv_part, &self.csv) {
            let _ = std::fs::remove_file(&self.meta);
            return Err(error);
        }
        Ok(self.csv.clone())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.meta_part);
        let _ = std::fs::remove_file(&self.csv_part);
    }
}

fn write_csv(table: &Table<'_>, path: &Path) -> Result<(), StoreError> {
    let file = BufWriter::with_capacity(256 * 1024, File::create(path)?);
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(file);
    let headers = table.headers().iter().map(|header| header.name.as_bytes());
    csv.write_record(headers).map_err(io::Error::other)?;
    let mut text = String::new();
    table.read(|cells| {
        for cell in cells {
            csv_text(cell, &mut text)?;
            csv.write_field(text.as_bytes()).map_err(|error| error.to_string())?;
        }
        csv.write_record(None::<&[u8]>).map_err(|error| error.to_string())
    })?;
    let mut file = csv.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    file.flush()?;
    Ok(file.get_ref().sync_all()?)
}

/// A cell as CSV has it: `null` is empty, text is plain, numbers keep their digits, objects and arrays are compact JSON.
fn csv_text(cell: &Cell, text: &mut String) -> Result<(), String> {
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
        let stored = store(folder.path(), "ventas", &one_table(rows, 3), &now()).unwrap();
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
        let again = store(folder.path(), "ventas", &one_table(rows, 3), &now()).unwrap();
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
            assert!(store(folder.path(), "s", &one_table(rows, row_count), &now()).is_err(), "{rows}");
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
        let stored = store(folder.path(), "s", &answer(&data), &now()).unwrap();
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
}
