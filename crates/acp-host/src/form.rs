//! What to ask a person before the first call: the form of a setup schema (5.5).
//!
//! The model is complete: a host paints what it finds here and needs no rule of its own for any connector (5.5.4).

use acp_protocol::JsonObject;
use acp_protocol::capability::ServerCapability;
use acp_protocol::setup::{
    CredentialsSchema, PropertyFormat, PropertyType, SetupLogin, SetupProperty, SetupSchema, ValueProblem,
};
use serde_json::Value;

use crate::sources::Resolved;

/// The login whose credentials are a reference that only a host with that portal can exchange (5.5.5).
pub const PORTAL_LOGIN: &str = "analytika";
/// Logins that 5.5.5 defines; any other is ignored.
const PROVIDERS: [&str; 2] = ["google", PORTAL_LOGIN];

/// A form with one variant, or with several to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The ways to fill it, in the order of the schema. One: there is nothing to choose.
    pub variants: Vec<Variant>,
}

/// One way to fill the form.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its name in the selector.
    pub title: Option<String>,
    /// Help for all of it.
    pub description: Option<String>,
    /// The login to offer, if this host knows how to.
    pub login: Option<SetupLogin>,
    /// What to paint, in order. Fixed values and those that a login fills are not among them.
    pub fields: Vec<Field>,
    schema: SetupSchema,
}

/// One input.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Key of the value.
    pub name: String,
    /// Label.
    pub label: String,
    /// Help.
    pub help: Option<String>,
    /// Shown while it is empty.
    pub placeholder: Option<String>,
    /// Value at first.
    pub initial: Option<Value>,
    /// Painted as a password, and never shown again.
    pub secret: bool,
    /// Must have a value.
    pub required: bool,
    /// What to paint.
    pub kind: FieldKind,
}

/// What to paint for a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// One line of text.
    Text {
        /// Its format.
        format: Option<PropertyFormat>,
    },
    /// Several lines of text.
    LongText {
        /// Whether the text must be JSON.
        json: bool,
    },
    /// A number.
    Number {
        /// Whether it must be whole.
        whole: bool,
        /// Lowest value.
        minimum: Option<f64>,
        /// Highest value.
        maximum: Option<f64>,
    },
    /// Yes or no.
    Checkbox,
    /// One of a list: value and label.
    Choice(Vec<(Value, String)>),
}

impl Form {
    /// The form of `credentials_schema`; `None` where the source needs no credentials.
    pub fn of_credentials(schema: &CredentialsSchema) -> Option<Self> {
        schema.needed().then(|| Self { variants: schema.variants().iter().map(Variant::of).collect() })
    }

    /// The form of `config_schema`; `None` where there is nothing to set.
    pub fn of_config(schema: Option<&SetupSchema>) -> Option<Self> {
        schema.filter(|schema| !schema.properties.is_empty()).map(|schema| Self { variants: vec![Variant::of(schema)] })
    }
}

/// The values of a source as its schemas type them (5.5.3): a reference and an editor give texts, and the server wants
/// numbers and truths; JSON that was pasted as JSON goes as text. What doesn't fit stays, and the server says so.
pub fn typed(mut resolved: Resolved, capability: &ServerCapability) -> Resolved {
    if let Some(values) = &mut resolved.credentials
        && let Ok(schema) = capability.credentials_schema.variant_of(values)
    {
        type_values(values, schema);
    }
    if let (Some(values), Some(schema)) = (&mut resolved.config, &capability.config_schema) {
        type_values(values, schema);
    }
    resolved
}

fn type_values(values: &mut JsonObject, schema: &SetupSchema) {
    for (name, value) in values.iter_mut() {
        let Some(property) = schema.properties.get(name) else { continue };
        match value {
            Value::String(text) => {
                if let Some(typed) = typed_text(property.property_type, text) {
                    *value = typed;
                }
            }
            Value::Object(_) | Value::Array(_) if property.property_type == PropertyType::String => {
                *value = Value::String(value.to_string());
            }
            _ => {}
        }
    }
}

/// A text as a value of a type; `None` where it is none of that type.
pub fn typed_text(property_type: PropertyType, text: &str) -> Option<Value> {
    let text = match property_type {
        PropertyType::String => return Some(text.into()),
        _ => text.trim(),
    };
    let value: Value = serde_json::from_str(text).ok()?;
    match property_type {
        PropertyType::Boolean => value.is_boolean(),
        _ => value.is_number(),
    }
    .then_some(value)
}

impl Variant {
    fn of(schema: &SetupSchema) -> Self {
        let painted = schema.properties.iter().filter(|(_, property)| property.constant.is_none() && !property.filled);
        Self {
            title: schema.title.clone(),
            description: schema.description.clone(),
            login: schema.login.clone().filter(|login| PROVIDERS.contains(&login.provider.as_str())),
            fields: painted.map(|(name, property)| Field::of(name, property, schema.is_required(name))).collect(),
            schema: schema.clone(),
        }
    }

    /// The field of this name, also one that is not painted: a fixed one, or one that a login fills.
    pub fn property(&self, name: &str) -> Option<&SetupProperty> {
        self.schema.properties.get(name)
    }

