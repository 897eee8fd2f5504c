//! Google's error bodies: one shape for every API but the token endpoint.

use serde_json::{Value, json};

use crate::answer::Answer;

/// An error in the shape `{"error": {"code", "message", "status", "details"}}`, or in that of the older APIs:
/// `{"error": {"code", "message", "errors": [{"message", "domain", "reason"}]}}`.
#[derive(Clone, Debug)]
pub(crate) struct GoogleError {
    code: u16,
    /// Empty in errors of the older shape.
    status: &'static str,
    message: String,
    details: Vec<Value>,
    errors: Vec<Value>,
}

impl GoogleError {
    fn new(code: u16, status: &'static str, message: impl Into<String>) -> Self {
        Self { code, status, message: message.into(), details: Vec::new(), errors: Vec::new() }
    }

    /// An error of the older shape, which names a domain and a reason.
    pub(crate) fn legacy(code: u16, domain: &str, reason: &str, message: impl Into<String>) -> Self {
        let mut error = Self::new(code, "", message);
        error.errors.push(json!({"message": error.message, "domain": domain, "reason": reason}));
        error
    }

    /// Names the parameter that an error of the older shape is about.
    pub(crate) fn at(mut self, location: &str) -> Self {
        for error in &mut self.errors {
            error["location"] = json!(location);
            error["locationType"] = json!("parameter");
        }
        self
    }

    /// Adds a status to an error of the older shape: some answers carry both.
    pub(crate) fn with_status(mut self, status: &'static str) -> Self {
        self.status = status;
        self
    }

    /// 400 `INVALID_ARGUMENT`.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "INVALID_ARGUMENT", message)
    }

    /// 400 for something this sandbox leaves out: a clear refusal, never a guess.
    pub(crate) fn unsupported(what: &str) -> Self {
        Self::invalid(format!("sandbox: not supported: {what}"))
    }

    /// 400 for a body that doesn't fit the request message; carries `BadRequest.fieldViolations`.
    pub(crate) fn bad_payload(field: &str, description: impl Into<String>) -> Self {
        let description = description.into();
        Self::bad_value(field, format!("Invalid JSON payload received. {description}"))
    }

    /// 400 for a value that its field doesn't take; carries `BadRequest.fieldViolations`.
    pub(crate) fn bad_value(field: &str, description: impl Into<String>) -> Self {
        let mut error = Self::invalid(description);
        let violation = if field.is_empty() {
            json!({"description": error.message})
        } else {
            json!({"field": field, "description": error.message})
        };
        error.details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [violation],
        }));
        error
    }

    /// 401 for a request without credentials.
    pub(crate) fn credentials_missing(service: &str, method: &str) -> Self {
        let mut error = Self::new(
            401,
            "UNAUTHENTICATED",
            "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or \
             other valid authentication credential. See \
             https://developers.google.com/identity/sign-in/web/devconsole-project.",
        );
        error.details.push(error_info("CREDENTIALS_MISSING", json!({"service": service, "method": method})));
        error
    }

    /// 401 for a token that is unknown, expired or revoked.
    pub(crate) fn invalid_credentials() -> Self {
        Self::new(
            401,
            "UNAUTHENTICATED",
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other \
             valid authentication credential. See \
             https://developers.google.com/identity/sign-in/web/devconsole-project.",
        )
    }

    /// 403 for a token without the scope the service needs.
    pub(crate) fn insufficient_scope(service: &str, method: &str) -> Self {
        let mut error = Self::new(403, "PERMISSION_DENIED", "Request had insufficient authentication scopes.");
        error
            .details
            .push(error_info("ACCESS_TOKEN_SCOPE_INSUFFICIENT", json!({"service": service, "method": method})));
        error
    }

    /// 403 for a property the identity may not see.
    pub(crate) fn property_denied() -> Self {
        Self::new(
            403,
            "PERMISSION_DENIED",
            "User does not have sufficient permissions for this property. To learn more about Property ID, see \
             https://developers.google.com/analytics/devguides/reporting/data/v1/property-id.",
        )
    }

    /// 403 with a text and nothing else.
    pub(crate) fn denied(message: &str) -> Self {
        Self::new(403, "PERMISSION_DENIED", message)
    }

    /// 403 of the Admin API.
    pub(crate) fn caller_denied() -> Self {
        Self::denied("The caller does not have permission")
    }

    /// 404 of the Admin API, as JSON.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "NOT_FOUND", message)
    }

    /// 413: a body beyond the sandbox's bound.
    pub(crate) fn too_large() -> Self {
        Self::new(413, "INVALID_ARGUMENT", "sandbox: the request body is larger than 8 MiB.")
    }

    /// 429 `RESOURCE_EXHAUSTED`. Google sends no Retry-After with it.
    pub(crate) fn exhausted(message: &str) -> Self {
        Self::new(429, "RESOURCE_EXHAUSTED", message)
    }

    /// The HTTP answer.
    pub(crate) fn answer(&self) -> Answer {
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.errors.is_empty() {
            error["errors"] = Value::Array(self.errors.clone());
        }
        if !self.status.is_empty() {
            error["status"] = json!(self.status);
        }
        if !self.details.is_empty() {
            error["details"] = Value::Array(self.details.clone());
        }
        let mut answer = Answer::json(self.code, &json!({"error": error}));
        if self.code == 401 {
            answer.headers.push(("WWW-Authenticate".into(), "Bearer realm=\"https://accounts.google.com/\"".into()));
        }
        answer
    }

    /// The text, for tests and for errors wrapped by other methods.
    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

fn error_info(reason: &str, metadata: Value) -> Value {
    json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": metadata,
    })
}
