//! `runFunnelReport` (v1alpha): how many users pass through steps, in their order.
//!
//! A user is at a step with the first event that takes them there. In a closed funnel only a path from the first step
//! leads to a later one; in an open one every matching event does.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::catalogue::Catalogue;
use super::columns::Column;
use super::dates;
use super::engine::Matcher;
use super::number;
use super::report::cell;
use super::request::{
    DateRange, Filter, TESTS, Test, enum_value, expression, filter_at, leaf, missing_filter, ranges, test,
    unknown_field,
};
use crate::clock::{self, MICROS};
use crate::google_error::GoogleError;
use crate::message::Fields;
use crate::world::Property;

type Result<T> = std::result::Result<T, GoogleError>;

const MAX_STEPS: usize = 10;
const MAX_SEGMENTS: usize = 4;
const MAX_BREAKDOWN: i64 = 15;
const MAX_NEXT_ACTIONS: i64 = 5;
/// What can be a next action: the event and where it happened.
const NEXT_ACTIONS: [&str; 5] = ["eventName", "pagePath", "pagePathPlusQueryString", "pageTitle", "unifiedScreenName"];

/// A funnel request, checked for form.
pub(crate) struct Request {
    ranges: Vec<DateRange>,
    open: bool,
    steps: Vec<Step>,
    breakdown: Option<(String, usize)>,
    next_action: Option<(String, usize)>,
    trended: bool,
    segments: Vec<Segment>,
    filter: Option<Filter>,
    limit: usize,
    pub(crate) return_quota: bool,
}

struct Step {
    name: String,
    directly: bool,
    /// Microseconds since the step before, at most.
    within: Option<i64>,
    filter: Filter,
}

struct Segment {
    name: String,
    scope: Scope,
    filter: Filter,
}

/// What an event that matches brings into a segment.
#[derive(Clone, Copy)]
enum Scope {
    User,
    Session,
    Event,
}

impl Request {
    pub(crate) fn read(value: &Value) -> Result<Self> {
        const KEYS: [&str; 10] = [
            "property",
            "dateRanges",
            "funnel",
            "funnelBreakdown",
            "funnelNextAction",
            "funnelVisualizationType",
            "segments",
            "limit",
            "dimensionFilter",
            "returnPropertyQuota",
        ];
        let fields = Fields::new(value, "", &KEYS)?;
        let funnel = fields.get("funnel").ok_or_else(|| GoogleError::invalid("A funnel is required."))?;
        let funnel = Fields::new(funnel, "funnel", &["isOpenFunnel", "steps"])?;
        let steps =
            funnel.list("steps")?.into_iter().map(|(value, path)| step(value, &path)).collect::<Result<Vec<_>>>()?;
        if steps.is_empty() || steps.len() > MAX_STEPS {
            return Err(GoogleError::invalid(format!(
                "Funnels have 1 to {MAX_STEPS} steps. This request has {}.",
                steps.len()
            )));
        }
        let segments = fields
            .list("segments")?
            .into_iter()
            .map(|(value, path)| segment(value, &path))
            .collect::<Result<Vec<_>>>()?;
        if segments.len() > MAX_SEGMENTS {
            return Err(GoogleError::invalid(format!("Requests are limited to {MAX_SEGMENTS} segments.")));
        }
        let breakdown = fields
            .get("funnelBreakdown")
            .map(|value| split(value, "funnelBreakdown", "breakdownDimension", MAX_BREAKDOWN))
            .transpose()?;
        let next_action = fields
            .get("funnelNextAction")
            .map(|value| split(value, "funnelNextAction", "nextActionDimension", MAX_NEXT_ACTIONS))
            .transpose()?;
        if let Some((name, _)) = next_action.as_ref().filter(|(name, _)| !NEXT_ACTIONS.contains(&name.as_str())) {
            return Err(GoogleError::invalid(format!("{name} is not a valid next action dimension.")));
        }
        let kinds = [("STANDARD_FUNNEL", false), ("TRENDED_FUNNEL", true)];
        let trended = enum_value(&fields, "funnelVisualizationType", &kinds, false)?;
        if trended && next_action.is_some() {
            return Err(GoogleError::unsupported("a trended funnel with the next action"));
        }
        Ok(Self {
            ranges: ranges(&fields)?,
            open: funnel.flag("isOpenFunnel")?,
            steps,
            breakdown,
            next_action,
            trended,
            segments,
            filter: filter_at(&fields, "dimensionFilter")?,
            limit: fields
                .integer("limit")?
                .and_then(|limit| usize::try_from(limit).ok())
                .filter(|limit| *limit > 0)
                .unwrap_or(10_000),
            return_quota: fields.flag("returnPropertyQuota")?,
        })
    }
}

