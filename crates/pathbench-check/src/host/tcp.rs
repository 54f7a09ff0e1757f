//! Congestion control, buffers and offloads.

use crate::buffers::{buffer_limits, in_bytes, rate};
use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};
use pathbench_record::network::AddressFamily;
use std::collections::BTreeSet;

/// The round-trip time of the bandwidth-delay product where none is measured: a server on the same continent.
const ASSUMED_RTT_MS: u64 = 20;
/// From this speed on a processor notices missing offloads.
const FAST_BPS: u64 = 1_000_000_000;

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = vec![congestion_control(facts), buffers(facts)];
    findings.extend(offloads(facts));
    findings
}

fn congestion_control(facts: &HostFacts) -> Finding {
    let id = FindingId::CongestionControl;
    match facts.setting("net.ipv4.tcp_congestion_control") {
        Some(default) => {
            let allowed = facts.setting("net.ipv4.tcp_allowed_congestion_control").unwrap_or(default);
            Finding::ok(id, format!("{default}; ordinary users can select {}", allowed.replace(' ', ", ")))
        }
        None => Finding::not_examined(id, "net.ipv4.tcp_congestion_control could not be read"),
    }
}

/// The indexes of the interfaces that are paths, and hardware: virtual interfaces report speeds of their own invention.
fn hardware_paths(facts: &HostFacts) -> BTreeSet<u32> {
    let families = AddressFamily::ALL.into_iter();
    let paths = families.flat_map(|family| facts.paths(family));
    paths.filter(|path| path.link.kind.is_none()).map(|path| path.link.index).collect()
}

fn buffers(facts: &HostFacts) -> Finding {
    let id = FindingId::TcpBuffers;
    let Some(limits) = buffer_limits(facts) else {
        return Finding::not_examined(id, "net.ipv4.tcp_rmem and tcp_wmem could not be read");
    };
    let found =
        format!("at most {} to receive, {} to send", in_bytes(limits.receive[2]), in_bytes(limits.send[2]));
    let speed_bps: u64 =
        hardware_paths(facts).into_iter().filter_map(|index| facts.device(index).speed_bps).sum();
    let product = speed_bps / 8 * ASSUMED_RTT_MS / 1_000;
    let steps = [limits.receive_step(product), limits.send_step(product)];
    if steps.iter().all(Option::is_none) {
        return Finding::ok(id, found);
    }
    let meaning = format!(
        "The paths of this host add up to {}; at an RTT of {ASSUMED_RTT_MS} ms (assumed) the bandwidth-delay product is {}. \
         An MPTCP connection shares one buffer among its subflows, and half of a receive buffer is its window.",
        rate(speed_bps),
        in_bytes(product)
    );
    Finding::advice(id, found, meaning).with_steps(steps.into_iter().flatten())
}

fn offloads(facts: &HostFacts) -> Vec<Finding> {
    let id = FindingId::Offloads;
    let mut findings = Vec::new();
    for index in hardware_paths(facts) {
        let device = facts.device(index);
        // Without a speed it is Wi-Fi or a modem, whose rate does not load a processor.
        if device.speed_bps.is_none_or(|bps| bps < FAST_BPS) {
            continue;
        }
        let name = facts.name(index);
        let Some(features) = device.features else {
            let reason = format!("the kernel does not report the offloads of {name} (Linux 5.6 and later)");
            findings.push(
                Finding::not_examined(id, reason).with_subject(&name).with_step(format!("ethtool -k {name}")),
            );
            continue;
        };
        let named = [("gso", features.gso), ("tso", features.tso), ("gro", features.gro)];
        let off: Vec<&str> = named.iter().filter(|(_, on)| !on).map(|(name, _)| *name).collect();
        findings.push(if off.is_empty() {
            Finding::ok(id, "gso, tso and gro are on").with_subject(name)
        } else {
            let set: Vec<String> = off.iter().map(|feature| format!("{feature} on")).collect();
            Finding::advice(
                id,
                format!("{} off on {name}", off.join(", ")),
                "The processor handles each packet separately, which limits the rate of a connection.",
            )
            .with_step(format!("ethtool -K {name} {}", set.join(" ")))
            .with_subject(name)
        });
    }
    findings
}
