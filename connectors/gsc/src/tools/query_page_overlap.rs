//! `query_page_overlap`: queries for which several pages of the site compete.

use std::cmp::Reverse;

use acp_core::{Call, Cell, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_protocol::JsonObject;
use acp_protocol::result::{ColumnType, Header};
use jiff::ToSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{SearchConsole, Site};
use crate::check::{Dimension, SearchType};
use crate::filters::{Filter, Metric};
use crate::report::{
    Gather, METRICS, cell, described, dimension_header, explain_nothing, gaps, metric_headers, question,
};
use crate::search::{Query, WalkDays, extract};
use crate::store::{Column, RowStore};
use crate::window;

/// Impressions that a page needs to count.
const MIN_IMPRESSIONS: u32 = 10;
const MIN_PAGES: u32 = 2;
/// Characters of the description: a filter can be long.
const DESCRIPTION_MAX: usize = 2_000;

/// Finds queries for which several pages were shown (cannibalisation): a row per query and page, beside the query's own figures. Pages count byPage,
/// the query byProperty, so pages add up to more.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryPageOverlap {
    /// All must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    filters: Vec<Filter>,
    /// First day (YYYY-MM-DD, NdaysAgo). Default: a month before end_date.
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    /// Last day. Default: the last with reliable data.
    #[schemars(extend("x-acp-date" = "end"))]
    end_date: Option<String>,
    /// Default web.
    search_type: Option<SearchType>,
    /// Impressions from which a page counts. Default 10.
    min_impressions: Option<u32>,
    /// Pages from which a query is listed. Default 2.
    #[schemars(range(min = 2))]
    min_pages: Option<u32>,
}

/// The pages of a query, best first, as places in the store.
struct Contest {
    pages: Vec<u32>,
    impressions: f64,
    /// Those of all pages but the first.
    contested: f64,
}

impl Tool for QueryPageOverlap {
    type Source = SearchConsole;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "query_page_overlap",
        title: "Pages that compete for a query",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, console: &SearchConsole, call: &Call) -> Result<Extraction> {
        let search_type = *self.search_type.get_or_insert_default();
        let least = *self.min_impressions.get_or_insert(MIN_IMPRESSIONS);
        let min_pages = *self.min_pages.get_or_insert(MIN_PAGES);
        if min_pages < MIN_PAGES {
            return Err(Error::invalid_arguments(
                "min_pages must be at least 2. For every page of a query use search_analytics.",
            ));
        }
        let mut pages = question(vec![Dimension::Query, Dimension::Page], &mut self.filters, search_type, call)?;
        let site = console.site(call)?;
        let (start, end) = (self.start_date.as_deref(), self.end_date.as_deref());
        pages.window = window::resolve_final(console, &site, call, start, end, 1.month()).await?;
        self.start_date = Some(pages.window.start.to_string());
        self.end_date = Some(pages.window.end.to_string());
        call.set_arguments(&self);

        let queries = Query { dimensions: vec![Dimension::Query], ..pages.clone() };
        let mut of_pages = Gather::new(call, "queries and pages", RowStore::half);
        let extracted = extract(&site, &pages, WalkDays::Auto, &mut of_pages).await?;
        let mut of_queries = Gather::new(call, "queries", RowStore::half);
        // Day by day there are fewer queries that stand alone.
        let totals = extract(&site, &queries, WalkDays::Never, &mut of_queries).await?;
        gaps(&pages, &extracted).into_iter().for_each(|gap| call.warn(gap));
        if extracted.rows == 0 {
            let all = pages.ask_totals(&site, pages.combination().counted().name()).await.ok();
            call.warn(explain_nothing(&site, &pages, all.as_ref(), None).await);
        }

        let contests = contests(&of_pages.rows, f64::from(least), min_pages as usize);
        let mut table = call.table(headers())?;
        let without = fill(&contests, &of_pages.rows, &of_queries.rows, &mut table)?;
        if without > 0 {
            call.warn(format!(
                "{without} listed queries are not among the rows of the queries alone, of which Google gives fewer: their query_ columns are null."
            ));
        }
        let extra = json!({
            "aggregation": {"pages": extracted.counted, "queries": totals.counted},
            "queries": of_queries.rows.len(),
            "queries_with_several_pages": contests.len(),
            "contested_impressions": contests.iter().map(|contest| contest.contested).sum::<f64>().round() as i64,
            "walked_days": extracted.walked,
        });
        Ok(self.answer(table, &site, &pages, extra))
    }
}

