//! From a table of the host to newline-delimited JSON that a load job takes: which column becomes which, and every value
//! that does not fit, before anything is sent.
//!
//! The schema is never guessed by BigQuery: that turned texts of digits into numbers and long texts into bytes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};

use acp_core::{Error, HostRow, HostTable, Result, is_exact_as_float};
use acp_protocol::result::{ColumnType, Header};
use google_cloud_bigquery_v2::model::TableFieldSchema;
use jiff::civil::{Date, DateTime, Time};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Problems that are listed; all are counted.
const LISTED: usize = 20;
/// Beyond this a reader that takes JSON numbers for floats loses digits; BigQuery asks for texts then.
const SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Beginnings of names that BigQuery keeps for itself.
const RESERVED: [&str; 9] = [
    "_TABLE_",
    "_FILE_",
    "_PARTITION",
    "_ROW_TIMESTAMP",
    "__ROOT__",
    "_COLIDENTIFIER",
    "_CHANGE_SEQUENCE_NUMBER",
    "_CHANGE_TYPE",
    "_CHANGE_TIMESTAMP",
];

/// A column of the host's table and the one it becomes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mapped {
    header: String,
    pub(crate) column: String,
    /// `STRING`, `INT64`, …; of a datetime of a new table not known before its values are seen.
    kind: Option<String>,
    required: bool,
    repeated: bool,
}

/// The columns of a load.
#[derive(Debug)]
pub(crate) struct Mapping {
    columns: Vec<Mapped>,
    /// What can't be loaded, in words.
    problems: Vec<String>,
    /// How many problems there are, listed or not.
    found: usize,
}

/// The rows as they are sent.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) hash: String,
    pub(crate) warnings: Vec<String>,
}

impl Mapping {
    /// For a table that does not exist yet. `types` are wishes for some columns, by the name of the header.
    pub(crate) fn of_new(headers: &[Header], types: &BTreeMap<String, String>) -> Self {
        let mut mapping = Self { columns: Vec::new(), problems: Vec::new(), found: 0 };
        let mut taken = HashSet::new();
        for header in headers {
            let mut column = column_name(&header.name);
            let stem = column.clone();
            let mut copy = 1;
            while !taken.insert(column.to_ascii_lowercase()) {
                copy += 1;
                column = format!("{stem}_{copy}");
            }
            let wish = types.get(&header.name).map(|kind| kind.trim().to_ascii_uppercase());
            let kind = match (wish, header.column_type) {
                (Some(kind), _) => match usual(&kind) {
                    Some(kind) => Some(kind.to_owned()),
                    None => {
                        mapping.problem(format!("column {:?}: {kind} is no type for a new column", header.name));
                        Some("STRING".to_owned())
                    }
                },
                (None, ColumnType::String) => Some("STRING".to_owned()),
                (None, ColumnType::Integer) => Some("INT64".to_owned()),
                (None, ColumnType::Number) => Some("FLOAT64".to_owned()),
                (None, ColumnType::Boolean) => Some("BOOL".to_owned()),
                (None, ColumnType::Date) => Some("DATE".to_owned()),
                (None, ColumnType::Json) => Some("JSON".to_owned()),
                (None, ColumnType::Datetime) => None,
            };
            mapping.columns.push(Mapped {
                header: header.name.clone(),
                column,
                kind,
                required: false,
                repeated: false,
            });
        }
        for unknown in types.keys().filter(|name| !headers.iter().any(|header| header.name == **name)) {
            mapping.problem(format!("types names {unknown:?}, which is no column of the table"));
        }
        mapping
    }

