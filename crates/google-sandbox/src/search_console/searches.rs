//! The searches of a day, derived from the event log: each session that Google's organic results started was a click.
//!
//! A day's searches depend on the seed and the day only. Around each click there are searches in which the same page was
//! shown and not clicked, more of them the further down it ranks; besides, there are queries that nobody clicks, pages
//! without Analytics, and clicks whose session Analytics never saw.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::request::SearchType;
use super::vocabulary::Vocabulary;
use crate::clock::{self, MICROS, date_of, day_number};
use crate::events::{DEVICES, EventLog, PLACES, TRAFFIC, mix, name, weighted};
use crate::lock;

/// Search Console's days start at midnight here.
pub(crate) const ZONE: &str = "America/Los_Angeles";

/// A query that Google doesn't show: too few people searched for it.
pub(crate) const HIDDEN: u32 = u32::MAX;
/// What Discover and Google News have instead of a query.
pub(crate) const NO_QUERY: u32 = u32::MAX - 1;

/// Days whose searches are kept in memory at most; beyond it they are made again.
const KEPT_DAYS: usize = 1_000;

/// Countries as Search Console writes them; the last one is "unknown region".
pub(crate) const COUNTRIES: [(&str, &str); 13] = [
    ("DE", "deu"),
    ("AT", "aut"),
    ("CH", "che"),
    ("FR", "fra"),
    ("NL", "nld"),
    ("IT", "ita"),
    ("ES", "esp"),
    ("PL", "pol"),
    ("GB", "gbr"),
    ("US", "usa"),
    ("JP", "jpn"),
    ("BR", "bra"),
    ("(not set)", "zzz"),
];

/// Devices as Search Console writes them.
pub(crate) const SEARCH_DEVICES: [&str; 3] = ["DESKTOP", "MOBILE", "TABLET"];

/// Search appearances; a search holds a bit for each.
pub(crate) const APPEARANCES: [&str; 6] =
    ["PRODUCT_SNIPPETS", "MERCHANT_LISTINGS", "REVIEW_SNIPPET", "VIDEO", "TRANSLATED_RESULT", "NEWS_SHOWCASE"];

/// A page in a result list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) page: u16,
    /// From 1; 0 in Discover and Google News.
    pub(crate) position: u16,
    pub(crate) clicked: bool,
}

/// One search that showed the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    /// Hours since 1970, UTC.
    pub(crate) hour: i32,
    pub(crate) kind: SearchType,
    /// Index of the query, [`HIDDEN`] or [`NO_QUERY`].
    pub(crate) query: u32,
    pub(crate) country: u8,
    pub(crate) device: u8,
    /// Bits: index into [`APPEARANCES`].
    pub(crate) appearance: u8,
    pub(crate) shown: Vec<Shown>,
    /// 0 to 99: fresh data has the lower numbers only.
    pub(crate) processed: u8,
    /// Random number that decides which smaller sites have this search too.
    pub(crate) ticket: u64,
}

/// A session that started on an organic result of Google.
#[derive(Clone, Copy)]
struct Visit {
    micros: i64,
    landing: u16,
    place: u8,
    device: u8,
}

/// All searches, made on first use.
pub(crate) struct Searches {
    seed: u64,
    pub(crate) zone: TimeZone,
    pub(crate) vocabulary: Vocabulary,
    visits: Mutex<HashMap<i32, Arc<Vec<Visit>>>>,
    days: Mutex<HashMap<i32, Arc<Vec<Search>>>>,
}

impl Searches {
    /// Nothing is computed before it is asked for.
    pub(crate) fn new(seed: u64, log: &EventLog) -> Self {
        Self {
            seed,
            zone: clock::zone(ZONE),
            vocabulary: Vocabulary::new(seed, log),
            visits: Mutex::default(),
            days: Mutex::default(),
        }
    }

    /// The searches of a day of [`ZONE`].
    pub(crate) fn day(&self, day: i32) -> Arc<Vec<Search>> {
        if let Some(searches) = lock(&self.days).get(&day) {
            return Arc::clone(searches);
        }
        let searches = Arc::new(Day::new(self, day).make());
        let mut days = lock(&self.days);
        if days.len() >= KEPT_DAYS {
            days.clear();
        }
        days.insert(day, Arc::clone(&searches));
        searches
    }

    /// The first hour of a day, and the first of the next: 23, 24 or 25 hours later.
    pub(crate) fn hours(&self, day: i32) -> std::ops::Range<i32> {
        self.midnight(day)..self.midnight(day + 1)
    }

    fn midnight(&self, day: i32) -> i32 {
        let seconds = self.zone.to_timestamp(date_of(day).at(0, 0, 0, 0)).map_or(0, Timestamp::as_second);
        i32::try_from(seconds / 3600).unwrap_or(0)
    }

