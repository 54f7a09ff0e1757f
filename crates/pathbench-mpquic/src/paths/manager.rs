//! The states of all paths of a connection, the library's events about them, and heartbeats.

use super::pulse::{GIVE_UP_AFTER, HeartbeatOptions, Pulse};
use super::state::PathState;
use super::wanted::{REOPEN_TIMEOUT, Wanted};
use crate::closed_paths::ClosedPaths;
use crate::driver::{Driver, InterfaceChange, LocalSocket, SocketId, Start, Turn};
use crate::library::scheduler::Board;
use crate::library::stream_meter::StreamMeter;
use crate::options::QuicOptions;
use crate::path_event::PathLog;
use noq_proto::{Connection, PathAbandonReason, PathEvent, PathId, PathStatus};
use pathbench_record::connection::PathEventKind;
use pathbench_record::network::canonical;
use pathbench_record::sample::PathState as Stage;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Least interval between two readings of the library's counters.
const OBSERVATION_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Paths {
    /// The library's paths, and the last paths that the library has discarded.
    pub(super) known: BTreeMap<PathId, PathState>,
    pub(super) closed: ClosedPaths,
    /// The configured paths of a client. Empty at a server.
    pub(super) wanted: Vec<Wanted>,
    /// The index of the configured path that carries the handshake.
    pub(super) first_wanted: usize,
    /// Whether this module opens and closes paths and sets their roles. `false` at a client without configured paths,
    /// and without multipath: the library handles those paths.
    pub(super) managed: bool,
    pub(super) heartbeat: HeartbeatOptions,
    pub(super) observed_at: Option<Timestamp>,
    pub(super) decided_at: Timestamp,
    /// The `backup` scheduler uses the backup paths.
    pub(super) troubled: bool,
    /// Why the connection must end: the peer has opened more paths than the limits allow.
    pub(super) excess: Option<&'static str>,
    /// The server's only socket, or the client's first open one.
    pub(super) first_socket: LocalSocket,
    pub(super) remote: SocketAddr,
    pub(super) meter: StreamMeter,
}

pub(crate) struct PathContext<'a> {
    pub(crate) inner: &'a mut Connection,
    pub(crate) board: &'a Board,
    pub(crate) log: &'a mut PathLog,
    pub(crate) driver: &'a mut dyn Driver,
    pub(crate) instant: Instant,
    pub(crate) now: Timestamp,
    pub(crate) turn: Turn,
    pub(crate) is_trusted: bool,
}

impl Paths {
    pub(crate) fn new(quic: &QuicOptions, is_client: bool, start: &Start, meter: StreamMeter) -> Self {
        let wanted: &[_] = if is_client { &quic.paths } else { &[] };
        Self {
            known: BTreeMap::new(),
            closed: ClosedPaths::default(),
            wanted: Wanted::all(wanted, &quic.scheduler, &start.interfaces),
            first_wanted: start.first_path,
            managed: !is_client || !wanted.is_empty(),
            heartbeat: HeartbeatOptions { interval: quic.heartbeat, suspend_after: quic.silence },
            observed_at: None,
            decided_at: Timestamp::default(),
            troubled: false,
            excess: None,
            first_socket: start.socket,
            remote: start.remote,
            meter,
        }
    }

    /// The socket that sends packets from `source`: the latest one with that address, or else the first socket.
    pub(crate) fn socket_from(&self, source: Option<IpAddr>) -> SocketId {
        let detour = |path: &PathState| path.detour.filter(|detour| Some(detour.from) == source);
        if let Some(detour) = self.known.values().find_map(detour) {
            return detour.by;
        }
        let mut sockets = self.known.values().rev().filter_map(|path| path.socket);
        sockets.find(|socket| Some(socket.address.ip()) == source).unwrap_or(self.first_socket).id
    }

    pub(crate) fn first_socket(&self) -> LocalSocket {
        self.first_socket
    }

