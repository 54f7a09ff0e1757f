//! One connection: the library's state machine, its paths and its streams. No threads, locks, sockets or clock.

use super::datagram_queues::DatagramQueues;
use super::send_waits::SendWaits;
use crate::configuration::{CONNECTION_WINDOW_BYTES, ConnectionSettings, Instruments};
use crate::driver::{InterfaceChange, Start, Wakeup};
use crate::library::scheduler::Board;
use crate::library::send_buffer::{CopiedBytes, HeldBytes, SendWindow};
use crate::library::stream_meter::StreamMeter;
use crate::path_event::{FIRST_EVENTS, MAX_EVENTS, PathLog};
use crate::paths::Paths;
use crate::time::Epoch;
use noq_proto::{
    Connection, ConnectionError, StreamId, Transmit, TransportError, TransportErrorCode, VarInt,
};
use pathbench_record::connection::PathEvent;
use pathbench_record::network::canonical;
use pathbench_record::sample::PathFigures;
use pathbench_record::time::Timestamp;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A connection without users is closed after this, even when data is still unacknowledged.
pub const LINGER: Duration = Duration::from_secs(1);
/// Application error codes: regular close, and close that drops unacknowledged data.
pub(super) const DONE: VarInt = VarInt::from_u32(0);
pub(super) const ABORTED: VarInt = VarInt::from_u32(1);

#[derive(Debug, Default)]
pub(super) struct StreamState {
    pub(super) reader_waits: bool,
    pub(super) writer_waits: bool,
    /// How receiving ended, since the library reports it only once.
    pub(super) received_all: Option<StreamEnd>,
    pub(super) copied: CopiedBytes,
    /// Bytes that the library took since the stream began.
    pub(super) written: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    Finished,
    /// The peer sent `RESET_STREAM`.
    Reset,
}

#[derive(Debug)]
pub(super) struct HeldProbe {
    pub(super) at: Instant,
    pub(super) transmit: Transmit,
    pub(super) contents: Vec<u8>,
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts about a connection")]
pub struct Core {
    pub(super) inner: Connection,
    pub(super) board: Board,
    pub(super) paths: Paths,
    pub(super) streams: HashMap<StreamId, StreamState>,
    /// Streams that the peer opened and this end has not accepted yet.
    pub(super) opened: Vec<StreamId>,
    pub(super) established: bool,
    pub(super) ended: Option<ConnectionError>,
    /// The library has drained the connection (RFC 9000, section 10.2).
    pub(super) drained: bool,
    /// The library's endpoint has removed the connection, and may reuse its handle.
    pub(super) is_forgotten: bool,
    /// Streams and sessions that use the connection.
    pub(super) users: usize,
    pub(super) begun: Instant,
    /// When the last user left.
    pub(super) unused_since: Option<Instant>,
    /// A call into the library panicked: the library must not be called again.
    pub(super) broken: bool,
    /// Close without waiting for acknowledgements.
    pub(super) hasty: bool,
    pub(super) log: PathLog,
    pub(super) interface_changes: Vec<InterfaceChange>,
    /// At a server: the client's address is not validated yet (RFC 9000, section 8.1).
    pub(super) unproved: bool,
    pub(super) wakeups: Vec<Wakeup>,
    pub(super) send_window: SendWindow,
    pub(super) epoch: Epoch,
    pub(super) buffer: Vec<u8>,
    /// MTU probes that wait for the path's queue to drain.
    pub(super) held: Vec<HeldProbe>,
    pub(super) unacknowledged: HeldBytes,
    /// Copied bytes of released streams, all counted as held.
    pub(super) copied_of_released: u64,
    /// Writers wait until the library frees sent data.
    pub(super) held_back: bool,
    /// At a server: the connection carries or carried a test, and may hold as much memory as a test needs.
    pub(super) has_test: bool,
    pub(super) meter: StreamMeter,
    pub(super) datagrams: DatagramQueues,
    pub(super) waits: SendWaits,
}

impl Core {
    /// `inner` is a connection that the library started with the configuration of these settings and instruments.
    pub fn new(
        inner: Connection,
        instruments: Instruments,
        settings: &ConnectionSettings,
        start: &Start,
    ) -> Self {
        let is_client = inner.side().is_client();
        let begun = start.epoch.instant(start.now);
        let Instruments { board, meter } = instruments;
        Self {
            paths: Paths::new(&settings.quic, is_client, start, meter.clone()),
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
            log: PathLog::new(if is_client { MAX_EVENTS } else { FIRST_EVENTS }),
            interface_changes: Vec::new(),
            unproved: !is_client && !start.is_address_validated,
            wakeups: Vec::new(),
            send_window: settings.send_window(),
            epoch: start.epoch,
            buffer: Vec::new(),
            held: Vec::new(),
            unacknowledged: HeldBytes::default(),
            copied_of_released: 0,
            held_back: false,
            has_test: false,
            meter,
            datagrams: DatagramQueues::default(),
            waits: SendWaits::default(),
        }
    }

