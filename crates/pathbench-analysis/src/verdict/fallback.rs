//! Why a connection that asked for MPTCP is plain TCP.

use super::VerdictInput;
use pathbench_record::connection::{FallbackReason, Negotiation};

/// Counter at either end → what it means. The first that rose explains the fallback.
const MID_LIFE: &[(&str, &str)] = &[
    (
        "DataCsumErr",
        "data checksums did not match, so something on the way changes the payload (a proxy, an application gateway)",
    ),
    (
        "DSSCorruptionFallback",
        "a data mapping (DSS option) was corrupt, so something on the way rewrites TCP options",
    ),
    (
        "InfiniteMapTx",
        "this end went over to an infinite mapping after data had arrived that could not be mapped",
    ),
    (
        "InfiniteMapRx",
        "the peer went over to an infinite mapping after data had arrived that could not be mapped",
    ),
    ("MPFailRx", "the peer reported corrupt data (MP_FAIL)"),
    ("MPFailTx", "corrupt data was reported to the peer (MP_FAIL)"),
    (
        "DSSNoMatchTCP",
        "data did not match its mapping, so something on the way splits, joins or rewrites segments",
    ),
    (
        "DssFallback",
        "data arrived without its mapping (DSS option), so something on the way strips TCP options",
    ),
];

pub(super) fn reason(input: &VerdictInput) -> String {
    let Negotiation::FellBack { reason } = input.negotiation else {
        return "no connection was established, so nothing could be negotiated".to_owned();
    };
    match reason {
        FallbackReason::PeerAskedForPlainTcp => {
            "the connecting end asked for plain TCP, or its MP_CAPABLE option was removed on the way"
                .to_owned()
        }
        FallbackReason::InHandshake => format!("fell back to plain TCP: {}", handshake(input)),
        FallbackReason::InMidLife => format!("fell back to plain TCP in mid-connection: {}", mid_life(input)),
    }
}

fn handshake(input: &VerdictInput) -> String {
    const AGAIN: &str = "`sysctl net.mptcp.blackhole_timeout=0` as root switches MPTCP on again at once";
    if input.rose("MPCapableSYNTXDisabled") {
        return format!(
            "the kernel did not even ask, because an earlier connection found SYNs with MP_CAPABLE dropped on the \
             way; the whole network namespace is without outgoing MPTCP for net.mptcp.blackhole_timeout (3600 s by \
             default); {AGAIN}"
        );
    }
    if input.rose("MPCapableSYNTXDrop") || input.rose("Blackhole") {
        let consequence = if input.rose("Blackhole") {
            format!(
                "; the kernel has taken that for a black hole, and later connections of this network namespace \
                 do not ask for MPTCP either, for 3600 s by default; {AGAIN}"
            )
        } else {
            String::new()
        };
        return format!(
            "SYNs with MP_CAPABLE were dropped on the way to the peer while one without got through: a firewall or \
             middlebox blocks MPTCP (TCP option 30){consequence}"
        );
    }
    for (counter, meaning) in [
        ("MPFallbackTokenInit", "no unused token could be found for the connection"),
        ("MD5SigFallback", "TCP MD5 signatures are in use, which exclude MPTCP"),
        ("SimultConnectFallback", "both ends opened the connection at the same moment"),
    ] {
        if input.any_rose(&[counter]) {
            return meaning.to_owned();
        }
    }
    if input.rose_at_peer("MPCapableFallbackACK") {
        return "the peer agreed, but its answer or our third packet lost the MP_CAPABLE option on the way: a \
                middlebox removes TCP option 30"
            .to_owned();
    }
    if input.any_rose(&["DataCsumErr", "MPCapableDataFallback", "DSSNoMatchTCP", "DssFallback"]) {
        return mid_life(input);
    }
    "the peer did not answer MP_CAPABLE: its program listens on a plain TCP socket, its kernel has no MPTCP or has \
     net.mptcp.enabled=0, or a middlebox removes TCP option 30"
        .to_owned()
}

fn mid_life(input: &VerdictInput) -> String {
    MID_LIFE
        .iter()
        .find(|(counter, _)| input.any_rose(&[counter]))
        .map_or("the counters of this host do not say why", |(_, meaning)| *meaning)
        .to_owned()
}
