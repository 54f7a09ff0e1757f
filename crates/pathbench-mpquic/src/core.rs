//! One connection: the library's state machine, its paths and its streams. No threads, locks, sockets or clock.

mod streams;

pub use self::streams::{Read, StreamEnd};

use self::streams::StreamState;
use crate::configuration::{CONNECTION_WINDOW_BYTES, ConnectionSettings, Instruments};
use crate::path_event::{FIRST_EVENTS, MAX_EVENTS, PathLog};
use crate::path_manager::PathInput;
use crate::paths::{PathContext, Paths};
use crate::scheduler::{Board, Trouble};
use crate::send_buffer::{HeldBytes, SendWindow};
use crate::time::Epoch;
use noq_proto::{
    Connection, ConnectionError, ConnectionEvent, ConnectionHandle, Dir, EndpointEvent, Event, PathId,
    PathStatus, StreamEvent, StreamId, Transmit, TransportError, TransportErrorCode, VarInt,
};
use pathbench_record::address::canonical;
use pathbench_record::connection::{PathEvent, PathEventKind};
use pathbench_record::sample::PathFigures;
use pathbench_record::time::Timestamp;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Datagrams in one system call at most; the socket splits what is too long for an IP packet.
const BATCH: NonZeroUsize = NonZeroUsize::new(44).unwrap();
/// Least size of a datagram that begins a connection (RFC 9000, 14.1).
const INITIAL_BYTES: u64 = 1200;
/// A connection that its users are done with is closed after this, even when not everything was acknowledged.
pub const LINGER: Duration = Duration::from_secs(1);
/// A handshake that takes longer is given up by the server.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A server ends a connection on which there was no stream for this long.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(30);
/// The same of one that has carried a test: its slot is wanted.
const SPENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Application error codes: the end in good order, and the end without regard for data.
const DONE: VarInt = VarInt::from_u32(0);
const ABORTED: VarInt = VarInt::from_u32(1);

/// What a [`Core`] has done outside: sockets, and the endpoint that all connections of a host share.
pub trait Driver {
    fn send(&mut self, socket: SocketId, transmit: &Transmit, contents: &[u8]);

    /// Opens a socket on the interface, bound to `local` and connected to `remote`. Called in turns of [`Turn::Whole`]
    /// only: sockets belong to the network namespace of the thread that opens them.
    ///
    /// # Errors
    /// The step that failed and the kernel's answer.
    fn open_socket(
        &mut self,
        interface: &str,
        local: IpAddr,
        remote: SocketAddr,
    ) -> Result<LocalSocket, String>;

    fn close_socket(&mut self, socket: SocketId);

    /// Hands an event to the library's endpoint, and returns its answer.
    fn on_endpoint_event(&mut self, event: EndpointEvent) -> Option<ConnectionEvent>;
}

/// A socket, as its [`Driver`] numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketId(pub u32);

/// A socket and the address it is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalSocket {
    pub id: SocketId,
    pub address: SocketAddr,
}

/// How much is done in a turn of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Everything, after all that has arrived was taken in.
    Whole,
    /// All but decisions about paths, by the user of a stream.
    Sending,
}

/// Somebody who waits has something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakeup {
    Reader(StreamId),
    Writer(StreamId),
    /// Whoever waits for the connection itself.
    Connection,
}

/// A change of one of this host's interfaces, and its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceChange {
    pub input: PathInput,
    pub description: String,
}

