//! A server that has everything the official conformance suite of MCP asks for, so that the suite can judge the
//! transports of `acp-core` whole: a connector has neither prompts nor resources nor questions to the client.

#![allow(deprecated, reason = "the suite asks for what newer revisions of MCP leave out")]

mod fixtures;
mod tools;

use std::borrow::Cow;
use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, CompletionInfo,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The newest revision of MCP to announce. An environment variable, since the flags are those of the transports.
const NEWEST: &str = "MCP_NEWEST";

fn main() -> ExitCode {
    let newest = std::env::var(NEWEST).unwrap_or_else(|_| ProtocolVersion::V_2025_11_25.to_string());
    let announced: Vec<ProtocolVersion> = ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)
        .iter()
        .filter(|revision| ("2025-03-26"..=newest.as_str()).contains(&revision.as_str()))
        .cloned()
        .collect();
    if announced.last().is_none_or(|last| last.as_str() != newest) {
        eprintln!("error: {NEWEST} must be 2025-03-26, 2025-06-18 or 2025-11-25");
        return ExitCode::from(2);
    }
    acp_core::run_server(move || Everything { announced: announced.clone(), watched: Arc::default() })
}

/// One session.
#[derive(Clone)]
struct Everything {
    /// Revisions of MCP, oldest first.
    announced: Vec<ProtocolVersion>,
    /// Resources that the client watches.
    watched: Arc<Mutex<HashSet<String>>>,
}

impl Everything {
    fn watched(&self) -> MutexGuard<'_, HashSet<String>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fixture as the library's type.
fn typed<T: DeserializeOwned>(fixture: Value) -> Result<T, ErrorData> {
    serde_json::from_value(fixture)
        .map_err(|error| ErrorData::internal_error(format!("A fixture does not have its form: {error}."), None))
}

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": {}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {},
        });
        ServerConfig::new(serde_json::from_value::<ServerCapabilities>(capabilities).unwrap_or_default())
            .with_protocol_version(self.announced.last().cloned().unwrap_or_default())
            .with_server_info(Implementation::new("mcp-everything", "1.0.0"))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(self.announced.clone())
    }

    async fn list_tools(&self, _: Page, _: Context) -> Result<ListToolsResult, ErrorData> {
        typed(fixtures::tools())
    }

    async fn call_tool(&self, call: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let arguments = call.arguments.map(Value::Object).unwrap_or_default();
        let answer = tools::call(&call.name, &arguments, &context).await?;
        Ok(typed::<CallToolResult>(answer)?.into())
    }

    async fn list_resources(&self, _: Page, _: Context) -> Result<ListResourcesResult, ErrorData> {
        typed(fixtures::resources())
    }

    async fn list_resource_templates(&self, _: Page, _: Context) -> Result<ListResourceTemplatesResult, ErrorData> {
        typed(fixtures::resource_templates())
    }

    async fn read_resource(
        &self,
        read: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = fixtures::resource_contents(&read.uri).ok_or_else(|| {
            ErrorData::resource_not_found("There is no such resource.", Some(json!({"uri": read.uri})))
        })?;
        Ok(typed::<ReadResourceResult>(contents)?.into())
    }

    async fn subscribe(&self, subscribe: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        self.watched().insert(subscribe.uri);
        Ok(())
    }

    async fn unsubscribe(&self, unsubscribe: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        match self.watched().remove(&unsubscribe.uri) {
            true => Ok(()),
            false => Err(ErrorData::invalid_params("This resource is not watched.", None)),
        }
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Result<ListPromptsResult, ErrorData> {
        typed(fixtures::prompts())
    }

    async fn get_prompt(&self, prompt: GetPromptRequestParams, _: Context) -> Result<GetPromptResponse, ErrorData> {
        let arguments = serde_json::to_value(prompt.arguments).unwrap_or_default();
        let messages = fixtures::prompt_messages(&prompt.name, &arguments)
            .ok_or_else(|| ErrorData::invalid_params("There is no such prompt, or an argument is missing.", None))?;
        Ok(typed::<GetPromptResult>(messages)?.into())
    }

    async fn complete(&self, _: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::new(CompletionInfo::default()))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }
}
