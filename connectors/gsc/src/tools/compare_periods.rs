//! `compare_periods`: the same question about two periods of one length, joined row by row.

use std::cmp::Reverse;

use acp_core::{Call, Cell, DateWindow, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_protocol::JsonObject;
use acp_protocol::result::{ColumnType, Header};
use jiff::civil::Date;
use jiff::{Span, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{SearchConsole, Site};
use crate::check::{Dimension, SearchType};
use crate::filters::{Filter, FilterDimension, Metric};
use crate::report::{
    Gather, METRICS, cell, counted, coverage, described, dimension_header, gaps, is_complete, metric_headers, question,
};
use crate::search::{Extracted, Figures, Query, WalkDays, extract};
use crate::store::RowStore;
use crate::window;

/// Days back from the last reliable one that make the usual period: four whole weeks, so that weekdays are the same.
const USUAL: i64 = 27;
/// Days between a period and the same one a year before: whole weeks, for the same reason.
const YEAR: i64 = 364;
/// Characters of the description: a filter can be long.
const DESCRIPTION_MAX: usize = 2_000;
const COLUMNS_MAX: usize = 5 + 15;

/// Compares two periods of one length and joins all rows: what is in one alone stays, with null (not 0) for the other. totals are Google's.
/// Final days only.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComparePeriods {
    /// Columns to group by; none: one row.
    #[serde(default)]
    dimensions: Vec<FilterDimension>,
    /// All must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    filters: Vec<Filter>,
    /// First day (YYYY-MM-DD, NdaysAgo). Default: 28 days in all.
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    /// Last day. Default: the last with reliable data.
    #[schemars(extend("x-acp-date" = "end"))]
    end_date: Option<String>,
    /// previous (default); year: 364 days before, so weekdays match.
    compare_to: Option<Preset>,
    /// Instead of compare_to: first day of the earlier period.
    compare_start_date: Option<String>,
    /// Its last day; the lengths must be equal.
    compare_end_date: Option<String>,
    /// Default web.
    search_type: Option<SearchType>,
    /// Which changes of clicks come first. Default largest.
    order: Option<Order>,
    /// Day by day gives more rows. auto: where some are missing.
    walk_days: Option<WalkDays>,
}

/// Which earlier period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Preset {
    Previous,
    Year,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Largest,
    Gains,
    Losses,
}

/// One of the two periods, extracted.
struct Side {
    query: Query,
    rows: RowStore,
    extracted: Extracted,
    totals: Option<Figures>,
}

/// A row of the answer: its place in each side.
#[derive(Clone, Copy)]
struct Joined {
    now: Option<u32>,
    before: Option<u32>,
}

impl Tool for ComparePeriods {
    type Source = SearchConsole;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "compare_periods",
        title: "Compare two periods",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, console: &SearchConsole, call: &Call) -> Result<Extraction> {
        let dimensions = self.dimensions.iter().map(|dimension| dimension.into()).collect();
        let search_type = *self.search_type.get_or_insert_default();
        let mut query = question(dimensions, &mut self.filters, search_type, call)?;
        let today = window::today(call.clock())?;
        let asked = self.asked_period(today)?;
        let site = console.site(call)?;
        let (start, end) = (self.start_date.as_deref(), self.end_date.as_deref());
        query.window = window::resolve_final(console, &site, call, start, end, USUAL.days()).await?;
        let earlier = self.earlier(query.window, asked)?;
        let available = console.available(&site, call).await?;
        if earlier.start < available.first {
            return Err(Error::invalid_arguments(format!(
                "Google keeps 16 months of data, from {} on; the earlier period begins on {}. Use later or shorter periods.",
                available.first, earlier.start
            )));
        }
        self.start_date = Some(query.window.start.to_string());
        self.end_date = Some(query.window.end.to_string());
        call.set_arguments(&self);

        let walk = self.walk_days.unwrap_or_default();
        let now = Side::read(&site, query.clone(), walk, call, "period").await?;
        let before =
            Side::read(&site, Query { window: earlier, ..query.clone() }, walk, call, "earlier period").await?;
        if now.extracted.rows > 0 && before.extracted.rows > 0 && now.extracted.counted != before.extracted.counted {
            return Err(Error::upstream(
                "Google counted the two periods in different ways, so they can't be compared. Ask again.",
            ));
        }
        let mut table = call.table(headers(&query.dimensions))?;
        join(&now, &before, self.order.unwrap_or_default(), &mut table)?;
        self.set_totals(&now, &before, &mut table)?;
        warn(&now, &before, call);
        Ok(self.answer(table, &site, &now, &before))
    }
}

