//! `acp datasets`

use acp_host::datasets;
use clap::Args;
use serde_json::json;

use crate::folders::Folders;
use crate::report::{Failure, Report};

/// Arguments.
#[derive(Args)]
pub(super) struct Arguments {
    /// Only those with this text in their id, title or description
    filter: Option<String>,
}

pub(super) fn run(folders: &Folders, arguments: &Arguments) -> Result<Report, Failure> {
    let folder = folders.project()?.join(datasets::FOLDER);
    let listing = datasets::list(&folder)?;
    let wanted = arguments.filter.as_deref().unwrap_or_default().to_lowercase();
    let mut lines = Vec::new();
    let mut values = Vec::new();
    for dataset in &listing.datasets {
        let meta = &dataset.meta;
        let texts = [Some(&meta.id), meta.title.as_ref(), meta.description.as_ref()];
        if !texts.into_iter().flatten().any(|text| text.to_lowercase().contains(&wanted)) {
            continue;
        }
        let columns: Vec<String> = meta
            .headers
            .iter()
            .map(|header| format!("{} {}", header.name, json!(header.column_type).as_str().unwrap_or_default()))
            .collect();
        lines.push(format!("{} ({}, {} rows): {}", meta.id, meta.origin, meta.row_count, columns.join(", ")));
        values.push(json!({
            "id": meta.id, "file": dataset.csv, "rows": meta.row_count, "origin": meta.origin, "source": meta.source,
            "title": meta.title, "description": meta.description, "dates": meta.dates, "columns": meta.headers,
            "created_at": meta.created_at,
        }));
    }
    if lines.is_empty() {
        lines.push(format!("No dataset in {}.", folder.display()));
    }
    for (path, problem) in &listing.unusable {
        lines.push(format!("not usable: {}: {problem}", path.display()));
    }
    let unusable: Vec<_> =
        listing.unusable.iter().map(|(path, problem)| json!({"file": path, "problem": problem})).collect();
    Ok(Report::new(lines.join("\n"), json!({"datasets": values, "not_usable": unusable})))
}
