//! The traffic patterns and the test protocol, client and server.
//!
//! This crate schedules and counts the traffic of a test: the [`protocol`] that carries a test inside the measured
//! connection, the patterns of bulk data ([`throughput`]), of [`messages`] and of both ([`responsiveness`]), the [`content`] of the test data, the
//! threads that run the patterns ([`client`], [`server`]), the [`calibration`] of a link before a run, the [`probe`] of
//! networks during one, and the MTU of a path ([`path_mtu`]). The codec, the patterns and the estimators are pure:
//! bytes and timestamps go in, decisions come out. The crate never opens a netlink socket, changes the host's
//! configuration or reads a clock, and it never sends test traffic to an address that did not request it.

pub mod calibration;
pub mod client;
pub mod content;
pub mod datagram;
pub mod flow;
pub mod messages;
pub mod meter;
pub mod moderation;
mod pacer;
pub mod path_mtu;
pub mod probe;
pub mod protocol;
pub mod record;
pub mod responsiveness;
pub mod server;
mod stream;
pub mod throughput;
pub mod token;
