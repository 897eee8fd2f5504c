//! The host side of ACP 1.0 as a library, for programs that install connectors, start them and keep what they extract.
//!
//! One module per thing a host does, in the order in which it does them:
//!
//! - [`package`]: what lies in a connector's folder, and which folders there are
//! - [`install`]: a zip becomes a folder, once its server has proved to work ([`archive`] reads the zip)
//! - [`launch`]: a folder becomes a running server
//! - [`client`]: calls to a server, and its questions to the host
//! - [`probe`]: start, look, close
//! - [`form`]: what to ask a person before the first call
//! - [`table`]: the rows of an extraction, one by one
//! - [`store`]: an extraction becomes a dataset in an `acp-data` folder
//! - [`foreign`]: CSV files that a person puts into that folder
//! - [`datasets`]: what that folder holds, for people, queries and servers that ask for a table
//! - [`sources`]: the accounts a person set up, in `sources.json`; [`secrets`] are kept elsewhere
//! - [`window`], [`artifacts`], [`notes`]: dates, files and words of a call
//! - [`host`]: all of it together, with one running server for each connector
//! - [`reload`]: ask again for what a dataset holds
//!
//! Nothing here knows a source: all that differs between connectors comes from their `acp.json`, their capability and
//! their tools (section 11.1).

pub mod archive;
pub mod artifacts;
pub mod client;
pub mod datasets;
pub mod foreign;
pub mod form;
pub mod host;
pub mod install;
pub mod launch;
pub mod notes;
pub mod package;
pub mod probe;
pub mod reload;
mod remote;
mod run;
pub mod secrets;
pub mod sources;
mod stderr_tail;
pub mod store;
pub mod table;
pub mod window;

pub use stderr_tail::StderrTail;
