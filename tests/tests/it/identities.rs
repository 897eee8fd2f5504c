//! Many identities in one process, all at once: each gets what is its own, to the last byte, and nothing of the others.
//!
//! The toy's keys `ID-<n>` make it visible: all of them see the account `acc_20`, each with data of its own, and each one account
//! more. Nothing else tells the holders apart: their conversations and calls have the same ids, and over HTTP their requests too.

use std::sync::Barrier;
use std::thread::scope;

use serde_json::{Value, json};

use crate::rules::{files_below, path_of};
use crate::server::{Message, Server, Setup, Transport, clip};

const HOLDERS: u32 = 50;

/// Somebody with a key, and the settings that go with it.
#[derive(Clone, Copy, Debug)]
struct Holder(u32);

impl Holder {
    fn all() -> Vec<Self> {
        (1..=HOLDERS).map(Self).collect()
    }

    /// The account that nobody else has.
    fn own(self) -> String {
        format!("acc_{}", 1000 + self.0)
    }

    /// Half of the holders share the few values that there are, so that only the key tells their cached data apart.
    fn config(self) -> Value {
        let mut config = json!({"region": if self.0.is_multiple_of(2) { "eu" } else { "us" }});
        if self.0.is_multiple_of(4) || self.0 % 4 == 1 {
            config["zone"] = json!(format!("zone-{}", self.0));
        }
        config
    }

    /// What `acp/configure` takes, and `_meta.acp` as well.
    fn settings(self) -> Value {
        json!({
            "credentials": {"type": "api_key", "api_key": format!("ID-{}-CANARY", self.0)},
            "config": self.config(), "row_limit": self.0, "cost_limit_usd": self.0, "default_resource_id": self.own(),
        })
    }

    fn blocks(self, account: &str) -> Value {
        let of = self.0;
        json!([
            {"id": "alpha", "description": "Id and region of the account.",
                "data": {"account": format!("{account} of {of}"), "region": self.config()["region"]}},
            {"id": "beta", "description": "Tables of the account.", "data": ["t1", "t2"]},
            {"id": "flaky", "description": "Remarks about the account.", "data": format!("{account} of {of} is fine.")},
        ])
    }
}

/// A call that every holder makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// Which accounts there are.
    List,
    /// What is known about the account that all have.
    Blocks,
    /// Rows of that account.
    Rows { attached: bool },
    /// Rows of the holder's own account, which is the default, as a file.
    OwnRows { attached: bool },
    /// Rows of an account that only the next holder has.
    OthersRows,
    /// The settings in force.
    Peek,
    /// Takes longer than anybody waits, and is cancelled.
    Slow,
}

/// What is asked first, and what then.
const FIRST: [Ask; 5] =
    [Ask::List, Ask::Blocks, Ask::Rows { attached: true }, Ask::Slow, Ask::OwnRows { attached: true }];
const THEN: [Ask; 5] = [Ask::Peek, Ask::Rows { attached: false }, Ask::Slow, Ask::OthersRows, Ask::List];

const SHARED: &str = "acc_20";

