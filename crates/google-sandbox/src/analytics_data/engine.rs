//! Groups events into rows: the core of every report.
//!
//! Each cell keeps its ingredients (sums, or sets of users and sessions) until the end, so that totals are recomputed over
//! all events and never summed over rows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::catalogue::{Dimension, Formula, Ingredient, Metric};
use super::columns::{Column, PropertyData, is_attributed, nth_day};
use super::request::{Filter, Test};
use crate::events::{Event, KEY_EVENTS, Session, TRAFFIC, name};

/// Attribution gives the session's origin this many tenths of a key event, and the user's first touch the rest. Tenths are
/// whole numbers, so sums of them are exact.
const SESSION_TENTHS: u32 = 6;
const FIRST_TOUCH_TENTHS: u32 = 4;
/// What a click on an ad costs.
const CENTS_PER_CLICK: u32 = 37;

/// The events of one date range (or minute range).
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) name: String,
    pub(crate) events: Range<usize>,
    /// First day: `nthDay` counts from it.
    pub(crate) first_day: i32,
}

/// What to group, and over which events.
pub(crate) struct Query<'a> {
    pub(crate) data: &'a PropertyData,
    pub(crate) windows: &'a [Window],
    pub(crate) dimensions: &'a [&'a Dimension],
    pub(crate) metrics: &'a [&'a Metric],
    pub(crate) filter: Option<&'a Filter>,
    /// One euro in the requested currency.
    pub(crate) per_euro: f64,
    /// `minutesAgo` counts from this moment.
    pub(crate) now_micros: i64,
    /// Whether no range is longer than a day: rare values are not rolled up then.
    pub(crate) one_day: bool,
    /// Whether the last click that was not direct gets a key event whole, instead of a split by touchpoints.
    pub(crate) last_click: bool,
}

/// A row: codes of its dimensions, values of its metrics.
pub(crate) struct Row {
    pub(crate) window: usize,
    pub(crate) codes: Vec<u32>,
    pub(crate) values: Vec<f64>,
    /// Distinct users: what thresholding looks at.
    pub(crate) users: usize,
}

/// The result of a query.
pub(crate) struct Grouped {
    pub(crate) rows: Vec<Row>,
    /// Values over all rows, for each window.
    pub(crate) totals: Vec<Vec<f64>>,
    keys: Vec<Key>,
    windows: Vec<Window>,
}

impl Grouped {
    /// The text of a row's dimension.
    pub(crate) fn text(&self, row: &Row, dimension: usize) -> String {
        let code = row.codes[dimension];
        match &self.keys[dimension] {
            Key::Column(column) => column.values[code as usize].clone(),
            Key::NthDay => nth_day(i32::try_from(code).unwrap_or(0), 0),
            Key::MinutesAgo => format!("{code:02}"),
        }
    }

    /// The name of a date range.
    pub(crate) fn range_name(&self, window: usize) -> &str {
        &self.windows[window].name
    }

    /// The name of a row's date range.
    pub(crate) fn window_name(&self, row: &Row) -> &str {
        &self.windows[row.window].name
    }
}

/// Where the codes of a dimension come from.
enum Key {
    Column(Arc<Column>),
    NthDay,
    MinutesAgo,
}

impl Key {
    fn new(data: &PropertyData, dimension: &str, one_day: bool) -> Self {
        match dimension {
            "nthDay" => Self::NthDay,
            "minutesAgo" => Self::MinutesAgo,
            _ if one_day => Self::Column(data.column_of_a_day(dimension)),
            _ => Self::Column(data.column(dimension)),
        }
    }

    fn code(&self, at: &Position<'_>, first_touch: bool) -> u32 {
        match self {
            Self::Column(column) => match (&column.first_touch, first_touch) {
                (Some(codes), true) => codes[at.index],
                _ => column.codes[at.index],
            },
            Self::NthDay => u32::try_from(at.day - at.first_day).unwrap_or(0),
            Self::MinutesAgo => u32::try_from((at.now_micros - at.event.micros) / 60_000_000).unwrap_or(0),
        }
    }
}

/// An event while it is looked at.
struct Position<'a> {
    index: usize,
    event: &'a Event,
    day: i32,
    first_day: i32,
    now_micros: i64,
}

