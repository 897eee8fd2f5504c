//! BigQuery.

mod schema;
mod sql;
mod value;
