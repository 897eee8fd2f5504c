//! The seeded event log: the one truth that every service's answers are computed from.
//!
//! A day's events depend only on the seed and the date, never on how many other days the log holds. So the same seed gives
//! the same history tomorrow, with one more day at its end.

use std::collections::HashMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::clock::{MICROS, date_of, day_number};

/// The log covers this many days before today, and today.
pub(crate) const HISTORY_DAYS: i32 = 120;

/// The log's own days start at midnight here: the main property's time zone.
pub(crate) const HOME_ZONE: &str = "Europe/Berlin";

/// Absent text, as Google writes it.
pub(crate) const NOT_SET: &str = "(not set)";

/// Event names; an event holds an index into this list.
pub(crate) const EVENT_NAMES: [&str; 16] = [
    "session_start",
    "first_visit",
    "page_view",
    "user_engagement",
    "scroll",
    "view_item_list",
    "view_item",
    "add_to_cart",
    "begin_checkout",
    "purchase",
    "form_start",
    "generate_lead",
    "sign_up",
    "view_search_results",
    "video_start",
    "plan_view",
];

/// Indices into [`EVENT_NAMES`] that the engine asks for by name.
pub(crate) mod name {
    pub(crate) const SESSION_START: u8 = 0;
    pub(crate) const FIRST_VISIT: u8 = 1;
    pub(crate) const PAGE_VIEW: u8 = 2;
    pub(crate) const USER_ENGAGEMENT: u8 = 3;
    pub(crate) const SCROLL: u8 = 4;
    pub(crate) const VIEW_ITEM_LIST: u8 = 5;
    pub(crate) const VIEW_ITEM: u8 = 6;
    pub(crate) const ADD_TO_CART: u8 = 7;
    pub(crate) const BEGIN_CHECKOUT: u8 = 8;
    pub(crate) const PURCHASE: u8 = 9;
    pub(crate) const FORM_START: u8 = 10;
    pub(crate) const GENERATE_LEAD: u8 = 11;
    pub(crate) const SIGN_UP: u8 = 12;
    pub(crate) const SEARCH: u8 = 13;
    pub(crate) const VIDEO_START: u8 = 14;
    pub(crate) const PLAN_VIEW: u8 = 15;
}

/// The events that count as key events.
pub(crate) const KEY_EVENTS: [u8; 3] = [name::PURCHASE, name::GENERATE_LEAD, name::SIGN_UP];

/// Where a session came from.
pub(crate) struct Traffic {
    pub(crate) channel: &'static str,
    pub(crate) source: &'static str,
    pub(crate) medium: &'static str,
    pub(crate) campaign: &'static str,
    weight: u32,
}

const fn traffic(
    channel: &'static str,
    source: &'static str,
    medium: &'static str,
    campaign: &'static str,
    weight: u32,
) -> Traffic {
    Traffic { channel, source, medium, campaign, weight }
}

/// All origins; weights add up to 100 and give roughly 40 % organic, 25 % direct, 12 % paid search.
pub(crate) const TRAFFIC: [Traffic; 16] = [
    traffic("Organic Search", "google", "organic", "(organic)", 33),
    traffic("Organic Search", "bing", "organic", "(organic)", 4),
    traffic("Organic Search", "duckduckgo", "organic", "(organic)", 2),
    traffic("Direct", "(direct)", "(none)", "(direct)", 25),
    traffic("Paid Search", "google", "cpc", "brand_eu", 5),
    traffic("Paid Search", "google", "cpc", "chairs_generic", 4),
    traffic("Paid Search", "bing", "cpc", "chairs_generic", 1),
    traffic("Cross-network", "google", "cpc", "pmax_autumn", 3),
    traffic("Referral", "design-weekly.example", "referral", "(referral)", 5),
    traffic("Referral", "forum.example", "referral", "(referral)", 2),
    traffic("Email", "newsletter", "email", "weekly_letter", 4),
    traffic("Email", "newsletter", "email", "autumn_sale", 2),
    traffic("Organic Social", "instagram.com", "social", "(referral)", 4),
    traffic("Paid Social", "facebook", "paid_social", "lookalike_q4", 3),
    traffic("AI Assistant", "chatgpt.com", "referral", "(referral)", 2),
    traffic("Unassigned", NOT_SET, NOT_SET, NOT_SET, 1),
];

