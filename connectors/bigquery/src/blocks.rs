//! The autocontext blocks: what a model should know about a project, a dataset or a table before it writes SQL.
//!
//! They are read from lists and from metadata, which cost nothing. No block runs a query.

use std::sync::Arc;
use std::time::Duration;

use acp_core::{Builder, Call, Error, Result};
use acp_protocol::JsonObject;
use futures::StreamExt;
use google_cloud_bigquery_v2::model::{TableFieldSchema, TimePartitioning};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use crate::api::{BigQuery, Client, ListFormatTable, Table};
use crate::exports;
use crate::query::Query;
use crate::resources::{DATASET, PROJECT, Place, TABLE};
use crate::schemas::{self, Shown};
use crate::settings::Settings;
use crate::shards::{Family, Grouped, group, is_view, name};

/// Tables of a dataset whose schemas are shown.
const TABLES: usize = 15;
/// Tables of a dataset that are listed.
const LISTED: usize = 200;
/// Characters of all schemas of a block together.
const SCHEMAS: usize = 15_000;
/// Requests for tables that are on their way at once.
const AT_ONCE: usize = 5;
/// Views whose SQL is shown, and its characters.
const VIEWS: usize = 10;
const VIEW_SQL: usize = 600;
/// How long rights are kept: a person who mends them wants to see that it worked.
const RIGHTS: Option<Duration> = Some(Duration::from_secs(60));

/// Adds the blocks to the connector.
pub(crate) fn declare(builder: Builder<BigQuery>) -> Builder<BigQuery> {
    builder
        .block_for("datasets", "Project datasets with their location.", &[PROJECT], None, datasets)
        .block_for(
            "tables",
            "Dataset tables and views. Date-sharded tables (name_YYYYMMDD) are grouped as name_* with the shard count and the latest shard.",
            &[DATASET],
            None,
            tables,
        )
        .block_for(
            "table_schemas",
            "Schema (columns, type, mode and description) of the table or of the first 15 tables in the dataset. For sharded tables, the latest shard is used.",
            &[DATASET, TABLE],
            None,
            table_schemas,
        )
        .block_for(
            "table_stats",
            "Rows, bytes and last change of the table or of the first 15 tables in the dataset.",
            &[DATASET, TABLE],
            None,
            table_stats,
        )
        .block_for(
            "partitioning",
            "Partition and clustering columns: filter them with literal days to read less. Tables without either are left out.",
            &[DATASET, TABLE],
            None,
            partitioning,
        )
        .block_for(
            "ga4_export",
            "If the dataset is an export of Google Analytics 4: its days, traps, and queries that work.",
            &[DATASET, TABLE],
            None,
            ga4_export,
        )
        .block_for(
            "gsc_export",
            "If the dataset is an export of Search Console: its tables, traps, and queries that work.",
            &[DATASET, TABLE],
            None,
            gsc_export,
        )
        .block_for("views", "Views of the dataset with the beginning of their SQL (at most 10).", &[DATASET], None, views)
        .block_for(
            "access",
            "Which project pays, the limits in force, and which rights are missing.",
            &[],
            RIGHTS,
            access,
        )
}

fn client(bigquery: &BigQuery, call: &Call) -> Result<(Client, Place)> {
    let settings = Settings::of(call)?;
    Ok((bigquery.client(call, Some(&settings))?, Place::of(call)?))
}

async fn datasets(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let (client, place) = client(&bigquery, &call)?;
    let all = client.datasets(&place.project).await?;
    let list: Vec<Value> = all
        .datasets
        .iter()
        .take(LISTED)
        .map(|dataset| {
            let mut entry =
                json!({"dataset": format!("{}.{}", place.project, dataset.id), "location": dataset.location});
            if let Some(name) = &dataset.friendly_name {
                entry["name"] = json!(name);
            }
            if !matches!(dataset.kind.as_str(), "" | "DEFAULT") {
                entry["type"] = json!(dataset.kind);
            }
            entry
        })
        .collect();
    if list.len() == all.datasets.len() && all.unreachable.is_empty() {
        return Ok(Value::Array(list));
    }
    let mut block = json!({"total": all.datasets.len(), "shown": list.len(), "datasets": list});
    if !all.unreachable.is_empty() {
        block["unreachable_regions"] = json!(all.unreachable);
    }
    Ok(block)
}

/// A table of a dataset as it is queried: a table, or a family of shards by its latest one.
struct Entry {
    /// As the model writes it: `events_*`.
    name: String,
    /// Whose metadata stands for it.
    table: Place,
}

