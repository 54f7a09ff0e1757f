//! The middle of a link in the wire room: `bridge`, one veth end towards each node, a shaper on each.

use super::node::NodeHandle;
use super::{EnvironmentError, netlink};
use crate::scenario::{Link, LinkModel};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{RouteSocket, VethEnd, VethPair};
use pathbench_host::qdisc::{MAX_RATE_BPS, Netem, QueueLimit, Shaper, ShaperError};
use std::time::Duration;

/// Counters of a link's two bottlenecks since the lab was built. Bytes are Ethernet frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Bytes that left towards the second end.
    pub forward_bytes: u64,
    /// Packets dropped in the queue towards the second end.
    pub forward_drops: u64,
    /// Bytes that left towards the first end.
    pub backward_bytes: u64,
    /// Packets dropped in the queue towards the first end.
    pub backward_drops: u64,
}

/// The part of a link that lies in the wire room.
#[derive(Debug)]
pub(super) struct Wire {
    link: Link,
    bridge: u32,
    /// Interfaces in the wire room towards the first and the second end.
    ports: [u32; 2],
    /// What shapes the forward and the backward direction at present.
    in_force: [InForce; 2],
    /// Whether the link was built with a shaper on the forward and the backward direction.
    built_shaped: [bool; 2],
}

/// What shapes one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum InForce {
    #[default]
    Nothing,
    Rate,
    /// A rate, and netem before it.
    Netem,
}

impl Wire {
    /// Creates the link with number `index` between its two nodes, up and shaped.
    pub(super) fn build(
        room: &mut RouteSocket,
        index: usize,
        link: &Link,
        nodes: &[NodeHandle],
    ) -> Result<Self, EnvironmentError> {
        let doing = |what: &str| netlink(format!("link `{}`: {what}", link.name));
        let bridge_name = format!("w{index}");
        let bridge = room.create_bridge(&bridge_name).map_err(doing("creating its bridge"))?;
        let here = NetNamespace::current()
            .map_err(|source| EnvironmentError::Namespace { node: "the wire room".to_owned(), source })?;
        let mut ports = [0; 2];
        for (end, port) in ports.iter_mut().enumerate() {
            let port_name = format!("w{index}{}", ["a", "b"][end]);
            let node = nodes.iter().find(|node| node.name() == link.ends[end].node).ok_or_else(|| {
                EnvironmentError::NoSuchNode { name: link.ends[end].node.clone(), known: String::new() }
            })?;
            room.create_veth(&VethPair {
                first: VethEnd { name: &port_name, namespace: &here, mtu: link.mtu_bytes },
                second: VethEnd {
                    name: &link.ends[end].interface,
                    namespace: node.namespace(),
                    mtu: link.mtu_bytes,
                },
            })
            .map_err(doing("creating its end"))?;
            *port = interface_index(room, &port_name, link)?;
            room.set_master(*port, bridge).map_err(doing("joining its bridge"))?;
        }
        let (in_force, built_shaped) = Default::default();
        let mut wire = Self { link: link.clone(), bridge, ports, in_force, built_shaped };
        wire.shape(room)?;
        wire.built_shaped = wire.in_force.map(|shape| shape != InForce::Nothing);
        for index in [bridge, ports[0], ports[1]] {
            room.set_up(index).map_err(doing("bringing it up"))?;
        }
        Ok(wire)
    }

    /// Caps what the nodes hand over for segmentation, so that a slow link is not fed 64 KiB lumps.
    pub(super) fn offload(&self, nodes: &mut [NodeHandle]) -> Result<(), EnvironmentError> {
        for (end, model) in self.link.ends.iter().zip([&self.link.forward, &self.link.backward]) {
            let Some(segments) = segment_cap(model, self.link.mtu_bytes) else { continue };
            if let Some(node) = nodes.iter_mut().find(|node| node.name() == end.node) {
                node.cap_segments(&end.interface, segments)?;
            }
        }
        Ok(())
    }

    /// Whether both ports pass packets.
    pub(super) fn is_running(&self, room: &mut RouteSocket) -> Result<bool, EnvironmentError> {
        let mut running = true;
        for port in self.ports {
            let doing = netlink(format!("link `{}`: asking whether it runs", self.link.name));
            running &= room.link_by_index(port).map_err(doing)?.running;
        }
        Ok(running)
    }

