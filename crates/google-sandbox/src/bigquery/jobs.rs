//! Jobs: inserted, polled, read, cancelled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::analysis::Analysis;
use super::failure::Failure;
use super::ledger::LedgerJob;
use super::load::Loaded;
use super::request::{self, JobAsked, QueryAsked};
use super::sql::Rows;
use super::switches::When;
use super::{Asked, cells, paging};
use crate::answer::Answer;
use crate::clock::now_micros;
use crate::events::mix;
use crate::lock;

/// How long an unfinished job keeps a request waiting at most, whatever the request allows.
const WAIT: Duration = Duration::from_millis(100);

/// How long the result of a query may stand in for another one.
const CACHE_MS: i64 = 24 * 3_600 * 1_000;

/// A job.
#[derive(Clone)]
pub(crate) struct Job {
    project: String,
    id: String,
    location: String,
    email: String,
    configuration: Json,
    created: i64,
    ended: i64,
    timeout_ms: Option<i64>,
    /// Looks until it is complete.
    pending: u64,
    /// Looks until it is found.
    hidden: u64,
    failure: Option<Failure>,
    /// What happens when rows after the first page are asked for.
    fails_later: Option<Failure>,
    done: Done,
    reservation: Option<String>,
}

/// What a job has done, if it didn't fail.
#[derive(Clone)]
enum Done {
    Query(Arc<Finished>),
    Load(Arc<Loaded>),
    /// It failed before anything was known.
    Nothing,
}

/// The result of a query.
struct Finished {
    analysis: Analysis,
    rows: Arc<Rows>,
    cache_hit: bool,
}

/// A result that may be read again.
#[derive(Clone)]
struct Cached {
    finished: Arc<Finished>,
    at: i64,
}

/// All jobs, and the results that may stand in for others.
#[derive(Default)]
pub(crate) struct Jobs {
    jobs: Mutex<BTreeMap<(String, String), Job>>,
    cache: Mutex<BTreeMap<String, Cached>>,
    made: Mutex<u64>,
}

impl Jobs {
    fn add(&self, job: Job) {
        lock(&self.jobs).insert((job.project.clone(), job.id.clone()), job);
    }

    fn exists(&self, project: &str, id: &str) -> bool {
        lock(&self.jobs).contains_key(&(project.to_owned(), id.to_owned()))
    }

    /// Forgets results: a table has changed.
    pub(crate) fn forget_results(&self) {
        lock(&self.cache).clear();
    }

    /// An id that no job has.
    fn new_id(&self, seed: u64) -> String {
        let mut made = lock(&self.made);
        *made += 1;
        let (high, low) = (mix(seed ^ 0x70B5, *made), mix(*made, now_micros().unsigned_abs()));
        format!("job_{high:016x}{low:016x}")
    }
}

fn now_ms() -> i64 {
    now_micros() / 1_000
}

/// `POST /projects/{project}/jobs`.
pub(crate) fn insert(asked: &Asked<'_>, project: &str) -> Result<Answer, Failure> {
    let body = request::body(&asked.request.body)?;
    let job = JobAsked::of_job(&body, project)?;
    if !job.configuration["load"].is_null() {
        return Err(Failure::unsupported("load jobs from URIs; send the rows to /upload/bigquery/v2"));
    }
    if job.configuration["query"].is_null() {
        return Err(Failure::unsupported("jobs other than queries and load jobs"));
    }
    let query = QueryAsked::of_job(&job.configuration)?;
    match start(asked, project, &job, &query)? {
        Started::DryRun(analysis) => Ok(Answer::json(200, &dry_run(asked, project, &job, &analysis))),
        Started::Job(made) => {
            if let Some(hidden) = asked.bigquery.switches.take_lost_insert() {
                asked.bigquery.jobs.add(Job { hidden, ..*made });
                return Err(Failure::lost());
            }
            // A job is never complete when it has just been made.
            let resource = made.resource(asked, "RUNNING");
            asked.bigquery.jobs.add(*made);
            Ok(Answer::json(200, &resource))
        }
    }
}

/// What came of a query.
enum Started {
    DryRun(Box<Analysis>),
    Job(Box<Job>),
}

