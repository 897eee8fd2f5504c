//! `cargo xtask conformance`: runs the black-box suites and writes docs/conformance.md: what shows each requirement of the
//! specification for a server, and whether it held over each transport.
//!
//! All but the last two columns of its tables, and the paragraph about the run, follow from files; `cargo xtask check`
//! compares them.

pub(crate) mod evidence;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::Result;
use crate::faults::Fault;
use crate::workspace::{self, about, root};
use evidence::{Evidence, Test};

/// Where it is written.
pub(crate) const DOCUMENT: &str = "docs/conformance.md";
const TRANSPORTS: [&str; 2] = ["stdio", "http"];
/// Names the file that the suites write down in what they saw.
pub(crate) const NOTES: &str = "ACP_SUITE_NOTES";
/// How the paragraph about the run begins.
const RUN: &str = "In the last run";

/// What a run found: for a vector or test and a transport, whether it passed.
#[derive(Default)]
pub(crate) struct Outcomes(BTreeMap<(String, &'static str), bool>);

/// A line of what the suites write down.
#[derive(Deserialize)]
#[serde(untagged)]
enum Note {
    Vector {
        vector: String,
        transport: String,
        pass: bool,
    },
    /// A test started a server.
    Server {
        test: String,
        transport: String,
    },
    /// What a fault came to, which is another document's.
    Fault(#[expect(dead_code, reason = "read to know that it is one")] Fault),
}

/// Runs the task.
pub(crate) fn run() -> Result<()> {
    let evidence = Evidence::read()?;
    let build =
        workspace::cargo().args(["build", "--workspace", "--exclude", "xtask", "--bins", "--quiet"]).status()?;
    if !build.success() {
        return Err("the servers don't build".into());
    }
    println!("running the black-box suites, which takes a few minutes");
    let outcomes = outcomes()?;
    let path = root().join(DOCUMENT);
    std::fs::create_dir_all(path.parent().unwrap_or(root()))?;
    std::fs::write(&path, render(&evidence, &outcomes)?).map_err(about(DOCUMENT))?;
    println!("{DOCUMENT} is written");
    let failed: Vec<&str> = outcomes.0.iter().filter(|(_, pass)| !**pass).map(|((name, _), _)| name.as_str()).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("these fail: {}", failed.join(", ")).into()) }
}

fn outcomes() -> Result<Outcomes> {
    let folder = tempfile::tempdir()?;
    let notes = folder.path().join("notes");
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "tests", "--test", "it", "--no-fail-fast"]).env(NOTES, &notes);
    let output = cargo.stderr(std::process::Stdio::inherit()).output()?;
    let notes = std::fs::read_to_string(&notes).map_err(about("what the suites write down"))?;
    Outcomes::new(&notes, &String::from_utf8_lossy(&output.stdout))
}

impl Outcomes {
    /// `notes` are JSON lines, `report` is what the test runner prints: `test NAME ... ok`.
    fn new(notes: &str, report: &str) -> Result<Self> {
        let mut outcomes = BTreeMap::new();
        let mut over = BTreeMap::<String, Vec<&'static str>>::new();
        let known = |name: &str| TRANSPORTS.into_iter().find(|known| *known == name).ok_or("an unknown transport");
        for line in notes.lines() {
            match serde_json::from_str(line).map_err(about(line))? {
                Note::Vector { vector, transport, pass } => _ = outcomes.insert((vector, known(&transport)?), pass),
                Note::Server { test, transport } => over.entry(test).or_default().push(known(&transport)?),
                Note::Fault(_) => {}
            }
        }
        for line in report.lines() {
            let Some((name, outcome)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) else {
                continue;
            };
            // The tests that run vectors are counted by vector.
            if name.starts_with("vectors::") {
                continue;
            }
            for transport in over.get(name).map_or(&["stdio"][..], Vec::as_slice) {
                outcomes.insert((name.to_owned(), *transport), outcome == "ok");
            }
        }
        Ok(Self(outcomes))
    }

    /// What a cell says: how many passed, or which failed.
    fn cell<'a>(&self, names: impl Iterator<Item = &'a str>, transport: &'static str) -> String {
        let found: Vec<(&str, bool)> =
            names.filter_map(|name| Some((name, *self.0.get(&(name.to_owned(), transport))?))).collect();
        let failed: Vec<&str> = found.iter().filter(|(_, pass)| !pass).map(|(name, _)| *name).collect();
        match (found.len(), failed.len()) {
            (0, _) => "–".to_owned(),
            (1, 0) => "pass".to_owned(),
            (count, 0) => format!("{count} pass"),
            (count, _) => format!("FAIL {} of {count}: {}", failed.len(), failed.join(", ")),
        }
    }
}

