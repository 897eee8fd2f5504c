//! `acp uninstall`

use acp_host::install;
use acp_host::sources::Sources;
use clap::Args;
use serde_json::json;

use crate::folders::Folders;
use crate::report::{Failure, Report};

/// Arguments.
#[derive(Args)]
pub(super) struct Arguments {
    /// Id of the connector. With --project that of the project is removed
    id: String,
}

pub(super) fn run(folders: &Folders, arguments: &Arguments) -> Result<Report, Failure> {
    let id = &arguments.id;
    install::uninstall(id, &folders.destination()?)?;
    let sources = Sources::read(&folders.sources()?)?;
    let left: Vec<&str> =
        sources.all().iter().filter(|source| source.acp == *id).map(|source| source.id.as_str()).collect();
    let mut text = format!("Removed {id}.");
    if !left.is_empty() {
        text.push_str(&format!(" Sources that used it are kept: {}.", left.join(", ")));
    }
    Ok(Report::new(text, json!({"id": id, "sources": left})))
}
