//! The streams of a connection: reading, writing, ending, and who waits for them.

use super::{ABORTED, Core, DONE, Wakeup};
use crate::quic::unacknowledged::{
    COPIED_BYTES, CopiedBytes, FIRST_HELD_BYTES, MOST_HELD_BYTES, PIECE_BYTES,
};
use bytes::Bytes;
use noq_proto::{FinishError, ReadError, ReadableError, StreamId, WriteError};
use std::sync::{Arc, Condvar};

/// Wakes the threads that wait for a stream.
#[derive(Debug, Default)]
pub(crate) struct StreamSignals {
    pub(crate) readable: Condvar,
    pub(crate) writable: Condvar,
}

/// A stream with a user at this end.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) signals: Arc<StreamSignals>,
    /// Threads that wait.
    pub(crate) readers: usize,
    pub(crate) writers: usize,
    /// They have been called since they began to wait.
    pub(crate) readers_called: bool,
    pub(crate) writers_called: bool,
    /// How receiving ended, for the library tells only once.
    pub(crate) received_all: Option<StreamEnd>,
    /// What the library has copied of what was sent.
    pub(crate) copied: CopiedBytes,
}

/// How receiving on a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// In good order.
    Finished,
    /// The peer took it back.
    Reset,
}

/// What came of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Blocked,
    /// Nothing more.
    End(StreamEnd),
}

impl Core {
    /// Copies what has arrived on a stream into `buffer`. The second value: whether the peer should be told that there
    /// is room again.
    pub(crate) fn read(&mut self, id: StreamId, buffer: &mut [u8]) -> (Read, bool) {
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
                    if let Some(place) = room.get_mut(..chunk.bytes.len()) {
                        place.copy_from_slice(&chunk.bytes);
                    }
                    filled += chunk.bytes.len();
                }
                Ok(None) => break Some(StreamEnd::Finished),
                Err(ReadError::Reset(_)) => break Some(StreamEnd::Reset),
                Err(ReadError::Blocked) => break None,
            }
        };
        let tell = chunks.finalize().should_transmit();
        stream.received_all = end;
        let read = match end {
            _ if filled > 0 => Read::Bytes(filled),
            Some(end) => Read::End(end),
            None => Read::Blocked,
        };
        (read, tell)
    }

    /// Hands bytes to a stream: how many were taken, or that the peer wants no more. `piece` is what the call before
    /// left over of the same bytes.
    pub(crate) fn write(
        &mut self,
        id: StreamId,
        bytes: &[u8],
        piece: &mut Bytes,
    ) -> Result<usize, StreamEnd> {
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
                }
                Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Err(StreamEnd::Reset),
            }
        }
        Ok(taken)
    }

    /// Whether the library holds so much that nothing more is to be handed to it.
    fn holds_too_much(&self) -> bool {
        let copied: u64 = self.streams.values().map(|stream| stream.copied.count()).sum();
        let most = if self.is_trusted() { MOST_HELD_BYTES } else { FIRST_HELD_BYTES };
        self.unacknowledged.count() + copied + self.copied_of_released >= most
    }

    /// Wakes writers that were held back, once the library has freed something.
    pub(super) fn end_holding_back(&mut self) {
        if self.held_back && !self.holds_too_much() {
            self.held_back = false;
            for id in self.streams.keys().copied().collect::<Vec<_>>() {
                self.wake_writers(id);
            }
        }
    }

    /// Ends sending on a stream in good order.
    pub(crate) fn finish(&mut self, id: StreamId) {
        if self.broken {
            return;
        }
        match self.inner.send_stream(id).finish() {
            Ok(()) | Err(FinishError::ClosedStream) => {}
            // The peer wants no more; what it has not got it will not get.
            Err(FinishError::Stopped(_)) => {
                let _ = self.inner.send_stream(id).reset(ABORTED);
            }
        }
    }

    /// Takes back what was sent on a stream and wants nothing more from it.
    pub(crate) fn abort(&mut self, id: StreamId) {
        if !self.broken {
            // Both fail only on a stream that is closed already, which is what is wanted.
            let _ = self.inner.send_stream(id).reset(ABORTED);
            let _ = self.inner.recv_stream(id).stop(ABORTED);
        }
        if let Some(stream) = self.streams.get(&id) {
            self.wakeups.push(Wakeup::Readers(Arc::clone(&stream.signals)));
            self.wakeups.push(Wakeup::Writers(Arc::clone(&stream.signals)));
        }
    }

    /// Lets go of a stream: the sending direction ends in good order, what may still arrive is not wanted.
    pub(crate) fn release(&mut self, id: StreamId) {
        self.finish(id);
        if !self.broken {
            let _ = self.inner.recv_stream(id).stop(DONE);
        }
        if let Some(stream) = self.streams.remove(&id) {
            self.copied_of_released += stream.copied.count();
        }
    }
}
