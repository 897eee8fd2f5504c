//! A query from its text to its rows: dry run, policy, cost, job, pages.
//!
//! Nothing is inserted that could bill more than the limit: the dry run of the same bytes comes first, and the job carries
//! a cap that is computed from the limit alone.

use std::time::Duration;

use acp_core::{Call, Cleanup, Error, Result, TableWriter};
use acp_google::{Failure, TransportKind};
use acp_protocol::JsonObject;
use acp_protocol::error::ErrorCode;
use google_cloud_bigquery_v2::model::{
    DatasetReference, Job, JobConfiguration, JobConfigurationQuery, JobReference, JobStatistics, JobStatistics2,
    QueryParameter, RoutineReference, TableFieldSchema,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::{BigQuery, Client, JobId, Page};
use crate::errors;
use crate::estimate::{self, Estimate, human_bytes, rounded};
use crate::gate;
use crate::policy;
use crate::resources::Place;
use crate::settings::Settings;
use crate::spending::Reservation;
use crate::sql::Token;
use crate::types::Columns;

/// How long a job is waited for, in seconds. BigQuery ends it at its bound itself, give or take some.
fn patience(timeout_s: u64) -> u64 {
    timeout_s + (timeout_s / 10).max(5)
}

/// New jobs in place of one that failed inside BigQuery. A job that failed is not billed.
const JOBS_MAX: usize = 2;

/// A query that passed the gate.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    pub(crate) text: &'a str,
    pub(crate) tokens: Vec<Token<'a>>,
    pub(crate) params: Vec<QueryParameter>,
    /// For names without a dataset.
    pub(crate) default: Place,
}

/// What the dry run said.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) statement_type: String,
    pub(crate) estimate: Estimate,
    pub(crate) schema: Vec<TableFieldSchema>,
    pub(crate) tables: Vec<Place>,
    pub(crate) routines: Vec<RoutineReference>,
    /// Where the query runs: where BigQuery found the data.
    pub(crate) location: Option<String>,
}

/// A job that ended well, with its first page.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) job: JobId,
    pub(crate) first: Page,
}

/// Why a job was asked for at all: what BigQuery keeps with it, so that its cost can be found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose<'a> {
    pub(crate) tool: &'static str,
    pub(crate) conversation: Option<&'a str>,
}

impl<'a> Query<'a> {
    /// Reads a query and refuses what is not one statement that reads.
    pub(crate) fn new(text: &'a str, params: &JsonObject, default: Place) -> Result<Self> {
        let tokens = gate::check(text)?;
        let params = crate::params::typed(params, &tokens)?;
        Ok(Self { text, tokens, params, default })
    }

    /// The tables that the text names, as far as it shows: for errors, where no dry run tells.
    pub(crate) fn named_tables(&self) -> Vec<Place> {
        policy::named_tables(&self.tokens, &self.default)
    }

    fn configuration(&self) -> JobConfigurationQuery {
        let mut query = JobConfigurationQuery::new().set_query(self.text).set_use_legacy_sql(false);
        if let Some(dataset) = &self.default.dataset {
            let dataset = DatasetReference::new().set_project_id(&self.default.project).set_dataset_id(dataset);
            query = query.set_default_dataset(dataset);
        }
        if !self.params.is_empty() {
            query = query.set_parameter_mode("NAMED").set_query_parameters(self.params.clone());
        }
        query
    }

    /// Lets BigQuery read the query without running it, free of charge.
    pub(crate) async fn dry_run(&self, client: &Client, settings: &Settings) -> Result<Plan> {
        policy::check_names(&self.tokens, settings)?;
        let mut location = settings.location.clone();
        if location.is_none() && self.default.dataset.is_some() {
            location = match client.location(&self.default).await {
                Ok(location) => location,
                Err(failure) => return Err(failure.into_acp(&client.context(&self.default))),
            };
        }
        let mut answer = self.try_dry_run(client, location.as_deref(), false).await;
        // The data may be elsewhere than its dataset's neighbour: BigQuery says so, and is asked there, once.
        if let Some(actual) = elsewhere(client, &answer).await.filter(|actual| Some(actual) != location.as_ref()) {
            answer = self.try_dry_run(client, Some(&actual), false).await;
            // What is not there either is where the others are not.
            if let Some(other) = elsewhere(client, &answer).await.filter(|other| *other != actual) {
                return Err(errors::far_apart(&actual, &other));
            }
            location = Some(actual);
        }
        let job = match answer {
            Ok(job) => job,
            Err(failure) => return Err(errors::of_query(client, failure, self, settings).await),
        };
        self.plan(job, location, settings)
    }

