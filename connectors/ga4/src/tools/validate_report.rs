//! `validate_report`: what is wrong with a report, all at once, before it is run.

use acp_core::{Call, Hints, Info, Result, Tool, ToolSpec};
use acp_protocol::error::ErrorCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::Ga4;
use crate::fields::is_additive;
use crate::question::{self, Findings};
use crate::tools::run_report::RunReport;

/// Checks the arguments of run_report without running it, and whether the fields go together: all problems, what would be corrected, which
/// columns must not be added up.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateReport {
    /// The arguments of run_report.
    arguments: Map<String, Value>,
}

impl Tool for ValidateReport {
    type Source = Ga4;
    type Answer = Info;
    const SPEC: ToolSpec = ToolSpec {
        name: "validate_report",
        title: "Check a report",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, ga4: &Ga4, call: &Call) -> Result<Info> {
        // The property is an argument of this tool.
        self.arguments.shift_remove("resource_id");
        let mut report: RunReport = match acp_core::read_arguments(self.arguments) {
            Ok(report) => report,
            Err(problem) => return Ok(Info(json!({"valid": false, "problems": [problem.message()]}))),
        };
        let property = ga4.property(call)?;
        let mut findings = Findings::default();
        report.check_alone(&mut findings);
        report.check_names(ga4.fields(&property).await?.as_ref(), &mut findings);
        let ranges = report.resolve_ranges(ga4, &property, call).await;
        let ranges = findings.keep(only_arguments(ranges)?);
        findings.keep(ranges.as_ref().map_or(Ok(()), |ranges| report.check_ranges(ranges)));
        let mut asked = 0;
        // Only a report that has nothing else wrong is worth a token: Google names one problem at a time.
        if let Some(range) = ranges.iter().flatten().next().filter(|_| findings.problems.is_empty()) {
            for metrics in report.chunks() {
                let request = report.request(metrics, range.window)?;
                let question = without_nulls(json!({
                    "dimensions": request.dimensions,
                    "metrics": request.metrics,
                    "dimensionFilter": request.dimension_filter,
                    "metricFilter": request.metric_filter,
                    "compatibilityFilter": "INCOMPATIBLE",
                }));
                let answer: Result<Value, _> = property.ask("v1beta", "checkCompatibility", &question).await;
                findings.keep(only_arguments(answer.map_err(|failure| failure.into_acp(&property.context)))?);
                asked += 1;
            }
        }
        if let (Some(ranges), Ok(zone)) = (&ranges, ga4.time_zone(&property).await) {
            let today = call.clock().today(&zone);
            let mut notes: Vec<String> =
                ranges.iter().filter_map(|range| question::of_today(today, range.window)).collect();
            notes.dedup();
            findings.notes.extend(notes);
        }
        let problems: Vec<&str> = findings.problems.iter().map(|problem| problem.message()).collect();
        let mut answer = json!({"valid": problems.is_empty()});
        if !problems.is_empty() {
            answer["problems"] = json!(problems);
        }
        if !findings.notes.is_empty() {
            answer["notes"] = json!(findings.notes);
        }
        if let Some(ranges) = ranges.filter(|_| problems.is_empty()) {
            answer["arguments"] = without_nulls(json!(report));
            let days = ranges.iter().flat_map(|range| [range.window.start, range.window.end]);
            answer["dates"] = days.map(|day| json!(day.to_string())).collect();
            let not_additive: Vec<&String> = report.metrics().iter().filter(|name| !is_additive(name)).collect();
            if !not_additive.is_empty() {
                answer["do_not_add_up"] = json!(not_additive);
            }
        }
        if asked > 0 {
            answer["checked_with_google"] = json!(format!(
                "checkCompatibility, about {asked} tokens. It can disagree with the report itself, which has the last word."
            ));
        }
        Ok(Info(answer))
    }
}

/// A problem of the arguments is a finding; anything else keeps the check from being made.
fn only_arguments<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(error) if error.code() != ErrorCode::InvalidArguments => Err(error),
        result => Ok(result),
    }
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}