/// Checks and runs a query. Nothing of it can be seen before the job is added.
fn start(asked: &Asked<'_>, project: &str, job: &JobAsked, query: &QueryAsked) -> Result<Started, Failure> {
    asked.may_run_jobs(project)?;
    let switches = &asked.bigquery.switches;
    if !job.dry_run {
        switches.check_forbidden()?;
    }
    let refusal = switches.take_refusal(job.dry_run);
    if let Some((failure, When::Insert)) = &refusal {
        return Err(failure.clone());
    }
    if let Some(id) = job.job_id.as_deref().filter(|id| asked.bigquery.jobs.exists(project, id)) {
        return Err(Failure::duplicate(format!("Job {project}:{id}")));
    }
    let analysis = {
        let loaded = lock(&asked.bigquery.loaded);
        let catalogue = asked.catalogue();
        let location = job.location.as_deref();
        Analysis::new(&catalogue, &loaded, asked.identity, project, location, query, switches)
    };
    if job.dry_run {
        let mut analysis = analysis?;
        if query.use_cache && asked.cached(&cache_key(asked, project, query)).is_some() {
            analysis.use_cached();
        }
        asked.bigquery.switches.ledger.push(LedgerJob {
            dry_run: true,
            outcome: "DONE".to_owned(),
            ..entry(asked, project, job, query, Some(&analysis))
        });
        return Ok(Started::DryRun(Box::new(analysis)));
    }
    let analysis = match analysis {
        Err(failure) if switches.errors_at_insert() => return Err(failure),
        other => other,
    };
    let mut made = Job {
        project: project.to_owned(),
        id: job.job_id.clone().unwrap_or_else(|| asked.bigquery.jobs.new_id(asked.shared.world.seed)),
        location: job.location.clone().unwrap_or_else(|| super::catalogue::DEFAULT_LOCATION.to_owned()),
        email: asked.identity.email.clone(),
        configuration: job.configuration.clone(),
        created: now_ms(),
        ended: now_ms(),
        timeout_ms: job.timeout_ms,
        pending: switches.pending_polls(),
        hidden: 0,
        failure: None,
        fails_later: None,
        done: Done::Nothing,
        reservation: switches.reservation(),
    };
    match refusal {
        Some((failure, When::Page)) => made.fails_later = Some(failure),
        Some((failure, _)) => made.failure = Some(failure),
        None => {}
    }
    let mut entry = entry(asked, project, job, query, analysis.as_ref().ok());
    match analysis.and_then(|analysis| asked.finish(project, query, analysis, &mut made)) {
        Ok(finished) => {
            // What ran is paid for, also by a job that is cancelled before anyone has seen its rows.
            let failed = made.failure.as_ref().is_some_and(|failure| failure.reason() != "stopped");
            let free = finished.cache_hit || made.reservation.is_some() || failed;
            entry.bytes_processed = if finished.cache_hit { 0 } else { finished.analysis.processed };
            entry.bytes_billed = if free { 0 } else { finished.analysis.billed };
            entry.cache_hit = finished.cache_hit;
            made.done = Done::Query(finished);
        }
        Err(failure) => {
            entry.bytes_processed = 0;
            made.failure.get_or_insert(failure);
        }
    }
    made.ended = now_ms();
    entry.job_id.clone_from(&made.id);
    entry.location.clone_from(&made.location);
    entry.outcome = match &made.failure {
        _ if made.pending > 0 => "RUNNING".to_owned(),
        Some(failure) => failure.reason().to_owned(),
        None => "DONE".to_owned(),
    };
    asked.bigquery.switches.ledger.push(entry);
    Ok(Started::Job(Box::new(made)))
}

fn cache_key(asked: &Asked<'_>, project: &str, query: &QueryAsked) -> String {
    format!("{project}\n{}\n{:?}\n{:?}\n{}", asked.identity.email, query.default_dataset, query.parameters, query.sql)
}