async fn tables(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let (client, place) = client(&bigquery, &call)?;
    let all = match client.tables(&place).await {
        Ok(all) => all,
        Err(failure) => return Err(client.explain(failure, &place).await),
    };
    let grouped = group(&all.tables);
    let families = grouped.families.iter().map(|family| family_entry(&place, family, &all.tables));
    let list: Vec<Value> =
        families.chain(grouped.single.iter().map(|table| table_entry(&place, table))).take(LISTED).collect();
    let total = grouped.families.len() + grouped.single.len();
    if list.len() == total && all.cut_at.is_none() {
        return Ok(Value::Array(list));
    }
    let note = match all.cut_at {
        Some(_) => "The dataset has more tables than are listed; name a table to see it.",
        None => "Only the first tables are shown; name a table to see it.",
    };
    Ok(json!({"total": total, "shown": list.len(), "note": note, "tables": list}))
}

fn family_entry(dataset: &Place, family: &Family, tables: &[ListFormatTable]) -> Value {
    let latest = family.latest().map(|day| family.shard(day)).unwrap_or_default();
    let pattern = format!("{dataset}.{}", family.pattern());
    let shard = tables.iter().find(|table| name(table) == latest);
    let mut entry = json!({
        "table": pattern,
        "type": shard.map_or("TABLE", |table| table.r#type.as_str()),
        "shards": family.days.len(),
        "first_shard": family.first().map(|day| family.shard(day)),
        "latest_shard": latest,
        "query_hint": format!("FROM `{pattern}` WHERE _TABLE_SUFFIX BETWEEN 'YYYYMMDD' AND 'YYYYMMDD'"),
        "partitioning": shard.and_then(|table| partition_text(table.time_partitioning.as_ref())),
    });
    let (gaps, more) = family.gaps();
    if !gaps.is_empty() {
        let ranges = gaps.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}..{to}") });
        entry["missing_days"] = json!(ranges.collect::<Vec<_>>());
    }
    if more > 0 {
        entry["older_gaps"] = json!(more);
    }
    if !family.also_matches.is_empty() {
        entry["also_matches"] = json!(family.also_matches);
    }
    if family.matches_view {
        entry["warning"] = json!(
            "A view has a name that the pattern matches, so BigQuery refuses it: query shards by name, or a longer prefix."
        );
    }
    entry
}

fn table_entry(dataset: &Place, table: &ListFormatTable) -> Value {
    let mut entry = json!({
        "table": dataset.with_table(name(table)).id(),
        "type": table.r#type,
        "partitioning": partition_text(table.time_partitioning.as_ref()).or_else(|| {
            table.range_partitioning.as_ref().map(|range| format!("integer range of {}", range.field))
        }),
    });
    if let Some(clustering) = &table.clustering {
        entry["clustering"] = json!(clustering.fields);
    }
    if table.require_partition_filter == Some(true) {
        entry["partition_filter"] = json!("required");
    }
    if table.view.as_ref().is_some_and(|view| view.use_legacy_sql.unwrap_or_default()) {
        entry["warning"] = json!("A view in legacy SQL: it can't be queried from GoogleSQL.");
    }
    if table.expiration_time > 0 {
        entry["expires"] = json!(moment(table.expiration_time));
    }
    entry
}

/// How a table is partitioned by time, in words.
fn partition_text(partitioning: Option<&TimePartitioning>) -> Option<String> {
    let partitioning = partitioning?;
    let unit = if partitioning.r#type.is_empty() { "DAY" } else { &partitioning.r#type };
    Some(match partitioning.field.as_deref().filter(|field| !field.is_empty()) {
        Some(field) => format!("{unit} of {field}"),
        None => format!("{unit} of ingestion (_PARTITIONTIME)"),
    })
}

fn moment(ms: i64) -> Option<String> {
    Some(Timestamp::from_millisecond(ms).ok()?.to_string())
}

/// The tables that a block is about: the call's table, or the first of its dataset.
async fn entries(client: &Client, place: &Place) -> Result<(Vec<Entry>, usize)> {
    let all = match (&place.table, client.tables(place).await) {
        (_, Ok(all)) => all,
        // A single table may be readable where its dataset can't be listed.
        (Some(table), Err(_)) if !table.ends_with('*') => {
            return Ok((vec![Entry { name: table.clone(), table: place.clone() }], 1));
        }
        (_, Err(failure)) => return Err(client.explain(failure, place).await),
    };
    let grouped = group(&all.tables);
    if let Some(table) = &place.table {
        return Ok((vec![Entry { name: table.clone(), table: latest_of(place, table, &grouped)? }], 1));
    }
    let families = grouped.families.iter().map(|family| Entry {
        name: family.pattern(),
        table: place.with_table(&family.latest().map(|day| family.shard(day)).unwrap_or_default()),
    });
    let single =
        grouped.single.iter().map(|table| Entry { name: name(table).to_owned(), table: place.with_table(name(table)) });
    let list: Vec<Entry> = families.chain(single).collect();
    let total = list.len();
    Ok((list.into_iter().take(TABLES).collect(), total))
}

