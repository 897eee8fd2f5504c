//! ACP connector for Google Analytics 4.

mod amount;
mod api;
mod blocks;
mod connector;
mod fields;
mod filters;
mod held;
mod question;
mod quota;
mod report;
mod resources;
mod tools;
mod warnings;

fn main() -> std::process::ExitCode {
    acp_core::run(|args: acp_google::GoogleArgs| Ok(connector::connector(args.connect()?)))
}
