//! `inspect_urls`: what Google's index knows about a batch of addresses.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use acp_core::{Call, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_google::Failure;
use acp_protocol::JsonObject;
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use futures::stream::{StreamExt, iter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::api::{Inspection, Issue, LANES, SearchConsole, Site};
use crate::report::described;
use crate::resources;

/// Addresses that were not inspected and are named in the answer; the table has all of them.
const NAMED: usize = 25;

/// What Google's index knows about URLs: verdict, coverage, crawl, canonicals, rich results; a row each, with error where one failed. No live test.
/// Google allows 2,000 a day: ask for those that matter.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InspectUrls {
    /// Whole addresses, such as https://www.example.com/blog/.
    #[schemars(length(min = 1, max = 500))]
    urls: Vec<String>,
}

/// What came of one address.
enum Outcome {
    Inspected(Box<Inspection>),
    /// It failed, and others may not.
    Failed(Error),
    /// It was not inspected, for a reason that would meet every further address.
    Ended(Error),
    /// It was not asked about any more.
    Left,
}

impl Tool for InspectUrls {
    type Source = SearchConsole;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "inspect_urls",
        title: "URL inspection",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, console: &SearchConsole, call: &Call) -> Result<Extraction> {
        self.each_once(call);
        let site = console.site(call)?;
        call.set_arguments(&self);

        let batch = Batch {
            site: &site,
            call,
            total: self.urls.len(),
            done: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        };
        let inspections: Vec<_> = self.urls.iter().map(|url| batch.inspect(url)).collect();
        let outcomes: Vec<Outcome> = iter(inspections).buffered(LANES).collect().await;
        let inspected = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Inspected(_))).count();
        let ended = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Ended(why) => Some(why),
            _ => None,
        });
        let failed = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Failed(why) => Some(why),
            _ => None,
        });
        if let Some(why) = ended.or(failed).filter(|_| inspected == 0) {
            return Err(why.clone());
        }
        let mut table = call.object_table(headers());
        for (url, outcome) in self.urls.iter().zip(&outcomes) {
            table.push(&row(url, outcome).to_string())?;
        }
        let table = table.into_table()?;
        let is_left = |outcome: &Outcome| matches!(outcome, Outcome::Ended(_) | Outcome::Left);
        let left = self.urls.iter().zip(&outcomes).filter(|(_, outcome)| is_left(outcome));
        let left: Vec<&str> = left.map(|(url, _)| url.as_str()).collect();
        if let Some(why) = ended {
            call.warn(format!(
                "PARTIAL: {} of {} URLs were not inspected; their error says so. {}",
                left.len(),
                self.urls.len(),
                why.message()
            ));
        }
        Ok(self.answer(table, &site, inspected, &left))
    }
}

impl InspectUrls {
    /// Takes repeated addresses out: each costs an inspection.
    fn each_once(&mut self, call: &Call) {
        let given = self.urls.len();
        let mut seen = HashSet::new();
        self.urls.iter_mut().for_each(|url| *url = url.trim().to_owned());
        self.urls.retain(|url| seen.insert(url.clone()));
        if self.urls.len() < given {
            call.warn(format!("{} repeated URLs were left out.", given - self.urls.len()));
        }
    }

    fn answer(&self, table: TableWriter, site: &Site, inspected: usize, left: &[&str]) -> Extraction {
        let source = json!({"property": site.id, "api": "searchconsole.v1.urlInspection.index.inspect", "partial": !left.is_empty()});
        let named: Vec<&str> = left.iter().take(NAMED).copied().collect();
        Extraction::new(
            table,
            format!("Google's index about {} URLs of the Search Console property {}.", self.urls.len(), site.id),
        )
        .title(format!("Search Console {} · URL inspection", site.id))
        .extra(json!({
            "inspected": inspected,
            "failed": self.urls.len() - inspected - left.len(),
            "not_inspected": {"count": left.len(), "urls": named},
        }))
        .source(source.as_object().cloned().unwrap_or_else(JsonObject::new))
    }
}

/// The addresses of a call while they are asked about.
struct Batch<'a> {
    site: &'a Site,
    call: &'a Call,
    total: usize,
    done: AtomicUsize,
    /// Whether something came that would come again for every further address.
    over: AtomicBool,
}

impl Batch<'_> {
    async fn inspect(&self, url: &str) -> Outcome {
        let page = match self.page(url) {
            Ok(page) => page,
            Err(error) => return Outcome::Failed(error),
        };
        if self.over.load(Ordering::Relaxed) {
            return Outcome::Left;
        }
        let outcome = self.site.inspect(&page).await;
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.call.progress(done as u64, Some(self.total as u64), format!("{done} of {} URLs inspected", self.total));
        match outcome {
            Ok(inspection) => Outcome::Inspected(Box::new(inspection)),
            Err(failure) if is_of_this_url(&failure) => Outcome::Failed(failure.into_acp(&self.site.context)),
            Err(failure) => {
                self.over.store(true, Ordering::Relaxed);
                Outcome::Ended(failure.into_acp(&self.site.context))
            }
        }
    }

    /// The address as it is asked about. One that can't be of the property costs no inspection.
    fn page(&self, url: &str) -> Result<String> {
        let page = Url::parse(url).ok().filter(|page| matches!(page.scheme(), "http" | "https") && page.has_host());
        let Some(mut page) = page else {
            return Err(Error::invalid_arguments(
                "This is not a whole address, such as https://www.example.com/blog/.",
            ));
        };
        page.set_fragment(None);
        let page = String::from(page);
        match resources::holds(&self.site.id, &page) {
            true => Ok(page),
            false => Err(Error::invalid_arguments(format!(
                "This address does not belong to the property {}: a prefix holds exactly what begins with it, a domain all of its hosts.",
                self.site.id
            ))),
        }
    }
}

