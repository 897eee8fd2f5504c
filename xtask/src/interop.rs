//! `cargo xtask interop`: what others wrote for MCP, run against our servers. The official conformance suite judges the
//! transports; the Inspector and hosts on the client libraries drive `acp-toy`; Google's clients and its descriptions of its
//! APIs judge the connectors and the sandbox they are tested with. Clients start the bridge from what `acp config` prints.
//!
//! A newcomer counts too: the guide for authors of connectors is followed from an empty folder. And what the sandbox computes is
//! held against Google's own SQL engine.
//!
//! What it needs it installs below `target/interop`, in the versions of `xtask/interop/versions.json`. The programs that use
//! the client libraries are in `xtask/interop`.

mod bridge;
mod conformance;
mod google;
mod guide;
mod hosts;
mod inspector;
mod sql;
mod tools;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tokio::process::Command;

use crate::Result;
use crate::served::Served;
use crate::workspace::{self, about};
use tools::Tools;

pub(crate) use tools::{pinned, source};

/// How long a program may take, which may have to build; a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(600);
/// Lines of the output of a program that failed that are shown.
const SHOWN: usize = 40;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these parts.
    parts: Vec<Part>,
}

/// A part of the task.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The official conformance suite of MCP.
    Conformance,
    /// The command line of MCP Inspector.
    Inspector,
    /// Hosts on the client libraries for TypeScript and Python.
    Hosts,
    /// Google's clients for Python beside the connectors, and its descriptions of its APIs.
    Google,
    /// The bridge: its sessions with clients, and its bundle.
    Bridge,
    /// A connector made from an empty folder, as CONTRIBUTING.md says.
    Guide,
    /// The sandbox's SQL against Google's own engine.
    Sql,
}

/// Runs the task.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let parts: &[Part] = if arguments.parts.is_empty() { Part::value_variants() } else { &arguments.parts };
    // The SQL part runs no program of ours.
    if parts.iter().any(|part| *part != Part::Sql) {
        // As `cargo xtask test` does it, so that nothing is built twice.
        let build = ["build", "--workspace", "--exclude", "xtask", "--bins", "--quiet"];
        println!("== programs: cargo {}", build.join(" "));
        if !workspace::cargo().args(build).status()?.success() {
            return Err("the servers to test don't build".into());
        }
    }
    tokio::runtime::Runtime::new()?.block_on(async {
        let tools = Tools::ready().await?;
        for part in parts {
            match part {
                Part::Conformance => conformance::run(&tools).await?,
                Part::Inspector => inspector::run(&tools).await?,
                Part::Hosts => hosts::run(&tools).await?,
                Part::Google => google::run(&tools).await?,
                Part::Bridge => bridge::run(&tools).await?,
                Part::Guide => guide::run().await?,
                Part::Sql => sql::run(&tools).await?,
            }
        }
        println!("\nRan:");
        for tool in tools.used() {
            println!("  {} ({} {})", tool.name, tool.package, tool.version);
        }
        Ok(())
    })
}

/// The interpreter that has Google's client for BigQuery, if this task has installed it.
pub(crate) fn google_clients_python() -> Result<Option<PathBuf>> {
    let folder = Tools::pinned()?.installed("google-cloud-bigquery")?;
    Ok(folder.map(|folder| tools::python(&folder)))
}

/// One thing that is proved. `work` returns what it has shown.
async fn step(name: &str, work: impl Future<Output = Result<String>>) -> Result<()> {
    println!("== {name}");
    let started = Instant::now();
    let shown = work.await.map_err(about(name))?;
    println!("   {shown} ({:.1} s)", started.elapsed().as_secs_f64());
    Ok(())
}

/// A program of the workspace.
fn program(name: &str) -> Result<PathBuf> {
    let metadata = workspace::metadata()?;
    Ok(metadata.target_directory.join("debug").join(name).with_extension(std::env::consts::EXE_EXTENSION))
}

/// `acp-toy` over HTTP, with a folder for its files that clients may read.
async fn toy_over_http(scratch: &Path) -> Result<Served> {
    let mut toy = Command::new(program("acp-toy")?);
    toy.args(["--http", "--port", "0"]).env("ACP_TMP_DIR", scratch);
    Served::start(&mut toy).await
}

/// Runs a program each of whose lines tells what it has checked.
async fn checked(program: &mut Command, scratch: &Path) -> Result<String> {
    let printed = succeed(program.env("ACP_TMP_DIR", scratch)).await?;
    let lines: Vec<&str> = printed.lines().collect();
    match lines.as_slice() {
        [] => Err("it checked nothing".into()),
        lines => Ok(lines.join("\n   ")),
    }
}

/// Runs a program to its end. Whatever its exit code is, it is for the caller to judge.
async fn output(command: &mut Command) -> Result<Output> {
    let running = command.stdin(std::process::Stdio::null()).kill_on_drop(true).output();
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    match tokio::time::timeout(PATIENCE, running).await {
        Ok(output) => output.map_err(about(program)),
        Err(_) => Err(format!("{program} did not end in {} s", PATIENCE.as_secs()).into()),
    }
}

/// Runs a program that must succeed, and returns what it printed.
async fn succeed(command: &mut Command) -> Result<String> {
    let output = output(command).await?;
    if output.status.success() { Ok(stdout(&output)) } else { Err(failed(&output).into()) }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// How a program failed, with the end of what it printed.
fn failed(output: &Output) -> String {
    let printed = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    let lines: Vec<&str> = printed.lines().collect();
    let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n  ");
    format!("{}\n  {end}", output.status)
}
