//! `acp`: the host side of ACP on the command line, and the bridge for any MCP client.

mod bridge;
mod commands;
mod fill;
mod folders;
mod progress;
mod query;
mod report;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run()
}
