//! Envelopes and batches: each message is what JSON-RPC says it is, or is refused with its id.
#![no_main]

use acp_core::fuzzing;
use acp_fuzz::{Message, depth, is_json};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;

fuzz_target!(|text: &[u8]| {
    envelope(text);
    batch(text);
});

fn envelope(text: &[u8]) {
    let read = fuzzing::envelope(text);
    let refusal = read.as_ref().err().map(|refusal| {
        assert!(!refusal.contains('\n'));
        serde_json::from_str::<Value>(refusal).expect("a refusal is JSON")
    });
    let refused = |id: Value, code: i64| {
        let refusal = refusal.as_ref().expect("it must be refused");
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&id, &code.into()));
    };
    match Message::of(text) {
        Message::NotJson => refused(Value::Null, -32700),
        Message::Invalid => refused(Value::Null, -32600),
        Message::Wrong(id) => refused(id.map_or(Value::Null, |id| id.into_json_value()), -32600),
        Message::Request(id, method) => match (&read, &refusal) {
            (Ok(read), _) => assert_eq!(*read, (Some(id), Some(method))),
            (_, Some(refusal)) => {
                assert_eq!(refusal["id"], id.into_json_value());
                let code = refusal["error"]["code"].as_i64().expect("a code");
                assert!([-32601, -32602].contains(&code), "{code}");
                let message: Value = serde_json::from_slice::<&RawValue>(text)
                    .ok()
                    .and_then(|text| serde_json::from_str(text.get()).ok())
                    .unwrap_or_default();
                assert!(message.is_null() || message["params"].is_array(), "a good request is refused");
            }
            _ => unreachable!("it is read or refused"),
        },
        Message::Notification => {
            let (id, method) = read.expect("nobody waits for an answer to a notification");
            assert!(id.is_none() && method.is_some());
        }
        Message::Answer => assert!(read.is_ok_and(|(_, method)| method.is_none())),
    }
}

fn batch(text: &[u8]) {
    let messages = fuzzing::batch(&Bytes::copy_from_slice(text));
    let list = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.trim_start().starts_with('[') && is_json(text) && depth(text) <= 127)
        .map(|text| serde_json::from_str::<Vec<&RawValue>>(text).expect("a list"));
    match (messages, list) {
        (None, None) => {}
        (Some(Err(refusal)), Some(list)) => {
            let refusal: Value = serde_json::from_str(&refusal).expect("a refusal is JSON");
            assert_eq!(refusal["id"], Value::Null);
            assert!(list.is_empty() || list.len() > 1000);
        }
        (Some(Ok(messages)), Some(list)) => {
            assert!((1..=1000).contains(&list.len()));
            let list: Vec<&[u8]> = list.iter().map(|message| message.get().as_bytes()).collect();
            assert_eq!(messages, list);
        }
        (messages, list) => panic!("{messages:?} of {list:?}"),
    }
}
