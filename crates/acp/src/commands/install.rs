//! `acp install`

use std::path::PathBuf;

use acp_host::install::{self, InstallOptions};
use clap::Args;
use serde_json::json;

use crate::folders::Folders;
use crate::report::{Failure, Report};

/// Arguments.
#[derive(Args)]
pub(super) struct Arguments {
    /// The zip of the connector. With --project it is installed for that project alone
    zip: PathBuf,
}

pub(super) async fn run(folders: &Folders, arguments: Arguments) -> Result<Report, Failure> {
    let options = InstallOptions { variables: Folders::variables(), ..InstallOptions::default() };
    let package = install::install(&arguments.zip, &folders.destination()?, &options).await?;
    let manifest = &package.manifest;
    let text = format!(
        "Installed {} {} ({}) in {}.\nNext: acp source add NAME --acp {}",
        manifest.name,
        manifest.version,
        manifest.id,
        package.folder.display(),
        manifest.id
    );
    Ok(Report::new(text, json!({"id": manifest.id, "version": manifest.version, "folder": package.folder})))
}
