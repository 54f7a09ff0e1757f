//! The MPTCP options of a segment (TCP option kind 30; RFC 8684, section 3; RFC 6824, section 3).

use crate::packet::{Address, FlowEndpoint};

/// `DSS` (RFC 8684, section 3.3): data sequence signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataSequenceSignal {
    pub data_ack: Option<DataSequence>,
    pub mapping: Option<Mapping>,
    pub data_fin: bool,
}

/// A data sequence number as it stands in the option: 4 or 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSequence {
    Short(u32),
    Full(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    pub data_sequence: DataSequence,
    /// Relative to the subflow's initial sequence number: the first byte of data is 1.
    pub subflow_sequence: u32,
    /// Bytes, with one more for a `DATA_FIN`. 0 is the infinite mapping (section 3.7).
    pub length: u16,
    pub checksum: Option<u16>,
}

/// One MPTCP option. Lengths that no version defines are [`Malformed`](Self::Malformed).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MptcpOption {
    Capable(Capable),
    Join(Join),
    Dss(DataSequenceSignal),
    AddAddress(AddAddress),
    RemoveAddress(RemoveAddress),
    /// `MP_PRIO`; version 0 may name an address.
    Priority {
        backup: bool,
        address_id: Option<u8>,
    },
    /// `MP_FAIL`: the data sequence number from which the checksum failed.
    Fail {
        data_sequence: u64,
    },
    /// `MP_FASTCLOSE` with the receiver's key.
    FastClose {
        key: u64,
    },
    /// `MP_TCPRST` (RFC 8684, section 3.6).
    Reset {
        transient: bool,
        reason: u8,
    },
    Unknown {
        subtype: u8,
        length: u8,
    },
    Malformed {
        subtype: u8,
        length: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capable {
    pub version: u8,
    /// Flag A: checksums required.
    pub checksum: bool,
    /// Flag C: no joins to the initial address.
    pub deny_join: bool,
    /// Flag H: HMAC-SHA1 (version 0) or HMAC-SHA256 (version 1).
    pub crypto: bool,
    pub sender_key: Option<u64>,
    pub receiver_key: Option<u64>,
    /// Length of the first data (version 1, lengths 22 and 24), with the checksum.
    pub data: Option<(u16, Option<u16>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    Syn { backup: bool, address_id: u8, token: u32, nonce: u32 },
    SynAck { backup: bool, address_id: u8, hmac: u64, nonce: u32 },
    Ack { hmac: [u8; 20] },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddAddress {
    pub address_id: u8,
    /// Port 0 where the option has none.
    pub endpoint: FlowEndpoint,
    /// Version 1: an echo confirms the receipt.
    pub echo: bool,
    pub hmac: Option<u64>,
}

/// The 40 bytes of TCP options have space for 37 ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoveAddress {
    pub ids: [u8; 37],
    pub count: u8,
}

impl RemoveAddress {
    pub fn ids(&self) -> &[u8] {
        self.ids.get(..usize::from(self.count)).unwrap_or_default()
    }
}

/// Parses one whole option, kind and length included (RFC 8684, section 3; RFC 6824, section 3). `syn` and `ack` are
/// flags of the segment.
///
/// ```rust
/// use pathbench_trace::mptcp::options::{Join, MptcpOption, parse};
///
/// // MP_JOIN of a SYN: backup flag, address id 2, token, nonce.
/// let option = [30, 12, 0x11, 2, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 7];
/// let join = Join::Syn { backup: true, address_id: 2, token: 0xdead_beef, nonce: 7 };
/// assert_eq!(parse(&option, true, false), MptcpOption::Join(join));
/// // The same bytes are no MP_JOIN of the third segment.
/// assert_eq!(parse(&option, false, true), MptcpOption::Malformed { subtype: 1, length: 12 });
/// ```
#[inline]
pub fn parse(option: &[u8], syn: bool, ack: bool) -> MptcpOption {
    let subtype = option.get(2).map_or(0, |byte| byte >> 4);
    let length = option.get(1).copied().unwrap_or(0);
    if usize::from(length) != option.len() || option.first() != Some(&30) {
        return MptcpOption::Malformed { subtype, length };
    }
    let parsed = if subtype == 2 { dss(option).map(MptcpOption::Dss) } else { other(option, syn, ack) };
    parsed.unwrap_or(MptcpOption::Malformed { subtype, length })
}

/// The 64-bit value nearest to `last` whose low bits are `value`.
#[inline]
pub fn widen(value: DataSequence, last: u64) -> u64 {
    match value {
        DataSequence::Full(value) => value,
        DataSequence::Short(value) => {
            let distance = value.wrapping_sub(last as u32) as i32;
            last.wrapping_add_signed(i64::from(distance))
        }
    }
}

#[inline]
fn array<const N: usize>(option: &[u8], at: usize) -> Option<[u8; N]> {
    option.get(at..)?.first_chunk().copied()
}

#[inline]
fn u32_at(option: &[u8], at: usize) -> Option<u32> {
    array(option, at).map(u32::from_be_bytes)
}

#[inline]
fn u64_at(option: &[u8], at: usize) -> Option<u64> {
    array(option, at).map(u64::from_be_bytes)
}

#[inline]
fn u16_at(option: &[u8], at: usize) -> Option<u16> {
    array(option, at).map(u16::from_be_bytes)
}

#[inline]
fn sequence(option: &[u8], at: &mut usize, full: bool) -> Option<DataSequence> {
    let start = *at;
    if full {
        *at += 8;
        u64_at(option, start).map(DataSequence::Full)
    } else {
        *at += 4;
        u32_at(option, start).map(DataSequence::Short)
    }
}

#[inline]
fn dss(option: &[u8]) -> Option<DataSequenceSignal> {
    let flags = *option.get(3)?;
    let mut at = 4;
    let data_ack = if flags & 0x01 == 0 { None } else { Some(sequence(option, &mut at, flags & 0x02 != 0)?) };
    let mapping = if flags & 0x04 == 0 {
        None
    } else {
        let data_sequence = sequence(option, &mut at, flags & 0x08 != 0)?;
        let (subflow_sequence, length) = (u32_at(option, at)?, u16_at(option, at + 4)?);
        at += 6;
        // No flag says whether a checksum follows; the option's length does.
        let checksum = if option.len() == at { None } else { Some(u16_at(option, at)?) };
        at += usize::from(checksum.is_some()) * 2;
        Some(Mapping { data_sequence, subflow_sequence, length, checksum })
    };
    (option.len() == at).then_some(DataSequenceSignal { data_ack, mapping, data_fin: flags & 0x10 != 0 })
}

fn other(option: &[u8], syn: bool, ack: bool) -> Option<MptcpOption> {
    let [_, length, first, fourth @ ..] = option else { return None };
    let subtype = first >> 4;
    match subtype {
        0 => capable(option, syn, ack).map(MptcpOption::Capable),
        1 => join(option, syn, ack).map(MptcpOption::Join),
        3 => add_address(option).map(MptcpOption::AddAddress),
        4 => remove_address(fourth).map(MptcpOption::RemoveAddress),
        5 if fourth.len() <= 1 => {
            Some(MptcpOption::Priority { backup: first & 1 != 0, address_id: fourth.first().copied() })
        }
        6 if option.len() == 12 => Some(MptcpOption::Fail { data_sequence: u64_at(option, 4)? }),
        7 if option.len() == 12 => Some(MptcpOption::FastClose { key: u64_at(option, 4)? }),
        8 if option.len() == 4 => {
            Some(MptcpOption::Reset { transient: first & 1 != 0, reason: *fourth.first()? })
        }
        5..=8 => None,
        _ => Some(MptcpOption::Unknown { subtype, length: *length }),
    }
}

fn capable(option: &[u8], syn: bool, ack: bool) -> Option<Capable> {
    let (version, flags) = (option.get(2)? & 0x0f, *option.get(3)?);
    let (sender, receiver, data) = match (version, option.len(), syn, ack) {
        // A client may propose a version that this parser does not know; the SYN has no key since version 1.
        (1.., 4, true, false) => (false, false, false),
        (0, 12, true, _) | (1, 12, true, true) => (true, false, false),
        (0 | 1, 20, false, _) => (true, true, false),
        (1, 22 | 24, false, _) => (true, true, true),
        _ => return None,
    };
    Some(Capable {
        version,
        checksum: flags & 0x80 != 0,
        deny_join: version > 0 && flags & 0x20 != 0,
        crypto: flags & 0x01 != 0,
        sender_key: if sender { Some(u64_at(option, 4)?) } else { None },
        receiver_key: if receiver { Some(u64_at(option, 12)?) } else { None },
        data: if data { Some((u16_at(option, 20)?, u16_at(option, 22))) } else { None },
    })
}

fn join(option: &[u8], syn: bool, ack: bool) -> Option<Join> {
    let (backup, address_id) = (option.get(2)? & 1 != 0, *option.get(3)?);
    match (option.len(), syn, ack) {
        (12, true, false) => {
            Some(Join::Syn { backup, address_id, token: u32_at(option, 4)?, nonce: u32_at(option, 8)? })
        }
        (16, true, true) => {
            Some(Join::SynAck { backup, address_id, hmac: u64_at(option, 4)?, nonce: u32_at(option, 12)? })
        }
        (24, false, _) => Some(Join::Ack { hmac: array(option, 4)? }),
        _ => None,
    }
}

/// The low four bits of the third byte are the IP version (version 0) or flag E (version 1).
fn add_address(option: &[u8]) -> Option<AddAddress> {
    let (nibble, address_id) = (option.get(2)? & 0x0f, *option.get(3)?);
    let (ipv4, port, hmac) = match option.len() {
        8 => (true, false, false),
        10 => (true, true, false),
        16 => (true, false, true),
        18 => (true, true, true),
        20 => (false, false, false),
        22 => (false, true, false),
        28 => (false, false, true),
        30 => (false, true, true),
        _ => return None,
    };
    let echo = match (nibble, hmac) {
        (4, _) if ipv4 => false,
        (6, _) if !ipv4 => false,
        (4 | 6, _) => return None,
        (_, false) if nibble & 1 != 0 => true,
        (_, true) if nibble & 1 == 0 => false,
        _ => return None,
    };
    let address = if ipv4 { Address::v4(array(option, 4)?) } else { Address::v6(array(option, 4)?) };
    let at = if ipv4 { 8 } else { 20 };
    let end = at + usize::from(port) * 2;
    Some(AddAddress {
        address_id,
        endpoint: FlowEndpoint { address, port: if port { u16_at(option, at)? } else { 0 } },
        echo,
        hmac: if hmac { Some(u64_at(option, end)?) } else { None },
    })
}

fn remove_address(listed: &[u8]) -> Option<RemoveAddress> {
    let mut ids = [0; 37];
    if listed.is_empty() {
        return None;
    }
    ids.get_mut(..listed.len())?.copy_from_slice(listed);
    Some(RemoveAddress { ids, count: listed.len() as u8 })
}
