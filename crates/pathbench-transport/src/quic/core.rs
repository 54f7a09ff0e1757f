//! The library's state of one connection, and what its streams wait for. No threads, no locks, no clock.

mod streams;
#[cfg(test)]
mod withheld;

pub(crate) use self::streams::{Read, StreamEnd, StreamSignals, StreamState};

use super::capacity::TestSlot;
use super::configuration::CONNECTION_WINDOW_BYTES;
use super::link_watch::NoticedChange;
use super::path_event::{FIRST_EVENTS, MAX_EVENTS, PathLog};
use super::path_manager::PathInput;
use super::paths::{KnownPath, Paths, Surroundings};
use super::scheduler::{Board, Trouble};
use super::send_window::SendWindow;
use super::time::Epoch;
use super::unacknowledged::HeldBytes;
use noq_proto::{
    Connection, ConnectionError, ConnectionHandle, Dir, EndpointEvent, Event, PathId, PathStats, StreamEvent,
    StreamId, Transmit, TransportError, TransportErrorCode, VarInt,
};
use pathbench_record::connection::{PathEvent, PathEventKind};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Datagrams in one system call at most; the socket splits what is too long for an IP packet.
const BATCH: NonZeroUsize = NonZeroUsize::new(44).unwrap();
/// Least size of a datagram that begins a connection (RFC 9000, 14.1).
const INITIAL_BYTES: u64 = 1200;
/// Datagrams sent before what has arrived is looked at again.
const TURN_DATAGRAMS: usize = 88;
/// A connection that its users are done with is closed after this, even when not everything was acknowledged.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// A handshake that takes longer is given up by the server.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A server ends a connection on which there was no stream for this long.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(30);
/// The same of one that has carried a test: its slot is wanted.
const SPENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Application error codes: the end in good order, and the end without regard for data.
pub(crate) const DONE: VarInt = VarInt::from_u32(0);
pub(crate) const ABORTED: VarInt = VarInt::from_u32(1);

/// Endpoint state that a connection reaches from within.
#[derive(Debug)]
pub(crate) struct Routing(Mutex<noq_proto::Endpoint>);

impl Routing {
    pub(crate) fn new(endpoint: noq_proto::Endpoint) -> Self {
        Self(Mutex::new(endpoint))
    }

    /// Held for a moment only; a connection's lock may be held already, never the other way round.
    ///
    /// # Panics
    /// When a thread panicked in here before: all connections depend on this state, so the driver must end.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut noq_proto::Endpoint) -> T) -> T {
        let mut endpoint = self.0.lock().expect("no panic has left the state of the QUIC endpoint unknown");
        act(&mut endpoint)
    }
}

/// One connection.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts about a connection")]
pub(crate) struct Core {
    pub(crate) inner: Connection,
    pub(crate) board: Board,
    pub(crate) streams: HashMap<StreamId, StreamState>,
    /// Streams that the peer opened and nobody has taken over yet.
    pub(crate) opened: Vec<StreamId>,
    /// The peer lets us open more streams than before.
    pub(crate) established: bool,
    /// Why the connection is over.
    pub(crate) ended: Option<ConnectionError>,
    /// The library is done with it.
    pub(crate) drained: bool,
    /// The library's endpoint has forgotten it, and may give its handle to another one.
    pub(crate) is_forgotten: bool,
    /// Streams and sessions that hold it.
    pub(crate) users: usize,
    /// When it came into being here.
    begun: Instant,
    /// Since when nobody holds it.
    unused_since: Option<Instant>,
    /// A thread panicked in the middle of a call into the library, which must not be called again.
    pub(crate) broken: bool,
    /// Close without waiting for acknowledgements.
    pub(crate) hasty: bool,
    pub(crate) paths: Paths,
    log: PathLog,
    /// It is the driver's turn, not that of a stream's user.
    by_driver: bool,
    /// What this host changed since the last turn.
    link_changes: Vec<NoticedChange>,
    /// The interfaces as they were when the connection began, until the handshake is complete.
    interfaces: Vec<PathInput>,
    /// At a server: nothing proves yet that the client is at the address it says.
    pub(crate) unproved: bool,
    /// Who must be woken, once the lock is released.
    wakeups: Vec<Wakeup>,
    send_window: SendWindow,
    epoch: Epoch,
    handle: ConnectionHandle,
    buffer: Vec<u8>,
    /// MTU probes that wait until there is room for them.
    held: Vec<HeldProbe>,
    /// The next turn panics.
    #[cfg(test)]
    pub(crate) panics: bool,
    unacknowledged: HeldBytes,
    /// Of streams without a user at this end, nothing of which is known to be freed.
    copied_of_released: u64,
    /// Writers wait until the library has freed something.
    held_back: bool,
    /// At a server: this connection carries a test, and may hold as much as that takes.
    test_slot: Option<TestSlot>,
}

