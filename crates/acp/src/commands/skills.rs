//! `acp skills`: the procedures that travel with connectors (13.4).

use acp_host::package;
use clap::Args;
use serde_json::json;

use crate::folders::Folders;
use crate::report::{Failure, Report};

/// Arguments.
#[derive(Args)]
pub(super) struct Arguments {
    /// Print the steps of this skill
    name: Option<String>,
}

pub(super) fn run(folders: &Folders, arguments: &Arguments) -> Result<Report, Failure> {
    let listing = folders.packages()?;
    let skills = package::published_skills(&listing.packages, &[]);
    let Some(name) = &arguments.name else {
        let lines: Vec<String> =
            skills.iter().map(|skill| format!("{:<24} {}", skill.name, skill.skill.description)).collect();
        let values: Vec<_> = skills
            .iter()
            .map(|skill| {
                json!({"name": skill.name, "scope": "acp", "acp": skill.acp, "description": skill.skill.description,
                    "folder": skill.folder})
            })
            .collect();
        return Ok(Report::new(lines.join("\n"), json!({"skills": values})));
    };
    let Some(skill) = skills.into_iter().find(|skill| skill.name == *name) else {
        return Err(Failure::usage(format!("there is no skill {name}; `acp skills` lists them")));
    };
    let value = json!({"name": skill.name, "scope": "acp", "acp": skill.acp, "body": skill.skill.body});
    Ok(Report::new(skill.skill.body, value))
}
