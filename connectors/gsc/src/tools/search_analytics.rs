//! `search_analytics`: any question to Search Console's performance data, complete and typed.

use acp_core::{Call, Cell, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_google::Failure;
use acp_protocol::JsonObject;
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{Row, SearchConsole, Site};
use crate::check::{Aggregation, DataState, Dimension, SearchType};
use crate::filters::{Filter, Metric, MetricFilter};
use crate::report::{
    METRICS, cell, counted, coverage, described, dimension_header, explain_nothing, gaps, metric_headers,
};
use crate::search::{Extracted, Figures, Query, Sink, WalkDays, extract};
use crate::store::{Column, RowStore};
use crate::window::{self, Bounds};

/// Dimensions, metrics and the mark of fresh rows.
const COLUMNS_MAX: usize = 7 + 4 + 1;
/// Characters of the description: a filter can be long.
const DESCRIPTION_MAX: usize = 2_000;

/// Extracts search performance, all rows. totals are Google's and count anonymised queries too, which rows leave out (see
/// extra.coverage): never add rows up.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchAnalytics {
    /// None: one row. searchAppearance goes alone, hour without date.
    #[serde(default)]
    pub(super) dimensions: Vec<Dimension>,
    /// All must hold; alternatives: regex a|b.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) filters: Vec<Filter>,
    /// First day, Pacific time: YYYY-MM-DD, NdaysAgo, yesterday or today. Default: a month back.
    #[schemars(extend("x-acp-date" = "start"))]
    pub(super) start_date: Option<String>,
    /// Last day, included. Default: the last reliable one.
    #[schemars(extend("x-acp-date" = "end"))]
    pub(super) end_date: Option<String>,
    /// Default web.
    pub(super) search_type: Option<SearchType>,
    /// How impressions count. Default auto: byPage with pages, else byProperty.
    pub(super) aggregation: Option<Aggregation>,
    /// all: fresh days too; hourly_all: with hour. Default final.
    pub(super) data_state: Option<DataState>,
    /// Over all rows. Default: most clicks first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    order_by: Vec<OrderBy>,
    /// On finished rows; totals ignore them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    metric_filters: Vec<MetricFilter>,
    /// Ask day by day: more rows. auto: where Google leaves some out.
    walk_days: Option<WalkDays>,
}

/// One key of the order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OrderBy {
    /// A column.
    field: String,
    /// Largest first. Default: metrics but position.
    #[serde(skip_serializing_if = "Option::is_none")]
    desc: Option<bool>,
}

impl Tool for SearchAnalytics {
    type Source = SearchConsole;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "search_analytics",
        title: "Search performance",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, console: &SearchConsole, call: &Call) -> Result<Extraction> {
        let order = self.order()?;
        let data_state = self.data_state.unwrap_or(match self.dimensions.contains(&Dimension::Hour) {
            true => DataState::HourlyAll,
            false => DataState::Final,
        });
        self.filters.iter_mut().try_for_each(|filter| filter.normalise(call))?;
        let search_type = *self.search_type.get_or_insert_default();
        let mut query = Query {
            dimensions: self.dimensions.clone(),
            filters: self.filters.clone(),
            search_type,
            aggregation: self.aggregation.unwrap_or_default(),
            data_state,
            window: acp_core::DateWindow { start: jiff::civil::Date::ZERO, end: jiff::civil::Date::ZERO },
        };
        query.combination().check()?;
        let site = console.site(call)?;
        let bounds = Bounds { start: self.start_date.as_deref(), end: self.end_date.as_deref(), data_state };
        query.window = window::resolve(console, &site, call, bounds).await?;
        self.start_date = Some(query.window.start.to_string());
        self.end_date = Some(query.window.end.to_string());
        if data_state == DataState::HourlyAll {
            self.data_state = Some(data_state);
        }
        call.set_arguments(&self);

        let fresh = first_incomplete(&site, &query).await?;
        let mut output = Output {
            call,
            query: &query,
            metric_filters: &self.metric_filters,
            order: &order,
            fresh: fresh.as_deref(),
            table: call.table(Vec::new())?,
            store: None,
        };
        let counted = query.combination().counted().name();
        let walk = self.walk_days.unwrap_or_default();
        let (extracted, totals) =
            tokio::join!(extract(&site, &query, walk, &mut output), ask_totals(&site, &query, counted));
        let extracted = extracted?;
        let mut table = output.finish()?;
        // The totals must be counted as the rows are.
        let (totals, unfiltered) = match !extracted.counted.is_empty() && extracted.counted != counted {
            true => ask_totals(&site, &query, &extracted.counted).await,
            false => totals,
        };
        let known = |totals: Result<Figures, Failure>, what: &str| match totals {
            Ok(totals) => Some(totals),
            Err(failure) => {
                let why = failure.into_acp(&site.context);
                call.warn(format!("{what} are missing: {}", why.message()));
                None
            }
        };
        let totals = known(totals, "Google's totals");
        let unfiltered = unfiltered.map(|totals| known(totals, "Google's totals without the filters on query"));
        if let Some(totals) = &totals {
            table.set_totals(METRICS.map(|(metric, name)| (name, cell(metric, totals))))?;
        }
        let coverage = coverage(&query, &extracted, totals.as_ref());
        self.warn(&query, &extracted, fresh.as_deref(), call);
        if extracted.rows == 0 {
            let whole = unfiltered.flatten().filter(|_| query.without_query_filters().filters.is_empty());
            call.warn(explain_nothing(&site, &query, totals.as_ref(), whole).await);
        }
        let mut extra = extra(&query, &extracted, coverage, fresh);
        if let Some(totals) = unfiltered {
            let figures = |totals: Figures| {
                json!({
                    "clicks": totals.clicks.round() as i64, "impressions": totals.impressions.round() as i64,
                    "ctr": totals.ctr, "position": totals.position,
                })
            };
            extra["totals_without_query_filters"] = totals.map_or(Value::Null, figures);
        }
        Ok(self.answer(table, &site, &query, &extracted, extra))
    }
}

