//! Dates, times and time zones: parts of them, arithmetic, text.
//!
//! A civil time is a number of microseconds since 1970-01-01T00:00:00 of no zone.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::{Offset, TimeZone};

use super::error::SqlError;
use super::text::{self, DAY};
use crate::bigquery::value::{Interval, Value};
use crate::clock::{MICROS, date_of, day_number};

/// A part of a date or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    DayOfWeek,
    DayOfYear,
    /// Beginning on a day of the week; Sunday is 0.
    Week(u8),
    IsoWeek,
    Month,
    Quarter,
    Year,
    IsoYear,
    Date,
    Time,
    DateTime,
}

const NAMES: [(&str, Part); 16] = [
    ("MICROSECOND", Part::Microsecond),
    ("MILLISECOND", Part::Millisecond),
    ("SECOND", Part::Second),
    ("MINUTE", Part::Minute),
    ("HOUR", Part::Hour),
    ("DAY", Part::Day),
    ("DAYOFWEEK", Part::DayOfWeek),
    ("DAYOFYEAR", Part::DayOfYear),
    ("ISOWEEK", Part::IsoWeek),
    ("MONTH", Part::Month),
    ("QUARTER", Part::Quarter),
    ("YEAR", Part::Year),
    ("ISOYEAR", Part::IsoYear),
    ("DATE", Part::Date),
    ("TIME", Part::Time),
    ("DATETIME", Part::DateTime),
];

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Part {
    /// The part of that name; `WEEK` may name a day: `WEEK(MONDAY)`.
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, part)| *part);
        named.or_else(|| {
            let day = name.strip_prefix("WEEK")?;
            let day = if day.is_empty() { "SUNDAY" } else { day.strip_prefix('(')?.strip_suffix(')')? };
            WEEKDAYS.iter().position(|known| known.eq_ignore_ascii_case(day)).map(|day| Self::Week(day as u8))
        })
    }

    /// Whether it is shorter than a day.
    pub(super) fn is_of_time(self) -> bool {
        self.micros().is_some()
    }

    /// As an argument of a function.
    pub(super) fn to_value(self) -> Value {
        let code = match self {
            Self::Week(day) => NAMES.len() + usize::from(day),
            other => NAMES.iter().position(|(_, part)| *part == other).unwrap_or(0),
        };
        Value::Int64(code as i64)
    }

    /// Reads what [`Part::to_value`] makes.
    pub(super) fn of_value(value: &Value) -> Self {
        let Value::Int64(code) = value else { return Self::Day };
        let code = usize::try_from(*code).unwrap_or(0);
        NAMES.get(code).map_or_else(|| Self::Week((code - NAMES.len()) as u8), |(_, part)| *part)
    }

    /// Its length in microseconds, where it has one that never changes and is shorter than a day.
    fn micros(self) -> Option<i64> {
        Some(match self {
            Self::Microsecond => 1,
            Self::Millisecond => 1_000,
            Self::Second => MICROS,
            Self::Minute => 60 * MICROS,
            Self::Hour => 3_600 * MICROS,
            _ => return None,
        })
    }
}

fn overflow() -> SqlError {
    SqlError::query("Date or time out of range: years are 1 to 9999")
}

/// The date of a day number, if its year is 1 to 9999.
fn checked_date(day: i64) -> Result<Date, SqlError> {
    let in_range = i32::try_from(day).ok().filter(|day| (-719_162..=2_932_896).contains(day));
    in_range.map(date_of).ok_or_else(overflow)
}

/// A day number, if its year is 1 to 9999.
pub(super) fn checked_day(day: i64) -> Result<i32, SqlError> {
    checked_date(day).map(day_number)
}

/// A civil time, if its year is 1 to 9999.
pub(super) fn checked_micros(micros: i64) -> Result<i64, SqlError> {
    checked_day(micros.div_euclid(DAY)).map(|_| micros)
}

fn first_of(year: i16, month: i8) -> i32 {
    Date::new(year, month, 1).map_or(0, day_number)
}

fn sunday_based(date: Date) -> u8 {
    date.weekday().to_sunday_zero_offset() as u8
}