/// A filter whose leaves are answered per dictionary code.
enum Compiled {
    And(Vec<Compiled>),
    Or(Vec<Compiled>),
    Not(Box<Compiled>),
    Coded(Arc<Column>, Vec<bool>),
    Computed(Key, Test),
}

impl Compiled {
    fn new(filter: &Filter, data: &PropertyData, canonical: &dyn Fn(&str) -> String, one_day: bool) -> Self {
        let all = |filters: &[Filter]| filters.iter().map(|inner| Self::new(inner, data, canonical, one_day)).collect();
        match filter {
            Filter::And(filters) => Self::And(all(filters)),
            Filter::Or(filters) => Self::Or(all(filters)),
            Filter::Not(inner) => Self::Not(Box::new(Self::new(inner, data, canonical, one_day))),
            Filter::Leaf { field, test } => match Key::new(data, &canonical(field), one_day) {
                Key::Column(column) => {
                    let truth = column.values.iter().map(|value| test.matches_text(value)).collect();
                    Self::Coded(column, truth)
                }
                computed => Self::Computed(computed, test.clone()),
            },
        }
    }

    fn holds(&self, at: &Position<'_>, first_touch: bool) -> bool {
        match self {
            Self::And(all) => all.iter().all(|inner| inner.holds(at, first_touch)),
            Self::Or(any) => any.iter().any(|inner| inner.holds(at, first_touch)),
            Self::Not(inner) => !inner.holds(at, first_touch),
            Self::Coded(column, truth) => {
                let codes = match (&column.first_touch, first_touch) {
                    (Some(codes), true) => codes,
                    _ => &column.codes,
                };
                truth[codes[at.index] as usize]
            }
            Self::Computed(key, test) => {
                let code = key.code(at, first_touch);
                let text = match key {
                    Key::NthDay => nth_day(i32::try_from(code).unwrap_or(0), 0),
                    _ => format!("{code:02}"),
                };
                test.matches_text(&text)
            }
        }
    }
}

/// A filter that is asked about single events.
pub(crate) struct Matcher(Compiled);

impl Matcher {
    pub(crate) fn new(filter: &Filter, data: &PropertyData, canonical: &dyn Fn(&str) -> String) -> Self {
        Self(Compiled::new(filter, data, canonical, false))
    }

    /// Whether the event at this place of the property's log passes.
    pub(crate) fn holds(&self, data: &PropertyData, index: usize) -> bool {
        let rows = data.rows();
        let at = Position {
            index,
            event: &rows.events[index],
            day: rows.days[index],
            first_day: rows.days[index],
            now_micros: 0,
        };
        self.0.holds(&at, false)
    }
}

/// An ingredient of one row while it is collected.
#[derive(Clone)]
enum Cell {
    Sum(f64),
    Set(Vec<u32>),
}

/// The part of an event that a row gets.
struct Share {
    tenths: u32,
    /// Counts that aren't attributed belong to the session's own origin.
    whole: bool,
}

struct Collector {
    ingredients: Vec<Ingredient>,
}

impl Collector {
    fn new(metrics: &[&Metric]) -> Self {
        // Users always: thresholding needs them.
        let mut ingredients = vec![Ingredient::Users];
        for metric in metrics {
            let (first, second) = match metric.formula {
                Formula::One(a) => (a, None),
                Formula::Ratio(a, b) | Formula::Rest(a, b) => (a, Some(b)),
            };
            for ingredient in std::iter::once(first).chain(second) {
                if !ingredients.contains(&ingredient) {
                    ingredients.push(ingredient);
                }
            }
        }
        Self { ingredients }
    }

    fn blank(&self) -> Vec<Cell> {
        self.ingredients
            .iter()
            .map(|ingredient| if is_set(*ingredient) { Cell::Set(Vec::new()) } else { Cell::Sum(0.0) })
            .collect()
    }

    fn add(&self, cells: &mut [Cell], event: &Event, session: &Session, share: &Share) {
        for (ingredient, cell) in self.ingredients.iter().zip(cells) {
            match cell {
                Cell::Sum(sum) => *sum += amount(*ingredient, event, session, share),
                Cell::Set(set) if share.whole => {
                    if let Some(id) = member(*ingredient, event, session)
                        && set.last() != Some(&id)
                    {
                        set.push(id);
                    }
                }
                Cell::Set(_) => {}
            }
        }
    }

