//! `search_fields`: the property's own dimensions and metrics, by words.

use acp_core::{Call, Error, Hints, Info, Result, Tool, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{FieldMetadata, Ga4};
use crate::fields::{Fields, Kind, is_additive, scope};

/// Fields of an answer.
const SHOWN: usize = 10;
/// Characters of a description.
const DESCRIPTION_MAX: usize = 160;

/// Finds dimensions and metrics of the property, standard and custom, by words of name, title, description or old name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchFields {
    /// English words, such as "first user campaign".
    query: String,
    /// Default both.
    kind: Option<FieldKind>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FieldKind {
    Dimension,
    Metric,
}

impl Tool for SearchFields {
    type Source = Ga4;
    type Answer = Info;
    const SPEC: ToolSpec = ToolSpec {
        name: "search_fields",
        title: "Find dimensions and metrics",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(self, ga4: &Ga4, call: &Call) -> Result<Info> {
        if self.query.trim().is_empty() {
            return Err(Error::invalid_arguments("query is empty. Give words, such as \"session source\"."));
        }
        let property = ga4.property(call)?;
        let fields = ga4.fields(&property).await?;
        let kind = self.kind.map(|kind| match kind {
            FieldKind::Dimension => Kind::Dimension,
            FieldKind::Metric => Kind::Metric,
        });
        let found = fields.search(&self.query, kind);
        let shown: Vec<Value> = found.iter().take(SHOWN).map(|(kind, field)| entry(&fields, *kind, field)).collect();
        let mut answer = json!({"property": property.id, "found": found.len(), "fields": shown});
        if found.is_empty() {
            answer["advice"] = json!(
                "No field has these words. Use fewer or other words in English; names in the interface can differ from those of the API."
            );
        }
        Ok(Info(answer))
    }
}

fn entry(fields: &Fields, kind: Kind, field: &FieldMetadata) -> Value {
    let mut entry = json!({
        "name": field.api_name,
        "kind": kind.word(),
        "title": acp_google::clean(&field.ui_name, DESCRIPTION_MAX),
        "category": field.category,
    });
    if !field.description.is_empty() {
        entry["description"] = json!(acp_google::clean(&field.description, DESCRIPTION_MAX));
    }
    if let Some(scope) = scope(&field.api_name) {
        entry["scope"] = json!(scope);
    }
    entry["type"] = json!(fields.header(kind, &field.api_name).column_type);
    if kind == Kind::Metric {
        entry["unit"] = json!(field.metric_type.trim_start_matches("TYPE_").to_lowercase());
        entry["adds_up"] = json!(is_additive(&field.api_name));
    }
    if field.custom_definition {
        entry["custom"] = json!(true);
    }
    if !field.deprecated_api_names.is_empty() {
        entry["old_names"] = json!(field.deprecated_api_names);
    }
    if !field.blocked_reasons.is_empty() {
        entry["blocked"] = json!(field.blocked_reasons);
    }
    entry
}
