//! `runReport`: checks a request against a property, groups, orders, pages, and writes the answer.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::catalogue::{Catalogue, Dimension, Metric, Sensitive, conflict};
use super::engine::{Grouped, Query, Row, Window, group};
use super::request::{Aggregation, Conversion, Filter, OrderBy, OrderKey, ReportRequest, unknown_field};
use super::{dates, metadata, number};
use crate::clock;
use crate::events::mix;
use crate::google_error::GoogleError;
use crate::world::{Kind, Property};

/// Rows with fewer users are withheld where thresholds apply.
const MIN_USERS: usize = 10;

/// One euro in other currencies: fixed, so that answers don't depend on the day.
const PER_EURO: [(&str, f64); 9] = [
    ("EUR", 1.0),
    ("USD", 1.08),
    ("GBP", 0.85),
    ("JPY", 163.0),
    ("AUD", 1.64),
    ("INR", 90.5),
    ("CHF", 0.95),
    ("PLN", 4.3),
    ("SEK", 11.4),
];

/// A finished report, before quota.
pub(crate) struct Report {
    /// The answer's fields up to `metadata`.
    pub(crate) fields: Map<String, Value>,
    /// Tokens it costs.
    pub(crate) tokens: u64,
    /// Whether it counts as potentially thresholded.
    pub(crate) thresholded: bool,
}

/// The fields of a request, found in the catalogue.
pub(crate) struct Selected<'a> {
    pub(crate) dimensions: Vec<&'a Dimension>,
    pub(crate) metrics: Vec<&'a Metric>,
}

/// Finds the fields of a request and checks that they can be in one report.
pub(crate) fn select<'a>(request: &ReportRequest, catalogue: &'a Catalogue) -> Result<Selected<'a>, GoogleError> {
    check_counts(request)?;
    let dimensions = request
        .dimensions
        .iter()
        .map(|name| catalogue.dimension(name).ok_or_else(|| unknown_field("dimension", name, catalogue)))
        .collect::<Result<Vec<_>, _>>()?;
    let metrics = request.metrics.iter().map(|name| metric(name, catalogue)).collect::<Result<Vec<_>, _>>()?;
    check_filters(request, catalogue)?;
    check_orders(request)?;
    let mut all_dimensions = dimensions.clone();
    if let Some(filter) = &request.dimension_filter {
        all_dimensions.extend(filter.fields().iter().filter_map(|f| catalogue.dimension(f)));
    }
    if let Some(name) = conflict(&all_dimensions, &metrics) {
        return Err(GoogleError::invalid(format!(
            "Please remove {name} to make the request compatible for example. The request's dimensions & metrics are \
             incompatible. To learn more, see https://ga-dev-tools.web.app/ga4/dimensions-metrics-explorer/"
        )));
    }
    Ok(Selected { dimensions, metrics })
}

fn metric<'a>(name: &str, catalogue: &'a Catalogue) -> Result<&'a Metric, GoogleError> {
    if name.contains(['[', ']', ' ']) {
        return Err(GoogleError::invalid(format!(
            "Metric names must only contain letters, numbers, or _. Received a metric name = {name}"
        )));
    }
    catalogue.metric(name).ok_or_else(|| unknown_field("metric", name, catalogue))
}

fn check_counts(request: &ReportRequest) -> Result<(), GoogleError> {
    let limited = |what: &str, limit: usize, count: usize| {
        if count <= limit {
            return Ok(());
        }
        Err(GoogleError::invalid(format!(
            "Requests are limited to {limit} {what} within a nested request.\n  This request is for {count} {what}."
        )))
    };
    limited("dimensions", 9, request.dimensions.len())?;
    limited("metrics", 10, request.metrics.len())?;
    if request.dimensions.is_empty() && request.metrics.is_empty() {
        return Err(GoogleError::invalid("Requests require dimensions and/or metrics. Most requests include both."));
    }
    if let Some(name) = duplicate(&request.dimensions) {
        return Err(GoogleError::invalid(format!("Found duplicate dimensions: {name}")));
    }
    if let Some(name) = duplicate(&request.metrics) {
        return Err(GoogleError::invalid(format!(
            "Duplicate metrics are not allowed. Found duplicate metrics: {name}"
        )));
    }
    Ok(())
}

fn duplicate(names: &[String]) -> Option<&String> {
    let mut seen = HashSet::new();
    names.iter().find(|name| !seen.insert(*name))
}

