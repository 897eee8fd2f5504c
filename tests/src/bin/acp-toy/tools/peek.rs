//! `peek`: what is in force for a call, and how often the source was asked.

use acp_core::{Call, Hints, Info, Result, Tool, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::source::Toy;

/// Tells the settings in force and how often the source was asked.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Peek {
    /// Comes back in the answer.
    tag: Option<String>,
}

impl Tool for Peek {
    type Source = Toy;
    type Answer = Info;
    const SPEC: ToolSpec =
        ToolSpec { name: "peek", title: "Peek", resource: false, credentials: false, hints: Hints::READS_LOCAL };

    async fn run(self, toy: &Toy, call: &Call) -> Result<Info> {
        let config: Value = call.config()?;
        Ok(Info(json!({"ok": true, "config": config, "tag": self.tag, "upstream": toy.upstream()})))
    }
}
