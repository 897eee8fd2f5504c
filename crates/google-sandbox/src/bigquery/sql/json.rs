//! JSON: values of the type JSON, and text that holds JSON.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::error::SqlError;
use super::text::{self, DAY};
use crate::bigquery::schema::Type;
use crate::bigquery::value::Value;

type Outcome = Result<Value, SqlError>;

/// Integers beyond this aren't exact as a float, so they are written as text.
const EXACT: i64 = 1 << 53;

/// Reads JSON; the members of objects are put in order, as Google's type has none.
///
/// # Errors
/// When it isn't JSON.
pub(super) fn parse(text: &str) -> Result<Arc<Json>, SqlError> {
    let parsed: Json = serde_json::from_str(text)
        .map_err(|error| SqlError::query(format!("syntax error while parsing value: {error}")))?;
    Ok(Arc::new(sorted(parsed)))
}

fn sorted(json: Json) -> Json {
    match json {
        Json::Object(members) => {
            let mut members: Vec<(String, Json)> =
                members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            Json::Object(members.into_iter().collect())
        }
        Json::Array(elements) => Json::Array(elements.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// A value as JSON, as `TO_JSON` makes it.
pub(super) fn of_value(value: &Value, kind: &Type) -> Json {
    match (value, kind) {
        (Value::Null, _) => Json::Null,
        (Value::Bool(truth), _) => json!(truth),
        (Value::Int64(number), _) if number.abs() <= EXACT => json!(number),
        (Value::Float64(number), _) if number.is_finite() && number.fract() == 0.0 && number.abs() < EXACT as f64 => {
            json!(*number as i64)
        }
        (Value::Float64(number), _) if number.is_finite() => json!(number),
        (Value::Float64(number), _) if number.is_nan() => json!("NaN"),
        (Value::Float64(number), _) => json!(if *number > 0.0 { "Infinity" } else { "-Infinity" }),
        (Value::Bytes(bytes), _) => json!(base64::Engine::encode(&base64::prelude::BASE64_STANDARD, bytes)),
        (Value::DateTime(micros), _) => json!(text::of_datetime(*micros, 'T')),
        (Value::Timestamp(micros), _) => json!(format!("{}Z", text::of_datetime(*micros, 'T'))),
        (Value::Time(micros), _) => json!(text::of_time(micros % DAY)),
        (Value::Json(json), _) => (**json).clone(),
        (Value::Struct(values), Type::Struct(fields)) => {
            let members = values
                .iter()
                .zip(fields.iter())
                .map(|(value, field)| (field.name.to_string(), of_value(value, &field.kind)));
            Json::Object(members.collect::<Map<_, _>>())
        }
        (Value::Array(values), Type::Array(element)) => values.iter().map(|value| of_value(value, element)).collect(),
        (other, _) => json!(text::of_value(other)),
    }
}

/// A step of a path.
enum Step {
    Member(String),
    Element(usize),
}

/// Reads `$.a['b'].c[0]`.
fn path(value: Option<&Value>) -> Result<Vec<Step>, SqlError> {
    let Some(Value::String(path)) = value else { return Ok(Vec::new()) };
    let invalid = || SqlError::query(format!("Invalid JSONPath: {path}"));
    let mut rest = path.strip_prefix('$').ok_or_else(invalid)?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix(".\"") {
            quoted.split_once('"').ok_or_else(invalid)?
        } else if let Some(quoted) = rest.strip_prefix("['") {
            quoted.split_once("']").ok_or_else(invalid)?
        } else if let Some(index) = rest.strip_prefix('[') {
            let (index, after) = index.split_once(']').ok_or_else(invalid)?;
            steps.push(Step::Element(index.trim().parse().map_err(|_| invalid())?));
            rest = after;
            continue;
        } else if let Some(name) = rest.strip_prefix('.') {
            name.split_at(name.find(['.', '[']).unwrap_or(name.len()))
        } else {
            return Err(invalid());
        };
        if name.is_empty() || name == "*" {
            return Err(invalid());
        }
        steps.push(Step::Member(name.to_owned()));
        rest = after;
    }
    Ok(steps)
}

fn find<'a>(json: &'a Json, steps: &[Step]) -> Option<&'a Json> {
    steps.iter().try_fold(json, |json, step| match step {
        Step::Member(name) => json.as_object()?.get(name),
        Step::Element(index) => json.as_array()?.get(*index),
    })
}

