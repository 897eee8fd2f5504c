//! A host that answers `acp/read_table` as it is told, and remembers what it was asked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::server::{Message, Server, clip};

/// What the host says to one ref.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A result, as JSON text.
    Result(String),
    /// A JSON-RPC error.
    Error(i64, String),
    /// Nothing, ever.
    Silence,
    /// A line as it is; `$ID` is the id of the request.
    Line(String),
}

/// A host and its tables.
#[derive(Debug, Default)]
pub(crate) struct Host {
    replies: BTreeMap<String, Reply>,
    /// The params of every request, without MCP's own `_meta`.
    pub(crate) asked: Vec<Value>,
    /// How many requests the server took back.
    pub(crate) taken_back: usize,
    /// How many of its answers HTTP refused with a status of its own.
    pub(crate) refused: usize,
}

impl Host {
    /// Says what there is for a ref, as the vectors write it: JSON, `error CODE MESSAGE`, `silence` or `line TEXT`.
    pub(crate) fn set(&mut self, reference: &str, reply: &str) -> Result<(), String> {
        let (word, rest) = reply.split_once(' ').unwrap_or((reply, ""));
        let reply = match word {
            "silence" => Reply::Silence,
            "line" => Reply::Line(rest.to_owned()),
            "error" => {
                let (code, message) = rest.split_once(' ').unwrap_or((rest, ""));
                let code = code.parse().map_err(|_| format!("{code} is not the code of an error"))?;
                Reply::Error(code, message.to_owned())
            }
            _ => Reply::Result(reply.to_owned()),
        };
        self.replies.insert(reference.to_owned(), reply);
        Ok(())
    }

    /// Notes a request and gives the line that answers it.
    fn hear(&mut self, request: &Value, call: &Value) -> Result<Option<String>, String> {
        let mut params = request["params"].clone();
        if let Some(params) = params.as_object_mut() {
            params.remove("_meta");
        }
        check_request(request, &params, call)?;
        let reference = params["ref"].as_str().unwrap_or_default().to_owned();
        self.asked.push(params);
        let reply = self.replies.get(&reference).ok_or_else(|| format!("the host was asked for {reference:?}"))?;
        let id = &request["id"];
        Ok(match reply {
            Reply::Result(result) => Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)),
            Reply::Error(code, message) => {
                Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string())
            }
            Reply::Line(line) => Some(line.replace("$ID", &id.to_string())),
            Reply::Silence => None,
        })
    }
}

/// The rules for every request (S-2-07): it comes within a call, is `acp/read_table`, for a ref that the model wrote in this
/// call, under the call's own `call_id`, and nothing else is in it.
fn check_request(request: &Value, params: &Value, call: &Value) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {request}"));
    if request["method"] != "acp/read_table" {
        return wrong("[S-8.8-03] a request that no server sends");
    }
    let mut expected = json!({"ref": params["ref"]});
    if let Some(call_id) = call.pointer("/_meta/acp/call_id").filter(|id| id.as_str().is_some_and(|id| !id.is_empty()))
    {
        expected["call_id"] = call_id.clone();
    }
    let mut arguments = call["arguments"].as_object().into_iter().flat_map(|arguments| arguments.values());
    if !arguments.any(|argument| argument.is_string() && *argument == params["ref"]) {
        return wrong("[S-8.8-06] the ref is not from this call's arguments");
    }
    if *params != expected {
        return wrong("[S-8.8-02] the params are not those of this call");
    }
    Ok(())
}

impl Server {
    /// The answer to a call, while `host` answers what the server asks for.
    pub(crate) fn answer_with(&mut self, id: &Value, host: &mut Host, call: &Value) -> Result<Message, String> {
        loop {
            let message = self.wait_for(&format!("the answer to request {id}"), |message| {
                message.answers(id) || message.is_request() || message.json["method"] == "notifications/cancelled"
            });
            if message.answers(id) {
                return Ok(message);
            }
            if !message.is_request() {
                host.taken_back += 1;
                continue;
            }
            if !self.client_says("host_tables") {
                return Err(format!("[S-8.8-01] the client has no tables: {}", clip(&message.text)));
            }
            if let Some(line) = host.hear(&message.json, call)? {
                self.write_line(&line);
                host.refused += self.refusals();
            }
        }
    }

    /// The next request of the server.
    pub(crate) fn next_request(&mut self) -> Message {
        self.wait_for("a request of the server", Message::is_request)
    }
}
