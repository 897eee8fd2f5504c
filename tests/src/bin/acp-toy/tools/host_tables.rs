//! Tools that work on a table of the host. Asking the host for its rows comes in a later version.

use acp_core::{Call, Error, Extraction, Hints, Info, Result, Tool, ToolSpec};
use acp_protocol::error::ErrorCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::source::Toy;

/// Copies a table of the host.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CopyTable {
    /// Id of a host dataset or report. The host resolves the rows.
    #[schemars(extend("x-acp-input" = "table_ref"))]
    #[expect(dead_code, reason = "read when acp/read_table is there")]
    table_ref: String,
    /// How to copy it.
    #[expect(dead_code, reason = "read when acp/read_table is there")]
    mode: Option<String>,
}

impl Tool for CopyTable {
    type Source = Toy;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "copy_table",
        title: "Copy a table",
        resource: false,
        credentials: false,
        hints: Hints::READS_LOCAL,
    };

    async fn run(self, _: &Toy, _: &Call) -> Result<Extraction> {
        Err(not_yet())
    }
}

/// Writes a table of the host into a table of the toy.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct LoadTable {
    /// Id of a host dataset or report. The host resolves the rows.
    #[schemars(extend("x-acp-input" = "table_ref"))]
    #[expect(dead_code, reason = "read when acp/read_table is there")]
    table_ref: String,
    /// Table that receives the rows.
    #[expect(dead_code, reason = "read when acp/read_table is there")]
    target: String,
    /// What happens to the target.
    #[serde(default)]
    op: Operation,
}

/// What happens to a table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    #[default]
    Add,
    Replace,
    Delete,
}

impl Tool for LoadTable {
    type Source = Toy;
    type Answer = Info;
    const SPEC: ToolSpec = ToolSpec {
        name: "load_table",
        title: "Load a table",
        resource: false,
        credentials: false,
        hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: false },
    };

    async fn run(self, _: &Toy, call: &Call) -> Result<Info> {
        let config: Value = call.config()?;
        let allowed = match config["access_mode"].as_str() {
            Some("full") => true,
            Some("readAndOnlyAdd") => self.op == Operation::Add,
            _ => false,
        };
        if !allowed {
            return Err(Error::new(
                ErrorCode::ReadOnlyViolation,
                "access_mode does not allow this operation. The person may allow it in the host's settings.",
            ));
        }
        Err(not_yet())
    }
}

fn not_yet() -> Error {
    Error::new(
        ErrorCode::HostTablesUnsupported,
        "Reading tables of the host is not implemented in this version. Use a tool that does not take a table_ref.",
    )
}
