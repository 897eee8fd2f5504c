//! What the toy publishes about itself.

use std::time::Duration;

use acp_core::{About, Error, Result};
use acp_protocol::capability::{AutocontextDelivery, CostModel, ResourceIdInfo, TableCatalogEntry};
use acp_protocol::setup::CredentialsSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Variant;

const DELIVERY: &[AutocontextDelivery] =
    &[AutocontextDelivery::Inject, AutocontextDelivery::Suggest, AutocontextDelivery::OnFirstCall];

/// How an account's link looks.
pub(crate) const ACCOUNT_URL: &str = "^https://toy\\.example/";

/// The declaration of one variant.
pub(crate) fn about(variant: Variant) -> Result<About> {
    Ok(About {
        name: "toy",
        title: "Toy",
        version: "1.0.0",
        instructions: "A server without a source. Start with autocontext to choose an account.",
        row_limit: 25,
        cost_limit_usd: 0.0,
        credentials: match variant {
            Variant::Nocred => CredentialsSchema::none(),
            _ => typed(credentials())?,
        },
        config: Some(typed(config())?),
        resource_id: ResourceIdInfo {
            title: Some("Toy account".to_owned()),
            description: "Toy account id".to_owned(),
            format: if variant == Variant::Nores { "none" } else { "<account>[.<table>]" }.to_owned(),
            separators: (variant != Variant::Nores).then(|| vec![".".to_owned()]),
            examples: match variant {
                Variant::Nores => Vec::new(),
                _ => vec!["acc_1".to_owned(), "acc_1.t1".to_owned()],
            },
        },
        resource_urls: &[],
        cache_ttl: Duration::from_secs(60),
        delivery: match variant {
            Variant::Nofirst => &DELIVERY[..2],
            _ => DELIVERY,
        },
        cost_model: if variant == Variant::Paid { CostModel::PerByte } else { CostModel::Free },
        cost_description: if variant == Variant::Paid { "6.25 USD per TiB that a query reads." } else { "Free." },
    })
}

/// The titles of the tables that the toy knows.
pub(crate) const TITLES: [(&str, &str); 4] =
    [("ga4_hits", "GA4 hits"), ("datalayer", "dataLayer pushes"), ("cookies", "Cookies"), ("errors", "Errors")];

/// The catalogue of a variant and what is selected of it by default.
pub(crate) fn catalogue(
    variant: Variant,
    optional_only: bool,
) -> Option<(Vec<TableCatalogEntry>, Option<Vec<String>>)> {
    let defaults = match variant {
        Variant::Cat => None,
        Variant::Cat0 => Some(Vec::new()),
        _ => return None,
    };
    let makers: &[&str] = if variant == Variant::Cat { &["shoot", "capture"] } else { &[] };
    let entry = |(name, title): (&str, &str)| {
        // `capture` makes no datalayer.
        let makers = if name == "datalayer" { &makers[..makers.len().min(1)] } else { makers };
        TableCatalogEntry {
            name: name.to_owned(),
            title: title.to_owned(),
            description: None,
            group: Some("Page".to_owned()),
            required: (name == "errors" && !optional_only).then_some(true),
            tools: (!makers.is_empty()).then(|| makers.iter().map(ToString::to_string).collect()),
        }
    };
    Some((TITLES.map(entry).into(), defaults))
}

fn credentials() -> Value {
    json!({"oneOf": [
        {
            "type": "object", "title": "API key",
            "properties": {
                "type": {"type": "string", "const": "api_key"},
                "api_key": {"type": "string", "title": "API key", "writeOnly": true},
            },
            "required": ["type", "api_key"],
        },
        {
            "type": "object", "title": "OAuth",
            "properties": {
                "type": {"type": "string", "const": "oauth"},
                "access_token": {"type": "string", "title": "Access token", "writeOnly": true},
                "refresh_token": {"type": "string", "title": "Refresh token", "writeOnly": true},
            },
            "required": ["type", "access_token"],
        },
    ]})
}

fn config() -> Value {
    json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "title": "Region", "enum": ["eu", "us"], "default": "eu"},
            "zone": {"type": "string", "title": "Zone"},
            "price": {"type": "number", "title": "Price", "minimum": 0},
            "access_mode": {
                "type": "string", "title": "Access mode",
                "enum": ["onlyRead", "readAndOnlyAdd", "full"], "default": "onlyRead",
            },
            "table_rules": {
                "type": "string", "title": "Rules for tables", "contentMediaType": "application/json",
                "description": "A list of {pattern, mode}; the first pattern that matches decides.",
            },
        },
    })
}

fn typed<T: DeserializeOwned>(schema: Value) -> Result<T> {
    serde_json::from_value(schema).map_err(|error| Error::upstream(format!("A schema of the toy is wrong: {error}.")))
}
