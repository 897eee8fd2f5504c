//! Names of dimensions and metrics: what the property has, and what people mean by other names.

use std::collections::HashMap;

use acp_core::{Cell, Error, Result};
use acp_protocol::result::{ColumnRole, ColumnType, Header};

use crate::api::{FieldMetadata, Metadata};

/// Names offered in an error.
const SUGGESTIONS: usize = 3;
/// Fields that are all named in an error.
const LISTED: usize = 24;
/// A name less alike than this is no suggestion.
const LIKENESS: f64 = 0.72;

/// Old or invented names and what they mean. They count only where the property has no field of that name, since some
/// of them are fields of their own elsewhere.
const ALIASES: &[(&str, &str)] = &[
    ("users", "totalUsers"),
    ("users", "activeUsers"),
    ("uniqueVisitors", "totalUsers"),
    ("visitors", "totalUsers"),
    ("visitors", "activeUsers"),
    ("pageviews", "screenPageViews"),
    ("pageViews", "screenPageViews"),
    ("page_views", "screenPageViews"),
    ("views", "screenPageViews"),
    ("uniquePageviews", "screenPageViews"),
    ("visits", "sessions"),
    ("avgSessionDuration", "averageSessionDuration"),
    ("timeOnPage", "userEngagementDuration"),
    ("averageEngagementTime", "userEngagementDuration"),
    ("conversions", "keyEvents"),
    ("conversion", "keyEvents"),
    ("goalCompletionsAll", "keyEvents"),
    ("conversionRate", "sessionKeyEventRate"),
    ("sessionConversionRate", "sessionKeyEventRate"),
    ("userConversionRate", "userKeyEventRate"),
    ("purchases", "ecommercePurchases"),
    ("revenue", "totalRevenue"),
    ("itemViews", "itemsViewed"),
    ("DAU", "active1DayUsers"),
    ("WAU", "active7DayUsers"),
    ("MAU", "active28DayUsers"),
    ("channelGrouping", "sessionDefaultChannelGroup"),
    ("channel", "sessionDefaultChannelGroup"),
    ("channelGroup", "sessionDefaultChannelGroup"),
    ("defaultChannelGrouping", "sessionDefaultChannelGroup"),
    ("sessionDefaultChannelGrouping", "sessionDefaultChannelGroup"),
    ("landingPagePath", "landingPage"),
    ("userType", "newVsReturning"),
    ("device", "deviceCategory"),
    ("page", "pagePath"),
    ("event", "eventName"),
    ("sourceMedium", "sessionSourceMedium"),
    ("utm_source", "sessionSource"),
    ("utm_medium", "sessionMedium"),
    ("utm_campaign", "sessionCampaignName"),
    ("url", "pageLocation"),
];

/// Whether a name is meant as a dimension or as a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Dimension,
    Metric,
}

/// The fields of realtime reports, by Google's documentation: no method lists them.
const REALTIME_DIMENSIONS: &[(&str, &str)] = &[
    ("appVersion", "App version"),
    ("audienceId", "Audience ID"),
    ("audienceName", "Audience name"),
    ("audienceResourceName", "Audience resource name"),
    ("city", "City"),
    ("cityId", "City ID"),
    ("country", "Country"),
    ("countryId", "Country ID"),
    ("deviceCategory", "Device category"),
    ("eventName", "Event name"),
    ("minutesAgo", "Realtime minutes ago"),
    ("platform", "Platform"),
    ("streamId", "Stream ID"),
    ("streamName", "Stream name"),
    ("unifiedScreenName", "Page title and screen name"),
];
const REALTIME_METRICS: &[(&str, &str)] = &[
    ("activeUsers", "Active users"),
    ("eventCount", "Event count"),
    ("keyEvents", "Key events"),
    ("screenPageViews", "Views"),
];

