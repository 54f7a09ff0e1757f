//! Addresses of interfaces.

use super::message::{Attributes, Encoder, u32_at};
use super::{NetlinkError, RouteSocket, family};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use pathbench_record::network::IpNetwork;
use rustix::io::Errno;
use std::net::IpAddr;

const ADDRESS_HEADER: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags of the kernel's interface")]
pub struct InterfaceAddress {
    pub index: u32,
    /// The address with its prefix length, host bits included.
    pub network: IpNetwork,
    /// Still being checked for duplicates, so that it cannot be used yet (IPv6).
    pub tentative: bool,
    /// Stays until removed; otherwise a router or DHCP gave it for a time.
    pub permanent: bool,
    /// New connections should not use it any more.
    pub deprecated: bool,
    /// IPv6: a privacy address; IPv4: a secondary address of its network.
    pub secondary: bool,
    /// Valid on its link only (`fe80::/10`, 169.254.0.0/16 by its scope).
    pub link_scope: bool,
}

impl RouteSocket {
    pub fn addresses(&mut self) -> Result<Vec<InterfaceAddress>, NetlinkError> {
        let message = Encoder::after(&[0; ADDRESS_HEADER]).message(libc::RTM_GETADDR);
        self.channel.dump("list the addresses", &message, parse_address)
    }

    /// Gives interface `index` an address, with the route to its network. IPv6 addresses skip duplicate address
    /// detection, so that they can be used as soon as [`Self::delivers`] is true.
    pub fn add_address(&mut self, index: u32, network: IpNetwork) -> Result<(), NetlinkError> {
        let flags = if network.addr().is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        let message = described(index, network, flags).message(libc::RTM_NEWADDR);
        let request = format!("add address {network} to interface {index}");
        self.channel.execute(&request, NLM_F_CREATE | NLM_F_EXCL, &message)
    }

    /// Whether packets for `address` reach the sockets of the namespace. Not at once after an IPv6 address was added: a
    /// kernel worker makes the route for it later (`addrconf_dad_work`, net/ipv6/addrconf.c).
    pub fn delivers(&mut self, address: IpAddr) -> Result<bool, NetlinkError> {
        let mut header = [0; 12];
        (header[0], header[1]) = (family(address), IpNetwork::host(address).prefix());
        let message = Encoder::after(&header).address(libc::RTA_DST, address).message(libc::RTM_GETROUTE);
        let request = format!("look up where packets for {address} go");
        // The type of a route: byte 7 of `struct rtmsg`.
        match self.channel.get(&request, 0, &message, |payload| payload.get(7).copied()) {
            Ok(kind) => Ok(kind == Some(libc::RTN_LOCAL)),
            Err(error) if matches!(error.errno(), Some(Errno::NETUNREACH | Errno::HOSTUNREACH)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn remove_address(&mut self, index: u32, network: IpNetwork) -> Result<(), NetlinkError> {
        let message = described(index, network, 0).message(libc::RTM_DELADDR);
        self.channel.execute(&format!("remove address {network} from interface {index}"), 0, &message)
    }
}

fn described(index: u32, network: IpNetwork, flags: u8) -> Encoder {
    let [a, b, c, d] = index.to_ne_bytes();
    let header = [family(network.addr()), network.prefix(), flags, 0, a, b, c, d];
    Encoder::after(&header)
        .address(libc::IFA_LOCAL, network.addr())
        .address(libc::IFA_ADDRESS, network.addr())
}

pub(crate) fn parse_address(payload: &[u8]) -> Option<InterfaceAddress> {
    let (header, attributes) = Attributes::after(payload, ADDRESS_HEADER)?;
    let [_family, prefix, short_flags, scope, ..] = *header else { return None };
    // On a point-to-point interface IFA_ADDRESS is the other end; IFA_LOCAL is always this one.
    let address = attributes.address(libc::IFA_LOCAL).or_else(|| attributes.address(libc::IFA_ADDRESS))?;
    let flags = attributes.u32(libc::IFA_FLAGS).unwrap_or_else(|| u32::from(short_flags));
    Some(InterfaceAddress {
        index: u32_at(header, 4)?,
        network: IpNetwork::new(address, prefix).ok()?,
        tentative: flags & libc::IFA_F_TENTATIVE != 0,
        permanent: flags & libc::IFA_F_PERMANENT != 0,
        deprecated: flags & libc::IFA_F_DEPRECATED != 0,
        secondary: flags & libc::IFA_F_TEMPORARY != 0,
        link_scope: scope == libc::RT_SCOPE_LINK,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_would_be_read(index: u32, address: IpAddr, prefix in 0u8..=32) {
            let network = IpNetwork::new(address, prefix).unwrap();
            let parsed = parse_address(&described(index, network, 0).into_bytes()).unwrap();
            prop_assert_eq!((parsed.index, parsed.network), (index, network));
        }

        #[test]
        fn any_bytes_are_an_address_or_not(payload: Vec<u8>) {
            let _ = parse_address(&payload);
        }
    }
}
