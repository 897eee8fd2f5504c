//! What happens to jobs: waiting, cancelling, lost answers, results that are read again.

use serde_json::{Value, json};

use super::bench::{BigQuery, Bq, Google, PLENTY, until};

fn spend() -> Value {
    json!({"cost_limit_usd": PLENTY})
}

/// A job whose every look takes long, so that it is still running when something happens to its call.
fn slow(google: &Google) {
    google.switch(&json!({"pending_polls": 1_000_000}));
    google.fault(&json!({"path": "/queries/", "times": 1_000_000, "action": {"delay_ms": 50}}));
}

fn cancels(google: &Google) -> usize {
    google.sandbox().log().into_iter().filter(|request| request.path.ends_with("/cancel")).count()
}

#[test]
fn a_job_that_is_not_done_is_waited_for() {
    let google = Google::start();
    google.switch(&json!({"pending_polls": 3}));
    let mut bq = Bq::start(&google);
    let answer = bq.query("SELECT city FROM order_lines").ok();
    assert_eq!(answer.data()["row_count"], 1200);
    bq.end_well();
}

#[test]
fn a_cancelled_call_cancels_its_job() {
    let google = Google::start();
    slow(&google);
    let mut bq = Bq::start(&google);
    let id = bq.begin_call("execute_query", &json!({"query": "SELECT city FROM order_lines"}), &spend());
    until("the job", || !google.jobs().is_empty());
    bq.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    until("the cancel", || cancels(&google) == 1);
    bq.assert_alive("a cancelled query");
    bq.end_well();
}

/// The host goes away: the job is cancelled before the process ends.
#[test]
fn the_end_of_input_cancels_the_job() {
    let google = Google::start();
    slow(&google);
    let mut bq = Bq::start(&google);
    bq.begin_call("execute_query", &json!({"query": "SELECT city FROM order_lines"}), &spend());
    until("the job", || !google.jobs().is_empty());
    let ended = bq.into_inner().end();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(cancels(&google), 1, "{}", ended.stderr);
}

/// Somebody ends the process: the same, and the log says what the job came to.
#[cfg(unix)]
#[test]
fn a_signal_cancels_the_job_and_its_cost_is_logged() {
    let google = Google::start();
    slow(&google);
    let mut bq = Bq::start_with(&google, &json!({}), &[("ACP_LOG", "info")]);
    bq.begin_call("execute_query", &json!({"query": "SELECT city FROM order_lines"}), &spend());
    until("the job", || !google.jobs().is_empty());
    let ended = bq.into_inner().terminate();
    assert_eq!(cancels(&google), 1, "{}", ended.stderr);
    let job = &google.jobs()[0];
    assert_eq!(job.outcome, "stopped");
    assert!(ended.stderr.contains(&job.job_id), "{}", ended.stderr);
    assert!(job.bytes_billed > 0 && ended.stderr.contains(&job.bytes_billed.to_string()), "{}", ended.stderr);
}

#[test]
fn a_job_that_takes_too_long_is_cancelled_and_named() {
    let google = Google::start();
    google.switch(&json!({"refuse": {"reason": "timeout", "message": "Operation timed out after 1.0 seconds", "times": 1, "at": "job"}}));
    let mut bq = Bq::start(&google);
    let message = bq.query("SELECT city FROM order_lines").refused(-32018);
    assert!(message.contains("timeout_s") && message.contains("timed out"), "{message}");
    bq.end_well();
}

/// A page that does not come: the error names the job, and its rows are read without paying again.
#[test]
fn an_answer_that_was_lost_is_read_again_without_paying() {
    let google = Google::start();
    google.switch(&json!({"page_bytes": 20_000}));
    let mut bq = Bq::start(&google);
    google
        .fault(&json!({"path": "/queries/", "nth": 3, "times": 10, "action": {"status": {"code": 503, "body": "{}"}}}));
    let answer = bq.query("SELECT * FROM order_lines");
    let message = answer.refused(-32018);
    let job = answer.acp()["error"]["data"]["job_id"].as_str().expect("a job").to_owned();
    assert!(message.contains("get_job") && message.contains(&job), "{message}");
    google.calm();
    let billed: i64 = google.jobs().iter().map(|job| job.bytes_billed).sum();
    let again = bq.call("get_job", &json!({"job_id": job}), &json!({"cost_limit_usd": 0})).ok();
    assert_eq!(again.data()["row_count"], 1200);
    assert_eq!(again.info()["cost_actual_usd"], 0);
    assert_eq!(google.jobs().iter().map(|job| job.bytes_billed).sum::<i64>(), billed);
    assert_eq!(google.jobs().len(), 1);
    let message = bq.call("get_job", &json!({"job_id": "acp_none"}), &json!({})).refused(-32014);
    assert!(message.contains("location"), "{message}");
    bq.end_well();
}

