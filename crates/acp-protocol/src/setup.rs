//! Setup schemas: how a server says what a host has to ask the person for (5.5).
//!
//! A setup schema is the flat subset of JSON Schema that MCP uses for elicitation, with a few annotations. The
//! same schema paints the form, and checks the values on both sides.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;

/// A flat object of primitive fields (5.5.1). The order of `properties` is the order in which a host paints them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetupSchema {
    /// Name of the form, or of the variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Help for the whole form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Always `object`.
    #[serde(rename = "type", default)]
    pub schema_type: ObjectType,
    /// Asks the host to open a login; only in a variant of the credentials.
    #[serde(rename = "x-acp-login", default, skip_serializing_if = "Option::is_none")]
    pub login: Option<SetupLogin>,
    /// Fields in order.
    pub properties: IndexMap<String, SetupProperty>,
    /// Fields that must have a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<Vec<String>>,
}

/// The one value of `type` in a setup schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectType {
    /// `object`.
    #[default]
    #[serde(rename = "object")]
    Object,
}

/// Type of a field (5.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PropertyType {
    /// Text.
    #[default]
    String,
    /// Number.
    Number,
    /// Whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
}

/// Format of a text field (5.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PropertyFormat {
    /// E-mail address.
    Email,
    /// URI.
    Uri,
    /// `YYYY-MM-DD`.
    Date,
    /// ISO 8601.
    DateTime,
}

/// One field (5.5.1). A reader takes a field without `type` as text, as the example of 5.5.5 has one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetupProperty {
    /// Type of the value.
    #[serde(rename = "type", default)]
    pub property_type: PropertyType,
    /// Label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Initial value of the form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Examples; the first is the placeholder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Vec<Value>>,
    /// Closed list of values.
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<Value>>,
    /// Labels of `enum`, as many as it has values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enum_names: Option<Vec<String>>,
    /// Format of a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<PropertyFormat>,
    /// Fewest characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// Most characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// Lowest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<serde_json::Number>,
    /// Highest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<serde_json::Number>,
    /// Fixed value: never painted, always sent.
    #[serde(rename = "const", default, skip_serializing_if = "Option::is_none")]
    pub constant: Option<Value>,
    /// A secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write_only: bool,
    /// A long text; with `application/json` it must be JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_media_type: Option<String>,
    /// Filled by the login: never painted.
    #[serde(rename = "x-acp-filled", default, skip_serializing_if = "std::ops::Not::not")]
    pub filled: bool,
}

/// Asks the host to open a login for a variant (5.5.5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetupLogin {
    /// `google` or `analytika`; a host ignores any other.
    pub provider: String,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
}

/// The form of the credentials: one way to authenticate, or several (5.5.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CredentialsSchema {
    /// Several ways, told apart by a property with `const`.
    Variants {
        /// The ways.
        #[serde(rename = "oneOf")]
        one_of: Vec<SetupSchema>,
    },
    /// One way; without properties, the source needs no credentials.
    Single(SetupSchema),
}

/// Where a schema stands, since the two places have different rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaPlace {
    /// `credentials_schema`: variants, logins and secrets are allowed.
    Credentials,
    /// `config_schema`: stored in clear, so none of them is.
    Config,
}

/// A value that does not fit its field. The text never holds the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueProblem {
    /// The field.
    pub field: String,
    /// What is wrong, to be read after the field's name: `must be …`.
    pub problem: String,
}

impl std::fmt::Display for ValueProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.field, self.problem)
    }
}

impl CredentialsSchema {
    /// The schema of a source that needs no credentials.
    pub fn none() -> Self {
        Self::Single(SetupSchema::default())
    }

    /// Whether the source needs credentials at all.
    pub fn needed(&self) -> bool {
        match self {
            Self::Variants { .. } => true,
            Self::Single(schema) => !schema.properties.is_empty(),
        }
    }

    /// The ways to authenticate.
    pub fn variants(&self) -> &[SetupSchema] {
        match self {
            Self::Variants { one_of } => one_of,
            Self::Single(schema) => std::slice::from_ref(schema),
        }
    }

