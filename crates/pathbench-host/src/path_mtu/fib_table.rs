//! Reading and writing routes as they are.

use super::fib_entry::{FibEntry, ROUTE_HEADER, RTA_DST, RTA_OIF, RTA_SRC, RTA_TABLE};
use crate::netlink::attribute::{octets, u32_attribute};
use crate::netlink::channel::Reply;
use crate::netlink::raw::RawRequest;
use crate::netlink::{NetlinkError, RouteSocket};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use pathbench_record::network::IpNetwork;
use rustix::io::Errno;
use std::net::IpAddr;

// linux/rtnetlink.h
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTA_IP_PROTO: u16 = 27;
/// The entry of the table that decides, and not what follows for this one destination (Linux 4.13, IPv6 4.18).
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// The table that decides, which IPv4 otherwise tells as the main one, whichever it is; IPv6 tells it anyway.
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;

/// What a route is looked up for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// Index of the interface that the socket is bound to.
    pub(super) interface: Option<u32>,
}

impl RouteSocket {
    /// The routes of one table, or of all, of the family of `like`, in the kernel's order.
    pub(super) fn fib_entries(
        &mut self,
        like: IpAddr,
        table: Option<u32>,
    ) -> Result<Vec<FibEntry>, NetlinkError> {
        let mut header = [0; ROUTE_HEADER];
        header[0] = family(like);
        let attributes: Vec<_> = table.map(|table| u32_attribute(RTA_TABLE, table)).into_iter().collect();
        let request = match table {
            Some(table) => format!("list the routes of table {table}"),
            None => "list the routes".to_owned(),
        };
        match self.channel.dump(&request, &RawRequest::new(RTM_GETROUTE, &header, &attributes)) {
            Ok(replies) => Ok(replies.iter().filter_map(|(_, payload)| FibEntry::parse(payload)).collect()),
            // "FIB table does not exist"
            Err(error) if error.errno() == Some(Errno::NOENT) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The entry of the table that decides `lookup`.
    pub(super) fn matched_entry(&mut self, lookup: &Lookup) -> Result<Option<FibEntry>, NetlinkError> {
        let table = if lookup.destination.is_ipv4() { RTM_F_LOOKUP_TABLE } else { 0 };
        let replies = self.look_up(lookup, RTM_F_FIB_MATCH | table)?;
        Ok(replies.iter().find_map(|(_, payload)| FibEntry::parse(payload)))
    }

    /// The answers to a lookup as they are.
    pub(super) fn look_up(&mut self, lookup: &Lookup, flags: u32) -> Result<Vec<Reply>, NetlinkError> {
        let mut header = [0; ROUTE_HEADER];
        header[0] = family(lookup.destination);
        header[1] = IpNetwork::host(lookup.destination).prefix();
        header[2] = IpNetwork::host(lookup.source).prefix();
        header[8..].copy_from_slice(&flags.to_ne_bytes());
        let mut attributes = vec![
            DefaultNla::new(RTA_DST, octets(lookup.destination)),
            DefaultNla::new(RTA_SRC, octets(lookup.source)),
            DefaultNla::new(RTA_IP_PROTO, vec![libc::IPPROTO_TCP as u8]),
        ];
        attributes.extend(lookup.interface.map(|index| u32_attribute(RTA_OIF, index)));
        let request = format!("look up the route from {} to {}", lookup.source, lookup.destination);
        self.channel.get(&request, 0, RawRequest::new(RTM_GETROUTE, &header, &attributes))
    }

    /// Adds `entry`; refused (`EEXIST`) where its place is taken.
    pub(super) fn add_entry(&mut self, entry: &FibEntry) -> Result<(), NetlinkError> {
        self.write("add the route", RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, entry)
    }

    /// Puts `entry` in the place of the first that has it; refused (`ENOENT`) where there is none.
    pub(super) fn replace_entry(&mut self, entry: &FibEntry) -> Result<(), NetlinkError> {
        self.write("replace the route", RTM_NEWROUTE, NLM_F_REPLACE, entry)
    }

    /// Removes the route that is `entry` in every respect.
    pub(super) fn remove_entry(&mut self, entry: &FibEntry) -> Result<(), NetlinkError> {
        self.write("remove the route", RTM_DELROUTE, 0, entry)
    }

    fn write(&mut self, what: &str, kind: u16, flags: u16, entry: &FibEntry) -> Result<(), NetlinkError> {
        let (header, attributes) = entry.request();
        let request = format!("{what} to {} in table {}", entry.destination(), entry.table());
        self.channel.execute(&request, flags, RawRequest::new(kind, &header, &attributes))
    }
}

pub(super) fn family(like: IpAddr) -> u8 {
    (if like.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}
