//! One file per command.

mod bridge;
mod call;
mod config;
mod datasets;
mod doctor;
mod install;
mod list;
mod query;
mod reload;
mod skills;
mod source;
mod uninstall;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::folders::Folders;
use crate::report;

/// How long the end waits for what can't be dropped at once.
const SHUTDOWN: Duration = Duration::from_millis(500);

/// Connectors that speak ACP, on the command line: install them, set up sources, extract tables and ask for them with SQL.
#[derive(Parser)]
#[command(name = "acp", version)]
struct Cli {
    #[command(flatten)]
    folders: Folders,
    /// Print the result as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install a connector from its zip, once its server has proved to work
    Install(install::Arguments),
    /// Remove an installed connector
    Uninstall(uninstall::Arguments),
    /// List the installed connectors and their sources
    List,
    /// Set up sources: which account a connector works with
    #[command(subcommand)]
    Source(Box<source::Command>),
    /// Call a tool of a source; what it extracts is stored in acp-data
    Call(call::Arguments),
    /// List what is stored in acp-data
    Datasets(datasets::Arguments),
    /// Ask for rows of datasets with one SELECT of SQLite
    Query(query::Arguments),
    /// Ask again for what a dataset holds, all of it or some days
    Reload(reload::Arguments),
    /// List the skills of the installed connectors, or print one
    Skills(skills::Arguments),
    /// Serve the sources to an MCP client, over standard input and output
    Bridge,
    /// Print what to put into the settings of an MCP client, so that it starts the bridge
    Config(config::Arguments),
    /// Look for what is wrong: folders, connectors, sources, secrets
    Doctor,
}

/// Reads the command line and does what it says.
pub(crate) fn run() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return report::finish(Err(error.into()), cli.json),
    };
    let code = runtime.block_on(async {
        let Cli { folders, json, command } = cli;
        let outcome = match command {
            Command::Install(arguments) => install::run(&folders, arguments).await,
            Command::Uninstall(arguments) => uninstall::run(&folders, &arguments),
            Command::List => list::run(&folders),
            Command::Source(command) => source::run(&folders, *command, json).await,
            Command::Call(arguments) => call::run(&folders, arguments).await,
            Command::Datasets(arguments) => datasets::run(&folders, &arguments),
            Command::Query(arguments) => query::run(&folders, arguments).await,
            Command::Bridge => match bridge::run(folders).await {
                Ok(code) => return code,
                Err(failure) => Err(failure),
            },
            Command::Reload(arguments) => reload::run(&folders, arguments).await,
            Command::Skills(arguments) => skills::run(&folders, &arguments),
            Command::Config(arguments) => config::run(&folders, &arguments),
            Command::Doctor => doctor::run(&folders).await,
        };
        report::finish(outcome, json)
    });
    // What still waits for standard input is left behind.
    runtime.shutdown_timeout(SHUTDOWN);
    code
}
