//! `cargo xtask demo`: three packaged connectors, installed and driven as a host does it, over real HTTP against the local
//! stand-in for Google.

mod bigquery;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use acp_host::client::{Progress, ToolAnswer, ToolCall};
use acp_host::form::{FieldKind, Form};
use acp_host::install::{InstallOptions, install};
use acp_host::launch::{Launch, Server};
use acp_host::store::{Asked, DatasetMeta, Stored, store};
use acp_host::table::Table;
use acp_protocol::JsonObject;
use acp_protocol::capability::ServerCapability;
use acp_protocol::session::{CallMeta, ConfigureParams};
use google_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::Result;
use crate::workspace::{self, relative};

/// Days of the large property that are extracted: 25,000 rows each.
const DAYS: u32 = 3;
/// The Search Console property that is asked about, and what its brand is called.
const SITE: (&str, &str) = ("sc-domain:nordwind.example", "nord ?wind");
/// Characters of a line of a model's answer that are shown.
const SHOWN: usize = 170;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave the sandbox running at the end, and print how to reach it.
    #[arg(long)]
    keep: bool,
}

/// Folders of the demo.
struct Folders {
    system: PathBuf,
    data: PathBuf,
    cache: PathBuf,
    tmp: PathBuf,
    sandbox: PathBuf,
}

/// Runs the task.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!("ACP demo: three connectors as a host sees them. No account, no network: Google is a local sandbox.\n");
    let (build, metadata) = (crate::package::Build::default(), workspace::metadata()?);
    let ga4 = crate::package::package("ga4", &build, &metadata)?;
    let gsc = crate::package::package("gsc", &build, &metadata)?;
    let bigquery = crate::package::package("bigquery", &build, &metadata)?;
    tokio::runtime::Runtime::new()?.block_on(drive([&ga4, &gsc, &bigquery], arguments.keep))
}

async fn drive([ga4, gsc, bigquery]: [&Path; 3], keep: bool) -> Result<()> {
    let started = Instant::now();
    let folders = Folders::fresh()?;
    let sandbox = google_sandbox::start(google_sandbox::Options::in_dir(&folders.sandbox)).await?;
    step("Sandbox", &format!("{} stands in for Google", sandbox.url()));

    let (analytics, capability) = Host::start(ga4, &folders, &sandbox).await?;
    step("Sign-up form", "painted by the host from what the connector publishes:");
    show_form(&Form::of_credentials(&capability.credentials_schema).ok_or("no credentials are asked for")?);
    let property = analytics.list_properties(&sandbox).await?;
    analytics.inject_blocks(&sandbox).await?;
    analytics.extract(&property).await?;
    analytics.wrong_name(&property).await?;
    analytics.no_credentials(&property).await?;

    println!("\n--- Search Console ---");
    let (host, _) = Host::start(gsc, &folders, &sandbox).await?;
    host.queries().await?;
    host.clusters().await?;
    host.impossible_question().await?;
    host.server.close().await?;

    println!("\n--- BigQuery ---");
    let (host, _) = Host::start(bigquery, &folders, &sandbox).await?;
    let counted = host.query_the_export(&sandbox).await?;
    host.server.close().await?;
    analytics.same_from_analytics(&sandbox.facts()["analytics"]["main"]["property"], counted).await?;
    analytics.server.close().await?;
    println!("\nDone in {:.1} s. Try `cargo xtask demo --keep` to go on by yourself.", started.elapsed().as_secs_f64());
    if keep {
        keep_running(&sandbox).await?;
    }
    sandbox.shutdown().await;
    Ok(())
}

impl Folders {
    fn fresh() -> Result<Self> {
        let root = workspace::root().join("target").join("demo");
        if root.exists() {
            std::fs::remove_dir_all(&root)?;
        }
        let folder = |name: &str| -> Result<PathBuf> {
            let folder = root.join(name);
            std::fs::create_dir_all(&folder)?;
            Ok(folder)
        };
        Ok(Self {
            system: folder("servers")?,
            data: folder("acp-data")?,
            cache: folder("cache")?,
            tmp: folder("tmp")?,
            sandbox: folder("sandbox")?,
        })
    }
}

/// A host with one source.
struct Host<'a> {
    server: Server,
    credentials: JsonObject,
    folders: &'a Folders,
}

