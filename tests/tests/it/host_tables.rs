//! Tables of the host over time: calls in flight, cancelled calls, hosts that don't answer, and large tables.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::Host;
use crate::rules::files_below;
use crate::server::{Message, Server, Setup, Transport, acp_client, call_params};

const QUIET: Duration = Duration::from_millis(400);

fn start(title: &str) -> Server {
    setup(title).start()
}

fn setup(title: &str) -> Setup {
    let mut client = acp_client();
    client["host_tables"] = json!(true);
    Setup::toy(title).client(Some(client))
}

fn table(rows: Value) -> Value {
    let count = rows.as_array().expect("rows").len();
    json!({"format": "inline", "row_count": count, "headers": [{"name": "a", "type": "integer"}], "table": rows})
}

fn copy(server: &mut Server, reference: &str, call_id: &str) -> Value {
    server.begin_call("copy_table", &json!({"table_ref": reference}), &json!({"call_id": call_id}))
}

fn reply(server: &mut Server, request: &Message, result: &Value) {
    server.send(&json!({"jsonrpc": "2.0", "id": request.json["id"], "result": result}));
}

fn cancel(server: &mut Server, id: &Value) {
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
}

/// Calls `copy_table` while a host answers.
fn copied(server: &mut Server, reference: &str, meta: &Value, host: &mut Host) -> Message {
    let call = call_params("copy_table", &json!({"table_ref": reference}), meta);
    let id = server.begin("tools/call", call.clone());
    let answer = server.answer_with(&id, host, &call).and_then(|answer| {
        server.check_answer(&answer, "copy_table")?;
        Ok(answer)
    });
    answer.unwrap_or_else(|problem| panic!("{}: {problem}", server.title()))
}

#[test]
fn v_276_two_calls_each_have_their_own_rows() {
    for transport in Transport::BOTH {
        let mut server = setup("V-276 [S-8.8-09]").over(transport).start();
        let first = copy(&mut server, "r1", "c1");
        let second = copy(&mut server, "r2", "c2");
        let requests = [server.next_request(), server.next_request()];
        let of = |reference: &str| {
            requests
                .iter()
                .find(|request| request.json["params"]["ref"] == reference)
                .expect("V-276: a request for each")
        };
        for (reference, call_id) in [("r1", "c1"), ("r2", "c2")] {
            assert_eq!(of(reference).json["params"]["call_id"], call_id, "V-276");
        }
        assert_ne!(requests[0].json["id"], requests[1].json["id"], "V-276: ids of the server");
        reply(&mut server, of("r2"), &table(json!([{"a": 2}, {"a": 22}])));
        let answer = server.answer_of_call(&second, "copy_table");
        assert_eq!(
            answer.json["result"]["_meta"]["acp"]["system_data"]["table"],
            json!([{"a": 2}, {"a": 22}]),
            "V-276"
        );
        reply(&mut server, of("r1"), &table(json!([{"a": 1}])));
        let answer = server.answer_of_call(&first, "copy_table");
        assert_eq!(answer.json["result"]["_meta"]["acp"]["system_data"]["table"], json!([{"a": 1}]), "V-276");
        server.finish_well();
    }
}

#[test]
fn thirty_calls_answered_backwards() {
    let mut server = start("[S-8.8-09, S-X-11] many calls in flight");
    let calls: Vec<Value> =
        (0..30).map(|place| copy(&mut server, &format!("r{place}"), &format!("c{place}"))).collect();
    let requests: Vec<Message> = (0..30).map(|_| server.next_request()).collect();
    server.call("peek", json!({}), Value::Null);
    for request in requests.iter().rev() {
        let reference = request.json["params"]["ref"].as_str().expect("a ref");
        assert_eq!(request.json["params"]["call_id"], reference.replace('r', "c"));
        let place: i64 = reference[1..].parse().expect("a number");
        reply(&mut server, request, &table(json!([{"a": place}])));
    }
    for (place, id) in calls.iter().enumerate() {
        let answer = server.answer_of_call(id, "copy_table").json;
        assert_eq!(answer["result"]["_meta"]["acp"]["system_data"]["table"], json!([{"a": place}]));
    }
    server.finish_well();
}

