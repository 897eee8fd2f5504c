//! Arguments of a tool: the schema a model sees, made from the tool's struct, and the check of what it sent.
//!
//! Clients accept only part of JSON Schema in tool inputs, and one bad schema makes some of them drop every tool. So
//! what `schemars` derives is reduced to a portable subset: an object at the root, no references, no null unions, no
//! `$schema`. The same subset is then easy to check with messages that a model can act on.

use acp_protocol::{ANNOTATION_INPUT, ANNOTATION_URL, INPUT_TABLE_REF, JsonObject};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// The name of the argument that the core adds to tools that work on a resource.
pub(crate) const RESOURCE_ID: &str = "resource_id";

/// The name of the argument that the core adds to tools that make tables of the catalogue.
pub(crate) const TABLES: &str = "tables";

/// The input schema of a tool and the description at its root.
#[derive(Clone, Debug)]
pub(crate) struct InputSchema {
    /// What the doc comment of the struct says.
    pub(crate) description: String,
    /// The schema, an object.
    pub(crate) schema: JsonObject,
}

impl InputSchema {
    /// Derives the schema of a tool's struct.
    pub(crate) fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        normalise(&mut schema);
        let mut schema = schema.as_object().cloned().unwrap_or_default();
        let description = match schema.remove("description") {
            Some(Value::String(text)) => one_line(&text),
            _ => String::new(),
        };
        schema.entry("properties").or_insert_with(|| json!({}));
        schema.insert("additionalProperties".to_owned(), json!(false));
        Self { description, schema }
    }

    /// Puts an argument before the others.
    pub(crate) fn add_first(&mut self, name: &str, property: Value) {
        let mut properties = JsonObject::new();
        properties.insert(name.to_owned(), property);
        if let Some(Value::Object(others)) = self.schema.get("properties") {
            properties.extend(others.clone());
        }
        self.schema.insert("properties".to_owned(), properties.into());
    }

    /// The arguments by name.
    pub(crate) fn properties(&self) -> &JsonObject {
        static NONE: std::sync::LazyLock<JsonObject> = std::sync::LazyLock::new(JsonObject::new);
        self.schema.get("properties").and_then(Value::as_object).unwrap_or(&NONE)
    }

    /// Whether an argument names a table of the host.
    pub(crate) fn reads_host_tables(&self) -> bool {
        self.properties().values().any(|property| property.get(ANNOTATION_INPUT) == Some(&json!(INPUT_TABLE_REF)))
    }

    /// The first argument value that is a link to a resource, by the tool's own patterns (8.11).
    pub(crate) fn link<'a>(&self, arguments: &'a JsonObject) -> Option<&'a str> {
        self.properties()
            .iter()
            .filter(|(name, property)| *name != RESOURCE_ID && property.get(ANNOTATION_URL).is_some())
            .find_map(|(name, _)| arguments.get(name)?.as_str())
    }

    /// Brings the names of arguments into the tool's spelling; unknown ones are refused.
    pub(crate) fn rename(&self, arguments: JsonObject) -> Result<JsonObject> {
        let mut known = JsonObject::new();
        for (name, value) in arguments {
            let name = self.spelling_of(&name)?;
            if known.insert(name.clone(), value).is_some() {
                return Err(Error::invalid_arguments(format!("The argument {name} is given twice. Give it once.")));
            }
        }
        Ok(known)
    }

    /// Checks and repairs what a model sent, once its names are in the tool's spelling. Harmless differences are
    /// repaired: `null` for an absent argument, a single value or JSON text where a list is meant. Anything else is
    /// refused, by name.
    pub(crate) fn check(&self, arguments: JsonObject) -> Result<JsonObject> {
        let mut value = Value::Object(arguments);
        check_value(&Value::Object(self.schema.clone()), &mut value, "").map_err(Error::invalid_arguments)?;
        match value {
            Value::Object(checked) => Ok(checked),
            _ => Ok(JsonObject::new()),
        }
    }

    fn spelling_of(&self, name: &str) -> Result<String> {
        let properties = self.properties();
        if properties.contains_key(name) {
            return Ok(name.to_owned());
        }
        let snake = snake_case(name);
        if properties.contains_key(&snake) {
            return Ok(snake);
        }
        let shown: String = name.chars().filter(|mark| !mark.is_control()).take(64).collect();
        Err(Error::invalid_arguments(match properties.len() {
            0 => format!("Unknown argument {shown:?}: this tool takes no arguments."),
            _ => format!(
                "Unknown argument {shown:?}. This tool takes: {}. Limits, credentials and settings are set by the host, not by arguments.",
                properties.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
        }))
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for mark in name.chars() {
        if mark.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(if mark == '-' { '_' } else { mark.to_ascii_lowercase() });
    }
    snake
}

/// A doc comment as one line: its line breaks are where the source code ended.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reduces a derived schema to the portable subset.
fn normalise(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for keyword in ["$schema", "title", "$defs", "writeOnly"] {
        object.remove(keyword);
    }
    // `uint32` and the like are not formats that clients know. What they mean is said with bounds; for smaller fields
    // schemars does so itself, and numbers of 64 bits are more than clients can tell apart.
    let format = object.get("format").and_then(Value::as_str).unwrap_or_default();
    let bounds = match format {
        "int32" => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        "uint32" => Some((0, i64::from(u32::MAX))),
        _ => None,
    };
    if format.contains("int") || format == "double" || format == "float" {
        object.remove("format");
    }
    if let Some((least, most)) = bounds {
        object.entry("minimum").or_insert(json!(least));
        object.entry("maximum").or_insert(json!(most));
    }
    // That an absent argument is empty goes without saying; every byte here is paid for in each conversation.
    if object.get("default").is_some_and(|default| [json!(null), json!([]), json!(false)].contains(default)) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    unwrap_null_union(object);
    merge_constants(object);
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = one_line(text);
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(normalise);
    }
    if let Some(items) = object.get_mut("items") {
        normalise(items);
        // The list says what its entries are.
        if let Some(items) = items.as_object_mut() {
            items.shift_remove("description");
        }
    }
}