    /// The variant these values belong to: the one whose `const` properties they carry.
    pub fn variant_of(&self, values: &JsonObject) -> Result<&SetupSchema, ValueProblem> {
        if let Self::Single(schema) = self {
            return Ok(schema);
        }
        let variants = self.variants();
        if let Some(variant) = variants
            .iter()
            .find(|variant| variant.constants().all(|(name, constant)| values.get(name) == Some(constant)))
        {
            return Ok(variant);
        }
        let field = variants.iter().flat_map(SetupSchema::constants).map(|(name, _)| name).next().unwrap_or("type");
        let known: Vec<String> =
            variants.iter().flat_map(SetupSchema::constants).map(|(_, constant)| constant.to_string()).collect();
        Err(ValueProblem { field: field.to_owned(), problem: format!("must be one of {}", known.join(", ")) })
    }

    /// Checks values against the variant they belong to (5.5.3). Unknown keys are not an error.
    pub fn check(&self, values: &JsonObject) -> Result<(), ValueProblem> {
        self.variant_of(values)?.check(values)
    }
}

impl SetupSchema {
    /// Its fields with a fixed value.
    pub fn constants(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.properties.iter().filter_map(|(name, property)| Some((name.as_str(), property.constant.as_ref()?)))
    }

    /// Whether a value for this field is required.
    pub fn is_required(&self, field: &str) -> bool {
        self.required.iter().flatten().any(|name| name == field)
    }

    /// Checks types, ranges, formats, JSON texts and required fields (5.5.1, 5.5.3). Unknown keys are not an error.
    pub fn check(&self, values: &JsonObject) -> Result<(), ValueProblem> {
        for name in self.required.iter().flatten() {
            let missing = match values.get(name) {
                None | Some(Value::Null) => true,
                Some(Value::String(text)) => text.is_empty(),
                Some(_) => false,
            };
            if missing {
                return Err(ValueProblem { field: name.clone(), problem: "is required".to_owned() });
            }
        }
        self.check_types(values)
    }

    /// [`check`](Self::check) without required fields, for values that are still to be merged with others.
    pub fn check_types(&self, values: &JsonObject) -> Result<(), ValueProblem> {
        // What a login fills in is between the host and the server: `expiry_date`, for one, comes as a number or as a date.
        for (name, property) in self.properties.iter().filter(|(_, property)| !property.filled) {
            let Some(value) = values.get(name).filter(|value| !value.is_null()) else { continue };
            property.check(value).map_err(|problem| ValueProblem { field: name.clone(), problem })?;
        }
        Ok(())
    }
}