impl<'a> Host<'a> {
    /// Installs a package and starts its server.
    async fn start(zip: &Path, folders: &'a Folders, sandbox: &Sandbox) -> Result<(Self, ServerCapability)> {
        let installed = install(zip, &folders.system, &InstallOptions::default()).await?;
        step(
            "Installed",
            &format!("{} from the zip, after its server had proved to start", relative(&installed.folder)),
        );
        let server = Launch::of(&installed)?
            .cache_dir(&folders.cache)
            .tmp_dir(&folders.tmp)
            .variable("ACP_GOOGLE_SANDBOX", sandbox.url())
            .spawn(acp_host::client::ClientOptions::default())?;
        let welcome = server.client().initialize().await?;
        let capability = welcome.acp.ok_or("the server does not announce ACP")?;
        Ok((Self { server, credentials: read_object(&sandbox.credentials().full)?, folders }, capability))
    }

    async fn call(&self, tool: &str, arguments: Value, credentials: Option<&JsonObject>) -> Result<ToolAnswer> {
        let credentials = credentials.cloned().map(Some);
        self.call_as(tool, arguments, ConfigureParams { credentials, ..ConfigureParams::default() }).await
    }

    /// A call that may cost this much, in USD.
    async fn call_within(&self, tool: &str, arguments: Value, limit: f64) -> Result<ToolAnswer> {
        let credentials = Some(Some(self.credentials.clone()));
        let session = ConfigureParams { credentials, cost_limit_usd: Some(limit), ..ConfigureParams::default() };
        self.call_as(tool, arguments, session).await
    }

    async fn call_as(&self, tool: &str, arguments: Value, session: ConfigureParams) -> Result<ToolAnswer> {
        let meta = CallMeta { session, autocontext_delivered: Some(true), ..CallMeta::default() };
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let call = ToolCall::new(tool, arguments).meta(meta).on_progress(show_progress);
        let answer = self.server.client().call(call).await?;
        clear_progress();
        Ok(answer)
    }

    /// What a person chooses from; the demo takes the property with the most rows.
    async fn list_properties(&self, sandbox: &Sandbox) -> Result<String> {
        let answer = self.call("autocontext", json!({}), Some(&self.credentials)).await?;
        let list: Value = serde_json::from_str(&answer.model_text)?;
        step("Properties", text(&list["notice"]));
        for resource in list["resources"].as_array().into_iter().flatten().take(3) {
            println!(
                "    {}  {} ({})",
                text(&resource["resource_id"]),
                text(&resource["name"]),
                text(&resource["group"])
            );
        }
        let bulk = &sandbox.facts()["analytics"]["bulk"]["property"];
        Ok(bulk.as_str().ok_or("the sandbox has no large property")?.to_owned())
    }

    /// What the host puts into the prompt before the first question.
    async fn inject_blocks(&self, sandbox: &Sandbox) -> Result<()> {
        let main = sandbox.facts()["analytics"]["main"]["property"].clone();
        let arguments = json!({"resource_id": main, "request_data": ["key_events", "sessions_by_channel"]});
        let answer = self.call("autocontext", arguments, Some(&self.credentials)).await?;
        step("Autocontext", &format!("two blocks of property {} go into the prompt:", text(&main)));
        let blocks: Value = serde_json::from_str(&answer.model_text)?;
        for block in blocks.as_array().into_iter().flatten() {
            println!("    {}: {}", text(&block["id"]), clip(&block["data"].to_string()));
        }
        Ok(())
    }

    async fn extract(&self, property: &str) -> Result<()> {
        let arguments = json!({
            "resource_id": property, "start_date": format!("{DAYS}daysAgo"), "end_date": "yesterday",
            "dimensions": ["date", "customEvent:item_id", "pagePath", "country"],
            "metrics": ["eventCount", "sessions", "totalRevenue"],
        });
        let begun = Instant::now();
        let answer = self.call("run_report", arguments, Some(&self.credentials)).await?;
        let took = begun.elapsed();
        let seen = model_of(&answer)?;
        step(
            "Question",
            &format!(
                "events, sessions and revenue by day, item, page and country over {DAYS} days ({:.1} s)",
                took.as_secs_f64()
            ),
        );
        println!("  The model sees {} bytes:", thousands(answer.model_text.len() as u64));
        println!("    {} totals {}", text(&seen["notice"]), seen["totals"]);
        println!("    first row {}", clip(&seen["rows"][0].to_string()));

        let stored = keep(&self.folders.data, "shop", &answer)?;
        let Some(Stored::Dataset { csv, meta, .. }) = stored.first() else { return Err("nothing was stored".into()) };
        println!(
            "  The host stored {} rows, {} bytes:",
            thousands(meta.row_count),
            thousands(std::fs::metadata(csv)?.len())
        );
        println!("    {}", relative(csv));
        println!("    {}", columns(meta));
        let removed = match answer.meta.system_data.as_ref().and_then(Table::of_data) {
            Some(table) => table.delete_file(&self.folders.tmp)?,
            None => false,
        };
        println!("    {}", if removed { "the server's file was read and removed" } else { "the table came inline" });
        prove(csv, &seen["totals"])
    }

