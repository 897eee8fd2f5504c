//! The connector for Search Console, a Google for it, and a second way to ask that Google.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use jiff::ToSpan;
use jiff::civil::Date;
use serde_json::{Value, json};

pub(super) use crate::google::{Answer, Google};
use crate::google::{Connector, encoded};

/// The domain property, whose data come from the event log.
pub(super) const DOMAIN: &str = "sc-domain:nordwind.example";
/// The prefix of the shop alone.
pub(super) const SHOP: &str = "https://www.nordwind.example/";
/// A prefix whose metadata are written as the documentation has them.
pub(super) const BLOG: &str = "https://www.nordwind.example/blog/";
/// Hundreds of thousands of rows.
pub(super) const BULK: &str = "sc-domain:bulk.example";
/// Nothing was ever shown.
pub(super) const NOTHING: &str = "https://new-launch.example/";

/// The connector, running; calls are about the domain unless they say otherwise.
pub(super) struct Gsc(Connector);

impl Gsc {
    pub(super) fn start(google: &Google) -> Self {
        Self(Connector::start("gsc", google, DOMAIN, &[], None))
    }

    /// `search_analytics` with the full credential.
    pub(super) fn search(&mut self, arguments: &Value) -> Answer {
        self.call("search_analytics", arguments, &json!({}))
    }

    /// As [`end_well`](Connector::end_well).
    pub(super) fn end_well(self) {
        self.0.end_well();
    }
}

impl Deref for Gsc {
    type Target = Connector;

    fn deref(&self) -> &Connector {
        &self.0
    }
}

impl DerefMut for Gsc {
    fn deref_mut(&mut self) -> &mut Connector {
        &mut self.0
    }
}

/// What only tests about Search Console ask of a Google.
pub(super) trait SearchConsole {
    fn fact(&self, name: &str) -> String;
    /// A day so many days before the last final one.
    fn final_day(&self, before: i64) -> String;
    fn switch(&self, switches: &Value);
    /// The questions that were answered or refused so far.
    fn searches(&self) -> usize;
    /// Every row of a question, asked without the connector.
    fn truth(&self, site: &str, question: &Value) -> Vec<Value>;
}

impl SearchConsole for Google {
    fn fact(&self, name: &str) -> String {
        self.facts()["search_console"][name].as_str().unwrap_or_else(|| panic!("no fact {name}")).to_owned()
    }

    fn final_day(&self, before: i64) -> String {
        let last: Date = self.fact("last_final").parse().expect("a day");
        last.saturating_sub(before.days()).to_string()
    }

    fn switch(&self, switches: &Value) {
        self.sandbox().search_console().set_json(switches).unwrap_or_else(|why| panic!("{switches}: {why}"));
    }

    fn searches(&self) -> usize {
        self.asked("/searchAnalytics/query").len()
    }

    fn truth(&self, site: &str, question: &Value) -> Vec<Value> {
        let mut rows: BTreeMap<String, Value> = BTreeMap::new();
        let path = format!("/webmasters/v3/sites/{}/searchAnalytics/query", encoded(site));
        let mut question = question.clone();
        question["rowLimit"] = json!(25_000);
        let mut start = 0;
        loop {
            question["startRow"] = json!(start);
            let answer = self.ask("POST", &path, &question.to_string());
            let answer: Value =
                serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer:.300}"));
            let Some(page) = answer["rows"].as_array() else {
                assert!(answer["responseAggregationType"].is_string(), "{question}: {answer}");
                return rows.into_values().collect();
            };
            start += page.len();
            rows.extend(page.iter().map(|row| (row["keys"].to_string(), row.clone())));
        }
    }
}

/// That two tables have the same rows, in whatever order; a truth has its dimensions under `keys`.
#[track_caller]
pub(super) fn assert_same(one: &[Value], two: &[Value], dimensions: &[&str], what: impl std::fmt::Display) {
    let (one, two) = (lines(one, dimensions), lines(two, dimensions));
    let only = |these: &[String], others: &[String]| {
        these.iter().filter(|line| others.binary_search(line).is_err()).take(3).cloned().collect::<Vec<_>>()
    };
    let (here, there) = (only(&one, &two), only(&two, &one));
    assert!(
        one == two,
        "{what}: {} and {} rows; only in the first {here:?}, in the second {there:?}",
        one.len(),
        two.len()
    );
}

/// The rows of a truth or of an answer as one line each, in order.
fn lines<'a>(rows: impl IntoIterator<Item = &'a Value>, dimensions: &[&str]) -> Vec<String> {
    let line = |row: &Value| {
        let keys = match row["keys"].as_array() {
            Some(keys) => keys.clone(),
            None => dimensions.iter().map(|name| row[*name].clone()).collect(),
        };
        let number = |name: &str| row[name].as_f64().map(|number| format!("{number:.6}"));
        let numbers = ["clicks", "impressions", "ctr", "position"].map(number);
        format!("{} {numbers:?}", json!(keys))
    };
    let mut lines: Vec<String> = rows.into_iter().map(line).collect();
    lines.sort();
    lines
}
