//! Reads a report request from JSON.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::catalogue::Catalogue;
use crate::google_error::GoogleError;
use crate::message::Fields;

type Result<T> = std::result::Result<T, GoogleError>;

/// Rows in a page when the request names no limit.
pub(crate) const DEFAULT_LIMIT: u64 = 10_000;
/// Rows in a page at most; a larger limit is lowered without an error.
pub(crate) const MAX_LIMIT: u64 = 250_000;
/// Filter trees deeper than this are refused.
const MAX_DEPTH: usize = 32;

/// A date range as requested.
#[derive(Clone, Debug)]
pub(crate) struct DateRange {
    pub(crate) start: String,
    pub(crate) end: String,
    pub(crate) name: Option<String>,
}

/// A row that aggregates all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregation {
    Total,
    Minimum,
    Maximum,
}

/// What a sort key compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OrderKey {
    Metric(String),
    Alphanumeric(String),
    CaseInsensitive(String),
    Numeric(String),
}

/// Makes the key of a dimension.
type DimensionOrder = fn(String) -> OrderKey;

/// One sort key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderBy {
    pub(crate) key: OrderKey,
    pub(crate) desc: bool,
}

/// What makes a report one of conversions (v1alpha).
#[derive(Clone, Debug)]
pub(crate) struct Conversion {
    /// Conversion actions; none means all.
    pub(crate) actions: Vec<String>,
    pub(crate) last_click: bool,
}

/// A report request, checked for form but not against a property's fields.
#[derive(Clone, Debug)]
pub(crate) struct ReportRequest {
    pub(crate) dimensions: Vec<String>,
    pub(crate) metrics: Vec<String>,
    pub(crate) ranges: Vec<DateRange>,
    pub(crate) minute_ranges: Vec<(i64, i64, Option<String>)>,
    pub(crate) dimension_filter: Option<Filter>,
    pub(crate) metric_filter: Option<Filter>,
    pub(crate) order_bys: Vec<OrderBy>,
    pub(crate) offset: u64,
    pub(crate) limit: u64,
    pub(crate) aggregations: Vec<Aggregation>,
    pub(crate) keep_empty_rows: bool,
    pub(crate) currency: Option<String>,
    pub(crate) return_quota: bool,
    pub(crate) conversion: Option<Conversion>,
}

/// A filter expression.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Leaf { field: String, test: Test },
}

/// A test of one field.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Exact(String, bool),
    BeginsWith(String, bool),
    EndsWith(String, bool),
    Contains(String, bool),
    Matches(Regex),
    InList(Vec<String>, bool),
    Number(Comparison, f64),
    Between(f64, f64),
    Empty,
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A request of a batch: its JSON, its path, the property it names.
pub(crate) type BatchEntry<'a> = (&'a Value, String, Option<String>);

impl<'a> Fields<'a> {
    /// The requests of a batch, each with its path and the property it names, and the property of the batch.
    pub(crate) fn batch(&self) -> Result<(Vec<BatchEntry<'a>>, Option<String>)> {
        let mut entries = Vec::new();
        for (value, path) in self.list("requests")? {
            let named =
                value.get("property").and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned);
            entries.push((value, path, named));
        }
        Ok((entries, self.text("property")?.filter(|name| !name.is_empty())))
    }
}

/// An enum by name or by number: Google's Python clients send numbers.
pub(crate) fn enum_value<T: Copy>(fields: &Fields<'_>, key: &str, names: &[(&str, T)], default: T) -> Result<T> {
    let Some(value) = fields.get(key) else {
        return Ok(default);
    };
    enum_of(value, names).ok_or_else(|| fields.bad(key, "TYPE_ENUM", value))
}

/// `names` in the order of their numbers, from 1.
fn enum_of<T: Copy>(value: &Value, names: &[(&str, T)]) -> Option<T> {
    match value {
        Value::String(text) => names.iter().find(|(name, _)| name == text).map(|(_, t)| *t),
        Value::Number(number) => {
            let index = usize::try_from(number.as_u64()?).ok()?;
            names.get(index.checked_sub(1)?).map(|(_, t)| *t)
        }
        _ => None,
    }
}

const REPORT_KEYS: [&str; 17] = [
    "property",
    "dimensions",
    "metrics",
    "dateRanges",
    "dimensionFilter",
    "metricFilter",
    "offset",
    "limit",
    "metricAggregations",
    "orderBys",
    "currencyCode",
    "cohortSpec",
    "keepEmptyRows",
    "returnPropertyQuota",
    "comparisons",
    "conversionSpec",
    "section",
];

