//! The kernel's MPTCP counters since the start of the network namespace. Counters of the past prove no present fault: they
//! are advice, and `pathbench check SERVER` measures their change.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};
use pathbench_host::counters::KernelCounters;

/// The mid-connection and handshake fallbacks.
const FALLBACKS: [&str; 4] =
    ["MPCapableFallbackSYNACK", "MPCapableFallbackACK", "MPCapableDataFallback", "DssFallback"];
/// A fallback in this share of the connections is worth a look.
const NOTABLE_SHARE: f64 = 0.1;
/// A join needs the address, the device, the peer's agreement and its token.
const JOIN_ERRORS: [(&str, &str); 7] = [
    ("MPJoinSynTxBindErr", "the endpoint's address is not on this host"),
    ("MPJoinSynTxConnectErr", "no route from the endpoint's address, or its interface is down"),
    ("MPJoinSynTxCreatSkErr", "the kernel could not create a socket"),
    ("MPJoinRejected", "this host's subflow limit rejected it"),
    ("MPJoinNoTokenFound", "it reached the wrong host, or after the end of the connection"),
    ("MPJoinSynAckHMacFailure", "the peer's HMAC was wrong: a middlebox changed the handshake"),
    ("MPJoinAckHMacFailure", "the peer's HMAC was wrong: a middlebox changed the handshake"),
];

fn value(counters: &KernelCounters, name: &str) -> i64 {
    counters.get(&format!("MPTcpExt.{name}")).unwrap_or(0)
}

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let counters = match &facts.counters {
        Ok(counters) => counters,
        Err(reason) => return vec![Finding::not_examined(FindingId::MptcpFallback, reason)],
    };
    let mut findings = vec![blackhole(facts, counters), fallbacks(counters), joins(counters)];
    findings.extend(reverse_path_drops(facts, counters));
    findings
}

fn blackhole(facts: &HostFacts, counters: &KernelCounters) -> Finding {
    let id = FindingId::MptcpBlackhole;
    let (detected, suspended) = (value(counters, "Blackhole"), value(counters, "MPCapableSYNTXDisabled"));
    let timeout_s = facts.number("net.mptcp.blackhole_timeout");
    match timeout_s {
        None => return Finding::ok(id, "this kernel has no blackhole detection (Linux 6.12 and later)"),
        Some(0) => return Finding::ok(id, "blackhole detection is off (net.mptcp.blackhole_timeout is 0)"),
        Some(_) if detected == 0 && suspended == 0 => {
            return Finding::ok(id, "no path dropped SYN packets with MP_CAPABLE");
        }
        Some(_) => {}
    }
    let timeout_s = timeout_s.unwrap_or_default();
    let found = format!("Blackhole is {detected}, MPCapableSYNTXDisabled is {suspended}");
    let dropped = "A path dropped SYN packets with MP_CAPABLE, or every packet for some seconds.";
    let finding = match facts.suspended {
        Some(false) => {
            return Finding::ok(id, "MPTCP is in use again after a path dropped SYN packets with MP_CAPABLE");
        }
        Some(true) => Finding::problem(
            id,
            format!("the kernel has suspended MPTCP: it sends SYN packets without MP_CAPABLE ({found})"),
            format!(
                "{dropped} New connections of this network namespace are plain TCP, to every server, for {timeout_s} s after \
                 the first detection and longer after further ones.",
            ),
        ),
        None => Finding::advice(
            id,
            found,
            format!(
                "{dropped} The kernel then opened {suspended} connections of this network namespace without MPTCP, for \
                 {timeout_s} s after the first detection and longer after further ones. It may still do so.",
            ),
        ),
    };
    finding.with_step(format!(
        "To end the suspension, write the timeout again: sysctl -w net.mptcp.blackhole_timeout={timeout_s}"
    ))
}

fn fallbacks(counters: &KernelCounters) -> Finding {
    let id = FindingId::MptcpFallback;
    let sum: i64 = FALLBACKS.iter().map(|name| value(counters, name)).sum();
    let opened = value(counters, "MPCapableSYNTX") + value(counters, "MPCapableSYNRX");
    let found = format!("{sum} of {opened} MPTCP connections fell back to TCP");
    if sum == 0 || (sum as f64) < NOTABLE_SHARE * opened as f64 {
        return Finding::ok(id, found);
    }
    let shown = FALLBACKS.iter().filter(|name| value(counters, name) > 0);
    let shown: Vec<String> = shown.map(|name| format!("{name} {}", value(counters, name))).collect();
    Finding::advice(
        id,
        format!("{found}: {}", shown.join(", ")),
        "MPCapableFallbackSYNACK: the server has no MPTCP, or a middlebox removed MP_CAPABLE. MPCapableFallbackACK: a client's \
         options did not arrive. MPCapableDataFallback and DssFallback: a middlebox removed or changed MPTCP options later.",
    )
    .with_step("pathbench check SERVER")
}

fn joins(counters: &KernelCounters) -> Finding {
    let id = FindingId::JoinFailures;
    let failures: Vec<String> = JOIN_ERRORS
        .iter()
        .map(|(name, why)| (name, value(counters, name), why))
        .filter(|(_, count, _)| *count > 0)
        .map(|(name, count, why)| format!("{name} {count} ({why})"))
        .collect();
    let sent = value(counters, "MPJoinSynTx");
    let answered = value(counters, "MPJoinSynAckRx");
    let mut found = format!("{answered} of {sent} joins of this host were answered");
    if failures.is_empty() && sent - answered <= sent / 2 {
        return Finding::ok(id, found);
    }
    if !failures.is_empty() {
        found = format!("{found}; {}", failures.join(", "));
    }
    Finding::advice(
        id,
        found,
        "Some subflows were not established since the start of this network namespace.",
    )
    .with_step("pathbench check SERVER")
}

fn reverse_path_drops(facts: &HostFacts, counters: &KernelCounters) -> Option<Finding> {
    let id = FindingId::RpFilterDrops;
    let dropped = counters.get("TcpExt.IPReversePathFilter")?;
    let keys = facts.settings.keys().filter(|key| key.ends_with(".rp_filter"));
    let strict = keys.filter_map(|key| facts.number(key)).any(|value| value == 1);
    if dropped == 0 {
        return Some(Finding::ok(id, "reverse path filtering dropped no packet"));
    }
    let found = format!("reverse path filtering dropped {dropped} packets");
    if !strict {
        return Some(Finding::ok(id, found));
    }
    let meaning = "Packets arrived on an interface by which the kernel would not send the answer.";
    Some(
        Finding::advice(id, found, meaning)
            .with_step("nstat -az TcpExtIPReversePathFilter (does it increase during a transfer?)"),
    )
}