impl SetupProperty {
    /// Checks one value; the message is to be read after the field's name and never holds the value.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        match self.property_type {
            PropertyType::String => self.check_text(value.as_str().ok_or("must be a string")?)?,
            PropertyType::Boolean if !value.is_boolean() => return Err("must be true or false".to_owned()),
            PropertyType::Boolean => {}
            PropertyType::Integer | PropertyType::Number => {
                let number = value.as_f64().ok_or("must be a number")?;
                if self.property_type == PropertyType::Integer && number.fract() != 0.0 {
                    return Err("must be a whole number".to_owned());
                }
                if let Some(minimum) = self.minimum.as_ref().filter(|m| m.as_f64().is_some_and(|m| number < m)) {
                    return Err(format!("must be at least {minimum}"));
                }
                if let Some(maximum) = self.maximum.as_ref().filter(|m| m.as_f64().is_some_and(|m| number > m)) {
                    return Err(format!("must be at most {maximum}"));
                }
            }
        }
        if self.constant.as_ref().is_some_and(|constant| constant != value) {
            return Err("must have its fixed value".to_owned());
        }
        if let Some(values) = self.values.as_ref().filter(|values| !values.contains(value)) {
            let list: Vec<String> = values.iter().map(Value::to_string).collect();
            return Err(format!("must be one of {}", list.join(", ")));
        }
        Ok(())
    }

    fn check_text(&self, text: &str) -> Result<(), String> {
        let characters = text.chars().count() as u64;
        if let Some(least) = self.min_length.filter(|least| characters < *least) {
            return Err(format!("must have at least {least} characters"));
        }
        if let Some(most) = self.max_length.filter(|most| characters > *most) {
            return Err(format!("must have at most {most} characters"));
        }
        if self.content_media_type.as_deref() == Some("application/json")
            && !text.is_empty()
            // Editors on Windows begin files with a byte order mark.
            && serde_json::from_str::<serde::de::IgnoredAny>(text.trim_start_matches('\u{feff}')).is_err()
        {
            return Err("must be valid JSON text".to_owned());
        }
        let fits = match self.format {
            None => true,
            Some(PropertyFormat::Email) => {
                text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
            }
            Some(PropertyFormat::Uri) => {
                text.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty())
            }
            Some(PropertyFormat::Date) => text.len() == 10 && is_date(text),
            Some(PropertyFormat::DateTime) => text.len() > 11 && text.is_char_boundary(10) && is_date(&text[..10]),
        };
        if fits { Ok(()) } else { Err("does not have the expected format".to_owned()) }
    }
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(place, byte)| match place {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

const PROPERTY_KEYWORDS: [&str; 16] = [
    "type",
    "title",
    "description",
    "default",
    "examples",
    "enum",
    "enumNames",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "const",
    "writeOnly",
    "contentMediaType",
    "x-acp-filled",
];

/// Every way in which a schema breaks 5.5.1, 5.5.2 or the checklist of 14.2, in reading order. Empty: it is valid.
///
/// It works on the raw JSON, because a typed schema has already lost the keywords it does not know.
pub fn validate(schema: &Value, place: SchemaPlace) -> Vec<String> {
    let mut problems = Vec::new();
    match (schema.get("oneOf"), place) {
        (Some(_), SchemaPlace::Config) => problems.push("config_schema must not have oneOf".to_owned()),
        (Some(Value::Array(variants)), SchemaPlace::Credentials) => validate_variants(variants, &mut problems),
        (Some(_), SchemaPlace::Credentials) => problems.push("oneOf must be an array".to_owned()),
        (None, _) => validate_object(schema, place, false, "schema", &mut problems),
    }
    problems
}

fn validate_variants(variants: &[Value], problems: &mut Vec<String>) {
    if variants.len() < 2 {
        problems.push("oneOf must have at least two variants; a single way is a flat object".to_owned());
    }
    let mut seen: Vec<(String, Value)> = Vec::new();
    for (place, variant) in variants.iter().enumerate() {
        let at = format!("oneOf[{place}]");
        validate_object(variant, SchemaPlace::Credentials, true, &at, problems);
        if !variant.get("title").is_some_and(Value::is_string) {
            problems.push(format!("{at} must have a title"));
        }
        let constants: Vec<(String, Value)> = variant
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(name, property)| Some((name.clone(), property.get("const")?.clone())))
            .collect();
        match constants.as_slice() {
            [constant] => {
                if seen.first().is_some_and(|first| first.0 != constant.0) {
                    problems.push(format!("{at} must be told apart by the same property as the others"));
                }
                if seen.contains(constant) {
                    problems.push(format!("{at} has the same const value as another variant"));
                }
                seen.push(constant.clone());
            }
            _ => problems.push(format!("{at} must have exactly one property with const")),
        }
    }
}

fn validate_object(schema: &Value, place: SchemaPlace, variant: bool, at: &str, problems: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else {
        problems.push(format!("{at} must be an object"));
        return;
    };
    for keyword in schema.keys() {
        let known = matches!(keyword.as_str(), "type" | "properties" | "required" | "title" | "description");
        if !(known || variant && keyword == "x-acp-login") {
            problems.push(format!("{at} has the keyword {keyword}, which is not allowed there"));
        }
    }
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        problems.push(format!("{at}.type must be \"object\""));
    }
    if let Some(login) = schema.get("x-acp-login") {
        let scopes = login.get("scopes").and_then(Value::as_array);
        if !login.get("provider").is_some_and(Value::is_string)
            || !scopes.is_some_and(|s| s.iter().all(Value::is_string))
        {
            problems.push(format!("{at}.x-acp-login must have a provider and a list of scopes"));
        }
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        problems.push(format!("{at}.properties must be an object"));
        return;
    };
    for (name, property) in properties {
        validate_property(name, property, place, &format!("{at}.{name}"), problems);
    }
    match schema.get("required") {
        None => {}
        Some(Value::Array(required)) => {
            for name in required {
                if !name.as_str().is_some_and(|name| properties.contains_key(name)) {
                    problems.push(format!("{at}.required names {name}, which is not a property"));
                }
            }
        }
        Some(_) => problems.push(format!("{at}.required must be an array")),
    }
}