fn entry(
    asked: &Asked<'_>,
    project: &str,
    job: &JobAsked,
    query: &QueryAsked,
    analysis: Option<&Analysis>,
) -> LedgerJob {
    LedgerJob {
        project: project.to_owned(),
        job_id: String::new(),
        location: analysis.map(|analysis| analysis.location.clone()).unwrap_or_default(),
        email: asked.identity.email.clone(),
        dry_run: false,
        kind: "QUERY".to_owned(),
        statement_type: analysis.map_or("", |analysis| analysis.prepared.statement_type).to_owned(),
        query: query.sql.clone(),
        bytes_processed: analysis.map_or(0, |analysis| analysis.estimate),
        bytes_billed: 0,
        maximum_bytes_billed: query.maximum_bytes_billed,
        cache_hit: false,
        labels: job.labels.clone(),
        outcome: String::new(),
    }
}

impl Asked<'_> {
    /// An earlier result of the same text for the same person.
    fn cached(&self, key: &str) -> Option<Arc<Finished>> {
        let cached = lock(&self.bigquery.jobs.cache).get(key).cloned()?;
        (now_ms() - cached.at < CACHE_MS).then_some(cached.finished)
    }

    /// Runs an analysed query, unless it would cost more than it may or an earlier result stands in for it.
    fn finish(
        &self,
        project: &str,
        query: &QueryAsked,
        analysis: Analysis,
        job: &mut Job,
    ) -> Result<Arc<Finished>, Failure> {
        job.location.clone_from(&analysis.location);
        let key = cache_key(self, project, query);
        if let Some(earlier) = self.cached(&key).filter(|_| query.use_cache && analysis.cacheable) {
            let mut analysis = analysis;
            analysis.use_cached();
            return Ok(Arc::new(Finished { analysis, rows: Arc::clone(&earlier.rows), cache_hit: true }));
        }
        if let Some(limit) = query.maximum_bytes_billed {
            let needed = analysis.billed.max(analysis.billed_estimate);
            if needed > limit {
                return Err(Failure::bytes_billed_limit(limit, needed));
            }
        }
        let rows = Arc::new(analysis.prepared.run()?);
        let cacheable = analysis.cacheable;
        let finished = Arc::new(Finished { analysis, rows, cache_hit: false });
        if cacheable && job.failure.is_none() {
            let cached = Cached { finished: Arc::clone(&finished), at: now_ms() };
            lock(&self.bigquery.jobs.cache).insert(key, cached);
        }
        Ok(finished)
    }

    /// Looks at a job: finds it, and counts the look against what keeps it from being found or complete.
    fn look(&self, project: &str, id: &str, location: Option<&str>) -> Result<Job, Failure> {
        let missing = || match location {
            Some(location) => Failure::not_found(format!("Job {project}:{location}.{id}")),
            None => Failure::not_found(format!("Job {project}:{id}")),
        };
        let mut jobs = lock(&self.bigquery.jobs.jobs);
        let job = jobs.get_mut(&(project.to_owned(), id.to_owned())).ok_or_else(missing)?;
        // Only the two multi-regions are searched when no location is given.
        let here = match location {
            Some(location) => location == job.location,
            None => matches!(job.location.as_str(), "US" | "EU"),
        };
        if !here || job.email != self.identity.email {
            return Err(missing());
        }
        if job.hidden > 0 {
            job.hidden -= 1;
            return Err(missing());
        }
        if job.pending > 0 && job.timeout_ms.is_some_and(|ms| now_ms() - job.created > ms) {
            job.stop(self, Failure::timed_out(job.timeout_ms.unwrap_or(0)));
        }
        let seen = job.clone();
        if job.pending > 0 {
            job.pending -= 1;
            if job.pending == 0 {
                job.ended = now_ms();
                let outcome = job.failure.as_ref().map_or("DONE", Failure::reason);
                self.bigquery.switches.ledger.change(project, id, |entry| entry.outcome = outcome.to_owned());
            }
        }
        Ok(seen)
    }

    /// Ends a job that was to fail once rows after its first page are asked for.
    fn fail_later(&self, seen: &Job, start: u64) -> Option<Failure> {
        let failure = seen.fails_later.clone().filter(|_| start > 0)?;
        let mut jobs = lock(&self.bigquery.jobs.jobs);
        let job = jobs.get_mut(&(seen.project.clone(), seen.id.clone()))?;
        job.stop(self, failure.clone());
        Some(failure)
    }

    /// The location that a request names.
    fn location(&self) -> Option<String> {
        request::location(&Json::from(self.request.parameter("location").unwrap_or_default()))
    }
}

