//! `run_funnel_report`: how many users pass through steps, in their order (v1alpha).

use acp_core::{Call, Cell, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{ColumnHeader, FunnelReport, FunnelRequest, FunnelTable, Ga4};
use crate::fields::{Fields, Kind};
use crate::filters::{DimensionMatch, Filters, group_of, tree_of};
use crate::question::{self, Findings};
use crate::report::{PAGE_ROWS, check_kind};

const METHOD: &str = "analyticsdata.v1alpha.runFunnelReport";
/// How Google names the row of a breakdown that stands for all values.
const ALL_VALUES: &str = "RESERVED_TOTAL";
const STEP: &str = "funnelStepName";
const USERS: &str = "activeUsers";
/// What the table has beside users. None of it means anything at the last step.
const RATES: [(&str, ColumnType, &str); 3] = [
    (
        "funnelStepCompletionRate",
        ColumnType::Number,
        "Fraction 0-1 of the step's users who reach the next step; null at the last",
    ),
    ("funnelStepAbandonments", ColumnType::Integer, "Users of the step who do not reach the next; null at the last"),
    ("funnelStepAbandonmentRate", ColumnType::Number, "Fraction 0-1; null at the last step"),
];

/// Users who pass through steps in their order: completion and abandonment of each step, or users by day or by what they did next.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFunnelReport {
    /// In their order.
    #[schemars(length(max = 10))]
    steps: Vec<Step>,
    /// First day (YYYY-MM-DD, NdaysAgo). Default 28daysAgo.
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    /// Last day, included. Default yesterday.
    #[schemars(extend("x-acp-date" = "end"))]
    end_date: Option<String>,
    /// Enter at any step. Default: at the first only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    open: bool,
    /// Users of each step by day.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    trended: bool,
    /// What users of a step did next, instead of rates: eventName, pagePath or pageTitle.
    next_action: Option<String>,
    /// Dimension that splits each step.
    breakdown: Option<String>,
    /// Values of it. Default 5.
    #[schemars(range(min = 1, max = 15))]
    breakdown_limit: Option<u32>,
    /// Parts of the users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    segments: Vec<Segment>,
}

/// One step.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Default: the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Event name.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    /// As in run_report: field, match_type, value.
    #[serde(default, skip_serializing_if = "Filters::is_none")]
    filters: Filters,
    /// Since the step before.
    #[serde(skip_serializing_if = "Option::is_none")]
    within_seconds: Option<u32>,
    /// Nothing in between.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    directly: bool,
}

/// One part of the users.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Segment {
    /// Name.
    name: String,
    /// What a matching event brings in. Default user.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<Scope>,
    /// Event name.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    /// Conditions on the event.
    #[serde(default, skip_serializing_if = "Filters::is_none")]
    filters: Filters,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    User,
    Session,
    Event,
}