const REALTIME_KEYS: [&str; 10] = [
    "property",
    "dimensions",
    "metrics",
    "dimensionFilter",
    "metricFilter",
    "limit",
    "metricAggregations",
    "orderBys",
    "returnPropertyQuota",
    "minuteRanges",
];

impl ReportRequest {
    /// A `runReport` request.
    pub(crate) fn report(value: &Value, path: &str) -> Result<Self> {
        let fields = Fields::new(value, path, &REPORT_KEYS)?;
        fields.leaves_out(&["cohortSpec", "comparisons", "conversionSpec", "section"])?;
        Self::read(&fields)
    }

    /// A `runReport` request of v1alpha, which may be one of conversions.
    pub(crate) fn alpha_report(value: &Value) -> Result<Self> {
        let fields = Fields::new(value, "", &REPORT_KEYS)?;
        fields.leaves_out(&["cohortSpec", "comparisons", "section"])?;
        let conversion = fields.get("conversionSpec").map(|spec| conversion(spec, &fields.at("conversionSpec")));
        Ok(Self { conversion: conversion.transpose()?, ..Self::read(&fields)? })
    }

    /// A `runRealtimeReport` request: no offset, no date ranges.
    pub(crate) fn realtime(value: &Value) -> Result<Self> {
        Self::read(&Fields::new(value, "", &REALTIME_KEYS)?)
    }

    /// The part of a `checkCompatibility` request that describes a report.
    pub(crate) fn compatibility(value: &Value) -> Result<(Self, Option<bool>)> {
        const KEYS: [&str; 6] =
            ["property", "dimensions", "metrics", "dimensionFilter", "metricFilter", "compatibilityFilter"];
        let fields = Fields::new(value, "", &KEYS)?;
        let only = enum_value(
            &fields,
            "compatibilityFilter",
            &[("COMPATIBLE", Some(true)), ("INCOMPATIBLE", Some(false))],
            None,
        )?;
        Ok((Self::read(&fields)?, only))
    }

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let limit = match fields.integer("limit")? {
            None | Some(0) => DEFAULT_LIMIT,
            Some(limit) => u64::try_from(limit)
                .map_err(|_| GoogleError::invalid(format!("Limit must be positive. Received limit = {limit}.")))?
                .min(MAX_LIMIT),
        };
        let offset = fields.integer("offset")?.unwrap_or(0);
        let offset = u64::try_from(offset)
            .map_err(|_| GoogleError::invalid(format!("Offset must not be negative. Received offset = {offset}.")))?;
        Ok(Self {
            dimensions: names(fields, "dimensions", &["name", "dimensionExpression"])?,
            metrics: names(fields, "metrics", &["name", "expression", "invisible"])?,
            ranges: ranges(fields)?,
            minute_ranges: minute_ranges(fields)?,
            dimension_filter: filter_at(fields, "dimensionFilter")?,
            metric_filter: filter_at(fields, "metricFilter")?,
            order_bys: order_bys(fields)?,
            offset,
            limit,
            aggregations: aggregations(fields)?,
            keep_empty_rows: fields.flag("keepEmptyRows")?,
            currency: fields.text("currencyCode")?.filter(|code| !code.is_empty()),
            return_quota: fields.flag("returnPropertyQuota")?,
            conversion: None,
        })
    }
}

fn conversion(value: &Value, path: &str) -> Result<Conversion> {
    let fields = Fields::new(value, path, &["conversionActions", "attributionModel"])?;
    let last_click = enum_value(&fields, "attributionModel", &[("DATA_DRIVEN", false), ("LAST_CLICK", true)], false)?;
    let actions = texts(&fields, "conversionActions")?;
    Ok(Conversion { actions, last_click })
}

fn names(fields: &Fields<'_>, key: &str, known: &[&str]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (value, path) in fields.list(key)? {
        let field = Fields::new(value, &path, known)?;
        field.leaves_out(&["dimensionExpression", "expression", "invisible"])?;
        names.push(field.text("name")?.unwrap_or_default());
    }
    Ok(names)
}

pub(crate) fn ranges(fields: &Fields<'_>) -> Result<Vec<DateRange>> {
    let mut ranges = Vec::new();
    for (value, path) in fields.list("dateRanges")? {
        let range = Fields::new(value, &path, &["startDate", "endDate", "name"])?;
        ranges.push(DateRange {
            start: range.text("startDate")?.unwrap_or_default(),
            end: range.text("endDate")?.unwrap_or_default(),
            name: range.text("name")?,
        });
    }
    Ok(ranges)
}

