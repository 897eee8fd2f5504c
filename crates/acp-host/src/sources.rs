//! `sources.json`: which sources a person set up, with which accounts and limits (16.3, 11.2).
//!
//! The file belongs to the person: what this host doesn't know in it is kept, in its place, when the file is written
//! again. A message about the file names the place and what to write there, and never holds a value: values may be secrets
//! that were pasted into the wrong field.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use acp_protocol::{JsonObject, MAX_FIELD_LIMIT, MAX_ROW_LIMIT};
use serde_json::Value;

use crate::secrets;

/// Longest id of a source (16.3).
pub const ID_MAX: usize = 40;
/// Bytes of a file that a reference names: keys are a few kilobytes.
const FILE_MAX: u64 = 1024 * 1024;

const DOCUMENT_KEYS: [&str; 2] = ["defaults", "sources"];
const LIMIT_KEYS: [&str; 3] = ["row_limit", "field_limit", "cost_limit_usd"];
const SOURCE_KEYS: [&str; 9] = [
    "id",
    "acp",
    "label",
    "credentials",
    "config",
    "default_resource_id",
    "tables",
    "autocontext",
    "autocontext_blocks",
];

/// Why `sources.json` can't be used or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcesError {
    /// The file.
    pub path: PathBuf,
    /// Where in it, such as `sources[1].row_limit`; empty for all of it.
    pub place: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl std::fmt::Display for SourcesError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: ", self.path.display())?;
        if !self.place.is_empty() {
            write!(formatter, "{} ", self.place)?;
        }
        formatter.write_str(&self.problem)
    }
}

impl std::error::Error for SourcesError {}

/// Why a reference in `credentials` or `config` has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceError {
    /// The source.
    pub source: String,
    /// Where in it, such as `credentials.key`.
    pub place: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl std::fmt::Display for ReferenceError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "source {}: {} {}", self.source, self.place, self.problem)
    }
}

impl std::error::Error for ReferenceError {}

/// The limits of 5.1 that a person may set for a source or for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Rows that the model sees, 0 to [`MAX_ROW_LIMIT`]; the stored table is always whole.
    pub row_limit: Option<u32>,
    /// Fields of a row that the model sees in tables with a view, 1 to [`MAX_FIELD_LIMIT`].
    pub field_limit: Option<u32>,
    /// The most that a call may cost, in USD.
    pub cost_limit_usd: Option<f64>,
}

impl Limits {
    /// These limits, and those of `defaults` where these have none.
    pub fn or(self, defaults: Self) -> Self {
        Self {
            row_limit: self.row_limit.or(defaults.row_limit),
            field_limit: self.field_limit.or(defaults.field_limit),
            cost_limit_usd: self.cost_limit_usd.or(defaults.cost_limit_usd),
        }
    }
}

/// How the model gets autocontext from a source (7.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Autocontext {
    /// The server attaches it to the first extraction of each resource.
    #[default]
    OnFirstCall,
    /// Only when the model asks for it.
    Off,
}

impl Autocontext {
    /// Every mode.
    pub const ALL: [Self; 2] = [Self::OnFirstCall, Self::Off];

    /// Its name in `sources.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnFirstCall => "on_first_call",
            Self::Off => "off",
        }
    }
}

/// One source: an instance of a connector with its account.
#[derive(Clone, Default, PartialEq)]
pub struct Source {
    /// Its name, `^[a-z0-9_-]{1,40}$`.
    pub id: String,
    /// Id of the connector.
    pub acp: String,
    /// Name for people.
    pub label: Option<String>,
    /// What the connector's credentials form asks for; values may be references.
    pub credentials: Option<JsonObject>,
    /// What the connector's settings form asks for; values may be references.
    pub config: Option<JsonObject>,
    /// Resource for calls without one. In the file it may be a variable, `{"env": "NAME"}`, as limits may.
    pub default_resource_id: Option<String>,
    /// Its own limits.
    pub limits: Limits,
    /// Tables of the connector's catalogue that are extracted unless the model asks for others (8.7).
    pub tables: Option<Vec<String>>,
    /// How the model gets autocontext.
    pub autocontext: Autocontext,
    /// The blocks that it gets; absent: all.
    pub autocontext_blocks: Option<Vec<String>>,
}

