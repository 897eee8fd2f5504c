//! What a process holds: memory, files and threads. Only Linux tells; elsewhere nothing is checked.

use std::time::{Duration, Instant};

/// How long a process may take to let go of what it does not need any more. Idle threads live for ten seconds.
const LETTING_GO: Duration = Duration::from_secs(30);

/// What a process holds at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// Resident memory in KiB.
    memory: u64,
    /// Open files, pipes and sockets.
    handles: usize,
    threads: u64,
}

/// By how much a process may have grown. Memory goes back to the system in large pieces only, so that a part of what was freed
/// stays with the process. It is less than one long message.
const MARGIN_MIB: u64 = 56;
const MARGIN_THREADS: u64 = 2;
/// Connections that a client of ours keeps for its next request.
const MARGIN_HANDLES: usize = 8;

impl Footprint {
    /// That of a running process; `None` where the system does not tell.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let handles = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
        Some(Self { memory: value("VmRSS")?, handles, threads: value("Threads")? })
    }

    /// Waits until the process is about as small as before.
    pub(crate) fn came_back(before: Option<Self>, pid: u32, title: &str) {
        Self::came_back_within(before, MARGIN_MIB, pid, title);
    }

    /// As `came_back`, with another margin for its memory.
    pub(crate) fn came_back_within(before: Option<Self>, mib: u64, pid: u32, title: &str) {
        let Some(before) = before else { return };
        let deadline = Instant::now() + LETTING_GO;
        loop {
            let now = Self::of(pid).unwrap_or_else(|| panic!("{title}: the process is gone"));
            if now.memory <= before.memory + mib * 1024
                && now.handles <= before.handles + MARGIN_HANDLES
                && now.threads <= before.threads + MARGIN_THREADS
            {
                return;
            }
            assert!(Instant::now() < deadline, "{title}: {before:?} before, {now:?} after");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
