//! `acp source`: forms are painted from what the connector publishes, the source is tried, and only then saved (11.2).

use std::path::Path;
use std::sync::Arc;

use acp_host::form::Form;
use acp_host::host::{Host, Running};
use acp_host::secrets::{Keep, Vault};
use acp_host::sources::{Autocontext, ID_MAX, Limits, Reference, Source, Sources, is_source_id};
use acp_protocol::capability::ServerCapability;
use acp_protocol::{JsonObject, TOOL_AUTOCONTEXT, TOOL_AUTOCONTEXT_DATA};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::fill::{self, Filled, Former, Given, Places};
use crate::folders::Folders;
use crate::report::{Failure, Report};
use crate::terminal;

use super::call::QUERY_HINT;

/// What to do with sources.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Set up a source: asks for what the connector needs, tries it, and saves it
    Add(Add),
    /// Change a source; without flags it asks
    Edit(Edit),
    /// List the sources
    List,
    /// Remove a source and the secrets that were kept for it
    Remove {
        /// The source
        id: String,
    },
}

/// Arguments of `add`.
#[derive(Args)]
pub(super) struct Add {
    /// Name of the new source: lowercase letters, digits, _ and -
    id: String,
    /// Id of the connector
    #[arg(long)]
    acp: Option<String>,
    #[command(flatten)]
    settings: Settings,
}

/// Arguments of `edit`.
#[derive(Args)]
pub(super) struct Edit {
    /// The source
    id: String,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
struct Settings {
    /// Name for people
    #[arg(long)]
    label: Option<String>,
    /// Resource for calls that name none
    #[arg(long)]
    resource: Option<String>,
    /// Rows that the model sees, 0 to 5000; the stored table is always whole
    #[arg(long)]
    row_limit: Option<u32>,
    /// Fields of a row that the model sees in tables with a view, 1 to 200
    #[arg(long)]
    field_limit: Option<u32>,
    /// The most that a call may cost, in USD
    #[arg(long)]
    cost_limit_usd: Option<f64>,
    /// A table of the connector's catalogue that is extracted by default; may be repeated
    #[arg(long = "table")]
    tables: Vec<String>,
    /// How the model gets autocontext: on_first_call or off
    #[arg(long, value_parser = mode)]
    autocontext: Option<Autocontext>,
    /// A block of autocontext that the model gets; may be repeated [default: all]
    #[arg(long = "block")]
    blocks: Vec<String>,
    #[command(flatten)]
    given: Given,
    /// Where secrets are kept that are entered here
    #[arg(long, value_enum, default_value = "best")]
    secrets: Secrets,
    /// Save without trying
    #[arg(long)]
    no_check: bool,
}

/// Where secrets are kept.
#[derive(Clone, Copy, ValueEnum)]
enum Secrets {
    /// In the keyring where there is one, else in a file.
    Best,
    /// In the keyring.
    Keyring,
    /// In a file that only you can read, beside sources.json.
    File,
}

impl From<Secrets> for Keep {
    fn from(secrets: Secrets) -> Self {
        match secrets {
            Secrets::Best => Self::Best,
            Secrets::Keyring => Self::Keyring,
            Secrets::File => Self::File,
        }
    }
}

fn mode(text: &str) -> Result<Autocontext, String> {
    let names = || Autocontext::ALL.map(Autocontext::name).join(" or ");
    Autocontext::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(names)
}

impl Settings {
    fn is_some(&self) -> bool {
        self.label.is_some()
            || self.resource.is_some()
            || self.limits() != Limits::default()
            || !self.tables.is_empty()
            || self.autocontext.is_some()
            || !self.blocks.is_empty()
            || self.given.is_some()
    }

    fn limits(&self) -> Limits {
        Limits { row_limit: self.row_limit, field_limit: self.field_limit, cost_limit_usd: self.cost_limit_usd }
    }