/// `anyOf: [X, null]` is X: an optional argument is simply not required.
fn unwrap_null_union(object: &mut JsonObject) {
    let Some(Value::Array(options)) = object.get("anyOf") else { return };
    let rest: Vec<&Value> = options.iter().filter(|option| option.get("type") != Some(&json!("null"))).collect();
    if let [Value::Object(only)] = rest.as_slice() {
        let only = only.clone();
        object.remove("anyOf");
        for (keyword, value) in only {
            object.entry(keyword).or_insert(value);
        }
    }
}

/// `oneOf` of constants, as documented enums are derived, is `enum`; the meanings join the description.
fn merge_constants(object: &mut JsonObject) {
    let Some(Value::Array(options)) = object.get("oneOf") else { return };
    let constants: Option<Vec<Value>> = options
        .iter()
        .flat_map(|option| match (option.get("const"), option.get("enum").and_then(Value::as_array)) {
            (Some(constant), _) => vec![Some(constant.clone())],
            (None, Some(several)) => several.iter().cloned().map(Some).collect(),
            (None, None) => vec![None],
        })
        .collect();
    let Some(constants) = constants else { return };
    object.remove("oneOf");
    object.insert("type".to_owned(), json!("string"));
    object.insert("enum".to_owned(), constants.into());
}