fn minute_ranges(fields: &Fields<'_>) -> Result<Vec<(i64, i64, Option<String>)>> {
    let mut ranges = Vec::new();
    for (value, path) in fields.list("minuteRanges")? {
        let range = Fields::new(value, &path, &["startMinutesAgo", "endMinutesAgo", "name"])?;
        ranges.push((
            range.integer("startMinutesAgo")?.unwrap_or(29),
            range.integer("endMinutesAgo")?.unwrap_or(0),
            range.text("name")?,
        ));
    }
    Ok(ranges)
}

fn aggregations(fields: &Fields<'_>) -> Result<Vec<Aggregation>> {
    // Numbers of the enum: TOTAL 1, MINIMUM 5, MAXIMUM 6, COUNT 4.
    let mut aggregations = Vec::new();
    for (value, _) in fields.list("metricAggregations")? {
        let aggregation = match (value.as_str(), value.as_u64()) {
            (Some("TOTAL"), _) | (_, Some(1)) => Aggregation::Total,
            (Some("MINIMUM"), _) | (_, Some(5)) => Aggregation::Minimum,
            (Some("MAXIMUM"), _) | (_, Some(6)) => Aggregation::Maximum,
            (Some("COUNT"), _) | (_, Some(4)) => {
                return Err(GoogleError::invalid("Metric aggregation Count is not supported in ReportRequest."));
            }
            (Some("METRIC_AGGREGATION_UNSPECIFIED"), _) | (_, Some(0)) => continue,
            _ => return Err(fields.bad("metricAggregations", "TYPE_ENUM", value)),
        };
        if !aggregations.contains(&aggregation) {
            aggregations.push(aggregation);
        }
    }
    Ok(aggregations)
}

fn order_bys(fields: &Fields<'_>) -> Result<Vec<OrderBy>> {
    let mut orders = Vec::new();
    for (value, path) in fields.list("orderBys")? {
        let order = Fields::new(value, &path, &["metric", "dimension", "pivot", "desc"])?;
        order.leaves_out(&["pivot"])?;
        let key = match (order.get("metric"), order.get("dimension")) {
            (Some(metric), None) => {
                let metric = Fields::new(metric, &order.at("metric"), &["metricName"])?;
                OrderKey::Metric(metric.text("metricName")?.unwrap_or_default())
            }
            (None, Some(dimension)) => {
                let dimension = Fields::new(dimension, &order.at("dimension"), &["dimensionName", "orderType"])?;
                let name = dimension.text("dimensionName")?.unwrap_or_default();
                let kinds: [(&str, DimensionOrder); 3] = [
                    ("ALPHANUMERIC", OrderKey::Alphanumeric),
                    ("CASE_INSENSITIVE_ALPHANUMERIC", OrderKey::CaseInsensitive),
                    ("NUMERIC", OrderKey::Numeric),
                ];
                enum_value(&dimension, "orderType", &kinds, OrderKey::Alphanumeric)?(name)
            }
            _ => {
                return Err(GoogleError::invalid(
                    "Each OrderBy must specify exactly one of metric, dimension or pivot.",
                ));
            }
        };
        orders.push(OrderBy { key, desc: order.flag("desc")? });
    }
    Ok(orders)
}

pub(crate) fn filter_at(fields: &Fields<'_>, key: &str) -> Result<Option<Filter>> {
    fields.get(key).map(|value| filter(value, &fields.at(key))).transpose()
}

pub(crate) fn missing_filter() -> GoogleError {
    GoogleError::invalid("Missing filter specification")
}

fn filter(value: &Value, path: &str) -> Result<Filter> {
    expression(value, path, 0, &["filter"], &|_, value, path| leaf(value, path, &TESTS))
}

/// How a leaf of an expression is read: by its key, its value and its path.
type Leaf<'a> = &'a dyn Fn(&str, &Value, &str) -> Result<Filter>;

