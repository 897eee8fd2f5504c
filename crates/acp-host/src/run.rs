//! The temporary folder of one running host, and what is left of those that ended in the middle.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "run-";
const LOCK: &str = ".lock";

/// A folder for tables on their way. It goes with this value. What a process that was killed leaves behind is removed by
/// the next one that starts: a folder whose lock nobody holds belongs to nobody.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: tempfile::TempDir,
    _lock: File,
}

impl RunFolder {
    /// A new folder below `parent`, for its owner alone.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(parent)?;
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        // Without locks nobody can tell whether it is abandoned, so nobody removes it.
        let _ = lock.try_lock();
        sweep(parent)?;
        Ok(Self { folder, _lock: lock })
    }

    /// A folder inside.
    pub(crate) fn subfolder(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }
}

/// Removes abandoned folders. One without a lock file is being made, or removed, by another process.
fn sweep(parent: &Path) -> io::Result<()> {
    for entry in parent.read_dir()? {
        let path = entry?.path();
        let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
        let abandoned = || File::options().write(true).open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if ours && abandoned() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
    Ok(())
}
