//! Search Console from outside: sites, search analytics with all its traps, sitemaps, inspection, limits.

// Clippy's exemption for tests doesn't reach the helpers beside them.
#![allow(clippy::unwrap_used)]
// The client serves other suites too.
#![allow(dead_code)]

mod client;

use client::{Bench, Response, send};
use serde_json::{Value, json};

const DOMAIN: &str = "sc-domain:nordwind.example";
const SHOP: &str = "https://www.nordwind.example/";
const BLOG: &str = "https://www.nordwind.example/blog/";
const HELP: &str = "https://help.nordwind.example/";
const BULK: &str = "sc-domain:bulk.example";
const SHELF: &str = "https://www.bulk.example/shelf-3/";
const SCOPE: &str = "https://www.googleapis.com/auth/webmasters.readonly";

/// A sandbox with a token that may read Search Console.
struct Console {
    bench: Bench,
    token: String,
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn path(site: &str) -> String {
    format!("/webmasters/v3/sites/{}/searchAnalytics/query", encoded(site))
}

impl Console {
    async fn start() -> Self {
        let bench = Bench::start().await;
        let token = token(&bench, false).await;
        Self { bench, token }
    }

    async fn ask(&self, site: &str, body: &Value) -> Response {
        self.bench.post(&self.token, &path(site), body).await
    }

