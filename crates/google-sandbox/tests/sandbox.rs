//! The sandbox from outside: tokens, permissions, reports, quota, faults, control routes.

// Clippy's exemption for tests doesn't reach the helpers beside them.
#![allow(clippy::unwrap_used)]

mod client;

use std::time::{Duration, Instant};

use client::{Bench, READONLY, body, column, numbers, send};
use google_sandbox::{Fault, FaultAction, LIMITED_EMAIL};
use serde_json::{Value, json};

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

#[tokio::test]
async fn tokens_are_issued_and_refused_like_google_does() {
    let bench = Bench::start().await;
    let key = bench.key(false);
    let good = bench.exchange(&key, json!({})).await.json();
    assert_eq!(good["expires_in"], 3599);
    assert_eq!(good["token_type"], "Bearer");
    assert_eq!(good["scope"], READONLY);

    let mut forged = bench.key(true);
    forged["client_email"] = key["client_email"].clone();
    let cases = [
        (&forged, json!({}), "invalid_grant", "Invalid JWT Signature."),
        (&key, json!({"iss": "who@example.com"}), "invalid_grant", "Invalid grant: account not found"),
        (&key, json!({"aud": "https://oauth2.example/token"}), "invalid_grant", "audience"),
        (&key, json!({"iat": -7200, "exp": -3600}), "invalid_grant", "reasonable timeframe"),
        (&key, json!({"iat": 900, "exp": 4000}), "invalid_grant", "reasonable timeframe"),
        (&key, json!({"exp": 3700}), "invalid_grant", "short-lived"),
        (&key, json!({"scope": ""}), "invalid_scope", "Invalid OAuth scope"),
    ];
    for (key, changes, error, text) in cases {
        let answer = bench.exchange(key, changes.clone()).await;
        assert_eq!(answer.status, 400, "{changes}");
        let answer = answer.json();
        assert_eq!(answer["error"], error, "{changes}");
        assert!(answer["error_description"].as_str().unwrap().contains(text), "{answer}");
    }
    let unknown = bench.exchange(&key, json!({"scope": "https://example.com/x"})).await;
    assert_eq!(unknown.status, 200);
    assert!(unknown.json()["access_token"].is_null() && unknown.json()["id_token"].is_string());
    let garbage =
        bench.token_form(&[("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", "x.y")]).await;
    assert_eq!(garbage.json()["error"], "invalid_request");
}

#[tokio::test]
async fn self_signed_tokens_work_and_can_be_killed() {
    let bench = Bench::start().await;
    let key = bench.key(false);
    let path = "/v1beta/accountSummaries";
    let status = async |changes: Value| bench.get(&bench.self_signed(&key, &changes), path).await.status;
    assert_eq!(status(json!({})).await, 200);
    assert_eq!(status(json!({"scope": null, "aud": "https://analyticsdata.googleapis.com/"})).await, 200);
    assert_eq!(status(json!({"scope": "https://www.googleapis.com/auth/bigquery"})).await, 403);
    assert_eq!(status(json!({"iat": -4000, "exp": -400})).await, 401);
    let mut forged = bench.key(true);
    forged["client_email"] = key["client_email"].clone();
    assert_eq!(bench.get(&bench.self_signed(&forged, &json!({})), path).await.status, 401);
    let token = bench.self_signed(&key, &json!({}));
    bench.sandbox.faults().add_json(&json!({"path": "accountSummaries", "action": "expire_token"})).unwrap();
    assert_eq!(bench.get(&token, path).await.status, 401);
    assert_eq!(bench.get(&token, path).await.status, 401);
}

#[tokio::test]
async fn the_oauth_credential_is_expired_and_refreshes() {
    let bench = Bench::start().await;
    let path = &bench.sandbox.credentials().oauth;
    let oauth: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let text = |name: &str| oauth[name].as_str().unwrap().to_owned();
    let stale = bench.get(&text("access_token"), "/v1beta/accountSummaries").await;
    assert_eq!(stale.status, 401);
    let message = stale.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("Request had invalid authentication credentials."));
    let request = json!({
        "grant_type": "refresh_token", "refresh_token": text("refresh_token"),
        "client_id": text("client_id"), "client_secret": text("client_secret"),
    });
    let refresh = |request: Value| async move {
        let headers = [("Content-Type", "application/json")];
        send(bench_url(&request), "POST", "/token", &headers, request["body"].to_string().as_bytes()).await.unwrap()
    };
    let fresh = refresh(json!({"url": bench.url(), "body": request})).await;
    let token = fresh.json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(bench.get(&token, "/v1beta/accountSummaries").await.status, 200);
    let mut wrong = request.clone();
    wrong["refresh_token"] = json!("1//nope");
    let refused = refresh(json!({"url": bench.url(), "body": wrong})).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error_description"], "Token has been expired or revoked.");
    wrong["client_secret"] = json!("nope");
    assert_eq!(refresh(json!({"url": bench.url(), "body": wrong})).await.json()["error"], "invalid_client");
}

fn bench_url(request: &Value) -> &str {
    request["url"].as_str().unwrap()
}

