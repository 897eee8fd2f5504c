//! Reads a `searchAnalytics/query` request, and refuses what Google refuses before it looks at data.

use jiff::civil::Date;
use serde_json::Value;

use super::filters::{Filter, Operator};
use crate::google_error::GoogleError;
use crate::message::Fields;

type Result<T> = std::result::Result<T, GoogleError>;

/// Rows in an answer when the request doesn't say.
const DEFAULT_ROWS: i64 = 1_000;
/// Rows in an answer at most; a larger limit is refused.
const MAX_ROWS: i64 = 25_000;
/// Characters in the expression of a filter at most.
const MAX_EXPRESSION: usize = 4_096;

/// What rows are grouped or filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    Date,
    Hour,
    Query,
    Page,
    Country,
    Device,
    Appearance,
}

/// Where the site was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchType {
    Web,
    Image,
    Video,
    News,
    Discover,
    GoogleNews,
}

impl SearchType {
    /// Discover and Google News have no queries and no positions, and count by page only.
    pub(crate) fn is_feed(self) -> bool {
        matches!(self, Self::Discover | Self::GoogleNews)
    }
}

/// Which of the latest data is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataState {
    Final,
    All,
    HourlyAll,
}

/// How impressions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregation {
    Auto,
    /// One for each search that shows the property, at its topmost position.
    ByProperty,
    /// One for each page that is shown.
    ByPage,
    ByNewsShowcasePanel,
}

impl Aggregation {
    /// The value of `responseAggregationType`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::ByProperty => "byProperty",
            Self::ByPage => "byPage",
            Self::ByNewsShowcasePanel => "byNewsShowcasePanel",
        }
    }
}

/// A checked request.
#[derive(Clone, Debug)]
pub(crate) struct QueryRequest {
    pub(crate) first: Date,
    pub(crate) last: Date,
    pub(crate) dimensions: Vec<Dimension>,
    pub(crate) kind: SearchType,
    pub(crate) filters: Vec<Filter>,
    /// Never [`Aggregation::Auto`]: resolved by what is grouped and filtered.
    pub(crate) aggregation: Aggregation,
    pub(crate) row_limit: usize,
    pub(crate) start_row: usize,
    pub(crate) state: DataState,
}

/// The two spellings of a value: the documentation's and the discovery document's.
type Names<T> = [(&'static str, &'static str, T)];

const DIMENSIONS: [(&str, &str, Dimension); 7] = [
    ("date", "DATE", Dimension::Date),
    ("hour", "HOUR", Dimension::Hour),
    ("query", "QUERY", Dimension::Query),
    ("page", "PAGE", Dimension::Page),
    ("country", "COUNTRY", Dimension::Country),
    ("device", "DEVICE", Dimension::Device),
    ("searchAppearance", "SEARCH_APPEARANCE", Dimension::Appearance),
];

const TYPES: [(&str, &str, SearchType); 6] = [
    ("web", "WEB", SearchType::Web),
    ("image", "IMAGE", SearchType::Image),
    ("video", "VIDEO", SearchType::Video),
    ("news", "NEWS", SearchType::News),
    ("discover", "DISCOVER", SearchType::Discover),
    ("googleNews", "GOOGLE_NEWS", SearchType::GoogleNews),
];

const AGGREGATIONS: [(&str, &str, Aggregation); 4] = [
    ("auto", "AUTO", Aggregation::Auto),
    ("byProperty", "BY_PROPERTY", Aggregation::ByProperty),
    ("byPage", "BY_PAGE", Aggregation::ByPage),
    ("byNewsShowcasePanel", "BY_NEWS_SHOWCASE_PANEL", Aggregation::ByNewsShowcasePanel),
];

const STATES: [(&str, &str, DataState); 3] = [
    ("final", "FINAL", DataState::Final),
    ("all", "ALL", DataState::All),
    ("hourly_all", "HOURLY_ALL", DataState::HourlyAll),
];

const OPERATORS: [(&str, &str, Operator); 6] = [
    ("equals", "EQUALS", Operator::Equals),
    ("notEquals", "NOT_EQUALS", Operator::NotEquals),
    ("contains", "CONTAINS", Operator::Contains),
    ("notContains", "NOT_CONTAINS", Operator::NotContains),
    ("includingRegex", "INCLUDING_REGEX", Operator::IncludingRegex),
    ("excludingRegex", "EXCLUDING_REGEX", Operator::ExcludingRegex),
];