/// A datagram that is to leave later.
#[derive(Debug)]
struct HeldProbe {
    at: Instant,
    transmit: Transmit,
    contents: Vec<u8>,
}

/// A thread to wake.
#[derive(Debug)]
pub(crate) enum Wakeup {
    Readers(Arc<StreamSignals>),
    Writers(Arc<StreamSignals>),
    /// Those that wait for the connection itself.
    Connection,
}

impl Core {
    pub(crate) fn new(
        handle: ConnectionHandle,
        inner: Connection,
        board: Board,
        paths: Paths,
        epoch: Epoch,
        begun: Instant,
        send_window: SendWindow,
    ) -> Self {
        let is_client = inner.side().is_client();
        Self {
            inner,
            board,
            streams: HashMap::new(),
            opened: Vec::new(),
            established: false,
            ended: None,
            drained: false,
            is_forgotten: false,
            users: 0,
            begun,
            unused_since: Some(begun),
            broken: false,
            hasty: false,
            paths,
            log: PathLog::of(if is_client { MAX_EVENTS } else { FIRST_EVENTS }),
            by_driver: false,
            link_changes: Vec::new(),
            interfaces: Vec::new(),
            unproved: false,
            wakeups: Vec::new(),
            send_window,
            epoch,
            handle,
            buffer: Vec::new(),
            held: Vec::new(),
            #[cfg(test)]
            panics: false,
            unacknowledged: HeldBytes::default(),
            copied_of_released: 0,
            held_back: false,
            test_slot: None,
        }
    }

    /// Lets the peer send as much as a test takes.
    pub(crate) fn begin_test(&mut self, slot: TestSlot) {
        self.test_slot = Some(slot);
        self.inner.set_receive_window(CONNECTION_WINDOW_BYTES.into());
        self.board.lend_receive_window(CONNECTION_WINDOW_BYTES.into());
        self.log.keep(MAX_EVENTS);
    }

    /// Whether it may hold as much as a test takes: at a client always.
    pub(crate) fn is_trusted(&self) -> bool {
        self.has_test() || self.inner.side().is_client()
    }

    /// Whether it carries a test, or did.
    pub(crate) fn has_test(&self) -> bool {
        self.test_slot.is_some()
    }

    /// Does everything that is due: timers, packets to send, events. `true` when there is more to send at once.
    pub(crate) fn pump(&mut self, routing: &Routing, now: Instant, by_driver: bool) -> bool {
        #[cfg(test)]
        assert!(!self.panics, "injected by a test");
        if self.drained {
            return false;
        }
        let more = self.work(routing, now, by_driver);
        self.end_holding_back();
        if self.has_test() && self.inner.is_closed() && !self.drained {
            // The library would keep all it has for three PTOs, which the peer can make long. A late packet gets a
            // stateless reset (RFC 9000 section 10.3).
            self.drained = true;
            self.is_forgotten = true;
            routing.with(|endpoint| endpoint.handle_event(self.handle, EndpointEvent::drained()));
        }
        more
    }

