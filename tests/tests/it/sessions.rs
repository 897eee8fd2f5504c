//! Sessions over time: several calls in flight, cancellation, progress, restarts and the end of input.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{Server, Setup, Transport};

const QUIET: Duration = Duration::from_millis(700);

fn key(name: &str) -> Value {
    json!({"type": "api_key", "api_key": name})
}

fn cancel(server: &mut Server, id: &Value) {
    server.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "a test"},
    }));
}

/// A slow call that asks for progress under a token.
fn begin_slow(server: &mut Server, seconds: f64, token: &Value) -> Value {
    server.begin(
        "tools/call",
        json!({"name": "slow", "arguments": {"seconds": seconds}, "_meta": {"progressToken": token}}),
    )
}

#[test]
fn v_352_configuration_lives_as_long_as_the_process() {
    for transport in Transport::BOTH {
        let mut server = Setup::toy("V-352 [S-3.2-04]").over(transport).start();
        let limit = |server: &mut Server| {
            server.request("acp/configure", json!({})).json["result"]["effective"]["row_limit"].clone()
        };
        server.request("acp/configure", json!({"row_limit": 9}));
        for _ in 0..100 {
            let answer = server.call("peek", json!({}), Value::Null);
            assert_eq!(answer.json["result"]["_meta"]["acp"]["system_info"]["row_limit"], 9, "V-352");
        }
        assert_eq!(limit(&mut server), 9, "V-352");
        let mut server = server.restart(|setup| setup);
        assert_eq!(limit(&mut server), 25, "V-352");
        server.finish_well();
    }
}

#[test]
fn v_370_calls_in_flight_do_not_mix() {
    for transport in Transport::BOTH {
        let mut server = Setup::toy("V-370 [S-X-11, S-3.3-04]").over(transport).start();
        let calls: Vec<Value> = (0..20)
            .map(|place: u64| {
                let credentials = key(if place.is_multiple_of(2) { "KEY-A-CANARY-1" } else { "KEY-B-CANARY-2" });
                let meta = json!({"call_id": format!("c{place}"), "row_limit": place, "credentials": credentials});
                server.begin_call("rows", &json!({"resource_id": "acc_7", "n": 100 + place}), &meta)
            })
            .collect();
        for (place, id) in calls.iter().enumerate() {
            let answer = server.answer_of_call(id, "rows").json;
            let acp = &answer["result"]["_meta"]["acp"];
            assert_eq!(acp["system_info"]["row_limit"], place, "V-370");
            assert_eq!(acp["system_info"]["returned_rows"], place, "V-370");
            assert_eq!(acp["system_data"]["row_count"], 100 + place, "V-370");
        }
        let lists: Vec<(Value, u64)> = (0..20)
            .map(|place: u64| {
                let (name, total) =
                    if place.is_multiple_of(2) { ("KEY-A-CANARY-1", 142) } else { ("KEY-B-CANARY-2", 3) };
                (server.begin_call("autocontext", &json!({}), &json!({"credentials": key(name)})), total)
            })
            .collect();
        for (id, total) in lists {
            let answer = server.answer_of_call(&id, "autocontext").json;
            let text = answer["result"]["content"][0]["text"].as_str().expect("text");
            let model: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(model["total_available"], total, "V-370 [S-10.1-05]");
        }
        let peek = server.call("peek", json!({}), Value::Null).json;
        let text = peek["result"]["content"][0]["text"].as_str().expect("text");
        assert!(text.contains("\"list\":2"), "[S-6.3-07] one listing for each key, also at once: {text}");
        server.finish_well();
    }
}

