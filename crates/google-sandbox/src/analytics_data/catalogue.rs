//! The dimensions and metrics a property knows: names, types, what they are computed from, and which go together.

use crate::events::{EVENT_NAMES, KEY_EVENTS, name};
use crate::world::{Kind, Property};

/// What a field describes; decides what it goes together with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Time,
    Event,
    /// Event-scoped and attributed: key events and revenue are split over the touchpoints.
    Attributed,
    Session,
    User,
    Item,
}

/// A dimension.
#[derive(Clone, Debug)]
pub(crate) struct Dimension {
    pub(crate) api_name: &'static str,
    pub(crate) ui_name: &'static str,
    pub(crate) category: &'static str,
    pub(crate) scope: Scope,
    pub(crate) deprecated: &'static [&'static str],
    pub(crate) custom: bool,
}

const fn dim(api_name: &'static str, ui_name: &'static str, category: &'static str, scope: Scope) -> Dimension {
    Dimension { api_name, ui_name, category, scope, deprecated: &[], custom: false }
}

const fn custom(mut dimension: Dimension) -> Dimension {
    dimension.custom = true;
    dimension
}

const fn renamed(mut dimension: Dimension, deprecated: &'static [&'static str]) -> Dimension {
    dimension.deprecated = deprecated;
    dimension
}

/// The name of the bulk property's own dimension.
pub(crate) const BULK_ITEM: &str = "customEvent:item_id";

use Scope::{Attributed, Event, Item, Session, Time, User};

/// Every dimension. `customEvent:item_id` exists on the bulk property only.
pub(crate) const DIMENSIONS: [Dimension; 60] = [
    dim("date", "Date", "Time", Time),
    dim("dateHour", "Date + hour (YYYYMMDDHH)", "Time", Time),
    dim("dateHourMinute", "Date hour and minute", "Time", Time),
    dim("hour", "Hour", "Time", Time),
    dim("day", "Day", "Time", Time),
    dim("dayOfWeek", "Day of week", "Time", Time),
    dim("dayOfWeekName", "Day of week name", "Time", Time),
    dim("week", "Week", "Time", Time),
    dim("month", "Month", "Time", Time),
    dim("year", "Year", "Time", Time),
    dim("yearMonth", "Year month", "Time", Time),
    dim("yearWeek", "Year week", "Time", Time),
    dim("isoWeek", "ISO week of the year", "Time", Time),
    dim("isoYear", "ISO year", "Time", Time),
    dim("isoYearIsoWeek", "ISO week of ISO year", "Time", Time),
    dim("nthDay", "Nth day", "Time", Time),
    dim("eventName", "Event name", "Event", Event),
    renamed(dim("isKeyEvent", "Is key event", "Event", Event), &["isConversionEvent"]),
    dim("pagePath", "Page path", "Page / screen", Event),
    dim("pagePathPlusQueryString", "Page path and query string", "Page / screen", Event),
    dim("pageTitle", "Page title", "Page / screen", Event),
    dim("unifiedScreenName", "Page title and screen name", "Page / screen", Event),
    dim("landingPage", "Landing page", "Page / screen", Session),
    dim("landingPagePlusQueryString", "Landing page + query string", "Page / screen", Session),
    dim("hostName", "Hostname", "Page / screen", Event),
    dim("contentGroup", "Content group", "Page / screen", Event),
    dim("country", "Country", "Geography", Event),
    dim("countryId", "Country ID", "Geography", Event),
    dim("city", "City", "Geography", Event),
    dim("region", "Region", "Geography", Event),
    dim("language", "Language", "User", Event),
    dim("deviceCategory", "Device category", "Platform / device", Event),
    dim("browser", "Browser", "Platform / device", Event),
    dim("operatingSystem", "Operating system", "Platform / device", Event),
    dim("platform", "Platform", "Platform / device", Event),
    dim("streamName", "Stream name", "Platform / device", Event),
    dim("sessionDefaultChannelGroup", "Session default channel group", "Traffic source", Session),
    dim("sessionSource", "Session source", "Traffic source", Session),
    dim("sessionMedium", "Session medium", "Traffic source", Session),
    dim("sessionSourceMedium", "Session source / medium", "Traffic source", Session),
    dim("sessionCampaignName", "Session campaign", "Traffic source", Session),
    dim("firstUserDefaultChannelGroup", "First user default channel group", "Attribution", User),
    dim("firstUserSource", "First user source", "Attribution", User),
    dim("firstUserMedium", "First user medium", "Attribution", User),
    dim("firstUserSourceMedium", "First user source / medium", "Attribution", User),
    dim("firstUserCampaignName", "First user campaign", "Attribution", User),
    dim("defaultChannelGroup", "Default channel group", "Attribution", Attributed),
    dim("source", "Source", "Attribution", Attributed),
    dim("medium", "Medium", "Attribution", Attributed),
    dim("sourceMedium", "Source / medium", "Attribution", Attributed),
    dim("campaignName", "Campaign", "Attribution", Attributed),
    dim("newVsReturning", "New / returning", "User", Session),
    dim("itemName", "Item name", "Ecommerce", Item),
    dim("itemId", "Item ID", "Ecommerce", Item),
    dim("transactionId", "Transaction ID", "Ecommerce", Event),
    dim("userAgeBracket", "Age", "Demographics", User),
    dim("userGender", "Gender", "Demographics", User),
    custom(dim("customEvent:plan", "Plan", "Custom", Event)),
    custom(dim("customEvent:form_name", "Form name", "Custom", Event)),
    custom(dim("customUser:tier", "Tier", "Custom", User)),
];

