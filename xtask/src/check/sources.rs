//! Rules about source texts: what every file has, what no file holds, and where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Problem;
use crate::Result;
use crate::workspace::{about, files_below, folders_in, relative, root};

/// Words that must not occur, in pieces so that this file doesn't hold them.
const EVERYWHERE: [(&[&str], &str); 10] = [
    (&["/ro", "ot/"], "a path of one machine"),
    (&["/ho", "me/"], "a path of one machine"),
    (&["/Us", "ers/"], "a path of one machine"),
    (&["/wo", "rk/"], "a path of one machine"),
    (&["C:\\Us", "ers\\"], "a path of one machine"),
    (&["artif", "actory"], "the host of a registry"),
    (&["jfr", "og"], "the host of a registry"),
    (&["index.crates", ".io"], "the host of a registry"),
    (&["registry.npm", "js"], "the host of a registry"),
    (&["pypi.", "org/simple"], "the host of a registry"),
];
const RUST: [(&[&str], &str); 3] = [
    (&["#[ig", "nore"], "a test that doesn't run"),
    (&["tod", "o!("], "code that is not written yet"),
    (&["unimple", "mented!("], "code that is not written yet"),
];
const CONNECTORS: [(&[&str], &str); 3] = [
    (&["tokio::time::", "sleep"], "waiting, which belongs to acp-google"),
    (&["thread::", "sleep"], "waiting, which belongs to acp-google"),
    (&["json", "rpc"], "JSON-RPC, which belongs to acp-core"),
];
/// A file above this size is data, not text to check.
const TEXT_MAX: u64 = 2 * 1024 * 1024;

/// The example that shows how little a connector takes.
pub(super) fn example() -> Result<Option<Problem>> {
    const EXAMPLE: &str = "crates/acp-core/examples/minimal.rs";
    let lines = std::fs::read_to_string(crate::workspace::root().join(EXAMPLE))?.lines().count();
    let problem = || Problem::new(EXAMPLE, format!("has {lines} lines"), "keep it under 80, as the README says");
    Ok((lines >= 80).then(problem))
}

pub(super) fn check() -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for file in tracked_files()? {
        let Some(text) = read_text(&file)? else { continue };
        let path = relative(&file);
        problems.extend(words(&path, &text));
        if path.ends_with(".rs") {
            problems.extend(rust(&path, &text));
        }
    }
    for id in folders_in("connectors")? {
        problems.extend(layout(&id));
    }
    problems.extend(fuzz_targets()?);
    Ok(problems)
}

/// Nothing builds `fuzz/` but who fuzzes, so a target that its Cargo.toml does not list would be forgotten.
fn fuzz_targets() -> Result<Vec<Problem>> {
    let listed = std::fs::read_to_string(root().join("fuzz/Cargo.toml"))?;
    let files = files_below(&root().join("fuzz/fuzz_targets"))?;
    let paths = files.iter().map(|file| relative(file));
    let forgotten = paths.filter(|path| !listed.contains(path.trim_start_matches("fuzz/")));
    Ok(forgotten.map(|path| Problem::new(path, "is not listed", "give it a [[bin]] in fuzz/Cargo.toml")).collect())
}

/// What git tracks or would track. Without git, every file of the source folders.
fn tracked_files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    if let Ok(output) = git.output()
        && output.status.success()
    {
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let files = names.split('\0').filter(|name| !name.is_empty()).map(|name| root().join(name));
        return Ok(files.filter(|file| file.is_file()).collect());
    }
    let mut files = Vec::new();
    for folder in ["crates", "connectors", "packaging", "tests", "xtask"] {
        files.extend(files_below(&root().join(folder))?);
    }
    Ok(files)
}

fn read_text(file: &Path) -> Result<Option<String>> {
    if std::fs::metadata(file).map_err(about(file.display()))?.len() > TEXT_MAX {
        return Ok(None);
    }
    Ok(String::from_utf8(std::fs::read(file).map_err(about(file.display()))?).ok())
}

