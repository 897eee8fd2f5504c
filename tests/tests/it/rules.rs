//! The rules that hold for every answer, whatever the vector: G0 to G4.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use acp_protocol::autocontext::{BlockDescriptor, BlockResult, ResourceListResponse};
use acp_protocol::error::{ErrorCode, ErrorPayload};
use acp_protocol::result::{
    ColumnType, DataFormat, ExtractionModelResponse, Header, ModelTable, ModelView, MultiTableModelResponse,
    ResultKind, ResultMeta, SystemData, SystemInfo, SystemTable, TableFormat,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

type Checked<T = ()> = Result<T, String>;

/// What begins every credential that the vectors use.
const CANARIES: [&str; 4] = ["KEY-A-CANARY", "KEY-B-CANARY", "TOK-CANARY", "PRIVKEY-CANARY"];

/// Fields that `system_info` has in every answer.
const SYSTEM_INFO: [&str; 15] = [
    "acp",
    "acp_version",
    "tool",
    "kind",
    "resource_id",
    "arguments",
    "row_limit",
    "cost_limit_usd",
    "cost_estimate_usd",
    "cost_actual_usd",
    "duration_ms",
    "fetched_at",
    "autocontext_attached",
    "messages",
    "warnings",
];

/// The answer to a call of a tool, with its numbers as text.
#[derive(Deserialize)]
struct Line {
    result: CallResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    content: Vec<Content>,
    #[serde(rename = "_meta")]
    meta: Meta,
    #[serde(default)]
    is_error: bool,
    structured_content: Option<Value>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(rename = "type")]
    content_type: String,
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct Meta {
    acp: ResultMeta,
}

fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(problem()) }
}

/// Checks one answer to `tools/call`; `several`: whether the client can store several tables.
pub(crate) fn check(line: &str, server: &str, tool: &str, several: bool) -> Checked {
    let parsed: Line = serde_json::from_str(line).map_err(|error| format!("G0 [S-A-01]: {error}"))?;
    let raw: Value = serde_json::from_str(line).map_err(|error| format!("G0 [S-A-01]: {error}"))?;
    let CallResult { content, meta: Meta { acp }, is_error, structured_content } = parsed.result;
    let model = content.first().filter(|first| first.content_type == "text").map(|first| first.text.as_str());
    let model = model.ok_or("G0 [S-2-05, S-8-01]: content[0] is not text")?;
    ensure(structured_content.is_none(), || "AMB-51: there is structuredContent".to_owned())?;
    let text: Value = serde_json::from_str(model).map_err(|error| format!("G0 [S-8-02]: {error}"))?;
    ensure(["system_info", "system_data", "_meta"].iter().all(|key| text.get(key).is_none()), || {
        "G0 [S-2.1-02]: the model sees what is for the host".to_owned()
    })?;
    check_info(&acp, &raw, server, tool)?;
    let error = acp.error.is_some();
    ensure(error == is_error, || "G1 [S-2-08, S-12.1-02]: isError and _meta.acp.error differ".to_owned())?;
    match acp.kind {
        ResultKind::Error => check_error(model, &acp),
        ResultKind::Extraction
            if serde_json::from_str::<Value>(model).is_ok_and(|model| model.get("tables").is_some()) =>
        {
            ensure(several, || "G2 [S-8.2.1-02]: the client can't store several tables".to_owned())?;
            let entries = raw["result"]["_meta"]["acp"]["system_data"]["tables"].as_array();
            ensure(entries.into_iter().flatten().all(|entry| entry.get("primary").is_none()), || {
                "AMB-25: primary is on the wire".to_owned()
            })?;
            check_tables(model, &acp.system_info, acp.system_data.as_ref())
        }
        ResultKind::Extraction => check_extraction(model, &acp.system_info, acp.system_data.as_ref()),
        kind => {
            ensure(acp.system_data.is_none(), || "G0 [S-8-05]: system_data outside an extraction".to_owned())?;
            ensure(!acp.system_info.autocontext_attached, || "[S-7.5-12] attached outside an extraction".to_owned())?;
            check_other(kind, model)
        }
    }
}

