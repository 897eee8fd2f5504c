//! What the fuzz targets share: random decisions that an input carries itself, and what JSON-RPC says a message is.

use std::borrow::Cow;

use rmcp::model::RequestId;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Decisions that follow from a number: the same input always runs the same way.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// Takes the first two bytes of an input for the number.
    pub fn take(input: &[u8]) -> (Self, &[u8]) {
        let (seed, rest) = input.split_at(input.len().min(2));
        let seed = seed.iter().fold(1, |seed, byte| seed << 8 | u64::from(*byte));
        (Self(seed), rest)
    }

    /// A number from 0 to `sides - 1`.
    pub fn roll(&mut self, sides: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % sides.max(1)
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }

    /// Other dice, for somebody else.
    pub fn fork(&mut self) -> Self {
        Self(self.roll(usize::MAX) as u64)
    }

    /// Cuts a text into pieces: many of one byte, some long ones.
    pub fn cut<'a>(&mut self, mut text: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !text.is_empty() {
            let longest = [1, 3, 17, 200][self.roll(4)];
            let (piece, rest) = text.split_at((1 + self.roll(longest)).min(text.len()));
            pieces.push(piece);
            text = rest;
        }
        pieces
    }
}

/// Changes one place of a JSON value, and keeps it JSON: what a fuzzer does to bytes seldom does. `words` are keys and
/// texts that mean something.
pub fn mutate(value: &mut Value, words: &[&str], dice: &mut Dice) {
    let inside = dice.roll(4) > 0;
    match value {
        Value::Array(items) if inside && !items.is_empty() => {
            let place = dice.roll(items.len());
            match dice.roll(6) {
                0 => _ = items.remove(place),
                1 => items.push(items[place].clone()),
                _ => mutate(&mut items[place], words, dice),
            }
        }
        Value::Object(fields) if inside && !fields.is_empty() => {
            let place = dice.roll(fields.len());
            let key = fields.keys().nth(place).cloned().unwrap_or_default();
            match dice.roll(8) {
                0 => _ = fields.shift_remove(&key),
                1 => _ = fields.insert((*dice.pick(words)).to_owned(), scalar(words, dice)),
                2 => {
                    let value = fields.shift_remove(&key).unwrap_or_default();
                    fields.insert((*dice.pick(words)).to_owned(), value);
                }
                _ => mutate(&mut fields[&key], words, dice),
            }
        }
        _ => {
            *value = match dice.roll(8) {
                0 => Value::Array(vec![value.take()]),
                1 => json!({*dice.pick(words): value.take()}),
                2 => Value::String(value.to_string()),
                3 => match value.as_str().and_then(|text| serde_json::from_str(text).ok()) {
                    Some(inner) => inner,
                    None => scalar(words, dice),
                },
                _ => scalar(words, dice),
            }
        }
    }
}

fn scalar(words: &[&str], dice: &mut Dice) -> Value {
    let power = 1_u64 << dice.roll(64);
    match dice.roll(12) {
        0 => Value::Null,
        1 => json!(dice.roll(2) == 0),
        2 => json!([]),
        3 => json!({}),
        4 => json!(""),
        5 => json!(dice.roll(5)),
        6 => json!(power.wrapping_add(dice.roll(3) as u64).wrapping_sub(1)),
        7 => json!((power as i64).wrapping_neg().wrapping_sub(dice.roll(2) as i64)),
        8 => json!(power as f64 / 4.0),
        9 => json!(power as f64 * power as f64),
        _ => json!(*dice.pick(words)),
    }
}

/// What a message is, by JSON-RPC and the bounds that this server has.
#[derive(Debug, PartialEq)]
pub enum Message {
    /// Not JSON, or nested too deep.
    NotJson,
    /// JSON that can't be a message, or one whose id can't be known.
    Invalid,
    /// Something that asks and is wrong, with its id where it has one.
    Wrong(Option<RequestId>),
    Request(RequestId, String),
    Notification,
    Answer,
}

/// Levels of a message that are read.
const MAX_DEPTH: usize = 127;

impl Message {
    pub fn of(text: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(text) else { return Self::NotJson };
        if !is_json(text) || depth(text) > MAX_DEPTH {
            return Self::NotJson;
        }
        let Some(fields) = Fields::of(text) else { return Self::Invalid };
        let names = ["jsonrpc", "id", "method", "params", "result", "error"];
        if names.iter().any(|name| fields.all(name).count() > 1) {
            return Self::Invalid;
        }
        let get = |name| fields.all(name).next();
        if get("method").is_none() && (get("result").is_some() || get("error").is_some()) {
            return Self::Answer;
        }
        let id = get("id").map(serde_json::from_str::<RequestId>);
        let Ok(id) = id.transpose() else { return Self::Invalid };
        let string = |name| get(name).and_then(|text| serde_json::from_str::<String>(text).ok());
        match (string("jsonrpc").as_deref(), string("method"), id) {
            (Some("2.0"), Some(method), Some(id)) => Self::Request(id, method),
            (Some("2.0"), Some(_), None) => Self::Notification,
            (.., id) => Self::Wrong(id),
        }
    }
}

/// Whether a text is JSON, half a pair of surrogates and numbers of any size included.
pub fn is_json(text: &str) -> bool {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    IgnoredAny::deserialize(&mut deserializer).is_ok() && deserializer.end().is_ok()
}

/// The deepest nesting of a JSON text.
pub fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut bytes) = (0_usize, 0, text.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    deepest
}

/// The fields of a JSON object, doubled ones too.
pub struct Fields<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// `None` where the text is no object, or one whose keys can't be read.
    pub fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.get())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, _>()? {
                    fields.push((Cow::Owned(key), value));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Map).map(Self)
    }
}
