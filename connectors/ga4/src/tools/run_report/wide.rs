//! Reports that take several requests: more metrics than Google takes at once, several periods, a report asked for day by day.
//!
//! Each request is for one period alone, so that rows of different periods can't be confused, and limits, thresholds and samples are
//! those of the period. The rows are held in memory by their dimensions and put together there.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_core::{Call, Cell, DateWindow, Error, Extraction, Result};
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::ToSpan;
use jiff::tz::TimeZone;
use rust_decimal::Decimal;
use serde_json::{Map, Value, json};

use super::{FILLED_COLUMN, RANGE_COLUMN, Range, RunReport, Split, totals_of};
use crate::amount::{self, ControlSum};
use crate::api::{OPEN_REQUESTS, Property, ReportEnd};
use crate::fields::{Fields, is_additive, nothing};
use crate::held::{Column, HeldRows};
use crate::question;
use crate::report::{Row, extract, other_columns};

/// The most requests that a report is split into.
pub(super) const REPORTS_MAX: usize = 400;

/// A report whose names and days are checked.
pub(super) struct Wide<'a> {
    pub(super) report: &'a RunReport,
    pub(super) property: &'a Property,
    pub(super) fields: &'a Fields,
    pub(super) ranges: &'a [Range],
    pub(super) call: &'a Call,
}

/// One request: a period, or a day of one, and as many metrics as Google takes.
struct Part<'a> {
    /// Which part of the held rows it fills.
    slot: usize,
    metrics: &'a [String],
    window: DateWindow,
    /// Asks for the totals and for what Google says of the report, but for one row only.
    only_end: bool,
}

/// What came of the requests: the rows, and what is said of each range and chunk of metrics as a whole.
struct Gathered {
    held: HeldRows,
    wholes: Vec<ReportEnd>,
    /// The same of each day, if it was asked day by day.
    days: Vec<ReportEnd>,
}

/// The column that tells ranges apart.
pub(super) fn range_header() -> Option<Header> {
    let header = Header::dimension(RANGE_COLUMN, ColumnType::String);
    Some(Header { description: Some("Which of the compared periods the row is about".to_owned()), ..header })
}

/// The column that marks what is no row of Google's.
pub(super) fn filled_header() -> Option<Header> {
    Some(Header {
        name: FILLED_COLUMN.to_owned(),
        column_type: ColumnType::Boolean,
        role: Some(ColumnRole::Attribute),
        description: Some("true: Google has no row of this day".to_owned()),
    })
}

impl<'a> Wide<'a> {
    /// Whether a report has to be asked for day by day, since Google left something out of the whole. Who asked for that learns why it is
    /// not possible; who did not hears what Google left out anyway.
    pub(super) fn wants_days(&self, ends: &[ReportEnd]) -> bool {
        if self.report.split.unwrap_or_default() != Split::Auto || !ends.iter().any(is_lossy) {
            return false;
        }
        let days = self.report.day_reports(self.ranges);
        let why = match self.report.splits() {
            Err(why) => why,
            Ok(()) if days > REPORTS_MAX => {
                format!("it would take {days} requests, and at most {REPORTS_MAX} are made")
            }
            Ok(()) if self.ranges.iter().all(|range| range.window.days() == 1) => return false,
            Ok(()) if question::check_quota(&ends[0], days).is_err() => {
                format!("the quota leaves no room for {days} requests")
            }
            Ok(()) => return true,
        };
        if self.report.split.is_some() {
            self.call.warn(format!("Asking day by day would leave less out, but it is not possible here: {why}."));
        }
        false
    }

    /// Asks for all of it. `whole` is the end of the whole report, if it was asked for already and has to be asked for day by day.
    pub(super) async fn run(&self, whole: Option<ReportEnd>) -> Result<Extraction> {
        let mut gathered = match (whole, self.report.split) {
            (Some(whole), _) => self.by_days(vec![whole]).await?,
            (None, Some(Split::Day)) => {
                let parts = self.parts(true);
                let (_, wholes) = self.ask(&parts, false, 0).await?;
                self.by_days(wholes).await?
            }
            (None, _) => {
                let parts = self.parts(false);
                let (held, wholes) = self.ask(&parts, false, 0).await?;
                if self.wants_days(&wholes) {
                    drop(held);
                    self.by_days(wholes).await?
                } else {
                    Gathered { held, wholes, days: Vec::new() }
                }
            }
        };
        let filled = self.fill(&mut gathered)?;
        self.answer(&gathered, &filled)
    }

