//! What the figures need of one result, in a compact form that a collector loads at its start.
//!
//! The names of public results are in the anonymous form: the collector makes it, too.

pub mod bucket;
mod coding;

pub use bucket::Bucket;
pub use coding::{FactsError, MODES};

use pathbench_api::anonymise::Anonymiser;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::submission::Checked;
use pathbench_api::summary::{Best, GroupSummary, Mode, NetworkKind, ReachabilitySummary, Summary};
use pathbench_record::direction::Direction;
use pathbench_record::document::{HandoverReason, UnreachableBecause};
use pathbench_record::network::AddressFamily;
use pathbench_record::statistics::median;
use pathbench_record::transport::{Transport, TransportLabel};
use std::collections::BTreeSet;

/// Networks and operators of one result; more are not counted.
pub const MOST_NETWORKS: usize = 8;

/// A figure of a pattern: the names in `run.json`. The position is part of the coding: only append.
pub const MEASURES: [(&str, &str); 13] = [
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
    /// By [`figure_index`].
    pub figures: [Bucket; MEASURES.len() * TRANSPORTS],
    /// By [`gain_index`].
    pub gains: [Bucket; GAINS],
    /// 4 bits for each transport and family: [`Reach`].
    pub reachability: u32,
    pub handovers: Vec<Handover>,
    pub delay_pairs: Vec<PairFact>,
    pub family_pairs: Vec<FamilyFact>,
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

    pub fn of(reachability: u32, transport: Transport, family: AddressFamily) -> Self {
        let bits = (reachability >> reach_shift(transport, family)) & 15;
        Self::ALL.get(bits as usize).copied().unwrap_or(Self::Untested)
    }
}

fn reach_shift(transport: Transport, family: AddressFamily) -> u32 {
    let family = u32::from(family == AddressFamily::Ipv6);
    (u32::from(coding::transport_number(transport)) * 2 + family) * 4
}

/// Unknown values become [`Reach::Untested`].
fn reachability_bits(bits: u32) -> u32 {
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
            figures: [Bucket::ABSENT; MEASURES.len() * TRANSPORTS],
            gains: [Bucket::ABSENT; GAINS],
            reachability: 0,
            handovers: Vec::new(),
            delay_pairs: Vec::new(),
            family_pairs: Vec::new(),
        }
    }
}

pub fn figure_index(measure: usize, transport: Transport) -> usize {
    measure * TRANSPORTS + usize::from(coding::transport_number(transport))
}

/// The position of a measure in [`MEASURES`].
pub fn measure(pattern: &str, figure: &str) -> Option<usize> {
    MEASURES.iter().position(|one| *one == (pattern, figure))
}

/// `pattern` counts in [`GAIN_PATTERNS`], `transport` in [`GAIN_TRANSPORTS`].
pub const fn gain_index(pattern: usize, transport: usize) -> usize {
    pattern * GAIN_TRANSPORTS.len() + transport
}

pub fn encode(checked: &Checked) -> Vec<u8> {
    coding::write(&Facts::of(&checked.submission.summary, checked.submission.consent))
}

pub fn decode(bytes: &[u8]) -> Result<Facts, FactsError> {
    coding::read(bytes)
}

impl Facts {
    pub fn of(summary: &Summary, consent: Consent) -> Self {
        if consent == Consent::Public {
            let mut anonymous = summary.clone();
            Anonymiser::default().summary(&mut anonymous);
            return Self::of_summary(&anonymous);
        }
        Self::of_summary(summary)
    }

    fn of_summary(summary: &Summary) -> Self {
        let mut facts = Self { mode: summary.mode, started_ms: summary.started_ms, ..Self::default() };
        let text = |name: &Option<Name>| name.as_ref().map_or(String::new(), ToString::to_string);
        let operators: BTreeSet<&str> =
            summary.networks.iter().filter_map(|one| one.operator.as_ref()).map(Name::as_str).collect();
        facts.names = FactNames {
            server: text(&summary.server),
            experiment: text(&summary.experiment),
            scenario: summary.scenario.to_string(),
            kernel: summary.kernel.to_string(),
            operators: operators.into_iter().take(MOST_NETWORKS).map(str::to_owned).collect(),
        };
        for network in &summary.networks {
            let bit = KINDS.iter().position(|kind| *kind == network.kind).unwrap_or(KINDS.len() - 1);
            facts.kinds |= 1 << bit;
        }
        let prefixes = summary.networks.iter().filter_map(|one| one.prefix.as_ref());
        let prefixes: BTreeSet<u64> = prefixes.map(|prefix| hash(prefix.as_str())).collect();
        facts.networks = prefixes.into_iter().take(MOST_NETWORKS).collect();
        facts.add_groups(&summary.groups);
        summary.reachability.iter().for_each(|one| facts.add_reachability(one));
        facts.handovers = summary
            .handovers
            .iter()
            .map(|one| Handover {
                transport: one.transport,
                reason: one.reason,
                sent: Bucket::of_option(one.duration_sent_ms),
                received: Bucket::of_option(one.duration_received_ms),
            })
            .collect();
        facts.delay_pairs = summary
            .delay_pairs
            .iter()
            .map(|one| PairFact {
                direction: one.direction,
                mptcp: Bucket::of(one.mptcp_ms),
                mpquic: Bucket::of(one.mpquic_ms),
            })
            .collect();
        facts.family_pairs = summary
            .family_pairs
            .iter()
            .map(|one| FamilyFact {
                transport: one.transport,
                ipv4: Bucket::of(one.ipv4_ms),
                ipv6: Bucket::of(one.ipv6_ms),
            })
            .collect();
        facts
    }

