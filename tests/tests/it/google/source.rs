//! The connectors for Google, as suites about all of them see them.

use std::ops::Range;

use regex::Regex;
use serde_json::{Value, json};

use super::{Connector, Google};

/// What differs between them. A suite takes one call of the default extraction tool, whose answer has few rows.
pub(crate) struct Source {
    /// Its program.
    pub(crate) name: &'static str,
    pub(crate) tool: &'static str,
    /// What the call is about; the limited account can read it too.
    pub(crate) resource: fn(&Google) -> String,
    /// One that nobody can read.
    pub(crate) unknown: &'static str,
    /// The arguments of the call. Nothing but rows and totals has to be asked for, with dates of the sandbox or with any.
    pub(crate) question: fn(&Google) -> Value,
    pub(crate) dateless: fn() -> Value,
    /// Every tool of its own, with small arguments, and the error of one that has nothing to do for a plain host.
    pub(crate) tools: fn(&Google) -> Vec<Call>,
    /// A pattern: where these get their answers from, beside what `others` is about.
    pub(crate) paths: &'static str,
    /// What the host configures at the beginning, if anything: limits without which the call is refused.
    pub(crate) configuration: Option<fn() -> Value>,
    /// Patterns: where the requests for rows go, and what tells them from others of the same path.
    pub(crate) path: &'static str,
    pub(crate) body: &'static str,
    /// Requests to that path in a call that goes well, and those that a failing one makes beside the one that fails.
    pub(crate) usual: usize,
    pub(crate) beside: usize,
    /// A page with these rows of so many. `value N` is in row N, and so is N in the column `number`.
    pub(crate) page: fn(Range<u64>, u64) -> Value,
    /// What ends a list of pages, where it is not its length.
    pub(crate) end: Option<fn() -> Value>,
    pub(crate) number: &'static str,
    /// A refusal in the words of this API.
    pub(crate) refusal: fn(Refusal) -> Value,
    /// How a person gets the right to read the resource, and when a quota comes back.
    pub(crate) grant: &'static str,
    pub(crate) returns: &'static str,
    /// Answers to what is asked beside the rows: a pattern for the path, and the answer.
    pub(crate) others: fn(&Google) -> Vec<(&'static str, Value)>,
}

/// A tool, its arguments, and the code of its error where there has to be one.
pub(crate) type Call = (&'static str, Value, Option<i64>);

/// What Google refuses with, whatever the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    BadRequest,
    Unauthenticated,
    NoPermission,
    ApiOff,
    Scope,
    TooFast,
    TooFast429,
    Quota,
    NotFound,
    Conflict,
    Internal,
    Unavailable,
}

/// All of them.
pub(crate) static SOURCES: [&Source; 3] = [&GA4, &GSC, &BIGQUERY];

/// Runs a suite for each source, side by side.
pub(crate) fn each(suite: impl Fn(&'static Source) + Sync) {
    std::thread::scope(|scope| {
        let suite = &suite;
        let running = SOURCES.map(|source| (source.name, scope.spawn(move || suite(source))));
        let failed: Vec<&str> =
            running.into_iter().filter_map(|(name, suite)| suite.join().is_err().then_some(name)).collect();
        assert!(failed.is_empty(), "{failed:?} failed, see above");
    });
}

impl Source {
    pub(crate) fn start(&self, google: &Google, variables: &[(&str, &str)]) -> Connector {
        let mut connector = Connector::start(self.name, google, &(self.resource)(google), variables, None);
        if let Some(configuration) = self.configuration {
            let configured = connector.request("acp/configure", &configuration());
            assert!(configured.json["result"].is_object(), "{}", configured.text);
        }
        connector
    }

    /// A fault on requests for rows: so many of them from the nth on.
    pub(crate) fn on_rows(&self, nth: u64, times: u64, action: &Value) -> Value {
        json!({"path": self.path, "body": self.body, "nth": nth, "times": times, "action": action})
    }

    /// Requests for rows and whatever else goes the same way.
    pub(crate) fn asked(&self, google: &Google) -> usize {
        let path = Regex::new(self.path).expect("a pattern");
        google.sandbox().log().iter().filter(|request| path.is_match(&request.path)).count()
    }
}

/// An answer instead of the real one.
pub(crate) fn status(code: u16, body: &str) -> Value {
    json!({"status": {"code": code, "body": body}})
}

pub(crate) fn with_header(mut action: Value, name: &str, value: &str) -> Value {
    action["status"]["headers"][name] = json!(value);
    action
}

pub(crate) fn html(code: u16) -> Value {
    let page = "<!DOCTYPE html><title>Error (Sorry)</title><p>That is an error.";
    with_header(status(code, page), "Content-Type", "text/html")
}

/// An error as APIs of today have it: a status by name, and a reason in the details.
pub(crate) fn google_error(code: u16, status_name: &str, message: &str, reason: &str) -> Value {
    let mut error = json!({"code": code, "message": message, "status": status_name});
    if !reason.is_empty() {
        error["details"] = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
            "metadata": {"activationUrl": "https://console.developers.google.com/apis/api/analyticsdata.googleapis.com/overview?project=1"}}]);
    }
    status(code, &json!({"error": error}).to_string())
}

