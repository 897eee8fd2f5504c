//! Filters as a model writes them, a flat list, and as Google wants them, a tree.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use acp_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fields::{Kind, shown};

/// Characters of the longest regular expression that is passed on.
const REGEX_MAX: usize = 2_000;
/// The most conditions of a kind, and the most values of one.
const CONDITIONS_MAX: usize = 100;
const VALUES_MAX: usize = 1_000;

/// One condition on a dimension.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DimensionFilter {
    /// Dimension name.
    pub(crate) field: String,
    /// Patterns are RE2: PARTIAL anywhere, FULL the whole value.
    pub(crate) match_type: DimensionMatch,
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// Texts for IN_LIST.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<Vec<String>>,
    /// Mind the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) case_sensitive: Option<bool>,
    /// Negate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not: Option<bool>,
    /// Same group: alternatives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
}

/// One condition on a metric, after aggregation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricFilter {
    /// Metric name.
    pub(crate) field: String,
    /// How to compare.
    pub(crate) match_type: MetricMatch,
    /// Number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<f64>,
    /// [low, high] for BETWEEN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<Vec<f64>>,
    /// Negate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not: Option<bool>,
    /// Same group: alternatives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
}

/// The dimension filters of `run_report` in another tool. Its schema points there, since the whole is too long to be paid
/// for in each; so spellings are repaired and mistakes named here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Value>")]
pub(crate) struct Filters(Vec<DimensionFilter>);

impl Deref for Filters {
    type Target = Vec<DimensionFilter>;

    fn deref(&self) -> &Vec<DimensionFilter> {
        &self.0
    }
}

impl DerefMut for Filters {
    fn deref_mut(&mut self) -> &mut Vec<DimensionFilter> {
        &mut self.0
    }
}

impl Filters {
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

impl JsonSchema for Filters {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Filters".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "items": {"type": "object"}})
    }
}

impl TryFrom<Vec<Value>> for Filters {
    type Error = String;

