//! A whole connector: a library that lists its loans. `cargo run --example minimal` waits for an MCP client.

use std::process::ExitCode;
use std::time::Duration;

use acp_core::{About, Call, Cell, Connector, Error, Extraction, Hints, Resource, Result, Source, Tool, ToolSpec};
use acp_protocol::autocontext::ResourceSummary;
use acp_protocol::capability::{CostModel, ResourceIdInfo};
use acp_protocol::result::{ColumnType, Header};
use acp_protocol::setup::CredentialsSchema;

/// Where data come from. A real source would hold an HTTP client.
struct Library;

impl Source for Library {
    // What a person or a model may write as resource_id, and its normal form.
    fn resource(&self, id: &str) -> Result<Resource> {
        match id.to_lowercase().as_str() {
            branch @ ("central" | "north") => Ok(Resource { id: branch.to_owned(), level: "branch" }),
            _ => Err(Error::resource_not_found("There is no such branch. Use central or north.")),
        }
    }

    // What the credentials of the call can see.
    async fn resources(&self, _: &Call) -> Result<Vec<ResourceSummary>> {
        Ok(vec![ResourceSummary::new("central", "Central library"), ResourceSummary::new("north", "North branch")])
    }
}

/// Lists the loans of a branch.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Loans {
    /// Fewest copies that must be on loan.
    #[serde(default)]
    min_copies: u32,
}

impl Tool for Loans {
    type Source = Library;
    type Answer = Extraction; // A table; `Tables` would be several, `Info` any other JSON.
    const SPEC: ToolSpec =
        ToolSpec { name: "loans", title: "Loans", resource: true, credentials: false, hints: Hints::READS_LOCAL };

    async fn run(self, _: &Library, call: &Call) -> Result<Extraction> {
        let headers =
            vec![Header::dimension("title", ColumnType::String), Header::metric("copies", ColumnType::Integer)];
        let mut table = call.table(headers)?;
        for (title, copies) in [("Dune", 3), ("Emma", 1)] {
            if copies >= self.min_copies {
                table.push(&[Cell::Text(title), Cell::Integer(copies.into())])?;
            }
        }
        Ok(Extraction::new(table, format!("Loans of the library branch {}.", call.resource()?.id)))
    }
}

fn main() -> ExitCode {
    acp_core::run(|(): ()| {
        let about = About {
            name: "library",
            title: "Library",
            version: env!("CARGO_PKG_VERSION"),
            instructions: "Loans of a library. Start with autocontext to choose a branch.",
            row_limit: 25,
            cost_limit_usd: 0.0,
            credentials: CredentialsSchema::none(),
            config: None,
            resource_id: ResourceIdInfo::new("Branch", "Name of a branch", "<branch>", "central"),
            resource_urls: &[],
            cache_ttl: Duration::from_secs(3600),
            delivery: About::EVERY_DELIVERY,
            cost_model: CostModel::Free,
            cost_description: "Free.",
        };
        let hours = |_, _| async { Ok(serde_json::json!({"open": "9-17"})) };
        Ok(Connector::builder(about, Library).block("hours", "Opening hours.", hours).tool::<Loans>().build())
    })
}