    /// Why the connection must be closed, when the peer has opened too many paths.
    pub(crate) fn excess(&self) -> Option<&'static str> {
        self.excess
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (PathId, &PathState)> {
        self.known.iter().filter(|(_, path)| path.is_open()).map(|(id, path)| (*id, path))
    }

    pub(super) fn ids(&self) -> Vec<PathId> {
        self.known.keys().copied().collect()
    }

    /// The present path of a configured one.
    pub(super) fn path_of(&mut self, wanted: usize) -> Option<&mut PathState> {
        self.known.values_mut().find(|path| path.wanted == Some(wanted) && path.stage != Stage::Closed)
    }

    /// Whether heartbeats are sent. They compare paths, so they need two open ones.
    pub(super) fn watches(&self) -> bool {
        self.open().nth(1).is_some()
    }

    /// When [`Paths::tend`] is due.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        let beats = self.open().map(|(_, path)| path.pulse.ping_at(&self.heartbeat)).min();
        let observable = self.observed_at.map_or(Timestamp::default(), |at| at + OBSERVATION_INTERVAL);
        let beat = beats.filter(|_| self.watches()).map(|at| at.max(observable));
        let detour = self.known.values().filter_map(|path| Some(path.detour?.ends_at)).min();
        [beat, detour, self.next_decision()].into_iter().flatten().min()
    }

    fn next_decision(&self) -> Option<Timestamp> {
        let idle = |(index, wanted): (usize, &Wanted)| {
            let source = wanted.source(self.remote.is_ipv6()).filter(|_| self.is_idle(index));
            source.map(|_| wanted.retry_at)
        };
        let ends = |path: &PathState| {
            let wanted = self.wanted.get(path.wanted?)?;
            wanted.opening_ends_at(path).filter(|end| *end > self.decided_at)
        };
        let idle = self.wanted.iter().enumerate().filter_map(idle);
        idle.chain(self.known.values().filter_map(ends)).min().filter(|_| self.managed)
    }

    pub(super) fn is_idle(&self, wanted: usize) -> bool {
        !self.known.values().any(|path| path.wanted == Some(wanted) && path.stage != Stage::Closed)
    }

    /// Does all due work. The driver calls this after all received packets were processed.
    pub(crate) fn tend(&mut self, context: &mut PathContext<'_>) {
        let now = context.now;
        self.end_detours(context);
        let mut changed = false;
        if self.observed_at.is_none_or(|at| now >= at + OBSERVATION_INTERVAL) {
            self.observe(context);
            changed = self.watches() && self.beat(context);
        }
        let troubled = context.board.trouble().is_some();
        changed |= std::mem::replace(&mut self.troubled, troubled) != troubled;
        if changed || self.next_decision().is_some_and(|due| due <= now) {
            self.decide(context);
        }
    }

    /// Reads the library's counters of all paths.
    fn observe(&mut self, context: &mut PathContext<'_>) {
        let now = context.now;
        let before = self.observed_at.replace(now);
        for id in context.inner.paths() {
            self.note(id, context);
            self.note_stray(id, context.inner);
            let Some(stats) = context.inner.path_stats(id) else { continue };
            let Some(path) = self.known.get_mut(&id) else { continue };
            path.activity = path.activity.update(&self.meter.stream_bytes(id), now);
            let seen = context.board.observation(id).unwrap_or_default();
            path.pulse.observe(stats.udp_rx.datagrams, stats.udp_tx.datagrams, seen.sent_bytes, now);
            path.pulse.rttvar = seen.rttvar;
            path.pulse.probe_after = context.board.probe_after(id);
            let black_holes = std::mem::replace(&mut path.black_holes, stats.black_holes_detected);
            if stats.black_holes_detected > black_holes {
                self.record(id, PathEventKind::MtuBlackHole, context);
            }
        }
        // Time in which this end was not running does not count as silence: its packets may not have been read yet.
        let absence =
            before.map(|before| now.duration_since(before).saturating_sub(self.heartbeat.interval * 2));
        if let Some(late) = absence.filter(|late| !late.is_zero()) {
            for path in self.known.values_mut() {
                path.pulse.heard_at = now.min(path.pulse.heard_at + late);
            }
        }
    }

    /// Judges the open paths and sends due PINGs; whether a verdict has changed.
    ///
    /// A path that delivers in one direction only is silent at the peer, which asks for no data on it. Without a close by
    /// this end, the data in flight would wait until the library discards the path after the peer's close.
    fn beat(&mut self, context: &mut PathContext<'_>) -> bool {
        let now = context.now;
        let heard: Vec<(PathId, Timestamp)> =
            self.open().map(|(id, path)| (id, path.pulse.heard_at)).collect();
        let mut changed = false;
        for (id, _) in &heard {
            let elsewhere = heard.iter().filter(|(other, _)| other != id).map(|(_, at)| *at).max();
            let Some(path) = self.known.get_mut(id) else { continue };
            let was_silent = path.is_silent();
            let before = path.pulse.verdict;
            path.pulse.judge(elsewhere, &self.heartbeat, now);
            changed |= path.pulse.verdict != before;
            let waiting = || Some(context.board.observation_at(*id, context.instant)?.waiting);
            let unheard = path.avoided_since.is_some_and(|since| now.duration_since(since) >= GIVE_UP_AFTER)
                && waiting().is_some_and(|waiting| waiting >= self.heartbeat.suspend_after);
            changed |= std::mem::replace(&mut path.unheard, unheard) != unheard;
            let is_silent = path.is_silent();
            if path.pulse.takes_ping(&self.heartbeat, now) {
                ping(*id, context);
            }
            if is_silent != was_silent {
                let kind = if is_silent { PathEventKind::PathSuspended } else { PathEventKind::PathResumed };
                self.record(*id, kind, context);
            }
        }
        changed
    }

    /// The handshake is complete: its path is established, and further paths can be opened.
    pub(crate) fn on_connected(&mut self, context: &mut PathContext<'_>) {
        self.managed &= context.inner.is_multipath_negotiated();
        self.on_established(PathId::ZERO, context);
    }

    fn on_established(&mut self, id: PathId, context: &mut PathContext<'_>) {
        self.note(id, context);
        if let Some(path) = self.known.get_mut(&id) {
            (path.stage, path.since, path.pulse) = (Stage::Open, context.now, Pulse::new(context.now));
        }
        self.note(id, context);
        for path in self.known.values_mut() {
            path.refused = false;
        }
        self.record(id, PathEventKind::PathEstablished, context);
        self.decide(context);
    }

    pub(crate) fn on_interface_change(&mut self, change: &InterfaceChange, context: &mut PathContext<'_>) {
        if !self.managed {
            return;
        }
        let (mut lost, mut gained) = (false, false);
        for index in 0..self.wanted.len() {
            let Some(wanted) = self.wanted.get_mut(index) else { continue };
            if wanted.path.interface != change.interface.name {
                continue;
            }
            let comes_up = change.interface.up && !wanted.interface.up;
            (lost, gained) = wanted.change(&change.interface, context.now);
            let path = self.path_of(index).filter(|path| comes_up && path.stage == Stage::Opening);
            if let Some(path) = path {
                (path.since, path.patience) = (context.now, REOPEN_TIMEOUT);
            }
        }
        let change = || change.description.clone();
        if lost {
            context.log.record(context.now, None, None, PathEventKind::InterfaceGone { change: change() });
        }
        if gained {
            context.log.record(context.now, None, None, PathEventKind::InterfaceBack { change: change() });
        }
        self.decide(context);
        if gained {
            // A PING makes both ends detect losses before the change at once, not at the next timeout.
            for path in context.inner.paths() {
                ping(path, context);
            }
        }
    }

    pub(crate) fn on_path_event(&mut self, event: &PathEvent, context: &mut PathContext<'_>) {
        match event {
            PathEvent::Established { id, .. } => {
                self.check_number(*id, context);
                self.on_established(*id, context);
            }
            PathEvent::Abandoned { id, reason, .. } => {
                self.check_number(*id, context);
                self.note(*id, context);
                self.end(*id, context.now);
                self.record(*id, PathEventKind::PathAbandoned { reason: in_words(reason) }, context);
                self.decide(context);
            }
            PathEvent::Discarded { id, path_stats, .. } => {
                self.end(*id, context.now);
                if let Some(path) = self.known.get_mut(id) {
                    path.last = Some(path_stats.clone());
                }
                self.record(*id, PathEventKind::PathClosed, context);
                self.close_socket(*id, context);
                self.sum_up(context);
            }
            PathEvent::RemoteStatus { id, status, .. } => {
                // The library reports the status of unknown path ids, too, and peers repeat an unchanged status.
                let backup = *status == PathStatus::Backup;
                self.note(*id, context);
                let path = self.known.get_mut(id).filter(|path| path.stage != Stage::Closed);
                if let Some(path) = path.filter(|path| path.peer_backup != backup) {
                    (path.peer_backup, path.peer_asks) = (backup, backup);
                    self.record(*id, PathEventKind::PathStatus { backup, by_peer: true }, context);
                    self.decide(context);
                }
            }
            _ => {}
        }
    }

    /// Adds a path of the library to the known ones, or updates its addresses.
    fn note(&mut self, id: PathId, context: &PathContext<'_>) {
        let known = self.known.get(&id);
        if known.is_some_and(|path| path.named || path.stage == Stage::Closed) {
            return;
        }
        let Ok(route) = context.inner.network_path(id) else { return };
        let socket = known.and_then(|path| path.socket).unwrap_or(self.first_socket);
        let local = SocketAddr::new(route.local_ip().unwrap_or(socket.address.ip()), socket.address.port());
        let (local, remote) = (canonical(local), canonical(route.remote()));
        let is_first = id == PathId::ZERO && !self.wanted.is_empty();
        let (socket, wanted) = (self.first_socket, self.first_wanted);
        let path = self.known.entry(id).or_insert_with(|| PathState {
            socket: is_first.then_some(socket),
            wanted: is_first.then_some(wanted),
            ..PathState::new(local, remote, context.now)
        });
        (path.local, path.remote) = (local, remote);
        path.named = path.is_open() && route.local_ip().is_some() && context.inner.is_multipath_negotiated();
    }

    /// The path is abandoned.
    fn end(&mut self, id: PathId, now: Timestamp) {
        let path = self.known.get_mut(&id).filter(|path| path.stage != Stage::Closed);
        let Some(path) = path else { return };
        let established = path.is_open().then_some(path.since);
        (path.stage, path.detour) = (Stage::Closed, None);
        if let Some(wanted) = path.wanted.and_then(|index| self.wanted.get_mut(index)) {
            wanted.put_off(established, now);
        }
    }

    /// Closes the socket of a path that noq has discarded, unless it is the last socket.
    fn close_socket(&mut self, id: PathId, context: &mut PathContext<'_>) {
        let socket = self.known.get_mut(&id).and_then(|path| path.socket.take());
        let other = self.known.values().find_map(|path| path.socket);
        if let (Some(socket), Some(other)) = (socket, other) {
            if socket == self.first_socket {
                self.first_socket = other;
            }
            context.driver.close_socket(socket.id);
        }
    }

    pub(crate) fn record(&self, id: PathId, kind: PathEventKind, context: &mut PathContext<'_>) {
        let route = self.known.get(&id).map(|path| (id, path.local.ip(), path.remote));
        context.log.record(context.now, route, None, kind);
    }
}

pub(super) fn ping(path: PathId, context: &mut PathContext<'_>) {
    context.board.allow_ping(path);
    // Fails only when the path has been closed meanwhile.
    let _ = context.inner.ping_path(path);
}

fn in_words(reason: &PathAbandonReason) -> String {
    match reason {
        PathAbandonReason::ApplicationClosed { .. } => "given up at this end".to_owned(),
        PathAbandonReason::RemoteAbandoned { error_code } => {
            format!("given up by the peer (code {error_code})")
        }
        PathAbandonReason::TimedOut => "nothing was heard on it".to_owned(),
        other => format!("{other:?}"),
    }
}
