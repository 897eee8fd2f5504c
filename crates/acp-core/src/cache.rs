//! What a server remembers: blocks, resource lists, and which resources were used. Everything is kept per identity,
//! so that nobody sees what other credentials fetched (7.4, 10.1).
//!
//! Blocks and uses also go to `ACP_CACHE_DIR` when the host sets it. Nothing that is written holds a credential.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use acp_protocol::autocontext::ResourceSummary;
use jiff::Timestamp;
use moka::Expiry;
use moka::future::Cache;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::call::lock;
use crate::clock::Clock;
use crate::connector::BlockData;
use crate::credentials::Identity;
use crate::error::{Error, Result};

/// How long a resource list is kept (6.3).
const RESOURCES_TTL: Duration = Duration::from_secs(600);
/// A use counts half after this long (6.3).
const HALF_LIFE_DAYS: f64 = 14.0;
/// Uses below this score are forgotten.
const FORGOTTEN_BELOW: f64 = 0.01;
/// Identities whose uses are in memory; beyond it they are read anew.
const IDENTITIES_MAX: usize = 1_000;
/// Files of the cache that were not written for this long are removed: blocks are old by then, and uses count for nothing.
const FILES_KEPT: [(&str, Duration); 2] =
    [("blocks", Duration::from_secs(3 * 24 * 3600)), ("recent", Duration::from_secs(100 * 24 * 3600))];
/// Conversations that are remembered as having their autocontext; beyond it the memory starts anew.
const DELIVERED_MAX: usize = 100_000;

/// The memory of a server, shared by its sessions.
#[derive(Debug)]
pub(crate) struct Memory {
    clock: Clock,
    directory: Option<PathBuf>,
    blocks: Cache<BlockKey, Kept>,
    resources: Cache<Identity, (Timestamp, Arc<Vec<ResourceSummary>>)>,
    uses: Mutex<BTreeMap<Identity, Uses>>,
    delivered: Mutex<HashSet<DeliveryKey>>,
}

/// What a delivery is remembered under. Hosts choose the ids of their conversations, and two of them may choose the same;
/// what one of them got, the other does not have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeliveryKey {
    pub(crate) identity: Identity,
    pub(crate) session: String,
    pub(crate) resource: String,
}

/// What a block is kept under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    /// Whose data, and under which settings they were read.
    pub(crate) scope: Identity,
    pub(crate) resource: String,
    pub(crate) block: String,
}

/// A kept block.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    expires: Timestamp,
    data: Arc<Value>,
}

/// Resources by how much they were used.
type Uses = BTreeMap<String, Use>;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Use {
    score: f64,
    last: Timestamp,
}

/// Lets the cache drop what has expired by the server's clock.
struct ByExpiry(Clock);

impl Expiry<BlockKey, Kept> for ByExpiry {
    fn expire_after_create(&self, _: &BlockKey, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(Duration::try_from(kept.expires.duration_since(self.0.now())).unwrap_or_default())
    }
}

impl Memory {
    /// A memory that also writes to `directory`, if there is one. What has not been written for long is removed from it:
    /// credentials that change leave files behind that nobody will ask for again.
    pub(crate) fn new(clock: Clock, directory: Option<PathBuf>) -> Self {
        if let Some(directory) = directory.clone() {
            std::thread::spawn(move || prune(&directory));
        }
        Self {
            clock,
            directory,
            blocks: Cache::builder().max_capacity(10_000).expire_after(ByExpiry(clock)).build(),
            resources: Cache::builder().max_capacity(1_000).time_to_live(RESOURCES_TTL).build(),
            uses: Mutex::default(),
            delivered: Mutex::default(),
        }
    }

    /// A block, from memory, from disk, or from the source. Concurrent calls for the same block ask the source once.
    /// The flag says whether it came from a cache. Failures are not kept, and neither is a block with parts that failed.
    pub(crate) async fn block(
        &self,
        key: BlockKey,
        ttl: Duration,
        read: impl Future<Output = Result<BlockData>>,
    ) -> Result<(Arc<Value>, bool)> {
        let file = self.file("blocks", &[key.scope.as_str(), &key.resource, &key.block]);
        let (mut cached, mut whole) = (true, true);
        let fetch = async {
            if let Some(kept) = self.read::<Kept>(file.as_deref()).filter(|kept| kept.expires > self.clock.now()) {
                return Ok(kept);
            }
            cached = false;
            let BlockData { data, is_whole } = read.await?;
            whole = is_whole;
            let now = self.clock.now();
            let kept = Kept { expires: now.checked_add(ttl).unwrap_or(now), data: Arc::new(data) };
            if is_whole {
                self.write(file.as_deref(), &kept);
            }
            Ok(kept)
        };
        let kept = self.blocks.try_get_with(key.clone(), fetch).await;
        if !whole {
            self.blocks.invalidate(&key).await;
        }
        let kept = kept.map_err(|error: Arc<Error>| Error::clone(&error))?;
        Ok((kept.data, cached))
    }

