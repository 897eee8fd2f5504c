//! The bulk property's rows: up to three million, computed from seed and index, outside the event log.
//!
//! A day has [`ROWS_PER_DAY`] rows. Row `k` of a day is in bucket `k / 2500`; `eventCount`, `sessions` and `activeUsers` fall
//! from bucket to bucket and from day to day. So the rows are already in the order "first metric descending, then dimensions
//! ascending", and a page is computed from its offset alone. An order that the index doesn't imply is refused.

use std::io::Write;

use bytes::Bytes;
use serde_json::{Value, json};

use super::catalogue::{BULK_ITEM, Catalogue};
use super::request::{Aggregation, OrderKey, ReportRequest};
use super::{dates, number, report};
use crate::clock;
use crate::events::mix;
use crate::google_error::GoogleError;
use crate::lock;
use crate::world::{Property, World};

/// Rows of each day.
pub(crate) const ROWS_PER_DAY: u64 = 25_000;

/// Days with rows: up to yesterday.
pub(crate) const DAYS: i32 = 120;

/// Rows in a bucket of equal metrics.
const BUCKET: u64 = 2_500;

/// Bytes in a piece of the body.
const PIECE: usize = 64 * 1024;

/// One country for each bucket, in alphabetical order.
const COUNTRIES: [&str; 10] = [
    "Austria",
    "Belgium",
    "Czechia",
    "Denmark",
    "Finland",
    "Germany",
    "Italy",
    "Netherlands",
    "Switzerland",
    "United Kingdom",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Date,
    Item,
    Path,
    Country,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Metric {
    /// `eventCount` minus this: falls with the index.
    Falling(u64),
    Revenue,
}

/// A page of bulk rows.
pub(crate) struct Bulk {
    seed: u64,
    dimensions: Vec<Dimension>,
    metrics: Vec<Metric>,
    /// Day number of the oldest day with rows.
    oldest: i32,
    /// Day number of the first requested day with rows.
    first: i32,
    offset: u64,
    rows: u64,
    head: String,
    tail: Vec<(String, Value)>,
}

fn dimension(name: &str) -> Option<Dimension> {
    match name {
        "date" => Some(Dimension::Date),
        BULK_ITEM => Some(Dimension::Item),
        "pagePath" => Some(Dimension::Path),
        "country" => Some(Dimension::Country),
        _ => None,
    }
}

fn metric(name: &str) -> Option<Metric> {
    match name {
        "eventCount" => Some(Metric::Falling(0)),
        "sessions" => Some(Metric::Falling(700)),
        "activeUsers" => Some(Metric::Falling(740)),
        "totalRevenue" => Some(Metric::Revenue),
        _ => None,
    }
}

fn refuse(why: &str) -> GoogleError {
    GoogleError::invalid(format!("sandbox: the bulk property can't {why}"))
}

impl Bulk {
    /// Checks a request for bulk rows.
    pub(crate) fn new(world: &World, property: &Property, request: &ReportRequest) -> Result<Self, GoogleError> {
        let today = clock::today(&property.zone);
        let ranges = dates::resolve(&request.ranges, today)?;
        let catalogue = Catalogue::of(property);
        let selected = report::select(request, &catalogue)?;
        let [range] = ranges.as_slice() else {
            return Err(refuse("take several date ranges"));
        };
        if request.dimension_filter.is_some() || request.metric_filter.is_some() {
            return Err(refuse("filter its rows"));
        }
        if request.aggregations.iter().any(|a| *a != Aggregation::Total) {
            return Err(refuse("compute MINIMUM or MAXIMUM"));
        }
        if request.currency.as_deref().is_some_and(|c| c != property.currency) {
            return Err(refuse("convert currencies"));
        }
        let dimensions: Option<Vec<Dimension>> = request.dimensions.iter().map(|d| dimension(d)).collect();
        let metrics: Option<Vec<Metric>> = request.metrics.iter().map(|m| metric(m)).collect();
        let (Some(dimensions), Some(metrics)) = (dimensions, metrics) else {
            return Err(refuse(
                "combine customEvent:item_id with other fields than date, pagePath, country, eventCount, sessions, \
                 activeUsers, totalRevenue",
            ));
        };
        check_order(request)?;
        let yesterday = clock::day_number(today) - 1;
        let oldest = yesterday - DAYS + 1;
        let first = range.start.max(oldest);
        let days = u64::try_from(range.end.min(yesterday) - first + 1).unwrap_or(0);
        let count = days * ROWS_PER_DAY;
        let offset = request.offset.min(count);
        let mut bulk = Self {
            seed: world.seed,
            dimensions,
            metrics,
            oldest,
            first,
            offset,
            rows: request.limit.min(count - offset),
            head: String::new(),
            tail: Vec::new(),
        };
        let headers = Value::Object(report::headers(request, &selected, false)).to_string();
        // The object stays open: the rows follow.
        bulk.head = headers.strip_suffix('}').unwrap_or(&headers).to_owned();
        if request.aggregations.contains(&Aggregation::Total) {
            let totals = bulk.totals(world, days);
            bulk.tail.push(("totals".into(), json!([totals])));
        }
        if count > 0 {
            bulk.tail.push(("rowCount".into(), json!(count)));
        }
        bulk.tail.push(("metadata".into(), json!({"currencyCode": property.currency, "timeZone": property.zone_name})));
        Ok(bulk)
    }

    /// Large pages cost more.
    pub(crate) fn tokens(&self) -> u64 {
        1 + self.rows / 25_000
    }

    /// The body, piece by piece.
    pub(crate) fn into_pieces(mut self, quota: Option<Value>) -> Pieces {
        if let Some(quota) = quota {
            self.tail.push(("propertyQuota".into(), quota));
        }
        self.tail.push(("kind".into(), json!("analyticsData#runReport")));
        Pieces { next: self.offset, end: self.offset + self.rows, state: State::Head, bulk: self }
    }

    /// Sums over all rows, exactly: closed forms, and for revenue a loop over each day that is kept.
    fn totals(&self, world: &World, days: u64) -> Value {
        let revenue: u64 = (0..days).map(|d| self.day_cents(world, self.first + i32::try_from(d).unwrap_or(0))).sum();
        // Over one day the buckets 0..10 take 0+1+...+9 = 45 off, 2,500 times.
        let first_age = u64::try_from(self.first - self.oldest).unwrap_or(0);
        let ages: u64 = (0..days).map(|d| first_age + d).sum();
        let events = days * (2_000 * ROWS_PER_DAY - 45 * BUCKET) - 10 * ages * ROWS_PER_DAY;
        let values: Vec<Value> = self
            .metrics
            .iter()
            .map(|metric| match metric {
                Metric::Falling(less) => {
                    json!({"value": (events - less * days * ROWS_PER_DAY).to_string()})
                }
                Metric::Revenue => json!({"value": number::format(revenue as f64 / 100.0)}),
            })
            .collect();
        let dimensions: Vec<Value> = self.dimensions.iter().map(|_| json!({"value": "RESERVED_TOTAL"})).collect();
        let mut row = json!({"dimensionValues": dimensions});
        if !values.is_empty() {
            row["metricValues"] = Value::Array(values);
        }
        row
    }

    fn day_cents(&self, world: &World, day: i32) -> u64 {
        if let Some(cents) = lock(&world.bulk_cents).get(&day) {
            return *cents;
        }
        let start = row_number(day, 0);
        let cents = (start..start + ROWS_PER_DAY).map(|row| cents(self.seed, row)).sum();
        lock(&world.bulk_cents).insert(day, cents);
        cents
    }

    fn write_row(&self, out: &mut Vec<u8>, index: u64) {
        let days = i32::try_from(index / ROWS_PER_DAY).unwrap_or(0);
        let k = index % ROWS_PER_DAY;
        let day = self.first + days;
        let row = row_number(day, k);
        out.extend_from_slice(b"{\"dimensionValues\":[");
        for (i, dimension) in self.dimensions.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b"{\"value\":\"" } else { b",{\"value\":\"" });
            // Writing to a vector can't fail.
            let _ = match dimension {
                Dimension::Date => {
                    let date = clock::date_of(day);
                    write!(out, "{:04}{:02}{:02}", date.year(), date.month(), date.day())
                }
                Dimension::Item => write!(out, "SKU-{row:010}"),
                Dimension::Path => write!(
                    out,
                    "/catalogue/{row:010}/solid-oak-dining-table-with-extension-leaf/colour-natural-oiled/\
                     size-180-by-90-centimetres/delivered-to-your-door"
                ),
                Dimension::Country => {
                    let bucket = usize::try_from(k / BUCKET).unwrap_or(0);
                    out.write_all(COUNTRIES[bucket].as_bytes())
                }
            };
            out.extend_from_slice(b"\"}");
        }
        out.push(b']');
        if !self.metrics.is_empty() {
            self.write_metrics(out, day, k, row);
        }
        out.push(b'}');
    }

    fn write_metrics(&self, out: &mut Vec<u8>, day: i32, k: u64, row: u64) {
        let age = u64::try_from(day - self.oldest).unwrap_or(0);
        out.extend_from_slice(b",\"metricValues\":[");
        for (i, metric) in self.metrics.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b"{\"value\":\"" } else { b",{\"value\":\"" });
            let _ = match metric {
                Metric::Falling(less) => write!(out, "{}", 2_000 - 10 * age - k / BUCKET - less),
                Metric::Revenue => write_cents(out, cents(self.seed, row)),
            };
            out.extend_from_slice(b"\"}");
        }
        out.push(b']');
    }
}

