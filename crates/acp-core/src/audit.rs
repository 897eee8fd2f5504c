//! The audit log: what was asked of a connector, for the person who runs it. Off unless `ACP_AUDIT_LOG` is set.
//!
//! It says who asked for what and how it ended, never what the answer held: no rows, totals, messages or warnings, no
//! credentials and no settings. The text of SQL is in it only where `ACP_AUDIT_SQL` asks for it, because literals in
//! queries can be personal data.

mod otel;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use acp_protocol::result::ResultKind;
use acp_protocol::{JsonObject, KEY};
use rmcp::model::{CallToolResult, ErrorData, MetaObject};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::answer::Facts;
use crate::arguments::InputSchema;
use crate::call::lock;
use crate::connector::About;
use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::server::Shared;
use crate::session::InForce;

const PATH: &str = "ACP_AUDIT_LOG";
const MODE: &str = "ACP_AUDIT_MODE";
const SQL: &str = "ACP_AUDIT_SQL";
const MAX_BYTES: &str = "ACP_AUDIT_MAX_BYTES";
const FORMAT: &str = "ACP_AUDIT_FORMAT";

const DEFAULT_MAX_BYTES: u64 = 10 * 1024 * 1024;
/// Below this, every few records would push the oldest file out.
const LEAST_MAX_BYTES: u64 = 1024;
/// Older files that are kept beside the log.
const KEPT_FILES: u32 = 5;
/// How often the log may be rotated by others while a record waits for its turn.
const ROTATIONS_WHILE_WAITING: usize = 10;
/// Characters of a text that are kept.
const TEXT_CHARS: usize = 500;
/// Characters of SQL that are kept, where it is asked for: it is of no use cut short.
const SQL_CHARS: usize = 20_000;
/// Bytes of the arguments of one record as JSON.
const ARGUMENTS_BYTES: usize = 64 * 1024;
/// Shorter secrets are not looked for: they are part of too many words.
const LEAST_SECRET_BYTES: usize = 6;

/// How a record is written: one line each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// The record as it is.
    #[default]
    Jsonl,
    /// As a log record of OpenTelemetry.
    Otel,
}

/// The audit log of a process. Several processes may write to the same file.
#[derive(Debug)]
pub(crate) struct Audit {
    path: PathBuf,
    strict: bool,
    sql: bool,
    max_bytes: u64,
    format: Format,
    writing: Mutex<()>,
}

impl Audit {
    /// The log that the environment asks for, with its file open for a try; a format of the command line goes before that
    /// of the environment. The error says what to correct.
    pub(crate) fn from_environment(format: Option<Format>) -> Result<Option<Self>, String> {
        Self::new(|name| std::env::var_os(name), format)
    }

