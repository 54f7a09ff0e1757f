//! The paths of a connection: what was decided about them is done to the library, and what becomes of them is told
//! to those who decide.

#[cfg(test)]
mod churn;
mod detour;
mod known;
mod stray;

use self::detour::Detour;
pub(crate) use self::known::{FIRST_PATHS_BYTES, PATHS_BYTES};
use self::stray::{Carried, Stray};
use super::heartbeat::{Beat, HeartbeatOptions, Heartbeats};
use super::link_watch::NoticedChange;
use super::options::{LocalPath, QuicOptions};
use super::path_event::PathLog;
use super::path_manager::{CloseReason, PathAction, PathInput, PathManager, PathManagerOptions};
use super::peer_paths::{KeptOff, PeerPaths};
use super::scheduler::Board;
use super::socket::{PathSocket, Way};
use super::stream_meter::StreamMeter;
use crate::closed_paths::ClosedPaths;
use crate::options::SocketOptions;
use noq_proto::{Connection, FourTuple, PathAbandonReason, PathError, PathId, PathStats, PathStatus, VarInt};
use pathbench_record::connection::PathEventKind;
use pathbench_record::sample::PathState;
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The peer's connection ids for further paths arrive a moment after the handshake.
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// While a path is not answered on, the library asks again every two seconds at the latest. To begin another one
/// instead would use up path ids: a server does not replace those of paths that it never heard of.
const OPEN_TIMEOUT: Duration = Duration::from_secs(600);

/// What is remembered of a path when the library forgets it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownPath {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) state: PathState,
    pub(crate) backup: bool,
    /// Its ends are known, and stay what they are.
    named: bool,
    last: Option<PathStats>,
    black_holes: u64,
    /// Its packets take the way of another path.
    stray: Option<Stray>,
    /// What took its route from paths that are no longer kept.
    carried: Carried,
}

/// Who decides.
#[derive(Debug)]
enum Decider {
    /// A single path, or a client that was not given any: the library alone.
    Nobody,
    Client {
        manager: PathManager,
        wanted: Vec<LocalPath>,
        /// The wanted path that the handshake took.
        first: usize,
        socket: SocketOptions,
    },
    Server(PeerPaths),
}

/// The paths of a connection.
#[derive(Debug)]
pub(crate) struct Paths {
    decider: Decider,
    heartbeats: Heartbeats,
    /// The paths that the library knows, and the last ones that it has forgotten.
    known: BTreeMap<PathId, KnownPath>,
    /// Those before.
    closed: ClosedPaths,
    /// Why the connection must end: the peer opens more paths than any honest one does.
    excess: Option<&'static str>,
    /// Where each path leaves, in the order in which they were opened. The first is the server's only one.
    sockets: Vec<(PathId, Arc<PathSocket>)>,
    sockets_changed: bool,
    /// Paths that are about to be closed, and the way their packets take until then.
    detours: Vec<Detour>,
    /// What only the driver may do: sockets belong to the network namespace of the thread that opens them.
    for_the_driver: Vec<PathAction>,
    troubled: bool,
    kept_off: KeptOff,
    remote: SocketAddr,
    meter: StreamMeter,
}

/// What is acted upon.
pub(crate) struct Surroundings<'a> {
    pub(crate) inner: &'a mut Connection,
    pub(crate) board: &'a Board,
    pub(crate) log: &'a mut PathLog,
    pub(crate) instant: Instant,
    pub(crate) now: Timestamp,
    /// It is the driver's thread that acts.
    pub(crate) by_driver: bool,
    /// The connection may hold as much as a test takes.
    pub(crate) is_trusted: bool,
}

impl Paths {
    /// A client's: `wanted` may be empty; `first` is the one of them that the handshake takes, by `socket`.
    pub(crate) fn of_client(
        quic: &QuicOptions,
        options: &SocketOptions,
        first: usize,
        socket: Arc<PathSocket>,
        remote: SocketAddr,
        meter: StreamMeter,
    ) -> Self {
        let decider = if quic.paths.is_empty() {
            Decider::Nobody
        } else {
            let times = PathManagerOptions {
                first_retry: FIRST_RETRY,
                open_timeout: OPEN_TIMEOUT,
                ..PathManagerOptions::default()
            };
            let manager = PathManager::new(&quic.paths, &quic.scheduler, remote.is_ipv6(), times);
            Decider::Client { manager, wanted: quic.paths.clone(), first, socket: options.clone() }
        };
        Self::new(decider, quic, socket, remote, meter)
    }

