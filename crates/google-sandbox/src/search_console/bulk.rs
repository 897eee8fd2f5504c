//! The bulk sites: up to 60,000 rows a day, computed from seed and number, outside the event log.
//!
//! Row `k` of a day is one query on one page. The first [`HEAD`] rows have the same queries on every day, and clicks that fall
//! with `k`; the others have queries of their own day, and no clicks. Every day has the same counts, times a factor. So rows
//! are already in Google's order, and a page is computed from its first row alone.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::RangeInclusive;

use super::calendar::Calendar;
use super::request::{Aggregation, Dimension, QueryRequest, SearchType};
use super::searches::{COUNTRIES, HIDDEN, SEARCH_DEVICES};
use super::sites::Site;
use super::source::{Hit, Names, Source, Wanted};
use super::table::{Key, Row};
use crate::events::mix;
use crate::google_error::GoogleError;

/// Days with rows, up to the last final one.
pub(crate) const DAYS: i32 = 120;
/// Pairs of query and page on one day.
pub(crate) const PAIRS: u32 = 60_000;
/// Pairs of one day that Google shows, those with the most clicks.
pub(crate) const SHOWN: u32 = 50_000;
/// Pairs that exist on every day.
pub(crate) const HEAD: u32 = 10_000;
/// Queries of one day when nothing else is grouped by.
pub(crate) const QUERIES_ALONE: u32 = 5_000;
/// Queries of a page.
const PER_PAGE: u32 = 8;
/// Hidden queries of a day: one on each of the first pages.
const RARE: u32 = 600;
/// Pairs that one request may filter or group in other ways than by rank.
const SCANNED: u64 = 2_000_000;
/// The shelf of the sub-folder site; a page is on shelf `page % 10`.
const SHELF: u32 = 3;

/// Clicks of pair `k`, before the factor of the day: 100 rows tie with each other.
fn clicks(k: u32) -> u64 {
    u64::from(HEAD.saturating_sub(k).div_ceil(100))
}

fn impressions(seed: u64, k: u32) -> u64 {
    let luck = mix(seed ^ 0xB17C, u64::from(k));
    if k < HEAD { clicks(k) * 12 + 5 + luck % 30 } else { 1 + luck % 9 }
}

/// Position in tenths.
fn position(k: u32) -> u64 {
    10 + u64::from(k / 100)
}

/// Days differ in size, not in shape.
fn factor(day: i32) -> u64 {
    1 + u64::from(day.rem_euclid(3).unsigned_abs())
}

/// The number of a query: the same on each day for the head, another one for the rest.
fn query_number(day: i32, k: u32) -> u32 {
    if k < HEAD { k } else { HEAD + (day.rem_euclid(4_096).unsigned_abs() * (PAIRS - HEAD)) + (k - HEAD) }
}

fn query_text(number: u32) -> String {
    format!("bulk query {number:09} dining table with extension leaf")
}

fn page_url(number: u32) -> String {
    format!("https://www.bulk.example/shelf-{}/item-{number:08}", number % 10)
}

/// A hit without counts; a page has one country and one device.
fn place(day: i32, number: u32, k: u32) -> Hit {
    let block = k / PER_PAGE;
    Hit {
        day,
        query: number,
        page: number / PER_PAGE,
        country: (block % COUNTRIES.len() as u32) as u8,
        device: (block % SEARCH_DEVICES.len() as u32) as u8,
        ..Hit::default()
    }
}

/// Pair `k` of a day, times a factor.
fn pair(seed: u64, day: i32, k: u32, factor: u64) -> Hit {
    let shown = impressions(seed, k) * factor;
    // Every fourth impression stands below another page of the site.
    let top = shown - shown / 4;
    Hit {
        clicks: clicks(k) * factor,
        impressions: shown,
        tenths: shown * position(k),
        top_impressions: top,
        top_tenths: top * position(k),
        ..place(day, query_number(day, k), k)
    }
}

/// The hidden query on page number `index`.
fn rare(day: i32, index: u32, factor: u64) -> Hit {
    let shown = 900 * factor;
    Hit {
        clicks: 50 * factor,
        impressions: shown,
        tenths: shown * 55,
        top_impressions: shown,
        top_tenths: shown * 55,
        query: HIDDEN,
        ..place(day, index * PER_PAGE, index * PER_PAGE)
    }
}

