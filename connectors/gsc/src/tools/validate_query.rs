//! `validate_query`: whether Google can answer a question, and what it will count, without asking Google.

use acp_core::{Call, DateWindow, Hints, Info, Result, Tool, ToolSpec, read_arguments, repaired_arguments};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::SearchConsole;
use crate::check::{Aggregation, Combination, DataState, Dimension};
use crate::filters::FilterDimension;
use crate::report::LONG_WINDOW;
use crate::search::{DAY_ROWS, QUERY_DAY_ROWS};
use crate::tools::search_analytics::SearchAnalytics;
use crate::window::{self, Bounds};

/// Checks a search_analytics question without asking Google: what is not possible, with the fix; filters as they are sent; how impressions are
/// counted; what rows leave out.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateQuery {
    /// The arguments of search_analytics.
    arguments: Map<String, Value>,
}

impl Tool for ValidateQuery {
    type Source = SearchConsole;
    type Answer = Info;
    const SPEC: ToolSpec = ToolSpec {
        name: "validate_query",
        title: "Check a question",
        resource: false,
        credentials: false,
        hints: Hints::READS_LOCAL,
    };

    async fn run(mut self, _: &SearchConsole, call: &Call) -> Result<Info> {
        // The rules are the same for every property.
        self.arguments.shift_remove("resource_id");
        let read = repaired_arguments::<SearchAnalytics>(self.arguments.clone())
            .and_then(|repaired| Ok((repairs(&self.arguments, &repaired), read_arguments(repaired)?)));
        let (repairs, mut question): (Vec<String>, SearchAnalytics) = match read {
            Ok(read) => read,
            Err(problem) => return Ok(Info(json!({"valid": false, "problems": [problem.message()]}))),
        };
        let hourly = question.dimensions.contains(&Dimension::Hour);
        let usual_state = if hourly { DataState::HourlyAll } else { DataState::Final };
        let data_state = question.data_state.unwrap_or(usual_state);
        let mut problems: Vec<String> = Vec::new();
        for filter in &mut question.filters {
            problems.extend(filter.normalise(call).err().map(|error| error.message().to_owned()));
        }
        let combination = Combination {
            dimensions: &question.dimensions,
            filters: &question.filters,
            search_type: question.search_type.unwrap_or_default(),
            aggregation: question.aggregation.unwrap_or_default(),
            data_state,
        };
        problems.extend(combination.problems());
        problems.extend(question.order().err().map(|error| error.message().to_owned()));
        let bounds = Bounds { start: question.start_date.as_deref(), end: question.end_date.as_deref(), data_state };
        let window = window::expected(call, bounds);
        problems.extend(window.as_ref().err().map(|error| error.message().to_owned()));
        Ok(Info(match window.ok().filter(|_| problems.is_empty()) {
            None => json!({"valid": false, "problems": problems, "repairs": repairs}),
            Some(window) => json!({
                "valid": true,
                "impressions_counted": combination.counted().name(),
                "dates": [window.start.to_string(), window.end.to_string()],
                "filters_sent": question.filters,
                "repairs": repairs,
                "notes": notes(&combination, window),
            }),
        }))
    }
}

/// What search_analytics reads in another way than it was written.
fn repairs(written: &Map<String, Value>, read: &Map<String, Value>) -> Vec<String> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let repair = |(name, value): (&String, &Value)| {
        let (known, as_read) = read.iter().find(|(known, _)| plain(known) == plain(name))?;
        let renamed = (known != name).then(|| format!("{name} is read as {known}"));
        let changed = (as_read != value).then(|| format!("{known} is read as {as_read}"));
        let told: Vec<String> = renamed.into_iter().chain(changed).collect();
        (!told.is_empty()).then(|| format!("{}.", acp_google::clean(&told.join(", "), 500)))
    };
    written.iter().filter_map(repair).collect()
}

/// What a valid question will leave out, or count in another way than people expect.
fn notes(combination: &Combination<'_>, window: DateWindow) -> Vec<String> {
    let groups = |dimension: Dimension| combination.dimensions.contains(&dimension);
    let filters = |dimension: FilterDimension| combination.filters.iter().any(|filter| filter.dimension == dimension);
    let mut notes = vec![
        "dates assume that data are final after 3 days and are cut to what Google keeps; the extraction measures the last reliable day."
            .to_owned(),
    ];
    if combination.counted() == Aggregation::ByPage {
        notes.push(
            "Impressions are counted by page: a search that shows two pages counts twice. Do not compare with figures counted byProperty."
                .to_owned(),
        );
    }
    if groups(Dimension::Query) {
        notes.push("Rows leave anonymised queries out; totals count them.".to_owned());
    }
    if filters(FilterDimension::Query) {
        notes.push("A filter on query takes anonymised queries out of the totals too.".to_owned());
    }
    if groups(Dimension::Query)
        && !combination.dimensions.iter().any(|dimension| !matches!(dimension, Dimension::Query | Dimension::Date))
    {
        notes.push(format!("Query alone has at most {QUERY_DAY_ROWS} rows a day; a second dimension gives more."));
    } else if !combination.dimensions.is_empty() {
        notes.push(format!("At most {DAY_ROWS} rows a day; walk_days always gets them for each day of the window."));
    }
    if window.days() > LONG_WINDOW && groups(Dimension::Query) {
        notes.push("Google leaves rare queries out of long windows; walk_days always gives more of them.".to_owned());
    }
    if combination.search_type.is_feed() {
        notes.push(format!("{} has no position: it is null.", combination.search_type.name()));
    }
    if combination.data_state != DataState::Final {
        notes.push(
            "Fresh data are not complete: is_incomplete marks them where date or hour is a dimension.".to_owned(),
        );
    }
    notes
}
