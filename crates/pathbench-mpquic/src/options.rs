//! What a QUIC connection is asked to be.

use pathbench_record::connection::Scheduler;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A way out of this host that an mpquic connection is to use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalPath {
    /// The interface; the path's socket is bound to it (`SO_BINDTODEVICE`).
    pub interface: String,
    /// The local address; the interface's first of the server's family when absent.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Used only when no other path is usable (`PATH_STATUS_BACKUP` of the multipath draft).
    #[serde(default)]
    pub backup: bool,
    /// Part of the data that the `weighted` scheduler gives it, relative to the others.
    #[serde(default = "one")]
    pub weight: u32,
}

impl LocalPath {
    /// The way out by `interface`, as good as any other.
    pub const fn by(interface: String) -> Self {
        Self { interface, address: None, backup: false, weight: one() }
    }

    /// Whether a path over IPv6, or over IPv4, may have an interface's address where none is wanted: it is of the
    /// family, and others can reach it.
    pub const fn may_have(address: IpAddr, ipv6: bool) -> bool {
        match address {
            IpAddr::V4(_) => !ipv6,
            IpAddr::V6(v6) => ipv6 && !v6.is_unicast_link_local(),
        }
    }
}

const fn one() -> u32 {
    1
}

/// What a QUIC connection is asked to be, beyond the options of its sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuicOptions {
    /// The paths of an mpquic connection, the one to start on first. Ignored by quic, and by servers.
    pub paths: Vec<LocalPath>,
    /// Which path new data takes. Servers use it for what they send.
    pub scheduler: Scheduler,
    /// A PING on every path this often, from both ends, so that a silent path is noticed.
    #[serde(with = "pathbench_record::units::milliseconds", rename = "heartbeat_ms")]
    pub heartbeat: Duration,
    /// A path on which nothing was heard this long gets no new data while another path is heard.
    #[serde(with = "pathbench_record::units::milliseconds", rename = "silence_ms")]
    pub silence: Duration,
    /// Directory for a qlog file per connection; without effect unless this build has the feature `qlog`.
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