#[tokio::test]
async fn permissions_follow_the_identity_and_the_scope() {
    let bench = Bench::start().await;
    let (full, limited) = (bench.token(false).await, bench.token(true).await);
    let seen = strings(&bench.facts["identities"]["limited"]["properties"]);
    assert_eq!(seen.len(), 2);
    let report = body(&["date"], &["sessions"], json!({}));
    let bulk = bench.property("bulk");
    let path = |id: &str| format!("/v1beta/properties/{id}:runReport");
    assert_eq!(bench.post(&limited, &path(seen[1]), &report).await.status, 200);
    assert_eq!(bench.post(&full, &path(&bulk), &report).await.status, 200);
    let denied = bench.post(&limited, &path(&bulk), &report).await;
    assert_eq!(denied.status, 403);
    let denied = denied.json();
    assert_eq!(denied["error"]["status"], "PERMISSION_DENIED");
    assert!(denied["error"]["message"].as_str().unwrap().starts_with("User does not have sufficient permissions"));

    let summaries = bench.get(&limited, "/v1beta/accountSummaries").await.json();
    assert_eq!(summaries["accountSummaries"].as_array().unwrap().len(), 1);
    assert_eq!(summaries["accountSummaries"][0]["propertySummaries"].as_array().unwrap().len(), 2);

    let naked = send(bench.url(), "POST", &path(seen[0]), &[], b"{}").await.unwrap();
    assert_eq!(naked.status, 401);
    assert_eq!(naked.json()["error"]["details"][0]["reason"], "CREDENTIALS_MISSING");
    let scope = json!({"scope": "https://www.googleapis.com/auth/bigquery"});
    let other = bench.exchange(&bench.key(false), scope).await.json();
    let other = bench.post(other["access_token"].as_str().unwrap(), &path(seen[0]), &report).await;
    assert_eq!(other.status, 403);
    assert_eq!(other.json()["error"]["details"][0]["reason"], "ACCESS_TOKEN_SCOPE_INSUFFICIENT");
}

#[tokio::test]
async fn lists_come_in_pages_and_settings_are_there() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let mut names = Vec::new();
    let mut page_token = String::new();
    loop {
        let path = format!("/v1beta/accountSummaries?pageSize=1&pageToken={page_token}");
        let page = bench.get(&token, &path).await.json();
        for summary in page["accountSummaries"].as_array().unwrap() {
            names.extend(summary["propertySummaries"].as_array().unwrap().clone());
        }
        match page["nextPageToken"].as_str() {
            Some(next) => page_token = next.to_owned(),
            None => break,
        }
    }
    assert!(names.len() > 25, "{}", names.len());
    let main = bench.property("main");
    for (path, key) in [
        ("v1beta/properties/{id}", "timeZone"),
        ("v1beta/properties/{id}/keyEvents", "keyEvents"),
        ("v1beta/properties/{id}/customDimensions", "customDimensions"),
        ("v1beta/properties/{id}/customMetrics", "customMetrics"),
        ("v1beta/properties/{id}/dataStreams", "dataStreams"),
        ("v1beta/properties/{id}/dataRetentionSettings", "eventDataRetention"),
        ("v1alpha/properties/{id}/calculatedMetrics", "calculatedMetrics"),
        ("v1alpha/properties/{id}/channelGroups", "channelGroups"),
        ("v1alpha/properties/{id}/attributionSettings", "reportingAttributionModel"),
        ("v1alpha/properties/{id}/googleSignalsSettings", "state"),
        ("v1alpha/properties/{id}/reportingIdentitySettings", "reportingIdentity"),
        ("v1beta/properties/{id}/metadata", "metrics"),
        ("v1beta/properties/0/metadata", "dimensions"),
    ] {
        let answer = bench.get(&token, &format!("/{}", path.replace("{id}", &main))).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.json()[key].is_null(), "{path}");
    }
    // A v1alpha resource isn't in v1beta; a wrong method isn't 405.
    for (method, path) in [
        ("GET", "/v1beta/properties/1/channelGroups"),
        ("POST", "/v1beta/accountSummaries"),
        ("GET", "/v1beta/properties/1:runReport"),
        ("GET", "/"),
    ] {
        let answer = send(bench.url(), method, path, &[], b"").await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with("text/html"));
        assert!(answer.body.starts_with(b"<!DOCTYPE html>"));
    }
}

#[tokio::test]
async fn a_report_has_googles_shape() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let more =
        json!({"metricAggregations": ["TOTAL", "MAXIMUM", "MINIMUM"], "returnPropertyQuota": true, "limit": "3"});
    let report = bench.report(&token, &main, &body(&["pageTitle"], &["sessions", "engagementRate"], more)).await;
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "dimensionHeaders",
            "metricHeaders",
            "rows",
            "totals",
            "maximums",
            "minimums",
            "rowCount",
            "metadata",
            "propertyQuota",
            "kind"
        ]
    );
    assert_eq!(report["metricHeaders"][0], json!({"name": "sessions", "type": "TYPE_INTEGER"}));
    assert_eq!(report["rows"].as_array().unwrap().len(), 3);
    assert!(report["rowCount"].as_u64().unwrap() > 20);
    assert!(report["rows"][0]["metricValues"][0]["value"].is_string());
    assert_eq!(column(&report, "totals", "dimensionValues", 0), ["RESERVED_TOTAL"]);
    assert_eq!(column(&report, "maximums", "dimensionValues", 0), ["RESERVED_MAX"]);
    assert_eq!(numbers(&report, "maximums", 0)[0], numbers(&report, "rows", 0)[0]);
    assert_eq!(report["metadata"]["timeZone"], "Europe/Berlin");
    assert_eq!(report["propertyQuota"]["concurrentRequests"], json!({"consumed": 0, "remaining": 10}));
    assert_eq!(report["kind"], "analyticsData#runReport");

    // An empty cell is `{}`: the page without a title.
    let all = bench.report(&token, &main, &body(&["pageTitle"], &["sessions"], json!({}))).await;
    let cells = all["rows"].as_array().unwrap();
    assert!(cells.iter().any(|row| row["dimensionValues"][0] == json!({})));

    let empty = bench.report(&token, &bench.property("empty"), &body(&["date"], &["sessions"], json!({}))).await;
    assert!(empty.get("rows").is_none() && empty.get("rowCount").is_none());
    assert!(empty.get("metadata").is_some());

    let only_dimension = bench.report(&token, &main, &body(&["country"], &[], json!({}))).await;
    assert!(only_dimension.get("metricHeaders").is_none());
    assert!(only_dimension["rows"][0].get("metricValues").is_none());
}

