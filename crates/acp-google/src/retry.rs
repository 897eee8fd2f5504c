//! The one retry policy: what is worth another try, how often, and after how long.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::error::{Failure, GoogleError, TransportKind};
use crate::google::Timing;

/// Tries after the first for faults that usually pass at once.
const TRANSIENT: u32 = 3;
/// Tries after the first for rate limits: their windows are longer, so the waits add up to the budget.
const RATE_LIMIT: u32 = 6;
/// Analytics locks a property after ten internal errors in an hour, and some requests fail this way every time.
const INTERNAL: u32 = 1;

/// The waits of one request. It counts tries and adds up waits across everything that goes wrong with the request.
#[derive(Debug)]
pub(crate) struct Waits<'a> {
    timing: &'a Timing,
    retries: u32,
    waited: Duration,
    /// Whether something is asked for that was just made.
    until_there: bool,
}

impl<'a> Waits<'a> {
    pub(crate) fn new(timing: &'a Timing) -> Self {
        Self { timing, retries: 0, waited: Duration::ZERO, until_there: false }
    }

    /// For a request that is not simply sent again.
    pub(crate) fn none(timing: &'a Timing) -> Self {
        Self { retries: u32::MAX, ..Self::new(timing) }
    }

    /// For something that was just made, which may not be found at once.
    pub(crate) fn until_there(timing: &'a Timing) -> Self {
        Self { until_there: true, ..Self::new(timing) }
    }

    /// Waits before the next try, or gives the failure back when there is to be none.
    pub(crate) async fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let Some(wait) = self.next(&failure) else { return Err(failure) };
        tracing::debug!(wait_ms = wait.as_millis() as u64, retry = self.retries, "waiting before another try");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Tries so far, after the first.
    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    fn next(&mut self, failure: &Failure) -> Option<Duration> {
        let missing = self.until_there && failure.google().is_some_and(|error| error.http_status == 404);
        let most = if missing { TRANSIENT } else { most_retries(failure, self.timing) };
        if self.retries >= most {
            return None;
        }
        let wait = match failure.google().and_then(|error| error.retry_after) {
            Some(asked) => asked,
            None => backoff(self.timing, self.retries),
        };
        if self.waited + wait > self.timing.wait_budget {
            return None;
        }
        self.retries += 1;
        self.waited += wait;
        Some(wait)
    }
}

/// Doubles from the first wait on, up to the longest; half of it is left to chance, so that calls which failed
/// together don't come back together.
pub(crate) fn backoff(timing: &Timing, retries: u32) -> Duration {
    let full = timing.first_wait.saturating_mul(1 << retries.min(16)).min(timing.longest_wait);
    full.mul_f64(0.5 + 0.5 * chance())
}

fn most_retries(failure: &Failure, timing: &Timing) -> u32 {
    match failure {
        Failure::Google(error) => most_retries_of(error, timing),
        // A second try after a timeout of minutes would outlast the patience of whoever waits.
        Failure::Transport(transport) if transport.kind == TransportKind::Timeout => 0,
        // Nor does a certificate get better.
        Failure::Transport(transport) if transport.is_certificate() => 0,
        Failure::Transport(_) => TRANSIENT,
        Failure::Acp(_) => 0,
    }
}

fn most_retries_of(error: &GoogleError, timing: &Timing) -> u32 {
    if error.is_quota() || error.is_final() {
        return 0;
    }
    if error.retry_after.is_some_and(|wait| wait > timing.longest_retry_after) {
        return 0;
    }
    match error.http_status {
        400 | 403 | 429 if error.is_rate_limit() => RATE_LIMIT,
        429 if error.retry_after.is_some() => TRANSIENT,
        500 => INTERNAL,
        502..=504 => TRANSIENT,
        _ => 0,
    }
}

/// From 0 to 1. Every `RandomState` has other keys; for spreading waits that is random enough.
fn chance() -> f64 {
    f64::from(RandomState::new().build_hasher().finish() as u32) / f64::from(u32::MAX)
}

