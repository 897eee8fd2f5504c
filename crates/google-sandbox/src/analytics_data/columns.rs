//! A property's view of the event log, and its dimensions as dictionary-coded columns.
//!
//! A column is made once, when a report first asks for it: reports then compare small integers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::clock::day_number;
use crate::events::{
    AGES, DEVICES, EVENT_NAMES, Event, EventLog, FORMS, GENDERS, KEY_EVENTS, NOT_SET, PLACES, PLANS, Session, TIERS,
    TRAFFIC, User, mix, name,
};
use crate::lock;
use crate::world::Kind;

/// Distinct paths that the high-cardinality property keeps; the others become `(other)`.
const KEPT_PATHS: usize = 400;

/// Distinct paths it has.
const MANY_PATHS: f64 = 6_000.0;

/// A dimension of every event of a property.
pub(crate) struct Column {
    /// The distinct values.
    pub(crate) values: Vec<String>,
    /// Index into `values`, for each event.
    pub(crate) codes: Vec<u32>,
    /// The same, for the credit that attribution gives to the user's first touch.
    pub(crate) first_touch: Option<Vec<u32>>,
}

/// The events of a property, with what depends on its time zone.
pub(crate) struct Rows {
    /// The events, oldest first.
    pub(crate) events: Vec<Event>,
    /// Local time of each event.
    local: Vec<DateTime>,
    /// Day number of each event in the property's time zone.
    pub(crate) days: Vec<i32>,
}

/// A property's data, made on first use.
pub(crate) struct PropertyData {
    pub(crate) log: Arc<EventLog>,
    zone: TimeZone,
    kind: Kind,
    share: u64,
    salt: u64,
    rows: OnceLock<Rows>,
    /// By dimension, and whether rare values are rolled up.
    columns: Mutex<HashMap<(String, bool), Arc<Column>>>,
}

impl PropertyData {
    /// The events of `share` per cent of the users.
    pub(crate) fn new(log: Arc<EventLog>, zone: TimeZone, kind: Kind, share: u64, salt: u64) -> Self {
        Self { log, zone, kind, share, salt, rows: OnceLock::new(), columns: Mutex::default() }
    }

    /// The events.
    pub(crate) fn rows(&self) -> &Rows {
        self.rows.get_or_init(|| self.make_rows())
    }

    fn make_rows(&self) -> Rows {
        let kept = |event: &&Event| {
            let user = self.log.session(event).user;
            mix(self.salt, u64::from(user)) % 100 < self.share
        };
        let events: Vec<Event> = self.log.events.iter().filter(kept).copied().collect();
        let local: Vec<DateTime> = events.iter().map(|e| self.local_time(e.micros)).collect();
        let days = local.iter().map(|time| day_number(time.date())).collect();
        Rows { events, local, days }
    }

    fn local_time(&self, micros: i64) -> DateTime {
        let time = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH);
        self.zone.to_datetime(time)
    }

    /// The column of a dimension. `nthDay` counts from the start of a range, so it has none: see [`nth_day`].
    pub(crate) fn column(&self, dimension: &str) -> Arc<Column> {
        self.cached(dimension, self.rolls_up(dimension))
    }

    /// The same in a report of a single day, which has few enough values to keep them all.
    pub(crate) fn column_of_a_day(&self, dimension: &str) -> Arc<Column> {
        self.cached(dimension, false)
    }

    fn cached(&self, dimension: &str, rolled: bool) -> Arc<Column> {
        let key = (dimension.to_owned(), rolled);
        if let Some(column) = lock(&self.columns).get(&key) {
            return Arc::clone(column);
        }
        let mut column = self.make_column(dimension);
        if rolled {
            roll_up(&mut column);
        }
        let column = Arc::new(column);
        lock(&self.columns).insert(key, Arc::clone(&column));
        column
    }

    fn make_column(&self, dimension: &str) -> Column {
        let mut dictionary = Dictionary::default();
        let codes = self.codes(dimension, &mut dictionary, false);
        let first_touch = is_attributed(dimension).then(|| self.codes(dimension, &mut dictionary, true));
        Column { values: dictionary.values, codes, first_touch }
    }

    /// Whether a report of several days with this dimension loses rows to `(other)`.
    pub(crate) fn rolls_up(&self, dimension: &str) -> bool {
        self.kind == Kind::HighCardinality
            && matches!(
                dimension,
                "pagePath" | "pagePathPlusQueryString" | "landingPage" | "landingPagePlusQueryString"
            )
    }

    fn codes(&self, dimension: &str, dictionary: &mut Dictionary, first_touch: bool) -> Vec<u32> {
        let rows = self.rows();
        rows.events
            .iter()
            .zip(&rows.local)
            .map(|(event, local)| {
                let session = self.log.session(event);
                let context =
                    Context { data: self, event, local: *local, session, user: self.log.user(session), first_touch };
                dictionary.code(&context.value(dimension))
            })
            .collect()
    }

    fn path(&self, page: u16, session: u32) -> String {
        if self.kind == Kind::HighCardinality {
            // The fourth power favours small numbers, so that the kept paths have about half of the views.
            let unit = (mix(u64::from(page) + 1, u64::from(session)) % 10_000) as f64 / 10_000.0;
            let number = (unit.powi(4) * MANY_PATHS) as u32;
            return format!("/offers/item-{number:05}");
        }
        self.log.pages[usize::from(page)].path.clone()
    }

    fn path_with_query(&self, page: u16, session: &Session, number: u32, landing: bool) -> String {
        let mut path = self.path(page, number);
        let traffic = &TRAFFIC[usize::from(session.traffic)];
        if landing && !traffic.campaign.starts_with('(') {
            path.push_str(&format!(
                "?utm_source={}&utm_medium={}&utm_campaign={}",
                traffic.source, traffic.medium, traffic.campaign
            ));
        }
        path
    }
}

