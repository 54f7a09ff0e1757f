//! pcapng, draft-ietf-opsawg-pcapng.

use super::InterfaceDescription;
use super::batch::{Slot, Slots, Step};
use super::byte_order::ByteOrder;
use super::damage::{Damage, LARGEST_PACKET_BYTES};

pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete; section B of the draft.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
/// Secrets in the format of `SSLKEYLOGFILE`.
const TLS_KEY_LOG: u32 = 0x544c_534b;
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Type and length of a block and the byte-order magic of a section header.
pub(super) const SECTION_START_BYTES: usize = 12;

// Options of blocks.
pub(super) const END_OF_OPTIONS: u16 = 0;
pub(super) const COMMENT: u16 = 1;
pub(super) const INTERFACE_NAME: u16 = 2;
pub(super) const INTERFACE_DESCRIPTION_TEXT: u16 = 3;
pub(super) const INTERFACE_TIME_RESOLUTION: u16 = 9;
pub(super) const INTERFACE_FILTER: u16 = 11;
const INTERFACE_TIME_OFFSET: u16 = 14;
/// First byte of a filter as text.
pub(super) const FILTER_TEXT: u8 = 0;

/// Type and length before the body.
const BLOCK_START_BYTES: usize = 8;
/// Type and length before the body, length after it.
const BLOCK_FRAME_BYTES: usize = 12;
/// The largest packet with 1 MiB of options.
const LARGEST_BLOCK_BYTES: u32 = LARGEST_PACKET_BYTES + (1 << 20);
/// Of all sections together.
const MOST_INTERFACES: usize = 65_536;
/// Longer names, descriptions and filters are truncated.
const LONGEST_TEXT_BYTES: usize = 256;
/// Secrets between two packets; further ones are ignored.
const MOST_SECRETS_BYTES: usize = 64 << 20;
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// The current section.
#[derive(Debug)]
pub(super) struct Pcapng {
    order: ByteOrder,
    interfaces: Vec<SectionInterface>,
}

/// Parameters of the packets of an interface; the interface number is the index in the section.
#[derive(Debug, Clone, Copy)]
struct SectionInterface {
    /// Index in the reader's list.
    index: u32,
    unit: Unit,
    offset_ns: i64,
    snap_length: u32,
}

/// Unit of timestamps.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// Nanoseconds, a multiple.
    Multiple(u64),
    /// One of so many parts of a nanosecond.
    Part(u64),
    /// 2⁻ⁿ s.
    PowerOfTwo(u8),
}

impl Unit {
    const MICROSECONDS: u8 = 6;

    /// The value of `if_tsresol`: 10⁻ⁿ s, with the upper bit 2⁻ⁿ s.
    fn from_resolution(resolution: u8) -> Self {
        let power = u32::from(resolution & 0x7f);
        if resolution & 0x80 != 0 {
            Self::PowerOfTwo(power as u8)
        } else if let Some(fewer) = 9_u32.checked_sub(power) {
            Self::Multiple(10_u64.saturating_pow(fewer))
        } else {
            // Timestamps of finer units are below 1 ns.
            10_u64.checked_pow(power - 9).map_or(Self::Multiple(0), Self::Part)
        }
    }

    #[inline]
    fn nanoseconds(self, count: u64) -> u64 {
        match self {
            Self::Multiple(factor) => count.saturating_mul(factor),
            Self::Part(parts) => count / parts,
            Self::PowerOfTwo(power) => {
                let scaled = (u128::from(count) * u128::from(NANOSECONDS_PER_SECOND)) >> power;
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        }
    }
}

impl SectionInterface {
    #[inline]
    fn time_ns(&self, high: u32, low: u32) -> u64 {
        let count = u64::from(high) << 32 | u64::from(low);
        self.unit.nanoseconds(count).saturating_add_signed(self.offset_ns)
    }
}

/// The bytes of a file and the results of the search for packets.
pub(super) struct Scan<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) slots: &'a mut Slots,
    pub(super) interfaces: &'a mut Vec<InterfaceDescription>,
    pub(super) secrets: &'a mut Vec<u8>,
}

