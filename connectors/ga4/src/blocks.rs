//! The autocontext blocks: what a model should know about a property before it asks for a report.

use std::sync::Arc;
use std::time::Duration;

use acp_core::{BlockData, Builder, Call, Error, Result};
use acp_google::Failure;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::{Ga4, Property, ReportRequest, TotalsRow};
use crate::fields::Kind;
use crate::warnings;

/// Settings change little.
const SETTINGS: Option<Duration> = Some(Duration::from_secs(24 * 3600));
/// Today is among them.
const TODAY: Option<Duration> = Some(Duration::from_secs(15 * 60));
/// Days of annotations.
const ANNOTATED_DAYS: i64 = 90;
/// Characters of text that others wrote.
const TEXT: usize = 120;

/// Adds the blocks to the connector.
pub(crate) fn declare(builder: Builder<Ga4>) -> Builder<Ga4> {
    builder
        .block_for(
            "property_settings",
            "Property settings: name, time zone, currency, industry, attribution model, conversion lookback windows and data retention.",
            &[],
            TODAY,
            property_settings,
        )
        .block_for(
            "key_events",
            "Property key events (conversions) with their API metric (keyEvents:<event>).",
            &[],
            SETTINGS,
            key_events,
        )
        .block_for(
            "custom_dimensions",
            "Custom dimensions with their scope, description and API name (customEvent:/customUser:/customItem:).",
            &[],
            SETTINGS,
            custom_dimensions,
        )
        .block_for(
            "custom_metrics",
            "Custom metrics with unit, scope and API name (customEvent:<param>).",
            &[],
            SETTINGS,
            custom_metrics,
        )
        .block_for(
            "calculated_metrics",
            "Calculated metrics with their formula and API name (calcMetric:<id>).",
            &[],
            SETTINGS,
            calculated_metrics,
        )
        .block_for("channel_groups", "Channel groups (system-defined and custom).", &[], SETTINGS, channel_groups)
        .block(
            "sessions_by_channel",
            "Sessions, users and engagement by default channel group over the last 28 days.",
            sessions_by_channel,
        )
        .block("sessions_by_device", "Sessions and users by device over the last 28 days.", sessions_by_device)
        .block("sessions_by_country", "Top 15 countries by sessions over the last 28 days.", sessions_by_country)
        .block("top_events", "Top 50 events by event count over the last 28 days (exact eventName values).", top_events)
        .block("top_landing_pages", "Top 25 landing pages by sessions over the last 28 days.", top_landing_pages)
        .block(
            "content_groups",
            "Sessions by content group over the last 28 days (empty if the property does not use them).",
            content_groups,
        )
        .block(
            "data_health",
            "What the figures of the last 28 days can bear: last day with data, days without any, what Google left out, whether revenue is measured.",
            data_health,
        )
        .block_for("annotations", "Annotations of the last 90 days.", &[], SETTINGS, annotations)
        .block_for("links", "Linked Google Ads accounts and BigQuery exports.", &[], SETTINGS, links)
}

/// As many entries as fit into so many characters: all blocks together have to stay under 16,000. What is left out is counted.
fn fitted(entries: impl IntoIterator<Item = Value>, characters: usize) -> Value {
    let mut room = characters;
    let mut fitting = Vec::new();
    let mut left_out = 0_u32;
    for entry in entries {
        let size = entry.to_string().chars().count() + 1;
        if left_out > 0 || size > room {
            left_out += 1;
            continue;
        }
        room -= size;
        fitting.push(entry);
    }
    if left_out > 0 {
        fitting.push(json!({"left_out": left_out}));
    }
    Value::Array(fitting)
}

/// Why a block has no data: the sentence for the model, with what the status was.
fn block_error(property: &Property, failure: Failure) -> Error {
    failure.into_acp(&property.context)
}

