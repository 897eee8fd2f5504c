//! `run_realtime_report`: what happens on the site now.

use acp_core::{Call, Cell, Error, Extraction, Hints, Result, Tool, ToolSpec};
use acp_google::Rows;
use acp_protocol::result::Header;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{Ga4, ReportEnd, ReportRequest};
use crate::fields::{Fields, Kind};
use crate::filters::{Filters, tree};
use crate::question::{self, Findings};
use crate::report::{PAGE_ROWS, Row, check_columns, check_kind};

const METHOD: &str = "analyticsdata.v1beta.runRealtimeReport";
/// Minutes back that every property has; Analytics 360 has an hour.
const OLDEST: u32 = 29;

/// Users, events, key events and views of the last 30 minutes (60 in Analytics 360). Few fields: no sessions, sources or page paths.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRealtimeReport {
    /// activeUsers (default), eventCount, keyEvents, screenPageViews.
    #[serde(default)]
    metrics: Vec<String>,
    /// Such as unifiedScreenName, eventName, country, deviceCategory, minutesAgo, customUser:tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 9))]
    dimensions: Vec<String>,
    /// Oldest minute. Default 29.
    #[schemars(range(max = 59))]
    start_minutes_ago: Option<u32>,
    /// Newest minute. Default 0, now.
    #[schemars(range(max = 59))]
    end_minutes_ago: Option<u32>,
    /// As in run_report: field, match_type, value.
    #[serde(default, skip_serializing_if = "Filters::is_none")]
    dimension_filters: Filters,
    /// Most rows. Default: all.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl Tool for RunRealtimeReport {
    type Source = Ga4;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "run_realtime_report",
        title: "Run a GA4 realtime report",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, ga4: &Ga4, call: &Call) -> Result<Extraction> {
        if self.metrics.is_empty() {
            self.metrics.push("activeUsers".to_owned());
        }
        let oldest = *self.start_minutes_ago.get_or_insert(OLDEST);
        let newest = *self.end_minutes_ago.get_or_insert(0);
        if newest > oldest {
            return Err(Error::invalid_arguments(format!(
                "start_minutes_ago ({oldest}) must not be smaller than end_minutes_ago ({newest}): it is the older end."
            )));
        }
        tree(&self.dimension_filters)?;
        let property = ga4.property(call)?;
        // What the property has itself is only asked for where it is needed: it takes a token of another quota.
        let common = Fields::of_realtime(None);
        let filtered = self.dimension_filters.iter().map(|filter| &filter.field);
        let fields =
            match self.dimensions.iter().chain(filtered).all(|name| common.resolve(Kind::Dimension, name).is_ok()) {
                true => common,
                false => Fields::of_realtime(Some(&*ga4.fields(&property).await?)),
            };
        let mut findings = Findings::default();
        question::resolve_all(&fields, Kind::Metric, &mut self.metrics, &mut findings);
        question::resolve_all(&fields, Kind::Dimension, &mut self.dimensions, &mut findings);
        question::resolve_filters(&fields, &mut self.dimension_filters, &mut findings);
        findings.settle(call)?;
        call.set_arguments(&self);

        let request = ReportRequest {
            dimensions: question::named(&self.dimensions),
            metrics: question::named(&self.metrics),
            minute_ranges: vec![json!({"startMinutesAgo": oldest, "endMinutesAgo": newest})],
            dimension_filter: tree(&self.dimension_filters)?,
            order_bys: question::order(&[], &self.metrics, &self.dimensions),
            metric_aggregations: vec!["TOTAL"],
            limit: Some(self.limit.unwrap_or(PAGE_ROWS)),
            return_property_quota: true,
            ..ReportRequest::default()
        };
        // The day is only a label here: a property whose zone can't be read has a report all the same.
        let (rows, zone) = futures::join!(property.realtime(&request), ga4.time_zone(&property));
        let fail = |failure: acp_google::Failure| failure.into_acp(&property.context);
        let rows = rows.map_err(fail)?;
        let end: ReportEnd = rows.rest().map_err(fail)?;
        check_kind(&end.kind, "analyticsData#runRealtimeReport")?;
        check_columns(&request, &end)?;
        self.check_whole(&rows, &end, call)?;
        question::warn_nothing_left(end.row_count, &self.dimension_filters, call);

        let dimensions = self.dimensions.iter().map(|name| fields.header(Kind::Dimension, name));
        let metrics = self.metrics.iter().map(|name| fields.header(Kind::Metric, name));
        let headers: Vec<Header> = dimensions.chain(metrics).collect();
        let mut table = call.table(headers)?;
        for row in rows.iter() {
            let row: Row<'_> = serde_json::from_slice(row).map_err(|_| {
                Error::upstream(
                    "A row of Google's answer has a form that this version can't read. Update the connector.",
                )
            })?;
            question::with_cells(&row, self.dimensions.len(), self.metrics.len(), |cells| table.push(cells))?;
        }
        if let Some(totals) = end.totals.first().filter(|totals| totals.metric_values.len() == self.metrics.len()) {
            let totals = self.metrics.iter().zip(&totals.metric_values);
            table.set_totals(totals.map(|(name, total)| (name.as_str(), Cell::Text(&total.value))))?;
        }
        let today = zone.map_or_else(|_| call.today(), |zone| call.clock().today(&zone));
        let minutes = format!("{oldest} to {newest} minutes ago");
        let parts = [
            ("Realtime", format!("{minutes}; provisional, and users of different rows can be the same")),
            ("Metrics", self.metrics.join(", ")),
            ("Dimensions", self.dimensions.join(", ")),
            question::shown_filters("dimension_filters", &self.dimension_filters),
        ];
        Ok(Extraction::new(table, question::describe(&property, &parts, &end.metadata))
            .title(format!("GA4 {} realtime · {minutes}", property.id))
            .dates([today])
            .extra(json!({"quota": end.property_quota, "minutes_ago": [oldest, newest]}))
            .source(question::source(&property, METHOD, &end.property_quota)))
    }
}

impl RunRealtimeReport {
    /// Realtime reports have no second page.
    fn check_whole(&self, rows: &Rows, end: &ReportEnd, call: &Call) -> Result<()> {
        let read = rows.len() as u64;
        let limit = self.limit.unwrap_or(u64::MAX);
        if read != end.row_count.min(limit).min(PAGE_ROWS) {
            return Err(Error::upstream(format!(
                "The report is not complete: Google announced {} rows and sent {read}. Run it again.",
                end.row_count
            )));
        }
        if read < end.row_count.min(limit) {
            return Err(Error::invalid_arguments(format!(
                "The report has {} rows; realtime reports give at most {PAGE_ROWS}. Use fewer dimensions, a filter or a limit.",
                end.row_count
            )));
        }
        question::warn_cut(self.limit, end.row_count, call);
        Ok(())
    }
}