const BULK_DIMENSION: Dimension = custom(dim(BULK_ITEM, "Feed item", "Custom", Event));

/// Something that is added up, or counted without duplicates, over the events of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ingredient {
    Events,
    Named(u8),
    KeyEvents(Option<u8>),
    Purchases,
    RevenueCents,
    ItemRevenueCents,
    ItemsViewed,
    ItemsPurchased,
    EngagementSeconds,
    EngagementMillis,
    Score,
    Scored,
    Users,
    ActiveUsers,
    NewUsers,
    Sessions,
    EngagedSessions,
    KeyEventSessions(Option<u8>),
    KeyEventUsers,
    SessionSeconds,
    AdClicks,
    AdCostCents,
    /// What no account is linked for: always 0, as Google has it.
    Nothing,
}

/// How a metric follows from its ingredients. Totals apply the same formula to the ingredients of all rows: users stay
/// de-duplicated and rates stay rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Formula {
    One(Ingredient),
    Ratio(Ingredient, Ingredient),
    /// One minus the ratio.
    Rest(Ingredient, Ingredient),
}

/// A metric.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub(crate) api_name: String,
    pub(crate) ui_name: String,
    pub(crate) category: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) scope: Scope,
    pub(crate) formula: Formula,
    pub(crate) deprecated: Vec<String>,
    /// Only calculated metrics have one.
    pub(crate) expression: Option<&'static str>,
    pub(crate) custom: bool,
}

/// Data that some may not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sensitive {
    Revenue,
    Cost,
}

impl Sensitive {
    /// Its name in a report.
    pub(crate) fn data(self) -> &'static str {
        match self {
            Self::Revenue => "REVENUE_DATA",
            Self::Cost => "COST_DATA",
        }
    }

    /// Why metadata call a metric blocked.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Revenue => "NO_REVENUE_METRICS",
            Self::Cost => "NO_COST_METRICS",
        }
    }
}

impl Metric {
    /// Whether its value is money, or derives from money: withheld where that is restricted.
    pub(crate) fn sensitive(&self) -> Option<Sensitive> {
        use Ingredient::{AdCostCents, ItemRevenueCents, RevenueCents};
        match self.formula {
            Formula::One(RevenueCents | ItemRevenueCents) | Formula::Ratio(RevenueCents, _) => Some(Sensitive::Revenue),
            Formula::One(AdCostCents) | Formula::Ratio(AdCostCents, _) => Some(Sensitive::Cost),
            _ => None,
        }
    }
}

