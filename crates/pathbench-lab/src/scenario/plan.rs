//! What a valid scenario asks for, in types: nothing in here still needs checking.

mod event;
mod hop;
mod traffic;

pub use event::{Action, Change, EventPlan, FadePlan};
pub(crate) use hop::path_of;
pub use hop::{Hop, RulesChange, icmp_in_words};
pub(crate) use hop::{RouterRules, TooBig};
pub use traffic::{IperfPlan, PatternPlan, QuicPlan, RunPlan, SocketPlan};

use super::expect::ExpectationPlan;
use pathbench_link::LinkModel;
use pathbench_record::document::Variant;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// A scenario, validated in full: what is to be built, run and expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub name: String,
    pub description: String,
    /// `builtin`, or the path of the file.
    pub origin: String,
    pub text: String,
    /// Keys changed on the command line: key path → value.
    pub overrides: Map<String, Value>,
    /// Seed of the run order and of everything random.
    pub seed: u64,
    /// Repetitions of each label in each variant, at least 1.
    pub repeat: u32,
    /// The combinations of the matrix in file order, the last key varying fastest; one when there is no matrix.
    pub variants: Vec<VariantPlan>,
    pub expectations: Vec<ExpectationPlan>,
    /// Expectations of the file that are left out because the command line took away what they speak of, in words.
    pub left_out: Vec<String>,
    /// Time between two samples of a path.
    pub sample_interval: Duration,
    /// 99th percentile of the lateness of emulated links beyond which a run is not valid.
    pub lateness_tolerance: Duration,
}

impl Plan {
    /// How many runs it has: each transport and pattern of each variant, and their repetitions.
    pub fn run_count(&self) -> u64 {
        let of_variant = |variant: &VariantPlan| variant.run.labels.len() * variant.run.patterns.len();
        self.variants.iter().map(of_variant).sum::<usize>() as u64 * u64::from(self.repeat)
    }
}

/// One combination of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct VariantPlan {
    /// Matrix key → value; empty without a matrix.
    pub variant: Variant,
    pub topology: Topology,
    /// Events in the order of their times.
    pub events: Vec<EventPlan>,
    pub run: RunPlan,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// `client` and `server` first where they exist, then in file order.
    pub nodes: Vec<Node>,
    /// In file order, the inner ones of paths with a hop after them.
    pub links: Vec<Link>,
    /// The middles of paths that have one, in file order.
    pub hops: Vec<Hop>,
}

impl Topology {
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The links that `node` has an end at, with the index (0 or 1) of that end, in file order.
    pub fn links_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a Link, usize)> {
        self.links.iter().filter_map(move |link| Some((link, link.end_of(node)?)))
    }
}

/// Whether a node ends connections or passes packets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Host,
    /// Forwards packets between its links.
    Router,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: String,
    pub role: Role,
    /// Dotted name (`net.ipv4.tcp_mtu_probing`) → value to write.
    pub sysctls: BTreeMap<String, String>,
    /// MPTCP limits and endpoints; a router has none in force.
    pub mptcp: MptcpPlan,
    /// Routes beside those that follow from the links.
    pub routes: Vec<RoutePlan>,
    /// What a router does beside forwarding, where the scenario says anything of it; never for a host.
    pub rules: Option<RouterRules>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutePlan {
    pub destination: Option<(IpAddr, u8)>,
    /// The next hop, on one of the node's own subnets.
    pub via: IpAddr,
}

/// MPTCP path-manager settings of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MptcpPlan {
    /// Additional subflows allowed per connection, at most 8.
    pub subflows: u32,
    /// Announced addresses accepted per connection, at most 8.
    pub add_addr_accepted: u32,
    /// Endpoints, in the order in which they are added.
    pub endpoints: Vec<EndpointPlan>,
}

/// One MPTCP endpoint (`ip mptcp endpoint add ADDRESS dev … FLAGS`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the kernel's flags are independent of each other")]
pub struct EndpointPlan {
    /// One of the node's own addresses.
    pub address: IpAddr,
    /// The link at whose end the address is.
    pub link: String,
    /// Announce the address to the peer.
    pub signal: bool,
    /// Open a subflow from the address.
    pub subflow: bool,
    /// Use it only when no other subflow is left.
    pub backup: bool,
    /// Open a subflow to each address of the peer.
    pub fullmesh: bool,
}

/// What carries out a link: as the scenario says, else whatever the link and its events need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// veth with queueing disciplines of the kernel.
    Kernel,
    /// Pathbench's own data plane.
    Emulated,
}

impl Engine {
    /// As in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Emulated => "emulated",
        }
    }
}

/// A wire between two nodes; both ends are in the same subnets.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name: unique among links and paths, at most 15 characters.
    pub name: String,
    /// First and second end; client and server for a `[[path]]`.
    pub ends: [LinkEnd; 2],
    /// First end → second end.
    pub forward: LinkModel,
    /// Second end → first end.
    pub reverse: LinkModel,
    /// The parameters that the scenario gives for each direction, as results have them.
    pub requested: [Map<String, Value>; 2],
    pub engine: Engine,
    /// Whether the scenario asks for that engine; otherwise it follows from the link and its events.
    pub engine_is_given: bool,
    /// Allowed relative deviation of what the link measures, 0 to 1.
    pub tolerance: f64,
    /// Whether multipath transports treat it as a spare.
    pub backup: bool,
    /// Part of the data that mpquic's `weighted` scheduler gives it, relative to the client's other links.
    pub weight: u32,
    /// Whether its packets are to be written to a file.
    pub capture: bool,
}

impl Link {
    /// Largest IP packet, the same in both directions.
    pub const fn mtu_bytes(&self) -> u32 {
        self.forward.mtu_bytes
    }

    pub(crate) const fn set_mtu_bytes(&mut self, mtu_bytes: u32) {
        self.forward.mtu_bytes = mtu_bytes;
        self.reverse.mtu_bytes = mtu_bytes;
    }

    /// Index of the end at `node`.
    pub fn end_of(&self, node: &str) -> Option<usize> {
        self.ends.iter().position(|end| end.node == node)
    }
}

/// Where a link meets a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEnd {
    pub node: String,
    /// The interface's name in the node.
    pub interface: String,
    /// Addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl LinkEnd {
    /// The first address of `family`.
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().map(|(address, _)| *address).find(|address| family.holds(*address))
    }
}

/// The IP version of a run's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    /// Whether `address` is of this family.
    pub const fn holds(self, address: IpAddr) -> bool {
        matches!((self, address), (Self::Ipv4, IpAddr::V4(_)) | (Self::Ipv6, IpAddr::V6(_)))
    }

    /// `IPv4` or `IPv6`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }
}

mod optional_milliseconds {
    use pathbench_record::units::milliseconds;
    use serde::{Serialize, Serializer};
    use std::time::Duration;

    #[derive(Serialize)]
    #[serde(transparent)]
    struct Milliseconds(#[serde(with = "milliseconds")] Duration);

    #[allow(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Milliseconds).serialize(serializer)
    }
}