    /// Queries of a month: what rows hold and what only Google's totals count.
    async fn queries(&self) -> Result<()> {
        let arguments = json!({"resource_id": SITE.0, "dimensions": ["query"]});
        let answer = self.call("search_analytics", arguments, Some(&self.credentials)).await?;
        let seen = model_of(&answer)?;
        step("Question", &format!("queries of {}, {} to {}", SITE.0, text(&seen["dates"][0]), text(&seen["dates"][1])));
        println!("    {} totals {}", text(&seen["notice"]), seen["totals"]);
        println!("    first row {}", clip(&seen["rows"][0].to_string()));
        let csv = self.stored("search", &answer)?;
        for metric in ["clicks", "impressions"] {
            let coverage = &seen["extra"]["coverage"][metric];
            let (hidden, share) = (&coverage["not_in_rows"], coverage["share_in_rows"].as_f64().unwrap_or_default());
            let [mut sum] = sums(&csv, [metric])?;
            let in_rows = sum.to_string();
            sum.add(&hidden.to_string());
            let total = Decimal::of(&seen["totals"][metric].to_string());
            verdict(
                &format!(
                    "{metric} over the CSV is {in_rows} ({:.0} %), with the {hidden} that no row shows {sum}",
                    share * 100.0
                ),
                sum,
                total,
            )?;
        }
        Ok(())
    }

    /// Brand, topics and the rest, with the part that no row shows as a row of its own.
    async fn clusters(&self) -> Result<()> {
        let arguments = json!({"resource_id": SITE.0, "brand": SITE.1, "clusters": [
            {"name": "chairs", "pattern": "chair|stuhl"}, {"name": "how to", "pattern": "^(how|is|best) "}]});
        let answer = self.call("search_analytics_by_regex_cluster", arguments, Some(&self.credentials)).await?;
        let seen = model_of(&answer)?;
        step("Clusters", "the same queries by named patterns:");
        for row in seen["rows"].as_array().into_iter().flatten() {
            let count = row["queries"].as_u64().map_or_else(|| "-".to_owned(), thousands);
            let position = row["position"].as_f64().map_or_else(|| "-".to_owned(), |position| format!("{position:.1}"));
            println!(
                "    {:<14} {count:>6} queries {:>6} clicks {:>7} impressions  position {position}",
                text(&row["cluster"]),
                thousands(row["clicks"].as_u64().unwrap_or_default()),
                thousands(row["impressions"].as_u64().unwrap_or_default())
            );
        }
        let csv = self.stored("clusters", &answer)?;
        for metric in ["clicks", "impressions"] {
            let [sum] = sums(&csv, [metric])?;
            let total = Decimal::of(&seen["totals"][metric].to_string());
            verdict(&format!("{metric} over all clusters is {sum}"), sum, total)?;
        }
        Ok(())
    }

    async fn impossible_question(&self) -> Result<()> {
        let arguments = json!({"resource_id": SITE.0, "dimensions": ["query"], "search_type": "discover"});
        let answer = self.call("search_analytics", arguments, Some(&self.credentials)).await?;
        step("Impossible", "dimensions: [\"query\"], search_type: \"discover\", refused before it is sent");
        show_error(&answer)
    }

    /// Stores the table as a host does, and gives its file.
    fn stored(&self, name: &str, answer: &ToolAnswer) -> Result<PathBuf> {
        let stored = keep(&self.folders.data, name, answer)?;
        match stored.into_iter().next() {
            Some(Stored::Dataset { csv, .. }) => Ok(csv),
            _ => Err("nothing was stored".into()),
        }
    }

    async fn wrong_name(&self, property: &str) -> Result<()> {
        let arguments = json!({"resource_id": property, "metrics": ["sesions"], "dimensions": ["date"]});
        let answer = self.call("run_report", arguments, Some(&self.credentials)).await?;
        step("Wrong name", "metrics: [\"sesions\"]");
        show_error(&answer)
    }

    async fn no_credentials(&self, property: &str) -> Result<()> {
        let answer = self.call("run_report", json!({"resource_id": property, "metrics": ["sessions"]}), None).await?;
        step("No credentials", "the same call without them");
        show_error(&answer)
    }
}

/// Stores what an answer holds, as a host does.
fn keep(folder: &Path, source: &str, answer: &ToolAnswer) -> Result<Vec<Stored>> {
    let (now, stop) = (jiff::ZonedDateTime::now(), AtomicBool::new(false));
    Ok(store(folder, &Asked { source, template: None, now: &now, stop: &stop }, answer)?)
}

