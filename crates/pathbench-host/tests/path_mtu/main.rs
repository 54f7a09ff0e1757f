//! Path-MTU plans, without a kernel.

#![allow(clippy::unwrap_used, reason = "samples of tests")]

mod plan;
mod samples;

pathbench_kerneltest::privilege_independent!();
