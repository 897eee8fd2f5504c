//! What Search Console exports to BigQuery: every row of its final days, hidden queries as empty ones.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::SearchConsole;
use super::request::{DataState, SearchType};
use super::searches::{COUNTRIES, HIDDEN, SEARCH_DEVICES};
use super::source::{LogSource, Names, Source, Wanted};

/// The property that is exported.
pub(crate) const EXPORTED_SITE: &str = "sc-domain:nordwind.example";

/// The export began so many days before the last final one.
const DAYS: i32 = 60;

const TYPES: [(SearchType, &str); 6] = [
    (SearchType::Web, "WEB"),
    (SearchType::Image, "IMAGE"),
    (SearchType::Video, "VIDEO"),
    (SearchType::News, "NEWS"),
    (SearchType::Discover, "DISCOVER"),
    (SearchType::GoogleNews, "GOOGLE_NEWS"),
];

/// A row of the export.
pub(crate) struct ExportRow {
    pub(crate) day: i32,
    pub(crate) kind: &'static str,
    /// No positions and no queries: Discover and Google News.
    pub(crate) feed: bool,
    /// Empty when it is hidden or when there is none.
    pub(crate) query: String,
    pub(crate) hidden: bool,
    /// Empty in rows by property.
    pub(crate) url: String,
    pub(crate) country: &'static str,
    pub(crate) device: &'static str,
    /// Bits, see [`super::searches::APPEARANCES`].
    pub(crate) appearance: u8,
    pub(crate) clicks: u64,
    pub(crate) impressions: u64,
    /// Sum of positions counted from zero.
    pub(crate) positions: u64,
}

/// What tells rows apart: day, type, query, page, country, device, appearance.
type Key = (i32, usize, u32, u32, u8, u8, u8);

impl SearchConsole {
    /// The exported days.
    pub(crate) fn exported_days(&self) -> RangeInclusive<i32> {
        let last = self.calendar().last_final;
        last - DAYS + 1..=last
    }

    /// The rows by page, or by property: then a search counts once, at its topmost result, and the feeds are left out.
    pub(crate) fn exported(&self, by_page: bool) -> Vec<ExportRow> {
        let Some(site) = self.sites.iter().find(|site| site.url == EXPORTED_SITE) else {
            return Vec::new();
        };
        let source = LogSource::new(&self.searches, site);
        let calendar = self.calendar();
        let mut sums: BTreeMap<Key, [u64; 3]> = BTreeMap::new();
        for day in self.exported_days() {
            for (number, (kind, _)) in TYPES.iter().enumerate().filter(|(_, (kind, _))| by_page || !kind.is_feed()) {
                let wanted = Wanted { kind: *kind, state: DataState::Final, calendar };
                source.hits(day, wanted, &mut |hit| {
                    let (page, appearance) = if by_page { (hit.page, hit.appearance) } else { (0, 0) };
                    let key = (day, number, hit.query, page, hit.country, hit.device, appearance);
                    let sum = sums.entry(key).or_default();
                    let (shown, tenths) = match by_page {
                        true => (hit.impressions, hit.tenths),
                        false => (hit.top_impressions, hit.top_tenths),
                    };
                    sum[0] += hit.clicks;
                    sum[1] += shown;
                    sum[2] += tenths / 10;
                });
            }
        }
        let row = |(key, sum): (Key, [u64; 3])| {
            let (day, number, query, page, country, device, appearance) = key;
            let (kind, name) = TYPES[number];
            ExportRow {
                day,
                kind: name,
                feed: kind.is_feed(),
                query: source.query(query).into_owned(),
                hidden: query == HIDDEN,
                url: if by_page { source.page(page).into_owned() } else { String::new() },
                country: COUNTRIES[usize::from(country)].1,
                device: SEARCH_DEVICES[usize::from(device)],
                appearance,
                clicks: sum[0],
                impressions: sum[1],
                positions: sum[2].saturating_sub(sum[1]),
            }
        };
        sums.into_iter().map(row).collect()
    }
}
