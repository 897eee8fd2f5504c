//! `acp bridge`

use std::process::ExitCode;

use crate::bridge;
use crate::folders::Folders;
use crate::report::Failure;

/// The project where none is named on the command line.
const PROJECT: &str = "ACP_BRIDGE_PROJECT";

pub(super) async fn run(folders: Folders) -> Result<ExitCode, Failure> {
    let project = std::env::var_os(PROJECT).filter(|project| !project.is_empty());
    let host = folders.or_project(project.map(Into::into)).host("bridge", "Query it with acp_query.")?;
    Ok(bridge::serve(host).await)
}
