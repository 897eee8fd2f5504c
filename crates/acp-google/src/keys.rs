//! Keys of rows that are held in memory, for merging, sorting and joining answers.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Ends each value of a key. No byte of UTF-8 is this one.
const END: u8 = 0xFF;

/// Keys, each once and in the order in which they came. A key is a list of texts, and its place the number of those before it.
///
/// The texts lie in one piece of memory, so a key costs its bytes and some twenty more.
#[derive(Debug)]
pub struct Keys {
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: RandomState,
    most: usize,
    most_bytes: usize,
}

impl Keys {
    /// No keys yet, and at most so many, whose texts have at most so many bytes.
    pub fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
            most: most.min(u32::MAX as usize),
            most_bytes,
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The place of a key, which is added if it is new; `None` when there is no room for it.
    pub fn place<'a>(&mut self, key: impl Iterator<Item = &'a str>) -> Option<usize> {
        let start = self.bytes.len();
        for value in key {
            self.bytes.extend_from_slice(value.as_bytes());
            self.bytes.push(END);
        }
        let Self { bytes, ends, index, hasher, .. } = self;
        let (known, key) = bytes.split_at(start);
        let hash = hasher.hash_one(key);
        let at = |place: u32| slice(known, ends, place as usize);
        if let Some(place) = index.find(hash, |place| at(*place) == key) {
            let place = *place as usize;
            self.bytes.truncate(start);
            return Some(place);
        }
        if ends.len() >= self.most || bytes.len() > self.most_bytes {
            self.bytes.truncate(start);
            return None;
        }
        index.insert_unique(hash, ends.len() as u32, |place| hasher.hash_one(at(*place)));
        ends.push(bytes.len());
        Some(self.ends.len() - 1)
    }

    /// The place of a key, if it is known.
    pub fn find<'a>(&self, key: impl Iterator<Item = &'a str>) -> Option<usize> {
        let mut bytes = Vec::new();
        for value in key {
            bytes.extend_from_slice(value.as_bytes());
            bytes.push(END);
        }
        let same = |place: &u32| slice(&self.bytes, &self.ends, *place as usize) == bytes;
        self.index.find(self.hasher.hash_one(bytes.as_slice()), same).map(|place| *place as usize)
    }

    /// The texts of a key.
    pub fn values(&self, place: usize) -> impl Iterator<Item = &str> {
        slice(&self.bytes, &self.ends, place).split_inclusive(|byte| *byte == END).map(|value| {
            // It was a text when it was added.
            std::str::from_utf8(&value[..value.len() - 1]).unwrap_or_default()
        })
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[usize], place: usize) -> &'a [u8] {
    let start = place.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start..ends[place]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_place_and_texts_do_not_run_together() {
        let mut keys = Keys::new(100, 1000);
        for (key, place) in [(["a", "b"], 0), (["ab", ""], 1), (["", "ab"], 2), (["a", "b"], 0)] {
            assert_eq!(keys.place(key.into_iter()), Some(place));
        }
        assert_eq!(keys.len(), 3);
        assert_eq!(keys.values(1).collect::<Vec<_>>(), ["ab", ""]);
        assert_eq!([keys.find(["", "ab"].into_iter()), keys.find(["b", "a"].into_iter())], [Some(2), None]);
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut keys = Keys::new(2, 1000);
        let mut place = |key: &str| keys.place([key].into_iter());
        assert_eq!([place("a"), place("b"), place("c"), place("a")], [Some(0), Some(1), None, Some(0)]);
        let mut keys = Keys::new(100, 10);
        assert_eq!(keys.place(["0123456789"].into_iter()), None);
        assert_eq!((keys.len(), keys.bytes()), (0, 0));
    }

    #[test]
    fn many_keys_are_found_again() {
        let mut keys = Keys::new(100_000, 10_000_000);
        for _ in 0..2 {
            for number in 0..20_000 {
                assert_eq!(keys.place([format!("query {number}").as_str()].into_iter()), Some(number));
            }
        }
    }

    #[test]
    fn a_key_of_no_text_is_one() {
        let mut keys = Keys::new(10, 10);
        assert_eq!(keys.place(std::iter::empty()), Some(0));
        assert_eq!(keys.place(std::iter::empty()), Some(0));
        assert_eq!(keys.values(0).count(), 0);
    }
}
