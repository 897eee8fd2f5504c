//! What reports have in common before they are asked for: names, filters, order and dates, checked against the
//! property; and what is said of all of them afterwards.

use acp_core::{Call, Cell, DateWindow, Error, Result};
use acp_protocol::JsonObject;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::amount::{self, ControlSum};
use crate::api::{Ga4, Property, ReportEnd, ReportMetadata};
use crate::fields::{Fields, Kind, shown};
use crate::filters::{Condition, DimensionFilter};
use crate::report::{Row, other_columns};
use crate::warnings;

/// The first day that Analytics can have data for, by Google's own bound.
const FIRST_DAY: Date = jiff::civil::date(2015, 8, 14);
/// Dimensions and metrics that a report can have.
const COLUMNS_MAX: usize = 9 + 10;
/// Characters of the description: a filter can hold thousands of values.
const DESCRIPTION_MAX: usize = 2_000;
const DEFAULT_WINDOW: (&str, &str) = ("28daysAgo", "yesterday");

/// One key of the order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderBy {
    /// A column of the report.
    pub(crate) field: String,
    /// Largest first. Default: true for metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) desc: Option<bool>,
}

/// What checking a question found: all that keeps it from being asked, and what was understood in another way.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Error>,
    pub(crate) notes: Vec<String>,
}

impl Findings {
    /// The value, if there is one; its error is a problem.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// Warns of what was found, and fails with the first problem.
    pub(crate) fn settle(self, call: &Call) -> Result<()> {
        self.notes.into_iter().for_each(|note| call.warn(note));
        self.problems.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Brings one name into Google's spelling.
pub(crate) fn resolve(fields: &Fields, kind: Kind, name: &mut String, findings: &mut Findings) {
    if let Some(resolved) = findings.keep(fields.resolve(kind, name)) {
        findings.notes.extend(resolved.warning);
        *name = resolved.name;
    }
}

/// Brings the names of columns into Google's spelling. None may come twice.
pub(crate) fn resolve_all(fields: &Fields, kind: Kind, names: &mut [String], findings: &mut Findings) {
    names.iter_mut().for_each(|name| resolve(fields, kind, name, findings));
    if let Some((place, twice)) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)) {
        findings.problems.push(Error::invalid_arguments(format!(
            "{} is asked for twice (entry {}). Ask for each field once.",
            shown(twice),
            place + 1
        )));
    }
}

/// Brings the fields of conditions into Google's spelling.
pub(crate) fn resolve_filters<C: Condition>(fields: &Fields, filters: &mut [C], findings: &mut Findings) {
    for filter in filters {
        let mut name = filter.field().to_owned();
        resolve(fields, C::KIND, &mut name, findings);
        filter.set_field(name);
        let changed = filter.respell();
        let note = |(from, to): (String, String)| {
            format!("'{}' in the filter on {} read as '{to}'.", shown(&from), filter.field())
        };
        findings.notes.extend(changed.into_iter().map(note));
    }
}

/// Brings the keys of an order into the spelling of the columns. Google orders only by columns.
pub(crate) fn resolve_order(
    fields: &Fields,
    order_by: &mut [OrderBy],
    metrics: &[String],
    dimensions: &[String],
    findings: &mut Findings,
) {
    for place in 0..order_by.len() {
        let (before, order) = order_by.split_at_mut(place);
        let order = &mut order[0];
        let columns = || metrics.iter().chain(dimensions);
        if !columns().any(|name| *name == order.field) {
            let kinds = [(Kind::Metric, metrics), (Kind::Dimension, dimensions)];
            let column = kinds.into_iter().find_map(|(kind, columns)| {
                fields.resolve(kind, &order.field).ok().filter(|resolved| columns.contains(&resolved.name))
            });
            let Some(column) = column else {
                findings.problems.push(Error::invalid_arguments(format!(
                    "order_by names {:?}, which is not a column of this report. Order by one of: {}.",
                    shown(&order.field),
                    columns().cloned().collect::<Vec<_>>().join(", ")
                )));
                continue;
            };
            findings.notes.extend(column.warning);
            order.field = column.name;
        }
        if before.iter().any(|known| known.field == order.field) {
            findings.problems.push(Error::invalid_arguments(format!(
                "order_by names {} twice. Name each column once.",
                order.field
            )));
        }
    }
}

