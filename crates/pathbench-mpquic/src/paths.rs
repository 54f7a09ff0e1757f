//! The paths of a connection: what was decided about them is done to the library, and what becomes of them is told
//! to those who decide.

mod detour;
mod known;
mod stray;

use self::detour::Detour;
pub use self::known::{FIRST_PATHS_BYTES, PATHS_BYTES};
use self::stray::{Carried, Stray};
use super::core::{Driver, InterfaceChange, LocalSocket, SocketId, Start, Turn};
use super::figures::Activity;
use super::heartbeat::{Beat, HeartbeatOptions, Heartbeats};
use super::options::{LocalPath, QuicOptions};
use super::path_event::PathLog;
use super::path_manager::{CloseReason, PathAction, PathInput, PathManager, PathManagerOptions};
use super::peer_paths::{KeptOff, PeerPaths};
use super::scheduler::Board;
use super::stream_meter::StreamMeter;
use crate::closed_paths::ClosedPaths;
use noq_proto::{Connection, FourTuple, PathAbandonReason, PathError, PathId, PathStats, PathStatus, VarInt};
use pathbench_record::connection::PathEventKind;
use pathbench_record::sample::PathState;
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The peer's connection ids for further paths arrive a moment after the handshake.
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// While a path is not answered on, the library asks again every two seconds at the latest. To begin another one
/// instead would use up path ids: a server does not replace those of paths that it never heard of.
const OPEN_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownPath {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) state: PathState,
    pub(crate) backup: bool,
    named: bool,
    last: Option<PathStats>,
    black_holes: u64,
    stray: Option<Stray>,
    /// What took its route from paths that are no longer kept.
    carried: Carried,
    activity: Activity,
}

#[derive(Debug)]
enum Decider {
    /// A single path, or a client that was not given any: the library alone.
    Nobody,
    Client {
        manager: PathManager,
        wanted: Vec<LocalPath>,
        first: usize,
    },
    Server(PeerPaths),
}

