//! The counters of both ends during a probe, and their share that belongs to one path.
//!
//! Counters count all connections of a network namespace: [`super::evidence`] decides to which path their rise belongs.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// By how much the counters of `MPTcpExt` rose during a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rises(pub BTreeMap<String, u64>);

impl Rises {
    pub(super) fn rise(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Those of `names` that rose: `MPRstTx +1, DssFallback +1`.
    fn list(&self, names: &[&str]) -> String {
        let rose = names.iter().filter(|name| self.rise(name) > 0);
        rose.map(|name| format!("{name} +{}", self.rise(name))).collect::<Vec<_>>().join(", ")
    }
}

/// The rise of the counters of both ends during a probe; without a path they show nothing but an absence.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    pub(super) client: Rises,
    /// Absent where the server does not report its counters.
    server: Option<Rises>,
    /// MPTCP connections that the probe opened.
    opened: u64,
}

/// Why a counter's rise belongs to no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unattributed {
    /// The kernel listed no subflow with an address of the path.
    NoSubflow,
    /// Other connections of the network namespace raised the same counters: a sentence.
    OtherTraffic(String),
}

impl Counters {
    pub const fn new(client: Rises, server: Option<Rises>, opened: u64) -> Self {
        Self { client, server, opened }
    }

    pub const fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// Connections that this host's programs opened beside the probe's.
    fn foreign_connections(&self) -> u64 {
        let opened = self.client.rise("MPCapableSYNTX") + self.client.rise("MPCapableSYNTXDisabled");
        opened.saturating_sub(self.opened)
    }

    /// Whether other connections of this network namespace raised the counters of handshakes.
    pub fn is_disturbed(&self) -> bool {
        self.foreign_connections() > 0
    }

    /// The counters of the handshake of the probe's connection.
    pub fn of_handshake(&self) -> Result<PathCounters<'_>, Unattributed> {
        let foreign = self.foreign_connections();
        if foreign > 0 {
            return Err(Unattributed::OtherTraffic(format!(
                "other programs opened {foreign} MPTCP connections meanwhile (MPCapableSYNTX)"
            )));
        }
        Ok(PathCounters { counters: self, others: 0, failed: 1 })
    }

    /// The announced addresses: sent by the server, where it reports that, and received by this host. They belong to the
    /// connection, not to a path.
    pub fn announcements(&self) -> (u64, u64) {
        let sent = self.server.as_ref().map_or(0, |server| server.rise("AddAddrTx"));
        (sent, self.client.rise("AddAddr"))
    }

    /// Whether the kernel has detected a path that drops `MP_CAPABLE`, which holds for the network namespace.
    pub fn has_detected_black_hole(&self) -> bool {
        self.client.rise("Blackhole") > 0
    }
}

/// Counters that belong to one path, or to several whose joins failed in the same time.
#[derive(Debug, Clone, Copy)]
pub struct PathCounters<'a> {
    pub(super) counters: &'a Counters,
    /// Established joins of other paths.
    pub(super) others: u64,
    /// Attempts whose share of the rises is open: at least 1.
    pub(super) failed: u64,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Client,
    Server,
}

impl PathCounters<'_> {
    fn rises_at(&self, end: End) -> Option<&Rises> {
        match end {
            End::Client => Some(&self.counters.client),
            End::Server => self.counters.server.as_ref(),
        }
    }

    pub const fn has_server(&self) -> bool {
        self.counters.server.is_some()
    }

    /// The rise without that of established joins of other paths; `None` where the end reports no counters.
    pub fn rise(&self, end: End, name: &str) -> Option<u64> {
        let rise = self.rises_at(end)?.rise(name);
        let is_of_join = ["MPJoinSynTx", "MPJoinSynAckRx", "MPJoinSynRx", "MPJoinAckRx"].contains(&name);
        Some(if is_of_join { rise.saturating_sub(self.others) } else { rise })
    }

    /// Whether the counter rose for the path; `None` where it rose for some of several failed joins, or is not reported.
    pub fn rose(&self, end: End, name: &str) -> Option<bool> {
        match self.rise(end, name)? {
            0 => Some(false),
            rise if rise >= self.failed => Some(true),
            _ => None,
        }
    }

    pub fn rose_at_client(&self, name: &str) -> bool {
        self.rose(End::Client, name) == Some(true)
    }

    pub fn rose_at_server(&self, name: &str) -> bool {
        self.rose(End::Server, name) == Some(true)
    }

    /// The counters that rose at either end: `client MPRstTx +1; server DssFallback +1`.
    pub fn list(&self, names: &[&str]) -> String {
        let list = |end| self.rises_at(end).map(|rises| rises.list(names)).unwrap_or_default();
        let ends = [("client", list(End::Client)), ("server", list(End::Server))];
        let rose = ends.into_iter().filter(|(_, list)| !list.is_empty());
        rose.map(|(end, list)| format!("{end} {list}")).collect::<Vec<_>>().join("; ")
    }

    pub fn list_at(&self, end: End, names: &[&str]) -> String {
        self.rises_at(end).map(|rises| rises.list(names)).unwrap_or_default()
    }
}

/// A TCP socket to the server that the kernel destroyed during a probe: a subflow that ended, or never opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinAttempt {
    pub local: IpAddr,
    /// Unspecified where the kernel found no route.
    pub remote: SocketAddr,
    /// Packets that arrived on it, a reset included.
    pub packets_received: u64,
}