/// The wait a `Retry-After` header asks for: seconds, or a date (RFC 9110, 10.2.3).
pub(crate) fn retry_after(header: &str) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = http_date(header)?;
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

/// A date as HTTP writes it.
pub(crate) fn http_date(text: &str) -> Option<jiff::Timestamp> {
    Some(jiff::fmt::rfc2822::parse(text).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn google(status: u16, reason: &str, message: &str, retry_after: Option<u64>) -> Failure {
        let body = json!({"error": {"message": message, "errors": [{"reason": reason}]}}).to_string();
        GoogleError::parse(status, body.as_bytes(), retry_after.map(Duration::from_secs)).into()
    }

    #[test]
    fn only_what_passes_by_itself_is_tried_again() {
        let timing = Timing::default();
        let per_day = GoogleError::parse(
            429,
            br#"{"error":{"details":[{"reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"QueriesPerDay"}}]}}"#,
            None,
        );
        for (failure, tries) in [
            (google(429, "rateLimitExceeded", "", None), RATE_LIMIT),
            (google(403, "userRateLimitExceeded", "", None), RATE_LIMIT),
            (google(429, "", "Exhausted concurrent requests quota.", None), RATE_LIMIT),
            (google(429, "", "Busy", Some(20)), TRANSIENT),
            (google(429, "", "Busy", Some(21)), 0),
            (google(429, "", "Busy", None), 0),
            (google(429, "", "Exhausted property tokens per day.", Some(1)), 0),
            (google(429, "", "Exhausted potentially thresholded requests quota.", None), 0),
            (google(403, "quotaExceeded", "Quota exceeded", None), 0),
            (google(403, "quotaExceeded", "Search Analytics QPS quota exceeded.", None), RATE_LIMIT),
            (google(403, "quotaExceeded", "Search Analytics load quota exceeded.", None), 0),
            (google(500, "quotaExceeded", "Quota exceeded", None), 0),
            (google(500, "bytesBilledLimitExceeded", "", None), 0),
            (google(403, "forbidden", "", Some(1)), 0),
            (per_day.into(), 0),
            (google(500, "backendError", "", None), INTERNAL),
            (google(502, "", "", None), TRANSIENT),
            (google(503, "", "", Some(60)), 0),
            (google(504, "", "", None), TRANSIENT),
            (google(400, "", "", None), 0),
            (google(404, "", "", None), 0),
            (Failure::transport(TransportKind::Connect, ""), TRANSIENT),
            (Failure::transport(TransportKind::Connect, "invalid peer certificate: UnknownIssuer"), 0),
            (Failure::transport(TransportKind::NoAnswer, ""), TRANSIENT),
            (Failure::transport(TransportKind::Broken, ""), TRANSIENT),
            (Failure::transport(TransportKind::Timeout, ""), 0),
        ] {
            assert_eq!(most_retries(&failure, &timing), tries, "{failure:?}");
        }
    }

    #[test]
    fn waits_double_and_stay_within_the_budget() {
        let timing = Timing::default();
        let mut waits = Waits::new(&timing);
        let failure = google(429, "rateLimitExceeded", "", None);
        for full in [250, 500, 1000, 2000, 4000, 8000] {
            let wait = waits.next(&failure).unwrap().as_millis();
            assert!((full / 2..=full).contains(&wait), "{wait} of {full}");
        }
        assert_eq!(waits.next(&failure), None);

        let mut waits = Waits::new(&timing);
        let failure = google(503, "", "", Some(16));
        assert_eq!(waits.next(&failure), Some(Duration::from_secs(16)));
        assert_eq!(waits.next(&failure), None, "32 seconds are over the budget");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(90);
        let soon = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let wait = retry_after(&soon).unwrap().as_secs();
        assert!((85..=90).contains(&wait), "{wait}");
        assert_eq!(retry_after("soon"), None);
    }
}
