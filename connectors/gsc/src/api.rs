//! Requests to the Search Console API (searchconsole v1), and what comes back.
//!
//! Types are lenient: Google leaves out what is empty and adds fields without notice.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acp_core::{Call, Identity, Result};
use acp_google::{Context, Failure, Google, Lanes, Rows, Session, path_segment};
use moka::future::Cache;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::window::Available;

/// The one scope that every read needs.
pub(crate) const SCOPES: &[&str] = &["https://www.googleapis.com/auth/webmasters.readonly"];
/// Requests of this process that may be on their way for a property at a time. Google's limit on bursts is not documented;
/// it lies below twenty a second.
pub(crate) const LANES: usize = 3;
/// The most rows Google gives at a time.
pub(crate) const PAGE_ROWS: u64 = 25_000;
/// How long the list of properties is kept.
const SITES_TTL: Duration = Duration::from_secs(600);
/// How long the last reliable day is kept.
const AVAILABLE_TTL: Duration = Duration::from_secs(3600);

/// The connector's state: one client and what it remembers.
#[derive(Debug)]
pub(crate) struct SearchConsole {
    google: Google,
    sites: Cache<Identity, Arc<Vec<SiteEntry>>>,
    available: Cache<(Identity, String), Available>,
    lanes: Mutex<HashMap<String, Lanes>>,
}

/// One property, asked in the name of one credential.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) id: String,
    pub(crate) session: Session,
    pub(crate) context: Context,
    identity: Identity,
}

impl SearchConsole {
    pub(crate) fn new(google: Google) -> Self {
        Self {
            google,
            sites: Cache::builder().max_capacity(500).time_to_live(SITES_TTL).build(),
            available: Cache::builder().max_capacity(5_000).time_to_live(AVAILABLE_TTL).build(),
            lanes: Mutex::default(),
        }
    }

    /// The client.
    pub(crate) fn google(&self) -> &Google {
        &self.google
    }

    /// The property of a call.
    pub(crate) fn site(&self, call: &Call) -> Result<Site> {
        let id = call.resource()?.id.clone();
        let session = self.google.session(call.credentials()?, SCOPES)?.in_lanes(self.lanes_of(&id));
        let context = session.context(format!("Search Console property {id}")).grant(
            "Add it in Search Console under Settings > Users and permissions, or choose another property: autocontext without arguments lists them.",
        );
        Ok(Site { identity: call.identity(), id, session, context })
    }

    fn lanes_of(&self, site: &str) -> Lanes {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // Properties nobody is asking about need no entry, unless Google objected lately.
        lanes.retain(|_, lanes| lanes.is_shared() || lanes.open() < LANES);
        lanes.entry(site.to_owned()).or_insert_with(|| Lanes::new(LANES)).clone()
    }

    /// Every property that the credentials list, in Google's order, the unverified ones too.
    pub(crate) async fn sites(&self, call: &Call) -> Result<Arc<Vec<SiteEntry>>> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct List {
            site_entry: Vec<SiteEntry>,
        }
        let session = self.google.session(call.credentials()?, SCOPES)?;
        let context = session.context("the list of Search Console properties");
        let read = async {
            let url = format!("{}/webmasters/v3/sites", session.endpoints().search_console());
            let list: List = session.get(&url).await?;
            Ok(Arc::new(list.site_entry))
        };
        let sites = self.sites.try_get_with(call.identity(), read).await;
        sites.map_err(|failure: Arc<Failure>| Failure::clone(&failure).into_acp(&context))
    }

    /// The days a property has data for.
    pub(crate) async fn available(&self, site: &Site, call: &Call) -> Result<Available> {
        let key = (site.identity.clone(), site.id.clone());
        let available = self.available.try_get_with(key, Available::measure(site, call.clock())).await;
        available.map_err(|failure: Arc<Failure>| Failure::clone(&failure).into_acp(&site.context))
    }
}

impl Site {
    /// One page of a question.
    pub(crate) async fn search(&self, request: &SearchRequest) -> Result<Page, Failure> {
        let base = self.session.endpoints().search_console();
        let url = format!("{base}/webmasters/v3/sites/{}/searchAnalytics/query", path_segment(&self.id));
        let rows = self.session.post_rows(&url, request, "rows").await?;
        let end: SearchEnd = rows.rest()?;
        // Something that is no answer of this method must not pass for an empty one.
        if rows.is_empty() && end.response_aggregation_type.is_empty() {
            return Err(acp_core::Error::upstream(
                "Google's answer is not one to a search analytics question. Ask again; if it happens again, a proxy may be answering in Google's place.",
            )
            .into());
        }
        Ok(Page { rows, end })
    }
}

