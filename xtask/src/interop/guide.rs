//! CONTRIBUTING's way to a connector, followed to the letter: its commands run in an empty folder, and the server that comes
//! out answers as the text says.

use tokio::process::Command;

use super::{output, stdout, step};
use crate::Result;
use crate::workspace::{self, about};

const SECTION: &str = "## Write a connector";

/// Runs the part.
pub(super) async fn run() -> Result<()> {
    step("a connector made as CONTRIBUTING.md says", follow()).await
}

async fn follow() -> Result<String> {
    let path = workspace::root().join("CONTRIBUTING.md");
    let text = std::fs::read_to_string(&path).map_err(about(path.display()))?;
    let section = text.split_once(SECTION).ok_or("there is no such section")?.1;
    let commands: Vec<&str> = blocks(section.split("\n## ").next().unwrap_or_default()).collect();
    let [make, talk] = commands[..] else { return Err("the section has two blocks of commands".into()) };
    let folder = tempfile::tempdir()?;
    // Dependencies are built once, however often this runs.
    let target = workspace::metadata()?.target_directory.join("interop").join("guide");
    let mut last = String::new();
    for (commands, shown) in [(make, "loans(resource_id, min_copies)"), (talk, "\"title\\\":\\\"Dune\\\"")] {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", commands]).current_dir(&folder);
        shell.env("CONNECTORS", workspace::root()).env("CARGO_TARGET_DIR", &target);
        let ran = output(&mut shell).await?;
        last = stdout(&ran);
        if !ran.status.success() || !last.contains(shown) {
            return Err(format!("{shown} is not in what it prints: {}", super::failed(&ran)).into());
        }
    }
    let answers = last.lines().count();
    Ok(format!("{} commands, then {answers} answers of the new connector", make.lines().count()))
}

/// The blocks of commands in a text.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```console\n").skip(1).filter_map(|rest| Some(rest.split_once("\n```")?.0))
}
