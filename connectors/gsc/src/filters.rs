//! Filters: what a model writes, brought into the form in which Google finds something.
//!
//! A country of two letters, a page that is not percent-encoded or a pattern that is not RE2 gets an empty answer and no
//! error, so values are checked and mended before they are sent.

use acp_core::{Call, Error, Result};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::countries;

/// Characters of the longest expression that Google takes.
const EXPRESSION_MAX: usize = 4_096;
/// What addresses never hold as it is. What is encoded already stays as it is.
const NOT_IN_ADDRESSES: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}');

/// One condition on a dimension.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Not dates: see start_date.
    pub(crate) dimension: FilterDimension,
    /// Default equals. Regex: RE2, partial match.
    #[serde(default)]
    pub(crate) operator: Operator,
    /// page equals: whole URL. country: esp, usa.
    pub(crate) expression: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FilterDimension {
    Query,
    Page,
    Country,
    Device,
    SearchAppearance,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Operator {
    #[default]
    Equals,
    NotEquals,
    Contains,
    NotContains,
    IncludingRegex,
    ExcludingRegex,
}

impl Operator {
    fn is_regex(self) -> bool {
        matches!(self, Self::IncludingRegex | Self::ExcludingRegex)
    }

    fn is_whole(self) -> bool {
        matches!(self, Self::Equals | Self::NotEquals)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Equals => "equals",
            Self::NotEquals => "notEquals",
            Self::Contains => "contains",
            Self::NotContains => "notContains",
            Self::IncludingRegex => "includingRegex",
            Self::ExcludingRegex => "excludingRegex",
        }
    }
}

impl FilterDimension {
    fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Page => "page",
            Self::Country => "country",
            Self::Device => "device",
            Self::SearchAppearance => "searchAppearance",
        }
    }
}

impl Filter {
    /// Whether it leaves News Showcase alone.
    pub(crate) fn is_news_showcase(&self) -> bool {
        self.dimension == FilterDimension::SearchAppearance
            && self.operator == Operator::Equals
            && self.expression.trim().eq_ignore_ascii_case("NEWS_SHOWCASE")
    }