fn check_info(acp: &ResultMeta, raw: &Value, server: &str, tool: &str) -> Checked {
    let info = &acp.system_info;
    let fields = &raw["result"]["_meta"]["acp"]["system_info"];
    for name in SYSTEM_INFO {
        ensure(fields.get(name).is_some(), || format!("G0 [S-5.3-04, S-8.4-01, S-A-02]: system_info has no {name}"))?;
    }
    ensure(acp.version == "1.0" && info.acp_version == "1.0", || "G0 [S-8-04]: not version 1.0".to_owned())?;
    ensure(acp.kind == info.kind, || "G0 [S-8.1-02]: the two kinds differ".to_owned())?;
    ensure(info.acp == server, || format!("G0 [S-8.4-01]: acp is {}, the server {server}", info.acp))?;
    ensure(info.tool == tool, || format!("G0 [S-X-03]: tool is {}", info.tool))?;
    let utc = regex(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$");
    ensure(utc.is_match(&info.fetched_at), || format!("G0 [S-8.4-08]: fetched_at is {}", info.fetched_at))?;
    ensure(!info.arguments.contains_key("resource_id"), || "[S-8.4-05] arguments hold resource_id".to_owned())
}

fn check_error(model: &str, acp: &ResultMeta) -> Checked {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Model {
        error: ErrorPayload,
    }
    let Model { error } = serde_json::from_str(model).map_err(|error| format!("G1 [S-8.3-04, S-A-04]: {error}"))?;
    ensure(acp.error.as_ref() == Some(&error), || "G1 [S-12.1-03]: the two copies differ".to_owned())?;
    ensure(acp.system_data.is_none(), || "G1 [S-12.1-02]: system_data in an error".to_owned())?;
    let known = ErrorCode::from_code(error.code).map(ErrorCode::name);
    ensure(known == Some(error.name.as_str()) || error.code <= -32051, || {
        format!("[S-12.1-06] {} is not the name of {}", error.name, error.code)
    })?;
    ensure(error.message.len() > 20, || format!("[S-12.1-04] the message says too little: {}", error.message))
}

fn check_other(kind: ResultKind, model: &str) -> Checked {
    let problem = |error: serde_json::Error| format!("G0 [S-8.3-01, S-8.3-02]: {error}");
    match kind {
        ResultKind::AutocontextData => {
            serde_json::from_str::<Vec<BlockDescriptor>>(model).map_err(problem)?;
        }
        ResultKind::Autocontext if model.starts_with('[') => {
            for block in serde_json::from_str::<Vec<BlockResult>>(model).map_err(problem)? {
                check_block(&block)?;
            }
        }
        ResultKind::Autocontext => {
            let list: ResourceListResponse = serde_json::from_str(model).map_err(problem)?;
            ensure(list.resources.len() <= 25, || "[S-6.3-01] more than 25 resources".to_owned())?;
        }
        _ => {
            serde_json::from_str::<Value>(model).map_err(problem)?;
        }
    }
    Ok(())
}

fn check_block(block: &BlockResult) -> Checked {
    ensure(block.data.is_some() != block.error.is_some(), || {
        format!("[S-7.3-12] block {}: data and error are exclusive", block.id)
    })
}

fn check_extraction(model: &str, info: &SystemInfo, data: Option<&SystemData>) -> Checked {
    let model: ExtractionModelResponse =
        serde_json::from_str(model).map_err(|error| format!("G2 [S-8.2-01]: {error}"))?;
    let returned = model.rows.len() as u64;
    ensure(model.returned_rows == returned && returned <= u64::from(info.row_limit), || {
        format!(
            "G2 [S-5-02, S-8.2-06]: {returned} rows, returned_rows {}, row_limit {}",
            model.returned_rows, info.row_limit
        )
    })?;
    ensure(model.truncated == (model.returned_rows < model.total_rows), || {
        "G2 [S-8.2-05, S-8.2-07]: truncated".to_owned()
    })?;
    let same = info.total_rows == Some(model.total_rows)
        && info.returned_rows == Some(returned)
        && info.truncated == Some(model.truncated);
    ensure(same, || "G2 [S-8.4-02]: system_info and the model's answer differ".to_owned())?;
    ensure(info.messages.contains(&model.notice), || "G2 [S-8.4-09]: the notice is not in messages".to_owned())?;
    ensure(!model.description.is_empty(), || "G2 [S-8.2-02]: no description".to_owned())?;
    check_dates(&model.dates)?;
    ensure(info.autocontext_attached == model.autocontext.is_some(), || {
        "[S-7.5-13] autocontext_attached does not say what there is".to_owned()
    })?;
    model.autocontext.iter().flatten().try_for_each(check_block)?;
    let names: BTreeSet<&str> = model.columns.iter().map(String::as_str).collect();
    ensure(names.len() == model.columns.len(), || "G2 [S-8.6-01]: a column appears twice".to_owned())?;
    model.rows.iter().try_for_each(|row| check_row(row.get(), &names, None))?;
    data.map_or(Ok(()), |data| check_data(data, &model))
}

/// What stands for a direction mark, a control character or a tag in what a model reads.
static HIDDEN: LazyLock<regex::Regex> = LazyLock::new(|| {
    regex::Regex::new(
        r"\\u00(?:0[0-8bcef]|1[0-9a-f])|[\u{7f}-\u{9f}\u{ad}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{feff}\u{e0000}-\u{e0fff}]",
    )
    .expect("a pattern")
});

/// A text as a model sees it.
fn with_marks(text: &str) -> String {
    HIDDEN.replace_all(text, "\u{fffd}").into_owned()
}

fn check_data(data: &SystemData, model: &ExtractionModelResponse) -> Checked {
    ensure(data.row_count == model.total_rows, || "G2 [S-8.5-03]: row_count".to_owned())?;
    let names: Vec<&str> = data.headers.iter().map(|header| header.name.as_str()).collect();
    ensure(names == model.columns, || "G2 [S-8.5-04]: headers and columns differ".to_owned())?;
    let inline = matches!((data.format, &data.table, &data.table_uri), (DataFormat::Inline, Some(_), None));
    let file = matches!((data.format, &data.table, &data.table_uri), (DataFormat::File, None, Some(_)));
    ensure(inline || file, || "G2 [S-8-06, S-8.5-01/02]: format does not say where the table is".to_owned())?;
    let table = table_text(data)?;
    let rows: Vec<&RawValue> = serde_json::from_str(&table).map_err(|error| format!("G2 [S-8.5-06]: {error}"))?;
    ensure(rows.len() as u64 == data.row_count, || format!("G2 [S-8.5-03]: the table has {} rows", rows.len()))?;
    let names: BTreeSet<&str> = names.into_iter().collect();
    let checked = rows.iter().map(|row| row.get()).chain(model.rows.iter().map(|row| row.get()));
    for row in checked {
        check_row(row, &names, Some(&data.headers))?;
    }
    // The model sees rows of the table, not others. What can't be seen has a mark in its place.
    let whole: BTreeSet<&str> = rows.iter().map(|row| row.get()).collect();
    let marked = |row: &RawValue| {
        row.get().contains('\u{fffd}') && rows.iter().any(|whole| with_marks(whole.get()) == row.get())
    };
    ensure(model.rows.iter().all(|row| whole.contains(row.get()) || marked(row)), || {
        "G2 [S-8.2-08]: a row for the model is not in the table".to_owned()
    })
}

/// What a host can know of one of several tables.
struct Whole<'a> {
    entry: &'a SystemTable,
    rows: Vec<Box<RawValue>>,
}