/// A number that grows with the index over all days.
fn row_number(day: i32, k: u64) -> u64 {
    u64::from(day.unsigned_abs()) * ROWS_PER_DAY + k
}

fn cents(seed: u64, row: u64) -> u64 {
    mix(seed, row) % 100_000
}

/// As `%.15g` prints it: no zeros at the end.
fn write_cents(out: &mut Vec<u8>, cents: u64) -> std::io::Result<()> {
    let (whole, rest) = (cents / 100, cents % 100);
    match (rest, rest % 10) {
        (0, _) => write!(out, "{whole}"),
        (_, 0) => write!(out, "{whole}.{}", rest / 10),
        _ => write!(out, "{whole}.{rest:02}"),
    }
}

/// Accepts the orders that the index implies.
fn check_order(request: &ReportRequest) -> Result<(), GoogleError> {
    let impossible = || {
        refuse(
            "sort like this: it has orders that start with eventCount, sessions or activeUsers descending, or with \
             date, customEvent:item_id or pagePath ascending",
        )
    };
    if request.order_bys.is_empty() {
        return match request.metrics.first().map(|name| metric(name)) {
            None | Some(Some(Metric::Falling(_))) => Ok(()),
            _ => Err(impossible()),
        };
    }
    let (mut same_day, mut same_bucket) = (false, false);
    for order in &request.order_bys {
        match &order.key {
            OrderKey::Metric(name) => match metric(name) {
                Some(Metric::Falling(_)) if order.desc || same_bucket => {
                    (same_day, same_bucket) = (true, true);
                }
                _ => return Err(impossible()),
            },
            OrderKey::Alphanumeric(name) | OrderKey::CaseInsensitive(name) | OrderKey::Numeric(name) => {
                let numeric = matches!(order.key, OrderKey::Numeric(_));
                match dimension(name) {
                    Some(Dimension::Date) if !order.desc || same_day => same_day = true,
                    Some(Dimension::Country) if same_bucket || (same_day && !order.desc && !numeric) => {
                        same_bucket = true;
                    }
                    // Unique and growing: whatever follows can't change the order.
                    Some(Dimension::Item | Dimension::Path) if !order.desc && !numeric => {
                        return Ok(());
                    }
                    _ => return Err(impossible()),
                }
            }
        }
    }
    Ok(())
}

enum State {
    Head,
    Rows,
    Done,
}

/// The pieces of a bulk answer.
pub(crate) struct Pieces {
    bulk: Bulk,
    next: u64,
    end: u64,
    state: State,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::with_capacity(PIECE + 1024);
        if let State::Done = self.state {
            return None;
        }
        if let State::Head = self.state {
            out.extend_from_slice(self.bulk.head.as_bytes());
            if self.next < self.end {
                out.extend_from_slice(b",\"rows\":[");
            }
            self.state = State::Rows;
        }
        while self.next < self.end && out.len() < PIECE {
            self.bulk.write_row(&mut out, self.next);
            self.next += 1;
            out.push(if self.next < self.end { b',' } else { b']' });
        }
        if self.next == self.end {
            for (key, value) in &self.bulk.tail {
                let _ = write!(out, ",\"{key}\":{value}");
            }
            out.push(b'}');
            self.state = State::Done;
        }
        Some(Bytes::from(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cents_like_doubles() {
        for value in [0, 1, 10, 99, 100, 12_345, 12_340, 99_999] {
            let mut out = Vec::new();
            write_cents(&mut out, value).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), number::format(value as f64 / 100.0));
        }
    }
}
