//! The sandbox's GoogleSQL against Google's own engine: its answers to our statements are committed, and a test of the sandbox
//! holds them against the sandbox's. Here they are asked for again.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::tools::{self, Tools};
use crate::Result;
use crate::workspace::{self, about};

const SCRIPT: &str = "sql_goldens.py";

/// Runs this part: writes `answers.json`, and fails when that changed it.
pub(super) async fn run(tools: &Tools) -> Result<()> {
    let (pinned, packages) = tools.install("zetasql").await?;
    super::step(&format!("{} {}", pinned.name, pinned.version), async {
        let statements = statements(&std::fs::read_to_string(folder().join("queries.sql"))?);
        let answers = ask(&packages, &statements).await?;
        if answers.len() != statements.len() {
            return Err(format!("{} answers to {} statements", answers.len(), statements.len()).into());
        }
        let lines = statements.iter().zip(answers).map(|(sql, answer)| {
            let mut golden = json!({"sql": sql});
            if let (Some(golden), Value::Object(answer)) = (golden.as_object_mut(), answer) {
                golden.extend(answer);
            }
            golden.to_string()
        });
        let text = format!("[\n{}\n]\n", lines.collect::<Vec<_>>().join(",\n"));
        let file = folder().join("answers.json");
        if std::fs::read_to_string(&file).is_ok_and(|known| known == text) {
            return Ok(format!("{} answers as they are committed", statements.len()));
        }
        std::fs::write(&file, text)?;
        Err(format!("{} has changed: see what the test answers_are_googles says, and commit it", file.display()).into())
    })
    .await
}

/// Where the statements and the answers are.
fn folder() -> PathBuf {
    workspace::root().join("crates/google-sandbox/src/bigquery/sql/goldens")
}

/// The statements of a file: each ends with a semicolon at the end of a line. Lines that begin with `#` are remarks.
fn statements(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let text = lines.join("\n") + "\n";
    text.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()).map(str::to_owned).collect()
}

async fn ask(packages: &std::path::Path, statements: &[String]) -> Result<Vec<Value>> {
    let mut python = Command::new(tools::python(packages));
    // No compiled files beside the sources.
    python.arg("-B").arg(tools::source(SCRIPT));
    let mut engine =
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut input = engine.stdin.take().ok_or("no way to ask")?;
    input.write_all(serde_json::to_string(statements)?.as_bytes()).await?;
    drop(input);
    let output = tokio::time::timeout(super::PATIENCE, engine.wait_with_output()).await.map_err(about(SCRIPT))??;
    if !output.status.success() {
        return Err(super::failed(&output).into());
    }
    serde_json::from_slice(&output.stdout).map_err(about(SCRIPT))
}