async fn property_settings(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<BlockData> {
    let property = ga4.property(&call)?;
    let (settings, attribution, retention) = tokio::join!(
        property.settings(),
        property.setting("v1alpha", "attributionSettings"),
        property.setting("v1beta", "dataRetentionSettings"),
    );
    let settings = settings.map_err(|failure| block_error(&property, failure))?;
    let today = TimeZone::get(&settings.time_zone).ok().map(|zone| call.clock().today(&zone).to_string());
    // The rest stays useful when one of the smaller reads fails.
    let or_error = |setting: Result<Value, Failure>, keep: &[&str]| match setting {
        Ok(value) => keep.iter().filter_map(|key| Some(((*key).to_owned(), value.get(*key)?.clone()))).collect(),
        Err(failure) => Map::from_iter([("error".to_owned(), json!(block_error(&property, failure).message()))]),
    };
    let is_whole = attribution.is_ok() && retention.is_ok();
    let data = json!({
        "property_id": property.id,
        "name": settings.display_name,
        "time_zone": settings.time_zone,
        "today": today,
        "currency": settings.currency_code,
        "industry": settings.industry_category,
        "service_level": settings.service_level,
        "property_type": settings.property_type,
        "created": settings.create_time.get(..10),
        "attribution": or_error(attribution, &["reportingAttributionModel", "acquisitionConversionEventLookbackWindow", "otherConversionEventLookbackWindow"]),
        "data_retention": or_error(retention, &["eventDataRetention", "userDataRetention"]),
    });
    Ok(if is_whole { data.into() } else { BlockData::partial(data) })
}

async fn key_events(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct KeyEvent {
        event_name: String,
        #[serde(default)]
        counting_method: String,
    }
    let property = ga4.property(&call)?;
    let events: Vec<KeyEvent> =
        property.list("v1beta", "keyEvents").await.map_err(|failure| block_error(&property, failure))?;
    let entries = events.into_iter().map(|event| {
        let metric = format!("keyEvents:{}", event.event_name);
        json!({"event_name": event.event_name, "counting_method": event.counting_method, "metric": metric})
    });
    Ok(fitted(entries, 1_000))
}

/// From the report's own metadata, which has the ready names, so that it also works where the Admin API is off.
async fn custom_dimensions(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    let property = ga4.property(&call)?;
    let fields = ga4.fields(&property).await?;
    let custom = fields.all(Kind::Dimension).iter().filter_map(|field| {
        let (prefix, _) = field.api_name.split_once(':').filter(|_| field.custom_definition)?;
        let scope = prefix.strip_prefix("custom").filter(|scope| matches!(*scope, "Event" | "User" | "Item"))?;
        let mut entry =
            json!({"api_name": field.api_name, "display_name": field.ui_name, "scope": scope.to_uppercase()});
        if !field.description.is_empty() && field.description != field.ui_name {
            entry["description"] = json!(acp_google::clean(&field.description, TEXT));
        }
        Some(entry)
    });
    Ok(fitted(custom, 1_700))
}

async fn custom_metrics(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct CustomMetric {
        parameter_name: String,
        display_name: String,
        description: String,
        measurement_unit: String,
        scope: String,
    }
    let property = ga4.property(&call)?;
    let metrics: Vec<CustomMetric> =
        property.list("v1beta", "customMetrics").await.map_err(|failure| block_error(&property, failure))?;
    let entries = metrics.into_iter().map(|metric| {
        let api_name = format!("customEvent:{}", metric.parameter_name);
        let mut entry = json!({"api_name": api_name, "display_name": metric.display_name, "unit": metric.measurement_unit, "scope": metric.scope});
        if !metric.description.is_empty() {
            entry["description"] = json!(acp_google::clean(&metric.description, TEXT));
        }
        entry
    });
    Ok(fitted(entries, 500))
}

async fn calculated_metrics(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct CalculatedMetric {
        calculated_metric_id: String,
        display_name: String,
        formula: String,
        metric_unit: String,
    }
    let property = ga4.property(&call)?;
    let metrics: Vec<CalculatedMetric> =
        property.list("v1alpha", "calculatedMetrics").await.map_err(|failure| block_error(&property, failure))?;
    let entries = metrics.into_iter().map(|metric| {
        let api_name = format!("calcMetric:{}", metric.calculated_metric_id);
        json!({"api_name": api_name, "display_name": metric.display_name, "formula": metric.formula, "unit": metric.metric_unit})
    });
    Ok(fitted(entries, 400))
}

async fn channel_groups(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct ChannelGroup {
        display_name: String,
        system_defined: bool,
        primary: bool,
        grouping_rule: Vec<Rule>,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Rule {
        display_name: String,
    }
    let property = ga4.property(&call)?;
    let groups: Vec<ChannelGroup> =
        property.list("v1alpha", "channelGroups").await.map_err(|failure| block_error(&property, failure))?;
    let entries = groups.into_iter().map(|group| {
        let channels: Vec<String> = group.grouping_rule.into_iter().map(|rule| rule.display_name).collect();
        json!({"display_name": group.display_name, "system_defined": group.system_defined, "primary": group.primary, "channels": channels})
    });
    Ok(fitted(entries, 700))
}

async fn sessions_by_channel(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "sessionDefaultChannelGroup", &["sessions", "totalUsers", "engagementRate"], 30, 1_100).await
}

async fn sessions_by_device(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "deviceCategory", &["sessions", "totalUsers"], 10, 250).await
}

