//! Tables that belong to answers which are not sent yet.
//!
//! MCP's library holds a message as a tree of values. An inline table in that tree would cost many times its size, and
//! a number of 38 digits would lose most of them. So the tree holds a mark, and the transport writes the table's own
//! text in its place. A table in a file is left for the host only once the answer that names it is written: the
//! library drops the answer of a cancelled call, and then nobody would ever remove the file.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

use rmcp::model::RequestId;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::call::lock;

/// The tables of a session, by the id of the request they answer. One per session, since ids are unique only there.
#[derive(Debug, Default)]
pub(crate) struct OutgoingTables {
    waiting: Mutex<HashMap<RequestId, AnswerTables>>,
}

/// The tables of one answer. Dropping them removes their files.
#[derive(Debug, Default)]
pub(crate) struct AnswerTables {
    inline: Vec<InlineTable>,
    files: Vec<NamedTempFile>,
}

/// A table and the mark that stands for it.
#[derive(Debug)]
struct InlineTable {
    mark: String,
    json: Vec<u8>,
}

impl OutgoingTables {
    /// Takes an inline table, and gives what stands for it in the answer. The mark is random, so no text of a source
    /// can be taken for it.
    pub(crate) fn add_inline(&self, request: &RequestId, json: Vec<u8>) -> Value {
        let mark = format!("acp-table-{}", random());
        let table = InlineTable { mark: mark.clone(), json };
        lock(&self.waiting).entry(request.clone()).or_default().inline.push(table);
        Value::String(mark)
    }

    /// Takes the file of a table, and gives its path for the answer.
    pub(crate) fn add_file(&self, request: &RequestId, file: NamedTempFile) -> std::io::Result<PathBuf> {
        let path = std::path::absolute(file.path())?;
        lock(&self.waiting).entry(request.clone()).or_default().files.push(file);
        Ok(path)
    }

    /// Forgets the tables of an answer that will not be sent.
    pub(crate) fn forget(&self, request: &RequestId) {
        lock(&self.waiting).remove(request);
    }

    /// The tables of an answer that is about to be sent.
    pub(crate) fn take(&self, request: Option<&RequestId>) -> AnswerTables {
        request.and_then(|request| lock(&self.waiting).remove(request)).unwrap_or_default()
    }
}

impl AnswerTables {
    /// The pieces of a message that must be written one after the other: its text with every mark replaced.
    pub(crate) fn splice(&mut self, message: Vec<u8>) -> Vec<Vec<u8>> {
        let mut pieces = Vec::with_capacity(1 + 2 * self.inline.len());
        let mut rest = message;
        for table in self.inline.drain(..) {
            let quoted = format!("\"{}\"", table.mark);
            let Some(place) = find(&rest, quoted.as_bytes()) else { continue };
            let tail = rest.split_off(place);
            pieces.push(rest);
            pieces.push(table.json);
            rest = tail[quoted.len()..].to_vec();
        }
        pieces.push(rest);
        pieces
    }

    /// Leaves the files to the host, now that it knows of them.
    pub(crate) fn sent(self) {
        for file in self.files {
            if let Err(error) = file.keep() {
                tracing::warn!(%error, "the file of a table could not be left to the host");
            }
        }
    }
}

/// 128 random bits as text.
fn random() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Every RandomState starts from the operating system's random numbers; hashing with two of them gives numbers
    // that nobody outside can know.
    let state = RandomState::new();
    format!("{:016x}{:016x}", state.hash_one(1_u8), RandomState::new().hash_one(state.hash_one(2_u8)))
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    // The mark stands near the end, behind the text for the model.
    text.windows(needle.len()).rposition(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_replaced_and_others_tables_stay() {
        let tables = OutgoingTables::default();
        let (one, two) = (RequestId::Number(1), RequestId::String("1".into()));
        let (first, second) = (tables.add_inline(&one, b"[1]".to_vec()), tables.add_inline(&one, b"[2]".to_vec()));
        let other = tables.add_inline(&two, b"[3]".to_vec());
        let message = format!("{{\"a\":{first},\"b\":{second},\"c\":{other}}}");
        let spliced = tables.take(Some(&one)).splice(message.into_bytes()).concat();
        assert_eq!(String::from_utf8(spliced).unwrap(), format!("{{\"a\":[1],\"b\":[2],\"c\":{other}}}"));
        assert_eq!(tables.take(Some(&one)).splice(b"{}".to_vec()).concat(), b"{}");
        tables.forget(&two);
        assert!(lock(&tables.waiting).is_empty());
    }

    #[test]
    fn files_stay_only_when_their_answer_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let tables = OutgoingTables::default();
        let file = || tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        let (sent, dropped) = (RequestId::Number(1), RequestId::Number(2));
        let kept = tables.add_file(&sent, file()).unwrap();
        let gone = tables.add_file(&dropped, file()).unwrap();
        tables.take(Some(&sent)).sent();
        tables.forget(&dropped);
        assert!(kept.exists() && !gone.exists());
    }
}
