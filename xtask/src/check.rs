//! `cargo xtask check`: what the compiler doesn't check. One module per kind of rule; each problem comes with what to do.

mod complaints;
mod conformance;
mod crates;
mod matrix;
mod packaging;
mod sources;

use crate::Result;
use crate::workspace;

/// Something that breaks a rule.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Where, relative to the workspace.
    path: String,
    /// What.
    problem: String,
    /// What to do.
    hint: &'static str,
}

impl Problem {
    fn new(path: impl Into<String>, problem: impl Into<String>, hint: &'static str) -> Self {
        Self { path: path.into(), problem: problem.into(), hint }
    }
}

/// Runs the task.
pub(crate) fn run() -> Result<()> {
    let metadata = workspace::metadata()?;
    let mut problems = crates::check(&metadata)?;
    problems.extend(packaging::check(&metadata)?);
    problems.extend(sources::check()?);
    problems.extend(sources::example()?);
    problems.extend(conformance::check()?);
    problems.extend(complaints::check()?);
    problems.extend(matrix::check()?);
    for problem in &problems {
        println!("{}: {}\n  hint: {}", problem.path, problem.problem, problem.hint);
    }
    match problems.len() {
        0 => {
            println!("{} crates keep the rules of the workspace", metadata.packages.len());
            Ok(())
        }
        1 => Err("one rule of the workspace is broken".into()),
        count => Err(format!("{count} rules of the workspace are broken").into()),
    }
}
