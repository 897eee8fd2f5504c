//! Hosts on the client libraries: each drives `acp-toy` as an ACP host does, over stdio and over HTTP.

use tokio::process::Command;

use super::tools::{self, Tools};
use crate::Result;

/// Folder, and the program that uses what is installed in it.
const TYPESCRIPT: [(&str, &str); 2] = [("typescript-1", "typescript-1.mjs"), ("typescript-2", "typescript-2.mjs")];
const PYTHON: [(&str, &str); 3] =
    [("python-1", "python_1.py"), ("python-2", "python_2.py"), ("fastmcp", "fastmcp_client.py")];

/// Runs this part.
pub(super) async fn run(tools: &Tools) -> Result<()> {
    for (id, script) in TYPESCRIPT {
        let (pinned, folder) = tools.install(id).await?;
        // Node.js looks for libraries in the folders above a program.
        for script in [script, "host.mjs"] {
            std::fs::copy(tools::source(script), folder.join(script))?;
        }
        let name = format!("{} {}", pinned.name, pinned.version);
        let node = || {
            let mut node = tools.node();
            node.arg(folder.join(script));
            node
        };
        drive(tools, &name, node).await?;
    }
    for (id, script) in PYTHON {
        let (pinned, folder) = tools.install(id).await?;
        let name = format!("{} {}", pinned.name, pinned.version);
        let python = || {
            let mut python = Command::new(tools::python(&folder));
            // No compiled files beside the sources.
            python.arg("-B").arg(tools::source(script));
            python
        };
        drive(tools, &name, python).await?;
    }
    Ok(())
}

async fn drive(tools: &Tools, name: &str, host: impl Fn() -> Command) -> Result<()> {
    let toy = super::program("acp-toy")?;
    super::step(&format!("{name}, stdio"), async {
        super::checked(host().arg("stdio").arg(&toy), &tools.scratch()?).await
    })
    .await?;
    super::step(&format!("{name}, HTTP"), async {
        let scratch = tools.scratch()?;
        let served = super::toy_over_http(&scratch).await?;
        super::checked(host().arg("http").arg(&served.url), &scratch).await
    })
    .await
}
