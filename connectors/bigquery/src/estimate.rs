//! What a query will cost, from its dry run, and the cap that BigQuery itself gets.
//!
//! On demand, BigQuery bills the bytes that a query reads, rounded up to a MiB and at least 10 MiB for each table
//! ("BigQuery pricing", on-demand compute).

use serde_json::{Map, Value, json};

const MIB: u64 = 1 << 20;
const TIB: f64 = (1_u64 << 40) as f64;
/// The least that is billed for a table.
const TABLE_MIN: u64 = 10 * MIB;

/// An estimate, and why it may be none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// Bytes that the dry run counts; 0 where it hides them.
    pub(crate) bytes: u64,
    /// As Google calls it: `PRECISE`, `LOWER_BOUND`, `UPPER_BOUND`, `UNKNOWN`.
    pub(crate) accuracy: String,
    /// Tables that the query reads.
    pub(crate) tables: usize,
    pub(crate) price_per_tib_usd: f64,
    /// Why the bytes say nothing about the cost; empty where they do.
    pub(crate) unestimable: Vec<&'static str>,
}

impl Estimate {
    /// The cost of the bytes that are read, in USD, as the specification computes it (9.2).
    pub(crate) fn usd(&self) -> f64 {
        usd(self.bytes, self.price_per_tib_usd)
    }

    /// The least that is billed for these bytes.
    pub(crate) fn billed_low(&self) -> u64 {
        if self.bytes == 0 { 0 } else { whole_mib(self.bytes).max(TABLE_MIN) }
    }

    /// The most: every table may be rounded up to its minimum.
    pub(crate) fn billed_high(&self) -> u64 {
        if self.bytes == 0 { 0 } else { whole_mib(self.bytes).saturating_add(TABLE_MIN * self.tables.max(1) as u64) }
    }

    pub(crate) fn usd_low(&self) -> f64 {
        usd(self.billed_low(), self.price_per_tib_usd)
    }

    pub(crate) fn usd_high(&self) -> f64 {
        usd(self.billed_high(), self.price_per_tib_usd)
    }

    /// For the host and for validate_query.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let fields = json!({
            "total_bytes_processed": self.bytes,
            "accuracy": self.accuracy,
            "billed_low_bytes": self.billed_low(),
            "billed_high_bytes": self.billed_high(),
            "cost_low_usd": rounded(self.usd_low()),
            "cost_high_usd": rounded(self.usd_high()),
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

fn whole_mib(bytes: u64) -> u64 {
    bytes.div_ceil(MIB).saturating_mul(MIB)
}

/// The price of bytes, in USD.
pub(crate) fn usd(bytes: u64, price_per_tib_usd: f64) -> f64 {
    bytes as f64 / TIB * price_per_tib_usd
}

/// Six decimals, as every amount of an answer has.
pub(crate) fn rounded(usd: f64) -> f64 {
    (usd * 1e6).round() / 1e6
}

/// The bytes that a limit in USD pays for: what BigQuery gets as `maximumBytesBilled`. It comes from the limit and never
/// from the estimate, which billing may exceed by its rounding. Never 0, which some readers take for no cap at all; with a
/// single byte nothing runs that is billed.
pub(crate) fn cap(limit_usd: f64, price_per_tib_usd: f64) -> i64 {
    // The cast stays within the bounds, whatever the limit.
    let mut bytes = (limit_usd / price_per_tib_usd * TIB).floor() as i64;
    while bytes > 0 && usd(bytes.unsigned_abs(), price_per_tib_usd) > limit_usd {
        // One below; where a float has no room for that, a hair below.
        bytes -= (bytes >> 52).max(1);
    }
    bytes.max(1)
}

/// Bytes as people read them. As the specification prints them: in powers of 1024.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for larger in ["KB", "MB", "GB", "TB", "PB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn estimate(bytes: u64, tables: usize) -> Estimate {
        Estimate { bytes, accuracy: "PRECISE".to_owned(), tables, price_per_tib_usd: 6.25, unestimable: Vec::new() }
    }

    #[test]
    fn amounts_are_those_of_the_specification() {
        let example = estimate(674_810_580_992, 1);
        assert!((example.usd() - 3.836).abs() < 1e-3);
        assert_eq!(human_bytes(example.bytes), "628.5 GB");
        assert_eq!(rounded(usd(9_663_676_416, 6.25)), 0.054932);
        assert_eq!(
            (human_bytes(0), human_bytes(1023), human_bytes(1536)),
            ("0 B".into(), "1023 B".into(), "1.5 KB".into())
        );
    }

    #[test]
    fn billing_rounds_up_for_each_table() {
        let small = estimate(1, 13);
        assert_eq!((small.billed_low(), small.billed_high()), (10 * MIB, MIB + 13 * 10 * MIB));
        let none = estimate(0, 3);
        assert_eq!((none.billed_low(), none.billed_high()), (0, 0));
    }

    #[test]
    fn the_cap_is_never_zero_and_never_above_the_limit() {
        assert_eq!(cap(0.0, 6.25), 1);
        assert_eq!(cap(6.25, 6.25), 1 << 40);
        assert_eq!(cap(1e300, 0.01), i64::MAX);
    }

    proptest! {
        #[test]
        fn a_cap_pays_for_no_more_than_the_limit(limit in 0.0_f64..1e6, price in 0.01_f64..1e4) {
            let cap = cap(limit, price);
            prop_assert!(cap >= 1);
            prop_assert!(cap == 1 || usd(cap.unsigned_abs(), price) <= limit);
        }
    }
}
