//! Sums and differences of what Google prints as decimal text, in decimals of 28 digits: no noise of binary fractions, and more digits
//! than the doubles that Google prints have.

use acp_core::{Error, Result};
use rust_decimal::Decimal;

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
