//! `search_analytics_by_regex_cluster`: queries or pages put into groups by named patterns, over all rows.

use acp_core::{Call, Cell, Error, Extraction, Hints, Result, TableWriter, Tool, ToolSpec};
use acp_google::{Cluster, Patterns};
use acp_protocol::JsonObject;
use acp_protocol::result::{ColumnRole, ColumnType, Header};
use jiff::ToSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{SearchConsole, Site};
use crate::check::{Dimension, SearchType};
use crate::filters::{Filter, FilterDimension, Metric, Operator};
use crate::report::{
    Gather, METRICS, cell, counted, coverage, described, explain_nothing, gaps, metric_headers, question,
};
use crate::search::{Extracted, Figures, Query, WalkDays, extract};
use crate::store::RowStore;
use crate::window;

/// Characters of the description: patterns can be long.
const DESCRIPTION_MAX: usize = 2_000;
const BRAND: &str = "brand";
const NON_BRAND: &str = "non-brand";
const OTHER: &str = "(other)";
/// What Google counts and no row shows.
const NOT_IN_ROWS: &str = "(not in rows)";

/// Sums all queries or pages by named patterns (topics, brand, site sections). Each counts once, in the first that matches; (not in rows) is what
/// Google counts and never shows, so the groups add up to totals.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByRegexCluster {
    /// Default query.
    dimension: Option<Subject>,
    /// Tried in this order. What matches none is (other).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    clusters: Vec<Cluster>,
    /// Pattern of the brand's names (acme|akme); the rest is non-brand.
    brand: Option<String>,
    /// All must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    filters: Vec<Filter>,
    /// First day (YYYY-MM-DD, NdaysAgo). Default: a month before end_date.
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    /// Last day. Default: the last with reliable data.
    #[schemars(extend("x-acp-date" = "end"))]
    end_date: Option<String>,
    /// Default web.
    search_type: Option<SearchType>,
    /// Day by day gives more rows. auto: where some are missing.
    walk_days: Option<WalkDays>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Subject {
    #[default]
    Query,
    Page,
}

impl Subject {
    fn dimension(self) -> FilterDimension {
        match self {
            Self::Query => FilterDimension::Query,
            Self::Page => FilterDimension::Page,
        }
    }

    /// The column with their number.
    fn plural(self) -> &'static str {
        match self {
            Self::Query => "queries",
            Self::Page => "pages",
        }
    }
}

/// What fell into a group.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    count: i64,
    figures: Figures,
    /// What matches its pattern too, but counts in an earlier group.
    overlap: i64,
    overlap_impressions: f64,
}

impl Tool for ByRegexCluster {
    type Source = SearchConsole;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "search_analytics_by_regex_cluster",
        title: "Search performance by pattern",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, console: &SearchConsole, call: &Call) -> Result<Extraction> {
        let subject = *self.dimension.get_or_insert_default();
        let patterns = self.patterns(subject, call)?;
        let search_type = *self.search_type.get_or_insert_default();
        let dimension = Dimension::from(&subject.dimension());
        let mut query = question(vec![dimension], &mut self.filters, search_type, call)?;
        let site = console.site(call)?;
        let (start, end) = (self.start_date.as_deref(), self.end_date.as_deref());
        query.window = window::resolve_final(console, &site, call, start, end, 1.month()).await?;
        self.start_date = Some(query.window.start.to_string());
        self.end_date = Some(query.window.end.to_string());
        call.set_arguments(&self);

        let mut gather = Gather::new(call, subject.plural(), RowStore::new);
        let by_the_rules = query.combination().counted().name();
        let walk = self.walk_days.unwrap_or_default();
        let (extracted, totals) =
            tokio::join!(extract(&site, &query, walk, &mut gather), query.ask_totals(&site, by_the_rules));
        let extracted = extracted?;
        let totals = match totals {
            Ok(totals) => Some(totals),
            Err(failure) => {
                let why = failure.into_acp(&site.context);
                call.warn(format!("Google's totals are missing: {}", why.message()));
                None
            }
        };
        gaps(&query, &extracted).into_iter().for_each(|gap| call.warn(gap));
        if extracted.rows == 0 {
            call.warn(explain_nothing(&site, &query, totals.as_ref(), None).await);
        }

        let groups = assign(&gather.rows, &patterns)?;
        self.warn(&groups, extracted.rows, call);
        let coverage = coverage(&query, &extracted, totals.as_ref());
        let mut table = call.table(headers(subject))?;
        self.fill(&groups, coverage.as_ref().ok(), &mut table)?;
        if let Some(totals) = &totals {
            table.set_totals(METRICS.map(|(metric, name)| (name, cell(metric, totals))))?;
        }
        Ok(self.answer(table, &site, &query, &extracted, &groups, coverage))
    }
}

