use super::buffer::Buffer;
use super::pcap::{FILE_HEADER_BYTES, Header, Pcap};
use super::pcapng::{Pcapng, SECTION_START_BYTES, Scan};
use super::source::{Compression, Source};
use super::{Frame, Interface};
use std::io::{self, Read};

/// Most frames of a batch.
const BATCH_FRAMES: usize = 64;
/// Longer packets are damage. Linux's largest GSO packets have 512 KiB (`GSO_MAX_SIZE`).
pub(super) const LARGEST_PACKET_BYTES: u32 = 16 << 20;

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("cannot read the file: {source}")]
    Io { source: io::Error },
    #[error("the file is empty")]
    Empty,
    #[error("not a capture file: requires pcap or pcapng, optionally compressed with gzip or zstd")]
    UnknownFormat,
    #[error("the file ends within its header, after {length} bytes")]
    Truncated { length: u64 },
    #[error("version {major}.{minor} of the pcap format is not supported; convert the file with editcap")]
    Version { major: u16, minor: u16 },
}

/// Why a file cannot be read any further. Offsets count uncompressed bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error("cannot read the file after byte {offset}: {source}")]
    Io { offset: u64, source: io::Error },
    #[error("the file ends within a {} at byte {offset}", format.unit())]
    Truncated { offset: u64, format: Format },
    #[error("the file is damaged at byte {offset}: {damage}")]
    Damaged { offset: u64, damage: Damage },
}

/// Bytes that are not in the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    #[error("a packet of {length} bytes, more than {LARGEST_PACKET_BYTES}")]
    PacketLength { length: u32 },
    #[error("a block of {length} bytes")]
    BlockLength { length: u32 },
    #[error("the two lengths of a block are not equal ({first} and {last} bytes)")]
    UnequalLengths { first: u32, last: u32 },
    #[error("a block of type {kind} is too short for its fields")]
    ShortBlock { kind: u32 },
    #[error("a packet of {length} bytes is longer than its block")]
    PacketBeyondBlock { length: u32 },
    #[error("an option list is longer than its block")]
    Options,
    #[error("option {code} has an invalid length")]
    Option { code: u16 },
    #[error("a packet of interface {interface}, but the section describes {described}")]
    UndefinedInterface { interface: u32, described: usize },
    #[error("a section without a byte-order magic")]
    ByteOrder,
    #[error("major version {major} of the pcapng format is not supported")]
    Version { major: u16 },
    #[error("more than {most} interfaces")]
    Interfaces { most: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Pcap,
    Pcapng,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Pcap => "packet record",
            Self::Pcapng => "block",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    #[inline]
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline]
    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(super) fn i64(self, bytes: [u8; 8]) -> i64 {
        match self {
            Self::Little => i64::from_le_bytes(bytes),
            Self::Big => i64::from_be_bytes(bytes),
        }
    }
}

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

    #[inline]
    pub(super) fn push(&mut self, slot: Slot) {
        self.0.push(slot);
    }
}

#[derive(Debug)]
enum Layout {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// Reads a capture file from start to end: pcap (draft-ietf-opsawg-pcap) with microseconds or nanoseconds, its variant
/// by Alexey Kuznetsov, or pcapng (draft-ietf-opsawg-pcapng), optionally compressed with gzip or zstd.
#[derive(Debug)]
pub struct Reader<R> {
    buffer: Buffer<Source<R>>,
    layout: Layout,
    interfaces: Vec<Interface>,
    slots: Slots,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the file's header. `source` needs no buffer of its own.
    pub fn open(source: R) -> Result<Self, OpenError> {
        let source = Source::open(source).map_err(|source| OpenError::Io { source })?;
        let mut buffer = Buffer::new(source);
        let reads = |buffer: &mut Buffer<_>, needed| match buffer.fill(needed) {
            Ok(true) => Ok(()),
            Ok(false) if buffer.unread().is_empty() => Err(OpenError::Empty),
            Ok(false) => Err(OpenError::Truncated { length: buffer.unread().len() as u64 }),
            Err(source) => Err(OpenError::Io { source }),
        };
        reads(&mut buffer, 4)?;
        let Some(magic) = buffer.unread().first_chunk::<4>() else { return Err(OpenError::UnknownFormat) };
        let mut interfaces = Vec::new();
        let layout = if let Some(pcap) = Pcap::of_magic(*magic) {
            reads(&mut buffer, FILE_HEADER_BYTES)?;
            let Some(bytes) = buffer.unread().first_chunk() else { return Err(OpenError::UnknownFormat) };
            let header = pcap.header(*bytes);
            interfaces.push(interface(header)?);
            buffer.consume_to(buffer.start() + FILE_HEADER_BYTES);
            Layout::Pcap(header.pcap)
        } else if Pcapng::is_magic(*magic) {
            reads(&mut buffer, SECTION_START_BYTES)?;
            let pcapng = buffer.unread().first_chunk().and_then(|start| Pcapng::of_start(*start));
            Layout::Pcapng(pcapng.ok_or(OpenError::UnknownFormat)?)
        } else {
            return Err(OpenError::UnknownFormat);
        };
        let slots = Slots(Vec::with_capacity(BATCH_FRAMES));
        Ok(Self { buffer, layout, interfaces, slots, ended: false })
    }

