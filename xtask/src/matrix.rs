//! `cargo xtask matrix`: writes docs/test-matrix.md, each suite and what it shows, and docs/interop.md, the programs of others that run
//! against ours.
//!
//! What a suite shows is the first paragraph of its own documentation, and versions are those that interop installs. `cargo xtask
//! check` compares.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::Result;
use crate::conformance::row;
use crate::interop;
use crate::workspace::{about, files_below, folders_in, root};

/// Writes a document.
type Render = fn() -> Result<String>;

/// The documents and what is in them.
pub(crate) const DOCUMENTS: [(&str, Render); 2] =
    [("docs/test-matrix.md", suites_document), ("docs/interop.md", interop_document)];
/// The black-box suites.
const BLACK_BOX: &str = "tests/tests/it";
/// The parts of interop.
const INTEROP: &str = "xtask/src/interop";

/// Runs the task.
pub(crate) fn run() -> Result<()> {
    for (document, render) in DOCUMENTS {
        std::fs::write(root().join(document), render()?).map_err(about(document))?;
        println!("{document} is written");
    }
    Ok(())
}

fn suites_document() -> Result<String> {
    let mut text = String::from(
        "# Tests\n\n\
        Each suite and what it shows, written by `cargo xtask matrix` from the suites themselves. `cargo xtask test` runs all of them, here\n\
        and in CI. What a requirement of the specification is shown by is in\n\
        [conformance.md](conformance.md), what a failure of Google's comes to in [faults.md](faults.md), which programs of others\n\
        run against ours in [interop.md](interop.md), and which public complaint about other connectors is held against ours in\n\
        [complaints.md](complaints.md).\n",
    );
    table(
        &mut text,
        "Black-box suites",
        "They start built programs and speak the protocol with them.",
        &suites(BLACK_BOX)?,
    )?;
    for (heading, folder, what) in [
        ("Crates", "crates", "Tests beside the code of a crate, and of its public functions."),
        ("Connectors", "connectors", "Tests beside the code of a connector."),
    ] {
        let mut crates = BTreeMap::new();
        for id in folders_in(folder)? {
            let manifest = root().join(folder).join(&id);
            let tests: usize = files_below(&manifest)?.iter().map(|path| count(path)).sum::<Result<usize>>()?;
            let main = ["src/lib.rs", "src/main.rs"].map(|file| manifest.join(file));
            let main = main.iter().find(|path| path.exists()).ok_or_else(|| format!("{id} has no source"))?;
            crates.insert(id, (first_paragraph(&read(main)?), tests));
        }
        table(&mut text, heading, what, &crates)?;
    }
    Ok(text)
}

fn interop_document() -> Result<String> {
    let mut text = String::from(
        "# Interoperability\n\n\
        Programs and libraries of others that run against ours, written by `cargo xtask matrix`. `cargo xtask interop` installs exactly\n\
        these versions and runs every part, here and in CI, and fails where one of them does not get what it should.\n",
    );
    writeln!(text, "\n## Parts\n\n`cargo xtask interop <part>` runs one.\n\n| part | what it shows |\n|---|---|")?;
    for (name, (shows, _)) in suites(INTEROP)? {
        row(&mut text, &[&name, &shows])?;
    }
    writeln!(text, "\n## Programs and libraries\n\n| what | package | from | version |\n|---|---|---|---|")?;
    for pinned in interop::pinned()? {
        row(&mut text, &[&pinned.name, &pinned.package, pinned.registry(), &pinned.version])?;
    }
    Ok(text)
}

/// What each source below a folder is about, and how many tests it has. Parts of interop have none: they are programs.
fn suites(folder: &str) -> Result<BTreeMap<String, (String, usize)>> {
    let below = root().join(folder);
    let mut suites = BTreeMap::new();
    for path in files_below(&below)?.iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs")) {
        let tests = count(path)?;
        if tests > 0 || folder == INTEROP {
            let name =
                path.strip_prefix(&below).unwrap_or(path).with_extension("").to_string_lossy().replace('\\', "/");
            suites.insert(name, (first_paragraph(&read(path)?), tests));
        }
    }
    Ok(suites)
}

fn table(text: &mut String, heading: &str, what: &str, suites: &BTreeMap<String, (String, usize)>) -> Result<()> {
    let all: usize = suites.values().map(|(_, tests)| tests).sum();
    writeln!(text, "\n## {heading}\n\n{what}\n\n| suite | what it shows | tests |\n|---|---|---|")?;
    for (name, (shows, tests)) in suites {
        let tests = if *tests == 0 { "–".to_owned() } else { tests.to_string() };
        row(text, &[name, shows, &tests])?;
    }
    if all > 0 { Ok(writeln!(text, "| together | | {all} |")?) } else { Ok(()) }
}

/// The tests of a file: functions, of which those with data run many cases.
fn count(path: &Path) -> Result<usize> {
    if path.extension().is_none_or(|kind| kind != "rs") {
        return Ok(0);
    }
    let is_test = |line: &&str| matches!(line.trim(), "#[test]" | "#[tokio::test]");
    Ok(read(path)?.lines().filter(is_test).count())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(about(path.display()))
}

/// The first paragraph of a module's documentation, as one line.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_about_its_first_paragraph() {
        assert_eq!(first_paragraph("//! One\n//! two.\n//!\n//! Three.\nuse a;\n//! four"), "One two.");
        assert_eq!(first_paragraph("use a;"), "");
    }
}
