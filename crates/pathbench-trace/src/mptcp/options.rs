//! The MPTCP options of a segment (TCP option kind 30; RFC 8684, section 3; RFC 6824, section 3).

use crate::packet::Endpoint;

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
    /// Bytes, with one more for a DATA_FIN. 0 is the infinite mapping (section 3.7).
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
    Priority { backup: bool, address_id: Option<u8> },
    /// `MP_FAIL`: the data sequence number from which the checksum failed.
    Fail { data_sequence: u64 },
    /// `MP_FASTCLOSE` with the receiver's key.
    FastClose { key: u64 },
    /// `MP_TCPRST` (RFC 8684, section 3.6).
    Reset { transient: bool, reason: u8 },
    Unknown { subtype: u8, length: u8 },
    Malformed { subtype: u8, length: u8 },
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
    pub endpoint: Endpoint,
    /// Version 1: an echo confirms the receipt.
    pub echo: bool,
    pub hmac: Option<u64>,
}

/// At most 12 ids fit in the 40 bytes of TCP options twice over; ids beyond them cannot occur.
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
