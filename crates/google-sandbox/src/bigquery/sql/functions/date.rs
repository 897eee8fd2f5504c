//! Dates, times and intervals.

use jiff::tz::TimeZone;

use super::{Entry, error, int, text};
use crate::bigquery::sql::cast;
use crate::bigquery::sql::datetime::{self, Part, Zoned, checked_day, checked_micros};
use crate::bigquery::sql::error::SqlError;
use crate::bigquery::sql::text::DAY;
use crate::bigquery::value::{Interval, Value};
use crate::clock::MICROS;

type Outcome = Result<Value, SqlError>;

pub(super) const FUNCTIONS: &[Entry] = &[
    ("DATE", "INT64, INT64, INT64 -> DATE", |of| {
        let invalid = || {
            SqlError::query(format!(
                "Input calculates to invalid date: {:04}-{:02}-{:02}",
                int(&of[0]),
                int(&of[1]),
                int(&of[2])
            ))
        };
        let text = format!("{:04}-{:02}-{:02}", int(&of[0]), int(&of[1]), int(&of[2]));
        datetime::parse_date(&text).map(Value::Date).ok_or_else(invalid)
    }),
    ("DATE", "TIMESTAMP, [STRING] -> DATE", |of| Ok(Value::Date(datetime::day_of(local(of, 1)?)))),
    ("DATE", "DATETIME -> DATE", |of| Ok(Value::Date(datetime::day_of(civil(&of[0]))))),
    ("DATE", "STRING -> DATE", |of| cast::from_text(text(&of[0]), &crate::bigquery::schema::Type::Date)),
    ("DATE", "DATE -> DATE", |of| Ok(of[0].clone())),
    ("DATETIME", "INT64, INT64, INT64, INT64, INT64, INT64 -> DATETIME", |of| {
        let text = format!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
            int(&of[0]),
            int(&of[1]),
            int(&of[2]),
            int(&of[3]),
            int(&of[4]),
            int(&of[5])
        );
        cast::from_text(&text, &crate::bigquery::schema::Type::DateTime)
    }),
    ("DATETIME", "TIMESTAMP, [STRING] -> DATETIME", |of| Ok(Value::DateTime(local(of, 1)?))),
    ("DATETIME", "DATE, [TIME] -> DATETIME", |of| Ok(Value::DateTime(civil(&of[0]) + of.get(1).map_or(0, civil)))),
    ("DATETIME", "STRING -> DATETIME", |of| cast::from_text(text(&of[0]), &crate::bigquery::schema::Type::DateTime)),
    ("TIME", "TIMESTAMP, [STRING] -> TIME", |of| Ok(Value::Time(local(of, 1)?.rem_euclid(DAY)))),
    ("TIME", "DATETIME -> TIME", |of| Ok(Value::Time(civil(&of[0]).rem_euclid(DAY)))),
    ("TIME", "INT64, INT64, INT64 -> TIME", |of| {
        let text = format!("{:02}:{:02}:{:02}", int(&of[0]), int(&of[1]), int(&of[2]));
        cast::from_text(&text, &crate::bigquery::schema::Type::Time)
    }),
    ("TIMESTAMP", "STRING, [STRING] -> TIMESTAMP", |of| {
        let read = datetime::parse_timestamp(text(&of[0]), &zone(of, 1)?);
        read.map(Value::Timestamp).ok_or_else(|| SqlError::query(format!("Invalid timestamp: '{}'", text(&of[0]))))
    }),
    ("TIMESTAMP", "DATE, [STRING] -> TIMESTAMP", |of| {
        Ok(Value::Timestamp(datetime::moment(civil(&of[0]), &zone(of, 1)?)?))
    }),
    ("TIMESTAMP", "DATETIME, [STRING] -> TIMESTAMP", |of| {
        Ok(Value::Timestamp(datetime::moment(civil(&of[0]), &zone(of, 1)?)?))
    }),
    ("TIMESTAMP", "TIMESTAMP -> TIMESTAMP", |of| Ok(of[0].clone())),
    ("STRING", "TIMESTAMP, [STRING] -> STRING", |of| {
        let time = Zoned::at(civil(&of[0]), &zone(of, 1)?);
        let offset = datetime::format("%Ez", &time)?;
        let stamp = crate::bigquery::sql::text::of_datetime(time.civil, ' ');
        Ok(Value::from(format!("{stamp}{}", offset.strip_suffix(":00").unwrap_or(&offset))))
    }),
    ("UNIX_DATE", "DATE -> INT64", |of| Ok(Value::Int64(civil(&of[0]) / DAY))),
    ("DATE_FROM_UNIX_DATE", "INT64 -> DATE", |of| Ok(Value::Date(checked_day(int(&of[0]))?))),
    ("UNIX_SECONDS", "TIMESTAMP -> INT64", |of| Ok(Value::Int64(civil(&of[0]).div_euclid(MICROS)))),
    ("UNIX_MILLIS", "TIMESTAMP -> INT64", |of| Ok(Value::Int64(civil(&of[0]).div_euclid(1_000)))),
    ("UNIX_MICROS", "TIMESTAMP -> INT64", |of| Ok(Value::Int64(civil(&of[0])))),
    ("TIMESTAMP_SECONDS", "INT64 -> TIMESTAMP", |of| timestamp(int(&of[0]).checked_mul(MICROS))),
    ("TIMESTAMP_MILLIS", "INT64 -> TIMESTAMP", |of| timestamp(int(&of[0]).checked_mul(1_000))),
    ("TIMESTAMP_MICROS", "INT64 -> TIMESTAMP", |of| timestamp(Some(int(&of[0])))),
    ("DATE_ADD", "DATE, INTERVAL -> DATE", |of| add_to_date(&of[0], &interval(&of[1]))),
    ("DATE_SUB", "DATE, INTERVAL -> DATE", |of| add_to_date(&of[0], &negative(&of[1]))),
    ("DATE_ADD", "DATETIME, INTERVAL -> DATETIME", |of| add_to_civil(&of[0], &interval(&of[1]))),
    ("DATE_SUB", "DATETIME, INTERVAL -> DATETIME", |of| add_to_civil(&of[0], &negative(&of[1]))),
    ("DATETIME_ADD", "DATETIME, INTERVAL -> DATETIME", |of| add_to_civil(&of[0], &interval(&of[1]))),
    ("DATETIME_SUB", "DATETIME, INTERVAL -> DATETIME", |of| add_to_civil(&of[0], &negative(&of[1]))),
    ("TIMESTAMP_ADD", "TIMESTAMP, INTERVAL -> TIMESTAMP", |of| add_to_timestamp(&of[0], &interval(&of[1]))),
    ("TIMESTAMP_SUB", "TIMESTAMP, INTERVAL -> TIMESTAMP", |of| add_to_timestamp(&of[0], &negative(&of[1]))),
    ("$add", "DATE, INT64 -> DATE", |of| {
        Ok(Value::Date(checked_day((civil(&of[0]) / DAY).saturating_add(int(&of[1])))?))
    }),
    ("$add", "INT64, DATE -> DATE", |of| {
        Ok(Value::Date(checked_day((civil(&of[1]) / DAY).saturating_add(int(&of[0])))?))
    }),
    ("$subtract", "DATE, INT64 -> DATE", |of| {
        Ok(Value::Date(checked_day((civil(&of[0]) / DAY).saturating_sub(int(&of[1])))?))
    }),
    ("$add", "DATE, INTERVAL -> DATETIME", |of| add_to_civil(&of[0], &interval(&of[1]))),
    ("$subtract", "DATE, INTERVAL -> DATETIME", |of| add_to_civil(&of[0], &negative(&of[1]))),
    ("$add", "DATETIME, INTERVAL -> DATETIME", |of| add_to_civil(&of[0], &interval(&of[1]))),
    ("$subtract", "DATETIME, INTERVAL -> DATETIME", |of| add_to_civil(&of[0], &negative(&of[1]))),
    ("$add", "TIMESTAMP, INTERVAL -> TIMESTAMP", |of| add_to_timestamp(&of[0], &interval(&of[1]))),
    ("$subtract", "TIMESTAMP, INTERVAL -> TIMESTAMP", |of| add_to_timestamp(&of[0], &negative(&of[1]))),
    ("$subtract", "DATE, DATE -> INTERVAL", |of| {
        Ok(Value::Interval(Interval { days: (civil(&of[0]) - civil(&of[1])) / DAY, ..Interval::default() }))
    }),
    ("$subtract", "TIMESTAMP, TIMESTAMP -> INTERVAL", |of| {
        Ok(Value::Interval(Interval { micros: civil(&of[0]) - civil(&of[1]), ..Interval::default() }))
    }),
    ("$interval", "INT64, PART -> INTERVAL", |of| {
        Ok(Value::Interval(datetime::interval(int(&of[0]), Part::of_value(&of[1]))?))
    }),
    ("DATE_DIFF", "DATE, DATE, PART -> INT64", |of| {
        let [later, earlier] = [&of[0], &of[1]].map(|value| datetime::day_of(civil(value)));
        datetime::days_between(later, earlier, Part::of_value(&of[2])).map(Value::Int64)
    }),
    ("DATE_DIFF", "DATETIME, DATETIME, PART -> INT64", civil_difference),
    ("DATETIME_DIFF", "DATETIME, DATETIME, PART -> INT64", civil_difference),
    ("TIME_DIFF", "TIME, TIME, PART -> INT64", civil_difference),
    ("DATE_DIFF", "TIMESTAMP, TIMESTAMP, PART -> INT64", moment_difference),
    ("TIMESTAMP_DIFF", "TIMESTAMP, TIMESTAMP, PART -> INT64", moment_difference),
    ("DATE_TRUNC", "DATE, PART -> DATE", |of| {
        datetime::truncate_day(datetime::day_of(civil(&of[0])), Part::of_value(&of[1])).map(Value::Date)
    }),
    ("DATE_TRUNC", "DATETIME, PART -> DATETIME", truncate_civil),
    ("DATETIME_TRUNC", "DATETIME, PART -> DATETIME", truncate_civil),
    ("DATE_TRUNC", "TIMESTAMP, PART, [STRING] -> TIMESTAMP", truncate_moment),
    ("TIMESTAMP_TRUNC", "TIMESTAMP, PART, [STRING] -> TIMESTAMP", truncate_moment),
    ("LAST_DAY", "DATE, [PART] -> DATE", |of| {
        let part = of.get(1).map_or(Part::Month, Part::of_value);
        let first = datetime::truncate_day(datetime::day_of(civil(&of[0])), part)?;
        let step = match part {
            Part::Week(_) | Part::IsoWeek => Interval { days: 7, ..Interval::default() },
            part => datetime::interval(1, part)?,
        };
        let next = datetime::add(i64::from(first) * DAY, &step)?;
        Ok(Value::Date(datetime::day_of(next) - 1))
    }),
    ("$extract", "DATE, PART -> INT64", extract),
    ("$extract", "DATETIME, PART -> INT64", extract),
    ("$extract", "TIME, PART -> INT64", extract),
    ("$extract_zoned", "TIMESTAMP, STRING, PART -> INT64", |of| {
        extract(&[Value::DateTime(local(of, 1)?), of[2].clone()])
    }),
    ("FORMAT_DATE", "STRING, DATE -> STRING", |of| format(of, &Zoned::civil(civil(&of[1])))),
    ("FORMAT_DATETIME", "STRING, DATETIME -> STRING", |of| format(of, &Zoned::civil(civil(&of[1])))),
    ("FORMAT_TIME", "STRING, TIME -> STRING", |of| format(of, &Zoned::civil(civil(&of[1])))),
    ("FORMAT_TIMESTAMP", "STRING, TIMESTAMP, [STRING] -> STRING", |of| {
        format(of, &Zoned::at(civil(&of[1]), &zone(of, 2)?))
    }),
    ("PARSE_DATE", "STRING, STRING -> DATE", |of| {
        let (civil, _) = datetime::parse(text(&of[0]), text(&of[1]), true, false)?;
        Ok(Value::Date(datetime::day_of(civil)))
    }),
    ("PARSE_DATETIME", "STRING, STRING -> DATETIME", |of| {
        datetime::parse(text(&of[0]), text(&of[1]), true, true).map(|(civil, _)| Value::DateTime(civil))
    }),
    ("PARSE_TIME", "STRING, STRING -> TIME", |of| {
        datetime::parse(text(&of[0]), text(&of[1]), false, true).map(|(civil, _)| Value::Time(civil.rem_euclid(DAY)))
    }),
    ("PARSE_TIMESTAMP", "STRING, STRING, [STRING] -> TIMESTAMP", |of| {
        let (civil, found) = datetime::parse(text(&of[0]), text(&of[1]), true, true)?;
        let zone = found.map_or_else(|| zone(of, 2), Ok)?;
        Ok(Value::Timestamp(datetime::moment(civil, &zone)?))
    }),
];

