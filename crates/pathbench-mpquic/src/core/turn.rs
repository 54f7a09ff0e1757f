//! A turn of a connection: all due work.

use super::state::{ABORTED, Core, DONE, HeldProbe, LINGER};
use crate::driver::{Driver, Turn, Wakeup};
use crate::library::scheduler::{SchedulerEvent, Trouble};
use crate::paths::{PathContext, Paths};
use noq_proto::{
    Dir, EndpointEvent, Event, StreamEvent, StreamId, Transmit, TransportError, TransportErrorCode,
};
use pathbench_record::connection::PathEventKind;
use pathbench_record::time::Timestamp;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Most datagrams in one system call; the socket splits a GSO packet that exceeds the length of an IP packet.
const BATCH: NonZeroUsize = NonZeroUsize::new(44).unwrap();
/// Most datagrams sent before received packets are processed again.
const TURN_DATAGRAMS: usize = 2 * BATCH.get();
/// Least size of a datagram with an Initial packet (RFC 9000, section 14.1).
const INITIAL_BYTES: u64 = 1200;
/// The server closes a connection with a longer handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A server closes a connection that had no stream for this long.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(30);
/// A shorter timeout for such a connection after a test: other clients may need its slot.
const SPENT_TIMEOUT: Duration = Duration::from_secs(2);

impl Core {
    /// Does all due work: timers, packets to send, events. `true` when there is more to send at once.
    pub fn turn(&mut self, driver: &mut dyn Driver, now: Timestamp, turn: Turn) -> bool {
        if self.drained {
            return false;
        }
        let more = self.work(driver, self.epoch.instant(now), turn);
        self.note_departures(self.epoch.instant(now));
        self.log_scheduler_events(driver, turn);
        self.end_holding_back();
        self.note_send_waits(self.epoch.instant(now));
        if self.has_test && self.inner.is_closed() && !self.drained {
            // The library would keep its memory for three PTOs, which the peer can prolong. A packet that arrives after
            // this gets a stateless reset (RFC 9000 section 10.3).
            self.drained = true;
            self.is_forgotten = true;
            driver.on_endpoint_event(EndpointEvent::drained());
        }
        more
    }

