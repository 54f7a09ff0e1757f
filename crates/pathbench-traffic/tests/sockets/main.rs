//! Sockets of the loopback interface and child processes; no namespaces.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod admission;
mod between;
mod calibration;
mod claimed_transport;
#[path = "../common/mod.rs"]
mod common;
mod deadlines;
mod endings;
mod fuzz_bodies;
#[path = "../../fuzz/bodies/honest.rs"]
mod honest;
mod loopback;
mod memory;
mod misbehaviour;
mod panics;
mod path_mtu;
mod patterns;
mod probe;
mod records;