    fn new(variable: impl Fn(&str) -> Option<OsString>, flag: Option<Format>) -> Result<Option<Self>, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let strict = match set(MODE) {
            None => false,
            Some(mode) if mode == "best_effort" => false,
            Some(mode) if mode == "strict" => true,
            Some(_) => return Err(format!("{MODE} must be best_effort or strict.")),
        };
        let sql = match set(SQL) {
            None => false,
            Some(sql) if sql == "1" => true,
            Some(_) => return Err(format!("{SQL} must be 1 or not set.")),
        };
        let max_bytes = set(MAX_BYTES).map(|text| text.to_str().and_then(|text| text.parse().ok()).unwrap_or(0));
        if max_bytes.is_some_and(|bytes| bytes < LEAST_MAX_BYTES) {
            return Err(format!("{MAX_BYTES} must be a whole number of at least {LEAST_MAX_BYTES}."));
        }
        let format = match set(FORMAT) {
            _ if flag.is_some() => flag.unwrap_or_default(),
            None => Format::default(),
            Some(name) if name == "jsonl" => Format::Jsonl,
            Some(name) if name == "otel" => Format::Otel,
            Some(_) => return Err(format!("{FORMAT} must be jsonl or otel.")),
        };
        let Some(path) = set(PATH).map(PathBuf::from) else {
            let forgotten = [MODE, SQL, MAX_BYTES, FORMAT].into_iter().find(|name| set(name).is_some());
            return match forgotten.or(flag.map(|_| "--audit-format")) {
                Some(name) => Err(format!("{name} is set, but {PATH} is not, so nothing would be recorded.")),
                None => Ok(None),
            };
        };
        if !path.is_absolute() {
            return Err(format!("{PATH} must be an absolute path: hosts start connectors in folders of their own."));
        }
        let max_bytes = max_bytes.unwrap_or(DEFAULT_MAX_BYTES);
        let audit = Self { path, strict, sql, max_bytes, format, writing: Mutex::default() };
        let open = audit.open();
        open.map_err(|error| {
            format!("{PATH} must name a file that can be written, in a folder that exists: {error}.")
        })?;
        Ok(Some(audit))
    }

    /// Opens the log, or makes it, for its owner alone. It is opened for each record, so that a log that somebody moved
    /// away is not written on out of sight.
    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&self.path)?;
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }

    /// The log, with its lock. Whoever holds it sees no half-written line of another process, and alone rotates.
    fn open_and_lock(&self) -> io::Result<File> {
        let mut file = self.open()?;
        for _ in 0..ROTATIONS_WHILE_WAITING {
            match file.lock() {
                // Some network folders have no locks; records of several processes may then share a line.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(file),
                locked => locked?,
            }
            if is_at(&file, &self.path)? {
                return Ok(file);
            }
            file = self.open()?;
        }
        // A record in a log that was moved away is better than none.
        Ok(file)
    }

    /// Adds a record, as one line in one write.
    fn append(&self, record: &JsonObject) -> io::Result<()> {
        let mut line = match self.format {
            Format::Jsonl => serde_json::to_vec(record)?,
            Format::Otel => serde_json::to_vec(&otel::logs_data(record))?,
        };
        line.push(b'\n');
        let _turn = lock(&self.writing);
        let mut file = self.open_and_lock()?;
        let length = file.metadata()?.len();
        if length > 0 && length + line.len() as u64 > self.max_bytes {
            match self.rotate() {
                Ok(()) => file = self.open_and_lock()?,
                Err(error) => tracing::error!(%error, "the audit log could not be rotated and grows on"),
            }
        }
        if !ends_with_line(&mut file)? {
            // Somebody was stopped in the middle of a record. This one must not become part of it.
            line.insert(0, b'\n');
        }
        match file.write(&line)? {
            written if written < line.len() => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    /// Moves the log aside as `.1`, what was `.1` as `.2`, and so on.
    fn rotate(&self) -> io::Result<()> {
        for number in (1..KEPT_FILES).rev() {
            rename(&self.numbered(number), &self.numbered(number + 1))?;
        }
        rename(&self.path, &self.numbered(1))
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }

    /// Writes a record. It fails only where a call must not go on without its record.
    fn write(&self, mut record: JsonObject) -> Result<()> {
        record.retain(|_, value| !value.is_null());
        match self.append(&record) {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::error!(%error, "the audit log could not be written");
                if self.strict { Err(not_recorded()) } else { Ok(()) }
            }
        }
    }

    /// Records an `acp/configure`: which fields were set, never to what.
    pub(crate) fn configured(
        &self,
        shared: &Shared,
        transport: &str,
        fields: &[String],
        in_force: &InForce,
        failure: Option<&ErrorData>,
        started: Instant,
    ) -> Result<()> {
        let about = &shared.connector().about;
        let mut record = beginning(&shared.connector().clock.now_text(), about, transport);
        record.insert("kind".to_owned(), json!("configure"));
        record.insert("fields".to_owned(), json!(fields));
        record.insert("identity".to_owned(), identity(in_force.credentials.as_ref()));
        let error =
            failure.map(|error| json!({"code": error.code.0, "name": error.data.as_ref().map(|data| &data["name"])}));
        record.insert("error".to_owned(), json!(error));
        record.insert("duration_ms".to_owned(), json!(started.elapsed().as_millis() as u64));
        self.write(record)
    }
}

/// Whether the path still leads to this file: it may have been rotated away while we waited for its lock.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let named = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        named => named?,
    };
    let open = file.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
    }
    // No identity to ask for; a fresh log is shorter than the one that was full.
    #[cfg(not(unix))]
    Ok(open.len() == named.len())
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn ends_with_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn not_recorded() -> Error {
    Error::upstream(
        "The audit log can't be written, and this server gives no answer without a record; the work itself may be done. \
         The person who runs the server has to make room or correct ACP_AUDIT_LOG. Do not repeat the call before that.",
    )
}

