//! Frames over a connection, with bounded waiting.

use super::StreamError;
use crate::protocol::{Decoder, Event, Frame, MAX_HELLO_BYTES, record_header};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::{Connection, ReceiveError, SendError, Telemetry};
use std::net::SocketAddr;
use std::time::Duration;

/// Longest single blocking call: patience, deadlines and limits are looked at this often. Always the same, so
/// that no system call is spent on changing the socket's timeouts.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Enough for handshakes; test data gets a large buffer.
const SMALL_BUFFER_BYTES: usize = 8 * 1024;

/// Receive buffer for test data: the size that cost least per byte of 64 KiB to 1 MiB on an unshaped veth; larger
/// ones no longer stay in the processor's cache.
const DATA_BUFFER_BYTES: usize = 128 * 1024;

/// How long to go on waiting: until a deadline that nothing moves, and where silence says something, until nothing has
/// moved for some time before that.
pub(crate) struct Wait {
    begun: Timestamp,
    deadline: Timestamp,
    /// What the peer is to do by then; `None` where the deadline is the test's.
    task: Option<&'static str>,
    /// Silence that ends the wait, and since when there is silence.
    patience: Option<Duration>,
    silent_since: Timestamp,
    acknowledgements: Option<Acknowledgements>,
}

impl Wait {
    pub(crate) fn within(now: Timestamp, time: Duration, task: &'static str) -> Self {
        Self { task: Some(task), ..Self::until(now, now + time) }
    }

    pub(crate) const fn until(now: Timestamp, deadline: Timestamp) -> Self {
        Self { begun: now, deadline, task: None, patience: None, silent_since: now, acknowledgements: None }
    }

    pub(crate) fn or_silence(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    pub(crate) fn watching(self, acknowledgements: Option<Acknowledgements>) -> Self {
        Self { acknowledgements, ..self }
    }

    fn progressed(&mut self, now: Timestamp) {
        self.silent_since = now;
    }

    fn check(&mut self, now: Timestamp, peer: SocketAddr, doing: &'static str) -> Result<(), StreamError> {
        if now > self.deadline {
            return Err(match self.task {
                Some(task) => StreamError::TooLate { peer, task, after: now.since(self.begun) },
                None => StreamError::Overtime,
            });
        }
        if self.acknowledgements.as_mut().is_some_and(Acknowledgements::advanced) {
            self.progressed(now);
        }
        let silence = now.since(self.silent_since);
        match self.patience {
            Some(patience) if silence >= patience => Err(StreamError::Hung { peer, doing, silence }),
            _ => Ok(()),
        }
    }
}

/// One connection, its decoder, and what was received but not yet looked at.
pub(crate) struct Channel<'a> {
    connection: &'a Connection,
    clock: &'a dyn Clock,
    pub(super) decoder: Decoder,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    uncharged: usize,
}

impl<'a> Channel<'a> {
    /// A channel that takes HELLO-sized frames until [`Channel::accept_bodies_of`].
    pub(crate) fn new(connection: &'a Connection, clock: &'a dyn Clock) -> Self {
        Self {
            connection,
            clock,
            decoder: Decoder::new(MAX_HELLO_BYTES),
            buffer: vec![0; SMALL_BUFFER_BYTES],
            start: 0,
            end: 0,
            uncharged: 0,
        }
    }

