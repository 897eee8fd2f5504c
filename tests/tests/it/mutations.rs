//! Arguments and bytes at random, the same ones in every run: whatever comes, the answer is a valid one.

use serde_json::{Value, json};

use crate::server::{Server, Setup, clip};

/// A small generator of numbers (xorshift), so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

fn values() -> Vec<Value> {
    let long = "x".repeat(5_000);
    serde_json::from_str::<Vec<Value>>(
        r#"[0, 1, 3, 30, -1, 1.5, 2.0, 1e300, 200000.5, 9007199254740993, 18446744073709551615, true, false, null,
            "", "5", "acc_1", "acc_7.t2", "acc_999", "acc_", ".", "https://toy.example/acc_2", "https://toy.example/",
            "today", "7daysAgo", "99999999daysAgo", "2026-10-01", "20261001", "2026-02-30", "{{start_date}}", "\u0000",
            "ñ😀", "' OR 1=1", "../../etc/passwd", [], [1], ["acc_1"], {}, {"a": {"b": []}}, [[[[[]]]]]]"#,
    )
    .expect("values")
    .into_iter()
    .chain([json!(long)])
    .collect()
}

const NAMES: [&str; 12] = [
    "n",
    "n",
    "n",
    "resource_id",
    "resource_id",
    "start_date",
    "end_date",
    "limit",
    "link",
    "startDate",
    "row_limit",
    "zzz",
];

fn arguments(dice: &mut Dice, values: &[Value]) -> Value {
    let mut arguments = json!({"n": 3, "resource_id": "acc_1"});
    for _ in 0..=dice.roll(2) {
        arguments[*dice.pick(&NAMES)] = dice.pick(values).clone();
    }
    arguments
}

fn code(answer: &Value) -> Option<i64> {
    answer["result"]["_meta"]["acp"]["error"]["code"].as_i64()
}

#[test]
fn any_arguments_of_rows_get_a_typed_answer() {
    let mut server = Setup::toy("[S-12.1-02, S-14.1-01] random arguments").start();
    let (mut dice, values) = (Dice(0x5eed_0001), values());
    let meta = json!({"credentials": {"type": "api_key", "api_key": "KEY-A-CANARY-1"}});
    let mut succeeded = 0;
    for _ in 0..20 {
        let calls: Vec<(Value, Value)> = (0..50)
            .map(|_| {
                let arguments = arguments(&mut dice, &values);
                (server.begin_call("rows", &arguments, &meta), arguments)
            })
            .collect();
        for (id, arguments) in calls {
            let answer = server.answer_of_call(&id, "rows");
            let code = code(&answer.json);
            succeeded += usize::from(code.is_none());
            assert!(
                matches!(code, None | Some(-32013 | -32014 | -32017)),
                "{}: {}",
                clip(&arguments.to_string()),
                clip(&answer.text)
            );
        }
    }
    assert!(succeeded > 50, "the arguments are too wild: {succeeded} calls succeeded");
    server.finish_well();
}

#[test]
fn any_meta_gets_a_typed_answer() {
    let mut server = Setup::toy("[S-5.3-05, S-12.2-02] random _meta.acp").start();
    let (mut dice, values) = (Dice(0x5eed_0002), values());
    let fields = [
        "row_limit",
        "cost_limit_usd",
        "field_limit",
        "credentials",
        "config",
        "default_resource_id",
        "session_id",
        "sampling",
        "autocontext_delivered",
        "autocontext_blocks",
        "inline_max_bytes",
        "call_id",
        "tables",
        "conversation_id",
        "zzz",
    ];
    for _ in 0..500 {
        let mut meta = json!({"credentials": {"type": "api_key", "api_key": "KEY-A-CANARY-1"}});
        for _ in 0..=dice.roll(3) {
            meta[*dice.pick(&fields)] = dice.pick(&values).clone();
        }
        let id = server.begin_call("rows", &json!({"resource_id": "acc_1", "n": 3}), &meta);
        let answer = server.answer_of_call(&id, "rows");
        let code = code(&answer.json);
        assert!(matches!(code, None | Some(-32011 | -32012 | -32016 | -32017)), "{meta}: {}", clip(&answer.text));
        // The session takes the same fields, or refuses them as JSON-RPC does.
        let answer = server.request("acp/configure", meta.clone());
        let code = answer.json["error"]["code"].as_i64();
        assert!(matches!(code, None | Some(-32012 | -32016 | -32017)), "{meta}: {}", clip(&answer.text));
    }
    server.finish_well();
}

#[test]
fn any_rows_become_a_table_of_their_types() {
    let mut server = Setup::toy("[S-8.6-02, S-8.6-10] random rows").start();
    let (mut dice, values) = (Dice(0x5eed_0003), values());
    let types = ["string", "integer", "number", "boolean", "date", "datetime", "json"];
    for _ in 0..400 {
        let rows: Vec<Value> = (0..dice.roll(5))
            .map(|_| {
                let mut row = json!({});
                for _ in 0..dice.roll(4) {
                    row[*dice.pick(&["a", "b", "c d", "é\""])] = dice.pick(&values).clone();
                }
                row
            })
            .collect();
        let mut arguments = json!({"rows_json": json!(rows).to_string()});
        if dice.roll(2) == 0 {
            let headers = json!([{"name": "a", "type": dice.pick(&types)}, {"name": "b", "type": dice.pick(&types)}]);
            arguments["headers_json"] = json!(headers.to_string());
        }
        let limit = [0, 40, 5_000_000][dice.roll(3)];
        let sampling = *dice.pick(&["head", "spread"]);
        let meta = json!({"inline_max_bytes": limit, "row_limit": dice.roll(4), "sampling": sampling});
        let answer = server.call("raw", arguments.clone(), meta);
        assert_eq!(code(&answer.json), None, "{arguments}: {}", clip(&answer.text));
    }
    server.finish_well();
}

/// Bytes of valid messages, changed at random. Some stay valid; whatever they are, the session goes on.
#[test]
fn any_bytes_leave_the_session_alive() {
    let mut dice = Dice(0x5eed_0004);
    let lines = [
        r#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"rows","arguments":{"resource_id":"acc_1","n":3},"_meta":{"acp":{"row_limit":2}}}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":78,"method":"acp/configure","params":{"row_limit":3,"config":{"zone":"z"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1,2,{"b":null}]}}"#,
    ];
    let mut server = Setup::toy("[S-14.1-01] random bytes").start();
    for _ in 0..40 {
        for _ in 0..50 {
            let mut line = dice.pick(&lines).as_bytes().to_vec();
            for _ in 0..=dice.roll(4) {
                mutate(&mut dice, &mut line);
            }
            line.push(b'\n');
            server.write(&line);
        }
        still_serves(&mut server);
    }
    server.finish_well();
}

fn mutate(dice: &mut Dice, line: &mut Vec<u8>) {
    if line.is_empty() {
        return;
    }
    let place = dice.roll(line.len());
    match dice.roll(5) {
        0 => line[place] = dice.roll(256) as u8,
        1 => {
            line.remove(place);
        }
        2 => line.insert(place, *dice.pick(b"{}[]\",:\\ 0\n")),
        3 => line.truncate(place),
        _ => {
            let copy = line[place..].to_vec();
            line.extend(copy);
        }
    }
}

fn still_serves(server: &mut Server) {
    let id = json!(format!("alive-{}", server.root().display()));
    server.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    let answer = server.answer(&id);
    assert_eq!(answer.json["result"], json!({}));
}
