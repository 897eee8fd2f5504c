//! `getMetadata`: the fields of a property.

use serde_json::{Map, Value, json};

use super::catalogue::{Catalogue, Dimension, Metric};
use crate::events::{EVENT_NAMES, KEY_EVENTS};
use crate::world::{Kind, Property};

/// `properties/0/metadata`: the fields common to all properties.
pub(crate) fn common() -> Value {
    render("0", &Catalogue::common(), false)
}

/// The key events that the property's Google Ads accounts use as conversions: all, only purchases, or none.
pub(crate) fn conversions(property: &Property) -> Vec<(String, u8)> {
    let shared = match property.kind {
        Kind::Main => KEY_EVENTS.len(),
        Kind::HighCardinality => 1,
        _ => 0,
    };
    let actions = KEY_EVENTS.into_iter().zip(4_001..).take(shared);
    actions.map(|(event, number)| (format!("conversionActions/{number}"), event)).collect()
}

/// As [`of`], with the conversions that only v1alpha tells.
pub(crate) fn with_conversions(property: &Property) -> Value {
    let mut metadata = of(property);
    let conversions: Vec<Value> = conversions(property)
        .into_iter()
        .map(|(action, event)| json!({"conversionAction": action, "displayName": EVENT_NAMES[usize::from(event)]}))
        .collect();
    if !conversions.is_empty() {
        metadata["conversions"] = Value::Array(conversions);
    }
    metadata
}

/// The fields of a property.
pub(crate) fn of(property: &Property) -> Value {
    let restricted = property.kind == Kind::RevenueRestricted;
    render(&property.id, &Catalogue::of(property), restricted)
}

fn render(id: &str, catalogue: &Catalogue, restricted: bool) -> Value {
    let dimensions: Vec<Value> = catalogue.dimensions.iter().map(dimension).collect();
    let metrics: Vec<Value> = catalogue.metrics.iter().map(|m| metric(m, restricted)).collect();
    json!({"name": format!("properties/{id}/metadata"), "dimensions": dimensions, "metrics": metrics})
}

/// A dimension's metadata.
pub(crate) fn dimension(dimension: &Dimension) -> Value {
    let mut fields = Map::new();
    fields.insert("apiName".into(), json!(dimension.api_name));
    fields.insert("uiName".into(), json!(dimension.ui_name));
    let description = if dimension.custom {
        format!("An event or user property of this property, registered as {}.", dimension.ui_name)
    } else {
        format!("{} of the event.", dimension.ui_name)
    };
    fields.insert("description".into(), json!(description));
    if !dimension.deprecated.is_empty() {
        fields.insert("deprecatedApiNames".into(), json!(dimension.deprecated));
    }
    if dimension.custom {
        fields.insert("customDefinition".into(), json!(true));
    }
    fields.insert("category".into(), json!(dimension.category));
    Value::Object(fields)
}

/// A metric's metadata.
pub(crate) fn metric(metric: &Metric, restricted: bool) -> Value {
    let mut fields = Map::new();
    fields.insert("apiName".into(), json!(metric.api_name));
    fields.insert("uiName".into(), json!(metric.ui_name));
    fields.insert("description".into(), json!(format!("{}.", metric.ui_name)));
    if !metric.deprecated.is_empty() {
        fields.insert("deprecatedApiNames".into(), json!(metric.deprecated));
    }
    fields.insert("type".into(), json!(metric.kind));
    if let Some(expression) = metric.expression {
        fields.insert("expression".into(), json!(expression));
    }
    if metric.custom {
        fields.insert("customDefinition".into(), json!(true));
    }
    if let Some(sensitive) = metric.sensitive().filter(|_| restricted) {
        fields.insert("blockedReasons".into(), json!([sensitive.reason()]));
    }
    fields.insert("category".into(), json!(metric.category));
    Value::Object(fields)
}
