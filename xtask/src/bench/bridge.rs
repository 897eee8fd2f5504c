//! The bridge: a large report that arrives as a dataset, and a question about all of it, against the tool `sqlite3`.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use acp_host::client::{ClientOptions, ToolCall};
use acp_host::launch::{Environment, Launch};
use serde_json::{Value, json};
use tokio::process::Command;

use super::process::{Sandbox, Usage};
use super::{ROWS, ROWS_PER_DAY, Verdict, all_of, mib, report, verdict};
use crate::Result;
use crate::demo::thousands;
use crate::workspace::about;

const SQLITE: &str = "sqlite3";

/// Measures the bridge.
pub(super) async fn measure(release: &Path) -> Result<Vec<Verdict>> {
    let folder = tempfile::tempdir()?;
    let sandbox = Sandbox::start(release, folder.path(), Duration::ZERO)?;
    let bulk = sandbox.facts().await?["analytics"]["bulk"].clone();
    println!("\nbridge: a report of {} rows becomes a dataset, and a query groups it", thousands(ROWS));
    let root = folder.path().join("root");
    set_up(release, &root, &sandbox)?;

    let names = |kind: &str| bulk["request"][kind].as_array().into_iter().flatten().map(|field| field["name"].clone());
    let mut launch = Launch::program(release, release.join("acp").display().to_string())
        .environment(Environment::Essential)
        .variable("ACP_GOOGLE_SANDBOX", &sandbox.url);
    launch = launch.arguments(["bridge", "--root"]).arguments([root.display().to_string()]);
    launch = launch.arguments(["--project"]).arguments([folder.path().display().to_string()]);
    let bridge = launch.spawn(ClientOptions::default().capability(None))?;
    bridge.client().initialize().await?;
    let arguments = report(&bulk, ROWS.div_ceil(ROWS_PER_DAY));
    let answer = bridge.client().call(ToolCall::new("shop__run_report", arguments)).await?;
    let usage = Usage::of(bridge.id().ok_or("the bridge ended")?)?;
    bridge.close().await?;
    let model: Value = serde_json::from_str(&answer.model_text).map_err(about(&answer.model_text))?;
    all_of(ROWS, model["total_rows"].as_u64().unwrap_or_default())?;

    let data = folder.path().join("acp-data");
    let csv = csv_in(&data)?;
    let (Some(dimension), Some(metric)) = (names("dimensions").next(), names("metrics").next()) else {
        return Err("the report of the sandbox has no fields".into());
    };
    let (dimension, metric) = (dimension.as_str().unwrap_or_default(), metric.as_str().unwrap_or_default());
    let id = csv.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let sql = |table: &str| {
        format!("SELECT count(*) AS n FROM (SELECT \"{dimension}\", sum(\"{metric}\") FROM {table} GROUP BY 1)")
    };
    let mut ours = Command::new(release.join("acp"));
    ours.args(["--json", "--root"]).arg(&root).arg("--project").arg(folder.path()).arg("query").arg(sql(&id));
    let ours = timed(&mut ours).await.map_err(about("acp query"))?;
    let mut verdicts =
        vec![verdict("bridge: peak memory for a report of 1,000,000 rows, MiB", mib(usage.peak), "under", 128.0)];
    println!("peak memory of the bridge {:.1} MiB; a query {:.2} s", mib(usage.peak), ours.as_secs_f64());
    match theirs(&csv, &sql("t")).await {
        Ok(theirs) => {
            println!("{SQLITE}, import and query {:.2} s", theirs.as_secs_f64());
            let times = ours.as_secs_f64() / theirs.as_secs_f64();
            verdicts.push(verdict("bridge: time of a query against sqlite3", times, "at most", 3.0));
        }
        Err(error) => println!("not compared with the tool {SQLITE}: {error}"),
    }
    Ok(verdicts)
}

/// A folder as the bridge looks for it: the connector, and a source with the sandbox's key.
fn set_up(release: &Path, root: &Path, sandbox: &Sandbox) -> Result<()> {
    let connector = root.join("acps").join("ga4");
    std::fs::create_dir_all(&connector)?;
    let program = release.join("ga4").display().to_string();
    let manifest = json!({
        "acp_version": "1.0", "id": "ga4", "name": "Google Analytics 4", "version": "0.1.0", "description": "As it was built.",
        "transport": {"type": "stdio", "command": program, "env": {"ACP_GOOGLE_SANDBOX": sandbox.url}},
    });
    std::fs::write(connector.join("acp.json"), manifest.to_string())?;
    let credentials: Value = serde_json::from_slice(&std::fs::read(&sandbox.credentials)?)?;
    let sources = json!({"sources": [{"id": "shop", "acp": "ga4", "credentials": credentials}]});
    Ok(std::fs::write(root.join("sources.json"), sources.to_string())?)
}

/// The dataset that was stored.
fn csv_in(data: &Path) -> Result<std::path::PathBuf> {
    let files = data.read_dir()?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let csv = files.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "csv"));
    csv.ok_or_else(|| "nothing was stored".into())
}

/// The same by the tool, whose import makes every column a text.
async fn theirs(csv: &Path, sql: &str) -> Result<Duration> {
    let script = csv.with_extension("sql");
    std::fs::write(&script, format!(".mode csv\n.import \"{}\" t\n{sql};\n", csv.display()))?;
    timed(Command::new(SQLITE).stdin(File::open(&script)?)).await
}

/// How long a program takes, once it has ended well.
async fn timed(program: &mut Command) -> Result<Duration> {
    let begun = Instant::now();
    let output = program.output().await?;
    let took = begun.elapsed();
    if output.status.success() { Ok(took) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
}
