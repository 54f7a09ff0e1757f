//! Sockets, the library's endpoint and the connections over them, with the thread that drives them.

use super::connection::QuicConnection;
use super::driver::Driver;
use super::link_watch::LinkWatch;
use super::server::Server;
use super::socket::PathSocket;
use crate::containment::contain_panic;
use crate::options::SocketOptions;
use noq_proto::ConnectionHandle;
use pathbench_mpquic::{ConnectionSettings, Epoch, Wakeup};
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Routing(Mutex<noq_proto::Endpoint>);

impl Routing {
    /// Held for a moment only; a connection's lock may be held already, never the other way round.
    ///
    /// # Panics
    /// When a thread panicked in here before: all connections depend on this state, so the driver must end.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut noq_proto::Endpoint) -> T) -> T {
        let mut endpoint = self.0.lock().expect("no panic has left the state of the QUIC endpoint unknown");
        act(&mut endpoint)
    }
}

pub(crate) struct Time {
    clock: Arc<dyn Clock>,
    epoch: Epoch,
}

impl Time {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let epoch = Epoch::starting(clock.now());
        Self { clock, epoch }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Time").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    time: Time,
    routing: Routing,
    settings: ConnectionSettings,
    socket_options: SocketOptions,
    server: Option<Server>,
    sockets: Mutex<Vec<Arc<PathSocket>>>,
    connections: Mutex<HashMap<ConnectionHandle, Arc<QuicConnection>>>,
    bell: OwnedFd,
    /// The driver waits for sockets, the bell or [`Endpoint::planned_nanos`].
    asleep: AtomicBool,
    /// Something was done that the driver has to follow up before it sleeps.
    pending: AtomicBool,
    planned_nanos: AtomicU64,
    closing: AtomicBool,
    refused: AtomicBool,
}

impl Endpoint {
    /// An endpoint that nobody drives yet.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(crate) fn new(
        time: Time,
        protocol: noq_proto::Endpoint,
        settings: ConnectionSettings,
        socket_options: SocketOptions,
        server: Option<Server>,
        sockets: Vec<Arc<PathSocket>>,
    ) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            time,
            routing: Routing(Mutex::new(protocol)),
            settings,
            socket_options,
            server,
            sockets: Mutex::new(sockets),
            connections: Mutex::default(),
            bell,
            asleep: AtomicBool::new(false),
            pending: AtomicBool::new(false),
            planned_nanos: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            refused: AtomicBool::new(false),
        })
    }

    /// Starts the thread that drives it, and tells its connections what changes on this host. It ends when the endpoint
    /// is closing and its last connection is over; a client's, when its connection is. A panic of it ends them all.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(crate) fn start(self: &Arc<Self>, links: Option<LinkWatch>) -> io::Result<()> {
        let driver = Driver::new(Arc::clone(self), links);
        let endpoint = Arc::clone(self);
        let drive = move || {
            if let Err(message) = contain_panic(|| driver.run()) {
                endpoint.fail(&message);
            }
        };
        thread::Builder::new().name("quic".to_owned()).spawn(drive).map(drop)
    }

    /// Ends every connection and the listener: the driver has ended.
    fn fail(&self, message: &str) {
        self.closing.store(true, Ordering::Release);
        self.asleep.store(false, Ordering::SeqCst);
        let connections = std::mem::take(&mut *self.connections());
        for connection in connections.values() {
            connection.break_down(&format!("the QUIC driver of this end panicked: {message}"));
        }
        if let Some(server) = &self.server {
            server.fail(message);
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.time.epoch()
    }

    pub(crate) fn socket_options(&self) -> &SocketOptions {
        &self.socket_options
    }

    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    pub(crate) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.time.now()
    }

    pub(crate) fn instant(&self) -> Instant {
        self.epoch().instant(self.now())
    }

    pub(crate) fn sockets(&self) -> MutexGuard<'_, Vec<Arc<PathSocket>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connections(&self) -> MutexGuard<'_, HashMap<ConnectionHandle, Arc<QuicConnection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that nothing new will be wanted, and has connections that nobody uses closed.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.ring();
    }

    /// Takes note of what the network told a socket (ICMP), which anyone can forge: it counts while connecting only.
    pub(crate) fn on_network_error(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionRefused && !self.refused.swap(true, Ordering::AcqRel) {
            for connection in self.connections().values() {
                connection.wake(vec![Wakeup::Connection]);
            }
        }
    }

    pub(crate) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Whether the driver sleeps, so that whoever changed something must see to it. When it does not, it will look
    /// once more before it does: each side writes its flag before it reads the other's.
    pub(crate) fn is_driver_asleep(&self) -> bool {
        self.pending.store(true, Ordering::SeqCst);
        self.asleep.load(Ordering::SeqCst)
    }

    /// Wakes the driver if it would sleep beyond `due`, or in any case.
    pub(crate) fn look_again(&self, due: Timestamp, in_any_case: bool) {
        if in_any_case || due.as_nanos() < self.planned_nanos.load(Ordering::Acquire) {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        // Fails only when the counter is full, that is, when it has been rung already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// For the driver: it is about to sleep until `planned`. `false` when there is something to do first.
    pub(crate) fn fall_asleep(&self, planned: Timestamp) -> bool {
        self.planned_nanos.store(planned.as_nanos(), Ordering::Release);
        self.asleep.store(true, Ordering::SeqCst);
        if self.pending.swap(false, Ordering::SeqCst) {
            self.asleep.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        let mut count = [0_u8; 8];
        // Empty unless the bell was rung.
        let _ = rustix::io::read(&self.bell, &mut count);
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
