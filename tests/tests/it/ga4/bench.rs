//! The connector for Analytics, and a Google for it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::google::Connector;
pub(super) use crate::google::{Answer, Ended, Google, PATIENCE, day_of};

/// The connector, running; calls are about the main property unless they say otherwise.
pub(super) struct Ga4(Connector);

impl Ga4 {
    pub(super) fn start(google: &Google) -> Self {
        Self::start_with(google, &[], None)
    }

    pub(super) fn start_with(google: &Google, variables: &[(&str, &str)], root: Option<Arc<TempDir>>) -> Self {
        Self(Connector::start("ga4", google, google.id("main"), variables, root))
    }

    /// `run_report` with the full credential.
    pub(super) fn report(&mut self, arguments: &Value) -> Answer {
        self.call("run_report", arguments, &json!({}))
    }

    /// `run_report` by somebody.
    pub(super) fn report_as(&mut self, credentials: &Value, arguments: &Value) -> Answer {
        self.call("run_report", arguments, &json!({"credentials": credentials}))
    }

    /// Closes its input and waits for the end.
    pub(super) fn end(self) -> Ended {
        self.0.end()
    }

    /// As [`end`](Self::end), which must go well.
    pub(super) fn end_well(self) -> Ended {
        self.0.end_well()
    }
}

impl Deref for Ga4 {
    type Target = Connector;

    fn deref(&self) -> &Connector {
        &self.0
    }
}

impl DerefMut for Ga4 {
    fn deref_mut(&mut self) -> &mut Connector {
        &mut self.0
    }
}
