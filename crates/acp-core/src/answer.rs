//! The three-part answer of every tool (section 8): what the model reads, what the host learns, and the table.

use std::sync::Arc;
use std::time::Instant;

use acp_protocol::error::ErrorPayload;
use acp_protocol::result::{DataFormat, ExtractionModelResponse, ResultKind, SystemInfo};
use acp_protocol::{JsonObject, KEY, PROTOCOL_VERSION, visible};
use jiff::civil::Date;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, RequestId};
use serde::Serialize;
use serde_json::{Value, json};

use crate::autocontext::{Delivery, Mark};
use crate::call::{Call, lock};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::outgoing::{Handover, OutgoingTables, Text};
use crate::session::InForce;
use crate::spool::Place;
use crate::table::FinishedTable;
use crate::tables::Selection;
use crate::tool::Extraction;

/// What is known about a call, whatever comes of it. It fills `system_info`.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) server: &'static str,
    pub(crate) tool: String,
    pub(crate) resource_id: Option<String>,
    pub(crate) arguments: JsonObject,
    pub(crate) in_force: InForce,
    pub(crate) warnings: Vec<String>,
    pub(crate) started: Instant,
    pub(crate) clock: Clock,
    pub(crate) cost: Cost,
    /// The call while its tool runs.
    pub(crate) running: Option<Arc<Call>>,
    /// Taken back unless the answer that carries autocontext goes out.
    pub(crate) mark: Option<Mark>,
}

/// What a call costs, in USD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) estimate: f64,
    /// `None` when the source does not tell.
    pub(crate) actual: Option<f64>,
}

impl Default for Cost {
    fn default() -> Self {
        Self { estimate: 0.0, actual: Some(0.0) }
    }
}

/// Where the table of an answer goes.
pub(crate) struct Delivered<'a> {
    pub(crate) tables: &'a OutgoingTables,
    pub(crate) request: &'a RequestId,
    pub(crate) handover: &'a Handover,
}

impl Facts {
    /// Takes over what the tool reported, once it no longer runs.
    pub(crate) fn collect(&mut self) {
        if let Some(call) = self.running.take() {
            let reports = std::mem::take(&mut *lock(&call.reports));
            self.arguments = reports.arguments;
            self.warnings = reports.warnings;
            self.cost = reports.cost;
        }
    }

    pub(crate) fn system_info(&self, kind: ResultKind) -> SystemInfo {
        SystemInfo {
            acp: self.server.to_owned(),
            acp_version: PROTOCOL_VERSION.to_owned(),
            tool: self.tool.clone(),
            kind,
            resource_id: self.resource_id.clone(),
            arguments: self.arguments.clone(),
            title: None,
            total_rows: None,
            returned_rows: None,
            truncated: None,
            row_limit: self.in_force.row_limit,
            cost_limit_usd: self.in_force.cost_limit_usd,
            cost_estimate_usd: self.cost.estimate,
            cost_actual_usd: self.cost.actual,
            duration_ms: self.started.elapsed().as_millis() as u64,
            fetched_at: self.clock.now_text(),
            autocontext_attached: false,
            cached: None,
            messages: Vec::new(),
            warnings: self.warnings.clone(),
            source: None,
            field_limit: None,
            tables: None,
            tables_selected: None,
        }
    }

    /// An answer that is not a table.
    pub(crate) fn plain(&self, kind: ResultKind, model_response: &impl Serialize, cached: bool) -> CallToolResult {
        let mut info = self.system_info(kind);
        info.cached = cached.then_some(true);
        let text = serde_json::to_string(model_response).unwrap_or_default();
        result(text, kind, &info, None, None)
    }

    /// A failure.
    pub(crate) fn error(&self, error: &Error) -> CallToolResult {
        let payload = error.payload();
        let info = self.system_info(ResultKind::Error);
        let text = json!({"error": payload}).to_string();
        result(text, ResultKind::Error, &info, None, Some(&payload))
    }

