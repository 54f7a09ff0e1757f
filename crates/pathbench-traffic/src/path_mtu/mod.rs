//! The MTU of a path to a server in both directions, found by datagrams (packetisation layer path MTU discovery, RFC
//! 8899), with or without ICMP.
//!
//! [`find_mtu`] examines one path in the calling thread, in one to five seconds; several threads can examine several
//! paths at the same time. [`watch_mtu`] then watches a path until it is stopped. A server answers at the UDP port
//! where it serves QUIC, to clients that may probe there (see [`crate::probe`]).
//!
//! All sizes are of whole IP packets, headers included.

mod exchange;
mod finder;
mod guard;
mod plan;
mod probability;
mod search;
mod watch;

pub use exchange::SessionParameters;
pub use finder::Finder;
pub use plan::{
    DirectionFound, FoundMtu, IcmpReport, MtuBounds, MtuEvent, MtuPlan, NoMtu, PathMtuFound, SizeEvidence,
    WatchPace,
};
pub use probability::{DOUBT, Observations, ProbeLoss, SizeDistribution};
pub use watch::{Watch, find_mtu, watch_mtu};
