//! The table a tool fills: declared columns and rows pushed one by one, each serialised once (8.5, 8.6).

use std::borrow::Cow;
use std::collections::HashMap;

use acp_protocol::MODEL_ROWS_SINGLE;
use acp_protocol::result::{ColumnType, Header};
use acp_protocol::session::Sampling;
use serde_json::value::RawValue;

use crate::cell::{self, Cell, Inferred, Written};
use crate::error::{Error, Result};
use crate::outgoing::Handover;
use crate::spool::{Overflow, Place, Spool, TableFiles, spread};

/// Characters of a value that a warning quotes: values of reports are other people's text.
const QUOTED_CHARACTERS: usize = 40;

/// What happens to the rows of a call.
#[derive(Clone, Debug)]
pub(crate) struct TableSettings {
    /// Rows the model sees.
    pub(crate) row_limit: u32,
    /// How they are chosen.
    pub(crate) sampling: Sampling,
    /// Tables up to this many bytes travel inside the answer.
    pub(crate) inline_max_bytes: u64,
    /// Who wants the rest.
    pub(crate) keep: Keep,
    /// Where files go.
    pub(crate) files: TableFiles,
    /// How a table beyond the inline limit gets to who wants it.
    pub(crate) handover: Handover,
}

impl TableSettings {
    /// The most rows of a table that an answer can show: how many it is depends on the other tables of the answer.
    fn most_shown(&self) -> usize {
        MODEL_ROWS_SINGLE.max(self.row_limit as usize)
    }
}

/// Who wants the whole table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// A host that stores it: inline or by file.
    Everything,
    /// A client that does not know ACP: inline if it is small; nobody would remove a file.
    Inline,
    /// A host that said that it does not store it.
    Nothing,
}

/// A table with declared columns. Rows are pushed as they arrive; memory does not grow with their number once the
/// inline limit is passed.
#[derive(Debug)]
pub struct TableWriter {
    columns: Vec<Column>,
    row: Vec<u8>,
    head: Vec<Box<RawValue>>,
    totals: Option<Box<RawValue>>,
    spool: Spool,
    settings: TableSettings,
}

#[derive(Debug)]
struct Column {
    header: Header,
    /// `{"name":` or `,"name":`, escaped once.
    prefix: Vec<u8>,
    fraction: bool,
    inexact: bool,
    not_of_type: u64,
    example: String,
}

/// A complete table.
#[derive(Debug)]
pub(crate) struct FinishedTable {
    pub(crate) headers: Vec<Header>,
    pub(crate) rows: u64,
    pub(crate) sample: Vec<Box<RawValue>>,
    pub(crate) totals: Option<Box<RawValue>>,
    pub(crate) place: Place,
    pub(crate) warnings: Vec<String>,
}

impl TableWriter {
    pub(crate) fn new(headers: Vec<Header>, settings: TableSettings) -> Result<Self> {
        let mut columns: Vec<Column> = Vec::with_capacity(headers.len());
        for header in headers {
            if columns.iter().any(|column| column.header.name == header.name) {
                return Err(Error::invalid_arguments(format!(
                    "The column {:?} would appear twice. Ask for each field once.",
                    header.name
                )));
            }
            let mut prefix = vec![if columns.is_empty() { b'{' } else { b',' }];
            cell::write_escaped(&mut prefix, &header.name);
            prefix.push(b':');
            let example = String::new();
            columns.push(Column { header, prefix, fraction: false, inexact: false, not_of_type: 0, example });
        }
        let needs_rows_again = settings.sampling == Sampling::Spread;
        let (limit, overflow) = match settings.keep {
            Keep::Everything => (settings.inline_max_bytes, Overflow::File),
            Keep::Inline | Keep::Nothing if needs_rows_again => (settings.inline_max_bytes, Overflow::File),
            Keep::Inline => (settings.inline_max_bytes, Overflow::Discard),
            Keep::Nothing => (0, Overflow::Discard),
        };
        let spool = Spool::new(limit, overflow, settings.files.clone());
        Ok(Self { columns, row: Vec::with_capacity(512), head: Vec::new(), totals: None, spool, settings })
    }

