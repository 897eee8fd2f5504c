//! What every table of search performance has: its columns, Google's totals, and what is missing in its rows.

use acp_core::{Call, Cell, DateWindow, Result};
use acp_protocol::result::{ColumnType, Header};
use jiff::civil::Date;
use serde_json::{Value, json};

use crate::api::{Row, Site};
use crate::check::{Aggregation, DataState, Dimension, SearchType};
use crate::filters::{Filter, Metric};
use crate::search::{DAY_ROWS, Extracted, Figures, QUERY_DAY_ROWS, Query, Sink};
use crate::store::RowStore;

/// Days after which Google has been seen to leave rare queries out.
pub(crate) const LONG_WINDOW: i32 = 92;
/// The metrics, in the order of their columns.
pub(crate) const METRICS: [(Metric, &str); 4] = [
    (Metric::Clicks, "clicks"),
    (Metric::Impressions, "impressions"),
    (Metric::Ctr, "ctr"),
    (Metric::Position, "position"),
];

/// A question about final days whose window is not known yet, checked before anything is asked.
pub(crate) fn question(
    dimensions: Vec<Dimension>,
    filters: &mut [Filter],
    search_type: SearchType,
    call: &Call,
) -> Result<Query> {
    filters.iter_mut().try_for_each(|filter| filter.normalise(call))?;
    let query = Query {
        dimensions,
        filters: filters.to_vec(),
        search_type,
        aggregation: Aggregation::Auto,
        data_state: DataState::Final,
        window: DateWindow { start: Date::ZERO, end: Date::ZERO },
    };
    query.combination().check()?;
    Ok(query)
}

/// Gathers rows in memory; the figures of a key that comes on several days are joined.
pub(crate) struct Gather<'a> {
    call: &'a Call,
    /// What is being read, for progress.
    what: &'static str,
    empty: fn() -> RowStore,
    pub(crate) rows: RowStore,
}

impl<'a> Gather<'a> {
    /// `empty` makes the store.
    pub(crate) fn new(call: &'a Call, what: &'static str, empty: fn() -> RowStore) -> Self {
        Self { call, what, empty, rows: empty() }
    }
}

impl Sink for Gather<'_> {
    fn begin(&mut self, _: bool) -> Result<()> {
        self.rows = (self.empty)();
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>, figures: &Figures) -> Result<()> {
        self.rows.add(row.keys.iter().map(|key| &*key.0), *figures)
    }

    fn progress(&mut self, done: u64, total: Option<u64>, message: String) {
        self.call.progress(done, total, format!("{}: {message}", self.what));
    }
}

/// The column of a dimension.
pub(crate) fn dimension_header(dimension: Dimension) -> Header {
    match dimension {
        Dimension::Date => described(Header::dimension("date", ColumnType::Date), "Day in Pacific time"),
        Dimension::Hour => described(Header::dimension("hour", ColumnType::Datetime), "Hour in Pacific time"),
        Dimension::Country => described(
            Header::dimension("country", ColumnType::String),
            "ISO 3166 alpha-3 in lower case; zzz is unknown",
        ),
        other => Header::dimension(other.name(), ColumnType::String),
    }
}

/// The columns of the metrics.
pub(crate) fn metric_headers() -> [Header; 4] {
    [
        Header::metric("clicks", ColumnType::Integer),
        Header::metric("impressions", ColumnType::Integer),
        described(Header::metric("ctr", ColumnType::Number), "Fraction 0-1"),
        described(Header::metric("position", ColumnType::Number), "Average position weighted by impressions"),
    ]
}

/// A column with its description.
pub(crate) fn described(header: Header, text: &str) -> Header {
    Header { description: Some(text.to_owned()), ..header }
}

/// A metric as a cell: counts are whole numbers, which the API writes as fractions.
pub(crate) fn cell(metric: Metric, figures: &Figures) -> Cell<'static> {
    match metric {
        Metric::Clicks => Cell::Integer(figures.clicks.round() as i64),
        Metric::Impressions => Cell::Integer(figures.impressions.round() as i64),
        Metric::Ctr => Cell::Number(figures.ctr),
        Metric::Position => figures.position.map_or(Cell::Null, Cell::Number),
    }
}

/// How impressions were counted; where there is no row to tell, how they are counted by the rules.
pub(crate) fn counted<'a>(query: &Query, extracted: &'a Extracted) -> &'a str {
    match extracted.counted.as_str() {
        "" => query.combination().counted().name(),
        counted => counted,
    }
}

