//! Sockets of rtnetlink and generic netlink, and helpers for their messages.

use super::channel::{NetlinkChannel, NetlinkError, NetlinkProtocol};
use super::message::{Attributes, Encoder, NetlinkMessage};
use crate::namespace::NetNamespace;
use std::fmt;
use std::net::IpAddr;

/// `CTRL_CMD_GETFAMILY` of linux/genetlink.h; the controller's family number is fixed.
const GET_FAMILY: u8 = 3;
const CONTROLLER: u16 = libc::GENL_ID_CTRL as u16;
/// `struct genlmsghdr`: command, version, two unused bytes.
pub(crate) const GENERIC_HEADER: usize = 4;

/// A socket for links, addresses, routes, rules and queueing disciplines of one network namespace.
///
/// Every request waits for the kernel's acknowledgement; every error contains the error number, the kernel's message
/// and the request. The socket belongs to the namespace in which it was opened, irrespective of the calling thread.
#[derive(Debug)]
pub struct RouteSocket {
    pub(crate) channel: NetlinkChannel,
}

impl RouteSocket {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        NetlinkChannel::open(NetlinkProtocol::ROUTE).map(|channel| Self { channel })
    }

    pub fn open_in(namespace: &NetNamespace) -> Result<Self, NetlinkError> {
        NetlinkChannel::open_in(NetlinkProtocol::ROUTE, namespace).map(|channel| Self { channel })
    }

    /// Lists a table of IPv4 and, where available, of IPv6.
    pub(super) fn dump_both_families<T>(
        &mut self,
        table: &str,
        kind: u16,
        header_bytes: usize,
        parse: fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut found = Vec::new();
        for (family, name) in [(libc::AF_INET, "IPv4"), (libc::AF_INET6, "IPv6")] {
            let mut header = vec![0; header_bytes];
            header[0] = family as u8;
            let message = Encoder::with_header(&header).message(kind);
            match self.channel.dump(&format!("list the {name} {table}"), &message, parse) {
                Ok(entries) => found.extend(entries),
                Err(error) if family == libc::AF_INET6 && error.is_no_such_family() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

#[derive(Debug)]
pub(crate) struct GenericSocket {
    pub(crate) channel: NetlinkChannel,
    pub(crate) family: GenericFamily,
    version: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenericFamily {
    pub id: u16,
    /// Multicast groups: name and number.
    pub groups: Vec<(String, u32)>,
}

impl GenericSocket {
    /// Opens a socket in the calling thread's network namespace; `None` if the kernel lacks the family. `request`
    /// completes the sentence "cannot …".
    pub(crate) fn open(family: &str, version: u8, request: &str) -> Result<Option<Self>, NetlinkError> {
        let mut channel = NetlinkChannel::open(NetlinkProtocol::GENERIC)?;
        let message = Encoder::with_header(&[GET_FAMILY, 1, 0, 0])
            .text(libc::CTRL_ATTR_FAMILY_NAME as u16, family)
            .message(CONTROLLER);
        match channel.expect(request, 0, &message, GenericFamily::parse) {
            Ok(family) => Ok(Some(Self { channel, family, version })),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn message(&self, command: u8, attributes: Encoder) -> NetlinkMessage {
        let header = Encoder::with_header(&[command, self.version, 0, 0]).into_bytes();
        NetlinkMessage { kind: self.family.id, payload: [header, attributes.into_bytes()].concat() }
    }
}

impl GenericFamily {
    /// Parses the family in an answer to `CTRL_CMD_GETFAMILY`.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = Attributes::parse_after_header(payload, GENERIC_HEADER)?;
        let groups = attributes.nested(libc::CTRL_ATTR_MCAST_GROUPS as u16).unwrap_or(Attributes::new(&[]));
        let groups = groups.iter().map(|(_, group)| Attributes::new(group)).filter_map(|group| {
            let name = group.text(libc::CTRL_ATTR_MCAST_GRP_NAME as u16)?;
            Some((name, group.u32(libc::CTRL_ATTR_MCAST_GRP_ID as u16)?))
        });
        Some(Self { id: attributes.u16(libc::CTRL_ATTR_FAMILY_ID as u16)?, groups: groups.collect() })
    }
}

/// `AF_INET` or `AF_INET6`, for message headers.
pub(crate) const fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

/// Writes a keyword and its value, if any.
pub(crate) fn part<T: fmt::Display>(f: &mut fmt::Formatter<'_>, word: &str, value: Option<T>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {word} {value}"))
}
