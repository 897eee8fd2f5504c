//! The rows of an extraction, one by one (8.5).
//!
//! A table may hold more rows than fit into memory and numbers with more digits than any number type, so rows are
//! never collected and cells stay the JSON text that they were.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use acp_protocol::result::{DataFormat, Header, SystemData, SystemTable, TableFormat};
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use url::Url;

/// One cell as it was written.
pub type Cell = Box<RawValue>;

/// Why a table can't be read.
#[derive(Debug)]
pub enum TableError {
    /// The file can't be read.
    Io(io::Error),
    /// `table` or `table_uri` is missing, or the address can't be used.
    Address(String),
    /// It is no JSON array of objects with exactly the columns of the headers.
    Content(String),
    /// The number of rows differs from `row_count`.
    RowCount {
        /// `row_count`.
        announced: u64,
        /// Rows that were there.
        found: u64,
    },
    /// Whoever received the rows stopped.
    Stopped(String),
}

impl std::fmt::Display for TableError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(formatter, "the table can't be read: {error}"),
            Self::Address(reason) | Self::Stopped(reason) => formatter.write_str(reason),
            Self::Content(reason) => write!(formatter, "the table is not what was announced: {reason}"),
            Self::RowCount { announced, found } => {
                write!(formatter, "the table has {found} rows, {announced} were announced")
            }
        }
    }
}

impl std::error::Error for TableError {}

impl From<io::Error> for TableError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// One table and where its rows are.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    headers: &'a [Header],
    row_count: u64,
    rows: Option<&'a RawValue>,
    uri: Option<&'a str>,
}

impl<'a> Table<'a> {
    /// The table of an extraction of one table; `None` for several.
    pub fn of_data(data: &'a SystemData) -> Option<Self> {
        let format = match data.format {
            DataFormat::Inline => TableFormat::Inline,
            DataFormat::File => TableFormat::File,
            DataFormat::Tables => return None,
        };
        Some(Self::new(format, &data.headers, data.row_count, data.table.as_deref(), data.table_uri.as_deref()))
    }

    /// One of several tables.
    pub fn of_table(table: &'a SystemTable) -> Self {
        Self::new(table.format, &table.headers, table.row_count, table.table.as_deref(), table.table_uri.as_deref())
    }

    fn new(
        format: TableFormat,
        headers: &'a [Header],
        row_count: u64,
        rows: Option<&'a RawValue>,
        uri: Option<&'a str>,
    ) -> Self {
        let inline = format == TableFormat::Inline;
        Self { headers, row_count, rows: rows.filter(|_| inline), uri: uri.filter(|_| !inline) }
    }

    /// Its columns.
    pub fn headers(&self) -> &'a [Header] {
        self.headers
    }

    /// Rows announced.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// The file that holds the rows; `None` when they are in the message.
    pub fn file(&self) -> Result<Option<PathBuf>, TableError> {
        self.uri.map(file_path).transpose()
    }

    /// Passes each row to `receive`, cells in the order of the headers, and requires as many rows as were announced.
    /// Blocks on files, so call it where blocking is allowed.
    pub fn read(&self, receive: impl FnMut(&[Cell]) -> Result<(), String>) -> Result<(), TableError> {
        let mut rows = Rows { headers: self.headers, receive, found: 0, stopped: None };
        let outcome = match (self.rows, self.file()?) {
            (Some(text), _) => rows.read(&mut serde_json::Deserializer::from_str(text.get())),
            (None, Some(path)) => {
                let file = BufReader::with_capacity(256 * 1024, File::open(path)?);
                rows.read(&mut serde_json::Deserializer::from_reader(file))
            }
            (None, None) => return Err(TableError::Address("the table has neither rows nor an address".to_owned())),
        };
        if let Some(reason) = rows.stopped {
            return Err(TableError::Stopped(reason));
        }
        outcome.map_err(|error| {
            if error.is_io() { TableError::Io(error.into()) } else { TableError::Content(error.to_string()) }
        })?;
        if rows.found != self.row_count {
            return Err(TableError::RowCount { announced: self.row_count, found: rows.found });
        }
        Ok(())
    }

    /// Deletes the file after it was read, as 8.5 asks. Only a plain file inside `folder`, the one that was given to the
    /// server as `ACP_TMP_DIR`, is deleted: an answer must not make a host delete anything else. Returns whether
    /// there was one.
    pub fn delete_file(&self, folder: &Path) -> Result<bool, TableError> {
        let Some(path) = self.file()? else { return Ok(false) };
        let plain = std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        let inside = path.canonicalize()?.starts_with(folder.canonicalize()?);
        if plain && inside {
            std::fs::remove_file(path)?;
        }
        Ok(plain && inside)
    }
}

/// The path of a `file://` address, on Unix and on Windows.
pub fn file_path(uri: &str) -> Result<PathBuf, TableError> {
    let url = Url::parse(uri).map_err(|error| TableError::Address(format!("table_uri can't be read: {error}")))?;
    if url.scheme() != "file" {
        return Err(TableError::Address(format!("table_uri has the scheme {}, only file is read", url.scheme())));
    }
    url.to_file_path().map_err(|()| TableError::Address("table_uri names no file of this computer".to_owned()))
}

struct Rows<'a, F> {
    headers: &'a [Header],
    receive: F,
    found: u64,
    /// Why the receiver stopped; serde's errors can't carry it.
    stopped: Option<String>,
}

