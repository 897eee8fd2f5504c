//! Search Console from outside: sites, search analytics with all its traps, sitemaps, inspection, limits.

// Clippy's exemption for tests doesn't reach the helpers beside them.
#![allow(clippy::unwrap_used)]
// The client serves other suites too.
#![allow(dead_code)]

mod client;

use std::collections::{HashMap, HashSet};

use client::{Bench, Response, body as report, numbers, send};
use serde_json::{Value, json};

const DOMAIN: &str = "sc-domain:nordwind.example";
const SHOP: &str = "https://www.nordwind.example/";
const BLOG: &str = "https://www.nordwind.example/blog/";
const HELP: &str = "https://help.nordwind.example/";
const BULK: &str = "sc-domain:bulk.example";
const SHELF: &str = "https://www.bulk.example/shelf-3/";
const SCOPE: &str = "https://www.googleapis.com/auth/webmasters.readonly";

/// Search Console's today in these tests, so that they see the same data on every day.
const TODAY: &str = "2026-09-25";

/// A sandbox with a token that may read Search Console.
struct Console {
    bench: Bench,
    token: String,
    facts: Value,
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn path(site: &str) -> String {
    format!("/webmasters/v3/sites/{}/searchAnalytics/query", encoded(site))
}

impl Console {
    async fn start() -> Self {
        Self::start_on(json!(TODAY)).await
    }

    async fn start_on(today: Value) -> Self {
        let bench = Bench::start().await;
        bench.sandbox.search_console().set_json(&json!({"today": today})).unwrap();
        let facts = bench.sandbox.facts()["search_console"].clone();
        Self { token: token(&bench, false).await, facts, bench }
    }

    async fn ask(&self, site: &str, body: &Value) -> Response {
        self.bench.post(&self.token, &path(site), body).await
    }

    /// An answer that must be a good one.
    async fn query(&self, site: &str, body: &Value) -> Value {
        let answer = self.ask(site, body).await;
        assert_eq!(answer.status, 200, "{body}: {}", head(&answer));
        answer.json()
    }

    /// The error of a request that must be refused with 400.
    async fn refusal(&self, site: &str, body: &Value) -> Value {
        let answer = self.ask(site, body).await;
        assert_eq!(answer.status, 400, "{body}: {}", head(&answer));
        answer.json()["error"].clone()
    }

    /// All rows, as the documentation says: until an answer has none; and how many each answer had.
    async fn all_rows(&self, site: &str, body: &Value) -> (Vec<Value>, Vec<usize>) {
        let (mut rows, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let mut page = body.clone();
            page["startRow"] = json!(rows.len());
            match self.query(site, &page).await.get("rows") {
                None => return (rows, sizes),
                Some(more) => {
                    let more = more.as_array().unwrap();
                    sizes.push(more.len());
                    rows.extend(more.clone());
                }
            }
        }
    }

    fn fact(&self, name: &str) -> &str {
        self.facts[name].as_str().unwrap()
    }

