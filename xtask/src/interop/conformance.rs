//! The official conformance suite of MCP. `mcp-everything` has all of its fixtures and must pass whole; `acp-toy` must pass
//! whatever needs none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokio::process::Command;

use super::tools::{self, Tools};
use crate::Result;
use crate::served::Served;

const PROGRAM: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// A version of the suite, the revision of MCP that the server announces as its newest, and where the suite has hardly any
/// scenario for that revision, another whose scenarios are run. The suite itself always asks for the newest revision it
/// knows; it is the server's answer that chooses.
const RUNS: [(&str, &str, Option<&str>); 6] = [
    ("conformance", "2025-06-18", None),
    ("conformance", "2025-11-25", None),
    ("conformance-next", "2025-03-26", Some("2025-06-18")),
    ("conformance-next", "2025-06-18", None),
    ("conformance-next", "2025-11-25", None),
    ("conformance-next", WITHOUT_SESSIONS, None),
];

/// A revision that only `acp-toy` announces: the fixtures are those of revisions with sessions.
const WITHOUT_SESSIONS: &str = "2026-07-28";
/// What a client with sessions gets from a server that announces a newer one too.
const NEWEST_WITH_SESSIONS: &str = "2025-11-25";

/// The servers that are judged.
const SERVERS: [&str; 2] = [EVERYTHING, "acp-toy"];
const EVERYTHING: &str = "mcp-everything";

/// What a server can't pass.
#[derive(Deserialize)]
struct Expected {
    /// Why. For who reads the file.
    #[serde(rename = "reason")]
    _reason: String,
    /// Scenarios, or single checks as `scenario:check`.
    failures: BTreeSet<String>,
}

/// A check of a scenario, as the suite writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: Status,
    error_message: Option<String>,
}

#[derive(PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    Info,
}

/// The checks of each scenario that was run.
type Results = BTreeMap<String, Vec<Check>>;

/// Runs this part.
pub(super) async fn run(tools: &Tools) -> Result<()> {
    let expected: BTreeMap<String, Vec<Expected>> = tools::read_json("expected-failures.json")?;
    for server in SERVERS {
        let listed = expected.get(server).into_iter().flatten().flat_map(|entry| entry.failures.clone());
        let expected: BTreeSet<String> = listed.collect();
        let mut met = BTreeSet::new();
        for (id, revision, scenarios_of) in RUNS {
            if server == EVERYTHING && revision == WITHOUT_SESSIONS {
                continue;
            }
            let (suite, folder) = tools.install(id).await?;
            let name = format!("{} {}, {server}, {revision}", suite.name, suite.version);
            super::step(&name, async {
                let served = serve(server, revision).await?;
                let suite = Suite { tools, program: folder.join(PROGRAM), results: tools.fresh("results")?, revision };
                let count = match scenarios_of {
                    None => suite.run_all(&served.url).await?,
                    Some(other) => suite.run_each(&served.url, other).await?,
                };
                let results = read_results(&suite.results)?;
                if count == 0 || results.len() != count {
                    return Err(format!("{count} scenarios were to be run, {} have results", results.len()).into());
                }
                judge(&results, &expected, &mut met)
            })
            .await?;
        }
        if let Some(failure) = expected.difference(&met).next() {
            return Err(format!("expected-failures.json: {server}: {failure} was not met in any run").into());
        }
    }
    Ok(())
}

/// Starts a server that announces no newer revision than this, and makes sure of it.
async fn serve(server: &str, revision: &str) -> Result<Served> {
    let mut command = Command::new(super::program(server)?);
    command.args(["--http", "--port", "0"]);
    match server {
        EVERYTHING => command.env("MCP_NEWEST", revision),
        _ => command.args(["--protocol-version", revision]),
    };
    let served = Served::start(&mut command).await?;
    let greeting = served.greet().await?;
    match greeting.revision.as_deref() {
        Some(chosen) if chosen == revision.min(NEWEST_WITH_SESSIONS) => Ok(served),
        chosen => Err(format!("the server chose {chosen:?} ({})", greeting.status).into()),
    }
}

struct Suite<'a> {
    tools: &'a Tools,
    program: PathBuf,
    results: PathBuf,
    revision: &'a str,
}

impl Suite<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut node = self.tools.node();
        node.arg(&self.program).args(arguments);
        node
    }

    /// Runs every scenario of the revision, and returns how many the suite says there are.
    async fn run_all(&self, url: &str) -> Result<usize> {
        let mut suite = self.command(&["server", "--url", url, "--suite", "all"]);
        suite.args(["--spec-version", self.revision, "--output-dir"]).arg(&self.results);
        // Its exit code counts failures that are expected; the results tell which they are.
        let output = super::output(&mut suite).await?;
        let printed = super::stdout(&output);
        let count = printed.split_once(" scenarios)").and_then(|(before, _)| before.rsplit('(').next()?.parse().ok());
        Ok(count.ok_or_else(|| format!("the suite does not say what it runs: {}", super::failed(&output)))?)
    }

    /// Runs the scenarios of another revision one by one, and returns how many there are.
    async fn run_each(&self, url: &str, other: &str) -> Result<usize> {
        let list = super::succeed(&mut self.command(&["list", "--server", "--spec-version", other])).await?;
        let scenarios: Vec<&str> =
            list.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split_whitespace().next()).collect();
        for scenario in &scenarios {
            let mut suite = self.command(&["server", "--url", url, "--scenario", scenario, "--force"]);
            suite.args(["--spec-version", self.revision, "--output-dir"]).arg(&self.results);
            super::output(&mut suite).await?;
        }
        Ok(scenarios.len())
    }
}