/// Whether a failure may be about the address alone: refused, unknown, or a fault of the service that stayed after a second try.
fn is_of_this_url(failure: &Failure) -> bool {
    failure.google().is_some_and(|error| {
        !error.is_quota() && !error.is_rate_limit() && matches!(error.http_status, 400 | 403 | 404 | 500)
    })
}

/// A row; what an answer does not say is null.
fn row(url: &str, outcome: &Outcome) -> Value {
    let inspection = match outcome {
        Outcome::Inspected(inspection) => inspection,
        Outcome::Failed(error) => return json!({"url": url, "error": error.message()}),
        Outcome::Ended(_) | Outcome::Left => {
            return json!({"url": url, "error": "Not inspected: the call had to end before. Ask again later."});
        }
    };
    let status = &inspection.index_status_result;
    let same =
        status.google_canonical.as_ref().zip(status.user_canonical.as_ref()).map(|(google, user)| google == user);
    let some = |list: &[String]| (!list.is_empty()).then(|| json!(list));
    let mut row = json!({
        "url": url,
        "verdict": status.verdict,
        "coverage_state": status.coverage_state,
        "robots_txt_state": status.robots_txt_state,
        "indexing_state": status.indexing_state,
        "page_fetch_state": status.page_fetch_state,
        "last_crawl_time": status.last_crawl_time,
        "crawled_as": status.crawled_as,
        "google_canonical": status.google_canonical,
        "user_canonical": status.user_canonical,
        "canonicals_agree": same,
        "sitemaps": some(&status.sitemap),
        "referring_urls": some(&status.referring_urls),
        "amp_verdict": inspection.amp_result.as_ref().and_then(|amp| amp.verdict.as_deref()),
        "inspection_link": inspection.inspection_result_link,
    });
    if let Some(rich) = &inspection.rich_results_result {
        let types: Vec<&str> = rich.detected_items.iter().map(|found| found.rich_result_type.as_str()).collect();
        let issues: Vec<&Issue> =
            rich.detected_items.iter().flat_map(|found| &found.items).flat_map(|item| &item.issues).collect();
        let count = |severity: &str| issues.iter().filter(|issue| issue.severity == severity).count();
        let messages: BTreeSet<&str> = issues.iter().map(|issue| issue.issue_message.as_str()).collect();
        row["rich_results_verdict"] = json!(rich.verdict);
        row["rich_result_types"] = json!(types);
        row["rich_result_errors"] = json!(count("ERROR"));
        row["rich_result_warnings"] = json!(count("WARNING"));
        row["rich_result_issues"] = json!(messages);
    }
    row
}

fn headers() -> Vec<Header> {
    use ColumnType::{Boolean, Datetime, Integer, Json, String};
    let column = |(name, column_type, text): (&str, ColumnType, &str)| Header {
        role: Some(ColumnRole::Attribute),
        ..described(Header::dimension(name, column_type), text)
    };
    let url = described(Header::dimension("url", String), "As it was given");
    let columns = [
        ("verdict", String, "PASS: indexed; NEUTRAL: left out; FAIL: an error keeps it out"),
        ("coverage_state", String, "Google's own words; they change, so do not compare them"),
        ("robots_txt_state", String, "Whether robots.txt allows crawling"),
        ("indexing_state", String, "Whether the page allows indexing"),
        ("page_fetch_state", String, "What came of the last fetch"),
        ("last_crawl_time", Datetime, "UTC"),
        ("crawled_as", String, "Kind of crawler"),
        ("google_canonical", String, "The address that Google chose"),
        ("user_canonical", String, "The address that the page names"),
        ("canonicals_agree", Boolean, "Whether both are the same; null where one is missing"),
        ("sitemaps", Json, "Sitemaps that name it, as far as Google tells"),
        ("referring_urls", Json, "Pages that link to it, as far as Google tells"),
        ("rich_results_verdict", String, "Of its structured data"),
        ("rich_result_types", Json, "Kinds that were found"),
        ("rich_result_errors", Integer, "Issues that keep rich results away"),
        ("rich_result_warnings", Integer, "Issues that do not"),
        ("rich_result_issues", Json, "Their different messages"),
        ("amp_verdict", String, "Of its AMP page, where it has one"),
        ("inspection_link", String, "The same in Search Console"),
        ("error", String, "Why there is nothing about this URL; null when there is"),
    ];
    std::iter::once(url).chain(columns.map(column)).collect()
}
