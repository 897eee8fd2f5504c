//! `cargo xtask bench`: speed and memory of large extractions, as ratios against small programs in the same run.
//!
//! For a GA4 report, one program does what people write: it downloads each page and parses it into `serde_json::Value`. The other is the
//! floor: it downloads the same pages and copies their cells, borrowed from the page, to a file. For a query in BigQuery the same
//! two, and Google's own client for Python. For Search Console, days are asked for one after another. For the bridge, the tool `sqlite3`
//! groups the same rows. Numbers depend on the machine, so nothing here is a test.

mod ahead;
mod bridge;
mod client;
mod process;
mod query;
mod search;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use acp_host::client::{ClientOptions, ToolCall};
use acp_host::launch::{Environment, Launch, Server};
use acp_protocol::JsonObject;
use acp_protocol::session::{CallMeta, ConfigureParams};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::Result;
use crate::demo::thousands;
use crate::workspace;
use process::Usage;

pub(crate) use client::{Program, http};

/// Rows of a day of the sandbox's large property.
const ROWS_PER_DAY: u64 = 25_000;
/// Rows of the report that is compared.
const ROWS: u64 = 1_000_000;
/// Reports whose memory is measured. All pages ahead are at work in the last two only.
const SIZES: [u64; 5] = [10_000, 100_000, 1_000_000, 2_000_000, 3_000_000];
/// How often each of them is read.
const RUNS: usize = 3;
/// The file of the connector's last table.
const TABLE: &str = "table.json";
/// More than any query of the bench costs.
const COST_LIMIT_USD: f64 = 1.0;
/// How often a start is measured.
const STARTS: usize = 20;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these.
    parts: Vec<Part>,
    /// Rows of the report of Analytics that is compared.
    #[arg(long, default_value_t = ROWS)]
    rows: u64,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Reports of Analytics.
    Ga4,
    /// Searches of Search Console.
    Gsc,
    /// Queries of BigQuery.
    Bigquery,
    /// Large reports through the bridge.
    Bridge,
}

/// What is measured of one extraction.
struct Measured {
    wall: Duration,
    usage: Usage,
}

/// A line about a bound, and whether it is kept.
type Verdict = (String, bool);

/// Runs the task.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    process::supported()?;
    let release = build()?;
    let parts = if arguments.parts.is_empty() { Part::value_variants() } else { &arguments.parts };
    let verdicts = tokio::runtime::Runtime::new()?.block_on(async {
        let mut verdicts = Vec::new();
        for part in parts {
            verdicts.extend(match part {
                Part::Ga4 => measure(&release, arguments.rows).await?,
                Part::Gsc => search::measure(&release).await?,
                Part::Bigquery => query::measure(&release).await?,
                Part::Bridge => bridge::measure(&release).await?,
            });
        }
        Result::Ok(verdicts)
    })?;
    println!();
    verdicts.iter().for_each(|(line, _)| println!("{line}"));
    match verdicts.iter().all(|(_, kept)| *kept) {
        true => Ok(()),
        false => Err("a bound is not kept".into()),
    }
}

/// Runs one of the small programs: a hidden task, started by this one in its release build.
pub(crate) fn run_client(program: &Program) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(client::run(program))
}

/// Everything that is compared is built alike.
fn build() -> Result<PathBuf> {
    let status = workspace::cargo()
        .args(["build", "--release", "--quiet"])
        .args(["ga4", "gsc", "bigquery", "acp", "xtask", "google-sandbox"].iter().flat_map(|package| ["-p", package]))
        .status()?;
    if !status.success() {
        return Err("the release build failed".into());
    }
    Ok(workspace::metadata()?.target_directory.join("release"))
}