/// A tree of and, or and not, whose leaves stand below one of `leaves`: each kind of report has its own.
pub(crate) fn expression(value: &Value, path: &str, depth: usize, leaves: &[&str], leaf: Leaf<'_>) -> Result<Filter> {
    if depth > MAX_DEPTH {
        return Err(GoogleError::unsupported("filters nested deeper than 32 levels"));
    }
    let known: Vec<&str> = ["andGroup", "orGroup", "notExpression"].into_iter().chain(leaves.iter().copied()).collect();
    let fields = Fields::new(value, path, &known)?;
    let [(key, inner)] = fields.entries() else {
        return Err(missing_filter());
    };
    let at = fields.at(key);
    let group = || -> Result<Vec<Filter>> {
        let fields = Fields::new(inner, &at, &["expressions"])?;
        let list = fields.list("expressions")?.into_iter();
        let filters: Vec<Filter> =
            list.map(|(value, path)| expression(value, &path, depth + 1, leaves, leaf)).collect::<Result<_>>()?;
        if filters.is_empty() { Err(missing_filter()) } else { Ok(filters) }
    };
    match key.as_str() {
        "andGroup" => Ok(Filter::And(group()?)),
        "orGroup" => Ok(Filter::Or(group()?)),
        "notExpression" => Ok(Filter::Not(Box::new(expression(inner, &at, depth + 1, leaves, leaf)?))),
        key => leaf(key, inner, &at),
    }
}

/// The tests of a field in a report. Funnels and segments have all but the last.
pub(crate) const TESTS: [&str; 5] = ["stringFilter", "inListFilter", "numericFilter", "betweenFilter", "emptyFilter"];

pub(crate) fn leaf(value: &Value, path: &str, tests: &[&str]) -> Result<Filter> {
    let mut known = vec!["fieldName"];
    known.extend(tests);
    let fields = Fields::new(value, path, &known)?;
    let field = fields.text("fieldName")?.unwrap_or_default();
    Ok(Filter::Leaf { field, test: test(&fields, tests)? })
}

/// The one test of a leaf.
pub(crate) fn test(fields: &Fields<'_>, tests: &[&str]) -> Result<Test> {
    let mut found = tests.iter().filter_map(|test| fields.get(test).map(|v| (*test, v)));
    let (Some((test, value)), None) = (found.next(), found.next()) else {
        return Err(missing_filter());
    };
    let at = fields.at(test);
    Ok(match test {
        "stringFilter" => string_test(value, &at)?,
        "inListFilter" => in_list(value, &at)?,
        "numericFilter" => numeric(value, &at)?,
        "betweenFilter" => between(value, &at)?,
        _ => {
            Fields::new(value, &at, &[])?;
            Test::Empty
        }
    })
}

fn string_test(value: &Value, path: &str) -> Result<Test> {
    let fields = Fields::new(value, path, &["matchType", "value", "caseSensitive"])?;
    let text = fields.text("value")?.unwrap_or_default();
    let sensitive = fields.flag("caseSensitive")?;
    let names = [
        ("EXACT", 0),
        ("BEGINS_WITH", 1),
        ("ENDS_WITH", 2),
        ("CONTAINS", 3),
        ("FULL_REGEXP", 4),
        ("PARTIAL_REGEXP", 5),
    ];
    let kind = match fields.get("matchType") {
        Some(Value::String(name)) if name == "MATCH_TYPE_UNSPECIFIED" => 0,
        Some(Value::Number(number)) if number.as_u64() == Some(0) => 0,
        _ => enum_value(&fields, "matchType", &names, 0)?,
    };
    Ok(match kind {
        1 => Test::BeginsWith(text, sensitive),
        2 => Test::EndsWith(text, sensitive),
        3 => Test::Contains(text, sensitive),
        4 => {
            // Checked alone first: anchors around `a)(b` would make it look well-formed.
            regex(&text, &text, sensitive)?;
            Test::Matches(regex(&format!("^(?:{text})$"), &text, sensitive)?)
        }
        5 => Test::Matches(regex(&text, &text, sensitive)?),
        _ => Test::Exact(text, sensitive),
    })
}

fn regex(pattern: &str, shown: &str, sensitive: bool) -> Result<Regex> {
    RegexBuilder::new(pattern)
        .case_insensitive(!sensitive)
        .build()
        .map_err(|_| GoogleError::invalid(format!("Invalid regular expression: {shown}")))
}

fn texts(fields: &Fields<'_>, key: &str) -> Result<Vec<String>> {
    let text = |(value, at): (&Value, String)| match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(GoogleError::bad_payload(&at, format!("Invalid value at '{at}' (TYPE_STRING), {value}"))),
    };
    fields.list(key)?.into_iter().map(text).collect()
}

fn in_list(value: &Value, path: &str) -> Result<Test> {
    let fields = Fields::new(value, path, &["values", "caseSensitive"])?;
    let values = texts(&fields, "values")?;
    if values.is_empty() {
        return Err(GoogleError::invalid("InListFilter requires a non-empty list of values."));
    }
    Ok(Test::InList(values, fields.flag("caseSensitive")?))
}