#[test]
fn a_call_may_have_the_same_id_as_the_servers_request() {
    let mut server = start("[S-8.8-03] ids of both sides");
    let id = copy(&mut server, "r", "c");
    let request = server.next_request();
    // The host's own request of that id is another thing than its answer.
    server.send(&json!({"jsonrpc": "2.0", "id": request.json["id"], "method": "ping"}));
    let pong = server.wait_for("the answer to the ping", |message| message.answers(&request.json["id"]));
    assert_eq!(pong.json["result"], json!({}));
    reply(&mut server, &request, &table(json!([{"a": 1}])));
    server.answer_of_call(&id, "copy_table");
    server.finish_well();
}

#[test]
fn a_cancelled_call_does_not_wait_for_its_table() {
    let mut server = start("[S-12.3-01] cancellation during acp/read_table");
    let id = copy(&mut server, "r", "c");
    let request = server.next_request();
    cancel(&mut server, &id);
    let told = server.wait_for("the news for the host", |message| message.json["method"] == "notifications/cancelled");
    assert_eq!(told.json["params"]["requestId"], request.json["id"], "the host need not make the table any more");
    server.call("peek", json!({}), Value::Null);
    // The host answers all the same, and more than once.
    let path = server.root().join("tmp/host.json");
    std::fs::write(&path, "[{\"a\":1}]").expect("a file");
    let uri = url::Url::from_file_path(&path).expect("an address");
    let file = json!({"format": "file", "row_count": 1, "headers": [{"name": "a", "type": "integer"}], "table_uri": uri.as_str()});
    reply(&mut server, &request, &file);
    reply(&mut server, &request, &table(json!([{"a": 1}])));
    let late = server.next_within(QUIET);
    assert!(late.is_none(), "{late:?}");
    let mut host = Host::default();
    host.set("s", &table(json!([{"a": 5}])).to_string()).expect("a reply");
    copied(&mut server, "s", &json!({}), &mut host);
    server.finish_well();
}

#[test]
fn cancelling_one_call_leaves_the_other() {
    let mut server = start("[S-12.3-01] cancellation of one of two");
    let first = copy(&mut server, "same", "c1");
    let second = copy(&mut server, "same", "c2");
    let requests = [server.next_request(), server.next_request()];
    cancel(&mut server, &first);
    for request in &requests {
        reply(&mut server, request, &table(json!([{"a": 7}])));
    }
    let answer = server.answer_of_call(&second, "copy_table").json;
    assert_eq!(answer["result"]["_meta"]["acp"]["system_data"]["table"], json!([{"a": 7}]));
    server.finish_well();
}

#[test]
fn a_host_that_answers_too_late() {
    let mut server = setup("AMB-26 [S-8.8-07] late").arguments(&["--host-patience", "0.2"]).start();
    let id = copy(&mut server, "r", "c");
    let request = server.next_request();
    let answer = server.answer_of_call(&id, "copy_table");
    assert!(answer.text.contains("-32018"), "AMB-26: {}", answer.text);
    reply(&mut server, &request, &table(json!([{"a": 1}])));
    server.call("peek", json!({}), Value::Null);
    let ended = server.finish_well();
    assert!(
        ended.unclaimed.iter().all(|message| message.json["method"] == "notifications/cancelled"
            && message.json["params"]["requestId"] == request.json["id"]),
        "{:?}",
        ended.unclaimed
    );
}

