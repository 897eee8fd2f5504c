//! Reads JSON messages the way Google's front end does: camelCase or snake_case keys, int64 as number or string, and a 400
//! for every key it doesn't know.

use serde_json::{Map, Value};

use crate::google_error::GoogleError;

type Result<T> = std::result::Result<T, GoogleError>;

/// The JSON of a body; an empty body is an empty message.
pub(crate) fn json(body: &[u8]) -> Result<Value> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_slice(body).map_err(|error| {
        GoogleError::bad_payload(
            "",
            format!("Expected a JSON value at line {}, column {}.", error.line(), error.column()),
        )
    })
}

/// A JSON object whose keys are all known. Google accepts both spellings of a key.
pub(crate) struct Fields<'a> {
    entries: Vec<(String, &'a Value)>,
    path: String,
}

impl<'a> Fields<'a> {
    /// Checks the keys of an object at `path` ("" at the top).
    pub(crate) fn new(value: &'a Value, path: &str, known: &[&str]) -> Result<Self> {
        let map = value.as_object().ok_or_else(|| {
            GoogleError::bad_payload(
                path,
                format!("Expected an object at '{}'.", if path.is_empty() { "root" } else { path }),
            )
        })?;
        let mut entries = Vec::new();
        for (key, value) in map {
            let camel = camel_case(key);
            if !known.contains(&camel.as_str()) {
                return Err(unknown_name(key, path));
            }
            if !value.is_null() {
                entries.push((camel, value));
            }
        }
        Ok(Self { entries, path: path.to_owned() })
    }

    /// The fields that are there, in the order of the message.
    pub(crate) fn entries(&self) -> &[(String, &'a Value)] {
        &self.entries
    }

    /// The value of a field; absent and null are the same.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The path of a field.
    pub(crate) fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A string.
    pub(crate) fn text(&self, key: &str) -> Result<Option<String>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.bad(key, "TYPE_STRING", other)),
        }
    }

    /// A boolean; absent is false.
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.bad(key, "TYPE_BOOL", other)),
        }
    }

    /// int64: number or string.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let parsed = match value {
            Value::Number(number) => {
                number.as_i64().or_else(|| number.as_f64().filter(|f| f.fract() == 0.0).map(|f| f as i64))
            }
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        parsed.map(Some).ok_or_else(|| self.bad(key, "TYPE_INT64", value))
    }

    /// The elements of a repeated field, each with its path.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<(&'a Value, String)>> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                Ok(items.iter().enumerate().map(|(i, item)| (item, format!("{}[{i}]", self.at(key)))).collect())
            }
            // Google's parser reads a lone value as a list of one.
            Some(single) => Ok(vec![(single, self.at(key))]),
        }
    }

    /// The refusal of a value of the wrong type.
    pub(crate) fn bad(&self, key: &str, kind: &str, value: &Value) -> GoogleError {
        let at = self.at(key);
        GoogleError::bad_payload(&at, format!("Invalid value at '{at}' ({kind}), {value}"))
    }

    /// Refuses what the sandbox leaves out, when it is asked for.
    pub(crate) fn leaves_out(&self, keys: &[&str]) -> Result<()> {
        match keys
            .iter()
            .find(|key| self.get(key).is_some_and(|v| *v != Value::Bool(false) && *v != Value::Array(Vec::new())))
        {
            Some(key) => Err(GoogleError::unsupported(&self.at(key))),
            None => Ok(()),
        }
    }
}

fn unknown_name(key: &str, path: &str) -> GoogleError {
    let description = if path.is_empty() {
        format!("Unknown name \"{key}\": Cannot find field.")
    } else {
        format!("Unknown name \"{key}\" at '{path}': Cannot find field.")
    };
    GoogleError::bad_payload(path, description)
}

fn camel_case(key: &str) -> String {
    let mut camel = String::with_capacity(key.len());
    let mut upper = false;
    for c in key.chars() {
        if c == '_' {
            upper = true;
        } else if upper {
            camel.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            camel.push(c);
        }
    }
    camel
}
