//! What the routers of a lab did about packets that were too large for their next hop.

use super::{Environment, EnvironmentError};
use crate::scenario::{Role, icmp_in_words};
use pathbench_host::counters::Counters;
use pathbench_record::document::RouterRecord;

/// A router's counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterCount {
    /// As it was told, with what it has counted since the lab was built.
    pub record: RouterRecord,
    /// Whether the scenario is about what it does with packets that are too large.
    pub is_asked: bool,
}

impl RouterCount {
    /// What happened since `before`, and whether there is anything to tell.
    pub fn since(&self, before: &Self) -> Option<RouterRecord> {
        let (now, then) = (&self.record, &before.record);
        let record = RouterRecord {
            too_big_sent: now.too_big_sent.saturating_sub(then.too_big_sent),
            too_big_suppressed: now.too_big_suppressed.saturating_sub(then.too_big_suppressed),
            clamped_syns: now.clamped_syns.saturating_sub(then.clamped_syns),
            ..now.clone()
        };
        (self.is_asked || record.too_big_sent > 0).then_some(record)
    }
}

impl Environment {
    /// The counters of every router, in the topology's order.
    pub fn routers(&mut self) -> Result<Vec<RouterCount>, EnvironmentError> {
        let mut counts = Vec::new();
        for (node, handle) in self.topology.nodes.iter().zip(&mut self.nodes) {
            if node.role != Role::Router {
                continue;
            }
            let rules = node.rules.unwrap_or_default();
            let in_path = self.topology.hops.iter().any(|hop| hop.routers.contains(&node.name));
            let met = handle.rules_met()?;
            let (too_big_sent, too_big_suppressed, clamped_syns) = match met {
                Some(met) => (met.too_big_sent, met.too_big_suppressed, met.clamped_syns),
                None => (too_big_sent(&handle.mib()?), 0, 0),
            };
            counts.push(RouterCount {
                record: RouterRecord {
                    name: node.name.clone(),
                    icmp: icmp_in_words(rules.too_big),
                    clamp_mss: rules.clamp_mss,
                    too_big_sent,
                    too_big_suppressed,
                    clamped_syns,
                },
                is_asked: node.rules.is_some() || in_path,
            });
        }
        Ok(counts)
    }
}

/// What a router's own counters say, for one without a table of ours. IPv4 has none for "fragmentation needed" alone;
/// `IcmpMsgOutType3` counts all of "destination unreachable", of which a router of a lab sends hardly any other.
fn too_big_sent(mib: &Counters) -> u64 {
    let counters = ["Icmp.OutDestUnreachs", "Icmp6OutPktTooBigs"];
    counters.iter().filter_map(|name| u64::try_from(mib.get(name)?).ok()).sum()
}
