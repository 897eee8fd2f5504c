//! Projects, data sets, tables and routines: what is read without a job and without cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::analysis::policy_tag;
use super::catalogue::{Dataset, Entry, Kind, PROJECTS, Routine};
use super::failure::Failure;
use super::schema::{Field, Type};
use super::sql::TableId;
use super::{Asked, cells, paging};
use crate::answer::Answer;
use crate::clock::now_micros;
use crate::lock;

/// Rows of an answer of `tabledata.list` at most.
const DATA_ROWS: u64 = 100_000;

/// `GET /projects`.
pub(crate) fn projects(asked: &Asked<'_>) -> Result<Answer, Failure> {
    let listed: Vec<_> = PROJECTS.iter().filter(|project| project.listed && asked.sees(project.id)).collect();
    let mut body = paging::list_body(asked.request, "bigquery#projectList", "projects", &listed, |project| {
        json!({
            "kind": "bigquery#project",
            "id": project.id,
            "numericId": project.number,
            "projectReference": {"projectId": project.id},
            "friendlyName": project.name,
        })
    })?;
    body["totalItems"] = json!(listed.len());
    Ok(Answer::json(200, &body))
}

/// `GET /projects/{project}/datasets`: those that the asker may read, without hidden ones unless `all` is set.
pub(crate) fn datasets(asked: &Asked<'_>, project: &str) -> Result<Answer, Failure> {
    if !PROJECTS.iter().any(|known| known.id == project) {
        return Err(Failure::not_found(format!("Project {project}")));
    }
    if asked.request.parameter("filter").is_some_and(|filter| !filter.is_empty()) {
        return Err(Failure::unsupported("filter"));
    }
    let all = asked.request.parameter("all").is_some_and(|all| all == "true");
    let unreachable = asked.bigquery.switches.unreachable();
    let catalogue = asked.catalogue();
    let shown: Vec<&Dataset> = catalogue
        .datasets
        .iter()
        .filter(|dataset| dataset.project == project && dataset.visible_to(asked.identity))
        .filter(|dataset| all || !dataset.id.starts_with('_'))
        .filter(|dataset| !unreachable.iter().any(|region| region == dataset.location))
        .collect();
    let mut body = paging::list_body(asked.request, "bigquery#datasetList", "datasets", &shown, |dataset| {
        json!({
            "kind": "bigquery#dataset",
            "id": format!("{}:{}", dataset.project, dataset.id),
            "datasetReference": reference(dataset),
            "location": dataset.location,
            "type": "DEFAULT",
        })
    })?;
    if !unreachable.is_empty() {
        body["unreachable"] = json!(unreachable);
    }
    Ok(Answer::json(200, &body))
}

fn reference(dataset: &Dataset) -> Json {
    json!({"projectId": dataset.project, "datasetId": dataset.id})
}

/// `GET /projects/{project}/datasets/{dataset}`.
pub(crate) fn dataset(asked: &Asked<'_>, project: &str, id: &str) -> Result<Answer, Failure> {
    let catalogue = asked.catalogue();
    let dataset = catalogue.readable(asked.identity, project, id, "bigquery.datasets.get")?;
    Ok(Answer::json(
        200,
        &json!({
            "kind": "bigquery#dataset",
            "etag": "sandbox",
            "id": format!("{project}:{id}"),
            "selfLink": format!("{}/bigquery/v2/projects/{project}/datasets/{id}", asked.shared.url),
            "datasetReference": reference(dataset),
            "description": dataset.description,
            "location": dataset.location,
            "creationTime": "1767225600000",
            "lastModifiedTime": "1767225600000",
            "type": "DEFAULT",
        }),
    ))
}

/// The tables of a data set with those that were loaded, in the order of their names.
fn entries(asked: &Asked<'_>, dataset: &Dataset) -> Vec<Arc<Entry>> {
    let mut entries: BTreeMap<String, Arc<Entry>> = dataset.tables.clone();
    for (id, entry) in lock(&asked.bigquery.loaded).iter() {
        if *id.project == *dataset.project && *id.dataset == *dataset.id {
            entries.insert(id.table.to_string(), Arc::clone(entry));
        }
    }
    entries.into_values().collect()
}

fn table_reference(id: &TableId) -> Json {
    json!({"projectId": &*id.project, "datasetId": &*id.dataset, "tableId": &*id.table})
}

fn legacy_id(id: &TableId) -> String {
    format!("{}:{}.{}", id.project, id.dataset, id.table)
}

/// What the list and the resource of a table have in common.
fn outline(entry: &Entry) -> Json {
    let id = entry.table.id();
    let mut outline = json!({
        "kind": "bigquery#table",
        "id": legacy_id(id),
        "tableReference": table_reference(id),
        "type": match entry.kind {
            Kind::Table => "TABLE",
            Kind::View { .. } => "VIEW",
            Kind::External { .. } => "EXTERNAL",
        },
        "creationTime": entry.created.to_string(),
    });
    if let Some(days) = &entry.days {
        outline["timePartitioning"] = json!({"type": "DAY"});
        if let Some(field) = &days.field {
            outline["timePartitioning"]["field"] = json!(field);
        }
        if days.require_filter {
            outline["timePartitioning"]["requirePartitionFilter"] = json!(true);
            outline["requirePartitionFilter"] = json!(true);
        }
    }
    if !entry.clustering.is_empty() {
        outline["clustering"] = json!({"fields": entry.clustering});
    }
    if !entry.labels.is_null() {
        outline["labels"] = entry.labels.clone();
    }
    if let Kind::View { legacy, .. } = entry.kind {
        outline["view"] = json!({"useLegacySql": legacy});
    }
    outline
}

