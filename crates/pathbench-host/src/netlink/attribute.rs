//! Netlink attributes read without insisting on understanding them all.
//!
//! Requests are built with the types of `netlink-packet-route`, but answers are read here: a decoder that
//! wants to understand every attribute fails on the first interface kind or kernel it has never heard of,
//! and this room needs only a dozen attributes. What is missing, too short or garbled reads as absent.

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NLA_HEADER_SIZE, NlasIterator};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The attributes that follow the fixed header of a message, or that are nested in one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes in `bytes`.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The attributes of a message whose fixed header is `header` bytes long, with that header; `None` when
    /// the message is shorter.
    pub(crate) fn after(message: &'a [u8], header: usize) -> Option<(&'a [u8], Self)> {
        message.split_at_checked(header).map(|(header, rest)| (header, Self(rest)))
    }

    /// Kind and value of each attribute, up to the first that is cut short.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        NlasIterator::new(self.0).map_while(|attribute| {
            let attribute = attribute.ok()?;
            let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
            Some((kind, attribute.into_inner().get(NLA_HEADER_SIZE..length)?))
        })
    }

    /// The value of the first attribute of this kind.
    pub(crate) fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The attributes nested in the first attribute of this kind.
    pub(crate) fn nested(self, kind: u16) -> Option<Self> {
        self.get(kind).map(Self)
    }

    pub(crate) fn u8(self, kind: u16) -> Option<u8> {
        self.get(kind)?.first().copied()
    }

    pub(crate) fn u16(self, kind: u16) -> Option<u16> {
        self.get(kind).and_then(|value| u16_at(value, 0))
    }

    /// A 16-bit value in network byte order.
    pub(crate) fn u16_network_order(self, kind: u16) -> Option<u16> {
        self.u16(kind).map(u16::from_be)
    }

    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        self.get(kind).and_then(|value| u32_at(value, 0))
    }

    /// A text, with or without its terminating zero.
    pub(crate) fn text(self, kind: u16) -> Option<String> {
        let value = self.get(kind)?;
        let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        Some(String::from_utf8_lossy(value.get(..end)?).into_owned())
    }

    /// An address of four or sixteen bytes.
    pub(crate) fn address(self, kind: u16) -> Option<IpAddr> {
        self.get(kind).and_then(address)
    }
}

/// The IPv4 or IPv6 address that is exactly these bytes.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

/// The 16-bit value in host byte order at `offset`.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// The 32-bit value in host byte order at `offset`.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The 64-bit value in host byte order at `offset`.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// An attribute with a 32-bit value.
pub(crate) fn u32_attribute(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_ne_bytes().to_vec())
}

/// An attribute with a 64-bit value.
pub(crate) fn u64_attribute(kind: u16, value: u64) -> DefaultNla {
    DefaultNla::new(kind, value.to_ne_bytes().to_vec())
}

/// An attribute that holds others, flagged as such.
pub(crate) fn nested_attribute(kind: u16, attributes: &[DefaultNla]) -> DefaultNla {
    DefaultNla::new(kind | NLA_F_NESTED, emitted(attributes))
}

/// The attributes one after the other as bytes.
pub(crate) fn emitted(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// The bytes of an address in network byte order.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_was_written() {
        let bytes = emitted(&[
            u32_attribute(1, 7),
            nested_attribute(2, &[DefaultNla::new(3, b"eth0\0".to_vec())]),
            DefaultNla::new(4, octets("fd00::1".parse().unwrap())),
        ]);
        let attributes = Attributes::new(&bytes);
        assert_eq!(attributes.u32(1), Some(7));
        assert_eq!(attributes.nested(2).unwrap().text(3).as_deref(), Some("eth0"));
        assert_eq!(attributes.address(4), Some("fd00::1".parse().unwrap()));
        assert_eq!(attributes.u32(9), None);
    }

    #[test]
    fn a_value_that_is_too_short_reads_as_absent() {
        let bytes = emitted(&[DefaultNla::new(1, vec![1, 2])]);
        assert_eq!(Attributes::new(&bytes).u32(1), None);
        assert_eq!(Attributes::new(&bytes).address(1), None);
        assert!(Attributes::new(&bytes).u16(1).is_some());
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, kind: u16) {
            let attributes = Attributes::new(&bytes);
            let _ = (attributes.u8(kind), attributes.u16(kind), attributes.u32(kind));
            let _ = (attributes.text(kind), attributes.address(kind), attributes.iter().count());
        }
    }
}
