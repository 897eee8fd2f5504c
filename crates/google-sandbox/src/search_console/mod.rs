//! Search Console: sites, search analytics, sitemaps, URL inspection (read only).

mod bulk;
mod calendar;
pub(crate) mod export;
pub(crate) mod facts;
mod filters;
mod inspection;
mod query;
mod request;
mod searches;
mod sitemaps;
mod sites;
mod source;
mod switches;
mod table;
mod vocabulary;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::events::EventLog;
use crate::google_error::GoogleError;
use crate::identities::Identity;
use crate::message::{self, Fields};
use crate::server::{ApiRequest, Shared};
use calendar::Calendar;
use request::QueryRequest;
use searches::Searches;
use sites::{Permission, Site};
pub use switches::Switches;

const SERVICE: &str = "searchconsole.googleapis.com";

/// Scopes that may read.
const READ_SCOPES: [&str; 2] =
    ["https://www.googleapis.com/auth/webmasters.readonly", "https://www.googleapis.com/auth/webmasters"];
/// The scope that may write.
const WRITE_SCOPES: [&str; 1] = ["https://www.googleapis.com/auth/webmasters"];

/// Query parameters that every method takes.
const PARAMETERS: [&str; 10] = [
    "alt",
    "prettyPrint",
    "key",
    "quotaUser",
    "access_token",
    "oauth_token",
    "callback",
    "uploadType",
    "upload_protocol",
    "$.xgafv",
];

/// Everything Search Console has.
pub(crate) struct SearchConsole {
    seed: u64,
    searches: Searches,
    sites: Vec<Site>,
    pub(crate) switches: Switches,
}

impl SearchConsole {
    /// The sites; their data are computed when they are asked for.
    pub(crate) fn new(seed: u64, log: &EventLog) -> Self {
        Self { seed, searches: Searches::new(seed, log), sites: sites::all(), switches: Switches::default() }
    }

    fn calendar(&self) -> Calendar {
        Calendar::new(self.seed, &self.searches.zone, self.switches.today())
    }

    /// The site and what the identity may do with it.
    fn site(&self, identity: &Identity, url: &str) -> Option<(&Site, Permission)> {
        let site = self.sites.iter().find(|site| site.url == url)?;
        Some((site, site.permission(identity)?))
    }
}

/// Answers a Search Console request; `None` for a path that isn't one of its methods.
pub(crate) fn route(shared: &Shared, request: &ApiRequest) -> Option<Answer> {
    let answer = if request.path == "/v1/urlInspection/index:inspect" {
        (request.method == "POST").then(|| inspection::answer(shared, request))?
    } else {
        let rest = request.path.strip_prefix("/webmasters/v3/sites")?;
        let parts: Vec<&str> = rest.split('/').skip(1).collect();
        if !rest.is_empty() && (!rest.starts_with('/') || parts.iter().any(|part| part.is_empty())) {
            return None;
        }
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", []) => list(shared, request),
            ("GET", [site]) => get(shared, request, site),
            ("GET", [site, "sitemaps"]) => sitemaps::list(shared, request, site),
            ("GET", [site, "sitemaps", path]) => sitemaps::get(shared, request, site, path),
            ("POST", [site, "searchAnalytics", "query"]) => search_analytics(shared, request, site),
            ("PUT" | "DELETE", [_] | [_, "sitemaps", _]) => write(shared, request),
            _ => return None,
        }
    };
    Some(answer.unwrap_or_else(|error| error.answer()))
}

/// The identity behind a request that reads, once its query parameters are known ones.
fn reader(shared: &Shared, request: &ApiRequest, method: &str, own: &[&str]) -> Result<Identity, GoogleError> {
    let method = format!("google.searchconsole.v1.{method}");
    let identity = shared.authorize(request, &READ_SCOPES, SERVICE, &method)?;
    for pair in request.query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or_default();
        if name == "fields" {
            return Err(GoogleError::unsupported("fields"));
        }
        if !PARAMETERS.contains(&name) && !own.contains(&name) {
            return Err(GoogleError::bad_payload(
                "",
                format!(
                    "Unknown name \"{name}\": Cannot bind query parameter. Field '{name}' could not be found in request \
                     message."
                ),
            ));
        }
    }
    Ok(identity)
}