/// Credentials must not reach a log by way of `{:?}`.
impl std::fmt::Debug for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Source")
            .field("id", &self.id)
            .field("acp", &self.acp)
            .field("has_credentials", &self.credentials.is_some())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Name for people: the label, or the id.
    pub fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.id)
    }
}

/// Whether a text can be the id of a source (16.3).
pub fn is_source_id(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}

/// The content of `sources.json`.
#[derive(Clone, PartialEq)]
pub struct Sources {
    path: PathBuf,
    /// The file as it was read, in its order and with what this host doesn't know.
    document: JsonObject,
    exists: bool,
    defaults: Limits,
    sources: Vec<Source>,
    unknown: Vec<String>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Sources")
            .field("path", &self.path)
            .field("defaults", &self.defaults)
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

impl Sources {
    /// Reads the file. One that isn't there has no sources; [`exists`](Self::exists) tells.
    pub fn read(path: &Path) -> Result<Self, SourcesError> {
        let error =
            |place: &str, problem: String| SourcesError { path: path.to_path_buf(), place: place.to_owned(), problem };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::parsed(path, JsonObject::new(), false).unwrap_or_else(|_| Self::empty(path)));
            }
            Err(cause) => return Err(error("", format!("can't be read: {cause}"))),
            Ok(text) => text,
        };
        // Editors on Windows begin files with a byte order mark.
        let document: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|cause| {
            // Only the position: the cause may quote the text.
            let at = format!("line {}, column {}", cause.line(), cause.column());
            error("", format!("is not valid JSON at {at}; check commas, quotes and brackets there"))
        })?;
        let Value::Object(document) = document else {
            return Err(error("", "must be a JSON object such as {\"sources\": []}".to_owned()));
        };
        Self::parsed(path, document, true).map_err(|Problem(place, problem)| error(&place, problem))
    }

    fn empty(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            document: JsonObject::new(),
            exists: false,
            defaults: Limits::default(),
            sources: Vec::new(),
            unknown: Vec::new(),
        }
    }

    fn parsed(path: &Path, document: JsonObject, exists: bool) -> Result<Self, Problem> {
        let mut unknown = Vec::new();
        unknown_keys(&document, "", &[&DOCUMENT_KEYS], &mut unknown);
        let defaults = match object(&document, "", "defaults")? {
            Some(defaults) => {
                unknown_keys(&defaults, "defaults.", &[&LIMIT_KEYS], &mut unknown);
                limits(&defaults, "defaults.")?
            }
            None => Limits::default(),
        };
        let mut sources = Vec::new();
        let mut seen = HashSet::new();
        for (place, value) in list(&document, "", "sources")?.into_iter().flatten().enumerate() {
            let at = format!("sources[{place}]");
            let Value::Object(fields) = value else { return Err(Problem(at, "must be an object".to_owned())) };
            let at = format!("{at}.");
            unknown_keys(fields, &at, &[&SOURCE_KEYS, &LIMIT_KEYS], &mut unknown);
            let source = source(fields, &at)?;
            if !seen.insert(source.id.clone()) {
                return Err(Problem(
                    format!("{at}id"),
                    format!("is {} as another source's: give it another id", source.id),
                ));
            }
            sources.push(source);
        }
        Ok(Self { path: path.to_path_buf(), document, exists, defaults, sources, unknown })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file was there.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Every source, in the order of the file.
    pub fn all(&self) -> &[Source] {
        &self.sources
    }

    /// The source of this id.
    pub fn get(&self, id: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.id == id)
    }

    /// Limits for sources that have none of their own.
    pub fn defaults(&self) -> Limits {
        self.defaults
    }

    /// The limits of a source that are set, its own or those for all.
    pub fn limits(&self, source: &Source) -> Limits {
        source.limits.or(self.defaults)
    }

    /// Keys that this host doesn't know and ignores, such as `sources[0].colour`: misspelt ones are among them.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Adds a source, or replaces the one with its id. What the file holds besides is kept. [`write`](Self::write) saves it.
    pub fn put(&mut self, source: Source) -> Result<(), SourcesError> {
        let sources = self.document.entry("sources").or_insert(Value::Null);
        if sources.is_null() {
            *sources = Value::Array(Vec::new());
        }
        let Value::Array(list) = sources else { return self.again() };
        let place = list.iter().position(|value| value["id"] == *source.id).unwrap_or_else(|| {
            list.push(Value::Object(JsonObject::new()));
            list.len() - 1
        });
        if let Value::Object(fields) = &mut list[place] {
            write_source(&source, fields);
        }
        self.again()
    }

    /// Removes a source; whether there was one. [`write`](Self::write) saves it.
    pub fn remove(&mut self, id: &str) -> Result<bool, SourcesError> {
        let Some(Value::Array(list)) = self.document.get_mut("sources") else { return Ok(false) };
        let before = list.len();
        list.retain(|value| value["id"] != *id);
        let removed = list.len() < before;
        self.again()?;
        Ok(removed)
    }

    /// Reads the changed document by the rules that hold for the file.
    fn again(&mut self) -> Result<(), SourcesError> {
        *self = Self::parsed(&self.path, std::mem::take(&mut self.document), self.exists)
            .map_err(|Problem(place, problem)| SourcesError { path: self.path.clone(), place, problem })?;
        Ok(())
    }

    /// Writes the file: all of it or nothing, for its owner alone.
    pub fn write(&mut self) -> Result<(), SourcesError> {
        write_private(&self.path, &pretty(&self.document)).map_err(|cause| SourcesError {
            path: self.path.clone(),
            place: String::new(),
            problem: format!("can't be written: {cause}"),
        })?;
        self.exists = true;
        Ok(())
    }

    /// The values of a source with its references resolved. Asks the keyring and reads files, so call it where blocking is
    /// allowed.
    pub fn resolve(&self, source: &Source, project: &Path) -> Result<Resolved, ReferenceError> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let part = |values: &Option<JsonObject>, name: &str| {
            let resolve = |values: &JsonObject| {
                values
                    .iter()
                    .map(|(key, value)| {
                        let value = resolve(value, &format!("{name}.{key}"), folder, project)?;
                        Ok((key.clone(), value))
                    })
                    .collect::<Result<JsonObject, Problem>>()
            };
            values.as_ref().map(resolve).transpose().map_err(|Problem(place, problem)| ReferenceError {
                source: source.id.clone(),
                place,
                problem,
            })
        };
        Ok(Resolved { credentials: part(&source.credentials, "credentials")?, config: part(&source.config, "config")? })
    }
}