    /// The resource list of an identity, and whether it came from the cache.
    pub(crate) async fn resources(
        &self,
        identity: Identity,
        read: impl Future<Output = Result<Vec<ResourceSummary>>>,
    ) -> Result<(Arc<Vec<ResourceSummary>>, bool)> {
        let old = |read_at: Timestamp| self.clock.now().duration_since(read_at).unsigned_abs() >= RESOURCES_TTL;
        if self.resources.get(&identity).await.is_some_and(|(read_at, _)| old(read_at)) {
            self.resources.invalidate(&identity).await;
        }
        let mut cached = true;
        let fetch = async {
            cached = false;
            Ok((self.clock.now(), Arc::new(read.await?)))
        };
        let (_, list) =
            self.resources.try_get_with(identity, fetch).await.map_err(|error: Arc<Error>| Error::clone(&error))?;
        Ok((list, cached))
    }

    /// Counts one use of a resource.
    pub(crate) fn used(&self, identity: &Identity, resource: &str) {
        let now = self.clock.now();
        let mut all = lock(&self.uses);
        if all.len() >= IDENTITIES_MAX {
            all.clear();
        }
        let uses = all.entry(identity.clone()).or_insert_with(|| self.read_uses(identity));
        let score = uses.get(resource).map_or(0.0, |used| used.score_at(now)) + 1.0;
        uses.insert(resource.to_owned(), Use { score, last: now });
        uses.retain(|_, used| used.score_at(now) >= FORGOTTEN_BELOW);
        self.write(self.file("recent", &[identity.as_str()]).as_deref(), &*uses);
    }

    /// How much a resource was used lately; absent: not at all.
    pub(crate) fn scores(&self, identity: &Identity) -> BTreeMap<String, f64> {
        let now = self.clock.now();
        let mut all = lock(&self.uses);
        let uses = all.entry(identity.clone()).or_insert_with(|| self.read_uses(identity));
        uses.iter().map(|(resource, used)| (resource.clone(), used.score_at(now))).collect()
    }

    fn read_uses(&self, identity: &Identity) -> Uses {
        self.read(self.file("recent", &[identity.as_str()]).as_deref()).unwrap_or_default()
    }

    /// Remembers that a conversation has the autocontext of a resource, while the process lives (7.5). Returns whether
    /// it did not have it before.
    pub(crate) fn mark_delivered(&self, key: DeliveryKey) -> bool {
        let mut delivered = lock(&self.delivered);
        if delivered.len() >= DELIVERED_MAX {
            delivered.clear();
        }
        delivered.insert(key)
    }

    /// Forgets it again.
    pub(crate) fn unmark_delivered(&self, key: &DeliveryKey) {
        lock(&self.delivered).remove(key);
    }

    /// The file of a key. Its name is a hash, since ids hold characters that names can't.
    fn file(&self, kind: &str, key: &[&str]) -> Option<PathBuf> {
        let mut hash = Sha256::new();
        for part in key {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let name: String = hash.finalize().iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        Some(self.directory.as_ref()?.join(kind).join(format!("{name}.json")))
    }

    /// A file that can't be read is as good as none: the source is asked again.
    fn read<T: serde::de::DeserializeOwned>(&self, file: Option<&Path>) -> Option<T> {
        serde_json::from_slice(&std::fs::read(file?).ok()?).ok()
    }

    /// A file that can't be written costs a question to the source later, so it is only logged.
    fn write(&self, file: Option<&Path>, value: &impl Serialize) {
        let Some(file) = file else { return };
        if let Err(error) = write_whole(file, value) {
            tracing::warn!(path = %file.display(), %error, "the cache could not be written");
        }
    }
}

/// Removes old files of the cache. Whatever can't be removed stays.
fn prune(directory: &Path) {
    for (kind, kept) in FILES_KEPT {
        let Ok(entries) = std::fs::read_dir(directory.join(kind)) else { continue };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let old = modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > kept));
            if old && entry.path().extension().is_some_and(|extension| extension == "json") {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Writes a file that is whole at any time, readable by its owner alone.
fn write_whole(file: &Path, value: &impl Serialize) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut temporary, value)?;
    temporary.flush()?;
    temporary.persist(file)?;
    Ok(())
}

impl Use {
    fn score_at(self, now: Timestamp) -> f64 {
        let days = now.duration_since(self.last).as_secs_f64().max(0.0) / 86_400.0;
        self.score * 0.5_f64.powf(days / HALF_LIFE_DAYS)
    }
}
