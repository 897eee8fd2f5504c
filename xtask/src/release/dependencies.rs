//! The crates of others that are part of a program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Result;
use crate::workspace::{self, about};

/// A crate of somebody else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: Option<String>,
    /// The registry it comes from; `None` for crates of the workspace.
    source: Option<String>,
    id: String,
    manifest_path: PathBuf,
}

/// `cargo metadata` with everything that is compiled.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

/// `None` for what ends up in the program, else `dev` or `build`.
#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// The crates that end up in programs of the workspace, by name and version.
pub(crate) fn of(programs: &[&str], target: &str) -> Result<Vec<Crate>> {
    let mut cargo = workspace::cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target]);
    let output = cargo.output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout).map_err(about("cargo metadata"))?;
    reachable(metadata, programs)
}

fn reachable(metadata: Metadata, programs: &[&str]) -> Result<Vec<Crate>> {
    let root = |program: &&str| {
        let root = metadata.packages.iter().find(|one| one.name == *program && one.source.is_none());
        root.map(|root| root.id.as_str()).ok_or_else(|| format!("there is no crate {program}"))
    };
    let mut open = programs.iter().map(root).collect::<std::result::Result<Vec<&str>, String>>()?;
    let mut seen = BTreeSet::new();
    let edges: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let edges = edges.get(id).into_iter().flat_map(|node| &node.deps);
            let linked = edges.filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            open.extend(linked.map(|edge| edge.pkg.as_str()));
        }
    }
    let theirs = metadata.packages.iter().filter(|one| one.source.is_some() && seen.contains(one.id.as_str()));
    let mut crates: Vec<Crate> = theirs.cloned().collect();
    crates.sort();
    Ok(crates)
}

impl Crate {
    /// Its files with licences and notices, by name.
    pub(crate) fn licence_files(&self) -> Result<Vec<PathBuf>> {
        const NAMES: [&str; 6] = ["license", "licence", "copying", "notice", "unlicense", "copyright"];
        let folder = self.manifest_path.parent().unwrap_or(Path::new(""));
        let mut files = Vec::new();
        for entry in folder.read_dir().map_err(about(&self.name))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            if path.is_file() && NAMES.iter().any(|known| name.starts_with(known)) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_found_and_nothing_else() {
        let one = |name: &str, source: &str| {
            format!(
                r#"{{"name":"{name}","version":"1.0.0","license":"MIT","source":{source},"id":"{name}","manifest_path":"/{name}/Cargo.toml"}}"#
            )
        };
        let edge = |to: &str, kinds: &str| format!(r#"{{"pkg":"{to}","dep_kinds":[{kinds}]}}"#);
        let (normal, dev, build) = (r#"{"kind":null}"#, r#"{"kind":"dev"}"#, r#"{"kind":"build"}"#);
        let theirs = r#""registry""#;
        let packages = [
            one("ga4", "null"),
            one("core", "null"),
            one("a", theirs),
            one("b", theirs),
            one("dev", theirs),
            one("build", theirs),
            one("of-another", theirs),
        ];
        let nodes = [
            ("ga4", vec![edge("core", normal), edge("dev", dev), edge("build", build)]),
            ("core", vec![edge("b", &format!("{dev},{normal}"))]),
            ("b", vec![edge("a", normal), edge("b", normal)]),
        ]
        .map(|(id, deps)| format!(r#"{{"id":"{id}","deps":[{}]}}"#, deps.join(",")));
        let text = format!(r#"{{"packages":[{}],"resolve":{{"nodes":[{}]}}}}"#, packages.join(","), nodes.join(","));
        let names = |program| {
            let crates = reachable(serde_json::from_str(&text).unwrap(), &[program]);
            crates.map(|crates| crates.into_iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names("ga4").unwrap(), ["a", "b"]);
        assert!(names("a").is_err(), "no program of ours");
    }
}
