//! What shows the requirements: the vectors, the tests that name them, and the rules that hold for every answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Result;
use crate::workspace::{about, files_below, folders_in, root};

/// The folder of the vectors and of the lists beside them.
pub(crate) const VECTORS: &str = "tests/vectors";
/// The folder of the black-box tests.
const TESTS: &str = "tests/tests/it";
/// Sources that are no tests of their own: what they name is checked whenever a vector runs.
const ALWAYS: [(&str, &str); 3] =
    [("rules.rs", "every answer"), ("host.rs", "every request of the server"), ("vectors.rs", "every vector")];

/// A requirement of the specification.
pub(crate) struct Requirement {
    pub(crate) id: String,
    /// `MUST`, `SHOULD NOT` and so on; with a star where it is implied.
    pub(crate) level: String,
    pub(crate) about: String,
    pub(crate) section: String,
    /// Why nothing shows it.
    pub(crate) because: Option<String>,
}

/// A vector.
pub(crate) struct Vector {
    pub(crate) id: String,
    /// What is in its brackets.
    pub(crate) names: String,
    pub(crate) sentence: String,
    /// The one transport it is about, and why.
    pub(crate) only: Option<(String, String)>,
}

/// A test, or a set of rules, and the text in which it names requirements and vectors.
pub(crate) struct Test {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// All of it.
pub(crate) struct Evidence {
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) vectors: Vec<Vector>,
    pub(crate) tests: Vec<Test>,
    pub(crate) always: Vec<Test>,
    /// Vectors that are not there, and why.
    pub(crate) elsewhere: Vec<(String, String)>,
    /// For each id of a requirement what names it: always, vectors, tests.
    pub(crate) named: BTreeMap<String, Vec<String>>,
}

impl Evidence {
    /// Reads the workspace.
    pub(crate) fn read() -> Result<Self> {
        let mut vectors = Vec::new();
        for path in files_below(&root().join(VECTORS))? {
            if !path.ends_with("requirements.txt") && !path.ends_with("elsewhere.txt") {
                vectors.extend(vectors_of(&read(&path)?));
            }
        }
        let (mut tests, mut always) = (Vec::new(), Vec::new());
        let folder = root().join(TESTS);
        for path in files_below(&folder)? {
            let name = path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            let text = read(&path)?;
            match ALWAYS.iter().find(|(file, _)| *file == name) {
                Some((_, what)) => always.push(Test { name: (*what).to_owned(), text }),
                None => tests.extend(tests_of(&name, &text)),
            }
        }
        let lists = |name: &str| read(&root().join(VECTORS).join(name));
        let requirements = requirements_of(&lists("requirements.txt")?)?;
        Ok(Self::new(requirements, vectors, tests, always, elsewhere_of(&lists("elsewhere.txt")?)?))
    }

    pub(crate) fn new(
        requirements: Vec<Requirement>,
        vectors: Vec<Vector>,
        tests: Vec<Test>,
        always: Vec<Test>,
        elsewhere: Vec<(String, String)>,
    ) -> Self {
        let texts = always.iter().map(|test| (&test.name, &test.text));
        let texts = texts.chain(vectors.iter().map(|vector| (&vector.id, &vector.names)));
        let texts = texts.chain(tests.iter().map(|test| (&test.name, &test.text)));
        let mut named = BTreeMap::<String, Vec<String>>::new();
        for (name, text) in texts {
            for id in ids_in(text, &requirements) {
                named.entry(id).or_default().push(name.clone());
            }
        }
        Self { requirements, vectors, tests, always, elsewhere, named }
    }

    /// Everything that names a requirement.
    pub(crate) fn of(&self, id: &str) -> &[String] {
        self.named.get(id).map_or(&[], Vec::as_slice)
    }

    /// The vectors that are tests, with those that name them.
    pub(crate) fn programs(&self) -> BTreeMap<String, Vec<&str>> {
        let mut programs = BTreeMap::<String, Vec<&str>>::new();
        for test in &self.tests {
            for id in vectors_in(&test.text) {
                programs.entry(id).or_default().push(&test.name);
            }
        }
        programs.retain(|id, _| self.vectors.iter().all(|vector| vector.id != *id));
        programs
    }
}

