//! `run_report`: any report of the Data API, complete and typed.

use acp_core::{Call, Cell, DateWindow, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_protocol::JsonObject;
use acp_protocol::result::Header;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{Ga4, Property, ReportEnd, ReportRequest};
use crate::fields::{Fields, Kind, shown};
use crate::filters::{Condition, DimensionFilter, MetricFilter, tree};
use crate::report::{Row, extract};
use crate::warnings;

/// The first day that Analytics can have data for, by Google's own bound.
const FIRST_DAY: Date = jiff::civil::date(2015, 8, 14);
/// Dimensions and metrics that a report can have.
const COLUMNS_MAX: usize = 9 + 10;
/// Characters of the description: a filter can hold thousands of values.
const DESCRIPTION_MAX: usize = 2_000;
const DEFAULT_WINDOW: (&str, &str) = ("28daysAgo", "yesterday");

/// Extracts a GA4 report, all rows. totals are Google's, over all rows; never add up users, rates or averages.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunReport {
    /// Metrics, such as sessions, totalUsers, keyEvents:purchase.
    #[serde(default)]
    #[schemars(length(max = 10))]
    metrics: Vec<String>,
    /// Dimensions, such as date, sessionDefaultChannelGroup, customEvent:plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 9))]
    dimensions: Vec<String>,
    /// First day: YYYY-MM-DD, NdaysAgo, yesterday or today. Default 28daysAgo.
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    /// Last day, included. Default yesterday.
    #[schemars(extend("x-acp-date" = "end"))]
    end_date: Option<String>,
    /// Conditions that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dimension_filters: Vec<DimensionFilter>,
    /// Conditions on finished rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    metric_filters: Vec<MetricFilter>,
    /// Default: first metric, largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    order_by: Vec<OrderBy>,
    /// Most rows. Default: all.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// Keep rows whose metrics are all 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keep_empty_rows: bool,
    /// Currency, such as EUR. Default: the property's.
    currency_code: Option<String>,
}

/// One key of the order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OrderBy {
    /// A column of the report.
    field: String,
    /// Largest first. Default: true for metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    desc: Option<bool>,
}

impl Tool for RunReport {
    type Source = Ga4;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "run_report",
        title: "Run a GA4 report",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, ga4: &Ga4, call: &Call) -> Result<Extraction> {
        self.check_alone()?;
        let property = ga4.property(call)?;
        let fields = ga4.fields(&property).await?;
        self.resolve_names(&fields, call)?;
        let window = self.resolve_dates(ga4, &property, call).await?;
        call.set_arguments(&self);
        let request = self.request(window)?;

        let headers: Vec<Header> = self
            .dimensions
            .iter()
            .map(|name| fields.header(Kind::Dimension, name))
            .chain(self.metrics.iter().map(|name| fields.header(Kind::Metric, name)))
            .collect();
        let mut table = call.table(headers)?;
        let push = |row: &Row<'_>| self.push(&mut table, row);
        let progress = |read: u64, known: Option<u64>| {
            let total = known.map(|known| self.limit.map_or(known, |limit| limit.min(known)));
            call.progress(read, total, format!("{read} rows read"));
        };
        let end = extract(&property, &request, self.limit, push, progress).await?;
        self.set_totals(&mut table, &end, call)?;
        self.warn(&end, window, call);
        Ok(self.answer(table, &property, &end, window))
    }
}

