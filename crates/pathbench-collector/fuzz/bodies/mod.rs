//! The bodies of the fuzz targets. The ordinary tests run them, too (`tests/pure/fuzz_bodies.rs`).

#![allow(dead_code, unreachable_pub, reason = "each target uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a finding panics")]

pub(crate) mod facts;
pub(crate) mod http;
#[path = "../../../pathbench-traffic/fuzz/bodies/input.rs"]
mod input;
#[path = "../../tests/support/memory.rs"]
mod memory;
pub(crate) mod raw;

/// A valid line of a batch, of 2026-11-25.
const SUBMISSION: &str = include_str!("../../../pathbench-api/fuzz/bodies/submission.json");
const NOW_MS: u64 = 1_795_600_000_000;
