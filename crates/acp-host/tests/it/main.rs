//! Tests of the host library as its users see it: sessions over a pipe, packages and zips on disk.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

mod client;
mod host;
mod install;
mod packages;
mod zips;
