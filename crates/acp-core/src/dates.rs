//! The date window of an extraction (8.9).

use jiff::civil::Date;

use crate::error::{Error, Result};

/// A range of whole days, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateWindow {
    /// First day.
    pub start: Date,
    /// Last day.
    pub end: Date,
}

impl DateWindow {
    /// Resolves a pair of arguments. A missing bound takes its default, which is written like an argument;
    /// `today` is the current day in the source's time zone, so that relative words mean what the source means.
    pub fn resolve(start: Option<&str>, end: Option<&str>, defaults: (&str, &str), today: Date) -> Result<Self> {
        let start = resolve("start_date", start.unwrap_or(defaults.0), today)?;
        let end = resolve("end_date", end.unwrap_or(defaults.1), today)?;
        if start > end {
            return Err(Error::invalid_arguments(format!(
                "start_date ({start}) is after end_date ({end}). Swap them, or give an earlier start_date."
            )));
        }
        Ok(Self { start, end })
    }

    /// Resolves the day that another argument of a tool gives, written as the bounds are; errors name the argument.
    pub fn day(argument: &str, text: &str, today: Date) -> Result<Date> {
        resolve(argument, text, today)
    }

    /// Number of days.
    pub fn days(self) -> i32 {
        (self.end - self.start).get_days() + 1
    }
}

/// Resolves one bound; errors name the argument.
fn resolve(argument: &str, text: &str, today: Date) -> Result<Date> {
    acp_protocol::dates::resolve(text, today)
        .map_err(|problem| Error::invalid_arguments(format!("{argument} {problem}")))
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn window(start: Option<&str>, end: Option<&str>) -> Result<DateWindow> {
        DateWindow::resolve(start, end, ("28daysAgo", "yesterday"), date(2026, 10, 12))
    }

    #[test]
    fn every_form_resolves() {
        let resolved = |start, end| window(start, end).unwrap();
        assert_eq!(resolved(None, None), DateWindow { start: date(2026, 9, 14), end: date(2026, 10, 11) });
        assert_eq!(resolved(None, None).days(), 28);
        assert_eq!(resolved(Some("20260901"), Some("2026-09-01")).days(), 1);
        assert_eq!(resolved(Some("7daysAgo"), Some("today")).start, date(2026, 10, 5));
        assert_eq!(resolved(Some("0daysAgo"), Some("today")).days(), 1);
    }

    #[test]
    fn everything_else_is_refused_with_the_argument_named() {
        for bad in [
            "",
            "last week",
            "2026-02-30",
            "2026-13-01",
            "0000-00-00",
            "Today",
            "-1daysAgo",
            "1dayAgo",
            "daysAgo",
            "1.5daysAgo",
            "99999999999999999999daysAgo",
            "999999999daysAgo",
            "2026/09/01",
            "2026-9-1",
            "{{start_date}}",
            "２０２６０９０１",
            "éé-é-éé",
        ] {
            let error = window(Some(bad), Some("today")).unwrap_err();
            assert!(error.message().starts_with("start_date"), "{bad}: {error}");
        }
        assert!(window(Some("today"), Some("yesterday")).unwrap_err().message().contains("after"));
    }
}
