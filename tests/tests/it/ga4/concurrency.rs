//! Many calls on one connection, and calls that nobody wants any more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bench::{Ga4, Google, PATIENCE, day_of};
use crate::google::raw::{self, RawGoogle};
use crate::google::source::{GA4, report_page as page};

/// Rows by the hundred thousand.
fn bulk(google: &Google, days: i64) -> Value {
    let property = google.property("bulk");
    json!({
        "resource_id": property["id"], "metrics": ["eventCount"], "dimensions": ["customEvent:item_id"],
        "start_date": day_of(property, days), "end_date": day_of(property, 1),
    })
}

/// V-370: each call has its own limits, credentials and question, and gets its own answer.
#[test]
fn twenty_calls_at_once_are_answered_each() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let dimensions = ["date", "country", "deviceCategory", "eventName", "sessionDefaultChannelGroup"];
    let mut expected: HashMap<&str, Vec<Value>> = HashMap::new();
    for dimension in dimensions {
        let answer = ga4.report(&json!({"metrics": ["eventCount"], "dimensions": [dimension]})).ok();
        expected.insert(dimension, answer.rows());
    }
    google.calm();
    let credentials = [google.another("limited", 1), google.another("oauth", 2)];
    let calls: Vec<(u64, Value, usize, &str)> = (0..20)
        .map(|number| {
            let dimension = dimensions[number % dimensions.len()];
            let arguments = json!({"metrics": ["eventCount"], "dimensions": [dimension]});
            let row_limit = number % 7;
            let meta = json!({"credentials": credentials[number % 2], "row_limit": row_limit, "call_id": format!("call {number}")});
            (ga4.begin_call("run_report", &arguments, &meta), arguments, row_limit, dimension)
        })
        .collect();
    // The last is waited for first: answers come in any order.
    for (id, arguments, row_limit, dimension) in calls.into_iter().rev() {
        let answer = ga4.answer(id, "run_report", &arguments).ok();
        assert_eq!(answer.info()["row_limit"], row_limit);
        assert_eq!(answer.model()["returned_rows"], row_limit.min(expected[dimension].len()));
        assert_eq!(answer.rows(), expected[dimension], "{dimension}");
    }
    assert_eq!(google.asked("/token").len(), 2, "one exchange for each identity: {:?}", google.sandbox().log());
    assert_eq!(google.asked("/metadata").len(), 2, "one list of fields for each identity");
    assert_eq!(google.reports(), 20);
    ga4.end_well();
}