impl RunReport {
    /// What is wrong whatever the property has.
    fn check_alone(&mut self) -> Result<()> {
        if self.metrics.is_empty() && self.dimensions.is_empty() {
            return Err(Error::invalid_arguments("Give at least one metric, such as metrics: [\"sessions\"]."));
        }
        if let Some(code) = &mut self.currency_code {
            code.make_ascii_uppercase();
            if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_uppercase()) {
                return Err(Error::invalid_arguments("currency_code must be three letters of ISO 4217, such as EUR."));
            }
        }
        // Patterns and values are checked before anything is asked of Google.
        tree(&self.dimension_filters)?;
        tree(&self.metric_filters)?;
        Ok(())
    }

    fn resolve_names(&mut self, fields: &Fields, call: &Call) -> Result<()> {
        let resolve = |kind: Kind, name: &mut String| -> Result<()> {
            let resolved = fields.resolve(kind, name)?;
            if let Some(warning) = resolved.warning {
                call.warn(warning);
            }
            *name = resolved.name;
            Ok(())
        };
        self.metrics.iter_mut().try_for_each(|name| resolve(Kind::Metric, name))?;
        self.dimensions.iter_mut().try_for_each(|name| resolve(Kind::Dimension, name))?;
        resolve_filters(&mut self.dimension_filters, &resolve)?;
        resolve_filters(&mut self.metric_filters, &resolve)?;
        for names in [&self.metrics, &self.dimensions] {
            if let Some((place, twice)) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name))
            {
                return Err(Error::invalid_arguments(format!(
                    "{twice} is asked for twice (entry {}). Ask for each field once.",
                    place + 1
                )));
            }
        }
        for place in 0..self.order_by.len() {
            let (before, order) = self.order_by.split_at_mut(place);
            let order = &mut order[0];
            order.field = self
                .metrics
                .iter()
                .chain(&self.dimensions)
                .find(|name| **name == order.field)
                .cloned()
                .map_or_else(|| column_of(fields, &order.field, &self.metrics, &self.dimensions, call), Ok)?;
            if before.iter().any(|known| known.field == order.field) {
                return Err(Error::invalid_arguments(format!(
                    "order_by names {} twice. Name each column once.",
                    order.field
                )));
            }
        }
        for name in self.metrics.iter().chain(self.metric_filters.iter().map(|filter| &filter.field)) {
            let reasons =
                fields.get(Kind::Metric, name).map(|field| field.blocked_reasons.as_slice()).unwrap_or_default();
            if let Some(warning) = warnings::of_blocked_metric(name, reasons) {
                call.warn(warning);
            }
        }
        Ok(())
    }

    /// Resolves the window in the property's time zone and puts the days into the arguments.
    async fn resolve_dates(&mut self, ga4: &Ga4, property: &Property, call: &Call) -> Result<DateWindow> {
        let absolute = |date: &Option<String>| {
            date.as_deref()
                .is_some_and(|date| date.starts_with(|mark: char| mark.is_ascii_digit()) && !date.ends_with("Ago"))
        };
        let zone = match absolute(&self.start_date) && absolute(&self.end_date) {
            true => TimeZone::UTC,
            false => ga4.time_zone(property).await?,
        };
        let today = call.clock().today(&zone);
        let window = DateWindow::resolve(self.start_date.as_deref(), self.end_date.as_deref(), DEFAULT_WINDOW, today)?;
        if window.start < FIRST_DAY || window.end.year() >= 3000 {
            return Err(Error::invalid_arguments(format!(
                "Dates must be between {FIRST_DAY} and 2999-12-31. Use a later start_date."
            )));
        }
        self.start_date = Some(window.start.to_string());
        self.end_date = Some(window.end.to_string());
        Ok(window)
    }

    fn request(&self, window: DateWindow) -> Result<ReportRequest> {
        let named = |names: &[String]| names.iter().map(|name| json!({"name": name})).collect();
        Ok(ReportRequest {
            dimensions: named(&self.dimensions),
            metrics: named(&self.metrics),
            date_ranges: vec![json!({"startDate": window.start.to_string(), "endDate": window.end.to_string()})],
            dimension_filter: tree(&self.dimension_filters)?,
            metric_filter: tree(&self.metric_filters)?,
            order_bys: self.order(),
            metric_aggregations: if self.metrics.is_empty() { Vec::new() } else { vec!["TOTAL"] },
            keep_empty_rows: self.keep_empty_rows,
            currency_code: self.currency_code.clone(),
            offset: None,
            limit: None,
            return_property_quota: true,
        })
    }

    /// The order that was asked for, or Google's usual one, and every dimension after it: rows that are equal in the
    /// given keys would otherwise change places between pages, so that some come twice and others never.
    fn order(&self) -> Vec<Value> {
        let by_metric = |name: &str, desc: bool| json!({"metric": {"metricName": name}, "desc": desc});
        let by_dimension = |name: &str, desc: bool| json!({"dimension": {"dimensionName": name, "orderType": "ALPHANUMERIC"}, "desc": desc});
        let mut order: Vec<Value> = self
            .order_by
            .iter()
            .map(|key| match self.metrics.contains(&key.field) {
                true => by_metric(&key.field, key.desc.unwrap_or(true)),
                false => by_dimension(&key.field, key.desc.unwrap_or(false)),
            })
            .collect();
        if order.is_empty() {
            order.extend(self.metrics.first().map(|name| by_metric(name, true)));
        }
        let used = |name: &String| self.order_by.iter().any(|key| key.field == *name);
        order.extend(self.dimensions.iter().filter(|name| !used(name)).map(|name| by_dimension(name, false)));
        order
    }

    /// Copies a row into the table without copying its texts.
    fn push(&self, table: &mut TableWriter, row: &Row<'_>) -> Result<()> {
        let (dimensions, metrics) = (row.dimension_values.as_slice(), row.metric_values.as_slice());
        if dimensions.len() != self.dimensions.len() || metrics.len() != self.metrics.len() {
            return Err(Error::upstream(
                "A row of Google's report does not have the columns that were asked for. Run it again.",
            ));
        }
        let mut cells = [Cell::Null; COLUMNS_MAX];
        for (cell, value) in cells.iter_mut().zip(dimensions.iter().chain(metrics)) {
            *cell = Cell::Text(&value.value);
        }
        table.push(&cells[..dimensions.len() + metrics.len()])
    }

    fn set_totals(&self, table: &mut TableWriter, end: &ReportEnd, call: &Call) -> Result<()> {
        let Some(totals) = end.totals.first().filter(|_| !self.metrics.is_empty()) else { return Ok(()) };
        if totals.metric_values.len() != self.metrics.len() {
            return Err(Error::upstream("Google's totals do not match the metrics of the report. Run it again."));
        }
        let cells = self
            .metrics
            .iter()
            .zip(&totals.metric_values)
            .map(|(name, total)| (name.as_str(), Cell::Text(&total.value)));
        table.set_totals(cells)?;
        if !self.metric_filters.is_empty() {
            call.warn("totals may count rows that metric_filters removed: Google does not say whether they do.");
        }
        Ok(())
    }

    fn warn(&self, end: &ReportEnd, window: DateWindow, call: &Call) {
        for warning in warnings::of_report(&end.metadata) {
            call.warn(warning);
        }
        if let Some(limit) = self.limit.filter(|limit| *limit < end.row_count) {
            call.warn(format!(
                "limit cut the report: Google has {} rows, {limit} were extracted; totals are over all of them.",
                end.row_count
            ));
        }
        if let Ok(zone) = TimeZone::get(&end.metadata.time_zone)
            && (window.start..=window.end).contains(&call.clock().today(&zone))
        {
            call.warn("The range includes today, whose figures are not complete yet.");
        }
    }

    fn answer(&self, table: TableWriter, property: &Property, end: &ReportEnd, window: DateWindow) -> Extraction {
        let id = &property.id;
        let source = json!({
            "property": format!("properties/{id}"),
            "api": "analyticsdata.v1beta.runReport",
            "property_quota": end.property_quota,
            "row_count": end.row_count,
        });
        let extra = json!({
            "quota": end.property_quota,
            "time_zone": end.metadata.time_zone,
            "currency": end.metadata.currency_code,
        });
        Extraction::new(table, self.description(id, end))
            .title(format!("GA4 {id} · {}→{}", window.start, window.end))
            .dates([window.start, window.end])
            .extra(extra)
            .source(source.as_object().cloned().unwrap_or_else(JsonObject::new))
    }

    fn description(&self, id: &str, end: &ReportEnd) -> String {
        let mut sentences = vec![format!("GA4 property {id}")];
        for (title, names) in [("Metrics", &self.metrics), ("Dimensions", &self.dimensions)] {
            if !names.is_empty() {
                sentences.push(format!("{title}: {}", names.join(", ")));
            }
        }
        for (name, filters) in
            [("dimension_filters", json!(self.dimension_filters)), ("metric_filters", json!(self.metric_filters))]
        {
            if filters.as_array().is_some_and(|filters| !filters.is_empty()) {
                sentences.push(format!("Filter: {name} {filters}"));
            }
        }
        if !end.metadata.time_zone.is_empty() {
            sentences.push(format!("Time zone: {}", end.metadata.time_zone));
        }
        if !end.metadata.currency_code.is_empty() {
            sentences.push(format!("Currency: {}", end.metadata.currency_code));
        }
        acp_google::clean(&(sentences.join(". ") + "."), DESCRIPTION_MAX)
    }
}

fn resolve_filters<C: Condition>(filters: &mut [C], resolve: &impl Fn(Kind, &mut String) -> Result<()>) -> Result<()> {
    filters.iter_mut().try_for_each(|filter| {
        let mut name = filter.field().to_owned();
        resolve(C::KIND, &mut name)?;
        filter.set_field(name);
        Ok(())
    })
}

/// The column that an order key means. Google orders only by columns.
fn column_of(fields: &Fields, name: &str, metrics: &[String], dimensions: &[String], call: &Call) -> Result<String> {
    for (kind, columns) in [(Kind::Metric, metrics), (Kind::Dimension, dimensions)] {
        if let Some(resolved) = fields.resolve(kind, name).ok().filter(|resolved| columns.contains(&resolved.name)) {
            if let Some(warning) = resolved.warning {
                call.warn(warning);
            }
            return Ok(resolved.name);
        }
    }
    Err(Error::invalid_arguments(format!(
        "order_by names {:?}, which is not a column of this report. Order by one of: {}.",
        shown(name),
        metrics.iter().chain(dimensions).cloned().collect::<Vec<_>>().join(", ")
    )))
}
