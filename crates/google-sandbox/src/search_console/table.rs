//! Groups hits into rows, orders them as Google does, and cuts pages out of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::ops::{Range, RangeInclusive};

use jiff::tz::TimeZone;

use super::calendar::hour_text;
use super::filters::Filter;
use super::request::{Aggregation, Dimension, QueryRequest};
use super::searches::{APPEARANCES, COUNTRIES, NO_QUERY, SEARCH_DEVICES};
use super::source::{Hit, Names, Source, Wanted};
use crate::clock::date_of;
use crate::events::mix;

/// Longer ranges lose what was shown rarely, once queries are grouped by.
const LOSSLESS_DAYS: i32 = 92;
/// What a row of a longer range needs.
const LONG_RANGE_IMPRESSIONS: u64 = 3;

/// Rows before this one never come twice.
const FIRST_REPEAT: usize = 1_000;
/// One row more comes twice for every so many.
const REPEAT_EVERY: usize = 10_000;
/// Smaller pages are never cut short.
const SHORT_FROM: usize = 50;

/// What a row is grouped by; dimensions that aren't asked for are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Day number or hours since 1970.
    pub(crate) time: i32,
    pub(crate) query: u32,
    pub(crate) page: u32,
    pub(crate) country: u8,
    pub(crate) device: u8,
    /// Index into [`APPEARANCES`].
    pub(crate) appearance: u8,
}

/// A row before it is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) clicks: u64,
    pub(crate) impressions: u64,
    /// Sum of the positions of all impressions, in tenths.
    pub(crate) tenths: u64,
}

/// Groups the hits of these days.
pub(crate) fn aggregate(
    request: &QueryRequest,
    days: RangeInclusive<i32>,
    wanted: Wanted,
    source: &dyn Source,
) -> Vec<Row> {
    let by_property = request.aggregation == Aggregation::ByProperty;
    let by_query = request.groups(Dimension::Query) || request.filters_by(Dimension::Query);
    let mut filters: Vec<KnownFilter<'_>> = request.filters.iter().map(KnownFilter::new).collect();
    let mut rows: HashMap<Key, Row> = HashMap::new();
    let mut add = |key: Key, hit: &Hit| {
        let row = rows.entry(key).or_insert_with(|| Row { key, ..Row::default() });
        row.clicks += hit.clicks;
        row.impressions += if by_property { hit.top_impressions } else { hit.impressions };
        row.tenths += if by_property { hit.top_tenths } else { hit.tenths };
    };
    for day in days.clone() {
        source.hits(day, wanted, &mut |hit| {
            // What was searched too rarely is in no row with a query, and in no sum filtered by one.
            if by_query && hit.query >= NO_QUERY {
                return;
            }
            if !filters.iter_mut().all(|filter| filter.passes(&hit, source)) {
                return;
            }
            let key = key(request, &hit);
            if !request.groups(Dimension::Appearance) {
                add(key, &hit);
                return;
            }
            for appearance in bits(hit.appearance) {
                add(Key { appearance, ..key }, &hit);
            }
        });
    }
    let long = days.end() - days.start() >= LOSSLESS_DAYS && request.groups(Dimension::Query);
    let least = if long { LONG_RANGE_IMPRESSIONS } else { 1 };
    rows.into_values().filter(|row| row.impressions >= least).collect()
}

fn key(request: &QueryRequest, hit: &Hit) -> Key {
    let mut key = Key::default();
    for dimension in &request.dimensions {
        match dimension {
            Dimension::Date => key.time = hit.day,
            Dimension::Hour => key.time = hit.hour,
            Dimension::Query => key.query = hit.query,
            Dimension::Page => key.page = hit.page,
            Dimension::Country => key.country = hit.country,
            Dimension::Device => key.device = hit.device,
            Dimension::Appearance => {}
        }
    }
    key
}

fn bits(appearance: u8) -> impl Iterator<Item = u8> {
    (0..APPEARANCES.len() as u8).filter(move |bit| appearance >> bit & 1 == 1)
}

/// A filter that remembers which queries and pages pass.
struct KnownFilter<'a> {
    filter: &'a Filter,
    known: HashMap<u32, bool>,
}

impl<'a> KnownFilter<'a> {
    fn new(filter: &'a Filter) -> Self {
        Self { filter, known: HashMap::new() }
    }