/// Google's totals, and where a filter on query takes the anonymised queries out of them, those without such filters too.
async fn ask_totals(
    site: &Site,
    query: &Query,
    counted: &str,
) -> (Result<Figures, Failure>, Option<Result<Figures, Failure>>) {
    let unfiltered = async {
        match query.filters_queries() {
            true => Some(query.without_query_filters().ask_totals(site, counted).await),
            false => None,
        }
    };
    tokio::join!(query.ask_totals(site, counted), unfiltered)
}

/// What is said beside the rows.
fn extra(query: &Query, extracted: &Extracted, coverage: Result<Value, &'static str>, fresh: Option<String>) -> Value {
    let mut extra = json!({"aggregation": counted(query, extracted), "walked_days": extracted.walked});
    match coverage {
        Ok(coverage) => extra["coverage"] = coverage,
        Err(reason) => {
            extra["coverage"] = Value::Null;
            extra["coverage_unknown"] = json!(reason);
        }
    }
    if query.data_state != DataState::Final {
        extra["first_incomplete"] = json!(fresh);
    }
    if let Some((day, error)) = &extracted.stopped {
        let wait = error.data().and_then(|data| data.get("retry_after_s").cloned());
        extra["partial"] = json!({
            "missing_from": day.to_string(), "missing_to": query.window.end.to_string(), "retry_after_s": wait,
        });
    }
    extra
}

impl SearchAnalytics {
    /// The order as columns.
    pub(super) fn order(&self) -> Result<Vec<(Column, bool)>> {
        let mut order: Vec<(Column, bool)> = Vec::new();
        for key in &self.order_by {
            let dimension = self.dimensions.iter().position(|dimension| dimension.name() == key.field);
            let metric = METRICS.iter().find(|(_, name)| *name == key.field).map(|(metric, _)| *metric);
            let (column, largest_first) = match (dimension, metric) {
                (Some(place), _) => (Column::Dimension(place), false),
                (None, Some(metric)) => (Column::Metric(metric), metric != Metric::Position),
                (None, None) => {
                    let columns =
                        self.dimensions.iter().map(|dimension| dimension.name()).chain(METRICS.map(|(_, name)| name));
                    return Err(Error::invalid_arguments(format!(
                        "order_by names {:?}, which is not a column of this table. Order by one of: {}.",
                        acp_google::clean(&key.field, 60),
                        columns.collect::<Vec<_>>().join(", ")
                    )));
                }
            };
            if order.iter().any(|(known, _)| *known == column) {
                return Err(Error::invalid_arguments(format!(
                    "order_by names {} twice. Name each column once.",
                    key.field
                )));
            }
            order.push((column, key.desc.unwrap_or(largest_first)));
        }
        Ok(order)
    }

    fn warn(&self, query: &Query, extracted: &Extracted, fresh: Option<&str>, call: &Call) {
        gaps(query, extracted).into_iter().for_each(|gap| call.warn(gap));
        if !self.metric_filters.is_empty() {
            call.warn("totals and extra.coverage are of all rows, before metric_filters.");
        }
        if let Some(fresh) = fresh {
            let end = query.window.end.to_string();
            if fresh.get(..10).is_some_and(|day| day <= end.as_str()) {
                call.warn(format!("Data from {fresh} on are not complete yet: do not read them as a fall."));
            }
        }
    }

    fn answer(self, table: TableWriter, site: &Site, query: &Query, extracted: &Extracted, extra: Value) -> Extraction {
        let id = &site.id;
        let counted = counted(query, extracted);
        let source = json!({
            "property": id,
            "api": "searchconsole.v1.searchanalytics.query",
            "aggregation": counted,
            "walked_days": extracted.walked,
            "partial": extracted.stopped.is_some(),
        });
        Extraction::new(table, self.description(id, query, counted))
            .title(format!("Search Console {id} · {}→{}", query.window.start, query.window.end))
            .dates([query.window.start, query.window.end])
            .extra(extra)
            .source(source.as_object().cloned().unwrap_or_else(JsonObject::new))
    }

