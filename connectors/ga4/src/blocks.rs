//! The twelve autocontext blocks: what a model should know about a property before it asks for a report.

use std::sync::Arc;
use std::time::Duration;

use acp_core::{BlockData, Builder, Call, Error, Result};
use acp_google::Failure;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::{Ga4, Property, ReportRequest};
use crate::fields::Kind;

/// Settings change little.
const SETTINGS: Option<Duration> = Some(Duration::from_secs(24 * 3600));
/// The most custom fields that are listed; a property can have hundreds.
const LISTED: usize = 100;

/// Adds the blocks to the connector.
pub(crate) fn declare(builder: Builder<Ga4>) -> Builder<Ga4> {
    builder
        .block_for(
            "property_settings",
            "Property settings: name, time zone, currency, industry, attribution model, conversion lookback windows and data retention.",
            &[],
            SETTINGS,
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
    let entries = events.into_iter().take(LISTED).map(|event| {
        let metric = format!("keyEvents:{}", event.event_name);
        json!({"event_name": event.event_name, "counting_method": event.counting_method, "metric": metric})
    });
    Ok(entries.collect())
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
            entry["description"] = json!(acp_google::clean(&field.description, 120));
        }
        Some(entry)
    });
    Ok(custom.take(LISTED).collect())
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
    let entries = metrics.into_iter().take(LISTED).map(|metric| {
        let api_name = format!("customEvent:{}", metric.parameter_name);
        let mut entry = json!({"api_name": api_name, "display_name": metric.display_name, "unit": metric.measurement_unit, "scope": metric.scope});
        if !metric.description.is_empty() {
            entry["description"] = json!(acp_google::clean(&metric.description, 120));
        }
        entry
    });
    Ok(entries.collect())
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
    let entries = metrics.into_iter().take(LISTED).map(|metric| {
        let api_name = format!("calcMetric:{}", metric.calculated_metric_id);
        json!({"api_name": api_name, "display_name": metric.display_name, "formula": metric.formula, "unit": metric.metric_unit})
    });
    Ok(entries.collect())
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
    Ok(entries.collect())
}

async fn sessions_by_channel(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "sessionDefaultChannelGroup", &["sessions", "totalUsers", "engagementRate"], 30).await
}

async fn sessions_by_device(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "deviceCategory", &["sessions", "totalUsers"], 10).await
}

async fn sessions_by_country(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "country", &["sessions", "totalUsers"], 15).await
}

async fn top_events(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "eventName", &["eventCount"], 50).await
}

async fn top_landing_pages(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    top(&ga4, &call, "landingPage", &["sessions"], 25).await
}

/// A property without content groups reports one row, "(not set)".
async fn content_groups(ga4: Arc<Ga4>, call: Arc<Call>) -> Result<Value> {
    let groups = top(&ga4, &call, "contentGroup", &["sessions"], 25).await?;
    let used = groups
        .as_array()
        .is_some_and(|rows| rows.iter().any(|row| !matches!(row["contentGroup"].as_str(), Some("(not set)" | ""))));
    Ok(if used { groups } else { json!([]) })
}

/// The first rows of a small report over the last 28 days, ordered by the first metric.
async fn top(ga4: &Ga4, call: &Call, dimension: &str, metrics: &[&str], rows: u64) -> Result<Value> {
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
    Ok(entries.collect())
}

/// Rates to four digits: a block is for orientation.
fn rounded(number: Value) -> Value {
    match number.as_f64() {
        Some(float) if number.is_f64() => json!((float * 10_000.0).round() / 10_000.0),
        _ => number,
    }
}
