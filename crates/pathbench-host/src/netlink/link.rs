//! Interfaces: listing, making, changing, counting.

use super::attribute::{Attributes, u32_at, u64_at};
use super::{NetlinkError, RouteSocket};
use crate::namespace::NetNamespace;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::stats::{StatsFilterMask, StatsMessage};
use std::os::fd::AsRawFd;

// linux/if_link.h
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_STATS_LINK_64: u16 = 1;
/// `struct ifinfomsg`
const LINK_HEADER: usize = 16;
/// `struct if_stats_msg`
const STATISTICS_HEADER: usize = 12;
/// `IFNAMSIZ` with the terminating zero (linux/if.h).
const NAME_BYTES: usize = 16;

/// An interface as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags of the kernel's interface")]
pub struct Link {
    /// Its number within its namespace.
    pub index: u32,
    /// Its name within its namespace.
    pub name: String,
    /// Largest IP packet it takes, in bytes.
    pub mtu: u32,
    /// Whether it is administratively up (`IFF_UP`).
    pub up: bool,
    /// Whether it has a carrier (`IFF_LOWER_UP`); of a veth: whether its peer is up, too.
    pub carrier: bool,
    /// Whether it is ready to carry packets (`IFF_RUNNING`). After up and carrier the kernel still has to
    /// take note, which it does a little later, or when it is asked for this interface alone
    /// ([`RouteSocket::link`], [`RouteSocket::link_by_index`]; from Linux 6.8 on); until then it drops what
    /// is sent, and a bridge does not forward to the interface.
    pub running: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// `veth`, `bridge`, …; `None` for hardware and loopback.
    pub kind: Option<String>,
    /// Hardware address.
    pub mac: Option<[u8; 6]>,
    /// Index of the bridge or bond it belongs to.
    pub master: Option<u32>,
    /// Largest packet handed to it for segmentation, in bytes.
    pub gso_max_size: Option<u32>,
    /// Largest number of segments of such a packet.
    pub gso_max_segs: Option<u32>,
}

/// Counters of an interface since it exists (`struct rtnl_link_stats64`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent; one packet handed over for segmentation counts once.
    pub tx_packets: u64,
    /// Bytes received, with the Ethernet header.
    pub rx_bytes: u64,
    /// Bytes sent, with the Ethernet header.
    pub tx_bytes: u64,
    /// Bad packets received.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets received and dropped for want of space.
    pub rx_dropped: u64,
    /// Packets dropped instead of sent.
    pub tx_dropped: u64,
}

/// One end of a [`VethPair`].
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// Its name, free in `namespace`.
    pub name: &'a str,
    /// Where it is to live.
    pub namespace: &'a NetNamespace,
    /// Largest IP packet, in bytes; 68 to 65535.
    pub mtu: u32,
}

/// A virtual wire: what goes into one end comes out of the other.
#[derive(Debug, Clone, Copy)]
pub struct VethPair<'a> {
    /// One end.
    pub first: VethEnd<'a>,
    /// The other end.
    pub second: VethEnd<'a>,
}

