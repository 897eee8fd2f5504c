//! A whole answer: every page of a question, each row once, day by day where Google would leave rows out.
//!
//! Google does not say how many rows there are. It gives pages until one is empty; short ones come in the middle too, and a
//! row that ties with others can come on two pages. A question over several days is answered with its top rows alone, so
//! where that bound is reached each day is asked for by itself.
//!
//! Pages and days are asked for ahead of the reader, within the bound of the property's lanes, and handed on in order.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use acp_core::{DateWindow, Error, Result};
use acp_google::Failure;
use futures::stream::{FuturesOrdered, StreamExt, iter};
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{LANES, PAGE_ROWS, Page, Row, SearchRequest, Site};
use crate::check::{Aggregation, Combination, DataState, Dimension, SearchType};
use crate::filters::{Filter, FilterDimension, Metric, groups};

/// Rows of a day that Google exposes for a property and a search type; also what a question over several days gives at most
/// before rows are left out.
pub(crate) const DAY_ROWS: u64 = 50_000;
/// Rows of a day when query is the only dimension, days aside.
pub(crate) const QUERY_DAY_ROWS: u64 = 5_000;
/// Pages of one question, in case it does not end: 16 months of [`DAY_ROWS`] have fewer.
const PAGES_MAX: u64 = 2_000;
/// Pages of one day, which are held until the day is read.
const DAY_PAGES_MAX: u64 = 20;
/// Pages in a row without anything new after which Google is taken to repeat itself.
const REPEATED_PAGES_MAX: u32 = 3;
/// Hashes of rows that were seen lately, before they are sorted in among the others.
const RECENT_MIN: usize = 1 << 15;

/// Whether to ask day by day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WalkDays {
    #[default]
    Auto,
    Never,
    Always,
}

/// A question, checked.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) dimensions: Vec<Dimension>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) search_type: SearchType,
    pub(crate) aggregation: Aggregation,
    pub(crate) data_state: DataState,
    pub(crate) window: DateWindow,
}

/// The figures of a row, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) clicks: f64,
    pub(crate) impressions: f64,
    /// Fraction.
    pub(crate) ctr: f64,
    /// 1 is the top. Discover and Google News have none.
    pub(crate) position: Option<f64>,
}

impl Figures {
    /// Adds the figures of other days: ctr is computed anew, positions are weighted by impressions.
    pub(crate) fn join(&mut self, other: &Self) {
        let impressions = self.impressions + other.impressions;
        self.position = match (self.position, other.position) {
            (Some(one), Some(two)) if impressions > 0.0 => {
                Some((one * self.impressions + two * other.impressions) / impressions)
            }
            (one, two) => one.or(two),
        };
        self.clicks += other.clicks;
        self.impressions = impressions;
        self.ctr = if impressions > 0.0 { self.clicks / impressions } else { 0.0 };
    }

    /// One of them.
    pub(crate) fn get(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Clicks => Some(self.clicks),
            Metric::Impressions => Some(self.impressions),
            Metric::Ctr => Some(self.ctr),
            Metric::Position => self.position,
        }
    }
}

