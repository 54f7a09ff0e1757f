//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;
mod fuzz_bodies;
mod imports;
mod model;
mod specification;
mod tables;
mod traces;
