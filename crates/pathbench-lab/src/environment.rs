//! A lab that stands: namespaces, agents, links. Dropping it takes everything away again.
//!
//! The calling process's own network namespace is the *fabric namespace*: it holds each link's bridge with one veth end
//! towards each node and the shapers on them. It must therefore never be the machine's own namespace; the binary enters
//! fresh namespaces before it builds anything.

mod detail;
mod node;
mod router;
mod setting;
mod wire;

pub use node::NodeHandle;
pub use router::RouterCount;
pub use wire::LinkCounters;

use crate::addressing;
use crate::agent::{AgentError, AgentLauncher, Notice, Request};
use crate::scenario::{Engine, Topology};
use pathbench_emulator::fading::FadingError;
use pathbench_emulator::plane::{DataPlane, LinkReport, PlaneError};
use pathbench_host::firewall::FirewallError;
use pathbench_host::mptcp::MptcpError;
use pathbench_host::namespace::NamespaceError;
use pathbench_host::netlink::{NetlinkError, RouteSocket};
use pathbench_host::packet_sizes::SizeCounterError;
use pathbench_host::qdisc::ShaperError;
use pathbench_host::sysctl::SysctlError;
use pathbench_host::tun::TunError;
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::PacketSizes;
use pathbench_record::network::IpNetworkError;
use pathbench_record::time::Clock;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use wire::{Building, Fabric, Wire};

/// How often, and how many times, a fresh lab's interfaces are asked whether they run.
const RUNNING_INTERVAL: Duration = Duration::from_millis(1);
const RUNNING_TRIES: u32 = 5000;

/// How often a wait for one agent looks whether the others live.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// A lab could not be built or changed.
#[derive(Debug, Error)]
pub enum EnvironmentError {
    #[error("{context}: {source}")]
    Netlink { context: String, source: NetlinkError },
    #[error("host `{node}`: {source}")]
    Mptcp { node: String, source: MptcpError },
    #[error("router `{node}`: {source}")]
    Firewall { node: String, source: FirewallError },
    #[error("link `{link}`: {source}")]
    Shaper { link: String, source: ShaperError },
    #[error("the lab's links were made but did not come up within five seconds; is the machine overloaded?")]
    NotRunning,
    #[error("node `{node}`: {source}")]
    Namespace { node: String, source: NamespaceError },
    #[error("host `{node}`: {source}")]
    Sysctl { node: String, source: SysctlError },
    #[error("host `{node}`: {source}")]
    Agent { node: String, source: AgentError },
    #[error("link `{link}` asks for {what}, {why}")]
    Unsupported { link: String, what: String, why: String },
    #[error("link `{link}`: {source}")]
    Tun { link: String, source: TunError },
    #[error("link `{link}`: {source}")]
    PacketSizes { link: String, source: SizeCounterError },
    #[error("link `{link}`: {source}")]
    Plane { link: String, source: PlaneError },
    #[error("link `{link}`: {source}")]
    Fading { link: String, source: FadingError },
    #[error("`{text}`: {source}")]
    Address { text: String, source: IpNetworkError },
    #[error("the lab has no host `{name}`; its hosts are {known}")]
    NoSuchNode { name: String, known: String },
    #[error("cannot start `{program}` in host `{node}`: {source}")]
    Spawn { program: String, node: String, source: io::Error },
}

impl EnvironmentError {
    /// Whether a lab that is built again may well stand.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Agent { .. } | Self::NotRunning)
    }

    /// Whether this host cannot do what was asked, whatever is tried.
    pub fn is_incapable(&self) -> bool {
        match self {
            Self::Unsupported { .. } => true,
            Self::Tun { source, .. } => source.is_host_unable(),
            Self::Firewall { source, .. } => source.is_host_unable(),
            Self::PacketSizes { source, .. } => source.is_host_unable(),
            _ => false,
        }
    }
}

/// What emulated links need beside their models.
#[derive(Clone)]
pub struct Emulation {
    /// The clock that packets leave by.
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
    /// Which repetition the lab is for: each meets other random numbers, the same for all transports.
    pub repetition: u32,
    /// What to add to the clock to get nanoseconds since 1970, for captures.
    pub wall_offset_ns: i64,
    /// Link → file that its packets are written to.
    pub captures: BTreeMap<String, PathBuf>,
}

