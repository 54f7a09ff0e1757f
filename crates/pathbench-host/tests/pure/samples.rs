//! Routes in the form of kernel messages.

use pathbench_host::netlink::message::Encoder;
use pathbench_host::path_mtu::FibEntry;
use pathbench_record::network::IpNet;
use std::fmt::Write as _;

// linux/rtnetlink.h
const RTA_PREF: u16 = 20;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;

/// A builder for a unicast route.
pub(crate) struct Sample {
    header: [u8; 12],
    attributes: Encoder,
    metrics: Encoder,
    expires_s: Option<u32>,
}

/// A static route to `destination` in `table`.
pub(crate) fn route_to(destination: &str, table: u32) -> Sample {
    let destination: IpNet = destination.parse().unwrap();
    let v4 = destination.addr().is_ipv4();
    let (family, prefix) = (if v4 { 2 } else { 10 }, destination.prefix_len());
    let header = [family, prefix, 0, 0, table.try_into().unwrap_or(0), 4, 0, 1, 0, 0, 0, 0];
    let address = (destination.prefix_len() > 0).then_some(destination.addr());
    let attributes = Encoder::default()
        .u32(libc::RTA_TABLE, table)
        .add_optional(address, |to, address| to.address(libc::RTA_DST, address))
        .add_optional((!v4).then_some(0), |to, preference| to.u8(RTA_PREF, preference));
    Sample { header, attributes, metrics: Encoder::default(), expires_s: None }
}

impl Sample {
    pub(crate) fn set_gateway(mut self, gateway: &str) -> Self {
        self.attributes = self.attributes.address(libc::RTA_GATEWAY, gateway.parse().unwrap());
        self
    }

    pub(crate) fn dev(self, interface: u32) -> Self {
        self.set_attribute(libc::RTA_OIF, &interface.to_ne_bytes())
    }

    pub(crate) fn metric(self, metric: u32) -> Self {
        self.set_attribute(libc::RTA_PRIORITY, &metric.to_ne_bytes())
    }

    pub(crate) fn mtu(self, mtu_bytes: u32) -> Self {
        self.with_metric(RTAX_MTU, mtu_bytes)
    }

    pub(crate) fn locked(self, mtu_bytes: u32) -> Self {
        self.with_metric(RTAX_LOCK, 1 << RTAX_MTU).with_metric(RTAX_MTU, mtu_bytes)
    }

    pub(crate) fn with_metric(mut self, kind: u16, value: u32) -> Self {
        self.metrics = self.metrics.u32(kind, value);
        self
    }

    pub(crate) fn set_attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.attributes = self.attributes.bytes(kind, value);
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

    /// Next hops over these interfaces, each with its flags, its weight and its gateway.
    pub(crate) fn hops(self, hops: &[(u32, u8, u8, &str)]) -> Self {
        let mut bytes = Vec::new();
        for (interface, flags, weight, gateway) in hops {
            let attributes =
                Encoder::default().address(libc::RTA_GATEWAY, gateway.parse().unwrap()).into_bytes();
            bytes.extend((8 + attributes.len() as u16).to_ne_bytes());
            bytes.extend([*flags, weight - 1]);
            bytes.extend(interface.to_ne_bytes());
            bytes.extend(attributes);
        }
        self.set_attribute(libc::RTA_MULTIPATH, &bytes)
    }

    /// The parsed route.
    pub(crate) fn entry(self) -> FibEntry {
        let metrics = Some(self.metrics.into_bytes()).filter(|metrics| !metrics.is_empty());
        let attributes = self
            .attributes
            .add_optional(metrics, |to, metrics| to.bytes(libc::RTA_METRICS, &metrics))
            .into_bytes();
        let mut hex = String::new();
        for byte in self.header.iter().chain(&attributes) {
            write!(hex, "{byte:02x}").unwrap();
        }
        serde_json::from_value(serde_json::json!({ "bytes": hex, "expires_s": self.expires_s })).unwrap()
    }
}