/// An error as older APIs have it: a list of reasons.
pub(crate) fn listed_error(code: u16, reason: &str, message: &str) -> Value {
    let errors = json!([{"domain": "global", "reason": reason, "message": message}]);
    status(code, &json!({"error": {"code": code, "message": message, "errors": errors}}).to_string())
}

/// Analytics.
pub(crate) static GA4: Source = Source {
    name: "ga4",
    tool: "run_report",
    resource: |google| google.id("main").to_owned(),
    unknown: "999999999",
    question: |google| json!({"metrics": ["sessions"], "dimensions": ["country"], "start_date": google.day(20), "end_date": google.day(1)}),
    dateless: || json!({"metrics": ["sessions"], "dimensions": ["country"], "start_date": "2026-09-01", "end_date": "2026-09-02"}),
    tools: |_| {
        let compared = json!({"start_date": "14daysAgo", "end_date": "8daysAgo"});
        let clusters = |mode: &str, metric: &str| json!({"dimension": "country", "metrics": [metric], "mode": mode, "clusters": [{"name": "a", "pattern": "^A"}]});
        vec![
            ("run_report", json!({"metrics": ["sessions"], "dimensions": ["country"]}), None),
            (
                "run_report",
                json!({"metrics": ["sessions"], "dimensions": ["country"], "compare_ranges": [compared]}),
                None,
            ),
            (
                "run_report",
                json!({"metrics": ["eventCount"], "dimensions": ["country"], "split": "day", "start_date": "2daysAgo"}),
                None,
            ),
            ("run_report_by_regex_cluster", clusters("rows", "eventCount"), None),
            ("run_report_by_regex_cluster", clusters("exact", "sessions"), None),
            ("compare_conversion_models", json!({}), None),
            ("run_realtime_report", json!({"metrics": ["eventCount"], "dimensions": ["platform"]}), None),
            ("run_funnel_report", json!({"steps": [{"event": "first_visit"}, {"event": "purchase"}]}), None),
            ("search_fields", json!({"query": "country"}), None),
            ("validate_report", json!({"arguments": {"metrics": ["sessions"], "dimensions": ["country"]}}), None),
        ]
    },
    paths: ":(runReport|runRealtimeReport|runFunnelReport|checkCompatibility)$",
    configuration: None,
    path: ":runReport$",
    body: "country",
    usual: 1,
    beside: 0,
    page: report_page,
    end: None,
    number: "sessions",
    refusal: |refusal| {
        let (code, status_name, message, reason) = match refusal {
            Refusal::BadRequest => (400, "INVALID_ARGUMENT", "Please remove X to make the request compatible.", ""),
            Refusal::Unauthenticated => (401, "UNAUTHENTICATED", "Request had invalid authentication credentials.", ""),
            Refusal::NoPermission => {
                (403, "PERMISSION_DENIED", "User does not have sufficient permissions for this property.", "")
            }
            Refusal::ApiOff => (
                403,
                "PERMISSION_DENIED",
                "Google Analytics Data API has not been used in project 1 before or it is disabled.",
                "SERVICE_DISABLED",
            ),
            Refusal::Scope => (
                403,
                "PERMISSION_DENIED",
                "Request had insufficient authentication scopes.",
                "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
            ),
            Refusal::TooFast => {
                (403, "PERMISSION_DENIED", "Quota exceeded for quota metric 'Requests'", "RATE_LIMIT_EXCEEDED")
            }
            Refusal::TooFast429 => (429, "RESOURCE_EXHAUSTED", "Exhausted concurrent requests quota.", ""),
            Refusal::Quota => (429, "RESOURCE_EXHAUSTED", "Exhausted property tokens for a project per hour.", ""),
            Refusal::NotFound => (404, "NOT_FOUND", "Requested entity was not found.", ""),
            Refusal::Conflict => (409, "ABORTED", "The operation was aborted.", ""),
            Refusal::Internal => (500, "INTERNAL", "Internal error encountered.", ""),
            Refusal::Unavailable => (503, "UNAVAILABLE", "The service is currently unavailable.", ""),
        };
        google_error(code, status_name, message, reason)
    },
    grant: "Viewer",
    returns: "within an hour",
    others: |_| {
        let field = |name: &str| json!({"apiName": name, "uiName": name, "type": "TYPE_INTEGER"});
        let metrics = ["sessions", "eventCount", "keyEvents"].map(field);
        vec![("/metadata$", json!({"dimensions": [field("country")], "metrics": metrics}))]
    },
};