/// The document.
pub(crate) fn render(evidence: &Evidence, outcomes: &Outcomes) -> Result<String> {
    let outcomes = &outcomes.with_always(&evidence.always);
    let mut text = String::from(
        "# Conformance\n\n\
        What ACP 1.0 asks of a server, and what shows that `acp-core` does it: written by `cargo xtask conformance`, which runs\n\
        the black-box suites against built servers. Vectors are data in `tests/vectors`, and each runs over stdio and over\n\
        Streamable HTTP unless it says why not. Tests are programs in `tests/tests/it`. \"Every answer\" is a rule of `rules.rs`\n\
        that each answer to each call is checked against, over both transports; \"every request of the server\" is one of\n\
        `host.rs`. Levels with a star are implied by the specification, not written. A dash: it is not about that transport.\n\n",
    );
    let shown = evidence.requirements.iter().filter(|one| !evidence.of(&one.id).is_empty()).count();
    let (all, programs) = (evidence.requirements.len(), evidence.programs());
    writeln!(
        text,
        "{all} requirements: {shown} are shown, {} are not, with the reason. {} vectors as data.\n",
        all - shown,
        evidence.vectors.len(),
    )?;
    let count = |transport: &'static str| {
        let of = |name: &str| outcomes.0.get(&(name.to_owned(), transport)).copied();
        let ran: Vec<bool> = evidence.vectors.iter().filter_map(|vector| of(&vector.id)).collect();
        format!("{} of {} vectors passed over {transport}", ran.iter().filter(|pass| **pass).count(), ran.len())
    };
    writeln!(text, "{RUN} {}, {}.", count("stdio"), count("http"))?;
    let mut section = "";
    for one in &evidence.requirements {
        if one.section != section {
            section = &one.section;
            let head = "| requirement | level | about | shown by | stdio | HTTP |\n|---|---|---|---|---|---|";
            writeln!(text, "\n## {section}\n\n{head}")?;
        }
        let names = evidence.of(&one.id);
        let by = match &one.because {
            Some(because) if names.is_empty() => format!("not shown: {because}"),
            _ => names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", "),
        };
        let cell = |transport| outcomes.cell(names.iter().map(String::as_str), transport);
        let cells = [&one.id, &one.level, &one.about, &by, &cell("stdio"), &cell("http")];
        row(&mut text, &cells.map(String::as_str))?;
    }
    text.push_str(
        "\n## Vectors\n\n| vector | requirements | what | only over | stdio | HTTP |\n|---|---|---|---|---|---|\n",
    );
    for vector in &evidence.vectors {
        let only = vector.only.as_ref().map(|(transport, why)| format!("{transport}: {why}")).unwrap_or_default();
        let cell = |transport| outcomes.cell(std::iter::once(vector.id.as_str()), transport);
        let cells = [&vector.id, &vector.names, &vector.sentence, &only, &cell("stdio"), &cell("http")];
        row(&mut text, &cells.map(String::as_str))?;
    }
    text.push_str("\n## Vectors that are programs\n\n| vector | test | stdio | HTTP |\n|---|---|---|---|\n");
    for (id, tests) in &programs {
        let cell = |transport| outcomes.cell(tests.iter().copied(), transport);
        let named = tests.iter().map(|name| code(name)).collect::<Vec<_>>().join(", ");
        row(&mut text, &[id, &named, &cell("stdio"), &cell("http")])?;
    }
    text.push_str("\n## Vectors that are not here\n\n");
    for (id, why) in &evidence.elsewhere {
        writeln!(text, "- {id}: {why}")?;
    }
    Ok(text)
}

impl Outcomes {
    /// What holds always held where every vector passed.
    fn with_always(&self, always: &[Test]) -> Self {
        let mut outcomes = self.0.clone();
        for transport in TRANSPORTS {
            let mut ran =
                self.0.iter().filter(|((name, over), _)| *over == transport && !name.contains(':')).peekable();
            if ran.peek().is_some() {
                let pass = ran.all(|(_, pass)| *pass);
                outcomes.extend(always.iter().map(|rule| ((rule.name.clone(), transport), pass)));
            }
        }
        Self(outcomes)
    }
}

fn code(name: &str) -> String {
    if name.contains("::") { format!("`{name}`") } else { name.to_owned() }
}

pub(crate) fn row(text: &mut String, cells: &[&str]) -> Result<()> {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    Ok(writeln!(text, "| {} |", cells.join(" | "))?)
}

/// The lines of a document that follow from files alone.
pub(crate) fn without_results(document: &str) -> Vec<String> {
    let without = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        match line.starts_with("| ") {
            true => cells[..cells.len().saturating_sub(2)].join(" | "),
            false => line.to_owned(),
        }
    };
    document.lines().filter(|line| !line.starts_with(RUN)).map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> Outcomes {
        let notes = concat!(
            "{\"vector\":\"V-001\",\"transport\":\"stdio\",\"pass\":true}\n",
            "{\"vector\":\"V-001\",\"transport\":\"http\",\"pass\":false}\n",
            "{\"test\":\"a::b\",\"transport\":\"http\"}\n",
        );
        let report = "running 3 tests\ntest a::b ... ok\ntest c::d ... FAILED\ntest vectors::http::s01 ... ok\n";
        Outcomes::new(notes, report).unwrap()
    }

    #[test]
    fn a_run_is_read_and_failures_are_named() {
        let outcomes = outcomes();
        let cell = |names: &[&str], transport| outcomes.cell(names.iter().copied(), transport);
        assert_eq!(cell(&["V-001"], "stdio"), "pass");
        assert_eq!(cell(&["V-001", "a::b"], "http"), "FAIL 1 of 2: V-001");
        assert_eq!(cell(&["a::b"], "http"), "pass");
        assert_eq!(cell(&["V-001", "c::d"], "stdio"), "FAIL 1 of 2: c::d");
        assert_eq!(cell(&["V-999"], "stdio"), "–");
        assert!(Outcomes::new("{\"vector\":\"V-001\"}", "").is_err());
    }

    #[test]
    fn a_document_differs_by_its_results_alone() {
        let evidence = Evidence::read().unwrap();
        let (with, without) =
            (render(&evidence, &outcomes()).unwrap(), render(&evidence, &Outcomes::default()).unwrap());
        assert_ne!(with, without);
        assert_eq!(without_results(&with), without_results(&without));
        assert_ne!(without_results(&with), without_results(&with.replace("V-003", "V-004")));
    }
}
