//! Installing, listing and removing connectors.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Home, Ran, manifest, names};
use crate::server::binary_of;

/// A zip of these entries.
fn zip(home: &Home, entries: &[(&str, &str)]) -> PathBuf {
    let path = home.path().join("package.zip");
    let mut zip = ZipWriter::new(std::fs::File::create(&path).expect("a zip"));
    for (name, content) in entries {
        zip.start_file(*name, SimpleFileOptions::default().unix_permissions(0o755)).expect("an entry");
        zip.write_all(content.as_bytes()).expect("an entry");
    }
    zip.finish().expect("a zip");
    path
}

fn toy_zip(home: &Home, version: &str) -> PathBuf {
    let script = format!("exec '{}'\n", binary_of("acp-toy").display());
    zip(home, &[("toy/acp.json", &manifest("toy", version)), ("toy/start.sh", &script)])
}

/// H-11.1-02, H-13.1.1-01, H-14.3-01, H-14.3-03: what is installed has proved to work, and a version that doesn't leaves the
/// former one alone.
#[test]
fn a_zip_is_installed_replaced_and_removed() {
    let home = Home::new();
    let install = |zip: &PathBuf| home.run(&["--json", "install", &zip.to_string_lossy()]);
    let for_all = |arguments: &[&str]| Ran::of(&mut home.acp_without_project(arguments), "");
    let good = toy_zip(&home, "1.0.0");
    for_all(&["install", &good.to_string_lossy()]).ends_with(0).says(&["The toy 1.0.0", "acp source add"]);
    assert_eq!(names(&home.acps()), ["toy"]);

    // In the project: a newer one, which covers the other there.
    let newer = toy_zip(&home, "2.0.0");
    install(&newer).ends_with(0);
    let of_project = home.project().join(".analytika/acp");
    assert_eq!(names(&of_project), ["toy"]);
    assert_eq!(home.json(&["list"])["connectors"][0]["version"], "2.0.0");

    for (entries, says) in [
        (vec![("acp.json", manifest("toy", "3.0.0")), ("start.sh", "exit 1\n".to_owned())], "the server"),
        (vec![("acp.json", manifest("toy", "3.0.0")), ("../start.sh", String::new())], "refused"),
        (vec![("acp.json", manifest("Toy", "3.0.0"))], "id"),
        (vec![("readme", String::new())], "acp.json"),
    ] {
        let entries: Vec<(&str, &str)> = entries.iter().map(|(name, content)| (*name, content.as_str())).collect();
        let ran = install(&zip(&home, &entries));
        assert!(matches!(ran.code, Some(2 | 4)), "{ran:?}");
        ran.says(&[says]);
        assert_eq!(names(&of_project), ["toy"]);
        assert_eq!(home.json(&["list"])["connectors"][0]["version"], "2.0.0");
    }

    let missing = install(&home.path().join("nowhere.zip"));
    assert!(missing.code.is_some_and(|code| code != 0), "{missing:?}");
    missing.says(&["nowhere.zip"]);

    home.run(&["uninstall", "toy"]).ends_with(0);
    assert_eq!(home.json(&["list"])["connectors"][0]["version"], "1.0.0");
    home.run(&["uninstall", "toy"]).ends_with(2).says(&["not installed"]);
    for_all(&["uninstall", "toy"]).ends_with(0);
    assert_eq!(home.json(&["list"])["connectors"], json!([]));
}

