//! Which days there are data for, and which of them a question is about. All days are Google's, in Pacific time.

use acp_core::{Call, Clock, DateWindow, Error, Result};
use acp_google::Failure;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};
use serde_json::json;

use crate::api::{PAGE_ROWS, SearchConsole, SearchRequest, Site};
use crate::check::DataState;

/// Months that Google keeps.
const KEPT_MONTHS: i32 = 16;
/// Days after which data are final as a rule.
const USUAL_DELAY: i32 = 3;
/// Days that are looked at to find the last reliable one.
const MEASURED_DAYS: i32 = 10;
/// Days for which there are hours.
const HOURLY_DAYS: i32 = 10;

/// The days a property has data for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Available {
    /// The first day that Google keeps.
    pub(crate) first: Date,
    /// The last day whose data will not change any more.
    pub(crate) last_reliable: Date,
}

/// Today where Google's days are counted.
pub(crate) fn today(clock: Clock) -> Result<Date> {
    let zone = TimeZone::get("America/Los_Angeles").map_err(|_| {
        Error::upstream("This computer does not know Pacific time, in which Google counts its days. Report this error.")
    })?;
    Ok(clock.today(&zone))
}

fn back(day: Date, span: Span) -> Date {
    day.saturating_sub(span)
}

impl Available {
    /// Asks which of the last days have final data. A property with little traffic may have none on the day before the
    /// boundary; then the boundary itself is asked for, which Google tells beside fresh data.
    pub(crate) async fn measure(site: &Site, clock: Clock) -> Result<Self, Failure> {
        let today = today(clock)?;
        let first = back(today, KEPT_MONTHS.months());
        let usual = back(today, USUAL_DELAY.days());
        let request = |data_state: DataState| SearchRequest {
            start_date: back(today, MEASURED_DAYS.days()).to_string(),
            end_date: today.to_string(),
            dimensions: vec![json!("date")],
            search_type: json!("web"),
            data_state: Some(json!(data_state.name())),
            row_limit: PAGE_ROWS,
            ..SearchRequest::default()
        };
        let page = site.search(&request(DataState::Final)).await?;
        let mut last: Option<Date> = None;
        page.each(|row| {
            // A day without traffic may come as a row of zeros, which says nothing about it.
            if row.impressions > 0.0 {
                last = last.max(row.keys.first().and_then(|key| key.0.parse().ok()));
            }
            Ok(())
        })?;
        if let Some(last_reliable) = last.filter(|last| *last >= usual) {
            return Ok(Self { first, last_reliable });
        }
        let fresh = site.search(&request(DataState::All)).await?.end.metadata.first_incomplete_date;
        let boundary = fresh.and_then(|day| day.parse::<Date>().ok()).map(|day| back(day, 1.day()));
        Ok(Self { first, last_reliable: boundary.filter(|day| *day < today).unwrap_or(usual) })
    }
}

/// The bounds as they were given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) start: Option<&'a str>,
    pub(crate) end: Option<&'a str>,
    pub(crate) data_state: DataState,
}

/// The window of a question: the given days, or one calendar month up to the last reliable day. Days that Google does not
/// keep are cut off, with a warning.
pub(crate) async fn resolve(
    console: &SearchConsole,
    site: &Site,
    call: &Call,
    bounds: Bounds<'_>,
) -> Result<DateWindow> {
    let today = today(call.clock())?;
    // Whatever is wrong with the given bounds is told before anything is asked.
    let check = |start, end| DateWindow::resolve(start, end, ("0001-01-01", "9999-12-31"), today);
    check(bounds.start, bounds.end)?;
    let known = back(today, (USUAL_DELAY + 1).days());
    let given_end = bounds.end.map(|end| check(None, Some(end))).transpose()?.map(|window| window.end);
    let needs_boundary = bounds.data_state == DataState::Final && given_end.is_none_or(|end| end > known);
    let available = match needs_boundary || (given_end.is_none() && bounds.data_state != DataState::HourlyAll) {
        true => Some(console.available(site, call).await?),
        false => None,
    };
    let end = given_end.unwrap_or_else(|| available.map_or(today, |available| available.last_reliable));
    let default_start = match bounds.data_state {
        DataState::HourlyAll => back(end, 1.day()),
        DataState::Final | DataState::All => back(end, 1.month()),
    };
    let (default_start, end_text) = (default_start.to_string(), end.to_string());
    let window = DateWindow::resolve(bounds.start, Some(&end_text), (&default_start, &end_text), today)?;
    clamp(window, today, available, bounds.data_state, call)
}