type MetricRow = (&'static str, &'static str, &'static str, &'static str, Scope, Formula);

const INTEGER: &str = "TYPE_INTEGER";
const FLOAT: &str = "TYPE_FLOAT";
const SECONDS: &str = "TYPE_SECONDS";
const CURRENCY: &str = "TYPE_CURRENCY";
const MILLISECONDS: &str = "TYPE_MILLISECONDS";

#[rustfmt::skip]
fn metric_rows() -> Vec<MetricRow> {
    use Formula::{One, Ratio, Rest};
    use Ingredient as I;
    vec![
        ("sessions", "Sessions", "Session", INTEGER, Session, One(I::Sessions)),
        ("totalUsers", "Total users", "User", INTEGER, User, One(I::Users)),
        ("activeUsers", "Active users", "User", INTEGER, User, One(I::ActiveUsers)),
        ("newUsers", "New users", "User", INTEGER, User, One(I::NewUsers)),
        ("active1DayUsers", "1-day active users", "User", INTEGER, User, One(I::ActiveUsers)),
        ("active7DayUsers", "7-day active users", "User", INTEGER, User, One(I::ActiveUsers)),
        ("active28DayUsers", "28-day active users", "User", INTEGER, User, One(I::ActiveUsers)),
        ("eventCount", "Event count", "Event", INTEGER, Event, One(I::Events)),
        ("screenPageViews", "Views", "Page / screen", INTEGER, Event, One(I::Named(name::PAGE_VIEW))),
        ("engagedSessions", "Engaged sessions", "Session", INTEGER, Session, One(I::EngagedSessions)),
        ("engagementRate", "Engagement rate", "Session", FLOAT, Session, Ratio(I::EngagedSessions, I::Sessions)),
        ("bounceRate", "Bounce rate", "Session", FLOAT, Session, Rest(I::EngagedSessions, I::Sessions)),
        ("averageSessionDuration", "Average session duration", "Session", SECONDS, Session, Ratio(I::SessionSeconds, I::Sessions)),
        ("userEngagementDuration", "User engagement", "User", SECONDS, Event, One(I::EngagementSeconds)),
        ("sessionsPerUser", "Sessions per user", "Session", FLOAT, Session, Ratio(I::Sessions, I::ActiveUsers)),
        ("eventsPerSession", "Events per session", "Event", FLOAT, Session, Ratio(I::Events, I::Sessions)),
        ("eventCountPerUser", "Event count per active user", "Event", FLOAT, User, Ratio(I::Events, I::ActiveUsers)),
        ("screenPageViewsPerSession", "Views per session", "Page / screen", FLOAT, Session, Ratio(I::Named(name::PAGE_VIEW), I::Sessions)),
        ("keyEvents", "Key events", "Event", FLOAT, Event, One(I::KeyEvents(None))),
        ("sessionKeyEventRate", "Session key event rate", "Session", FLOAT, Session, Ratio(I::KeyEventSessions(None), I::Sessions)),
        ("userKeyEventRate", "User key event rate", "User", FLOAT, User, Ratio(I::KeyEventUsers, I::ActiveUsers)),
        ("totalRevenue", "Total revenue", "Revenue", CURRENCY, Event, One(I::RevenueCents)),
        ("purchaseRevenue", "Purchase revenue", "Revenue", CURRENCY, Event, One(I::RevenueCents)),
        ("averagePurchaseRevenue", "Average purchase revenue", "Revenue", CURRENCY, Event, Ratio(I::RevenueCents, I::Purchases)),
        ("ecommercePurchases", "Ecommerce purchases", "Ecommerce", INTEGER, Event, One(I::Purchases)),
        ("transactions", "Transactions", "Ecommerce", INTEGER, Event, One(I::Purchases)),
        ("addToCarts", "Add to carts", "Ecommerce", INTEGER, Event, One(I::Named(name::ADD_TO_CART))),
        ("checkouts", "Checkouts", "Ecommerce", INTEGER, Event, One(I::Named(name::BEGIN_CHECKOUT))),
        ("itemsViewed", "Items viewed", "Ecommerce", INTEGER, Item, One(I::ItemsViewed)),
        ("itemsPurchased", "Items purchased", "Ecommerce", INTEGER, Item, One(I::ItemsPurchased)),
        ("itemRevenue", "Item revenue", "Ecommerce", CURRENCY, Item, One(I::ItemRevenueCents)),
        ("advertiserAdClicks", "Ads clicks", "Advertising", INTEGER, Session, One(I::AdClicks)),
        ("advertiserAdCost", "Ads cost", "Advertising", CURRENCY, Session, One(I::AdCostCents)),
        ("advertiserAdCostPerClick", "Ads cost per click", "Advertising", CURRENCY, Session, Ratio(I::AdCostCents, I::AdClicks)),
        ("publisherAdClicks", "Publisher ad clicks", "Publisher", INTEGER, Event, One(I::Nothing)),
        ("publisherAdImpressions", "Publisher ad impressions", "Publisher", INTEGER, Event, One(I::Nothing)),
    ]
}