impl Tool for RunFunnelReport {
    type Source = Ga4;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "run_funnel_report",
        title: "Run a GA4 funnel report",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, ga4: &Ga4, call: &Call) -> Result<Extraction> {
        self.check_alone()?;
        let property = ga4.property(call)?;
        let fields = ga4.fields(&property).await?;
        let mut findings = Findings::default();
        self.check_names(&fields, &mut findings);
        findings.settle(call)?;
        let window = question::resolve_dates(&mut self.start_date, &mut self.end_date, ga4, &property, call).await?;
        call.set_arguments(&self);

        let request = FunnelRequest {
            date_ranges: vec![question::date_range(window)],
            funnel: json!({
                "isOpenFunnel": self.open,
                "steps": self.steps.iter().enumerate().map(Step::request).collect::<Result<Vec<Value>>>()?,
            }),
            funnel_breakdown: self
                .breakdown
                .as_ref()
                .map(|name| json!({"breakdownDimension": {"name": name}, "limit": self.breakdown_limit.unwrap_or(5)})),
            funnel_next_action: self.next_action.as_ref().map(|name| json!({"nextActionDimension": {"name": name}})),
            funnel_visualization_type: if self.trended { "TRENDED_FUNNEL" } else { "STANDARD_FUNNEL" },
            segments: self.segments.iter().map(Segment::request).collect::<Result<_>>()?,
            limit: PAGE_ROWS,
            return_property_quota: true,
        };
        let report: Result<FunnelReport, _> = property.ask("v1alpha", "runFunnelReport", &request).await;
        let report = report.map_err(|failure| failure.into_acp(&property.context))?;
        check_kind(&report.kind, "analyticsData#runFunnelReport")?;
        let answer = if self.is_drawn() { &report.funnel_visualization } else { &report.funnel_table };

        let columns = self.columns(answer, &fields)?;
        let mut table = call.table(columns.iter().map(|column| column.header.clone()).collect())?;
        self.fill(answer, &columns, &mut table, call)?;
        question::warn(&answer.metadata, window, call);
        // Funnels don't tell the zone.
        if let Ok(zone) = ga4.time_zone(&property).await {
            question::warn_today(&zone, window, call);
        }
        let names: Vec<String> =
            (0..self.steps.len()).map(|place| format!("{}. {}", place + 1, self.steps[place].name())).collect();
        let parts = [
            ("Funnel", format!("{}, {}", if self.open { "open" } else { "closed" }, names.join(", "))),
            ("Trended", if self.trended { "users by day".to_owned() } else { String::new() }),
            ("Next action", self.next_action.clone().unwrap_or_default()),
            ("Breakdown", self.breakdown.clone().unwrap_or_default()),
            ("Segments", self.segments.iter().map(|segment| segment.name.as_str()).collect::<Vec<_>>().join(", ")),
            ("Users", "Google's estimates, each counted once in a step".to_owned()),
        ];
        Ok(Extraction::new(table, question::describe(&property, &parts, &answer.metadata))
            .title(format!("GA4 {} funnel · {}→{}", property.id, window.start, window.end))
            .dates([window.start, window.end])
            .extra(json!({"quota": report.property_quota}))
            .source(question::source(&property, METHOD, &report.property_quota)))
    }
}

/// A column, and where Google's rows have it.
struct Column {
    header: Header,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The number and the name of the step are one text.
    StepNumber(usize),
    StepName(usize),
    Dimension(usize),
    Metric(usize),
    /// A metric that has no meaning at the last step.
    Rate(usize),
}

impl RunFunnelReport {
    /// What is wrong whatever the property has.
    fn check_alone(&mut self) -> Result<()> {
        let refuse = |why: String| Err(Error::invalid_arguments(why));
        if self.steps.is_empty() {
            return refuse("Give steps, such as [{\"event\": \"view_item\"}, {\"event\": \"purchase\"}].".to_owned());
        }
        for (place, step) in self.steps.iter_mut().enumerate() {
            let number = place + 1;
            step.event = step.event.take().filter(|event| !event.is_empty());
            if step.event.is_none() && step.filters.is_empty() {
                return refuse(format!("Step {number} has no condition. Give it an event, filters or both."));
            }
            if place == 0 && (step.directly || step.within_seconds.is_some()) {
                return refuse(
                    "The first step has no step before it: leave directly and within_seconds out there.".to_owned(),
                );
            }
            check_filters(&step.filters, &format!("step {number}"))?;
        }
        for (place, segment) in self.segments.iter_mut().enumerate() {
            segment.name = acp_google::clean(&segment.name, 60);
            segment.event = segment.event.take().filter(|event| !event.is_empty());
            if segment.name.is_empty() || (segment.event.is_none() && segment.filters.is_empty()) {
                return refuse(format!("Segment {} needs a name, and an event, filters or both.", place + 1));
            }
            check_filters(&segment.filters, &format!("segment {:?}", segment.name))?;
        }
        let names: Vec<&str> = self.segments.iter().map(|segment| segment.name.as_str()).collect();
        if let Some(twice) = (1..names.len()).find(|place| names[..*place].contains(&names[*place])) {
            return refuse(format!("Two segments are called {:?}. Give each a name of its own.", names[twice]));
        }
        let ways = [self.breakdown.is_some(), self.trended, self.next_action.is_some()];
        if ways.into_iter().filter(|asked| *asked).count() > 1 {
            return refuse(
                "A funnel has a breakdown, is trended or tells the next action: ask for one of these at a time, or use segments.".to_owned(),
            );
        }
        if self.breakdown.is_none() && self.breakdown_limit.is_some() {
            return refuse("breakdown_limit goes with breakdown: name the dimension.".to_owned());
        }
        Ok(())
    }