/// The table whose metadata stand for a name: of `events_*` the latest shard. BigQuery would answer for the pattern with a
/// table that does not exist.
fn latest_of(place: &Place, table: &str, grouped: &Grouped<'_>) -> Result<Place> {
    let Some(prefix) = table.strip_suffix('*') else { return Ok(place.clone()) };
    let exact = grouped.families.iter().find(|family| family.prefix == prefix);
    let family = exact.or_else(|| grouped.families.iter().find(|family| family.prefix.starts_with(prefix)));
    let latest = family.and_then(|family| Some(family.shard(family.latest()?)));
    latest.map(|latest| place.with_table(&latest)).ok_or_else(|| {
        Error::resource_not_found(format!(
            "No tables of {place} are split by day. Call autocontext for the dataset to see its tables."
        ))
    })
}

/// The table that a resource stands for: itself, or the latest shard of a pattern.
pub(crate) async fn stands_for(client: &Client, place: &Place) -> Result<Place> {
    let Some(table) = place.table.as_deref().filter(|table| table.ends_with('*')) else { return Ok(place.clone()) };
    match client.tables(place).await {
        Ok(all) => latest_of(place, table, &group(&all.tables)),
        Err(failure) => Err(client.explain(failure, place).await),
    }
}

/// Reads the metadata of tables, some at a time, in order. One that can't be read has the reason.
async fn read(client: &Client, entries: Vec<Entry>, with_size: bool) -> Vec<(Entry, Result<Arc<Table>, String>)> {
    let read = entries.into_iter().map(|entry| async move {
        let table = match client.table(&entry.table, with_size).await {
            Ok(table) => Ok(table),
            Err(failure) => Err(client.explain(failure, &entry.table).await.message().to_owned()),
        };
        (entry, table)
    });
    futures::stream::iter(read).buffered(AT_ONCE).collect().await
}

/// A single table that can't be read is the block's error; of several, each has its own.
fn only_error(tables: &[(Entry, Result<Arc<Table>, String>)]) -> Result<()> {
    match tables {
        [(_, Err(reason))] => Err(Error::resource_not_found(reason.clone())),
        _ => Ok(()),
    }
}

async fn table_schemas(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let (client, place) = client(&bigquery, &call)?;
    let (entries, total) = entries(&client, &place).await?;
    let tables = read(&client, entries, false).await;
    only_error(&tables)?;
    let count = tables.len();
    let schemas: Vec<&[TableFieldSchema]> = tables
        .iter()
        .map(|(_, table)| match table {
            Ok(table) => table.schema.as_ref().map_or(&[][..], |schema| &schema.fields),
            Err(_) => &[],
        })
        .collect();
    let mut shown = schemas::all(&schemas, SCHEMAS);
    let mut list = Vec::new();
    for (index, (entry, table)) in tables.iter().enumerate() {
        let mut block = json!({"table": entry.name});
        match table {
            Ok(table) => {
                match std::mem::take(&mut shown[index]) {
                    Shown::As(earlier) => block["columns_as"] = json!(tables[earlier].0.name),
                    Shown::Columns(columns, note) => {
                        block["columns"] = columns;
                        if let Some(note) = note {
                            block["note"] = json!(note);
                        }
                    }
                }
                let by_ingestion = |by: &&TimePartitioning| by.field.as_deref().is_none_or(str::is_empty);
                if table.time_partitioning.as_ref().filter(by_ingestion).is_some() {
                    block["pseudo_columns"] = json!(["_PARTITIONTIME", "_PARTITIONDATE"]);
                }
            }
            Err(reason) => block["error"] = json!(reason),
        }
        list.push(block);
    }
    if total > count {
        list.push(json!({"note": format!("{} more tables; name one to see its schema.", total - count)}));
    }
    Ok(Value::Array(list))
}