/// The microseconds of a civil time, of a moment, of a time of day, or of a date's midnight.
fn civil(value: &Value) -> i64 {
    match value {
        Value::Date(day) => i64::from(*day) * DAY,
        Value::DateTime(micros) | Value::Timestamp(micros) | Value::Time(micros) => *micros,
        _ => 0,
    }
}

/// The zone that an argument names, or UTC.
fn zone(of: &[Value], index: usize) -> Result<TimeZone, SqlError> {
    of.get(index).map_or(Ok(TimeZone::UTC), |name| datetime::zone(text(name)))
}

fn local(of: &[Value], index: usize) -> Result<i64, SqlError> {
    Ok(datetime::local(civil(&of[0]), &zone(of, index)?))
}

fn timestamp(micros: Option<i64>) -> Outcome {
    let valid = micros.and_then(|micros| checked_micros(micros).ok());
    valid.map(Value::Timestamp).ok_or_else(|| {
        SqlError::query(
            "Timestamp value is out of allowed range: from 0001-01-01 00:00:00 to 9999-12-31 23:59:59.999999.",
        )
    })
}

/// The interval in a value.
pub(super) fn interval(value: &Value) -> Interval {
    if let Value::Interval(interval) = value { *interval } else { Interval::default() }
}

fn negative(value: &Value) -> Interval {
    let Interval { months, days, micros } = interval(value);
    Interval { months: -months, days: -days, micros: -micros }
}