    fn check_names(&mut self, fields: &Fields, findings: &mut Findings) {
        for step in &mut self.steps {
            question::resolve_filters(fields, &mut step.filters, findings);
        }
        for segment in &mut self.segments {
            question::resolve_filters(fields, &mut segment.filters, findings);
        }
        if let Some(name) = &mut self.breakdown {
            question::resolve(fields, Kind::Dimension, name, findings);
        }
        if let Some(name) = &mut self.next_action {
            question::resolve(fields, Kind::Dimension, name, findings);
        }
    }

    /// Whether the answer is the funnel as it is drawn, which has users alone.
    fn is_drawn(&self) -> bool {
        self.trended || self.next_action.is_some()
    }

    /// The columns, found by name: Google announces the metrics of the table twice, and has them once in each row.
    fn columns(&self, table: &FunnelTable, fields: &Fields) -> Result<Vec<Column>> {
        let missing = |what: &str| {
            Error::upstream(format!(
                "Google's funnel has no column {what}. Run it again; if it happens again, update the connector."
            ))
        };
        let metric = |name: &str| {
            table.metric_headers.iter().position(|header| header.name == name).ok_or_else(|| missing(name))
        };
        let dimension = |name: &str| table.dimension_headers.iter().position(|header| header.name == name);
        let described = |header: Header, text: &str| Header { description: Some(text.to_owned()), ..header };
        let step = dimension(STEP).ok_or_else(|| missing(STEP))?;
        let mut columns = vec![
            Column {
                header: Header {
                    role: Some(ColumnRole::Dimension),
                    ..described(Header::dimension("step", ColumnType::Integer), "Number of the step")
                },
                place: Place::StepNumber(step),
            },
            Column { header: Header::dimension("step_name", ColumnType::String), place: Place::StepName(step) },
        ];
        if !self.segments.is_empty() {
            // Its name is not documented: it is what is neither step, breakdown nor day.
            let others = [Some(STEP), self.breakdown.as_deref(), self.next_action.as_deref(), Some("date")];
            let is_other = |name: &str| others.contains(&Some(name)) || name.ends_with("NextAction");
            let unknown = || table.dimension_headers.iter().position(|header| !is_other(&header.name));
            let place = dimension("segment").or_else(unknown).ok_or_else(|| missing("segment"))?;
            columns.push(Column {
                header: Header::dimension("segment", ColumnType::String),
                place: Place::Dimension(place),
            });
        }
        if let Some(name) = &self.breakdown {
            let place = dimension(name).ok_or_else(|| missing(name))?;
            let header = described(fields.header(Kind::Dimension, name), "Null: all values together");
            columns.push(Column { header, place: Place::Dimension(place) });
        }
        if self.trended {
            let place = dimension("date").ok_or_else(|| missing("date"))?;
            let header = described(Header::dimension("date", ColumnType::Date), "Day of the first event of the step");
            columns.push(Column { header, place: Place::Dimension(place) });
        }
        if let Some(name) = &self.next_action {
            let is_it = |header: &ColumnHeader| header.name == *name || header.name.ends_with("NextAction");
            let place = table.dimension_headers.iter().position(is_it).ok_or_else(|| missing("of the next action"))?;
            let text = format!(
                "{name} of the event that came next, unless it took the user to the next step; the five most frequent. Null: all users of the step"
            );
            let header = described(Header::dimension("next_action", ColumnType::String), &text);
            columns.push(Column { header, place: Place::Dimension(place) });
        }
        let users = described(Header::metric(USERS, ColumnType::Integer), "Users at the step; not additive");
        columns.push(Column { header: users, place: Place::Metric(metric(USERS)?) });
        if !self.is_drawn() {
            for (name, column_type, text) in RATES {
                let header = described(Header::metric(name, column_type), text);
                columns.push(Column { header, place: Place::Rate(metric(name)?) });
            }
        }
        Ok(columns)
    }