#[test]
fn the_end_of_input_ends_a_call_that_waits_for_the_host() {
    let mut server = start("[S-3.3-02] end of input during acp/read_table");
    copy(&mut server, "r", "c");
    server.next_request();
    let started = Instant::now();
    server.finish_well();
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[test]
fn configuration_and_other_calls_go_on_while_the_host_thinks() {
    let mut server = start("[S-8.8-03] the host works on something else");
    let id = copy(&mut server, "r", "c");
    let request = server.next_request();
    let configured = server.request("acp/configure", json!({"row_limit": 1}));
    assert_eq!(configured.json["result"]["effective"]["row_limit"], 1);
    server.call("raw", json!({"rows_json": "[{\"a\":1}]"}), json!({}));
    reply(&mut server, &request, &table(json!([{"a": 1}, {"a": 2}])));
    let answer = server.answer_of_call(&id, "copy_table").json;
    assert_eq!(answer["result"]["_meta"]["acp"]["system_info"]["row_limit"], 25, "the limit of when it was called");
    server.finish_well();
}

#[test]
fn huge_tables_come_inline_and_by_file() {
    let mut server = start("[S-8.8-04] 200,000 rows");
    let rows = (0..200_000).map(|row| format!("{{\"a\":{row}}}")).collect::<Vec<_>>().join(",");
    let headers = r#""headers":[{"name":"a","type":"integer"}]"#;
    let path = server.root().join("tmp/host.json");
    std::fs::write(&path, format!("[{rows}]")).expect("a file");
    let uri = url::Url::from_file_path(&path).expect("an address");
    let mut host = Host::default();
    host.set("inline", &format!(r#"{{"format":"inline","row_count":200000,{headers},"table":[{rows}]}}"#))
        .expect("inline");
    host.set("file", &format!(r#"{{"format":"file","row_count":200000,{headers},"table_uri":"{uri}"}}"#))
        .expect("file");
    for reference in ["inline", "file"] {
        let answer = copied(&mut server, reference, &json!({"sampling": "spread", "row_limit": 2}), &mut host).json;
        let acp = &answer["result"]["_meta"]["acp"];
        assert_eq!(acp["system_data"]["row_count"], 200_000, "{reference}");
        assert_eq!(acp["system_data"]["format"], "inline", "{reference}");
        let last = acp["system_data"]["table"].as_array().and_then(|rows| rows.last()).cloned();
        assert_eq!(last, Some(json!({"a": 199_999})), "{reference}");
    }
    assert!(files_below(&server.root().join("tmp")).is_empty(), "the host's file was read and is gone");
    server.finish_well();
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_folder_is_read_and_its_target_stays() {
    let mut server = start("AMB-26 [S-8.8-04] links");
    let (target, link) = (server.root().join("own.json"), server.root().join("tmp/link.json"));
    std::fs::write(&target, "[{\"a\":1}]").expect("a file");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    let uri = url::Url::from_file_path(&link).expect("an address");
    let mut host = Host::default();
    let reply = json!({"format": "file", "row_count": 1, "headers": [{"name": "a", "type": "integer"}], "table_uri": uri.as_str()});
    host.set("link", &reply.to_string()).expect("a reply");
    copied(&mut server, "link", &json!({}), &mut host);
    assert!(target.exists(), "AMB-26: a file of the host's own");
    server.finish_well();
}

#[test]
fn spaces_and_letters_in_the_path_of_a_file() {
    let mut server = start("[S-8.8-04] paths");
    let mut host = Host::default();
    for name in ["a b.json", "tablé 表.json", "100%.json", "a#b?c.json"] {
        let path = server.root().join("tmp").join(name);
        std::fs::write(&path, "[{\"a\":1}]").expect("a file");
        let uri = url::Url::from_file_path(&path).expect("an address");
        let reply = json!({"format": "file", "row_count": 1, "headers": [{"name": "a", "type": "integer"}], "table_uri": uri.as_str()});
        host.set(name, &reply.to_string()).expect("a reply");
        let answer = copied(&mut server, name, &json!({}), &mut host).json;
        assert_eq!(answer["result"]["_meta"]["acp"]["system_data"]["table"], json!([{"a": 1}]), "{name}");
        assert!(!path.exists(), "{name}");
    }
    server.finish_well();
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_table() {
    let mut server = start("AMB-26 a pipe in place of a file");
    let path = server.root().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let mut host = Host::default();
    let uri = url::Url::from_file_path(&path).expect("an address");
    let reply = json!({"format": "file", "row_count": 1, "headers": [], "table_uri": uri.as_str()});
    host.set("pipe", &reply.to_string()).expect("a reply");
    let answer = copied(&mut server, "pipe", &json!({}), &mut host);
    assert!(answer.text.contains("-32018"), "{}", answer.text);
    std::fs::remove_file(path).expect("the pipe");
    server.finish_well();
}

/// A list could be read as the fields of an object, in their order.
#[test]
fn a_list_is_no_table_of_a_host() {
    let mut server = start("[S-8.8-04] lists in the place of objects");
    let mut host = Host::default();
    let header = json!({"format": "inline", "row_count": 1, "headers": [["a", "integer"]], "table": [{"a": 1}]});
    let whole = json!(["inline", [{"name": "a", "type": "integer"}], 1, [{"a": 1}], null]);
    for (name, reply) in [("header", header), ("whole", whole)] {
        host.set(name, &reply.to_string()).expect("a reply");
        let answer = copied(&mut server, name, &json!({}), &mut host);
        assert!(answer.text.contains("-32018"), "{name}: {}", answer.text);
    }
    server.finish_well();
}
