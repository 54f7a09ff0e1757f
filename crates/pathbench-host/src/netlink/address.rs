//! Addresses of interfaces.

use super::attribute::{Attributes, u32_at};
use super::{NetlinkError, RouteSocket};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use pathbench_record::network::IpNetwork;
use rustix::io::Errno;
use std::net::IpAddr;

// linux/if_addr.h
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_TENTATIVE: u32 = 0x40;
const IFA_F_PERMANENT: u32 = 0x80;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TEMPORARY: u32 = 0x01;
/// `struct ifaddrmsg`
const ADDRESS_HEADER: usize = 8;

/// An address on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags of the kernel's interface")]
pub struct InterfaceAddress {
    /// The interface's index.
    pub index: u32,
    /// The address with its prefix length, host bits included.
    pub network: IpNetwork,
    /// Whether it is still being checked for duplicates and cannot be used yet (IPv6).
    pub tentative: bool,
    /// Whether it stays until removed; otherwise a router or DHCP gave it for a time.
    pub permanent: bool,
    /// Whether new connections should not use it any more.
    pub deprecated: bool,
    /// IPv6: a privacy address; IPv4: a secondary address of its network.
    pub secondary: bool,
    /// Whether it is valid on its link only (`fe80::/10`, 169.254.0.0/16 by its scope).
    pub link_scope: bool,
}

impl RouteSocket {
    /// All addresses of the namespace.
    ///
    /// # Errors
    /// [`NetlinkError`]; reading needs no privilege.
    pub fn addresses(&mut self) -> Result<Vec<InterfaceAddress>, NetlinkError> {
        let message = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let replies = self.channel.dump("list the addresses", &message)?;
        Ok(replies.iter().filter_map(|(_, payload)| parse_address(payload)).collect())
    }

    /// Gives interface `index` an address, with the route to its network. IPv6 addresses skip duplicate
    /// address detection, so that they can be used as soon as [`Self::delivers`] says so.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (`EEXIST` when it has it already).
    pub fn add_address(&mut self, index: u32, network: IpNetwork) -> Result<(), NetlinkError> {
        let mut message = address_message(index, network);
        if network.addr().is_ipv6() {
            message.header.flags = AddressHeaderFlags::from_bits_retain(libc::IFA_F_NODAD as u8);
        }
        let request = format!("add address {network} to interface {index}");
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.channel.execute(&request, flags, RouteNetlinkMessage::NewAddress(message))
    }

    /// Whether packets for `address` reach the sockets of the namespace. Not at once after an IPv6 address was added: a
    /// worker of the kernel's makes the route for it (`addrconf_dad_work`, net/ipv6/addrconf.c), when it has the time.
    ///
    /// # Errors
    /// [`NetlinkError`]; reading needs no privilege.
    pub fn delivers(&mut self, address: IpAddr) -> Result<bool, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(address);
        message.header.destination_prefix_length = IpNetwork::host(address).prefix();
        message.attributes = vec![RouteAttribute::Destination(RouteAddress::from(address))];
        let request = format!("look up where packets for {address} go");
        match self.channel.get(&request, 0, RouteNetlinkMessage::GetRoute(message)) {
            // The type of a route: byte 7 of `struct rtmsg`.
            Ok(replies) => Ok(replies.iter().any(|(_, payload)| payload.get(7) == Some(&libc::RTN_LOCAL))),
            Err(error) if matches!(error.errno(), Some(Errno::NETUNREACH | Errno::HOSTUNREACH)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes an address away from interface `index`.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (`EADDRNOTAVAIL` when it does not have it).
    pub fn remove_address(&mut self, index: u32, network: IpNetwork) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::DelAddress(address_message(index, network));
        self.channel.execute(&format!("remove address {network} from interface {index}"), 0, message)
    }
}

fn address_message(index: u32, network: IpNetwork) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(network.addr());
    message.header.prefix_len = network.prefix();
    message.header.index = index;
    message.attributes =
        vec![AddressAttribute::Local(network.addr()), AddressAttribute::Address(network.addr())];
    message
}

/// The address family of an address.
pub(super) const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// The address that an `RTM_NEWADDR` or `RTM_DELADDR` message describes.
pub(crate) fn parse_address(payload: &[u8]) -> Option<InterfaceAddress> {
    let (header, attributes) = Attributes::after(payload, ADDRESS_HEADER)?;
    let [_family, prefix, short_flags, scope, ..] = *header else { return None };
    // On a point-to-point interface IFA_ADDRESS is the other end; IFA_LOCAL is always this one.
    let address = attributes.address(IFA_LOCAL).or_else(|| attributes.address(IFA_ADDRESS))?;
    let flags = attributes.u32(IFA_FLAGS).unwrap_or_else(|| u32::from(short_flags));
    Some(InterfaceAddress {
        index: u32_at(header, 4)?,
        network: IpNetwork::new(address, prefix).ok()?,
        tentative: flags & IFA_F_TENTATIVE != 0,
        permanent: flags & IFA_F_PERMANENT != 0,
        deprecated: flags & IFA_F_DEPRECATED != 0,
        secondary: flags & IFA_F_TEMPORARY != 0,
        link_scope: scope == libc::RT_SCOPE_LINK,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_would_be_read(index: u32, address: IpAddr, prefix in 0u8..=32) {
            let network = IpNetwork::new(address, prefix).unwrap();
            let message = address_message(index, network);
            let mut bytes = vec![0; message.buffer_len()];
            message.emit(&mut bytes);
            let parsed = parse_address(&bytes).unwrap();
            prop_assert_eq!((parsed.index, parsed.network), (index, network));
        }

        #[test]
        fn any_bytes_are_an_address_or_not(payload: Vec<u8>) {
            let _ = parse_address(&payload);
        }
    }
}
