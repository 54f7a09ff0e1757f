//! The report of a connection, and the summary of all. Pure.

use crate::ledger::{ConnectionRole, ObservedConnection, SubflowRecord, TransportProtocol};
use pathbench_analysis::attribution::{CarriedBytes, Stray, SubflowPath, SubflowSeen, attribute};
use pathbench_analysis::mptcp_setup::LocalSetup;
use pathbench_analysis::verdict::{PathDelivery, UnopenedConnection, VerdictInput, multipath_verdict};
use pathbench_record::connection::{FallbackReason, Negotiation};
use pathbench_record::document::MultipathRecord;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::stage::SubflowStage;
use pathbench_record::time::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A client opens its further subflows within some round trips.
const TIME_OF_JOINS: Duration = Duration::from_secs(2);

/// The state of this host, as evidence for the reason of a fallback.
#[derive(Debug, Clone, Default)]
pub struct FallbackEvidence {
    /// The path manager's configuration, where readable.
    pub setup: Option<LocalSetup>,
    /// MIB counters of this network namespace, difference since the program's start: other programs count, too.
    pub counters: BTreeMap<String, i64>,
    /// Addresses of this host, and their interfaces.
    pub interfaces: Vec<(IpAddr, String)>,
    /// The bytes that each interface has carried since the program's start: other programs count, too.
    pub carried: BTreeMap<String, CarriedBytes>,
    /// Interfaces without a carrier.
    pub without_carrier: BTreeSet<String>,
}

impl FallbackEvidence {
    /// Whether the address belongs to this host.
    fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.interfaces.iter().any(|(own, _)| *own == address)
    }

    fn interface(&self, address: IpAddr) -> Option<String> {
        self.interfaces.iter().find(|(own, _)| *own == address).map(|(_, name)| name.clone())
    }
}

/// A path of a connection: the sum of the subflows whose packets took one interface. Of an accepted connection also of
/// one remote address, because the client's interfaces are not known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathReport {
    /// The interface by which its packets leave, or the local address; with the remote address where several paths of an
    /// accepted connection share it.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    pub local: IpAddr,
    pub remote: IpAddr,
    /// Payload bytes sent, without retransmissions.
    pub bytes_sent: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Payload bytes that the peer acknowledged or that arrived.
    #[serde(skip)]
    pub delivered_bytes: u64,
    /// The farthest stage of its subflows.
    pub stage: SubflowStage,
    pub retransmitted_segments: u64,
    pub retransmitted_bytes: u64,
    /// Smoothed round-trip time at the last look.
    pub rtt_ms: f64,
    /// The kernel reported the figures at the end of the path's subflows; otherwise the true ones may be larger.
    #[serde(rename = "final")]
    pub is_final: bool,
}

impl PathReport {
    pub const fn bytes(&self) -> u64 {
        self.bytes_sent.saturating_add(self.bytes_received)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionReport {
    /// Order of appearance, from 1.
    pub number: u64,
    pub role: ConnectionRole,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Seconds from the program's start to the first and to the last look at the connection.
    pub first_seen_s: f64,
    pub last_seen_s: f64,
    pub multipath: MultipathRecord,
    /// Whether the connection was opened.
    pub is_opened: bool,
    /// Payload bytes of the connection, sent once.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Whether these are the bytes of the whole connection; otherwise the true number may be larger.
    pub bytes_sent_exact: bool,
    pub bytes_received_exact: bool,
    pub paths: Vec<PathReport>,
}

impl ConnectionReport {
    pub fn new(connection: &ObservedConnection, evidence: &FallbackEvidence, start: Timestamp) -> Self {
        let paths = paths(connection, evidence);
        let (sent, received) = (connection.total_sent(), connection.total_received());
        Self {
            number: connection.number,
            role: connection.role,
            local: connection.local,
            remote: connection.remote,
            first_seen_s: connection.first_seen.duration_since(start).as_secs_f64(),
            last_seen_s: connection.last_seen.duration_since(start).as_secs_f64(),
            multipath: multipath_verdict(&verdict_input(connection, &paths, evidence)),
            is_opened: unopened(connection, evidence).is_none(),
            bytes_sent: sent.bytes,
            bytes_received: received.bytes,
            bytes_sent_exact: sent.is_exact,
            bytes_received_exact: received.is_exact,
            paths,
        }
    }

    /// Payload bytes that the subflows carried beyond those of the connection; `None` where its bytes are not exact.
    pub fn repeated_bytes(&self) -> Option<u64> {
        let sum =
            |of_path: fn(&PathReport) -> u64| self.paths.iter().map(of_path).fold(0, u64::saturating_add);
        let beyond =
            |is_exact: bool, total: u64, of_path| is_exact.then(|| sum(of_path).saturating_sub(total));
        let sent = beyond(self.bytes_sent_exact, self.bytes_sent, |path| path.bytes_sent)?;
        let received = beyond(self.bytes_received_exact, self.bytes_received, |path| path.bytes_received)?;
        Some(sent.saturating_add(received))
    }

    pub fn state(&self) -> ConnectionState {
        if !self.is_opened {
            ConnectionState::Unopened
        } else if self.multipath.used {
            ConnectionState::Multipath
        } else if self.multipath.negotiated {
            ConnectionState::OnePath
        } else {
            ConnectionState::Tcp
        }
    }
}

/// Whether a connection used multipath.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionState {
    Multipath,
    /// MPTCP, with bytes on one path only.
    OnePath,
    /// Plain TCP: not negotiated, or fallen back.
    Tcp,
    /// The handshake was never completed.
    Unopened,
}

impl ConnectionState {
    pub const fn words(self) -> &'static str {
        match self {
            Self::Multipath => "multipath",
            Self::OnePath => "one path",
            Self::Tcp => "plain TCP",
            Self::Unopened => "never opened",
        }
    }
}