/// The values of a source without references. They are secrets, so `{:?}` shows none of them.
#[derive(Clone, Default)]
pub struct Resolved {
    /// What authenticates.
    pub credentials: Option<JsonObject>,
    /// Settings.
    pub config: Option<JsonObject>,
}

impl std::fmt::Debug for Resolved {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Resolved").field("has_credentials", &self.credentials.is_some()).finish_non_exhaustive()
    }
}

/// A value that is looked up at each call in place of being in the file (16.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A variable of this process's environment.
    Env(String),
    /// The content of a file, without white space at its ends. Relative to the folder of `sources.json`.
    File(String),
    /// [`File`](Self::File) whose path is in a variable: `{"file": {"env": "NAME"}}`.
    FileInEnv(String),
    /// The absolute path of a path inside the project.
    ProjectPath(String),
    /// An entry of the operating system's keyring.
    Keyring(String),
}

impl Reference {
    /// The reference that a value is: an object with one of the four names and a text, nothing else.
    pub fn of(value: &Value) -> Option<Self> {
        let object = value.as_object().filter(|object| object.len() == 1)?;
        let (kind, text) = object.iter().next()?;
        if let (Some(Self::Env(name)), "file") = (Self::of(text), kind.as_str()) {
            return Some(Self::FileInEnv(name));
        }
        let text = text.as_str()?.to_owned();
        match kind.as_str() {
            "env" => Some(Self::Env(text)),
            "file" => Some(Self::File(text)),
            "projectPath" => Some(Self::ProjectPath(text)),
            "keyring" => Some(Self::Keyring(text)),
            _ => None,
        }
    }

