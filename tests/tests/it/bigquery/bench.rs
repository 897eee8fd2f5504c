//! The connector for BigQuery and a Google for it.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use google_sandbox::LedgerJob;
use serde_json::{Value, json};

pub(super) use crate::google::{Answer, Google};
use crate::google::{Connector, PATIENCE};
use crate::server::acp_client;

/// Tables of every kind, in the United States.
pub(super) const WAREHOUSE: &str = "acp-sandbox.warehouse";
/// The Analytics export, in the EU.
pub(super) const ANALYTICS: &str = "acp-sandbox.analytics_310000001";
/// A limit that no query of these tables comes near.
pub(super) const PLENTY: f64 = 1.0;

/// The connector, running; calls are about the warehouse unless they say otherwise.
pub(super) struct Bq(Connector);

impl Bq {
    pub(super) fn start(google: &Google) -> Self {
        Self::start_with(google, &json!({}), &[])
    }

    /// For a client that can do this beside handing over tables, and with these variables.
    pub(super) fn start_with(google: &Google, capabilities: &Value, variables: &[(&str, &str)]) -> Self {
        let mut acp = acp_client();
        acp["host_tables"] = json!(true);
        let mut capabilities = capabilities.clone();
        capabilities["experimental"] = json!({"acp": acp});
        Self(Connector::start_for(&capabilities, "bigquery", google, WAREHOUSE, variables, None))
    }

    /// A query with plenty of money.
    pub(super) fn query(&mut self, sql: &str) -> Answer {
        self.query_with(sql, &json!({"cost_limit_usd": PLENTY}))
    }

    /// A query with these settings.
    pub(super) fn query_with(&mut self, sql: &str, meta: &Value) -> Answer {
        self.call("execute_query", &json!({"query": sql}), meta)
    }

    /// As [`end_well`](Connector::end_well).
    pub(super) fn end_well(self) {
        self.0.end_well();
    }

    pub(super) fn into_inner(self) -> Connector {
        self.0
    }
}

impl Deref for Bq {
    type Target = Connector;

    fn deref(&self) -> &Connector {
        &self.0
    }
}

impl DerefMut for Bq {
    fn deref_mut(&mut self) -> &mut Connector {
        &mut self.0
    }
}

/// What only tests about BigQuery ask of a Google.
pub(super) trait BigQuery {
    fn switch(&self, switches: &Value);
    /// Jobs that ran, or run, without dry runs.
    fn jobs(&self) -> Vec<LedgerJob>;
    fn dry_runs(&self) -> Vec<LedgerJob>;
}

impl BigQuery for Google {
    fn switch(&self, switches: &Value) {
        self.sandbox().bigquery().set_json(switches).unwrap_or_else(|why| panic!("{switches}: {why}"));
    }

    fn jobs(&self) -> Vec<LedgerJob> {
        self.sandbox().bigquery().jobs().into_iter().filter(|job| !job.dry_run).collect()
    }

    fn dry_runs(&self) -> Vec<LedgerJob> {
        self.sandbox().bigquery().jobs().into_iter().filter(|job| job.dry_run).collect()
    }
}

/// Waits until something is so.
pub(super) fn until(what: &str, so: impl Fn() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}
