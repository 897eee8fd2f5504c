//! What kind of statement a text is, by its first words: all but queries are only named, never run.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::error::{Position, SqlError};
use super::lexer::position;

/// The `statementType` of several statements, and of one that only scripts have.
pub(super) const SCRIPT: &str = "SCRIPT";

/// Statement types by the words that a statement starts with; `*` stands for any one word. Longer beginnings first.
const TYPES: [(&str, &str); 58] = [
    ("SELECT", "SELECT"),
    ("WITH", "SELECT"),
    ("FROM", "SELECT"),
    ("(", "SELECT"),
    ("INSERT", "INSERT"),
    ("UPDATE", "UPDATE"),
    ("DELETE", "DELETE"),
    ("MERGE", "MERGE"),
    ("TRUNCATE TABLE", "TRUNCATE_TABLE"),
    ("EXPORT DATA", "EXPORT_DATA"),
    ("EXPORT MODEL", "EXPORT_MODEL"),
    ("LOAD DATA", "LOAD_DATA"),
    ("CALL", "CALL"),
    ("ASSERT", "ASSERT"),
    ("GRANT", "GRANT"),
    ("REVOKE", "REVOKE"),
    ("CREATE TABLE FUNCTION", "CREATE_TABLE_FUNCTION"),
    ("CREATE EXTERNAL TABLE", "CREATE_EXTERNAL_TABLE"),
    ("CREATE SNAPSHOT TABLE", "CREATE_SNAPSHOT_TABLE"),
    ("CREATE MATERIALIZED VIEW", "CREATE_MATERIALIZED_VIEW"),
    ("CREATE AGGREGATE FUNCTION", "CREATE_FUNCTION"),
    ("CREATE SEARCH INDEX", "CREATE_SEARCH_INDEX"),
    ("CREATE VECTOR INDEX", "CREATE_VECTOR_INDEX"),
    ("CREATE ROW ACCESS POLICY", "CREATE_ROW_ACCESS_POLICY"),
    ("CREATE TABLE", "CREATE_TABLE"),
    ("CREATE VIEW", "CREATE_VIEW"),
    ("CREATE MODEL", "CREATE_MODEL"),
    ("CREATE FUNCTION", "CREATE_FUNCTION"),
    ("CREATE PROCEDURE", "CREATE_PROCEDURE"),
    ("CREATE SCHEMA", "CREATE_SCHEMA"),
    ("CREATE *", "CREATE_OTHER"),
    ("DROP ALL ROW ACCESS", "DROP_ALL_ROW_ACCESS_POLICIES"),
    ("DROP ROW ACCESS POLICY", "DROP_ROW_ACCESS_POLICY"),
    ("DROP TABLE FUNCTION", "DROP_TABLE_FUNCTION"),
    ("DROP EXTERNAL TABLE", "DROP_EXTERNAL_TABLE"),
    ("DROP SNAPSHOT TABLE", "DROP_SNAPSHOT_TABLE"),
    ("DROP MATERIALIZED VIEW", "DROP_MATERIALIZED_VIEW"),
    ("DROP SEARCH INDEX", "DROP_SEARCH_INDEX"),
    ("DROP TABLE", "DROP_TABLE"),
    ("DROP VIEW", "DROP_VIEW"),
    ("DROP MODEL", "DROP_MODEL"),
    ("DROP FUNCTION", "DROP_FUNCTION"),
    ("DROP PROCEDURE", "DROP_PROCEDURE"),
    ("DROP SCHEMA", "DROP_SCHEMA"),
    ("DROP *", "DROP_OTHER"),
    ("ALTER MATERIALIZED VIEW", "ALTER_MATERIALIZED_VIEW"),
    ("ALTER TABLE", "ALTER_TABLE"),
    ("ALTER VIEW", "ALTER_VIEW"),
    ("ALTER SCHEMA", "ALTER_SCHEMA"),
    ("ALTER *", "ALTER_OTHER"),
    ("EXPLAIN", "EXPLAIN"),
    ("DEFINE", "DEFINE"),
    ("UNDROP SCHEMA", "UNDROP_SCHEMA"),
    ("ANALYZE", "ANALYZE"),
    ("DESCRIBE", "DESCRIBE"),
    ("SHOW", "SHOW"),
    ("CLONE DATA", "CLONE_DATA"),
    ("IMPORT", "IMPORT"),
];