#[tokio::test]
async fn ties_move_between_pages_unless_every_dimension_is_ordered() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let dimensions = ["date", "city", "pagePath"];
    let pages = async |orders: Value| {
        let mut rows = Vec::new();
        let mut offset = 0;
        loop {
            let mut more = json!({"limit": 400, "offset": offset.to_string()});
            if !orders.is_null() {
                more["orderBys"] = orders.clone();
            }
            let page = bench.report(&token, &main, &body(&dimensions, &["sessions"], more)).await;
            let count = usize::try_from(page["rowCount"].as_u64().unwrap()).unwrap();
            rows.extend(page["rows"].as_array().unwrap().iter().map(|r| r["dimensionValues"].to_string()));
            offset += 400;
            if offset >= count {
                assert_eq!(rows.len(), count);
                rows.sort();
                rows.dedup();
                return (rows.len(), count);
            }
        }
    };
    let (distinct, count) = pages(Value::Null).await;
    assert!(distinct < count, "ties rotate: {distinct} of {count}");
    let mut orders = vec![json!({"metric": {"metricName": "sessions"}, "desc": true})];
    orders.extend(dimensions.map(|d| json!({"dimension": {"dimensionName": d}})));
    let (distinct, count) = pages(Value::Array(orders)).await;
    assert_eq!(distinct, count);
}

#[tokio::test]
async fn totals_are_recomputed_not_summed() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let total = json!({"metricAggregations": ["TOTAL"]});
    let metrics = ["totalUsers", "eventCount", "newUsers", "engagementRate"];
    let report = bench.report(&token, &main, &body(&["date"], &metrics, total.clone())).await;
    let sum = |index| numbers(&report, "rows", index).iter().sum::<f64>();
    let of = |index: usize| numbers(&report, "totals", index)[0];
    assert!(sum(0) > of(0), "users return: {} {}", sum(0), of(0));
    assert_eq!(sum(1), of(1));
    assert_eq!(sum(2), of(2));
    assert!(of(3) > 0.0 && of(3) < 1.0);
    let planted = &bench.facts["analytics"]["main"]["totals"];
    assert_eq!(planted["totalUsers"].as_f64(), Some(of(0)));

    // Attribution splits key events; the total stays whole.
    let report = bench.report(&token, &main, &body(&["defaultChannelGroup"], &["keyEvents:purchase"], total)).await;
    let rows = numbers(&report, "rows", 0);
    assert!(rows.iter().any(|n| n.fract() != 0.0));
    assert_eq!(report["metricHeaders"][0]["type"], "TYPE_INTEGER");
    assert!((rows.iter().sum::<f64>() - numbers(&report, "totals", 0)[0]).abs() < 1e-6);
    assert_eq!(numbers(&report, "totals", 0)[0].fract(), 0.0);
}

#[tokio::test]
async fn date_ranges_add_a_last_column_and_a_total_each() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let more = json!({
        "dateRanges": [
            {"startDate": "7daysAgo", "endDate": "yesterday", "name": "now"},
            {"startDate": "14daysAgo", "endDate": "8daysAgo"},
        ],
        "metricAggregations": ["TOTAL"],
    });
    let report = bench.report(&token, &main, &body(&["deviceCategory"], &["sessions"], more)).await;
    assert_eq!(report["dimensionHeaders"][1]["name"], "dateRange");
    assert_eq!(column(&report, "totals", "dimensionValues", 1), ["now", "date_range_1"]);
    let ranges = column(&report, "rows", "dimensionValues", 1);
    let sessions = numbers(&report, "rows", 0);
    let now: f64 = ranges.iter().zip(&sessions).filter(|(r, _)| *r == "now").map(|(_, n)| n).sum();
    assert_eq!(now, numbers(&report, "totals", 0)[0]);
}

#[tokio::test]
async fn filters_split_a_table_in_two() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let count = async |filter: Value| {
        let mut more = json!({"metricAggregations": ["TOTAL"]});
        if !filter.is_null() {
            more["dimensionFilter"] = filter;
        }
        numbers(&bench.report(&token, &main, &body(&["eventName"], &["eventCount"], more)).await, "totals", 0)[0]
    };
    let all = count(Value::Null).await;
    for test in [
        json!({"fieldName": "country", "stringFilter": {"value": "germany"}}),
        json!({"fieldName": "pagePath", "stringFilter": {"matchType": "PARTIAL_REGEXP", "value": "^/products/(chair|lamp)"}}),
        json!({"fieldName": "pagePath", "stringFilter": {"matchType": 2, "value": "/PRODUCTS/"}}),
        json!({"fieldName": "city", "emptyFilter": {}}),
        json!({"fieldName": "deviceCategory", "inListFilter": {"values": ["mobile", "tablet"]}}),
        json!({"fieldName": "hour", "numericFilter": {"operation": "LESS_THAN", "value": {"int64Value": "12"}}}),
    ] {
        let filter = json!({"filter": test});
        let yes = count(filter.clone()).await;
        let no = count(json!({"notExpression": filter})).await;
        assert!(yes > 0.0 && no > 0.0, "{filter}");
        assert_eq!(yes + no, all, "{filter}");
    }
    assert_eq!(
        count(json!({"filter": {"fieldName": "country", "stringFilter": {"value": "germany", "caseSensitive": true}}}))
            .await,
        0.0
    );

    let more = json!({"metricFilter": {"filter": {"fieldName": "sessions", "betweenFilter":
        {"fromValue": {"int64Value": 1}, "toValue": {"doubleValue": 50}}}}});
    let report = bench.report(&token, &main, &body(&["city"], &["eventCount"], more)).await;
    assert!(report["rowCount"].as_u64().unwrap() < 16);
}

