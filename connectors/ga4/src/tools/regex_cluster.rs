//! `run_report_by_regex_cluster`: the values of a dimension put into groups by named patterns.
//!
//! Two ways, because neither answers both questions. `rows` reads every row and adds up, which is right for what adds up. `exact`
//! asks Google once for each group, so that a user or session that is in several rows of a group counts once.

use std::sync::atomic::{AtomicU64, Ordering};

use acp_core::{Call, Cell, DateWindow, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_google::{Cluster, Patterns};
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use futures::future::try_join_all;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::amount;
use crate::api::{Ga4, OwnedValue, Property, ReportEnd, ReportRequest};
use crate::fields::{Fields, Kind, is_additive, nothing};
use crate::filters::{Filters, check_regex, group_of, tree};
use crate::question::{self, Findings};
use crate::report::{Row, extract, other_columns};

/// What no pattern matches.
const UNMATCHED: &str = "(unmatched)";
/// Where Google puts rare values together; what is in it can't be told.
const OTHER: &str = "(other)";
/// What Google counts and no row shows.
const NOT_IN_ROWS: &str = "(not in rows)";
/// Requests of mode `exact` beside one for each cluster: everything, `(unmatched)`, `(other)`.
const MORE_REQUESTS: usize = 3;

/// Groups the values of a dimension (pages, sources, campaigns) by named patterns. Each value counts in the first pattern that matches;
/// (unmatched) is the rest.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByRegexCluster {
    /// Whose values are matched, such as pagePath.
    dimension: String,
    /// Tried in this order.
    clusters: Vec<Cluster>,
    /// As in run_report.
    #[schemars(length(max = 10))]
    metrics: Vec<String>,
    /// rows (default): one report, metrics that add up. exact: a request for each cluster and 3 more; users, sessions and rates too.
    mode: Option<Mode>,
    /// First day (YYYY-MM-DD, NdaysAgo). Default 28daysAgo.
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    /// Last day, included. Default yesterday.
    #[schemars(extend("x-acp-date" = "end"))]
    end_date: Option<String>,
    /// As in run_report: field, match_type, value.
    #[serde(default, skip_serializing_if = "Filters::is_none")]
    dimension_filters: Filters,
    /// Such as EUR.
    currency_code: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Rows,
    Exact,
}

/// What fell into a group.
#[derive(Clone, Debug)]
struct Group {
    values: i64,
    sums: Vec<Decimal>,
    /// What matches its pattern too, but counts in an earlier group.
    overlap: i64,
    overlap_sum: Decimal,
}

/// The groups of mode `rows`: one for each pattern, what none matches, `(other)`.
struct Groups {
    clusters: Vec<Group>,
    unmatched: Group,
    other: Group,
}

impl Tool for ByRegexCluster {
    type Source = Ga4;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "run_report_by_regex_cluster",
        title: "Run a GA4 report by pattern",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, ga4: &Ga4, call: &Call) -> Result<Extraction> {
        let mode = *self.mode.get_or_insert_default();
        let patterns = self.check_alone(call)?;
        let property = ga4.property(call)?;
        let fields = ga4.fields(&property).await?;
        let mut findings = Findings::default();
        self.check_names(&fields, mode, &mut findings);
        findings.settle(call)?;
        let window = question::resolve_dates(&mut self.start_date, &mut self.end_date, ga4, &property, call).await?;
        call.set_arguments(&self);
        match mode {
            Mode::Rows => self.by_rows(&patterns, &property, &fields, window, call).await,
            Mode::Exact => self.by_requests(&property, &fields, window, call).await,
        }
    }
}

