//! What people reported about other tools for BigQuery and no other suite shows: `docs/complaints.md` says which is which.

use serde_json::{Value, json};

use super::bench::{ANALYTICS, BigQuery, Bq, Google, PLENTY, WAREHOUSE};

fn spend() -> Value {
    json!({"cost_limit_usd": PLENTY})
}

/// thirteen small tables are billed with 10 MiB each. The cap is the budget, so a rich one runs them all, and one that
/// only covers the bytes is refused by BigQuery, without a bill.
#[test]
fn many_small_tables_fail_above_the_budget_only() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let each: Vec<String> = (0..13).map(|n| format!("SELECT n FROM `acp-sandbox.many.t_{n:04}`")).collect();
    let sql = each.join(" UNION ALL ");
    let answer = bq.query_with(&sql, &json!({"cost_limit_usd": 0.0001}));
    answer.refused(-32010);
    assert_eq!(google.jobs().iter().map(|job| job.bytes_billed).sum::<i64>(), 0);
    let answer = bq.query(&sql).ok();
    assert_eq!(answer.data()["row_count"], 13);
    assert_eq!(answer.info()["source"]["total_bytes_billed"], 13 * (10 << 20));
    bq.end_well();
}

/// no number where there is none, and an upper bound is called one.
#[test]
fn an_estimate_says_how_good_it_is() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let clustered = json!({"query": "SELECT name FROM customers WHERE city = 'Wien'"});
    let model = bq.call("validate_query", &clustered, &spend()).ok().model();
    assert_eq!((&model["accuracy"], &model["would_run"]), (&json!("UPPER_BOUND"), &json!(true)), "{model}");
    google.switch(&json!({"estimate": {"bytes": 0, "accuracy": "UNKNOWN"}}));
    let model = bq.call("validate_query", &clustered, &spend()).ok().model();
    assert_eq!((&model["accuracy"], &model["would_run"]), (&json!("UNKNOWN"), &json!(false)), "{model}");
    assert!(!model["unestimable"].as_array().expect("reasons").is_empty(), "{model}");
    bq.query("SELECT name FROM customers").refused(-32010);
    assert!(google.jobs().is_empty());
    bq.end_well();
}

/// what is dry-run is what runs: the same text, in the same place, and always first.
#[test]
fn what_is_estimated_is_what_runs() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (resource, sql) in [
        (WAREHOUSE, "  SELECT city -- a comment\n FROM order_lines LIMIT 3 ".to_owned()),
        ("acp-sandbox.regional", "SELECT name FROM customers LIMIT 3".to_owned()),
        (
            ANALYTICS,
            format!("SELECT COUNT(DISTINCT event_name) AS n FROM `{ANALYTICS}.events_*` WHERE _TABLE_SUFFIX > '2026'"),
        ),
    ] {
        google.sandbox().bigquery().clear_jobs();
        bq.call("execute_query", &json!({"resource_id": resource, "query": sql}), &spend()).ok();
        let all = google.sandbox().bigquery().jobs();
        assert_eq!(all.iter().map(|job| job.dry_run).collect::<Vec<_>>(), [true, false], "{sql}");
        assert_eq!((&all[0].query, &all[0].location), (&all[1].query, &all[1].location), "{sql}");
        assert!(all[1].maximum_bytes_billed.is_some_and(|cap| cap > 0), "{sql}");
    }
    bq.end_well();
}

/// outside of US and EU a job is only found with its location: it is always given, and said.
#[test]
fn a_job_in_a_region_of_its_own_is_found() {
    let google = Google::start();
    google.switch(&json!({"pending_polls": 2}));
    let mut bq = Bq::start(&google);
    let arguments = json!({"resource_id": "acp-sandbox.regional", "query": "SELECT name FROM customers"});
    let answer = bq.call("execute_query", &arguments, &spend()).ok();
    let source = &answer.info()["source"];
    assert_eq!((&answer.data()["row_count"], &source["location"]), (&json!(50), &json!("europe-west3")));
    let id = format!("europe-west3.{}", source["job_id"].as_str().expect("an id"));
    let again = bq.call("get_job", &json!({"job_id": id}), &json!({})).ok();
    assert_eq!(again.data()["row_count"], 50);
    bq.end_well();
}

