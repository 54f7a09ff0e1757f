//! Interfaces, their counters and their addresses.

use super::channel::NetlinkError;
use super::message::{Attributes, Encoder, NetlinkMessage, u32_at, u64_at};
use super::socket::{RouteSocket, family};
use crate::namespace::NetNamespace;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use pathbench_record::network::IpNet;
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};

// Constants of linux/if_link.h, linux/rtnetlink.h and linux/veth.h that libc lacks.
const RTM_GETSTATS: u16 = 94;
const IFLA_STATS_LINK_64: u16 = 1;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const VETH_INFO_PEER: u16 = 1;
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
/// `struct if_stats_msg`
const STATISTICS_HEADER: usize = 12;

/// An interface as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags of the kernel's interface")]
pub struct NetworkInterface {
    pub index: u32,
    pub name: String,
    /// MTU: the largest IP packet in bytes.
    pub mtu: u32,
    /// Administratively up (`IFF_UP`).
    pub up: bool,
    /// Has a carrier (`IFF_LOWER_UP`); for a veth, the peer is up too.
    pub carrier: bool,
    /// Ready to forward packets (`IFF_RUNNING`). The kernel sets the flag some time after up and carrier, or on a query
    /// for this interface alone ([`RouteSocket::link`], [`RouteSocket::link_by_index`]; Linux 6.8 or later). Until then
    /// it drops outgoing packets, and a bridge does not forward to the interface.
    pub running: bool,
    pub loopback: bool,
    /// `veth`, `bridge`, …; `None` for hardware and loopback.
    pub kind: Option<String>,
    pub mac: Option<[u8; 6]>,
    /// Index of its bridge or bond.
    pub master: Option<u32>,
    /// Largest GSO packet, in bytes.
    pub gso_max_size: Option<u32>,
    /// Largest number of segments of a GSO packet.
    pub gso_max_segs: Option<u32>,
}

/// Counters of an interface since it was created (`struct rtnl_link_stats64`). Bytes include the Ethernet header; a GSO
/// packet counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub tx_dropped: u64,
}

/// One end of a [`VethPair`].
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    pub name: &'a str,
    pub namespace: &'a NetNamespace,
    /// Largest IP packet, in bytes; 68 to 65535.
    pub mtu: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct VethPair<'a> {
    pub first: VethEnd<'a>,
    pub second: VethEnd<'a>,
}

impl NetworkInterface {
    /// Parses the interface in an `RTM_NEWLINK` message.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, LINK_HEADER)?;
        let flags = u32_at(header, 8)? as i32;
        Some(Self {
            index: u32_at(header, 4)?,
            name: attributes.text(libc::IFLA_IFNAME)?,
            mtu: attributes.u32(libc::IFLA_MTU).unwrap_or(0),
            up: flags & libc::IFF_UP != 0,
            carrier: flags & libc::IFF_LOWER_UP != 0,
            running: flags & libc::IFF_RUNNING != 0,
            loopback: flags & libc::IFF_LOOPBACK != 0,
            kind: attributes.nested(libc::IFLA_LINKINFO).and_then(|info| info.text(libc::IFLA_INFO_KIND)),
            mac: attributes.get(libc::IFLA_ADDRESS).and_then(|bytes| bytes.try_into().ok()),
            master: attributes.u32(libc::IFLA_MASTER),
            gso_max_size: attributes.u32(libc::IFLA_GSO_MAX_SIZE),
            gso_max_segs: attributes.u32(libc::IFLA_GSO_MAX_SEGS),
        })
    }
}

