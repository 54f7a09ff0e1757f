//! The streams of a connection: reading, writing, ending, and waiting.

use super::send_waits::SendWait;
use super::state::{ABORTED, Core, DONE, StreamEnd, StreamState};
use crate::driver::Wakeup;
use crate::library::send_buffer::{COPIED_BYTES, FIRST_HELD_BYTES, MOST_HELD_BYTES, PIECE_BYTES};
use bytes::Bytes;
use noq_proto::{Dir, FinishError, ReadError, ReadableError, StreamId, WriteError};
use std::time::Instant;

/// Part of a fixed send buffer from which it counts as full, in percent: the library takes pieces of several packets.
const FULL_PERCENT: u64 = 90;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    Bytes(usize),
    Blocked,
    End(StreamEnd),
}

impl Core {
    /// Opens a stream; `None` while the peer's limit on streams is reached.
    pub fn open_stream(&mut self) -> Option<StreamId> {
        self.inner.streams().open(Dir::Bi)
    }

    /// Streams that the peer has opened since the last call.
    pub fn take_opened(&mut self) -> Vec<StreamId> {
        std::mem::take(&mut self.opened)
    }

    /// Whether streams that the peer opened wait to be accepted.
    pub fn has_opened(&self) -> bool {
        !self.opened.is_empty()
    }

    /// Adds the stream's user at this end, until [`Core::release`].
    pub fn adopt(&mut self, id: StreamId) {
        self.join();
        self.streams.insert(id, StreamState::default());
    }

    /// Rejects a stream that the peer opened: `RESET_STREAM` and `STOP_SENDING`.
    pub fn refuse(&mut self, id: StreamId) {
        // Both fail only on a stream that is closed already.
        let _ = self.inner.send_stream(id).reset(ABORTED);
        let _ = self.inner.recv_stream(id).stop(ABORTED);
    }