/// The interfaces of a connection's subflows, and the paths that their bytes took.
fn attributed(
    connection: &ObservedConnection,
    evidence: &FallbackEvidence,
) -> (Vec<SubflowSeen>, Vec<SubflowPath>) {
    let seen = |subflow: &SubflowRecord| {
        let (local, left_by) = (subflow.figures.local.ip(), subflow.figures.interface.clone());
        // All subflows of an accepted connection can have one local address; the client's addresses tell them apart, and the
        // route to each is the likeliest for the packets from it.
        let is_accepted = connection.role == ConnectionRole::Accepted;
        let of_route = left_by.clone().filter(|_| is_accepted);
        SubflowSeen {
            owner: of_route.or_else(|| evidence.interface(local)).unwrap_or_else(|| local.to_string()),
            left_by,
            received_bytes: subflow.figures.bytes_received,
        }
    };
    let seen: Vec<SubflowSeen> = connection.subflows.iter().map(seen).collect();
    let paths = attribute(&seen, &evidence.carried);
    (seen, paths)
}

fn paths(connection: &ObservedConnection, evidence: &FallbackEvidence) -> Vec<PathReport> {
    let mut paths: Vec<PathReport> = Vec::new();
    let (_, taken) = attributed(connection, evidence);
    for (subflow, path) in connection.subflows.iter().zip(&taken) {
        let figures = &subflow.figures;
        let up = PathReport {
            bytes_sent: figures.new_bytes_sent(),
            delivered_bytes: figures.bytes_acked,
            retransmitted_segments: figures.retransmitted_segments,
            retransmitted_bytes: figures.retransmitted_bytes,
            ..report_of(subflow, &path.upload, evidence)
        };
        let down = PathReport {
            bytes_received: figures.bytes_received,
            delivered_bytes: figures.bytes_received,
            ..report_of(subflow, &path.download, evidence)
        };
        add(&mut paths, connection.role, up);
        if down.bytes_received > 0 || path.upload == path.download {
            add(&mut paths, connection.role, down);
        }
    }
    let names: Vec<String> = paths.iter().map(|path| path.name.clone()).collect();
    for path in &mut paths {
        if names.iter().filter(|name| **name == path.name).count() > 1 {
            path.name = format!("{} with {}", path.name, path.remote);
        }
    }
    paths
}

fn report_of(subflow: &SubflowRecord, name: &str, evidence: &FallbackEvidence) -> PathReport {
    let figures = &subflow.figures;
    let is_interface = figures.interface.as_deref() == Some(name)
        || evidence.interfaces.iter().any(|(_, interface)| interface == name);
    PathReport {
        name: name.to_owned(),
        interface: is_interface.then(|| name.to_owned()),
        local: figures.local.ip(),
        remote: figures.remote.ip(),
        bytes_sent: 0,
        bytes_received: 0,
        delivered_bytes: 0,
        stage: subflow.stage,
        retransmitted_segments: 0,
        retransmitted_bytes: 0,
        rtt_ms: figures.srtt_ms,
        is_final: subflow.is_final,
    }
}

