//! A link of the kernel's engine: a bridge in the fabric namespace with one veth end and one shaper towards each node.

use super::engine::{Fabric, LinkCounters, WireEngine, node_at, of_link};
use crate::environment::error::{EnvironmentError, Result, failure_at, refusal_at};
use crate::environment::node::NodeHandle;
use crate::scenario::{FadePlan, LinkPlan};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{NetlinkError, RouteSocket, VethEnd, VethPair};
use pathbench_host::packet_sizes::{SizeCounter, SizeCounterError};
use pathbench_host::qdisc::{MAX_RATE_BPS, Netem, Shaper, ShaperError};
use pathbench_link::pipe::PipeCondition;
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::PacketSizes;

#[derive(Debug)]
pub(super) struct KernelWire {
    bridge: u32,
    /// Interfaces in the fabric namespace towards the first and the second end, and their names.
    ports: [u32; 2],
    port_names: [String; 2],
    /// Counters of the packets that enter by the ports, by length; `None` if packets are not counted by length.
    size_counters: Option<[SizeCounter; 2]>,
    in_force: [InForce; 2],
    /// Whether the link was built with a shaper on the forward and the reverse direction.
    built_shaped: [bool; 2],
    bytes_at_restart: [u64; 2],
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
        link: &LinkPlan,
        nodes: &[NodeHandle],
    ) -> Result<Self> {
        let doing = |what: &str| failure_at::<NetlinkError>(format!("link `{}`: {what}", link.name));
        let bridge_name = format!("w{index}");
        let bridge = routes.create_bridge(&bridge_name).map_err(doing("creating its bridge"))?;
        let here = fabric_namespace()?;
        let mut ports = [0; 2];
        let port_names = ["a", "b"].map(|end| format!("w{index}{end}"));
        for (end, port) in ports.iter_mut().enumerate() {
            let port_name = &port_names[end];
            let node = node_at(nodes, link, end)?;
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
            *port = routes.link(port_name).map_err(doing(&format!("looking up {port_name}")))?.index;
            routes.set_master(*port, bridge).map_err(doing("joining its bridge"))?;
        }
        let mut wire = Self {
            bridge,
            ports,
            port_names,
            size_counters: None,
            in_force: Default::default(),
            built_shaped: Default::default(),
            bytes_at_restart: Default::default(),
        };
        wire.shape(routes, link)?;
        wire.built_shaped = wire.in_force.map(|shape| shape != InForce::Nothing);
        for index in [bridge, ports[0], ports[1]] {
            routes.set_up(index).map_err(doing("bringing it up"))?;
        }
        Ok(wire)
    }

    /// Applies the models: the shaper of the forward direction is on the port towards the second end.
    fn shape(&mut self, routes: &mut RouteSocket, link: &LinkPlan) -> Result {
        let directions = [(&link.forward, self.ports[1]), (&link.reverse, self.ports[0])];
        for ((model, port), in_force) in directions.into_iter().zip(&mut self.in_force) {
            let Some(shaper) = shaper(link, model, *in_force) else { continue };
            // No shaper exists at the lab's start, or before the first event that needs one.
            let done = if *in_force == InForce::Nothing {
                routes.install_shaper(port, &shaper)
            } else {
                routes.change_rate(port, &shaper)
            };
            done.map_err(|source| shaper_error(link, source))?;
            *in_force = if shaper.netem.is_some() { InForce::Netem } else { InForce::Rate };
        }
        Ok(())
    }

    /// Bytes sent in either direction since the link was built.
    fn sent_bytes(&self, fabric: &mut Fabric, link: &LinkPlan) -> Result<[u64; 2]> {
        let doing = || failure_at::<NetlinkError>(format!("link `{}`: reading its counters", link.name));
        let mut sent = |direction: usize| {
            let port = self.ports[1 - direction];
            // A shaper counts each segment of a GSO packet as a frame; an unshaped port has only the interface's
            // counter. A shaper added by an event has not counted the earlier packets.
            if self.built_shaped[direction] {
                return fabric.routes.qdisc_statistics(port).map(|counted| counted.bytes).map_err(doing());
            }
            fabric.routes.statistics(port).map(|counted| counted.tx_bytes).map_err(doing())
        };
        Ok([sent(0)?, sent(1)?])
    }
}