/// Checks one value against the subset, repairing it in place. The message names the argument by its path and says
/// what it must be; it does not repeat the value.
fn check_value(schema: &Value, value: &mut Value, path: &str) -> std::result::Result<(), String> {
    let expected = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    repair(schema, expected, value);
    let fits = match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        _ => true,
    };
    if !fits {
        return Err(format!("{} must be {}, not {}.", named(path), describe(schema, expected), kind(value)));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !repair_choice(allowed, value)
    {
        return Err(format!("{} must be one of {}.", named(path), list(allowed)));
    }
    match value {
        Value::Object(object) => check_object(schema, object, path),
        Value::Array(items) => check_array(schema, items, path),
        Value::String(text) if text.is_empty() && schema.get(ANNOTATION_INPUT) == Some(&json!(INPUT_TABLE_REF)) => {
            Err(format!("{} must not be empty: it is the id of a dataset or report of the host.", named(path)))
        }
        Value::String(text) => check_length(schema, text.chars().count(), "Length", "characters", path),
        Value::Number(number) => check_range(schema, number.as_f64().unwrap_or_default(), expected, path),
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

fn repair(schema: &Value, expected: &str, value: &mut Value) {
    match (expected, &*value) {
        ("array", Value::String(text)) => {
            *value = match serde_json::from_str(text) {
                Ok(Value::Array(items)) => Value::Array(items),
                _ => json!([text]),
            }
        }
        ("array", Value::Object(_)) if schema["items"]["type"] == "object" => *value = Value::Array(vec![value.take()]),
        ("object", Value::String(text)) => {
            if let Ok(object @ Value::Object(_)) = serde_json::from_str(text) {
                *value = object;
            }
        }
        ("integer", Value::Number(number)) => {
            let whole = number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() < 9e15);
            if let Some(whole) = whole {
                *value = json!(whole as i64);
            }
        }
        _ => {}
    }
}

/// Whether a value is one of a closed list, once upper and lower case, hyphens and spaces are out of the way.
fn repair_choice(allowed: &[Value], value: &mut Value) -> bool {
    if allowed.contains(value) {
        return true;
    }
    let plain = |text: &str| text.replace(['-', ' '], "_").to_ascii_lowercase();
    let wanted = value.as_str().map(plain);
    let meant = allowed.iter().find(|choice| choice.as_str().map(plain) == wanted && wanted.is_some());
    meant.inspect(|meant| *value = (*meant).clone()).is_some()
}

fn check_object(schema: &Value, object: &mut JsonObject, path: &str) -> std::result::Result<(), String> {
    static NONE: std::sync::LazyLock<JsonObject> = std::sync::LazyLock::new(JsonObject::new);
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&NONE);
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name));
    rename_fields(properties, object);
    // Models send null for what they leave out.
    object.retain(|name, value| !value.is_null() || required(name));
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            let property = &properties[name];
            let expected = property.get("type").and_then(Value::as_str).unwrap_or_default();
            return Err(format!(
                "{} is missing: it must be {}.",
                named(&join(path, name)),
                describe(property, expected)
            ));
        }
    }
    let closed = schema.get("additionalProperties") == Some(&json!(false));
    for (name, value) in object.iter_mut() {
        match properties.get(name) {
            Some(property) => check_value(property, value, &join(path, name))?,
            None if closed => {
                let known = properties.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                return Err(format!("{} is not a known field; there are: {known}.", named(&join(path, name))));
            }
            None => {}
        }
    }
    Ok(())
}

/// Fields of an entry in another spelling, such as `matchType`.
fn rename_fields(properties: &JsonObject, object: &mut JsonObject) {
    let others: Vec<String> = object.keys().filter(|name| !properties.contains_key(*name)).cloned().collect();
    for name in others {
        let snake = snake_case(&name);
        if properties.contains_key(&snake)
            && !object.contains_key(&snake)
            && let Some(value) = object.shift_remove(&name)
        {
            object.insert(snake, value);
        }
    }
}

fn check_array(schema: &Value, items: &mut [Value], path: &str) -> std::result::Result<(), String> {
    check_length(schema, items.len(), "Items", "entries", path)?;
    for (place, item) in items.iter_mut().enumerate() {
        check_value(&schema["items"], item, &format!("{path}[{place}]"))?;
    }
    if schema.get("uniqueItems") == Some(&json!(true)) {
        for (place, item) in items.iter().enumerate() {
            if items[..place].contains(item) {
                return Err(format!("{} must not have the same entry twice.", named(path)));
            }
        }
    }
    Ok(())
}

