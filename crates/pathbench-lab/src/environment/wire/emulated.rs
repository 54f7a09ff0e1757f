//! A link of the emulated engine: a TUN device in each of its nodes, and the data plane between them.

use super::{Building, LinkCounters, Middle};
use crate::environment::EnvironmentError;
use crate::environment::node::NodeHandle;
use crate::scenario::{FadePlan, Link};
use pathbench_emulator::pipe::Condition;
use pathbench_emulator::plane::{DataPlane, LinkReport, PlaneError, PlaneLink};
use pathbench_host::tun::{Tun, TunError};
use pathbench_link::LinkChange;
use pathbench_record::direction::LinkDirection;

/// A link's part in the data plane.
#[derive(Debug)]
pub(super) struct EmulatedWire {
    /// Its number there.
    number: usize,
    seeds: [u64; 2],
}

impl EmulatedWire {
    /// Makes the devices in the two nodes and hands them to the data plane.
    pub(super) fn build(
        middle: &mut Middle,
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
        let plane = middle.plane.as_mut().ok_or_else(|| gone(link))?;
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

    pub(super) fn change(
        &self,
        middle: &Middle,
        link: &Link,
        change: &LinkChange,
        direction: Option<LinkDirection>,
    ) -> Result<(), EnvironmentError> {
        let plane = plane_of(middle, link)?;
        for (way, chosen) in LinkDirection::BOTH.into_iter().zip(LinkDirection::selected(direction)) {
            if chosen {
                plane.change(self.number, way, change.clone()).map_err(of_plane(link))?;
            }
        }
        Ok(())
    }

    pub(super) fn set_mtu(&self, middle: &Middle, link: &Link) -> Result<(), EnvironmentError> {
        let plane = plane_of(middle, link)?;
        for way in LinkDirection::BOTH {
            let change = LinkChange { mtu_bytes: Some(link.mtu_bytes()), ..LinkChange::default() };
            plane.change(self.number, way, change).map_err(of_plane(link))?;
        }
        Ok(())
    }

    pub(super) fn set_condition(
        &self,
        middle: &Middle,
        link: &Link,
        condition: Condition,
    ) -> Result<(), EnvironmentError> {
        plane_of(middle, link)?.set_condition(self.number, condition).map_err(of_plane(link))
    }

    /// Notes in `link` what fades have made of it by now.
    pub(super) fn refresh(&self, middle: &Middle, link: &mut Link) -> Result<(), EnvironmentError> {
        let plane = plane_of(middle, link)?;
        for way in LinkDirection::BOTH {
            let present = plane.model(self.number, way).map_err(of_plane(link))?;
            match way {
                LinkDirection::Forward => link.forward = present,
                LinkDirection::Reverse => link.reverse = present,
            }
        }
        Ok(())
    }

    /// Begins a fade from what `link` is.
    pub(super) fn fade(&self, middle: &Middle, link: &Link, plan: &FadePlan) -> Result<(), EnvironmentError> {
        let schedules = plan
            .schedules(link)
            .map_err(|source| EnvironmentError::Fading { link: link.name.clone(), source })?;
        let plane = plane_of(middle, link)?;
        for (way, schedule) in LinkDirection::BOTH.into_iter().zip(schedules) {
            if !schedule.changes.is_empty() {
                plane.follow(self.number, way, schedule).map_err(of_plane(link))?;
            }
        }
        Ok(())
    }

    pub(super) fn restart(&self, middle: &Middle, link: &Link) -> Result<(), EnvironmentError> {
        plane_of(middle, link)?.restart(self.number, self.seeds).map_err(of_plane(link))
    }

    pub(super) fn report(&self, middle: &Middle, link: &Link) -> Result<LinkReport, EnvironmentError> {
        plane_of(middle, link)?.report(self.number).map_err(of_plane(link))
    }

    pub(super) fn counters(&self, middle: &Middle, link: &Link) -> Result<LinkCounters, EnvironmentError> {
        let report = self.report(middle, link)?;
        let [forward, reverse] = &report.directions;
        Ok(LinkCounters {
            forward_bytes: forward.statistics.delivered_bytes,
            forward_drops: forward.statistics.dropped_packets.values().sum(),
            reverse_bytes: reverse.statistics.delivered_bytes,
            reverse_drops: reverse.statistics.dropped_packets.values().sum(),
        })
    }
}

fn plane_of<'m>(middle: &'m Middle, link: &Link) -> Result<&'m DataPlane, EnvironmentError> {
    middle.plane.as_ref().ok_or_else(|| gone(link))
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