    fn work(&mut self, routing: &Routing, now: Instant, by_driver: bool) -> bool {
        self.by_driver = by_driver;
        let mut datagrams = 0;
        if by_driver {
            self.tend_paths(now);
        }
        if let Some(bytes) = self.send_window.follow(self.board.cwnd_bytes()) {
            // Streams that wait for room hear of it from the events below.
            self.inner.set_send_window(bytes);
        }
        for probe in self.held.extract_if(.., |probe| probe.at <= now) {
            if let Some(socket) = self.paths.socket_from(probe.transmit.src_ip) {
                socket.send(&probe.transmit, &probe.contents);
            }
        }
        loop {
            let mut progress = false;
            if self.inner.poll_timeout().is_some_and(|due| due <= now) {
                self.inner.handle_timeout(now);
                progress = true;
            }
            while self.send_small_ping(now) {
                progress = true;
            }
            while datagrams < TURN_DATAGRAMS {
                let sent = self.transmit(now);
                if sent == 0 {
                    break;
                }
                datagrams += sent;
                progress = true;
            }
            while let Some(event) = self.inner.poll_endpoint_events() {
                self.drained |= event.is_drained();
                self.is_forgotten |= event.is_drained();
                progress = true;
                if let Some(answer) = routing.with(|endpoint| endpoint.handle_event(self.handle, event)) {
                    self.inner.handle_event(answer);
                }
            }
            while let Some(event) = self.inner.poll() {
                self.take_note(event, now);
                progress = true;
            }
            if datagrams >= TURN_DATAGRAMS {
                return true;
            }
            if !progress {
                return false;
            }
        }
    }

    /// Sends one batch; how many datagrams.
    fn transmit(&mut self, now: Instant) -> usize {
        self.buffer.clear();
        // One by one as long as each may be too much.
        let batch = if self.unproved { NonZeroUsize::MIN } else { BATCH };
        let transmit = self.board.poll_transmit(&mut self.inner, now, batch, &mut self.buffer);
        let Some(transmit) = transmit else { return 0 };
        let datagrams = transmit.segment_size.map_or(1, |size| transmit.size.div_ceil(size.max(1)));
        if self.unproved && self.exceeds_allowance() {
            // To the library they are lost.
            return datagrams;
        }
        self.hand_over(transmit);
        datagrams
    }

    /// Sends a small PING on a path that is due to have one; whether there was one.
    fn send_small_ping(&mut self, now: Instant) -> bool {
        self.buffer.clear();
        let transmit = self.board.poll_small_ping(&mut self.inner, now, &mut self.buffer);
        transmit.map(|transmit| self.hand_over(transmit)).is_some()
    }

    /// Sends what is in the buffer.
    fn hand_over(&mut self, transmit: Transmit) {
        let contents = self.buffer.get(..transmit.size).unwrap_or_default();
        if let Some(at) = self.board.take_hold() {
            return self.held.push(HeldProbe { at, transmit, contents: contents.to_vec() });
        }
        if let Some(socket) = self.paths.socket_from(transmit.src_ip) {
            socket.send(&transmit, contents);
        }
    }

    /// Whether more would have been sent to an address that has not proved itself than three times what came from it
    /// (RFC 9000, 8.1). The library lets the last datagram begin below that bound and end above it.
    fn exceeds_allowance(&mut self) -> bool {
        let given_up = self.inner.is_closed() && !self.established;
        self.unproved = self.inner.is_handshaking() || given_up;
        let stats = self.inner.stats();
        // The first datagram is not counted there; an Initial that is answered has at least this size.
        let received = stats.udp_rx.bytes + INITIAL_BYTES;
        self.unproved && stats.udp_tx.bytes > 3 * received
    }

