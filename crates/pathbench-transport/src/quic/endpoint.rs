//! The sockets and the library's endpoint, which all connections of a client or a listener share, and the sleep of
//! their driver.

use super::capacity::QuicCapacity;
use super::socket::QuicSocket;
use crate::containment::lock;
use crate::options::SocketOptions;
use pathbench_host::thread_time::ThreadClock;
use pathbench_mpquic::{ConnectionSettings, Epoch};
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct QuicEndpoint {
    clock: Arc<dyn Clock>,
    pub(super) epoch: Epoch,
    library: Mutex<noq_proto::Endpoint>,
    pub(super) settings: ConnectionSettings,
    pub(super) socket_options: SocketOptions,
    /// At a server: the slots of connections and tests.
    pub(super) capacity: Option<Arc<QuicCapacity>>,
    sockets: Mutex<Vec<Arc<QuicSocket>>>,
    pub(super) wakeup: OwnedFd,
    /// The driver waits for sockets, `wakeup` or [`QuicEndpoint::planned_nanos`].
    asleep: AtomicBool,
    /// A thread made a change that the driver must process before it sleeps.
    pending: AtomicBool,
    planned_nanos: AtomicU64,
    closing: AtomicBool,
    /// The sockets report when the kernel received each datagram.
    stamps: AtomicBool,
    refused: AtomicBool,
    /// The driver's thread, once it runs.
    pub(crate) driver: OnceLock<Arc<ThreadClock>>,
}

impl QuicEndpoint {
    /// Errors: the process has no file descriptor left.
    pub(crate) fn new(
        (clock, epoch): (Arc<dyn Clock>, Epoch),
        library: noq_proto::Endpoint,
        settings: ConnectionSettings,
        socket_options: SocketOptions,
        capacity: Option<Arc<QuicCapacity>>,
        sockets: Vec<Arc<QuicSocket>>,
    ) -> io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            clock,
            epoch,
            library: Mutex::new(library),
            settings,
            socket_options,
            capacity,
            sockets: Mutex::new(sockets),
            wakeup,
            asleep: AtomicBool::new(false),
            pending: AtomicBool::new(false),
            planned_nanos: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            stamps: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            driver: OnceLock::new(),
        })
    }

    /// Lock order: after a connection's lock, never before.
    ///
    /// # Panics
    /// A thread panicked while it held the lock: all connections depend on this state, so the driver must end.
    pub(crate) fn with_library<T>(&self, act: impl FnOnce(&mut noq_proto::Endpoint) -> T) -> T {
        let mut library =
            self.library.lock().expect("no panic has left the state of the QUIC endpoint unknown");
        act(&mut library)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// When the kernel received a datagram, from its stamp.
    pub(crate) fn arrived_at(&self, stamp: Option<Duration>) -> Option<Timestamp> {
        self.clock.convert_system_time(stamp?)
    }

    /// From now on, also on sockets that are opened later, arrival times are those of the kernel.
    pub(crate) fn stamp_arrivals(&self) {
        self.stamps.store(true, Ordering::Relaxed);
        self.wake_driver();
    }

    pub(crate) fn stamps_arrivals(&self) -> bool {
        self.stamps.load(Ordering::Relaxed)
    }

    pub(crate) fn sockets(&self) -> MutexGuard<'_, Vec<Arc<QuicSocket>>> {
        lock(&self.sockets)
    }

    /// Admits no more connections, and closes those without users.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake_driver();
    }

    /// Records an ICMP error that a socket returned; `true` for the first refusal. ICMP messages can be forged, so a
    /// refusal ends a handshake only.
    pub(crate) fn note_refusal(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::ConnectionRefused && !self.refused.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Whether the driver sleeps, so that the calling thread must send. An awake driver checks for changes once more
    /// before it sleeps: each side writes its flag before it reads the other's.
    pub(crate) fn is_driver_asleep(&self) -> bool {
        self.pending.store(true, Ordering::SeqCst);
        self.asleep.load(Ordering::SeqCst)
    }

    /// Wakes the driver if it would sleep beyond `due`, or unconditionally.
    pub(crate) fn request_turn(&self, due: Timestamp, unconditionally: bool) {
        if unconditionally || due.as_nanos() < self.planned_nanos.load(Ordering::Acquire) {
            self.wake_driver();
        }
    }

    pub(crate) fn wake_driver(&self) {
        // Fails only when the counter is full: the driver has been woken already.
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    /// The driver calls this before it sleeps until `planned`; `false` if it has a change to process first.
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
        // Empty unless a thread woke the driver.
        let _ = rustix::io::read(&self.wakeup, &mut count);
    }
}
