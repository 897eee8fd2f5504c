//! The exports of Google Analytics and Search Console, recognised by their columns, with queries that are known to work on
//! them and the traps that are known not to.

use google_cloud_bigquery_v2::model::TableFieldSchema;
use jiff::ToSpan;
use jiff::civil::Date;
use serde_json::{Value, json};

use crate::resources::Place;
use crate::shards::{Family, Grouped, name};

/// Columns that only the daily tables of the Analytics export have together.
const GA4: [&str; 5] = ["event_date", "event_timestamp", "event_name", "event_params", "user_pseudo_id"];
/// Columns that only the tables of the Search Console export have together.
const SEARCH: [&str; 5] = ["data_date", "site_url", "query", "is_anonymized_query", "impressions"];

/// A table of the Search Console export, by property.
pub(crate) const SITE_IMPRESSION: &str = "searchdata_site_impression";
/// A table of the Search Console export, by page.
pub(crate) const URL_IMPRESSION: &str = "searchdata_url_impression";

/// Whether a schema is that of the Analytics export.
pub(crate) fn is_ga4(fields: &[TableFieldSchema]) -> bool {
    has_all(fields, &GA4)
}

/// Whether a schema is that of the Search Console export.
pub(crate) fn is_search_console(fields: &[TableFieldSchema]) -> bool {
    has_all(fields, &SEARCH)
}

fn has_all(fields: &[TableFieldSchema], names: &[&str]) -> bool {
    names.iter().all(|name| fields.iter().any(|field| field.name == *name))
}

/// The family of daily Analytics tables of a dataset, if it has one.
pub(crate) fn ga4_family<'a>(grouped: &'a Grouped<'_>) -> Option<&'a Family> {
    grouped
        .families
        .iter()
        .find(|family| family.prefix == "events_")
        .or_else(|| grouped.families.iter().find(|family| family.prefix == "events_intraday_"))
}

/// What a model should know about an Analytics export before it writes SQL.
pub(crate) fn ga4(dataset: &Place, grouped: &Grouped<'_>, family: &Family) -> Value {
    let other = |prefix: &str| {
        let found = grouped.families.iter().find(|family| family.prefix == prefix);
        let days = found.map(|family| family.days.len()).unwrap_or_default();
        let single = grouped.single.iter().filter(|table| name(table).starts_with(prefix)).count();
        json!({"tables": days + single, "latest": found.and_then(Family::latest).map(|day| day.to_string())})
    };
    let (first, last) = window(family);
    let property = dataset.dataset.as_deref().and_then(|name| name.strip_prefix("analytics_"));
    json!({
        "property_id": property,
        "daily": {
            "pattern": format!("{dataset}.{}", family.pattern()),
            "first": family.first().map(|day| day.to_string()),
            "latest": family.latest().map(|day| day.to_string()),
            "days": family.days.len(),
        },
        "intraday": other("events_intraday_"),
        "fresh": other("events_fresh_"),
        "traps": [
            "events_* also matches events_intraday_* and events_fresh_*: always write _TABLE_SUFFIX BETWEEN 'YYYYMMDD' AND 'YYYYMMDD', which leaves both out. An open range (>= alone) counts days twice.",
            "Write days out. CURRENT_DATE() or a subquery in the suffix filter reads every shard.",
            "event_date is text (YYYYMMDD) in the property's time zone; event_timestamp is microseconds in UTC.",
            "A parameter's value lies in string_value, int_value, float_value or double_value: take the right one, or COALESCE them.",
            "A session is user_pseudo_id with the parameter ga_session_id: neither alone. Without consent user_pseudo_id is NULL.",
            "Figures differ from Analytics reports: those model users and leave rows out below thresholds. Daily tables change for up to 3 days.",
            "Columns were added over the years: SELECT * over old and new shards fails or leaves columns out.",
        ],
        "snippets": ga4_snippets(dataset, family, first, last),
    })
}

/// The last week that a family has.
fn window(family: &Family) -> (Date, Date) {
    let last = family.latest().unwrap_or(Date::ZERO);
    (last.saturating_sub(6.days()), last)
}