/// The dimensions that attribution spreads over touchpoints.
pub(crate) fn is_attributed(dimension: &str) -> bool {
    matches!(dimension, "defaultChannelGroup" | "source" | "medium" | "sourceMedium" | "campaignName")
}

/// `nthDay`: days since the start of the range, four digits.
pub(crate) fn nth_day(day: i32, range_start: i32) -> String {
    format!("{:04}", day - range_start)
}

/// Keeps the frequent values of a column and folds the others into `(other)`.
fn roll_up(column: &mut Column) {
    let mut counts: Vec<(usize, usize)> = (0..column.values.len()).map(|i| (0, i)).collect();
    for code in &column.codes {
        counts[*code as usize].0 += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let other = u32::try_from(column.values.len()).unwrap_or(u32::MAX);
    column.values.push("(other)".to_owned());
    let mut kept = vec![false; column.values.len()];
    for (_, index) in counts.iter().take(KEPT_PATHS) {
        kept[*index] = true;
    }
    for code in &mut column.codes {
        if !kept[*code as usize] {
            *code = other;
        }
    }
}

#[derive(Default)]
struct Dictionary {
    values: Vec<String>,
    codes: HashMap<String, u32>,
}

impl Dictionary {
    fn code(&mut self, value: &str) -> u32 {
        if let Some(code) = self.codes.get(value) {
            return *code;
        }
        let code = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.to_owned());
        self.codes.insert(value.to_owned(), code);
        code
    }
}

/// An event with everything a dimension may depend on.
struct Context<'a> {
    data: &'a PropertyData,
    event: &'a Event,
    local: DateTime,
    session: &'a Session,
    user: &'a User,
    first_touch: bool,
}

