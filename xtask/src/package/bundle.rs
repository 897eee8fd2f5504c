//! `cargo xtask package bridge`: the bridge with the connectors inside, as one `.mcpb` for MCP clients that install bundles.
//! A connector alone would be of no use to them, since they send no `_meta.acp`.

use std::path::{Path, PathBuf};

use acp_host::client::ClientOptions;
use acp_host::launch::{Environment, Launch};
use serde_json::Value;

use super::{BUNDLE, Build, assemble, compile, publish, read_manifest, zip_file};
use crate::Result;
use crate::workspace::{self, Metadata, about};

/// The program of the bridge.
pub(crate) const PROGRAM: &str = "acp";
/// Folder of the bundle that holds the connectors, as the bridge looks for them below its `--root`.
const CONNECTORS: &str = "acps";
const MANIFEST: &str = "manifest.json";

/// Builds, zips and proves the bundle; returns its file.
pub(crate) fn package(build: &Build, metadata: &Metadata) -> Result<PathBuf> {
    let host = workspace::host_target()?;
    let target = build.target.as_deref().unwrap_or(&host);
    let dist = workspace::root().join("dist");
    let file = bundle(&dist, metadata, target, |id| compile(id, build, metadata, target))?;
    if target == host {
        prove(&dist.join(BUNDLE))?;
    } else {
        println!("  not started: it is built for {target}, this computer is {host}");
    }
    Ok(file)
}

/// Makes the bundle in the folder `dist`, of programs that `program` finds.
pub(crate) fn bundle(
    dist: &Path,
    metadata: &Metadata,
    target: &str,
    program: impl Fn(&str) -> Result<PathBuf>,
) -> Result<PathBuf> {
    let folder = dist.join(BUNDLE);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(about(folder.display()))?;
    }
    let version = &metadata.packages.iter().find(|member| member.name == PROGRAM).ok_or("there is no acp")?.version;
    assemble_bridge(&folder, &program(PROGRAM)?, version, target)?;
    let connectors = workspace::folders_in("connectors")?;
    for id in &connectors {
        let manifest = read_manifest(id, metadata)?;
        assemble::folder(&folder.join(CONNECTORS).join(id), manifest, &program(id)?, target)?;
    }
    let programs: Vec<&str> = std::iter::once(PROGRAM).chain(connectors.iter().map(String::as_str)).collect();
    assemble::licences_of_others(&folder, &programs, target)?;
    let bytes = zip_file::bytes(&folder, None, is_executable)?;
    publish(&dist.join(format!("acp-bridge-{version}-{target}.mcpb")), &bytes)
}

/// The bridge itself, with the manifest for this target.
fn assemble_bridge(folder: &Path, program: &Path, version: &str, target: &str) -> Result<()> {
    let source = workspace::root().join("packaging").join(BUNDLE);
    for file in workspace::files_below(&source)? {
        assemble::copy(&file, &folder.join(file.strip_prefix(&source)?), false)?;
    }
    for licence in assemble::LICENCES {
        assemble::copy(&workspace::root().join(licence), &folder.join(licence), false)?;
    }
    let executable = format!("server/{}", assemble::executable_name(PROGRAM, target));
    assemble::copy(program, &folder.join(&executable), true)?;
    let path = folder.join(MANIFEST);
    let mut manifest: Value = serde_json::from_str(&std::fs::read_to_string(&path)?).map_err(about(MANIFEST))?;
    manifest["version"] = version.into();
    manifest["server"]["entry_point"] = executable.as_str().into();
    manifest["server"]["mcp_config"]["command"] = format!("${{__dirname}}/{executable}").into();
    manifest["compatibility"]["platforms"] = vec![platform(target)?].into();
    Ok(std::fs::write(&path, serde_json::to_string_pretty(&manifest)? + "\n")?)
}

/// What MCPB calls the system of a target.
fn platform(target: &str) -> Result<&'static str> {
    [("-windows-", "win32"), ("-apple-darwin", "darwin"), ("-linux-", "linux")]
        .into_iter()
        .find_map(|(part, name)| target.contains(part).then_some(name))
        .ok_or_else(|| format!("{target}: bundles are for Windows, macOS and Linux").into())
}

/// Programs lie in `server`, those of connectors in their folders.
fn is_executable(path: &str) -> bool {
    if path.starts_with("server/") {
        return true;
    }
    let inside = path.strip_prefix(CONNECTORS).and_then(|path| path.strip_prefix('/'));
    inside.and_then(|path| path.split_once('/')).is_some_and(|(id, file)| assemble::is_executable(file, id))
}

