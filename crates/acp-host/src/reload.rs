//! Asking again for what a dataset holds: all of it, or some days (8.9).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use acp_protocol::result::{ColumnType, Header};
use acp_protocol::{JsonObject, dates};
use jiff::ZonedDateTime;
use jiff::civil::Date;
use serde_json::Value;

use crate::client::OnProgress;
use crate::datasets::{self, Dataset};
use crate::foreign::common_type;
use crate::host::{Answered, Host, HostError, stoppable};
use crate::store::{self, Asked, CANCELLED, DatasetMeta, NewDataset, ORIGIN_ACP, StoreError, Stored};
use crate::table::Table;
use crate::window::{self, Window};

/// How much of a dataset is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// All of it, in the place of what it holds.
    All,
    /// The rows of some days, both included, in the place of those that it holds of these days.
    Days {
        /// First day.
        start: Date,
        /// Last day.
        end: Date,
    },
}

/// What became of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Reloaded {
    /// The dataset.
    pub id: String,
    /// Rows that it holds now.
    pub row_count: u64,
    /// The dataset that was made in its place, since the columns are no longer the same; the old one is as it was.
    pub other: Option<String>,
}

impl Host {
    /// Asks again for what a dataset holds. Datasets of one extraction are asked for together, and each table goes into its
    /// own. What fails leaves the datasets as they were.
    pub async fn reload(
        &self,
        dataset: &str,
        reload: Reload,
        on_progress: Option<OnProgress>,
    ) -> Result<Vec<Reloaded>, HostError> {
        let dataset = datasets::find(&self.data(), dataset).map_err(HostError::Dataset)?;
        let meta = &dataset.meta;
        let (ORIGIN_ACP, Some(source), Some(tool)) = (meta.origin.as_str(), &meta.source, &meta.tool) else {
            let text = format!("{} is no extraction ({}), so it can't be asked for again.", meta.id, meta.origin);
            return Err(HostError::Arguments(text));
        };
        let sources = self.sources().map_err(HostError::Sources)?;
        let source = self.source(&sources, source)?;
        let server = self.server(&source.acp).await?;
        let schema = server.tool(tool).map(|tool| &tool.input_schema);
        let window = schema.and_then(Window::of);
        let takes_resource = schema.is_some_and(|schema| schema["properties"].get("resource_id").is_some());
        let mut arguments = meta.template.clone().unwrap_or_else(|| meta.arguments.clone());
        if let Some(resource) = meta.resource_id.clone().filter(|_| takes_resource) {
            arguments.insert("resource_id".to_owned(), resource.into());
        }
        if let Reload::Days { start, end } = reload {
            let window =
                window.as_ref().filter(|window| matches!(window, Window::Pair { .. }) || meta.template.is_some());
            let window = window.ok_or_else(|| refuse(meta, "was asked for without a window of dates"))?;
            set_days(meta, window, &mut arguments, start, end)?;
        }
        let family = self.family(&dataset)?;
        if let Reload::Days { .. } = reload {
            family.iter().try_for_each(|dataset| day_column(&dataset.meta).map(|_| ()))?;
        }
        let answered = self.ask(&sources, &source, &server, tool, arguments, on_progress).await?;
        if let Some(error) = answered.answer.meta.error.clone().filter(|_| answered.answer.is_error) {
            return Err(HostError::Tool(Box::new(error)));
        }
        if !answered.answer.is_extraction() {
            return Err(HostError::Store(StoreError::NoData));
        }
        let data = self.data();
        stoppable(move |stop| {
            let reloaded = write_all(&data, &source.id, &family, &answered, window.as_ref(), reload, stop);
            answered.delete_files();
            reloaded
        })
        .await
    }

    /// The datasets that came from the same extraction.
    fn family(&self, dataset: &Dataset) -> Result<Vec<Dataset>, HostError> {
        let Some(extraction) = &dataset.meta.extraction else { return Ok(vec![dataset.clone()]) };
        let listing = datasets::list(&self.data())?;
        Ok(listing.datasets.into_iter().filter(|other| other.meta.extraction.as_ref() == Some(extraction)).collect())
    }
}

fn refuse(meta: &DatasetMeta, why: &str) -> HostError {
    HostError::Arguments(format!("{} {why}: only all of it can be asked for again.", meta.id))
}