fn check_length(
    schema: &Value,
    length: usize,
    keyword: &str,
    unit: &str,
    path: &str,
) -> std::result::Result<(), String> {
    let bound = |prefix: &str| schema.get(format!("{prefix}{keyword}")).and_then(Value::as_u64);
    if let Some(least) = bound("min").filter(|least| (length as u64) < *least) {
        return Err(format!("{} must have at least {least} {unit}.", named(path)));
    }
    if let Some(most) = bound("max").filter(|most| (length as u64) > *most) {
        return Err(format!("{} must have at most {most} {unit}; it has {length}.", named(path)));
    }
    Ok(())
}

fn check_range(schema: &Value, number: f64, expected: &str, path: &str) -> std::result::Result<(), String> {
    let low = schema.get("minimum").and_then(Value::as_f64).is_some_and(|minimum| number < minimum);
    let high = schema.get("maximum").and_then(Value::as_f64).is_some_and(|maximum| number > maximum);
    if low || high {
        return Err(format!("{} must be {}.", named(path), describe(schema, expected)));
    }
    Ok(())
}

fn join(path: &str, name: &str) -> String {
    let name: String = name.chars().filter(|mark| !mark.is_control()).take(64).collect();
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

fn named(path: &str) -> String {
    if path.is_empty() { "The arguments".to_owned() } else { format!("The argument {path}") }
}

fn list(values: &[Value]) -> String {
    values
        .iter()
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect::<Vec<_>>()
        .join(", ")
}

fn describe(schema: &Value, expected: &str) -> String {
    if let Some(Value::Array(allowed)) = schema.get("enum") {
        return format!("one of {}", list(allowed));
    }
    let noun = match expected {
        "object" => "an object",
        "array" => "a list",
        "string" => "a string",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        _ => "a value",
    };
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(low), Some(high)) => format!("{noun} between {low} and {high}"),
        (Some(low), None) => format!("{noun} of at least {low}"),
        (None, Some(high)) => format!("{noun} of at most {high}"),
        (None, None) => noun.to_owned(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.as_f64().is_some_and(|number| number.abs() >= 9e15) => "a very large one",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// How a value is compared.
    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    #[allow(dead_code)]
    enum Match {
        /// Equal.
        Exact,
        /// Part of it.
        Contains,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Filter {
        field: String,
        match_type: Option<Match>,
    }

    /// Makes
    /// rows.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Rows {
        /// How many.
        #[schemars(range(min = 0, max = 10))]
        row_count: u32,
        /// Names.
        #[serde(default)]
        #[schemars(length(max = 2), extend("uniqueItems" = true))]
        names: Vec<String>,
        filters: Option<Vec<Filter>>,
        ratio: Option<f64>,
        #[schemars(extend("x-acp-date" = "start"))]
        start_date: Option<String>,
        flag: Option<bool>,
    }

    #[test]
    fn schemas_are_portable() {
        let input = InputSchema::of::<Rows>();
        assert_eq!(input.description, "Makes rows.");
        let text = Value::Object(input.schema.clone()).to_string();
        for forbidden in ["$ref", "$defs", "$schema", "anyOf", "oneOf", "null", "uint32", "double", "\"title\""] {
            assert!(!text.contains(forbidden), "{forbidden}: {text}");
        }
        let properties = input.properties();
        assert_eq!(
            properties["row_count"],
            json!({"description": "How many.", "type": "integer", "minimum": 0, "maximum": 10})
        );
        assert_eq!(properties["start_date"]["x-acp-date"], "start");
        assert_eq!(properties["filters"]["items"]["properties"]["match_type"]["enum"], json!(["EXACT", "CONTAINS"]));
        assert_eq!(input.schema["required"], json!(["row_count"]));
    }

    fn check(arguments: Value) -> Result<Value, String> {
        let input = InputSchema::of::<Rows>();
        let checked = input.rename(arguments.as_object().unwrap().clone()).and_then(|renamed| input.check(renamed));
        checked.map(Value::Object).map_err(|error| error.message().to_owned())
    }

    /// One field of every size that serde knows.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Sizes {
        i8: Option<i8>,
        u8: Option<u8>,
        i16: Option<i16>,
        u16: Option<u16>,
        i32: Option<i32>,
        u32: Option<u32>,
        i64: Option<i64>,
        u64: Option<u64>,
        usize: Option<usize>,
        list: Option<Vec<u32>>,
    }

    #[test]
    fn a_number_that_is_accepted_fits_its_field() {
        let input = InputSchema::of::<Sizes>();
        let powers = (0..=64).map(|power| 1_i128 << power);
        for number in powers.flat_map(|power| [power - 1, power, power + 1, -power, -power - 1]) {
            let number: Value = serde_json::from_str(&number.to_string()).unwrap();
            for field in ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "usize", "list"] {
                let value = if field == "list" { json!([number]) } else { number.clone() };
                let arguments = json!({field: value});
                match input.check(arguments.as_object().unwrap().clone()) {
                    Ok(checked) => drop(serde_json::from_value::<Sizes>(checked.into()).unwrap()),
                    Err(error) => {
                        assert!(serde_json::from_value::<Sizes>(arguments).is_err() || number.as_i64().is_none());
                        assert!(error.message().contains(field), "{}", error.message());
                    }
                }
            }
        }
    }

    #[test]
    fn harmless_differences_are_repaired() {
        for (sent, meant) in [
            (json!({"rowCount": 3}), json!({"row_count": 3})),
            (json!({"row_count": 3.0}), json!({"row_count": 3})),
            (json!({"row_count": 3, "names": "a"}), json!({"row_count": 3, "names": ["a"]})),
            (json!({"row_count": 3, "names": "[\"a\",\"b\"]"}), json!({"row_count": 3, "names": ["a", "b"]})),
            (json!({"row_count": 3, "filters": {"field": "x"}}), json!({"row_count": 3, "filters": [{"field": "x"}]})),
            (json!({"row_count": 3, "ratio": null, "flag": null}), json!({"row_count": 3})),
            (
                json!({"row_count": 3, "filters": [{"field": "x", "matchType": "exact"}]}),
                json!({"row_count": 3, "filters": [{"field": "x", "match_type": "EXACT"}]}),
            ),
        ] {
            assert_eq!(check(sent.clone()), Ok(meant), "{sent}");
        }
    }

    #[test]
    fn everything_else_is_refused_by_name_without_the_value() {
        for (sent, needle) in [
            (json!({}), "row_count is missing"),
            (json!({"row_count": null}), "row_count must be a whole number"),
            (json!({"row_count": "5"}), "row_count must be a whole number between 0 and 10, not a string"),
            (json!({"row_count": 1.5}), "not a number with a fraction"),
            (json!({"row_count": 1e300}), "not a very large one"),
            (json!({"row_count": u64::MAX}), "not a very large one"),
            (json!({"row_count": -1}), "between 0 and 10"),
            (json!({"row_count": 11}), "between 0 and 10"),
            (json!({"row_count": true}), "row_count"),
            (json!({"row_count": 1, "names": [1]}), "names[0] must be a string"),
            (json!({"row_count": 1, "names": ["a", "b", "c"]}), "at most 2"),
            (json!({"row_count": 1, "names": ["a", "a"]}), "twice"),
            (
                json!({"row_count": 1, "filters": [{"field": "x", "match_type": "SECRET"}]}),
                "filters[0].match_type must be one of EXACT, CONTAINS",
            ),
            (
                json!({"row_count": 1, "filters": [{"field": "x", "other": "SECRET"}]}),
                "filters[0].other is not a known field",
            ),
            (json!({"row_count": 1, "filters": [{}]}), "filters[0].field is missing"),
            (json!({"row_count": 1, "ratio": "SECRET"}), "ratio must be a number"),
            (json!({"row_count": 1, "flag": "true"}), "flag must be true or false"),
            (json!({"row_count": 1, "zzz": "SECRET"}), "\"zzz\""),
            (json!({"row_count": 1, "rowCount": 2}), "twice"),
        ] {
            let message = check(sent.clone()).unwrap_err();
            assert!(message.contains(needle) && !message.contains("SECRET"), "{sent}: {message}");
        }
    }
}
