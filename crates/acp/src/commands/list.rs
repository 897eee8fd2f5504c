//! `acp list`: from files alone, no server is started.

use acp_host::sources::Sources;
use serde_json::json;

use crate::folders::Folders;
use crate::report::{Failure, Report};

pub(super) fn run(folders: &Folders) -> Result<Report, Failure> {
    let listing = folders.packages()?;
    let sources = Sources::read(&folders.sources()?)?;
    let mut lines = Vec::new();
    let mut packages = Vec::new();
    for package in &listing.packages {
        let manifest = &package.manifest;
        let used: Vec<&str> =
            sources.all().iter().filter(|source| source.acp == manifest.id).map(|source| source.id.as_str()).collect();
        let sources = if used.is_empty() { "no source".to_owned() } else { format!("sources: {}", used.join(", ")) };
        lines.push(format!("{:<12} {:<10} {} ({sources})", manifest.id, manifest.version, manifest.name));
        packages.push(json!({
            "id": manifest.id, "name": manifest.name, "version": manifest.version, "description": manifest.description,
            "publisher": manifest.publisher, "folder": package.folder,
            "icon": package.icon().map(|icon| icon.path), "sources": used,
        }));
    }
    if lines.is_empty() {
        lines.push(format!(
            "No connector is installed in {}. Install one with: acp install ZIP",
            folders.system()?.display()
        ));
    }
    for (folder, problem) in &listing.broken {
        lines.push(format!("not usable: {}: {problem}", folder.display()));
    }
    let broken: Vec<_> =
        listing.broken.iter().map(|(folder, problem)| json!({"folder": folder, "problem": problem})).collect();
    Ok(Report::new(lines.join("\n"), json!({"connectors": packages, "not_usable": broken})))
}