/// The catalogue of one property.
pub(crate) struct Catalogue {
    pub(crate) dimensions: Vec<Dimension>,
    pub(crate) metrics: Vec<Metric>,
}

impl Catalogue {
    /// The fields common to all properties, which `properties/0` lists.
    pub(crate) fn common() -> Self {
        let dimensions = DIMENSIONS.into_iter().filter(|d| !d.custom).collect();
        let metrics = metric_rows()
            .into_iter()
            .map(|(api_name, ui_name, category, kind, scope, formula)| Metric {
                api_name: api_name.to_owned(),
                ui_name: ui_name.to_owned(),
                category,
                kind,
                scope,
                formula,
                deprecated: old_names(api_name),
                expression: None,
                custom: false,
            })
            .collect();
        Self { dimensions, metrics }
    }

    /// The fields of a property: common, per key event, custom.
    pub(crate) fn of(property: &Property) -> Self {
        let mut catalogue = Self::common();
        catalogue.dimensions.extend(DIMENSIONS.into_iter().filter(|d| d.custom));
        if property.kind == Kind::Bulk {
            catalogue.dimensions.push(BULK_DIMENSION);
        }
        for event in KEY_EVENTS {
            let event_name = EVENT_NAMES[usize::from(event)];
            catalogue.metrics.push(Metric {
                api_name: format!("keyEvents:{event_name}"),
                ui_name: format!("Key events for {event_name}"),
                category: "Event",
                kind: INTEGER,
                scope: Event,
                formula: Formula::One(Ingredient::KeyEvents(Some(event))),
                deprecated: vec![format!("conversions:{event_name}")],
                expression: None,
                custom: true,
            });
            catalogue.metrics.push(Metric {
                api_name: format!("sessionKeyEventRate:{event_name}"),
                ui_name: format!("Session key event rate for {event_name}"),
                category: "Session",
                kind: FLOAT,
                scope: Session,
                formula: Formula::Ratio(Ingredient::KeyEventSessions(Some(event)), Ingredient::Sessions),
                deprecated: vec![format!("sessionConversionRate:{event_name}")],
                expression: None,
                custom: true,
            });
        }
        catalogue.metrics.extend(custom_metrics());
        catalogue
    }

    /// The fields of conversion reports. Their one metric counts the key events of `action`, or all of them.
    pub(crate) fn conversions(action: Option<u8>) -> Self {
        const FIELDS: [&str; 8] = [
            "campaignName",
            "country",
            "defaultChannelGroup",
            "deviceCategory",
            "medium",
            "platform",
            "source",
            "sourceMedium",
        ];
        Self {
            dimensions: DIMENSIONS.into_iter().filter(|d| FIELDS.contains(&d.api_name)).collect(),
            metrics: vec![Metric {
                api_name: "allConversionsByConversionDate".to_owned(),
                ui_name: "All conversions (by conv. time)".to_owned(),
                category: "Conversion",
                kind: FLOAT,
                scope: Event,
                formula: Formula::One(Ingredient::KeyEvents(action)),
                deprecated: Vec::new(),
                expression: None,
                custom: false,
            }],
        }
    }

