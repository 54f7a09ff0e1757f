//! The connections of the program, from snapshots of the kernel's sockets and from reports of destroyed ones. Pure and
//! bounded.

use crate::activity::SocketActivity;
use pathbench_host::sockets::{Snapshot, Socket};
use pathbench_record::connection::MptcpFigures;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::stage::{SubflowEvidence, SubflowOpening, SubflowStage};
use pathbench_record::time::Timestamp;
use pathbench_transport::kernel_answers::{mptcp_figures, path_figures};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

/// `TCP_ESTABLISHED` of `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
/// `TCP_SYN_SENT`, `TCP_SYN_RECV`, `TCP_NEW_SYN_RECV`; `TCP_CLOSE` before connect(2) and after a failure.
const OPENING: [u8; 4] = [2, 3, 12, 7];
/// `TCP_CLOSE_WAIT`, `TCP_LAST_ACK`, `TCP_CLOSING`: the peer's FIN has arrived, and [`path_figures`] does not count it.
const WITH_FIN: [u8; 3] = [8, 9, 11];
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
pub enum ConnectionRole {
    Connected,
    Accepted,
}

/// The state of MPTCP on a connection, by the kernel's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportProtocol {
    Mptcp,
    /// No snapshot before showed MPTCP in force, or one did.
    FellBack {
        at_first: bool,
    },
    /// The kernel opened it without asking for MPTCP, although the socket is an MPTCP socket.
    NotAsked,
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
    /// The farthest stage that a snapshot or the report of its end shows.
    pub stage: SubflowStage,
    /// The peer's FIN had arrived at the last snapshot.
    has_fin: bool,
    /// Its interface has been looked up.
    is_looked_up: bool,
}

impl SubflowRecord {
    /// Whether the bytes of the report of its end may include the peer's FIN, which no snapshot showed.
    pub(crate) const fn may_have_fin(&self) -> bool {
        self.is_final && !self.has_fin && self.figures.bytes_received > 0
    }