#[tokio::test]
async fn peculiar_properties_say_so() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let of = async |kind: &str, dimension: &str, metric: &str| {
        let more = json!({"metricAggregations": ["TOTAL"]});
        bench.report(&token, &bench.property(kind), &body(&[dimension], &[metric], more)).await
    };
    let restricted = of("revenue_restricted", "country", "totalRevenue").await;
    assert_eq!(
        restricted["metadata"]["schemaRestrictionResponse"]["activeMetricRestrictions"][0]["restrictedMetricTypes"],
        json!(["REVENUE_DATA"])
    );
    assert_eq!(numbers(&restricted, "totals", 0), [0.0]);
    let thresholded = of("thresholded", "city", "eventCount").await;
    assert_eq!(thresholded["metadata"]["subjectToThresholding"], true);
    assert!(numbers(&thresholded, "rows", 0).iter().sum::<f64>() < numbers(&thresholded, "totals", 0)[0]);
    let sampled = of("sampled", "country", "sessions").await;
    assert!(sampled["metadata"]["samplingMetadatas"][0]["samplesReadCount"].is_string());
    let rolled = of("high_cardinality", "pagePath", "eventCount").await;
    assert_eq!(rolled["metadata"]["dataLossFromOtherRow"], true);
    assert!(column(&rolled, "rows", "dimensionValues", 0).contains(&"(other)".to_owned()));
    assert_eq!(numbers(&rolled, "rows", 0).iter().sum::<f64>(), numbers(&rolled, "totals", 0)[0]);
}

#[tokio::test]
async fn refusals_use_googles_texts() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let fields = |n: usize| -> Vec<Value> { (0..n).map(|i| json!({"name": format!("f{i}")})).collect() };
    let api_schema = "https://developers.google.com/analytics/devguides/reporting/data/v1/api-schema ";
    let cases = [
        (json!({}), "A dateRange is required.".to_owned()),
        (body(&[], &[], json!({})), "Requests require dimensions and/or metrics. Most requests include both.".into()),
        (
            body(&["pageTitel"], &[], json!({})),
            format!("Did you mean pageTitle? Field pageTitel is not a valid dimension. For a list of valid dimensions and metrics, see {api_schema}"),
        ),
        (
            body(&[], &["sesions"], json!({})),
            format!("Did you mean sessions? Field sesions is not a valid metric.  For a list of valid dimensions and metrics, see {api_schema}"),
        ),
        (
            body(&["date"], &[], json!({"dimensions": fields(10)})),
            "Requests are limited to 9 dimensions within a nested request.\n  This request is for 10 dimensions.".into(),
        ),
        (body(&["date", "date"], &[], json!({})), "Found duplicate dimensions: date".into()),
        (
            body(&["date"], &["sessions"], json!({"metricAggregations": ["COUNT"]})),
            "Metric aggregation Count is not supported in ReportRequest.".into(),
        ),
        (
            body(&["date"], &["sessions"], json!({"orderBys": [{"dimension": {"dimensionName": "city"}}]})),
            "Field city exists in OrderBy but is not defined in input Dimensions list".into(),
        ),
        (
            body(&["date"], &["sessions"], json!({"dimensionFilter": {"filter": {"fieldName": "sessions", "stringFilter": {"value": "1"}}}})),
            "Found duplicate dimensions/metrics.".into(),
        ),
        (
            body(&["itemName"], &["sessions"], json!({})),
            "Please remove sessions to make the request compatible for example. The request's dimensions & metrics are \
             incompatible. To learn more, see https://ga-dev-tools.web.app/ga4/dimensions-metrics-explorer/".into(),
        ),
        (
            body(&["date"], &["sessions"], json!({"dateRange": []})),
            "Invalid JSON payload received. Unknown name \"dateRange\": Cannot find field.".into(),
        ),
        (
            body(&["date"], &["sessions"], json!({"dateRanges": vec![json!({"startDate": "today", "endDate": "today"}); 5]})),
            "Requests are limited to 4 dateRanges.\n  This request contains 5 dateRanges.".into(),
        ),
    ];
    for (request, text) in cases {
        assert_eq!(bench.refusal(&token, &main, &request).await, text);
    }
    let id = bench.refusal(&token, "G-ABC", &body(&["date"], &["sessions"], json!({}))).await;
    assert!(id.starts_with("Invalid property ID: G-ABC. A numeric Property ID is required."));
    let violation = bench.post(&token, &format!("/v1beta/properties/{main}:runReport"), &json!({"x": 1})).await.json();
    assert!(violation["error"]["details"][0]["fieldViolations"][0]["description"].is_string());
    // Old names still work and come back as they were asked for.
    let old = bench.report(&token, &main, &body(&["date"], &["conversions:purchase"], json!({}))).await;
    assert_eq!(old["metricHeaders"][0]["name"], "conversions:purchase");
}

