//! The bulk export of Search Console, computed from the same searches as its reports.

use std::sync::Arc;

use super::RowsTable;
use crate::bigquery::catalogue::{Dataset, Days, Entry, PROJECT};
use crate::bigquery::schema::{Field, Type};
use crate::bigquery::sql::Row;
use crate::bigquery::value::Value;
use crate::clock::MICROS;
use crate::search_console::SearchConsole;
use crate::search_console::export::{EXPORTED_SITE, ExportRow};

/// The name of the data set.
pub(crate) const DATASET: &str = "searchconsole";

/// The columns for search appearances, each with its bit if the sandbox's searches have it.
const APPEARANCES: [(&str, Option<u8>); 24] = [
    ("is_amp_top_stories", None),
    ("is_amp_blue_link", None),
    ("is_job_listing", None),
    ("is_job_details", None),
    ("is_tpf_qa", None),
    ("is_tpf_faq", None),
    ("is_tpf_howto", None),
    ("is_weblite", None),
    ("is_action", None),
    ("is_events_listing", None),
    ("is_events_details", None),
    ("is_search_appearance_android_app", None),
    ("is_amp_story", None),
    ("is_amp_image_result", None),
    ("is_video", Some(3)),
    ("is_organic_shopping", None),
    ("is_review_snippet", Some(2)),
    ("is_special_announcement", None),
    ("is_recipe_feature", None),
    ("is_recipe_rich_snippet", None),
    ("is_subscribed_content", None),
    ("is_translated_result", Some(4)),
    ("is_product_snippets", Some(0)),
    ("is_merchant_listings", Some(1)),
];

/// The data set.
pub(crate) fn dataset(search: &Arc<SearchConsole>) -> Dataset {
    let mut dataset = Dataset::new(PROJECT, DATASET, "EU", "Bulk export of Search Console");
    let days = search.exported_days();
    let modified = (i64::from(*days.end()) + 2) * 86_400_000;
    for (name, by_page) in [("searchdata_site_impression", false), ("searchdata_url_impression", true)] {
        let search = Arc::clone(search);
        let make = move || search.exported(by_page).iter().map(|row| cells(row, by_page)).collect();
        let table = RowsTable::new(dataset.table_id(name), schema(by_page), make).partitioned_by(0, false);
        let mut entry = Entry::new(table, modified);
        entry.days = Some(Days { field: Some("data_date".into()), require_filter: false });
        dataset.add(entry);
    }
    let log =
        RowsTable::new(dataset.table_id("ExportLog"), log_schema(), move || days.clone().flat_map(log_rows).collect());
    dataset.add(Entry::new(log, modified));
    dataset
}

fn schema(by_page: bool) -> Vec<Field> {
    let field = |name: &str, kind| Field::new(name, kind);
    let mut fields = vec![field("data_date", Type::Date), field("site_url", Type::String)];
    if by_page {
        fields.push(field("url", Type::String));
    }
    fields.extend([field("query", Type::String), field("is_anonymized_query", Type::Bool)]);
    if by_page {
        fields.push(field("is_anonymized_discover", Type::Bool));
    }
    fields.extend(["country", "search_type", "device"].map(|name| field(name, Type::String)));
    if by_page {
        fields.extend(APPEARANCES.iter().map(|(name, _)| field(name, Type::Bool)));
    }
    let positions = if by_page { "sum_position" } else { "sum_top_position" };
    fields.extend(["impressions", "clicks", positions].map(|name| field(name, Type::Int64)));
    fields
}

fn cells(row: &ExportRow, by_page: bool) -> Row {
    let mut cells = vec![Value::Date(row.day), Value::from(EXPORTED_SITE)];
    if by_page {
        cells.push(Value::from(row.url.as_str()));
    }
    let query = if row.feed { Value::Null } else { Value::from(row.query.as_str()) };
    cells.extend([query, Value::Bool(row.hidden)]);
    if by_page {
        cells.push(Value::Bool(false));
    }
    cells.extend([row.country, row.kind, row.device].map(Value::from));
    if by_page {
        let has = |bit: Option<u8>| bit.is_some_and(|bit| row.appearance >> bit & 1 == 1);
        cells.extend(APPEARANCES.iter().map(|(_, bit)| Value::Bool(has(*bit))));
    }
    let whole = |n: u64| Value::Int64(i64::try_from(n).unwrap_or(i64::MAX));
    let positions = if row.feed { Value::Null } else { whole(row.positions) };
    cells.extend([whole(row.impressions), whole(row.clicks), positions]);
    cells
}

fn log_schema() -> Vec<Field> {
    vec![
        Field::new("agenda", Type::String),
        Field::new("namespace", Type::String),
        Field::new("data_date", Type::Date),
        Field::new("epoch_version", Type::Int64),
        Field::new("publish_time", Type::Timestamp),
    ]
}

fn log_rows(day: i32) -> [Row; 2] {
    ["SEARCHDATA_SITE_IMPRESSION", "SEARCHDATA_URL_IMPRESSION"].map(|namespace| {
        let published = (i64::from(day) + 2) * 86_400 * MICROS + 5 * 3_600 * MICROS;
        vec![
            Value::from("SEARCHDATA"),
            Value::from(namespace),
            Value::Date(day),
            Value::Int64(0),
            Value::Timestamp(published),
        ]
    })
}
