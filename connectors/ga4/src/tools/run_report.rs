//! `run_report`: any report of the Data API, complete and typed.

mod wide;

use acp_core::{Call, Cell, DateWindow, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_protocol::result::Header;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::amount::ControlSum;
use crate::api::{Ga4, Property, ReportEnd, ReportRequest};
use crate::fields::{Fields, Kind, is_additive};
use crate::filters::{DimensionFilter, MetricFilter, tree};
use crate::question::{self, Findings, OrderBy};
use crate::report::{Row, extract};
use wide::Wide;

/// Metrics that Google takes at a time.
const METRICS_AT_ONCE: usize = 10;
/// The name of the range that `start_date` and `end_date` give, beside others.
const CURRENT: &str = "current";
/// The column that tells ranges apart.
const RANGE_COLUMN: &str = "dateRange";
/// The column that marks days which were filled in.
const FILLED_COLUMN: &str = "filled";
/// Days in which something that is measured happens at least once.
const TELLING_DAYS: i32 = 7;
/// Characters of the name of a range.
const NAME_MAX: usize = 40;

/// Extracts a GA4 report, all rows. totals are Google's, over all rows; never add up users, rates or averages.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunReport {
    /// Metrics, such as sessions, totalUsers, keyEvents:purchase.
    #[serde(default)]
    #[schemars(length(max = 40))]
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
    /// Periods to compare with; adds the column dateRange.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    compare_ranges: Vec<CompareRange>,
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
    /// Add days without data, marked; only dimension date.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fill_days: bool,
    /// Ask day by day; auto: where Google rolls up rows or samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<Split>,
    /// Currency, such as EUR. Default: the property's.
    currency_code: Option<String>,
}

/// A period beside the one of `start_date` and `end_date`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompareRange {
    /// First day.
    start_date: String,
    /// Last day.
    end_date: String,
    /// Default previous.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Split {
    #[default]
    Auto,
    Never,
    Day,
}

/// A period of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) name: String,
    pub(crate) window: DateWindow,
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
        let ranges = self.resolve_ranges(ga4, &property, call).await?;
        self.check_ranges(&ranges)?;
        call.set_arguments(&self);
        note_ranges(&ranges, call);
        for range in &ranges {
            question::warn_age(ga4, &property, range.window, call).await;
        }

        let wide = Wide { report: &self, property: &property, fields: &fields, ranges: &ranges, call };
        if !self.is_plain() {
            return wide.run(None).await;
        }
        let [range] = ranges.as_slice() else { return wide.run(None).await };
        let request = self.request(&self.metrics, range.window)?;
        let mut table = call.table(self.headers(&fields))?;
        let mut control = ControlSum::of(&self.metrics);
        let push = |row: &Row<'_>| {
            question::with_cells(row, self.dimensions.len(), self.metrics.len(), |cells| table.push(cells))?;
            control.add(row);
            Ok(())
        };
        let progress = |read: u64, known: Option<u64>| {
            let total = known.map(|known| self.limit.map_or(known, |limit| limit.min(known)));
            call.progress(read, total, format!("{read} rows read"));
        };
        let end = extract(&property, &request, self.limit, push, progress).await?;
        if wide.wants_days(std::slice::from_ref(&end)) {
            drop(table);
            return wide.run(Some(end)).await;
        }
        self.set_totals(&mut table, &end, call)?;
        self.warn_zeros(&fields, &self.metrics, range.window, &end, call);
        if self.limit.is_none_or(|limit| limit >= end.row_count) && self.metric_filters.is_empty() {
            question::warn_gap(&control, &end, None, call);
        }
        question::warn(&end.metadata, range.window, call);
        question::warn_nothing_left(end.row_count, &self.dimension_filters, call);
        question::warn_cut(self.limit, end.row_count, call);
        Ok(self.answer(table, &property, &end, &ranges, Map::new(), call))
    }
}

impl RunReport {
    pub(crate) fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// The metrics, as many at a time as Google takes; a report without metrics is one as well.
    pub(crate) fn chunks(&self) -> Vec<&[String]> {
        match self.metrics.is_empty() {
            true => vec![&[]],
            false => self.metrics.chunks(METRICS_AT_ONCE).collect(),
        }
    }

    /// Whether one report of Google's, as it comes, is the answer.
    fn is_plain(&self) -> bool {
        self.compare_ranges.is_empty()
            && self.metrics.len() <= METRICS_AT_ONCE
            && !self.fill_days
            && self.split != Some(Split::Day)
    }