    fn add_groups(&mut self, groups: &[GroupSummary]) {
        for (transport, bit) in Transport::ALL.into_iter().zip(0..) {
            let is_valid = |group: &&GroupSummary| transport_of(group) == Some(transport) && group.valid > 0;
            self.transports |= u8::from(groups.iter().any(|group| is_valid(&group))) << bit;
            for (index, (pattern, figure)) in MEASURES.into_iter().enumerate() {
                let values = per_variant(groups, transport, pattern, figure);
                let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
                self.figures[figure_index(index, transport)] = Bucket::of_option(median(&values));
            }
        }
        for (index, pattern) in GAIN_PATTERNS.into_iter().enumerate() {
            for (number, (multipath, single)) in GAIN_TRANSPORTS.into_iter().enumerate() {
                let single = per_variant(groups, single, pattern, "goodput_mbps");
                let of_variant = |(variant, value): (Option<&Name>, f64)| {
                    let (_, base) = single.iter().find(|(one, base)| *one == variant && *base > 0.0)?;
                    Some(value / base)
                };
                let all = per_variant(groups, multipath, pattern, "goodput_mbps").into_iter();
                let ratios: Vec<f64> = all.filter_map(of_variant).collect();
                self.gains[gain_index(index, number)] = Bucket::of_option(median(&ratios));
            }
        }
    }

    /// One port that answers is enough; of several errors the first counts.
    fn add_reachability(&mut self, one: &ReachabilitySummary) {
        let found = match (one.reachable, one.error_kind) {
            (true, _) => Reach::Reachable,
            (false, Some(UnreachableBecause::Timeout)) => Reach::Timeout,
            (false, Some(UnreachableBecause::NoRoute)) => Reach::NoRoute,
            (false, Some(UnreachableBecause::Refused)) => Reach::Refused,
            (false, _) => Reach::Other,
        };
        let known = Reach::of(self.reachability, one.transport, one.family);
        if known == Reach::Untested || found == Reach::Reachable {
            let shift = reach_shift(one.transport, one.family);
            self.reachability = self.reachability & !(15 << shift) | (found as u32) << shift;
        }
    }
}

fn transport_of(group: &GroupSummary) -> Option<Transport> {
    group.label.as_str().parse::<TransportLabel>().ok().map(|label| label.transport)
}

/// Of each variant the figure of the best label. A bulk or throughput figure of a multipath transport counts only if
/// all valid runs of its group used several paths: the figure of a connection that fell back is one of a single path.
fn per_variant<'a>(
    groups: &'a [GroupSummary],
    transport: Transport,
    pattern: &str,
    figure: &str,
) -> Vec<(Option<&'a Name>, f64)> {
    let best = if figure == "goodput_mbps" { Best::Highest } else { Best::Lowest };
    let needs_paths = transport.is_multipath() && GAIN_PATTERNS.contains(&pattern);
    let mut found: Vec<(Option<&Name>, f64)> = Vec::new();
    for group in groups {
        let is_wanted = group.valid > 0
            && group.pattern.as_str() == pattern
            && transport_of(group) == Some(transport)
            && (!needs_paths || group.multipath_used >= group.valid);
        let value = group.figures.iter().find(|(name, _)| name.as_str() == figure).map(|(_, value)| *value);
        let Some(value) = value.filter(|_| is_wanted) else { continue };
        let variant = group.variant.as_ref();
        match found.iter_mut().find(|(one, _)| *one == variant) {
            None => found.push((variant, value)),
            Some((_, known)) if best == Best::Highest => *known = known.max(value),
            Some((_, known)) => *known = known.min(value),
        }
    }
    found
}

fn hash(text: &str) -> u64 {
    let Digest(bytes) = Digest::compute(text.as_bytes());
    bytes.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
