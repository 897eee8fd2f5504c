//! What only a program can say of Streamable HTTP: TLS, half a request, many calls at once, and the end of the process.
//! The rest is in `vectors/s16_http.txt`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};

use crate::server::{PATIENCE, Server, Setup, Transport};

fn acp(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["acp"]
}

#[test]
fn v_205_over_tls_a_link_gives_the_table_once() {
    let setup = Setup::toy("V-205 [S-8.5-08, S-3.2-12]").over(Transport::Http).tls();
    let setup = setup.variable("ACP_HTTP_TOKEN", "TOK-CANARY-3").header("authorization", "Bearer TOK-CANARY-3");
    let mut server = setup.start();
    let arguments = json!({"rows_json": "[{\"a\":1.50},{\"a\":2}]"});
    // The general rules would fetch the table, which can be done once.
    let id = server.begin_call("raw", &arguments, &json!({"inline_max_bytes": 0}));
    let answer = server.answer(&id).json;
    let data = &acp(&answer)["system_data"];
    assert_eq!((&data["format"], &data["row_count"], data.get("table")), (&json!("file"), &json!(2), None), "V-205");
    let link = data["table_uri"].as_str().expect("V-205: a link");
    assert!(link.starts_with("https://127.0.0.1:"), "V-205: {link}");
    assert!(!answer["result"]["content"].to_string().contains("/tables/"), "V-205: the model sees the link");
    let get = |headers: Value| server.ask("GET", link, &headers, "");
    assert_eq!(get(json!({"authorization": null})).status, 401, "V-205: without the token");
    assert_eq!(get(json!({"origin": "https://evil.example"})).status, 403, "V-205: from another site");
    let table = get(json!({}));
    assert_eq!((table.status, table.text.replace('\n', "").as_str()), (200, r#"[{"a":1.50},{"a":2}]"#), "V-205");
    assert!(get(json!({})).status >= 400, "V-205: a second time");
    let inline = server.call("raw", arguments, json!({})).json;
    assert_eq!(acp(&inline)["system_data"]["format"], "inline", "V-205: a small table needs no link");
    server.finish_well();
}

#[test]
fn v_318_a_token_is_asked_for_before_the_body_is_read() {
    let setup = Setup::toy("V-318 [S-3.2-10, S-13.3-03]").over(Transport::Http);
    let server = setup.variable("ACP_HTTP_TOKEN", "t").header("authorization", "Bearer t").start();
    let mut half = TcpStream::connect(server.address()).expect("V-318: connect");
    half.set_read_timeout(Some(PATIENCE)).expect("V-318: a timeout");
    let head =
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{";
    half.write_all(head.as_bytes()).expect("V-318: send");
    let mut start = [0; 12];
    half.read_exact(&mut start).expect("V-318: an answer before the body is there");
    assert_eq!(&start, b"HTTP/1.1 401", "V-318");
    server.finish_well();
}

#[test]
fn v_324_calls_at_once_keep_their_own_settings() {
    let mut server = Setup::toy("V-324 [S-5.3-06]").over(Transport::Http).start();
    let calls: Vec<Value> = (0..50)
        .map(|limit: u64| {
            let key = if limit.is_multiple_of(2) { "KEY-A-CANARY-1" } else { "KEY-B-CANARY-2" };
            let meta = json!({"row_limit": limit, "credentials": {"type": "api_key", "api_key": key}});
            server.begin_call("rows", &json!({"resource_id": "acc_7", "n": 100 + limit}), &meta)
        })
        .collect();
    for (limit, id) in calls.iter().enumerate() {
        let answer = server.answer_of_call(id, "rows").json;
        assert_eq!(acp(&answer)["system_info"]["row_limit"], limit, "V-324");
        assert_eq!(acp(&answer)["system_data"]["row_count"], 100 + limit, "V-324");
    }
    server.finish_well();
}

/// S-3.2-10, S-10.5-01, AMB-31: what would be open to others does not start.
#[test]
fn without_a_token_only_this_machine_is_served() {
    let start = |arguments: &[&str], token: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acp-toy"));
        command.args(["--http", "--port", "0"]).args(arguments).env_remove("ACP_HTTP_TOKEN");
        command.envs(token.map(|token| ("ACP_HTTP_TOKEN", token))).output().expect("the toy")
    };
    for (arguments, token) in [
        (&["--bind", "0.0.0.0"][..], None),
        (&["--bind", "::"], None),
        (&[], Some("")),
        (&["--bind", "0.0.0.0"], Some("")),
    ] {
        let refused = start(arguments, token);
        let told = String::from_utf8_lossy(&refused.stderr);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{arguments:?}: {told}");
        assert!(told.contains("ACP_HTTP_TOKEN"), "{arguments:?}: {told}");
    }
}

/// S-13.3-01, S-13.3-02.
#[test]
fn the_port_is_that_of_the_flag_then_that_of_the_environment() {
    // The harness passes --port 0, so a port that can't be used shows that the variable does not count.
    let setup = Setup::toy("[S-13.3-02] --port wins").over(Transport::Http);
    let server = setup.variable("ACP_PORT", "1").start();
    let address = server.address().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "[S-13.3-01] {address}");
    let (_, taken) = address.split_once(':').expect("a port");
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp-toy"));
    let refused = command.arg("--http").env("ACP_PORT", taken).env_remove("ACP_HTTP_TOKEN").output().expect("the toy");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && told.contains("HTTP"),
        "[S-13.3-02] ACP_PORT names a port that is taken: {told}"
    );
    server.finish_well();
}

/// Sessions of one process, each with its own host, calling at once.
#[test]
fn hosts_of_several_sessions_are_asked_for_their_own_tables() {
    let client = json!({"version": "1.0", "stores_system_data": true, "host_tables": true});
    let setup = Setup::toy("[S-8.8-09, S-3.2-09] hosts of several sessions").over(Transport::Http);
    let first = setup.client(Some(client)).start();
    let mut servers: Vec<Server> = (0..4).map(|_| first.another(|setup| setup)).collect();
    servers.push(first);
    let begin = |(place, server): (usize, &mut Server)| {
        server.begin_call("copy_table", &json!({"table_ref": format!("t{place}")}), &json!({}))
    };
    let calls: Vec<Value> = servers.iter_mut().enumerate().map(begin).collect();
    for (place, server) in servers.iter_mut().enumerate().rev() {
        let asked = server.next_request().json;
        assert_eq!(asked["params"]["ref"], format!("t{place}"));
        let headers = json!([{"name": "a", "type": "integer"}]);
        let table = json!({"format": "inline", "row_count": 1, "headers": headers, "table": [{"a": place}]});
        server.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": table}));
        let answer = server.answer_of_call(&calls[place], "copy_table").json;
        assert_eq!(acp(&answer)["system_data"]["table"], json!([{"a": place}]));
    }
    let last = servers.pop().expect("the first one");
    for server in servers {
        assert!(server.leave().is_empty());
    }
    last.finish_well();
}

#[cfg(unix)]
#[test]
fn calls_in_flight_are_answered_before_the_process_ends() {
    let mut server = Setup::toy("the end of a server over HTTP").over(Transport::Http).start();
    let id = server.begin_call("slow", &json!({"seconds": 0.5}), &Value::Null);
    server.process().ask_to_end();
    server.answer_of_call(&id, "slow");
    assert!(server.process().output("the end").status.success());
}