fn show_form(form: &Form) {
    for variant in &form.variants {
        let fields: Vec<String> = variant
            .fields
            .iter()
            .map(|field| {
                let kind = match field.kind {
                    FieldKind::LongText { .. } => ", long text",
                    _ => "",
                };
                let secret = if field.secret { ", secret" } else { "" };
                let required = if field.required { "*" } else { "" };
                format!("{}{required}{kind}{secret}", field.label)
            })
            .collect();
        let login = variant.login.as_ref().map(|login| format!("opens the {} login", login.provider));
        let inputs = if fields.is_empty() { login.unwrap_or_default() } else { fields.join(" | ") };
        println!("    ( ) {}: {inputs}", variant.title.as_deref().unwrap_or("Credentials"));
    }
}

/// Adds up the stored columns and compares them with what Google says the totals are.
fn prove(csv: &Path, totals: &Value) -> Result<()> {
    for (name, total) in totals.as_object().into_iter().flatten() {
        let [sum] = sums(csv, [name])?;
        verdict(&format!("{name} over the CSV is {sum}"), sum, Decimal::of(&total.to_string()))?;
    }
    Ok(())
}

/// Says whether a sum is Google's total; it fails where it is not.
fn verdict(what: &str, sum: Decimal, total: Decimal) -> Result<()> {
    let equal = sum.0 == total.0;
    println!("  Proof: {what}, which {} Google's total {total}.", if equal { "equals" } else { "DIFFERS FROM" });
    if equal { Ok(()) } else { Err(format!("{what}, not {total}").into()) }
}

/// The sums of columns of a CSV.
fn sums<const N: usize>(csv: &Path, columns: [&str; N]) -> Result<[Decimal; N]> {
    let mut reader = csv::Reader::from_path(csv)?;
    let names: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
    let place = |name: &str| names.iter().position(|column| column == name).ok_or(format!("there is no column {name}"));
    let mut places = [0; N];
    for (at, name) in places.iter_mut().zip(columns) {
        *at = place(name)?;
    }
    let mut sums = [Decimal::default(); N];
    for record in reader.records() {
        let record = record?;
        for (sum, place) in sums.iter_mut().zip(places) {
            sum.add(&record[place]);
        }
    }
    Ok(sums)
}

/// What the model reads of an answer that must be no error.
fn model_of(answer: &ToolAnswer) -> Result<Value> {
    if answer.is_error {
        return Err(answer.model_text.clone().into());
    }
    Ok(serde_json::from_str(&answer.model_text)?)
}

/// An exact decimal of six digits after the point.
#[derive(Clone, Copy, Default)]
struct Decimal(i128);

impl Decimal {
    const DIGITS: usize = 6;

    fn of(text: &str) -> Self {
        let mut sum = Self::default();
        sum.add(text);
        sum
    }

    fn add(&mut self, text: &str) {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{:0<1$.1$}", fraction, Self::DIGITS);
        self.0 += digits.parse::<i128>().unwrap_or_default();
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = 10_i128.pow(Self::DIGITS as u32);
        let text = format!("{}.{:06}", self.0 / unit, self.0 % unit);
        formatter.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

fn columns(meta: &DatasetMeta) -> String {
    let typed =
        meta.headers.iter().map(|header| format!("{} {}", header.name, text(&json!(header.column_type)).to_owned()));
    typed.collect::<Vec<_>>().join(", ")
}

fn show_error(answer: &ToolAnswer) -> Result<()> {
    let error = answer.meta.error.as_ref().ok_or("the call should have failed")?;
    println!("    {} {}", error.code, error.name);
    println!("    {}", error.message);
    Ok(())
}

fn step(name: &str, what: &str) {
    println!("\n{name:<14} {what}");
}

/// Progress is for people at a terminal; elsewhere it would only fill a log.
fn show_progress(progress: Progress) {
    if std::io::stdout().is_terminal() {
        print!("\r  … {}   ", progress.message.unwrap_or_default());
        let _ = std::io::stdout().flush();
    }
}

fn clear_progress() {
    if std::io::stdout().is_terminal() {
        print!("\r{:60}\r", "");
    }
}

async fn keep_running(sandbox: &Sandbox) -> Result<()> {
    println!("\nThe sandbox is still running at {}", sandbox.url());
    println!("  what it holds    {}/__sandbox/facts", sandbox.url());
    println!("  credentials      {}", relative(&sandbox.credentials().full));
    println!("  a connector      ACP_GOOGLE_SANDBOX={} dist/gsc/gsc", sandbox.url());
    println!("Press Ctrl-C to end it.");
    tokio::signal::ctrl_c().await?;
    // Requests under way may end.
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(())
}

fn read_object(path: &Path) -> Result<JsonObject> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn clip(text: &str) -> String {
    let clipped: String = text.chars().take(SHOWN).collect();
    if clipped.len() < text.len() { format!("{clipped}…") } else { clipped }
}

/// A number with commas.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