impl WireEngine for KernelWire {
    fn change(
        &mut self,
        fabric: &mut Fabric,
        link: &LinkPlan,
        _change: &LinkChange,
        _direction: Option<LinkDirection>,
    ) -> Result {
        self.shape(&mut fabric.routes, link)
    }

    fn fade(&self, _fabric: &Fabric, link: &LinkPlan, _fade: &FadePlan) -> Result {
        Err(EnvironmentError::Unsupported {
            link: link.name.clone(),
            what: "a fade".to_owned(),
            why: "which the kernel's engine cannot do: leave the link's engine out".to_owned(),
        })
    }

    fn is_running(&self, fabric: &mut Fabric, link: &LinkPlan) -> Result<bool> {
        let mut running = true;
        for port in self.ports {
            let doing = failure_at(format!("link `{}`: asking whether it runs", link.name));
            running &= fabric.routes.link_by_index(port).map_err(doing)?.running;
        }
        Ok(running)
    }

    fn set_mtu(&mut self, fabric: &mut Fabric, link: &LinkPlan) -> Result {
        for index in [self.ports[0], self.ports[1], self.bridge] {
            let mtu_bytes = link.mtu_bytes();
            fabric
                .routes
                .set_mtu(index, mtu_bytes)
                .map_err(failure_at(format!("link `{}`: setting its MTU to {mtu_bytes}", link.name)))?;
        }
        Ok(())
    }

    /// For a black hole, removes the ports from the bridge; the carrier stays up. Plans have no outage for this engine.
    fn set_condition(&self, fabric: &mut Fabric, link: &LinkPlan, condition: PipeCondition) -> Result {
        for port in self.ports {
            fabric
                .routes
                .set_master(port, if condition == PipeCondition::Carrying { self.bridge } else { 0 })
                .map_err(failure_at(format!("link `{}`: cutting or joining it", link.name)))?;
        }
        Ok(())
    }

    fn restart(&mut self, fabric: &mut Fabric, link: &LinkPlan, packet_sizes: bool) -> Result {
        if packet_sizes {
            let here = fabric_namespace()?;
            let counter = |port: &String| {
                SizeCounter::start(&here, port)
                    .map_err(refusal_at(format!("link `{}`", link.name), SizeCounterError::is_host_unable))
            };
            self.size_counters = Some([counter(&self.port_names[0])?, counter(&self.port_names[1])?]);
        }
        self.bytes_at_restart = self.sent_bytes(fabric, link)?;
        Ok(())
    }

    fn counters(&mut self, fabric: &mut Fabric, link: &LinkPlan) -> Result<LinkCounters> {
        let sent = self.sent_bytes(fabric, link)?;
        let packet_sizes = self.size_counters.take().map(|counters| {
            let [from_first, from_second] = counters.map(SizeCounter::stop);
            PacketSizes {
                forward: from_first.received,
                reverse: from_second.received,
                missed_packets: from_first.missed_packets + from_second.missed_packets,
            }
        });
        let delivered_bytes =
            [0, 1].map(|direction| sent[direction].saturating_sub(self.bytes_at_restart[direction]));
        Ok(LinkCounters { delivered_bytes, packet_sizes, emulated: None })
    }

    fn remove(&self, fabric: &mut Fabric) {
        for index in [self.ports[0], self.ports[1], self.bridge] {
            let _already_removed = fabric.routes.delete_link(index);
        }
    }
}

/// A link without a rate that has delay or loss needs a class as the parent of netem.
const UNLIMITED_BPS: u64 = MAX_RATE_BPS;

