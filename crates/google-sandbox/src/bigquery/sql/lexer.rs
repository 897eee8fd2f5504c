//! GoogleSQL's tokens, in the parser's terms.
//!
//! The parser's own tokenizer reads several dialects at once: quotes doubled inside quotes, `E''`, `$$`, nested comments. Here a
//! statement must end where it ends for Google, so the tokens are made by Google's rules.

use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Whitespace};

use super::error::{Position, SqlError};

/// Splits a text into tokens, without comments; white space is one token between two others.
///
/// # Errors
/// Google's syntax errors of the lexical level.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    let mut lexer = Lexer { rest: sql, line: 1, column: 1, previous: '\n' };
    let mut tokens: Vec<TokenWithSpan> = Vec::new();
    loop {
        let spaced = lexer.skip_blank()?;
        let start = lexer.location();
        let Some(token) = lexer.token()? else { return Ok(tokens) };
        if spaced && !tokens.is_empty() {
            tokens.push(TokenWithSpan::at(Token::Whitespace(Whitespace::Space), start, start));
        }
        tokens.push(TokenWithSpan::at(token, start, lexer.location()));
    }
}

/// A place of the parser's in the form of errors; none when it doesn't know.
pub(super) fn position(span: Span) -> Option<Position> {
    (span.start.line > 0).then_some(Position { line: span.start.line, column: span.start.column })
}

struct Lexer<'a> {
    rest: &'a str,
    line: u64,
    column: u64,
    previous: char,
}

