//! The words of a GoogleSQL text, as far as it takes to see where literals, comments and statements end.
//!
//! This is no parser. Where two readers could disagree about where something ends, the text is refused, since what one
//! reader takes for a string may be a statement for the other. Rules: BigQuery's "Lexical structure and syntax" page.

use std::borrow::Cow;

use jiff::civil::Date;

/// Levels of brackets. No query that anybody reads has as many.
const MAX_DEPTH: usize = 250;

/// Words with which statements begin that do more than read.
const VERBS: [&str; 14] = [
    "ALTER", "BEGIN", "CALL", "CREATE", "DELETE", "DROP", "EXECUTE", "EXPORT", "GRANT", "INSERT", "LOAD", "MERGE",
    "TRUNCATE", "UPDATE",
];

/// What a piece of the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in backticks.
    Quoted,
    /// A string or bytes literal, of any form.
    Text,
    /// A number.
    Number,
    /// `@name`, `@@name` or `?`.
    Parameter,
    /// `|>`.
    Pipe,
    /// Any other character.
    Symbol,
}

/// A piece of the text, from one byte to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: usize,
    /// Brackets that are open around it; an opening bracket is outside itself.
    pub(crate) depth: usize,
}

impl<'a> Token<'a> {
    /// Whether it is this keyword, written in capitals here.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(keyword)
    }

    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// What stands between the quotes of a literal or a name in backticks, escapes as they are. Words as they are.
    pub(crate) fn content(&self) -> &'a str {
        match self.kind {
            Kind::Quoted => &self.text[1..self.text.len() - 1],
            Kind::Text => {
                let quoted = self.text.trim_start_matches(|mark: char| mark.is_ascii_alphabetic());
                let marks = if quoted.starts_with("'''") || quoted.starts_with("\"\"\"") { 3 } else { 1 };
                &quoted[marks..quoted.len() - marks]
            }
            _ => self.text,
        }
    }
}

/// Why a text can't be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) what: &'static str,
    pub(crate) at: usize,
}

/// Takes a text apart. Comments and spaces are left out.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Unreadable> {
    let mut tokens = Vec::new();
    let mut brackets = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    // Where the last literal ended: one that follows at once may be its continuation for another reader.
    let mut literal_end = usize::MAX;
    while at < bytes.len() {
        let unreadable = |what| Err(Unreadable { what, at });
        let rest = &text[at..];
        let end = match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'#' => {
                at = line_comment(text, at)?;
                continue;
            }
            b'-' if rest.starts_with("--") => {
                at = line_comment(text, at)?;
                continue;
            }
            b'/' if rest.starts_with("/*") => match rest[2..].find("*/") {
                Some(length) => {
                    at += length + 4;
                    continue;
                }
                None => return unreadable("a comment does not end"),
            },
            b'\'' | b'"' | b'`' if literal_end == at => {
                return unreadable(
                    "a quote follows another literal without a space; write quotes inside a text as \\'",
                );
            }
            b'\'' | b'"' => literal(text, at, false)?,
            b'`' => name_in_backticks(text, at)?,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let word = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
                match (rest[..word].to_ascii_lowercase().as_str(), rest.as_bytes().get(word)) {
                    (prefix @ ("r" | "b" | "rb" | "br"), Some(b'\'' | b'"')) => {
                        literal(text, at + word, prefix.contains('r'))?
                    }
                    (_, Some(b'\'' | b'"' | b'`')) => return unreadable("a quote follows a word without a space"),
                    _ => at + word,
                }
            }
            b'0'..=b'9' => at + number(rest),
            b'.' if rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) && !follows_name(&tokens, at) => {
                at + number(rest)
            }
            b'@' => {
                let marks = rest.bytes().take_while(|byte| *byte == b'@').count();
                let name =
                    rest[marks..].bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
                if marks > 2 || (name == 0 && rest.as_bytes().get(marks) != Some(&b'`')) {
                    return unreadable("an @ without the name of a parameter");
                }
                at + marks + name
            }
            b'|' if rest.starts_with("|>") => at + 2,
            b'{' | b'}' => return unreadable("there is a brace outside a text"),
            mark if mark.is_ascii_graphic() && !matches!(mark, b'$' | b'\\') => at + 1,
            mark if mark.is_ascii() => return unreadable("there is a character that has no meaning in SQL"),
            _ => {
                return unreadable("there is a character outside ASCII that is not in quotes, such as a special space");
            }
        };
        let kind = match bytes[at] {
            b'`' => Kind::Quoted,
            b'\'' | b'"' => Kind::Text,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' if matches!(bytes[end - 1], b'\'' | b'"') => Kind::Text,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Kind::Word,
            b'0'..=b'9' => Kind::Number,
            b'.' if end > at + 1 => Kind::Number,
            b'@' | b'?' => Kind::Parameter,
            b'|' if end == at + 2 => Kind::Pipe,
            _ => Kind::Symbol,
        };
        if matches!(kind, Kind::Text | Kind::Quoted) {
            literal_end = end;
        }
        let token = Token { kind, text: &text[at..end], start: at, depth: brackets.len() };
        match (kind, token.text) {
            (Kind::Symbol, "(" | "[") if brackets.len() == MAX_DEPTH => {
                return unreadable("brackets are nested too deeply");
            }
            (Kind::Symbol, "(" | "[") => {
                tokens.push(token);
                brackets.push(token.text);
            }
            (Kind::Symbol, ")" | "]") => {
                let opened = if token.text == ")" { "(" } else { "[" };
                if brackets.pop() != Some(opened) {
                    return unreadable("a bracket closes that was not opened");
                }
                tokens.push(Token { depth: brackets.len(), ..token });
            }
            _ => tokens.push(token),
        }
        at = end;
    }
    match brackets.is_empty() {
        true => Ok(tokens),
        false => Err(Unreadable { what: "a bracket is not closed", at: text.len() }),
    }
}

