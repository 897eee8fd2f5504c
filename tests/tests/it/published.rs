//! What a server says about itself: schemas, patterns and language.

use acp_protocol::setup::{SchemaPlace, validate};
use serde_json::{Value, json};

use crate::rules::regex;
use crate::server::{Server, Setup, Transport};

fn tools(server: &mut Server) -> Vec<Value> {
    let answer = server.request("tools/list", json!({}));
    answer.json["result"]["tools"].as_array().cloned().expect("tools")
}

const VARIANTS: [&str; 8] = ["toy", "paid", "multi", "cat", "cat0", "nores", "nofirst", "nocred"];

#[test]
fn v_012_patterns_of_links_compile() {
    for transport in Transport::BOTH {
        let mut server = Setup::toy("V-012 [S-8.11-01]").over(transport).start();
        let mut seen = 0;
        for tool in tools(&mut server) {
            for (name, property) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
                let Some(patterns) = property.get("x-acp-url") else { continue };
                let patterns = patterns.as_array().cloned().unwrap_or_else(|| vec![patterns.clone()]);
                assert!(!patterns.is_empty(), "V-012: {name} has no pattern");
                for pattern in patterns {
                    regex(&format!("(?i){}", pattern.as_str().expect("V-012: a pattern is a text")));
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 1, "V-012: rows.link has a pattern");
        server.finish_well();
    }
}

#[test]
fn v_016_setup_schemas_are_valid() {
    for transport in Transport::BOTH {
        for variant in VARIANTS {
            let server = Setup::toy("V-016 [S-5.5.1-01..05, S-5.5.2-01..03, S-A-07]")
                .arguments(&["--variant", variant])
                .over(transport)
                .start();
            let capability = &server.hello.json["result"]["capabilities"]["experimental"]["acp"];
            let credentials = validate(&capability["credentials_schema"], SchemaPlace::Credentials);
            let config = validate(&capability["config_schema"], SchemaPlace::Config);
            assert_eq!((credentials, config), (Vec::<String>::new(), Vec::new()), "V-016: {variant}");
            let none = json!({"type": "object", "properties": {}});
            assert_eq!(capability["credentials_schema"] == none, variant == "nocred", "V-016: {variant}");
            server.finish_well();
        }
    }
}

/// The subset of JSON Schema that every client understands (research on MCP clients).
#[test]
fn tool_schemas_are_portable() {
    for variant in VARIANTS {
        schemas_are_portable(variant);
    }
}

fn schemas_are_portable(variant: &str) {
    let mut server = Setup::toy("[S-12.3-01] tool schemas").arguments(&["--variant", variant]).start();
    for tool in tools(&mut server) {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{tool}");
        assert!(schema["properties"].is_object(), "{tool}");
        for keyword in ["$ref", "$defs", "$schema", "anyOf", "oneOf", "allOf"] {
            assert!(!schema.to_string().contains(&format!("\"{keyword}\"")), "{keyword} in {tool}");
        }
    }
    server.finish_well();
}

#[test]
fn v_018_every_text_is_english() {
    for transport in Transport::BOTH {
        let mut server = Setup::toy("V-018 [S-5.5.0-01]").over(transport).start();
        let mut texts = vec![server.hello.text.clone()];
        texts.push(server.request("tools/list", json!({})).text);
        texts.push(server.call("autocontext_data", json!({}), Value::Null).text);
        for kind in ["untyped", "401", "403auth", "403perm", "404", "429", "500", "echo", "panic"] {
            texts.push(server.call("boom", json!({"kind": kind}), Value::Null).text);
        }
        texts.push(server.call("rows", json!({"n": 1}), Value::Null).text);
        texts.push(server.call("autocontext", json!({}), Value::Null).text);
        texts.push(server.request("acp/configure", json!({"row_limit": -1})).text);
        let foreign = regex(r"(?i)\b(el|los|las|una|para|por|con|del|este|datos|der|die|und|les|avec)\b");
        for text in texts {
            let letters = text.chars().find(|mark| !mark.is_ascii() && mark.is_alphabetic());
            assert_eq!(letters, None, "V-018: {text}");
            assert!(!foreign.is_match(&text), "V-018: {text}");
        }
        server.finish_well();
    }
}

/// A client that is not told assumes the worst, and one that is told a lie lets a model write.
#[test]
fn annotations_are_explicit_and_extractions_only_read() {
    let mut server = Setup::toy("tool annotations").start();
    let extracting = server.hello.json["result"]["capabilities"]["experimental"]["acp"]["extraction_tools"].clone();
    for tool in tools(&mut server) {
        let hint = |name: &str| tool["annotations"][name].as_bool().unwrap_or_else(|| panic!("{name} of {tool}"));
        let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"].map(hint);
        assert!(!(hints[0] && hints[1]), "{tool}");
        assert!(hints[0] || extracting.as_array().is_some_and(|names| !names.contains(&tool["name"])), "{tool}");
        assert_eq!(hints[0], tool["name"] != "load_table", "{tool}");
    }
    server.finish_well();
}

/// Tools of a connector whose list is paid for in every conversation: small on average, only keywords that all clients know,
/// every argument described at any depth, and nothing that changes anything.
pub(crate) fn assert_small_and_described(tools: &[Value], bytes_each: usize) {
    let bytes: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
    assert!(bytes <= bytes_each * tools.len(), "{} bytes a tool", bytes / tools.len());
    for tool in tools {
        assert!(tool["description"].as_str().is_some_and(|text| !text.is_empty()), "{tool}");
        assert_eq!(
            (&tool["annotations"]["readOnlyHint"], &tool["annotations"]["destructiveHint"]),
            (&json!(true), &json!(false))
        );
        let schema = tool["inputSchema"].to_string();
        for keyword in ["$ref", "$defs", "$schema", "anyOf", "oneOf", "allOf"] {
            assert!(!schema.contains(&format!("\"{keyword}\"")), "{keyword} in {tool}");
        }
        described(&tool["inputSchema"], tool["name"].as_str().expect("a name"));
    }
}

fn described(schema: &Value, place: &str) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{place}: {property}");
        described(property, &place);
        described(&property["items"], &place);
    }
}

/// Tools, arguments, columns and blocks that a skill quotes, as names with underscores, are in what the connector publishes and
/// answers. Gives their number.
pub(crate) fn assert_names_are_known(skill: &str, text: &str, known: &str) -> usize {
    let (quoted, words) = (regex("`([^`]*)`"), regex("[A-Za-z_]+"));
    let name = regex("^[a-z]+(_[a-z]+)+$");
    let mut seen = 0;
    for quotation in quoted.captures_iter(text) {
        for word in words.find_iter(&quotation[1]).map(|found| found.as_str()).filter(|word| name.is_match(word)) {
            assert!(known.contains(word), "{skill} speaks of {word}");
            seen += 1;
        }
    }
    seen
}
