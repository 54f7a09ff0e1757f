//! Which path a packet takes.
//!
//! noq has no scheduler hook: for every datagram it asks the paths' congestion controllers for their
//! [`window`](noq_proto::congestion::Controller::window), lowest path id first, and sends on the first that has
//! room. So each path's real controller is wrapped ([`SchedulerFactory`]) in one that answers 0 while another
//! path is to be used. All wrappers of a connection share a [`Board`], which holds what they observe of the
//! paths, decides, and is read for telemetry.
//!
//! A window of 0 holds back stream data only. Tail loss probes, MTU probes and the validation of a new path are
//! not asked about; a PING is, when data waits at the same moment, and needs [`Board::allow_ping`]. All of them wait while
//! a path of lower id has data and room, unless that is passed over for once (`pending_frames`).
//! Acknowledgements alone are sent on the lowest path of status "available" whatever its window. The board sees to it
//! that now and then another path gets some, so that one dead path does not silence all.

mod arbiter;
mod board;
mod controller;
mod delay;
mod mtu_probe;
mod pending_frames;
mod policy;
mod slot;
mod small_ping;
#[cfg(test)]
mod tests;

pub(crate) use board::Board;
pub use controller::CongestionControl;
pub(crate) use controller::SchedulerFactory;
pub(crate) use policy::Trouble;
pub(crate) use slot::Observation;

use noq_proto::PathId;
use std::time::Instant;

/// What the scheduler did that a person reading a result wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchedulerEvent {
    pub(crate) at: Instant,
    pub(crate) path: PathId,
    /// Why the backup paths are used from now on; `None` when the preferred path is used again.
    pub(crate) trouble: Option<Trouble>,
}