    /// `cached`: whether a result that BigQuery still has may stand in. From the cache every query would be free; what it
    /// costs when it is not there is the usual question.
    async fn try_dry_run(&self, client: &Client, location: Option<&str>, cached: bool) -> Result<Job, Failure> {
        let query = self.configuration().set_use_query_cache(cached);
        let configuration = JobConfiguration::new().set_dry_run(true).set_query(query);
        let mut reference = JobReference::new().set_project_id(&client.billing_project);
        if let Some(location) = location {
            reference = reference.set_location(location.to_owned());
        }
        client.insert(&Job::new().set_configuration(configuration).set_job_reference(reference)).await
    }

    /// Whether BigQuery has the result already, so that the query would be free.
    pub(crate) async fn is_cached(&self, client: &Client, plan: &Plan) -> Result<bool, Failure> {
        let job = self.try_dry_run(client, plan.location.as_deref(), true).await?;
        Ok(job.statistics.and_then(|statistics| statistics.query?.cache_hit).unwrap_or_default())
    }

    fn plan(&self, job: Job, asked: Option<String>, settings: &Settings) -> Result<Plan> {
        let location = job.job_reference.as_ref().map(JobId::of).and_then(|job| job.location).or(asked);
        let statistics = job.statistics.unwrap_or_default();
        if let Some(away) = statistics.global_query_remote_regions.first() {
            return Err(Error::invalid_arguments(format!(
                "The query would copy data between regions ({} and {away}), which costs extra. Query tables of one region at a time.",
                location.as_deref().unwrap_or("another")
            )));
        }
        let hides_rows = statistics.row_level_security_statistics.is_some_and(|rows| rows.row_level_security_applied);
        let query = statistics.query.unwrap_or_default();
        let tables: Vec<Place> = query.referenced_tables.iter().map(place_of).collect();
        let bytes = query.total_bytes_processed.or(statistics.total_bytes_processed);
        let mut unestimable = Vec::new();
        match query.total_bytes_processed_accuracy.as_str() {
            "PRECISE" | "UPPER_BOUND" => {}
            "LOWER_BOUND" => unestimable.push("external"),
            _ => unestimable.push("unknown"),
        }
        let bytes = match bytes {
            _ if hides_rows => None,
            bytes => bytes.and_then(|bytes| u64::try_from(bytes).ok()),
        };
        if bytes.is_none() {
            unestimable.retain(|reason| *reason != "unknown");
            unestimable.push(if hides_rows || !tables.is_empty() { "row_level_security" } else { "unknown" });
        }
        let plan = Plan {
            statement_type: query.statement_type.clone(),
            estimate: Estimate {
                bytes: bytes.unwrap_or(0),
                accuracy: match query.total_bytes_processed_accuracy.as_str() {
                    "" => "UNKNOWN".to_owned(),
                    accuracy => accuracy.to_owned(),
                },
                tables: tables.len(),
                price_per_tib_usd: settings.price_per_tib_usd,
                unestimable,
            },
            schema: query.schema.map(|schema| schema.fields).unwrap_or_default(),
            tables,
            routines: query.referenced_routines,
            location,
        };
        plan.with_parameters(&query.undeclared_query_parameters)
    }
}

/// Where the data is that was not where BigQuery looked for it.
async fn elsewhere(client: &Client, answer: &Result<Job, Failure>) -> Option<String> {
    let place = errors::dataset_elsewhere(answer.as_ref().err()?)?;
    client.location(&place).await.ok().flatten()
}

fn place_of(table: &google_cloud_bigquery_v2::model::TableReference) -> Place {
    Place {
        project: table.project_id.clone(),
        dataset: Some(table.dataset_id.clone()),
        table: Some(table.table_id.clone()),
    }
}