fn ga4_snippets(dataset: &Place, family: &Family, first: Date, last: Date) -> Value {
    let (first, last) = (first.strftime("%Y%m%d").to_string(), last.strftime("%Y%m%d").to_string());
    let from = format!("FROM `{dataset}.{}` WHERE _TABLE_SUFFIX BETWEEN '{first}' AND '{last}'", family.pattern());
    let table = format!("`{dataset}.{}`", family.pattern());
    json!([
        {
            "question": "Events by day and name",
            "sql": format!("SELECT PARSE_DATE('%Y%m%d', event_date) AS date, event_name, COUNT(*) AS events {from} GROUP BY date, event_name ORDER BY date, events DESC"),
        },
        {
            "question": "Sessions and users by day",
            "sql": format!("SELECT event_date, COUNT(DISTINCT CONCAT(user_pseudo_id, CAST((SELECT value.int_value FROM UNNEST(event_params) WHERE key = 'ga_session_id') AS STRING))) AS sessions, COUNT(DISTINCT user_pseudo_id) AS users {from} GROUP BY event_date ORDER BY event_date"),
        },
        {
            "question": "Page views by page",
            "sql": format!("SELECT (SELECT value.string_value FROM UNNEST(event_params) WHERE key = 'page_location') AS page, COUNT(*) AS views {from} AND event_name = 'page_view' GROUP BY page ORDER BY views DESC"),
        },
        {
            "question": "A parameter of any type",
            "sql": format!("SELECT event_name, (SELECT COALESCE(value.string_value, CAST(value.int_value AS STRING), CAST(value.float_value AS STRING), CAST(value.double_value AS STRING)) FROM UNNEST(event_params) WHERE key = 'engagement_time_msec') AS engagement_time_msec {from} AND event_name = 'user_engagement'"),
        },
        {
            "question": "Which parameters there are",
            "sql": format!("SELECT event_name, param.key, COUNT(*) AS events FROM {table}, UNNEST(event_params) AS param WHERE _TABLE_SUFFIX BETWEEN '{first}' AND '{last}' GROUP BY event_name, param.key ORDER BY events DESC"),
        },
        {
            "question": "Purchases and revenue by first user source",
            "sql": format!("SELECT traffic_source.source, traffic_source.medium, COUNT(*) AS purchases, SUM(ecommerce.purchase_revenue) AS revenue {from} AND event_name = 'purchase' GROUP BY 1, 2 ORDER BY revenue DESC"),
        },
    ])
}

/// What a model should know about a Search Console export before it writes SQL.
pub(crate) fn search_console(dataset: &Place, tables: &[&str], modified: Option<Date>, until: Date) -> Value {
    let from = until.saturating_sub(27.days());
    let days = format!("data_date BETWEEN '{from}' AND '{until}'");
    let mut snippets = Vec::new();
    if tables.contains(&SITE_IMPRESSION) {
        let table = format!("`{dataset}.{SITE_IMPRESSION}`");
        snippets.push(json!({
            "question": "Clicks, impressions and position by query",
            "sql": format!("SELECT query, SUM(clicks) AS clicks, SUM(impressions) AS impressions, SUM(sum_top_position) / SUM(impressions) + 1 AS position FROM {table} WHERE {days} AND search_type = 'WEB' AND NOT is_anonymized_query GROUP BY query ORDER BY clicks DESC"),
        }));
        snippets.push(json!({
            "question": "What anonymised queries hide, by day",
            "sql": format!("SELECT data_date, SUM(clicks) AS clicks, SUM(IF(is_anonymized_query, clicks, 0)) AS anonymised_clicks, SUM(impressions) AS impressions, SUM(IF(is_anonymized_query, impressions, 0)) AS anonymised_impressions FROM {table} WHERE {days} AND search_type = 'WEB' GROUP BY data_date ORDER BY data_date"),
        }));
        snippets.push(json!({
            "question": "By country and device",
            "sql": format!("SELECT country, device, SUM(clicks) AS clicks, SUM(impressions) AS impressions FROM {table} WHERE {days} AND search_type = 'WEB' GROUP BY country, device ORDER BY clicks DESC"),
        }));
    }
    if tables.contains(&URL_IMPRESSION) {
        let table = format!("`{dataset}.{URL_IMPRESSION}`");
        snippets.push(json!({
            "question": "By page",
            "sql": format!("SELECT url, SUM(clicks) AS clicks, SUM(impressions) AS impressions, SUM(sum_position) / SUM(impressions) + 1 AS position FROM {table} WHERE {days} AND search_type = 'WEB' GROUP BY url ORDER BY clicks DESC"),
        }));
        snippets.push(json!({
            "question": "Queries with several pages",
            "sql": format!("SELECT query, COUNT(DISTINCT url) AS pages, SUM(clicks) AS clicks FROM {table} WHERE {days} AND search_type = 'WEB' AND NOT is_anonymized_query GROUP BY query HAVING pages > 1 ORDER BY clicks DESC"),
        }));
    }
    if tables.contains(&"ExportLog") {
        snippets.push(json!({
            "question": "Which days have been exported",
            "sql": format!("SELECT namespace, MIN(data_date) AS first, MAX(data_date) AS latest, COUNT(DISTINCT data_date) AS days FROM `{dataset}.ExportLog` GROUP BY namespace"),
        }));
    }
    json!({
        "tables": tables,
        "last_modified": modified.map(|day| day.to_string()),
        "traps": [
            "Filter data_date with days written out: the tables are partitioned by it.",
            "Positions are sums from 0 on: position = SUM(sum_top_position) / SUM(impressions) + 1 (sum_position by page). Never average them.",
            "Anonymised queries have is_anonymized_query = true and no query: leave them in for totals, out for lists of queries.",
            "Figures by page (searchdata_url_impression) count a search once for each page, those by property once: do not compare them.",
            "The export has no data from before it was switched on. Days are Pacific time.",
        ],
        "snippets": snippets,
    })
}
