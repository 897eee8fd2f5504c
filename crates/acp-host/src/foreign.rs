//! CSV files that a person puts into an `acp-data` folder (16.6): what they are called, which columns they have and of
//! which types. One pass over the file; memory does not grow with its rows.
//!
//! Comma, semicolon and tab separate fields, whichever the first line has most of. A file that can't be read without a
//! guess is refused, with the line to mend.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use acp_protocol::result::{ColumnType, Header};

/// What separates fields, in the order of preference where a first line has as many of each.
const DELIMITERS: [u8; 3] = *b",;\t";
/// Most columns that are read: as many as SQLite has in a table.
const COLUMNS_MAX: usize = 2000;
/// Longest record, so that a quote that is never closed needs no memory for the rest of the file.
const RECORD_MAX: usize = 8 * 1024 * 1024;
const READ_AHEAD: usize = 256 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Words of SQL that are no name without quotes.
const KEYWORDS: &str = "add all alter and as autoincrement between case check collate commit constraint create cross default deferrable \
    delete distinct drop else escape except exists foreign from full group having in index inner insert intersect \
    into is isnull join left limit natural not nothing notnull null on or order outer primary references returning \
    right select set table then to transaction union unique update using values when where window";
/// Tables that SQLite has of its own, and the beginnings of names that it keeps for itself.
const BUILT_IN: [&str; 7] = ["json_each", "json_tree", "jsonb_each", "jsonb_tree", "dbstat", "bytecode", "tables_used"];
const RESERVED: [&str; 2] = ["sqlite_", "pragma_"];

/// Why a file is no dataset.
#[derive(Debug)]
pub enum ForeignError {
    /// It can't be read.
    Io(io::Error),
    /// Something in it has to be mended.
    Content {
        /// The line, from 1.
        line: u64,
        /// What is wrong there, and what to do.
        reason: String,
    },
    /// It has no line at all.
    Empty,
}

impl std::fmt::Display for ForeignError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(formatter, "the file can't be read: {error}"),
            Self::Content { line, reason } => write!(formatter, "line {line}: {reason}"),
            Self::Empty => formatter.write_str("the file is empty; its first line must name the columns"),
        }
    }
}

impl std::error::Error for ForeignError {}

impl From<io::Error> for ForeignError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    /// Typed columns. Names are those of the file, but where one is missing or there twice.
    pub headers: Vec<Header>,
    /// Rows below the first line.
    pub row_count: u64,
    /// What separates the fields.
    pub delimiter: u8,
    /// What a reader of the file should know: columns that got another name.
    pub notes: Vec<String>,
}

/// What a file holds, by [`infer`], remembered until the file changes. Blocks.
pub fn describe(path: &Path) -> Result<Foreign, String> {
    static KNOWN: LazyLock<Mutex<HashMap<PathBuf, Known>>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let metadata = std::fs::metadata(path).map_err(|error| ForeignError::from(error).to_string())?;
    let stamp = (metadata.len(), metadata.modified().ok());
    if let Some(Known { described, .. }) = known().get(path).filter(|known| known.stamp == stamp) {
        return described.clone();
    }
    let described = infer(path).map_err(|error| error.to_string());
    known().insert(path.to_path_buf(), Known { stamp, described: described.clone() });
    described
}

/// What was found when a file had this length and time.
struct Known {
    stamp: (u64, Option<SystemTime>),
    described: Result<Foreign, String>,
}

/// Reads a whole file and tells its columns. Empty fields are null. A column is integer, number, boolean, date or datetime
/// where every value is one, and string otherwise. Digits with zeros in front stay text, and so do numbers with more digits
/// than 64-bit integers or floats give back. Blocks, so call it where blocking is allowed.
pub fn infer(path: &Path) -> Result<Foreign, ForeignError> {
    let delimiter = delimiter_of(path)?;
    let mut csv = reader(Quotes::new(plain(path)?, delimiter), delimiter);
    let mut record = csv::ByteRecord::new();
    if !next(&mut csv, &mut record, 1)? {
        return Err(ForeignError::Empty);
    }
    if record.len() > COLUMNS_MAX {
        let reason = format!("there are {} columns; {COLUMNS_MAX} can be read", record.len());
        return Err(ForeignError::Content { line: 1, reason });
    }
    let (names, notes) = unique_names(record.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()));
    let mut columns = vec![Column::default(); names.len()];
    let mut row_count = 0;
    while next(&mut csv, &mut record, names.len())? {
        row_count += 1;
        for (column, field) in columns.iter_mut().zip(&record) {
            // `next` has seen that it is UTF-8.
            column.take(std::str::from_utf8(field).unwrap_or_default());
        }
    }
    let header = |(name, column): (String, Column)| Header {
        name,
        column_type: column.column_type(),
        role: None,
        description: None,
    };
    let headers = names.into_iter().zip(columns).map(header).collect();
    Ok(Foreign { headers, row_count, delimiter, notes })
}

