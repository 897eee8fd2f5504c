//! Splits a JSON answer into the rows of one array while it arrives, so that no answer has to fit in memory.

use crate::error::Failure;

/// Bounds that keep a broken or hostile answer from filling the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLimits {
    /// Bytes of one element.
    pub element: usize,
    /// Bytes of everything outside the array.
    pub rest: usize,
    /// Nested objects and arrays, counted from the document's root. The bound of `serde_json` is the same.
    pub depth: usize,
}

impl Default for RowLimits {
    fn default() -> Self {
        Self { element: 16 << 20, rest: 32 << 20, depth: 128 }
    }
}

/// Why an answer can't be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsError {
    /// An element is larger than this many bytes.
    ElementTooLarge(usize),
    /// Everything outside the array is larger than this many bytes.
    RestTooLarge(usize),
    /// Objects and arrays are nested deeper than this.
    TooDeep(usize),
    /// The document has the array's key twice, so it isn't clear which one counts.
    Duplicate,
    /// The array isn't a list of values with commas between them.
    Malformed,
    /// The document ends too early.
    Truncated,
}

impl std::fmt::Display for RowsError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ElementTooLarge(limit) => write!(formatter, "a row of the answer is larger than {limit} bytes"),
            Self::RestTooLarge(limit) => write!(formatter, "the answer has over {limit} bytes beside its rows"),
            Self::TooDeep(limit) => write!(formatter, "the answer is nested deeper than {limit} levels"),
            Self::Duplicate => formatter.write_str("the answer lists its rows twice"),
            Self::Malformed => formatter.write_str("the list of rows in the answer is not valid JSON"),
            Self::Truncated => formatter.write_str("the answer ended in the middle"),
        }
    }
}

impl std::error::Error for RowsError {}

/// Takes a JSON document in chunks, hands out each element of one top-level array as soon as it is complete, and
/// keeps the rest of the document with that array emptied.
///
/// Elements are handed out as the bytes they have in the document; whether they are valid JSON is for the parser
/// of the caller to find, as is everything in the rest. What the splitter itself makes sure of is that a document
/// that was cut never looks complete. A value of that name that isn't an array (`null`, for example) stays in the
/// rest.
#[derive(Debug)]
pub struct RowSplitter {
    name: String,
    limits: RowLimits,
    place: Place,
    /// Inside a string, of the rest or of an element.
    string: bool,
    /// The next byte of that string is escaped.
    escaped: bool,
    /// Open brackets, the array's own not counted.
    depth: usize,
    key: Key,
    found: bool,
    rest: Vec<u8>,
    /// The beginning of an element whose end is in a later chunk.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Rest,
    Array(Expect),
    Element(Shape),
}

/// What may come next between the elements of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    ValueOrEnd,
    Value,
    CommaOrEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// An object, an array or a string: it says itself where it ends.
    Closed,
    /// A number, `true`, `false` or `null`: it ends where something else begins.
    Open,
}

/// Progress towards the array among the keys of the document's root.
#[derive(Debug, Default)]
struct Key {
    /// The next string of the root is a key.
    expected: bool,
    /// The string being read is a key of the root; its bytes so far, with the quotes.
    reading: Option<Vec<u8>>,
    /// The last key was the array's.
    matched: bool,
    /// The colon after it has been read.
    value_next: bool,
}

impl RowSplitter {
    /// A splitter for the top-level array `name`, with the usual bounds.
    pub fn new(name: &str) -> Self {
        Self::with_limits(name, RowLimits::default())
    }