impl ByRegexCluster {
    /// What is wrong whatever the property has.
    fn check_alone(&mut self, call: &Call) -> Result<Patterns> {
        if self.clusters.is_empty() {
            return Err(Error::invalid_arguments(
                "There is no pattern. Give clusters, such as [{\"name\": \"blog\", \"pattern\": \"^/blog/\"}].",
            ));
        }
        if self.metrics.is_empty() {
            return Err(Error::invalid_arguments("Give at least one metric, such as metrics: [\"eventCount\"]."));
        }
        Cluster::check_names(&mut self.clusters, &[UNMATCHED, OTHER, NOT_IN_ROWS])?;
        for cluster in &self.clusters {
            let name = &cluster.name;
            if cluster.pattern.is_empty() {
                return Err(Error::invalid_arguments(format!("The pattern of {name:?} is empty. Give one.")));
            }
            check_regex(&self.dimension, &cluster.pattern).map_err(|error| {
                Error::invalid_arguments(format!("The pattern of {name:?} can't be used. {}", error.message()))
            })?;
        }
        let mut findings = Findings::default();
        findings.keep(question::check_currency(&mut self.currency_code));
        findings.keep(tree(&self.dimension_filters));
        findings.settle(call)?;
        let patterns: Vec<&str> = self.clusters.iter().map(|cluster| cluster.pattern.as_str()).collect();
        Patterns::new(&patterns).map_err(|why| Error::invalid_arguments(format!("The patterns can't be used: {why}")))
    }

    fn check_names(&mut self, fields: &Fields, mode: Mode, findings: &mut Findings) {
        question::resolve(fields, Kind::Dimension, &mut self.dimension, findings);
        question::resolve_all(fields, Kind::Metric, &mut self.metrics, findings);
        question::resolve_filters(fields, &mut self.dimension_filters, findings);
        question::note_blocked(fields, self.metrics.iter(), findings);
        let known = |name: &&String| fields.get(Kind::Metric, name).is_some();
        let not_additive: Vec<&String> = self.metrics.iter().filter(known).filter(|name| !is_additive(name)).collect();
        if let (Mode::Rows, [name, ..]) = (mode, not_additive.as_slice()) {
            findings.problems.push(Error::invalid_arguments(format!(
                "{name} does not add up over rows: a user or session can be in several rows, and rates have to be computed anew. \
                 Use mode exact (one request for each cluster and {MORE_REQUESTS} more, here {}), or metrics that add up, such as \
                 eventCount, screenPageViews, newUsers, keyEvents or totalRevenue.",
                self.clusters.len() + MORE_REQUESTS
            )));
        }
    }

    fn base(&self, window: DateWindow) -> ReportRequest {
        ReportRequest {
            metrics: question::named(&self.metrics),
            date_ranges: vec![question::date_range(window)],
            currency_code: self.currency_code.clone(),
            return_property_quota: true,
            ..ReportRequest::default()
        }
    }

    async fn by_rows(
        &self,
        patterns: &Patterns,
        property: &Property,
        fields: &Fields,
        window: DateWindow,
        call: &Call,
    ) -> Result<Extraction> {
        let dimensions = std::slice::from_ref(&self.dimension);
        let request = ReportRequest {
            dimensions: question::named(dimensions),
            dimension_filter: tree(&self.dimension_filters)?,
            order_bys: question::order(&[], &self.metrics, dimensions),
            metric_aggregations: vec!["TOTAL"],
            ..self.base(window)
        };
        let mut groups = Groups::new(patterns.len(), self.metrics.len());
        let progress = |read: u64, known: Option<u64>| call.progress(read, known, format!("{read} rows read"));
        let end = extract(property, &request, None, |row| groups.add(row, patterns), progress).await?;

        let integer = |name: &str, text: &str| Header {
            description: Some(text.to_owned()),
            ..Header::metric(name, ColumnType::Integer)
        };
        let mut headers = self.group_headers();
        headers.push(integer("values", "How many different values"));
        headers.extend(self.metrics.iter().map(|name| fields.header(Kind::Metric, name)));
        headers.push(integer("overlap", "How many values match this pattern too, but count in an earlier group"));
        let overlap_sum = format!("overlap_{}", self.metrics[0]);
        headers.push(Header {
            name: overlap_sum,
            description: Some(format!("{} of those", self.metrics[0])),
            ..fields.header(Kind::Metric, &self.metrics[0])
        });
        let mut table = call.table(headers)?;
        for (cluster, group) in self.clusters.iter().zip(&groups.clusters) {
            group.push(&mut table, &cluster.name, Some(&cluster.pattern))?;
            if end.row_count > 0 && group.values == 0 {
                call.warn(match group.overlap {
                    0 => format!("The pattern of {:?} matches nothing.", cluster.name),
                    _ => format!("All that {:?} matches counts in earlier groups: put it before them.", cluster.name),
                });
            }
        }
        groups.unmatched.push(&mut table, UNMATCHED, None)?;
        if groups.other.values > 0 {
            groups.other.push(&mut table, OTHER, None)?;
        }
        let totals = self.totals(&mut table, &end)?;
        self.push_missing(&groups, &totals, &mut table, call)?;
        question::warn(&end.metadata, window, call);
        let unmatched = self.shares(&groups.unmatched.sums, &totals);
        Ok(self.answer(table, property, &end, window, 1, unmatched))
    }