impl Query {
    /// What is combined.
    pub(crate) fn combination(&self) -> Combination<'_> {
        Combination {
            dimensions: &self.dimensions,
            filters: &self.filters,
            search_type: self.search_type,
            aggregation: self.aggregation,
            data_state: self.data_state,
        }
    }

    /// Whether a filter on the query takes the anonymised queries away, from totals too.
    pub(crate) fn filters_queries(&self) -> bool {
        self.filters.iter().any(|filter| filter.dimension == FilterDimension::Query)
    }

    /// The same question with its other filters alone.
    pub(crate) fn without_query_filters(&self) -> Self {
        let others = self.filters.iter().filter(|filter| filter.dimension != FilterDimension::Query);
        Self { filters: others.cloned().collect(), ..self.clone() }
    }

    /// The same question about one day.
    fn on(&self, day: Date) -> Self {
        Self { window: DateWindow { start: day, end: day }, ..self.clone() }
    }

    /// The question of the totals: no dimensions, counted in the same way.
    pub(crate) fn totals(&self, counted: &str) -> SearchRequest {
        let state = if self.data_state == DataState::HourlyAll { DataState::All } else { self.data_state };
        let whole = Self { dimensions: Vec::new(), data_state: state, ..self.clone() };
        SearchRequest { aggregation_type: Some(counted.to_owned()), row_limit: 1, ..whole.request(0) }
    }

    /// The request for a page.
    pub(crate) fn request(&self, start_row: u64) -> SearchRequest {
        SearchRequest {
            start_date: self.window.start.to_string(),
            end_date: self.window.end.to_string(),
            dimensions: self.dimensions.iter().map(|dimension| json!(dimension.name())).collect(),
            search_type: json!(self.search_type.name()),
            aggregation_type: (self.aggregation != Aggregation::Auto).then(|| self.aggregation.name().to_owned()),
            data_state: (self.data_state != DataState::Final).then(|| json!(self.data_state.name())),
            dimension_filter_groups: groups(&self.filters),
            row_limit: PAGE_ROWS,
            start_row,
        }
    }

    /// Whether the same key can come on several days.
    fn repeats_keys(&self) -> bool {
        !self.dimensions.iter().any(|dimension| matches!(dimension, Dimension::Date | Dimension::Hour))
    }

    /// Whether queries are grouped by nothing else, days aside. Google gives fewer of them a day then, so that days by
    /// themselves have fewer than the window has.
    pub(crate) fn is_queries_alone(&self) -> bool {
        let alone = |dimension: &Dimension| matches!(dimension, Dimension::Query | Dimension::Date);
        self.dimensions.contains(&Dimension::Query) && self.dimensions.iter().all(alone)
    }

    /// Rows of so many days at which Google leaves the others out.
    fn cap(&self, days: u64) -> u64 {
        if self.is_queries_alone() { DAY_ROWS.min(days * QUERY_DAY_ROWS) } else { DAY_ROWS }
    }

    /// The totals of the question, as Google counts them. No traffic at all is zeros.
    pub(crate) async fn ask_totals(&self, site: &Site, counted: &str) -> Result<Figures, Failure> {
        let page = site.search(&self.totals(counted)).await?;
        let mut totals = Figures::default();
        page.each(|row| {
            totals = self.figures(&row);
            Ok(())
        })?;
        Ok(totals)
    }

    fn figures(&self, row: &Row<'_>) -> Figures {
        // Feeds have no position; a zero would read as the best one.
        let position = row.position.filter(|_| !self.search_type.is_feed());
        Figures { clicks: row.clicks, impressions: row.impressions, ctr: row.ctr, position }
    }
}

