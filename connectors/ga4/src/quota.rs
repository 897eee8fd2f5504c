//! What Google said about a property's quota, remembered, so that a bucket that is empty is not asked again and again.
//!
//! Each refusal is a client error, of which Google counts too, and ten server errors in an hour lock the property.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use acp_core::{Error, Result};
use acp_google::{Failure, GoogleError};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Refusals in a row that open a breaker: the first may have come at the end of a window.
const REFUSALS: u32 = 2;
/// Requests in a row that failed with server errors: each was tried twice, and Google allows ten.
const FAILURES: u32 = 3;
/// How often one request is let through to see whether the bucket is back: Google does not say when an hour began.
const PROBE: SignedDuration = SignedDuration::from_mins(5);

/// Reports of each kind have buckets of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reports, their fields, and whether they go together.
    Core,
    Realtime,
    Funnel,
}

/// What can be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bucket {
    ProjectHour,
    Hour,
    Day,
    Thresholded,
    ClientErrors,
    ServerErrors,
}

/// The breakers of one property for one identity.
#[derive(Debug, Default)]
pub(crate) struct Breakers([Mutex<Breaker>; 3]);

/// Open while a bucket is empty.
#[derive(Debug, Default)]
struct Breaker {
    /// The bucket that refused last, how often in a row, and when first and last.
    refused: Option<Refused>,
}

#[derive(Clone, Copy, Debug)]
struct Refused {
    bucket: Bucket,
    times: u32,
    first: Timestamp,
    last: Timestamp,
}

impl Bucket {
    /// The bucket that a refusal names.
    fn of(error: &GoogleError) -> Option<Self> {
        let text = &error.message;
        let has = |part: &str| text.contains(part);
        match () {
            () if !error.is_quota() => (500..600).contains(&error.http_status).then_some(Self::ServerErrors),
            () if has("thresholded") => Some(Self::Thresholded),
            () if has("client errors") => Some(Self::ClientErrors),
            () if has("server errors") => Some(Self::ServerErrors),
            () if has("per day") => Some(Self::Day),
            () if has("project per hour") => Some(Self::ProjectHour),
            () if has("per hour") => Some(Self::Hour),
            () => None,
        }
    }

    fn most(self) -> u32 {
        if self == Self::ServerErrors { FAILURES } else { REFUSALS }
    }

    /// When it is back at the latest, if it was empty then.
    fn returns(self, empty: Timestamp) -> Timestamp {
        let after = |minutes: i64| empty + SignedDuration::from_mins(minutes);
        match self {
            Self::ClientErrors => after(15),
            Self::ProjectHour | Self::Hour | Self::Thresholded | Self::ServerErrors => after(60),
            Self::Day => TimeZone::get("America/Los_Angeles")
                .ok()
                .and_then(|zone| {
                    zone.to_timestamp(
                        zone.to_datetime(empty).date().tomorrow().ok()?.to_datetime(jiff::civil::Time::midnight()),
                    )
                    .ok()
                })
                .unwrap_or(after(24 * 60)),
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ProjectHour => "tokens of this Cloud project for the property and hour",
            Self::Hour => "tokens of the property for the hour",
            Self::Day => "tokens of the property for the day, which are back within 24 hours, at midnight Pacific time",
            Self::Thresholded => "potentially thresholded requests of the hour",
            Self::ClientErrors => "client errors of 15 minutes",
            Self::ServerErrors => "server errors of the hour, of which Google allows ten",
        })
    }
}

impl Breakers {
    /// Whether a request may be sent. While a bucket is empty it may not, but for one now and then.
    pub(crate) fn admit(&self, kind: Kind, now: Timestamp) -> Result<()> {
        self.of(kind).admit(now)
    }

    /// Remembers what came of a request.
    pub(crate) fn note<T>(&self, kind: Kind, outcome: &Result<T, Failure>, now: Timestamp) {
        match outcome {
            Ok(_) => self.of(kind).refused = None,
            Err(failure) => {
                if let Some(bucket) = failure.google().and_then(Bucket::of) {
                    self.of(kind).note(bucket, now);
                }
            }
        }
    }

    /// Whether nothing is remembered.
    pub(crate) fn are_closed(&self) -> bool {
        [Kind::Core, Kind::Realtime, Kind::Funnel].into_iter().all(|kind| self.of(kind).refused.is_none())
    }