impl ComparePeriods {
    /// The earlier period as it was given: its first day, and its last one if that was given too.
    fn asked_period(&self, today: Date) -> Result<Option<(Date, Option<Date>)>> {
        let day = |name: &str, text: &Option<String>| {
            text.as_deref().map(|text| DateWindow::day(name, text, today)).transpose()
        };
        let start = day("compare_start_date", &self.compare_start_date)?;
        let end = day("compare_end_date", &self.compare_end_date)?;
        match (start, end) {
            (None, None) => Ok(None),
            _ if self.compare_to.is_some() => Err(Error::invalid_arguments(
                "compare_to and compare_start_date name two earlier periods. Give one of them.",
            )),
            (None, Some(_)) => {
                Err(Error::invalid_arguments("compare_end_date needs compare_start_date. Give it, or use compare_to."))
            }
            (Some(start), end) => Ok(Some((start, end))),
        }
    }

    /// The period to compare with, as long as the other and before it.
    fn earlier(&self, window: DateWindow, asked: Option<(Date, Option<Date>)>) -> Result<DateWindow> {
        let length: Span = (window.days() - 1).days();
        let (start, end) = match (asked, self.compare_to) {
            (Some((start, end)), _) => (start, end),
            (None, Some(Preset::Year)) => (window.start.saturating_sub(YEAR.days()), None),
            (None, Some(Preset::Previous) | None) => (window.start.saturating_sub(window.days().days()), None),
        };
        let fitting = start.saturating_add(length);
        if let Some(end) = end.filter(|end| *end != fitting) {
            return Err(Error::invalid_arguments(format!(
                "The periods differ in length: {} to {} has {} days, so from {start} on compare_end_date must be {fitting}, not {end}.",
                window.start,
                window.end,
                window.days()
            )));
        }
        if fitting >= window.start {
            return Err(Error::invalid_arguments(format!(
                "The earlier period ({start} to {fitting}) must end before {}, where the other begins. Use earlier dates, a shorter period, or \
                 compare_to.",
                window.start
            )));
        }
        Ok(DateWindow { start, end: fitting })
    }

    fn set_totals(&self, now: &Side, before: &Side, table: &mut TableWriter) -> Result<()> {
        let (Some(now), Some(before)) = (&now.totals, &before.totals) else { return Ok(()) };
        let cells = compared(Some(now), Some(before));
        let headers = compared_headers();
        table.set_totals(headers.iter().map(|header| header.name.as_str()).zip(cells))
    }

    fn answer(&self, table: TableWriter, site: &Site, now: &Side, before: &Side) -> Extraction {
        let days = |side: &Side| json!([side.query.window.start.to_string(), side.query.window.end.to_string()]);
        let counted = counted(&now.query, &now.extracted);
        let mut extra = json!({
            "aggregation": counted,
            "days": now.query.window.days(),
            "period": {"dates": days(now)},
            "earlier_period": {"dates": days(before)},
        });
        for (name, side) in [("period", now), ("earlier_period", before)] {
            extra[name]["rows"] = json!(side.rows.len());
            extra[name]["complete"] = json!(side.is_complete());
            match coverage(&side.query, &side.extracted, side.totals.as_ref()) {
                Ok(coverage) => extra[name]["coverage"] = coverage,
                Err(reason) => extra[name]["coverage_unknown"] = json!(reason),
            }
        }
        let (window, earlier) = (now.query.window, before.query.window);
        let source =
            json!({"property": site.id, "api": "searchconsole.v1.searchanalytics.query", "aggregation": counted});
        Extraction::new(table, self.description(site, now, before))
            .title(format!(
                "Search Console {} · {}→{} vs {}→{}",
                site.id, window.start, window.end, earlier.start, earlier.end
            ))
            .dates([window.start, window.end, earlier.start, earlier.end])
            .extra(extra)
            .source(source.as_object().cloned().unwrap_or_else(JsonObject::new))
    }

    fn description(&self, site: &Site, now: &Side, before: &Side) -> String {
        let (window, earlier) = (now.query.window, before.query.window);
        let mut text = format!(
            "Search Console property {}. {} to {} compared with {} to {}. Search type: {}.",
            site.id,
            window.start,
            window.end,
            earlier.start,
            earlier.end,
            now.query.search_type.name()
        );
        if !now.query.dimensions.is_empty() {
            let names: Vec<&str> = now.query.dimensions.iter().map(|dimension| dimension.name()).collect();
            text.push_str(&format!(" Dimensions: {}.", names.join(", ")));
        }
        if !self.filters.is_empty() {
            text.push_str(&format!(" Filter: filters {}.", json!(self.filters)));
        }
        text.push_str(&format!(" Impressions counted {}. Days in Pacific time.", counted(&now.query, &now.extracted)));
        acp_google::clean(&text, DESCRIPTION_MAX)
    }
}

