//! `preview_table`: rows of a table as they lie there, without a query and without cost.

use acp_core::{Call, Error, Extraction, Hints, Result, Tool, ToolSpec};
use acp_protocol::error::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::describe_table::named;
use crate::api::BigQuery;
use crate::blocks;
use crate::query::{Sink, Stopped};
use crate::settings::Settings;
use crate::types::Columns;

/// Rows that a preview has unless more are wanted.
const ROWS: u64 = 100;

/// Reads the first stored rows of a table, free and without SQL: in no order and of no particular day. Not for views, external tables or tables with row-level security.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewTable {
    /// A table of the dataset of resource_id. Default: the table of resource_id.
    table: Option<String>,
    /// Rows to extract. Default 100.
    #[schemars(range(min = 1, max = 100000))]
    limit: Option<u64>,
}

impl Tool for PreviewTable {
    type Source = BigQuery;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "preview_table",
        title: "Preview a table",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, bigquery: &BigQuery, call: &Call) -> Result<Extraction> {
        let settings = Settings::of(call)?;
        if !settings.allow_preview {
            return Err(Error::new(
                ErrorCode::ReadOnlyViolation,
                "Previews are switched off, since rows may hold personal data. Use describe_table for columns and execute_query for rows, or ask the \
                 user to switch on allow_preview in the settings of the source.",
            ));
        }
        let limit = *self.limit.get_or_insert(ROWS);
        let client = bigquery.client(call, Some(&settings))?;
        let place = named(call, self.table.as_deref())?;
        self.table.clone_from(&place.table);
        call.set_arguments(&self);
        let actual = blocks::stands_for(&client, &place).await?;
        let table = match client.table(&actual, false).await {
            Ok(table) => table,
            Err(failure) => return Err(client.explain(failure, &actual).await),
        };
        if matches!(table.r#type.as_str(), "VIEW" | "EXTERNAL") {
            return Err(Error::invalid_arguments(format!(
                "{place} is of type {}, which has no rows of its own to preview. Use execute_query with few columns.",
                table.r#type
            )));
        }
        let fields = table.schema.as_ref().map_or(&[][..], |schema| &schema.fields);
        let denied = settings.denied_columns.as_ref();
        if let Some(field) = fields.iter().find(|field| denied.is_some_and(|denied| denied.is_match(&field.name))) {
            return Err(Error::new(
                ErrorCode::ReadOnlyViolation,
                format!(
                    "The settings of this source deny reading the column {:?}, and a preview has all columns. Use execute_query without it.",
                    field.name
                ),
            ));
        }
        let first = match client.table_rows(&actual, None, limit).await {
            Ok(page) => page,
            Err(failure) => return Err(client.explain(failure, &actual).await),
        };
        let columns = Columns::of(fields, call);
        let table = call.table(columns.headers())?;
        let mut sink = Sink { columns, table, call, limit: Some(limit) };
        let fetch = |token: String| {
            let (client, actual) = (client.clone(), actual.clone());
            tokio::spawn(async move { client.table_rows(&actual, Some(&token), limit).await })
        };
        let counted = match sink.fill(first, fetch).await {
            Ok(counted) => counted,
            Err(Stopped::Failed(failure)) => return Err(client.explain(failure, &actual).await),
            Err(Stopped::Incomplete(what)) => {
                return Err(Error::upstream(format!("The preview is not complete: {what}. Try again.")));
            }
            Err(Stopped::Error(error)) => return Err(error),
        };
        sink.columns.report(call);
        let description = format!("BigQuery, first {} stored rows of {actual}, in no order", counted.read);
        Ok(Extraction::new(sink.table, description).extra(json!({"rows_in_the_table": counted.total})))
    }
}