/// Every test that can be evidence, by its name: the black-box tests, and under the id of a connector its own.
pub(crate) fn test_names() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut add = |folder: &Path, before: &str| -> Result<()> {
        for path in files_below(folder)? {
            let file = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            let tests = tests_of(&format!("{before}{file}"), &read(&path)?);
            names.extend(tests.into_iter().map(|test| test.name));
        }
        Ok(())
    };
    add(&root().join(TESTS), "")?;
    for id in folders_in("connectors")? {
        add(&root().join("connectors").join(&id).join("src"), &format!("{id}/"))?;
    }
    Ok(names)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(about(path.display()))
}

fn requirements_of(text: &str) -> Result<Vec<Requirement>> {
    let mut requirements = Vec::<Requirement>::new();
    let mut section = String::new();
    for line in lines(text) {
        let wrong = || format!("{VECTORS}/requirements.txt: {line}");
        if let Some(title) = line.strip_prefix("section ") {
            title.clone_into(&mut section);
        } else if let Some(why) = line.strip_prefix("  because ") {
            requirements.last_mut().ok_or_else(wrong)?.because = Some(why.to_owned());
        } else {
            let (name, about) = line.split_once(": ").ok_or_else(wrong)?;
            let (id, level) = name.split_once(' ').ok_or_else(wrong)?;
            let (id, level, about) = (id.to_owned(), level.to_owned(), about.to_owned());
            requirements.push(Requirement { id, level, about, section: section.clone(), because: None });
        }
    }
    Ok(requirements)
}

fn elsewhere_of(text: &str) -> Result<Vec<(String, String)>> {
    let entry = |line: &str| line.split_once(": ").map(|(id, why)| (id.to_owned(), why.to_owned()));
    lines(text).map(|line| entry(line).ok_or_else(|| format!("{VECTORS}/elsewhere.txt: {line}").into())).collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

fn vectors_of(text: &str) -> Vec<Vector> {
    let mut vectors = Vec::<Vector>::new();
    for line in lines(text) {
        let title = line.split_once(" [").and_then(|(id, rest)| Some((id, rest.split_once("] ")?)));
        if let Some((id, (names, sentence))) = title
            && vectors_in(id).contains(id)
        {
            let (id, names, sentence) = (id.to_owned(), names.to_owned(), sentence.to_owned());
            vectors.push(Vector { id, names, sentence, only: None });
        } else if let (Some(only), Some(vector)) = (line.strip_prefix("only "), vectors.last_mut()) {
            vector.only = only.split_once(' ').map(|(transport, why)| (transport.to_owned(), why.to_owned()));
        }
    }
    vectors
}

/// The tests of a file, each with its comments. Formatted sources end a function with a brace that stands where it began.
fn tests_of(file: &str, text: &str) -> Vec<Test> {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
    let lines: Vec<&str> = text.lines().collect();
    let mut tests = Vec::new();
    let mut inner = "";
    for (place, line) in lines.iter().enumerate() {
        if let Some(name) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {")) {
            inner = name;
        }
        if !matches!(line.trim(), "#[test]" | "#[tokio::test]") {
            continue;
        }
        let indentation = &line[..line.len() - line.trim_start().len()];
        let rest = &lines[place..];
        let Some(name) = rest.iter().find_map(|line| line.trim().strip_prefix("fn ")?.split('(').next()) else {
            continue;
        };
        let length = rest.iter().position(|line| **line == format!("{indentation}}}")).unwrap_or(rest.len());
        let comments = lines[..place].iter().rev().take_while(|line| {
            let line = line.trim();
            line.starts_with("///") || line.starts_with("#[")
        });
        let text: Vec<&str> = comments.chain(&rest[..length]).copied().collect();
        let path = [module.as_str(), if indentation.is_empty() { "" } else { inner }, name];
        let path: Vec<&str> = path.into_iter().filter(|part| !part.is_empty()).collect();
        tests.push(Test { name: path.join("::"), text: text.join("\n") });
    }
    tests
}

/// The ids of requirements in a text, with ranges such as `S-2-04/05`, `S-2-01..05` and `S-5.5.1-*` spelled out.
fn ids_in(text: &str, known: &[Requirement]) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for (section, rest) in words(text, "S-").filter_map(|word| word.split_once('-')) {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let part = section.trim_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        if section.is_empty() || !(part.is_empty() || matches!(section, "A" | "X")) {
            continue;
        }
        if rest.starts_with('*') {
            let start = format!("S-{section}-");
            ids.extend(known.iter().filter(|one| one.id.starts_with(&start)).map(|one| one.id.clone()));
            continue;
        }
        let (first, mut rest) = rest.split_at(digits(rest));
        let mut last = first;
        while !last.is_empty() {
            ids.insert(format!("S-{section}-{last}"));
            if let Some(after) = rest.strip_prefix("..") {
                let end = &after[..digits(after)];
                if let (Ok(from), Ok(to)) = (last.parse::<usize>(), end.parse::<usize>()) {
                    ids.extend((from..=to).map(|number| format!("S-{section}-{number:02}")));
                }
                break;
            }
            let after = rest.strip_prefix('/').unwrap_or_default();
            (last, rest) = after.split_at(digits(after));
        }
    }
    ids
}

