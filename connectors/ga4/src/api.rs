//! Requests to the Analytics Data API (v1beta) and the Analytics Admin API (v1beta, v1alpha), and what comes back.
//!
//! Types are lenient: Google leaves out what is empty and adds fields without notice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_core::{Call, Clock, Identity, Result};
use acp_google::{Context, Failure, Google, Rows, ServerErrors, Session};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use moka::future::Cache;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::fields::Fields;
use crate::quota::{Breakers, Kind};
use crate::report::check_kind;

/// The one scope that every read needs.
pub(crate) const SCOPES: &[&str] = &["https://www.googleapis.com/auth/analytics.readonly"];
/// Data API requests of this process that may be open for a property at a time; Google allows ten.
pub(crate) const OPEN_REQUESTS: usize = 4;
/// Server errors that a call may meet before it gives up; ten in an hour lock a property.
const SERVER_ERRORS: u32 = 2;
/// Names of fields change rarely, but whoever has just made a custom dimension asks for it. To read them costs one token.
const FIELDS_TTL: Duration = Duration::from_secs(600);
/// A property's time zone hardly ever changes.
const ZONE_TTL: Duration = Duration::from_secs(6 * 3600);
/// Pages of an Admin list that are read before giving up on it.
const LIST_PAGES: usize = 100;

/// The connector's state: one client and what it remembers.
#[derive(Debug)]
pub(crate) struct Ga4 {
    google: Google,
    fields: Cache<(Identity, String), Arc<Fields>>,
    calendars: Cache<(Identity, String), Calendar>,
    open: Mutex<HashMap<String, Arc<Semaphore>>>,
    lines: Mutex<HashMap<(Identity, String), Line>>,
}

/// The days of a property.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    pub(crate) zone: TimeZone,
    /// The day on which it was made, if the Admin API tells.
    pub(crate) created: Option<Date>,
}

/// What is remembered of the requests for a property in the name of one credential.
#[derive(Debug)]
struct Line {
    breakers: Arc<Breakers>,
    /// Those of the calls that run now: blocks of one autocontext, too, are not to meet two each.
    server_errors: ServerErrors,
}

/// One property, asked in the name of one credential.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) id: String,
    pub(crate) session: Session,
    /// The session for the Data API, which has a bound on server errors.
    pub(crate) data: Session,
    pub(crate) context: Context,
    /// Bounds the requests that are open for the property.
    pub(crate) open: Arc<Semaphore>,
    breakers: Arc<Breakers>,
    clock: Clock,
    identity: Identity,
}

impl Ga4 {
    pub(crate) fn new(google: Google) -> Self {
        Self {
            google,
            fields: Cache::builder().max_capacity(500).time_to_live(FIELDS_TTL).build(),
            calendars: Cache::builder().max_capacity(5_000).time_to_live(ZONE_TTL).build(),
            open: Mutex::default(),
            lines: Mutex::default(),
        }
    }

    /// The client.
    pub(crate) fn google(&self) -> &Google {
        &self.google
    }

    /// The property of a call.
    pub(crate) fn property(&self, call: &Call) -> Result<Property> {
        let id = call.resource()?.id.clone();
        let session = self.google.session(call.credentials()?, SCOPES)?;
        let context = session
            .context(format!("GA4 property {id}"))
            .grant("Give it the Viewer role in Admin > Property access management of Google Analytics (not in Google Cloud), or choose another property: autocontext without arguments lists them.");
        let (breakers, server_errors) = self.line(call.identity(), &id);
        Ok(Property {
            open: self.open_requests(&id),
            breakers,
            clock: call.clock(),
            identity: call.identity(),
            id,
            data: session.clone().counting(server_errors),
            session,
            context,
        })
    }

    fn line(&self, identity: Identity, property: &str) -> (Arc<Breakers>, ServerErrors) {
        let mut lines = self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let idle = |line: &Line| Arc::strong_count(&line.breakers) == 1;
        lines.retain(|_, line| !idle(line) || !line.breakers.are_closed());
        let new = || Line { breakers: Arc::default(), server_errors: ServerErrors::at_most(SERVER_ERRORS) };
        let line = lines.entry((identity, property.to_owned())).or_insert_with(new);
        if idle(line) {
            line.server_errors = ServerErrors::at_most(SERVER_ERRORS);
        }
        (line.breakers.clone(), line.server_errors.clone())
    }