/// Where a person is.
pub(crate) struct Place {
    pub(crate) country: &'static str,
    pub(crate) country_id: &'static str,
    pub(crate) region: &'static str,
    pub(crate) city: &'static str,
    pub(crate) language: &'static str,
    pub(crate) weight: u32,
}

const fn place(
    country: &'static str,
    country_id: &'static str,
    region: &'static str,
    city: &'static str,
    language: &'static str,
    weight: u32,
) -> Place {
    Place { country, country_id, region, city, language, weight }
}

/// All places, with weights.
pub(crate) const PLACES: [Place; 16] = [
    place("Germany", "DE", "Berlin", "Berlin", "German", 20),
    place("Germany", "DE", "Bavaria", "Munich", "German", 14),
    place("Germany", "DE", "Hamburg", "Hamburg", "German", 10),
    place("Germany", "DE", "Saxony", NOT_SET, "German", 5),
    place("Austria", "AT", "Vienna", "Vienna", "German", 9),
    place("Switzerland", "CH", "Zurich", "Zurich", "German", 7),
    place("France", "FR", "Ile-de-France", "Paris", "French", 8),
    place("Netherlands", "NL", "North Holland", "Amsterdam", "Dutch", 6),
    place("Italy", "IT", "Lombardy", "Milan", "Italian", 4),
    place("Spain", "ES", "Community of Madrid", "Madrid", "Spanish", 4),
    place("Poland", "PL", "Masovian Voivodeship", "Warsaw", "Polish", 3),
    place("United Kingdom", "GB", "England", "London", "English", 4),
    place("United States", "US", "California", "San Francisco", "English", 3),
    place("Japan", "JP", "Tokyo", "Tokyo", "Japanese", 1),
    place("Brazil", "BR", "State of Sao Paulo", "São Paulo", "Portuguese", 1),
    place(NOT_SET, NOT_SET, NOT_SET, NOT_SET, NOT_SET, 1),
];

/// What a session ran on: device category, browser, operating system, weight.
pub(crate) const DEVICES: [(&str, &str, &str, u32); 9] = [
    ("mobile", "Safari", "iOS", 27),
    ("mobile", "Chrome", "Android", 24),
    ("mobile", "Samsung Internet", "Android", 5),
    ("desktop", "Chrome", "Windows", 21),
    ("desktop", "Edge", "Windows", 7),
    ("desktop", "Safari", "Macintosh", 8),
    ("desktop", "Firefox", "Linux", 3),
    ("tablet", "Safari", "iOS", 4),
    ("smart tv", "Chrome", "Tizen", 1),
];

/// Values of the user property `tier`; the first is for users without one.
pub(crate) const TIERS: [&str; 4] = [NOT_SET, "bronze", "silver", "gold"];
/// Values of the event parameter `plan`.
pub(crate) const PLANS: [&str; 4] = [NOT_SET, "free", "plus", "business"];
/// Age brackets.
pub(crate) const AGES: [&str; 7] = ["unknown", "18-24", "25-34", "35-44", "45-54", "55-64", "65+"];
/// Genders.
pub(crate) const GENDERS: [&str; 3] = ["unknown", "female", "male"];
/// Values of the event parameter `form_name`.
pub(crate) const FORMS: [&str; 4] = [NOT_SET, "contact", "newsletter", "quote | trade"];

/// A page of the site.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) title: String,
    pub(crate) group: &'static str,
    /// Index into [`EventLog::items`], for product pages.
    item: Option<u16>,
}

/// A thing for sale.
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) price_cents: u32,
}

/// A person (a browser, to be exact).
pub(crate) struct User {
    /// The day of the first visit; a user is new in that session only.
    pub(crate) first_traffic: u8,
    pub(crate) tier: u8,
    pub(crate) plan: u8,
    pub(crate) age: u8,
    pub(crate) gender: u8,
    place: u8,
    device: u8,
}

