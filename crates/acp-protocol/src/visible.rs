//! What a model reads has no characters that can't be seen: those that turn the direction of a text around, control
//! characters, and tags in which others hide orders. The host's table keeps them.

use std::borrow::Cow;

/// What stands in their place.
const REPLACEMENT: char = '\u{fffd}';

/// A text, of JSON or plain, in which each such character is U+FFFD, whether it is written out or escaped. Tabs and line
/// breaks stay, and joiners, without which some scripts and emoji fall apart.
pub fn visible(json: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut done = 0;
    let mut replace = |from: usize, to: usize| {
        clean.push_str(&json[done..from]);
        clean.push(REPLACEMENT);
        done = to;
    };
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => {
                let (code, length) = escaped(&json[at..]);
                if code.is_some_and(is_hidden) {
                    replace(at, at + length);
                }
                at += length;
            }
            byte if byte.is_ascii() => {
                if is_hidden(u32::from(byte)) {
                    replace(at, at + 1);
                }
                at += 1;
            }
            _ => {
                let mark = json[at..].chars().next().unwrap_or(REPLACEMENT);
                if is_hidden(u32::from(mark)) {
                    replace(at, at + mark.len_utf8());
                }
                at += mark.len_utf8();
            }
        }
    }
    if done == 0 {
        return json.into();
    }
    clean.push_str(&json[done..]);
    clean.into()
}

/// The character of an escape at the beginning of a text, if it has a number, and how long the escape is.
fn escaped(text: &str) -> (Option<u32>, usize) {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(high @ 0xd800..0xdc00), Some(low @ 0xdc00..0xe000)) => {
            (Some(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), 12)
        }
        (Some(code), _) => (Some(code), 6),
        // A backslash and what it escapes, of whatever length.
        (None, _) => (None, 1 + text[1..].chars().next().map_or(0, char::len_utf8)),
    }
}

fn is_hidden(code: u32) -> bool {
    matches!(
        code,
        0..=0x08 | 0x0b | 0x0c | 0x0e..=0x1f | 0x7f..=0x9f // controls but tab and line breaks
            | 0x00ad | 0x061c | 0x180e | 0x200b | 0x200e | 0x200f | 0x2028..=0x202e | 0x2060..=0x206f
            | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe0fff
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn hidden_characters_are_replaced_however_they_are_written() {
        for (text, seen) in [
            (r#"{"a":"plain, é 椅子 👨‍👩‍👧 \n\t"}"#, r#"{"a":"plain, é 椅子 👨‍👩‍👧 \n\t"}"#),
            ("{\"a\":\"x\u{202e}y\"}", "{\"a\":\"x\u{fffd}y\"}"),
            (r#"{"a":"x\u202Ey\u0007"}"#, "{\"a\":\"x\u{fffd}y\u{fffd}\"}"),
            (r#"{"a":"\\u202e"}"#, r#"{"a":"\\u202e"}"#),
            (r#"{"a":"\udb40\udc41b"}"#, "{\"a\":\"\u{fffd}b\"}"),
            (r#"{"a":"\ud83d\ude00\"\u000a"}"#, r#"{"a":"\ud83d\ude00\"\u000a"}"#),
            ("\u{e0041}", "\u{fffd}"),
            ("plain\u{1b}[31m\n\t", "plain\u{fffd}[31m\n\t"),
            ("\\", "\\"),
            ("\\é", "\\é"),
        ] {
            assert_eq!(visible(text), seen);
        }
    }

    proptest! {
        #[test]
        fn what_is_left_is_the_same_json(text in any::<String>()) {
            let json = json!({"k": text}).to_string();
            let seen: Value = serde_json::from_str(&visible(&json)).unwrap();
            let expected: String =
                text.chars().map(|mark| if is_hidden(u32::from(mark)) { REPLACEMENT } else { mark }).collect();
            prop_assert_eq!(&seen["k"], &json!(expected));
        }
    }
}
