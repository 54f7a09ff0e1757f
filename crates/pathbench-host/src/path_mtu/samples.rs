//! Routes and connections for tests, made as the kernel would tell of them.

use super::connection::{LiveConnection, Subflow};
use super::fib_entry::{
    FibEntry, ROUTE_HEADER, RTA_CACHEINFO, RTA_DST, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH, RTA_OIF,
    RTA_PREF, RTA_PRIORITY, RTA_TABLE, RTAX_LOCK, RTAX_MTU,
};
use crate::netlink::attribute::{emitted, octets, u32_attribute};
use netlink_packet_core::DefaultNla;
use pathbench_record::network::IpNetwork;
use std::net::{IpAddr, SocketAddr};

/// A unicast route that is being described.
pub(super) struct Sample {
    header: [u8; ROUTE_HEADER],
    attributes: Vec<DefaultNla>,
    metrics: Vec<DefaultNla>,
}

/// A static route to `destination` in `table`.
pub(super) fn to(destination: &str, table: u32) -> Sample {
    let destination: IpNetwork = destination.parse().unwrap();
    let v4 = destination.addr().is_ipv4();
    let header = [
        if v4 { 2 } else { 10 },
        destination.prefix(),
        0,
        0,
        table.try_into().unwrap_or(0),
        4,
        0,
        1,
        0,
        0,
        0,
        0,
    ];
    let mut attributes = vec![u32_attribute(RTA_TABLE, table)];
    if !destination.is_default() {
        attributes.push(DefaultNla::new(RTA_DST, octets(destination.addr())));
    }
    if !v4 {
        attributes.push(DefaultNla::new(RTA_PREF, vec![0]));
    }
    Sample { header, attributes, metrics: Vec::new() }
}

impl Sample {
    pub(super) fn via(mut self, gateway: &str) -> Self {
        self.attributes.push(DefaultNla::new(RTA_GATEWAY, octets(gateway.parse().unwrap())));
        self
    }

    pub(super) fn dev(mut self, interface: u32) -> Self {
        self.attributes.push(u32_attribute(RTA_OIF, interface));
        self
    }

    pub(super) fn metric(mut self, metric: u32) -> Self {
        self.attributes.push(u32_attribute(RTA_PRIORITY, metric));
        self
    }

    pub(super) fn mtu(self, mtu_bytes: u32) -> Self {
        self.with_metric(RTAX_MTU, mtu_bytes)
    }

    pub(super) fn locked(self, mtu_bytes: u32) -> Self {
        self.with_metric(RTAX_LOCK, 1 << RTAX_MTU).with_metric(RTAX_MTU, mtu_bytes)
    }

    pub(super) fn with_metric(mut self, kind: u16, value: u32) -> Self {
        self.metrics.push(u32_attribute(kind, value));
        self
    }

    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.attributes.push(DefaultNla::new(kind, value.to_vec()));
        self
    }

    /// Byte `at` of the fixed header.
    pub(super) fn header(mut self, at: usize, value: u8) -> Self {
        self.header[at] = value;
        self
    }

    /// Expiring in so many hundredths of a second.
    pub(super) fn expiring(self, hundredths: u32) -> Self {
        let mut info = [0; 32];
        info[8..12].copy_from_slice(&hundredths.to_ne_bytes());
        self.with(RTA_CACHEINFO, &info)
    }

    /// Next hops by these interfaces, each with its flags, its weight and its gateway.
    pub(super) fn hops(self, hops: &[(u32, u8, u8, &str)]) -> Self {
        let mut bytes = Vec::new();
        for (interface, flags, weight, gateway) in hops {
            let attributes = emitted(&[DefaultNla::new(RTA_GATEWAY, octets(gateway.parse().unwrap()))]);
            bytes.extend((8 + attributes.len() as u16).to_ne_bytes());
            bytes.extend([*flags, weight - 1]);
            bytes.extend(interface.to_ne_bytes());
            bytes.extend(attributes);
        }
        self.with(RTA_MULTIPATH, &bytes)
    }

    pub(super) fn payload(mut self) -> Vec<u8> {
        if !self.metrics.is_empty() {
            self.attributes.push(DefaultNla::new(RTA_METRICS, emitted(&self.metrics)));
        }
        [self.header.as_slice(), &emitted(&self.attributes)].concat()
    }

    pub(super) fn entry(self) -> FibEntry {
        FibEntry::parse(&self.payload()).unwrap()
    }
}

/// An established connection that waits for an acknowledgement of packets of 9000 bytes.
pub(super) fn waiting(local: IpAddr, remote: IpAddr, subflow: Option<(u32, u8)>) -> LiveConnection {
    LiveConnection {
        local: SocketAddr::new(local, 40_000),
        remote: SocketAddr::new(remote, 4433),
        cookie: 77,
        interface: None,
        subflow: subflow.map(|(token, local_id)| Subflow { token, local_id }),
        state: 1,
        pmtu_bytes: 9000,
        mss_bytes: 8948,
        advertised_mss_bytes: 8960,
        backoff: 2,
        unacked_segments: 1,
        retransmitted_segments: 3,
        bytes_acked: 1000,
        bytes_sent: 100_000,
        since_last_ack_ms: 900,
        cwnd_segments: 1,
        rto_us: 1_600_000,
    }
}
