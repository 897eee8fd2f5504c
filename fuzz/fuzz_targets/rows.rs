//! Rows of an answer that arrives in pieces: the same ones whatever the pieces, and an error where something is missing.
#![no_main]

use acp_fuzz::{Dice, Fields, depth, is_json};
use acp_google::{RowLimits, RowSplitter, RowsError};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

fuzz_target!(|input: &[u8]| {
    let (mut dice, document) = Dice::take(input);
    // The usual bounds can't be reached by small inputs; the others can.
    let limits = match dice.roll(3) {
        0 => RowLimits { element: 1 + dice.roll(40), rest: 1 + dice.roll(80), depth: 1 + dice.roll(6) },
        _ => RowLimits::default(),
    };
    let whole = split(limits, [document].into_iter());
    let pieces = split(limits, dice.cut(document).into_iter());
    assert_eq!(whole.0, pieces.0, "rows");
    assert_eq!(whole.1.as_ref().ok(), pieces.1.as_ref().ok(), "rest");

    let Some(text) = std::str::from_utf8(document).ok().filter(|text| is_json(text)) else { return };
    if limits == RowLimits::default() && depth(text) <= limits.depth {
        complete(text, whole);
    }
    let object = text.trim_end().ends_with('}');
    if object && limits == RowLimits::default() {
        let cut = &document[..dice.roll(text.trim_end().len())];
        let (_, end) = split(limits, dice.cut(cut).into_iter());
        assert!(end.is_err(), "a document that was cut looks complete");
    }
});

type Split = (Vec<Vec<u8>>, Result<Vec<u8>, RowsError>);

fn split<'a>(limits: RowLimits, pieces: impl Iterator<Item = &'a [u8]>) -> Split {
    let mut splitter = RowSplitter::with_limits("rows", limits);
    let mut rows = Vec::new();
    for piece in pieces {
        let pushed = splitter.push(piece, |row| {
            rows.push(row.to_vec());
            Ok::<_, RowsError>(())
        });
        if let Err(error) = pushed {
            return (rows, Err(error));
        }
    }
    (rows, splitter.finish())
}

/// What comes out of a valid document: its rows as they are, and everything else.
fn complete(text: &str, (rows, rest): Split) {
    let fields = match Fields::of(text) {
        Some(fields) => fields.0,
        // A key that is no text at all, such as half a pair of surrogates.
        None if text.trim_start().starts_with('{') => return,
        None => Vec::new(),
    };
    let found: Vec<&RawValue> = fields.iter().filter(|(key, _)| key == "rows").map(|(_, value)| *value).collect();
    match found.as_slice() {
        [list] if list.get().starts_with('[') => {
            let list: Vec<&RawValue> = serde_json::from_str(list.get()).expect("a list");
            let list: Vec<&[u8]> = list.iter().map(|row| row.get().as_bytes()).collect();
            assert_eq!(rows, list);
            let rest = String::from_utf8(rest.expect("a valid document")).expect("text");
            let rest = Fields::of(&rest).expect("the rest of an object is an object").0;
            assert_eq!(rest.len(), fields.len());
            for ((key, value), (expected_key, expected)) in rest.iter().zip(&fields) {
                let expected = if key == "rows" { "[]" } else { expected.get() };
                assert_eq!((key, value.get()), (expected_key, expected));
            }
        }
        [] | [_] => {
            assert!(rows.is_empty());
            assert_eq!(rest.expect("a valid document"), text.as_bytes());
        }
        _ => assert_eq!(rest, Err(RowsError::Duplicate)),
    }
}
