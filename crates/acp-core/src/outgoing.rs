//! Tables that belong to answers which are not sent yet.
//!
//! MCP's library holds a message as a tree of values. An inline table in that tree would cost many times its size, and
//! a number of 38 digits would lose most of them. So the tree holds a mark, and the transport writes the table's own
//! text in its place. A table in a file is left for the host only once the answer that names it is written: the
//! library drops the answer of a cancelled call, and then nobody would ever remove the file.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use bytes::Bytes;
use memchr::memmem;
use rmcp::model::{Extensions, RequestId};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::call::lock;
use crate::links::{Link, LinkMaker};
use crate::spool::file_uri;

/// What a mark starts with, with the quote of the JSON string that it is.
const MARK_START: &[u8] = b"\"acp-table-";
/// Random digits of a mark.
const MARK_DIGITS: usize = 32;
/// A mark with both quotes.
const MARK_LENGTH: usize = MARK_START.len() + MARK_DIGITS + 1;

/// How a table that is too large for the inline limit reaches the host. The transport decides it for every request.
#[derive(Clone, Debug)]
pub(crate) enum Handover {
    /// As a file that the host can read.
    File,
    /// By a link that works once.
    Link(LinkMaker),
    /// Inline all the same.
    Inline,
}

/// The tables of all sessions of a transport, by their marks.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    tables: Mutex<HashMap<String, OutgoingTable>>,
    sessions: AtomicU64,
}

/// The tables of one session. Ids of requests are unique only there. Dropping it removes what was not sent.
#[derive(Debug)]
pub(crate) struct OutgoingTables {
    outbox: Arc<Outbox>,
    session: u64,
}

/// A table that waits for its answer to be sent. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct OutgoingTable {
    session: u64,
    request: RequestId,
    since: Instant,
    text: Text,
    left: Left,
}

/// What is written in the place of a mark.
#[derive(Debug)]
pub(crate) enum Text {
    /// This.
    Memory(Vec<u8>),
    /// The content of this file without line breaks.
    File(NamedTempFile),
}

/// What stays for the host after the answer.
#[derive(Debug)]
enum Left {
    Nothing,
    File(NamedTempFile),
    Link(Link),
}

/// The tables of one answer.
#[derive(Debug)]
pub(crate) struct AnswerTables {
    tables: HashMap<String, OutgoingTable>,
    sent: Vec<Left>,
}

/// Whether a request came over HTTP: its client need not be on this machine.
pub(crate) fn over_http(request: &Extensions) -> bool {
    request.get::<Parts>().is_some()
}

impl Handover {
    /// What the transport decided for a request. Stdio has files.
    pub(crate) fn of(request: &Extensions) -> Self {
        request.get::<Parts>().and_then(|parts| parts.extensions.get()).cloned().unwrap_or(Self::File)
    }
}

impl Default for OutgoingTables {
    fn default() -> Self {
        Self::in_outbox(Arc::default())
    }
}

impl OutgoingTables {
    /// The tables of a new session, for a transport that looks for them in `outbox`.
    pub(crate) fn in_outbox(outbox: Arc<Outbox>) -> Self {
        let session = outbox.sessions.fetch_add(1, Ordering::Relaxed);
        Self { outbox, session }
    }

    /// Takes an inline table, and gives what stands for it in the answer. The mark is random, so no text of a source
    /// can be taken for it.
    pub(crate) fn add_inline(&self, request: &RequestId, text: Text) -> Value {
        self.add(request, text, Left::Nothing)
    }

    /// Takes the file of a table, and gives what stands for its URI in the answer.
    pub(crate) fn add_file(&self, request: &RequestId, file: NamedTempFile) -> io::Result<Value> {
        let uri = file_uri(&std::path::absolute(file.path())?);
        Ok(self.add(request, Text::Memory(json!(uri).to_string().into_bytes()), Left::File(file)))
    }

    /// Takes the file of a table that will be fetched by a link, and gives what stands for the link in the answer.
    pub(crate) fn add_link(&self, request: &RequestId, file: NamedTempFile, maker: &LinkMaker) -> Value {
        let (link, url) = maker.link(random(), file);
        self.add(request, Text::Memory(json!(url).to_string().into_bytes()), Left::Link(link))
    }

    fn add(&self, request: &RequestId, text: Text, left: Left) -> Value {
        let mark = random();
        let table =
            OutgoingTable { session: self.session, request: request.clone(), since: Instant::now(), text, left };
        let value = Value::String(format!("acp-table-{mark}"));
        lock(&self.outbox.tables).insert(mark, table);
        value
    }

    /// Forgets the tables of an answer that will not be sent.
    pub(crate) fn forget(&self, request: &RequestId) {
        drop(self.take(Some(request)));
    }

    /// The tables of an answer that is about to be sent.
    pub(crate) fn take(&self, request: Option<&RequestId>) -> AnswerTables {
        let tables = match request {
            None => HashMap::new(),
            Some(request) => self.extract(|table| table.request == *request),
        };
        AnswerTables { tables, sent: Vec::new() }
    }

