//! ACP connector for Google Search Console.

mod api;
mod blocks;
mod check;
mod connector;
mod countries;
mod filters;
mod report;
mod resources;
mod search;
mod store;
mod tools;
mod window;

fn main() -> std::process::ExitCode {
    acp_core::run(|args: acp_google::GoogleArgs| Ok(connector::connector(args.connect()?)))
}
