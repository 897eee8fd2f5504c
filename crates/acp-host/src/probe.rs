//! Start a server, look at what it publishes, and close it: what a host does before it installs one (13.1.1).

use acp_protocol::capability::ServerCapability;

use crate::client::{ClientError, ClientOptions, Tool};
use crate::launch::Launch;

/// What a server published when it was started.
#[derive(Clone, Debug)]
pub struct Probe {
    /// `serverInfo.name`.
    pub server_name: String,
    /// `serverInfo.version`.
    pub server_version: String,
    /// `capabilities.experimental.acp`.
    pub capability: ServerCapability,
    /// `tools/list`.
    pub tools: Vec<Tool>,
}

/// Starts the server, requires it to announce a compatible ACP version and to answer `tools/list`, and closes it.
pub async fn probe(launch: &Launch, options: ClientOptions) -> Result<Probe, ClientError> {
    let server = launch.spawn(options)?;
    let seen = look(&server).await;
    server.close().await.map_err(|error| ClientError::Start(format!("can't close the server: {error}")))?;
    seen
}

async fn look(server: &crate::launch::Server) -> Result<Probe, ClientError> {
    let welcome = server.client().initialize().await?;
    let Some(capability) = welcome.acp else {
        return Err(ClientError::Protocol(match welcome.acp_version {
            None => "it doesn't announce capabilities.experimental.acp".to_owned(),
            Some(version) => {
                format!("it speaks ACP {version}, this host speaks {}", acp_protocol::PROTOCOL_VERSION)
            }
        }));
    };
    let tools = server.client().list_tools().await?;
    Ok(Probe { server_name: welcome.server_name, server_version: welcome.server_version, capability, tools })
}