    fn of(&self, kind: Kind) -> MutexGuard<'_, Breaker> {
        self.0[kind as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Breaker {
    fn admit(&mut self, now: Timestamp) -> Result<()> {
        let Some(refused) = &mut self.refused else { return Ok(()) };
        let returns = refused.bucket.returns(refused.first);
        if now >= returns {
            self.refused = None;
            return Ok(());
        }
        if refused.times < refused.bucket.most() {
            return Ok(());
        }
        let probe = refused.last + PROBE;
        if now >= probe {
            // The others wait for what comes of it.
            refused.last = now;
            return Ok(());
        }
        let clock = |time: Timestamp| time.strftime("%Y-%m-%d %H:%M UTC").to_string();
        Err(Error::upstream(format!(
            "Google was not asked, a quota is used up: {}. It refused at {} and is back at {} at the latest; the next request is let through \
             after {}. Do not retry before; another property has its own quota.",
            refused.bucket,
            clock(refused.first),
            clock(returns),
            clock(probe)
        ))
        .with_data("retry_after_s", probe.duration_since(now).as_secs()))
    }

    fn note(&mut self, bucket: Bucket, now: Timestamp) {
        match &mut self.refused {
            Some(refused) if refused.bucket == bucket => {
                refused.times += 1;
                refused.last = now;
            }
            _ => self.refused = Some(Refused { bucket, times: 1, first: now, last: now }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, message: &str) -> Result<(), Failure> {
        let body = serde_json::json!({"error": {"message": message, "status": "RESOURCE_EXHAUSTED"}}).to_string();
        Err(GoogleError::parse(status, body.as_bytes(), None).into())
    }

    fn at(text: &str) -> Timestamp {
        format!("2026-12-01T{text}Z").parse().unwrap()
    }

    #[test]
    fn a_bucket_that_refuses_twice_is_left_alone_until_it_may_be_back() {
        for (status, message, words, back) in [
            (
                429,
                "Exhausted property tokens for a project per hour. These return in under an hour.",
                "Cloud project",
                "13:00",
            ),
            (429, "Exhausted property tokens per hour.", "of the property for the hour", "13:00"),
            (429, "Exhausted property tokens per day. These return in under 24 hours.", "24 hours", "2026-12-02 08:00"),
            (429, "Exhausted potentially thresholded requests quota.", "thresholded", "13:00"),
            (429, "Exhausted client errors quota. It returns in under 15 minutes.", "client errors", "12:15"),
            (429, "Exhausted server errors quota.", "server errors", "13:00"),
            (500, "Internal error encountered.", "server errors", "13:00"),
        ] {
            let breakers = Breakers::default();
            let times = if words == "server errors" { FAILURES } else { REFUSALS };
            for _ in 0..times {
                assert!(breakers.admit(Kind::Core, at("12:00:00")).is_ok(), "{message}");
                breakers.note(Kind::Core, &refusal(status, message), at("12:00:00"));
            }
            let error = breakers.admit(Kind::Core, at("12:04:59")).unwrap_err();
            assert!(error.message().contains(words) && error.message().contains(back), "{error}");
            assert_eq!(error.data().unwrap()["retry_after_s"], 1);
            assert!(breakers.admit(Kind::Realtime, at("12:04:59")).is_ok(), "it has buckets of its own");
            // One is let through, the others wait for it.
            assert!(breakers.admit(Kind::Core, at("12:05:00")).is_ok());
            assert!(breakers.admit(Kind::Core, at("12:05:01")).is_err());
            breakers.note(Kind::Core, &Ok(()), at("12:05:02"));
            assert!(breakers.admit(Kind::Core, at("12:05:02")).is_ok() && breakers.are_closed());
        }
    }

    #[test]
    fn a_single_refusal_and_other_failures_open_nothing() {
        let breakers = Breakers::default();
        let hour = "Exhausted property tokens per hour.";
        for (status, message) in [(429, hour), (429, "Exhausted property tokens per day."), (429, hour)] {
            breakers.note(Kind::Core, &refusal(status, message), at("12:00:00"));
            assert!(breakers.admit(Kind::Core, at("12:00:01")).is_ok());
        }
        for message in ["Exhausted concurrent requests quota.", "Too many requests."] {
            let breakers = Breakers::default();
            for _ in 0..9 {
                breakers.note(Kind::Core, &refusal(429, message), at("12:00:00"));
            }
            assert!(breakers.are_closed(), "{message}");
        }
        let breakers = Breakers::default();
        for _ in 0..9 {
            breakers.note(Kind::Funnel, &refusal(400, "Please remove X."), at("12:00:00"));
        }
        assert!(breakers.are_closed());
    }

    #[test]
    fn it_closes_when_the_bucket_is_back_at_the_latest() {
        let breakers = Breakers::default();
        for _ in 0..2 {
            breakers.note(Kind::Core, &refusal(429, "Exhausted property tokens per hour."), at("12:00:00"));
        }
        assert!(breakers.admit(Kind::Core, at("12:01:00")).is_err());
        assert!(breakers.admit(Kind::Core, at("13:00:00")).is_ok() && breakers.are_closed());
    }
}