/// The shaper for one direction of a link; `None` if the model needs none and none is installed.
///
/// An installed netem is kept, if necessary with zero delay, because its removal would drop its queue.
fn shaper(link: &LinkPlan, model: &LinkModel, in_force: InForce) -> Option<Shaper> {
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
    let queue_bytes = model.queue_bytes().unwrap_or(u64::from(u32::MAX));
    let usual = Shaper::new(model.rate_bps().unwrap_or(UNLIMITED_BPS), mtu_bytes, queue_bytes);
    let burst_bytes = if model.burst_bytes > 0 { model.burst_bytes } else { usual.burst_bytes };
    Some(Shaper { netem, burst_bytes, ..usual })
}

/// Whether a model needs netem (or the emulated engine).
fn disturbs(model: &LinkModel) -> bool {
    !model.constant_delay().unwrap_or_default().is_zero() || !model.jitter.is_zero() || model.loses()
}

/// netem holds packets in flight and packets that wait for the rate in one queue: the limit covers both.
fn netem_limit(model: &LinkModel) -> u32 {
    let rate_bps = model.rate_bps().unwrap_or(UNLIMITED_BPS) as f64;
    let in_flight_bytes =
        rate_bps / 8.0 * (model.constant_delay().unwrap_or_default() + model.jitter).as_secs_f64();
    let waiting_bytes = model.queue_bytes().unwrap_or_default() as f64;
    ((in_flight_bytes + waiting_bytes) / f64::from(model.mtu_bytes)).ceil().clamp(100.0, 1e6) as u32
}

fn shaper_error(link: &LinkPlan, source: ShaperError) -> EnvironmentError {
    match source {
        ShaperError::NoNetem => EnvironmentError::Unsupported {
            link: link.name.clone(),
            what: "delay, jitter or loss".to_owned(),
            why:
                "which the kernel engine makes with netem, and this kernel has no netem (sch_netem): load or \
                  install that module, or leave delay, jitter and loss out of the scenario"
                    .to_owned(),
        },
        source => of_link(link)(source),
    }
}

fn fabric_namespace() -> Result<NetNamespace> {
    NetNamespace::current().map_err(failure_at("the fabric namespace"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, ScenarioSource};
    use std::time::Duration;

    fn link(path: &str) -> LinkPlan {
        let text = format!("name = \"t\"\n[[path]]\nname = \"eth\"\n{path}\n");
        let plan =
            scenario::plan(&ScenarioSource::from_text("t.toml", &text), &Overrides::default()).unwrap();
        plan.variants[0].topology.links[0].clone()
    }

    fn read_shaping(path: &str, in_force: InForce) -> (bool, Option<Duration>) {
        let link = link(path);
        let shaper = shaper(&link, &link.forward, in_force);
        (shaper.is_some(), shaper.and_then(|shaper| shaper.netem).map(|netem| netem.delay))
    }

    #[test]
    fn the_burst_of_the_shaper_is_that_of_the_link_or_its_default() {
        let shaped = |path: &str| {
            let link = link(path);
            shaper(&link, &link.forward, InForce::Nothing).map(|shaper| shaper.burst_bytes)
        };
        assert_eq!(shaped("rate = \"10mbit\"\nburst = \"40kB\""), Some(40_000));
        let default = pathbench_host::qdisc::default_burst_bytes(10_000_000, 1_500);
        assert_eq!(shaped("rate = \"10mbit\""), Some(default));
    }

    #[test]
    fn netem_comes_with_the_first_delay_and_stays() {
        let delay = Some(Duration::from_millis(20));
        assert_eq!(read_shaping("", InForce::Nothing), (false, None));
        assert_eq!(read_shaping("rate = \"10mbit\"", InForce::Nothing), (true, None));
        assert_eq!(read_shaping("delay = \"20ms\"", InForce::Nothing), (true, delay));
        assert_eq!(read_shaping("rate = \"10mbit\"\ndelay = \"20ms\"", InForce::Rate), (true, delay));
        // An event has set the delay back to zero: netem must not keep the old delay.
        let zero = Some(Duration::ZERO);
        assert_eq!(read_shaping("", InForce::Netem), (true, zero));
        assert_eq!(read_shaping("rate = \"10mbit\"", InForce::Netem), (true, zero));
    }
}
