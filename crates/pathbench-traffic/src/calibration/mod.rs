//! What a link really delivers, measured before a run: rate, round-trip time and MTU in both directions, by UDP.
//!
//! Both ends are the lab's own: [`calibrate`] sends [`Command`]s to a [`CalibrationEnd`] at each end of the link, by a
//! channel beside it, and only the measured packets cross the link. For each [`Series`] of packets one end is to
//! expect it, the other to send it, and the first to report what arrived. An end sends to the other end only.
//!
//! * **Round-trip time**: small echoes on the idle link.
//! * **MTU**: datagrams with DF that ignore the kernel's cached path MTU (`IP_PMTUDISC_PROBE`).
//! * **Rate**: a train of datagrams, 25 % faster than asked, behind a burst that empties the token bucket of
//!   the link's shaper. The receiver takes the slope of wire bytes (IP packet plus 14 bytes of Ethernet
//!   header, for every segment, as the kernel's qdiscs count) over the kernel's arrival times.
//!   On an emulated link it is 10 % faster than asked, and missing packets count as far as they took the bottleneck's
//!   time.
//! * **Delay and loss in one direction**: small probes on the idle link, stamped by the sending application and by the
//!   receiving kernel. Both ends must read the same clock.

mod end;
mod link;
mod probes;
mod rate;
mod sequence_meter;
mod socket;
mod train;

pub use end::{CalibrationEnd, Command, EndError, EndReport, Series};
pub use link::{CalibrationError, calibrate};
pub use rate::RateMeter;
pub use sequence_meter::SequenceMeter;
pub use train::Train;

use crate::datagram::Family;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// A link to be measured. The forward direction is from the near to the far end.
#[derive(Debug, Clone)]
pub struct CalibrationPlan {
    /// The ends' addresses on the link; port 0 for any.
    pub near: SocketAddr,
    pub far: SocketAddr,
    /// Requested rate in wire bits; `None`: not limited, not measured.
    pub forward_bps: Option<u64>,
    pub reverse_bps: Option<u64>,
    pub mtu_bytes: u32,
    /// Depth of the shapers' token buckets, or more: what passes faster than the rate after a pause.
    pub bucket_bytes: u64,
    /// Length of each train, at most 1 s; longer ones are cut to that.
    pub train: Duration,
    pub echoes: u32,
    /// Most small packets that are sent in each direction, to measure delay and loss; 0: none. They take at most
    /// a tenth of the direction's rate and 0.3 s, so at low rates fewer are sent.
    pub probes: u32,
    /// The rate that probes may take a tenth of where a direction's own rate is not given (wire bits per second);
    /// `None`: not limited.
    pub probed_bps: Option<u64>,
    /// The link is an emulated one: its bottleneck has no token bucket, and packets are lost, delayed and reordered
    /// behind it. Then trains are gentler, so that the queue in front of the bottleneck hardly loses any.
    pub emulated: bool,
}

impl CalibrationPlan {
    /// A plan with usual lengths: trains of 120 ms, 20 echoes, buckets of up to 256 KiB.
    pub fn new(near: SocketAddr, far: SocketAddr, mtu_bytes: u32) -> Self {
        Self {
            near,
            far,
            forward_bps: None,
            reverse_bps: None,
            mtu_bytes,
            bucket_bytes: 256 * 1024,
            train: Duration::from_millis(120),
            echoes: 20,
            probes: 0,
            probed_bps: None,
            emulated: false,
        }
    }

    /// The longest that a calibration takes over a link that delivers packets, with round-trip times of up to `rtt`;
    /// beyond it something is stuck.
    pub fn time_limit(&self, rtt: Duration) -> Duration {
        Duration::from_secs(10) + rtt.saturating_mul(40)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct LinkCalibration {
    pub rtt: Duration,
    pub min_rtt: Duration,
    pub forward: DirectionCalibration,
    pub reverse: DirectionCalibration,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DirectionCalibration {
    /// Wire bits per second; `None` when not requested.
    pub rate_bps: Option<u64>,
    /// Largest IP packet that arrived: the requested size, one byte more (then the link takes larger packets than it
    /// should), or the largest below it that does.
    pub mtu_bytes: u32,
    pub probes: Option<ProbedDirection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbedDirection {
    pub sent: u32,
    /// Without duplicates. A packet with a wrong checksum has not arrived.
    pub received: u32,
    /// `None` when none arrived.
    pub delays: Option<OneWayDelays>,
}

/// One-way delays, from before the sender's system call to the receiving host's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct OneWayDelays {
    pub min: Duration,
    pub p50: Duration,
    pub p95: Duration,
    pub max: Duration,
}

impl ProbedDirection {
    /// Fraction of the packets that did not arrive; `None` when none were sent.
    pub fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| 1.0 - f64::from(self.received) / f64::from(self.sent))
    }
}

/// Bytes of an Ethernet header, which the kernel's qdiscs count.
const ETHERNET_BYTES: u32 = 14;

fn overhead_bytes(family: Family) -> u64 {
    u64::from(family.header_bytes() + ETHERNET_BYTES)
}
