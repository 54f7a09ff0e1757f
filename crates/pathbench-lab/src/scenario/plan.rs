//! What a valid scenario asks for, in types: nothing in here still needs checking.

mod parameters;
mod traffic;

pub use traffic::{
    BulkPlan, DataDirection, InteractivePlan, IperfPlan, PatternPlan, PingPlan, QuicPlan, RunPlan, SocketPlan,
};

use super::expect::ExpectationPlan;
use pathbench_record::document::Variant;
use pathbench_record::units::milliseconds;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

pub use pathbench_record::units::QueueLimit as Queue;

/// A scenario, validated in full: what is to be built, run and expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The scenario's name.
    pub name: String,
    /// Its line of description.
    pub description: String,
    /// `builtin`, or the path of the file.
    pub origin: String,
    /// The text of the file.
    pub text: String,
    /// Keys changed on the command line: key path → value.
    pub overrides: Map<String, Value>,
    /// Seed of the run order and of everything random.
    pub seed: u64,
    /// Repetitions of each label in each variant, at least 1.
    pub repeat: u32,
    /// The combinations of the matrix in file order, the last key varying fastest; one when there is no matrix.
    pub variants: Vec<VariantPlan>,
    /// What must hold.
    pub expectations: Vec<ExpectationPlan>,
    /// Expectations of the file that are left out because the command line took away what they speak of, in words.
    pub left_out: Vec<String>,
    /// Time between two samples of a path.
    pub sample_interval: Duration,
}

/// One combination of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct VariantPlan {
    /// Matrix key → value; empty without a matrix.
    pub variant: Variant,
    /// Hosts, routers and links.
    pub topology: Topology,
    /// Events in the order of their times.
    pub events: Vec<EventPlan>,
    /// What to run.
    pub run: RunPlan,
}

/// Hosts, routers and links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// `client` and `server` first where they exist, then in file order.
    pub nodes: Vec<Node>,
    /// In file order.
    pub links: Vec<Link>,
}

impl Topology {
    /// The node of that name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The link of that name.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The links that `node` has an end at, with the index (0 or 1) of that end, in file order.
    pub fn links_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a Link, usize)> {
        self.links.iter().filter_map(move |link| Some((link, link.end_of(node)?)))
    }
}

/// Whether a node ends connections or passes packets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Programs run here.
    Host,
    /// Forwards packets between its links.
    Router,
}

/// A host or router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Host or router.
    pub role: Role,
    /// Dotted name (`net.ipv4.tcp_mtu_probing`) → value to write.
    pub sysctls: BTreeMap<String, String>,
    /// MPTCP limits and endpoints; a router has none in force.
    pub mptcp: MptcpPlan,
    /// Routes beside those that follow from the links.
    pub routes: Vec<RoutePlan>,
}

/// A route given by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePlan {
    /// Network and prefix length; the default route when `None`.
    pub destination: Option<(IpAddr, u8)>,
    /// The next hop, on one of the node's own subnets.
    pub via: IpAddr,
}

/// MPTCP path-manager settings of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct MptcpPlan {
    /// Additional subflows allowed per connection, at most 8.
    pub subflows: u32,
    /// Announced addresses accepted per connection, at most 8.
    pub add_addr_accepted: u32,
    /// Endpoints, in the order in which they are added.
    pub endpoints: Vec<EndpointPlan>,
}

/// One MPTCP endpoint (`ip mptcp endpoint add ADDRESS dev … FLAGS`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// What carries out a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Whatever the link needs and the machine has.
    Auto,
    /// veth with queueing disciplines of the kernel.
    Kernel,
    /// Pathbench's own data plane.
    Emulated,
}

/// A wire between two nodes; both ends are in the same subnets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Its name: unique among links and paths, at most 15 characters.
    pub name: String,
    /// First and second end; client and server for a `[[path]]`.
    pub ends: [LinkEnd; 2],
    /// First end → second end.
    pub forward: LinkModel,
    /// Second end → first end.
    pub backward: LinkModel,
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// What carries it out.
    pub engine: Engine,
    /// Allowed relative deviation of what the link measures, 0 to 1.
    pub tolerance: f64,
    /// Whether multipath transports treat it as a spare.
    pub backup: bool,
    /// Part of the data that mpquic's `weighted` scheduler gives it, relative to the client's other links.
    pub weight: u32,
}

impl Link {
    /// Index of the end at `node`.
    #[must_use]
    pub fn end_of(&self, node: &str) -> Option<usize> {
        self.ends.iter().position(|end| end.node == node)
    }
}