/// The suite writes `server-<scenario>-<time>/checks.json`.
fn read_results(folder: &Path) -> Result<Results> {
    let mut results = Results::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let scenario = name.strip_prefix("server-").and_then(|name| {
            let (scenario, _) = name.split_at_checked(name.len().checked_sub(TIME.len())?)?;
            Some(scenario.to_owned())
        });
        let scenario = scenario.ok_or_else(|| format!("{name} is not the name of a result"))?;
        let checks = std::fs::read(path.join("checks.json"))?;
        results.insert(scenario, serde_json::from_slice(&checks)?);
    }
    Ok(results)
}

/// How the suite ends the name of a folder.
const TIME: &str = "-2026-01-01T00-00-00-000Z";

/// Compares what failed with what is expected to fail, strictly: what is listed must fail. Notes what of the list was met.
fn judge(results: &Results, expected: &BTreeSet<String>, met: &mut BTreeSet<String>) -> Result<String> {
    let (mut wrong, mut passed, mut partly, mut checks_passed) = (Vec::new(), 0, 0, 0);
    for (scenario, checks) in results {
        let whole = expected.contains(scenario);
        let failures = || checks.iter().filter(|check| matches!(check.status, Status::Failure | Status::Warning));
        for check in failures() {
            let name = if whole { scenario.clone() } else { format!("{scenario}:{}", check.id) };
            if expected.contains(&name) {
                met.insert(name);
            } else {
                wrong.push(format!("{name}: {}", check.error_message.as_deref().unwrap_or("it fails")));
            }
        }
        let passing = || checks.iter().filter(|check| check.status == Status::Success);
        let listed = passing().map(|check| format!("{scenario}:{}", check.id)).filter(|name| expected.contains(name));
        let listed = listed.chain((whole && failures().next().is_none()).then(|| scenario.clone()));
        wrong.extend(listed.map(|name| format!("{name}: it passes now; take it out of expected-failures.json")));
        match failures().next() {
            Some(_) => partly += 1,
            None => passed += 1,
        }
        if !whole {
            checks_passed += passing().count();
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n  ").into());
    }
    let partly = if partly == 0 { String::new() } else { format!("; {partly} fail where it is expected") };
    Ok(format!("{passed} scenarios pass{partly}; {checks_passed} checks pass"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(of: &[(&str, &[&str])]) -> Results {
        let check = |status: &&str| -> Check {
            let text = format!(r#"{{"id": "a-check", "status": "{status}", "errorMessage": "why"}}"#);
            serde_json::from_str(&text).unwrap()
        };
        of.iter().map(|(name, checks)| ((*name).to_owned(), checks.iter().map(check).collect())).collect()
    }

    #[test]
    fn only_what_is_listed_fails_and_all_of_it() {
        let expected = BTreeSet::from(["prompts".to_owned(), "caching:a-check".to_owned()]);
        let judged = |of: &[(&str, &[&str])]| {
            let mut met = BTreeSet::new();
            judge(&results(of), &expected, &mut met).map(|said| (said, met)).map_err(|error| error.to_string())
        };
        let (said, met) = judged(&[("ping", &["SUCCESS", "INFO"]), ("prompts", &["SUCCESS", "FAILURE"])]).unwrap();
        assert_eq!(said, "1 scenarios pass; 1 fail where it is expected; 1 checks pass");
        assert_eq!(met, BTreeSet::from(["prompts".to_owned()]));
        let (_, met) = judged(&[("caching", &["FAILURE", "INFO"])]).unwrap();
        assert_eq!(met, BTreeSet::from(["caching:a-check".to_owned()]));
        for failure in ["FAILURE", "WARNING"] {
            assert_eq!(judged(&[("ping", &["SUCCESS", failure])]).unwrap_err(), "ping:a-check: why");
        }
        for (scenario, name) in [("prompts", "prompts"), ("caching", "caching:a-check")] {
            assert!(judged(&[(scenario, &["SUCCESS"])]).unwrap_err().starts_with(&format!("{name}: it passes now")));
        }
    }

    #[test]
    fn results_are_found_by_the_names_of_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let folder = folder.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("checks.json"), r#"[{"id": "a", "status": "SUCCESS"}]"#).unwrap();
        };
        of("server-tools-list-2026-12-01T03-34-10-561Z");
        of("server-server-initialize-2026-12-01T03-34-10-562Z");
        let results = read_results(folder.path()).unwrap();
        assert_eq!(results.keys().collect::<Vec<_>>(), ["server-initialize", "tools-list"]);
        of("something");
        assert!(read_results(folder.path()).is_err());
    }
}