    /// Adds one row; `cells` are in the order of the headers. A cell that is not of its column's type becomes `null`
    /// and a warning.
    pub fn push(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        if cells.len() != self.columns.len() {
            return Err(Error::upstream(format!(
                "A row came with {} values for {} columns. Run the call again; if it happens again, report it.",
                cells.len(),
                self.columns.len()
            )));
        }
        self.row.clear();
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.row.extend_from_slice(&column.prefix);
            column.write(&mut self.row, *cell);
        }
        self.row.extend_from_slice(if cells.is_empty() { b"{}" } else { b"}" });
        if self.settings.sampling == Sampling::Head && self.head.len() < self.settings.most_shown() {
            self.head.push(raw(String::from_utf8_lossy(&self.row).into_owned())?);
        }
        self.spool.push(&self.row).map_err(|error| cannot_store(&self.settings, &error))
    }

    /// Sets the totals that the source computed over all rows, typed as their columns are; a name without a column
    /// is written as a number.
    pub fn set_totals<'a>(&mut self, totals: impl IntoIterator<Item = (&'a str, Cell<'a>)>) -> Result<()> {
        let mut out = vec![b'{'];
        for (name, value) in totals {
            if out.len() > 1 {
                out.push(b',');
            }
            cell::write_escaped(&mut out, name);
            out.push(b':');
            let column_type = self
                .columns
                .iter()
                .find(|column| column.header.name == name)
                .map_or(ColumnType::Number, |column| column.header.column_type);
            cell::write(&mut out, column_type, value);
        }
        out.push(b'}');
        self.totals = Some(raw(String::from_utf8_lossy(&out).into_owned())?);
        Ok(())
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.spool.rows()
    }

    /// Completes the table, of which the model is shown `shown` rows.
    pub(crate) fn finish(self, shown: usize) -> Result<FinishedTable> {
        let settings = self.settings;
        let mut warnings: Vec<String> = self.columns.iter().flat_map(Column::warnings).collect();
        let mut spooled = self.spool.finish().map_err(|error| cannot_store(&settings, &error))?;
        if let (Some(reason), Handover::File | Handover::Link(_)) = (&spooled.fallback, &settings.handover) {
            warnings.push(format!("The table is delivered inline, because no file could be written ({reason})."));
        }
        let sample = match settings.sampling {
            Sampling::Head => self.head.into_iter().take(shown).collect(),
            Sampling::Spread => spooled
                .rows_at(&spread(spooled.rows, shown as u64))
                .map_err(|error| cannot_store(&settings, &error))?
                .into_iter()
                .map(raw)
                .collect::<Result<_>>()?,
        };
        let headers = self.columns.into_iter().map(Column::into_header).collect();
        let place = match settings.keep {
            Keep::Everything => spooled.place,
            Keep::Inline if matches!(spooled.place, Place::Memory(_)) => spooled.place,
            Keep::Inline | Keep::Nothing => Place::Nowhere,
        };
        Ok(FinishedTable { headers, rows: spooled.rows, sample, totals: self.totals, place, warnings })
    }
}

impl Column {
    fn write(&mut self, out: &mut Vec<u8>, cell: Cell<'_>) {
        match cell::write(out, self.header.column_type, cell) {
            Written::Value => {}
            Written::Fraction { inexact } => {
                self.fraction = true;
                self.inexact |= inexact;
            }
            Written::Inexact => self.inexact = true,
            Written::NotOfType => {
                self.not_of_type += 1;
                if self.example.is_empty() {
                    self.example = quote(cell);
                }
            }
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let name = &self.header.name;
        if self.not_of_type > 0 {
            let kind = format!("{:?}", self.header.column_type).to_lowercase();
            let (count, example) = (self.not_of_type, &self.example);
            warnings.push(format!(
                "Column {name}: {count} value(s) are not of type {kind} and became null, such as {example}."
            ));
        }
        if self.fraction {
            warnings
                .push(format!("Column {name} was announced as integer but has fractional values; its type is number."));
        }
        if self.inexact {
            warnings.push(format!(
                "Column {name} has numbers with more digits than a 64-bit float holds; they are delivered exactly, read them as decimals. An identifier is safer as a text (in SQL: CAST AS STRING)."
            ));
        }
        warnings
    }

    /// A column declared integer in which fractions arrived is a number column: the digits are the same.
    fn into_header(self) -> Header {
        let column_type = if self.fraction { ColumnType::Number } else { self.header.column_type };
        Header { column_type, ..self.header }
    }
}

/// A table whose rows are JSON objects and whose columns need not be declared: types are inferred from all values,
/// and a declared column is converted to its type (8.6). Rows are written twice, since a type is only known at the
/// end; tools that know their columns use [`TableWriter`].
#[derive(Debug)]
pub struct ObjectTable {
    declared: Vec<Header>,
    undeclared: Vec<(String, Inferred)>,
    /// Where a column is: declared ones first, then the others in order of appearance.
    places: HashMap<String, usize>,
    spool: Spool,
    settings: TableSettings,
}

impl ObjectTable {
    pub(crate) fn new(declared: Vec<Header>, settings: TableSettings) -> Self {
        let spool = Spool::new(settings.inline_max_bytes, Overflow::File, settings.files.clone());
        let places = declared.iter().enumerate().map(|(place, header)| (header.name.clone(), place)).collect();
        Self { declared, undeclared: Vec::new(), places, spool, settings }
    }

