//! Arguments of tools: what is accepted fits the published schema and the tool's struct, what fits the schema is accepted,
//! and what is refused is not repeated.
#![no_main]

use std::sync::LazyLock;

use acp_core::fuzzing;
use acp_fuzz::{Dice, mutate};
use acp_protocol::JsonObject;
use jsonschema::Validator;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A tool like those that read reports.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only whether it can be read counts")]
struct Report {
    /// Names.
    #[serde(default)]
    #[schemars(length(max = 3))]
    metrics: Vec<String>,
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    dimensions: Option<Vec<String>>,
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    #[serde(default)]
    filters: Vec<Filter>,
    #[serde(default)]
    order_by: Vec<Order>,
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    #[serde(default)]
    keep_empty_rows: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only whether it can be read counts")]
struct Filter {
    field: String,
    match_type: Match,
    value: Option<f64>,
    values: Option<Vec<f64>>,
    not: Option<bool>,
    inner: Option<Vec<Filter2>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only whether it can be read counts")]
struct Filter2 {
    in_list: Vec<i64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(dead_code, reason = "only whether it can be read counts")]
enum Match {
    /// Equal.
    Exact,
    /// Begins with it.
    BeginsWith,
    LessThanOrEqual,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only whether it can be read counts")]
struct Order {
    field: String,
    desc: Option<bool>,
}

/// Numbers of every size, and what else a field can be.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only whether it can be read counts")]
struct Fields {
    #[schemars(range(min = 0, max = 10))]
    row_count: u32,
    byte: Option<u8>,
    small: Option<i16>,
    signed: Option<i32>,
    unsigned: Option<u32>,
    large: Option<i64>,
    huge: Option<u64>,
    size: Option<usize>,
    #[schemars(range(min = 0.5, max = 1.5))]
    ratio: Option<f64>,
    #[schemars(length(min = 2, max = 4))]
    code: Option<String>,
    #[schemars(extend("x-acp-input" = "table_ref"))]
    dataset: Option<String>,
    order: Option<Order>,
    match_type: Option<Match>,
    match_types: Option<Vec<Match>>,
    lists: Option<Vec<Vec<u16>>>,
    letter: Option<char>,
    anything: Option<Value>,
}

struct Tool {
    schema: JsonObject,
    validator: Validator,
    read: fn(Value) -> Result<(), serde_json::Error>,
}

impl Tool {
    fn of<T: JsonSchema + DeserializeOwned>() -> Self {
        Self::with(fuzzing::input_schema::<T>(), |arguments| serde_json::from_value::<T>(arguments).map(drop))
    }