impl RouteSocket {
    /// All interfaces of the namespace.
    ///
    /// # Errors
    /// [`NetlinkError`]; reading needs no privilege.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let replies = self.channel.dump("list the interfaces", &RouteNetlinkMessage::GetLink(message))?;
        Ok(replies.iter().filter_map(|(_, payload)| parse_link(payload)).collect())
    }

    /// The interface called `name`.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchInterface`] when there is none.
    pub fn link(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(valid_name(name)?));
        self.get_link(message, name)
    }

    /// The interface with this index.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchInterface`] when there is none.
    pub fn link_by_index(&mut self, index: u32) -> Result<Link, NetlinkError> {
        self.get_link(of_index(index), &format!("with index {index}"))
    }

    fn get_link(&mut self, mut message: LinkMessage, interface: &str) -> Result<Link, NetlinkError> {
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let request = format!("look up interface {interface}");
        let absent = || NetlinkError::NoSuchInterface { interface: interface.to_owned() };
        match self.channel.get(&request, 0, RouteNetlinkMessage::GetLink(message)) {
            Ok(replies) => replies.iter().find_map(|(_, payload)| parse_link(payload)).ok_or_else(absent),
            Err(error) if error.is_absent() => Err(absent()),
            Err(error) => Err(error),
        }
    }

    /// Makes both ends of a wire where they are to live, under their final names, in one request. Both are
    /// down at first.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (a name is taken: `EEXIST`) and [`NetlinkError::InvalidName`].
    pub fn create_veth(&mut self, pair: &VethPair<'_>) -> Result<(), NetlinkError> {
        let mut peer = LinkMessage::default();
        peer.attributes = veth_attributes(&pair.second)?;
        let mut message = LinkMessage::default();
        message.attributes = veth_attributes(&pair.first)?;
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let request = format!("create the veth pair {}–{}", pair.first.name, pair.second.name);
        self.channel.execute(&request, NLM_F_CREATE | NLM_F_EXCL, RouteNetlinkMessage::NewLink(message))
    }

    /// Makes a bridge that floods what it does not know (no spanning tree, no multicast snooping) and
    /// returns its index. It is down at first.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (the name is taken: `EEXIST`) and [`NetlinkError::InvalidName`].
    pub fn create_bridge(&mut self, name: &str) -> Result<u32, NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(valid_name(name)?),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Bridge),
                LinkInfo::Data(InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)])),
            ]),
        ];
        let request = format!("create the bridge {name}");
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.channel.execute(&request, flags, RouteNetlinkMessage::NewLink(message))?;
        self.link(name).map(|link| link.index)
    }

    /// Makes interface `index` a port of the bridge with index `bridge`.
    pub fn set_master(&mut self, index: u32, bridge: u32) -> Result<(), NetlinkError> {
        let request = format!("make interface {index} a port of bridge {bridge}");
        self.change_link(&request, index, [LinkAttribute::Controller(bridge)])
    }

    /// Brings interface `index` up.
    pub fn set_up(&mut self, index: u32) -> Result<(), NetlinkError> {
        self.set_flag(index, LinkFlags::Up, "up")
    }

    /// Takes interface `index` down; the kernel removes its routes and its IPv6 addresses with that.
    pub fn set_down(&mut self, index: u32) -> Result<(), NetlinkError> {
        self.set_flag(index, LinkFlags::empty(), "down")
    }

    /// Brings the namespace's loopback interface up.
    pub fn set_loopback_up(&mut self) -> Result<(), NetlinkError> {
        let loopback = self.link("lo")?;
        self.set_up(loopback.index)
    }

    /// Sets the MTU of interface `index` in bytes.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (`EINVAL` outside of what the device can do).
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        self.change_link(
            &format!("set the MTU of interface {index} to {mtu}"),
            index,
            [LinkAttribute::Mtu(mtu)],
        )
    }

    /// Sets how many packets may wait to be sent by interface `index`; of a TUN device: to be read.
    pub fn set_transmit_queue(&mut self, index: u32, packets: u32) -> Result<(), NetlinkError> {
        let request = format!("set the transmit queue of interface {index} to {packets} packets");
        self.change_link(&request, index, [LinkAttribute::TxQueueLen(packets)])
    }

    /// Limits the packets handed to interface `index` for segmentation: at most `gso_max_size` bytes and
    /// `gso_max_segs` segments each.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (`EINVAL` outside of what the device can do).
    pub fn set_gso(&mut self, index: u32, gso_max_size: u32, gso_max_segs: u32) -> Result<(), NetlinkError> {
        self.change_link(
            &format!(
                "limit segmentation offload of interface {index} to {gso_max_size} B, {gso_max_segs} segments"
            ),
            index,
            [LinkAttribute::GsoMaxSize(gso_max_size), LinkAttribute::GsoMaxSegs(gso_max_segs)],
        )
    }

    /// Removes interface `index`, and the other end when it is a veth.
    pub fn delete_link(&mut self, index: u32) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::DelLink(of_index(index));
        self.channel.execute(&format!("remove interface {index}"), 0, message)
    }

    /// Counters of interface `index`.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`]; [`NetlinkError::Malformed`] when the kernel answers without counters.
    pub fn statistics(&mut self, index: u32) -> Result<LinkStatistics, NetlinkError> {
        let request = format!("read the counters of interface {index}");
        let mut message = StatsMessage::default();
        message.header.ifindex = index;
        message.header.filter_mask = StatsFilterMask::Link64;
        let replies = self.channel.get(&request, 0, RouteNetlinkMessage::GetStats(message))?;
        replies
            .iter()
            .find_map(|(_, payload)| {
                let (_, attributes) = Attributes::after(payload, STATISTICS_HEADER)?;
                parse_statistics(attributes.get(IFLA_STATS_LINK_64)?)
            })
            .ok_or(NetlinkError::Malformed { request, detail: "it has no counters" })
    }

    fn set_flag(&mut self, index: u32, flags: LinkFlags, way: &str) -> Result<(), NetlinkError> {
        let mut message = of_index(index);
        message.header.flags = flags;
        message.header.change_mask = LinkFlags::Up;
        let request = format!("bring interface {index} {way}");
        self.channel.execute(&request, 0, RouteNetlinkMessage::SetLink(message))
    }

    fn change_link<const N: usize>(
        &mut self,
        request: &str,
        index: u32,
        attributes: [LinkAttribute; N],
    ) -> Result<(), NetlinkError> {
        let mut message = of_index(index);
        message.attributes.extend(attributes);
        self.channel.execute(request, 0, RouteNetlinkMessage::SetLink(message))
    }
}