/// data of one project, paid by another, and the job is looked for where it was made.
#[test]
fn data_of_another_project_is_paid_by_ones_own() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let arguments = json!({"resource_id": "nordwind-data.open", "query": "SELECT name FROM customers"});
    let answer = bq.call("execute_query", &arguments, &spend()).ok();
    assert_eq!(answer.info()["source"]["billing_project"], "acp-sandbox");
    assert!(google.sandbox().bigquery().jobs().iter().all(|job| job.project == "acp-sandbox"));
    let described = bq
        .call("describe_table", &json!({"resource_id": "nordwind-data.open", "table": "customers"}), &json!({}))
        .ok()
        .model();
    assert!(described.to_string().contains("since"), "{described}");
    bq.end_well();
}

/// a name that comes twice never hides a value.
#[test]
fn names_that_come_twice_lose_nothing() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let message = bq.query("SELECT 1 AS a, 2 AS a").refused(-32017);
    assert!(message.to_lowercase().contains("duplicate column names"), "{message}");
    let answer = bq.query("SELECT 1, 2, [STRUCT(1 AS a, 2 AS a)] AS s").ok();
    assert_eq!(answer.rows(), [json!({"f0_": 1, "f1_": 2, "s": [{"a": 1, "a_1": 2}]})]);
    bq.end_well();
}

/// a query looks at no list, and runs also where the dataset itself may not be looked at.
#[test]
fn a_query_needs_no_lists() {
    let google = Google::start();
    google.fault(&json!({"path": "/datasets/warehouse$", "times": 99, "action": crate::google::source::listed_error(403, "accessDenied", "Access Denied: Permission bigquery.datasets.get denied.")}));
    let mut bq = Bq::start(&google);
    bq.query("SELECT city FROM order_lines").ok();
    let log = google.sandbox().log();
    let lists = ["/projects", "/datasets", "/tables", "/jobs"];
    assert!(
        log.iter().all(|request| request.method != "GET" || !lists.iter().any(|list| request.path.ends_with(list))),
        "{log:?}"
    );
    bq.end_well();
}

/// views are read like tables, and what they read is what is estimated.
#[test]
fn views_are_read_like_tables() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let sql = "SELECT SUM(orders) AS orders FROM orders_by_city";
    let answer = bq.query(sql).ok();
    assert_eq!(answer.rows(), [json!({"orders": 1200})]);
    let model = bq.call("validate_query", &json!({"query": sql}), &spend()).ok().model();
    assert!(model["referenced_tables"].to_string().contains("order_lines"), "{model}");
    bq.end_well();
}

/// a preview is no query, so a required filter does not refuse it; where it can't be, it says why.
#[test]
fn previews_work_where_queries_want_a_filter() {
    let google = Google::start();
    google.switch(&json!({"forbid_jobs": true}));
    let mut bq = Bq::start(&google);
    let allowed = json!({"config": {"allow_preview": true}});
    let answer = bq.call("preview_table", &json!({"table": "orders", "limit": 5}), &allowed).ok();
    assert_eq!(answer.data()["row_count"], 5);
    let (code, message) = bq.call("preview_table", &json!({"table": "salaries"}), &allowed).error().expect("an error");
    assert!(code == -32014 && message.contains("row access polic"), "{code} {message}");
    assert_eq!(google.sandbox().bigquery().forbidden(), 0);
    bq.end_well();
}

/// 1,200 tables: all of them are counted, each can be described, and the list stays small.
#[test]
fn tables_beyond_a_page_exist() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let many = "acp-sandbox.many";
    let described =
        bq.call("describe_table", &json!({"resource_id": many, "table": "t_1199"}), &json!({})).ok().model();
    assert!(described.to_string().contains("t_1199"), "{described}");
    let arguments = json!({"resource_id": many, "request_data": ["tables"]});
    let tables = bq.call("autocontext", &arguments, &json!({})).ok().model().to_string();
    assert!(
        tables.contains("1200") || tables.contains("1,200") || tables.matches("many.t_").count() == 1200,
        "{tables:.2000}"
    );
    assert!(tables.chars().count() < 32_000, "{}", tables.len());
    let message = bq
        .call("execute_query", &json!({"resource_id": many, "query": "SELECT n FROM t_119"}), &spend())
        .refused(-32014);
    assert!(message.contains("Similar names: t_11"), "{message}");
    bq.end_well();
}