async fn measure(release: &Path, rows: u64) -> Result<Vec<Verdict>> {
    let folder = tempfile::tempdir()?;
    let sandbox = process::Sandbox::start(release, folder.path(), Duration::ZERO)?;
    let bulk = sandbox.facts().await?["analytics"]["bulk"].clone();
    println!("GA4 report of {} rows, pages of 250,000, plain HTTP on this machine", thousands(rows));

    let ours = extraction(release, &sandbox, &bulk, rows, folder.path()).await?;
    let value = report_program(release, "value", &sandbox, &bulk, rows, folder.path()).await?;
    let floor = report_program(release, "floor", &sandbox, &bulk, rows, folder.path()).await?;
    println!();
    print(&[
        ("connector, typed file", &ours),
        ("download and parse into Value", &value),
        ("download and copy cells (floor)", &floor),
    ]);
    let mut verdicts = vec![verdict("ga4: processor time against Value", ours.cpu() / value.cpu(), "at most", 0.5)];
    println!("\n{}\n", ratios(&ours, &[("Value", &value), ("the floor", &floor)]));

    println!("peak memory of the connector");
    let mut peaks = Vec::new();
    for size in SIZES {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(extraction(release, &sandbox, &bulk, size, folder.path()).await?);
        }
        // What happens to wait in buffers at once differs from run to run.
        runs.sort_unstable_by_key(|run| run.usage.peak);
        let middle = &runs[RUNS / 2];
        println!(
            "{:>12} rows {:>9.1} MiB {:>9.2} s",
            thousands(size),
            mib(middle.usage.peak),
            middle.wall.as_secs_f64()
        );
        peaks.push(mib(middle.usage.peak));
    }
    verdicts.push(verdict("ga4: peak memory at 3,000,000 rows, MiB", peaks[4], "under", 96.0));
    verdicts.push(verdict(
        "ga4: peak memory at 3,000,000 rows against 2,000,000",
        peaks[4] / peaks[3],
        "at most",
        1.15,
    ));
    verdicts.push(ahead::measure(release).await?);
    verdicts.extend(start(release, &sandbox, "ga4").await?);
    Ok(verdicts)
}

impl Measured {
    fn cpu(&self) -> f64 {
        self.usage.cpu.as_secs_f64()
    }
}

/// A table of what programs took.
fn print(programs: &[(&str, &Measured)]) {
    println!("{:<34} {:>9} {:>9} {:>11}", "", "CPU s", "wall s", "peak MiB");
    for (name, measured) in programs {
        let wall = measured.wall.as_secs_f64();
        println!("{name:<34} {:>9.2} {wall:>9.2} {:>11.1}", measured.cpu(), mib(measured.usage.peak));
    }
}