/// How a connection begins.
#[derive(Debug, Clone)]
pub struct Start {
    pub handle: ConnectionHandle,
    pub now: Timestamp,
    pub epoch: Epoch,
    pub remote: SocketAddr,
    /// The socket of the first path.
    pub socket: LocalSocket,
    /// At a client: which of the wanted paths the handshake takes.
    pub first_path: usize,
    pub interfaces: Vec<PathInput>,
    /// At a server: whether the client has proved to be at its address.
    pub is_address_validated: bool,
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts about a connection")]
pub struct Core {
    inner: Connection,
    board: Board,
    paths: Paths,
    streams: HashMap<StreamId, StreamState>,
    /// Streams that the peer opened and nobody has taken over yet.
    opened: Vec<StreamId>,
    established: bool,
    ended: Option<ConnectionError>,
    /// The library is done with it.
    drained: bool,
    /// The library's endpoint has forgotten it, and may give its handle to another one.
    is_forgotten: bool,
    /// Streams and sessions that hold it.
    users: usize,
    begun: Instant,
    /// Since when nobody holds it.
    unused_since: Option<Instant>,
    /// A panic in the middle of a call into the library: it must not be called again.
    broken: bool,
    /// Close without waiting for acknowledgements.
    hasty: bool,
    log: PathLog,
    interface_changes: Vec<InterfaceChange>,
    /// Until the handshake is complete: the interfaces as they were when the connection began.
    interfaces: Vec<PathInput>,
    /// At a server: nothing proves yet that the client is at the address it says.
    unproved: bool,
    wakeups: Vec<Wakeup>,
    send_window: SendWindow,
    epoch: Epoch,
    handle: ConnectionHandle,
    buffer: Vec<u8>,
    /// MTU probes that wait until there is room for them.
    held: Vec<HeldProbe>,
    unacknowledged: HeldBytes,
    /// Of streams without a user at this end, nothing of which is known to be freed.
    copied_of_released: u64,
    /// Writers wait until the library has freed something.
    held_back: bool,
    /// At a server: this connection carries a test, or did, and may hold as much as that takes.
    has_test: bool,
}

#[derive(Debug)]
struct HeldProbe {
    at: Instant,
    transmit: Transmit,
    contents: Vec<u8>,
}

impl Core {
    /// A connection that the library has begun with the configuration of these settings and instruments.
    pub fn new(
        inner: Connection,
        instruments: Instruments,
        settings: &ConnectionSettings,
        start: Start,
    ) -> Self {
        let is_client = inner.side().is_client();
        let begun = start.epoch.instant(start.now);
        let Instruments { board, meter } = instruments;
        Self {
            paths: Paths::new(&settings.quic, is_client, &start, meter),
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
            log: PathLog::of(if is_client { MAX_EVENTS } else { FIRST_EVENTS }),
            interface_changes: Vec::new(),
            interfaces: start.interfaces,
            unproved: !is_client && !start.is_address_validated,
            wakeups: Vec::new(),
            send_window: settings.send_window(),
            epoch: start.epoch,
            handle: start.handle,
            buffer: Vec::new(),
            held: Vec::new(),
            unacknowledged: HeldBytes::default(),
            copied_of_released: 0,
            held_back: false,
            has_test: false,
        }
    }

    /// The library's state. What its user changes takes effect in the next turn.
    #[inline]
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.inner
    }

    /// How many paths this end knows, sums of closed ones it keeps, and paths the peer wants as backup: what the tests of
    /// their bounds look at.
    #[doc(hidden)]
    pub fn kept_path_state(&self) -> [usize; 3] {
        self.paths.kept_state()
    }

    /// Whether the peer's status of a path is another one than before, as for the library's event.
    #[doc(hidden)]
    pub fn changes_path_status(&mut self, id: PathId, status: PathStatus) -> bool {
        self.paths.changes_status(id, status, &self.inner)
    }

    pub fn handle(&self) -> ConnectionHandle {
        self.handle
    }

    pub fn is_client(&self) -> bool {
        self.inner.side().is_client()
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.established
    }

    pub fn ended(&self) -> Option<&ConnectionError> {
        self.ended.as_ref()
    }

    /// Whether nothing is left to do.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Whether the library must not be called any more; see [`Core::break_down`].
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Lets the peer send as much as a test takes.
    pub fn begin_test(&mut self) {
        self.has_test = true;
        self.inner.set_receive_window(CONNECTION_WINDOW_BYTES.into());
        self.board.lend_receive_window(CONNECTION_WINDOW_BYTES.into());
        self.log.keep(MAX_EVENTS);
    }

