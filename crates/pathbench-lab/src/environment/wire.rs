//! Links of a standing lab, each behind an [`Engine`].

mod emulated;
mod kernel;
mod offload;

use super::EnvironmentError;
use super::node::NodeHandle;
use crate::scenario::{Engine as EngineName, FadePlan, Link};
use emulated::EmulatedWire;
use kernel::KernelWire;
pub(super) use offload::Cap;
use pathbench_emulator::pipe::Condition;
use pathbench_emulator::plane::{DataPlane, LinkReport};
use pathbench_host::netlink::RouteSocket;
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::PacketSizes;
use std::path::PathBuf;

/// Senders over links that take more begin below what they take when they probe for a path's MTU.
const ETHERNET_MTU_BYTES: u32 = 1_500;

/// Counters of a link's two bottlenecks since the lab was built. Bytes are Ethernet frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Bytes that left towards the second end.
    pub forward_bytes: u64,
    /// Packets dropped in the queue towards the second end.
    pub forward_drops: u64,
    /// Bytes that left towards the first end.
    pub reverse_bytes: u64,
    /// Packets dropped in the queue towards the first end.
    pub reverse_drops: u64,
}

#[derive(Debug)]
pub(super) struct Fabric {
    /// The fabric namespace, in which links of the kernel's engine have their bridges and shapers.
    pub(super) routes: RouteSocket,
    pub(super) plane: Option<DataPlane>,
}

#[derive(Debug)]
pub(super) struct Building<'a> {
    pub(super) index: usize,
    pub(super) link: &'a Link,
    pub(super) seeds: [u64; 2],
    pub(super) capture: Option<PathBuf>,
}

/// What carries a link out. `link` is as events have left it.
trait Engine: std::fmt::Debug + Send {
    /// Most segments that a node may hand over at once in a direction, and whether each packet must pass by itself;
    /// `None` for no limit.
    fn offload_cap(&self, model: &LinkModel) -> Option<(u32, bool)>;

    fn is_running(&self, _fabric: &mut Fabric, _link: &Link) -> Result<bool, EnvironmentError> {
        Ok(true)
    }

    fn refresh(&self, _fabric: &Fabric, _link: &mut Link) -> Result<(), EnvironmentError> {
        Ok(())
    }

    /// Puts in force what `change` has already made of `link`. The MTU is set by itself.
    fn change(
        &mut self,
        fabric: &mut Fabric,
        link: &Link,
        change: &LinkChange,
        direction: Option<LinkDirection>,
    ) -> Result<(), EnvironmentError>;

    fn set_mtu(&self, fabric: &mut Fabric, link: &Link) -> Result<(), EnvironmentError>;

    /// Carries, holds or drops packets, without either end noticing.
    fn set_condition(
        &self,
        fabric: &mut Fabric,
        link: &Link,
        condition: Condition,
    ) -> Result<(), EnvironmentError>;

    fn fade(&self, fabric: &Fabric, link: &Link, fade: &FadePlan) -> Result<(), EnvironmentError>;

    fn restart(&self, _fabric: &Fabric, _link: &Link) -> Result<(), EnvironmentError> {
        Ok(())
    }

    fn report(&self, _fabric: &Fabric, _link: &Link) -> Result<Option<LinkReport>, EnvironmentError> {
        Ok(None)
    }

    fn counters(&self, fabric: &mut Fabric, link: &Link) -> Result<LinkCounters, EnvironmentError>;

    /// Begins to count the packets that enter the link by their length, from zero.
    fn count_sizes(&mut self, _link: &Link) -> Result<(), EnvironmentError> {
        Ok(())
    }

    /// Ends the counting; `None` where there was none.
    fn counted_sizes(
        &mut self,
        fabric: &Fabric,
        link: &Link,
    ) -> Result<Option<PacketSizes>, EnvironmentError>;

    /// Takes the link out of the fabric. Its interfaces in the nodes go with it; what is gone already is no matter.
    fn remove(&self, _fabric: &mut Fabric) {}
}

#[derive(Debug)]
pub(super) struct Wire {
    /// As events have changed it.
    link: Link,
    engine: Box<dyn Engine>,
}

