//! What BigQuery says when something goes wrong: one text and reason, as an HTTP error or in the status of a job.

use serde_json::{Value, json};

use super::sql::Reason;
use crate::answer::Answer;
use crate::google_error::GoogleError;

/// A failure of a request or of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: u16,
    reason: &'static str,
    message: String,
    location: &'static str,
}

/// Failures that a test can ask for: reason, HTTP status, text.
const KNOWN: [(&str, u16, &str); 20] = [
    ("backendError", 503, "Error encountered during execution. Retrying may solve the problem."),
    ("internalError", 500, "An internal error occurred and the request could not be completed."),
    ("jobBackendError", 400, "The job failed with a backend error. Retrying the job may solve the problem."),
    ("jobInternalError", 400, "The job failed with an internal error. Retrying the job may solve the problem."),
    (
        "jobRateLimitExceeded",
        400,
        "Exceeded rate limits: too many table update operations for this table. For more information, see \
         https://cloud.google.com/bigquery/docs/troubleshoot-quotas",
    ),
    (
        "rateLimitExceeded",
        403,
        "Exceeded rate limits: too many concurrent queries for this project_and_region. For more information, see \
         https://cloud.google.com/bigquery/docs/troubleshoot-quotas",
    ),
    (
        "quotaExceeded",
        403,
        "Quota exceeded: Your project exceeded quota for free query bytes scanned. For more information, see \
         https://cloud.google.com/bigquery/docs/troubleshoot-quotas",
    ),
    (
        "usageQuotaExceeded",
        403,
        "Custom quota exceeded: Your usage exceeded the custom quota for QueryUsagePerUserPerDay, which is set by your \
         administrator. For more information, see https://cloud.google.com/bigquery/cost-controls",
    ),
    (
        "billingTierLimitExceeded",
        400,
        "Query exceeded resource limits. 24000 CPU seconds were used, and this query must use less than 7600 CPU seconds.",
    ),
    (
        "resourcesExceeded",
        400,
        "Resources exceeded during query execution: The query could not be executed in the allotted memory. Peak usage: \
         125% of limit. Top memory consumer(s): sort operations used for analytic OVER() clauses: 98%",
    ),
    (
        "responseTooLarge",
        403,
        "Response too large to return. Consider specifying a destination table in your job configuration. For more \
         details, see https://cloud.google.com/bigquery/troubleshooting-errors",
    ),
    (
        "billingNotEnabled",
        403,
        "Billing has not been enabled for this project. Enable billing at \
         https://console.cloud.google.com/billing. DML queries are not allowed in the free tier.",
    ),
    ("blocked", 403, "BigQuery has temporarily blocked this operation. Contact support."),
    ("tableUnavailable", 400, "The table is temporarily unavailable. Retry the operation."),
    ("timeout", 400, "Operation timed out after 6.0 hours. Consider reducing the amount of work performed."),
    ("stopped", 200, "Job execution was cancelled: User requested cancellation"),
    ("notImplemented", 501, "The requested feature is not implemented."),
    ("accessDenied", 403, "Access Denied: BigQuery BigQuery: Permission denied."),
    ("accessDeniedDrive", 403, "Access Denied: BigQuery BigQuery: Permission denied while getting Drive credentials."),
    ("invalid", 400, "Invalid value. The request could not be processed."),
];

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), location: "" }
    }

    /// One of [`KNOWN`] by its reason (`accessDeniedDrive` has the reason `accessDenied`), with that text or its own.
    pub(crate) fn known(reason: &str, message: Option<&str>) -> Option<Self> {
        let (name, code, text) = KNOWN.iter().find(|(name, ..)| *name == reason)?;
        let name = if *name == "accessDeniedDrive" { "accessDenied" } else { *name };
        Some(Self::new(*code, name, message.unwrap_or(*text)))
    }

    /// The reasons that [`Failure::known`] takes.
    pub(crate) fn known_reasons() -> String {
        KNOWN.map(|(name, ..)| name).join(", ")
    }

    /// 400 for a value that can't be.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid", message)
    }

    /// 400 for a parameter that isn't there.
    pub(crate) fn required(parameter: &str) -> Self {
        Self::new(400, "required", format!("Required parameter is missing: {parameter}"))
    }

    /// 400 for what the sandbox leaves out.
    pub(crate) fn unsupported(what: &str) -> Self {
        Self::invalid(format!("sandbox: not supported: {what}"))
    }

    /// What is wrong with a statement.
    pub(crate) fn of_sql(reason: Reason, message: String) -> Self {
        let (name, code) = reason.wire();
        Self { location: if name == "invalidQuery" { "query" } else { "" }, ..Self::new(code, name, message) }
    }

    /// 404 `Not found: <what>`.
    pub(crate) fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(404, "notFound", format!("Not found: {what}"))
    }

    /// 403 `Access Denied: <what>`.
    pub(crate) fn access_denied(what: impl std::fmt::Display) -> Self {
        Self::new(403, "accessDenied", format!("Access Denied: {what}"))
    }

    /// 409 `Already Exists: <what>`.
    pub(crate) fn duplicate(what: impl std::fmt::Display) -> Self {
        Self::new(409, "duplicate", format!("Already Exists: {what}"))
    }

    /// More would be billed than the request allows: HTTP 500, and yet nothing to retry.
    pub(crate) fn bytes_billed_limit(limit: i64, needed: i64) -> Self {
        Self::new(
            500,
            "bytesBilledLimitExceeded",
            format!("Query exceeded limit for bytes billed: {limit}. {needed} or higher required."),
        )
    }

    /// 403 for an operation that is switched off.
    pub(crate) fn blocked(message: &str) -> Self {
        Self::new(403, "blocked", message)
    }

    /// 503 for an insertion whose outcome the client can't know.
    pub(crate) fn lost() -> Self {
        Self::new(503, "backendError", "Error encountered during execution. Retrying may solve the problem.")
    }

    /// The job was cancelled.
    pub(crate) fn stopped() -> Self {
        Self::new(200, "stopped", "Job execution was cancelled: User requested cancellation")
    }

    /// The job took longer than its `jobTimeoutMs`.
    pub(crate) fn timed_out(ms: i64) -> Self {
        Self::new(200, "stopped", format!("Job execution was cancelled: Job timed out after {}s", (ms + 999) / 1000))
    }

    /// The reason, by which clients tell failures apart.
    pub(crate) fn reason(&self) -> &'static str {
        self.reason
    }

    /// As `errorResult` of a job.
    pub(crate) fn proto(&self) -> Value {
        let mut proto = json!({"reason": self.reason, "message": self.message});
        if !self.location.is_empty() {
            proto["location"] = json!(self.location);
        }
        proto
    }

    /// As an answer. What ended a job without being an error of HTTP (cancelled) is 400 when its rows are asked for.
    pub(crate) fn answer(&self) -> Answer {
        let code = if self.code == 200 { 400 } else { self.code };
        let mut error = GoogleError::legacy(code, "global", self.reason, self.message.as_str());
        if !self.location.is_empty() {
            // A job's status says `query` where an answer says `q`.
            error = error.at("q");
        }
        error.with_status(status(code)).answer()
    }
}

fn status(code: u16) -> &'static str {
    match code {
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ALREADY_EXISTS",
        500 => "INTERNAL",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        _ => "INVALID_ARGUMENT",
    }
}
