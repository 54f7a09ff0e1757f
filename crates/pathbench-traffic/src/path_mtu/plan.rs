//! The request to find or to watch a path MTU, and the result.

use crate::datagram::UdpPath;
use pathbench_record::document::{DirectionMtu, MtuEvidence};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MtuPlan {
    /// The server's UDP address for QUIC. Its family selects IPv4 or IPv6.
    pub server: SocketAddr,
    /// The client's token, if the server requires one.
    pub token: Option<String>,
    pub path: UdpPath,
    pub bounds: MtuBounds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuBounds {
    /// Datagrams sent by this host for both directions together (requests for the download).
    pub most_probes: u32,
    pub most_bytes: u64,
    pub most_time: Duration,
}

impl Default for MtuBounds {
    /// 400 datagrams, 1.5 MB in each direction, 10 s. With little loss, a search needs less than half of each.
    fn default() -> Self {
        Self { most_probes: 400, most_bytes: 1_500_000, most_time: Duration::from_secs(10) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchPace {
    pub interval: Duration,
    pub larger_interval: Duration,
}

impl Default for WatchPace {
    /// An interval of 1 s, and of 5 s for larger sizes.
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), larger_interval: Duration::from_secs(5) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct PathMtuFound {
    pub upload: DirectionFound,
    pub download: DirectionFound,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DirectionFound {
    pub found: Result<FoundMtu, NoMtu>,
    /// The reports of ICMP messages, true or not, in the order of their arrival (upload only: those about the download
    /// go to the server).
    pub icmp: Vec<IcmpReport>,
    /// The path MTU in the server's kernel after the search, which includes ICMP reports (download only).
    pub peer_kernel_bytes: Option<u32>,
    /// Number of restarts of the search because the path changed during it.
    pub restarts: u32,
    pub probes_sent: u32,
    /// Bytes of IP packets, probes only.
    pub bytes_sent: u64,
    pub duration: Duration,
    /// Median round trip of small probes; `None` when none was answered.
    pub rtt: Option<Duration>,
    /// Loss rate of the probes of passing sizes, in either direction, 0 to 1.
    pub loss: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FoundMtu {
    /// The largest IP packet that passed: a probe of this size was answered.
    pub mtu_bytes: u32,
    pub evidence: SizeEvidence,
    /// The smallest tried size that did not pass; one byte more than the MTU, unless the search ended early.
    pub smallest_lost_bytes: Option<u32>,
    /// Probability that `smallest_lost_bytes` is too large and was not lost by chance, 0 to 1, from the observed losses
    /// with a safety margin.
    pub confidence: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizeEvidence {
    /// A router reported this MTU, and probes agree: this size passes and one byte more does not.
    Icmp {
        router: IpAddr,
        mtu_bytes: u32,
    },
    DroppedSilently,
    /// One byte more is dropped silently, and the path MTU in the server's kernel has this value, from ICMP or from its
    /// route. (ICMP messages about the download's packets go to the server.)
    PeerKernel {
        pmtu_bytes: u32,
    },
    LocalInterface,
    PeerInterface,
    /// The search ended before the cause was known: larger packets may pass.
    Unsettled,
}

/// An ICMP message about one of the probes (fragmentation needed, packet too big). Any host can send such a message;
/// only probes count (RFC 8899 section 4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpReport {
    pub router: IpAddr,
    /// The MTU of the next hop.
    pub mtu_bytes: u32,
    pub probe_bytes: u32,
    /// Whether the probes confirmed the reported MTU.
    pub held: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoMtu {
    #[error(
        "no answer from the server on this path: check that it runs, and that no firewall drops UDP to its port"
    )]
    Silent,
    #[error("the server refused: {reason}")]
    Refused { reason: String },
    #[error("{reason}")]
    Unreachable { reason: String },
    #[error("small probes pass on this path, but no packet of {floor_bytes} bytes does")]
    BelowFloor { floor_bytes: u32 },
    #[error("the server accepted the hello but answered no probe on this path: it may run an older version")]
    Unanswered,
    #[error("the path changed during the search: search again")]
    Unstable,
    #[error("stopped before a result")]
    Stopped,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MtuEvent {
    /// The first examination of the path, or one after the path had been away.
    Examined(Box<PathMtuFound>),
    /// The path's MTU has changed, in one direction or both; `now` is the new result.
    Changed {
        before: Box<PathMtuFound>,
        now: Box<PathMtuFound>,
    },
    Away {
        reason: Option<String>,
    },
}

impl DirectionFound {
    /// The largest IP packet that passed.
    pub fn mtu_bytes(&self) -> Option<u32> {
        self.found.as_ref().ok().map(|found| found.mtu_bytes)
    }

    pub fn to_record(&self) -> DirectionMtu {
        let found = self.found.as_ref().ok();
        let (evidence, reporter) = match found.map(|found| &found.evidence) {
            Some(SizeEvidence::Icmp { router, mtu_bytes }) => {
                (Some(MtuEvidence::Icmp), Some((router.to_string(), *mtu_bytes)))
            }
            Some(SizeEvidence::PeerKernel { pmtu_bytes }) => {
                (Some(MtuEvidence::Icmp), Some(("the server's kernel".to_owned(), *pmtu_bytes)))
            }
            Some(SizeEvidence::DroppedSilently) => (Some(MtuEvidence::DroppedSilently), None),
            Some(SizeEvidence::LocalInterface | SizeEvidence::PeerInterface) => {
                (Some(MtuEvidence::Interface), None)
            }
            Some(SizeEvidence::Unsettled) => (Some(MtuEvidence::Bounded), None),
            None => (None, None),
        };
        let (reported_by, reported_bytes) = reporter.unzip();
        DirectionMtu {
            mtu_bytes: self.mtu_bytes(),
            evidence,
            reported_by,
            reported_bytes,
            smallest_lost_bytes: found.and_then(|found| found.smallest_lost_bytes),
            confidence: found.map(|found| found.confidence),
            loss: self.rtt.map(|_| self.loss),
            rtt_ms: self.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
            probes: self.probes_sent,
            probed_bytes: self.bytes_sent,
            duration_ms: self.duration.as_secs_f64() * 1e3,
            error: self.found.as_ref().err().map(ToString::to_string),
        }
    }
}
