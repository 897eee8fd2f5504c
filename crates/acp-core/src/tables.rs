//! Extractions of several related tables (8.2.1), and the catalogue from which they are chosen (8.7).

use std::borrow::Cow;
use std::collections::HashSet;

use acp_protocol::capability::TableCatalogEntry;
use acp_protocol::result::{
    DataFormat, ModelTable, ModelView, MultiTableModelResponse, ResultKind, TableFormat, TableInfo,
};
use acp_protocol::{JsonObject, MODEL_ROWS_MULTI, MODEL_ROWS_SINGLE, MODEL_VIEW_MAX_VALUE_CHARS};
use indexmap::IndexMap;
use jiff::civil::Date;
use rmcp::model::CallToolResult;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::{Delivered, Facts, deliver, result, text_of};
use crate::arguments::TABLES;
use crate::autocontext::Delivery;
use crate::cell;
use crate::error::{Error, Result};
use crate::table::{FinishedTable, TableWriter, fields};
use crate::tool::Extraction;

/// Several tables of one extraction. A client that can't store several gets the main one: the first that is
/// [`primary`](NamedTable::primary), or simply the first.
#[derive(Debug)]
pub struct Tables {
    description: String,
    dates: Vec<Date>,
    title: Option<String>,
    extra: Option<Value>,
    source: Option<JsonObject>,
    manifest: Option<Value>,
    tables: Vec<NamedTable>,
}

/// One of several tables.
#[derive(Debug)]
pub struct NamedTable {
    name: String,
    title: Option<String>,
    description: Option<String>,
    dates: Vec<Date>,
    view: Option<ModelView>,
    primary: bool,
    table: TableWriter,
}

impl Tables {
    /// An extraction, with one technical sentence that says how it was obtained.
    pub fn new(description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            dates: Vec::new(),
            title: None,
            extra: None,
            source: None,
            manifest: None,
            tables: Vec::new(),
        }
    }

    /// Adds a table. Tables are delivered in this order, empty ones included; those of the catalogue that nobody asked
    /// for are left out, and only their rows are counted.
    #[must_use]
    pub fn table(mut self, table: NamedTable) -> Self {
        self.tables.push(table);
        self
    }

    /// See [`Extraction::dates`].
    #[must_use]
    pub fn dates(mut self, dates: impl IntoIterator<Item = Date>) -> Self {
        self.dates.extend(dates);
        self
    }

    /// See [`Extraction::title`].
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// See [`Extraction::extra`].
    #[must_use]
    pub fn extra(mut self, extra: Value) -> Self {
        self.extra = Some(extra);
        self
    }

    /// See [`Extraction::source`].
    #[must_use]
    pub fn source(mut self, source: JsonObject) -> Self {
        self.source = Some(source);
        self
    }

    /// Information for the model alone that goes with the tables, such as the pages of a visit. It is not data, and it is
    /// always delivered.
    #[must_use]
    pub fn manifest(mut self, manifest: Value) -> Self {
        self.manifest = Some(manifest);
        self
    }
}

impl NamedTable {
    /// A filled table; `name` has lowercase letters, digits and `_`.
    pub fn new(name: impl Into<String>, table: TableWriter) -> Self {
        let name = name.into();
        Self { name, title: None, description: None, dates: Vec::new(), view: None, primary: false, table }
    }

    /// Title for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// How this table was obtained; without one, the extraction's sentence stands for it.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The table's own window.
    #[must_use]
    pub fn dates(mut self, dates: impl IntoIterator<Item = Date>) -> Self {
        self.dates.extend(dates);
        self
    }

    /// Shows the model these fields instead of rows with all columns: for tables of events, which have many sparse
    /// columns.
    #[must_use]
    pub fn view(mut self, view: ModelView) -> Self {
        self.view = Some(view);
        self
    }

    /// Makes it the main table.
    #[must_use]
    pub fn primary(mut self) -> Self {
        self.primary = true;
        self
    }
}

/// The tables a connector can make and what is selected of them by default; empty for connectors without a catalogue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) entries: Vec<TableCatalogEntry>,
    pub(crate) defaults: Option<Vec<String>>,
    /// Fields per row in tables with a view.
    pub(crate) field_limit: Option<u32>,
}

