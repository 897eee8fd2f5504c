//! What a test can set: the day, the limits of a site, the inspections that are left.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::civil::Date;
use serde_json::Value;

use super::request::parse_date;
use crate::google_error::GoogleError;
use crate::lock;

/// URL inspections of a site on one day; Google allows 2,000.
pub(crate) const INSPECTIONS_A_DAY: u64 = 20;

/// How long a site refuses after a burst when the limit doesn't say.
const DEFAULT_PAUSE_MS: u64 = 1_000;

const LIMITS_PAGE: &str = "https://developers.google.com/webmaster-tools/v3/limits";

/// The forms in which Google refuses for quota.
const REFUSALS: [(&str, u16, &str, &str); 5] = [
    ("qps", 403, "quotaExceeded", "Search Analytics QPS quota exceeded."),
    ("qps_429", 429, "rateLimitExceeded", "Search Analytics QPS quota exceeded."),
    ("load", 403, "quotaExceeded", "Search Analytics load quota exceeded."),
    ("rate", 429, "rateLimitExceeded", "Rate Limit Exceeded"),
    ("rate_403", 403, "rateLimitExceeded", "Rate Limit Exceeded"),
];

/// A limit of one site.
#[derive(Clone, Debug)]
struct Limit {
    in_flight: Option<u64>,
    per_second: Option<usize>,
    requests: Option<u64>,
    /// Index into [`REFUSALS`].
    refusal: usize,
    pause: Duration,
}

#[derive(Debug, Default)]
struct SiteState {
    limit: Option<Limit>,
    in_flight: u64,
    /// Requests let in since the limit was set.
    admitted: u64,
    refused: u64,
    recent: VecDeque<Instant>,
    until: Option<Instant>,
}

/// The switches of Search Console; as JSON also through `POST /__sandbox/search_console`, and taken back by `DELETE`.
#[derive(Debug, Default)]
pub struct Switches {
    today: Mutex<Option<Date>>,
    sites: Arc<Mutex<HashMap<String, SiteState>>>,
    /// Inspections used, by site and day.
    inspections: Mutex<HashMap<(String, i32), u64>>,
    /// Inspections allowed, where a test has set them.
    allowed: Mutex<HashMap<String, u64>>,
}

/// A running request: frees its place when dropped.
pub(crate) struct Running {
    sites: Arc<Mutex<HashMap<String, SiteState>>>,
    site: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(state) = lock(&self.sites).get_mut(&self.site) {
            state.in_flight = state.in_flight.saturating_sub(1);
        }
    }
}

impl Switches {
    /// Sets one or more of:
    ///
    /// - `{"today": "2026-11-05"}`: Search Console's today (its evening, Pacific time); null for the clock's.
    /// - `{"limit": {"site", "in_flight", "per_second", "requests", "refusal", "for_ms"}}`: the site refuses search analytics
    ///   for `for_ms` (1,000) once more than `in_flight` run at a time or more than `per_second` began within a second, and
    ///   for good after `requests` answers. `refusal` is `qps` (403 quotaExceeded), `qps_429`, `load` (403 quotaExceeded),
    ///   `rate` (429 rateLimitExceeded) or `rate_403`; `load` when only `requests` is given, otherwise `qps`.
    /// - `{"inspections": {"site", "left"}}`: URL inspections that the site has left today.
    ///
    /// # Errors
    /// A text that says which part isn't understood.
    pub fn set_json(&self, value: &Value) -> Result<(), String> {
        let map = value.as_object().ok_or("the switches are a JSON object")?;
        for (key, value) in map {
            match key.as_str() {
                "today" if value.is_null() => *lock(&self.today) = None,
                "today" => {
                    let date = value.as_str().and_then(parse_date).ok_or("`today` must be YYYY-MM-DD or null")?;
                    *lock(&self.today) = Some(date);
                }
                "limit" => self.set_limit(value)?,
                "inspections" => {
                    let left = value["left"].as_u64().ok_or("`inspections.left` must be a non-negative integer")?;
                    lock(&self.inspections).clear();
                    lock(&self.allowed).insert(site(value)?, left);
                }
                _ => return Err(format!("unknown switch `{key}`; known: today, limit, inspections")),
            }
        }
        Ok(())
    }

    /// Takes everything back, and forgets the inspections that were counted.
    pub fn clear(&self) {
        *lock(&self.today) = None;
        lock(&self.inspections).clear();
        lock(&self.allowed).clear();
        for state in lock(&self.sites).values_mut() {
            *state = SiteState { in_flight: state.in_flight, ..SiteState::default() };
        }
    }