async fn table_stats(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let (client, place) = client(&bigquery, &call)?;
    let (entries, total) = entries(&client, &place).await?;
    let tables = read(&client, entries, true).await;
    only_error(&tables)?;
    let count = tables.len();
    let list = tables.into_iter().map(|(entry, table)| match table {
        Ok(table) => {
            let mut stats = json!({
                "table": entry.name,
                "rows": table.num_rows,
                "bytes": table.num_bytes,
                "last_modified": i64::try_from(table.last_modified_time).ok().filter(|ms| *ms > 0).and_then(moment),
                "location": table.location,
            });
            if entry.table.table.as_deref() != Some(entry.name.as_str()) {
                stats["of_shard"] = json!(entry.table.table);
            }
            if table.streaming_buffer.is_some() {
                stats["streaming"] = json!("Rows arrive by streaming; the latest may not be counted yet.");
            }
            stats
        }
        Err(reason) => json!({"table": entry.name, "error": reason}),
    });
    let mut list: Vec<Value> = list.collect();
    if total > count {
        list.push(json!({"note": format!("{} more tables; name one to see its size.", total - count)}));
    }
    Ok(Value::Array(list))
}

async fn partitioning(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let (client, place) = client(&bigquery, &call)?;
    let (entries, _) = entries(&client, &place).await?;
    let tables = read(&client, entries, false).await;
    only_error(&tables)?;
    let list = tables.into_iter().filter_map(|(entry, table)| partitions(&entry.name, table.ok()?.as_ref()));
    Ok(Value::Array(list.collect()))
}

/// How a table is partitioned and clustered; `None` when it is neither.
pub(crate) fn partitions(name: &str, table: &Table) -> Option<Value> {
    let mut facts = JsonObject::new();
    if let Some(by) = partition_text(table.time_partitioning.as_ref()) {
        facts.insert("partitioned_by".to_owned(), json!(by));
        let time = table.time_partitioning.as_ref();
        let field = time.and_then(|by| by.field.clone()).filter(|field| !field.is_empty());
        let column = field.unwrap_or_else(|| "_PARTITIONDATE".to_owned());
        facts.insert("query_hint".to_owned(), json!(format!("WHERE {column} BETWEEN 'YYYY-MM-DD' AND 'YYYY-MM-DD'")));
        if let Some(days) = time.and_then(|by| by.expiration_ms).filter(|ms| *ms > 0).map(|ms| ms / 86_400_000) {
            facts.insert("days_kept".to_owned(), json!(days));
        }
    }
    if let Some(range) = &table.range_partitioning {
        facts.insert("partitioned_by".to_owned(), json!(format!("integer range of {}", range.field)));
        facts.insert("query_hint".to_owned(), json!(format!("WHERE {} BETWEEN 0 AND 0", range.field)));
    }
    if let Some(clustering) = &table.clustering {
        facts.insert("clustered_by".to_owned(), json!(clustering.fields));
        facts.insert(
            "note".to_owned(),
            json!("A filter on the first clustering columns reads less than the estimate says: it is an upper bound."),
        );
    }
    if facts.is_empty() {
        return None;
    }
    if table.require_partition_filter == Some(true) {
        facts.insert("partition_filter".to_owned(), json!("required"));
    }
    facts.insert("table".to_owned(), json!(name));
    Some(Value::Object(facts))
}

async fn ga4_export(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let (client, place) = client(&bigquery, &call)?;
    let dataset = Place { table: None, ..place };
    let all = match client.tables(&dataset).await {
        Ok(all) => all,
        Err(failure) => return Err(client.explain(failure, &dataset).await),
    };
    let grouped = group(&all.tables);
    let Some(family) = exports::ga4_family(&grouped) else { return Ok(json!({"recognised": false})) };
    let latest = dataset.with_table(&family.latest().map(|day| family.shard(day)).unwrap_or_default());
    let fields = |table: &Table| table.schema.clone().map(|schema| schema.fields).unwrap_or_default();
    let newest = match client.table(&latest, false).await {
        Ok(table) => fields(&table),
        Err(failure) => return Err(client.explain(failure, &latest).await),
    };
    if !exports::is_ga4(&newest) {
        return Ok(json!({"recognised": false}));
    }
    let mut block = exports::ga4(&dataset, &grouped, family);
    block["recognised"] = json!(true);
    // Columns that the oldest shard does not have can't be read of all days.
    let oldest = dataset.with_table(&family.first().map(|day| family.shard(day)).unwrap_or_default());
    if let Ok(table) = client.table(&oldest, false).await {
        let old = fields(&table);
        let added: Vec<&str> = newest
            .iter()
            .filter(|field| !old.iter().any(|known| known.name == field.name))
            .map(|field| field.name.as_str())
            .collect();
        if !added.is_empty() {
            block["columns_missing_in_the_oldest_shard"] = json!(added);
        }
    }
    Ok(block)
}

