//! What the suite asks for and never changes: lists, contents, and the forms of questions.

use serde_json::{Value, json};

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";
/// Four samples of silence.
const WAV: &str = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA";

/// The resource that clients can watch.
pub(crate) const WATCHED: &str = "test://watched-resource";
const TEMPLATE_START: &str = "test://template/";
const TEMPLATE_END: &str = "/data";

/// `tools/list`.
pub(crate) fn tools() -> Value {
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let text = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let tools = [
        ("test_simple_text", "Answers with a text.", nothing.clone()),
        ("test_image_content", "Answers with an image.", nothing.clone()),
        ("test_audio_content", "Answers with a sound.", nothing.clone()),
        ("test_embedded_resource", "Answers with a resource.", nothing.clone()),
        ("test_multiple_content_types", "Answers with a text, an image and a resource.", nothing.clone()),
        ("test_error_handling", "Fails.", nothing.clone()),
        ("test_tool_with_logging", "Logs while it works.", nothing.clone()),
        ("test_tool_with_progress", "Reports progress while it works.", nothing.clone()),
        ("test_reconnection", "Takes its time.", nothing.clone()),
        ("test_sampling", "Asks the model of the client.", text("prompt")),
        ("test_elicitation", "Asks the person at the client.", text("message")),
        ("test_elicitation_sep1034_defaults", "Asks with a form that is filled in.", nothing.clone()),
        ("test_elicitation_sep1330_enums", "Asks with every kind of choice.", nothing),
        ("json_schema_2020_12_tool", "Has a schema that uses much of the language.", rich_schema()),
    ];
    let tools = tools
        .map(|(name, description, schema)| json!({"name": name, "description": description, "inputSchema": schema}));
    json!({"tools": tools})
}

fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// What a tool that does nothing else answers with.
pub(crate) fn constant_answer(tool: &str) -> Option<Value> {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let content = match tool {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => {
            json!([resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")])
        }
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            image,
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "json_schema_2020_12_tool" => json!([text("The schema is what counts.")]),
        "test_error_handling" => {
            let content = [text("This tool intentionally returns an error for testing")];
            return Some(json!({"content": content, "isError": true}));
        }
        _ => return None,
    };
    Some(json!({"content": content}))
}

pub(crate) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}})
}

/// The form whose fields are filled in.
pub(crate) fn form_with_defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }})
}

/// The form with every kind of choice.
pub(crate) fn form_of_choices() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |noun: &str| {
        let titled = [("value1", "First"), ("value2", "Second"), ("value3", "Third")];
        json!(titled.map(|(value, order)| json!({"const": value, "title": format!("{order} {noun}")})))
    };
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }})
}

/// The form that asks who somebody is.
pub(crate) fn form_of_a_person() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    })
}

/// `resources/list`.
pub(crate) fn resources() -> Value {
    json!({"resources": [
        {"uri": "test://static-text", "name": "Text", "description": "A text.", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "Image", "description": "An image.", "mimeType": "image/png"},
        {"uri": WATCHED, "name": "Watched", "description": "A text to watch.", "mimeType": "text/plain"},
    ]})
}

/// `resources/templates/list`.
pub(crate) fn resource_templates() -> Value {
    json!({"resourceTemplates": [{
        "uriTemplate": format!("{TEMPLATE_START}{{id}}{TEMPLATE_END}"),
        "name": "Data",
        "description": "Data of an id.",
        "mimeType": "application/json",
    }]})
}

/// `resources/read`.
pub(crate) fn resource_contents(uri: &str) -> Option<Value> {
    let contents = match uri {
        "test://static-text" => json!({
            "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource.",
        }),
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        WATCHED => json!({"uri": uri, "mimeType": "text/plain", "text": "Nothing happens here."}),
        _ => {
            let id = uri.strip_prefix(TEMPLATE_START)?.strip_suffix(TEMPLATE_END)?;
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
    };
    Some(json!({"contents": [contents]}))
}

/// `prompts/list`.
pub(crate) fn prompts() -> Value {
    let argument = |name: &str| json!({"name": name, "description": "A text.", "required": true});
    json!({"prompts": [
        {"name": "test_simple_prompt", "description": "One message."},
        {
            "name": "test_prompt_with_arguments",
            "description": "One message with two arguments.",
            "arguments": [argument("arg1"), argument("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "A resource and a message about it.",
            "arguments": [argument("resourceUri")],
        },
        {"name": "test_prompt_with_image", "description": "An image and a message about it."},
    ]})
}

/// `prompts/get`.
pub(crate) fn prompt_messages(name: &str, arguments: &Value) -> Option<Value> {
    let argument = |name: &str| arguments[name].as_str();
    let contents = match name {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.")]),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1")?, argument("arg2")?);
            json!([text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))])
        }
        "test_prompt_with_embedded_resource" => json!([
            resource(argument("resourceUri")?, "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ]),
        "test_prompt_with_image" => json!([
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            text("Please analyze the image above."),
        ]),
        _ => return None,
    };
    let messages = contents.as_array()?.iter().map(|content| json!({"role": "user", "content": content}));
    Some(json!({"messages": messages.collect::<Vec<_>>()}))
}
