//! `google-sandbox`: starts the stand-in, says where it is, and runs until it is told to end.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use google_sandbox::{DEFAULT_SEED, Options, Sandbox};
use serde_json::json;

/// A local stand-in for the Google APIs, computed from one seeded event log.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// TCP port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Directory for the credential files (made if absent)
    #[arg(long)]
    dir: PathBuf,
    /// Seed of the event log: the same seed on the same day gives the same data
    #[arg(long, default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Milliseconds added to every answer
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("google-sandbox: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> io::Result<()> {
    let sandbox = google_sandbox::start(Options {
        port: arguments.port,
        dir: arguments.dir,
        seed: arguments.seed,
        latency: Duration::from_millis(arguments.latency_ms),
    })
    .await?;
    announce(&sandbox)?;
    until_told().await?;
    sandbox.shutdown().await;
    Ok(())
}

/// One line on stdout: whoever started the process waits for it.
fn announce(sandbox: &Sandbox) -> io::Result<()> {
    let files = sandbox.credentials();
    let line = json!({
        "url": sandbox.url(),
        "credentials": {"full": files.full, "limited": files.limited, "oauth": files.oauth},
    });
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

#[cfg(unix)]
async fn until_told() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

#[cfg(not(unix))]
async fn until_told() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