impl Analysis {
    /// The result is there already: nothing is read.
    fn use_cached(&mut self) {
        (self.estimate, self.processed, self.billed, self.billed_estimate) = (0, 0, 0, 0);
        self.cacheable = true;
        self.cached = true;
    }
}

impl Job {
    /// A job that has loaded rows, or failed to.
    pub(crate) fn load(asked: &Asked<'_>, project: &str, job: &JobAsked, location: &str, id: String) -> Self {
        Self {
            project: project.to_owned(),
            id,
            location: location.to_owned(),
            email: asked.identity.email.clone(),
            configuration: job.configuration.clone(),
            created: now_ms(),
            ended: now_ms(),
            timeout_ms: job.timeout_ms,
            pending: asked.bigquery.switches.pending_polls(),
            hidden: 0,
            failure: None,
            fails_later: None,
            done: Done::Nothing,
            reservation: None,
        }
    }

    /// Ends before it was complete. What it has read by then stays billed.
    fn stop(&mut self, asked: &Asked<'_>, failure: Failure) {
        self.pending = 0;
        self.ended = now_ms();
        let reason = failure.reason();
        self.failure = Some(failure);
        asked.bigquery.switches.ledger.change(&self.project, &self.id, |entry| entry.outcome = reason.to_owned());
    }

    fn reference(&self) -> Json {
        json!({"projectId": self.project, "jobId": self.id, "location": self.location})
    }

    fn state(&self) -> &'static str {
        if self.pending > 0 { "RUNNING" } else { "DONE" }
    }

    /// The resource `Job`, as if in that state.
    fn resource(&self, asked: &Asked<'_>, state: &str) -> Json {
        let done = state == "DONE";
        let mut statistics = json!({
            "creationTime": self.created.to_string(),
            "startTime": self.created.to_string(),
        });
        let mut configuration = self.configuration.clone();
        let kind =
            if matches!(self.done, Done::Load(_)) || !configuration["load"].is_null() { "LOAD" } else { "QUERY" };
        configuration["jobType"] = json!(kind);
        if kind == "QUERY" {
            let (high, low) = (mix(1, self.created.unsigned_abs()), mix(2, self.id.len() as u64));
            configuration["query"]["destinationTable"] = json!({
                "projectId": self.project,
                "datasetId": format!("_{high:016x}"),
                "tableId": format!("anon{high:016x}{low:016x}"),
            });
            if configuration["query"]["priority"].is_null() {
                configuration["query"]["priority"] = json!("INTERACTIVE");
            }
            configuration["query"]["writeDisposition"] = json!("WRITE_TRUNCATE");
        }
        let mut status = json!({"state": state});
        if done {
            statistics["endTime"] = json!(self.ended.to_string());
            match (&self.failure, &self.done) {
                (Some(failure), _) => {
                    status["errorResult"] = failure.proto();
                    status["errors"] = json!([failure.proto()]);
                    if kind == "QUERY" && !matches!(self.done, Done::Nothing) && failure.reason() == "stopped" {
                        self.query_statistics(&mut statistics);
                    }
                }
                (None, Done::Query(_)) => self.query_statistics(&mut statistics),
                (None, _) => {}
            }
            if let Done::Load(loaded) = &self.done {
                statistics["load"] = loaded.statistics();
                if !loaded.errors.is_empty() {
                    status["errors"] = loaded.errors.iter().map(Failure::proto).collect();
                }
            }
        } else if let Done::Query(finished) = &self.done {
            statistics["query"] = json!({"statementType": finished.analysis.prepared.statement_type});
        }
        if let Some(reservation) = &self.reservation {
            statistics["reservation_id"] = json!(reservation);
            statistics["edition"] = json!("ENTERPRISE");
        }
        json!({
            "kind": "bigquery#job",
            "etag": "sandbox",
            "id": format!("{}:{}.{}", self.project, self.location, self.id),
            "selfLink": format!(
                "{}/bigquery/v2/projects/{}/jobs/{}?location={}",
                asked.shared.url, self.project, self.id, self.location
            ),
            "user_email": self.email,
            "configuration": configuration,
            "jobReference": self.reference(),
            "statistics": statistics,
            "status": status,
            "principal_subject": format!("serviceAccount:{}", self.email),
        })
    }

    fn query_statistics(&self, statistics: &mut Json) {
        let Done::Query(finished) = &self.done else {
            return;
        };
        let analysis = &finished.analysis;
        let slots = (analysis.processed / 100_000 + 7).to_string();
        let mut query = json!({
            "statementType": analysis.prepared.statement_type,
            "billingTier": 1,
            "cacheHit": finished.cache_hit,
            "totalSlotMs": slots,
        });
        statistics["totalSlotMs"] = json!(slots);
        if analysis.hides_bytes {
            statistics["rowLevelSecurityStatistics"] = json!({"rowLevelSecurityApplied": true});
        } else {
            let processed = analysis.processed.to_string();
            statistics["totalBytesProcessed"] = json!(processed);
            query["totalBytesProcessed"] = json!(processed);
            query["totalBytesBilled"] = json!(analysis.billed.to_string());
        }
        analysis.references(&mut query);
        if !analysis.remote.is_empty() {
            statistics["globalQueryRemoteRegions"] = json!(analysis.remote);
        }
        statistics["query"] = query;
    }

    fn entry_in_list(&self, asked: &Asked<'_>) -> Json {
        let mut entry = self.resource(asked, self.state());
        if let Some(map) = entry.as_object_mut() {
            map.remove("etag");
            map.remove("selfLink");
        }
        entry["state"] = entry["status"]["state"].clone();
        if let Some(error) = entry["status"].get("errorResult") {
            entry["errorResult"] = error.clone();
        }
        entry
    }
}