    /// Puts what was given into a source.
    fn apply(&self, source: &mut Source) {
        let list = |names: &Vec<String>| (!names.is_empty()).then(|| names.clone());
        source.label = self.label.clone().or(source.label.take());
        source.default_resource_id = self.resource.clone().or(source.default_resource_id.take());
        source.limits = self.limits().or(source.limits);
        source.tables = list(&self.tables).or(source.tables.take());
        source.autocontext = self.autocontext.unwrap_or(source.autocontext);
        source.autocontext_blocks = list(&self.blocks).or(source.autocontext_blocks.take());
    }
}

pub(super) async fn run(folders: &Folders, command: Command, as_json: bool) -> Result<Report, Failure> {
    match command {
        Command::List => list(folders),
        Command::Remove { id } => remove(folders, &id),
        Command::Add(Add { id, acp, settings }) => {
            let asking = !as_json && !settings.given.is_some();
            let host = folders.host("acp", QUERY_HINT)?;
            let saved = add(&host, id, acp, &settings, asking).await;
            host.close().await;
            saved
        }
        Command::Edit(Edit { id, settings }) => {
            let asking = !as_json && !settings.is_some();
            let host = folders.host("acp", QUERY_HINT)?;
            let saved = edit(&host, &id, &settings, asking).await;
            host.close().await;
            saved
        }
    }
}

fn list(folders: &Folders) -> Result<Report, Failure> {
    let sources = Sources::read(&folders.sources()?)?;
    let mut lines = Vec::new();
    let mut values = Vec::new();
    for source in sources.all() {
        let limits = sources.limits(source);
        let credentials = if source.credentials.is_some() { "with credentials" } else { "without credentials" };
        let resource = source.default_resource_id.as_deref().unwrap_or("no default resource");
        lines.push(format!("{:<16} {:<12} {} ({credentials}, {resource})", source.id, source.acp, source.name()));
        values.push(json!({
            "id": source.id, "acp": source.acp, "label": source.label,
            "has_credentials": source.credentials.is_some(), "default_resource_id": source.default_resource_id,
            "row_limit": limits.row_limit, "field_limit": limits.field_limit, "cost_limit_usd": limits.cost_limit_usd,
            "tables": source.tables, "autocontext": source.autocontext.name(),
        }));
    }
    if lines.is_empty() {
        lines.push("No source is set up. Add one with: acp source add NAME".to_owned());
    }
    lines.extend(sources.unknown().iter().map(|key| format!("not known, and ignored: {key}")));
    Ok(Report::new(lines.join("\n"), json!({"file": sources.path(), "sources": values, "ignored": sources.unknown()})))
}

fn remove(folders: &Folders, id: &str) -> Result<Report, Failure> {
    let mut sources = Sources::read(&folders.sources()?)?;
    let source = existing(&sources, id)?;
    sources.remove(id)?;
    sources.write()?;
    forget(&source, sources.path(), None)?;
    Ok(Report::new(format!("Removed {id}."), json!({"id": id})))
}

fn existing(sources: &Sources, id: &str) -> Result<Source, Failure> {
    let source = sources.get(id).cloned();
    source.ok_or_else(|| Failure::usage(format!("there is no source {id}; `acp source list` shows them")))
}

/// Removes the secrets that were kept for a source, but those that `still` refers to.
fn forget(source: &Source, file: &Path, still: Option<&Source>) -> Result<(), Failure> {
    let vault = Vault::of(file);
    let parts = |source: &Source| [source.credentials.clone(), source.config.clone()];
    let kept: Vec<JsonObject> = still.map(parts).into_iter().flatten().flatten().collect();
    for (field, value) in parts(source).into_iter().flatten().flatten() {
        let used = kept.iter().any(|values| values.get(&field) == Some(&value));
        if let Some(reference) = Reference::of(&value).filter(|_| !used) {
            vault.forget(&source.id, &field, &reference)?;
        }
    }
    Ok(())
}

async fn add(
    host: &Host,
    id: String,
    acp: Option<String>,
    settings: &Settings,
    asking: bool,
) -> Result<Report, Failure> {
    if !is_source_id(&id) {
        return Err(Failure::usage(format!("the name must have 1 to {ID_MAX} lowercase letters, digits, _ or -")));
    }
    let sources = host.sources()?;
    if sources.get(&id).is_some() {
        return Err(Failure::usage(format!("there is a source {id} already; change it with `acp source edit {id}`")));
    }
    let acp = match acp {
        Some(acp) => acp,
        None => choose_connector(host, asking)?,
    };
    let source = Source { id, acp, ..Source::default() };
    save(host, sources, source, None, settings, asking).await
}

async fn edit(host: &Host, id: &str, settings: &Settings, asking: bool) -> Result<Report, Failure> {
    let sources = host.sources()?;
    let source = existing(&sources, id)?;
    save(host, sources, source.clone(), Some(source), settings, asking).await
}

fn choose_connector(host: &Host, asking: bool) -> Result<String, Failure> {
    let ids: Vec<String> = host.packages()?.packages.into_iter().map(|package| package.manifest.id).collect();
    match ids.as_slice() {
        [] => Err(Failure::usage("no connector is installed: install one with `acp install ZIP`")),
        [only] => Ok(only.clone()),
        _ if asking => Ok(ids[terminal::choose("Which connector?", &ids)?].clone()),
        _ => Err(Failure::usage(format!("pass --acp, one of {}", ids.join(", ")))),
    }
}

/// Fills the forms, tries the source, and writes it. Until then nothing is kept anywhere.
async fn save(
    host: &Host,
    mut sources: Sources,
    mut source: Source,
    former: Option<Source>,
    settings: &Settings,
    asking: bool,
) -> Result<Report, Failure> {
    let server = host.server(&source.acp).await?;
    let folder = sources.path().parent().unwrap_or(Path::new("")).to_path_buf();
    let places = Places { folder: &folder, project: &host.options().project };
    let (credentials, config) = fill_forms(&server, former.as_ref(), settings, asking, &places)?;
    settings.apply(&mut source);
    source.credentials = credentials.as_ref().map(|filled| filled.values.clone());
    source.config = config.as_ref().map(|filled| filled.values.clone()).filter(|values| !values.is_empty());
    if let Some(capability) = server.capability() {
        if asking {
            ask_limits(&mut source, capability)?;
            ask_tables(&mut source, capability)?;
        }
        let resources = if settings.no_check { None } else { Some(try_out(host, &sources, &source).await?) };
        choose_resource(&mut source, &server, resources.as_deref(), asking)?;
        if asking && !settings.no_check {
            ask_blocks(host, &sources, &mut source).await?;
        }
    }
    let mut kept = Vec::new();
    let vault_file = sources.path().to_path_buf();
    let vault = Vault::of(&vault_file);
    let mut write = || -> Result<(), Failure> {
        let mut part = |filled: Option<Filled>| -> Result<Option<JsonObject>, Failure> {
            let Some(filled) = filled else { return Ok(None) };
            let written = filled.keep(&source.id, vault, settings.secrets.into(), &mut kept)?;
            Ok(Some(written).filter(|written| !written.is_empty()))
        };
        (source.credentials, source.config) = (part(credentials.clone())?, part(config.clone())?);
        sources.put(source.clone())?;
        Ok(sources.write()?)
    };
    if let Err(failure) = write() {
        for (field, reference) in &kept {
            // Nothing refers to it; the failure that led here is what has to be told.
            let _ = vault.forget(&source.id, field, reference);
        }
        return Err(failure);
    }
    if let Some(former) = &former {
        forget(former, sources.path(), Some(&source))?;
    }
    Ok(saved(&sources, &source, &kept))
}

fn saved(sources: &Sources, source: &Source, kept: &[(String, Reference)]) -> Report {
    let mut text = format!("Saved {} in {}.", source.id, sources.path().display());
    let in_files = kept.iter().any(|(_, reference)| matches!(reference, Reference::File(_)));
    let in_keyring = kept.iter().any(|(_, reference)| matches!(reference, Reference::Keyring(_)));
    if in_keyring {
        text.push_str(" Its secrets are in the keyring.");
    }
    if in_files {
        text.push_str(&format!(
            " Its secrets are in plain files in {}, which only you can read: this computer offers no keyring, or files were \
             asked for.",
            Vault::of(sources.path()).folder().display()
        ));
    }
    let resource = source.default_resource_id.as_deref();
    let value = json!({
        "id": source.id, "acp": source.acp, "file": sources.path(), "default_resource_id": resource,
        "secrets": kept.iter().map(|(_, reference)| reference.to_value()).collect::<Vec<_>>(),
    });
    Report::new(text, value)
}

fn fill_forms(
    server: &Running,
    former: Option<&Source>,
    settings: &Settings,
    asking: bool,
    places: &Places<'_>,
) -> Result<(Option<Filled>, Option<Filled>), Failure> {
    let Some(capability) = server.capability() else { return Ok((None, None)) };
    let credentials = Form::of_credentials(&capability.credentials_schema);
    let config = Form::of_config(capability.config_schema.as_ref());
    let former_of = |part: fn(&Source) -> &Option<JsonObject>| {
        former.and_then(|former| part(former).as_ref()).map(|written| Former::of(written, places))
    };
    let formers = (former_of(|source| &source.credentials), former_of(|source| &source.config));
    fill::fill((credentials.as_ref(), config.as_ref()), &settings.given, formers, places, asking)
}

fn ask_limits(source: &mut Source, capability: &ServerCapability) -> Result<(), Failure> {
    let defaults = &capability.defaults;
    let rows = source.limits.row_limit.unwrap_or(defaults.row_limit);
    if let Some(limit) = ask_number(&format!("Rows that the model sees [{rows}]"))? {
        source.limits.row_limit = Some(limit);
    }
    let cost = source.limits.cost_limit_usd.unwrap_or(defaults.cost_limit_usd);
    if let Some(limit) = ask_number(&format!("Most that a call may cost, in USD [{cost}]"))? {
        source.limits.cost_limit_usd = Some(limit);
    }
    Ok(())
}

/// A number; `None` for an empty answer, which leaves things as they are.
fn ask_number<T: std::str::FromStr>(question: &str) -> Result<Option<T>, Failure> {
    loop {
        match terminal::ask(question)? {
            Some(answer) if !answer.is_empty() => match answer.parse() {
                Ok(number) => return Ok(Some(number)),
                Err(_) => terminal::tell("Enter a number.")?,
            },
            _ => return Ok(None),
        }
    }
}

/// Lets choose from the catalogue, by group (8.7).
fn ask_tables(source: &mut Source, capability: &ServerCapability) -> Result<(), Failure> {
    let Some(catalog) = &capability.table_catalog else { return Ok(()) };
    terminal::tell("Tables that are extracted by default:")?;
    let default = |name: &String| capability.defaults.tables.as_ref().is_none_or(|tables| tables.contains(name));
    let mut group = None;
    for entry in catalog {
        if entry.group != group {
            group.clone_from(&entry.group);
            terminal::tell(&format!("  {}", entry.group.as_deref().unwrap_or("Others")))?;
        }
        let mark = match entry.required {
            Some(true) => "always",
            _ if default(&entry.name) => "default",
            _ => "",
        };
        terminal::tell(&format!("    {:<20} {:<8} {}", entry.name, mark, entry.title))?;
    }
    if let Some(names) = ask_names("Names (empty: the defaults; -: none)")? {
        let none = names == ["-"];
        if none {
            terminal::tell("Nothing but what is always extracted will be, unless the model asks for it.")?;
        }
        source.tables = Some(if none { Vec::new() } else { names });
    }
    Ok(())
}

/// Names between commas; `None` for an empty answer.
fn ask_names(question: &str) -> Result<Option<Vec<String>>, Failure> {
    let answer = terminal::ask(question)?.unwrap_or_default();
    let names: Vec<String> =
        answer.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    Ok((!names.is_empty()).then_some(names))
}

async fn ask_blocks(host: &Host, sources: &Sources, source: &mut Source) -> Result<(), Failure> {
    let outcome = host.call_as(sources, source, TOOL_AUTOCONTEXT_DATA, JsonObject::new(), None).await?;
    let blocks: Value = serde_json::from_str(&outcome.model_text).unwrap_or_default();
    let Some(blocks) = blocks.as_array().filter(|blocks| !blocks.is_empty() && !outcome.is_error) else {
        return Ok(());
    };
    terminal::tell("What the model gets to know at the first extraction:")?;
    for block in blocks {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        terminal::tell(&format!("    {:<20} {}", text("id"), text("description")))?;
    }
    if let Some(names) = ask_names("Ids (empty: all)")? {
        source.autocontext_blocks = Some(names);
    }
    Ok(())
}

/// Lists the resources of the account: id and name. That it works proves the credentials.
async fn try_out(host: &Host, sources: &Sources, source: &Source) -> Result<Vec<(String, String)>, Failure> {
    let outcome = host.call_as(sources, source, TOOL_AUTOCONTEXT, JsonObject::new(), None).await?;
    if let Some(error) = outcome.error {
        return Err(Failure::of_tool(&error, "Nothing was saved. --no-check saves without trying."));
    }
    let answer: Value = serde_json::from_str(&outcome.model_text).unwrap_or_default();
    let text = |resource: &Value, key: &str| resource[key].as_str().unwrap_or_default().to_owned();
    let resources = answer["resources"].as_array().into_iter().flatten();
    Ok(resources.map(|resource| (text(resource, "resource_id"), text(resource, "name"))).collect())
}

/// A source whose tools work on a resource must have one by default (11.2, step 3).
fn choose_resource(
    source: &mut Source,
    server: &Arc<Running>,
    resources: Option<&[(String, String)]>,
    asking: bool,
) -> Result<(), Failure> {
    let reserved = [TOOL_AUTOCONTEXT, TOOL_AUTOCONTEXT_DATA];
    let needed = server
        .tools()
        .iter()
        .filter(|tool| !reserved.contains(&tool.name.as_str()))
        .any(|tool| tool.input_schema["properties"].get("resource_id").is_some());
    if !needed || source.default_resource_id.is_some() {
        return Ok(());
    }
    let title =
        server.capability().and_then(|capability| capability.resource_id.title.as_deref()).unwrap_or("resource_id");
    let listed = resources.unwrap_or_default();
    let shown: Vec<String> = listed.iter().map(|(id, name)| format!("{id}  {name}")).collect();
    source.default_resource_id = match listed {
        [(only, _)] => Some(only.clone()),
        [] => None,
        _ if asking => Some(listed[terminal::choose(&format!("{title} for calls that name none:"), &shown)?].0.clone()),
        _ => None,
    };
    if source.default_resource_id.is_some() {
        return Ok(());
    }
    let list =
        if shown.is_empty() { String::new() } else { format!(" There are, among others:\n  {}", shown.join("\n  ")) };
    Err(Failure::usage(format!("pass --resource: the {title} for calls that name none.{list}")))
}
