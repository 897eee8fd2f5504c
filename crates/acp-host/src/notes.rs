//! What a host tells the model in writing beside the server's answer (11.3, 16.5, 16.7).

use std::collections::HashMap;

use acp_protocol::error::{ErrorCode, ErrorPayload};
use serde::Deserialize;

use crate::client::ToolAnswer;
use crate::datasets::FOLDER;
use crate::store::{DatasetMeta, Stored};

/// The parts of what the model reads that notes are about.
#[derive(Default, Deserialize)]
struct Seen {
    #[serde(default)]
    returned_rows: u64,
    #[serde(default)]
    fields: Vec<String>,
    #[serde(default)]
    fields_total: usize,
    #[serde(default)]
    tables: HashMap<String, Seen>,
    #[serde(default)]
    not_extracted: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Where the extraction is, how much of it the model saw, and how to ask for the rest (`query_hint`).
pub fn of_stored(answer: &ToolAnswer, stored: &[Stored], query_hint: Option<&str>) -> Vec<String> {
    let seen: Seen = serde_json::from_str(&answer.model_text).unwrap_or_default();
    let hint = query_hint.map(|hint| format!(" {hint}")).unwrap_or_default();
    match stored {
        [] => Vec::new(),
        [Stored::Dataset { table: None, meta, .. }] => vec![format!(
            "The full extraction was saved as dataset \"{}\" in {}. {}{hint}",
            meta.id,
            file(meta),
            saw(&seen, meta)
        )],
        [Stored::Empty { table: None }] => vec!["No data: nothing was saved.".to_owned()],
        several => of_tables(several, &seen, &hint),
    }
}

fn of_tables(stored: &[Stored], seen: &Seen, hint: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let mut saved = Vec::new();
    let mut empty = Vec::new();
    for table in stored {
        match table {
            Stored::Dataset { table, meta, .. } => {
                let name = table.as_deref().unwrap_or_default();
                let seen = seen.tables.get(name);
                let seen = seen.map(|seen| format!(" {}", saw(seen, meta))).unwrap_or_default();
                saved.push(format!("- {name}: dataset \"{}\" in {}.{seen}", meta.id, file(meta)));
            }
            Stored::Empty { table } => empty.push(table.as_deref().unwrap_or_default()),
        }
    }
    if !saved.is_empty() {
        notes.push(format!(
            "The full extraction was saved, each table as a dataset. What you saw is a reduced view.{hint}\n{}",
            saved.join("\n")
        ));
    }
    if !empty.is_empty() {
        notes.push(format!("No data: {}.", empty.join(", ")));
    }
    if let Some(others) = seen.not_extracted.as_ref().filter(|others| !others.is_empty()) {
        let names: Vec<String> = others.iter().map(|(name, rows)| format!("{name} ({rows} rows)")).collect();
        notes.push(format!("Not extracted: {}. Ask for them with tables.", names.join(", ")));
    }
    notes
}

fn file(meta: &DatasetMeta) -> String {
    format!("{FOLDER}/{}.csv", meta.id)
}

fn saw(seen: &Seen, meta: &DatasetMeta) -> String {
    let fields = if seen.fields_total > seen.fields.len() {
        format!(" and {} of {} fields", seen.fields.len(), seen.fields_total)
    } else {
        String::new()
    };
    // Not the total that the server tells: what was stored was counted.
    format!("You saw {} of {} rows{fields}.", seen.returned_rows, meta.row_count)
}

/// Who has to act on a failure that the model can't mend (11.6, 16.5).
pub fn of_error(error: &ErrorPayload, source: &str) -> Option<String> {
    let code = ErrorCode::from_code(error.code).filter(|code| code.name() == error.name)?;
    match code {
        ErrorCode::CredentialsMissing | ErrorCode::CredentialsInvalid => Some(format!(
            "Ask the user to correct the credentials of source \"{source}\" in sources.json; they can't be given here."
        )),
        ErrorCode::CostLimitExceeded => Some(format!(
            "Only the user can raise the limit: cost_limit_usd of source \"{source}\" in sources.json. Narrow the query, or \
             ask the user."
        )),
        _ => None,
    }
}