fn numeric(value: &Value, path: &str) -> Result<Test> {
    let fields = Fields::new(value, path, &["operation", "value"])?;
    let names = [
        ("EQUAL", Comparison::Equal),
        ("LESS_THAN", Comparison::Less),
        ("LESS_THAN_OR_EQUAL", Comparison::LessOrEqual),
        ("GREATER_THAN", Comparison::Greater),
        ("GREATER_THAN_OR_EQUAL", Comparison::GreaterOrEqual),
    ];
    if fields.get("operation").is_none() {
        return Err(GoogleError::invalid("NumericFilter requires an operation."));
    }
    let operation = enum_value(&fields, "operation", &names, Comparison::Equal)?;
    Ok(Test::Number(operation, number(&fields, "value")?))
}

fn between(value: &Value, path: &str) -> Result<Test> {
    let fields = Fields::new(value, path, &["fromValue", "toValue"])?;
    Ok(Test::Between(number(&fields, "fromValue")?, number(&fields, "toValue")?))
}

/// A NumericValue: `{"int64Value": "1"}` or `{"doubleValue": 1.5}`.
fn number(fields: &Fields<'_>, key: &str) -> Result<f64> {
    let value =
        fields.get(key).ok_or_else(|| GoogleError::invalid(format!("The filter requires a value for {key}.")))?;
    let inner = Fields::new(value, &fields.at(key), &["int64Value", "doubleValue"])?;
    if let Some(integer) = inner.integer("int64Value")? {
        return Ok(integer as f64);
    }
    match inner.get("doubleValue") {
        Some(Value::Number(number)) => Ok(number.as_f64().unwrap_or(0.0)),
        Some(Value::String(text)) => {
            text.parse().map_err(|_| inner.bad("doubleValue", "TYPE_DOUBLE", &Value::String(text.clone())))
        }
        Some(other) => Err(inner.bad("doubleValue", "TYPE_DOUBLE", other)),
        None => Err(GoogleError::invalid(format!("The filter requires a value for {key}."))),
    }
}

/// The refusal for an unknown field: one space after "dimension.", two after "metric.".
pub(crate) fn unknown_field(kind: &str, name: &str, catalogue: &Catalogue) -> GoogleError {
    let nearest = if kind == "dimension" {
        Catalogue::nearest(name, catalogue.dimensions.iter().map(|d| d.api_name))
    } else {
        Catalogue::nearest(name, catalogue.metrics.iter().map(|m| m.api_name.as_str()))
    };
    let gap = if kind == "dimension" { " " } else { "  " };
    GoogleError::invalid(format!(
        "Did you mean {}? Field {name} is not a valid {kind}.{gap}For a list of valid dimensions and metrics, see \
         https://developers.google.com/analytics/devguides/reporting/data/v1/api-schema ",
        nearest.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(value: Value) -> String {
        ReportRequest::report(&value, "").unwrap_err().message().to_owned()
    }

    #[test]
    fn accepts_both_spellings_numbers_and_strings() {
        let request = ReportRequest::report(
            &json!({"date_ranges": [{"start_date": "today", "end_date": "today"}], "limit": "300000", "offset": 5,
                    "metric_aggregations": [1, "MINIMUM"]}),
            "",
        )
        .unwrap();
        assert_eq!((request.limit, request.offset), (250_000, 5));
        assert_eq!(request.aggregations, [Aggregation::Total, Aggregation::Minimum]);
    }

    #[test]
    fn names_unknown_keys() {
        assert_eq!(
            error(json!({"dateRange": []})),
            "Invalid JSON payload received. Unknown name \"dateRange\": Cannot find field."
        );
        assert_eq!(
            error(json!({"dimensions": [{"nam": "x"}]})),
            "Invalid JSON payload received. Unknown name \"nam\" at 'dimensions[0]': Cannot find field."
        );
    }

    #[test]
    fn refuses_what_it_leaves_out() {
        assert!(error(json!({"cohortSpec": {"cohorts": []}})).starts_with("sandbox: not supported"));
        assert!(error(json!({"metrics": [{"name": "x", "expression": "a/b"}]})).starts_with("sandbox: not supported"));
    }

    #[test]
    fn filters_need_a_specification() {
        for value in [json!({}), json!({"filter": {"fieldName": "country"}}), json!({"andGroup": {"expressions": []}})]
        {
            assert_eq!(error(json!({"dimensionFilter": value})), "Missing filter specification");
        }
    }
}