/// The answer to an insertion is lost, the job is there, and is not found at once.
#[test]
fn a_lost_insertion_is_adopted() {
    let google = Google::start();
    google.switch(&json!({"lost_inserts": {"times": 1, "hidden_for": 2}}));
    let mut bq = Bq::start(&google);
    let answer = bq.query("SELECT city FROM order_lines").ok();
    assert_eq!(answer.data()["row_count"], 1200);
    assert_eq!(google.jobs().len(), 1, "nothing ran twice");
    bq.end_well();
}

/// A job that fails inside BigQuery is tried once more, under another id.
#[test]
fn a_job_that_failed_inside_bigquery_is_tried_once_more() {
    let google = Google::start();
    google.switch(
        &json!({"refuse": {"reason": "backendError", "message": "An internal error", "times": 1, "at": "job"}}),
    );
    let mut bq = Bq::start(&google);
    bq.query("SELECT city FROM order_lines").ok();
    let jobs = google.jobs();
    assert_eq!(jobs.len(), 2);
    assert_ne!(jobs[0].job_id, jobs[1].job_id);
    google.switch(
        &json!({"refuse": {"reason": "backendError", "message": "An internal error", "times": 9, "at": "job"}}),
    );
    bq.query("SELECT day FROM order_lines").refused(-32018);
    assert_eq!(google.jobs().len(), 4);
    bq.end_well();
}

/// The cap is reached although the estimate was below it: Google says so with a 500, which is not tried again.
#[test]
fn a_reached_cap_is_a_cost_error_and_not_retried() {
    let google = Google::start();
    google.switch(&json!({"estimate": {"bytes": 20_000_000, "accuracy": "PRECISE", "processed": 500_000_000_000_i64}}));
    let mut bq = Bq::start(&google);
    let answer = bq.query_with("SELECT city FROM order_lines", &json!({"cost_limit_usd": 0.01}));
    let message = answer.refused(-32010);
    assert!(message.contains("or higher required") && message.contains("raise the limit"), "{message}");
    assert_eq!(google.jobs().len(), 1);
    assert!(google.jobs().iter().all(|job| job.bytes_billed == 0));
    bq.end_well();
}

/// From now on no job ever ends, as far as its results tell.
fn never_done(google: &Google) {
    let answer = json!({"kind": "bigquery#getQueryResultsResponse", "jobComplete": false});
    let action = json!({"status": {"code": 200, "body": answer.to_string()}});
    google.fault(&json!({"path": "/queries/", "times": 1_000_000, "action": action}));
    google.fault(&json!({"path": "/queries/", "times": 1_000_000, "action": {"delay_ms": 300}}));
}

/// BigQuery's own bound is asked for, and not relied on.
#[test]
fn a_job_that_does_not_end_at_its_bound_is_cancelled() {
    let google = Google::start();
    never_done(&google);
    let mut bq = Bq::start(&google);
    let answer = bq.call(
        "execute_query",
        &json!({"query": "SELECT city FROM order_lines"}),
        &json!({"cost_limit_usd": PLENTY, "config": {"timeout_s": 1}}),
    );
    let message = answer.refused(-32018);
    assert!(message.contains("did not end within 1 s") && message.contains("timeout_s"), "{message}");
    assert!(answer.acp()["error"]["data"]["job_id"].is_string(), "{}", answer.text);
    assert_eq!(cancels(&google), 1);
    bq.end_well();
}

/// A job of before that does not end is not waited for without end.
#[test]
fn a_job_that_still_runs_is_said_to() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let job = bq.query("SELECT city FROM order_lines").ok().info()["source"]["job_id"].clone();
    never_done(&google);
    let meta = json!({"config": {"timeout_s": 1}});
    let answer = bq.call("get_job", &json!({"job_id": job}), &meta);
    assert!(answer.refused(-32018).contains("Call get_job again"), "{}", answer.text);
    assert!(answer.acp()["error"]["data"]["job_id"].as_str().is_some_and(|id| id.contains(job.as_str().unwrap())));
    bq.end_well();
}
