//! `load_rows`: rows of a dataset of the host into a table, where the settings allow it.

use std::collections::BTreeMap;

use acp_core::{Access, Call, Error, Hints, Info, Operation, Result, Tool, ToolSpec};
use acp_google::Failure;
use acp_protocol::error::ErrorCode;
use google_cloud_bigquery_v2::model::{
    Job, JobConfiguration, JobConfigurationLoad, JobReference, TableReference, TableSchema,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::api::{BigQuery, Client, JobId};
use crate::load::{Content, Mapping};
use crate::query::Running;
use crate::resources::Place;
use crate::settings::Settings;

/// Jobs of the same load that are looked for: one that failed is tried again under another id.
const JOBS_MAX: u32 = 5;

/// Loads all rows of a dataset or report of the host into a BigQuery table, free of charge, where a person allowed it. Never replaces or deletes rows.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadRows {
    /// Id of a host dataset or report. The host resolves the rows.
    #[schemars(extend("x-acp-input" = "table_ref"))]
    table_ref: String,
    /// project.dataset.table; the dataset must exist.
    destination: String,
    /// create (default): a new table; append: an existing one.
    #[serde(default)]
    mode: Mode,
    /// Types of columns of a new table by header, such as {"price": "NUMERIC"}. Default: by the header's type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    types: BTreeMap<String, String>,
    /// true: only say which column becomes which, and what does not fit.
    #[serde(default)]
    plan: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Create,
    Append,
}

impl Tool for LoadRows {
    type Source = BigQuery;
    type Answer = Info;
    const SPEC: ToolSpec = ToolSpec {
        name: "load_rows",
        title: "Load rows",
        resource: false,
        credentials: true,
        hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: true },
    };

    async fn run(self, bigquery: &BigQuery, call: &Call) -> Result<Info> {
        let settings = Settings::of(call)?;
        let place = Place::parse(&self.destination)
            .filter(|place| place.table.as_ref().is_some_and(|table| !table.ends_with('*')))
            .ok_or_else(|| {
                Error::invalid_arguments(
                    "destination must be the full name of one table: my-project.my_dataset.my_table.",
                )
            })?;
        let allowed = Access::of(call)?.check(Operation::Add, &place.id());
        if !self.plan {
            allowed.clone()?;
        }
        let client = bigquery.client_for(call, Some(&settings), &place.project)?;
        call.set_arguments(&self);
        let location = match client.dataset(&place).await {
            Ok(dataset) => dataset.location.clone(),
            Err(failure) => {
                let dataset = Place { table: None, ..place };
                return Err(client.explain(failure, &dataset).await);
            }
        };
        let existing = self.existing(&client, &place).await?;
        let table = call.read_table(&self.table_ref).await?;
        let mut mapping = match &existing {
            Some(fields) => Mapping::of_existing(table.headers(), fields),
            None => Mapping::of_new(table.headers(), &self.types),
        };
        let mut content = mapping.write(table, call.temporary_file()?)?;
        for warning in &content.warnings {
            call.warn(warning);
        }
        let summary = json!({
            "destination": place.id(),
            "mode": self.mode,
            "rows": content.rows,
            "bytes": content.bytes,
            "columns": mapping.to_json(),
            "location": location,
        });
        if self.plan {
            return Ok(Info(planned(summary, &mapping, allowed.err())));
        }
        mapping.check()?;
        if settings.confirm_loads {
            confirm(call, &content, &place, self.mode).await?;
        }
        self.load(&client, call, &settings, &place, &location, &mapping, &mut content, summary, existing.is_some())
            .await
    }
}

/// What would be done.
fn planned(mut summary: Value, mapping: &Mapping, refusal: Option<Error>) -> Value {
    summary["loaded"] = json!(false);
    summary["would_load"] = json!(mapping.check().is_ok() && refusal.is_none());
    if !mapping.problems().is_empty() {
        summary["problems"] = json!(mapping.problems());
    }
    if let Some(refusal) = refusal {
        summary["refused"] = json!(refusal.message());
    }
    summary
}