/// H-11.1-01, H-11.1-03, H-11.1-05, H-13.1-01, H-13.1-02, H-13.1-03, H-13.2-01, H-13.2-02, H-14.3-02, H-14.3-14: a copied folder
/// is a connector, from its acp.json alone.
#[test]
fn folders_are_listed_without_starting_anything() {
    let home = Home::new();
    let started = home.path().join("started");
    let script = format!("touch '{}'\n", started.display());
    let folder = Home::install(&home.acps(), "one", "1.0.0", &script);
    Home::install(&home.acps(), ".hidden", "1.0.0", &script);
    Home::install(&home.project().join(".analytika/acp"), "one", "9.0.0", &script);
    Home::install(&home.project().join(".analytika/acp"), "sources", "1.0.0", &script);
    Home::install(&home.acps(), "two", "1.0.0", &script);
    std::fs::write(home.acps().join("two/acp.json"), "{").expect("acp.json");
    let text = manifest("one", "1.0.0").replacen('{', r#"{"icon":"../icon.svg","tools":["a"],"later":1,"#, 1);
    std::fs::write(folder.join("acp.json"), text).expect("acp.json");

    let list = home.json(&["list"]);
    let found: Vec<_> = list["connectors"].as_array().expect("a list").iter().collect();
    assert_eq!(found.len(), 1, "{list}");
    assert_eq!((&found[0]["id"], &found[0]["version"]), (&json!("one"), &json!("9.0.0")));
    assert_eq!(list["not_usable"].as_array().expect("a list").len(), 1, "{list}");
    std::fs::remove_dir_all(home.project().join(".analytika/acp/one")).expect("a folder");
    let list = home.json(&["list"]);
    assert_eq!((&list["connectors"][0]["version"], &list["connectors"][0]["icon"]), (&json!("1.0.0"), &json!(null)));
    assert!(!started.exists(), "listing started a server");
    // What a connector calls itself is shown, and not obeyed.
    let text = manifest("one", "1.0.0").replace("The one", "The \\u001b[31mone");
    std::fs::write(folder.join("acp.json"), text).expect("acp.json");
    home.run(&["list"]).ends_with(0).says(&["The \u{fffd}[31mone"]);
}

/// H-13.1-05: a connector of the project has a cache of its own, and nothing is written into its folder.
#[test]
fn servers_get_folders_for_their_data() {
    let home = Home::with_shop("");
    let seen = |folder: PathBuf| {
        let env = home.path().join("env");
        let script = format!("env > '{}'\nexec '{}'\n", env.display(), binary_of("acp-toy").display());
        let folder = Home::install(&folder, "toy", "1.0.0", &script);
        home.call("peek", &json!({})).ends_with(0);
        let text = std::fs::read_to_string(&env).expect("the variables");
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).map(PathBuf::from);
        let (cache, tmp) = (value("ACP_CACHE_DIR").expect("a cache"), value("ACP_TMP_DIR").expect("a folder"));
        assert!(cache.is_dir() && !tmp.exists(), "the folder for tables goes with the host");
        assert_eq!(names(&folder), ["acp.json", "start.sh"]);
        assert!(!text.contains(super::CANARY), "a secret in a variable");
        cache
    };
    let of_system = seen(home.acps());
    assert_ne!(seen(home.project().join(".analytika/acp")), of_system);
}

/// H-11.7-01, H-13.4-01, H-13.4-02, H-13.4-03, H-14.3-13: skills are there while their connector is.
#[test]
fn skills_are_listed_and_printed() {
    let home = Home::new();
    for id in ["one", "two"] {
        let folder = Home::install(&home.acps(), id, "1.0.0", "").join("skills/report");
        std::fs::create_dir_all(&folder).expect("a folder");
        let text = format!("---\nname: report\ndescription: Reports of {id}.\n---\nSteps of {id}\n");
        std::fs::write(folder.join("SKILL.md"), text).expect("a skill");
        std::fs::create_dir_all(folder.with_file_name("empty")).expect("a folder");
    }
    let skills = home.json(&["skills"])["skills"].clone();
    let found: Vec<_> =
        skills.as_array().expect("a list").iter().map(|skill| (&skill["name"], &skill["scope"])).collect();
    assert_eq!(found, [(&json!("report"), &json!("acp")), (&json!("two--report"), &json!("acp"))]);
    home.run(&["skills", "two--report"]).ends_with(0).says(&["Steps of two"]);
    std::fs::remove_dir_all(home.acps().join("one")).expect("a folder");
    home.run(&["skills", "report"]).ends_with(0).says(&["Steps of two"]);
    home.run(&["skills", "nope"]).ends_with(2).says(&["acp skills"]);
}
