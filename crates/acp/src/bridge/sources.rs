//! The sources as the client sees them: their tools, and their state.

use std::sync::Arc;
use std::time::Duration;

use acp_host::client;
use acp_host::host::{Host, Running};
use acp_host::sources::{Source, Sources};
use acp_host::window::schema_for_caller;
use acp_protocol::error::{ErrorCode, ErrorPayload};
use acp_protocol::{ANNOTATION_INPUT, INPUT_TABLE_REF, JsonObject};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{SERVER, payload};

/// Between the id of a source and the name of its tool.
const SEPARATOR: &str = "__";
/// Longest name of server and tool together that all clients take.
const NAME_MAX: usize = 60;
/// How long a connector may take to start before the list goes out without its tools.
const START: Duration = Duration::from_secs(20);

/// A source, and its connector where that runs.
struct Entry {
    source: Source,
    server: Result<Arc<Running>, String>,
}

impl Entry {
    fn tool_name(&self, tool: &str) -> String {
        format!("{}{SEPARATOR}{tool}", self.source.id)
    }
}

/// Every source with its connector, which is started where it does not run. They start side by side.
async fn entries(host: &Host, sources: &Sources) -> Vec<Entry> {
    let starting = sources.all().iter().map(|source| async {
        let server = match tokio::time::timeout(START, host.server(&source.acp)).await {
            Ok(server) => server.map_err(|error| error.to_string()),
            Err(_) => Err(format!("The server of {} did not start within {} s.", source.acp, START.as_secs())),
        };
        Entry { source: source.clone(), server }
    });
    futures::future::join_all(starting).await
}

/// The tools of all sources. What is wrong with a source is told by `acp_sources`.
pub(super) async fn tools(host: &Host) -> Vec<Tool> {
    let Ok(sources) = host.sources() else { return Vec::new() };
    let mut tools: Vec<Tool> = Vec::new();
    for entry in entries(host, &sources).await {
        let Ok(server) = &entry.server else { continue };
        for tool in server.tools() {
            let published = published(&entry, server, tool);
            // `a__b` may be a source too; the first one in the file has the name.
            if !tools.iter().any(|other| other.name == published.name) {
                tools.push(published);
            }
        }
    }
    tools
}

/// The source and the tool that a published name stands for.
pub(super) async fn find(host: &Host, name: &str) -> Result<(String, String), ErrorPayload> {
    let sources = host.sources().map_err(|error| payload(ErrorCode::InvalidArguments, error.to_string()))?;
    let mut reason = format!("There is no tool {name}. acp_sources lists the sources and their tools.");
    for source in sources.all() {
        let Some(tool) = name.strip_prefix(&source.id).and_then(|rest| rest.strip_prefix(SEPARATOR)) else { continue };
        match host.server(&source.acp).await {
            Ok(server) if server.tool(tool).is_some() => return Ok((source.id.clone(), tool.to_owned())),
            Ok(server) => {
                let names: Vec<&str> = server.tools().iter().map(|tool| tool.name.as_str()).collect();
                reason = format!("The source {} has no tool {tool}. It has: {}.", source.id, names.join(", "));
            }
            Err(error) => return Err(error.payload()),
        }
    }
    Err(payload(ErrorCode::InvalidArguments, reason))
}

/// A tool as the client sees it (16.4).
fn published(entry: &Entry, server: &Running, tool: &client::Tool) -> Tool {
    let source = &entry.source;
    let mut description = format!("[{} · {}] ", source.name(), server.package().manifest.name);
    description.push_str(tool.description.as_deref().unwrap_or_default());
    let extracts = server.capability().is_some_and(|capability| capability.extraction_tools.contains(&tool.name));
    if extracts {
        description.push_str(
            " You get a sample; the whole table is stored in acp-data as a dataset, and acp_query answers questions about all of it.",
        );
    }
    if let Some(tables) = source.tables.as_ref().filter(|_| extracts) {
        let tables = if tables.is_empty() { "none".to_owned() } else { tables.join(", ") };
        description.push_str(&format!(" Tables that are extracted unless you name others: {tables}."));
    }
    let mut schema = match schema_for_caller(&tool.input_schema) {
        Value::Object(schema) => schema,
        _ => JsonObject::from_iter([("type".to_owned(), "object".into())]),
    };
    name_datasets(&mut schema);
    let mut published = Tool::new(entry.tool_name(&tool.name), description, schema);
    if let Some(title) = &tool.title {
        published = published.with_title(format!("{}: {title}", source.name()));
    }
    let hints = tool.annotations.clone().and_then(|hints| serde_json::from_value::<ToolAnnotations>(hints).ok());
    match hints {
        Some(hints) => published.with_annotations(hints),
        None => published,
    }
}

/// Says of each argument that takes a table of the host what that is here (8.8).
fn name_datasets(schema: &mut JsonObject) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut() {
        if property.get(ANNOTATION_INPUT).and_then(Value::as_str) == Some(INPUT_TABLE_REF) {
            let said = property["description"].as_str().unwrap_or_default();
            let said =
                format!("{said} Pass the id of a dataset of acp-data, as acp_datasets lists it; never rows or SQL.");
            property["description"] = said.trim_start().into();
        }
    }
}