/// A session.
pub(crate) struct Session {
    pub(crate) user: u32,
    pub(crate) traffic: u8,
    pub(crate) place: u8,
    pub(crate) device: u8,
    /// Index of the landing page; none when the first hit wasn't a page.
    pub(crate) landing: Option<u16>,
    pub(crate) new_user: bool,
    pub(crate) engaged: bool,
    /// Seconds from the first to the last event.
    pub(crate) seconds: u32,
}

/// An event.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    /// Microseconds since 1970, UTC.
    pub(crate) micros: i64,
    pub(crate) session: u32,
    pub(crate) page: u16,
    pub(crate) name: u8,
    pub(crate) form: u8,
    pub(crate) quantity: u8,
    /// The first page of its session, which carries the campaign parameters.
    pub(crate) landing: bool,
    /// Index of the item plus one; 0 for none.
    pub(crate) item: u16,
    pub(crate) engagement_seconds: u16,
    /// Value of the event parameter `score`; 0 for none.
    pub(crate) score: u16,
    /// Number of the purchase; 0 for none.
    pub(crate) transaction: u32,
    /// Price times quantity for items.
    pub(crate) cents: u32,
}

/// The log.
pub(crate) struct EventLog {
    pub(crate) events: Vec<Event>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) users: Vec<User>,
    pub(crate) pages: Vec<Page>,
    pub(crate) items: Vec<Item>,
}

/// A number that depends on nothing but its inputs (SplitMix64's finaliser).
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let mut z = a ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// An index chosen by weight.
pub(crate) fn weighted(rng: &mut ChaCha8Rng, weights: impl Iterator<Item = u32> + Clone) -> u8 {
    let total: u32 = weights.clone().sum();
    let mut left = rng.random_range(0..total.max(1));
    for (index, weight) in weights.enumerate() {
        if left < weight {
            return u8::try_from(index).unwrap_or(0);
        }
        left -= weight;
    }
    0
}

fn choose_traffic(rng: &mut ChaCha8Rng) -> u8 {
    weighted(rng, TRAFFIC.iter().map(|t| t.weight))
}

struct Builder {
    seed: u64,
    zone: TimeZone,
    log: EventLog,
    /// (day of the first visit, number within it) to index.
    known_users: HashMap<(i32, u32), u32>,
}

impl EventLog {
    /// The log up to and including the day after `today`, so that a sandbox that runs past midnight has data; readers
    /// leave out what lies in the future.
    pub(crate) fn generate(seed: u64, today: Date) -> Self {
        let today = day_number(today);
        Self::of_days(seed, today - HISTORY_DAYS, today + 1)
    }

    /// The log of these days of [`HOME_ZONE`], both included; any days, however long ago.
    pub(crate) fn of_days(seed: u64, first: i32, last: i32) -> Self {
        let (pages, items) = site();
        let mut builder = Builder {
            seed,
            zone: crate::clock::zone(HOME_ZONE),
            log: Self { events: Vec::new(), sessions: Vec::new(), users: Vec::new(), pages, items },
            known_users: HashMap::new(),
        };
        for day in first..=last {
            builder.day(day);
        }
        builder.log.events.sort_by_key(|event| event.micros);
        builder.log
    }

    /// The session of an event.
    pub(crate) fn session(&self, event: &Event) -> &Session {
        &self.sessions[event.session as usize]
    }

    /// The user of a session.
    pub(crate) fn user(&self, session: &Session) -> &User {
        &self.users[session.user as usize]
    }
}

impl Builder {
    fn rng(&self, day: i32, salt: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(mix(self.seed ^ salt, u64::from(day.unsigned_abs())))
    }

    /// New users of a day: a weekday rhythm (1970-01-01 was a Thursday; weekends are quieter), a slow wave, a spike on every 37th day.
    fn new_users(&self, day: i32) -> u32 {
        let mut rng = self.rng(day, 1);
        let weekday = f64::from([50_u8, 46, 37, 42, 51, 49, 48][usize::try_from(day.rem_euclid(7)).unwrap_or(0)]);
        let wave = 1.0 + 0.15 * (f64::from(day) / 20.0).sin();
        let spike = if day.rem_euclid(37) == 0 { 1.8 } else { 1.0 };
        let noise = rng.random_range(0.9..1.1);
        // Small and positive: the cast can't lose anything that matters.
        (weekday * wave * spike * noise) as u32
    }

