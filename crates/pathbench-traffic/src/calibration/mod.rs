//! What a link really delivers, measured before a run: rate, round-trip time and MTU, both ways, by UDP.
//!
//! A [`CalibrationResponder`] runs at the far end, [`calibrate`] at the near end. The responder sends
//! nothing larger than what it received to an address that has not returned its cookie.
//!
//! * **Round-trip time**: small echoes on the idle link.
//! * **MTU**: datagrams with DF that ignore what the kernel believes of the path (`IP_PMTUDISC_PROBE`).
//! * **Rate**: a train of datagrams, 25 % faster than asked, behind a burst that empties the token bucket of
//!   the link's shaper. The receiver takes the slope of wire bytes (IP packet plus 14 bytes of Ethernet
//!   header, for every segment, as the kernel's qdiscs count) over the kernel's arrival times.
//!   On an emulated link the packets are numbered, 10 % faster than asked, and what is missing counts as far as it
//!   took the bottleneck's time.
//! * **Delay and loss one way**: small probes in each direction on the idle link, stamped by the sending application
//!   and by the receiving kernel. Only ends that read the same clock, as those in a lab do, have one-way delays.

mod datagram;
mod initiator;
mod message;
mod probes;
mod rate;
mod responder;
mod rtt;
mod sequence_meter;
mod sizes;
mod train;

pub use initiator::{CalibrationError, calibrate};
pub use rate::RateMeter;
pub use responder::{CalibrationResponder, ResponderError};
pub use rtt::RttFigures;
pub use sequence_meter::SequenceMeter;

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A link to be measured from one of its ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CalibrationPlan {
    /// The near end's address on the link; port 0 for any.
    pub local: SocketAddr,
    /// The responder's address at the far end of the link.
    pub remote: SocketAddr,
    /// Rate asked for from here to there, in wire bits; `None`: not limited, not measured.
    pub forward_bps: Option<u64>,
    /// Rate asked for from there to here.
    pub reverse_bps: Option<u64>,
    /// Largest IP packet asked for.
    pub mtu_bytes: u32,
    /// Depth of the shapers' token buckets, or more: what passes faster than the rate after a pause.
    pub bucket_bytes: u64,
    /// Length of each train, at most 1 s; longer ones are cut to that.
    pub train: Duration,
    /// Number of echoes.
    pub echoes: u32,
    /// Most small packets that are sent each way, one way only, to measure delay and loss; 0: none. They take at most
    /// a tenth of the direction's rate and 0.3 s, so at low rates fewer are sent.
    pub probes: u32,
    /// The rate that probes may take a tenth of where a direction's own rate is not given (wire bits per second);
    /// `None`: not limited.
    pub probed_bps: Option<u64>,
    /// The link is an emulated one: its bottleneck has no token bucket, and packets are lost, delayed and reordered
    /// behind it. Then trains are numbered, and gentler, so that the queue in front of the bottleneck hardly loses any.
    pub emulated: bool,
}

impl CalibrationPlan {
    /// A plan with usual lengths: trains of 120 ms, 20 echoes, buckets of up to 256 KiB.
    pub fn new(local: SocketAddr, remote: SocketAddr, mtu_bytes: u32) -> Self {
        Self {
            local,
            remote,
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

    /// The longest that a calibration takes over a link that answers, with round-trip times of up to `rtt`; beyond it
    /// something is stuck.
    pub fn time_limit(&self, rtt: Duration) -> Duration {
        Duration::from_secs(10) + rtt.saturating_mul(40)
    }
}

/// What a link measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkCalibration {
    /// Wire bits per second from the near to the far end; `None` when not asked for.
    pub forward_bps: Option<u64>,
    /// Wire bits per second from the far to the near end; `None` when not asked for.
    pub reverse_bps: Option<u64>,
    /// Median round-trip time.
    pub rtt: Duration,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// Largest IP packet that came through, near to far end: the asked size, one byte more (then the link takes
    /// larger packets than it should), or the largest below it that does.
    pub forward_mtu_bytes: u32,
    /// The same, far to near end.
    pub reverse_mtu_bytes: u32,
    /// What probes from the near to the far end met; `None` when none were asked for.
    pub forward_probes: Option<ProbedDirection>,
    /// What probes from the far to the near end met.
    pub reverse_probes: Option<ProbedDirection>,
}

/// What probes met in one direction of an idle link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ProbedDirection {
    /// Packets sent.
    pub sent: u32,
    /// Packets of them that arrived, duplicates not counted. One whose checksum was wrong has not arrived.
    pub received: u32,
    /// Their delays; `None` when none arrived.
    pub delays: Option<OneWayDelays>,
}

/// One-way delays, from before the sender's system call to the receiving host's kernel. Both ends must read the same
/// clock, as the hosts of a lab do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct OneWayDelays {
    /// Smallest.
    pub min: Duration,
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// Largest.
    pub max: Duration,
}

impl ProbedDirection {
    /// Part of the packets that did not arrive; `None` when none were sent.
    pub fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| 1.0 - f64::from(self.received) / f64::from(self.sent))
    }
}

/// IP and UDP headers of a datagram to or from `address`.
const fn header_bytes(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

/// Bytes of an Ethernet header, which the kernel's qdiscs count.
const ETHERNET_BYTES: u32 = 14;