/// A page of a report by country, `sessions` being the row's number.
pub(crate) fn report_page(rows: Range<u64>, row_count: u64) -> Value {
    let rows: Vec<Value> = rows
        .map(|row| json!({"dimensionValues": [{"value": format!("value {row}")}], "metricValues": [{"value": row.to_string()}]}))
        .collect();
    json!({
        "dimensionHeaders": [{"name": "country"}], "metricHeaders": [{"name": "sessions", "type": "TYPE_INTEGER"}],
        "rows": rows, "rowCount": row_count,
        "totals": [{"dimensionValues": [{"value": "RESERVED_TOTAL"}], "metricValues": [{"value": "4711"}]}],
        "metadata": {"currencyCode": "EUR", "timeZone": "Europe/Berlin"}, "kind": "analyticsData#runReport",
    })
}

/// Search Console.
pub(crate) static GSC: Source = Source {
    name: "gsc",
    tool: "search_analytics",
    resource: |_| SHOP.to_owned(),
    unknown: "https://nobody.example/",
    question: |google| {
        let last = &google.facts()["search_console"]["last_final"];
        json!({"dimensions": ["query"], "start_date": last, "end_date": last})
    },
    dateless: || json!({"dimensions": ["query"], "start_date": "40daysAgo", "end_date": "30daysAgo"}),
    tools: |_| {
        vec![
            ("search_analytics", json!({"dimensions": ["device"]}), None),
            (
                "search_analytics",
                json!({"dimensions": ["country"], "walk_days": "always", "start_date": "6daysAgo", "end_date": "5daysAgo"}),
                None,
            ),
            ("compare_periods", json!({"dimensions": ["device"]}), None),
            ("search_analytics_by_regex_cluster", json!({"brand": "nordwind"}), None),
            ("query_page_overlap", json!({}), None),
            ("inspect_urls", json!({"urls": [SHOP]}), None),
            ("list_sitemaps", json!({}), None),
            ("validate_query", json!({"arguments": {"dimensions": ["query"]}, "resource_id": null}), None),
        ]
    },
    paths: "/searchAnalytics/query$|/sitemaps|/urlInspection",
    configuration: None,
    path: "/searchAnalytics/query$",
    body: r#""dimensions":\[("date",)?"query"\]"#,
    // The rows, the empty page that ends them, and the totals, which are asked for beside the rows.
    usual: 3,
    beside: 1,
    page: |rows, _| {
        let row = |row| json!({"keys": [format!("value {row}")], "clicks": 0.0, "impressions": row as f64, "ctr": 0.0, "position": 1.0});
        json!({"rows": rows.map(row).collect::<Vec<_>>(), "responseAggregationType": "byProperty"})
    },
    end: Some(|| json!({"responseAggregationType": "byProperty"})),
    number: "impressions",
    refusal: |refusal| {
        let (code, reason, message) = match refusal {
            Refusal::BadRequest => {
                (400, "invalidParameter", "Please remove X: it is not a valid aggregation type in this context.")
            }
            Refusal::Unauthenticated => (401, "authError", "Invalid Credentials"),
            Refusal::NoPermission => {
                (403, "forbidden", "User does not have sufficient permission for site 'https://www.nordwind.example/'.")
            }
            Refusal::ApiOff => (
                403,
                "accessNotConfigured",
                "Google Search Console API has not been used in project 1 before or it is disabled. Enable it by visiting \
                 https://console.developers.google.com/apis/api/searchconsole.googleapis.com/overview?project=1 then retry.",
            ),
            Refusal::Scope => (403, "insufficientPermissions", "Request had insufficient authentication scopes."),
            Refusal::TooFast => (
                403,
                "quotaExceeded",
                "Search Analytics QPS quota exceeded. Learn about usage limits: https://developers.google.com/webmaster-tools/v3/limits.",
            ),
            Refusal::TooFast429 => (429, "rateLimitExceeded", "Rate Limit Exceeded"),
            Refusal::Quota => (
                403,
                "quotaExceeded",
                "Search Analytics load quota exceeded. Learn about usage limits: https://developers.google.com/webmaster-tools/v3/limits.",
            ),
            Refusal::NotFound => (404, "notFound", "Requested entity was not found."),
            Refusal::Conflict => (409, "conflict", "The operation was aborted."),
            Refusal::Internal => (500, "backendError", "Internal error encountered."),
            Refusal::Unavailable => (503, "backendError", "The service is currently unavailable."),
        };
        listed_error(code, reason, message)
    },
    grant: "Users and permissions",
    returns: "15 minutes",
    others: |_| {
        let site = json!({"siteUrl": SHOP, "permissionLevel": "siteOwner"});
        vec![("^/webmasters/v3/sites$", json!({"siteEntry": [site]}))]
    },
};

