//! Rows that are held in memory by their key, for merging days, for sorting and for joining two answers.

use std::cmp::Ordering;

use acp_core::{Error, Result};
use acp_google::Keys;

use crate::filters::Metric;
use crate::search::Figures;

/// The most rows, and bytes of their keys, that are held: under 512 MiB together.
const ROWS_MAX: usize = 2_000_000;
const KEYS_MAX: usize = 256 << 20;

/// Rows by key, in the order in which they came.
#[derive(Debug)]
pub(crate) struct RowStore {
    keys: Keys,
    /// Those of each key, at its place.
    figures: Vec<Figures>,
    rows_max: usize,
    keys_max: usize,
    /// What to do when it is full.
    advice: &'static str,
}

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// The dimension at this place.
    Dimension(usize),
    Metric(Metric),
}

impl RowStore {
    pub(crate) fn new() -> Self {
        let advice = "Use a shorter window, fewer dimensions or a filter; or leave order_by out and add the dimension date, so that rows need not \
                      be merged.";
        Self::with_bounds(ROWS_MAX, KEYS_MAX, advice)
    }

    /// One of two stores that are joined: each has half of the room.
    pub(crate) fn half() -> Self {
        Self::with_bounds(ROWS_MAX / 2, KEYS_MAX / 2, "Use a shorter window, fewer dimensions or a filter.")
    }

    fn with_bounds(rows_max: usize, keys_max: usize, advice: &'static str) -> Self {
        Self { keys: Keys::new(rows_max, keys_max), figures: Vec::new(), rows_max, keys_max, advice }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a row; one whose key is known joins it.
    pub(crate) fn add<'a>(&mut self, key: impl Iterator<Item = &'a str>, figures: Figures) -> Result<()> {
        match self.keys.place(key) {
            None => return Err(self.too_many()),
            Some(place) if place < self.figures.len() => self.figures[place].join(&figures),
            Some(_) => self.figures.push(figures),
        }
        Ok(())
    }

    fn too_many(&self) -> Error {
        Error::invalid_arguments(format!(
            "The result is too large to be merged, joined or sorted here: at most {} rows with {} MiB of values fit. {}",
            self.rows_max,
            self.keys_max >> 20,
            self.advice
        ))
    }

    /// Hands out the rows in an order; rows that tie stay as they came.
    pub(crate) fn each_ordered(
        &self,
        order: &[(Column, bool)],
        mut on_row: impl FnMut(&[&str], &Figures) -> Result<()>,
    ) -> Result<()> {
        let mut values = Vec::new();
        for place in self.ordered(order) {
            values.clear();
            values.extend(self.values(place as usize));
            on_row(&values, self.figures(place as usize))?;
        }
        Ok(())
    }

    /// The places of the rows in an order; rows that tie stay as they came.
    pub(crate) fn ordered(&self, order: &[(Column, bool)]) -> Vec<u32> {
        let mut places: Vec<u32> = (0..self.len() as u32).collect();
        if !order.is_empty() {
            places.sort_by(|one, two| self.compare(*one as usize, *two as usize, order));
        }
        places
    }

    /// The place of the row that has the key of another store's row.
    pub(crate) fn find(&self, other: &Self, place: usize) -> Option<u32> {
        self.keys.find(other.values(place)).map(|place| place as u32)
    }

    /// The place of the row whose key is this one value.
    pub(crate) fn find_value(&self, value: &str) -> Option<u32> {
        self.keys.find(std::iter::once(value)).map(|place| place as u32)
    }

    /// The figures of a row.
    pub(crate) fn figures(&self, place: usize) -> &Figures {
        &self.figures[place]
    }

