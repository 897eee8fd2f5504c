//! A Google made of bytes, for answers that no decent server gives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::bench::Google;

/// What answers a report: the number of the request, from 1, and its body give the bytes of the whole answer.
type Reports = dyn Fn(usize, &Value) -> Vec<u8> + Send + Sync;

/// It grants every token and knows one dimension, `country`, and one metric, `sessions`.
pub(super) struct RawGoogle {
    pub(super) url: String,
    asked: Arc<AtomicUsize>,
}

impl RawGoogle {
    pub(super) fn start(reports: impl Fn(usize, &Value) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://127.0.0.1:{}", listener.local_addr().expect("an address").port());
        let asked = Arc::<AtomicUsize>::default();
        let reports: Arc<Reports> = Arc::new(reports);
        let google = Self { url, asked: asked.clone() };
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, reports) = (asked.clone(), reports.clone());
                std::thread::spawn(move || serve(&stream, &asked, &*reports));
            }
        });
        google
    }

    /// Reports that were asked for.
    pub(super) fn reports(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// One answer per connection keeps framing simple, also where the bytes break it.
fn serve(stream: &TcpStream, asked: &AtomicUsize, reports: &Reports) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let answer = if head.starts_with("POST /token") {
        ok(&json!({"access_token": "ya29.raw", "expires_in": 3599, "token_type": "Bearer"}))
    } else if head.contains("/metadata ") {
        let field = |name: &str| json!({"apiName": name, "uiName": name, "type": "TYPE_INTEGER"});
        ok(&json!({"dimensions": [field("country")], "metrics": [field("sessions")]}))
    } else if head.contains(":runReport ") {
        reports(asked.fetch_add(1, Ordering::SeqCst) + 1, &serde_json::from_slice(&body).unwrap_or_default())
    } else {
        answer(404, "application/json", b"{}")
    };
    let mut stream = stream;
    let _ = stream.write_all(&answer).and_then(|()| stream.flush());
}

/// A key that it takes, like any other.
pub(super) fn credentials(sandbox: &Google) -> Value {
    let mut key = sandbox.key();
    drop(key.as_object_mut().map(|key| key.remove("token_uri")));
    json!({"type": "service_account", "service_account": key.to_string()})
}

/// A well-framed answer.
pub(super) fn answer(status: u16, content_type: &str, body: &[u8]) -> Vec<u8> {
    framed(status, &format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len()), body)
}

/// An answer with these header lines.
pub(super) fn framed(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} X\r\n{headers}Connection: close\r\n\r\n").into_bytes();
    bytes.extend(body);
    bytes
}

pub(super) fn ok(body: &Value) -> Vec<u8> {
    answer(200, "application/json; charset=UTF-8", body.to_string().as_bytes())
}

/// A page of a report by country, `sessions` being the row's number.
pub(super) fn page(rows: std::ops::Range<u64>, row_count: u64) -> Value {
    let rows: Vec<Value> = rows
        .map(|row| json!({"dimensionValues": [{"value": format!("country {row}")}], "metricValues": [{"value": row.to_string()}]}))
        .collect();
    json!({
        "dimensionHeaders": [{"name": "country"}], "metricHeaders": [{"name": "sessions", "type": "TYPE_INTEGER"}],
        "rows": rows, "rowCount": row_count,
        "totals": [{"dimensionValues": [{"value": "RESERVED_TOTAL"}], "metricValues": [{"value": "4711"}]}],
        "metadata": {"currencyCode": "EUR", "timeZone": "Europe/Berlin"}, "kind": "analyticsData#runReport",
    })
}