impl Emulation {
    /// The first repetition, without captures.
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self { clock, seed, repetition: 1, wall_offset_ns: 0, captures: BTreeMap::new() }
    }

    fn seeds(&self, link: &str) -> [u64; 2] {
        LinkDirection::BOTH.map(|direction| {
            let repetition = self.repetition.to_string();
            let parts = [self.seed.to_string(), repetition, link.to_owned(), direction.name().to_owned()];
            fnv1a(parts.join("/").as_bytes())
        })
    }
}

fn start_plane(emulation: &Emulation, link: &str) -> Result<DataPlane, EnvironmentError> {
    let mut plane = DataPlane::start(Arc::clone(&emulation.clock))
        .map_err(|source| EnvironmentError::Plane { link: link.to_owned(), source })?;
    plane.set_wall_offset_ns(emulation.wall_offset_ns);
    Ok(plane)
}

/// FNV-1a (Fowler, Noll and Vo): the same in every version, unlike the standard library's hashes.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[derive(Debug)]
pub struct Environment {
    topology: Topology,
    fabric: Fabric,
    nodes: Vec<NodeHandle>,
    wires: Vec<Wire>,
}

impl Environment {
    /// Builds the lab, in which `server` is the host that accepts connections: every namespace, link, address, route, rule, endpoint and sysctl, and one agent a node.
    /// When it returns, traffic flows.
    pub fn build(
        topology: &Topology,
        server: &str,
        launcher: &AgentLauncher,
        emulation: &Emulation,
    ) -> Result<Self, EnvironmentError> {
        let routes = RouteSocket::open().map_err(netlink("opening the fabric namespace"))?;
        let mut nodes = Vec::new();
        for node in &topology.nodes {
            nodes.push(NodeHandle::create(
                node,
                addressing::interfaces(topology, &node.name, server),
                launcher,
            )?);
        }
        let emulated = topology.links.iter().find(|link| link.engine == Engine::Emulated);
        let plane = emulated.map(|link| start_plane(emulation, &link.name)).transpose()?;
        let fabric = Fabric { routes, plane };
        let mut environment = Self { topology: topology.clone(), fabric, nodes, wires: Vec::new() };
        for (index, link) in topology.links.iter().enumerate() {
            let seeds = emulation.seeds(&link.name);
            let building =
                Building { index, link, seeds, capture: emulation.captures.get(&link.name).cloned() };
            let wire = Wire::build(&mut environment.fabric, building, &environment.nodes)?;
            environment.wires.push(wire);
        }
        for (handle, node) in environment.nodes.iter_mut().zip(&topology.nodes) {
            handle.configure(node)?;
        }
        for wire in &environment.wires {
            let far = topology.hop(wire.name()).and_then(|hop| topology.link(&hop.far));
            wire.offload(&mut environment.nodes, far)?;
        }
        environment.wait_until_running()?;
        for handle in &environment.nodes {
            handle.wait_until_ready()?;
        }
        Ok(environment)
    }

