//! Tells the client when what `tools/list` would answer may have changed: `sources.json` was edited, or a connector was
//! copied, replaced or removed. The host itself reads both anew for each call.

use std::path::Path;
use std::time::{Duration, SystemTime};

use acp_host::host::Host;
use acp_host::package::{MANIFEST, Package};
use rmcp::RoleServer;
use rmcp::service::Peer;

/// How often is looked. Files on network drives and in virtual machines give no other sign.
const EVERY: Duration = Duration::from_secs(1);

/// What is compared.
#[derive(PartialEq)]
struct Seen {
    sources: Option<(SystemTime, u64)>,
    packages: Vec<(Package, Option<(SystemTime, u64)>)>,
}

/// Runs until the client is gone.
pub(super) async fn watch(host: Host, peer: Peer<RoleServer>) {
    let mut before = look(&host).await;
    loop {
        tokio::time::sleep(EVERY).await;
        let now = look(&host).await;
        if now == before {
            continue;
        }
        before = now;
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

async fn look(host: &Host) -> Option<Seen> {
    let host = host.clone();
    let look = move || {
        let packages = host.packages().map(|listing| listing.packages).unwrap_or_default();
        let packages = packages.into_iter().map(|package| {
            let stamp = stamp(&package.folder.join(MANIFEST));
            (package, stamp)
        });
        Seen { sources: stamp(&host.options().sources), packages: packages.collect() }
    };
    tokio::task::spawn_blocking(look).await.ok()
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
