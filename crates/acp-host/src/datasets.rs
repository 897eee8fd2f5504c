//! The datasets of an `acp-data` folder: which there are, their rows, and `acp/read_table` (8.8, 16.6).

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use acp_protocol::error::ErrorCode;
use acp_protocol::result::{ColumnType, TableFormat};
use acp_protocol::session::HostTable;
use jiff::ZonedDateTime;
use serde_json::value::RawValue;
use url::Url;

use crate::client::RpcError;
use crate::foreign;
use crate::store::{self, CSV, DatasetMeta};

/// Name of the folder in a project.
pub const FOLDER: &str = "acp-data";

/// One dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Its file.
    pub csv: PathBuf,
    /// What it is.
    pub meta: DatasetMeta,
    /// What separates the cells of its file.
    pub delimiter: u8,
}

/// The datasets of a folder, and the files in it that are none, with the reason.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Sorted by id.
    pub datasets: Vec<Dataset>,
    /// File and reason.
    pub unusable: Vec<(PathBuf, String)>,
}

/// Why a dataset has no rows to give.
#[derive(Debug)]
pub enum DatasetError {
    /// No dataset has that name.
    NotFound(String),
    /// The name leads out of the folder.
    Outside(String),
    /// Its file or its meta can't be used.
    Damaged {
        /// Its id.
        id: String,
        /// What is wrong.
        problem: String,
    },
    /// The folder or a file can't be read or written.
    Io(io::Error),
    /// Whoever received the rows stopped.
    Stopped(String),
}

impl std::fmt::Display for DatasetError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound(name) => write!(
                formatter,
                "There is no dataset {name:?}. Pass the id of a dataset in {FOLDER} as it was reported when it was saved; \
                 not rows, not SQL."
            ),
            Self::Outside(name) => {
                write!(formatter, "{name:?} leads out of {FOLDER}. Pass the id of a dataset in that folder.")
            }
            Self::Damaged { id, problem } => write!(
                formatter,
                "The dataset {id} can't be used: {problem}. Extract it again, or remove its files from {FOLDER}."
            ),
            Self::Io(error) => write!(formatter, "the datasets can't be read: {error}"),
            Self::Stopped(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for DatasetError {}

impl From<io::Error> for DatasetError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The datasets of a folder. One that doesn't exist has none. Rows are not counted: [`Dataset::read`] does.
pub fn list(folder: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let Some(stem) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(CSV)) else { continue };
        if stem.starts_with('.') || !path.is_file() {
            continue;
        }
        match read(folder, stem, &path) {
            Ok(dataset) => listing.datasets.push(dataset),
            Err(problem) => listing.unusable.push((path, problem)),
        }
    }
    // Of two files with one id, that of this host comes first, then the one that sorts first.
    let foreign = |dataset: &Dataset| dataset.meta.origin == store::ORIGIN_CSV;
    listing.datasets.sort_by(|one, other| {
        (&one.meta.id, foreign(one), &one.csv).cmp(&(&other.meta.id, foreign(other), &other.csv))
    });
    let mut taken = Vec::new();
    listing.datasets.dedup_by(|later, first| {
        let same = later.meta.id == first.meta.id;
        if same {
            let problem = format!("its id would be {}, which another file has; rename it", first.meta.id);
            taken.push((later.csv.clone(), problem));
        }
        same
    });
    listing.unusable.extend(taken);
    listing.unusable.sort();
    Ok(listing)
}

/// The dataset that a reference names: its id, `<id>.csv` or `acp-data/<id>.csv` (16.5).
pub fn find(folder: &Path, reference: &str) -> Result<Dataset, DatasetError> {
    let name = reference.trim();
    let name = name.strip_prefix("./").unwrap_or(name);
    let name = name.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix(['/', '\\'])).unwrap_or(name);
    let stem = name.strip_suffix(CSV).unwrap_or(name);
    if stem.contains(['/', '\\', ':', '\0']) || stem.starts_with('.') {
        return Err(DatasetError::Outside(reference.to_owned()));
    }
    let path = folder.join(format!("{stem}{CSV}"));
    if !stem.is_empty() && path.is_file() {
        if !path.canonicalize()?.starts_with(folder.canonicalize()?) {
            return Err(DatasetError::Outside(reference.to_owned()));
        }
        return read(folder, stem, &path).map_err(|problem| DatasetError::Damaged { id: stem.to_owned(), problem });
    }
    // A file of a person may have another name than its id.
    let listing = list(folder)?;
    let found = listing.datasets.into_iter().find(|dataset| dataset.meta.id == stem);
    found.ok_or_else(|| DatasetError::NotFound(reference.to_owned()))
}

