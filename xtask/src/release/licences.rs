//! The licences of the crates that a program is made of, as a text that goes with it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::dependencies::Crate;
use crate::Result;
use crate::workspace::about;

/// The text: each licence once, after the crates that come with it.
pub(crate) fn text(crates: &[Crate]) -> Result<String> {
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    let mut silent = Vec::new();
    for one in crates {
        let name = format!("{} {}", one.name, one.version);
        let files = one.licence_files()?;
        for file in &files {
            let bytes = std::fs::read(file).map_err(about(file.display()))?;
            let users = texts.entry(plain(&String::from_utf8_lossy(&bytes))).or_default();
            if users.last() != Some(&name) {
                users.push(name.clone());
            }
        }
        if files.is_empty() {
            silent.push(format!("{name}: {}", one.license.as_deref().unwrap_or("no licence is named")));
        }
    }
    let mut text =
        String::from("Programs in this package contain the following work of others, under these licences.\n");
    if !silent.is_empty() {
        writeln!(text, "\nWithout a text of their own:\n  {}", silent.join("\n  "))?;
    }
    // In the order of the crates.
    let mut texts: Vec<(String, Vec<String>)> = texts.into_iter().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1));
    for (licence, users) in texts {
        writeln!(text, "\n{}\n{}\n\n{licence}", "=".repeat(80), users.join(", "))?;
    }
    Ok(text)
}

/// A text with the line ends and spaces that differ between copies of one licence made equal.
fn plain(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}