    /// The next frames, at least one and at most 64; `None` at the end of the file.
    ///
    /// A truncated or damaged file yields the frames before the damage, then one error, then `None`.
    pub fn batch(&mut self) -> Result<Option<Batch<'_>>, ReadError> {
        self.slots.0.clear();
        while self.slots.0.is_empty() && !self.ended {
            if let Err(error) = self.advance() {
                self.ended = true;
                return Err(error);
            }
        }
        let Self { buffer, interfaces, slots, .. } = self;
        Ok((!slots.0.is_empty()).then(|| Batch { bytes: buffer.bytes(), slots: &slots.0, interfaces }))
    }

    /// Fills the slots from the buffer, or the buffer from the source if it lacks a whole frame.
    fn advance(&mut self) -> Result<(), ReadError> {
        let (bytes, start) = (self.buffer.bytes(), self.buffer.start());
        let (next, step) = match &mut self.layout {
            Layout::Pcap(pcap) => pcap.scan(bytes, start, &mut self.slots),
            Layout::Pcapng(pcapng) => {
                let (slots, interfaces) = (&mut self.slots, &mut self.interfaces);
                pcapng.scan(start, Scan { bytes, slots, interfaces })
            }
        };
        self.buffer.consume_to(next);
        if !self.slots.0.is_empty() {
            // The next call finds the same end of the buffer, or the same damage.
            return Ok(());
        }
        let offset = self.position();
        match step {
            Step::Full => Ok(()),
            Step::Damage(damage) => Err(ReadError::Damaged { offset, damage }),
            Step::More(needed) => match self.buffer.fill(needed) {
                Ok(true) => Ok(()),
                Ok(false) if self.buffer.unread().is_empty() => {
                    self.ended = true;
                    Ok(())
                }
                Ok(false) => Err(ReadError::Truncated { offset, format: self.format() }),
                Err(source) => Err(ReadError::Io { offset, source }),
            },
        }
    }

    /// The interfaces of all sections up to the last batch, in the order of the file.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    pub fn format(&self) -> Format {
        match self.layout {
            Layout::Pcap(_) => Format::Pcap,
            Layout::Pcapng(_) => Format::Pcapng,
        }
    }

    pub fn compression(&self) -> Option<Compression> {
        self.buffer.source().compression()
    }

    /// Uncompressed bytes up to the end of the last batch.
    pub fn position(&self) -> u64 {
        self.buffer.position()
    }
}

fn interface(header: Header) -> Result<Interface, OpenError> {
    if !header.is_supported() {
        let (major, minor) = header.version;
        return Err(OpenError::Version { major, minor });
    }
    let Header { link_type, snap_length, .. } = header;
    Ok(Interface { link_type, snap_length, ..Interface::default() })
}

/// Frames that are in the reader's buffer at the same time.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    bytes: &'a [u8],
    slots: &'a [Slot],
    interfaces: &'a [Interface],
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

    /// [`Reader::interfaces`], as the batch borrows the reader.
    pub fn interfaces(&self) -> &'a [Interface] {
        self.interfaces
    }
}

impl<'a> IntoIterator for Batch<'a> {
    type Item = Frame<'a>;
    type IntoIter = Frames<'a>;

    #[inline]
    fn into_iter(self) -> Frames<'a> {
        self.iter()
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
