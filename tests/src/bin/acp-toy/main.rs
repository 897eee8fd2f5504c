//! A server without a source: the conformance vectors drive it, so that what they find is a matter of `acp-core`.
//!
//! It stands on the public API of the core alone. What it has is computed: 142 accounts, four blocks, and tools that
//! answer, fail, panic or take their time as they are told.

mod about;
mod source;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use acp_core::{Builder, Clock, Connector, Error, Result};
use clap::{Args, ValueEnum};

use crate::source::{Toy, alpha, beta, flaky, gamma};

/// Which toy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Variant {
    /// All of it.
    Toy,
    /// Its queries cost money.
    Paid,
    /// Has tools of several tables.
    Multi,
    /// As `multi`, with a catalogue.
    Cat,
    /// As `cat`, with nothing selected by default and a catalogue for every tool.
    Cat0,
    /// Works on no remote resource.
    Nores,
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
    /// The catalogue has no required table.
    #[arg(long)]
    optional_only: bool,
    /// Seconds that the host has for a table.
    #[arg(long)]
    host_patience: Option<f64>,
    /// A clock that stands still, such as 2026-10-12T10:16:30Z.
    #[arg(long)]
    clock: Option<String>,
}

fn main() -> ExitCode {
    acp_core::run(|flags| Ok(connector(flags)?))
}

fn connector(flags: ToyArgs) -> Result<Connector> {
    let variant = flags.variant;
    let toy = Toy::new(variant != Variant::Nocred);
    let mut builder = Connector::builder(about::about(variant)?, toy).clock(clock(flags.clock.as_deref())?);
    if let Some(seconds) = flags.host_patience {
        builder = builder.host_patience(Duration::from_secs_f64(seconds));
    }
    if let Some((entries, defaults)) = about::catalogue(variant, flags.optional_only) {
        builder = builder.table_catalog(entries, defaults);
    }
    if variant == Variant::Nores {
        return Ok(builder.tool::<tools::host_tables::CopyTable>().build());
    }
    let builder = with_tools(builder, variant)
        .block("alpha", "Id and region of the account.", alpha)
        .block_for("beta", "Tables of the account.", &["account"], None, beta)
        .block_for("gamma", "Columns of the table.", &["table"], None, gamma)
        .block("flaky", "Remarks about the account.", flaky);
    Ok(builder.build())
}

fn with_tools(builder: Builder<Toy>, variant: Variant) -> Builder<Toy> {
    let builder = builder
        .tool::<tools::rows::Rows>()
        .tool::<tools::raw::Raw>()
        .tool::<tools::host_tables::CopyTable>()
        .tool::<tools::host_tables::LoadTable>()
        .tool::<tools::peek::Peek>()
        .tool::<tools::boom::Boom>();
    let builder = match variant {
        Variant::Paid => builder.tool::<tools::sql::PaidSql>(),
        _ => builder.tool::<tools::sql::RunSql>(),
    };
    let builder = builder.tool::<tools::snap::Snap>().tool::<tools::slow::Slow>();
    match variant {
        Variant::Multi | Variant::Cat | Variant::Cat0 => {
            builder.field_limit(20).tool::<tools::shoot::Shoot>().tool::<tools::shoot::Capture>()
        }
        _ => builder,
    }
}

fn clock(text: Option<&str>) -> Result<Clock> {
    let Some(text) = text else { return Ok(Clock::System) };
    let timestamp = text.parse().map_err(|_| Error::invalid_arguments("--clock must be a time in UTC."))?;
    Ok(Clock::Fixed(timestamp))
}