impl LinkStatistics {
    /// Parses the counters in an `RTM_NEWSTATS` message.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = Attributes::parse_after_header(payload, STATISTICS_HEADER)?;
        let counters = attributes.get(IFLA_STATS_LINK_64)?;
        let field = |number: usize| u64_at(counters, number * 8);
        Some(Self { tx_packets: field(1)?, rx_bytes: field(2)?, tx_bytes: field(3)?, tx_dropped: field(7)? })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags of the kernel's interface")]
pub struct InterfaceAddress {
    pub index: u32,
    /// The address with its prefix length, host bits included.
    pub network: IpNet,
    /// Duplicate address detection is in progress (IPv6), so the address cannot be used yet.
    pub tentative: bool,
    /// Permanent; otherwise assigned by a router or DHCP with a lifetime.
    pub permanent: bool,
    /// Deprecated: new connections should not use it.
    pub deprecated: bool,
    /// IPv6: a privacy address; IPv4: a secondary address of its network.
    pub secondary: bool,
    /// Valid on its link only (`fe80::/10`, 169.254.0.0/16 by its scope).
    pub link_scope: bool,
}

impl InterfaceAddress {
    /// The attributes in requests: `flags` are `IFA_F_*`.
    pub fn encode(index: u32, network: IpNet, flags: u8) -> Encoder {
        let [a, b, c, d] = index.to_ne_bytes();
        let header = [family(network.addr()), network.prefix_len(), flags, 0, a, b, c, d];
        Encoder::with_header(&header)
            .address(libc::IFA_LOCAL, network.addr())
            .address(libc::IFA_ADDRESS, network.addr())
    }

    /// Parses the address in an `RTM_NEWADDR` message.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, ADDRESS_HEADER)?;
        let [_family, prefix, short_flags, scope, ..] = *header else { return None };
        // On a point-to-point interface IFA_ADDRESS is the peer's address; IFA_LOCAL is always the local one.
        let address =
            attributes.address(libc::IFA_LOCAL).or_else(|| attributes.address(libc::IFA_ADDRESS))?;
        let flags = attributes.u32(libc::IFA_FLAGS).unwrap_or_else(|| u32::from(short_flags));
        Some(Self {
            index: u32_at(header, 4)?,
            network: IpNet::new(address, prefix).ok()?,
            tentative: flags & libc::IFA_F_TENTATIVE != 0,
            permanent: flags & libc::IFA_F_PERMANENT != 0,
            deprecated: flags & libc::IFA_F_DEPRECATED != 0,
            secondary: flags & libc::IFA_F_TEMPORARY != 0,
            link_scope: scope == libc::RT_SCOPE_LINK,
        })
    }
}

impl RouteSocket {
    pub fn links(&mut self) -> Result<Vec<NetworkInterface>, NetlinkError> {
        let message = without_statistics(header(0, 0, 0)).message(libc::RTM_GETLINK);
        self.channel.dump("list the interfaces", &message, NetworkInterface::parse)
    }

    pub fn link(&mut self, name: &str) -> Result<NetworkInterface, NetlinkError> {
        self.get_link(header(0, 0, 0).text(libc::IFLA_IFNAME, valid_name(name)?), name)
    }

    /// The interface with this index. Errors: see [`Self::link`].
    pub fn link_by_index(&mut self, index: u32) -> Result<NetworkInterface, NetlinkError> {
        self.get_link(header(index, 0, 0), &format!("with index {index}"))
    }

    fn get_link(&mut self, selection: Encoder, interface: &str) -> Result<NetworkInterface, NetlinkError> {
        let message = without_statistics(selection).message(libc::RTM_GETLINK);
        let absent = || NetlinkError::NoSuchInterface { interface: interface.to_owned() };
        match self.channel.get(
            &format!("look up interface {interface}"),
            0,
            &message,
            NetworkInterface::parse,
        ) {
            Ok(link) => link.ok_or_else(absent),
            Err(error) if error.is_absent() => Err(absent()),
            Err(error) => Err(error),
        }
    }

    /// Creates both ends of a veth pair in their namespaces with their final names, in one request. Both are initially
    /// down.
    /// Errors: [`NetlinkError::Refused`] (a name is in use: `EEXIST`) and [`NetlinkError::InvalidName`].
    pub fn create_veth(&mut self, pair: &VethPair<'_>) -> Result<(), NetlinkError> {
        let peer = encode_veth_end(&pair.second)?.into_bytes();
        let information = link_information("veth", Encoder::default().bytes(VETH_INFO_PEER, &peer));
        let message = encode_veth_end(&pair.first)?.nested(libc::IFLA_LINKINFO, information);
        let request = format!("create the veth pair {}–{}", pair.first.name, pair.second.name);
        self.create(&request, message)
    }

