//! Tables that are split by day: `events_20260901`, `events_20260902`, … are one family, `events_*`.

use std::collections::BTreeMap;

use jiff::ToSpan;
use jiff::civil::Date;

use crate::api::ListFormatTable;
use crate::sql::day;

/// Gaps of a family that are told; a family may have been off for years.
const GAPS: usize = 10;

/// A family of shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// What all names begin with, `_` included where there is one: `events_`.
    pub(crate) prefix: String,
    pub(crate) days: Vec<Date>,
    /// Other tables that the pattern would match: `events_*` also matches `events_intraday_20260901`.
    pub(crate) also_matches: Vec<String>,
    /// Views among those: with one of them the pattern can't be queried at all.
    pub(crate) matches_view: bool,
}

/// A dataset's tables: families, and the tables that are none.
#[derive(Debug, Default)]
pub(crate) struct Grouped<'a> {
    pub(crate) families: Vec<Family>,
    pub(crate) single: Vec<&'a ListFormatTable>,
}

impl Family {
    /// The pattern by which all shards are queried.
    pub(crate) fn pattern(&self) -> String {
        format!("{}*", self.prefix)
    }

    pub(crate) fn first(&self) -> Option<Date> {
        self.days.first().copied()
    }

    pub(crate) fn latest(&self) -> Option<Date> {
        self.days.last().copied()
    }

    /// The name of a day's shard.
    pub(crate) fn shard(&self, day: Date) -> String {
        format!("{}{}", self.prefix, day.strftime("%Y%m%d"))
    }

    /// The days between the first and the latest that have no shard, as ranges, and how many more there are.
    pub(crate) fn gaps(&self) -> (Vec<(Date, Date)>, usize) {
        let gaps: Vec<(Date, Date)> = self
            .days
            .windows(2)
            .filter_map(|pair| {
                let (after, before) = (pair[0].checked_add(1.day()).ok()?, pair[1].checked_sub(1.day()).ok()?);
                (after <= before).then_some((after, before))
            })
            .collect();
        let more = gaps.len().saturating_sub(GAPS);
        // The latest are those that matter.
        (gaps[more..].to_vec(), more)
    }
}

/// The name of a table of a list.
pub(crate) fn name(table: &ListFormatTable) -> &str {
    table.table_reference.as_ref().map_or("", |reference| reference.table_id.as_str())
}

/// The beginning and the day of a name that may be a shard's.
fn split(name: &str) -> Option<(&str, Date)> {
    let at = name.len().checked_sub(8).filter(|at| name.is_char_boundary(*at))?;
    let (prefix, suffix) = name.split_at(at);
    // A longer number is no day.
    if prefix.is_empty() || prefix.ends_with(|mark: char| mark.is_ascii_digit()) {
        return None;
    }
    Some((prefix, day(suffix)?))
}

/// Finds the families of a dataset: at least two days, no views, and no table that has the name without a day, since dated
/// copies of a table are not parts of it.
pub(crate) fn group(tables: &[ListFormatTable]) -> Grouped<'_> {
    let mut days: BTreeMap<&str, Vec<Date>> = BTreeMap::new();
    for table in tables.iter().filter(|table| !is_view(table)) {
        if let Some((prefix, day)) = split(name(table)) {
            days.entry(prefix).or_default().push(day);
        }
    }
    let has = |wanted: &str| tables.iter().any(|table| name(table) == wanted);
    days.retain(|prefix, days| days.len() >= 2 && !has(prefix) && !has(prefix.trim_end_matches('_')));
    let families = days
        .iter()
        .map(|(prefix, days)| {
            let mut days = days.clone();
            days.sort_unstable();
            days.dedup();
            let others: Vec<&ListFormatTable> = tables
                .iter()
                .filter(|table| {
                    let other = name(table);
                    other.starts_with(prefix) && split(other).is_none_or(|(own, _)| own != *prefix || is_view(table))
                })
                .collect();
            let mut also_matches: Vec<String> = others
                .iter()
                .map(|table| {
                    split(name(table)).map_or_else(|| name(table).to_owned(), |(prefix, _)| format!("{prefix}*"))
                })
                .collect();
            also_matches.sort_unstable();
            also_matches.dedup();
            Family {
                prefix: (*prefix).to_owned(),
                days,
                also_matches,
                matches_view: others.iter().any(|table| is_view(table)),
            }
        })
        .collect();
    let single = tables
        .iter()
        .filter(|table| is_view(table) || split(name(table)).is_none_or(|(prefix, _)| !days.contains_key(prefix)))
        .collect();
    Grouped { families, single }
}

/// Whether a table is a view of any kind.
pub(crate) fn is_view(table: &ListFormatTable) -> bool {
    matches!(table.r#type.as_str(), "VIEW" | "MATERIALIZED_VIEW")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tables(names: &[(&str, &str)]) -> Vec<ListFormatTable> {
        let table = |(name, kind): &(&str, &str)| json!({"type": kind, "tableReference": {"tableId": name}});
        names.iter().map(|entry| serde_json::from_value(table(entry)).unwrap()).collect()
    }

    #[test]
    fn families_are_told_from_tables_that_only_look_like_them() {
        let tables = tables(&[
            ("events_20260901", "TABLE"),
            ("events_20260902", "TABLE"),
            ("events_20260905", "TABLE"),
            ("events_intraday_20260906", "TABLE"),
            ("events_intraday_20260907", "TABLE"),
            ("events_summary", "VIEW"),
            // Dated copies of a table.
            ("orders", "TABLE"),
            ("orders_20260101", "TABLE"),
            ("orders_20260201", "TABLE"),
            // No day, a single one, a view, a longer number.
            ("codes_20261301", "TABLE"),
            ("codes_20261302", "TABLE"),
            ("once_20260101", "TABLE"),
            ("v_20260101", "VIEW"),
            ("v_20260102", "VIEW"),
            ("n120260101", "TABLE"),
            ("n120260102", "TABLE"),
            ("20260101", "TABLE"),
        ]);
        let grouped = group(&tables);
        let prefixes: Vec<&str> = grouped.families.iter().map(|family| family.prefix.as_str()).collect();
        assert_eq!(prefixes, ["events_", "events_intraday_"]);
        let events = &grouped.families[0];
        assert_eq!(events.days.len(), 3);
        assert_eq!(events.also_matches, ["events_intraday_*", "events_summary"]);
        assert!(events.matches_view);
        let gap = |day: &str| day.parse::<Date>().unwrap();
        assert_eq!(events.gaps(), (vec![(gap("2026-09-03"), gap("2026-09-04"))], 0));
        assert_eq!(grouped.single.len(), tables.len() - 5);
    }
}
