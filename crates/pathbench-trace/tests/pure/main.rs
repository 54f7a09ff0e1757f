//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod analysis;
mod comparison;
mod coverage;
mod fuzz_bodies;
mod options;
mod packets;
mod public;
mod quic;
mod reader;
mod recorded;
mod tunnels;
mod wire;