    /// Checks the expression and brings it into Google's form. What was changed is told as a warning.
    pub(crate) fn normalise(&mut self, call: &Call) -> Result<()> {
        match self.normal()? {
            Some(normal) => {
                let shown = |text: &str| format!("{:?}", acp_google::clean(text, 200));
                let dimension = self.dimension.name();
                call.warn(format!(
                    "The filter on {dimension} was sent as {}, for {}.",
                    shown(&normal),
                    shown(&self.expression)
                ));
                self.expression = normal;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The expression in Google's form, where that is another one.
    fn normal(&self) -> Result<Option<String>> {
        let refuse = |why: &str| {
            let (dimension, operator) = (self.dimension.name(), self.operator.name());
            Err(Error::invalid_arguments(format!("The filter {dimension} {operator} {why}")))
        };
        let expression = self.expression.as_str();
        if expression.trim().is_empty() {
            return refuse("has an empty expression. Say what to look for, or leave the filter out.");
        }
        if expression.chars().count() > EXPRESSION_MAX {
            return refuse("has an expression of more than 4,096 characters, which Google does not take. Shorten it.");
        }
        if self.operator.is_regex()
            && let Err(why) = acp_google::check_re2(expression)
        {
            return refuse(&why);
        }
        let normal = match self.dimension {
            FilterDimension::Query => return Ok(None),
            FilterDimension::Country if self.operator.is_whole() => match countries::code_of(expression) {
                Some(code) => code.to_owned(),
                None => {
                    return refuse(
                        "does not name a country. Use the three letters of ISO 3166, such as esp, usa or gbr; zzz is unknown.",
                    );
                }
            },
            // An escape such as \S means something else in lower case.
            FilterDimension::Country if expression.contains('\\') => return Ok(None),
            FilterDimension::Country => expression.to_lowercase(),
            FilterDimension::Device if self.operator.is_regex() => return Ok(None),
            FilterDimension::Device => match expression.trim().to_ascii_uppercase().as_str() {
                "DESKTOP" | "COMPUTER" => "DESKTOP".to_owned(),
                "MOBILE" | "PHONE" | "SMARTPHONE" => "MOBILE".to_owned(),
                "TABLET" => "TABLET".to_owned(),
                _ => return refuse("does not name a device. Use DESKTOP, MOBILE or TABLET."),
            },
            FilterDimension::SearchAppearance if self.operator != Operator::Equals => {
                return refuse(
                    "is not possible: of searchAppearance Google only takes equals. To leave one out, ask for all and for that \
                     one, and compare.",
                );
            }
            FilterDimension::SearchAppearance => {
                let name = expression.trim().to_ascii_uppercase().replace([' ', '-'], "_");
                if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                    return refuse(
                        "does not name a search appearance. The dimension searchAppearance alone lists them.",
                    );
                }
                name
            }
            FilterDimension::Page if self.operator.is_whole() => {
                let address = expression.trim();
                if !address.starts_with("https://") && !address.starts_with("http://") {
                    return refuse(
                        "needs the whole address, such as https://www.example.com/blog/. For a part of it use contains.",
                    );
                }
                utf8_percent_encode(address, NOT_IN_ADDRESSES).to_string()
            }
            // In a pattern braces and the like are syntax; only what can't be ASCII is encoded.
            FilterDimension::Page if self.operator.is_regex() => {
                if !expression.is_ascii() && expression.contains('[') {
                    return refuse(
                        "has letters beyond ASCII beside brackets. Addresses are percent-encoded, so write such letters encoded \
                         (é is %C3%A9) and not inside brackets.",
                    );
                }
                utf8_percent_encode(expression, CONTROLS).to_string()
            }
            FilterDimension::Page => utf8_percent_encode(expression, NOT_IN_ADDRESSES).to_string(),
        };
        Ok((normal != expression).then_some(normal))
    }

    fn to_google(&self) -> Value {
        json!({"dimension": self.dimension.name(), "operator": self.operator.name(), "expression": self.expression})
    }
}

/// The filters as a request has them: one group, since groups can only be combined with "and".
pub(crate) fn groups(filters: &[Filter]) -> Vec<Value> {
    if filters.is_empty() {
        return Vec::new();
    }
    let filters: Vec<Value> = filters.iter().map(Filter::to_google).collect();
    vec![json!({"groupType": "and", "filters": filters})]
}

/// A metric of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    Clicks,
    Impressions,
    Ctr,
    Position,
}

/// One condition on a finished row. The API has none, so it is applied after the extraction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricFilter {
    /// ctr: fraction.
    pub(crate) metric: Metric,
    /// Comparison.
    pub(crate) operator: Comparison,
    /// Number.
    pub(crate) value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Comparison {
    Equals,
    LessThan,
    LessThanOrEqual,
    GreaterThan,
    GreaterThanOrEqual,
}

impl MetricFilter {
    /// Whether a row with this value stays; one without a value does not.
    pub(crate) fn keeps(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| match self.operator {
            Comparison::Equals => value == self.value,
            Comparison::LessThan => value < self.value,
            Comparison::LessThanOrEqual => value <= self.value,
            Comparison::GreaterThan => value > self.value,
            Comparison::GreaterThanOrEqual => value >= self.value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(dimension: &str, operator: &str, expression: &str) -> Result<String> {
        let filter: Filter =
            serde_json::from_value(json!({"dimension": dimension, "operator": operator, "expression": expression}))
                .unwrap();
        Ok(filter.normal()?.unwrap_or_else(|| expression.to_owned()))
    }

    #[test]
    fn values_are_brought_into_the_form_that_google_finds() {
        for (dimension, operator, expression, sent) in [
            ("country", "equals", "ES", "esp"),
            ("country", "notEquals", "United States", "usa"),
            ("country", "equals", "esp", "esp"),
            ("country", "includingRegex", "esp|USA", "esp|usa"),
            ("country", "includingRegex", r"^\S+$", r"^\S+$"),
            ("device", "equals", "mobile", "MOBILE"),
            ("searchAppearance", "equals", "rich result", "RICH_RESULT"),
            ("page", "equals", "https://x.test/\u{1f337}", "https://x.test/%F0%9F%8C%B7"),
            ("page", "contains", "/münchen rathaus/", "/m%C3%BCnchen%20rathaus/"),
            ("page", "contains", "/aqua%2C-magenta", "/aqua%2C-magenta"),
            ("page", "includingRegex", "/é/|/a{2} b", "/%C3%A9/|/a{2} b"),
            ("query", "contains", "Zürich ES", "Zürich ES"),
        ] {
            assert_eq!(normal(dimension, operator, expression).unwrap(), sent, "{dimension} {operator} {expression}");
        }
    }

    #[test]
    fn what_would_find_nothing_is_refused_with_the_fix() {
        for (dimension, operator, expression, fix) in [
            ("country", "equals", "Atlantis", "esp"),
            ("device", "equals", "watch", "TABLET"),
            ("device", "contains", "mob", "MOBILE"),
            ("page", "equals", "/blog/", "contains"),
            ("page", "includingRegex", "[éè]", "%C3%A9"),
            ("query", "includingRegex", "(?!brand)", "look-around"),
            ("query", "excludingRegex", "(", "RE2"),
            ("query", "equals", " ", "empty"),
            ("searchAppearance", "contains", "RICH", "equals"),
            ("searchAppearance", "notEquals", "VIDEO", "compare"),
        ] {
            let error = normal(dimension, operator, expression).unwrap_err();
            assert!(error.message().contains(fix), "{dimension} {operator} {expression}: {error}");
        }
        assert!(normal("query", "contains", &"a".repeat(EXPRESSION_MAX + 1)).is_err());
        assert!(normal("query", "contains", &"é".repeat(EXPRESSION_MAX)).is_ok());
    }

    #[test]
    fn rows_without_a_value_do_not_pass_a_metric_filter() {
        let filter = |operator: &str| -> MetricFilter {
            serde_json::from_value(json!({"metric": "position", "operator": operator, "value": 3})).unwrap()
        };
        for (operator, kept) in [
            ("equals", [false, true, false]),
            ("lessThan", [true, false, false]),
            ("lessThanOrEqual", [true, true, false]),
            ("greaterThan", [false, false, true]),
            ("greaterThanOrEqual", [false, true, true]),
        ] {
            assert_eq!([2.9, 3.0, 3.1].map(|value| filter(operator).keeps(Some(value))), kept, "{operator}");
            assert!(!filter(operator).keeps(None), "{operator}");
        }
    }
}