fn step(value: &Value, path: &str) -> Result<Step> {
    const KEYS: [&str; 4] = ["name", "isDirectlyFollowedBy", "withinDurationFromPriorStep", "filterExpression"];
    let fields = Fields::new(value, path, &KEYS)?;
    let at = fields.at("filterExpression");
    let filter = fields.get("filterExpression").ok_or_else(missing_filter)?;
    Ok(Step {
        name: fields.text("name")?.unwrap_or_default(),
        directly: fields.flag("isDirectlyFollowedBy")?,
        within: fields.text("withinDurationFromPriorStep")?.map(|text| duration(&fields, &text)).transpose()?,
        filter: expression(
            filter,
            &at,
            0,
            &["funnelFieldFilter", "funnelEventFilter"],
            &|kind, value, at| match kind {
                "funnelFieldFilter" => leaf(value, at, &TESTS[..4]),
                _ => event_filter(value, at, "funnelParameterFilterExpression"),
            },
        )?,
    })
}

/// A protobuf duration in JSON: seconds, with up to nine decimals, and an `s`.
fn duration(fields: &Fields<'_>, text: &str) -> Result<i64> {
    let seconds = text.strip_suffix('s').and_then(|seconds| seconds.parse::<f64>().ok()).filter(|s| s.is_finite());
    let seconds = seconds.ok_or_else(|| {
        fields.bad("withinDurationFromPriorStep", "type.googleapis.com/google.protobuf.Duration", &json!(text))
    })?;
    Ok((seconds * MICROS as f64) as i64)
}

/// Events of one name, with conditions on their parameters.
fn event_filter(value: &Value, path: &str, parameters: &str) -> Result<Filter> {
    let fields = Fields::new(value, path, &["eventName", parameters])?;
    let name = fields.text("eventName")?.ok_or_else(|| GoogleError::invalid("An event name is required."))?;
    let named = Filter::Leaf { field: "eventName".into(), test: Test::Exact(name, true) };
    let Some(inner) = fields.get(parameters) else { return Ok(named) };
    let inner = expression(inner, &fields.at(parameters), 0, &["funnelParameterFilter"], &|_, value, at| {
        let mut known = vec!["eventParameterName", "itemParameterName"];
        known.extend(&TESTS[..4]);
        let fields = Fields::new(value, at, &known)?;
        fields.leaves_out(&["itemParameterName"])?;
        let field = format!("customEvent:{}", fields.text("eventParameterName")?.unwrap_or_default());
        Ok(Filter::Leaf { field, test: test(&fields, &TESTS[..4])? })
    })?;
    Ok(Filter::And(vec![named, inner]))
}

/// A dimension by whose values a step is told apart, and how many of them.
fn split(value: &Value, path: &str, key: &'static str, most: i64) -> Result<(String, usize)> {
    let fields = Fields::new(value, path, &[key, "limit"])?;
    let dimension = fields.get(key).ok_or_else(|| GoogleError::invalid(format!("{path} requires a dimension.")))?;
    let dimension = Fields::new(dimension, &fields.at(key), &["name"])?;
    let limit = fields.integer("limit")?.unwrap_or(5);
    if !(1..=most).contains(&limit) {
        return Err(GoogleError::invalid(format!("The limit of {path} must be from 1 to {most}.")));
    }
    Ok((dimension.text("name")?.unwrap_or_default(), usize::try_from(limit).unwrap_or(5)))
}

