//! The demo's BigQuery part: a query that is too dear, the same one narrowed, and its number beside Analytics' own.

use google_sandbox::Sandbox;
use serde_json::{Value, json};

use super::{Host, clip, model_of, show_error, step, sums, text, verdict};
use crate::Result;

/// What a person allows a call to cost, in USD. Small, since the sandbox's tables are.
const LIMIT: f64 = 0.00007;
/// The event that both products count.
const EVENT: &str = "page_view";

impl Host<'_> {
    /// Validates a query, has it refused, narrows it, runs it, and stores its rows. What comes back is the sum of the events
    /// and the days they are of.
    pub(super) async fn query_the_export(&self, sandbox: &Sandbox) -> Result<(u64, String, String)> {
        let facts = &sandbox.facts()["bigquery"]["ga4_export"];
        let dataset = format!("acp-sandbox.{}", text(&facts["dataset"]));
        let last: jiff::civil::Date = text(&facts["last"]).parse()?;
        let first = last.saturating_sub(jiff::Span::new().days(6));
        let select = format!(
            "SELECT event_date, (SELECT value.string_value FROM UNNEST(event_params) WHERE key = 'page_location') AS page, \
             MAX(device.category) AS device, MAX(geo.country) AS country, COUNT(*) AS events FROM `{dataset}.events_*` WHERE event_name = '{EVENT}'"
        );
        let week = format!("_TABLE_SUFFIX BETWEEN '{}' AND '{}'", first.strftime("%Y%m%d"), last.strftime("%Y%m%d"));
        let (everything, narrowed) = (format!("{select} GROUP BY 1, 2"), format!("{select} AND {week} GROUP BY 1, 2"));

        let ask = |query: &str| json!({"resource_id": dataset, "query": query});
        let answer = self.call_within("validate_query", ask(&everything), LIMIT).await?;
        let seen = model_of(&answer)?;
        step("Price", &format!("validate_query, free: {} of all days, limit ${LIMIT}", text(&seen["human_bytes"])));
        println!("    estimated ${}, would run: {}", seen["estimated_cost_usd"], seen["would_run"]);
        let answer = self.call_within("execute_query", ask(&everything), LIMIT).await?;
        step("Too dear", "the same query, run all the same");
        show_error(&answer)?;

        let answer = self.call_within("execute_query", ask(&narrowed), LIMIT).await?;
        let seen = model_of(&answer)?;
        step("Narrowed", &format!("one week: … AND {week}"));
        println!("    {} cost ${}", text(&seen["notice"]), answer.meta.system_info.cost_actual_usd.unwrap_or_default());
        println!("    first row {}", clip(&seen["rows"][0].to_string()));
        let csv = self.stored("bigquery", &answer)?;
        let [sum] = sums(&csv, ["events"])?;
        println!("    {EVENT} over the CSV is {sum}");

        let answer = self
            .call_within("execute_query", ask(&format!("DELETE FROM `{dataset}.events_*` WHERE TRUE")), LIMIT)
            .await?;
        step("No writes", "DELETE FROM …");
        show_error(&answer)?;
        Ok((sum.to_string().parse()?, first.to_string(), last.to_string()))
    }

    /// The same number from the Analytics connector.
    pub(super) async fn same_from_analytics(
        &self,
        property: &Value,
        (events, first, last): (u64, String, String),
    ) -> Result<()> {
        let arguments = json!({
            "resource_id": property, "start_date": first, "end_date": last, "metrics": ["eventCount"], "dimensions": ["eventName"],
            "dimension_filters": [{"field": "eventName", "match_type": "EXACT", "value": EVENT}],
        });
        let answer = self.call("run_report", arguments, Some(&self.credentials)).await?;
        let seen = model_of(&answer)?;
        let reported = &seen["rows"][0]["eventCount"];
        step("Two sources", "the same events counted by Analytics");
        verdict(
            &format!("{EVENT}, {first} to {last}: BigQuery {events}, Analytics {reported}"),
            super::Decimal::of(&events.to_string()),
            super::Decimal::of(&reported.to_string()),
        )
    }
}
