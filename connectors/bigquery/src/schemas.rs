//! Schemas as a model reads them: every field that matters, in few characters.
//!
//! A table of an export has hundreds of fields, most of them the same records again. What does not fit is folded, level by
//! level, and said to be.

use google_cloud_bigquery_v2::model::TableFieldSchema;
use serde_json::{Map, Value, json};

/// Characters of a description.
const DESCRIPTION: usize = 120;

/// How much of a schema is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// Every field, with its description.
    Full,
    /// Every field.
    Fields,
    /// A record whose fields are those of an earlier one names that one.
    Folded,
    /// Records below this depth only say how many fields they have; the rest is one text.
    Depth(usize),
}

/// How the columns of one of several tables are shown.
#[derive(Debug)]
pub(crate) enum Shown {
    /// They are those of an earlier table, at this place.
    As(usize),
    /// The columns, and what was left out.
    Columns(Value, Option<String>),
}

impl Default for Shown {
    fn default() -> Self {
        Self::Columns(Value::Null, None)
    }
}

/// The columns of several tables in at most about `budget` characters together. Tables with the same columns are shown
/// once, and what small ones leave goes to large ones.
pub(crate) fn all(tables: &[&[TableFieldSchema]], budget: usize) -> Vec<Shown> {
    let mut shown: Vec<Shown> = tables
        .iter()
        .enumerate()
        .map(|(index, fields)| match tables[..index].iter().position(|earlier| same(earlier, fields)) {
            Some(earlier) => Shown::As(earlier),
            None => Shown::default(),
        })
        .collect();
    let mut own: Vec<usize> = (0..tables.len()).filter(|index| matches!(shown[*index], Shown::Columns(..))).collect();
    own.sort_by_key(|index| count(tables[*index]));
    let mut left = budget;
    for (done, index) in own.iter().enumerate() {
        let (columns, note) = columns(tables[*index], left / (own.len() - done));
        left = left.saturating_sub(columns.to_string().len());
        shown[*index] = Shown::Columns(columns, note);
    }
    shown
}

/// The columns of a table in at most about `budget` characters: a list as in the specification's example (15.3), or, of
/// wide tables, one text. The second value says what was left out.
pub(crate) fn columns(fields: &[TableFieldSchema], budget: usize) -> (Value, Option<String>) {
    for detail in [Detail::Full, Detail::Fields, Detail::Folded] {
        let mut list = Vec::new();
        let mut seen = Vec::new();
        flatten(fields, "", detail, &mut seen, &mut list);
        let value = Value::Array(list);
        if value.to_string().len() <= budget {
            return (value, None);
        }
    }
    for depth in [15, 4, 3, 2, 1] {
        let mut seen = Vec::new();
        let text = compact(fields, Detail::Depth(depth), 1, &mut seen);
        if text.len() <= budget {
            return (json!(text), Some(format!("compact form: name TYPE, records in braces. {DETAILS}")));
        }
    }
    let mut text = compact(fields, Detail::Depth(0), 1, &mut Vec::new());
    let shown = text.char_indices().nth(budget).map_or(text.len(), |(at, _)| at);
    text.truncate(text[..shown].rfind(", ").unwrap_or(shown));
    let left_out = fields.len() - text.matches(", ").count().min(fields.len());
    (json!(text), Some(format!("{left_out} columns are left out. {DETAILS}")))
}

const DETAILS: &str = "describe_table with fields shows any part of it.";

/// The number of fields, nested ones too.
pub(crate) fn count(fields: &[TableFieldSchema]) -> usize {
    fields.iter().map(|field| 1 + count(&field.fields)).sum()
}