/// The fields of a property.
#[derive(Debug)]
pub(crate) struct Fields {
    /// What they are the fields of.
    whose: &'static str,
    dimensions: Vec<FieldMetadata>,
    metrics: Vec<FieldMetadata>,
    dimension_names: HashMap<String, usize>,
    metric_names: HashMap<String, usize>,
}

/// A name as Google knows it, and what to say when it is not the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) name: String,
    pub(crate) warning: Option<String>,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Dimension => "dimension",
            Self::Metric => "metric",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Dimension => "Dimension",
            Self::Metric => "Metric",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Dimension => Self::Metric,
            Self::Metric => Self::Dimension,
        }
    }
}

impl Fields {
    pub(crate) fn new(metadata: Metadata) -> Self {
        let index = |fields: &[FieldMetadata]| {
            fields.iter().enumerate().map(|(place, field)| (field.api_name.clone(), place)).collect()
        };
        Self {
            whose: "this property",
            dimension_names: index(&metadata.dimensions),
            metric_names: index(&metadata.metrics),
            dimensions: metadata.dimensions,
            metrics: metadata.metrics,
        }
    }

    /// The few fields of realtime reports. Those of a property, if it is given, have its user properties among them.
    pub(crate) fn of_realtime(property: Option<&Self>) -> Self {
        let field = |(api_name, ui_name): &(&str, &str)| FieldMetadata {
            api_name: (*api_name).to_owned(),
            ui_name: (*ui_name).to_owned(),
            metric_type: "TYPE_INTEGER".to_owned(),
            ..FieldMetadata::default()
        };
        let custom = property.into_iter().flat_map(|property| &property.dimensions);
        let user_properties = custom.filter(|field| field.api_name.starts_with("customUser:"));
        let dimensions = REALTIME_DIMENSIONS.iter().map(field).chain(user_properties.cloned()).collect();
        let metrics = REALTIME_METRICS.iter().map(field).collect();
        Self { whose: "realtime reports", ..Self::new(Metadata { dimensions, metrics }) }
    }

    /// The field of this exact name.
    pub(crate) fn get(&self, kind: Kind, name: &str) -> Option<&FieldMetadata> {
        let (fields, names) = self.of(kind);
        fields.get(*names.get(name)?)
    }

    /// All fields of a kind.
    pub(crate) fn all(&self, kind: Kind) -> &[FieldMetadata] {
        self.of(kind).0
    }

    fn of(&self, kind: Kind) -> (&[FieldMetadata], &HashMap<String, usize>) {
        match kind {
            Kind::Dimension => (&self.dimensions, &self.dimension_names),
            Kind::Metric => (&self.metrics, &self.metric_names),
        }
    }

    /// Finds the field that a name means: itself, its newer name, a usual alias, another spelling, or its name in the
    /// interface. Anything but the first is said in a warning; a name that means nothing is refused with the nearest
    /// ones.
    pub(crate) fn resolve(&self, kind: Kind, name: &str) -> Result<Resolved> {
        if self.get(kind, name).is_some() {
            return Ok(Resolved { name: name.to_owned(), warning: None });
        }
        if let Some(meant) = self.meant(kind, name) {
            let warning = format!("{} '{}' mapped to '{meant}'.", kind.title(), shown(name));
            return Ok(Resolved { name: meant.to_owned(), warning: Some(warning) });
        }
        Err(self.unknown(kind, name))
    }

    fn meant(&self, kind: Kind, name: &str) -> Option<&str> {
        let fields = self.all(kind);
        let renamed = fields.iter().find(|field| field.deprecated_api_names.iter().any(|old| old == name));
        let alias = || {
            let meant = ALIASES.iter().filter(|(alias, _)| alias.eq_ignore_ascii_case(name));
            meant.into_iter().find_map(|(_, meant)| self.get(kind, meant))
        };
        let spelling = || {
            let wanted = plain(name);
            fields.iter().find(|field| plain(&field.api_name) == wanted)
        };
        let interface = || fields.iter().find(|field| field.ui_name.eq_ignore_ascii_case(name));
        renamed.or_else(alias).or_else(spelling).or_else(interface).map(|field| field.api_name.as_str())
    }

