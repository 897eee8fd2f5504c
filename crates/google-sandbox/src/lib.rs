//! A local stand-in for the Google APIs, computed from one seeded event log.
//!
//! It speaks plain HTTP/1.1 on 127.0.0.1 and models what makes the real APIs hard: absent keys, numbers as strings, short
//! pages, ties in no particular order, thresholding, `(other)`, quota answers. Faults are scripted through
//! [`Sandbox::faults`] or `POST /__sandbox/faults`. What it doesn't model it refuses with a clear 400 that starts with
//! `sandbox:`; it never guesses.
//!
//! | route | what it does |
//! |---|---|
//! | `GET /__sandbox/facts` | what was planted: accounts, properties, sites, known totals, a request for a million rows |
//! | `GET`, `DELETE /__sandbox/log` | the requests so far, and how many ran at once |
//! | `POST`, `GET`, `DELETE /__sandbox/exchanges` | starts to keep requests and answers word for word; those so far; ends it |
//! | `GET`, `DELETE /__sandbox/ledger` | tokens charged to each identity on each property; BigQuery's jobs and what they billed |
//! | `POST /__sandbox/quota` | `{"email", "property", "tokens"}`: leaves so many tokens for the current hour |
//! | `POST`, `DELETE /__sandbox/faults` | scripted faults, see [`Fault`] |
//! | `POST`, `DELETE /__sandbox/search_console` | Search Console's day and limits, see [`SearchConsoleSwitches`] |
//! | `POST`, `DELETE /__sandbox/bigquery` | how jobs end, how long they run, how large pages are, see [`BigQuerySwitches`] |
//!
//! ```no_run
//! # async fn run() -> std::io::Result<()> {
//! let sandbox = google_sandbox::start(google_sandbox::Options::in_dir("target/sandbox")).await?;
//! println!("{} {:?}", sandbox.url(), sandbox.credentials().full);
//! // Search Console: a day of its own, and a site that refuses while more than three requests run.
//! let switches = serde_json::json!({
//!     "today": "2026-11-05",
//!     "limit": {"site": "sc-domain:nordwind.example", "in_flight": 3, "for_ms": 500},
//! });
//! sandbox.search_console().set_json(&switches).map_err(std::io::Error::other)?;
//! sandbox.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Search Console
//!
//! Paths: `GET /webmasters/v3/sites[/{site}[/sitemaps[/{feedpath}]]]`, `POST
//! /webmasters/v3/sites/{site}/searchAnalytics/query`, `POST /v1/urlInspection/index:inspect`, for tokens with the scope
//! `webmasters.readonly` (the credential files give any scope). Methods that write are refused.
//!
//! | site | full account and person | limited account | what it is for |
//! |---|---|---|---|
//! | `sc-domain:nordwind.example` | owner | | the shop, the help host and the jobs page together |
//! | `https://www.nordwind.example/` | owner | full | the pages of the main Analytics property |
//! | `https://www.nordwind.example/blog/` | full | restricted | a sub-folder; its `metadata` is in snake case |
//! | `https://help.nordwind.example/` | full | | addresses with `%2C` and emoji; some days are empty, as rows of zeros |
//! | `http://www.nordwind.example/` | owner | | the wrong protocol: never any rows |
//! | `sc-domain:harbour.example` | unverified | | listed, but each call is 403 |
//! | `https://news.harbour.example/` | full | | part of the shop's searches |
//! | `https://agency-client.example/` | restricted | | has data, but no URL inspection |
//! | `sc-domain:xn--mbel-5qa.example` | full | | punycode; every third day is absent |
//! | `http://` and `https://amrum.example/`, `https://www.amrum.example/` | owner | | an ambiguous name |
//! | `https://new-launch.example/` | owner | | no data yet |
//! | `sc-domain:bulk.example` | owner | | 60,000 pairs of query and page a day, 50,000 shown, over 120 days |
//! | `https://www.bulk.example/shelf-3/` | owner | | a sub-folder of it: 6,000 pairs a day, all shown |
//! | `https://limited-only.example/` | | owner | 403 for the full account |
//! | `https://microsite-NN.example/` | full | | 14 small sites, so that the list is longer than 25 |
//!
//! [`Sandbox::facts`] has these permissions under `sites`, and under `search_console` the days (`today`, `last_final`,
//! `first_incomplete`, `oldest`), totals of the shop and the counts of the bulk site. A first question: `{"startDate":
//! "<last_final>", "endDate": "<last_final>", "dimensions": ["query"]}` to `sc-domain:nordwind.example`.
//!
//! Each session of Analytics with the source google and the medium organic is a click on its landing page, at the same
//! moment but in a Pacific day; about one click in ten has no session. History goes back 16 months, although Analytics'
//! starts 120 days ago. Queries that few people use are hidden: their clicks and impressions are in sums, but in no row with
//! a query and in no sum that is filtered by query.
//!
//! What it does that clients fall over:
//! - Final data end two or three days ago. `all` reaches today with part of the counts, `hourly_all` the last ten days;
//!   `metadata` has the first incomplete day or hour only when rows are grouped by it. Older starts and later ends are cut.
//! - No rows: no key `rows`. One page in three of several dimensions is an eighth short although rows follow. Beyond row 1,000
//!   a row of the tail can come again at the start of the next page; no row is left out when `startRow` grows by the rows
//!   received. Rows that tie have another order for another `rowLimit`.
//! - By page, impressions are more than by property. Filters on pages or appearances, and Discover and Google News, count by
//!   page. These two have no positions.
//! - Expressions that aren't RE2, two-letter countries and decoded addresses find nothing and are no error. Negated
//!   appearances give the rows they should exclude.
//! - Ranges of more than 92 days lose query rows with fewer than three impressions. On the bulk site a request without a date
//!   ends at 50,000 rows, queries alone at 5,000 a day, and filters only see the 50,000 pairs that are shown; with a date each
//!   day has its own 50,000: 2,000,000 rows in 40 days. Walking days without a date finds 10,000 pairs that come every day and
//!   40,000 of each day's own.
//! - URL inspection ends after 20 a day and site. `/search`, `/imprint`, `/print/…`, `/private/…`, `/old/…` and `/error/…` have
//!   troubles of their own; other unknown addresses are unknown to Google.
//!
//! Bursts and load quota of a site are switches, see [`SearchConsoleSwitches::set_json`]; anything else that goes wrong is a
//! [`Fault`]. `{"path": "/sites$", "action": {"status": {"code": 200, "body": {}}}}` is an account without sites.