/// The first day of the part that a day is in.
pub(super) fn truncate_day(day: i32, part: Part) -> Result<i32, SqlError> {
    let date = date_of(day);
    let truncated = match part {
        Part::Day => day,
        Part::Week(first) => day - i32::from((sunday_based(date) + 7 - first) % 7),
        Part::IsoWeek => day - i32::from((sunday_based(date) + 6) % 7),
        Part::Month => first_of(date.year(), date.month()),
        Part::Quarter => first_of(date.year(), (date.month() - 1) / 3 * 3 + 1),
        Part::Year => first_of(date.year(), 1),
        Part::IsoYear => iso_year_start(date.iso_week_date().year()),
        _ => return Err(unfit("DATE_TRUNC", part)),
    };
    checked_day(i64::from(truncated))
}

fn iso_year_start(year: i16) -> i32 {
    jiff::civil::ISOWeekDate::new(year, 1, Weekday::Monday).map_or(0, |date| day_number(date.date()))
}

/// The beginning of the part that a civil time is in.
pub(super) fn truncate_micros(micros: i64, part: Part) -> Result<i64, SqlError> {
    match part.micros() {
        Some(length) => Ok(micros - micros.rem_euclid(length)),
        None => Ok(i64::from(truncate_day(day_of(micros), part)?) * DAY),
    }
}

/// The day of a civil time.
pub(super) fn day_of(micros: i64) -> i32 {
    i32::try_from(micros.div_euclid(DAY)).unwrap_or(0)
}

fn unfit(function: &str, part: Part) -> SqlError {
    let name = match part {
        Part::Week(_) => "WEEK",
        part => NAMES.iter().find(|(_, known)| *known == part).map_or("", |(name, _)| name),
    };
    SqlError::query(format!("{function} does not support the {name} date part"))
}

/// How many boundaries of a part are between two days.
pub(super) fn days_between(later: i32, earlier: i32, part: Part) -> Result<i64, SqlError> {
    let (to, from) = (date_of(later), date_of(earlier));
    let months = |date: Date| i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
    let weeks = |first: u8| {
        let week = |day: i32, date: Date| day - i32::from((sunday_based(date) + 7 - first) % 7);
        i64::from(week(later, to) - week(earlier, from)) / 7
    };
    Ok(match part {
        Part::Day => i64::from(later) - i64::from(earlier),
        Part::Week(first) => weeks(first),
        Part::IsoWeek => weeks(1),
        Part::Month => months(to) - months(from),
        Part::Quarter => months(to).div_euclid(3) - months(from).div_euclid(3),
        Part::Year => i64::from(to.year()) - i64::from(from.year()),
        Part::IsoYear => i64::from(to.iso_week_date().year()) - i64::from(from.iso_week_date().year()),
        _ => return Err(unfit("DATE_DIFF", part)),
    })
}

/// The difference of two timestamps in whole parts, of which days are the longest.
pub(super) fn timestamps_between(later: i64, earlier: i64, part: Part) -> Result<i64, SqlError> {
    let length = if part == Part::Day { DAY } else { part.micros().ok_or_else(|| unfit("TIMESTAMP_DIFF", part))? };
    Ok((later - earlier) / length)
}

/// How many boundaries of a part are between two civil times.
pub(super) fn civil_between(later: i64, earlier: i64, part: Part) -> Result<i64, SqlError> {
    match part.micros() {
        Some(length) => Ok(later.div_euclid(length) - earlier.div_euclid(length)),
        None => days_between(day_of(later), day_of(earlier), part),
    }
}

/// So many parts, as an interval.
pub(super) fn interval(count: i64, part: Part) -> Result<Interval, SqlError> {
    let times = |length: i64| count.checked_mul(length).ok_or_else(overflow);
    let mut interval = Interval::default();
    match part {
        Part::Day => interval.days = count,
        Part::Week(_) => interval.days = times(7)?,
        Part::Month => interval.months = count,
        Part::Quarter => interval.months = times(3)?,
        Part::Year => interval.months = times(12)?,
        part => interval.micros = times(part.micros().ok_or_else(|| unfit("INTERVAL", part))?)?,
    }
    Ok(interval)
}

/// A civil time and an interval: months first, with the last day of a shorter month; then days; then the rest.
pub(super) fn add(micros: i64, interval: &Interval) -> Result<i64, SqlError> {
    let mut day = i64::from(day_of(micros));
    if interval.months != 0 {
        let date = date_of(day_of(micros));
        let months = i64::from(date.year()) * 12 + i64::from(date.month()) - 1 + interval.months;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as i8 + 1);
        let year = i16::try_from(year).ok().filter(|year| (1..=9999).contains(year)).ok_or_else(overflow)?;
        let first = Date::new(year, month, 1).map_err(|_| overflow())?;
        day = i64::from(day_number(first)) + i64::from(date.day().min(first.days_in_month())) - 1;
    }
    let day = day.checked_add(interval.days).ok_or_else(overflow)?;
    let start = day.checked_mul(DAY).and_then(|start| start.checked_add(micros.rem_euclid(DAY)));
    checked_micros(start.and_then(|start| start.checked_add(interval.micros)).ok_or_else(overflow)?)
}