    fn unknown(&self, kind: Kind, name: &str) -> Error {
        let shown = shown(name);
        let other = kind.other();
        if self.get(other, name).is_some() {
            return Error::invalid_arguments(format!(
                "{shown:?} is a {}, not a {}. Use it where {}s are taken.",
                other.word(),
                kind.word(),
                other.word()
            ));
        }
        if name.contains(',') {
            return Error::invalid_arguments(format!(
                "A {} has no comma in its name. Give several as entries of their own, such as [\"date\", \"country\"].",
                kind.word()
            ));
        }
        let nearest = self.nearest(kind, name);
        let all = self.all(kind);
        let advice = if all.len() <= LISTED {
            let names: Vec<&str> = all.iter().map(|field| field.api_name.as_str()).collect();
            format!("There are {}.", names.join(", "))
        } else if !nearest.is_empty() {
            format!("Did you mean {}?", nearest.join(", "))
        } else {
            "search_fields finds names by words; see also the autocontext blocks custom_dimensions, custom_metrics and key_events."
                .to_owned()
        };
        Error::invalid_arguments(format!(
            "{shown:?} is not a {} of {}. {advice} Do not retry with the same name.",
            kind.word(),
            self.whose
        ))
    }

    fn nearest(&self, kind: Kind, name: &str) -> Vec<String> {
        let wanted = plain(name);
        // What stands behind the colon of a custom field or key event is the name that people know.
        let own = |name: &str| name.rsplit_once(':').map(|(_, own)| plain(own));
        let meant = own(name).unwrap_or_else(|| wanted.clone());
        let mut scored: Vec<(f64, &str)> = self
            .all(kind)
            .iter()
            .map(|field| {
                let candidate = plain(&field.api_name);
                let contains = wanted.len() >= 4 && candidate.contains(&wanted);
                let is_own = own(&field.api_name).is_some_and(|own| own == meant);
                let sure = if is_own {
                    1.0
                } else if contains {
                    0.9
                } else {
                    0.0
                };
                let likeness = strsim::jaro_winkler(&wanted, &candidate).max(sure);
                (likeness.max(strsim::jaro_winkler(&wanted, &plain(&field.ui_name))), field.api_name.as_str())
            })
            .filter(|(likeness, _)| *likeness >= LIKENESS)
            .collect();
        scored.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.len().cmp(&two.1.len())));
        scored.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
    }

    /// The fields that words are about, the best first: by name, old and usual names, title and description.
    pub(crate) fn search(&self, query: &str, kind: Option<Kind>) -> Vec<(Kind, &FieldMetadata)> {
        let mut words: Vec<String> = query.split_whitespace().map(plain).filter(|word| !word.is_empty()).collect();
        // "on" is in "month" and "region": short words say something only where there is no longer one.
        if words.iter().any(|word| word.len() > 2) {
            words.retain(|word| word.len() > 2);
        }
        let whole = plain(query);
        let aliases: Vec<&str> =
            ALIASES.iter().filter(|(alias, _)| plain(alias) == whole).map(|(_, meant)| *meant).collect();
        let kinds = [Kind::Metric, Kind::Dimension].into_iter().filter(|one| kind.is_none_or(|kind| kind == *one));
        let fields = kinds.flat_map(|kind| self.all(kind).iter().map(move |field| (kind, field)));
        let mut scored: Vec<(f64, Kind, &FieldMetadata)> = fields
            .map(|(kind, field)| (likeness(field, &whole, &words, &aliases), kind, field))
            .filter(|(score, ..)| *score > 0.0)
            .collect();
        scored.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.2.api_name.len().cmp(&two.2.api_name.len())));
        scored.into_iter().map(|(_, kind, field)| (kind, field)).collect()
    }

    /// The column of a field.
    pub(crate) fn header(&self, kind: Kind, name: &str) -> Header {
        let field = self.get(kind, name);
        let (column_type, role) = match kind {
            Kind::Dimension => (dimension_type(name), ColumnRole::Dimension),
            Kind::Metric => (metric_type(name, field), ColumnRole::Metric),
        };
        let title = field.map(|field| field.ui_name.clone()).filter(|name| !name.is_empty());
        let description = match kind {
            Kind::Dimension => title,
            Kind::Metric => Some(format!("{}; {}", title.as_deref().unwrap_or(name), adding(name))),
        };
        Header { name: name.to_owned(), column_type, role: Some(role), description }
    }
}