    /// For a table that exists: its columns count, found by their names in any case.
    pub(crate) fn of_existing(headers: &[Header], fields: &[TableFieldSchema]) -> Self {
        let mut mapping = Self { columns: Vec::new(), problems: Vec::new(), found: 0 };
        let mut used = HashSet::new();
        for header in headers {
            let found = fields.iter().find(|field| {
                field.name.eq_ignore_ascii_case(&header.name)
                    || field.name.eq_ignore_ascii_case(&column_name(&header.name))
            });
            let Some(field) = found else {
                mapping.problem(format!("column {:?} does not exist in the table", header.name));
                continue;
            };
            if field.generated_column.is_some() {
                mapping.problem(format!("column {:?} is computed by the table and can't be loaded", header.name));
                continue;
            }
            if !used.insert(field.name.to_ascii_lowercase()) {
                mapping.problem(format!(
                    "column {:?} meets the table's column {:?} a second time",
                    header.name, field.name
                ));
                continue;
            }
            mapping.columns.push(Mapped {
                header: header.name.clone(),
                column: field.name.clone(),
                kind: Some(standard(&field.r#type).to_owned()),
                required: field.mode == "REQUIRED",
                repeated: field.mode == "REPEATED",
            });
        }
        for field in fields.iter().filter(|field| field.mode == "REQUIRED" && field.generated_column.is_none()) {
            if !used.contains(&field.name.to_ascii_lowercase()) {
                mapping.problem(format!("the table requires {:?}, which the rows do not have", field.name));
            }
        }
        mapping
    }

    fn problem(&mut self, problem: String) {
        self.found += 1;
        if self.problems.len() < LISTED {
            self.problems.push(problem);
        }
    }

    /// Reads every row and writes it down as BigQuery takes it. What does not fit is collected, so that all of it can be
    /// told at once.
    pub(crate) fn write(&mut self, table: HostTable, file: File) -> Result<Content> {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        let mut hash = Sha256::new();
        let (mut rows, mut bytes) = (0, 0);
        let mut seen = vec![Seen::default(); self.columns.len()];
        let mut line = Vec::new();
        table.for_each(|row| {
            rows += 1;
            line.clear();
            self.row(row, rows, &mut seen, &mut line);
            line.push(b'\n');
            hash.update(&line);
            bytes += line.len() as u64;
            out.write_all(&line).map_err(cannot_store)
        })?;
        let mut warnings = Vec::new();
        for (index, seen) in seen.iter().enumerate() {
            let header = &self.columns[index].header;
            let mixed = format!(
                "column {header:?} has {} datetimes with a time zone and {} without; give all of them one, or ask for types {{{header:?}: \"STRING\"}}",
                seen.zoned, seen.civil
            );
            if seen.inexact > 0 {
                warnings.push(format!(
                    "Column {header:?}: {} number(s) have more digits than FLOAT64 keeps; ask for types {{{header:?}: \"NUMERIC\"}} to keep them.",
                    seen.inexact
                ));
            }
            let undecided = self.columns[index].kind.is_none();
            if undecided && seen.zoned > 0 && seen.civil > 0 {
                self.problem(mixed);
            }
            if undecided {
                let kind = if seen.zoned > 0 { "TIMESTAMP" } else { "DATETIME" };
                self.columns[index].kind = Some(kind.to_owned());
            }
        }
        let file = out.into_inner().map_err(|error| cannot_store(error.into_error()))?;
        let hash = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Content { file, bytes, rows, hash, warnings })
    }

    fn row(&mut self, row: &HostRow<'_>, number: u64, seen: &mut [Seen], line: &mut Vec<u8>) {
        line.push(b'{');
        let mut problems = Vec::new();
        for ((column, seen), (_, cell)) in self.columns.iter().zip(seen).zip(cells(row, &self.columns)) {
            if cell == "null" {
                if column.required {
                    problems.push(format!(
                        "row {number}, column {:?}: no value, and the table requires one",
                        column.header
                    ));
                }
                continue;
            }
            match column.write(cell, seen) {
                Ok(value) => {
                    if line.len() > 1 {
                        line.push(b',');
                    }
                    // Writing into memory can't fail.
                    let _ = serde_json::to_writer(&mut *line, &column.column);
                    line.push(b':');
                    line.extend_from_slice(value.as_bytes());
                }
                Err(what) => problems.push(format!("row {number}, column {:?}: {what}", column.header)),
            }
        }
        line.push(b'}');
        problems.into_iter().for_each(|problem| self.problem(problem));
    }

    /// The error for what does not fit, if anything does not.
    pub(crate) fn check(&self) -> Result<()> {
        if self.found == 0 {
            return Ok(());
        }
        let more = self.found - self.problems.len();
        let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(Error::invalid_arguments(format!(
            "Nothing was loaded, because the rows do not fit the table: {}{rest}. Change the rows or the destination and try again.",
            self.problems.join("; ")
        )))
    }

    /// The schema of the load job: the columns that rows have, typed.
    pub(crate) fn schema(&self) -> Vec<TableFieldSchema> {
        let field = |column: &Mapped| {
            TableFieldSchema::new().set_name(&column.column).set_type(column.kind.clone().unwrap_or_default())
        };
        self.columns.iter().map(field).collect()
    }

    /// For the answer: which column becomes which.
    pub(crate) fn to_json(&self) -> Value {
        let columns = self.columns.iter().map(|column| {
            let mut entry = json!({"from": column.header, "to": column.column, "type": column.kind});
            if column.repeated {
                entry["mode"] = json!("REPEATED");
            }
            if column.required {
                entry["mode"] = json!("REQUIRED");
            }
            entry
        });
        Value::Array(columns.collect())
    }

    /// What does not fit, for a plan.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// The cells of a row in the order of the columns.
fn cells<'a>(row: &'a HostRow<'_>, columns: &'a [Mapped]) -> impl Iterator<Item = (&'a str, &'a str)> {
    let found: Vec<(&str, &str)> = row.cells().collect();
    columns.iter().map(move |column| {
        found.iter().find(|(name, _)| *name == column.header).copied().unwrap_or((column.header.as_str(), "null"))
    })
}

/// What the values of a column were.
#[derive(Clone, Debug, Default)]
struct Seen {
    zoned: u64,
    civil: u64,
    inexact: u64,
}

impl Mapped {
    /// A value as the load job takes it: JSON text.
    fn write<'a>(&self, cell: &'a str, seen: &mut Seen) -> Result<Cow<'a, str>, String> {
        if self.repeated {
            return match cell.starts_with('[') {
                true => Ok(cell.into()),
                false => Err("is no list, and the column holds lists".to_owned()),
            };
        }
        let text = text(cell);
        match self.kind.as_deref() {
            None => {
                datetime(&text, seen)?;
                Ok(quoted(&text))
            }
            Some("STRING") => Ok(match cell.starts_with('"') {
                true => cell.into(),
                false => quoted(cell),
            }),
            Some("INT64") => integer(&text),
            Some("FLOAT64") => {
                let number = number(&text)?;
                seen.inexact += u64::from(!is_exact_as_float(&number));
                Ok(number.into_owned().into())
            }
            Some(kind @ ("NUMERIC" | "BIGNUMERIC")) => decimal(&text, kind),
            Some("BOOL") => match text.as_ref() {
                "true" | "false" => Ok(text.into_owned().into()),
                _ => Err(format!("{} is neither true nor false", shown(cell))),
            },
            Some("DATE") => match text.parse::<Date>() {
                Ok(_) if text.len() == 10 => Ok(quoted(&text)),
                _ => Err(format!("{} is no day (YYYY-MM-DD)", shown(cell))),
            },
            Some("DATETIME") => match datetime(&text, seen)? {
                false => Ok(quoted(&text)),
                true => Err(format!("{} has a time zone, and a DATETIME has none", shown(cell))),
            },
            Some("TIMESTAMP") => match datetime(&text, seen)? {
                true => Ok(quoted(&text)),
                false => Err(format!("{} has no time zone, and a TIMESTAMP needs one, such as Z", shown(cell))),
            },
            Some("TIME") => match text.parse::<Time>() {
                Ok(_) => Ok(quoted(&text)),
                Err(_) => Err(format!("{} is no time (HH:MM:SS)", shown(cell))),
            },
            Some("RECORD" | "STRUCT") => match cell.starts_with('{') {
                true => Ok(cell.into()),
                false => Err(format!("{} is no object, and the column holds records", shown(cell))),
            },
            Some("JSON") => Ok(cell.into()),
            Some("BYTES" | "GEOGRAPHY" | "INTERVAL") if cell.starts_with('"') => Ok(cell.into()),
            Some(kind) => Err(format!("{} can't be loaded into a column of type {kind}", shown(cell))),
        }
    }
}

