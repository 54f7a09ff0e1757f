//! A link of the emulated engine: a TUN device in each of its nodes, and the data plane between them.

use super::{Building, LinkCounters, Middle};
use crate::environment::EnvironmentError;
use crate::environment::node::NodeHandle;
use crate::scenario::{Change, FadePlan, Link, LinkModel, ModelKeys};
use pathbench_emulator::model::{Condition, ModelChange};
use pathbench_emulator::plane::{DataPlane, LinkReport, PlaneError, PlaneLink, Way};
use pathbench_host::tun::{Tun, TunError};

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
            Tun::create(node.namespace(), &end.interface, link.mtu_bytes)
                .map_err(|source| refused(link, source))
        };
        let ends = [device(0)?, device(1)?];
        let plane = middle.plane.as_mut().ok_or_else(|| gone(link))?;
        let number = plane
            .add(PlaneLink {
                name: link.name.clone(),
                ends,
                models: [link.forward.pipe(link.mtu_bytes), link.backward.pipe(link.mtu_bytes)],
                seeds: building.seeds,
                capture: building.capture,
            })
            .map_err(of_plane(link))?;
        Ok(Self { number, seeds: building.seeds })
    }

    /// Puts in force what `change` has already made of `link`.
    pub(super) fn change(
        &self,
        middle: &Middle,
        link: &Link,
        change: &Change,
    ) -> Result<(), EnvironmentError> {
        let plane = plane_of(middle, link)?;
        let models = [&link.forward, &link.backward];
        for ((way, model), chosen) in Way::BOTH.into_iter().zip(models).zip(change.ways.chosen()) {
            let change = of_keys(&change.keys, model, link.mtu_bytes);
            if chosen && change != ModelChange::default() {
                plane.change(self.number, way, change).map_err(of_plane(link))?;
            }
        }
        Ok(())
    }

    pub(super) fn set_mtu(&self, middle: &Middle, link: &Link) -> Result<(), EnvironmentError> {
        let plane = plane_of(middle, link)?;
        for way in Way::BOTH {
            let change = ModelChange { mtu_bytes: Some(Some(link.mtu_bytes)), ..ModelChange::default() };
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

    /// Begins a fade from what `link` is, and notes in it what it leads to.
    pub(super) fn fade(
        &self,
        middle: &Middle,
        link: &mut Link,
        plan: &FadePlan,
    ) -> Result<(), EnvironmentError> {
        let schedules = plan
            .schedules(link)
            .map_err(|source| EnvironmentError::Fading { link: link.name.clone(), source })?;
        let plane = plane_of(middle, link)?;
        for (way, schedule) in Way::BOTH.into_iter().zip(schedules) {
            let model = match way {
                Way::Forward => &mut link.forward,
                Way::Backward => &mut link.backward,
            };
            model.conclude(&schedule);
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
        let [forward, backward] = &report.directions;
        Ok(LinkCounters {
            forward_bytes: forward.statistics.delivered_bytes,
            forward_drops: forward.statistics.dropped_packets.values().sum(),
            backward_bytes: backward.statistics.delivered_bytes,
            backward_drops: backward.statistics.dropped_packets.values().sum(),
        })
    }
}

/// What `keys` change of a pipe, with the values that they have in `model`. A queue given as a time changes with the
/// rate.
fn of_keys(keys: &ModelKeys, model: &LinkModel, mtu_bytes: u32) -> ModelChange {
    let pipe = model.pipe(mtu_bytes);
    let queue = keys.queue.is_some()
        || keys.rate.is_some()
        || keys.discipline.is_some()
        || keys.queue_target.is_some()
        || keys.queue_interval.is_some()
        || keys.ecn.is_some();
    let delay = keys.delay.is_some()
        || keys.jitter.is_some()
        || keys.distribution.is_some()
        || keys.reorder.is_some();
    ModelChange {
        mtu_bytes: None,
        duplicate: keys.duplicate.map(|_| pipe.duplicate),
        corrupt: keys.corrupt.map(|_| pipe.corrupt),
        queue: queue.then_some(pipe.queue),
        rate: keys.rate.as_ref().map(|_| pipe.rate),
        radio: keys.radio.map(|_| pipe.radio),
        loss: keys.loss.as_ref().map(|_| pipe.loss),
        delay: delay.then_some(pipe.delay),
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
