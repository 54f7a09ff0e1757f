//! What goes into a pipe and what comes out.

use pathbench_record::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A packet in a pipe. The pipe never looks at `payload`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<P> {
    /// Length of the IP packet.
    pub ip_bytes: u32,
    /// Wire packets that it stands for: 1, or the segments of what was handed over for segmentation, each of which
    /// counts the pipe's overhead.
    pub segments: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Whatever the owner of the pipe needs to recognise it.
    pub payload: P,
}

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not ECN-capable: 00.
    #[default]
    NotEct,
    /// ECN-capable: 01 or 10.
    Ect,
    /// Congestion experienced: 11.
    Ce,
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<P> {
    /// The packet.
    pub packet: Packet<P>,
    /// Its number among those put into the pipe, from 0.
    pub number: u64,
    /// When it was put in.
    pub offered_at: Timestamp,
    /// How it ended.
    pub fate: Fate,
}

/// How a packet's way ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It leaves the link.
    Delivered(Delivery),
    /// It does not.
    Dropped {
        /// Why.
        cause: DropCause,
        /// When.
        at: Timestamp,
    },
}

/// How a packet leaves the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// When, by the model. The difference to when it really leaves is the data plane's lateness.
    pub due: Timestamp,
    /// Whether its ECN field is to be set to CE.
    pub mark: bool,
    /// A random number where a bit is to be turned over: the number modulo the packet's bits says which.
    pub corrupt: Option<u64>,
    /// Whether it is to be delivered twice.
    pub twice: bool,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCause {
    /// The queue was full.
    QueueFull,
    /// `CoDel` or PIE dropped it.
    QueueManagement,
    /// The loss model lost it.
    Loss,
    /// All attempts of link-layer retransmission have failed.
    Arq,
    /// It was larger than the MTU.
    Mtu,
    /// The link is a black hole.
    Blackhole,
}

impl DropCause {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::QueueFull, Self::QueueManagement, Self::Loss, Self::Arq, Self::Mtu, Self::Blackhole];

    /// As in the result files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::QueueManagement => "queue-management",
            Self::Loss => "loss",
            Self::Arq => "arq",
            Self::Mtu => "mtu",
            Self::Blackhole => "blackhole",
        }
    }
}
