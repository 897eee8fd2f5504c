//! Folders of connectors as a host lists them (13.1, 13.2, 13.4).

use std::path::Path;

use acp_host::package::{Package, available, installed, published_skills};

use crate::zips::manifest;

fn add(folder: &Path, name: &str, content: &str) {
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("acp.json"), content).unwrap();
}

fn ids(packages: &[Package]) -> Vec<String> {
    packages.iter().map(|package| format!("{} {}", package.manifest.id, package.manifest.version)).collect()
}

#[test]
fn a_folder_with_a_manifest_is_a_connector_and_a_project_covers_the_system() {
    let (system, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(installed(&system.path().join("none")).unwrap().packages.is_empty());
    add(system.path(), "b", &manifest("b", "1.0.0"));
    add(system.path(), "z-other-name", &manifest("a", "1.0.0"));
    add(system.path(), ".hidden", &manifest("hidden", "1.0.0"));
    add(system.path(), "broken", "{");
    add(system.path(), "zz-copy", &manifest("b", "9.0.0"));
    std::fs::create_dir(system.path().join("empty")).unwrap();
    add(project.path(), "b", &manifest("b", "2.0.0"));
    add(project.path(), "sources", &manifest("sources", "1.0.0"));

    let listing = installed(system.path()).unwrap();
    assert_eq!(ids(&listing.packages), ["a 1.0.0", "b 1.0.0"]);
    let broken: Vec<_> = listing.broken.iter().map(|(folder, _)| folder.file_name().unwrap().to_owned()).collect();
    assert_eq!(broken, ["broken", "zz-copy"]);
    let listing = available(system.path(), Some(project.path())).unwrap();
    assert_eq!(ids(&listing.packages), ["a 1.0.0", "b 2.0.0"]);
}

#[test]
fn icons_stay_inside_the_folder_and_small() {
    let folder = tempfile::tempdir().unwrap();
    let with_icon = |icon: &str| {
        let text = manifest("a", "1.0.0").replacen('{', &format!("{{\"icon\":\"{icon}\","), 1);
        std::fs::write(folder.path().join("acp.json"), text).unwrap();
        Package::read(folder.path()).unwrap().icon()
    };
    std::fs::write(folder.path().join("icon.svg"), "<svg/>").unwrap();
    std::fs::write(folder.path().join("large.png"), vec![0; 262_145]).unwrap();
    std::fs::write(folder.path().join("icon.gif"), "x").unwrap();
    let icon = with_icon("icon.svg").unwrap();
    assert_eq!((icon.bytes.as_slice(), icon.media_type), (b"<svg/>".as_slice(), "image/svg+xml"));
    for bad in ["large.png", "icon.gif", "missing.svg", "../icon.svg", "/icon.svg", "."] {
        assert_eq!(with_icon(bad), None, "{bad}");
    }
    #[cfg(unix)]
    {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.svg"), "<svg/>").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.svg"), folder.path().join("link.svg")).unwrap();
        assert_eq!(with_icon("link.svg"), None);
    }
}

#[test]
fn of_two_skills_with_one_name_the_later_has_its_connectors_id() {
    let system = tempfile::tempdir().unwrap();
    for id in ["ga4", "gsc"] {
        add(system.path(), id, &manifest(id, "1.0.0"));
        for (folder, name) in [("report", "report"), ("Bad Name", "Bad Name"), ("differs", "other")] {
            let skill = system.path().join(id).join("skills").join(folder);
            std::fs::create_dir_all(&skill).unwrap();
            std::fs::write(skill.join("SKILL.md"), format!("---\nname: {name}\ndescription: d\n---\nSteps\n")).unwrap();
        }
        std::fs::create_dir_all(system.path().join(id).join("skills/empty")).unwrap();
    }
    let names = |own: &[&str]| {
        let own: Vec<String> = own.iter().map(ToString::to_string).collect();
        let published = published_skills(&installed(system.path()).unwrap().packages, &own);
        published.into_iter().map(|skill| skill.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["report", "gsc--report"]);
    assert_eq!(names(&["report"]), ["gsc--report"], "a skill of the person's covers that of the connector");
}
