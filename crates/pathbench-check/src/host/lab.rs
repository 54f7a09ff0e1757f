//! Requirements of `pathbench lab` on this host. None of it concerns multipath, so nothing here is a problem.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    vec![namespaces(facts), tun(facts), nf_tables(facts), netem(facts)]
}

fn namespaces(facts: &HostFacts) -> Finding {
    let id = FindingId::LabUserNamespaces;
    match facts.lab.rootless {
        Ok(()) => Finding::ok(id, "ordinary users can create user, network and PID namespaces"),
        Err(error) => {
            Finding::advice(id, format!("cannot {}: {}", error.step, error.errno), "Labs run as root only.")
                .with_step(error.refusal.to_string())
        }
    }
}

fn tun(facts: &HostFacts) -> Finding {
    let id = FindingId::LabTun;
    match &facts.lab.tun {
        Ok(()) => Finding::ok(id, "/dev/net/tun can be opened"),
        Err(reason) => Finding::advice(
            id,
            format!("/dev/net/tun: {reason}"),
            "Links of the `emulated` engine (delay, loss, traces) cannot be created.",
        )
        .with_step("modprobe tun (in a container: --device /dev/net/tun)")
        .with_step("chmod 666 /dev/net/tun"),
    }
}

fn nf_tables(facts: &HostFacts) -> Finding {
    let id = FindingId::LabNfTables;
    match &facts.lab.nf_tables {
        Ok(true) => Finding::ok(id, "the kernel has nf_tables"),
        Ok(false) => Finding::advice(
            id,
            "the kernel has no nf_tables",
            "Routers of a lab can neither drop ICMP messages nor limit the MSS nor be middleboxes.",
        )
        .with_step("modprobe nf_tables"),
        Err(reason) => Finding::not_examined(id, reason).with_step("Run it as root."),
    }
}

fn netem(facts: &HostFacts) -> Finding {
    let id = FindingId::LabNetem;
    match &facts.lab.netem {
        Ok(true) => Finding::ok(id, "the kernel has netem"),
        // `engine = "auto"` then takes the other engine: nothing is lost.
        Ok(false) => {
            Finding::ok(id, "the kernel has no netem: links with delay or loss use the emulated engine")
        }
        Err(reason) => Finding::not_examined(id, reason).with_step("Run it as root."),
    }
}
