//! The middle of a link: in the wire room for the kernel's engine, in the data plane for the emulated one.

mod emulated;
mod kernel;
mod offload;

use super::EnvironmentError;
use super::node::NodeHandle;
use crate::scenario::{Engine, FadePlan, Link};
use emulated::EmulatedWire;
use kernel::KernelWire;
pub(super) use offload::Cap;
use pathbench_emulator::pipe::Condition;
use pathbench_emulator::plane::{DataPlane, LinkReport};
use pathbench_host::netlink::RouteSocket;
use pathbench_link::LinkChange;
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

/// Where the middles of all links are.
#[derive(Debug)]
pub(super) struct Middle {
    /// The wire room.
    pub(super) room: RouteSocket,
    /// The data plane, where the lab has an emulated link.
    pub(super) plane: Option<DataPlane>,
}

/// What a link needs beside its model to be built.
#[derive(Debug)]
pub(super) struct Building<'a> {
    /// Its number in the topology.
    pub(super) index: usize,
    pub(super) link: &'a Link,
    /// Seeds of an emulated link's directions.
    pub(super) seeds: [u64; 2],
    /// File for the packets of an emulated link.
    pub(super) capture: Option<PathBuf>,
}

/// The middle of one link.
#[derive(Debug)]
pub(super) struct Wire {
    /// As events have changed it.
    link: Link,
    engine: EngineWire,
}

#[derive(Debug)]
enum EngineWire {
    Kernel(KernelWire),
    Emulated(EmulatedWire),
}

impl Wire {
    /// Creates the link between its two nodes.
    pub(super) fn build(
        middle: &mut Middle,
        building: Building<'_>,
        nodes: &[NodeHandle],
    ) -> Result<Self, EnvironmentError> {
        let link = building.link.clone();
        let engine = match link.engine {
            Engine::Kernel => {
                EngineWire::Kernel(KernelWire::build(&mut middle.room, building.index, &link, nodes)?)
            }
            Engine::Emulated => EngineWire::Emulated(EmulatedWire::build(middle, building, nodes)?),
        };
        Ok(Self { link, engine })
    }