/// A part of a civil time as a number.
pub(super) fn extract(micros: i64, part: Part) -> i64 {
    let day = day_of(micros);
    let date = date_of(day);
    let time = micros.rem_euclid(DAY);
    match part {
        Part::Microsecond => time % MICROS,
        Part::Millisecond => time % MICROS / 1_000,
        Part::Second => time / MICROS % 60,
        Part::Minute => time / MICROS / 60 % 60,
        Part::Hour => time / MICROS / 3_600,
        Part::Day => i64::from(date.day()),
        Part::DayOfWeek => i64::from(sunday_based(date)) + 1,
        Part::DayOfYear => i64::from(date.day_of_year()),
        Part::Week(first) => week_of_year(date, first),
        Part::IsoWeek => i64::from(date.iso_week_date().week()),
        Part::Month => i64::from(date.month()),
        Part::Quarter => i64::from(date.month() - 1) / 3 + 1,
        Part::Year => i64::from(date.year()),
        Part::IsoYear => i64::from(date.iso_week_date().year()),
        Part::Date | Part::Time | Part::DateTime => 0,
    }
}

/// Weeks begin on that day; days before the year's first such day are in week 0.
fn week_of_year(date: Date, first: u8) -> i64 {
    let since_first = (sunday_based(date) + 7 - first) % 7;
    (i64::from(date.day_of_year()) + 6 - i64::from(since_first)) / 7
}

/// The time zone of a name or of an offset like `+02:00`.
pub(super) fn zone(name: &str) -> Result<TimeZone, SqlError> {
    let offset = || {
        let (sign, rest) = match name.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let valid = (0..=14).contains(&hours) && (0..60).contains(&minutes);
        let offset = Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()?;
        valid.then(|| TimeZone::fixed(offset))
    };
    if name.eq_ignore_ascii_case("UTC") || name == "Z" || name == "z" {
        return Ok(TimeZone::UTC);
    }
    let zone = offset().or_else(|| TimeZone::get(name).ok());
    zone.ok_or_else(|| SqlError::query(format!("Invalid time zone: {name}")))
}

/// The offset of a zone at a moment, in seconds.
fn offset(timestamp: i64, zone: &TimeZone) -> i64 {
    let moment = Timestamp::from_microsecond(timestamp).unwrap_or(Timestamp::UNIX_EPOCH);
    i64::from(zone.to_offset(moment).seconds())
}

/// The civil time of a moment in a zone.
pub(super) fn local(timestamp: i64, zone: &TimeZone) -> i64 {
    timestamp + offset(timestamp, zone) * MICROS
}

/// The moment of a civil time in a zone. In a gap and in a fold the offset before it holds.
pub(super) fn moment(civil: i64, zone: &TimeZone) -> Result<i64, SqlError> {
    checked_micros(civil)?;
    let seconds = civil.rem_euclid(DAY) / MICROS;
    let time = jiff::civil::Time::new((seconds / 3_600) as i8, (seconds / 60 % 60) as i8, (seconds % 60) as i8, 0);
    let time = time.map_err(|_| overflow())?;
    let datetime = date_of(day_of(civil)).to_datetime(time);
    let at = zone.to_ambiguous_timestamp(datetime).compatible().map_err(|_| overflow())?;
    Ok(at.as_second() * MICROS + civil.rem_euclid(MICROS))
}

/// Reads digits, at most so many.
fn digits(text: &mut &str, most: usize) -> Option<i64> {
    let end = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(end);
    *text = rest;
    number.parse().ok()
}

fn eat(text: &mut &str, wanted: char) -> Option<()> {
    *text = text.strip_prefix(wanted)?;
    Some(())
}

/// A day number of these parts.
fn day_from(year: i64, month: i64, day: i64) -> Option<i32> {
    let date = Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
    (date.year() >= 1).then(|| day_number(date))
}

fn time_from(hour: i64, minute: i64, second: i64, micros: i64) -> Option<i64> {
    // A leap second is the next second.
    let valid = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    valid.then_some(((hour * 60 + minute) * 60 + second) * MICROS + micros)
}