/// Asks the person, where the client can. What the settings forbid was refused before.
async fn confirm(call: &Call, content: &Content, place: &Place, mode: Mode) -> Result<()> {
    let what = if mode == Mode::Create { "a new table" } else { "the existing table" };
    match call.confirm(&format!("Load {} rows into {what} {place}?", content.rows)).await {
        Some(true) => Ok(()),
        Some(false) => Err(Error::new(
            ErrorCode::ReadOnlyViolation,
            "Nothing was loaded: the person did not agree. Do not try again unless the person asks for it.",
        )),
        None => Err(Error::new(
            ErrorCode::ReadOnlyViolation,
            "Nothing was loaded: the settings of this source want a confirmation, and this client can't ask a person. The person can switch off confirm_loads in the settings.",
        )),
    }
}

impl LoadRows {
    /// The columns of the destination, if it exists, as the mode wants it.
    async fn existing(
        &self,
        client: &Client,
        place: &Place,
    ) -> Result<Option<Vec<google_cloud_bigquery_v2::model::TableFieldSchema>>> {
        match (client.table(place, false).await, self.mode) {
            (Ok(_), Mode::Create) => Err(Error::invalid_arguments(format!(
                "{place} exists already. Use mode append to add rows to it, or another name."
            ))),
            (Ok(table), Mode::Append) if table.r#type != "TABLE" => Err(Error::invalid_arguments(format!(
                "{place} is of type {}: rows can only be added to tables.",
                table.r#type
            ))),
            (Ok(_), Mode::Append) if !self.types.is_empty() => Err(Error::invalid_arguments(
                "types are for new tables; the columns of an existing one have theirs. Leave types out.",
            )),
            (Ok(table), Mode::Append) => Ok(Some(table.schema.clone().map(|schema| schema.fields).unwrap_or_default())),
            (Err(failure), Mode::Create) if is_missing(&failure) => Ok(None),
            (Err(failure), _) => Err(client.explain(failure, place).await),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of them are what is loaded, and where to")]
    async fn load(
        &self,
        client: &Client,
        call: &Call,
        settings: &Settings,
        place: &Place,
        location: &str,
        mapping: &Mapping,
        content: &mut Content,
        mut summary: Value,
        exists: bool,
    ) -> Result<Info> {
        let (create, write) =
            if exists { ("CREATE_NEVER", "WRITE_APPEND") } else { ("CREATE_IF_NEEDED", "WRITE_EMPTY") };
        let destination = TableReference::new()
            .set_project_id(&place.project)
            .set_dataset_id(place.dataset.clone().unwrap_or_default())
            .set_table_id(place.table.clone().unwrap_or_default());
        let mut load = JobConfigurationLoad::new()
            .set_destination_table(destination)
            .set_source_format("NEWLINE_DELIMITED_JSON")
            .set_create_disposition(create)
            .set_write_disposition(write)
            .set_autodetect(false)
            .set_ignore_unknown_values(false)
            .set_max_bad_records(0);
        if !exists {
            load = load.set_schema(TableSchema::new().set_fields(mapping.schema()));
        }
        for attempt in 1..=JOBS_MAX {
            let id = self.job_id(client, call, place, content, attempt);
            let job = JobId { project: client.billing_project.clone(), id, location: Some(location.to_owned()) };
            // The same load, asked for again: its job is there, and is the answer.
            let (answer, ours) = match client.try_job(&job).await {
                Ok(Some(_)) => (client.loaded(&job, call).await, false),
                Ok(None) => {
                    let reference = JobReference::new()
                        .set_project_id(&job.project)
                        .set_job_id(&job.id)
                        .set_location(location.to_owned());
                    let labels = [("acp_server", "bigquery"), ("acp_tool", Self::SPEC.name)];
                    let configuration = JobConfiguration::new().set_load(load.clone()).set_labels(labels);
                    let request = Job::new().set_job_reference(reference).set_configuration(configuration);
                    let (bytes, rows) = (content.bytes, content.rows);
                    // The last bytes make the job. Rows of a call that was cancelled are not wanted.
                    let mut running = Running::new(client, call, job.clone(), settings, None);
                    let sent = client
                        .upload(&request, (&mut content.file, bytes), |sent| {
                            call.progress(sent, Some(bytes), format!("{rows} rows: {sent} of {bytes} bytes sent"));
                        })
                        .await;
                    let loaded = match sent {
                        Ok(_) => client.loaded(&job, call).await,
                        Err(failure) if is_refused(&failure) => {
                            running.over = true;
                            return Err(failure.into_acp(&client.context(format_args!("table {place}"))));
                        }
                        // It may have arrived: its job tells.
                        Err(_) => match client.job(&job).await {
                            Ok(_) => client.loaded(&job, call).await,
                            Err(_) => Err(Error::upstream(
                                "The upload broke off, and Google does not say whether the rows arrived.",
                            )
                            .into()),
                        },
                    };
                    running.over = true;
                    (loaded, true)
                }
                Err(failure) => return Err(failure.into_acp(&client.context(format_args!("load job {job}")))),
            };
            let answer = answer.map_err(|failure| {
                let error = failure.into_acp(&client.context(format_args!("load job {job}")));
                Error::new(
                    error.code(),
                    format!("{} The load job {} may have worked: call load_rows again with the same arguments, which loads nothing twice.", error.message(), job.id),
                )
            })?;
            let failed = answer.status.as_ref().and_then(|status| status.error_result.as_ref());
            match failed {
                // A job that failed keeps its id; the same rows need another.
                Some(_) if !ours && attempt < JOBS_MAX => continue,
                Some(error) => {
                    return Err(refused(place, error, answer.status.as_ref().map_or(&[], |status| &status.errors)));
                }
                None => {}
            }
            let statistics = answer.statistics.and_then(|statistics| statistics.load).unwrap_or_default();
            let loaded = statistics.output_rows.and_then(|rows| u64::try_from(rows).ok());
            if loaded != Some(content.rows) {
                return Err(Error::upstream(format!(
                    "BigQuery says that it loaded {} of {} rows into {place} (job {}). The person should look at the table before anything is loaded again.",
                    loaded.map_or_else(|| "an unknown number".to_owned(), |rows| rows.to_string()),
                    content.rows,
                    job.id
                ))
                .with_data("job_id", job.id));
            }
            summary["loaded"] = json!(true);
            summary["job_id"] = json!(job.id);
            summary["output_bytes"] = json!(statistics.output_bytes);
            if !ours {
                summary["already_loaded"] = json!(true);
                call.warn("These rows had been loaded by an earlier call with the same call id and content; nothing was loaded twice.");
            }
            return Ok(Info(summary));
        }
        Err(Error::upstream(format!(
            "Earlier loads of the same rows into {place} failed {JOBS_MAX} times. The person should look at the job history of the project {}.",
            client.billing_project
        )))
    }

    /// An id that the same load has again, so that a call that is repeated does not load twice.
    fn job_id(&self, client: &Client, call: &Call, place: &Place, content: &Content, attempt: u32) -> String {
        let place = place.id();
        let parts = [
            &client.billing_project,
            place.as_str(),
            &self.table_ref,
            &content.hash,
            call.call_id().unwrap_or_default(),
        ];
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digest: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        match attempt {
            1 => format!("acp_load_{digest}"),
            attempt => format!("acp_load_{digest}_{attempt}"),
        }
    }
}

/// Whether there is surely no job, since the request for it was refused.
fn is_refused(failure: &Failure) -> bool {
    failure.google().is_some_and(|error| matches!(error.http_status, 400 | 401 | 403))
}

fn is_missing(failure: &Failure) -> bool {
    failure.google().is_some_and(|error| error.http_status == 404)
}

/// The error of a load that BigQuery refused, with the first of its reasons.
fn refused(
    place: &Place,
    error: &google_cloud_bigquery_v2::model::ErrorProto,
    errors: &[google_cloud_bigquery_v2::model::ErrorProto],
) -> Error {
    let mut words: Vec<String> = Vec::new();
    for error in std::iter::once(error).chain(errors).take(4) {
        let text = acp_google::clean(&error.message, 300).trim_end_matches('.').to_owned();
        if !words.contains(&text) {
            words.push(text);
        }
    }
    Error::invalid_arguments(format!(
        "BigQuery loaded nothing into {place}: {}. Change the rows or the destination and try again.",
        words.join("; ")
    ))
    .with_data("reason", error.reason.as_str())
}
