//! `cargo xtask test`: everything that needs nothing but the Rust toolchain, in the order of what fails fastest.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use crate::conformance::NOTES;
use crate::{Result, check, faults, workspace};

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Passed on to the test runner.
    #[arg(last = true)]
    extra: Vec<String>,
}

/// Runs the task.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    cargo_step("format", &["fmt", "--all", "--check"])?;
    cargo_step("lints", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    step("workspace rules", "cargo xtask check", check::run)?;
    // Black-box suites start these. This task itself is running and is left out.
    cargo_step("programs", &["build", "--workspace", "--exclude", "xtask", "--bins", "--quiet"])?;
    let runner: &[&str] =
        if has_nextest() { &["nextest", "run", "--workspace"] } else { &["test", "--workspace", "--quiet"] };
    let extra = arguments.extra.iter().map(String::as_str);
    let folder = tempfile::tempdir()?;
    let notes = folder.path().join("notes");
    cargo_step_with("tests", &runner.iter().copied().chain(extra).collect::<Vec<_>>(), &[(NOTES, &notes)])?;
    if arguments.extra.is_empty() {
        step("docs/faults.md", "cargo xtask faults", || faults_hold(&notes))?;
    }
    cargo_step("doc tests", &["test", "--workspace", "--doc", "--quiet"])
}

/// That faults end as the document says.
fn faults_hold(notes: &Path) -> Result<()> {
    let notes = std::fs::read_to_string(notes).map_err(workspace::about("what the suites write down"))?;
    let document = std::fs::read_to_string(workspace::root().join(faults::DOCUMENT)).unwrap_or_default();
    match faults::differences(&document, &faults::read(&notes)).as_slice() {
        [] => Ok(()),
        different => Err(format!("{} is out of date:\n{}", faults::DOCUMENT, different.join("\n")).into()),
    }
}

fn cargo_step(name: &str, arguments: &[&str]) -> Result<()> {
    cargo_step_with(name, arguments, &[])
}

fn cargo_step_with(name: &str, arguments: &[&str], variables: &[(&str, &Path)]) -> Result<()> {
    let again = format!("cargo {}", arguments.join(" "));
    step(name, &again, || {
        let status = workspace::cargo().args(arguments).envs(variables.iter().copied()).status()?;
        if status.success() { Ok(()) } else { Err(status.to_string().into()) }
    })
}

fn step(name: &str, again: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}: {again}");
    let start = Instant::now();
    work().map_err(|error| format!("{name}: {error}\n\nhint: run this step alone with\n  {again}"))?;
    println!("   ok in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn has_nextest() -> bool {
    let mut probe = workspace::cargo();
    probe.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}
