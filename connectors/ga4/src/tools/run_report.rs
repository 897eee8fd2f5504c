//! `run_report`: any report of the Data API, complete and typed.

use acp_core::{Call, Cell, DateWindow, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_protocol::result::Header;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{Ga4, Property, ReportEnd, ReportRequest};
use crate::fields::{Fields, Kind};
use crate::filters::{DimensionFilter, MetricFilter, tree};
use crate::question::{self, Findings, OrderBy};
use crate::report::{Row, extract};

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
        let mut findings = Findings::default();
        self.check_alone(&mut findings);
        findings.settle(call)?;
        let property = ga4.property(call)?;
        let fields = ga4.fields(&property).await?;
        let mut findings = Findings::default();
        self.check_names(&fields, &mut findings);
        findings.settle(call)?;
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
        let push = |row: &Row<'_>| {
            question::with_cells(row, self.dimensions.len(), self.metrics.len(), |cells| table.push(cells))
        };
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
    pub(crate) fn metrics(&self) -> &[String] {
        &self.metrics
    }

    pub(crate) async fn resolve_dates(&mut self, ga4: &Ga4, property: &Property, call: &Call) -> Result<DateWindow> {
        question::resolve_dates(&mut self.start_date, &mut self.end_date, ga4, property, call).await
    }

    /// What is wrong whatever the property has: patterns and values are checked before anything is asked of Google.
    pub(crate) fn check_alone(&mut self, findings: &mut Findings) {
        if self.metrics.is_empty() && self.dimensions.is_empty() {
            findings
                .problems
                .push(Error::invalid_arguments("Give at least one metric, such as metrics: [\"sessions\"]."));
        }
        findings.keep(question::check_currency(&mut self.currency_code));
        findings.keep(tree(&self.dimension_filters));
        findings.keep(tree(&self.metric_filters));
    }

    /// Brings all names into Google's spelling.
    pub(crate) fn check_names(&mut self, fields: &Fields, findings: &mut Findings) {
        question::resolve_all(fields, Kind::Metric, &mut self.metrics, findings);
        question::resolve_all(fields, Kind::Dimension, &mut self.dimensions, findings);
        question::resolve_filters(fields, &mut self.dimension_filters, findings);
        question::resolve_filters(fields, &mut self.metric_filters, findings);
        question::resolve_order(fields, &mut self.order_by, &self.metrics, &self.dimensions, findings);
        let filtered = self.metric_filters.iter().map(|filter| &filter.field);
        question::note_blocked(fields, self.metrics.iter().chain(filtered), findings);
    }

    pub(crate) fn request(&self, window: DateWindow) -> Result<ReportRequest> {
        Ok(ReportRequest {
            dimensions: question::named(&self.dimensions),
            metrics: question::named(&self.metrics),
            date_ranges: vec![question::date_range(window)],
            dimension_filter: tree(&self.dimension_filters)?,
            metric_filter: tree(&self.metric_filters)?,
            order_bys: question::order(&self.order_by, &self.metrics, &self.dimensions),
            metric_aggregations: if self.metrics.is_empty() { Vec::new() } else { vec!["TOTAL"] },
            keep_empty_rows: self.keep_empty_rows,
            currency_code: self.currency_code.clone(),
            return_property_quota: true,
            ..ReportRequest::default()
        })
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
        question::warn(&end.metadata, window, call);
        question::warn_cut(self.limit, end.row_count, call);
    }

    fn answer(&self, table: TableWriter, property: &Property, end: &ReportEnd, window: DateWindow) -> Extraction {
        let mut source = question::source(property, "analyticsdata.v1beta.runReport", &end.property_quota);
        source.insert("row_count".to_owned(), json!(end.row_count));
        let extra = json!({
            "quota": end.property_quota,
            "time_zone": end.metadata.time_zone,
            "currency": end.metadata.currency_code,
        });
        let parts = [
            ("Metrics", self.metrics.join(", ")),
            ("Dimensions", self.dimensions.join(", ")),
            question::shown_filters("dimension_filters", &self.dimension_filters),
            question::shown_filters("metric_filters", &self.metric_filters),
        ];
        Extraction::new(table, question::describe(property, &parts, &end.metadata))
            .title(format!("GA4 {} · {}→{}", property.id, window.start, window.end))
            .dates([window.start, window.end])
            .extra(extra)
            .source(source)
    }
}
