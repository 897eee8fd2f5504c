//! A server of ours that serves HTTP, for as long as a task needs it.

use std::process::Stdio;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::Result;

/// How long a server may take to say where it listens.
const START: Duration = Duration::from_secs(10);

/// The server; it ends when this is dropped.
pub(crate) struct Served {
    _process: Child,
    /// Where it listens.
    pub(crate) url: String,
}

/// How it answers a client that asks for the newest revision with sessions.
pub(crate) struct Greeting {
    /// Of the answer.
    pub(crate) status: StatusCode,
    /// Whether a session began.
    pub(crate) session: bool,
    /// The revision of MCP that it chose.
    pub(crate) revision: Option<String>,
}

impl Served {
    /// Starts it, with a command that has `--port 0` among its arguments.
    pub(crate) async fn start(command: &mut Command) -> Result<Self> {
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(process.stderr.take().ok_or("the server has no output")?).lines();
        let line = tokio::time::timeout(START, lines.next_line()).await.map_err(|_| "the server says nothing")??;
        let line = line.ok_or("the server ended at once")?;
        let url = line.strip_prefix("listening on ").ok_or(format!("the server says {line:?}"))?.to_owned();
        // Read on, so that the server never waits for somebody to read its log.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _process: process, url })
    }

    /// Greets it as a client does.
    pub(crate) async fn greet(&self) -> Result<Greeting> {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "xtask", "version": "0"}}});
        let answer = crate::bench::http()?
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .json(&hello)
            .send()
            .await?;
        let (status, session) = (answer.status(), answer.headers().contains_key("mcp-session-id"));
        let text = answer.text().await?;
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok());
        let revision = events.filter_map(|event| event["result"]["protocolVersion"].as_str().map(str::to_owned)).next();
        Ok(Greeting { status, session, revision })
    }
}
