//! A query's tokens become the parser's tree; its errors become Google's.

use sqlparser::ast::{Ident, Query, Statement};
use sqlparser::dialect::BigQueryDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::error::{Position, SqlError};

/// How deep a statement may nest for the parser.
const DEPTH: usize = 200;

/// Google's reserved words: what may not be a name without backticks.
const RESERVED: &str = " ALL AND ANY ARRAY AS ASC ASSERT_ROWS_MODIFIED AT BETWEEN BY CASE CAST COLLATE CONTAINS CREATE CROSS CUBE \
    CURRENT DEFAULT DEFINE DESC DISTINCT ELSE END ENUM ESCAPE EXCEPT EXCLUDE EXISTS EXTRACT FALSE FETCH FOLLOWING FOR FROM FULL GROUP \
    GROUPING GROUPS HASH HAVING IF IGNORE IN INNER INTERSECT INTERVAL INTO IS JOIN LATERAL LEFT LIKE LIMIT LOOKUP MERGE NATURAL NEW \
    NO NOT NULL NULLS OF ON OR ORDER OUTER OVER PARTITION PRECEDING PROTO QUALIFY RANGE RECURSIVE RESPECT RIGHT ROLLUP ROWS SELECT \
    SET SOME STRUCT TABLESAMPLE THEN TO TREAT TRUE UNBOUNDED UNION UNNEST USING WHEN WHERE WINDOW WITH WITHIN ";

/// Whether a word may not be a name without backticks.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&format!(" {} ", word.to_ascii_uppercase()))
}

/// A reserved word is no name, and neither is a string.
///
/// # Errors
/// The syntax error that the parser doesn't see.
pub(super) fn check_name(name: &Ident) -> Result<(), SqlError> {
    let message = match name.quote_style {
        None if is_reserved(&name.value) => format!("Unexpected keyword {}", name.value.to_ascii_uppercase()),
        Some('\'' | '"') => format!("Expected end of input but got string literal \"{}\"", name.value),
        _ => return Ok(()),
    };
    Err(SqlError::query(format!("Syntax error: {message}")).at(super::lexer::position(name.span)))
}

/// Where a text ends.
pub(super) fn end_of(sql: &str) -> Position {
    let text = sql.trim_end();
    let line = text.rsplit('\n').next().unwrap_or_default();
    Position { line: text.matches('\n').count() as u64 + 1, column: line.chars().count() as u64 + 1 }
}

/// Parses one query.
///
/// # Errors
/// Google's syntax error, or that the statement nests too deeply for this sandbox.
pub(super) fn query(tokens: &[TokenWithSpan], end: Position) -> Result<Query, SqlError> {
    let tokens = &typed_arrays(tokens);
    let mut parser =
        Parser::new(&BigQueryDialect {}).with_recursion_limit(DEPTH).with_tokens_with_locations(tokens.to_vec());
    let statement = parser.parse_statement().map_err(|error| syntax_error(&error, tokens, end))?;
    let rest = parser.next_token();
    if rest.token != Token::EOF {
        if let Some(left_out) = left_out(tokens) {
            return Err(SqlError::unsupported(left_out).at(super::lexer::position(rest.span)));
        }
        let found = describe(&rest.token);
        return Err(SqlError::query(format!("Syntax error: Expected end of input but got {found}"))
            .at(super::lexer::position(rest.span)));
    }
    match statement {
        Statement::Query(query) => Ok(*query),
        other => Err(SqlError::unsupported(format_args!("the statement {other}"))),
    }
}