/// A filter field need not be a column, but it must be of the filter's kind.
fn check_filters(request: &ReportRequest, catalogue: &Catalogue) -> Result<(), GoogleError> {
    for field in request.dimension_filter.iter().flat_map(Filter::fields) {
        if catalogue.dimension(field).is_none() {
            // Misleading, and what Google says about a metric in a dimension filter.
            return Err(if catalogue.metric(field).is_some() {
                GoogleError::invalid("Found duplicate dimensions/metrics.")
            } else {
                unknown_field("dimension", field, catalogue)
            });
        }
    }
    for field in request.metric_filter.iter().flat_map(Filter::fields) {
        metric(field, catalogue)?;
    }
    Ok(())
}

fn check_orders(request: &ReportRequest) -> Result<(), GoogleError> {
    for order in &request.order_bys {
        let (name, columns, list) = match &order.key {
            OrderKey::Metric(name) => (name, &request.metrics, "Metrics"),
            OrderKey::Alphanumeric(name) | OrderKey::CaseInsensitive(name) | OrderKey::Numeric(name) => {
                (name, &request.dimensions, "Dimensions")
            }
        };
        let is_range = name == "dateRange" && list == "Dimensions" && request.ranges.len() > 1;
        let is_column = columns.contains(name) || is_range;
        if !is_column {
            return Err(GoogleError::invalid(format!(
                "Field {name} exists in OrderBy but is not defined in input {list} list"
            )));
        }
    }
    Ok(())
}

/// Units of a currency for one euro of the log.
fn per_euro(code: &str) -> Result<f64, GoogleError> {
    PER_EURO
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, rate)| *rate)
        .ok_or_else(|| GoogleError::invalid(format!("Invalid currency code: {code}")))
}

/// Computes a report over the event log.
pub(crate) fn run(property: &Property, request: &ReportRequest) -> Result<Report, GoogleError> {
    let today = clock::today(&property.zone);
    let days = dates::resolve(&request.ranges, today)?;
    let data = property.data.rows();
    // The log reaches into the future: today ends now.
    let now_micros = clock::now_micros();
    let known = data.events.partition_point(|event| event.micros <= now_micros);
    let windows: Vec<Window> = days
        .iter()
        .map(|range| {
            let start = data.days.partition_point(|day| *day < range.start).min(known);
            let end = data.days.partition_point(|day| *day <= range.end).min(known);
            Window { name: range.name.clone(), events: start..end.max(start), first_day: range.start }
        })
        .collect();
    let longest = days.iter().map(|d| d.end - d.start + 1).max().unwrap_or(1);
    let catalogue = match &request.conversion {
        None => Catalogue::of(property),
        Some(conversion) => Catalogue::conversions(conversion_of(property, conversion)?),
    };
    run_over(property, request, &catalogue, &windows, now_micros, longest)
}

/// The key event that a conversion report is about; none means all. Google offers these reports to some properties only.
fn conversion_of(property: &Property, conversion: &Conversion) -> Result<Option<u8>, GoogleError> {
    let known = metadata::conversions(property);
    if known.is_empty() {
        return Err(GoogleError::invalid("Conversion reporting is not available for this property."));
    }
    match conversion.actions.as_slice() {
        [] => Ok(known.first().filter(|_| known.len() == 1).map(|(_, event)| *event)),
        [action] => match known.into_iter().find(|(name, _)| name == action) {
            Some((_, event)) => Ok(Some(event)),
            None => Err(GoogleError::invalid(format!("Invalid conversion action: {action}"))),
        },
        _ => Err(GoogleError::unsupported("several conversion actions in one report")),
    }
}

