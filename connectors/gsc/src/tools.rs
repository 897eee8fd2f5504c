//! The tools, one file each.

pub(crate) mod compare_periods;
pub(crate) mod inspect_urls;
pub(crate) mod list_sitemaps;
pub(crate) mod query_page_overlap;
pub(crate) mod regex_cluster;
pub(crate) mod search_analytics;
pub(crate) mod validate_query;