impl Ask {
    fn tool(self) -> &'static str {
        match self {
            Self::List | Self::Blocks => "autocontext",
            Self::Rows { .. } | Self::OwnRows { .. } | Self::OthersRows => "rows",
            Self::Peek => "peek",
            Self::Slow => "slow",
        }
    }

    fn arguments(self, holder: Holder) -> Value {
        let (rows, limit) = (100 + holder.0, 90 + holder.0);
        match self {
            Self::List => json!({}),
            Self::Blocks => json!({"resource_id": SHARED}),
            Self::Rows { .. } => json!({"resource_id": SHARED, "n": rows, "limit": limit}),
            Self::OwnRows { .. } => json!({"n": rows}),
            Self::OthersRows => json!({"resource_id": Holder(holder.0 + 1).own(), "n": rows}),
            Self::Peek => json!({"tag": format!("tag-{}", holder.0)}),
            Self::Slow => json!({"seconds": 60}),
        }
    }

    /// `_meta.acp` besides the settings.
    fn meta(self) -> Value {
        match self {
            Self::Rows { .. } => json!({"session_id": "conversation", "call_id": "call"}),
            Self::OwnRows { .. } => json!({"session_id": "conversation", "call_id": "call", "inline_max_bytes": 0}),
            _ => json!({"call_id": "call"}),
        }
    }

    /// What the model must see.
    fn model(self, holder: Holder) -> Value {
        let of = holder.0;
        match self {
            Self::List => json!({
                "notice": format!("2 resources available. Pass resource_id to get its autocontext. Default resource: {}.", holder.own()),
                "total_available": 2,
                "resources": [
                    {"resource_id": holder.own(), "name": format!("Account {} of {of}", 1000 + of), "group": format!("G{}", (1000 + of) % 3)},
                    {"resource_id": SHARED, "name": format!("Account 20 of {of}"), "group": "G2"},
                ],
            }),
            Self::Blocks => holder.blocks(SHARED),
            Self::Rows { attached } => {
                let warning = format!("The source has {} rows; limit cut the extraction to {}.", 100 + of, 90 + of);
                let mut model = extraction(holder, SHARED, 90 + of, attached);
                model["warnings"] = json!([warning]);
                model
            }
            Self::OwnRows { attached } => extraction(holder, &holder.own(), 100 + of, attached),
            Self::OthersRows => json!({"error": {"code": -32014, "name": "ACP_RESOURCE_NOT_FOUND", "message":
                "There is no such account, or these credentials may not see it. Call autocontext to list the accounts."}}),
            Self::Peek => {
                let mut config = holder.config();
                config["access_mode"] = json!("onlyRead");
                json!({"ok": true, "config": config, "tag": format!("tag-{of}")})
            }
            Self::Slow => Value::Null,
        }
    }

    /// What the host must see in `system_info`, besides what is the same for all.
    fn info(self, holder: Holder) -> Value {
        let model = self.model(holder);
        let resource = match self {
            Self::Blocks | Self::Rows { .. } => json!(SHARED),
            Self::OwnRows { .. } => json!(holder.own()),
            Self::OthersRows => json!(Holder(holder.0 + 1).own()),
            _ => Value::Null,
        };
        let mut arguments = self.arguments(holder);
        arguments.as_object_mut().expect("an object").remove("resource_id");
        if matches!(self, Self::Rows { .. } | Self::OwnRows { .. }) {
            arguments["start_date"] = json!("2026-09-14");
            arguments["end_date"] = json!("2026-10-11");
        }
        let attached = matches!(self, Self::Rows { attached: true } | Self::OwnRows { attached: true });
        json!({
            "resource_id": resource, "arguments": arguments, "row_limit": holder.0, "cost_limit_usd": holder.0,
            "autocontext_attached": attached, "warnings": model.get("warnings").cloned().unwrap_or(json!([])),
            "messages": model.get("notice").filter(|_| self.tool() == "rows").map_or(json!([]), |notice| json!([notice])),
        })
    }

    /// Checks all of an answer.
    fn check(self, holder: Holder, answer: &Message) {
        let wrong = |what: &str, found: &Value, expected: &Value| {
            if found != expected {
                let (found, expected) = (found.to_string(), expected.to_string());
                panic!("{self:?} of {holder:?}: {what} is\n{}\nnot\n{}", clip(&found), clip(&expected));
            }
        };
        let text = answer.json["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let mut model: Value = serde_json::from_str(text).unwrap_or_default();
        // What goes on meanwhile decides about these two.
        if let Some(fields) = model.as_object_mut() {
            fields.remove("upstream");
        }
        for resource in model.get_mut("resources").and_then(Value::as_array_mut).into_iter().flatten() {
            resource.as_object_mut().expect("a resource").remove("recent");
        }
        wrong("the model's part", &model, &self.model(holder));
        let acp = &answer.json["result"]["_meta"]["acp"];
        for (name, expected) in self.info(holder).as_object().expect("an object") {
            wrong(name, &acp["system_info"][name], expected);
        }
        let data = &acp["system_data"];
        match self {
            Self::Rows { .. } => wrong("the table", &data["table"], &rows(holder, 90 + holder.0)),
            Self::OwnRows { .. } => {
                let path = path_of(data["table_uri"].as_str().unwrap_or_default()).expect("the path of a table");
                let table = serde_json::from_slice(&std::fs::read(&path).expect("a table")).expect("JSON");
                wrong("the table", &table, &rows(holder, 100 + holder.0));
                std::fs::remove_file(path).expect("a table that the host has read");
            }
            _ => wrong("system_data", data, &Value::Null),
        }
        assert!(!answer.text.contains("CANARY"), "{self:?} of {holder:?}: a key is in the answer");
    }
}

