//! `cargo xtask package`: a connector becomes an installable folder and a zip, and both are proved to start. `bridge` becomes
//! a bundle for MCP clients, with the connectors inside.

mod assemble;
mod bundle;
mod proof;
mod zip_file;

use std::path::{Path, PathBuf};

use acp_protocol::manifest::{self, PackageManifest};
use sha2::{Digest, Sha256};

pub(crate) use bundle::{PROGRAM, bundle, package as package_bundle};

use crate::Result;
use crate::workspace::{self, Metadata, about, relative};

/// Name of the bundle's packaging folder, which is no connector's.
pub(crate) const BUNDLE: &str = "bridge";

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Id of the connector, for example ga4, or bridge.
    #[arg(required_unless_present = "all")]
    id: Option<String>,
    /// Every connector.
    #[arg(long, conflicts_with = "id")]
    all: bool,
    #[command(flatten)]
    build: Build,
}

/// How the program is built.
#[derive(clap::Args, Default)]
pub(crate) struct Build {
    /// Target triple; this computer's unless given.
    #[arg(long)]
    pub(crate) target: Option<String>,
    /// Build without optimisation: quicker, and not to be published.
    #[arg(long)]
    pub(crate) debug: bool,
}

impl Build {
    /// The triple that is built for.
    pub(crate) fn target(&self) -> Result<String> {
        self.target.clone().map_or_else(workspace::host_target, Ok)
    }
}

/// Runs the task.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let metadata = workspace::metadata()?;
    let ids = match &arguments.id {
        Some(id) if id == BUNDLE => return bundle::package(&arguments.build, &metadata).map(|_| ()).map_err(about(id)),
        Some(id) => vec![id.clone()],
        None => workspace::folders_in("connectors")?,
    };
    ids.iter().try_for_each(|id| package(id, &arguments.build, &metadata).map(|_| ()).map_err(about(id)))
}

/// Builds, zips and proves one connector; returns its zip.
pub(crate) fn package(id: &str, build: &Build, metadata: &Metadata) -> Result<PathBuf> {
    let manifest = read_manifest(id, metadata)?;
    let host = workspace::host_target()?;
    let target = build.target.as_deref().unwrap_or(&host);
    let executable = compile(id, build, metadata, target)?;

    let dist = workspace::root().join("dist");
    let folder = dist.join(id);
    let manifest = assemble::folder(&folder, manifest, &executable, target)?;
    assemble::licences_of_others(&folder, &[id], target)?;
    let bytes = zip_file::bytes(&folder, Some(id), |path| assemble::is_executable(path, id))?;
    let zip = publish(&dist.join(format!("{id}-{}-{target}.zip", manifest.version)), &bytes)?;

    if target == host {
        proof::prove(&zip, &folder, &manifest)?;
    } else {
        println!("  not started: it is built for {target}, this computer is {host}");
    }
    Ok(zip)
}

/// Writes a package and tells what it is.
fn publish(file: &Path, bytes: &[u8]) -> Result<PathBuf> {
    std::fs::write(file, bytes).map_err(about(file.display()))?;
    println!("{}  {} bytes  sha256 {}", relative(file), bytes.len(), hex(&Sha256::digest(bytes)));
    Ok(file.to_path_buf())
}

/// The `acp.json` of the packaging folder, once it keeps every rule and has the version of the workspace.
fn read_manifest(id: &str, metadata: &Metadata) -> Result<PackageManifest> {
    let Some(member) = metadata.packages.iter().find(|member| member.name == id && member.is_connector()) else {
        let known = workspace::folders_in("connectors")?.join(", ");
        return Err(format!("there is no such connector\n\nhint: there are {known}, and {BUNDLE}").into());
    };
    let path = workspace::root().join("packaging").join(id).join("acp.json");
    let text = std::fs::read_to_string(&path).map_err(about(relative(&path)))?;
    let mut problems = manifest::validate(&text);
    let manifest = PackageManifest::read(&text)?;
    if manifest.id != id || manifest.version != member.version {
        let (written, version) = (&manifest.version, &member.version);
        problems.push(format!("it is {} {written}, the workspace has {id} {version}", manifest.id));
    }
    match problems.first() {
        None => Ok(manifest),
        Some(problem) => {
            Err(format!("{}: {problem}\n\nhint: `cargo xtask check` names them all", relative(&path)).into())
        }
    }
}

/// Compiles the program. A release build goes to a folder of its own with the paths of this computer taken out, so that
/// the same sources give the same program wherever they are built.
fn compile(id: &str, build: &Build, metadata: &Metadata, target: &str) -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    let mut folder = metadata.target_directory.clone();
    cargo.args(["build", "--package", id, "--bin", id]);
    if !build.debug {
        folder.push("package");
        cargo.args(["--release", "--locked", "--target-dir"]).arg(&folder);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", path_flags().join("\x1f"));
    }
    if let Some(target) = &build.target {
        cargo.args(["--target", target]);
        folder.push(target);
    }
    if !cargo.status()?.success() {
        return Err("the build failed".into());
    }
    folder.push(if build.debug { "debug" } else { "release" });
    Ok(folder.join(assemble::executable_name(id, target)))
}