/// Puts the days into the arguments. They must touch those that the dataset has, or it would have a gap that nobody sees.
fn set_days(
    meta: &DatasetMeta,
    window: &Window,
    arguments: &mut JsonObject,
    start: Date,
    end: Date,
) -> Result<(), HostError> {
    window::in_order(start, end).map_err(HostError::Arguments)?;
    let [first, last] = window.bounds();
    if let (Some(old_start), Some(old_end)) = (day(arguments.get(first)), day(arguments.get(last))) {
        let touches = start <= old_end.tomorrow().unwrap_or(old_end) && old_start <= end.tomorrow().unwrap_or(end);
        if !touches {
            return Err(HostError::Arguments(format!(
                "{} has the days from {old_start} to {old_end}: those to reload must touch them, or there would be a gap.",
                meta.id
            )));
        }
    }
    arguments.insert(first.to_owned(), start.to_string().into());
    arguments.insert(last.to_owned(), end.to_string().into());
    Ok(())
}

fn day(value: Option<&Value>) -> Option<Date> {
    day_of(value?.as_str()?)
}

/// A day as stored arguments and cells have it: no words.
fn day_of(text: &str) -> Option<Date> {
    text.starts_with(|first: char| first.is_ascii_digit()).then(|| dates::resolve(text, Date::MIN).ok()).flatten()
}

/// The place of the column that tells a row's day.
fn day_column(meta: &DatasetMeta) -> Result<usize, HostError> {
    let named = meta.headers.iter().position(|header| header.name == "date");
    let mut typed = meta.headers.iter().enumerate().filter(|(_, header)| header.column_type == ColumnType::Date);
    let only = match (typed.next(), typed.next()) {
        (Some((place, _)), None) => Some(place),
        _ => None,
    };
    named.or(only).ok_or_else(|| refuse(meta, "has no column that tells the day of a row"))
}

fn write_all(
    data: &Path,
    source: &str,
    family: &[Dataset],
    answered: &Answered,
    window: Option<&Window>,
    reload: Reload,
    stop: &AtomicBool,
) -> Result<Vec<Reloaded>, HostError> {
    let now = ZonedDateTime::now();
    let asked = Asked { source, template: answered.windowed.template.as_ref(), now: &now, stop };
    let described = store::tables(&asked, &answered.answer).map_err(HostError::Store)?;
    let mut reloaded = Vec::new();
    for (name, table, meta) in described {
        let Some(dataset) = family.iter().find(|dataset| dataset.meta.table == name) else {
            if let Stored::Dataset { meta, .. } =
                store::store_table(data, &asked, name, table, meta).map_err(HostError::Store)?
            {
                reloaded.push(Reloaded { id: meta.id.clone(), row_count: meta.row_count, other: None });
            }
            continue;
        };
        let id = dataset.meta.id.clone();
        // A table without rows may not know its columns.
        let same = table.row_count() == 0 || same_columns(&dataset.meta.headers, table.headers());
        if !same {
            let Stored::Dataset { meta, .. } =
                store::store_table(data, &asked, name, table, meta).map_err(HostError::Store)?
            else {
                continue;
            };
            reloaded.push(Reloaded { id, row_count: dataset.meta.row_count, other: Some(meta.id.clone()) });
            continue;
        }
        let meta = match reload {
            Reload::All => replace(data, dataset, &table, meta, stop)?,
            Reload::Days { start, end } => rewrite_days(data, dataset, &table, &meta, window, (start, end), stop)?,
        };
        reloaded.push(Reloaded { id, row_count: meta.row_count, other: None });
    }
    Ok(reloaded)
}

fn same_columns(one: &[Header], other: &[Header]) -> bool {
    let names = |headers: &[Header]| {
        let mut names: Vec<String> = headers.iter().map(|header| header.name.clone()).collect();
        names.sort();
        names
    };
    names(one) == names(other)
}

/// All rows anew, under the old id.
fn replace(
    data: &Path,
    dataset: &Dataset,
    table: &Table<'_>,
    mut meta: DatasetMeta,
    stop: &AtomicBool,
) -> Result<DatasetMeta, HostError> {
    meta.id.clone_from(&dataset.meta.id);
    meta.extraction.clone_from(&dataset.meta.extraction);
    if table.row_count() == 0 {
        meta.headers.clone_from(&dataset.meta.headers);
    }
    let mut new = NewDataset::replacing(data, &meta.id, &meta.headers)?;
    store::write_rows(table, &mut new, stop).map_err(HostError::Store)?;
    new.finish(&meta)?;
    Ok(meta)
}