/// Computes a report over given windows of the log.
pub(crate) fn run_over(
    property: &Property,
    request: &ReportRequest,
    catalogue: &Catalogue,
    windows: &[Window],
    now_micros: i64,
    longest_days: i32,
) -> Result<Report, GoogleError> {
    let selected = select(request, catalogue)?;
    let currency = request.currency.as_deref().unwrap_or(property.currency);
    check_restriction(property, request, catalogue)?;
    let canonical = |field: &str| match catalogue.dimension(field) {
        Some(dimension) => dimension.api_name.to_owned(),
        None => field.to_owned(),
    };
    let computed = with_filtered_metrics(request, &selected, catalogue)?;
    let metrics: Vec<&Metric> = computed.iter().map(|(_, metric)| *metric).collect();
    let query = Query {
        data: &property.data,
        windows,
        dimensions: &selected.dimensions,
        metrics: &metrics,
        filter: request.dimension_filter.as_ref(),
        per_euro: per_euro(currency)?,
        now_micros,
        one_day: longest_days <= 1,
        last_click: request
            .conversion
            .as_ref()
            .map_or(property.reports_last_click(), |conversion| conversion.last_click),
    };
    let mut grouped = group(&query, &canonical);
    if property.kind == Kind::RevenueRestricted {
        withhold_money(&mut grouped, &metrics);
    }
    let thresholded = is_thresholded(property, request, &canonical);
    let columns = selected.metrics.len();
    keep_rows(&mut grouped, request, &computed, thresholded, columns);
    let order = sort_order(&grouped, request);
    let page: Vec<Value> = order
        .iter()
        .skip(usize::try_from(request.offset).unwrap_or(usize::MAX))
        .take(usize::try_from(request.limit).unwrap_or(usize::MAX))
        .map(|index| row_json(&grouped, &grouped.rows[*index], request, columns))
        .collect();
    let tokens = tokens(longest_days, request, page.len());

    // Google leaves empty and zero fields out.
    let mut fields = headers(request, &selected, windows.len() > 1);
    if !page.is_empty() {
        fields.insert("rows".into(), Value::Array(page));
    }
    aggregate(&mut fields, &grouped, request, columns);
    if !order.is_empty() {
        fields.insert("rowCount".into(), json!(order.len()));
    }
    let mut metadata = json!({"currencyCode": currency, "timeZone": property.zone_name});
    add_notices(&mut metadata, property, &selected, windows, longest_days, thresholded);
    fields.insert("metadata".into(), metadata);
    Ok(Report { fields, tokens, thresholded: uses_demographics(request) })
}

/// The metrics to compute, by the name they were asked for: the columns, then those that only the metric filter needs.
fn with_filtered_metrics<'a>(
    request: &'a ReportRequest,
    selected: &Selected<'a>,
    catalogue: &'a Catalogue,
) -> Result<Vec<(&'a str, &'a Metric)>, GoogleError> {
    let mut computed: Vec<(&str, &Metric)> =
        request.metrics.iter().map(String::as_str).zip(selected.metrics.iter().copied()).collect();
    for field in request.metric_filter.iter().flat_map(Filter::fields) {
        if !computed.iter().any(|(name, _)| *name == field) {
            computed.push((field, metric(field, catalogue)?));
        }
    }
    Ok(computed)
}

/// Drops the rows that thresholds, the metric filter and the lack of any value take away.
fn keep_rows(
    grouped: &mut Grouped,
    request: &ReportRequest,
    computed: &[(&str, &Metric)],
    thresholded: bool,
    columns: usize,
) {
    if thresholded {
        grouped.rows.retain(|row| row.users >= MIN_USERS);
    }
    if let Some(filter) = &request.metric_filter {
        grouped.rows.retain(|row| {
            filter.holds(&mut |field, test| {
                let index = computed.iter().position(|(name, _)| *name == field);
                index.is_some_and(|index| test.matches_number(row.values[index]))
            })
        });
    }
    if columns > 0 && !request.keep_empty_rows {
        grouped.rows.retain(|row| row.values[..columns].iter().any(|value| *value != 0.0));
    }
}

/// What a careful reader of the answer must know: each notice is there only when it applies.
fn add_notices(
    metadata: &mut Value,
    property: &Property,
    selected: &Selected<'_>,
    windows: &[Window],
    longest_days: i32,
    thresholded: bool,
) {
    if longest_days > 1 && selected.dimensions.iter().any(|d| property.data.rolls_up(d.api_name)) {
        metadata["dataLossFromOtherRow"] = json!(true);
    }
    if thresholded {
        metadata["subjectToThresholding"] = json!(true);
    }
    if longest_days > 1 && property.kind == Kind::Sampled {
        metadata["samplingMetadatas"] = sampling(windows);
    }
    let restrictions: Vec<Value> = restricted_metrics(property, selected)
        .map(|(name, sensitive)| json!({"metricName": name, "restrictedMetricTypes": [sensitive.data()]}))
        .collect();
    if !restrictions.is_empty() {
        metadata["schemaRestrictionResponse"] = json!({"activeMetricRestrictions": restrictions});
    }
}