    /// A splitter with other bounds.
    pub fn with_limits(name: &str, limits: RowLimits) -> Self {
        Self {
            name: name.to_owned(),
            limits,
            place: Place::Rest,
            string: false,
            escaped: false,
            depth: 0,
            key: Key::default(),
            found: false,
            rest: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Takes the next bytes of the document and calls `on_row` for each element they complete. An element that
    /// lies within the chunk is a slice of it. After an error the splitter is of no more use.
    pub fn push<E: From<RowsError>>(
        &mut self,
        chunk: &[u8],
        mut on_row: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while at < chunk.len() {
            at = match self.place {
                Place::Rest => self.rest(chunk, at)?,
                Place::Array(expect) => self.between(chunk, at, expect)?,
                Place::Element(shape) => self.element(chunk, at, shape, &mut on_row)?,
            };
        }
        Ok(())
    }

    /// The rest of the document, with the array emptied, to be parsed by the caller; an error when the document is
    /// not complete.
    pub fn finish(self) -> Result<Vec<u8>, RowsError> {
        let complete = self.place == Place::Rest
            && !self.string
            && self.depth == 0
            && self.rest.iter().any(|byte| !byte.is_ascii_whitespace());
        if complete { Ok(self.rest) } else { Err(RowsError::Truncated) }
    }

    /// Reads outside the array from `from` on and keeps what it reads; ends with the chunk or where the array begins.
    fn rest(&mut self, chunk: &[u8], from: usize) -> Result<usize, RowsError> {
        let mut at = from;
        while at < chunk.len() && self.place == Place::Rest {
            let byte = chunk[at];
            if self.string {
                self.rest_string(byte)?;
            } else {
                self.rest_token(byte)?;
            }
            at += 1;
        }
        self.keep(&chunk[from..at])?;
        Ok(at)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), RowsError> {
        if self.rest.len() + bytes.len() > self.limits.rest {
            return Err(RowsError::RestTooLarge(self.limits.rest));
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn rest_string(&mut self, byte: u8) -> Result<(), RowsError> {
        if let Some(key) = &mut self.key.reading {
            if key.len() >= self.limits.rest {
                return Err(RowsError::RestTooLarge(self.limits.rest));
            }
            key.push(byte);
        }
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => {
                self.string = false;
                self.end_of_key()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn end_of_key(&mut self) -> Result<(), RowsError> {
        let Some(key) = self.key.reading.take() else { return Ok(()) };
        // A key may be written with escapes, and the parser of the rest reads them.
        self.key.matched = serde_json::from_slice::<String>(&key).is_ok_and(|key| key == self.name);
        if self.key.matched && std::mem::replace(&mut self.found, true) {
            return Err(RowsError::Duplicate);
        }
        Ok(())
    }

    fn rest_token(&mut self, byte: u8) -> Result<(), RowsError> {
        if byte == b'[' && self.key.value_next {
            self.key.value_next = false;
            self.place = Place::Array(Expect::ValueOrEnd);
            return Ok(());
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return Ok(()),
            b'"' => {
                self.string = true;
                let is_key = self.depth == 1 && std::mem::take(&mut self.key.expected);
                self.key.reading = is_key.then(|| vec![b'"']);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.check_depth(self.depth)?;
                self.key.expected = self.depth == 1 && byte == b'{';
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' if self.depth == 1 => self.key.expected = true,
            b':' if self.depth == 1 && self.key.matched => {
                self.key = Key { value_next: true, ..Key::default() };
                return Ok(());
            }
            _ => {}
        }
        self.key.value_next = false;
        self.key.matched = false;
        Ok(())
    }

    fn check_depth(&self, depth: usize) -> Result<(), RowsError> {
        if depth > self.limits.depth { Err(RowsError::TooDeep(self.limits.depth)) } else { Ok(()) }
    }

    /// Reads between the elements of the array, up to the next element or past the array's end.
    fn between(&mut self, chunk: &[u8], from: usize, mut expect: Expect) -> Result<usize, RowsError> {
        for (offset, byte) in chunk[from..].iter().enumerate() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b',' if expect == Expect::CommaOrEnd => expect = Expect::Value,
                b']' if expect != Expect::Value => {
                    self.place = Place::Rest;
                    self.keep(b"]")?;
                    return Ok(from + offset + 1);
                }
                b',' | b']' | b'}' | b':' => return Err(RowsError::Malformed),
                _ if expect == Expect::CommaOrEnd => return Err(RowsError::Malformed),
                b'{' | b'[' | b'"' => {
                    self.place = Place::Element(Shape::Closed);
                    return Ok(from + offset);
                }
                _ => {
                    self.place = Place::Element(Shape::Open);
                    return Ok(from + offset);
                }
            }
        }
        self.place = Place::Array(expect);
        Ok(chunk.len())
    }

    /// Reads an element from `from` on, or its next part, and hands it out when it ends in this chunk.
    fn element<E: From<RowsError>>(
        &mut self,
        chunk: &[u8],
        from: usize,
        shape: Shape,
        on_row: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let end = match shape {
            Shape::Closed => self.end_of_closed(chunk, from)?,
            Shape::Open => chunk[from..].iter().position(|byte| ends_open(*byte)).map(|length| from + length),
        };
        let piece = &chunk[from..end.unwrap_or(chunk.len())];
        if self.partial.len() + piece.len() > self.limits.element {
            return Err(RowsError::ElementTooLarge(self.limits.element).into());
        }
        let Some(end) = end else {
            self.partial.extend_from_slice(piece);
            return Ok(chunk.len());
        };
        self.place = Place::Array(Expect::CommaOrEnd);
        if self.partial.is_empty() {
            on_row(piece)?;
        } else {
            self.partial.extend_from_slice(piece);
            on_row(&self.partial)?;
            self.partial.clear();
        }
        Ok(end)
    }

    /// Where an object, an array or a string ends (one past it), or `None` when that is in a later chunk.
    fn end_of_closed(&mut self, chunk: &[u8], from: usize) -> Result<Option<usize>, RowsError> {
        // The root is open and counts as one, the array itself as another.
        let base = 1;
        let most = self.limits.depth.saturating_sub(1);
        let mut depth = self.depth;
        let mut at = from;
        let mut string = self.string;
        let end = loop {
            if string {
                let Some(after) = end_of_string(chunk, at, &mut self.escaped) else { break None };
                string = false;
                at = after;
                if depth == base {
                    break Some(at);
                }
            }
            let Some(&byte) = chunk.get(at) else { break None };
            at += 1;
            match CLASS[usize::from(byte)] {
                OTHER => {}
                QUOTE => string = true,
                OPEN => {
                    depth += 1;
                    if depth > most {
                        return Err(RowsError::TooDeep(self.limits.depth));
                    }
                }
                _ => {
                    depth -= 1;
                    if depth == base {
                        break Some(at);
                    }
                }
            }
        };
        self.depth = depth;
        self.string = string;
        Ok(end)
    }
}

const OTHER: u8 = 0;
const QUOTE: u8 = 1;
const OPEN: u8 = 2;
const CLOSE: u8 = 3;

/// What a byte means outside strings.
static CLASS: [u8; 256] = {
    let mut class = [OTHER; 256];
    class[b'"' as usize] = QUOTE;
    class[b'{' as usize] = OPEN;
    class[b'[' as usize] = OPEN;
    class[b'}' as usize] = CLOSE;
    class[b']' as usize] = CLOSE;
    class
};

fn ends_open(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n')
}

/// One past the quote that ends the string which `bytes[at..]` is inside of.
#[inline]
fn end_of_string(bytes: &[u8], mut at: usize, escaped: &mut bool) -> Option<usize> {
    loop {
        if *escaped {
            bytes.get(at)?;
            at += 1;
            *escaped = false;
        }
        at = quote_or_backslash(bytes, at)?;
        let byte = bytes[at];
        at += 1;
        if byte == b'"' {
            return Some(at);
        }
        *escaped = true;
    }
}

/// The next quote or backslash. Most strings in reports are shorter than a call of `memchr` pays for, so the first
/// bytes are looked at eight at a time here.
#[inline]
fn quote_or_backslash(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    for _ in 0..4 {
        let Some(word) = bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes) else {
            return bytes.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|offset| at + offset);
        };
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        // A byte that became zero borrows into its high bit; the lowest such bit is always a true one.
        let hits = (quote.wrapping_sub(ONES) & !quote | backslash.wrapping_sub(ONES) & !backslash) & HIGH;
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', &bytes[at..]).map(|offset| at + offset)
}

impl From<RowsError> for Failure {
    fn from(error: RowsError) -> Self {
        match error {
            RowsError::Truncated => Self::broken(&error.to_string()),
            _ => Self::Acp(acp_core::Error::upstream(format!(
                "Google's answer can't be read: {error}. Ask for fewer rows or fields, or try again later."
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn split(document: &[u8], chunk: usize) -> Result<(Vec<Vec<u8>>, Vec<u8>), RowsError> {
        split_with(RowSplitter::new("rows"), document.chunks(chunk.max(1)))
    }

    fn split_with<'a>(
        mut splitter: RowSplitter,
        chunks: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(Vec<Vec<u8>>, Vec<u8>), RowsError> {
        let mut rows = Vec::new();
        for chunk in chunks {
            splitter.push(chunk, |row| {
                rows.push(row.to_vec());
                Ok::<_, RowsError>(())
            })?;
        }
        Ok((rows, splitter.finish()?))
    }

    fn texts(rows: &[Vec<u8>]) -> Vec<&str> {
        rows.iter().map(|row| std::str::from_utf8(row).unwrap()).collect()
    }

    #[test]
    fn rows_come_out_whatever_the_chunks() {
        let document = r#" { "a" : [1,{"rows":[9]}], "rows" : [ {"v":"x]}\"\\"} , [2,[3]] ,"s\"[",
            -1.5e3,true ,null, "é😀" ] , "z":{"rows":[]} } "#;
        for chunk in 1..=document.len() {
            let (rows, rest) = split(document.as_bytes(), chunk).unwrap();
            assert_eq!(
                texts(&rows),
                [r#"{"v":"x]}\"\\"}"#, "[2,[3]]", r#""s\"[""#, "-1.5e3", "true", "null", r#""é😀""#],
                "{chunk}"
            );
            let rest: Value = serde_json::from_slice(&rest).unwrap();
            assert_eq!(rest, json!({"a": [1, {"rows": [9]}], "rows": [], "z": {"rows": []}}));
        }
    }

    #[test]
    fn whole_elements_are_slices_of_the_chunk() {
        let document = br#"{"rows":[{"a":1},{"b":2}]}"#;
        let range = document.as_ptr_range();
        let mut splitter = RowSplitter::new("rows");
        splitter
            .push(document, |row| {
                assert!(range.contains(&row.as_ptr()));
                Ok::<_, RowsError>(())
            })
            .unwrap();
        assert_eq!(splitter.finish().unwrap(), br#"{"rows":[]}"#);
    }

    #[test]
    fn documents_without_an_array_stay_whole() {
        for document in [
            "{}",
            r#"{"rows":null}"#,
            r#"{"rows":{"rows":[1]}}"#,
            r#"{"rows":"[1]"}"#,
            r#"{"a":"rows","b":[1]}"#,
            r#"[{"rows":[1]}]"#,
            r#"["rows",[1]]"#,
            "null",
            r#""rows""#,
            r#"{"x":{"rows":[1]}}"#,
            r#"{"rows ":[1]}"#,
        ] {
            for chunk in 1..=document.len() {
                let (rows, rest) = split(document.as_bytes(), chunk).unwrap();
                assert!(rows.is_empty(), "{document}");
                assert_eq!(String::from_utf8(rest).unwrap(), document);
            }
        }
    }

    #[test]
    fn escaped_keys_are_the_same_key() {
        let (rows, _) = split(br#"{"r\u006fws":[1]}"#, 3).unwrap();
        assert_eq!(texts(&rows), ["1"]);
    }

    #[test]
    fn a_cut_document_is_never_complete() {
        let document = r#"{"a":"b","rows":[{"c":[1]},2,"d"],"e":{"f":1}}"#;
        for end in 0..document.len() {
            assert_eq!(split(&document.as_bytes()[..end], 5), Err(RowsError::Truncated), "{}", &document[..end]);
        }
        assert_eq!(split(b" \n", 1), Err(RowsError::Truncated));
        assert_eq!(split(br#""abc"#, 1), Err(RowsError::Truncated));
    }

    #[test]
    fn broken_arrays_and_doubled_keys_are_errors() {
        for document in
            [r#"{"rows":[,1]}"#, r#"{"rows":[1,]}"#, r#"{"rows":[1 2]}"#, r#"{"rows":[1}"#, r#"{"rows":[{} {}]}"#]
        {
            assert_eq!(split(document.as_bytes(), 3), Err(RowsError::Malformed), "{document}");
        }
        for document in [r#"{"rows":[1],"rows":[2]}"#, r#"{"rows":null,"rows":[2]}"#] {
            assert_eq!(split(document.as_bytes(), 3), Err(RowsError::Duplicate), "{document}");
        }
    }

    #[test]
    fn what_is_wrong_outside_is_left_for_the_parser_of_the_rest() {
        for document in [r#"{"rows":[1]]"#, r#"{"rows":[1]}}"#, r#"{"a":{],"rows":[1]}"#, r#"["rows":[1]]"#] {
            match split(document.as_bytes(), 4) {
                Ok((_, rest)) => assert!(serde_json::from_slice::<Value>(&rest).is_err(), "{document}"),
                Err(error) => assert_eq!(error, RowsError::Truncated, "{document}"),
            }
        }
    }

    #[test]
    fn bounds_hold() {
        let limits = RowLimits { element: 10, rest: 20, depth: 4 };
        let run = |document: &str, chunk: usize| {
            split_with(RowSplitter::with_limits("rows", limits), document.as_bytes().chunks(chunk)).map(|_| ())
        };
        for chunk in [1, 3, 100] {
            assert_eq!(run(r#"{"rows":["12345678"]}"#, chunk), Ok(()));
            assert_eq!(run(r#"{"rows":["123456789"]}"#, chunk), Err(RowsError::ElementTooLarge(10)));
            assert_eq!(run(r#"{"rows":[12345678901]}"#, chunk), Err(RowsError::ElementTooLarge(10)));
            assert_eq!(run(r#"{"a":"12345678901234567890"}"#, chunk), Err(RowsError::RestTooLarge(20)));
            assert_eq!(run(r#"{"12345678901234567890":1}"#, chunk), Err(RowsError::RestTooLarge(20)));
            assert_eq!(run(r#"{"rows":[[[]]]}"#, chunk), Ok(()));
            assert_eq!(run(r#"{"rows":[[[[]]]]}"#, chunk), Err(RowsError::TooDeep(4)));
            assert_eq!(run(r#"{"a":[[[]]]}"#, chunk), Ok(()));
            assert_eq!(run(r#"{"a":[[[[]]]]}"#, chunk), Err(RowsError::TooDeep(4)));
        }
    }

    #[test]
    fn an_error_of_the_receiver_ends_it() {
        let mut count = 0;
        let result = RowSplitter::new("rows").push(br#"{"rows":[1,2,3]}"#, |_| {
            count += 1;
            if count == 2 { Err(RowsError::Duplicate) } else { Ok(()) }
        });
        assert_eq!((result, count), (Err(RowsError::Duplicate), 2));
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z]{0,6}",
            any::<String>(),
            prop::collection::vec(
                prop::sample::select(vec!['"', '\\', '{', '[', ']', '}', ',', ':', 'é', '😀', '\n']),
                0..40
            )
            .prop_map(String::from_iter),
            Just("rows".to_owned()),
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any_text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((any_text(), inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    fn any_document() -> impl Strategy<Value = Value> {
        let entries = || prop::collection::vec((any_text(), any_value()), 0..4);
        (entries(), prop::option::of(prop::collection::vec(any_value(), 0..6)), entries()).prop_map(
            |(before, rows, after)| {
                let mut map = Map::new();
                map.extend(before);
                if let Some(rows) = rows {
                    map.insert("rows".to_owned(), Value::Array(rows));
                }
                for (key, value) in after {
                    map.entry(key).or_insert(value);
                }
                Value::Object(map)
            },
        )
    }

    /// Every character outside ASCII as an escape too, as Google's own serialiser writes some of them.
    fn escape(text: &str) -> String {
        let mut units = [0; 2];
        text.chars()
            .map(|character| match character {
                ' '..='~' | '\n' => character.to_string(),
                _ => character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
            })
            .collect()
    }

    proptest! {
        #[test]
        fn rows_and_rest_are_what_a_parser_sees(
            document in any_document(),
            pretty in any::<bool>(),
            escapes in any::<bool>(),
            cuts in prop::collection::vec(1_usize..20, 1..60),
        ) {
            let mut text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) }
                .unwrap();
            if escapes {
                text = escape(&text);
            }
            let mut chunks = Vec::new();
            let mut left = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if left.is_empty() { break; }
                let (chunk, more) = left.split_at((*cut).min(left.len()));
                chunks.push(chunk);
                left = more;
            }
            let (rows, rest) = split_with(RowSplitter::new("rows"), chunks.into_iter()).unwrap();
            let rows: Vec<Value> = rows.iter().map(|row| serde_json::from_slice(row).unwrap()).collect();
            let mut expected = document;
            let mut expected_rows = Vec::new();
            if let Some(Value::Array(array)) = expected.get_mut("rows") {
                expected_rows = std::mem::take(array);
            }
            prop_assert_eq!(rows, expected_rows);
            prop_assert_eq!(serde_json::from_slice::<Value>(&rest).unwrap(), expected);
        }
    }
}