/// Digits after a point, as microseconds.
fn fraction(text: &mut &str) -> Option<i64> {
    if eat(text, '.').is_none() {
        return Some(0);
    }
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (taken, rest) = text.split_at(end);
    *text = rest;
    (end <= 9).then(|| format!("{taken:0<6}")[..6].parse().ok()).flatten()
}

fn take_date(text: &mut &str) -> Option<i32> {
    let year = digits(text, 4)?;
    eat(text, '-')?;
    let month = digits(text, 2)?;
    eat(text, '-')?;
    day_from(year, month, digits(text, 2)?)
}

fn take_time(text: &mut &str) -> Option<i64> {
    let hour = digits(text, 2)?;
    eat(text, ':')?;
    let minute = digits(text, 2)?;
    let second = if eat(text, ':').is_some() { digits(text, 2)? } else { 0 };
    time_from(hour, minute, second, fraction(text)?)
}

/// Reads a date as `CAST` does.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let mut rest = text.trim();
    let day = take_date(&mut rest)?;
    // A time of midnight may follow.
    if !rest.is_empty() {
        eat(&mut rest, ' ').or_else(|| eat(&mut rest, 'T'))?;
        take_time(&mut rest).filter(|time| *time == 0)?;
    }
    rest.is_empty().then_some(day)
}

/// Reads a time of day as `CAST` does.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    let time = take_time(&mut rest)?;
    rest.is_empty().then_some(time)
}

/// Reads a civil time as `CAST` does.
pub(super) fn parse_datetime(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    let (civil, _) = take_datetime(&mut rest)?;
    rest.is_empty().then_some(civil)
}

fn take_datetime(rest: &mut &str) -> Option<(i64, bool)> {
    let day = i64::from(take_date(rest)?);
    let has_time = rest.starts_with([' ', 'T', 't']) && rest[1..].starts_with(|next: char| next.is_ascii_digit());
    if !has_time {
        return Some((day * DAY, false));
    }
    *rest = &rest[1..];
    Some((day * DAY + take_time(rest)?, true))
}

/// Reads a moment as `CAST` does: without a zone it is UTC.
pub(super) fn parse_timestamp(text: &str, default: &TimeZone) -> Option<i64> {
    let mut rest = text.trim();
    let (civil, _) = take_datetime(&mut rest)?;
    let zone = match rest.trim_start() {
        "" => default.clone(),
        name => zone(name).ok()?,
    };
    moment(civil, &zone).ok().filter(|moment| checked_micros(*moment).is_ok())
}

/// A civil time with the offset that its zone has then, in seconds.
pub(super) struct Zoned {
    pub(super) civil: i64,
    pub(super) offset: i64,
}

impl Zoned {
    /// A civil time without a zone.
    pub(super) fn civil(civil: i64) -> Self {
        Self { civil, offset: 0 }
    }

    /// A moment in a zone.
    pub(super) fn at(timestamp: i64, zone: &TimeZone) -> Self {
        Self { civil: local(timestamp, zone), offset: offset(timestamp, zone) }
    }
}

