//! Load jobs: rows as lines of JSON, sent in one request (multipart) or in pieces (resumable).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};

use super::Asked;
use super::catalogue::{Days, Entry};
use super::failure::Failure;
use super::jobs::{self, Job};
use super::parse;
use super::request::{self, JobAsked};
use super::schema::Field;
use super::sql::{Row, TableId};
use super::switches::When;
use super::tables::{RowsTable, logical_bytes};
use super::value::Value;
use crate::answer::Answer;
use crate::clock::now_micros;
use crate::events::mix;
use crate::lock;

/// Pieces of a resumable upload are multiples of this, but for the last one.
const PIECE: usize = 256 * 1024;

/// What a load job may say; anything else is left out.
const LOAD: [&str; 10] = [
    "autodetect",
    "clustering",
    "createDisposition",
    "destinationTable",
    "ignoreUnknownValues",
    "maxBadRecords",
    "schema",
    "sourceFormat",
    "timePartitioning",
    "writeDisposition",
];

/// What names of columns can't begin with.
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

/// What a load job has done.
pub(crate) struct Loaded {
    rows: u64,
    bytes: u64,
    input: usize,
    bad: usize,
    /// Why nothing was loaded.
    pub(crate) failure: Option<Failure>,
    /// What was wrong with single rows.
    pub(crate) errors: Vec<Failure>,
}

impl Loaded {
    /// `statistics.load`.
    pub(crate) fn statistics(&self) -> Json {
        json!({
            "inputFiles": "1",
            "inputFileBytes": self.input.to_string(),
            "outputRows": self.rows.to_string(),
            "outputBytes": self.bytes.to_string(),
            "badRecords": self.bad.to_string(),
        })
    }
}

/// Uploads that have begun.
#[derive(Default)]
pub(crate) struct Uploads {
    open: Mutex<HashMap<String, Upload>>,
}

struct Upload {
    project: String,
    email: String,
    job: Json,
    received: Vec<u8>,
}

/// `POST` and `PUT /upload/bigquery/v2/projects/{project}/jobs`.
pub(crate) fn upload(asked: &Asked<'_>, project: &str) -> Result<Answer, Failure> {
    let kind = asked.request.parameter("uploadType").unwrap_or_default();
    match (asked.request.method.as_str(), kind.as_str()) {
        ("POST", "multipart") => {
            let (job, rows) = parts(&asked.request.content_type, &asked.request.body)?;
            run(asked, project, &request::body(job)?, rows)
        }
        ("POST", "resumable") => begin(asked, project),
        ("PUT", "resumable") => piece(asked, project),
        _ => Err(Failure::unsupported("uploads other than multipart and resumable")),
    }
}