impl Catalogue {
    /// The selection in force for a tool, or for any tool; see [`Selection::of`].
    pub(crate) fn select(
        &self,
        asked: Option<&[String]>,
        set: Option<&[String]>,
        tool: Option<&str>,
    ) -> Option<Selection> {
        Selection::of(&self.entries_of(tool), asked, set, self.defaults.as_deref())
    }

    /// Leaves out what none of these tools makes.
    pub(crate) fn keep_tools(&mut self, tools: &[&str]) {
        self.entries.retain_mut(|entry| match &mut entry.tools {
            Some(makers) => {
                makers.retain(|maker| tools.contains(&maker.as_str()));
                !makers.is_empty()
            }
            None => !tools.is_empty(),
        });
        if let Some(defaults) = &mut self.defaults {
            defaults.retain(|name| self.entries.iter().any(|entry| entry.name == *name));
        }
        self.defaults.take_if(|_| self.entries.is_empty());
        self.field_limit.take_if(|_| tools.is_empty());
    }

    /// The tables that a tool makes, or all.
    fn entries_of(&self, tool: Option<&str>) -> Vec<&TableCatalogEntry> {
        let makes = |entry: &&TableCatalogEntry| match (&entry.tools, tool) {
            (Some(tools), Some(tool)) => tools.iter().any(|known| known == tool),
            _ => true,
        };
        self.entries.iter().filter(makes).collect()
    }

    /// The argument `tables` of a tool that makes tables of the catalogue.
    pub(crate) fn argument(&self, tool: &str) -> Option<Value> {
        let entries = self.entries_of(Some(tool));
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let titles: Vec<String> = entries.iter().map(|entry| format!("{} ({})", entry.name, entry.title)).collect();
        let description = format!(
            "Datasets to extract. If omitted, the source defaults are used. Request only what the analysis needs. There are: {}.",
            titles.join(", ")
        );
        let items = json!({"type": "string", "enum": names});
        (!entries.is_empty())
            .then(|| json!({"type": "array", "items": items, "uniqueItems": true, "description": description}))
    }

    /// Panics where the catalogue is not one that can be published: names, defaults and tools must be known and valid.
    pub(crate) fn assert_valid(&self, extraction_tools: &[&str]) {
        for (place, entry) in self.entries.iter().enumerate() {
            let name = &entry.name;
            assert!(is_table_name(name), "the table name {name} must be of lowercase letters, digits and _");
            assert!(self.entries[..place].iter().all(|known| known.name != *name), "two tables are called {name}");
            for tool in entry.tools.iter().flatten() {
                assert!(extraction_tools.contains(&tool.as_str()), "table {name}: {tool} is no extraction tool");
            }
        }
        for name in self.defaults.iter().flatten() {
            assert!(self.entries.iter().any(|entry| entry.name == *name), "there is no table {name} to select");
        }
    }

    /// Reads the selection of a host. Servers without a catalogue ignore it; duplicates count once.
    pub(crate) fn read(&self, value: Option<&Value>) -> Result<Option<Vec<String>>> {
        let Some(value) = value.filter(|_| !self.entries.is_empty()) else { return Ok(None) };
        let names: Option<Vec<&str>> = value.as_array().and_then(|names| names.iter().map(Value::as_str).collect());
        let names =
            names.ok_or_else(|| Error::invalid_arguments("tables must be a list of table names. The host sets it."))?;
        let known: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        if names.iter().any(|name| !known.contains(name)) {
            return Err(Error::invalid_arguments(format!(
                "tables names a table that is not in the catalogue. There are: {}.",
                known.join(", ")
            )));
        }
        Ok(Some(known.into_iter().filter(|name| names.contains(name)).map(str::to_owned).collect()))
    }
}

/// The tables that a call asks for, out of a tool's part of the catalogue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    catalogue: Vec<String>,
    selected: Vec<String>,
}

impl Selection {
    /// The selection in force: what the model asked for, else what the host set, else the server's defaults, else all;
    /// required tables are always part of it. `None` where the tool has no catalogue.
    pub(crate) fn of(
        entries: &[&TableCatalogEntry],
        asked: Option<&[String]>,
        set: Option<&[String]>,
        defaults: Option<&[String]>,
    ) -> Option<Self> {
        if entries.is_empty() {
            return None;
        }
        let chosen = asked.or(set).or(defaults);
        let is_selected = |entry: &&&TableCatalogEntry| {
            entry.required == Some(true) || chosen.is_none_or(|chosen| chosen.contains(&entry.name))
        };
        let names =
            |entries: &mut dyn Iterator<Item = &&TableCatalogEntry>| entries.map(|entry| entry.name.clone()).collect();
        Some(Self { catalogue: names(&mut entries.iter()), selected: names(&mut entries.iter().filter(is_selected)) })
    }

