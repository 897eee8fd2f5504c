//! Answers `searchAnalytics/query`.

use bytes::Bytes;
use serde_json::{Value, json};

use super::SearchConsole;
use super::bulk::{self, Bulk};
use super::calendar::{Calendar, hour_date, hour_text};
use super::request::{DataState, Dimension, QueryRequest};
use super::sites::{Content, Site};
use super::source::{LogSource, Names, Source, Wanted};
use super::table::{self, Key, Row, RowWriter};
use crate::answer::Answer;
use crate::events::mix;
use crate::google_error::GoogleError;

/// The answer to a request about a site.
pub(crate) fn answer(console: &SearchConsole, site: &Site, request: &QueryRequest) -> Result<Answer, GoogleError> {
    let calendar = console.calendar();
    let wanted = Wanted { kind: request.kind, state: request.state, calendar };
    let days = calendar.days(request);
    let tail = tail(console, site, request, &calendar);
    if site.content == Content::Bulk {
        let bulk = Bulk::new(console.seed, site, request, &calendar)?;
        let days = bulk.days(days);
        return match bulk.ranked(request, days.clone()) {
            Some(ranked) => Ok(streamed(console, site, request, ranked, &tail)),
            None => Ok(whole(console, site, request, table::aggregate(request, days, wanted, &bulk), &bulk, &tail)),
        };
    }
    let source = LogSource::new(&console.searches, site);
    let mut rows = table::aggregate(request, days.clone(), wanted, &source);
    if site.zero_days && request.dimensions == [Dimension::Date] {
        let missing: Vec<i32> = days.filter(|day| rows.iter().all(|row| row.key.time != *day)).collect();
        rows.extend(missing.into_iter().map(|time| Row { key: Key { time, ..Key::default() }, ..Row::default() }));
    }
    Ok(whole(console, site, request, rows, &source, &tail))
}

/// The sums of a request without dimensions: clicks and impressions. For `/__sandbox/facts`.
pub(crate) fn totals(console: &SearchConsole, site: &Site, request: &QueryRequest) -> (u64, u64) {
    let calendar = console.calendar();
    let wanted = Wanted { kind: request.kind, state: request.state, calendar };
    let source: &dyn Source = &LogSource::new(&console.searches, site);
    let rows = table::aggregate(request, calendar.days(request), wanted, source);
    rows.iter().fold((0, 0), |sum, row| (sum.0 + row.clicks, sum.1 + row.impressions))
}

/// A number that depends on the site: which pages are short.
fn salt(console: &SearchConsole, site: &str) -> u64 {
    site.bytes().fold(console.seed, |sum, byte| mix(sum, u64::from(byte)))
}

/// What follows the rows.
fn tail(console: &SearchConsole, site: &Site, request: &QueryRequest, calendar: &Calendar) -> Value {
    let mut tail = json!({"responseAggregationType": request.aggregation.name()});
    let name = |camel: &str, snake: &str| if site.snake_metadata { snake.to_owned() } else { camel.to_owned() };
    let first_day = calendar.first_incomplete_day();
    if request.state == DataState::All && request.groups(Dimension::Date) && request.last >= first_day {
        let key = name("firstIncompleteDate", "first_incomplete_date");
        tail["metadata"][key] = json!(first_day.to_string());
    }
    if request.state == DataState::HourlyAll {
        let first_hour = calendar.first_incomplete_hour();
        let zone = &console.searches.zone;
        if request.last >= hour_date(zone, first_hour) {
            let key = name("firstIncompleteHour", "first_incomplete_hour");
            tail["metadata"][key] = json!(hour_text(zone, first_hour));
        }
    }
    tail
}

fn whole(
    console: &SearchConsole,
    site: &Site,
    request: &QueryRequest,
    mut rows: Vec<Row>,
    names: &dyn Names,
    tail: &Value,
) -> Answer {
    table::order(&mut rows, request.row_limit);
    let page = table::page(request, salt(console, &site.url), rows.len(), table::tail_start(&rows));
    let ending = ending(page.is_empty(), tail);
    let writer =
        RowWriter { dimensions: &request.dimensions, positions: !request.kind.is_feed(), zone: &console.searches.zone };
    let mut out = Vec::new();
    for (index, row) in rows[page].iter().enumerate() {
        out.extend_from_slice(if index == 0 { BEGINNING } else { b"," });
        writer.write(&mut out, names, row);
    }
    out.extend_from_slice(&ending);
    Answer::raw(200, "application/json; charset=UTF-8", out)
}

/// What stands before the first row.
const BEGINNING: &[u8] = b"{\"rows\":[";

/// What follows the last row. Without rows there is no key `rows`.
fn ending(empty: bool, tail: &Value) -> Vec<u8> {
    let text = tail.to_string();
    if empty { text.into_bytes() } else { text.replacen('{', "],", 1).into_bytes() }
}

/// Bytes in a piece of a streamed body.
const PIECE: usize = 64 * 1024;

/// The body of a large answer, made while it is sent; never compressed.
fn streamed(
    console: &SearchConsole,
    site: &Site,
    request: &QueryRequest,
    ranked: bulk::Ranked,
    tail: &Value,
) -> Answer {
    let mut page = table::page(request, salt(console, &site.url), ranked.len(), ranked.tail_start());
    let mut ending = Some(ending(page.is_empty(), tail));
    let mut before = BEGINNING;
    let (dimensions, zone) = (request.dimensions.clone(), console.searches.zone.clone());
    Answer::streamed(std::iter::from_fn(move || {
        ending.as_ref()?;
        let writer = RowWriter { dimensions: &dimensions, positions: true, zone: &zone };
        let mut out = Vec::with_capacity(PIECE + 1024);
        while out.len() < PIECE {
            let Some(index) = page.next() else {
                out.extend(ending.take().unwrap_or_default());
                break;
            };
            out.extend_from_slice(before);
            before = b",";
            writer.write(&mut out, &ranked, &ranked.row(index));
        }
        Some(Bytes::from(out))
    }))
}
