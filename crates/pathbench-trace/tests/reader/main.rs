//! Capture files of all formats, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod compressed;
mod damaged;
mod files;
mod formats;
mod properties;

pathbench_kerneltest::privilege_independent!();
