//! Rows of several reports of the same dimensions, held by their key: for joining reports of different metrics and date ranges, for
//! merging days, and for an order over all of it.

use std::borrow::Cow;
use std::cmp::Ordering;

use acp_core::{Error, Result};
use acp_google::Keys;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::amount;
use crate::report::Row;

/// The most rows that are held, and the most bytes of their keys and values.
const ROWS_MAX: usize = 2_000_000;
const BYTES_MAX: usize = 512 << 20;
/// Ends each value of a row. No byte of UTF-8 is this one.
const END: u8 = 0xFF;

/// Rows by key. Each part is what one report, or the days of one, say about a key.
#[derive(Debug)]
pub(crate) struct HeldRows {
    pub(crate) keys: Keys,
    parts: Vec<Part>,
    /// Bytes of the values.
    bytes: usize,
    bytes_max: usize,
}

/// The values of a part.
#[derive(Debug)]
enum Part {
    /// As Google wrote them.
    Texts { places: Vec<u32>, ends: Vec<usize>, bytes: Vec<u8> },
    /// Added up over days.
    Sums { width: usize, there: Vec<bool>, sums: Vec<Decimal> },
}

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// The dimension at this place.
    Dimension(usize),
    /// The metric at this place of a part.
    Metric { part: usize, place: usize },
}

impl HeldRows {
    /// No rows. Parts have so many metrics each; where they are summed, rows of one key add up.
    pub(crate) fn new(widths: &[usize], summed: bool) -> Self {
        Self::with_bounds(widths, summed, ROWS_MAX, BYTES_MAX)
    }

    fn with_bounds(widths: &[usize], summed: bool, rows_max: usize, bytes_max: usize) -> Self {
        let part = |width: &usize| match summed {
            true => Part::Sums { width: *width, there: Vec::new(), sums: Vec::new() },
            false => Part::Texts { places: Vec::new(), ends: Vec::new(), bytes: Vec::new() },
        };
        let parts = widths.iter().map(part).collect();
        Self { keys: Keys::new(rows_max, bytes_max), parts, bytes: 0, bytes_max }
    }

    /// Adds a row of a part.
    pub(crate) fn add(&mut self, part: usize, row: &Row<'_>) -> Result<()> {
        let place = self.place(row.dimension_values.iter().map(|value| &*value.value))?;
        self.bytes += self.parts[part].add(place, row)?;
        match self.keys.bytes() + self.bytes > self.bytes_max {
            true => Err(too_many()),
            false => Ok(()),
        }
    }

    /// The place of a key, which is held from now on.
    pub(crate) fn place<'a>(&mut self, key: impl Iterator<Item = &'a str>) -> Result<usize> {
        self.keys.place(key).ok_or_else(too_many)
    }

    /// Whether a part has a row of this key.
    pub(crate) fn has(&self, part: usize, place: usize) -> bool {
        match &self.parts[part] {
            Part::Texts { places, .. } => places.get(place).is_some_and(|number| *number > 0),
            Part::Sums { there, .. } => there.get(place).copied().unwrap_or_default(),
        }
    }

    /// The values of a part's row; none where it has no row of this key.
    pub(crate) fn values(&self, part: usize, place: usize) -> Vec<Cow<'_, str>> {
        if !self.has(part, place) {
            return Vec::new();
        }
        match &self.parts[part] {
            Part::Texts { places, ends, bytes } => {
                let number = places[place] as usize - 1;
                let start = number.checked_sub(1).map_or(0, |before| ends[before]);
                // They were texts when they were added.
                let text = |value: &'_ [u8]| String::from_utf8_lossy(&value[..value.len() - 1]).into_owned().into();
                bytes[start..ends[number]].split_inclusive(|byte| *byte == END).map(text).collect()
            }
            Part::Sums { width, sums, .. } => {
                sums[place * width..(place + 1) * width].iter().map(|sum| amount::digits(*sum).into()).collect()
            }
        }
    }

    /// A metric as a number to order by.
    fn number(&self, part: usize, metric: usize, place: usize) -> Option<f64> {
        match &self.parts[part] {
            Part::Sums { width, sums, .. } if self.has(part, place) => sums[place * width + metric].to_f64(),
            _ => self.values(part, place).get(metric)?.parse().ok(),
        }
    }

    /// The sum of a metric over all rows of a part.
    pub(crate) fn sum(&self, part: usize, metric: usize) -> Result<Decimal> {
        let mut sum = Decimal::ZERO;
        for place in 0..self.keys.len() {
            if let Some(value) = self.values(part, place).get(metric) {
                amount::add(&mut sum, amount::read(value)?.unwrap_or_default())?;
            }
        }
        Ok(sum)
    }

    /// The places of all rows in an order (largest first where it says so). What is equal is ordered by its key, and what has no value
    /// comes last.
    pub(crate) fn ordered(&self, order: &[(Column, bool)]) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.keys.len()).collect();
        let numbers: Vec<Vec<Option<f64>>> = order
            .iter()
            .map(|(column, _)| match column {
                Column::Dimension(_) => Vec::new(),
                Column::Metric { part, place: metric } => {
                    places.iter().map(|place| self.number(*part, *metric, *place)).collect()
                }
            })
            .collect();
        places.sort_by(|one, two| {
            for ((column, descending), numbers) in order.iter().zip(&numbers) {
                let ordering = match column {
                    Column::Dimension(dimension) => {
                        let values = (self.keys.values(*one).nth(*dimension), self.keys.values(*two).nth(*dimension));
                        if *descending { values.1.cmp(&values.0) } else { values.0.cmp(&values.1) }
                    }
                    Column::Metric { .. } => match (numbers[*one], numbers[*two]) {
                        (Some(one), Some(two)) if *descending => two.total_cmp(&one),
                        (Some(one), Some(two)) => one.total_cmp(&two),
                        (one, two) => two.is_some().cmp(&one.is_some()),
                    },
                };
                if ordering != Ordering::Equal {
                    return ordering;
                }
            }
            self.keys.values(*one).cmp(self.keys.values(*two))
        });
        places
    }
}