    /// As it stands in the file.
    pub fn to_value(&self) -> Value {
        let (kind, value) = match self {
            Self::Env(text) => ("env", text.as_str().into()),
            Self::File(text) => ("file", text.as_str().into()),
            Self::FileInEnv(name) => ("file", Self::Env(name.clone()).to_value()),
            Self::ProjectPath(text) => ("projectPath", text.as_str().into()),
            Self::Keyring(text) => ("keyring", text.as_str().into()),
        };
        Value::Object(JsonObject::from_iter([(kind.to_owned(), value)]))
    }

    /// The text it stands for; `folder` is that of `sources.json`. The message of a failure is to be read after the place of
    /// the reference. Blocks.
    pub fn resolve(&self, folder: &Path, project: &Path) -> Result<String, String> {
        match self {
            Self::Env(name) => variable(name),
            Self::FileInEnv(name) => Self::File(variable(name)?).resolve(folder, project),
            Self::File(path) => file_text(&folder.join(path))
                .map_err(|cause| format!("names the file {path}, which can't be used: {cause}")),
            Self::ProjectPath(path) => {
                project_path(project, path).map_err(|cause| format!("names the path {path} of the project: {cause}"))
            }
            Self::Keyring(name) => secrets::read(name).map_err(|cause| cause.to_string()),
        }
    }
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|cause| match cause {
        std::env::VarError::NotPresent => {
            format!("names the variable {name}, which is not set: set it where this program is started")
        }
        std::env::VarError::NotUnicode(_) => format!("names the variable {name}, which is not Unicode"),
    })
}

/// A value outside of `credentials` and `config` as this host uses it: a variable of the environment may stand there too, for
/// programs that start this one and can't write the file. One that is empty or not set is no value.
fn of_env(value: &Value) -> Value {
    match Reference::of(value) {
        Some(Reference::Env(name)) => match std::env::var(name) {
            Ok(text) if !text.trim().is_empty() => text.trim().into(),
            _ => Value::Null,
        },
        _ => value.clone(),
    }
}

/// A place and what is wrong there.
#[derive(Debug)]
struct Problem(String, String);

fn resolve(value: &Value, at: &str, folder: &Path, project: &Path) -> Result<Value, Problem> {
    if let Some(reference) = Reference::of(value) {
        return match reference.resolve(folder, project) {
            Ok(text) => Ok(Value::String(text)),
            Err(problem) => Err(Problem(at.to_owned(), problem)),
        };
    }
    match value {
        Value::Object(object) => {
            let fields = object
                .iter()
                .map(|(key, value)| Ok((key.clone(), resolve(value, &format!("{at}.{key}"), folder, project)?)));
            Ok(Value::Object(fields.collect::<Result<_, Problem>>()?))
        }
        Value::Array(list) => {
            let items = list
                .iter()
                .enumerate()
                .map(|(place, value)| resolve(value, &format!("{at}[{place}]"), folder, project));
            Ok(Value::Array(items.collect::<Result<_, Problem>>()?))
        }
        other => Ok(other.clone()),
    }
}

