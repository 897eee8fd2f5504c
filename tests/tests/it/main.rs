//! Black-box tests: they start the built servers and speak the protocol with them.
//!
//! Most of them are data, in `vectors/`. What data can't say is here as Rust.

mod acp;
mod allow_list;
mod audit;
mod bigquery;
mod bridge;
mod check;
mod command_line;
mod files;
mod footprint;
mod ga4;
mod google;
mod gsc;
mod host;
mod host_tables;
mod hostile;
mod http;
mod identities;
mod mutations;
mod process;
mod published;
mod rules;
mod server;
mod sessions;
mod stream;
mod streamable_http;
mod tables;
mod vectors;
mod wire;