#[tokio::test]
async fn batches_realtime_and_compatibility() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let one = body(&["country"], &["sessions"], json!({}));
    let path = |method: &str| format!("/v1beta/properties/{main}:{method}");
    let batch = bench.post(&token, &path("batchRunReports"), &json!({"requests": [one, one]})).await.json();
    assert_eq!(batch["reports"].as_array().unwrap().len(), 2);
    let tokens = bench.sandbox.ledger()["analytics"][0]["tokens"].as_u64();
    assert_eq!(tokens, Some(2), "each report of a batch is charged");
    let six = json!({"requests": vec![one.clone(); 6]});
    assert_eq!(bench.post(&token, &path("batchRunReports"), &six).await.status, 400);

    let realtime = json!({"dimensions": [{"name": "minutesAgo"}], "metrics": [{"name": "activeUsers"}]});
    let answer = bench.post(&token, &path("runRealtimeReport"), &realtime).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["kind"], "analyticsData#runRealtimeReport");
    let offset = json!({"metrics": [{"name": "activeUsers"}], "offset": 5});
    assert_eq!(bench.post(&token, &path("runRealtimeReport"), &offset).await.status, 400);

    let check = json!({"dimensions": [{"name": "itemName"}], "compatibilityFilter": "COMPATIBLE"});
    let answer = bench.post(&token, &path("checkCompatibility"), &check).await.json();
    let names: Vec<&str> = answer["metricCompatibilities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["metricMetadata"]["apiName"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"itemRevenue") && !names.contains(&"sessions"));
    let bad = json!({"dimensions": [{"name": "itemName"}], "metrics": [{"name": "sessions"}]});
    assert_eq!(bench.post(&token, &path("checkCompatibility"), &bad).await.status, 400);
}

#[tokio::test]
async fn quota_is_charged_and_runs_out() {
    let bench = Bench::start().await;
    let token = bench.token(true).await;
    let main = bench.property("main");
    let more = json!({"returnPropertyQuota": true});
    let short = bench.report(&token, &main, &body(&["date"], &["sessions"], more.clone())).await;
    assert_eq!(short["propertyQuota"]["tokensPerProjectPerHour"], json!({"consumed": 1, "remaining": 13_999}));
    let mut year = body(&["date"], &["sessions"], more);
    year["dateRanges"] = json!([{"startDate": "364daysAgo", "endDate": "today"}]);
    let year = bench.report(&token, &main, &year).await;
    assert_eq!(year["propertyQuota"]["tokensPerDay"], json!({"consumed": 7, "remaining": 199_992}));

    bench.sandbox.set_remaining_tokens(LIMITED_EMAIL, &main, 1);
    let plain = body(&["date"], &["sessions"], json!({}));
    bench.report(&token, &main, &plain).await;
    let path = format!("/v1beta/properties/{main}:runReport");
    let refused = bench.post(&token, &path, &plain).await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_none());
    let refused = refused.json();
    assert_eq!(refused["error"]["status"], "RESOURCE_EXHAUSTED");
    assert!(
        refused["error"]["message"].as_str().unwrap().starts_with("Exhausted property tokens for a project per hour.")
    );
    let other = bench.token(false).await;
    assert_eq!(bench.post(&other, &path, &plain).await.status, 200, "another identity has its own bucket");
}

#[tokio::test]
async fn eleven_at_once_are_one_too_many() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    bench
        .sandbox
        .faults()
        .add_json(&json!({"path": ":runReport$", "times": 11, "action": {"delay_ms": 1500}}))
        .unwrap();
    let path = format!("/v1beta/properties/{main}:runReport");
    let (url, bearer) = (bench.url().to_owned(), format!("Bearer {token}"));
    let request = body(&["date"], &["sessions"], json!({})).to_string();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..11 {
        let (url, bearer, path, request) = (url.clone(), bearer.clone(), path.clone(), request.clone());
        calls.spawn(async move {
            let headers = [("Authorization", bearer.as_str())];
            send(&url, "POST", &path, &headers, request.as_bytes()).await.unwrap().status
        });
    }
    let mut statuses = calls.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses[..10], [200; 10]);
    assert_eq!(statuses[10], 429);
    assert_eq!(bench.sandbox.max_in_flight(), 11);
    let log = bench.sandbox.log();
    assert_eq!(log.iter().filter(|r| r.path == path).count(), 11);
}

