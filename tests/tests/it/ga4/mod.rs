//! The Analytics connector as a host meets it: a process, against a Google of its own.

mod bad_input;
mod bench;
mod concurrency;
mod faults;
mod report;