fn of_index(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn veth_attributes(end: &VethEnd<'_>) -> Result<Vec<LinkAttribute>, NetlinkError> {
    Ok(vec![
        LinkAttribute::IfName(valid_name(end.name)?),
        LinkAttribute::Mtu(end.mtu),
        LinkAttribute::NetNsFd(end.namespace.as_fd().as_raw_fd()),
    ])
}

/// `name`, if the kernel's `dev_valid_name` takes it (net/core/dev.c).
fn valid_name(name: &str) -> Result<String, NetlinkError> {
    let wrong = name.is_empty()
        || name.len() >= NAME_BYTES
        || matches!(name, "." | "..")
        || name.bytes().any(|byte| matches!(byte, 0 | b'/' | b':' | 0x0b) || byte.is_ascii_whitespace());
    if wrong { Err(NetlinkError::InvalidName { name: name.to_owned() }) } else { Ok(name.to_owned()) }
}

/// The interface that an `RTM_NEWLINK` or `RTM_DELLINK` message describes.
pub(crate) fn parse_link(payload: &[u8]) -> Option<Link> {
    let (header, attributes) = Attributes::after(payload, LINK_HEADER)?;
    let flags = u32_at(header, 8)? as i32;
    let index = u32_at(header, 4)?;
    Some(Link {
        index,
        name: attributes.text(IFLA_IFNAME)?,
        mtu: attributes.u32(IFLA_MTU).unwrap_or(0),
        up: flags & libc::IFF_UP != 0,
        carrier: flags & libc::IFF_LOWER_UP != 0,
        running: flags & libc::IFF_RUNNING != 0,
        loopback: flags & libc::IFF_LOOPBACK != 0,
        kind: attributes.nested(IFLA_LINKINFO).and_then(|info| info.text(IFLA_INFO_KIND)),
        mac: attributes.get(IFLA_ADDRESS).and_then(|bytes| bytes.try_into().ok()),
        master: attributes.u32(IFLA_MASTER),
        gso_max_size: attributes.u32(IFLA_GSO_MAX_SIZE),
        gso_max_segs: attributes.u32(IFLA_GSO_MAX_SEGS),
    })
}

fn parse_statistics(bytes: &[u8]) -> Option<LinkStatistics> {
    let field = |number: usize| u64_at(bytes, number * 8);
    Some(LinkStatistics {
        rx_packets: field(0)?,
        tx_packets: field(1)?,
        rx_bytes: field(2)?,
        tx_bytes: field(3)?,
        rx_errors: field(4)?,
        tx_errors: field(5)?,
        rx_dropped: field(6)?,
        tx_dropped: field(7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_the_kernel_would_not_take() {
        for name in ["eth", "a", "fifteen-bytes-x", "wlan.a"] {
            assert!(valid_name(name).is_ok(), "{name}");
        }
        for name in ["", "sixteen-bytes-xx", "a/b", "a b", "a:1", "..", "a\n"] {
            assert!(valid_name(name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_link_or_not(payload: Vec<u8>) {
            let _ = parse_link(&payload);
            let _ = parse_statistics(&payload);
        }
    }
}
