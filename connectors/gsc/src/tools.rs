//! The tools, one file each.

pub(crate) mod search_analytics;
