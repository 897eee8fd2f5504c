//! A zip becomes a folder, once its server has proved to work (13.1.1).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::archive::{Archive, ArchiveError};
use crate::client::{ClientError, ClientOptions};
use crate::launch::{Environment, Launch};
use crate::package::{self, MANIFEST, Package};
use crate::probe::{self, Probe};
use crate::run::is_old;

/// Why nothing was installed, or nothing was removed. What was installed before is untouched.
#[derive(Debug)]
pub enum InstallError {
    /// The zip can't be used.
    Archive(ArchiveError),
    /// The server in it doesn't start, or is no ACP server.
    Server(ClientError),
    /// The destination holds something else, or there is nothing to uninstall.
    Destination(String),
    /// Files can't be written, moved or removed.
    Io(io::Error),
}

impl std::fmt::Display for InstallError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Archive(error) => write!(formatter, "{error}"),
            Self::Server(error) => write!(formatter, "the server of the package doesn't pass: {error}"),
            Self::Destination(reason) => formatter.write_str(reason),
            Self::Io(error) => write!(formatter, "{error}"),
        }
    }
}

impl std::error::Error for InstallError {}

impl From<io::Error> for InstallError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// How the server is started for its test.
#[derive(Clone, Default)]
pub struct InstallOptions {
    /// What it inherits of the environment.
    pub environment: Environment,
    /// Variables it gets besides.
    pub variables: Vec<(String, String)>,
    /// How the host introduces itself, and how long it waits.
    pub client: ClientOptions,
}

/// A package that was unpacked next to its destination and whose server passed. Dropping it removes it again.
#[derive(Debug)]
pub struct Prepared {
    unpacked: tempfile::TempDir,
    package: Package,
    probe: Probe,
    system: PathBuf,
}

/// Installs a zip into the system folder: [`prepare`] and [`Prepared::commit`]. A host that may have a server of the
/// same id running calls the two itself and ends that server in between (13.1.1, step 4).
pub async fn install(zip: &Path, system: &Path, options: &InstallOptions) -> Result<Package, InstallError> {
    let prepared = prepare(zip, system, options).await?;
    blocking(move || prepared.commit()).await
}

/// Unpacks a zip into a hidden folder of the system folder, starts its server from there by its `acp.json`, and requires it
/// to announce ACP and to answer `tools/list` (13.1.1, steps 1 to 3).
pub async fn prepare(zip: &Path, system: &Path, options: &InstallOptions) -> Result<Prepared, InstallError> {
    let (zip, destination) = (zip.to_path_buf(), system.to_path_buf());
    let (unpacked, package) = blocking(move || unpack(&zip, &destination)).await?;
    let launch = Launch::of(&package).map_err(InstallError::Server)?.environment(options.environment);
    let launch = options.variables.iter().fold(launch, |launch, (name, value)| launch.variable(name, value));
    let probe = probe::probe(&launch, options.client.clone()).await.map_err(InstallError::Server)?;
    Ok(Prepared { unpacked, package, probe, system: system.to_path_buf() })
}

impl Prepared {
    /// What will be installed.
    pub fn package(&self) -> &Package {
        &self.package
    }

    /// What its server published.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Puts the new folder in place of the old one (13.1.1, step 4). If that fails, the old one is put back.
    pub fn commit(self) -> Result<Package, InstallError> {
        let _turn = lock(&self.system)?;
        let id = &self.package.manifest.id;
        let destination = self.system.join(id);
        let former = former_folder(&self.system, id)?;
        let aside = tempfile::Builder::new().prefix(FORMER).tempdir_in(&self.system)?;
        let kept = aside.path().join(UNPACKED);
        if let Some(former) = &former {
            std::fs::rename(former, &kept)?;
        }
        if let Err(error) = std::fs::rename(self.unpacked.path().join(UNPACKED), &destination) {
            if let Some(former) = &former
                && let Err(second) = std::fs::rename(&kept, former)
            {
                // The only copy of the former version must not go with the temporary folder.
                let kept = aside.keep().join(UNPACKED);
                let kept = kept.display();
                let text = format!("{error}; the former version could not be put back and is now in {kept}: {second}");
                return Err(std::io::Error::new(second.kind(), text).into());
            }
            return Err(error.into());
        }
        Ok(Package { folder: destination, manifest: self.package.manifest })
    }
}

