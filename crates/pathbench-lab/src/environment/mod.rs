//! A running lab: namespaces, agents, links. Dropping it removes all of them.
//!
//! The calling process's network namespace is the *fabric namespace*: it contains the bridge of each link, one veth end
//! towards each node, and the shapers on the veth ends. It must never be the machine's own namespace; the binary enters
//! new namespaces before it builds a lab.

mod error;
mod node;
mod offload;
mod setting;
mod wire;

pub(crate) use error::failure_at;
pub use error::{EnvironmentError, Result};
pub use node::NodeHandle;
use node::agent_failure;
pub use wire::LinkCounters;

use crate::addressing;
use crate::agent::{AgentError, AgentLauncher, AgentNotice, AgentRequest};
use crate::scenario::{LinkEngine, NodeRole, TopologyPlan, icmp_in_words};
use pathbench_emulator::plane::DataPlane;
use pathbench_host::counters::KernelCounters;
use pathbench_host::firewall::RouterCounters;
use pathbench_host::netlink::RouteSocket;
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::RouterRecord;
use pathbench_record::time::Clock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use wire::{Building, Fabric, Wire};

/// Interval and number of checks whether the interfaces of a new lab are running.
const RUNNING_INTERVAL: Duration = Duration::from_millis(1);
const RUNNING_TRIES: u32 = 5000;

/// Interval at which a wait for one agent checks that the others are running.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Parameters of emulated links in addition to their models.
#[derive(Clone)]
pub struct Emulation {
    /// The clock for the departure times of packets.
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
    /// The repetition of the lab's run. Each repetition has different random numbers, equal for all transports.
    pub repetition: u32,
    /// Offset from the clock to nanoseconds since 1970, for captures.
    pub wall_offset_ns: i64,
    /// Link → capture file.
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

fn start_plane(emulation: &Emulation, link: &str) -> Result<DataPlane> {
    let mut plane =
        DataPlane::start(Arc::clone(&emulation.clock)).map_err(failure_at(format!("link `{link}`")))?;
    plane.set_wall_offset_ns(emulation.wall_offset_ns);
    Ok(plane)
}

/// FNV-1a (Fowler, Noll and Vo): stable across versions, unlike the hashes of the standard library.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[derive(Debug)]
pub struct Environment {
    topology: TopologyPlan,
    fabric: Fabric,
    nodes: Vec<NodeHandle>,
    wires: Vec<Wire>,
}

impl Environment {
    /// Builds the lab: every namespace, link, address, route, rule, endpoint and sysctl, and one agent for each node.
    /// `server` is the host that accepts connections. After the return, all links pass packets.
    pub fn build(
        topology: &TopologyPlan,
        server: &str,
        launcher: &AgentLauncher,
        emulation: &Emulation,
    ) -> Result<Self> {
        let routes = RouteSocket::open().map_err(failure_at("opening the fabric namespace"))?;
        let mut nodes = Vec::new();
        for node in &topology.nodes {
            nodes.push(NodeHandle::create(
                node,
                addressing::interfaces(topology, &node.name, server),
                launcher,
            )?);
        }
        let emulated = topology.links.iter().find(|link| link.engine == LinkEngine::Emulated);
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
            let far = topology.hop(&wire.link.name).and_then(|hop| topology.link(&hop.far));
            wire.offload(&mut environment.nodes, far)?;
        }
        environment.wait_until_running()?;
        for handle in &environment.nodes {
            handle.wait_until_ready()?;
        }
        Ok(environment)
    }