fn file_text(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    if metadata.len() > FILE_MAX {
        return Err(format!("it is larger than {FILE_MAX} bytes"));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    Ok(text.trim_start_matches('\u{feff}').trim().to_owned())
}

/// The absolute path of a path inside the project, which links don't lead out of either. What it names need not exist
/// yet.
pub fn project_path(project: &Path, relative: &str) -> Result<String, String> {
    let outside = || "it leads out of the project; write a relative path below it".to_owned();
    // Windows takes `a\..\b` for a path too, wherever this runs the file may come from there.
    let relative = if cfg!(windows) { relative.to_owned() } else { relative.replace('\\', "/") };
    let path = Path::new(&relative);
    if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(outside());
    }
    let project = plain(&project.canonicalize().map_err(|error| format!("the project can't be found: {error}"))?);
    let target = project.join(path);
    let there = target.ancestors().find(|path| path.symlink_metadata().is_ok());
    let real = there.and_then(|path| path.canonicalize().ok()).ok_or_else(outside)?;
    if !plain(&real).starts_with(&project) {
        return Err(outside());
    }
    target.to_str().map(str::to_owned).ok_or_else(|| "it is not Unicode".to_owned())
}

/// Windows writes resolved paths in a form that few programs read.
fn plain(path: &Path) -> PathBuf {
    match path.to_str().and_then(|path| path.strip_prefix(r"\\?\")) {
        Some(plain) if !plain.starts_with("UNC") => PathBuf::from(plain),
        _ => path.to_path_buf(),
    }
}

/// Writes a file in one step, readable for its owner alone. A link is followed: the file it names is replaced.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Temporary files are for their owner alone on Unix; on Windows the folder's rights hold.
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

fn pretty(document: &JsonObject) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(document).unwrap_or_default();
    text.push(b'\n');
    text
}

fn unknown_keys(object: &JsonObject, at: &str, known: &[&[&str]], unknown: &mut Vec<String>) {
    let strangers = object.keys().filter(|key| !known.iter().any(|known| known.contains(&key.as_str())));
    unknown.extend(strangers.map(|key| format!("{at}{key}")));
}

fn source(fields: &JsonObject, at: &str) -> Result<Source, Problem> {
    let required = |key: &str, what: &str| {
        text(fields, at, key)?.ok_or_else(|| Problem(format!("{at}{key}"), format!("is missing: {what}")))
    };
    let id = required("id", "name the source, such as \"shop\"")?;
    if !is_source_id(&id) {
        let problem = format!("must have 1 to {ID_MAX} lowercase letters, digits, _ or -");
        return Err(Problem(format!("{at}id"), problem));
    }
    let acp = required("acp", "the id of an installed connector, as `acp list` shows it")?;
    if !acp_protocol::manifest::is_package_id(&acp) {
        return Err(Problem(format!("{at}acp"), "is no id of a connector; `acp list` shows them".to_owned()));
    }
    let autocontext = match text(fields, at, "autocontext")? {
        None => Autocontext::default(),
        Some(name) => Autocontext::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            let names = Autocontext::ALL.map(Autocontext::name).join(" or ");
            Problem(format!("{at}autocontext"), format!("must be {names}"))
        })?,
    };
    Ok(Source {
        id,
        acp,
        label: text(fields, at, "label")?,
        credentials: object(fields, at, "credentials")?,
        config: object(fields, at, "config")?,
        default_resource_id: resource(fields, at)?,
        limits: limits(fields, at)?,
        tables: names(fields, at, "tables")?,
        autocontext,
        autocontext_blocks: names(fields, at, "autocontext_blocks")?,
    })
}

/// Ids of resources are often digits alone, and people leave the quotes out.
fn resource(fields: &JsonObject, at: &str) -> Result<Option<String>, Problem> {
    match fields.get("default_resource_id").map(of_env) {
        Some(Value::Number(number)) if number.is_u64() => Ok(Some(number.to_string())),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        _ => text(fields, at, "default_resource_id"),
    }
}

/// A number, also as the text of a variable.
fn number(fields: &JsonObject, key: &str) -> Option<Option<f64>> {
    let value = fields.get(key)?;
    match of_env(value) {
        Value::Null => None,
        Value::String(text) if !value.is_string() => Some(text.parse().ok()),
        value => Some(value.as_f64()),
    }
}

