//! Links of a running lab, each behind an [`WireEngine`].

mod emulated;
mod engine;
mod kernel;

use super::error::Result;
use super::node::NodeHandle;
use super::offload::Cap;
use crate::scenario::{FadePlan, LinkEngine as EngineName, LinkPlan};
use emulated::EmulatedWire;
pub use engine::LinkCounters;
pub(super) use engine::{Building, Fabric, WireEngine};
use kernel::KernelWire;
use pathbench_link::LinkChange;
use pathbench_record::direction::LinkDirection;
use tracing::{info, info_span};

/// On a link with a larger MTU, a sender starts with a smaller path MTU and probes for the larger one.
const ETHERNET_MTU_BYTES: u32 = 1_500;

#[derive(Debug)]
pub(super) struct Wire {
    /// The link, including the changes by events.
    pub(super) link: LinkPlan,
    pub(super) engine: Box<dyn WireEngine>,
}

impl Wire {
    pub(super) fn build(fabric: &mut Fabric, building: Building<'_>, nodes: &[NodeHandle]) -> Result<Self> {
        let link = building.link.clone();
        let _span = info_span!("link", name = link.name).entered();
        info!(engine = ?link.engine, forward = ?link.forward, reverse = ?link.reverse, "link built");
        let engine: Box<dyn WireEngine> = match link.engine {
            EngineName::Kernel => {
                Box::new(KernelWire::build(&mut fabric.routes, building.index, &link, nodes)?)
            }
            EngineName::Emulated => Box::new(EmulatedWire::build(fabric, building, nodes)?),
        };
        Ok(Self { link, engine })
    }

    /// Caps segmentation offload at the link's nodes, so that a slow link receives no GSO packets of 64 KiB. Also caps
    /// it at the nodes of `far`, the last link of a path that begins with this link.
    pub(super) fn offload(&self, nodes: &mut [NodeHandle], far: Option<&LinkPlan>) -> Result {
        let narrows = far.is_some() || self.link.mtu_bytes() > ETHERNET_MTU_BYTES;
        for (index, model) in [&self.link.forward, &self.link.reverse].into_iter().enumerate() {
            let Some(cap) = Cap::from_model(model, self.link.engine, narrows) else { continue };
            for end in [Some(&self.link.ends[index]), far.map(|far| &far.ends[index])].into_iter().flatten() {
                if let Some(node) = nodes.iter_mut().find(|node| node.name() == end.node) {
                    node.cap_offload(&end.interface, cap)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn change(
        &mut self,
        fabric: &mut Fabric,
        change: &LinkChange,
        direction: Option<LinkDirection>,
    ) -> Result {
        self.engine.refresh(fabric, &mut self.link)?;
        let models = [&mut self.link.forward, &mut self.link.reverse];
        LinkDirection::select(direction, models).for_each(|model| change.apply(model));
        self.engine.change(fabric, &self.link, change, direction)
    }

    pub(super) fn fade(&mut self, fabric: &Fabric, fade: &FadePlan) -> Result {
        self.engine.refresh(fabric, &mut self.link)?;
        self.engine.fade(fabric, &self.link, fade)
    }
}
