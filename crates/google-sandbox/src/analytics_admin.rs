//! The Analytics Admin API: account summaries, properties and their settings (read only).

use serde_json::{Value, json};

use crate::analytics_data::READ_SCOPES;
use crate::answer::Answer;
use crate::events::{EVENT_NAMES, KEY_EVENTS};
use crate::google_error::GoogleError;
use crate::identities::Identity;
use crate::server::{ApiRequest, Shared};
use crate::world::{ACCOUNTS, Kind, Property};

const SERVICE: &str = "analyticsadmin.googleapis.com";

/// Page sizes: the default and the largest, to which larger ones are lowered.
const DEFAULT_PAGE: usize = 50;
const MAX_PAGE: usize = 200;

/// Answers an Admin API request; `None` for a path that isn't one of its methods.
pub(crate) fn route(shared: &Shared, request: &ApiRequest) -> Option<Answer> {
    if request.method != "GET" {
        return None;
    }
    let (version, rest) = request.path.strip_prefix('/')?.split_once('/')?;
    let alpha = match version {
        "v1beta" => false,
        "v1alpha" => true,
        _ => return None,
    };
    let parts: Vec<&str> = rest.split('/').collect();
    let answer = match parts.as_slice() {
        ["accountSummaries"] => account_summaries(shared, request),
        ["properties", id] if !id.contains(':') => property_answer(shared, request, id, |p| Ok(property_json(p))),
        ["properties", id, what] if is_known(what, alpha) => {
            property_answer(shared, request, id, |property| setting(property, what, request))
        }
        _ => return None,
    };
    Some(match answer {
        Ok(value) => Answer::json(200, &value),
        Err(error) => error.answer(),
    })
}

/// v1alpha has all of v1beta's resources, and some of its own.
fn is_known(resource: &str, alpha: bool) -> bool {
    match resource {
        "keyEvents"
        | "customDimensions"
        | "customMetrics"
        | "dataStreams"
        | "dataRetentionSettings"
        | "googleAdsLinks" => true,
        "calculatedMetrics"
        | "channelGroups"
        | "attributionSettings"
        | "bigQueryLinks"
        | "reportingDataAnnotations"
        | "googleSignalsSettings"
        | "reportingIdentitySettings" => alpha,
        _ => false,
    }
}

fn identity(shared: &Shared, request: &ApiRequest) -> Result<Identity, GoogleError> {
    shared.authorize(request, &READ_SCOPES, SERVICE, "google.analytics.admin.v1beta.AnalyticsAdminService")
}

fn property_answer(
    shared: &Shared,
    request: &ApiRequest,
    id: &str,
    answer: impl FnOnce(&Property) -> Result<Value, GoogleError>,
) -> Result<Value, GoogleError> {
    let identity = identity(shared, request)?;
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_digit()) {
        return Err(GoogleError::not_found(format!("Resource properties/{id} was not found.")));
    }
    let property =
        shared.world.property(id).filter(|p| p.visible_to(&identity)).ok_or_else(GoogleError::caller_denied)?;
    answer(property)
}

fn setting(property: &Property, what: &str, request: &ApiRequest) -> Result<Value, GoogleError> {
    let name = format!("properties/{}", property.id);
    Ok(match what {
        "keyEvents" => page(what, key_events(&name), request)?,
        "customDimensions" => page(what, custom_dimensions(&name), request)?,
        "customMetrics" => page(what, custom_metrics(&name), request)?,
        "dataStreams" => page(what, data_streams(property, &name), request)?,
        "calculatedMetrics" => page(what, calculated_metrics(&name), request)?,
        "channelGroups" => page(what, channel_groups(&name), request)?,
        "reportingDataAnnotations" => page(what, annotations(property, &name), request)?,
        "googleAdsLinks" => page(
            what,
            vec![json!({
                "name": format!("{name}/googleAdsLinks/9200001"),
                "customerId": "1112223333",
                "adsPersonalizationEnabled": true,
                "createTime": "2024-03-01T09:00:00Z",
                "updateTime": "2024-03-01T09:00:00Z",
            })],
            request,
        )?,
        "bigQueryLinks" => page(
            "bigqueryLinks",
            vec![json!({
                "name": format!("{name}/bigQueryLinks/9300001"),
                "project": "projects/123456789012",
                "createTime": "2024-03-01T09:00:00Z",
                "dailyExportEnabled": true,
                "datasetLocation": "EU",
            })],
            request,
        )?,
        "dataRetentionSettings" => json!({
            "name": format!("{name}/dataRetentionSettings"),
            "eventDataRetention": "FOURTEEN_MONTHS",
            "userDataRetention": "FOURTEEN_MONTHS",
            "resetUserDataOnNewActivity": true,
        }),
        "attributionSettings" => json!({
            "name": format!("{name}/attributionSettings"),
            "acquisitionConversionEventLookbackWindow":
                "ACQUISITION_CONVERSION_EVENT_LOOKBACK_WINDOW_30_DAYS",
            "otherConversionEventLookbackWindow": "OTHER_CONVERSION_EVENT_LOOKBACK_WINDOW_90_DAYS",
            "reportingAttributionModel": if property.reports_last_click() {
                "PAID_AND_ORGANIC_CHANNELS_LAST_CLICK"
            } else {
                "PAID_AND_ORGANIC_CHANNELS_DATA_DRIVEN"
            },
            "adsWebConversionDataExportScope": "NOT_SELECTED_YET",
        }),
        "googleSignalsSettings" => json!({
            "name": format!("{name}/googleSignalsSettings"),
            "state": if property.kind == Kind::Thresholded { "GOOGLE_SIGNALS_ENABLED" } else { "GOOGLE_SIGNALS_DISABLED" },
            "consent": "GOOGLE_SIGNALS_CONSENT_CONSENTED",
        }),
        _ => json!({
            "name": format!("{name}/reportingIdentitySettings"),
            "reportingIdentity": if property.kind == Kind::Thresholded { "BLENDED" } else { "DEVICE_BASED" },
        }),
    })
}