    pub(crate) fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
    }

    pub(crate) fn accept_bodies_of(&mut self, bytes: usize) {
        self.decoder.set_body_limit(bytes);
    }

    pub(super) fn prepare_for_data(&mut self) {
        if self.buffer.len() < DATA_BUFFER_BYTES {
            self.buffer.resize(DATA_BUFFER_BYTES, 0);
        }
    }

    pub(super) fn unread(&mut self) -> (&[u8], &mut Decoder) {
        (&self.buffer[self.start..self.end], &mut self.decoder)
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    pub(super) fn take_uncharged(&mut self) -> usize {
        std::mem::take(&mut self.uncharged)
    }

    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Makes sure that something is unread; `false` when nothing came within a tick.
    fn fill(&mut self) -> Result<bool, StreamError> {
        self.fill_within(TICK, usize::MAX)
    }

    pub(super) fn fill_at_most(&mut self, most: usize) -> Result<bool, StreamError> {
        self.fill_within(TICK, most)
    }

    fn fill_within(&mut self, time: Duration, most: usize) -> Result<bool, StreamError> {
        if self.start < self.end {
            return Ok(true);
        }
        let most = most.min(self.buffer.len());
        match self.connection.receive(&mut self.buffer[..most], Some(time)) {
            Ok(0) => Err(StreamError::Closed { peer: self.connection.peer_addr() }),
            Ok(count) => {
                (self.start, self.end) = (0, count);
                self.uncharged += count;
                Ok(true)
            }
            Err(ReceiveError::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The next control frame, if the rest of it comes within `time` without a pause.
    pub(super) fn next_frame_within(&mut self, time: Duration) -> Result<Option<Frame>, StreamError> {
        while self.fill_within(time, usize::MAX)? {
            let (consumed, event) = self.decoder.decode(&self.buffer[self.start..self.end])?;
            self.consume(consumed);
            match event {
                Some(Event::Frame(frame)) => return Ok(Some(frame)),
                Some(Event::Payload(_)) => return Err(StreamError::unexpected_data("a message")),
                None if self.start == self.end => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }

    pub(crate) fn frame(&mut self, wait: &mut Wait) -> Result<Frame, StreamError> {
        loop {
            let came = self.fill()?;
            let now = self.clock.now();
            if came {
                let (consumed, event) = self.decoder.decode(&self.buffer[self.start..self.end])?;
                self.consume(consumed);
                wait.progressed(now);
                match event {
                    Some(Event::Frame(frame)) => return Ok(frame),
                    Some(Event::Payload(_)) => return Err(StreamError::unexpected_data("a control frame")),
                    None => {}
                }
            }
            wait.check(now, self.connection.peer_addr(), "waiting for the other end")?;
        }
    }

    pub(crate) fn write(&self, frame: &Frame, wait: &mut Wait) -> Result<(), StreamError> {
        write_frame(self.connection, self.clock, &frame.encode()?, wait)
    }

    pub(crate) fn write_record(&self, json: &[u8], wait: &mut Wait) -> Result<(), StreamError> {
        write_frame(self.connection, self.clock, &record_header(json.len() as u32), wait)?;
        write_frame(self.connection, self.clock, json, wait)
    }

    /// Waits at most `time` for the peer to close, discarding what still comes, so that closing on our side resets
    /// nothing.
    pub(crate) fn drain(&mut self, time: Duration) {
        let deadline = self.clock.now() + time;
        self.start = self.end;
        while let Ok(_more) = self.fill() {
            self.start = self.end;
            if self.clock.now() > deadline {
                return;
            }
        }
    }
}

pub(super) fn write_frame(
    connection: &Connection,
    clock: &dyn Clock,
    frame: &[u8],
    wait: &mut Wait,
) -> Result<(), StreamError> {
    let mut rest = frame;
    while !rest.is_empty() {
        match connection.send(rest, Some(TICK)) {
            Ok(count) => {
                rest = &rest[count..];
                wait.progressed(clock.now());
            }
            Err(SendError::TimedOut { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if !rest.is_empty() {
            wait.check(clock.now(), connection.peer_addr(), "sending")?;
        }
    }
    Ok(())
}

pub(crate) struct Acknowledgements {
    telemetry: Option<Telemetry>,
    acknowledged: u64,
}

impl Acknowledgements {
    /// Watches `connection` from now on. Where the kernel tells nothing, nothing counts as acknowledged.
    pub(crate) fn of(connection: &Connection) -> Self {
        let mut watch = Self { telemetry: connection.telemetry().ok(), acknowledged: 0 };
        watch.advanced();
        watch
    }

    pub(crate) fn advanced(&mut self) -> bool {
        let Some(Ok(snapshot)) = self.telemetry.as_mut().map(Telemetry::snapshot) else { return false };
        let acknowledged: u64 = snapshot.subflows.iter().map(|path| path.bytes_acked).sum();
        let advanced = acknowledged > self.acknowledged;
        self.acknowledged = acknowledged.max(self.acknowledged);
        advanced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    proptest! {
        #[test]
        fn no_progress_moves_a_deadline(gaps_ms in prop::collection::vec(1_u64..900, 20..200)) {
            let peer = SocketAddr::from(([192, 0, 2, 1], 1));
            let limit = Duration::from_secs(5);
            let silence = Duration::from_secs(1);
            let mut waits = [
                Wait::within(at(0), limit, "answer"),
                Wait::within(at(0), limit, "answer").or_silence(silence),
                Wait::until(at(0), at(5000)).or_silence(silence),
            ];
            let mut now_ms = 0;
            for gap_ms in gaps_ms {
                now_ms += gap_ms;
                for wait in &mut waits {
                    wait.progressed(at(now_ms));
                    prop_assert_eq!(wait.check(at(now_ms), peer, "waiting").is_err(), now_ms > 5000);
                }
            }
        }
    }

    #[test]
    fn silence_ends_a_wait_before_its_deadline_where_it_is_asked_about() {
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let limit = Duration::from_secs(5);
        let mut patient = Wait::within(at(0), limit, "answer");
        let mut impatient = Wait::within(at(0), limit, "answer").or_silence(Duration::from_secs(1));
        assert!(patient.check(at(4900), peer, "waiting").is_ok());
        let hung = impatient.check(at(1000), peer, "waiting").unwrap_err();
        assert!(matches!(hung, StreamError::Hung { .. }), "{hung}");
        let late = patient.check(at(5001), peer, "waiting").unwrap_err();
        assert_eq!(late.to_string(), "192.0.2.1:1 did not answer within 5.0 s");
    }
}
