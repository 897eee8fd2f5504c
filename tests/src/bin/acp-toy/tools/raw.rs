//! `raw`: rows as they are given, for types and delivery.

use acp_core::{Call, Error, Extraction, Hints, Result, Tool, ToolSpec};
use acp_protocol::result::Header;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::source::Toy;

/// The rows that are given, as a table.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Raw {
    /// Rows: a JSON array of objects.
    rows_json: String,
    /// Declared columns: a JSON array of {name, type, role, description}. The others are inferred.
    headers_json: Option<String>,
}

impl Tool for Raw {
    type Source = Toy;
    type Answer = Extraction;
    const SPEC: ToolSpec =
        ToolSpec { name: "raw", title: "Raw rows", resource: false, credentials: false, hints: Hints::READS_LOCAL };

    async fn run(self, _: &Toy, call: &Call) -> Result<Extraction> {
        let rows: Vec<&RawValue> = serde_json::from_str(&self.rows_json)
            .map_err(|_| Error::invalid_arguments("rows_json must be a JSON array of objects."))?;
        let declared: Vec<Header> = match self.headers_json.as_deref() {
            None => Vec::new(),
            Some(text) => serde_json::from_str(text)
                .map_err(|_| Error::invalid_arguments("headers_json must be a JSON array of headers."))?,
        };
        let mut table = call.object_table(declared);
        for row in rows {
            table.push(row.get())?;
        }
        Ok(Extraction::new(table.into_table()?, "The rows of rows_json."))
    }
}
