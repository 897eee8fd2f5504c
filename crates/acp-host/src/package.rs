//! What lies in a connector's folder, and which folders there are (13.1, 13.2, 13.4).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use acp_protocol::manifest::{self, PackageManifest};
use acp_protocol::skill::Skill;

/// Name of the file that makes a folder a connector.
pub const MANIFEST: &str = "acp.json";
/// Folder of a project that holds the host's own data, not a connector.
const PROJECT_SOURCES: &str = "sources";

/// An installed connector.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// Its folder.
    pub folder: PathBuf,
    /// Its `acp.json`.
    pub manifest: PackageManifest,
}

/// The icon of a connector or a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icon {
    /// Where it is.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
    /// `image/svg+xml`, `image/png` or `image/webp`.
    pub media_type: &'static str,
}

/// A skill under the name by which a host publishes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedSkill {
    /// The folder's name, or `<id>--<name>` when another connector came first (13.4).
    pub name: String,
    /// Id of the connector it came with.
    pub acp: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its content.
    pub skill: Skill,
}

/// The connectors of a folder, and the folders whose `acp.json` can't be used, with the reason.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Sorted by id, one per id.
    pub packages: Vec<Package>,
    /// Folder and reason.
    pub broken: Vec<(PathBuf, String)>,
}

impl Package {
    /// Reads the `acp.json` of a folder.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(folder.join(MANIFEST))?;
        let manifest =
            PackageManifest::read(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Self { folder: folder.to_path_buf(), manifest })
    }

    /// Its icon; `None` where there is none or it breaks a rule, since the connector stays valid (13.2).
    pub fn icon(&self) -> Option<Icon> {
        read_icon(&self.folder, self.manifest.icon.as_deref()?)
    }

    /// Its skills, sorted by name. Folders without `SKILL.md` and names that break the pattern are ignored (13.4).
    pub fn skills(&self) -> Vec<(PathBuf, Skill)> {
        let mut skills: Vec<(PathBuf, Skill)> = subfolders(&self.folder.join("skills"))
            .unwrap_or_default()
            .into_iter()
            .filter_map(|folder| {
                let text = std::fs::read_to_string(folder.join("SKILL.md")).ok()?;
                let skill = Skill::read(folder.file_name()?.to_str()?, &text).ok()?;
                Some((folder, skill))
            })
            .collect();
        skills.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        skills
    }
}

/// Reads an icon by its path relative to `folder`: svg, png or webp, not above the size of 13.2, and inside the folder even
/// when links are followed.
pub fn read_icon(folder: &Path, relative: &str) -> Option<Icon> {
    if !manifest::is_icon_path(relative) {
        return None;
    }
    let path = folder.join(relative).canonicalize().ok()?;
    if !path.starts_with(folder.canonicalize().ok()?) {
        return None;
    }
    let metadata = std::fs::metadata(&path).ok()?;
    if !metadata.is_file() || metadata.len() > manifest::ICON_ACCEPTED_MAX {
        return None;
    }
    let media_type = match relative.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "svg" => "image/svg+xml",
        "png" => "image/png",
        _ => "image/webp",
    };
    Some(Icon { bytes: std::fs::read(&path).ok()?, path, media_type })
}

/// The connectors of the system folder. It is read anew each time, since copying a folder installs a connector and
/// deleting it uninstalls it (13.1). A folder that doesn't exist has none.
pub fn installed(system: &Path) -> io::Result<Listing> {
    list(system, |_| true)
}

/// The connectors that can be used: those of the project, if there is one, and those of the system that it doesn't
/// cover (13.1).
pub fn available(system: &Path, project: Option<&Path>) -> io::Result<Listing> {
    let global = installed(system)?;
    let Some(project) = project else { return Ok(global) };
    let mut listing = list(project, |name| name != PROJECT_SOURCES)?;
    let covered = |package: &Package| listing.packages.iter().any(|own| own.manifest.id == package.manifest.id);
    let uncovered: Vec<Package> = global.packages.into_iter().filter(|package| !covered(package)).collect();
    listing.packages.extend(uncovered);
    listing.packages.sort_by(|one, other| one.manifest.id.cmp(&other.manifest.id));
    listing.broken.extend(global.broken);
    Ok(listing)
}

/// The skills of these connectors as a catalogue shows them: by connector id, and where two share a name the later one is
/// `<id>--<name>`. A skill of the person's own covers the first of its name, so `own` are the names of those (13.4).
pub fn published_skills(packages: &[Package], own: &[String]) -> Vec<PublishedSkill> {
    let mut packages: Vec<&Package> = packages.iter().collect();
    packages.sort_by(|one, other| one.manifest.id.cmp(&other.manifest.id));
    let mut published: Vec<PublishedSkill> = Vec::new();
    for package in packages {
        for (folder, skill) in package.skills() {
            let taken = published.iter().any(|other| other.name == skill.name);
            let acp = package.manifest.id.clone();
            let name = if taken { format!("{acp}--{}", skill.name) } else { skill.name.clone() };
            published.push(PublishedSkill { name, acp, folder, skill });
        }
    }
    published.retain(|skill| !own.contains(&skill.name));
    published
}

fn list(folder: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Listing> {
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    let mut broken = Vec::new();
    for folder in subfolders(folder)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || !wanted(&name) || !folder.join(MANIFEST).is_file() {
            continue;
        }
        match Package::read(&folder) {
            // Of two folders with the same id, the one that is named after it counts.
            Ok(package) if packages.contains_key(&package.manifest.id) && name != package.manifest.id => {
                broken.push((folder, format!("another folder has the id {}", package.manifest.id)));
            }
            Ok(package) => {
                if let Some(other) = packages.insert(package.manifest.id.clone(), package) {
                    broken.push((other.folder, format!("another folder has the id {}", other.manifest.id)));
                }
            }
            Err(error) => broken.push((folder, error.to_string())),
        }
    }
    Ok(Listing { packages: packages.into_values().collect(), broken })
}

/// Folders inside a folder, sorted; none where it doesn't exist.
pub(crate) fn subfolders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