/// G2 for several tables.
fn check_tables(model: &str, info: &SystemInfo, data: Option<&SystemData>) -> Checked {
    let model: MultiTableModelResponse =
        serde_json::from_str(model).map_err(|error| format!("G2 [S-8.2.1-04]: {error}"))?;
    let names: Vec<&str> = model.tables.keys().map(String::as_str).collect();
    let name = regex("^[a-z0-9_]+$");
    ensure(names.iter().all(|known| name.is_match(known)), || format!("G2 [S-8.2.1-06]: {names:?}"))?;
    check_texts(&model, info)?;
    let infos = info.tables.as_deref().ok_or("G2 [S-8.4-10]: system_info has no tables")?;
    ensure(infos.iter().map(|info| info.name.as_str()).eq(names.iter().copied()), || {
        "G2 [S-8.4-10]: system_info has other tables".to_owned()
    })?;
    let limit = info.field_limit.ok_or("G2 [S-8.4-10]: system_info has no field_limit")?;
    for (name, table) in &model.tables {
        let shown = infos.iter().find(|info| info.name == *name).ok_or("there is no such table")?;
        let same = shown.title == table.title
            && (shown.total_rows, shown.returned_rows) == (table.total_rows, table.returned_rows)
            && (shown.fields_total, shown.fields_shown) == (table.fields_total, table.fields.len() as u64);
        ensure(same, || format!("G2 [S-8.4-10]: system_info says something else of {name}"))?;
        check_table(name, table)?;
    }
    let sum = |count: fn(&ModelTable) -> u64| model.tables.values().map(count).sum::<u64>();
    let (total, returned) = (sum(|table| table.total_rows), sum(|table| table.returned_rows));
    let sums = (info.total_rows, info.returned_rows, info.truncated);
    ensure(sums == (Some(total), Some(returned), Some(returned < total)), || {
        format!("G2 [S-8.4-10]: the sums are {total} and {returned}, not {sums:?}")
    })?;
    check_selection(&model, info)?;
    data.map_or(Ok(()), |data| check_several(data, &model, info.row_limit as usize, limit as usize))
}

fn check_texts(model: &MultiTableModelResponse, info: &SystemInfo) -> Checked {
    ensure(info.messages.contains(&model.notice), || "G2 [S-8.4-09]: the notice is not in messages".to_owned())?;
    ensure(!model.description.is_empty(), || "G2 [S-8.2-02]: no description".to_owned())?;
    check_dates(&model.dates)?;
    ensure(info.autocontext_attached == model.autocontext.is_some(), || {
        "[S-7.5-13] autocontext_attached does not say what there is".to_owned()
    })?;
    model.autocontext.iter().flatten().try_for_each(check_block)?;
    let filled: Vec<String> = model
        .tables
        .iter()
        .filter(|(_, table)| table.total_rows > 0)
        .map(|(name, table)| format!("{name} ({})", table.total_rows))
        .collect();
    let nothing_asked = info.tables_selected.as_ref().is_some_and(Vec::is_empty);
    let left: Vec<String> =
        model.not_extracted.iter().flatten().map(|(name, rows)| format!("{name} ({rows})")).collect();
    let mut notice = match filled.len() {
        0 if nothing_asked => "No tables were requested, so no data was extracted.".to_owned(),
        0 => "No data was extracted.".to_owned(),
        count => format!(
            "Extracted {count} table(s) with data: {}. You see a reduced view; the host stores every table in full.",
            filled.join(", ")
        ),
    };
    // 8.7 has one sentence for a selection, and another for an empty one.
    let nothing = nothing_asked && filled.is_empty();
    if !left.is_empty() && !nothing {
        notice += &format!(
            " Not extracted because they were not requested: {}. Ask for them with tables only if the analysis needs them.",
            left.join(", ")
        );
    }
    ensure(model.notice == notice, || format!("G2 [S-8.2.1-05, S-8.7-08]: the notice is not {notice:?}"))
}

