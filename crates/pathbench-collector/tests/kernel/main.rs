//! The running kernel, in namespaces of the tests' own.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod full_disk;
#[path = "../support/mod.rs"]
mod support;