/// The two parts of a `multipart/related` body: the job, and the rows.
fn parts<'a>(content_type: &str, body: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Failure> {
    let bad = || Failure::invalid("Malformed multipart body.");
    let boundary = content_type.split("boundary=").nth(1).ok_or_else(bad)?;
    let boundary = boundary.split(';').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    let separator = format!("--{boundary}");
    let mut parts = Vec::new();
    let mut rest = body;
    while let Some(at) = find(rest, separator.as_bytes()) {
        if at > 0 {
            parts.push(&rest[..at]);
        }
        rest = &rest[at + separator.len()..];
    }
    let content = |part: &'a [u8]| {
        let (at, length) = match (find(part, b"\r\n\r\n"), find(part, b"\n\n")) {
            (Some(at), other) if other.is_none_or(|other| at < other) => (at, 4),
            (_, Some(at)) => (at, 2),
            _ => return None,
        };
        let content = &part[at + length..];
        let content = content.strip_suffix(b"\r\n").or_else(|| content.strip_suffix(b"\n")).unwrap_or(content);
        Some(content)
    };
    let contents: Vec<&[u8]> = parts.into_iter().filter_map(content).collect();
    match contents.as_slice() {
        [job, rows] => Ok((job, rows)),
        _ => Err(bad()),
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Begins a resumable upload: the answer says where the pieces go.
fn begin(asked: &Asked<'_>, project: &str) -> Result<Answer, Failure> {
    asked.may_run_jobs(project)?;
    let job = request::body(&asked.request.body)?;
    JobAsked::of_job(&job, project)?;
    let upload = Upload { project: project.to_owned(), email: asked.identity.email.clone(), job, received: Vec::new() };
    let mut open = lock(&asked.bigquery.uploads.open);
    let id = format!("{:016x}", mix(now_micros().unsigned_abs(), open.len() as u64));
    let mut answer = Answer::raw(200, "text/plain; charset=utf-8", "");
    answer.headers.push((
        "Location".into(),
        format!("{}/upload/bigquery/v2/projects/{project}/jobs?uploadType=resumable&upload_id={id}", asked.shared.url),
    ));
    answer.headers.push(("X-GUploader-UploadID".into(), id.clone()));
    open.insert(id, upload);
    Ok(answer)
}

/// A `Content-Range`.
#[derive(Debug, PartialEq, Eq)]
struct ContentRange {
    /// First and last byte; none when a client asks how far it came.
    bytes: Option<(usize, usize)>,
    /// None while it isn't known.
    total: Option<usize>,
}

/// `bytes first-last/total`, with `*` for what isn't given.
fn content_range(text: &str) -> Option<ContentRange> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    if range == "*" {
        return Some(ContentRange { bytes: None, total });
    }
    let (first, last) = range.split_once('-')?;
    Some(ContentRange { bytes: Some((first.parse().ok()?, last.parse().ok()?)), total })
}

/// A piece of a resumable upload; the last one runs the job.
fn piece(asked: &Asked<'_>, project: &str) -> Result<Answer, Failure> {
    let id = asked.request.parameter("upload_id").unwrap_or_default();
    let body = &asked.request.body;
    let finished = {
        let mut open = lock(&asked.bigquery.uploads.open);
        let upload = open
            .get_mut(&id)
            .filter(|upload| upload.project == project && upload.email == asked.identity.email)
            .ok_or_else(|| Failure::not_found(format!("Upload {id}")))?;
        let total = match &asked.request.content_range {
            None => {
                upload.received = body.to_vec();
                Some(body.len())
            }
            Some(text) => {
                let ContentRange { bytes, total } =
                    content_range(text).ok_or_else(|| Failure::invalid(format!("Invalid Content-Range: {text}")))?;
                if let Some((first, last)) = bytes {
                    let whole = total.is_some_and(|total| last.saturating_add(1) == total);
                    if first > upload.received.len() || last.saturating_add(1) != first + body.len() {
                        return Err(Failure::invalid(format!("Invalid Content-Range: {text}")));
                    }
                    if !whole && !body.len().is_multiple_of(PIECE) {
                        return Err(Failure::invalid("Pieces of an upload must be multiples of 256 KiB."));
                    }
                    upload.received.truncate(first);
                    upload.received.extend_from_slice(body);
                }
                total
            }
        };
        if total == Some(upload.received.len()) { open.remove(&id) } else { None }
    };
    match finished {
        Some(upload) => run(asked, project, &upload.job, &upload.received),
        None => {
            let received = lock(&asked.bigquery.uploads.open).get(&id).map_or(0, |upload| upload.received.len());
            let mut answer = Answer::raw(308, "text/plain", "");
            if received > 0 {
                answer.headers.push(("Range".into(), format!("bytes=0-{}", received - 1)));
            }
            Ok(answer)
        }
    }
}

