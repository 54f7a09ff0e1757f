//! One end of a simulated connection: the library's state machine and the pure modules of this room, tied together
//! as the driver ties them.

use super::super::heartbeat::{Beat, Heartbeats};
use super::super::path_manager::{CloseReason, PathAction, PathInput, PathManager};
use super::super::peer_paths::{KeptOff, PeerPaths};
use super::super::scheduler::{Board, SchedulerEvent};
use super::super::time::Epoch;
use bytes::BytesMut;
use noq_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event,
    FourTuple, PathEvent, PathId, PathStatus, ServerConfig, StreamEvent, StreamId, Transmit, VarInt,
};
use pathbench_record::time::Timestamp;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is sent.
static NOTHING: [u8; 16 << 10] = [0; 16 << 10];
const PACE: Duration = Duration::from_millis(20);
const BATCH: NonZeroUsize = NonZeroUsize::new(10).unwrap();

/// Who decides about paths at this end.
pub(super) enum Decider {
    Client(Box<PathManager>),
    Server(PeerPaths),
    /// Nobody: the library is left to itself.
    Nobody,
}

/// What a host is to do with its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// Only read.
    Silent,
    /// Send as much as goes on each stream.
    Bulk,
    /// This many bytes on the first stream each 20 ms.
    Paced(usize),
}

/// An end of the connection.
pub(super) struct Host {
    epoch: Epoch,
    endpoint: Endpoint,
    pub(super) accept_as: Option<Arc<ServerConfig>>,
    pub(super) connection: Option<(ConnectionHandle, Connection)>,
    pub(super) board: Board,
    pub(super) decider: Decider,
    pub(super) heartbeats: Option<Heartbeats>,
    pub(super) load: Load,
    /// Streams to open.
    pub(super) wanted_streams: usize,
    remote: SocketAddr,
    streams: BTreeSet<StreamId>,
    pub(super) received_bytes: u64,
    last_data: Timestamp,
    /// The longest time without new data, since it was last set to zero.
    pub(super) longest_stall: Duration,
    pub(super) connected: bool,
    pub(super) ended: Option<ConnectionError>,
    pub(super) path_events: Vec<(Timestamp, PathEvent)>,
    pub(super) actions: Vec<(Timestamp, PathAction)>,
    pub(super) scheduled: Vec<SchedulerEvent>,
    /// What happened to links before the handshake was complete.
    early: Vec<PathInput>,
    /// The path of the handshake is nobody's yet.
    first_free: bool,
    needed: bool,
    kept_off: KeptOff,
    next_paced: Timestamp,
    owed: usize,
    /// MTU probes that are to leave later.
    held: Vec<(Instant, Transmit, Vec<u8>)>,
    /// Its thread is inside a call that sends until then.
    busy_until: Timestamp,
}

impl Host {
    pub(super) fn new(
        epoch: Epoch,
        endpoint: Endpoint,
        board: Board,
        decider: Decider,
        remote: SocketAddr,
    ) -> Self {
        Self {
            epoch,
            endpoint,
            accept_as: None,
            connection: None,
            board,
            decider,
            heartbeats: None,
            load: Load::Silent,
            wanted_streams: 0,
            remote,
            streams: BTreeSet::new(),
            received_bytes: 0,
            last_data: Timestamp::default(),
            longest_stall: Duration::ZERO,
            connected: false,
            ended: None,
            path_events: Vec::new(),
            actions: Vec::new(),
            scheduled: Vec::new(),
            early: Vec::new(),
            first_free: true,
            needed: false,
            kept_off: KeptOff::default(),
            next_paced: Timestamp::default(),
            owed: 0,
            held: Vec::new(),
            busy_until: Timestamp::default(),
        }
    }