    /// Whether a table is delivered. Tables that are not in the catalogue always are.
    pub(crate) fn wants(&self, name: &str) -> bool {
        !self.catalogue.iter().any(|known| known == name) || self.selected.iter().any(|selected| selected == name)
    }

    /// Whether no table of the catalogue was selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.selected.is_empty()
    }

    /// The names selected, in the catalogue's order.
    pub(crate) fn selected(&self) -> &[String] {
        &self.selected
    }
}

/// A finished table and what it is.
struct Part {
    name: String,
    title: Option<String>,
    description: Option<String>,
    dates: Vec<Date>,
    view: Option<ModelView>,
    table: FinishedTable,
}

impl Facts {
    /// The answer of a tool of several tables, to a client that can store several.
    pub(crate) fn tables(
        &mut self,
        tables: Tables,
        selection: Option<&Selection>,
        today: Date,
        attached: Option<Delivery>,
        delivered: &Delivered<'_>,
    ) -> Result<CallToolResult> {
        let (wanted, not_extracted) = split(tables.tables, selection)?;
        let row_limit = self.in_force.row_limit as usize;
        let cap = if wanted.len() == 1 { MODEL_ROWS_SINGLE } else { MODEL_ROWS_MULTI };
        let mut parts = Vec::with_capacity(wanted.len());
        for NamedTable { name, title, description, dates, view, primary: _, table } in wanted {
            let shown = match &view {
                Some(view) => view.max_rows.map_or(cap, |most| cap.min(most as usize)),
                None => row_limit,
            };
            let table = table.finish(shown)?;
            self.warnings.extend(table.warnings.iter().map(|warning| format!("{name}: {warning}")));
            parts.push(Part { name, title, description, dates, view, table });
        }
        let dates = if tables.dates.is_empty() { vec![today] } else { tables.dates };
        let notice = notice(&parts, &not_extracted, selection);
        let mut model_tables = IndexMap::new();
        let mut infos = Vec::new();
        for part in &parts {
            let shown = self.model_table(part, &tables.description, &dates)?;
            infos.push(TableInfo {
                name: part.name.clone(),
                title: part.title.clone(),
                total_rows: shown.total_rows,
                returned_rows: shown.returned_rows,
                fields_total: shown.fields_total,
                fields_shown: shown.fields.len() as u64,
            });
            model_tables.insert(part.name.clone(), shown);
        }
        let warnings = self.warnings.clone();
        if let Some(delivery) = &attached {
            self.warnings.extend(delivery.warnings.clone());
        }
        self.repeat_selection(selection);
        let mut info = self.system_info(ResultKind::Extraction);
        let sum = |count: fn(&TableInfo) -> u64| infos.iter().map(count).sum::<u64>();
        let (total, returned) = (sum(|info| info.total_rows), sum(|info| info.returned_rows));
        info.title = tables.title;
        info.total_rows = Some(total);
        info.returned_rows = Some(returned);
        info.truncated = Some(returned < total);
        info.autocontext_attached = attached.is_some();
        info.messages = vec![notice.clone()];
        info.source = tables.source;
        info.field_limit = Some(self.in_force.field_limit);
        info.tables = Some(infos);
        info.tables_selected = selection.map(|selection| selection.selected().to_vec());
        let response = MultiTableModelResponse {
            notice,
            description: tables.description,
            dates: dates.iter().map(Date::to_string).collect(),
            manifest: tables.manifest,
            tables: model_tables,
            not_extracted: (!not_extracted.is_empty()).then_some(not_extracted),
            extra: tables.extra,
            warnings: (!warnings.is_empty()).then_some(warnings),
            autocontext: attached.map(|delivery| delivery.blocks),
        };
        let text = text_of(&response)?;
        let data = system_data(parts, total, delivered)?;
        Ok(result(text, ResultKind::Extraction, &info, data, None))
    }