/// What a dry run answers: a job without an id, complete and without rows.
fn dry_run(asked: &Asked<'_>, project: &str, job: &JobAsked, analysis: &Analysis) -> Json {
    let mut query = json!({
        "statementType": analysis.prepared.statement_type,
        "totalBytesBilled": "0",
        "cacheHit": analysis.cached,
    });
    let mut statistics = json!({"creationTime": now_ms().to_string()});
    if analysis.hides_bytes {
        statistics["rowLevelSecurityStatistics"] = json!({"rowLevelSecurityApplied": true});
    } else {
        let bytes = analysis.estimate.to_string();
        statistics["totalBytesProcessed"] = json!(bytes);
        query["totalBytesProcessed"] = json!(bytes);
        if !analysis.accuracy.is_empty() {
            query["totalBytesProcessedAccuracy"] = json!(analysis.accuracy);
        }
    }
    if analysis.prepared.statement_type == "SELECT" {
        query["schema"] = analysis.schema();
    }
    if !analysis.prepared.undeclared.is_empty() {
        query["undeclaredQueryParameters"] = analysis.undeclared();
    }
    analysis.references(&mut query);
    if !analysis.remote.is_empty() {
        statistics["globalQueryRemoteRegions"] = json!(analysis.remote);
    }
    statistics["query"] = query;
    let mut configuration = job.configuration.clone();
    configuration["jobType"] = json!("QUERY");
    json!({
        "kind": "bigquery#job",
        "etag": "sandbox",
        "id": format!("{project}:{}.", analysis.location),
        "user_email": asked.identity.email,
        "configuration": configuration,
        "jobReference": {"projectId": project, "location": analysis.location},
        "statistics": statistics,
        "status": {"state": "DONE"},
    })
}