/// `GET /projects/{project}/datasets/{dataset}/tables`.
pub(crate) fn tables(asked: &Asked<'_>, project: &str, id: &str) -> Result<Answer, Failure> {
    let catalogue = asked.catalogue();
    let dataset = catalogue.readable(asked.identity, project, id, "bigquery.tables.list")?;
    let entries = entries(asked, dataset);
    let show = |entry: &Arc<Entry>| outline(entry);
    let mut body = paging::list_body(asked.request, "bigquery#tableList", "tables", &entries, show)?;
    body["totalItems"] = json!(entries.len());
    Ok(Answer::json(200, &body))
}

/// A table that the asker may read; a name that ends with `*` is the last of the tables that it matches.
fn find(asked: &Asked<'_>, project: &str, dataset: &str, table: &str, permission: &str) -> Result<Arc<Entry>, Failure> {
    let catalogue = asked.catalogue();
    let name = format!("{project}:{dataset}.{table}");
    let found = catalogue.dataset(project, dataset);
    let found = match found {
        Some(found) if found.visible_to(asked.identity) => found,
        None if PROJECTS.iter().any(|known| known.id == project) => {
            return Err(Failure::not_found(format!("Dataset {project}:{dataset}")));
        }
        _ => {
            return Err(Failure::access_denied(format!(
                "Table {name}: Permission {permission} denied on table {name} (or it may not exist)."
            )));
        }
    };
    let entries = entries(asked, found);
    let entry = match table.strip_suffix('*') {
        Some(prefix) => entries.iter().rfind(|entry| entry.table.id().table.starts_with(prefix)),
        None => entries.iter().find(|entry| &*entry.table.id().table == table),
    };
    entry.cloned().ok_or_else(|| Failure::not_found(format!("Table {name}")))
}

/// `GET /projects/{project}/datasets/{dataset}/tables/{table}`.
pub(crate) fn table(asked: &Asked<'_>, project: &str, dataset: &str, table: &str) -> Result<Answer, Failure> {
    let entry = find(asked, project, dataset, table, "bigquery.tables.get")?;
    let basic = match asked.request.parameter("view").unwrap_or_default().as_str() {
        "" | "TABLE_METADATA_VIEW_UNSPECIFIED" | "0" | "STORAGE_STATS" | "2" | "FULL" | "3" => false,
        "BASIC" | "1" => true,
        other => return Err(Failure::invalid(format!("Invalid value for view: {other} is not a valid value"))),
    };
    let location = asked.catalogue().dataset(project, dataset).map(|dataset| dataset.location);
    let selected = asked.request.parameter("selectedFields").unwrap_or_default();
    let fields = select(entry.table.schema(), &selected)?;
    let mut resource = outline(&entry);
    resource["etag"] = json!("sandbox");
    resource["selfLink"] =
        json!(format!("{}/bigquery/v2/projects/{project}/datasets/{dataset}/tables/{table}", asked.shared.url));
    resource["location"] = json!(location);
    resource["lastModifiedTime"] = json!(entry.modified.to_string());
    resource["schema"] = json!({"fields": fields.iter().map(Field::to_json).collect::<Vec<_>>()});
    if !entry.description.is_empty() {
        resource["description"] = json!(entry.description);
    }
    match &entry.kind {
        Kind::View { sql, legacy } => resource["view"] = json!({"query": sql, "useLegacySql": legacy}),
        Kind::External { format, uri } => {
            resource["externalDataConfiguration"] =
                json!({"sourceFormat": format, "sourceUris": [uri], "autodetect": false});
        }
        Kind::Table => {}
    }
    if table.ends_with('*') {
        // A wildcard is made up of its last table: its name, and as if it had just changed.
        resource["id"] = json!(format!("{project}:{dataset}.{table}"));
        resource["tableReference"]["tableId"] = json!(table);
        resource["lastModifiedTime"] = json!((now_micros() / 1_000).to_string());
    }
    if !basic && matches!(entry.kind, Kind::Table) && !table.ends_with('*') {
        let rows = entry.table.row_count();
        let bytes: u64 = (0..entry.table.schema().len()).map(|column| entry.table.column_bytes(column, 0..rows)).sum();
        for key in ["numBytes", "numTotalLogicalBytes", "numActiveLogicalBytes"] {
            resource[key] = json!(bytes.to_string());
        }
        resource["numLongTermBytes"] = json!("0");
        resource["numRows"] = json!(rows.to_string());
        if let Some(partitioning) = entry.table.partitioning() {
            resource["numPartitions"] = json!(partitioning.partitions.len().to_string());
        }
    } else if !basic {
        for key in ["numBytes", "numLongTermBytes", "numRows"] {
            resource[key] = json!("0");
        }
    }
    Ok(Answer::json(200, &resource))
}

