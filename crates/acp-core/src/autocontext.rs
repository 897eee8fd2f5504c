//! The two reserved tools: resources to choose from, and what to know about one before asking for data (6.3, 7).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use acp_protocol::autocontext::{BlockDescriptor, BlockResult, ResourceListResponse, ResourceSummary};
use acp_protocol::error::ErrorCode;
use acp_protocol::{JsonObject, RESOURCE_SUGGESTIONS};
use futures::FutureExt;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::arguments::{InputSchema, RESOURCE_ID};
use crate::cache::{BlockKey, DeliveryKey, Memory};
use crate::call::Call;
use crate::connector::{Block, Connector, Resource};
use crate::error::{Error, Result};
use crate::server::panicked;
use crate::session::CallSettings;

/// Input of `autocontext`.
pub(crate) fn input(connector: &Connector) -> InputSchema {
    let ids: Vec<&str> = connector.blocks.iter().map(|block| block.descriptor.id.as_str()).collect();
    let mut items = json!({"type": "string"});
    if !ids.is_empty() {
        items["enum"] = json!(ids);
    }
    let mut properties = json!({
        "request_data": {
            "type": "array", "items": items,
            "description": "Autocontext blocks to return (see autocontext_data). Empty or omitted = all.",
        },
        "query": {
            "type": "string",
            "description": "Search all resources by name, group or id.",
        },
    });
    let what = if connector.has_resources() {
        properties[RESOURCE_ID] = json!({"type": "string", "description": connector.about.resource_id.description});
        "Call it before extractions: without resource_id it lists the resources; with a resource_id it tells the exact names \
         and values to ask for."
    } else {
        "This source has no remote resources, so there is nothing to list."
    };
    InputSchema { description: what.to_owned(), schema: schema(properties) }
}

/// Input of `autocontext_data`.
pub(crate) fn data_input(connector: &Connector) -> InputSchema {
    let mut properties = json!({});
    if connector.has_resources() {
        properties[RESOURCE_ID] = json!({"type": "string", "description": connector.about.resource_id.description});
    }
    let what = "Lists the autocontext blocks and what each holds; with resource_id, those that exist for it.";
    InputSchema { description: what.to_owned(), schema: schema(properties) }
}

fn schema(properties: Value) -> JsonObject {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), properties);
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

/// The descriptors of the blocks that exist for a level, or of all.
pub(crate) fn descriptors(connector: &Connector, level: Option<&str>) -> Vec<BlockDescriptor> {
    let applies = |block: &&Block| level.is_none_or(|level| block.applies_to(level));
    connector.blocks.iter().filter(applies).map(|block| block.descriptor.clone()).collect()
}

/// The blocks that a call asks for by id, in its order and each once. An id that does not exist is an error.
pub(crate) fn requested<'a>(connector: &'a Connector, arguments: &JsonObject) -> Result<Vec<&'a Block>> {
    let wrong_type =
        || Error::invalid_arguments("request_data must be a list of block ids. See autocontext_data for the ids.");
    let given = match arguments.get("request_data") {
        Some(Value::String(text)) => {
            Some(serde_json::from_str(text).ok().filter(Value::is_array).unwrap_or_else(|| json!([text])))
        }
        given => given.cloned(),
    };
    let ids: Vec<&str> = match &given {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(|id| id.as_str().ok_or_else(wrong_type)).collect::<Result<_>>()?,
        Some(_) => return Err(wrong_type()),
    };
    let mut blocks: Vec<&Block> = Vec::new();
    for id in ids {
        let block = find(connector, id).ok_or_else(|| {
            let known: Vec<&str> = connector.blocks.iter().map(|block| block.descriptor.id.as_str()).collect();
            let known = if known.is_empty() { "this source has none".to_owned() } else { known.join(", ") };
            Error::new(
                ErrorCode::UnknownBlock,
                format!("request_data names a block that does not exist. The blocks are: {known}."),
            )
        })?;
        if !blocks.iter().any(|known| std::ptr::eq(*known, block)) {
            blocks.push(block);
        }
    }
    Ok(blocks)
}

fn find<'a>(connector: &'a Connector, id: &str) -> Option<&'a Block> {
    connector.blocks.iter().find(|block| block.descriptor.id == id)
}

