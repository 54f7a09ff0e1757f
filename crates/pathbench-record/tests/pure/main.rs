//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

#[path = "../support/document.rs"]
mod document;
mod files;
mod growing;
mod index;
#[path = "../support/lines.rs"]
mod lines;
mod results;
mod resume;
mod schema;
mod stage;
mod statistics;
mod summary;
mod types;
