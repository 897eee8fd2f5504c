//! What a test can set: how jobs end, how long they run, how large pages are, who pays.

use std::sync::Mutex;

use serde_json::Value;

use super::failure::Failure;
use super::ledger::{JobLedger, LedgerJob};
use crate::lock;

/// Bytes of a page of rows; Google's answers hold about 10 MB.
const PAGE_BYTES: usize = 10 * 1024 * 1024;

/// When a failure comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// The insertion is refused.
    Insert,
    /// A job is made that ends so.
    Job,
    /// A job gives its first page, and ends so when the next one is asked for.
    Page,
}

/// A failure that waits for the next jobs.
#[derive(Clone, Debug)]
struct Refusal {
    failure: Failure,
    when: When,
    dry_run: bool,
    times: u64,
}

/// What a dry run and a job shall say instead of what the tables hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) bytes: Option<i64>,
    pub(crate) accuracy: Option<String>,
    pub(crate) processed: Option<i64>,
}

#[derive(Debug)]
struct State {
    pending_polls: u64,
    page_bytes: usize,
    forbid_jobs: bool,
    forbidden: u64,
    reservation: Option<String>,
    estimate: Estimate,
    refusal: Option<Refusal>,
    /// Insertions whose answer is lost, and how often their job isn't found afterwards.
    lost_inserts: u64,
    hidden_for: u64,
    unreachable: Vec<String>,
    errors_at_insert: bool,
    global_queries: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            pending_polls: 0,
            page_bytes: PAGE_BYTES,
            forbid_jobs: false,
            forbidden: 0,
            reservation: None,
            estimate: Estimate::default(),
            refusal: None,
            lost_inserts: 0,
            hidden_for: 0,
            unreachable: Vec::new(),
            errors_at_insert: false,
            global_queries: false,
        }
    }
}

/// The switches of BigQuery and its ledger; as JSON also through `POST /__sandbox/bigquery`, and taken back by `DELETE`.
#[derive(Debug, Default)]
pub struct Switches {
    state: Mutex<State>,
    pub(crate) ledger: JobLedger,
}

