//! A server whose answers are files: whatever a server may say, right or wrong, and what a host makes of it.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Home;

/// The script: it answers by files beside it, and writes down what it is sent.
const SCRIPT: &str = r#"while read -r line; do
  printf '%s\n' "$line" >> "$LOG"
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*) answer=initialize ;;
  *'"method":"tools/list"'*) answer=tools ;;
  *'"method":"tools/call"'*) answer=call ;;
  *) continue ;;
  esac
  if [ "$answer" = call ] && [ -f crash ]; then head -c 100 call.json; exit 1; fi
  if [ "$answer" = call ] && [ -f before ]; then cat before; fi
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(cat $answer.json)"
done
"#;

/// A scripted server with the id `fake`, and the source `shop` of it.
pub(super) struct Scripted {
    pub(super) home: Home,
    folder: PathBuf,
}

impl Scripted {
    pub(super) fn new() -> Self {
        let home = Home::new();
        let script = format!("LOG='{}'\n{SCRIPT}", home.log("fake").display());
        let folder = Home::install(&home.acps(), "fake", "1.0.0", &script);
        home.write_sources(&json!({"sources": [{"id": "shop", "acp": "fake"}]}));
        let fake = Self { home, folder };
        fake.announces(&capability());
        fake.has_tools(&json!([tool("rows", &json!({}))]));
        fake
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.folder.join(name), content).expect("an answer");
    }

    /// Sets `capabilities.experimental.acp`; `null`: a plain MCP server.
    pub(super) fn announces(&self, capability: &Value) {
        let experimental = if capability.is_null() { json!({}) } else { json!({"acp": capability}) };
        let initialize = json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "fake", "version": "1.0.0"},
            "capabilities": {"tools": {}, "experimental": experimental},
        });
        self.write("initialize.json", &initialize.to_string());
    }

    pub(super) fn has_tools(&self, tools: &Value) {
        self.write("tools.json", &json!({"tools": tools}).to_string());
    }

    /// Sets what calls are answered with.
    pub(super) fn answers(&self, result: &Value) {
        self.write("call.json", &result.to_string());
    }

    /// Sets what is written before the answer of a call, as it is.
    pub(super) fn writes_before(&self, text: &str) {
        self.write("before", text);
    }

    /// Lets it end in the middle of an answer.
    pub(super) fn crashes(&self) {
        self.write("crash", "");
    }
}

/// A capability with nothing to set up.
pub(super) fn capability() -> Value {
    json!({
        "version": "1.0", "defaults": {"row_limit": 25, "cost_limit_usd": 0},
        "credentials_schema": {"type": "object", "properties": {}},
        "resource_id": {"description": "d", "format": "none", "examples": []},
        "autocontext": {"cache_ttl_s": 1, "delivery": ["on_first_call"]},
        "cost": {"currency": "USD", "model": "free", "description": "Free."},
        "extraction_tools": ["rows"],
    })
}

/// A tool with these arguments.
pub(super) fn tool(name: &str, properties: &Value) -> Value {
    json!({"name": name, "description": "d", "inputSchema": {"type": "object", "properties": properties}})
}

/// An extraction as a server answers it; `table` is put in as it is.
pub(super) fn extraction(headers: &Value, table: &Value, row_count: usize, arguments: &Value) -> Value {
    let model = json!({
        "notice": "n", "description": "Rows of the fake.", "dates": ["2026-09-01", "2026-09-03"], "total_rows": row_count,
        "returned_rows": 1, "truncated": true, "columns": [], "rows": [],
    });
    json!({
        "content": [{"type": "text", "text": model.to_string()}],
        "_meta": {"acp": {
            "version": "1.0", "kind": "extraction", "system_info": info("extraction", arguments),
            "system_data": {"format": "inline", "row_count": row_count, "headers": headers, "table": table},
        }},
    })
}

/// An answer without a table.
pub(super) fn information(model: &Value) -> Value {
    json!({
        "content": [{"type": "text", "text": model.to_string()}],
        "_meta": {"acp": {"version": "1.0", "kind": "info", "system_info": info("info", &json!({}))}},
    })
}

fn info(kind: &str, arguments: &Value) -> Value {
    json!({
        "acp": "fake", "acp_version": "1.0", "tool": "rows", "kind": kind, "resource_id": null, "arguments": arguments,
        "row_limit": 25, "cost_limit_usd": 0, "cost_estimate_usd": 0, "cost_actual_usd": 0, "duration_ms": 1,
        "fetched_at": "2026-10-12T08:16:30.000Z", "autocontext_attached": false, "messages": [], "warnings": [],
        "a_field_of_a_later_version": true,
    })
}