fn check_dates(dates: &[String]) -> Checked {
    let day = regex(r"^\d{4}-\d\d-\d\d$");
    ensure(!dates.is_empty() && dates.iter().all(|date| day.is_match(date)), || {
        format!("G2 [S-8.2-03]: dates {dates:?}")
    })
}

fn check_table(name: &str, table: &ModelTable) -> Checked {
    let wrong = |what: &str| format!("G2 {what} of {name}");
    ensure(!table.description.is_empty(), || wrong("[S-8.2.1-07]: the description"))?;
    check_dates(&table.dates)?;
    ensure(table.returned_rows == table.rows.len() as u64, || wrong("[S-8.2.1-07]: returned_rows"))?;
    let fields: BTreeSet<&String> = table.fields.iter().collect();
    let shown = table.fields.len();
    ensure(fields.len() == shown && shown as u64 <= table.fields_total, || wrong("[S-8.2.1-12]: the fields"))?;
    let (total, returned) = (table.total_rows, table.returned_rows);
    let rows = if total == returned { format!("{total} rows") } else { format!("{returned} of {total} rows") };
    let fields = match table.fields_total {
        all if all == shown as u64 => "all fields".to_owned(),
        all => format!("{shown} of {all} fields"),
    };
    let notice = if total == 0 { format!("{name}: no rows.") } else { format!("{name}: {rows}, {fields}.") };
    ensure(table.notice == notice, || format!("G2 [S-8.2.1-08]: the notice is not {notice:?}"))
}

fn check_selection(model: &MultiTableModelResponse, info: &SystemInfo) -> Checked {
    let selected = info.tables_selected.as_deref();
    let asked: Option<Vec<&str>> = info
        .arguments
        .get("tables")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect());
    ensure(asked == selected.map(|names| names.iter().map(String::as_str).collect()), || {
        "G2 [S-8.7-11]: arguments.tables is not tables_selected".to_owned()
    })?;
    for (name, rows) in model.not_extracted.iter().flatten() {
        let fine =
            *rows > 0 && !model.tables.contains_key(name) && selected.is_some_and(|selected| !selected.contains(name));
        ensure(fine, || format!("G2 [S-8.7-08]: not_extracted has {name}"))?;
    }
    Ok(())
}

fn check_several(data: &SystemData, model: &MultiTableModelResponse, row_limit: usize, field_limit: usize) -> Checked {
    let form = data.format == DataFormat::Tables
        && data.headers.is_empty()
        && data.table.is_none()
        && data.table_uri.is_none();
    ensure(form, || "G2 [S-8.5-10]: system_data is not of several tables".to_owned())?;
    let entries = data.tables.as_deref().ok_or("G2 [S-8.5-10]: there are no tables")?;
    ensure(entries.iter().map(|entry| &entry.name).eq(model.tables.keys()), || {
        "G2 [S-8.7-07]: the host has other tables than the model".to_owned()
    })?;
    ensure(data.row_count == entries.iter().map(|entry| entry.row_count).sum::<u64>(), || {
        "G2 [S-8.5-10]: row_count is not the sum".to_owned()
    })?;
    let cap = if entries.len() == 1 { 50 } else { 10 };
    for entry in entries {
        let shown = &model.tables[&entry.name];
        let text = text_at(entry.table.as_deref(), entry.table_uri.as_deref())?;
        ensure((entry.format == TableFormat::Inline) == entry.table.is_some(), || {
            format!("G2 [S-8.5-01/02, S-A-05]: {} is not where its format says", entry.name)
        })?;
        let rows: Vec<Box<RawValue>> =
            serde_json::from_str(&text).map_err(|error| format!("G2 [S-8.5-06]: {error}"))?;
        check_whole(&Whole { entry, rows }, shown, cap, row_limit, field_limit)
            .map_err(|problem| format!("{problem} ({})", entry.name))?;
    }
    Ok(())
}