/// The prefix of the shop, which the limited account can read.
const SHOP: &str = "https://www.nordwind.example/";

/// BigQuery. Queries run in three steps (a dry run, a job, its rows), and only the last one is for rows.
pub(crate) static BIGQUERY: Source = Source {
    name: "bigquery",
    tool: "execute_query",
    resource: |google| google.facts()["bigquery"]["ga4_export"]["dataset"].as_str().map(of_sandbox).expect("a dataset"),
    unknown: "acp-sandbox.nobodys",
    question: |google| {
        let last = google.facts()["bigquery"]["ga4_export"]["last"].as_str().expect("a day").replace('-', "");
        json!({"query": format!("SELECT event_name AS name, COUNT(*) AS number FROM `events_{last}` GROUP BY 1 ORDER BY 1")})
    },
    dateless: || json!({"query": "SELECT 'value 0' AS name, 0 AS number"}),
    tools: |google| {
        let last = google.facts()["bigquery"]["ga4_export"]["last"].as_str().expect("a day").replace('-', "");
        let table = json!({"table": format!("events_{last}")});
        vec![
            ("execute_query", (BIGQUERY.question)(google), None),
            ("validate_query", (BIGQUERY.question)(google), None),
            ("describe_table", table.clone(), None),
            ("preview_table", table, None),
            ("get_job", json!({"job_id": "acp_nobodys"}), Some(-32014)),
            // This host hands no tables over; one that does is in the connector's own suite.
            (
                "load_rows",
                json!({"table_ref": "ds_1", "destination": "acp-sandbox.loads.x", "resource_id": null}),
                Some(-32020),
            ),
        ]
    },
    paths: "^/bigquery/",
    configuration: Some(|| json!({"cost_limit_usd": 1, "config": {"allow_preview": true}})),
    path: "/queries/[^/]+$",
    body: "",
    usual: 1,
    beside: 0,
    page: |rows, row_count| {
        let field = |name: &str, kind: &str| json!({"name": name, "type": kind, "mode": "NULLABLE"});
        let row = |row: u64| json!({"f": [{"v": format!("value {row}")}, {"v": row.to_string()}]});
        let mut page = json!({
            "rows": rows.clone().map(row).collect::<Vec<_>>(), "kind": "bigquery#getQueryResultsResponse",
            "schema": {"fields": [field("name", "STRING"), field("number", "INTEGER")]},
            "jobReference": {"projectId": "acp-sandbox", "jobId": "made_up", "location": "EU"},
            "totalRows": row_count.to_string(), "jobComplete": true, "cacheHit": false, "totalBytesProcessed": "0",
        });
        if rows.end < row_count {
            page["pageToken"] = json!(format!("after-{}", rows.end));
        }
        page
    },
    end: None,
    number: "number",
    refusal: |refusal| {
        let (code, reason, message) = match refusal {
            Refusal::BadRequest => (400, "invalid", "Please remove X: the request is not valid."),
            Refusal::Unauthenticated => (401, "authError", "Invalid Credentials"),
            Refusal::NoPermission => (403, "accessDenied", "Access Denied: Table acp-sandbox:d.t: no permission."),
            Refusal::ApiOff => (
                403,
                "accessNotConfigured",
                "BigQuery API has not been used in project 1 before or it is disabled. Enable it by visiting \
                 https://console.developers.google.com/apis/api/bigquery.googleapis.com/overview?project=1 then retry.",
            ),
            Refusal::Scope => (403, "insufficientPermissions", "Request had insufficient authentication scopes."),
            Refusal::TooFast => (403, "rateLimitExceeded", "Exceeded rate limits: too many concurrent queries."),
            Refusal::TooFast429 => (429, "rateLimitExceeded", "Exceeded rate limits: too many api requests per user."),
            Refusal::Quota => {
                (403, "quotaExceeded", "Quota exceeded: Your project exceeded quota for free query bytes scanned.")
            }
            Refusal::NotFound => (404, "notFound", "Not found: Job acp-sandbox:made_up"),
            Refusal::Conflict => (409, "conflict", "The operation was aborted."),
            Refusal::Internal => (500, "internalError", "An internal error occurred."),
            Refusal::Unavailable => (503, "backendError", "Error encountered during execution."),
        };
        listed_error(code, reason, message)
    },
    grant: "BigQuery Data Viewer",
    returns: "quota page",
    others: |_| {
        let job = json!({"kind": "bigquery#job", "jobReference": {"projectId": "acp-sandbox", "location": "EU"}, "status": {"state": "DONE"},
            "statistics": {"query": {"statementType": "SELECT", "totalBytesProcessed": "0", "totalBytesBilled": "0",
                "totalBytesProcessedAccuracy": "PRECISE"}}});
        let dataset = json!({"kind": "bigquery#dataset", "location": "EU"});
        vec![("/jobs(/[^/]+)?$", job), ("/datasets/[^/]+$", dataset)]
    },
};

/// A dataset of the sandbox's project.
fn of_sandbox(dataset: &str) -> String {
    format!("acp-sandbox.{dataset}")
}