    /// The requests for whole periods.
    fn parts(&self, only_end: bool) -> Vec<Part<'a>> {
        let chunks = self.report.chunks();
        let slots = self.ranges.iter().flat_map(|range| chunks.iter().map(move |metrics| (range, *metrics)));
        slots
            .enumerate()
            .map(|(slot, (range, metrics))| Part { slot, metrics, window: range.window, only_end })
            .collect()
    }

    async fn by_days(&self, wholes: Vec<ReportEnd>) -> Result<Gathered> {
        let mut days = Vec::new();
        for part in self.parts(false) {
            for day in part.window.start.series(1.day()).take_while(|day| *day <= part.window.end) {
                days.push(Part { window: DateWindow { start: day, end: day }, ..part });
            }
        }
        // Rows that tell their day are no sums.
        let summed = !self.report.dimensions.iter().any(|name| name.starts_with("date"));
        let (held, days) = self.ask(&days, summed, wholes.len()).await?;
        Ok(Gathered { held, wholes, days })
    }

    /// Asks several requests at a time, after the first, which tells what one costs.
    async fn ask(&self, parts: &[Part<'_>], summed: bool, before: usize) -> Result<(HeldRows, Vec<ReportEnd>)> {
        let widths: Vec<usize> = self.parts(false).iter().map(|part| part.metrics.len()).collect();
        let held = Mutex::new(HeldRows::new(&widths, summed));
        let (done, total) = (AtomicUsize::new(before), before + parts.len());
        let ask = async |part: &Part<'_>| {
            let mut request = self.report.request(part.metrics, part.window)?;
            // The rows are ordered here. Reports of different metrics must have the same rows: Google drops those that are all 0.
            request.order_bys = question::order(&[], &[], &self.report.dimensions);
            request.keep_empty_rows |= self.report.chunks().len() > 1;
            let on_row = |row: &Row<'_>| {
                if row.dimension_values.len() != self.report.dimensions.len()
                    || row.metric_values.len() != part.metrics.len()
                {
                    return Err(other_columns());
                }
                match part.only_end {
                    true => Ok(()),
                    false => lock(&held).add(part.slot, row),
                }
            };
            let end = extract(self.property, &request, part.only_end.then_some(1), on_row, |_, _| {}).await?;
            let done = 1 + done.fetch_add(1, Ordering::Relaxed);
            self.call.progress(done as u64, Some(total as u64), format!("{done} of {total} reports read"));
            Ok::<_, Error>(end)
        };
        let Some((first, others)) = parts.split_first() else {
            return Err(Error::upstream("The report has no part to ask for. Report this error."));
        };
        let mut ends = vec![ask(first).await?];
        question::check_quota(&ends[0], others.len())?;
        let others: Vec<ReportEnd> = stream::iter(others.iter().map(ask)).buffered(OPEN_REQUESTS).try_collect().await?;
        ends.extend(others);
        let held = held.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok((held, ends))
    }

    fn slots_of(&self, range: usize) -> std::ops::Range<usize> {
        let chunks = self.report.chunks().len();
        range * chunks..(range + 1) * chunks
    }

    /// Adds the days of each range for which Google has no row, up to today. Gives their places, by range.
    fn fill(&self, gathered: &mut Gathered) -> Result<HashSet<(usize, usize)>> {
        let mut filled = HashSet::new();
        if !self.report.fill_days {
            return Ok(filled);
        }
        for (number, range) in self.ranges.iter().enumerate() {
            let zone = TimeZone::get(&gathered.wholes[self.slots_of(number).start].metadata.time_zone).ok();
            let today = zone.map(|zone| self.call.clock().today(&zone));
            let last = today.map_or(range.window.end, |today| today.min(range.window.end));
            for day in range.window.start.series(1.day()).take_while(|day| *day <= last) {
                let text = day.strftime("%Y%m%d").to_string();
                let place = gathered.held.place([text.as_str()].into_iter())?;
                if !self.slots_of(number).any(|slot| gathered.held.has(slot, place)) {
                    filled.insert((number, place));
                }
            }
        }
        Ok(filled)
    }

    /// What the held rows are ordered by: the first range's metrics.
    fn order(&self) -> Vec<(Column, bool)> {
        let column = |name: &String| {
            let metric = |place: usize| Column::Metric {
                part: place / super::METRICS_AT_ONCE,
                place: place % super::METRICS_AT_ONCE,
            };
            let dimension = || self.report.dimensions.iter().position(|known| known == name).map(Column::Dimension);
            self.report.metrics.iter().position(|known| known == name).map(metric).or_else(dimension)
        };
        let is_metric = |column: &Column| matches!(column, Column::Metric { .. });
        let mut order: Vec<(Column, bool)> = self
            .report
            .order_by
            .iter()
            .filter_map(|key| column(&key.field).map(|column| (column, key.desc.unwrap_or(is_metric(&column)))))
            .collect();
        if order.is_empty() {
            order.extend(self.report.metrics.first().and_then(column).map(|column| (column, true)));
        }
        order
    }

    /// The metrics of a range in the row of this key: none where there is no such row, and where Google was asked for a row of zeros
    /// only so that reports of different metrics have the same rows. A metric is none where its report does not have the row.
    fn values<'h>(&self, held: &'h HeldRows, range: usize, place: usize) -> Option<Vec<Option<Cow<'h, str>>>> {
        if !self.slots_of(range).any(|slot| held.has(slot, place)) {
            return None;
        }
        let chunks = self.report.chunks();
        let mut all = Vec::with_capacity(self.report.metrics.len());
        for (slot, chunk) in self.slots_of(range).zip(&chunks) {
            let mut values = held.values(slot, place).into_iter();
            all.extend(chunk.iter().map(|_| values.next()));
        }
        let is_zero = |value: &Option<Cow<'_, str>>| value.as_deref().is_some_and(|text| text.parse() == Ok(0.0));
        let only_asked_for = chunks.len() > 1 && !self.report.keep_empty_rows && all.iter().all(is_zero);
        (!only_asked_for).then_some(all)
    }

    fn answer(&self, gathered: &Gathered, filled: &HashSet<(usize, usize)>) -> Result<Extraction> {
        let Self { report, call, ranges, .. } = self;
        let held = &gathered.held;
        let mut table = call.table(report.headers(self.fields))?;
        let shows = |place: &usize| {
            (0..ranges.len())
                .any(|number| filled.contains(&(number, *place)) || self.values(held, number, *place).is_some())
        };
        let places: Vec<usize> = held.ordered(&self.order()).into_iter().filter(shows).collect();
        let limit = report.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut lone = 0_u64;
        for place in places.iter().copied().take(limit) {
            for (number, range) in ranges.iter().enumerate() {
                let is_filled = filled.contains(&(number, place));
                let values = match self.values(held, number, place) {
                    Some(values) => values,
                    None if is_filled => vec![None; report.metrics.len()],
                    None => continue,
                };
                let has = |slot| held.has(slot, place);
                lone += u64::from(self.slots_of(number).any(has) && !self.slots_of(number).all(has));
                let withheld = gathered.wholes[self.slots_of(number).start].metadata.subject_to_thresholding;
                let mut cells: Vec<Cell<'_>> = held.keys.values(place).map(Cell::Text).collect();
                cells.extend((ranges.len() > 1).then_some(Cell::Text(&range.name)));
                cells.extend(report.metrics.iter().zip(&values).map(|(name, value)| match value {
                    Some(value) => Cell::Text(value),
                    None if is_filled && !withheld => nothing(name),
                    None => Cell::Null,
                }));
                cells.extend(report.fill_days.then_some(Cell::Boolean(is_filled)));
                table.push(&cells)?;
            }
        }
        if lone > 0 {
            call.warn(format!(
                "{lone} rows came with some of the metrics only, and their other metrics are null: the report took {} requests, between which \
                 the data changed, or Google rolled up or withheld other rows.",
                gathered.wholes.len()
            ));
        }
        if places.len() > limit {
            let what =
                if ranges.len() > 1 { "combinations of dimensions, each with a row for every range" } else { "rows" };
            call.warn(format!(
                "limit cut the report: Google has {} {what}, {limit} were extracted; totals are over all of them.",
                places.len()
            ));
        }
        if !filled.is_empty() {
            call.warn(format!(
                "{} days have no data and were filled in; they are marked in the column {FILLED_COLUMN}.",
                filled.len()
            ));
        }
        question::warn_nothing_left(places.len() as u64, &report.dimension_filters, call);
        let totals = self.totals(gathered)?;
        if let Some(current) = totals.first().filter(|totals| !totals.is_empty()) {
            table.set_totals(
                report.metrics.iter().zip(current).map(|(name, total)| (name.as_str(), Cell::Text(total))),
            )?;
            report.warn_filtered_totals(call);
        }
        self.warn(gathered)?;

        let mut more = Map::new();
        let requests =
            if gathered.days.is_empty() { gathered.wholes.len() } else { gathered.wholes.len() + gathered.days.len() };
        more.insert("requests".to_owned(), json!(requests));
        more.insert("split".to_owned(), json!(if gathered.days.is_empty() { "never" } else { "day" }));
        if ranges.len() > 1 {
            let number = |text: &String| serde_json::from_str::<Value>(text).ok().filter(Value::is_number);
            let named = |totals: &Vec<String>| -> Map<String, Value> {
                report.metrics.iter().cloned().zip(totals.iter().map(|text| json!(number(text)))).collect()
            };
            let of_ranges =
                ranges.iter().zip(&totals).map(|(range, totals)| (range.name.clone(), json!(named(totals))));
            more.insert("totals_by_range".to_owned(), Value::Object(of_ranges.collect()));
        }
        let first = gathered.wholes.first().cloned().unwrap_or_default();
        let quota = question::least_quota(gathered.wholes.iter().chain(&gathered.days));
        let end = ReportEnd { property_quota: quota, row_count: places.len() as u64, ..first };
        Ok(report.answer(table, self.property, &end, ranges, more, call))
    }

    /// Google's totals of each range; none for a range whose totals it did not send. Where the whole is an estimate from a sample and
    /// all metrics add up, they are the sums of Google's totals of the days.
    fn totals(&self, gathered: &Gathered) -> Result<Vec<Vec<String>>> {
        let widths: Vec<usize> = self.report.chunks().iter().map(|chunk| chunk.len()).collect();
        let sampled = gathered.wholes.iter().any(|end| !end.metadata.sampling_metadatas.is_empty());
        let from_days =
            sampled && !gathered.days.is_empty() && self.report.metrics.iter().all(|name| is_additive(name));
        let mut of_days = gathered.days.iter();
        let mut ranges = Vec::new();
        for (number, range) in self.ranges.iter().enumerate() {
            let mut totals = Vec::new();
            for (slot, width) in self.slots_of(number).zip(&widths) {
                let days = usize::try_from(range.window.days()).unwrap_or_default();
                let days: Vec<&ReportEnd> =
                    if gathered.days.is_empty() { Vec::new() } else { of_days.by_ref().take(days).collect() };
                if !from_days {
                    totals.extend(totals_of(&gathered.wholes[slot], *width)?.unwrap_or_default());
                    continue;
                }
                let mut sums = vec![Decimal::ZERO; *width];
                for day in days {
                    for (sum, total) in sums.iter_mut().zip(totals_of(day, *width)?.unwrap_or_default()) {
                        amount::add(sum, amount::read(&total)?.unwrap_or_default())?;
                    }
                }
                totals.extend(sums.into_iter().map(amount::digits));
            }
            if totals.len() != self.report.metrics.len() {
                totals.clear();
            }
            ranges.push(totals);
        }
        Ok(ranges)
    }

    /// What is to be said of each range.
    fn warn(&self, gathered: &Gathered) -> Result<()> {
        let call = self.call;
        let compared = self.ranges.len() > 1;
        if !gathered.days.is_empty() {
            let lossy = |found: &dyn Fn(&ReportEnd) -> bool| gathered.days.iter().filter(|day| found(day)).count();
            let rolled = lossy(&|day| day.metadata.data_loss_from_other_row);
            let sampled = lossy(&|day| !day.metadata.sampling_metadatas.is_empty());
            let total = gathered.days.len();
            call.warn(format!(
                "The report was asked for day by day ({total} requests) and put together from the days."
            ));
            if rolled > 0 {
                call.warn(format!(
                    "{rolled} of {total} daily reports still have a row \"(other)\": their rows are incomplete."
                ));
            }
            if sampled > 0 {
                call.warn(format!("{sampled} of {total} daily reports are still estimates from a sample."));
            }
            let estimate = gathered.wholes.iter().any(|end| !end.metadata.sampling_metadatas.is_empty());
            if estimate && !self.report.metrics.iter().all(|name| is_additive(name)) {
                call.warn(
                    "totals are Google's estimate from a sample of the whole range: not all metrics add up over days.",
                );
            }
        }
        for (number, range) in self.ranges.iter().enumerate() {
            let name = compared.then_some(range.name.as_str());
            for slot in self.slots_of(number) {
                let whole = &gathered.wholes[slot];
                let mut metadata = whole.metadata.clone();
                if !gathered.days.is_empty() {
                    metadata.data_loss_from_other_row = false;
                    metadata.sampling_metadatas.clear();
                }
                question::warn_of_range(&metadata, range.window, name, call);
                let metrics = self.report.chunks()[slot - self.slots_of(number).start];
                // One range tells it.
                if number == 0 {
                    self.report.warn_zeros(self.fields, metrics, range.window, whole, call);
                }
                if self.report.metric_filters.is_empty() && gathered.days.is_empty() {
                    let mut control = ControlSum::of(metrics);
                    if let Some((place, _)) = control.column() {
                        control.set(gathered.held.sum(slot, place)?);
                    }
                    question::warn_gap(&control, whole, name, call);
                }
            }
        }
        Ok(())
    }
}

/// Whether Google left something out that a shorter period may have.
fn is_lossy(end: &ReportEnd) -> bool {
    end.metadata.data_loss_from_other_row || !end.metadata.sampling_metadatas.is_empty()
}

fn lock(held: &Mutex<HeldRows>) -> std::sync::MutexGuard<'_, HeldRows> {
    held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
