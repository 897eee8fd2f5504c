//! Loading: where it is allowed, whole, once, and never by guessing.

use serde_json::{Value, json};

use super::bench::{BigQuery, Bq, Google, PLENTY};

const TARGET: &str = "acp-sandbox.loads.new_table";

fn adding() -> Value {
    json!({"config": {"access_mode": "readAndOnlyAdd"}, "cost_limit_usd": PLENTY})
}

fn table(rows: usize) -> Value {
    let rows: Vec<Value> = (0..rows)
        .map(|index| {
            json!({"Día": format!("2026-09-{:02}", index % 28 + 1), "big": 9_007_199_254_740_993_i64 + index as i64, "price": 1.5,
                   "ok": index % 2 == 0, "at": "2026-09-01T10:00:00Z", "tags": ["a", "b"], "note": null})
        })
        .collect();
    json!({"headers": [
        {"name": "Día", "type": "date"}, {"name": "big", "type": "integer"}, {"name": "price", "type": "number"},
        {"name": "ok", "type": "boolean"}, {"name": "at", "type": "datetime"}, {"name": "tags", "type": "json"}, {"name": "note", "type": "string"},
    ], "format": "inline", "row_count": rows.len(), "table": rows})
}

/// Calls `load_rows` and hands over this table when it is asked for.
fn load(bq: &mut Bq, table: &Value, arguments: &Value, meta: &Value) -> super::bench::Answer {
    let mut arguments = arguments.clone();
    arguments["table_ref"] = json!("ds_1");
    arguments["resource_id"] = Value::Null;
    let id = bq.begin_call("load_rows", &arguments, meta);
    bq.hand_over(id, table);
    bq.answer(id, "load_rows", &arguments)
}

/// V-346, S-10.6-05: nothing is written unless a person allowed it.
#[test]
fn loading_is_off_unless_allowed() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let answer = load(&mut bq, &table(1), &json!({"destination": TARGET}), &json!({}));
    assert!(answer.refused(-32019).contains("access mode"));
    assert!(google.jobs().is_empty());
    // A rule opens one dataset.
    let rules =
        json!({"config": {"table_rules": r#"[{"pattern": "^acp-sandbox\\.loads\\.", "mode": "readAndOnlyAdd"}]"#}});
    load(&mut bq, &table(1), &json!({"destination": TARGET}), &rules).ok();
    load(&mut bq, &table(1), &json!({"destination": "acp-sandbox.loads_eu.x"}), &rules).refused(-32019);
    bq.end_well();
}

#[test]
fn rows_arrive_whole_typed_and_once() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let mut meta = adding();
    meta["call_id"] = json!("call-1");
    let arguments = json!({"destination": TARGET});
    let answer = load(&mut bq, &table(500), &arguments, &meta).ok().model();
    assert_eq!((&answer["loaded"], &answer["rows"]), (&json!(true), &json!(500)), "{answer}");
    let rows = bq.query(&format!("SELECT COUNT(*) AS n, MAX(big) AS big, MIN(D_a) AS day FROM `{TARGET}`")).ok().rows();
    assert_eq!(rows, [json!({"n": 500, "big": 9_007_199_254_740_993_i64 + 499, "day": "2026-09-01"})]);
    // The host repeats the call, since it did not get its answer: nothing is there twice.
    google.calm();
    let append = json!({"destination": TARGET, "mode": "append"});
    meta["call_id"] = json!("call-2");
    // The names of the columns are found again, as they were made.
    for _ in 0..2 {
        load(&mut bq, &table(3), &append, &meta).ok();
    }
    let count = bq.query(&format!("SELECT COUNT(*) AS n, 1 AS again FROM `{TARGET}`")).ok().rows();
    assert_eq!(count[0]["n"], 503);
    // A new table of that name is refused.
    load(&mut bq, &table(1), &arguments, &adding()).refused(-32017);
    bq.end_well();
}

/// What does not fit is listed before anything is sent.
#[test]
fn what_does_not_fit_is_listed_and_nothing_sent() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let rows = json!({"headers": [{"name": "a", "type": "string"}, {"name": "b", "type": "datetime"}], "format": "inline", "row_count": 3, "table": [
        {"a": "1", "b": "2026-09-01T10:00:00Z"}, {"a": "x", "b": "2026-09-01T10:00:00"}, {"a": "y", "b": "yesterday"}]});
    let arguments = json!({"destination": TARGET, "types": {"a": "INT64"}});
    let message = load(&mut bq, &rows, &arguments, &adding()).refused(-32017);
    for part in ["row 2, column \"a\"", "row 3, column \"a\"", "row 3, column \"b\"", "1 without"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(google.jobs().is_empty());
    bq.end_well();
}

#[test]
fn a_plan_loads_nothing() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let plan = load(&mut bq, &table(10), &json!({"destination": TARGET, "plan": true}), &json!({})).ok().model();
    assert_eq!((&plan["loaded"], &plan["would_load"], &plan["rows"]), (&json!(false), &json!(false), &json!(10)));
    assert!(plan["refused"].as_str().is_some_and(|text| text.contains("access_mode")), "{plan}");
    let kinds: Vec<&str> =
        plan["columns"].as_array().unwrap().iter().filter_map(|column| column["type"].as_str()).collect();
    assert_eq!(kinds, ["DATE", "INT64", "FLOAT64", "BOOL", "TIMESTAMP", "JSON", "STRING"]);
    assert!(google.jobs().is_empty());
    bq.end_well();
}