/// One condition group that is evaluated on single events; anything else is left out.
fn segment(value: &Value, path: &str) -> Result<Segment> {
    let fields = Fields::new(value, path, &["name", "userSegment", "sessionSegment", "eventSegment"])?;
    let kinds = [
        ("userSegment", "userInclusionCriteria", "USER_CRITERIA_WITHIN_SAME_EVENT", Scope::User),
        ("sessionSegment", "sessionInclusionCriteria", "SESSION_CRITERIA_WITHIN_SAME_EVENT", Scope::Session),
        ("eventSegment", "eventInclusionCriteria", "EVENT_CRITERIA_WITHIN_SAME_EVENT", Scope::Event),
    ];
    let mut found = kinds.into_iter().filter(|(key, ..)| fields.get(key).is_some());
    let (Some((key, criteria, wanted, scope)), None) = (found.next(), found.next()) else {
        return Err(GoogleError::invalid("A segment must be exactly one of user, session and event segment."));
    };
    let inner = Fields::new(fields.get(key).unwrap_or(&Value::Null), &fields.at(key), &[criteria, "exclusion"])?;
    inner.leaves_out(&["exclusion"])?;
    let included = inner.get(criteria).ok_or_else(|| GoogleError::invalid("Inclusion criteria are required."))?;
    let included = Fields::new(included, &inner.at(criteria), &["andConditionGroups", "andSequenceGroups"])?;
    included.leaves_out(&["andSequenceGroups"])?;
    let groups = included.list("andConditionGroups")?;
    let [(group, at)] = groups.as_slice() else {
        return Err(GoogleError::unsupported("a segment without exactly one condition group"));
    };
    let group = Fields::new(group, at, &["conditionScoping", "segmentFilterExpression"])?;
    // The narrowest scoping is the first of each enum.
    if !enum_value(&group, "conditionScoping", &[(wanted, true)], false).unwrap_or_default() {
        return Err(GoogleError::unsupported(&group.at("conditionScoping")));
    }
    let filter = group.get("segmentFilterExpression").ok_or_else(missing_filter)?;
    let at = group.at("segmentFilterExpression");
    Ok(Segment {
        name: fields.text("name")?.unwrap_or_default(),
        scope,
        filter: expression(filter, &at, 0, &["segmentFilter", "segmentEventFilter"], &|kind, value, at| match kind {
            "segmentFilter" => leaf(value, at, &TESTS[..4]),
            _ => event_filter(value, at, "segmentParameterFilterExpression"),
        })?,
    })
}

/// Users at a step, and those who went on to the next; of all, of each value of the breakdown, and of each day.
#[derive(Default)]
struct Count {
    users: u64,
    passed: u64,
}

#[derive(Default)]
struct StepCounts {
    all: Count,
    by_value: BTreeMap<u32, Count>,
    by_day: BTreeMap<u32, u64>,
    by_next_action: BTreeMap<u32, u64>,
}

/// The answer without its quota, and the tokens it costs.
pub(crate) fn run(property: &Property, request: &Request) -> Result<(Value, u64)> {
    let data = &property.data;
    let days = dates::resolve(&request.ranges, clock::today(&property.zone))?;
    let [range] = days.as_slice() else {
        return Err(GoogleError::unsupported("several date ranges in a funnel"));
    };
    let catalogue = Catalogue::of(property);
    check_fields(request, &catalogue)?;
    let canonical =
        |field: &str| catalogue.dimension(field).map_or_else(|| field.to_owned(), |known| known.api_name.to_owned());
    let matcher = |filter: &Filter| Matcher::new(filter, data, &canonical);
    let rows = data.rows();
    let known = rows.events.partition_point(|event| event.micros <= clock::now_micros());
    let from = rows.days.partition_point(|day| *day < range.start).min(known);
    let until = rows.days.partition_point(|day| *day <= range.end).min(known).max(from);
    let filter = request.filter.as_ref().map(&matcher);
    let kept: Vec<usize> =
        (from..until).filter(|index| filter.as_ref().is_none_or(|filter| filter.holds(data, *index))).collect();
    let steps: Vec<Matcher> = request.steps.iter().map(|step| matcher(&step.filter)).collect();
    let values = request.breakdown.as_ref().map(|(dimension, _)| data.column(&canonical(dimension)));
    let actions = request.next_action.as_ref().map(|(dimension, _)| data.column(&canonical(dimension)));
    let dates = data.column("date");

    let everything = [None];
    let segments: Vec<Option<&Segment>> =
        if request.segments.is_empty() { everything.to_vec() } else { request.segments.iter().map(Some).collect() };
    let mut counted: Vec<(Option<&Segment>, Vec<StepCounts>)> = Vec::new();
    for segment in segments {
        let included = segment.map(|segment| included(property, segment, &matcher(&segment.filter), &kept));
        let mut users: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for index in kept.iter().filter(|index| included.as_ref().is_none_or(|set| set.contains(index))) {
            users.entry(data.log.session(&rows.events[*index]).user).or_default().push(*index);
        }
        let mut counts: Vec<StepCounts> = steps.iter().map(|_| StepCounts::default()).collect();
        for events in users.values() {
            let path = Path::of(property, request, &steps, events);
            for (counts, at) in counts.iter_mut().zip(&path.0) {
                let Some(At { first, passed, next }) = at else { continue };
                let count = |count: &mut Count| {
                    count.users += 1;
                    count.passed += u64::from(*passed);
                };
                count(&mut counts.all);
                if let Some(column) = &values {
                    count(counts.by_value.entry(column.codes[*first]).or_default());
                }
                *counts.by_day.entry(dates.codes[*first]).or_default() += 1;
                if let (Some(column), Some(next)) = (&actions, next) {
                    *counts.by_next_action.entry(column.codes[*next]).or_default() += 1;
                }
            }
        }
        counted.push((segment, counts));
    }
    let tokens = 1 + request.steps.len() as u64 + u64::try_from(range.end - range.start).unwrap_or(0) / 60;
    Ok((answer(request, &counted, values.as_ref(), actions.as_ref(), &dates), tokens))
}

