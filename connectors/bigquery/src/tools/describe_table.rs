//! `describe_table`: the columns of a table, all of them or a part, and how it is stored.

use acp_core::{Call, Error, Hints, Info, Result, Tool, ToolSpec};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::api::BigQuery;
use crate::blocks;
use crate::resources::Place;
use crate::schemas;
use crate::settings::Settings;

/// Characters of the columns.
const SCHEMA: usize = 14_000;
/// Characters of a view's SQL.
const VIEW_SQL: usize = 4_000;

/// Columns, partitions, size and description of a table or view, free of charge. Of name_* it is the latest shard.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescribeTable {
    /// A table of the dataset of resource_id. Default: the table of resource_id.
    table: Option<String>,
    /// Only columns whose dotted name holds this, with their descriptions, such as event_params.
    fields: Option<String>,
}

impl Tool for DescribeTable {
    type Source = BigQuery;
    type Answer = Info;
    const SPEC: ToolSpec = ToolSpec {
        name: "describe_table",
        title: "Describe a table",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(self, bigquery: &BigQuery, call: &Call) -> Result<Info> {
        let settings = Settings::of(call)?;
        let client = bigquery.client(call, Some(&settings))?;
        let place = named(call, self.table.as_deref())?;
        let actual = blocks::stands_for(&client, &place).await?;
        let table = match client.table(&actual, true).await {
            Ok(table) => table,
            Err(failure) => return Err(client.explain(failure, &actual).await),
        };
        let fields = table.schema.as_ref().map_or(&[][..], |schema| &schema.fields);
        let mut answer = json!({
            "table": place.id(),
            "type": table.r#type,
            "columns_in_all": schemas::count(fields),
            "rows": table.num_rows,
            "bytes": table.num_bytes,
            "location": table.location,
        });
        if actual != place {
            answer["shard"] = json!(actual.table);
        }
        let modified = i64::try_from(table.last_modified_time).ok().filter(|ms| *ms > 0);
        if let Some(modified) = modified.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
            answer["last_modified"] = json!(modified.to_string());
        }
        if let Some(description) = table.description.as_deref().filter(|text| !text.is_empty()) {
            answer["description"] = json!(acp_google::clean(description, 500));
        }
        if let Some(partitions) = blocks::partitions(place.table.as_deref().unwrap_or_default(), &table) {
            answer["partitioning"] = partitions;
        }
        if let Some(view) = &table.view {
            answer["view_sql"] = json!(view.query.chars().take(VIEW_SQL).collect::<String>());
        }
        match self.fields.as_deref().map(str::trim).filter(|wanted| !wanted.is_empty()) {
            Some(wanted) => {
                let found = schemas::select(fields, wanted);
                if found.is_empty() {
                    return Err(Error::invalid_arguments(format!(
                        "No column of {place} has {wanted:?} in its name. Leave fields out to see all."
                    )));
                }
                answer["columns"] = json!(found);
            }
            None => {
                let (columns, note) = schemas::columns(fields, SCHEMA);
                answer["columns"] = columns;
                if let Some(note) = note {
                    answer["note"] = json!(note);
                }
            }
        }
        Ok(Info(answer))
    }
}

/// The table that a call is about: the argument, in the dataset of the resource or with its own, else the resource.
pub(super) fn named(call: &Call, table: Option<&str>) -> Result<Place> {
    let place = Place::of(call)?;
    let wanted = match table.map(str::trim).filter(|table| !table.is_empty()) {
        None => Some(place),
        Some(table) => match (table.matches('.').count(), &place.dataset) {
            (0, Some(dataset)) => Place::parse(&format!("{}.{dataset}.{table}", place.project)),
            (1, _) => Place::parse(&format!("{}.{table}", place.project)),
            (_, _) => Place::parse(table),
        },
    };
    wanted.filter(|place| place.table.is_some()).ok_or_else(|| {
        Error::invalid_arguments(
            "Say which table: give table, such as events_* or my_dataset.my_table, or a resource_id with a table. autocontext (tables) lists them.",
        )
    })
}