    /// Google's totals, into the table too.
    fn totals(&self, table: &mut TableWriter, end: &ReportEnd) -> Result<Vec<Option<Decimal>>> {
        let Some(totals) = end.totals.first() else { return Ok(vec![None; self.metrics.len()]) };
        if totals.metric_values.len() != self.metrics.len() {
            return Err(Error::upstream("Google's totals do not match the metrics of the report. Run it again."));
        }
        let texts = || self.metrics.iter().zip(&totals.metric_values);
        table.set_totals(texts().map(|(name, total)| (name.as_str(), Cell::Text(&total.value))))?;
        texts().map(|(_, total)| amount::read(&total.value)).collect()
    }

    /// A row for what the totals have and no row shows, so that the groups add up to the totals.
    fn push_missing(
        &self,
        groups: &Groups,
        totals: &[Option<Decimal>],
        table: &mut TableWriter,
        call: &Call,
    ) -> Result<()> {
        let mut missing = Vec::new();
        for (place, total) in totals.iter().enumerate() {
            let mut sum = Decimal::ZERO;
            for group in groups.all() {
                amount::add(&mut sum, group.sums[place])?;
            }
            // Google prints 15 to 17 digits of each row: what is left of a sum of fractions is noise.
            let gap = total
                .map(|total| total - sum)
                .filter(|gap| gap.abs() > total.unwrap_or_default().abs() * Decimal::new(1, 9));
            missing.push(gap.unwrap_or_default());
        }
        if let Some(place) =
            missing.iter().position(Decimal::is_sign_negative).filter(|place| !missing[*place].is_zero())
        {
            call.warn(format!(
                "The groups add up to more {} than Google's total: an event counts for several values of {}.",
                self.metrics[place], self.dimension
            ));
            return Ok(());
        }
        if missing.iter().all(Decimal::is_zero) {
            return Ok(());
        }
        call.warn(format!(
            "{NOT_IN_ROWS} is what Google counts and shows in no row, so no pattern could be tried on it."
        ));
        let texts: Vec<String> = missing.into_iter().map(amount::digits).collect();
        let mut cells = vec![Cell::Text(NOT_IN_ROWS), Cell::Null, Cell::Null];
        cells.extend(texts.iter().map(|text| Cell::Text(text)));
        cells.extend([Cell::Null, Cell::Null]);
        table.push(&cells)
    }