    fn user(&mut self, first_day: i32, number: u32) -> u32 {
        if let Some(index) = self.known_users.get(&(first_day, number)) {
            return *index;
        }
        let mut rng = self.rng(first_day, mix(3, u64::from(number)));
        let tier = weighted(&mut rng, [70, 14, 10, 6].into_iter());
        self.log.users.push(User {
            first_traffic: choose_traffic(&mut rng),
            tier,
            plan: weighted(&mut rng, [0, 6, 3, 1].into_iter()),
            age: weighted(&mut rng, [55, 7, 14, 11, 7, 4, 2].into_iter()),
            gender: weighted(&mut rng, [55, 23, 22].into_iter()),
            place: weighted(&mut rng, PLACES.iter().map(|p| p.weight)),
            device: weighted(&mut rng, DEVICES.iter().map(|d| d.3)),
        });
        let index = u32::try_from(self.log.users.len() - 1).unwrap_or(u32::MAX);
        self.known_users.insert((first_day, number), index);
        index
    }

    fn day(&mut self, day: i32) {
        let midnight = date_of(day).at(0, 0, 0, 0);
        let Ok(start) = self.zone.to_timestamp(midnight) else {
            return;
        };
        let start = start.as_microsecond();
        let mut rng = self.rng(day, 2);
        let new = self.new_users(day);
        for number in 0..new {
            let user = self.user(day, number);
            let traffic = self.log.users[user as usize].first_traffic;
            self.session(&mut rng, start, user, traffic, true);
        }
        for _ in 0..(new * 2 / 5) {
            // People come back soon or not at all.
            let mut gap = 1;
            while gap < 60 && rng.random_bool(0.85) {
                gap += 1;
            }
            let cohort = self.new_users(day - gap).max(1);
            let user = self.user(day - gap, rng.random_range(0..cohort));
            let traffic = if rng.random_bool(0.4) {
                self.log.users[user as usize].first_traffic
            } else {
                choose_traffic(&mut rng)
            };
            self.session(&mut rng, start, user, traffic, false);
        }
    }

    fn session(&mut self, rng: &mut ChaCha8Rng, midnight: i64, user: u32, traffic: u8, new_user: bool) {
        let start = midnight + second_of_day(rng) * MICROS;
        let landing = self.landing_page(rng);
        let person = &self.log.users[user as usize];
        let (place, device) = (person.place, person.device);
        let blank = Event {
            micros: start,
            session: u32::try_from(self.log.sessions.len()).unwrap_or(u32::MAX),
            page: landing,
            name: name::SESSION_START,
            form: 0,
            quantity: 0,
            landing: false,
            item: 0,
            engagement_seconds: 0,
            score: 0,
            transaction: 0,
            cents: 0,
        };
        // One in a hundred sessions starts without a page: its landing page is "(not set)".
        let pageless = rng.random_bool(0.01);
        let mut visit = Visit { events: vec![blank], now: start, blank };
        if new_user {
            visit.push(name::FIRST_VISIT);
        }
        let pages = if pageless { 0 } else { 1 + weighted(rng, [38, 25, 17, 10, 10].into_iter()) };
        for number in 0..pages {
            self.view(rng, &mut visit, number == 0);
        }
        if pages > 1 || rng.random_bool(0.35) {
            visit.wait(rng, 5, 60);
            let engagement = rng.random_range(10..120);
            visit.push(name::USER_ENGAGEMENT).engagement_seconds = engagement;
        }
        let engaged_seconds: u32 = visit.events.iter().map(|e| u32::from(e.engagement_seconds)).sum();
        let converts = visit.events.iter().any(|e| KEY_EVENTS.contains(&e.name));
        self.log.sessions.push(Session {
            user,
            traffic,
            place,
            device,
            landing: (!pageless).then_some(landing),
            new_user,
            engaged: engaged_seconds >= 10 || pages > 1 || converts,
            seconds: u32::try_from((visit.now - start) / MICROS).unwrap_or(0),
        });
        self.log.events.append(&mut visit.events);
    }

