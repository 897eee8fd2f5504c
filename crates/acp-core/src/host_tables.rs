//! Tables of the host: `acp/read_table`, by which a tool gets rows that the model only names (8.8).

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_protocol::METHOD_READ_TABLE;
use acp_protocol::error::ErrorCode;
use acp_protocol::result::{Header, TableFormat};
use acp_protocol::session::ReadTableParams;
use rmcp::model::{CancelledNotificationParam, ClientResult, CustomRequest, RequestId, ServerRequest};
use rmcp::service::{PeerRequestOptions, ServiceError};
use rmcp::{Peer, RoleServer};
use serde::Deserialize;
use serde::de::{DeserializeSeed, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cell::{whole_characters, write_escaped};
use crate::envelope::nesting;
use crate::error::{Error, Result};
use crate::table::fields;

/// Nested levels of a row in a file; a row in a message has the bound of the message.
const MAX_ROW_DEPTH: usize = 100;

/// The way to the host, for the length of one call.
pub(crate) struct Host {
    pub(crate) peer: Peer<RoleServer>,
    /// What the host called this call, to be repeated.
    pub(crate) call_id: Option<String>,
    /// Files in here are ours to remove.
    pub(crate) tmp: PathBuf,
    /// Whether the host may name any other file too. It runs this process over stdio; over HTTP it may be anybody.
    pub(crate) any_file: bool,
    /// How long it may take.
    pub(crate) patience: Duration,
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Host").field("call_id", &self.call_id).finish_non_exhaustive()
    }
}

/// A request that the host has not answered. When its call is cancelled the host learns that nobody waits any more, so
/// that it need not make the table and can remove a file it already wrote.
struct Pending {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let cancelled = CancelledNotificationParam::new(Some(id), Some("The call was cancelled.".to_owned()));
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}

/// A table of the host: its columns, and its rows wherever they are.
#[derive(Debug)]
pub struct HostTable {
    headers: Vec<Header>,
    row_count: u64,
    rows: Rows,
}

#[derive(Debug)]
enum Rows {
    /// The text of the table, and where in it each row is.
    Inline(String, Vec<Range<usize>>),
    File(HostFile),
}

/// One row of a host's table. Cells are the JSON text that the host wrote, so that no digit is lost.
#[derive(Debug)]
pub struct HostRow<'a> {
    cells: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> HostRow<'a> {
    /// A row with all columns in their order, and then the rest. A column that the host left out is `null`.
    fn read(row: &'a str, headers: &[Header]) -> Result<Self> {
        let mut found = fields(row).map_err(|_| malformed("a row is not an object"))?;
        let mut cells = Vec::with_capacity(headers.len().max(found.len()));
        for header in headers {
            // Rows mostly have the order of the headers.
            let place = found.iter().position(|(name, _)| **name == header.name);
            cells.push(match place {
                Some(place) => {
                    let (name, value) = found.remove(place);
                    (name, value.get())
                }
                None => (Cow::Owned(header.name.clone()), "null"),
            });
        }
        cells.extend(found.into_iter().map(|(name, value)| (name, value.get())));
        let mut names = HashSet::new();
        match cells.iter().all(|(name, _)| names.insert(name)) {
            true => Ok(Self { cells }),
            false => Err(malformed("a row has a column twice")),
        }
    }

    /// The name and the JSON text of every cell: the columns in the order of the headers, then whatever else there is.
    pub fn cells(&self) -> impl Iterator<Item = (&str, &str)> {
        self.cells.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// The row as a JSON object.
    pub fn to_json(&self) -> String {
        let mut row = vec![b'{'];
        for (name, value) in self.cells() {
            if row.len() > 1 {
                row.push(b',');
            }
            write_escaped(&mut row, name);
            row.push(b':');
            row.extend(value.as_bytes());
        }
        row.push(b'}');
        // Made of texts.
        String::from_utf8(row).unwrap_or_default()
    }
}

/// A file of the host. One that lies in `ACP_TMP_DIR` was written for us, and goes when it was read or is not needed.
#[derive(Debug)]
struct HostFile {
    path: PathBuf,
    ours: bool,
}

