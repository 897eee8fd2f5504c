//! docs/complaints.md: each complaint has something that shows that it can't happen here, and every test that is named exists.

use std::collections::BTreeSet;

use super::Problem;
use crate::Result;
use crate::conformance::evidence::test_names;
use crate::workspace::root;

const DOCUMENT: &str = "docs/complaints.md";

pub(super) fn check() -> Result<Vec<Problem>> {
    Ok(problems(&std::fs::read_to_string(root().join(DOCUMENT))?, &test_names()?))
}

/// Code with `::` in it names a test. A row of a table that begins with an id has its evidence in the last cell.
fn problems(document: &str, tests: &BTreeSet<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    for line in document.lines() {
        let code = line.split('`').skip(1).step_by(2);
        problems.extend(code.filter(|name| name.contains("::") && !tests.contains(*name)).map(|name| {
            Problem::new(DOCUMENT, format!("names {name}, which is no test"), "name the test as it is called now")
        }));
        let Some(id) = id_of(line) else { continue };
        if !ids.insert(id) {
            problems.push(Problem::new(DOCUMENT, format!("{id} is there twice"), "remove one, or give it another id"));
        }
        let cells: Vec<&str> = line.trim_end().trim_end_matches('|').split(" | ").collect();
        if cells.len() < 3 || cells.iter().any(|cell| cell.trim().is_empty()) {
            problems.push(Problem::new(
                DOCUMENT,
                format!("nothing shows {id}"),
                "name a test, or say why it can't happen here",
            ));
        }
    }
    problems
}

/// The id that a row of a table begins with, with or without a link: a capital, a hyphen and two digits.
fn id_of(line: &str) -> Option<&str> {
    let id = line.strip_prefix("| ")?.trim_start_matches('[').get(..4)?;
    let (letter, digits) = id.split_once('-')?;
    let fits = letter.bytes().all(|byte| byte.is_ascii_uppercase()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    (letter.len() == 1 && fits).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_does_not_exist_and_a_row_without_evidence_are_found() {
        let tests = BTreeSet::from(["gsc::walk::a".to_owned(), "gsc::search::b".to_owned()]);
        let good = "# C\n`gsc` and `S-1`\n\n| id | what | shown by |\n|---|---|---|\n\
            | [G-01](https://x.test/1) | a `query` | `gsc::walk::a`, `gsc::search::b` |\n| G-02 | b | There is no cache. |\n";
        assert!(problems(good, &tests).is_empty(), "{:?}", problems(good, &tests));
        for (from, to, told) in [
            ("`gsc::walk::a`", "`gsc::walk::renamed`", "names gsc::walk::renamed"),
            ("`gsc` and", "`gsc::gone::c` and", "names gsc::gone::c"),
            ("| There is no cache. |", "|  |", "nothing shows G-02"),
            (" | There is no cache. |", " |", "nothing shows G-02"),
            ("`gsc::walk::a`, `gsc::search::b` |", " |", "nothing shows G-01"),
            ("| G-02 |", "| [G-01](https://x.test/2) |", "G-01 is there twice"),
        ] {
            let problems = problems(&good.replace(from, to), &tests);
            assert!(problems.len() == 1 && problems[0].problem.contains(told), "{told}: {problems:?}");
        }
    }
}
