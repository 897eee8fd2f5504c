//! The tools of the bridge itself (16.4): `acp_sources`, `acp_datasets` and `acp_query`.

use std::time::Duration;

use acp_host::datasets::{self, Dataset, FOLDER};
use acp_host::host::Host;
use acp_protocol::JsonObject;
use acp_protocol::error::{ErrorCode, ErrorPayload};
use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::progress::Progress;
use super::{failed, payload, sources, text};
use crate::query::{self, Answer, Limits};

/// Datasets that one answer lists.
const LISTED: usize = 100;
/// How often a client hears of a query that runs.
const BEAT: Duration = Duration::from_secs(5);

/// One of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    Sources,
    Datasets,
    Query,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetsArguments {
    #[serde(default)]
    filter: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryArguments {
    sql: String,
    #[serde(default)]
    save_as: Option<String>,
}

/// They as `tools/list` publishes them.
pub(super) fn tools() -> Vec<Tool> {
    Own::ALL.into_iter().map(Own::published).collect()
}

impl Own {
    const ALL: [Self; 3] = [Self::Sources, Self::Datasets, Self::Query];

    /// The tool of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Sources => "acp_sources",
            Self::Datasets => "acp_datasets",
            Self::Query => "acp_query",
        }
    }

    fn published(self) -> Tool {
        let text = |description: &str| json!({"type": "string", "description": description});
        let (title, description, properties, required) = match self {
            Self::Sources => (
                "Sources",
                "The configured sources: whether they work, whether they have credentials, their limits and their tools. Also \
                 installed connectors without a source, and what is wrong with the configuration.",
                json!({}),
                json!([]),
            ),
            Self::Datasets => (
                "Datasets",
                "The datasets of acp-data: extractions, results of acp_query, and CSV files that the user put there. Tells id, file, \
                 rows, typed columns, origin, description and dates of each.",
                json!({"filter": text("Only datasets with this text in id, source, title, description or columns.")}),
                json!([]),
            ),
            Self::Query => (
                "Query datasets",
                "Runs one SELECT (or WITH … SELECT) of SQLite with ids of datasets as table names. You get up to 50 rows; the whole \
                 result is stored as a new dataset. Use it for totals, filters and joins over all rows. An empty CSV field is NULL; \
                 booleans are 1 and 0; dates are text such as '2026-01-31' (strftime works); whole numbers divide as whole \
                 numbers, so multiply by 1.0 for a ratio. Column names with other characters than letters, digits and _ go in \
                 \"double quotes\".",
                json!({
                    "sql": {"type": "string", "description": "One SELECT of SQLite.", "contentMediaType": "application/sql", "minLength": 1},
                    "save_as": text(
                        "Id for the result: lower-case letters, digits and _, beginning with a letter. Replaces a result of that id, never \
                         an extraction. Without it the result gets an id of its own.",
                    ),
                }),
                json!(["sql"]),
            ),
        };
        let schema =
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let schema = schema.as_object().cloned().unwrap_or_default();
        // A query adds a dataset, and with `save_as` it takes the place of a former result.
        let reads = self != Self::Query;
        let hints = ToolAnnotations::new().read_only(reads).destructive(!reads).idempotent(reads).open_world(false);
        Tool::new(self.name(), description, schema).with_title(title).with_annotations(hints)
    }

    pub(super) async fn call(
        self,
        host: &Host,
        arguments: JsonObject,
        cancel: &CancellationToken,
        progress: &Progress,
    ) -> CallToolResult {
        match self.answer(host, arguments, cancel, progress).await {
            Ok(texts) => CallToolResult::success(texts.iter().map(|part| text(part)).collect()),
            Err(error) => failed(&error, &[]),
        }
    }

    async fn answer(
        self,
        host: &Host,
        arguments: JsonObject,
        cancel: &CancellationToken,
        progress: &Progress,
    ) -> Result<Vec<String>, ErrorPayload> {
        let invalid = |problem: String| payload(ErrorCode::InvalidArguments, problem);
        match self {
            Self::Sources => {
                let NoArguments {} = self.read(arguments).map_err(invalid)?;
                Ok(vec![sources::state(host).await.to_string()])
            }
            Self::Datasets => list(host, self.read(arguments).map_err(invalid)?).await,
            Self::Query => run_query(host, self.read(arguments).map_err(invalid)?, cancel, progress).await,
        }
    }

    fn read<T: DeserializeOwned>(self, arguments: JsonObject) -> Result<T, String> {
        serde_json::from_value(Value::Object(arguments)).map_err(|error| {
            let takes = match self {
                Self::Sources => "no arguments",
                Self::Datasets => "filter (a text, may be left out)",
                Self::Query => "sql (a text) and save_as (a text, may be left out)",
            };
            format!("{} takes {takes}: {error}.", self.name())
        })
    }
}