fn add(paths: &mut Vec<PathReport>, role: ConnectionRole, new: PathReport) {
    let is_same = |path: &&mut PathReport| {
        path.name == new.name && (role == ConnectionRole::Connected || path.remote == new.remote)
    };
    match paths.iter_mut().find(is_same) {
        None => paths.push(new),
        Some(path) => {
            path.bytes_sent = path.bytes_sent.saturating_add(new.bytes_sent);
            path.bytes_received = path.bytes_received.saturating_add(new.bytes_received);
            path.delivered_bytes = path.delivered_bytes.saturating_add(new.delivered_bytes);
            path.stage = path.stage.max(new.stage);
            path.retransmitted_segments += new.retransmitted_segments;
            path.retransmitted_bytes = path.retransmitted_bytes.saturating_add(new.retransmitted_bytes);
            path.rtt_ms = new.rtt_ms;
            path.is_final &= new.is_final;
        }
    }
}

/// Addresses whose packets leave by another interface than the one that has them.
fn strays(connection: &ObservedConnection, evidence: &FallbackEvidence) -> Vec<Stray> {
    let (seen, _) = attributed(connection, evidence);
    let stray = |(subflow, seen): (&SubflowRecord, SubflowSeen)| {
        let ends = (subflow.figures.local.ip(), subflow.figures.remote.ip());
        Stray::from_subflow(&seen, ends, evidence.setup.as_ref())
    };
    let mut found: Vec<Stray> = connection.subflows.iter().zip(seen).filter_map(stray).collect();
    found.dedup();
    found
}

/// The connection's SYN, unless a snapshot or the report of its end shows that the handshake was completed.
fn unopened(connection: &ObservedConnection, evidence: &FallbackEvidence) -> Option<UnopenedConnection> {
    let has_carried =
        |one: &SubflowRecord| one.figures.new_bytes_sent() > 0 || one.figures.bytes_received > 0;
    let is_open = |one: &SubflowRecord| one.figures.state == PathState::Open || has_carried(one);
    let is_attempt = |one: &SubflowRecord| one.stage <= SubflowStage::Answered && !is_open(one);
    let first = connection.subflows.first()?;
    let is_connecting = connection.role == ConnectionRole::Connected;
    (is_connecting && connection.subflows.iter().all(is_attempt)).then(|| {
        let interface = first.figures.interface.clone();
        UnopenedConnection {
            stage: first.stage,
            local: first.figures.local.ip(),
            remote: connection.remote,
            is_without_carrier: interface
                .as_ref()
                .is_some_and(|name| evidence.without_carrier.contains(name)),
            interface,
        }
    })
}

/// Causes of a connection over one path that this host shows by itself.
fn causes(connection: &ObservedConnection, evidence: &FallbackEvidence) -> Vec<String> {
    if is_of_this_host(connection, evidence) {
        return vec!["both ends are on this host, between whose addresses all packets take lo".to_owned()];
    }
    let is_early = |since: Timestamp| since.duration_since(connection.first_seen) <= TIME_OF_JOINS;
    let unheard = connection.unheard_since.filter(|since| is_early(*since)).map(|_| {
        format!(
            "the program closed its listening socket at port {} after it had accepted this connection, and the kernel answers \
             a join with RST where no MPTCP socket listens; the program must keep the listening socket open (many have an \
             option, as nc -k)",
            connection.local.port()
        )
    });
    unheard.into_iter().collect()
}

fn is_of_this_host(connection: &ObservedConnection, evidence: &FallbackEvidence) -> bool {
    evidence.is_own(connection.local.ip()) && evidence.is_own(connection.remote.ip())
}