    /// The same as an extraction of the main table alone, for a client that can store only one (8.2.1).
    pub(crate) fn main_table(
        &mut self,
        tables: Tables,
        selection: Option<&Selection>,
        today: Date,
        attached: Option<Delivery>,
        delivered: &Delivered<'_>,
        empty: TableWriter,
    ) -> Result<CallToolResult> {
        let (mut wanted, not_extracted) = split(tables.tables, selection)?;
        if !not_extracted.is_empty() {
            self.warnings.push(left_out(&not_extracted));
        }
        let main = wanted.iter().position(|table| table.primary).unwrap_or(0);
        let nothing_requested = wanted.is_empty() && selection.is_some_and(Selection::is_empty);
        let (table, description, dates) = match wanted.is_empty() {
            true => (empty, None, Vec::new()),
            false => {
                let main = wanted.swap_remove(main);
                (main.table, main.description, main.dates)
            }
        };
        let extraction = Extraction {
            table,
            description: description.unwrap_or(tables.description),
            dates: if dates.is_empty() { tables.dates } else { dates },
            title: tables.title,
            extra: tables.extra,
            source: tables.source,
        };
        let notice = nothing_requested.then(|| NOTHING_REQUESTED.to_owned());
        self.extraction(extraction, today, attached, delivered, notice, selection)
    }

    /// Puts the selection in force into the arguments, so that a repetition extracts the same (8.4).
    pub(crate) fn repeat_selection(&mut self, selection: Option<&Selection>) {
        if let Some(selection) = selection {
            self.arguments.insert(TABLES.to_owned(), json!(selection.selected()));
        }
    }

    fn model_table(&self, part: &Part, description: &str, dates: &[Date]) -> Result<ModelTable> {
        let columns: Vec<&str> = part.table.headers.iter().map(|header| header.name.as_str()).collect();
        let shown: Vec<String> = match &part.view {
            Some(view) => {
                let is_first = |(place, field): &(usize, &String)| !view.fields[..*place].contains(field);
                let existing = view.fields.iter().enumerate().filter(is_first).map(|(_, field)| field);
                let existing = existing.filter(|field| columns.contains(&field.as_str()));
                existing.take(self.in_force.field_limit as usize).cloned().collect()
            }
            None => columns.iter().map(ToString::to_string).collect(),
        };
        let rows = match &part.view {
            Some(_) if shown.is_empty() => Vec::new(),
            Some(view) => {
                let most = view.max_value_chars.map_or(MODEL_VIEW_MAX_VALUE_CHARS, |most| most as usize);
                part.table.sample.iter().map(|row| view_row(row, &shown, most)).collect::<Result<_>>()?
            }
            None => part.table.sample.clone(),
        };
        let (total, returned) = (part.table.rows, rows.len() as u64);
        Ok(ModelTable {
            title: part.title.clone(),
            notice: table_notice(&part.name, returned, total, shown.len(), columns.len()),
            total_rows: total,
            returned_rows: returned,
            fields_total: columns.len() as u64,
            fields: shown,
            rows,
            description: part.description.clone().unwrap_or_else(|| description.to_owned()),
            dates: if part.dates.is_empty() { dates } else { &part.dates }.iter().map(Date::to_string).collect(),
        })
    }
}

const NOTHING_REQUESTED: &str = "No tables were requested, so no data was extracted.";

/// The tables to deliver, and the rows of those that nobody asked for.
fn split(tables: Vec<NamedTable>, selection: Option<&Selection>) -> Result<(Vec<NamedTable>, IndexMap<String, u64>)> {
    let mut wanted: Vec<NamedTable> = Vec::new();
    let mut not_extracted = IndexMap::new();
    let mut names = HashSet::new();
    for table in tables {
        if !is_table_name(&table.name) || !names.insert(table.name.clone()) {
            return Err(Error::upstream(format!(
                "The connector made a table with the name {:?}, which is not valid or is there twice. Report this error.",
                table.name
            )));
        }
        if selection.is_none_or(|selection| selection.wants(&table.name)) {
            wanted.push(table);
        } else if table.table.rows() > 0 {
            not_extracted.insert(table.name, table.table.rows());
        }
    }
    Ok((wanted, not_extracted))
}