#[tokio::test]
async fn bulk_pages_and_totals() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let bulk = &bench.facts["analytics"]["bulk"];
    let property = bulk["property"].as_str().unwrap();
    let page = bench.report(&token, property, &bulk["request"]).await;
    assert_eq!(page["rowCount"], 1_000_000);
    assert_eq!(page["rows"].as_array().unwrap().len(), 250_000);
    assert_eq!(page["propertyQuota"]["tokensPerHour"]["consumed"], 11);

    // One day is small enough to add up.
    let mut day = bulk["request"].clone();
    day["dateRanges"] = json!([{"startDate": "3daysAgo", "endDate": "3daysAgo"}]);
    let mut sums = [0.0; 4];
    let mut seen = Vec::new();
    let mut totals = Value::Null;
    for offset in (0..25_000).step_by(10_000) {
        day["offset"] = json!(offset);
        day["limit"] = json!(10_000);
        let page = bench.report(&token, property, &day).await;
        for (index, sum) in sums.iter_mut().enumerate() {
            *sum += numbers(&page, "rows", index).iter().sum::<f64>();
        }
        let ordered = numbers(&page, "rows", 0);
        assert!(ordered.is_sorted_by(|a, b| a >= b), "first metric descending");
        seen.extend(column(&page, "rows", "dimensionValues", 1));
        assert_eq!(page["rowCount"], 25_000);
        totals = page;
    }
    assert_eq!(seen.len(), 25_000);
    assert!(seen.is_sorted_by(|a, b| a < b), "no row twice");
    for (index, sum) in sums.iter().enumerate() {
        assert!((sum - numbers(&totals, "totals", index)[0]).abs() < 1e-3, "{index}");
    }

    // The largest table, an order it has, an order it hasn't, and the event log without the bulk dimension.
    day["dateRanges"] = json!([{"startDate": "200daysAgo", "endDate": "today"}]);
    day["orderBys"] = json!([
        {"metric": {"metricName": "eventCount"}, "desc": true},
        {"dimension": {"dimensionName": "date"}},
        {"dimension": {"dimensionName": "customEvent:item_id"}},
    ]);
    day["limit"] = json!(1);
    assert_eq!(bench.report(&token, property, &day).await["rowCount"], 3_000_000);
    day["orderBys"] = json!([{"metric": {"metricName": "totalRevenue"}, "desc": true}]);
    assert!(bench.refusal(&token, property, &day).await.starts_with("sandbox: "));
    let plain = bench.report(&token, property, &body(&["country"], &["sessions"], json!({}))).await;
    assert!(plain["rowCount"].as_u64().unwrap() < 30);
}

#[tokio::test]
async fn every_kind_of_fault() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let path = format!("/v1beta/properties/{}:runReport", bench.property("main"));
    let request = body(&["date"], &["sessions"], json!({}));
    let script = async |fault: Value| {
        let answer = send(bench.url(), "POST", "/__sandbox/faults", &[], fault.to_string().as_bytes()).await.unwrap();
        assert_eq!(answer.status, 200, "{fault}");
    };

    script(json!({"method": "POST", "path": ":runReport$", "nth": 2, "action": {"status":
        {"code": 429, "headers": {"Retry-After": "1"}, "body": {"error": {"code": 429}}}}}))
    .await;
    assert_eq!(bench.post(&token, &path, &request).await.status, 200);
    let hit = bench.post(&token, &path, &request).await;
    assert_eq!((hit.status, hit.header("retry-after")), (429, Some("1")));
    assert_eq!(hit.json()["error"]["code"], 429);
    assert_eq!(bench.post(&token, &path, &request).await.status, 200);

    script(json!({"path": ":runReport$", "action": {"cut_after_bytes": 100}})).await;
    let cut = bench.post(&token, &path, &request).await;
    assert_eq!(cut.status, 200);
    assert_eq!((cut.body.len(), cut.complete), (100, false));

    script(json!({"path": ":runReport$", "action": "reset"})).await;
    let reset = bench.try_post(&token, &path, &request).await.unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);

    script(json!({"path": ":runReport$", "action": {"delay_ms": 300}})).await;
    let started = Instant::now();
    assert_eq!(bench.post(&token, &path, &request).await.status, 200);
    assert!(started.elapsed() >= Duration::from_millis(300));

    script(json!({"path": ":runReport$", "action": {"drip_ms": 20}})).await;
    let started = Instant::now();
    let dripped = bench.post(&token, &path, &request).await;
    assert!(dripped.complete && started.elapsed() >= Duration::from_millis(100));

    script(json!({"path": ":runReport$", "action": {"expire_token": true}})).await;
    assert_eq!(bench.post(&token, &path, &request).await.status, 401);
    assert_eq!(bench.post(&token, &path, &request).await.status, 401, "dead from then on");
    let fresh = bench.token(false).await;
    assert_eq!(bench.post(&fresh, &path, &request).await.status, 200);

    for bad in [json!({"path": "(", "action": "reset"}), json!({"path": "x"}), json!([1])] {
        let answer = send(bench.url(), "POST", "/__sandbox/faults", &[], bad.to_string().as_bytes()).await.unwrap();
        assert_eq!(answer.status, 400, "{bad}");
        assert!(answer.json()["error"].is_string());
    }
    bench.sandbox.faults().add(Fault {
        method: None,
        path: regex::Regex::new("runReport").unwrap(),
        nth: 1,
        times: 1000,
        body: None,
        action: FaultAction::Reset,
    });
    bench.sandbox.faults().clear();
    assert_eq!(bench.post(&fresh, &path, &request).await.status, 200);
}

#[tokio::test]
async fn a_bulk_body_can_be_cut_too() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let bulk = &bench.facts["analytics"]["bulk"];
    let path = format!("/v1beta/properties/{}:runReport", bulk["property"].as_str().unwrap());
    let fault = json!({"path": ":runReport$", "action": {"cut_after_bytes": 1_000_000}});
    bench.sandbox.faults().add_json(&fault).unwrap();
    let cut = bench.post(&token, &path, &bulk["request"]).await;
    assert_eq!((cut.body.len(), cut.complete), (1_000_000, false));
}

