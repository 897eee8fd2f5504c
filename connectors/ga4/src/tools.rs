//! The tools, one file each.

pub(crate) mod compare_conversion_models;
pub(crate) mod regex_cluster;
pub(crate) mod run_report;
