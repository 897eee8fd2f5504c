//! The Analytics Data API: reports, realtime, metadata, compatibility (v1beta), conversion and funnel reports (v1alpha).

pub(crate) mod bulk;
pub(crate) mod catalogue;
pub(crate) mod columns;
mod compatibility;
mod dates;
mod engine;
mod filters;
mod funnel;
mod metadata;
mod number;
mod realtime;
pub(crate) mod report;
pub(crate) mod request;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::google_error::GoogleError;
use crate::message::{self, Fields};
use crate::quota::{Account, Category, Permit};
use crate::server::{ApiRequest, Shared};
use crate::world::{Kind, Property};
use report::Report;
use request::ReportRequest;

/// Scopes that may read reports.
pub(crate) const READ_SCOPES: [&str; 3] = [
    "https://www.googleapis.com/auth/analytics.readonly",
    "https://www.googleapis.com/auth/analytics",
    "https://www.googleapis.com/auth/analytics.edit",
];

const SERVICE: &str = "analyticsdata.googleapis.com";

/// Requests in one batch at most.
const MAX_BATCH: usize = 5;

#[derive(Clone, Copy)]
enum Method {
    RunReport,
    BatchRunReports,
    RunRealtimeReport,
    CheckCompatibility,
    GetMetadata,
    AlphaRunReport,
    AlphaGetMetadata,
    RunFunnelReport,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::RunReport | Self::AlphaRunReport => "RunReport",
            Self::BatchRunReports => "BatchRunReports",
            Self::RunRealtimeReport => "RunRealtimeReport",
            Self::CheckCompatibility => "CheckCompatibility",
            Self::GetMetadata | Self::AlphaGetMetadata => "GetMetadata",
            Self::RunFunnelReport => "RunFunnelReport",
        }
    }

    fn category(self) -> Category {
        match self {
            Self::RunRealtimeReport => Category::Realtime,
            Self::RunFunnelReport => Category::Funnel,
            _ => Category::Core,
        }
    }
}

/// Answers a Data API request; `None` for a path that isn't one of its methods.
pub(crate) fn route(shared: &Shared, request: &ApiRequest) -> Option<Answer> {
    let beta = request.path.strip_prefix("/v1beta/properties/");
    let rest = beta.or_else(|| request.path.strip_prefix("/v1alpha/properties/"))?;
    let (id, method) = match request.method.as_str() {
        "POST" => {
            let (id, method) = rest.rsplit_once(':')?;
            let method = match (method, beta.is_some()) {
                ("runReport", true) => Method::RunReport,
                ("batchRunReports", true) => Method::BatchRunReports,
                ("runRealtimeReport", true) => Method::RunRealtimeReport,
                ("checkCompatibility", true) => Method::CheckCompatibility,
                ("runReport", false) => Method::AlphaRunReport,
                ("runFunnelReport", false) => Method::RunFunnelReport,
                _ => return None,
            };
            (id, method)
        }
        "GET" => {
            let method = if beta.is_some() { Method::GetMetadata } else { Method::AlphaGetMetadata };
            (rest.strip_suffix("/metadata")?, method)
        }
        _ => return None,
    };
    if id.contains('/') {
        return None;
    }
    Some(answer(shared, request, id, method).unwrap_or_else(|error| error.answer()))
}

fn answer(shared: &Shared, request: &ApiRequest, id: &str, method: Method) -> Result<Answer, GoogleError> {
    let alpha = matches!(method, Method::AlphaRunReport | Method::AlphaGetMetadata | Method::RunFunnelReport);
    let service = if alpha { "v1alpha.AlphaAnalyticsData" } else { "v1beta.BetaAnalyticsData" };
    let name = format!("google.analytics.data.{service}.{}", method.name());
    let identity = shared.authorize(request, &READ_SCOPES, SERVICE, &name)?;
    let body = message::json(&request.body)?;
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_digit()) {
        return Err(GoogleError::invalid(format!(
            "Invalid property ID: {id}. A numeric Property ID is required. To learn more about Property ID, see \
             https://developers.google.com/analytics/devguides/reporting/data/v1/property-id."
        )));
    }
    if matches!(method, Method::GetMetadata | Method::AlphaGetMetadata) && id == "0" {
        return Ok(Answer::json(200, &metadata::common()));
    }
    let property =
        shared.world.property(id).filter(|p| p.visible_to(&identity)).ok_or_else(GoogleError::property_denied)?;
    let account = Account { email: identity.email, property: id.to_owned(), category: method.category() };
    let permit = shared.ledger.admit(&account)?;
    let call = Call { shared, property, account };
    let mut answer = match method {
        Method::RunReport => call.run_report(&body)?,
        Method::BatchRunReports => call.batch(&body)?,
        Method::RunRealtimeReport => call.realtime(&body)?,
        Method::CheckCompatibility => {
            let answer = compatibility::check(property, &body)?;
            call.charge(1, false);
            Answer::json(200, &answer)
        }
        Method::GetMetadata => {
            call.charge(1, false);
            Answer::json(200, &metadata::of(property))
        }
        Method::AlphaGetMetadata => {
            call.charge(1, false);
            Answer::json(200, &metadata::with_conversions(property))
        }
        Method::AlphaRunReport => Answer::json(200, &call.report(&ReportRequest::alpha_report(&body)?)?),
        Method::RunFunnelReport => call.funnel(&body)?,
    };
    hold(&mut answer, permit);
    Ok(answer)
}