impl Part {
    /// Adds a row, and says how many bytes that took.
    fn add(&mut self, place: usize, row: &Row<'_>) -> Result<usize> {
        match self {
            Self::Texts { places, ends, bytes } => {
                if places.len() <= place {
                    places.resize(place + 1, 0);
                }
                if places[place] > 0 {
                    return Err(Error::upstream(
                        "The report is not complete: Google sent a row twice. Run it again; if the range includes today, end it yesterday, \
                         so that it does not change.",
                    ));
                }
                let before = bytes.len();
                for value in &row.metric_values {
                    bytes.extend_from_slice(value.value.as_bytes());
                    bytes.push(END);
                }
                ends.push(bytes.len());
                places[place] = ends.len() as u32;
                Ok(bytes.len() - before + size_of::<usize>() + size_of::<u32>())
            }
            Self::Sums { width, there, sums } => {
                let before = sums.len();
                if there.len() <= place {
                    there.resize(place + 1, false);
                    sums.resize((place + 1) * *width, Decimal::ZERO);
                }
                there[place] = true;
                for (sum, value) in sums[place * *width..].iter_mut().zip(&row.metric_values) {
                    amount::add(sum, amount::read(&value.value)?.unwrap_or_default())?;
                }
                Ok((sums.len() - before) * size_of::<Decimal>())
            }
        }
    }
}

fn too_many() -> Error {
    Error::invalid_arguments(format!(
        "The report is too large to be joined, merged or sorted here: at most {ROWS_MAX} rows with {} MiB of values fit. Use a shorter \
         date range, fewer dimensions or a filter; or ask for at most 10 metrics of one date range with split never, which needs no memory.",
        BYTES_MAX >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RowValue;

    fn row<'a>(key: &[&'a str], values: &[&'a str]) -> Row<'a> {
        let cells = |texts: &[&'a str]| texts.iter().map(|text| RowValue { value: Cow::Borrowed(*text) }).collect();
        Row { dimension_values: cells(key), metric_values: cells(values) }
    }

    #[test]
    fn reports_are_joined_on_their_dimensions_and_what_one_lacks_is_not_made_up() {
        let mut held = HeldRows::new(&[2, 1], false);
        held.add(0, &row(&["a", "x"], &["1", ""])).unwrap();
        held.add(0, &row(&["b", "x"], &["2", "0.5"])).unwrap();
        held.add(1, &row(&["b", "x"], &["7"])).unwrap();
        held.add(1, &row(&["c", ""], &["8"])).unwrap();
        assert_eq!(held.values(0, 0), ["1", ""]);
        assert_eq!(held.values(1, 0), Vec::<String>::new());
        assert_eq!((held.values(0, 1), held.values(1, 1)), (vec!["2".into(), "0.5".into()], vec![Cow::from("7")]));
        assert_eq!((held.has(0, 2), held.has(1, 2)), (false, true));
        assert_eq!(held.keys.values(2).collect::<Vec<_>>(), ["c", ""]);
        let twice = held.add(1, &row(&["c", ""], &["9"])).unwrap_err();
        assert!(twice.message().contains("twice"), "{twice}");
    }

    #[test]
    fn days_add_up_digit_by_digit() {
        let mut held = HeldRows::new(&[2], true);
        for (key, events, revenue) in [("a", "3", "0.1"), ("b", "1", "1e-05"), ("a", "4", "0.2")] {
            held.add(0, &row(&[key], &[events, revenue])).unwrap();
        }
        assert_eq!(held.values(0, 0), ["7", "0.3"]);
        assert_eq!(held.values(0, 1), ["1", "0.00001"]);
        assert_eq!(amount::digits(held.sum(0, 0).unwrap()), "8");
        assert!(held.add(0, &row(&["a"], &["many", "1"])).is_err());
    }

    #[test]
    fn the_order_is_over_all_rows_and_settled_by_the_key() {
        for summed in [false, true] {
            let mut held = HeldRows::new(&[1, 1], summed);
            for (key, value) in [("ab", "9"), ("b", "10"), ("a", "9")] {
                held.add(0, &row(&[key], &[value])).unwrap();
            }
            held.add(1, &row(&["only there"], &["99"])).unwrap();
            let keys = |order: &[(Column, bool)]| -> Vec<String> {
                held.ordered(order).into_iter().flat_map(|place| held.keys.values(place)).map(str::to_owned).collect()
            };
            let metric = Column::Metric { part: 0, place: 0 };
            assert_eq!(keys(&[(metric, true)]), ["b", "a", "ab", "only there"]);
            assert_eq!(keys(&[(metric, false)]), ["a", "ab", "b", "only there"]);
            assert_eq!(keys(&[(Column::Dimension(0), true)]), ["only there", "b", "ab", "a"]);
            assert_eq!(keys(&[]), ["a", "ab", "b", "only there"]);
        }
    }

    #[test]
    fn beyond_the_bound_it_says_what_to_do() {
        for mut held in
            [HeldRows::with_bounds(&[1], false, 2, 10_000), HeldRows::with_bounds(&[1], true, 100, 2 * 16 + 2)]
        {
            for key in ["a", "b"] {
                let _ = held.add(0, &row(&[key], &["1"]));
            }
            let error = held.add(0, &row(&["c"], &["1"])).unwrap_err();
            assert!(error.message().contains("2000000 rows") && error.message().contains("shorter"), "{error}");
        }
    }
}