/// Writes a time by a pattern of `%` elements.
pub(super) fn format(pattern: &str, time: &Zoned) -> Result<String, SqlError> {
    let mut out = String::new();
    let date = date_of(day_of(time.civil));
    let get = |part| extract(time.civil, part);
    let hour12 = (get(Part::Hour) + 11) % 12 + 1;
    let (weekday, month) = (WEEKDAYS[usize::from(sunday_based(date))], MONTHS[date.month() as usize - 1]);
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        let text = match rest.next() {
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('B') => month.to_owned(),
            Some('b' | 'h') => month[..3].to_owned(),
            Some('C') => format!("{:02}", date.year() / 100),
            Some('c') => format("%a %b %e %H:%M:%S %Y", time)?,
            Some('D' | 'x') => format("%m/%d/%y", time)?,
            Some('d') => format!("{:02}", date.day()),
            Some('e') => format!("{:2}", date.day()),
            Some('F') => text::of_date(date),
            Some('G') => format!("{:04}", date.iso_week_date().year()),
            Some('g') => format!("{:02}", date.iso_week_date().year() % 100),
            Some('H') => format!("{:02}", get(Part::Hour)),
            Some('I') => format!("{hour12:02}"),
            Some('j') => format!("{:03}", date.day_of_year()),
            Some('k') => format!("{:2}", get(Part::Hour)),
            Some('l') => format!("{hour12:2}"),
            Some('M') => format!("{:02}", get(Part::Minute)),
            Some('m') => format!("{:02}", date.month()),
            Some('n') => "\n".to_owned(),
            Some('P') => if get(Part::Hour) < 12 { "am" } else { "pm" }.to_owned(),
            Some('p') => if get(Part::Hour) < 12 { "AM" } else { "PM" }.to_owned(),
            Some('Q') => get(Part::Quarter).to_string(),
            Some('R') => format("%H:%M", time)?,
            Some('S') => format!("{:02}", get(Part::Second)),
            Some('s') => (time.civil.div_euclid(MICROS) - time.offset).to_string(),
            Some('T' | 'X') => format("%H:%M:%S", time)?,
            Some('t') => "\t".to_owned(),
            Some('U') => format!("{:02}", week_of_year(date, 0)),
            Some('u') => ((get(Part::DayOfWeek) + 5) % 7 + 1).to_string(),
            Some('V') => format!("{:02}", get(Part::IsoWeek)),
            Some('W') => format!("{:02}", week_of_year(date, 1)),
            Some('w') => (get(Part::DayOfWeek) - 1).to_string(),
            Some('Y') => date.year().to_string(),
            Some('y') => format!("{:02}", date.year() % 100),
            Some('Z') if time.offset == 0 => "UTC".to_owned(),
            Some('z') => offset_text(time.offset, ""),
            Some('%') => "%".to_owned(),
            Some('E') => match rest.next() {
                Some('4') if rest.as_str().starts_with('Y') => {
                    rest.next();
                    format!("{:04}", date.year())
                }
                Some('z') => offset_text(time.offset, ":"),
                Some('*') if rest.as_str().starts_with('S') => {
                    rest.next();
                    let micros = format!("{:06}", get(Part::Microsecond));
                    let fraction = micros.trim_end_matches('0');
                    let point = if fraction.is_empty() { "" } else { "." };
                    format!("{:02}{point}{fraction}", get(Part::Second))
                }
                Some(count) if count.is_ascii_digit() && rest.as_str().starts_with('S') => {
                    rest.next();
                    let count = count.to_digit(10).unwrap_or(0) as usize;
                    let micros = format!("{:06}000", get(Part::Microsecond));
                    let point = if count == 0 { "" } else { "." };
                    format!("{:02}{point}{}", get(Part::Second), &micros[..count])
                }
                other => return Err(unsupported_element(&format!("E{}", other.unwrap_or(' ')))),
            },
            other => return Err(unsupported_element(&other.map_or(String::new(), String::from))),
        };
        out.push_str(&text);
    }
    Ok(out)
}

fn unsupported_element(element: &str) -> SqlError {
    SqlError::unsupported(format_args!("the format element %{element}"))
}

fn offset_text(offset: i64, between: &str) -> String {
    let mut text = String::new();
    let minutes = offset.abs() / 60;
    let sign = if offset < 0 { '-' } else { '+' };
    let _ = write!(text, "{sign}{:02}{between}{:02}", minutes / 60, minutes % 60);
    text
}

/// Reads a civil time by a pattern, and a zone's offset in seconds if the text has one. What isn't given is that of
/// 1970-01-01T00:00:00. The flags say whether the type has a date and a time.
pub(super) fn parse(pattern: &str, input: &str, dates: bool, times: bool) -> Result<(i64, Option<TimeZone>), SqlError> {
    let failed = || SqlError::query(format!("Failed to parse input string \"{input}\""));
    let mut fields = Fields { year: 1970, month: 1, day: 1, ..Fields::default() };
    let mut rest = input.trim_start();
    fields.read(pattern, &mut rest)?.ok_or_else(failed)?;
    if !rest.trim_end().is_empty() {
        return Err(SqlError::query(format!("Illegal non-space trailing data '{rest}' in string \"{input}\"")));
    }
    if let Some(epoch) = fields.epoch {
        return checked_micros(epoch.saturating_mul(MICROS)).map(|civil| (civil, Some(TimeZone::UTC)));
    }
    if let Some(afternoon) = fields.afternoon {
        fields.hour = fields.hour % 12 + if afternoon { 12 } else { 0 };
    }
    let day = match fields.day_of_year {
        Some(number) => day_from(fields.year, 1, 1).map(|first| first + number as i32 - 1),
        None => day_from(fields.year, fields.month, fields.day),
    };
    let day = if dates { i64::from(day.ok_or_else(failed)?) } else { 0 };
    let time = time_from(fields.hour, fields.minute, fields.second, fields.micros).ok_or_else(failed)?;
    Ok((day * DAY + if times { time } else { 0 }, fields.zone))
}