    fn open_requests(&self, property: &str) -> Arc<Semaphore> {
        let mut open = self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Properties nobody is asking about right now need no entry.
        open.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        open.entry(property.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(OPEN_REQUESTS))).clone()
    }

    /// The accounts and their properties, all pages.
    pub(crate) async fn account_summaries(&self, call: &Call) -> Result<Vec<AccountSummary>> {
        let session = self.google.session(call.credentials()?, SCOPES)?;
        let context = session.context("the list of GA4 properties");
        let url = format!("{}/v1beta/accountSummaries", session.endpoints().analytics_admin());
        list(&session, &url, "accountSummaries").await.map_err(|failure| failure.into_acp(&context))
    }

    /// The fields a report of the property may use.
    pub(crate) async fn fields(&self, property: &Property) -> Result<Arc<Fields>> {
        let key = (property.identity.clone(), property.id.clone());
        let read = async {
            let url = format!("{}/metadata", property.data_url());
            let metadata: Metadata = property.guarded(Kind::Core, property.data.get(&url)).await?;
            if metadata.dimensions.is_empty() || metadata.metrics.is_empty() {
                return Err(not_what_was_asked("the fields of the property"));
            }
            Ok(Arc::new(Fields::new(metadata)))
        };
        let fields = self.fields.try_get_with(key, read).await;
        fields.map_err(|failure: Arc<Failure>| Failure::clone(&failure).into_acp(&property.context))
    }

    /// The property's time zone, in which relative dates are meant.
    pub(crate) async fn time_zone(&self, property: &Property) -> Result<TimeZone> {
        Ok(self.calendar(property).await?.zone)
    }

    /// The days of a property. The Admin API tells them without cost; where that API is not enabled, the smallest possible report
    /// tells the zone.
    pub(crate) async fn calendar(&self, property: &Property) -> Result<Calendar> {
        let key = (property.identity.clone(), property.id.clone());
        let read = async {
            let known = |name: &str| TimeZone::get(name).ok();
            if let Ok(settings) = property.settings().await
                && let Some(zone) = known(&settings.time_zone)
            {
                let created: Option<Timestamp> = settings.create_time.parse().ok();
                return Ok(Calendar { created: created.map(|time| zone.to_datetime(time).date()), zone });
            }
            let zone = known(&property.zone_of_a_report().await?);
            zone.map(|zone| Calendar { zone, created: None }).ok_or_else(|| {
                acp_core::Error::upstream(
                    "The property's time zone is not known to this version, so relative dates can't be resolved. Give start_date and \
                     end_date as YYYY-MM-DD.",
                )
                .into()
            })
        };
        let calendar = self.calendars.try_get_with(key, read).await;
        calendar.map_err(|failure: Arc<Failure>| Failure::clone(&failure).into_acp(&property.context))
    }
}

impl Property {
    /// The property in the Data API.
    pub(crate) fn data_url(&self) -> String {
        self.data_url_of("v1beta")
    }

    fn data_url_of(&self, version: &str) -> String {
        format!("{}/{version}/properties/{}", self.session.endpoints().analytics_data(), self.id)
    }

    fn admin_url(&self, version: &str, rest: &str) -> String {
        format!("{}/{version}/properties/{}{rest}", self.session.endpoints().analytics_admin(), self.id)
    }

    /// Name, zone, currency and the like.
    pub(crate) async fn settings(&self) -> Result<PropertySettings, Failure> {
        let settings: PropertySettings = self.session.get(&self.admin_url("v1beta", "")).await?;
        match settings.name.is_empty() {
            true => Err(not_what_was_asked("the settings of the property")),
            false => Ok(settings),
        }
    }

    /// A settings object below the property, as it comes.
    pub(crate) async fn setting(&self, version: &str, name: &str) -> Result<Value, Failure> {
        self.session.get(&self.admin_url(version, &format!("/{name}"))).await
    }

    /// Months for which the property keeps the data of single events; none where the Admin API does not tell.
    pub(crate) async fn retention_months(&self) -> Option<i32> {
        let settings = self.setting("v1beta", "dataRetentionSettings").await.ok()?;
        Some(match settings.get("eventDataRetention")?.as_str()? {
            "TWO_MONTHS" => 2,
            "FOURTEEN_MONTHS" => 14,
            "TWENTY_SIX_MONTHS" => 26,
            "THIRTY_EIGHT_MONTHS" => 38,
            "FIFTY_MONTHS" => 50,
            _ => return None,
        })
    }

