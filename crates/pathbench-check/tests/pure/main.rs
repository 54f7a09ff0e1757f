//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod announced;
mod documentation;
mod host;
mod limits;
mod remedies;
mod server;
mod server_causes;
mod setup;
mod setup_managers;
