//! URL inspection: what the index knows about an address. No live test.

use serde_json::{Value, json};

use super::sites::{Content, Permission, Site};
use super::{check_url, reader, required};
use crate::answer::Answer;
use crate::clock::date_of;
use crate::events::mix;
use crate::google_error::GoogleError;
use crate::message::{self, Fields};
use crate::server::{ApiRequest, Shared};

/// Coverage states in English and German: free text, which clients must not compare.
const INDEXED: [&str; 2] = ["Submitted and indexed", "Gesendet und indexiert"];
const NOT_INDEXED: [&str; 2] = ["Crawled - currently not indexed", "Gecrawlt – zurzeit nicht indexiert"];
const NOINDEX: [&str; 2] = ["Excluded by ‘noindex’ tag", "Durch „noindex“-Tag ausgeschlossen"];
const ALTERNATE: [&str; 2] =
    ["Alternate page with proper canonical tag", "Alternative Seite mit richtigem kanonischen Tag"];
const ROBOTS: [&str; 2] = ["Blocked by robots.txt", "Durch robots.txt-Datei blockiert"];
const MISSING: [&str; 2] = ["Not found (404)", "Nicht gefunden (404)"];
const BROKEN: [&str; 2] = ["Server error (5xx)", "Serverfehler (5xx)"];
const UNKNOWN: [&str; 2] = ["URL is unknown to Google", "URL ist Google nicht bekannt"];

