//! Encoding and decoding of messages. The decoder ignores unknown attributes, so that it works with any kernel and
//! interface type; missing, short and malformed attributes are absent.

use netlink_packet_core::{
    NLA_F_NESTED, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_REQUEST, NetlinkBuffer, NlasIterator,
};
use std::net::IpAddr;

pub(super) const MESSAGE_HEADER: usize = 16;
/// `struct nfgenmsg` of linux/netfilter/nfnetlink.h.
pub(crate) const NETFILTER_HEADER: usize = 4;

/// A request: its type, and its fixed header and attributes as bytes.
#[derive(Debug, Clone)]
pub struct NetlinkMessage {
    pub kind: u16,
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    pub fn with_header(header: &[u8]) -> Self {
        Self(header.to_vec())
    }

    pub fn message(self, kind: u16) -> NetlinkMessage {
        NetlinkMessage { kind, payload: self.0 }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(NLA_HEADER_SIZE + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn u8(self, kind: u16, value: u8) -> Self {
        self.bytes(kind, &[value])
    }

    pub fn u16(self, kind: u16, value: u16) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn u64(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn be32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn be64(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub fn address(self, kind: u16, value: IpAddr) -> Self {
        match value {
            IpAddr::V4(address) => self.bytes(kind, &address.octets()),
            IpAddr::V6(address) => self.bytes(kind, &address.octets()),
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "builders are chained and used up")]
    pub fn nested(self, kind: u16, attributes: Self) -> Self {
        self.bytes(kind | NLA_F_NESTED, &attributes.0)
    }

    /// Adds an attribute if a value exists: `.with(metric, |to, metric| to.u32(RTA_PRIORITY, metric))`.
    pub fn add_optional<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Splits a message into its fixed header of `header` bytes and its attributes; `None` when the message is shorter.
    pub fn parse_after_header(message: &'a [u8], header: usize) -> Option<(&'a [u8], Self)> {
        message.split_at_checked(header).map(|(header, rest)| (header, Self(rest)))
    }

    pub fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        NlasIterator::new(self.0).map_while(|attribute| {
            let attribute = attribute.ok()?;
            let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
            Some((kind, attribute.into_inner().get(NLA_HEADER_SIZE..length)?))
        })
    }

    pub fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    pub fn nested(self, kind: u16) -> Option<Self> {
        self.get(kind).map(Self)
    }

    pub fn u8(self, kind: u16) -> Option<u8> {
        self.get(kind)?.first().copied()
    }

    pub fn u16(self, kind: u16) -> Option<u16> {
        self.get(kind).and_then(|value| u16_at(value, 0))
    }

    pub fn u32(self, kind: u16) -> Option<u32> {
        self.get(kind).and_then(|value| u32_at(value, 0))
    }

    pub fn text(self, kind: u16) -> Option<String> {
        let value = self.get(kind)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    pub fn address(self, kind: u16) -> Option<IpAddr> {
        self.get(kind).and_then(address)
    }
}

/// The IPv4 or IPv6 address with exactly these bytes.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from);
    <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from).or_else(v6)
}

pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// A change of a netfilter subsystem, part of a transaction.
#[derive(Debug, Clone)]
pub struct NetlinkChange {
    /// Completes the sentence "cannot …".
    pub request: &'static str,
    /// The kernel configuration options that it requires.
    pub needs: &'static str,
    /// `NLM_F_*`
    pub flags: u16,
    pub message: NetlinkMessage,
}

/// `struct nfgenmsg`: address family, version 0, a resource id in network byte order.
pub(crate) const fn netfilter_header(family: u8, resource: u16) -> [u8; NETFILTER_HEADER] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

/// The changes between begin and end, numbered from `sequence`. The last one requests an acknowledgement, which the
/// kernel sends after the transaction; not every kernel acknowledges the end message.
pub fn batch(sequence: u32, subsystem: u8, changes: &[NetlinkChange]) -> Vec<u8> {
    let frame = netfilter_header(libc::AF_UNSPEC as u8, u16::from(subsystem));
    let mut bytes = Vec::new();
    put(&mut bytes, libc::NFNL_MSG_BATCH_BEGIN as u16, NLM_F_REQUEST, sequence, &frame);
    let mut number = sequence;
    for (index, change) in changes.iter().enumerate() {
        number = number.wrapping_add(1);
        let acknowledged = if index + 1 == changes.len() { NLM_F_ACK } else { 0 };
        let flags = NLM_F_REQUEST | change.flags | acknowledged;
        put(&mut bytes, change.message.kind, flags, number, &change.message.payload);
    }
    put(&mut bytes, libc::NFNL_MSG_BATCH_END as u16, NLM_F_REQUEST, number.wrapping_add(1), &frame);
    bytes
}

/// Appends a message with its header, padded.
pub fn put(bytes: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, payload: &[u8]) {
    let length = u32::try_from(MESSAGE_HEADER + payload.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// One message in a datagram from the kernel.
#[derive(Debug, Clone, Copy)]
pub struct NetlinkReply<'a> {
    pub kind: u16,
    pub payload: &'a [u8],
    pub flags: u16,
    pub sequence: u32,
}

/// The messages of a datagram; `None` for a truncated one, which ends the iteration.
#[derive(Debug)]
pub struct Answers<'a>(pub &'a [u8]);

impl<'a> Iterator for Answers<'a> {
    type Item = Option<NetlinkReply<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let datagram = std::mem::take(&mut self.0);
        let Ok(buffer) = NetlinkBuffer::new_checked(datagram) else { return Some(None) };
        let length = buffer.length() as usize;
        let Some(payload) = datagram.get(MESSAGE_HEADER..length) else { return Some(None) };
        self.0 = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        let (kind, flags, sequence) = (buffer.message_type(), buffer.flags(), buffer.sequence_number());
        Some(Some(NetlinkReply { kind, payload, flags, sequence }))
    }
}
