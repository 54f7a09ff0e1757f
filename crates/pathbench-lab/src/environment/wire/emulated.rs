//! A link of the emulated engine: a TUN device in each of its nodes, and the data plane between them.

use super::engine::{Building, Fabric, LinkCounters, WireEngine, node_at, of_link};
use crate::environment::error::{EnvironmentError, Result, refusal_at};
use crate::environment::node::NodeHandle;
use crate::scenario::{FadePlan, LinkPlan};
use pathbench_emulator::plane::{DataPlane, PlaneError, PlaneLink};
use pathbench_host::tun::{Tun, TunError};
use pathbench_link::LinkChange;
use pathbench_link::pipe::PipeCondition;
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::PacketSizes;

#[derive(Debug)]
pub(super) struct EmulatedWire {
    number: usize,
    seeds: [u64; 2],
}

impl EmulatedWire {
    /// Creates the devices in the two nodes and adds the link to the data plane.
    pub(super) fn build(fabric: &mut Fabric, building: Building<'_>, nodes: &[NodeHandle]) -> Result<Self> {
        let link = building.link;
        let device = |end: usize| -> Result<Tun> {
            let namespace = node_at(nodes, link, end)?.namespace();
            Tun::create(namespace, &link.ends[end].interface, link.mtu_bytes())
                .map_err(refusal_at(format!("link `{}`", link.name), TunError::is_host_unable))
        };
        let ends = [device(0)?, device(1)?];
        let plane = fabric.plane.as_mut().ok_or_else(|| ended_error(link))?;
        let number = plane
            .add(PlaneLink {
                name: link.name.clone(),
                ends,
                models: [link.forward.clone(), link.reverse.clone()],
                seeds: building.seeds,
                capture: building.capture,
            })
            .map_err(of_link(link))?;
        Ok(Self { number, seeds: building.seeds })
    }
}

impl WireEngine for EmulatedWire {
    fn change(
        &mut self,
        fabric: &mut Fabric,
        link: &LinkPlan,
        change: &LinkChange,
        direction: Option<LinkDirection>,
    ) -> Result {
        let plane = plane_of(fabric, link)?;
        for direction in LinkDirection::select(direction, LinkDirection::BOTH) {
            plane.change(self.number, direction, change.clone()).map_err(of_link(link))?;
        }
        Ok(())
    }

    fn set_mtu(&mut self, fabric: &mut Fabric, link: &LinkPlan) -> Result {
        let change = LinkChange { mtu_bytes: Some(link.mtu_bytes()), ..LinkChange::default() };
        self.change(fabric, link, &change, None)
    }

    fn set_condition(&self, fabric: &mut Fabric, link: &LinkPlan, condition: PipeCondition) -> Result {
        plane_of(fabric, link)?.set_condition(self.number, condition).map_err(of_link(link))
    }

    fn refresh(&self, fabric: &Fabric, link: &mut LinkPlan) -> Result {
        let plane = plane_of(fabric, link)?;
        let model = |direction| plane.model(self.number, direction).map_err(of_link(link));
        let models = [model(LinkDirection::Forward)?, model(LinkDirection::Reverse)?];
        [link.forward, link.reverse] = models;
        Ok(())
    }

    fn fade(&self, fabric: &Fabric, link: &LinkPlan, plan: &FadePlan) -> Result {
        let schedules = plan.schedules(link).map_err(of_link(link))?;
        let plane = plane_of(fabric, link)?;
        for (direction, schedule) in LinkDirection::BOTH.into_iter().zip(schedules) {
            if !schedule.changes.is_empty() {
                plane.follow(self.number, direction, schedule).map_err(of_link(link))?;
            }
        }
        Ok(())
    }

    fn restart(&mut self, fabric: &mut Fabric, link: &LinkPlan, _packet_sizes: bool) -> Result {
        plane_of(fabric, link)?.restart(self.number, self.seeds).map_err(of_link(link))
    }

    fn counters(&mut self, fabric: &mut Fabric, link: &LinkPlan) -> Result<LinkCounters> {
        let report = plane_of(fabric, link)?.report(self.number).map_err(of_link(link))?;
        let [forward, reverse] = &report.directions;
        Ok(LinkCounters {
            delivered_bytes: [forward.statistics.delivered_bytes, reverse.statistics.delivered_bytes],
            packet_sizes: Some(PacketSizes {
                forward: forward.offered_sizes.clone(),
                reverse: reverse.offered_sizes.clone(),
                missed_packets: forward.overrun_packets + reverse.overrun_packets,
            }),
            emulated: Some(report),
        })
    }
}

fn plane_of<'f>(fabric: &'f Fabric, link: &LinkPlan) -> Result<&'f DataPlane> {
    fabric.plane.as_ref().ok_or_else(|| ended_error(link))
}

fn ended_error(link: &LinkPlan) -> EnvironmentError {
    of_link(link)(PlaneError::Ended)
}