fn restricted_metrics<'a>(
    property: &Property,
    selected: &'a Selected<'_>,
) -> impl Iterator<Item = (&'a str, Sensitive)> {
    let restricted = property.kind == Kind::RevenueRestricted;
    let metrics = selected.metrics.iter().filter(move |_| restricted);
    metrics.filter_map(|metric| Some((metric.api_name.as_str(), metric.sensitive()?)))
}

/// Restricted metrics report zeros, but a metric filter on one fails.
fn check_restriction(property: &Property, request: &ReportRequest, catalogue: &Catalogue) -> Result<(), GoogleError> {
    if property.kind != Kind::RevenueRestricted {
        return Ok(());
    }
    for field in request.metric_filter.iter().flat_map(Filter::fields) {
        if metric(field, catalogue)?.sensitive().is_some() {
            return Err(GoogleError::invalid(format!(
                "The metric {field} is restricted for this user and can't be used in a metric filter."
            )));
        }
    }
    Ok(())
}

fn withhold_money(grouped: &mut Grouped, metrics: &[&Metric]) {
    for (index, metric) in metrics.iter().enumerate() {
        if metric.sensitive().is_some() {
            for row in &mut grouped.rows {
                row.values[index] = 0.0;
            }
            for total in &mut grouped.totals {
                total[index] = 0.0;
            }
        }
    }
}

fn uses_demographics(request: &ReportRequest) -> bool {
    let demographic = |field: &str| matches!(field, "userAgeBracket" | "userGender");
    request.dimensions.iter().any(|d| demographic(d))
        || request.dimension_filter.iter().flat_map(Filter::fields).any(demographic)
}

fn is_thresholded(property: &Property, request: &ReportRequest, canonical: &dyn Fn(&str) -> String) -> bool {
    let time_only = request.dimensions.iter().all(|d| matches!(canonical(d).as_str(), "date" | "yearMonth" | "year"));
    uses_demographics(request) || (property.kind == Kind::Thresholded && !time_only)
}

/// About two fifths of the events were read.
fn sampling(windows: &[Window]) -> Value {
    windows
        .iter()
        .map(|window| {
            let space = window.events.len() as u64 * 1_000;
            json!({
                "samplesReadCount": (space * 413 / 1000).to_string(),
                "samplingSpaceSize": space.to_string(),
            })
        })
        .collect()
}

/// 1 for a short report, 4 for 9 x 10 fields, 7 for a year; large pages cost more.
fn tokens(days: i32, request: &ReportRequest, rows: usize) -> u64 {
    let days = u64::try_from(days.max(0)).unwrap_or(0);
    let fields = request.dimensions.len() * request.metrics.len();
    1 + days / 60 + fields as u64 / 30 + rows as u64 / 25_000
}

/// Header objects; the `dateRange` column comes last, and only with several ranges.
pub(crate) fn headers(request: &ReportRequest, selected: &Selected<'_>, several_ranges: bool) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut dimensions: Vec<Value> = request.dimensions.iter().map(|name| json!({"name": name})).collect();
    if several_ranges {
        dimensions.push(json!({"name": "dateRange"}));
    }
    if !dimensions.is_empty() {
        fields.insert("dimensionHeaders".into(), Value::Array(dimensions));
    }
    if !request.metrics.is_empty() {
        let metrics = request
            .metrics
            .iter()
            .zip(&selected.metrics)
            .map(|(name, metric)| json!({"name": name, "type": metric.kind}))
            .collect();
        fields.insert("metricHeaders".into(), metrics);
    }
    fields
}

/// A cell: an empty string is the proto default and disappears.
pub(crate) fn cell(text: &str) -> Value {
    if text.is_empty() { json!({}) } else { json!({"value": text}) }
}

fn row_json(grouped: &Grouped, row: &Row, request: &ReportRequest, columns: usize) -> Value {
    let mut dimensions: Vec<Value> =
        (0..request.dimensions.len()).map(|index| cell(&grouped.text(row, index))).collect();
    if grouped.totals.len() > 1 {
        dimensions.push(cell(grouped.window_name(row)));
    }
    row_of(dimensions, &row.values[..columns])
}

fn row_of(dimensions: Vec<Value>, values: &[f64]) -> Value {
    let mut row = Map::new();
    if !dimensions.is_empty() {
        row.insert("dimensionValues".into(), Value::Array(dimensions));
    }
    if !values.is_empty() {
        let values = values.iter().map(|v| cell(&number::format(*v))).collect();
        row.insert("metricValues".into(), values);
    }
    Value::Object(row)
}