async fn list(host: &Host, arguments: DatasetsArguments) -> Result<Vec<String>, ErrorPayload> {
    let folder = host.data();
    let listing = tokio::task::spawn_blocking(move || datasets::list(&folder)).await.map_err(std::io::Error::other);
    let listing = listing
        .and_then(|listing| listing)
        .map_err(|error| payload(ErrorCode::UpstreamError, format!("The folder {FOLDER} can't be read: {error}.")))?;
    let filter = arguments.filter.unwrap_or_default().to_lowercase();
    let matching: Vec<&Dataset> = listing.datasets.iter().filter(|dataset| mentions(dataset, &filter)).collect();
    // The newest are those that are spoken of.
    let mut newest = matching.clone();
    newest.sort_by(|one, other| other.meta.created_at.cmp(&one.meta.created_at));
    newest.truncate(LISTED);
    let described: Vec<Value> = newest.iter().map(|dataset| describe(dataset)).collect();
    let notice = match (listing.datasets.len(), matching.len()) {
        (0, _) => "There are no datasets yet: extract something with a tool of a source.".to_owned(),
        (all, 0) => format!("None of the {all} datasets mentions that."),
        (_, found) if found > LISTED => {
            format!("The newest {LISTED} of {found} datasets. Pass a filter to see others.")
        }
        (all, found) if found < all => format!("{found} of {all} datasets."),
        (all, _) => format!("All {all} datasets."),
    };
    let mut answer = json!({"notice": notice, "datasets": described});
    if !listing.unusable.is_empty() {
        let unusable = listing.unusable.iter().map(|(path, reason)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            json!({"file": format!("{FOLDER}/{name}"), "problem": reason})
        });
        answer["unusable"] = unusable.collect();
    }
    Ok(vec![answer.to_string()])
}

/// Whether a dataset mentions a text, in lower case.
fn mentions(dataset: &Dataset, text: &str) -> bool {
    let meta = &dataset.meta;
    let texts = [Some(&meta.id), meta.source.as_ref(), meta.title.as_ref(), meta.description.as_ref()];
    let columns = meta.headers.iter().map(|header| &header.name);
    texts.into_iter().flatten().chain(columns).any(|part| part.to_lowercase().contains(text))
}

fn describe(dataset: &Dataset) -> Value {
    let meta = &dataset.meta;
    let file = dataset.csv.file_name().unwrap_or_default().to_string_lossy();
    let columns: Vec<Value> =
        meta.headers.iter().map(|header| json!({"name": header.name, "type": header.column_type})).collect();
    let mut described = json!({
        "id": meta.id, "file": format!("{FOLDER}/{file}"), "rows": meta.row_count, "columns": columns, "origin": meta.origin,
    });
    for (name, value) in [
        ("source", &meta.source),
        ("tool", &meta.tool),
        ("sql", &meta.sql),
        ("resource_id", &meta.resource_id),
        ("title", &meta.title),
        ("description", &meta.description),
    ] {
        if let Some(value) = value {
            described[name] = value.as_str().into();
        }
    }
    if !meta.dates.is_empty() {
        described["dates"] = meta.dates.clone().into();
    }
    described["created_at"] = meta.created_at.as_str().into();
    described
}

async fn run_query(
    host: &Host,
    arguments: QueryArguments,
    cancel: &CancellationToken,
    progress: &Progress,
) -> Result<Vec<String>, ErrorPayload> {
    let (folder, cancel) = (host.data(), cancel.clone());
    let mut running = tokio::task::spawn_blocking(move || {
        query::query(&folder, &arguments.sql, arguments.save_as.as_deref(), &Limits::default(), &cancel)
    });
    let mut beats = tokio::time::interval(BEAT);
    beats.tick().await;
    let mut seconds = 0;
    let answer = loop {
        tokio::select! {
            answer = &mut running => break answer,
            _ = beats.tick() => {
                seconds += BEAT.as_secs();
                progress.beat(seconds, "The query is running.");
            }
        }
    };
    let answer =
        answer.map_err(|_| payload(ErrorCode::UpstreamError, "The query failed inside. Write it another way."))?;
    let Answer { response, stored } = answer.map_err(|error| error.payload())?;
    let unwritable = |error: serde_json::Error| payload(ErrorCode::UpstreamError, error.to_string());
    let mut texts = vec![serde_json::to_string(&response).map_err(unwritable)?];
    texts.extend(stored.map(|meta| {
        format!(
            "The full result was saved as dataset \"{}\" in {FOLDER}/{}.csv. You saw {} of {} rows.",
            meta.id, meta.id, response.returned_rows, response.total_rows
        )
    }));
    Ok(texts)
}
