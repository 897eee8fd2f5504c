//! `acp reload`

use acp_host::reload::Reload;
use acp_protocol::dates;
use clap::Args;
use jiff::ZonedDateTime;
use serde_json::json;

use crate::folders::Folders;
use crate::progress;
use crate::report::{Failure, Report};

use super::call::QUERY_HINT;

/// Arguments.
#[derive(Args)]
pub(super) struct Arguments {
    /// The dataset
    dataset: String,
    /// Only the rows of these days, such as 2026-09-01..2026-09-30, 3daysAgo..yesterday or a single day
    #[arg(long, value_name = "FIRST..LAST", conflicts_with = "all", required_unless_present = "all")]
    days: Option<String>,
    /// All rows
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(folders: &Folders, arguments: Arguments) -> Result<Report, Failure> {
    let reload = match &arguments.days {
        None => Reload::All,
        Some(days) => {
            let (first, last) = days.split_once("..").unwrap_or((days, days));
            let today = ZonedDateTime::now().date();
            let day = |text| dates::resolve(text, today).map_err(|problem| Failure::usage(format!("--days {problem}")));
            Reload::Days { start: day(first)?, end: day(last)? }
        }
    };
    let host = folders.host("acp", QUERY_HINT)?;
    let reloaded =
        progress::watched(&host, async |receiver| host.reload(&arguments.dataset, reload, receiver).await).await?;
    let lines: Vec<String> = reloaded
        .iter()
        .map(|dataset| match &dataset.other {
            None => format!("{} has {} rows now.", dataset.id, dataset.row_count),
            Some(other) => {
                format!("{} is as it was: the columns are others now, so the rows are in {other}.", dataset.id)
            }
        })
        .collect();
    let values: Vec<_> = reloaded
        .iter()
        .map(|dataset| json!({"id": dataset.id, "rows": dataset.row_count, "other": dataset.other}))
        .collect();
    Ok(Report::new(lines.join("\n"), json!({"datasets": values})))
}