/// TOTAL, MAXIMUM and MINIMUM rows, one for each date range.
///
/// TOTAL is over everything the dimension filter lets through: withheld rows are in it, and so are rows that the metric
/// filter drops (whether Google does the same with a metric filter isn't documented).
fn aggregate(fields: &mut Map<String, Value>, grouped: &Grouped, request: &ReportRequest, columns: usize) {
    let several = grouped.totals.len() > 1;
    let rows = |label: &str, values: &dyn Fn(usize) -> Vec<f64>| -> Value {
        (0..grouped.totals.len())
            .map(|window| {
                let mut dimensions: Vec<Value> = request.dimensions.iter().map(|_| cell(label)).collect();
                if several {
                    dimensions.push(cell(grouped.range_name(window)));
                }
                row_of(dimensions, &values(window)[..columns])
            })
            .collect()
    };
    let extreme = |window: usize, better: fn(f64, f64) -> f64| -> Vec<f64> {
        (0..columns)
            .map(|column| {
                grouped
                    .rows
                    .iter()
                    .filter(|row| row.window == window)
                    .map(|row| row.values[column])
                    .reduce(better)
                    .unwrap_or(0.0)
            })
            .collect()
    };
    for (aggregation, key) in
        [(Aggregation::Total, "totals"), (Aggregation::Maximum, "maximums"), (Aggregation::Minimum, "minimums")]
    {
        if !request.aggregations.contains(&aggregation) {
            continue;
        }
        let value = match aggregation {
            Aggregation::Total => rows("RESERVED_TOTAL", &|window| grouped.totals[window].clone()),
            Aggregation::Maximum => rows("RESERVED_MAX", &|window| extreme(window, f64::max)),
            Aggregation::Minimum => rows("RESERVED_MIN", &|window| extreme(window, f64::min)),
        };
        fields.insert(key.into(), value);
    }
}

/// Indices of the rows in the order of the answer.
///
/// Without orders: the first metric, descending. Google leaves the order of ties open, and rows can repeat or vanish
/// between pages because of it; so ties here are shuffled by the offset, unless the orders settle every dimension.
fn sort_order(grouped: &Grouped, request: &ReportRequest) -> Vec<usize> {
    let default = request.metrics.first().map(|name| OrderBy { key: OrderKey::Metric(name.clone()), desc: true });
    let orders: Vec<&OrderBy> =
        if request.order_bys.is_empty() { default.iter().collect() } else { request.order_bys.iter().collect() };
    let keyed: Vec<(Vec<SortValue>, u64)> = grouped
        .rows
        .iter()
        .map(|row| {
            let keys = orders.iter().map(|order| sort_value(grouped, row, request, &order.key)).collect();
            let tie = row
                .codes
                .iter()
                .fold(mix(request.offset, row.window as u64), |hash, code| mix(hash, u64::from(*code) + 1));
            (keys, tie)
        })
        .collect();
    let mut indices: Vec<usize> = (0..grouped.rows.len()).collect();
    indices.sort_by(|a, b| {
        let (left, right) = (&keyed[*a], &keyed[*b]);
        for ((x, y), order) in left.0.iter().zip(&right.0).zip(&orders) {
            let ordering = x.compare(y);
            let ordering = if order.desc { ordering.reverse() } else { ordering };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        left.1.cmp(&right.1)
    });
    indices
}

enum SortValue {
    Text(String),
    Number(f64),
}

impl SortValue {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            _ => Ordering::Equal,
        }
    }
}

fn sort_value(grouped: &Grouped, row: &Row, request: &ReportRequest, key: &OrderKey) -> SortValue {
    let dimension = |name: &String| match request.dimensions.iter().position(|d| d == name) {
        Some(index) => grouped.text(row, index),
        None => grouped.window_name(row).to_owned(),
    };
    match key {
        OrderKey::Metric(name) => {
            let index = request.metrics.iter().position(|m| m == name);
            SortValue::Number(index.map_or(0.0, |index| row.values[index]))
        }
        OrderKey::Alphanumeric(name) => SortValue::Text(dimension(name)),
        OrderKey::CaseInsensitive(name) => SortValue::Text(dimension(name).to_lowercase()),
        // What isn't a number sorts before all numbers.
        OrderKey::Numeric(name) => SortValue::Number(dimension(name).parse().unwrap_or(f64::NEG_INFINITY)),
    }
}
