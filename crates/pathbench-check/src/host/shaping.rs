//! Queueing disciplines that limit a path at this host.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};
use pathbench_record::network::AddressFamily;
use std::collections::BTreeSet;

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let id = FindingId::TrafficShaping;
    let all = match &facts.shaping {
        Ok(all) => all,
        Err(reason) => return vec![Finding::not_examined(id, reason.clone())],
    };
    let families = AddressFamily::ALL.into_iter();
    let paths: BTreeSet<u32> =
        families.flat_map(|family| facts.paths(family)).map(|path| path.link.index).collect();
    let limits = all.iter().filter(|one| paths.contains(&one.interface));
    let found: Vec<Finding> = limits
        .map(|one| {
            let (name, kind) = (facts.name(one.interface), &one.kind);
            let (found, meaning) = match one.rate_bps {
                Some(rate) => {
                    let rate = crate::buffers::rate(rate);
                    (
                        format!("{name} sends at most {rate}: a shaper of this host ({kind})"),
                        "No transport uploads faster over this path, whatever the network behind it can carry.",
                    )
                }
                None => (
                    format!("{name} has the queueing discipline {kind}, which limits, delays or drops packets"),
                    "Uploads over this path show this host's queue as well as the network.",
                ),
            };
            Finding::advice(id, found, meaning).with_subject(name).with_step(format!(
                "look at it: tc -s qdisc show dev {0}; tc -s class show dev {0}",
                facts.name(one.interface)
            ))
        })
        .collect();
    if found.is_empty() {
        vec![Finding::ok(id, "no queueing discipline of this host limits a path")]
    } else {
        found
    }
}
