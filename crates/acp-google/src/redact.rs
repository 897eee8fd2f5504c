//! Texts from outside, made safe to show.

use std::sync::Arc;

use acp_core::Secret;
use serde_json::Value;

/// A text that shares this many consecutive bytes with a secret is taken to quote it.
const WINDOW: usize = 12;
/// Shorter secrets can't be told from ordinary words.
const SHORTEST: usize = 6;

const WITHHELD: &str = "(text withheld: it repeated a part of the credentials)";

/// A text on one line: control characters and runs of white space become one space, and beyond `limit` characters
/// it ends in `…`.
pub fn clean(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit * 4));
    let mut characters = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if characters > 0 {
            line.push(' ');
            characters += 1;
        }
        for character in word.chars() {
            if characters >= limit {
                line.push('…');
                return line;
            }
            line.push(character);
            characters += 1;
        }
    }
    line
}

/// The secrets of one credential, to find them in texts that come back from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Vec<Secret<Arc<str>>>);

impl Secrets {
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() >= SHORTEST {
            self.0.push(Secret::new(secret.into()));
        }
    }

    /// Whether the text holds a piece of a secret.
    pub(crate) fn appear_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| shares_a_piece(secret.expose().as_bytes(), text.as_bytes()))
    }

    /// The text, or a fixed one when it quotes a secret.
    pub(crate) fn withhold(&self, text: &str) -> String {
        if self.appear_in(text) { WITHHELD.to_owned() } else { text.to_owned() }
    }

    /// Empties values that quote a secret.
    pub(crate) fn withhold_values(&self, values: &mut Vec<Value>) {
        values.retain(|value| !self.appear_in(&value.to_string()));
    }
}

fn shares_a_piece(secret: &[u8], text: &[u8]) -> bool {
    let window = WINDOW.min(secret.len());
    if secret.is_empty() || text.len() < window {
        return false;
    }
    let finders = text.windows(window);
    // Texts of errors are short and secrets are at most a few kilobytes.
    finders.into_iter().any(|piece| memchr::memmem::find(secret, piece).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_without_control_characters_and_clipped() {
        assert_eq!(clean(" a\n  b\u{1b}[31mc\0 ", 50), "a b [31mc");
        assert_eq!(clean("ääää", 2), "ää…");
        assert_eq!(clean("ab", 2), "ab");
        assert_eq!(clean("\n\t", 2), "");
    }

    #[test]
    fn a_quoted_piece_of_a_secret_is_found() {
        let mut secrets = Secrets::default();
        secrets.add("ya29.SECRETSECRETSECRET");
        secrets.add("short");
        secrets.add("sixsix");
        assert_eq!(secrets.withhold("bad token …SECRETSECRET…"), WITHHELD);
        assert_eq!(secrets.withhold("sixsix is wrong"), WITHHELD);
        assert_eq!(secrets.withhold("a short text"), "a short text");
        assert!(!format!("{secrets:?}").contains("SECRET"));
    }
}