impl Wire {
    pub(super) fn build(
        fabric: &mut Fabric,
        building: Building<'_>,
        nodes: &[NodeHandle],
    ) -> Result<Self, EnvironmentError> {
        let link = building.link.clone();
        let engine: Box<dyn Engine> = match link.engine {
            EngineName::Kernel => {
                Box::new(KernelWire::build(&mut fabric.routes, building.index, &link, nodes)?)
            }
            EngineName::Emulated => Box::new(EmulatedWire::build(fabric, building, nodes)?),
        };
        Ok(Self { link, engine })
    }

    /// Caps segmentation offload at the nodes, so that a slow link is not fed 64 KiB lumps; also at those of `far`, the
    /// last link of a path that begins with this one.
    pub(super) fn offload(
        &self,
        nodes: &mut [NodeHandle],
        far: Option<&Link>,
    ) -> Result<(), EnvironmentError> {
        let link = &self.link;
        for (index, model) in [&link.forward, &link.reverse].into_iter().enumerate() {
            let Some((segments, alone)) = self.engine.offload_cap(model) else { continue };
            let narrows = far.is_some() || link.mtu_bytes() > ETHERNET_MTU_BYTES;
            let cap = if narrows && !alone {
                Cap::of_bytes(segments, link.mtu_bytes())
            } else {
                Cap::of_segments(segments)
            };
            for end in [Some(&link.ends[index]), far.map(|far| &far.ends[index])].into_iter().flatten() {
                if let Some(node) = nodes.iter_mut().find(|node| node.name() == end.node) {
                    node.cap_offload(&end.interface, cap)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_running(&self, fabric: &mut Fabric) -> Result<bool, EnvironmentError> {
        self.engine.is_running(fabric, &self.link)
    }

    pub(super) fn name(&self) -> &str {
        &self.link.name
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn change(
        &mut self,
        fabric: &mut Fabric,
        change: &LinkChange,
        direction: Option<LinkDirection>,
    ) -> Result<(), EnvironmentError> {
        self.engine.refresh(fabric, &mut self.link)?;
        let [forward, reverse] = LinkDirection::selected(direction);
        for (model, chosen) in [(&mut self.link.forward, forward), (&mut self.link.reverse, reverse)] {
            if chosen {
                change.apply(model);
            }
        }
        self.engine.change(fabric, &self.link, change, direction)
    }

    pub(super) fn set_mtu(&mut self, fabric: &mut Fabric, mtu_bytes: u32) -> Result<(), EnvironmentError> {
        self.link.set_mtu_bytes(mtu_bytes);
        self.engine.set_mtu(fabric, &self.link)
    }

    pub(super) fn set_condition(
        &self,
        fabric: &mut Fabric,
        condition: Condition,
    ) -> Result<(), EnvironmentError> {
        self.engine.set_condition(fabric, &self.link, condition)
    }

    pub(super) fn fade(&mut self, fabric: &Fabric, fade: &FadePlan) -> Result<(), EnvironmentError> {
        self.engine.refresh(fabric, &mut self.link)?;
        self.engine.fade(fabric, &self.link, fade)
    }

    pub(super) fn restart(&self, fabric: &Fabric) -> Result<(), EnvironmentError> {
        self.engine.restart(fabric, &self.link)
    }

    pub(super) fn report(&self, fabric: &Fabric) -> Result<Option<LinkReport>, EnvironmentError> {
        self.engine.report(fabric, &self.link)
    }

    pub(super) fn counters(&self, fabric: &mut Fabric) -> Result<LinkCounters, EnvironmentError> {
        self.engine.counters(fabric, &self.link)
    }

    pub(super) fn count_sizes(&mut self) -> Result<(), EnvironmentError> {
        self.engine.count_sizes(&self.link)
    }

    pub(super) fn counted_sizes(&mut self, fabric: &Fabric) -> Result<Option<PacketSizes>, EnvironmentError> {
        self.engine.counted_sizes(fabric, &self.link)
    }

    pub(super) fn remove(&self, fabric: &mut Fabric) {
        self.engine.remove(fabric);
    }
}
