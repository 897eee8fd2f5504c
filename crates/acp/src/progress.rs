//! A call with its progress on the terminal, which Ctrl-C cancels.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use acp_host::client::{OnProgress, Progress};
use acp_host::host::{Host, HostError};
use acp_protocol::visible;
use indicatif::{ProgressBar, ProgressStyle};

use crate::report::Failure;

/// Characters of a message that are shown.
const MESSAGE_MAX: usize = 200;
const TICK: Duration = Duration::from_millis(100);

/// Runs a call of `host` and ends the host's servers. `call` gets what is to receive progress.
pub(crate) async fn watched<T>(
    host: &Host,
    call: impl AsyncFnOnce(Option<OnProgress>) -> Result<T, HostError>,
) -> Result<T, Failure> {
    let bar = bar();
    let receiver = bar.clone().map(|bar| -> OnProgress { Arc::new(move |progress| show(&bar, progress)) });
    let outcome = tokio::select! {
        outcome = call(receiver) => outcome.map_err(Failure::from),
        // The dropped call tells the server that it is cancelled.
        Ok(()) = tokio::signal::ctrl_c() => Err(Failure::interrupted()),
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    host.close().await;
    outcome
}

/// A bar where a person looks: in a log it would only be noise.
fn bar() -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(TICK);
    Some(bar)
}

fn show(bar: &ProgressBar, progress: Progress) {
    if let Some(total) = progress.total.filter(|total| *total > 0.0) {
        if bar.length().is_none()
            && let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}% {msg}")
        {
            bar.set_style(style);
        }
        bar.set_length(total as u64);
        bar.set_position(progress.progress as u64);
    }
    if let Some(message) = progress.message {
        // Servers write it: one line, with nothing that moves the cursor.
        let line = visible(&message).replace(['\n', '\r'], " ");
        bar.set_message(line.chars().take(MESSAGE_MAX).collect::<String>());
    }
}