impl Side {
    /// Every row of a period, and Google's totals for it. A period of which a quota took days away can't be compared.
    async fn read(site: &Site, query: Query, walk: WalkDays, call: &Call, what: &'static str) -> Result<Self> {
        let mut gather = Gather::new(call, what, RowStore::half);
        let extracted = extract(site, &query, walk, &mut gather).await?;
        if let Some((_, error)) = extracted.stopped {
            return Err(error);
        }
        let totals = query
            .ask_totals(site, counted(&query, &extracted))
            .await
            .map_err(|failure| failure.into_acp(&site.context));
        let totals = totals.inspect_err(|why| call.warn(format!("Google's totals are missing: {}", why.message())));
        Ok(Self { rows: gather.rows, totals: totals.ok(), extracted, query })
    }

    fn is_complete(&self) -> bool {
        is_complete(&self.query, &self.extracted)
    }

    fn figures(&self, place: Option<u32>) -> Option<&Figures> {
        place.map(|place| self.rows.figures(place as usize))
    }
}

fn warn(now: &Side, before: &Side, call: &Call) {
    for (name, side) in [("Period", now), ("Earlier period", before)] {
        gaps(&side.query, &side.extracted).into_iter().for_each(|gap| call.warn(format!("{name}: {gap}")));
        if side.extracted.rows == 0 {
            call.warn(format!("{name}: there are no rows."));
        }
    }
    if !(now.is_complete() && before.is_complete()) {
        call.warn("Where a period is not complete, a row that is missing there has status null: it may only be below Google's bound.");
    }
    if now.query.dimensions.contains(&Dimension::Query) {
        call.warn(
            "Google never shows queries of few people: a new or lost query may have been hidden in the other period.",
        );
    }
}

/// All rows of both sides, each key once, in an order.
fn join(now: &Side, before: &Side, order: Order, table: &mut TableWriter) -> Result<()> {
    let of_now =
        (0..now.rows.len()).map(|place| Joined { now: Some(place as u32), before: before.rows.find(&now.rows, place) });
    let lost = (0..before.rows.len())
        .filter(|place| now.rows.find(&before.rows, *place).is_none())
        .map(|place| Joined { now: None, before: Some(place as u32) });
    let mut rows: Vec<Joined> = of_now.chain(lost).collect();
    let change = |row: &Joined, metric: Metric| {
        let value = |figures: Option<&Figures>| figures.and_then(|figures| figures.get(metric)).unwrap_or_default();
        (value(now.figures(row.now)) - value(before.figures(row.before))).round() as i64
    };
    rows.sort_by_key(|row| {
        let changes = [change(row, Metric::Clicks), change(row, Metric::Impressions)];
        match order {
            Order::Largest => changes.map(|change| Reverse(change.abs())),
            Order::Gains => changes.map(Reverse),
            Order::Losses => changes.map(|change| Reverse(-change)),
        }
    });
    let status = |row: &Joined| match (row.now, row.before) {
        (Some(_), Some(_)) => Cell::Text("both"),
        (Some(_), None) if before.is_complete() => Cell::Text("new"),
        (None, Some(_)) if now.is_complete() => Cell::Text("lost"),
        _ => Cell::Null,
    };
    let mut cells = Vec::with_capacity(COLUMNS_MAX);
    for row in &rows {
        cells.clear();
        match (row.now, row.before) {
            (Some(place), _) => cells.extend(now.rows.values(place as usize).map(Cell::Text)),
            (None, Some(place)) => cells.extend(before.rows.values(place as usize).map(Cell::Text)),
            (None, None) => {}
        }
        cells.extend(compared(now.figures(row.now), before.figures(row.before)));
        cells.push(status(row));
        table.push(&cells)?;
    }
    Ok(())
}

/// The metrics of a row, metric by metric: the period, the earlier one, the difference and for counts its share.
fn compared(now: Option<&Figures>, before: Option<&Figures>) -> Vec<Cell<'static>> {
    let mut cells = Vec::with_capacity(14);
    for (metric, _) in METRICS {
        let value = |figures: Option<&Figures>| figures.map_or(Cell::Null, |figures| cell(metric, figures));
        cells.extend([value(now), value(before)]);
        let number = |figures: Option<&Figures>| figures.and_then(|figures| figures.get(metric));
        let both = number(now).zip(number(before));
        if matches!(metric, Metric::Clicks | Metric::Impressions) {
            let both = both.map(|(now, before)| (now.round(), before.round()));
            cells.push(both.map_or(Cell::Null, |(now, before)| Cell::Integer((now - before) as i64)));
            let share = both.filter(|(_, before)| *before > 0.0);
            cells.push(share.map_or(Cell::Null, |(now, before)| Cell::Number((now - before) / before * 100.0)));
        } else {
            cells.push(both.map_or(Cell::Null, |(now, before)| Cell::Number(now - before)));
        }
    }
    cells
}

