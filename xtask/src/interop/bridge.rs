//! The bridge with programs of others: a session over Google's three sources, driven by MCP Inspector and by hosts on the
//! client libraries, each started from exactly what `acp config` prints; and the bundle, as the official tool of its format
//! reads it.

use std::path::{Path, PathBuf};

use google_sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::process::Command;

use super::inspector;
use super::tools::{self, Tools};
use crate::Result;
use crate::package;
use crate::workspace;

/// The clients of `acp config`.
const CLIENTS: [&str; 3] = ["claude", "cursor", "vscode"];
/// What a query may cost, in USD; the sandbox's tables are small.
const LIMIT: f64 = 1.0;
const SITE: &str = "sc-domain:nordwind.example";
/// The event that Analytics and its export both count.
const EVENT: &str = "page_view";
/// The tool that validates bundles.
const MCPB: &str = "node_modules/@anthropic-ai/mcpb";

/// Runs this part.
pub(super) async fn run(tools: &Tools) -> Result<()> {
    let scratch = tools.fresh("bridge")?;
    let sandbox = google_sandbox::start(google_sandbox::Options::in_dir(scratch.join("sandbox"))).await?;
    let place = Place::new(scratch, &sandbox)?;
    let plan = place.write_plan(&sandbox)?;
    for client in CLIENTS {
        let snippet = place.snippet(client).await?;
        for id in ["python-1", "python-2"] {
            let (pinned, folder) = tools.install(id).await?;
            let mut python = Command::new(tools::python(&folder));
            python.arg("-B").arg(tools::source("bridge.py")).arg(&snippet).arg(&plan);
            step(&format!("{} {}, snippet for {client}", pinned.name, pinned.version), &mut python, &place).await?;
        }
        for id in ["typescript-1", "typescript-2"] {
            let (pinned, folder) = tools.install(id).await?;
            let script = format!("bridge-{id}.mjs");
            // Node.js looks for libraries in the folders above a program.
            for script in [script.as_str(), "bridge.mjs"] {
                std::fs::copy(tools::source(script), folder.join(script))?;
            }
            let mut node = tools.node();
            node.arg(folder.join(script)).arg(&snippet).arg(&plan);
            step(&format!("{} {}, snippet for {client}", pinned.name, pinned.version), &mut node, &place).await?;
        }
    }
    inspect(tools, &place, &plan).await?;
    sandbox.shutdown().await;
    bundle(tools).await
}

/// The folders of a person who has set up three sources.
struct Place {
    root: PathBuf,
    project: PathBuf,
}

impl Place {
    fn new(folder: PathBuf, sandbox: &Sandbox) -> Result<Self> {
        // A space shows whether anything forgets to quote.
        let place = Self { root: folder.join("acp root"), project: folder.join("a project") };
        std::fs::create_dir_all(&place.project)?;
        for id in workspace::folders_in("connectors")? {
            let folder = place.root.join("acps").join(&id);
            std::fs::create_dir_all(&folder)?;
            // The built program, and the stand-in for Google in its environment: clients pass on little of theirs.
            let manifest = json!({
                "acp_version": "1.0", "id": id, "name": id, "version": env!("CARGO_PKG_VERSION"), "description": "As built.",
                "transport": {
                    "type": "stdio", "command": super::program(&id)?, "args": [],
                    "env": {"ACP_GOOGLE_SANDBOX": sandbox.url()},
                },
            });
            std::fs::write(folder.join("acp.json"), manifest.to_string())?;
        }
        let credentials: Value = serde_json::from_str(&std::fs::read_to_string(&sandbox.credentials().full)?)?;
        let key = credentials["service_account"].as_str().ok_or("the sandbox gave no key")?;
        std::fs::write(place.root.join("key.json"), key)?;
        let key = json!({"type": "service_account", "service_account": {"file": "key.json"}});
        let facts = sandbox.facts();
        let property = &facts["analytics"]["main"]["property"];
        let sources = json!({"sources": [
            {"id": "ga4", "acp": "ga4", "label": "Shop", "credentials": key, "default_resource_id": property},
            {"id": "gsc", "acp": "gsc", "credentials": key, "default_resource_id": SITE},
            {"id": "bq", "acp": "bigquery", "credentials": key, "cost_limit_usd": LIMIT},
        ]});
        std::fs::write(place.root.join("sources.json"), serde_json::to_string_pretty(&sources)?)?;
        Ok(place)
    }