/// A confirmation that the settings want and the client can't ask for.
#[test]
fn without_a_person_to_ask_nothing_is_loaded() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let meta = json!({"config": {"access_mode": "readAndOnlyAdd", "confirm_loads": true}});
    let message = load(&mut bq, &table(1), &json!({"destination": TARGET}), &meta).refused(-32019);
    assert!(message.contains("confirmation"), "{message}");
    assert!(google.jobs().is_empty());
    bq.end_well();
}

/// A client that can ask a person.
fn with_a_person(google: &Google) -> Bq {
    Bq::start_with(google, &json!({"elicitation": {}}), &[])
}

/// `load_rows` with a confirmation; gives what the person was asked, if they were.
fn confirmed(bq: &mut Bq, destination: &str, config: &Value, reply: &Value) -> (Option<Value>, super::bench::Answer) {
    let arguments = json!({"table_ref": "ds_1", "destination": destination, "resource_id": null});
    let id = bq.begin_call("load_rows", &arguments, &json!({"config": config}));
    bq.hand_over(id, &table(3));
    let asked = bq.reply(id, "elicitation/create", reply);
    (asked, bq.answer(id, "load_rows", &arguments))
}

/// A person is asked before anything is sent, and only a yes is one. Never instead of what the settings forbid.
#[test]
fn a_person_decides_where_the_settings_want_it() {
    let google = Google::start();
    let mut bq = with_a_person(&google);
    let config = json!({"access_mode": "readAndOnlyAdd", "confirm_loads": true});
    for reply in [json!({"action": "decline"}), json!({"action": "cancel"}), json!({"action": "perhaps"})] {
        let (asked, answer) = confirmed(&mut bq, TARGET, &config, &reply);
        let question = asked.expect("a question")["message"].as_str().expect("a text").to_owned();
        assert!(
            question.contains("3 rows") && question.contains("a new table acp-sandbox.loads.new_table"),
            "{question}"
        );
        let message = answer.refused(-32019);
        assert!(message.contains("did not agree") && message.contains("Do not try again"), "{message}");
        assert!(google.asked("/upload/bigquery/v2/projects/acp-sandbox/jobs").is_empty() && google.jobs().is_empty());
    }
    let (asked, answer) = confirmed(&mut bq, TARGET, &config, &json!({"action": "accept", "content": {}}));
    assert!(asked.is_some());
    assert_eq!(answer.ok().model()["loaded"], true);
    // What is forbidden is not asked about.
    for forbidden in [json!({"confirm_loads": true}), json!({"access_mode": "onlyRead", "confirm_loads": true})] {
        let (asked, answer) = confirmed(&mut bq, "acp-sandbox.loads.other", &forbidden, &json!({"action": "accept"}));
        assert_eq!(asked, None);
        answer.refused(-32019);
    }
    // Without the setting nobody is asked.
    let (asked, answer) = confirmed(
        &mut bq,
        "acp-sandbox.loads.other",
        &json!({"access_mode": "readAndOnlyAdd"}),
        &json!({"action": "decline"}),
    );
    assert_eq!((asked, &answer.ok().model()["loaded"]), (None, &json!(true)));
    assert_eq!(google.jobs().len(), 2);
    bq.end_well();
}

/// A table of the host as a file, larger than a part of an upload.
fn by_file(bq: &Bq, rows: usize) -> Value {
    let filler = "x".repeat(200);
    let rows: Vec<Value> = (0..rows).map(|n| json!({"n": n, "text": format!("{n} {filler}")})).collect();
    let path = bq.root().join("tmp/host.json");
    std::fs::write(&path, json!(rows).to_string()).expect("a file");
    let uri = url::Url::from_file_path(&path).expect("an address");
    json!({"headers": [{"name": "n", "type": "integer"}, {"name": "text", "type": "string"}], "format": "file",
        "row_count": rows.len(), "table_uri": uri.as_str()})
}