/// Whether what stands right before is a name, so that a dot leads to a field: `t.1a` is no number.
fn follows_name(tokens: &[Token<'_>], at: usize) -> bool {
    tokens.last().is_some_and(|before| {
        before.end() == at
            && (matches!(before.kind, Kind::Word | Kind::Quoted | Kind::Number) || matches!(before.text, ")" | "]"))
    })
}

/// Digits, and what may belong to a number: `0xFF`, `1e-5`, `1.5`, and names like `1st_day` after a dash of a project.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let sign = matches!(bytes[end], b'+' | b'-') && end > 0 && matches!(bytes[end - 1], b'e' | b'E');
        if bytes[end].is_ascii_alphanumeric() || matches!(bytes[end], b'_' | b'.') || sign && !rest.starts_with("0x") {
            end += 1;
        } else {
            break;
        }
    }
    end
}

fn line_comment(text: &str, at: usize) -> Result<usize, Unreadable> {
    let rest = &text[at..];
    let length = rest.find(['\r', '\n']).unwrap_or(rest.len());
    if hides_statement(&rest[..length]) {
        return Err(Unreadable { what: "a comment on a line holds what would be a second statement", at });
    }
    // For some readers a comment ends at these as well.
    match rest[..length].find(['\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}']) {
        Some(mark) => Err(Unreadable { what: "a comment holds an unusual line break", at: at + mark }),
        None => Ok(at + length),
    }
}

/// Whether a comment would be a statement that writes for a reader who ends it too early.
fn hides_statement(comment: &str) -> bool {
    comment.split(';').skip(1).any(|after| {
        let word = after.split(|mark: char| !mark.is_ascii_alphabetic()).find(|word| !word.is_empty());
        word.is_some_and(|word| VERBS.iter().any(|verb| word.eq_ignore_ascii_case(verb)))
    })
}

fn literal(text: &str, at: usize, raw: bool) -> Result<usize, Unreadable> {
    let bytes = text.as_bytes();
    let quote = bytes[at];
    let triple = bytes[at..].starts_with(&[quote; 3]);
    let (mut end, marks) = if triple { (at + 3, 3) } else { (at + 1, 1) };
    while end < bytes.len() {
        match bytes[end] {
            b'\\' if raw && matches!(bytes.get(end + 1), Some(b'\'' | b'"' | b'`')) => {
                return Err(Unreadable {
                    what: "a raw string holds a backslash before a quote; write it without r",
                    at,
                });
            }
            b'\\' => end += 2,
            b'\r' | b'\n' if !triple => {
                return Err(Unreadable { what: "a text does not end on its line", at });
            }
            byte if byte == quote && bytes[end..].starts_with(&bytes[at..at + marks]) => return Ok(end + marks),
            _ => end += 1,
        }
    }
    Err(Unreadable { what: "a text does not end", at })
}

fn name_in_backticks(text: &str, at: usize) -> Result<usize, Unreadable> {
    let bytes = text.as_bytes();
    let mut end = at + 1;
    while end < bytes.len() {
        match bytes[end] {
            b'`' if end > at + 1 => return Ok(end + 1),
            b'`' | b'\r' | b'\n' => break,
            b'\\' => return Err(Unreadable { what: "a name in backticks holds a backslash", at }),
            _ => end += 1,
        }
    }
    Err(Unreadable { what: "a name in backticks is empty or does not end on its line", at })
}

/// Line and column of a place, from 1 on; columns count characters.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

/// The days that a text names, in order: texts that are a day, as `2026-09-01` or as `20260901`, the form of shards.
pub(crate) fn days(tokens: &[Token<'_>]) -> Vec<Date> {
    let mut days: Vec<Date> =
        tokens.iter().filter(|token| token.kind == Kind::Text).filter_map(|token| day(token.content())).collect();
    days.sort_unstable();
    days.dedup();
    days
}

/// A day, with or without dashes.
pub(crate) fn day(text: &str) -> Option<Date> {
    let text = match text.len() {
        8 if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Cow::Owned(format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]))
        }
        10 => Cow::Borrowed(text),
        _ => return None,
    };
    text.parse().ok()
}

/// A filter on the suffix of shards with two days written out, so that other windows can be tried.
#[derive(Clone, Debug)]
pub(crate) struct SuffixRange<'a> {
    before: &'a str,
    between: &'a str,
    after: &'a str,
    pub(crate) last: Date,
}

