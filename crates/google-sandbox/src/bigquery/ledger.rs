//! The ledger: every job and every dry run, and what it billed.

use std::sync::Mutex;

use serde_json::{Map, Value, json};

use crate::lock;

/// A job or a dry run, as it ended or as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerJob {
    /// The billing project.
    pub project: String,
    /// Empty for dry runs, which have no job.
    pub job_id: String,
    /// Where it ran.
    pub location: String,
    /// Who asked.
    pub email: String,
    /// Whether nothing ran.
    pub dry_run: bool,
    /// `QUERY` or `LOAD`.
    pub kind: String,
    /// `SELECT`, `DELETE`, …; empty when the text isn't SQL.
    pub statement_type: String,
    /// The text of a query.
    pub query: String,
    /// What the tables hold in the columns that are read.
    pub bytes_processed: i64,
    /// What is paid for: per table whole MiB, at least 10; 0 for failed jobs, cached results and under a reservation.
    pub bytes_billed: i64,
    /// The request's limit.
    pub maximum_bytes_billed: Option<i64>,
    /// Whether an earlier result was read again.
    pub cache_hit: bool,
    /// The request's labels.
    pub labels: Map<String, Value>,
    /// `RUNNING`, `DONE`, or the reason of the failure.
    pub outcome: String,
}

/// All jobs and dry runs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct JobLedger {
    jobs: Mutex<Vec<LedgerJob>>,
}

impl JobLedger {
    pub(crate) fn push(&self, job: LedgerJob) {
        lock(&self.jobs).push(job);
    }

    /// Changes the last entry of that job.
    pub(crate) fn change(&self, project: &str, job_id: &str, change: impl FnOnce(&mut LedgerJob)) {
        let mut jobs = lock(&self.jobs);
        if let Some(job) = jobs.iter_mut().rev().find(|job| job.project == project && job.job_id == job_id) {
            change(job);
        }
    }

    pub(crate) fn jobs(&self) -> Vec<LedgerJob> {
        lock(&self.jobs).clone()
    }

    pub(crate) fn clear(&self) {
        lock(&self.jobs).clear();
    }

    /// As `GET /__sandbox/ledger` shows it.
    pub(crate) fn to_json(&self) -> Value {
        let entry = |job: &LedgerJob| {
            json!({
                "project": job.project,
                "job_id": job.job_id,
                "location": job.location,
                "email": job.email,
                "dry_run": job.dry_run,
                "kind": job.kind,
                "statement_type": job.statement_type,
                "query": job.query,
                "bytes_processed": job.bytes_processed,
                "bytes_billed": job.bytes_billed,
                "maximum_bytes_billed": job.maximum_bytes_billed,
                "cache_hit": job.cache_hit,
                "labels": job.labels,
                "outcome": job.outcome,
            })
        };
        lock(&self.jobs).iter().map(entry).collect()
    }

    pub(crate) fn bytes_billed(&self) -> i64 {
        lock(&self.jobs).iter().map(|job| job.bytes_billed).sum()
    }
}
