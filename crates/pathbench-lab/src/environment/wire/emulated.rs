//! A link of the emulated engine: a TUN device in each of its nodes, and the data plane between them.

use super::{Building, Engine, Fabric, LinkCounters, offload};
use crate::environment::EnvironmentError;
use crate::environment::node::NodeHandle;
use crate::scenario::{FadePlan, Link};
use pathbench_emulator::pipe::Condition;
use pathbench_emulator::plane::{DataPlane, LinkReport, PlaneError, PlaneLink};
use pathbench_host::tun::{Tun, TunError};
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::PacketSizes;

#[derive(Debug)]
pub(super) struct EmulatedWire {
    number: usize,
    seeds: [u64; 2],
}

impl EmulatedWire {
    /// Makes the devices in the two nodes and hands them to the data plane.
    pub(super) fn build(
        fabric: &mut Fabric,
        building: Building<'_>,
        nodes: &[NodeHandle],
    ) -> Result<Self, EnvironmentError> {
        let link = building.link;
        let device = |end: usize| -> Result<Tun, EnvironmentError> {
            let end = &link.ends[end];
            let node = nodes.iter().find(|node| node.name() == end.node).ok_or_else(|| {
                EnvironmentError::NoSuchNode { name: end.node.clone(), known: String::new() }
            })?;
            Tun::create(node.namespace(), &end.interface, link.mtu_bytes())
                .map_err(|source| refused(link, source))
        };
        let ends = [device(0)?, device(1)?];
        let plane = fabric.plane.as_mut().ok_or_else(|| gone(link))?;
        let number = plane
            .add(PlaneLink {
                name: link.name.clone(),
                ends,
                models: [link.forward.clone(), link.reverse.clone()],
                seeds: building.seeds,
                capture: building.capture,
            })
            .map_err(of_plane(link))?;
        Ok(Self { number, seeds: building.seeds })
    }

    fn link_report(&self, fabric: &Fabric, link: &Link) -> Result<LinkReport, EnvironmentError> {
        plane_of(fabric, link)?.report(self.number).map_err(of_plane(link))
    }
}

impl Engine for EmulatedWire {
    fn offload_cap(&self, model: &LinkModel) -> Option<(u32, bool)> {
        offload::cap(model).map(|segments| (segments, false))
    }

    fn change(
        &mut self,
        fabric: &mut Fabric,
        link: &Link,
        change: &LinkChange,
        direction: Option<LinkDirection>,
    ) -> Result<(), EnvironmentError> {
        let plane = plane_of(fabric, link)?;
        for (way, chosen) in LinkDirection::BOTH.into_iter().zip(LinkDirection::selected(direction)) {
            if chosen {
                plane.change(self.number, way, change.clone()).map_err(of_plane(link))?;
            }
        }
        Ok(())
    }

    fn set_mtu(&self, fabric: &mut Fabric, link: &Link) -> Result<(), EnvironmentError> {
        let plane = plane_of(fabric, link)?;
        for way in LinkDirection::BOTH {
            let change = LinkChange { mtu_bytes: Some(link.mtu_bytes()), ..LinkChange::default() };
            plane.change(self.number, way, change).map_err(of_plane(link))?;
        }
        Ok(())
    }

    fn set_condition(
        &self,
        fabric: &mut Fabric,
        link: &Link,
        condition: Condition,
    ) -> Result<(), EnvironmentError> {
        plane_of(fabric, link)?.set_condition(self.number, condition).map_err(of_plane(link))
    }

    fn refresh(&self, fabric: &Fabric, link: &mut Link) -> Result<(), EnvironmentError> {
        let plane = plane_of(fabric, link)?;
        for way in LinkDirection::BOTH {
            let present = plane.model(self.number, way).map_err(of_plane(link))?;
            match way {
                LinkDirection::Forward => link.forward = present,
                LinkDirection::Reverse => link.reverse = present,
            }
        }
        Ok(())
    }

    fn fade(&self, fabric: &Fabric, link: &Link, plan: &FadePlan) -> Result<(), EnvironmentError> {
        let schedules = plan
            .schedules(link)
            .map_err(|source| EnvironmentError::Fading { link: link.name.clone(), source })?;
        let plane = plane_of(fabric, link)?;
        for (way, schedule) in LinkDirection::BOTH.into_iter().zip(schedules) {
            if !schedule.changes.is_empty() {
                plane.follow(self.number, way, schedule).map_err(of_plane(link))?;
            }
        }
        Ok(())
    }

    fn restart(&self, fabric: &Fabric, link: &Link) -> Result<(), EnvironmentError> {
        plane_of(fabric, link)?.restart(self.number, self.seeds).map_err(of_plane(link))
    }

    fn report(&self, fabric: &Fabric, link: &Link) -> Result<Option<LinkReport>, EnvironmentError> {
        self.link_report(fabric, link).map(Some)
    }

    fn counters(&self, fabric: &mut Fabric, link: &Link) -> Result<LinkCounters, EnvironmentError> {
        let report = self.link_report(fabric, link)?;
        let [forward, reverse] = &report.directions;
        Ok(LinkCounters {
            forward_bytes: forward.statistics.delivered_bytes,
            forward_drops: forward.statistics.dropped_packets.values().sum(),
            reverse_bytes: reverse.statistics.delivered_bytes,
            reverse_drops: reverse.statistics.dropped_packets.values().sum(),
        })
    }

    fn counted_sizes(
        &mut self,
        fabric: &Fabric,
        link: &Link,
    ) -> Result<Option<PacketSizes>, EnvironmentError> {
        // The data plane always counts, since the latest restart.
        let [forward, reverse] = self.link_report(fabric, link)?.directions;
        Ok(Some(PacketSizes {
            forward: forward.offered_sizes,
            reverse: reverse.offered_sizes,
            missed_packets: forward.overrun_packets + reverse.overrun_packets,
        }))
    }
}

fn plane_of<'f>(fabric: &'f Fabric, link: &Link) -> Result<&'f DataPlane, EnvironmentError> {
    fabric.plane.as_ref().ok_or_else(|| gone(link))
}

fn gone(link: &Link) -> EnvironmentError {
    EnvironmentError::Plane { link: link.name.clone(), source: PlaneError::Ended }
}

fn of_plane(link: &Link) -> impl FnOnce(PlaneError) -> EnvironmentError + use<> {
    let link = link.name.clone();
    move |source| EnvironmentError::Plane { link, source }
}

fn refused(link: &Link, source: TunError) -> EnvironmentError {
    EnvironmentError::Tun { link: link.name.clone(), source }
}
