//! One flow in two captures, from a simulated path whose losses, delays and clock offset are known.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

#[path = "../analysis/wire.rs"]
#[allow(dead_code, clippy::doc_markdown, reason = "shared with the tests of the analysis")]
mod wire;

mod captures;
mod middleboxes;
mod path;
mod properties;
mod scenarios;

pathbench_kerneltest::privilege_independent!();