fn is_table_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn notice(parts: &[Part], not_extracted: &IndexMap<String, u64>, selection: Option<&Selection>) -> String {
    let filled: Vec<String> = parts
        .iter()
        .filter(|part| part.table.rows > 0)
        .map(|part| format!("{} ({})", part.name, part.table.rows))
        .collect();
    let mut notice = match filled.len() {
        // This sentence takes the place of the one about what was not requested (8.7).
        0 if selection.is_some_and(Selection::is_empty) => return NOTHING_REQUESTED.to_owned(),
        0 => "No data was extracted.".to_owned(),
        count => format!(
            "Extracted {count} table(s) with data: {}. You see a reduced view; the host stores every table in full.",
            filled.join(", ")
        ),
    };
    if !not_extracted.is_empty() {
        notice.push(' ');
        notice.push_str(&left_out(not_extracted));
    }
    notice
}

fn left_out(not_extracted: &IndexMap<String, u64>) -> String {
    let list: Vec<String> = not_extracted.iter().map(|(name, rows)| format!("{name} ({rows})")).collect();
    format!(
        "Not extracted because they were not requested: {}. Ask for them with tables only if the analysis needs them.",
        list.join(", ")
    )
}

fn table_notice(name: &str, returned: u64, total: u64, shown: usize, columns: usize) -> String {
    if total == 0 {
        return format!("{name}: no rows.");
    }
    let rows = if returned == total { format!("{total} rows") } else { format!("{returned} of {total} rows") };
    let fields = if shown == columns { "all fields".to_owned() } else { format!("{shown} of {columns} fields") };
    format!("{name}: {rows}, {fields}.")
}

/// A row with the fields of a view: empty cells are left out, long values are cut.
fn view_row(row: &RawValue, shown: &[String], most: usize) -> Result<Box<RawValue>> {
    let cells = fields(row.get())?;
    let mut out = vec![b'{'];
    for name in shown {
        let Some((_, value)) = cells.iter().find(|(known, _)| known == name) else { continue };
        let json = value.get();
        let text: Cow<'_, str> = match json.as_bytes().first() {
            Some(b'"') => serde_json::from_str::<String>(json).unwrap_or_default().into(),
            Some(b'{' | b'[') => json.into(),
            _ => "".into(),
        };
        if json == "null" || json == "\"\"" {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        cell::write_escaped(&mut out, name);
        out.push(b':');
        match json.as_bytes().first() {
            Some(b'"' | b'{' | b'[') => cell::write_escaped(&mut out, &clip(&text, most)),
            _ => out.extend_from_slice(json.as_bytes()),
        }
    }
    out.push(b'}');
    RawValue::from_string(String::from_utf8_lossy(&out).into_owned())
        .map_err(|_| Error::upstream("A row could not be written as JSON."))
}

/// At most this many characters, the last of them `…` when something was cut.
fn clip(text: &str, most: usize) -> Cow<'_, str> {
    if text.chars().count() <= most {
        return text.into();
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut.into()
}

