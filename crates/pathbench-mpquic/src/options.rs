//! Options of a QUIC connection.

use pathbench_record::connection::Scheduler;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A local interface and address that an mpquic connection uses as a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalPath {
    /// The interface; the path's socket is bound to it (`SO_BINDTODEVICE`).
    pub interface: String,
    /// The local address. `None`: the interface's first address of the server's family.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Used only when no other path is usable (`PATH_STATUS_BACKUP` of the multipath draft).
    #[serde(default)]
    pub backup: bool,
    /// The path's share of the data with the `weighted` scheduler, relative to the other paths.
    #[serde(default = "one")]
    pub weight: u32,
}

impl LocalPath {
    /// The path over `interface`: no backup, with weight 1.
    pub const fn new(interface: String) -> Self {
        Self { interface, address: None, backup: false, weight: one() }
    }

    /// The path's source address: the configured one, or else the first of the family that is not link-local (IPv6).
    /// `None` while the interface is down or has no such address.
    pub fn source(&self, interface: &LocalInterface, ipv6: bool) -> Option<IpAddr> {
        let fits = |address: &IpAddr| match address {
            IpAddr::V4(_) => !ipv6,
            IpAddr::V6(v6) => ipv6 && !v6.is_unicast_link_local(),
        };
        let mut addresses = interface.addresses.iter().copied().filter(|_| interface.up);
        addresses.find(|address| fits(address) && self.address.is_none_or(|wanted| wanted == *address))
    }
}

/// The present state of an interface of this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalInterface {
    pub name: String,
    /// Up, with carrier.
    pub up: bool,
    pub addresses: Vec<IpAddr>,
}

const fn one() -> u32 {
    1
}

/// Options of a QUIC connection, beyond those of its sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuicOptions {
    /// The paths of an mpquic connection; the first one carries the handshake. Ignored by quic, and by servers.
    pub paths: Vec<LocalPath>,
    /// Chooses the path of new data; servers use it for the data that they send.
    pub scheduler: Scheduler,
    /// Interval between PINGs on every path, from both ends, so that a silent path is detected.
    #[serde(with = "pathbench_record::units::milliseconds", rename = "heartbeat_ms")]
    pub heartbeat: Duration,
    /// A path on which no packet arrived this long gets no new data while packets arrive on another path.
    #[serde(with = "pathbench_record::units::milliseconds", rename = "silence_ms")]
    pub silence: Duration,
    /// Directory for one qlog file per connection; ignored in builds without the feature `qlog`.
    pub qlog: Option<PathBuf>,
}

impl Default for QuicOptions {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            scheduler: Scheduler::default(),
            heartbeat: Duration::from_millis(60),
            silence: Duration::from_millis(300),
            qlog: None,
        }
    }
}
