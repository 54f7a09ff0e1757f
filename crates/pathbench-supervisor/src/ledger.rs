//! The connections of the program, from snapshots of the kernel's sockets and from reports of destroyed ones. Pure and
//! bounded.

use crate::activity::Activity;
use pathbench_host::sockets::{Snapshot, Socket};
use pathbench_record::connection::MptcpFigures;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Timestamp;
use pathbench_transport::kernel_answers::{mptcp_figures, path_figures};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

/// Connections that are followed at the same time.
const MOST_CONNECTIONS: usize = 32_768;
/// Listening sockets that are followed, ended ones included.
const MOST_LISTENERS: usize = 1024;
/// Subflows of a connection that are kept one by one; the kernel has 9 at most at a time.
const MOST_SUBFLOWS: usize = 32;
/// Snapshots without a connection after which it has ended. A report of its last subflow may follow the first.
const MISSED_AT_END: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Connected,
    Accepted,
}

/// The state of MPTCP on a connection, by the kernel's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Mptcp,
    /// The first snapshot shows the fallback, or a later one.
    FellBack {
        at_first: bool,
    },
    /// Accepted by an MPTCP listener without MPTCP.
    PlainTcp,
}

/// A subflow, or the TCP connection itself without MPTCP.
#[derive(Debug, Clone, PartialEq)]
pub struct SubflowRecord {
    pub cookie: u64,
    pub figures: PathFigures,
    /// The figures are those at its end; otherwise those of the last snapshot.
    pub is_final: bool,
}

/// A connection of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// Order of appearance, from 1.
    pub number: u64,
    pub role: Role,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub protocol: Protocol,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    pub mptcp: Option<MptcpFigures>,
    pub subflows: Vec<SubflowRecord>,
    /// Subflows so far, those that are not kept included.
    pub subflows_seen: u32,
    missed: u32,
}

#[derive(Debug, Default)]
pub struct Ledger {
    live: HashMap<u64, Connection>,
    listeners: BTreeMap<u64, SocketAddr>,
    /// Cookie of a subflow → cookie of its connection.
    owners: HashMap<u64, u64>,
    ended: Vec<Connection>,
    connections: u64,
    /// Connections beyond the bound.
    pub not_followed: u64,
}

impl Ledger {
    /// Takes a snapshot into account.
    pub fn observe(&mut self, snapshot: &Snapshot, activity: &mut Activity, now: Timestamp) {
        let mut seen = HashSet::new();
        let (mut by_inode, mut by_token) = (HashMap::new(), HashMap::new());
        for socket in &snapshot.mptcp {
            if socket.is_listening() {
                if activity.appeared(socket.cookie) && self.listeners.len() < MOST_LISTENERS {
                    self.listeners.insert(socket.cookie, socket.local);
                }
            } else if self.take(socket, activity, now) {
                seen.insert(socket.cookie);
                if socket.inode != 0 {
                    by_inode.insert(socket.inode, socket.cookie);
                }
                let token =
                    self.live.get(&socket.cookie).and_then(|one| one.mptcp.as_ref()).map(|info| info.token);
                token.filter(|token| *token != 0).map(|token| by_token.insert(token, socket.cookie));
            }
        }
        for socket in snapshot.tcp.iter().filter(|socket| !socket.is_listening()) {
            let known = self.owners.get(&socket.cookie).copied();
            let by_token = || by_token.get(&socket.subflow?.token).copied();
            let owner = known.or_else(by_token).or_else(|| by_inode.get(&socket.inode).copied());
            if let Some(owner) = owner {
                self.update(owner, socket, false);
            } else if !socket.is_subflow && self.accepts(socket.local) && self.is_new_plain(socket, now) {
                self.update(socket.cookie, socket, false);
            }
            seen.insert(socket.cookie);
        }
        self.end_missing(&seen);
    }

    /// Takes an MPTCP socket that is no listener into account; whether it is the program's.
    fn take(&mut self, socket: &Socket, activity: &mut Activity, now: Timestamp) -> bool {
        if !self.live.contains_key(&socket.cookie) {
            let role = if activity.is_awaited(socket.cookie) {
                Role::Connected
            } else if self.accepts(socket.local) {
                Role::Accepted
            } else {
                return false;
            };
            activity.appeared(socket.cookie);
            if !self.begin(socket, role, Protocol::Mptcp, now) {
                return false;
            }
        }
        let Some(connection) = self.live.get_mut(&socket.cookie) else { return false };
        let is_first = connection.mptcp.is_none();
        if let Some(figures) = mptcp_figures(&socket.info) {
            if figures.fallback && connection.protocol == Protocol::Mptcp {
                connection.protocol = Protocol::FellBack { at_first: is_first };
            }
            connection.mptcp = Some(figures);
        }
        connection.last_seen = now;
        true
    }

