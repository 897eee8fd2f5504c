//! Query parameters: from JSON values to the typed ones that BigQuery takes ("Running parameterized queries").

use acp_core::{Error, Result};
use acp_protocol::JsonObject;
use google_cloud_bigquery_v2::model::{
    QueryParameter, QueryParameterStructType, QueryParameterType, QueryParameterValue,
};
use serde_json::Value;

use crate::sql::{Kind, Token};

/// Types of a single value.
const SCALARS: [&str; 15] = [
    "STRING",
    "INT64",
    "FLOAT64",
    "NUMERIC",
    "BIGNUMERIC",
    "BOOL",
    "BYTES",
    "DATE",
    "DATETIME",
    "TIME",
    "TIMESTAMP",
    "GEOGRAPHY",
    "JSON",
    "INTERVAL",
    "INTEGER",
];

/// The parameters of a query. Each that is given must be used, and names go without the @.
pub(crate) fn typed(params: &JsonObject, tokens: &[Token<'_>]) -> Result<Vec<QueryParameter>> {
    let used = |name: &str| {
        tokens.iter().any(|token| {
            token.kind == Kind::Parameter
                && token.text.strip_prefix('@').is_some_and(|used| used.eq_ignore_ascii_case(name))
        })
    };
    if tokens.iter().any(|token| token.kind == Kind::Parameter && token.text == "?") {
        return Err(Error::invalid_arguments(
            "The query has a parameter without a name (?). Write @name and give its value in params.",
        ));
    }
    let typed = params.iter().map(|(name, value)| {
        let name = name.strip_prefix('@').unwrap_or(name);
        if !used(name) {
            return Err(Error::invalid_arguments(format!(
                "params has {name:?}, which the query does not use. Write @{name} in the query, or leave it out."
            )));
        }
        let (kind, value) = of(value)
            .map_err(|problem| Error::invalid_arguments(format!("The value of {name:?} in params {problem}.")))?;
        Ok(QueryParameter::new().set_name(name).set_parameter_type(kind).set_parameter_value(value))
    });
    typed.collect()
}

type Typed = (QueryParameterType, QueryParameterValue);

fn of(value: &Value) -> Result<Typed, String> {
    match value {
        Value::Null => Err("is null, and a parameter can't be null: write the condition with IS NULL".to_owned()),
        Value::Bool(value) => Ok(scalar("BOOL", value)),
        Value::Number(number) if number.is_i64() => Ok(scalar("INT64", number)),
        Value::Number(number) if number.is_u64() => Ok(scalar("BIGNUMERIC", number)),
        Value::Number(number) => Ok(scalar("FLOAT64", number)),
        Value::String(text) => Ok(scalar("STRING", text)),
        Value::Array(items) => array(items),
        Value::Object(fields) => match explicit(fields) {
            Some(typed) => typed,
            None => record(fields),
        },
    }
}

fn scalar(kind: &str, value: impl ToString) -> Typed {
    (QueryParameterType::new().set_type(kind), QueryParameterValue::new().set_value(value.to_string()))
}

/// `{"type": "DATE", "value": "2026-09-01"}`: a type that JSON has no form for.
fn explicit(fields: &JsonObject) -> Option<Result<Typed, String>> {
    let (Some(Value::String(kind)), Some(value), 2) = (fields.get("type"), fields.get("value"), fields.len()) else {
        return None;
    };
    let kind = kind.to_ascii_uppercase();
    if !SCALARS.contains(&kind.as_str()) {
        return Some(Err(format!("has the type {kind}, which is none of {}", SCALARS[..14].join(", "))));
    }
    Some(match value {
        Value::String(text) => Ok(scalar(&kind, text)),
        Value::Number(number) => Ok(scalar(&kind, number)),
        Value::Bool(value) => Ok(scalar(&kind, value)),
        Value::Object(_) | Value::Array(_) if kind == "JSON" => Ok(scalar(&kind, value)),
        Value::Array(items) => array_of(&kind, items),
        _ => Err("must be one value or a list of them".to_owned()),
    })
}

fn array(items: &[Value]) -> Result<Typed, String> {
    if items.is_empty() {
        return Err("is an empty list, which has no type: write {\"type\": \"STRING\", \"value\": []}".to_owned());
    }
    let typed = items.iter().map(of).collect::<Result<Vec<_>, _>>()?;
    let (mut kinds, values): (Vec<_>, Vec<_>) = typed.into_iter().unzip();
    let float = |kind: &QueryParameterType| matches!(kind.r#type.as_str(), "FLOAT64" | "INT64");
    // 1 and 1.5 in one list are both numbers with a fraction.
    if kinds.iter().all(float) && kinds.iter().any(|kind| kind.r#type == "FLOAT64") {
        kinds = vec![QueryParameterType::new().set_type("FLOAT64"); kinds.len()];
    }
    if kinds.iter().any(|kind| *kind != kinds[0]) {
        return Err("is a list whose values have different types".to_owned());
    }
    if kinds[0].r#type == "ARRAY" {
        return Err("is a list of lists, which BigQuery does not have".to_owned());
    }
    let kind = QueryParameterType::new().set_type("ARRAY").set_array_type(kinds.swap_remove(0));
    Ok((kind, QueryParameterValue::new().set_array_values(values)))
}

fn array_of(kind: &str, items: &[Value]) -> Result<Typed, String> {
    let values = items
        .iter()
        .map(|item| match item {
            Value::String(text) => Ok(scalar(kind, text).1),
            Value::Number(number) => Ok(scalar(kind, number).1),
            Value::Bool(value) => Ok(scalar(kind, value).1),
            _ => Err("is a list with something that is no single value".to_owned()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let element = QueryParameterType::new().set_type(kind);
    let kind = QueryParameterType::new().set_type("ARRAY").set_array_type(element);
    Ok((kind, QueryParameterValue::new().set_array_values(values)))
}

fn record(fields: &JsonObject) -> Result<Typed, String> {
    if fields.is_empty() {
        return Err("is an object without fields".to_owned());
    }
    let mut kinds = Vec::new();
    let mut values = Vec::new();
    for (name, value) in fields {
        let (kind, value) = of(value)?;
        kinds.push(QueryParameterStructType::new().set_name(name).set_type(kind));
        values.push((name.clone(), value));
    }
    let kind = QueryParameterType::new().set_type("STRUCT").set_struct_types(kinds);
    Ok((kind, QueryParameterValue::new().set_struct_values(values)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sql::tokens;

    fn typed_json(params: Value, query: &str) -> Result<Value, String> {
        let Value::Object(params) = params else { panic!("an object") };
        typed(&params, &tokens(query).unwrap())
            .map(|typed| serde_json::to_value(typed).unwrap())
            .map_err(|error| error.message().to_owned())
    }

    #[test]
    fn values_get_the_type_that_json_gives_them() {
        let sent = typed_json(
            json!({"a": 1, "@b": "x", "c": [1, 1.5], "d": {"type": "date", "value": "2026-09-01"}, "e": {"x": true}}),
            "SELECT @a, @B, @c, @d, @e",
        )
        .unwrap();
        assert_eq!(sent[0]["parameterType"]["type"], "INT64");
        assert_eq!(sent[0]["parameterValue"]["value"], "1");
        assert_eq!(sent[1]["name"], "b");
        assert_eq!(sent[2]["parameterType"]["arrayType"]["type"], "FLOAT64");
        assert_eq!(sent[2]["parameterValue"]["arrayValues"][1]["value"], "1.5");
        assert_eq!(sent[3]["parameterType"]["type"], "DATE");
        assert_eq!(sent[4]["parameterType"]["structTypes"][0]["type"]["type"], "BOOL");
        assert_eq!(sent[4]["parameterValue"]["structValues"]["x"]["value"], "true");
    }

    #[test]
    fn what_has_no_type_is_refused_with_the_fix() {
        for (params, query, part) in [
            (json!({"a": null}), "SELECT @a", "IS NULL"),
            (json!({"a": []}), "SELECT @a", "no type"),
            (json!({"a": [1, "x"]}), "SELECT @a", "different types"),
            (json!({"a": [[1]]}), "SELECT @a", "list of lists"),
            (json!({"a": {}}), "SELECT @a", "without fields"),
            (json!({"a": {"type": "MONEY", "value": "1"}}), "SELECT @a", "none of STRING"),
            (json!({"a": 1}), "SELECT 1", "does not use"),
            (json!({}), "SELECT ?", "Write @name"),
        ] {
            let problem = typed_json(params, query).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
