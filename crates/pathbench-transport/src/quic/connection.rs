//! A QUIC connection shared by threads, with one lock. The thread that changes the state sends the resulting datagrams.

use super::capacity::QuicSlot;
use super::endpoint::QuicEndpoint;
use super::socket::{Binding, QuicSocket};
use crate::containment::lock;
use noq_proto::{ConnectionEvent, ConnectionHandle, EndpointEvent, StreamId, Transmit};
use pathbench_mpquic::{Core, Driver, InterfaceChange, LINGER, LocalSocket, SocketId, Turn, Wakeup};
use pathbench_record::connection::{InForce, PathEvent};
use pathbench_record::network::{Client, canonical};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tracing::{Span, info_span};

#[derive(Debug)]
pub(crate) struct QuicConnection {
    pub(crate) endpoint: Arc<QuicEndpoint>,
    pub(crate) handle: ConnectionHandle,
    peer: SocketAddr,
    core: Mutex<Core>,
    sockets: Mutex<Sockets>,
    signals: Mutex<HashMap<StreamId, Arc<StreamSignals>>>,
    changed: Condvar,
    pending: AtomicBool,
    /// Time of the next turn, in nanoseconds of the clock.
    due_nanos: AtomicU64,
    /// Of the library's events.
    span: Span,
    /// At a server: the slot of the handshake, then that of the connection.
    slot: Mutex<Option<QuicSlot>>,
    has_left_handshake: AtomicBool,
    /// At a server: the slot of its test.
    test_slot: OnceLock<QuicSlot>,
    /// Makes the next turn panic.
    #[cfg(test)]
    pub(super) panics: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct StreamSignals {
    pub(crate) readable: Condvar,
    pub(crate) writable: Condvar,
}

/// The sockets of a connection with the ids by which the core addresses them.
#[derive(Debug)]
struct Sockets {
    open: Vec<(SocketId, Arc<QuicSocket>)>,
    count: u32,
    changed: bool,
}

struct TurnDriver<'a> {
    connection: &'a QuicConnection,
    sockets: MutexGuard<'a, Sockets>,
}

impl Driver for TurnDriver<'_> {
    fn send(&mut self, socket: SocketId, transmit: &Transmit, contents: &[u8]) {
        if let Some((_, socket)) = self.sockets.open.iter().find(|(id, _)| *id == socket) {
            socket.send(transmit, contents);
        }
    }

    fn open_socket(
        &mut self,
        interface: &str,
        local: IpAddr,
        remote: SocketAddr,
    ) -> Result<LocalSocket, String> {
        let route = Binding { interface: Some(interface), local: Some(local), remote };
        let socket = QuicSocket::connect(&route, &self.connection.endpoint.socket_options)
            .map_err(|error| format!("{}: {}", error.doing, error.source))?;
        let Sockets { open, count, changed } = &mut *self.sockets;
        let opened = LocalSocket { id: SocketId(*count), address: socket.local_addr() };
        open.push((opened.id, Arc::new(socket)));
        (*count, *changed) = (*count + 1, true);
        Ok(opened)
    }

    fn close_socket(&mut self, socket: SocketId) {
        self.sockets.open.retain(|(id, _)| *id != socket);
        self.sockets.changed = true;
    }

    fn on_endpoint_event(&mut self, event: EndpointEvent) -> Option<ConnectionEvent> {
        let connection = self.connection;
        connection.endpoint.with_library(|endpoint| endpoint.handle_event(connection.handle, event))
    }
}

pub(crate) const FIRST_SOCKET: SocketId = SocketId(0);

