//! What a text may be before it is sent: one statement that reads.
//!
//! The dry run's own `statementType` decides (9.2, 10.4); this check comes before it and does not need the network, so
//! that a text which hides a second statement never leaves this machine.

use acp_core::{Error, Result};
use acp_protocol::error::ErrorCode;

use crate::sql::{Kind, Token, Unreadable, place, tokens};

/// Characters of a query that BigQuery takes, unresolved.
const MAX_CHARACTERS: usize = 1_024 * 1_024;

/// Pipe operators that only read.
const PIPES: [&str; 24] = [
    "AGGREGATE",
    "AS",
    "CROSS",
    "DISTINCT",
    "DROP",
    "EXCEPT",
    "EXTEND",
    "FULL",
    "INNER",
    "INTERSECT",
    "JOIN",
    "LEFT",
    "LIMIT",
    "ORDER",
    "PIVOT",
    "RENAME",
    "RIGHT",
    "SELECT",
    "SET",
    "TABLESAMPLE",
    "UNION",
    "UNPIVOT",
    "WHERE",
    "WINDOW",
];

/// Words between a verb and what it works on.
const FILLERS: [&str; 8] = ["OR", "REPLACE", "TEMP", "TEMPORARY", "IF", "NOT", "EXISTS", "UNIQUE"];

/// Reads a text and checks that it is one statement that reads. The words of it come back.
pub(crate) fn check(query: &str) -> Result<Vec<Token<'_>>> {
    if query.len() > MAX_CHARACTERS {
        return Err(Error::invalid_arguments(format!(
            "The query has {} bytes and BigQuery takes {MAX_CHARACTERS}. Shorten it, for example by passing long lists as params.",
            query.len()
        )));
    }
    if let Some(name) = ["{{start_date}}", "{{end_date}}"].iter().find(|name| query.contains(*name)) {
        return Err(Error::invalid_arguments(format!(
            "The query still has {name}, which this client does not fill in. Write the day itself, such as '2026-09-01' or '20260901'."
        )));
    }
    let tokens = tokens(query).map_err(|unreadable| refused(query, &unreadable))?;
    let Some(first) = tokens.iter().find(|token| !token.is_symbol("(")) else {
        return Err(Error::invalid_arguments("The query is empty. Write one SELECT statement."));
    };
    if !["SELECT", "WITH", "FROM"].iter().any(|keyword| first.is(keyword)) {
        return Err(read_only(&statement(&tokens)));
    }
    if let Some(semicolon) = tokens.iter().position(|token| token.is_symbol(";"))
        && semicolon + 1 < tokens.len()
    {
        return Err(read_only("a script of several statements"));
    }
    for (index, token) in tokens.iter().enumerate() {
        let after_dot = index > 0 && tokens[index - 1].is_symbol(".");
        if token.is("INTO") && !after_dot {
            return Err(read_only("SELECT INTO or INSERT INTO"));
        }
        if token.kind == Kind::Pipe {
            let operator = tokens.get(index + 1).map_or("", |token| token.text);
            if !PIPES.iter().any(|known| operator.eq_ignore_ascii_case(known)) {
                return Err(read_only(&format!("a pipe with {}", shown(operator))));
            }
        }
        if token.is("WITH") && begins_query(&tokens, index) {
            check_with(&tokens, index)?;
        }
    }
    Ok(tokens)
}

