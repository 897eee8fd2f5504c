//! The tools, one file each.

pub(crate) mod compare_conversion_models;
pub(crate) mod regex_cluster;
pub(crate) mod run_funnel_report;
pub(crate) mod run_realtime_report;
pub(crate) mod run_report;
pub(crate) mod search_fields;
pub(crate) mod validate_report;
