//! The Analytics connector as a host meets it: a process, against a Google of its own.

mod bad_input;
mod bench;
mod blocks;
mod clusters;
mod concurrency;
mod faults;
mod funnel;
mod honesty;
mod models;
mod published;
mod quota;
mod realtime;
mod refusals;
mod report;
mod tools;
mod wide;
