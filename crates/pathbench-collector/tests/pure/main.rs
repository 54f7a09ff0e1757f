//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod charts;
mod columns;
mod facts;
mod fuzz_bodies;
mod grafana;
mod openapi;
mod pages;
#[path = "../support/mod.rs"]
mod support;