    /// Takes newer figures; those of its end may be zeroed.
    fn take(&mut self, mut figures: PathFigures, tcp_state: u8, is_final: bool, is_zeroed: bool) {
        // A closed socket does not show whether its number of bytes includes the peer's FIN; an earlier state does.
        let is_with_fin = WITH_FIN.contains(&tcp_state);
        if self.has_fin && !is_with_fin {
            figures.bytes_received = figures.bytes_received.saturating_sub(1);
        }
        self.has_fin |= is_with_fin;
        let is_less = figures.bytes_sent < self.figures.bytes_sent
            || figures.bytes_received < self.figures.bytes_received;
        if is_zeroed || is_less {
            self.figures.state = figures.state;
            return;
        }
        // Addresses are zero in some reports as well.
        let (local, remote, subflow) = (self.figures.local, self.figures.remote, self.figures.subflow);
        let interface = self.figures.interface.take();
        self.figures = PathFigures { local, remote, subflow, interface, ..figures };
        self.is_final |= is_final;
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ObservedConnection {
    /// Order of appearance, from 1.
    pub number: u64,
    pub role: ConnectionRole,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub protocol: TransportProtocol,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    pub mptcp: Option<MptcpFigures>,
    /// `TCP_*` of `net/tcp_states.h` of the MPTCP socket at the last snapshot.
    pub mptcp_state: Option<u8>,
    pub subflows: Vec<SubflowRecord>,
    /// Subflows so far, attempted ones and those that are not kept included.
    pub subflows_seen: u32,
    /// Opened subflows that are not kept.
    opened_before: u32,
    /// Accepted: when no MPTCP socket listened at its local address any more.
    pub unheard_since: Option<Timestamp>,
    /// MPTCP was in force at an earlier snapshot.
    was_negotiated: bool,
    missed: u32,
}

impl ObservedConnection {
    /// Subflows whose handshake was completed.
    pub fn subflows_opened(&self) -> u32 {
        let opened = self.subflows.iter().filter(|subflow| subflow.stage.is_opened()).count();
        self.opened_before.saturating_add(opened as u32)
    }

    /// The stage of the connection as a whole: of the farthest subflow.
    pub fn stage(&self) -> Option<SubflowStage> {
        self.subflows.iter().map(|subflow| subflow.stage).max()
    }

    /// Adds the second subflow to another one of its address; its cookie.
    fn merge_second(&mut self) -> u64 {
        let merged = self.subflows.remove(1);
        self.opened_before += u32::from(merged.stage.is_opened());
        let is_same = |one: &&mut SubflowRecord| one.figures.local.ip() == merged.figures.local.ip();
        if let Some(sum) = self.subflows.iter_mut().find(is_same) {
            sum.figures.add_closed(&merged.figures);
            sum.is_final &= merged.is_final;
        }
        merged.cookie
    }

    /// Whether it is plain TCP, as far as the snapshots show.
    const fn is_fallen_back(&self) -> bool {
        !matches!(self.protocol, TransportProtocol::Mptcp)
    }

    fn stage_of(&self, socket: &Socket, figures: &PathFigures, is_first: bool) -> SubflowStage {
        let opening = if is_first { SubflowOpening::Initial } else { SubflowOpening::Join };
        let is_open = figures.state == PathState::Open;
        let is_agreed = match opening {
            _ if self.is_fallen_back() => Some(false),
            SubflowOpening::Initial => self.was_negotiated.then_some(true).filter(|_| is_open),
            SubflowOpening::Join => (is_open && socket.is_subflow).then_some(true),
        };
        let evidence = SubflowEvidence { is_agreed, ..SubflowEvidence::from_figures(figures, opening) };
        evidence.stage().unwrap_or(SubflowStage::Attempted)
    }
}

/// Subflows and TCP connections to the program's listening sockets that opened and closed between two snapshots, by the
/// kernel's reports of their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct UnseenAccepted {
    pub subflows: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

/// Whether it is a TCP connection in use. A subflow that closes has no subflow data any more.
fn is_plain(socket: &Socket) -> bool {
    !socket.is_subflow && socket.inode != 0 && socket.state == ESTABLISHED
}

/// Whether a listening socket accepts connections to this address.
fn covers(listener: SocketAddr, local: SocketAddr) -> bool {
    listener.port() == local.port() && (listener.ip().is_unspecified() || listener.ip() == local.ip())
}

/// The identity of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// Cookie of an MPTCP socket that was created for the program, or of an accepted TCP socket.
    Own(u64),
    /// An accepted MPTCP socket has the cookie of its listener, if that was read before (`mptcp_sk_clone_init`,
    /// net/mptcp/protocol.c; Linux 6.18): local and remote address tell it from others.
    Accepted(SocketAddr, SocketAddr),
}

#[derive(Debug, Default)]
pub struct ConnectionLedger {
    live: HashMap<Key, ObservedConnection>,
    listeners: BTreeMap<u64, SocketAddr>,
    /// Cookie of a subflow → its connection.
    owners: HashMap<u64, Key>,
    /// Cookies of the program's TCP sockets that the last snapshot had without their MPTCP socket.
    lone: HashSet<u64>,
    ended: Vec<ObservedConnection>,
    connections: u64,
    /// Connections beyond the bound.
    pub not_followed: u64,
    pub unseen_accepted: UnseenAccepted,
}

impl ConnectionLedger {
    /// Takes a snapshot into account.
    pub fn observe(&mut self, snapshot: &Snapshot, activity: &mut SocketActivity, now: Timestamp) {
        for socket in snapshot.mptcp.iter().filter(|socket| socket.is_listening()) {
            if activity.appeared(socket.cookie) && self.listeners.len() < MOST_LISTENERS {
                self.listeners.insert(socket.cookie, socket.local);
            }
        }
        let listening: Vec<SocketAddr> =
            snapshot.mptcp.iter().filter(|one| one.is_listening()).map(|one| one.local).collect();
        let (mut seen, mut lone) = (HashSet::new(), HashSet::new());
        let (mut by_inode, mut by_token) = (HashMap::new(), HashMap::new());
        for socket in snapshot.mptcp.iter().filter(|socket| !socket.is_listening()) {
            let Some((key, token)) = self.take(socket, activity, now) else { continue };
            seen.insert(key);
            by_inode.insert(socket.inode, key);
            by_token.insert(token, key);
        }
        // 0: not accepted yet or closed, and fallen back.
        by_inode.remove(&0);
        by_token.remove(&0);
        for socket in snapshot.tcp.iter().filter(|socket| !socket.is_listening()) {
            let known = self.owners.get(&socket.cookie).copied();
            let by_token = || by_token.get(&socket.subflow?.token).copied();
            let owner = known.or_else(by_token).or_else(|| by_inode.get(&socket.inode).copied());
            if let Some(owner) = owner.or_else(|| self.begin_plain(socket, activity, &mut lone, now)) {
                self.update(owner, socket, false);
                let is_listed_alone = |one: &ObservedConnection| {
                    matches!(one.protocol, TransportProtocol::PlainTcp | TransportProtocol::NotAsked)
                };
                if self.live.get(&owner).is_some_and(is_listed_alone) {
                    seen.insert(owner);
                }
            }
        }
        self.lone = lone;
        self.note_unheard(&listening, now);
        self.end_missing(&seen, now);
    }

