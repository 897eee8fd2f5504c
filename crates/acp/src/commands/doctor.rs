//! `acp doctor`: everything that can be wrong, each with what to do.

use std::path::Path;

use acp_host::datasets;
use acp_host::host::Host;
use acp_host::secrets;
use acp_host::sources::{Reference, Source, Sources};
use acp_protocol::setup::CredentialsSchema;
use acp_protocol::{JsonObject, TOOL_AUTOCONTEXT};
use serde_json::json;

use crate::folders::Folders;
use crate::report::{self, Failure, Report};

use super::call::QUERY_HINT;

/// What was looked at, and what is wrong with it.
struct Check {
    subject: String,
    problem: Option<String>,
    fix: Option<String>,
}

#[derive(Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn good(&mut self, subject: impl Into<String>) {
        self.0.push(Check { subject: subject.into(), problem: None, fix: None });
    }

    fn bad(&mut self, subject: impl Into<String>, problem: impl Into<String>, fix: impl Into<String>) {
        let (problem, fix) = (Some(problem.into()), Some(fix.into()));
        self.0.push(Check { subject: subject.into(), problem, fix });
    }
}

pub(super) async fn run(folders: &Folders) -> Result<Report, Failure> {
    let host = folders.host("acp", QUERY_HINT)?;
    let mut checks = Checks::default();
    connectors(&host, &mut checks).await?;
    match host.sources() {
        Ok(sources) => check_sources(&host, &sources, &mut checks).await,
        Err(error) => {
            checks.bad("sources.json", error.to_string(), "Correct it there, or move it away and run acp source add.");
        }
    }
    data(&host.data(), &mut checks)?;
    host.close().await;
    Ok(told(&checks))
}

fn told(checks: &Checks) -> Report {
    let mut lines = Vec::new();
    for check in &checks.0 {
        match &check.problem {
            None => lines.push(format!("ok    {}", check.subject)),
            Some(problem) => lines.push(format!("wrong {}: {problem}", check.subject)),
        }
        lines.extend(check.fix.iter().map(|fix| format!("      {fix}")));
    }
    let ok = checks.0.iter().all(|check| check.problem.is_none());
    let values: Vec<_> = checks
        .0
        .iter()
        .map(|check| {
            json!({"subject": check.subject, "ok": check.problem.is_none(), "problem": check.problem, "fix": check.fix})
        })
        .collect();
    let report = Report::new(lines.join("\n"), json!({"ok": ok, "checks": values}));
    if ok { report } else { report.failing(report::SOURCE) }
}

async fn connectors(host: &Host, checks: &mut Checks) -> Result<(), Failure> {
    let listing = host.packages()?;
    if listing.packages.is_empty() {
        let folder = host.options().system.display().to_string();
        checks.bad(format!("connectors in {folder}"), "there is none", "Install one with: acp install ZIP");
    }
    for (folder, problem) in listing.broken {
        checks.bad(folder.display().to_string(), problem, "Install the connector again, or remove the folder.");
    }
    for package in listing.packages {
        let (id, version) = (package.manifest.id, package.manifest.version);
        match host.server(&id).await {
            Ok(server) if server.capability().is_some() => checks.good(format!("{id} {version} starts")),
            Ok(_) => checks.good(format!("{id} {version} starts, as a plain MCP server")),
            Err(error) => {
                checks.bad(format!("{id} {version}"), error.to_string(), "Install the connector again.");
            }
        }
    }
    Ok(())
}

async fn check_sources(host: &Host, sources: &Sources, checks: &mut Checks) {
    let file = sources.path();
    if !sources.exists() {
        checks.bad(file.display().to_string(), "there is no such file", "Add a source with: acp source add NAME");
        return;
    }
    match tokio::task::spawn_blocking(secrets::keyring).await {
        Ok(Ok(())) => checks.good("the keyring answers"),
        _ => checks.good("there is no keyring here: secrets are kept in files that only you can read"),
    }
    permissions(host, sources, checks).await;
    for key in sources.unknown() {
        checks.bad(format!("{key} in sources.json"), "it is not known, and ignored", "Correct its name, or remove it.");
    }
    for source in sources.all() {
        try_out(host, source, checks).await;
    }
}

/// Secrets, and files that may hold some, are for their owner alone.
async fn permissions(host: &Host, sources: &Sources, checks: &mut Checks) {
    let folder = sources.path().parent().unwrap_or(Path::new(""));
    let mut files = Vec::new();
    for source in sources.all() {
        let server = host.server(&source.acp).await.ok();
        let schema = server.as_ref().and_then(|server| Some(&server.capability()?.credentials_schema));
        // A field that no connector declares may be a secret too.
        let is_secret = |name: &String| {
            let mut declared = schema.into_iter().flat_map(CredentialsSchema::variants);
            declared.find_map(|variant| variant.properties.get(name)).is_none_or(|property| property.write_only)
        };
        for (_, value) in source.credentials.iter().flatten().filter(|(name, _)| is_secret(name)) {
            match Reference::of(value) {
                Some(Reference::File(path)) => files.push(folder.join(path)),
                Some(_) => {}
                None => files.push(sources.path().to_path_buf()),
            }
        }
    }
    files.sort();
    files.dedup();
    for path in files {
        let subject = format!("permissions of {}", path.display());
        match secrets::open_to_others(&path) {
            Ok(false) => checks.good(subject),
            Ok(true) => {
                let fix = format!("Run: chmod 600 {}", path.display());
                checks.bad(subject, "others can read it", fix);
            }
            Err(error) => checks.bad(subject, error.to_string(), "Put the file there, or run acp source edit."),
        }
    }
}

async fn try_out(host: &Host, source: &Source, checks: &mut Checks) {
    let subject = format!("source {}", source.id);
    let fix = format!("Run: acp source edit {}", source.id);
    match host.call(&source.id, TOOL_AUTOCONTEXT, JsonObject::new(), None).await {
        Ok(outcome) if outcome.is_error => {
            let problem = outcome.error.map_or(outcome.model_text, |error| error.message);
            checks.bad(subject, problem, fix);
        }
        Ok(_) => checks.good(format!("{subject} lists its resources")),
        Err(error) => checks.bad(subject, error.to_string(), fix),
    }
}

/// Every dataset is read to its end.
fn data(folder: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let listing = datasets::list(folder)?;
    for (path, problem) in listing.unusable {
        checks.bad(path.display().to_string(), problem, "Mend the file, or remove it.");
    }
    let mut whole = 0;
    for dataset in listing.datasets {
        match dataset.read(|_| Ok(())) {
            Ok(()) => whole += 1,
            Err(error) => checks.bad(dataset.meta.id, error.to_string(), "Run acp reload, or remove its files."),
        }
    }
    checks.good(format!("{whole} datasets are whole"));
    Ok(())
}