fn check_whole(whole: &Whole<'_>, shown: &ModelTable, cap: usize, row_limit: usize, field_limit: usize) -> Checked {
    let Whole { entry, rows } = whole;
    let same = entry.row_count == rows.len() as u64
        && entry.row_count == shown.total_rows
        && entry.headers.len() as u64 == shown.fields_total
        && entry.title == shown.title;
    ensure(same, || "G2 [S-8.5-10]: the host's table is another".to_owned())?;
    let names: BTreeSet<&str> = entry.headers.iter().map(|header| header.name.as_str()).collect();
    rows.iter().try_for_each(|row| check_row(row.get(), &names, Some(&entry.headers)))?;
    let fields = match &entry.model_view {
        None => entry.headers.iter().map(|header| header.name.clone()).collect(),
        Some(view) => {
            let mut fields: Vec<String> = Vec::new();
            for field in &view.fields {
                if names.contains(field.as_str()) && !fields.contains(field) && fields.len() < field_limit {
                    fields.push(field.clone());
                }
            }
            fields
        }
    };
    ensure(shown.fields == fields, || format!("G2 [S-8.2.1-12]: the fields are not {fields:?}"))?;
    let most = match &entry.model_view {
        Some(_) if fields.is_empty() => 0,
        Some(view) => view.max_rows.map_or(cap, |most| cap.min(most as usize)),
        None => row_limit,
    };
    ensure(shown.rows.len() == rows.len().min(most), || {
        format!("G2 [S-8.2.1-13, S-8.2.1-17]: {} rows of {} where {most} may be seen", shown.rows.len(), rows.len())
    })?;
    let visible: BTreeSet<Vec<(String, String)>> =
        rows.iter().map(|row| seen(row, &fields, entry.model_view.as_ref())).collect::<Checked<_>>()?;
    let with_marks = |cells: &Vec<(String, String)>| -> Vec<(String, String)> {
        cells.iter().map(|(name, cell)| (with_marks(name), with_marks(cell))).collect()
    };
    let marked = |row: &Vec<(String, String)>| {
        row.iter().any(|(_, cell)| cell.contains('\u{fffd}')) && visible.iter().any(|cells| with_marks(cells) == *row)
    };
    for row in &shown.rows {
        let row_seen = cells(row)?;
        ensure(visible.contains(&row_seen) || marked(&row_seen), || {
            format!("G2 [S-8.2.1-15, S-8.2.1-16]: a row that no row of the table looks like: {}", row.get())
        })?;
    }
    Ok(())
}

/// The cells of a row in their order, as JSON of one spelling.
fn cells(row: &RawValue) -> Checked<Vec<(String, String)>> {
    let cells: indexmap::IndexMap<String, &RawValue> =
        serde_json::from_str(row.get()).map_err(|error| format!("G2 [S-8.5-05]: {error}"))?;
    let spelled = |cell: &str| match cell.strip_prefix('"') {
        Some(_) => serde_json::from_str::<String>(cell).map(|text| json!(text).to_string()).unwrap_or_default(),
        None => cell.to_owned(),
    };
    Ok(cells.into_iter().map(|(name, cell)| (name, spelled(cell.get()))).collect())
}

/// A row as the model may see it.
fn seen(row: &RawValue, fields: &[String], view: Option<&ModelView>) -> Checked<Vec<(String, String)>> {
    let cells = cells(row)?;
    let Some(view) = view else { return Ok(cells) };
    let most = view.max_value_chars.unwrap_or(80) as usize;
    let mut row = Vec::new();
    for field in fields {
        let Some((name, cell)) = cells.iter().find(|(name, _)| name == field) else { continue };
        let text = match cell.as_bytes().first() {
            Some(b'"') => serde_json::from_str::<String>(cell).unwrap_or_default(),
            Some(b'{' | b'[') => cell.clone(),
            _ if cell == "null" => continue,
            _ => {
                row.push((name.clone(), cell.clone()));
                continue;
            }
        };
        let characters: Vec<char> = text.chars().collect();
        let cut = match characters.len() {
            0 => continue,
            length if length <= most => text,
            _ => characters[..most.saturating_sub(1)].iter().chain(&['…']).collect(),
        };
        row.push((name.clone(), json!(cut).to_string()));
    }
    Ok(row)
}

/// The JSON array of a table, wherever it is.
pub(crate) fn table_text(data: &SystemData) -> Checked<String> {
    text_at(data.table.as_deref(), data.table_uri.as_deref())
}

fn text_at(table: Option<&RawValue>, uri: Option<&str>) -> Checked<String> {
    match (table, uri) {
        (Some(table), _) => Ok(table.get().to_owned()),
        (None, Some(uri)) => {
            let path = path_of(uri)?;
            std::fs::read_to_string(&path).map_err(|error| format!("[S-8.5-07] {uri}: {error}"))
        }
        (None, None) => Err("[S-8.5-02] there is no table".to_owned()),
    }
}

/// The path of a `file://` URI.
pub(crate) fn path_of(uri: &str) -> Checked<PathBuf> {
    let url = url::Url::parse(uri).map_err(|error| format!("[S-8.5-07] {uri}: {error}"))?;
    ensure(url.scheme() == "file", || format!("[S-8.5-07] {uri} is not a file"))?;
    url.to_file_path().map_err(|()| format!("[S-8.5-07] {uri} has no path"))
}

fn check_row(row: &str, names: &BTreeSet<&str>, headers: Option<&[Header]>) -> Checked {
    let cells: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_str(row).map_err(|error| format!("G2 [S-8.5-05]: {error}"))?;
    ensure(cells.len() == names.len() && cells.keys().all(|name| names.contains(name.as_str())), || {
        format!("G2 [S-8.2-09, S-8.5-05]: the row has other keys than the columns: {row}")
    })?;
    for header in headers.into_iter().flatten() {
        let cell = cells[&header.name].get();
        ensure(is_of_type(cell, header.column_type), || {
            format!("G2 [S-8.6-02]: {} is {:?} and holds {cell}", header.name, header.column_type)
        })?;
    }
    Ok(())
}