#[test]
fn equal_blocks_at_once_are_fetched_once() {
    let mut server = Setup::toy("[S-7.4-01] equal calls in flight").start();
    let meta = json!({"credentials": key("KEY-A-CANARY-1")});
    let arguments = json!({"resource_id": "acc_1"});
    let ids: Vec<Value> = (0..20).map(|_| server.begin_call("autocontext", &arguments, &meta)).collect();
    for id in ids {
        server.answer_of_call(&id, "autocontext");
    }
    let peek = server.call("peek", json!({}), Value::Null).text;
    assert!(peek.contains(r#"\"blocks\":3"#), "[S-7.4-01] {peek}");
    server.finish_well();
}

#[test]
fn equal_calls_in_flight_both_have_their_table() {
    let mut server = Setup::toy("[S-X-11] equal calls in flight").start();
    let arguments = json!({"rows_json": "[{\"a\":1},{\"a\":2}]"});
    let ids: Vec<Value> = (0..30).map(|_| server.begin_call("raw", &arguments, &json!({}))).collect();
    for id in ids.iter().rev() {
        let answer = server.answer_of_call(id, "raw");
        assert_eq!(answer.json["result"]["_meta"]["acp"]["system_data"]["table"], json!([{"a": 1}, {"a": 2}]));
    }
    server.finish_well();
}

#[test]
fn slow_calls_do_not_hold_up_others() {
    let mut server = Setup::toy("[S-12.3-01] concurrency").start();
    let started = Instant::now();
    let slow: Vec<Value> = (0..5).map(|_| begin_slow(&mut server, 2.0, &Value::Null)).collect();
    server.request("ping", json!({}));
    server.call("peek", json!({}), Value::Null);
    assert!(started.elapsed() < Duration::from_millis(1800), "{:?}", started.elapsed());
    for id in slow {
        server.answer_of_call(&id, "slow");
    }
    assert!(started.elapsed() < Duration::from_secs(8), "one after the other: {:?}", started.elapsed());
    server.finish_well();
}

#[test]
fn progress_is_told_to_who_asks_and_grows() {
    let mut server = Setup::toy("[S-12.3-01] progress").start();
    for token in [json!("t"), json!(7)] {
        let id = begin_slow(&mut server, 1.5, &token);
        let (mut told, mut last) = (0, -1.0);
        loop {
            let message = server.next().json;
            if message["id"] == id {
                break;
            }
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], token);
            let now = message["params"]["progress"].as_f64().expect("a number");
            assert!(now > last, "progress must grow: {last}, then {now}");
            assert!(now <= message["params"]["total"].as_f64().expect("a total"));
            (told, last) = (told + 1, now);
        }
        assert!((2..=10).contains(&told), "a few times a second, not {told} in 1.5 s");
    }
    let id = server.begin_call("slow", &json!({"seconds": 0.6}), &Value::Null);
    assert_eq!(server.next().json["id"], id, "nobody asked for progress");
    server.finish_well();
}

#[test]
fn a_cancelled_call_ends_without_an_answer() {
    let mut server = Setup::toy("[S-12.3-01] cancellation").start();
    let id = begin_slow(&mut server, 30.0, &json!("t"));
    server.wait_for("progress", |message| message.json["method"] == "notifications/progress");
    cancel(&mut server, &id);
    server.call("peek", json!({}), Value::Null);
    // What was on its way may still come; then it is quiet.
    while server.next_within(Duration::from_millis(50)).is_some() {}
    let late = server.next_within(QUIET);
    assert!(late.is_none(), "after cancellation came {late:?}");
    let answer = server.call("slow", json!({"seconds": 0}), Value::Null);
    assert_eq!(answer.json["result"]["isError"], Value::Null);
    let started = Instant::now();
    let unclaimed = server.finish_well().unclaimed;
    assert!(unclaimed.is_empty(), "{unclaimed:?}");
    assert!(started.elapsed() < Duration::from_secs(3), "the cancelled call still ran");
}

#[test]
fn cancelling_one_of_two_equal_calls_leaves_the_other() {
    let mut server = Setup::toy("[S-12.3-01] cancellation of one of two").start();
    let first = server.begin_call("slow", &json!({"seconds": 0.5}), &Value::Null);
    let second = server.begin_call("slow", &json!({"seconds": 0.5}), &Value::Null);
    cancel(&mut server, &first);
    // Twice, and with an id of another type.
    cancel(&mut server, &first);
    cancel(&mut server, &json!(second.to_string()));
    server.answer_of_call(&second, "slow");
    let late = server.next_within(QUIET);
    assert!(late.is_none(), "the cancelled call answered: {late:?}");
    server.finish_well();
}

#[test]
fn cancellation_after_the_answer_does_nothing() {
    let mut server = Setup::toy("[S-12.3-01] late cancellation").start();
    let id = server.begin_call("peek", &json!({}), &Value::Null);
    server.answer_of_call(&id, "peek");
    cancel(&mut server, &id);
    server.call("raw", json!({"rows_json": "[{\"a\":1}]"}), json!({}));
    server.finish_well();
}

