//! How the bounds of a date window are written (8.9).

use jiff::Span;
use jiff::civil::Date;

/// Why a text is no bound. To be read after the argument's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateProblem {
    /// It is none of the forms.
    NoDate,
    /// It has the form of a date, and there is no such day.
    NoSuchDay,
    /// Before the first day that can be counted.
    TooFarBack,
    /// It still holds a marker such as `{{start_date}}`.
    Marker,
}

impl std::fmt::Display for DateProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self {
            Self::NoDate => "is not a date",
            Self::NoSuchDay => "names a day that does not exist",
            Self::TooFarBack => "is too far back",
            Self::Marker => "still holds a marker that the host should have replaced",
        };
        write!(formatter, "{why}. Write a date as YYYY-MM-DD, or use NdaysAgo, yesterday or today.")
    }
}

impl std::error::Error for DateProblem {}

/// Resolves one bound: `YYYY-MM-DD`, `YYYYMMDD`, `today`, `yesterday` or `NdaysAgo`, case-sensitive.
pub fn resolve(text: &str, today: Date) -> Result<Date, DateProblem> {
    let back = |days: i64| {
        let span = Span::new().try_days(days).map_err(|_| DateProblem::TooFarBack)?;
        today.checked_sub(span).map_err(|_| DateProblem::TooFarBack)
    };
    if text.contains("{{") {
        return Err(DateProblem::Marker);
    }
    match text {
        "today" => return Ok(today),
        "yesterday" => return back(1),
        _ => {}
    }
    if let Some(days) = text.strip_suffix("daysAgo") {
        if days.is_empty() || !days.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(DateProblem::NoDate);
        }
        return back(days.parse().map_err(|_| DateProblem::TooFarBack)?);
    }
    let digits: String = match text.len() {
        10 if text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-' => text.replace('-', ""),
        8 => text.to_owned(),
        _ => return Err(DateProblem::NoDate),
    };
    if digits.len() != 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DateProblem::NoDate);
    }
    let part = |range: std::ops::Range<usize>| digits[range].parse::<i16>().unwrap_or_default();
    Date::new(part(0..4), part(4..6) as i8, part(6..8) as i8).map_err(|_| DateProblem::NoSuchDay)
}