fn is_of_type(cell: &str, column_type: ColumnType) -> bool {
    let first = cell.as_bytes().first().copied().unwrap_or_default();
    let text = || serde_json::from_str::<String>(cell).unwrap_or_default();
    if cell == "null" {
        return true;
    }
    match column_type {
        ColumnType::String => first == b'"',
        ColumnType::Integer => {
            let digits = cell.strip_prefix('-').unwrap_or(cell);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        ColumnType::Number => first == b'-' || first.is_ascii_digit(),
        ColumnType::Boolean => cell == "true" || cell == "false",
        ColumnType::Date => regex(r"^\d{4}-\d\d-\d\d$").is_match(&text()),
        ColumnType::Datetime => regex(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$").is_match(&text()),
        ColumnType::Json => first == b'{' || first == b'[',
    }
}

/// G4: stdout holds JSON-RPC messages, one a line (or a list of answers, to a batch), and nothing else.
pub(crate) fn check_stdout(bytes: &[u8]) -> Checked {
    ensure(bytes.is_empty() || bytes.ends_with(b"\n"), || "G4 [S-3.2-01]: the last line is cut".to_owned())?;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let shown = || String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned();
        let message: Value =
            serde_json::from_slice(line).map_err(|error| format!("G4 [S-3.2-02]: {error}: {}", shown()))?;
        let well_formed = match &message {
            Value::Array(answers) => !answers.is_empty() && answers.iter().all(is_answer),
            message => is_answer(message) || is_request(message),
        };
        ensure(well_formed, || format!("G4 [S-2-01]: {}", shown()))?;
    }
    Ok(())
}

fn is_answer(message: &Value) -> bool {
    let has = |name: &str| message.get(name).is_some();
    message["jsonrpc"] == "2.0" && !has("method") && has("id") && has("result") != has("error")
}

fn is_request(message: &Value) -> bool {
    let has = |name: &str| message.get(name).is_some();
    message["jsonrpc"] == "2.0" && has("method") && !has("result") && !has("error")
}

/// G3: no credential, as text or as a list of its bytes, in anything the server wrote.
pub(crate) fn check_secrets(stdout: &[u8], stderr: &[u8], root: &Path) -> Checked {
    check_text("stdout", stdout)?;
    check_text("stderr", stderr)?;
    for path in files_below(root) {
        let content = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        check_text(&path.display().to_string(), path.to_string_lossy().as_bytes())?;
        check_text(&path.display().to_string(), &content)?;
    }
    Ok(())
}

fn check_text(place: &str, bytes: &[u8]) -> Checked {
    let text = String::from_utf8_lossy(bytes);
    for canary in CANARIES {
        let as_bytes: Vec<String> = canary.bytes().map(|byte| byte.to_string()).collect();
        let found = [canary.to_owned(), as_bytes.join(", "), as_bytes.join(",")].iter().any(|form| text.contains(form));
        ensure(!found, || format!("G3 [S-10.1-04]: {place} holds {canary}"))?;
    }
    Ok(())
}

/// The server writes nothing beside the folders it was given.
pub(crate) fn check_own_folder(folder: &Path) -> Checked {
    let files = files_below(folder);
    ensure(files.is_empty(), || format!("[S-13.1-01] the server wrote in its own folder: {files:?}"))
}

/// Every file below a folder, sorted.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// A pattern of this suite, compiled once.
pub(crate) fn regex(pattern: &str) -> regex::Regex {
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex};
    static KNOWN: LazyLock<Mutex<HashMap<String, regex::Regex>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().expect("patterns");
    known
        .entry(pattern.to_owned())
        .or_insert_with(|| regex::Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")))
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        let model = json!({
            "notice": "n", "description": "d", "dates": ["2026-10-12"], "total_rows": 2, "returned_rows": 1,
            "truncated": true, "columns": ["a"], "rows": [{"a": 1}],
        });
        let info = json!({
            "acp": "toy", "acp_version": "1.0", "tool": "raw", "kind": "extraction", "resource_id": null,
            "arguments": {}, "total_rows": 2, "returned_rows": 1, "truncated": true, "row_limit": 1,
            "cost_limit_usd": 0, "cost_estimate_usd": 0, "cost_actual_usd": 0, "duration_ms": 1,
            "fetched_at": "2026-10-12T10:16:30.000Z", "autocontext_attached": false, "messages": ["n"], "warnings": [],
        });
        let data = json!({
            "format": "inline", "row_count": 2, "headers": [{"name": "a", "type": "integer"}],
            "table": [{"a": 1}, {"a": 2}],
        });
        json!({"jsonrpc": "2.0", "id": 1, "result": {
            "content": [{"type": "text", "text": model.to_string()}],
            "_meta": {"acp": {"version": "1.0", "kind": "extraction", "system_info": info, "system_data": data}},
        }})
    }

    /// An answer with one thing changed: in the model's text, or anywhere else.
    fn changed(pointer: &str, value: Value) -> String {
        changed_in(answer(), pointer, value)
    }

    fn changed_in(mut answer: Value, pointer: &str, value: Value) -> String {
        match pointer.strip_prefix("model") {
            Some(pointer) => {
                let text = &mut answer["result"]["content"][0]["text"];
                let mut model: Value = serde_json::from_str(text.as_str().expect("text")).expect("JSON");
                *model.pointer_mut(pointer).expect("a field") = value;
                *text = json!(model.to_string());
            }
            None => *answer.pointer_mut(&format!("/result{pointer}")).expect("a field") = value,
        }
        answer.to_string()
    }

    #[test]
    fn a_good_answer_passes_and_every_flaw_is_found() {
        assert_eq!(check(&answer().to_string(), "toy", "raw", true), Ok(()));
        let flaws = [
            ("model/notice", json!("other")),
            ("model/description", json!("")),
            ("model/dates", json!([])),
            ("model/dates", json!(["yesterday"])),
            ("model/total_rows", json!(3)),
            ("model/returned_rows", json!(2)),
            ("model/truncated", json!(false)),
            ("model/columns", json!(["b"])),
            ("model/rows", json!([{"a": 1, "b": 2}])),
            ("model/rows", json!([{"a": 5}])),
            ("model/rows", json!([{"a": 1}, {"a": 2}])),
            ("/content/0/type", json!("image")),
            ("/content/0/text", json!("no JSON")),
            ("/content/0/text", json!("{\"system_info\":{}}")),
            ("/_meta/acp/version", json!("2.0")),
            ("/_meta/acp/kind", json!("info")),
            ("/_meta/acp/system_info/kind", json!("info")),
            ("/_meta/acp/system_info/acp", json!("other")),
            ("/_meta/acp/system_info/tool", json!("other")),
            ("/_meta/acp/system_info/fetched_at", json!("today")),
            ("/_meta/acp/system_info/arguments", json!({"resource_id": "x"})),
            ("/_meta/acp/system_info/row_limit", json!(0)),
            ("/_meta/acp/system_info/total_rows", json!(1)),
            ("/_meta/acp/system_info/autocontext_attached", json!(true)),
            ("/_meta/acp/system_info", json!({})),
            ("/_meta/acp/system_data/row_count", json!(1)),
            ("/_meta/acp/system_data/format", json!("file")),
            ("/_meta/acp/system_data/headers/0/name", json!("b")),
            ("/_meta/acp/system_data/headers/0/type", json!("date")),
            ("/_meta/acp/system_data/table", json!([{"a": 1}])),
            ("/_meta/acp/system_data/table", json!([{"a": 1}, {"a": 2.5}])),
            ("/_meta/acp/system_data/table", json!([{"a": 1}, {}])),
        ];
        for (pointer, value) in flaws {
            assert!(
                check(&changed(pointer, value.clone()), "toy", "raw", true).is_err(),
                "not found: {pointer} {value}"
            );
        }
    }

    fn answer_of_several() -> Value {
        let left = "Not extracted because they were not requested: c (4). Ask for them with tables only if the analysis needs them.";
        let notice = format!(
            "Extracted 2 table(s) with data: a (2), b (1). You see a reduced view; the host stores every table in full. {left}"
        );
        let model = json!({
            "notice": notice, "description": "d", "dates": ["2026-10-12"], "not_extracted": {"c": 4},
            "tables": {
                "a": {
                    "title": "A", "notice": "a: 2 rows, 2 of 3 fields.", "total_rows": 2, "returned_rows": 2,
                    "fields": ["x", "y"], "fields_total": 3, "description": "d", "dates": ["2026-10-12"],
                    "rows": [{"x": "12…"}, {"x": "[1…"}],
                },
                "b": {
                    "notice": "b: 0 of 1 rows, all fields.", "total_rows": 1, "returned_rows": 0, "fields": ["z"],
                    "fields_total": 1, "description": "d", "dates": ["2026-10-12"], "rows": [],
                },
            },
        });
        let mut answer = answer();
        let acp = &mut answer["result"]["_meta"]["acp"];
        acp["system_info"]["arguments"] = json!({"tables": ["a", "b"]});
        acp["system_info"]["row_limit"] = json!(0);
        acp["system_info"]["total_rows"] = json!(3);
        acp["system_info"]["messages"] = json!([notice]);
        acp["system_info"]["field_limit"] = json!(2);
        acp["system_info"]["tables_selected"] = json!(["a", "b"]);
        acp["system_info"]["returned_rows"] = json!(2);
        acp["system_info"]["tables"] = json!([
            {"name": "a", "title": "A", "total_rows": 2, "returned_rows": 2, "fields_total": 3, "fields_shown": 2},
            {"name": "b", "total_rows": 1, "returned_rows": 0, "fields_total": 1, "fields_shown": 1},
        ]);
        acp["system_data"] = json!({"format": "tables", "row_count": 3, "headers": [], "tables": [
            {
                "name": "a", "title": "A", "format": "inline", "row_count": 2,
                "headers": [
                    {"name": "y", "type": "string"}, {"name": "x", "type": "string"}, {"name": "w", "type": "string"},
                ],
                "table": [{"y": null, "x": "1234", "w": ""}, {"y": "", "x": "[1,2]", "w": ""}],
                "model_view": {"fields": ["none", "x", "y", "w"], "max_value_chars": 3},
            },
            {
                "name": "b", "format": "inline", "row_count": 1, "headers": [{"name": "z", "type": "integer"}],
                "table": [{"z": 1}],
            },
        ]});
        answer["result"]["content"][0]["text"] = json!(model.to_string());
        answer
    }

    #[test]
    fn flaws_of_several_tables_are_found() {
        let good = answer_of_several().to_string();
        assert_eq!(check(&good, "toy", "raw", true), Ok(()));
        assert!(check(&good, "toy", "raw", false).is_err(), "the client can't store several");
        let flaws = [
            ("model/notice", json!("Extracted 2 table(s) with data: a (2), b (1).")),
            ("model/dates", json!([])),
            ("model/not_extracted", json!({"b": 4})),
            ("model/not_extracted/c", json!(0)),
            ("model/tables/a/title", json!("B")),
            ("model/tables/a/notice", json!("a: 2 rows, all fields.")),
            ("model/tables/a/fields", json!(["y", "x"])),
            ("model/tables/a/fields", json!(["x"])),
            ("model/tables/a/fields", json!(["x", "x"])),
            ("model/tables/a/fields_total", json!(2)),
            ("model/tables/a/returned_rows", json!(1)),
            ("model/tables/a/rows", json!([{"x": "12…"}])),
            ("model/tables/a/rows/0", json!({"x": "1234"})),
            ("model/tables/a/rows/0", json!({"x": "123…"})),
            ("model/tables/a/rows/0", json!({"x": "12…", "y": null})),
            ("model/tables/a/rows/0", json!({"x": "12…", "w": ""})),
            ("model/tables/a/description", json!("")),
            ("model/tables/a/dates", json!(["today"])),
            ("model/tables/b/notice", json!("b: no rows.")),
            ("model/tables/b/rows", json!([{"z": 1}])),
            ("model/tables", json!({})),
            ("/_meta/acp/system_info/total_rows", json!(2)),
            ("/_meta/acp/system_info/returned_rows", json!(3)),
            ("/_meta/acp/system_info/truncated", json!(false)),
            ("/_meta/acp/system_info/field_limit", json!(3)),
            ("/_meta/acp/system_info/field_limit", json!(null)),
            ("/_meta/acp/system_info/tables_selected", json!(["a"])),
            ("/_meta/acp/system_info/arguments", json!({})),
            ("/_meta/acp/system_info/tables", json!([])),
            ("/_meta/acp/system_info/tables/0/name", json!("b")),
            ("/_meta/acp/system_info/tables/0/fields_shown", json!(3)),
            ("/_meta/acp/system_info/row_limit", json!(1)),
            ("/_meta/acp/system_data/format", json!("inline")),
            ("/_meta/acp/system_data/row_count", json!(2)),
            ("/_meta/acp/system_data/headers", json!([{"name": "a", "type": "string"}])),
            ("/_meta/acp/system_data/tables", json!([])),
            ("/_meta/acp/system_data/tables/0/name", json!("b")),
            ("/_meta/acp/system_data/tables/0/row_count", json!(3)),
            ("/_meta/acp/system_data/tables/0/format", json!("file")),
            ("/_meta/acp/system_data/tables/0/table/0", json!({"y": null, "x": "1"})),
            ("/_meta/acp/system_data/tables/0/table/0/x", json!("9934")),
            ("/_meta/acp/system_data/tables/0/model_view/fields", json!(["x"])),
            ("/_meta/acp/system_data/tables/0/model_view/max_value_chars", json!(4)),
            ("/_meta/acp/system_data/tables/1/headers/0/type", json!("string")),
        ];
        for (pointer, value) in flaws {
            let changed = changed_in(answer_of_several(), pointer, value.clone());
            assert!(check(&changed, "toy", "raw", true).is_err(), "not found: {pointer} {value}");
        }
    }

    #[test]
    fn secrets_and_noise_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(check_secrets(b"fine", b"fine", folder.path()), Ok(()));
        let as_bytes: Vec<String> = CANARIES[0].bytes().map(|byte| byte.to_string()).collect();
        assert!(check_secrets(b"a KEY-A-CANARY-1", b"", folder.path()).is_err());
        assert!(check_secrets(b"", format!("[{}]", as_bytes.join(", ")).as_bytes(), folder.path()).is_err());
        std::fs::write(folder.path().join("file"), "PRIVKEY-CANARY").expect("a file");
        assert!(check_secrets(b"", b"", folder.path()).is_err());
        let fine = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
        assert_eq!(check_stdout(fine), Ok(()));
        for noise in
            ["hello\n", "{}\n", "{\"jsonrpc\":\"2.0\",\"id\":1}\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"]
        {
            assert!(check_stdout(noise.as_bytes()).is_err(), "not found: {noise}");
        }
    }
}