/// Blocks of one resource, and what is to be said about them.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) blocks: Vec<BlockResult>,
    pub(crate) warnings: Vec<String>,
    pub(crate) cached: bool,
}

/// Reads blocks, all at once; none given: all that exist for the resource. A block that fails carries its error and
/// the others are delivered, unless the source rejects the credentials for every one of them.
pub(crate) async fn read(
    connector: &Connector,
    memory: &Memory,
    call: &Arc<Call>,
    wanted: &[&Block],
) -> Result<Delivery> {
    let resource = call.resource()?;
    let blocks: Vec<&Block> = match wanted {
        [] => connector.blocks.iter().filter(|block| block.applies_to(resource.level)).collect(),
        wanted => wanted.to_vec(),
    };
    let outcomes = join_all(blocks.iter().map(|block| read_one(connector, memory, call, block, resource))).await;
    let rejected = |outcome: &Result<(Arc<Value>, bool)>| {
        outcome.as_ref().is_err_and(|error| error.code() == ErrorCode::CredentialsInvalid)
    };
    if !outcomes.is_empty() && outcomes.iter().all(rejected) {
        return outcomes.into_iter().next().unwrap_or_else(|| Ok((Arc::default(), false))).map(|_| Delivery::default());
    }
    let mut delivery = Delivery { cached: !blocks.is_empty(), ..Delivery::default() };
    let mut failed = Vec::new();
    for (block, outcome) in blocks.iter().zip(outcomes) {
        let BlockDescriptor { id, description, .. } = block.descriptor.clone();
        let (data, error) = match outcome {
            Ok((data, cached)) => {
                delivery.cached &= cached;
                (Some(Arc::unwrap_or_clone(data)), None)
            }
            Err(error) => {
                delivery.cached = false;
                failed.push(id.clone());
                (None, Some(error.message().to_owned()))
            }
        };
        delivery.blocks.push(BlockResult { id, description, data, error });
    }
    if !failed.is_empty() {
        let (count, total, ids) = (failed.len(), blocks.len(), failed.join(", "));
        delivery.warnings.push(format!("{count} of {total} autocontext blocks failed: {ids}."));
    }
    Ok(delivery)
}

async fn read_one(
    connector: &Connector,
    memory: &Memory,
    call: &Arc<Call>,
    block: &Block,
    resource: &Resource,
) -> Result<(Arc<Value>, bool)> {
    if !block.applies_to(resource.level) {
        let levels = block.descriptor.applies_to.as_deref().unwrap_or_default().join(", ");
        return Err(Error::invalid_arguments(format!("This block exists for: {levels}; not for {}.", resource.level)));
    }
    let key = BlockKey { scope: call.cache_scope(), resource: resource.id.clone(), block: block.descriptor.id.clone() };
    let ttl = block.ttl.unwrap_or(connector.about.cache_ttl);
    // One block that panics is one block that failed.
    let read = AssertUnwindSafe((block.read)(call.clone()))
        .catch_unwind()
        .map(|outcome| outcome.unwrap_or_else(|_| Err(panicked())));
    memory.block(key, ttl, read).await
}

/// The autocontext to attach to an extraction, if this is the moment for it (the table of 7.5). Whatever goes wrong,
/// the extraction stands: then nothing is attached.
pub(crate) async fn attach(
    connector: &Connector,
    memory: &Arc<Memory>,
    call: &Arc<Call>,
    settings: &CallSettings,
) -> Option<(Delivery, Mark)> {
    use acp_protocol::capability::AutocontextDelivery::OnFirstCall;
    let resource = call.resource.as_ref()?;
    if !connector.about.delivery.contains(&OnFirstCall) || connector.blocks.is_empty() {
        return None;
    }
    let key = settings.session_id.clone().map(|session| DeliveryKey {
        identity: call.identity(),
        session,
        resource: resource.id.clone(),
    });
    let due = match (settings.autocontext_delivered, &key) {
        (Some(true), _) | (None, None) => false,
        (Some(false), None) => true,
        // From here on no other call attaches it to this conversation, unless this one fails to.
        (Some(false) | None, Some(key)) => memory.mark_delivered(key.clone()),
    };
    if !due {
        return None;
    }
    let mark = Mark { memory: memory.clone(), key };
    let ids = &settings.autocontext_blocks;
    let wanted: Vec<&Block> = ids.iter().filter_map(|id| find(connector, id)).collect();
    let unknown: Vec<&str> = ids.iter().filter(|id| find(connector, id).is_none()).map(String::as_str).collect();
    if !unknown.is_empty() {
        call.warn(format!(
            "autocontext_blocks names {} block(s) that do not exist; they were left out.",
            unknown.len()
        ));
        if wanted.is_empty() {
            return None;
        }
    }
    let delivery = read(connector, memory, call, &wanted).await.ok()?;
    Some((delivery, mark))
}