    /// Adds one row, a JSON object as text.
    pub fn push(&mut self, row: &str) -> Result<()> {
        let row = cell::whole_characters(row);
        let fields = fields(&row)?;
        let mut line = vec![b'{'];
        for (name, value) in &fields {
            let next = self.places.len();
            let place = match self.places.get(name.as_ref()) {
                Some(place) => *place,
                None => *self.places.entry(name.to_string()).or_insert(next),
            };
            if let Some(undeclared) = place.checked_sub(self.declared.len()) {
                if undeclared == self.undeclared.len() {
                    self.undeclared.push((name.to_string(), Inferred::Unknown));
                }
                let known = &mut self.undeclared[undeclared].1;
                *known = known.and(Inferred::of(value.get()));
            }
            if line.len() > 1 {
                line.push(b',');
            }
            cell::write_escaped(&mut line, name);
            line.push(b':');
            line.extend(value.get().bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        }
        line.push(b'}');
        self.spool.push(&line).map_err(|error| cannot_store(&self.settings, &error))
    }

    /// The same rows as a typed table.
    pub fn into_table(self) -> Result<TableWriter> {
        let mut headers = self.declared;
        headers.extend(self.undeclared.into_iter().map(|(name, inferred)| Header {
            name,
            column_type: inferred.column_type(),
            role: None,
            description: None,
        }));
        let (columns, places) = (headers.len(), self.places);
        let mut table = TableWriter::new(headers, self.settings.clone())?;
        let cannot_store = |error: std::io::Error| cannot_store(&self.settings, &error);
        let mut spooled = self.spool.finish().map_err(cannot_store)?;
        let mut failure = None;
        spooled
            .for_each(|row| {
                let pushed = fields(row).and_then(|fields| {
                    let mut cells = vec![Cell::Null; columns];
                    for (name, value) in &fields {
                        if let Some(place) = places.get(name.as_ref()) {
                            cells[*place] = Cell::Json(value.get());
                        }
                    }
                    table.push(&cells)
                });
                pushed.map_err(|error| {
                    failure = Some(error);
                    std::io::Error::other("a row could not be written")
                })
            })
            .map_err(|error| failure.take().unwrap_or_else(|| cannot_store(error)))?;
        Ok(table)
    }
}

/// The fields of a JSON object in their order; values are not parsed.
pub(crate) fn fields(row: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>> {
    struct Fields;
    impl<'de> serde::de::Visitor<'de> for Fields {
        type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some(entry) = map.next_entry()? {
                fields.push(entry);
            }
            Ok(fields)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(row);
    serde::Deserializer::deserialize_map(&mut deserializer, Fields)
        .and_then(|fields| deserializer.end().map(|()| fields))
        .map_err(|_| {
            Error::upstream(
                "A row of the source is not a JSON object. Run the call again; if it happens again, report it.",
            )
        })
}

fn raw(json: String) -> Result<Box<RawValue>> {
    RawValue::from_string(json).map_err(|_| Error::upstream("A row could not be written as JSON."))
}

fn cannot_store(settings: &TableSettings, error: &std::io::Error) -> Error {
    Error::upstream(format!(
        "The table could not be kept in {}: {error}. The person who runs this server has to make room there or set ACP_TMP_DIR to another folder.",
        settings.files.directory.display()
    ))
}

fn quote(cell: Cell<'_>) -> String {
    let text = match cell {
        Cell::Json(json) => serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned()),
        Cell::Text(text) => text.to_owned(),
        other => format!("{other:?}"),
    };
    let clipped: String = text.chars().filter(|mark| !mark.is_control()).take(QUOTED_CHARACTERS).collect();
    format!("{clipped:?}")
}

#[cfg(test)]
mod tests {
    use crate::fuzzing;

    #[test]
    fn a_row_is_one_object_and_nothing_else() {
        for (row, taken) in [
            ("{}", true),
            (" {\"a\":1}\n", true),
            ("{\"a\":1}x", false),
            ("{} {}", false),
            ("[1]", false),
            ("1", false),
            ("{\"a\":}", false),
            ("", false),
        ] {
            assert_eq!(fuzzing::object_table(Vec::new()).push(row).is_ok(), taken, "{row}");
        }
    }
}