/// One page of a list; the key is absent when the list is empty.
fn page(key: &str, items: Vec<Value>, request: &ApiRequest) -> Result<Value, GoogleError> {
    let size = match request.parameter("pageSize").filter(|text| !text.is_empty()) {
        None => DEFAULT_PAGE,
        Some(text) => match text.parse::<i32>() {
            Ok(0) => DEFAULT_PAGE,
            Ok(size) if size > 0 => usize::try_from(size).unwrap_or(MAX_PAGE).min(MAX_PAGE),
            _ => {
                return Err(GoogleError::bad_payload(
                    "page_size",
                    format!("Invalid value at 'page_size' (TYPE_INT32), \"{text}\""),
                ));
            }
        },
    };
    let start = match request.parameter("pageToken").filter(|text| !text.is_empty()) {
        None => 0,
        Some(token) => token
            .strip_prefix("page-")
            .and_then(|n| n.parse::<usize>().ok())
            .filter(|n| *n <= items.len())
            .ok_or_else(|| GoogleError::invalid("The page token is invalid."))?,
    };
    let end = (start + size).min(items.len());
    let mut answer = json!({});
    if start < end {
        answer[key] = Value::Array(items[start..end].to_vec());
    }
    if end < items.len() {
        answer["nextPageToken"] = json!(format!("page-{end}"));
    }
    Ok(answer)
}

fn account_summaries(shared: &Shared, request: &ApiRequest) -> Result<Value, GoogleError> {
    let identity = identity(shared, request)?;
    let mut summaries = Vec::new();
    for (index, account) in ACCOUNTS.iter().enumerate() {
        let properties: Vec<Value> = shared
            .world
            .properties
            .iter()
            .filter(|p| p.account == index && p.visible_to(&identity))
            .map(|p| {
                json!({
                    "property": format!("properties/{}", p.id),
                    "displayName": p.name,
                    "propertyType": "PROPERTY_TYPE_ORDINARY",
                    "parent": format!("accounts/{}", account.id),
                })
            })
            .collect();
        if !properties.is_empty() {
            summaries.push(json!({
                "name": format!("accountSummaries/{}", account.id),
                "account": format!("accounts/{}", account.id),
                "displayName": account.name,
                "propertySummaries": properties,
            }));
        }
    }
    page("accountSummaries", summaries, request)
}

fn property_json(property: &Property) -> Value {
    let account = format!("accounts/{}", ACCOUNTS[property.account].id);
    json!({
        "name": format!("properties/{}", property.id),
        "parent": account,
        "account": account,
        "createTime": "2024-02-01T09:00:00.000Z",
        "updateTime": "2025-06-17T12:30:00.000Z",
        "displayName": property.name,
        "industryCategory": property.industry,
        "timeZone": property.zone_name,
        "currencyCode": property.currency,
        "serviceLevel": "GOOGLE_ANALYTICS_STANDARD",
        "propertyType": "PROPERTY_TYPE_ORDINARY",
    })
}