    async fn by_requests(
        &self,
        property: &Property,
        fields: &Fields,
        window: DateWindow,
        call: &Call,
    ) -> Result<Extraction> {
        let requests = self.clusters.len() + MORE_REQUESTS;
        let ask = async |filters: Vec<Value>| {
            let filters = tree(&self.dimension_filters)?.into_iter().chain(filters).collect();
            let request = ReportRequest { dimension_filter: group_of("andGroup", filters), ..self.base(window) };
            let report = property.small_report(&request).await;
            report.map_err(|failure| failure.into_acp(&property.context))
        };
        call.progress(0, Some(requests as u64), format!("{requests} requests: everything first"));
        let everything = ask(Vec::new()).await?;
        question::check_quota(&everything, requests - 1)?;
        let tokens = question::spent(&everything)
            .map_or(String::new(), |(each, _)| format!(", about {} tokens", each * requests as u64));
        call.progress(1, Some(requests as u64), format!("1 of {requests} requests{tokens}"));
        let done = AtomicU64::new(1);
        let counted = async |filters: Vec<Value>| {
            let report = ask(filters).await?;
            let done = 1 + done.fetch_add(1, Ordering::Relaxed);
            call.progress(done, Some(requests as u64), format!("{done} of {requests} requests{tokens}"));
            Ok::<_, Error>(report)
        };
        let reports = try_join_all(self.group_filters().into_iter().map(counted)).await?;

        let mut headers = self.group_headers();
        headers.extend(self.metrics.iter().map(|name| fields.header(Kind::Metric, name)));
        let mut table = call.table(headers)?;
        let named = self.clusters.iter().map(|cluster| (cluster.name.as_str(), Some(cluster.pattern.as_str())));
        let mut unmatched = Vec::new();
        for ((name, pattern), report) in named.chain([(UNMATCHED, None), (OTHER, None)]).zip(&reports) {
            question::warn(&report.metadata, window, call);
            let row = self.only_row(report)?;
            match (row, name) {
                (None, OTHER) => continue,
                (None, name) if pattern.is_some() => call.warn(format!("The pattern of {name:?} matches nothing.")),
                _ => {}
            }
            let mut cells = vec![Cell::Text(name), pattern.map_or(Cell::Null, Cell::Text)];
            cells.extend(self.metrics.iter().enumerate().map(|(place, metric)| match row {
                Some(row) => Cell::Text(&row[place].value),
                None => nothing(metric),
            }));
            table.push(&cells)?;
            if name == UNMATCHED {
                unmatched = amounts(row)?;
            }
        }
        question::warn(&everything.metadata, window, call);
        let total = self.only_row(&everything)?;
        let named = |place: usize| total.map_or(nothing(&self.metrics[place]), |row| Cell::Text(&row[place].value));
        table.set_totals(self.metrics.iter().enumerate().map(|(place, name)| (name.as_str(), named(place))))?;
        let totals: Vec<Option<Decimal>> = amounts(total)?.into_iter().map(Some).collect();
        let quota = question::least_quota(reports.iter().chain([&everything]));
        let last = ReportEnd { property_quota: quota, ..everything };
        let unmatched = self.shares(&unmatched, &totals);
        Ok(self.answer(table, property, &last, window, requests, unmatched))
    }

    /// Which values belong to each group: those of the clusters, `(unmatched)`, `(other)`.
    fn group_filters(&self) -> Vec<Vec<Value>> {
        let field = &self.dimension;
        let matches = |kind: &str, value: &str, case_sensitive: bool| {
            let test = json!({"matchType": kind, "value": value, "caseSensitive": case_sensitive});
            json!({"filter": {"fieldName": field, "stringFilter": test}})
        };
        let not = |expression: Value| json!({"notExpression": expression});
        let other = matches("EXACT", OTHER, true);
        let patterns: Vec<Value> =
            self.clusters.iter().map(|cluster| matches("PARTIAL_REGEXP", &cluster.pattern, false)).collect();
        let none_of = |patterns: &[Value]| group_of("orGroup", patterns.to_vec()).map(not);
        let clusters = patterns.iter().enumerate().map(|(place, pattern)| {
            [pattern.clone(), not(other.clone())].into_iter().chain(none_of(&patterns[..place])).collect()
        });
        let unmatched = none_of(&patterns).into_iter().chain([not(other.clone())]).collect();
        clusters.chain([unmatched, vec![other.clone()]]).collect()
    }

