//! The analysis of hand-made captures.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod fallbacks;
mod live;
mod multipath;
mod plain;
mod several;
mod wire;

pathbench_kerneltest::privilege_independent!();