    /// Creates a bridge that floods unknown destinations (no spanning tree, no multicast snooping) and returns its
    /// index. It is initially down.
    pub fn create_bridge(&mut self, name: &str) -> Result<u32, NetlinkError> {
        let information = link_information("bridge", Encoder::default().u8(IFLA_BR_MCAST_SNOOPING, 0));
        let message = header(0, 0, 0)
            .text(libc::IFLA_IFNAME, valid_name(name)?)
            .nested(libc::IFLA_LINKINFO, information);
        self.create(&format!("create the bridge {name}"), message)?;
        self.link(name).map(|link| link.index)
    }

    fn create(&mut self, request: &str, link: Encoder) -> Result<(), NetlinkError> {
        self.channel.execute(request, NLM_F_CREATE | NLM_F_EXCL, &link.message(libc::RTM_NEWLINK))
    }

    /// Makes interface `index` a port of the bridge with index `bridge`.
    pub fn set_master(&mut self, index: u32, bridge: u32) -> Result<(), NetlinkError> {
        let request = format!("make interface {index} a port of bridge {bridge}");
        self.change_link(&request, header(index, 0, 0).u32(libc::IFLA_MASTER, bridge))
    }

    pub fn set_up(&mut self, index: u32) -> Result<(), NetlinkError> {
        let up = libc::IFF_UP as u32;
        self.change_link(&format!("bring interface {index} up"), header(index, up, up))
    }

    /// Sets interface `index` down; the kernel then removes its routes and IPv6 addresses.
    pub fn set_down(&mut self, index: u32) -> Result<(), NetlinkError> {
        self.change_link(&format!("bring interface {index} down"), header(index, 0, libc::IFF_UP as u32))
    }

    pub fn set_loopback_up(&mut self) -> Result<(), NetlinkError> {
        let loopback = self.link("lo")?;
        self.set_up(loopback.index)
    }

