//! Tables that travel inside an answer without becoming JSON values on the way.
//!
//! MCP's library holds a message as a tree of values. A table in that tree would cost many times its size, and a
//! number of 38 digits would lose most of them. So the tree holds a mark, and the transport writes the table's own
//! text in its place.

use std::collections::HashMap;
use std::sync::Mutex;

use rmcp::model::RequestId;
use serde_json::Value;

use crate::call::lock;

/// Tables waiting for their answers to be sent, by the id of the request. One per session, since ids are unique
/// only there.
#[derive(Debug, Default)]
pub(crate) struct InlineTables {
    waiting: Mutex<HashMap<RequestId, Vec<InlineTable>>>,
}

/// A table and the mark that stands for it.
#[derive(Debug)]
struct InlineTable {
    mark: String,
    json: Vec<u8>,
}

impl InlineTables {
    /// Takes a table, and gives what stands for it in the answer. The mark is random, so no text of a source can be
    /// taken for it.
    pub(crate) fn keep(&self, request: &RequestId, json: Vec<u8>) -> Value {
        let mark = format!("acp-table-{}", random());
        lock(&self.waiting).entry(request.clone()).or_default().push(InlineTable { mark: mark.clone(), json });
        Value::String(mark)
    }

    /// Forgets the tables of an answer that will not be sent.
    pub(crate) fn forget(&self, request: &RequestId) {
        lock(&self.waiting).remove(request);
    }

    /// The pieces of a message that must be written one after the other: its text with every mark replaced.
    pub(crate) fn splice(&self, request: Option<&RequestId>, message: Vec<u8>) -> Vec<Vec<u8>> {
        let tables = request.and_then(|request| lock(&self.waiting).remove(request)).unwrap_or_default();
        let mut pieces = Vec::with_capacity(1 + 2 * tables.len());
        let mut rest = message;
        for table in tables {
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
}

/// 128 random bits as text.
fn random() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Every RandomState starts from the operating system's random numbers and then counts on; hashing two of them
    // with different inputs gives numbers that nobody outside can know.
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
        let tables = InlineTables::default();
        let (one, two) = (RequestId::Number(1), RequestId::String("1".into()));
        let (first, second) = (tables.keep(&one, b"[1]".to_vec()), tables.keep(&one, b"[2]".to_vec()));
        let other = tables.keep(&two, b"[3]".to_vec());
        let message = format!("{{\"a\":{first},\"b\":{second},\"c\":{other}}}");
        let spliced = tables.splice(Some(&one), message.into_bytes()).concat();
        assert_eq!(String::from_utf8(spliced).unwrap(), format!("{{\"a\":[1],\"b\":[2],\"c\":{other}}}"));
        assert_eq!(tables.splice(Some(&one), b"{}".to_vec()).concat(), b"{}");
        tables.forget(&two);
        assert!(lock(&tables.waiting).is_empty());
    }
}