fn read(folder: &Path, stem: &str, csv: &Path) -> Result<Dataset, String> {
    let text = match std::fs::read_to_string(store::meta_path(folder, stem)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return foreign(csv),
        text => text.map_err(|error| format!("its meta can't be read: {error}"))?,
    };
    let meta: DatasetMeta =
        serde_json::from_str(&text).map_err(|error| format!("its meta is not what this host writes: {error}"))?;
    if meta.id != stem {
        return Err(format!("its meta is that of {}", meta.id));
    }
    Ok(Dataset { csv: csv.to_path_buf(), meta, delimiter: b',' })
}

/// A file that a person put into the folder: its columns have the types that its cells have.
fn foreign(csv: &Path) -> Result<Dataset, String> {
    let described = foreign::describe(csv)?;
    let modified = std::fs::metadata(csv).and_then(|metadata| metadata.modified());
    let modified = modified.ok().and_then(|time| ZonedDateTime::try_from(time).ok());
    let meta = DatasetMeta {
        id: foreign::id_of(csv),
        origin: store::ORIGIN_CSV.to_owned(),
        description: (!described.notes.is_empty()).then(|| described.notes.join(" ")),
        headers: described.headers,
        row_count: described.row_count,
        created_at: modified.map(|time| store::utc(&time)).unwrap_or_default(),
        ..DatasetMeta::default()
    };
    Ok(Dataset { csv: csv.to_path_buf(), meta, delimiter: described.delimiter })
}

impl Dataset {
    /// Passes each row to `receive`, as many cells as there are columns, and requires the columns and the number of rows
    /// that the meta tells. Needs no memory for the rows. Blocks.
    pub fn read(&self, mut receive: impl FnMut(&csv::StringRecord) -> Result<(), String>) -> Result<(), DatasetError> {
        let damaged = |problem: String| DatasetError::Damaged { id: self.meta.id.clone(), problem };
        let broken = |error: csv::Error| match error.into_kind() {
            csv::ErrorKind::Io(error) => DatasetError::Io(error),
            csv::ErrorKind::Utf8 { pos, .. } => damaged(at(pos, "is not UTF-8")),
            csv::ErrorKind::UnequalLengths { pos, .. } => damaged(at(pos, "has another number of cells")),
            _ => damaged("it is no CSV".to_owned()),
        };
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(self.delimiter)
            .buffer_capacity(256 * 1024)
            .from_path(&self.csv)
            .map_err(broken)?;
        let names = reader.headers().map_err(broken)?;
        // Columns of a person's file may have got other names.
        let fits = match self.meta.origin.as_str() {
            store::ORIGIN_CSV => names.len() == self.meta.headers.len(),
            _ => names.iter().eq(self.meta.headers.iter().map(|header| header.name.as_str())),
        };
        if !fits {
            return Err(damaged("its columns are not those of its meta".to_owned()));
        }
        let mut row = csv::StringRecord::new();
        let mut rows = 0;
        while reader.read_record(&mut row).map_err(broken)? {
            rows += 1;
            receive(&row).map_err(DatasetError::Stopped)?;
        }
        if rows != self.meta.row_count {
            return Err(damaged(format!("it has {rows} rows, its meta says {}", self.meta.row_count)));
        }
        Ok(())
    }

