//! Requests and answers word for word, to be compared with Google's own description of its APIs.

use std::sync::Mutex;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::answer::{Answer, Content};
use crate::lock;
use crate::server::ApiRequest;

/// What was asked and answered since somebody asked for it. All of it is held in memory, so it is for short runs. Tokens are
/// left out: neither headers nor the token endpoint are kept, nor what a fault made up.
#[derive(Default)]
pub(crate) struct Exchanges(Mutex<Option<Vec<Value>>>);

impl Exchanges {
    /// Begins anew.
    pub(crate) fn start(&self) {
        *lock(&self.0) = Some(Vec::new());
    }

    /// Keeps no more, and forgets what was kept.
    pub(crate) fn stop(&self) {
        *lock(&self.0) = None;
    }

    /// Keeps an exchange, if exchanges are kept. The answer is the same afterwards; a streamed one is whole then.
    pub(crate) fn note(&self, request: &ApiRequest, mut answer: Answer) -> Answer {
        if request.path == "/token" || lock(&self.0).is_none() {
            return answer;
        }
        if let Content::Pieces(pieces) = &mut answer.content {
            let whole: BytesMut = pieces.flatten().collect();
            answer.content = Content::Whole(whole.freeze());
        }
        let body = |bytes: &Bytes| match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned())),
        };
        let answered = match &answer.content {
            Content::Whole(bytes) => body(bytes),
            Content::Pieces(_) => Value::Null,
        };
        let exchange = json!({
            "user_agent": request.user_agent, "method": request.method, "path": request.path, "query": request.query,
            "request": body(&request.body), "status": answer.status, "answer": answered,
        });
        if let Some(exchanges) = &mut *lock(&self.0) {
            exchanges.push(exchange);
        }
        answer
    }

    /// As `GET /__sandbox/exchanges` answers it, oldest first.
    pub(crate) fn to_json(&self) -> Value {
        json!({"exchanges": *lock(&self.0)})
    }
}
