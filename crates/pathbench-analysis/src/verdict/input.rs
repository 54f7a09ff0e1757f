//! The evidence for the verdict.

use crate::attribution::Stray;
use crate::mptcp_setup::LocalSetup;
use pathbench_record::connection::{Negotiation, PathEvent, Scheduler};
use pathbench_record::document::{DiagnosisKind, OpeningOutcome, OpeningRecord, PathDiagnosis};
use pathbench_record::kernel_event::MptcpEvent;
use pathbench_record::network::ClientPath;
use pathbench_record::sample::PathFigures;
use pathbench_record::stage::{SubflowEvidence, SubflowOpening, SubflowStage};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A path counts as used from this part of the delivered bytes.
pub const USED_SHARE: f64 = 0.01;

/// Unknown values stay empty or `None`; an unknown value never counts against multipath.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VerdictInput {
    /// Whether a multipath transport was requested.
    pub requested: bool,
    /// As the transport reports it at the end of the connection.
    pub negotiation: Negotiation,
    pub paths: Vec<PathDelivery>,
    /// Subflows ever opened, including the first: their handshake was completed.
    pub subflows_total: Option<u32>,
    /// Subflows ever attempted, including those that were opened.
    pub subflows_attempted: Option<u32>,
    /// The connection's SYN, where the connection was never opened.
    pub unopened: Option<UnopenedConnection>,
    /// Causes that the caller has seen, for a connection over one path.
    pub causes: Vec<String>,
    /// MIB counters of the connecting host, difference over the run: `MPTcpExt.MPCapableSYNTXDrop` → 1.
    pub counters: BTreeMap<String, i64>,
    /// MIB counters of the accepting host, where known.
    pub peer_counters: BTreeMap<String, i64>,
    /// The MPTCP set-up of the connecting host, where known.
    pub setup: Option<LocalSetup>,
    /// Events `SUB_CLOSED` of the path manager with an error or an MPTCP reset reason (RFC 8684, section 3.6).
    pub join_failures: Vec<MptcpEvent>,
    /// The paths of an mpquic connection; `None` for other transports.
    pub quic: Option<QuicPaths>,
    /// How the opening of the connection ended, where known.
    pub opening: Option<OpeningRecord>,
    /// Diagnoses of paths without traffic ([`crate::diagnosis::diagnose`]); the reason agrees with them.
    pub diagnoses: Vec<PathDiagnosis>,
    /// Addresses whose packets left by the interface of another path.
    pub strays: Vec<Stray>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathDelivery {
    /// The path's name, or its local address.
    pub name: String,
    /// Payload bytes that arrived over the path, the sum of both directions.
    pub delivered_bytes: u64,
    /// The last figures of its subflow at the sending end.
    pub last: Option<PathFigures>,
    /// The farthest stage of its subflows, where it was observed; otherwise `last` shows it.
    pub stage: Option<SubflowStage>,
}

/// A connection whose handshake was never completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnopenedConnection {
    /// Attempted or answered.
    pub stage: SubflowStage,
    pub local: IpAddr,
    pub remote: SocketAddr,
    /// The interface by which its packets leave, where known.
    pub interface: Option<String>,
    /// The interface has no carrier.
    pub is_without_carrier: bool,
}

impl UnopenedConnection {
    /// Why it was never opened, with the remedy.
    pub(super) fn words(&self) -> String {
        let Self { local, remote, .. } = self;
        let leaves =
            self.interface.as_ref().map(|name| format!(", which leaves by {name},")).unwrap_or_default();
        let syn = format!("the SYN from {local} to {remote}{leaves}");
        if self.stage > SubflowStage::Attempted {
            return format!(
                "the connection was never opened: {syn} was rejected with RST: nothing listens at that port, or a firewall \
                 rejects it"
            );
        }
        match &self.interface {
            Some(name) if self.is_without_carrier => format!(
                "the connection was never opened: {syn} was never answered, because {name} has no carrier and the kernel \
                 prefers its route; connect it, or as root: ip link set {name} down"
            ),
            _ => format!(
                "the connection was not seen to open: {syn} was never answered while it was watched: the server is down, the \
                 packets are dropped on the path, or the connection opened and ended between two looks at it; pathbench \
                 check {remote} examines each path"
            ),
        }
    }
}

impl PathDelivery {
    /// The farthest stage of its subflows.
    pub(super) fn stage(&self) -> Option<SubflowStage> {
        let of_figures = || {
            let evidence = SubflowEvidence::from_figures(self.last.as_ref()?, SubflowOpening::Join);
            evidence.stage()
        };
        self.stage.or_else(of_figures)
    }
}

/// An mpquic connection's paths as recorded by the connecting end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuicPaths {
    /// The planned paths, the initial one first.
    pub asked: Vec<ClientPath>,
    /// Events of the paths, sorted by time.
    pub events: Vec<PathEvent>,
    /// The scheduler: the path for new data.
    pub scheduler: Scheduler,
}

pub(crate) fn is_used(path: &PathDelivery, total: u64) -> bool {
    path.delivered_bytes > 0 && path.delivered_bytes as f64 >= total as f64 * USED_SHARE
}

pub(crate) fn share(path: &PathDelivery, total: u64) -> String {
    let percent = path.delivered_bytes as f64 * 100.0 / total.max(1) as f64;
    if percent > 0.0 && percent < 0.1 { "less than 0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

impl VerdictInput {
    /// A path's black hole or silence in words, with the remedy; `None` if its samples show neither.
    pub(super) fn diagnosis(&self, path: &str) -> Option<String> {
        let silent = |found: &&PathDiagnosis| {
            found.path == path && matches!(found.kind, DiagnosisKind::MtuBlackHole | DiagnosisKind::Stale)
        };
        let found = self.diagnoses.iter().find(silent)?;
        Some(format!("{}: {}. Remedy: {}", kind_in_words(found.kind), found.because, found.remedy))
    }

    /// Why the connection was never opened, with the initial path and the remedy; `None` for one that was opened.
    pub(super) fn never_opened(&self) -> Option<String> {
        let opening = self.opening.as_ref().filter(|opening| opening.outcome != OpeningOutcome::Opened)?;
        let found = self.diagnoses.iter().find(|one| one.kind == DiagnosisKind::InitialPath)?;
        let (path, outcome) = (&found.path, opening.outcome.name());
        Some(format!(
            "no connection was opened, because of the initial path {path} ({outcome}): {}. Remedy: {}",
            found.because, found.remedy
        ))
    }

    pub(crate) fn rose(&self, name: &str) -> bool {
        rose(&self.counters, name)
    }

    pub(super) fn rose_at_peer(&self, name: &str) -> bool {
        rose(&self.peer_counters, name)
    }

    pub(crate) fn any_rose(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.rose(name) || self.rose_at_peer(name))
    }
}

fn rose(counters: &BTreeMap<String, i64>, name: &str) -> bool {
    // MIB counters are prefixed with their group; the bare name is accepted as well.
    [format!("MPTcpExt.{name}"), name.to_owned()]
        .iter()
        .any(|name| counters.get(name).is_some_and(|difference| *difference > 0))
}

const fn kind_in_words(kind: DiagnosisKind) -> &'static str {
    match kind {
        DiagnosisKind::MtuBlackHole => "MTU black hole suspected",
        DiagnosisKind::Stale => "it went silent",
        DiagnosisKind::Backup => "it is a backup path",
        DiagnosisKind::NeverEstablished => "it was never established",
        DiagnosisKind::NoRoute => "there is no route",
        DiagnosisKind::NotChosen => "it was not chosen",
        DiagnosisKind::InitialPath => "the connection could not begin on it",
    }
}