    /// All entries of a list below the property.
    pub(crate) async fn list<T: DeserializeOwned>(&self, version: &str, name: &str) -> Result<Vec<T>, Failure> {
        self.list_as(version, name, name).await
    }

    /// The same, of a list whose entries come under another name than the path has.
    pub(crate) async fn list_as<T: DeserializeOwned>(
        &self,
        version: &str,
        name: &str,
        field: &str,
    ) -> Result<Vec<T>, Failure> {
        list(&self.session, &self.admin_url(version, &format!("/{name}")), field).await
    }

    /// A small report, whole. Conversion reports are in `v1alpha`, all others in `v1beta`.
    pub(crate) async fn small_report(&self, request: &ReportRequest) -> Result<ReportEnd, Failure> {
        let version = if request.conversion_spec.is_some() { "v1alpha" } else { "v1beta" };
        let report: ReportEnd = self.ask(version, "runReport", request).await?;
        check_kind(&report.kind, "analyticsData#runReport")?;
        Ok(report)
    }

    /// Asks a method of the Data API that answers with one small object.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        version: &str,
        method: &str,
        request: &impl Serialize,
    ) -> Result<T, Failure> {
        let kind = if method == "runFunnelReport" { Kind::Funnel } else { Kind::Core };
        let url = format!("{}:{method}", self.data_url_of(version));
        self.guarded(kind, self.data.post(&url, request)).await
    }

    /// A realtime report, whose rows come with it.
    pub(crate) async fn realtime(&self, request: &ReportRequest) -> Result<Rows, Failure> {
        let url = format!("{}:runRealtimeReport", self.data_url());
        self.guarded(Kind::Realtime, self.data.post_rows(&url, request, "rows")).await
    }

    /// The key events that count as conversions in Google Ads; none where Google does not offer reports of them.
    pub(crate) async fn conversions(&self) -> Result<Vec<Conversion>, Failure> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Answer {
            conversions: Vec<Conversion>,
        }
        let url = format!("{}/metadata", self.data_url_of("v1alpha"));
        let answer: Answer = self.guarded(Kind::Core, self.data.get(&url)).await?;
        Ok(answer.conversions)
    }

    /// Sends a request of the Data API in its turn, if no quota is known to be used up.
    async fn guarded<T>(&self, kind: Kind, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let _permit = self.open.acquire().await;
        self.admitted(kind, request).await
    }

    /// The same for a request that has its turn already.
    pub(crate) async fn admitted<T>(
        &self,
        kind: Kind,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.breakers.admit(kind, self.clock.now())?;
        let outcome = request.await;
        self.breakers.note(kind, &outcome, self.clock.now());
        outcome
    }

    async fn zone_of_a_report(&self) -> Result<String, Failure> {
        let request = ReportRequest {
            metrics: vec![json!({"name": "sessions"})],
            date_ranges: vec![json!({"startDate": "yesterday", "endDate": "yesterday"})],
            limit: Some(1),
            ..ReportRequest::default()
        };
        Ok(self.small_report(&request).await?.metadata.time_zone)
    }
}

/// Reads every page of an Admin list.
async fn list<T: DeserializeOwned>(session: &Session, url: &str, field: &str) -> Result<Vec<T>, Failure> {
    let mut entries = Vec::new();
    let mut token = String::new();
    for _ in 0..LIST_PAGES {
        let page_token =
            if token.is_empty() { String::new() } else { format!("&pageToken={}", acp_google::path_segment(&token)) };
        let mut page: Value = session.get(&format!("{url}?pageSize=200{page_token}")).await?;
        if let Some(found) = page.get_mut(field).map(Value::take) {
            let found: Vec<T> = serde_json::from_value(found).map_err(|_| unreadable(field))?;
            entries.extend(found);
        }
        token = page.get("nextPageToken").and_then(Value::as_str).unwrap_or_default().to_owned();
        if token.is_empty() {
            return Ok(entries);
        }
    }
    Err(acp_core::Error::upstream(format!("Google's list {field} does not end. Try again later.")).into())
}

/// An empty object where there is always something.
fn not_what_was_asked(what: &str) -> Failure {
    acp_core::Error::upstream(format!("Google's answer does not hold {what}. Try again.")).into()
}

