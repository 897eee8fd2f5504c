//! `execute_query`: one SELECT, whole and typed, never above the cost limit.

use acp_core::{Call, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_protocol::JsonObject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{BigQuery, Client};
use crate::estimate::rounded;
use crate::gate;
use crate::policy;
use crate::query::{self, Bill, Counted, Finished, Plan, Purpose, Query, Sink, pages_of, priced, stopped};
use crate::resources::Place;
use crate::settings::Settings;
use crate::sql::days;
use crate::types::Columns;

/// Characters of a description: a query can be long.
const DESCRIPTION_MAX: usize = 2_000;

/// Runs one SELECT in GoogleSQL and extracts all its rows. Each query is dry-run first and refused above the cost limit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteQuery {
    /// GoogleSQL. Select few columns; filter partitions and _TABLE_SUFFIX with literal days. Names without a dataset are in that of resource_id.
    #[schemars(extend("contentMediaType" = "application/sql", "x-acp-date" = "template"))]
    query: String,
    /// Values of @name parameters, such as {"country": "ES"}; a typed one: {"type": "DATE", "value": "2026-09-01"}.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    params: JsonObject,
    /// Most rows to extract. Default: all. It does not make a query cheaper.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl Tool for ExecuteQuery {
    type Source = BigQuery;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "execute_query",
        title: "Run a query",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(self, bigquery: &BigQuery, call: &Call) -> Result<Extraction> {
        let settings = Settings::of(call)?;
        let query = Query::new(&self.query, &self.params, Place::of(call)?)?;
        let client = bigquery.client(call, Some(&settings))?;
        call.set_arguments(&self);

        let plan = query.dry_run(&client, &settings).await?;
        check(&client, &plan, &query, &settings).await?;
        let (reservation, cap) = plan.check_cost(bigquery, call, &settings)?;
        let purpose = Purpose { tool: Self::SPEC.name, conversation: call.conversation() };
        let granted = (&reservation, cap);
        let finished = query::run(&client, call, &query, &plan, &settings, purpose, granted).await?;

        // The bill comes before the rows: what a job costs is known when it is done, whatever happens to its rows.
        let bill = bill(&client, call, &finished, &settings).await;
        // What is not told counts with what it may have come to; under a reservation bytes cost nothing.
        if let Some(cost) = bill.as_ref().and_then(|bill| bill.cost_usd.or(bill.is_reserved().then_some(0.0))) {
            reservation.settle(cost);
        }
        if let Some(bill) = bill.as_ref().filter(|bill| !matches!(bill.statement_type.as_str(), "" | "SELECT")) {
            return Err(gate::read_only(&bill.statement_type.replace('_', " ")));
        }
        let (table, counted) = rows(&client, call, finished, self.limit).await?;
        let extraction = Extraction::new(table, self.description(&query.default, bill.as_ref()))
            .dates(days(&query.tokens))
            .extra(extra(bill.as_ref(), counted));
        let Some(bill) = bill else { return Ok(extraction) };
        let mut source = bill.source;
        source.insert("estimate".to_owned(), Value::Object(plan.estimate.to_json()));
        source.insert("spent_in_conversation_usd".to_owned(), json!(rounded(bigquery.spending.spent(call))));
        Ok(extraction.source(source))
    }
}

impl ExecuteQuery {
    fn description(&self, place: &Place, bill: Option<&Bill>) -> String {
        let text: String = self.query.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown: String = text.chars().take(DESCRIPTION_MAX).collect();
        let cut = if shown.len() < text.len() { "…" } else { "" };
        let price = bill.map(|bill| format!(" ({})", priced(bill))).unwrap_or_default();
        format!("BigQuery, {place}{price}: {shown}{cut}")
    }
}

/// Everything that a query must be before its cost is looked at.
pub(super) async fn check(client: &Client, plan: &Plan, query: &Query<'_>, settings: &Settings) -> Result<()> {
    plan.check_statement()?;
    policy::check_functions(client, plan, &query.tokens, settings).await?;
    policy::check_columns(plan, &query.tokens, settings)
}

/// What a job came to. Its rows are delivered also when BigQuery does not tell.
async fn bill(client: &Client, call: &Call, finished: &Finished, settings: &Settings) -> Option<Bill> {
    let bill = match client.job(&finished.job).await {
        Ok(job) => Bill::of(&finished.job, job.statistics.unwrap_or_default(), settings.price_per_tib_usd),
        Err(failure) => {
            let why = failure.into_acp(&client.context(format_args!("job {}", finished.job)));
            call.set_cost(None);
            call.warn(format!("What the query cost is not known: {} Its job is {}.", why.message(), finished.job));
            return None;
        }
    };
    call.set_cost(bill.cost_usd);
    for warning in &bill.warnings {
        call.warn(warning);
    }
    Some(bill)
}

/// All rows of a finished job, or the most that are wanted.
pub(super) async fn rows(
    client: &Client,
    call: &Call,
    finished: Finished,
    limit: Option<u64>,
) -> Result<(TableWriter, Counted)> {
    let Finished { job, first } = finished;
    if first.end.schema.is_none() {
        return Err(Error::upstream(format!(
            "BigQuery's answer has no schema, so its rows can't be read. Call get_job with job_id {job} to read them again without paying."
        ))
        .with_data("job_id", job.to_string()));
    }
    let columns = Columns::of(first.end.fields(), call);
    let table = call.table(columns.headers())?;
    let mut sink = Sink { columns, table, call, limit };
    let counted = sink.fill(first, pages_of(client, &job)).await.map_err(|why| stopped(why, client, &job))?;
    if counted.read < counted.total {
        call.warn(format!(
            "limit stopped the extraction after {} of {} rows; the query cost as much as all of them.",
            counted.read, counted.total
        ));
    }
    sink.columns.report(call);
    Ok((sink.table, counted))
}

pub(super) fn extra(bill: Option<&Bill>, counted: Counted) -> Value {
    let mut extra = JsonObject::new();
    if let Some(bill) = bill {
        extra.insert("bytes_processed".to_owned(), json!(bill.bytes_processed));
        extra.insert("cache_hit".to_owned(), json!(bill.cache_hit));
    }
    if counted.read < counted.total {
        extra.insert("rows_in_the_result".to_owned(), json!(counted.total));
    }
    Value::Object(extra)
}