    /// A server's.
    pub(crate) fn of_server(
        quic: &QuicOptions,
        socket: Arc<PathSocket>,
        remote: SocketAddr,
        meter: StreamMeter,
    ) -> Self {
        Self::new(Decider::Server(PeerPaths::default()), quic, socket, remote, meter)
    }

    fn new(
        decider: Decider,
        quic: &QuicOptions,
        socket: Arc<PathSocket>,
        remote: SocketAddr,
        meter: StreamMeter,
    ) -> Self {
        let beats = HeartbeatOptions {
            interval: quic.heartbeat,
            suspend_after: quic.silence,
            ..HeartbeatOptions::default()
        };
        Self {
            decider,
            heartbeats: Heartbeats::new(beats),
            known: BTreeMap::new(),
            closed: ClosedPaths::default(),
            excess: None,
            sockets: vec![(PathId::ZERO, socket)],
            sockets_changed: false,
            detours: Vec::new(),
            for_the_driver: Vec::new(),
            troubled: false,
            kept_off: KeptOff::default(),
            remote,
            meter,
        }
    }

    /// The socket that packets from `source` leave by: the latest of that address, or the first one there is.
    pub(crate) fn socket_from(&self, source: Option<IpAddr>) -> Option<&Arc<PathSocket>> {
        if let Some(detour) = self.detours.iter().find(|detour| Some(detour.from) == source) {
            return Some(&detour.by);
        }
        let mut sockets = self.sockets.iter().map(|(_, socket)| socket);
        let of_source = |source| sockets.clone().rev().find(|socket| socket.local_addr().ip() == source);
        source.and_then(of_source).or_else(|| sockets.next())
    }

    /// The sockets in use, when they are others than at the last call.
    pub(crate) fn take_changed_sockets(&mut self) -> Option<Vec<Arc<PathSocket>>> {
        std::mem::take(&mut self.sockets_changed)
            .then(|| self.sockets.iter().map(|(_, socket)| Arc::clone(socket)).collect())
    }

