//! Routes and connections as the kernel reports them.

use pathbench_host::path_mtu::{FibEntry, LiveConnection, Subflow};
use pathbench_record::network::IpNetwork;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

// linux/rtnetlink.h
const RTA_PREF: u16 = 20;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;

/// Netlink attributes as bytes.
#[derive(Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn add(&mut self, kind: u16, value: &[u8]) {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn add_address(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.add(kind, &address.octets()),
            IpAddr::V6(address) => self.add(kind, &address.octets()),
        }
    }
}

/// A unicast route that is being described.
pub(crate) struct Sample {
    header: [u8; 12],
    attributes: Attributes,
    metrics: Attributes,
    expires_s: Option<u32>,
}

/// A static route to `destination` in `table`.
pub(crate) fn to(destination: &str, table: u32) -> Sample {
    let destination: IpNetwork = destination.parse().unwrap();
    let v4 = destination.addr().is_ipv4();
    let (family, prefix) = (if v4 { 2 } else { 10 }, destination.prefix());
    let header = [family, prefix, 0, 0, table.try_into().unwrap_or(0), 4, 0, 1, 0, 0, 0, 0];
    let mut attributes = Attributes::default();
    attributes.add(libc::RTA_TABLE, &table.to_ne_bytes());
    if !destination.is_default() {
        attributes.add_address(libc::RTA_DST, destination.addr());
    }
    if !v4 {
        attributes.add(RTA_PREF, &[0]);
    }
    Sample { header, attributes, metrics: Attributes::default(), expires_s: None }
}

impl Sample {
    pub(crate) fn via(mut self, gateway: &str) -> Self {
        self.attributes.add_address(libc::RTA_GATEWAY, gateway.parse().unwrap());
        self
    }

    pub(crate) fn dev(self, interface: u32) -> Self {
        self.with(libc::RTA_OIF, &interface.to_ne_bytes())
    }

    pub(crate) fn metric(self, metric: u32) -> Self {
        self.with(libc::RTA_PRIORITY, &metric.to_ne_bytes())
    }

    pub(crate) fn mtu(self, mtu_bytes: u32) -> Self {
        self.with_metric(RTAX_MTU, mtu_bytes)
    }

    pub(crate) fn locked(self, mtu_bytes: u32) -> Self {
        self.with_metric(RTAX_LOCK, 1 << RTAX_MTU).with_metric(RTAX_MTU, mtu_bytes)
    }

    pub(crate) fn with_metric(mut self, kind: u16, value: u32) -> Self {
        self.metrics.add(kind, &value.to_ne_bytes());
        self
    }

    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.attributes.add(kind, value);
        self
    }

    /// Byte `at` of the fixed header.
    pub(crate) fn header(mut self, at: usize, value: u8) -> Self {
        self.header[at] = value;
        self
    }

    pub(crate) fn expiring(mut self, seconds: u32) -> Self {
        self.expires_s = Some(seconds);
        self
    }

    /// Next hops by these interfaces, each with its flags, its weight and its gateway.
    pub(crate) fn hops(self, hops: &[(u32, u8, u8, &str)]) -> Self {
        let mut bytes = Vec::new();
        for (interface, flags, weight, gateway) in hops {
            let mut attributes = Attributes::default();
            attributes.add_address(libc::RTA_GATEWAY, gateway.parse().unwrap());
            bytes.extend((8 + attributes.0.len() as u16).to_ne_bytes());
            bytes.extend([*flags, weight - 1]);
            bytes.extend(interface.to_ne_bytes());
            bytes.extend(attributes.0);
        }
        self.with(libc::RTA_MULTIPATH, &bytes)
    }

    /// The route, in the form of a journal.
    pub(crate) fn entry(mut self) -> FibEntry {
        if !self.metrics.0.is_empty() {
            self.attributes.add(libc::RTA_METRICS, &self.metrics.0);
        }
        let mut hex = String::new();
        for byte in self.header.iter().chain(&self.attributes.0) {
            write!(hex, "{byte:02x}").unwrap();
        }
        serde_json::from_value(serde_json::json!({ "bytes": hex, "expires_s": self.expires_s })).unwrap()
    }
}

/// An established connection that waits for an acknowledgement of packets of 9000 bytes.
pub(crate) fn waiting(local: IpAddr, remote: IpAddr, subflow: Option<(u32, u8)>) -> LiveConnection {
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