impl Plan {
    fn with_parameters(self, undeclared: &[QueryParameter]) -> Result<Self> {
        if undeclared.is_empty() {
            return Ok(self);
        }
        let missing: Vec<String> = undeclared
            .iter()
            .map(|parameter| {
                let kind = parameter.parameter_type.as_ref().map_or("", |kind| kind.r#type.as_str());
                format!("{} ({kind})", if parameter.name.is_empty() { "?" } else { &parameter.name })
            })
            .collect();
        Err(Error::invalid_arguments(format!(
            "The query uses parameters that params does not give: {}. Add them to params.",
            missing.join(", ")
        )))
    }

    /// Only a SELECT is run; what BigQuery does not name is none.
    pub(crate) fn check_statement(&self) -> Result<()> {
        match self.statement_type.as_str() {
            "SELECT" => Ok(()),
            "" => Err(gate::read_only("of a kind that BigQuery does not name")),
            other => Err(gate::read_only(&other.replace('_', " "))),
        }
    }

    /// Whether the cost is known to fit what the call and the conversation may cost, or a person allowed to run without
    /// knowing it. What is set aside for it comes back, and the cap.
    pub(crate) fn check_cost(
        &self,
        bigquery: &BigQuery,
        call: &Call,
        settings: &Settings,
    ) -> Result<(Reservation, i64)> {
        let estimate = &self.estimate;
        let limit = call.cost_limit_usd();
        let mut expected = estimate.usd();
        if estimate.unestimable.is_empty() {
            call.check_cost(expected, "fewer columns, shorter date range, filter by partition")
                .map_err(|error| self.with_bytes(error))?;
            // The bytes fit, but not what is billed for them at least.
            if estimate.usd_low() > limit {
                call.check_cost(
                    estimate.usd_low(),
                    "read fewer tables; each table that is read is billed with at least 10 MB",
                )
                .map_err(|error| self.with_bytes(error))?;
                expected = estimate.usd_low();
            }
            expected = expected.max(estimate.usd_low());
        } else {
            let reasons = estimate.unestimable.join(", ");
            if !settings.allow_unestimated {
                return Err(self.with_bytes(
                    Error::new(
                        ErrorCode::CostLimitExceeded,
                        format!(
                            "The cost of this query can't be known before it runs ({}). Query other tables, or ask the user to allow \
                             queries without an estimate in the settings of the source; then the limit of ${limit:.2} caps them.",
                            self.why_unestimable()
                        ),
                    )
                    .with_data("estimate_usd", Value::Null)
                    .with_data("limit_usd", limit)
                    .with_data("unestimable", json!(estimate.unestimable)),
                ));
            }
            call.check_cost(expected.min(limit), "fewer columns")?;
            call.warn(format!(
                "BigQuery could not estimate this query ({reasons}); it ran because a person allowed that, capped at ${limit:.2}."
            ));
            expected = limit;
        }
        let reservation = bigquery.spending.reserve(call, settings, expected)?;
        let allowed = reservation.left().map_or(limit, |left| left.min(limit));
        Ok((reservation, estimate::cap(allowed, estimate.price_per_tib_usd)))
    }

    pub(crate) fn why_unestimable(&self) -> String {
        let reasons = self.estimate.unestimable.iter().map(|reason| match *reason {
            "external" => "it reads external tables",
            "row_level_security" => "row-level security hides how much is read",
            _ => "BigQuery gives no reliable number",
        });
        reasons.collect::<Vec<_>>().join(", ")
    }

    fn with_bytes(&self, error: Error) -> Error {
        let estimate = &self.estimate;
        let bytes = Some(estimate.bytes).filter(|bytes| *bytes > 0 || estimate.unestimable.is_empty());
        error
            .with_data("total_bytes_processed", bytes)
            .with_data("estimated_bytes_billed", estimate.billed_low())
            .with_data("price_per_tib_usd", estimate.price_per_tib_usd)
            .with_data("statement_type", self.statement_type.as_str())
    }
}

/// A job that runs. When nobody waits for it any more it is cancelled: a job goes on without its reader, and may cost.
pub(crate) struct Running {
    client: Client,
    job: JobId,
    cleanup: Cleanup,
    price_per_tib_usd: f64,
    /// What was set aside for it; nothing for a load, which is free.
    reservation: Option<Reservation>,
    /// Whether there is nothing left to cancel.
    pub(crate) over: bool,
}

impl Running {
    pub(crate) fn new(
        client: &Client,
        call: &Call,
        job: JobId,
        settings: &Settings,
        reservation: Option<&Reservation>,
    ) -> Self {
        Self {
            client: client.clone(),
            job,
            cleanup: call.cleanup(),
            price_per_tib_usd: settings.price_per_tib_usd,
            reservation: reservation.cloned(),
            over: false,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (client, job, price) = (self.client.clone(), self.job.clone(), self.price_per_tib_usd);
        let reservation = self.reservation.clone();
        self.cleanup.spawn(async move {
            cancel(&client, &job, price, reservation.as_ref()).await;
        });
    }
}

/// Cancels a job and says what it came to, in USD if BigQuery tells.
async fn cancel(client: &Client, job: &JobId, price: f64, reservation: Option<&Reservation>) -> Option<f64> {
    let cancelled = match client.cancel(job).await {
        Ok(_) => client.job(job).await,
        Err(failure) => Err(failure),
    };
    match cancelled {
        Ok(answer) => {
            let statistics = answer.statistics.unwrap_or_default();
            let billed = statistics.query.and_then(|query| query.total_bytes_billed).unwrap_or(0);
            let cost = estimate::usd(billed.unsigned_abs(), price);
            tracing::info!(job = %job, billed_bytes = billed, cost_usd = cost, "the job was cancelled");
            if let Some(reservation) = reservation {
                reservation.settle(cost);
            }
            Some(cost)
        }
        Err(_) => {
            tracing::warn!(job = %job, "the job could not be cancelled; it may go on and cost");
            None
        }
    }
}

/// Runs a query whose plan was checked, and waits for its first page. `reservation` is what was set aside for it.
pub(crate) async fn run(
    client: &Client,
    call: &Call,
    query: &Query<'_>,
    plan: &Plan,
    settings: &Settings,
    purpose: Purpose<'_>,
    (reservation, cap): (&Reservation, i64),
) -> Result<Finished> {
    let mut attempt = 1;
    loop {
        let reference = JobReference::new().set_project_id(&client.billing_project).set_job_id(new_job_id());
        let reference = match &plan.location {
            Some(location) => reference.set_location(location.clone()),
            None => reference,
        };
        let configuration =
            query.configuration().set_use_query_cache(true).set_maximum_bytes_billed(cap).set_priority("INTERACTIVE");
        let configuration = JobConfiguration::new()
            .set_query(configuration)
            .set_job_timeout_ms(i64::try_from(settings.timeout_s * 1000).unwrap_or(i64::MAX))
            .set_labels(labels(purpose));
        let job = Job::new().set_configuration(configuration).set_job_reference(reference.clone());
        let mut running = Running::new(client, call, JobId::of(&reference), settings, Some(reservation));
        match client.insert(&job).await {
            Ok(answer) => {
                if let Some(named) =
                    answer.job_reference.as_ref().map(JobId::of).filter(|named| named.id == running.job.id)
                {
                    running.job = named;
                }
            }
            // An answer was lost, and the job is there already.
            Err(failure) if is_unclear(&failure) => {
                if client.job(&running.job).await.is_err() {
                    // Not cancelled: if it is there after all, it is capped, and its result can be read.
                    running.over = true;
                    call.set_cost(None);
                    return Err(lost(failure, client, &running.job));
                }
            }
            Err(failure) => {
                // Refused: there is no job.
                running.over = true;
                reservation.settle(0.0);
                return Err(errors::of_query(client, failure, query, settings).await);
            }
        }
        match wait(&mut running, call, settings).await {
            Ok(first) => return Ok(Finished { job: running.job.clone(), first }),
            Err(Ended::Failed(trouble, _)) if trouble.may_pass() && attempt < JOBS_MAX => attempt += 1,
            Err(Ended::Failed(trouble, cost)) => {
                told(call, reservation, cost);
                return Err(errors::of_job(client, trouble, query, settings, &running.job).await);
            }
            Err(Ended::Lost(failure, cost)) => {
                told(call, reservation, cost);
                return Err(lost(failure, client, &running.job));
            }
            Err(Ended::Error(error)) => return Err(error),
        }
    }
}

/// Tells what a job came to, in USD. Where that is not known it counts with what it may have come to.
fn told(call: &Call, reservation: &Reservation, cost_usd: Option<f64>) {
    call.set_cost(cost_usd);
    if let Some(cost) = cost_usd {
        reservation.settle(cost);
    }
}

/// Whether a job may be there although the request for it failed: its answer was lost, or it is there already.
fn is_unclear(failure: &Failure) -> bool {
    match failure {
        Failure::Google(error) => error.http_status == 409 || error.http_status >= 500 && !error.is_final(),
        Failure::Transport(transport) => transport.kind != TransportKind::Connect,
        Failure::Acp(_) => false,
    }
}

/// How waiting for a job ended without rows.
enum Ended {
    /// The job failed, and cost so much in USD, if BigQuery tells.
    Failed(errors::Trouble, Option<f64>),
    /// The rows did not come, of a job that cost so much.
    Lost(Failure, Option<f64>),
    Error(Error),
}

/// Waits until a job is done and has its first page.
async fn wait(running: &mut Running, call: &Call, settings: &Settings) -> Result<Page, Ended> {
    let started = Instant::now();
    let deadline = Duration::from_secs(patience(settings.timeout_s));
    loop {
        match running.client.results(&running.job, None, None).await {
            Ok(page) if page.end.job_complete == Some(true) => {
                running.over = true;
                if running.job.location.is_none() {
                    running.job.location = page.end.location();
                }
                return Ok(page);
            }
            Ok(_) => {
                let seconds = started.elapsed().as_secs();
                call.progress(seconds, None, format!("BigQuery works on the query ({seconds} s)"));
                if started.elapsed() > deadline {
                    running.over = true;
                    let (client, job) = (running.client.clone(), running.job.clone());
                    let cost = cancel(&client, &job, settings.price_per_tib_usd, running.reservation.as_ref()).await;
                    call.set_cost(cost);
                    return Err(Ended::Error(
                        Error::upstream(format!(
                            "The query did not end within {} s, so its job {job} was cancelled{}. Narrow the query, or ask the user to raise timeout_s in the settings of the source.",
                            settings.timeout_s,
                            cost.map_or_else(String::new, |cost| format!("; it cost ${cost:.4}")),
                        ))
                        .with_data("job_id", job.to_string()),
                    ));
                }
            }
            Err(failure) => return Err(failed(running, failure, settings).await),
        }
    }
}

/// Why there are no results: the job's own state says it, since errors of jobs come as errors of requests here.
async fn failed(running: &mut Running, failure: Failure, settings: &Settings) -> Ended {
    // Whatever it is, its result can still be read, or it has none: nothing is cancelled.
    running.over = true;
    // Without a login there is no use in asking for the job either.
    let logged_out = match &failure {
        Failure::Google(error) => error.http_status == 401,
        Failure::Acp(error) => error.code() == ErrorCode::CredentialsInvalid,
        Failure::Transport(_) => false,
    };
    if logged_out {
        return Ended::Lost(failure, None);
    }
    let Ok(job) = running.client.job(&running.job).await else { return Ended::Lost(failure, None) };
    let status = job.status.unwrap_or_default();
    let bill = Bill::of(&running.job, job.statistics.unwrap_or_default(), settings.price_per_tib_usd);
    match status.error_result.as_ref().map(errors::Trouble::of_job) {
        // What was ended on its way is billed for what it read; what failed is not.
        Some(trouble) if trouble.is_stopped() => Ended::Failed(trouble, bill.cost_usd),
        Some(trouble) => Ended::Failed(trouble, Some(0.0)),
        // While it runs, nobody knows what it will come to.
        None => Ended::Lost(failure, bill.cost_usd.filter(|_| status.state == "DONE")),
    }
}

/// The error of a job whose answer did not arrive: it is paid for, and can be read.
pub(crate) fn lost(failure: Failure, client: &Client, job: &JobId) -> Error {
    let error = failure.into_acp(&client.context(format_args!("job {job}")));
    Error::new(
        error.code(),
        format!(
            "{} The job {job} may have run: call get_job with this job_id to read its result without paying again.",
            error.message()
        ),
    )
    .with_data("job_id", job.to_string())
}

fn labels(purpose: Purpose<'_>) -> Vec<(String, String)> {
    let mut labels =
        vec![("acp_server".to_owned(), "bigquery".to_owned()), ("acp_tool".to_owned(), purpose.tool.to_owned())];
    if let Some(conversation) = purpose.conversation {
        labels.push(("acp_conversation".to_owned(), hashed(conversation)));
    }
    labels
}

/// A label that tells conversations apart and says nothing else.
fn hashed(text: &str) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// An id that no other job has: 128 random bits.
pub(crate) fn new_job_id() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let half = || RandomState::new().build_hasher().finish();
    format!("acp_{:016x}{:016x}", half(), half())
}

/// Where a job's rows go.
pub(crate) struct Sink<'a> {
    pub(crate) columns: Columns,
    pub(crate) table: TableWriter,
    pub(crate) call: &'a Call,
    /// The most rows that are wanted.
    pub(crate) limit: Option<u64>,
}

