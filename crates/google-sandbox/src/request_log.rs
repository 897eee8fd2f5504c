//! What was asked of the sandbox: a bounded list, and how many requests ran at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::lock;

/// The log keeps this many requests and drops the oldest beyond it.
const CAPACITY: usize = 10_000;

/// One request the sandbox has answered (or refused to).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Status of the answer; 0 for a connection that was reset.
    pub status: u16,
    /// Milliseconds until the answer's head was ready.
    pub ms: u64,
}

/// The requests since the start or the last clearing.
#[derive(Default)]
pub(crate) struct RequestLog {
    requests: Mutex<VecDeque<LoggedRequest>>,
    in_flight: AtomicUsize,
    max_in_flight: AtomicUsize,
}

impl RequestLog {
    /// Counts a request as running until the returned guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_in_flight.fetch_max(now, Ordering::SeqCst);
        InFlight(Arc::clone(self))
    }

    /// Notes an answered request.
    pub(crate) fn push(&self, request: LoggedRequest) {
        let mut requests = lock(&self.requests);
        if requests.len() == CAPACITY {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    /// The requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<LoggedRequest> {
        lock(&self.requests).iter().cloned().collect()
    }

    /// The largest number of requests that ran at once.
    pub(crate) fn max_in_flight(&self) -> usize {
        self.max_in_flight.load(Ordering::SeqCst)
    }

    /// Empties the log.
    pub(crate) fn clear(&self) {
        lock(&self.requests).clear();
        self.max_in_flight.store(self.in_flight.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// The log as `GET /__sandbox/log` answers it.
    pub(crate) fn to_json(&self) -> Value {
        let requests: Vec<Value> = lock(&self.requests)
            .iter()
            .map(|r| json!({"method": r.method, "path": r.path, "status": r.status, "ms": r.ms}))
            .collect();
        json!({"requests": requests, "max_in_flight": self.max_in_flight()})
    }
}

/// A running request.
pub(crate) struct InFlight(Arc<RequestLog>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}
