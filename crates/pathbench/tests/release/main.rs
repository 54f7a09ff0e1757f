//! Tests that are due before a release: other programs, and loops that take minutes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod cluster;
#[path = "../support/mod.rs"]
mod support;