    /// The library's state. A change takes effect in the next turn.
    #[inline]
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.inner
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

    /// Whether the library must not be called again; see [`Core::break_down`].
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Raises the flow control window, and the limit of the event log, to a test's.
    pub fn begin_test(&mut self) {
        self.has_test = true;
        self.inner.set_receive_window(CONNECTION_WINDOW_BYTES.into());
        self.board.lend_receive_window(CONNECTION_WINDOW_BYTES.into());
        self.log.keep(MAX_EVENTS);
    }

    /// Whether the connection carries or carried a test.
    pub fn has_test(&self) -> bool {
        self.has_test
    }

    /// Whether the connection may hold as much memory as a test needs; at a client always.
    pub(super) fn is_trusted(&self) -> bool {
        self.has_test || self.is_client()
    }

    /// Whether the library's endpoint must be notified now that the broken connection is drained; `true` only once.
    pub fn forget(&mut self) -> bool {
        self.broken && !std::mem::replace(&mut self.is_forgotten, true)
    }

    /// Adds a user: a stream or a session.
    pub fn join(&mut self) {
        self.users += 1;
        self.unused_since = None;
        self.hasty = false;
    }

    /// Removes a user; whether it was the last.
    pub fn leave(&mut self, now: Timestamp) -> bool {
        self.users = self.users.saturating_sub(1);
        if self.users == 0 {
            self.unused_since = Some(self.epoch.instant(now));
        }
        self.users == 0
    }

    /// Ends the connection without the library, whose state is unknown after a panic. Nothing more is sent; the peer's
    /// connection ends by its idle timeout or by a stateless reset (RFC 9000, section 10.3).
    pub fn break_down(&mut self, message: &str) {
        if !self.broken {
            self.broken = true;
            self.drained = true;
            self.opened.clear();
            let reason = TransportError::new(TransportErrorCode::INTERNAL_ERROR, message.to_owned());
            self.end(ConnectionError::TransportError(reason));
        }
    }

    /// Ends the connection now, and drops unacknowledged data.
    pub fn abort_connection(&mut self, now: Timestamp) {
        self.close(self.epoch.instant(now), ABORTED);
    }

    pub(super) fn close(&mut self, now: Instant, code: VarInt) {
        if !self.broken && !self.inner.is_closed() {
            self.inner.close(now, code, bytes::Bytes::new());
            self.end(ConnectionError::LocallyClosed);
        }
    }

    /// The wakeups since the last call.
    pub fn take_wakeups(&mut self) -> Vec<Wakeup> {
        std::mem::take(&mut self.wakeups)
    }

    /// The path events from the beginning.
    pub fn events(&self) -> &[PathEvent] {
        self.log.events()
    }

    /// The sums of the earlier closed paths, then the last closed paths and the present ones.
    pub fn path_figures(&mut self, now: Timestamp) -> Vec<PathFigures> {
        let mut figures = self.paths.figures(&mut self.inner, &self.board, (now, self.epoch.instant(now)));
        let [receive_window_us, send_buffer_us] = self.waits.micros(self.epoch.instant(now));
        for path in figures.iter_mut().filter(|path| path.closed_paths.is_none()) {
            path.receive_window_limited_us = Some(receive_window_us);
            path.send_buffer_limited_us = Some(send_buffer_us);
        }
        figures
    }

    /// Whether multipath was negotiated.
    pub fn is_multipath(&self) -> bool {
        self.inner.is_multipath_negotiated()
    }

    /// The local address of the first path, or of the path that replaced it.
    pub fn local_addr(&self) -> SocketAddr {
        let socket = self.paths.first_socket().address;
        let first = self.inner.paths().first().and_then(|path| self.inner.network_path(*path).ok());
        let ip = first.and_then(|route| route.local_ip()).unwrap_or(socket.ip());
        canonical(SocketAddr::new(ip, socket.port()))
    }

    /// Queues changes of this host's interfaces for the next turn.
    pub fn on_interface_changes(&mut self, changes: impl IntoIterator<Item = InterfaceChange>) {
        self.interface_changes.extend(changes);
    }

    pub(super) fn end(&mut self, reason: ConnectionError) {
        self.ended.get_or_insert(reason);
        self.wakeups.extend(self.streams.keys().flat_map(|id| [Wakeup::Reader(*id), Wakeup::Writer(*id)]));
        self.wakeups.push(Wakeup::Connection);
    }
}