    fn compare(&self, one: usize, two: usize, order: &[(Column, bool)]) -> Ordering {
        for (column, descending) in order {
            let ordering = match column {
                Column::Dimension(place) => {
                    let (one, two) = (self.values(one).nth(*place), self.values(two).nth(*place));
                    if *descending { two.cmp(&one) } else { one.cmp(&two) }
                }
                Column::Metric(metric) => {
                    let value = |place: usize| self.figures[place].get(*metric);
                    match (value(one), value(two)) {
                        (Some(one), Some(two)) if *descending => two.total_cmp(&one),
                        (Some(one), Some(two)) => one.total_cmp(&two),
                        // What has no value is last in either direction.
                        (one, two) => two.is_some().cmp(&one.is_some()),
                    }
                }
            };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        Ordering::Equal
    }

    /// The values of a row's key.
    pub(crate) fn values(&self, place: usize) -> impl Iterator<Item = &str> {
        self.keys.values(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(clicks: f64, impressions: f64, position: Option<f64>) -> Figures {
        Figures { clicks, impressions, ctr: clicks / impressions, position }
    }

    fn rows(store: &RowStore, order: &[(Column, bool)]) -> Vec<String> {
        let mut rows = Vec::new();
        store
            .each_ordered(order, |key, figures| {
                rows.push(format!("{} {} {:?}", key.join("/"), figures.clicks, figures.position));
                Ok(())
            })
            .unwrap();
        rows
    }

    #[test]
    fn rows_of_one_key_join_with_positions_weighted_and_ctr_anew() {
        let mut store = RowStore::new();
        store.add(["a", "b"].into_iter(), figures(1.0, 10.0, Some(2.0))).unwrap();
        store.add(["ab", ""].into_iter(), figures(5.0, 50.0, None)).unwrap();
        store.add(["a", "b"].into_iter(), figures(2.0, 30.0, Some(6.0))).unwrap();
        store
            .each_ordered(&[], |key, figures| {
                if key == ["a", "b"] {
                    assert_eq!((figures.clicks, figures.impressions, figures.ctr), (3.0, 40.0, 0.075));
                    assert_eq!(figures.position, Some(5.0), "not the plain mean, which is 4");
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(rows(&store, &[]), ["a/b 3 Some(5.0)", "ab/ 5 None"]);
    }

    #[test]
    fn an_order_is_over_all_rows_and_stable() {
        let mut store = RowStore::new();
        for (key, clicks, position) in [("b", 1.0, Some(3.0)), ("a", 1.0, None), ("c", 4.0, Some(1.5))] {
            store.add([key].into_iter(), figures(clicks, 10.0, position)).unwrap();
        }
        let first = |column, descending| {
            rows(&store, &[(column, descending)]).iter().map(|row| row[..1].to_owned()).collect::<String>()
        };
        assert_eq!(first(Column::Metric(Metric::Clicks), true), "cba");
        assert_eq!(first(Column::Metric(Metric::Clicks), false), "bac");
        assert_eq!(first(Column::Metric(Metric::Position), true), "bca", "no position is last");
        assert_eq!(first(Column::Metric(Metric::Position), false), "cba", "no position is last");
        assert_eq!(first(Column::Dimension(0), false), "abc");
    }

    #[test]
    fn beyond_the_bound_it_says_what_to_do() {
        let mut store = RowStore::with_bounds(2, 10, "Use a shorter window.");
        for key in ["a", "b", "a"] {
            store.add([key].into_iter(), figures(1.0, 1.0, None)).unwrap();
        }
        let error = store.add(["c"].into_iter(), figures(1.0, 1.0, None)).unwrap_err();
        assert!(error.message().contains("shorter window"), "{error}");
        let mut store = RowStore::with_bounds(100, 10, "");
        assert!(store.add(["0123456789"].into_iter(), figures(1.0, 1.0, None)).is_err());
    }

    #[test]
    fn rows_of_another_store_are_found_by_their_key() {
        let (mut one, mut two) = (RowStore::new(), RowStore::half());
        for key in [["a", "b"], ["ab", ""]] {
            one.add(key.into_iter(), figures(1.0, 1.0, None)).unwrap();
        }
        for key in [["", "ab"], ["ab", ""]] {
            two.add(key.into_iter(), figures(2.0, 2.0, None)).unwrap();
        }
        assert_eq!([two.find(&one, 0), two.find(&one, 1)], [None, Some(1)]);
        two.add(["ab"].into_iter(), figures(3.0, 3.0, None)).unwrap();
        assert_eq!((two.find_value("ab"), two.find_value("b")), (Some(2), None));
        assert_eq!((two.len(), two.figures(2).clicks), (3, 3.0));
    }

    #[test]
    fn many_rows_keep_their_figures() {
        let mut store = RowStore::new();
        for round in 0..3 {
            for number in 0..20_000 {
                let key = format!("query {number}");
                store.add([key.as_str()].into_iter(), figures(f64::from(number + round), 1.0, None)).unwrap();
            }
        }
        assert_eq!(store.len(), 20_000);
        let mut number = 0.0;
        store
            .each_ordered(&[], |key, figures| {
                assert_eq!((key[0], figures.clicks), (format!("query {number}").as_str(), 3.0 * number + 3.0));
                number += 1.0;
                Ok(())
            })
            .unwrap();
    }
}
