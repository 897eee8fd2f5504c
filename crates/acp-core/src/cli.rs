//! The command line that every connector has.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;
use rmcp::{ServerHandler, ServiceExt};

use crate::audit::{self, Audit};
use crate::check::{self, CheckFlags};
use crate::cleanup::Cleanup;
use crate::connector::Connector;
use crate::http::{Environment, HttpFlags, Limits, Listening, Settings};
use crate::log;
use crate::outgoing::OutgoingTables;
use crate::revisions::{self, Revisions};
use crate::server::{Folders, Server, Shared};
use crate::stdio::Lines;

/// How long the end waits for what can't be dropped at once.
const SHUTDOWN: Duration = Duration::from_millis(500);
/// Threads for one session; a process with many takes what the machine has.
const THREADS: usize = 2;
/// Exit code of a wrong command line or setting.
const USAGE: u8 = 2;

/// An ACP connector: an MCP server on stdin and stdout, started by a host.
///
/// Environment: ACP_CACHE_DIR (folder of the autocontext cache; without it, memory only), ACP_TMP_DIR (folder of table
/// files), ACP_LOG (log filter for stderr, such as debug). With --http: ACP_PORT (port) and ACP_HTTP_TOKEN (clients must
/// send it as Authorization: Bearer).
///
/// Audit: ACP_AUDIT_LOG (absolute path of a file that gets a line of JSON for every call; off without it), ACP_AUDIT_MODE
/// (best_effort or strict: no answer without its record), ACP_AUDIT_SQL (1: with the text of SQL), ACP_AUDIT_MAX_BYTES
/// (size at which the file is rotated), ACP_AUDIT_FORMAT (jsonl or otel).
///
/// No variable holds credentials of the source: the host sends them.
#[derive(Parser)]
#[command(disable_version_flag = true)]
struct Cli<A: Args> {
    #[command(flatten)]
    own: A,
    /// Print name and version.
    #[arg(short = 'V', long)]
    version: bool,
    /// Publish only these tools, separated by commas; autocontext and autocontext_data are always there.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Vec<String>,
    /// Newest revision of MCP to announce. 2026-07-28 has no sessions: its clients send settings with every call, and
    /// tools can't read tables of the host.
    #[arg(long, value_name = "REVISION", value_parser = revisions::NAMES, default_value = revisions::DEFAULT)]
    protocol_version: String,
    /// How the audit log is written: jsonl, or otel, log records of OpenTelemetry (OTLP/JSON), which the collector's
    /// receiver otlp_json_file loads. Without it, ACP_AUDIT_FORMAT counts, and then jsonl.
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    audit_format: Option<audit::Format>,
    #[command(flatten, next_help_heading = "HTTP")]
    http: HttpFlags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the tools that the connector publishes.
    Tools {
        /// As the JSON of tools/list.
        #[arg(long)]
        json: bool,
    },
    /// Print the ACP capability that the connector publishes, as JSON.
    Capability,
    /// Try credentials out, step by step, and say how to mend what does not work.
    ///
    /// Exit codes: 0 when calls will work, 2 for a wrong command line, 3 when the credentials are at fault, 4 when the
    /// source can't be reached, 5 when something at the source is.
    Check(CheckFlags),
}

/// Runs a connector: the whole `main` of its binary. `A` are its own flags (`()` for none), from which it is built.
///
/// It serves over stdio until the end of input, or with `--http` until it is asked to stop. Exit codes: 0 for these two
/// ends, 2 for a wrong command line or setting, 1 when stdin, stdout or the network fail; those of `check` are its own.
pub fn run<A: Args>(build: impl FnOnce(A) -> Result<Connector, Box<dyn std::error::Error>>) -> ExitCode {
    log::start();
    let matches = match Cli::<A>::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let cli = match Cli::<A>::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let connector = match build(cli.own) {
        Ok(connector) => connector,
        Err(error) => return refuse(&error),
    };
    let connector = match connector.only(&cli.tools) {
        Ok(connector) => connector,
        Err(error) => return refuse(&error),
    };
    let folders = Folders { cache: folder("ACP_CACHE_DIR"), tmp: folder("ACP_TMP_DIR") };
    let tmp_dir = folders.tmp.is_some();
    let mut shared = Shared::new(connector, folders);
    shared.announce(Revisions::up_to(&cli.protocol_version).unwrap_or_default());
    if cli.command.is_none() && !cli.version {
        shared.audit = match Audit::from_environment(cli.audit_format) {
            Ok(audit) => audit,
            Err(error) => return refuse(&error),
        };
    }
    let about = &shared.connector().about;
    let printed = match cli.command {
        _ if cli.version => print(&format!("{} {}", about.name, about.version)),
        Some(Command::Tools { json: true }) => print_json(&shared.tools()),
        Some(Command::Tools { json: false }) => print(&tool_list(&shared)),
        Some(Command::Capability) => print_json(&shared.connector().capability()),
        Some(Command::Check(flags)) => {
            return serve(THREADS, check::run(Arc::new(shared), flags), Cleanup::default());
        }
        None if cli.http.http => {
            return match http_settings(cli.http, tmp_dir) {
                Ok(settings) => {
                    let cleanup = shared.cleanup.clone();
                    let bind = |settings| Listening::of_connector(Arc::new(shared), settings, Limits::default());
                    serve_http(settings, bind, cleanup)
                }
                Err(error) => refuse(&error),
            };
        }
        None => {
            let cleanup = shared.cleanup.clone();
            let server = Server::new(Arc::new(shared));
            let tables = server.outgoing_tables();
            return serve(THREADS, serve_stdio(server, tables), cleanup);
        }
    };
    if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says why the process does not start.
fn refuse(why: &dyn std::fmt::Display) -> ExitCode {
    tell("error", why);
    ExitCode::from(USAGE)
}

fn tell(kind: &str, what: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{kind}: {what}");
}

/// A folder from the environment; empty is unset.
fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from)
}