    fn with(schema: JsonObject, read: fn(Value) -> Result<(), serde_json::Error>) -> Self {
        let validator = jsonschema::validator_for(&Value::Object(schema.clone())).expect("a schema");
        Self { schema, validator, read }
    }
}

static TOOLS: LazyLock<[Tool; 3]> = LazyLock::new(|| {
    // The reserved tools have schemas of their own and no struct.
    let autocontext = json!({
        "type": "object",
        "properties": {
            "request_data": {"type": "array", "items": {"type": "string", "enum": ["metrics", "custom-fields"]}},
            "query": {"type": "string"},
        },
        "additionalProperties": false,
    });
    let autocontext = autocontext.as_object().expect("an object").clone();
    [Tool::of::<Report>(), Tool::of::<Fields>(), Tool::with(autocontext, |_| Ok(()))]
});

const MARK: &str = "mark-8c1f";
const NUMBER: i64 = 918_273_645;

// The first byte says which tool, the rest is its arguments.
fuzz_target!(|input: &[u8]| {
    let Some((choice, text)) = input.split_first() else { return };
    let tool = &TOOLS[usize::from(*choice) % TOOLS.len()];
    let Ok(arguments) = serde_json::from_slice::<JsonObject>(text) else { return };
    accepted(tool, &arguments);
    for (texts, numbers) in [(true, false), (false, true), (true, true)] {
        let mut marked = Value::Object(arguments.clone());
        mark(&mut marked, texts, numbers);
        let Value::Object(marked) = marked else { unreachable!("it was an object") };
        if let Err(error) = fuzzing::check_arguments(&tool.schema, marked) {
            let message = error.message();
            // A message names what is unknown, without control characters.
            let mut names = keys(&Value::Object(arguments.clone()));
            names.iter_mut().for_each(|name| name.retain(|mark| !mark.is_control()));
            for mark in [MARK, &NUMBER.to_string()] {
                assert!(!message.contains(mark) || names.iter().any(|name| name.contains(mark)), "{message}");
            }
        }
    }
});

const WORDS: [&str; 38] = [
    "metrics",
    "dimensions",
    "start_date",
    "filters",
    "order_by",
    "limit",
    "keep_empty_rows",
    "field",
    "match_type",
    "value",
    "values",
    "not",
    "inner",
    "in_list",
    "desc",
    "row_count",
    "byte",
    "small",
    "signed",
    "unsigned",
    "large",
    "huge",
    "size",
    "ratio",
    "code",
    "dataset",
    "order",
    "match_types",
    "lists",
    "letter",
    "anything",
    "request_data",
    "query",
    "matchType",
    "EXACT",
    "less-than or equal",
    "custom fields",
    "x",
];

fuzz_mutator!(|input: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut dice = Dice(seed.into());
    match serde_json::from_slice::<Value>(input.get(1..size).unwrap_or_default()) {
        Ok(mut arguments) if dice.roll(4) > 0 => {
            for _ in 0..=dice.roll(3) {
                mutate(&mut arguments, &WORDS, &mut dice);
            }
            let text = arguments.to_string();
            if text.len() >= max_size {
                return size;
            }
            input[1..=text.len()].copy_from_slice(text.as_bytes());
            1 + text.len()
        }
        _ => fuzzer_mutate(input, size, max_size),
    }
});

fn accepted(tool: &Tool, arguments: &JsonObject) {
    let original = Value::Object(arguments.clone());
    match fuzzing::check_arguments(&tool.schema, arguments.clone()) {
        Ok(checked) => {
            let again = fuzzing::check_arguments(&tool.schema, checked.clone()).expect("what was accepted is accepted");
            assert_eq!(again, checked, "it was not repaired at once");
            let checked = Value::Object(checked);
            if let Err(error) = tool.validator.validate(&checked) {
                panic!("{original} was accepted as {checked}: {error}");
            }
            if let Err(error) = (tool.read)(checked.clone()) {
                panic!("{original} was accepted as {checked}: {error}");
            }
        }
        Err(error) => {
            assert!(!(tool.validator.is_valid(&original) && ordinary(&original)), "{original}: {}", error.message());
        }
    }
}

/// Whether the schema says all there is to say: whole numbers beyond a float and empty table ids are refused without it.
fn ordinary(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(ordinary),
        Value::Object(fields) => fields.values().all(ordinary),
        Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() < 9e15),
        Value::String(text) => !text.is_empty(),
        Value::Null | Value::Bool(_) => true,
    }
}

/// Puts a mark into every text, also into those that are JSON, and in the place of every number.
fn mark(value: &mut Value, texts: bool, numbers: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| mark(item, texts, numbers)),
        Value::Object(fields) => fields.values_mut().for_each(|field| mark(field, texts, numbers)),
        Value::Number(_) if numbers => *value = json!(NUMBER),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(mut inner @ (Value::Array(_) | Value::Object(_))) => {
                mark(&mut inner, texts, numbers);
                *text = inner.to_string();
            }
            _ if texts => text.push_str(MARK),
            _ => {}
        },
        _ => {}
    }
}

fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(keys).collect(),
        Value::Object(fields) => {
            fields.iter().flat_map(|(key, value)| [vec![key.clone()], keys(value)].concat()).collect()
        }
        Value::String(text) => serde_json::from_str::<Value>(text).map(|inner| keys(&inner)).unwrap_or_default(),
        _ => Vec::new(),
    }
}
