//! Date ranges of a request: absolute days, with Google's own refusals.

use jiff::civil::Date;

use super::request::DateRange;
use crate::clock::day_number;
use crate::google_error::GoogleError;

/// At most this many ranges in one report.
const MAX_RANGES: usize = 4;

/// A resolved range, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    pub(crate) start: i32,
    pub(crate) end: i32,
    pub(crate) name: String,
}

/// Resolves the ranges of a request; relative dates count from `today` in the property's time zone.
pub(crate) fn resolve(ranges: &[DateRange], today: Date) -> Result<Vec<Days>, GoogleError> {
    if ranges.is_empty() {
        return Err(GoogleError::invalid("A dateRange is required."));
    }
    if ranges.len() > MAX_RANGES {
        return Err(GoogleError::invalid(format!(
            "Requests are limited to {MAX_RANGES} dateRanges.\n  This request contains {} dateRanges.",
            ranges.len()
        )));
    }
    let mut days: Vec<Days> = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        let resolved = resolve_one(range, index, today)?;
        if days.iter().any(|other| other.name == resolved.name) {
            return Err(GoogleError::invalid(format!("Found duplicate date range names: {}", resolved.name)));
        }
        days.push(resolved);
    }
    Ok(days)
}

fn resolve_one(range: &DateRange, index: usize, today: Date) -> Result<Days, GoogleError> {
    let start = day("startDate", "start_date", &range.start, today)?;
    let end = day("endDate", "end_date", &range.end, today)?;
    if start > end {
        return Err(GoogleError::invalid(format!(
            "start_date must be less than or equal to end_date. start_date = {}, end_date = {}.",
            range.start, range.end
        )));
    }
    let name = match range.name.as_deref() {
        None | Some("") => format!("date_range_{index}"),
        Some(name) if name.starts_with("date_range_") || name.starts_with("RESERVED_") => {
            return Err(GoogleError::invalid(format!(
                "Date range names cannot begin with date_range_ or RESERVED_. Received name = {name}."
            )));
        }
        Some(name) => name.to_owned(),
    };
    Ok(Days { start, end, name })
}

fn day(field: &str, snake: &str, text: &str, today: Date) -> Result<i32, GoogleError> {
    let date = parse(text, today).ok_or_else(|| {
        GoogleError::invalid(format!(
            "Invalid {field} : {text}. {field} must be YYYY-MM-DD, NdaysAgo, yesterday, or today."
        ))
    })?;
    let first = jiff::civil::date(2015, 8, 13);
    let last = jiff::civil::date(3000, 1, 1);
    if date <= first || date >= last {
        return Err(GoogleError::invalid(format!(
            "{snake} = {text} must be greater than {first} and less than {last}."
        )));
    }
    Ok(day_number(date))
}

fn parse(text: &str, today: Date) -> Option<Date> {
    match text {
        "today" => Some(today),
        "yesterday" => today.yesterday().ok(),
        _ => match text.strip_suffix("daysAgo") {
            Some(count) if !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit()) => {
                let count = count.parse::<i64>().ok().filter(|n| *n < 1_000_000)?;
                today.checked_sub(jiff::Span::new().days(count)).ok()
            }
            Some(_) => None,
            None => absolute(text),
        },
    }
}

/// Exactly `YYYY-MM-DD`.
fn absolute(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() == 10
        && bytes.iter().enumerate().all(|(i, b)| match i {
            4 | 7 => *b == b'-',
            _ => b.is_ascii_digit(),
        });
    shaped.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: &str) -> DateRange {
        DateRange { start: start.into(), end: end.into(), name: None }
    }

    #[test]
    fn relative_and_absolute() {
        let today = jiff::civil::date(2026, 3, 10);
        let days = resolve(&[range("7daysAgo", "yesterday")], today).unwrap();
        assert_eq!(days[0].end - days[0].start + 1, 7);
        let days = resolve(&[range("2026-03-10", "today")], today).unwrap();
        assert_eq!(days[0].start, days[0].end);
    }

    #[test]
    fn refusals() {
        let today = jiff::civil::date(2026, 3, 10);
        for (start, end, part) in [
            ("2015-08-13", "today", "must be greater than 2015-08-13"),
            ("x", "today", "Invalid startDate : x. startDate must be"),
            ("2026-3-1", "today", "Invalid startDate"),
            ("daysAgo", "today", "Invalid startDate"),
            ("today", "yesterday", "less than or equal to end_date"),
            ("99999999999daysAgo", "today", "Invalid startDate"),
        ] {
            let error = resolve(&[range(start, end)], today).unwrap_err();
            assert!(error.message().contains(part), "{}", error.message());
        }
    }
}