    fn description(&self, id: &str, query: &Query, counted: &str) -> String {
        let mut sentences =
            vec![format!("Search Console property {id}"), format!("Search type: {}", query.search_type.name())];
        if !self.dimensions.is_empty() {
            let names: Vec<&str> = self.dimensions.iter().map(|dimension| dimension.name()).collect();
            sentences.push(format!("Dimensions: {}", names.join(", ")));
        }
        for (name, filters) in [("filters", json!(self.filters)), ("metric_filters", json!(self.metric_filters))] {
            if filters.as_array().is_some_and(|filters| !filters.is_empty()) {
                sentences.push(format!("Filter: {name} {filters}"));
            }
        }
        sentences.push(format!("Impressions counted {counted}"));
        sentences.push(format!("Data state: {}", query.data_state.name()));
        sentences.push("Days in Pacific time".to_owned());
        acp_google::clean(&(sentences.join(". ") + "."), DESCRIPTION_MAX)
    }
}

/// The columns: those asked for, the metrics, and the mark of fresh rows where rows can be fresh.
fn headers(dimensions: &[Dimension], marked: bool) -> Vec<Header> {
    let mut headers: Vec<Header> = dimensions.iter().map(|dimension| dimension_header(*dimension)).collect();
    headers.extend(metric_headers());
    if marked {
        headers.push(Header {
            role: Some(ColumnRole::Attribute),
            ..described(
                Header::dimension("is_incomplete", ColumnType::Boolean),
                "Whether Google still collects data for this row",
            )
        });
    }
    headers
}

/// Where the rows of the answer go: into the table, or into memory first where they have to be merged or sorted.
struct Output<'a> {
    call: &'a Call,
    query: &'a Query,
    metric_filters: &'a [MetricFilter],
    order: &'a [(Column, bool)],
    /// The first day or hour whose data are not complete.
    fresh: Option<&'a str>,
    table: TableWriter,
    store: Option<RowStore>,
}

impl Sink for Output<'_> {
    fn begin(&mut self, merge: bool) -> Result<()> {
        self.table = self.call.table(headers(&self.query.dimensions, self.time_column().is_some()))?;
        self.store = (merge || !self.order.is_empty()).then(RowStore::new);
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>, figures: &Figures) -> Result<()> {
        if let Some(store) = &mut self.store {
            return store.add(row.keys.iter().map(|key| &*key.0), *figures);
        }
        let mut key = [""; COLUMNS_MAX];
        for (place, value) in key.iter_mut().zip(&row.keys) {
            *place = &value.0;
        }
        self.push(&key[..row.keys.len()], figures)
    }

    fn progress(&mut self, done: u64, total: Option<u64>, message: String) {
        self.call.progress(done, total, message);
    }
}

impl Output<'_> {
    /// The place of the day or hour among the dimensions, where rows can be of unfinished ones.
    fn time_column(&self) -> Option<usize> {
        let is_time = |dimension: &Dimension| matches!(dimension, Dimension::Date | Dimension::Hour);
        self.query.dimensions.iter().position(is_time).filter(|_| self.query.data_state != DataState::Final)
    }

    fn push(&mut self, key: &[&str], figures: &Figures) -> Result<()> {
        if !self.metric_filters.iter().all(|filter| filter.keeps(figures.get(filter.metric))) {
            return Ok(());
        }
        let mut cells = [Cell::Null; COLUMNS_MAX];
        let mut count = 0;
        let mut add = |cell| {
            cells[count] = cell;
            count += 1;
        };
        key.iter().for_each(|value| add(Cell::Text(value)));
        METRICS.iter().for_each(|(metric, _)| add(cell(*metric, figures)));
        if let Some(place) = self.time_column() {
            add(Cell::Boolean(self.fresh.is_some_and(|fresh| key[place] >= fresh)));
        }
        self.table.push(&cells[..count])
    }

    fn finish(mut self) -> Result<TableWriter> {
        let Some(store) = self.store.take() else { return Ok(self.table) };
        // Merged rows have no order of Google's any more: this is the same one.
        let by_default = [(Column::Metric(Metric::Clicks), true), (Column::Metric(Metric::Impressions), true)];
        let order = if self.order.is_empty() { &by_default[..] } else { self.order };
        store.each_ordered(order, |key, figures| self.push(key, figures))?;
        Ok(self.table)
    }
}

/// From which day or hour on data are not complete, which Google only tells beside days or hours.
async fn first_incomplete(site: &Site, query: &Query) -> Result<Option<String>> {
    let dimension = match query.data_state {
        DataState::Final => return Ok(None),
        DataState::All => Dimension::Date,
        DataState::HourlyAll => Dimension::Hour,
    };
    let days =
        Query { dimensions: vec![dimension], filters: Vec::new(), aggregation: Aggregation::Auto, ..query.clone() };
    let page = site.search(&days.request(0)).await.map_err(|failure| failure.into_acp(&site.context))?;
    let metadata = page.end.metadata;
    Ok(if dimension == Dimension::Date { metadata.first_incomplete_date } else { metadata.first_incomplete_hour })
}
