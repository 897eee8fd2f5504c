//! Reads the zip of a connector without trusting it (13.1.1).
//!
//! Everything that could make unpacking write outside the folder, write more than the zip promises, or write something
//! else than another program would, is refused before the first byte is written.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use acp_protocol::manifest::PackageManifest;
use zip::read::ZipFile;
use zip::{CompressionMethod, ExtraField, ZipArchive};

use crate::package::MANIFEST;

/// Most entries of a zip.
pub const ENTRIES_MAX: usize = 10_000;
/// Most bytes that a zip may unpack to, and most bytes of the zip itself.
pub const UNPACKED_MAX: u64 = 1024 * 1024 * 1024;
/// An entry above this size that shrank by more than [`RATIO_MAX`] is taken for a bomb.
const SUSPICIOUS_SIZE: u64 = 16 * 1024 * 1024;
const RATIO_MAX: u64 = 200;
/// An `acp.json` is a few hundred bytes.
const MANIFEST_MAX: u64 = 1024 * 1024;
const FILE_TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const OWNER_EXECUTES: u32 = 0o100;

/// Why a zip isn't unpacked.
#[derive(Debug)]
pub enum ArchiveError {
    /// It can't be read, or the files can't be written.
    Io(io::Error),
    /// It is no zip, or a damaged one.
    Damaged(String),
    /// It holds no `acp.json`, or one that can't be used.
    Manifest(String),
    /// It breaks a rule of 13.1.1 or is unsafe to unpack.
    Refused(String),
}

impl std::fmt::Display for ArchiveError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(formatter, "{error}"),
            Self::Damaged(reason) => write!(formatter, "the zip can't be read: {reason}"),
            Self::Manifest(reason) => formatter.write_str(reason),
            Self::Refused(reason) => write!(formatter, "the zip is refused: {reason}"),
        }
    }
}

impl std::error::Error for ArchiveError {}

impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<zip::result::ZipError> for ArchiveError {
    fn from(error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(error) => Self::Io(error),
            other => Self::Damaged(other.to_string()),
        }
    }
}

/// A zip that passed every check; [`unpack`](Self::unpack) writes it.
#[derive(Debug)]
pub struct Archive {
    zip: ZipArchive<File>,
    entries: Vec<Entry>,
    manifest: PackageManifest,
}

/// One entry below the folder of `acp.json`.
#[derive(Debug)]
struct Entry {
    index: usize,
    /// Path below that folder.
    path: PathBuf,
    directory: bool,
    executable: bool,
    size: u64,
}

impl Archive {
    /// Opens a zip and checks all of it, also what lies outside the folder of `acp.json` and won't be unpacked.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(named)?;
        if file.metadata()?.len() > UNPACKED_MAX {
            return Err(refused(format!("it is larger than {UNPACKED_MAX} bytes")));
        }
        let mut zip = ZipArchive::new(file)?;
        if zip.len() > ENTRIES_MAX {
            return Err(refused(format!("it has more than {ENTRIES_MAX} entries")));
        }
        refuse_zip64(path, &mut zip)?;
        // Local headers must say what the central directory says, or two readers would unpack two different things.
        zip.validate_header_consistency()?;
        let names = check_entries(&mut zip)?;
        let root = root_of(&names)?;
        let manifest = read_manifest(&mut zip, &names, &root)?;
        let entries = below(&mut zip, &names, &root)?;
        Ok(Self { zip, entries, manifest })
    }

    /// The `acp.json` that counts: the shallowest.
    pub fn manifest(&self) -> &PackageManifest {
        &self.manifest
    }

    /// Writes everything below the folder of `acp.json` into `folder`, which must be empty. Files that the zip marks as
    /// executable for their owner get mode 0755, others 0644.
    pub fn unpack(&mut self, folder: &Path) -> Result<(), ArchiveError> {
        for entry in &self.entries {
            let target = folder.join(&entry.path);
            if entry.directory {
                std::fs::create_dir_all(&target)?;
                continue;
            }
            if let Some(parent) = target.parent() {
                std::fs::create_dir_all(parent)?;
            }
            // `create_new` also catches names that only this file system takes for the same.
            let mut file = File::create_new(&target)?;
            copy_exactly(&mut self.zip.by_index(entry.index)?, &mut file, entry.size)?;
            set_mode(&file, entry.executable)?;
        }
        Ok(())
    }
}

fn refused(reason: impl Into<String>) -> ArchiveError {
    ArchiveError::Refused(reason.into())
}

/// The records of zip64 lie between the central directory and the end of the file, its fields in the entries.
fn refuse_zip64(path: &Path, zip: &mut ZipArchive<File>) -> Result<(), ArchiveError> {
    let mut tail = Vec::new();
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(zip.central_directory_start()))?;
    file.read_to_end(&mut tail)?;
    let mut zip64 = tail.windows(4).any(|window| window == b"PK\x06\x06" || window == b"PK\x06\x07");
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index)?;
        zip64 |= entry.extra_data_fields().any(|field| matches!(field, ExtraField::Zip64ExtendedInformation(_)));
    }
    if zip64 { Err(refused("zip64 is not supported")) } else { Ok(()) }
}

