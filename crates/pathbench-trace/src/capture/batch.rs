//! Frames that the reader has found in its buffer.

use super::damage::Damage;
use super::{Frame, InterfaceDescription};

/// Most frames of a batch.
const BATCH_FRAMES: usize = 64;

/// Where the search for packets stopped.
#[derive(Debug)]
pub(super) enum Step {
    /// The batch is full.
    Full,
    /// The next record or block needs so many bytes.
    More(usize),
    Damage(Damage),
}

/// A frame as offsets in the buffer, which cannot be borrowed while more of it is scanned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) time_ns: u64,
    pub(super) interface: u32,
    pub(super) original_length: u32,
    pub(super) start: u32,
    pub(super) length: u32,
    /// Offset and length.
    pub(super) comment: Option<(u32, u32)>,
}

/// The slots of a batch.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Slot>);

impl Slots {
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= BATCH_FRAMES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, slot: Slot) {
        self.0.push(slot);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// `bytes` are those of the buffer that was scanned; `None` without a frame.
    pub(super) fn batch<'a>(
        &'a self,
        bytes: &'a [u8],
        interfaces: &'a [InterfaceDescription],
        secrets: &'a [u8],
    ) -> Option<Batch<'a>> {
        (!self.is_empty()).then_some(Batch { bytes, slots: &self.0, interfaces, secrets })
    }
}

/// Frames that are in the reader's buffer at the same time.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    bytes: &'a [u8],
    slots: &'a [Slot],
    interfaces: &'a [InterfaceDescription],
    secrets: &'a [u8],
}

impl<'a> Batch<'a> {
    #[inline]
    pub fn iter(&self) -> Frames<'a> {
        Frames { bytes: self.bytes, slots: self.slots.iter() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// [`CaptureReader::interfaces`](super::CaptureReader::interfaces), as the batch borrows the reader.
    pub fn interfaces(&self) -> &'a [InterfaceDescription] {
        self.interfaces
    }

    /// TLS secrets of decryption secrets blocks since the last batch, as lines of `SSLKEYLOGFILE`.
    pub fn secrets(&self) -> &'a [u8] {
        self.secrets
    }
}

impl<'a> IntoIterator for &Batch<'a> {
    type Item = Frame<'a>;
    type IntoIter = Frames<'a>;

    #[inline]
    fn into_iter(self) -> Frames<'a> {
        self.iter()
    }
}

/// Iterates over the frames of a [`Batch`].
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    slots: std::slice::Iter<'a, Slot>,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    #[inline]
    fn next(&mut self) -> Option<Frame<'a>> {
        let slot = self.slots.next()?;
        let part = |start: u32, length: u32| {
            let start = start as usize;
            self.bytes.get(start..start + length as usize).unwrap_or_default()
        };
        Some(Frame {
            interface: slot.interface,
            time_ns: slot.time_ns,
            original_length: slot.original_length,
            bytes: part(slot.start, slot.length),
            comment: slot.comment.map(|(start, length)| part(start, length)),
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for Frames<'_> {}