/// How many rows there were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) read: u64,
    /// All rows of the result.
    pub(crate) total: u64,
}

impl Sink<'_> {
    /// Reads all pages, each fetched while the one before is written. Either every row arrives, or the call fails.
    pub(crate) async fn fill(
        &mut self,
        first: Page,
        fetch: impl Fn(String) -> JoinHandle<Result<Page, Failure>>,
    ) -> Result<Counted, Stopped> {
        let total = first.end.total_rows();
        let wanted = self.limit.unwrap_or(u64::MAX);
        let mut page = first;
        let mut read = 0;
        let mut tokens: Vec<String> = Vec::new();
        loop {
            let token = page.end.page_token.take().filter(|token| !token.is_empty());
            let after = read + page.rows.len() as u64;
            let next = token.filter(|_| after < wanted);
            if let Some(token) = &next {
                if tokens.contains(token) {
                    return Err(Stopped::Incomplete("BigQuery sent the same page twice".to_owned()));
                }
                tokens.push(token.clone());
            }
            let ahead = next.map(|token| Ahead(fetch(token)));
            for row in page.rows.iter().take(usize::try_from(wanted - read).unwrap_or(usize::MAX)) {
                self.columns.push(row, &mut self.table).map_err(Stopped::Error)?;
                read += 1;
            }
            self.call.progress(read, total.map(|total| total.min(wanted)), format!("{read} rows read"));
            let Some(mut ahead) = ahead else { break };
            page = match (&mut ahead.0).await {
                Ok(Ok(page)) => page,
                Ok(Err(failure)) => return Err(Stopped::Failed(failure)),
                Err(_) => return Err(Stopped::Incomplete("a page could not be read".to_owned())),
            };
            // A page of another total is one of another result.
            if page.end.total_rows() != total {
                return Err(Stopped::Incomplete("the result changed while it was read".to_owned()));
            }
        }
        match total {
            None => Err(Stopped::Incomplete("BigQuery does not say how many rows there are".to_owned())),
            Some(total) if read == total.min(wanted) => Ok(Counted { read, total }),
            Some(total) => {
                Err(Stopped::Incomplete(format!("BigQuery announced {} rows and sent {read}", total.min(wanted))))
            }
        }
    }
}

