//! Processes that are measured: what they used, from /proc, and the sandbox they talk to.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Result;

/// Linux counts processor time in hundredths of a second wherever a program can see it.
const TICKS_PER_SECOND: u64 = 100;

/// What a process used so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Processor time, in user and kernel mode.
    pub(crate) cpu: Duration,
    /// The most memory it had, in bytes.
    pub(crate) peak: u64,
    /// The memory it has, in bytes.
    pub(crate) resident: u64,
}

/// Whether processes can be measured here.
pub(crate) fn supported() -> Result<()> {
    match Path::new("/proc/self/status").exists() {
        true => Ok(()),
        false => Err("the bench reads /proc, which this system does not have".into()),
    }
}

impl Usage {
    /// Of a running process.
    pub(crate) fn of(id: u32) -> Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        // The name in brackets may hold anything; fields are counted from behind it.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        Ok(Self {
            cpu: Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS_PER_SECOND),
            peak: kilobytes("VmHWM").unwrap_or_default() * 1024,
            resident: kilobytes("VmRSS").unwrap_or_default() * 1024,
        })
    }
}

/// A sandbox in a process of its own, so that its work counts for nobody else.
pub(crate) struct Sandbox {
    child: Child,
    pub(crate) url: String,
    pub(crate) credentials: PathBuf,
    pub(crate) oauth: PathBuf,
}

impl Sandbox {
    /// Each of its answers takes so long.
    pub(crate) fn start(release: &Path, folder: &Path, latency: Duration) -> Result<Self> {
        let mut command = Command::new(release.join("google-sandbox"));
        command.args(["--port", "0", "--latency-ms", &latency.as_millis().to_string(), "--dir"]).arg(folder);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("the sandbox has no output")?).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self {
            child,
            url: text(&ready["url"]),
            credentials: text(&ready["credentials"]["full"]).into(),
            oauth: text(&ready["credentials"]["oauth"]).into(),
        })
    }

    pub(crate) async fn facts(&self) -> Result<Value> {
        super::client::http()?
            .get(format!("{}/__sandbox/facts", self.url))
            .send()
            .await?
            .json()
            .await
            .map_err(Into::into)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
