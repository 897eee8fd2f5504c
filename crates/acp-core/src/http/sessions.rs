//! What the process knows about its sessions besides what the library keeps: which requests are open, and since when
//! nothing is.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::watch;

use crate::call::lock;

/// How long the end of an idle session may take.
const CLOSING: Duration = Duration::from_secs(5);

pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    used: Mutex<HashMap<Arc<str>, Used>>,
    /// Requests without an answer, in all sessions.
    unanswered: watch::Sender<usize>,
}

struct Used {
    requests: HashSet<RequestId>,
    streams: usize,
    /// The last time that something began or ended.
    since: Instant,
    /// Whether its revision of MCP has batches.
    batches: bool,
}

impl Default for Used {
    fn default() -> Self {
        Self { requests: HashSet::new(), streams: 0, since: Instant::now(), batches: false }
    }
}

impl Used {
    fn is_open(&self) -> bool {
        self.streams > 0 || !self.requests.is_empty()
    }
}

/// A request or a stream that is open until this is dropped.
pub(super) struct Open {
    sessions: Arc<Sessions>,
    session: Option<Arc<str>>,
    /// `None` for a stream that answers nothing.
    request: Option<RequestId>,
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, used: Mutex::default(), unanswered: watch::Sender::new(0) }
    }

    pub(super) async fn count(&self) -> usize {
        self.manager.sessions.read().await.len()
    }

    pub(super) async fn exists(&self, session: &Arc<str>) -> bool {
        self.manager.sessions.read().await.contains_key(session)
    }

    /// Marks a request as open; `None` when the session has one with the same id, since the library answers only one
    /// of the two. `initialize` comes without a session.
    pub(super) fn open(self: &Arc<Self>, session: Option<Arc<str>>, request: &RequestId) -> Option<Open> {
        if let Some(session) = &session {
            let mut used = lock(&self.used);
            let used = used.entry(session.clone()).or_default();
            if !used.requests.insert(request.clone()) {
                return None;
            }
            used.since = Instant::now();
        }
        self.unanswered.send_modify(|count| *count += 1);
        Some(Open { sessions: self.clone(), session, request: Some(request.clone()) })
    }

    /// Marks a stream as open.
    pub(super) fn stream(self: &Arc<Self>, session: Arc<str>) -> Open {
        let mut used = lock(&self.used);
        let of_session = used.entry(session.clone()).or_default();
        (of_session.streams, of_session.since) = (of_session.streams + 1, Instant::now());
        Open { sessions: self.clone(), session: Some(session), request: None }
    }

    /// Notes that a session agreed on a revision with batches.
    pub(super) fn allow_batches(&self, session: Arc<str>) {
        lock(&self.used).entry(session).or_default().batches = true;
    }

    pub(super) fn has_batches(&self, session: &Arc<str>) -> bool {
        lock(&self.used).get(session).is_some_and(|used| used.batches)
    }

    /// Waits until no request is open.
    pub(super) async fn all_answered(&self) {
        let _ = self.unanswered.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Ends the sessions in which nothing was open for `idle`. The library's own timer counts messages, and would end a
    /// session whose call is silent for long.
    pub(super) async fn end_idle(&self, idle: Duration) {
        let known: HashSet<Arc<str>> = self.manager.sessions.read().await.keys().cloned().collect();
        let over: Vec<Arc<str>> = {
            let mut used = lock(&self.used);
            used.retain(|session, used| used.is_open() || known.contains(session));
            let idle = |session: &Arc<str>| {
                let used = used.entry(session.clone()).or_default();
                !used.is_open() && used.since.elapsed() >= idle
            };
            known.into_iter().filter(idle).collect()
        };
        for session in over {
            let manager = self.manager.clone();
            // A session whose client reads nothing may not listen to anybody.
            tokio::spawn(async move { tokio::time::timeout(CLOSING, manager.close_session(&session)).await });
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(session) = &self.session
            && let Some(used) = lock(&self.sessions.used).get_mut(session)
        {
            match &self.request {
                Some(request) => _ = used.requests.remove(request),
                None => used.streams = used.streams.saturating_sub(1),
            }
            used.since = Instant::now();
        }
        if self.request.is_some() {
            self.sessions.unanswered.send_modify(|count| *count -= 1);
        }
    }
}
