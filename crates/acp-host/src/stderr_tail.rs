//! The last lines that a server wrote to its standard error.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

/// Lines kept; a server's last words fit, a chatty log doesn't grow.
const LINES: usize = 40;
/// Bytes kept of a line.
const LINE_BYTES: usize = 500;

/// The last lines of a server's standard error, for messages about a server that died. Clones share the lines.
#[derive(Clone, Debug)]
pub struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    ended: watch::Receiver<bool>,
}

impl StderrTail {
    /// Reads `source` to its end in a task of its own, and passes it on to the standard error of this process when `forward`
    /// is set.
    pub fn follow(source: impl AsyncRead + Send + Unpin + 'static, forward: bool) -> Self {
        let (end, ended) = watch::channel(false);
        let tail = Self { lines: Arc::default(), ended };
        let lines = tail.lines.clone();
        tokio::spawn(async move {
            read_lines(source, &lines, forward).await;
            end.send_replace(true);
        });
        tail
    }

    /// The lines kept, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Waits until the stream has ended, so that the last words are there; not longer than `patience`.
    pub async fn settled(&self, patience: Duration) {
        let mut ended = self.ended.clone();
        let _ = tokio::time::timeout(patience, ended.wait_for(|ended| *ended)).await;
    }
}

async fn read_lines(mut source: impl AsyncRead + Unpin, lines: &Mutex<VecDeque<String>>, forward: bool) {
    let mut chunk = [0; 4096];
    let mut line = Vec::new();
    while let Ok(count @ 1..) = source.read(&mut chunk).await {
        if forward {
            let _ = std::io::stderr().write_all(&chunk[..count]);
        }
        for byte in &chunk[..count] {
            match byte {
                b'\n' => keep(lines, &mut line),
                _ if line.len() < LINE_BYTES => line.push(*byte),
                _ => {}
            }
        }
    }
    keep(lines, &mut line);
}

fn keep(lines: &Mutex<VecDeque<String>>, line: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(line).trim_end().to_owned();
    line.clear();
    if text.is_empty() {
        return;
    }
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() == LINES {
        lines.pop_front();
    }
    lines.push_back(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_last_lines_are_kept_and_long_ones_are_cut() {
        let text: String = (0..100).map(|n| format!("{n} {}\n\n", "x".repeat(1000))).collect();
        let tail = StderrTail::follow(std::io::Cursor::new(text.into_bytes()), false);
        tail.settled(Duration::from_secs(5)).await;
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].len()), (LINES, LINE_BYTES));
        assert!(lines[LINES - 1].starts_with("99 "));
    }
}