/// Why rows ended early.
#[derive(Debug)]
pub(crate) enum Stopped {
    Failed(Failure),
    Incomplete(String),
    Error(Error),
}

/// A page on its way; its request ends when nobody wants it any more.
struct Ahead(JoinHandle<Result<Page, Failure>>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Fetches pages of a job's result in the background.
pub(crate) fn pages_of(client: &Client, job: &JobId) -> impl Fn(String) -> JoinHandle<Result<Page, Failure>> {
    let (client, job) = (client.clone(), job.clone());
    move |token| {
        let (client, job) = (client.clone(), job.clone());
        tokio::spawn(async move { client.results(&job, Some(&token), None).await })
    }
}

/// The error of rows that ended early, of a job that is paid for.
pub(crate) fn stopped(stopped: Stopped, client: &Client, job: &JobId) -> Error {
    match stopped {
        Stopped::Failed(failure) => lost(failure, client, job),
        Stopped::Incomplete(what) => Error::upstream(format!(
            "The result is not complete: {what}. Call get_job with job_id {job} to read it again without paying."
        ))
        .with_data("job_id", job.to_string()),
        Stopped::Error(error) => error,
    }
}

/// What a job came to.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    /// USD; `None` where bytes are not what is paid for.
    pub(crate) cost_usd: Option<f64>,
    pub(crate) source: JsonObject,
    pub(crate) bytes_processed: u64,
    pub(crate) cache_hit: bool,
    pub(crate) statement_type: String,
    pub(crate) warnings: Vec<String>,
}

