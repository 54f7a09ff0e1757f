//! Sockets of the loopback interface and child processes; no namespaces.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod admission;
mod between;
#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;
mod calibration;
mod claimed_transport;
#[path = "../common/mod.rs"]
mod common;
mod datagrams;
mod deadlines;
mod endings;
mod floods;
mod fuzz_bodies;
mod loopback;
mod memory;
mod misbehaviour;
mod panics;
mod path_mtu;
mod patterns;
mod probe;
mod records;
mod response;
