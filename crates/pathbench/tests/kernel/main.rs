//! The running kernel, in namespaces of the tests' own.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod agent;
mod check_server;
mod check_suspects;
mod command_line;
mod compare;
mod crash;
mod diagnostics;
mod features;
mod host_paths;
mod hostile_results;
mod inside;
mod lab_keep;
mod limits;
mod live;
mod measured;
mod mtu;
mod report_memory;
mod run_service;
mod run_stages;
mod setup;
mod standard_output;
#[path = "../support/mod.rs"]
mod support;
mod trace;
