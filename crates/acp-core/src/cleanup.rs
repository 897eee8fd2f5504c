//! What is left to do when a call ended before its work did.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long the end of the process waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Work that must be done at the source even when nobody waits for the call any more: a job that goes on there, and costs
/// money, has to be cancelled. Get it with [`Call::cleanup`](crate::Call::cleanup) and start the work in a `Drop`.
#[derive(Clone, Debug, Default)]
pub struct Cleanup {
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl Cleanup {
    /// Starts the work. The process does not end before it is done, or before five seconds are over.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Marks a call as running, while the token lives.
    pub(crate) fn running(&self) -> TaskTrackerToken {
        self.tasks.token()
    }

    /// Resolves when calls have to stop because the process ends.
    pub(crate) async fn ending(&self) {
        self.ending.cancelled().await;
    }

    /// Stops the calls that still run and waits for the work that they leave.
    pub(crate) async fn end(&self) {
        self.ending.cancel();
        self.tasks.close();
        if tokio::time::timeout(PATIENCE, self.tasks.wait()).await.is_err() {
            tracing::warn!("the process ends before everything at the source was ended");
        }
    }
}