/// A field as the specification's example has one.
fn entry(field: &TableFieldSchema, name: &str, detail: Detail) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(name));
    entry.insert("type".to_owned(), json!(field.r#type));
    if !matches!(field.mode.as_str(), "" | "NULLABLE") {
        entry.insert("mode".to_owned(), json!(field.mode));
    }
    if is_restricted(field) {
        entry.insert("restricted".to_owned(), json!(true));
    }
    let description = field.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    if let Some(description) = description.filter(|_| detail == Detail::Full) {
        let clipped: String = description.chars().filter(|mark| !mark.is_control()).take(DESCRIPTION).collect();
        entry.insert("description".to_owned(), json!(clipped));
    }
    entry
}

/// Whether reading a column takes a right of its own.
pub(crate) fn is_restricted(field: &TableFieldSchema) -> bool {
    field.policy_tags.as_ref().is_some_and(|tags| !tags.names.is_empty()) || !field.data_policies.is_empty()
}

fn flatten<'a>(
    fields: &'a [TableFieldSchema],
    prefix: &str,
    detail: Detail,
    seen: &mut Vec<(&'a [TableFieldSchema], String)>,
    list: &mut Vec<Value>,
) {
    for field in fields {
        let name = format!("{prefix}{}", field.name);
        let mut entry = entry(field, &name, detail);
        let before = seen.iter().find(|(known, _)| detail == Detail::Folded && same(known, &field.fields));
        if let Some((_, earlier)) = before {
            entry.insert("fields_as".to_owned(), json!(earlier));
            list.push(Value::Object(entry));
            continue;
        }
        list.push(Value::Object(entry));
        if !field.fields.is_empty() {
            seen.push((&field.fields, name.clone()));
            flatten(&field.fields, &format!("{name}."), detail, seen, list);
        }
    }
}

/// Whether two records have the same fields.
fn same(one: &[TableFieldSchema], other: &[TableFieldSchema]) -> bool {
    !one.is_empty()
        && one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            (&one.name, &one.r#type, &one.mode) == (&other.name, &other.r#type, &other.mode)
                && (one.fields.is_empty() && other.fields.is_empty() || same(&one.fields, &other.fields))
        })
}

fn compact<'a>(
    fields: &'a [TableFieldSchema],
    detail: Detail,
    level: usize,
    seen: &mut Vec<(&'a [TableFieldSchema], String)>,
) -> String {
    let Detail::Depth(depth) = detail else { return String::new() };
    let parts = fields.iter().map(|field| {
        let mut text = format!("{} {}", field.name, field.r#type);
        if field.mode == "REPEATED" {
            text.push_str("[]");
        }
        if is_restricted(field) {
            text.push_str(" restricted");
        }
        if field.fields.is_empty() {
            return text;
        }
        if let Some((_, earlier)) = seen.iter().find(|(known, _)| same(known, &field.fields)) {
            return format!("{text} {{as {earlier}}}");
        }
        if level > depth {
            return format!("{text} {{{} fields}}", count(&field.fields));
        }
        seen.push((&field.fields, field.name.clone()));
        format!("{text} {{{}}}", compact(&field.fields, detail, level + 1, seen))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// The fields below a dotted name, or whose name holds a text.
pub(crate) fn select(fields: &[TableFieldSchema], wanted: &str) -> Vec<Value> {
    let mut list = Vec::new();
    flatten(fields, "", Detail::Full, &mut Vec::new(), &mut list);
    let wanted = wanted.to_lowercase();
    list.retain(|entry| entry["name"].as_str().is_some_and(|name| name.to_lowercase().contains(&wanted)));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, fields: Vec<TableFieldSchema>) -> TableFieldSchema {
        TableFieldSchema::new().set_name(name).set_type("RECORD").set_mode("REPEATED").set_fields(fields)
    }

    fn leaf(name: &str) -> TableFieldSchema {
        TableFieldSchema::new().set_name(name).set_type("STRING").set_description("What it is".to_owned())
    }

    #[test]
    fn small_schemas_are_listed_as_in_the_specification() {
        let (columns, note) = columns(&[leaf("event_date"), record("event_params", vec![leaf("key")])], 1_000);
        assert_eq!(note, None);
        assert_eq!(columns[1], json!({"name": "event_params", "type": "RECORD", "mode": "REPEATED"}));
        assert_eq!(columns[2]["name"], "event_params.key");
        assert_eq!(columns[0]["description"], "What it is");
    }

    #[test]
    fn wide_schemas_are_folded_and_nothing_is_left_out_silently() {
        let same = |name: &str| record(name, (0..30).map(|index| leaf(&format!("field_number_{index}"))).collect());
        let fields: Vec<_> = (0..30).map(|index| same(&format!("record_{index}"))).collect();
        assert_eq!(count(&fields), 930);
        let (folded, note) = columns(&fields, 6_000);
        assert_eq!((folded[31]["fields_as"].as_str(), note), (Some("record_0"), None));
        let different: Vec<_> = (0..30)
            .map(|record_number| {
                let fields = (0..30).map(|index| leaf(&format!("field_{record_number}_{index}"))).collect();
                record(&format!("record_{record_number}"), fields)
            })
            .collect();
        for budget in [25_000, 16_000, 2_000, 500] {
            let (compact, note) = columns(&different, budget);
            assert!(compact.to_string().len() <= budget + 20, "{budget}");
            assert!(note.is_some(), "{budget}");
        }
        assert_eq!(select(&different, "field_7_").len(), 30);
    }
}