    fn try_from(entries: Vec<Value>) -> Result<Self, String> {
        entries
            .into_iter()
            .enumerate()
            .map(|(place, entry)| read_filter(place + 1, entry))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Reads an entry of a list of filters. What it holds is not repeated.
fn read_filter(number: usize, entry: Value) -> Result<DimensionFilter, String> {
    const FIELDS: [&str; 7] = ["field", "match_type", "value", "values", "case_sensitive", "not", "group"];
    let refuse =
        |why: &str| Err(format!("filter {number} {why}; filters are written as dimension_filters of run_report"));
    let Value::Object(entry) = entry else { return refuse("is no object with field, match_type and value") };
    let mut known = serde_json::Map::new();
    for (name, mut value) in entry.into_iter().filter(|(_, value)| !value.is_null()) {
        let meant = FIELDS.iter().find(|field| field.replace('_', "") == name.replace('_', "").to_ascii_lowercase());
        let Some(meant) = meant else {
            return refuse(
                "has an unknown field; there are field, match_type, value, values, case_sensitive, not and group",
            );
        };
        if *meant == "match_type" {
            let Some(text) = value.as_str().map(|text| text.replace(['-', ' '], "_").to_ascii_uppercase()) else {
                return refuse("has a match_type that is no text");
            };
            if serde_json::from_value::<DimensionMatch>(json!(text)).is_err() {
                return refuse(
                    "needs one of EXACT, BEGINS_WITH, ENDS_WITH, CONTAINS, FULL_REGEXP, PARTIAL_REGEXP, IN_LIST, EMPTY as match_type",
                );
            }
            value = json!(text);
        }
        known.insert((*meant).to_owned(), value);
    }
    if !known.contains_key("field") || !known.contains_key("match_type") {
        return refuse("needs field and match_type");
    }
    match serde_json::from_value(Value::Object(known)) {
        Ok(filter) => Ok(filter),
        Err(_) => refuse(
            "has a value of the wrong type: field, value and group are texts, values is a list of texts, case_sensitive and not are true or false",
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum DimensionMatch {
    Exact,
    BeginsWith,
    EndsWith,
    Contains,
    FullRegexp,
    PartialRegexp,
    InList,
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum MetricMatch {
    Equal,
    LessThan,
    LessThanOrEqual,
    GreaterThan,
    GreaterThanOrEqual,
    Between,
}

/// What the two kinds of conditions have in common.
pub(crate) trait Condition {
    const KIND: Kind;
    fn field(&self) -> &str;
    fn set_field(&mut self, name: String);
    /// Brings values from the form of our tables into the one that Google compares with. Gives each before and after.
    fn respell(&mut self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Google's filter for it, without `not`.
    fn filter(&self) -> Result<Value>;
    fn not(&self) -> bool;
    fn group(&self) -> Option<&str>;
}

impl Condition for DimensionFilter {
    const KIND: Kind = Kind::Dimension;

    fn field(&self) -> &str {
        &self.field
    }

    fn set_field(&mut self, name: String) {
        self.field = name;
    }

    fn respell(&mut self) -> Vec<(String, String)> {
        let whole = matches!(self.match_type, DimensionMatch::Exact | DimensionMatch::InList);
        let part =
            matches!(self.match_type, DimensionMatch::BeginsWith | DimensionMatch::EndsWith | DimensionMatch::Contains);
        if !whole && !part {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for value in self.value.iter_mut().chain(self.values.iter_mut().flatten()) {
            let google = as_google_writes(&self.field, value, whole);
            if let Some(google) = google.filter(|google| google != value) {
                changed.push((std::mem::replace(value, google.clone()), google));
            }
        }
        changed
    }

    fn not(&self) -> bool {
        self.not.unwrap_or(false)
    }

    fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    fn filter(&self) -> Result<Value> {
        let refuse =
            |why: &str| Err(Error::invalid_arguments(format!("The dimension filter on {} {why}", shown(&self.field))));
        let case_sensitive = self.case_sensitive.unwrap_or(false);
        match (self.match_type, &self.value, self.values.as_deref().unwrap_or_default()) {
            (DimensionMatch::Empty, None, []) => Ok(json!({"fieldName": self.field, "emptyFilter": {}})),
            (DimensionMatch::Empty, ..) => refuse("is EMPTY and takes no value. Leave value and values out."),
            (DimensionMatch::InList, Some(value), []) => {
                Ok(in_list(&self.field, std::slice::from_ref(value), case_sensitive))
            }
            (DimensionMatch::InList, None, values) if values.len() > VALUES_MAX => {
                refuse("has more than 1,000 values. Use a regular expression, or several reports.")
            }
            (DimensionMatch::InList, None, values @ [_, ..]) => Ok(in_list(&self.field, values, case_sensitive)),
            (DimensionMatch::InList, ..) => refuse("is IN_LIST and needs values: a list of texts."),
            (match_type, Some(value), []) | (match_type, None, [value]) => {
                if matches!(match_type, DimensionMatch::FullRegexp | DimensionMatch::PartialRegexp) {
                    check_regex(&self.field, value)?;
                }
                let filter = json!({"matchType": match_type, "value": value, "caseSensitive": case_sensitive});
                Ok(json!({"fieldName": self.field, "stringFilter": filter}))
            }
            (_, Some(_), _) => refuse("has value and values. Give one of them; several texts go with IN_LIST."),
            (_, None, []) => refuse("needs a value: the text to compare with."),
            (_, None, _) => {
                refuse("has several values. Use match_type IN_LIST, or one entry each with the same group.")
            }
        }
    }
}

fn in_list(field: &str, values: &[String], case_sensitive: bool) -> Value {
    json!({"fieldName": field, "inListFilter": {"values": values, "caseSensitive": case_sensitive}})
}

/// A value of a dimension of time as Google has it: days and hours as digits alone, numbers of a clock or calendar with their leading
/// zeros. Google compares texts, so that any other form matches nothing. None for what has no such form.
fn as_google_writes(dimension: &str, value: &str, whole: bool) -> Option<String> {
    let value = value.trim();
    let digits = || -> String { value.chars().filter(char::is_ascii_digit).collect() };
    let is_made_of = |marks: &str| value.chars().all(|mark| mark.is_ascii_digit() || marks.contains(mark));
    let padded = |width: usize| (whole && is_made_of("") && !value.is_empty()).then(|| format!("{value:0>width$}"));
    match dimension {
        "date" | "firstSessionDate" | "yearMonth" | "yearWeek" | "isoYearIsoWeek" if is_made_of("-") => Some(digits()),
        "dateHour" if is_made_of("-T: ") => Some(digits().chars().take(10).collect()),
        "dateHourMinute" if is_made_of("-T: ") => Some(digits().chars().take(12).collect()),
        "hour" | "minute" | "minutesAgo" | "day" | "month" | "week" | "isoWeek" => padded(2),
        name if name.starts_with("nth") => padded(4),
        _ => None,
    }
}

pub(crate) fn check_regex(field: &str, pattern: &str) -> Result<()> {
    let field = shown(field);
    if pattern.len() > REGEX_MAX {
        return Err(Error::invalid_arguments(format!(
            "The regular expression on {field} is longer than {REGEX_MAX} characters."
        )));
    }
    acp_google::check_re2(pattern)
        .map_err(|why| Error::invalid_arguments(format!("The regular expression on {field} {why}")))
}

impl Condition for MetricFilter {
    const KIND: Kind = Kind::Metric;

    fn field(&self) -> &str {
        &self.field
    }

    fn set_field(&mut self, name: String) {
        self.field = name;
    }

    fn not(&self) -> bool {
        self.not.unwrap_or(false)
    }

    fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    fn filter(&self) -> Result<Value> {
        let refuse =
            |why: &str| Err(Error::invalid_arguments(format!("The metric filter on {} {why}", shown(&self.field))));
        match (self.match_type, self.value, self.values.as_deref().unwrap_or_default()) {
            (MetricMatch::Between, None, [low, high]) if low <= high => Ok(json!({
                "fieldName": self.field,
                "betweenFilter": {"fromValue": number(*low), "toValue": number(*high)},
            })),
            (MetricMatch::Between, ..) => refuse("is BETWEEN and needs values: [lowest, highest]."),
            (match_type, Some(value), []) | (match_type, None, &[value]) => {
                let filter = json!({"operation": match_type, "value": number(value)});
                Ok(json!({"fieldName": self.field, "numericFilter": filter}))
            }
            _ => refuse("needs exactly one value: a number. Two numbers go with BETWEEN."),
        }
    }
}

/// A number as the API takes it: whole ones as int64, which JSON carries as text.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        json!({"int64Value": (value as i64).to_string()})
    } else {
        json!({"doubleValue": value})
    }
}

/// The tree of a list: entries of one group are alternatives, groups and entries without one must all hold.
pub(crate) fn tree<C: Condition>(conditions: &[C]) -> Result<Option<Value>> {
    tree_of("filter", conditions)
}

/// As [`tree`], with the name that a leaf has in that kind of report.
pub(crate) fn tree_of<C: Condition>(leaf: &str, conditions: &[C]) -> Result<Option<Value>> {
    if conditions.len() > CONDITIONS_MAX {
        return Err(Error::invalid_arguments(format!(
            "There are {} filters of one kind; at most {CONDITIONS_MAX} are allowed. Use IN_LIST or a regular expression.",
            conditions.len()
        )));
    }
    let mut groups: Vec<(Option<&str>, Vec<Value>)> = Vec::new();
    for condition in conditions {
        let mut expression = json!({leaf: condition.filter()?});
        if condition.not() {
            expression = json!({"notExpression": expression});
        }
        let group = condition.group().filter(|group| !group.is_empty());
        match groups.iter_mut().find(|(known, _)| group.is_some() && *known == group) {
            Some((_, alternatives)) => alternatives.push(expression),
            None => groups.push((group, vec![expression])),
        }
    }
    let all: Vec<Value> =
        groups.into_iter().filter_map(|(_, alternatives)| group_of("orGroup", alternatives)).collect();
    Ok(group_of("andGroup", all))
}

/// Expressions as one, if there are any; `group` is `andGroup` or `orGroup`.
pub(crate) fn group_of(group: &str, mut expressions: Vec<Value>) -> Option<Value> {
    match expressions.len() {
        0 => None,
        1 => expressions.pop(),
        _ => Some(json!({group: {"expressions": expressions}})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimension(filter: Value) -> Result<Option<Value>> {
        tree(&[serde_json::from_value::<DimensionFilter>(filter).unwrap()])
    }

    fn metric(filter: Value) -> Result<Option<Value>> {
        tree(&[serde_json::from_value::<MetricFilter>(filter).unwrap()])
    }

    #[test]
    fn every_match_type_has_its_filter() {
        for name in ["EXACT", "BEGINS_WITH", "ENDS_WITH", "CONTAINS", "FULL_REGEXP", "PARTIAL_REGEXP"] {
            let tree = dimension(json!({"field": "f", "match_type": name, "value": "a.*"})).unwrap().unwrap();
            assert_eq!(
                tree["filter"]["stringFilter"],
                json!({"matchType": name, "value": "a.*", "caseSensitive": false})
            );
        }
        let list =
            dimension(json!({"field": "f", "match_type": "IN_LIST", "values": ["a", "b"], "case_sensitive": true}))
                .unwrap();
        assert_eq!(list.unwrap()["filter"]["inListFilter"], json!({"values": ["a", "b"], "caseSensitive": true}));
        let empty = dimension(json!({"field": "f", "match_type": "EMPTY", "not": true})).unwrap().unwrap();
        assert_eq!(empty["notExpression"]["filter"]["emptyFilter"], json!({}));
        for name in ["EQUAL", "LESS_THAN", "LESS_THAN_OR_EQUAL", "GREATER_THAN", "GREATER_THAN_OR_EQUAL"] {
            let tree = metric(json!({"field": "m", "match_type": name, "value": 3})).unwrap().unwrap();
            assert_eq!(tree["filter"]["numericFilter"], json!({"operation": name, "value": {"int64Value": "3"}}));
        }
        let between = metric(json!({"field": "m", "match_type": "BETWEEN", "values": [0.5, 2]})).unwrap().unwrap();
        assert_eq!(
            between["filter"]["betweenFilter"],
            json!({"fromValue": {"doubleValue": 0.5}, "toValue": {"int64Value": "2"}})
        );
    }

    #[test]
    fn values_of_time_are_written_as_google_writes_them() {
        for (dimension, value, whole, google) in [
            ("date", "2026-11-28", true, Some("20261128")),
            ("date", "20261128", true, Some("20261128")),
            ("date", "2026-11", false, Some("202611")),
            ("date", "(other)", true, None),
            ("yearMonth", "2026-11", true, Some("202611")),
            ("dateHour", "2026-11-28T10:00:00", true, Some("2026112810")),
            ("dateHourMinute", "2026-11-28 10:05", true, Some("202611281005")),
            ("hour", "9", true, Some("09")),
            ("hour", "9", false, None),
            ("month", "11", true, Some("11")),
            ("nthDay", "3", true, Some("0003")),
            ("pagePath", "2026-11-28", true, None),
            ("dayOfWeek", "3", true, None),
        ] {
            assert_eq!(as_google_writes(dimension, value, whole).as_deref(), google, "{dimension} {value}");
        }
    }

    #[test]
    fn groups_are_alternatives_and_all_groups_must_hold() {
        let filter = |field: &str, group: Option<&str>| -> DimensionFilter {
            serde_json::from_value(json!({"field": field, "match_type": "EXACT", "value": "x", "group": group}))
                .unwrap()
        };
        let tree = tree(&[filter("a", Some("g")), filter("b", None), filter("c", Some("g")), filter("d", None)])
            .unwrap()
            .unwrap();
        let and = tree["andGroup"]["expressions"].as_array().unwrap();
        assert_eq!(and.len(), 3);
        let or: Vec<&Value> = and[0]["orGroup"]["expressions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["filter"]["fieldName"])
            .collect();
        assert_eq!(or, [&json!("a"), &json!("c")]);
        assert_eq!(and[2]["filter"]["fieldName"], "d");
    }

    #[test]
    fn lists_without_a_schema_are_repaired_or_refused_by_name() {
        let read = |list: Value| serde_json::from_value::<Filters>(list).map_err(|error| error.to_string());
        let filters =
            read(json!([{"field": "country", "matchType": "exact", "value": "x", "caseSensitive": true, "not": null}]));
        let filter = filters.unwrap()[0].clone();
        assert_eq!((filter.match_type, filter.case_sensitive, filter.not), (DimensionMatch::Exact, Some(true), None));
        for (list, fix) in [
            (json!(["country"]), "is no object"),
            (json!([{"field": "country"}]), "needs field and match_type"),
            (json!([{"field": "country", "match_type": "LIKE"}]), "BEGINS_WITH"),
            (json!([{"field": "country", "match_type": 3}]), "no text"),
            (json!([{"field": "a", "match_type": "EXACT"}, {"dimension": "b"}]), "filter 2 has an unknown field"),
            (json!([{"field": "country", "match_type": "EXACT", "value": 3}]), "wrong type"),
        ] {
            let message = read(list.clone()).unwrap_err();
            assert!(message.contains(fix) && !message.contains(['"', '`']), "{list}: {message}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused_with_the_field() {
        for filter in [
            json!({"field": "f", "match_type": "EXACT"}),
            json!({"field": "f", "match_type": "EXACT", "values": ["a", "b"]}),
            json!({"field": "f", "match_type": "EXACT", "value": "a", "values": ["b"]}),
            json!({"field": "f", "match_type": "IN_LIST", "values": []}),
            json!({"field": "f", "match_type": "IN_LIST"}),
            json!({"field": "f", "match_type": "EMPTY", "value": "a"}),
            json!({"field": "f", "match_type": "FULL_REGEXP", "value": "("}),
            json!({"field": "f", "match_type": "PARTIAL_REGEXP", "value": "(?!x)y"}),
        ] {
            let error = dimension(filter.clone()).unwrap_err();
            assert!(error.message().contains("on f "), "{filter}: {error}");
        }
        assert!(
            dimension(json!({"field": "f", "match_type": "PARTIAL_REGEXP", "value": "(?!x)y"}))
                .unwrap_err()
                .message()
                .contains("look-around")
        );
        for filter in [
            json!({"field": "m", "match_type": "EQUAL"}),
            json!({"field": "m", "match_type": "EQUAL", "value": 1, "values": [2]}),
            json!({"field": "m", "match_type": "BETWEEN", "values": [2, 1]}),
            json!({"field": "m", "match_type": "BETWEEN", "value": 1}),
        ] {
            assert!(metric(filter.clone()).is_err(), "{filter}");
        }
    }
}