#[derive(Default)]
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    epoch: Option<i64>,
    zone: Option<TimeZone>,
}

impl Fields {
    /// None when the text doesn't fit the pattern.
    fn read(&mut self, pattern: &str, rest: &mut &str) -> Result<Option<()>, SqlError> {
        let mut elements = pattern.chars();
        while let Some(next) = elements.next() {
            if next.is_whitespace() {
                *rest = rest.trim_start();
                continue;
            }
            let element = if next == '%' { elements.next().unwrap_or(' ') } else { '\0' };
            let read = match element {
                '\0' => eat(rest, next),
                '%' => eat(rest, '%'),
                'Y' => digits(rest, 4).map(|year| self.year = year),
                'y' => digits(rest, 2).map(|year| self.year = year + if year < 69 { 2000 } else { 1900 }),
                'm' => digits(rest, 2).map(|month| self.month = month),
                'd' | 'e' => {
                    *rest = rest.trim_start();
                    digits(rest, 2).map(|day| self.day = day)
                }
                'j' => digits(rest, 3).map(|day| self.day_of_year = Some(day)),
                'b' | 'B' | 'h' => named(rest, &MONTHS).map(|index| self.month = index as i64 + 1),
                'a' | 'A' => named(rest, &WEEKDAYS).map(drop),
                'H' | 'k' | 'I' | 'l' => {
                    *rest = rest.trim_start();
                    let read = digits(rest, 2).filter(|hour| matches!(element, 'H' | 'k') || (1..=12).contains(hour));
                    read.map(|hour| self.hour = hour)
                }
                'M' => digits(rest, 2).map(|minute| self.minute = minute),
                'S' => digits(rest, 2).map(|second| self.second = second),
                'p' | 'P' => {
                    let half = rest.get(..2).map(str::to_ascii_uppercase);
                    let half = half.filter(|half| half == "AM" || half == "PM");
                    half.map(|half| {
                        self.afternoon = Some(half == "PM");
                        *rest = &rest[2..];
                    })
                }
                's' => {
                    let negative = eat(rest, '-').is_some();
                    digits(rest, 12).map(|epoch| self.epoch = Some(if negative { -epoch } else { epoch }))
                }
                'F' => self.read("%Y-%m-%d", rest)?,
                'T' => self.read("%H:%M:%S", rest)?,
                'R' => self.read("%H:%M", rest)?,
                'D' => self.read("%m/%d/%y", rest)?,
                'n' | 't' => {
                    *rest = rest.trim_start();
                    Some(())
                }
                'z' | 'Z' => self.read_zone(rest),
                'E' => match elements.next() {
                    Some('z') => self.read_zone(rest),
                    Some('4') if elements.as_str().starts_with('Y') => {
                        elements.next();
                        digits(rest, 4).map(|year| self.year = year)
                    }
                    Some(count) if (count == '*' || count.is_ascii_digit()) && elements.as_str().starts_with('S') => {
                        elements.next();
                        let second = digits(rest, 2);
                        second.and_then(|second| {
                            self.second = second;
                            fraction(rest).map(|micros| self.micros = micros)
                        })
                    }
                    other => return Err(unsupported_element(&format!("E{}", other.unwrap_or(' ')))),
                },
                other => return Err(unsupported_element(&other.to_string())),
            };
            if read.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn read_zone(&mut self, rest: &mut &str) -> Option<()> {
        let end =
            rest.find(|next: char| !next.is_ascii_alphanumeric() && !"+-:/_".contains(next)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let compact = name.len() == 5 && name.starts_with(['+', '-']) && !name.contains(':');
        let name = if compact { format!("{}:{}", &name[..3], &name[3..]) } else { name.to_owned() };
        self.zone = Some(zone(&name).ok()?);
        *rest = after;
        Some(())
    }
}

/// Which of these names, or of their first three letters, a text starts with.
fn named(rest: &mut &str, names: &[&str]) -> Option<usize> {
    let starts = |name: &str| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let (index, length) = names.iter().enumerate().find_map(|(index, name)| {
        let length = if starts(name) { name.len() } else { 3 };
        starts(&name[..length]).then_some((index, length))
    })?;
    *rest = &rest[length..];
    Some(index)
}