fn limits(fields: &JsonObject, at: &str) -> Result<Limits, Problem> {
    let whole = |key: &str, least: u32, most: u32| {
        let Some(number) = number(fields, key) else { return Ok(None) };
        let range = f64::from(least)..=f64::from(most);
        match number.filter(|number| number.fract() == 0.0 && range.contains(number)) {
            Some(number) => Ok(Some(number as u32)),
            None => Err(Problem(format!("{at}{key}"), format!("must be a whole number from {least} to {most}"))),
        }
    };
    let cost_limit_usd =
        match number(fields, "cost_limit_usd") {
            None => None,
            Some(amount) => Some(amount.filter(|amount| *amount >= 0.0 && amount.is_finite()).ok_or_else(|| {
                Problem(format!("{at}cost_limit_usd"), "must be an amount in USD, 0 or more".to_owned())
            })?),
        };
    Ok(Limits {
        row_limit: whole("row_limit", 0, MAX_ROW_LIMIT)?,
        field_limit: whole("field_limit", 1, MAX_FIELD_LIMIT)?,
        cost_limit_usd,
    })
}

fn names(fields: &JsonObject, at: &str, key: &str) -> Result<Option<Vec<String>>, Problem> {
    let Some(list) = list(fields, at, key)? else { return Ok(None) };
    let names: Option<Vec<String>> = list.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    names.map(Some).ok_or_else(|| Problem(format!("{at}{key}"), "must be a list of names in quotes".to_owned()))
}

fn text(fields: &JsonObject, at: &str, key: &str) -> Result<Option<String>, Problem> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(Problem(format!("{at}{key}"), "must be a text in quotes that is not empty".to_owned())),
    }
}

fn object(fields: &JsonObject, at: &str, key: &str) -> Result<Option<JsonObject>, Problem> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object.clone())),
        Some(_) => Err(Problem(format!("{at}{key}"), "must be an object, {…}".to_owned())),
    }
}

fn list<'a>(fields: &'a JsonObject, at: &str, key: &str) -> Result<Option<&'a Vec<Value>>, Problem> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(Problem(format!("{at}{key}"), "must be a list, […]".to_owned())),
    }
}

/// Writes what a source says over what was there, and leaves alone what it says already, perhaps by a variable, and keys of
/// others.
fn write_source(source: &Source, fields: &mut JsonObject) {
    let before = self::source(fields, "").unwrap_or_default();
    let same = |key: &str| match key {
        "default_resource_id" => before.default_resource_id == source.default_resource_id,
        "row_limit" => before.limits.row_limit == source.limits.row_limit,
        "field_limit" => before.limits.field_limit == source.limits.field_limit,
        "cost_limit_usd" => before.limits.cost_limit_usd == source.limits.cost_limit_usd,
        _ => false,
    };
    let text = |text: &Option<String>| text.clone().map(Value::String);
    let whole = |number: Option<u32>| number.map(Value::from);
    let names = |names: &Option<Vec<String>>| names.clone().map(Value::from);
    let autocontext = Some(source.autocontext).filter(|mode| *mode != Autocontext::default());
    for (key, value) in [
        ("id", Some(Value::String(source.id.clone()))),
        ("acp", Some(Value::String(source.acp.clone()))),
        ("label", text(&source.label)),
        ("default_resource_id", text(&source.default_resource_id)),
        ("credentials", source.credentials.clone().map(Value::Object)),
        ("config", source.config.clone().map(Value::Object)),
        ("row_limit", whole(source.limits.row_limit)),
        ("field_limit", whole(source.limits.field_limit)),
        ("cost_limit_usd", source.limits.cost_limit_usd.map(Value::from)),
        ("tables", names(&source.tables)),
        ("autocontext", autocontext.map(|mode| Value::from(mode.name()))),
        ("autocontext_blocks", names(&source.autocontext_blocks)),
    ] {
        match value {
            _ if same(key) => {}
            Some(value) => _ = fields.insert(key.to_owned(), value),
            // Taking a key out of the middle must not move the last one into its place.
            None => _ = fields.shift_remove(key),
        }
    }
}
