//! Sockets of the loopback interface and child processes; no namespaces.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod api;
mod authority;
mod bounds;
mod client;
mod command_line;
mod disclosure;
mod hostile;
mod ingest;
mod maintenance;
mod metrics;
mod poison;
mod raw;
mod service;
mod store;
#[path = "../support/mod.rs"]
mod support;