/// `orderBy` is no field of this message, but Google ignores it where it refuses others.
const KEYS: [&str; 11] = [
    "startDate",
    "endDate",
    "dimensions",
    "type",
    "searchType",
    "dimensionFilterGroups",
    "aggregationType",
    "rowLimit",
    "startRow",
    "dataState",
    "orderBy",
];

impl QueryRequest {
    /// Reads and checks the body of a request.
    pub(crate) fn read(body: &Value) -> Result<Self> {
        let fields = Fields::new(body, "", &KEYS)?;
        let mut dimensions = Vec::new();
        for (index, (value, _)) in fields.list("dimensions")?.into_iter().enumerate() {
            dimensions.push(named(value, &format!("dimension[{index}]"), "Dimension", &DIMENSIONS)?);
        }
        let kind = search_type(&fields)?;
        let state = one(&fields, "dataState", "data_state", "DataState", &STATES)?.unwrap_or(DataState::Final);
        let asked = one(&fields, "aggregationType", "aggregation_type", "AggregationType", &AGGREGATIONS)?
            .unwrap_or(Aggregation::Auto);
        let filters = filters(&fields)?;
        let (first, last) = dates(&fields)?;
        let row_limit = ranged(&fields, "rowLimit", "row_limit", DEFAULT_ROWS, 1, MAX_ROWS)?;
        let start_row = ranged(&fields, "startRow", "start_row", 0, 0, i64::from(i32::MAX))?;
        check_dimensions(&dimensions, kind, state)?;
        let aggregation = aggregation(asked, &dimensions, &filters, kind)?;
        Ok(Self { first, last, dimensions, kind, filters, aggregation, row_limit, start_row, state })
    }

    /// Whether rows are grouped by a dimension.
    pub(crate) fn groups(&self, dimension: Dimension) -> bool {
        self.dimensions.contains(&dimension)
    }

    /// Whether rows are filtered by a dimension.
    pub(crate) fn filters_by(&self, dimension: Dimension) -> bool {
        self.filters.iter().any(|filter| filter.dimension == dimension)
    }
}

/// A 400 about what was asked for, in the older shape.
fn refused(location: &str, message: impl Into<String>) -> GoogleError {
    GoogleError::legacy(400, "global", "invalidParameter", message).at(location)
}

fn named<T: Copy>(value: &Value, at: &str, kind: &str, names: &Names<T>) -> Result<T> {
    let text = value.as_str();
    names.iter().find(|(camel, upper, _)| text == Some(camel) || text == Some(upper)).map(|(_, _, t)| *t).ok_or_else(
        || {
            GoogleError::bad_value(
                at,
                format!(
                    "Invalid value at '{at}' (type.googleapis.com/google.searchconsole.v1.searchanalytics.{kind}), \
                     {value}"
                ),
            )
        },
    )
}

fn one<T: Copy>(fields: &Fields<'_>, key: &str, at: &str, kind: &str, names: &Names<T>) -> Result<Option<T>> {
    fields.get(key).map(|value| named(value, at, kind, names)).transpose()
}

/// `searchType` is the old name of `type` and knows the old values only.
fn search_type(fields: &Fields<'_>) -> Result<SearchType> {
    let old = one(fields, "searchType", "search_type", "SearchType", &TYPES[..4])?;
    let new = one(fields, "type", "type", "SearchType", &TYPES)?;
    Ok(new.or(old).unwrap_or(SearchType::Web))
}

fn ranged(fields: &Fields<'_>, key: &str, at: &str, default: i64, least: i64, most: i64) -> Result<usize> {
    let number = fields.integer(key)?.unwrap_or(default);
    if !(least..=most).contains(&number) {
        return Err(refused(
            at,
            format!("Invalid value '{number}'. Values must be within the range: [{least}, {most}]"),
        ));
    }
    Ok(usize::try_from(number).unwrap_or(0))
}

fn dates(fields: &Fields<'_>) -> Result<(Date, Date)> {
    let date = |key: &str, at: &str| -> Result<Date> {
        let text = fields.text(key)?.unwrap_or_default();
        if text.is_empty() {
            return Err(GoogleError::legacy(400, "global", "required", format!("Required parameter: {at}")).at(at));
        }
        parse_date(&text)
            .ok_or_else(|| refused(at, format!("Invalid value '{text}'. Dates must be in the format: YYYY-MM-DD")))
    };
    let (first, last) = (date("startDate", "start_date")?, date("endDate", "end_date")?);
    if first > last {
        return Err(refused(
            "start_date",
            format!("Invalid date range: start_date {first} must be before or equal to end_date {last}."),
        ));
    }
    Ok((first, last))
}

