//! Findings about this host, from its facts alone.

mod counters;
mod default_route;
mod endpoints;
mod firewall;
mod interfaces;
mod lab;
mod managers;
mod mptcp;
mod quic;
mod routing;
mod scheduler;
mod shaping;
mod tcp;

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId, Level, order};

/// All findings about this host, in the order of [`order`].
pub fn findings(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = mptcp::implementation(facts);
    let lacks_mptcp = findings.iter().any(|finding| finding.level == Level::Problem);
    findings.extend(default_route::findings(facts));
    findings.extend(interfaces::findings(facts));
    // Without MPTCP in the kernel, endpoints and counters do not exist.
    if !lacks_mptcp || is_switched_off(&findings) {
        findings.extend(mptcp::settings(facts));
        findings.extend(scheduler::finding(facts));
        findings.extend(endpoints::findings(facts));
        findings.extend(routing::findings(facts));
        findings.extend(managers::findings(facts));
        findings.extend(counters::findings(facts));
        findings.extend(firewall::findings(facts));
    }
    findings.extend(tcp::findings(facts));
    findings.extend(shaping::findings(facts));
    findings.extend(quic::findings(facts));
    findings.extend(lab::findings(facts));
    managers::translate(facts, &mut findings);
    order(&mut findings);
    findings
}

/// MPTCP exists, but `net.mptcp.enabled` is 0: everything else is examined, so that one run shows all problems.
fn is_switched_off(findings: &[Finding]) -> bool {
    let mut problems = findings.iter().filter(|finding| finding.level == Level::Problem);
    problems.all(|finding| finding.id == FindingId::MptcpEnabled)
}