    /// An answer that must be a good one.
    async fn query(&self, site: &str, body: &Value) -> Value {
        let answer = self.ask(site, body).await;
        assert_eq!(answer.status, 200, "{body}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// The error of a request that must be refused with 400.
    async fn refusal(&self, site: &str, body: &Value) -> Value {
        let answer = self.ask(site, body).await;
        assert_eq!(answer.status, 400, "{body}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()["error"].clone()
    }

    /// All rows, as the documentation says: until an answer has none; and the number of answers.
    async fn all_rows(&self, site: &str, body: &Value) -> (Vec<Value>, usize) {
        let mut rows = Vec::new();
        for answers in 1.. {
            let mut page = body.clone();
            page["startRow"] = json!(rows.len());
            match self.query(site, &page).await.get("rows") {
                None => return (rows, answers),
                Some(more) => rows.extend(more.as_array().unwrap().clone()),
            }
        }
        unreachable!()
    }

    fn fact(&self, name: &str) -> &str {
        self.bench.facts["search_console"][name].as_str().unwrap()
    }

    /// A body over the last 28 final days, or as `changes` say.
    fn body(&self, dimensions: &[&str], changes: Value) -> Value {
        let shop = &self.bench.facts["search_console"]["shop"][0];
        let mut body = json!({"startDate": shop["first"], "endDate": shop["last"], "dimensions": dimensions});
        for (key, value) in changes.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    }

    async fn get(&self, path: &str) -> Response {
        self.bench.get(&self.token, path).await
    }
}

async fn token(bench: &Bench, limited: bool) -> String {
    let answer = bench.exchange(&bench.key(limited), json!({"scope": SCOPE})).await;
    answer.json()["access_token"].as_str().unwrap().to_owned()
}

fn sum(rows: &[Value], metric: &str) -> f64 {
    rows.iter().map(|row| row[metric].as_f64().unwrap()).sum()
}

fn rows(answer: &Value) -> Vec<Value> {
    answer["rows"].as_array().cloned().unwrap_or_default()
}

fn keys(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["keys"].to_string()).collect()
}

fn filter(dimension: &str, operator: &str, expression: &str) -> Value {
    json!({"dimensionFilterGroups": [{"filters": [
        {"dimension": dimension, "operator": operator, "expression": expression}
    ]}]})
}

/// The last so many days that are final, newest first.
fn days(console: &Console, count: i64) -> Vec<String> {
    let last: jiff::civil::Date = console.fact("last_final").parse().unwrap();
    (0..count).map(|n| last.saturating_sub(jiff::Span::new().days(n)).to_string()).collect()
}

#[tokio::test]
async fn sites_follow_the_identity() {
    let console = Console::start().await;
    let list = console.get("/webmasters/v3/sites").await.json();
    let entries = list["siteEntry"].as_array().unwrap();
    assert!(entries.len() > 25, "{}", entries.len());
    let level = |url: &str| entries.iter().find(|e| e["siteUrl"] == url).map(|e| e["permissionLevel"].clone());
    assert_eq!(level(DOMAIN), Some(json!("siteOwner")));
    assert_eq!(level("sc-domain:harbour.example"), Some(json!("siteUnverifiedUser")));
    assert_eq!(level("https://agency-client.example/"), Some(json!("siteRestrictedUser")));
    assert_eq!(level("https://limited-only.example/"), None);
    let limited = token(&console.bench, true).await;
    let few = console.bench.get(&limited, "/webmasters/v3/sites").await.json();
    assert_eq!(few["siteEntry"].as_array().unwrap().len(), 3);

    let body = console.body(&[], json!({}));
    for (site, status) in [(SHOP, 200), (BLOG, 200), (DOMAIN, 403), (BULK, 403), ("https://limited-only.example/", 200)]
    {
        assert_eq!(console.bench.post(&limited, &path(site), &body).await.status, status, "{site}");
    }
    // An unverified site is listed and can be looked at; its data can't.
    let unverified = "sc-domain:harbour.example";
    let entry = console.get(&format!("/webmasters/v3/sites/{}", encoded(unverified))).await.json();
    assert_eq!(entry, json!({"siteUrl": unverified, "permissionLevel": "siteUnverifiedUser"}));
    let denied = console.ask(unverified, &body).await;
    assert_eq!(denied.status, 403);
    assert_eq!(denied.json()["error"]["errors"][0]["reason"], "forbidden");
    assert_eq!(denied.json()["error"]["errors"][0]["domain"], "global");
    let sitemaps = format!("/webmasters/v3/sites/{}/sitemaps", encoded(unverified));
    assert_eq!(console.get(&sitemaps).await.status, 403);
}

#[tokio::test]
async fn a_site_is_named_exactly() {
    let console = Console::start().await;
    let body = console.body(&[], json!({}));
    // Unencoded, the colon of a domain property passes; another protocol or no slash is another site.
    let bare = format!("/webmasters/v3/sites/{DOMAIN}/searchAnalytics/query");
    assert_eq!(console.bench.post(&console.token, &bare, &body).await.status, 200);
    for other in ["https://www.nordwind.example", "https://nordwind.example/", "sc-domain:www.nordwind.example"] {
        let answer = console.ask(other, &body).await;
        assert_eq!(answer.status, 403, "{other}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!("for site '{other}'")), "{message}");
    }
    for twice in [path(&encoded(SHOP)), path("www.nordwind.example"), path("http://")] {
        let answer = console.bench.post(&console.token, &twice, &body).await;
        assert_eq!(answer.status, 400, "{twice}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with("is not a valid Search Console site URL."), "{message}");
    }
    // A slash that isn't encoded makes another path: an HTML page, not JSON.
    for (method, path) in [
        ("POST", format!("/webmasters/v3/sites/{SHOP}/searchAnalytics/query")),
        ("POST", "/webmasters/v3/site/x/searchAnalytics/query".to_owned()),
        ("GET", path(SHOP)),
        ("GET", "/v1/urlInspection/index:inspect".to_owned()),
        ("POST", "/webmasters/v3/sites".to_owned()),
        ("GET", "/webmasters/v3/sitesx".to_owned()),
    ] {
        let answer = send(console.bench.url(), method, &path, &[], b"{}").await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with("text/html"));
    }
}

#[tokio::test]
async fn tokens_need_the_scope_and_write_methods_another() {
    let console = Console::start().await;
    let analytics = console.bench.token(false).await;
    let refused = console.bench.get(&analytics, "/webmasters/v3/sites").await;
    assert_eq!(refused.status, 403);
    let refused = refused.json();
    assert_eq!(refused["error"]["details"][0]["reason"], "ACCESS_TOKEN_SCOPE_INSUFFICIENT");
    assert_eq!(refused["error"]["details"][0]["metadata"]["method"], "google.searchconsole.v1.SitesService.List");
    let naked = send(console.bench.url(), "GET", "/webmasters/v3/sites", &[], b"").await.unwrap();
    assert_eq!(naked.status, 401);
    let bearer = format!("Bearer {}", console.token);
    let site = format!("/webmasters/v3/sites/{}", encoded(SHOP));
    let write = send(console.bench.url(), "DELETE", &site, &[("Authorization", &bearer)], b"").await.unwrap();
    assert_eq!(write.status, 403);
    let scope = json!({"scope": "https://www.googleapis.com/auth/webmasters"});
    let writer = console.bench.exchange(&console.bench.key(false), scope).await.json();
    let bearer = format!("Bearer {}", writer["access_token"].as_str().unwrap());
    let write = send(console.bench.url(), "DELETE", &site, &[("Authorization", &bearer)], b"").await.unwrap();
    assert_eq!(write.status, 400);
    assert!(write.json()["error"]["message"].as_str().unwrap().starts_with("sandbox: not supported"));
    assert_eq!(console.get("/webmasters/v3/sites?alt=json&prettyPrint=false").await.status, 200);
    let unknown = console.get("/webmasters/v3/sites?pageSize=5").await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.json()["error"]["message"].as_str().unwrap().contains("Cannot bind query parameter"));
}

#[tokio::test]
async fn an_answer_has_googles_shape() {
    let console = Console::start().await;
    let answer = console.ask(SHOP, &console.body(&["query", "device"], json!({"rowLimit": 3}))).await;
    let text = String::from_utf8(answer.body.clone()).unwrap();
    let answer = answer.json();
    assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["rows", "responseAggregationType"]);
    assert_eq!(answer["responseAggregationType"], "byProperty");
    let row = &answer["rows"][0];
    assert_eq!(
        row.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["keys", "clicks", "impressions", "ctr", "position"]
    );
    assert_eq!(row["keys"].as_array().unwrap().len(), 2);
    assert!(text.contains(".0,\"impressions\":"), "counts are doubles: {text}");
    let (clicks, impressions) = (row["clicks"].as_f64().unwrap(), row["impressions"].as_f64().unwrap());
    assert_eq!(row["ctr"].as_f64().unwrap(), clicks / impressions);
    assert!(row["position"].as_f64().unwrap() >= 1.0);

    // Without dimensions: one row, no keys. Past the end, and on a site without data: no key `rows`.
    let totals = console.query(SHOP, &console.body(&[], json!({}))).await;
    assert_eq!(rows(&totals).len(), 1);
    assert!(totals["rows"][0].get("keys").is_none());
    let past = console.query(SHOP, &console.body(&["query"], json!({"startRow": 100_000}))).await;
    assert_eq!(past, json!({"responseAggregationType": "byProperty"}));
    for empty in ["http://www.nordwind.example/", "https://new-launch.example/"] {
        let answer = console.query(empty, &console.body(&[], json!({}))).await;
        assert_eq!(answer, json!({"responseAggregationType": "byProperty"}));
    }
    // 1,000 rows unless the request says otherwise.
    let default = console.query(DOMAIN, &console.body(&["date", "query", "page"], json!({}))).await;
    assert!(rows(&default).len() <= 1_000 && rows(&default).len() > 800);
    // Both spellings of every value.
    let upper = json!({"type": "WEB", "aggregationType": "BY_PAGE", "dataState": "FINAL", "row_limit": "5"});
    let upper = console.query(SHOP, &console.body(&["QUERY"], upper)).await;
    let lower = json!({"type": "web", "aggregationType": "byPage", "dataState": "final", "rowLimit": 5});
    assert_eq!(upper, console.query(SHOP, &console.body(&["query"], lower)).await);
}

#[tokio::test]
async fn refusals_use_googles_texts() {
    let console = Console::start().await;
    let showcase = json!({"type": "discover", "aggregationType": "byNewsShowcasePanel"});
    let page_filter = filter("page", "contains", "/blog/");
    let with = |base: &Value, more: Value| {
        let mut body = base.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let cases: [(&[&str], Value, &str); 30] = [
        (&["query", "query"], json!({}), "Duplicate dimensions are not allowed."),
        (
            &["searchAppearance", "date"],
            json!({}),
            "Cannot group by search appearance dimension together with another dimension.",
        ),
        (&["date", "hour"], json!({"dataState": "hourly_all"}), "Request cannot be grouped by both date and hour"),
        (&["hour"], json!({}), "Grouping by HOUR requires setting dataState=HOURLY_ALL"),
        (&["date"], json!({"dataState": "hourly_all"}), "only when grouping by HOUR"),
        (&["query"], json!({"type": "discover"}), "Request for DISCOVER cannot be grouped by query"),
        (&["device"], json!({"type": "discover"}), "Requests for Discover cannot be grouped by device"),
        (&["query"], json!({"type": "googleNews"}), "Request for GOOGLE_NEWS cannot be grouped by query"),
        (
            &["page"],
            json!({"aggregationType": "byProperty"}),
            "'BY_PROPERTY' is not a valid aggregation type in the context of the request.",
        ),
        (&["query"], with(&page_filter, json!({"aggregationType": "byProperty"})), "'BY_PROPERTY' is not a valid"),
        (&["date"], json!({"type": "discover", "aggregationType": "byProperty"}), "'BY_PROPERTY' is not a valid"),
        (&[], showcase, "'BY_NEWS_SHOWCASE_PANEL' is not a valid"),
        (&["pagee"], json!({}), "Invalid value at 'dimension[0]'"),
        (
            &[],
            json!({"type": "shopping"}),
            "Invalid value at 'type' (type.googleapis.com/google.searchconsole.v1.searchanalytics.SearchType), \"shopping\"",
        ),
        (&[], json!({"searchType": "discover"}), "Invalid value at 'search_type'"),
        (&[], json!({"dataState": "hourlyAll"}), "Invalid value at 'data_state'"),
        (&[], json!({"rowLimit": 0}), "[1, 25000]"),
        (&[], json!({"rowLimit": 25_001}), "[1, 25000]"),
        (&[], json!({"startRow": -1}), "Values must be within the range: [0,"),
        (&[], json!({"rowLimit": 1.5}), "Invalid value at 'rowLimit'"),
        (&[], json!({"startDate": "today"}), "YYYY-MM-DD"),
        (&[], json!({"startDate": "2026-02-30"}), "YYYY-MM-DD"),
        (&[], json!({"endDate": null}), "Required parameter: end_date"),
        (&[], json!({"startDate": "2026-03-02", "endDate": "2026-03-01"}), "must be before or equal to"),
        (&[], json!({"siteUrl": SHOP}), "Unknown name \"siteUrl\": Cannot find field."),
        (
            &[],
            json!({"dimensionFilterGroups": [{"groupType": "or", "filters": []}]}),
            "Invalid value at 'dimension_filter_groups[0].group_type'",
        ),
        (
            &[],
            json!({"dimensionFilterGroups": [{"filter": []}]}),
            "Unknown name \"filter\" at 'dimension_filter_groups[0]'",
        ),
        (&[], filter("date", "equals", "2026-01-01"), "Invalid value at"),
        (&[], filter("query", "startsWith", "x"), "filters[0].operator"),
        (&[], filter("searchAppearance", "contains", "VIDEO"), "exact value"),
    ];
    for (dimensions, more, text) in cases {
        let body = console.body(dimensions, more);
        let error = console.refusal(SHOP, &body).await;
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(text), "{body}: {message}");
        // Each error says what kind it is, in one of Google's two ways.
        assert!(error["status"] == "INVALID_ARGUMENT" || error["errors"][0]["domain"] == "global", "{error}");
    }
    let error = console.refusal(SHOP, &console.body(&["page"], json!({"aggregationType": "byProperty"}))).await;
    assert_eq!(error["errors"][0]["reason"], "invalidParameter");
    assert_eq!(error["errors"][0]["location"], "aggregation_type");
    let long = "x".repeat(4_097);
    console.refusal(SHOP, &console.body(&[], filter("query", "contains", &long))).await;
    // Not a field, but ignored where others are refused.
    let ordered = json!({"orderBy": [{"metric": "IMPRESSIONS", "direction": "descending"}], "rowLimit": 50});
    let ordered = console.query(SHOP, &console.body(&["query"], ordered)).await;
    assert!(rows(&ordered).is_sorted_by(|a, b| a["clicks"].as_f64() >= b["clicks"].as_f64()));
    // Five dimensions at once are fine, and so is an hour with anything but a date.
    console.query(SHOP, &console.body(&["date", "query", "page", "country", "device"], json!({}))).await;
    console.query(SHOP, &console.body(&["hour", "query", "page"], json!({"dataState": "hourly_all"}))).await;
}
