//! Capture files built by hand, and what a reader finds in them.

use pathbench_trace::capture::{CaptureReadError, CaptureReader, InterfaceDescription};
use std::io::{self, ErrorKind, Read};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Order {
    Little,
    Big,
}

pub(crate) const ORDERS: [Order; 2] = [Order::Little, Order::Big];

/// Fields of a file in one byte order.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    pub(crate) order: Order,
    pub(crate) bytes: Vec<u8>,
}

impl Fields {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, bytes: Vec::new() }
    }

    pub(crate) fn u16(mut self, value: u16) -> Self {
        self.bytes.extend(match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        });
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.bytes.extend(match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        });
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.bytes.extend(match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        });
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// With zeros up to a multiple of four.
    pub(crate) fn padded(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn option(self, code: u16, value: &[u8]) -> Self {
        self.u16(code).u16(value.len() as u16).padded(value)
    }

    pub(crate) fn block(self, kind: u32, body: impl FnOnce(Fields) -> Fields) -> Self {
        let body = body(Fields::new(self.order)).bytes;
        let length = body.len() as u32 + 12;
        self.u32(kind).u32(length).raw(&body).u32(length)
    }

    pub(crate) fn section(self) -> Self {
        self.block(0x0a0d_0d0a, |body| body.u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX))
    }

    /// Ethernet; timestamps in microseconds.
    pub(crate) fn interface(self) -> Self {
        self.interface_with(1, 0, |options| options)
    }

    pub(crate) fn interface_with(
        self,
        link_type: u16,
        snap_length: u32,
        options: impl FnOnce(Fields) -> Fields,
    ) -> Self {
        self.block(1, |body| options(body.u16(link_type).u16(0).u32(snap_length)))
    }

    pub(crate) fn enhanced(self, interface: u32, time: u64, bytes: &[u8]) -> Self {
        self.enhanced_with(interface, time, bytes, |options| options)
    }

    pub(crate) fn enhanced_with(
        self,
        interface: u32,
        time: u64,
        bytes: &[u8],
        options: impl FnOnce(Fields) -> Fields,
    ) -> Self {
        let length = bytes.len() as u32;
        self.block(6, |body| {
            let body = body.u32(interface).u32((time >> 32) as u32).u32(time as u32);
            options(body.u32(length).u32(length + 1000).padded(bytes))
        })
    }

    /// The header of a pcap file.
    pub(crate) fn pcap(self, magic: u32, link_type: u32) -> Self {
        self.u32(magic).u16(2).u16(4).u64(0).u32(2_000).u32(link_type)
    }

    pub(crate) fn record(self, seconds: u32, fraction: u32, original: u32, bytes: &[u8]) -> Self {
        self.u32(seconds).u32(fraction).u32(bytes.len() as u32).u32(original).raw(bytes)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Owned {
    pub(crate) interface: u32,
    pub(crate) time_ns: u64,
    pub(crate) original_length: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) comment: Option<Vec<u8>>,
}

/// A frame without a comment.
pub(crate) fn frame(interface: u32, time_ns: u64, original_length: u32, bytes: &[u8]) -> Owned {
    Owned { interface, time_ns, original_length, bytes: bytes.to_vec(), comment: None }
}

#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) frames: Vec<Owned>,
    pub(crate) interfaces: Vec<InterfaceDescription>,
    pub(crate) error: Option<CaptureReadError>,
    pub(crate) position: u64,
}

impl Contents {
    pub(crate) fn error_text(&self) -> String {
        self.error.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

pub(crate) fn read(source: impl Read) -> Contents {
    drain(CaptureReader::open(source).unwrap())
}

/// All batches. After the end or an error, there is none.
pub(crate) fn drain<R: Read>(mut reader: CaptureReader<R>) -> Contents {
    let (mut frames, mut error) = (Vec::new(), None);
    loop {
        match reader.batch() {
            Ok(Some(batch)) => {
                assert!(!batch.is_empty() && batch.len() <= 64);
                assert_eq!(batch.iter().count(), batch.len());
                // All frames are alive at the same time.
                let alive: Vec<_> = batch.iter().collect();
                for found in alive {
                    assert!((found.interface as usize) < batch.interfaces().len());
                    frames.push(Owned {
                        interface: found.interface,
                        time_ns: found.time_ns,
                        original_length: found.original_length,
                        bytes: found.bytes.to_vec(),
                        comment: found.comment.map(<[u8]>::to_vec),
                    });
                }
            }
            Ok(None) => break,
            Err(found) => {
                assert!(error.is_none(), "two errors: {error:?}, {found:?}");
                error = Some(found);
            }
        }
    }
    assert!(matches!(reader.batch(), Ok(None)));
    Contents { frames, interfaces: reader.interfaces().to_vec(), error, position: reader.position() }
}

/// Short reads, each after an interrupted one; then the end of the file or an error.
pub(crate) struct Chunks<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) size: usize,
    pub(crate) interrupt: bool,
    pub(crate) last_error: Option<ErrorKind>,
}

impl<'a> Chunks<'a> {
    pub(crate) fn of(rest: &'a [u8], size: usize) -> Self {
        Self { rest, size, interrupt: false, last_error: None }
    }
}

impl Read for Chunks<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.interrupt = !self.interrupt;
        if self.interrupt {
            return Err(ErrorKind::Interrupted.into());
        }
        if let (true, Some(kind)) = (self.rest.is_empty(), self.last_error) {
            return Err(io::Error::new(kind, "the disk is gone"));
        }
        let length = out.len().min(self.size);
        self.rest.read(&mut out[..length])
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::bufread::GzEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut out).unwrap();
    out
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A frame of zstd with uncompressed blocks and a window of 1 MiB (RFC 8878, section 3.1.1).
pub(crate) fn zstd_blocks(blocks: &[&[u8]], checksum: Option<[u8; 4]>) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, if checksum.is_some() { 4 } else { 0 }, 10 << 3];
    for (number, block) in blocks.iter().enumerate() {
        let last = u32::from(number + 1 == blocks.len());
        out.extend(&((block.len() as u32) << 3 | last).to_le_bytes()[..3]);
        out.extend(*block);
    }
    out.extend(checksum.into_iter().flatten());
    out
}

/// A frame that a decoder skips (RFC 8878, section 3.1.2).
pub(crate) fn zstd_skippable(bytes: &[u8]) -> Vec<u8> {
    [&0x184d_2a57_u32.to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
}