fn extraction(holder: Holder, account: &str, total: u32, attached: bool) -> Value {
    let (of, shown) = (holder.0, holder.0.min(total));
    let mut model = json!({
        "notice": format!("Showing {shown} of {total} extracted rows."),
        "description": format!("Toy account {account} of {of}: rows counted from 0."),
        "dates": ["2026-09-14", "2026-10-11"], "total_rows": total, "returned_rows": shown, "truncated": true,
        "columns": ["i", "name"], "rows": rows(holder, shown), "totals": {"i": total * (total - 1) / 2},
    });
    if attached {
        model["autocontext"] = holder.blocks(account);
    }
    model
}

fn rows(holder: Holder, count: u32) -> Value {
    (0..count).map(|row| json!({"i": row, "name": format!("r{row} of {}", holder.0)})).collect()
}

/// Sends a call; its settings go along where the session does not have them.
fn begin(server: &mut Server, ask: Ask, holder: Holder, settings: bool) -> Value {
    let mut meta = ask.meta();
    if settings {
        meta.as_object_mut().expect("an object").extend(holder.settings().as_object().cloned().expect("an object"));
    }
    server.begin_call(ask.tool(), &ask.arguments(holder), &meta)
}

fn cancel(server: &mut Server, id: &Value) {
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
}