impl QueryPageOverlap {
    fn answer(&self, table: TableWriter, site: &Site, query: &Query, extra: serde_json::Value) -> Extraction {
        let mut text = format!(
            "Search Console property {}, queries with several pages. Search type: {}. A page counts from {} impressions, a query from {} pages \
             on. Days in Pacific time.",
            site.id,
            query.search_type.name(),
            self.min_impressions.unwrap_or(MIN_IMPRESSIONS),
            self.min_pages.unwrap_or(MIN_PAGES),
        );
        if !self.filters.is_empty() {
            text.push_str(&format!(" Filter: filters {}.", json!(self.filters)));
        }
        let window = query.window;
        let source = json!({"property": site.id, "api": "searchconsole.v1.searchanalytics.query"});
        Extraction::new(table, acp_google::clean(&text, DESCRIPTION_MAX))
            .title(format!("Search Console {} overlap · {}→{}", site.id, window.start, window.end))
            .dates([window.start, window.end])
            .extra(extra)
            .source(source.as_object().cloned().unwrap_or_else(JsonObject::new))
    }
}

/// The queries that enough pages compete for, those first whose further pages were shown most.
fn contests(rows: &RowStore, least: f64, min_pages: usize) -> Vec<Contest> {
    let order = [
        (Column::Dimension(0), false),
        (Column::Metric(Metric::Clicks), true),
        (Column::Metric(Metric::Impressions), true),
        (Column::Dimension(1), false),
    ];
    let query = |place: &u32| rows.values(*place as usize).next();
    let places = rows.ordered(&order);
    let mut contests: Vec<Contest> = places
        .chunk_by(|one, two| query(one) == query(two))
        .filter_map(|places| {
            let impressions = |place: &u32| rows.figures(*place as usize).impressions;
            let pages: Vec<u32> = places.iter().copied().filter(|place| impressions(place) >= least).collect();
            let first = pages.first().filter(|_| pages.len() >= min_pages)?;
            let all = pages.iter().map(impressions).sum::<f64>();
            Some(Contest { contested: all - impressions(first), impressions: all, pages })
        })
        .collect();
    contests.sort_by_key(|contest| Reverse(contest.contested.round() as i64));
    contests
}

/// Writes the rows, and says how many queries have no figures of their own.
fn fill(contests: &[Contest], pages: &RowStore, queries: &RowStore, table: &mut TableWriter) -> Result<u64> {
    let mut without = 0;
    let mut cells = Vec::with_capacity(12);
    for contest in contests {
        let query = contest.pages.first().and_then(|place| pages.values(*place as usize).next()).unwrap_or_default();
        let own = queries.find_value(query).map(|place| queries.figures(place as usize));
        without += u64::from(own.is_none());
        for (rank, place) in (1..).zip(&contest.pages) {
            let figures = pages.figures(*place as usize);
            cells.clear();
            cells.extend(pages.values(*place as usize).map(Cell::Text));
            cells.extend(METRICS.map(|(metric, _)| cell(metric, figures)));
            cells.push(Cell::Integer(rank));
            cells.push(Cell::Integer(contest.pages.len() as i64));
            cells.push(match contest.impressions > 0.0 {
                true => Cell::Number(figures.impressions / contest.impressions),
                false => Cell::Null,
            });
            for metric in [Metric::Clicks, Metric::Impressions, Metric::Position] {
                cells.push(own.map_or(Cell::Null, |own| cell(metric, own)));
            }
            table.push(&cells)?;
        }
    }
    Ok(without)
}

fn headers() -> Vec<Header> {
    let mut headers = vec![dimension_header(Dimension::Query), dimension_header(Dimension::Page)];
    headers.extend(metric_headers());
    let metric = |name: &str, column_type: ColumnType, text: &str| described(Header::metric(name, column_type), text);
    headers.extend([
        metric("page_rank", ColumnType::Integer, "1: the page of this query with most clicks, then impressions"),
        metric("pages", ColumnType::Integer, "How many pages count for the query"),
        metric("impression_share", ColumnType::Number, "Fraction 0-1 of the impressions of these pages"),
        metric("query_clicks", ColumnType::Integer, "Of the query, counted by property"),
        metric("query_impressions", ColumnType::Integer, "Of the query: several pages in one search count once"),
        metric("query_position", ColumnType::Number, "Of the query: the topmost page of each search"),
    ]);
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Figures;

    #[test]
    fn queries_count_from_two_pages_on_and_the_most_contested_is_first() {
        let mut rows = RowStore::new();
        for (query, page, clicks, impressions) in [
            ("alone", "/a", 9.0, 900.0),
            ("small", "/b", 0.0, 9.0),
            ("both", "/a", 1.0, 20.0),
            ("both", "/b", 5.0, 30.0),
            ("more", "/a", 2.0, 100.0),
            ("small", "/a", 5.0, 500.0),
            ("more", "/c", 2.0, 300.0),
        ] {
            let figures = Figures { clicks, impressions, ctr: clicks / impressions, position: Some(2.0) };
            rows.add([query, page].into_iter(), figures).unwrap();
        }
        let shown: Vec<String> = contests(&rows, 10.0, 2)
            .iter()
            .flat_map(|contest| contest.pages.iter())
            .map(|place| rows.values(*place as usize).collect::<String>())
            .collect();
        assert_eq!(shown, ["more/c", "more/a", "both/b", "both/a"]);
        assert_eq!(contests(&rows, 1.0, 2).len(), 3);
        assert!(contests(&rows, 1.0, 3).is_empty());
    }
}
