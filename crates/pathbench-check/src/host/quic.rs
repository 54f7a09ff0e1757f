//! UDP sockets, as QUIC uses them.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};

/// The socket buffer that QUIC libraries request (quic-go, quiche): 7.5 MB.
const WANTED_BYTES: u64 = 7_500_000;
/// Below this size a burst at 1 Gbit/s overflows within 10 ms of scheduling delay.
const SMALL_BYTES: u64 = 1_000_000;

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    vec![buffers(facts), segmentation(facts)]
}

fn buffers(facts: &HostFacts) -> Finding {
    let id = FindingId::UdpBuffers;
    let (Some(receive), Some(send)) = (facts.number("net.core.rmem_max"), facts.number("net.core.wmem_max"))
    else {
        return Finding::not_examined(
            id,
            "net.core.rmem_max and net.core.wmem_max do not exist in this network namespace",
        )
        .with_step("sysctl net.core.rmem_max net.core.wmem_max (in the machine's network namespace)");
    };
    let found = format!("net.core.rmem_max is {receive}, net.core.wmem_max is {send}");
    if receive.min(send) >= SMALL_BYTES {
        return Finding::ok(id, found);
    }
    Finding::advice(
        id,
        found,
        "A QUIC socket cannot have a larger buffer: above about 100 Mbit/s it overflows whenever the program is late, and \
         packets are lost on this host.",
    )
    .with_step(format!("sysctl -w net.core.rmem_max={WANTED_BYTES} net.core.wmem_max={WANTED_BYTES}"))
}

fn segmentation(facts: &HostFacts) -> Finding {
    let id = FindingId::UdpGso;
    if facts.udp_gso {
        return Finding::ok(id, "UDP sockets accept UDP_SEGMENT");
    }
    Finding::advice(
        id,
        "UDP sockets reject UDP_SEGMENT",
        "QUIC sends each packet with a system call of its own, which limits its rate.",
    )
    .with_step("Boot Linux 4.18 or later, without a sandbox that hides it.")
}
