//! Packaging folders: one per connector, and each file keeps its rules.

use std::path::Path;

use acp_protocol::manifest::{self, ICON_PRODUCED_MAX, PackageManifest};
use acp_protocol::skill::Skill;

use super::Problem;
use crate::Result;
use crate::package::BUNDLE;
use crate::workspace::{Metadata, about, files_below, folders_in, relative, root};

pub(super) fn check(metadata: &Metadata) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let (connectors, packages) = (folders_in("connectors")?, folders_in("packaging")?);
    for id in connectors.iter().filter(|id| !packages.contains(id)) {
        problems.push(Problem::new(
            format!("connectors/{id}"),
            "has no packaging folder",
            "add packaging/<id> with acp.json, icon.svg, README.md and skills/",
        ));
    }
    for id in packages.iter().filter(|id| *id != BUNDLE) {
        let member = metadata.packages.iter().find(|member| member.name == *id && member.is_connector());
        match member {
            Some(member) => problems.extend(package(id, &member.version)?),
            None => problems.push(Problem::new(
                format!("packaging/{id}"),
                "has no connector",
                "remove it or add connectors/<id>",
            )),
        }
    }
    Ok(problems)
}

fn package(id: &str, version: &str) -> Result<Vec<Problem>> {
    let folder = root().join("packaging").join(id);
    let mut problems = Vec::new();
    for name in ["acp.json", "README.md"] {
        if !folder.join(name).is_file() {
            problems.push(Problem::new(relative(&folder), format!("has no {name}"), "every package has one"));
        }
    }
    let path = folder.join("acp.json");
    if let Ok(text) = std::fs::read_to_string(&path) {
        problems.extend(manifest(&path, &text, id, version));
    }
    problems.extend(skills(&folder)?);
    Ok(problems)
}

fn manifest(path: &Path, text: &str, id: &str, version: &str) -> Vec<Problem> {
    let rules = "see section 13.2 of the specification";
    let mut problems: Vec<Problem> =
        manifest::validate(text).into_iter().map(|problem| Problem::new(relative(path), problem, rules)).collect();
    let Ok(manifest) = PackageManifest::read(text) else { return problems };
    if manifest.id != id {
        problems.push(Problem::new(relative(path), format!("id is {}, the folder is {id}", manifest.id), rules));
    }
    if manifest.version != version {
        let problem = format!("version is {}, the workspace is {version}", manifest.version);
        problems.push(Problem::new(relative(path), problem, "release both together"));
    }
    problems.extend(icon(path.parent().unwrap_or(path), manifest.icon.as_deref()));
    problems
}

fn icon(folder: &Path, icon: Option<&str>) -> Option<Problem> {
    let problem = match icon {
        None => "acp.json names no icon".to_owned(),
        Some(icon) => match std::fs::metadata(folder.join(icon)) {
            Err(_) => format!("{icon} is missing"),
            Ok(metadata) if metadata.len() > ICON_PRODUCED_MAX => format!("{icon} is above {ICON_PRODUCED_MAX} bytes"),
            Ok(_) => return None,
        },
    };
    Some(Problem::new(relative(folder), problem, "hosts show an svg, png or webp of at most 256,000 bytes"))
}

fn skills(folder: &Path) -> Result<Vec<Problem>> {
    let files = files_below(&folder.join("skills"))?;
    let mut problems = Vec::new();
    let rules = "a skill is skills/<name>/SKILL.md with the same name in its frontmatter (13.4)";
    let texts: Vec<_> = files.iter().filter(|file| file.file_name().is_some_and(|name| name == "SKILL.md")).collect();
    if texts.is_empty() {
        problems.push(Problem::new(relative(folder), "has no skill", rules));
    }
    for file in texts {
        let text = std::fs::read_to_string(file).map_err(about(file.display()))?;
        let name = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        if let Err(error) = Skill::read(&name, &text) {
            problems.push(Problem::new(relative(file), error.to_string(), rules));
        }
    }
    Ok(problems)
}