fn key_events(property: &str) -> Vec<Value> {
    let mut key_events = Vec::new();
    for (index, event) in KEY_EVENTS.into_iter().enumerate() {
        let event_name = EVENT_NAMES[usize::from(event)];
        let mut key_event = json!({
            "name": format!("{property}/keyEvents/{}", 7_000_001 + index),
            "eventName": event_name,
            "createTime": "2024-02-01T09:05:00Z",
            "deletable": event_name != "purchase",
            "custom": event_name != "purchase",
            "countingMethod": if event_name == "sign_up" { "ONCE_PER_SESSION" } else { "ONCE_PER_EVENT" },
        });
        // Proto3 JSON leaves false out.
        if let Some(fields) = key_event.as_object_mut() {
            fields.retain(|_, value| *value != Value::Bool(false));
        }
        if event_name == "generate_lead" {
            key_event["defaultValue"] = json!({"numericValue": 25, "currencyCode": "EUR"});
        }
        key_events.push(key_event);
    }
    key_events
}

fn custom_dimensions(property: &str) -> Vec<Value> {
    let rows = [
        ("plan", "Plan", "Plan shown on the price page", "EVENT"),
        ("form_name", "Form name", "Which form was used", "EVENT"),
        ("tier", "Tier", "Loyalty tier of the customer", "USER"),
    ];
    rows.iter()
        .enumerate()
        .map(|(index, (parameter, display, description, scope))| {
            json!({
                "name": format!("{property}/customDimensions/{}", 8_000_001 + index),
                "parameterName": parameter,
                "displayName": display,
                "description": description,
                "scope": scope,
            })
        })
        .collect()
}

fn custom_metrics(property: &str) -> Vec<Value> {
    [
        (8_100_001, "score", "Reading score", "How far an article was read, from 1 to 100", "STANDARD"),
        (8_100_002, "active_ms", "Active time", "How long a page was looked at", "MILLISECONDS"),
    ]
    .map(|(number, parameter, title, description, unit)| {
        json!({
            "name": format!("{property}/customMetrics/{number}"),
            "parameterName": parameter,
            "displayName": title,
            "description": description,
            "measurementUnit": unit,
            "scope": "EVENT",
        })
    })
    .to_vec()
}

fn calculated_metrics(property: &str) -> Vec<Value> {
    vec![json!({
        "name": format!("{property}/calculatedMetrics/value_per_session"),
        "calculatedMetricId": "value_per_session",
        "displayName": "Value per session",
        "description": "Revenue divided by sessions",
        "metricUnit": "CURRENCY",
        "formula": "{{Total revenue}} / {{Sessions}}",
    })]
}

fn data_streams(property: &Property, name: &str) -> Vec<Value> {
    vec![json!({
        "name": format!("{name}/dataStreams/9000001"),
        "type": "WEB_DATA_STREAM",
        "displayName": "Website",
        "createTime": "2024-02-01T09:01:00.000Z",
        "updateTime": "2024-02-01T09:01:00.000Z",
        "webStreamData": {
            "measurementId": format!("G-SB{}", property.id),
            "defaultUri": "https://www.nordwind.example",
        },
    })]
}

/// One of three weeks ago, and one of last year.
fn annotations(property: &Property, name: &str) -> Vec<Value> {
    let today = crate::clock::today(&property.zone);
    let day = |ago: i64| {
        let day = today.checked_sub(jiff::Span::new().days(ago)).unwrap_or(today);
        json!({"year": day.year(), "month": day.month(), "day": day.day()})
    };
    vec![
        json!({
            "name": format!("{name}/reportingDataAnnotations/9100001"),
            "annotationDate": day(21),
            "title": "Checkout relaunched",
            "description": "New payment page",
            "color": "BLUE",
        }),
        json!({
            "name": format!("{name}/reportingDataAnnotations/9100002"),
            "annotationDateRange": {"startDate": day(400), "endDate": day(395)},
            "title": "Cookie banner changed",
            "color": "RED",
        }),
    ]
}

fn channel_groups(property: &str) -> Vec<Value> {
    let rule = |display: &str, group: &str| {
        json!({
            "displayName": display,
            "expression": {"andGroup": {"filterExpressions": [{"orGroup": {"filterExpressions": [{
                "filter": {"fieldName": "eachScopeDefaultChannelGroup",
                           "stringFilter": {"matchType": "EXACT", "value": group}}
            }]}}]}},
        })
    };
    vec![
        json!({
            "name": format!("{property}/channelGroups/1"),
            "displayName": "Default channel group",
            "description": "Google's own rules",
            "systemDefined": true,
            "primary": true,
            "groupingRule": [
                rule("Organic Search", "organic_search"),
                rule("Direct", "direct"),
                rule("Paid Search", "paid_search"),
                rule("Email", "email"),
            ],
        }),
        json!({
            "name": format!("{property}/channelGroups/8200001"),
            "displayName": "Paid against the rest",
            "groupingRule": [rule("Paid", "paid_search"), rule("Paid social", "paid_social")],
        }),
    ]
}