/// `POST /projects/{project}/queries`.
pub(crate) fn query(asked: &Asked<'_>, project: &str) -> Result<Answer, Failure> {
    let body = request::body(&asked.request.body)?;
    let (job, query) = JobAsked::of_query(&body)?;
    let max = request::integer(&body["maxResults"], "maxResults")?.and_then(|n| u64::try_from(n).ok());
    let format = paging::format_of(&body["formatOptions"])?;
    match start(asked, project, &job, &query)? {
        Started::DryRun(analysis) => {
            let mut answer = json!({
                "kind": "bigquery#queryResponse",
                "jobReference": {"projectId": project, "location": analysis.location},
                "jobComplete": true,
                "cacheHit": analysis.cached,
                "statementType": analysis.prepared.statement_type,
            });
            if analysis.prepared.statement_type == "SELECT" {
                answer["schema"] = analysis.schema();
            }
            if !analysis.hides_bytes {
                answer["totalBytesProcessed"] = json!(analysis.estimate.to_string());
            }
            Ok(Answer::json(200, &answer))
        }
        Started::Job(made) => {
            asked.bigquery.jobs.add((*made).clone());
            let seen = asked.look(project, &made.id, Some(&made.location))?;
            if seen.pending > 0 {
                wait(request::integer(&body["timeoutMs"], "timeoutMs")?);
                return Ok(not_complete("bigquery#queryResponse", &seen));
            }
            if let Some(failure) = &seen.failure {
                return Err(failure.clone());
            }
            let Done::Query(finished) = &seen.done else {
                return Err(Failure::invalid("The job has no result."));
            };
            let mut head = head(&seen, finished, "bigquery#queryResponse");
            head["creationTime"] = json!(seen.created.to_string());
            head["startTime"] = json!(seen.created.to_string());
            head["endTime"] = json!(seen.ended.to_string());
            head["location"] = json!(seen.location);
            head["statementType"] = json!(finished.analysis.prepared.statement_type);
            if !finished.analysis.hides_bytes {
                head["totalBytesBilled"] = json!(finished.analysis.billed.to_string());
            }
            let page = rows(asked, &seen, finished, 0, max, format);
            let optional = body["jobCreationMode"] == "JOB_CREATION_OPTIONAL" || body["jobCreationMode"] == 2;
            if optional && page.token.is_none() {
                // A short query needs no job; then there is nothing to cancel or to look at.
                head["queryId"] = json!(seen.id);
                if let Some(head) = head.as_object_mut() {
                    head.remove("jobReference");
                }
            }
            Ok(page.answer(head))
        }
    }
}

fn wait(timeout_ms: Option<i64>) {
    let allowed = timeout_ms.and_then(|ms| u64::try_from(ms).ok()).map_or(WAIT, Duration::from_millis);
    std::thread::sleep(allowed.min(WAIT));
}

fn not_complete(kind: &str, job: &Job) -> Answer {
    Answer::json(200, &json!({"kind": kind, "jobReference": job.reference(), "jobComplete": false}))
}

fn head(job: &Job, finished: &Finished, kind: &str) -> Json {
    let mut head = json!({
        "kind": kind,
        "schema": finished.analysis.schema(),
        "jobReference": job.reference(),
        "totalRows": finished.rows.len().to_string(),
        "jobComplete": true,
        "cacheHit": finished.cache_hit,
    });
    if !finished.analysis.hides_bytes {
        head["totalBytesProcessed"] = json!(finished.analysis.processed.to_string());
    }
    head
}

fn rows(
    asked: &Asked<'_>,
    job: &Job,
    finished: &Finished,
    start: u64,
    max: Option<u64>,
    format: cells::TimestampFormat,
) -> paging::Page {
    let count = max.unwrap_or(u64::MAX);
    let (text, written) = match count {
        0 => (String::new(), 0),
        _ => cells::page(finished.rows.from(start), count, asked.bigquery.switches.page_bytes(), format),
    };
    let next = start.saturating_add(written);
    let token = (next < finished.rows.len()).then(|| paging::token(&job.id, next));
    paging::Page { rows: (written > 0).then_some(text), token }
}

/// `GET /projects/{project}/queries/{job}`.
pub(crate) fn results(asked: &Asked<'_>, project: &str, id: &str) -> Result<Answer, Failure> {
    let location = asked.location();
    let format = paging::format_of_parameters(asked.request)?;
    let start = paging::start(asked.request, id)?;
    let max = paging::number(asked.request, "maxResults")?;
    let timeout = paging::number(asked.request, "timeoutMs")?.and_then(|ms| i64::try_from(ms).ok());
    let seen = asked.look(project, id, location.as_deref())?;
    if seen.pending > 0 {
        wait(timeout);
        return Ok(not_complete("bigquery#getQueryResultsResponse", &seen));
    }
    if let Some(failure) = seen.failure.clone().or_else(|| asked.fail_later(&seen, start)) {
        return Err(failure);
    }
    let kind = "bigquery#getQueryResultsResponse";
    match &seen.done {
        Done::Query(finished) => {
            let mut head = head(&seen, finished, kind);
            head["etag"] = json!("sandbox");
            Ok(rows(asked, &seen, finished, start, max, format).answer(head))
        }
        Done::Load(_) | Done::Nothing => Ok(Answer::json(
            200,
            &json!({"kind": kind, "jobReference": seen.reference(), "jobComplete": true, "totalRows": "0"}),
        )),
    }
}

