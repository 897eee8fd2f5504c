//! `cargo xtask faults`: runs the fault suites and writes docs/faults.md: what each failure of Google's comes to, for the model and
//! for the host.
//!
//! `cargo xtask test` runs the suites too, and compares what does not depend on the machine or the day: which faults there
//! are, and how each ends.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::Result;
use crate::conformance::{NOTES, row};
use crate::workspace::{self, about, root};

/// Where it is written.
pub(crate) const DOCUMENT: &str = "docs/faults.md";

/// One fault, played to one connector: a line of what the suites write down.
#[derive(Clone, Deserialize)]
pub(crate) struct Fault {
    connector: String,
    fault: String,
    /// Code and text of the error, where there was one.
    code: Option<i64>,
    message: Option<String>,
    /// Requests of the kind that failed.
    requests: u64,
    milliseconds: u64,
}

/// By connector and name of the fault.
pub(crate) type Faults = BTreeMap<(String, String), Fault>;

/// Runs the task.
pub(crate) fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let notes = folder.path().join("notes");
    for arguments in [
        &["build", "--workspace", "--exclude", "xtask", "--bins", "--quiet"][..],
        &["test", "--package", "tests", "--test", "it", "--quiet", "--", "faults"],
    ] {
        let status = workspace::cargo().args(arguments).env(NOTES, &notes).status()?;
        if !status.success() {
            return Err(format!("cargo {}: {status}", arguments.join(" ")).into());
        }
    }
    let notes = std::fs::read_to_string(&notes).map_err(about("what the suites write down"))?;
    std::fs::write(root().join(DOCUMENT), render(&read(&notes))?).map_err(about(DOCUMENT))?;
    println!("{DOCUMENT} is written");
    Ok(())
}

/// The faults among the notes of a run: JSON lines.
pub(crate) fn read(notes: &str) -> Faults {
    let faults = notes.lines().filter_map(|line| serde_json::from_str::<Fault>(line).ok());
    faults.map(|fault| ((fault.connector.clone(), fault.fault.clone()), fault)).collect()
}

/// The document.
pub(crate) fn render(faults: &Faults) -> Result<String> {
    let mut text = String::from(
        "# Faults\n\n\
        What happens when Google fails: each fault played to a connector by the sandbox, over real HTTP, what the model was told, and what\n\
        the host got. Written by `cargo xtask faults` from the fault suites (`tests/tests/it/google/faults.rs` and those of each\n\
        connector), which also check that a failed call leaves no file, that no secret is told, and that the next call works. `cargo\n\
        xtask test` fails when a fault ends in another way than here. \"Requests\" counts those of the kind that fails, in the whole\n\
        call; the time is that of the run.\n",
    );
    let mut connector = "";
    for ((of, name), fault) in faults {
        if of != connector {
            connector = of;
            let count = faults.keys().filter(|(of, _)| of == connector).count();
            let head = "| fault | the model is told | the host gets | requests | time |\n|---|---|---|---|---|";
            writeln!(text, "\n## {connector}: {count} faults\n\n{head}")?;
        }
        let told = fault.message.as_deref().map(steady);
        let requests = fault.requests.to_string();
        let time = format!("{:.1} s", fault.milliseconds as f64 / 1000.0);
        let cells =
            [name, told.as_deref().unwrap_or("the rows, as if nothing had happened"), &ending(fault), &requests, &time];
        row(&mut text, &cells)?;
    }
    Ok(text)
}

/// How a fault ends.
fn ending(fault: &Fault) -> String {
    // Without the number of rows, which depends on the day.
    fault.code.map_or_else(|| "the whole table".to_owned(), |code| format!("the error {code}, no table"))
}

/// A message without what differs from run to run: ports of this machine, and ids of jobs.
fn steady(message: &str) -> String {
    let ports = without(message, "127.0.0.1:", |mark| mark.is_ascii_digit(), "PORT");
    without(&ports, ":EU.acp_", |mark| mark.is_ascii_hexdigit(), "JOB")
}

/// A text with a name for what follows each marker.
fn without(text: &str, marker: &str, is_part: impl Fn(char) -> bool, name: &str) -> String {
    let mut parts = text.split(marker);
    let mut steady = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        steady.extend([marker, name, part.trim_start_matches(&is_part)]);
    }
    steady
}

/// What a run saw and the document does not say, or the other way round.
pub(crate) fn differences(document: &str, faults: &Faults) -> Vec<String> {
    let mut known = BTreeMap::new();
    let mut connector = String::new();
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            connector = heading.split(':').next().unwrap_or_default().to_owned();
        }
        let cells: Vec<&str> = line.split(" | ").collect();
        if let [name, .., ending, _, _] = cells.as_slice()
            && let Some(name) = name.strip_prefix("| ")
            && name != "fault"
        {
            known.insert((connector.clone(), name.to_owned()), (*ending).to_owned());
        }
    }
    let found: BTreeMap<(String, String), String> =
        faults.iter().map(|(key, fault)| ((key.0.clone(), cell(&key.1)), cell(&ending(fault)))).collect();
    let mut told = Vec::new();
    for (key, ending) in &found {
        match known.get(key) {
            Some(known) if known == ending => {}
            Some(known) => told.push(format!("{}, {}: {ending}, not {known}", key.0, key.1)),
            None => told.push(format!("{}, {} is not in it", key.0, key.1)),
        }
    }
    told.extend(
        known.keys().filter(|key| !found.contains_key(*key)).map(|key| format!("{}, {} is gone", key.0, key.1)),
    );
    told
}

/// A text as a cell of a table has it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: &str = concat!(
        "{\"vector\":\"V-001\",\"transport\":\"stdio\",\"pass\":true}\n",
        "{\"connector\":\"ga4\",\"fault\":\"500 once\",\"requests\":2,\"milliseconds\":480}\n",
        "{\"connector\":\"ga4\",\"fault\":\"a | b\",\"code\":-32018,\"message\":\"No 127.0.0.1:4711, p:EU.acp_0f1.\",\"requests\":1,\"milliseconds\":9}\n",
        "{\"connector\":\"gsc\",\"fault\":\"500 once\",\"requests\":2,\"milliseconds\":480}\n",
    );

    #[test]
    fn a_document_is_what_a_run_saw() {
        let faults = read(NOTES);
        assert_eq!(faults.len(), 3);
        let document = render(&faults).unwrap();
        assert!(document.contains("## ga4: 2 faults"), "{document}");
        assert!(
            document.contains("| No 127.0.0.1:PORT, p:EU.acp_JOB. | the error -32018, no table | 1 | 0.0 s |"),
            "{document}"
        );
        assert_eq!(differences(&document, &faults), Vec::<String>::new());
    }

    #[test]
    fn another_ending_a_new_fault_and_one_that_is_gone_are_told() {
        let document = render(&read(NOTES)).unwrap();
        let changed = read(&NOTES.replace("-32018", "-32012").replace("gsc", "bigquery"));
        let told = differences(&document, &changed).join("\n");
        assert_eq!(
            told,
            "bigquery, 500 once is not in it\nga4, a \\| b: the error -32012, no table, not the error -32018, no table\ngsc, 500 once is gone"
        );
    }
}