    fn landing_page(&self, rng: &mut ChaCha8Rng) -> u16 {
        // Zipf-like: the square of a uniform number favours the front of the list.
        let unit: f64 = rng.random_range(0.0..1.0);
        let last = self.log.pages.len() - 1;
        u16::try_from(((unit * unit * unit) * last as f64) as usize).unwrap_or(0)
    }

    /// A page view and what a visitor does on that page.
    fn view(&mut self, rng: &mut ChaCha8Rng, visit: &mut Visit, first: bool) {
        if !first {
            visit.wait(rng, 8, 180);
            visit.blank.page = self.landing_page(rng);
        }
        let page = visit.push(name::PAGE_VIEW);
        page.landing = first;
        if !first {
            page.engagement_seconds = rng.random_range(4..40);
        }
        let (group, item) = {
            let page = &self.log.pages[usize::from(visit.blank.page)];
            (page.group, page.item)
        };
        match (group, item) {
            (_, Some(item)) => self.product(rng, visit, item),
            ("Category", _) => {
                visit.push(name::VIEW_ITEM_LIST);
            }
            ("Blog", _) if rng.random_bool(0.5) => {
                visit.wait(rng, 5, 50);
                let score = rng.random_range(1..=100);
                visit.push(name::SCROLL).score = score;
            }
            ("Blog", _) if rng.random_bool(0.2) => {
                visit.push(name::VIDEO_START);
            }
            ("Company", _) if rng.random_bool(0.5) => self.form(rng, visit),
            ("Plans", _) => {
                visit.push(name::PLAN_VIEW);
            }
            ("Search", _) => {
                visit.push(name::SEARCH);
            }
            _ => {}
        }
    }

    fn form(&self, rng: &mut ChaCha8Rng, visit: &mut Visit) {
        let form = rng.random_range(1..=3);
        visit.push(name::FORM_START).form = form;
        if rng.random_bool(0.6) {
            visit.wait(rng, 20, 120);
            let key = if form == 2 { name::SIGN_UP } else { name::GENERATE_LEAD };
            visit.push(key).form = form;
        }
    }

    /// The funnel from a product page to a purchase.
    fn product(&self, rng: &mut ChaCha8Rng, visit: &mut Visit, item: u16) {
        let price = self.log.items[usize::from(item)].price_cents;
        let quantity: u8 = if rng.random_bool(0.8) { 1 } else { rng.random_range(2..=4) };
        let step = |visit: &mut Visit, name: u8, quantity: u8| {
            let event = visit.push(name);
            event.item = item + 1;
            event.quantity = quantity;
            event.cents = price * u32::from(quantity);
        };
        step(visit, name::VIEW_ITEM, 1);
        if !rng.random_bool(0.32) {
            return;
        }
        visit.wait(rng, 10, 90);
        step(visit, name::ADD_TO_CART, quantity);
        if !rng.random_bool(0.5) {
            return;
        }
        visit.wait(rng, 10, 90);
        step(visit, name::BEGIN_CHECKOUT, quantity);
        if !rng.random_bool(0.6) {
            return;
        }
        visit.wait(rng, 30, 240);
        step(visit, name::PURCHASE, quantity);
        let transaction = u32::try_from(mix(visit.now.unsigned_abs(), u64::from(visit.blank.session)) % 90_000_000)
            .unwrap_or(0)
            + 10_000_000;
        if let Some(event) = visit.events.last_mut() {
            event.transaction = transaction;
        }
    }
}

/// A session while it is made.
struct Visit {
    events: Vec<Event>,
    now: i64,
    blank: Event,
}

impl Visit {
    fn wait(&mut self, rng: &mut ChaCha8Rng, from: i64, to: i64) {
        self.now += rng.random_range(from * MICROS..to * MICROS);
    }

    fn push(&mut self, name: u8) -> &mut Event {
        self.now += 1_000;
        let index = self.events.len();
        self.events.push(Event { micros: self.now, name, ..self.blank });
        &mut self.events[index]
    }
}

