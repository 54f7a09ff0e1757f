//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod anonymise;
mod bounds;
mod disguises;
mod fuzz_bodies;
mod summary;
mod token;