    /// Requests a [`Wakeup::Reader`] for when the stream has data to read.
    pub fn await_readable(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.reader_waits = true;
        }
    }

    /// Requests a [`Wakeup::Writer`] for when the stream can take data.
    pub fn await_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.writer_waits = true;
        }
    }

    /// Copies received data of a stream into `buffer`. The second value: whether the larger flow control window should
    /// be announced to the peer now.
    pub fn read(&mut self, id: StreamId, buffer: &mut [u8]) -> (Read, bool) {
        if self.broken {
            return (Read::Blocked, false);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return (Read::End(StreamEnd::Reset), false) };
        if let Some(end) = stream.received_all {
            return (Read::End(end), false);
        }
        let mut receiving = self.inner.recv_stream(id);
        let mut chunks = match receiving.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                stream.received_all = Some(StreamEnd::Reset);
                return (Read::End(StreamEnd::Reset), false);
            }
        };
        let mut filled = 0;
        let end = loop {
            let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) else { break None };
            match chunks.next(room.len()) {
                Ok(Some(chunk)) => {
                    if let Some(target) = room.get_mut(..chunk.bytes.len()) {
                        target.copy_from_slice(&chunk.bytes);
                    }
                    filled += chunk.bytes.len();
                }
                Ok(None) => break Some(StreamEnd::Finished),
                Err(ReadError::Reset(_)) => break Some(StreamEnd::Reset),
                Err(ReadError::Blocked) => break None,
            }
        };
        let notify = chunks.finalize().should_transmit();
        stream.received_all = end;
        let read = match end {
            _ if filled > 0 => Read::Bytes(filled),
            Some(end) => Read::End(end),
            None => Read::Blocked,
        };
        (read, notify)
    }

    /// Writes bytes to a stream; returns how many the library took, or that the peer stopped the stream. `piece` is the
    /// part of the same bytes that the last call left over.
    pub fn write(&mut self, id: StreamId, bytes: &[u8], piece: &mut Bytes) -> Result<usize, StreamEnd> {
        let Some(copied) = self.streams.get(&id).map(|stream| stream.copied.clone()) else {
            return Err(StreamEnd::Reset);
        };
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            if self.holds_too_much() {
                self.held_back = true;
                break;
            }
            if piece.is_empty() && rest.len() > COPIED_BYTES {
                *piece = self.unacknowledged.piece(&copied, &rest[..rest.len().min(PIECE_BYTES)]);
            }
            let mut sending = self.inner.send_stream(id);
            let written = if piece.is_empty() {
                sending.write(rest)
            } else {
                sending.write_chunks(&mut std::slice::from_mut(piece))
            };
            match written {
                Ok(count) => {
                    copied.note_written(count);
                    taken += count;
                    if let Some(stream) = self.streams.get_mut(&id) {
                        stream.written += count as u64;
                    }
                }
                Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Err(StreamEnd::Reset),
            }
        }
        Ok(taken)
    }

    /// Whether the library holds so much data that it must not get more.
    fn holds_too_much(&self) -> bool {
        self.held_bytes() >= if self.is_trusted() { MOST_HELD_BYTES } else { FIRST_HELD_BYTES }
    }

    /// An upper bound of the stream data that the library holds.
    pub fn held_bytes(&self) -> u64 {
        let copied: u64 = self.streams.values().map(|stream| stream.copied.count()).sum();
        self.unacknowledged.count() + copied + self.copied_of_released
    }

    pub(super) fn end_holding_back(&mut self) {
        if self.held_back && !self.holds_too_much() {
            self.held_back = false;
            for id in self.streams.keys().copied().collect::<Vec<_>>() {
                self.wake_writers(id);
            }
        }
    }

    /// Counts the time until the next turn as a wait of the present kind, if any.
    pub(super) fn note_send_waits(&mut self, now: Instant) {
        let wait = self.present_wait();
        self.waits.note(wait, now);
    }

    fn present_wait(&self) -> Option<SendWait> {
        if !self.established || self.held_back || self.ended.is_some() {
            return None;
        }
        let mut waiting = self.streams.iter().filter(|(_, stream)| stream.writer_waits).peekable();
        waiting.peek()?;
        let has_sent_all = waiting.all(|(id, stream)| self.meter.sent_end((*id).into()) >= stream.written);
        if !has_sent_all || !self.board.has_free_window() {
            return None;
        }
        let is_full = |bytes: u64| self.held_bytes() >= bytes.saturating_mul(FULL_PERCENT) / 100;
        let is_buffer = self.send_window.fixed_bytes().is_some_and(is_full);
        Some(if is_buffer { SendWait::SendBuffer } else { SendWait::ReceiveWindow })
    }

    /// Ends sending on a stream with a FIN.
    pub fn finish(&mut self, id: StreamId) {
        if self.broken {
            return;
        }
        match self.inner.send_stream(id).finish() {
            Ok(()) | Err(FinishError::ClosedStream) => {}
            // The peer sent STOP_SENDING.
            Err(FinishError::Stopped(_)) => {
                let _ = self.inner.send_stream(id).reset(ABORTED);
            }
        }
    }

    /// Aborts both directions of a stream: `RESET_STREAM` and `STOP_SENDING`.
    pub fn abort(&mut self, id: StreamId) {
        if !self.broken {
            self.refuse(id);
        }
        self.hasty |= self.streams.len() == 1;
        if self.streams.contains_key(&id) {
            self.wakeups.extend([Wakeup::Reader(id), Wakeup::Writer(id)]);
        }
    }

    /// Removes the stream's user: sends a FIN, and `STOP_SENDING` for the receiving direction.
    pub fn release(&mut self, id: StreamId) {
        self.finish(id);
        if !self.broken {
            let _ = self.inner.recv_stream(id).stop(DONE);
        }
        if let Some(stream) = self.streams.remove(&id) {
            self.copied_of_released += stream.copied.count();
        }
    }
}