    fn work(&mut self, driver: &mut dyn Driver, now: Instant, turn: Turn) -> bool {
        let mut datagrams = 0;
        if turn == Turn::Whole {
            self.tend_paths(driver, now);
        }
        if let Some(bytes) = self.send_window.follow(self.board.cwnd_bytes()) {
            // The events below wake the writers that wait for the window.
            self.inner.set_send_window(bytes);
        }
        for probe in self.held.extract_if(.., |probe| probe.at <= now) {
            driver.send(self.paths.socket_from(probe.transmit.src_ip), &probe.transmit, &probe.contents);
        }
        self.send_copies(driver, now);
        loop {
            let mut progress = false;
            if self.inner.poll_timeout().is_some_and(|due| due <= now) {
                self.inner.handle_timeout(now);
                progress = true;
            }
            while datagrams < TURN_DATAGRAMS {
                while self.send_small_ping(driver, now) {
                    progress = true;
                }
                let sent = self.transmit(driver, now);
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
            if datagrams >= TURN_DATAGRAMS {
                return true;
            }
            if !progress {
                return false;
            }
        }
    }

    fn transmit(&mut self, driver: &mut dyn Driver, now: Instant) -> usize {
        self.buffer.clear();
        // Before address validation each datagram may exceed the limit, so they are sent one by one.
        let batch = if self.unproved { NonZeroUsize::MIN } else { BATCH };
        let transmit = self.board.poll_transmit(&mut self.inner, now, batch, &mut self.buffer);
        let Some(transmit) = transmit else { return 0 };
        let datagrams = transmit.segment_size.map_or(1, |size| transmit.size.div_ceil(size.max(1)));
        if self.unproved && self.exceeds_allowance() {
            // Not sent: the library will count them as lost.
            return datagrams;
        }
        self.hand_over(driver, transmit);
        datagrams
    }

    /// Sends a small PING if one is due on a path; whether a packet was sent.
    fn send_small_ping(&mut self, driver: &mut dyn Driver, now: Instant) -> bool {
        self.buffer.clear();
        let transmit = self.board.poll_small_ping(&mut self.inner, now, &mut self.buffer);
        transmit.map(|transmit| self.hand_over(driver, transmit)).is_some()
    }

    pub(super) fn hand_over(&mut self, driver: &mut dyn Driver, transmit: Transmit) {
        let contents = self.buffer.get(..transmit.size).unwrap_or_default();
        if let Some(at) = self.board.take_hold() {
            return self.held.push(HeldProbe { at, transmit, contents: contents.to_vec() });
        }
        driver.send(self.paths.socket_from(transmit.src_ip), &transmit, contents);
    }

    /// Whether the bytes sent to an unvalidated address exceed three times the bytes received from it (RFC 9000,
    /// section 8.1). The library checks the limit at the start of a datagram, so the last one can exceed it.
    fn exceeds_allowance(&mut self) -> bool {
        let given_up = self.inner.is_closed() && !self.established;
        self.unproved = self.inner.is_handshaking() || given_up;
        let stats = self.inner.stats();
        // The library does not count the first datagram here; with an Initial packet, it has at least this size.
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

    /// Closes the connection once it has no users. Closes at once when all data is acknowledged and no further stream
    /// can come (at a client, or with `at_once`), else after a timeout.
    pub fn close_when_useless(&mut self, now: Timestamp, at_once: bool) {
        let now = self.epoch.instant(now);
        let none_expected = at_once || self.is_client();
        let unused = self.unused_since.is_some() && self.established;
        let done = unused && none_expected && (self.hasty || self.inner.streams().send_streams() == 0);
        if done || self.purpose_ends_at().is_some_and(|end| now >= end) {
            self.close(now, if self.hasty || !self.established { ABORTED } else { DONE });
        }
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

    fn log_scheduler_events(&mut self, driver: &mut dyn Driver, turn: Turn) {
        for SchedulerEvent { at, path, trouble } in self.board.take_events() {
            let reason =
                trouble.map_or_else(|| "the preferred path is used again".to_owned(), Trouble::in_words);
            let kind = PathEventKind::Scheduler { reason, condition: trouble.map(Trouble::condition) };
            self.with_paths((driver, at, turn), |paths, context| paths.record(path, kind, context));
        }
    }

    fn tend_paths(&mut self, driver: &mut dyn Driver, now: Instant) {
        if !self.established || self.ended.is_some() {
            return;
        }
        let changes = std::mem::take(&mut self.interface_changes);
        self.with_paths((driver, now, Turn::Whole), |paths, context| {
            for change in changes {
                paths.on_interface_change(&change, context);
            }
            paths.tend(context);
        });
    }

    fn on_event(&mut self, event: Event, driver: &mut dyn Driver, now: Instant, turn: Turn) {
        match event {
            Event::Connected => {
                self.established = true;
                self.update_keys();
                self.with_paths((driver, now, turn), Paths::on_connected);
                self.wakeups.push(Wakeup::Connection);
            }
            Event::ConnectionLost { reason } => self.end(reason),
            Event::Stream(event) => self.on_stream_event(&event),
            Event::DatagramReceived => self.receive_datagrams(now),
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
                    // The stream has no user at this end that could reset it; the library waits for the reset.
                    let _ = self.inner.send_stream(id).reset(ABORTED);
                }
            }
            StreamEvent::Available { dir: Dir::Bi } => self.wakeups.push(Wakeup::Connection),
            _ => {}
        }
    }

    /// Updates the keys while the connection has one path. The library (noq 1.4.0) does so after 10 to 1,000 packets, and
    /// then compares packet numbers of different paths: packets that were sent before, and arrive later on a slower path,
    /// are not decrypted. Its next update is after millions of packets. A server's handshake is confirmed when it is
    /// complete (RFC 9001 section 4.1.2), as an update requires (section 6.1).
    fn update_keys(&mut self) {
        if !self.is_client() && self.inner.is_multipath_negotiated() {
            self.inner.force_key_update();
        }
    }

    fn wake_reader(&mut self, id: StreamId) {
        if self.streams.get_mut(&id).is_some_and(|stream| std::mem::take(&mut stream.reader_waits)) {
            self.wakeups.push(Wakeup::Reader(id));
        }
    }

    pub(super) fn wake_writers(&mut self, id: StreamId) {
        if self.streams.get_mut(&id).is_some_and(|stream| std::mem::take(&mut stream.writer_waits)) {
            self.wakeups.push(Wakeup::Writer(id));
        }
    }
}
