//! The temporary folder of one running host, and what is left of those that ended in the middle.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = "run-";
const LOCK: &str = ".lock";
/// Nothing that is made in a temporary folder takes this long.
const OLD: Duration = Duration::from_secs(3600);

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

/// Removes abandoned folders. The lock goes last: what can't be removed yet, since a server whose host was killed still
/// writes there, is for the next start.
fn sweep(parent: &Path) -> io::Result<()> {
    for entry in parent.read_dir()? {
        let path = entry?.path();
        let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
        let abandoned = match File::options().write(true).open(path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            // It is being made, or its maker ended between two steps.
            Err(error) => error.kind() == io::ErrorKind::NotFound && is_old(&path),
        };
        if ours && abandoned && remove_content(&path).is_ok() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
    Ok(())
}

fn remove_content(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether nobody can still be making what is in a folder.
pub(crate) fn is_old(path: &Path) -> bool {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > OLD))
}
