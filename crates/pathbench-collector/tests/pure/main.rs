//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod bucket;
mod charts;
mod columns;
mod facts;
mod fuzz_bodies;
mod grafana;
mod limits;
mod metrics;
mod openapi;
mod pages;
mod query;
mod reports;
#[path = "../support/mod.rs"]
mod support;
