//! What the toy publishes about itself.

use std::time::Duration;

use acp_core::{About, Error, Result};
use acp_protocol::capability::{AutocontextDelivery, CostModel, ResourceIdInfo};
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
            Variant::Toy | Variant::Nofirst => typed(credentials())?,
        },
        config: Some(typed(config())?),
        resource_id: ResourceIdInfo {
            title: Some("Toy account".to_owned()),
            description: "Toy account id".to_owned(),
            format: "<account>[.<table>]".to_owned(),
            separators: Some(vec![".".to_owned()]),
            examples: vec!["acc_1".to_owned(), "acc_1.t1".to_owned()],
        },
        resource_urls: &[],
        cache_ttl: Duration::from_secs(60),
        delivery: match variant {
            Variant::Nofirst => &DELIVERY[..2],
            Variant::Toy | Variant::Nocred => DELIVERY,
        },
        cost_model: CostModel::Free,
        cost_description: "Free.",
    })
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