/// The text of a cell: what a JSON string says, or the JSON itself.
fn text(cell: &str) -> Cow<'_, str> {
    match cell.starts_with('"') {
        true => serde_json::from_str::<String>(cell).map_or(Cow::Borrowed(cell), Cow::Owned),
        false => cell.into(),
    }
}

fn quoted(text: &str) -> Cow<'static, str> {
    Cow::Owned(serde_json::to_string(text).unwrap_or_default())
}

/// A value for a message: it is data, so it is short.
fn shown(cell: &str) -> String {
    let clipped: String = cell.chars().filter(|mark| !mark.is_control()).take(40).collect();
    if clipped.len() < cell.len() { format!("{clipped}…") } else { clipped }
}

fn integer(text: &str) -> Result<Cow<'static, str>, String> {
    let digits = text.strip_suffix(".0").unwrap_or(text);
    let value: i64 = digits.parse().map_err(|_| format!("{} is no whole number of 64 bits", shown(text)))?;
    Ok(match value.unsigned_abs() <= SAFE_INTEGER {
        true => value.to_string().into(),
        false => format!("\"{value}\"").into(),
    })
}

fn number(text: &str) -> Result<Cow<'_, str>, String> {
    match serde_json::from_str::<serde_json::Number>(text) {
        Ok(_) => Ok(text.into()),
        Err(_) => Err(format!("{} is no number", shown(text))),
    }
}

