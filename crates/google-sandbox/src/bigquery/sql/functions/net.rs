//! `NET.` functions.

use super::{Entry, text};

pub(super) const FUNCTIONS: &[Entry] = &[("NET.HOST", "STRING -> STRING", |of| Ok(host(text(&of[0])).into()))];

/// The host of a URL, as it is written.
fn host(url: &str) -> Option<String> {
    let url = url.trim();
    let after_scheme = match url.find("//") {
        Some(at) if url[..at].is_empty() || url[..at].ends_with(':') => &url[at + 2..],
        _ => url.split_once(':').map_or(url, |(scheme, _)| scheme),
    };
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.find(']') {
        Some(end) => &host[..=end],
        None => host.split(':').next().unwrap_or_default(),
    };
    (!host.is_empty()).then(|| host.to_owned())
}