fn check_fields(request: &Request, catalogue: &Catalogue) -> Result<()> {
    let filters = request.steps.iter().map(|step| &step.filter);
    let filters = filters.chain(request.segments.iter().map(|segment| &segment.filter)).chain(&request.filter);
    let mut fields: Vec<&str> = filters.flat_map(Filter::fields).collect();
    fields.extend(request.breakdown.iter().chain(&request.next_action).map(|(dimension, _)| dimension.as_str()));
    match fields.into_iter().find(|field| catalogue.dimension(field).is_none()) {
        Some(field) => Err(unknown_field("dimension", field, catalogue)),
        None => Ok(()),
    }
}

/// The events of a segment.
fn included(property: &Property, segment: &Segment, matcher: &Matcher, events: &[usize]) -> HashSet<usize> {
    let data = &property.data;
    let rows = data.rows();
    let key = |index: usize| {
        let event = &rows.events[index];
        match segment.scope {
            Scope::User => data.log.session(event).user as usize,
            Scope::Session => event.session as usize,
            Scope::Event => index,
        }
    };
    let matching: HashSet<usize> =
        events.iter().filter(|index| matcher.holds(data, **index)).map(|index| key(*index)).collect();
    events.iter().copied().filter(|index| matching.contains(&key(*index))).collect()
}

/// A user at a step.
struct At {
    /// The first event that takes the user there.
    first: usize,
    /// Whether the user goes on to the next one.
    passed: bool,
    /// The event after the first, unless it takes the user to the next step.
    next: Option<usize>,
}

/// The steps that a user reaches.
struct Path(Vec<Option<At>>);

impl Path {
    fn of(property: &Property, request: &Request, steps: &[Matcher], events: &[usize]) -> Self {
        let data = &property.data;
        let log = &data.rows().events;
        let matching: Vec<Vec<bool>> =
            steps.iter().map(|step| events.iter().map(|index| step.holds(data, *index)).collect()).collect();
        let mut at = matching[0].clone();
        let mut path = Vec::new();
        for number in 0..steps.len() {
            let first = at.iter().position(|here| *here);
            let next: Vec<bool> = match request.steps.get(number + 1) {
                None => Vec::new(),
                Some(step) => (0..events.len())
                    .map(|later| {
                        let reaches = |earlier: usize| {
                            let gap = log[events[later]].micros - log[events[earlier]].micros;
                            at[earlier]
                                && (!step.directly || earlier + 1 == later)
                                && step.within.is_none_or(|within| gap <= within)
                        };
                        matching[number + 1][later] && (0..later).any(reaches)
                    })
                    .collect(),
            };
            path.push(first.map(|place| {
                let goes_on = next.get(place + 1).copied().unwrap_or_default();
                At {
                    first: events[place],
                    passed: next.contains(&true),
                    next: events.get(place + 1).copied().filter(|_| !goes_on),
                }
            }));
            at = match matching.get(number + 1) {
                Some(matching) if request.open => matching.clone(),
                _ => next,
            };
        }
        Self(path)
    }
}

const METRICS: [&str; 4] =
    ["activeUsers", "funnelStepCompletionRate", "funnelStepAbandonments", "funnelStepAbandonmentRate"];

