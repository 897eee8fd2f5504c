//! The source that the toy pretends to have, and a count of how often it was asked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acp_core::{Call, Error, Resource, Result, Source};
use acp_protocol::autocontext::ResourceSummary;
use acp_protocol::error::ErrorCode;
use serde_json::{Value, json};

const ACCOUNTS: u32 = 142;
const ACCOUNTS_OF_KEY_B: [u32; 3] = [7, 8, 9];
/// The account whose block `flaky` fails.
const UNLUCKY: &str = "acc_13";
/// The account whose block `flaky` takes its time.
const SLOW_ACCOUNT: &str = "acc_20";
/// The account whose block `flaky` panics, the id that can't even be read, and the key whose listing panics: what a
/// connector gets wrong must not stop its server.
const PANICKING_ACCOUNT: &str = "acc_66";
const PANICKING_ID: &str = "acc_panic";
const PANICKING_KEY: &str = "KEY-A-PANIC";
/// Keys such as `ID-7` belong to many holders. Each has the slow account and one of its own, and whatever comes from them
/// says whose it is, so that an answer that reached another holder is seen.
const HOLDERS_KEY: &str = "ID-";
const SHARED_ACCOUNT: u32 = 20;
const FIRST_OWN_ACCOUNT: u32 = 1000;
const LINK: &str = "https://toy.example/";

/// 142 accounts in memory.
pub(crate) struct Toy {
    needs_credentials: bool,
    /// Listings and blocks that were fetched: what a real source would have been asked.
    listed: AtomicU64,
    blocks: AtomicU64,
    /// Queries that were really run.
    queries: AtomicU64,
    /// What was written: how many rows each table holds.
    written: Mutex<BTreeMap<String, u64>>,
}

impl Toy {
    pub(crate) fn new(needs_credentials: bool) -> Self {
        Self {
            needs_credentials,
            listed: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            queries: AtomicU64::new(0),
            written: Mutex::default(),
        }
    }

    /// How often the source was asked.
    pub(crate) fn upstream(&self) -> Value {
        json!({
            "list": self.listed.load(Ordering::Relaxed),
            "blocks": self.blocks.load(Ordering::Relaxed),
            "queries": self.queries.load(Ordering::Relaxed),
            "written": *self.tables(),
        })
    }

    /// Counts a query that is run.
    pub(crate) fn query(&self) {
        self.queries.fetch_add(1, Ordering::Relaxed);
    }