/// The fields of an `acp/configure` that ACP or the connector know, by name.
pub(crate) fn field_names(params: Option<&Value>, about: &About) -> Vec<String> {
    const KNOWN: [&str; 7] =
        ["row_limit", "cost_limit_usd", "field_limit", "tables", "credentials", "config", "default_resource_id"];
    let mut names = Vec::new();
    let Some(Value::Object(fields)) = params else { return names };
    names.extend(KNOWN.iter().filter(|name| fields.contains_key(**name)).map(ToString::to_string));
    let config = fields.get("config").and_then(Value::as_object);
    let declared = about.config.iter().flat_map(|schema| schema.properties.keys());
    let set = declared.filter(|name| config.is_some_and(|config| config.contains_key(*name)));
    names.extend(set.map(|name| format!("config.{name}")));
    names
}

fn beginning(time: &str, about: &About, transport: &str) -> JsonObject {
    let mut record = JsonObject::new();
    for (name, value) in
        [("time", time), ("connector", about.name), ("version", about.version), ("transport", transport)]
    {
        record.insert(name.to_owned(), json!(value));
    }
    record
}

/// Enough of the credential's hash to tell apart who asked.
fn identity(credentials: Option<&Credentials>) -> Value {
    credentials.map_or(Value::Null, |credentials| json!(&credentials.identity().as_str()[..16]))
}

/// A call on the way to its record. When it is dropped without an answer, it was cancelled.
pub(crate) struct AuditedCall<'a> {
    shared: &'a Shared,
    /// What is known about the call.
    pub(crate) facts: Facts,
    /// Those of the call, also where it is refused before they are read.
    credentials: Option<Credentials>,
    /// What the record starts with; `None` where nothing is recorded any more.
    beginning: Option<JsonObject>,
}

impl<'a> AuditedCall<'a> {
    /// A call that arrived with this `_meta`, in a revision of MCP if that is known.
    pub(crate) fn new(
        shared: &'a Shared,
        transport: &str,
        revision: Option<&str>,
        meta: &MetaObject,
        facts: Facts,
    ) -> Self {
        let acp = meta.0.get(KEY);
        let begin = || {
            let mut record = beginning(&facts.clock.now_text(), &shared.connector().about, transport);
            for name in ["session_id", "conversation_id", "call_id"] {
                let id = acp.and_then(|acp| acp.get(name)).and_then(Value::as_str);
                record.insert(name.to_owned(), json!(id));
            }
            record.insert("protocol_version".to_owned(), json!(revision));
            record.insert("trace".to_owned(), trace(meta));
            record
        };
        let credentials = match acp.and_then(|acp| acp.get("credentials")) {
            _ if shared.audit.is_none() => None,
            None => facts.in_force.credentials.clone(),
            Some(Value::Object(values)) if !values.is_empty() => Some(Credentials::new(values.clone())),
            Some(_) => None,
        };
        Self { shared, credentials, beginning: shared.audit.is_some().then(begin), facts }
    }

    /// Records the answer before it goes out. An error means that it must not.
    pub(crate) fn answered(&mut self, answer: &CallToolResult) -> Result<()> {
        let acp = answer.meta.as_ref().and_then(|meta| meta.0.get(KEY)).unwrap_or(&Value::Null);
        self.record(acp["system_info"].clone(), &acp["error"])
    }

    fn record(&mut self, info: Value, error: &Value) -> Result<()> {
        let (Some(audit), Some(mut record)) = (&self.shared.audit, self.beginning.take()) else { return Ok(()) };
        let about = &self.shared.connector().about;
        let credentials = self.credentials.as_ref();
        let texts = Texts { secrets: secrets(credentials, about), sql: audit.sql };
        for name in ["session_id", "conversation_id", "call_id"] {
            record[name] = texts.value(&record[name]);
        }
        let input = self.shared.input_of(&self.facts.tool);
        let arguments = match &info["arguments"] {
            // None until they met the schema: what does not can be anything.
            Value::Object(arguments) => texts.arguments(arguments, input),
            _ => Value::Null,
        };
        for name in ["tool", "kind", "resource_id"] {
            record.insert(name.to_owned(), texts.value(&info[name]));
        }
        record.insert("arguments".to_owned(), arguments);
        record.insert("identity".to_owned(), identity(credentials));
        for name in [
            "row_limit",
            "cost_limit_usd",
            "cost_estimate_usd",
            "cost_actual_usd",
            "total_rows",
            "returned_rows",
            "duration_ms",
        ] {
            record.insert(name.to_owned(), info[name].clone());
        }
        if let Value::Object(error) = error {
            record.insert("error".to_owned(), json!({"code": error.get("code"), "name": error.get("name")}));
        }
        audit.write(record)
    }
}

