//! BigQuery from outside: metadata, jobs, what they cost, load jobs, faults.

// Clippy's exemption for tests doesn't reach the helpers beside them.
#![allow(clippy::unwrap_used)]
// The client serves other suites too.
#![allow(dead_code)]

mod client;

use std::collections::{HashMap, HashSet};

use client::{Bench, Response, body as report, numbers, send};
use google_sandbox::LedgerJob;
use serde_json::{Value, json};

const PROJECT: &str = "/bigquery/v2/projects/acp-sandbox";
const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";
const READONLY_SCOPE: &str = "https://www.googleapis.com/auth/bigquery.readonly";
const MIB: i64 = 1024 * 1024;

/// A sandbox with a token for BigQuery.
struct Warehouse {
    bench: Bench,
    token: String,
    facts: Value,
}

fn text(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).chars().take(600).collect()
}

/// The error of an answer that must be one: HTTP status, reason, message.
fn error(answer: &Response) -> (u16, String, String) {
    assert!(answer.status >= 400, "{}", text(answer));
    let error = answer.json()["error"].clone();
    assert_eq!(error["code"], answer.status, "{error}");
    assert_eq!(error["errors"][0]["message"], error["message"], "{error}");
    let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (answer.status, part(&error["errors"][0]["reason"]), part(&error["message"]))
}

fn int(value: &Value) -> i64 {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).parse().unwrap()
}

/// The texts of a column of the rows of an answer.
fn cells(answer: &Value, column: usize) -> Vec<Value> {
    answer["rows"].as_array().into_iter().flatten().map(|row| row["f"][column]["v"].clone()).collect()
}

async fn token_for(bench: &Bench, limited: bool, scope: &str) -> String {
    let answer = bench.exchange(&bench.key(limited), json!({"scope": scope})).await;
    answer.json()["access_token"].as_str().unwrap().to_owned()
}

impl Warehouse {
    async fn start() -> Self {
        let bench = Bench::start().await;
        let facts = bench.facts["bigquery"].clone();
        Self { token: token_for(&bench, false, SCOPE).await, facts, bench }
    }

    fn set(&self, switches: Value) {
        self.bench.sandbox.bigquery().set_json(&switches).unwrap();
    }

    fn jobs(&self) -> Vec<LedgerJob> {
        self.bench.sandbox.bigquery().jobs()
    }

    async fn get(&self, path: &str) -> Response {
        self.bench.get(&self.token, &format!("{PROJECT}{path}")).await
    }

    /// A resource that must be there.
    async fn resource(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", text(&answer));
        answer.json()
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        self.bench.post(&self.token, &format!("{PROJECT}{path}"), body).await
    }

    /// Inserts a query with changes to its configuration.
    async fn insert(&self, sql: &str, changes: Value) -> Response {
        self.post("/jobs", &job(sql, changes)).await
    }

    /// `statistics` of a dry run that must succeed.
    async fn dry_run(&self, sql: &str) -> Value {
        let answer = self.insert(sql, json!({"dryRun": true, "query": {"useQueryCache": false}})).await;
        assert_eq!(answer.status, 200, "{sql}: {}", text(&answer));
        let job = answer.json();
        assert_eq!(job["status"]["state"], "DONE");
        assert!(job["jobReference"]["jobId"].is_null(), "a dry run makes no job");
        job["statistics"].clone()
    }

    /// The error of a dry run that must fail.
    async fn refusal(&self, sql: &str) -> (u16, String, String) {
        error(&self.insert(sql, json!({"dryRun": true})).await)
    }

    /// The resource of a job after it ran, and its first page.
    async fn run(&self, sql: &str, changes: Value) -> (Value, Response) {
        let inserted = self.insert(sql, changes).await;
        assert_eq!(inserted.status, 200, "{sql}: {}", text(&inserted));
        let reference = inserted.json()["jobReference"].clone();
        let page = self.page(&reference, "").await;
        (self.resource(&format!("/jobs/{}", place(&reference))).await, page)
    }

    async fn page(&self, reference: &Value, more: &str) -> Response {
        self.get(&format!("/queries/{}{more}", place(reference))).await
    }

    /// The first page of a query that must succeed.
    async fn rows(&self, sql: &str) -> Value {
        let (_, page) = self.run(sql, json!({})).await;
        assert_eq!(page.status, 200, "{sql}: {}", text(&page));
        page.json()
    }

    /// Loads lines by one multipart request.
    async fn load(&self, load: Value, id: &str, lines: &str) -> Response {
        let job = json!({"jobReference": {"projectId": "acp-sandbox", "jobId": id}, "configuration": {"load": load}});
        let body = format!(
            "--cut\r\nContent-Type: application/json\r\n\r\n{job}\r\n--cut\r\nContent-Type: */*\r\n\r\n{lines}\r\n--cut--\r\n"
        );
        let bearer = format!("Bearer {}", self.token);
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "multipart/related; boundary=cut")];
        let path = format!("/upload{PROJECT}/jobs?uploadType=multipart");
        send(self.bench.url(), "POST", &path, &headers, body.as_bytes()).await.unwrap()
    }
}

/// A job's path with its location.
fn place(reference: &Value) -> String {
    format!("{}?location={}", reference["jobId"].as_str().unwrap(), reference["location"].as_str().unwrap())
}

fn job(sql: &str, changes: Value) -> Value {
    let mut body = json!({"configuration": {"query": {"query": sql, "useLegacySql": false}}});
    for (key, value) in changes.as_object().unwrap() {
        match (key.as_str(), value) {
            ("jobReference", value) => body["jobReference"] = value.clone(),
            ("query", Value::Object(query)) => {
                for (key, value) in query {
                    body["configuration"]["query"][key] = value.clone();
                }
            }
            (key, value) => body["configuration"][key] = value.clone(),
        }
    }
    body
}

fn target(table: &str, disposition: &str) -> Value {
    json!({
        "sourceFormat": "NEWLINE_DELIMITED_JSON",
        "destinationTable": {"projectId": "acp-sandbox", "datasetId": "loads", "tableId": table},
        "writeDisposition": disposition,
        "schema": {"fields": [
            {"name": "n", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "s", "type": "STRING"},
            {"name": "tags", "type": "STRING", "mode": "REPEATED"},
        ]},
    })
}

