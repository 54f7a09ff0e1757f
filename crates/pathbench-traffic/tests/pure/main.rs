//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod content;
mod cores;
mod datagram;
mod flows;
#[path = "../../fuzz/bodies/honest.rs"]
mod honest;
mod messages;
mod meters;
mod parameters;
mod path_mtu_search;
mod prober;
mod protocol;
mod throughput;
mod validation;
