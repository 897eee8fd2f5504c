//! `acp query`

use std::time::Duration;

use acp_host::datasets;
use acp_protocol::visible;
use clap::Args;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::folders::Folders;
use crate::query::{self, Answer, Limits};
use crate::report::{Failure, Report};

/// Widest column on the terminal, in characters.
const WIDTH: usize = 60;

/// Arguments.
#[derive(Args)]
pub(super) struct Arguments {
    /// One SELECT of SQLite with ids of datasets as table names
    sql: String,
    /// Id for the result, which replaces a former result of that id
    #[arg(long, value_name = "ID")]
    save_as: Option<String>,
    /// Seconds that the query may take
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().time.as_secs())]
    timeout: u64,
    /// MiB of memory that the query may take
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().memory >> 20, value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    memory: u64,
}

pub(super) async fn run(folders: &Folders, arguments: Arguments) -> Result<Report, Failure> {
    let folder = folders.project()?.join(datasets::FOLDER);
    let limits =
        Limits { time: Duration::from_secs(arguments.timeout), memory: arguments.memory << 20, ..Limits::default() };
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let mut running = tokio::task::spawn_blocking(move || {
        query::query(&folder, &arguments.sql, arguments.save_as.as_deref(), &limits, &stop)
    });
    let outcome = tokio::select! {
        outcome = &mut running => outcome,
        Ok(()) = tokio::signal::ctrl_c() => {
            cancel.cancel();
            let _ = running.await;
            return Err(Failure::interrupted());
        }
    };
    let Answer { response, stored } =
        outcome.map_err(std::io::Error::other)?.map_err(|error| Failure::of_tool(&error.payload(), ""))?;
    let rows: Vec<Map<String, Value>> =
        response.rows.iter().filter_map(|row| serde_json::from_str(row.get()).ok()).collect();
    let mut text = table(&response.columns, &rows);
    text.push_str(&format!("\n{}", response.notice));
    for warning in response.warnings.iter().flatten() {
        text.push_str(&format!("\n{warning}"));
    }
    let dataset = stored.as_ref().map(|meta| meta.id.clone());
    if let Some(id) = &dataset {
        text.push_str(&format!("\nSaved as dataset {id} in {}/{id}.csv.", datasets::FOLDER));
    }
    let mut value = json!(response);
    value["dataset"] = dataset.into();
    Ok(Report::new(text, value))
}

/// Rows in columns, without characters that a terminal would obey.
fn table(columns: &[String], rows: &[Map<String, Value>]) -> String {
    let cell = |value: &Value| {
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let plain = |c: char| match c {
            '\n' | '\r' | '\t' => ' ',
            // `visible` is for JSON, where these are escaped.
            c if c.is_control() => '\u{fffd}',
            c => c,
        };
        let text: String = text.chars().map(plain).collect();
        visible(&text).chars().take(WIDTH).collect::<String>()
    };
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|name| cell(&Value::from(name.as_str()))).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|name| cell(&row[name])).collect()));
    let widths: Vec<usize> = (0..columns.len())
        .map(|place| lines.iter().map(|line| line[place].chars().count()).max().unwrap_or_default())
        .collect();
    let line = |cells: &Vec<String>| {
        let cells: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}
