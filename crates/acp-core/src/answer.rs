//! The three-part answer of every tool (section 8): what the model reads, what the host learns, and the table.

use std::time::Instant;

use acp_protocol::error::ErrorPayload;
use acp_protocol::result::{DataFormat, ExtractionModelResponse, ResultKind, SystemInfo};
use acp_protocol::{JsonObject, KEY, PROTOCOL_VERSION};
use jiff::civil::Date;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, RequestId};
use serde::Serialize;
use serde_json::{Value, json};

use crate::autocontext::Delivery;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::outgoing::{Handover, OutgoingTables, Text};
use crate::session::InForce;
use crate::spool::Place;
use crate::table::FinishedTable;
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
}

/// Where the table of an answer goes.
pub(crate) struct Delivered<'a> {
    pub(crate) tables: &'a OutgoingTables,
    pub(crate) request: &'a RequestId,
}

impl Facts {
    fn system_info(&self, kind: ResultKind) -> SystemInfo {
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
            cost_estimate_usd: 0.0,
            cost_actual_usd: Some(0.0),
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
        let mut info = self.system_info(ResultKind::Error);
        if let Some(estimate) = error.data().and_then(|data| data.get("estimate_usd")).and_then(Value::as_f64) {
            info.cost_estimate_usd = estimate;
        }
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
    ) -> Result<CallToolResult> {
        let Extraction { table, description, dates, title, extra, source } = extraction;
        let FinishedTable { headers, rows, sample, totals, place, handover, warnings } = table.finish()?;
        let for_model: Vec<String> = warnings.iter().chain(&self.warnings).cloned().collect();
        self.warnings = for_model.clone();
        if let Some(delivery) = &attached {
            self.warnings.extend(delivery.warnings.clone());
        }
        let dates = if dates.is_empty() { vec![today] } else { dates };
        let returned = sample.len() as u64;
        let notice = notice(returned, rows);
        let mut info = self.system_info(ResultKind::Extraction);
        info.title = title;
        info.total_rows = Some(rows);
        info.returned_rows = Some(returned);
        info.truncated = Some(returned < rows);
        info.autocontext_attached = attached.is_some();
        info.messages = vec![notice.clone()];
        info.source = source;
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
        let text = serde_json::to_string(&response)
            .map_err(|_| Error::upstream("The answer could not be written as JSON."))?;
        let mut data = JsonObject::new();
        data.insert("format".to_owned(), Value::Null);
        data.insert("row_count".to_owned(), json!(rows));
        data.insert("headers".to_owned(), json!(headers));
        let Delivered { tables, request } = delivered;
        let (format, key, table) = match (place, handover) {
            (Place::Nowhere, _) => return Ok(result(text, ResultKind::Extraction, &info, None, None)),
            (rows @ Place::Memory(_), _) => {
                let text = Text::Memory(rows.into_inline().unwrap_or_default());
                (DataFormat::Inline, "table", tables.add_inline(request, text))
            }
            (Place::File(file), Handover::Inline) => {
                (DataFormat::Inline, "table", tables.add_inline(request, Text::File(file)))
            }
            (Place::File(file), Handover::Link(maker)) => {
                (DataFormat::File, "table_uri", tables.add_link(request, file, &maker))
            }
            (Place::File(file), Handover::File) => {
                let uri = tables.add_file(request, file).map_err(|error| {
                    Error::upstream(format!("The file of the table could not be kept: {error}. Run the call again."))
                })?;
                (DataFormat::File, "table_uri", uri)
            }
        };
        data.insert("format".to_owned(), json!(format));
        data.insert(key.to_owned(), table);
        let data = Some(data);
        Ok(result(text, ResultKind::Extraction, &info, data, None))
    }
}

/// The sentence that 8.2 prescribes.
fn notice(returned: u64, total: u64) -> String {
    match total {
        0 => "The query returned no rows.".to_owned(),
        _ if returned < total => format!("Showing {returned} of {total} extracted rows."),
        _ => format!("Showing all {total} extracted rows."),
    }
}

fn result(
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
    let content = vec![ContentBlock::text(text)];
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