/// Beginning of a path, verdict, coverage, robots.txt, indexing, fetch.
type Finding = (&'static str, &'static str, [&'static str; 2], &'static str, &'static str, &'static str);

/// Addresses with troubles.
const SPECIAL: [Finding; 6] = [
    ("/search", "NEUTRAL", NOINDEX, "ALLOWED", "BLOCKED_BY_META_TAG", "SUCCESSFUL"),
    ("/imprint", "NEUTRAL", NOT_INDEXED, "ALLOWED", "INDEXING_ALLOWED", "SUCCESSFUL"),
    ("/print/", "NEUTRAL", ALTERNATE, "ALLOWED", "INDEXING_ALLOWED", "SUCCESSFUL"),
    ("/private/", "FAIL", ROBOTS, "DISALLOWED", "INDEXING_STATE_UNSPECIFIED", "BLOCKED_ROBOTS_TXT"),
    ("/old/", "FAIL", MISSING, "ALLOWED", "INDEXING_ALLOWED", "NOT_FOUND"),
    ("/error/", "FAIL", BROKEN, "ALLOWED", "INDEXING_ALLOWED", "SERVER_ERROR"),
];

/// Answers `index:inspect`.
pub(crate) fn answer(shared: &Shared, request: &ApiRequest) -> Result<Answer, GoogleError> {
    let identity = reader(shared, request, "UrlInspectionService.InspectUrlIndex", &[])?;
    let body = message::json(&request.body)?;
    let fields = Fields::new(&body, "", &["inspectionUrl", "siteUrl", "languageCode"])?;
    let page = required(&fields, "inspectionUrl", "inspection_url")?;
    let url = required(&fields, "siteUrl", "site_url")?;
    let german = usize::from(fields.text("languageCode")?.is_some_and(|language| language.starts_with("de")));
    check_url(&url)?;
    let console = &shared.search_console;
    let allowed = |permission: &Permission| matches!(permission, Permission::Owner | Permission::Full);
    let site = console
        .site(&identity, &url)
        .filter(|(site, permission)| allowed(permission) && site.contains(&page))
        .map(|(site, _)| site)
        .ok_or_else(|| {
            GoogleError::denied("You do not own this site, or the inspected URL is not part of this property.")
        })?;
    let today = console.calendar().today;
    console.switches.inspect(&site.url, today)?;
    let result = inspect(shared, site, &page, today, german);
    Ok(Answer::json(200, &json!({"inspectionResult": result})))
}

fn inspect(shared: &Shared, site: &Site, page: &str, today: i32, german: usize) -> Value {
    let luck = page.bytes().fold(shared.search_console.seed, |sum, byte| mix(sum, u64::from(byte)));
    let mut result = json!({
        "inspectionResultLink": format!(
            "https://search.google.com/search-console/inspect?resource_id={}&id={luck:016x}&utm_medium=link", site.url
        ),
        "indexStatusResult": {},
        // Retired, and still in every answer.
        "mobileUsabilityResult": {"verdict": "VERDICT_UNSPECIFIED"},
    });
    let status = &mut result["indexStatusResult"];
    let path = page.splitn(4, '/').nth(3).map_or_else(|| "/".to_owned(), |rest| format!("/{rest}"));
    let special = SPECIAL.iter().find(|(start, ..)| path.starts_with(start));
    let group = ranking_group(shared, site, page);
    let Some((_, verdict, coverage, robots, indexing, fetch)) =
        special.copied().or_else(|| group.map(|_| ("", "PASS", INDEXED, "ALLOWED", "INDEXING_ALLOWED", "SUCCESSFUL")))
    else {
        // Never crawled: most fields are absent.
        *status = json!({
            "verdict": "NEUTRAL",
            "coverageState": UNKNOWN[german],
            "robotsTxtState": "ROBOTS_TXT_STATE_UNSPECIFIED",
            "indexingState": "INDEXING_STATE_UNSPECIFIED",
            "pageFetchState": "PAGE_FETCH_STATE_UNSPECIFIED",
        });
        return result;
    };
    *status = json!({
        "verdict": verdict,
        "coverageState": coverage[german],
        "robotsTxtState": robots,
        "indexingState": indexing,
        "pageFetchState": fetch,
        "crawledAs": "MOBILE",
    });
    let origin = site.origin();
    if fetch != "BLOCKED_ROBOTS_TXT" {
        let date = date_of(today - 1 - i32::try_from(luck % 40).unwrap_or(0));
        status["lastCrawlTime"] = json!(format!("{date}T{:02}:{:02}:07Z", luck % 24, luck % 60));
        status["referringUrls"] = json!([format!("{origin}/"), "https://design-weekly.example/best-chairs"]);
    }
    if verdict == "PASS" {
        status["sitemap"] = json!([format!("{origin}/sitemap_index.xml")]);
        status["googleCanonical"] = json!(page);
        status["userCanonical"] = json!(page);
    }
    if coverage == ALTERNATE {
        let canonical = format!("{origin}/");
        status["googleCanonical"] = json!(canonical);
        status["userCanonical"] = json!(canonical);
    }
    if group == Some("Product") {
        result["richResultsResult"] = rich_results(luck);
    }
    result
}

/// The group of a page that ranks; `None` when the page isn't one of the site's.
fn ranking_group(shared: &Shared, site: &Site, page: &str) -> Option<&'static str> {
    if !matches!(site.content, Content::Domain | Content::Slice { .. }) {
        return None;
    }
    let origin = site.origin();
    let own = |candidate: &&super::vocabulary::RankingPage| {
        let origin = if site.content == Content::Domain { candidate.origin } else { &origin };
        page.strip_prefix(origin) == Some(candidate.path.as_str())
    };
    shared.search_console.searches.vocabulary.pages.iter().find(own).map(|page| page.group)
}

/// One product in four lacks a price.
fn rich_results(luck: u64) -> Value {
    let mut items = json!([{"name": "Nordwind product"}]);
    let broken = luck.is_multiple_of(4);
    items[0]["issues"] = if broken {
        json!([{"issueMessage": "Missing field \"price\"", "severity": "ERROR"}])
    } else {
        json!([{"issueMessage": "Missing field \"review\" (optional)", "severity": "WARNING"}])
    };
    json!({
        "verdict": if broken { "FAIL" } else { "PASS" },
        "detectedItems": [{"richResultType": "Product snippets", "items": items}],
    })
}