/// What `acp_sources` answers. Credentials are only said to be there.
pub(super) async fn state(host: &Host) -> Value {
    let mut problems = Vec::new();
    let packages = match host.packages() {
        Ok(listing) => listing,
        Err(error) => {
            problems.push(format!("The installed connectors can't be listed: {error}."));
            Default::default()
        }
    };
    problems.extend(packages.broken.iter().map(|(folder, problem)| {
        format!("The folder {} is no connector: {problem}.", folder.file_name().unwrap_or_default().to_string_lossy())
    }));
    let (sources, entries) = match host.sources() {
        Ok(sources) => {
            let entries = entries(host, &sources).await;
            (Some(sources), entries)
        }
        Err(error) => {
            problems.push(format!("sources.json can't be used, so there are no sources. Tell the user: {error}"));
            (None, Vec::new())
        }
    };
    if let Some(sources) = &sources {
        if !sources.exists() {
            problems.push(format!(
                "There is no {} yet. The user can add a source with `acp source add`.",
                sources.path().display()
            ));
        }
        problems
            .extend(sources.unknown().iter().map(|key| format!("sources.json: {key} is not known and has no effect.")));
    }
    let used = |id: &str| entries.iter().any(|entry| entry.source.acp == id);
    let unused: Vec<Value> = packages
        .packages
        .iter()
        .filter(|package| !used(&package.manifest.id))
        .map(|package| {
            let manifest = &package.manifest;
            json!({"id": manifest.id, "name": manifest.name, "description": manifest.description})
        })
        .collect();
    let mut listed = Vec::new();
    for entry in &entries {
        if let Some(sources) = &sources {
            listed.push(describe(host, sources, entry).await);
        }
    }
    let mut state = json!({"sources": listed, "installed_without_source": unused});
    if !problems.is_empty() {
        state["problems"] = problems.into();
    }
    state
}

async fn describe(host: &Host, sources: &Sources, entry: &Entry) -> Value {
    let source = &entry.source;
    let mut described = json!({"id": source.id, "label": source.name(), "acp": source.acp});
    let limits = sources.limits(source);
    let mut shown = json!({
        "row_limit": limits.row_limit, "field_limit": limits.field_limit, "cost_limit_usd": limits.cost_limit_usd,
    });
    let mut state = match &entry.server {
        Ok(server) => {
            described["acp_name"] = server.package().manifest.name.as_str().into();
            described["acp_version"] = server.package().manifest.version.as_str().into();
            if let Some(defaults) = server.capability().map(|capability| &capability.defaults) {
                for (name, value) in [
                    ("row_limit", json!(defaults.row_limit)),
                    ("field_limit", json!(defaults.field_limit)),
                    ("cost_limit_usd", json!(defaults.cost_limit_usd)),
                ] {
                    if shown[name].is_null() {
                        shown[name] = value;
                    }
                }
            }
            let names: Vec<String> = server.tools().iter().map(|tool| entry.tool_name(&tool.name)).collect();
            if let Some(problem) = too_long(&source.id, server.tools()) {
                described["problem"] = problem.into();
            }
            described["tools"] = names.into();
            "ok".to_owned()
        }
        Err(problem) => problem.clone(),
    };
    if let Some(problem) = unresolved(host, sources, source).await {
        state = problem;
    }
    described["state"] = state.into();
    described["has_credentials"] = source.credentials.is_some().into();
    described["default_resource_id"] = source.default_resource_id.clone().into();
    described["limits"] = shown;
    described
}

/// A reference that has no value; calls of the source would fail.
async fn unresolved(host: &Host, sources: &Sources, source: &Source) -> Option<String> {
    let (sources, source, project) = (sources.clone(), source.clone(), host.options().project.clone());
    let resolve = move || sources.resolve(&source, &project).err().map(|error| error.to_string());
    tokio::task::spawn_blocking(resolve).await.ok().flatten()
}

/// What to do about names that some clients refuse.
fn too_long(id: &str, tools: &[client::Tool]) -> Option<String> {
    let longest = tools.iter().map(|tool| tool.name.as_str()).max_by_key(|name| name.len())?;
    let besides = SERVER.len() + SEPARATOR.len() + longest.len();
    if besides + id.len() <= NAME_MAX {
        return None;
    }
    let advice = match NAME_MAX.checked_sub(besides).filter(|fits| *fits > 0) {
        Some(fits) => format!("Give the source an id of at most {fits} characters in sources.json."),
        None => "No id is short enough.".to_owned(),
    };
    Some(format!(
        "With the name of the server, {id}{SEPARATOR}{longest} has more than {NAME_MAX} characters, which some clients refuse. {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> client::Tool {
        serde_json::from_value(json!({"name": name, "inputSchema": {"type": "object"}})).unwrap()
    }

    #[test]
    fn the_longest_id_that_fits_is_told() {
        let tools = [tool("short"), tool(&"x".repeat(35))];
        assert_eq!(too_long(&"i".repeat(20), &tools), None);
        let told = too_long(&"i".repeat(21), &tools).unwrap();
        assert!(told.contains("at most 20 characters"), "{told}");
        assert!(too_long("i", &[tool(&"x".repeat(60))]).unwrap().contains("No id"));
    }

    #[test]
    fn table_arguments_ask_for_a_dataset() {
        let mut schema = json!({"type": "object", "properties": {
            "table_ref": {"type": "string", "x-acp-input": "table_ref", "description": "Id of a host dataset."},
            "n": {"type": "integer"},
        }});
        name_datasets(schema.as_object_mut().unwrap());
        let said = schema["properties"]["table_ref"]["description"].as_str().unwrap();
        assert!(said.starts_with("Id of a host dataset. Pass the id of a dataset of acp-data"), "{said}");
        assert_eq!(schema["properties"]["n"], json!({"type": "integer"}));
    }
}
