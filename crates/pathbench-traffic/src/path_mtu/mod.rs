//! The MTU of a path to a server in both directions, found by datagrams (packetisation layer path MTU discovery, RFC
//! 8899), with or without ICMP.
//!
//! [`find_mtu`] examines one path in the calling thread, in one to five seconds; several paths may be examined at the
//! same time by a thread each. [`watch_mtu`] goes on from there until it is stopped. A server answers at the UDP
//! port where it serves QUIC, to clients that may probe there (see [`crate::probe`]).
//!
//! Sizes are those of whole IP packets, headers included.

mod exchange;
mod finder;
mod guard;
mod probability;
mod search;
mod shell;
mod watch;

pub use exchange::Introduction;
pub use finder::Finder;
pub use shell::{find_mtu, watch_mtu};
pub use watch::{BothFound, Watch, WatchEvent};

use pathbench_record::document::{DirectionMtu, MtuEvidence};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MtuPath {
    /// The interface: the socket is bound to it (`SO_BINDTODEVICE`), or, where that is forbidden, to its address and
    /// index (`IP_UNICAST_IF`). `None`: as the routes say.
    pub interface: Option<String>,
    /// The local address; `None`: the kernel's choice.
    pub local: Option<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MtuPlan {
    /// The server's UDP address: the one it serves QUIC at. Its family decides between IPv4 and IPv6.
    pub server: SocketAddr,
    /// What allows this client to ask, where the server wants a token.
    pub token: Option<String>,
    pub path: MtuPath,
    pub bounds: MtuBounds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuBounds {
    /// Datagrams that are sent by this host, both directions together (of the download these are the requests).
    pub most_probes: u32,
    pub most_bytes: u64,
    pub most_time: Duration,
}

impl Default for MtuBounds {
    /// 400 datagrams, 1.5 MB in each direction, 10 s (what is needed is less than half of each, unless much is lost).
    fn default() -> Self {
        Self { most_probes: 400, most_bytes: 1_500_000, most_time: Duration::from_secs(10) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct PathMtuFound {
    pub local: IpAddr,
    pub remote: SocketAddr,
    pub upload: DirectionFound,
    pub download: DirectionFound,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DirectionFound {
    pub found: Result<FoundMtu, NoMtu>,
    /// What ICMP messages said on the way (of the upload only: those of the download go to the server), whether it was
    /// true or not, in the order in which it was heard first.
    pub icmp: Vec<IcmpReport>,
    /// The path MTU in the server's kernel after the search, which includes what ICMP reported (download only).
    pub peer_kernel_bytes: Option<u32>,
    /// How often the search began again, because the path changed under it.
    pub restarts: u32,
    pub probes_sent: u32,
    /// Bytes of IP packets, probes only.
    pub bytes_sent: u64,
    pub duration: Duration,
    /// Median round trip of small probes; `None` when none was answered.
    pub rtt: Option<Duration>,
    /// Part of the probes of sizes that pass which were lost, in either direction, 0 to 1.
    pub loss: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FoundMtu {
    /// The largest IP packet that passed: a probe of this size was answered.
    pub mtu_bytes: u32,
    pub evidence: Evidence,
    /// The smallest size that did not pass, where one was tried; one byte more, unless the search was ended early.
    pub smallest_lost_bytes: Option<u32>,
    /// Probability that `smallest_lost_bytes` is really too large and was not lost by chance, 0 to 1; that of the
    /// losses that were seen, with room for bad luck.
    pub confidence: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A router said so, and probes agree with it: this size passes and one byte more does not.
    Icmp {
        router: IpAddr,
        said_bytes: u32,
    },
    Vanished,
    /// One byte more vanishes, and the server's kernel sends nothing so long by itself: a router told it so, or its
    /// route says it. (What ICMP says of the download's packets it says to the server.)
    PeerKernel {
        believed_bytes: u32,
    },
    LocalInterface,
    PeerInterface,
    /// The search ended before it was known: larger packets may pass.
    Unsettled,
}

/// What an ICMP message said about a probe of ours (fragmentation needed, packet too big). Any host can send
/// such a message; only probes count (RFC 8899 section 4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpReport {
    pub router: IpAddr,
    pub said_bytes: u32,
    pub probe_bytes: u32,
    /// Whether it turned out to be true.
    pub held: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoMtu {
    #[error("no answer from the server by this path: is it up, and does UDP get through to its port?")]
    Silent,
    #[error("the server refused: {reason}")]
    Refused { reason: String },
    #[error("{reason}")]
    Unreachable { reason: String },
    #[error("tiny messages come through this way, but no packet of {floor_bytes} bytes does")]
    BelowFloor { floor_bytes: u32 },
    #[error("the server let us in and then answered no probe this way: it may be of an older version")]
    Unanswered,
    #[error("the path changed again and again while it was examined")]
    Unstable,
    #[error("stopped before anything was found")]
    Stopped,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MtuEvent {
    /// The first examination of the path, or one after the path had been away.
    Examined(Box<PathMtuFound>),
    /// The path's MTU has changed, in one direction or both; this is what holds now.
    Changed {
        before: Box<PathMtuFound>,
        now: Box<PathMtuFound>,
    },
    Away {
        reason: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchPace {
    pub interval: Duration,
    pub larger_interval: Duration,
}

impl Default for WatchPace {
    /// 1 s, and 5 s for larger sizes.
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), larger_interval: Duration::from_secs(5) }
    }
}

impl DirectionFound {
    pub fn to_record(&self) -> DirectionMtu {
        let found = self.found.as_ref().ok();
        let said = match found.map(|found| &found.evidence) {
            Some(Evidence::Icmp { router, said_bytes }) => Some((router.to_string(), *said_bytes)),
            Some(Evidence::PeerKernel { believed_bytes }) => {
                Some(("the server's kernel".to_owned(), *believed_bytes))
            }
            _ => None,
        };
        DirectionMtu {
            mtu_bytes: found.map(|found| found.mtu_bytes),
            evidence: found.map(|found| found.evidence.to_record()),
            said_by: said.as_ref().map(|(router, _)| router.clone()),
            said_bytes: said.map(|(_, bytes)| bytes),
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

impl Evidence {
    pub const fn to_record(&self) -> MtuEvidence {
        match self {
            Self::Icmp { .. } | Self::PeerKernel { .. } => MtuEvidence::Icmp,
            Self::Vanished => MtuEvidence::Vanished,
            Self::LocalInterface | Self::PeerInterface => MtuEvidence::Interface,
            Self::Unsettled => MtuEvidence::Bounded,
        }
    }
}