/// Checks every entry and returns their names, in the order of the zip.
fn check_entries(zip: &mut ZipArchive<File>) -> Result<Vec<String>, ArchiveError> {
    let mut names = Vec::with_capacity(zip.len());
    let mut seen = HashSet::new();
    let mut total: u64 = 0;
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index)?;
        let name = safe_name(&entry)?;
        check_entry(&name, &entry)?;
        total = total.saturating_add(entry.size());
        if total > UNPACKED_MAX {
            return Err(refused(format!("it unpacks to more than {UNPACKED_MAX} bytes")));
        }
        if !seen.insert(name.trim_end_matches('/').to_lowercase()) {
            return Err(refused(format!("it holds {name} twice")));
        }
        names.push(name);
    }
    Ok(names)
}

fn check_entry(name: &str, entry: &ZipFile<'_, File>) -> Result<(), ArchiveError> {
    if entry.encrypted() {
        return Err(refused(format!("{name} is encrypted")));
    }
    if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
        return Err(refused(format!("{name} is neither stored nor deflated")));
    }
    let kind = entry.unix_mode().unwrap_or_default() & FILE_TYPE;
    if !matches!(kind, 0 | REGULAR | DIRECTORY) || (kind == DIRECTORY) && !entry.is_dir() {
        return Err(refused(format!("{name} is a link or a special file")));
    }
    if entry.size() > SUSPICIOUS_SIZE && entry.size() / RATIO_MAX > entry.compressed_size() {
        return Err(refused(format!("{name} unpacks to more than {RATIO_MAX} times its size")));
    }
    Ok(())
}

/// The name of an entry, if it is a path below the folder on every system: no `..`, no absolute path, no drive, no
/// backslash, no control character.
fn safe_name(entry: &ZipFile<'_, File>) -> Result<String, ArchiveError> {
    let name = entry.name()?.into_owned();
    let path = name.strip_suffix('/').unwrap_or(&name);
    let raw = entry.name_raw();
    let safe = !raw.iter().any(|byte| matches!(byte, 0 | b'\\'))
        && !path.chars().any(|character| character.is_control() || matches!(character, '\\' | ':'))
        && path.split('/').all(is_safe_component);
    if safe { Ok(name) } else { Err(refused(format!("the path {name:?} is not safe to unpack"))) }
}

fn is_safe_component(component: &str) -> bool {
    let plain = !matches!(component, "" | "." | "..");
    // Windows drops these ends and reserves these names, with any extension.
    let reserved = cfg!(windows) && {
        let stem = component.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
        let device = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str());
        let port = matches!(stem.get(..3), Some("COM" | "LPT")) && stem.chars().count() == 4;
        device || port || component.ends_with(['.', ' '])
    };
    plain && !reserved
}

/// The folder of the shallowest `acp.json`, with its final slash; empty for the root of the zip.
fn root_of(names: &[String]) -> Result<String, ArchiveError> {
    let folders = names.iter().filter_map(|name| name.strip_suffix(MANIFEST));
    let shallowest = folders
        .filter(|folder| folder.is_empty() || folder.ends_with('/'))
        .min_by_key(|folder| (folder.matches('/').count(), *folder));
    let missing = || ArchiveError::Manifest(format!("the zip holds no {MANIFEST}"));
    Ok(shallowest.ok_or_else(missing)?.to_owned())
}

fn read_manifest(zip: &mut ZipArchive<File>, names: &[String], root: &str) -> Result<PackageManifest, ArchiveError> {
    let path = format!("{root}{MANIFEST}");
    let index = names.iter().position(|name| *name == path).unwrap_or_default();
    let mut entry = zip.by_index(index)?;
    let size = entry.size();
    if size > MANIFEST_MAX {
        return Err(ArchiveError::Manifest(format!("{path} is larger than {MANIFEST_MAX} bytes")));
    }
    let mut text = Vec::new();
    copy_exactly(&mut entry, &mut text, size)?;
    let text = String::from_utf8(text).map_err(|_| ArchiveError::Manifest(format!("{path} is not UTF-8")))?;
    PackageManifest::read(&text).map_err(|error| ArchiveError::Manifest(error.to_string()))
}

fn below(zip: &mut ZipArchive<File>, names: &[String], root: &str) -> Result<Vec<Entry>, ArchiveError> {
    let mut entries = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let Some(path) = name.strip_prefix(root).filter(|path| !path.is_empty()) else { continue };
        let entry = zip.by_index_raw(index)?;
        entries.push(Entry {
            index,
            path: path.split('/').filter(|component| !component.is_empty()).collect(),
            directory: entry.is_dir(),
            executable: entry.unix_mode().is_some_and(|mode| mode & OWNER_EXECUTES != 0),
            size: entry.size(),
        });
    }
    Ok(entries)
}

/// Copies an entry; one that is longer or shorter than the zip says is refused as soon as that shows.
fn copy_exactly(entry: &mut impl Read, target: &mut impl Write, size: u64) -> Result<(), ArchiveError> {
    let written = io::copy(&mut entry.take(size + 1), target)?;
    if written == size { Ok(()) } else { Err(refused("an entry doesn't have the size that the zip gives")) }
}

#[cfg(unix)]
fn set_mode(file: &File, executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
}

#[cfg(not(unix))]
fn set_mode(_file: &File, _executable: bool) -> io::Result<()> {
    Ok(())
}