/// Says which metrics these credentials may not see.
pub(crate) fn note_blocked<'a>(fields: &Fields, metrics: impl Iterator<Item = &'a String>, findings: &mut Findings) {
    for name in metrics {
        let reasons = fields.get(Kind::Metric, name).map(|field| field.blocked_reasons.as_slice()).unwrap_or_default();
        findings.notes.extend(warnings::of_blocked_metric(name, reasons));
    }
}

/// Brings a currency into Google's form.
pub(crate) fn check_currency(code: &mut Option<String>) -> Result<()> {
    let Some(code) = code else { return Ok(()) };
    code.make_ascii_uppercase();
    match code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase()) {
        true => Ok(()),
        false => Err(Error::invalid_arguments("currency_code must be three letters of ISO 4217, such as EUR.")),
    }
}

/// Resolves the window in the property's time zone and puts the days into the arguments.
pub(crate) async fn resolve_dates(
    start: &mut Option<String>,
    end: &mut Option<String>,
    ga4: &Ga4,
    property: &Property,
    call: &Call,
) -> Result<DateWindow> {
    let absolute = |date: &Option<String>| {
        date.as_deref()
            .is_some_and(|date| date.starts_with(|mark: char| mark.is_ascii_digit()) && !date.ends_with("Ago"))
    };
    let zone = match absolute(start) && absolute(end) {
        true => TimeZone::UTC,
        false => ga4.time_zone(property).await?,
    };
    let window = DateWindow::resolve(start.as_deref(), end.as_deref(), DEFAULT_WINDOW, call.clock().today(&zone))?;
    if window.start < FIRST_DAY || window.end.year() >= 3000 {
        return Err(Error::invalid_arguments(format!(
            "Dates must be between {FIRST_DAY} and 2999-12-31. Use a later start_date."
        )));
    }
    *start = Some(window.start.to_string());
    *end = Some(window.end.to_string());
    Ok(window)
}

/// The date range of a request.
pub(crate) fn date_range(window: DateWindow) -> Value {
    json!({"startDate": window.start.to_string(), "endDate": window.end.to_string()})
}

/// Fields as requests list them.
pub(crate) fn named(names: &[String]) -> Vec<Value> {
    names.iter().map(|name| json!({"name": name})).collect()
}

/// The order that was asked for, or Google's usual one, and every dimension after it: rows that are equal in the
/// given keys would otherwise change places between pages, so that some come twice and others never.
pub(crate) fn order(order_by: &[OrderBy], metrics: &[String], dimensions: &[String]) -> Vec<Value> {
    let by_metric = |name: &str, desc: bool| json!({"metric": {"metricName": name}, "desc": desc});
    let by_dimension = |name: &str, desc: bool| json!({"dimension": {"dimensionName": name, "orderType": "ALPHANUMERIC"}, "desc": desc});
    let mut order: Vec<Value> = order_by
        .iter()
        .map(|key| match metrics.contains(&key.field) {
            true => by_metric(&key.field, key.desc.unwrap_or(true)),
            false => by_dimension(&key.field, key.desc.unwrap_or(false)),
        })
        .collect();
    if order.is_empty() {
        order.extend(metrics.first().map(|name| by_metric(name, true)));
    }
    let used = |name: &String| order_by.iter().any(|key| key.field == *name);
    order.extend(dimensions.iter().filter(|name| !used(name)).map(|name| by_dimension(name, false)));
    order
}

