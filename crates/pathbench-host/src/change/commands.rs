//! The shell commands (ip(8)) that are equivalent to changes.

use crate::mptcp::MptcpEndpoint;
use crate::netlink::fib_entry::{FibEntry, NextHop, RTA_ENCAP, RTA_NH_ID, RTA_PREF, RTAX_LOCK};
use crate::netlink::message::u32_at;
use crate::netlink::{MAIN_TABLE, RoutingRule};
use pathbench_record::mptcp::command::add_endpoint;
use pathbench_record::network::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub type InterfaceNames = BTreeMap<u32, String>;

pub(super) fn replacement_commands(
    there: &FibEntry,
    entry: &FibEntry,
    names: &InterfaceNames,
) -> Vec<String> {
    if there.hides(entry) {
        return vec![route_command("delete", there, names), route_command("add", entry, names)];
    }
    vec![route_command("replace", entry, names)]
}

pub(super) fn first_subflow_command(address: IpAddr) -> String {
    format!("ip mptcp endpoint delete id 0 {address}")
}

pub(super) fn wait_command(wait_ms: u64) -> String {
    format!("sleep {}.{:03}", wait_ms / 1000, wait_ms % 1000)
}

pub(super) fn endpoint_command(endpoint: &MptcpEndpoint, names: &InterfaceNames) -> String {
    let device = endpoint.interface.map(|index| device_name(index, names));
    add_endpoint(endpoint, device.as_deref())
}

pub(super) fn rule_command(verb: &str, rule: &RoutingRule) -> String {
    let program = if rule.from.addr().is_ipv4() { "ip" } else { "ip -6" };
    let host = IpNet::from(rule.from.addr());
    let from = if rule.from == host { host.addr().to_string() } else { rule.from.to_string() };
    format!("{program} rule {verb} from {from} lookup {} priority {}", rule.table, rule.priority)
}

fn device(interface: u32, names: &InterfaceNames) -> String {
    format!("dev {}", device_name(interface, names))
}

fn device_name(interface: u32, names: &InterfaceNames) -> String {
    names.get(&interface).cloned().unwrap_or_else(|| format!("if{interface}"))
}

/// Names of `RTAX_*` (linux/rtnetlink.h) in `ip`, by number.
const METRICS: [&str; 18] = [
    "",
    "",
    "mtu",
    "window",
    "rtt",
    "rttvar",
    "ssthresh",
    "cwnd",
    "advmss",
    "reordering",
    "hoplimit",
    "initcwnd",
    "features",
    "rto_min",
    "initrwnd",
    "quickack",
    "congctl",
    "fastopen_no_cookie",
];
const RTAX_RTT: u16 = 4;
const RTAX_RTTVAR: u16 = 5;
const RTAX_FEATURES: u16 = 12;
const RTAX_RTO_MIN: u16 = 13;
const RTAX_QUICKACK: u16 = 15;
const RTAX_CC_ALGO: u16 = 16;
const RTAX_FASTOPEN_NO_COOKIE: u16 = 17;

pub(super) fn route_command(verb: &str, entry: &FibEntry, names: &InterfaceNames) -> String {
    let mut words = vec![if entry.is_ipv4() { "ip" } else { "ip -6" }.to_owned(), format!("route {verb}")];
    words.push(destination(entry));
    words.extend(entry.source_prefix().map(|from| format!("from {from}")));
    let header = entry.header;
    if header[3] != 0 {
        words.push(format!("tos {:#04x}", header[3]));
    }
    let hops = entry.next_hops();
    match entry.get(RTA_NH_ID).and_then(|id| u32_at(id, 0)) {
        Some(id) => words.push(format!("nhid {id}")),
        None if hops.len() == 1 => hops.iter().for_each(|hop| words.extend(hop_words(entry, hop, names))),
        None => {}
    }
    if entry.protocol() != libc::RTPROT_BOOT {
        words.push(format!("proto {}", protocol(entry.protocol())));
    }
    words.extend(scope(entry, &hops));
    words.extend(entry.preferred_source().map(|source| format!("src {source}")));
    if entry.metric() != 0 {
        words.push(format!("metric {}", entry.metric()));
    }
    if entry.table() != MAIN_TABLE {
        words.push(format!("table {}", entry.table()));
    }
    words.extend(entry.get(libc::RTA_FLOW).and_then(|realms| u32_at(realms, 0)).map(realms));
    words.extend(entry.expires_s().map(|seconds| format!("expires {seconds}")));
    words.extend(preference(entry));
    words.extend(metrics(entry));
    if hops.len() > 1 && entry.get(RTA_NH_ID).is_none() {
        for hop in &hops {
            words.push("nexthop".to_owned());
            words.extend(hop_words(entry, hop, names));
            words.push(format!("weight {}", hop.weight));
        }
    }
    if entry.get(RTA_ENCAP).is_some() {
        words.push("# and its encapsulation".to_owned());
    }
    words.join(" ")
}