    /// The periods in the property's time zone, whose days are put into the arguments.
    pub(crate) async fn resolve_ranges(&mut self, ga4: &Ga4, property: &Property, call: &Call) -> Result<Vec<Range>> {
        let window = question::resolve_dates(&mut self.start_date, &mut self.end_date, ga4, property, call).await?;
        let mut ranges = vec![Range { name: CURRENT.to_owned(), window }];
        let alone = self.compare_ranges.len() == 1;
        for (place, range) in self.compare_ranges.iter_mut().enumerate() {
            let (mut start, mut end) = (Some(range.start_date.clone()), Some(range.end_date.clone()));
            let window = question::resolve_dates(&mut start, &mut end, ga4, property, call).await.map_err(|error| {
                Error::new(error.code(), format!("compare_ranges, entry {}: {}", place + 1, error.message()))
            })?;
            (range.start_date, range.end_date) = (window.start.to_string(), window.end.to_string());
            let usual = || if alone { "previous".to_owned() } else { format!("range_{}", place + 2) };
            let name = range.name.get_or_insert_with(usual).clone();
            ranges.push(Range { name, window });
        }
        Ok(ranges)
    }

    /// What is wrong whatever the property has: patterns and values are checked before anything is asked of Google.
    pub(crate) fn check_alone(&mut self, findings: &mut Findings) {
        let mut refuse = |problem: &str| findings.problems.push(Error::invalid_arguments(problem));
        if self.metrics.is_empty() && self.dimensions.is_empty() {
            refuse("Give at least one metric, such as metrics: [\"sessions\"].");
        }
        let mut names = vec![CURRENT];
        for name in self.compare_ranges.iter().filter_map(|range| range.name.as_deref()) {
            let plain = |mark: char| mark.is_alphanumeric() || matches!(mark, '_' | '-' | ' ');
            if name.is_empty() || name.chars().count() > NAME_MAX || !name.chars().all(plain) {
                refuse("The name of a range has 1 to 40 letters, digits, spaces, _ or -.");
            } else if names.contains(&name) {
                refuse(&format!(
                    "Two ranges are called {name}. Give each of compare_ranges a name of its own; {CURRENT} is start_date to end_date."
                ));
            }
            names.push(name);
        }
        if self.fill_days && (!self.metric_filters.is_empty() || self.limit.is_some()) {
            refuse(
                "fill_days adds days without data, which can't be told from days that metric_filters or limit take away. Leave these out.",
            );
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
        if self.fill_days && self.dimensions != ["date"] {
            findings.problems.push(Error::invalid_arguments(
                "fill_days needs dimensions: [\"date\"] and no other: which of several values a missing day has, nobody knows.",
            ));
        }
        if let (Some(Split::Day), Err(why)) = (self.split, self.splits()) {
            findings.problems.push(Error::invalid_arguments(format!("split day is not possible: {why}.")));
        }
    }

    /// What can only be told with the days known.
    pub(crate) fn check_ranges(&self, ranges: &[Range]) -> Result<()> {
        match self.split {
            Some(Split::Day) if self.day_reports(ranges) > wide::REPORTS_MAX => Err(Error::invalid_arguments(format!(
                "split day would take {} requests, and at most {} are made. Use a shorter date range or fewer metrics.",
                self.day_reports(ranges),
                wide::REPORTS_MAX
            ))),
            _ => Ok(()),
        }
    }

    /// Requests that the days of all ranges take.
    fn day_reports(&self, ranges: &[Range]) -> usize {
        let days: usize = ranges.iter().map(|range| usize::try_from(range.window.days()).unwrap_or(usize::MAX)).sum();
        days.saturating_mul(self.chunks().len())
    }

    /// Whether the days of a report can be put together to the report, or why not.
    fn splits(&self) -> Result<(), String> {
        if let Some(name) = self.dimensions.iter().find(|name| name.starts_with("nth")) {
            return Err(format!("{name} counts from the start of the range"));
        }
        // Rows that tell their day are never those of another day.
        if self.dimensions.iter().any(|name| matches!(name.as_str(), "date" | "dateHour" | "dateHourMinute")) {
            return Ok(());
        }
        if let Some(name) = self.metrics.iter().find(|name| !is_additive(name)) {
            return Err(format!(
                "{name} does not add up over days: a user or session can be in several, and rates have to be computed anew. Ask for \
                 metrics that add up, or add the dimension date"
            ));
        }
        match self.metric_filters.is_empty() {
            true => Ok(()),
            false => Err("metric_filters would see the days, not the whole. Leave them out, or add the dimension date"
                .to_owned()),
        }
    }

    pub(crate) fn request(&self, metrics: &[String], window: DateWindow) -> Result<ReportRequest> {
        Ok(ReportRequest {
            dimensions: question::named(&self.dimensions),
            metrics: question::named(metrics),
            date_ranges: vec![question::date_range(window)],
            dimension_filter: tree(&self.dimension_filters)?,
            metric_filter: tree(&self.metric_filters)?,
            order_bys: question::order(&self.order_by, metrics, &self.dimensions),
            metric_aggregations: if metrics.is_empty() { Vec::new() } else { vec!["TOTAL"] },
            keep_empty_rows: self.keep_empty_rows,
            currency_code: self.currency_code.clone(),
            return_property_quota: true,
            ..ReportRequest::default()
        })
    }

    /// The columns: dimensions, as Google does it the range after them, metrics.
    fn headers(&self, fields: &Fields) -> Vec<Header> {
        let dimensions = self.dimensions.iter().map(|name| fields.header(Kind::Dimension, name));
        let range = wide::range_header().filter(|_| !self.compare_ranges.is_empty());
        let metrics = self.metrics.iter().map(|name| fields.header(Kind::Metric, name));
        dimensions.chain(range).chain(metrics).chain(wide::filled_header().filter(|_| self.fill_days)).collect()
    }

    fn set_totals(&self, table: &mut TableWriter, end: &ReportEnd, call: &Call) -> Result<()> {
        let Some(totals) = totals_of(end, self.metrics.len())? else { return Ok(()) };
        table.set_totals(self.metrics.iter().zip(&totals).map(|(name, total)| (name.as_str(), Cell::Text(total))))?;
        self.warn_filtered_totals(call);
        Ok(())
    }

    /// A filter or a few days may leave nothing over, and a report without rows says so itself.
    fn warn_zeros(&self, fields: &Fields, metrics: &[String], window: DateWindow, end: &ReportEnd, call: &Call) {
        let whole =
            self.dimension_filters.is_empty() && self.metric_filters.is_empty() && window.days() >= TELLING_DAYS;
        if whole && end.row_count > 0 && end.metadata.schema_restriction_response.is_none() {
            let totals = end.totals.first().into_iter().flat_map(|totals| &totals.metric_values);
            question::warn_zeros(fields, metrics.iter().zip(totals.map(|total| &total.value)), call);
        }
    }

    fn warn_filtered_totals(&self, call: &Call) {
        if !self.metric_filters.is_empty() {
            call.warn("totals may count rows that metric_filters removed: Google does not say whether they do.");
        }
    }

    /// `end` describes the first range; `more` is added to what the answer says beside the table.
    fn answer(
        &self,
        table: TableWriter,
        property: &Property,
        end: &ReportEnd,
        ranges: &[Range],
        more: Map<String, Value>,
        call: &Call,
    ) -> Extraction {
        let mut source = question::source(property, "analyticsdata.v1beta.runReport", &end.property_quota);
        source.insert("row_count".to_owned(), json!(end.row_count));
        let mut extra = json!({
            "quota": end.property_quota,
            "time_zone": end.metadata.time_zone,
            "currency": end.metadata.currency_code,
        });
        more.into_iter().for_each(|(name, value)| extra[name] = value);
        let moving = ranges.iter().filter_map(|range| question::moving_from(&end.metadata, range.window, call)).min();
        if let Some(day) = moving {
            extra["may_change_from"] = json!(day.to_string());
        }
        let period = |range: &Range| format!("{} {} to {}", range.name, range.window.start, range.window.end);
        let compared = ranges.len() > 1;
        let parts = [
            ("Metrics", self.metrics.join(", ")),
            ("Dimensions", self.dimensions.join(", ")),
            ("Ranges", if compared { ranges.iter().map(period).collect::<Vec<_>>().join(", ") } else { String::new() }),
            question::shown_filters("dimension_filters", &self.dimension_filters),
            question::shown_filters("metric_filters", &self.metric_filters),
        ];
        let moving = ("May still change", moving.map_or(String::new(), |day| format!("from {day} on")));
        let days: Vec<Date> = ranges.iter().flat_map(|range| [range.window.start, range.window.end]).collect();
        let titles: Vec<String> =
            ranges.iter().map(|range| format!("{}→{}", range.window.start, range.window.end)).collect();
        Extraction::new(table, question::describe(property, &[&parts[..], &[moving]].concat(), &end.metadata))
            .title(format!("GA4 {} · {}", property.id, titles.join(" / ")))
            .dates(days)
            .extra(extra)
            .source(source)
    }
}

/// Google's totals of a report, one for each of so many metrics; none where it has no metrics.
fn totals_of(end: &ReportEnd, metrics: usize) -> Result<Option<Vec<String>>> {
    let Some(totals) = end.totals.first().filter(|_| metrics > 0) else { return Ok(None) };
    if totals.metric_values.len() != metrics {
        return Err(Error::upstream("Google's totals do not match the metrics of the report. Run it again."));
    }
    Ok(Some(totals.metric_values.iter().map(|total| total.value.clone()).collect()))
}

/// Says what makes compared periods hard to compare.
fn note_ranges(ranges: &[Range], call: &Call) {
    let Some((current, others)) = ranges.split_first() else { return };
    for other in others {
        let days = |range: &Range| range.window.days();
        if days(current) != days(other) {
            call.warn(format!(
                "The ranges are not equally long: {} has {} days, {} has {}. Compare averages of a day, or choose ranges of one length.",
                current.name,
                days(current),
                other.name,
                days(other)
            ));
        }
    }
    for (place, one) in ranges.iter().enumerate() {
        for other in &ranges[place + 1..] {
            if one.window.start <= other.window.end && other.window.start <= one.window.end {
                call.warn(format!("The ranges {} and {} overlap: some days are in both.", one.name, other.name));
            }
        }
    }
}