/// A block's body and its offset in the buffer.
#[derive(Clone, Copy)]
struct Body<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// The fields of a packet block before its bytes.
#[derive(Clone, Copy)]
struct PacketFields {
    interface: u32,
    high: u32,
    low: u32,
    captured: u32,
    original: u32,
}

impl Pcapng {
    /// Whether a file starts with a section header.
    pub(super) fn is_magic(bytes: [u8; 4]) -> bool {
        u32::from_le_bytes(bytes) == SECTION_HEADER
    }

    /// `None` without a byte-order magic.
    pub(super) fn from_start(start: [u8; SECTION_START_BYTES]) -> Option<Self> {
        let [.., m0, m1, m2, m3] = start;
        let magic = [m0, m1, m2, m3];
        Some(Self { order: byte_order(magic)?, interfaces: Vec::new() })
    }

    /// Finds the packets from `at` on; returns the start of the first block that was not read.
    #[inline]
    pub(super) fn scan(&mut self, mut at: usize, mut scan: Scan<'_>) -> (usize, Step) {
        while !scan.slots.is_full() {
            match self.block(at, &mut scan) {
                Ok(length) => at += length,
                Err(step) => return (at, step),
            }
        }
        (at, Step::Full)
    }

    /// Reads the block at `at`; returns its length.
    #[inline]
    fn block(&mut self, at: usize, scan: &mut Scan<'_>) -> Result<usize, Step> {
        let block = scan.bytes.get(at..).unwrap_or_default();
        let Some((start, _)) = block.split_first_chunk::<BLOCK_START_BYTES>() else {
            return Err(Step::More(BLOCK_START_BYTES));
        };
        let [k0, k1, k2, k3, l0, l1, l2, l3] = *start;
        // The same in both byte orders for a section header.
        let kind = self.order.u32([k0, k1, k2, k3]);
        if kind == SECTION_HEADER {
            self.begin_section(block)?;
        }
        let length = self.order.u32([l0, l1, l2, l3]);
        if length > LARGEST_BLOCK_BYTES || !length.is_multiple_of(4) || (length as usize) < BLOCK_FRAME_BYTES
        {
            return Err(Step::Damage(Damage::BlockLength { length }));
        }
        let Some(block) = block.get(..length as usize) else {
            return Err(Step::More(length as usize));
        };
        let Some((before, last)) = block.split_last_chunk::<4>() else {
            return Err(Step::More(BLOCK_FRAME_BYTES));
        };
        let repeated = self.order.u32(*last);
        if repeated != length {
            return Err(Step::Damage(Damage::UnequalLengths { first: length, last: repeated }));
        }
        let body = Body {
            bytes: before.get(BLOCK_START_BYTES..).unwrap_or_default(),
            offset: at + BLOCK_START_BYTES,
        };
        match kind {
            ENHANCED_PACKET => self.enhanced_packet(body, scan.slots),
            PACKET => self.obsolete_packet(body, scan.slots),
            SIMPLE_PACKET => self.simple_packet(body, scan.slots),
            INTERFACE_DESCRIPTION => self.interface(body.bytes, scan.interfaces),
            SECTION_HEADER => self.section_header(body.bytes),
            DECRYPTION_SECRETS => self.secrets(body.bytes, scan.secrets),
            _ => Ok(()),
        }
        .map_err(Step::Damage)?;
        Ok(length as usize)
    }

    /// Sets the byte order, in which the block's length is written, too.
    fn begin_section(&mut self, block: &[u8]) -> Result<(), Step> {
        let Some((_, magic)) = block.get(..SECTION_START_BYTES).and_then(<[u8]>::split_last_chunk::<4>)
        else {
            return Err(Step::More(SECTION_START_BYTES));
        };
        self.order = byte_order(*magic).ok_or(Step::Damage(Damage::ByteOrder))?;
        Ok(())
    }