/// The id of a file: its name in lower case, with `_` for whatever a SQL name can't hold without quotes.
pub fn id_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let id: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    if is_plain_name(&id) { id } else { format!("d_{id}") }
}

/// Whether a text is a SQL name that needs no quotes, in lower case, and stands for nothing else in SQLite.
pub fn is_plain_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !KEYWORDS.split(' ').any(|word| word == text)
        && !BUILT_IN.contains(&text)
        && !RESERVED.iter().any(|prefix| text.starts_with(prefix))
}

/// Names for columns: SQL takes `A` and `a` for one, and none may be empty. Also says which ones are new.
pub fn unique_names(names: impl IntoIterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let names: Vec<String> = names.into_iter().collect();
    let mut taken: std::collections::HashSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let mut seen = std::collections::HashSet::new();
    let mut notes = Vec::new();
    let mut unique = Vec::with_capacity(names.len());
    for (place, name) in names.into_iter().enumerate() {
        let number = place + 1;
        if !name.is_empty() && seen.insert(name.to_lowercase()) {
            unique.push(name);
            continue;
        }
        let (stem, what) = match name.is_empty() {
            true => (format!("column_{number}"), "has no name".to_owned()),
            false => (format!("{name}_{number}"), format!("is called {name:?} like another one")),
        };
        let mut new = stem;
        while !taken.insert(new.to_lowercase()) {
            new.push('_');
        }
        notes.push(format!("Column {number} of the file {what}; here it is {new:?}."));
        seen.insert(new.to_lowercase());
        unique.push(new);
    }
    (unique, notes)
}

/// The type of a text by its form alone; `None` for an empty one, which is null.
pub fn type_of(text: &str) -> Option<ColumnType> {
    let first = *text.as_bytes().first()?;
    Some(match first {
        b'-' | b'0'..=b'9' if is_date(text) => ColumnType::Date,
        b'-' | b'0'..=b'9' if is_datetime(text) => ColumnType::Datetime,
        b'-' | b'0'..=b'9' => number_type(text).unwrap_or(ColumnType::String),
        b't' | b'T' | b'f' | b'F' if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") => {
            ColumnType::Boolean
        }
        _ => ColumnType::String,
    })
}

/// The type of a column that holds values of both.
pub fn common_type(one: ColumnType, other: ColumnType) -> ColumnType {
    use ColumnType::{Date, Datetime, Integer, Number, String};
    match (one, other) {
        (one, other) if one == other => one,
        (Integer, Number) | (Number, Integer) => Number,
        (Date, Datetime) | (Datetime, Date) => Datetime,
        _ => String,
    }
}

/// Whether a 64-bit float gives the digits of a decimal number back. Some programs print floats with 17 digits where fewer
/// would do; 17 tell every float apart.
pub fn is_exact_float(text: &str) -> bool {
    let Ok(value) = text.parse::<f64>() else { return false };
    let (negative, digits, power) = digits_of(text);
    match digits.len() {
        0 => true,
        1..=15 => value.is_normal(),
        16..=17 => (negative, digits.clone(), power) == digits_of(&format!("{value:.*e}", digits.len() - 1)),
        _ => false,
    }
}

/// What tells two writings of numbers apart: the digits without zeros at either end, and the power of ten of the first.
fn digits_of(text: &str) -> (bool, String, i64) {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return (false, String::new(), 0);
    }
    let zeros = (digits.len() - significant.len()) as i64;
    let power = whole.len() as i64 - zeros + exponent.parse::<i64>().unwrap_or_default();
    (negative, significant.trim_end_matches('0').to_owned(), power)
}

