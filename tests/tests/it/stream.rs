//! Bytes that are no messages, between those that are. Data vectors hold text; these lines are too long or no text.

use serde_json::{Value, json};

use crate::server::{Message, Server, Setup};

fn start(title: &str) -> Server {
    Setup::toy(title).start()
}

/// Sends bytes and gives the error that answers them.
fn refused(server: &mut Server, bytes: &[u8]) -> (Value, Value) {
    server.write(bytes);
    let Message { json, .. } = server.next();
    (json["error"]["code"].clone(), json["id"].clone())
}

#[test]
fn text_that_is_not_utf_8() {
    let mut server = start("M-040 [S-12.1-01] invalid UTF-8");
    let lines: [&[u8]; 4] = [
        b"\xff\xfe\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\",\"params\":{\"a\":\"\xf0\x9f\x98\"}}\n",
        b"\0\0\0\0\n",
    ];
    for line in lines {
        assert_eq!(refused(&mut server, line), (json!(-32700), Value::Null), "M-040: {line:?}");
    }
    // A lone surrogate is JSON's grammar but no text, so the caller can be told which request it was.
    let lone = b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":{\"a\":\"\\ud800\"}}\n";
    assert_eq!(refused(&mut server, lone), (json!(-32602), json!(3)), "M-040: a lone surrogate");
    // Values take many times their text once they are read.
    let many = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":{{\"a\":[1{}]}}}}\n",
        ",1".repeat(300_000)
    );
    assert_eq!(refused(&mut server, many.as_bytes()), (json!(-32600), json!(4)), "M-040: too many values");
    server.call("peek", json!({}), Value::Null);
    server.finish_well();
}

/// A list could be read as the fields of an object, in their order.
#[test]
fn lists_are_no_messages_and_no_params() {
    let mut server = start("M-040 [S-12.1-01] lists in the place of objects");
    for line in ["[]", "[1,\"x\"]", " [\"2.0\",1,\"ping\"]", "[\"2.0\",\"x\",\"tools/list\",{}]", "[1,2,3,4,5,6]"] {
        server.write(format!("{line}\n").as_bytes());
        let Message { json, .. } = server.next();
        assert_eq!((&json["error"]["code"], &json["id"]), (&json!(-32600), &Value::Null), "{line}");
        assert!(json["error"]["message"].to_string().contains("batches"), "{json}");
    }
    for method in ["tools/call", "tools/list", "acp/configure", "ping"] {
        for params in [json!([]), json!([3]), json!([{}, "peek", {}])] {
            let line = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
            let answer = refused(&mut server, format!("{line}\n").as_bytes());
            assert_eq!(answer, (json!(-32602), json!(7)), "{line}");
        }
    }
    let unknown = b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"who/knows\",\"params\":[]}\n";
    assert_eq!(refused(&mut server, unknown), (json!(-32601), json!(8)));
    server.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\",\"params\":[]}\n");
    server.call("peek", json!({}), Value::Null);
    server.finish_well();
}

#[test]
fn a_byte_order_mark_is_no_json() {
    let mut server = start("M-041 [S-12.1-01] byte order mark");
    let line = b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    assert_eq!(refused(&mut server, line).0, json!(-32700), "M-041");
    server.call("peek", json!({}), Value::Null);
    server.finish_well();
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow() {
    let mut server = start("M-042 [S-12.1-01] nesting");
    for depth in [1_000, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let (before, after) = (open.repeat(depth), close.repeat(depth));
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"peek\",\"arguments\":{{\"tag\":{before}1{after}}}}}}}\n"
            );
            assert_eq!(refused(&mut server, line.as_bytes()), (json!(-32700), Value::Null), "M-042: {depth} {open}");
            let bare = format!("{before}\n");
            assert_eq!(refused(&mut server, bare.as_bytes()).0, json!(-32700), "M-042: {depth} {open} alone");
        }
    }
    let fine = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let answer = server.call("raw", json!({"rows_json": format!("[{{\"a\":{fine}}}]")}), json!({}));
    assert!(answer.text.contains(&fine), "M-042: a depth that is allowed");
    server.finish_well();
}

#[test]
fn rows_that_are_nested_too_deep_are_an_error_or_a_table() {
    let mut server = start("M-043 [S-14.1-01] nesting in a source's answer");
    for depth in [120, 127, 128, 200, 5_000] {
        let rows = format!("[{{\"a\":{}{}}}]", "[".repeat(depth), "]".repeat(depth));
        server.call("raw", json!({"rows_json": rows}), json!({}));
    }
    server.call("peek", json!({}), Value::Null);
    server.finish_well();
}

