//! `acp config`: the bridge in the settings of MCP clients.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::bridge::SERVER;
use crate::folders::Folders;
use crate::report::{Failure, Report};

/// Arguments.
#[derive(Args)]
pub(super) struct Arguments {
    /// The client
    #[arg(long, value_enum)]
    client: Client,
}

#[derive(Clone, Copy, ValueEnum)]
enum Client {
    /// Claude Desktop: claude_desktop_config.json
    Claude,
    /// Cursor: .cursor/mcp.json
    Cursor,
    /// VS Code: .vscode/mcp.json
    Vscode,
}

impl Client {
    /// The key under which it lists servers, and whether it wants their type.
    fn form(self) -> (&'static str, bool) {
        match self {
            Self::Claude | Self::Cursor => ("mcpServers", false),
            Self::Vscode => ("servers", true),
        }
    }
}

pub(super) fn run(folders: &Folders, arguments: &Arguments) -> Result<Report, Failure> {
    let program = std::env::current_exe()?;
    let project = folders.project()?;
    let mut words = vec!["bridge".to_owned(), "--project".to_owned(), project.display().to_string()];
    for (flag, path) in folders.named()? {
        words.extend([flag.to_owned(), path.display().to_string()]);
    }
    let (key, typed) = arguments.client.form();
    let mut server = json!({"command": program, "args": words});
    if typed {
        server["type"] = "stdio".into();
    }
    let snippet = json!({key: {SERVER: server}});
    Ok(Report::new(format!("{snippet:#}"), snippet))
}
