//! The Search Console connector as a host meets it: a process, against a Google of its own.

mod bad_input;
mod bench;
mod faults;
mod properties;
mod search;
mod walk;