/// How well a field answers a search: each word counts where it is found, a name as a whole counts most.
fn likeness(field: &FieldMetadata, whole: &str, words: &[String], aliases: &[&str]) -> f64 {
    let names: Vec<String> =
        std::iter::once(&field.api_name).chain(&field.deprecated_api_names).map(|n| plain(n)).collect();
    let (title, description) = (plain(&field.ui_name), plain(&field.description));
    let of_word = |word: &String| match () {
        () if names.iter().any(|name| name.contains(word)) || title.contains(word) => 3.0,
        () if description.contains(word) => 1.0,
        () if word.len() >= 4 && names.iter().any(|name| strsim::jaro_winkler(word, name) > 0.88) => 1.0,
        () => 0.0,
    };
    let found: Vec<f64> = words.iter().map(of_word).filter(|score| *score > 0.0).collect();
    let exact = names.iter().any(|name| name == whole) || title == *whole;
    let bonus = if exact {
        20.0
    } else if aliases.contains(&field.api_name.as_str()) {
        10.0
    } else {
        0.0
    };
    // A field with all words comes before one with a single word in its name.
    found.iter().sum::<f64>() + 2.0 * found.len() as f64 * f64::from(u8::from(found.len() == words.len())) + bonus
}

/// What a field describes, as far as its name tells: Google's metadata do not say it.
pub(crate) fn scope(name: &str) -> Option<&'static str> {
    const PREFIXES: [(&str, &str); 9] = [
        ("customEvent:", "event"),
        ("averageCustomEvent:", "event"),
        ("countCustomEvent:", "event"),
        ("customUser:", "user"),
        ("customItem:", "item"),
        ("firstUser", "user, first touch"),
        ("session", "session"),
        ("landingPage", "session"),
        ("item", "item"),
    ];
    const ATTRIBUTED: [&str; 6] =
        ["source", "medium", "sourceMedium", "campaignName", "defaultChannelGroup", "primaryChannelGroup"];
    if ATTRIBUTED.contains(&name) {
        return Some("event, credited by the reporting attribution model");
    }
    PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, scope)| *scope)
}

/// Dates and hours are typed; week, month and the like keep their leading zeros as text.
fn dimension_type(name: &str) -> ColumnType {
    match name {
        "date" | "firstSessionDate" => ColumnType::Date,
        "dateHour" | "dateHourMinute" => ColumnType::Datetime,
        "minutesAgo" => ColumnType::Integer,
        _ => ColumnType::String,
    }
}

/// Key events are announced as integers but arrive as fractions where attribution splits them.
fn metric_type(name: &str, field: Option<&FieldMetadata>) -> ColumnType {
    match field {
        Some(field) if field.metric_type == "TYPE_INTEGER" && !name.starts_with("keyEvents") => ColumnType::Integer,
        _ => ColumnType::Number,
    }
}