    /// Waits until every interface is running: before that, the kernel drops packets silently, and a lost ARP request
    /// delays traffic by 1 s.
    fn wait_until_running(&mut self) -> Result {
        for _ in 0..RUNNING_TRIES {
            let mut running = true;
            for wire in &self.wires {
                running &= wire.engine.is_running(&mut self.fabric, &wire.link)?;
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

    pub fn topology(&self) -> &TopologyPlan {
        &self.topology
    }

    pub fn node(&self, name: &str) -> Result<&NodeHandle> {
        self.node_index(name).map(|index| &self.nodes[index])
    }

    fn node_index(&self, name: &str) -> Result<usize> {
        self.nodes.iter().position(|node| node.name() == name).ok_or_else(|| EnvironmentError::NoSuchNode {
            name: name.to_owned(),
            known: self.nodes.iter().map(NodeHandle::name).collect::<Vec<_>>().join(", "),
        })
    }

    pub fn nodes(&self) -> &[NodeHandle] {
        &self.nodes
    }

    /// Starts a program in a node's namespaces.
    pub fn spawn(&self, node: &str, command: &mut Command) -> Result<Child> {
        self.node(node)?.spawn(command)
    }

    /// The next notice of a node's agent; `None` if none arrives within `timeout`.
    pub fn next_notice(&self, node: &str, timeout: Duration) -> Result<Option<AgentNotice>> {
        let agent = self.node(node)?.agent();
        let mut left = timeout;
        loop {
            let slice = left.min(WATCH_INTERVAL);
            let notice = agent.next(slice).map_err(agent_failure(node))?;
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

    /// Sends a request to a node's agent and waits for its single answer, which `expect` recognises.
    pub fn ask<R>(
        &self,
        node: &str,
        request: &AgentRequest,
        timeout: Duration,
        expect: impl FnOnce(AgentNotice) -> Option<R>,
    ) -> Result<R> {
        self.node(node)?.agent().send(request).map_err(agent_failure(node))?;
        let notice = self.next_notice(node, timeout)?;
        let answer = notice.ok_or(AgentError::Silent(timeout)).and_then(|notice| notice.into_answer(expect));
        if answer.is_err() {
            // An agent that has ended may be the cause of another agent's failure: report it first.
            self.require_agents()?;
        }
        answer.map_err(agent_failure(node))
    }

    fn require_agents(&self) -> Result {
        match self.nodes.iter().find(|node| node.agent().has_ended()) {
            Some(node) => Err(agent_failure(node.name())(AgentError::Ended)),
            None => Ok(()),
        }
    }

    /// Restarts every link: traces and random numbers from their beginning, counters at zero. With `packet_sizes`, the
    /// links in results also count packets by their length; emulated links always do.
    pub fn restart_links(&mut self, packet_sizes: bool) -> Result {
        let Self { topology, fabric, wires, .. } = self;
        wires.iter_mut().try_for_each(|Wire { link, engine }| {
            engine.restart(fabric, link, packet_sizes && topology.is_reported(&link.name))
        })
    }

    /// The counters of each link since the latest restart, by the link's name.
    pub fn link_counters(&mut self) -> Result<Vec<(String, LinkCounters)>> {
        let Self { fabric, wires, .. } = self;
        let counted =
            |Wire { link, engine }: &mut Wire| Ok((link.name.clone(), engine.counters(fabric, link)?));
        wires.iter_mut().map(counted).collect()
    }

    /// The counters of every router, in the topology's order.
    pub fn routers(&mut self) -> Result<Vec<RouterCount>> {
        let mut counts = Vec::new();
        for (node, handle) in self.topology.nodes.iter().zip(&mut self.nodes) {
            if node.role != NodeRole::Router {
                continue;
            }
            let rules = node.rules.clone().unwrap_or_default();
            let in_path = self.topology.hops.iter().any(|hop| hop.routers.contains(&node.name));
            let met = match handle.rules_met()? {
                Some(met) => met,
                None => {
                    RouterCounters { too_big_sent: too_big_sent(&handle.mib()?), ..RouterCounters::default() }
                }
            };
            let treated =
                met.middlebox.iter().map(|(middlebox, packets)| (middlebox.name().to_owned(), *packets));
            counts.push(RouterCount {
                record: RouterRecord {
                    name: node.name.clone(),
                    icmp: icmp_in_words(rules.too_big),
                    clamp_mss: rules.clamp_mss,
                    too_big_sent: met.too_big_sent,
                    too_big_suppressed: met.too_big_suppressed,
                    clamped_syns: met.clamped_syns,
                    middlebox: treated.collect(),
                },
                is_asked: node.rules.is_some() || in_path,
            });
        }
        Ok(counts)
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.end();
        }
        for wire in &self.wires {
            wire.engine.remove(&mut self.fabric);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterCount {
    /// The rules of the router, and its counters since the lab was built.
    pub record: RouterRecord,
    /// Whether results always include the router, because the scenario sets its rules or it is part of a path.
    pub is_asked: bool,
}

impl RouterCount {
    /// The difference from `before`; `None` if results omit the router.
    pub fn count_since(&self, before: &Self) -> Option<RouterRecord> {
        let (now, then) = (&self.record, &before.record);
        let treated = |(name, packets): (&String, &u64)| {
            let earlier = then.middlebox.get(name).copied().unwrap_or_default();
            (name.clone(), packets.saturating_sub(earlier))
        };
        let record = RouterRecord {
            too_big_sent: now.too_big_sent.saturating_sub(then.too_big_sent),
            too_big_suppressed: now.too_big_suppressed.saturating_sub(then.too_big_suppressed),
            clamped_syns: now.clamped_syns.saturating_sub(then.clamped_syns),
            middlebox: now.middlebox.iter().map(treated).collect(),
            ..now.clone()
        };
        (self.is_asked || record.too_big_sent > 0).then_some(record)
    }
}

/// Packet-too-big messages by the MIB counters, for a router without our nftables table. IPv4 has no counter for
/// "fragmentation needed" alone; `OutDestUnreachs` counts all "destination unreachable" messages, but a router in a lab
/// sends hardly any others.
fn too_big_sent(mib: &KernelCounters) -> u64 {
    let counters = ["Icmp.OutDestUnreachs", "Icmp6OutPktTooBigs"];
    counters.iter().filter_map(|name| u64::try_from(mib.get(name)?).ok()).sum()
}