fn words(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut look = |rules: &[(&[&str], &str)], hint: &'static str| {
        for (pieces, meaning) in rules {
            if let Some(line) = line_with(text, &pieces.concat()) {
                problems.push(Problem::new(path, format!("line {line} holds {meaning}"), hint));
            }
        }
    };
    look(&EVERYWHERE, "files must mean the same on every computer");
    if path.ends_with(".rs") {
        look(&RUST, "finish it, or leave it out and say so in the issue");
    }
    if path.starts_with("connectors/") {
        look(&CONNECTORS, "a connector only knows its source");
    }
    problems
}

fn rust(path: &str, text: &str) -> Option<Problem> {
    if !text.trim_start_matches('\u{feff}').starts_with("//!") {
        return Some(Problem::new(path, "doesn't start with a //! doc", "say in a line or two what the module is for"));
    }
    let product = path.contains("/src/") && (path.starts_with("crates/") || path.starts_with("connectors/"));
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let line = code.lines().position(has_requirement_id).filter(|_| product)? + 1;
    Some(Problem::new(
        path,
        format!("line {line} names a requirement id"),
        "name the section of the specification; ids belong to tests",
    ))
}

/// Whether a line holds something like the ids of the requirements list: one of its letters, a hyphen and a digit, as a word.
fn has_requirement_id(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.windows(3).enumerate().any(|(place, window)| {
        let starts = place == 0 || !(bytes[place - 1].is_ascii_alphanumeric() || bytes[place - 1] == b'_');
        starts && matches!(window[0], b'S' | b'H' | b'P' | b'B') && window[1] == b'-' && window[2].is_ascii_digit()
    })
}

fn line_with(text: &str, word: &str) -> Option<usize> {
    text.lines().position(|line| line.contains(word)).map(|place| place + 1)
}

/// The same file names in each connector, so that who knows one knows all.
fn layout(id: &str) -> Vec<Problem> {
    let source = root().join("connectors").join(id).join("src");
    let wanted: [&[&str]; 6] =
        [&["main.rs"], &["connector.rs"], &["api.rs", "api"], &["resources.rs"], &["blocks.rs"], &["tools"]];
    let missing = wanted.into_iter().filter(|names| !names.iter().any(|name| source.join(name).exists()));
    missing
        .map(|names| {
            Problem::new(
                relative(&source),
                format!("has no {}", names.join(" or ")),
                "every connector has the same file names (ARCHITECTURE.md)",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirement_ids_are_told_from_other_words() {
        for line in [format!("{}-4.2 says", 'S'), format!("({}-13.1)", 'P')] {
            assert!(has_requirement_id(&line), "{line}");
        }
        for line in ["UTF-8", "AMB-42", "SHA-2", "S-", "section 4.2", "x_S-1"] {
            assert!(!has_requirement_id(line), "{line}");
        }
    }

    #[test]
    fn forbidden_words_are_found_in_their_places_only() {
        let machine = ["a = \"/ho", "me/me\""].concat();
        assert_eq!(words("README.md", &machine).len(), 1);
        let wait = ["tokio::time::", "sleep(x)"].concat();
        assert_eq!(
            (words("connectors/ga4/src/a.rs", &wait).len(), words("crates/acp-google/src/a.rs", &wait).len()),
            (1, 0)
        );
        let skipped = ["#[ig", "nore]"].concat();
        assert_eq!((words("a.rs", &skipped).len(), words("a.md", &skipped).len()), (1, 0));
    }

    #[test]
    fn modules_say_what_they_are_for() {
        assert!(rust("crates/a/src/lib.rs", "use x;").is_some());
        assert!(rust("crates/a/src/lib.rs", "//! x\nuse x;").is_none());
        let id = format!("//! x\n// {}-1.1\n", 'H');
        assert!(rust("crates/a/src/lib.rs", &id).is_some());
        assert!(rust("crates/a/tests/it.rs", &id).is_none());
        let in_tests = format!("//! x\n#[cfg(test)]\nmod tests {{}} // {}-1.1\n", 'H');
        assert!(rust("crates/a/src/lib.rs", &in_tests).is_none());
    }
}