impl ByRegexCluster {
    /// The groups that have a pattern, in their order: the name and the pattern.
    fn named(&self) -> impl Iterator<Item = (&str, &str)> {
        let brand = self.brand.as_deref().map(|pattern| (BRAND, pattern));
        brand.into_iter().chain(self.clusters.iter().map(|cluster| (cluster.name.as_str(), cluster.pattern.as_str())))
    }

    /// The name of what matches no pattern.
    fn rest(&self) -> &'static str {
        if self.clusters.is_empty() { NON_BRAND } else { OTHER }
    }

    /// Checks names and patterns, and brings the patterns into the form in which they are searched.
    fn patterns(&mut self, subject: Subject, call: &Call) -> Result<Patterns> {
        if self.clusters.is_empty() && self.brand.is_none() {
            return Err(Error::invalid_arguments(
                "There is no pattern. Give clusters, such as [{\"name\": \"prices\", \"pattern\": \"price|cost\"}], or brand.",
            ));
        }
        Cluster::check_names(&mut self.clusters, &[BRAND, NON_BRAND, OTHER, NOT_IN_ROWS])?;
        let dimension = subject.dimension();
        let brand = self.brand.as_mut().map(|pattern| (BRAND, pattern));
        let named = self.clusters.iter_mut().map(|cluster| (cluster.name.as_str(), &mut cluster.pattern));
        let mut patterns = Vec::new();
        for (name, pattern) in brand.into_iter().chain(named) {
            let mut filter = Filter { dimension, operator: Operator::IncludingRegex, expression: pattern.clone() };
            filter.normalise(call).map_err(|error| {
                Error::invalid_arguments(format!("The pattern of {name:?} can't be used. {}", error.message()))
            })?;
            *pattern = filter.expression;
            patterns.push(pattern.as_str());
        }
        Patterns::new(&patterns).map_err(|why| Error::invalid_arguments(format!("The patterns can't be used: {why}")))
    }

    fn warn(&self, groups: &[Group], rows: u64, call: &Call) {
        for ((name, _), group) in self.named().zip(groups).filter(|_| rows > 0) {
            if group.count == 0 && group.overlap == 0 {
                call.warn(format!("The pattern of {name:?} matches nothing."));
            } else if group.count == 0 {
                call.warn(format!("All that {name:?} matches counts in earlier groups: put it before them."));
            }
        }
        if self.brand.is_some() {
            call.warn("brand and non-brand are split by the given pattern; the API knows no brand queries.");
        }
    }

    fn fill(&self, groups: &[Group], coverage: Option<&Value>, table: &mut TableWriter) -> Result<()> {
        let named = self.named().map(|(name, pattern)| (name, Cell::Text(pattern)));
        for ((name, pattern), group) in named.chain([(self.rest(), Cell::Null)]).zip(groups) {
            let mut cells = vec![Cell::Text(name), pattern, Cell::Integer(group.count)];
            cells.extend(METRICS.map(|(metric, _)| match (metric, group.count) {
                (Metric::Ctr, 0) => Cell::Null,
                _ => cell(metric, &group.figures),
            }));
            let overlap_impressions = group.overlap_impressions.round() as i64;
            cells.extend(match pattern {
                Cell::Null => [Cell::Null; 2],
                _ => [Cell::Integer(group.overlap), Cell::Integer(overlap_impressions)],
            });
            table.push(&cells)?;
        }
        let Some(coverage) = coverage else { return Ok(()) };
        let left = |metric: &str| coverage[metric]["not_in_rows"].as_i64().unwrap_or_default();
        let (clicks, impressions) = (left("clicks"), left("impressions"));
        let ctr = if impressions > 0 { Cell::Number(clicks as f64 / impressions as f64) } else { Cell::Null };
        table.push(&[
            Cell::Text(NOT_IN_ROWS),
            Cell::Null,
            Cell::Null,
            Cell::Integer(clicks),
            Cell::Integer(impressions),
            ctr,
            Cell::Null,
            Cell::Null,
            Cell::Null,
        ])
    }

    fn answer(
        &self,
        table: TableWriter,
        site: &Site,
        query: &Query,
        extracted: &Extracted,
        groups: &[Group],
        coverage: Result<Value, &'static str>,
    ) -> Extraction {
        let subject = self.dimension.unwrap_or_default();
        let counted = counted(query, extracted);
        let rows: i64 = groups.iter().map(|group| group.count).sum();
        let mut extra = json!({"aggregation": counted, "walked_days": extracted.walked});
        extra[subject.plural()] = json!(rows);
        match coverage {
            Ok(coverage) => extra["coverage"] = coverage,
            Err(reason) => {
                extra["coverage"] = Value::Null;
                extra["coverage_unknown"] = json!(reason);
            }
        }
        if self.brand.is_some() {
            let mut non_brand = Group::default();
            for group in &groups[1..] {
                non_brand.count += group.count;
                non_brand.figures.join(&group.figures);
            }
            extra["non_brand"] = json!({
                subject.plural(): non_brand.count,
                "clicks": non_brand.figures.clicks.round() as i64,
                "impressions": non_brand.figures.impressions.round() as i64,
                "ctr": non_brand.figures.ctr,
                "position": non_brand.figures.position,
            });
        }
        let source =
            json!({"property": site.id, "api": "searchconsole.v1.searchanalytics.query", "aggregation": counted});
        let mut text = format!(
            "Search Console property {}, {} grouped by patterns. Search type: {}. Impressions counted {counted}. Days in Pacific time.",
            site.id,
            subject.plural(),
            query.search_type.name(),
        );
        if !self.filters.is_empty() {
            text.push_str(&format!(" Filter: filters {}.", json!(self.filters)));
        }
        let window = query.window;
        Extraction::new(table, acp_google::clean(&text, DESCRIPTION_MAX))
            .title(format!("Search Console {} by pattern · {}→{}", site.id, window.start, window.end))
            .dates([window.start, window.end])
            .extra(extra)
            .source(source.as_object().cloned().unwrap_or_else(JsonObject::new))
    }
}

