//! Messages as bytes: requests are built attribute by attribute, answers are read without insisting on understanding all
//! of them. A decoder that wants to understand every attribute fails on the first interface kind or kernel it does not
//! know; what is missing, too short or garbled reads as absent here.

use netlink_packet_core::{NLA_F_NESTED, NLA_HEADER_SIZE, NlasIterator};
use std::net::IpAddr;

/// A request: its type, and its fixed header and attributes as bytes.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) payload: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn after(header: &[u8]) -> Self {
        Self(header.to_vec())
    }

    pub(crate) fn message(self, kind: u16) -> Message {
        Message { kind, payload: self.0 }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(NLA_HEADER_SIZE + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn u8(self, kind: u16, value: u8) -> Self {
        self.bytes(kind, &[value])
    }

    pub(crate) fn u16(self, kind: u16, value: u16) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn u64(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn be32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(crate) fn be64(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(crate) fn address(self, kind: u16, value: IpAddr) -> Self {
        match value {
            IpAddr::V4(address) => self.bytes(kind, &address.octets()),
            IpAddr::V6(address) => self.bytes(kind, &address.octets()),
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "builders are chained and used up")]
    pub(crate) fn nested(self, kind: u16, attributes: Self) -> Self {
        self.bytes(kind | NLA_F_NESTED, &attributes.0)
    }

    /// Adds an attribute where there is a value: `.with(metric, |to, metric| to.u32(RTA_PRIORITY, metric))`.
    pub(crate) fn with<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The fixed header of a message, `header` bytes long, and its attributes; `None` when the message is shorter.
    pub(crate) fn after(message: &'a [u8], header: usize) -> Option<(&'a [u8], Self)> {
        message.split_at_checked(header).map(|(header, rest)| (header, Self(rest)))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        NlasIterator::new(self.0).map_while(|attribute| {
            let attribute = attribute.ok()?;
            let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
            Some((kind, attribute.into_inner().get(NLA_HEADER_SIZE..length)?))
        })
    }

    pub(crate) fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    pub(crate) fn nested(self, kind: u16) -> Option<Self> {
        self.get(kind).map(Self)
    }

    pub(crate) fn u8(self, kind: u16) -> Option<u8> {
        self.get(kind)?.first().copied()
    }

    pub(crate) fn u16(self, kind: u16) -> Option<u16> {
        self.get(kind).and_then(|value| u16_at(value, 0))
    }

    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        self.get(kind).and_then(|value| u32_at(value, 0))
    }

    pub(crate) fn text(self, kind: u16) -> Option<String> {
        let value = self.get(kind)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    pub(crate) fn address(self, kind: u16) -> Option<IpAddr> {
        self.get(kind).and_then(address)
    }
}

/// The IPv4 or IPv6 address that is exactly these bytes.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from);
    <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from).or_else(v6)
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_was_written() {
        let bytes = Encoder::default()
            .u32(1, 7)
            .nested(2, Encoder::default().text(3, "eth0"))
            .address(4, "fd00::1".parse().unwrap())
            .into_bytes();
        let attributes = Attributes::new(&bytes);
        assert_eq!(attributes.u32(1), Some(7));
        assert_eq!(attributes.nested(2).unwrap().text(3).as_deref(), Some("eth0"));
        assert_eq!(attributes.address(4), Some("fd00::1".parse().unwrap()));
        assert_eq!(attributes.u32(9), None);
    }

    #[test]
    fn a_value_that_is_too_short_reads_as_absent() {
        let bytes = Encoder::default().bytes(1, &[1, 2]).into_bytes();
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