/// The ids of vectors in a text: a capital, a hyphen, three digits and perhaps a letter, as a word.
fn vectors_in(text: &str) -> BTreeSet<String> {
    let id = |word: &str| {
        let (letter, rest) = word.split_at_checked(2)?;
        let (digits, rest) = rest.split_at_checked(3)?;
        let fits = letter.starts_with(|letter: char| letter.is_ascii_uppercase()) && letter.ends_with('-');
        let part = rest.len() <= 1 && rest.bytes().all(|letter| letter.is_ascii_lowercase());
        (fits && part && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| word.to_owned())
    };
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').filter_map(id).collect()
}

/// What follows each occurrence of `start` that begins a word.
fn words<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(start).filter_map(move |(place, _)| {
        let before = text[..place].chars().next_back();
        let begins = before.is_none_or(|letter| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_');
        begins.then(|| &text[place + start.len()..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_ranges_are_spelled_out() {
        let known = requirements_of("section 5\nS-5.5.1-01 MUST: a\nS-5.5.1-02 MAY: b\n  because c\n").unwrap();
        assert_eq!((known[1].section.as_str(), known[1].because.as_deref()), ("5", Some("c")));
        for (text, expected) in [
            ("\"V-1 [S-2-01, S-A-02]\"", &["S-2-01", "S-A-02"][..]),
            ("S-8.5-01/02/10.", &["S-8.5-01", "S-8.5-02", "S-8.5-10"]),
            ("[S-8.2-09..11]", &["S-8.2-09", "S-8.2-10", "S-8.2-11"]),
            ("S-5.5.1-*", &["S-5.5.1-01", "S-5.5.1-02"]),
            ("(S-X-11)", &["S-X-11"]),
            ("xS-2-01 s-2-01 S- S-- S-2 S-2- S-B-01 UTF-8 MUS-2-1 S-2-01", &["S-2-01"]),
        ] {
            let found = ids_in(text, &known);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn vectors_and_tests_are_found() {
        let vectors = vectors_of(
            "# c\nV-001b [S-2-01,AMB-01] One.\nonly http why not\ncall x [a] b\n  MR = 1\nM-002 [S-2-02] Two.\n",
        );
        let found: Vec<(&str, &str)> = vectors.iter().map(|one| (one.id.as_str(), one.sentence.as_str())).collect();
        assert_eq!(found, [("V-001b", "One."), ("M-002", "Two.")]);
        assert_eq!(vectors[0].only, Some(("http".to_owned(), "why not".to_owned())));
        let text = "fn help() { V-1 }\n\n/// V-007.\n#[cfg(unix)]\n#[test]\nfn first() {\n    S-1\n}\n// V-008\nmod tests {\n    #[test]\n    fn second() {\n        x\n    }\n}\n";
        let tests = tests_of("ga4/mod.rs", text);
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["ga4::first", "ga4::tests::second"]);
        assert_eq!(
            vectors_in("V-001: (R-002b) S-2-01 AB-123 V-12 V-1234 v-123 X-001-2"),
            ["R-002b", "V-001"].map(str::to_owned).into()
        );
        assert_eq!(vectors_in(&tests[0].text).into_iter().collect::<Vec<_>>(), ["V-007"]);
        assert!(tests[0].text.contains("S-1") && !tests[0].text.contains("V-1"));
    }
}
