//! `list_sitemaps`: the sitemaps of a property and what Google made of them.

use acp_core::{Call, Error, Extraction, Hints, Result, Tool, ToolSpec};
use acp_protocol::JsonObject;
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::api::{SearchConsole, Sitemap};
use crate::report::described;

/// Lists submitted sitemaps: when Google read them, errors, warnings, how many URLs they submit. How many are indexed the API does not say.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListSitemaps {
    /// Address of a sitemap index: list what it holds instead.
    sitemap_index: Option<String>,
}

impl Tool for ListSitemaps {
    type Source = SearchConsole;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "list_sitemaps",
        title: "Sitemaps",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(self, console: &SearchConsole, call: &Call) -> Result<Extraction> {
        let index = self.sitemap_index.as_deref().map(str::trim);
        let is_address = |text: &str| Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if index.is_some_and(|index| !is_address(index)) {
            return Err(Error::invalid_arguments(
                "sitemap_index must be the whole address of an index, such as https://www.example.com/sitemap_index.xml. Without it, every \
                 submitted sitemap is listed; is_index marks the indexes.",
            ));
        }
        let site = console.site(call)?;
        let sitemaps = site.sitemaps(index).await.map_err(|failure| failure.into_acp(&site.context))?;
        if sitemaps.is_empty() {
            call.warn(match index {
                Some(_) => "Google knows nothing in this index: it is not one, or not submitted for this property.",
                None => {
                    "No sitemap was submitted for this property; one that robots.txt names, or that was submitted for another property of \
                     the site, is not listed here."
                }
            });
        }
        let mut table = call.object_table(headers());
        for sitemap in &sitemaps {
            table.push(&row(sitemap).to_string())?;
        }
        let source = json!({"property": site.id, "api": "searchconsole.v1.sitemaps.list"});
        let of_index = index.map(|index| format!(", those in the index {}", acp_google::clean(index, 200)));
        Ok(Extraction::new(
            table.into_table()?,
            format!("Sitemaps of the Search Console property {}{}.", site.id, of_index.unwrap_or_default()),
        )
        .title(format!("Search Console {} · sitemaps", site.id))
        .source(source.as_object().cloned().unwrap_or_else(JsonObject::new)))
    }
}

/// A sitemap as a row; what Google does not say is null.
fn row(sitemap: &Sitemap) -> Value {
    let submitted = |kinds: &[&str]| {
        let counts = sitemap.contents.iter().filter(|content| kinds.contains(&content.kind.as_str()));
        counts.filter_map(|content| content.submitted).map(|count| count.0).reduce(|one, two| one + two)
    };
    let contents: Vec<Value> =
        sitemap.contents.iter().map(|content| json!({"type": content.kind, "submitted": content.submitted})).collect();
    json!({
        "path": sitemap.path,
        "type": sitemap.kind,
        "is_index": sitemap.is_sitemaps_index,
        "is_pending": sitemap.is_pending,
        "last_submitted": sitemap.last_submitted,
        "last_downloaded": sitemap.last_downloaded,
        "errors": sitemap.errors,
        "warnings": sitemap.warnings,
        "submitted_pages": submitted(&["web"]),
        "contents": (!contents.is_empty()).then_some(contents),
    })
}

fn headers() -> Vec<Header> {
    use ColumnType::{Boolean, Datetime, Integer, Json, String};
    let attribute = |(name, column_type, text): (&str, ColumnType, &str)| Header {
        role: Some(ColumnRole::Attribute),
        ..described(Header::dimension(name, column_type), text)
    };
    let attributes = [
        ("type", String, "Format"),
        ("is_index", Boolean, "Whether it lists other sitemaps; see sitemap_index"),
        ("is_pending", Boolean, "Whether Google has yet to read it"),
        ("last_submitted", Datetime, "UTC"),
        ("last_downloaded", Datetime, "UTC; null: never"),
    ];
    let metric = |(name, text): (&str, &str)| described(Header::metric(name, Integer), text);
    let metrics = [
        ("errors", "Problems that keep URLs from being read"),
        ("warnings", "Problems that do not"),
        ("submitted_pages", "URLs of web pages in it; null: not read yet"),
    ];
    let mut headers = vec![described(Header::dimension("path", String), "Address")];
    headers.extend(attributes.map(attribute));
    headers.extend(metrics.map(metric));
    headers.push(attribute(("contents", Json, "Submitted URLs by type")));
    headers
}