/// Every list and every block was fetched once for each holder, and nothing was left.
fn ends_well(mut server: Server) {
    let peek = server.call("peek", json!({}), Value::Null);
    let text = peek.json["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let model: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&model["upstream"]["list"], &model["upstream"]["blocks"]), (&json!(HOLDERS), &json!(6 * HOLDERS)));
    assert_eq!(
        peek.json["result"]["_meta"]["acp"]["system_info"]["row_limit"], 25,
        "somebody's settings are everybody's"
    );
    let files = files_below(&server.root().join("tmp"));
    assert!(files.is_empty(), "{files:?}");
    let ended = server.finish_well();
    assert!(ended.unclaimed.is_empty(), "{:?}", ended.unclaimed);
    assert!(!ended.stderr.contains("CANARY"), "a key is in the log");
}

/// 200 calls of 50 holders in flight in one session, twice, with 50 more that are cancelled.
#[test]
fn holders_in_one_session_get_their_own() {
    let mut server = Setup::toy("[S-10.1-05, S-5.3-07, S-X-11] 50 holders in one session").start();
    for asks in [FIRST, THEN] {
        let mut calls: Vec<(Ask, Holder)> =
            asks.iter().flat_map(|ask| Holder::all().into_iter().map(|holder| (*ask, holder))).collect();
        // In an order of their own: 97 has no divisor in common with their number.
        calls = (0..calls.len()).map(|place| calls[place * 97 % calls.len()]).collect();
        let begun: Vec<Value> = calls.iter().map(|(ask, holder)| begin(&mut server, *ask, *holder, true)).collect();
        for ((ask, _), id) in calls.iter().zip(&begun) {
            if *ask == Ask::Slow {
                cancel(&mut server, id);
            }
        }
        for ((ask, holder), id) in calls.iter().zip(&begun).filter(|((ask, _), _)| *ask != Ask::Slow) {
            ask.check(*holder, &server.answer_of_call(id, ask.tool()));
        }
    }
    ends_well(server);
}

/// What one holder asks at once in a session of its own. Every holder begins elsewhere in the list, so that the id under which
/// one cancels a call is that of another's call of another kind.
fn ask_all(server: &mut Server, holder: Holder, asks: &[Ask]) {
    let mut asks = asks.to_vec();
    let places = asks.len();
    asks.rotate_left(holder.0 as usize % places);
    let begun: Vec<Value> = asks.iter().map(|ask| begin(server, *ask, holder, false)).collect();
    for (ask, id) in asks.iter().zip(&begun) {
        match ask {
            Ask::Slow => cancel(server, id),
            _ => ask.check(holder, &server.answer_of_call(id, ask.tool())),
        }
    }
}

fn configure(session: &mut Server, holder: Holder) {
    let answer = session.request("acp/configure", holder.settings());
    let effective = &answer.json["result"]["effective"];
    assert_eq!(effective["row_limit"], holder.0, "{}", answer.text);
    assert_eq!(effective["default_resource_id"], holder.own(), "{}", answer.text);
}

/// Does something in all sessions at the same time.
fn at_once(sessions: &mut [(Holder, Server)], work: impl Fn(Holder, &mut Server) + Sync) {
    let together = Barrier::new(sessions.len());
    scope(|scope| {
        for (holder, session) in sessions {
            let (work, together) = (&work, &together);
            scope.spawn(move || {
                together.wait();
                work(*holder, session);
            });
        }
    });
}

/// 200 calls of 50 sessions in flight, twice, each session with the settings of its holder.
#[test]
fn holders_in_sessions_of_their_own_get_their_own() {
    let title = "[S-10.1-05, S-5.1-15, S-X-11] 50 holders in sessions of their own";
    let server = Setup::toy(title).over(Transport::Http).start();
    let mut sessions: Vec<(Holder, Server)> =
        Holder::all().into_iter().map(|holder| (holder, server.another(|setup| setup))).collect();
    at_once(&mut sessions, |holder, session| configure(session, holder));
    for asks in [FIRST, THEN] {
        at_once(&mut sessions, |holder, session| ask_all(session, holder, &asks));
    }
    for (holder, session) in sessions {
        let unclaimed = session.leave();
        assert!(unclaimed.is_empty(), "{holder:?}: {unclaimed:?}");
    }
    ends_well(server);
}

/// Sessions of the same holders that begin and end, also in the middle of their calls, disturb nobody.
#[test]
fn sessions_that_come_and_go_disturb_nobody() {
    const ROUNDS: usize = 3;
    let title = "[S-10.1-05, S-5.1-15, S-X-11] sessions that come and go";
    let server = Setup::toy(title).over(Transport::Http).start();
    let mut sessions: Vec<(Holder, Server)> =
        Holder::all().into_iter().map(|holder| (holder, server.another(|setup| setup))).collect();
    at_once(&mut sessions, |holder, session| {
        configure(session, holder);
        ask_all(session, holder, &FIRST);
        for _ in 0..ROUNDS {
            // Somebody with the next key comes, asks, and is gone before everything is answered.
            let next = Holder(holder.0 % HOLDERS + 1);
            let mut guest = session.another(|setup| setup);
            configure(&mut guest, next);
            begin(&mut guest, Ask::Slow, next, false);
            let asked = begin(&mut guest, Ask::Blocks, next, false);
            for answer in guest.leave() {
                assert!(answer.answers(&asked), "{next:?}: {}", clip(&answer.text));
                Ask::Blocks.check(next, &answer);
            }
            ask_all(session, holder, &THEN);
        }
    });
    for (holder, session) in sessions {
        let unclaimed = session.leave();
        assert!(unclaimed.is_empty(), "{holder:?}: {unclaimed:?}");
    }
    ends_well(server);
}
