//! `acp`.
mod bridge;
mod query;

fn main() {}
