//! The Analytics connector as a host meets it: a process, against a Google of its own.

mod bad_input;
mod bench;
mod clusters;
mod concurrency;
mod faults;
mod funnel;
mod models;
mod published;
mod realtime;
mod report;
mod tools;
