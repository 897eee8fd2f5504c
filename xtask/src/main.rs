//! Tasks of this workspace: `cargo xtask <task>`. One module per task; `workspace` is what they share.

#![allow(clippy::print_stdout, reason = "a task tells what it does on standard output")]

mod bench;
mod check;
mod conformance;
mod demo;
mod faults;
mod interop;
mod matrix;
mod package;
mod release;
mod served;
mod test;
mod workspace;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a task ends with.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of this workspace.")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build a connector into an installable folder and a zip, and prove that a host can start it.
    Package(package::Arguments),
    /// Build everything that is published for one target: packages, what they are made of, checksums.
    Release(release::Arguments),
    /// Check what the compiler doesn't: who depends on whom, packaging files, and rules about source texts.
    Check,
    /// Run the black-box suites and write docs/conformance.md: what shows each requirement, and whether it passed.
    Conformance,
    /// See a packaged connector installed and driven as a host does it, over real HTTP against the sandbox.
    Demo(demo::Arguments),
    /// Run the official MCP conformance suite, the Inspector and hosts on the client libraries against our servers.
    Interop(interop::Arguments),
    /// Measure speed and memory of large extractions, as ratios against small programs in the same run.
    Bench(bench::Arguments),
    /// Run the fault suites and write docs/faults.md: what each failure of Google's comes to.
    Faults,
    /// Write docs/test-matrix.md (each suite and what it shows) and docs/interop.md (whose programs run against ours).
    Matrix,
    /// One of the small programs of the bench, which starts it.
    #[command(hide = true)]
    BenchClient(bench::Program),
    /// Run everything that needs nothing but the Rust toolchain.
    Test(test::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Package(arguments) => package::run(&arguments),
        Task::Release(arguments) => release::run(&arguments),
        Task::Check => check::run(),
        Task::Conformance => conformance::run(),
        Task::Demo(arguments) => demo::run(&arguments),
        Task::Interop(arguments) => interop::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Faults => faults::run(),
        Task::Matrix => matrix::run(),
        Task::BenchClient(program) => bench::run_client(&program),
        Task::Test(arguments) => test::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