    /// The visits of a day of the event log, which has its midnight in another time zone.
    fn log_day(&self, day: i32) -> Arc<Vec<Visit>> {
        if let Some(visits) = lock(&self.visits).get(&day) {
            return Arc::clone(visits);
        }
        let log = EventLog::of_days(self.seed, day, day);
        let visits: Vec<Visit> = log
            .events
            .iter()
            .filter(|event| event.name == name::SESSION_START)
            .filter_map(|event| {
                let session = log.session(event);
                let traffic = &TRAFFIC[usize::from(session.traffic)];
                let organic = traffic.source == "google" && traffic.medium == "organic";
                let landing = session.landing.filter(|_| organic)?;
                Some(Visit { micros: event.micros, landing, place: session.place, device: session.device })
            })
            .collect();
        let visits = Arc::new(visits);
        let mut days = lock(&self.visits);
        if days.len() >= KEPT_DAYS {
            days.clear();
        }
        days.insert(day, Arc::clone(&visits));
        visits
    }

    /// The visits of a day of [`ZONE`]: it begins in one day of the event log and ends in the next.
    fn visits(&self, day: i32) -> Vec<Visit> {
        let both = [self.log_day(day), self.log_day(day + 1)];
        let here = |visit: &&Visit| {
            let time = Timestamp::from_microsecond(visit.micros).unwrap_or(Timestamp::UNIX_EPOCH);
            day_number(self.zone.to_datetime(time).date()) == day
        };
        both.iter().flat_map(|visits| visits.iter()).filter(here).copied().collect()
    }
}

/// The searches of one day while they are made.
struct Day<'a> {
    all: &'a Searches,
    day: i32,
    hours: std::ops::Range<i32>,
    rng: ChaCha8Rng,
    searches: Vec<Search>,
}

impl<'a> Day<'a> {
    fn new(all: &'a Searches, day: i32) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(mix(all.seed ^ 0x6573_7263, u64::from(day.unsigned_abs())));
        Self { all, day, hours: all.hours(day), rng, searches: Vec::new() }
    }

    fn make(mut self) -> Vec<Search> {
        for visit in self.all.visits(self.day) {
            let hour = i32::try_from(visit.micros / MICROS / 3600).unwrap_or(0);
            self.clicked(visit.landing, hour, visit.place, visit.device);
            // Somebody whose session Analytics never saw: no consent, or gone before the tag ran.
            if self.rng.random_bool(0.1) {
                let (hour, place, device) = self.somebody();
                self.clicked(visit.landing, hour, place, device);
            }
        }
        self.tail();
        self.elsewhere();
        self.searches
    }

    /// When, where and on what a search was made.
    fn somebody(&mut self) -> (i32, u8, u8) {
        let hour = self.rng.random_range(self.hours.clone());
        let place = weighted(&mut self.rng, PLACES.iter().map(|p| p.weight));
        let device = weighted(&mut self.rng, DEVICES.iter().map(|d| d.3));
        (hour, place, device)
    }

    /// A search that ended with a click on `page`, and those in which the page was only shown.
    fn clicked(&mut self, page: u16, hour: i32, place: u8, device: u8) {
        let kind = self.kind(page);
        let query = if kind.is_feed() { NO_QUERY } else { self.query(page) };
        let hidden = query != NO_QUERY && self.is_rare(query);
        self.push(kind, query, hidden, page, (hour, place, device), true);
        let missed = match (kind.is_feed(), self.all.vocabulary.queries.get(query as usize)) {
            (true, _) | (_, None) => 15,
            (_, Some(query)) if query.brand => 2,
            (_, Some(query)) => u32::from(query.position.min(12)) * 3,
        };
        let missed = self.rng.random_range(missed / 2..=missed);
        for _ in 0..missed {
            let somebody = self.somebody();
            self.push(kind, query, hidden, page, somebody, false);
        }
    }

    /// The search type of a click on a page.
    fn kind(&mut self, page: u16) -> SearchType {
        let luck: u32 = self.rng.random_range(0..100);
        match (self.all.vocabulary.pages[usize::from(page)].group, luck) {
            ("Product" | "Category" | "Blog", 0..8) => SearchType::Image,
            ("Product" | "Blog", 8..11) => SearchType::Video,
            ("Blog", 11..14) => SearchType::News,
            ("Blog", 14..24) => SearchType::Discover,
            ("Blog", 24..28) => SearchType::GoogleNews,
            _ => SearchType::Web,
        }
    }

    fn query(&mut self, page: u16) -> u32 {
        let queries = &self.all.vocabulary.pages[usize::from(page)].queries;
        let unit: f64 = self.rng.random_range(0.0..1.0);
        let index = (unit * unit * queries.len() as f64) as usize;
        queries.get(index).copied().unwrap_or(HIDDEN)
    }

    /// Whether so few people put it like this that Google hides the query.
    fn is_rare(&mut self, query: u32) -> bool {
        let brand = self.all.vocabulary.queries.get(query as usize).is_some_and(|query| query.brand);
        self.rng.random_bool(if brand { 0.08 } else { 0.45 })
    }

