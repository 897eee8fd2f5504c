//! The machine's clock, seen from a property's time zone.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Microseconds in one second.
pub(crate) const MICROS: i64 = 1_000_000;

/// Now, in microseconds since 1970 (UTC).
pub(crate) fn now_micros() -> i64 {
    i64::try_from(since_epoch().as_micros()).unwrap_or(i64::MAX)
}

/// Now, in whole seconds since 1970 (UTC).
pub(crate) fn now_seconds() -> i64 {
    i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX)
}

fn since_epoch() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Today's date in a time zone: relative dates are inferred in the property's reporting time zone.
pub(crate) fn today(zone: &TimeZone) -> Date {
    zone.to_datetime(Timestamp::now()).date()
}

/// The number of days since 1970-01-01: dates become plain integers inside the engine.
pub(crate) fn day_number(date: Date) -> i32 {
    let days = jiff::civil::date(1970, 1, 1).duration_until(date).as_hours() / 24;
    i32::try_from(days).unwrap_or(0)
}

/// The date of a day number; saturates at the ends of the calendar.
pub(crate) fn date_of(day: i32) -> Date {
    jiff::civil::date(1970, 1, 1).saturating_add(jiff::Span::new().days(day))
}

/// The time zone of that IANA name, or UTC when the machine's database lacks it.
pub(crate) fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}
