//! The tools, one file each.

pub(crate) mod describe_table;
pub(crate) mod execute_query;
pub(crate) mod get_job;
pub(crate) mod load_rows;
pub(crate) mod preview_table;
pub(crate) mod validate_query;
