//! The scalar functions and operators: their signatures and what they do.

mod array;
mod date;
mod math;
mod net;
mod string;

use std::sync::Arc;

use super::cast;
use super::error::SqlError;
use super::plan::Eval;
use crate::bigquery::schema::Type;
use crate::bigquery::value::Value;

/// A signature: name, types, what it does. Types are as in `STRING, [INT64], STRING... -> ARRAY<T>`: in brackets what may be
/// missing, with dots what may come again; `T` is any type, `PART` the name of a date part.
pub(super) type Entry = (&'static str, &'static str, Eval);

/// Functions that give null when an argument is null.
const STRICT: [&[Entry]; 5] = [math::FUNCTIONS, string::FUNCTIONS, date::FUNCTIONS, array::FUNCTIONS, net::FUNCTIONS];
/// Functions that see nulls.
const NULLABLE: [&[Entry]; 2] = [string::NULLABLE, array::NULLABLE];

/// A parameter of a signature.
pub(super) struct Parameter<'a> {
    kind: &'a str,
    optional: bool,
    repeated: bool,
}

/// A signature that was read.
pub(super) struct Signature {
    pub(super) name: &'static str,
    pub(super) parameters: Vec<Parameter<'static>>,
    result: &'static str,
    pub(super) eval: Eval,
    /// Whether the function sees nulls.
    pub(super) nulls: bool,
}

/// The signatures of a function; none when there is no such function.
pub(super) fn signatures(name: &str) -> Vec<Signature> {
    let of = |tables: &'static [&'static [Entry]], nulls: bool| {
        let entries = tables.iter().flat_map(|table| table.iter());
        entries.filter(|entry| entry.0.eq_ignore_ascii_case(name)).map(move |entry| Signature::read(entry, nulls))
    };
    of(&STRICT, false).chain(of(&NULLABLE, true)).collect()
}

/// The names of all functions, as suggestions write them.
pub(super) fn names() -> impl Iterator<Item = String> {
    let entries = STRICT.iter().chain(NULLABLE.iter()).flat_map(|table| table.iter());
    entries.map(|entry| entry.0.to_lowercase()).filter(|name| !name.starts_with('$'))
}

impl Signature {
    fn read(entry: &Entry, nulls: bool) -> Self {
        let (name, text, eval) = *entry;
        let (parameters, result) = text.split_once("->").unwrap_or(("", text));
        let parameters = parameters.split(", ").map(str::trim).filter(|text| !text.is_empty()).map(|text| {
            let repeated = text.ends_with("...");
            let text = text.trim_end_matches("...");
            let optional = repeated || text.starts_with('[');
            Parameter { kind: text.trim_matches(['[', ']']), optional, repeated }
        });
        Self { name, parameters: parameters.collect(), result: result.trim(), eval, nulls }
    }

    /// The parameter that an argument belongs to.
    pub(super) fn parameter(&self, index: usize) -> Option<&Parameter<'static>> {
        self.parameters.get(index).or_else(|| self.parameters.last().filter(|last| last.repeated))
    }

    /// Whether it may have that many arguments.
    pub(super) fn takes(&self, count: usize) -> bool {
        let least = self.parameters.iter().filter(|parameter| !parameter.optional).count();
        count >= least && (count == 0 || self.parameter(count - 1).is_some())
    }

    /// The type of the result once `T` is known.
    pub(super) fn result(&self, any: Option<&Type>) -> Type {
        resolve(self.result, any).unwrap_or(Type::Int64)
    }
}

impl Parameter<'_> {
    /// Whether the argument is the name of a date part.
    pub(super) fn is_part(&self) -> bool {
        self.kind == "PART"
    }

    /// The type, once `T` is known.
    pub(super) fn kind(&self, any: Option<&Type>) -> Option<Type> {
        resolve(self.kind, any)
    }

    /// What an argument of a type says of `T`.
    pub(super) fn infer(&self, argument: &Type) -> Option<Type> {
        match self.kind {
            "T" => Some(argument.clone()),
            "ARRAY<T>" => argument.element().cloned(),
            _ => None,
        }
    }

    /// Whether it depends on `T`.
    pub(super) fn is_any(&self) -> bool {
        matches!(self.kind, "T" | "ARRAY<T>")
    }
}

fn resolve(name: &str, any: Option<&Type>) -> Option<Type> {
    if let Some(element) = name.strip_prefix("ARRAY<").and_then(|name| name.strip_suffix('>')) {
        return resolve(element, any).map(Type::array);
    }
    if name == "T" { any.cloned() } else { Type::scalar(name) }
}

/// How far an argument is from a parameter's type; none when it doesn't fit. A literal of a float goes to a decimal rather than
/// that a decimal becomes a float.
pub(super) fn distance(from: &Type, to: &Type, literal: bool) -> Option<u32> {
    if cast::is_alike(from, to) {
        return Some(0);
    }
    if cast::is_implicit(from, to) {
        return Some(match (from, to) {
            (Type::Int64, Type::Float64) | (Type::Numeric, Type::BigNumeric) => 1,
            (Type::Int64, Type::Numeric) => 2,
            (Type::Int64, _) => 3,
            _ => 4,
        });
    }
    (literal && cast::is_implicit_for_literal(from, to)).then_some(3)
}

fn text(value: &Value) -> &str {
    if let Value::String(text) = value { text } else { "" }
}

fn int(value: &Value) -> i64 {
    if let Value::Int64(number) = value { *number } else { 0 }
}

fn bytes(value: &Value) -> &[u8] {
    if let Value::Bytes(bytes) = value { bytes } else { &[] }
}

fn elements(value: &Value) -> &[Value] {
    if let Value::Array(elements) = value { elements } else { &[] }
}

fn new_bytes(bytes: impl Into<Vec<u8>>) -> Value {
    Value::Bytes(Arc::from(bytes.into()))
}

fn error<T>(message: impl Into<String>) -> Result<T, SqlError> {
    Err(SqlError::query(message))
}

/// As errors write it.
impl std::fmt::Display for Parameter<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dots = if self.repeated { ", ..." } else { "" };
        if self.optional { write!(out, "[{}{dots}]", self.kind) } else { out.write_str(self.kind) }
    }
}
