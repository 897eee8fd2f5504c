//! The server side of ACP: everything a connector needs, whatever its source.
//!
//! A connector declares itself once ([`Connector::builder`]), writes each tool as one struct ([`Tool`]) and calls
//! [`run`] in its `main`. The core speaks MCP, keeps what hosts configure, checks arguments, types and delivers the
//! tables, caches autocontext, and turns every failure into a typed answer. `examples/minimal.rs` is a whole
//! connector.
//!
//! From a line of input to its answer: `stdio` or `http` reads it, `server` checks the call in a fixed order and runs the
//! tool, the tool pushes rows into a `table`, `answer` puts the three parts together, and
//! the transport writes them.

mod access;
mod answer;
mod arguments;
mod audit;
mod autocontext;
mod cache;
mod call;
mod cell;
mod check;
mod cleanup;
mod cli;
mod clock;
mod connector;
mod credentials;
mod dates;
mod envelope;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod host_tables;
mod http;
mod links;
mod log;
mod outgoing;
mod revisions;
mod server;
mod session;
mod spool;
mod stdio;
mod table;
mod tables;
mod tool;

pub use access::{Access, AccessMode, Operation};
pub use call::Call;
pub use cell::{Cell, is_exact_as_float};
pub use check::{Fault, Steps};
pub use cleanup::Cleanup;
pub use cli::run;
#[cfg(feature = "any-server")]
pub use cli::{run_server, serve_over_stdio};
pub use clock::Clock;
pub use connector::{About, BlockData, Builder, Connector, Resource, Source};
pub use credentials::{Credentials, Identity, Secret};
pub use dates::DateWindow;
pub use error::{Error, Result};
pub use host_tables::{HostRow, HostTable};
pub use table::{ObjectTable, TableWriter};
pub use tables::{NamedTable, Tables};
pub use tool::{Answer, Extraction, Hints, Info, Tool, ToolSpec, read_arguments, repaired_arguments};
