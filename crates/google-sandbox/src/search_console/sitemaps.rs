//! Sitemaps: what was submitted for a site. Counters are int64, so they travel as strings.

use serde_json::{Value, json};

use super::sites::{Content, Site};
use super::{decoded, readable, reader};
use crate::answer::Answer;
use crate::google_error::GoogleError;
use crate::server::{ApiRequest, Shared};

/// Answers `sitemaps.list`; with `sitemapIndex`, the children of that index.
pub(crate) fn list(shared: &Shared, request: &ApiRequest, site: &str) -> Result<Answer, GoogleError> {
    let identity = reader(shared, request, "SitemapsService.List", &["sitemapIndex"])?;
    let site = readable(shared, &identity, site)?;
    let index = request.parameter("sitemapIndex").filter(|index| !index.is_empty());
    let found: Vec<Value> = all(site)
        .into_iter()
        .filter(|(parent, _)| *parent == index.as_deref().is_some_and(|i| i.ends_with("/sitemap_index.xml")))
        .filter(|_| index.as_deref().is_none_or(|index| index.starts_with(&site.origin())))
        .map(|(_, sitemap)| sitemap)
        .collect();
    Ok(Answer::json(200, &if found.is_empty() { json!({}) } else { json!({"sitemap": found}) }))
}

/// Answers `sitemaps.get`.
pub(crate) fn get(shared: &Shared, request: &ApiRequest, site: &str, path: &str) -> Result<Answer, GoogleError> {
    let identity = reader(shared, request, "SitemapsService.Get", &[])?;
    let site = readable(shared, &identity, site)?;
    let path = decoded(path);
    let found = all(site).into_iter().map(|(_, sitemap)| sitemap).find(|sitemap| sitemap["path"] == path.as_str());
    found.map(|sitemap| Answer::json(200, &sitemap)).ok_or_else(|| {
        GoogleError::legacy(404, "global", "notFound", format!("'{path}' is not a submitted sitemap of this site."))
    })
}

/// All sitemaps of a site, each with whether the index lists it.
fn all(site: &Site) -> Vec<(bool, Value)> {
    if site.content != Content::Domain || !site.contains(&format!("{}/", site.origin())) {
        return Vec::new();
    }
    let path = |name: &str| format!("{}/{name}", site.origin());
    let contents =
        |kind: &str, submitted: u32| json!({"type": kind, "submitted": submitted.to_string(), "indexed": "0"});
    let sitemap = |name: &str, contents: Value, warnings: u32, errors: u32| {
        json!({
            "path": path(name),
            "lastSubmitted": "2025-03-02T08:00:11.123Z",
            "isPending": false,
            "isSitemapsIndex": false,
            "type": "sitemap",
            "lastDownloaded": "2026-01-15T04:12:55.010Z",
            "warnings": warnings.to_string(),
            "errors": errors.to_string(),
            "contents": contents,
        })
    };
    let mut index = sitemap("sitemap_index.xml", json!([contents("web", 57), contents("image", 120)]), 0, 0);
    index["isSitemapsIndex"] = json!(true);
    // Not downloaded yet: no time, no type, no contents.
    let pending = json!({
        "path": path("sitemap-new.xml"),
        "lastSubmitted": "2026-01-16T09:00:00.000Z",
        "isPending": true,
        "isSitemapsIndex": false,
        "warnings": "0",
        "errors": "0",
    });
    let mut feed = sitemap("blog/feed.xml", json!([contents("web", 16)]), 2, 0);
    feed["type"] = json!("rssFeed");
    vec![
        (false, index),
        (false, feed),
        (false, sitemap("sitemap-old.xml", json!([contents("web", 12)]), 0, 3)),
        (false, pending),
        (true, sitemap("sitemap-products.xml", json!([contents("web", 32), contents("image", 120)]), 1, 0)),
        (true, sitemap("sitemap-pages.xml", json!([contents("web", 25)]), 0, 0)),
    ]
}