    /// Waits until every interface has its carrier noticed: until then the kernel drops packets silently, and a
    /// lost ARP request costs a second.
    fn wait_until_running(&mut self) -> Result<(), EnvironmentError> {
        for _ in 0..RUNNING_TRIES {
            let mut running = true;
            for wire in &self.wires {
                running &= wire.is_running(&mut self.fabric)?;
            }
            for node in &mut self.nodes {
                running &= node.is_running()?;
            }
            if running {
                return Ok(());
            }
            std::thread::sleep(RUNNING_INTERVAL);
        }
        Err(EnvironmentError::NotRunning)
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub fn node(&self, name: &str) -> Result<&NodeHandle, EnvironmentError> {
        self.node_index(name).map(|index| &self.nodes[index])
    }

    fn node_index(&self, name: &str) -> Result<usize, EnvironmentError> {
        self.nodes.iter().position(|node| node.name() == name).ok_or_else(|| EnvironmentError::NoSuchNode {
            name: name.to_owned(),
            known: self.nodes.iter().map(NodeHandle::name).collect::<Vec<_>>().join(", "),
        })
    }

    pub fn nodes(&self) -> &[NodeHandle] {
        &self.nodes
    }

    /// Starts a program in a node's namespaces.
    pub fn spawn(&self, node: &str, command: &mut Command) -> Result<Child, EnvironmentError> {
        self.node(node)?.spawn(command)
    }

    /// The next notice of a node's agent, waiting at most `timeout`; `None` when none came.
    pub fn next_notice(&self, node: &str, timeout: Duration) -> Result<Option<Notice>, EnvironmentError> {
        let agent = self.node(node)?.agent();
        let mut left = timeout;
        loop {
            let slice = left.min(WATCH_INTERVAL);
            let notice = agent.next(slice).map_err(of_agent(node))?;
            if notice.is_some() {
                return Ok(notice);
            }
            self.require_agents()?;
            left = left.saturating_sub(slice);
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Asks a node's agent for something and waits for its one answer, which `expect` recognises.
    pub fn ask<R>(
        &self,
        node: &str,
        request: &Request,
        timeout: Duration,
        expect: impl FnOnce(Notice) -> Option<R>,
    ) -> Result<R, EnvironmentError> {
        self.node(node)?.agent().send(request).map_err(of_agent(node))?;
        let notice = self.next_notice(node, timeout)?;
        let answer = notice.ok_or(AgentError::Silent(timeout)).and_then(|notice| notice.into_answer(expect));
        if answer.is_err() {
            // What one agent failed in may be the other's death.
            self.require_agents()?;
        }
        answer.map_err(of_agent(node))
    }

    fn require_agents(&self) -> Result<(), EnvironmentError> {
        match self.nodes.iter().find(|node| node.agent().is_gone()) {
            Some(node) => Err(of_agent(node.name())(AgentError::Gone)),
            None => Ok(()),
        }
    }

    /// What the bottlenecks of a link have let through and dropped so far; `None` when there is no such link.
    pub fn counters(&mut self, link: &str) -> Result<Option<LinkCounters>, EnvironmentError> {
        let fabric = &mut self.fabric;
        self.wires.iter().find(|wire| wire.name() == link).map(|wire| wire.counters(fabric)).transpose()
    }

    /// Begins every emulated link anew: traces and random numbers from their beginning, counters at zero.
    pub fn restart_links(&self) -> Result<(), EnvironmentError> {
        self.wires.iter().try_for_each(|wire| wire.restart(&self.fabric))
    }

    /// Begins to count the packets on every link that results tell of by their length, from zero; on emulated links
    /// they are counted anyway, from [`Self::restart_links`] on.
    pub fn count_sizes(&mut self) -> Result<(), EnvironmentError> {
        let Self { topology, wires, .. } = self;
        let mut told = wires.iter_mut().filter(|wire| topology.is_told(wire.name()));
        told.try_for_each(Wire::count_sizes)
    }

    /// Ends that counting: the packets that entered each link, by its name.
    pub fn counted_sizes(&mut self) -> Result<Vec<(String, PacketSizes)>, EnvironmentError> {
        let mut counted = Vec::new();
        for wire in &mut self.wires {
            if let Some(sizes) = wire.counted_sizes(&self.fabric)? {
                counted.push((wire.name().to_owned(), sizes));
            }
        }
        Ok(counted)
    }

    /// What became of the packets of each emulated link since it began, by the link's name.
    pub fn reports(&self) -> Result<Vec<(String, LinkReport)>, EnvironmentError> {
        let mut reports = Vec::new();
        for wire in &self.wires {
            if let Some(report) = wire.report(&self.fabric)? {
                reports.push((wire.name().to_owned(), report));
            }
        }
        Ok(reports)
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.end();
        }
        for wire in &self.wires {
            wire.remove(&mut self.fabric);
        }
    }
}

fn of_agent(node: &str) -> impl FnOnce(AgentError) -> EnvironmentError + use<> {
    let node = node.to_owned();
    move |source| EnvironmentError::Agent { node, source }
}

fn netlink(context: impl Into<String>) -> impl FnOnce(NetlinkError) -> EnvironmentError {
    let context = context.into();
    move |source| EnvironmentError::Netlink { context, source }
}
