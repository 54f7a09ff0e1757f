//! Ledgers, series and the kernel's recorded answers; TLS in memory and over loopback.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;
mod fuzz_bodies;
mod kernel_answers;
mod ledger;
mod recorded;
mod sampling;
mod tls;
mod tls_connections;
mod values;