/// Runs a load job.
fn run(asked: &Asked<'_>, project: &str, body: &Json, rows: &[u8]) -> Result<Answer, Failure> {
    asked.may_run_jobs(project)?;
    let job = JobAsked::of_job(body, project)?;
    asked.bigquery.switches.check_forbidden()?;
    let load = &job.configuration["load"];
    let map = load.as_object().ok_or_else(|| Failure::required("configuration.load"))?;
    if let Some((key, _)) = map.iter().find(|(key, value)| !LOAD.contains(&key.as_str()) && request::is_set(value)) {
        return Err(Failure::unsupported(&format!("configuration.load.{key}")));
    }
    if job.dry_run {
        return Err(Failure::unsupported("dry runs of load jobs, whose behaviour is undefined"));
    }
    if load["autodetect"] == true {
        return Err(Failure::unsupported("autodetect"));
    }
    if load["sourceFormat"] != "NEWLINE_DELIMITED_JSON" {
        return Err(Failure::unsupported("source formats other than NEWLINE_DELIMITED_JSON"));
    }
    let refusal = asked.bigquery.switches.take_refusal(false);
    if let Some((failure, When::Insert)) = refusal {
        return Err(failure);
    }
    let destination = &load["destinationTable"];
    let text = |key: &str| destination[key].as_str().filter(|text| !text.is_empty());
    let (Some(dataset), Some(table)) = (text("datasetId"), text("tableId")) else {
        return Err(Failure::required("configuration.load.destinationTable"));
    };
    if table.contains('$') {
        return Err(Failure::unsupported("load jobs into one partition"));
    }
    if table.len() > 1_024 || !table.chars().all(|c| c.is_alphanumeric() || "_- ".contains(c)) {
        return Err(Failure::invalid(format!("Invalid table ID \"{table}\".")));
    }
    let id = TableId::new(text("projectId").unwrap_or(project), dataset, table);
    let job_id = jobs::check_new(asked, project, &job)?;
    let catalogue = asked.catalogue();
    let found = catalogue.readable(asked.identity, &id.project, &id.dataset, "bigquery.tables.create")?;
    if !found.writable {
        let name = format!("{}:{}.{}", id.project, id.dataset, id.table);
        return Err(Failure::access_denied(format!(
            "Table {name}: Permission bigquery.tables.updateData denied on table {name} (or it may not exist)."
        )));
    }
    if let Some(location) = job.location.as_deref().filter(|location| *location != found.location) {
        return Err(Failure::not_found(format!(
            "Dataset {}:{} was not found in location {location}",
            id.project, id.dataset
        )));
    }
    let made = Job::load(asked, project, &job, found.location, job_id);
    let loaded = match refusal {
        Some((failure, _)) => Err(failure),
        None => store(asked, &id, load, rows),
    };
    jobs::add_load(asked, made, &job, loaded)
}

fn fields(schema: &Json) -> Result<Option<Vec<Field>>, Failure> {
    let Some(fields) = schema["fields"].as_array() else {
        return Ok(None);
    };
    let fields: Vec<Field> = fields.iter().map(Field::from_json).collect::<Result<_, _>>().map_err(Failure::invalid)?;
    for (index, field) in fields.iter().enumerate() {
        let good = field.name.chars().all(|c| c.is_alphanumeric() || "_ -()€&%=+:'<>#|".contains(c));
        if !good || field.name.len() > 300 {
            return Err(Failure::invalid(format!(
                "Invalid field name \"{}\". Fields must contain only letters, numbers, and underscores, start with a \
                 letter or underscore, and be at most 300 characters long.",
                field.name
            )));
        }
        let upper = field.name.to_ascii_uppercase();
        if let Some(reserved) = RESERVED.iter().find(|prefix| upper.starts_with(*prefix)) {
            return Err(Failure::invalid(format!(
                "Invalid field name \"{}\". Field names are not allowed to start with the (case-insensitive) prefixes \
                 {reserved}.",
                field.name
            )));
        }
        if fields[..index].iter().any(|other| other.name.eq_ignore_ascii_case(&field.name)) {
            return Err(Failure::invalid(format!("Field {} already exists in schema", field.name)));
        }
    }
    Ok(Some(fields))
}

