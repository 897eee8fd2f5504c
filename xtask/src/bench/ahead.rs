//! How long a large report takes when Google thinks for seconds before each page: all of it, against its pages one after another.

use std::path::Path;
use std::time::{Duration, Instant};

use acp_host::client::ToolCall;
use acp_host::launch::Server;
use acp_protocol::session::{CallMeta, ConfigureParams};
use serde_json::{Value, json};

use super::{ROWS_PER_DAY, Verdict, connector, process, verdict};
use crate::Result;

/// What each request waits for.
const LATENCY: Duration = Duration::from_secs(3);
/// Pages of the report, and days that fill one.
const PAGES: u64 = 4;
const PAGE_DAYS: u64 = 250_000 / ROWS_PER_DAY;

/// Measures both with one connector, which has its token and the property's fields already.
pub(super) async fn measure(release: &Path) -> Result<Verdict> {
    let folder = tempfile::tempdir()?;
    let sandbox = process::Sandbox::start(release, folder.path(), LATENCY)?;
    let bulk = sandbox.facts().await?["analytics"]["bulk"].clone();
    let server = connector(release, &sandbox, "ga4", folder.path())?;
    server.client().initialize().await?;
    report(&server, &sandbox, &bulk, 1, 1).await?;
    let whole = report(&server, &sandbox, &bulk, PAGES * PAGE_DAYS, 1).await?;
    let mut pages = Duration::ZERO;
    for page in 0..PAGES {
        pages += report(&server, &sandbox, &bulk, (page + 1) * PAGE_DAYS, page * PAGE_DAYS + 1).await?;
    }
    server.close().await?;
    let (whole, pages) = (whole.as_secs_f64(), pages.as_secs_f64());
    println!("\n{PAGES} pages with {LATENCY:?} of latency each: {whole:.1} s together, {pages:.1} s one after another");
    Ok(verdict("ga4: time of pages fetched ahead against one after another", whole / pages, "at most", 0.7))
}

/// The time that the report of some days takes, from the first day ago to the last.
async fn report(server: &Server, sandbox: &process::Sandbox, bulk: &Value, first: u64, last: u64) -> Result<Duration> {
    let names =
        |fields: &Value| fields.as_array().into_iter().flatten().map(|field| field["name"].clone()).collect::<Value>();
    let arguments = json!({
        "resource_id": bulk["property"],
        "dimensions": names(&bulk["request"]["dimensions"]), "metrics": names(&bulk["request"]["metrics"]),
        "start_date": format!("{first}daysAgo"), "end_date": format!("{last}daysAgo"),
    });
    let credentials = serde_json::from_slice(&std::fs::read(&sandbox.credentials)?)?;
    let meta = CallMeta {
        session: ConfigureParams { credentials: Some(Some(credentials)), ..ConfigureParams::default() },
        ..CallMeta::default()
    };
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let begun = Instant::now();
    let answer = server.client().call(ToolCall::new("run_report", arguments).meta(meta)).await?;
    let took = begun.elapsed();
    let data = answer.meta.system_data.as_ref().ok_or_else(|| answer.model_text.clone())?;
    let rows = (first - last + 1) * ROWS_PER_DAY;
    if data.row_count != rows {
        return Err(format!("{} rows came, {rows} were asked for", data.row_count).into());
    }
    if let Some(uri) = &data.table_uri {
        std::fs::remove_file(acp_host::table::file_path(uri)?)?;
    }
    Ok(took)
}