/// Where rows go.
pub(crate) trait Sink {
    /// Begins anew. With `merge`, the same key can come again and its figures have to be joined.
    fn begin(&mut self, merge: bool) -> Result<()>;
    /// Takes a row; its values are in the order of the dimensions.
    fn row(&mut self, row: &Row<'_>, figures: &Figures) -> Result<()>;
    /// Hears how far the extraction is.
    fn progress(&mut self, done: u64, total: Option<u64>, message: String);
}

/// What was extracted, beside the rows.
#[derive(Debug, Default)]
pub(crate) struct Extracted {
    /// How impressions were counted.
    pub(crate) counted: String,
    /// Whether each day was asked for by itself.
    pub(crate) walked: bool,
    pub(crate) rows: u64,
    /// All rows together, each counted once.
    pub(crate) sums: Figures,
    /// Days on which Google's bound was reached; of a question that was not walked, its first day.
    pub(crate) capped: Vec<Date>,
    /// Why and from which day on there is nothing, if a quota ended the walk.
    pub(crate) stopped: Option<(Date, Error)>,
}

/// Extracts a question into a sink.
pub(crate) async fn extract(site: &Site, query: &Query, walk: WalkDays, sink: &mut impl Sink) -> Result<Extracted> {
    // Without dimensions there is one row, whose figures are of the whole window.
    let walkable = query.window.days() > 1 && !query.dimensions.is_empty();
    if walk != WalkDays::Always || !walkable {
        sink.begin(false)?;
        let stop_at = (walk == WalkDays::Auto && walkable && !query.is_queries_alone()).then_some(DAY_ROWS);
        if let Some(extracted) = whole_window(site, query, stop_at, sink).await? {
            return Ok(extracted);
        }
    }
    sink.begin(query.repeats_keys())?;
    day_by_day(site, query, sink).await
}

/// Asks for the window at once. `None` when `stop_at` rows came: there are more than Google gives for several days.
async fn whole_window(
    site: &Site,
    query: &Query,
    stop_at: Option<u64>,
    sink: &mut impl Sink,
) -> Result<Option<Extracted>> {
    let ask = |start_row: u64| {
        let request = query.request(start_row);
        async move { site.search(&request).await }
    };
    let mut reader = Reader::new(query);
    let mut pages = FuturesOrdered::from_iter([ask(0)]);
    let (mut planned, mut received, mut asked) = (PAGE_ROWS, 0, 1);
    while let Some(page) = pages.next().await {
        let page = page.map_err(|failure| failure.into_acp(&site.context))?;
        reader.page(&page, sink)?;
        let count = page.rows.len() as u64;
        received += count;
        if count == 0 || query.dimensions.is_empty() {
            break;
        }
        if stop_at.is_some_and(|stop_at| reader.extracted.rows >= stop_at) {
            return Ok(None);
        }
        // The next page begins where this one ended. Pages ahead assume full ones.
        let full = count == PAGE_ROWS;
        if !full {
            pages = FuturesOrdered::new();
            planned = received;
        }
        // One page less than there are lanes: beside them, the one that is being read is held.
        while pages.len() < if full { LANES - 1 } else { 1 } {
            pages.push_back(ask(planned));
            planned += PAGE_ROWS;
            asked += 1;
        }
        if asked > PAGES_MAX {
            return Err(endless());
        }
        sink.progress(reader.extracted.rows, None, format!("{} rows read", reader.extracted.rows));
    }
    reader.end_of(query.window.start, u64::from(query.window.days().unsigned_abs()));
    Ok(Some(reader.extracted))
}

/// Asks for each day by itself.
async fn day_by_day(site: &Site, query: &Query, sink: &mut impl Sink) -> Result<Extracted> {
    let total = u64::from(query.window.days().unsigned_abs());
    let window = query.window;
    let days = window.start.series(jiff::Span::new().days(1)).take_while(|day| *day <= window.end);
    let mut days = iter(days).map(|day| async move { (day, one_day(site, &query.on(day)).await) }).buffered(LANES);
    let mut reader = Reader::new(query);
    reader.extracted.walked = true;
    let mut done = 0;
    while let Some((day, pages)) = days.next().await {
        let pages = match pages {
            Ok(pages) => pages,
            Err(failure) if done > 0 && is_quota(&failure) => {
                reader.extracted.stopped = Some((day, failure.into_acp(&site.context)));
                break;
            }
            Err(failure) => return Err(failure.into_acp(&site.context)),
        };
        pages.iter().try_for_each(|page| reader.page(page, sink))?;
        reader.end_of(day, 1);
        done += 1;
        sink.progress(done, Some(total), format!("{done} of {total} days, {} rows read", reader.extracted.rows));
    }
    Ok(reader.extracted)
}

/// The pages of a day, whole: they are few.
async fn one_day(site: &Site, query: &Query) -> Result<Vec<Page>, Failure> {
    let mut pages = Vec::new();
    let mut received = 0;
    loop {
        let page = site.search(&query.request(received)).await?;
        let count = page.rows.len() as u64;
        received += count;
        pages.push(page);
        if count == 0 {
            return Ok(pages);
        }
        if pages.len() as u64 > DAY_PAGES_MAX {
            return Err(endless().into());
        }
    }
}

/// Whether a limit of Google's ended it, whatever was retried.
fn is_quota(failure: &Failure) -> bool {
    failure.google().is_some_and(|error| error.is_quota() || error.is_rate_limit())
}

fn endless() -> Error {
    Error::upstream(
        "Google's answer does not end. Ask again; if it happens again, use a shorter window or fewer dimensions.",
    )
}

/// Reads pages: each row once.
struct Reader<'a> {
    query: &'a Query,
    extracted: Extracted,
    seen: Seen,
    /// Rows of the current day, or of the window.
    rows: u64,
    /// Pages in a row that had nothing new.
    repeated: u32,
}

impl<'a> Reader<'a> {
    fn new(query: &'a Query) -> Self {
        Self { query, extracted: Extracted::default(), seen: Seen::new(), rows: 0, repeated: 0 }
    }