/// Decodes a path segment once: an address that was encoded twice is another address.
fn decoded(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

/// A site that the identity may read, by the path segment that names it.
fn readable<'a>(shared: &'a Shared, identity: &Identity, segment: &str) -> Result<&'a Site, GoogleError> {
    let url = decoded(segment);
    check_url(&url)?;
    match shared.search_console.site(identity, &url) {
        Some((site, permission)) if permission != Permission::Unverified => Ok(site),
        _ => Err(denied(&url)),
    }
}

/// A site is a domain or an address; anything else is no site at all.
fn check_url(url: &str) -> Result<(), GoogleError> {
    let rest = ["sc-domain:", "http://", "https://"].iter().find_map(|start| url.strip_prefix(start));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if host.is_empty() || host.contains(':') && url.starts_with("sc-domain:") {
        return Err(GoogleError::legacy(
            400,
            "global",
            "invalidParameter",
            format!("'{url}' is not a valid Search Console site URL."),
        )
        .at("siteUrl"));
    }
    Ok(())
}

fn denied(url: &str) -> GoogleError {
    GoogleError::legacy(
        403,
        "global",
        "forbidden",
        format!(
            "User does not have sufficient permission for site '{url}'. See also: \
             https://support.google.com/webmasters/answer/2451999."
        ),
    )
}

fn list(shared: &Shared, request: &ApiRequest) -> Result<Answer, GoogleError> {
    let identity = reader(shared, request, "SitesService.List", &[])?;
    let entries: Vec<Value> = shared
        .search_console
        .sites
        .iter()
        .filter_map(|site| site.permission(&identity).map(|permission| site.entry(permission)))
        .collect();
    Ok(Answer::json(200, &if entries.is_empty() { json!({}) } else { json!({"siteEntry": entries}) }))
}

/// A site that isn't verified can be looked at, but nothing behind it.
fn get(shared: &Shared, request: &ApiRequest, site: &str) -> Result<Answer, GoogleError> {
    let identity = reader(shared, request, "SitesService.Get", &[])?;
    let url = decoded(site);
    check_url(&url)?;
    let (site, permission) = shared.search_console.site(&identity, &url).ok_or_else(|| denied(&url))?;
    Ok(Answer::json(200, &site.entry(permission)))
}

fn search_analytics(shared: &Shared, request: &ApiRequest, site: &str) -> Result<Answer, GoogleError> {
    let identity = reader(shared, request, "searchanalytics.SearchAnalyticsService.Query", &[])?;
    let body = message::json(&request.body)?;
    let query = QueryRequest::read(&body)?;
    let site = readable(shared, &identity, site)?;
    let running = shared.search_console.switches.admit(&site.url)?;
    let mut answer = query::answer(&shared.search_console, site, &query)?;
    // A request runs until its last byte has left.
    answer.held = Some(Box::new(running));
    Ok(answer)
}

/// Adding and removing sites and sitemaps: Google wants another scope, this sandbox leaves it out.
fn write(shared: &Shared, request: &ApiRequest) -> Result<Answer, GoogleError> {
    shared.authorize(request, &WRITE_SCOPES, SERVICE, "google.searchconsole.v1.SitesService")?;
    Err(GoogleError::unsupported("changing sites and sitemaps"))
}

/// The required string fields of a message.
fn required(fields: &Fields<'_>, key: &str, at: &str) -> Result<String, GoogleError> {
    fields
        .text(key)?
        .filter(|text| !text.is_empty())
        .ok_or_else(|| GoogleError::bad_value(at, format!("Invalid value at '{at}': the field is required.")))
}