async fn sessions_by_country(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "country", &["sessions", "totalUsers"], 15, 900).await
}

async fn top_events(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "eventName", &["eventCount"], 50, 2_300).await
}

async fn top_landing_pages(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "landingPage", &["sessions"], 25, 2_000).await
}

/// A property without content groups reports one row, "(not set)".
async fn content_groups(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    let groups = top(&ga4, &call, "contentGroup", &["sessions"], 25, 600).await?;
    let used = groups
        .as_array()
        .is_some_and(|rows| rows.iter().any(|row| !matches!(row["contentGroup"].as_str(), Some("(not set)" | ""))));
    Ok(if used { groups } else { json!([]) })
}

/// One report by day tells it.
async fn data_health(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    let property = ga4.property(&call)?;
    let request = ReportRequest {
        dimensions: vec![json!({"name": "date"})],
        metrics: vec![json!({"name": "eventCount"}), json!({"name": "totalRevenue"})],
        date_ranges: vec![json!({"startDate": "28daysAgo", "endDate": "yesterday"})],
        order_bys: vec![json!({"dimension": {"dimensionName": "date"}})],
        metric_aggregations: vec!["TOTAL"],
        ..ReportRequest::default()
    };
    let report = property.small_report(&request).await.map_err(|failure| block_error(&property, failure))?;
    let mut health = Map::new();
    let day = |row: &TotalsRow| {
        let text = &row.dimension_values.first()?.value;
        text.parse::<jiff::civil::Date>().ok().map(|day| day.to_string())
    };
    health.insert("last_day_with_data".to_owned(), json!(report.rows.iter().rev().find_map(day)));
    health.insert("days_without_data".to_owned(), json!(28_usize.saturating_sub(report.rows.len())));
    if let Ok(zone) = TimeZone::get(&report.metadata.time_zone) {
        let settled = call.clock().today(&zone).checked_sub(jiff::Span::new().days(3)).ok();
        health.insert("settled_until".to_owned(), json!(settled.map(|day| day.to_string())));
    }
    let total = report.totals.first().and_then(|totals| totals.metric_values.get(1));
    if total.is_none_or(|total| total.value.parse::<f64>().unwrap_or_default() == 0.0) {
        let why = "none in 28 days: not measured or not to be seen, rather than nothing sold";
        health.insert("revenue".to_owned(), json!(why));
    }
    let notices = warnings::of_report(&report.metadata);
    if !notices.is_empty() {
        health.insert("notices".to_owned(), fitted(notices.into_iter().map(Value::String), 250));
    }
    Ok(Value::Object(health))
}