    /// A dimension by its name or a deprecated one.
    pub(crate) fn dimension(&self, name: &str) -> Option<&Dimension> {
        self.dimensions.iter().find(|d| d.api_name == name || d.deprecated.contains(&name))
    }

    /// A metric by its name or a deprecated one.
    pub(crate) fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.api_name == name || m.deprecated.iter().any(|old| old == name))
    }

    /// The known name that looks most like `name`, for Google's "Did you mean".
    pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let wanted = name.to_lowercase();
        known.min_by_key(|candidate| distance(&wanted, &candidate.to_lowercase()))
    }
}

/// Names from before key events replaced conversions (May 2024); still accepted.
fn old_names(api_name: &str) -> Vec<String> {
    let old = match api_name {
        "keyEvents" => "conversions",
        "sessionKeyEventRate" => "sessionConversionRate",
        "userKeyEventRate" => "userConversionRate",
        _ => return Vec::new(),
    };
    vec![old.to_owned()]
}

fn custom_metrics() -> [Metric; 4] {
    let metric = |api_name: &str, ui_name: &str, kind, formula, expression| Metric {
        api_name: api_name.to_owned(),
        ui_name: ui_name.to_owned(),
        category: "Custom",
        kind,
        scope: Event,
        formula,
        deprecated: Vec::new(),
        expression,
        custom: true,
    };
    [
        metric("customEvent:score", "Reading score", INTEGER, Formula::One(Ingredient::Score), None),
        metric("customEvent:active_ms", "Active time", MILLISECONDS, Formula::One(Ingredient::EngagementMillis), None),
        metric(
            "averageCustomEvent:score",
            "Average reading score",
            FLOAT,
            Formula::Ratio(Ingredient::Score, Ingredient::Scored),
            None,
        ),
        metric(
            "calcMetric:value_per_session",
            "Value per session",
            CURRENCY,
            Formula::Ratio(Ingredient::RevenueCents, Ingredient::Sessions),
            Some("totalRevenue/sessions"),
        ),
    ]
}

/// Why two fields can't be in one report: the name to remove.
///
/// Item-scoped dimensions go with item-scoped metrics and with nothing of the session or the user; `eventName` doesn't go
/// with the share of sessions that had a key event, nor with what clicks on ads cost. Google has more such rules; these are the ones people meet.
pub(crate) fn conflict<'a>(dimensions: &[&'a Dimension], metrics: &[&'a Metric]) -> Option<&'a str> {
    let has_item = dimensions.iter().any(|d| d.scope == Item);
    if has_item {
        let dimension = dimensions.iter().find(|d| matches!(d.scope, Session | User | Attributed)).map(|d| d.api_name);
        let metric = metrics.iter().find(|m| m.scope != Item).map(|m| m.api_name.as_str());
        return metric.or(dimension);
    }
    let per_event = dimensions.iter().any(|d| matches!(d.api_name, "eventName" | "isKeyEvent"));
    let of_a_session =
        |m: &&&Metric| m.api_name.starts_with("sessionKeyEventRate") || m.api_name.starts_with("advertiserAd");
    if per_event {
        return metrics.iter().find(of_a_session).map(|m| m.api_name.as_str());
    }
    None
}

/// Edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        let catalogue = Catalogue::common();
        let names = || catalogue.dimensions.iter().map(|d| d.api_name);
        assert_eq!(Catalogue::nearest("pageTitel", names()), Some("pageTitle"));
        assert_eq!(Catalogue::nearest("contry", names()), Some("country"));
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = DIMENSIONS.iter().map(|d| d.api_name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DIMENSIONS.len());
    }
}
