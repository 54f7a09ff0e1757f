//! Facts about a host → findings. Each misconfiguration is a row: the change of a healthy host, and the problems or
//! advice that follow.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod facts;
mod properties;
mod table;

pathbench_kerneltest::privilege_independent!();