/// Words that a script's statements start with.
const SCRIPT_WORDS: [&str; 20] = [
    "DECLARE", "SET", "BEGIN", "IF", "LOOP", "WHILE", "REPEAT", "FOR", "CASE", "EXECUTE", "COMMIT", "ROLLBACK",
    "RAISE", "RETURN", "BREAK", "LEAVE", "CONTINUE", "ITERATE", "START", "END",
];

/// Words between CREATE and what is created.
const MODIFIERS: [&str; 6] = ["OR", "REPLACE", "TEMP", "TEMPORARY", "PUBLIC", "PRIVATE"];

/// The type of a text's statement, and that statement's tokens without the semicolon at the end.
///
/// # Errors
/// When there is no statement, or one that starts like none.
pub(super) fn classify(tokens: &[TokenWithSpan], end: Position) -> Result<(&'static str, &[TokenWithSpan]), SqlError> {
    let is_blank = |token: &&[TokenWithSpan]| token.iter().all(|token| matches!(token.token, Token::Whitespace(_)));
    let mut parts = tokens.split(|token| token.token == Token::SemiColon);
    let first = parts.next().unwrap_or_default();
    if is_blank(&first) {
        let place = tokens.iter().find(|token| token.token == Token::SemiColon).and_then(|token| position(token.span));
        let found = if place.is_some() { "\";\"" } else { "end of statement" };
        return Err(SqlError::query(format!("Syntax error: Unexpected {found}")).at(place.or(Some(end))));
    }
    let words: Vec<String> = first
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .map(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
            Token::LParen => "(".to_owned(),
            _ => String::new(),
        })
        .scan(true, |beginning, word| {
            let modifier = !*beginning && MODIFIERS.contains(&word.as_str());
            *beginning = false;
            Some((!modifier).then_some(word))
        })
        .flatten()
        .take(4)
        .collect();
    let starts = |pattern: &str| {
        let mut pattern = pattern.split(' ').enumerate();
        pattern.all(|(index, wanted)| words.get(index).is_some_and(|word| wanted == "*" || word == wanted))
    };
    let several = parts.any(|part| !is_blank(&part));
    let found = TYPES.iter().find(|(pattern, _)| starts(pattern)).map(|(_, kind)| *kind);
    let first_word = words.first().map_or("", String::as_str);
    let kind = match found {
        _ if SCRIPT_WORDS.contains(&first_word) => SCRIPT,
        Some(_) if several => SCRIPT,
        Some("CREATE_TABLE") if creates_from_query(first) => "CREATE_TABLE_AS_SELECT",
        Some("SELECT") if writes_through_pipe(first) => "INSERT",
        Some("SELECT") if first_word == "WITH" => after_with(first),
        Some(kind) => kind,
        None => {
            let token = first.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
            let shown = token.map(|token| super::parse::describe(&token.token)).unwrap_or_default();
            let place = token.and_then(|token| position(token.span));
            return Err(SqlError::query(format!("Syntax error: Unexpected {shown}")).at(place));
        }
    };
    Ok((kind, first))
}

/// Unquoted words outside parentheses, in capitals.
fn top_level_words(tokens: &[TokenWithSpan]) -> impl Iterator<Item = String> {
    let mut depth = 0usize;
    tokens.iter().filter_map(move |token| {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 && word.quote_style.is_none() => {
                return Some(word.value.to_ascii_uppercase());
            }
            Token::VerticalBarRightAngleBracket if depth == 0 => return Some("|>".to_owned()),
            _ => {}
        }
        None
    })
}

fn creates_from_query(tokens: &[TokenWithSpan]) -> bool {
    top_level_words(tokens).any(|word| word == "AS")
}

fn writes_through_pipe(tokens: &[TokenWithSpan]) -> bool {
    let words: Vec<String> = top_level_words(tokens).collect();
    words.windows(2).any(|pair| pair[0] == "|>" && pair[1] == "INSERT")
}

/// What comes after the expressions of a WITH.
fn after_with(tokens: &[TokenWithSpan]) -> &'static str {
    let kinds = [
        ("SELECT", "SELECT"),
        ("FROM", "SELECT"),
        ("INSERT", "INSERT"),
        ("UPDATE", "UPDATE"),
        ("DELETE", "DELETE"),
        ("MERGE", "MERGE"),
    ];
    let mut found =
        top_level_words(tokens).filter_map(|word| kinds.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind));
    found.next().unwrap_or("SELECT")
}
