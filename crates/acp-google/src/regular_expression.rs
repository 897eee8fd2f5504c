//! Regular expressions as Google's reporting APIs take them.

use crate::redact::clean;

/// Checks a pattern for RE2 syntax, which the `regex` crate shares. Some APIs answer a pattern they can't read with an
/// empty table, so it must not be sent. The error is one sentence without a subject: what is wrong and what to do instead.
pub fn check_re2(pattern: &str) -> Result<(), String> {
    // RE2 has these and the `regex` crate does not; Google has the last word on them.
    if pattern.contains("\\C") {
        return Ok(());
    }
    let reason = match regex::Regex::new(&without_quotations(pattern)) {
        Ok(_) => return Ok(()),
        Err(regex::Error::Syntax(text)) => {
            text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
        Err(_) => "it is too complex".to_owned(),
    };
    Err(format!(
        "is not valid RE2: {}. RE2 has no look-around and no back-references; use several filters, or a negated one, instead.",
        clean(reason.trim_end_matches('.'), 200)
    ))
}

/// Patterns that are searched here as Google searches them: anywhere in a text; case does not matter.
#[derive(Clone, Debug)]
pub struct Patterns(regex::RegexSet);

impl Patterns {
    /// Compiles patterns that [`check_re2`] let through. The error is a sentence without a subject.
    pub fn new(patterns: &[&str]) -> Result<Self, String> {
        let plain = patterns.iter().map(|pattern| without_quotations(pattern));
        let set = regex::RegexSetBuilder::new(plain).case_insensitive(true).build();
        let too_much = |_| "they are too complex together, or use \\C. Write fewer or simpler ones.".to_owned();
        set.map(Self).map_err(too_much)
    }

    /// The places of the patterns that match, in their order.
    pub fn matching(&self, text: &str) -> impl Iterator<Item = usize> + use<> {
        self.0.matches(text).into_iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `\Q…\E` means the text between as it is, also in a pattern whose end is missing.
fn without_quotations(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, quoted)) = split_quotation(rest) {
        plain.push_str(before);
        let (literal, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        plain.push_str(&regex::escape(literal));
        rest = after;
    }
    plain + rest
}

/// Splits at the first `\Q` whose backslash is not escaped itself.
fn split_quotation(pattern: &str) -> Option<(&str, &str)> {
    let bytes = pattern.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        match (bytes[at], bytes[at + 1]) {
            (b'\\', b'Q') => return Some((&pattern[..at], &pattern[at + 2..])),
            (b'\\', _) => at += 2,
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_re2_reads_is_accepted() {
        for pattern in ["a|b", "(?i)^/blog/", r"\d+\.html$", r"\Qa(b\E+", r"\Qa(b", r"\\Q", r"\C", "é+", ""] {
            assert_eq!(check_re2(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn patterns_match_a_part_in_any_case() {
        let patterns = Patterns::new(&["nord|wind", r"^\Qa.b\E$", "W"]).unwrap();
        for (text, places) in [("Nordwind", vec![0, 2]), ("a.b", vec![1]), ("axb", vec![]), ("xa.b", vec![])] {
            assert_eq!(patterns.matching(text).collect::<Vec<_>>(), places, "{text}");
        }
        assert!(Patterns::new(&["(?:a{1000}){1000}"]).unwrap_err().contains("simpler"));
    }

    #[test]
    fn what_re2_does_not_read_is_refused_with_the_reason() {
        for pattern in ["(?!x)y", "(?<=a)b", r"(a)\1", "(", "[a", "*a", r"\\Q(", "a{2,1}"] {
            let error = check_re2(pattern).unwrap_err();
            assert!(error.starts_with("is not valid RE2: ") && error.ends_with("instead."), "{pattern}: {error}");
        }
        assert!(check_re2("(?!x)y").unwrap_err().contains("look-around"), "the reason is named");
    }
}
