//! The toy's tools, a file each.

pub(crate) mod boom;
pub(crate) mod host_tables;
pub(crate) mod peek;
pub(crate) mod raw;
pub(crate) mod rows;
pub(crate) mod shoot;
pub(crate) mod slow;
pub(crate) mod snap;
pub(crate) mod sql;
