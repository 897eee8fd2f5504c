//! Types and fields, as tables, results and parameters have them.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value as Json, json};

/// A type of GoogleSQL. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int64,
    Float64,
    Numeric,
    BigNumeric,
    String,
    Bytes,
    Date,
    DateTime,
    Time,
    Timestamp,
    Interval,
    Geography,
    Json,
    /// Of dates, datetimes or timestamps.
    Range(Arc<Type>),
    /// Fields in order; names may be empty or come twice.
    Struct(Arc<[Field]>),
    /// Of anything but arrays.
    Array(Arc<Type>),
}

impl Type {
    /// The array of this type.
    pub(crate) fn array(self) -> Self {
        Self::Array(Arc::new(self))
    }

    /// The type of an array's elements.
    pub(crate) fn element(&self) -> Option<&Type> {
        if let Self::Array(element) = self { Some(element) } else { None }
    }

    /// A struct of these fields.
    pub(crate) fn record(fields: impl IntoIterator<Item = Field>) -> Self {
        Self::Struct(fields.into_iter().collect())
    }

    /// The scalar type of that name, in GoogleSQL's or the table schemas' spelling, in any case.
    pub(crate) fn scalar(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "BOOL" | "BOOLEAN" => Self::Bool,
            "INT64" | "INTEGER" | "INT" | "BIGINT" | "SMALLINT" | "TINYINT" | "BYTEINT" => Self::Int64,
            "FLOAT64" | "FLOAT" => Self::Float64,
            "NUMERIC" | "DECIMAL" => Self::Numeric,
            "BIGNUMERIC" | "BIGDECIMAL" => Self::BigNumeric,
            "STRING" => Self::String,
            "BYTES" => Self::Bytes,
            "DATE" => Self::Date,
            "DATETIME" => Self::DateTime,
            "TIME" => Self::Time,
            "TIMESTAMP" => Self::Timestamp,
            "INTERVAL" => Self::Interval,
            "GEOGRAPHY" => Self::Geography,
            "JSON" => Self::Json,
            _ => return None,
        })
    }

    /// The name that table schemas use, which differs from GoogleSQL's for four types. An array has its element's.
    pub(crate) fn schema_name(&self) -> &'static str {
        match self {
            Self::Bool => "BOOLEAN",
            Self::Int64 => "INTEGER",
            Self::Float64 => "FLOAT",
            Self::Struct(_) => "RECORD",
            Self::Array(element) => element.schema_name(),
            other => other.base_name(),
        }
    }

    /// The name in `typeKind`s and in parameters: `ARRAY` and `STRUCT` for these, without their parts.
    pub(crate) fn base_name(&self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Int64 => "INT64",
            Self::Float64 => "FLOAT64",
            Self::Numeric => "NUMERIC",
            Self::BigNumeric => "BIGNUMERIC",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Date => "DATE",
            Self::DateTime => "DATETIME",
            Self::Time => "TIME",
            Self::Timestamp => "TIMESTAMP",
            Self::Interval => "INTERVAL",
            Self::Geography => "GEOGRAPHY",
            Self::Json => "JSON",
            Self::Range(_) => "RANGE",
            Self::Struct(_) => "STRUCT",
            Self::Array(_) => "ARRAY",
        }
    }

    /// As `queryParameters` and `undeclaredQueryParameters` write it.
    pub(crate) fn to_parameter_json(&self) -> Json {
        match self {
            Self::Array(element) => json!({"type": "ARRAY", "arrayType": element.to_parameter_json()}),
            Self::Range(element) => json!({"type": "RANGE", "rangeElementType": element.to_parameter_json()}),
            Self::Struct(fields) => {
                let fields =
                    fields.iter().map(|field| json!({"name": &*field.name, "type": field.kind.to_parameter_json()}));
                json!({"type": "STRUCT", "structTypes": fields.collect::<Vec<_>>()})
            }
            scalar => json!({"type": scalar.base_name()}),
        }
    }

    /// Reads what [`Type::to_parameter_json`] writes.
    ///
    /// # Errors
    /// Says what isn't a type.
    pub(crate) fn from_parameter_json(json: &Json) -> Result<Self, String> {
        let name = json["type"].as_str().unwrap_or_default();
        match name.to_ascii_uppercase().as_str() {
            "ARRAY" => Ok(Self::from_parameter_json(&json["arrayType"])?.array()),
            "RANGE" => Ok(Self::Range(Arc::new(Self::from_parameter_json(&json["rangeElementType"])?))),
            "STRUCT" => {
                let fields = json["structTypes"].as_array().map(Vec::as_slice).unwrap_or_default();
                let fields = fields.iter().map(|field| {
                    let kind = Self::from_parameter_json(&field["type"])?;
                    Ok(Field::new(field["name"].as_str().unwrap_or_default(), kind))
                });
                Ok(Self::record(fields.collect::<Result<Vec<_>, String>>()?))
            }
            _ => Self::scalar(name).ok_or_else(|| format!("Invalid query parameter type: {name}")),
        }
    }
}

