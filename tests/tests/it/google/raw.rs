//! A Google made of bytes, for answers that no decent server gives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::Regex;
use serde_json::{Value, json};

use super::Google;
use super::source::Source;

/// What answers a request for rows: its number, from 1, and its body give the bytes of the whole answer.
type Rows = dyn Fn(usize, &Value) -> Vec<u8> + Send + Sync;

/// It grants every token, has what a source asks for beside the rows, and totals of nothing.
pub(crate) struct RawGoogle {
    pub(crate) url: String,
    asked: Arc<AtomicUsize>,
}

impl RawGoogle {
    pub(crate) fn start(
        source: &'static Source,
        sandbox: &Google,
        rows: impl Fn(usize, &Value) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://127.0.0.1:{}", listener.local_addr().expect("an address").port());
        let asked = Arc::<AtomicUsize>::default();
        let google = Self { url, asked: asked.clone() };
        let others = (source.others)(sandbox).into_iter();
        let others = others.map(|(path, answer)| (Regex::new(path).expect("a pattern"), answer)).collect();
        let answers = Arc::new(Answers { source, others, asked, rows: Box::new(rows) });
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answers = answers.clone();
                std::thread::spawn(move || serve(&stream, &answers));
            }
        });
        google
    }

    /// Requests for rows.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

struct Answers {
    source: &'static Source,
    others: Vec<(Regex, Value)>,
    asked: Arc<AtomicUsize>,
    rows: Box<Rows>,
}

impl Answers {
    fn answer(&self, path: &str, body: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(body);
        if path == "/token" {
            return ok(&json!({"access_token": "ya29.raw", "expires_in": 3599, "token_type": "Bearer"}));
        }
        if let Some((_, other)) = self.others.iter().find(|(pattern, _)| pattern.is_match(path)) {
            return ok(other);
        }
        if !Regex::new(self.source.path).expect("a pattern").is_match(path) {
            return answer(404, "application/json", b"{}");
        }
        match Regex::new(self.source.body).expect("a pattern").is_match(&text) {
            true => (self.rows)(
                self.asked.fetch_add(1, Ordering::SeqCst) + 1,
                &serde_json::from_slice(body).unwrap_or_default(),
            ),
            false => ok(&self.source.end.map_or_else(|| json!({}), |end| end())),
        }
    }
}

/// One answer per connection keeps framing simple, also where the bytes break it.
fn serve(stream: &TcpStream, answers: &Answers) {
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
    let path = head.split([' ', '?']).nth(1).unwrap_or_default();
    let answer = answers.answer(path, &body);
    let mut stream = stream;
    let _ = stream.write_all(&answer).and_then(|()| stream.flush());
}

/// A key that it takes, like any other.
pub(crate) fn credentials(sandbox: &Google) -> Value {
    let mut key = sandbox.key();
    drop(key.as_object_mut().map(|key| key.remove("token_uri")));
    json!({"type": "service_account", "service_account": key.to_string()})
}

/// A well-framed answer.
pub(crate) fn answer(status: u16, content_type: &str, body: &[u8]) -> Vec<u8> {
    framed(status, &format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len()), body)
}

/// An answer with these header lines.
pub(crate) fn framed(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} X\r\n{headers}Connection: close\r\n\r\n").into_bytes();
    bytes.extend(body);
    bytes
}

pub(crate) fn ok(body: &Value) -> Vec<u8> {
    answer(200, "application/json; charset=UTF-8", body.to_string().as_bytes())
}
