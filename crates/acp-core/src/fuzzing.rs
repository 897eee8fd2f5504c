//! What the targets in `fuzz/` reach inside this crate. It exists for them alone, and in tests so that it compiles.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use acp_protocol::JsonObject;
use acp_protocol::result::Header;
use acp_protocol::session::Sampling;
use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::model::RequestId;
use rmcp::transport::Transport;
use schemars::JsonSchema;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::arguments::InputSchema;
use crate::envelope::{self, Envelope, Refusal};
use crate::error::Result;
use crate::outgoing::Handover;
use crate::revisions::Revisions;
use crate::spool::TableFiles;
use crate::stdio::Lines;
use crate::table::{Keep, ObjectTable, TableSettings, TableWriter};

/// The stdio transport over any reader and writer, for a server that announces the revisions up to `newest`.
pub fn lines<R, W>(reader: R, writer: W, newest: &str) -> impl Transport<RoleServer, Error = io::Error>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let revisions = Revisions::up_to(newest).unwrap_or_default();
    Lines::new(reader, writer, Arc::default(), Cow::Borrowed(revisions.all()))
}

/// The id and the method of a message, or the message that refuses it.
pub fn envelope(text: &[u8]) -> std::result::Result<(Option<RequestId>, Option<String>), String> {
    Envelope::read(text).map(|envelope| (envelope.id, envelope.method)).map_err(|refusal| refusal.to_text())
}

/// The messages of a batch, or the message that refuses it; `None` where the text is no batch.
pub fn batch(text: &Bytes) -> Option<std::result::Result<Vec<Bytes>, String>> {
    envelope::batch(text).map(|messages| messages.map_err(|refusal: Refusal| refusal.to_text()))
}

/// The input schema that is published for a tool's struct.
pub fn input_schema<T: JsonSchema>() -> JsonObject {
    InputSchema::of::<T>().schema
}

/// Arguments as a tool's struct is read from them, or the error that a model gets.
pub fn check_arguments(schema: &JsonObject, arguments: JsonObject) -> Result<JsonObject> {
    let input = InputSchema { description: String::new(), schema: schema.clone() };
    input.check(input.rename(arguments)?)
}

/// A table with declared columns that stays in memory.
pub fn table(headers: Vec<Header>) -> Result<TableWriter> {
    TableWriter::new(headers, settings())
}

/// A table of objects that stays in memory.
pub fn object_table(declared: Vec<Header>) -> ObjectTable {
    ObjectTable::new(declared, settings())
}

/// A table's columns, its JSON text and its warnings.
pub fn finish(table: TableWriter) -> Result<(Vec<Header>, Vec<u8>, Vec<String>)> {
    let table = table.finish(1)?;
    Ok((table.headers, table.place.into_inline().unwrap_or_default(), table.warnings))
}

fn settings() -> TableSettings {
    TableSettings {
        row_limit: 1,
        sampling: Sampling::Head,
        inline_max_bytes: u64::MAX,
        keep: Keep::Everything,
        files: TableFiles { directory: PathBuf::new(), shared_place: false, prefix: String::new() },
        handover: Handover::Inline,
    }
}
