//! Starts a package in every way in which hosts start one, with an empty environment, and fails if one doesn't work.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use acp_host::client::ClientOptions;
use acp_host::install::{self, InstallOptions};
use acp_host::launch::{Environment, Launch};
use acp_host::package::{self, Package};
use acp_host::probe::{Probe, probe};
use acp_protocol::manifest::{PackageManifest, Transport};

use crate::Result;
use crate::served::{Greeting, Served};
use crate::workspace::{self, about};

/// Proves a zip and the folder it was made of.
pub(crate) fn prove(zip: &Path, folder: &Path, manifest: &PackageManifest) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // A space in the path shows whether anything forgets to quote.
    let place = tempfile::Builder::new().prefix("acp package ").tempdir()?;
    runtime.block_on(async {
        installed(zip, &place.path().join("installed"), manifest).await.map_err(about("installed from the zip"))?;
        copied(folder, &place.path().join("copied"), manifest).await.map_err(about("copied into a host's folder"))?;
        without_modes(zip, &place.path().join("no modes"), manifest)
            .await
            .map_err(about("unzipped without mode bits"))?;
        let copy = place.path().join("copied").join(&manifest.id);
        elsewhere(&copy, place.path(), manifest).await.map_err(about("started in another directory"))?;
        over_http(&copy, manifest).await.map_err(about("started over HTTP"))
    })
}

async fn installed(zip: &Path, system: &Path, manifest: &PackageManifest) -> Result<()> {
    let package = install_into(system, zip).await?;
    start(&launch(&package)?, &package.folder, manifest, "installed from the zip").await
}

async fn copied(folder: &Path, system: &Path, manifest: &PackageManifest) -> Result<()> {
    copy(folder, &system.join(&manifest.id))?;
    let listing = package::installed(system)?;
    let package = listing.packages.first().ok_or("it isn't listed")?;
    start(&launch(package)?, &package.folder, manifest, "copied into a host's folder").await
}

async fn without_modes(zip: &Path, system: &Path, manifest: &PackageManifest) -> Result<()> {
    let package = install_into(system, zip).await?;
    for file in workspace::files_below(&package.folder)? {
        drop_mode(&file)?;
    }
    start(&launch(&package)?, &package.folder, manifest, "unzipped without mode bits").await
}

async fn elsewhere(folder: &Path, directory: &Path, manifest: &PackageManifest) -> Result<()> {
    let package = Package::read(folder)?;
    // A relative command belongs to the working directory of such a host; only what is found by name can work.
    let launch = launch(&package)?.working_directory(directory).resolve_arguments();
    start(&launch, folder, manifest, "started in another directory").await
}

/// Starts the server by the `http` entry, on any free port, and greets it as a client does.
async fn over_http(folder: &Path, manifest: &PackageManifest) -> Result<()> {
    let (Transport::Stdio { command, .. }, Some(http)) = (&manifest.transport, &manifest.http) else { return Ok(()) };
    let mut arguments = http.args.clone();
    let port = arguments.iter().position(|argument| argument == "--port").ok_or("its arguments name no --port")?;
    *arguments.get_mut(port + 1).ok_or("--port has no value")? = "0".to_owned();
    let program = if command.ends_with(".exe") { folder.join(command) } else { command.into() };
    let mut server = tokio::process::Command::new(program);
    server.args(arguments).current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let Greeting { status, session, .. } = Served::start(&mut server).await?.greet().await?;
    if !status.is_success() || !session {
        return Err(format!("it answers initialize with {status}, with a session: {session}").into());
    }
    println!("  starts, over HTTP: {status}");
    Ok(())
}

fn launch(package: &Package) -> Result<Launch> {
    Ok(Launch::of(package)?.environment(Environment::Empty))
}

async fn install_into(system: &Path, zip: &Path) -> Result<Package> {
    let options = InstallOptions { environment: Environment::Empty, ..InstallOptions::default() };
    Ok(install::install(zip, system, &options).await?)
}

async fn start(launch: &Launch, folder: &Path, manifest: &PackageManifest, case: &str) -> Result<()> {
    let before = fingerprint(folder)?;
    let seen = probe(launch, ClientOptions::default().name("xtask")).await?;
    agree(&seen, manifest)?;
    if fingerprint(folder)? != before {
        return Err("the server wrote into its own folder".into());
    }
    println!("  starts, {case}: {} {}, {} tools", seen.server_name, seen.server_version, seen.tools.len());
    Ok(())
}

fn agree(seen: &Probe, manifest: &PackageManifest) -> Result<()> {
    for (what, announced, written) in [
        ("version", &seen.server_version, &manifest.version),
        ("ACP version", &seen.capability.version, &manifest.acp_version),
    ] {
        if announced != written {
            return Err(format!("the server announces {what} {announced}, acp.json says {written}").into());
        }
    }
    if seen.tools.is_empty() { Err("it publishes no tools".into()) } else { Ok(()) }
}

/// What a server that writes into its folder would change. Modes are not part of it: the start script may repair them.
fn fingerprint(folder: &Path) -> Result<Vec<(PathBuf, u64, SystemTime)>> {
    let files = workspace::files_below(folder)?;
    let fingerprint = |file: PathBuf| {
        let metadata = file.metadata()?;
        Ok((file, metadata.len(), metadata.modified()?))
    };
    files.into_iter().map(fingerprint).collect()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in workspace::files_below(from)? {
        let target = to.join(file.strip_prefix(from)?);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::copy(&file, &target)?;
    }
    Ok(())
}

#[cfg(unix)]
fn drop_mode(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644))?)
}

#[cfg(not(unix))]
fn drop_mode(_file: &Path) -> Result<()> {
    Ok(())
}