async fn annotations(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Annotation {
        title: String,
        description: String,
        annotation_date: Option<Day>,
        annotation_date_range: Option<Range>,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Range {
        start_date: Day,
        end_date: Day,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Day {
        year: i16,
        month: i8,
        day: i8,
    }
    let property = ga4.property(&call)?;
    let annotations: Vec<Annotation> = property
        .list("v1alpha", "reportingDataAnnotations")
        .await
        .map_err(|failure| block_error(&property, failure))?;
    let first = call.today().checked_sub(jiff::Span::new().days(ANNOTATED_DAYS)).ok();
    let date = |day: &Day| jiff::civil::Date::new(day.year, day.month, day.day).ok();
    let mut dated: Vec<(jiff::civil::Date, Value)> = annotations
        .into_iter()
        .filter_map(|annotation| {
            let (start, end) = match (&annotation.annotation_date, &annotation.annotation_date_range) {
                (Some(day), _) => (date(day)?, date(day)?),
                (None, Some(range)) => (date(&range.start_date)?, date(&range.end_date)?),
                (None, None) => return None,
            };
            let mut entry = json!({"from": start.to_string(), "title": acp_google::clean(&annotation.title, TEXT)});
            if end != start {
                entry["to"] = json!(end.to_string());
            }
            if !annotation.description.is_empty() {
                entry["description"] = json!(acp_google::clean(&annotation.description, TEXT));
            }
            first.is_none_or(|first| end >= first).then_some((start, entry))
        })
        .collect();
    dated.sort_by_key(|(start, _)| std::cmp::Reverse(*start));
    Ok(fitted(dated.into_iter().map(|(_, entry)| entry), 700))
}

/// Each kind is asked of its own API version; one that can't be read does not take the other with it.
async fn links(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<BlockData> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct AdsLink {
        customer_id: String,
        ads_personalization_enabled: bool,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct BigQueryLink {
        project: String,
        dataset_location: String,
        daily_export_enabled: bool,
        streaming_export_enabled: bool,
    }
    let property = ga4.property(&call)?;
    let (ads, exports) = tokio::join!(
        property.list::<AdsLink>("v1beta", "googleAdsLinks"),
        property.list_as::<BigQueryLink>("v1alpha", "bigQueryLinks", "bigqueryLinks"),
    );
    let is_whole = ads.is_ok() && exports.is_ok();
    if let (Err(failure), Err(_)) = (&ads, &exports) {
        return Err(block_error(&property, failure.clone()));
    }
    let or_error = |links: Result<Vec<Value>, Failure>| match links {
        Ok(links) => fitted(links, 250),
        Err(failure) => json!({"error": acp_google::clean(block_error(&property, failure).message(), 250)}),
    };
    let ads = ads.map(|links| {
        let entry = |link: AdsLink| json!({"customer_id": link.customer_id, "personalization": link.ads_personalization_enabled});
        links.into_iter().map(entry).collect()
    });
    // The export of a property is in this dataset of the linked project.
    let dataset = format!("analytics_{}", property.id);
    let exports = exports.map(|links| {
        let entry = |link: BigQueryLink| {
            let project = link.project.strip_prefix("projects/").unwrap_or(&link.project);
            json!({"project": project, "dataset": dataset, "location": link.dataset_location, "daily": link.daily_export_enabled, "streaming": link.streaming_export_enabled})
        };
        links.into_iter().map(entry).collect()
    });
    let data = json!({"google_ads": or_error(ads), "bigquery": or_error(exports)});
    Ok(if is_whole { data.into() } else { BlockData::partial(data) })
}

/// The first rows of a small report over the last 28 days, ordered by the first metric.
async fn top(ga4: &Ga4, call: &Call, dimension: &str, metrics: &[&str], rows: u64, characters: usize) -> Result<Value> {
    let property = ga4.property(call)?;
    let request = ReportRequest {
        dimensions: vec![json!({"name": dimension})],
        metrics: metrics.iter().map(|name| json!({"name": name})).collect(),
        date_ranges: vec![json!({"startDate": "28daysAgo", "endDate": "yesterday"})],
        order_bys: vec![
            json!({"metric": {"metricName": metrics[0]}, "desc": true}),
            json!({"dimension": {"dimensionName": dimension}}),
        ],
        limit: Some(rows),
        ..ReportRequest::default()
    };
    let report = property.small_report(&request).await.map_err(|failure| block_error(&property, failure))?;
    let entries = report.rows.into_iter().map(|row| {
        let mut entry = Map::new();
        let name = row.dimension_values.into_iter().next().unwrap_or_default().value;
        // A page path can be as long as an address may be.
        entry.insert(dimension.to_owned(), json!(acp_google::clean(&name, 200)));
        for (metric, cell) in metrics.iter().zip(row.metric_values) {
            let number = serde_json::from_str::<Value>(&cell.value).ok().filter(Value::is_number);
            entry.insert((*metric).to_owned(), number.map_or(Value::Null, rounded));
        }
        Value::Object(entry)
    });
    Ok(fitted(entries, characters))
}

/// Rates to four digits: a block is for orientation.
fn rounded(number: Value) -> Value {
    match number.as_f64() {
        Some(float) if number.is_f64() => json!((float * 10_000.0).round() / 10_000.0),
        _ => number,
    }
}