/// Whether a query begins here: `WITH` is also a word of other clauses, such as `WITH OFFSET`.
fn begins_query(tokens: &[Token<'_>], index: usize) -> bool {
    index == 0 || tokens[index - 1].is_symbol("(") && !tokens.get(index + 1).is_some_and(|next| next.is_symbol("("))
}

/// After the named queries of a `WITH` comes a query, not a statement that writes.
fn check_with(tokens: &[Token<'_>], with: usize) -> Result<()> {
    let depth = tokens[with].depth;
    let mut at = with + 1;
    if tokens.get(at).is_some_and(|token| token.is("RECURSIVE")) {
        at += 1;
    }
    loop {
        // A name, a list of columns perhaps, AS, and a query in brackets.
        at += 1;
        if tokens.get(at).is_some_and(|token| token.is_symbol("(")) {
            at = closing(tokens, at) + 1;
        }
        let named = tokens.get(at).is_some_and(|token| token.is("AS"));
        let opens = tokens.get(at + 1).is_some_and(|token| token.is_symbol("(") && token.depth == depth);
        if !named || !opens {
            // Not the form of a named query: BigQuery says what is wrong, unless it could be something that writes.
            break;
        }
        at = closing(tokens, at + 1) + 1;
        match tokens.get(at) {
            Some(token) if token.is_symbol(",") => at += 1,
            _ => break,
        }
    }
    match tokens.get(at) {
        Some(next) if ["SELECT", "FROM", "WITH"].iter().any(|keyword| next.is(keyword)) || next.is_symbol("(") => {
            Ok(())
        }
        Some(next) if next.kind == Kind::Word => Err(read_only(&shown(next.text))),
        _ => Err(Error::invalid_arguments("After WITH … AS (…) a SELECT is missing. Write one SELECT statement.")),
    }
}

fn closing(tokens: &[Token<'_>], opening: usize) -> usize {
    let depth = tokens[opening].depth;
    let close = tokens[opening + 1..].iter().position(|token| token.depth == depth && matches!(token.text, ")" | "]"));
    close.map_or(tokens.len(), |length| opening + 1 + length)
}

/// The words by which a statement is known: `DELETE`, `CREATE TABLE`.
fn statement(tokens: &[Token<'_>]) -> String {
    let words: Vec<&Token<'_>> = tokens
        .iter()
        .skip_while(|token| token.is_symbol("("))
        .take(8)
        .take_while(|token| token.kind == Kind::Word)
        .filter(|token| !FILLERS.iter().any(|filler| token.is(filler)))
        .collect();
    let two =
        ["CREATE", "DROP", "ALTER", "EXPORT", "LOAD", "TRUNCATE", "BEGIN", "COMMIT", "ROLLBACK", "EXECUTE", "UNDROP"];
    match words.as_slice() {
        [] => "not a SELECT".to_owned(),
        [verb, object, ..] if two.iter().any(|known| verb.is(known)) => {
            shown(&format!("{} {}", verb.text, object.text))
        }
        [verb, ..] => shown(verb.text),
    }
}

/// Words of the model, fit for a message.
fn shown(words: &str) -> String {
    words
        .chars()
        .filter(|mark| mark.is_ascii_graphic() || *mark == ' ')
        .take(40)
        .collect::<String>()
        .to_ascii_uppercase()
}

fn refused(query: &str, unreadable: &Unreadable) -> Error {
    let (line, column) = place(query, unreadable.at);
    Error::invalid_arguments(format!(
        "The query can't be read at line {line}, column {column}: {}. Correct it; only one SELECT statement is run.",
        unreadable.what
    ))
    .with_data("line", line)
    .with_data("column", column)
}

/// The error for anything but a SELECT (15.3).
pub(crate) fn read_only(statement: &str) -> Error {
    Error::new(
        ErrorCode::ReadOnlyViolation,
        format!("This ACP is read-only: only SELECT statements are executed (the query is {statement})."),
    )
    .with_data("statement_type", statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_statement_that_reads_passes() {
        for query in [
            "SELECT 1",
            " (SELECT 1) ; -- done",
            "with a as (select 1 x) select * from a",
            "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT n+1 FROM a), b (x, y) AS (SELECT 1, 2) (SELECT * FROM a)",
            "FROM d.t |> WHERE x > 1 |> DROP y |> SET z = 1 |> SELECT update, `delete`",
            "SELECT update, t.insert, s.into FROM d.t",
            "SELECT 'DROP TABLE x; DELETE', \"a;b\"",
            "SELECT * FROM UNNEST([1,2]) x WITH OFFSET WHERE a[OFFSET(0)] = 1",
            "SELECT (WITH a AS (SELECT 1) SELECT * FROM a)",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM d.t",
            "SELECT WITH(a AS 1, a + 1)",
            "SELECT @@project_id, @p, ?",
        ] {
            check(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        }
    }

    #[test]
    fn the_statement_is_named() {
        for (query, name) in [
            ("DELETE FROM d.t WHERE true", "(the query is DELETE)"),
            ("create or replace temp table d.t as select 1", "(the query is CREATE TABLE)"),
            ("EXECUTE IMMEDIATE 'x'", "EXECUTE IMMEDIATE"),
            ("WITH a AS (SELECT 1) DELETE FROM d.t", "(the query is DELETE)"),
            ("WITH a AS (SELECT 1), b AS (SELECT 2) INSERT d.t SELECT 1", "(the query is INSERT)"),
            ("SELECT 1; SELECT 2", "several statements"),
            ("FROM d.t |> EXPORT DATA OPTIONS()", "a pipe with EXPORT"),
            ("FROM d.t |> CALL d.f()", "a pipe with CALL"),
            ("SELECT 1 INTO x", "INTO"),
            ("(DELETE FROM d.t)", "DELETE"),
            ("'a'", "not a SELECT"),
        ] {
            let error = check(query).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ReadOnlyViolation, "{query}: {error}");
            assert!(error.message().contains(name), "{query}: {error}");
        }
    }

    #[test]
    fn texts_that_can_not_be_read_say_where() {
        let error = check("SELECT 1,\n  'a").unwrap_err();
        assert!(error.message().contains("line 2, column 3"), "{error}");
        assert!(check("SELECT '{{start_date}}'").unwrap_err().message().contains("Write the day itself"));
        for query in ["", " -- nothing", "WITH a AS (SELECT 1)", "WITH a AS (SELECT 1),"] {
            assert_eq!(check(query).unwrap_err().code(), ErrorCode::InvalidArguments, "{query}");
        }
    }
}