    /// Caps what the nodes hand over for segmentation, so that a slow link is not fed 64 KiB lumps; also those at `far`,
    /// the last link of a path that begins with this one.
    pub(super) fn offload(
        &self,
        nodes: &mut [NodeHandle],
        far: Option<&Link>,
    ) -> Result<(), EnvironmentError> {
        let link = &self.link;
        for (index, model) in [&link.forward, &link.reverse].into_iter().enumerate() {
            let (cap, alone) = match self.engine {
                EngineWire::Kernel(_) => (offload::kernel_cap(model), model.loses()),
                EngineWire::Emulated(_) => (offload::cap(model), false),
            };
            let Some(segments) = cap else { continue };
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

    /// Whether the middle passes packets.
    pub(super) fn is_running(&self, middle: &mut Middle) -> Result<bool, EnvironmentError> {
        match &self.engine {
            EngineWire::Kernel(wire) => wire.is_running(&mut middle.room, &self.link),
            // The data plane takes packets from the moment the link is added.
            EngineWire::Emulated(_) => Ok(true),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.link.name
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Puts new models in force. The MTU is set by itself.
    pub(super) fn change(
        &mut self,
        middle: &mut Middle,
        change: &LinkChange,
        direction: Option<LinkDirection>,
    ) -> Result<(), EnvironmentError> {
        if let EngineWire::Emulated(wire) = &self.engine {
            wire.refresh(middle, &mut self.link)?;
        }
        let [forward, reverse] = LinkDirection::selected(direction);
        for (model, chosen) in [(&mut self.link.forward, forward), (&mut self.link.reverse, reverse)] {
            if chosen {
                change.apply(model);
            }
        }
        match &mut self.engine {
            EngineWire::Kernel(wire) => wire.shape(&mut middle.room, &self.link),
            EngineWire::Emulated(wire) => wire.change(middle, &self.link, change, direction),
        }
    }

    /// Sets the MTU of the middle.
    pub(super) fn set_mtu(&mut self, middle: &mut Middle, mtu_bytes: u32) -> Result<(), EnvironmentError> {
        self.link.set_mtu_bytes(mtu_bytes);
        match &self.engine {
            EngineWire::Kernel(wire) => wire.set_mtu(&mut middle.room, &self.link),
            EngineWire::Emulated(wire) => wire.set_mtu(middle, &self.link),
        }
    }

    /// Lets the link carry packets, hold them, or swallow them, without either end noticing.
    pub(super) fn set_condition(
        &self,
        middle: &mut Middle,
        condition: Condition,
    ) -> Result<(), EnvironmentError> {
        match &self.engine {
            EngineWire::Kernel(wire) => {
                // Plans ask the kernel's engine for no outage.
                wire.set_connected(&mut middle.room, &self.link, condition == Condition::Carrying)
            }
            EngineWire::Emulated(wire) => wire.set_condition(middle, &self.link, condition),
        }
    }

    /// Begins a fade; the link follows it by itself.
    pub(super) fn fade(&mut self, middle: &Middle, fade: &FadePlan) -> Result<(), EnvironmentError> {
        match &self.engine {
            EngineWire::Kernel(_) => Err(EnvironmentError::Unsupported {
                link: self.link.name.clone(),
                what: "a fade".to_owned(),
                why: "which the kernel's engine cannot do: leave the link's engine out".to_owned(),
            }),
            EngineWire::Emulated(wire) => {
                wire.refresh(middle, &mut self.link)?;
                wire.fade(middle, &self.link, fade)
            }
        }
    }

    /// Begins an emulated link anew, with the random numbers and traces of its beginning.
    pub(super) fn restart(&self, middle: &Middle) -> Result<(), EnvironmentError> {
        match &self.engine {
            EngineWire::Kernel(_) => Ok(()),
            EngineWire::Emulated(wire) => wire.restart(middle, &self.link),
        }
    }

    /// What became of an emulated link's packets; `None` for a link of the kernel.
    pub(super) fn report(&self, middle: &Middle) -> Result<Option<LinkReport>, EnvironmentError> {
        match &self.engine {
            EngineWire::Kernel(_) => Ok(None),
            EngineWire::Emulated(wire) => wire.report(middle, &self.link).map(Some),
        }
    }

    pub(super) fn counters(&self, middle: &mut Middle) -> Result<LinkCounters, EnvironmentError> {
        match &self.engine {
            EngineWire::Kernel(wire) => wire.counters(&mut middle.room, &self.link),
            EngineWire::Emulated(wire) => wire.counters(middle, &self.link),
        }
    }

    /// Begins to count the packets that enter the link by their length, from zero.
    pub(super) fn count_sizes(&mut self) -> Result<(), EnvironmentError> {
        match &mut self.engine {
            EngineWire::Kernel(wire) => wire.count_sizes(&self.link),
            // The data plane always counts, since the latest restart.
            EngineWire::Emulated(_) => Ok(()),
        }
    }

    /// Ends the counting; `None` where there was none.
    pub(super) fn counted_sizes(&mut self, middle: &Middle) -> Result<Option<PacketSizes>, EnvironmentError> {
        match &mut self.engine {
            EngineWire::Kernel(wire) => Ok(wire.counted_sizes()),
            EngineWire::Emulated(wire) => {
                let [forward, reverse] = wire.report(middle, &self.link)?.directions;
                Ok(Some(PacketSizes {
                    forward: forward.offered_sizes,
                    reverse: reverse.offered_sizes,
                    missed_packets: forward.overrun_packets + reverse.overrun_packets,
                }))
            }
        }
    }

    /// Takes the wire out of the room. Its interfaces in the nodes go with it; what is gone already is no matter.
    pub(super) fn remove(&self, middle: &mut Middle) {
        if let EngineWire::Kernel(wire) = &self.engine {
            wire.remove(&mut middle.room);
        }
    }
}