/// The fields that `selectedFields` names: `a,b.c`; all of them when it is empty.
fn select(fields: &[Field], selected: &str) -> Result<Vec<Field>, Failure> {
    let paths: Vec<&str> = selected.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
    if paths.is_empty() {
        return Ok(fields.to_vec());
    }
    let mut kept: Vec<Field> = Vec::new();
    for field in fields {
        let inner: Vec<&str> = paths
            .iter()
            .filter_map(|path| {
                let (first, rest) = path.split_once('.').unwrap_or((path, ""));
                first.eq_ignore_ascii_case(&field.name).then_some(rest)
            })
            .collect();
        if inner.is_empty() {
            continue;
        }
        let mut field = field.clone();
        if let (Type::Struct(parts), false) = (field.kind.element().unwrap_or(&field.kind), inner.contains(&"")) {
            let record = Type::record(select(parts, &inner.join(","))?);
            field.kind = if field.mode() == "REPEATED" { record.array() } else { record };
        }
        kept.push(field);
    }
    let known = |path: &&str| {
        let first = path.split('.').next().unwrap_or_default();
        fields.iter().any(|field| field.name.eq_ignore_ascii_case(first))
    };
    match paths.iter().find(|path| !known(path)) {
        Some(path) => Err(Failure::invalid(format!("No such field: {path}"))),
        None => Ok(kept),
    }
}

/// `GET /projects/{project}/datasets/{dataset}/tables/{table}/data`: rows without a job, of whole top-level columns.
pub(crate) fn data(asked: &Asked<'_>, project: &str, dataset: &str, table: &str) -> Result<Answer, Failure> {
    let entry = find(asked, project, dataset, table, "bigquery.tables.getData")?;
    let id = entry.table.id();
    let name = legacy_id(id);
    match &entry.kind {
        Kind::View { .. } => return Err(Failure::invalid("Cannot list a table of type VIEW.")),
        Kind::External { .. } => return Err(Failure::invalid("Cannot list a table of type EXTERNAL.")),
        Kind::Table if entry.let_through.is_some() => {
            return Err(Failure::access_denied(format!(
                "Table {name}: User does not have full access to table {name} due to row access policies."
            )));
        }
        Kind::Table => {}
    }
    let selected = asked.request.parameter("selectedFields").unwrap_or_default();
    if selected.contains('.') {
        return Err(Failure::unsupported("selectedFields within records"));
    }
    let fields = entry.table.schema();
    let kept = select(fields, &selected)?;
    let columns: Vec<usize> =
        (0..fields.len()).filter(|index| kept.iter().any(|field| field.name == fields[*index].name)).collect();
    if let Some(closed) = kept.iter().find(|field| Entry::protected(field)) {
        return Err(policy_tag(id, &closed.name));
    }
    let format = paging::format_of_parameters(asked.request)?;
    let start = paging::start(asked.request, &asked.request.path)?;
    let max = paging::number(asked.request, "maxResults")?.unwrap_or(DATA_ROWS).min(DATA_ROWS);
    let total = entry.table.row_count();
    let rows = entry.table.rows(start.min(total)..total, columns);
    let (text, written) = cells::page(rows, max, asked.bigquery.switches.page_bytes(), format);
    let next = start.saturating_add(written);
    let page = paging::Page {
        rows: (written > 0).then_some(text),
        token: (next < total).then(|| paging::token(&asked.request.path, next)),
    };
    Ok(page.answer(json!({"kind": "bigquery#tableDataList", "etag": "sandbox", "totalRows": total.to_string()})))
}

/// `GET /projects/{project}/datasets/{dataset}/routines`.
pub(crate) fn routines(asked: &Asked<'_>, project: &str, id: &str) -> Result<Answer, Failure> {
    let catalogue = asked.catalogue();
    let dataset = catalogue.readable(asked.identity, project, id, "bigquery.routines.list")?;
    let show = |routine: &Routine| {
        let mut resource = routine.resource.clone();
        if let Some(map) = resource.as_object_mut() {
            map.remove("definitionBody");
            map.remove("arguments");
        }
        resource
    };
    let mut body = paging::list_body(asked.request, "", "routines", &dataset.routines, show)?;
    if let Some(map) = body.as_object_mut() {
        map.remove("kind");
        map.remove("etag");
    }
    Ok(Answer::json(200, &body))
}

/// `GET /projects/{project}/datasets/{dataset}/routines/{routine}`.
pub(crate) fn routine(asked: &Asked<'_>, project: &str, id: &str, routine: &str) -> Result<Answer, Failure> {
    let catalogue = asked.catalogue();
    let dataset = catalogue.readable(asked.identity, project, id, "bigquery.routines.get")?;
    let found = dataset.routines.iter().find(|known| known.name == routine);
    let found = found.ok_or_else(|| Failure::not_found(format!("Routine {project}:{id}.{routine}")))?;
    Ok(Answer::json(200, &found.resource))
}
