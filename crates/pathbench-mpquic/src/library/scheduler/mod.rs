//! The scheduler: the choice of the path for each packet.
//!
//! noq has no scheduler hook. For every datagram it reads the [`window`](noq_proto::congestion::Controller::window) of
//! the paths' congestion controllers, lowest path id first, and sends on the first path with space in its window. So
//! each path's real controller is wrapped ([`SchedulerFactory`]) in one that returns 0 while another path should be
//! used. All wrappers of a connection share a [`Board`], which stores their observations, chooses the path, and is read
//! for telemetry.
//!
//! A window of 0 holds back stream data only. noq sends tail loss probes, MTU probes and the validation of a new path
//! without reading the window, but not a PING while data waits: that needs [`Board::allow_ping`]. All of these wait
//! while a path of lower id has data and space in its window, unless the board passes over that path once
//! (`pending_frames`). Packets with only acknowledgements are sent on the lowest path of status "available", with any
//! window. The board regularly makes another path send some, so that one dead path does not stop all paths.

mod arbiter;
mod board;
mod controller;
mod copies;
mod delay;
mod mtu_probe;
mod pending_frames;
mod policy;
mod rtt_sample;
mod slot;
mod small_ping;
#[cfg(test)]
mod tests;

pub(crate) use board::Board;
pub use controller::CongestionControl;
pub(crate) use controller::SchedulerFactory;
pub(crate) use policy::{Role, SchedulerEvent, Trouble};