    /// Begins a TCP connection without an MPTCP socket in the snapshot: accepted without MPTCP, or opened without it by the
    /// kernel, which lists no MPTCP socket without a token.
    fn begin_plain(
        &mut self,
        socket: &Socket,
        activity: &mut SocketActivity,
        lone: &mut HashSet<u64>,
        now: Timestamp,
    ) -> Option<Key> {
        let (key, role, protocol) = if is_plain(socket) && self.accepts(socket.local) {
            (Key::Own(socket.cookie), ConnectionRole::Accepted, TransportProtocol::PlainTcp)
        } else {
            let is_connection = socket.remote.port() != 0;
            let own = activity.awaited_by_inode(socket.inode).filter(|_| is_connection)?;
            // The MPTCP sockets were listed before: the first snapshot with the subflow of a new one may lack it.
            if !self.lone.contains(&socket.cookie) {
                lone.insert(socket.cookie);
                return None;
            }
            activity.appeared(own);
            (Key::Own(own), ConnectionRole::Connected, TransportProtocol::NotAsked)
        };
        self.begin(key, socket, role, protocol, now).then_some(key)
    }

    /// Notes when accepted connections lost their listening socket: the kernel passes a join to no other one.
    fn note_unheard(&mut self, listening: &[SocketAddr], now: Timestamp) {
        let accepted = self.live.values_mut().filter(|one| one.role == ConnectionRole::Accepted);
        for connection in accepted {
            if listening.iter().any(|listener| covers(*listener, connection.local)) {
                connection.unheard_since = None;
            } else {
                connection.unheard_since.get_or_insert(now);
            }
        }
    }

    /// Takes an MPTCP socket that is no listener into account; its key and token if it is the program's.
    fn take(&mut self, socket: &Socket, activity: &mut SocketActivity, now: Timestamp) -> Option<(Key, u32)> {
        let figures = mptcp_figures(&socket.info);
        let token = figures.as_ref().map_or(0, |figures| figures.token);
        let is_accepted = self.listeners.contains_key(&socket.cookie) || self.is_accepted(socket, activity);
        let (key, role) = if is_accepted {
            (Key::Accepted(socket.local, socket.remote), ConnectionRole::Accepted)
        } else {
            (Key::Own(socket.cookie), ConnectionRole::Connected)
        };
        // Another connection between the same ports.
        let is_other = |known: &ObservedConnection| {
            let known = known.mptcp.as_ref().map_or(0, |known| known.token);
            known != 0 && token != 0 && known != token
        };
        if self.live.get(&key).is_some_and(is_other) {
            self.end(key);
        }
        if !self.live.contains_key(&key) {
            let is_own = is_accepted || activity.appeared(socket.cookie);
            if !is_own || !self.begin(key, socket, role, TransportProtocol::Mptcp, now) {
                return None;
            }
        }
        let connection = self.live.get_mut(&key)?;
        // A socket that is about to connect has no addresses yet.
        if connection.remote.port() == 0 {
            (connection.local, connection.remote) = (socket.local, socket.remote);
        }
        connection.mptcp_state = Some(socket.state);
        if let Some(figures) = figures {
            if figures.fallback {
                if matches!(connection.protocol, TransportProtocol::Mptcp | TransportProtocol::NotAsked) {
                    connection.protocol =
                        TransportProtocol::FellBack { at_first: !connection.was_negotiated };
                }
            } else if !OPENING.contains(&socket.state) {
                connection.protocol = TransportProtocol::Mptcp;
                connection.was_negotiated = true;
            }
            connection.mptcp = Some(figures);
        }
        Some((key, token))
    }

    /// Whether a socket that was not created for the program comes from one of its listening sockets.
    fn is_accepted(&self, socket: &Socket, activity: &SocketActivity) -> bool {
        let is_own = self.live.contains_key(&Key::Own(socket.cookie)) || activity.is_awaited(socket.cookie);
        !is_own && self.accepts(socket.local)
    }

    /// Whether a socket with this address comes from a listening socket of the program.
    fn accepts(&self, local: SocketAddr) -> bool {
        self.listeners.values().any(|listener| covers(*listener, local))
    }

    fn begin(
        &mut self,
        key: Key,
        socket: &Socket,
        role: ConnectionRole,
        protocol: TransportProtocol,
        now: Timestamp,
    ) -> bool {
        if self.live.len() >= MOST_CONNECTIONS {
            self.not_followed += 1;
            return false;
        }
        self.connections += 1;
        let connection = ObservedConnection {
            number: self.connections,
            role,
            local: socket.local,
            remote: socket.remote,
            protocol,
            first_seen: now,
            last_seen: now,
            mptcp: None,
            mptcp_state: None,
            subflows: Vec::new(),
            subflows_seen: 0,
            opened_before: 0,
            unheard_since: None,
            was_negotiated: false,
            missed: 0,
        };
        self.live.insert(key, connection);
        true
    }

