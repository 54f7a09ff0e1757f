//! The reader of a capture file.

use super::InterfaceDescription;
use super::batch::{Batch, Slots, Step};
use super::buffer::Buffer;
use super::damage::Damage;
use super::pcap::{FILE_HEADER_BYTES, Header, Pcap, VERSION_MAJOR};
use super::pcapng::{Pcapng, SECTION_START_BYTES, Scan};
use super::source::{Compression, Source};
use std::io::{self, Read};

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
pub enum CaptureReadError {
    #[error("cannot read the file after byte {offset}: {source}")]
    Io { offset: u64, source: io::Error },
    #[error("the file ends within a {} at byte {offset}", format.unit())]
    Truncated { offset: u64, format: Format },
    #[error("the file is damaged at byte {offset}: {damage}")]
    Damaged { offset: u64, damage: Damage },
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

#[derive(Debug)]
enum Layout {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// Reads a capture file from start to end: pcap (draft-ietf-opsawg-pcap) with microseconds or nanoseconds, its variant
/// by Alexey Kuznetsov, or pcapng (draft-ietf-opsawg-pcapng), optionally compressed with gzip or zstd.
///
/// ```rust
/// use pathbench_trace::capture::CaptureReader;
///
/// // File header of pcap: magic for microseconds, version 2.4, no snap length, Ethernet.
/// let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0, 1];
/// // A packet at 7 s and 250 µs of which 4 of 60 bytes were captured.
/// let record = [7, 250, 4, 60, u32::from_le_bytes(*b"\xde\xad\xbe\xef")];
/// let file: Vec<u8> = header.iter().chain(&record).flat_map(|word| word.to_le_bytes()).collect();
///
/// let mut reader = CaptureReader::open(file.as_slice())?;
/// assert_eq!(reader.interfaces()[0].link_type, 1);
/// while let Some(batch) = reader.batch()? {
///     for frame in &batch {
///         assert_eq!((frame.time_ns, frame.original_length), (7_000_250_000, 60));
///         assert_eq!(frame.bytes, b"\xde\xad\xbe\xef");
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CaptureReader<R> {
    buffer: Buffer<Source<R>>,
    layout: Layout,
    interfaces: Vec<InterfaceDescription>,
    slots: Slots,
    /// Key log lines before and within the current batch.
    secrets: Vec<u8>,
    ended: bool,
}

impl<R: Read> CaptureReader<R> {
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
        let layout = if let Some(pcap) = Pcap::from_magic(*magic) {
            reads(&mut buffer, FILE_HEADER_BYTES)?;
            let Some(bytes) = buffer.unread().first_chunk() else { return Err(OpenError::UnknownFormat) };
            let header = pcap.header(*bytes);
            interfaces.push(interface(header)?);
            buffer.consume_to(buffer.start() + FILE_HEADER_BYTES);
            Layout::Pcap(pcap)
        } else if Pcapng::is_magic(*magic) {
            reads(&mut buffer, SECTION_START_BYTES)?;
            let pcapng = buffer.unread().first_chunk().and_then(|start| Pcapng::from_start(*start));
            Layout::Pcapng(pcapng.ok_or(OpenError::UnknownFormat)?)
        } else {
            return Err(OpenError::UnknownFormat);
        };
        Ok(Self { buffer, layout, interfaces, slots: Slots::default(), secrets: Vec::new(), ended: false })
    }

    /// The next frames, at least one and at most 64; `None` at the end of the file.
    ///
    /// A truncated or damaged file yields the frames before the damage, then one error, then `None`.
    pub fn batch(&mut self) -> Result<Option<Batch<'_>>, CaptureReadError> {
        self.slots.clear();
        self.secrets.clear();
        while self.slots.is_empty() && !self.ended {
            if let Err(error) = self.advance() {
                self.ended = true;
                return Err(error);
            }
        }
        Ok(self.slots.batch(self.buffer.bytes(), &self.interfaces, &self.secrets))
    }

    /// Fills the slots from the buffer, or the buffer from the source if it lacks a whole frame.
    fn advance(&mut self) -> Result<(), CaptureReadError> {
        let (bytes, start) = (self.buffer.bytes(), self.buffer.start());
        let (next, step) = match &mut self.layout {
            Layout::Pcap(pcap) => pcap.scan(bytes, start, &mut self.slots),
            Layout::Pcapng(pcapng) => {
                let (slots, interfaces) = (&mut self.slots, &mut self.interfaces);
                let secrets = &mut self.secrets;
                pcapng.scan(start, Scan { bytes, slots, interfaces, secrets })
            }
        };
        self.buffer.consume_to(next);
        if !self.slots.is_empty() {
            // The next call finds the same end of the buffer, or the same damage.
            return Ok(());
        }
        let offset = self.position();
        match step {
            Step::Full => Ok(()),
            Step::Damage(damage) => Err(CaptureReadError::Damaged { offset, damage }),
            Step::More(needed) => match self.buffer.fill(needed) {
                Ok(true) => Ok(()),
                Ok(false) if self.buffer.unread().is_empty() => {
                    self.ended = true;
                    Ok(())
                }
                Ok(false) => Err(CaptureReadError::Truncated { offset, format: self.format() }),
                Err(source) => Err(CaptureReadError::Io { offset, source }),
            },
        }
    }

    /// The interfaces of all sections up to the last batch, in the order of the file.
    pub fn interfaces(&self) -> &[InterfaceDescription] {
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

fn interface(header: Header) -> Result<InterfaceDescription, OpenError> {
    let Header { version: (major, minor), link_type, snap_length } = header;
    if major != VERSION_MAJOR {
        return Err(OpenError::Version { major, minor });
    }
    Ok(InterfaceDescription { link_type, snap_length, ..InterfaceDescription::default() })
}
