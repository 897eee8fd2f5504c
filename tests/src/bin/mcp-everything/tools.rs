//! Tools that do something while they run: log, report progress, ask the client.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, CustomNotification, CustomRequest, ErrorData, ProgressNotificationParam, ServerNotification,
    ServerRequest,
};
use rmcp::service::{RequestContext, ServiceError};
use serde_json::{Value, json};

use crate::fixtures;

/// How far messages of a tool are apart.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs a tool. What can go wrong is for the model to read.
pub(crate) async fn call(
    name: &str,
    arguments: &Value,
    context: &RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    if let Some(answer) = fixtures::constant_answer(name) {
        return Ok(answer);
    }
    let elicit = |message: &str, form: Value| {
        ask(context, "elicitation", "elicitation/create", json!({"message": message, "requestedSchema": form}))
    };
    let said = match name {
        "test_tool_with_logging" => logging(context).await.map(|()| "The work was logged.".to_owned()),
        "test_tool_with_progress" => progress(context).await.map(|()| "The work is done.".to_owned()),
        "test_reconnection" => {
            tokio::time::sleep(2 * PAUSE).await;
            Ok("The work is done.".to_owned())
        }
        "test_sampling" => {
            let prompt = argument(arguments, "prompt")?;
            let messages = json!([{"role": "user", "content": fixtures::text(prompt)}]);
            let params = json!({"messages": messages, "maxTokens": 100});
            let answer = ask(context, "sampling", "sampling/createMessage", params).await;
            answer.map(|answer| format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
        }
        "test_elicitation" => {
            let answer = elicit(argument(arguments, "message")?, fixtures::form_of_a_person()).await;
            answer.map(|answer| format!("User response: {}", decision(&answer)))
        }
        "test_elicitation_sep1034_defaults" => {
            let answer = elicit("Please check these values.", fixtures::form_with_defaults()).await;
            answer.map(|answer| format!("Elicitation completed: {}", decision(&answer)))
        }
        "test_elicitation_sep1330_enums" => {
            let answer = elicit("Please choose.", fixtures::form_of_choices()).await;
            answer.map(|answer| format!("Elicitation completed: {}", decision(&answer)))
        }
        _ => return Err(ErrorData::invalid_params(format!("There is no tool {name}."), None)),
    };
    Ok(match said {
        Ok(said) => json!({"content": [fixtures::text(&said)]}),
        Err(error) => json!({"content": [fixtures::text(&error)], "isError": true}),
    })
}

fn argument<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, ErrorData> {
    arguments[name].as_str().ok_or_else(|| ErrorData::invalid_params(format!("{name} must be a string."), None))
}

fn decision(answer: &Value) -> String {
    format!("action={}, content={}", answer["action"].as_str().unwrap_or_default(), answer["content"])
}

async fn logging(context: &RequestContext<RoleServer>) -> Result<(), String> {
    for (step, message) in
        ["Tool execution started", "Tool processing data", "Tool execution completed"].into_iter().enumerate()
    {
        if step > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let params = json!({"level": "info", "logger": "mcp-everything", "data": message});
        let notification = CustomNotification::new("notifications/message", Some(params));
        context
            .peer
            .send_notification(ServerNotification::CustomNotification(notification))
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<(), String> {
    let token = context.meta.get_progress_token();
    for done in [0.0, 50.0, 100.0] {
        if done > 0.0 {
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(token) = token.clone() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            context.peer.notify_progress(progress).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Asks the client, which must have declared that it answers such requests. In the task of the call: over HTTP the
/// request finds its stream from there.
async fn ask(
    context: &RequestContext<RoleServer>,
    capability: &str,
    method: &str,
    params: Value,
) -> Result<Value, String> {
    let capabilities = serde_json::to_value(context.client_capabilities()).unwrap_or_default();
    if !capabilities[capability].is_object() {
        return Err(format!("The client does not declare {capability}."));
    }
    let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    match context.peer.send_request(request).await {
        Ok(ClientResult::CustomResult(answer)) => Ok(answer.0),
        // Answers that the library has a type for.
        Ok(answer) => serde_json::to_value(&answer).map_err(|error| error.to_string()),
        Err(ServiceError::McpError(error)) => Err(format!("The client refuses: {}", error.message)),
        Err(error) => Err(error.to_string()),
    }
}
