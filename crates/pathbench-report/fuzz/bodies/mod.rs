//! The body of the fuzz target. The ordinary tests run it, too (`tests/pure/fuzz_bodies.rs`).

#![allow(dead_code, reason = "the target uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a finding panics")]

#[path = "../../../pathbench-traffic/fuzz/bodies/input.rs"]
mod input;
pub(crate) mod results;
