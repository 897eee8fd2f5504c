//! `slow`: takes its time and reports progress.

use std::time::Duration;

use acp_core::{Call, Hints, Info, Result, Tool, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::source::Toy;

const STEP: Duration = Duration::from_millis(20);

/// Takes its time and tells how far it is.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Slow {
    /// How long it takes.
    #[schemars(range(min = 0, max = 60))]
    seconds: f64,
}

impl Tool for Slow {
    type Source = Toy;
    type Answer = Info;
    const SPEC: ToolSpec =
        ToolSpec { name: "slow", title: "Slow", resource: false, credentials: false, hints: Hints::READS_LOCAL };

    async fn run(self, _: &Toy, call: &Call) -> Result<Info> {
        let steps = (self.seconds / STEP.as_secs_f64()) as u64;
        for step in 1..=steps {
            tokio::time::sleep(STEP).await;
            call.progress(step, Some(steps), format!("Step {step} of {steps}."));
        }
        Ok(Info(json!({"steps": steps})))
    }
}