impl<F: FnMut(&[Cell]) -> Result<(), String>> Rows<'_, F> {
    fn read<'de, R: serde_json::de::Read<'de>>(
        &mut self,
        deserializer: &mut serde_json::Deserializer<R>,
    ) -> Result<(), serde_json::Error> {
        deserializer.deserialize_seq(&mut *self)?;
        deserializer.end()
    }
}

impl<'de, F: FnMut(&[Cell]) -> Result<(), String>> Visitor<'de> for &mut Rows<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an array of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let mut cells = Vec::with_capacity(self.headers.len());
        while let Some(()) =
            rows.next_element_seed(Row { headers: self.headers, number: self.found + 1, cells: &mut cells })?
        {
            self.found += 1;
            let row: Vec<Cell> = cells.drain(..).flatten().collect();
            if let Err(reason) = (self.receive)(&row) {
                self.stopped = Some(reason);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

struct Row<'a> {
    headers: &'a [Header],
    number: u64,
    cells: &'a mut Vec<Option<Cell>>,
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a row, an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut row: A) -> Result<(), A::Error> {
        self.cells.clear();
        self.cells.resize_with(self.headers.len(), || None);
        let mut expected = 0;
        while let Some(name) = row.next_key::<String>()? {
            // Rows usually have their keys in the order of the headers.
            let place = if self.headers.get(expected).is_some_and(|header| header.name == name) {
                Some(expected)
            } else {
                self.headers.iter().position(|header| header.name == name)
            };
            let Some(place) = place else {
                return Err(A::Error::custom(format!("row {} has {name:?}, which is no column", self.number)));
            };
            if self.cells[place].replace(row.next_value()?).is_some() {
                return Err(A::Error::custom(format!("row {} has {name:?} twice", self.number)));
            }
            expected = place + 1;
        }
        match self.cells.iter().position(Option::is_none) {
            None => Ok(()),
            Some(place) => Err(A::Error::custom(format!("row {} has no {:?}", self.number, self.headers[place].name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(format: &str, rest: &str, row_count: u64) -> SystemData {
        serde_json::from_str(&format!(
            r#"{{"format":"{format}","row_count":{row_count},"headers":[{{"name":"a","type":"number"}},{{"name":"b","type":"json"}}],{rest}}}"#
        ))
        .unwrap()
    }

    fn read(data: &SystemData) -> Result<Vec<String>, TableError> {
        let mut rows = Vec::new();
        Table::of_data(data).unwrap().read(|cells| {
            rows.push(cells.iter().map(|cell| cell.get()).collect::<Vec<_>>().join("|"));
            Ok(())
        })?;
        Ok(rows)
    }

    #[test]
    fn cells_keep_every_digit_and_follow_the_headers() {
        let rows = r#"[{"a":12345678901234567890.10,"b":null}, {"b": {"x": 1e400}, "a":-0}]"#;
        let inline = data("inline", &format!(r#""table":{rows}"#), 2);
        let expected = ["12345678901234567890.10|null", "-0|{\"x\": 1e400}"];
        assert_eq!(read(&inline).unwrap(), expected);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a table.json");
        std::fs::write(&path, rows).unwrap();
        let uri = Url::from_file_path(&path).unwrap();
        let file = data("file", &format!(r#""table_uri":"{uri}""#), 2);
        assert_eq!(read(&file).unwrap(), expected);
        let table = Table::of_data(&file).unwrap();
        assert!(!table.delete_file(tempfile::tempdir().unwrap().path()).unwrap(), "outside of the folder");
        assert!(table.delete_file(folder.path()).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_table_that_differs_from_its_announcement_is_refused() {
        for (rows, row_count, needle) in [
            (r#"[{"a":1,"b":2}]"#, 2, "1 rows"),
            (r#"[{"a":1,"b":2}]"#, 0, "1 rows"),
            (r#"[{"a":1}]"#, 1, "no \"b\""),
            (r#"[{"a":1,"b":2,"c":3}]"#, 1, "no column"),
            (r#"[{"a":1,"b":2,"a":3}]"#, 1, "twice"),
            (r#"[[1,2]]"#, 1, "a row"),
            (r#"{"a":1}"#, 1, "array"),
        ] {
            let error = read(&data("inline", &format!(r#""table":{rows}"#), row_count)).unwrap_err().to_string();
            assert!(error.contains(needle), "{rows}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        for cut in [r#"[{"a":1,"b":2}"#, r#"[{"a":1,"b":2}]]"#, ""] {
            let path = folder.path().join("cut.json");
            std::fs::write(&path, cut).unwrap();
            let uri = Url::from_file_path(&path).unwrap();
            assert!(matches!(read(&data("file", &format!(r#""table_uri":"{uri}""#), 1)), Err(TableError::Content(_))));
        }
    }

    #[test]
    fn only_local_files_are_read() {
        for uri in ["https://example.com/t.json", "file://server/share/t.json", "t.json"] {
            assert!(matches!(file_path(uri), Err(TableError::Address(_))), "{uri}");
        }
        let missing = data("file", r#""table":[]"#, 0);
        assert!(matches!(read(&missing), Err(TableError::Address(_))));
    }

    #[test]
    fn the_receiver_can_stop() {
        let data = data("inline", r#""table":[{"a":1,"b":2}]"#, 1);
        let error = Table::of_data(&data).unwrap().read(|_| Err("disk full".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "disk full");
    }
}