/// A bulk site as a request sees it.
pub(crate) struct Bulk {
    seed: u64,
    /// Only this shelf, for the sub-folder.
    shelf: Option<u32>,
    /// Rows of a day that the request can reach.
    reach: u32,
    /// Whether the request needs queries or pages.
    texts: bool,
    days: RangeInclusive<i32>,
    /// One day with factor 1, by country and device.
    sums: OnceCell<Vec<Hit>>,
}

impl Bulk {
    /// Checks what the request needs. Google shows so many pairs of a day, and filters only those; but a sub-folder is a
    /// property of its own.
    pub(crate) fn new(
        seed: u64,
        site: &Site,
        request: &QueryRequest,
        calendar: &Calendar,
    ) -> Result<Self, GoogleError> {
        let touches = |dimension| request.groups(dimension) || request.filters_by(dimension);
        let shelf = (!site.url.starts_with("sc-domain:")).then_some(SHELF);
        let reach = match (shelf, touches(Dimension::Query)) {
            (None, true) if alone(request) => QUERIES_ALONE,
            (None, true) => SHOWN,
            _ => PAIRS,
        };
        let texts = touches(Dimension::Query) || touches(Dimension::Page);
        let bulk = Self {
            seed,
            shelf,
            reach,
            texts,
            days: calendar.last_final - DAYS + 1..=calendar.last_final,
            sums: OnceCell::new(),
        };
        if request.groups(Dimension::Hour) {
            return Err(GoogleError::unsupported("hours of a bulk site"));
        }
        let days = bulk.days(calendar.days(request));
        let scanned = days.clone().count() as u64 * u64::from(reach);
        if texts && scanned > SCANNED && bulk.ranked(request, days).is_none() {
            return Err(GoogleError::unsupported(&format!(
                "filters on queries or pages of a bulk site, or its sub-folder, over more than {} days",
                SCANNED / u64::from(reach)
            )));
        }
        Ok(bulk)
    }

    /// The days of a range that have rows.
    pub(crate) fn days(&self, range: RangeInclusive<i32>) -> RangeInclusive<i32> {
        *range.start().max(self.days.start())..=*range.end().min(self.days.end())
    }

    /// The rows by rank, if the request asks for nothing that changes their order.
    pub(crate) fn ranked(&self, request: &QueryRequest, days: RangeInclusive<i32>) -> Option<Ranked> {
        let by_rank = self.shelf.is_none()
            && request.kind == SearchType::Web
            && request.filters.is_empty()
            && (request.groups(Dimension::Query) || request.groups(Dimension::Page));
        by_rank.then(|| {
            let pages = !request.groups(Dimension::Query);
            let scale = if pages { PER_PAGE } else { 1 };
            Ranked {
                seed: self.seed,
                days: days.collect(),
                dimensions: request.dimensions.clone(),
                by_property: request.aggregation == Aggregation::ByProperty,
                pages,
                alone: alone(request),
                head: (HEAD / scale) as usize,
                per_day: (self.reach / scale) as usize,
            }
        })
    }

    /// One day by country and device: queries and pages don't matter then, and days differ by a factor only.
    fn sums(&self) -> &[Hit] {
        self.sums.get_or_init(|| {
            let mut sums: Vec<Hit> = Vec::new();
            self.each(0, 1, &mut |hit| {
                let same = |sum: &&mut Hit| (sum.country, sum.device) == (hit.country, hit.device);
                match sums.iter_mut().find(same) {
                    Some(sum) => add(sum, &hit),
                    None => sums.push(hit),
                }
            });
            sums
        })
    }

    fn each(&self, day: i32, factor: u64, each: &mut dyn FnMut(Hit)) {
        let own = |hit: &Hit| self.shelf.is_none_or(|shelf| hit.page % 10 == shelf);
        (0..self.reach).map(|k| pair(self.seed, day, k, factor)).filter(own).for_each(&mut *each);
        (0..RARE).map(|index| rare(day, index, factor)).filter(own).for_each(each);
    }
}

/// Whether queries are grouped by nothing else; a date doesn't count.
fn alone(request: &QueryRequest) -> bool {
    request.dimensions.iter().all(|dimension| matches!(dimension, Dimension::Query | Dimension::Date))
        && request.groups(Dimension::Query)
}

fn add(sum: &mut Hit, hit: &Hit) {
    sum.clicks += hit.clicks;
    sum.impressions += hit.impressions;
    sum.tenths += hit.tenths;
    sum.top_impressions += hit.top_impressions;
    sum.top_tenths += hit.top_tenths;
}

