//! A link of the kernel's engine: in the fabric namespace a bridge, one veth end towards each node, a shaper on each.

use super::{Engine, Fabric, LinkCounters, offload};
use crate::environment::node::NodeHandle;
use crate::environment::{EnvironmentError, netlink};
use crate::scenario::{FadePlan, Link};
use pathbench_emulator::pipe::Condition;
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{RouteSocket, VethEnd, VethPair};
use pathbench_host::packet_sizes::SizeCounter;
use pathbench_host::qdisc::{MAX_RATE_BPS, Netem, QueueLimit, Shaper, ShaperError};
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::PacketSizes;

#[derive(Debug)]
pub(super) struct KernelWire {
    bridge: u32,
    /// Interfaces in the fabric namespace towards the first and the second end, and their names.
    ports: [u32; 2],
    port_names: [String; 2],
    /// Counters of what comes in by them, while packets are counted by their length.
    size_counters: Option<[SizeCounter; 2]>,
    in_force: [InForce; 2],
    /// Whether the link was built with a shaper on the forward and the reverse direction.
    built_shaped: [bool; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum InForce {
    #[default]
    Nothing,
    Rate,
    Netem,
}

impl KernelWire {
    /// Creates the link with number `index` between its two nodes, up and shaped.
    pub(super) fn build(
        routes: &mut RouteSocket,
        index: usize,
        link: &Link,
        nodes: &[NodeHandle],
    ) -> Result<Self, EnvironmentError> {
        let doing = |what: &str| netlink(format!("link `{}`: {what}", link.name));
        let bridge_name = format!("w{index}");
        let bridge = routes.create_bridge(&bridge_name).map_err(doing("creating its bridge"))?;
        let here = NetNamespace::current().map_err(|source| EnvironmentError::Namespace {
            node: "the fabric namespace".to_owned(),
            source,
        })?;
        let mut ports = [0; 2];
        let port_names = ["a", "b"].map(|end| format!("w{index}{end}"));
        for (end, port) in ports.iter_mut().enumerate() {
            let port_name = &port_names[end];
            let node = nodes.iter().find(|node| node.name() == link.ends[end].node).ok_or_else(|| {
                EnvironmentError::NoSuchNode { name: link.ends[end].node.clone(), known: String::new() }
            })?;
            routes
                .create_veth(&VethPair {
                    first: VethEnd { name: port_name, namespace: &here, mtu: link.mtu_bytes() },
                    second: VethEnd {
                        name: &link.ends[end].interface,
                        namespace: node.namespace(),
                        mtu: link.mtu_bytes(),
                    },
                })
                .map_err(doing("creating its end"))?;
            *port = interface_index(routes, port_name, link)?;
            routes.set_master(*port, bridge).map_err(doing("joining its bridge"))?;
        }
        let (in_force, built_shaped) = Default::default();
        let mut wire = Self { bridge, ports, port_names, size_counters: None, in_force, built_shaped };
        wire.shape(routes, link)?;
        wire.built_shaped = wire.in_force.map(|shape| shape != InForce::Nothing);
        for index in [bridge, ports[0], ports[1]] {
            routes.set_up(index).map_err(doing("bringing it up"))?;
        }
        Ok(wire)
    }

    /// Puts the models in force: the shaper of the forward direction stands on the port towards the second end.
    fn shape(&mut self, routes: &mut RouteSocket, link: &Link) -> Result<(), EnvironmentError> {
        let directions = [(&link.forward, self.ports[1]), (&link.reverse, self.ports[0])];
        for ((model, port), in_force) in directions.into_iter().zip(&mut self.in_force) {
            let Some(shaper) = shaper(link, model, *in_force) else { continue };
            // The lab's start, or an event that is the first to ask anything of the link: there is none to change.
            let done = if *in_force == InForce::Nothing {
                routes.install_shaper(port, &shaper)
            } else {
                routes.change_rate(port, &shaper)
            };
            done.map_err(|source| refused(link, source))?;
            *in_force = if shaper.netem.is_some() { InForce::Netem } else { InForce::Rate };
        }
        Ok(())
    }
}

impl Engine for KernelWire {
    /// netem drops an unsegmented packet as a whole: for each packet to be lost independently of the others, none may be.
    fn offload_cap(&self, model: &LinkModel) -> Option<(u32, bool)> {
        offload::kernel_cap(model).map(|segments| (segments, model.loses()))
    }

    fn change(
        &mut self,
        fabric: &mut Fabric,
        link: &Link,
        _change: &LinkChange,
        _direction: Option<LinkDirection>,
    ) -> Result<(), EnvironmentError> {
        self.shape(&mut fabric.routes, link)
    }

    fn fade(&self, _fabric: &Fabric, link: &Link, _fade: &FadePlan) -> Result<(), EnvironmentError> {
        Err(EnvironmentError::Unsupported {
            link: link.name.clone(),
            what: "a fade".to_owned(),
            why: "which the kernel's engine cannot do: leave the link's engine out".to_owned(),
        })
    }

    fn is_running(&self, fabric: &mut Fabric, link: &Link) -> Result<bool, EnvironmentError> {
        let mut running = true;
        for port in self.ports {
            let doing = netlink(format!("link `{}`: asking whether it runs", link.name));
            running &= fabric.routes.link_by_index(port).map_err(doing)?.running;
        }
        Ok(running)
    }

    fn set_mtu(&self, fabric: &mut Fabric, link: &Link) -> Result<(), EnvironmentError> {
        for index in [self.ports[0], self.ports[1], self.bridge] {
            let mtu_bytes = link.mtu_bytes();
            fabric
                .routes
                .set_mtu(index, mtu_bytes)
                .map_err(netlink(format!("link `{}`: setting its MTU to {mtu_bytes}", link.name)))?;
        }
        Ok(())
    }

    /// A cut link's ports leave the bridge, and carrier stays. Plans ask this engine for no outage.
    fn set_condition(
        &self,
        fabric: &mut Fabric,
        link: &Link,
        condition: Condition,
    ) -> Result<(), EnvironmentError> {
        for port in self.ports {
            fabric
                .routes
                .set_master(port, if condition == Condition::Carrying { self.bridge } else { 0 })
                .map_err(netlink(format!("link `{}`: cutting or joining it", link.name)))?;
        }
        Ok(())
    }

    fn counters(&self, fabric: &mut Fabric, link: &Link) -> Result<LinkCounters, EnvironmentError> {
        let mut read = |port, built_shaped, in_force| -> Result<(u64, u64), EnvironmentError> {
            let doing = || netlink(format!("link `{}`: reading its counters", link.name));
            let queue = match in_force {
                InForce::Nothing => None,
                InForce::Rate | InForce::Netem => {
                    Some(fabric.routes.qdisc_statistics(port).map_err(doing())?)
                }
            };
            // A shaper counts packets handed over for segmentation as the frames they become; an unshaped port
            // has nothing better than the interface's own count. A shaper that an event has added has missed
            // what passed before it.
            if let (true, Some(counted)) = (built_shaped, queue) {
                return Ok((counted.bytes, u64::from(counted.drops)));
            }
            let interface = fabric.routes.statistics(port).map_err(doing())?;
            let queue_drops = queue.map_or(0, |counted| u64::from(counted.drops));
            Ok((interface.tx_bytes, interface.tx_dropped + queue_drops))
        };
        let [forward, reverse] = [0, 1].map(|way| (self.built_shaped[way], self.in_force[way]));
        let (forward_bytes, forward_drops) = read(self.ports[1], forward.0, forward.1)?;
        let (reverse_bytes, reverse_drops) = read(self.ports[0], reverse.0, reverse.1)?;
        Ok(LinkCounters { forward_bytes, forward_drops, reverse_bytes, reverse_drops })
    }

    fn count_sizes(&mut self, link: &Link) -> Result<(), EnvironmentError> {
        let here = NetNamespace::current().map_err(|source| EnvironmentError::Namespace {
            node: "the fabric namespace".to_owned(),
            source,
        })?;
        let counter = |port: usize| {
            SizeCounter::start(&here, &self.port_names[port])
                .map_err(|source| EnvironmentError::PacketSizes { link: link.name.clone(), source })
        };
        self.size_counters = Some([counter(0)?, counter(1)?]);
        Ok(())
    }

    fn counted_sizes(
        &mut self,
        _fabric: &Fabric,
        _link: &Link,
    ) -> Result<Option<PacketSizes>, EnvironmentError> {
        let Some(counters) = self.size_counters.take() else { return Ok(None) };
        let [from_first, from_second] = counters.map(SizeCounter::stop);
        Ok(Some(PacketSizes {
            forward: from_first.received,
            reverse: from_second.received,
            missed_packets: from_first.missed_packets + from_second.missed_packets,
        }))
    }

    /// Takes the wire out of the fabric.routes. Its interfaces in the nodes go with it; what is gone already is no matter.
    fn remove(&self, fabric: &mut Fabric) {
        for index in [self.ports[0], self.ports[1], self.bridge] {
            let _already_gone = fabric.routes.delete_link(index);
        }
    }
}

/// A link without a rate that has delay or loss still needs a class to hang them under.
const UNLIMITED_BPS: u64 = MAX_RATE_BPS;

/// The shaper for one direction of a link; `None` when the model asks for nothing and nothing is in force.
///
/// netem once in force stays, with a delay of zero if need be: taking it away would drop what waits.
fn shaper(link: &Link, model: &LinkModel, in_force: InForce) -> Option<Shaper> {
    let mtu_bytes = link.mtu_bytes();
    let netem = (disturbs(model) || in_force == InForce::Netem).then(|| Netem {
        delay: model.constant_delay().unwrap_or_default(),
        jitter: model.jitter,
        loss: model.independent_loss().unwrap_or_default(),
        limit_packets: netem_limit(model),
    });
    if model.rate_bps().is_none() && netem.is_none() {
        return None;
    }
    let queue = QueueLimit::Bytes(model.queue_bytes().unwrap_or(u64::from(u32::MAX)));
    Some(Shaper { netem, ..Shaper::new(model.rate_bps().unwrap_or(UNLIMITED_BPS), mtu_bytes, queue) })
}

/// Whether a link asks for what only netem (or the emulated engine) can do.
fn disturbs(model: &LinkModel) -> bool {
    !model.constant_delay().unwrap_or_default().is_zero() || !model.jitter.is_zero() || model.loses()
}

/// netem holds packets in flight and packets that wait for the rate in one queue: room for both.
fn netem_limit(model: &LinkModel) -> u32 {
    let rate_bps = model.rate_bps().unwrap_or(UNLIMITED_BPS) as f64;
    let in_flight_bytes =
        rate_bps / 8.0 * (model.constant_delay().unwrap_or_default() + model.jitter).as_secs_f64();
    let waiting_bytes = model.queue_bytes().unwrap_or_default() as f64;
    ((in_flight_bytes + waiting_bytes) / f64::from(model.mtu_bytes)).ceil().clamp(100.0, 1e6) as u32
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

fn interface_index(routes: &mut RouteSocket, name: &str, link: &Link) -> Result<u32, EnvironmentError> {
    routes
        .link(name)
        .map(|found| found.index)
        .map_err(netlink(format!("link `{}`: looking up {name}", link.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, Source};
    use std::time::Duration;

    fn link(path: &str) -> Link {
        let text = format!("name = \"t\"\n[[path]]\nname = \"eth\"\n{path}\n");
        let plan = scenario::plan(&Source::from_text("t.toml", &text), &Overrides::default()).unwrap();
        plan.variants[0].topology.links[0].clone()
    }

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
}