    /// Names of all its fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.schema.properties.keys().map(String::as_str)
    }

    /// Whether these values are of this variant: they have its fixed values.
    pub fn holds(&self, values: &JsonObject) -> bool {
        self.schema.constants().all(|(name, constant)| values.get(name) == Some(constant))
    }

    /// The values to send for what a person entered: fixed values are added, fields of other variants and empty optional
    /// fields are left out, an empty secret keeps what is `stored`, and everything is checked (5.5.3, 5.5.4). The
    /// message of a problem never holds a value.
    pub fn values(&self, entered: &JsonObject, stored: Option<&JsonObject>) -> Result<JsonObject, ValueProblem> {
        let mut values = JsonObject::new();
        for (name, property) in &self.schema.properties {
            let typed = entered.get(name).filter(|value| !is_empty(value));
            let kept = || stored.filter(|_| property.write_only || property.filled).and_then(|stored| stored.get(name));
            if let Some(value) = property.constant.as_ref().or(typed).or_else(kept) {
                values.insert(name.clone(), value.clone());
            }
        }
        self.schema.check(&values)?;
        Ok(values)
    }
}

impl Field {
    fn of(name: &str, property: &SetupProperty, required: bool) -> Self {
        let placeholder = property.examples.iter().flatten().next().map(readable);
        Self {
            name: name.to_owned(),
            label: property.title.clone().unwrap_or_else(|| name.to_owned()),
            help: property.description.clone(),
            placeholder,
            initial: property.default.clone().filter(|_| !property.write_only),
            secret: property.write_only,
            required,
            kind: kind(property),
        }
    }
}

fn kind(property: &SetupProperty) -> FieldKind {
    if let Some(values) = &property.values {
        let names = property.enum_names.as_deref().unwrap_or_default();
        let label = |place: usize, value: &Value| names.get(place).cloned().unwrap_or_else(|| readable(value));
        return FieldKind::Choice(
            values.iter().enumerate().map(|(place, value)| (value.clone(), label(place, value))).collect(),
        );
    }
    match property.property_type {
        PropertyType::Boolean => FieldKind::Checkbox,
        PropertyType::Integer | PropertyType::Number => FieldKind::Number {
            whole: property.property_type == PropertyType::Integer,
            minimum: property.minimum.as_ref().and_then(serde_json::Number::as_f64),
            maximum: property.maximum.as_ref().and_then(serde_json::Number::as_f64),
        },
        PropertyType::String => match property.content_media_type.as_deref() {
            Some(media_type) => FieldKind::LongText { json: media_type == "application/json" },
            None => FieldKind::Text { format: property.format },
        },
    }
}

fn readable(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> Form {
        let schema = serde_json::from_value(json!({"oneOf": [
            {"title": "Service account", "type": "object", "required": ["type", "key_json"], "properties": {
                "type": {"type": "string", "const": "service_account"},
                "key_json": {"type": "string", "title": "Key", "contentMediaType": "application/json", "writeOnly": true},
                "subject": {"type": "string", "description": "Who", "format": "email", "examples": ["a@example.com"]},
                "tries": {"type": "integer", "title": "Tries", "default": 3, "minimum": 1},
                "region": {"type": "string", "title": "Region", "enum": ["eu", "us"], "enumNames": ["Europe"]},
                "deep": {"type": "boolean", "title": "Deep"}}},
            {"title": "Account", "type": "object", "x-acp-login": {"provider": "google", "scopes": ["s"]}, "properties": {
                "type": {"type": "string", "const": "oauth"},
                "refresh_token": {"type": "string", "title": "T", "x-acp-filled": true, "writeOnly": true}}},
            {"title": "Other", "type": "object", "x-acp-login": {"provider": "other", "scopes": []}, "properties": {"type": {"const": "x"}}},
        ]}))
        .unwrap();
        Form::of_credentials(&schema).unwrap()
    }

    #[test]
    fn fields_come_in_order_without_fixed_and_filled_ones() {
        let form = form();
        let names: Vec<&str> = form.variants[0].fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["key_json", "subject", "tries", "region", "deep"]);
        let [key, subject, tries, region, deep] = form.variants[0].fields.as_slice() else { panic!() };
        assert!(key.secret && key.required && key.kind == FieldKind::LongText { json: true });
        assert_eq!((subject.label.as_str(), subject.placeholder.as_deref()), ("subject", Some("a@example.com")));
        assert_eq!(tries.kind, FieldKind::Number { whole: true, minimum: Some(1.0), maximum: None });
        assert_eq!(tries.initial, Some(json!(3)));
        assert_eq!(region.kind, FieldKind::Choice(vec![(json!("eu"), "Europe".into()), (json!("us"), "us".into())]));
        assert_eq!(deep.kind, FieldKind::Checkbox);
        assert!(form.variants[1].fields.is_empty() && form.variants[1].login.is_some());
        assert!(form.variants[2].login.is_none());
        assert_eq!(Form::of_credentials(&CredentialsSchema::none()), None);
    }

    #[test]
    fn values_hold_the_chosen_variant_and_nothing_else() {
        let variant = &form().variants[0];
        let entered = json!({"key_json": "{}", "subject": "", "tries": 2, "refresh_token": "x", "type": "oauth"});
        let values = variant.values(entered.as_object().unwrap(), None).unwrap();
        assert_eq!(Value::Object(values), json!({"type": "service_account", "key_json": "{}", "tries": 2}));
    }

    #[test]
    fn an_empty_secret_keeps_the_stored_one() {
        let variant = &form().variants[0];
        let stored = json!({"type": "service_account", "key_json": "{\"k\":1}", "tries": 9});
        let values = variant.values(json!({"key_json": ""}).as_object().unwrap(), stored.as_object()).unwrap();
        assert_eq!(values["key_json"], json!("{\"k\":1}"));
        assert!(!values.contains_key("tries"));
        let problem = variant.values(&JsonObject::new(), None).unwrap_err();
        assert_eq!(problem.to_string(), "key_json is required");
        let bad = json!({"key_json": "{SECRET"});
        assert!(!variant.values(bad.as_object().unwrap(), None).unwrap_err().to_string().contains("SECRET"));
    }
}