    fn passes(&mut self, hit: &Hit, names: &dyn Source) -> bool {
        let filter = self.filter;
        match filter.dimension {
            Dimension::Query => *self.known.entry(hit.query).or_insert_with(|| filter.passes(&names.query(hit.query))),
            Dimension::Page => *self.known.entry(hit.page).or_insert_with(|| filter.passes(&names.page(hit.page))),
            Dimension::Country => filter.passes(COUNTRIES[usize::from(hit.country)].1),
            Dimension::Device => filter.passes(SEARCH_DEVICES[usize::from(hit.device)]),
            Dimension::Appearance => bits(hit.appearance).any(|bit| filter.passes(APPEARANCES[usize::from(bit)])),
            Dimension::Date | Dimension::Hour => false,
        }
    }
}

/// Orders rows: by time when grouped by it, then by clicks; ties in an order that changes with the page size.
pub(crate) fn order(rows: &mut [Row], row_limit: usize) {
    rows.sort_by_cached_key(|row| {
        let key = row.key;
        let text =
            mix(u64::from(key.query) << 32 | u64::from(key.page), u64::from(key.country) << 8 | u64::from(key.device));
        (key.time, u64::MAX - row.clicks, mix(text ^ u64::from(key.appearance), row_limit as u64))
    });
}

/// Where the last rows that tie begin.
pub(crate) fn tail_start(rows: &[Row]) -> usize {
    let tie = |row: &Row| (row.key.time, row.clicks);
    let last = rows.last().map(tie);
    rows.iter().rposition(|row| Some(tie(row)) != last).map_or(0, |index| index + 1)
}

/// The rows of an answer.
///
/// Two things that clients fall over. In the tail of rows that tie, an answer that doesn't begin at row 0 starts with a row
/// that the one before had too: so a page sequence has every row, and some of them twice. And one page in three of several
/// dimensions is an eighth shorter than asked for although rows follow.
pub(crate) fn page(request: &QueryRequest, salt: u64, total: usize, tail_start: usize) -> Range<usize> {
    let tail = tail_start.max(FIRST_REPEAT);
    let start = request.start_row;
    let repeated = if start > tail { 1 + (start - tail - 1) / REPEAT_EVERY } else { 0 };
    let from = (start - repeated).min(total);
    let mut count = request.row_limit.min(total - from);
    let luck = mix(salt, mix(start as u64, u64::from(crate::clock::day_number(request.first).unsigned_abs())));
    if request.dimensions.len() > 1 && count >= SHORT_FROM && luck.is_multiple_of(3) {
        count -= count / 8;
    }
    from..from + count
}

/// Writes rows as JSON.
pub(crate) struct RowWriter<'a> {
    pub(crate) dimensions: &'a [Dimension],
    /// Discover and Google News have no positions.
    pub(crate) positions: bool,
    pub(crate) zone: &'a TimeZone,
}

impl RowWriter<'_> {
    /// Appends a row. Counts are doubles on the wire.
    pub(crate) fn write(&self, out: &mut Vec<u8>, names: &dyn Names, row: &Row) {
        // Writing to a vector can't fail.
        let _ = self.try_write(out, names, row);
    }

    fn try_write(&self, out: &mut Vec<u8>, names: &dyn Names, row: &Row) -> std::io::Result<()> {
        out.push(b'{');
        for (index, dimension) in self.dimensions.iter().enumerate() {
            out.write_all(if index == 0 { b"\"keys\":[" } else { b"," })?;
            serde_json::to_writer(&mut *out, &self.text(names, *dimension, &row.key))?;
        }
        if !self.dimensions.is_empty() {
            out.write_all(b"],")?;
        }
        let share = |part: f64| if row.impressions == 0 { 0.0 } else { part / row.impressions as f64 };
        write!(
            out,
            "\"clicks\":{:?},\"impressions\":{:?},\"ctr\":{:?}",
            row.clicks as f64,
            row.impressions as f64,
            share(row.clicks as f64)
        )?;
        if self.positions {
            write!(out, ",\"position\":{:?}", share(row.tenths as f64 / 10.0))?;
        }
        out.write_all(b"}")
    }

    fn text<'n>(&self, names: &'n dyn Names, dimension: Dimension, key: &Key) -> Cow<'n, str> {
        match dimension {
            Dimension::Date => date_of(key.time).to_string().into(),
            Dimension::Hour => hour_text(self.zone, key.time).into(),
            Dimension::Query => names.query(key.query),
            Dimension::Page => names.page(key.page),
            Dimension::Country => COUNTRIES[usize::from(key.country)].1.into(),
            Dimension::Device => SEARCH_DEVICES[usize::from(key.device)].into(),
            Dimension::Appearance => APPEARANCES[usize::from(key.appearance)].into(),
        }
    }
}