fn answer(
    request: &Request,
    counted: &[(Option<&Segment>, Vec<StepCounts>)],
    values: Option<&Arc<Column>>,
    actions: Option<&Arc<Column>>,
    dates: &Column,
) -> Value {
    let segmented = !request.segments.is_empty();
    let name = |number: usize| match request.steps[number].name.as_str() {
        "" => format!("{}. ", number + 1),
        name => format!("{}. {name}", number + 1),
    };
    let dimension = |name: &str| json!({"name": name});
    let metric = |name: &&str| json!({"name": name, "type": "TYPE_INTEGER"});
    let mut table_headers = vec![dimension("funnelStepName")];
    let mut visual_headers = table_headers.clone();
    if segmented {
        table_headers.insert(0, dimension("segment"));
        visual_headers.insert(0, dimension("segment"));
    }
    table_headers.extend(request.breakdown.iter().map(|(name, _)| dimension(name)));
    if request.trended {
        visual_headers.push(dimension("date"));
    }
    if actions.is_some() {
        visual_headers.push(dimension("funnelStepNextAction"));
    }
    let (mut table, mut visual) = (Vec::new(), Vec::new());
    for (segment, counts) in counted {
        let start = |number: usize| -> Vec<Value> {
            segment.iter().map(|segment| cell(&segment.name)).chain([cell(&name(number))]).collect()
        };
        let shown: BTreeSet<u32> = top_values(request, counts);
        for (number, count) in counts.iter().enumerate() {
            let last = number + 1 == counts.len();
            let mut push = |value: Option<&str>, count: &Count| {
                let mut row = start(number);
                row.extend(value.map(cell));
                table.push(json!({"dimensionValues": row, "metricValues": figures(count, last)}));
            };
            match values {
                None => push(None, &count.all),
                Some(column) => {
                    push(Some("RESERVED_TOTAL"), &count.all);
                    for code in &shown {
                        if let Some(count) = count.by_value.get(code) {
                            push(Some(&column.values[*code as usize]), count);
                        }
                    }
                }
            }
            let mut push = |value: Option<&str>, users: u64| {
                let mut row = start(number);
                row.extend(value.map(cell));
                visual.push(json!({"dimensionValues": row, "metricValues": [cell(&users.to_string())]}));
            };
            match actions {
                Some(column) => {
                    push(Some("RESERVED_TOTAL"), count.all.users);
                    let limit = request.next_action.as_ref().map_or(0, |(_, limit)| *limit);
                    let mut found: Vec<(u64, u32)> =
                        count.by_next_action.iter().map(|(code, users)| (*users, *code)).collect();
                    found.sort_unstable_by(|a, b| b.cmp(a));
                    for (users, code) in found.into_iter().take(limit) {
                        push(Some(&column.values[code as usize]), users);
                    }
                }
                None if request.trended => {
                    count.by_day.iter().for_each(|(day, users)| push(Some(&dates.values[*day as usize]), *users));
                }
                None => push(None, count.all.users),
            }
        }
    }
    table.truncate(request.limit);
    visual.truncate(request.limit);
    // As Google does it: the table's metrics are announced twice, and each row has them once.
    let twice: Vec<Value> = METRICS.iter().chain(&METRICS).map(metric).collect();
    json!({
        "funnelTable": {"dimensionHeaders": table_headers, "metricHeaders": twice, "rows": table, "metadata": {}},
        "funnelVisualization": {
            "dimensionHeaders": visual_headers,
            "metricHeaders": [metric(&METRICS[0])],
            "rows": visual,
            "metadata": {},
        },
        "kind": "analyticsData#runFunnelReport",
    })
}

/// The values of the breakdown with the most users at the first step.
fn top_values(request: &Request, counts: &[StepCounts]) -> BTreeSet<u32> {
    let Some((_, limit)) = &request.breakdown else { return BTreeSet::new() };
    let mut users: HashMap<u32, u64> = HashMap::new();
    for (value, count) in counts.iter().take(1).flat_map(|step| &step.by_value) {
        users.insert(*value, count.users);
    }
    let mut values: Vec<(u64, u32)> = users.into_iter().map(|(value, users)| (users, value)).collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.into_iter().take(*limit).map(|(_, value)| value).collect()
}

/// Nobody can go on from the last step: it counts as completed.
fn figures(count: &Count, last: bool) -> Vec<Value> {
    let passed = if last { count.users } else { count.passed };
    let share = |part: u64| if count.users == 0 { 0.0 } else { part as f64 / count.users as f64 };
    let left = count.users - passed;
    let values = [count.users as f64, share(passed), left as f64, share(left)];
    values.into_iter().map(|value| cell(&number::format(value))).collect()
}