impl Site {
    /// What the index knows about an address of the property, in English. No live test.
    pub(crate) async fn inspect(&self, page: &str) -> Result<Inspection, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            inspection_result: Inspection,
        }
        let url = format!("{}/v1/urlInspection/index:inspect", self.session.endpoints().search_console());
        let question = json!({"inspectionUrl": page, "siteUrl": self.id, "languageCode": "en-US"});
        let answer: Answer = self.session.post(&url, &question).await?;
        Ok(answer.inspection_result)
    }

    /// The sitemaps that were submitted, or those that an index lists.
    pub(crate) async fn sitemaps(&self, index: Option<&str>) -> Result<Vec<Sitemap>, Failure> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct List {
            sitemap: Vec<Sitemap>,
        }
        let base = self.session.endpoints().search_console();
        let mut url = format!("{base}/webmasters/v3/sites/{}/sitemaps", path_segment(&self.id));
        if let Some(index) = index {
            url.push_str(&format!("?sitemapIndex={}", path_segment(index)));
        }
        let list: List = self.session.get(&url).await?;
        Ok(list.sitemap)
    }
}

/// An inspected address. Enumerations are texts: Google adds values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Inspection {
    pub(crate) inspection_result_link: Option<String>,
    pub(crate) index_status_result: IndexStatus,
    pub(crate) amp_result: Option<Amp>,
    pub(crate) rich_results_result: Option<RichResults>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct IndexStatus {
    pub(crate) verdict: Option<String>,
    pub(crate) coverage_state: Option<String>,
    pub(crate) robots_txt_state: Option<String>,
    pub(crate) indexing_state: Option<String>,
    pub(crate) page_fetch_state: Option<String>,
    pub(crate) last_crawl_time: Option<String>,
    pub(crate) crawled_as: Option<String>,
    pub(crate) google_canonical: Option<String>,
    pub(crate) user_canonical: Option<String>,
    pub(crate) sitemap: Vec<String>,
    pub(crate) referring_urls: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Amp {
    pub(crate) verdict: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RichResults {
    pub(crate) verdict: Option<String>,
    pub(crate) detected_items: Vec<DetectedItems>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DetectedItems {
    pub(crate) rich_result_type: String,
    pub(crate) items: Vec<RichItem>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RichItem {
    pub(crate) issues: Vec<Issue>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Issue {
    pub(crate) issue_message: String,
    pub(crate) severity: String,
}

/// A sitemap. Counters are texts on the wire; one that is not there is `None`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Sitemap {
    pub(crate) path: String,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) is_pending: Option<bool>,
    pub(crate) is_sitemaps_index: Option<bool>,
    pub(crate) last_submitted: Option<String>,
    pub(crate) last_downloaded: Option<String>,
    pub(crate) warnings: Option<Counter>,
    pub(crate) errors: Option<Counter>,
    pub(crate) contents: Vec<SitemapContent>,
}

/// What a sitemap holds of one kind. The counter `indexed` is always zero, so it is not read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SitemapContent {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) submitted: Option<Counter>,
}

/// A whole number, as JSON writes it or as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Counter(pub(crate) i64);

impl<'de> Deserialize<'de> for Counter {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        number.map(Self).ok_or_else(|| serde::de::Error::custom("not a counter"))
    }
}

/// A page of rows and what was said beside them.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) rows: Rows,
    pub(crate) end: SearchEnd,
}

impl Page {
    /// Reads each row where it lies.
    pub(crate) fn each(&self, mut on_row: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        self.rows.iter().try_for_each(|bytes| {
            let row = serde_json::from_slice(bytes).map_err(|_| {
                acp_core::Error::upstream(
                    "A row of Google's answer has a form that this version can't read. Ask again; if it happens again, update the connector.",
                )
            })?;
            on_row(row)
        })
    }
}

/// A row as it lies in the network buffer. Counts are numbers with a fraction on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Row<'a> {
    #[serde(borrow)]
    pub(crate) keys: Vec<Key<'a>>,
    pub(crate) clicks: f64,
    pub(crate) impressions: f64,
    pub(crate) ctr: f64,
    /// Absent for Discover and Google News.
    pub(crate) position: Option<f64>,
}

/// A value of a dimension.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// An answer without its rows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SearchEnd {
    /// The rows were taken out of this list; what is no list has none, and must not pass for an answer without rows.
    #[serde(rename = "rows")]
    _rows: Vec<IgnoredAny>,
    /// How impressions were counted: `byProperty`, `byPage` or `byNewsShowcasePanel`.
    pub(crate) response_aggregation_type: String,
    pub(crate) metadata: SearchMetadata,
}

/// From when on data are not complete. The documentation writes the names with underscores, the service without.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SearchMetadata {
    #[serde(alias = "first_incomplete_date")]
    pub(crate) first_incomplete_date: Option<String>,
    #[serde(alias = "first_incomplete_hour")]
    pub(crate) first_incomplete_hour: Option<String>,
}

/// A question.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchRequest {
    pub(crate) start_date: String,
    pub(crate) end_date: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dimensions: Vec<Value>,
    /// `type`; the older `searchType` does not take every value.
    #[serde(rename = "type")]
    pub(crate) search_type: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aggregation_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data_state: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dimension_filter_groups: Vec<Value>,
    pub(crate) row_limit: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) start_row: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A property in the account's list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SiteEntry {
    pub(crate) site_url: String,
    pub(crate) permission_level: String,
}

impl SiteEntry {
    /// Whether it is listed without any right to read it.
    pub(crate) fn is_unverified(&self) -> bool {
        self.permission_level == "siteUnverifiedUser"
    }
}