#[tokio::test]
async fn lists_have_pages() {
    let w = Warehouse::start().await;
    let projects = w.bench.get(&w.token, "/bigquery/v2/projects").await.json();
    let ids: Vec<&str> =
        projects["projects"].as_array().unwrap().iter().map(|project| project["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["acp-sandbox", "nordwind.example:archive"]);

    let mut names = HashSet::new();
    let (mut token, mut pages) = (String::new(), 0);
    loop {
        let page = w.resource(&format!("/datasets/many/tables?pageToken={token}")).await;
        assert_eq!(page["totalItems"], w.facts["many"]["tables"]);
        let tables = page["tables"].as_array().unwrap();
        names.extend(tables.iter().map(|table| table["tableReference"]["tableId"].as_str().unwrap().to_owned()));
        pages += 1;
        match page["nextPageToken"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!((names.len(), pages), (1_200, 24));
    let wrong = w.get(&format!("/datasets/warehouse/tables?pageToken={token}")).await;
    assert_eq!(error(&wrong).0, 400, "a token fits one list");
    assert!(w.resource("/datasets/empty/tables").await.get("tables").is_none(), "no key without entries");

    let listed = |body: &Value| -> Vec<String> {
        let sets = body["datasets"].as_array().unwrap();
        sets.iter().map(|set| set["datasetReference"]["datasetId"].as_str().unwrap().to_owned()).collect()
    };
    let datasets = w.resource("/datasets").await;
    let names = listed(&datasets);
    assert!(!names.contains(&"_hidden".to_owned()) && !names.contains(&"restricted".to_owned()), "{names:?}");
    assert!(listed(&w.resource("/datasets?all=true").await).contains(&"_hidden".to_owned()));
    w.set(json!({"unreachable": ["europe-west3"]}));
    let partial = w.resource("/datasets").await;
    assert_eq!(partial["unreachable"], json!(["europe-west3"]));
    assert!(!listed(&partial).contains(&"regional".to_owned()));

    let archive = "/bigquery/v2/projects/nordwind.example%3Aarchive/datasets/legacy/tables/customers";
    let table = w.bench.get(&w.token, archive).await.json();
    assert_eq!(table["id"], "nordwind.example:archive:legacy.customers");
}

#[tokio::test]
async fn tables_say_what_is_special_about_them() {
    let w = Warehouse::start().await;
    let table = async |name: &str| w.resource(&format!("/datasets/warehouse/tables/{name}")).await;
    let orders = table("orders").await;
    assert_eq!(orders["timePartitioning"], json!({"type": "DAY", "field": "day", "requirePartitionFilter": true}));
    assert_eq!(orders["requirePartitionFilter"], true);
    assert_eq!(orders["numRows"], "1200");
    assert_eq!(orders["numPartitions"], "30");
    assert_eq!(table("ingested").await["timePartitioning"], json!({"type": "DAY"}));
    assert_eq!(table("customers").await["clustering"], json!({"fields": ["city", "customer_id"]}));
    let view = table("orders_by_city").await;
    assert_eq!((&view["type"], &view["view"]["useLegacySql"]), (&json!("VIEW"), &json!(false)));
    assert_eq!(table("orders_legacy").await["view"]["useLegacySql"], true);
    assert_eq!(table("access_logs").await["externalDataConfiguration"]["sourceFormat"], "NEWLINE_DELIMITED_JSON");
    let people = table("people").await;
    assert!(people["schema"]["fields"][2]["policyTags"]["names"][0].is_string(), "{people}");

    let wide = table("wide?view=BASIC").await;
    assert!(wide.get("numRows").is_none(), "BASIC has no statistics of the storage");
    assert!(wide.to_string().len() > 100_000, "as large as the real ones");
    let some = table("wide?selectedFields=id,group_00.field_00_01&view=BASIC").await;
    let fields = some["schema"]["fields"].as_array().unwrap();
    assert_eq!(fields.len(), 2);
    assert_eq!(fields[1]["fields"].as_array().unwrap().len(), 1);

    let shards = w.resource("/datasets/sharding/tables/report_*").await;
    assert_eq!(shards["tableReference"]["tableId"], "report_*", "a wildcard has made-up metadata");

    let gone = error(&w.get("/datasets/warehouse/tables/nope").await);
    assert_eq!((gone.0, gone.1.as_str()), (404, "notFound"));
    assert_eq!(gone.2, "Not found: Table acp-sandbox:warehouse.nope");
    let closed = error(&w.get("/datasets/restricted/tables/customers").await);
    assert_eq!((closed.0, closed.1.as_str()), (403, "accessDenied"));
    assert!(closed.2.contains("or it may not exist"), "{}", closed.2);

    let routines = w.resource("/datasets/warehouse/routines").await;
    assert_eq!(routines["routines"].as_array().unwrap().len(), 4);
    let remote = w.resource("/datasets/warehouse/routines/remote_score").await;
    assert!(remote["remoteFunctionOptions"]["endpoint"].is_string());
}

#[tokio::test]
async fn the_exports_have_the_tables_of_the_real_ones() {
    let w = Warehouse::start().await;
    let export = &w.facts["ga4_export"];
    let path = format!("/datasets/{}/tables?maxResults=1000", export["dataset"].as_str().unwrap());
    let list = w.resource(&path).await;
    let names: Vec<String> = list["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| table["tableReference"]["tableId"].as_str().unwrap().to_owned())
        .collect();
    let shard = |family: &str, day: &Value| format!("{family}_{}", day.as_str().unwrap().replace('-', ""));
    assert!(names.contains(&shard("events", &export["first"])) && names.contains(&shard("events", &export["last"])));
    assert!(!names.contains(&shard("events", &export["gap"])) && !names.contains(&shard("events", &export["today"])));
    for family in ["events_intraday", "events_fresh"] {
        assert!(names.contains(&shard(family, &export["today"])), "{family}");
    }
    assert!(names.contains(&shard("pseudonymous_users", &export["last"])));

    let columns = async |name: &str| -> Vec<String> {
        let path = format!("/datasets/{}/tables/{name}?view=BASIC", export["dataset"].as_str().unwrap());
        let table = w.resource(&path).await;
        let fields = table["schema"]["fields"].as_array().unwrap().clone();
        fields.iter().map(|field| field["name"].as_str().unwrap().to_owned()).collect()
    };
    let old = columns(&shard("events", &export["first"])).await;
    let new = columns(&shard("events", &export["last"])).await;
    assert!(old.len() < new.len() && old.iter().all(|name| new.contains(name)), "columns were added");

    let log = w.resource("/datasets/searchconsole/tables/ExportLog/data").await;
    assert_eq!(log["totalRows"], "120", "two entries for each of 60 days");
}

#[tokio::test]
async fn rows_are_listed_without_a_job() {
    let w = Warehouse::start().await;
    let data = async |rest: &str| w.get(&format!("/datasets/warehouse/tables/{rest}")).await;
    let first = data("bulk/data?maxResults=3&selectedFields=id,sku").await.json();
    assert_eq!(first["totalRows"], "3000000");
    assert_eq!(cells(&first, 0), ["0", "1", "2"]);
    assert!(cells(&first, 1)[0].as_str().unwrap().starts_with("SKU-"));
    let token = first["pageToken"].as_str().unwrap();
    let second = data(&format!("bulk/data?maxResults=2&selectedFields=id,sku&pageToken={token}")).await.json();
    assert_eq!(cells(&second, 0), ["3", "4"]);
    let last = data("bulk/data?startIndex=2999999").await.json();
    assert_eq!(cells(&last, 0), ["2999999"]);
    assert!(last.get("pageToken").is_none());
    let beyond = data("bulk/data?startIndex=3000000").await.json();
    assert!(beyond.get("rows").is_none() && beyond["totalRows"] == "3000000");
    assert_eq!(error(&data("bulk/data?startIndex=1e3").await).0, 400, "a plain integer");

    let page = data("bulk_100k/data").await.json();
    let rows = page["rows"].as_array().unwrap().len();
    assert!((20_000..100_000).contains(&rows), "a page ends at 10 MiB: {rows}");
    w.set(json!({"page_bytes": 5_000}));
    assert!(data("bulk_100k/data").await.body.len() < 6_000);

    for (table, code, reason) in [
        ("orders_by_city", 400, "invalid"),
        ("access_logs", 400, "invalid"),
        ("salaries", 403, "accessDenied"),
        ("people", 403, "accessDenied"),
    ] {
        let refused = error(&data(&format!("{table}/data")).await);
        assert_eq!((refused.0, refused.1.as_str()), (code, reason), "{table}: {}", refused.2);
    }
    assert_eq!(data("people/data?selectedFields=name,city").await.status, 200);
    assert!(w.jobs().is_empty(), "none of this is a job");
}

#[tokio::test]
async fn cells_are_written_as_the_api_writes_them() {
    let w = Warehouse::start().await;
    let fields = w.resource("/datasets/warehouse/tables/every_type").await["schema"]["fields"].clone();
    let names: Vec<&str> = fields.as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    let data = w.resource("/datasets/warehouse/tables/every_type/data").await;
    let column = |name: &str| cells(&data, names.iter().position(|known| *known == name).unwrap());
    assert_eq!(column("bool_null")[..3], [json!("true"), json!(null), json!("false")]);
    assert_eq!(
        column("int64_null"),
        [
            json!("42"),
            json!(null),
            json!("-9223372036854775808"),
            json!("9223372036854775807"),
            json!("9007199254740991"),
            json!("9007199254740992"),
            json!("9007199254740993"),
            json!("-9007199254740993"),
        ]
    );
    assert_eq!(column("float64_null")[3..7], ["1.7976931348623157E308", "NaN", "Infinity", "-Infinity"]);
    assert_eq!(column("numeric_null")[3], "99999999999999999999999999999.999999999");
    assert_eq!(
        column("bignumeric_null")[3],
        "578960446186580977117854925043439539266.34992332820282019728792003956564819967"
    );
    assert_eq!(column("bytes_null")[5], "+//+");
    assert_eq!(column("date_null")[2..4], ["0001-01-01", "9999-12-31"]);
    assert_eq!(column("datetime_null")[0], "2026-09-25T12:34:56.789012");
    assert_eq!(column("time_null")[6], "01:00:00.500000");
    assert_eq!(column("interval_null")[0], "1-2 3 4:5:6.789");
    assert_eq!(column("json_null")[2], "null", "a JSON null is no SQL null");
    assert_eq!(column("json_null")[5], "\"text\"");
    assert_eq!(column("range_date_null")[3], "[UNBOUNDED, 9999-12-31)");
    assert_eq!(column("timestamp_null")[5], "-1.9954383398377106E10", "digits are lost by default");
    assert_eq!(column("string_repeated")[1], json!([]));
    assert_eq!(column("record_null")[1], json!(null));
    assert_eq!(column("record_null")[2]["f"][0], json!({"v": null}));
    let inner = &column("record_repeated")[4][0]["v"]["f"][17]["v"];
    assert_eq!(inner[0]["v"]["f"][1]["v"], json!([{"v": "1"}, {"v": "9007199254740993"}]));

    let timestamps = async |options: &str| {
        let path = format!("/datasets/warehouse/tables/every_type/data?selectedFields=timestamp_null{options}");
        cells(&w.resource(&path).await, 0)
    };
    assert_eq!(timestamps("&formatOptions.useInt64Timestamp=true").await[5], "-19954383398377106");
    let iso = timestamps("&formatOptions.timestampOutputFormat=ISO8601_STRING").await;
    assert_eq!(iso[5], "1337-09-02T11:43:21.622894000000Z");
    let both = "/datasets/warehouse/tables/every_type/data?formatOptions.useInt64Timestamp=true\
                &formatOptions.timestampOutputFormat=INT64";
    assert_eq!(error(&w.get(both).await).0, 400, "one or the other");
}

#[tokio::test]
async fn scopes_and_projects_decide_who_may_do_what() {
    let w = Warehouse::start().await;
    let reading = token_for(&w.bench, false, READONLY_SCOPE).await;
    assert_eq!(w.bench.get(&reading, &format!("{PROJECT}/datasets")).await.status, 200);
    let insert = w.bench.post(&reading, &format!("{PROJECT}/jobs"), &job("SELECT 1", json!({}))).await;
    assert_eq!(insert.status, 403);
    assert!(text(&insert).contains("ACCESS_TOKEN_SCOPE_INSUFFICIENT"), "{}", text(&insert));
    let analytics = w.bench.token(false).await;
    assert_eq!(w.bench.get(&analytics, &format!("{PROJECT}/datasets")).await.status, 403);

    let closed = w.bench.post(&w.token, "/bigquery/v2/projects/nordwind-data/jobs", &job("SELECT 1", json!({}))).await;
    let closed = error(&closed);
    assert_eq!((closed.0, closed.1.as_str()), (403, "accessDenied"));
    assert!(closed.2.contains("bigquery.jobs.create permission in project nordwind-data"), "{}", closed.2);

    let limited = token_for(&w.bench, true, SCOPE).await;
    let listed = w.bench.get(&limited, &format!("{PROJECT}/datasets")).await.json();
    assert_eq!(listed["datasets"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test]
async fn load_jobs_store_rows() {
    let w = Warehouse::start().await;
    let lines = "{\"n\": 1, \"s\": \"a\", \"tags\": [\"x\", \"y\"]}\n{\"n\": \"9007199254740993\"}\n";
    let answer = w.load(target("t", "WRITE_EMPTY"), "load_1", lines).await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    let job = w.resource("/jobs/load_1?location=US").await;
    assert_eq!(job["status"], json!({"state": "DONE"}));
    assert_eq!(job["configuration"]["jobType"], "LOAD");
    assert_eq!(job["statistics"]["load"]["outputRows"], "2");
    assert_eq!(job["statistics"]["load"]["badRecords"], "0");
    let data = w.resource("/datasets/loads/tables/t/data").await;
    assert_eq!(cells(&data, 0), ["1", "9007199254740993"]);
    assert_eq!(cells(&data, 2)[0], json!([{"v": "x"}, {"v": "y"}]));
    assert_eq!(w.resource("/datasets/loads/tables").await["totalItems"], 1);

    let again = error(&w.load(target("t", "WRITE_EMPTY"), "load_1", lines).await);
    assert_eq!((again.0, again.1.as_str()), (409, "duplicate"), "an id is used once");
    assert_eq!(w.load(target("t", "WRITE_EMPTY"), "load_2", lines).await.status, 200);
    let refused = w.resource("/jobs/load_2").await;
    assert_eq!(refused["status"]["errorResult"]["reason"], "duplicate", "the table isn't empty");
    w.load(target("t", "WRITE_APPEND"), "load_3", "{\"n\": 3}").await;
    assert_eq!(w.resource("/datasets/loads/tables/t").await["numRows"], "3");
    assert_eq!(w.rows("SELECT SUM(n) FROM loads.t WHERE n < 10").await["rows"][0]["f"][0]["v"], "4");

    for (id, lines, wanted) in [
        ("bad_1", "{\"n\": 4}\n{\"n\": \"x\"}\n", "Could not parse 'x' as INT64"),
        ("bad_2", "{\"n\": 4, \"q\": 1}", "No such field: q"),
        ("bad_3", "{\"s\": \"a\"}", "Missing required field: n"),
        ("bad_4", "{\"n\": 1, \"s\": [\"a\"]}", "Array specified for non-repeated field: s"),
        ("bad_5", "{\"n\": 1", "Parser terminated"),
    ] {
        w.load(target("t", "WRITE_APPEND"), id, lines).await;
        let job = w.resource(&format!("/jobs/{id}")).await;
        assert_eq!(job["status"]["errorResult"]["reason"], "invalid", "{id}");
        let errors = job["status"]["errors"].to_string();
        assert!(errors.contains(wanted), "{id}: {errors}");
        assert_eq!(job["statistics"]["load"]["outputRows"], "0", "all rows or none");
    }
    assert_eq!(w.resource("/datasets/loads/tables/t").await["numRows"], "3");

    let mut other = target("t", "WRITE_APPEND");
    other["schema"]["fields"][1]["type"] = json!("INTEGER");
    w.load(other, "schema_1", "{\"n\": 4}").await;
    let job = w.resource("/jobs/schema_1").await;
    let message = job["status"]["errorResult"]["message"].as_str().unwrap();
    assert!(message.contains("Field s has changed type from STRING to INTEGER"), "{message}");

    let mut shaped = target("shaped", "WRITE_EMPTY");
    shaped["timePartitioning"] = json!({"type": "DAY"});
    shaped["clustering"] = json!({"fields": ["s"]});
    w.load(shaped, "shaped_1", "{\"n\": 1}").await;
    let shaped = w.resource("/datasets/loads/tables/shaped").await;
    assert_eq!(shaped["timePartitioning"], json!({"type": "DAY"}));
    assert_eq!(shaped["clustering"], json!({"fields": ["s"]}));
    for (change, id) in [
        (json!({"destinationTable": {"datasetId": "loads", "tableId": "t$20260101"}}), "partition"),
        (json!({"jsonExtension": "GEOJSON"}), "geo"),
        (json!({"schemaUpdateOptions": ["ALLOW_FIELD_ADDITION"]}), "update"),
    ] {
        let mut load = target("t", "WRITE_APPEND");
        for (key, value) in change.as_object().unwrap() {
            load[key] = value.clone();
        }
        assert!(error(&w.load(load, id, "{\"n\": 1}").await).2.starts_with("sandbox: not supported"), "{id}");
    }
    let mut reserved = target("v", "WRITE_EMPTY");
    reserved["schema"]["fields"][1]["name"] = json!("_partition_day");
    w.load(reserved, "reserved", "{\"n\": 1}").await;
    let job = w.resource("/jobs/reserved").await;
    assert!(job["status"]["errorResult"]["message"].as_str().unwrap().contains("not allowed to start with"), "{job}");

    let mut closed = target("t", "WRITE_APPEND");
    closed["destinationTable"]["datasetId"] = json!("warehouse");
    assert_eq!(error(&w.load(closed, "closed", "{\"n\": 4}").await).1, "accessDenied");
    let mut guess = target("u", "WRITE_APPEND");
    guess["autodetect"] = json!(true);
    assert_eq!(error(&w.load(guess, "guess", "{\"n\": 4}").await).0, 400);
}

#[tokio::test]
async fn a_resumable_upload_comes_in_pieces() {
    let w = Warehouse::start().await;
    let bearer = format!("Bearer {}", w.token);
    let path = format!("/upload{PROJECT}/jobs?uploadType=resumable");
    let job = json!({"jobReference": {"projectId": "acp-sandbox", "jobId": "res"}, "configuration": {"load": target("r", "WRITE_EMPTY")}});
    let headers = [("Authorization", bearer.as_str()), ("X-Upload-Content-Type", "*/*")];
    let begun = send(w.bench.url(), "POST", &path, &headers, job.to_string().as_bytes()).await.unwrap();
    assert_eq!(begun.status, 200, "{}", text(&begun));
    let session = begun.header("location").unwrap().strip_prefix(w.bench.url()).unwrap().to_owned();
    let lines: String = (0..30_000).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    let piece = 256 * 1024;
    let put = async |range: String, bytes: &[u8]| {
        let headers = [("Authorization", bearer.as_str()), ("Content-Range", range.as_str())];
        send(w.bench.url(), "PUT", &session, &headers, bytes).await.unwrap()
    };
    let total = lines.len();
    let first = put(format!("bytes 0-{}/*", piece - 1), &lines.as_bytes()[..piece]).await;
    assert_eq!((first.status, first.header("range").unwrap()), (308, "bytes=0-262143"));
    assert_eq!(put(format!("bytes {piece}-{}/*", piece + 99), &lines.as_bytes()[piece..piece + 100]).await.status, 400);
    let asked = put(format!("bytes */{total}"), b"").await;
    assert_eq!((asked.status, asked.header("range").unwrap()), (308, "bytes=0-262143"), "how far it came");
    let last = put(format!("bytes {piece}-{}/{total}", total - 1), &lines.as_bytes()[piece..]).await;
    assert_eq!(last.status, 200, "{}", text(&last));
    assert_eq!(w.resource("/jobs/res").await["statistics"]["load"]["outputRows"], "30000");
}

#[tokio::test]
async fn a_dry_run_tells_types_bytes_and_tables() {
    let w = Warehouse::start().await;
    let statistics = w.dry_run("SELECT id, sku FROM `acp-sandbox.warehouse.bulk`").await;
    let query = &statistics["query"];
    assert_eq!(query["statementType"], "SELECT");
    assert_eq!(query["totalBytesProcessedAccuracy"], "PRECISE");
    assert_eq!(int(&query["totalBytesProcessed"]), 3_000_000 * (8 + 14), "two columns of all rows");
    assert_eq!(statistics["totalBytesProcessed"], query["totalBytesProcessed"]);
    assert_eq!(
        query["referencedTables"],
        json!([{"projectId": "acp-sandbox", "datasetId": "warehouse", "tableId": "bulk"}])
    );
    let names: Vec<&Value> = query["schema"]["fields"].as_array().unwrap().iter().map(|f| &f["name"]).collect();
    assert_eq!(names, ["id", "sku"]);

    let limited = w.dry_run("SELECT id, sku FROM warehouse.bulk LIMIT 1").await;
    assert_eq!(limited["totalBytesProcessed"], statistics["totalBytesProcessed"], "LIMIT reads as much");
    let nothing = w.dry_run("SELECT 1 AS one").await;
    assert_eq!(nothing["totalBytesProcessed"], "0");
    assert_eq!(nothing["query"]["totalBytesProcessedAccuracy"], "PRECISE");

    let accuracy = async |sql: &str| w.dry_run(sql).await["query"]["totalBytesProcessedAccuracy"].clone();
    assert_eq!(accuracy("SELECT name FROM warehouse.customers WHERE city = 'Wien'").await, "UPPER_BOUND");
    let external = w.dry_run("SELECT city FROM warehouse.access_logs").await;
    assert_eq!(external["query"]["totalBytesProcessedAccuracy"], "LOWER_BOUND");
    assert_eq!(external["totalBytesProcessed"], "0", "and yet it bills");
    let hidden = w.dry_run("SELECT name FROM warehouse.salaries").await;
    assert!(hidden.get("totalBytesProcessed").is_none() && hidden["query"].get("totalBytesProcessed").is_none());
    assert_eq!(hidden["rowLevelSecurityStatistics"]["rowLevelSecurityApplied"], true);

    let view = w.dry_run("SELECT city, orders FROM warehouse.orders_by_city").await;
    assert_eq!(view["query"]["referencedTables"][0]["tableId"], "order_lines", "the table behind the view");
    assert_eq!(view["query"]["referencedLogicalViews"][0]["tableId"], "orders_by_city");

    let day =
        |n: i64| format!("SELECT amount FROM warehouse.orders WHERE day >= DATE_SUB(CURRENT_DATE(), INTERVAL {n} DAY)");
    let (week, month) = (w.dry_run(&day(7)).await, w.dry_run(&day(60)).await);
    assert!(int(&week["totalBytesProcessed"]) < int(&month["totalBytesProcessed"]) / 2, "partitions are left out");

    let jobs = w.jobs();
    assert!(jobs.iter().all(|job| job.dry_run && job.bytes_billed == 0));
    w.set(json!({"estimate": {"bytes": 0, "accuracy": "UNKNOWN"}}));
    let unknown = w.dry_run("SELECT id FROM warehouse.bulk").await;
    assert_eq!(unknown["query"]["totalBytesProcessedAccuracy"], "UNKNOWN");
    assert_eq!(unknown["totalBytesProcessed"], "0");
}

#[tokio::test]
async fn what_is_wrong_is_said_as_bigquery_says_it() {
    let w = Warehouse::start().await;
    for (sql, code, reason, message) in [
        ("SELECT qqqq FROM warehouse.bulk", 400, "invalidQuery", "Unrecognized name: qqqq at [1:8]"),
        (
            "SELECT * FROM warehouse.nope",
            404,
            "notFound",
            "Not found: Table acp-sandbox:warehouse.nope was not found in location US",
        ),
        ("SELECT * FROM nope.t", 404, "notFound", "Not found: Dataset acp-sandbox:nope was not found in location US"),
        ("SELECT * FROM restricted.customers", 403, "accessDenied", "or perhaps it does not exist"),
        ("SELECT * FROM `elsewhere.d.t`", 403, "accessDenied", "or perhaps it does not exist"),
        (
            "SELECT amount FROM warehouse.orders",
            400,
            "invalidQuery",
            "without a filter over column(s) 'day' that can be used for partition elimination",
        ),
        ("SELECT * FROM warehouse.people", 403, "accessDenied", "does not have permission to access policy tag"),
        (
            "SELECT * FROM warehouse.targets_sheet",
            403,
            "accessDenied",
            "Permission denied while getting Drive credentials",
        ),
        ("SELECT * FROM warehouse.orders_legacy", 400, "invalidQuery", "legacy SQL view"),
        ("SELECT * FROM `sharding.visits_*`", 400, "invalidQuery", "Views cannot be queried through prefix"),
    ] {
        let refused = w.refusal(sql).await;
        assert_eq!((refused.0, refused.1.as_str()), (code, reason), "{sql}: {}", refused.2);
        assert!(refused.2.contains(message), "{sql}: {}", refused.2);
    }
    let both = "SELECT COUNT(*) FROM warehouse.bulk AS b JOIN searchconsole.ExportLog AS e ON TRUE";
    assert_eq!(w.refusal(both).await.1, "notFound", "two locations");
    let legacy = w.post("/jobs", &json!({"configuration": {"query": {"query": "SELECT 1"}}})).await;
    assert!(error(&legacy).2.contains("legacy SQL"), "the default of useLegacySql is true");
    let except = w.dry_run("SELECT * EXCEPT(salary) FROM warehouse.people").await;
    assert_eq!(except["query"]["schema"]["fields"].as_array().unwrap().len(), 2);
    let unknown = json!({"configuration": {"query": {"query": "SELECT 1", "useLegacySQL": false}}});
    assert!(error(&w.post("/jobs", &unknown).await).2.contains("Unknown name \"useLegacySQL\""));

    // Of a job that is run, the same is the end of the job.
    let (job, page) = w.run("SELECT nope FROM warehouse.bulk", json!({})).await;
    assert_eq!(job["status"]["errorResult"]["reason"], "invalidQuery");
    assert_eq!(job["status"]["errorResult"]["location"], "query");
    assert_eq!(error(&page).1, "invalidQuery");
    w.set(json!({"errors_at_insert": true}));
    assert_eq!(error(&w.insert("SELECT nope FROM warehouse.bulk", json!({})).await).1, "invalidQuery");
}

#[tokio::test]
async fn jobs_bill_whole_mebibytes_and_at_least_ten_a_table() {
    let w = Warehouse::start().await;
    let (job, page) = w.run("SELECT id, sku FROM warehouse.bulk LIMIT 3", json!({"labels": {"tool": "test"}})).await;
    assert_eq!(page.status, 200, "{}", text(&page));
    let query = &job["statistics"]["query"];
    let billed = int(&query["totalBytesBilled"]);
    assert_eq!(billed, (int(&query["totalBytesProcessed"]) + MIB - 1) / MIB * MIB);
    let two = "SELECT COUNTIF(a.n = b.n) FROM many.t_0001 AS a CROSS JOIN many.t_0002 AS b";
    let (job, _) = w.run(two, json!({})).await;
    assert_eq!(int(&job["statistics"]["query"]["totalBytesBilled"]), 20 * MIB, "two tables of eight bytes");

    let limit = json!({"query": {"maximumBytesBilled": "10485760"}});
    let (job, page) = w.run("SELECT id, sku FROM warehouse.bulk LIMIT 4", limit).await;
    let refused = error(&page);
    assert_eq!((refused.0, refused.1.as_str()), (500, "bytesBilledLimitExceeded"));
    assert_eq!(refused.2, format!("Query exceeded limit for bytes billed: 10485760. {billed} or higher required."));
    assert_eq!(job["status"]["errorResult"]["reason"], "bytesBilledLimitExceeded");
    let enough = json!({"query": {"maximumBytesBilled": billed.to_string()}});
    assert_eq!(w.run("SELECT id, sku FROM warehouse.bulk LIMIT 4", enough).await.1.status, 200);

    let ledger = w.jobs();
    assert_eq!(ledger.len(), 4);
    assert_eq!((ledger[0].bytes_billed, ledger[0].labels["tool"].as_str()), (billed, Some("test")));
    assert_eq!((ledger[2].bytes_billed, ledger[2].maximum_bytes_billed), (0, Some(10 * MIB)));
    assert_eq!(ledger[2].outcome, "bytesBilledLimitExceeded");
    let shown = send(w.bench.url(), "GET", "/__sandbox/ledger", &[], b"").await.unwrap().json();
    assert_eq!(shown["bigquery"].as_array().unwrap().len(), 4);
    assert_eq!(shown["bytes_billed"], 2 * billed + 20 * MIB);

    w.set(json!({"reservation": "projects/acp-sandbox/locations/US/reservations/flat"}));
    let (job, _) = w.run("SELECT id FROM warehouse.bulk_100k", json!({})).await;
    assert!(job["statistics"]["reservation_id"].is_string());
    assert_eq!(int(&job["statistics"]["query"]["totalBytesBilled"]), 10 * MIB, "informational");
    assert_eq!(w.jobs()[4].bytes_billed, 0, "nobody pays it");
}

#[tokio::test]
async fn an_earlier_result_costs_nothing() {
    let w = Warehouse::start().await;
    let sql = "SELECT COUNT(DISTINCT sku) FROM warehouse.bulk_100k";
    let hit = async |sql: &str, changes: Value| {
        let (job, page) = w.run(sql, changes).await;
        let query = &job["statistics"]["query"];
        (query["cacheHit"].as_bool().unwrap(), int(&query["totalBytesBilled"]), cells(&page.json(), 0))
    };
    let first = hit(sql, json!({})).await;
    assert_eq!((first.0, first.1), (false, 10 * MIB));
    assert_eq!(hit(sql, json!({})).await, (true, 0, first.2.clone()));
    assert!(!hit(sql, json!({"query": {"useQueryCache": false}})).await.0);
    assert!(!hit(&format!("{sql} -- again"), json!({})).await.0, "any other text is another query");
    let cached = w.insert(sql, json!({"dryRun": true})).await.json();
    assert_eq!(cached["statistics"]["query"]["cacheHit"], true);
    assert_eq!(cached["statistics"]["totalBytesProcessed"], "0");
    assert_ne!(w.dry_run(sql).await["totalBytesProcessed"], "0", "without the cache it tells the price");
    for never in ["SELECT COUNT(*) FROM `sharding.gaps_*` WHERE value > 0", "SELECT CURRENT_TIMESTAMP()"] {
        hit(never, json!({})).await;
        assert!(!hit(never, json!({})).await.0, "{never}");
    }
}

#[tokio::test]
async fn results_have_pages() {
    let w = Warehouse::start().await;
    w.set(json!({"page_bytes": 300_000}));
    let sql = "SELECT * FROM warehouse.customers";
    let inserted = w.insert(sql, json!({"jobReference": {"projectId": "acp-sandbox", "jobId": "mine"}})).await.json();
    assert_eq!(inserted["id"], "acp-sandbox:US.mine");
    assert_eq!(inserted["status"]["state"], "RUNNING");
    let reference = inserted["jobReference"].clone();
    let (mut ids, mut pages, mut token) = (Vec::new(), 0, String::new());
    loop {
        let page = w.page(&reference, &format!("&pageToken={token}")).await;
        assert!(page.body.len() < 301_000);
        let page = page.json();
        assert_eq!(page["totalRows"], "20000");
        ids.extend(cells(&page, 0).iter().map(int));
        pages += 1;
        match page["pageToken"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert!(ids.iter().enumerate().all(|(index, id)| index as i64 == *id), "in order");
    assert_eq!(ids.len(), 20_000);
    assert!(pages > 1);
    let some = w.page(&reference, "&maxResults=2&startIndex=5").await.json();
    assert_eq!(cells(&some, 0), ["5", "6"]);
    let none = w.page(&reference, "&maxResults=0").await.json();
    assert!(none.get("rows").is_none() && none["schema"]["fields"].as_array().unwrap().len() == 4);
    assert_eq!(error(&w.page(&reference, "&pageToken=rubbish").await).0, 400);

    let empty = w.rows("SELECT customer_id FROM warehouse.customers WHERE customer_id < 0").await;
    assert_eq!((empty["totalRows"].as_str(), empty.get("rows")), (Some("0"), None));
    assert_eq!(empty["schema"]["fields"][0]["name"], "customer_id", "no rows, and yet a schema");

    let quick = w.post("/queries", &json!({"query": "SELECT 1 AS a, 'x' AS b", "useLegacySql": false})).await.json();
    assert_eq!((&quick["jobComplete"], &quick["totalRows"]), (&json!(true), &json!("1")));
    assert_eq!(quick["rows"], json!([{"f": [{"v": "1"}, {"v": "x"}]}]));
    assert!(quick["jobReference"]["jobId"].is_string());
    let optional = json!({"query": "SELECT 1", "useLegacySql": false, "jobCreationMode": "JOB_CREATION_OPTIONAL"});
    let optional = w.post("/queries", &optional).await.json();
    assert!(optional.get("jobReference").is_none() && optional["queryId"].is_string());
}

#[tokio::test]
async fn a_job_is_found_where_it_runs() {
    let w = Warehouse::start().await;
    let inserted = w.insert("SELECT COUNT(*) FROM regional.customers", json!({})).await.json();
    let reference = &inserted["jobReference"];
    assert_eq!(reference["location"], "europe-west3", "where the data are");
    let id = reference["jobId"].as_str().unwrap();
    assert_eq!(w.page(reference, "").await.status, 200);
    for wrong in [format!("/queries/{id}"), format!("/jobs/{id}"), format!("/jobs/{id}?location=EU")] {
        let missing = error(&w.get(&wrong).await);
        assert_eq!((missing.0, missing.1.as_str()), (404, "notFound"), "{wrong}");
    }
    let elsewhere = json!({"dryRun": true, "jobReference": {"location": "EU"}});
    let missing = error(&w.insert("SELECT COUNT(*) FROM warehouse.bulk", elsewhere).await);
    assert_eq!(missing.2, "Not found: Dataset acp-sandbox:warehouse was not found in location EU");
    let eu = w.insert("SELECT COUNT(*) FROM searchconsole.ExportLog", json!({})).await.json();
    assert_eq!(eu["jobReference"]["location"], "EU");
    let id = eu["jobReference"]["jobId"].as_str().unwrap();
    assert_eq!(w.get(&format!("/queries/{id}")).await.status, 200, "US and EU are searched");

    w.set(json!({"global_queries": true}));
    let (job, page) = w
        .run(
            "SELECT COUNT(*) FROM warehouse.customers",
            json!({"jobReference": {"projectId": "acp-sandbox", "location": "EU"}}),
        )
        .await;
    assert_eq!(cells(&page.json(), 0), ["20000"]);
    assert_eq!(job["statistics"]["globalQueryRemoteRegions"], json!(["US"]));
}

#[tokio::test]
async fn a_job_runs_until_it_is_complete_or_cancelled() {
    let w = Warehouse::start().await;
    w.set(json!({"pending_polls": 2}));
    let sql = "SELECT COUNT(*) FROM warehouse.customers WHERE city = 'Wien'";
    let reference = w.insert(sql, json!({})).await.json()["jobReference"].clone();
    for _ in 0..2 {
        let waiting = w.page(&reference, "&timeoutMs=1").await.json();
        assert_eq!(waiting["jobComplete"], false);
        assert!(waiting.get("rows").is_none() && waiting.get("schema").is_none());
    }
    assert_eq!(w.jobs()[0].outcome, "DONE");
    assert_eq!(w.page(&reference, "").await.json()["jobComplete"], true);

    w.set(json!({"pending_polls": 1_000}));
    let reference = w.insert("SELECT SUM(id) FROM warehouse.bulk_100k", json!({})).await.json()["jobReference"].clone();
    assert_eq!(w.resource(&format!("/jobs/{}", place(&reference))).await["status"]["state"], "RUNNING");
    assert_eq!(w.jobs()[1].outcome, "RUNNING");
    let path = format!("/jobs/{}/cancel?location=US", reference["jobId"].as_str().unwrap());
    let cancelled = w.post(&path, &json!({})).await.json();
    assert_eq!(cancelled["kind"], "bigquery#jobCancelResponse");
    assert_eq!(cancelled["job"]["status"]["errorResult"]["reason"], "stopped");
    assert_eq!(error(&w.page(&reference, "").await).1, "stopped");
    let entry = &w.jobs()[1];
    assert_eq!(entry.outcome, "stopped");
    assert!(entry.bytes_billed > 0, "a cancelled job can cost");

    let timed = w.insert("SELECT MAX(id) FROM warehouse.bulk_100k", json!({"jobTimeoutMs": "1"})).await.json();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let over = error(&w.page(&timed["jobReference"], "").await);
    assert!(over.1 == "stopped" && over.2.contains("timed out"), "{over:?}");

    let waiting = w.post("/queries", &json!({"query": sql, "useLegacySql": false, "timeoutMs": 1})).await.json();
    assert_eq!(waiting["jobComplete"], false);
    assert!(waiting["jobReference"]["jobId"].is_string(), "{waiting}");
    let running = w.resource("/jobs?stateFilter=running").await;
    assert_eq!(running["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_insertion_may_be_lost_and_a_job_may_fail() {
    let w = Warehouse::start().await;
    w.set(json!({"lost_inserts": {"times": 1, "hidden_for": 2}}));
    let named = json!({"jobReference": {"projectId": "acp-sandbox", "jobId": "named"}});
    let lost = error(&w.insert("SELECT 1", named.clone()).await);
    assert_eq!((lost.0, lost.1.as_str()), (503, "backendError"));
    let again = error(&w.insert("SELECT 1", named.clone()).await);
    assert_eq!((again.0, again.1.as_str()), (409, "duplicate"));
    for _ in 0..2 {
        assert_eq!(w.get("/jobs/named?location=US").await.status, 404, "not found for a moment");
    }
    assert_eq!(w.resource("/jobs/named?location=US").await["status"]["state"], "DONE");
    assert_eq!(w.jobs().len(), 1, "one job, and one bill");

    w.set(json!({"refuse": {"reason": "quotaExceeded", "times": 1}}));
    let refused = error(&w.insert("SELECT 2", json!({})).await);
    assert_eq!((refused.0, refused.1.as_str()), (403, "quotaExceeded"));
    w.set(json!({"refuse": {"reason": "jobBackendError", "at": "job", "times": 1}}));
    let (job, page) = w.run("SELECT 3", json!({})).await;
    assert_eq!(job["status"]["errorResult"]["reason"], "jobBackendError");
    assert_eq!(error(&page).1, "jobBackendError");
    assert_eq!(w.run("SELECT 3", json!({})).await.1.status, 200, "only once");

    w.set(json!({"page_bytes": 2_000, "refuse": {"reason": "backendError", "at": "page", "times": 1}}));
    let (job, page) = w.run("SELECT * FROM warehouse.customers", json!({})).await;
    let token = page.json()["pageToken"].as_str().unwrap().to_owned();
    let reference = &job["jobReference"];
    let broken = error(&w.page(reference, &format!("&pageToken={token}")).await);
    assert_eq!((broken.0, broken.1.as_str()), (503, "backendError"));
    let job = w.resource(&format!("/jobs/{}", place(reference))).await;
    assert_eq!(job["status"]["errorResult"]["reason"], "backendError", "after paging began");

    w.set(json!({"forbid_jobs": true}));
    w.dry_run("SELECT 4").await;
    assert_eq!(error(&w.insert("SELECT 4", json!({})).await).1, "blocked");
    assert_eq!(w.bench.sandbox.bigquery().forbidden(), 1);
}

#[tokio::test]
async fn parameters_are_typed_texts() {
    let w = Warehouse::start().await;
    let ask = async |sql: &str, mode: &str, parameters: Value| {
        let query = json!({"query": {"parameterMode": mode, "queryParameters": parameters}});
        let (_, page) = w.run(sql, query).await;
        assert_eq!(page.status, 200, "{sql}: {}", text(&page));
        page.json()["rows"][0]["f"].clone()
    };
    let scalar = |name: &str, kind: &str, value: &str| json!({"name": name, "parameterType": {"type": kind}, "parameterValue": {"value": value}});
    let row = ask(
        "SELECT @n + 1, @s, @d",
        "NAMED",
        json!([
            scalar("n", "INT64", "9007199254740992"),
            scalar("s", "STRING", "x"),
            scalar("d", "DATE", "2026-01-02")
        ]),
    )
    .await;
    assert_eq!(row, json!([{"v": "9007199254740993"}, {"v": "x"}, {"v": "2026-01-02"}]));
    let list = json!([{
        "parameterType": {"type": "ARRAY", "arrayType": {"type": "INT64"}},
        "parameterValue": {"arrayValues": [{"value": "1"}, {"value": "2"}]},
    }]);
    assert_eq!(ask("SELECT COUNT(*) FROM UNNEST(?) AS x", "POSITIONAL", list).await, json!([{"v": "2"}]));
    let missing = w.dry_run("SELECT id FROM warehouse.bulk WHERE id = @wanted").await;
    assert_eq!(
        missing["query"]["undeclaredQueryParameters"],
        json!([{"name": "wanted", "parameterType": {"type": "INT64"}}])
    );
}

#[tokio::test]
async fn row_policies_let_some_rows_through() {
    let w = Warehouse::start().await;
    let (job, page) = w.run("SELECT DISTINCT city FROM warehouse.salaries", json!({})).await;
    assert_eq!(cells(&page.json(), 0), ["Berlin"]);
    assert!(page.json().get("totalBytesProcessed").is_none());
    let statistics = &job["statistics"];
    assert!(statistics.get("totalBytesProcessed").is_none() && statistics["query"].get("totalBytesBilled").is_none());
    assert_eq!(statistics["rowLevelSecurityStatistics"]["rowLevelSecurityApplied"], true);
    assert_eq!(w.jobs()[0].bytes_billed, 10 * MIB, "hidden, and yet paid");
}

#[tokio::test]
async fn sums_of_the_exports_are_those_of_the_reports() {
    let w = Warehouse::start().await;
    let export = &w.facts["ga4_export"];
    let dataset = export["dataset"].as_str().unwrap();
    let analytics = w.bench.token(false).await;
    let metrics = ["eventCount", "screenPageViews", "ecommercePurchases", "totalRevenue", "sessions"];
    let reported =
        w.bench.report(&analytics, export["property"].as_str().unwrap(), &report(&[], &metrics, json!({}))).await;
    let last = export["last"].as_str().unwrap();
    let sql = format!(
        "SELECT COUNT(*), COUNTIF(event_name = 'page_view'), COUNTIF(event_name = 'purchase'), \
         ROUND(SUM(ecommerce.purchase_revenue), 2), \
         COUNT(DISTINCT CONCAT(user_pseudo_id, '.', CAST((SELECT value.int_value FROM UNNEST(event_params) \
         WHERE key = 'ga_session_id') AS STRING))) \
         FROM `{dataset}.events_*` WHERE _TABLE_SUFFIX BETWEEN \
         FORMAT_DATE('%Y%m%d', DATE_SUB(DATE '{last}', INTERVAL 27 DAY)) AND '{}'",
        last.replace('-', "")
    );
    let rows = w.rows(&sql).await;
    for (index, metric) in metrics.iter().enumerate() {
        let exported: f64 = rows["rows"][0]["f"][index]["v"].as_str().unwrap().parse().unwrap();
        let wanted = numbers(&reported, "rows", index)[0];
        assert!((exported - wanted).abs() < 0.01, "{metric}: {exported}, not {wanted}");
    }

    let channel = "session_traffic_source_last_click.cross_channel_campaign.default_channel_group";
    let sql = format!(
        "SELECT {channel}, COUNT(*) FROM `{dataset}.events_*` WHERE event_name = 'session_start' AND _TABLE_SUFFIX BETWEEN \
         FORMAT_DATE('%Y%m%d', DATE_SUB(DATE '{last}', INTERVAL 27 DAY)) AND '{}' GROUP BY 1",
        last.replace('-', "")
    );
    let rows = w.rows(&sql).await;
    let exported: HashMap<String, i64> = cells(&rows, 0)
        .iter()
        .zip(cells(&rows, 1))
        .map(|(name, n)| (name.as_str().unwrap().to_owned(), int(&n)))
        .collect();
    let body = report(
        &["sessionDefaultChannelGroup"],
        &["eventCount"],
        json!({"dimensionFilter": {"filter": {"fieldName": "eventName", "stringFilter": {"value": "session_start"}}}}),
    );
    let reported = w.bench.report(&analytics, export["property"].as_str().unwrap(), &body).await;
    let names = client::column(&reported, "rows", "dimensionValues", 0);
    let counts = numbers(&reported, "rows", 0);
    assert!(names.len() > 5 && names.len() == exported.len());
    for (name, count) in names.iter().zip(counts) {
        assert_eq!(exported[name] as f64, count, "{name}");
    }

    let shop = &w.bench.facts["search_console"]["shop"][0];
    let (first, last) = (shop["first"].as_str().unwrap(), shop["last"].as_str().unwrap());
    let sql = format!(
        "SELECT SUM(clicks), SUM(impressions) FROM searchconsole.searchdata_site_impression \
         WHERE data_date BETWEEN '{first}' AND '{last}' AND search_type = 'WEB'"
    );
    let rows = w.rows(&sql).await;
    let cells: Vec<i64> = (0..2).map(|index| int(&rows["rows"][0]["f"][index]["v"])).collect();
    assert_eq!(cells[0], shop["clicks"].as_i64().unwrap(), "{shop}");
    assert_eq!(cells[1], shop["impressions"].as_i64().unwrap(), "{shop}");
}

#[tokio::test]
async fn names_of_every_kind_are_found() {
    let w = Warehouse::start().await;
    let first = async |sql: &str| w.rows(sql).await["rows"][0]["f"][0]["v"].clone();
    assert_eq!(first("SELECT COUNT(*) FROM `nordwind.example:archive.legacy.customers`").await, "20");
    assert_eq!(first("SELECT COUNT(*) FROM `nordwind-data.open.customers`").await, "100");
    assert_eq!(w.jobs()[1].project, "acp-sandbox", "paid where the job runs, not where the data are");
    assert_eq!(first("SELECT SUM(`a-b`) FROM warehouse.flexible_names").await, "-10");
    let default = json!({"query": {"defaultDataset": {"projectId": "nordwind-data", "datasetId": "open"}}});
    let (_, page) = w.run("SELECT COUNT(*) FROM customers", default).await;
    assert_eq!(cells(&page.json(), 0), ["100"]);

    assert_eq!(first("SELECT COUNT(*) FROM `sharding.gaps_*`").await, "3");
    let drifted = w.refusal("SELECT value FROM `sharding.drifted_*`").await;
    assert!(drifted.2.contains("of type STRING as INT64"), "{}", drifted.2);

    let export = &w.facts["ga4_export"];
    let (dataset, last) = (export["dataset"].as_str().unwrap(), export["last"].as_str().unwrap().replace('-', ""));
    let count = async |filter: String| {
        let sql = format!("SELECT COUNT(*) FROM `{dataset}.events_*` WHERE {filter}");
        int(&first(&sql).await)
    };
    let once = count(format!("_TABLE_SUFFIX BETWEEN '{last}' AND '{last}'")).await;
    let twice = count(format!("_TABLE_SUFFIX IN ('{last}', 'fresh_{last}')")).await;
    assert!(once > 100 && twice == 2 * once, "a day stands in two families: {once}, {twice}");
}

#[tokio::test]
async fn an_estimate_is_not_always_what_is_billed() {
    let w = Warehouse::start().await;
    let statistics = async |sql: &str| {
        let estimate = w.dry_run(sql).await;
        let (job, page) = w.run(sql, json!({})).await;
        assert_eq!(page.status, 200, "{}", text(&page));
        (int(&estimate["totalBytesProcessed"]), int(&job["statistics"]["query"]["totalBytesProcessed"]))
    };
    let (estimate, read) = statistics("SELECT name FROM warehouse.customers").await;
    assert!(read < estimate, "clusters are left out: {read} of {estimate}");
    let (estimate, read) = statistics("SELECT city FROM warehouse.access_logs").await;
    assert!(estimate == 0 && read > 0, "files are read: {read}");
    let limit = json!({"query": {"maximumBytesBilled": "10485759", "useQueryCache": false}});
    let (_, page) = w.run("SELECT city FROM warehouse.access_logs", limit).await;
    assert_eq!(error(&page).1, "bytesBilledLimitExceeded", "the limit holds whatever was estimated");

    w.set(json!({"estimate": {"bytes": 1, "processed": 1_000_000_000}}));
    let sql = "SELECT COUNTIF(a.n = b.n) FROM many.t_0001 AS a CROSS JOIN many.t_0002 AS b";
    let (job, _) = w.run(sql, json!({"query": {"maximumBytesBilled": "20971520"}})).await;
    assert_eq!(job["status"]["errorResult"]["reason"], "bytesBilledLimitExceeded");
    let (job, _) = w.run(sql, json!({})).await;
    let billed = (1_000_000_000 + MIB - 1) / MIB * MIB + MIB;
    assert_eq!(int(&job["statistics"]["query"]["totalBytesBilled"]), billed, "rounded up for each of two tables");
}

#[tokio::test]
async fn switches_are_set_over_http() {
    let w = Warehouse::start().await;
    let control = async |method: &str, body: Value| {
        send(w.bench.url(), method, "/__sandbox/bigquery", &[], body.to_string().as_bytes()).await.unwrap()
    };
    assert_eq!(control("POST", json!({"forbid_jobs": true})).await.status, 200);
    assert_eq!(w.insert("SELECT 1", json!({})).await.status, 403);
    assert_eq!(control("DELETE", json!({})).await.status, 200);
    assert_eq!(w.insert("SELECT 1", json!({})).await.status, 200);
    for wrong in [
        json!({"nope": 1}),
        json!({"refuse": {"reason": "nope"}}),
        json!({"estimate": {"accuracy": "nope"}}),
        json!({"lost_inserts": {"often": 1}}),
        json!([]),
    ] {
        assert_eq!(control("POST", wrong.clone()).await.status, 400, "{wrong}");
    }
    assert_eq!(send(w.bench.url(), "DELETE", "/__sandbox/ledger", &[], b"").await.unwrap().status, 200);
    assert!(w.jobs().is_empty());
}