    /// How many requests the site's limit has refused.
    pub fn refused(&self, site: &str) -> u64 {
        lock(&self.sites).get(site).map_or(0, |state| state.refused)
    }

    fn set_limit(&self, value: &Value) -> Result<(), String> {
        const KNOWN: [&str; 6] = ["site", "in_flight", "per_second", "requests", "refusal", "for_ms"];
        let map = value.as_object().ok_or("`limit` must be an object")?;
        if let Some(key) = map.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(format!("unknown key `{key}` in limit; known: {}", KNOWN.join(", ")));
        }
        let number = |key: &str| match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| format!("`{key}` must be a non-negative integer")),
        };
        let (in_flight, per_second, requests) = (number("in_flight")?, number("per_second")?, number("requests")?);
        let burst = in_flight.is_some() || per_second.is_some();
        if !burst && requests.is_none() {
            return Err("a limit needs `in_flight`, `per_second` or `requests`".to_owned());
        }
        let name = match map.get("refusal") {
            None | Some(Value::Null) if burst => "qps",
            None | Some(Value::Null) => "load",
            Some(name) => name.as_str().ok_or("`refusal` must be a string")?,
        };
        let refusal = REFUSALS.iter().position(|(known, ..)| *known == name).ok_or_else(|| {
            let known: Vec<&str> = REFUSALS.iter().map(|(known, ..)| *known).collect();
            format!("unknown refusal `{name}`; known: {}", known.join(", "))
        })?;
        let limit = Limit {
            in_flight,
            per_second: per_second.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            requests,
            refusal,
            pause: Duration::from_millis(number("for_ms")?.unwrap_or(DEFAULT_PAUSE_MS)),
        };
        let mut sites = lock(&self.sites);
        let state = sites.entry(site(value)?).or_default();
        *state = SiteState { limit: Some(limit), in_flight: state.in_flight, ..SiteState::default() };
        Ok(())
    }

    /// The day that a test has set.
    pub(crate) fn today(&self) -> Option<Date> {
        *lock(&self.today)
    }

    /// Lets a request for search analytics in, or refuses it.
    pub(crate) fn admit(&self, site: &str) -> Result<Running, GoogleError> {
        let mut sites = lock(&self.sites);
        let state = sites.entry(site.to_owned()).or_default();
        if let Some(limit) = state.limit.clone()
            && state.is_over(&limit)
        {
            state.refused += 1;
            return Err(refusal(limit.refusal));
        }
        state.admitted += 1;
        state.in_flight += 1;
        Ok(Running { sites: Arc::clone(&self.sites), site: site.to_owned() })
    }

    /// Counts an inspection, or refuses it.
    pub(crate) fn inspect(&self, site: &str, today: i32) -> Result<(), GoogleError> {
        let allowed = lock(&self.allowed).get(site).copied().unwrap_or(INSPECTIONS_A_DAY);
        let mut inspections = lock(&self.inspections);
        let used = inspections.entry((site.to_owned(), today)).or_default();
        if *used >= allowed {
            return Err(GoogleError::exhausted(&format!("Quota exceeded for {site}.")));
        }
        *used += 1;
        Ok(())
    }
}

impl SiteState {
    fn is_over(&mut self, limit: &Limit) -> bool {
        let now = Instant::now();
        if self.until.is_some_and(|until| now < until) {
            return true;
        }
        if limit.requests.is_some_and(|requests| self.admitted >= requests) {
            return true;
        }
        self.recent.retain(|began| now.duration_since(*began) < Duration::from_secs(1));
        self.recent.push_back(now);
        let crowded = limit.in_flight.is_some_and(|most| self.in_flight >= most);
        let fast = limit.per_second.is_some_and(|most| self.recent.len() > most);
        if crowded || fast {
            self.until = Some(now + limit.pause);
        }
        crowded || fast
    }
}

fn site(value: &Value) -> Result<String, String> {
    value["site"].as_str().map(str::to_owned).ok_or_else(|| "`site` (a string) is required".to_owned())
}

fn refusal(index: usize) -> GoogleError {
    let (name, code, reason, message) = REFUSALS[index];
    let message = if name.starts_with("rate") {
        message.to_owned()
    } else {
        format!("{message} Learn about usage limits: {LIMITS_PAGE}.")
    };
    let error = GoogleError::legacy(code, "usageLimits", reason, message);
    if name == "qps_429" { error.with_status("RESOURCE_EXHAUSTED") } else { error }
}
