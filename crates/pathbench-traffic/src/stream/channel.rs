//! Frames over a connection, with bounded waiting.

use super::StreamError;
use super::acknowledgements::Acknowledgements;
use crate::protocol::{Decoder, Event, Frame, MAX_HELLO_BYTES};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::{Connection, ReceiveError, SendError};
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

/// How long to go on waiting.
pub(crate) struct Wait {
    since: Timestamp,
    patience: Duration,
    deadline: Option<Timestamp>,
    acknowledgements: Option<Acknowledgements>,
    /// Set for a wait that progress does not prolong: what is waited for.
    strictly_for: Option<&'static str>,
}

impl Wait {
    /// Until nothing has moved for `patience`, or `deadline`.
    pub(crate) const fn patient(now: Timestamp, patience: Duration, deadline: Option<Timestamp>) -> Self {
        Self { since: now, patience, deadline, acknowledgements: None, strictly_for: None }
    }

    /// At most `time`, whatever trickles in meanwhile.
    pub(crate) fn strict(now: Timestamp, time: Duration, what: &'static str) -> Self {
        Self { strictly_for: Some(what), ..Self::patient(now, time, None) }
    }

    /// Bytes acknowledged by the peer's kernel are progress, too.
    pub(crate) fn watching(self, acknowledgements: Option<Acknowledgements>) -> Self {
        Self { acknowledgements, ..self }
    }

    fn progressed(&mut self, now: Timestamp) {
        if self.strictly_for.is_none() {
            self.since = now;
        }
    }

    fn check(&mut self, now: Timestamp, peer: SocketAddr, doing: &'static str) -> Result<(), StreamError> {
        if self.deadline.is_some_and(|deadline| now > deadline) {
            return Err(StreamError::Overtime);
        }
        if self.acknowledgements.as_mut().is_some_and(Acknowledgements::advanced) {
            self.progressed(now);
        }
        let silence = now.since(self.since);
        match self.strictly_for {
            _ if silence < self.patience => Ok(()),
            Some(what) => Err(StreamError::TooLate { peer, what, after: silence }),
            None => Err(StreamError::Hung { peer, doing, silence }),
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
}

impl<'a> Channel<'a> {
    /// A channel that takes HELLO-sized frames until told otherwise.
    pub(crate) fn new(connection: &'a Connection, clock: &'a dyn Clock) -> Self {
        Self {
            connection,
            clock,
            decoder: Decoder::new(MAX_HELLO_BYTES),
            buffer: vec![0; SMALL_BUFFER_BYTES],
            start: 0,
            end: 0,
        }
    }

    pub(crate) fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// Takes control frames of up to `bytes` from now on.
    pub(crate) fn accept_bodies_of(&mut self, bytes: usize) {
        self.decoder.set_body_limit(bytes);
    }

    /// Makes room for test data.
    pub(super) fn prepare_for_data(&mut self) {
        if self.buffer.len() < DATA_BUFFER_BYTES {
            self.buffer.resize(DATA_BUFFER_BYTES, 0);
        }
    }

    /// Received and not consumed, and the decoder that reads it.
    pub(super) fn unread(&mut self) -> (&[u8], &mut Decoder) {
        (&self.buffer[self.start..self.end], &mut self.decoder)
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Makes sure that something is unread; `false` when nothing came within a tick.
    pub(super) fn fill(&mut self) -> Result<bool, StreamError> {
        self.fill_within(TICK)
    }

    fn fill_within(&mut self, time: Duration) -> Result<bool, StreamError> {
        if self.start < self.end {
            return Ok(true);
        }
        match self.connection.receive(&mut self.buffer, Some(time)) {
            Ok(0) => Err(StreamError::Closed { peer: self.connection.peer_addr() }),
            Ok(count) => {
                (self.start, self.end) = (0, count);
                Ok(true)
            }
            Err(ReceiveError::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The next control frame, if the rest of it comes within `time` without a pause.
    pub(super) fn next_frame_within(&mut self, time: Duration) -> Result<Option<Frame>, StreamError> {
        while self.fill_within(time)? {
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

    /// The next control frame.
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

    /// Writes a control frame.
    pub(crate) fn write(&self, frame: &Frame, wait: &mut Wait) -> Result<(), StreamError> {
        write_frame(self.connection, self.clock, &frame.encode()?, wait)
    }

    /// Waits for the peer to close, discarding what still comes, so that closing on our side resets nothing.
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

/// Writes an encoded frame.
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