/// Where a link meets a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// The node.
    pub node: String,
    /// The interface's name in the node.
    pub interface: String,
    /// Addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl LinkEnd {
    /// The first address of `family`.
    #[must_use]
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().map(|(address, _)| *address).find(|address| family.holds(*address))
    }
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkModel {
    /// Rate of Ethernet frames without preamble and checksum; unlimited when `None`.
    pub rate_bps: Option<u64>,
    /// One-way delay.
    #[serde(rename = "delay_ms", with = "milliseconds")]
    pub delay: Duration,
    /// Largest deviation from the delay.
    #[serde(rename = "jitter_ms", with = "milliseconds")]
    pub jitter: Duration,
    /// Probability that a packet is lost, 0 to 1.
    pub loss: f64,
    /// What the queue in front of the bottleneck holds; meaningless without a rate.
    pub queue: Queue,
}

/// Frames are never held back by a queue smaller than this: one burst of a sender with segmentation offload.
const SMALLEST_TIMED_QUEUE_BYTES: u64 = 65_536;

impl LinkModel {
    /// The queue in bytes for packets of up to `mtu_bytes`: a time counts as what the link sends meanwhile, at
    /// least 64 KiB; a packet counts as a full Ethernet frame. `None` without a rate, since nothing queues then.
    #[must_use]
    pub fn queue_bytes(&self, mtu_bytes: u32) -> Option<u64> {
        Some(queue_bytes(self.queue, self.rate_bps?, mtu_bytes))
    }
}

/// What `queue` holds in bytes on a link of `rate_bps`, by the rules of [`LinkModel::queue_bytes`].
#[must_use]
pub fn queue_bytes(queue: Queue, rate_bps: u64, mtu_bytes: u32) -> u64 {
    const ETHERNET_HEADER_BYTES: u64 = 14;
    match queue {
        Queue::Time(time) => {
            let bits = u128::from(rate_bps) * time.as_nanos() / 1_000_000_000;
            u64::try_from(bits / 8).unwrap_or(u64::MAX).max(SMALLEST_TIMED_QUEUE_BYTES)
        }
        Queue::Packets(packets) => u64::from(packets) * (u64::from(mtu_bytes) + ETHERNET_HEADER_BYTES),
        Queue::Bytes(bytes) => bytes,
    }
}

/// Something that happens to a link during a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventPlan {
    /// From the first byte of data.
    #[serde(rename = "at_ms", with = "milliseconds")]
    pub at: Duration,
    /// The link.
    pub link: String,
    /// The end to act on, where the action concerns one end.
    pub node: String,
    /// What happens.
    pub action: Action,
}

/// What an event does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The node's interface goes down.
    Down,
    /// The node's interface comes up again.
    Up,
    /// The link swallows every packet, both ways; nobody is told.
    Blackhole,
    /// The link carries packets again.
    Restore,
    /// The node loses its addresses on the link.
    RemoveAddress,
    /// The node gets its addresses on the link back.
    AddAddress,
    /// The link changes, both ways; what is `None` stays as it is.
    Set(Change),
}

impl Action {
    /// As in the scenario file and in `events.jsonl`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Blackhole => "blackhole",
            Self::Restore => "restore",
            Self::RemoveAddress => "remove-address",
            Self::AddAddress => "add-address",
            Self::Set(_) => "set",
        }
    }
}

/// New values of a link's properties; at least one is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Change {
    /// New rate, both ways.
    pub rate_bps: Option<u64>,
    /// New one-way delay, both ways.
    #[serde(rename = "delay_ms", with = "optional_milliseconds")]
    pub delay: Option<Duration>,
    /// New loss, both ways.
    pub loss: Option<f64>,
    /// New largest IP packet.
    pub mtu_bytes: Option<u32>,
    /// New queue, both ways.
    pub queue: Option<Queue>,
}

/// The IP version of a run's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Whether `address` is of this family.
    #[must_use]
    pub const fn holds(self, address: IpAddr) -> bool {
        matches!((self, address), (Self::Ipv4, IpAddr::V4(_)) | (Self::Ipv6, IpAddr::V6(_)))
    }

    /// `IPv4` or `IPv6`.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }
}

mod optional_milliseconds {
    use pathbench_record::units::milliseconds;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Milliseconds(#[serde(with = "milliseconds")] Duration);

    #[allow(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Milliseconds).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Milliseconds>::deserialize(deserializer)?.map(|value| value.0))
    }
}