/// The rows of other days as they were, and the new ones in the place of the first that they replace, or behind them.
fn rewrite_days(
    data: &Path,
    dataset: &Dataset,
    table: &Table<'_>,
    fresh: &DatasetMeta,
    window: Option<&Window>,
    days: (Date, Date),
    stop: &AtomicBool,
) -> Result<DatasetMeta, HostError> {
    let mut meta = dataset.meta.clone();
    let rewrite = Rewrite { column: day_column(&meta)?, days, places: places(&mut meta.headers, table.headers()) };
    let mut new = NewDataset::replacing(data, &meta.id, &meta.headers)?;
    let mut inserted = false;
    dataset
        .read(|row| {
            if stop.load(Ordering::Relaxed) {
                return Err(CANCELLED.to_owned());
            }
            match rewrite.replaces(&row[rewrite.column]) {
                Some(true) if inserted => Ok(()),
                Some(true) => {
                    inserted = true;
                    rewrite.insert(table, &mut new)
                }
                Some(false) => {
                    row.iter().try_for_each(|cell| new.field(cell)).map_err(|error| error.to_string())?;
                    new.end_row().map_err(|error| error.to_string())
                }
                None => Err(format!("{} has a row whose day can't be read: reload all of it.", meta.id)),
            }
        })
        .map_err(HostError::Dataset)?;
    if !inserted {
        rewrite.insert(table, &mut new).map_err(HostError::Arguments)?;
    }
    meta.row_count = new.row_count();
    meta.created_at.clone_from(&fresh.created_at);
    widen(&mut meta, fresh, window);
    new.finish(&meta)?;
    Ok(meta)
}

/// How rows of some days are replaced.
struct Rewrite {
    /// Place of the column with the day, in the dataset.
    column: usize,
    days: (Date, Date),
    /// For each column of the dataset, its place in the new table.
    places: Vec<usize>,
}

impl Rewrite {
    /// Whether a row of this day is replaced; `None` where the cell is no day.
    fn replaces(&self, cell: &str) -> Option<bool> {
        day_of(cell).map(|day| (self.days.0..=self.days.1).contains(&day))
    }

    fn insert(&self, table: &Table<'_>, new: &mut NewDataset) -> Result<(), String> {
        let mut cells = vec![String::new(); table.headers().len()];
        let inserted = table.read(|row| {
            for (cell, text) in row.iter().zip(&mut cells) {
                store::csv_text(cell, text)?;
            }
            let row = || self.places.iter().filter_map(|place| cells.get(*place));
            if row().nth(self.column).is_none_or(|cell| self.replaces(cell) != Some(true)) {
                return Err(format!("the answer holds rows of other days than {} to {}", self.days.0, self.days.1));
            }
            row().try_for_each(|cell| new.field(cell)).map_err(|error| error.to_string())?;
            new.end_row().map_err(|error| error.to_string())
        });
        inserted.map_err(|error| error.to_string())
    }
}

/// Where the columns of a dataset are in a table with the same names. Types become those that hold both.
fn places(headers: &mut [Header], fresh: &[Header]) -> Vec<usize> {
    let mut places = Vec::new();
    for header in headers {
        let Some(place) = fresh.iter().position(|other| other.name == header.name) else { continue };
        header.column_type = common_type(header.column_type, fresh[place].column_type);
        places.push(place);
    }
    places
}

/// Makes what a dataset says of its dates hold for the days that came to it.
fn widen(meta: &mut DatasetMeta, fresh: &DatasetMeta, window: Option<&Window>) {
    // ISO days are in the order of their texts.
    if let ([first, last, ..], [fresh_first, fresh_last, ..]) = (meta.dates.as_mut_slice(), fresh.dates.as_slice()) {
        first.clone_from(&(&*first).min(fresh_first).clone());
        last.clone_from(&(&*last).max(fresh_last).clone());
    }
    let Some(window) = window else { return };
    let [first, last] = window.bounds();
    let widen = |arguments: &mut JsonObject, fresh: &JsonObject| {
        for (name, earlier) in [(first, true), (last, false)] {
            if let (Some(old), Some(new)) = (day(arguments.get(name)), day(fresh.get(name))) {
                let day = if earlier { old.min(new) } else { old.max(new) };
                arguments.insert(name.to_owned(), day.to_string().into());
            }
        }
    };
    match (&mut meta.template, &fresh.template) {
        (Some(template), Some(fresh)) => {
            widen(template, fresh);
            if let Ok(windowed) = Window::apply(Some(window), template.clone(), Date::MIN) {
                meta.arguments = windowed.arguments;
            }
        }
        _ => widen(&mut meta.arguments, &fresh.arguments),
    }
}