/// A token that everybody uses ends: one renewal serves all who wait.
#[test]
fn a_token_that_ends_under_many_calls_is_renewed_once() {
    let google = Google::with_latency(Duration::from_millis(50));
    let mut ga4 = Ga4::start(&google);
    let arguments = json!({"metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    ga4.report(&arguments).ok();
    google.calm();
    // The first to arrive kills the token; the others that carry it are refused as well.
    google.fault(&json!({"path": ":runReport$", "action": "expire_token"}));
    let ids: Vec<u64> = (0..8).map(|_| ga4.begin_call("run_report", &arguments, &json!({}))).collect();
    for id in ids {
        ga4.answer(id, "run_report", &arguments).ok();
    }
    assert_eq!(google.asked("/token").len(), 1, "{:?}", google.sandbox().log());
}

/// Google allows ten requests at a time on a property; four is what one process takes of them.
#[test]
fn no_more_than_four_requests_are_open_on_a_property() {
    let google = Google::with_latency(Duration::from_millis(100));
    let mut ga4 = Ga4::start(&google);
    let dated = json!({"metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    ga4.report(&dated).ok();
    google.calm();
    let ids: Vec<u64> = (0..16).map(|_| ga4.begin_call("run_report", &dated, &json!({}))).collect();
    for id in ids {
        ga4.answer(id, "run_report", &dated).ok();
    }
    let most = google.sandbox().max_in_flight();
    assert!((2..=4).contains(&most), "{most} reports at once");

    // Blocks and pages count as well.
    google.calm();
    let blocks = ga4.call("autocontext", &json!({"request_data": ["sessions_by_channel", "sessions_by_device", "sessions_by_country", "top_events", "top_landing_pages", "content_groups"]}), &json!({})).ok();
    assert!(blocks.model().as_array().expect("blocks").iter().all(|block| block.get("error").is_none()));
    let most = google.sandbox().max_in_flight();
    assert!((2..=4).contains(&most), "{most} blocks at once");

    google.calm();
    let many = bulk(&google, 12);
    let ids: Vec<u64> = (0..3).map(|_| ga4.begin_call("run_report", &many, &json!({}))).collect();
    for id in ids {
        assert_eq!(ga4.wait(id, PATIENCE).ok().model()["total_rows"], 300_000);
    }
    let data = google.sandbox().max_in_flight();
    // The first question about a property also asks for its fields and zone.
    assert!(data <= 5, "{data} pages at once");
}

/// Somebody who waits for one property does not wait for another.
#[test]
fn a_slow_property_does_not_hold_up_others() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let (main, slice) = (google.id("main").to_owned(), google.id("slice").to_owned());
    let dated = |id: &str| json!({"resource_id": id, "metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    for id in [&main, &slice] {
        ga4.report(&dated(id)).ok();
    }
    google.fault(&json!({"path": format!("{main}:runReport$"), "times": 99, "action": {"delay_ms": 2500}}));
    let slow: Vec<u64> = (0..5).map(|_| ga4.begin_call("run_report", &dated(&main), &json!({}))).collect();
    let started = Instant::now();
    ga4.report(&dated(&slice)).ok();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    for id in slow {
        ga4.wait(id, PATIENCE).ok();
    }
}

/// Waits until something is written, or panics.
fn until_a_file(ga4: &mut Ga4) {
    let started = Instant::now();
    while ga4.files("tmp").is_empty() {
        assert!(started.elapsed() < PATIENCE, "no table appears");
        let early = ga4.listen(Duration::from_millis(10));
        assert!(early.iter().all(|message| message.json.get("method").is_some()), "answered early: {early:?}");
    }
}

#[test]
fn a_cancelled_extraction_stops_and_cleans_up() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    // 120 days are three million rows: far more than the test waits for.
    let many = bulk(&google, 120);
    let id = ga4.begin_call("run_report", &many, &json!({}));
    until_a_file(&mut ga4);
    ga4.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}}));
    let heard = ga4.listen(Duration::from_millis(700));
    assert!(heard.is_empty(), "there is no answer to a cancelled call: {heard:?}");
    assert_eq!(ga4.files("tmp"), Vec::<std::path::PathBuf>::new(), "the table of a cancelled call");
    let asked = google.reports();
    let heard = ga4.listen(Duration::from_millis(1500));
    assert!(heard.is_empty(), "{heard:?}");
    assert_eq!(google.reports(), asked, "Google is asked for more pages");
    assert!(asked <= 4, "{asked} pages");

    // What is left works, on the same property too: no place in the line is lost.
    for _ in 0..5 {
        let id = ga4.begin_call("run_report", &many, &json!({}));
        ga4.listen(Duration::from_millis(60));
        ga4.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    let mut short = bulk(&google, 1);
    short["limit"] = json!(10);
    assert_eq!(ga4.report(&short).ok().model()["total_rows"], 10);
    // A call that never was, and one that has ended.
    for id in [json!(99_999), json!("x"), json!(1)] {
        ga4.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    ga4.assert_alive("cancellations of nothing");
    ga4.end_well();
}

/// A call that waits for Google, not for rows, can be cancelled as well.
#[test]
fn a_call_that_waits_for_an_answer_can_be_cancelled() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let arguments = json!({"metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    ga4.report(&arguments).ok();
    google.calm();
    google.fault(&json!({"path": ":runReport$", "times": 4, "action": {"delay_ms": 4000}}));
    let waiting: Vec<u64> = (0..4).map(|_| ga4.begin_call("run_report", &arguments, &json!({}))).collect();
    ga4.listen(Duration::from_millis(200));
    for id in waiting {
        ga4.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    let started = Instant::now();
    ga4.report(&arguments).ok();
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "the cancelled calls still hold their places: {:?}",
        started.elapsed()
    );
}

/// MCP: progress grows, knows the whole after the first page, and belongs to its call.
#[test]
fn progress_grows_while_rows_arrive() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let id = ga4.begin_call_with_progress("run_report", &bulk(&google, 24), &json!({}));
    let quiet = ga4.begin_call("run_report", &json!({"metrics": ["sessions"]}), &json!({}));
    let answer = ga4.wait(id, PATIENCE).ok();
    ga4.wait(quiet, PATIENCE).ok();
    assert_eq!(answer.model()["total_rows"], 600_000);
    let heard = ga4.listen(Duration::from_millis(300));
    let progress: Vec<&Value> = heard
        .iter()
        .filter(|message| message.json["method"] == "notifications/progress")
        .map(|message| &message.json["params"])
        .collect();
    assert!(progress.len() >= 3, "{progress:?}");
    assert!(progress.iter().all(|one| one["progressToken"] == id), "{progress:?}");
    let done: Vec<f64> = progress.iter().filter_map(|one| one["progress"].as_f64()).collect();
    assert!(done.windows(2).all(|pair| pair[0] < pair[1]), "{done:?}");
    assert!(done.iter().all(|done| *done <= 600_000.0));
    assert_eq!(progress.last().and_then(|last| last["total"].as_f64()), Some(600_000.0), "{progress:?}");
}

#[test]
fn the_process_ends_with_its_input_also_in_the_middle() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    ga4.begin_call("run_report", &bulk(&google, 120), &json!({}));
    until_a_file(&mut ga4);
    let ended = ga4.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.took < Duration::from_secs(10));
    let left = crate::rules::files_below(&ended.root.path().join("tmp"));
    // Either the table was finished and its answer written, or nothing may be left.
    let delivered = ended.stdout.contains("table_uri");
    assert_eq!(left.len(), usize::from(delivered), "{left:?}");

    // While it waits for an answer that does not come.
    let mut ga4 = Ga4::start(&google);
    let arguments = json!({"metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    google.fault(&json!({"path": ":runReport$", "times": 9, "action": {"delay_ms": 60_000}}));
    ga4.begin_call("run_report", &arguments, &json!({}));
    ga4.listen(Duration::from_millis(500));
    let ended = ga4.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(crate::rules::files_below(&ended.root.path().join("tmp")).is_empty());
}

/// A page that was fetched ahead waits in a bounded buffer and keeps one of the four places of its property. When all
/// four are kept like that, the pages before them, which broke off and have to be asked for again, must still get one.
#[test]
fn pages_fetched_ahead_do_not_lock_out_the_pages_before_them() {
    let filler = "x".repeat(1 << 20);
    let sandbox = Google::start();
    let google = RawGoogle::start(&GA4, &sandbox, move |_, body| match body["offset"].as_u64().unwrap_or(0) {
        // Page 1 is short, and 600,000 rows are announced: page 2 is asked for, and page 3 ahead of it.
        0 => raw::ok(&page(0..10, 600_000)),
        10 => {
            std::thread::sleep(Duration::from_millis(300));
            let headers = "Content-Type: application/json\r\nContent-Length: 100000\r\n";
            raw::framed(200, headers, &page(10..12, 600_000).to_string().as_bytes()[..150])
        }
        // The rest of page 2 is nothing, which ends the call.
        1..250_000 => raw::ok(&page(0..0, 600_000)),
        _ => {
            let row = json!({"dimensionValues": [{"value": filler}], "metricValues": [{"value": "1"}]});
            raw::ok(&json!({"rows": vec![row; 32], "rowCount": 600_000}))
        }
    });
    let mut ga4 = Ga4::start_with(&sandbox, &[("ACP_GOOGLE_SANDBOX", &google.url)], None);
    let meta = json!({"credentials": raw::credentials(&sandbox)});
    let arguments = json!({"metrics": ["sessions"], "dimensions": ["country"], "start_date": "2026-09-01", "end_date": "2026-09-02"});
    let ids: Vec<u64> = (0..4).map(|_| ga4.begin_call("run_report", &arguments, &meta)).collect();
    for id in ids {
        ga4.wait(id, Duration::from_secs(20)).refused(-32018);
    }
}

/// Calls share one exchange and one list of fields. When the call that asked for them is cancelled, the others go on.
#[test]
fn a_cancelled_call_does_not_take_those_with_it_that_wait_for_the_same() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let dated = json!({"metrics": ["sessions"], "start_date": google.day(3), "end_date": google.day(1)});
    for (number, path) in ["^/token$", "/metadata$"].into_iter().enumerate() {
        google.calm();
        google.fault(&json!({"path": path, "action": {"delay_ms": 1500}}));
        let meta = json!({"credentials": google.another("full", number)});
        let first = ga4.begin_call("run_report", &dated, &meta);
        ga4.listen(Duration::from_millis(200));
        let others: Vec<u64> = (0..3).map(|_| ga4.begin_call("run_report", &dated, &meta)).collect();
        ga4.listen(Duration::from_millis(200));
        ga4.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}}));
        for id in others {
            ga4.answer(id, "run_report", &dated).ok();
        }
        assert!(google.asked(path.trim_matches(['^', '$'])).len() <= 2, "{path}: {:?}", google.sandbox().log());
    }
}

/// Memory holds pages, not tables: six times the rows must not take more of it.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_rows() {
    let google = Google::start();
    let mut ga4 = Ga4::start(&google);
    let mut peak_of = |days: i64| {
        let id = ga4.begin_call("run_report", &bulk(&google, days), &json!({}));
        ga4.wait(id, PATIENCE).ok();
        ga4.peak_memory()
    };
    let (few, many) = (peak_of(4), peak_of(24));
    assert!(many < few + (48 << 20), "{} MiB for 100,000 rows, {} MiB for 600,000", few >> 20, many >> 20);
    assert!(many < 160 << 20, "{} MiB", many >> 20);
}
