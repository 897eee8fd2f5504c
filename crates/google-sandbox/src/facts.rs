//! What was planted: tests and demos compare answers with it.

use serde_json::{Value, json};

use crate::analytics_data::bulk::{DAYS, ROWS_PER_DAY};
use crate::analytics_data::catalogue::BULK_ITEM;
use crate::analytics_data::report;
use crate::analytics_data::request::ReportRequest;
use crate::bigquery::facts as bigquery;
use crate::clock;
use crate::identities::{FULL_EMAIL, Identity, LIMITED_EMAIL, PERSON_EMAIL, Sight};
use crate::server::Shared;
use crate::world::{ACCOUNTS, Kind, Property, World};

/// The body of `GET /__sandbox/facts`.
pub(crate) fn facts(shared: &Shared) -> Value {
    let world = &shared.world;
    let main = world.properties.iter().find(|p| p.kind == Kind::Main);
    let bulk = world.properties.iter().find(|p| p.kind == Kind::Bulk);
    json!({
        "seed": world.seed,
        "today": main.map(|p| clock::today(&p.zone).to_string()),
        "identities": {
            "full": identity(world, FULL_EMAIL, Sight::Full),
            "limited": identity(world, LIMITED_EMAIL, Sight::Limited),
            "oauth": identity(world, PERSON_EMAIL, Sight::Full),
        },
        "accounts": ACCOUNTS
            .iter()
            .map(|account| json!({"id": account.id, "name": account.name}))
            .collect::<Vec<_>>(),
        "properties": world.properties.iter().map(property).collect::<Vec<_>>(),
        "analytics": {
            "main": main.map(totals),
            "bulk": bulk.map(bulk_facts),
        },
        "sites": shared.search_console.site_facts(),
        "search_console": shared.search_console.facts(),
        "projects": bigquery::projects(),
        "bigquery": bigquery::facts(shared),
    })
}

fn identity(world: &World, email: &str, sight: Sight) -> Value {
    let identity = Identity { email: email.to_owned(), sight };
    let visible: Vec<&str> =
        world.properties.iter().filter(|p| p.visible_to(&identity)).map(|p| p.id.as_str()).collect();
    json!({"email": email, "properties": visible})
}

fn property(property: &Property) -> Value {
    json!({
        "id": property.id,
        "name": property.name,
        "account": ACCOUNTS[property.account].id,
        "account_name": ACCOUNTS[property.account].name,
        "time_zone": property.zone_name,
        "today": clock::today(&property.zone).to_string(),
        "currency": property.currency,
        "kind": property.kind.label(),
        "events": property.data.rows().events.len(),
    })
}

/// Totals of the main property over 28 whole days.
fn totals(property: &Property) -> Value {
    let metrics =
        ["sessions", "eventCount", "totalUsers", "newUsers", "screenPageViews", "ecommercePurchases", "totalRevenue"];
    let body = json!({
        "dateRanges": [{"startDate": "28daysAgo", "endDate": "yesterday"}],
        "dimensions": [{"name": "sessionDefaultChannelGroup"}],
        "metrics": named(&metrics),
        "orderBys": [{"dimension": {"dimensionName": "sessionDefaultChannelGroup"}}],
        "metricAggregations": ["TOTAL"],
    });
    let report = ReportRequest::report(&body, "")
        .and_then(|request| report::run(property, &request))
        .map(|report| Value::Object(report.fields))
        .unwrap_or_default();
    let values = |row: &Value| -> Value {
        metrics
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let text = row["metricValues"][index]["value"].as_str().unwrap_or("0");
                let value: Value = serde_json::from_str(text).unwrap_or_default();
                ((*name).to_owned(), value)
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let channels: serde_json::Map<String, Value> = report["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| {
            let channel = row["dimensionValues"][0]["value"].as_str().unwrap_or_default();
            (channel.to_owned(), values(row))
        })
        .collect();
    json!({
        "property": property.id,
        "start": "28daysAgo",
        "end": "yesterday",
        "totals": values(&report["totals"][0]),
        "by_session_default_channel_group": channels,
    })
}

/// `[{"name": ...}]`, as requests list their fields.
fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

fn bulk_facts(property: &Property) -> Value {
    let dimensions = ["date", BULK_ITEM, "pagePath", "country"];
    let million_days = 1_000_000 / ROWS_PER_DAY;
    let metrics = ["eventCount", "sessions", "activeUsers", "totalRevenue"];
    json!({
        "property": property.id,
        "rows": ROWS_PER_DAY * u64::from(DAYS.unsigned_abs()),
        "rows_per_day": ROWS_PER_DAY,
        "outside_event_log": true,
        "note": format!(
            "Computed from seed and row number, not from the event log. rowCount is {ROWS_PER_DAY} for each day of the \
             range, at most {DAYS} days up to yesterday: 40daysAgo..yesterday gives 1,000,000 rows, 120daysAgo..yesterday \
             3,000,000, yesterday alone {ROWS_PER_DAY}. A page holds 250,000 rows; `limit` and `offset` cut smaller ones. \
             Keep {BULK_ITEM} among the dimensions: without it the property answers from the event log. Filters, several \
             date ranges, and orders other than eventCount, sessions or activeUsers descending or date, {BULK_ITEM} or \
             pagePath ascending are refused with 400. The body is always compact JSON, never gzip."
        ),
        "request": {
            "dateRanges": [{"startDate": format!("{million_days}daysAgo"), "endDate": "yesterday"}],
            "dimensions": named(&dimensions),
            "metrics": named(&metrics),
            "metricAggregations": ["TOTAL"],
            "limit": "250000",
            "offset": "0",
            "returnPropertyQuota": true,
        },
    })
}