/// Digits before and after the point that a decimal type keeps.
fn decimal(text: &str, kind: &str) -> Result<Cow<'static, str>, String> {
    number(text)?;
    let (whole_max, fraction_max) = if kind == "NUMERIC" { (29, 9) } else { (38, 38) };
    let plain = text.trim_start_matches('-');
    if plain.contains(['e', 'E']) {
        return Err(format!("{} is written with an exponent; write the digits", shown(text)));
    }
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.trim_start_matches('0').len() > whole_max || fraction.len() > fraction_max {
        return Err(format!("{} has more digits than {kind} keeps", shown(text)));
    }
    // As a text, so that no reader makes a float of it.
    Ok(quoted(text))
}

/// Whether a datetime has a time zone.
fn datetime(text: &str, seen: &mut Seen) -> Result<bool, String> {
    let zoned = text.parse::<jiff::Timestamp>().is_ok();
    let civil = !zoned && text.parse::<DateTime>().is_ok();
    seen.zoned += u64::from(zoned);
    seen.civil += u64::from(civil);
    if zoned || civil { Ok(zoned) } else { Err(format!("{} is no datetime (YYYY-MM-DDTHH:MM:SS)", shown(text))) }
}

/// A name that any column may have.
fn column_name(header: &str) -> String {
    let mut name: String = header
        .chars()
        .map(|mark| if mark.is_ascii_alphanumeric() || mark == '_' { mark } else { '_' })
        .take(290)
        .collect();
    let upper = name.to_ascii_uppercase();
    if name.is_empty()
        || name.starts_with(|mark: char| mark.is_ascii_digit())
        || RESERVED.iter().any(|known| upper.starts_with(known))
    {
        name.insert_str(0, "c_");
    }
    name
}

/// A type that a new column may have, in GoogleSQL's spelling.
fn usual(kind: &str) -> Option<&'static str> {
    let known = [
        "STRING",
        "INT64",
        "FLOAT64",
        "NUMERIC",
        "BIGNUMERIC",
        "BOOL",
        "DATE",
        "DATETIME",
        "TIME",
        "TIMESTAMP",
        "JSON",
        "BYTES",
        "GEOGRAPHY",
    ];
    known.into_iter().find(|known| *known == standard(kind))
}

/// GoogleSQL's spelling of a type of a schema.
fn standard(kind: &str) -> &str {
    match kind {
        "INTEGER" => "INT64",
        "FLOAT" => "FLOAT64",
        "BOOLEAN" => "BOOL",
        "STRUCT" => "RECORD",
        other => other,
    }
}

