//! A QUIC connection that threads share: one lock, and whoever changes something sees to what follows.

use super::capacity::ConnectionSlot;
use super::core::{Core, StreamSignals, StreamState, Wakeup};
use super::endpoint::Endpoint;
use super::link_watch::NoticedChange;
use super::socket::local_of;
use crate::mptcp_info::canonical;
use noq_proto::{ConnectionHandle, PathId, StreamId};
use pathbench_record::connection::{InForce, PathEvent};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// A QUIC connection.
#[derive(Debug)]
pub(crate) struct QuicConnection {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) handle: ConnectionHandle,
    peer: SocketAddr,
    core: Mutex<Core>,
    changed: Condvar,
    /// Something was done to it that the driver has to follow up.
    pending: AtomicBool,
    /// When it has to be looked at again, in nanoseconds of the clock.
    due_nanos: AtomicU64,
    established: AtomicBool,
    /// At a server: counts it among the connections there may be.
    _slot: Option<ConnectionSlot>,
}

impl QuicConnection {
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        handle: ConnectionHandle,
        peer: SocketAddr,
        core: Core,
        slot: Option<ConnectionSlot>,
    ) -> Self {
        Self {
            endpoint,
            handle,
            peer: canonical(peer),
            core: Mutex::new(core),
            changed: Condvar::new(),
            pending: AtomicBool::new(true),
            due_nanos: AtomicU64::new(u64::MAX),
            established: AtomicBool::new(false),
            _slot: slot,
        }
    }

    /// A panic of a thread that held the lock ends the connection.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| broken(poisoned.into_inner()))
    }

    /// Ends the connection without the library; see [`Core::break_down`].
    pub(crate) fn break_down(&self, message: &str) {
        let mut core = self.lock();
        core.break_down(message);
        let wakeups = core.take_wakeups();
        drop(core);
        self.wake(wakeups);
    }

    /// Waits for a change of the connection, at most `limit`.
    pub(crate) fn wait<'a>(&self, core: MutexGuard<'a, Core>, limit: Duration) -> MutexGuard<'a, Core> {
        wait(&self.changed, core, limit)
    }

    /// Where the first path, or the one that took its place, starts at this end.
    pub(crate) fn local_of(core: &Core) -> SocketAddr {
        let first = core.inner.paths().first().copied().unwrap_or(PathId::ZERO);
        let socket = core.paths.socket_from(None).map(|socket| socket.local_addr());
        let socket = socket.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        core.inner.network_path(first).map_or(canonical(socket), |way| local_of(&way, socket))
    }

    /// The peer's address when the connection began.
    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// What is in force on it.
    pub(crate) fn in_force(&self, core: &Core) -> InForce {
        let buffers = core.paths.socket_from(None).and_then(|socket| socket.buffers().ok());
        let (send_buffer_bytes, receive_buffer_bytes) = buffers.unwrap_or_default();
        InForce {
            protocol: self.transport(core).name().to_owned(),
            congestion: self.endpoint.settings().control.name().to_owned(),
            send_buffer_bytes,
            receive_buffer_bytes,
            no_delay: true,
            encryption: Some("TLS 1.3".to_owned()),
        }
    }

    /// `mpquic` where both ends agreed to several paths, or this end asked for them.
    pub(crate) fn transport(&self, core: &Core) -> Transport {
        let asked = core.inner.side().is_client() && self.endpoint.settings().multipath;
        if asked || core.inner.is_multipath_negotiated() { Transport::Mpquic } else { Transport::Quic }
    }

    /// What happened to its paths so far.
    pub(crate) fn path_events(&self) -> Vec<PathEvent> {
        self.lock().events().to_vec()
    }

    /// A new user of a stream: its signals.
    pub(crate) fn adopt(core: &mut Core, id: StreamId) -> Arc<StreamSignals> {
        core.join();
        let stream = StreamState::default();
        let signals = Arc::clone(&stream.signals);
        core.streams.insert(id, stream);
        signals
    }

    /// A user less; the last one at a client waits a little until the peer has everything.
    pub(crate) fn leave(&self, mut core: MutexGuard<'_, Core>) {
        let last = core.leave(self.endpoint.instant());
        let waits = last && core.inner.side().is_client() && core.ended.is_none();
        self.submit(core);
        if !waits {
            return;
        }
        let deadline = self.endpoint.now() + super::core::LINGER;
        let mut core = self.lock();
        while core.ended.is_none() {
            let left = deadline.since(self.endpoint.now());
            if left.is_zero() {
                return;
            }
            core = self.wait(core, left);
        }
    }

    /// Sees to what follows from a change: sends at once when the driver is asleep, else leaves it to the driver,
    /// which is at work anyway.
    pub(crate) fn submit(&self, mut core: MutexGuard<'_, Core>) {
        self.pending.store(true, Ordering::Release);
        if self.endpoint.is_driver_asleep() {
            let more = self.turn(&mut core, false);
            let wakeups = core.take_wakeups();
            let unfinished = more || !core.opened.is_empty() || core.drained;
            drop(core);
            self.wake(wakeups);
            self.endpoint.look_again(self.due(), unfinished);
        }
    }

    /// Does what is due. `true` when there is more to send at once. What depends on all having been taken in that has
    /// arrived is left to the driver.
    pub(crate) fn turn(&self, core: &mut Core, by_driver: bool) -> bool {
        if core.broken {
            self.due_nanos.store(u64::MAX, Ordering::Release);
            self.pending.store(false, Ordering::Release);
            return false;
        }
        let now = self.endpoint.instant();
        core.close_when_useless(now, self.endpoint.is_closing());
        let more = core.pump(self.endpoint.routing(), now, by_driver);
        if let Some(sockets) = core.paths.take_changed_sockets() {
            *self.endpoint.sockets() = sockets;
            self.endpoint.ring();
        }
        let due = if more { Some(now) } else { core.next_deadline(now) };
        let nanos = due.map_or(u64::MAX, |due| self.endpoint.timestamp(due).as_nanos());
        self.established.store(core.established, Ordering::Release);
        self.due_nanos.store(nanos, Ordering::Release);
        self.pending.store(more, Ordering::Release);
        more
    }

    /// Wakes threads; not to be called with the lock held.
    pub(crate) fn wake(&self, wakeups: Vec<Wakeup>) {
        for wakeup in wakeups {
            match wakeup {
                Wakeup::Readers(signals) => signals.readable.notify_all(),
                Wakeup::Writers(signals) => signals.writable.notify_all(),
                Wakeup::Connection => self.changed.notify_all(),
            }
        }
    }

    /// Changes of this host's interfaces, to be looked at in the next turn.
    pub(crate) fn on_link_changes(&self, changes: &[NoticedChange]) {
        self.lock().on_link_changes(changes.iter().cloned());
        self.pending.store(true, Ordering::Release);
    }

    /// Whether its handshake is complete.
    pub(crate) fn is_established(&self) -> bool {
        self.established.load(Ordering::Acquire)
    }

    /// Whether the driver has to look at it now.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.pending.load(Ordering::Acquire) || self.due() <= now
    }

    /// When it has to be looked at again.
    pub(crate) fn due(&self) -> Timestamp {
        Timestamp::from_nanos(self.due_nanos.load(Ordering::Acquire))
    }
}

/// Waits for a signal, at most `limit`.
pub(crate) fn wait<'a>(
    signal: &Condvar,
    core: MutexGuard<'a, Core>,
    limit: Duration,
) -> MutexGuard<'a, Core> {
    match signal.wait_timeout(core, limit) {
        Ok((core, _)) => core,
        Err(poisoned) => broken(poisoned.into_inner().0),
    }
}

/// A connection whose lock was held by a thread that panicked.
fn broken(mut core: MutexGuard<'_, Core>) -> MutexGuard<'_, Core> {
    core.break_down("a thread of this end panicked");
    core
}