fn unreadable(field: &str) -> Failure {
    acp_core::Error::upstream(format!(
        "Google's list {field} has a form that this version can't read. Update the connector."
    ))
    .into()
}

/// A `runReport` request.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReportRequest {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dimensions: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) metrics: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) date_ranges: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) minute_ranges: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dimension_filter: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metric_filter: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) order_bys: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) metric_aggregations: Vec<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) keep_empty_rows: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) currency_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) return_property_quota: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conversion_spec: Option<Value>,
}

/// A report without its rows, or with the few rows of a small one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReportEnd {
    /// `analyticsData#runReport`, which every report has.
    pub(crate) kind: String,
    pub(crate) dimension_headers: Vec<ColumnHeader>,
    pub(crate) metric_headers: Vec<ColumnHeader>,
    pub(crate) rows: Vec<TotalsRow>,
    pub(crate) totals: Vec<TotalsRow>,
    /// Rows of the whole report; absent means none.
    pub(crate) row_count: u64,
    pub(crate) metadata: ReportMetadata,
    pub(crate) property_quota: Option<Value>,
}

/// A `runFunnelReport` request (v1alpha).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunnelRequest {
    pub(crate) date_ranges: Vec<Value>,
    pub(crate) funnel: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) funnel_breakdown: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) funnel_next_action: Option<Value>,
    pub(crate) funnel_visualization_type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) segments: Vec<Value>,
    pub(crate) limit: u64,
    pub(crate) return_property_quota: bool,
}

/// A funnel, twice: with rates, and as it is drawn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FunnelReport {
    pub(crate) kind: String,
    pub(crate) funnel_table: FunnelTable,
    pub(crate) funnel_visualization: FunnelTable,
    pub(crate) property_quota: Option<Value>,
}

/// One of the two tables of a funnel.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FunnelTable {
    pub(crate) dimension_headers: Vec<ColumnHeader>,
    pub(crate) metric_headers: Vec<ColumnHeader>,
    pub(crate) rows: Vec<TotalsRow>,
    pub(crate) metadata: ReportMetadata,
}

/// A column as Google announces it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ColumnHeader {
    pub(crate) name: String,
}

/// A row that is kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TotalsRow {
    pub(crate) dimension_values: Vec<OwnedValue>,
    pub(crate) metric_values: Vec<OwnedValue>,
}

/// A cell of [`TotalsRow`]; an empty text is left out by Google.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct OwnedValue {
    #[serde(default)]
    pub(crate) value: String,
}

/// What Google says about a report beside its rows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReportMetadata {
    pub(crate) currency_code: String,
    pub(crate) time_zone: String,
    pub(crate) data_loss_from_other_row: bool,
    pub(crate) subject_to_thresholding: bool,
    pub(crate) empty_reason: String,
    pub(crate) sampling_metadatas: Vec<Value>,
    pub(crate) data_truncation_reasons: Vec<Value>,
    pub(crate) schema_restriction_response: Option<Value>,
}

/// `getMetadata`: what a report may use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) dimensions: Vec<FieldMetadata>,
    pub(crate) metrics: Vec<FieldMetadata>,
}

/// A key event that Google Ads counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Conversion {
    /// `conversionActions/…`.
    pub(crate) conversion_action: String,
    pub(crate) display_name: String,
}

/// One dimension or metric.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FieldMetadata {
    pub(crate) api_name: String,
    pub(crate) ui_name: String,
    pub(crate) description: String,
    pub(crate) deprecated_api_names: Vec<String>,
    pub(crate) custom_definition: bool,
    pub(crate) category: String,
    /// `TYPE_INTEGER` and the like; metrics only.
    #[serde(rename = "type")]
    pub(crate) metric_type: String,
    pub(crate) blocked_reasons: Vec<String>,
}

/// An account with its properties.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AccountSummary {
    pub(crate) display_name: String,
    pub(crate) property_summaries: Vec<PropertySummary>,
}

/// A property in an account's list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PropertySummary {
    pub(crate) property: String,
    pub(crate) display_name: String,
    pub(crate) property_type: String,
}

/// A property's own settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PropertySettings {
    /// `properties/…`, which every property has.
    pub(crate) name: String,
    pub(crate) display_name: String,
    pub(crate) time_zone: String,
    pub(crate) currency_code: String,
    pub(crate) industry_category: String,
    pub(crate) service_level: String,
    pub(crate) create_time: String,
    pub(crate) property_type: String,
}
