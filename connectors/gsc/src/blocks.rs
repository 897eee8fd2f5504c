//! The autocontext blocks: what a model should know about a property before it asks for rows.

use std::sync::Arc;

use acp_core::{Builder, Call, DateWindow, Result};
use jiff::ToSpan;
use serde_json::{Value, json};

use crate::api::{Row, SearchConsole};
use crate::check::{Aggregation, DataState, Dimension, SearchType};
use crate::search::{Figures, Query, Sink, WalkDays, extract};

/// Names of the clusters, and the position at which each ends.
const CLUSTERS: [(&str, f64); 5] =
    [("Top-3", 3.0), ("Top-10", 10.0), ("Top-30", 30.0), ("Top-100", 100.0), ("Out", f64::INFINITY)];

/// Adds the blocks to the connector.
pub(crate) fn declare(builder: Builder<SearchConsole>) -> Builder<SearchConsole> {
    builder
        .block(
            "available_date_range",
            "Queryable date range (16 months) and the latest day with reliable data.",
            available_date_range,
        )
        .block(
            "position_clusters",
            "Queries grouped by position cluster (Top-3, Top-10, Top-30, Top-100, Out) over the last 3 months.",
            position_clusters,
        )
}

async fn available_date_range(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let available = console.available(&console.site(&call)?, &call).await?;
    Ok(json!({
        "first_date": available.first.to_string(),
        "last_reliable_date": available.last_reliable.to_string(),
        "note": "Search Console keeps 16 months of data and publishes it with a 2-3 day delay.",
    }))
}

async fn position_clusters(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let site = console.site(&call)?;
    let end = console.available(&site, &call).await?.last_reliable;
    let query = Query {
        dimensions: vec![Dimension::Query],
        filters: Vec::new(),
        search_type: SearchType::Web,
        aggregation: Aggregation::Auto,
        data_state: DataState::Final,
        window: DateWindow { start: end.saturating_sub(3.months()), end },
    };
    let mut clusters = Clusters::default();
    extract(&site, &query, WalkDays::Never, &mut clusters).await?;
    let entries = CLUSTERS.iter().zip(clusters.0).map(|((name, _), figures)| {
        json!({
            "clusterPosition": name,
            "clicks": figures.clicks.round() as i64,
            "impressions": figures.impressions.round() as i64,
        })
    });
    Ok(entries.collect())
}

/// The figures of each cluster.
#[derive(Default)]
struct Clusters([Figures; CLUSTERS.len()]);

impl Sink for Clusters {
    fn begin(&mut self, _: bool) -> Result<()> {
        *self = Self::default();
        Ok(())
    }

    fn row(&mut self, _: &Row<'_>, figures: &Figures) -> Result<()> {
        if let Some(position) = figures.position {
            self.0[cluster_of(position)].join(figures);
        }
        Ok(())
    }

    fn progress(&mut self, _: u64, _: Option<u64>, _: String) {}
}

/// Where a position belongs: a cluster holds its own end, so 3.0 is Top-3 and 3.1 is Top-10.
fn cluster_of(position: f64) -> usize {
    CLUSTERS.iter().position(|(_, end)| position <= *end).unwrap_or(CLUSTERS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_holds_its_own_end() {
        for (position, name) in [
            (1.0, "Top-3"),
            (3.0, "Top-3"),
            (3.1, "Top-10"),
            (10.0, "Top-10"),
            (10.01, "Top-30"),
            (30.0, "Top-30"),
            (30.5, "Top-100"),
            (100.0, "Top-100"),
            (100.1, "Out"),
            (499.0, "Out"),
        ] {
            assert_eq!(CLUSTERS[cluster_of(position)].0, name, "{position}");
        }
    }
}