#[test]
fn the_end_of_input_ends_the_server_while_a_call_runs() {
    let mut server = Setup::toy("[S-3.3-02] end of input during a call").start();
    begin_slow(&mut server, 0.3, &Value::Null);
    server.request("ping", json!({}));
    let answers = server.finish_well().unclaimed;
    assert!(answers.len() <= 1, "{answers:?}");
    let mut server = Setup::toy("[S-3.3-02] end of input during a long call").start();
    begin_slow(&mut server, 60.0, &Value::Null);
    server.request("ping", json!({}));
    server.finish_well();
}

#[test]
fn what_was_asked_before_the_end_of_input_is_answered() {
    let mut server = Setup::toy("[S-3.3-02] end of input after many requests").start();
    for _ in 0..50 {
        server.begin("ping", json!({}));
        server.begin_call("peek", &json!({}), &Value::Null);
    }
    assert_eq!(server.finish_well().unclaimed.len(), 100);
}

#[test]
fn logs_go_to_stderr() {
    let mut server = Setup::toy("V-351 [S-3.2-03]").variable("ACP_LOG", "debug").start();
    server.call("boom", json!({"kind": "panic"}), Value::Null);
    let stderr = server.finish_well().stderr;
    assert!(stderr.contains("panicked"), "V-351: {stderr}");
    let mut server = Setup::toy("[S-3.2-03] a filter that can't be read").variable("ACP_LOG", "===,,[[").start();
    server.call("peek", json!({}), Value::Null);
    server.finish_well();
}

#[test]
fn two_requests_with_one_id_do_not_break_the_session() {
    let mut server = Setup::toy("[S-2-01] an id in use").start();
    let call = json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": {
        "name": "raw", "arguments": {"rows_json": "[{\"a\":1}]"}, "_meta": {"acp": {}},
    }});
    server.send(&call);
    server.send(&call);
    for _ in 0..2 {
        let answer = server.answer(&json!("same")).json;
        let refused = answer["error"]["code"] == -32600;
        let table = &answer["result"]["_meta"]["acp"]["system_data"]["table"];
        assert!(refused || *table == json!([{"a": 1}]), "{answer}");
    }
    server.call("peek", json!({}), Value::Null);
    // Afterwards the id is free again.
    server.send(&call);
    let answer = server.answer(&json!("same")).json;
    assert_eq!(answer["result"]["_meta"]["acp"]["system_data"]["table"], json!([{"a": 1}]));
    server.finish_well();
}

#[test]
fn settings_are_in_force_for_the_calls_that_follow_them() {
    let mut server = Setup::toy("[S-5.1-10] a call right behind its configuration").start();
    for round in 0..50 {
        let configured = server.begin("acp/configure", json!({"row_limit": round}));
        let called = server.begin_call("peek", &json!({}), &Value::Null);
        let answer = server.answer_of_call(&called, "peek").json;
        let limit = &answer["result"]["_meta"]["acp"]["system_info"]["row_limit"];
        assert_eq!(*limit, round, "the call was sent after acp/configure and did not see it");
        server.answer(&configured);
    }
    server.finish_well();
}

#[test]
fn a_cancelled_call_does_not_take_the_block_from_the_others() {
    let mut server = Setup::toy("[S-7.4-01] cancellation of the call that fetches").start();
    let meta = json!({"credentials": key("KEY-A-CANARY-1")});
    let arguments = json!({"resource_id": "acc_20"});
    let first = server.begin_call("autocontext", &arguments, &meta);
    server.request("ping", json!({}));
    let others: Vec<Value> = (0..3).map(|_| server.begin_call("autocontext", &arguments, &meta)).collect();
    server.request("ping", json!({}));
    cancel(&mut server, &first);
    for id in others {
        let answer = server.answer_of_call(&id, "autocontext").text;
        assert!(answer.contains("acc_20 is fine."), "{answer}");
    }
    server.finish_well();
}

#[test]
fn parallel_first_calls_attach_autocontext_once() {
    let mut server = Setup::toy("[S-7.5-08] parallel first calls").start();
    let meta = json!({"credentials": key("KEY-A-CANARY-1"), "session_id": "s"});
    let arguments = json!({"resource_id": "acc_20", "n": 1});
    let calls: Vec<Value> = (0..8).map(|_| server.begin_call("rows", &arguments, &meta)).collect();
    let attached = calls.iter().filter(|id| {
        let answer = server.answer_of_call(id, "rows").json;
        answer["result"]["_meta"]["acp"]["system_info"]["autocontext_attached"] == true
    });
    assert_eq!(attached.count(), 1, "a model that calls in parallel pays for the same text each time");
    server.finish_well();
}