    /// Whether a socket with this address comes from a listening socket of the program.
    fn accepts(&self, local: SocketAddr) -> bool {
        self.listeners.values().any(|listener| {
            listener.port() == local.port() && (listener.ip().is_unspecified() || listener.ip() == local.ip())
        })
    }

    fn is_new_plain(&mut self, socket: &Socket, now: Timestamp) -> bool {
        self.live.contains_key(&socket.cookie) || self.begin(socket, Role::Accepted, Protocol::PlainTcp, now)
    }

    fn begin(&mut self, socket: &Socket, role: Role, protocol: Protocol, now: Timestamp) -> bool {
        if self.live.len() >= MOST_CONNECTIONS {
            self.not_followed += 1;
            return false;
        }
        self.connections += 1;
        let connection = Connection {
            number: self.connections,
            role,
            local: socket.local,
            remote: socket.remote,
            protocol,
            first_seen: now,
            last_seen: now,
            mptcp: None,
            subflows: Vec::new(),
            subflows_seen: 0,
            missed: 0,
        };
        self.live.insert(socket.cookie, connection);
        true
    }

    /// Takes the report of a destroyed TCP socket into account.
    pub fn destroyed(&mut self, socket: &Socket) {
        if let Some(owner) = self.owners.get(&socket.cookie).copied() {
            self.update(owner, socket, true);
        }
    }

    fn update(&mut self, owner: u64, socket: &Socket, is_final: bool) {
        let Some(connection) = self.live.get_mut(&owner) else { return };
        let number = connection.subflows_seen + 1;
        let Some(mut figures) = path_figures(&socket.info, number, socket.local, socket.remote) else {
            return;
        };
        if is_final {
            figures.state = PathState::Closed;
        }
        if let Some(known) = connection.subflows.iter_mut().find(|known| known.cookie == socket.cookie) {
            // The kernel reports some destroyed subflows with zeros.
            let is_zeroed = figures.bytes_sent < known.figures.bytes_sent
                || figures.bytes_received < known.figures.bytes_received;
            if is_zeroed {
                known.figures.state = figures.state;
                return;
            }
            // Addresses are zero in some reports as well.
            let (local, remote, subflow) = (known.figures.local, known.figures.remote, known.figures.subflow);
            known.figures = PathFigures { local, remote, subflow, ..figures };
            known.is_final |= is_final;
            return;
        }
        if connection.protocol == Protocol::PlainTcp {
            connection.last_seen = connection.last_seen.max(connection.first_seen);
        }
        connection.subflows_seen += 1;
        self.owners.insert(socket.cookie, owner);
        if connection.subflows.len() >= MOST_SUBFLOWS {
            let merged = connection.subflows.remove(1);
            self.owners.remove(&merged.cookie);
            if let Some(sum) =
                connection.subflows.iter_mut().find(|one| one.figures.local.ip() == merged.figures.local.ip())
            {
                sum.figures.add_closed(&merged.figures);
                sum.is_final &= merged.is_final;
            }
        }
        connection.subflows.push(SubflowRecord { cookie: socket.cookie, figures, is_final });
    }

    fn end_missing(&mut self, seen: &HashSet<u64>) {
        let mut gone = Vec::new();
        for (cookie, connection) in &mut self.live {
            connection.missed = if seen.contains(cookie) { 0 } else { connection.missed + 1 };
            if connection.missed >= MISSED_AT_END {
                gone.push(*cookie);
            }
        }
        for cookie in gone {
            self.end(cookie);
        }
    }

    fn end(&mut self, cookie: u64) {
        if let Some(connection) = self.live.remove(&cookie) {
            for subflow in &connection.subflows {
                self.owners.remove(&subflow.cookie);
            }
            self.ended.push(connection);
        }
    }

    /// Ends all connections: the program has ended.
    pub fn end_all(&mut self) {
        let cookies: Vec<u64> = self.live.keys().copied().collect();
        for cookie in cookies {
            self.end(cookie);
        }
    }

    /// The connections that have ended since the last call, in order of appearance.
    pub fn take_ended(&mut self) -> Vec<Connection> {
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by_key(|connection| connection.number);
        ended
    }

    /// The connections that are open, in order of appearance.
    pub fn live(&self) -> Vec<&Connection> {
        let mut live: Vec<&Connection> = self.live.values().collect();
        live.sort_by_key(|connection| connection.number);
        live
    }

    /// Whether there are connections, or sockets that may accept some.
    pub fn is_busy(&self) -> bool {
        !self.live.is_empty() || !self.listeners.is_empty()
    }

    /// Connections so far.
    pub const fn connections(&self) -> u64 {
        self.connections
    }
}
