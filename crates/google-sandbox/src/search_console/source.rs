//! Where rows come from: counts of one page in one kind of search, and the texts behind their numbers.

use std::borrow::Cow;

use super::calendar::Calendar;
use super::request::{DataState, SearchType};
use super::searches::Searches;
use super::sites::{Content, Site};
use crate::events::mix;

/// Counts of a page, for everything that rows can be grouped or filtered by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hit {
    pub(crate) day: i32,
    /// Hours since 1970.
    pub(crate) hour: i32,
    /// Number of the query, [`super::searches::HIDDEN`] or [`super::searches::NO_QUERY`].
    pub(crate) query: u32,
    pub(crate) page: u32,
    pub(crate) country: u8,
    pub(crate) device: u8,
    /// Bits, see [`super::searches::APPEARANCES`].
    pub(crate) appearance: u8,
    pub(crate) clicks: u64,
    pub(crate) impressions: u64,
    /// Sum of the positions of all impressions, in tenths.
    pub(crate) tenths: u64,
    /// The impressions in which no page of the site stood higher: these count by property.
    pub(crate) top_impressions: u64,
    pub(crate) top_tenths: u64,
}

/// The texts behind numbers.
pub(crate) trait Names {
    /// A query.
    fn query(&self, number: u32) -> Cow<'_, str>;
    /// The address of a page, percent-encoded as Google stores it.
    fn page(&self, number: u32) -> Cow<'_, str>;
}

/// What the request says about the hits it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: SearchType,
    pub(crate) state: DataState,
    pub(crate) calendar: Calendar,
}

/// Hits of a site, day by day.
pub(crate) trait Source: Names {
    /// Calls `each` for every hit of a day.
    fn hits(&self, day: i32, wanted: Wanted, each: &mut dyn FnMut(Hit));
}

/// A site whose data are searches of the event log.
pub(crate) struct LogSource<'a> {
    searches: &'a Searches,
    site: &'a Site,
    origin: String,
    salt: u64,
    /// Whether a page belongs to the site.
    pages: Vec<bool>,
}

impl<'a> LogSource<'a> {
    /// The part of the searches that a site has.
    pub(crate) fn new(searches: &'a Searches, site: &'a Site) -> Self {
        let salt = site.url.bytes().fold(1, |sum, byte| mix(sum, u64::from(byte)));
        let mut source = Self { searches, site, origin: site.origin(), salt, pages: Vec::new() };
        let vocabulary = &searches.vocabulary;
        source.pages = match site.content {
            Content::Domain => {
                (0..vocabulary.pages.len()).map(|page| site.contains(&source.page(page as u32))).collect()
            }
            // Slices have the pages of the event log, which come first.
            Content::Slice { .. } => (0..usize::from(vocabulary.help)).map(|_| true).collect(),
            Content::Bulk | Content::Nothing => Vec::new(),
        };
        source
    }

    /// Whether a search of the shop is one of this site's.
    fn has(&self, day: i32, ticket: u64) -> bool {
        match self.site.content {
            Content::Slice { percent, quiet } => {
                !(quiet && day.rem_euclid(3) == 0) && mix(self.salt, ticket) % 100 < percent
            }
            _ => true,
        }
    }
}

impl Names for LogSource<'_> {
    fn query(&self, number: u32) -> Cow<'_, str> {
        let query = self.searches.vocabulary.queries.get(number as usize);
        Cow::Borrowed(query.map_or("", |query| query.text.as_str()))
    }

    fn page(&self, number: u32) -> Cow<'_, str> {
        let Some(page) = self.searches.vocabulary.pages.get(number as usize) else {
            return Cow::Borrowed("");
        };
        let origin = if self.site.content == Content::Domain { page.origin } else { &self.origin };
        Cow::Owned(format!("{origin}{}", page.path))
    }
}

impl Source for LogSource<'_> {
    fn hits(&self, day: i32, wanted: Wanted, each: &mut dyn FnMut(Hit)) {
        if self.pages.iter().all(|page| !page) {
            return;
        }
        let own = |page: u16| self.pages.get(usize::from(page)).copied().unwrap_or(false);
        for search in self.searches.day(day).iter() {
            if search.kind != wanted.kind
                || !self.has(day, search.ticket)
                || !wanted.calendar.knows(wanted.state, day, search)
            {
                continue;
            }
            let top = search.shown.iter().filter(|shown| own(shown.page)).map(|shown| shown.position).min();
            let mut top_counted = false;
            for shown in search.shown.iter().filter(|shown| own(shown.page)) {
                let tenths = u64::from(shown.position) * 10;
                let is_top = !top_counted && Some(shown.position) == top;
                top_counted |= is_top;
                each(Hit {
                    day,
                    hour: search.hour,
                    query: search.query,
                    page: u32::from(shown.page),
                    country: search.country,
                    device: search.device,
                    appearance: search.appearance,
                    clicks: u64::from(shown.clicked),
                    impressions: 1,
                    tenths,
                    top_impressions: u64::from(is_top),
                    top_tenths: if is_top { tenths } else { 0 },
                });
            }
        }
    }
}