/// What is kept word for word is kept when asked for, and never holds a token.
#[tokio::test]
async fn exchanges_are_kept_on_request_and_without_tokens() {
    let bench = Bench::start().await;
    let control =
        async |method: &str| send(bench.url(), method, "/__sandbox/exchanges", &[], b"").await.unwrap().json();
    let token = bench.token(false).await;
    bench.get(&token, "/v1beta/accountSummaries").await;
    assert_eq!(control("GET").await["exchanges"], Value::Null);
    control("POST").await;
    let other = bench.token(false).await;
    let answer = bench.get(&other, "/v1beta/accountSummaries?pageSize=2").await.json();
    let bulk = bench.facts["analytics"]["bulk"]["property"].as_str().unwrap().to_owned();
    let request = body(&["date"], &["eventCount"], json!({"limit": 3}));
    let streamed = bench.report(&other, &bulk, &request).await;
    let kept = control("GET").await;
    let exchanges = kept["exchanges"].as_array().unwrap();
    assert_eq!(exchanges.len(), 2, "{kept}");
    assert_eq!((&exchanges[0]["query"], &exchanges[0]["status"]), (&json!("pageSize=2"), &json!(200)));
    assert_eq!((&exchanges[0]["request"], &exchanges[0]["answer"]), (&Value::Null, &answer));
    assert_eq!((&exchanges[1]["request"], &exchanges[1]["answer"]), (&request, &streamed));
    assert!(!kept.to_string().contains(&other));
    control("DELETE").await;
    assert_eq!(control("GET").await["exchanges"], Value::Null);
}

#[tokio::test]
async fn control_routes_log_ledger_and_bounds() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let url = bench.url();
    let control = async |method: &str, path: &str| send(url, method, path, &[], b"").await.unwrap().json();
    control("DELETE", "/__sandbox/log").await;
    bench.get(&token, "/v1beta/accountSummaries?pageSize=2").await;
    let log = control("GET", "/__sandbox/log").await;
    assert_eq!(log["requests"].as_array().unwrap().len(), 1, "{log}");
    assert_eq!(log["requests"][0]["path"], "/v1beta/accountSummaries");
    assert_eq!(log["requests"][0]["status"], 200);
    assert_eq!(log["max_in_flight"], 1);
    let main = bench.property("main");
    bench.report(&token, &main, &body(&["date"], &["sessions"], json!({}))).await;
    let ledger = control("GET", "/__sandbox/ledger").await;
    assert_eq!(ledger["analytics"][0]["property"], main.as_str());
    assert_eq!(ledger["analytics"][0]["tokens"], 1);
    assert_eq!(ledger["bytes_billed"], 0);
    assert_eq!(control("GET", "/__sandbox/facts").await["seed"], 42);

    let huge = vec![b' '; 9 * 1024 * 1024];
    let path = format!("/v1beta/properties/{main}:runReport");
    // The server may close before everything is sent: either way it stays up.
    if let Ok(answer) = send(url, "POST", &path, &[], &huge).await {
        assert_eq!(answer.status, 413);
    }
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Accept-Encoding", "gzip")];
    let request = body(&["date", "country"], &["sessions"], json!({})).to_string();
    let packed = send(url, "POST", &path, &headers, request.as_bytes()).await.unwrap();
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed.body.as_slice()), &mut text).unwrap();
    assert!(text.starts_with("{\"dimensionHeaders\""));
    let pretty = format!("{path}?prettyPrint=true");
    let answer = send(url, "POST", &pretty, &headers[..1], request.as_bytes()).await.unwrap();
    assert!(answer.body.starts_with(b"{\n  \"dimensionHeaders\""));
    for garbage in [b"{".as_slice(), b"[]", b"\"x\"", b"{\"dimensions\": 5}", b"{\"limit\": \"x\"}", b"\xff\xfe"] {
        let answer = send(url, "POST", &path, &headers[..1], garbage).await.unwrap();
        assert_eq!(answer.status, 400, "{garbage:?}");
    }
    bench.sandbox.shutdown().await;
}

/// The steps of the shop, each with what is added to it.
fn shop_steps(more: [Value; 3]) -> Value {
    ["view_item", "add_to_cart", "purchase"]
        .iter()
        .zip(more)
        .map(|(event, more)| {
            let mut step = json!({"name": event, "filterExpression": {"funnelEventFilter": {"eventName": event}}});
            step.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
            step
        })
        .collect()
}

