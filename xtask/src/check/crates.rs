//! Which crate may use which, and that dependencies are declared once.

use super::Problem;
use crate::Result;
use crate::workspace::{Member, Metadata, about, relative};

/// The arrows between the crates: name, and what it may use of the workspace. Connectors have one rule for all.
const ARROWS: [(&str, &[&str]); 8] = [
    ("acp-protocol", &[]),
    ("acp-core", &["acp-protocol"]),
    ("acp-google", &["acp-protocol", "acp-core"]),
    ("acp-host", &["acp-protocol"]),
    // The bridge is an MCP server on the transport of connectors.
    ("acp", &["acp-protocol", "acp-core", "acp-host"]),
    ("google-sandbox", &[]),
    ("tests", &["acp-protocol", "acp-core", "acp-host", "google-sandbox"]),
    ("xtask", &["acp-protocol", "acp-host", "google-sandbox"]),
];
const CONNECTOR: &[&str] = &["acp-protocol", "acp-core", "acp-google"];
/// Tests may besides talk to the stand-in for Google, which knows none of our crates.
const TESTS_BESIDES: &str = "google-sandbox";

pub(super) fn check(metadata: &Metadata) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for member in &metadata.packages {
        problems.extend(arrows(member));
        let text = std::fs::read_to_string(&member.manifest_path).map_err(about(member.manifest_path.display()))?;
        problems.extend(declarations(&relative(&member.manifest_path), &text));
    }
    Ok(problems)
}

fn arrows(member: &Member) -> Vec<Problem> {
    let path = relative(&member.manifest_path);
    let known = ARROWS.iter().find(|(name, _)| *name == member.name).map(|(_, allowed)| *allowed);
    let Some(allowed) = known.or(member.is_connector().then_some(CONNECTOR)) else {
        return vec![Problem::new(
            path,
            format!("{} has no place in the arrows", member.name),
            "add it to ARROWS in xtask/src/check/crates.rs",
        )];
    };
    let forbidden = member.dependencies.iter().filter(|dependency| {
        let for_tests = dependency.kind.as_deref() == Some("dev") && dependency.name == TESTS_BESIDES;
        dependency.path.is_some() && !for_tests && !allowed.contains(&dependency.name.as_str())
    });
    forbidden
        .map(|dependency| {
            let allowed = if allowed.is_empty() { "none of ours".to_owned() } else { allowed.join(", ") };
            Problem::new(
                path.clone(),
                format!("{} may not use {}; it may use {allowed}", member.name, dependency.name),
                "arrows go one way (ARCHITECTURE.md): move what both need to a crate below",
            )
        })
        .collect()
}

/// Every dependency of a member takes its version from the root.
fn declarations(path: &str, manifest: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            inside = section.ends_with("dependencies]");
            if !inside && section.contains("dependencies.") {
                problems.push(undeclared(path, line));
            }
            continue;
        }
        let entry = inside && !line.is_empty() && !line.starts_with('#') && line.contains('=');
        if entry && !line.replace(' ', "").contains("workspace=true") {
            problems.push(undeclared(path, line));
        }
    }
    problems
}

fn undeclared(path: &str, line: &str) -> Problem {
    Problem::new(
        path,
        format!("{line:?} is not taken from the workspace"),
        "declare it in [workspace.dependencies] of the root and write name.workspace = true here",
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::{self, Dependency};

    fn member(folder: &str, name: &str, dependencies: &[(&str, Option<&str>)]) -> Member {
        Member {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            manifest_path: workspace::root().join(folder).join(name).join("Cargo.toml"),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).to_owned(),
                    kind: kind.map(str::to_owned),
                    path: Some(PathBuf::from("x")),
                })
                .collect(),
        }
    }

    #[test]
    fn arrows_go_one_way() {
        for (folder, name, dependency, kind, allowed) in [
            ("crates", "acp-core", "acp-protocol", None, true),
            ("crates", "acp-protocol", "acp-core", None, false),
            ("crates", "acp-protocol", "acp-core", Some("dev"), false),
            ("crates", "acp-host", "acp-core", None, false),
            ("crates", "acp-google", "google-sandbox", Some("dev"), true),
            ("crates", "acp-google", "google-sandbox", None, false),
            ("connectors", "ga4", "acp-google", None, true),
            ("connectors", "ga4", "gsc", None, false),
            ("crates", "stranger", "acp-core", None, false),
        ] {
            let problems = arrows(&member(folder, name, &[(dependency, kind)]));
            assert_eq!(problems.is_empty(), allowed, "{name} {dependency}: {problems:?}");
        }
    }

    #[test]
    fn dependencies_are_declared_once() {
        let good = "[dependencies]\nserde.workspace = true\ntokio = { workspace = true, features = [] }\n# x = 1\n[lints]\nx = 1\n";
        assert!(declarations("Cargo.toml", good).is_empty());
        for bad in [
            "[dependencies]\nserde = \"1\"",
            "[dev-dependencies]\nx = { path = \"..\" }",
            "[dependencies.serde]\nversion = \"1\"",
        ] {
            assert_eq!(declarations("Cargo.toml", bad).len(), 1, "{bad}");
        }
    }
}