impl Drop for HostFile {
    fn drop(&mut self) {
        if self.ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The answer of a host as it comes.
#[derive(Deserialize)]
struct Reply {
    format: TableFormat,
    #[serde(default)]
    row_count: Option<u64>,
    headers: Vec<Header>,
    /// The text of the table: see [`keep_text`].
    #[serde(default)]
    table: Option<String>,
}

/// The answer of a host in which the table is a string that holds its text. MCP's library reads an answer into a tree of
/// values, in which a table takes many times its size and long numbers lose digits. `None` for any other message.
pub(crate) fn keep_text(answer: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Outcome<'a> {
        #[serde(borrow)]
        table: &'a RawValue,
    }
    let answer = std::str::from_utf8(answer).ok()?;
    let result = serde_json::from_str::<Answer<'_>>(answer).ok()?.result.get();
    let table = serde_json::from_str::<Outcome<'_>>(result).ok().filter(|_| result.starts_with('{'))?.table.get();
    let begin = table.as_ptr() as usize - answer.as_ptr() as usize;
    let mut kept = Vec::with_capacity(answer.len() + answer.len() / 8);
    kept.extend(&answer.as_bytes()[..begin]);
    match table.starts_with('[') {
        true => write_escaped(&mut kept, &whole_characters(table)),
        // What else a host may write there is no table.
        false => kept.extend(b"null"),
    }
    kept.extend(&answer.as_bytes()[begin + table.len()..]);
    Some(kept)
}

/// Where each row of a table is in its text. `None` where it is no list of objects.
fn rows_of(table: &str) -> Option<Vec<Range<usize>>> {
    let rows: Vec<&RawValue> = serde_json::from_str(table).ok()?;
    let place = |row: &&RawValue| {
        let begin = row.get().as_ptr() as usize - table.as_ptr() as usize;
        row.get().starts_with('{').then_some(begin..begin + row.get().len())
    };
    rows.iter().map(place).collect()
}

impl Host {
    /// Asks the host for a table. It must run in the task of the call: over HTTP the request finds its stream from there.
    pub(crate) async fn read_table(&self, reference: &str) -> Result<HostTable> {
        let params = ReadTableParams { reference: reference.to_owned(), call_id: self.call_id.clone() };
        let params = serde_json::to_value(params).unwrap_or_default();
        let request = ServerRequest::CustomRequest(CustomRequest::new(METHOD_READ_TABLE, Some(params)));
        let handle = self
            .peer
            .send_request_with_option(request, PeerRequestOptions::with_timeout(self.patience))
            .await
            .map_err(refused)?;
        let mut pending = Pending { peer: self.peer.clone(), id: Some(handle.id.clone()) };
        let response = handle.await_response().await;
        // It was answered, or the library took it back when time was up.
        pending.id = None;
        let reply = match response.map_err(refused)? {
            ClientResult::CustomResult(reply) => reply.0,
            // A reply that happens to look like another kind of result.
            other => serde_json::to_value(&other).unwrap_or_default(),
        };
        self.table(reply)
    }

    fn table(&self, reply: Value) -> Result<HostTable> {
        // First of all, so that the file goes whatever is wrong with the rest.
        let file = (reply["format"] == "file").then(|| reply["table_uri"].as_str().and_then(file_path)).flatten();
        let file = file.map(|path| HostFile { ours: is_inside(&path, &self.tmp), path });
        // Derived types would take a list for an object, field by field.
        let lists = |headers: &Value| headers.as_array().is_some_and(|headers| headers.iter().any(Value::is_array));
        let reply: Reply = Some(reply)
            .filter(|reply| reply.is_object() && !lists(&reply["headers"]))
            .and_then(|reply| serde_json::from_value(reply).ok())
            .ok_or_else(|| malformed("it does not have the form of a table"))?;
        let mut names = HashSet::new();
        if !reply.headers.iter().all(|header| names.insert(&header.name)) {
            return Err(malformed("it has a column twice"));
        }
        let (rows, row_count) = match (reply.format, reply.table, file, reply.row_count) {
            (TableFormat::Inline, Some(table), ..) => {
                let rows = rows_of(&table).ok_or_else(|| malformed("it is not a list of objects"))?;
                let found = rows.len() as u64;
                if reply.row_count.is_some_and(|announced| found != announced) {
                    return Err(malformed("it does not have as many rows as it says"));
                }
                (Rows::Inline(table, rows), found)
            }
            (TableFormat::File, _, Some(file), _) if !file.ours && !self.any_file => {
                return Err(malformed("over HTTP, rows come inline or in a file in ACP_TMP_DIR"));
            }
            (TableFormat::File, _, Some(file), Some(row_count)) => (Rows::File(file), row_count),
            (TableFormat::File, _, None, _) => return Err(malformed("table_uri is not the address of a local file")),
            (TableFormat::File, _, _, None) => return Err(malformed("it does not say how many rows its file has")),
            (TableFormat::Inline, None, ..) => return Err(malformed("it has no rows")),
        };
        Ok(HostTable { headers: reply.headers, row_count, rows })
    }
}

impl HostTable {
    /// Its columns.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// How many rows the host announces.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Hands over every row. A file is read row by row, so a file that turns out not to be what the host said fails after
    /// its first rows were handed over.
    pub fn for_each(self, mut each: impl FnMut(&HostRow<'_>) -> Result<()>) -> Result<()> {
        let Self { headers, row_count, rows } = self;
        let mut row = |text: &str| each(&HostRow::read(text, &headers)?);
        match rows {
            Rows::Inline(table, rows) => rows.into_iter().try_for_each(|place| row(&table[place])),
            Rows::File(file) => match read_file(&file.path, &mut row)? {
                found if found == row_count => Ok(()),
                _ => Err(malformed("its file does not have as many rows as it says")),
            },
        }
    }
}

fn read_file(path: &Path, each: &mut dyn FnMut(&str) -> Result<()>) -> Result<u64> {
    struct Elements<'a> {
        each: &'a mut dyn FnMut(&str) -> Result<()>,
        failure: &'a mut Option<Error>,
    }
    impl<'de> Visitor<'de> for Elements<'_> {
        type Value = u64;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an array of rows")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<u64, A::Error> {
            let mut count = 0;
            while let Some(row) = rows.next_element::<Box<RawValue>>()? {
                count += 1;
                let row = match nesting(row.get()) {
                    ..=MAX_ROW_DEPTH => (self.each)(&whole_characters(row.get())),
                    _ => Err(malformed("a row is nested too deep")),
                };
                if let Err(error) = row {
                    *self.failure = Some(error);
                    return Err(serde::de::Error::custom("the row was refused"));
                }
            }
            Ok(count)
        }
    }
    impl<'de> DeserializeSeed<'de> for Elements<'_> {
        type Value = u64;

        fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
            deserializer.deserialize_seq(self)
        }
    }
    // Anything else, such as a pipe, could keep the server waiting.
    if !path.is_file() {
        return Err(malformed("its file is not there"));
    }
    let file = File::open(path).map_err(|_| malformed("its file can't be opened"))?;
    let mut failure = None;
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(file));
    let count = Elements { each, failure: &mut failure }.deserialize(&mut deserializer);
    let count = count.and_then(|count| deserializer.end().map(|()| count));
    match (failure, count) {
        (Some(error), _) => Err(error),
        (None, Err(_)) => Err(malformed("its file is not a JSON array of rows")),
        (None, Ok(count)) => Ok(count),
    }
}

/// The path of a `file://` address without a foreign host.
fn file_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(path.len());
    let mut at = path.bytes();
    if !path.starts_with('/') {
        return None;
    }
    while let Some(byte) = at.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [at.next()?, at.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    // `/C:/…` is how a Windows path stands in an address.
    let windows = text.as_bytes().get(2) == Some(&b':');
    Some(PathBuf::from(if windows { text[1..].to_owned() } else { text }))
}

fn is_inside(path: &Path, folder: &Path) -> bool {
    matches!((path.canonicalize(), folder.canonicalize()), (Ok(path), Ok(folder)) if path.starts_with(&folder))
}

