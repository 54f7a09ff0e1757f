//! The running kernel, in namespaces of the tests' own.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod full_disk;
#[path = "../support/mod.rs"]
mod support;