/// The window that a question will have as a rule, without asking Google for the last reliable day.
pub(crate) fn expected(call: &Call, bounds: Bounds<'_>) -> Result<DateWindow> {
    let today = today(call.clock())?;
    let usual = Available { first: back(today, KEPT_MONTHS.months()), last_reliable: back(today, USUAL_DELAY.days()) };
    let (span, end) = match bounds.data_state {
        DataState::HourlyAll => (1.day(), today),
        DataState::Final | DataState::All => (1.month(), usual.last_reliable),
    };
    let given = DateWindow::resolve(bounds.start, bounds.end, ("0001-01-01", "9999-12-31"), today)?;
    let end = if bounds.end.is_some() { given.end } else { end };
    let (default_start, end_text) = (back(end, span).to_string(), end.to_string());
    let window = DateWindow::resolve(bounds.start, Some(&end_text), (&default_start, &end_text), today)?;
    clamp(window, today, Some(usual), bounds.data_state, call)
}

/// The window of a question about final days alone: the given ones, or so many up to the last reliable one. It ends with the
/// last reliable day whatever was asked for, since a period with unfinished days looks like a fall.
pub(crate) async fn resolve_final(
    console: &SearchConsole,
    site: &Site,
    call: &Call,
    start: Option<&str>,
    end: Option<&str>,
    usual: Span,
) -> Result<DateWindow> {
    let today = today(call.clock())?;
    let given = DateWindow::resolve(start, end, ("0001-01-01", "9999-12-31"), today)?;
    let available = console.available(site, call).await?;
    let last = available.last_reliable;
    if start.is_some() && given.start > last {
        return Err(Error::invalid_arguments(format!(
            "Final data end on {last}; start_date is {}. Use earlier dates.",
            given.start
        )));
    }
    if end.is_some() && given.end > last {
        call.warn(format!("Final data end on {last}: the period ends there instead of {}.", given.end));
    }
    let end = given.end.min(last);
    let start = if start.is_some() { given.start } else { back(end, usual) };
    clamp(DateWindow { start, end }, today, Some(available), DataState::Final, call)
}

fn clamp(
    window: DateWindow,
    today: Date,
    available: Option<Available>,
    data_state: DataState,
    call: &Call,
) -> Result<DateWindow> {
    let DateWindow { mut start, mut end } = window;
    let (first, kept) = match data_state {
        DataState::HourlyAll => (back(today, HOURLY_DAYS.days()), "hours of about 10 days"),
        DataState::Final | DataState::All => (back(today, KEPT_MONTHS.months()), "16 months"),
    };
    if end < first {
        return Err(Error::invalid_arguments(format!(
            "Google keeps {kept} of data, from {first} on; the window ends on {end}. Use later dates."
        )));
    }
    if start > today {
        return Err(Error::invalid_arguments(format!(
            "start_date ({start}) is in the future: today is {today} in Pacific time. Use earlier dates."
        )));
    }
    if start < first {
        call.warn(format!("Google keeps {kept} of data: the window starts on {first} instead of {start}."));
        start = first;
    }
    if end > today {
        call.warn(format!("The window ends on {today}, today in Pacific time, instead of {end}."));
        end = today;
    }
    if data_state == DataState::Final
        && let Some(Available { last_reliable, .. }) = available.filter(|available| end > available.last_reliable)
    {
        call.warn(format!(
            "Final data end on {last_reliable}: later days of the window are not in the figures. data_state all has them, incomplete."
        ));
    }
    Ok(DateWindow { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_in_pacific_time() {
        for (now, day) in [
            ("2026-01-15T07:59:59Z", "2026-01-14"),
            ("2026-01-15T08:00:00Z", "2026-01-15"),
            // In summer it begins an hour earlier; the clocks change on 8 March and 1 November.
            ("2026-03-08T07:59:59Z", "2026-03-07"),
            ("2026-03-09T06:59:59Z", "2026-03-08"),
            ("2026-03-09T07:00:00Z", "2026-03-09"),
            ("2026-11-01T07:00:00Z", "2026-11-01"),
            ("2026-11-02T07:59:59Z", "2026-11-01"),
        ] {
            let clock = Clock::Fixed(now.parse().unwrap());
            assert_eq!(today(clock).unwrap().to_string(), day, "{now}");
        }
    }
}
