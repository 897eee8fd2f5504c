//! Logs go to stderr, never to stdout, and never hold what a host or a person sent.

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Libraries that print whole requests, headers or token answers when they are asked for details.
const TALKATIVE: [&str; 10] =
    ["rmcp", "hyper", "hyper_util", "h2", "reqwest", "rustls", "gcp_auth", "tower", "axum", "axum_server"];

/// What is logged without `ACP_LOG`: the library's own warnings repeat errors that the client was already told.
const DEFAULT_FILTER: &str = "warn,rmcp=error";

/// Starts logging with the filter in `ACP_LOG`. No filter makes the libraries above say more than
/// their warnings, because their details hold credentials.
pub(crate) fn start() {
    let filter = EnvFilter::builder()
        .with_default_directive(Level::WARN.into())
        .parse_lossy(std::env::var("ACP_LOG").as_deref().unwrap_or(DEFAULT_FILTER));
    let safe = filter_fn(|metadata: &Metadata<'_>| {
        let library = metadata.target().split("::").next().unwrap_or_default();
        *metadata.level() <= Level::WARN || !TALKATIVE.contains(&library)
    });
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_filter(filter.and(safe));
    // A second start in one process, as in tests, keeps the first.
    let _ = tracing_subscriber::registry().with(layer).try_init();
    // The message of a panic may quote a value; its place is enough to find it.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(%place, "a tool panicked");
    }));
}