impl<'a> SuffixRange<'a> {
    /// The filter of a text, if it has exactly one: `_TABLE_SUFFIX BETWEEN '20260901' AND '20260930'`.
    pub(crate) fn of(text: &'a str, tokens: &[Token<'_>]) -> Option<Self> {
        let mut found = tokens.windows(5).filter(|window| {
            window[0].is("_TABLE_SUFFIX")
                && window[1].is("BETWEEN")
                && window[3].is("AND")
                && [window[2], window[4]].iter().all(|end| end.kind == Kind::Text && day(end.content()).is_some())
        });
        let (window, None) = (found.next()?, found.next()) else { return None };
        Some(Self {
            before: &text[..window[2].start],
            between: &text[window[2].end()..window[4].start],
            after: &text[window[4].end()..],
            last: day(window[4].content())?,
        })
    }

    /// The same text for a number of days up to the last one.
    pub(crate) fn with_days(&self, days: i64) -> Option<String> {
        let first = self.last.checked_sub(jiff::Span::new().try_days(days - 1).ok()?).ok()?;
        let (first, last) = (first.strftime("'%Y%m%d'"), self.last.strftime("'%Y%m%d'"));
        Some(format!("{}{first}{}{last}{}", self.before, self.between, self.after))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        tokens(text).unwrap().into_iter().map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn pieces_are_told_apart() {
        use Kind::*;
        assert_eq!(
            kinds("SELECT r'\\d+', \"\"\"a\n;\"b\"\"\" -- x ;\n, `p-1.d.t*`.f /* ; */ |> @p + 1.5e-3 # ;"),
            [
                (Word, "SELECT"),
                (Text, "r'\\d+'"),
                (Symbol, ","),
                (Text, "\"\"\"a\n;\"b\"\"\""),
                (Symbol, ","),
                (Quoted, "`p-1.d.t*`"),
                (Symbol, "."),
                (Word, "f"),
                (Pipe, "|>"),
                (Parameter, "@p"),
                (Symbol, "+"),
                (Number, "1.5e-3"),
            ]
        );
    }

    #[test]
    fn contents_are_without_quotes() {
        let contents: Vec<&str> = tokens("'a' b\"c\" r'''d''' `e` f").unwrap().iter().map(Token::content).collect();
        assert_eq!(contents, ["a", "c", "d", "e", "f"]);
    }

    #[test]
    fn what_readers_could_end_differently_is_refused() {
        for (text, part) in [
            ("'a", "does not end"),
            ("'a\n'", "on its line"),
            ("'a\\'", "does not end"),
            ("'a''b'", "follows another literal"),
            ("'a'\"b\"", "follows another literal"),
            ("`a``b`", "follows another literal"),
            ("E'a'", "follows a word"),
            ("r'a\\' ", "backslash before a quote"),
            ("rb\"a\\\" ", "backslash before a quote"),
            ("`a\\`", "backslash"),
            ("``", "empty"),
            ("/* /* */ */ '", "does not end"),
            ("/*", "comment does not end"),
            ("-- a\u{2028}b", "unusual line break"),
            ("# a\u{b}b", "unusual line break"),
            ("1 -- a; drop table t", "second statement"),
            ("a\u{a0}b", "outside ASCII"),
            ("\u{feff}a", "outside ASCII"),
            ("$a$", "no meaning"),
            ("a\\b", "no meaning"),
            ("a\0", "no meaning"),
            ("{x}", "brace"),
            ("(]", "not opened"),
            ("a)", "not opened"),
            ("(", "not closed"),
            ("@", "without the name"),
        ] {
            let unreadable = tokens(text).unwrap_err();
            assert!(unreadable.what.contains(part), "{text:?}: {}", unreadable.what);
        }
        let deep = format!("{}1{}", "(".repeat(MAX_DEPTH + 1), ")".repeat(MAX_DEPTH + 1));
        assert!(tokens(&deep).is_err() && tokens(&deep[1..deep.len() - 1]).is_ok());
    }

    #[test]
    fn days_and_ranges_are_found() {
        let text = "SELECT '2026-09-31', '20260901' FROM `p.d.e_*` WHERE _table_suffix BETWEEN '20260901' AND '20260930' AND x='2026-08-01'";
        let tokens = tokens(text).unwrap();
        assert_eq!(
            days(&tokens).iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["2026-08-01", "2026-09-01", "2026-09-30"]
        );
        let range = SuffixRange::of(text, &tokens).unwrap();
        assert!(range.with_days(7).unwrap().contains("BETWEEN '20260924' AND '20260930' AND x="));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-'\"`\\\\ ;#/*\n\ra-zA-Z0-9@|>.()\u{e9}]{0,60}") {
            if let Ok(tokens) = tokens(&text) {
                let mut end = 0;
                for token in tokens {
                    prop_assert!(token.start >= end);
                    prop_assert_eq!(&text[token.start..token.end()], token.text);
                    prop_assert!(token.content().len() <= token.text.len());
                    end = token.end();
                }
            }
        }
    }
}