#[test]
fn blank_lines_and_windows_line_ends_do_no_harm() {
    let mut server = start("M-044 [S-3.2-01] line ends");
    server.write(b"\n\r\n  \n\t\r\n");
    server.write(b"{\"jsonrpc\":\"2.0\",\"id\":\"crlf\",\"method\":\"ping\"}\r\n");
    assert_eq!(server.next().json["id"], "crlf");
    server.write(b"  {\"jsonrpc\":\"2.0\",\"id\":\"spaces\",\"method\":\"ping\"}  \n");
    assert_eq!(server.next().json["id"], "spaces");
    server.write(b"\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\r\"method\":\"ping\"}\n");
    assert_eq!(server.next().json["id"], 1);
    server.finish_well();
}

#[test]
fn a_message_may_come_in_pieces_and_several_at_once() {
    let mut server = start("M-045 [S-3.2-01] pieces");
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":\"slow\xc3\xb1\",\"method\":\"ping\"}\n" {
        server.write(&[*byte]);
    }
    assert_eq!(server.next().json["id"], "slowñ");
    let many: String =
        (0..200).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":\"m{id}\",\"method\":\"ping\"}}\n")).collect();
    server.write(many.as_bytes());
    for id in 0..200 {
        server.answer(&json!(format!("m{id}")));
    }
    server.finish_well();
}

#[test]
fn the_last_line_needs_no_line_end() {
    let mut server = start("M-046 [S-3.2-01] no final line end");
    server.write(b"{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"ping\"}");
    let answers = server.finish_well().unclaimed;
    assert!(answers.len() == 1 && answers[0].json["id"] == "last", "M-046: {answers:?}");
    let mut server = start("M-047 [S-12.1-01] cut off by the end of input");
    server.write(b"{\"jsonrpc\":\"2.0\",\"id\":\"cut\",\"met");
    let answers = server.finish_well().unclaimed;
    assert!(answers.len() == 1 && answers[0].json["error"]["code"] == -32700, "M-047: {answers:?}");
}

#[test]
fn a_line_of_70_mib_is_refused_and_skipped() {
    let mut server = start("M-048 [S-12.1-01] a very long line");
    server.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"peek\",\"arguments\":{\"tag\":\"");
    let part = vec![b'x'; 1024 * 1024];
    for _ in 0..70 {
        server.write(&part);
    }
    server.write(b"\"}}}\n");
    let answer = server.next().json;
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null), "M-048");
    server.call("peek", json!({}), Value::Null);
    server.finish_well();
}

#[test]
fn a_long_line_within_the_limit_is_read() {
    let mut server = start("M-049 [S-3.2-01] a long line");
    let tag = "é".repeat(3 * 1024 * 1024);
    let answer = server.call("peek", json!({"tag": tag}), Value::Null);
    assert!(answer.text.contains(&tag), "M-049");
    server.finish_well();
}

#[test]
fn a_thousand_lines_of_garbage_between_calls() {
    let mut server = start("M-050 [S-3.2-01] garbage between calls");
    let meta = json!({"credentials": {"type": "api_key", "api_key": "KEY-A-CANARY-1"}});
    let mut calls = Vec::new();
    for round in 0..1_000 {
        match round % 4 {
            0 => server.write_line("garbage"),
            1 => server.write_line("[{\"jsonrpc\":\"2.0\"}]"),
            2 => server.write_line(&format!("{{\"jsonrpc\":\"2.0\",\"id\":\"g{round}\"}}")),
            _ => server.write(b"\xff\xff{}\n"),
        }
        if round % 20 == 0 {
            calls.push(server.begin_call("rows", &json!({"resource_id": "acc_1", "n": 2_000}), &meta));
        }
    }
    for id in &calls {
        let answer = server.answer_of_call(id, "rows");
        assert_eq!(answer.json["result"]["_meta"]["acp"]["system_data"]["row_count"], 2_000, "M-050");
    }
    let ended = server.finish_well();
    assert_eq!(ended.unclaimed.len(), 1_000, "M-050: every line of garbage has an error");
    assert!(ended.unclaimed.iter().all(|message| message.json["error"]["code"].is_i64()), "M-050");
}