/// `GET /projects/{project}/jobs/{job}`.
pub(crate) fn get(asked: &Asked<'_>, project: &str, id: &str) -> Result<Answer, Failure> {
    let seen = asked.look(project, id, asked.location().as_deref())?;
    Ok(Answer::json(200, &seen.resource(asked, seen.state())))
}

/// `POST /projects/{project}/jobs/{job}/cancel`: a job that is complete stays as it is.
pub(crate) fn cancel(asked: &Asked<'_>, project: &str, id: &str) -> Result<Answer, Failure> {
    let seen = asked.look(project, id, asked.location().as_deref())?;
    let resource = if seen.pending > 0 {
        let mut jobs = lock(&asked.bigquery.jobs.jobs);
        let job = jobs.get_mut(&(project.to_owned(), id.to_owned()));
        job.map(|job| {
            job.stop(asked, Failure::stopped());
            job.resource(asked, "DONE")
        })
    } else {
        None
    };
    let resource = resource.unwrap_or_else(|| seen.resource(asked, "DONE"));
    Ok(Answer::json(200, &json!({"kind": "bigquery#jobCancelResponse", "job": resource})))
}

/// `GET /projects/{project}/jobs`: one's own, the latest first.
pub(crate) fn list(asked: &Asked<'_>, project: &str) -> Result<Answer, Failure> {
    let state = asked.request.parameter("stateFilter").map(|state| state.to_ascii_uppercase());
    let mut jobs: Vec<Job> = lock(&asked.bigquery.jobs.jobs)
        .values()
        .filter(|job| job.project == project && job.email == asked.identity.email && job.hidden == 0)
        .filter(|job| state.as_deref().is_none_or(|state| state == job.state()))
        .cloned()
        .collect();
    jobs.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
    paging::list(asked.request, "bigquery#jobList", "jobs", &jobs, |job| job.entry_in_list(asked))
}

/// Adds a load job that has ended; its entry in the ledger too.
pub(crate) fn add_load(
    asked: &Asked<'_>,
    mut job: Job,
    asked_for: &JobAsked,
    loaded: Result<Loaded, Failure>,
) -> Result<Answer, Failure> {
    let outcome = match &loaded {
        Ok(loaded) if loaded.failure.is_none() => "DONE",
        Ok(loaded) => loaded.failure.as_ref().map_or("DONE", Failure::reason),
        Err(failure) => failure.reason(),
    };
    asked.bigquery.switches.ledger.push(LedgerJob {
        project: job.project.clone(),
        job_id: job.id.clone(),
        location: job.location.clone(),
        email: job.email.clone(),
        dry_run: false,
        kind: "LOAD".to_owned(),
        statement_type: String::new(),
        query: String::new(),
        bytes_processed: 0,
        bytes_billed: 0,
        maximum_bytes_billed: None,
        cache_hit: false,
        labels: asked_for.labels.clone(),
        outcome: if job.pending > 0 { "RUNNING" } else { outcome }.to_owned(),
    });
    match loaded {
        Ok(loaded) => {
            job.failure.clone_from(&loaded.failure);
            job.done = Done::Load(Arc::new(loaded));
        }
        Err(failure) => job.failure = Some(failure),
    }
    job.ended = now_ms();
    let hidden = asked.bigquery.switches.take_lost_insert();
    let resource = job.resource(asked, "RUNNING");
    asked.bigquery.jobs.add(Job { hidden: hidden.unwrap_or(0), ..job });
    match hidden {
        Some(_) => Err(Failure::lost()),
        None => Ok(Answer::json(200, &resource)),
    }
}

/// Refuses an id that a job has already.
pub(crate) fn check_new(asked: &Asked<'_>, project: &str, job: &JobAsked) -> Result<String, Failure> {
    match &job.job_id {
        Some(id) if asked.bigquery.jobs.exists(project, id) => Err(Failure::duplicate(format!("Job {project}:{id}"))),
        Some(id) => Ok(id.clone()),
        None => Ok(asked.bigquery.jobs.new_id(asked.shared.world.seed)),
    }
}
