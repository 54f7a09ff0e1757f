//! Was multipath really used, and why not.
//!
//! Pure: evidence in, verdict out. Counter names are those of `/proc/net/netstat` (net/mptcp/mib.c).

mod fallback;
mod one_path;
mod quic;

pub(crate) use one_path::{failure_words, joins};
pub(crate) use quic::why_unused;
pub use quic::{AskedPath, QuicPaths};

use crate::diagnosis::kind_in_words;
use pathbench_record::connection::Negotiation;
use pathbench_record::document::{DiagnosisKind, MultipathRecord, PathDiagnosis};
use pathbench_record::sample::PathFigures;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A path counts as used from this part of the delivered bytes on.
pub const USED_SHARE: f64 = 0.01;

/// The evidence. Anything unknown stays empty or `None`; nothing unknown counts against multipath.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VerdictInput {
    /// Whether a multipath transport was asked for.
    pub requested: bool,
    /// The kernel's word at the end of the connection.
    pub negotiation: Negotiation,
    pub paths: Vec<PathDelivery>,
    /// Subflows ever opened, the first included.
    pub subflows_total: Option<u32>,
    /// MIB counters of the connecting host, after − before: `MPTcpExt.MPCapableSYNTXDrop` → 1.
    pub counters: BTreeMap<String, i64>,
    /// The same of the accepting host, where it is known.
    pub peer_counters: BTreeMap<String, i64>,
    /// How the connecting host is set up for MPTCP, where it is known.
    pub setup: Option<LocalSetup>,
    /// Subflows that the path manager reported closed with an error (event `SUB_CLOSED`).
    pub join_failures: Vec<JoinFailure>,
    /// What is known of the paths when the transport is mpquic; `None` for the others.
    pub quic: Option<QuicPaths>,
    /// What is known of paths that carried nothing ([`crate::diagnosis::diagnose`]); the reason agrees with it.
    pub diagnoses: Vec<PathDiagnosis>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathDelivery {
    /// The path's name, or its local address.
    pub name: String,
    /// Payload bytes that arrived over it, both directions together.
    pub delivered_bytes: u64,
    /// The last figures of its subflow at the sending end.
    pub last: Option<PathFigures>,
}

/// The MPTCP set-up of the connecting host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalSetup {
    /// Limit of additional subflows (`ip mptcp limits`, `subflows`).
    pub subflow_limit: u32,
    /// Limit of accepted announced addresses (`add_addr_accepted`).
    pub add_addr_accepted_limit: u32,
    /// Addresses of endpoints from which subflows are opened (flags `subflow`, `fullmesh`).
    pub endpoints: Vec<IpAddr>,
    /// The host's addresses that are meant to carry a path.
    pub addresses: Vec<IpAddr>,
    /// The address the connection started from.
    pub initial: Option<IpAddr>,
    /// The accepting host's limit of additional subflows, where it is known.
    pub peer_subflow_limit: Option<u32>,
}

/// A subflow that could not be opened, or was closed with an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JoinFailure {
    pub local: Option<IpAddr>,
    pub remote: Option<IpAddr>,
    /// The error number (`MPTCP_ATTR_ERROR`).
    pub errno: Option<i32>,
    /// The reason of an MPTCP reset (`MPTCP_ATTR_RESET_REASON`, RFC 8684 section 3.6).
    pub reset_reason: Option<u32>,
}

/// Judges the evidence. The reason is always filled in: why multipath was not used, or how it is known that it was.
pub fn multipath_verdict(input: &VerdictInput) -> MultipathRecord {
    let total = input.paths.iter().map(|path| path.delivered_bytes).fold(0, u64::saturating_add);
    let used: Vec<&PathDelivery> = input.paths.iter().filter(|path| is_used(path, total)).collect();
    let negotiated = input.requested && input.negotiation == Negotiation::Negotiated;
    let really = negotiated && used.len() >= 2;
    let reason = if !input.requested {
        "multipath was not asked for".to_owned()
    } else if input.negotiation == Negotiation::NotNegotiated {
        quic::NOT_NEGOTIATED.to_owned()
    } else if !negotiated {
        fallback::reason(input)
    } else if really {
        let shares: Vec<String> =
            used.iter().map(|path| format!("{} {}", path.name, share(path, total))).collect();
        format!("{} paths carried the delivered bytes: {}", used.len(), shares.join(", "))
    } else if let Some(quic) = &input.quic {
        quic::one_path_reason(input, quic, total)
    } else {
        one_path::reason(input, total)
    };
    MultipathRecord {
        requested: input.requested,
        negotiated,
        used: really,
        reason,
        paths_used: used.len() as u32,
        subflows_total: input.subflows_total,
    }
}

pub(crate) fn is_used(path: &PathDelivery, total: u64) -> bool {
    path.delivered_bytes > 0 && path.delivered_bytes as f64 >= total as f64 * USED_SHARE
}

pub(crate) fn share(path: &PathDelivery, total: u64) -> String {
    let percent = path.delivered_bytes as f64 * 100.0 / total.max(1) as f64;
    if percent > 0.0 && percent < 0.1 { "less than 0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

impl VerdictInput {
    /// What fell silent on a path, in words with the remedy; `None` where its samples say nothing of the
    /// kind.
    fn diagnosis(&self, path: &str) -> Option<String> {
        let silent = |found: &&PathDiagnosis| {
            found.path == path && matches!(found.kind, DiagnosisKind::MtuBlackHole | DiagnosisKind::Stale)
        };
        let found = self.diagnoses.iter().find(silent)?;
        Some(format!("{}: {}. Remedy: {}", kind_in_words(found.kind), found.because, found.remedy))
    }

    pub(crate) fn rose(&self, name: &str) -> bool {
        rose(&self.counters, name)
    }

    fn rose_at_peer(&self, name: &str) -> bool {
        rose(&self.peer_counters, name)
    }

    pub(crate) fn any_rose(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.rose(name) || self.rose_at_peer(name))
    }
}

fn rose(counters: &BTreeMap<String, i64>, name: &str) -> bool {
    // MIB lines are named by their group; the bare name is accepted, too.
    [format!("MPTcpExt.{name}"), name.to_owned()]
        .iter()
        .any(|name| counters.get(name).is_some_and(|difference| *difference > 0))
}