/// Checks and stores the rows: all of them, or none.
fn store(asked: &Asked<'_>, id: &TableId, load: &Json, lines: &[u8]) -> Result<Loaded, Failure> {
    let name = format!("{}:{}.{}", id.project, id.dataset, id.table);
    let mut tables = lock(&asked.bigquery.loaded);
    let existing = tables.get(id).cloned();
    let given = fields(&load["schema"])?;
    if existing.is_none() && load["createDisposition"] == "CREATE_NEVER" {
        return Err(Failure::not_found(format!("Table {name}")));
    }
    let schema = match (&existing, given) {
        (Some(entry), Some(given)) => {
            check_schema(&name, entry.table.schema(), &given)?;
            entry.table.schema().to_vec()
        }
        (Some(entry), None) => entry.table.schema().to_vec(),
        (None, Some(given)) => given,
        (None, None) => return Err(Failure::invalid("No schema specified on job or table.")),
    };
    let count = existing.as_ref().map_or(0, |entry| entry.table.row_count());
    let keep = match load["writeDisposition"].as_str().unwrap_or("WRITE_APPEND") {
        "WRITE_APPEND" => true,
        "WRITE_EMPTY" if count > 0 => return Err(Failure::duplicate(format!("Table {name}"))),
        "WRITE_EMPTY" | "WRITE_TRUNCATE" => false,
        other => {
            return Err(Failure::invalid(format!("Invalid value for writeDisposition: {other} is not a valid value")));
        }
    };
    let ignore = load["ignoreUnknownValues"] == true;
    let allowed = request::integer(&load["maxBadRecords"], "maxBadRecords")?.unwrap_or(0);
    let (rows, errors) = read(&schema, lines, ignore);
    let mut loaded = Loaded {
        rows: rows.len() as u64,
        bytes: rows.iter().flatten().map(logical_bytes).sum(),
        input: lines.len(),
        bad: errors.len(),
        failure: None,
        errors,
    };
    if i64::try_from(loaded.bad).unwrap_or(i64::MAX) > allowed {
        loaded.failure = Some(Failure::invalid(format!(
            "Error while reading data, error message: JSON table encountered too many errors, giving up. Rows: {}; errors: \
             {}. Please look into the errors[] collection for more details.",
            loaded.rows + loaded.bad as u64,
            loaded.bad
        )));
        (loaded.rows, loaded.bytes) = (0, 0);
        return Ok(loaded);
    }
    let mut all: Vec<Row> = match &existing {
        Some(entry) if keep => entry.table.rows(0..count, (0..schema.len()).collect()).collect(),
        _ => Vec::new(),
    };
    all.extend(rows);
    let now = now_micros() / 1_000;
    let mut entry = Entry::new(RowsTable::of(id.clone(), schema, all), now);
    match &existing {
        Some(existing) => {
            entry.created = existing.created;
            entry.days.clone_from(&existing.days);
            entry.clustering.clone_from(&existing.clustering);
        }
        None => layout(load, &mut entry)?,
    }
    tables.insert(id.clone(), Arc::new(entry));
    drop(tables);
    asked.bigquery.jobs.forget_results();
    Ok(loaded)
}