    /// The library's instant for `at`.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        self.epoch.instant(at)
    }

    /// The time of one of the library's instants.
    pub(super) fn timestamp(&self, at: Instant) -> Timestamp {
        self.epoch.timestamp(at)
    }

    /// Begins the handshake.
    pub(super) fn connect(&mut self, now: Timestamp, config: ClientConfig, name: &str) {
        let at = self.epoch.instant(now);
        self.connection = Some(self.endpoint.connect(at, config, self.remote, name).unwrap());
    }

    /// The connection, which there is once the handshake has begun.
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection.as_mut().unwrap().1
    }

    /// Takes a datagram in; answers that are not a connection's are dropped.
    pub(super) fn receive(&mut self, now: Timestamp, way: FourTuple, contents: &[u8]) {
        let mut answer = Vec::new();
        let at = self.epoch.instant(now);
        match self.endpoint.handle(at, way, None, BytesMut::from(contents), &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, at, &mut answer, self.accept_as.clone());
                self.connection = accepted.ok().or(self.connection.take());
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.connection().handle_event(event),
            _ => {}
        }
    }

    /// Does what is due, and hands over what is to be sent, to one who tells when he is done with that.
    pub(super) fn run(&mut self, now: Timestamp, mut send: impl FnMut(&Transmit, &[u8]) -> Timestamp) {
        let at = self.epoch.instant(now);
        let mut buffer = Vec::new();
        if self.connection.is_none() || now < self.busy_until {
            return;
        }
        if self.connection().poll_timeout().is_some_and(|due| due <= at) {
            self.connection().handle_timeout(at);
        }
        self.beat(now);
        self.tell_nothing(now);
        for (_, transmit, contents) in self.held.extract_if(.., |(due, ..)| *due <= at) {
            let _ = send(&transmit, &contents);
        }
        loop {
            let mut progress = false;
            loop {
                buffer.clear();
                let board = self.board.clone();
                let small = board.poll_small_ping(self.connection(), at, &mut buffer);
                let transmit =
                    small.or_else(|| board.poll_transmit(self.connection(), at, BATCH, &mut buffer));
                let Some(transmit) = transmit else { break };
                let contents = &buffer[..transmit.size];
                match board.take_hold() {
                    Some(due) => self.held.push((due, transmit, contents.to_vec())),
                    None => self.busy_until = send(&transmit, contents),
                }
                if now < self.busy_until {
                    return;
                }
                progress = true;
            }
            while let Some(event) = self.connection().poll_endpoint_events() {
                let Some((handle, connection)) = &mut self.connection else { return };
                if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(answer);
                }
                progress = true;
            }
            while let Some(event) = self.connection().poll() {
                self.note(now, event);
                progress = true;
            }
            progress |= self.follow_the_scheduler(now);
            progress |= self.apply(now);
            if !progress {
                return;
            }
        }
    }

    /// When [`Host::run`] is due.
    pub(super) fn next_timeout(&mut self, now: Timestamp) -> Option<Timestamp> {
        let (_, connection) = self.connection.as_mut()?;
        let library = connection.poll_timeout().map(|at| self.epoch.timestamp(at));
        let board = self.board.next_deadline(self.epoch.instant(now)).map(|at| self.epoch.timestamp(at));
        let heartbeats = self.heartbeats.as_ref().and_then(Heartbeats::next_timeout);
        let manager = match &self.decider {
            Decider::Client(manager) => manager.next_timeout(),
            _ => None,
        };
        let paced =
            (matches!(self.load, Load::Paced(_)) && !self.streams.is_empty()).then_some(self.next_paced);
        let held = self.held.iter().map(|(at, ..)| self.epoch.timestamp(*at)).min();
        let next = [library, board, heartbeats, manager, paced, held].into_iter().flatten().min();
        if now < self.busy_until { Some(self.busy_until) } else { next }
    }

    /// Tells the decider something, and does what it says.
    pub(super) fn tell(&mut self, now: Timestamp, input: &PathInput) {
        if !self.connected {
            return self.early.push(input.clone());
        }
        let actions = match &mut self.decider {
            Decider::Client(manager) => manager.handle(input, now),
            Decider::Server(peer) => peer.handle(input),
            Decider::Nobody => Vec::new(),
        };
        self.act(now, actions);
    }

    fn tell_nothing(&mut self, now: Timestamp) {
        if let Decider::Client(manager) = &mut self.decider {
            let actions = manager.poll(now);
            self.act(now, actions);
        }
    }

    fn act(&mut self, now: Timestamp, actions: Vec<PathAction>) {
        for action in actions {
            self.actions.push((now, action.clone()));
            if let Some(answer) = self.act_once(now, &action) {
                self.tell(now, &answer);
            }
        }
    }

    fn act_once(&mut self, now: Timestamp, action: &PathAction) -> Option<PathInput> {
        let at = self.epoch.instant(now);
        let remote = self.remote;
        match *action {
            PathAction::Open { local, .. } if std::mem::take(&mut self.first_free) => {
                self.tell(now, &PathInput::Opened { local, path: PathId::ZERO });
                Some(PathInput::Established { path: PathId::ZERO })
            }
            PathAction::Open { local, address } => {
                let way = FourTuple::new(remote, Some(address));
                Some(match self.connection().open_path(way, PathStatus::Available, at) {
                    Ok(path) => PathInput::Opened { local, path },
                    Err(_) => PathInput::OpenFailed { local },
                })
            }
            PathAction::Close { path, .. } => {
                let closed = self.connection().close_path(at, path, VarInt::from_u32(0));
                closed.is_err().then_some(PathInput::CloseRefused { path })
            }
            PathAction::SetStatus { path, backup } => {
                // Fails only for a path that is gone, of which the decider hears presently.
                let _ = self.connection().set_path_status(path, status(backup));
                None
            }
            PathAction::SetRole { path, backup, weight } => {
                self.board.set_role(path, backup, weight);
                None
            }
            PathAction::SetSuspended { path, suspended } => {
                self.board.set_suspended(path, suspended);
                None
            }
            PathAction::SetAvoided { path, avoided } => {
                self.board.set_avoided(path, avoided);
                None
            }
        }
    }

    fn beat(&mut self, now: Timestamp) {
        let (Some(heartbeats), Some((_, connection))) = (&mut self.heartbeats, &mut self.connection) else {
            return;
        };
        for path in connection.paths() {
            let Some(stats) = connection.path_stats(path) else { continue };
            let rttvar = self.board.observation(path).unwrap_or_default().rttvar;
            heartbeats.observe(path, stats.udp_rx.datagrams, stats.udp_tx.datagrams, rttvar, now);
            heartbeats.expect_probe(path, self.board.probe_after(path));
        }
        for beat in heartbeats.tick(now) {
            match beat {
                Beat::Ping(path) => {
                    self.board.allow_ping(path);
                    // Fails only for a path that is gone.
                    let _ = self.connection().ping_path(path);
                }
                Beat::Silent(path) => self.tell(now, &PathInput::Silent { path }),
                Beat::Heard(path) => self.tell(now, &PathInput::Heard { path }),
                Beat::Dead(path) => self.tell(now, &PathInput::Dead { path }),
            }
        }
    }

    fn note(&mut self, now: Timestamp, event: Event) {
        match event {
            Event::Connected => {
                self.connected = true;
                self.last_data = now;
                self.on_established(now, PathId::ZERO);
                for input in std::mem::take(&mut self.early) {
                    self.tell(now, &input);
                }
            }
            Event::ConnectionLost { reason } => self.ended = Some(reason),
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                while let Some(id) = self.connection().streams().accept(Dir::Bi) {
                    self.streams.insert(id);
                }
            }
            Event::Path(PathEvent::RemoteStatus { id, status, .. }) if !self.kept_off.change(id, status) => {}
            Event::Path(event) => {
                self.path_events.push((now, event.clone()));
                self.board.on_path_event(&event);
                match event {
                    PathEvent::Established { id, .. } => self.on_established(now, id),
                    PathEvent::Abandoned { id, .. } => {
                        if let Some(heartbeats) = &mut self.heartbeats {
                            heartbeats.remove(id);
                        }
                        self.tell(now, &PathInput::Abandoned { path: id });
                    }
                    PathEvent::RemoteStatus { id, status, .. } => {
                        let backup = status == PathStatus::Backup;
                        self.tell(now, &PathInput::RemoteStatus { path: id, backup });
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn on_established(&mut self, now: Timestamp, path: PathId) {
        self.board.set_open(path, true);
        if let Some(heartbeats) = &mut self.heartbeats {
            heartbeats.add(path, now);
        }
        self.tell(now, &PathInput::Established { path });
    }

    fn follow_the_scheduler(&mut self, now: Timestamp) -> bool {
        self.scheduled.extend(self.board.take_events());
        let needed = self.board.trouble().is_some();
        if needed == self.needed {
            return false;
        }
        self.needed = needed;
        self.tell(now, &PathInput::BackupNeeded(needed));
        true
    }

    /// The application: reads everything, writes what the load wants.
    fn apply(&mut self, now: Timestamp) -> bool {
        if !self.connected || self.ended.is_some() {
            return false;
        }
        let mut progress = false;
        while self.streams.len() < self.wanted_streams {
            let Some(id) = self.connection().streams().open(Dir::Bi) else { break };
            self.streams.insert(id);
            progress |= self.connection().send_stream(id).write(&[0]).is_ok();
        }
        for id in self.streams.clone() {
            progress |= self.read(now, id);
            progress |= self.load == Load::Bulk && self.write(id, usize::MAX) > 0;
        }
        if let (Load::Paced(bytes), Some(id)) = (self.load, self.streams.first().copied()) {
            if now >= self.next_paced {
                self.next_paced = now + PACE;
                self.owed += bytes;
            }
            let written = self.write(id, self.owed);
            self.owed -= written;
            progress |= written > 0;
        }
        progress
    }

    fn read(&mut self, now: Timestamp, id: StreamId) -> bool {
        let mut bytes = 0;
        let mut stream = self.connection().recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return false };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            bytes += chunk.bytes.len();
        }
        let _ = chunks.finalize();
        if bytes == 0 {
            return false;
        }
        self.received_bytes += bytes as u64;
        self.longest_stall = self.longest_stall.max(now.since(self.last_data));
        self.last_data = now;
        true
    }

    fn write(&mut self, id: StreamId, limit: usize) -> usize {
        let mut written = 0;
        while written < limit {
            let part = &NOTHING[..NOTHING.len().min(limit - written)];
            match self.connection().send_stream(id).write(part) {
                Ok(bytes) => written += bytes,
                Err(_) => break,
            }
        }
        written
    }

    /// Starts to measure stalls afresh.
    pub(super) fn forget_stalls(&mut self, now: Timestamp) {
        self.longest_stall = Duration::ZERO;
        self.last_data = self.last_data.max(now);
    }

    /// The longest stall, one that has not ended included.
    pub(super) fn stall(&self, now: Timestamp) -> Duration {
        self.longest_stall.max(now.since(self.last_data))
    }

    /// What was decided about paths and what became of them, a line each.
    pub(super) fn story(&self) -> Vec<(Timestamp, String)> {
        let actions = self.actions.iter().map(|(at, action)| (*at, format!("{action:?}")));
        let events = self.path_events.iter().map(|(at, event)| (*at, in_short(event)));
        let scheduled = self
            .scheduled
            .iter()
            .map(|event| (self.epoch.timestamp(event.at), format!("{:?}", event.trouble)));
        actions.chain(events).chain(scheduled).collect()
    }

    /// The paths that were closed for `reason`, and when.
    pub(super) fn closed_for(&self, reason: CloseReason) -> Vec<(Timestamp, PathId)> {
        let closed = |(at, action): &(Timestamp, PathAction)| match action {
            PathAction::Close { path, reason: because } if *because == reason => Some((*at, *path)),
            _ => None,
        };
        self.actions.iter().filter_map(closed).collect()
    }
}

pub(super) fn status(backup: bool) -> PathStatus {
    if backup { PathStatus::Backup } else { PathStatus::Available }
}

fn in_short(event: &PathEvent) -> String {
    match event {
        PathEvent::Discarded { id, .. } => format!("Discarded {{ id: {id} }}"),
        other => format!("{other:?}"),
    }
}
