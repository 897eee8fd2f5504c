//! HTTP as bytes on a socket: what no client library would send.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::server::{Message, PATIENCE, Server};

/// The request that begins a session.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}"#;

/// A connection.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    /// A new connection to a server.
    pub(crate) fn to(server: &Server) -> Self {
        let address = server.url().trim_start_matches("http://").trim_end_matches("/mcp");
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{}: {error}", server.title()));
        // A long message on a busy machine takes its time.
        stream.set_read_timeout(Some(12 * PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(12 * PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream) }
    }

    /// Begins a session and gives its id.
    pub(crate) fn begin(&mut self) -> Result<String, Reply> {
        let reply = self.post("", INITIALIZE.as_bytes());
        let Some(session) = reply.header("mcp-session-id").map(str::to_owned) else { return Err(reply) };
        let begun = self.post(&session, br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        if begun.status == 202 { Ok(session) } else { Err(begun) }
    }

    /// Writes bytes as they are. That the server has closed the connection is found when its answer is read.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Sends a message in a session (none if empty) and reads what comes back.
    pub(crate) fn post(&mut self, session: &str, body: &[u8]) -> Reply {
        let shown = || String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
        self.try_post(session, body).unwrap_or_else(|error| panic!("no reply to {}: {error}", shown()))
    }

    /// As `post`, where the connection may end before the reply does.
    pub(crate) fn try_post(&mut self, session: &str, body: &[u8]) -> std::io::Result<Reply> {
        self.write(&post(session, body));
        self.reply()
    }

    /// Ends a session; says whether there was one.
    pub(crate) fn end(&mut self, session: &str) -> bool {
        self.write(format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {session}\r\n\r\n").as_bytes());
        self.reply().is_ok_and(|reply| reply.status == 204)
    }

    /// Reads one reply; an error where the connection ends before it does.
    pub(crate) fn reply(&mut self) -> std::io::Result<Reply> {
        let broken = || std::io::Error::other("the reply is not HTTP");
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(broken)?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut reply = Reply { status, headers, body: Vec::new() };
        if status == 100 {
            return self.reply();
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).map_err(|_| broken())?;
                let start = reply.body.len();
                reply.body.resize(start + size, 0);
                self.stream.read_exact(&mut reply.body[start..])?;
                self.line()?;
                if size == 0 {
                    return Ok(reply);
                }
            }
        }
        let length = reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        reply.body.resize(length, 0);
        self.stream.read_exact(&mut reply.body)?;
        Ok(reply)
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn half_close(&self) {
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
    }

    /// Whether the server closes the connection within a time, whatever it says before.
    pub(crate) fn is_closed_within(&mut self, time: Duration) -> bool {
        self.stream.get_ref().set_read_timeout(Some(time)).expect("a timeout");
        match std::io::copy(&mut self.stream, &mut std::io::sink()) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A request with a message, as bytes; `session` may be empty.
pub(crate) fn post(session: &str, body: &[u8]) -> Vec<u8> {
    let mut request = head(session, &[("Content-Length", &body.len().to_string())]);
    request.extend_from_slice(body);
    request
}

/// The head of a POST with the headers that MCP asks for, and some more.
pub(crate) fn head(session: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\n"
        .to_owned();
    if !session.is_empty() {
        head.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
    }
    for (name, value) in more {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Reply {
    /// A header by its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The last message in it, which is the answer where there is one.
    pub(crate) fn message(&self) -> Option<Message> {
        let body = self.text();
        let text = match self.header("content-type")? {
            "text/event-stream" => {
                let mut data = body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
                data.rfind(|data| !data.is_empty())?.to_owned()
            }
            "application/json" => body,
            _ => return None,
        };
        let json = serde_json::from_str(&text).ok()?;
        Some(Message { text, json, status: Some(self.status) })
    }

    /// The JSON of that message.
    pub(crate) fn answer(&self) -> Option<Value> {
        self.message().map(|message| message.json)
    }
}
