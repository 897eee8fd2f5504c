//! The autocontext blocks: what a model should know about a property before it asks for rows.

use std::sync::Arc;
use std::time::Duration;

use acp_core::{BlockData, Builder, Call, DateWindow, Error, Result};
use futures::future::join_all;
use jiff::ToSpan;
use serde_json::{Value, json};

use crate::api::{Row, SearchConsole, SearchRequest, Site};
use crate::check::{Aggregation, DataState, Dimension, SearchType};
use crate::resources;
use crate::search::{Figures, Query, Sink, WalkDays, extract};

/// What does not change while a process runs.
const FOREVER: Option<Duration> = Some(Duration::from_secs(7 * 24 * 3600));
/// Properties of the same site that are named.
const RELATED: usize = 10;

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
        .block(
            "property_info",
            "What the property covers, with which rights, and other properties of the same site.",
            property_info,
        )
        .block(
            "search_types_with_data",
            "Clicks and impressions by search_type over the last 28 days (use only those with data).",
            search_types_with_data,
        )
        .block("top_queries", "Top 20 queries by clicks over the last 28 days.", top_queries)
        .block("top_pages", "Top 15 pages by clicks over the last 28 days, counted by page.", top_pages)
        .block(
            "devices_and_countries",
            "Clicks and impressions by device, and of the top 10 countries, over the last 28 days.",
            devices_and_countries,
        )
        .block(
            "search_appearances",
            "Search appearances over the last 28 days: exact values for a filter searchAppearance equals.",
            search_appearances,
        )
        .block("sitemaps", "Submitted sitemaps with errors and warnings (at most 10).", sitemaps)
        .block_for(
            "not_available",
            "What the Search Console API does not offer, so that nobody looks for it.",
            &[],
            FOREVER,
            not_available,
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

/// What a person would look up first, and what is easily mixed up.
async fn property_info(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let id = &call.resource()?.id;
    let sites = console.sites(&call).await?;
    let rights = sites.iter().find(|site| site.site_url == *id).map(|site| site.permission_level.as_str());
    let covers = match id.starts_with("sc-domain:") {
        true => "Every host and protocol of the domain together; for one of them, filter page by its full address.",
        false => {
            "Addresses that begin with exactly this prefix; other protocols and hosts are properties of their own."
        }
    };
    let related = resources::neighbours(&sites, id);
    Ok(json!({
        "property": id,
        "kind": if id.starts_with("sc-domain:") { "domain" } else { "url_prefix" },
        "covers": covers,
        "permission_level": rights,
        "time_zone": "America/Los_Angeles",
        "same_site": related.iter().take(RELATED).collect::<Vec<_>>(),
        "note": "Properties of one site have different figures; never add them up.",
    }))
}

/// The last 28 days with reliable data.
async fn recent(console: &SearchConsole, call: &Call) -> Result<(Site, DateWindow)> {
    let site = console.site(call)?;
    let end = console.available(&site, call).await?.last_reliable;
    Ok((site, DateWindow { start: end.saturating_sub(27.days()), end }))
}

/// A question about final days and everything in them.
fn everything(dimensions: Vec<Dimension>, search_type: SearchType, window: DateWindow) -> Query {
    Query {
        dimensions,
        filters: Vec::new(),
        search_type,
        aggregation: Aggregation::Auto,
        data_state: DataState::Final,
        window,
    }
}

async fn search_types_with_data(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<BlockData> {
    use SearchType::{Discover, GoogleNews, Image, News, Video, Web};
    let (site, window) = recent(&console, &call).await?;
    let types = [Web, Image, Video, News, Discover, GoogleNews];
    let read = types.map(|search_type| {
        let (site, query) = (&site, everything(Vec::new(), search_type, window));
        async move { (search_type, query.ask_totals(site, query.combination().counted().name()).await) }
    });
    // One type that fails does not hide the others.
    let entries = join_all(read).await.into_iter().map(|(search_type, totals)| match totals {
        Ok(totals) => json!({
            "search_type": search_type.name(),
            "clicks": totals.clicks.round() as i64,
            "impressions": totals.impressions.round() as i64,
        }),
        Err(failure) => json!({"search_type": search_type.name(), "error": failure.into_acp(&site.context).message()}),
    });
    let entries: Vec<Value> = entries.collect();
    match entries.iter().filter(|entry| entry.get("error").is_some()).count() {
        0 => Ok(json!(entries).into()),
        all if all == entries.len() => Err(Error::upstream(entries[0]["error"].as_str().unwrap_or_default())),
        _ => Ok(BlockData::partial(json!(entries))),
    }
}

async fn top_queries(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let (site, window) = recent(&console, &call).await?;
    top(&site, Dimension::Query, window, 20, 80).await
}

async fn top_pages(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let (site, window) = recent(&console, &call).await?;
    top(&site, Dimension::Page, window, 15, 140).await
}

async fn devices_and_countries(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let (site, window) = recent(&console, &call).await?;
    let (devices, countries) =
        tokio::join!(top(&site, Dimension::Device, window, 3, 20), top(&site, Dimension::Country, window, 10, 20));
    Ok(json!({"devices": devices?, "countries": countries?}))
}

async fn search_appearances(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let (site, window) = recent(&console, &call).await?;
    top(&site, Dimension::SearchAppearance, window, 12, 40).await
}

/// The first rows of a small question, in Google's order; texts are cut after so many characters.
async fn top(site: &Site, dimension: Dimension, window: DateWindow, rows: u64, characters: usize) -> Result<Value> {
    let query = everything(vec![dimension], SearchType::Web, window);
    let request = SearchRequest { row_limit: rows, ..query.request(0) };
    let page = site.search(&request).await.map_err(|failure| failure.into_acp(&site.context))?;
    let mut entries = Vec::new();
    page.each(|row| {
        let name = row.keys.first().map(|key| &*key.0).unwrap_or_default();
        entries.push(json!({
            dimension.name(): acp_google::clean(name, characters),
            "clicks": row.clicks.round() as i64,
            "impressions": row.impressions.round() as i64,
            "position": row.position.map(|position| (position * 10.0).round() / 10.0),
        }));
        Ok(())
    })?;
    Ok(json!(entries))
}

async fn sitemaps(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let site = console.site(&call)?;
    let sitemaps = site.sitemaps(None).await.map_err(|failure| failure.into_acp(&site.context))?;
    let entries = sitemaps.iter().take(10).map(|sitemap| {
        json!({
            "path": acp_google::clean(&sitemap.path, 120),
            "last_downloaded": sitemap.last_downloaded.as_deref().and_then(|time| time.get(..10)),
            "errors": sitemap.errors,
            "warnings": sitemap.warnings,
        })
    });
    Ok(json!({"submitted": sitemaps.len(), "sitemaps": entries.collect::<Vec<_>>()}))
}

async fn not_available(_: Arc<SearchConsole>, _: Arc<Call>) -> Result<Value> {
    Ok(json!([
        "Counts of indexed and not indexed pages (page indexing report); inspect_urls tells it of single URLs",
        "Links, crawl stats, Core Web Vitals, removals, manual actions, security issues",
        "AI Overviews and AI Mode as a dimension or filter: they are counted within web",
        "Anonymised queries by name; totals count them",
        "Brand queries as a filter: search_analytics_by_regex_cluster splits them by a pattern",
        "Sessions, conversions and revenue: Search Console ends with the click",
        "Search volume, rankings of other sites, keyword suggestions",
        "Live tests of URLs, requests for indexing, submitting sitemaps, adding properties: this connector only reads",
        "Days more than 16 months ago; hours more than about 10 days ago",
    ]))
}

async fn position_clusters(console: Arc<SearchConsole>, call: Arc<Call>) -> Result<Value> {
    let site = console.site(&call)?;
    let end = console.available(&site, &call).await?.last_reliable;
    let window = DateWindow { start: end.saturating_sub(3.months()), end };
    let query = everything(vec![Dimension::Query], SearchType::Web, window);
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
