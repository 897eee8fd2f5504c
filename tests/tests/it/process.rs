//! The process of a server: how it is started, everything it writes, and its end.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::server::{Incoming, PATIENCE};

/// A process that is killed when nobody needs it any more.
pub(crate) struct Process {
    pub(crate) root: Arc<TempDir>,
    child: Mutex<Child>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

/// What comes out of a process that was started.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) stdin: ChildStdin,
    /// The lines of stdout.
    pub(crate) lines: Receiver<Incoming>,
    /// Where it says that it listens, once it does.
    pub(crate) listening: Receiver<String>,
}

/// What is left of a process.
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Process {
    /// Starts it in the folders of `root`, with no variables but these.
    pub(crate) fn start(
        program: &Path,
        arguments: &[OsString],
        variables: &[(String, String)],
        root: Arc<TempDir>,
    ) -> Started {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root.path().join("cwd")).env_clear();
        for kept in ["PATH", "SystemRoot", "LLVM_PROFILE_FILE"] {
            command.envs(std::env::var_os(kept).map(|value| (kept, value)));
        }
        for folder in ["TMPDIR", "TEMP", "TMP"] {
            command.env(folder, root.path().join("os-tmp"));
        }
        command.env("TZ", "UTC");
        for (name, value) in variables {
            command.env(name, value.replace("$ROOT", &root.path().to_string_lossy()));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let (stdout, stderr) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let out = BufReader::new(child.stdout.take().expect("stdout"));
        let err = BufReader::new(child.stderr.take().expect("stderr"));
        let (line, lines) = channel();
        let (url, listening) = channel();
        let (kept_out, kept_err) = (stdout.clone(), stderr.clone());
        let readers = vec![
            std::thread::spawn(move || {
                read_lines(out, &kept_out, |text| _ = line.send(Incoming { text, status: None }))
            }),
            std::thread::spawn(move || {
                read_lines(err, &kept_err, |text| {
                    if let Some(address) = text.strip_prefix("listening on ") {
                        let _ = url.send(address.trim().to_owned());
                    }
                });
            }),
        ];
        let stdin = child.stdin.take().expect("stdin");
        let process = Self { root, child: Mutex::new(child), stdout, stderr, readers: Mutex::new(readers) };
        Started { process, stdin, lines, listening }
    }

    /// Its id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().expect("child").id()
    }

    /// Asks it to end; where there are no signals, ends it.
    pub(crate) fn ask_to_end(&self) {
        let mut child = self.child.lock().expect("child");
        if cfg!(unix) {
            let asked = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            assert!(asked.is_ok_and(|status| status.success()), "the server has ended before it was asked to");
        } else {
            let _ = child.kill();
        }
    }

    /// Waits for the end, which something else has brought about.
    pub(crate) fn output(&self, title: &str) -> Output {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.lock().expect("child").try_wait().expect("the state of the server") {
                Some(status) => break status,
                None if Instant::now() < deadline => {}
                None => panic!("{title}: the server did not end after its input ended"),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        for reader in self.readers.lock().expect("readers").drain(..) {
            reader.join().expect("a reader");
        }
        let taken = |bytes: &Mutex<Vec<u8>>| std::mem::take(&mut *bytes.lock().expect("output"));
        Output { status, stdout: taken(&self.stdout), stderr: taken(&self.stderr) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn read_lines(mut from: impl BufRead, kept: &Mutex<Vec<u8>>, mut each: impl FnMut(String)) {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        kept.lock().expect("output").extend(&line);
        each(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
        line.clear();
    }
}