/// As GoogleSQL writes it: `ARRAY<STRUCT<key STRING, INT64>>`.
impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(element) => write!(out, "ARRAY<{element}>"),
            Self::Range(element) => write!(out, "RANGE<{element}>"),
            Self::Struct(fields) => {
                out.write_str("STRUCT<")?;
                for (index, field) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    let space = if field.name.is_empty() { "" } else { " " };
                    write!(out, "{comma}{}{space}{}", field.name, field.kind)?;
                }
                out.write_str(">")
            }
            scalar => out.write_str(scalar.base_name()),
        }
    }
}

/// A column of a table or of a result, or a field of a struct.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Empty in structs whose fields have no name.
    pub(crate) name: Arc<str>,
    /// An array when the mode is `REPEATED`.
    pub(crate) kind: Type,
    /// The mode `REQUIRED`: never null.
    pub(crate) required: bool,
    pub(crate) description: Option<Arc<str>>,
    /// Resource names of the policy tags that protect it.
    pub(crate) policy_tags: Vec<Arc<str>>,
}

/// Two fields are alike when their names and types are: what else is said of them makes no other type.
impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.name.eq_ignore_ascii_case(&other.name) && self.kind == other.kind
    }
}

impl Eq for Field {}

impl Field {
    /// A field that may be null, or that repeats when its type is an array.
    pub(crate) fn new(name: &str, kind: Type) -> Self {
        Self { name: name.into(), kind, required: false, description: None, policy_tags: Vec::new() }
    }

    /// `REPEATED`, `REQUIRED` or `NULLABLE`.
    pub(crate) fn mode(&self) -> &'static str {
        match self.kind {
            Type::Array(_) => "REPEATED",
            _ if self.required => "REQUIRED",
            _ => "NULLABLE",
        }
    }

    /// As a table schema writes it.
    pub(crate) fn to_json(&self) -> Json {
        let mut json = json!({"name": &*self.name, "type": self.kind.schema_name(), "mode": self.mode()});
        match self.kind.element().unwrap_or(&self.kind) {
            Type::Struct(fields) => json["fields"] = fields.iter().map(Field::to_json).collect(),
            Type::Range(element) => json["rangeElementType"] = json!({"type": element.schema_name()}),
            _ => {}
        }
        if let Some(description) = &self.description {
            json["description"] = json!(&**description);
        }
        if !self.policy_tags.is_empty() {
            let names: Vec<&str> = self.policy_tags.iter().map(|name| &**name).collect();
            json["policyTags"] = json!({"names": names});
        }
        json
    }

    /// Reads a field of a table schema.
    ///
    /// # Errors
    /// Says what is no field.
    pub(crate) fn from_json(json: &Json) -> Result<Self, String> {
        let name = json["name"].as_str().filter(|name| !name.is_empty()).ok_or("A field has no name")?;
        let kind = json["type"].as_str().unwrap_or_default();
        let kind = match kind.to_ascii_uppercase().as_str() {
            "RECORD" | "STRUCT" => {
                let fields = json["fields"].as_array().filter(|fields| !fields.is_empty());
                let fields = fields.ok_or_else(|| format!("Field {name} is type RECORD but has no schema"))?;
                Type::record(fields.iter().map(Field::from_json).collect::<Result<Vec<_>, _>>()?)
            }
            "RANGE" => {
                let element = json["rangeElementType"]["type"].as_str().and_then(Type::scalar);
                Type::Range(Arc::new(element.ok_or_else(|| format!("Field {name} has no range element type"))?))
            }
            _ => Type::scalar(kind).ok_or_else(|| format!("Invalid value for type: {kind} is not a valid value"))?,
        };
        let (kind, required) = match json["mode"].as_str().unwrap_or("NULLABLE").to_ascii_uppercase().as_str() {
            "NULLABLE" => (kind, false),
            "REQUIRED" => (kind, true),
            "REPEATED" => (kind.array(), false),
            other => return Err(format!("Invalid value for mode: {other} is not a valid value")),
        };
        let tags = json["policyTags"]["names"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            name: name.into(),
            kind,
            required,
            description: json["description"].as_str().map(Into::into),
            policy_tags: tags.iter().filter_map(|tag| tag.as_str().map(Into::into)).collect(),
        })
    }
}
