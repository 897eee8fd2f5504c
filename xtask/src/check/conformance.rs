//! docs/conformance.md and what it is made of: every requirement is shown or has a reason, and every name exists.

use super::Problem;
use crate::Result;
use crate::conformance::evidence::{Evidence, VECTORS};
use crate::conformance::{DOCUMENT, Outcomes, render, without_results};
use crate::workspace::root;

pub(super) fn check() -> Result<Vec<Problem>> {
    let evidence = Evidence::read()?;
    let document = std::fs::read_to_string(root().join(DOCUMENT)).unwrap_or_default();
    let mut problems = lists(&evidence);
    problems.extend(out_of_date(&document, &render(&evidence, &Outcomes::default())?));
    Ok(problems)
}

fn lists(evidence: &Evidence) -> Vec<Problem> {
    let mut problems = Vec::new();
    let requirements = format!("{VECTORS}/requirements.txt");
    for one in &evidence.requirements {
        let shown = !evidence.of(&one.id).is_empty();
        match (shown, &one.because) {
            (false, None) => problems.push(Problem::new(
                &requirements,
                format!("nothing shows {}", one.id),
                "name it in a vector or a test, or say why nothing can (`  because …`)",
            )),
            (true, Some(_)) => problems.push(Problem::new(
                &requirements,
                format!("{} is shown, and has a reason why not", one.id),
                "remove the reason",
            )),
            _ => {}
        }
    }
    let known = |id: &str| evidence.requirements.iter().any(|one| one.id == id);
    problems.extend(evidence.named.iter().filter(|(id, _)| !known(id)).map(|(id, names)| {
        let problem = format!("{} names {id}", names.join(", "));
        Problem::new(VECTORS, problem, "there is no such requirement in requirements.txt")
    }));
    let programs = evidence.programs();
    let here = |id: &String| programs.contains_key(id) || evidence.vectors.iter().any(|vector| vector.id == *id);
    problems.extend(evidence.elsewhere.iter().filter(|(id, _)| here(id)).map(|(id, _)| {
        Problem::new(format!("{VECTORS}/elsewhere.txt"), format!("{id} is here"), "remove it from the list")
    }));
    problems
}

fn out_of_date(document: &str, expected: &str) -> Option<Problem> {
    let (found, expected) = (without_results(document), without_results(expected));
    if found == expected {
        return None;
    }
    let line = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    let line = line.unwrap_or(found.len().min(expected.len())) + 1;
    let problem = format!("is not what vectors and tests say, from line {line} or the one after it");
    Some(Problem::new(DOCUMENT, problem, "run `cargo xtask conformance`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::evidence::{Requirement, Test, Vector};

    fn evidence(names: &str, text: &str, elsewhere: &str) -> Evidence {
        let requirement = |id: &str, because: Option<&str>| Requirement {
            id: id.to_owned(),
            level: "MUST".to_owned(),
            about: "a".to_owned(),
            section: "1".to_owned(),
            because: because.map(str::to_owned),
        };
        let vector =
            Vector { id: "V-001".to_owned(), names: names.to_owned(), sentence: "One.".to_owned(), only: None };
        Evidence::new(
            vec![requirement("S-1-01", None), requirement("S-1-02", None), requirement("S-1-03", Some("c"))],
            vec![vector],
            vec![Test { name: "a::b".to_owned(), text: text.to_owned() }],
            Vec::new(),
            vec![(elsewhere.to_owned(), "later".to_owned())],
        )
    }

    #[test]
    fn lists_that_contradict_each_other_are_found() {
        assert!(lists(&evidence("S-1-01", "V-002 S-1-02", "V-003")).is_empty());
        for (vector, test, elsewhere, told) in [
            ("", "V-002 S-1-02", "V-003", "nothing shows S-1-01"),
            ("S-1-01,S-1-03", "V-002 S-1-02", "V-003", "S-1-03 is shown"),
            ("S-1-01,S-1-09", "V-002 S-1-02", "V-003", "V-001 names S-1-09"),
            ("S-1-01", "V-002 S-1-02 S-1-08", "V-003", "a::b names S-1-08"),
            ("S-1-01", "V-002 S-1-02", "V-001", "V-001 is here"),
            ("S-1-01", "V-002 S-1-02", "V-002", "V-002 is here"),
        ] {
            let problems = lists(&evidence(vector, test, elsewhere));
            assert!(problems.len() == 1 && problems[0].problem.contains(told), "{told}: {problems:?}");
        }
    }

    #[test]
    fn a_document_that_is_out_of_date_is_found() {
        let text = |evidence: &Evidence| render(evidence, &Outcomes::default()).expect("a document");
        let good = || evidence("S-1-01", "V-002 S-1-02", "V-003");
        let expected = text(&good());
        assert!(out_of_date(&expected, &expected).is_none());
        let mut other = good();
        other.vectors[0].sentence = "Two.".to_owned();
        let flaws =
            [text(&other), String::new(), expected.replace("V-001", "V-009"), expected.replace("`a::b`", "`a::c`")];
        for flaw in flaws {
            assert!(out_of_date(&flaw, &expected).is_some());
        }
    }
}