    /// When [`Paths::tend`] is due.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        if !self.for_the_driver.is_empty() {
            return Some(Timestamp::default());
        }
        let manager = match &self.decider {
            Decider::Client { manager, .. } => manager.next_timeout(),
            Decider::Nobody | Decider::Server(_) => None,
        };
        let beat = if self.watches() { self.heartbeats.next_timeout() } else { None };
        let detour = self.detours.iter().map(|detour| detour.ends_at).min();
        [manager, beat, detour].into_iter().flatten().min()
    }

    /// Heartbeats tell one path from another; of one path alone they tell nothing.
    fn watches(&self) -> bool {
        self.known.values().filter(|path| path.state == PathState::Open).count() > 1
    }

    /// Does what is due. To be called by the driver, after everything that has arrived was taken in.
    pub(crate) fn tend(&mut self, around: &mut Surroundings<'_>) {
        let actions = std::mem::take(&mut self.for_the_driver);
        self.act(actions, around);
        self.end_detours(around);
        if self.watches() && self.heartbeats.next_timeout().is_some_and(|due| due <= around.now) {
            self.beat(around);
        }
        let troubled = around.board.trouble().is_some();
        if std::mem::replace(&mut self.troubled, troubled) != troubled {
            self.decide(PathInput::BackupNeeded(troubled), around);
        }
        if let Decider::Client { manager, .. } = &mut self.decider
            && manager.next_timeout().is_some_and(|due| due <= around.now)
        {
            let actions = manager.poll(around.now);
            self.act(actions, around);
        }
    }

    fn beat(&mut self, around: &mut Surroundings<'_>) {
        self.note_strays(around.inner);
        for path in around.inner.paths() {
            let Some(stats) = around.inner.path_stats(path) else { continue };
            self.note_black_holes(path, &stats, around.log, around.now);
            let rttvar = around.board.observation(path).map(|seen| seen.rttvar).unwrap_or_default();
            let (received, sent) = (stats.udp_rx.datagrams, stats.udp_tx.datagrams);
            self.heartbeats.observe(path, received, sent, rttvar, around.now);
            self.heartbeats.expect_probe(path, around.board.probe_after(path));
        }
        for beat in self.heartbeats.tick(around.now) {
            match beat {
                Beat::Ping(path) => {
                    around.board.allow_ping(path);
                    // Fails only when the path was closed in between.
                    let _ = around.inner.ping_path(path);
                }
                Beat::Silent(path) => {
                    self.record(path, PathEventKind::PathSuspended, around);
                    self.decide(PathInput::Silent { path }, around);
                }
                Beat::Heard(path) => {
                    self.record(path, PathEventKind::PathResumed, around);
                    self.decide(PathInput::Heard { path }, around);
                }
                Beat::Dead(path) => self.decide(PathInput::Dead { path }, around),
            }
        }
    }

    /// The handshake is complete: its path is there, and further ones can be opened.
    pub(crate) fn on_connected(&mut self, interfaces: Vec<PathInput>, around: &mut Surroundings<'_>) {
        around.board.set_open(PathId::ZERO, true);
        self.note(PathId::ZERO, PathState::Open, around.inner);
        self.record(PathId::ZERO, PathEventKind::PathEstablished, around);
        if !around.inner.is_multipath_negotiated() {
            self.decider = Decider::Nobody;
            return;
        }
        self.heartbeats.add(PathId::ZERO, around.now);
        match &self.decider {
            Decider::Nobody => {}
            Decider::Server(_) => self.decide(PathInput::Established { path: PathId::ZERO }, around),
            Decider::Client { .. } => {
                for input in interfaces {
                    self.decide(input, around);
                }
            }
        }
    }

    /// The interfaces that the wanted paths are on, the one of the handshake first.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let Decider::Client { wanted, first, .. } = &self.decider else { return Vec::new() };
        let mut names: Vec<String> = wanted.iter().map(|path| path.interface.clone()).collect();
        if *first < names.len() {
            names.swap(0, *first);
        }
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// Something changed on this host.
    pub(crate) fn on_link_change(&mut self, change: NoticedChange, around: &mut Surroundings<'_>) {
        let interfaces = self.interfaces();
        let (interface, gone) = match &change.input {
            PathInput::LinkUp { interface } | PathInput::AddressAdded { interface, .. } => (interface, false),
            PathInput::LinkDown { interface } | PathInput::AddressRemoved { interface, .. } => {
                (interface, true)
            }
            _ => return,
        };
        if !interfaces.contains(interface) {
            return;
        }
        let change_in_words = change.words;
        let kind = if gone {
            PathEventKind::InterfaceGone { change: change_in_words }
        } else {
            PathEventKind::InterfaceBack { change: change_in_words }
        };
        around.log.record(around.now, None, None, kind);
        self.decide(change.input, around);
        if !gone {
            // What was lost on the last path while it was away is asked for at once, not at the next timeout.
            for path in around.inner.paths() {
                around.board.allow_ping(path);
                let _ = around.inner.ping_path(path);
            }
        }
    }

    /// Something became of a path.
    pub(crate) fn on_path_event(&mut self, event: &noq_proto::PathEvent, around: &mut Surroundings<'_>) {
        around.board.on_path_event(event);
        match event {
            noq_proto::PathEvent::Established { id, .. } => {
                self.check_number(*id, around);
                self.note(*id, PathState::Open, around.inner);
                self.heartbeats.add(*id, around.now);
                self.record(*id, PathEventKind::PathEstablished, around);
                self.decide(PathInput::Established { path: *id }, around);
            }
            noq_proto::PathEvent::Abandoned { id, reason, .. } => {
                self.check_number(*id, around);
                self.note(*id, PathState::Closed, around.inner);
                self.heartbeats.remove(*id);
                self.detours.retain(|detour| detour.path != *id);
                let reason = in_words(reason);
                self.record(*id, PathEventKind::PathAbandoned { reason }, around);
                self.decide(PathInput::Abandoned { path: *id }, around);
            }
            noq_proto::PathEvent::Discarded { id, path_stats, .. } => {
                self.note(*id, PathState::Closed, around.inner);
                if let Some(path) = self.known.get_mut(id) {
                    path.last = Some(**path_stats);
                }
                self.record(*id, PathEventKind::PathClosed, around);
                self.kept_off.forget(*id);
                self.sum_up(around);
                if self.sockets.len() > 1 && self.sockets.iter().any(|(path, _)| path == id) {
                    self.sockets.retain(|(path, _)| path != id);
                    self.sockets_changed = true;
                }
            }
            noq_proto::PathEvent::RemoteStatus { id, status, .. }
                if self.changes_status(*id, *status, around.inner) =>
            {
                let backup = *status == PathStatus::Backup;
                self.record(*id, PathEventKind::PathStatus { backup, by_peer: true }, around);
                self.decide(PathInput::RemoteStatus { path: *id, backup }, around);
            }
            _ => {}
        }
    }

    /// Tells those who decide, and does what they say.
    fn decide(&mut self, input: PathInput, around: &mut Surroundings<'_>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let actions = match &mut self.decider {
                Decider::Nobody => return,
                Decider::Client { manager, .. } => manager.handle(&input, around.now),
                Decider::Server(peer) => peer.handle(&input),
            };
            inputs.extend(actions.into_iter().flat_map(|action| self.carry_out(&action, around)));
        }
    }

    fn act(&mut self, actions: Vec<PathAction>, around: &mut Surroundings<'_>) {
        for action in actions {
            for input in self.carry_out(&action, around) {
                self.decide(input, around);
            }
        }
    }

    /// Does it, and says what came of it.
    fn carry_out(&mut self, action: &PathAction, around: &mut Surroundings<'_>) -> Vec<PathInput> {
        match *action {
            PathAction::Open { .. } if !around.by_driver => self.for_the_driver.push(action.clone()),
            PathAction::Open { local, address } => return self.open(local, address, around),
            PathAction::Close { path, reason } => return self.close(path, reason, around),
            PathAction::SetStatus { path, backup } => {
                let status = if backup { PathStatus::Backup } else { PathStatus::Available };
                if around.inner.set_path_status(path, status).is_ok_and(|before| before != status) {
                    self.record(path, PathEventKind::PathStatus { backup, by_peer: false }, around);
                }
            }
            PathAction::SetRole { path, backup, weight } => around.board.set_role(path, backup, weight),
            PathAction::SetSuspended { path, suspended } => around.board.set_suspended(path, suspended),
            PathAction::SetAvoided { path, avoided } => around.board.set_avoided(path, avoided),
        }
        Vec::new()
    }

    fn open(&mut self, local: usize, address: IpAddr, around: &mut Surroundings<'_>) -> Vec<PathInput> {
        let Decider::Client { wanted, first, socket: options, .. } = &mut self.decider else {
            return Vec::new();
        };
        if local == *first {
            // The path of the handshake, which is there already.
            *first = usize::MAX;
            let path = PathId::ZERO;
            return vec![PathInput::Opened { local, path }, PathInput::Established { path }];
        }
        let interface = wanted.get(local).map(|path| path.interface.as_str());
        let way = Way { interface, local: Some(address), remote: self.remote };
        let opened = PathSocket::towards(&way, options)
            .map_err(|error| Some(format!("{}: {}", error.doing, error.source)))
            .and_then(|socket| {
                let four = FourTuple::new(self.remote, Some(address));
                let path = around.inner.open_path(four, PathStatus::Available, around.instant);
                path.map(|path| (path, socket)).map_err(|error| match error {
                    // They are on their way: not worth an event.
                    PathError::RemoteCidsExhausted => None,
                    error => Some(error.to_string()),
                })
            });
        match opened {
            Ok((path, socket)) => {
                self.sockets.push((path, Arc::new(socket)));
                self.sockets_changed = true;
                self.note(path, PathState::Opening, around.inner);
                self.record(path, PathEventKind::PathOpened, around);
                vec![PathInput::Opened { local, path }]
            }
            Err(reason) => {
                if let Some(reason) = reason {
                    around.log.record(around.now, None, Some(address), PathEventKind::PathRefused { reason });
                }
                vec![PathInput::OpenFailed { local }]
            }
        }
    }

    fn close_now(
        &mut self,
        path: PathId,
        reason: CloseReason,
        around: &mut Surroundings<'_>,
    ) -> Vec<PathInput> {
        let code = VarInt::from_u32(0);
        match around.inner.close_path(around.instant, path, code) {
            Ok(()) => {
                let reason = reason.describe().to_owned();
                self.record(path, PathEventKind::PathGivenUp { reason }, around);
                Vec::new()
            }
            Err(noq_proto::ClosePathError::ClosedPath) => vec![PathInput::Abandoned { path }],
            Err(_) => vec![PathInput::CloseRefused { path }],
        }
    }

    fn record(&self, path: PathId, kind: PathEventKind, around: &mut Surroundings<'_>) {
        let known = self.known.get(&path);
        let way = known.map(|known| (path, known.local.ip(), known.remote));
        around.log.record(around.now, way, None, kind);
    }
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