fn print(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{text}")
}

fn print_json(value: &impl serde::Serialize) -> std::io::Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}

fn tool_list(shared: &Shared) -> String {
    let mut list = String::new();
    for tool in shared.tools() {
        let names: Vec<&str> = tool
            .input_schema
            .get("properties")
            .and_then(serde_json::Value::as_object)
            .into_iter()
            .flat_map(|properties| properties.keys().map(String::as_str))
            .collect();
        let description = tool.description.as_deref().unwrap_or_default();
        list.push_str(&format!("{}({})\n    {description}\n", tool.name, names.join(", ")));
    }
    list.trim_end().to_owned()
}

fn serve(threads: usize, serving: impl Future<Output = ExitCode>, cleanup: Cleanup) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the runtime could not be started");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(async {
        let code = serving.await;
        cleanup.end().await;
        code
    });
    // Calls that still run are dropped, and with them their files. Where stdin is not a pipe, a thread may go on waiting
    // for it and is left behind.
    runtime.shutdown_timeout(SHUTDOWN);
    code
}

async fn serve_stdio<S: ServerHandler>(server: S, tables: Arc<OutgoingTables>) -> ExitCode {
    let Ok(mut signals) = StopSignals::new() else { return serve_session(server, tables).await };
    // Asked to stop, the process drops its calls, and with them their files.
    tokio::select! {
        code = serve_session(server, tables) => code,
        () = signals.next() => ExitCode::SUCCESS,
    }
}

async fn serve_session<S: ServerHandler>(server: S, tables: Arc<OutgoingTables>) -> ExitCode {
    let (reader, writer) = stdio_pipes();
    let transport = Lines::new(reader, writer, tables, server.supported_protocol_versions());
    match server.serve(transport).await {
        Ok(running) => {
            let _ = running.waiting().await;
            ExitCode::SUCCESS
        }
        // The host looked and left.
        Err(ServerInitializeError::ConnectionClosed(_)) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the session could not be started");
            ExitCode::FAILURE
        }
    }
}

fn http_settings(flags: HttpFlags, tmp_dir: bool) -> Result<Settings, String> {
    let (port, token) = (std::env::var_os("ACP_PORT"), std::env::var_os("ACP_HTTP_TOKEN"));
    Settings::new(flags, &Environment { port, token, tmp_dir })
}

fn serve_http<S: ServerHandler, L>(settings: Settings, bind: impl FnOnce(Settings) -> L, cleanup: Cleanup) -> ExitCode
where
    L: Future<Output = std::io::Result<Listening<S>>>,
{
    if let Some(warning) = settings.warning {
        tell("warning", &warning);
    }
    let threads = std::thread::available_parallelism().map_or(THREADS, |count| count.get().max(THREADS));
    let served = async {
        let listening = bind(settings).await?;
        let stop = futures::stream::unfold(StopSignals::new()?, async |mut signals| {
            signals.next().await;
            Some(((), signals))
        });
        let _ = writeln!(std::io::stderr(), "listening on {}", listening.url());
        listening.run(stop).await
    };
    let serving = async {
        match served.await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tell("error", &format!("the server can't serve HTTP: {error}"));
                ExitCode::FAILURE
            }
        }
    };
    serve(threads, serving, cleanup)
}

/// Runs any MCP server on the transports of connectors: on stdin and stdout, or with `--http` and its flags. `session`
/// makes the handler of each session. Connectors call [`run`]; this is for suites that test the transports alone.
#[cfg(feature = "any-server")]
pub fn run_server<S: ServerHandler>(session: impl Fn() -> S + Send + Sync + 'static) -> ExitCode {
    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        http: HttpFlags,
    }
    log::start();
    let flags = Flags::parse().http;
    if !flags.http {
        return serve(THREADS, serve_stdio(session(), Arc::default()), Cleanup::default());
    }
    match http_settings(flags, false) {
        Ok(settings) => {
            let bind = |settings| Listening::of(session, Arc::default(), settings, Limits::default());
            serve_http(settings, bind, Cleanup::default())
        }
        Err(error) => refuse(&error),
    }
}

/// Serves any MCP server on stdin and stdout, until the end of input or a signal to stop. For programs that are no
/// connectors and want the same strict lines; they bring their own runtime.
#[cfg(feature = "any-server")]
pub async fn serve_over_stdio<S: ServerHandler>(server: S) -> ExitCode {
    serve_stdio(server, Arc::default()).await
}

/// What asks the process to stop.
struct StopSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