    /// The number of each ingredient.
    fn amounts(&self, cells: Vec<Cell>, data: &PropertyData) -> Vec<f64> {
        self.ingredients
            .iter()
            .zip(cells)
            .map(|(ingredient, cell)| match cell {
                Cell::Sum(sum) => sum,
                Cell::Set(mut set) => {
                    set.sort_unstable();
                    set.dedup();
                    if *ingredient == Ingredient::SessionSeconds {
                        set.iter().map(|id| f64::from(data.log.sessions[*id as usize].seconds)).sum()
                    } else {
                        set.len() as f64
                    }
                }
            })
            .collect()
    }

    fn value(&self, metric: &Metric, amounts: &[f64], per_euro: f64) -> f64 {
        let of = |ingredient: Ingredient| {
            let index = self.ingredients.iter().position(|i| *i == ingredient);
            let amount = index.map_or(0.0, |index| amounts[index]);
            match ingredient {
                Ingredient::RevenueCents | Ingredient::ItemRevenueCents => {
                    // Tenths of cents.
                    amount / 1_000.0 * per_euro
                }
                Ingredient::AdCostCents => amount / 100.0 * per_euro,
                Ingredient::KeyEvents(_) | Ingredient::Purchases => amount / 10.0,
                _ => amount,
            }
        };
        let ratio = |a, b| {
            let (a, b) = (of(a), of(b));
            if b == 0.0 { 0.0 } else { a / b }
        };
        match metric.formula {
            Formula::One(ingredient) => of(ingredient),
            Formula::Ratio(a, b) => ratio(a, b),
            Formula::Rest(_, b) if of(b) == 0.0 => 0.0,
            Formula::Rest(a, b) => 1.0 - ratio(a, b),
        }
    }
}

fn is_set(ingredient: Ingredient) -> bool {
    use Ingredient as I;
    matches!(
        ingredient,
        I::Users
            | I::ActiveUsers
            | I::NewUsers
            | I::Sessions
            | I::EngagedSessions
            | I::KeyEventSessions(_)
            | I::KeyEventUsers
            | I::SessionSeconds
    )
}

fn is_key_event(event: &Event, wanted: Option<u8>) -> bool {
    match wanted {
        Some(name) => event.name == name,
        None => KEY_EVENTS.contains(&event.name),
    }
}

/// What an event adds to a sum. Attributed amounts are in tenths.
fn amount(ingredient: Ingredient, event: &Event, session: &Session, share: &Share) -> f64 {
    use Ingredient as I;
    let tenths = f64::from(share.tenths);
    let attributed = |applies: bool, amount: u32| if applies { tenths * f64::from(amount) } else { 0.0 };
    let whole = |applies: bool, amount: u32| {
        if applies && share.whole { f64::from(amount) } else { 0.0 }
    };
    let purchase = event.name == name::PURCHASE;
    let click = event.name == name::SESSION_START && TRAFFIC[usize::from(session.traffic)].medium == "cpc";
    match ingredient {
        I::Events => whole(true, 1),
        I::Named(wanted) => whole(event.name == wanted, 1),
        I::KeyEvents(wanted) => attributed(is_key_event(event, wanted), 1),
        I::Purchases => attributed(purchase, 1),
        I::RevenueCents | I::ItemRevenueCents => attributed(purchase, event.cents),
        I::ItemsViewed => whole(event.name == name::VIEW_ITEM, u32::from(event.quantity)),
        I::ItemsPurchased => whole(purchase, u32::from(event.quantity)),
        I::EngagementSeconds => whole(true, u32::from(event.engagement_seconds)),
        I::EngagementMillis => whole(true, u32::from(event.engagement_seconds) * 1_000),
        I::AdClicks => whole(click, 1),
        I::AdCostCents => whole(click, CENTS_PER_CLICK),
        I::Score => whole(true, u32::from(event.score)),
        I::Scored => whole(event.score > 0, 1),
        _ => 0.0,
    }
}