/// A request counts as concurrent until its last byte has left.
fn hold(answer: &mut Answer, permit: Permit) {
    answer.held = Some(Box::new(permit));
}

/// One call on one property.
struct Call<'a> {
    shared: &'a Shared,
    property: &'a Property,
    account: Account,
}

impl Call<'_> {
    fn charge(&self, tokens: u64, thresholded: bool) -> Value {
        self.shared.ledger.charge(&self.account, tokens, thresholded)
    }

    fn run_report(&self, body: &Value) -> Result<Answer, GoogleError> {
        let request = ReportRequest::report(body, "")?;
        if self.is_bulk(&request) {
            let bulk = bulk::Bulk::new(&self.shared.world, self.property, &request)?;
            let quota = self.charge(bulk.tokens(), false);
            return Ok(Answer::streamed(bulk.into_pieces(request.return_quota.then_some(quota))));
        }
        Ok(Answer::json(200, &self.report(&request)?))
    }

    fn is_bulk(&self, request: &ReportRequest) -> bool {
        self.property.kind == Kind::Bulk && request.dimensions.iter().any(|d| d == catalogue::BULK_ITEM)
    }

    fn report(&self, request: &ReportRequest) -> Result<Value, GoogleError> {
        let report = report::run(self.property, request)?;
        Ok(self.finish(report, request, "analyticsData#runReport"))
    }

    fn finish(&self, report: Report, request: &ReportRequest, kind: &str) -> Value {
        let quota = self.charge(report.tokens, report.thresholded);
        let mut fields = report.fields;
        if request.return_quota {
            fields.insert("propertyQuota".into(), quota);
        }
        fields.insert("kind".into(), json!(kind));
        Value::Object(fields)
    }

    /// Each report of a batch is charged as if it came alone.
    fn batch(&self, body: &Value) -> Result<Answer, GoogleError> {
        let (requests, property) = Fields::new(body, "", &["property", "requests"])?.batch()?;
        if requests.len() > MAX_BATCH {
            return Err(GoogleError::invalid(format!(
                "Batch requests are limited to {MAX_BATCH} requests.\n  This batch contains {} requests.",
                requests.len()
            )));
        }
        let own = format!("properties/{}", self.property.id);
        let mut reports = Vec::new();
        let mut parsed = Vec::new();
        for (value, path, named) in requests {
            if named.or_else(|| property.clone()).is_some_and(|name| name != own) {
                return Err(GoogleError::invalid("All requests in a batch must be for the property of the batch."));
            }
            let request = ReportRequest::report(value, &path)?;
            if self.is_bulk(&request) {
                return Err(GoogleError::unsupported("bulk rows in a batch"));
            }
            parsed.push(request);
        }
        for request in &parsed {
            reports.push(self.report(request)?);
        }
        Ok(Answer::json(200, &json!({"reports": reports, "kind": "analyticsData#batchRunReports"})))
    }

    fn funnel(&self, body: &Value) -> Result<Answer, GoogleError> {
        let request = funnel::Request::read(body)?;
        let (mut answer, tokens) = funnel::run(self.property, &request)?;
        let quota = self.charge(tokens, false);
        if request.return_quota {
            answer["propertyQuota"] = quota;
        }
        Ok(Answer::json(200, &answer))
    }

    fn realtime(&self, body: &Value) -> Result<Answer, GoogleError> {
        let request = ReportRequest::realtime(body)?;
        let mut report = realtime::run(self.property, &request)?;
        report.fields.remove("metadata");
        Ok(Answer::json(200, &self.finish(report, &request, "analyticsData#runRealtimeReport")))
    }
}