fn number_type(text: &str) -> Option<ColumnType> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let zeros_in_front = whole.len() > 1 && whole.starts_with('0');
    if !digits(whole) || zeros_in_front || !fraction.is_none_or(digits) || !exponent.is_none_or(digits) {
        return None;
    }
    match (fraction, exponent) {
        (None, None) => text.parse::<i64>().is_ok().then_some(ColumnType::Integer),
        _ => is_exact_float(text).then_some(ColumnType::Number),
    }
}

/// `YYYY-MM-DD`, a day that exists.
fn is_date(text: &str) -> bool {
    let form = text.len() == 10
        && text.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    form && text.parse::<jiff::civil::Date>().is_ok()
}

/// A date, `T` or a space, and a time of day with an optional fraction and an optional `Z` or offset.
fn is_datetime(text: &str) -> bool {
    let Some((date, time)) = text.split_at_checked(10) else { return false };
    if !is_date(date) || !time.starts_with(['T', ' ']) {
        return false;
    }
    let time = &time[1..];
    let end = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(end);
    let shape = time.len() >= 5 && time.as_bytes()[2] == b':' && (time.len() == 5 || time.as_bytes()[5] == b':');
    shape && time.parse::<jiff::civil::Time>().is_ok() && is_zone(zone)
}

/// Nothing, `Z`, `+HH`, `+HHMM` or `+HH:MM`.
fn is_zone(zone: &str) -> bool {
    let Some(offset) = zone.strip_prefix(['+', '-']) else { return zone.is_empty() || zone == "Z" };
    let digits = match offset.as_bytes() {
        [_, _, b':', _, _] => offset.replacen(':', "", 1),
        _ => offset.to_owned(),
    };
    matches!(digits.len(), 2 | 4)
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits[..2].parse::<u8>().is_ok_and(|hours| hours < 24)
}

/// What the values of a column have in common.
#[derive(Clone, Debug, Default)]
struct Column {
    column_type: Option<ColumnType>,
    /// Whether it holds integers that a float would round: then it can't hold fractions too.
    long_integers: bool,
}

impl Column {
    fn take(&mut self, text: &str) {
        if self.column_type == Some(ColumnType::String) {
            return;
        }
        let Some(found) = type_of(text) else { return };
        self.long_integers |= found == ColumnType::Integer && !is_exact_float(text);
        self.column_type = Some(self.column_type.map_or(found, |so_far| common_type(so_far, found)));
    }

    fn column_type(&self) -> ColumnType {
        match self.column_type {
            Some(ColumnType::Number) if self.long_integers => ColumnType::String,
            found => found.unwrap_or(ColumnType::String),
        }
    }
}

/// The next record, as UTF-8 with this many fields; `false` at the end.
fn next<R: Read>(csv: &mut csv::Reader<R>, record: &mut csv::ByteRecord, columns: usize) -> Result<bool, ForeignError> {
    let first = csv.position().record() == 0;
    let more = csv.read_byte_record(record).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<BadQuote>()) {
            Some(bad) => ForeignError::Content { line: bad.line, reason: bad.reason.to_owned() },
            None => ForeignError::Io(error),
        },
        other => ForeignError::Io(io::Error::other(format!("{other:?}"))),
    })?;
    if !more {
        return Ok(false);
    }
    let line = record.position().map_or(0, csv::Position::line);
    if !first && record.len() != columns {
        let (found, fields) = (record.len(), if record.len() == 1 { "field" } else { "fields" });
        let reason = format!("it has {found} {fields}, the first line names {columns}; each line must have as many");
        return Err(ForeignError::Content { line, reason });
    }
    if let Some(place) = record.iter().position(|field| std::str::from_utf8(field).is_err()) {
        let reason = format!("field {} is not UTF-8; save the file as UTF-8", place + 1);
        return Err(ForeignError::Content { line, reason });
    }
    Ok(true)
}

/// Whichever delimiter is most often in the first line, outside of quotes.
fn delimiter_of(path: &Path) -> io::Result<u8> {
    let mut counts = [0_usize; DELIMITERS.len()];
    let mut quoted = false;
    for byte in BufReader::new(plain(path)?.take(RECORD_MAX as u64)).bytes() {
        match byte? {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted => break,
            byte if !quoted => {
                if let Some(place) = DELIMITERS.iter().position(|delimiter| *delimiter == byte) {
                    counts[place] += 1;
                }
            }
            _ => {}
        }
    }
    // The first of the highest.
    let highest = counts.iter().copied().max().unwrap_or_default();
    Ok(counts.iter().position(|count| *count == highest).map_or(b',', |place| DELIMITERS[place]))
}

