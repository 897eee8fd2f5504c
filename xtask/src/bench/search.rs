//! Search Console: days that are asked for side by side, and the memory of large extractions.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::ToSpan;
use jiff::civil::Date;
use serde_json::{Value, json};

use super::process::Sandbox;
use super::{Verdict, call, client, mib, start, verdict};
use crate::Result;
use crate::demo::thousands;

/// A property with a few rows a day, and one with 50,000.
const SMALL: &str = "sc-domain:nordwind.example";
const BULK: &str = "sc-domain:bulk.example";
/// Days of the walk, and how long each answer takes.
const DAYS: i32 = 90;
const LATENCY: Duration = Duration::from_millis(300);
/// Rows of a day of the large property that Google shows, and days that have as many as are held in memory at most.
const ROWS_PER_DAY: u64 = 50_000;
const DAYS_HELD: i32 = 40;
const TOOL: (&str, &str) = ("gsc", "search_analytics");

/// Measures the connector.
pub(super) async fn measure(release: &Path) -> Result<Vec<Verdict>> {
    let folder = tempfile::tempdir()?;
    let mut verdicts = vec![walk(release, folder.path()).await?];
    let sandbox = Sandbox::start(release, folder.path(), Duration::ZERO)?;
    let last = last_day(&sandbox).await?;
    println!("\npeak memory of searches by day, query and page");
    let rows = ROWS_PER_DAY * u64::from(DAYS_HELD.unsigned_abs());
    let sorted = json!([{"field": "impressions"}]);
    for (name, order, bound) in [("as they come", json!([]), 96.0), ("sorted", sorted.clone(), 512.0)] {
        let arguments = question(BULK, &["date", "query", "page"], last, DAYS_HELD, &json!({"order_by": order}));
        let (measured, came) = call(release, &sandbox, TOOL, arguments, folder.path()).await?;
        let (came, peak) = (came?, mib(measured.usage.peak));
        if came != rows {
            return Err(format!("{came} rows came, there are {rows}").into());
        }
        println!("{:>12} rows {name:<12} {peak:>9.1} MiB {:>9.2} s", thousands(came), measured.wall.as_secs_f64());
        verdicts.push(verdict(
            &format!("gsc: peak memory of {} rows {name}, MiB", thousands(rows)),
            peak,
            "under",
            bound,
        ));
    }
    let arguments = question(BULK, &["date", "query", "page"], last, DAYS_HELD + 1, &json!({"order_by": sorted}));
    let (measured, came) = call(release, &sandbox, TOOL, arguments, folder.path()).await?;
    match came {
        Ok(rows) => return Err(format!("{rows} rows were sorted, which is more than may be held").into()),
        Err(text) if text.contains("at most 2000000 rows") => {}
        Err(text) => return Err(format!("the error does not say what the bound is: {text}").into()),
    }
    verdicts.push(verdict(
        "gsc: peak memory until a day too many is refused, MiB",
        mib(measured.usage.peak),
        "under",
        512.0,
    ));
    verdicts.extend(start(release, &sandbox, "gsc").await?);
    Ok(verdicts)
}

/// Query and page over many days, against the same requests one after another.
async fn walk(release: &Path, folder: &Path) -> Result<Verdict> {
    let sandbox = Sandbox::start(release, folder, LATENCY)?;
    let last = last_day(&sandbox).await?;
    println!("query and page of {DAYS} days, {} ms for each answer\n", LATENCY.as_millis());
    let arguments = question(SMALL, &["query", "page"], last, DAYS, &json!({"walk_days": "always"}));
    let (ours, rows) = call(release, &sandbox, TOOL, arguments, folder).await?;
    let begun = Instant::now();
    let (requests, keys) = one_after_another(&sandbox, last).await?;
    let theirs = begun.elapsed();
    if rows? != keys {
        return Err("both should have the same rows".into());
    }
    let (ours, theirs) = (ours.wall.as_secs_f64(), theirs.as_secs_f64());
    println!(
        "{:<34} {ours:>9.2} s\n{:<34} {theirs:>9.2} s",
        "connector",
        format!("{requests} requests, one after another")
    );
    Ok(verdict("gsc: times faster than one request after another", theirs / ours, "at least", 2.0))
}

/// Every page of each day until one is empty: the number of requests, and of different rows.
async fn one_after_another(sandbox: &Sandbox, last: Date) -> Result<(u64, u64)> {
    let http = client::http()?;
    let token = client::token(&http, &sandbox.url, &sandbox.oauth).await?;
    let url = format!("{}/webmasters/v3/sites/{}/searchAnalytics/query", sandbox.url, SMALL.replace(':', "%3A"));
    let (mut requests, mut keys) = (0, HashSet::new());
    for before in 0..DAYS {
        let day = last.saturating_sub(before.days()).to_string();
        let mut start = 0;
        loop {
            let question = json!({"startDate": day, "endDate": day, "dimensions": ["query", "page"], "rowLimit": 25_000, "startRow": start});
            let page: Value =
                http.post(&url).bearer_auth(&token).json(&question).send().await?.error_for_status()?.json().await?;
            requests += 1;
            let Some(rows) = page["rows"].as_array() else { break };
            start += rows.len();
            keys.extend(rows.iter().map(|row| row["keys"].to_string()));
        }
    }
    Ok((requests, keys.len() as u64))
}

async fn last_day(sandbox: &Sandbox) -> Result<Date> {
    let facts = sandbox.facts().await?;
    Ok(facts["search_console"]["last_final"].as_str().unwrap_or_default().parse()?)
}

fn question(site: &str, dimensions: &[&str], last: Date, days: i32, more: &Value) -> Value {
    let first = last.saturating_sub((days - 1).days());
    let mut question = json!({"resource_id": site, "dimensions": dimensions, "start_date": first.to_string(), "end_date": last.to_string()});
    if let (Some(question), Some(more)) = (question.as_object_mut(), more.as_object()) {
        question.extend(more.clone());
    }
    question
}