/// dated copies are no shards, a view in the family is told, and a family has the columns of its last day.
#[test]
fn families_of_tables_are_what_they_are() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let blocks = bq.call("autocontext", &json!({"resource_id": "acp-sandbox.sharding"}), &json!({})).ok().model();
    let blocks = blocks.as_array().expect("blocks");
    let tables = blocks.iter().find(|block| block["id"] == "tables").expect("tables")["data"].to_string();
    assert!(!tables.contains("sharding.report_*") && tables.contains("sharding.report"), "{tables}");
    assert!(tables.contains("sharding.drifted_*"), "{tables}");
    let described = bq
        .call("describe_table", &json!({"resource_id": "acp-sandbox.sharding", "table": "drifted_*"}), &json!({}))
        .ok()
        .model();
    assert!(described.to_string().contains("INTEGER"), "{described}");
    let sql = "SELECT value FROM `acp-sandbox.sharding.visits_*`";
    let (code, message) = bq.query(sql).error().expect("views have no wildcard");
    assert!(code == -32017 && message.contains("visits_latest"), "{code} {message}");
    bq.end_well();
}

/// no rows still have columns.
#[test]
fn no_rows_still_have_columns() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for sql in ["SELECT * FROM empty_table", "SELECT * FROM order_lines WHERE city = 'nowhere'"] {
        let answer = bq.query(sql).ok();
        assert_eq!(answer.data()["row_count"], 0);
        let headers = answer.data()["headers"].as_array().expect("headers");
        let names: Vec<&str> = headers.iter().filter_map(|header| header["name"].as_str()).collect();
        assert_eq!(names, ["day", "order_id", "city", "amount", "ordered_at", "lines"], "{sql}");
    }
    bq.end_well();
}

/// columns have the types of their headers, nothing is guessed and nothing streamed row by row; a list goes
/// into a text as the JSON it is.
#[test]
fn loading_guesses_nothing() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let meta = json!({"cost_limit_usd": PLENTY, "config": {"access_mode": "readAndOnlyAdd"}});
    let load = |bq: &mut Bq, table: &Value, arguments: Value| {
        let id = bq.begin_call("load_rows", &arguments, &meta);
        bq.hand_over(id, table);
        bq.answer(id, "load_rows", &arguments)
    };
    let target = "acp-sandbox.loads.texts";
    let texts = json!({"headers": [{"name": "code", "type": "string"}, {"name": "blob", "type": "string"}], "format": "inline", "row_count": 3,
        "table": [{"code": "0123", "blob": "aGVsbG8="}, {"code": "1e5", "blob": null}, {"code": "2026-09-01", "blob": ""}]});
    let arguments = json!({"table_ref": "ds_1", "destination": target, "resource_id": null});
    load(&mut bq, &texts, arguments).ok();
    let described = google.ask("GET", "/bigquery/v2/projects/acp-sandbox/datasets/loads/tables/texts", "");
    let described: Value = serde_json::from_str(&described).expect("a table");
    let kinds: Vec<&str> = described["schema"]["fields"]
        .as_array()
        .expect("fields")
        .iter()
        .filter_map(|field| field["type"].as_str())
        .collect();
    assert_eq!(kinds, ["STRING", "STRING"]);
    let rows = bq.query(&format!("SELECT code, blob FROM `{target}` ORDER BY code")).ok().rows();
    assert_eq!(
        rows,
        [
            json!({"code": "0123", "blob": "aGVsbG8="}),
            json!({"code": "1e5", "blob": null}),
            json!({"code": "2026-09-01", "blob": ""})
        ]
    );
    let lists = json!({"headers": [{"name": "code", "type": "json"}], "format": "inline", "row_count": 1, "table": [{"code": ["a", "b"]}]});
    let append = json!({"table_ref": "ds_2", "destination": target, "mode": "append", "resource_id": null});
    load(&mut bq, &lists, append).ok();
    let rows = bq.query(&format!("SELECT code FROM `{target}` WHERE STARTS_WITH(code, '[')")).ok().rows();
    assert_eq!(rows, [json!({"code": "[\"a\",\"b\"]"})]);
    assert!(google.sandbox().log().iter().all(|request| !request.path.ends_with("/insertAll")));
    assert_eq!(google.jobs().iter().filter(|job| job.kind == "LOAD").count(), 2);
    bq.end_well();
}
