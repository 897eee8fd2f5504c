//! `acp call`

use acp_host::store::Stored;
use acp_protocol::JsonObject;
use clap::Args;
use serde_json::json;

use crate::folders::Folders;
use crate::progress;
use crate::report::{self, Failure, Report};

/// How all rows are asked for.
pub(super) const QUERY_HINT: &str = "Query it with: acp query \"SELECT …\".";

/// Arguments.
#[derive(Args)]
pub(super) struct Arguments {
    /// The source
    source: String,
    /// The tool [default: the connector's first extraction tool]
    tool: Option<String>,
    /// Its arguments, a JSON object
    #[arg(default_value = "{}")]
    arguments: String,
}

pub(super) async fn run(folders: &Folders, arguments: Arguments) -> Result<Report, Failure> {
    let values: JsonObject = serde_json::from_str(&arguments.arguments)
        .map_err(|error| Failure::usage(format!("the arguments must be a JSON object such as '{{}}': {error}")))?;
    let host = folders.host("acp", QUERY_HINT)?;
    let outcome = progress::watched(&host, async |receiver| {
        let tool = match &arguments.tool {
            Some(tool) => tool.clone(),
            None => host.default_tool(&arguments.source).await?,
        };
        host.call(&arguments.source, &tool, values, receiver).await
    })
    .await?;
    let mut text = outcome.model_text.clone();
    if !outcome.blocks.is_empty() {
        text.push_str(&format!("\n\n(With {} more of content, which --json prints.)", outcome.blocks.len()));
    }
    for note in &outcome.notes {
        text.push_str(&format!("\n\n{note}"));
    }
    let datasets: Vec<_> = outcome
        .stored
        .iter()
        .map(|stored| match stored {
            Stored::Dataset { table, csv, meta } => {
                json!({"id": meta.id, "file": csv, "rows": meta.row_count, "table": table})
            }
            Stored::Empty { table } => json!({"id": null, "rows": 0, "table": table}),
        })
        .collect();
    let report = Report::new(
        text,
        json!({
            // The server's text as it is where it is no JSON.
            "answer": serde_json::from_str(&outcome.model_text).unwrap_or_else(|_| json!(outcome.model_text)),
            "is_error": outcome.is_error,
            "notes": outcome.notes,
            "datasets": datasets,
            "content": outcome.blocks,
            "info": outcome.info,
        }),
    );
    Ok(match &outcome.error {
        Some(error) => report.failing(report::code_of(error)),
        None if outcome.is_error => report.failing(report::SOURCE),
        None => report,
    })
}