fn cannot_store(error: std::io::Error) -> Error {
    Error::upstream(format!(
        "The rows could not be put aside: {error}. The person who runs this server has to make room in its temporary folder or set ACP_TMP_DIR to another one."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(kind: &str) -> Mapped {
        Mapped { header: "h".into(), column: "h".into(), kind: Some(kind.into()), required: false, repeated: false }
    }

    #[test]
    fn values_are_written_as_load_jobs_take_them() {
        for (kind, cell, written) in [
            ("STRING", "\"a\"", Some("\"a\"")),
            ("STRING", "1.50", Some("\"1.50\"")),
            ("INT64", "9007199254740991", Some("9007199254740991")),
            ("INT64", "9007199254740993", Some("\"9007199254740993\"")),
            ("INT64", "\"12\"", Some("12")),
            ("INT64", "1.5", None),
            ("INT64", "9223372036854775808", None),
            ("FLOAT64", "0.1", Some("0.1")),
            ("FLOAT64", "\"x\"", None),
            ("NUMERIC", "1.123456789", Some("\"1.123456789\"")),
            ("NUMERIC", "1.1234567891", None),
            (
                "BIGNUMERIC",
                "0.00000000000000000000000000000000000001",
                Some("\"0.00000000000000000000000000000000000001\""),
            ),
            ("BOOL", "true", Some("true")),
            ("BOOL", "1", None),
            ("DATE", "\"2026-02-29\"", None),
            ("DATETIME", "\"2026-09-01T10:00:00\"", Some("\"2026-09-01T10:00:00\"")),
            ("DATETIME", "\"2026-09-01T10:00:00Z\"", None),
            ("TIMESTAMP", "\"2026-09-01T10:00:00+02:00\"", Some("\"2026-09-01T10:00:00+02:00\"")),
            ("TIMESTAMP", "\"2026-09-01T10:00:00\"", None),
            ("JSON", "{\"a\":1}", Some("{\"a\":1}")),
            ("RECORD", "[1]", None),
            ("RANGE", "\"[a, b)\"", None),
        ] {
            let result = mapped(kind).write(cell, &mut Seen::default());
            assert_eq!(result.as_deref().ok(), written, "{kind} {cell}: {result:?}");
        }
    }

    #[test]
    fn names_of_new_columns_are_valid_and_different() {
        let header = |name: &str| Header {
            name: name.to_owned(),
            column_type: ColumnType::String,
            role: None,
            description: None,
        };
        let headers = ["Página", "pAgina", "1st", "_PARTITIONTIME", "a b", "A_B", ""].map(header);
        let mapping = Mapping::of_new(&headers, &BTreeMap::from([("nope".to_owned(), "INT64".to_owned())]));
        let names: Vec<&str> = mapping.columns.iter().map(|column| column.column.as_str()).collect();
        assert_eq!(names, ["P_gina", "pAgina", "c_1st", "c__PARTITIONTIME", "a_b", "A_B_2", "c_"]);
        assert!(mapping.check().unwrap_err().message().contains("nope"));
    }

    #[test]
    fn columns_of_an_existing_table_are_found_or_said_to_be_missing() {
        let field =
            |name: &str, kind: &str, mode: &str| TableFieldSchema::new().set_name(name).set_type(kind).set_mode(mode);
        let header =
            |name: &str| Header { name: name.into(), column_type: ColumnType::String, role: None, description: None };
        let fields =
            [field("Day", "DATE", "REQUIRED"), field("n", "INTEGER", "NULLABLE"), field("must", "STRING", "REQUIRED")];
        let mapping = Mapping::of_existing(&["day", "N", "extra"].map(header), &fields);
        assert_eq!(mapping.columns[0].column, "Day");
        assert_eq!(mapping.columns[1].kind.as_deref(), Some("INT64"));
        let message = mapping.check().unwrap_err().message().to_owned();
        assert!(message.contains("\"extra\" does not exist") && message.contains("requires \"must\""), "{message}");
    }
}