/// Why rows are missing, where they are: one sentence each, with what to do.
pub(crate) fn gaps(query: &Query, extracted: &Extracted) -> Vec<String> {
    let mut gaps = Vec::new();
    if let Some((day, error)) = &extracted.stopped {
        gaps.push(format!(
            "PARTIAL: a quota ended the extraction. Days from {day} to {} are missing. {}",
            query.window.end,
            error.message()
        ));
    }
    if let Some(first) = extracted.capped.first() {
        let days = extracted.capped.len();
        gaps.push(match (query.is_queries_alone(), extracted.walked || query.window.days() == 1) {
            (true, _) => format!(
                "Google gives at most {QUERY_DAY_ROWS} rows a day when query stands alone, and that bound was reached: queries are \
                 missing. A second dimension, such as country or page, gives more of them."
            ),
            (false, true) => format!(
                "Google gives at most {DAY_ROWS} rows a day, and that bound was reached on {days} day(s), first on {first}: rows below \
                 it are missing. A property of a sub-folder has a bound of its own."
            ),
            (false, false) => format!(
                "Google gives at most {DAY_ROWS} top rows for several days together, and that bound was reached: rows are missing. \
                 walk_days always gives more."
            ),
        });
    } else if is_thinned(query, extracted) {
        gaps.push("Google leaves rare queries out of long windows. A shorter window gives more of them, and so does walk_days always in search_analytics.".to_owned());
    }
    gaps
}

/// Whether Google may have left rare rows out, because so many days were asked for at once.
fn is_thinned(query: &Query, extracted: &Extracted) -> bool {
    !extracted.walked && query.window.days() > LONG_WINDOW && query.dimensions.contains(&Dimension::Query)
}

/// Whether the rows are all that Google shows of these days; anonymised queries are never shown.
pub(crate) fn is_complete(query: &Query, extracted: &Extracted) -> bool {
    extracted.stopped.is_none() && extracted.capped.is_empty() && !is_thinned(query, extracted)
}

/// What the rows do not cover of Google's totals, or why that can't be known.
pub(crate) fn coverage(query: &Query, extracted: &Extracted, totals: Option<&Figures>) -> Result<Value, &'static str> {
    let Some(totals) = totals else { return Err("Google's totals are missing.") };
    if extracted.stopped.is_some() {
        return Err("Days are missing, because a quota ended the extraction.");
    }
    if query.filters_queries() {
        return Err(
            "A filter on query takes anonymised queries out of the totals too; without it they are in the totals.",
        );
    }
    if query.dimensions == [Dimension::SearchAppearance] {
        return Err("One result can have several search appearances, so rows overlap.");
    }
    let rows = &extracted.sums;
    if rows.clicks.round() > totals.clicks.round() || rows.impressions.round() > totals.impressions.round() {
        return Err("Rows count more than the totals: one result can be in several rows.");
    }
    let part = |rows: f64, total: f64| {
        let share = if total > 0.0 { ((rows / total) * 10_000.0).round() / 10_000.0 } else { 1.0 };
        json!({
            "in_rows": rows.round() as i64, "total": total.round() as i64,
            "not_in_rows": (total.round() - rows.round()) as i64, "share_in_rows": share,
        })
    };
    Ok(json!({
        "clicks": part(rows.clicks, totals.clicks),
        "impressions": part(rows.impressions, totals.impressions),
    }))
}

/// Why there are no rows, as far as one small question tells; `unfiltered` are totals without any filter, where they are known.
pub(crate) async fn explain_nothing(
    site: &Site,
    query: &Query,
    totals: Option<&Figures>,
    unfiltered: Option<Figures>,
) -> String {
    let name = query.search_type.name();
    let Some(totals) = totals else {
        return "There is no row, and Google's totals could not be read, so the reason is not known. Ask again."
            .to_owned();
    };
    let shown = totals.impressions;
    if shown > 0.0 {
        return format!(
            "No row, although Google counts {shown} impressions: they are anonymised or have no value of these dimensions. Group by page, \
             country or date instead."
        );
    }
    let no_traffic = format!("There is no {name} traffic in this window. Try other dates or another search_type.");
    if query.filters.is_empty() {
        return no_traffic;
    }
    let ask = async {
        let whole = Query { filters: Vec::new(), aggregation: Aggregation::Auto, ..query.clone() };
        whole.ask_totals(site, whole.combination().counted().name()).await.ok()
    };
    let unfiltered = match unfiltered {
        Some(unfiltered) => Some(unfiltered),
        None => ask.await,
    };
    let Some(unfiltered) = unfiltered else {
        return "No row matches. Whether the filters or the window are the reason could not be found out.".to_owned();
    };
    let without = unfiltered.impressions;
    match without > 0.0 {
        true => format!(
            "The filters match nothing; without them there are {without} impressions. Check exact values: page equals needs the whole \
             address as Google stores it, query equals the whole query in lower case."
        ),
        false => no_traffic,
    }
}
