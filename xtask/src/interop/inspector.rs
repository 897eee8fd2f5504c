//! MCP Inspector's command line: lists the tools, calls them with per-call `_meta`, and tells by its exit code whether a
//! tool failed.

use std::process::Output;

use serde_json::{Value, json};

use super::tools::Tools;
use crate::Result;

const PROGRAM: &str = "node_modules/@modelcontextprotocol/inspector";
/// Its exit code where a tool answers with an error.
const TOOL_FAILED: i32 = 5;

/// Runs this part.
pub(super) async fn run(tools: &Tools) -> Result<()> {
    let toy = super::program("acp-toy")?.display().to_string();
    check(tools, "stdio", &[&toy]).await?;
    check_everything(tools).await?;
    let served = super::toy_over_http(&tools.scratch()?).await?;
    check(tools, "HTTP", &[&served.url, "--transport", "http"]).await
}

/// The conformance suite speaks HTTP alone, so the fixtures are read over stdio here.
async fn check_everything(tools: &Tools) -> Result<()> {
    let (pinned, _) = tools.install("inspector").await?;
    super::step(&format!("{} {}, mcp-everything, stdio", pinned.name, pinned.version), async {
        let everything = super::program("mcp-everything")?.display().to_string();
        let read = async |arguments: &[&str]| answer(&inspect(tools, &[&everything], arguments).await?, 0);
        for (arguments, place, expected) in [
            (&["--method", "resources/list"][..], "/resources/0/uri", "test://static-text"),
            (
                &["--method", "resources/read", "--uri", "test://template/7/data"],
                "/contents/0/mimeType",
                "application/json",
            ),
            (&["--method", "prompts/list"], "/prompts/0/name", "test_simple_prompt"),
            (
                &["--method", "prompts/get", "--prompt-name", "test_prompt_with_image"],
                "/messages/0/content/type",
                "image",
            ),
            (&["--method", "tools/call", "--tool-name", "test_audio_content"], "/content/0/mimeType", "audio/wav"),
        ] {
            let answer = read(arguments).await?;
            if answer.pointer(place).is_none_or(|found| found != expected) {
                return Err(format!("{arguments:?}: {place} should be {expected}: {answer}").into());
            }
        }
        Ok("reads resources, prompts and content of every kind".to_owned())
    })
    .await
}

async fn check(tools: &Tools, transport: &str, target: &[&str]) -> Result<()> {
    let (pinned, _) = tools.install("inspector").await?;
    let name = format!("{} {}, {transport}", pinned.name, pinned.version);
    super::step(&name, async {
        let listed = inspect(tools, target, &["--method", "tools/list", "--strict"]).await?;
        let list = answer(&listed, 0)?;
        let tools_listed = list["tools"].as_array().map_or(0, Vec::len);
        if !list["tools"].to_string().contains("x-acp-") || tools_listed == 0 {
            return Err(format!("the tools are not all there: {list}").into());
        }

        let meta = json!({"credentials": {"type": "api_key", "api_key": "KEY-A-interop"}, "row_limit": 2});
        let meta = format!("acp={meta}");
        let call = ["--tool-name", "rows", "--tool-args-json", r#"{"resource_id":"acc_1","n":3}"#];
        let call = [&["--method", "tools/call"], &call[..], &["--tool-metadata", &meta]].concat();
        let called = answer(&inspect(tools, target, &call).await?, 0)?;
        let acp = &called["_meta"]["acp"];
        let seen = (&acp["system_info"]["returned_rows"], acp["system_data"]["table"].as_array().map(Vec::len));
        if seen != (&json!(2), Some(3)) {
            return Err(format!("the model should get 2 rows and the host 3: {called}").into());
        }

        let call = ["--method", "tools/call", "--tool-name", "boom", "--tool-args-json", r#"{"kind":"403perm"}"#];
        let failed = answer(&inspect(tools, target, &call).await?, TOOL_FAILED)?;
        if failed["isError"] != true || failed["_meta"]["acp"]["error"]["name"] != "ACP_RESOURCE_NOT_FOUND" {
            return Err(format!("it should be the error of the tool: {failed}").into());
        }
        Ok(format!(
            "lists {tools_listed} tools and finds no fault in their schemas, calls one with _meta.acp, and ends with code \
             {TOOL_FAILED} where a tool fails"
        ))
    })
    .await
}

/// Runs it against a server.
pub(super) async fn inspect(tools: &Tools, target: &[&str], arguments: &[&str]) -> Result<Output> {
    let (_, folder) = tools.install("inspector").await?;
    let package = std::fs::read_to_string(folder.join(PROGRAM).join("package.json"))?;
    let package: Value = serde_json::from_str(&package)?;
    let script = package["bin"]["mcp-inspector"].as_str().ok_or("the package has no program mcp-inspector")?;
    let mut node = tools.node();
    node.arg(folder.join(PROGRAM).join(script)).arg("--cli").args(target).args(arguments);
    super::output(&mut node).await
}

/// What it printed, if it ended as expected.
pub(super) fn answer(output: &Output, code: i32) -> Result<Value> {
    if output.status.code() != Some(code) {
        return Err(format!("it should end with code {code}: {}", super::failed(output)).into());
    }
    Ok(serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", super::failed(output)))?)
}