/// Takes the mark of a delivery back unless it is kept: autocontext that could not be read, or whose answer was never
/// made, was not delivered.
#[derive(Debug)]
pub(crate) struct Mark {
    memory: Arc<Memory>,
    key: Option<DeliveryKey>,
}

impl Mark {
    pub(crate) fn keep(mut self) {
        self.key = None;
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.memory.unmark_delivered(key);
        }
    }
}

/// The list of resources, likeliest first, and whether it came from the cache (6.3).
pub(crate) async fn list(
    connector: &Connector,
    memory: &Memory,
    call: &Arc<Call>,
    default: Option<&str>,
    query: Option<&str>,
) -> Result<(ResourceListResponse, bool)> {
    if !connector.has_resources() {
        let notice = "This source has no remote resources.".to_owned();
        return Ok((ResourceListResponse { notice, total_available: 0, resources: Vec::new() }, false));
    }
    let identity = call.identity();
    let (all, cached) = memory.resources(call.cache_scope(), connector.source.resources(call.clone())).await?;
    let scores = memory.scores(&identity);
    let default =
        default.map(|id| connector.source.resource(id).map_or_else(|_| id.to_owned(), |resource| resource.id));
    let matches = |resource: &&ResourceSummary| query.is_none_or(|query| is_match(resource, query));

    let mut page: Vec<ResourceSummary> = Vec::new();
    if let Some(id) = &default {
        page.push(all.iter().find(|resource| resource.resource_id == *id).cloned().unwrap_or_else(|| configured(id)));
    }
    let mut rest: Vec<&ResourceSummary> =
        all.iter().filter(matches).filter(|resource| default.as_ref() != Some(&resource.resource_id)).collect();
    let found = all.iter().filter(matches).count();
    // The sort is stable, so resources that were not used stay in the source's order.
    let score = |resource: &ResourceSummary| scores.get(&resource.resource_id).copied().unwrap_or_default();
    rest.sort_by(|one, two| score(two).total_cmp(&score(one)));
    page.extend(rest.into_iter().take(RESOURCE_SUGGESTIONS.saturating_sub(page.len())).cloned());
    for resource in &mut page {
        if scores.contains_key(&resource.resource_id) {
            resource.recent = Some(true);
        }
    }
    let notice = notice(page.len(), found, all.len(), default.as_deref(), query);
    Ok((ResourceListResponse { notice, total_available: all.len() as u64, resources: page }, cached))
}

/// A query as a notice repeats it.
fn clip(query: &str) -> String {
    query.chars().take(100).collect()
}

fn is_match(resource: &ResourceSummary, query: &str) -> bool {
    let query = query.to_lowercase();
    [Some(&resource.resource_id), Some(&resource.name), resource.group.as_ref()]
        .into_iter()
        .flatten()
        .any(|text| text.to_lowercase().contains(&query))
}

/// A default resource that the account does not list still belongs on the page.
fn configured(id: &str) -> ResourceSummary {
    let description = Some("Configured default resource (not in the account listing).".to_owned());
    ResourceSummary { description, ..ResourceSummary::new(id, id) }
}

fn notice(shown: usize, found: usize, total: usize, default: Option<&str>, query: Option<&str>) -> String {
    const PASS: &str = "Pass resource_id to get its autocontext.";
    let mut notice = match query {
        Some(query) => {
            format!("Showing {shown} of {found} resources matching {:?} ({total} available). {PASS}", clip(query))
        }
        None if total == 0 => "No resources available with these credentials.".to_owned(),
        None if shown < total => {
            format!("Showing {shown} of {total} available resources, most recently used first. {PASS}")
        }
        None if total == 1 => format!("1 resource available. {PASS}"),
        None => format!("{total} resources available. {PASS}"),
    };
    if let Some(default) = default {
        notice.push_str(&format!(" Default resource: {default}."));
    }
    notice
}
