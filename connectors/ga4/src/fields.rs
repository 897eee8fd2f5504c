//! Names of dimensions and metrics: what the property has, and what people mean by other names.

use std::collections::HashMap;

use acp_core::{Error, Result};
use acp_protocol::result::{ColumnRole, ColumnType, Header};

use crate::api::{FieldMetadata, Metadata};

/// Names offered in an error.
const SUGGESTIONS: usize = 3;
/// A name less alike than this is no suggestion.
const LIKENESS: f64 = 0.72;

/// Old or invented names and what they mean. They count only where the property has no field of that name, since some
/// of them are fields of their own elsewhere.
const ALIASES: &[(&str, &str)] = &[
    ("users", "totalUsers"),
    ("uniqueVisitors", "totalUsers"),
    ("visitors", "totalUsers"),
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
];

/// Whether a name is meant as a dimension or as a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Dimension,
    Metric,
}

/// The fields of a property.
#[derive(Debug)]
pub(crate) struct Fields {
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
    fn word(self) -> &'static str {
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
            dimension_names: index(&metadata.dimensions),
            metric_names: index(&metadata.metrics),
            dimensions: metadata.dimensions,
            metrics: metadata.metrics,
        }
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
                "{shown:?} is a {}, not a {}. Move it to the {}s.",
                other.word(),
                kind.word(),
                other.word()
            ));
        }
        let nearest = self.nearest(kind, name);
        let advice = if nearest.is_empty() {
            "See the names in the autocontext blocks custom_dimensions, custom_metrics and key_events.".to_owned()
        } else {
            format!("Did you mean {}?", nearest.join(", "))
        };
        Error::invalid_arguments(format!(
            "{shown:?} is not a {} of this property. {advice} Do not retry with the same name.",
            kind.word()
        ))
    }

    fn nearest(&self, kind: Kind, name: &str) -> Vec<String> {
        let wanted = plain(name);
        let mut scored: Vec<(f64, &str)> = self
            .all(kind)
            .iter()
            .map(|field| {
                let candidate = plain(&field.api_name);
                let contains = wanted.len() >= 4 && candidate.contains(&wanted);
                let likeness = strsim::jaro_winkler(&wanted, &candidate).max(if contains { 0.9 } else { 0.0 });
                (likeness.max(strsim::jaro_winkler(&wanted, &plain(&field.ui_name))), field.api_name.as_str())
            })
            .filter(|(likeness, _)| *likeness >= LIKENESS)
            .collect();
        scored.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.len().cmp(&two.1.len())));
        scored.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
    }

    /// The column of a field.
    pub(crate) fn header(&self, kind: Kind, name: &str) -> Header {
        let field = self.get(kind, name);
        let (column_type, role) = match kind {
            Kind::Dimension => (dimension_type(name), ColumnRole::Dimension),
            Kind::Metric => (metric_type(name, field), ColumnRole::Metric),
        };
        let description = field.map(|field| field.ui_name.clone()).filter(|name| !name.is_empty());
        Header { name: name.to_owned(), column_type, role: Some(role), description }
    }
}

/// Dates and hours are typed; week, month and the like keep their leading zeros as text.
fn dimension_type(name: &str) -> ColumnType {
    match name {
        "date" | "firstSessionDate" => ColumnType::Date,
        "dateHour" | "dateHourMinute" => ColumnType::Datetime,
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
        let message = |kind, name| fields().resolve(kind, name).unwrap_err().message().to_owned();
        assert!(message(Kind::Metric, "sesions").contains("Did you mean sessions"));
        assert!(message(Kind::Dimension, "pageTitel").contains("pageTitle"));
        assert!(message(Kind::Dimension, "sessions").contains("is a metric, not a dimension"));
        assert!(message(Kind::Metric, "xqzw").contains("autocontext"));
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