    /// Whether it carries a test, or did.
    pub fn has_test(&self) -> bool {
        self.has_test
    }

    /// Whether it may hold as much as a test takes: at a client always.
    fn is_trusted(&self) -> bool {
        self.has_test || self.is_client()
    }

    /// Whether the library's endpoint has still to be notified that the connection is drained. From then on it has.
    pub fn forget(&mut self) -> bool {
        self.broken && !std::mem::replace(&mut self.is_forgotten, true)
    }

    /// Does everything that is due: timers, packets to send, events. `true` when there is more to send at once than
    /// `most_datagrams`.
    pub fn turn(
        &mut self,
        driver: &mut dyn Driver,
        now: Timestamp,
        turn: Turn,
        most_datagrams: usize,
    ) -> bool {
        if self.drained {
            return false;
        }
        let more = self.work(driver, self.epoch.instant(now), turn, most_datagrams);
        self.end_holding_back();
        if self.has_test && self.inner.is_closed() && !self.drained {
            // The library would keep all it has for three PTOs, which the peer can make long. A late packet gets a
            // stateless reset (RFC 9000 section 10.3).
            self.drained = true;
            self.is_forgotten = true;
            driver.on_endpoint_event(EndpointEvent::drained());
        }
        more
    }

    fn work(&mut self, driver: &mut dyn Driver, now: Instant, turn: Turn, most_datagrams: usize) -> bool {
        let mut datagrams = 0;
        if turn == Turn::Whole {
            self.tend_paths(driver, now);
        }
        if let Some(bytes) = self.send_window.follow(self.board.cwnd_bytes()) {
            // Streams that wait for room are notified by the events below.
            self.inner.set_send_window(bytes);
        }
        for probe in self.held.extract_if(.., |probe| probe.at <= now) {
            driver.send(self.paths.socket_from(probe.transmit.src_ip), &probe.transmit, &probe.contents);
        }
        loop {
            let mut progress = false;
            if self.inner.poll_timeout().is_some_and(|due| due <= now) {
                self.inner.handle_timeout(now);
                progress = true;
            }
            while datagrams < most_datagrams {
                while self.send_small_ping(driver, now) {
                    progress = true;
                }
                let sent = self.transmit(driver, now, most_datagrams);
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
                if let Some(answer) = driver.on_endpoint_event(event) {
                    self.inner.handle_event(answer);
                }
            }
            while let Some(event) = self.inner.poll() {
                self.on_event(event, driver, now, turn);
                progress = true;
            }
            if datagrams >= most_datagrams {
                return true;
            }
            if !progress {
                return false;
            }
        }
    }

    fn transmit(&mut self, driver: &mut dyn Driver, now: Instant, most_datagrams: usize) -> usize {
        self.buffer.clear();
        // One by one as long as each may be too much.
        let most = NonZeroUsize::new(most_datagrams).unwrap_or(BATCH);
        let batch = if self.unproved { NonZeroUsize::MIN } else { BATCH.min(most) };
        let transmit = self.board.poll_transmit(&mut self.inner, now, batch, &mut self.buffer);
        let Some(transmit) = transmit else { return 0 };
        let datagrams = transmit.segment_size.map_or(1, |size| transmit.size.div_ceil(size.max(1)));
        if self.unproved && self.exceeds_allowance() {
            // To the library they are lost.
            return datagrams;
        }
        self.hand_over(driver, transmit);
        datagrams
    }

    /// Sends a small PING on a path that is due to have one; whether there was one.
    fn send_small_ping(&mut self, driver: &mut dyn Driver, now: Instant) -> bool {
        self.buffer.clear();
        let transmit = self.board.poll_small_ping(&mut self.inner, now, &mut self.buffer);
        transmit.map(|transmit| self.hand_over(driver, transmit)).is_some()
    }