    /// A body over the last 28 final days, or as `changes` say.
    fn body(&self, dimensions: &[&str], changes: Value) -> Value {
        let shop = &self.facts["shop"][0];
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

/// The beginning of a body, for messages.
fn head(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).chars().take(500).collect()
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

#[tokio::test]
async fn pages_are_short_and_repeat_rows_but_lose_none() {
    let console = Console::start().await;
    let dimensions = ["date", "query", "page", "country", "device"];
    let small = console.body(&dimensions, json!({"rowLimit": 500}));
    let (paged, sizes) = console.all_rows(DOMAIN, &small).await;
    let (large, _) = console.all_rows(DOMAIN, &console.body(&dimensions, json!({"rowLimit": 25_000}))).await;
    let distinct: HashSet<String> = keys(&paged).into_iter().collect();
    let truth: HashSet<String> = keys(&large).into_iter().collect();
    assert_eq!(distinct, truth);
    assert!(truth.len() > 3_000, "{}", truth.len());
    assert!(paged.len() > distinct.len(), "a row comes again: {} {}", paged.len(), distinct.len());
    let short = sizes[..sizes.len() - 1].iter().filter(|size| **size < 500).count();
    assert!(short > 0 && sizes.contains(&500), "{sizes:?}");
    // The repeated rows agree with each other, and are among those that tie.
    let mut seen: HashMap<String, &Value> = HashMap::new();
    for row in &paged {
        if let Some(other) = seen.insert(row["keys"].to_string(), row) {
            assert_eq!(other, row);
            assert_eq!(row["clicks"], 0.0);
        }
    }
    // One day at a time there are short pages too, down to some that are the first.
    let mut short = 0;
    for day in days(&console, 20) {
        let body = console.body(&["query", "page"], json!({"startDate": day, "endDate": day, "rowLimit": 25_000}));
        let (rows, sizes) = console.all_rows(DOMAIN, &body).await;
        assert_eq!(keys(&rows).into_iter().collect::<HashSet<_>>().len(), rows.len());
        short += usize::from(sizes.len() > 1);
    }
    assert!((1..20).contains(&short), "{short}");
    // One dimension is never short.
    let (queries, sizes) = console.all_rows(DOMAIN, &console.body(&["query"], json!({"rowLimit": 25_000}))).await;
    assert!(queries.len() > 300 && sizes.len() == 1, "{sizes:?}");
}

#[tokio::test]
async fn rows_are_ordered_by_clicks_or_by_date_and_ties_are_not() {
    let console = Console::start().await;
    let by_query =
        async |limit: u32| rows(&console.query(DOMAIN, &console.body(&["query"], json!({"rowLimit": limit}))).await);
    let (first, again, other) = (by_query(200).await, by_query(200).await, by_query(201).await);
    assert_eq!(first, again);
    let clicks = |rows: &[Value]| rows.iter().map(|row| row["clicks"].as_f64().unwrap()).collect::<Vec<_>>();
    assert!(clicks(&first).is_sorted_by(|a, b| a >= b));
    assert_eq!(clicks(&first), clicks(&other)[..200]);
    assert_ne!(keys(&first), keys(&other)[..200], "ties have no order");
    let dated = rows(&console.query(DOMAIN, &console.body(&["query", "date"], json!({"rowLimit": 25_000}))).await);
    assert!(dated.is_sorted_by(|a, b| a["keys"][1].as_str() <= b["keys"][1].as_str()));
}

#[tokio::test]
async fn pages_and_properties_are_counted_differently() {
    let console = Console::start().await;
    let totals = async |more: Value| {
        let answer = console.query(SHOP, &console.body(&[], more)).await;
        let row = answer["rows"][0].clone();
        (answer["responseAggregationType"].as_str().unwrap().to_owned(), row)
    };
    let (name, property) = totals(json!({})).await;
    assert_eq!(name, "byProperty");
    let (name, page) = totals(json!({"aggregationType": "byPage"})).await;
    assert_eq!(name, "byPage");
    assert_eq!(property["clicks"], page["clicks"]);
    assert!(page["impressions"].as_f64() > property["impressions"].as_f64());
    assert_ne!(page["position"], property["position"]);
    // A filter on pages counts by page as well, and so does grouping by pages.
    let (name, filtered) = totals(filter("page", "contains", "nordwind")).await;
    assert_eq!((name.as_str(), &filtered), ("byPage", &page));
    let (by_page, _) = console.all_rows(SHOP, &console.body(&["page"], json!({}))).await;
    assert_eq!(sum(&by_page, "impressions"), page["impressions"].as_f64().unwrap());
    assert_eq!(sum(&by_page, "clicks"), page["clicks"].as_f64().unwrap());
    let weighted: f64 =
        by_page.iter().map(|row| row["position"].as_f64().unwrap() * row["impressions"].as_f64().unwrap()).sum();
    assert!((weighted / sum(&by_page, "impressions") - page["position"].as_f64().unwrap()).abs() < 1e-9);
    // Two pages of one query, which a domain counts once.
    let query = "nordwind";
    let mut body = console.body(&["page"], filter("query", "equals", query));
    let (pages, _) = console.all_rows(SHOP, &body).await;
    body["dimensions"] = json!(["query"]);
    body["aggregationType"] = json!("byProperty");
    let (alone, _) = console.all_rows(SHOP, &body).await;
    assert!(pages.len() > 1);
    assert!(sum(&pages, "impressions") > 1.5 * sum(&alone, "impressions"));
}

#[tokio::test]
async fn hidden_queries_are_in_sums_only() {
    let console = Console::start().await;
    let total = console.query(DOMAIN, &console.body(&[], json!({}))).await["rows"][0].clone();
    // Whatever isn't a query adds up to the totals.
    for dimension in ["date", "country", "device"] {
        let (rows, _) = console.all_rows(DOMAIN, &console.body(&[dimension], json!({}))).await;
        for metric in ["clicks", "impressions"] {
            assert_eq!(sum(&rows, metric), total[metric].as_f64().unwrap(), "{dimension} {metric}");
        }
    }
    let (shown, _) = console.all_rows(DOMAIN, &console.body(&["query"], json!({"rowLimit": 25_000}))).await;
    for metric in ["clicks", "impressions"] {
        let share = sum(&shown, metric) / total[metric].as_f64().unwrap();
        assert!((0.4..0.9).contains(&share), "{metric} {share}");
    }
    // Day by day, what is shown and what is hidden make the totals: the same hidden part whatever else is grouped by.
    let (dated, _) = console.all_rows(DOMAIN, &console.body(&["date"], json!({}))).await;
    let (dated_queries, _) =
        console.all_rows(DOMAIN, &console.body(&["date", "query"], json!({"rowLimit": 25_000}))).await;
    let mut seen = HashSet::new();
    let distinct: Vec<Value> = dated_queries.into_iter().filter(|row| seen.insert(row["keys"].to_string())).collect();
    let mut hidden = 0.0;
    for day in &dated {
        let of_day: Vec<Value> = distinct.iter().filter(|row| row["keys"][0] == day["keys"][0]).cloned().collect();
        let missing = day["impressions"].as_f64().unwrap() - sum(&of_day, "impressions");
        assert!(missing > 0.0, "{day}");
        hidden += missing;
    }
    assert_eq!(hidden, total["impressions"].as_f64().unwrap() - sum(&shown, "impressions"));
    // With any filter on queries the hidden ones are gone: a filter and its opposite give the shown part only.
    let filtered = async |operator: &str| {
        console.query(DOMAIN, &console.body(&[], filter("query", operator, "chair"))).await["rows"][0].clone()
    };
    let (with, without) = (filtered("contains").await, filtered("notContains").await);
    for metric in ["clicks", "impressions"] {
        let both = with[metric].as_f64().unwrap() + without[metric].as_f64().unwrap();
        assert_eq!(both, sum(&shown, metric));
    }
    // A filter on something else keeps them.
    let page = json!({"aggregationType": "byPage"});
    let all = console.query(DOMAIN, &console.body(&[], page)).await["rows"][0].clone();
    let any = console.query(DOMAIN, &console.body(&[], filter("page", "includingRegex", "."))).await["rows"][0].clone();
    assert_eq!(all, any);
}

#[tokio::test]
async fn filters_find_nothing_without_an_error() {
    let console = Console::start().await;
    let count = async |more: Value| {
        let answer = console.query(DOMAIN, &console.body(&["query"], more)).await;
        assert_eq!(answer.get("rows").is_none(), rows(&answer).is_empty());
        rows(&answer).len()
    };
    let emoji = "https://help.nordwind.example/aufbau/f%C3%B6hr-%F0%9F%AA%91";
    let comma = "https://help.nordwind.example/colours/aqua%2C-magenta";
    for (dimension, operator, good, bad) in [
        ("query", "includingRegex", "^(oak|walnut) chair", "^(oak|walnut"),
        ("query", "excludingRegex", "^oak chair$", "oak(?! chair)"),
        ("country", "equals", "deu", "de"),
        ("country", "equals", "USA", "United States"),
        ("country", "equals", "zzz", "(not set)"),
        ("device", "equals", "mobile", "PHONE"),
        ("page", "equals", emoji, "https://help.nordwind.example/aufbau/föhr-🪑"),
        ("page", "contains", comma, "aqua, magenta"),
        ("page", "equals", "https://www.nordwind.example/", "https://www.nordwind.example"),
        ("query", "equals", "nordwind", "Nordwind"),
        ("query", "contains", "NORDWIND", "nordwindd"),
    ] {
        assert!(count(filter(dimension, operator, good)).await > 0, "{good}");
        assert_eq!(count(filter(dimension, operator, bad)).await, 0, "{bad}");
    }
    // Filters of a group, and groups, must all hold.
    let part = |dimension: &str, expression: &str| json!({"dimension": dimension, "operator": "contains", "expression": expression});
    let chairs = count(json!({"dimensionFilterGroups": [{"filters": [part("query", "chair")]}]})).await;
    let one = json!({"dimensionFilterGroups": [{"groupType": "and", "filters": [part("query", "chair"), part("query", "oak")]}]});
    let two =
        json!({"dimensionFilterGroups": [{"filters": [part("query", "chair")]}, {"filters": [part("query", "oak")]}]});
    let both = count(one).await;
    assert_eq!(both, count(two).await);
    assert!(both > 0 && both < chairs);
}

#[tokio::test]
async fn appearances_stand_alone_and_their_negation_is_broken() {
    let console = Console::start().await;
    let (list, _) = console.all_rows(DOMAIN, &console.body(&["searchAppearance"], json!({}))).await;
    let names: Vec<&str> = list.iter().map(|row| row["keys"][0].as_str().unwrap()).collect();
    assert!(names.contains(&"PRODUCT_SNIPPETS") && names.contains(&"VIDEO"), "{names:?}");
    let by = async |operator: &str, name: &str| {
        console.query(DOMAIN, &console.body(&["page"], filter("searchAppearance", operator, name))).await
    };
    let exact = by("equals", "VIDEO").await;
    assert_eq!(exact["responseAggregationType"], "byPage");
    assert!(!rows(&exact).is_empty());
    assert_eq!(by("notEquals", "VIDEO").await, exact, "the rows it should exclude");
    assert!(rows(&by("equals", "video").await).is_empty());
    // The News Showcase has an aggregation of its own.
    let mut showcase = filter("searchAppearance", "equals", "NEWS_SHOWCASE");
    showcase["type"] = json!("discover");
    showcase["aggregationType"] = json!("byNewsShowcasePanel");
    let answer = console.query(DOMAIN, &console.body(&["date"], showcase)).await;
    assert_eq!(answer["responseAggregationType"], "byNewsShowcasePanel");
    assert!(!rows(&answer).is_empty());
}

#[tokio::test]
async fn feeds_have_no_positions_and_each_type_its_own_rows() {
    let console = Console::start().await;
    let mut clicks = Vec::new();
    for kind in ["web", "image", "video", "news", "discover", "googleNews"] {
        let answer = console.query(DOMAIN, &console.body(&["page", "country"], json!({"type": kind}))).await;
        let rows = rows(&answer);
        assert!(!rows.is_empty(), "{kind}");
        let feed = matches!(kind, "discover" | "googleNews");
        assert!(rows.iter().all(|row| row.get("position").is_none() == feed), "{kind}");
        let totals = console.query(DOMAIN, &console.body(&[], json!({"type": kind}))).await;
        assert_eq!(totals["responseAggregationType"], if feed { "byPage" } else { "byProperty" }, "{kind}");
        clicks.push(totals["rows"][0]["clicks"].as_f64().unwrap());
    }
    assert!(clicks[0] > 5.0 * clicks[1], "{clicks:?}");
    let old = console.query(DOMAIN, &console.body(&[], json!({"searchType": "image"}))).await;
    assert_eq!(old["rows"][0]["clicks"], clicks[1]);
}

#[tokio::test]
async fn fresh_days_are_partial_and_say_so() {
    let console = Console::start().await;
    let (last, today, first_incomplete) =
        (console.fact("last_final"), console.fact("today"), console.fact("first_incomplete"));
    let from = &days(&console, 8)[7];
    let range = |more: Value| {
        let mut body = json!({"startDate": from, "endDate": today, "dimensions": ["date"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let settled = console.query(DOMAIN, &range(json!({}))).await;
    assert_eq!(rows(&settled).last().unwrap()["keys"][0], last);
    assert_eq!(rows(&settled).len(), 8);
    assert!(settled.get("metadata").is_none());
    let fresh = console.query(DOMAIN, &range(json!({"dataState": "all"}))).await;
    assert_eq!(fresh["metadata"], json!({"firstIncompleteDate": first_incomplete}));
    assert_eq!(rows(&fresh)[..8], rows(&settled)[..], "final days are the same in both");
    assert!(rows(&fresh).len() >= 10 && rows(&fresh)[8]["keys"][0] == first_incomplete);
    // In snake case elsewhere; absent without dates or when the range is final.
    let snake = console.query(BLOG, &range(json!({"dataState": "all"}))).await;
    assert_eq!(snake["metadata"], json!({"first_incomplete_date": first_incomplete}));
    for more in [json!({"dataState": "all", "dimensions": []}), json!({"dataState": "all", "endDate": last})] {
        assert!(console.query(DOMAIN, &range(more)).await.get("metadata").is_none());
    }
    // The fresh part is less than what the same days have once they are final.
    let day = first_incomplete;
    let body = json!({"startDate": day, "endDate": day, "dataState": "all"});
    let partial = console.query(DOMAIN, &body).await["rows"][0]["impressions"].as_f64().unwrap();
    let later: jiff::civil::Date = day.parse().unwrap();
    let later = later.saturating_add(jiff::Span::new().days(7)).to_string();
    console.bench.sandbox.search_console().set_json(&json!({"today": later})).unwrap();
    let whole = console.query(DOMAIN, &body).await["rows"][0]["impressions"].as_f64().unwrap();
    assert!(partial > 0.0 && partial < whole, "{partial} {whole}");
}

#[tokio::test]
async fn days_without_data_are_absent_or_zero() {
    let console = Console::start().await;
    let window = days(&console, 28);
    let zero = rows(&console.query(HELP, &console.body(&["date"], json!({}))).await);
    assert_eq!(zero.len(), window.len());
    let empty: Vec<&Value> = zero.iter().filter(|row| row["impressions"] == 0.0).collect();
    assert!(empty.len() >= 2, "{zero:?}");
    assert_eq!(empty[0]["ctr"], 0.0);
    let quiet = "sc-domain:xn--mbel-5qa.example";
    let absent = rows(&console.query(quiet, &console.body(&["date"], json!({}))).await);
    assert!(absent.len() < window.len() - 7 && absent.len() > 9, "{}", absent.len());
    // An empty day in a walk: no rows, no error.
    let dated: HashSet<&str> = absent.iter().map(|row| row["keys"][0].as_str().unwrap()).collect();
    let day = window.iter().find(|day| !dated.contains(day.as_str())).unwrap();
    let body = console.body(&["query"], json!({"startDate": day, "endDate": day}));
    assert!(console.query(quiet, &body).await.get("rows").is_none());
}

#[tokio::test]
async fn hours_follow_the_clock_through_both_changes() {
    let console = Console::start().await;
    for (today, day, hours, twice) in [("2026-11-05", "2026-11-01", 25, 1), ("2026-03-12", "2026-03-08", 23, 0)] {
        console.bench.sandbox.search_console().set_json(&json!({"today": today})).unwrap();
        let body = json!({"startDate": day, "endDate": day, "dimensions": ["hour"], "dataState": "hourly_all"});
        let answer = console.query(DOMAIN, &body).await;
        let keys: Vec<String> = rows(&answer).iter().map(|row| row["keys"][0].as_str().unwrap().to_owned()).collect();
        assert!(keys.iter().all(|key| key.starts_with(day)), "{keys:?}");
        assert!(keys.len() <= hours && keys.len() > hours - 3, "{keys:?}");
        let offsets: HashSet<&str> = keys.iter().map(|key| &key[19..]).collect();
        assert_eq!(offsets, HashSet::from(["-07:00", "-08:00"]));
        assert_eq!(keys.iter().filter(|key| key.contains("T01:")).count(), 1 + twice, "{keys:?}");
        assert!(!keys.iter().any(|key| twice == 0 && key.contains("T02:")), "an hour that didn't exist");
        assert!(answer.get("metadata").is_none(), "complete hours");
        // The hours of a day that is over make the day.
        let daily = json!({"startDate": day, "endDate": day});
        assert_eq!(sum(&rows(&answer), "clicks"), sum(&rows(&console.query(DOMAIN, &daily).await), "clicks"));
    }
    console.bench.sandbox.search_console().set_json(&json!({"today": "2026-11-05"})).unwrap();
    let hourly = |from: &str, to: &str| json!({"startDate": from, "endDate": to, "dimensions": ["hour"], "dataState": "hourly_all"});
    let fresh = console.query(DOMAIN, &hourly("2026-11-01", "2026-11-05")).await;
    let first = fresh["metadata"]["firstIncompleteHour"].as_str().unwrap();
    assert!(first.starts_with("2026-11-04T") && first.ends_with(":00:00-08:00"), "{first}");
    let snake = console.query(BLOG, &hourly("2026-11-01", "2026-11-05")).await;
    assert_eq!(snake["metadata"]["first_incomplete_hour"], first);
    // Ten days and no more; older hours are no error.
    assert!(console.query(DOMAIN, &hourly("2026-10-20", "2026-10-26")).await.get("rows").is_none());
    let ten = rows(&console.query(DOMAIN, &hourly("2026-10-01", "2026-11-05")).await);
    assert!(ten[0]["keys"][0].as_str().unwrap().starts_with("2026-10-27T"));
}

#[tokio::test]
async fn history_ends_after_sixteen_months_and_long_ranges_lose_rows() {
    let console = Console::start().await;
    let (oldest, last) = (console.fact("oldest"), console.fact("last_final"));
    let early = json!({"startDate": "2020-01-01", "endDate": last, "dimensions": ["date"], "rowLimit": 1});
    assert_eq!(rows(&console.query(SHOP, &early).await)[0]["keys"][0], oldest);
    let before = json!({"startDate": "2020-01-01", "endDate": "2020-12-31"});
    assert!(console.query(SHOP, &before).await.get("rows").is_none());
    let future = json!({"startDate": last, "endDate": "2099-01-01", "dimensions": ["date"]});
    assert_eq!(rows(&console.query(SHOP, &future).await).len(), 1);

    let window = days(&console, 120);
    let range = |from: usize, to: usize| json!({"startDate": window[from], "endDate": window[to], "dimensions": ["query"], "rowLimit": 25_000});
    let (long, _) = console.all_rows(SHOP, &range(119, 0)).await;
    let (older, _) = console.all_rows(SHOP, &range(119, 60)).await;
    let (newer, _) = console.all_rows(SHOP, &range(59, 0)).await;
    let both: HashSet<String> = keys(&older).into_iter().chain(keys(&newer)).collect();
    assert!(long.len() < both.len(), "{} {}", long.len(), both.len());
    assert!(sum(&long, "impressions") < sum(&older, "impressions") + sum(&newer, "impressions"));
    // Totals of a long range lose nothing.
    let total = |mut body: Value| {
        body["dimensions"] = json!([]);
        body
    };
    let [whole, one, two] = [range(119, 0), range(119, 60), range(59, 0)].map(total);
    let clicks = async |body: &Value| console.query(SHOP, body).await["rows"][0]["clicks"].as_f64().unwrap();
    assert_eq!(clicks(&whole).await, clicks(&one).await + clicks(&two).await);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_answer() {
    let console = Console::start().await;
    let again = Console::start().await;
    let dir = tempfile::tempdir().unwrap();
    let other = google_sandbox::Options { seed: 43, ..google_sandbox::Options::in_dir(dir.path()) };
    let other = google_sandbox::start(other).await.unwrap();
    other.search_console().set_json(&json!({"today": TODAY})).unwrap();
    assert_ne!(other.facts()["search_console"]["shop"], console.facts["shop"]);
    for (site, dimensions) in [
        (DOMAIN, ["date", "query", "page"]),
        ("https://agency-client.example/", ["query", "country", "device"]),
        ("https://microsite-03.example/", ["query", "country", "device"]),
        (BULK, ["query", "page", "country"]),
    ] {
        let body = console.body(&dimensions, json!({"rowLimit": 2_000}));
        let answer = console.ask(site, &body).await.body;
        assert!(answer.len() > 100);
        assert_eq!(answer, again.ask(site, &body).await.body, "{site}");
    }
}

#[tokio::test]
async fn clicks_reconcile_with_analytics() {
    // The clock's today: Analytics has no other.
    let console = Console::start_on(Value::Null).await;
    let bench = &console.bench;
    let analytics = bench.token(false).await;
    let organic = json!({"dimensionFilter": {"andGroup": {"expressions": [
        {"filter": {"fieldName": "sessionSource", "stringFilter": {"value": "google"}}},
        {"filter": {"fieldName": "sessionMedium", "stringFilter": {"value": "organic"}}},
    ]}}});
    let window = days(&console, 60);
    let mut request = report(&["landingPage"], &["sessions"], organic);
    request["dateRanges"] = json!([{"startDate": window[59], "endDate": window[0]}]);
    let sessions = bench.report(&analytics, &bench.property("main"), &request).await;
    let mut by_page: HashMap<String, f64> = HashMap::new();
    for kind in ["web", "image", "video", "news", "discover", "googleNews"] {
        let body = console.body(&["page"], json!({"type": kind, "startDate": window[59], "endDate": window[0]}));
        for row in console.all_rows(SHOP, &body).await.0 {
            let page = row["keys"][0].as_str().unwrap().strip_prefix("https://www.nordwind.example").unwrap();
            *by_page.entry(page.to_owned()).or_default() += row["clicks"].as_f64().unwrap();
        }
    }
    let sessions: HashMap<String, f64> = client::column(&sessions, "rows", "dimensionValues", 0)
        .into_iter()
        .zip(numbers(&sessions, "rows", 0))
        .filter(|(page, _)| page != "(not set)")
        .collect();
    let (clicks, visits): (f64, f64) =
        (sessions.keys().filter_map(|page| by_page.get(page)).sum(), sessions.values().sum());
    assert!(visits > 800.0, "{visits}");
    assert!((1.05..1.16).contains(&(clicks / visits)), "{clicks} clicks, {visits} sessions");
    // Page by page too, but for the hours between Berlin's midnight and California's.
    for (page, sessions) in sessions.iter().filter(|(_, sessions)| **sessions > 60.0) {
        let ratio = by_page[page] / sessions;
        assert!((0.85..1.45).contains(&ratio), "{page}: {ratio}");
    }
}

#[tokio::test]
async fn a_bulk_day_has_more_rows_than_google_shows() {
    let console = Console::start().await;
    let bulk = &console.facts["bulk"];
    let last = bulk["last"].as_str().unwrap();
    let day = |dimensions: &[&str], more: Value| {
        let mut body = json!({"startDate": last, "endDate": last, "dimensions": dimensions, "rowLimit": 25_000});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let (pairs, sizes) = console.all_rows(BULK, &day(&["query", "page"], json!({}))).await;
    let distinct: HashSet<String> = keys(&pairs).into_iter().collect();
    assert_eq!(distinct.len(), 50_000);
    assert!(sizes.len() >= 2, "{sizes:?}");
    assert!(pairs.is_sorted_by(|a, b| a["clicks"].as_f64() >= b["clicks"].as_f64()));
    let (queries, _) = console.all_rows(BULK, &day(&["query"], json!({}))).await;
    assert_eq!(queries.len(), 5_000);
    let (pages, _) = console.all_rows(BULK, &day(&["page"], json!({}))).await;
    assert_eq!(keys(&pages).into_iter().collect::<HashSet<_>>().len(), 7_500);
    // Totals hold what no row has; whatever isn't a query adds up to them.
    let total = console.query(BULK, &day(&[], json!({"aggregationType": "byPage"}))).await["rows"][0].clone();
    let (places, _) = console.all_rows(BULK, &day(&["country", "device"], json!({"aggregationType": "byPage"}))).await;
    let mut seen = HashSet::new();
    let pages: Vec<Value> = pages.into_iter().filter(|row| seen.insert(row["keys"].to_string())).collect();
    for rows in [&places, &pages] {
        for metric in ["clicks", "impressions"] {
            assert_eq!(sum(rows, metric), total[metric].as_f64().unwrap(), "{metric}");
        }
    }
    assert!(sum(&pairs, "clicks") < total["clicks"].as_f64().unwrap());
    // Filters see only what is shown; the sub-folder is a property of its own and shows all it has.
    let shelf = filter("page", "contains", "/shelf-3/");
    let (filtered, _) = console.all_rows(BULK, &day(&["query", "page"], shelf)).await;
    let (own, _) = console.all_rows(SHELF, &day(&["query", "page"], json!({}))).await;
    let count = |rows: &[Value]| keys(rows).into_iter().collect::<HashSet<_>>().len();
    assert_eq!((count(&filtered), count(&own)), (5_000, 6_000));
    let inside: HashSet<String> = keys(&own).into_iter().collect();
    assert!(keys(&filtered).iter().all(|key| inside.contains(key)));
    for (dimensions, more) in [
        (&["hour"][..], json!({"dataState": "hourly_all"})),
        (&["query", "page"], {
            let mut long = filter("query", "contains", "x");
            long["startDate"] = bulk["first"].clone();
            long
        }),
    ] {
        let message = console.refusal(BULK, &day(dimensions, more)).await["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("sandbox: not supported"), "{message}");
    }
}

#[tokio::test]
async fn walking_days_finds_more_than_one_request() {
    let console = Console::start().await;
    let first_last =
        |days: &[String]| json!({"startDate": days[days.len() - 1], "endDate": days[0], "rowLimit": 25_000});
    let window = days(&console, 3);
    let mut range = first_last(&window);
    range["dimensions"] = json!(["query", "page"]);
    let (once, _) = console.all_rows(BULK, &range).await;
    let once_keys: HashSet<String> = keys(&once).into_iter().collect();
    assert_eq!(once_keys.len(), 50_000);
    let mut merged: HashMap<String, (f64, f64)> = HashMap::new();
    for day in &window {
        range["startDate"] = json!(day);
        range["endDate"] = json!(day);
        let mut of_day = HashSet::new();
        for row in console.all_rows(BULK, &range).await.0 {
            let key = row["keys"].to_string();
            if of_day.insert(key.clone()) {
                let sums = merged.entry(key).or_default();
                sums.0 += row["clicks"].as_f64().unwrap();
                sums.1 += row["impressions"].as_f64().unwrap();
            }
        }
        assert_eq!(of_day.len(), 50_000);
    }
    assert_eq!(merged.len(), 10_000 + 3 * 40_000);
    for row in &once {
        let sums = (row["clicks"].as_f64().unwrap(), row["impressions"].as_f64().unwrap());
        assert_eq!(merged[&row["keys"].to_string()], sums, "{row}");
    }
    // With a date each day has its own 50,000: two million in forty days, some of them twice.
    let mut large = first_last(&days(&console, 40));
    large["dimensions"] = json!(["date", "query", "page"]);
    large["startRow"] = json!(1_999_900);
    let end = rows(&console.query(BULK, &large).await);
    assert!(end.len() > 80 && end.len() < 400, "{}", end.len());
    assert_eq!(end.last().unwrap()["keys"][0], days(&console, 1)[0].as_str());
    large["startRow"] = json!(2_001_000);
    assert!(console.query(BULK, &large).await.get("rows").is_none());
    // More days lift the cap of queries alone.
    range["dimensions"] = json!(["query"]);
    range["startDate"] = json!(window[2]);
    range["endDate"] = json!(window[0]);
    let (queries, _) = console.all_rows(BULK, &range).await;
    assert_eq!(keys(&queries).into_iter().collect::<HashSet<_>>().len(), 15_000);
}

#[tokio::test]
async fn a_site_refuses_a_burst_for_a_while() {
    let console = Console::start().await;
    let switches = console.bench.sandbox.search_console();
    let body = console.body(&[], json!({}));
    console.query(SHOP, &body).await;
    // Two may run, and each takes a while: of five at once some are refused, and so is what follows at once.
    let slow = json!({"path": "searchAnalytics/query$", "times": 1_000, "action": {"delay_ms": 300}});
    console.bench.sandbox.faults().add_json(&slow).unwrap();
    switches.set_json(&json!({"limit": {"site": SHOP, "in_flight": 2, "for_ms": 60_000}})).unwrap();
    let five = tokio::join!(
        console.ask(SHOP, &body),
        console.ask(SHOP, &body),
        console.ask(SHOP, &body),
        console.ask(SHOP, &body),
        console.ask(SHOP, &body)
    );
    let statuses = [five.0, five.1, five.2, five.3, five.4].map(|answer| answer.status);
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 2, "{statuses:?}");
    assert_eq!(switches.refused(SHOP), 3);
    console.bench.sandbox.faults().clear();
    let refused = console.ask(SHOP, &body).await;
    assert_eq!(refused.status, 403);
    let error = refused.json()["error"].clone();
    assert_eq!(error["errors"][0]["domain"], "usageLimits");
    assert_eq!(error["errors"][0]["reason"], "quotaExceeded");
    assert!(error["message"].as_str().unwrap().starts_with("Search Analytics QPS quota exceeded."));
    // Another site isn't concerned; the pause ends.
    console.query(BLOG, &body).await;
    switches.set_json(&json!({"limit": {"site": SHOP, "per_second": 0, "for_ms": 0}})).unwrap();
    assert_eq!(console.ask(SHOP, &body).await.status, 403);
    switches.set_json(&json!({"limit": {"site": SHOP, "in_flight": 2}})).unwrap();
    console.query(SHOP, &body).await;
    console.query(SHOP, &body).await;
    switches.clear();
    console.query(SHOP, &body).await;
}

#[tokio::test]
async fn quota_comes_in_several_forms() {
    let console = Console::start().await;
    let body = console.body(&[], json!({}));
    let control = async |body: Value| {
        send(console.bench.url(), "POST", "/__sandbox/search_console", &[], body.to_string().as_bytes()).await.unwrap()
    };
    for (name, status, reason, text) in [
        (None, 403, "quotaExceeded", "Search Analytics load quota exceeded."),
        (Some("qps"), 403, "quotaExceeded", "Search Analytics QPS quota exceeded."),
        (Some("qps_429"), 429, "rateLimitExceeded", "Search Analytics QPS quota exceeded."),
        (Some("rate"), 429, "rateLimitExceeded", "Rate Limit Exceeded"),
        (Some("rate_403"), 403, "rateLimitExceeded", "Rate Limit Exceeded"),
    ] {
        let mut limit = json!({"site": SHOP, "requests": 2});
        if let Some(name) = name {
            limit["refusal"] = json!(name);
        }
        assert_eq!(control(json!({"limit": limit})).await.status, 200);
        console.query(SHOP, &body).await;
        console.query(SHOP, &body).await;
        for _ in 0..2 {
            let refused = console.ask(SHOP, &body).await;
            assert_eq!(refused.status, status, "{name:?}");
            let error = refused.json()["error"].clone();
            assert_eq!(error["code"], status);
            assert_eq!(error["errors"][0]["domain"], "usageLimits");
            assert_eq!(error["errors"][0]["reason"], reason);
            assert!(error["message"].as_str().unwrap().starts_with(text), "{error}");
        }
    }
    let cleared = send(console.bench.url(), "DELETE", "/__sandbox/search_console", &[], b"").await.unwrap();
    assert_eq!(cleared.status, 200);
    console.query(SHOP, &body).await;
    for bad in [
        json!([]),
        json!({"tomorrow": 1}),
        json!({"today": "5 November"}),
        json!({"limit": {"in_flight": 1}}),
        json!({"limit": {"site": SHOP}}),
        json!({"limit": {"site": SHOP, "in_flight": -1}}),
        json!({"limit": {"site": SHOP, "in_flight": 1, "refusal": "no"}}),
        json!({"limit": {"site": SHOP, "requests": 1, "each": 2}}),
        json!({"inspections": {"site": SHOP}}),
    ] {
        let answer = control(bad.clone()).await;
        assert_eq!(answer.status, 400, "{bad}");
        assert!(answer.json()["error"].is_string());
    }
}

#[tokio::test]
async fn urls_are_inspected_until_the_quota_ends() {
    let console = Console::start().await;
    let inspect = async |site: &str, url: &str, more: Value| {
        let mut body = json!({"siteUrl": site, "inspectionUrl": url});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        console.bench.post(&console.token, "/v1/urlInspection/index:inspect", &body).await
    };
    let none = || json!({});
    let home = inspect(DOMAIN, "https://www.nordwind.example/", none()).await.json();
    let status = &home["inspectionResult"]["indexStatusResult"];
    assert_eq!((&status["verdict"], &status["coverageState"]), (&json!("PASS"), &json!("Submitted and indexed")));
    assert_eq!(status["googleCanonical"], "https://www.nordwind.example/");
    assert!(status["lastCrawlTime"].as_str().unwrap().ends_with('Z'));
    assert_eq!(home["inspectionResult"]["mobileUsabilityResult"]["verdict"], "VERDICT_UNSPECIFIED");
    let german = inspect(SHOP, "https://www.nordwind.example/", json!({"languageCode": "de-CH"})).await.json();
    assert_eq!(german["inspectionResult"]["indexStatusResult"]["coverageState"], "Gesendet und indexiert");
    for (path, verdict, state) in [
        ("search", "NEUTRAL", "Excluded by"),
        ("imprint", "NEUTRAL", "Crawled - currently not indexed"),
        ("print/chairs", "NEUTRAL", "Alternate page"),
        ("private/x", "FAIL", "Blocked by robots.txt"),
        ("old/chair", "FAIL", "Not found (404)"),
        ("error/500", "FAIL", "Server error (5xx)"),
        ("never-heard-of", "NEUTRAL", "URL is unknown to Google"),
    ] {
        let found = inspect(SHOP, &format!("{SHOP}{path}"), none()).await.json();
        let status = &found["inspectionResult"]["indexStatusResult"];
        assert_eq!(status["verdict"], verdict, "{path}");
        assert!(status["coverageState"].as_str().unwrap().starts_with(state), "{status}");
        if state.starts_with("URL is unknown") {
            assert!(status.get("lastCrawlTime").is_none() && status.get("crawledAs").is_none());
        }
    }
    let product = inspect(SHOP, &format!("{SHOP}products/chair-1"), none()).await.json();
    let rich = &product["inspectionResult"]["richResultsResult"];
    assert_eq!(rich["detectedItems"][0]["richResultType"], "Product snippets");
    assert!(rich["detectedItems"][0]["items"][0]["issues"][0]["issueMessage"].is_string());

    // Not the site's page, not a full user, not verified, not a site: the same refusal.
    for (site, url) in [
        (SHOP, "https://help.nordwind.example/"),
        (SHOP, "http://www.nordwind.example/"),
        ("https://www.nordwind.example", "https://www.nordwind.example/"),
        ("https://agency-client.example/", "https://agency-client.example/"),
        ("sc-domain:harbour.example", "https://www.harbour.example/"),
        ("https://limited-only.example/", "https://limited-only.example/"),
    ] {
        let denied = inspect(site, url, none()).await;
        assert_eq!(denied.status, 403, "{site} {url}");
        let error = denied.json()["error"].clone();
        assert_eq!(error["status"], "PERMISSION_DENIED");
        assert!(error["message"].as_str().unwrap().starts_with("You do not own this site, or the inspected URL"));
    }
    for bad in [
        json!({"siteUrl": SHOP}),
        json!({"inspectionUrl": SHOP}),
        json!({"siteUrl": SHOP, "inspectionUrl": SHOP, "url": 1}),
    ] {
        assert_eq!(console.bench.post(&console.token, "/v1/urlInspection/index:inspect", &bad).await.status, 400);
    }
    // 20 a day and site; the shop has used ten, refusals don't count.
    let mut statuses = Vec::new();
    for number in 0..12 {
        statuses.push(inspect(SHOP, &format!("{SHOP}page-{number}"), none()).await);
    }
    let good = statuses.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(good, 11, "{statuses:?}");
    let refused = statuses.last().unwrap().json()["error"].clone();
    assert_eq!(refused["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(refused["message"], format!("Quota exceeded for {SHOP}."));
    assert_eq!(inspect(DOMAIN, SHOP, none()).await.status, 200, "each site has its own");
    console.bench.sandbox.search_console().set_json(&json!({"inspections": {"site": SHOP, "left": 1}})).unwrap();
    assert_eq!(inspect(SHOP, SHOP, none()).await.status, 200);
    assert_eq!(inspect(SHOP, SHOP, none()).await.status, 429);
}

#[tokio::test]
async fn sitemaps_are_listed() {
    let console = Console::start().await;
    let list = |site: &str| format!("/webmasters/v3/sites/{}/sitemaps", encoded(site));
    let top = console.get(&list(DOMAIN)).await.json();
    let top = top["sitemap"].as_array().unwrap();
    assert_eq!(top.len(), 4);
    assert_eq!(top[0]["isSitemapsIndex"], true);
    assert_eq!(top[0]["contents"][0], json!({"type": "web", "submitted": "57", "indexed": "0"}));
    let pending = top.iter().find(|sitemap| sitemap["isPending"] == true).unwrap();
    assert!(pending.get("lastDownloaded").is_none() && pending.get("contents").is_none());
    assert!(top.iter().any(|sitemap| sitemap["errors"] == "3"));
    let index = top[0]["path"].as_str().unwrap();
    let children = console.get(&format!("{}?sitemapIndex={}", list(DOMAIN), encoded(index))).await.json();
    assert_eq!(children["sitemap"].as_array().unwrap().len(), 2);
    let one = console.get(&format!("{}/{}", list(SHOP), encoded(index))).await.json();
    assert_eq!(&one, &top[0]);
    let missing = console.get(&format!("{}/{}", list(SHOP), encoded("https://www.nordwind.example/x.xml"))).await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json()["error"]["errors"][0]["reason"], "notFound");
    assert_eq!(console.get(&list(BLOG)).await.json(), json!({}));
    assert_eq!(console.get(&list("https://limited-only.example/")).await.status, 403);
}

#[tokio::test]
async fn faults_hit_these_paths_too() {
    let console = Console::start().await;
    let faults = console.bench.sandbox.faults();
    let body = console.body(&["query"], json!({}));
    let last = console.fact("last_final");
    let bulk = json!({"startDate": last, "endDate": last, "dimensions": ["query", "page"], "rowLimit": 25_000});
    faults.add_json(&json!({"path": "searchAnalytics/query$", "action": {"cut_after_bytes": 1_000}})).unwrap();
    let cut = console.ask(BULK, &bulk).await;
    assert_eq!((cut.body.len(), cut.complete), (1_000, false));
    let load = json!({"error": {"code": 403, "errors": [{"domain": "usageLimits", "reason": "quotaExceeded"}]}});
    faults
        .add_json(
            &json!({"path": "searchAnalytics/query$", "nth": 2, "action": {"status": {"code": 403, "body": load}}}),
        )
        .unwrap();
    console.query(SHOP, &body).await;
    assert_eq!(console.ask(SHOP, &body).await.json(), load);
    console.query(SHOP, &body).await;
    // An account without sites: the list has no key.
    let nothing = json!({"path": "/webmasters/v3/sites$", "action": {"status": {"code": 200, "body": {}}}});
    faults.add_json(&nothing).unwrap();
    assert_eq!(console.get("/webmasters/v3/sites").await.json(), json!({}));
    faults.add_json(&json!({"path": "index:inspect$", "action": "expire_token"})).unwrap();
    let inspect = json!({"siteUrl": SHOP, "inspectionUrl": SHOP});
    assert_eq!(console.bench.post(&console.token, "/v1/urlInspection/index:inspect", &inspect).await.status, 401);
    assert_eq!(console.ask(SHOP, &body).await.status, 401);
}
