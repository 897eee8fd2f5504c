//! `rows`: numbered rows of an account.

use acp_core::{Call, Cell, DateWindow, Extraction, Hints, Result, Tool, ToolSpec};
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::about::ACCOUNT_URL;
use crate::source::Toy;

/// Rows counted from 0, with a name each.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Rows {
    /// How many rows there are.
    #[schemars(range(min = 0, max = 200_000))]
    n: u64,
    /// First day: YYYY-MM-DD, NdaysAgo, yesterday or today.
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    /// Last day: YYYY-MM-DD, NdaysAgo, yesterday or today.
    #[schemars(extend("x-acp-date" = "end"))]
    end_date: Option<String>,
    /// The most rows to extract.
    #[schemars(range(min = 0, max = 200_000))]
    limit: Option<u64>,
    /// Link of an account, in place of resource_id.
    #[schemars(extend("x-acp-url" = ACCOUNT_URL))]
    link: Option<String>,
}

impl Tool for Rows {
    type Source = Toy;
    type Answer = Extraction;
    const SPEC: ToolSpec =
        ToolSpec { name: "rows", title: "Rows", resource: true, credentials: true, hints: Hints::READS_LOCAL };

    async fn run(mut self, toy: &Toy, call: &Call) -> Result<Extraction> {
        let (account, of_holder) = (toy.reach(call)?, Toy::of_holder(call));
        let window = DateWindow::resolve(
            self.start_date.as_deref(),
            self.end_date.as_deref(),
            ("28daysAgo", "yesterday"),
            call.today(),
        )?;
        self.start_date = Some(window.start.to_string());
        self.end_date = Some(window.end.to_string());
        call.set_arguments(&self);

        let rows = self.n.min(self.limit.unwrap_or(self.n));
        if rows < self.n {
            call.warn(format!("The source has {} rows; limit cut the extraction to {rows}.", self.n));
        }
        let mut table = call.table(headers())?;
        for row in 0..rows {
            table.push(&[Cell::Integer(row as i64), Cell::Text(&format!("r{row}{of_holder}"))])?;
        }
        let sum = (rows * rows.saturating_sub(1) / 2) as i64;
        table.set_totals([("i", Cell::Integer(sum))])?;
        Ok(Extraction::new(table, format!("Toy account {account}{of_holder}: rows counted from 0."))
            .dates([window.start, window.end])
            .title(format!("Toy {account}")))
    }
}

fn headers() -> Vec<Header> {
    let header = |name: &str, column_type, role| Header {
        name: name.to_owned(),
        column_type,
        role: Some(role),
        description: None,
    };
    vec![
        header("i", ColumnType::Integer, ColumnRole::Metric),
        header("name", ColumnType::String, ColumnRole::Dimension),
    ]
}
