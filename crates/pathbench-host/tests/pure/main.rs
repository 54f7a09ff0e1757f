//! Encoding and decoding of kernel messages, and small system calls; without namespaces.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod counters;
mod firewall;
mod firewall_rules;
mod fuzz_bodies;
mod hop_probe;
mod journal;
mod leases;
mod link_events;
mod load;
mod managers;
mod messages;
mod mptcp;
mod packet_sizes;
mod paths;
mod plan;
mod refusals;
mod routes;
mod rules;
mod samples;
mod shaping;
mod values;
mod wifi;