    fn section_header(&mut self, body: &[u8]) -> Result<(), Damage> {
        // Byte-order magic, version, section length.
        let Some(([_, _, _, _, m0, m1, ..], _)) = body.split_first_chunk::<16>() else {
            return Err(Damage::ShortBlock { kind: SECTION_HEADER });
        };
        let major = self.order.u16([*m0, *m1]);
        if major != 1 {
            return Err(Damage::Version { major });
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, body: &[u8], interfaces: &mut Vec<InterfaceDescription>) -> Result<(), Damage> {
        let Some(([l0, l1, _, _, s0, s1, s2, s3], mut options)) = body.split_first_chunk::<8>() else {
            return Err(Damage::ShortBlock { kind: INTERFACE_DESCRIPTION });
        };
        if interfaces.len() >= MOST_INTERFACES {
            return Err(Damage::Interfaces { most: MOST_INTERFACES });
        }
        let snap_length = self.order.u32([*s0, *s1, *s2, *s3]);
        let mut found = InterfaceDescription {
            link_type: self.order.u16([*l0, *l1]),
            snap_length,
            ..InterfaceDescription::default()
        };
        let mut unit = Unit::from_resolution(Unit::MICROSECONDS);
        let mut offset_ns = 0;
        while let Some((code, value)) = self.order.option(&mut options)? {
            match code {
                INTERFACE_NAME => found.name = Some(text(value)),
                INTERFACE_DESCRIPTION_TEXT => found.description = Some(text(value)),
                INTERFACE_TIME_RESOLUTION => {
                    let [resolution] = *value else { return Err(Damage::Option { code }) };
                    unit = Unit::from_resolution(resolution);
                }
                INTERFACE_FILTER => {
                    found.filter = value.strip_prefix(&[FILTER_TEXT]).map(text);
                }
                INTERFACE_TIME_OFFSET => {
                    let seconds = value.try_into().map_err(|_| Damage::Option { code })?;
                    offset_ns = self.order.i64(seconds).saturating_mul(NANOSECONDS_PER_SECOND as i64);
                }
                _ => {}
            }
        }
        self.interfaces.push(SectionInterface {
            index: interfaces.len() as u32,
            unit,
            offset_ns,
            snap_length,
        });
        interfaces.push(found);
        Ok(())
    }

    /// Appends the key log of a decryption secrets block.
    fn secrets(&self, body: &[u8], secrets: &mut Vec<u8>) -> Result<(), Damage> {
        let Some(([k0, k1, k2, k3, l0, l1, l2, l3], data)) = body.split_first_chunk::<8>() else {
            return Err(Damage::ShortBlock { kind: DECRYPTION_SECRETS });
        };
        let data =
            usize::try_from(self.order.u32([*l0, *l1, *l2, *l3])).ok().and_then(|length| data.get(..length));
        let Some(data) = data else { return Err(Damage::ShortBlock { kind: DECRYPTION_SECRETS }) };
        if self.order.u32([*k0, *k1, *k2, *k3]) == TLS_KEY_LOG
            && secrets.len().saturating_add(data.len()) < MOST_SECRETS_BYTES
        {
            secrets.extend_from_slice(data);
            secrets.push(b'\n');
        }
        Ok(())
    }

    #[inline]
    fn enhanced_packet(&self, body: Body<'_>, slots: &mut Slots) -> Result<(), Damage> {
        let Some((fields, _)) = body.bytes.split_first_chunk::<20>() else {
            return Err(Damage::ShortBlock { kind: ENHANCED_PACKET });
        };
        let [i0, i1, i2, i3, fields @ ..] = *fields;
        self.packet(self.packet_fields(self.order.u32([i0, i1, i2, i3]), fields), body, slots)
    }

    fn obsolete_packet(&self, body: Body<'_>, slots: &mut Slots) -> Result<(), Damage> {
        let Some((fields, _)) = body.bytes.split_first_chunk::<20>() else {
            return Err(Damage::ShortBlock { kind: PACKET });
        };
        // The interface has 16 bits; a count of drops follows.
        let [i0, i1, _, _, fields @ ..] = *fields;
        self.packet(self.packet_fields(u32::from(self.order.u16([i0, i1])), fields), body, slots)
    }

    #[inline]
    fn packet_fields(&self, interface: u32, fields: [u8; 16]) -> PacketFields {
        let [h0, h1, h2, h3, l0, l1, l2, l3, c0, c1, c2, c3, o0, o1, o2, o3] = fields;
        PacketFields {
            interface,
            high: self.order.u32([h0, h1, h2, h3]),
            low: self.order.u32([l0, l1, l2, l3]),
            captured: self.order.u32([c0, c1, c2, c3]),
            original: self.order.u32([o0, o1, o2, o3]),
        }
    }

    /// A packet whose bytes follow 20 bytes of fields.
    #[inline]
    fn packet(&self, fields: PacketFields, body: Body<'_>, slots: &mut Slots) -> Result<(), Damage> {
        const START: usize = 20;
        let PacketFields { interface, high, low, captured, original } = fields;
        let found = self.section_interface(interface)?;
        if captured > LARGEST_PACKET_BYTES {
            return Err(Damage::PacketLength { length: captured });
        }
        let length = captured as usize;
        if body.bytes.len() - START < length {
            return Err(Damage::PacketBeyondBlock { length: captured });
        }
        let options_start = START + length.next_multiple_of(4);
        let comment = match body.bytes.get(options_start..) {
            None | Some([]) => None,
            Some(options) => self.comment(options, body.offset + options_start)?,
        };
        slots.push(Slot {
            interface: found.index,
            time_ns: found.time_ns(high, low),
            original_length: original.max(captured),
            start: (body.offset + START) as u32,
            length: captured,
            comment,
        });
        Ok(())
    }

    /// Offset in the buffer and length of the first comment.
    fn comment(&self, options: &[u8], offset: usize) -> Result<Option<(u32, u32)>, Damage> {
        let (mut rest, mut first) = (options, None);
        loop {
            let start = offset + (options.len() - rest.len()) + 4;
            match self.order.option(&mut rest)? {
                None => return Ok(first),
                Some((COMMENT, value)) if first.is_none() => {
                    first = Some((start as u32, value.len() as u32));
                }
                Some(_) => {}
            }
        }
    }

    fn simple_packet(&self, body: Body<'_>, slots: &mut Slots) -> Result<(), Damage> {
        let Some((length, bytes)) = body.bytes.split_first_chunk::<4>() else {
            return Err(Damage::ShortBlock { kind: SIMPLE_PACKET });
        };
        let found = self.section_interface(0)?;
        let original = self.order.u32(*length);
        let captured = match found.snap_length {
            0 => original,
            most => original.min(most),
        };
        if captured > LARGEST_PACKET_BYTES {
            return Err(Damage::PacketLength { length: captured });
        }
        if bytes.len() < captured as usize {
            return Err(Damage::PacketBeyondBlock { length: captured });
        }
        slots.push(Slot {
            interface: found.index,
            // The block has no timestamp.
            time_ns: 0,
            original_length: original,
            start: (body.offset + 4) as u32,
            length: captured,
            comment: None,
        });
        Ok(())
    }

    #[inline]
    fn section_interface(&self, interface: u32) -> Result<&SectionInterface, Damage> {
        let described = self.interfaces.len();
        self.interfaces.get(interface as usize).ok_or(Damage::UndefinedInterface { interface, described })
    }
}

impl ByteOrder {
    /// The next option; `None` at `opt_endofopt` or where the block ends, as some programs write no `opt_endofopt`.
    fn option<'a>(self, options: &mut &'a [u8]) -> Result<Option<(u16, &'a [u8])>, Damage> {
        if options.is_empty() {
            return Ok(None);
        }
        let Some(([c0, c1, l0, l1], rest)) = options.split_first_chunk::<4>() else {
            return Err(Damage::Options);
        };
        let (code, length) = (self.u16([*c0, *c1]), usize::from(self.u16([*l0, *l1])));
        if code == END_OF_OPTIONS {
            return Ok(None);
        }
        let value = rest.get(..length).ok_or(Damage::Option { code })?;
        *options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Ok(Some((code, value)))
    }
}

fn byte_order(magic: [u8; 4]) -> Option<ByteOrder> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find(|order| order.u32(magic) == BYTE_ORDER_MAGIC)
}

fn text(value: &[u8]) -> String {
    // Some programs write a terminating zero.
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    let value = value.get(..LONGEST_TEXT_BYTES).unwrap_or(value);
    String::from_utf8_lossy(value).into_owned()
}
