//! Path-MTU plans, without a kernel.

mod plan;
mod samples;

pathbench_kerneltest::privilege_independent!();