/// A date and an interval of whole days.
pub(super) fn add_to_date(value: &Value, by: &Interval) -> Outcome {
    if by.micros != 0 {
        return error("DATE_ADD does not support a date part that is shorter than a day");
    }
    Ok(Value::Date(datetime::day_of(datetime::add(civil(value), by)?)))
}

fn add_to_civil(value: &Value, by: &Interval) -> Outcome {
    Ok(Value::DateTime(datetime::add(civil(value), by)?))
}

/// A moment and an interval without months.
pub(super) fn add_to_timestamp(value: &Value, by: &Interval) -> Outcome {
    if by.months != 0 {
        return error("TIMESTAMP_ADD does not support a date part that is longer than a day");
    }
    Ok(Value::Timestamp(datetime::add(civil(value), by)?))
}

fn civil_difference(of: &[Value]) -> Outcome {
    datetime::civil_between(civil(&of[0]), civil(&of[1]), Part::of_value(&of[2])).map(Value::Int64)
}

fn moment_difference(of: &[Value]) -> Outcome {
    datetime::timestamps_between(civil(&of[0]), civil(&of[1]), Part::of_value(&of[2])).map(Value::Int64)
}

fn truncate_civil(of: &[Value]) -> Outcome {
    datetime::truncate_micros(civil(&of[0]), Part::of_value(&of[1])).map(Value::DateTime)
}

fn truncate_moment(of: &[Value]) -> Outcome {
    let zone = zone(of, 2)?;
    let truncated = datetime::truncate_micros(datetime::local(civil(&of[0]), &zone), Part::of_value(&of[1]))?;
    Ok(Value::Timestamp(datetime::moment(truncated, &zone)?))
}

fn extract(of: &[Value]) -> Outcome {
    Ok(Value::Int64(datetime::extract(civil(&of[0]), Part::of_value(&of[1]))))
}

fn format(of: &[Value], time: &Zoned) -> Outcome {
    Ok(Value::from(datetime::format(text(&of[0]), time)?))
}