/// The partitioning and clustering that a job asks for a new table. What it says is shown; it doesn't change what is read.
fn layout(load: &Json, entry: &mut Entry) -> Result<(), Failure> {
    let column = |name: &str| {
        let known = entry.table.schema().iter().any(|field| field.name.eq_ignore_ascii_case(name));
        if known {
            Ok(name.to_owned())
        } else {
            Err(Failure::invalid(format!(
                "The field specified for partitioning or clustering can not be found in the schema: {name}."
            )))
        }
    };
    let days = match &load["timePartitioning"] {
        partitioning if !request::is_set(partitioning) => None,
        partitioning if partitioning["type"] == "DAY" => Some(Days {
            field: partitioning["field"].as_str().map(column).transpose()?,
            require_filter: partitioning["requirePartitionFilter"] == true,
        }),
        _ => return Err(Failure::unsupported("partitions other than days")),
    };
    let fields = load["clustering"]["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let clustering = fields.iter().map(|name| column(name.as_str().unwrap_or_default())).collect::<Result<_, _>>()?;
    (entry.days, entry.clustering) = (days, clustering);
    Ok(())
}

/// A job's schema must be the table's: no new columns, no other types. Columns may be missing unless they are required.
fn check_schema(name: &str, table: &[Field], given: &[Field]) -> Result<(), Failure> {
    let mismatch = |why: String| Failure::invalid(format!("Provided Schema does not match Table {name}. {why}"));
    for field in given {
        let Some(column) = table.iter().find(|column| column.name.eq_ignore_ascii_case(&field.name)) else {
            return Err(mismatch(format!("Cannot add fields (field: {})", field.name)));
        };
        if column.kind != field.kind {
            return Err(mismatch(format!(
                "Field {} has changed type from {} to {}",
                field.name,
                column.kind.schema_name(),
                field.kind.schema_name()
            )));
        }
        if column.mode() != field.mode() {
            return Err(mismatch(format!(
                "Field {} has changed mode from {} to {}",
                field.name,
                column.mode(),
                field.mode()
            )));
        }
    }
    match table
        .iter()
        .find(|column| column.required && !given.iter().any(|field| field.name.eq_ignore_ascii_case(&column.name)))
    {
        Some(column) => Err(mismatch(format!("Field {} is missing in new schema", column.name))),
        None => Ok(()),
    }
}

/// The rows that fit, and what is wrong with the others.
fn read(schema: &[Field], lines: &[u8], ignore_unknown: bool) -> (Vec<Row>, Vec<Failure>) {
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    let mut position = 0;
    for line in lines.split(|byte| *byte == b'\n') {
        let start = position;
        position += line.len() + 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match row(schema, line, ignore_unknown) {
            Ok(row) => rows.push(row),
            Err(why) => errors.push(Failure::invalid(format!(
                "Error while reading data, error message: JSON processing encountered too many errors, giving up. Row \
                 starting at position {start}: {why}"
            ))),
        }
    }
    (rows, errors)
}

fn row(schema: &[Field], line: &[u8], ignore_unknown: bool) -> Result<Row, String> {
    let json: Json = serde_json::from_slice(line).map_err(|_| "Parser terminated before end of string".to_owned())?;
    let map = json.as_object().ok_or("Start of array encountered without start of object.")?;
    let unknown = map.keys().find(|key| !schema.iter().any(|field| field.name.eq_ignore_ascii_case(key)));
    if let (Some(key), false) = (unknown, ignore_unknown) {
        return Err(format!("No such field: {key}."));
    }
    let cell = |field: &Field| -> Result<Value, String> {
        let json = map.iter().find(|(key, _)| field.name.eq_ignore_ascii_case(key));
        parse::field(field, json.map_or(&Json::Null, |(_, json)| json))
    };
    schema.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipart_bodies() {
        let body = b"--x\r\nContent-Type: application/json\r\n\r\n{\"a\":1}\r\n--x\r\nContent-Type: */*\r\n\r\n{\"n\":1}\n{\"n\":2}\n\r\n--x--\r\n";
        let (job, rows) = parts("multipart/related; boundary=x", body).unwrap();
        assert_eq!(job, b"{\"a\":1}");
        assert_eq!(rows, b"{\"n\":1}\n{\"n\":2}\n");
        assert!(parts("multipart/related; boundary=y", body).is_err());
        assert!(parts("application/json", body).is_err());
    }

    #[test]
    fn content_ranges() {
        let range = |bytes, total| Some(ContentRange { bytes, total });
        assert_eq!(content_range("bytes 0-9/20"), range(Some((0, 9)), Some(20)));
        assert_eq!(content_range("bytes 0-9/*"), range(Some((0, 9)), None));
        assert_eq!(content_range("bytes */20"), range(None, Some(20)));
        assert_eq!(content_range("0-9/20"), None);
    }
}