/// Puts each row into the group of its first pattern; what matches none is last.
fn assign(rows: &RowStore, patterns: &Patterns) -> Result<Vec<Group>> {
    let mut groups = vec![Group::default(); patterns.len() + 1];
    rows.each_ordered(&[], |key, figures| {
        let mut matching = patterns.matching(key.first().copied().unwrap_or_default());
        let group = &mut groups[matching.next().unwrap_or(patterns.len())];
        group.count += 1;
        group.figures.join(figures);
        for later in matching {
            groups[later].overlap += 1;
            groups[later].overlap_impressions += figures.impressions;
        }
        Ok(())
    })?;
    Ok(groups)
}

fn headers(subject: Subject) -> Vec<Header> {
    let attribute = |name: &str, text: &str| Header {
        role: Some(ColumnRole::Attribute),
        ..described(Header::dimension(name, ColumnType::String), text)
    };
    let mut headers = vec![
        described(
            Header::dimension("cluster", ColumnType::String),
            "Group; (other): no pattern matches; (not in rows): Google counts it and shows no row",
        ),
        attribute("pattern", "RE2, case does not matter"),
        described(Header::metric(subject.plural(), ColumnType::Integer), "How many different ones"),
    ];
    headers.extend(metric_headers());
    headers.push(described(
        Header::metric("overlap", ColumnType::Integer),
        "How many match this pattern too, but count in an earlier group",
    ));
    headers.push(described(Header::metric("overlap_impressions", ColumnType::Integer), "Impressions of those"));
    headers
}