/// A row of a report as cells, without copying its texts. Values are told apart by their place alone.
pub(crate) fn with_cells(
    row: &Row<'_>,
    dimensions: usize,
    metrics: usize,
    push: impl FnOnce(&[Cell<'_>]) -> Result<()>,
) -> Result<()> {
    if row.dimension_values.len() != dimensions || row.metric_values.len() != metrics {
        return Err(other_columns());
    }
    let mut cells = [Cell::Null; COLUMNS_MAX];
    for (cell, value) in cells.iter_mut().zip(row.dimension_values.iter().chain(&row.metric_values)) {
        *cell = Cell::Text(&value.value);
    }
    push(&cells[..dimensions + metrics])
}

/// Says what Google said about a report, and that today is not over.
pub(crate) fn warn(metadata: &ReportMetadata, window: DateWindow, call: &Call) {
    warn_of_range(metadata, window, None, call);
}

/// As [`warn`], about one of several ranges.
pub(crate) fn warn_of_range(metadata: &ReportMetadata, window: DateWindow, range: Option<&str>, call: &Call) {
    let warnings = warnings::of_report(metadata);
    warnings.into_iter().for_each(|warning| call.warn(of_range(range, warning)));
    if let Ok(zone) = TimeZone::get(&metadata.time_zone) {
        warn_today(&zone, window, call);
    }
}

fn of_range(range: Option<&str>, warning: String) -> String {
    match range {
        Some(range) => format!("Range {range}: {warning}"),
        None => warning,
    }
}

/// Says that the rows do not add up to the total, where nothing that Google says explains it.
pub(crate) fn warn_gap(control: &ControlSum, end: &ReportEnd, range: Option<&str>, call: &Call) {
    let metadata = &end.metadata;
    if metadata.subject_to_thresholding || metadata.data_loss_from_other_row || !metadata.sampling_metadatas.is_empty()
    {
        return;
    }
    let totals: Vec<&str> = end
        .totals
        .first()
        .into_iter()
        .flat_map(|totals| &totals.metric_values)
        .map(|total| total.value.as_str())
        .collect();
    if let Some((name, sum, total)) = control.gap(&totals) {
        let (sum, total) = (amount::digits(sum), amount::digits(total));
        call.warn(of_range(range, format!(
            "The rows add up to {sum} {name} and Google's total is {total}: either rows are missing without a word from Google, or events \
             are in several rows. Trust the total."
        )));
    }
}

/// Says of metrics that are 0 in all of a report what Google would need to count them. Who may not see them was told that already.
pub(crate) fn warn_zeros<'a>(fields: &Fields, totals: impl Iterator<Item = (&'a String, &'a String)>, call: &Call) {
    let is_seen = |name: &str| fields.get(Kind::Metric, name).is_some_and(|field| field.blocked_reasons.is_empty());
    let zero = totals.filter(|(name, total)| total.parse() == Ok(0.0) && is_seen(name));
    zero.filter_map(|(name, _)| warnings::of_zero_metric(name)).for_each(|sentence| call.warn(sentence));
}

/// Days of the youngest data that may be gone: Google keeps single events for two months at least.
const KEPT_DAYS: i64 = 60;

/// Says that a range begins before the property has data. Only old ranges are worth the question, and what the Admin API does not
/// tell is not said.
pub(crate) async fn warn_age(ga4: &Ga4, property: &Property, window: DateWindow, call: &Call) {
    let old = call.today().checked_sub(jiff::Span::new().days(KEPT_DAYS)).is_ok_and(|day| window.start < day);
    if !old {
        return;
    }
    let Ok(calendar) = ga4.calendar(property).await else { return };
    if let Some(created) = calendar.created.filter(|created| window.start < *created) {
        call.warn(format!(
            "The range begins on {}, but the property was made on {created}: there is nothing before.",
            window.start
        ));
        return;
    }
    let Some(months) = property.retention_months().await else { return };
    let today = call.clock().today(&calendar.zone);
    if let Some(kept) = today.checked_sub(jiff::Span::new().months(months)).ok().filter(|kept| window.start < *kept) {
        call.warn(format!(
            "The range begins on {}, but the property keeps single events for {months} months, since {kept}: what Google has not added up \
             in advance may be missing before.",
            window.start
        ));
    }
}

/// The first day whose figures may still change, if it is in a range: Google processes data for two days.
pub(crate) fn moving_from(metadata: &ReportMetadata, window: DateWindow, call: &Call) -> Option<Date> {
    let today = call.clock().today(&TimeZone::get(&metadata.time_zone).ok()?);
    let first = today.checked_sub(jiff::Span::new().days(2)).ok()?;
    (window.start <= today && window.end >= first).then(|| first.max(window.start))
}

/// Says that a limit cut a report of so many rows.
pub(crate) fn warn_cut(limit: Option<u64>, rows: u64, call: &Call) {
    if let Some(limit) = limit.filter(|limit| *limit < rows) {
        call.warn(format!(
            "limit cut the report: Google has {rows} rows, {limit} were extracted; totals are over all of them."
        ));
    }
}

/// Says that today, in the property's zone, is not over, or that a range has not begun.
pub(crate) fn warn_today(zone: &TimeZone, window: DateWindow, call: &Call) {
    of_today(call.clock().today(zone), window).into_iter().for_each(|sentence| call.warn(sentence));
}

/// What today means for a range, if anything.
pub(crate) fn of_today(today: Date, window: DateWindow) -> Option<String> {
    if window.start > today {
        return Some(format!("The range begins after today, which is {today}: there can be no data yet."));
    }
    (window.end >= today).then(|| "The range includes today, whose figures are not complete yet.".to_owned())
}

/// Says why there may be no rows, where filters may have taken them all.
pub(crate) fn warn_nothing_left(rows: u64, filters: &[DimensionFilter], call: &Call) {
    let mut fields: Vec<String> = filters.iter().map(|filter| shown(&filter.field)).collect();
    fields.dedup();
    if rows == 0 && !fields.is_empty() {
        call.warn(format!(
            "No row passes the filters. Values must be written as Google has them: ask for {} without the filter to see them, or use CONTAINS.",
            fields.join(", ")
        ));
    }
}

/// How a table came about: the property, what was asked of it, and in which zone and currency.
pub(crate) fn describe(property: &Property, parts: &[(&str, String)], metadata: &ReportMetadata) -> String {
    let mut sentences = vec![format!("GA4 property {}", property.id)];
    let zone_and_currency = [("Time zone", metadata.time_zone.clone()), ("Currency", metadata.currency_code.clone())];
    let parts = parts.iter().chain(&zone_and_currency).filter(|(_, text)| !text.is_empty());
    sentences.extend(parts.map(|(title, text)| format!("{title}: {text}")));
    acp_google::clean(&(sentences.join(". ") + "."), DESCRIPTION_MAX)
}

/// Filters as the description shows them.
pub(crate) fn shown_filters<'a>(argument: &str, filters: &[impl Serialize]) -> (&'a str, String) {
    ("Filter", if filters.is_empty() { String::new() } else { format!("{argument} {}", json!(filters)) })
}

