//! The Analytics connector as a host meets it: a process, against a Google of its own.

mod bad_input;
mod bench;
mod clusters;
mod concurrency;
mod faults;
mod models;
mod raw;
mod report;
mod secrets;
