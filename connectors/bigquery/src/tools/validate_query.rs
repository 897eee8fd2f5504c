//! `validate_query`: what a query would read and cost, and whether it would run, without running it.

use acp_core::{Call, Error, Hints, Info, Result, Tool, ToolSpec};
use acp_protocol::JsonObject;
use acp_protocol::error::ErrorCode;
use google_cloud_bigquery_v2::model::TableFieldSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::execute_query::check;
use crate::api::{BigQuery, Client};
use crate::estimate::{human_bytes, rounded};
use crate::query::{Plan, Query};
use crate::resources::Place;
use crate::settings::Settings;
use crate::sql::{SuffixRange, days};

/// Windows for which the cost is told, in days.
const WINDOWS: [i64; 3] = [1, 7, 30];

/// Dry-runs a query, free of charge: whether it is valid and would run, bytes, cost, tables, columns of the result, and what shorter windows would cost.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateQuery {
    /// GoogleSQL.
    #[schemars(extend("contentMediaType" = "application/sql", "x-acp-date" = "template"))]
    query: String,
    /// Values of @name parameters, as in execute_query.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    params: JsonObject,
}

impl Tool for ValidateQuery {
    type Source = BigQuery;
    type Answer = Info;
    const SPEC: ToolSpec = ToolSpec {
        name: "validate_query",
        title: "Check a query and its cost",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(self, bigquery: &BigQuery, call: &Call) -> Result<Info> {
        let settings = Settings::of(call)?;
        let client = bigquery.client(call, Some(&settings))?;
        call.set_arguments(&self);
        let query = match Query::new(&self.query, &self.params, Place::of(call)?) {
            Ok(query) => query,
            Err(error) => return invalid(error),
        };
        let plan = match query.dry_run(&client, &settings).await {
            Ok(plan) => plan,
            Err(error) => return invalid(error),
        };
        let allowed = check(&client, &plan, &query, &settings).await;
        let limit = call.cost_limit_usd();
        let estimate = &plan.estimate;
        let known = estimate.unestimable.is_empty();
        let fits = known && estimate.usd().max(estimate.usd_low()) <= limit;
        let left = settings.session_cost_limit_usd.map(|limit| (limit - bigquery.spending.spent(call)).max(0.0));
        let affordable = left.is_none_or(|left| estimate.usd_low() <= left);
        let runnable = fits || (!known && settings.allow_unestimated);
        let mut answer = json!({
            "valid": true,
            "statement_type": plan.statement_type,
            "read_only": plan.check_statement().is_ok(),
            "would_run": allowed.is_ok() && runnable && affordable,
            "total_bytes_processed": estimate.bytes,
            "human_bytes": human_bytes(estimate.bytes),
            "estimated_cost_usd": if known { json!(rounded(estimate.usd())) } else { Value::Null },
            "cost_low_usd": rounded(estimate.usd_low()),
            "cost_high_usd": if known { json!(rounded(estimate.usd_high())) } else { Value::Null },
            "accuracy": estimate.accuracy,
            "cost_limit_usd": limit,
            "within_cost_limit": fits,
            "referenced_tables": plan.tables.iter().map(Place::id).collect::<Vec<_>>(),
            "result_schema": plan.schema.iter().map(column).collect::<Vec<_>>(),
            "location": plan.location,
            "billing_project": client.billing_project,
        });
        if !known {
            answer["unestimable"] = json!(estimate.unestimable);
            answer["why_unestimable"] = json!(plan.why_unestimable());
        }
        if let Err(error) = allowed {
            answer["refused"] = json!(error.message());
        }
        if let Some(left) = left {
            answer["left_in_this_conversation_usd"] = json!(rounded(left));
        }
        if estimate.accuracy == "UPPER_BOUND" {
            answer["note"] = json!(
                "An upper bound: clustering may make the query cheaper, but the limit is held against the bound."
            );
        }
        if known && estimate.bytes > 0 {
            if let Ok(cached) = query.is_cached(&client, &plan).await {
                answer["cached"] = json!(cached);
            }
            if let Some(range) = SuffixRange::of(&self.query, &query.tokens) {
                answer["windows"] = windows(&client, &query, &range, &plan, &settings, &self.params).await;
            }
        }
        let days = days(&query.tokens);
        if !days.is_empty() {
            answer["dates"] = json!(days.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        Ok(Info(answer))
    }
}

/// A query that is not valid is an answer of this tool; what has nothing to do with the query is an error.
fn invalid(error: Error) -> Result<Info> {
    let of_the_query = [
        ErrorCode::InvalidArguments,
        ErrorCode::ReadOnlyViolation,
        ErrorCode::ResourceNotFound,
        ErrorCode::CostLimitExceeded,
    ];
    if !of_the_query.contains(&error.code()) {
        return Err(error);
    }
    let mut answer = json!({
        "valid": false,
        "read_only": error.code() != ErrorCode::ReadOnlyViolation,
        "problem": error.message(),
    });
    for key in ["line", "column", "statement_type"] {
        if let Some(value) = error.data().and_then(|data| data.get(key)) {
            answer[key] = value.clone();
        }
    }
    Ok(Info(answer))
}

fn column(field: &TableFieldSchema) -> Value {
    let mut column = json!({"name": field.name, "type": field.r#type});
    if field.mode == "REPEATED" {
        column["mode"] = json!(field.mode);
    }
    column
}

/// What the query would cost for other windows that end on the same day.
async fn windows(
    client: &Client,
    query: &Query<'_>,
    range: &SuffixRange<'_>,
    plan: &Plan,
    settings: &Settings,
    params: &JsonObject,
) -> Value {
    let mut list = Vec::new();
    // It is known where the data is.
    let settings = Settings { location: plan.location.clone(), ..settings.clone() };
    for days in WINDOWS {
        let Some(text) = range.with_days(days) else { continue };
        let Ok(other) = Query::new(&text, params, query.default.clone()) else { continue };
        if let Ok(plan) = other.dry_run(client, &settings).await {
            let estimate = plan.estimate;
            list.push(json!({
                "days": days,
                "until": range.last.to_string(),
                "total_bytes_processed": estimate.bytes,
                "estimated_cost_usd": rounded(estimate.usd()),
            }));
        }
    }
    Value::Array(list)
}
