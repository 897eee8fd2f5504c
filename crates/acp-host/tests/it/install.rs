//! Installing zips (13.1.1): what is refused leaves everything as it was.

use std::io::{Cursor, Write};
use std::path::Path;
use std::time::Duration;

use acp_host::archive::ArchiveError;
use acp_host::client::ClientOptions;
use acp_host::install::{InstallError, InstallOptions, install, prepare, recover, uninstall};
use acp_host::launch::Environment;
use acp_host::package::{Package, installed};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::zips::{SERVER, manifest, patch, save, set_flag, toy, zip};

fn options() -> InstallOptions {
    InstallOptions {
        environment: Environment::Empty,
        client: ClientOptions::default().patience(Duration::from_secs(20)),
        ..InstallOptions::default()
    }
}

async fn try_install(bytes: &[u8], system: &Path) -> Result<Package, InstallError> {
    let folder = tempfile::tempdir().unwrap();
    install(&save(folder.path(), bytes), system, &options()).await
}

/// Every file below a folder with its content, to see that nothing changed.
fn snapshot(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.push((path.display().to_string(), Vec::new()));
            files.extend(snapshot(&path));
        } else {
            files.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_zip_becomes_a_folder_and_a_newer_one_replaces_it() {
    let system = tempfile::Builder::new().prefix("with space ").tempdir().unwrap();
    let system = system.path().join("servers");
    let package = try_install(&toy("toy", "1.0.0"), &system).await.unwrap();
    assert_eq!(package.folder, system.join("toy"));
    #[cfg(unix)]
    assert_eq!((mode(&package.folder.join("start.sh")), mode(&package.folder.join("acp.json"))), (0o755, 0o644));
    std::fs::write(package.folder.join("leftover"), "old").unwrap();

    try_install(&toy("toy", "2.0.0"), &system).await.unwrap();
    let listing = installed(&system).unwrap();
    assert_eq!(listing.packages.len(), 1);
    assert_eq!(listing.packages[0].manifest.version, "2.0.0");
    assert!(!system.join("toy/leftover").exists());
    assert_eq!(system.read_dir().unwrap().count(), 1, "no temporary folder is left");

    uninstall("toy", &system).unwrap();
    assert_eq!(system.read_dir().unwrap().count(), 0);
    assert!(matches!(uninstall("toy", &system), Err(InstallError::Destination(_))));
}

/// H-13.1.1-02
#[tokio::test]
async fn the_shallowest_manifest_counts_and_the_rest_is_ignored() {
    let system = tempfile::tempdir().unwrap();
    let server = SERVER.replace("VERSION", "1.0.0");
    let bom = format!("\u{feff}{}", manifest("toy", "1.0.0"));
    let bytes = zip(&[
        ("README.txt", b"outside", 0o644),
        ("other/deep/acp.json", b"{}", 0o644),
        ("toy-1.0/", b"", 0o755),
        ("toy-1.0/acp.json", bom.as_bytes(), 0o644),
        ("toy-1.0/start.sh", server.as_bytes(), 0o644),
        ("toy-1.0/skills/a/SKILL.md", b"---\nname: a\ndescription: d\n---\n", 0o644),
        ("toy-1.0/not-acp.json", b"x", 0o644),
    ]);
    let package = try_install(&bytes, system.path()).await.unwrap();
    let names: Vec<String> = snapshot(&package.folder)
        .into_iter()
        .map(|(path, _)| Path::new(&path).strip_prefix(&package.folder).unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["acp.json", "not-acp.json", "skills", "skills/a", "skills/a/SKILL.md", "start.sh"]);
    assert_eq!(package.skills().len(), 1);
}

/// An id is found whatever its folder is called (13.1), and replaced under its own name.
#[tokio::test]
async fn a_former_version_is_found_by_its_id() {
    let system = tempfile::tempdir().unwrap();
    let renamed = system.path().join("renamed");
    let package = try_install(&toy("toy", "1.0.0"), system.path()).await.unwrap();
    std::fs::rename(&package.folder, &renamed).unwrap();
    try_install(&toy("toy", "2.0.0"), system.path()).await.unwrap();
    assert!(!renamed.exists() && system.path().join("toy").exists());

    std::fs::write(system.path().join("toy/acp.json"), manifest("other", "1.0.0")).unwrap();
    assert!(matches!(try_install(&toy("toy", "3.0.0"), system.path()).await, Err(InstallError::Destination(_))));
    std::fs::create_dir(system.path().join("mine")).unwrap();
    std::fs::write(system.path().join("mine/notes.txt"), "precious").unwrap();
    assert!(matches!(try_install(&toy("mine", "1.0.0"), system.path()).await, Err(InstallError::Destination(_))));
}

/// Each zip, the words that the refusal must have, and the former version stays.
/// H-13.1.1-01, H-13.1.1-02
#[tokio::test]
async fn what_is_refused_leaves_the_former_version() {
    let system = tempfile::tempdir().unwrap();
    try_install(&toy("toy", "1.0.0"), system.path()).await.unwrap();
    let before = snapshot(system.path());
    let good = manifest("toy", "2.0.0");
    let good = good.as_bytes();
    let with = |name: &str| zip(&[("acp.json", good, 0o644), (name, b"evil", 0o644)]);
    let renamed = |to: &str| patch(&with(&"N".repeat(to.len())), "N".repeat(to.len()).as_bytes(), to.as_bytes());
    let many: Vec<(String, &[u8], u32)> = (0..10_001).map(|n| (format!("f{n}"), b"".as_slice(), 0o644)).collect();
    let many: Vec<(&str, &[u8], u32)> =
        many.iter().map(|(name, content, mode)| (name.as_str(), *content, *mode)).collect();
    let zeros = vec![0; 17 * 1024 * 1024];
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("parent", renamed("../evil"), "not safe"),
        ("inner parent", renamed("a/../../evil"), "not safe"),
        ("absolute", renamed("/tmp/evil"), "not safe"),
        ("drive", renamed("C:/evil"), "not safe"),
        ("backslash", renamed("..\\evil"), "not safe"),
        ("nul", renamed("evil\0.txt"), "not safe"),
        ("control", renamed("evil\n"), "not safe"),
        ("dot", renamed("a/./evil"), "not safe"),
        ("empty part", renamed("a//evil"), "not safe"),
        (
            "twice",
            patch(&zip(&[("acp.json", good, 0o644), ("One", b"", 0o644), ("twO", b"", 0o644)]), b"twO", b"oNE"),
            "twice",
        ),
        (
            "manifest twice",
            patch(&zip(&[("acp.json", good, 0o644), ("acp.jso1", good, 0o644)]), b"acp.jso1", b"acp.json"),
            "",
        ),
        ("symlink", symlink(good), "link"),
        ("encrypted", set_flag(&with("a"), 1), "encrypted"),
        ("zip64", zip64(good), "zip64"),
        ("many", zip(&many), "10000 entries"),
        ("bomb", zip(&[("acp.json", good, 0o644), ("zeros", &zeros, 0o644)]), "200 times"),
        ("cut", toy("toy", "2.0.0")[..200].to_vec(), "can't be read"),
        ("no zip", b"hello".to_vec(), "can't be read"),
        ("local name differs", local_name(&with("abcd")), ""),
        ("no manifest", zip(&[("a/notacp.json", good, 0o644)]), "no acp.json"),
        ("bad id", zip(&[("acp.json", manifest("Toy", "1.0.0").as_bytes(), 0o644)]), "id"),
        ("no name", zip(&[("acp.json", br#"{"id":"toy"}"#, 0o644)]), "acp.json"),
        ("not UTF-8", zip(&[("acp.json", b"\xff\xfe{", 0o644)]), "UTF-8"),
        ("no server", zip(&[("acp.json", good, 0o644)]), "doesn't pass"),
        ("dies", server("echo no luck >&2; exit 1"), "no luck"),
        ("talks", server("echo Welcome"), "no JSON-RPC"),
        ("plain MCP", server(&SERVER.replace("\"acp\"", "\"other\"")), "experimental.acp"),
        (
            "other ACP",
            server(&SERVER.replace("{\"acp\":{\"version\":\"1.0\"", "{\"acp\":{\"version\":\"2.0\"")),
            "ACP 2.0",
        ),
        ("no tools", server(&SERVER.replace("tools/list", "nothing")), "no answer to tools/list"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, needle) in cases {
        let mut options = options();
        if name == "no tools" {
            options.client = options.client.patience(Duration::from_millis(500));
        }
        let error = install(&save(folder.path(), &bytes), system.path(), &options).await.expect_err(name).to_string();
        assert!(error.contains(needle), "{name}: {error}");
        assert_eq!(snapshot(system.path()), before, "{name}");
    }
}

#[tokio::test]
async fn a_prepared_package_that_is_dropped_is_gone() {
    let (system, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let zip = save(folder.path(), &toy("toy", "1.0.0"));
    let prepared = prepare(&zip, system.path(), &options()).await.unwrap();
    assert_eq!((prepared.probe().server_version.as_str(), prepared.probe().tools.len()), ("1.0.0", 1));
    assert!(installed(system.path()).unwrap().packages.is_empty());
    drop(prepared);
    assert_eq!(system.path().read_dir().unwrap().count(), 0);
}

/// The new folder vanishes between the check and the replacement: the former version is put back.
#[tokio::test]
async fn a_replacement_that_fails_puts_the_former_version_back() {
    let (system, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    try_install(&toy("toy", "1.0.0"), system.path()).await.unwrap();
    let before = snapshot(system.path());
    let prepared = prepare(&save(folder.path(), &toy("toy", "2.0.0")), system.path(), &options()).await.unwrap();
    std::fs::remove_dir_all(&prepared.package().folder).unwrap();
    assert!(matches!(prepared.commit(), Err(InstallError::Io(_))));
    assert_eq!(snapshot(system.path()), before);
}

#[tokio::test]
async fn the_destination_must_not_be_outside_even_for_entries_that_are_ignored() {
    let system = tempfile::tempdir().unwrap();
    let good = manifest("toy", "1.0.0");
    let bytes = zip(&[("toy/acp.json", good.as_bytes(), 0o644), ("NNNNNNN", b"evil", 0o644)]);
    let error = try_install(&patch(&bytes, b"NNNNNNN", b"../evil"), system.path()).await.unwrap_err();
    assert!(matches!(error, InstallError::Archive(ArchiveError::Refused(_))), "{error}");
}

fn server(script: &str) -> Vec<u8> {
    zip(&[("acp.json", manifest("toy", "2.0.0").as_bytes(), 0o644), ("start.sh", script.as_bytes(), 0o755)])
}

fn symlink(manifest: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("acp.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(manifest).unwrap();
    zip.add_symlink("start.sh", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap().into_inner()
}

fn zip64(manifest: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("acp.json", SimpleFileOptions::default().large_file(true)).unwrap();
    zip.write_all(manifest).unwrap();
    zip.set_raw_zip64_extensible_data_sector(Box::new([]));
    zip.finish().unwrap().into_inner()
}

/// The first occurrence of the name is the local one: a reader that trusts it would unpack another file.
fn local_name(bytes: &[u8]) -> Vec<u8> {
    let place = bytes.windows(4).position(|window| window == b"abcd").unwrap();
    let mut patched = bytes.to_vec();
    patched[place..place + 4].copy_from_slice(b"wxyz");
    patched
}

/// Killed at any moment: a version whose successor never came is back, and nothing else is left.
#[tokio::test]
async fn what_an_installation_left_that_was_killed_is_put_right() {
    let system = tempfile::tempdir().unwrap();
    let system = system.path().join("servers");
    try_install(&toy("toy", "1.0.0"), &system).await.unwrap();
    try_install(&toy("other", "1.0.0"), &system).await.unwrap();
    let hidden = |name: &str| {
        std::fs::create_dir(system.join(name)).unwrap();
        system.join(name).join("folder")
    };
    // Between the two steps of a replacement.
    std::fs::rename(system.join("toy"), hidden(".former-a")).unwrap();
    // After them: the successor is there.
    std::fs::create_dir(hidden(".former-b")).unwrap();
    std::fs::write(system.join(".former-b/folder/acp.json"), manifest("other", "0.9.0")).unwrap();
    // In the middle of a removal, and of unpacking, which somebody may still do.
    std::fs::create_dir(hidden(".removed-c")).unwrap();
    std::fs::write(system.join(".removed-c/folder/acp.json"), manifest("gone", "1.0.0")).unwrap();
    hidden(".install-d");
    recover(&system).unwrap();
    let mut left: Vec<_> = system.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".install-d", "other", "toy"]);
    let versions: Vec<_> =
        installed(&system).unwrap().packages.into_iter().map(|package| package.manifest.version).collect();
    assert_eq!(versions, ["1.0.0", "1.0.0"]);
    recover(&system.join("none")).unwrap();
}
