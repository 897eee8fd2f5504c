//! What conversations have spent, for the limit that a person may set on a whole conversation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use acp_core::{Call, Error, Identity, Result};
use acp_protocol::error::ErrorCode;

use crate::settings::Settings;

/// Conversations that are remembered; those that spent nothing for a day make room first.
const CONVERSATIONS: usize = 10_000;
const IDLE: Duration = Duration::from_secs(24 * 3600);

/// The accounts of all conversations, in memory: a person's limit is for as long as the process lives.
#[derive(Debug, Default)]
pub(crate) struct Spending(Mutex<HashMap<Conversation, Arc<Mutex<Account>>>>);

/// Who spends, and in which conversation of the host.
type Conversation = (Identity, String);

#[derive(Debug)]
struct Account {
    /// USD.
    spent: f64,
    /// USD that running jobs may come to.
    reserved: f64,
    used: Instant,
}

/// What a job may come to, until it is known what it did come to. Its clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Reservation(Arc<Reserved>);

#[derive(Debug)]
struct Reserved {
    account: Arc<Mutex<Account>>,
    amount: f64,
    left: Option<f64>,
    settled: AtomicBool,
}

impl Spending {
    /// Sets aside what a job may cost. Over the limit of the conversation it is refused.
    pub(crate) fn reserve(&self, call: &Call, settings: &Settings, estimate_usd: f64) -> Result<Reservation> {
        let account = self.account(call);
        let mut open = lock(&account);
        open.used = Instant::now();
        let mut left = None;
        if let Some(limit) = settings.session_cost_limit_usd {
            let taken = open.spent + open.reserved;
            if taken + estimate_usd > limit {
                return Err(Error::new(
                    ErrorCode::CostLimitExceeded,
                    format!(
                        "This conversation has spent ${taken:.4} of the ${limit:.2} that a person allowed it, and the query would cost about \
                         ${estimate_usd:.4} more. Use what was already extracted, narrow the query, or ask the user to raise \
                         session_cost_limit_usd in the settings of the source."
                    ),
                )
                .with_data("estimate_usd", estimate_usd)
                .with_data("limit_usd", limit)
                .with_data("spent_usd", taken));
            }
            left = Some(limit - taken);
        }
        open.reserved += estimate_usd;
        drop(open);
        let settled = AtomicBool::new(false);
        Ok(Reservation(Arc::new(Reserved { account, amount: estimate_usd, left, settled })))
    }

    /// What the conversation of a call has spent, in USD.
    pub(crate) fn spent(&self, call: &Call) -> f64 {
        lock(&self.account(call)).spent
    }

    fn account(&self, call: &Call) -> Arc<Mutex<Account>> {
        let mut accounts = lock(&self.0);
        if accounts.len() >= CONVERSATIONS {
            accounts.retain(|_, account| Arc::strong_count(account) > 1 || lock(account).used.elapsed() < IDLE);
        }
        let key = (call.identity(), call.conversation().unwrap_or_default().to_owned());
        let fresh = || Arc::new(Mutex::new(Account { spent: 0.0, reserved: 0.0, used: Instant::now() }));
        accounts.entry(key).or_insert_with(fresh).clone()
    }
}

impl Reservation {
    /// The most the job may cost so that the conversation stays within its limit, in USD; `None` without a limit.
    pub(crate) fn left(&self) -> Option<f64> {
        self.0.left
    }

    /// The job came to this, in USD. Only the first time counts.
    pub(crate) fn settle(&self, actual_usd: f64) {
        self.0.settle(actual_usd);
    }
}

impl Reserved {
    fn settle(&self, actual_usd: f64) {
        if !self.settled.swap(true, Ordering::SeqCst) {
            let mut account = lock(&self.account);
            account.reserved = (account.reserved - self.amount).max(0.0);
            account.spent += actual_usd;
        }
    }
}

impl Drop for Reserved {
    /// Nobody knows what the job came to: it counts with what it may have come to.
    fn drop(&mut self) {
        self.settle(self.amount);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