/// Panic messages name source files; these flags shorten what is in front of them.
fn path_flags() -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let shorter = |folder: &Path, name: &str| format!("--remap-path-prefix={}={name}", folder.display());
    let own = std::env::var("RUSTFLAGS").unwrap_or_default();
    let own = own.split_whitespace().map(str::to_owned);
    let home = home.map(|home| shorter(&home, "cargo"));
    own.chain(home).chain([shorter(workspace::root(), ".")]).collect()
}

/// Bytes as digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Stands in for a connector: answers as an ACP server does.
    const PROGRAM: &str = r#"#!/bin/sh
EXTRA
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case $line in
  *'"initialize"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"ga4","version":"VERSION"},"capabilities":{"experimental":{"acp":{"version":"1.0","defaults":{"row_limit":25,"cost_limit_usd":0},"credentials_schema":{"type":"object","properties":{}},"resource_id":{"description":"d","format":"none","examples":[]},"autocontext":{"cache_ttl_s":1,"delivery":["suggest"]},"cost":{"currency":"USD","model":"free","description":"d"},"extraction_tools":[]}}}}}\n' "$id" ;;
  *'"tools/list"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"autocontext","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
  esac
done
"#;

    fn prove(place: &Path, version: &str, extra: &str) -> Result<()> {
        // The stand-in does not speak HTTP.
        prove_with(place, version, extra, |manifest| manifest.http = None)
    }

    fn prove_with(place: &Path, version: &str, extra: &str, change: impl Fn(&mut PackageManifest)) -> Result<()> {
        let program = place.join("built");
        std::fs::write(&program, PROGRAM.replace("VERSION", version).replace("EXTRA", extra))?;
        let folder = place.join("ga4");
        let mut manifest = read_manifest("ga4", &workspace::metadata()?)?;
        change(&mut manifest);
        let manifest = assemble::folder(&folder, manifest, &program, "x86_64-unknown-linux-gnu")?;
        let zip = place.join("ga4.zip");
        std::fs::write(&zip, zip_file::bytes(&folder, Some("ga4"), |path| assemble::is_executable(path, "ga4"))?)?;
        proof::prove(&zip, &folder, &manifest)
    }

    #[test]
    fn a_package_is_started_in_every_way() {
        let place = tempfile::tempdir().unwrap();
        prove(place.path(), env!("CARGO_PKG_VERSION"), "").unwrap();
        let files = workspace::files_below(&place.path().join("ga4")).unwrap();
        let names: Vec<String> =
            files.iter().map(|file| file.strip_prefix(place.path()).unwrap().display().to_string()).collect();
        for name in ["acp.json", "ga4", "icon.svg", "README.md", "skills/ga4-reporting/SKILL.md", "start.sh"] {
            assert!(names.contains(&format!("ga4/{name}")), "{name}: {names:?}");
        }
    }

    #[test]
    fn a_package_that_breaks_a_promise_is_refused() {
        for (version, extra, needle) in [
            ("9.9.9", "", "version 9.9.9"),
            (env!("CARGO_PKG_VERSION"), "echo x > \"${0%/*}/cache\"", "own folder"),
            (
                env!("CARGO_PKG_VERSION"),
                "[ -z \"${PWD##*package*}\" ] && [ -e start.sh ] || exit 1",
                "another directory",
            ),
        ] {
            let place = tempfile::tempdir().unwrap();
            let error = prove(place.path(), version, extra).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
    }

    #[test]
    fn a_package_that_promises_http_and_does_not_serve_it_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let error = prove_with(place.path(), env!("CARGO_PKG_VERSION"), "", |_| ()).unwrap_err().to_string();
        assert!(error.contains("over HTTP"), "{error}");
    }

    /// A folder that can't be changed and lost its mode bits: the script starts a private copy and removes it.
    #[test]
    fn the_script_starts_a_copy_where_nothing_may_be_executed() {
        let place = tempfile::tempdir().unwrap();
        prove(place.path(), env!("CARGO_PKG_VERSION"), "").unwrap();
        let folder = place.path().join("ga4");
        let script = folder.join("start.sh");
        // Root may change any mode, so the test takes the attempt out of the script.
        let text = std::fs::read_to_string(&script).unwrap().replace("chmod u+x", "false");
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(folder.join("ga4"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let temporary = place.path().join("tmp dir");
        std::fs::create_dir(&temporary).unwrap();
        let package = acp_host::package::Package::read(&folder).unwrap();
        let launch = acp_host::launch::Launch::of(&package).unwrap().tmp_dir(&temporary);
        let launch = launch.environment(acp_host::launch::Environment::Empty);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let seen = runtime.block_on(acp_host::probe::probe(&launch, Default::default())).unwrap();
        assert_eq!(seen.tools.len(), 1);
        assert_eq!(temporary.read_dir().unwrap().count(), 0);
    }

    #[test]
    fn on_windows_the_program_is_started_without_a_shell() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("built");
        std::fs::write(&program, "MZ").unwrap();
        let folder = place.path().join("ga4");
        let manifest = read_manifest("ga4", &workspace::metadata().unwrap()).unwrap();
        assemble::folder(&folder, manifest, &program, "x86_64-pc-windows-msvc").unwrap();
        let text = std::fs::read_to_string(folder.join("acp.json")).unwrap();
        assert_eq!(manifest::validate(&text), Vec::<String>::new());
        assert!(text.contains("\"command\": \"ga4.exe\"") && !text.contains("start.sh"), "{text}");
        assert!(folder.join("ga4.exe").is_file() && !folder.join("start.sh").exists());
    }
}
