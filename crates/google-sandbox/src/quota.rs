//! The ledger: what each identity has spent on each property, and when Google would refuse.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::clock::now_seconds;
use crate::google_error::GoogleError;
use crate::lock;

/// Limits of a Standard property.
const TOKENS_PER_DAY: u64 = 200_000;
const TOKENS_PER_HOUR: u64 = 40_000;
const TOKENS_PER_PROJECT_PER_HOUR: u64 = 14_000;
const CONCURRENT_REQUESTS: u64 = 10;
const SERVER_ERRORS_PER_HOUR: u64 = 10;
const THRESHOLDED_PER_HOUR: u64 = 120;

/// Core, realtime and funnel reports draw on buckets of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Category {
    /// Reports, metadata, compatibility.
    Core,
    /// Realtime reports.
    Realtime,
    /// Funnel reports.
    Funnel,
}

/// Whose bucket, and on which property.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Account {
    /// E-mail of the identity.
    pub(crate) email: String,
    /// Property id.
    pub(crate) property: String,
    /// Kind of quota.
    pub(crate) category: Category,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    hour: i64,
    day: i64,
    tokens_hour: u64,
    tokens_day: u64,
    thresholded_hour: u64,
    total_tokens: u64,
    requests: u64,
}

impl Bucket {
    /// Windows end on the clock hour and the UTC day: simpler than Google's, and as testable.
    fn roll(&mut self) {
        let now = now_seconds();
        if self.hour != now / 3600 {
            self.hour = now / 3600;
            self.tokens_hour = 0;
            self.thresholded_hour = 0;
        }
        if self.day != now / 86_400 {
            self.day = now / 86_400;
            self.tokens_day = 0;
        }
    }
}

/// All buckets.
#[derive(Default)]
pub(crate) struct Ledger {
    buckets: Mutex<BTreeMap<Account, Bucket>>,
    running: Mutex<HashMap<Account, u64>>,
}

/// A running request: frees its place when dropped.
pub(crate) struct Permit {
    ledger: Arc<Ledger>,
    account: Account,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(n) = lock(&self.ledger.running).get_mut(&self.account) {
            *n = n.saturating_sub(1);
        }
    }
}

impl Ledger {
    /// Lets a request in, or refuses it when a bucket is empty or ten are running.
    pub(crate) fn admit(self: &Arc<Self>, account: &Account) -> Result<Permit, GoogleError> {
        self.check_tokens(account)?;
        let mut running = lock(&self.running);
        let count = running.entry(account.clone()).or_default();
        if *count >= CONCURRENT_REQUESTS {
            return Err(GoogleError::exhausted(
                "Exhausted concurrent requests quota. Please send fewer requests concurrently. To learn more, see \
                 https://developers.google.com/analytics/devguides/reporting/data/v1/quotas",
            ));
        }
        *count += 1;
        Ok(Permit { ledger: Arc::clone(self), account: account.clone() })
    }

    fn check_tokens(&self, account: &Account) -> Result<(), GoogleError> {
        let mut buckets = lock(&self.buckets);
        let Some(bucket) = buckets.get_mut(account) else {
            return Ok(());
        };
        bucket.roll();
        let what = if bucket.tokens_day >= TOKENS_PER_DAY {
            "property tokens per day. These quota tokens will return in under 24 hours."
        } else if bucket.tokens_hour >= TOKENS_PER_PROJECT_PER_HOUR {
            "property tokens for a project per hour. These quota tokens will return in under an hour."
        } else if bucket.thresholded_hour >= THRESHOLDED_PER_HOUR {
            "potentially thresholded requests quota. This quota will return in under an hour."
        } else {
            return Ok(());
        };
        Err(GoogleError::exhausted(&format!(
            "Exhausted {what} To learn more, see \
             https://developers.google.com/analytics/devguides/reporting/data/v1/quotas"
        )))
    }

    /// Charges a finished request and describes the buckets after it, as `propertyQuota` does.
    pub(crate) fn charge(&self, account: &Account, tokens: u64, thresholded: bool) -> Value {
        let mut buckets = lock(&self.buckets);
        let bucket = buckets.entry(account.clone()).or_default();
        bucket.roll();
        bucket.tokens_hour += tokens;
        bucket.tokens_day += tokens;
        bucket.total_tokens += tokens;
        bucket.requests += 1;
        bucket.thresholded_hour += u64::from(thresholded);
        let left = |limit: u64, used: u64, consumed: u64| json!({"consumed": consumed, "remaining": limit.saturating_sub(used)});
        json!({
            "tokensPerDay": left(TOKENS_PER_DAY, bucket.tokens_day, tokens),
            "tokensPerHour": left(TOKENS_PER_HOUR, bucket.tokens_hour, tokens),
            "concurrentRequests": left(CONCURRENT_REQUESTS, 0, 0),
            "serverErrorsPerProjectPerHour": left(SERVER_ERRORS_PER_HOUR, 0, 0),
            "potentiallyThresholdedRequestsPerHour": left(
                THRESHOLDED_PER_HOUR, bucket.thresholded_hour, u64::from(thresholded)),
            "tokensPerProjectPerHour": left(TOKENS_PER_PROJECT_PER_HOUR, bucket.tokens_hour, tokens),
        })
    }

    /// Leaves an identity this many project tokens for the current hour on a property.
    pub(crate) fn set_remaining(&self, email: &str, property: &str, remaining: u64) {
        let mut buckets = lock(&self.buckets);
        let bucket = buckets
            .entry(Account { email: email.to_owned(), property: property.to_owned(), category: Category::Core })
            .or_default();
        bucket.roll();
        bucket.tokens_hour = TOKENS_PER_PROJECT_PER_HOUR.saturating_sub(remaining);
    }

    /// Forgets everything that was charged.
    pub(crate) fn clear(&self) {
        lock(&self.buckets).clear();
    }

    /// The entries, as `GET /__sandbox/ledger` answers them.
    pub(crate) fn to_json(&self) -> Value {
        let mut entries: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for (account, bucket) in lock(&self.buckets).iter() {
            let entry = entries.entry((account.email.clone(), account.property.clone())).or_default();
            entry.0 += bucket.total_tokens;
            entry.1 += bucket.requests;
        }
        let entries: Vec<Value> = entries
            .into_iter()
            .map(|((email, property), (tokens, requests))| {
                json!({"email": email, "property": property, "tokens": tokens, "requests": requests})
            })
            .collect();
        entries.into()
    }
}