/// Exactly `YYYY-MM-DD`: no relative dates, no `20260131`.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    shaped.then(|| text.parse().ok()).flatten()
}

fn filters(fields: &Fields<'_>) -> Result<Vec<Filter>> {
    let mut filters = Vec::new();
    for (group, path) in fields.list("dimensionFilterGroups")? {
        let path = path.replace("dimensionFilterGroups", "dimension_filter_groups");
        let group = Fields::new(group, &path, &["groupType", "filters"])?;
        one(&group, "groupType", &format!("{path}.group_type"), "FilterGroupType", &[("and", "AND", ())])?;
        for (filter, at) in group.list("filters")? {
            filters.push(read_filter(filter, &at)?);
        }
    }
    Ok(filters)
}

fn read_filter(value: &Value, at: &str) -> Result<Filter> {
    let fields = Fields::new(value, at, &["dimension", "operator", "expression"])?;
    // Dates and hours can be grouped by, but not filtered by.
    let kind = "FilterDimension";
    let dimension = one(&fields, "dimension", &format!("{at}.dimension"), kind, &DIMENSIONS[2..])?
        .ok_or_else(|| refused("dimension", "A filter needs a dimension."))?;
    let operator =
        one(&fields, "operator", &format!("{at}.operator"), "FilterOperator", &OPERATORS)?.unwrap_or(Operator::Equals);
    let expression = fields.text("expression")?.unwrap_or_default();
    if expression.chars().count() > MAX_EXPRESSION {
        return Err(refused("expression", format!("A filter expression has at most {MAX_EXPRESSION} characters.")));
    }
    let partial = matches!(operator, Operator::Contains | Operator::IncludingRegex | Operator::ExcludingRegex);
    if dimension == Dimension::Appearance && partial {
        return Err(refused("operator", "Search appearance can only be filtered by an exact value."));
    }
    Ok(Filter::new(dimension, operator, expression))
}

fn check_dimensions(dimensions: &[Dimension], kind: SearchType, state: DataState) -> Result<()> {
    let has = |dimension| dimensions.contains(&dimension);
    let refuse = |message: &str| Err(refused("dimensions", message));
    if dimensions.iter().enumerate().any(|(index, dimension)| dimensions[..index].contains(dimension)) {
        return refuse("Duplicate dimensions are not allowed.");
    }
    if has(Dimension::Appearance) && dimensions.len() > 1 {
        return refuse("Cannot group by search appearance dimension together with another dimension.");
    }
    if has(Dimension::Date) && has(Dimension::Hour) {
        return refuse("Request cannot be grouped by both date and hour");
    }
    match (has(Dimension::Hour), state == DataState::HourlyAll) {
        (true, false) => return refuse("Grouping by HOUR requires setting dataState=HOURLY_ALL"),
        (false, true) => return refuse("Using dataState=HOURLY_ALL is supported only when grouping by HOUR"),
        _ => {}
    }
    match kind {
        SearchType::Discover if has(Dimension::Query) => refuse("Request for DISCOVER cannot be grouped by query"),
        SearchType::Discover if has(Dimension::Device) => refuse("Requests for Discover cannot be grouped by device"),
        SearchType::GoogleNews if has(Dimension::Query) => refuse("Request for GOOGLE_NEWS cannot be grouped by query"),
        _ => Ok(()),
    }
}

/// Google never replaces an explicit aggregation: it refuses the ones that don't fit.
fn aggregation(
    asked: Aggregation,
    dimensions: &[Dimension],
    filters: &[Filter],
    kind: SearchType,
) -> Result<Aggregation> {
    let touches = |dimension| dimensions.contains(&dimension) || filters.iter().any(|f| f.dimension == dimension);
    let (fits, upper) = match asked {
        Aggregation::Auto => {
            let pages = touches(Dimension::Page) || touches(Dimension::Appearance) || kind.is_feed();
            return Ok(if pages { Aggregation::ByPage } else { Aggregation::ByProperty });
        }
        Aggregation::ByPage => (true, "BY_PAGE"),
        Aggregation::ByProperty => (!touches(Dimension::Page) && !kind.is_feed(), "BY_PROPERTY"),
        Aggregation::ByNewsShowcasePanel => {
            let showcase = filters.iter().any(Filter::is_news_showcase);
            (kind.is_feed() && showcase && !touches(Dimension::Page), "BY_NEWS_SHOWCASE_PANEL")
        }
    };
    if !fits {
        return Err(refused(
            "aggregation_type",
            format!("'{upper}' is not a valid aggregation type in the context of the request."),
        ));
    }
    Ok(asked)
}
