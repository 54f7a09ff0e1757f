//! Links between nodes, their engines and the addresses of their ends.

use pathbench_link::LinkModel;
use pathbench_record::network::{AddressFamily, IpNet};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::net::IpAddr;

/// The implementation of a link: given, or derived from the link and its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkEngine {
    /// veth with queueing disciplines of the kernel.
    Kernel,
    /// Pathbench's own data plane.
    Emulated,
}

impl LinkEngine {
    /// As in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Emulated => "emulated",
        }
    }
}

/// A link between two nodes; both ends are in the same subnets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkPlan {
    /// Unique among links and paths, at most 15 characters.
    pub name: String,
    /// First and second end; client and server for a `[[path]]`.
    pub ends: [LinkEnd; 2],
    /// First end → second end.
    pub forward: LinkModel,
    /// Second end → first end.
    pub reverse: LinkModel,
    /// The parameters given in the scenario for each direction, in the format of results.
    pub requested: [Map<String, Value>; 2],
    pub engine: LinkEngine,
    /// Whether the scenario gives the engine; otherwise the engine is derived from the link and its events.
    pub engine_is_given: bool,
    /// Allowed relative deviation of the link's measured values, 0 to 1.
    pub tolerance: f64,
    /// Whether multipath transports use it as a backup path only.
    pub backup: bool,
    /// Share of the data that mpquic's `weighted` scheduler sends on it, relative to the client's other links.
    pub weight: u32,
    /// Whether its packets are written to a capture file.
    pub capture: bool,
}

impl LinkPlan {
    /// Largest IP packet, the same in both directions.
    pub const fn mtu_bytes(&self) -> u32 {
        self.forward.mtu_bytes
    }

    pub(crate) const fn set_mtu_bytes(&mut self, mtu_bytes: u32) {
        self.forward.mtu_bytes = mtu_bytes;
        self.reverse.mtu_bytes = mtu_bytes;
    }

    pub fn end_of(&self, node: &str) -> Option<usize> {
        self.ends.iter().position(|end| end.node == node)
    }
}

/// An end of a link: its node, interface and addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    pub node: String,
    /// The interface's name in the node.
    pub interface: String,
    pub addresses: Vec<IpNet>,
}

impl LinkEnd {
    pub fn address(&self, family: AddressFamily) -> Option<IpAddr> {
        self.addresses.iter().map(IpNet::addr).find(|address| AddressFamily::from_address(*address) == family)
    }
}