    pub(super) fn name(&self) -> &str {
        &self.link.name
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Puts the models in force: the shaper of the forward direction stands on the port towards the second end.
    pub(super) fn shape(&mut self, room: &mut RouteSocket) -> Result<(), EnvironmentError> {
        let directions = [(&self.link.forward, self.ports[1]), (&self.link.backward, self.ports[0])];
        for ((model, port), in_force) in directions.into_iter().zip(&mut self.in_force) {
            let Some(shaper) = shaper(&self.link, model, *in_force) else { continue };
            // The lab's start, or an event that is the first to ask anything of the link: there is none to change.
            let done = if *in_force == InForce::Nothing {
                room.install_shaper(port, &shaper)
            } else {
                room.change_rate(port, &shaper)
            };
            done.map_err(|source| refused(&self.link, source))?;
            *in_force = if shaper.netem.is_some() { InForce::Netem } else { InForce::Rate };
        }
        Ok(())
    }

    /// Sets the MTU of the wire's own interfaces.
    pub(super) fn set_mtu(&self, room: &mut RouteSocket, mtu_bytes: u32) -> Result<(), EnvironmentError> {
        for index in [self.ports[0], self.ports[1], self.bridge] {
            room.set_mtu(index, mtu_bytes)
                .map_err(netlink(format!("link `{}`: setting its MTU to {mtu_bytes}", self.link.name)))?;
        }
        Ok(())
    }

    /// Cuts the wire (or joins it again) without either end noticing: both ports leave the bridge, carrier stays.
    pub(super) fn set_connected(
        &self,
        room: &mut RouteSocket,
        connected: bool,
    ) -> Result<(), EnvironmentError> {
        for port in self.ports {
            room.set_master(port, if connected { self.bridge } else { 0 })
                .map_err(netlink(format!("link `{}`: cutting or joining it", self.link.name)))?;
        }
        Ok(())
    }

    pub(super) fn counters(&self, room: &mut RouteSocket) -> Result<LinkCounters, EnvironmentError> {
        let mut read = |port, built_shaped, in_force| -> Result<(u64, u64), EnvironmentError> {
            let doing = || netlink(format!("link `{}`: reading its counters", self.link.name));
            let queue = match in_force {
                InForce::Nothing => None,
                InForce::Rate | InForce::Netem => Some(room.qdisc_statistics(port).map_err(doing())?),
            };
            // A shaper counts packets handed over for segmentation as the frames they become; an unshaped port
            // has nothing better than the interface's own count. A shaper that an event has added has missed
            // what passed before it.
            if let (true, Some(counted)) = (built_shaped, queue) {
                return Ok((counted.bytes, u64::from(counted.drops)));
            }
            let interface = room.statistics(port).map_err(doing())?;
            let queue_drops = queue.map_or(0, |counted| u64::from(counted.drops));
            Ok((interface.tx_bytes, interface.tx_dropped + queue_drops))
        };
        let [forward, backward] = [0, 1].map(|way| (self.built_shaped[way], self.in_force[way]));
        let (forward_bytes, forward_drops) = read(self.ports[1], forward.0, forward.1)?;
        let (backward_bytes, backward_drops) = read(self.ports[0], backward.0, backward.1)?;
        Ok(LinkCounters { forward_bytes, forward_drops, backward_bytes, backward_drops })
    }

    /// Takes the wire out of the room. Its interfaces in the nodes go with it; what is gone already is no matter.
    pub(super) fn remove(&self, room: &mut RouteSocket) {
        for index in [self.ports[0], self.ports[1], self.bridge] {
            let _already_gone = room.delete_link(index);
        }
    }
}

/// Largest packet that is handed over for segmentation, by the kernel's default.
const GSO_MAX_BYTES: u64 = 65_536;
/// How long the largest packet handed over for segmentation may occupy the link.
const LUMP: Duration = Duration::from_micros(300);

/// Most segments of a packet on a link; `None` when a whole 64 KiB passes quickly enough. Then there
/// must be no cap at all: the kernel cuts up in software what MPTCP and UDP hand over beyond it, which costs
/// half of the goodput at 10 Gbit/s.
///
/// netem loses what is handed over for segmentation as a whole: for each packet to be lost independently of the
/// others, none may be.
fn segment_cap(model: &LinkModel, mtu_bytes: u32) -> Option<u32> {
    if model.loss > 0.0 {
        return Some(1);
    }
    let lump_bytes = (u128::from(model.rate_bps?) * LUMP.as_micros() / 8_000_000) as u64;
    (lump_bytes < GSO_MAX_BYTES).then(|| (lump_bytes / u64::from(mtu_bytes)).max(1) as u32)
}

/// A link without a rate that has delay or loss still needs a class to hang them under.
const UNLIMITED_BPS: u64 = MAX_RATE_BPS;

/// The shaper for one direction of a link; `None` when the model asks for nothing and nothing is in force.
///
/// netem once in force stays, with a delay of zero if need be: taking it away would drop what waits.
fn shaper(link: &Link, model: &LinkModel, in_force: InForce) -> Option<Shaper> {
    let mtu_bytes = link.mtu_bytes;
    let netem = (disturbs(model) || in_force == InForce::Netem).then(|| Netem {
        delay: model.delay,
        jitter: model.jitter,
        loss: model.loss,
        limit_packets: netem_limit(model, mtu_bytes),
    });
    if model.rate_bps.is_none() && netem.is_none() {
        return None;
    }
    let queue = QueueLimit::Bytes(model.queue_bytes(mtu_bytes).unwrap_or(u64::from(u32::MAX)));
    Some(Shaper { netem, ..Shaper::new(model.rate_bps.unwrap_or(UNLIMITED_BPS), mtu_bytes, queue) })
}

/// Whether a link asks for what only netem (or the emulated engine) can do.
fn disturbs(model: &LinkModel) -> bool {
    !model.delay.is_zero() || !model.jitter.is_zero() || model.loss > 0.0
}

/// netem holds packets in flight and packets that wait for the rate in one queue: room for both.
fn netem_limit(model: &LinkModel, mtu_bytes: u32) -> u32 {
    let rate_bps = model.rate_bps.unwrap_or(UNLIMITED_BPS) as f64;
    let in_flight_bytes = rate_bps / 8.0 * (model.delay + model.jitter).as_secs_f64();
    let waiting_bytes = model.queue_bytes(mtu_bytes).unwrap_or_default() as f64;
    ((in_flight_bytes + waiting_bytes) / f64::from(mtu_bytes)).ceil().clamp(100.0, 1e6) as u32
}

fn refused(link: &Link, source: ShaperError) -> EnvironmentError {
    match source {
        ShaperError::NoNetem => EnvironmentError::Unsupported {
            link: link.name.clone(),
            what: "delay, jitter or loss".to_owned(),
            why:
                "which the kernel engine makes with netem, and this kernel has no netem (sch_netem): load or \
                  install that module, or leave delay, jitter and loss out of the scenario"
                    .to_owned(),
        },
        source => EnvironmentError::Shaper { link: link.name.clone(), source },
    }
}

fn interface_index(room: &mut RouteSocket, name: &str, link: &Link) -> Result<u32, EnvironmentError> {
    room.link(name)
        .map(|found| found.index)
        .map_err(netlink(format!("link `{}`: looking up {name}", link.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, Source};

    fn link(path: &str) -> Link {
        let text = format!("name = \"t\"\n[[path]]\nname = \"eth\"\n{path}\n");
        let plan = scenario::plan(&Source::from_text("t.toml", &text), &Overrides::default()).unwrap();
        plan.variants[0].topology.links[0].clone()
    }

    /// Delay by netem, of a shaper if there is one.
    fn shaped(path: &str, in_force: InForce) -> (bool, Option<Duration>) {
        let link = link(path);
        let shaper = shaper(&link, &link.forward, in_force);
        (shaper.is_some(), shaper.and_then(|shaper| shaper.netem).map(|netem| netem.delay))
    }

    #[test]
    fn netem_comes_with_the_first_delay_and_stays() {
        let delay = Some(Duration::from_millis(20));
        assert_eq!(shaped("", InForce::Nothing), (false, None));
        assert_eq!(shaped("rate = \"10mbit\"", InForce::Nothing), (true, None));
        assert_eq!(shaped("delay = \"20ms\"", InForce::Nothing), (true, delay));
        assert_eq!(shaped("rate = \"10mbit\"\ndelay = \"20ms\"", InForce::Rate), (true, delay));
        // An event has set the delay back to zero: what is in force must not keep the old one.
        let zero = Some(Duration::ZERO);
        assert_eq!(shaped("", InForce::Netem), (true, zero));
        assert_eq!(shaped("rate = \"10mbit\"", InForce::Netem), (true, zero));
    }

    #[test]
    fn packets_are_lost_one_by_one() {
        let cap = |path: &str| segment_cap(&link(path).forward, 1500);
        assert_eq!(cap("rate = \"1gbit\""), Some(25));
        assert_eq!(cap("rate = \"10gbit\""), None);
        assert_eq!(cap("rate = \"1gbit\"\nloss = \"1%\""), Some(1));
        assert_eq!(cap("loss = \"1%\""), Some(1));
    }
}
