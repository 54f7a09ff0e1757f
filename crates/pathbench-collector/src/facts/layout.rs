//! The facts of a result, and the positions of modes, figures and gains in them.

use super::bucket::Bucket;
use pathbench_api::summary::{Mode, NetworkKind};
use pathbench_record::direction::Direction;
use pathbench_record::document::HandoverReason;
use pathbench_record::network::AddressFamily;
use pathbench_record::transport::Transport;

/// Networks and operators of one result; more are not counted.
pub const MOST_NETWORKS: usize = 8;

/// A figure of a pattern: the names in `run.json`. The position is part of the coding: only append.
pub const MEASURES: [(&str, &str); 15] = [
    ("bulk", "goodput_mbps"),
    ("throughput", "goodput_mbps"),
    ("throughput-upload", "goodput_mbps"),
    ("throughput-download", "goodput_mbps"),
    ("bulk", "stall_ms"),
    ("throughput", "stall_ms"),
    ("throughput-upload", "stall_ms"),
    ("throughput-download", "stall_ms"),
    ("bulk", "fct_ms"),
    ("ping", "ping_ms"),
    ("interactive", "delay_max_ms"),
    ("interactive", "delay_max_upload_ms"),
    ("interactive", "delay_max_download_ms"),
    ("responsiveness", "path_increase_p95_ms"),
    ("responsiveness", "rpm"),
];

pub const TRANSPORTS: usize = Transport::ALL.len();

/// The patterns of gains.
pub const GAIN_PATTERNS: [&str; 4] = ["bulk", "throughput", "throughput-upload", "throughput-download"];

/// A multipath transport, and the single-path transport of the same protocol.
pub const GAIN_TRANSPORTS: [(Transport, Transport); 2] =
    [(Transport::Mptcp, Transport::Tcp), (Transport::Mpquic, Transport::Quic)];

pub const GAINS: usize = GAIN_PATTERNS.len() * GAIN_TRANSPORTS.len();

/// The position is part of the coding: only append.
pub const REASONS: [HandoverReason; 4] = [
    HandoverReason::RttThreshold,
    HandoverReason::UnderRto,
    HandoverReason::RtoThreshold,
    HandoverReason::Other,
];

/// The bit of each is its position.
pub const KINDS: [NetworkKind; 5] = [
    NetworkKind::Ethernet,
    NetworkKind::Wifi,
    NetworkKind::Cellular,
    NetworkKind::Emulated,
    NetworkKind::Other,
];

/// The position is part of the coding: only append.
pub const MODES: [Mode; 4] = [Mode::Stable, Mode::Mobile, Mode::Lab, Mode::Other];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub mode: Mode,
    /// Unix time.
    pub started_ms: u64,
    /// Bits by [`KINDS`].
    pub kinds: u8,
    /// Transports with a valid run: bits by [`Transport::ALL`].
    pub transports: u8,
    pub names: FactNames,
    /// Hashes of the clients' prefixes, to count networks.
    pub networks: Vec<u64>,
    /// Whose submission it is, as far as a client cannot invent it: [`Source`](crate::facts::Source).
    pub source: u64,
    /// By [`figure_index`].
    pub figures: [Bucket; MEASURES.len() * TRANSPORTS],
    /// By [`gain_index`]; only of results in which each path was measured alone.
    pub gains: [Bucket; GAINS],
    pub second_path: SecondPath,
    /// 4 bits for each transport and family: [`Reach`].
    pub reachability: u32,
    pub handovers: Vec<Handover>,
    pub delay_pairs: Vec<PairFact>,
    pub family_pairs: Vec<FamilyFact>,
}

/// Whether several paths were used in a pattern of gains: bits by [`gain_index`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecondPath {
    /// A multipath transport has a valid run.
    pub measured: u8,
    /// All its valid runs used several paths.
    pub used: u8,
}

/// An absent name is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FactNames {
    pub server: String,
    pub experiment: String,
    pub scenario: String,
    pub kernel: String,
    pub operators: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    pub transport: Transport,
    pub reason: HandoverReason,
    pub sent: Bucket,
    pub received: Bucket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairFact {
    pub direction: Direction,
    pub mptcp: Bucket,
    pub mpquic: Bucket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyFact {
    pub transport: Transport,
    pub ipv4: Bucket,
    pub ipv6: Bucket,
}

/// Whether a server was reachable over a transport and an IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    Untested,
    Reachable,
    Timeout,
    NoRoute,
    Refused,
    Other,
}

impl Reach {
    pub const ALL: [Self; 6] =
        [Self::Untested, Self::Reachable, Self::Timeout, Self::NoRoute, Self::Refused, Self::Other];

    pub fn from_bits(reachability: u32, transport: Transport, family: AddressFamily) -> Self {
        let bits = (reachability >> reach_shift(transport, family)) & 15;
        Self::ALL.get(bits as usize).copied().unwrap_or(Self::Untested)
    }
}

pub(super) fn reach_shift(transport: Transport, family: AddressFamily) -> u32 {
    let family = u32::from(family == AddressFamily::Ipv6);
    (u32::from(transport_number(transport)) * 2 + family) * 4
}

/// Unknown values become [`Reach::Untested`].
pub(super) fn reachability_bits(bits: u32) -> u32 {
    let known = |nibble: &u32| ((bits >> (nibble * 4)) & 15) < Reach::ALL.len() as u32;
    (0..8).filter(known).map(|nibble| bits & (15 << (nibble * 4))).sum()
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            mode: Mode::Other,
            started_ms: 0,
            kinds: 0,
            transports: 0,
            names: FactNames::default(),
            networks: Vec::new(),
            source: 0,
            figures: [Bucket::ABSENT; MEASURES.len() * TRANSPORTS],
            gains: [Bucket::ABSENT; GAINS],
            second_path: SecondPath::default(),
            reachability: 0,
            handovers: Vec::new(),
            delay_pairs: Vec::new(),
            family_pairs: Vec::new(),
        }
    }
}

pub fn figure_index(measure: usize, transport: Transport) -> usize {
    measure * TRANSPORTS + usize::from(transport_number(transport))
}

/// The position of a measure in [`MEASURES`].
pub fn measure(pattern: &str, figure: &str) -> Option<usize> {
    MEASURES.iter().position(|one| *one == (pattern, figure))
}

/// `pattern` counts in [`GAIN_PATTERNS`], `transport` in [`GAIN_TRANSPORTS`].
pub const fn gain_index(pattern: usize, transport: usize) -> usize {
    pattern * GAIN_TRANSPORTS.len() + transport
}

pub(super) fn transport_number(transport: Transport) -> u8 {
    Transport::ALL.iter().position(|one| *one == transport).unwrap_or(0) as u8
}