/// The parser doesn't know `ARRAY<T>[x]`, so it gets `CAST([x] AS ARRAY<T>)`.
fn typed_arrays(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::new();
    let mut rest = tokens;
    while let Some((first, after)) = rest.split_first() {
        let is_array = matches!(&first.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("ARRAY"));
        let blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
        let opens = after.iter().find(|token| !blank(token)).is_some_and(|token| token.token == Token::Lt);
        let (mut angles, mut kind) = (0i32, None);
        for (index, token) in after.iter().enumerate().filter(|_| is_array && opens) {
            angles += match token.token {
                Token::Lt => 1,
                Token::Gt => -1,
                Token::ShiftRight => -2,
                _ => 0,
            };
            if angles == 0 && !blank(token) {
                kind = Some(index + 1);
                break;
            }
        }
        let start = kind.map(|kind| kind + after[kind..].iter().take_while(|token| blank(token)).count());
        let bracket = start.filter(|start| after.get(*start).is_some_and(|token| token.token == Token::LBracket));
        let mut depth = 0i32;
        let end = bracket.and_then(|start| {
            let mut inside = after.iter().enumerate().skip(start);
            inside.find_map(|(index, token)| {
                depth += i32::from(token.token == Token::LBracket) - i32::from(token.token == Token::RBracket);
                (depth == 0).then_some(index + 1)
            })
        });
        let (Some(kind), Some(start), Some(end)) = (kind, bracket, end) else {
            out.push(first.clone());
            rest = after;
            continue;
        };
        let word = |text: &str| TokenWithSpan::new(Token::make_keyword(text), first.span);
        out.extend([word("CAST"), TokenWithSpan::new(Token::LParen, first.span)]);
        out.extend(typed_arrays(&after[start..end]));
        out.push(word("AS"));
        out.push(first.clone());
        out.extend_from_slice(&after[..kind]);
        out.push(TokenWithSpan::new(Token::RParen, first.span));
        rest = &after[end..];
    }
    out
}

fn syntax_error(error: &ParserError, tokens: &[TokenWithSpan], end: Position) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return SqlError::unsupported(format_args!("more than {DEPTH} nested levels"));
        }
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
    };
    let place = message.rsplit_once("at Line: ").and_then(|(_, place)| place.split_once(", Column: "));
    let place = place.and_then(|(line, column)| Some((line.parse().ok()?, column.parse().ok()?)));
    let at = place.map(|(line, column)| Position { line, column });
    let found = at.and_then(|at| {
        tokens.iter().find(|token| {
            super::lexer::position(token.span) == Some(at) && !matches!(token.token, Token::Whitespace(_))
        })
    });
    match (left_out(tokens), found) {
        (Some(left_out), _) => SqlError::unsupported(left_out).at(at),
        (None, Some(token)) => SqlError::query(format!("Syntax error: Unexpected {}", describe(&token.token))).at(at),
        (None, None) => SqlError::query("Syntax error: Unexpected end of statement").at(Some(end)),
    }
}

/// What the parser doesn't know although it is GoogleSQL: if it is there, it may be what it stumbled over.
fn left_out(tokens: &[TokenWithSpan]) -> Option<&'static str> {
    let shown = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<String> = shown.map(|token| token.token.to_string().to_ascii_uppercase()).collect();
    let known = [
        (&["ML", "."][..], "functions of ML"),
        (&["AI", "."], "functions of AI"),
        (&["<<"], "the operators << and >>"),
        (&[">>"], "the operators << and >>"),
        (&["WITH", "DIFFERENTIAL_PRIVACY"], "differential privacy"),
        (&["WITH", "OFFSET"], "WITH OFFSET without UNNEST"),
        (&["MATCH_RECOGNIZE"], "MATCH_RECOGNIZE"),
        (&["GRAPH_TABLE"], "graphs"),
    ];
    known.iter().find(|(pattern, _)| words.windows(pattern.len()).any(|found| found == *pattern)).map(|(_, what)| *what)
}

/// A token as Google's errors name it.
pub(super) fn describe(token: &Token) -> String {
    match token {
        Token::EOF => "end of statement".to_owned(),
        Token::Word(word) if word.quote_style.is_none() && is_reserved(&word.value) => {
            format!("keyword {}", word.value.to_ascii_uppercase())
        }
        Token::Word(word) => format!("identifier \"{}\"", word.value),
        Token::Number(number, _) if number.contains(['.', 'e', 'E']) && !number.starts_with("0x") => {
            format!("floating point literal \"{number}\"")
        }
        Token::Number(number, _) => format!("integer literal \"{number}\""),
        Token::SingleQuotedString(text) => format!("string literal \"{text}\""),
        other => format!("\"{other}\""),
    }
}