/// An upload that breaks goes on where it broke, and nothing is there twice.
#[test]
fn an_upload_that_breaks_goes_on_where_it_broke() {
    const ROWS: usize = 60_000;
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (number, (nth, action)) in [
        (1, json!("reset")),
        (2, json!("reset")),
        (2, json!({"status": {"code": 503, "body": "{}"}})),
        (2, json!({"cut_after_bytes": 0})),
    ]
    .into_iter()
    .enumerate()
    {
        google.calm();
        google.fault(&json!({"method": "PUT", "path": "^/upload/", "nth": nth, "times": 1, "action": action}));
        let target = format!("acp-sandbox.loads.broken_{number}");
        // The file is the server's to remove once it has read it.
        let table = by_file(&bq, ROWS);
        let answer = load(&mut bq, &table, &json!({"destination": target}), &adding()).ok().model();
        assert_eq!((&answer["loaded"], &answer["rows"]), (&json!(true), &json!(ROWS)), "{action}: {answer}");
        let sent = google.sandbox().log().iter().filter(|request| request.method == "PUT").count();
        assert!((3..=5).contains(&sent), "{action}: {sent} parts");
        let sql = format!("SELECT COUNT(*) AS n, COUNT(DISTINCT n) AS different, MAX(n) AS last FROM `{target}`");
        assert_eq!(bq.query(&sql).ok().rows(), [json!({"n": ROWS, "different": ROWS, "last": ROWS - 1})], "{action}");
    }
    assert_eq!(google.jobs().iter().filter(|job| job.kind == "LOAD").count(), 4, "one job for each");
    bq.end_well();
}

/// An upload that breaks for good loads nothing; the same call, again, loads all of it.
#[test]
fn an_upload_that_never_arrives_is_an_error() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    google.fault(&json!({"method": "PUT", "path": "^/upload/", "times": 99, "action": "reset"}));
    let message = load(&mut bq, &table(5), &json!({"destination": TARGET}), &adding()).refused(-32018);
    assert!(message.contains("call load_rows again with the same arguments"), "{message}");
    assert!(google.jobs().is_empty());
    google.calm();
    load(&mut bq, &table(5), &json!({"destination": TARGET}), &adding()).ok();
    bq.end_well();
}

/// The answer to the last part is lost: the job is found and is the answer, whether at once or by the call that the host repeats.
#[test]
fn a_load_whose_answer_is_lost_is_found() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let mut meta = adding();
    for (hidden, found) in [(1, true), (1000, false)] {
        let target = format!("acp-sandbox.loads.lost_{hidden}");
        meta["call_id"] = json!(target);
        google.switch(&json!({"lost_inserts": {"times": 1, "hidden_for": hidden}}));
        let answer = load(&mut bq, &table(5), &json!({"destination": target}), &meta);
        if found {
            assert_eq!(answer.ok().model()["loaded"], true);
        } else {
            let message = answer.refused(-32018);
            assert!(message.contains("may have worked") && message.contains("loads nothing twice"), "{message}");
        }
        assert_eq!(bq.query(&format!("SELECT COUNT(*) AS n FROM `{target}`")).ok().rows(), [json!({"n": 5})]);
    }
    assert_eq!(google.jobs().iter().filter(|job| job.kind == "LOAD").count(), 2);
    bq.end_well();
}

/// A load that is cancelled while BigQuery works on it: its job is cancelled too.
#[test]
fn a_cancelled_load_cancels_its_job() {
    let google = Google::start();
    google.switch(&json!({"pending_polls": 1_000_000}));
    let mut bq = Bq::start(&google);
    let arguments = json!({"table_ref": "ds_1", "destination": TARGET, "resource_id": null});
    let id = bq.begin_call("load_rows", &arguments, &adding());
    bq.hand_over(id, &table(5));
    super::bench::until("the job", || !google.jobs().is_empty());
    bq.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    super::bench::until("the cancel", || google.jobs()[0].outcome == "stopped");
    bq.assert_alive("a cancelled load");
    bq.end_well();
}

/// What BigQuery refuses is told in its words, and the same rows may be tried again.
#[test]
fn a_load_that_failed_can_be_tried_again() {
    let google = Google::start();
    google.switch(&json!({"refuse": {"reason": "invalid", "message": "Row 3 is too long.", "times": 1, "at": "job"}}));
    let mut bq = Bq::start(&google);
    let mut meta = adding();
    meta["call_id"] = json!("call-1");
    let message = load(&mut bq, &table(5), &json!({"destination": TARGET}), &meta).refused(-32017);
    assert!(message.contains("loaded nothing") && message.contains("Row 3 is too long"), "{message}");
    let answer = load(&mut bq, &table(5), &json!({"destination": TARGET}), &meta).ok().model();
    assert_eq!(answer["loaded"], true);
    let jobs = google.jobs();
    assert!(jobs.len() == 2 && jobs[0].job_id != jobs[1].job_id, "{jobs:?}");
    bq.end_well();
}
