//! docs/test-matrix.md and docs/interop.md: they say what there is, and each suite says what it is about.

use super::Problem;
use crate::Result;
use crate::matrix::DOCUMENTS;
use crate::workspace::root;

pub(super) fn check() -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (document, render) in DOCUMENTS {
        let expected = render()?;
        if std::fs::read_to_string(root().join(document)).unwrap_or_default() != expected {
            problems.push(Problem::new(document, "is not what the sources say", "run `cargo xtask matrix`"));
        }
        let silent = expected.lines().filter(|line| line.contains(" |  | "));
        problems.extend(silent.map(|line| {
            let problem = format!("nothing says what this is about: {line}");
            Problem::new(document, problem, "begin its file with `//!` and a sentence")
        }));
    }
    Ok(problems)
}