    /// The table as `acp/read_table` hands it over (8.8): inline up to `inline_max_bytes` of JSON, beyond that in a file of
    /// `tmp`, for its owner alone, which the reader deletes. Blocks.
    pub fn table(&self, inline_max_bytes: u64, tmp: &Path) -> Result<HostTable, DatasetError> {
        let mut rows = Rows::Memory(Vec::new());
        let types: Vec<(String, ColumnType)> = self
            .meta
            .headers
            .iter()
            .map(|header| (serde_json::Value::from(header.name.as_str()).to_string(), header.column_type))
            .collect();
        let (mut line, mut count) = (Vec::new(), 0_u64);
        self.read(|row| {
            line.clear();
            line.extend_from_slice(if count == 0 { b"[{" } else { b",\n{" });
            for (place, (cell, (name, column_type))) in row.iter().zip(&types).enumerate() {
                if place > 0 {
                    line.push(b',');
                }
                line.extend_from_slice(name.as_bytes());
                line.push(b':');
                json_cell(cell, *column_type, &mut line)
                    .map_err(|problem| format!("row {}, column {name} {problem}", count + 1))?;
            }
            line.push(b'}');
            count += 1;
            rows.write(&line, inline_max_bytes, tmp).map_err(|error| error.to_string())
        })
        .map_err(|error| match error {
            DatasetError::Stopped(problem) => DatasetError::Damaged { id: self.meta.id.clone(), problem },
            other => other,
        })?;
        rows.write(if count == 0 { b"[]" } else { b"]" }, inline_max_bytes, tmp)?;
        let mut table = HostTable {
            format: TableFormat::Inline,
            row_count: count,
            headers: self.meta.headers.clone(),
            table: None,
            table_uri: None,
        };
        match rows {
            Rows::Memory(text) => {
                // Our own JSON, of checked cells.
                let text = String::from_utf8(text).map_err(io::Error::other)?;
                table.table = Some(RawValue::from_string(text).map_err(io::Error::other)?);
            }
            Rows::File(file) => {
                let file = file.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
                let (_, path) = file.keep().map_err(|error| error.error)?;
                table.format = TableFormat::File;
                let uri =
                    Url::from_file_path(&path).map_err(|()| io::Error::other("the temporary folder has no URI"))?;
                table.table_uri = Some(uri.into());
            }
        }
        Ok(table)
    }
}

/// Answers `acp/read_table` (8.8.1). Every dataset of the folder is visible to every call. Blocks.
pub fn read_table(folder: &Path, reference: &str, inline_max_bytes: u64, tmp: &Path) -> Result<HostTable, RpcError> {
    find(folder, reference).and_then(|dataset| dataset.table(inline_max_bytes, tmp)).map_err(|error| {
        let code = match &error {
            DatasetError::NotFound(_) | DatasetError::Outside(_) => ErrorCode::TableNotFound.code().into(),
            // JSON-RPC's internal error: the table is there, and can't be handed over whole.
            _ => -32603,
        };
        RpcError { code, message: error.to_string(), data: None }
    })
}

/// Where the rows are, as far as they are written.
enum Rows {
    Memory(Vec<u8>),
    File(BufWriter<tempfile::NamedTempFile>),
}

impl Rows {
    fn write(&mut self, bytes: &[u8], inline_max: u64, tmp: &Path) -> io::Result<()> {
        match self {
            Self::Memory(text) if (text.len() + bytes.len()) as u64 <= inline_max => text.extend_from_slice(bytes),
            Self::Memory(text) => {
                let file = tempfile::Builder::new().prefix("table-").suffix(".json").tempfile_in(tmp)?;
                let mut file = BufWriter::with_capacity(256 * 1024, file);
                file.write_all(text)?;
                file.write_all(bytes)?;
                *self = Self::File(file);
            }
            Self::File(file) => file.write_all(bytes)?,
        }
        Ok(())
    }
}

/// A cell of a CSV as JSON of its column's type. What is empty is `null`.
fn json_cell(cell: &str, column_type: ColumnType, out: &mut Vec<u8>) -> Result<(), &'static str> {
    if cell.is_empty() {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match column_type {
        ColumnType::Integer | ColumnType::Number => {
            if !is_number(cell) {
                return Err("is no number");
            }
            out.extend_from_slice(cell.as_bytes());
        }
        ColumnType::Boolean => match cell.to_ascii_lowercase().as_str() {
            truth @ ("true" | "false") => out.extend_from_slice(truth.as_bytes()),
            _ => return Err("is neither true nor false"),
        },
        ColumnType::Json => {
            serde_json::from_str::<&RawValue>(cell).map_err(|_| "is no JSON")?;
            out.extend_from_slice(cell.as_bytes());
        }
        ColumnType::String | ColumnType::Date | ColumnType::Datetime => {
            serde_json::to_writer(out, cell).map_err(|_| "can't be written")?;
        }
    }
    Ok(())
}

/// Whether a text is a number as JSON writes it, of any size.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && text.ends_with(|last: char| last.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(text).is_ok()
}

fn at(position: Option<csv::Position>, problem: &str) -> String {
    match position {
        Some(position) => format!("line {} {problem}", position.line()),
        None => format!("a line {problem}"),
    }
}
