//! Google's clients for Python, pointed at the sandbox and asked what our connectors are asked: the values must be equal. Then
//! what was asked and answered is held against Google's own descriptions of its APIs, which come with one of the clients. Last,
//! statements of others that only read are given to the connector for BigQuery, which lets them pass.

use std::path::Path;

use google_sandbox::Options;
use tokio::process::Command;

use super::tools::{self, Tools};
use crate::Result;

/// What the programs use beside the package `google`.
const LIBRARIES: [&str; 4] =
    ["google-analytics-data", "google-analytics-admin", "google-cloud-bigquery", "fastjsonschema"];

/// Runs this part.
pub(super) async fn run(tools: &Tools) -> Result<()> {
    let (pinned, folder) = tools.install("google").await?;
    for library in LIBRARIES {
        tools.install(library).await?;
    }
    let scratch = tools.scratch()?;
    let sandbox = google_sandbox::start(Options::in_dir(&scratch)).await?;
    let programs = super::program("gsc")?.parent().ok_or("the connectors are in no folder")?.to_owned();
    let python = |folder: &Path, script: &str| {
        let mut python = Command::new(tools::python(folder));
        // No compiled files beside the sources; and nothing between the clients and the sandbox.
        python.arg("-B").arg(tools::source(script)).arg(sandbox.url()).env("NO_PROXY", "127.0.0.1");
        python
    };
    super::step("Google's clients for Python, gsc, ga4 and bigquery", async {
        let mut clients = python(&folder, "google_clients.py");
        super::checked(clients.arg(&sandbox.credentials().oauth).arg(&programs), &scratch).await
    })
    .await?;
    super::step(&format!("Google's descriptions of its APIs, in {} {}", pinned.package, pinned.version), async {
        super::checked(&mut python(&folder, "google_contract.py"), &scratch).await
    })
    .await?;
    let (pinned, folder) = tools.install("ga4-bigquery-lint").await?;
    super::step(&format!("the statements of {} {}", pinned.package, pinned.version), async {
        let mut statements = python(&folder, "google_lint.py");
        super::checked(statements.arg(&sandbox.credentials().oauth).arg(&programs), &scratch).await
    })
    .await?;
    sandbox.shutdown().await;
    Ok(())
}