/// One program against others.
fn ratios(ours: &Measured, others: &[(&str, &Measured)]) -> String {
    let against = |of: fn(&Measured) -> f64| {
        let of = others.iter().map(|(name, other)| format!("{:.2} of {name}", of(ours) / of(other)));
        of.collect::<Vec<_>>().join(", ")
    };
    format!("processor time: {}; wall time: {}", against(Measured::cpu), against(|one| one.wall.as_secs_f64()))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

fn verdict(name: &str, measured: f64, relation: &str, bound: f64) -> Verdict {
    let kept = if relation == "at least" { measured >= bound } else { measured <= bound };
    (format!("{} {name}: {measured:.2} ({relation} {bound})", if kept { "ok  " } else { "OVER" }), kept)
}

/// The arguments of a report of the large property, over so many days.
fn report(bulk: &Value, days: u64) -> JsonObject {
    let names =
        |fields: &Value| fields.as_array().into_iter().flatten().map(|field| field["name"].clone()).collect::<Value>();
    let arguments = json!({
        "resource_id": bulk["property"],
        "dimensions": names(&bulk["request"]["dimensions"]), "metrics": names(&bulk["request"]["metrics"]),
        "start_date": format!("{days}daysAgo"), "end_date": "yesterday",
    });
    arguments.as_object().cloned().unwrap_or_default()
}

/// One report by a fresh connector.
async fn extraction(
    release: &Path,
    sandbox: &process::Sandbox,
    bulk: &Value,
    rows: u64,
    folder: &Path,
) -> Result<Measured> {
    let mut arguments = report(bulk, rows.div_ceil(ROWS_PER_DAY));
    if !rows.is_multiple_of(ROWS_PER_DAY) {
        arguments.insert("limit".to_owned(), json!(rows));
    }
    let (measured, came) = call(release, sandbox, ("ga4", "run_report"), Value::Object(arguments), folder).await?;
    all_of(rows, came?).map(|()| measured)
}

/// That as many rows came as there are.
fn all_of(rows: u64, came: u64) -> Result<()> {
    if came == rows { Ok(()) } else { Err(format!("{came} rows came, {rows} were asked for").into()) }
}

/// One call of a fresh connector, as a host makes it: what it took, and how many rows came, or the text of its error. The
/// table is in the folder afterwards.
async fn call(
    release: &Path,
    sandbox: &process::Sandbox,
    (program, tool): (&str, &str),
    arguments: Value,
    folder: &Path,
) -> Result<(Measured, std::result::Result<u64, String>)> {
    let server = connector(release, sandbox, program, folder)?;
    server.client().initialize().await?;
    let credentials = serde_json::from_slice(&std::fs::read(&sandbox.credentials)?)?;
    let meta = CallMeta {
        session: ConfigureParams {
            credentials: Some(Some(credentials)),
            cost_limit_usd: Some(COST_LIMIT_USD),
            ..ConfigureParams::default()
        },
        ..CallMeta::default()
    };
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let begun = Instant::now();
    let answer = server.client().call(ToolCall::new(tool, arguments).meta(meta)).await?;
    let wall = begun.elapsed();
    let usage = Usage::of(server.id().ok_or("the connector ended")?)?;
    server.close().await?;
    let rows = match &answer.meta.system_data {
        None => Err(answer.model_text),
        Some(data) => {
            if let Some(uri) = &data.table_uri {
                // In place of the one before, so that they don't fill the disk.
                std::fs::rename(acp_host::table::file_path(uri)?, folder.join(TABLE))?;
            }
            Ok(data.row_count)
        }
    };
    Ok((Measured { wall, usage }, rows))
}

fn connector(release: &Path, sandbox: &process::Sandbox, program: &str, folder: &Path) -> Result<Server> {
    let launch = Launch::program(release, release.join(program).display().to_string()).environment(Environment::Empty);
    Ok(launch.tmp_dir(folder).variable("ACP_GOOGLE_SANDBOX", &sandbox.url).spawn(ClientOptions::default())?)
}

/// The small program for a report.
async fn report_program(
    release: &Path,
    name: &str,
    sandbox: &process::Sandbox,
    bulk: &Value,
    rows: u64,
    folder: &Path,
) -> Result<Measured> {
    let mut request = bulk["request"].clone();
    let start = format!("{}daysAgo", rows.div_ceil(ROWS_PER_DAY));
    request["dateRanges"] = json!([{"startDate": start, "endDate": "yesterday"}]);
    let mut order = vec![json!({"metric": {"metricName": request["metrics"][0]["name"]}, "desc": true})];
    let dimensions = request["dimensions"].as_array().into_iter().flatten();
    order.extend(dimensions.map(|field| json!({"dimension": {"dimensionName": field["name"]}})));
    request["orderBys"] = order.into();
    let property = bulk["property"].as_str().unwrap_or_default();
    small_program(release, name, sandbox, (property, &request, rows), &folder.join("cells.txt")).await
}

/// One of the small programs: what it asks of which resource, how many rows that are, and where it writes them.
async fn small_program(
    release: &Path,
    name: &str,
    sandbox: &process::Sandbox,
    (resource, request, rows): (&str, &Value, u64),
    out: &Path,
) -> Result<Measured> {
    let mut program = tokio::process::Command::new(release.join("xtask"));
    program.args(["bench-client", name, "--url", &sandbox.url, "--rows", &rows.to_string(), "--resource", resource]);
    program.arg("--request").arg(request.to_string()).arg("--credentials").arg(&sandbox.oauth).arg("--out").arg(out);
    measured(&mut program).await.map_err(workspace::about(name))
}

/// Runs a program that prints what it used.
async fn measured(program: &mut tokio::process::Command) -> Result<Measured> {
    let begun = Instant::now();
    let output = program.output().await?;
    let wall = begun.elapsed();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(Measured { wall, usage: serde_json::from_slice(&output.stdout)? })
}

/// From the start of the process to the answer of `initialize`, memory while nothing happens, size of the tool list.
async fn start(release: &Path, sandbox: &process::Sandbox, program: &str) -> Result<Vec<Verdict>> {
    let folder = tempfile::tempdir()?;
    let mut times = Vec::new();
    let mut idle = 0;
    let mut bytes = (0, 0);
    for _ in 0..STARTS {
        let begun = Instant::now();
        let server = connector(release, sandbox, program, folder.path())?;
        server.client().initialize().await?;
        times.push(begun.elapsed());
        let list = server.client().request_raw("tools/list", &json!({})).await?;
        let tools: Value = serde_json::from_str(list.get())?;
        bytes = (list.get().len(), tools["tools"].as_array().map_or(1, Vec::len));
        idle = Usage::of(server.id().ok_or("the connector ended")?)?.resident;
        server.close().await?;
    }
    times.sort();
    let median = times[times.len() / 2].as_secs_f64() * 1000.0;
    Ok(vec![
        verdict(&format!("{program}: start to the initialize answer, ms (median)"), median, "under", 20.0),
        verdict(&format!("{program}: memory while idle, MiB"), mib(idle), "under", 16.0),
        verdict(
            &format!("{program}: tools/list of {} tools, kB a tool", bytes.1),
            bytes.0 as f64 / 1000.0 / bytes.1 as f64,
            "at most",
            1.5,
        ),
    ])
}