    /// The row of a report without dimensions; none when nothing was counted.
    fn only_row<'a>(&self, report: &'a ReportEnd) -> Result<Option<&'a [OwnedValue]>> {
        match report.rows.as_slice() {
            [] => Ok(None),
            [row] if row.metric_values.len() == self.metrics.len() => Ok(Some(&row.metric_values)),
            _ => Err(other_columns()),
        }
    }

    fn group_headers(&self) -> Vec<Header> {
        let described = |header: Header, text: &str| Header { description: Some(text.to_owned()), ..header };
        vec![
            described(
                Header::dimension("cluster", ColumnType::String),
                "Group; (unmatched): no pattern matches; (other): rare values that Google rolled up; (not in rows): counted, never shown",
            ),
            Header {
                role: Some(ColumnRole::Attribute),
                ..described(Header::dimension("pattern", ColumnType::String), "RE2, case does not matter")
            },
        ]
    }

    /// Which part of Google's totals no pattern matches. Parts of what does not add up are none.
    fn shares(&self, unmatched: &[Decimal], totals: &[Option<Decimal>]) -> Value {
        let share = |(place, name): (usize, &String)| {
            let total = totals.get(place).copied().flatten().filter(|total| !total.is_zero() && is_additive(name))?;
            let share = unmatched.get(place)?.checked_div(total)?.round_dp(6);
            Some((name.clone(), json!(share.to_f64()?)))
        };
        Value::Object(self.metrics.iter().enumerate().filter_map(share).collect())
    }

    fn answer(
        &self,
        table: TableWriter,
        property: &Property,
        end: &ReportEnd,
        window: DateWindow,
        requests: usize,
        unmatched: Value,
    ) -> Extraction {
        let mode = self.mode.unwrap_or_default();
        let extra = json!({
            "mode": mode,
            "requests": requests,
            "unmatched_share": unmatched,
            "quota": end.property_quota,
            "time_zone": end.metadata.time_zone,
            "currency": end.metadata.currency_code,
        });
        let how = match mode {
            Mode::Rows => "rows added up by pattern",
            Mode::Exact => {
                "one request for each pattern; users and sessions are Google's estimates, each counted once in a group"
            }
        };
        let parts = [
            ("Clusters of", self.dimension.clone()),
            ("Mode", how.to_owned()),
            ("Metrics", self.metrics.join(", ")),
            question::shown_filters("dimension_filters", &self.dimension_filters),
        ];
        Extraction::new(table, question::describe(property, &parts, &end.metadata))
            .title(format!("GA4 {} by pattern of {} · {}→{}", property.id, self.dimension, window.start, window.end))
            .dates([window.start, window.end])
            .extra(extra)
            .source(question::source(property, "analyticsdata.v1beta.runReport", &end.property_quota))
    }
}

impl Group {
    fn new(metrics: usize) -> Self {
        Self { values: 0, sums: vec![Decimal::ZERO; metrics], overlap: 0, overlap_sum: Decimal::ZERO }
    }

    fn push(&self, table: &mut TableWriter, name: &str, pattern: Option<&str>) -> Result<()> {
        let sums: Vec<String> = self.sums.iter().copied().map(amount::digits).collect();
        let overlap_sum = amount::digits(self.overlap_sum);
        let mut cells = vec![Cell::Text(name), pattern.map_or(Cell::Null, Cell::Text), Cell::Integer(self.values)];
        cells.extend(sums.iter().map(|sum| Cell::Text(sum)));
        cells.extend(match pattern {
            Some(_) => [Cell::Integer(self.overlap), Cell::Text(&overlap_sum)],
            None => [Cell::Null, Cell::Null],
        });
        table.push(&cells)
    }
}

impl Groups {
    fn new(patterns: usize, metrics: usize) -> Self {
        let group = || Group::new(metrics);
        Self { clusters: (0..patterns).map(|_| group()).collect(), unmatched: group(), other: group() }
    }

    fn all(&self) -> impl Iterator<Item = &Group> {
        self.clusters.iter().chain([&self.unmatched, &self.other])
    }

    /// Puts a row into the group of its first pattern.
    fn add(&mut self, row: &Row<'_>, patterns: &Patterns) -> Result<()> {
        question::with_cells(row, 1, self.other.sums.len(), |_| Ok(()))?;
        let value = &row.dimension_values[0].value;
        let amounts: Vec<Decimal> = row
            .metric_values
            .iter()
            .map(|value| Ok(amount::read(&value.value)?.unwrap_or_default()))
            .collect::<Result<_>>()?;
        let mut matching = patterns.matching(value);
        let group = match matching.next() {
            _ if value == OTHER => &mut self.other,
            Some(place) => &mut self.clusters[place],
            None => &mut self.unmatched,
        };
        group.values += 1;
        for (sum, more) in group.sums.iter_mut().zip(&amounts) {
            amount::add(sum, *more)?;
        }
        for later in matching.filter(|_| value != OTHER) {
            self.clusters[later].overlap += 1;
            amount::add(&mut self.clusters[later].overlap_sum, amounts[0])?;
        }
        Ok(())
    }
}

fn amounts(row: Option<&[OwnedValue]>) -> Result<Vec<Decimal>> {
    let amount = |value: &OwnedValue| Ok(amount::read(&value.value)?.unwrap_or_default());
    row.unwrap_or_default().iter().map(amount).collect()
}