#[tokio::test]
async fn funnels_narrow_and_add_up() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let dates = json!([{"startDate": "28daysAgo", "endDate": "yesterday"}]);
    let funnel = async |open: bool, more: [Value; 3], extra: Value| -> Value {
        let mut request = json!({"dateRanges": dates, "funnel": {"isOpenFunnel": open, "steps": shop_steps(more)}});
        request.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
        bench.post(&token, &format!("/v1alpha/properties/{main}:runFunnelReport"), &request).await.json()
    };
    let plain = || [json!({}), json!({}), json!({})];
    let users = |report: &Value| numbers(&report["funnelTable"], "rows", 0);

    let closed = funnel(false, plain(), json!({})).await;
    let table = &closed["funnelTable"];
    assert_eq!(column(table, "rows", "dimensionValues", 0), ["1. view_item", "2. add_to_cart", "3. purchase"]);
    assert_eq!(table["metricHeaders"].as_array().unwrap().len(), 8, "announced twice, like Google's");
    assert_eq!(table["rows"][0]["metricValues"].as_array().unwrap().len(), 4);
    let reached = users(&closed);
    assert!(reached.is_sorted_by(|a, b| a > b) && reached[2] > 0.0, "{reached:?}");
    let left = numbers(table, "rows", 2);
    assert_eq!((reached[0] - left[0], reached[1] - left[1], left[2]), (reached[1], reached[2], 0.0));
    assert!((numbers(table, "rows", 1)[0] - reached[1] / reached[0]).abs() < 1e-12);
    let viewers =
        json!({"dimensionFilter": {"filter": {"fieldName": "eventName", "stringFilter": {"value": "view_item"}}}});
    let report = bench.report(&token, &main, &body(&[], &["totalUsers"], viewers)).await;
    assert_eq!(numbers(&report, "rows", 0)[0], reached[0], "everyone who saw an item");

    let open = users(&funnel(true, plain(), json!({})).await);
    assert!(open[0] == reached[0] && open[1] >= reached[1] && open[2] >= reached[2], "{open:?}");
    let quick =
        users(&funnel(false, [json!({}), json!({"withinDurationFromPriorStep": "30s"}), json!({})], json!({})).await);
    assert!(quick[1] < reached[1] && quick[1] > 0.0, "{quick:?}");
    let direct = users(&funnel(false, [json!({}), json!({}), json!({"isDirectlyFollowedBy": true})], json!({})).await);
    assert_eq!((direct[1], direct[2]), (reached[1], 0.0), "a checkout comes between cart and purchase");

    let extra = json!({"funnelBreakdown": {"breakdownDimension": {"name": "deviceCategory"}, "limit": 2}});
    let broken = funnel(false, plain(), extra).await;
    let values = column(&broken["funnelTable"], "rows", "dimensionValues", 1);
    assert_eq!(values.iter().filter(|value| *value == "RESERVED_TOTAL").count(), 3);
    assert_eq!(values.iter().collect::<std::collections::HashSet<_>>().len(), 3, "the total and two values");

    let trended = funnel(false, plain(), json!({"funnelVisualizationType": "TRENDED_FUNNEL"})).await;
    let days = &trended["funnelVisualization"];
    assert_eq!(days["dimensionHeaders"][1]["name"], "date");
    let first_step: f64 = column(days, "rows", "dimensionValues", 0)
        .iter()
        .zip(numbers(days, "rows", 0))
        .filter(|(step, _)| step.starts_with("1."))
        .map(|(_, users)| users)
        .sum();
    assert_eq!(first_step, reached[0], "each user on the day of the first step");

    let mobile = json!({"segmentFilter": {"fieldName": "deviceCategory", "stringFilter": {"value": "mobile"}}});
    let segment = |name: &str, filter: Value| {
        json!({"name": name, "sessionSegment": {"sessionInclusionCriteria": {"andConditionGroups": [{
            "conditionScoping": "SESSION_CRITERIA_WITHIN_SAME_EVENT", "segmentFilterExpression": filter}]}}})
    };
    let segments = json!([segment("mobile", mobile.clone()), segment("others", json!({"notExpression": mobile}))]);
    let parts = funnel(false, plain(), json!({"segments": segments})).await;
    assert_eq!(parts["funnelTable"]["dimensionHeaders"][0]["name"], "segment");
    let parts = users(&parts);
    assert_eq!(parts[0] + parts[3], reached[0], "a person has one device");
    let wrong = funnel(
        false,
        plain(),
        json!({"dimensionFilter": {"filter": {"fieldName": "contry", "stringFilter": {"value": "x"}}}}),
    )
    .await;
    assert!(wrong["error"]["message"].as_str().unwrap().starts_with("Did you mean country?"));
}

#[tokio::test]
async fn conversions_have_two_models_where_google_offers_them() {
    let bench = Bench::start().await;
    let token = bench.token(false).await;
    let main = bench.property("main");
    let metadata = bench.get(&token, &format!("/v1alpha/properties/{main}/metadata")).await.json();
    let purchase = metadata["conversions"].as_array().unwrap().iter().find(|c| c["displayName"] == "purchase");
    let action = purchase.unwrap()["conversionAction"].clone();
    assert!(bench.get(&token, &format!("/v1beta/properties/{main}/metadata")).await.json()["conversions"].is_null());
    let asked = |model: &str| {
        let spec = json!({"conversionActions": [action], "attributionModel": model});
        let more = json!({"conversionSpec": spec, "metricAggregations": ["TOTAL"]});
        body(&["defaultChannelGroup"], &["allConversionsByConversionDate"], more)
    };
    let alpha = |property: &str| format!("/v1alpha/properties/{property}:runReport");
    let driven = bench.post(&token, &alpha(&main), &asked("DATA_DRIVEN")).await.json();
    let clicked = bench.post(&token, &alpha(&main), &asked("LAST_CLICK")).await.json();
    assert_eq!(numbers(&driven, "totals", 0), numbers(&clicked, "totals", 0));
    assert!(numbers(&driven, "rows", 0).iter().any(|credit| credit.fract() != 0.0));
    assert!(numbers(&clicked, "rows", 0).iter().all(|credit| credit.fract() == 0.0));
    let core = body(&[], &["keyEvents:purchase"], json!({}));
    assert_eq!(numbers(&bench.report(&token, &main, &core).await, "rows", 0), numbers(&driven, "totals", 0));

    let elsewhere = bench.post(&token, &alpha(&bench.property("slice")), &asked("DATA_DRIVEN")).await;
    assert_eq!(elsewhere.status, 400);
    assert!(bench.refusal(&token, &main, &asked("DATA_DRIVEN")).await.starts_with("sandbox:"), "not in v1beta");
}
