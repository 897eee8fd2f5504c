//! The Search Console connector as a host meets it: a process, against a Google of its own.

mod bad_input;
mod bench;
mod blocks;
mod clusters;
mod compare;
mod complaints;
mod faults;
mod indexing;
mod overlap;
mod properties;
mod published;
mod search;
mod walk;
