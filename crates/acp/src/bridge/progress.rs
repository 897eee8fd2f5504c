//! Progress of a call, passed on to the client that asked for it.

use std::sync::Arc;

use acp_host::client::{self, OnProgress};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// Where the progress of one call goes; nowhere, where the client did not ask.
pub(super) struct Progress {
    forward: Option<(UnboundedSender<Option<client::Progress>>, JoinHandle<()>)>,
}

impl Progress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let Some(token) = context.meta.get_progress_token() else { return Self { forward: None } };
        let (peer, (sender, mut steps)) = (context.peer.clone(), unbounded_channel::<Option<client::Progress>>());
        let task = tokio::spawn(async move {
            while let Some(Some(step)) = steps.recv().await {
                let mut note = ProgressNotificationParam::new(token.clone(), step.progress);
                if let Some(total) = step.total {
                    note = note.with_total(total);
                }
                if let Some(message) = step.message {
                    note = note.with_message(message);
                }
                if peer.notify_progress(note).await.is_err() {
                    break;
                }
            }
        });
        Self { forward: Some((sender, task)) }
    }

    /// Receives the steps.
    pub(super) fn receiver(&self) -> Option<OnProgress> {
        let (sender, _) = self.forward.as_ref()?;
        let sender = sender.clone();
        Some(Arc::new(move |step| _ = sender.send(Some(step))))
    }

    /// Says that there is more to come of a call that can't tell how far it is.
    pub(super) fn beat(&self, seconds: u64, message: &str) {
        if let Some((sender, _)) = &self.forward {
            let step = client::Progress { progress: seconds as f64, total: None, message: Some(message.to_owned()) };
            let _ = sender.send(Some(step));
        }
    }

    /// Waits until the last step is sent: MCP wants none behind the answer.
    pub(super) async fn end(self) {
        if let Some((sender, task)) = self.forward {
            let _ = sender.send(None);
            let _ = task.await;
        }
    }
}