#[derive(Debug)]
pub(crate) struct Paths {
    decider: Decider,
    heartbeats: Heartbeats,
    /// The paths that the library knows, and the last ones that it has forgotten.
    known: BTreeMap<PathId, KnownPath>,
    closed: ClosedPaths,
    /// Why the connection must end: the peer opens more paths than any honest one does.
    excess: Option<&'static str>,
    /// Where each path leaves, in the order in which they were opened. The first is the server's only one.
    sockets: Vec<(PathId, LocalSocket)>,
    /// Paths that are about to be closed, and the way their packets take until then.
    detours: Vec<Detour>,
    /// What only the driver may do: sockets belong to the network namespace of the thread that opens them.
    for_the_driver: Vec<PathAction>,
    troubled: bool,
    kept_off: KeptOff,
    remote: SocketAddr,
    meter: StreamMeter,
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
        let decider = if !is_client {
            Decider::Server(PeerPaths::default())
        } else if quic.paths.is_empty() {
            Decider::Nobody
        } else {
            let times = PathManagerOptions {
                first_retry: FIRST_RETRY,
                open_timeout: OPEN_TIMEOUT,
                ..PathManagerOptions::default()
            };
            let manager = PathManager::new(&quic.paths, &quic.scheduler, start.remote.is_ipv6(), times);
            Decider::Client { manager, wanted: quic.paths.clone(), first: start.first_path }
        };
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
            sockets: vec![(PathId::ZERO, start.socket)],
            detours: Vec::new(),
            for_the_driver: Vec::new(),
            troubled: false,
            kept_off: KeptOff::default(),
            remote: start.remote,
            meter,
        }
    }

    /// The socket that packets from `source` leave by: the latest of that address, or the first one there is.
    pub(crate) fn socket_from(&self, source: Option<IpAddr>) -> SocketId {
        if let Some(detour) = self.detours.iter().find(|detour| Some(detour.from) == source) {
            return detour.by;
        }
        let of_source = |source| self.sockets.iter().rev().find(|(_, socket)| socket.address.ip() == source);
        source.and_then(of_source).map_or(self.first_socket().id, |(_, socket)| socket.id)
    }

    pub(crate) fn first_socket(&self) -> LocalSocket {
        self.sockets[0].1
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
        let beat = self.heartbeats.next_timeout().filter(|_| self.watches());
        let detour = self.detours.iter().map(|detour| detour.ends_at).min();
        [manager, beat, detour].into_iter().flatten().min()
    }

    /// Heartbeats tell one path from another; of one path alone they tell nothing.
    fn watches(&self) -> bool {
        self.known.values().filter(|path| path.state == PathState::Open).count() > 1
    }

    /// Does what is due. To be called by the driver, after everything that has arrived was taken in.
    pub(crate) fn tend(&mut self, context: &mut PathContext<'_>) {
        let actions = std::mem::take(&mut self.for_the_driver);
        self.act(actions, context);
        self.end_detours(context);
        if self.watches() {
            self.beat(context);
        }
        let troubled = context.board.trouble().is_some();
        if std::mem::replace(&mut self.troubled, troubled) != troubled {
            self.decide(PathInput::BackupNeeded(troubled), context);
        }
        if let Decider::Client { manager, .. } = &mut self.decider
            && manager.next_timeout().is_some_and(|due| due <= context.now)
        {
            let actions = manager.poll(context.now);
            self.act(actions, context);
        }
    }

    fn beat(&mut self, context: &mut PathContext<'_>) {
        self.note_strays(context.inner);
        for path in context.inner.paths() {
            let Some(stats) = context.inner.path_stats(path) else { continue };
            self.note_black_holes(path, &stats, context.log, context.now);
            let seen = context.board.observation(path).unwrap_or_default();
            let received = stats.udp_rx.datagrams;
            self.heartbeats.observe(path, received, seen.sent_bytes, seen.rttvar, context.now);
            self.heartbeats.expect_probe(path, context.board.probe_after(path));
        }
        for beat in self.heartbeats.tick(context.now) {
            match beat {
                Beat::Ping(path) => {
                    context.board.allow_ping(path);
                    // Fails only when the path was closed in between.
                    let _ = context.inner.ping_path(path);
                }
                Beat::Silent(path) => {
                    self.record(path, PathEventKind::PathSuspended, context);
                    self.decide(PathInput::Silent { path }, context);
                }
                Beat::Heard(path) => {
                    self.record(path, PathEventKind::PathResumed, context);
                    self.decide(PathInput::Heard { path }, context);
                }
                Beat::Dead(path) => self.decide(PathInput::Dead { path }, context),
            }
        }
    }

    /// The handshake is complete: its path is there, and further ones can be opened.
    pub(crate) fn on_connected(&mut self, interfaces: Vec<PathInput>, context: &mut PathContext<'_>) {
        context.board.set_open(PathId::ZERO, true);
        self.note(PathId::ZERO, PathState::Open, context.inner, context.now);
        self.record(PathId::ZERO, PathEventKind::PathEstablished, context);
        if !context.inner.is_multipath_negotiated() {
            self.decider = Decider::Nobody;
            return;
        }
        self.heartbeats.add(PathId::ZERO, context.now);
        match &self.decider {
            Decider::Nobody => {}
            Decider::Server(_) => self.decide(PathInput::Established { path: PathId::ZERO }, context),
            Decider::Client { .. } => {
                for input in interfaces {
                    self.decide(input, context);
                }
            }
        }
    }

    pub(crate) fn on_interface_change(&mut self, change: InterfaceChange, context: &mut PathContext<'_>) {
        let Decider::Client { wanted, .. } = &self.decider else { return };
        let (interface, gone) = match &change.input {
            PathInput::LinkUp { interface } | PathInput::AddressAdded { interface, .. } => (interface, false),
            PathInput::LinkDown { interface } | PathInput::AddressRemoved { interface, .. } => {
                (interface, true)
            }
            _ => return,
        };
        if !wanted.iter().any(|path| path.interface == *interface) {
            return;
        }
        let description = change.description;
        let kind = if gone {
            PathEventKind::InterfaceGone { change: description }
        } else {
            PathEventKind::InterfaceBack { change: description }
        };
        context.log.record(context.now, None, None, kind);
        self.decide(change.input, context);
        if !gone {
            // What was lost on the last path while it was away is asked for at once, not at the next timeout.
            for path in context.inner.paths() {
                context.board.allow_ping(path);
                let _ = context.inner.ping_path(path);
            }
        }
    }

    pub(crate) fn on_path_event(&mut self, event: &noq_proto::PathEvent, context: &mut PathContext<'_>) {
        context.board.on_path_event(event);
        match event {
            noq_proto::PathEvent::Established { id, .. } => {
                self.check_number(*id, context);
                self.note(*id, PathState::Open, context.inner, context.now);
                self.heartbeats.add(*id, context.now);
                self.record(*id, PathEventKind::PathEstablished, context);
                self.decide(PathInput::Established { path: *id }, context);
            }
            noq_proto::PathEvent::Abandoned { id, reason, .. } => {
                self.check_number(*id, context);
                self.note(*id, PathState::Closed, context.inner, context.now);
                self.heartbeats.remove(*id);
                self.detours.retain(|detour| detour.path != *id);
                let reason = in_words(reason);
                self.record(*id, PathEventKind::PathAbandoned { reason }, context);
                self.decide(PathInput::Abandoned { path: *id }, context);
            }
            noq_proto::PathEvent::Discarded { id, path_stats, .. } => {
                self.note(*id, PathState::Closed, context.inner, context.now);
                if let Some(path) = self.known.get_mut(id) {
                    path.last = Some(**path_stats);
                }
                self.record(*id, PathEventKind::PathClosed, context);
                self.kept_off.forget(*id);
                self.sum_up(context);
                let own = self.sockets.iter().position(|(path, _)| path == id);
                if let Some(own) = own.filter(|_| self.sockets.len() > 1) {
                    context.driver.close_socket(self.sockets.remove(own).1.id);
                }
            }
            noq_proto::PathEvent::RemoteStatus { id, status, .. }
                if self.changes_status(*id, *status, context.inner) =>
            {
                let backup = *status == PathStatus::Backup;
                self.record(*id, PathEventKind::PathStatus { backup, by_peer: true }, context);
                self.decide(PathInput::RemoteStatus { path: *id, backup }, context);
            }
            _ => {}
        }
    }

    fn decide(&mut self, input: PathInput, context: &mut PathContext<'_>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let actions = match &mut self.decider {
                Decider::Nobody => return,
                Decider::Client { manager, .. } => manager.handle(&input, context.now),
                Decider::Server(peer) => peer.handle(&input),
            };
            inputs.extend(actions.into_iter().flat_map(|action| self.carry_out(&action, context)));
        }
    }

    fn act(&mut self, actions: Vec<PathAction>, context: &mut PathContext<'_>) {
        for action in actions {
            for input in self.carry_out(&action, context) {
                self.decide(input, context);
            }
        }
    }

    fn carry_out(&mut self, action: &PathAction, context: &mut PathContext<'_>) -> Vec<PathInput> {
        match *action {
            PathAction::Open { .. } if context.turn != Turn::Whole => {
                self.for_the_driver.push(action.clone());
            }
            PathAction::Open { local, address } => return self.open(local, address, context),
            PathAction::Close { path, reason } => return self.close(path, reason, context),
            PathAction::SetStatus { path, backup } => {
                let status = if backup { PathStatus::Backup } else { PathStatus::Available };
                if context.inner.set_path_status(path, status).is_ok_and(|before| before != status) {
                    self.record(path, PathEventKind::PathStatus { backup, by_peer: false }, context);
                }
            }
            PathAction::SetRole { path, backup, weight } => context.board.set_role(path, backup, weight),
            PathAction::SetSuspended { path, suspended } => context.board.set_suspended(path, suspended),
            PathAction::SetAvoided { path, avoided } => context.board.set_avoided(path, avoided),
        }
        Vec::new()
    }

    fn open(&mut self, local: usize, address: IpAddr, context: &mut PathContext<'_>) -> Vec<PathInput> {
        let Decider::Client { wanted, first, .. } = &mut self.decider else {
            return Vec::new();
        };
        if local == *first {
            // The path of the handshake, which is there already.
            *first = usize::MAX;
            let path = PathId::ZERO;
            return vec![PathInput::Opened { local, path }, PathInput::Established { path }];
        }
        let Some(interface) = wanted.get(local).map(|path| path.interface.as_str()) else {
            return Vec::new();
        };
        let opened = context.driver.open_socket(interface, address, self.remote).map_err(Some);
        let opened = opened.and_then(|socket| {
            let four = FourTuple::new(self.remote, Some(address));
            let path = context.inner.open_path(four, PathStatus::Available, context.instant);
            path.map(|path| (path, socket)).map_err(|error| {
                context.driver.close_socket(socket.id);
                match error {
                    // They are on their way: not worth an event.
                    PathError::RemoteCidsExhausted => None,
                    error => Some(error.to_string()),
                }
            })
        });
        match opened {
            Ok((path, socket)) => {
                self.sockets.push((path, socket));
                self.note(path, PathState::Opening, context.inner, context.now);
                self.record(path, PathEventKind::PathOpened, context);
                vec![PathInput::Opened { local, path }]
            }
            Err(reason) => {
                if let Some(reason) = reason {
                    context.log.record(
                        context.now,
                        None,
                        Some(address),
                        PathEventKind::PathRefused { reason },
                    );
                }
                vec![PathInput::OpenFailed { local }]
            }
        }
    }

    fn close_now(
        &mut self,
        path: PathId,
        reason: CloseReason,
        context: &mut PathContext<'_>,
    ) -> Vec<PathInput> {
        let code = VarInt::from_u32(0);
        match context.inner.close_path(context.instant, path, code) {
            Ok(()) => {
                let reason = reason.describe().to_owned();
                self.record(path, PathEventKind::PathGivenUp { reason }, context);
                Vec::new()
            }
            Err(noq_proto::ClosePathError::ClosedPath) => vec![PathInput::Abandoned { path }],
            Err(_) => vec![PathInput::CloseRefused { path }],
        }
    }

    fn record(&self, path: PathId, kind: PathEventKind, context: &mut PathContext<'_>) {
        let known = self.known.get(&path);
        let way = known.map(|known| (path, known.local.ip(), known.remote));
        context.log.record(context.now, way, None, kind);
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