impl Context<'_> {
    fn value(&self, dimension: &str) -> String {
        self.time(dimension)
            .or_else(|| self.page(dimension))
            .or_else(|| self.traffic(dimension))
            .unwrap_or_else(|| self.other(dimension).to_owned())
    }

    fn time(&self, dimension: &str) -> Option<String> {
        let t = self.local;
        let (year, month, day) = (t.year(), t.month(), t.day());
        let iso = t.iso_week_date();
        Some(match dimension {
            "date" => format!("{year:04}{month:02}{day:02}"),
            "dateHour" => format!("{year:04}{month:02}{day:02}{:02}", t.hour()),
            "dateHourMinute" => {
                format!("{year:04}{month:02}{day:02}{:02}{:02}", t.hour(), t.minute())
            }
            "hour" => format!("{:02}", t.hour()),
            "day" => format!("{day:02}"),
            "dayOfWeek" => t.weekday().to_sunday_zero_offset().to_string(),
            "dayOfWeekName" => DAY_NAMES[usize::try_from(t.weekday().to_sunday_zero_offset()).unwrap_or(0)].to_owned(),
            "week" => format!("{:02}", week(t.date())),
            "month" => format!("{month:02}"),
            "year" => format!("{year:04}"),
            "yearMonth" => format!("{year:04}{month:02}"),
            "yearWeek" => format!("{year:04}{:02}", week(t.date())),
            "isoWeek" => format!("{:02}", iso.week()),
            "isoYear" => format!("{:04}", iso.year()),
            "isoYearIsoWeek" => format!("{:04}{:02}", iso.year(), iso.week()),
            _ => return None,
        })
    }

    fn page(&self, dimension: &str) -> Option<String> {
        let page = &self.data.log.pages[usize::from(self.event.page)];
        let number = self.event.session;
        Some(match dimension {
            "pagePath" => self.data.path(self.event.page, number),
            "pagePathPlusQueryString" => {
                self.data.path_with_query(self.event.page, self.session, number, self.event.landing)
            }
            "pageTitle" | "unifiedScreenName" => page.title.clone(),
            "contentGroup" => page.group.to_owned(),
            "landingPage" => match self.session.landing {
                Some(landing) => self.data.path(landing, number),
                None => NOT_SET.to_owned(),
            },
            "landingPagePlusQueryString" => match self.session.landing {
                Some(landing) => self.data.path_with_query(landing, self.session, number, true),
                None => NOT_SET.to_owned(),
            },
            _ => return None,
        })
    }

    fn traffic(&self, dimension: &str) -> Option<String> {
        let session = &TRAFFIC[usize::from(self.session.traffic)];
        let first = &TRAFFIC[usize::from(self.user.first_traffic)];
        let touch = if self.first_touch { first } else { session };
        Some(match dimension {
            "sessionDefaultChannelGroup" => session.channel.to_owned(),
            "sessionSource" => session.source.to_owned(),
            "sessionMedium" => session.medium.to_owned(),
            "sessionSourceMedium" => format!("{} / {}", session.source, session.medium),
            "sessionCampaignName" => session.campaign.to_owned(),
            "firstUserDefaultChannelGroup" => first.channel.to_owned(),
            "firstUserSource" => first.source.to_owned(),
            "firstUserMedium" => first.medium.to_owned(),
            "firstUserSourceMedium" => format!("{} / {}", first.source, first.medium),
            "firstUserCampaignName" => first.campaign.to_owned(),
            "defaultChannelGroup" => touch.channel.to_owned(),
            "source" => touch.source.to_owned(),
            "medium" => touch.medium.to_owned(),
            "sourceMedium" => format!("{} / {}", touch.source, touch.medium),
            "campaignName" => touch.campaign.to_owned(),
            "transactionId" if self.event.transaction != 0 => {
                format!("T-{}", self.event.transaction)
            }
            _ => return None,
        })
    }

    fn other(&self, dimension: &str) -> &str {
        let place = &PLACES[usize::from(self.session.place)];
        let device = &DEVICES[usize::from(self.session.device)];
        let item = usize::from(self.event.item).checked_sub(1).map(|index| &self.data.log.items[index]);
        match dimension {
            "eventName" => EVENT_NAMES[usize::from(self.event.name)],
            "isKeyEvent" if KEY_EVENTS.contains(&self.event.name) => "true",
            "isKeyEvent" => "false",
            "hostName" => "www.nordwind.example",
            "streamName" => "Website",
            "platform" => "web",
            "country" => place.country,
            "countryId" => place.country_id,
            "city" => place.city,
            "region" => place.region,
            "language" => place.language,
            "deviceCategory" => device.0,
            "browser" => device.1,
            "operatingSystem" => device.2,
            "newVsReturning" if self.session.new_user => "new",
            "newVsReturning" => "returning",
            "itemName" => item.map_or(NOT_SET, |item| item.name.as_str()),
            "itemId" => item.map_or(NOT_SET, |item| item.id.as_str()),
            "userAgeBracket" => AGES[usize::from(self.user.age)],
            "userGender" => GENDERS[usize::from(self.user.gender)],
            "customEvent:plan" if self.event.name == name::PLAN_VIEW => PLANS[usize::from(self.user.plan)],
            "customEvent:form_name" => FORMS[usize::from(self.event.form)],
            "customUser:tier" => TIERS[usize::from(self.user.tier)],
            _ => NOT_SET,
        }
    }
}

const DAY_NAMES: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Week of the year: weeks start on Sunday, and January 1st is always in week 1.
fn week(date: Date) -> i16 {
    let first = i16::from(date.first_of_year().weekday().to_sunday_zero_offset());
    (date.day_of_year() - 1 + first) / 7 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_start_on_sunday_and_with_the_first_of_january() {
        let week_of = |y, m, d| week(jiff::civil::date(y, m, d));
        assert_eq!(week_of(2026, 1, 1), 1);
        assert_eq!(week_of(2026, 1, 3), 1, "a Saturday");
        assert_eq!(week_of(2026, 1, 4), 2, "a Sunday");
        assert_eq!(week_of(2023, 1, 1), 1, "a Sunday");
        assert_eq!(week_of(2023, 12, 31), 53);
    }
}
