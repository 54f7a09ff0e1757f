//! The traffic patterns and the test protocol, client and server.
//!
//! This crate decides what is sent and when, counts what arrives, and lets the two ends of a test agree on
//! it: the [`protocol`] that carries a test inside the connection it measures, the patterns of bulk data ([`throughput`])
//! and of [`messages`], what the bytes of a test are ([`content`]), the shells that run all this on threads
//! ([`client`], [`server`]), the [`calibration`] of a link before a run, the [`probe`] of networks beside one, and the MTU of a path ([`path_mtu`]).
//! The codec, the patterns and the estimators are pure: bytes and points in time go in, decisions come out.
//! It never opens a netlink socket, changes anything on the host or reads a clock, and it never sends test
//! traffic to an address that did not ask for it.

pub mod calibration;
pub mod client;
pub mod content;
pub mod datagram;
pub mod messages;
pub mod path_mtu;
pub mod probe;
pub mod protocol;
pub mod record;
pub mod request;
pub mod server;
mod stream;
pub mod throughput;
pub mod token;

#[cfg(test)]
pathbench_kerneltest::unprivileged_too!();
