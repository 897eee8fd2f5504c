//! A server without a source: the conformance vectors drive it, so that what they find is a matter of `acp-core`.
//!
//! It stands on the public API of the core alone. What it has is computed: 142 accounts, four blocks, and tools that
//! answer, fail, panic or take their time as they are told.

mod about;
mod source;
mod tools;

use std::process::ExitCode;

use acp_core::{Clock, Connector, Error, Result};
use clap::{Args, ValueEnum};

use crate::source::{Toy, alpha, beta, flaky, gamma};

/// Which toy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Variant {
    /// All of it.
    Toy,
    /// Does not attach autocontext to first calls.
    Nofirst,
    /// Needs no credentials.
    Nocred,
}

/// Flags of the toy.
#[derive(Args)]
struct ToyArgs {
    /// Which toy it is.
    #[arg(long, value_enum, default_value = "toy")]
    variant: Variant,
    /// A clock that stands still, such as 2026-10-12T10:16:30Z.
    #[arg(long)]
    clock: Option<String>,
}

fn main() -> ExitCode {
    acp_core::run(|flags| Ok(connector(flags)?))
}

fn connector(flags: ToyArgs) -> Result<Connector> {
    let about = about::about(flags.variant)?;
    let toy = Toy::new(flags.variant != Variant::Nocred);
    Ok(Connector::builder(about, toy)
        .clock(clock(flags.clock.as_deref())?)
        .block("alpha", "Id and region of the account.", alpha)
        .block_for("beta", "Tables of the account.", &["account"], None, beta)
        .block_for("gamma", "Columns of the table.", &["table"], None, gamma)
        .block("flaky", "Remarks about the account.", flaky)
        .tool::<tools::rows::Rows>()
        .tool::<tools::raw::Raw>()
        .tool::<tools::host_tables::CopyTable>()
        .tool::<tools::host_tables::LoadTable>()
        .tool::<tools::peek::Peek>()
        .tool::<tools::boom::Boom>()
        .tool::<tools::sql::RunSql>()
        .tool::<tools::snap::Snap>()
        .tool::<tools::slow::Slow>()
        .build())
}

fn clock(text: Option<&str>) -> Result<Clock> {
    let Some(text) = text else { return Ok(Clock::System) };
    let timestamp = text.parse().map_err(|_| Error::invalid_arguments("--clock must be a time in UTC."))?;
    Ok(Clock::Fixed(timestamp))
}