    /// Takes the report of a destroyed TCP socket into account.
    pub fn destroyed(&mut self, socket: &Socket) {
        if let Some(owner) = self.owners.get(&socket.cookie).copied() {
            self.update(owner, socket, true);
        } else if socket.remote.port() != 0
            && self.accepts(socket.local)
            && let Some(figures) = path_figures(&socket.info, 0, socket.local, socket.remote)
        {
            self.unseen_accepted.subflows += 1;
            self.unseen_accepted.bytes_sent += figures.new_bytes_sent();
            self.unseen_accepted.bytes_received += figures.bytes_received;
        }
    }

    fn update(&mut self, owner: Key, socket: &Socket, is_final: bool) {
        let Some(connection) = self.live.get_mut(&owner) else { return };
        let number = connection.subflows_seen + 1;
        let Some(mut figures) = path_figures(&socket.info, number, socket.local, socket.remote) else {
            return;
        };
        if is_final {
            figures.state = PathState::Closed;
        }
        // The kernel reports some destroyed subflows with zeros.
        let is_empty = figures.bytes_sent == 0 && figures.bytes_received == 0;
        let is_zeroed = is_final && is_empty && figures.packets_sent == Some(0);
        let is_first = connection.subflows.first().is_none_or(|first| first.cookie == socket.cookie);
        let stage = connection.stage_of(socket, &figures, is_first);
        if let Some(known) = connection.subflows.iter_mut().find(|known| known.cookie == socket.cookie) {
            if !is_zeroed {
                known.stage = known.stage.max(stage);
            }
            known.take(figures, socket.state, is_final, is_zeroed);
            return;
        }
        connection.subflows_seen += 1;
        if connection.remote.port() == 0 {
            (connection.local, connection.remote) = (socket.local, socket.remote);
        }
        self.owners.insert(socket.cookie, owner);
        if connection.subflows.len() >= MOST_SUBFLOWS {
            let merged = connection.merge_second();
            self.owners.remove(&merged);
        }
        connection.subflows.push(SubflowRecord {
            cookie: socket.cookie,
            figures,
            is_final: is_final && !is_zeroed,
            stage,
            has_fin: WITH_FIN.contains(&socket.state),
            is_looked_up: false,
        });
    }

    /// Names the interface by which each subflow's packets leave; `look_up` is asked once per subflow, with its local and
    /// remote address.
    pub fn name_interfaces(&mut self, mut look_up: impl FnMut(SocketAddr, SocketAddr) -> Option<String>) {
        let subflows = self.live.values_mut().flat_map(|connection| &mut connection.subflows);
        let is_fresh = |one: &&mut SubflowRecord| !one.is_looked_up && one.figures.state != PathState::Closed;
        for subflow in subflows.filter(is_fresh) {
            subflow.is_looked_up = true;
            subflow.figures.interface = look_up(subflow.figures.local, subflow.figures.remote);
        }
    }

    fn end_missing(&mut self, seen: &HashSet<Key>, now: Timestamp) {
        let mut gone = Vec::new();
        for (key, connection) in &mut self.live {
            if seen.contains(key) {
                (connection.missed, connection.last_seen) = (0, now);
            } else {
                connection.missed += 1;
            }
            if connection.missed >= MISSED_AT_END {
                gone.push(*key);
            }
        }
        for key in gone {
            self.end(key);
        }
    }

    fn end(&mut self, key: Key) {
        if let Some(connection) = self.live.remove(&key) {
            for subflow in &connection.subflows {
                self.owners.remove(&subflow.cookie);
            }
            self.ended.push(connection);
        }
    }

    pub fn end_all(&mut self) {
        self.owners.clear();
        self.ended.extend(self.live.drain().map(|(_, connection)| connection));
    }

    /// The connections that have ended since the last call, in order of appearance.
    pub fn take_ended(&mut self) -> Vec<ObservedConnection> {
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by_key(|connection| connection.number);
        ended
    }

    /// The connections that are open, in order of appearance.
    pub fn live(&self) -> Vec<&ObservedConnection> {
        let mut live: Vec<&ObservedConnection> = self.live.values().collect();
        live.sort_by_key(|connection| connection.number);
        live
    }

    /// Whether connections are open.
    pub fn is_busy(&self) -> bool {
        !self.live.is_empty()
    }

    pub fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }
}