    /// The tables that were written and their rows.
    pub(crate) fn tables(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The accounts that the credentials of the call reach. Keys the source does not know are rejected, as by a 401.
    fn accounts(&self, call: &Call) -> Result<Vec<u32>> {
        if !self.needs_credentials {
            return Ok((1..=ACCOUNTS).collect());
        }
        let credentials = call.credentials()?;
        let key = credentials.text("api_key").or_else(|| credentials.text("access_token"));
        let key = key.as_ref().map_or("", |key| key.expose());
        if let Some(holder) = holder(key) {
            return Ok(vec![SHARED_ACCOUNT, FIRST_OWN_ACCOUNT + holder]);
        }
        match key {
            key if key.starts_with("KEY-A") || credentials.text("access_token").is_some() => {
                Ok((1..=ACCOUNTS).collect())
            }
            key if key.starts_with("KEY-B") => Ok(ACCOUNTS_OF_KEY_B.to_vec()),
            _ => Err(rejected()),
        }
    }

    /// Checks that the credentials reach the resource of the call.
    pub(crate) fn reach(&self, call: &Call) -> Result<String> {
        let resource = call.resource()?;
        let accounts = self.accounts(call)?;
        let account = account_of(&resource.id);
        if accounts.iter().any(|number| format!("acc_{number}") == account) {
            return Ok(account.to_owned());
        }
        Err(Error::resource_not_found(
            "There is no such account, or these credentials may not see it. Call autocontext to list the accounts.",
        ))
    }

    /// What data of the call's holder end with: ` of 7`, or nothing where keys do not tell holders apart.
    pub(crate) fn of_holder(call: &Call) -> String {
        let key = call.credentials().ok().and_then(|credentials| credentials.text("api_key"));
        key.and_then(|key| holder(key.expose())).map(|holder| format!(" of {holder}")).unwrap_or_default()
    }

    fn block(&self, call: &Call) -> Result<String> {
        let account = self.reach(call)?;
        self.blocks.fetch_add(1, Ordering::Relaxed);
        Ok(account)
    }
}

/// The number in a key such as `ID-7`; what comes after the number does not count.
fn holder(key: &str) -> Option<u32> {
    let number = key.strip_prefix(HOLDERS_KEY)?;
    let end = number.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

/// What a source says to credentials it does not accept.
pub(crate) fn rejected() -> Error {
    Error::new(
        ErrorCode::CredentialsInvalid,
        "The source rejects these credentials (401). The person has to correct them in the host's settings.",
    )
}

fn account_of(id: &str) -> &str {
    id.split('.').next().unwrap_or(id)
}

impl Source for Toy {
    fn resource(&self, id: &str) -> Result<Resource> {
        let id = id.strip_prefix(LINK).unwrap_or(id);
        assert!(id != PANICKING_ID, "the toy fell over an id");
        let (account, table) = match id.split_once('.') {
            Some((account, table)) => (account, Some(table)),
            None => (id, None),
        };
        let numbered = |text: &str, prefix: &str| {
            text.strip_prefix(prefix)
                .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if !numbered(account, "acc_") || table.is_some_and(|table| !numbered(table, "t")) {
            return Err(Error::resource_not_found(
                "That is not the id of an account. Write acc_<number> or acc_<number>.t<number>; autocontext lists the accounts.",
            ));
        }
        Ok(Resource { id: id.to_owned(), level: if table.is_some() { "table" } else { "account" } })
    }

    async fn resources(&self, call: &Call) -> Result<Vec<ResourceSummary>> {
        let accounts = self.accounts(call)?;
        let key = call.credentials().ok().and_then(|credentials| credentials.text("api_key"));
        assert!(key.is_none_or(|key| *key.expose() != PANICKING_KEY), "the toy fell over a listing");
        self.listed.fetch_add(1, Ordering::Relaxed);
        let of_holder = Self::of_holder(call);
        let summary = |number: u32| ResourceSummary {
            resource_id: format!("acc_{number}"),
            name: format!("Account {number}{of_holder}"),
            description: None,
            group: Some(format!("G{}", number % 3)),
            recent: None,
        };
        Ok(accounts.into_iter().map(summary).collect())
    }
}

/// Block for every level.
pub(crate) async fn alpha(toy: Arc<Toy>, call: Arc<Call>) -> Result<Value> {
    let account = toy.block(&call)?;
    let config: Value = call.config()?;
    Ok(json!({"account": format!("{account}{}", Toy::of_holder(&call)), "region": config["region"]}))
}

/// Block for accounts.
pub(crate) async fn beta(toy: Arc<Toy>, call: Arc<Call>) -> Result<Value> {
    toy.block(&call)?;
    Ok(json!(["t1", "t2"]))
}

/// Block for tables.
pub(crate) async fn gamma(toy: Arc<Toy>, call: Arc<Call>) -> Result<Value> {
    toy.block(&call)?;
    Ok(json!({"i": "integer", "name": "string"}))
}

/// Block that fails for one account.
pub(crate) async fn flaky(toy: Arc<Toy>, call: Arc<Call>) -> Result<Value> {
    let account = toy.block(&call)?;
    if account == SLOW_ACCOUNT {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    match account.as_str() {
        PANICKING_ACCOUNT => panic!("the toy fell over a block"),
        UNLUCKY => Err(Error::upstream("Upstream failed (500)")),
        account => Ok(json!(format!("{account}{} is fine.", Toy::of_holder(&call)))),
    }
}