    fn extract(&self, wanted: impl Fn(&OutgoingTable) -> bool) -> HashMap<String, OutgoingTable> {
        let mut tables = lock(&self.outbox.tables);
        tables.extract_if(|_, table| table.session == self.session && wanted(table)).collect()
    }
}

impl Drop for OutgoingTables {
    fn drop(&mut self) {
        drop(self.extract(|_| true));
    }
}

impl Outbox {
    /// The table that a mark stands for, once.
    pub(crate) fn take(&self, mark: &str) -> Option<OutgoingTable> {
        lock(&self.tables).remove(mark)
    }

    /// Removes tables whose answers were not sent for `age`: their clients went away.
    pub(crate) fn drop_older(&self, age: Duration) {
        let old: Vec<_> = lock(&self.tables).extract_if(|_, table| table.since.elapsed() >= age).collect();
        drop(old);
    }
}

impl OutgoingTable {
    /// Leaves to the host what stays for it, and gives the text to write.
    pub(crate) fn send(self) -> Text {
        self.left.leave();
        self.text
    }
}

impl Left {
    fn leave(self) {
        match self {
            Self::Nothing => {}
            Self::File(file) => {
                if let Err(error) = file.keep() {
                    tracing::warn!(%error, "the file of a table could not be left to the host");
                }
            }
            Self::Link(link) => link.publish(),
        }
    }
}

impl AnswerTables {
    /// The pieces of a message that must be written one after the other: its text with every mark replaced.
    pub(crate) fn splice(&mut self, message: Vec<u8>) -> io::Result<Vec<Bytes>> {
        if self.tables.is_empty() {
            return Ok(vec![message.into()]);
        }
        let mut splicer = Splicer::default();
        let mut pieces = splicer.push(message.into(), &mut |mark| self.tables.remove(mark));
        pieces.push(Piece::Text(splicer.finish()));
        pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => Ok(text),
                Piece::Table(table) => {
                    self.sent.push(table.left);
                    Ok(table.text.read()?.into())
                }
            })
            .collect()
    }

    /// Leaves the files to the host, now that it knows of them.
    pub(crate) fn sent(self) {
        self.sent.into_iter().for_each(Left::leave);
    }
}

impl Text {
    fn read(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Memory(text) => Ok(text),
            Self::File(file) => {
                let mut text = Vec::new();
                file.reopen()?.read_to_end(&mut text)?;
                text.retain(|byte| *byte != b'\n');
                Ok(text)
            }
        }
    }
}

/// A part of a message: its own text, or a table in the place of a mark.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(Bytes),
    Table(OutgoingTable),
}

/// Finds marks in a text that comes in chunks.
#[derive(Debug, Default)]
pub(crate) struct Splicer {
    /// The end of the last chunk, where a mark may have begun.
    held: Vec<u8>,
}

impl Splicer {
    /// The pieces that are certain after this chunk. What `find` does not know stays as it is.
    pub(crate) fn push(&mut self, chunk: Bytes, find: &mut dyn FnMut(&str) -> Option<OutgoingTable>) -> Vec<Piece> {
        let text = if self.held.is_empty() {
            chunk
        } else {
            let mut text = std::mem::take(&mut self.held);
            text.extend_from_slice(&chunk);
            Bytes::from(text)
        };
        let mut pieces = Vec::new();
        let (mut written, mut place) = (0, 0);
        while let Some(found) = memmem::find(&text[place..], MARK_START) {
            let start = place + found;
            let rest = &text[start..];
            let digits = rest[MARK_START.len()..].iter().take(MARK_DIGITS);
            let valid = digits.clone().take_while(|byte| byte.is_ascii_hexdigit()).count() == digits.len();
            if valid && rest.len() < MARK_LENGTH {
                self.hold(&text, start);
                push_text(&mut pieces, text.slice(written..start));
                return pieces;
            }
            let mark = (valid && rest[MARK_LENGTH - 1] == b'"')
                .then(|| &rest[MARK_START.len()..MARK_LENGTH - 1])
                .and_then(|digits| std::str::from_utf8(digits).ok());
            place = start + MARK_START.len();
            if let Some(table) = mark.and_then(&mut *find) {
                push_text(&mut pieces, text.slice(written..start));
                pieces.push(Piece::Table(table));
                place = start + MARK_LENGTH;
                written = place;
            }
        }
        let tail = &text[place..];
        let longest = tail.len().min(MARK_START.len() - 1);
        let begun = (1..=longest).rev().find(|length| tail.ends_with(&MARK_START[..*length])).unwrap_or(0);
        let end = text.len() - begun;
        self.hold(&text, end);
        push_text(&mut pieces, text.slice(written..end));
        pieces
    }

    fn hold(&mut self, text: &Bytes, from: usize) {
        self.held = text[from..].to_vec();
    }

    /// What was held back, when no more chunks come.
    pub(crate) fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).into()
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: Bytes) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
}

