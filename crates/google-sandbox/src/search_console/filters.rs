//! Filters: how Google compares, and where it silently finds nothing.

use regex::Regex;

use super::request::Dimension;

/// How a value is compared with the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equals,
    NotEquals,
    Contains,
    NotContains,
    IncludingRegex,
    ExcludingRegex,
}

/// One filter of a request. All of them must hold: groups can't say "or".
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) dimension: Dimension,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Equals(String, bool),
    Contains(String, bool),
    Matches(Regex, bool),
    /// What Google makes of an expression that isn't RE2: an empty answer, no error.
    Nothing,
}

impl Filter {
    /// A filter; a regular expression that doesn't compile makes one that nothing passes.
    pub(crate) fn new(dimension: Dimension, operator: Operator, expression: String) -> Self {
        // Google returns the excluded rows when search appearance is negated.
        let negates = dimension != Dimension::Appearance;
        let test = match operator {
            Operator::Equals => Test::Equals(expression, true),
            Operator::NotEquals => Test::Equals(expression, !negates),
            Operator::Contains => Test::Contains(expression.to_lowercase(), true),
            // A part of an appearance can't be asked for, so this compares whole values too.
            Operator::NotContains if dimension == Dimension::Appearance => Test::Equals(expression, true),
            Operator::NotContains => Test::Contains(expression.to_lowercase(), false),
            Operator::IncludingRegex => regex(&expression, true),
            Operator::ExcludingRegex => regex(&expression, false),
        };
        Self { dimension, test }
    }

    /// Whether a value passes. Equality minds case in queries and pages, not in countries and devices.
    pub(crate) fn passes(&self, value: &str) -> bool {
        match &self.test {
            Test::Equals(wanted, keep) => {
                let minds_case = !matches!(self.dimension, Dimension::Country | Dimension::Device);
                let same = if minds_case { value == wanted } else { value.eq_ignore_ascii_case(wanted) };
                same == *keep
            }
            Test::Contains(part, keep) => value.to_lowercase().contains(part) == *keep,
            Test::Matches(regex, keep) => regex.is_match(value) == *keep,
            Test::Nothing => false,
        }
    }

    /// Whether this filter asks for the News Showcase and nothing else.
    pub(crate) fn is_news_showcase(&self) -> bool {
        self.dimension == Dimension::Appearance
            && matches!(&self.test, Test::Equals(wanted, true) if wanted == "NEWS_SHOWCASE")
    }
}

/// RE2's syntax is that of the `regex` crate but for a few escapes; both refuse look-around and back-references.
fn regex(expression: &str, keep: bool) -> Test {
    Regex::new(expression).map_or(Test::Nothing, |regex| Test::Matches(regex, keep))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(dimension: Dimension, operator: Operator, expression: &str, value: &str) -> bool {
        Filter::new(dimension, operator, expression.to_owned()).passes(value)
    }

    #[test]
    fn each_operator_and_its_opposite_split_the_values() {
        let pairs = [
            (Operator::Equals, Operator::NotEquals),
            (Operator::Contains, Operator::NotContains),
            (Operator::IncludingRegex, Operator::ExcludingRegex),
        ];
        for (yes, no) in pairs {
            for value in ["oak chair", "Oak", "chair", "", "stuhl"] {
                for expression in ["oak", "chair", "^oak", ""] {
                    let both = [yes, no].map(|operator| passes(Dimension::Query, operator, expression, value));
                    assert_ne!(both[0], both[1], "{expression} in {value}");
                }
            }
        }
    }

    #[test]
    fn peculiarities() {
        for bad in ["(", "a(?=b)", r"(a)\1"] {
            assert!(!passes(Dimension::Query, Operator::IncludingRegex, bad, "ab"));
            assert!(!passes(Dimension::Query, Operator::ExcludingRegex, bad, "ab"));
        }
        assert!(passes(Dimension::Query, Operator::Contains, "OAK", "an oak chair"));
        assert!(!passes(Dimension::Query, Operator::Equals, "Oak", "oak"));
        assert!(passes(Dimension::Country, Operator::Equals, "DEU", "deu"));
        assert!(passes(Dimension::Appearance, Operator::NotEquals, "VIDEO", "VIDEO"), "Google's bug");
        assert!(!passes(Dimension::Appearance, Operator::NotContains, "VIDEO", "PRODUCT_SNIPPETS"));
    }
}
