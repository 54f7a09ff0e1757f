//! The packet scheduler of MPTCP connections.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};

/// `None` before Linux 6.6, which has one scheduler and no setting.
pub(super) fn finding(facts: &HostFacts) -> Option<Finding> {
    let id = FindingId::MptcpScheduler;
    if let Some(reason) = facts.unread("net.mptcp.scheduler") {
        return Some(Finding::not_examined(id, reason));
    }
    let chosen = facts.setting("net.mptcp.scheduler")?;
    let Some(available) = facts.setting("net.mptcp.available_schedulers") else {
        return Some(Finding::ok(id, format!("{chosen}; this kernel does not list the available ones")));
    };
    let available: Vec<&str> = available.split_ascii_whitespace().collect();
    if available.contains(&chosen) {
        let choice = match available.as_slice() {
            [only] => format!("{only} is the only one here"),
            all => format!("available: {}", all.join(", ")),
        };
        return Some(Finding::ok(id, format!("{chosen}; {choice}")));
    }
    let advice = Finding::advice(
        id,
        format!(
            "net.mptcp.scheduler is {chosen}, which this kernel does not have (it has {})",
            available.join(", ")
        ),
        "New connections use the scheduler `default`: the BPF program of the other one is not loaded (any more).",
    );
    Some(advice.with_step("sysctl -w net.mptcp.scheduler=default"))
}