/// The file without its byte order mark.
fn plain(path: &Path) -> io::Result<impl Read + use<>> {
    let mut file = File::open(path)?;
    let mut start = Vec::with_capacity(BOM.len());
    (&mut file).take(BOM.len() as u64).read_to_end(&mut start)?;
    if start == BOM {
        start.clear();
    }
    Ok(io::Cursor::new(start).chain(file))
}

fn reader<R: Read>(source: R, delimiter: u8) -> csv::Reader<R> {
    csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(READ_AHEAD)
        .from_reader(source)
}

/// Passes bytes on, and fails where quotes don't pair up. The parser takes such a file as it is: a quote that is never
/// closed makes one field of all that follows.
struct Quotes<R> {
    inner: R,
    delimiter: u8,
    state: QuoteState,
    line: u64,
    /// Where the open quote is, and how many bytes ago.
    opened: u64,
    length: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote inside a quoted field: its end, or the first of two.
    MaybeEnd,
}

#[derive(Debug)]
struct BadQuote {
    line: u64,
    reason: &'static str,
}

impl std::fmt::Display for BadQuote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.reason)
    }
}

impl std::error::Error for BadQuote {}

impl<R> Quotes<R> {
    fn new(inner: R, delimiter: u8) -> Self {
        Self { inner, delimiter, state: QuoteState::FieldStart, line: 1, opened: 0, length: 0 }
    }

    fn take(&mut self, byte: u8) -> Result<(), BadQuote> {
        use QuoteState::{FieldStart, MaybeEnd, Quoted, Unquoted};
        let ends_field = byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        self.state =
            match (self.state, byte) {
                (FieldStart, b'"') => {
                    (self.opened, self.length) = (self.line, 0);
                    Quoted
                }
                (Quoted, b'"') => MaybeEnd,
                (MaybeEnd, b'"') => Quoted,
                (Quoted, _) => {
                    self.length += 1;
                    if self.length > RECORD_MAX {
                        return Err(self.bad(
                            "the field that begins with a quote here is longer than 8 MiB; is the quote closed?",
                        ));
                    }
                    Quoted
                }
                (_, _) if ends_field => FieldStart,
                (MaybeEnd, _) => return Err(self.bad(
                    "there is text after the closing quote of a field; quotes inside a quoted field are written twice",
                )),
                _ => Unquoted,
            };
        self.line += u64::from(byte == b'\n');
        Ok(())
    }