/// Metrics whose rows add up to the total: each event counts in one row, whole or in parts.
const ADDITIVE: &[&str] = &[
    "addToCarts",
    "advertiserAdClicks",
    "advertiserAdCost",
    "advertiserAdImpressions",
    "checkouts",
    "ecommercePurchases",
    "eventCount",
    "eventValue",
    "grossItemRevenue",
    "grossPurchaseRevenue",
    "itemDiscountAmount",
    "itemListClickEvents",
    "itemListViewEvents",
    "itemRefundAmount",
    "itemRevenue",
    "itemViewEvents",
    "itemsAddedToCart",
    "itemsCheckedOut",
    "itemsClickedInList",
    "itemsClickedInPromotion",
    "itemsPurchased",
    "itemsViewed",
    "itemsViewedInList",
    "itemsViewedInPromotion",
    "keyEvents",
    "newUsers",
    "organicGoogleSearchClicks",
    "organicGoogleSearchImpressions",
    "promotionClicks",
    "promotionViews",
    "publisherAdClicks",
    "publisherAdImpressions",
    "purchaseRevenue",
    "refundAmount",
    "screenPageViews",
    "shippingAmount",
    "taxAmount",
    "totalAdRevenue",
    "totalRevenue",
    "transactions",
    "userEngagementDuration",
];

/// Whether the rows of a metric may be added up. Users and sessions may not: one of them can be in several rows, and both
/// are estimates (HyperLogLog++). Rates and averages may not either, and of other metrics nobody knows.
pub(crate) fn is_additive(metric: &str) -> bool {
    let prefixes = ["keyEvents:", "customEvent:", "countCustomEvent:"];
    ADDITIVE.contains(&metric) || prefixes.iter().any(|prefix| metric.starts_with(prefix))
}

/// Whether the rows of a metric add up, as the description of its column says it.
fn adding(metric: &str) -> &'static str {
    match metric {
        _ if is_additive(metric) => "adds up",
        "sessions" | "engagedSessions" => "an estimate (HyperLogLog++), does not add up",
        _ if metric.ends_with("Users") => "an estimate (HyperLogLog++), does not add up",
        _ => "does not add up",
    }
}

/// What a report without a row means: nothing was counted, and nothing has no rate.
pub(crate) fn nothing(metric: &str) -> Cell<'static> {
    let counts = is_additive(metric) || metric.ends_with("Users") || matches!(metric, "sessions" | "engagedSessions");
    if counts { Cell::Integer(0) } else { Cell::Null }
}