    fn hand_over(&mut self, driver: &mut dyn Driver, transmit: Transmit) {
        let contents = self.buffer.get(..transmit.size).unwrap_or_default();
        if let Some(at) = self.board.take_hold() {
            return self.held.push(HeldProbe { at, transmit, contents: contents.to_vec() });
        }
        driver.send(self.paths.socket_from(transmit.src_ip), &transmit, contents);
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

    /// When [`Core::turn`] must be called again at the latest.
    pub fn next_deadline(&self, now: Timestamp) -> Option<Timestamp> {
        if self.drained {
            return None;
        }
        let end = self.purpose_ends_at().filter(|_| !self.inner.is_closed());
        let tend = self.paths.next_timeout().filter(|_| self.established && self.ended.is_none());
        let tend = tend.map(|at| self.epoch.instant(at));
        let held = self.held.iter().map(|probe| probe.at).min();
        let board = self.board.next_deadline(self.epoch.instant(now));
        let deadlines = [self.inner.poll_timeout(), board, tend, end, held];
        deadlines.into_iter().flatten().min().map(|at| self.epoch.timestamp(at))
    }

    fn purpose_ends_at(&self) -> Option<Instant> {
        if self.is_client() {
            return self.unused_since.filter(|_| self.established).map(|since| since + LINGER);
        }
        if !self.established {
            return Some(self.begun + HANDSHAKE_TIMEOUT);
        }
        let timeout = if self.has_test { SPENT_TIMEOUT } else { UNUSED_TIMEOUT };
        self.unused_since.map(|since| since + timeout)
    }

    /// Closes the connection when nobody needs it any more: at once when everything was acknowledged and no further
    /// stream can be expected, that is, at a client, or `at_once`; else when enough time has passed.
    pub fn close_when_useless(&mut self, now: Timestamp, at_once: bool) {
        let now = self.epoch.instant(now);
        let none_expected = at_once || self.is_client();
        let unused = self.unused_since.is_some() && self.established;
        let done = unused && none_expected && (self.hasty || self.inner.streams().send_streams() == 0);
        if done || self.purpose_ends_at().is_some_and(|end| now >= end) {
            self.close(now, if self.hasty || !self.established { ABORTED } else { DONE });
        }
    }

    /// A user more: a stream or a session.
    pub fn join(&mut self) {
        self.users += 1;
        self.unused_since = None;
        self.hasty = false;
    }

    /// A user less; whether it was the last.
    pub fn leave(&mut self, now: Timestamp) -> bool {
        self.users = self.users.saturating_sub(1);
        if self.users == 0 {
            self.unused_since = Some(self.epoch.instant(now));
        }
        self.users == 0
    }

    /// Ends the connection without the library, whose state a panic has left unknown. Nothing is sent any more; the
    /// peer finds out by its idle timeout or by a stateless reset (RFC 9000, 10.3).
    pub fn break_down(&mut self, message: &str) {
        if !self.broken {
            self.broken = true;
            self.drained = true;
            self.opened.clear();
            let reason = TransportError::new(TransportErrorCode::INTERNAL_ERROR, message.to_owned());
            self.end(ConnectionError::TransportError(reason));
        }
    }

    /// Ends the connection now, without regard for data.
    pub fn abort_connection(&mut self, now: Timestamp) {
        self.close(self.epoch.instant(now), ABORTED);
    }

    fn close(&mut self, now: Instant, code: VarInt) {
        if !self.broken && !self.inner.is_closed() {
            self.inner.close(now, code, bytes::Bytes::new());
            self.end(ConnectionError::LocallyClosed);
        }
    }

    /// Who is to be woken since the last call.
    pub fn take_wakeups(&mut self) -> Vec<Wakeup> {
        std::mem::take(&mut self.wakeups)
    }

    /// What happened to paths, from the beginning.
    pub fn events(&mut self) -> &[PathEvent] {
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

    /// The sums of paths that were closed long ago, then the last closed paths and those there are.
    pub fn path_figures(&mut self, now: Timestamp) -> Vec<PathFigures> {
        self.paths.figures(&mut self.inner, &self.board, &mut self.log, (now, self.epoch.instant(now)))
    }

    /// Whether both ends agreed to several paths.
    pub fn is_multipath(&self) -> bool {
        self.inner.is_multipath_negotiated()
    }

    /// Where the first path, or the one that took its place, starts at this end.
    pub fn local_addr(&self) -> SocketAddr {
        let socket = self.paths.first_socket().address;
        let first = self.inner.paths().first().and_then(|path| self.inner.network_path(*path).ok());
        let ip = first.and_then(|way| way.local_ip()).unwrap_or(socket.ip());
        canonical(SocketAddr::new(ip, socket.port()))
    }

    /// Changes of this host's interfaces, to be looked at in the next turn.
    pub fn on_interface_changes(&mut self, changes: impl IntoIterator<Item = InterfaceChange>) {
        self.interface_changes.extend(changes);
    }

    fn with_paths(
        &mut self,
        (driver, now, turn): (&mut dyn Driver, Instant, Turn),
        act: impl FnOnce(&mut Paths, &mut PathContext<'_>),
    ) {
        let is_trusted = self.is_trusted();
        let mut context = PathContext {
            inner: &mut self.inner,
            board: &self.board,
            log: &mut self.log,
            driver,
            instant: now,
            now: self.epoch.timestamp(now),
            turn,
            is_trusted,
        };
        act(&mut self.paths, &mut context);
    }

    fn tend_paths(&mut self, driver: &mut dyn Driver, now: Instant) {
        if !self.established || self.ended.is_some() {
            return;
        }
        let changes = std::mem::take(&mut self.interface_changes);
        self.with_paths((driver, now, Turn::Whole), |paths, context| {
            for change in changes {
                paths.on_interface_change(change, context);
            }
            paths.tend(context);
        });
    }

    fn on_event(&mut self, event: Event, driver: &mut dyn Driver, now: Instant, turn: Turn) {
        match event {
            Event::Connected => {
                self.established = true;
                let interfaces = std::mem::take(&mut self.interfaces);
                self.with_paths((driver, now, turn), |paths, context| {
                    paths.on_connected(interfaces, context);
                });
                self.wakeups.push(Wakeup::Connection);
            }
            Event::ConnectionLost { reason } => self.end(reason),
            Event::Stream(event) => self.on_stream_event(&event),
            Event::Path(event) => {
                self.with_paths((driver, now, turn), |paths, context| paths.on_path_event(&event, context));
                if let Some(reason) = self.paths.excess().filter(|_| self.ended.is_none()) {
                    let code = TransportErrorCode::APPLICATION_ERROR;
                    self.end(TransportError::new(code, reason.to_owned()).into());
                    self.close(now, ABORTED);
                }
            }
            _ => {}
        }
    }

    fn on_stream_event(&mut self, event: &StreamEvent) {
        match *event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(id) = self.inner.streams().accept(Dir::Bi) {
                    self.opened.push(id);
                }
            }
            StreamEvent::Readable { id } => self.wake_reader(id),
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

    fn wake_reader(&mut self, id: StreamId) {
        if self.streams.get_mut(&id).is_some_and(|stream| std::mem::take(&mut stream.reader_waits)) {
            self.wakeups.push(Wakeup::Reader(id));
        }
    }

    fn wake_writers(&mut self, id: StreamId) {
        if self.streams.get_mut(&id).is_some_and(|stream| std::mem::take(&mut stream.writer_waits)) {
            self.wakeups.push(Wakeup::Writer(id));
        }
    }

    fn end(&mut self, reason: ConnectionError) {
        self.ended.get_or_insert(reason);
        self.wakeups.extend(self.streams.keys().flat_map(|id| [Wakeup::Reader(*id), Wakeup::Writer(*id)]));
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
