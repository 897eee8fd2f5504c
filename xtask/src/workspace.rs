//! The workspace that the tasks work on: where it is, what is in it, and how to run cargo on it.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::Result;

/// What `cargo metadata` tells about the workspace.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    /// Its members.
    pub(crate) packages: Vec<Member>,
    /// Where cargo builds.
    pub(crate) target_directory: PathBuf,
}

/// A crate of the workspace.
#[derive(Deserialize)]
pub(crate) struct Member {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Its Cargo.toml.
    pub(crate) manifest_path: PathBuf,
    /// What it depends on, for whatever purpose.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency as declared.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    /// Its name.
    pub(crate) name: String,
    /// `None` for a normal one, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// Its folder, for crates of the workspace.
    pub(crate) path: Option<PathBuf>,
}

impl Member {
    /// Its folder, relative to the workspace, with `/`.
    pub(crate) fn folder(&self) -> String {
        let folder = self.manifest_path.parent().unwrap_or(Path::new(""));
        relative(folder)
    }

    /// Whether it is a connector.
    pub(crate) fn is_connector(&self) -> bool {
        self.folder().starts_with("connectors/")
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// A path as people read it: relative to the workspace, with `/`.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string().replace('\\', "/")
}

/// `cargo metadata` of the members.
pub(crate) fn metadata() -> Result<Metadata> {
    let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The cargo that runs this task, in the workspace.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// The triple that cargo builds for unless told otherwise.
pub(crate) fn host_target() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.ok_or("rustc -vV names no host")?.to_owned())
}

/// Files below a folder, sorted; none where it doesn't exist.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if folder.is_dir() {
        collect(folder, &mut files)?;
    }
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in folder.read_dir().map_err(about(folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Names of the folders inside a folder of the workspace, sorted.
pub(crate) fn folders_in(folder: &str) -> Result<Vec<String>> {
    let folder = root().join(folder);
    let mut names = Vec::new();
    if folder.is_dir() {
        for entry in folder.read_dir().map_err(about(folder.display()))? {
            let entry = entry?;
            if entry.path().is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Puts what an error is about in front of it: `.map_err(about(path.display()))`.
pub(crate) fn about<E: Display>(what: impl Display) -> impl FnOnce(E) -> Box<dyn std::error::Error + Send + Sync> {
    move |error| format!("{what}: {error}").into()
}
