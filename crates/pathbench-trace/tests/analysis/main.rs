//! The analysis of hand-made captures.

#![allow(clippy::float_cmp, reason = "small integers are exact")]

mod fallbacks;
mod multipath;
mod plain;
mod several;
mod wire;

pathbench_kerneltest::privilege_independent!();