    /// A table.
    pub(crate) fn extraction(
        &mut self,
        extraction: Extraction,
        today: Date,
        attached: Option<Delivery>,
        delivered: &Delivered<'_>,
        notice: Option<String>,
        selection: Option<&Selection>,
    ) -> Result<CallToolResult> {
        self.repeat_selection(selection);
        let Extraction { table, description, dates, title, extra, source } = extraction;
        let FinishedTable { headers, rows, sample, totals, place, warnings } =
            table.finish(self.in_force.row_limit as usize)?;
        let for_model: Vec<String> = warnings.iter().chain(&self.warnings).cloned().collect();
        self.warnings = for_model.clone();
        if let Some(delivery) = &attached {
            self.warnings.extend(delivery.warnings.clone());
        }
        let dates = if dates.is_empty() { vec![today] } else { dates };
        let returned = sample.len() as u64;
        let notice = notice.unwrap_or_else(|| usual_notice(returned, rows));
        let mut info = self.system_info(ResultKind::Extraction);
        info.title = title;
        info.total_rows = Some(rows);
        info.returned_rows = Some(returned);
        info.truncated = Some(returned < rows);
        info.autocontext_attached = attached.is_some();
        info.messages = vec![notice.clone()];
        info.source = source;
        info.tables_selected = selection.map(|selection| selection.selected().to_vec());
        let response = ExtractionModelResponse {
            notice,
            description,
            dates: dates.iter().map(Date::to_string).collect(),
            total_rows: rows,
            returned_rows: returned,
            truncated: returned < rows,
            columns: headers.iter().map(|header| header.name.clone()).collect(),
            rows: sample,
            totals,
            extra,
            warnings: (!for_model.is_empty()).then_some(for_model),
            autocontext: attached.map(|delivery| delivery.blocks),
        };
        let text = text_of(&response)?;
        let data = deliver(place, delivered)?.map(|(format, key, table)| {
            let mut data = JsonObject::new();
            data.insert("format".to_owned(), json!(format));
            data.insert("row_count".to_owned(), json!(rows));
            data.insert("headers".to_owned(), json!(headers));
            data.insert(key.to_owned(), table);
            data
        });
        Ok(result(text, ResultKind::Extraction, &info, data, None))
    }
}

/// The text for the model.
pub(crate) fn text_of(response: &impl Serialize) -> Result<String> {
    serde_json::to_string(response).map_err(|_| Error::upstream("The answer could not be written as JSON."))
}

/// Where a table is for the host: its format, and the key and value under which it stands. `None` when nobody wants it.
pub(crate) fn deliver(place: Place, delivered: &Delivered<'_>) -> Result<Option<(DataFormat, &'static str, Value)>> {
    let Delivered { tables, request, handover } = delivered;
    Ok(match (place, handover) {
        (Place::Nowhere, _) => None,
        (rows @ Place::Memory(_), _) => {
            let text = Text::Memory(rows.into_inline().unwrap_or_default());
            Some((DataFormat::Inline, "table", tables.add_inline(request, text)))
        }
        (Place::File(file), Handover::Inline) => {
            Some((DataFormat::Inline, "table", tables.add_inline(request, Text::File(file))))
        }
        (Place::File(file), Handover::Link(maker)) => {
            Some((DataFormat::File, "table_uri", tables.add_link(request, file, maker)))
        }
        (Place::File(file), Handover::File) => {
            let uri = tables.add_file(request, file).map_err(|error| {
                Error::upstream(format!("The file of the table could not be kept: {error}. Run the call again."))
            })?;
            Some((DataFormat::File, "table_uri", uri))
        }
    })
}

/// The sentence that 8.2 prescribes.
fn usual_notice(returned: u64, total: u64) -> String {
    match total {
        0 => "The query returned no rows.".to_owned(),
        _ if returned < total => format!("Showing {returned} of {total} extracted rows."),
        _ => format!("Showing all {total} extracted rows."),
    }
}

pub(crate) fn result(
    text: String,
    kind: ResultKind,
    info: &SystemInfo,
    data: Option<JsonObject>,
    error: Option<&ErrorPayload>,
) -> CallToolResult {
    let mut acp = JsonObject::new();
    acp.insert("version".to_owned(), json!(PROTOCOL_VERSION));
    acp.insert("kind".to_owned(), json!(kind));
    acp.insert("system_info".to_owned(), json!(info));
    if let Some(data) = data {
        acp.insert("system_data".to_owned(), data.into());
    }
    if let Some(error) = error {
        acp.insert("error".to_owned(), json!(error));
    }
    let content = vec![ContentBlock::text(visible(&text).into_owned())];
    let mut result = if error.is_some() { CallToolResult::error(content) } else { CallToolResult::success(content) };
    if error.is_none() {
        // The specification's examples leave it out on success.
        result.is_error = None;
    }
    let mut meta = MetaObject::new();
    meta.0.insert(KEY.to_owned(), acp.into());
    result.meta = Some(meta);
    result
}
