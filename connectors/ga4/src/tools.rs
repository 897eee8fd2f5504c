//! The tools, one file each.

pub(crate) mod run_report;