//!
//! # BigQuery
//!
//! Paths: `/bigquery/v2/projects/…` for `projects.list`, `datasets.list` and `get`, `tables.list` and `get`,
//! `tabledata.list`, `routines.list` and `get`, and `jobs.insert`, `query`, `get`, `getQueryResults`, `cancel` and `list`;
//! `/upload/bigquery/v2/projects/{project}/jobs` for load jobs of JSON lines, by `uploadType` `multipart` or `resumable`.
//! Scopes: `bigquery` or `cloud-platform`; `bigquery.readonly` for everything but inserting and cancelling jobs. What changes
//! data sets or tables otherwise is refused, and so is legacy SQL (the default of `useLegacySql`).
//!
//! | data set | location | what it is for |
//! |---|---|---|
//! | `analytics_310000001` | EU | the main property's export: `events_` for each day up to yesterday with a gap, `events_intraday_` for today, `events_fresh_` for both, `pseudonymous_users_`; old tables lack the newer columns |
//! | `searchconsole` | EU | the shop's export: `searchdata_site_impression`, `searchdata_url_impression`, `ExportLog` |
//! | `warehouse` | US | `every_type`, `flexible_names`, `wide` (937 leaf fields), `bulk` (3,000,000 rows; `bulk_1m`, `bulk_100k`), `orders` (a filter on `day` is required), `order_lines` (partitioned), `ingested` (by time of ingestion), `customers` (clustered), `orders_by_city` (a view), `orders_legacy` (a legacy view), `access_logs` (files), `targets_sheet` (a sheet that isn't shared), `salaries` (row access policies), `people` (a policy tag on `salary`), `empty_table`; routines `add_tax`, `slugify`, `classify`, `remote_score` |
//! | `sharding` | US | `report_*` (dated copies of `report`), `drifted_*` (a column that changed its type), `visits_*` (with a view among them), `gaps_*`, names that aren't dates |
//! | `many`, `empty` | US | 1,200 tables, none |
//! | `regional` | europe-west3 | jobs there are only found with their location |
//! | `loads`, `loads_eu` | US, EU | load jobs may write here |
//! | `restricted`, `_hidden` | US | access denied; in no list without `all=true` |
//! | `nordwind.example:archive` `legacy` | EU | a project of a domain |
//! | `nordwind-data` `open` | US | a project that is in no list and runs no jobs |
//!
//! The limited account sees the Analytics export only. All but the last two are in the project `acp-sandbox`.
//!
//! Sums over the exports are those of the reports, as far as they add up: events, views, purchases, revenue, sessions; clicks
//! and impressions by property. Positions are counted from zero; hidden queries are empty texts.
//!
//! What a job costs:
//! - A dry run by `jobs.insert` tells `totalBytesProcessed` (the columns that are read, in the tables and partitions that are
//!   left over), `totalBytesProcessedAccuracy` (`PRECISE`; `UPPER_BOUND` for clustered tables, which then read a quarter;
//!   `LOWER_BOUND` and zero for files), types, tables behind views, routines, parameters without a value. Where row access
//!   policies apply, no answer has numbers of bytes.
//! - Each table is billed in whole MiB and at least ten; a wildcard counts as one table. What is billed is in
//!   [`Sandbox::bigquery`]'s ledger, hidden or not. A cancelled job is billed in full, a failed one isn't.
//! - A query that would bill more than `maximumBytesBilled` (by its estimate, or by what it reads) ends with
//!   `bytesBilledLimitExceeded`, HTTP 500. A limit of 0 is no limit.
//! - The same text of the same person is answered from the first result for 24 hours, but not over wildcards, files, tables
//!   with row access policies, or when it isn't deterministic.
//!
//! What it does that clients fall over: `jobs.insert` never answers a complete job; wrong SQL ends the job, and its error is
//! an HTTP error only when rows are asked for; pages end at 10 MiB and only `pageToken` says that more follow; an empty
//! result has a schema and no `rows`; integers beyond 2^53 that a load job sends as numbers lose digits; timestamps are floats unless another format is asked for; lists have pages of 50; a job
//! outside of US and EU isn't found without its location; a job belongs to who made it.