    fn push(
        &mut self,
        kind: SearchType,
        query: u32,
        hidden: bool,
        page: u16,
        (hour, place, device): (i32, u8, u8),
        clicked: bool,
    ) {
        let shown = if kind.is_feed() {
            vec![Shown { page, position: 0, clicked }]
        } else {
            self.results(query, page, clicked)
        };
        let appearance = self.appearance(kind, page, place);
        let place_id = PLACES[usize::from(place)].country_id;
        let country = COUNTRIES.iter().position(|(id, _)| *id == place_id).unwrap_or(COUNTRIES.len() - 1);
        let search = Search {
            hour,
            kind,
            query: if hidden { HIDDEN } else { query },
            country: u8::try_from(country).unwrap_or(0),
            device: match DEVICES[usize::from(device)].0 {
                "mobile" => 1,
                "tablet" => 2,
                _ => 0,
            },
            appearance,
            shown,
            processed: self.rng.random_range(0..100),
            ticket: self.rng.random(),
        };
        self.searches.push(search);
    }

    /// The site's pages in the result list of a query.
    fn results(&mut self, query: u32, page: u16, clicked: bool) -> Vec<Shown> {
        let wobble = self.rng.random_range(0..3);
        let Some(known) = self.all.vocabulary.queries.get(query as usize) else {
            return vec![Shown { page, position: 3 + wobble, clicked }];
        };
        let position = if known.brand { 1 } else { (known.position + wobble).saturating_sub(1).max(1) };
        let mut shown = vec![Shown { page, position, clicked }];
        if let Some(second) = known.second.filter(|second| *second != page) {
            // On one day in four the two change places.
            let swapped = mix(u64::from(query), u64::from(self.day.unsigned_abs())).is_multiple_of(4) && !known.brand;
            let other = if swapped { position.saturating_sub(1).max(1) } else { position + 1 };
            if other == position {
                shown[0].position += 1;
            }
            shown.push(Shown { page: second, position: other, clicked: false });
        }
        shown
    }

    fn appearance(&mut self, kind: SearchType, page: u16, place: u8) -> u8 {
        let group = self.all.vocabulary.pages[usize::from(page)].group;
        let luck: u32 = self.rng.random_range(0..100);
        let bits = [
            kind == SearchType::Web && group == "Product" && luck < 70,
            kind == SearchType::Web && group == "Product" && luck < 25,
            kind == SearchType::Web && group == "Product" && luck >= 60,
            kind == SearchType::Web && group == "Blog" && luck < 12,
            kind == SearchType::Web && PLACES[usize::from(place)].language != "German" && luck.is_multiple_of(9),
            kind.is_feed() && luck < 40,
        ];
        bits.iter().enumerate().fold(0, |sum, (index, bit)| sum | (u8::from(*bit) << index))
    }

    /// Queries far down the list, which nobody clicks.
    fn tail(&mut self) {
        let tail = &self.all.vocabulary.tail;
        for _ in 0..self.rng.random_range(60..110) {
            let unit: f64 = self.rng.random_range(0.0..1.0);
            let query = tail[(unit * tail.len() as f64) as usize];
            let page = self.all.vocabulary.queries[query as usize].page;
            let hidden = self.rng.random_bool(0.2);
            let somebody = self.somebody();
            self.push(SearchType::Web, query, hidden, page, somebody, false);
        }
    }

    /// Pages that Analytics doesn't measure: the help host, which rests on every eleventh day, and the jobs page.
    fn elsewhere(&mut self) {
        let (help, jobs) = (self.all.vocabulary.help, self.all.vocabulary.jobs);
        if self.day.rem_euclid(11) != 3 {
            for offset in 0..5 {
                let (hour, place, device) = self.somebody();
                if self.rng.random_bool(0.4) {
                    self.clicked(help + offset, hour, place, device);
                }
            }
        }
        let (hour, place, device) = self.somebody();
        self.clicked(jobs, hour, place, device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searches(seed: u64) -> Searches {
        Searches::new(seed, &EventLog::of_days(seed, 20_000, 20_000))
    }

    #[test]
    fn a_day_depends_on_seed_and_date_only() {
        let (first, again) = (searches(42), searches(42));
        again.day(20_600);
        assert_eq!(first.day(20_501), again.day(20_501));
        assert_ne!(first.day(20_501), searches(43).day(20_501));
        let count = first.day(20_501).len();
        assert!((150..1_500).contains(&count), "{count}");
    }

    #[test]
    fn days_have_the_hours_that_the_clock_gives_them() {
        let searches = searches(42);
        for (date, hours) in [((2026, 3, 8), 23), ((2026, 6, 1), 24), ((2026, 11, 1), 25)] {
            let day = day_number(jiff::civil::date(date.0, date.1, date.2));
            let range = searches.hours(day);
            assert_eq!(range.len(), hours);
            assert!(searches.day(day).iter().all(|search| range.contains(&search.hour)));
        }
    }

    #[test]
    fn every_visit_is_a_click_and_some_clicks_are_no_visit() {
        let searches = searches(42);
        let (mut visits, mut clicks) = (0, 0);
        for day in 20_500..20_530 {
            visits += searches.visits(day).len();
            clicks += searches
                .day(day)
                .iter()
                .flat_map(|search| &search.shown)
                .filter(|shown| shown.clicked && shown.page < searches.vocabulary.help)
                .count();
        }
        assert!(visits > 300, "{visits}");
        assert!((visits * 105..visits * 120).contains(&(clicks * 100)), "{visits} visits, {clicks} clicks");
    }
}
