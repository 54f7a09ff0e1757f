//! Frames over a connection, with bounded waiting.

use super::error::StreamError;
use crate::meter::{Wait, WaitEnd};
use crate::protocol::{ControlFrame, DecodedEvent, Decoder, FrameKind, MAX_HELLO_BYTES, header};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::{Connection, ReceiveError, SendError};
use std::time::Duration;

/// Longest single blocking call: patience, deadlines and limits are checked at this interval. It is constant, so that
/// no system call changes the socket's timeouts.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Enough for handshakes; test data gets a large buffer.
const SMALL_BUFFER_BYTES: usize = 8 * 1024;

/// Receive buffer for test data: of 64 KiB to 1 MiB, this size costs least per byte on an unshaped veth; larger buffers
/// no longer fit into the processor's cache.
const DATA_BUFFER_BYTES: usize = 128 * 1024;

/// One connection, its decoder, and the received bytes that are not decoded yet.
pub(crate) struct StreamChannel<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) decoder: Decoder,
    pub(super) buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Received bytes that are not charged to the pacer yet.
    pub(super) uncharged: usize,
    /// The last call took everything that had arrived.
    pub(super) emptied: bool,
}

impl<'a> StreamChannel<'a> {
    /// A channel whose decoder accepts HELLO-sized frames.
    pub(crate) fn new(connection: &'a Connection, clock: &'a dyn Clock) -> Self {
        Self {
            connection,
            clock,
            decoder: Decoder::new(MAX_HELLO_BYTES),
            buffer: vec![0; SMALL_BUFFER_BYTES],
            start: 0,
            end: 0,
            uncharged: 0,
            emptied: false,
        }
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

    /// Receives up to `most` bytes if none are unread; `false` when nothing arrived within `time`.
    pub(super) fn fill(&mut self, time: Duration, most: usize) -> Result<bool, StreamError> {
        if self.start < self.end {
            return Ok(true);
        }
        let most = most.min(self.buffer.len());
        match self.connection.receive(&mut self.buffer[..most], Some(time)) {
            Ok(0) => Err(StreamError::Closed { peer: self.connection.peer_addr() }),
            Ok(count) => {
                (self.start, self.end) = (0, count);
                self.uncharged += count;
                self.emptied = count < most;
                Ok(true)
            }
            Err(ReceiveError::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) const fn has_unread(&self) -> bool {
        self.start < self.end
    }

    /// Discards up to `most` bytes of the connection, which has no unread ones; `None` when none arrived within `time`.
    pub(super) fn discard(&mut self, time: Duration, most: usize) -> Result<Option<usize>, StreamError> {
        match self.connection.discard(most, Some(time)) {
            Ok(0) => Err(StreamError::Closed { peer: self.connection.peer_addr() }),
            Ok(count) => {
                self.uncharged += count;
                self.emptied = count < most;
                Ok(Some(count))
            }
            Err(ReceiveError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Decodes the unread bytes; test data is not `expected`.
    fn decode(&mut self, expected: &'static str) -> Result<Option<ControlFrame>, StreamError> {
        let (consumed, event) = self.decoder.decode(&self.buffer[self.start..self.end])?;
        self.consume(consumed);
        match event {
            Some(DecodedEvent::Frame(frame)) => Ok(Some(frame)),
            Some(DecodedEvent::Payload(_)) => Err(StreamError::unexpected_data(expected)),
            None => Ok(None),
        }
    }

    /// The next control frame, if the rest of it arrives without a pause longer than `time`.
    pub(super) fn next_frame_within(&mut self, time: Duration) -> Result<Option<ControlFrame>, StreamError> {
        while self.fill(time, usize::MAX)? {
            let frame = self.decode("a message")?;
            if frame.is_some() || self.start == self.end {
                return Ok(frame);
            }
        }
        Ok(None)
    }

    pub(crate) fn frame(&mut self, wait: &mut Wait) -> Result<ControlFrame, StreamError> {
        loop {
            let came = self.fill(TICK, usize::MAX)?;
            let now = self.clock.now();
            if came {
                let frame = self.decode("a control frame")?;
                wait.progressed(now);
                if let Some(frame) = frame {
                    return Ok(frame);
                }
            }
            check(wait, now, self.connection, "waiting for the other end")?;
        }
    }

    /// Waits for a frame that can only be this one.
    pub(crate) fn expect(&mut self, expected: &ControlFrame, wait: &mut Wait) -> Result<(), StreamError> {
        let frame = self.frame(wait)?;
        if frame == *expected { Ok(()) } else { Err(StreamError::from_unexpected(expected.kind(), frame)) }
    }

    pub(crate) fn write(&self, frame: &ControlFrame, wait: &mut Wait) -> Result<(), StreamError> {
        write_frame(self.connection, self.clock, &frame.encode()?, wait)
    }

    pub(crate) fn write_record(&self, json: &[u8], wait: &mut Wait) -> Result<(), StreamError> {
        write_frame(self.connection, self.clock, &header(FrameKind::Record, 0, json.len() as u32), wait)?;
        write_frame(self.connection, self.clock, json, wait)
    }

    /// Waits at most `time` for the peer to close and discards received data, so that closing on this side does not
    /// reset the connection.
    pub(crate) fn drain(&mut self, time: Duration) {
        let deadline = self.clock.now() + time;
        self.start = self.end;
        while let Ok(_more) = self.fill(TICK, usize::MAX) {
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
            check(wait, clock.now(), connection, "sending")?;
        }
    }
    Ok(())
}

pub(super) fn check(
    wait: &mut Wait,
    now: Timestamp,
    connection: &Connection,
    doing: &'static str,
) -> Result<(), StreamError> {
    let peer = connection.peer_addr();
    wait.check(now).map_err(|end| match end {
        WaitEnd::TooLate { task, after } => StreamError::TooLate { peer, task, after },
        WaitEnd::Overtime => StreamError::Overtime,
        WaitEnd::Silence(silence) => StreamError::Hung { peer, doing, silence },
    })
}
