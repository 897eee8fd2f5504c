//! What was planted in BigQuery, for `/__sandbox/facts`.

use serde_json::{Value, json};

use super::catalogue::{DATA_PROJECT, DOMAIN_PROJECT, PROJECT, PROJECTS};
use super::tables::{analytics, bulk, every_type, search, shop};
use crate::clock::{self, date_of};
use crate::events::HOME_ZONE;
use crate::search_console::export::EXPORTED_SITE;
use crate::server::Shared;

/// The projects that `projects.list` shows.
pub(crate) fn projects() -> Value {
    PROJECTS.iter().filter(|project| project.listed).map(|project| json!(project.id)).collect()
}

/// Names and days.
pub(crate) fn facts(shared: &Shared) -> Value {
    let today = clock::day_number(clock::today(&clock::zone(HOME_ZONE)));
    let (first, last, gap) = analytics::days(today);
    let exported = shared.search_console.exported_days();
    let day = |day: i32| date_of(day).to_string();
    let main = analytics::main_property(&shared.world);
    json!({
        "project": PROJECT,
        "domain_project": DOMAIN_PROJECT,
        "data_project": DATA_PROJECT,
        "ga4_export": {
            "dataset": main.map(analytics::dataset_id),
            "location": "EU",
            "property": main.map(|main| main.id.as_str()),
            "first": day(first),
            "last": day(last),
            "gap": day(gap),
            "today": day(today),
        },
        "search_console_export": {
            "dataset": search::DATASET,
            "location": "EU",
            "site": EXPORTED_SITE,
            "first": day(*exported.start()),
            "last": day(*exported.end()),
        },
        "warehouse": {
            "dataset": "warehouse",
            "location": "US",
            "bulk": {"bulk": bulk::ROWS, "bulk_1m": 1_000_000, "bulk_100k": 100_000},
            "wide_leaves": every_type::WIDE_LEAVES,
        },
        "many": {"dataset": "many", "tables": shop::MANY_TABLES},
        "regional": {"dataset": "regional", "location": "europe-west3"},
        "writable": {"loads": "US", "loads_eu": "EU"},
    })
}