    fn bad(&self, reason: &'static str) -> BadQuote {
        BadQuote { line: self.opened, reason }
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        for byte in &buffer[..count] {
            self.take(*byte).map_err(io::Error::other)?;
        }
        if count == 0 && !buffer.is_empty() && self.state == QuoteState::Quoted {
            return Err(io::Error::other(self.bad("the quote that begins a field here is never closed")));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer_text(text: impl AsRef<[u8]>) -> Result<Foreign, ForeignError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a file.csv");
        std::fs::write(&path, text).unwrap();
        infer(&path)
    }

    fn types(foreign: &Foreign) -> String {
        let word = |header: &Header| format!("{}:{:?}", header.name, header.column_type);
        foreign.headers.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_column_gets_the_type_that_all_its_values_have() {
        let text = "i,n,b,d,t,s,zip,long,mixed,none\r\n\
                    1,1.5,true,2026-01-31,2026-01-31T10:00:00Z,x,08001,12345678901234567890,1,\r\n\
                    -20,3,FALSE,2024-02-29,2026-01-31 10:00:00.123+02:00,,28001,1,x,\r\n\
                    ,1e3,,,2026-02-01,\"a \"\"b\"\"\nc\",28002,,2026-01-01,\r\n";
        let foreign = infer_text(text).unwrap();
        assert_eq!(
            types(&foreign),
            "i:Integer n:Number b:Boolean d:Date t:Datetime s:String zip:String long:String mixed:String none:String"
        );
        assert_eq!((foreign.row_count, foreign.delimiter), (3, b','));
    }

    #[test]
    fn forms_that_look_like_something_else_stay_text() {
        for text in [
            "007",
            "-007",
            "00",
            "+5",
            ".5",
            "5.",
            "1_000",
            "1,5",
            "0x10",
            "1e",
            "1e400",
            "NaN",
            "inf",
            "-",
            "2026-02-30",
            "2026-1-1",
            "2026-01-01T",
            "2026-01-01T25:00",
            "2026-01-01T10:00X",
            "2026-01-01 10:00+2",
            "9223372036854775808",
            "0.1000000000000000055",
            "yes",
            "tru",
            " 1",
            "1 ",
        ] {
            assert_eq!(type_of(text), Some(ColumnType::String), "{text}");
        }
        for (text, expected) in [
            ("0", ColumnType::Integer),
            ("-0", ColumnType::Integer),
            ("9223372036854775807", ColumnType::Integer),
            ("0.10", ColumnType::Number),
            ("-0.5", ColumnType::Number),
            ("1E-7", ColumnType::Number),
            ("12345.670000", ColumnType::Number),
            ("2026-01-01T10:00", ColumnType::Datetime),
            ("2026-01-01 10:00:00+0200", ColumnType::Datetime),
            ("True", ColumnType::Boolean),
        ] {
            assert_eq!(type_of(text), Some(expected), "{text}");
        }
        assert_eq!(type_of(""), None);
        let mixed = infer_text("a\n9007199254740993\n0.5\n").unwrap();
        assert_eq!(types(&mixed), "a:String", "a float would round the integer");
    }

    #[test]
    fn marks_delimiters_and_line_ends_of_other_programs_are_read() {
        for text in
            ["\u{feff}a;b\r\n1;\"x;y\"\r\n2;3,5\r\n", "a\tb\n1\tx,y\n2\t\"3,\n5\"", "\"a\",b\n1,\"2,0\"\n2,\"x\"\n"]
        {
            let foreign = infer_text(text).unwrap();
            assert_eq!((types(&foreign).as_str(), foreign.row_count), ("a:Integer b:String", 2), "{text:?}");
        }
        let only_names = infer_text("a,b\n").unwrap();
        assert_eq!((types(&only_names).as_str(), only_names.row_count), ("a:String b:String", 0));
    }

    #[test]
    fn a_file_that_needs_a_guess_is_refused_with_its_line() {
        for (text, line, needle) in [
            (&b"a,b\n1,2\n3\n"[..], 3, "1 field"),
            (b"a,b\n1,2\n3,4,5\n", 3, "3 fields"),
            (b"a,b\n1,\"x\ny\"\n2,\xff\n", 4, "UTF-8"),
            (b"a,b\n1,2\n3,\"never\n4,5\n6,7\n", 3, "never closed"),
            (b"a,b\n1,\"x\"y\n", 2, "after the closing quote"),
            (b"a\0,\xc3\n", 1, "UTF-8"),
        ] {
            match infer_text(text) {
                Err(ForeignError::Content { line: found, reason }) => {
                    assert!(found == line && reason.contains(needle), "{found} {reason}");
                }
                other => panic!("{}: {other:?}", String::from_utf8_lossy(text)),
            }
        }
        for empty in ["", "\u{feff}", "\n\n"] {
            assert!(matches!(infer_text(empty), Err(ForeignError::Empty)), "{empty:?}");
        }
    }

    #[test]
    fn columns_and_files_get_names_that_sql_can_tell_apart() {
        let foreign = infer_text("A,a,,x,\n1,2,3,4,5\n").unwrap();
        let names: Vec<&str> = foreign.headers.iter().map(|header| header.name.as_str()).collect();
        assert_eq!(names, ["A", "a_2", "column_3", "x", "column_5"]);
        assert_eq!(foreign.notes.len(), 3);
        for (file, id) in [
            ("Sales 2026.csv", "sales_2026"),
            ("2026.csv", "d_2026"),
            ("order.csv", "d_order"),
            ("ñandú.csv", "d__and_"),
            ("a.b.csv", "a_b"),
            ("ok.csv", "ok"),
            ("json_each.csv", "d_json_each"),
            ("sqlite_x.csv", "d_sqlite_x"),
        ] {
            assert_eq!(id_of(Path::new(file)), id);
            assert!(is_plain_name(id));
        }
    }
}