impl Bill {
    /// Whether slots were paid for, not bytes.
    pub(crate) fn is_reserved(&self) -> bool {
        self.source.contains_key("reservation")
    }

    /// Reads the statistics of a job that ended.
    pub(crate) fn of(job: &JobId, statistics: JobStatistics, price_per_tib_usd: f64) -> Self {
        let reserved = !statistics.reservation_id.is_empty();
        let query = statistics.query.unwrap_or_default();
        let billed = query.total_bytes_billed.and_then(|bytes| u64::try_from(bytes).ok());
        let cache_hit = query.cache_hit.unwrap_or_default();
        let cost_usd = match (reserved, billed) {
            (true, _) => None,
            (false, Some(billed)) => Some(estimate::usd(billed, price_per_tib_usd)),
            (false, None) => cache_hit.then_some(0.0),
        };
        let mut warnings = Vec::new();
        if statistics.row_level_security_statistics.is_some_and(|rows| rows.row_level_security_applied) {
            warnings
                .push("Row access policies may hide rows from this account; no rows does not mean no data.".to_owned());
        }
        if statistics.data_masking_statistics.is_some_and(|masking| masking.data_masking_applied) {
            warnings.push("Some columns are masked for this account; their values are not the stored ones.".to_owned());
        }
        let source = source(job, &query, billed, cache_hit, &statistics.reservation_id, statistics.total_slot_ms);
        Self {
            cost_usd,
            source,
            bytes_processed: query.total_bytes_processed.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
            cache_hit,
            statement_type: query.statement_type,
            warnings,
        }
    }
}

