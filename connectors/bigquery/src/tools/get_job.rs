//! `get_job`: the rows of a query that ran already, without paying again.

use std::time::{Duration, Instant};

use acp_core::{Call, Error, Extraction, Hints, Result, Tool, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::execute_query::{extra, rows};
use crate::api::{BigQuery, Client, JobId};
use crate::gate;
use crate::query::{Bill, Finished, lost};
use crate::settings::Settings;

/// Reads the rows of an earlier query again, free, for 24 hours: the job_id is in its answer or error.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetJob {
    /// Such as my-project:EU.acp_1f3a; project and location may be left out where they are those of the source.
    job_id: String,
    /// Most rows to extract. Default: all.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl Tool for GetJob {
    type Source = BigQuery;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "get_job",
        title: "Rows of an earlier query",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(self, bigquery: &BigQuery, call: &Call) -> Result<Extraction> {
        let settings = Settings::of(call)?;
        let client = bigquery.client(call, Some(&settings))?;
        let id = self.id(&client, settings.location.as_deref())?;
        // A job that still runs has no rows yet; BigQuery is asked for them until it has.
        let started = Instant::now();
        let first = loop {
            match client.results(&id, None, None).await {
                Ok(page) if page.end.job_complete == Some(true) => break Ok(page),
                Ok(_) if started.elapsed() > Duration::from_secs(settings.timeout_s) => {
                    return Err(Error::upstream(format!("The job {id} still runs. Call get_job again later."))
                        .with_data("job_id", id.to_string()));
                }
                Ok(_) => call.progress(0, None, "The job still runs"),
                Err(failure) => break Err(failure),
            }
        };
        let answer = client.job(&id).await.map_err(|failure| {
            let error = failure.into_acp(&client.context(format_args!("job {id}")));
            let hint = format!("A job is found only with its location, such as my-project:EU.{}.", id.id);
            Error::new(error.code(), format!("{} {hint}", error.message()))
        })?;
        if let Some(error) = answer.status.and_then(|status| status.error_result) {
            let why = acp_google::clean(&error.message, 500);
            return Err(Error::upstream(format!(
                "The job {id} failed: {}. Run the query again with execute_query.",
                why.trim_end_matches('.')
            )));
        }
        let statistics = answer.statistics.unwrap_or_default();
        match statistics.query.as_ref().map(|query| query.statement_type.as_str()) {
            Some("SELECT") => {}
            Some(other) => return Err(gate::read_only(&other.replace('_', " "))),
            None => return Err(Error::invalid_arguments(format!("The job {id} is no query, so it has no rows."))),
        }
        let id = answer.job_reference.as_ref().map_or(id, JobId::of);
        let first = first.map_err(|failure| lost(failure, &client, &id))?;
        // What was paid was paid by the call that ran it.
        let bill = Bill::of(&id, statistics, settings.price_per_tib_usd);
        for warning in &bill.warnings {
            call.warn(warning);
        }
        let (table, counted) = rows(&client, call, Finished { job: id.clone(), first }, self.limit).await?;
        let extra = extra(Some(&bill), counted);
        let mut source = bill.source;
        source.insert("paid_by_this_call".to_owned(), json!(false));
        let description = format!("BigQuery, result of job {id}, read again without cost");
        Ok(Extraction::new(table, description).extra(extra).source(source))
    }
}

impl GetJob {
    /// `project:location.id`, `location.id`, `project:id` or `id`; the project may be one of a domain, with a colon of its
    /// own.
    fn id(&self, client: &Client, location: Option<&str>) -> Result<JobId> {
        let text = self.job_id.trim().trim_matches('`');
        let (project, rest) = text.rsplit_once(':').unwrap_or(("", text));
        let (place, id) = rest.rsplit_once('.').unwrap_or(("", rest));
        let valid =
            |text: &str, more: &str| text.chars().all(|mark| mark.is_ascii_alphanumeric() || more.contains(mark));
        if id.is_empty() || !valid(id, "-_") || !valid(place, "-") || !valid(project, "-.:") {
            return Err(Error::invalid_arguments(
                "job_id must be the id of a BigQuery job, such as my-project:EU.acp_0123. It is in the answer or the error of execute_query.",
            ));
        }
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(JobId {
            project: given(project).unwrap_or_else(|| client.billing_project.clone()),
            id: id.to_owned(),
            location: given(place).or_else(|| location.map(str::to_owned)),
        })
    }
}
