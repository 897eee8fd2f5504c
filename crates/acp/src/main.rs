//! `acp`: the host side of ACP on the command line.

mod bridge;
mod query;

use std::path::PathBuf;
use std::process::ExitCode;

use acp_host::host::{Host, HostOptions};
use acp_host::launch::Environment;

#[derive(clap::Parser)]
struct Cli {
    #[arg(long, env = "ACP_BRIDGE_PROJECT")]
    project: PathBuf,
    #[arg(long)]
    sources: PathBuf,
    #[arg(long)]
    root: PathBuf,
}

fn main() -> ExitCode {
    let cli = <Cli as clap::Parser>::parse_from(std::env::args_os().skip(1));
    let options = HostOptions {
        system: cli.root.join("acps"),
        project_packages: None,
        sources: cli.sources,
        state: cli.project.join(".state"),
        project: cli.project,
        name: "bridge".to_owned(),
        environment: Environment::Essential,
        variables: Vec::new(),
        query_hint: Some("Query it with acp_query.".to_owned()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let code = runtime.block_on(async {
        match Host::new(options) {
            Ok(host) => bridge::serve(host).await,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    code
}
