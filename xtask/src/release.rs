//! `cargo xtask release`: everything that is published for one target. The packages of all connectors and the bundle
//! with the bridge, each with the list of what it is
//! made of (CycloneDX) beside it, and the checksums of all of it. The same sources give the same bytes, wherever they lie.

pub(crate) mod dependencies;
pub(crate) mod licences;
mod sbom;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Result;
use crate::package::{self, Build};
use crate::workspace::{self, about, relative};

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    build: Build,
}

/// Runs the task.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let metadata = workspace::metadata()?;
    let target = arguments.build.target()?;
    let mut files = Vec::new();
    let connectors = workspace::folders_in("connectors")?;
    let version = |name: &str| {
        let member = metadata.packages.iter().find(|one| one.name == name);
        member.map(|member| member.version.as_str()).ok_or_else(|| format!("there is no crate {name}"))
    };
    for id in &connectors {
        let zip = package::package(id, &arguments.build, &metadata).map_err(about(id))?;
        files.push(list(&zip, id, version(id)?, &dependencies::of(&[id], &target)?)?);
        files.push(zip);
    }
    let bundle = package::package_bundle(&arguments.build, &metadata).map_err(about(package::BUNDLE))?;
    let programs: Vec<&str> = std::iter::once(package::PROGRAM).chain(connectors.iter().map(String::as_str)).collect();
    files.push(list(&bundle, "acp-bridge", version(package::PROGRAM)?, &dependencies::of(&programs, &target)?)?);
    files.push(bundle);
    let sums = workspace::root().join("dist").join(format!("SHA256SUMS-{target}"));
    std::fs::write(&sums, checksums(&mut files)?).map_err(about(relative(&sums)))?;
    println!("{} holds the checksums of {} files", relative(&sums), files.len());
    Ok(())
}

/// Writes what a package is made of, beside it.
fn list(package: &Path, name: &str, version: &str, crates: &[dependencies::Crate]) -> Result<PathBuf> {
    let mut file = package.to_path_buf().into_os_string();
    file.push(".cdx.json");
    let file = PathBuf::from(file);
    std::fs::write(&file, sbom::bytes(name, version, crates)?).map_err(about(relative(&file)))?;
    Ok(file)
}

/// What `sha256sum --check` reads.
fn checksums(files: &mut [PathBuf]) -> Result<String> {
    files.sort();
    let lines = files.iter().map(|file| {
        let bytes = std::fs::read(file).map_err(about(relative(file)))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{}  {name}\n", package::hex(&Sha256::digest(bytes))))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this very program, whose crates are there for sure.
    #[test]
    fn a_list_names_every_crate_and_is_always_the_same() {
        let target = workspace::host_target().unwrap();
        let crates = dependencies::of(&["xtask"], &target).unwrap();
        let bytes = sbom::bytes("xtask", "1.2.3", &crates).unwrap();
        assert_eq!(bytes, sbom::bytes("xtask", "1.2.3", &crates).unwrap());
        let list: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let components = list["components"].as_array().unwrap();
        assert_eq!(components.len(), crates.len());
        let clap = components.iter().find(|component| component["name"] == "clap").unwrap();
        let version = clap["version"].as_str().unwrap();
        assert_eq!(clap["purl"], format!("pkg:cargo/clap@{version}"));
        assert_eq!(clap["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(components.iter().all(|component| component["licenses"].is_array()), "a crate without a licence");
        assert!(!components.iter().any(|component| component["name"] == "acp-host"), "ours are not others' work");
        let bom = cyclonedx_bom::models::bom::Bom::parse_from_json(bytes.as_slice()).unwrap();
        assert!(cyclonedx_bom::validation::Validate::validate(&bom).passed());
    }

    #[test]
    fn licences_are_there_once_with_those_who_use_them() {
        let crates = dependencies::of(&["xtask"], &workspace::host_target().unwrap()).unwrap();
        let text = licences::text(&crates).unwrap();
        for one in &crates {
            assert!(text.contains(&format!("{} {}", one.name, one.version)), "{}", one.name);
        }
        assert_eq!(text.matches("David Tolnay").count(), 0, "their text is the general one");
        assert!(text.contains("Permission is hereby granted"));
        let titles = text.matches("                                 Apache License\n").count();
        assert!(titles < crates.len() / 4, "{titles} copies of one licence");
    }

    #[test]
    fn checksums_are_as_the_usual_tools_have_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = ["b.zip", "a.zip"].map(|name| folder.path().join(name));
        files.iter().for_each(|file| std::fs::write(file, "abc").unwrap());
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(checksums(&mut files).unwrap(), format!("{sum}  a.zip\n{sum}  b.zip\n"));
    }
}
