//! Damage in capture files.

/// Longer packets are damage. Linux's largest GSO packets have 512 KiB (`GSO_MAX_SIZE`).
pub(super) const LARGEST_PACKET_BYTES: u32 = 16 << 20;

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