fn destination(entry: &FibEntry) -> String {
    let network = entry.destination();
    if network.prefix_len() == 0 {
        "default".to_owned()
    } else if network.prefix_len() == if entry.is_ipv4() { 32 } else { 128 } {
        network.addr().to_string()
    } else {
        network.to_string()
    }
}

fn hop_words(entry: &FibEntry, hop: &NextHop, names: &InterfaceNames) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(gateway) = hop.gateway {
        let other_family = gateway.is_ipv4() != entry.is_ipv4();
        let family = match gateway {
            _ if !other_family => "",
            IpAddr::V4(_) => "inet ",
            IpAddr::V6(_) => "inet6 ",
        };
        words.push(format!("via {family}{gateway}"));
    }
    if hop.interface != 0 {
        words.push(device(hop.interface, names));
    }
    if hop.on_link {
        words.push("onlink".to_owned());
    }
    words
}

fn protocol(number: u8) -> String {
    match number {
        2 => "kernel".to_owned(),
        4 => "static".to_owned(),
        9 => "ra".to_owned(),
        16 => "dhcp".to_owned(),
        number => number.to_string(),
    }
}

fn scope(entry: &FibEntry, hops: &[NextHop]) -> Option<String> {
    if !entry.is_ipv4() {
        return None;
    }
    let scope = entry.header[6];
    let direct = hops.len() == 1 && hops.iter().all(|hop| hop.gateway.is_none());
    let expected = if direct { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
    (scope != expected).then(|| match scope {
        libc::RT_SCOPE_UNIVERSE => "scope global".to_owned(),
        libc::RT_SCOPE_LINK => "scope link".to_owned(),
        scope => format!("scope {scope}"),
    })
}

fn realms(both: u32) -> String {
    let (from, to) = (both >> 16, both & 0xffff);
    if from == 0 { format!("realms {to}") } else { format!("realms {from}/{to}") }
}

fn preference(entry: &FibEntry) -> Option<String> {
    // ICMPV6_ROUTER_PREF_* of linux/icmpv6.h
    match entry.get(RTA_PREF)?.first()? {
        1 => Some("pref high".to_owned()),
        3 => Some("pref low".to_owned()),
        _ => None,
    }
}

fn metrics(entry: &FibEntry) -> Vec<String> {
    let metrics = entry.metrics();
    let locks = metrics.u32(RTAX_LOCK).unwrap_or(0);
    let words = metrics.iter().filter_map(|(kind, value)| {
        let name = METRICS.get(usize::from(kind)).filter(|name| !name.is_empty())?;
        // ip locks rto_min implicitly, and has no syntax to lock the others.
        let unspoken = matches!(kind, RTAX_FEATURES | RTAX_RTO_MIN | RTAX_QUICKACK | RTAX_FASTOPEN_NO_COOKIE);
        let lock = if unspoken || locks & (1 << kind) == 0 { "" } else { "lock " };
        let number = || u32_at(value, 0);
        let value = match kind {
            RTAX_CC_ALGO => metrics.text(kind)?,
            // In units of 1/8 ms and 1/4 ms.
            RTAX_RTT => format!("{}ms", number()? / 8),
            RTAX_RTTVAR => format!("{}ms", number()? / 4),
            RTAX_RTO_MIN => format!("{}ms", number()?),
            // RTAX_FEATURE_ECN, the only feature that ip names.
            RTAX_FEATURES if number()? == 1 => "ecn".to_owned(),
            _ => number()?.to_string(),
        };
        Some(format!("{name} {lock}{value}"))
    });
    words.collect()
}