impl Switches {
    /// Sets one or more of:
    ///
    /// - `{"pending_polls": 3}`: each new job is not complete for so many looks at it (`jobs.get`, `jobs.getQueryResults`).
    /// - `{"page_bytes": 2000}`: pages of rows end at so many bytes; 10 MiB otherwise.
    /// - `{"forbid_jobs": true}`: every job that isn't a dry run is refused (403 `blocked`) and counted, see
    ///   [`Switches::forbidden`].
    /// - `{"reservation": "projects/…/reservations/r"}`: jobs run there, so their billed bytes are informational; null ends it.
    /// - `{"estimate": {"bytes": 0, "accuracy": "UNKNOWN", "processed": 5}}`: what dry runs say, and what jobs then read,
    ///   instead of what the tables hold; null ends it. Limits are checked against the larger of both, spread over the tables
    ///   that are named so that the most is billed.
    /// - `{"refuse": {"reason": "quotaExceeded", "message": null, "times": 1, "at": "insert", "dry_run": false}}`: the next
    ///   jobs fail: when they are inserted (`insert`), as jobs that end so (`job`), or when rows after the first page are asked
    ///   for (`page`); with `dry_run` dry runs too. An answer of another kind is a [`crate::Fault`] on the path.
    /// - `{"lost_inserts": {"times": 1, "hidden_for": 1}}`: the next insertions make a job and answer 503; then the same id is
    ///   409 `duplicate`, and the job isn't found for so many looks.
    /// - `{"unreachable": ["europe-west9"]}`: regions that `datasets.list` says it couldn't reach; their data sets are absent.
    /// - `{"global_queries": true}`: data of other locations are read too, as in projects that allow it; the job says where
    ///   they came from.
    /// - `{"errors_at_insert": true}`: SQL that is wrong is refused by `jobs.insert` itself; otherwise its job ends so.
    ///
    /// # Errors
    /// A text that says which part isn't understood.
    pub fn set_json(&self, value: &Value) -> Result<(), String> {
        let map = value.as_object().ok_or("the switches are a JSON object")?;
        let mut state = lock(&self.state);
        for (key, value) in map {
            let number = || value.as_u64().ok_or_else(|| format!("`{key}` must be a non-negative integer"));
            let flag = || value.as_bool().ok_or_else(|| format!("`{key}` must be true or false"));
            match key.as_str() {
                "pending_polls" => state.pending_polls = number()?,
                "page_bytes" => state.page_bytes = usize::try_from(number()?).unwrap_or(usize::MAX),
                "forbid_jobs" => state.forbid_jobs = flag()?,
                "global_queries" => state.global_queries = flag()?,
                "errors_at_insert" => state.errors_at_insert = flag()?,
                "reservation" if value.is_null() => state.reservation = None,
                "reservation" => {
                    state.reservation =
                        Some(value.as_str().ok_or("`reservation` must be a string or null")?.to_owned());
                }
                "estimate" => state.estimate = estimate(value)?,
                "refuse" => state.refusal = refusal(value)?,
                "lost_inserts" => {
                    known(value, &["times", "hidden_for"], key)?;
                    state.lost_inserts = value["times"].as_u64().unwrap_or(1);
                    state.hidden_for = value["hidden_for"].as_u64().unwrap_or(1);
                }
                "unreachable" => {
                    let regions = value.as_array().ok_or("`unreachable` must be a list of regions")?;
                    state.unreachable =
                        regions.iter().filter_map(|region| region.as_str().map(str::to_owned)).collect();
                }
                _ => {
                    return Err(format!(
                        "unknown switch `{key}`; known: pending_polls, page_bytes, forbid_jobs, reservation, estimate, \
                         refuse, lost_inserts, unreachable, global_queries, errors_at_insert"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Takes everything back. Jobs and ledger stay.
    pub fn clear(&self) {
        *lock(&self.state) = State::default();
    }

    /// Every job and dry run so far, oldest first.
    pub fn jobs(&self) -> Vec<LedgerJob> {
        self.ledger.jobs()
    }

    /// Forgets the jobs in the ledger (their results stay readable).
    pub fn clear_jobs(&self) {
        self.ledger.clear();
    }

    /// How many jobs were refused since they were forbidden.
    pub fn forbidden(&self) -> u64 {
        lock(&self.state).forbidden
    }

    pub(crate) fn pending_polls(&self) -> u64 {
        lock(&self.state).pending_polls
    }

    pub(crate) fn page_bytes(&self) -> usize {
        lock(&self.state).page_bytes
    }

    pub(crate) fn reservation(&self) -> Option<String> {
        lock(&self.state).reservation.clone()
    }

    pub(crate) fn estimate(&self) -> Estimate {
        lock(&self.state).estimate.clone()
    }

    pub(crate) fn unreachable(&self) -> Vec<String> {
        lock(&self.state).unreachable.clone()
    }

    pub(crate) fn global_queries(&self) -> bool {
        lock(&self.state).global_queries
    }

    pub(crate) fn errors_at_insert(&self) -> bool {
        lock(&self.state).errors_at_insert
    }

    /// Refuses a job while jobs are forbidden.
    pub(crate) fn check_forbidden(&self) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        if !state.forbid_jobs {
            return Ok(());
        }
        state.forbidden += 1;
        Err(Failure::blocked("sandbox: jobs are forbidden by a switch."))
    }

    /// The failure that waits for this job, and when it comes.
    pub(crate) fn take_refusal(&self, dry_run: bool) -> Option<(Failure, When)> {
        let mut state = lock(&self.state);
        let refusal = state.refusal.as_mut().filter(|refusal| refusal.times > 0 && (refusal.dry_run || !dry_run))?;
        refusal.times -= 1;
        Some((refusal.failure.clone(), if dry_run { When::Insert } else { refusal.when }))
    }

    /// Whether the answer of this insertion is lost, and for how many looks its job then isn't found.
    pub(crate) fn take_lost_insert(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        state.lost_inserts = state.lost_inserts.checked_sub(1)?;
        Some(state.hidden_for)
    }
}

fn known(value: &Value, keys: &[&str], what: &str) -> Result<(), String> {
    let map = value.as_object().ok_or_else(|| format!("`{what}` must be an object"))?;
    match map.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key `{key}` in {what}; known: {}", keys.join(", "))),
        None => Ok(()),
    }
}

fn estimate(value: &Value) -> Result<Estimate, String> {
    if value.is_null() {
        return Ok(Estimate::default());
    }
    known(value, &["bytes", "accuracy", "processed"], "estimate")?;
    let accuracy = value["accuracy"].as_str().map(str::to_owned);
    if let Some(text) = &accuracy
        && !["UNKNOWN", "PRECISE", "LOWER_BOUND", "UPPER_BOUND", ""].contains(&text.as_str())
    {
        return Err("`estimate.accuracy` is UNKNOWN, PRECISE, LOWER_BOUND, UPPER_BOUND or empty (absent)".to_owned());
    }
    Ok(Estimate { bytes: value["bytes"].as_i64(), accuracy, processed: value["processed"].as_i64() })
}

fn refusal(value: &Value) -> Result<Option<Refusal>, String> {
    if value.is_null() {
        return Ok(None);
    }
    known(value, &["reason", "message", "times", "at", "dry_run"], "refuse")?;
    let reason = value["reason"].as_str().ok_or("`refuse.reason` (a string) is required")?;
    let failure = Failure::known(reason, value["message"].as_str())
        .ok_or_else(|| format!("unknown reason `{reason}`; known: {}", Failure::known_reasons()))?;
    let when = match value["at"].as_str().unwrap_or("insert") {
        "insert" => When::Insert,
        "job" => When::Job,
        "page" => When::Page,
        _ => return Err("`refuse.at` is insert, job or page".to_owned()),
    };
    Ok(Some(Refusal {
        failure,
        when,
        dry_run: value["dry_run"].as_bool().unwrap_or(false),
        times: value["times"].as_u64().unwrap_or(1),
    }))
}