/// What the host's refusal means for the call. Only the codes of `acp/read_table` are taken as they are: hosts that don't
/// know the method answer in several ways.
fn refused(error: ServiceError) -> Error {
    let ServiceError::McpError(error) = error else {
        return match error {
            ServiceError::Timeout { .. } => Error::upstream(
                "The host did not hand over the table in time. Try again; if it stays, the table may be too large for the host.",
            ),
            _ => Error::upstream("The host could not be asked for the table. Try again."),
        };
    };
    let message = error.message.trim();
    let said = |fallback: &str| if message.is_empty() { fallback.to_owned() } else { message.to_owned() };
    match i64::from(error.code.0) {
        -32601 | -32020 => unsupported(true),
        -32021 => {
            Error::new(ErrorCode::TableNotFound, said("The host has no table of that id. Use the id of another one."))
        }
        -32022 => Error::new(
            ErrorCode::TableTruncated,
            said("The host only holds a sample of that table. Use the id of the dataset it was made from."),
        ),
        code => Error::upstream(format!(
            "The host could not hand over the table ({code}). Try again, or use another table."
        )),
    }
}

/// The error for a client that offers no tables, or speaks a revision of MCP in which it can't be asked for one.
pub(crate) fn unsupported(can_be_asked: bool) -> Error {
    let why = match can_be_asked {
        true => "this client does not offer that",
        false => "no server can ask for one in this revision of MCP",
    };
    let message =
        format!("This tool reads a table from the host, and {why}. Use a tool that does not take a table_ref.");
    Error::new(ErrorCode::HostTablesUnsupported, message)
}

fn malformed(what: &str) -> Error {
    Error::upstream(format!(
        "The host's table can't be used: {what}. Use another table, or report this to the maker of the host."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_brought_into_the_order_of_the_headers() {
        let header = |name: &str| Header {
            name: name.to_owned(),
            column_type: acp_protocol::result::ColumnType::String,
            role: None,
            description: None,
        };
        let headers = [header("a"), header("b")];
        for (row, ordered) in [
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#),
            (r#"{"b":2,"a":1}"#, r#"{"a":1,"b":2}"#),
            (r#"{"c":3,"b":2}"#, r#"{"a":null,"b":2,"c":3}"#),
            ("{}", r#"{"a":null,"b":null}"#),
        ] {
            assert_eq!(HostRow::read(row, &headers).unwrap().to_json(), ordered);
        }
        assert_eq!(HostRow::read(r#"{"x":1}"#, &[]).unwrap().to_json(), r#"{"x":1}"#);
        for twice in [r#"{"a":1,"a":2}"#, r#"{"x":1,"x":2}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(HostRow::read(twice, &headers).unwrap_err().message().contains("twice"), "{twice}");
        }
    }

    #[test]
    fn the_table_of_an_answer_stays_the_text_that_it_is() {
        let kept = |answer: &str| {
            let kept: Value = serde_json::from_slice(&keep_text(answer.as_bytes())?).unwrap();
            Some(kept["result"]["table"].clone())
        };
        for table in [r#"[]"#, r#"[{"a":12345678901234567890123456789.10, "b":"\"[\u00e9\n"}]"#, "[ 1 ,\t[2]]"] {
            let answer =
                format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":[{{"table":2}}],"table": {table} ,"y":0}}}}"#);
            assert_eq!(kept(&answer).unwrap(), Value::from(table), "{answer}");
        }
        for no_table in ["\"[]\"", "{}", "7", "null"] {
            let answer = format!(r#"{{"id":1,"result":{{"table":{no_table}}}}}"#);
            assert_eq!(kept(&answer).unwrap(), Value::Null, "{answer}");
        }
        for other in
            [r#"{"id":1,"result":{}}"#, r#"{"id":1,"error":{"table":[]}}"#, r#"{"id":1,"result":[[]]}"#, "5", ""]
        {
            assert_eq!(kept(other), None, "{other}");
        }
    }

    #[test]
    fn only_addresses_of_local_files_are_read() {
        for (uri, path) in [
            ("file:///tmp/a%20b.json", Some("/tmp/a b.json")),
            ("file://localhost/tmp/x", Some("/tmp/x")),
            ("file:///C:/Temp/x.json", Some("C:/Temp/x.json")),
            ("file://server/share/x", None),
            ("https://x/y", None),
            ("/tmp/x", None),
            ("file:///tmp/%zz", None),
            ("file:///tmp/%f", None),
        ] {
            assert_eq!(file_path(uri), path.map(PathBuf::from), "{uri}");
        }
    }
}