    /// When [`Core::pump`] must be called again at the latest.
    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let end = self.purpose_ends_at().filter(|_| !self.inner.is_closed());
        let tend = self.paths.next_timeout().filter(|_| self.established && self.ended.is_none());
        let tend = tend.map(|at| self.epoch.instant(at));
        let held = self.held.iter().map(|probe| probe.at).min();
        let deadlines = [self.inner.poll_timeout(), self.board.next_deadline(now), tend, end, held];
        deadlines.into_iter().flatten().min()
    }

    /// When the connection will have outlived its purpose, as things are.
    fn purpose_ends_at(&self) -> Option<Instant> {
        if self.inner.side().is_client() {
            return self.unused_since.filter(|_| self.established).map(|since| since + LINGER);
        }
        if !self.established {
            return Some(self.begun + HANDSHAKE_TIMEOUT);
        }
        let timeout = if self.has_test() { SPENT_TIMEOUT } else { UNUSED_TIMEOUT };
        self.unused_since.map(|since| since + timeout)
    }

    /// Closes the connection when nobody needs it any more: at once when everything was acknowledged and no further
    /// stream can be expected, that is, at a client, or `at_once`; else when enough time has passed.
    pub(crate) fn close_when_useless(&mut self, now: Instant, at_once: bool) {
        let none_expected = at_once || self.inner.side().is_client();
        let unused = self.unused_since.is_some() && self.established;
        let done = unused && none_expected && (self.hasty || self.inner.streams().send_streams() == 0);
        if done || self.purpose_ends_at().is_some_and(|end| now >= end) {
            self.close(now, if self.hasty || !self.established { ABORTED } else { DONE });
        }
    }

    /// A user more.
    pub(crate) fn join(&mut self) {
        self.users += 1;
        self.unused_since = None;
        self.hasty = false;
    }

    /// A user less; whether it was the last.
    pub(crate) fn leave(&mut self, now: Instant) -> bool {
        self.users = self.users.saturating_sub(1);
        if self.users == 0 {
            self.unused_since = Some(now);
        }
        self.users == 0
    }

    /// Ends the connection without the library, whose state a panic has left unknown. Nothing is sent any more; the
    /// peer finds out by its idle timeout or by a stateless reset (RFC 9000, 10.3).
    pub(crate) fn break_down(&mut self, message: &str) {
        if !self.broken {
            self.broken = true;
            self.drained = true;
            self.opened.clear();
            let reason = TransportError::new(TransportErrorCode::INTERNAL_ERROR, message.to_owned());
            self.end(ConnectionError::TransportError(reason));
        }
    }

    /// Ends the connection now.
    pub(crate) fn close(&mut self, now: Instant, code: VarInt) {
        if !self.broken && !self.inner.is_closed() {
            self.inner.close(now, code, bytes::Bytes::new());
            self.end(ConnectionError::LocallyClosed);
        }
    }

    /// Threads to wake; to be called once the lock is released.
    pub(crate) fn take_wakeups(&mut self) -> Vec<Wakeup> {
        std::mem::take(&mut self.wakeups)
    }

    /// What happened to paths, from the beginning.
    pub(crate) fn events(&mut self) -> &[PathEvent] {
        for event in self.board.take_events() {
            let at = self.epoch.timestamp(event.at);
            let reason =
                event.trouble.map_or_else(|| "the preferred path is used again".to_owned(), in_words);
            let way = self.inner.network_path(event.path).ok();
            let way = way.and_then(|way| Some((event.path, way.local_ip()?.to_canonical(), way.remote())));
            let condition = event.trouble.map(Trouble::condition);
            self.log.record(at, way, None, PathEventKind::Scheduler { reason, condition });
        }
        self.log.events()
    }

    /// See [`Paths::all`].
    pub(crate) fn all_paths(&mut self) -> Vec<(PathId, KnownPath, PathStats)> {
        self.paths.all(&mut self.inner, &mut self.log, self.epoch.now())
    }

    /// Whether both ends agreed to several paths.
    pub(crate) fn is_multipath(&self) -> bool {
        self.inner.is_multipath_negotiated()
    }

    /// The interfaces as they are, before the connection begins.
    pub(crate) fn set_interfaces(&mut self, interfaces: Vec<PathInput>) {
        self.interfaces = interfaces;
    }

    /// Changes of this host's interfaces, to be looked at in the next turn.
    pub(crate) fn on_link_changes(&mut self, changes: impl IntoIterator<Item = NoticedChange>) {
        self.link_changes.extend(changes);
    }

    /// Has something done about the paths.
    fn with_paths(&mut self, now: Instant, act: impl FnOnce(&mut Paths, &mut Surroundings<'_>)) {
        let is_trusted = self.is_trusted();
        let mut around = Surroundings {
            inner: &mut self.inner,
            board: &self.board,
            log: &mut self.log,
            instant: now,
            now: self.epoch.timestamp(now),
            by_driver: self.by_driver,
            is_trusted,
        };
        act(&mut self.paths, &mut around);
    }

    /// Sees to the paths. Before the handshake is complete nothing can be done about them.
    fn tend_paths(&mut self, now: Instant) {
        if !self.established || self.ended.is_some() {
            return;
        }
        let changes = std::mem::take(&mut self.link_changes);
        self.with_paths(now, |paths, around| {
            for change in changes {
                paths.on_link_change(change, around);
            }
            paths.tend(around);
        });
    }

    fn take_note(&mut self, event: Event, now: Instant) {
        match event {
            Event::Connected => {
                self.established = true;
                let interfaces = std::mem::take(&mut self.interfaces);
                self.with_paths(now, |paths, around| paths.on_connected(interfaces, around));
                self.wakeups.push(Wakeup::Connection);
            }
            Event::ConnectionLost { reason } => self.end(reason),
            Event::Stream(event) => self.take_note_of_stream(&event),
            Event::Path(event) => {
                self.with_paths(now, |paths, around| paths.on_path_event(&event, around));
                if let Some(reason) = self.paths.excess().filter(|_| self.ended.is_none()) {
                    let code = TransportErrorCode::APPLICATION_ERROR;
                    self.end(TransportError::new(code, reason.to_owned()).into());
                    self.close(now, ABORTED);
                }
            }
            _ => {}
        }
    }

    fn take_note_of_stream(&mut self, event: &StreamEvent) {
        match *event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(id) = self.inner.streams().accept(Dir::Bi) {
                    self.opened.push(id);
                }
            }
            StreamEvent::Readable { id } => {
                let waiting = |stream: &&mut StreamState| stream.readers > 0 && !stream.readers_called;
                if let Some(stream) = self.streams.get_mut(&id).filter(waiting) {
                    stream.readers_called = true;
                    self.wakeups.push(Wakeup::Readers(Arc::clone(&stream.signals)));
                }
            }
            StreamEvent::Writable { id } => self.wake_writers(id),
            StreamEvent::Stopped { id, .. } => {
                self.wake_writers(id);
                if !self.streams.contains_key(&id) {
                    // Nobody is left at this end who could notice; the library waits for it.
                    let _ = self.inner.send_stream(id).reset(ABORTED);
                }
            }
            StreamEvent::Available { dir: Dir::Bi } => self.wakeups.push(Wakeup::Connection),
            _ => {}
        }
    }

    fn wake_writers(&mut self, id: StreamId) {
        let waiting = |stream: &&mut StreamState| stream.writers > 0 && !stream.writers_called;
        if let Some(stream) = self.streams.get_mut(&id).filter(waiting) {
            stream.writers_called = true;
            self.wakeups.push(Wakeup::Writers(Arc::clone(&stream.signals)));
        }
    }

    fn end(&mut self, reason: ConnectionError) {
        self.ended.get_or_insert(reason);
        for stream in self.streams.values() {
            self.wakeups.push(Wakeup::Readers(Arc::clone(&stream.signals)));
            self.wakeups.push(Wakeup::Writers(Arc::clone(&stream.signals)));
        }
        self.wakeups.push(Wakeup::Connection);
    }
}

fn in_words(trouble: Trouble) -> String {
    let ms = |duration: Duration| duration.as_millis();
    match trouble {
        Trouble::SlowPath { srtt } => format!("smoothed RTT of the preferred path is {} ms", ms(srtt)),
        Trouble::Timeout { since } => {
            format!(
                "nothing was acknowledged on the preferred path for {} ms, and there is new data",
                ms(since)
            )
        }
        Trouble::LongTimeout { rto } => {
            format!("retransmission timeout of the preferred path is {} ms", ms(rto))
        }
    }
}