mod analytics_admin;
mod analytics_data;
mod answer;
mod bigquery;
mod clock;
mod events;
mod exchanges;
mod facts;
mod faults;
mod google_error;
mod identities;
mod message;
mod quota;
mod request_log;
mod search_console;
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

pub use bigquery::{LedgerJob, Switches as BigQuerySwitches};
pub use faults::{Fault, FaultAction, Faults};
pub use identities::{CredentialFiles, FULL_EMAIL, LIMITED_EMAIL, PERSON_EMAIL};
pub use request_log::LoggedRequest;
pub use search_console::Switches as SearchConsoleSwitches;

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
    let search_console = Arc::new(search_console::SearchConsole::new(seed, world.log()));
    let shared = Arc::new(server::Shared {
        url,
        latency: options.latency,
        identities,
        world: Arc::new(world),
        faults: Faults::default(),
        log: Arc::default(),
        exchanges: exchanges::Exchanges::default(),
        ledger: Arc::default(),
        search_console,
        bigquery: bigquery::BigQuery::default(),
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
        self.shared.ledger_json()
    }

    /// Leaves an identity this many Analytics tokens for the current hour on a property.
    pub fn set_remaining_tokens(&self, email: &str, property: &str, tokens: u64) {
        self.shared.ledger.set_remaining(email, property, tokens);
    }

    /// The switches of Search Console: its day, limits of a site, inspections that are left.
    pub fn search_console(&self) -> &SearchConsoleSwitches {
        &self.shared.search_console.switches
    }

    /// The switches of BigQuery, and every job with what it billed.
    pub fn bigquery(&self) -> &BigQuerySwitches {
        &self.shared.bigquery.switches
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
