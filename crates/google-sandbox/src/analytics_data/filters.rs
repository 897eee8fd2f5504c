//! Applies filter tests to text and to numbers.

use super::request::{Comparison, Filter, Test};
use crate::events::NOT_SET;

impl Filter {
    /// Every field the tree mentions.
    pub(crate) fn fields(&self) -> Vec<&str> {
        match self {
            Self::And(all) | Self::Or(all) => all.iter().flat_map(Self::fields).collect(),
            Self::Not(inner) => inner.fields(),
            Self::Leaf { field, .. } => vec![field],
        }
    }

    /// The truth of the tree, given the truth of a leaf.
    pub(crate) fn holds(&self, leaf: &mut dyn FnMut(&str, &Test) -> bool) -> bool {
        match self {
            Self::And(all) => all.iter().all(|filter| filter.holds(leaf)),
            Self::Or(any) => any.iter().any(|filter| filter.holds(leaf)),
            Self::Not(inner) => !inner.holds(leaf),
            Self::Leaf { field, test } => leaf(field, test),
        }
    }
}

impl Test {
    /// Tests a dimension's value.
    pub(crate) fn matches_text(&self, value: &str) -> bool {
        match self {
            Self::Exact(wanted, sensitive) => fold(value, *sensitive) == fold(wanted, *sensitive),
            Self::BeginsWith(start, sensitive) => fold(value, *sensitive).starts_with(&fold(start, *sensitive)),
            Self::EndsWith(end, sensitive) => fold(value, *sensitive).ends_with(&fold(end, *sensitive)),
            Self::Contains(part, sensitive) => fold(value, *sensitive).contains(&fold(part, *sensitive)),
            Self::Matches(regex) => regex.is_match(value),
            Self::InList(list, sensitive) => {
                let value = fold(value, *sensitive);
                list.iter().any(|wanted| fold(wanted, *sensitive) == value)
            }
            Self::Empty => value.is_empty() || value == NOT_SET,
            Self::Number(..) | Self::Between(..) => value.parse().is_ok_and(|number: f64| self.matches_number(number)),
        }
    }

    /// Tests a metric's value.
    pub(crate) fn matches_number(&self, value: f64) -> bool {
        match self {
            Self::Number(comparison, wanted) => match comparison {
                Comparison::Equal => value == *wanted,
                Comparison::Less => value < *wanted,
                Comparison::LessOrEqual => value <= *wanted,
                Comparison::Greater => value > *wanted,
                Comparison::GreaterOrEqual => value >= *wanted,
            },
            Self::Between(from, to) => (*from..=*to).contains(&value),
            Self::Empty => false,
            _ => self.matches_text(&super::number::format(value)),
        }
    }
}

fn fold(text: &str, sensitive: bool) -> String {
    if sensitive { text.to_owned() } else { text.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 8] = ["", "(not set)", "Ab", "ab", "aB c", "b", "É", "10"];

    fn tests() -> Vec<Test> {
        let mut tests = vec![Test::Empty, Test::Between(1.0, 10.0)];
        for word in WORDS {
            for sensitive in [false, true] {
                tests.push(Test::Exact(word.into(), sensitive));
                tests.push(Test::BeginsWith(word.into(), sensitive));
                tests.push(Test::EndsWith(word.into(), sensitive));
                tests.push(Test::Contains(word.into(), sensitive));
                tests.push(Test::InList(vec![word.into()], sensitive));
            }
        }
        tests
    }

    /// De Morgan, double negation, and the order of strength, for every pair of tests and every word.
    #[test]
    fn the_tree_is_boolean_algebra() {
        let leaf = |test: &Test| Filter::Leaf { field: "x".into(), test: test.clone() };
        let not = |filter: Filter| Filter::Not(Box::new(filter));
        for word in WORDS {
            let mut eval = |_: &str, test: &Test| test.matches_text(word);
            for a in &tests() {
                for b in &tests() {
                    let neither = not(Filter::Or(vec![leaf(a), leaf(b)]));
                    let both_not = Filter::And(vec![not(leaf(a)), not(leaf(b))]);
                    assert_eq!(neither.holds(&mut eval), both_not.holds(&mut eval));
                }
                assert_eq!(not(not(leaf(a))).holds(&mut eval), a.matches_text(word));
            }
        }
    }

    #[test]
    fn case_matters_only_on_request() {
        assert!(Test::Exact("AB".into(), false).matches_text("ab"));
        assert!(!Test::Exact("AB".into(), true).matches_text("ab"));
        assert!(Test::Empty.matches_text("(not set)"));
        assert!(!Test::Empty.matches_text("(none)"));
        assert!(Test::Between(10.0, 20.0).matches_number(20.0));
    }
}
