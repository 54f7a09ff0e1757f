//! A link of the emulated engine: a TUN device in each of its nodes, and the data plane between them.

use super::{Building, LinkCounters, Middle};
use crate::environment::EnvironmentError;
use crate::environment::node::NodeHandle;
use crate::scenario::{Change, FadePlan, Link, LinkModel, ModelKeys};
use pathbench_emulator::model::{Condition, ModelChange};
use pathbench_emulator::plane::{DataPlane, LinkReport, PlaneError, PlaneLink};
use pathbench_host::tun::{Tun, TunError};
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
            Tun::create(node.namespace(), &end.interface, link.mtu_bytes)
                .map_err(|source| refused(link, source))
        };
        let ends = [device(0)?, device(1)?];
        let plane = middle.plane.as_mut().ok_or_else(|| gone(link))?;
        let number = plane
            .add(PlaneLink {
                name: link.name.clone(),
                ends,
                models: [link.forward.pipe(link.mtu_bytes), link.reverse.pipe(link.mtu_bytes)],
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
        let models = [&link.forward, &link.reverse];
        for ((way, model), chosen) in
            LinkDirection::BOTH.into_iter().zip(models).zip(LinkDirection::selected(change.direction))
        {
            let change = of_keys(&change.keys, model, link.mtu_bytes);
            if chosen && change != ModelChange::default() {
                plane.change(self.number, way, change).map_err(of_plane(link))?;
            }
        }
        Ok(())
    }

    pub(super) fn set_mtu(&self, middle: &Middle, link: &Link) -> Result<(), EnvironmentError> {
        let plane = plane_of(middle, link)?;
        for way in LinkDirection::BOTH {
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

    /// Notes in `link` what fades have made of it by now.
    pub(super) fn refresh(&self, middle: &Middle, link: &mut Link) -> Result<(), EnvironmentError> {
        let plane = plane_of(middle, link)?;
        for way in LinkDirection::BOTH {
            let present = plane.model(self.number, way).map_err(of_plane(link))?;
            match way {
                LinkDirection::Forward => link.forward.take_faded(&present),
                LinkDirection::Reverse => link.reverse.take_faded(&present),
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

/// What `keys` change of a pipe, with the values that they have in `model`, and nothing else: a fade of another parameter
/// goes on. A queue given as a time changes with the rate.
fn of_keys(keys: &ModelKeys, model: &LinkModel, mtu_bytes: u32) -> ModelChange {
    let ModelKeys {
        rate,
        queue,
        discipline,
        queue_target,
        queue_interval,
        ecn,
        arq,
        loss,
        delay,
        jitter,
        distribution,
        reorder,
        duplicate,
        corrupt,
    } = keys;
    let pipe = model.pipe(mtu_bytes);
    let disciplines = discipline.is_some() || queue_target.is_some() || queue_interval.is_some();
    let jitters = jitter.is_some() || distribution.is_some() || reorder.is_some();
    ModelChange {
        mtu_bytes: None,
        duplicate: duplicate.map(|_| pipe.duplicate),
        corrupt: corrupt.map(|_| pipe.corrupt),
        queue_limit: (queue.is_some() || rate.is_some()).then_some(pipe.queue.limit),
        discipline: disciplines.then_some(pipe.queue.discipline),
        ecn: ecn.map(|_| pipe.queue.ecn),
        rate: rate.as_ref().map(|_| pipe.rate),
        arq: arq.map(|_| pipe.arq),
        loss: loss.as_ref().map(|_| pipe.loss),
        base_delay: delay.as_ref().map(|_| pipe.delay.base),
        jitter: jitters.then_some(pipe.delay.jitter),
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
