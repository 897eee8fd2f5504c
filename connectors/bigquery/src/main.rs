//! ACP connector for Google BigQuery.

mod api;
mod blocks;
mod connector;
mod errors;
mod estimate;
mod exports;
mod gate;
mod load;
mod params;
mod policy;
mod query;
mod resources;
mod schemas;
mod settings;
mod shards;
mod spending;
mod sql;
mod tools;
mod types;

fn main() -> std::process::ExitCode {
    acp_core::run(|args: acp_google::GoogleArgs| Ok(connector::connector(args.connect()?)))
}