/// Starts the bundle as its manifest says, from a folder with a space, with what its form asks for, and looks whether every
/// connector's tools are there.
fn prove(folder: &Path) -> Result<()> {
    let place = tempfile::Builder::new().prefix("acp bundle ").tempdir()?;
    let installed = place.path().join(BUNDLE);
    for file in workspace::files_below(folder)? {
        let path = file.strip_prefix(folder)?;
        let slashed = path.to_string_lossy().replace('\\', "/");
        assemble::copy(&file, &installed.join(path), is_executable(&slashed))?;
    }
    let key = place.path().join("key.json");
    std::fs::write(&key, "{}")?;
    let project = place.path().join("project");
    std::fs::create_dir(&project)?;
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(installed.join(MANIFEST))?)?;
    // What a person who changes nothing leaves in the form.
    let mut form: Vec<(String, String)> = Vec::new();
    for (field, asked) in manifest["user_config"].as_object().into_iter().flatten() {
        let value = match field.as_str() {
            "google_key" => key.display().to_string(),
            "project" => project.display().to_string(),
            _ => asked["default"].as_str().map_or_else(|| asked["default"].to_string(), str::to_owned),
        };
        form.push((format!("${{user_config.{field}}}"), value));
    }
    let filled = |text: &str| {
        let text = text.replace("${__dirname}", &installed.display().to_string());
        form.iter().fold(text, |text, (field, value)| text.replace(field, value))
    };
    let config = &manifest["server"]["mcp_config"];
    let text = |value: &Value| value.as_str().map(&filled).unwrap_or_default();
    let arguments: Vec<String> = config["args"].as_array().into_iter().flatten().map(text).collect();
    let mut launch = Launch::program(&installed, text(&config["command"])).arguments(arguments);
    for (name, value) in config["env"].as_object().into_iter().flatten() {
        launch = launch.variable(name, text(value));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = launch.environment(Environment::Essential).spawn(ClientOptions::default().capability(None))?;
        let welcome = server.client().initialize().await?;
        let tools = server.client().list_tools().await?;
        for id in workspace::folders_in("connectors")? {
            let prefix = format!("{id}__");
            if !tools.iter().any(|tool| tool.name.starts_with(&prefix)) {
                return Err(format!("it publishes no tool of {id}").into());
            }
        }
        server.close().await?;
        println!("  starts: {} {}, {} tools", welcome.server_name, welcome.server_version, tools.len());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B-16.2-01, B-16.2-02: one folder with everything in it, made by one command. Those of the reference are for Node.js.
    /// A bundle for each system names its own program, and nothing but programs is executable.
    #[test]
    fn the_manifest_is_that_of_its_system() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("built");
        std::fs::write(&program, "MZ").unwrap();
        for (target, system, executable) in [
            ("x86_64-unknown-linux-gnu", "linux", "server/acp"),
            ("aarch64-apple-darwin", "darwin", "server/acp"),
            ("x86_64-pc-windows-msvc", "win32", "server/acp.exe"),
        ] {
            let folder = place.path().join(target);
            assemble_bridge(&folder, &program, "1.2.3", target).unwrap();
            let manifest: Value =
                serde_json::from_str(&std::fs::read_to_string(folder.join(MANIFEST)).unwrap()).unwrap();
            assert_eq!(manifest["server"]["entry_point"], executable);
            assert_eq!(manifest["server"]["mcp_config"]["command"], format!("${{__dirname}}/{executable}"));
            assert_eq!(
                (&manifest["compatibility"]["platforms"][0], &manifest["version"]),
                (&system.into(), &"1.2.3".into())
            );
            assert!(folder.join(executable).is_file());
        }
        assert!(platform("wasm32-wasip2").is_err());
        for (path, executable) in [
            ("server/acp", true),
            ("acps/ga4/ga4", true),
            ("acps/ga4/start.sh", true),
            ("acps/ga4/acp.json", false),
            ("sources.json", false),
            ("ga4", false),
        ] {
            assert_eq!(is_executable(path), executable, "{path}");
        }
    }

    /// Whatever the form asks for is used, and whatever is used is asked for.
    #[test]
    fn the_form_and_the_sources_fit() {
        let read = |name: &str| {
            let path = workspace::root().join("packaging").join(BUNDLE).join(name);
            serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        let (manifest, sources) = (read(MANIFEST), read("sources.json"));
        let config = manifest["server"]["mcp_config"].to_string();
        for field in manifest["user_config"].as_object().unwrap().keys() {
            assert!(config.contains(&format!("${{user_config.{field}}}")), "{field} is asked for in vain");
        }
        assert_eq!(config.matches("${user_config.").count(), manifest["user_config"].as_object().unwrap().len());
        for variable in manifest["server"]["mcp_config"]["env"].as_object().unwrap().keys() {
            assert!(sources.to_string().contains(&format!("{{\"env\":\"{variable}\"}}")), "{variable} is set in vain");
        }
        let ids: Vec<&str> =
            sources["sources"].as_array().unwrap().iter().map(|source| source["acp"].as_str().unwrap()).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, workspace::folders_in("connectors").unwrap());
    }
}