impl Drop for AuditedCall<'_> {
    fn drop(&mut self) {
        if self.beginning.is_none() {
            return;
        }
        self.facts.collect();
        let mut info = json!(self.facts.system_info(ResultKind::Error));
        info["kind"] = json!("cancelled");
        // There is no answer to hold back; that it failed is logged.
        let _ = self.record(info, &Value::Null);
    }
}

/// The secrets among the values of a credential.
fn secrets<'a>(credentials: Option<&'a Credentials>, about: &About) -> Vec<&'a str> {
    let Some(values) = credentials.map(|credentials| credentials.values().expose()) else { return Vec::new() };
    let variant = about.credentials.variant_of(values).ok();
    let is_secret = |name: &str| {
        let property = variant.and_then(|variant| variant.properties.get(name));
        property.is_none_or(|property| property.write_only)
    };
    let texts = values.iter().filter(|(name, _)| is_secret(name)).filter_map(|(_, value)| value.as_str());
    texts.filter(|text| text.len() >= LEAST_SECRET_BYTES).collect()
}

/// How the texts of a record are shown.
struct Texts<'a> {
    secrets: Vec<&'a str>,
    sql: bool,
}

impl Texts<'_> {
    fn text(&self, text: &str, most: usize) -> Value {
        if self.secrets.iter().any(|secret| text.contains(secret)) {
            return json!({"omitted": true});
        }
        match text.char_indices().nth(most) {
            Some((end, _)) => json!(format!("{}… ({} characters)", &text[..end], text.chars().count())),
            None => json!(text),
        }
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text, TEXT_CHARS),
            Value::Array(values) => values.iter().map(|value| self.value(value)).collect(),
            Value::Object(values) => values.iter().map(|(name, value)| (name.clone(), self.value(value))).collect(),
            other => other.clone(),
        }
    }

    fn arguments(&self, arguments: &JsonObject, input: Option<&InputSchema>) -> Value {
        let shown: JsonObject = arguments
            .iter()
            .map(|(name, value)| {
                let schema = input.and_then(|input| input.properties().get(name));
                (name.clone(), self.argument(value, schema))
            })
            .collect();
        let shown = Value::Object(shown);
        let text = shown.to_string();
        if text.len() > ARGUMENTS_BYTES { omitted(&text) } else { shown }
    }

    fn argument(&self, value: &Value, schema: Option<&Value>) -> Value {
        let is_sql = |schema: &Value| schema["contentMediaType"] == "application/sql";
        match (schema, value) {
            // A name that a tool added to what it was given: nothing says what it holds.
            (None, value) => omitted(&value.to_string()),
            (Some(schema), Value::Array(values)) => {
                values.iter().map(|value| self.argument(value, Some(&schema["items"]))).collect()
            }
            (Some(schema), Value::String(text)) if is_sql(schema) => match self.text(text, SQL_CHARS) {
                Value::String(shown) if self.sql => json!(shown),
                Value::String(_) => omitted(text),
                secret => secret,
            },
            (Some(_), value) => self.value(value),
        }
    }
}

/// What stands for a text: enough to recognise it by whoever has it.
fn omitted(text: &str) -> Value {
    let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"omitted": true, "length": text.chars().count(), "sha256": hash})
}

/// The trace that a call belongs to, as far as it has the form of W3C Trace Context.
fn trace(meta: &MetaObject) -> Value {
    let text = |name: &str| meta.0.get(name).and_then(Value::as_str);
    let Some(parent) = text("traceparent").filter(|text| is_traceparent(text)) else { return Value::Null };
    let mut trace = json!({"traceparent": parent});
    if let Some(state) = text("tracestate").filter(|text| is_tracestate(text)) {
        trace["tracestate"] = json!(state);
    }
    trace
}

/// `version-trace-parent-flags` in lowercase hexadecimal digits. Later versions may go on behind another hyphen, which
/// is bounded here.
fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let parts: Vec<&str> = text.splitn(5, '-').collect();
    let [version, trace, parent, flags, rest @ ..] = parts.as_slice() else { return false };
    let printable = text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let ids = hex(trace, 32) && !zero(trace) && hex(parent, 16) && !zero(parent);
    let version_fits = hex(version, 2) && *version != "ff" && (rest.is_empty() || *version != "00");
    printable && ids && version_fits && hex(flags, 2)
}

