//! QUIC and Multipath QUIC: headers, keys, frames, and the paths of connections (RFC 8999, RFC 9000, RFC 9001,
//! RFC 9369, draft-ietf-quic-multipath).
//!
//! [`Quic`] gets the UDP packets of all captures in order of time. Without a [`Keylog`] a connection shows its handshake
//! and the packets of the 4-tuples that carry its connection ids; with one also streams, round trips and the paths that
//! `NEW_CONNECTION_ID` and `PATH_NEW_CONNECTION_ID` announced.

mod connection;
mod connections;
mod datagram;
pub mod frames;
pub mod header;
pub mod keylog;
pub mod keys;
mod one_rtt;
mod one_rtt_keys;
mod output;
mod path;
mod streams;
pub mod tls;

pub use connections::{Quic, QuicTotals};
pub use keylog::Keylog;

/// Reads fields from the front of a slice; `None` where it ends too early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    pub(crate) fn u24(&mut self) -> Option<u32> {
        Some(u32::from(self.u8()?) << 16 | u32::from(self.u16()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Variable-length integer (RFC 9000, section 16).
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        let mut value = u64::from(first & 0x3f);
        for &byte in self.take((1 << (first >> 6)) - 1)? {
            value = value << 8 | u64::from(byte);
        }
        Some(value)
    }

    /// Bytes behind their length in one byte.
    pub(crate) fn u8_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// Bytes behind their length in two bytes.
    pub(crate) fn u16_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    /// Bytes behind their length as a variable-length integer.
    pub(crate) fn varint_bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
