//! The bulk tables: rows that are computed from the seed and their number, so that a million of them costs no memory.

use std::ops::Range;
use std::sync::Arc;

use crate::bigquery::schema::{Field, Type};
use crate::bigquery::sql::{Row, Table, TableId};
use crate::bigquery::value::Value;
use crate::clock::MICROS;
use crate::events::mix;

/// Rows of the largest one.
pub(crate) const ROWS: u64 = 3_000_000;

/// Rows are two seconds apart, from 2026-01-01T00:00:00Z on.
const FIRST_MICROS: i64 = 1_767_225_600 * MICROS;

const CATEGORIES: [&str; 8] = ["chair", "desk", "lamp", "sofa", "bed", "shelf", "table", "stool"];

/// Name, type, and the logical bytes of each value (0: some values are null).
const COLUMNS: [(&str, Type, u64); 10] = [
    ("id", Type::Int64, 8),
    ("created", Type::Timestamp, 8),
    ("day", Type::Date, 8),
    ("category", Type::String, 0),
    ("sku", Type::String, 14),
    ("quantity", Type::Int64, 8),
    ("price", Type::Float64, 8),
    ("amount", Type::Numeric, 16),
    ("returned", Type::Bool, 1),
    ("note", Type::String, 0),
];

/// A bulk table.
pub(crate) struct BulkTable {
    id: TableId,
    seed: u64,
    count: u64,
    schema: Vec<Field>,
    categories: [Arc<str>; 8],
}

impl BulkTable {
    /// The first `count` rows of the seed.
    pub(crate) fn new(id: TableId, seed: u64, count: u64) -> Self {
        let schema = COLUMNS.iter().map(|(name, kind, _)| Field::new(name, kind.clone())).collect();
        Self { id, seed, count, schema, categories: CATEGORIES.map(Into::into) }
    }

    fn luck(&self, index: u64) -> u64 {
        mix(self.seed ^ 0xB17C, index)
    }

    fn cell(&self, index: u64, column: usize) -> Value {
        let luck = self.luck(index);
        // Below `ROWS`: no cast loses anything.
        let micros = FIRST_MICROS + index as i64 * 2 * MICROS + (luck % 1_000_000) as i64;
        let quantity = 1 + (luck >> 8) % 9;
        let cents = 500 + (luck >> 16) % 250_000;
        match COLUMNS[column].0 {
            "id" => Value::Int64(index as i64),
            "created" => Value::Timestamp(micros),
            "day" => Value::Date(i32::try_from(micros / MICROS / 86_400).unwrap_or(0)),
            "category" => Value::String(Arc::clone(&self.categories[(luck >> 40) as usize % CATEGORIES.len()])),
            "sku" => Value::from(format!("SKU-{:08X}", (luck >> 24) as u32)),
            "quantity" => Value::Int64(quantity as i64),
            "price" => Value::Float64(cents as f64 / 100.0),
            "amount" => Value::Numeric(Arc::new(bigdecimal::BigDecimal::new((quantity * cents).into(), 2))),
            "returned" => Value::Bool(luck.is_multiple_of(17)),
            _ if luck.is_multiple_of(5) => Value::Null,
            _ => Value::from(format!("order {index}, box {}", luck % 1_000)),
        }
    }
}

impl Table for BulkTable {
    fn id(&self) -> &TableId {
        &self.id
    }

    fn schema(&self) -> &[Field] {
        &self.schema
    }

    fn row_count(&self) -> u64 {
        self.count
    }

    fn column_bytes(&self, column: usize, rows: Range<u64>) -> u64 {
        let (start, end) = (rows.start.min(self.count), rows.end.min(self.count));
        match COLUMNS[column].2 {
            0 if COLUMNS[column].0 == "category" => (start..end)
                .map(|i| 2 + CATEGORIES[(self.luck(i) >> 40) as usize % CATEGORIES.len()].len() as u64)
                .sum(),
            0 => (start..end).map(|index| self.note_bytes(index)).sum(),
            bytes => bytes * end.saturating_sub(start),
        }
    }

    fn rows(&self, rows: Range<u64>, columns: Vec<usize>) -> Box<dyn Iterator<Item = Row> + '_> {
        let rows = rows.start.min(self.count)..rows.end.min(self.count);
        Box::new(rows.map(move |index| columns.iter().map(|column| self.cell(index, *column)).collect()))
    }
}

impl BulkTable {
    /// The bytes of a note, without making it.
    fn note_bytes(&self, index: u64) -> u64 {
        let luck = self.luck(index);
        if luck.is_multiple_of(5) {
            return 0;
        }
        let digits = |n: u64| u64::from(n.checked_ilog10().unwrap_or(0)) + 1;
        2 + "order , box ".len() as u64 + digits(index) + digits(luck % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::super::logical_bytes;
    use super::*;

    #[test]
    fn column_bytes_are_those_of_the_values() {
        let table = BulkTable::new(TableId::new("p", "d", "t"), 42, 2_000);
        for (column, (name, ..)) in COLUMNS.iter().enumerate() {
            let wanted: u64 = table.rows(5..1_500, vec![column]).map(|row| logical_bytes(&row[0])).sum();
            assert_eq!(table.column_bytes(column, 5..1_500), wanted, "{name}");
        }
    }
}