/// Few at night, many in the evening; some sessions run past midnight.
fn second_of_day(rng: &mut ChaCha8Rng) -> i64 {
    let hour = weighted(rng, [2, 1, 1, 1, 1, 2, 3, 4, 5, 5, 5, 6, 6, 6, 5, 5, 5, 6, 7, 8, 8, 7, 5, 3].into_iter());
    i64::from(hour) * 3600 + rng.random_range(0..3600)
}

fn site() -> (Vec<Page>, Vec<Item>) {
    let mut pages = vec![
        page("/", "Nordwind: chairs that last", "Home"),
        page("/chairs/", "Chairs", "Category"),
        page("/pricing", "Plans and prices", "Plans"),
    ];
    let mut items = Vec::new();
    let kinds = ["Chair", "Table", "Lamp", "Shelf"];
    let names = ["Amrum", "Borkum", "Föhr", "Juist", "Sylt", "Texel", "Usedom", "Rügen"];
    for (k, kind) in kinds.iter().enumerate() {
        for (n, name) in names.iter().enumerate() {
            let slug = format!("{}-{}", kind.to_lowercase(), n + 1);
            let index = items.len();
            items.push(Item {
                id: format!("SKU-{:04}", 1000 + index),
                name: format!("{kind} {name}"),
                price_cents: u32::try_from(2_490 + 1_700 * n + 3_110 * k).unwrap_or(2_490),
            });
            let mut product = page(&format!("/products/{slug}"), &format!("{kind} {name} | Nordwind"), "Product");
            product.item = u16::try_from(index).ok();
            pages.push(product);
        }
        pages.push(page(
            &format!("/{}s/all/", kind.to_lowercase()),
            &format!("All {}s", kind.to_lowercase()),
            "Category",
        ));
        for number in 1..=4 {
            pages.push(page(
                &format!("/blog/{}-care-{number}", kind.to_lowercase()),
                &format!("Caring for your {} ({number})", kind.to_lowercase()),
                "Blog",
            ));
        }
    }
    pages.push(page("/contact", "Contact", "Company"));
    pages.push(page("/newsletter", "Newsletter", "Company"));
    pages.push(page("/search", "Search", "Search"));
    pages.push(page("/about", "About us", NOT_SET));
    // A page without a title: its cell is an empty string, which the API sends as `{}`.
    pages.push(page("/imprint", "", NOT_SET));
    // Spread the rare kinds over the list, so that each is visited.
    let mut order: Vec<usize> = (3..pages.len()).collect();
    order.sort_by_key(|index| mix(7, *index as u64));
    let mut slots: Vec<Option<Page>> = pages.into_iter().map(Some).collect();
    let sorted = (0..3).chain(order).filter_map(|index| slots[index].take()).collect();
    (sorted, items)
}

fn page(path: &str, title: &str, group: &'static str) -> Page {
    Page { path: path.to_owned(), title: title.to_owned(), group, item: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_depends_on_seed_and_date_only() {
        let date = jiff::civil::date(2026, 6, 1);
        let first = EventLog::generate(42, date);
        let next = EventLog::generate(42, date.saturating_add(jiff::Span::new().days(1)));
        let cut = first.events[first.events.len() / 2].micros;
        let until = cut + 5 * 86_400 * MICROS;
        let slice = |log: &EventLog| -> Vec<(i64, u8, u32, u16)> {
            log.events
                .iter()
                .filter(|e| (cut..until).contains(&e.micros))
                .map(|e| (e.micros, e.name, e.cents, e.page))
                .collect()
        };
        assert!(slice(&first).len() > 500);
        assert_eq!(slice(&first), slice(&next));
        assert_ne!(slice(&first), slice(&EventLog::generate(43, date)), "another seed, other data");
        let count = first.events.len();
        assert!((20_000..60_000).contains(&count), "{count}");
    }

    #[test]
    fn the_funnel_narrows() {
        let log = EventLog::generate(42, jiff::civil::date(2026, 6, 1));
        let count = |name: u8| log.events.iter().filter(|e| e.name == name).count();
        let funnel = [name::VIEW_ITEM, name::ADD_TO_CART, name::BEGIN_CHECKOUT, name::PURCHASE].map(count);
        assert!(funnel.is_sorted_by(|a, b| a > b), "{funnel:?}");
        assert!(funnel[3] > 300, "{funnel:?}");
    }
}
