//! Sums and differences of what Google prints as decimal text, in decimals of 28 digits: no noise of binary fractions, and more digits
//! than the doubles that Google prints have.

use acp_core::{Error, Result};
use rust_decimal::Decimal;

use crate::report::Row;

/// Metrics whose rows add up to the total whatever the dimensions are, where each event is in one row.
const CONTROLS: &[&str] = &["eventCount", "screenPageViews", "totalRevenue", "purchaseRevenue", "grossPurchaseRevenue"];

/// The sum of one column, to hold against Google's total.
#[derive(Debug)]
pub(crate) struct ControlSum {
    column: Option<(usize, String)>,
    sum: Decimal,
}

impl ControlSum {
    /// Of the first of these metrics that can be held against its total, if there is one.
    pub(crate) fn of(metrics: &[String]) -> Self {
        let place = metrics.iter().position(|name| CONTROLS.contains(&name.as_str()));
        Self { column: place.map(|place| (place, metrics[place].clone())), sum: Decimal::ZERO }
    }

    /// Place and name of the metric.
    pub(crate) fn column(&self) -> Option<(usize, &str)> {
        self.column.as_ref().map(|(place, name)| (*place, name.as_str()))
    }

    /// Adds a row. A sum that can't be told is none: the report does not depend on it.
    pub(crate) fn add(&mut self, row: &Row<'_>) {
        let Some((place, _)) = self.column else { return };
        let value = row.metric_values.get(place).map(|value| read(&value.value));
        let sum = match value {
            Some(Ok(value)) => self.sum.checked_add(value.unwrap_or_default()),
            _ => None,
        };
        match sum {
            Some(sum) => self.sum = sum,
            None => self.column = None,
        }
    }

    /// Takes a sum that was made elsewhere.
    pub(crate) fn set(&mut self, sum: Decimal) {
        self.sum = sum;
    }

    /// Name, sum and total, where they differ by more than a hundredth.
    pub(crate) fn gap(&self, totals: &[impl AsRef<str>]) -> Option<(&str, Decimal, Decimal)> {
        let (place, name) = self.column()?;
        let total = read(totals.get(place)?.as_ref()).ok()??;
        let gap = (total - self.sum).abs();
        (gap * Decimal::ONE_HUNDRED > total.abs()).then_some((name, self.sum, total))
    }
}

/// A metric's value; an empty one is none.
pub(crate) fn read(text: &str) -> Result<Option<Decimal>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let exact = match text.contains(['e', 'E']) {
        true => Decimal::from_scientific(text),
        false => Decimal::from_str_exact(text),
    };
    exact.map(Some).map_err(|_| {
        Error::upstream("A value of Google's report is not a number that can be added up. Run it again; use run_report if it stays.")
    })
}

/// A sum. Nothing that Analytics counts comes near the bound.
pub(crate) fn add(sum: &mut Decimal, more: Decimal) -> Result<()> {
    *sum = sum
        .checked_add(more)
        .ok_or_else(|| Error::upstream("The sum of a column is beyond 28 digits. Ask for fewer days or metrics."))?;
    Ok(())
}

/// The digits of an amount, without zeros at the end.
pub(crate) fn digits(amount: Decimal) -> String {
    amount.normalize().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RowValue;

    #[test]
    fn a_sum_is_held_against_the_total() {
        let names = ["sessions", "eventCount"].map(str::to_owned);
        let sum_of = |texts: &[&str]| {
            let mut control = ControlSum::of(&names);
            for text in texts {
                let values = ["9", text].map(|value| RowValue { value: (*value).into() });
                control.add(&Row { metric_values: values.into(), ..Row::default() });
            }
            control
        };
        let fits = |texts: &[&str], total: &str| sum_of(texts).gap(&["1", total]).is_none();
        assert!(fits(&["60", "40"], "100") && fits(&["99"], "100") && fits(&[], "0") && fits(&["x", "1"], "100"));
        assert!(!fits(&["2"], "100") && !fits(&["103"], "100") && !fits(&[], "5") && !fits(&["5"], "0"));
        assert_eq!(sum_of(&["2"]).gap(&["1", "100"]).unwrap().0, "eventCount");
        assert!(ControlSum::of(&names[..1]).column().is_none(), "sessions are in several rows");
    }

    #[test]
    fn sums_have_no_noise_of_binary_fractions() {
        let mut sum = Decimal::ZERO;
        for text in ["0.1", "0.2", "1e-05", "6346.26", "0.30000000000000004"] {
            add(&mut sum, read(text).unwrap().unwrap()).unwrap();
        }
        assert_eq!(digits(sum), "6346.86001000000000004");
        assert_eq!(digits(read("1e+15").unwrap().unwrap()), "1000000000000000");
        assert_eq!(read(" ").unwrap(), None);
        for text in ["x", "NaN", "1e999", "--1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
