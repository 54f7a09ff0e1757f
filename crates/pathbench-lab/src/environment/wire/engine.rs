//! The engines of links, and their common types.

use crate::environment::error::{EnvironmentError, ErrorSource, Result, failure_at};
use crate::environment::node::NodeHandle;
use crate::scenario::{FadePlan, LinkPlan};
use pathbench_emulator::plane::{DataPlane, LinkReport};
use pathbench_host::netlink::RouteSocket;
use pathbench_link::LinkChange;
use pathbench_link::pipe::PipeCondition;
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::PacketSizes;
use std::path::PathBuf;

/// Counters of a link since its latest restart.
#[derive(Debug, Clone, Default)]
pub struct LinkCounters {
    /// Bytes of Ethernet frames that left the bottleneck of the forward and the reverse direction.
    pub delivered_bytes: [u64; 2],
    /// The packets that entered the link, by length; `None` if they were not counted.
    pub packet_sizes: Option<PacketSizes>,
    pub emulated: Option<LinkReport>,
}

#[derive(Debug)]
pub(crate) struct Fabric {
    /// A socket in the fabric namespace, which contains the bridges and shapers of the kernel's engine.
    pub(crate) routes: RouteSocket,
    pub(crate) plane: Option<DataPlane>,
}

#[derive(Debug)]
pub(crate) struct Building<'a> {
    pub(crate) index: usize,
    pub(crate) link: &'a LinkPlan,
    pub(crate) seeds: [u64; 2],
    pub(crate) capture: Option<PathBuf>,
}

/// The implementation of a link. `link` includes the changes by events.
pub(crate) trait WireEngine: std::fmt::Debug + Send {
    fn is_running(&self, _fabric: &mut Fabric, _link: &LinkPlan) -> Result<bool> {
        Ok(true)
    }

    fn refresh(&self, _fabric: &Fabric, _link: &mut LinkPlan) -> Result {
        Ok(())
    }

    /// Applies `change`, which `link` already includes. The MTU is set separately.
    fn change(
        &mut self,
        fabric: &mut Fabric,
        link: &LinkPlan,
        change: &LinkChange,
        direction: Option<LinkDirection>,
    ) -> Result;

    fn set_mtu(&mut self, fabric: &mut Fabric, link: &LinkPlan) -> Result;

    /// Sets whether the link carries, queues or drops packets; the carrier stays up at both ends.
    fn set_condition(&self, fabric: &mut Fabric, link: &LinkPlan, condition: PipeCondition) -> Result;

    fn fade(&self, fabric: &Fabric, link: &LinkPlan, fade: &FadePlan) -> Result;

    /// Restarts the link: traces and random numbers from their beginning, counters at zero.
    fn restart(&mut self, fabric: &mut Fabric, link: &LinkPlan, packet_sizes: bool) -> Result;

    fn counters(&mut self, fabric: &mut Fabric, link: &LinkPlan) -> Result<LinkCounters>;

    /// Removes the link from the fabric, and with it its interfaces in the nodes. Missing interfaces are no error.
    fn remove(&self, _fabric: &mut Fabric) {}
}

pub(super) fn node_at<'n>(nodes: &'n [NodeHandle], link: &LinkPlan, end: usize) -> Result<&'n NodeHandle> {
    let name = &link.ends[end].node;
    let node = nodes.iter().find(|node| node.name() == name);
    node.ok_or_else(|| EnvironmentError::NoSuchNode { name: name.clone(), known: String::new() })
}

pub(super) fn of_link<E: Into<ErrorSource>>(link: &LinkPlan) -> impl FnOnce(E) -> EnvironmentError + use<E> {
    failure_at(format!("link `{}`", link.name))
}