    /// Sets the MTU of interface `index` in bytes (`EINVAL` outside of the device's range).
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        let request = format!("set the MTU of interface {index} to {mtu}");
        self.change_link(&request, header(index, 0, 0).u32(libc::IFLA_MTU, mtu))
    }

    /// Sets the transmit queue length of interface `index` in packets. A TUN device queues packets until they are read.
    pub fn set_transmit_queue(&mut self, index: u32, packets: u32) -> Result<(), NetlinkError> {
        let request = format!("set the transmit queue of interface {index} to {packets} packets");
        self.change_link(&request, header(index, 0, 0).u32(libc::IFLA_TXQLEN, packets))
    }

    /// Limits GSO packets of interface `index`: at most `gso_max_size` bytes and `gso_max_segs` segments each (`EINVAL`
    /// outside of the device's range).
    pub fn set_gso(&mut self, index: u32, gso_max_size: u32, gso_max_segs: u32) -> Result<(), NetlinkError> {
        let request = format!(
            "limit segmentation offload of interface {index} to {gso_max_size} B, {gso_max_segs} segments"
        );
        let limits = header(index, 0, 0)
            .u32(libc::IFLA_GSO_MAX_SIZE, gso_max_size)
            .u32(libc::IFLA_GSO_MAX_SEGS, gso_max_segs);
        self.change_link(&request, limits)
    }

    /// Removes interface `index`, and the peer of a veth.
    pub fn delete_link(&mut self, index: u32) -> Result<(), NetlinkError> {
        let message = header(index, 0, 0).message(libc::RTM_DELLINK);
        self.channel.execute(&format!("remove interface {index}"), 0, &message)
    }

    pub fn statistics(&mut self, index: u32) -> Result<LinkStatistics, NetlinkError> {
        let [a, b, c, d] = index.to_ne_bytes();
        let mut header = [0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0];
        // The bit of IFLA_STATS_LINK_64 in `filter_mask`.
        header[8..].copy_from_slice(&1_u32.to_ne_bytes());
        let message = NetlinkMessage { kind: RTM_GETSTATS, payload: header.to_vec() };
        let request = format!("read the counters of interface {index}");
        self.channel.expect(&request, 0, &message, LinkStatistics::parse)
    }

    pub fn addresses(&mut self) -> Result<Vec<InterfaceAddress>, NetlinkError> {
        let message = Encoder::with_header(&[0; ADDRESS_HEADER]).message(libc::RTM_GETADDR);
        self.channel.dump("list the addresses", &message, InterfaceAddress::parse)
    }

    /// Assigns an address to interface `index`, with the route to its network. IPv6 addresses skip duplicate address
    /// detection and can be used once [`Self::delivers`] is true.
    pub fn add_address(&mut self, index: u32, network: IpNet) -> Result<(), NetlinkError> {
        let flags = if network.addr().is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        let message = InterfaceAddress::encode(index, network, flags).message(libc::RTM_NEWADDR);
        let request = format!("add address {network} to interface {index}");
        self.channel.execute(&request, NLM_F_CREATE | NLM_F_EXCL, &message)
    }

    /// Whether packets for `address` reach the sockets of the namespace. After the addition of an IPv6 address, a
    /// kernel worker creates the local route asynchronously (`addrconf_dad_work`, net/ipv6/addrconf.c).
    pub fn delivers(&mut self, address: IpAddr) -> Result<bool, NetlinkError> {
        let mut header = [0; 12];
        (header[0], header[1]) = (family(address), IpNet::from(address).prefix_len());
        let message =
            Encoder::with_header(&header).address(libc::RTA_DST, address).message(libc::RTM_GETROUTE);
        let request = format!("look up where packets for {address} go");
        // The type of a route: byte 7 of `struct rtmsg`.
        match self.channel.get(&request, 0, &message, |payload| payload.get(7).copied()) {
            Ok(kind) => Ok(kind == Some(libc::RTN_LOCAL)),
            Err(error) if matches!(error.errno(), Some(Errno::NETUNREACH | Errno::HOSTUNREACH)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn remove_address(&mut self, index: u32, network: IpNet) -> Result<(), NetlinkError> {
        let message = InterfaceAddress::encode(index, network, 0).message(libc::RTM_DELADDR);
        self.channel.execute(&format!("remove address {network} from interface {index}"), 0, &message)
    }

    fn change_link(&mut self, request: &str, link: Encoder) -> Result<(), NetlinkError> {
        self.channel.execute(request, 0, &link.message(libc::RTM_SETLINK))
    }
}

fn header(index: u32, flags: u32, change: u32) -> Encoder {
    let words = [0, index, flags, change].map(u32::to_ne_bytes);
    Encoder::with_header(words.as_flattened())
}

fn without_statistics(link: Encoder) -> Encoder {
    link.u32(libc::IFLA_EXT_MASK, libc::RTEXT_FILTER_SKIP_STATS as u32)
}

fn link_information(kind: &str, data: Encoder) -> Encoder {
    Encoder::default().text(libc::IFLA_INFO_KIND, kind).nested(libc::IFLA_INFO_DATA, data)
}

fn encode_veth_end(end: &VethEnd<'_>) -> Result<Encoder, NetlinkError> {
    Ok(header(0, 0, 0)
        .text(libc::IFLA_IFNAME, valid_name(end.name)?)
        .u32(libc::IFLA_MTU, end.mtu)
        .u32(libc::IFLA_NET_NS_FD, end.namespace.as_fd().as_raw_fd().cast_unsigned()))
}

/// `name`, if the kernel's `dev_valid_name` accepts it (net/core/dev.c).
pub fn valid_name(name: &str) -> Result<&str, NetlinkError> {
    let wrong = name.is_empty()
        || name.len() >= libc::IFNAMSIZ
        || matches!(name, "." | "..")
        || name.bytes().any(|byte| matches!(byte, 0 | b'/' | b':' | 0x0b) || byte.is_ascii_whitespace());
    if wrong { Err(NetlinkError::InvalidName { name: name.to_owned() }) } else { Ok(name) }
}
