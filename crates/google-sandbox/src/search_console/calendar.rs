//! Which days have data, and how far each of them has been processed.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::request::{DataState, QueryRequest};
use super::searches::Search;
use crate::clock::{date_of, day_number, now_seconds};
use crate::events::mix;

/// Months that are kept.
const MONTHS: i32 = 16;
/// Days with hourly data, today included.
const HOURLY_DAYS: i32 = 10;
/// Hours until a search shows up at all.
const DELAY_HOURS: i32 = 2;
/// Hours until an hour of hourly data is complete.
const HOURS_INCOMPLETE: i32 = 26;

/// The days of Search Console, seen from a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calendar {
    pub(crate) oldest: i32,
    pub(crate) today: i32,
    /// The last day of final data: two or three days ago.
    pub(crate) last_final: i32,
    /// Hours since 1970.
    now: i32,
}

impl Calendar {
    /// The calendar now, or in the evening of a day that a test has set.
    pub(crate) fn new(seed: u64, zone: &TimeZone, set: Option<Date>) -> Self {
        let evening = set.and_then(|date| zone.to_timestamp(date.at(18, 0, 0, 0)).ok());
        let seconds = evening.map_or_else(now_seconds, Timestamp::as_second);
        let date = zone.to_datetime(Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)).date();
        let today = day_number(date);
        let late = i32::from(mix(seed, u64::from(today.unsigned_abs())).is_multiple_of(2));
        Self {
            oldest: day_number(date.saturating_sub(jiff::Span::new().months(MONTHS))),
            today,
            last_final: today - 2 - late,
            now: i32::try_from(seconds / 3600).unwrap_or(0),
        }
    }

    /// The days of a request that have data. What lies outside is left out without a word.
    pub(crate) fn days(&self, request: &QueryRequest) -> RangeInclusive<i32> {
        let (first, last) = match request.state {
            DataState::Final => (self.oldest, self.last_final),
            DataState::All => (self.oldest, self.today),
            DataState::HourlyAll => (self.today - HOURLY_DAYS + 1, self.today),
        };
        day_number(request.first).max(first)..=day_number(request.last).min(last)
    }

    /// Whether a search of `day` has been processed.
    pub(crate) fn knows(&self, state: DataState, day: i32, search: &Search) -> bool {
        let share = match state {
            DataState::Final => return true,
            DataState::All if day <= self.last_final => return true,
            DataState::HourlyAll if search.hour < self.first_incomplete_hour() => return true,
            DataState::HourlyAll => 70,
            DataState::All => match self.today - day {
                0 => 50,
                1 => 75,
                _ => 92,
            },
        };
        search.processed < share && search.hour <= self.now - DELAY_HOURS
    }

    /// The first day that isn't final.
    pub(crate) fn first_incomplete_day(&self) -> Date {
        date_of(self.last_final + 1)
    }

    /// The first hour (since 1970) that isn't complete.
    pub(crate) fn first_incomplete_hour(&self) -> i32 {
        self.now - HOURS_INCOMPLETE
    }
}

/// An hour as rows and metadata write it: `2026-11-01T01:00:00-07:00`.
pub(crate) fn hour_text(zone: &TimeZone, hour: i32) -> String {
    let time = timestamp(hour);
    let local = zone.to_datetime(time);
    let offset = zone.to_offset(time).seconds() / 3600;
    let sign = if offset < 0 { '-' } else { '+' };
    format!("{}T{:02}:00:00{sign}{:02}:00", local.date(), local.hour(), offset.abs())
}

/// The local day of an hour.
pub(crate) fn hour_date(zone: &TimeZone, hour: i32) -> Date {
    zone.to_datetime(timestamp(hour)).date()
}

fn timestamp(hour: i32) -> Timestamp {
    Timestamp::from_second(i64::from(hour) * 3600).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_months_and_two_or_three_days() {
        let zone = crate::clock::zone(super::super::searches::ZONE);
        let date = jiff::civil::date(2026, 9, 25);
        let calendar = Calendar::new(42, &zone, Some(date));
        assert_eq!(date_of(calendar.today), date);
        assert_eq!(date_of(calendar.oldest), jiff::civil::date(2025, 5, 25));
        let late: Vec<i32> = (1..29)
            .map(|day| Calendar::new(42, &zone, Some(jiff::civil::date(2026, 9, day))))
            .map(|calendar| calendar.today - calendar.last_final)
            .collect();
        assert!(late.contains(&2) && late.contains(&3) && late.iter().all(|n| (2..=3).contains(n)), "{late:?}");
    }

    #[test]
    fn the_hour_that_comes_twice_has_two_offsets() {
        let zone = crate::clock::zone(super::super::searches::ZONE);
        let first = zone.to_timestamp(jiff::civil::date(2026, 11, 1).at(1, 0, 0, 0)).unwrap();
        let hour = i32::try_from(first.as_second() / 3600).unwrap();
        assert_eq!(hour_text(&zone, hour), "2026-11-01T01:00:00-07:00");
        assert_eq!(hour_text(&zone, hour + 1), "2026-11-01T01:00:00-08:00");
    }
}
