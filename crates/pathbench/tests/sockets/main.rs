//! Sockets of the loopback interface and child processes; no namespaces.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod agent_page;
mod diagnostics;
mod readme;
mod serve;
mod submit;
#[path = "../support/mod.rs"]
mod support;