/// Removes an installed connector. It is moved aside first, so that a half removed folder is never listed.
pub fn uninstall(id: &str, system: &Path) -> Result<(), InstallError> {
    let Some(package) = package::installed(system)?.packages.into_iter().find(|package| package.manifest.id == id)
    else {
        return Err(InstallError::Destination(format!("{id} is not installed")));
    };
    let _turn = lock(system)?;
    let aside = tempfile::Builder::new().prefix(REMOVED).tempdir_in(system)?;
    std::fs::rename(&package.folder, aside.path().join(UNPACKED))?;
    Ok(aside.close()?)
}

/// Cleans up after programs that ended in the middle of an installation or a removal: a former version whose successor never
/// came is put back, and everything else of theirs is removed. What still runs is left alone.
pub fn recover(system: &Path) -> io::Result<()> {
    let left: Vec<PathBuf> =
        package::subfolders(system)?.into_iter().filter(|folder| prefix(folder).is_some()).collect();
    if left.is_empty() {
        return Ok(());
    }
    let _turn = lock(system)?;
    for folder in left {
        let kept = folder.join(UNPACKED);
        match prefix(&folder) {
            Some(FORMER) => {
                if let Ok(former) = Package::read(&kept)
                    && former_folder(system, &former.manifest.id).is_ok_and(|installed| installed.is_none())
                {
                    std::fs::rename(&kept, system.join(&former.manifest.id))?;
                }
            }
            // Whoever unpacks holds no lock: it may take a while, and its server is tried meanwhile.
            Some(UNPACKING) if !is_old(&folder) => continue,
            _ => {}
        }
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// Folder inside a hidden folder; an inner one can be moved away while the outer one cleans up after itself.
const UNPACKED: &str = "folder";
/// What the names of hidden folders begin with: what is being unpacked, the version that is being replaced, and what is
/// being removed.
const UNPACKING: &str = ".install-";
const FORMER: &str = ".former-";
const REMOVED: &str = ".removed-";

fn prefix(folder: &Path) -> Option<&'static str> {
    let name = folder.file_name()?.to_str()?;
    [UNPACKING, FORMER, REMOVED].into_iter().find(|prefix| name.starts_with(prefix))
}

/// One program at a time changes a folder of connectors. The lock lies beside it: all that is in it is a connector.
fn lock(system: &Path) -> io::Result<File> {
    let mut name = system.file_name().unwrap_or_default().to_os_string();
    name.push(".lock");
    let lock = File::create(system.with_file_name(name))?;
    match lock.lock() {
        // Some network folders have no locks; then two programs at once are the person's to avoid.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        locked => locked?,
    }
    Ok(lock)
}

fn unpack(zip: &Path, system: &Path) -> Result<(tempfile::TempDir, Package), InstallError> {
    let mut archive = Archive::open(zip).map_err(InstallError::Archive)?;
    let manifest = archive.manifest().clone();
    std::fs::create_dir_all(system)?;
    recover(system)?;
    // Refuse an occupied destination before any work is done.
    former_folder(system, &manifest.id)?;
    let unpacked = tempfile::Builder::new().prefix(UNPACKING).tempdir_in(system)?;
    let folder = unpacked.path().join(UNPACKED);
    std::fs::create_dir(&folder)?;
    archive.unpack(&folder).map_err(InstallError::Archive)?;
    Ok((unpacked, Package { folder, manifest }))
}

/// The folder that an installation of this id replaces: the one that has the id, whatever its name (13.1).
fn former_folder(system: &Path, id: &str) -> Result<Option<PathBuf>, InstallError> {
    let listing = package::installed(system)?;
    let named = system.join(id);
    let occupied = |reason: &str| Err(InstallError::Destination(format!("{} {reason}", named.display())));
    if let Some(other) = listing.packages.iter().find(|package| package.folder == named && package.manifest.id != id) {
        return occupied(&format!("holds another connector, {}", other.manifest.id));
    }
    if let Some(package) = listing.packages.into_iter().find(|package| package.manifest.id == id) {
        if package.folder != named && named.exists() {
            return occupied("is in the way");
        }
        return Ok(Some(package.folder));
    }
    if !named.exists() {
        return Ok(None);
    }
    if !named.join(MANIFEST).exists() && named.read_dir()?.next().is_some() {
        return occupied("holds files that are no connector");
    }
    Ok(Some(named))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, InstallError> + Send + 'static,
) -> Result<T, InstallError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| InstallError::Io(io::Error::other(error)))?
}
