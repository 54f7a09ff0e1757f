//! The bodies of the fuzz targets. The ordinary tests run them, too (`tests/pure/fuzz_bodies.rs`).

#![allow(dead_code, reason = "each target uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a finding panics")]

pub(crate) mod answer;
#[path = "../../../pathbench-traffic/fuzz/bodies/input.rs"]
mod input;