fn compared_headers() -> Vec<Header> {
    let mut headers = Vec::new();
    for header in metric_headers() {
        let name = header.name.clone();
        let like = |suffix: &str, column_type: ColumnType| Header::metric(format!("{name}_{suffix}"), column_type);
        let counts = header.column_type == ColumnType::Integer;
        let before = described(like("before", header.column_type), "In the earlier period; null: not in its rows");
        let difference = match name.as_str() {
            "position" => "position - position_before: negative is an improvement".to_owned(),
            _ => format!("{name} - {name}_before; null unless both are known"),
        };
        let diff = described(like("diff", header.column_type), &difference);
        headers.extend([header, before, diff]);
        if counts {
            headers.push(described(like("pct", ColumnType::Number), "Difference in per cent of the earlier period"));
        }
    }
    headers
}

fn headers(dimensions: &[Dimension]) -> Vec<Header> {
    let mut headers: Vec<Header> = dimensions.iter().map(|dimension| dimension_header(*dimension)).collect();
    headers.extend(compared_headers());
    headers.push(described(
        Header::dimension("status", ColumnType::String),
        "both; new: not in the earlier period; lost: only there; null: unknown, since the other period is not complete",
    ));
    headers
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use serde_json::Value;

    use super::*;

    fn tool(arguments: Value) -> ComparePeriods {
        serde_json::from_value(arguments).unwrap()
    }

    fn earlier(arguments: Value) -> Result<(String, String)> {
        let tool = tool(arguments);
        let window = DateWindow { start: date(2026, 3, 2), end: date(2026, 3, 8) };
        let earlier = tool.earlier(window, tool.asked_period(date(2026, 3, 12))?)?;
        Ok((earlier.start.to_string(), earlier.end.to_string()))
    }

    #[test]
    fn the_earlier_period_is_as_long_and_before() {
        for (arguments, start, end) in [
            (json!({}), "2026-02-23", "2026-03-01"),
            (json!({"compare_to": "previous"}), "2026-02-23", "2026-03-01"),
            (json!({"compare_to": "year"}), "2025-03-03", "2025-03-09"),
            (json!({"compare_start_date": "2026-01-05"}), "2026-01-05", "2026-01-11"),
            (json!({"compare_start_date": "2026-01-05", "compare_end_date": "20260111"}), "2026-01-05", "2026-01-11"),
            (json!({"compare_start_date": "17daysAgo"}), "2026-02-23", "2026-03-01"),
        ] {
            assert_eq!(earlier(arguments.clone()).unwrap(), (start.to_owned(), end.to_owned()), "{arguments}");
        }
    }

    #[test]
    fn periods_that_do_not_compare_are_refused_with_the_fix() {
        for (arguments, fix) in [
            (json!({"compare_start_date": "2026-01-05", "compare_end_date": "2026-01-12"}), "must be 2026-01-11"),
            (json!({"compare_start_date": "2026-02-24"}), "must end before 2026-03-02"),
            (json!({"compare_start_date": "2026-03-09"}), "must end before 2026-03-02"),
            (json!({"compare_start_date": "2026-01-05", "compare_to": "year"}), "Give one"),
            (json!({"compare_end_date": "2026-01-05"}), "needs compare_start_date"),
            (json!({"compare_start_date": "soon"}), "compare_start_date is not a date"),
        ] {
            let error = earlier(arguments.clone()).unwrap_err();
            assert!(error.message().contains(fix), "{arguments}: {error}");
        }
    }

    #[test]
    fn what_is_missing_on_one_side_is_null_and_not_zero() {
        let figures = Figures { clicks: 10.0, impressions: 100.0, ctr: 0.1, position: Some(4.0) };
        let names: Vec<String> = compared_headers().into_iter().map(|header| header.name).collect();
        let value = |cells: &[Cell<'static>], name: &str| cells[names.iter().position(|known| known == name).unwrap()];
        let new = compared(Some(&figures), None);
        assert_eq!(value(&new, "clicks"), Cell::Integer(10));
        for name in ["clicks_before", "clicks_diff", "clicks_pct", "position_before", "position_diff", "ctr_diff"] {
            assert_eq!(value(&new, name), Cell::Null, "{name}");
        }
        let nothing = Figures { clicks: 0.0, impressions: 50.0, ctr: 0.0, position: None };
        let both = compared(Some(&figures), Some(&nothing));
        assert_eq!(value(&both, "clicks_diff"), Cell::Integer(10));
        assert_eq!(value(&both, "clicks_pct"), Cell::Null, "there is no share of nothing");
        assert_eq!(value(&both, "impressions_pct"), Cell::Number(100.0));
        assert_eq!(value(&both, "position_diff"), Cell::Null);
    }
}