impl Names for Bulk {
    fn query(&self, number: u32) -> Cow<'_, str> {
        query_text(number).into()
    }

    fn page(&self, number: u32) -> Cow<'_, str> {
        page_url(number).into()
    }
}

impl Source for Bulk {
    fn hits(&self, day: i32, wanted: Wanted, each: &mut dyn FnMut(Hit)) {
        if wanted.kind != SearchType::Web {
            return;
        }
        let factor = factor(day);
        if self.texts {
            self.each(day, factor, each);
            return;
        }
        for sum in self.sums() {
            let mut hit = Hit { day, clicks: 0, impressions: 0, tenths: 0, top_impressions: 0, top_tenths: 0, ..*sum };
            (0..factor).for_each(|_| add(&mut hit, sum));
            each(hit);
        }
    }
}

/// Rows in Google's order, computed one by one.
pub(crate) struct Ranked {
    seed: u64,
    days: Vec<i32>,
    dimensions: Vec<Dimension>,
    by_property: bool,
    /// Rows are pages: [`PER_PAGE`] pairs and a hidden query each.
    pages: bool,
    alone: bool,
    /// Rows that exist on every day.
    head: usize,
    /// Rows of one day.
    per_day: usize,
}

impl Ranked {
    fn dated(&self) -> bool {
        self.dimensions.contains(&Dimension::Date)
    }

    /// All rows. Grouped by date, each day has its own; otherwise a request ends at as many as one day has at most.
    pub(crate) fn len(&self) -> usize {
        let days = self.days.len();
        if self.dated() || days <= 1 {
            return days * self.per_day;
        }
        let all = self.head.min(self.distinct()) + days * self.distinct().saturating_sub(self.head);
        let most = if self.alone { days * self.per_day } else { SHOWN as usize };
        all.min(most).min(SHOWN as usize)
    }

    /// Rows that one day contributes to a range.
    fn distinct(&self) -> usize {
        if self.alone { SHOWN as usize } else { self.per_day }
    }

    /// Where the last rows that tie begin: those without clicks, of the last day when rows are in the order of days.
    pub(crate) fn tail_start(&self) -> usize {
        let before = if self.dated() { self.days.len().saturating_sub(1) * self.per_day } else { 0 };
        before + self.head.min(self.per_day)
    }

    /// Row number `index`.
    pub(crate) fn row(&self, index: usize) -> Row {
        if self.dated() || self.days.len() == 1 {
            let day = self.days[index / self.per_day];
            return self.sum(&[day], index % self.per_day);
        }
        if index < self.head {
            return self.sum(&self.days, index);
        }
        let rest = index - self.head;
        let per_day = self.distinct() - self.head;
        self.sum(&self.days[rest / per_day..=rest / per_day], self.head + rest % per_day)
    }

    /// The row of a rank, over days that have the same query or page there.
    fn sum(&self, days: &[i32], rank: usize) -> Row {
        let rank = u32::try_from(rank).unwrap_or(0);
        let (day, factor) = (days[0], days.iter().map(|day| factor(*day)).sum());
        let first = if self.pages { rank * PER_PAGE } else { rank };
        let mut hit = pair(self.seed, day, first, factor);
        if self.pages {
            (first + 1..first + PER_PAGE).for_each(|k| add(&mut hit, &pair(self.seed, day, k, factor)));
            if rank < RARE {
                add(&mut hit, &rare(day, rank, factor));
            }
        }
        let mut key = Key::default();
        for dimension in &self.dimensions {
            match dimension {
                Dimension::Date => key.time = day,
                Dimension::Query => key.query = hit.query,
                Dimension::Page => key.page = hit.page,
                Dimension::Country => key.country = hit.country,
                Dimension::Device => key.device = hit.device,
                Dimension::Hour | Dimension::Appearance => {}
            }
        }
        let (impressions, tenths) =
            if self.by_property { (hit.top_impressions, hit.top_tenths) } else { (hit.impressions, hit.tenths) };
        Row { key, clicks: hit.clicks, impressions, tenths }
    }
}

impl Names for Ranked {
    fn query(&self, number: u32) -> Cow<'_, str> {
        query_text(number).into()
    }

    fn page(&self, number: u32) -> Cow<'_, str> {
        page_url(number).into()
    }
}