    /// What to ask for, and a piece of the key that must not turn up.
    fn write_plan(&self, sandbox: &Sandbox) -> Result<PathBuf> {
        let facts = sandbox.facts();
        let export = &facts["bigquery"]["ga4_export"];
        let dataset = format!("acp-sandbox.{}", export["dataset"].as_str().ok_or("no export")?);
        let last: jiff::civil::Date = export["last"].as_str().ok_or("no days")?.parse()?;
        let first = last.saturating_sub(jiff::Span::new().days(6));
        let days = json!({"start_date": first.to_string(), "end_date": last.to_string()});
        let mut report = json!({
            "metrics": ["eventCount"], "dimensions": ["date"],
            "dimension_filters": [{"field": "eventName", "match_type": "EXACT", "value": EVENT}],
        });
        let mut count = json!({
            "resource_id": dataset,
            "query": format!(
                "SELECT event_date, COUNT(*) AS events FROM `{dataset}.events_*` WHERE event_name = '{EVENT}' AND _TABLE_SUFFIX BETWEEN \
                 REPLACE('{{{{start_date}}}}', '-', '') AND REPLACE('{{{{end_date}}}}', '-', '') GROUP BY 1"
            ),
        });
        for (name, day) in days.as_object().into_iter().flatten() {
            report[name] = day.clone();
            count[name] = day.clone();
        }
        let key: Value = serde_json::from_str(&std::fs::read_to_string(self.root.join("key.json"))?)?;
        let secret = key["private_key"].as_str().and_then(|key| key.lines().nth(1)).ok_or("the key has no lines")?;
        let plan = json!({
            "steps": [
                {"tool": "ga4__run_report", "arguments": report, "metric": "eventCount", "column": "eventCount"},
                {"tool": "gsc__search_analytics", "arguments": {"dimensions": ["date"]}, "metric": "clicks", "column": "clicks"},
                {"tool": "bq__execute_query", "arguments": count, "column": "events", "same_as": 0},
            ],
            "secret": secret, "data": self.project.join("acp-data"),
        });
        let path = self.root.with_file_name("plan.json");
        std::fs::write(&path, plan.to_string())?;
        Ok(path)
    }

    /// What `acp config` prints for a client, as a file.
    async fn snippet(&self, client: &str) -> Result<PathBuf> {
        let mut config = Command::new(super::program("acp")?);
        config.args(["config", "--client", client]);
        config.arg("--root").arg(&self.root).arg("--project").arg(&self.project);
        let printed = super::succeed(&mut config).await?;
        let path = self.root.with_file_name(format!("{client}.json"));
        std::fs::write(&path, printed)?;
        Ok(path)
    }
}

async fn step(name: &str, program: &mut Command, place: &Place) -> Result<()> {
    super::step(name, async { super::checked(program, &place.root.with_file_name("scratch")).await }).await
}

/// The same session through MCP Inspector, which starts the bridge anew for each call.
async fn inspect(tools: &Tools, place: &Place, plan: &Path) -> Result<()> {
    let (pinned, _) = tools.install("inspector").await?;
    let snippet = place.snippet("claude").await?.display().to_string();
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    super::step(&format!("{} {}, snippet for claude", pinned.name, pinned.version), async {
        let call = async |tool: &str, arguments: &Value| {
            let arguments = arguments.to_string();
            let call = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", &arguments];
            let target = ["--config", &snippet, "--server", "acp"];
            inspector::answer(&inspector::inspect(tools, &target, &call).await?, 0)
        };
        let listed = inspector::inspect(
            tools,
            &["--config", &snippet, "--server", "acp"],
            &["--method", "tools/list", "--strict"],
        )
        .await?;
        let count = inspector::answer(&listed, 0)?["tools"].as_array().map_or(0, Vec::len);
        let mut sums: Vec<Value> = Vec::new();
        for step in plan["steps"].as_array().into_iter().flatten() {
            let answer = call(step["tool"].as_str().unwrap_or_default(), &step["arguments"]).await?;
            let model: Value = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap_or_default())?;
            let note = answer["content"][1]["text"].as_str().unwrap_or_default();
            let dataset = note.split('"').nth(1).ok_or_else(|| format!("no dataset is named: {answer}"))?;
            let column = step["column"].as_str().unwrap_or_default();
            let query = json!({"sql": format!("SELECT SUM({column}) AS s FROM {dataset}")});
            let answer = call("acp_query", &query).await?;
            let rows: Value = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap_or_default())?;
            let sum = rows["rows"][0]["s"].clone();
            let expected = match step["metric"].as_str() {
                Some(metric) => model["totals"][metric].clone(),
                None => sums[step["same_as"].as_u64().unwrap_or_default() as usize].clone(),
            };
            if sum != expected || !sum.is_number() {
                return Err(format!("{}: acp_query adds up {sum}, Google says {expected}", step["tool"]).into());
            }
            sums.push(sum);
        }
        Ok(format!("lists {count} tools without a fault; acp_query equals Google's totals: {}", json!(sums)))
    })
    .await
}

/// The bundle, as the format's own tool validates and unpacks it. Its programs are stand-ins: that the real ones start is what
/// `cargo xtask package bridge` proves.
async fn bundle(tools: &Tools) -> Result<()> {
    let (pinned, folder) = tools.install("mcpb").await?;
    super::step(&format!("{} {}", pinned.name, pinned.version), async {
        let dist = tools.fresh("bundle")?;
        let program = dist.join("program");
        std::fs::write(&program, "a program")?;
        let target = workspace::host_target()?;
        let file = package::bundle(&dist, &workspace::metadata()?, &target, |_| Ok(program.clone()))?;
        let text = std::fs::read_to_string(folder.join(MCPB).join("package.json"))?;
        let text: Value = serde_json::from_str(&text)?;
        let script = text["bin"]["mcpb"].as_str().ok_or("the package has no program mcpb")?;
        let mcpb = || {
            let mut node = tools.node();
            node.arg(folder.join(MCPB).join(script));
            node
        };
        let unpacked = dist.join("unpacked");
        super::succeed(mcpb().arg("unpack").arg(&file).arg(&unpacked)).await?;
        let said = super::succeed(mcpb().arg("validate").arg(unpacked.join("manifest.json"))).await?;
        let programs = workspace::files_below(&unpacked)?.len();
        Ok(format!("{}; unpacks {programs} files", said.lines().next().unwrap_or("validates the manifest").trim()))
    })
    .await
}
