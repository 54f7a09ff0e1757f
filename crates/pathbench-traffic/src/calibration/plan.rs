//! The request to calibrate a link, and the result.

use pathbench_record::network::{AddressFamily, ETHERNET_HEADER_BYTES};
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
    /// Depth of the token buckets of the forward and the reverse direction, or more: bytes that pass faster than the rate
    /// after a pause. 0 for an emulated direction without a token bucket.
    pub bucket_bytes: [u64; 2],
    /// Length of each train; limited to 1 s.
    pub train: Duration,
    pub echoes: u32,
    /// Limit of small packets sent in each direction to measure delay and loss; 0: none. They take at most a tenth of
    /// the direction's rate and 0.3 s, so at low rates fewer are sent.
    pub probes: u32,
    /// If a direction's own rate is not given, probes take up to a tenth of this rate (wire bits per second); `None`:
    /// not limited.
    pub probed_bps: Option<u64>,
    /// The link is emulated: packets are lost, delayed and reordered after the bottleneck. Without a token bucket, trains
    /// are slower, so that the queue before the bottleneck drops few packets.
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
            bucket_bytes: [256 * 1024; 2],
            train: Duration::from_millis(120),
            echoes: 20,
            probes: 0,
            probed_bps: None,
            emulated: false,
        }
    }

    /// Longest time of a calibration over a link that delivers packets, with round-trip times of up to `rtt`. A
    /// calibration that takes longer has failed.
    pub fn time_limit(&self, rtt: Duration) -> Duration {
        Duration::from_secs(10) + rtt.saturating_mul(40)
    }
}

pub(super) fn overhead_bytes(family: AddressFamily) -> u64 {
    u64::from(family.udp_packet_bytes(0) + ETHERNET_HEADER_BYTES)
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
    /// Largest IP packet that arrived: the requested size, one byte more (the link then carries larger packets than
    /// requested), or the largest smaller size that passes.
    pub mtu_bytes: u32,
    pub probes: Option<ProbedDirection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbedDirection {
    pub sent: u32,
    /// Without duplicates. A packet with a wrong checksum counts as lost.
    pub received: u32,
    /// `None` when none arrived.
    pub delays: Option<OneWayDelays>,
}

/// One-way delays, from just before the sender's system call to the receiving kernel's timestamp.
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
