//! A local stand-in for the Google APIs, computed from one seeded event log.
//!
//! It speaks plain HTTP/1.1 on 127.0.0.1 and models what makes the real APIs hard: absent keys, numbers as strings, short
//! pages, ties in no particular order, thresholding, `(other)`, quota answers. Faults are scripted through
//! [`Sandbox::faults`] or `POST /__sandbox/faults`. What it doesn't model it refuses with a clear 400 that starts with
//! `sandbox:`; it never guesses.
//!
//! | route | what it does |
//! |---|---|
//! | `GET /__sandbox/facts` | what was planted: accounts, properties, known totals, a request for a million rows |
//! | `GET`, `DELETE /__sandbox/log` | the requests so far, and how many ran at once |
//! | `GET`, `DELETE /__sandbox/ledger` | tokens charged to each identity on each property |
//! | `POST /__sandbox/quota` | `{"email", "property", "tokens"}`: leaves so many tokens for the current hour |
//! | `POST`, `DELETE /__sandbox/faults` | scripted faults, see [`Fault`] |
//!
//! ```no_run
//! # async fn run() -> std::io::Result<()> {
//! let sandbox = google_sandbox::start(google_sandbox::Options::in_dir("target/sandbox")).await?;
//! println!("{}", sandbox.url());
//! sandbox.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod analytics_admin;
mod analytics_data;
mod answer;
mod clock;
mod events;
mod facts;
mod faults;
mod google_error;
mod identities;
mod quota;
mod request_log;
mod server;
mod token;
mod world;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use faults::{Fault, FaultAction, Faults};
pub use identities::{CredentialFiles, FULL_EMAIL, LIMITED_EMAIL, PERSON_EMAIL};
pub use request_log::LoggedRequest;

/// The seed when none is given.
pub const DEFAULT_SEED: u64 = 42;

/// How to start a sandbox.
#[derive(Clone, Debug)]
pub struct Options {
    /// TCP port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// Where the credential files are written; made if absent.
    pub dir: PathBuf,
    /// Seed of the event log: the same seed on the same day gives the same data.
    pub seed: u64,
    /// Added to every answer except the sandbox's own control routes.
    pub latency: Duration,
}

impl Options {
    /// Any free port, the default seed, no latency.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self { port: 0, dir: dir.into(), seed: DEFAULT_SEED, latency: Duration::ZERO }
    }
}

/// A running sandbox. Dropping it ends it too, without waiting for its connections.
pub struct Sandbox {
    shared: Arc<server::Shared>,
    files: CredentialFiles,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

/// Starts a sandbox: makes the keys and the event log, writes the credential files, listens.
///
/// # Errors
/// When the port is taken or the files can't be written.
pub async fn start(options: Options) -> io::Result<Sandbox> {
    let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
    let url = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    let seed = options.seed;
    let world = tokio::task::spawn_blocking(move || world::World::new(seed));
    let identities = identities::Identities::generate().await?;
    let world = world.await.map_err(io::Error::other)?;
    let files = identities.write_files(&options.dir, &url)?;
    let shared = Arc::new(server::Shared {
        url,
        latency: options.latency,
        identities,
        world,
        faults: Faults::default(),
        log: Arc::default(),
        ledger: Arc::default(),
    });
    let (stop, stopped) = watch::channel(false);
    let accepting = tokio::spawn(server::accept(listener, Arc::clone(&shared), stopped));
    Ok(Sandbox { shared, files, stop, accepting })
}

impl Sandbox {
    /// The base URL of every service, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Where the credential files are.
    pub fn credentials(&self) -> &CredentialFiles {
        &self.files
    }

    /// The scripted faults.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// The requests so far, oldest first (bounded; without the control routes).
    pub fn log(&self) -> Vec<LoggedRequest> {
        self.shared.log.requests()
    }

    /// The largest number of requests that ran at once.
    pub fn max_in_flight(&self) -> usize {
        self.shared.log.max_in_flight()
    }

    /// Empties the request log.
    pub fn clear_log(&self) {
        self.shared.log.clear();
    }

    /// What was planted, as `GET /__sandbox/facts` answers it.
    pub fn facts(&self) -> serde_json::Value {
        facts::facts(&self.shared)
    }

    /// What each identity has spent, as `GET /__sandbox/ledger` answers it.
    pub fn ledger(&self) -> serde_json::Value {
        self.shared.ledger.to_json()
    }

    /// Leaves an identity this many Analytics tokens for the current hour on a property.
    pub fn set_remaining_tokens(&self, email: &str, property: &str, tokens: u64) {
        self.shared.ledger.set_remaining(email, property, tokens);
    }

    /// Closes the listener and every connection.
    pub async fn shutdown(mut self) {
        let _ = self.stop.send(true);
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

/// Locks a mutex; a panic elsewhere must not take the sandbox down with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