/// 128 random bits as text.
fn random() -> String {
    let mut bits = [0_u8; MARK_DIGITS / 2];
    getrandom::fill(&mut bits).expect("the operating system gives random numbers");
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn memory(text: &str) -> Text {
        Text::Memory(text.as_bytes().to_vec())
    }

    fn written(tables: &mut AnswerTables, message: &str) -> String {
        String::from_utf8(tables.splice(message.as_bytes().to_vec()).unwrap().concat()).unwrap()
    }

    #[test]
    fn marks_are_replaced_and_others_tables_stay() {
        let tables = OutgoingTables::default();
        let (one, two) = (RequestId::Number(1), RequestId::String("1".into()));
        let (first, second) = (tables.add_inline(&one, memory("[1]")), tables.add_inline(&one, memory("[2]")));
        let other = tables.add_inline(&two, memory("[3]"));
        let message = format!("{{\"a\":{second},\"b\":{first},\"c\":{other}}}");
        let spliced = written(&mut tables.take(Some(&one)), &message);
        assert_eq!(spliced, format!("{{\"a\":[2],\"b\":[1],\"c\":{other}}}"));
        assert_eq!(written(&mut tables.take(Some(&one)), "{}"), "{}");
        tables.forget(&two);
        assert!(lock(&tables.outbox.tables).is_empty());
    }

    #[test]
    fn the_end_of_a_session_removes_its_tables_alone() {
        let outbox = Arc::<Outbox>::default();
        let sessions = [OutgoingTables::in_outbox(outbox.clone()), OutgoingTables::in_outbox(outbox.clone())];
        for session in &sessions {
            session.add_inline(&RequestId::Number(1), memory("[1]"));
        }
        let [first, second] = sessions;
        second.forget(&RequestId::Number(2));
        drop(first);
        assert_eq!(lock(&outbox.tables).len(), 1);
        outbox.drop_older(Duration::from_secs(60));
        assert_eq!(lock(&outbox.tables).len(), 1);
        outbox.drop_older(Duration::ZERO);
        assert!(lock(&outbox.tables).is_empty());
        drop(second);
    }

    #[test]
    fn files_stay_only_when_their_answer_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let tables = OutgoingTables::default();
        let file = || tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        let (sent, dropped) = (RequestId::Number(1), RequestId::Number(2));
        let (kept_file, gone_file) = (file(), file());
        let (kept, gone) = (kept_file.path().to_owned(), gone_file.path().to_owned());
        let mark = tables.add_file(&sent, kept_file).unwrap();
        tables.add_file(&dropped, gone_file).unwrap();
        let mut answer = tables.take(Some(&sent));
        assert_eq!(written(&mut answer, &mark.to_string()), json!(file_uri(&kept)).to_string());
        answer.sent();
        tables.forget(&dropped);
        assert!(kept.exists() && !gone.exists());
    }

    #[test]
    fn a_table_in_a_file_is_written_without_line_breaks() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        std::io::Write::write_all(&mut file, b"[{\"a\":1},\n{\"a\":2}\n]").unwrap();
        let (tables, request) = (OutgoingTables::default(), RequestId::Number(1));
        let mark = tables.add_inline(&request, Text::File(file));
        assert_eq!(written(&mut tables.take(Some(&request)), &mark.to_string()), "[{\"a\":1},{\"a\":2}]");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Text, among it what looks like a mark or the beginning of one.
    fn piece() -> impl Strategy<Value = (bool, String)> {
        prop_oneof![
            Just((true, String::new())),
            "[a-z\"{},:é]{0,12}".prop_map(|text| (false, text)),
            "\"acp-table-[0-9a-f]{0,31}".prop_map(|text| (false, text)),
            "\"acp-table-[0-9a-f]{32}\"".prop_map(|text| (false, text)),
            "\"{0,2}(a|ac|acp-tab|\"acp-table-)".prop_map(|text| (false, text)),
        ]
    }

    proptest! {
        #[test]
        fn marks_are_found_wherever_the_chunks_end(
            pieces in prop::collection::vec(piece(), 0..12),
            cuts in prop::collection::vec(1_usize..40, 0..40),
        ) {
            let (tables, request) = (OutgoingTables::default(), RequestId::Number(1));
            let (mut message, mut expected) = (String::new(), String::new());
            for (place, (table, text)) in pieces.into_iter().enumerate() {
                if table {
                    let table = format!("[{{\"a\":{place}.12345678901234567890123456789}}]");
                    message.push_str(&tables.add_inline(&request, memory(&table)).to_string());
                    expected.push_str(&table);
                } else {
                    message.push_str(&text);
                    expected.push_str(&text);
                }
            }
            let mut rest = Bytes::from(message.into_bytes());
            let mut splicer = Splicer::default();
            let mut written = Vec::new();
            let mut cuts = cuts.into_iter();
            while !rest.is_empty() {
                let chunk = rest.split_to(cuts.next().unwrap_or(rest.len()).min(rest.len()));
                for piece in splicer.push(chunk, &mut |mark| tables.outbox.take(mark)) {
                    match piece {
                        Piece::Text(text) => written.extend_from_slice(&text),
                        Piece::Table(table) => written.extend(table.send().read().unwrap()),
                    }
                }
            }
            written.extend_from_slice(&splicer.finish());
            prop_assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
