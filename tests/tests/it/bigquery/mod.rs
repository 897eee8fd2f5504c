//! The BigQuery connector as a host meets it: a process, against a Google of its own whose ledger knows what was billed.

mod bench;
mod blocks;
mod complaints;
mod cost;
mod every_type;
mod faults;
mod gate;
mod jobs;
mod load;
mod published;
mod queries;
mod secrets;
mod types;
