//! How many requests may be on their way at a time, for APIs that object to bursts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How long nobody may have objected before all lanes are open again.
const CALM: Duration = Duration::from_secs(60);
/// The least time between two requests on the last lane.
const GAP: Duration = Duration::from_millis(300);

/// A bound on the requests that are on their way at once, shared by all its clones.
///
/// Each time the API says that requests come too fast, one lane closes, down to a single one with a pause between requests,
/// and nothing new is sent until the wait of the refused request is over. A minute without an objection opens all lanes
/// again.
///
/// A lane is held while an answer is being read, never while a request waits to be tried again.
#[derive(Clone, Debug)]
pub struct Lanes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    turns: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    open: usize,
    /// When the last objection came, and until when nothing may be sent because of it.
    objected: Option<(Instant, Instant)>,
    /// When the last request was sent.
    sent: Option<Instant>,
}

/// The place of one request; it ends with this value.
#[derive(Debug)]
pub(crate) struct Turn {
    lanes: Lanes,
    permit: OwnedSemaphorePermit,
}

impl Lanes {
    /// At most `most` requests at a time.
    pub fn new(most: usize) -> Self {
        let state = Mutex::new(State { open: most, objected: None, sent: None });
        Self(Arc::new(Shared { most, turns: Arc::new(Semaphore::new(most)), state }))
    }

    /// How many requests may be on their way now.
    pub fn open(&self) -> usize {
        self.state().open
    }

    /// Whether anybody else holds these lanes.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Waits until a request may be sent; first come, first served.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        self.reopen();
        // It is never closed.
        let permit = self.0.turns.clone().acquire_owned().await.ok()?;
        while let Err(until) = self.send_now() {
            tokio::time::sleep_until(until).await;
        }
        Some(Turn { lanes: self.clone(), permit })
    }

    /// Notes that a request is sent now, or says when it may be.
    fn send_now(&self) -> Result<(), Instant> {
        let mut state = self.state();
        let now = Instant::now();
        let quiet = state.objected.map(|(_, until)| until);
        let paced = state.sent.filter(|_| state.objected.is_some() && state.open == 1).map(|sent| sent + GAP);
        match quiet.max(paced).filter(|until| *until > now) {
            Some(until) => Err(until),
            None => {
                state.sent = Some(now);
                Ok(())
            }
        }
    }

    fn reopen(&self) {
        let mut state = self.state();
        if state.objected.is_some_and(|(at, _)| at.elapsed() >= CALM) {
            self.0.turns.add_permits(self.0.most - state.open);
            *state = State { open: self.0.most, objected: None, sent: None };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Ends the turn because the API objected, and with it the lane unless it is the last. Nothing is sent for `wait`.
    pub(crate) fn objected(self, wait: Duration) {
        let mut state = self.lanes.state();
        let now = Instant::now();
        let until = state.objected.map_or(now, |(_, until)| until).max(now + wait);
        state.objected = Some((now, until));
        if state.open > 1 {
            state.open -= 1;
            self.permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn objections_close_lanes_down_to_one_and_calm_opens_them() {
        let lanes = Lanes::new(3);
        for open in [2, 1, 1] {
            lanes.turn().await.unwrap().objected(WAIT);
            assert_eq!(lanes.open(), open);
        }
        let only = lanes.turn().await.unwrap();
        let second = tokio::time::timeout(CALM, lanes.turn()).await;
        assert!(second.is_err(), "one lane is one request at a time");
        drop(only);
        let all = [lanes.turn().await, lanes.turn().await, lanes.turn().await];
        assert_eq!((all.len(), lanes.open()), (3, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_while_a_refused_request_waits() {
        let lanes = Lanes::new(3);
        let started = Instant::now();
        let turns = [lanes.turn().await.unwrap(), lanes.turn().await.unwrap()];
        assert_eq!(started.elapsed(), Duration::ZERO);
        for turn in turns {
            turn.objected(WAIT);
        }
        drop(lanes.turn().await);
        assert_eq!(started.elapsed(), WAIT);
        drop(lanes.turn().await);
        assert_eq!(started.elapsed(), WAIT + GAP, "one lane is left, and it is paced");
    }
}
