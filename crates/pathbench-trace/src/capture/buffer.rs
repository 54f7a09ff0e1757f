//! A window of the stream that a capture is read from.

use std::io::{self, Read};

const INITIAL_BYTES: usize = 512 << 10;
/// Unused bytes at the end below which the rest moves to the front before a read.
const LEAST_READ_BYTES: usize = 64 << 10;

/// A window of a stream: the bytes that were read and are not yet consumed, in one piece.
#[derive(Debug)]
pub(super) struct Buffer<S> {
    source: S,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `bytes[0]` in the stream.
    base: u64,
}

impl<S: Read> Buffer<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, bytes: vec![0; INITIAL_BYTES], start: 0, end: 0, base: 0 }
    }

    pub(super) fn source(&self) -> &S {
        &self.source
    }

    /// The buffer up to the last byte that was read; unread bytes begin at [`Self::start`].
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or_default()
    }

    #[inline]
    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    #[inline]
    pub(super) fn consume_to(&mut self, start: usize) {
        self.start = start.min(self.end);
    }

    /// Offset of the first unread byte.
    pub(super) fn position(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Reads until `needed` bytes are unread; false if the stream ends before. The caller bounds `needed`.
    pub(super) fn fill(&mut self, needed: usize) -> io::Result<bool> {
        if self.start > 0 && self.bytes.len() - self.end < LEAST_READ_BYTES.max(needed) {
            self.bytes.copy_within(self.start..self.end, 0);
            self.base += self.start as u64;
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < needed {
            if self.end == self.bytes.len() {
                // Grows with what has been read, not with a length that the file states.
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
            let read = self.source.read(self.bytes.get_mut(self.end..).unwrap_or_default())?;
            if read == 0 {
                return Ok(false);
            }
            self.end += read;
        }
        Ok(true)
    }
}