/// The user or session that an event adds to a set.
fn member(ingredient: Ingredient, event: &Event, session: &Session) -> Option<u32> {
    use Ingredient as I;
    let active = session.engaged || session.new_user || event.engagement_seconds > 0;
    match ingredient {
        I::Users => Some(session.user),
        I::ActiveUsers => active.then_some(session.user),
        I::NewUsers => (event.name == name::FIRST_VISIT).then_some(session.user),
        I::Sessions | I::SessionSeconds => Some(event.session),
        I::EngagedSessions => session.engaged.then_some(event.session),
        I::KeyEventSessions(wanted) => is_key_event(event, wanted).then_some(event.session),
        I::KeyEventUsers => is_key_event(event, None).then_some(session.user),
        _ => None,
    }
}

/// The touchpoints that get a part of an event, the session's first: only key events are split, and only when the report
/// looks at an attributed dimension.
fn shares(attributed: bool, last_click: bool, event: &Event, session: &Session) -> Vec<(bool, Share)> {
    if !attributed || !is_key_event(event, None) {
        return vec![(false, Share { tenths: 10, whole: true })];
    }
    if last_click {
        let direct = TRAFFIC[usize::from(session.traffic)].channel == "Direct";
        return vec![(direct, Share { tenths: 10, whole: true })];
    }
    vec![
        (false, Share { tenths: SESSION_TENTHS, whole: true }),
        (true, Share { tenths: FIRST_TOUCH_TENTHS, whole: false }),
    ]
}

/// Runs a query.
pub(crate) fn group(query: &Query<'_>, canonical: &dyn Fn(&str) -> String) -> Grouped {
    let data = query.data;
    let keys: Vec<Key> = query.dimensions.iter().map(|d| Key::new(data, d.api_name, query.one_day)).collect();
    let filter = query.filter.map(|filter| Compiled::new(filter, data, canonical, query.one_day));
    let filtered_on: Vec<String> =
        query.filter.map(|f| f.fields().into_iter().map(canonical).collect()).unwrap_or_default();
    let attributed = query.dimensions.iter().any(|d| is_attributed(d.api_name))
        || filtered_on.iter().any(|field| is_attributed(field));
    let item_rows = query.dimensions.iter().any(|d| matches!(d.api_name, "itemName" | "itemId"));
    let collector = Collector::new(query.metrics);
    let rows = data.rows();
    let mut index_of: HashMap<(usize, Vec<u32>), usize> = HashMap::new();
    let mut found: Vec<(usize, Vec<u32>, Vec<Cell>)> = Vec::new();
    let mut totals = Vec::new();
    for (number, window) in query.windows.iter().enumerate() {
        let mut total = collector.blank();
        for index in window.events.clone() {
            let event = &rows.events[index];
            if item_rows && event.item == 0 {
                continue;
            }
            let at = Position {
                index,
                event,
                day: rows.days[index],
                first_day: window.first_day,
                now_micros: query.now_micros,
            };
            let session = data.log.session(event);
            let mut kept = Share { tenths: 0, whole: false };
            for (first_touch, share) in shares(attributed, query.last_click, event, session) {
                if filter.as_ref().is_some_and(|f| !f.holds(&at, first_touch)) {
                    continue;
                }
                kept.tenths += share.tenths;
                kept.whole |= share.whole;
                let codes: Vec<u32> = keys.iter().map(|key| key.code(&at, first_touch)).collect();
                let slot = *index_of.entry((number, codes)).or_insert_with_key(|(_, codes)| {
                    found.push((number, codes.clone(), collector.blank()));
                    found.len() - 1
                });
                collector.add(&mut found[slot].2, event, session, &share);
            }
            if kept.tenths > 0 {
                collector.add(&mut total, event, session, &kept);
            }
        }
        totals.push(total);
    }
    let values = |cells: Vec<Cell>| {
        let amounts = collector.amounts(cells, data);
        let values = query.metrics.iter().map(|metric| collector.value(metric, &amounts, query.per_euro)).collect();
        (values, amounts[0] as usize)
    };
    Grouped {
        rows: found
            .into_iter()
            .map(|(window, codes, cells)| {
                let (values, users) = values(cells);
                Row { window, codes, values, users }
            })
            .collect(),
        totals: totals.into_iter().map(|cells| values(cells).0).collect(),
        keys,
        windows: query.windows.to_vec(),
    }
}