/// The quota of the answer after which least was left: answers to requests made at once come in any order.
pub(crate) fn least_quota<'a>(reports: impl IntoIterator<Item = &'a ReportEnd>) -> Option<Value> {
    let quotas = reports.into_iter().filter_map(|report| report.property_quota.as_ref());
    quotas.min_by_key(|quota| quota["tokensPerHour"]["remaining"].as_u64().unwrap_or(u64::MAX)).cloned()
}

/// Where a table came from, for the host.
pub(crate) fn source(property: &Property, api: &str, quota: &Option<Value>) -> JsonObject {
    let source = json!({"property": format!("properties/{}", property.id), "api": api, "property_quota": quota});
    source.as_object().cloned().unwrap_or_default()
}

/// The tokens that a request cost, and those that are left for the project and hour.
pub(crate) fn spent(report: &ReportEnd) -> Option<(u64, u64)> {
    let hour = report.property_quota.as_ref()?.get("tokensPerProjectPerHour")?;
    Some((hour.get("consumed")?.as_u64()?, hour.get("remaining")?.as_u64()?))
}

/// Refuses to begin what the quota would break off in the middle.
pub(crate) fn check_quota(first: &ReportEnd, more: usize) -> Result<()> {
    match spent(first) {
        Some((each, left)) if each.saturating_mul(more as u64) > left => Err(Error::upstream(format!(
            "This needs {more} more requests of about {each} tokens, and Google leaves this project {left} tokens for the property and \
             hour. Ask for less (fewer clusters, metrics, ranges or days; mode rows; split never), or wait for the next hour."
        ))),
        _ => Ok(()),
    }
}
