//! The installable folder: `acp.json`, the program, what starts it, and what the packaging folder holds.

use std::path::Path;

use acp_protocol::manifest::{PackageManifest, Transport};

use crate::Result;
use crate::release::{dependencies, licences};
use crate::workspace::{self, about};

/// The licences of what programs are made of.
const LICENCES_OF_OTHERS: &str = "LICENSES-THIRD-PARTY.txt";

/// Starts the program on Unix, whatever became of the mode bits; the same script for every connector.
const START: &str = include_str!("start.sh");
const START_NAME: &str = "start.sh";
/// What every package is licensed under.
pub(crate) const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// The word of the script that stands for the program.
const PLACEHOLDER: &str = "@PROGRAM@";

/// Writes `folder` anew and returns the manifest it has for this target.
pub(crate) fn folder(
    folder: &Path,
    mut manifest: PackageManifest,
    executable: &Path,
    target: &str,
) -> Result<PackageManifest> {
    let id = manifest.id.clone();
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(about(folder.display()))?;
    }
    let source = workspace::root().join("packaging").join(&id);
    for file in workspace::files_below(&source)? {
        let path = file.strip_prefix(&source)?;
        copy(&file, &folder.join(path), false)?;
    }
    for licence in LICENCES {
        copy(&workspace::root().join(licence), &folder.join(licence), false)?;
    }
    copy(executable, &folder.join(executable_name(&id, target)), true)?;
    if is_windows(target) {
        if let Transport::Stdio { command, args, .. } = &mut manifest.transport {
            *command = executable_name(&id, target);
            without_script(args);
        }
        if let Some(http) = &mut manifest.http {
            without_script(&mut http.args);
        }
        std::fs::write(folder.join("acp.json"), serde_json::to_string_pretty(&manifest)? + "\n")?;
    } else {
        let path = folder.join(START_NAME);
        std::fs::write(&path, START.replace(PLACEHOLDER, &id)).map_err(about(path.display()))?;
        set_mode(&path, true)?;
    }
    Ok(manifest)
}

/// Adds the licences of what these programs are made of.
pub(crate) fn licences_of_others(folder: &Path, programs: &[&str], target: &str) -> Result<()> {
    let text = licences::text(&dependencies::of(programs, target)?)?;
    Ok(std::fs::write(folder.join(LICENCES_OF_OTHERS), text)?)
}

/// Name of the program in the folder.
pub(crate) fn executable_name(id: &str, target: &str) -> String {
    if is_windows(target) { format!("{id}.exe") } else { id.to_owned() }
}

/// Whether a file of the folder gets the executable bit.
pub(crate) fn is_executable(path: &str, id: &str) -> bool {
    path == id || path == format!("{id}.exe") || path == START_NAME
}

/// What is passed to the program itself: everything but the script.
fn without_script(arguments: &mut Vec<String>) {
    arguments.retain(|argument| argument != START_NAME);
}

fn is_windows(target: &str) -> bool {
    target.contains("-windows-")
}

/// Copies a file with the mode that it should have.
pub(crate) fn copy(from: &Path, to: &Path, executable: bool) -> Result<()> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::copy(from, to).map_err(about(from.display()))?;
    set_mode(to, executable)
}

#[cfg(unix)]
fn set_mode(path: &Path, executable: bool) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = if executable { 0o755 } else { 0o644 };
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _executable: bool) -> Result<()> {
    Ok(())
}