async fn gsc_export(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let (client, place) = client(&bigquery, &call)?;
    let dataset = Place { table: None, ..place };
    let all = match client.tables(&dataset).await {
        Ok(all) => all,
        Err(failure) => return Err(client.explain(failure, &dataset).await),
    };
    let known = [exports::SITE_IMPRESSION, exports::URL_IMPRESSION, "ExportLog"];
    let found: Vec<&str> = all.tables.iter().map(name).filter(|name| known.contains(name)).collect();
    let Some(first) = found.iter().find(|name| **name != "ExportLog") else { return Ok(json!({"recognised": false})) };
    let table = match client.table(&dataset.with_table(first), true).await {
        Ok(table) => table,
        Err(failure) => return Err(client.explain(failure, &dataset.with_table(first)).await),
    };
    let fields = table.schema.as_ref().map_or(&[][..], |schema| &schema.fields);
    if !exports::is_search_console(fields) {
        return Ok(json!({"recognised": false}));
    }
    let modified = i64::try_from(table.last_modified_time).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let modified = modified.filter(|at| at.as_millisecond() > 0).map(|at| TimeZone::UTC.to_datetime(at).date());
    let until = call.today().saturating_sub(3.days());
    let mut block = exports::search_console(&dataset, &found, modified, until);
    block["recognised"] = json!(true);
    Ok(block)
}

async fn views(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let (client, place) = client(&bigquery, &call)?;
    let all = match client.tables(&place).await {
        Ok(all) => all,
        Err(failure) => return Err(client.explain(failure, &place).await),
    };
    let views: Vec<&ListFormatTable> = all.tables.iter().filter(|table| is_view(table)).collect();
    let total = views.len();
    let entries = views
        .into_iter()
        .take(VIEWS)
        .map(|view| Entry { name: name(view).to_owned(), table: place.with_table(name(view)) })
        .collect();
    let mut list: Vec<Value> = Vec::new();
    for (entry, table) in read(&client, entries, false).await {
        list.push(match table {
            Ok(table) => {
                let text = table.view.as_ref().map(|view| view.query.as_str());
                let text =
                    text.or(table.materialized_view.as_ref().map(|view| view.query.as_str())).unwrap_or_default();
                let shown: String = text.chars().take(VIEW_SQL).collect();
                let cut = if shown.len() < text.len() { "…" } else { "" };
                json!({"view": entry.table.id(), "type": table.r#type, "sql": format!("{shown}{cut}")})
            }
            Err(reason) => json!({"view": entry.table.id(), "error": reason}),
        });
    }
    if total > VIEWS {
        list.push(json!({"note": format!("{} more views.", total - VIEWS)}));
    }
    Ok(Value::Array(list))
}

/// Reasons of refusals that end when a person changes something in the project.
const REFUSALS: [&str; 4] = ["accessDenied", "accessNotConfigured", "billingNotEnabled", "SERVICE_DISABLED"];

async fn access(bigquery: Arc<BigQuery>, call: Arc<Call>) -> Result<Value> {
    let settings = Settings::of(&call)?;
    let (client, place) = client(&bigquery, &call)?;
    let mut missing = Vec::new();
    // A dry run is free, and takes the same right as a query.
    let probe = Query::new(
        "SELECT 1",
        &JsonObject::new(),
        Place { project: client.billing_project.clone(), ..Place::default() },
    )?;
    if let Err(error) = probe.dry_run(&client, &settings).await {
        // A right that a person can give is the answer; a login that does not work is a failure like everywhere.
        let reason = error.data().and_then(|data| data.get("reason")?.as_str());
        if !reason.is_some_and(|reason| REFUSALS.contains(&reason)) {
            return Err(error);
        }
        missing.push(error.message().to_owned());
    }
    let mut facts = json!({
        "billing_project": client.billing_project,
        "account": client.session.credentials().principal(),
        "cost_limit_usd": call.cost_limit_usd(),
        "price_per_tib_usd": settings.price_per_tib_usd,
        "can_run_queries": missing.is_empty(),
    });
    if let Some(limit) = settings.session_cost_limit_usd {
        facts["session_cost_limit_usd"] = json!(limit);
        facts["spent_in_this_conversation_usd"] = json!(crate::estimate::rounded(bigquery.spending.spent(&call)));
    }
    if place.dataset.is_some() {
        let dataset = Place { table: None, ..place.clone() };
        match client.dataset(&dataset).await {
            Ok(dataset) => facts["location"] = json!(dataset.location),
            Err(failure) => missing.push(client.explain(failure, &dataset).await.message().to_owned()),
        }
    }
    if call.cost_limit_usd() <= 0.0 {
        facts["note"] = json!("The cost limit is $0: only queries that cost nothing run. A person has to set a limit.");
    }
    facts["missing"] = json!(missing);
    Ok(facts)
}