/// Up to 32 members `key=value`, keys once, 512 characters together.
fn is_tracestate(text: &str) -> bool {
    let mut keys = Vec::new();
    let members = text.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty());
    for member in members {
        let Some((key, value)) = member.split_once('=') else { return false };
        let key_fits = match key.split_once('@') {
            Some((tenant, system)) => is_key(tenant, 241, true) && is_key(system, 14, false),
            None => is_key(key, 256, false),
        };
        let value_fits = !value.is_empty()
            && value.len() <= 256
            && value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
        if !key_fits || !value_fits || keys.contains(&key) {
            return false;
        }
        keys.push(key);
    }
    (1..=32).contains(&keys.len()) && text.len() <= 512
}

fn is_key(key: &str, most: usize, digit_first: bool) -> bool {
    let first = |byte: &u8| byte.is_ascii_lowercase() || (digit_first && byte.is_ascii_digit());
    let other = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte);
    key.len() <= most && key.as_bytes().first().is_some_and(first) && key.bytes().all(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparents_of_the_w3c_form() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let valid = format!("00-{trace}-{parent}-01");
        assert!(is_traceparent(&valid));
        assert!(is_traceparent(&format!("cc-{trace}-{parent}-01-what-the-future-brings")));
        for wrong in [
            String::new(),
            valid.to_uppercase(),
            format!(" {valid}"),
            format!("{valid}-more"),
            format!("{valid}-"),
            format!("cc-{trace}-{parent}-01-\n"),
            format!("cc-{trace}-{parent}-01-{}", "x".repeat(300)),
            format!("ff-{trace}-{parent}-01"),
            format!("0-{trace}-{parent}-01"),
            format!("00-{trace}-{parent}-1"),
            format!("00-{trace}-{parent}"),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{parent}-01", &trace[1..]),
        ] {
            assert!(!is_traceparent(&wrong), "{wrong}");
        }
    }

    #[test]
    fn tracestates_of_the_w3c_form() {
        for valid in ["rojo=00f067aa0ba902b7", "a=1, b=2,,\tc_-*/0=x y", "0tenant@system=1"] {
            assert!(is_tracestate(valid), "{valid}");
        }
        let many: Vec<String> = (0..33).map(|number| format!("k{number}=1")).collect();
        let long = format!("a={},b={}", "1".repeat(256), "2".repeat(256));
        for wrong in
            ["", ",", "a", "a=", "A=1", "0a=1", "a=1=2", "a=1,a=2", "a=\u{e9}", "a@=1", "a@0=1", &many.join(","), &long]
        {
            assert!(!is_tracestate(wrong), "{wrong}");
        }
    }

    #[test]
    fn wrong_settings_say_which_variable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let path = path.to_str().unwrap();
        let missing = folder.path().join("missing").join("log");
        let with = |set: &[(&str, &str)]| {
            Audit::new(
                |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)),
                None,
            )
        };
        assert!(with(&[]).unwrap().is_none());
        assert!(with(&[(PATH, ""), (MODE, "")]).unwrap().is_none());
        let all = [(PATH, path), (MODE, "strict"), (SQL, "1"), (MAX_BYTES, "1024")];
        let audit = with(&all).unwrap().unwrap();
        assert!(audit.strict && audit.sql && audit.max_bytes == 1024);
        for (name, value) in [
            (MODE, "Strict"),
            (SQL, "yes"),
            (SQL, "0"),
            (MAX_BYTES, "1023"),
            (MAX_BYTES, "-1"),
            (MAX_BYTES, "10MB"),
            (FORMAT, "json"),
            (PATH, "log"),
            (PATH, folder.path().to_str().unwrap()),
            (PATH, missing.to_str().unwrap()),
        ] {
            let refused = with(&[(name, value), (PATH, path)]).unwrap_err();
            assert!(refused.starts_with(name), "{name}={value}: {refused}");
        }
        let forgotten = with(&[(MODE, "strict")]).unwrap_err();
        assert!(forgotten.starts_with(MODE) && forgotten.contains(PATH), "{forgotten}");
    }

    #[test]
    fn a_record_never_becomes_part_of_a_broken_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "{\"half\":").unwrap();
        let audit = Audit {
            path: path.clone(),
            strict: true,
            sql: false,
            max_bytes: 1024,
            format: Format::Jsonl,
            writing: Mutex::default(),
        };
        let mut record = JsonObject::new();
        record.insert("whole".to_owned(), json!(1));
        audit.append(&record).unwrap();
        audit.append(&record).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"half\":\n{\"whole\":1}\n{\"whole\":1}\n");
    }
}