    fn page(&mut self, page: &Page, sink: &mut impl Sink) -> Result<()> {
        let before = self.rows;
        page.each(|row| {
            if row.keys.len() != self.query.dimensions.len() {
                return Err(Error::upstream(
                    "A row of Google's answer does not have the dimensions that were asked for. Ask again.",
                ));
            }
            if !self.seen.is_new(row.keys.iter().map(|key| &*key.0)) {
                return Ok(());
            }
            let figures = self.query.figures(&row);
            self.rows += 1;
            self.extracted.rows += 1;
            self.extracted.sums.join(&figures);
            sink.row(&row, &figures)
        })?;
        if !page.end.response_aggregation_type.is_empty() {
            self.extracted.counted.clone_from(&page.end.response_aggregation_type);
        }
        // The last pages may have nothing but repetitions, but not one after another.
        let nothing_new = !page.rows.is_empty() && self.rows == before;
        self.repeated = if nothing_new { self.repeated + 1 } else { 0 };
        if self.repeated > REPEATED_PAGES_MAX {
            return Err(Error::upstream(
                "The table is not complete: Google sends the same page again and again. Ask again.",
            ));
        }
        Ok(())
    }

    /// Ends a day, or several that were asked for together. Rows of others are disjoint from these, or will be merged.
    fn end_of(&mut self, first: Date, days: u64) {
        if self.rows >= self.query.cap(days) {
            self.extracted.capped.push(first);
        }
        self.seen = Seen::new();
        (self.rows, self.repeated) = (0, 0);
    }
}

/// The rows that were seen, as hashes: with 64 random bits two of millions are the same less than once in a million
/// extractions. Most are in a sorted list, which takes less than half the room of a set.
struct Seen {
    hasher: RandomState,
    sorted: Vec<u64>,
    recent: HashSet<u64, BuildHasherDefault<AsItIs>>,
}

impl Seen {
    fn new() -> Self {
        Self { hasher: RandomState::new(), sorted: Vec::new(), recent: HashSet::default() }
    }

    fn is_new<'a>(&mut self, key: impl Iterator<Item = &'a str>) -> bool {
        let mut hasher = self.hasher.build_hasher();
        for value in key {
            hasher.write(value.as_bytes());
            hasher.write_u8(0xFF);
        }
        self.insert(hasher.finish())
    }

    fn insert(&mut self, hash: u64) -> bool {
        if self.sorted.binary_search(&hash).is_ok() || !self.recent.insert(hash) {
            return false;
        }
        if self.recent.len() >= RECENT_MIN.max(self.sorted.len() / 8) {
            self.settle();
        }
        true
    }

    /// Sorts the recent ones in among the others, from the end, so that no second list is needed.
    fn settle(&mut self) {
        let mut recent: Vec<u64> = self.recent.drain().collect();
        recent.sort_unstable();
        let mut left = self.sorted.len();
        self.sorted.reserve_exact(recent.len());
        self.sorted.resize(left + recent.len(), 0);
        for place in (0..self.sorted.len()).rev() {
            let Some(&last) = recent.last() else { break };
            if left > 0 && self.sorted[left - 1] > last {
                left -= 1;
                self.sorted[place] = self.sorted[left];
            } else {
                self.sorted[place] = last;
                recent.pop();
            }
        }
    }
}

/// A hash of a hash is itself.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_days_join_without_plain_means() {
        let mut figures = Figures { clicks: 1.0, impressions: 100.0, ctr: 0.01, position: Some(1.0) };
        figures.join(&Figures { clicks: 9.0, impressions: 300.0, ctr: 0.03, position: Some(9.0) });
        assert_eq!(figures, Figures { clicks: 10.0, impressions: 400.0, ctr: 0.025, position: Some(7.0) });
        figures.join(&Figures::default());
        assert_eq!((figures.ctr, figures.position), (0.025, Some(7.0)));
        let mut nothing = Figures::default();
        nothing.join(&Figures::default());
        assert_eq!(nothing, Figures::default());
    }

    #[test]
    fn rows_are_told_apart_by_the_whole_key() {
        let mut seen = Seen::new();
        for (key, new) in
            [(["a", "b"], true), (["ab", ""], true), (["a", "b"], false), (["", "ab"], true), (["", "ab"], false)]
        {
            assert_eq!(seen.is_new(key.into_iter()), new, "{key:?}");
        }
    }

    #[test]
    fn many_rows_are_remembered_however_they_are_kept() {
        let mut seen = Seen::new();
        // An odd factor scatters them over all 64 bits, and is one to one.
        let hash = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for number in 0..200_000 {
            assert!(seen.insert(hash(number)), "{number}");
            assert!(!seen.insert(hash(number / 3)), "{number}");
        }
        assert!(seen.sorted.is_sorted() && seen.sorted.len() + seen.recent.len() == 200_000);
        assert!((0..200_000).all(|number| !seen.insert(hash(number))));
    }
}