fn system_data(parts: Vec<Part>, total: u64, delivered: &Delivered<'_>) -> Result<Option<JsonObject>> {
    let mut entries = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(place) = deliver(part.table.place, delivered)? else { return Ok(None) };
        let mut entry = JsonObject::new();
        entry.insert("name".to_owned(), json!(part.name));
        if let Some(title) = part.title {
            entry.insert("title".to_owned(), json!(title));
        }
        let format = if place.0 == DataFormat::File { TableFormat::File } else { TableFormat::Inline };
        entry.insert("format".to_owned(), json!(format));
        entry.insert("row_count".to_owned(), json!(part.table.rows));
        entry.insert("headers".to_owned(), json!(part.table.headers));
        entry.insert(place.1.to_owned(), place.2);
        if let Some(view) = part.view {
            entry.insert("model_view".to_owned(), json!(view));
        }
        entries.push(Value::Object(entry));
    }
    let mut data = JsonObject::new();
    data.insert("format".to_owned(), json!(DataFormat::Tables));
    data.insert("row_count".to_owned(), json!(total));
    data.insert("headers".to_owned(), json!([]));
    data.insert("tables".to_owned(), entries.into());
    Ok(Some(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_at_characters() {
        assert_eq!(clip(&"x".repeat(80), 80), "x".repeat(80));
        assert_eq!(clip(&"x".repeat(81), 80), format!("{}…", "x".repeat(79)));
        assert_eq!(clip(&"😀".repeat(10), 5), format!("{}…", "😀".repeat(4)));
        assert_eq!((clip("ab", 1), clip("ab", 0)), ("…".into(), "…".into()));
    }

    #[test]
    fn view_rows_leave_empty_cells_out_and_keep_numbers() {
        let row = RawValue::from_string(
            r#"{"a":null,"b":"","c":0,"d":false,"e":{"k":"vvvv"},"f":12345678901234567890}"#.to_owned(),
        )
        .unwrap();
        let names: Vec<String> = ["f", "a", "b", "c", "d", "e", "z"].map(str::to_owned).to_vec();
        let shown = view_row(&row, &names, 6).unwrap();
        assert_eq!(shown.get(), r#"{"f":12345678901234567890,"c":0,"d":false,"e":"{\"k\":…"}"#);
    }

    #[test]
    fn the_catalogue_shrinks_with_the_tools() {
        let entry = |name: &str, tools: Option<&[&str]>| TableCatalogEntry {
            name: name.to_owned(),
            title: name.to_owned(),
            description: None,
            group: None,
            required: None,
            tools: tools.map(|tools| tools.iter().map(ToString::to_string).collect()),
        };
        let all = Catalogue {
            entries: vec![
                entry("any", None),
                entry("both", Some(&["visit", "look"])),
                entry("looks", Some(&["look"])),
                entry("visits", Some(&["visit"])),
            ],
            defaults: Some(vec!["visits".to_owned(), "both".to_owned()]),
            field_limit: None,
        };
        let mut left = all.clone();
        left.keep_tools(&["look"]);
        let looks = Some(vec!["look".to_owned()]);
        let shown: Vec<_> = left.entries.iter().map(|entry| (entry.name.as_str(), entry.tools.clone())).collect();
        assert_eq!(shown, [("any", None), ("both", looks.clone()), ("looks", looks)]);
        assert_eq!(left.defaults, Some(vec!["both".to_owned()]));
        left.keep_tools(&[]);
        assert!(left.entries.is_empty() && left.defaults.is_none());
        assert_eq!(all.select(None, None, Some("look")).map(|selection| selection.selected().len()), Some(1));
    }

    #[test]
    fn a_catalogue_that_can_not_be_published_is_found_at_once() {
        let catalogue = |names: &[&str], defaults: &[&str], tools: &[&str]| Catalogue {
            entries: names
                .iter()
                .map(|name| TableCatalogEntry {
                    name: (*name).to_owned(),
                    title: "T".to_owned(),
                    description: None,
                    group: None,
                    required: None,
                    tools: Some(tools.iter().map(ToString::to_string).collect()),
                })
                .collect(),
            defaults: Some(defaults.iter().map(ToString::to_string).collect()),
            field_limit: None,
        };
        let valid = |catalogue: Catalogue| std::panic::catch_unwind(|| catalogue.assert_valid(&["shoot"])).is_ok();
        assert!(valid(catalogue(&["a", "b"], &["a"], &["shoot"])));
        assert!(!valid(catalogue(&["a", "a"], &[], &[])));
        assert!(!valid(catalogue(&["A"], &[], &[])));
        assert!(!valid(catalogue(&["a"], &["b"], &[])));
        assert!(!valid(catalogue(&["a"], &[], &["info"])));
    }

    #[test]
    fn required_tables_are_always_selected_and_others_by_the_first_level_that_is_set() {
        let entry = |name: &str, required| TableCatalogEntry {
            name: name.to_owned(),
            title: name.to_owned(),
            description: None,
            group: None,
            required,
            tools: None,
        };
        let (a, b, c) = (entry("a", None), entry("b", None), entry("c", Some(true)));
        let entries = [&a, &b, &c];
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let of = |asked: Option<&[&str]>, set: Option<&[&str]>, defaults: Option<&[&str]>| {
            let [asked, set, defaults] = [asked, set, defaults].map(|level| level.map(names));
            Selection::of(&entries, asked.as_deref(), set.as_deref(), defaults.as_deref()).unwrap().selected().join(",")
        };
        assert_eq!(of(None, None, None), "a,b,c");
        assert_eq!(of(None, None, Some(&[])), "c");
        assert_eq!(of(None, Some(&["b"]), Some(&[])), "b,c");
        assert_eq!(of(Some(&["a"]), Some(&["b"]), None), "a,c");
        assert!(Selection::of(&[], None, None, None).is_none());
    }
}