    fn fill(&self, answer: &FunnelTable, columns: &[Column], table: &mut TableWriter, call: &Call) -> Result<()> {
        let unreadable =
            || Error::upstream("A row of Google's funnel does not have the columns that were announced. Run it again.");
        if answer.rows.len() as u64 >= PAGE_ROWS {
            return Err(Error::invalid_arguments(
                "The funnel has too many rows for one answer. Use fewer days or segments.",
            ));
        }
        let mut seen = vec![false; self.steps.len()];
        for row in &answer.rows {
            let dimension =
                |place: usize| row.dimension_values.get(place).map(|value| value.value.as_str()).ok_or_else(unreadable);
            let metric =
                |place: usize| row.metric_values.get(place).map(|value| value.value.as_str()).ok_or_else(unreadable);
            let mut cells = Vec::with_capacity(columns.len());
            let mut last = false;
            for column in columns {
                cells.push(match column.place {
                    Place::StepNumber(place) | Place::StepName(place) => {
                        let number =
                            dimension(place)?.split_once('.').and_then(|(number, _)| number.parse::<usize>().ok());
                        let number =
                            number.filter(|number| (1..=self.steps.len()).contains(number)).ok_or_else(unreadable)?;
                        seen[number - 1] = true;
                        last = number == self.steps.len();
                        match column.place {
                            Place::StepNumber(_) => Cell::Integer(number as i64),
                            _ => Cell::Text(self.steps[number - 1].name()),
                        }
                    }
                    Place::Dimension(place) => match dimension(place)? {
                        ALL_VALUES => Cell::Null,
                        value => Cell::Text(value),
                    },
                    Place::Metric(place) => Cell::Text(metric(place)?),
                    Place::Rate(place) => match metric(place)? {
                        "" => Cell::Null,
                        _ if last => Cell::Null,
                        value => Cell::Text(value),
                    },
                });
            }
            table.push(&cells)?;
        }
        for (place, step) in self.steps.iter().enumerate().filter(|(place, _)| !seen[*place]) {
            call.warn(format!("Google has no row for step {} ({}): nobody reached it.", place + 1, step.name()));
        }
        Ok(())
    }
}

/// Funnels and segments have no test for empty values.
fn check_filters(filters: &Filters, place: &str) -> Result<()> {
    if filters.iter().any(|filter| filter.match_type == DimensionMatch::Empty) {
        return Err(Error::invalid_arguments(format!(
            "A filter of {place} is EMPTY, which funnels do not have. Use EXACT with \"(not set)\"."
        )));
    }
    tree_of("funnelFieldFilter", filters)?;
    Ok(())
}

impl Step {
    fn name(&self) -> &str {
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        name.or(self.event.as_deref()).or(self.filters.first().map(|filter| filter.field.as_str())).unwrap_or_default()
    }

    fn request((place, step): (usize, &Self)) -> Result<Value> {
        let event = step.event.as_ref().map(|name| json!({"funnelEventFilter": {"eventName": name}}));
        let conditions = event.into_iter().chain(tree_of("funnelFieldFilter", &step.filters)?).collect();
        let mut request = json!({"name": step.name(), "filterExpression": group_of("andGroup", conditions)});
        if place > 0 && step.directly {
            request["isDirectlyFollowedBy"] = json!(true);
        }
        if let Some(seconds) = step.within_seconds {
            request["withinDurationFromPriorStep"] = json!(format!("{seconds}s"));
        }
        Ok(request)
    }
}

impl Segment {
    fn request(&self) -> Result<Value> {
        let event = self.event.as_ref().map(|name| json!({"segmentEventFilter": {"eventName": name}}));
        let conditions = event.into_iter().chain(tree_of("segmentFilter", &self.filters)?).collect();
        let (kind, criteria, scoping) = match self.scope.unwrap_or_default() {
            Scope::User => ("userSegment", "userInclusionCriteria", "USER_CRITERIA_WITHIN_SAME_EVENT"),
            Scope::Session => ("sessionSegment", "sessionInclusionCriteria", "SESSION_CRITERIA_WITHIN_SAME_EVENT"),
            Scope::Event => ("eventSegment", "eventInclusionCriteria", "EVENT_CRITERIA_WITHIN_SAME_EVENT"),
        };
        let group = json!({"conditionScoping": scoping, "segmentFilterExpression": group_of("andGroup", conditions)});
        Ok(json!({"name": self.name, kind: {criteria: {"andConditionGroups": [group]}}}))
    }
}
