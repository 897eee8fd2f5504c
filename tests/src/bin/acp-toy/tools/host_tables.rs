//! Tools that work on a table of the host: its rows come by `acp/read_table`.

use acp_core::{Access, Call, Error, Extraction, Hints, Info, Operation, Result, Tool, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::source::Toy;

/// Copies a table of the host.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CopyTable {
    /// Id of a host dataset or report. The host resolves the rows.
    #[schemars(extend("x-acp-input" = "table_ref"))]
    table_ref: String,
    /// How to copy it: `all`, `refuse` after ten rows, `panic` after ten rows, or `leave` it unread.
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

    async fn run(self, _: &Toy, call: &Call) -> Result<Extraction> {
        let copied = call.read_table(&self.table_ref).await?;
        let (mode, announced) = (self.mode.unwrap_or_default(), copied.row_count());
        let mut table = call.object_table(copied.headers().to_vec());
        let mut rows = 0;
        if mode != "leave" {
            copied.for_each(|row| {
                rows += 1;
                match mode.as_str() {
                    "refuse" if rows > 10 => {
                        return Err(Error::invalid_arguments("This copy takes ten rows. Use a smaller table."));
                    }
                    "panic" if rows > 10 => panic!("the toy fell over a row"),
                    _ => {}
                }
                table.push(&row.to_json())
            })?;
        }
        Ok(Extraction::new(table.into_table()?, "Copy of a table of the host.").extra(json!({"announced": announced})))
    }
}

/// Writes a table of the host into a table of the toy.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct LoadTable {
    /// Id of a host dataset or report. The host resolves the rows.
    #[schemars(extend("x-acp-input" = "table_ref"))]
    table_ref: String,
    /// Table that receives the rows.
    target: String,
    /// What happens to the target.
    #[serde(default)]
    op: Write,
}

/// What happens to a table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Write {
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

    async fn run(self, toy: &Toy, call: &Call) -> Result<Info> {
        let operation = match self.op {
            Write::Add => Operation::Add,
            Write::Replace => Operation::Replace,
            Write::Delete => Operation::Delete,
        };
        Access::of(call)?.check(operation, &self.target)?;
        let mut rows = 0;
        call.read_table(&self.table_ref).await?.for_each(|_| {
            rows += 1;
            Ok(())
        })?;
        let mut tables = toy.tables();
        match self.op {
            Write::Add => *tables.entry(self.target.clone()).or_default() += rows,
            Write::Replace => *tables.entry(self.target.clone()).or_default() = rows,
            Write::Delete => {
                tables.remove(&self.target);
            }
        }
        Ok(Info(json!({"target": self.target, "rows": rows})))
    }
}