fn validate_property(name: &str, property: &Value, place: SchemaPlace, at: &str, problems: &mut Vec<String>) {
    let Some(keywords) = property.as_object() else {
        problems.push(format!("{at} must be an object"));
        return;
    };
    for keyword in keywords.keys().filter(|keyword| !PROPERTY_KEYWORDS.contains(&keyword.as_str())) {
        problems.push(format!("{at} has the keyword {keyword}, which is not allowed there"));
    }
    let constant = keywords.get("const");
    let typed: SetupProperty = match serde_json::from_value(property.clone()) {
        Ok(typed) => typed,
        Err(error) => {
            problems.push(format!("{at} is not a setup property: {error}"));
            return;
        }
    };
    if !keywords.contains_key("type") && constant.is_none() {
        problems.push(format!("{at} must have a type"));
    }
    if constant.is_none() && typed.title.is_none() {
        problems.push(format!("{at} must have a title"));
    }
    let text_only = ["enum", "enumNames", "format", "minLength", "maxLength", "writeOnly", "contentMediaType"];
    if typed.property_type != PropertyType::String {
        for keyword in text_only.iter().filter(|keyword| keywords.contains_key(**keyword)) {
            problems.push(format!("{at} has {keyword}, which is for strings"));
        }
    }
    if !matches!(typed.property_type, PropertyType::Number | PropertyType::Integer) {
        for keyword in ["minimum", "maximum"].iter().filter(|keyword| keywords.contains_key(**keyword)) {
            problems.push(format!("{at} has {keyword}, which is for numbers"));
        }
    }
    if let Some(names) = &typed.enum_names
        && names.len() != typed.values.as_ref().map_or(0, Vec::len)
    {
        problems.push(format!("{at}.enumNames must have as many entries as enum"));
    }
    if let Some(default) = &typed.default
        && let Err(problem) = typed.check(default)
    {
        problems.push(format!("{at}.default {problem}"));
    }
    if place == SchemaPlace::Config {
        if typed.write_only {
            problems.push(format!("{at} is a secret, and config_schema is stored in clear"));
        } else if ["token", "secret", "password", "api_key", "private_key"].iter().any(|word| name.contains(word)) {
            problems.push(format!("{at} looks like a secret; secrets belong in credentials_schema"));
        }
    }
    if matches!(name, "row_limit" | "cost_limit_usd" | "field_limit" | "resource_id") {
        problems.push(format!("{at}: limits and resources are asked for outside the setup schemas"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn credentials() -> Value {
        json!({"oneOf": [
            {"title": "Key", "type": "object", "required": ["type", "api_key"], "properties": {
                "type": {"type": "string", "const": "api_key"},
                "api_key": {"type": "string", "title": "API key", "minLength": 3, "writeOnly": true}}},
            {"title": "Account", "type": "object", "x-acp-login": {"provider": "analytika", "scopes": ["s"]}, "properties": {
                "type": {"const": "portal_oauth"},
                "email": {"type": "string", "title": "Account", "x-acp-filled": true}}},
        ]})
    }

    #[test]
    fn a_schema_reads_back_as_it_was_written() {
        let typed: CredentialsSchema = serde_json::from_value(credentials()).unwrap();
        assert_eq!(typed.variants().len(), 2);
        let again: CredentialsSchema = serde_json::from_str(&serde_json::to_string(&typed).unwrap()).unwrap();
        assert_eq!(typed, again);
        assert!(!CredentialsSchema::none().needed());
        assert_eq!(
            serde_json::to_value(CredentialsSchema::none()).unwrap(),
            json!({"type": "object", "properties": {}})
        );
    }

    #[test]
    fn good_schemas_have_no_problems() {
        assert_eq!(validate(&credentials(), SchemaPlace::Credentials), Vec::<String>::new());
        let config = json!({"type": "object", "properties": {
            "price": {"type": "number", "title": "Price", "default": 6.25, "minimum": 0},
            "region": {"type": "string", "title": "Region", "enum": ["eu", "us"], "enumNames": ["Europe", "USA"]}}, "required": []});
        assert_eq!(validate(&config, SchemaPlace::Config), Vec::<String>::new());
    }

    /// Each entry breaks one rule; the text names what the problem must mention.
    #[test]
    fn every_broken_rule_is_named() {
        let field = |property: Value| json!({"type": "object", "properties": {"field": property}});
        let cases = [
            (field(json!({"type": "string", "title": "F", "pattern": "x"})), "pattern"),
            (field(json!({"type": "array", "title": "F"})), "not a setup property"),
            (field(json!({"type": "string"})), "title"),
            (field(json!({"title": "F"})), "type"),
            (field(json!({"type": "integer", "title": "F", "maxLength": 3})), "maxLength"),
            (field(json!({"type": "string", "title": "F", "minimum": 3})), "minimum"),
            (field(json!({"type": "string", "title": "F", "enum": ["a"], "enumNames": []})), "enumNames"),
            (field(json!({"type": "number", "title": "F", "default": "x"})), "default"),
            (field(json!({"type": "string", "title": "F", "writeOnly": true})), "secret"),
            (json!({"type": "object", "properties": {"auth_token": {"type": "string", "title": "T"}}}), "secret"),
            (json!({"type": "object", "properties": {"row_limit": {"type": "integer", "title": "T"}}}), "limits"),
            (json!({"type": "object", "properties": {}, "required": ["x"]}), "required"),
            (json!({"type": "object", "properties": {}, "x-acp-login": {}}), "x-acp-login"),
            (json!({"type": "object"}), "properties"),
            (json!({"oneOf": []}), "oneOf"),
            (json!(3), "object"),
        ];
        for (schema, needle) in cases {
            let problems = validate(&schema, SchemaPlace::Config);
            assert!(problems.iter().any(|problem| problem.contains(needle)), "{schema}: {problems:?}");
        }
        let twins = json!({"oneOf": [credentials()["oneOf"][0], credentials()["oneOf"][0]]});
        assert!(validate(&twins, SchemaPlace::Credentials).iter().any(|problem| problem.contains("same const")));
        let lonely = json!({"oneOf": [credentials()["oneOf"][0]]});
        assert!(validate(&lonely, SchemaPlace::Credentials).iter().any(|problem| problem.contains("two variants")));
    }

    #[test]
    fn values_are_checked_and_never_quoted() {
        let schema: CredentialsSchema = serde_json::from_value(credentials()).unwrap();
        let check = |values: Value| schema.check(values.as_object().unwrap()).map_err(|problem| problem.to_string());
        assert_eq!(check(json!({"type": "api_key", "api_key": "abc", "extra": 1})), Ok(()));
        for (values, needle) in [
            (json!({"type": "nope", "api_key": "SECRET"}), "type must be one of"),
            (json!({"api_key": "SECRET"}), "type must be one of"),
            (json!({"type": "api_key"}), "api_key is required"),
            (json!({"type": "api_key", "api_key": ""}), "api_key is required"),
            (json!({"type": "api_key", "api_key": null}), "api_key is required"),
            (json!({"type": "api_key", "api_key": ["SECRET"]}), "api_key must be a string"),
            (json!({"type": "api_key", "api_key": "S"}), "at least 3"),
        ] {
            let problem = check(values).unwrap_err();
            assert!(problem.contains(needle) && !problem.contains("SECRET"), "{problem}");
        }
    }

    #[test]
    fn each_kind_of_field_has_its_check() {
        let cases = [
            (
                json!({"type": "integer", "minimum": 1, "maximum": 3}),
                vec![json!(1), json!(3.0)],
                vec![json!(0), json!(4), json!(1.5), json!("1")],
            ),
            (json!({"type": "boolean"}), vec![json!(true)], vec![json!("true"), json!(1)]),
            (json!({"type": "string", "format": "email"}), vec![json!("a@b.c")], vec![json!("ab"), json!("@b")]),
            (
                json!({"type": "string", "format": "date"}),
                vec![json!("2026-01-31")],
                vec![json!("31/01/2026"), json!("")],
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                vec![json!("2026-01-31T00:00:00Z")],
                vec![json!("2026-01-31"), json!("éééééééééé")],
            ),
            (json!({"type": "string", "format": "uri"}), vec![json!("https://x")], vec![json!("x")]),
            (json!({"type": "string", "contentMediaType": "application/json"}), vec![json!("[1]")], vec![json!("[1")]),
            (json!({"type": "string", "enum": ["a"]}), vec![json!("a")], vec![json!("b")]),
            (json!({"type": "string", "const": "a"}), vec![json!("a")], vec![json!("b")]),
            (json!({"type": "string", "maxLength": 2}), vec![json!("éé")], vec![json!("ééé")]),
        ];
        for (property, good, bad) in cases {
            let typed: SetupProperty = serde_json::from_value(property.clone()).unwrap();
            for value in good {
                assert_eq!(typed.check(&value), Ok(()), "{property} {value}");
            }
            for value in bad {
                assert!(typed.check(&value).is_err(), "{property} {value}");
            }
        }
    }
}