impl Lexer<'_> {
    fn location(&self) -> Location {
        Location { line: self.line, column: self.column }
    }

    fn error(&self, at: Location, message: &str) -> SqlError {
        SqlError::query(format!("Syntax error: {message}")).at(Some(Position { line: at.line, column: at.column }))
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        match next {
            '\n' if self.previous == '\r' => {}
            '\n' | '\r' => (self.line, self.column) = (self.line + 1, 1),
            '\t' => self.column = (self.column - 1) / 8 * 8 + 9,
            _ => self.column += 1,
        }
        self.previous = next;
        Some(next)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|next| !wanted(next)).unwrap_or(self.rest.len());
        let taken = self.rest[..end].to_owned();
        self.take_all(&taken);
        taken
    }

    fn take_all(&mut self, text: &str) {
        text.chars().for_each(|_| _ = self.take());
    }

    /// Whether there was white space or a comment.
    fn skip_blank(&mut self) -> Result<bool, SqlError> {
        let before = self.rest.len();
        loop {
            let at = self.location();
            match self.peek() {
                Some(next) if is_blank(next) => _ = self.take(),
                _ if self.rest.starts_with("--") || self.rest.starts_with('#') => {
                    self.take_while(|next| next != '\n' && next != '\r');
                }
                _ if self.rest.starts_with("/*") => {
                    let end = self.rest[2..].find("*/").ok_or_else(|| self.error(at, "Unclosed comment"))?;
                    let rest = self.rest;
                    self.take_all(&rest[..end + 4]);
                }
                _ => return Ok(self.rest.len() < before),
            }
        }
    }

    fn token(&mut self) -> Result<Option<Token>, SqlError> {
        let at = self.location();
        let Some(next) = self.peek() else { return Ok(None) };
        if let Some((raw, bytes, skip)) = self.quoted_prefix() {
            (0..skip).for_each(|_| _ = self.take());
            return self.quoted(raw, bytes, at).map(Some);
        }
        if next == '`' {
            return self.delimited(at).map(Some);
        }
        if next.is_ascii_alphabetic() || next == '_' {
            return Ok(Some(Token::make_word(&self.take_while(is_name), None)));
        }
        let second = self.rest.chars().nth(1);
        if next.is_ascii_digit() || next == '.' && second.is_some_and(|digit| digit.is_ascii_digit()) {
            return Ok(Some(self.number()));
        }
        if next == '@' {
            let signs = self.take_while(|next| next == '@');
            let name = match self.peek() {
                Some('`') => match self.delimited(at)? {
                    Token::Word(word) => word.value,
                    _ => String::new(),
                },
                _ => self.take_while(is_name),
            };
            return Ok(Some(Token::Placeholder(format!("{signs}{name}"))));
        }
        for (text, token) in OPERATORS {
            if self.rest.starts_with(text) {
                self.take_all(text);
                return Ok(Some(token.clone()));
            }
        }
        if next == '?' {
            self.take();
            return Ok(Some(Token::Placeholder("?".to_owned())));
        }
        let byte = self.rest.as_bytes()[0];
        let shown = if byte.is_ascii() { next.to_string() } else { format!("\\{byte:o}") };
        Err(self.error(at, &format!("Illegal input character \"{shown}\"")))
    }

    /// Whether a string starts here: raw, of bytes, and how many letters are before its quote.
    fn quoted_prefix(&self) -> Option<(bool, bool, usize)> {
        let mut prefix = self.rest.chars().take(3);
        let (mut raw, mut bytes) = (false, false);
        for skip in 0..3 {
            match prefix.next()? {
                '\'' | '"' => return Some((raw, bytes, skip)),
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn quoted(&mut self, raw: bool, bytes: bool, at: Location) -> Result<Token, SqlError> {
        let kind = if bytes { "bytes" } else { "string" };
        let quote = self.peek().unwrap_or('\'');
        let triple = self.rest.starts_with(&quote.to_string().repeat(3));
        let end = quote.to_string().repeat(if triple { 3 } else { 1 });
        self.take_all(&end);
        let mut content = Vec::new();
        loop {
            if self.rest.starts_with(&end) {
                self.take_all(&end);
                break;
            }
            let here = self.location();
            match self.take() {
                Some('\\') if raw => {
                    content.push(b'\\');
                    let escaped = self.take().unwrap_or_default();
                    content.extend(escaped.to_string().bytes());
                }
                Some('\\') => self.escape(&mut content, bytes, here)?,
                // Line ends are always one character inside.
                Some('\r') if triple => {
                    if self.peek() == Some('\n') {
                        self.take();
                    }
                    content.push(b'\n');
                }
                Some(next) if triple || next != '\n' && next != '\r' => content.extend(next.to_string().bytes()),
                _ => {
                    let triple = if triple { "triple-quoted " } else { "" };
                    return Err(self.error(at, &format!("Unclosed {triple}{kind} literal")));
                }
            }
        }
        if matches!(self.peek(), Some('\'' | '"')) {
            let here = self.location();
            let message = format!("concatenated {kind} literals must be separated by whitespace or comments");
            return Err(self.error(here, &message));
        }
        if bytes {
            // One character for each byte: the parser's literals hold text.
            return Ok(Token::SingleQuotedByteStringLiteral(content.into_iter().map(char::from).collect()));
        }
        let invalid = |_| self.error(at, "Structurally invalid UTF8 string");
        String::from_utf8(content).map(Token::SingleQuotedString).map_err(invalid)
    }

    fn escape(&mut self, content: &mut Vec<u8>, bytes: bool, at: Location) -> Result<(), SqlError> {
        let Some(letter) = self.take() else { return Ok(()) };
        let simple = match letter {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '?' | '"' | '\'' | '`' => letter as u8,
            _ => 0,
        };
        if simple != 0 {
            content.push(simple);
            return Ok(());
        }
        let (digits, radix) = match letter {
            'x' | 'X' => (2, 16),
            'u' if !bytes => (4, 16),
            'U' if !bytes => (8, 16),
            '0'..='3' => (2, 8),
            _ => return Err(self.error(at, &format!("Illegal escape sequence: \\{letter}"))),
        };
        let text: String = self.rest.chars().take(digits).collect();
        if text.chars().filter(|digit| digit.is_digit(radix)).count() < digits {
            let wanted = if radix == 16 { "hex" } else { "octal" };
            let message = format!(
                "Illegal escape sequence: \\{letter} must be followed by {digits} {wanted} digits but saw: \\{letter}{text}"
            );
            return Err(self.error(at, &message));
        }
        self.take_all(&text);
        let first = if radix == 8 { letter.to_string() } else { String::new() };
        let code = u32::from_str_radix(&(first + &text), radix).unwrap_or(0);
        if bytes {
            content.push(code as u8);
            return Ok(());
        }
        let character = char::from_u32(code)
            .ok_or_else(|| self.error(at, &format!("Illegal escape sequence: \\{letter}{text}: no such character")))?;
        content.extend(character.to_string().bytes());
        Ok(())
    }

    fn delimited(&mut self, at: Location) -> Result<Token, SqlError> {
        self.take();
        let mut content = Vec::new();
        loop {
            let here = self.location();
            match self.take() {
                Some('`') => break,
                Some('\\') => self.escape(&mut content, false, here)?,
                Some(next) if next != '\n' && next != '\r' => content.extend(next.to_string().bytes()),
                _ => return Err(self.error(at, "Unclosed identifier literal")),
            }
        }
        match String::from_utf8(content) {
            Ok(name) if !name.is_empty() => Ok(Token::make_word(&name, Some('`'))),
            _ => Err(self.error(at, "Invalid empty identifier")),
        }
    }

    fn number(&mut self) -> Token {
        if self.rest.starts_with("0x") || self.rest.starts_with("0X") {
            self.take_all("0x");
            return Token::Number(format!("0x{}", self.take_while(|digit| digit.is_ascii_hexdigit())), false);
        }
        let mut text = self.take_while(|digit| digit.is_ascii_digit());
        if self.peek() == Some('.') {
            self.take();
            text += ".";
            text += &self.take_while(|digit| digit.is_ascii_digit());
        }
        let exponent = self.rest.strip_prefix(['e', 'E']).unwrap_or_default();
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.starts_with(|digit: char| digit.is_ascii_digit()) {
            let sign = exponent.len() - digits.len();
            let start = &self.rest[..1 + sign];
            text += start;
            self.take_all(start);
            text += &self.take_while(|digit| digit.is_ascii_digit());
        }
        Token::Number(text, false)
    }
}

fn is_name(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_'
}

/// White space as Google has it: ASCII's, and Unicode's spaces that don't end a line.
fn is_blank(next: char) -> bool {
    next == '\u{8}' || next.is_whitespace() && !matches!(next, '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Longer ones first.
const OPERATORS: [(&str, Token); 32] = [
    ("|>", Token::VerticalBarRightAngleBracket),
    ("||", Token::StringConcat),
    ("<<", Token::ShiftLeft),
    (">>", Token::ShiftRight),
    ("<=", Token::LtEq),
    (">=", Token::GtEq),
    ("<>", Token::Neq),
    ("!=", Token::Neq),
    ("=>", Token::RArrow),
    ("->", Token::Arrow),
    ("(", Token::LParen),
    (")", Token::RParen),
    ("[", Token::LBracket),
    ("]", Token::RBracket),
    ("{", Token::LBrace),
    ("}", Token::RBrace),
    (",", Token::Comma),
    (";", Token::SemiColon),
    (".", Token::Period),
    (":", Token::Colon),
    ("=", Token::Eq),
    ("<", Token::Lt),
    (">", Token::Gt),
    ("+", Token::Plus),
    ("-", Token::Minus),
    ("*", Token::Mul),
    ("/", Token::Div),
    ("%", Token::Mod),
    ("|", Token::Pipe),
    ("&", Token::Ampersand),
    ("^", Token::Caret),
    ("~", Token::Tilde),
];
