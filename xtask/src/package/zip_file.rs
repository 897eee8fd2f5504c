//! The zip of a folder: the same bytes on every run, readable by every host (13.1.1).

use std::io::{Cursor, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipWriter};

use crate::Result;
use crate::workspace::{self, about};

/// Zips `folder`, under the folder name `name` where there is one, so that unzipping by hand gives one folder. Sorted entries, one fixed
/// time, Unix modes 0755 and 0644 whatever system this is, deflate, no zip64: a file that would need it is an error.
pub(crate) fn bytes(folder: &Path, name: Option<&str>, executable: impl Fn(&str) -> bool) -> Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(9))
        .last_modified_time(DateTime::from_date_and_time(1980, 1, 1, 0, 0, 0)?)
        .system(System::Unix)
        .large_file(false);
    for file in workspace::files_below(folder)? {
        let path = slashed(file.strip_prefix(folder)?)?;
        let mode = if executable(&path) { 0o755 } else { 0o644 };
        let path = name.map_or_else(|| path.clone(), |name| format!("{name}/{path}"));
        zip.start_file(path, options.unix_permissions(mode))?;
        zip.write_all(&std::fs::read(&file).map_err(about(file.display()))?)?;
    }
    Ok(zip.finish()?.into_inner())
}

fn slashed(path: &Path) -> Result<String> {
    let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
    Ok(parts.ok_or_else(|| format!("{} is not UTF-8", path.display()))?.join("/"))
}

#[cfg(test)]
mod tests {
    use zip::ZipArchive;

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("skills/toy")).unwrap();
        for (name, content) in
            [("toy", "\u{7f}ELF"), ("acp.json", "{}"), ("start.sh", "#!/bin/sh"), ("skills/toy/SKILL.md", "x")]
        {
            std::fs::write(folder.path().join(name), content.repeat(100)).unwrap();
        }
        folder
    }

    fn zip_of(folder: &tempfile::TempDir) -> Vec<u8> {
        bytes(folder.path(), Some("toy"), |path| matches!(path, "toy" | "start.sh")).unwrap()
    }

    /// Two folders that were written at different times and in different places give the same bytes.
    #[test]
    fn the_same_files_give_the_same_bytes() {
        let (one, other) = (folder(), folder());
        let touched = std::fs::File::options().write(true).open(other.path().join("acp.json")).unwrap();
        touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(zip_of(&one), zip_of(&other));
    }

    #[test]
    fn entries_are_sorted_with_fixed_modes_and_times_and_without_zip64() {
        let bytes = zip_of(&folder());
        for marker in [b"PK\x06\x06", b"PK\x06\x07"] {
            assert!(!bytes.windows(4).any(|window| window == marker));
        }
        let mut zip = ZipArchive::new(Cursor::new(bytes)).unwrap();
        let mut seen = Vec::new();
        for index in 0..zip.len() {
            let entry = zip.by_index(index).unwrap();
            assert_eq!(entry.compression(), CompressionMethod::Deflated);
            assert_eq!(entry.last_modified().map(|time| time.year()), Some(1980));
            assert_eq!(entry.extra_data_fields().count(), 0);
            seen.push((entry.name().unwrap().into_owned(), entry.unix_mode().unwrap() & 0o7777));
        }
        let expected = [("acp.json", 0o644), ("skills/toy/SKILL.md", 0o644), ("start.sh", 0o755), ("toy", 0o755)];
        assert_eq!(seen, expected.map(|(name, mode)| (format!("toy/{name}"), mode)));
    }
}