/// What the path of the second argument leads to. Text that isn't JSON leads nowhere.
fn at(of: &[Value]) -> Result<Option<Json>, SqlError> {
    let steps = path(of.get(1))?;
    Ok(match &of[0] {
        Value::Json(json) => find(json, &steps).cloned(),
        Value::String(text) => serde_json::from_str::<Json>(text).ok().and_then(|json| find(&json, &steps).cloned()),
        _ => None,
    })
}

fn scalar_text(json: &Json) -> Value {
    match json {
        Json::Null | Json::Array(_) | Json::Object(_) => Value::Null,
        Json::String(text) => Value::from(text.as_str()),
        other => Value::from(other.to_string()),
    }
}

/// `JSON_VALUE` of text.
pub(super) fn scalar_of_text(of: &[Value]) -> Outcome {
    scalar(of)
}

/// `JSON_VALUE`: a scalar as text.
pub(super) fn scalar(of: &[Value]) -> Outcome {
    Ok(at(of)?.as_ref().map_or(Value::Null, scalar_text))
}

/// `JSON_QUERY` of text: the text of a part.
pub(super) fn part_of_text(of: &[Value]) -> Outcome {
    Ok(at(of)?.filter(|json| !json.is_null()).map(|json| json.to_string()).into())
}

/// `JSON_QUERY`: a part.
pub(super) fn part(of: &[Value]) -> Outcome {
    Ok(at(of)?.map_or(Value::Null, |json| Value::Json(Arc::new(json))))
}

/// `JSON_QUERY_ARRAY` of text.
pub(super) fn parts_of_text(of: &[Value]) -> Outcome {
    array(of, |json| Value::from(json.to_string()))
}

/// `JSON_QUERY_ARRAY`.
pub(super) fn parts(of: &[Value]) -> Outcome {
    array(of, |json| Value::Json(Arc::new(json.clone())))
}

/// `JSON_VALUE_ARRAY` of text.
pub(super) fn scalars_of_text(of: &[Value]) -> Outcome {
    array(of, scalar_text)
}

fn array(of: &[Value], element: impl Fn(&Json) -> Value) -> Outcome {
    Ok(match at(of)? {
        Some(Json::Array(elements)) => Value::array(elements.iter().map(element)),
        _ => Value::Null,
    })
}

/// `json.name`.
pub(super) fn field(of: &[Value]) -> Outcome {
    let (Value::Json(json), Value::String(name)) = (&of[0], &of[1]) else { return Ok(Value::Null) };
    Ok(json.get(&**name).map_or(Value::Null, |json| Value::Json(Arc::new(json.clone()))))
}

/// `json[0]`.
pub(super) fn element(of: &[Value]) -> Outcome {
    let (Value::Json(json), Value::Int64(index)) = (&of[0], &of[1]) else { return Ok(Value::Null) };
    let element = usize::try_from(*index).ok().and_then(|index| json.get(index));
    Ok(element.map_or(Value::Null, |json| Value::Json(Arc::new(json.clone()))))
}

/// `JSON_TYPE`.
pub(super) fn type_name(of: &[Value]) -> Outcome {
    let Value::Json(json) = &of[0] else { return Ok(Value::Null) };
    Ok(Value::from(match **json {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }))
}

/// A JSON value of one type, as a value of GoogleSQL.
pub(super) fn typed(of: &[Value], name: &str, get: fn(&Json) -> Option<Value>) -> Outcome {
    let Value::Json(json) = &of[0] else { return Ok(Value::Null) };
    let wrong = || SqlError::query(format!("The provided JSON input is not a {name}: {json}"));
    get(json).ok_or_else(wrong)
}