/// A name without what spellings differ in.
fn plain(name: &str) -> String {
    name.chars().filter(|mark| !matches!(mark, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// A name from outside, if it looks like one: what a model pasted into the wrong place is not repeated.
pub(crate) fn shown(name: &str) -> String {
    let like_a_name = |mark: char| mark.is_alphanumeric() || matches!(mark, '_' | ':' | '-' | '.' | ' ');
    match name.chars().count() {
        1..=60 if name.chars().all(like_a_name) => name.to_owned(),
        _ => "(not shown)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields() -> Fields {
        let field = |name: &str, ui: &str, kind: &str, old: &[&str]| json!({"apiName": name, "uiName": ui, "type": kind, "deprecatedApiNames": old});
        Fields::new(
            serde_json::from_value(json!({
                "dimensions": [field("date", "Date", "", &[]), field("pageTitle", "Page title", "", &[]), field("source", "Source", "", &[]),
                    field("sessionSourceMedium", "Session source / medium", "", &[]), field("customEvent:plan", "Plan", "", &[]), field("dateHour", "Date + hour", "", &[])],
                "metrics": [field("sessions", "Sessions", "TYPE_INTEGER", &[]), field("totalUsers", "Total users", "TYPE_INTEGER", &[]),
                    field("keyEvents:purchase", "Key events for purchase", "TYPE_INTEGER", &["conversions:purchase"]),
                    field("transactions", "Transactions", "TYPE_INTEGER", &[]), field("screenPageViews", "Views", "TYPE_INTEGER", &[]), field("totalRevenue", "Total revenue", "TYPE_CURRENCY", &[])],
            }))
            .unwrap(),
        )
    }

    #[test]
    fn other_names_are_found_and_said() {
        for (kind, name, meant) in [
            (Kind::Metric, "users", "totalUsers"),
            (Kind::Metric, "total_users", "totalUsers"),
            (Kind::Metric, "conversions:purchase", "keyEvents:purchase"),
            (Kind::Metric, "SESSIONS", "sessions"),
            (Kind::Metric, "Total revenue", "totalRevenue"),
            (Kind::Metric, "pageviews", "screenPageViews"),
            (Kind::Dimension, "page_title", "pageTitle"),
            (Kind::Dimension, "sourceMedium", "sessionSourceMedium"),
        ] {
            let resolved = fields().resolve(kind, name).unwrap();
            assert_eq!(resolved.name, meant);
            assert!(resolved.warning.unwrap().contains(&format!("'{name}' mapped to '{meant}'")));
        }
    }

    #[test]
    fn names_that_the_property_has_are_never_replaced() {
        for (kind, name) in
            [(Kind::Metric, "transactions"), (Kind::Dimension, "source"), (Kind::Dimension, "customEvent:plan")]
        {
            assert_eq!(fields().resolve(kind, name).unwrap(), Resolved { name: name.to_owned(), warning: None });
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let mut many = fields();
        let others = (0..LISTED).map(|number| FieldMetadata { api_name: format!("x{number}"), ..Default::default() });
        many.metrics.extend(others.clone());
        many.dimensions.extend(others);
        let message = |kind, name| many.resolve(kind, name).unwrap_err().message().to_owned();
        assert!(message(Kind::Metric, "sesions").contains("Did you mean sessions"));
        assert!(message(Kind::Dimension, "pageTitel").contains("pageTitle"));
        assert!(message(Kind::Dimension, "sessions").contains("is a metric, not a dimension"));
        assert!(message(Kind::Metric, "qqqq").contains("search_fields"));
        let few = fields().resolve(Kind::Metric, "qqqq").unwrap_err();
        assert!(few.message().contains("There are sessions, totalUsers"), "{few}");
    }

    #[test]
    fn realtime_has_few_fields_and_names_them() {
        let realtime = Fields::of_realtime(Some(&fields()));
        assert_eq!(realtime.resolve(Kind::Metric, "users").unwrap().name, "activeUsers");
        assert_eq!(realtime.header(Kind::Dimension, "minutesAgo").column_type, ColumnType::Integer);
        let error = realtime.resolve(Kind::Metric, "sessions").unwrap_err();
        assert!(error.message().contains("realtime reports") && error.message().contains("screenPageViews"), "{error}");
    }

    #[test]
    fn columns_say_whether_their_rows_add_up() {
        let fields = fields();
        for (name, description) in [
            ("screenPageViews", "Views; adds up"),
            ("totalUsers", "Total users; an estimate (HyperLogLog++), does not add up"),
            ("sessions", "Sessions; an estimate (HyperLogLog++), does not add up"),
            ("bounceRate", "bounceRate; does not add up"),
            ("newUsers", "newUsers; adds up"),
        ] {
            assert_eq!(fields.header(Kind::Metric, name).description.as_deref(), Some(description));
        }
        assert_eq!(fields.header(Kind::Dimension, "date").description.as_deref(), Some("Date"));
    }

    #[test]
    fn columns_are_typed_by_what_google_sends() {
        let fields = fields();
        let column_type = |kind, name| fields.header(kind, name).column_type;
        assert_eq!(column_type(Kind::Dimension, "date"), ColumnType::Date);
        assert_eq!(column_type(Kind::Dimension, "dateHour"), ColumnType::Datetime);
        assert_eq!(column_type(Kind::Dimension, "month"), ColumnType::String);
        assert_eq!(column_type(Kind::Metric, "sessions"), ColumnType::Integer);
        assert_eq!(column_type(Kind::Metric, "keyEvents:purchase"), ColumnType::Number);
        assert_eq!(column_type(Kind::Metric, "unknown"), ColumnType::Number);
    }
}