impl QuicConnection {
    pub(crate) fn new(
        endpoint: Arc<QuicEndpoint>,
        (handle, peer): (ConnectionHandle, SocketAddr),
        core: Core,
        socket: Arc<QuicSocket>,
        slot: Option<QuicSlot>,
    ) -> Self {
        Self {
            endpoint,
            handle,
            peer: canonical(peer),
            span: info_span!("connection", peer = %canonical(peer)),
            core: Mutex::new(core),
            sockets: Mutex::new(Sockets { open: vec![(FIRST_SOCKET, socket)], count: 1, changed: false }),
            signals: Mutex::default(),
            changed: Condvar::new(),
            pending: AtomicBool::new(true),
            due_nanos: AtomicU64::new(u64::MAX),
            has_left_handshake: AtomicBool::new(slot.is_none()),
            slot: Mutex::new(slot),
            test_slot: OnceLock::new(),
            #[cfg(test)]
            panics: AtomicBool::new(false),
        }
    }

    /// A panic of a thread that held the lock ends the connection.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| break_core(poisoned.into_inner()))
    }

    /// Ends the connection without the library; see [`Core::break_down`].
    pub(crate) fn break_down(&self, message: &str) {
        let mut core = self.lock();
        core.break_down(message);
        let wakeups = core.take_wakeups();
        drop(core);
        self.wake(wakeups);
    }

    pub(crate) fn wait<'a>(&self, core: MutexGuard<'a, Core>, limit: Duration) -> MutexGuard<'a, Core> {
        wait(&self.changed, core, limit)
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn in_force(&self, core: &Core) -> InForce {
        let buffers = lock(&self.sockets).open.first().and_then(|(_, socket)| socket.buffers().ok());
        let (send_buffer_bytes, receive_buffer_bytes) = buffers.unwrap_or_default();
        InForce {
            protocol: self.transport(core).name().to_owned(),
            congestion: self.endpoint.settings.control.name().to_owned(),
            send_buffer_bytes,
            receive_buffer_bytes,
            no_delay: true,
            encryption: Some("TLS 1.3".to_owned()),
        }
    }

    /// `mpquic` if this client requested multipath, or both ends negotiated it.
    pub(crate) fn transport(&self, core: &Core) -> Transport {
        let requested = core.is_client() && self.endpoint.settings.multipath;
        if requested || core.is_multipath() { Transport::Mpquic } else { Transport::Quic }
    }

    /// At a server, after the handshake: exchanges the slot of the handshake for one of the connection. Without a free
    /// one the connection and its streams end.
    pub(crate) fn leave_handshake(&self, core: &mut Core) {
        if !core.is_established() || self.has_left_handshake.swap(true, Ordering::AcqRel) {
            return;
        }
        let capacity = self.endpoint.capacity.as_ref();
        let slot = capacity.and_then(|capacity| capacity.connections.acquire(Client::from(self.peer.ip())));
        if let Some(slot) = slot {
            *lock(&self.slot) = Some(slot);
            return;
        }
        let now = self.endpoint.now();
        core.abort_connection(now);
        drop(core.take_opened());
        self.due_nanos.store(now.as_nanos(), Ordering::Release);
    }

    /// At a server: raises the connection's limits to those of a test, until the connection ends.
    pub(crate) fn begin_test(&self, core: &mut Core, slot: QuicSlot) {
        core.begin_test();
        // Set only here, under the core's lock.
        let _ = self.test_slot.set(slot);
    }

    pub(crate) fn path_events(&self) -> Vec<PathEvent> {
        self.lock().events().to_vec()
    }

    pub(crate) fn adopt(&self, core: &mut Core, id: StreamId) -> Arc<StreamSignals> {
        core.adopt(id);
        let signals = Arc::<StreamSignals>::default();
        lock(&self.signals).insert(id, Arc::clone(&signals));
        signals
    }

    pub(crate) fn release(&self, id: StreamId) {
        let mut core = self.lock();
        core.release(id);
        lock(&self.signals).remove(&id);
        self.leave(core);
    }

    /// Removes a user. The last one at a client waits up to [`LINGER`] for the end of the connection.
    pub(crate) fn leave(&self, mut core: MutexGuard<'_, Core>) {
        let last = core.leave(self.endpoint.now());
        let waits = last && core.is_client() && core.ended().is_none();
        self.submit(core);
        if !waits {
            return;
        }
        let deadline = self.endpoint.now() + LINGER;
        let mut core = self.lock();
        while core.ended().is_none() {
            let left = deadline.duration_since(self.endpoint.now());
            if left.is_zero() {
                return;
            }
            core = self.wait(core, left);
        }
    }

    /// Processes a change. If the driver sleeps, this thread sends the resulting datagrams; an awake driver sends them.
    pub(crate) fn submit(&self, mut core: MutexGuard<'_, Core>) {
        self.pending.store(true, Ordering::Release);
        if self.endpoint.is_driver_asleep() {
            let more = self.turn(&mut core, Turn::Sending);
            let wakeups = core.take_wakeups();
            let unfinished = more || core.has_opened() || core.is_drained();
            drop(core);
            self.wake(wakeups);
            self.endpoint.request_turn(self.due(), unfinished);
        }
    }

    /// Runs a turn of the core; `true` if more datagrams can be sent at once. Only the driver runs [`Turn::Whole`], after
    /// it has passed on all received datagrams.
    pub(crate) fn turn(&self, core: &mut Core, turn: Turn) -> bool {
        if core.is_broken() {
            self.due_nanos.store(u64::MAX, Ordering::Release);
            self.pending.store(false, Ordering::Release);
            return false;
        }
        #[cfg(test)]
        assert!(!self.panics.load(Ordering::Relaxed), "injected by a test");
        let _span = self.span.enter();
        let now = self.endpoint.now();
        core.close_when_useless(now, self.endpoint.is_closing());
        let mut driver = TurnDriver { connection: self, sockets: lock(&self.sockets) };
        let more = core.turn(&mut driver, now, turn);
        if std::mem::take(&mut driver.sockets.changed) {
            let sockets = driver.sockets.open.iter().map(|(_, socket)| Arc::clone(socket)).collect();
            *self.endpoint.sockets() = sockets;
            self.endpoint.wake_driver();
        }
        drop(driver);
        let due = if more { Some(now) } else { core.next_deadline(now) };
        let nanos = due.map_or(u64::MAX, Timestamp::as_nanos);
        self.due_nanos.store(nanos, Ordering::Release);
        self.pending.store(more, Ordering::Release);
        more
    }

    pub(crate) fn wake(&self, wakeups: Vec<Wakeup>) {
        for wakeup in wakeups {
            match wakeup {
                Wakeup::Reader(id) => {
                    if let Some(signals) = lock(&self.signals).get(&id) {
                        signals.readable.notify_all();
                    }
                }
                Wakeup::Writer(id) => {
                    if let Some(signals) = lock(&self.signals).get(&id) {
                        signals.writable.notify_all();
                    }
                }
                Wakeup::Connection => self.changed.notify_all(),
            }
        }
    }

    /// Queues changes of this host's interfaces for the next turn.
    pub(crate) fn on_interface_changes(&self, changes: &[InterfaceChange]) {
        self.lock().on_interface_changes(changes.iter().cloned());
        self.pending.store(true, Ordering::Release);
    }

    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.pending.load(Ordering::Acquire) || self.due() <= now
    }

    pub(crate) fn due(&self) -> Timestamp {
        Timestamp::from_nanos(self.due_nanos.load(Ordering::Acquire))
    }
}

/// Waits up to `limit` for a signal.
pub(crate) fn wait<'a>(
    signal: &Condvar,
    core: MutexGuard<'a, Core>,
    limit: Duration,
) -> MutexGuard<'a, Core> {
    match signal.wait_timeout(core, limit) {
        Ok((core, _)) => core,
        Err(poisoned) => break_core(poisoned.into_inner().0),
    }
}

/// A connection whose lock was held by a thread that panicked.
fn break_core(mut core: MutexGuard<'_, Core>) -> MutexGuard<'_, Core> {
    core.break_down("a thread of this end panicked");
    core
}