fn verdict_input(
    connection: &ObservedConnection,
    paths: &[PathReport],
    evidence: &FallbackEvidence,
) -> VerdictInput {
    let negotiation = match connection.protocol {
        TransportProtocol::Mptcp => Negotiation::Negotiated,
        TransportProtocol::NotAsked => Negotiation::FellBack { reason: FallbackReason::BeforeHandshake },
        TransportProtocol::PlainTcp => Negotiation::FellBack { reason: FallbackReason::PeerAskedForPlainTcp },
        TransportProtocol::FellBack { at_first: true } => {
            Negotiation::FellBack { reason: FallbackReason::InHandshake }
        }
        TransportProtocol::FellBack { at_first: false } => {
            Negotiation::FellBack { reason: FallbackReason::InMidLife }
        }
    };
    let last = |path: &PathReport| -> Option<PathFigures> {
        let on_path = connection.subflows.iter().map(|subflow| &subflow.figures);
        on_path.rev().find(|figures| figures.local.ip() == path.local).cloned()
    };
    let deliveries = paths.iter().map(|path| PathDelivery {
        name: path.name.clone(),
        delivered_bytes: path.delivered_bytes,
        last: last(path),
        stage: Some(path.stage),
    });
    let initial = Some(connection.local.ip());
    let (connecting, accepting) = match connection.role {
        ConnectionRole::Connected => (evidence.counters.clone(), BTreeMap::new()),
        ConnectionRole::Accepted => (BTreeMap::new(), evidence.counters.clone()),
    };
    VerdictInput {
        requested: true,
        negotiation,
        paths: deliveries.collect(),
        subflows_total: Some(connection.subflows_opened()),
        subflows_attempted: Some(connection.subflows_seen),
        unopened: unopened(connection, evidence),
        causes: causes(connection, evidence),
        counters: connecting,
        peer_counters: accepting,
        // The set-up of the connecting host decides about paths; of an accepted connection it is unknown.
        setup: evidence
            .setup
            .clone()
            .filter(|_| {
                connection.role == ConnectionRole::Connected && !is_of_this_host(connection, evidence)
            })
            .map(|setup| LocalSetup { initial, ..setup }),
        strays: strays(connection, evidence),
        ..VerdictInput::default()
    }
}

/// Connections with the same role, peer and state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionGroup {
    pub role: ConnectionRole,
    /// The peer's address and port; of accepted connections the listening port, and the peer's address.
    pub peer: String,
    pub state: ConnectionState,
    pub connections: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub retransmitted_segments: u64,
    /// Path name → bytes sent and received.
    pub bytes_by_path: BTreeMap<String, u64>,
    /// The reason of the group's connection with the most bytes.
    pub reason: String,
    #[serde(skip)]
    most_bytes: u64,
    /// The sums include connections whose bytes are not exact.
    pub at_least: bool,
}

/// Groups beyond it are added to one of further peers.
const MOST_GROUPS: usize = 256;
const MOST_PATHS: usize = 64;
const FURTHER_PEERS: &str = "further peers";
const FURTHER_PATHS: &str = "further paths";

/// The sums over all connections, in bounded memory.
#[derive(Debug, Clone, Default)]
pub struct ProgramSummary {
    groups: BTreeMap<(ConnectionRole, String, ConnectionState), ConnectionGroup>,
    pub connections: u64,
    pub multipath: u64,
}

impl ProgramSummary {
    pub fn add(&mut self, report: &ConnectionReport) {
        self.connections += 1;
        self.multipath += u64::from(report.multipath.used);
        let peer = match report.role {
            ConnectionRole::Connected => report.remote.to_string(),
            ConnectionRole::Accepted => format!("{} at port {}", report.remote.ip(), report.local.port()),
        };
        let mut key = (report.role, peer, report.state());
        if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&key) {
            FURTHER_PEERS.clone_into(&mut key.1);
        }
        let group = self.groups.entry(key.clone()).or_insert_with(|| ConnectionGroup {
            role: key.0,
            peer: key.1,
            state: key.2,
            connections: 0,
            bytes_sent: 0,
            bytes_received: 0,
            retransmitted_segments: 0,
            bytes_by_path: BTreeMap::new(),
            reason: report.multipath.reason.clone(),
            most_bytes: 0,
            at_least: false,
        });
        group.connections += 1;
        let bytes = report.bytes_sent.saturating_add(report.bytes_received);
        if bytes > group.most_bytes {
            group.most_bytes = bytes;
            group.reason.clone_from(&report.multipath.reason);
        }
        group.bytes_sent = group.bytes_sent.saturating_add(report.bytes_sent);
        group.bytes_received = group.bytes_received.saturating_add(report.bytes_received);
        group.at_least |= !(report.bytes_sent_exact && report.bytes_received_exact);
        for path in &report.paths {
            group.retransmitted_segments += path.retransmitted_segments;
            let is_full = group.bytes_by_path.len() >= MOST_PATHS;
            let name = if is_full && !group.bytes_by_path.contains_key(&path.name) {
                FURTHER_PATHS.to_owned()
            } else {
                path.name.clone()
            };
            let bytes = group.bytes_by_path.entry(name).or_default();
            *bytes = bytes.saturating_add(path.bytes());
        }
    }

    /// The groups with the most connections first.
    pub fn groups(&self) -> Vec<&ConnectionGroup> {
        let mut groups: Vec<&ConnectionGroup> = self.groups.values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.connections));
        groups
    }
}