fn source(
    job: &JobId,
    query: &JobStatistics2,
    billed: Option<u64>,
    cache_hit: bool,
    reservation: &str,
    slot_ms: Option<i64>,
) -> JsonObject {
    let mut source = JsonObject::new();
    source.insert("job_id".to_owned(), json!(job.id));
    source.insert("billing_project".to_owned(), json!(job.project));
    source.insert("location".to_owned(), json!(job.location));
    source.insert("total_bytes_billed".to_owned(), json!(billed));
    source.insert("total_bytes_processed".to_owned(), json!(query.total_bytes_processed));
    source.insert("cache_hit".to_owned(), json!(cache_hit));
    if let Some(slot_ms) = slot_ms {
        source.insert("slot_ms".to_owned(), json!(slot_ms));
    }
    if !reservation.is_empty() {
        source.insert("reservation".to_owned(), json!(reservation));
    }
    source
}

/// One line that says what was read and what it cost.
pub(crate) fn priced(bill: &Bill) -> String {
    let cost = match bill.cost_usd {
        Some(_) if bill.cache_hit => "free, from BigQuery's cache".to_owned(),
        Some(cost) => format!("${}", rounded(cost)),
        None if bill.is_reserved() => "paid by reservation".to_owned(),
        None => "at a cost that BigQuery does not tell".to_owned(),
    };
    format!("{} processed, {cost}", human_bytes(bill.bytes_processed))
}
